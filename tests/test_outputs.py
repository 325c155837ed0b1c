"""Numbers in what a candidate printed. The rest of `rewards.outputs` is tested in `test_unittests`."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from rewards import outputs
from rewards.outputs import same_text

# What says the same, in quadratic time.
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


@given(st.text(alphabet="10.eE+-x٣", max_size=9))
def test_a_number_is_what_the_plain_pattern_finds(text: str) -> None:
    assert (outputs._NUMBER.fullmatch(text) is None) == (NUMBER.fullmatch(text) is None)


def test_what_is_nearly_a_number_is_read_once() -> None:
    """Once 20 seconds for 40,000 digits."""
    started = time.thread_time()
    assert not same_text("1.5", "1" * 100_000 + "x", tolerance=1e-6)
    assert same_text("1.5", "1.5" + "0" * 100_000, tolerance=1e-6)
    assert time.thread_time() - started < 1.0
