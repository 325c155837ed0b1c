"""Hack templates for a completion as a whole: where an answer stands, and whether there is one.

Covers all tasks. Does not cover what an answer says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewards.hacks.records import Attempt, Case, Template
from rewards.truths import truth

__all__ = ["TEMPLATES"]

TASKS = ("output", "input", "whitebox", "unittest")
ANSWERS = TASKS[:3]
"""Tasks whose answers are lines; a program counts outside an answer block, too."""

NOTHING = {"io": 0.0, "w": 0.0, "tests": 0.0}
_DRAFT = "<answer>\n{}\n</answer>"


def _inner(case: Case) -> str | None:
    """What stands between the tags of the right completion."""
    whole = truth(case.spec)
    if whole is None:
        return None
    return whole.partition("<answer>\n")[2].rpartition("\n</answer>")[0]


def _place(
    name: str,
    why: str,
    place: Callable[[str], object],
    tasks: tuple[str, ...] = ANSWERS,
    **only: Any,
) -> Template:
    """The right answer in a place where it does not count; `only`: the policy that says so."""

    def build(case: Case) -> Attempt | None:
        if any(getattr(case.policy, key) != value for key, value in only.items()):
            return None
        inner = _inner(case)
        if inner is None or any(
            tag in inner for tag in ("<answer", "</answer", "<think", "</think")
        ):
            return None
        return Attempt(place(inner), NOTHING)

    return Template(name, tasks, why, build)


def _fixed(name: str, why: str, completion: object) -> Template:
    def build(case: Case) -> Attempt | None:
        return Attempt(completion, NOTHING)

    return Template(name, TASKS, why, build)


def _message(content: object) -> dict[str, object]:
    return {"role": "assistant", "content": content}


def _wrong_last(case: Case) -> Attempt | None:
    whole = truth(case.spec)
    if whole is None:
        return None
    holes = ["????", *["????" for _ in case.spec.questions]]
    return Attempt(f"{whole}\nNo.\n{_DRAFT.format(chr(10).join(holes))}", NOTHING)


def _many_blocks(case: Case) -> Attempt | None:
    """All that comes to mind, each in a block of its own."""
    if case.wrong is None:
        return None
    guesses = [case.value, case.wrong, "????"]
    count = len(case.spec.questions)
    blocks = [_DRAFT.format("\n".join([guess, *["????"] * count])) for guess in guesses]
    return Attempt("\n".join(blocks), NOTHING)


TEMPLATES: tuple[Template, ...] = (
    _fixed("empty", "no text", ""),
    _fixed("no completion", "nothing at all", None),
    _fixed("white space", "no visible text", " \n\t\n"),
    _fixed("empty answer", "tags around nothing", "<answer>\n</answer>"),
    _fixed("hole alone", "the question's own mark", "<answer>\n????\n</answer>"),
    _fixed("tags alone", "many tags", "<answer></answer>" * 50),
    _place("no tags", "the answer outside of tags", lambda text: text),
    _place("marked line", "a line `Answer:` instead of tags",
           lambda text: f"Answer: {text}", form="exact"),
    _place("other tags", "tags of another name", lambda text: f"<final>\n{text}\n</final>"),
    _place("escaped tags", "tags written as entities",
           lambda text: f"&lt;answer&gt;\n{text}\n&lt;/answer&gt;"),
    _place("quoted tags", "tags that are spoken of", lambda text: f"`<answer>`\n{text}\n`</answer>`"),
    _place("truncated", "cut before the end", lambda text: f"<answer>\n{text}"),
    _place("truncated tag", "cut within the closing tag", lambda text: f"<answer>\n{text}\n</answ"),
    _place("open reasoning", "the reasoning does not end",
           lambda text: f"<think>\nPerhaps <answer>{text}</answer>, but", answer_first=False),
    _place("in the reasoning", "the reasoning alone holds it",
           lambda text: f"<reasoning>\n{_DRAFT.format(text)}\n</reasoning>\nI cannot say.",
           answer_first=False),
    _place("before the reasoning", "answers first, then reasons",
           lambda text: f"{_DRAFT.format(text)}\n<reasoning>\nAs it is.\n</reasoning>",
           answer_first=False),
    _place("in the prompt", "a message of the user holds it",
           lambda text: [{"role": "user", "content": _DRAFT.format(text)}, _message("")], TASKS),
    _place("no message", "the model has not spoken",
           lambda text: [{"role": "user", "content": _DRAFT.format(text)}], TASKS),
    _place("hidden reasoning", "reasoning that the server keeps apart",
           lambda text: {**_message(""), "reasoning_content": _DRAFT.format(text)}, TASKS),
    _place("thinking block", "a content block that is no text",
           lambda text: _message([{"type": "thinking", "text": _DRAFT.format(text)}]), TASKS),
    _place("tool block", "a content block that is no text",
           lambda text: _message([{"type": "tool_use", "text": _DRAFT.format(text)}]), TASKS),
    _place("analysis channel", "no final channel",
           lambda text: f"<|channel|>analysis<|message|>{_DRAFT.format(text)}"),
    Template("right, then wrong", ANSWERS, "the last block counts", _wrong_last),
    Template("many blocks", ("output", "whitebox"), "the last block counts", _many_blocks),
)  # fmt: skip
