"""Nodes of single values: truth values, numbers, strings, and types that are varied through another.

Strings and bytes are spelled from `st.binary` over a restricted alphabet. `st.text` would mix in
Hypothesis's pool of awkward strings, and builds a table of all Unicode categories first (0.1 s, and
a file in its storage folder).
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable
from functools import cached_property, partial

from hypothesis import strategies as st

from synth.spelling import Style, refill, variable
from synth.structures.nodes import Dice, Node, Value, reach, room


class Bools(Node):
    """True and False."""

    strategy = st.booleans()
    sample = True

    def near(self, dice: Dice, value: Value) -> Value:
        return not value

    def edges(self, value: Value) -> list[Value]:
        return [not value, value]

    def fits(self, value: Value) -> bool:
        return type(value) is bool

    def merged(self, other: Node) -> Node | None:
        return self if isinstance(other, Bools) else None


@dataclasses.dataclass(frozen=True, eq=False)
class Ints(Node):
    """Integers of the sign and size seen; negative ones are a boundary where none was seen."""

    seen: tuple[int, ...]

    @cached_property
    def high(self) -> int:
        return reach(max(abs(value) for value in self.seen))

    @cached_property
    def low(self) -> int:
        return -self.high if min(self.seen) < 0 else 0

    @property
    def sample(self) -> Value:
        return self.seen[0]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        return st.integers(self.low, self.high)

    def near(self, dice: Dice, value: Value) -> Value:
        steps = [value + 1, value - 1, value + 2, value - 2, value // 2, *self.seen]
        if 2 * abs(value) <= self.high:
            steps.append(2 * value)
        return dice.one(steps)

    def edges(self, value: Value) -> list[Value]:
        return [0, 1, -1, 2, -value, self.high, *([self.low] if self.low else [])]

    def fits(self, value: Value) -> bool:
        return type(value) is int

    def merged(self, other: Node) -> Node | None:
        if not isinstance(other, Ints):
            return None
        return Ints(tuple(sorted({*self.seen, *other.seen})))


@dataclasses.dataclass(frozen=True, eq=False)
class Floats(Node):
    """Finite floats with few decimals; infinities and nan only where they were seen."""

    seen: tuple[float, ...]
    special: tuple[float, ...] = ()

    @cached_property
    def decimals(self) -> int:
        tails = [repr(value).partition(".")[2] for value in self.seen]
        return min(3, max([1, *(len(tail) for tail in tails if tail.isdigit())]))

    @cached_property
    def high(self) -> int:
        biggest = max([1.0, *(abs(value) for value in self.seen)])
        return reach(math.ceil(min(biggest, 1e12)))

    @cached_property
    def low(self) -> int:
        return -self.high if any(value < 0 for value in self.seen) else 0

    @property
    def sample(self) -> Value:
        return (self.seen or self.special)[0]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        scale = 10**self.decimals
        plain = st.integers(self.low * scale, self.high * scale).map(
            lambda k: round(k / scale, self.decimals)
        )
        return st.one_of(plain, plain, st.sampled_from(self.special)) if self.special else plain

    def near(self, dice: Dice, value: Value) -> Value:
        if not math.isfinite(value):
            return dice.one((*self.seen, 0.0))
        unit = 10.0**-self.decimals
        steps = (value + 1, value - 1, value + 0.5, value - 0.5, value + unit, value - unit)
        return self._tidy(dice.one((*steps, value / 2, float(math.floor(value)))))

    def edges(self, value: Value) -> list[Value]:
        fixed = [0.0, 1.0, -1.0, 0.5, float(self.high), *self.special]
        if not math.isfinite(value):
            return fixed
        return [*fixed, self._tidy(-value), float(math.floor(value))]

    def _tidy(self, value: float) -> float:
        # Adding 0.0 turns -0.0 into 0.0: a zero with a sign surprises whoever reads the row.
        return round(value, self.decimals) + 0.0

    def fits(self, value: Value) -> bool:
        return type(value) is float

    def merged(self, other: Node) -> Node | None:
        if not isinstance(other, Floats):
            return None
        return Floats(self.seen + other.seen, self.special + other.special)


@dataclasses.dataclass(frozen=True, eq=False)
class Texts(Node):
    """Strings, spelled like the samples."""

    samples: tuple[str, ...]
    pool: str
    depth: int

    @cached_property
    def style(self) -> Style:
        return Style(self.samples, self.pool)

    @property
    def sample(self) -> Value:
        return self.samples[0]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        style = self.style
        longest = min(max(style.longest, 1), 40)
        if longest == 1 and self.samples != ("",):
            return st.sampled_from(style.characters)  # one character is a kind of its own
        if style.wordy:
            most = 1 if style.most_words == 1 else min(2 * style.most_words, 12)
            return st.binary(min_size=1, max_size=most).map(style.phrase)
        parts = [st.binary(max_size=max(longest, room(longest, self.depth))).map(style.spell)]
        for pattern in style.patterns():
            size = len(variable(pattern))
            codes = st.binary(min_size=size, max_size=size)
            parts += [codes.map(partial(refill, pattern))] * 2
        return st.one_of(parts)

    def near(self, dice: Dice, value: Value) -> Value:
        if self.style.wordy and dice.below(2):
            return self._near_words(dice, value)
        if not value:
            return dice.one(self.style.alphabet)
        i, j = dice.below(len(value)), dice.below(len(value))
        low, high = min(i, j), max(i, j)
        swapped = value[:low] + value[high] + value[low + 1 : high] + value[low] + value[high + 1 :]
        fresh = dice.one(self.style.alphabet)
        options = [
            value[:i] + fresh + value[i + 1 :],
            value[:i] + fresh + value[i:],
            value[:i] + value[i + 1 :],
            value[:i] + value[i] + value[i:],
            value[:i] + value[i].swapcase() + value[i + 1 :],
            swapped if low < high else value + fresh,
        ]
        return dice.one(options)

    def _near_words(self, dice: Dice, value: str) -> str:
        parts = re.findall(r"[^\W\d_]+|[\W\d_]+", value)
        places = [i for i, part in enumerate(parts) if part[0].isalpha()]
        if not places:
            return self.style.word(dice.below(256))
        i = dice.one(places)
        fresh = self.style.word(dice.below(256))
        gap = dice.one(self.style.gaps)
        options = [
            [*parts[:i], fresh, *parts[i + 1 :]],
            [*parts[:i], parts[i], gap, *parts[i:]],
            [*parts[:i], parts[i].swapcase(), *parts[i + 1 :]],
            [*parts[:i], parts[i][::-1], *parts[i + 1 :]],
            [*parts[: i + 1], gap, fresh, *parts[i + 1 :]],
        ]
        if len(places) > 1:
            options.append([*parts[: max(0, i - 1)], *parts[i + 1 :]])
        return "".join(dice.one(options))

    def edges(self, value: Value) -> list[Value]:
        first = value[:1] or self.style.alphabet[0]
        found = [
            "",
            first,
            first * max(2, min(len(value), 5)),
            value + value[::-1] if len(value) <= 20 else value,
            value[::-1],
            "".join(sorted(value)),
            value.upper(),
            value.swapcase(),
            " ",
            f" {value} ",
        ]
        if any(char.isalpha() for char in value):
            found += ["é", re.sub("[aeiou]", "é", value, count=1), value + "é"]
        return found

    def fits(self, value: Value) -> bool:
        return type(value) is str

    def merged(self, other: Node) -> Node | None:
        if not isinstance(other, Texts):
            return None
        samples = tuple(dict.fromkeys(self.samples + other.samples))[:16]
        return Texts(samples, self.pool, max(self.depth, other.depth))


@dataclasses.dataclass(frozen=True, eq=False)
class Mapped(Node):
    """Values of a type that is varied through another node: bytes, complex, Decimal, dates, …"""

    cls: type
    samples: tuple[Value, ...]
    inner: Node
    into: Callable[[Value], Value]
    back: Callable[[Value], Value]
    remake: Callable[[tuple[Value, ...]], Node]

    @property
    def sample(self) -> Value:
        return self.samples[0]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        return self.inner.strategy.map(self._back)

    def near(self, dice: Dice, value: Value) -> Value:
        return self._back(self.inner.near(dice, self.into(value)))

    def edges(self, value: Value) -> list[Value]:
        return [self._back(edge) for edge in self.inner.edges(self.into(value))]

    def _back(self, value: Value) -> Value:
        try:
            return self.back(value)
        except (OverflowError, ValueError, ArithmeticError, UnicodeError):
            return self.samples[0]  # outside the type's range, for example the year 10000

    def fits(self, value: Value) -> bool:
        return type(value) is self.cls

    def merged(self, other: Node) -> Node | None:
        if not isinstance(other, Mapped) or other.cls is not self.cls:
            return None
        return self.remake(self.samples + other.samples)
