"""What the values of an input look like, as a tree of nodes: infer it, draw from it, vary a value.

Covers the nodes: one class per kind of value, each with its free draws (a Hypothesis strategy),
near mutations, boundary values and type check, and `combine`, which makes one node of several.
Which node a value gets is decided in `synth/drawing.py`. Runs in the child of
`synth.inputs.Drawer`; nothing else imports it.

A node keeps: element types, container kinds, key and value types of dicts, arity and positions of
tuples, the keys of record-like dicts, rectangular (and square) grids, and mixes such as `[1,
None]`. Where the seed says nothing a default stands in: an empty list, set or deque holds small
integers, an empty dict maps words to small integers.

Strings and bytes are spelled from `st.binary` over a restricted alphabet. `st.text` would mix in
Hypothesis's pool of awkward strings, and builds a table of all Unicode categories first (0.1 s, and
a file in its storage folder).
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st

from rewards import values
from synth.spelling import Style, refill, variable

T = TypeVar("T")

# A value of the program under test: any literal or constructor value of `rewards.values`.
Value = Any

MAX_DEPTH = 4  # containers nested deeper than this are kept as seen
MAX_ITEMS = 20  # a drawn container is not longer than this, unless the seed is


def write(value: Value) -> str:
    """Canonical text of a value."""
    return values.canonical(value)


def in_order(elements: Iterable[Value]) -> list[Value]:
    """The elements of a set in an order that does not depend on hashes."""
    items = list(elements)
    if all(type(item) in (int, float, bool, str) for item in items):
        try:
            return sorted(items)
        except TypeError:
            pass  # numbers beside strings
    return sorted(items, key=write)


class Dice:
    """The choices of one draw, each made by Hypothesis, so that `@seed` governs them all."""

    _strategies: ClassVar[dict[int, st.SearchStrategy[int]]] = {}

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw

    def below(self, n: int) -> int:
        """An integer in [0, n)."""
        if n <= 1:
            return 0
        strategy = self._strategies.get(n)
        if strategy is None:
            strategy = self._strategies[n] = st.integers(0, n - 1)
        result: int = self.draw(strategy)
        return result

    def one(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]


def room(longest: int, depth: int) -> int:
    """Largest size of a drawn container whose seed had `longest` elements, `depth` levels down."""
    wide = max(8, 2 * longest) if depth == 0 else max(3, longest + 2)
    return max(longest, min(wide, MAX_ITEMS))


def reach(biggest: int) -> int:
    """Largest magnitude drawn for numbers of magnitude up to `biggest`: small seeds stay small."""
    return max(10, 2 * biggest, min(10 * biggest, 20))


class Node(abc.ABC):
    """The values that may stand at one place of an argument list."""

    @property
    @abc.abstractmethod
    def sample(self) -> Value:
        """One value of this structure, always the same."""

    @property
    @abc.abstractmethod
    def strategy(self) -> st.SearchStrategy[Value]:
        """Free draws."""

    @abc.abstractmethod
    def near(self, dice: Dice, value: Value) -> Value:
        """A small change of `value`, which is never changed in place."""

    @abc.abstractmethod
    def edges(self, value: Value) -> list[Value]:
        """Boundary values, given the seed's `value` at this place."""

    @abc.abstractmethod
    def fits(self, value: Value) -> bool:
        """Whether `value` has this type structure."""

    def merged(self, other: Node) -> Node | None:
        """One node for both, or None if that would lose structure."""
        return None

    def loose(self) -> Node | None:
        """This node without its fixed size or keys, to stand beside samples that lack them."""
        return None


@dataclasses.dataclass(frozen=True, eq=False)
class Held(Node):
    """Values that are not varied, only picked from those seen: None, and all that is not known."""

    seen: tuple[Value, ...]

    @property
    def sample(self) -> Value:
        return self.seen[0]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        return st.sampled_from(self.seen)

    def near(self, dice: Dice, value: Value) -> Value:
        return dice.one(self.seen)

    def edges(self, value: Value) -> list[Value]:
        return list(self.seen)

    def fits(self, value: Value) -> bool:
        return any(value is known or write(value) == write(known) for known in self.seen)

    def merged(self, other: Node) -> Node | None:
        if not isinstance(other, Held):
            return None
        known = {write(value): value for value in (*self.seen, *other.seen)}
        return Held(tuple(known[text] for text in sorted(known)))


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


BUILD: dict[str, Callable[[Iterable[Value]], Value]] = {
    "list": list,
    "set": set,
    "frozenset": frozenset,
    "deque": collections.deque,
    "dict": dict,
    "OrderedDict": collections.OrderedDict,
    "Counter": lambda pairs: collections.Counter(dict(pairs)),
    "tuple": tuple,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Many(Node):
    """A list, set, frozenset or deque of any length whose elements are alike."""

    kind: str
    item: Node | None
    longest: int
    depth: int
    rising: bool = False
    """Every sample of three or more elements was sorted: free draws are sorted as well."""

    @cached_property
    def element(self) -> Node:
        return self.item or Ints((1, 2, 3))

    @property
    def has_order(self) -> bool:
        return self.kind in ("list", "deque")

    def items(self, value: Value) -> list[Value]:
        return list(value) if self.has_order else in_order(value)

    @property
    def sample(self) -> Value:
        return BUILD[self.kind]([self.element.sample])

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        drawn = st.lists(self.element.strategy, max_size=room(self.longest, self.depth))
        if self.rising:
            return drawn.map(lambda items: BUILD[self.kind](sorted_or_none(items) or items))
        return drawn.map(BUILD[self.kind])

    def near(self, dice: Dice, value: Value) -> Value:
        return BUILD[self.kind](self._edited(dice, self.items(value)))

    def _edited(self, dice: Dice, items: list[Value]) -> list[Value]:
        if not items:
            return [dice.draw(self.element.strategy)]
        i = dice.below(len(items))
        action = dice.one(("change", "change", "insert", "delete", "duplicate", "swap"))
        if action == "change" or (not self.has_order and action in ("duplicate", "swap")):
            return [*items[:i], self.element.near(dice, items[i]), *items[i + 1 :]]
        if action == "insert":
            return [*items[:i], dice.draw(self.element.strategy), *items[i:]]
        if action == "delete":
            return items[:i] + items[i + 1 :]
        if action == "duplicate":
            return [*items, items[i]]
        j = dice.below(len(items))
        items = list(items)
        items[i], items[j] = items[j], items[i]
        return items

    def edges(self, value: Value) -> list[Value]:
        items = self.items(value)
        found: list[list[Value]] = [[]]
        if items:
            one, rest = items[0], items[1:]
            found += [[one], [one, one], [one] * min(len(items), 6), items[::-1], items[1:]]
            if len(items) <= 8:
                found.append(items + items)
            for ordered in filter(None, [sorted_or_none(items)]):
                found += [ordered, ordered[::-1]]
            if all(type(item) in (int, float) for item in items):
                found.append([-item for item in items])
            found += [[edge, *rest] for edge in self.element.edges(one)[:8]]
        else:
            one = self.element.sample
            found += [[edge] for edge in [one, *self.element.edges(one)[:4]]]
        return [BUILD[self.kind](edited) for edited in found]

    def fits(self, value: Value) -> bool:
        return type(value).__name__ == self.kind and all(map(self.element.fits, value))

    def merged(self, other: Node) -> Node | None:
        if self.item is None and self.kind == "list" and isinstance(other, Grid):
            return other  # an empty list is a grid as well
        other = other.loose() or other
        if not isinstance(other, Many) or other.kind != self.kind:
            return None
        known, item = _same_mix(self.item, other.item)
        if not known:
            return None
        longest, depth = max(self.longest, other.longest), max(self.depth, other.depth)
        return Many(self.kind, item, longest, depth, self.rising and other.rising)


def sorted_or_none(items: list[Value]) -> list[Value] | None:
    try:
        return sorted(items)
    except TypeError:
        return None


def _same_mix(one: Node | None, other: Node | None) -> tuple[bool, Node | None]:
    """Element nodes of two containers as one, if neither gains a type it did not have, but None."""
    if one is None or other is None:
        return True, one or other
    both = combine([one, other])
    sizes = [sum(not _is_none(node) for node in options_of(some)) for some in (one, other, both)]
    return sizes[2] <= max(sizes[:2]), both


def _is_none(node: Node) -> bool:
    return isinstance(node, Held) and node.seen == (None,)


@dataclasses.dataclass(frozen=True, eq=False)
class Places(Node):
    """A tuple, or a list used as one: fixed arity, a node for each position."""

    kind: str
    nodes: tuple[Node, ...]

    @property
    def sample(self) -> Value:
        return BUILD[self.kind](node.sample for node in self.nodes)

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        return st.tuples(*(node.strategy for node in self.nodes)).map(BUILD[self.kind])

    def near(self, dice: Dice, value: Value) -> Value:
        items = list(value)
        if items:
            i = dice.below(len(items))
            items[i] = self.nodes[i].near(dice, items[i])
        return BUILD[self.kind](items)

    def edges(self, value: Value) -> list[Value]:
        items = list(value)
        found = [
            [*items[:i], edge, *items[i + 1 :]]
            for i, node in enumerate(self.nodes)
            for edge in node.edges(items[i])[:6]
        ]
        found += [items[::-1], [*items[:1] * len(items)], *filter(None, [sorted_or_none(items)])]
        built = [BUILD[self.kind](edited) for edited in found]
        return [edge for edge in built if self.fits(edge)]

    def fits(self, value: Value) -> bool:
        if type(value).__name__ != self.kind or len(value) != len(self.nodes):
            return False
        return all(node.fits(item) for node, item in zip(self.nodes, value, strict=True))

    def loose(self) -> Node | None:
        if self.kind != "list":
            return None
        return Many("list", combine(self.nodes), len(self.nodes), 1)

    def merged(self, other: Node) -> Node | None:
        if isinstance(other, Many):
            return other.merged(self)
        if not isinstance(other, Places) or other.kind != self.kind:
            return None
        if len(other.nodes) != len(self.nodes):
            return None
        pairs = [_same_mix(a, b) for a, b in zip(self.nodes, other.nodes, strict=True)]
        if not all(known for known, _ in pairs):
            return None
        return Places(self.kind, tuple(node for _, node in pairs if node is not None))


@dataclasses.dataclass(frozen=True, eq=False)
class Grid(Node):
    """A list of lists of equal length, as programs on matrices expect it."""

    item: Node
    rows: int
    columns: int

    @property
    def square(self) -> bool:
        return self.rows == self.columns

    @property
    def sample(self) -> Value:
        return [[self.item.sample] * self.columns for _ in range(self.rows)]

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        most = [min(size + 1, max(size, 4)) for size in (self.rows, self.columns)]
        cells = st.lists(self.item.strategy, min_size=most[0] * most[1], max_size=most[0] * most[1])
        sizes = st.tuples(st.integers(1, most[0]), st.integers(1, most[1]))
        return st.tuples(sizes, cells).map(self._shaped)

    def _shaped(self, drawn: tuple[tuple[int, int], list[Value]]) -> list[list[Value]]:
        (rows, columns), cells = drawn
        columns = rows if self.square else columns
        return [cells[i * columns : (i + 1) * columns] for i in range(rows)]

    def near(self, dice: Dice, value: Value) -> Value:
        rows = [list(row) for row in value]
        if not rows or not rows[0]:
            return dice.draw(self.strategy)
        i, j = dice.below(len(rows)), dice.below(len(rows))
        action = dice.one(("cell", "cell", "swap", "delete", "duplicate"))
        if action == "swap" and i != j:
            rows[i], rows[j] = rows[j], rows[i]
        elif action == "delete" and len(rows) > 1:
            del rows[i]
            if self.square:
                rows = [row[:j] + row[j + 1 :] for row in rows]
        elif action == "duplicate" and not self.square:
            rows.append(list(rows[i]))
        else:
            k = dice.below(len(rows[i]))
            rows[i][k] = self.item.near(dice, rows[i][k])
        return rows

    def edges(self, value: Value) -> list[Value]:
        if not value or not value[0]:
            return [[], self.sample]
        first = value[0][0]
        found: list[list[list[Value]]] = [
            [],
            [[first]],
            [[first] * len(row) for row in value],
            [list(column) for column in zip(*value, strict=True)],
            [list(row) for row in reversed(value)],
            [row[::-1] for row in value],
        ]
        if not self.square:
            found += [[list(value[0])], [[row[0]] for row in value]]
        changed = [[[edge, *value[0][1:]], *value[1:]] for edge in self.item.edges(first)[:6]]
        return found + changed

    def fits(self, value: Value) -> bool:
        if type(value) is not list or any(type(row) is not list for row in value):
            return False
        widths = {len(row) for row in value}
        if len(widths) > 1 or (self.square and widths not in (set(), {len(value)})):
            return False
        return all(self.item.fits(cell) for row in value for cell in row)

    def loose(self) -> Node | None:
        return Many("list", Many("list", self.item, self.columns, 1), self.rows, 1)

    def merged(self, other: Node) -> Node | None:
        if isinstance(other, Many):
            return other.merged(self)
        if not isinstance(other, Grid) or (self.square and not other.square):
            return None
        known, item = _same_mix(self.item, other.item)
        if not known or item is None or (other.square and not self.square):
            return None
        return Grid(item, max(self.rows, other.rows), max(self.columns, other.columns))


@dataclasses.dataclass(frozen=True, eq=False)
class Record(Node):
    """A dict whose keys are field names: the keys stay, the values vary each in its own way."""

    kind: str
    fields: tuple[tuple[str, Node], ...]

    @property
    def sample(self) -> Value:
        return BUILD[self.kind]((name, node.sample) for name, node in self.fields)

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        names = [name for name, _ in self.fields]
        values = st.tuples(*(node.strategy for _, node in self.fields))
        return values.map(lambda drawn: BUILD[self.kind](zip(names, drawn, strict=True)))

    def near(self, dice: Dice, value: Value) -> Value:
        name, node = dice.one(self.fields)
        changed = node.near(dice, value[name])
        return BUILD[self.kind]((k, changed if k == name else v) for k, v in value.items())

    def edges(self, value: Value) -> list[Value]:
        return [
            BUILD[self.kind]((k, edge if k == name else v) for k, v in value.items())
            for name, node in self.fields
            for edge in node.edges(value[name])[:6]
        ]

    def fits(self, value: Value) -> bool:
        if type(value).__name__ != self.kind or set(value) != {name for name, _ in self.fields}:
            return False
        return all(node.fits(value[name]) for name, node in self.fields)

    def loose(self) -> Node | None:
        names = tuple(name for name, _ in self.fields)
        values = combine(node for _, node in self.fields)
        return Table(self.kind, Texts(names, "", 1), values, len(names), 1)

    def merged(self, other: Node) -> Node | None:
        if isinstance(other, Table):
            return other.merged(self)
        if not isinstance(other, Record) or other.kind != self.kind:
            return None
        theirs = dict(other.fields)
        if set(theirs) != {name for name, _ in self.fields}:
            return None
        return Record(
            self.kind, tuple((name, combine([node, theirs[name]])) for name, node in self.fields)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Node):
    """A dict from keys that are alike to values that are alike, of any size."""

    kind: str
    key: Node | None
    item: Node | None
    longest: int
    depth: int

    @cached_property
    def nodes(self) -> tuple[Node, Node]:
        key = self.key or Texts(("apple",), "", self.depth + 1)
        return key, self.item or Ints((1, 2, 3))

    @property
    def sample(self) -> Value:
        return BUILD[self.kind]([tuple(node.sample for node in self.nodes)])

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        pair = st.tuples(*(node.strategy for node in self.nodes))
        return st.lists(pair, max_size=room(self.longest, self.depth)).map(BUILD[self.kind])

    def near(self, dice: Dice, value: Value) -> Value:
        key, item = self.nodes
        pairs = list(value.items())
        action = dice.one(("value", "value", "key", "insert", "delete", "swap"))
        if not pairs or action == "insert":
            pairs.append((dice.draw(key.strategy), dice.draw(item.strategy)))
            return BUILD[self.kind](pairs)
        i, j = dice.below(len(pairs)), dice.below(len(pairs))
        if action == "delete":
            del pairs[i]
        elif action == "key":
            pairs[i] = (key.near(dice, pairs[i][0]), pairs[i][1])
        elif action == "swap" and i != j:
            pairs[i], pairs[j] = (pairs[i][0], pairs[j][1]), (pairs[j][0], pairs[i][1])
        else:
            pairs[i] = (pairs[i][0], item.near(dice, pairs[i][1]))
        return BUILD[self.kind](pairs)

    def edges(self, value: Value) -> list[Value]:
        pairs = list(value.items())
        found: list[list[tuple[Value, Value]]] = [[]]
        if pairs:
            (key, item), rest = pairs[0], pairs[1:]
            found += [pairs[:1], pairs[::-1], rest, [(name, item) for name, _ in pairs]]
            found += [[(key, edge), *rest] for edge in self.nodes[1].edges(item)[:6]]
            found += [[(edge, item), *rest] for edge in self.nodes[0].edges(key)[:3]]
        else:
            key, item = (node.sample for node in self.nodes)
            found += [[(key, edge)] for edge in [item, *self.nodes[1].edges(item)[:3]]]
        return [BUILD[self.kind](edited) for edited in found]

    def fits(self, value: Value) -> bool:
        if type(value).__name__ != self.kind:
            return False
        key, item = self.nodes
        return all(key.fits(k) and item.fits(v) for k, v in value.items())

    def merged(self, other: Node) -> Node | None:
        other = other.loose() or other
        if not isinstance(other, Table) or other.kind != self.kind:
            return None
        (keys_known, key), (known, item) = (
            _same_mix(self.key, other.key),
            _same_mix(self.item, other.item),
        )
        if not (keys_known and known):
            return None
        longest, depth = max(self.longest, other.longest), max(self.depth, other.depth)
        return Table(self.kind, key, item, longest, depth)


@dataclasses.dataclass(frozen=True, eq=False)
class Either(Node):
    """Values of several structures side by side, for example numbers and None."""

    options: tuple[Node, ...]

    @property
    def sample(self) -> Value:
        return self.options[0].sample

    @cached_property
    def strategy(self) -> st.SearchStrategy[Value]:
        return st.one_of([node.strategy for node in self.options])

    def _node(self, value: Value) -> Node:
        for node in self.options:
            if node.fits(value):
                return node
        raise ValueError(f"{write(value)} has none of the types it was inferred from")

    def near(self, dice: Dice, value: Value) -> Value:
        if dice.below(4) == 3:
            return dice.draw(self.strategy)
        return self._node(value).near(dice, value)

    def edges(self, value: Value) -> list[Value]:
        held = [v for node in self.options if isinstance(node, Held) for v in node.seen]
        return held + self._node(value).edges(value)

    def fits(self, value: Value) -> bool:
        return any(node.fits(value) for node in self.options)


def options_of(node: Node) -> tuple[Node, ...]:
    return node.options if isinstance(node, Either) else (node,)


def combine(nodes: Iterable[Node]) -> Node:
    """One node for values that stand at the same kind of place."""
    options: list[Node] = []
    for node in itertools.chain.from_iterable(map(options_of, nodes)):
        for i, option in enumerate(options):
            both = option.merged(node)
            if both is not None:
                options[i] = both
                break
        else:
            options.append(node)
    return options[0] if len(options) == 1 else Either(tuple(options))
