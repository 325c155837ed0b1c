"""Which programs are plain: line events tell their steps apart, on every Python version.

In a plain program every statement has its lines for itself, an exception that is raised ends the run, a
frame is never left and entered again, and nothing can look at the interpreter. Then a `line` event is
the start of the statement on that line, and the next `line` or `return` event of the same frame is its
end. The rules refuse in doubt: a program that is not plain is watched by the recorder of `tracer.py`,
which knows every construct and costs more. That both give the same steps is a law of the tests.

Does not cover exceptions that a library function swallows (`next(map(f, xs), None)`): the recorder
notices and the run is repeated under the other one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

__all__ = ["end_of_header", "is_plain"]

_MODULES = frozenset(
    (
        *(
            "bisect",
            "collections",
            "copy",
            "datetime",
            "decimal",
            "fractions",
            "functools",
            "heapq",
        ),
        *("itertools", "json", "math", "operator", "re", "statistics", "string", "textwrap"),
        *("typing", "unicodedata"),
    )
)
"""What may be imported: nothing in them watches the interpreter or runs text as a program."""

_NAMES = frozenset(
    (
        *(
            "__import__",
            "breakpoint",
            "compile",
            "delattr",
            "dir",
            "eval",
            "exec",
            "exit",
            "globals",
        ),
        *("input", "locals", "open", "quit", "setattr", "super", "vars"),
    )
)
"""Builtins that run text, look at frames or make classes."""

_STATEMENTS = (
    *(ast.FunctionDef, ast.Return, ast.Delete, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For),
    *(ast.While, ast.If, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.Global),
    *(ast.Nonlocal, ast.Expr, ast.Pass, ast.Break, ast.Continue),
)
_NOT_PLAIN = (ast.Yield, ast.YieldFrom, ast.Await)
_BLOCKS = ("body", "orelse")


def is_plain(tree: ast.Module) -> bool:
    """Whether lines tell the steps of the program apart; see the module's text."""
    last = 0
    for node in _statements(tree.body):
        if not isinstance(node, _STATEMENTS) or node.lineno <= last:
            return False
        last = end_of_header(node)
        if not _is_plain_statement(node):
            return False
    nodes = list(ast.walk(tree))
    return all(map(_is_plain_node, nodes)) and _only_asks_for_types(nodes)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements in the order of the text."""
    for node in body:
        yield node
        for name in _BLOCKS:
            yield from _statements(getattr(node, name, []))


def end_of_header(node: ast.stmt) -> int:
    """Last line of a statement without its blocks."""
    if not hasattr(node, "body"):
        return node.end_lineno or node.lineno
    parts = [getattr(node, name, None) for name in ("test", "iter", "target", "args", "returns")]
    inner = [one for part in parts if part is not None for one in ast.walk(part)]
    ends: list[int] = [getattr(one, "end_lineno", None) or node.lineno for one in inner]
    return max([node.lineno, *ends])


def _is_plain_statement(node: ast.stmt) -> bool:
    if isinstance(node, ast.FunctionDef):
        # Without a step in its body a line event comes for the `def` itself.
        return not node.decorator_list and any(map(_is_step, _without_docstring(node.body)))
    if isinstance(node, ast.AnnAssign) and node.value is None:
        return isinstance(node.target, ast.Name)  # others are evaluated, and are no step
    if isinstance(node, (ast.If, ast.While, ast.Assert)):
        # The compiler leaves out what a constant decides.
        return any(isinstance(part, ast.Name) for part in ast.walk(node.test)) and _runs(node)
    if isinstance(node, ast.For):
        return _runs(node)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return isinstance(node.value.value, str)  # a docstring; elsewhere, see `_is_plain_node`
    if isinstance(node, ast.Import):
        return all(alias.name.split(".")[0] in _MODULES for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return (node.module or "").split(".")[0] in _MODULES and not node.level
    return True


def _runs(node: ast.stmt) -> bool:
    """Whether each block begins with a step, so that a round of a loop shows."""
    blocks = [getattr(node, name, None) for name in _BLOCKS]
    return all(_is_step(block[0]) for block in blocks if block)


def _is_step(node: ast.stmt) -> bool:
    if isinstance(node, ast.AnnAssign):
        return node.value is not None
    return not isinstance(node, (ast.Global, ast.Nonlocal))


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if _is_text(body[0]) else body


def _is_plain_node(node: ast.AST) -> bool:
    if isinstance(node, _NOT_PLAIN):
        return False
    if isinstance(node, ast.comprehension):
        return not node.is_async
    if isinstance(node, ast.Name):
        return node.id not in _NAMES
    if isinstance(node, ast.Attribute):
        return not node.attr.startswith("__")
    if isinstance(node, (ast.If, ast.For, ast.While)):
        return not any(map(_is_text, node.body + node.orelse))
    if isinstance(node, ast.FunctionDef):
        return not any(map(_is_text, node.body[1:]))
    if isinstance(node, ast.Module):
        return not any(map(_is_text, node.body[1:]))
    return True


def _only_asks_for_types(nodes: list[ast.AST]) -> bool:
    """Whether `type` stands in `type(x)` alone: with three arguments it makes a class."""
    named = [node for node in nodes if isinstance(node, ast.Name) and node.id == "type"]
    asking = [
        node.func
        for node in nodes
        if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords
    ]
    return all(any(node is one for one in asking) for node in named)


def _is_text(node: ast.stmt) -> bool:
    """A constant expression that is no docstring: a step that the compiler removes."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
