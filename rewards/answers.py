"""From what a trainer hands over to one answer per question.

    <reasoning> … </reasoning>
    <answer>
    assert f(1.1, 2) == 1
    return ans
    1; int
    </answer>

Covers the text of a completion in any container (`text_of`), special tokens, reasoning in and out of
tags, the last complete `<answer>` block after the reasoning, code fences around and in the answer,
and its logical lines. Only the completion is looked at: a trainer that hands over prompt and
completion in one text removes the prompt first (`without_prompt`).

Not covered: what an answer is worth (`rewards.grading`); how a program is cut out of a unit-test
answer (`rewards.unittests`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rewards.lexing import logical_lines

__all__ = ["Extracted", "Fenced", "code_of", "extract", "fenced", "text_of", "without_prompt"]

MAX_ANSWER_CHARS = 50_000
"""A longer answer counts as none: nobody wrote it, and it costs time to read."""


class Extracted(NamedTuple):
    """The answer of one completion."""

    status: str
    """`found`, `no_answer`, or `truncated`: the completion stops within its reasoning or answer."""
    answer: str = ""
    """What stands between the tags, line ends `\\n`, without white space around it."""
    lines: tuple[str, ...] = ()
    """Its logical lines, fence markers removed; see `aligned` for the other reading."""
    well_formed: bool = False
    """The completion has the form that was asked for: reasoning, then one answer, and no more."""

    def aligned(self, count: int) -> tuple[str, ...]:
        """The answers, given how many there should be.

        Logical lines; if those are not `count`, but the physical lines are, these: a statement's
        first line may leave a bracket open that a later answer happens to close.
        """
        if len(self.lines) == count or self.answer.count("\n") < count - 1:
            return self.lines
        text, _ = _without_markers(self.answer)
        physical = tuple([line for line in text.split("\n") if line.strip()])
        return physical if len(physical) == count else self.lines


# ---------------------------------------------------------------------------------------------
# The text of a completion


def text_of(completion: object) -> str | None:
    """The text that the model wrote, or None if there is none.

    `completion` is a str, a message (mapping or object with `content`), a list of messages (the last
    one by the assistant counts), a list of content blocks (those of text), or None. Reasoning that a
    server put elsewhere in the message is not looked at.
    """
    if completion is None or isinstance(completion, str):
        return completion
    if isinstance(completion, Mapping):
        if "content" in completion:
            return text_of(completion["content"])
        kind = completion.get("type", "text")
        text = completion.get("text")
        return text if isinstance(text, str) and kind in _TEXT_BLOCKS else None
    if isinstance(completion, Sequence) and not isinstance(completion, (bytes, bytearray)):
        items = list(completion)
        messages = [item for item in items if _role(item) is not None]
        if messages:
            own = [item for item in messages if _role(item) == "assistant"]
            return text_of(own[-1]) if own else None
        if len(items) == 1:
            return text_of(items[0])
        if any(_is_message(item) for item in items):
            return text_of(items[-1])
        texts = [text_of(item) for item in items]
        found = [text for text in texts if text is not None]
        return "".join(found) if found else None
    if hasattr(completion, "tolist"):  # an array
        return text_of(completion.tolist())
    for name in ("content", "text"):
        inner = getattr(completion, name, None)
        if inner is not None and inner is not completion:
            return inner if isinstance(inner, str) else text_of(inner)
    return None


_TEXT_BLOCKS = ("text", "output_text")


def _role(item: object) -> str | None:
    role = item.get("role") if isinstance(item, Mapping) else getattr(item, "role", None)
    return role if isinstance(role, str) else None


def _is_message(item: object) -> bool:
    return isinstance(item, Mapping) and "content" in item


def without_prompt(query: str, prompt: str) -> str:
    """The completion in a text that begins with its prompt; `query` itself if it does not."""
    return query[len(prompt) :] if prompt and query.startswith(prompt) else query


_SPECIAL = re.compile(
    r"<\|[A-Za-z0-9_ .:-]{1,40}\|>|<\uff5c[^<>]{1,40}\uff5c>|</?s>|<(?:eos|bos|pad|unk)>"
    r"|<(?:start|end)_of_turn>|\[(?:PAD|EOS|BOS|/INST)\]"
)
_BLANK = " \t\n\r\f\v\ufeff\u200b\u00a0"
_LONGEST_SPECIAL = 60


def _trimmed(text: str) -> str:
    """`text` without white space and special tokens before and after it."""
    text = text.strip(_BLANK)
    if not text or (text[-1] not in ">]" and text[0] not in "<["):
        return text
    start, end = 0, len(text)
    while True:
        while start < end and text[end - 1] in _BLANK:
            end -= 1
        if start == end or text[end - 1] not in ">]":
            break
        low = max(start, end - _LONGEST_SPECIAL)
        begin = text.rfind("<" if text[end - 1] == ">" else "[", low, end)
        if begin < 0 or not _SPECIAL.fullmatch(text, begin, end):
            break
        end = begin
    while True:
        while start < end and text[start] in _BLANK:
            start += 1
        found = _SPECIAL.match(text, start, end) if text[start : start + 1] in ("<", "[") else None
        if found is None:
            break
        start = found.end()
    return text[start:end]


# ---------------------------------------------------------------------------------------------
# The answer


_TAG = re.compile(r"<(/?)(answer|think|thinking|thought|reasoning)>")
_ANY_TAG = re.compile(
    r"[<\[] ?(/?) ?(answer|think|thinking|thought|reasoning|seed:think) ?[>\]]", re.IGNORECASE
)
_NO_TAG = r"[^<]*(?:<(?!/?(?:answer|think|thinking|thought|reasoning)>)[^<]*)*"
_ASKED_FORM = re.compile(
    rf"[ \t\n]*<(reasoning|think|thinking|thought)>{_NO_TAG}</\1>\s*<answer>({_NO_TAG})</answer>[ \t\n]*"
)
"""The form that prompts ask for and nearly all completions have; what it says takes no scan."""
_FINAL_CHANNEL = "<|channel|>final<|message|>"
_MARKED_ANSWER = re.compile(r"^[ \t*]*(?:final )?answer[ *]*:[ *]*(\S.*)$", re.I | re.M)


def extract(
    text: str | None, *, answer_first: bool = False, marked: bool = False, truncated: bool = False
) -> Extracted:
    """The last complete `<answer>` block of a completion after its reasoning.

    `answer_first` also takes a block that stands before the reasoning; `marked` also takes the last
    line `Answer: …` of a completion without any block. `truncated` says that the server stopped the
    completion for its length: without an answer it is then `truncated`. Never raises.
    """
    text = "" if text is None else text
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    asked = _asked_form(text)
    if asked is not None:
        return _found(_trimmed(asked), True)
    if "<|channel|>" in text:
        _, final, text = text.rpartition(_FINAL_CHANNEL)
        if not final:
            return Extracted("truncated")  # still in its analysis
    any_tag = "[THINK]" in text or "seed:think" in text
    form = None if any_tag else _ASKED_FORM.fullmatch(text)
    if form is not None:
        return _found(_trimmed(form.group(2)), True)
    text = _trimmed(text)
    scan = _Scan(text, _ANY_TAG if any_tag else _TAG)
    block = scan.answer(answer_first)
    if (
        block is None
    ):  # the asked form first: looking for any case and spacing takes ten times as long
        scan = _Scan(text, _ANY_TAG)
        block = scan.answer(answer_first)
    if block is None:
        found = _MARKED_ANSWER.findall(text) if marked and not scan.unfinished else []
        if not found:
            return Extracted("truncated" if truncated or scan.unfinished else "no_answer")
        return _found(_trimmed(found[-1]).strip("*"), False)
    return _found(_trimmed(text[block[0] : block[1]]), scan.well_formed(block))


def _asked_form(text: str) -> str | None:
    """What stands between the answer tags of the plainest form there is; None for all others.

    One reasoning without a `<` in it, one answer without a tag in it, nothing around them. What this
    says the patterns and the scan say as well, in four times the time.
    """
    parts = text.split("<", 3)
    if len(parts) != 4 or parts[0]:
        return None
    _, reasoning, closing, rest = parts
    name = closing.rstrip()[1:]
    rest = rest.rstrip(" \t\n")
    if (
        name not in ("reasoning>", "think>")
        or closing[0] != "/"
        or not reasoning.startswith(name)
        or not rest.startswith("answer>")
        or not rest.endswith("</answer>")
        or ("K" in text and "[THINK]" in text)  # the one tag without a `<`
    ):
        return None
    answer = rest[len("answer>") : -len("</answer>")]
    if "<" in answer and ("<|" in answer or _ANY_TAG.search(answer)):
        return None
    return answer


def _found(answer: str, well_formed: bool) -> Extracted:
    if len(answer) > MAX_ANSWER_CHARS:
        return Extracted("no_answer")
    lines = logical_lines(_without_markers(answer)[0])
    return Extracted("found", answer, lines, well_formed)


class _Scan:
    """The tags of one text: answer blocks and where the reasoning ends."""

    def __init__(self, text: str, pattern: re.Pattern[str]) -> None:
        self.text = text
        self.blocks: list[tuple[int, int]] = []  # (start, end) of what answer tags enclose
        self.open_answer = -1  # where an answer begins that is not closed
        reasoning: list[tuple[int, int, bool, str]] = []  # (start, end, closes, name)
        inside: list[tuple[int, int, bool, str]] = []
        for found in pattern.finditer(text):
            closes, name = bool(found.group(1)), found.group(2).lower()
            square = found.group()[0] == "["
            if self._is_quoted(found) or square != (found.group()[-1] == "]"):
                continue
            if square and name != "think":
                continue
            if name != "answer":
                (reasoning if self.open_answer < 0 else inside).append(
                    (found.start(), found.end(), closes, name)
                )
            elif not closes:
                # Tags since the last opening stand in prose that mentions an answer tag.
                reasoning += inside
                inside = []
                self.open_answer = found.end()
            elif self.open_answer >= 0:
                self.blocks.append((self.open_answer, found.start()))
                self.open_answer, inside = -1, []
        reasoning += inside
        closings = [end for _, end, closes, _ in reasoning if closes]
        self.reasoned = closings[-1] if closings else 0
        """Where the last reasoning ends; 0 without any."""
        self.openings = [tag for tag in reasoning if not tag[2]]
        self.left_open = self._left_open()
        if self.open_answer >= 0 and self.open_answer <= self.reasoned:
            self.open_answer = -1

    def _is_quoted(self, found: re.Match[str]) -> bool:
        """A tag in quotes or back-ticks is spoken of, or stands in a string value."""
        start, end = found.span()
        before, after = self.text[start - 1 : start], self.text[end : end + 1]
        return before == after and before in ("'", '"', "`")

    def _left_open(self) -> str | None:
        """The name of a reasoning tag that opens a line after the last reasoning and is not closed."""
        before = 0
        for start, end, _, name in self.openings:
            line = self.text.rfind("\n", before, start) + 1
            # On the line of an earlier opening it opens no line: nothing is looked at twice.
            opens = not before or line > 0
            if opens and start >= self.reasoned and not self.text[line:start].strip():
                return name
            before = end
        return None

    def answer(self, answer_first: bool) -> tuple[int, int] | None:
        fitting = self.blocks
        if not answer_first:
            fitting = [block for block in fitting if block[0] >= self.reasoned]
        if not fitting:
            return None
        last = fitting[-1]
        if self.left_open is None or answer_first:
            return last
        # `<reasoning>` is text that a model may forget to close; a think block that is left open
        # means that the completion was cut, and what stands in it is a draft.
        ends = not self.text[last[1] + len("</answer>") :].strip()
        return last if ends and self.left_open == "reasoning" else None

    @property
    def unfinished(self) -> bool:
        return self.left_open is not None or self.open_answer >= 0

    def well_formed(self, block: tuple[int, int]) -> bool:
        """One reasoning at most, then this one answer, and nothing else."""
        start, end = block[0] - len("<answer>"), block[1] + len("</answer>")
        if len(self.blocks) > 1 or self.text[start : block[0]] != "<answer>":
            return False
        if self.text[end:].strip() or self.text[self.reasoned : start].strip():
            return False
        if len(self.openings) > 1 or (self.reasoned and self.left_open is not None):
            return False
        return not self.openings or self.openings[0][0] == 0


# ---------------------------------------------------------------------------------------------
# Fences


@dataclass(frozen=True)
class Fenced:
    """A text with fenced blocks: what stands in them and what around them."""

    blocks: tuple[str, ...]
    around: str


_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(?:([A-Za-z][\w.+#-]*)[ \t]*)?$")
_INLINE_LANGUAGE = re.compile(r"(?:python3?|py)(?=\s)")


def _inline(text: str) -> str | None:
    """What stands in a text of one line that is all in back-ticks, as many behind as in front."""
    count = len(text) - len(text.lstrip("`"))
    if count == 0 or len(text) <= 2 * count or not text.endswith("`" * count):
        return None
    inner = text[count:-count]
    language = _INLINE_LANGUAGE.match(inner)
    if language:
        inner = inner[language.end() :]
    code = inner.lstrip()
    if not code or code[0] == "`":  # then the last of the white space is code, too
        code = inner[len(inner) - len(code) - 1 :]
    return code.rstrip() or code


def fenced(text: str) -> Fenced:
    """The fenced blocks of `text`; a fence closes with at least as many marks as it opened."""
    blocks: list[str] = []
    around: list[str] = []
    inside: list[str] | None = None
    mark = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if inside is None:
            if found:
                inside, mark = [], found.group(1)
            else:
                around.append(line)
        elif found and not found.group(2) and found.group(1).startswith(mark):
            blocks.append("\n".join(inside))
            inside = None
        elif line.rstrip().endswith(mark) and not line.strip().startswith(mark[0]):
            inside.append(line.rstrip()[: -len(mark)].rstrip(mark[0]))
            blocks.append("\n".join(inside))
            inside = None
        else:
            inside.append(line)
    if inside is not None:  # the answer ends within the fence: its tag has closed it
        blocks.append("\n".join(inside))
    return Fenced(tuple(blocks), "\n".join(around))


def _without_markers(answer: str) -> tuple[str, bool]:
    """The answer without the lines that open and close fences, and whether there were any."""
    if "```" not in answer and "~~~" not in answer:
        return answer, False
    inline = _inline(answer) if "\n" not in answer else None
    if inline is not None:
        return inline, True
    lines: list[str] = []
    mark = ""
    for line in answer.split("\n"):
        found = _FENCE.match(line)
        if found and (not mark or (not found.group(2) and found.group(1).startswith(mark))):
            mark = "" if mark else found.group(1)
        elif mark and line.rstrip().endswith(mark) and not line.strip().startswith(mark[0]):
            lines.append(line.rstrip()[: -len(mark)].rstrip(mark[0]))
            mark = ""
        else:
            lines.append(line)
    return "\n".join(lines), True


def code_of(answer: str) -> str:
    """The answer as one piece of Python: what stands in its fences, or all of it without any."""
    if "`" not in answer and "~~~" not in answer:
        return answer
    if "\n" not in answer:
        inline = _inline(answer)
        return answer if inline is None else inline
    found = fenced(answer)
    return "\n".join(found.blocks) if found.blocks else answer
