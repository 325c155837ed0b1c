"""Tokens of unfinished text: that quotes closed by nothing are read once, and that nothing else changes."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rewards import lexing

PIECES = ("'", '"', "'''", '"""', "\\", "\n", "a", "rb", "f", " ", "#", "(", "1")


def slow_tokens(text: str) -> list[lexing.Token]:
    """One pattern from begin to end, which may look for the end of a string from every quote on."""
    return [(found.lastgroup or "op", found.group()) for found in lexing._TOKEN.finditer(text)]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
@example("'\\'\\'\\'")
@example("'''x'\\'''x'\\'''")
@example("''''\\''''")
@example("'\\\n'a")
@example("'a\n'b'")
@example("rb'\\'rb'\\'")
@example("\"'\\\"'")
@example("'\\")
def test_tokens_are_those_of_the_plain_pattern(text: str) -> None:
    assert list(lexing.tokens(text)) == slow_tokens(text)


@given(st.text(alphabet="'\"\\\nrf a", max_size=60))
def test_tokens_of_characters(text: str) -> None:
    found = list(lexing.tokens(text))
    assert found == slow_tokens(text)
    assert "".join([part for _, part in found]) == text


@pytest.mark.parametrize("piece", ["'\\", "'''\\", '"\\', '"""x\\', "rb'\\", "'''x'\\", "'\\\n\\"])
def test_quotes_that_nothing_closes_cost_no_more_than_others(piece: str) -> None:
    """Once 6 to 14 seconds."""
    text = piece * (40_000 // len(piece))
    start = time.thread_time()
    assert "".join([part for _, part in lexing.tokens(text)]) == text
    assert time.thread_time() - start < 1.0
