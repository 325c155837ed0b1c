"""What a program's text alone says about its statements, as far as questions are concerned.

Covers which lines may be asked about, which statements may be answers, what a statement binds and what
it gives away. Does not cover any execution (`truth.py`), nor which question is a good one (`rules.py`).
"""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from rewards.grading import same_statement
from rewards.values import (
    FACTORIES,
    Unrepresentable,
    ValueTextError,
    canonical,
    parse,
    parse_tree,
)
from synth.traces import Statement, statements

__all__ = [
    "ANY",
    "Facts",
    "facts_of",
    "gives_away",
    "literal_text",
    "literals",
    "order_matters",
]

_LINE_END = re.compile(r"\r\n?|\n")
_FIRST_TOKEN = re.compile(r"\s*(\w+|\S)?")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES = (*_FUNCTIONS, ast.ClassDef)
_LOOPS = ("For", "While")

ANY = "*"
"""In place of a text: whatever the name is bound to can be read off the literal."""

Place = tuple[int, str]
"""(index of a compound statement, name of one of its blocks)"""


class Facts:
    """A program as `facts_of` reads it. Statements are meant by their index in `statements`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.statements: tuple[Statement, ...] = statements(code)
        self.lines: tuple[str, ...] = tuple(_LINE_END.split(code))
        tree = parse_tree(code)
        nodes = {
            (node.lineno, node.col_offset, type(node).__name__): node
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt)
        }
        self.nodes = tuple(nodes[s.line, s.col, s.kind] for s in self.statements)
        self.constants: frozenset[str] = literals(tree)
        """Canonical texts of the literals of the whole program."""
        # Kept with the instance: a cache of the method would keep every program for ever.
        self.identifies = functools.cache(self._identifies)
        self.literals = functools.cache(self._literals)
        self.bound = functools.cache(self._names_bound)
        self.touched = functools.cache(self._touched)
        self.given = functools.cache(self._given)

    @cached_property
    def at_line(self) -> Mapping[int, tuple[int, ...]]:
        """Line -> the statements that start there."""
        found: dict[int, tuple[int, ...]] = {}
        for each in self.statements:
            found[each.line] = (*found.get(each.line, ()), each.index)
        return found

    def alone_at(self, line: int | None) -> int | None:
        """The one statement that starts at a line and stands first on it; None if there is no such."""
        here = self.at_line.get(line or 0, ())
        return here[0] if len(here) == 1 and self.leads_line(here[0]) else None

    def leads_line(self, index: int) -> bool:
        """Whether nothing stands before the statement on its line (`else: x = 1` leads no line)."""
        where = self.statements[index]
        return not self.lines[where.line - 1].encode()[: where.col].strip()

    def text(self, index: int) -> str:
        """The first physical line of a statement, as it stands in the program."""
        return self.lines[self.statements[index].line - 1].rstrip()

    @cached_property
    def repeated_lines(self) -> frozenset[str]:
        """Texts of lines, without indentation, that stand more than once in the program."""
        counts = Counter(line.strip() for line in self.lines)
        return frozenset(text for text, count in counts.items() if count > 1)

    @cached_property
    def _inside(self) -> frozenset[int]:
        inside: set[int] = set()
        for (
            each
        ) in self.statements:  # in the order of the text: a parent stands before what it holds
            parent = each.parent
            if parent in inside or (parent >= 0 and isinstance(self.nodes[parent], _FUNCTIONS)):
                inside.add(each.index)
        return frozenset(inside)

    def inside(self, index: int) -> bool:
        """Whether the statement stands in a function: what is outside is no part of a call."""
        return index in self._inside

    @cached_property
    def _similar(self) -> Mapping[str, tuple[int, ...]]:
        groups: dict[str, tuple[int, ...]] = {}
        for each in self.statements:
            key = self._first_token(each.index)
            groups[key] = (*groups.get(key, ()), each.index)
        return groups

    def _first_token(self, index: int) -> str:
        found = _FIRST_TOKEN.match(self.text(index))
        return found.group(1) or "" if found else ""

    def _identifies(self, index: int) -> bool:
        """Whether a statement can be an answer: its first line is whole, and the grader takes the
        first line of no other statement of the program for it.
        """
        if not (self.leads_line(index) and self._is_whole(index)):
            return False
        mine = self.text(index)
        others = (other for other in self._similar[self._first_token(index)] if other != index)
        return not any(same_statement(mine, self.text(other)) for other in others)

    def _is_whole(self, index: int) -> bool:
        """Whether no bracket and no text is left open at the end of the first line."""
        text = self.text(index)
        if text.endswith("\\"):
            return False
        try:
            list(tokenize.generate_tokens(io.StringIO(text.strip() + "\n").readline))
        except (tokenize.TokenError, SyntaxError):
            return False
        return True

    def blocks(self, index: int) -> tuple[Place, ...]:
        """The blocks around a statement, innermost first, up to that of its function or class."""
        found: list[Place] = []
        while (parent := self.statements[index].parent) >= 0:
            found.append((parent, self.statements[index].arm))
            if isinstance(self.nodes[parent], _SCOPES):
                break
            index = parent
        return tuple(found)

    def conditional(self, index: int) -> bool:
        """Whether a statement stands in a block that need not run when its function does."""
        return any(arm not in ("body", "finally") for _, arm in self.blocks(index))

    def loops(self, index: int) -> tuple[int, ...]:
        """The loops in whose body a statement stands, innermost first."""
        around = self.blocks(index)
        return tuple(p for p, arm in around if self.kind(p) in _LOOPS and arm == "true")

    def kind(self, index: int) -> str:
        """Class name of a statement in `ast`."""
        return self.statements[index].kind

    def header(self, index: int) -> Iterator[ast.AST]:
        """All nodes of a statement without those of the statements inside it."""
        return _header(self.nodes[index])

    def _literals(self, index: int) -> frozenset[str]:
        """Canonical texts of the literals that stand in a statement, parts of literals included."""
        return frozenset[str]().union(*(_literal_of(node) for node in self.header(index)))

    def _names_bound(self, index: int) -> frozenset[str]:
        """Variables that a statement binds, whatever it does to them."""
        return frozenset(_bound(self.nodes[index]))

    def _touched(self, index: int) -> frozenset[str]:
        """Variables whose object a statement may change: it calls something, or stores into it."""
        nodes = list(self.header(index))
        if any(isinstance(node, ast.Call) for node in nodes):
            return frozenset(node.id for node in nodes if isinstance(node, ast.Name))
        stores = (ast.Subscript, ast.Attribute)
        targets = [node for node in nodes if isinstance(node, stores)]
        return frozenset(
            _root(node) for node in targets if not isinstance(node.ctx, ast.Load)
        ) | self.bound(index)

    def _given(self, index: int) -> Mapping[str, str]:
        """Variables that a statement binds to a literal -> the literal's canonical text, or `ANY`."""
        found: dict[str, str] = {}
        for node in self.header(index):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    found.update(_pairs(target, node.value))
            elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
                found.update(_pairs(node.target, node.value))
        return found

    def copies(self, index: int) -> bool:
        """Whether a statement only gives a variable what another one holds."""
        node = self.nodes[index]
        return isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)

    @cached_property
    def functions(self) -> Mapping[str, int]:
        """Functions whose name no other function or class of the program has -> their `def`."""
        names = Counter(node.name for node in self.nodes if isinstance(node, _SCOPES))
        return {
            node.name: index
            for index, node in enumerate(self.nodes)
            if isinstance(node, _FUNCTIONS) and names[node.name] == 1
        }

    def function_of(self, index: int) -> int:
        """The `def` or `class` around a statement, -1 at module level."""
        around = self.blocks(index)
        return around[-1][0] if around else -1

    def has(self, function: int, *kinds: type[ast.AST]) -> bool:
        """Whether a node of some kind stands in a function, inner functions left out."""
        return any(isinstance(node, kinds) for node in _own_nodes(self.nodes[function]))

    def calls_own(self, index: int) -> bool:
        """Whether a statement calls, by name, a function or class of the program."""
        names = {node.name for node in self.nodes if isinstance(node, _SCOPES)}
        for node in self.header(index):
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else None
                if (called.id if isinstance(called, ast.Name) else name) in names:
                    return True
        return False


@functools.lru_cache(maxsize=64)
def facts_of(code: str) -> Facts:
    """The facts of a program. Raises SyntaxError for text that is no program."""
    return Facts(code)


def literal_text(node: ast.AST) -> str | None:
    """Canonical text of the value that an expression writes; None for what is no literal."""
    if not isinstance(node, _LITERAL_NODES) or not _may_be_literal(node):
        return None
    try:
        value = node.value if isinstance(node, ast.Constant) else parse(ast.unparse(node))
        return canonical(value)
    except (ValueTextError, Unrepresentable):
        return None


def _may_be_literal(node: ast.AST) -> bool:
    """Whether no name stands in the expression but in the place of a constructor; parsing is slow."""
    called = {id(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    names = (each for each in ast.walk(node) if isinstance(each, (ast.Name, ast.Attribute)))
    return all(id(each) in called or _is_quiet(each) for each in names)


def _is_quiet(node: ast.expr) -> bool:
    """A name within a constructor's own name, or one that stands for a value: `nan`, `list`."""
    return isinstance(node, ast.Name) and (node.id in _VALUE_NAMES or node.id in FACTORIES)


_VALUE_NAMES = frozenset(("nan", "inf", "math", "datetime", "collections", "decimal", "fractions"))


def literals(node: ast.AST) -> frozenset[str]:
    """Canonical texts of all literals below a node, parts of literals included."""
    return frozenset[str]().union(*(_literal_of(each) for each in ast.walk(node)))


def order_matters(code: str, args: str) -> bool:
    """Whether a set may occur in a run, so that a value may depend on the order of one.

    Errs on the side of caution: any set in the text, or an operation that makes one of dict views.
    """
    tree = parse_tree(f"{code}\nf({args}\n)")
    for node in ast.walk(tree):
        if isinstance(node, (ast.Set, ast.SetComp)):
            return True
        if isinstance(node, ast.Name) and node.id in ("set", "frozenset", "id", "hash", "object"):
            return True
        if isinstance(node, ast.Attribute) and node.attr in ("keys", "items"):
            return True
    return False


def gives_away(code: str, entry: str, output: str) -> bool:
    """Whether the text shows a call of the entry with the output: in a comment, a docstring, or a
    statement outside functions.
    """
    if not output:
        return False
    tree = parse_tree(code)
    texts = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]
    harmless = (*_SCOPES, ast.Import, ast.ImportFrom)
    texts += [ast.unparse(node) for node in tree.body if not isinstance(node, harmless)]
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    texts += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return any(f"{entry}(" in text and output in text for text in texts)


_LITERAL_NODES = (
    *(ast.Constant, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.UnaryOp, ast.BinOp, ast.Call),
)


def _literal_of(node: ast.AST) -> frozenset[str]:
    text = literal_text(node)
    return frozenset() if text is None else frozenset((text,))


def _header(node: ast.AST) -> Iterator[ast.AST]:
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            continue
        yield from _header(child)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*_SCOPES, ast.Lambda)):
            continue
        yield child
        yield from _own_nodes(child)


def _bound(statement: ast.stmt) -> Iterator[str]:
    own: set[int] = set()  # targets of comprehensions are no variables of the function
    for node in _header(statement):
        if isinstance(node, ast.comprehension):
            own.update(id(each) for each in ast.walk(node.target))
    for node in _header(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in own:
            yield node.id
    if isinstance(statement, ast.Match):
        for case in statement.cases:
            for node in ast.walk(case.pattern):
                if isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
                    yield node.name
                elif isinstance(node, ast.MatchMapping) and node.rest:
                    yield node.rest


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    """(variable, text of the literal that it is bound to) of an assignment."""
    whole = literal_text(value)
    if isinstance(target, ast.Name):
        if whole is not None:
            yield target.id, whole
        return
    if not isinstance(target, (ast.Tuple, ast.List)):
        return
    parts = value.elts if isinstance(value, (ast.Tuple, ast.List)) else []
    starred = any(isinstance(each, ast.Starred) for each in (*target.elts, *parts))
    if len(parts) == len(target.elts) and not starred:
        for one, part in zip(target.elts, parts, strict=True):
            yield from _pairs(one, part)
    elif whole is not None:
        yield from ((node.id, ANY) for node in ast.walk(target) if isinstance(node, ast.Name))


def _root(node: ast.expr) -> str:
    """The variable at the bottom of `x[0].y[1]`; empty if it is none."""
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
