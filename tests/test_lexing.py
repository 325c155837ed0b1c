"""Tokens of unfinished text: what is closed by nothing is read once, and nothing else changes by that."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rewards import lexing, values

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


# ------------------------------------------------------------------------------------ numbers

NUMBER = re.compile(
    r"0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?"
)


@given(st.text(alphabet="10_.eE+-jxf", max_size=9))
@example("1.")
@example("1_.5_e1j")
def test_a_number_is_what_the_plain_pattern_finds(text: str) -> None:
    """That one has two ways to read every digit, so that it takes quadratic time to refuse some."""
    for ours in (lexing._NUMBER, re.compile(values._NUMBER)):
        assert (ours.fullmatch(text) is None) == (NUMBER.fullmatch(text) is None)
        found, plain = ours.match(text), NUMBER.match(text)
        assert (found and found.end()) == (plain and plain.end())


@pytest.mark.parametrize("text", ["1" * 40_000 + "x", "1_" * 20_000 + "x", "1." * 20_000 + "x"])
def test_a_number_that_ends_in_a_letter_is_read_once(text: str) -> None:
    """Once about 20 seconds for the first."""
    start = time.thread_time()
    assert lexing.tree(text) is None
    assert time.thread_time() - start < 1.0


# ------------------------------------------------------------------------------------ memory


def test_of_long_texts_only_a_few_are_remembered() -> None:
    """An answer has up to 50,000 characters; thousands of those, cut into tokens, fill the memory."""
    lexing._statement_tokens.cache_clear()
    for number in range(100):
        text = f"{number} " + ", " * 2000
        assert lexing.statement_tokens(text) == (str(number), *"," * 2000)
    assert lexing._statement_tokens.cache_info().currsize == 0
    assert lexing._long_statement_tokens.cache_info().currsize <= 8
