"""Hypothesis strategies that several test modules share.

`values()` draws from the whole grammar of `rewards.values`: every type, nested, with the awkward
members first (zeros of both signs, nan, infinities, lone surrogates, quotes, empty containers).
Not covered: values over the caps, and what is outside the grammar.
"""

from __future__ import annotations

import datetime
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from rewards.values import FACTORIES

texts = st.one_of(
    st.sampled_from(
        [
            *(
                "",
                "a",
                "'",
                '"',
                "'\"",
                "\\",
                "\n",
                "\x00",
                "\x7f",
                "\xa0",
                "é",
                "λ",
                "😀",
                "\ud800",
            ),
            *("\u00ad", "\u0378", "\ufeff", "#", "; int", "{", "1"),
        ]
    ),
    st.text(st.characters(codec=None), max_size=8),  # every code point, surrogates included
)
numbers = st.one_of(
    st.booleans(),
    st.integers(-3, 3),
    st.integers(),
    st.sampled_from([0.0, -0.0, 1.0, float("nan"), float("inf"), float("-inf"), 1e300]),
    st.floats(),
    st.complex_numbers(),
    st.sampled_from([complex(a, b) for a in (0.0, -0.0, 1.0) for b in (0.0, -0.0, -2.0)]),
    st.decimals(),
    st.sampled_from([Decimal("1.0"), Decimal("1.00"), Decimal("-0"), Decimal("1E+30")]),
    st.fractions(),
)
timezones = st.one_of(
    st.just(datetime.timezone.utc),
    st.builds(
        datetime.timezone,
        st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)),
    ),
    st.builds(
        datetime.timezone, st.just(datetime.timedelta(hours=1)), st.sampled_from(["CET", ""])
    ),
)
moments = st.one_of(
    st.dates(),
    st.times(timezones=st.none() | timezones),
    st.datetimes(timezones=st.none() | timezones),
    st.datetimes().map(lambda value: value.replace(fold=1)),
    st.timedeltas(),
    timezones,
)
ranges = st.builds(range, st.integers(-5, 5), st.integers(-5, 5), st.sampled_from([1, 2, -1]))
scalars = st.one_of(
    st.sampled_from([None, ..., NotImplemented]), numbers, texts, st.binary(max_size=5), moments
)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:  # Decimal('sNaN')
        return False
    return True


def _nested_keys(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.lists(inner, max_size=3).map(frozenset)
    )


hashables = st.recursive((scalars | ranges).filter(_hashable), _nested_keys, max_leaves=6)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    mappings = st.dictionaries(hashables, inner, max_size=4)
    lists = st.lists(inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.lists(hashables, max_size=4).map(set),
        st.lists(hashables, max_size=4).map(frozenset),
        mappings,
        mappings.map(OrderedDict),
        mappings.map(Counter),
        st.builds(
            defaultdict, st.none() | st.sampled_from(sorted(FACTORIES)).map(FACTORIES.get), mappings
        ),
        st.builds(deque, lists, st.none() | st.integers(0, 4)),
        st.builds(slice, inner, inner, inner),
    )


def values(*, max_leaves: int = 8) -> st.SearchStrategy[Any]:
    """Values of the grammar of `rewards.values`, at most about `max_leaves` scalars each."""
    leaves = scalars | ranges | st.binary(max_size=5).map(bytearray)
    return st.recursive(leaves, _containers, max_leaves=max_leaves)
