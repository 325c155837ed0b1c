"""Nodes of dicts, ordered dicts and counters: records with fixed keys, tables of any size.

Which of the two a value is: `inference.py`.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property

from hypothesis import strategies as st

from synth.structures.nodes import BUILD, Dice, Node, Value, combine, room, same_mix
from synth.structures.scalars import Ints, Texts


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
            same_mix(self.key, other.key),
            same_mix(self.item, other.item),
        )
        if not (keys_known and known):
            return None
        longest, depth = max(self.longest, other.longest), max(self.depth, other.depth)
        return Table(self.kind, key, item, longest, depth)
