"""The statements of a program: which of them can be steps, where they stand, what holds them.

Covers the table that decoding a trace needs, and `is_plain`: whether the cheap recorder may watch the
program. Does not cover what ran (`decoding.py`, `traces.py`).
"""

from __future__ import annotations

import ast
import functools
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from rewards.values import parse_tree
from synth import tracer
from synth.plain import end_of_header, is_plain

__all__ = ["MODULE", "Statement", "Table", "statements", "table_of"]

MODULE = "<module>"


@dataclass(frozen=True)
class Statement:
    """A statement that can be a step."""

    index: int
    """Place in the table: order of the text, a compound statement before what it holds."""
    line: int
    """First line, 1-based; of a decorated `def` or `class`, the line of that word."""
    col: int
    """Column of the first character, 0-based, in UTF-8 bytes (as in `ast`)."""
    end_line: int
    end_col: int
    kind: str
    """Class name in `ast`: "Assign", "If", "For", …"""
    function: str
    """Qualified name of the innermost function or class around it, "<module>" at module level."""
    parent: int
    """Index of the statement whose block holds it, -1 at module level."""
    arm: str
    """Which block of the parent: "true" and "false" of `if`, `while` and `for` (the latter is the
    `else`), "body", "else", "finally", "except 0", "case 0"; empty at module level."""


@dataclass(frozen=True)
class Table:
    """What decoding needs, computed once for a program."""

    statements: tuple[Statement, ...]
    names: tuple[str, ...]
    """Qualified name of the `def` or `class` with that index, else empty."""
    scope: tuple[int, ...]
    """Index of the innermost `def` or `class` around a statement, -1 at module level."""
    before: tuple[int, ...]
    """See `tracer.Site.before`."""
    branching: frozenset[int]
    plain: bool
    """Lines tell its steps apart, so the recorder of `linetracer.py` may watch it."""
    at_line: dict[int, int]
    """Line -> index of the statement it belongs to, continuation lines included; of a plain program, in
    which no two share one."""


_parsing = threading.Lock()
"""`catch_warnings` changes what all threads see."""


@functools.lru_cache(maxsize=64)
def table_of(code: str) -> Table:
    """The table of a program. Raises SyntaxError for text that is no program."""
    with _parsing, warnings.catch_warnings():
        # What the compiler has to say about the program is said where the program is compiled.
        warnings.simplefilter("ignore")
        tree = parse_tree(code)
    sites = tracer.survey(tree)
    names: list[str] = []
    table: list[Statement] = []
    branching = (ast.If, ast.While, ast.For, ast.Match, *tracer.TryNode)
    for index, site in enumerate(sites):
        node = site.node
        names.append(_qualified_name(node, site.function, sites, names))
        function = names[site.function] if site.function >= 0 else MODULE
        assert node.end_lineno is not None and node.end_col_offset is not None
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        kind = type(node).__name__
        table.append(Statement(index, *place, kind, function, site.parent, site.arm))
    return Table(
        statements=tuple(table),
        names=tuple(names),
        scope=tuple(site.function for site in sites),
        before=tuple(site.before for site in sites),
        branching=frozenset(i for i, site in enumerate(sites) if isinstance(site.node, branching)),
        plain=is_plain(tree),
        at_line={
            line: index
            for index, site in enumerate(sites)
            for line in range(site.node.lineno, end_of_header(site.node) + 1)
        },
    )


def _qualified_name(
    node: ast.stmt, function: int, sites: Sequence[tracer.Site], names: Sequence[str]
) -> str:
    if not isinstance(node, tracer.ScopeNode):
        return ""
    if function < 0 or node.name in _declared_global(sites[function].node):
        return node.name
    inside_function = isinstance(sites[function].node, tracer.FunctionNode)
    return names[function] + (".<locals>." if inside_function else ".") + node.name


def _declared_global(scope: ast.stmt) -> frozenset[str]:
    """Names that a function or class declares `global` in its own text."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif not isinstance(node, (*tracer.ScopeNode, ast.Lambda)):
            waiting += ast.iter_child_nodes(node)
    return frozenset(found)


def statements(code: str) -> tuple[Statement, ...]:
    """All statements of a program that can be steps. Raises SyntaxError for text that is no program.

    Left out: docstrings, `global`, `nonlocal`, annotations without a value.
    """
    return table_of(code).statements
