"""From a completion to the program in it: the candidate of a `unittest` task.

Covers what stands in the `<answer>` block (`rewards.answers` finds it), Markdown fences of any length
and kind, reasoning in front of a program without such a block, and which of several programs is
meant. Text is only searched, never parsed or run, in time linear in its length. Does not cover what
the program is worth (`rewards.unittests`).

Which program counts, in this order:

1. Of the last complete `<answer>` block after the reasoning, or if that holds none, of all that
   follows the reasoning:
2. of the complete fenced blocks those marked as Python, else those without a mark; other languages
   never count. Of these the last that defines the asked function or, in a task on standard input and
   output, the last that prints; if none does, the last.
3. Without fences the text itself, if it begins like a program.

*Truncated* is a completion that was cut: reasoning, an `<answer>` or a fence was opened and never
closed, and no complete program stands after the reasoning. *No answer* is one that ended without a
program.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from typing import Literal

from rewards.answers import extract

__all__ = [
    "MAX_PROGRAM_CHARS",
    "Candidate",
    "Prelude",
    "callable_program",
    "defines",
    "find_program",
    "may_loop",
]

MAX_PROGRAM_CHARS = 200_000
"""A longer program is not run."""

Prelude = Literal["solution", "always", "never"]
"""Which programs find the usual names imported: see `rewards.cases.TestPolicy`."""

# The line is looked at to its end once: no shorter run of marks is tried, nor a shorter language.
_FENCE = re.compile(r"^([ \t]*)(`{3,}(?!`)|~{3,}(?!~))(?=[^`\n]*$)[ \t]*([^\s`{]*)")
_REASONED = re.compile(r"</(?:think|thinking|thought|reasoning)>", re.IGNORECASE)
_REASONS = re.compile(
    r"^[ \t]*<(?:think|thinking|thought|reasoning)>", re.IGNORECASE | re.MULTILINE
)
_END_TOKEN = re.compile(
    r"(?:<\|[^<>|]{1,40}\|>|<\uff5c[^<>]{1,40}\uff5c>|</s>|<eos>|<end_of_turn>)\Z"
)
_FUTURE = re.compile(r"^from[ \t]+__future__[ \t]+import[ \t]+", re.M)
_REST_OF_LINE = re.compile(r"[^\n;]*$", re.M)
_BLANK_REST = re.compile(r"[ \t]*$", re.M)
_TESTED = "__tested__"
_PRELUDE = """\
from typing import *
from collections import *
from itertools import *
from functools import *
from heapq import *
from bisect import *
from math import *
from builtins import *
import bisect, collections, functools, heapq, itertools, math, re, string, typing
"""
_PYTHON = frozenset(("python", "py", "python3", "py3", "python2"))
_ENDLESS = re.compile(r"\b(?:while|count|cycle|repeat|sleep|iter)\b")
_PRINTS = re.compile(r"\bprint\b|\bwrite(?:lines)?\b")
_CODE_LINE = re.compile(
    r"\s*(?:from\s+[\w.]+\s+import\b|import\s+\w|(?:async\s+)?def\s+\w+\s*\(|class\s+\w+\s*[:(]|@\w|#"
    r"|(?:if|for|while|with|try)\b.*:|print\s*\(|[A-Za-z_][\w.,\s\[\]]*=[^=]|[A-Za-z_][\w.]*\(.*\)\s*$)"
)


@dataclass(frozen=True)
class Candidate:
    """The program of a completion, or why there is none."""

    status: Literal["found", "no_answer", "truncated"]
    code: str = ""
    reason: str = ""
    well_formed: bool = False
    """Whether the completion has the form that was asked for, and the program stands in its answer."""


@dataclass(frozen=True)
class _Block:
    language: str
    code: str


def find_program(text: str | None, entry: str | None) -> Candidate:
    """The candidate in `text`.

    Args:
        text: the completion alone, without the prompt; None if there is none.
        entry: name of the function that the tests call; None for a program on stdin and stdout.

    """
    if text is None or not text.strip():
        return Candidate("no_answer", reason="the completion is empty")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    found = extract(text)
    code, cut = None, found.status == "truncated"
    if found.status == "found":
        code, _ = _program(_with_indentation(text, found.answer), entry)
    formed = code is not None and found.well_formed
    if code is None:
        rest = _after_reasoning(text)
        if rest is None:
            return Candidate("truncated", reason="the reasoning does not end")
        code, unclosed = _program(rest, entry)
        cut = cut or unclosed
    if code is None and cut:
        return Candidate("truncated", reason="the completion ends inside its answer")
    if code is None:
        return Candidate("no_answer", reason="the completion holds no Python program")
    if len(code) > MAX_PROGRAM_CHARS:
        return Candidate("no_answer", reason=f"a program of over {MAX_PROGRAM_CHARS} characters")
    return Candidate("found", code, well_formed=formed)


def _with_indentation(text: str, answer: str) -> str:
    """The answer with the white space before its first line, which may be a program's."""
    # From behind: unlike `rfind`, `find` takes linear time for every text.
    behind = text[::-1].find(answer[::-1])
    start = len(text) - len(answer) - behind if behind >= 0 else 0
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    return before + answer if before and not before.strip() else answer


def _program(text: str, entry: str | None) -> tuple[str | None, bool]:
    """The program in a text, and whether a fence in it is left open."""
    blocks, unclosed = _blocks(text)
    code = _chosen(blocks, entry)
    if code is None and not blocks and not unclosed and _begins_like_code(text):
        code = textwrap.dedent(text).strip("\n") + "\n"
    return code, unclosed


def may_loop(code: str) -> bool:
    """Whether a program has what programs that never end usually have; a guess, for speed alone."""
    return _ENDLESS.search(code) is not None


def defines(code: str, name: str) -> bool:
    """Whether a program seems to bind `name` at module level, or in its class `Solution`."""
    return _binds(code, name) or _solution_has(code, name)


def callable_program(code: str, entry: str | None, prelude: Prelude) -> tuple[str, str | None]:
    """The program to run and the name to call in it; nothing to do for one on stdin and stdout."""
    if entry is None:
        return code, None
    method = _is_method(code, entry)
    if prelude == "always" or (method and prelude == "solution"):
        code = _with_prelude(code)
    if method:
        return f"{code}\n\n{_TESTED} = Solution().{entry}\n", _TESTED
    return code, entry


def _with_prelude(code: str) -> str:
    place = _after_futures(code)
    if not place and "__future__" in code:
        return code  # somewhere in the way: nothing may stand before it
    return f"{code[:place]}{_PRELUDE}{code[place:]}"


def _after_futures(code: str) -> int:
    """Where the line after the last import from `__future__` begins; 0 without one.

    An import ends with its line or, in parentheses, with that of the next closing one. That is looked
    for once, however many imports stand in front of it.
    """
    last = place = 0
    close, blank = -1, None
    while found := _FUTURE.search(code, place):
        place, end = found.end(), None
        if code[place : place + 1] == "(":
            if close <= place:
                close = code.find(")", place) + 1 or len(code) + 1
                blank = _BLANK_REST.match(code, close) if close <= len(code) else None
            end = blank
        end = end or _REST_OF_LINE.match(code, place)
        if end is not None:
            place = end.end()
            last = place + 1
    return last


def _is_method(code: str, name: str) -> bool:
    """Whether `name` is meant to be called as `Solution().name`, as on LeetCode."""
    if _solution_has(code, name):
        return True
    # Perhaps inherited.
    return not _binds(code, name) and re.search(r"^class\s+Solution\b", code, re.M) is not None


def _binds(code: str, name: str) -> bool:
    word = re.escape(name)
    pattern = (
        rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b|^{word}[ \t]*(?::[^=\n]+)?=(?!=)"
        rf"|^(?:from|import)\b.*\b{word}\b"
    )
    return re.search(pattern, code, re.MULTILINE) is not None


def _solution_has(code: str, name: str) -> bool:
    if re.search(r"^class\s+Solution\b", code, re.MULTILINE) is None:
        return False
    pattern = (
        rf"^[ \t]+(?:(?:async[ \t]+)?def[ \t]+{re.escape(name)}\b|{re.escape(name)}[ \t]*=(?!=))"
    )
    return re.search(pattern, code, re.MULTILINE) is not None


def _after_reasoning(text: str) -> str | None:
    """What follows the reasoning; None if it does not end."""
    length = len(text.rstrip())
    while end := _END_TOKEN.search(text, max(0, length - 60), length):
        length = end.start()
        while length and text[length - 1].isspace():
            length -= 1
    text = text[:length]
    ends = [found.end() for found in _REASONED.finditer(text)]
    if _REASONS.search(text, ends[-1] if ends else 0):
        return None
    # The last tag ends it. But a program may hold the tag in a string: then no program follows, and
    # an earlier one is meant.
    for place in ends[:-4:-1]:
        if _blocks(text[place:])[0]:
            return text[place:]
    return text[ends[-1] :] if ends else text


def _blocks(text: str) -> tuple[list[_Block], bool]:
    """The complete fenced blocks of a text, and whether one more was opened and never closed."""
    blocks: list[_Block] = []
    opened: tuple[str, str, str] | None = None  # indentation, fence, language
    lines: list[str] = []
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if opened is None:
            if found:
                opened, lines = (found[1], found[2], found[3].lower()), []
        elif found and _closes(line, opened[1]):
            blocks.append(_Block(opened[2], _unindented(lines, opened[0])))
            opened = None
        else:
            lines.append(line)
    return blocks, opened is not None


def _closes(line: str, fence: str) -> bool:
    mark = line.strip()
    return len(mark) >= len(fence) and set(mark) == {fence[0]}


def _unindented(lines: list[str], indent: str) -> str:
    if indent:
        lines = [line[len(indent) :] if line.startswith(indent) else line for line in lines]
    return textwrap.dedent("\n".join(lines)) + "\n"


def _chosen(blocks: list[_Block], entry: str | None) -> str | None:
    marked = [block.code for block in blocks if block.language in _PYTHON]
    codes = marked or [block.code for block in blocks if not block.language]
    codes = [code for code in codes if code.strip()]
    if entry is None:
        fitting = [code for code in codes if _PRINTS.search(code)]
    else:
        fitting = [code for code in codes if defines(code, entry)]
    fitting = fitting or codes
    return fitting[-1] if fitting else None


def _begins_like_code(text: str) -> bool:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return _CODE_LINE.match(first[:500]) is not None
