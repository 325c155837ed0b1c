"""What a node is, values of several structures side by side, and one node made of several.

Covers the parts that all kinds of nodes share; the kinds are in `scalars.py`, `sequences.py` and
`dicts.py`.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st

from rewards import values

T = TypeVar("T")

# A value of the program under test: any literal or constructor value of `rewards.values`.
Value = Any

MAX_DEPTH = 4  # containers nested deeper than this are kept as seen
MAX_ITEMS = 20  # a drawn container is not longer than this, unless the seed is

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


def sorted_or_none(items: list[Value]) -> list[Value] | None:
    try:
        return sorted(items)
    except TypeError:
        return None


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


def same_mix(one: Node | None, other: Node | None) -> tuple[bool, Node | None]:
    """Element nodes of two containers as one, if neither gains a type it did not have, but None."""
    if one is None or other is None:
        return True, one or other
    both = combine([one, other])
    sizes = [sum(not _is_none(node) for node in options_of(some)) for some in (one, other, both)]
    return sizes[2] <= max(sizes[:2]), both


def _is_none(node: Node) -> bool:
    return isinstance(node, Held) and node.seen == (None,)
