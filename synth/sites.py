"""Where a program uses an operation: the sites in its text, and a probed copy that tells which really ran.

Covers calls, operators and subscript forms; each is recognised by the shape of `Operation.form`, and
the receiver is whatever stands where the form has its `x`. Text alone cannot tell `str.count` from
`list.count`, so the probed copy records the receiver's exact type at every site; a site is confirmed
when its receiver had the owner's type. Calls through the class (`str.upper(s)`) and functions handed on
as values (`map(len, xs)`) are not sites.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from functools import lru_cache

from rewards.values import parse_tree
from synth.catalogue import Operation
from synth.source import Source

PROBED_ENTRY = "__probed_entry__"

# The builtins stand under a name of their own: a program may bind `type` or `sorted` itself.
_PROBE_TEXT = """
import builtins as __names__
__seen__ = __names__.set()
def __probe__(site, value):
    __seen__.add((site, __names__.type(value).__name__))
    return value
def __probed_entry__(*args, **kwargs):
    try:
        {entry}(*args, **kwargs)
    except __names__.Exception:
        pass
    return __names__.sorted(__seen__)
"""


@dataclass(frozen=True)
class Site:
    """One place where the operation is written."""

    index: int
    """Position among the sites of the program, in text order, from 0."""
    line: int
    enclosing_calls: int
    """How many calls stand directly around it, each taking the one below as argument or receiver."""
    inner_calls: int
    """Depth of the deepest nest of calls that builds its receiver or an argument."""


def find_sites(source: Source, operation: Operation) -> tuple[Site, ...]:
    """All sites of `operation` in `source`, in text order."""
    return tuple(
        Site(index, node.lineno, enclosing_calls(source, node), inner_calls(node))
        for index, node in enumerate(_site_nodes(source, operation))
    )


def probed_code(source: Source, operation: Operation) -> str:
    """A copy of the program whose function `PROBED_ENTRY` returns `[(site index, type name), …]`.

    It takes the arguments of the entry, runs it, and lists every site whose receiver was evaluated,
    also when the entry raises: how it ended is known from the run without probes.
    """
    probed = _Prober(operation).visit(marked_tree(source, operation))
    text = ast.unparse(ast.fix_missing_locations(probed))
    # After the program, not before it: a __future__ import must stay the first statement.
    return text + _PROBE_TEXT.format(entry=source.entry)


def marked_tree(source: Source, operation: Operation) -> ast.Module:
    """A copy of the tree in which `site_of(node)` tells the nodes that are sites."""
    nodes = _site_nodes(source, operation)
    for index, node in enumerate(nodes):
        node.__dict__["_site"] = index
    try:
        return copy.deepcopy(source.tree)
    finally:
        for node in nodes:
            del node.__dict__["_site"]


def site_of(node: ast.AST) -> int | None:
    """The index of the site that a node of a `marked_tree` is, or None."""
    site = node.__dict__.get("_site")
    return site if isinstance(site, int) else None


def enclosing_calls(source: Source, node: ast.AST) -> int:
    """Number of calls that directly enclose `node` as argument or receiver, one inside the other."""
    count = 0
    while True:
        parent = source.parents.get(node)
        if isinstance(parent, (ast.keyword, ast.Starred)):
            parent = source.parents.get(parent)
        elif isinstance(parent, ast.Attribute):
            attribute, parent = parent, source.parents.get(parent)
            if not (isinstance(parent, ast.Call) and parent.func is attribute):
                return count
        if not isinstance(parent, ast.Call) or parent.func is node:
            return count
        count += 1
        node = parent


def inner_calls(node: ast.AST) -> int:
    """Depth of the deepest nest of calls below `node`, `node` itself not counted."""
    return max((_call_depth(child) for child in ast.iter_child_nodes(node)), default=0)


def _call_depth(node: ast.AST) -> int:
    below = max((_call_depth(child) for child in ast.iter_child_nodes(node)), default=0)
    return below + 1 if isinstance(node, ast.Call) else below


@lru_cache(maxsize=4096)
def _pattern(form: str) -> ast.AST:
    """The node that stands for an operation: its form parsed, expression statements unwrapped."""
    statement = parse_tree(form).body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def _site_nodes(source: Source, operation: Operation) -> list[ast.expr | ast.stmt]:
    nodes = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, (ast.expr, ast.stmt)) and _matches(source, operation, node)
    ]
    return sorted(nodes, key=lambda node: (node.lineno, node.col_offset, node.end_col_offset or 0))


def _matches(source: Source, operation: Operation, node: ast.AST) -> bool:
    pattern = _pattern(operation.form)
    if type(node) is not type(pattern):
        return False
    if isinstance(node, ast.Call):
        return _matches_call(source, operation, node)
    if isinstance(node, ast.Compare) and isinstance(pattern, ast.Compare):
        return len(node.ops) == 1 and type(node.ops[0]) is type(pattern.ops[0])
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.AugAssign)):
        return type(node.op) is type(pattern.op)  # type: ignore[attr-defined]
    if isinstance(node, ast.Subscript) and isinstance(pattern, ast.Subscript):
        return isinstance(node.ctx, ast.Load) and _same_subscript(node, pattern)
    if isinstance(node, (ast.Assign, ast.Delete)):
        wanted = pattern.targets[0]  # type: ignore[attr-defined]
        target = node.targets[0]
        one = len(node.targets) == 1 and isinstance(target, ast.Subscript)
        return one and isinstance(wanted, ast.Subscript) and _same_subscript(target, wanted)
    return False


def _matches_call(source: Source, operation: Operation, node: ast.Call) -> bool:
    if operation.kind in ("function", "constructor"):
        name = source.resolve(node.func)
        return name is not None and name == operation.id.removeprefix("builtins.")
    if not isinstance(node.func, ast.Attribute) or node.func.attr != operation.name:
        return False
    base = source.resolve(node.func.value)
    if operation.kind in ("classmethod", "staticmethod"):
        return base == operation.owner
    # A name that resolves to an import is a module or a class, not a receiver.
    named = isinstance(node.func.value, ast.Name) and node.func.value.id in source.imports
    return not (named and base is not None)


def _same_subscript(node: ast.expr, pattern: ast.Subscript) -> bool:
    assert isinstance(node, ast.Subscript)
    if isinstance(pattern.slice, ast.Slice):
        if not isinstance(node.slice, ast.Slice):
            return False
        return (node.slice.step is None) == (pattern.slice.step is None)
    return not isinstance(node.slice, ast.Slice)


class _Prober(ast.NodeTransformer):
    """Wraps the receiver of every marked node in `__probe__(site, receiver)`."""

    def __init__(self, operation: Operation) -> None:
        self.pattern = _pattern(operation.form)
        self.bound = operation.kind in ("function", "constructor", "classmethod", "staticmethod")

    def visit(self, node: ast.AST) -> ast.AST:
        site = site_of(node)
        visited = self.generic_visit(node)
        return visited if site is None else self._wrap(visited, site)

    def _wrap(self, node: ast.AST, site: int) -> ast.AST:
        if isinstance(node, ast.Call):
            if self.bound:
                node.func = _probe(site, node.func)
            else:
                assert isinstance(node.func, ast.Attribute)
                node.func.value = _probe(site, node.func.value)
        elif isinstance(node, ast.Compare):
            # `y in x`: the container is the receiver.
            if isinstance(node.ops[0], (ast.In, ast.NotIn)):
                node.comparators[0] = _probe(site, node.comparators[0])
            else:
                node.left = _probe(site, node.left)
        elif isinstance(node, ast.BinOp):
            node.left = _probe(site, node.left)
        elif isinstance(node, ast.UnaryOp):
            node.operand = _probe(site, node.operand)
        elif isinstance(node, ast.Subscript):
            node.value = _probe(site, node.value)
        elif isinstance(node, ast.AugAssign):
            # The target cannot be wrapped; its value is probed beside the right side.
            loaded = _loaded_again(node.target, site)
            pair = ast.Tuple([_probe(site, loaded), node.value], ast.Load())
            node.value = ast.Subscript(pair, ast.Constant(1), ast.Load())
        elif isinstance(node, (ast.Assign, ast.Delete)):
            target = node.targets[0]
            assert isinstance(target, ast.Subscript)
            target.value = _probe(site, target.value)
        return node


def _loaded_again(target: ast.Name | ast.Attribute | ast.Subscript, site: int) -> ast.expr:
    """An expression for the value of a target that does not run the target's own parts twice.

    `f()[g()] += 1` becomes `(__object__ := f())[(__index__ := g())] += …`, and the value is read as
    `__object__[__index__]`.
    """
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    target.value = _named(f"__object{site}__", target.value)
    held = ast.Name(f"__object{site}__", ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(held, target.attr, ast.Load())
    if isinstance(target.slice, ast.Slice):
        for name in ("lower", "upper", "step"):
            bound = getattr(target.slice, name)
            if bound is not None:
                setattr(target.slice, name, _named(f"__{name}{site}__", bound))
        bounds = [
            getattr(target.slice, name) and ast.Name(f"__{name}{site}__", ast.Load())
            for name in ("lower", "upper", "step")
        ]
        return ast.Subscript(held, ast.Slice(*bounds), ast.Load())
    target.slice = _named(f"__index{site}__", target.slice)
    return ast.Subscript(held, ast.Name(f"__index{site}__", ast.Load()), ast.Load())


def _named(name: str, value: ast.expr) -> ast.NamedExpr:
    return ast.NamedExpr(ast.Name(name, ast.Store()), value)


def _probe(site: int, value: ast.expr) -> ast.Call:
    return ast.Call(ast.Name("__probe__", ast.Load()), [ast.Constant(site), value], [])
