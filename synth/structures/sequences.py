"""Nodes of lists, tuples, sets and deques: many alike, places of their own, grids.

Covers dicts neither (`dicts.py`) nor which of the three a value is (`inference.py`).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

from hypothesis import strategies as st

from synth.structures.nodes import (
    BUILD,
    Dice,
    Node,
    Value,
    combine,
    in_order,
    room,
    same_mix,
    sorted_or_none,
)
from synth.structures.scalars import Ints


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
        known, item = same_mix(self.item, other.item)
        if not known:
            return None
        longest, depth = max(self.longest, other.longest), max(self.depth, other.depth)
        return Many(self.kind, item, longest, depth, self.rising and other.rising)


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
        pairs = [same_mix(a, b) for a, b in zip(self.nodes, other.nodes, strict=True)]
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
        known, item = same_mix(self.item, other.item)
        if not known or item is None or (other.square and not self.square):
            return None
        return Grid(item, max(self.rows, other.rows), max(self.columns, other.columns))
