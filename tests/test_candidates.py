"""Finding the program of a completion takes linear time, and finds what the plain patterns find.

Which program counts is tested with what it is worth, in `test_unittests`.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewards import candidates
from rewards.candidates import callable_program, find_program

# What says the same in one pattern each, in quadratic and in cubic time.
FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^\s`{]*)[^`\n]*$")
FUTURE = re.compile(
    r"^from[ \t]+__future__[ \t]+import[ \t]+(?:\([^)]*\)|[^\n;]*)[ \t]*$", re.MULTILINE
)
IMPORT = "from __future__ import "


def texts(*pieces: str, most: int = 12) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=most).map("".join)


@settings(max_examples=500)
@given(texts("```", "`", "~~~", "~", " ", "\t", "x", "py", "{", "é", "\x0b", "!", most=8))
def test_a_fence_is_what_the_plain_pattern_finds(line: str) -> None:
    found, plain = candidates._FENCE.match(line), FENCE.match(line)
    assert (found and found.groups()) == (plain and plain.groups())


@settings(max_examples=500)
@given(
    texts(IMPORT, "from  __future__\timport\t", *"() \t\n#a;,", "annotations", "x = 1\n", most=14)
)
@example(f"{IMPORT}(\na\n)\n{IMPORT}b\n")
@example(f"{IMPORT}(\n{IMPORT}b\n)\n")
@example(f"{IMPORT}(\n{IMPORT}(b) x\n")
@example(f"{IMPORT}(a) x")
@example(f"{IMPORT}(a)\t")
def test_what_follows_the_imports_from_the_future(code: str) -> None:
    found = list(FUTURE.finditer(code))
    assert candidates._after_futures(code) == (found[-1].end() + 1 if found else 0)


@given(texts("a", "b", "\n", " "), texts("a", "b", "\n", most=4))
def test_the_answer_is_taken_from_its_last_place(text: str, answer: str) -> None:
    before = text[: max(0, text.rfind(answer))].rpartition("\n")[2]
    expected = before + answer if before and not before.strip() else answer
    assert candidates._with_indentation(text, answer) == expected


@given(texts("</s>", "<|im_end|>", "<eos>", " ", "\n", "x", "</s"))
def test_end_tokens_are_taken_off_one_by_one(text: str) -> None:
    rest = text.rstrip()
    while found := re.search(r"(?:</s>|<\|im_end\|>|<eos>)\Z", rest):
        rest = rest[: found.start()].rstrip()
    assert candidates._after_reasoning(text) == rest


@pytest.mark.parametrize(
    "text",
    [
        "```" + "x" * 40_000 + "`",
        "```" + " " * 40_000 + "`",
        "~" * 40_000 + "`",
        "```" + " " * 20_000 + "~" * 20_000 + "`",
        f"```python\n{IMPORT}" + " " * 40_000 + ";\n```",
        "```python\n" + f"{IMPORT}(\n" * 8000 + "x)x\n```",
        "<answer>ab" + "a" * 45_000 + "</answer>" + "a" * 400_000,
        "x" + "</s>" * 150_000,
    ],
    ids=range(8),
)
def test_finding_a_program_takes_linear_time(text: str) -> None:
    """Once seconds to hours; the sixth took 0.05 seconds, 0.8 at 190 kB."""
    started = time.thread_time()
    for entry in ("f", None):
        found = find_program(text, entry)
        callable_program(found.code, entry, "always")
    assert time.thread_time() - started < 2.0


def test_a_closing_parenthesis_is_looked_for_once_for_all_imports() -> None:
    class Watched(str):
        looked = 0

        def find(self, *args: Any) -> int:
            place = super().find(*args)
            self.looked += (place if place >= 0 else len(self)) - args[1]
            return place

    for last in ("x)x\n", "x\n"):
        code = Watched(f"{IMPORT}(\n" * 1000 + last)
        assert candidates._after_futures(code) > 0
        assert code.looked <= len(code)
