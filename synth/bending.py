"""Does it matter? A copy of a program in which one value at a time can be bent, to see if the result moves.

Covers what reading the text cannot tell: a variable may be read and still decide nothing (`max(x, 9)` where
x is never above 9). Every statement that assigns or calls for effect, and every site of the operation
under test, is a place that can be bent; bending a value gives another one of the same type, bending a
statement without a value leaves it out. Does not judge (`constraints`), and runs nothing itself.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from rewards.values import parse_expression
from synth.catalogue import Operation
from synth.sites import marked_tree, site_of
from synth.source import Source

BENT_ENTRY = "__bent_entry__"
"""Takes the number of the place to bend (-1 for none), then the arguments of the entry."""

_TEXT = """
class __bending__:
    place = -1
    @staticmethod
    def bend(place, value, kinds=(bool, int, float, complex, str, bytes, list, tuple, set, dict)):
        if place != __bending__.place or value is None:
            return value
        kind = type(value)
        if kind is kinds[0]:
            return not value
        if kind in kinds[1:4]:
            return value + 1
        if kind is kinds[4]:
            return value + 'q'
        if kind is kinds[5]:
            return value + b'q'
        if kind is kinds[6]:
            return value + (value[-1:] or [0])
        if kind is kinds[7]:
            return value + (value[-1:] or (0,))
        if kind is kinds[8]:
            return value ^ {0} if 0 not in value else value - {0}
        if kind is kinds[9]:
            return {**value, 'q': 1}
        raise ArithmeticError('bent')
def __bent_entry__(place, *args, **kwargs):
    __bending__.place = place
    return {entry}(*args, **kwargs)
"""


@dataclass(frozen=True)
class Bendable:
    """The copy, and what its places stand for."""

    code: str
    statements: tuple[tuple[int, int], ...]
    """(place, line) of every statement that can be bent."""
    sites: tuple[int, ...]
    """Places of the operation's sites."""


def bendable(source: Source, operation: Operation) -> Bendable:
    """A copy of the program whose `BENT_ENTRY` runs it with one place bent."""
    bender = _Bender()
    text = ast.unparse(ast.fix_missing_locations(bender.visit(marked_tree(source, operation))))
    return Bendable(
        text + _TEXT.replace("{entry}", source.entry),
        tuple(bender.statements),
        tuple(bender.sites),
    )


class _Bender(ast.NodeTransformer):
    """Wraps values in `__bending__.bend(place, value)`, and guards statements that have none."""

    def __init__(self) -> None:
        self.places = 0
        self.statements: list[tuple[int, int]] = []
        self.sites: list[int] = []
        self.depth = 0

    def visit(self, node: ast.AST) -> ast.AST:
        site = site_of(node) is not None
        inside = isinstance(node, (ast.FunctionDef, ast.Lambda))
        self.depth += inside
        visited = self.generic_visit(node)
        self.depth -= inside
        if isinstance(visited, ast.stmt) and self.depth:
            return self._statement(visited, site=site)
        if site and isinstance(visited, ast.expr):
            place = self._place()
            self.sites.append(place)
            return _bent(place, visited)
        return visited

    def _statement(self, node: ast.stmt, *, site: bool) -> ast.stmt:
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Delete)):
            return node
        place = self._place()
        self.statements.append((place, node.lineno))
        called = isinstance(node, ast.Expr) and any(site_of(n) is not None for n in ast.walk(node))
        if site or called:
            self.sites.append(place)
        if isinstance(node, (ast.Assign, ast.AugAssign)) and not site:
            node.value = _bent(place, node.value)
            return node
        test = parse_expression(f"__bending__.place != {place}")
        return ast.If(test, [node], [])

    def _place(self) -> int:
        self.places += 1
        return self.places - 1


def _bent(place: int, value: ast.expr) -> ast.expr:
    function = parse_expression("__bending__.bend")
    return ast.Call(function, [ast.Constant(place), value], [])
