"""From values to nodes.

Covers the rules by which a list is a grid or a tuple in disguise, a dict a record or a table, and the
types that are varied through a simpler one. Values that have no node of their own are held as they are.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import fractions
import math
from collections.abc import Callable

from synth.structures.dicts import Record, Table
from synth.structures.nodes import (
    BUILD,
    MAX_DEPTH,
    Either,
    Held,
    Node,
    Value,
    combine,
    in_order,
    options_of,
    sorted_or_none,
)
from synth.structures.scalars import Bools, Floats, Ints, Mapped, Texts
from synth.structures.sequences import Grid, Many, Places


def infer(value: Value, pool: str, depth: int = 0) -> Node:
    """The node of one value; `pool` holds the characters of all strings of the argument list."""
    kind = type(value).__name__
    if type(value) is bool:
        return Bools()
    if type(value) is int:
        return Ints((value,))
    if type(value) is float:
        return Floats((value,)) if math.isfinite(value) else Floats((), (value,))
    if type(value) is str:
        return Texts((value,), pool, depth)
    if type(value) in MAPPED:
        return MAPPED[type(value)]((value,))
    if depth >= MAX_DEPTH or kind not in BUILD:
        return Held((value,))
    if isinstance(value, dict):
        return _infer_dict(value, kind, pool, depth)
    if isinstance(value, tuple):
        return Places("tuple", tuple(infer(item, pool, depth + 1) for item in value))
    if isinstance(value, collections.deque) and value.maxlen is not None:
        return Held((value,))
    return _infer_many(value, kind, pool, depth)


def _infer_many(value: Value, kind: str, pool: str, depth: int) -> Node:
    items = list(value) if kind in ("list", "deque") else in_order(value)
    if not items:
        return Many(kind, None, 0, depth)
    if kind == "list" and _rectangular(items):
        cells = combine(infer(cell, pool, depth + 2) for row in items for cell in row)
        if not isinstance(cells, Either):
            return Grid(cells, len(items), len(items[0]))
    rising = len(items) >= 3 and kind != "set" and sorted_or_none(items) == items
    return Many(kind, _infer_alike(items, pool, depth + 1), len(items), depth, rising)


def _infer_alike(items: list[Value], pool: str, depth: int) -> Node:
    """The node of the elements of a container, which may be rows of one table."""
    if len(items) > 1 and all(type(item) is dict and item for item in items):
        names = set(items[0])
        if all(set(item) == names for item in items) and all(map(_is_name, names)):
            return combine(_record(item, "dict", pool, depth) for item in items)
    if _rectangular(items) and depth < MAX_DEPTH:
        rows = [
            Places("list", tuple(infer(cell, pool, depth + 1) for cell in item)) for item in items
        ]
        both = combine(rows)
        if isinstance(both, Places) and len(options_of(combine(both.nodes))) > 1:
            return both
    return combine(infer(item, pool, depth) for item in items)


def _rectangular(items: list[Value]) -> bool:
    if len(items) < 2 or any(type(item) is not list for item in items):
        return False
    return len({len(item) for item in items}) == 1 and len(items[0]) >= 2


def _is_name(key: Value) -> bool:
    return type(key) is str and key.isidentifier()


def _record(value: dict[str, Value], kind: str, pool: str, depth: int) -> Node:
    if depth >= MAX_DEPTH:
        return Held((value,))
    return Record(kind, tuple((name, infer(v, pool, depth + 1)) for name, v in value.items()))


def _infer_dict(value: dict[Value, Value], kind: str, pool: str, depth: int) -> Node:
    if not value:
        return Table(kind, None, Ints((1,)) if kind == "Counter" else None, 0, depth)
    item = _infer_alike(list(value.values()), pool, depth + 1)
    mixed = [node for node in options_of(item) if not isinstance(node, Held)]
    if len(mixed) > 1 and all(map(_is_name, value)):
        return _record(value, kind, pool, depth)
    key = combine(infer(name, pool, depth + 1) for name in value)
    return Table(kind, key, item, len(value), depth)


# Types that are varied through another node. Each entry makes the node from the values seen.


def _bytes(samples: tuple[Value, ...]) -> Node:
    texts = tuple(sample.decode("latin-1") for sample in samples)
    inner = Texts(texts, "".join(dict.fromkeys("".join(texts))), 0)
    return Mapped(
        bytes,
        samples,
        inner,
        lambda value: value.decode("latin-1"),
        lambda text: text.encode("latin-1"),
        _bytes,
    )


def _complex(samples: tuple[Value, ...]) -> Node:
    parts = [[sample.real for sample in samples], [sample.imag for sample in samples]]
    if not all(math.isfinite(part) for side in parts for part in side):
        return Held(samples)
    inner = Places("tuple", tuple(Floats(tuple(side)) for side in parts))
    return Mapped(
        complex,
        samples,
        inner,
        lambda value: (value.real, value.imag),
        lambda pair: complex(*pair),
        _complex,
    )


def _decimal(samples: tuple[Value, ...]) -> Node:
    if not all(sample.is_finite() for sample in samples):
        return Held(samples)
    places = min(6, max(0, *(-int(sample.as_tuple().exponent) for sample in samples), 0))
    inner = Ints(tuple(int(sample.scaleb(places)) for sample in samples))
    return Mapped(
        decimal.Decimal,
        samples,
        inner,
        lambda value: int(value.scaleb(places)),
        lambda k: decimal.Decimal(k).scaleb(-places),
        _decimal,
    )


def _fraction(samples: tuple[Value, ...]) -> Node:
    above = Ints(tuple(sample.numerator for sample in samples))
    below = Ints(tuple(sample.denominator for sample in samples))
    return Mapped(
        fractions.Fraction,
        samples,
        Places("tuple", (above, below)),
        lambda value: (value.numerator, value.denominator),
        lambda pair: fractions.Fraction(pair[0], abs(pair[1]) or 1),
        _fraction,
    )


def _range(samples: tuple[Value, ...]) -> Node:
    inner = Places(
        "tuple",
        tuple(
            Ints(tuple(getattr(sample, side) for sample in samples))
            for side in ("start", "stop", "step")
        ),
    )
    return Mapped(
        range,
        samples,
        inner,
        lambda value: (value.start, value.stop, value.step),
        lambda three: range(three[0], three[1], three[2] or 1),
        _range,
    )


def _timed(cls: type, unit: datetime.timedelta, zero: Value) -> Callable[[tuple[Value, ...]], Node]:
    """Nodes for dates, times and durations: the distance from the first sample, in `unit`s."""

    def make(samples: tuple[Value, ...]) -> Node:
        if getattr(samples[0], "tzinfo", None) is not None:
            return Held(samples)
        base = samples[0] if zero is None else zero
        distances = [(sample - base) // unit for sample in samples]
        span = (-40, 40) if zero is None else ()
        inner = Ints(tuple(sorted({*distances, *span})))
        return Mapped(
            cls,
            samples,
            inner,
            lambda value: (value - base) // unit,
            lambda k: base + k * unit,
            make,
        )

    return make


MAPPED: dict[type, Callable[[tuple[Value, ...]], Node]] = {
    bytes: _bytes,
    complex: _complex,
    range: _range,
    decimal.Decimal: _decimal,
    fractions.Fraction: _fraction,
    datetime.date: _timed(datetime.date, datetime.timedelta(days=1), None),
    datetime.datetime: _timed(datetime.datetime, datetime.timedelta(hours=1), None),
    datetime.timedelta: _timed(
        datetime.timedelta, datetime.timedelta(minutes=1), datetime.timedelta(0)
    ),
}
