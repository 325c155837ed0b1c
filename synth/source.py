"""The text of a program, read once: functions, entry, the final call, imports, control-flow nests.

Covers facts that stand in the AST and need no execution. Does not judge them (`constraints/`) and
does not run anything.

A program's text is `imports and functions, then one print(entry(args))`. What a row stores as `code`
is everything before that last line; the arguments are stored apart, since each row has its own.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from rewards.values import parse_tree
from synth.errors import ProgramRejected

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
CONTROL_NODES = (ast.If, ast.For, ast.While)

MAX_SOURCE_CHARS = 20_000
"""Longer completions are refused unread: no program of this kind needs more."""
MAX_TREE_DEPTH = 100
"""Deepest nesting of the syntax tree. A fixed number, so that no verdict depends on how much of
Python's own recursion limit the caller has used up."""

# What ends a line of Python. `str.splitlines` also splits at form feeds and Unicode separators, which
# may stand in a string literal.
_LINE_END = re.compile(r"\r\n?|\n")


@dataclass(frozen=True)
class Source:
    """A parsed program: `code` without the final print, its tree, and the seed input of the call."""

    code: str
    tree: ast.Module
    entry: str
    args: str
    """Text of the seed input: the argument list of the entry's call, normalised by `ast.unparse`."""
    call: ast.Call

    @cached_property
    def functions(self) -> dict[str, FunctionNode]:
        """Functions defined at module level, by name, in order."""
        found = (ast.FunctionDef, ast.AsyncFunctionDef)
        return {node.name: node for node in self.tree.body if isinstance(node, found)}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The enclosing node of every node of `tree`."""
        return {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    @cached_property
    def imports(self) -> dict[str, str]:
        """What each imported name stands for: `{"math": "math", "Counter": "collections.Counter"}`."""
        names: dict[str, str] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    # `import a.b` binds `a`; `import a.b as c` binds the submodule itself.
                    bound = alias.asname or alias.name.partition(".")[0]
                    names[bound] = alias.name if alias.asname else bound
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{node.module or '.'}.{alias.name}"
        return names

    @cached_property
    def stored_names(self) -> frozenset[str]:
        """Every name that the program binds itself: functions, parameters, targets, classes."""
        return frozenset(_stored_names(self.tree))

    @cached_property
    def every_function(self) -> tuple[FunctionNode, ...]:
        """All functions, inner ones and methods included, in text order."""
        found = (ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(self.tree) if isinstance(node, found)]
        return tuple(sorted(nodes, key=lambda node: (node.lineno, node.col_offset)))

    @cached_property
    def nests(self) -> tuple[tuple[str, ...], ...]:
        """The control-flow chains of every function, outermost first: `(("for", "if"), ("while",))`."""
        chains: list[tuple[str, ...]] = []
        for function in self.every_function:
            chains.extend(chain for chain, _ in control_chains(function))
        return tuple(chains)

    def resolve(self, node: ast.expr) -> str | None:
        """Dotted name of what an expression refers to, through imports: `m.gcd` -> `"math.gcd"`.

        A builtin resolves to itself (`"len"`). A name that the program also binds itself, as a
        parameter or a variable anywhere, resolves to nothing: which one is meant is not looked into.
        """
        if isinstance(node, ast.Name):
            return None if node.id in self.stored_names else self.imports.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            return None if base is None else f"{base}.{node.attr}"
        return None


def read(text: str) -> Source:
    """Parse a program's text. Raises `ProgramRejected` naming the rule that the text breaks."""
    if len(text) > MAX_SOURCE_CHARS:
        raise ProgramRejected("too_long", f"{len(text)} characters, at most {MAX_SOURCE_CHARS}")
    try:
        tree = parse_tree(text)
        _refuse_deep(tree)
        # What Python cannot write again (an int of 5,000 digits) has no normalised text.
        ast.unparse(tree)
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ProgramRejected("syntax", str(error)) from error
    last = tree.body[-1] if tree.body else None
    call = _printed_call(last)
    if last is None or call is None:
        raise ProgramRejected("one_print", "the program must end in one print(entry(args))")
    tree.body.pop()
    lines = _LINE_END.split(text)[: last.lineno - 1]
    if last.col_offset or (lines and lines[-1].endswith("\\")):
        raise ProgramRejected("one_print", "the print must stand on a line of its own")
    code = "\n".join(lines).rstrip() + "\n"
    assert isinstance(call.func, ast.Name)
    return Source(code, tree, call.func.id, call_text(call), call)


def lines_of(code: str) -> list[str]:
    """The lines of a program as Python counts them, without their ends."""
    lines = _LINE_END.split(code)
    return lines[:-1] if lines[-1] == "" else lines


def normalised(code: str) -> str:
    """`code` as `ast.unparse` writes it: the same text for every layout of the same program.

    Comments and blank lines are gone. Raises `SyntaxError` (or `ValueError` for a null byte).
    """
    return ast.unparse(parse_tree(code))


def content_digest(code: str) -> str:
    """SHA-256 (64 hex digits) of the normalised program."""
    return hashlib.sha256(normalised(code).encode("utf-8", "surrogatepass")).hexdigest()


def call_text(call: ast.Call) -> str:
    """The argument list of a call as text, without the parentheses."""
    parts = [ast.unparse(arg) for arg in call.args]
    parts += [
        f"{word.arg}={ast.unparse(word.value)}" if word.arg else f"**{ast.unparse(word.value)}"
        for word in call.keywords
    ]
    return ", ".join(parts)


def unread_names(function: ast.AST) -> list[str]:
    """Parameters and variables that nothing reads but their own updates, in text order.

    `total = total + 1` and `total.append(1)` do not count as readings of `total`. Names that start with
    `_` are let off.
    """
    readings: dict[str, bool] = {}
    order: dict[str, tuple[int, int]] = {}
    _collect_names(function, frozenset(), readings, order)
    unread = [name for name, read in readings.items() if not read and not name.startswith("_")]
    return sorted((name for name in unread if name in order), key=order.__getitem__)


def _collect_names(
    node: ast.AST,
    own: frozenset[str],
    readings: dict[str, bool],
    order: dict[str, tuple[int, int]],
) -> None:
    """Walk `node`; `own` are the names that the statement around it updates."""
    if isinstance(node, ast.stmt):
        own = _updated(node)
    if isinstance(node, ast.Name):
        readings.setdefault(node.id, False)
        if isinstance(node.ctx, ast.Load):
            readings[node.id] |= node.id not in own
        else:
            order.setdefault(node.id, (node.lineno, node.col_offset))
    elif isinstance(node, ast.arg):
        readings.setdefault(node.arg, False)
        order.setdefault(node.arg, (node.lineno, node.col_offset))
    for child in ast.iter_child_nodes(node):
        _collect_names(child, own, readings, order)


def _updated(statement: ast.stmt) -> frozenset[str]:
    """Names that a statement does nothing but update: `x += …`, `x = … x …`, `x[k] = …`, `x.append(…)`."""
    target: ast.expr | None = None
    if isinstance(statement, ast.AugAssign):
        target = statement.target
    elif isinstance(statement, (ast.Assign, ast.Delete)) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        called = statement.value.func
        target = called.value if isinstance(called, ast.Attribute) else None
    if isinstance(target, ast.Subscript):
        target = target.value
    return frozenset({target.id}) if isinstance(target, ast.Name) else frozenset()


def control_kind(node: ast.AST) -> str | None:
    """`"if"`, `"if-elif"`, `"for"`, `"while"`, or None for any other node."""
    if isinstance(node, ast.For):
        return "for"
    if isinstance(node, ast.While):
        return "while"
    if isinstance(node, ast.If):
        return "if-elif" if elif_of(node) is not None else "if"
    return None


def elif_of(node: ast.If) -> ast.If | None:
    """The `elif` arm of an `if`; an `if` that stands alone inside `else:` is not one."""
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        inner = node.orelse[0]
        # An elif starts in the column of its if; a nested if is indented.
        if inner.col_offset == node.col_offset:
            return inner
    return None


def control_chains(
    node: ast.AST, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """Each maximal chain of nested control structures below `node`, with its innermost node."""
    nested = False
    for child in _control_children(node):
        nested = True
        kind = control_kind(child)
        assert kind is not None
        yield from control_chains(child, (*above, kind))
    if above and not nested:
        yield above, node


def _control_children(node: ast.AST) -> Iterator[ast.AST]:
    """The nearest control structures below `node`; arms of one if chain count as its own blocks."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.If) and child is elif_of(node):
            yield from _control_children(child)
        elif isinstance(child, CONTROL_NODES):
            yield child
        else:
            yield from _control_children(child)


def _refuse_deep(tree: ast.Module) -> None:
    """Raise `ProgramRejected` for a tree deeper than `MAX_TREE_DEPTH`; without recursion."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_TREE_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise ProgramRejected("too_deep", f"the syntax tree is deeper than {MAX_TREE_DEPTH} nodes")


def _printed_call(node: ast.stmt | None) -> ast.Call | None:
    """The call `entry(args)` of a statement `print(entry(args))`, or None."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return None
    outer = node.value
    if not (isinstance(outer.func, ast.Name) and outer.func.id == "print"):
        return None
    if len(outer.args) != 1 or outer.keywords:
        return None
    inner = outer.args[0]
    named = isinstance(inner, ast.Call) and isinstance(inner.func, ast.Name)
    return inner if named and isinstance(inner, ast.Call) else None


def _stored_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) or (
            isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name
        ):
            assert node.name is not None
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
