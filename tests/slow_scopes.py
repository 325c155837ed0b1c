"""Part of the second implementation: which scope every name of a program belongs to.

Covers private names (`__x` in a class), the scopes of functions, lambdas, classes and
comprehensions, and free variables. Written from the language reference, not from the compiler's
tables. Does not cover type parameters (Python 3.12), which the interpreter refuses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

FunctionNode = (ast.FunctionDef, ast.Lambda)
ComprehensionNode = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(eq=False)
class Scope:
    """A piece of the program with names of its own."""

    kind: str
    """"module", "function" (also lambdas), "class" or "comprehension"."""
    node: ast.AST
    parent: Scope | None
    bound: set[str] = field(default_factory=set)
    globals: set[str] = field(default_factory=set)
    nonlocals: set[str] = field(default_factory=set)
    used: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    """Names of functions around it that it, or a scope inside it, uses."""
    generator: bool = False
    class_cell: bool = False
    """A method of this class uses `super()` or `__class__`."""

    def owner(self, name: str) -> Scope | None:
        """The scope whose variable `name` is when it is used here; None: a global or a builtin."""
        if self.kind == "module" or name in self.globals:
            return None
        if name in self.bound and name not in self.nonlocals:
            return self
        outer = self.parent
        while outer is not None and outer.kind != "module":
            if outer.kind == "class":
                if name == "__class__":
                    return outer
            elif name in outer.globals:
                return None
            elif name in outer.bound and name not in outer.nonlocals:
                return outer
            outer = outer.parent
        return None

    def locals(self) -> set[str]:
        return self.bound - self.globals - self.nonlocals


def scopes(tree: ast.Module) -> dict[ast.AST, Scope]:
    """The scope of every node that opens one. Private names of `tree` are spelled out on the way.

    Each `def` and `class` gets an attribute `bound_name`: what its name is spelled out as.
    """
    _Mangler().visit(tree)
    finder = _Finder(tree)
    for statement in tree.body:
        finder.visit(statement)
    for scope in finder.found.values():
        _close(scope)
    return finder.found


def _close(scope: Scope) -> None:
    for name in scope.used | scope.nonlocals:
        owner = scope.owner(name)
        if owner is None or owner is scope:
            continue
        if owner.kind == "class":
            owner.class_cell = True
        between: Scope | None = scope
        while between is not None and between is not owner:
            between.free.add(name)
            between = between.parent


class _Mangler(ast.NodeTransformer):
    """Writes `__x` inside `class A` as `_A__x`."""

    def __init__(self) -> None:
        self.inside: str | None = None

    def name(self, name: str) -> str:
        if self.inside is None or not name.startswith("__") or name.endswith("__") or "." in name:
            return name
        stripped = self.inside.lstrip("_")
        return f"_{stripped}{name}" if stripped else name

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for attribute in ("id", "attr", "arg", "asname"):
            text = getattr(node, attribute, None)
            if isinstance(text, str):
                setattr(node, attribute, self.name(text))
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self.name(name) for name in node.names]
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            node.name = self.name(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            node.rest = self.name(node.rest)
        elif isinstance(node, ast.FunctionDef):
            node.bound_name = self.name(node.name)  # type: ignore[attr-defined]
        return super().generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.bound_name = self.name(node.name)  # type: ignore[attr-defined]
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        outer, self.inside = self.inside, node.name
        for statement in node.body:
            self.visit(statement)
        self.inside = outer
        return node


def _has_future_annotations(tree: ast.Module) -> bool:
    return any(
        isinstance(statement, ast.ImportFrom)
        and statement.module == "__future__"
        and any(alias.name == "annotations" for alias in statement.names)
        for statement in tree.body
    )


class _Finder(ast.NodeVisitor):
    """Collects what is bound and used in which scope."""

    def __init__(self, tree: ast.Module) -> None:
        self.scope = Scope("module", tree, None)
        self.found: dict[ast.AST, Scope] = {tree: self.scope}
        self.texts = _has_future_annotations(tree)

    def inside(self, kind: str, node: ast.AST, bound: Iterable[str], *parts: Any) -> None:
        """Visit `parts` in a scope of their own."""
        outer, self.scope = self.scope, Scope(kind, node, self.scope, set(bound))
        self.found[node] = self.scope
        for part in parts:
            self.visit(part)
        self.scope = outer

    def each(self, *nodes: ast.AST | None) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.scope.bound.add(node.id)
            return
        self.scope.used.add(node.id)
        if node.id == "super" and self.scope.kind in ("function", "comprehension"):
            self.scope.used.add("__class__")

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.scope.bound.add(node.bound_name)  # type: ignore[attr-defined]
        self.each(*node.decorator_list, *node.args.defaults, *node.args.kw_defaults)
        if not self.texts:
            self.each(*(arg.annotation for arg in all_parameters(node.args)), node.returns)
        self.inside("function", node, parameter_names(node.args), *node.body)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.each(*node.args.defaults, *node.args.kw_defaults)
        self.inside("function", node, parameter_names(node.args), node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.scope.bound.add(node.bound_name)  # type: ignore[attr-defined]
        self.each(*node.decorator_list, *node.bases, *node.keywords)
        self.inside("class", node, (), *node.body)

    def comprehension(self, node: Any, *elements: ast.expr) -> None:
        first, *others = node.generators
        self.visit(first.iter)  # the one part that is evaluated outside
        parts = [first.target, *first.ifs, *others, *elements]
        self.inside("comprehension", node, (), *parts)

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self.comprehension(node, node.elt)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self.comprehension(node, node.elt)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        self.comprehension(node, node.elt)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self.comprehension(node, node.key, node.value)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self.scope
        while scope.kind == "comprehension" and scope.parent is not None:
            scope.used.add(node.target.id)
            scope = scope.parent
        scope.bound.add(node.target.id)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.each(node.target, node.value, None if self.texts else node.annotation)

    def visit_Global(self, node: ast.Global) -> None:
        self.scope.globals.update(node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self.scope.nonlocals.update(node.names)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self.bind(node.name, node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        self.bind(node.name, node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        self.bind(node.name, node)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        self.bind(node.rest, node)

    def bind(self, name: str | None, node: ast.AST) -> None:
        if name:
            self.scope.bound.add(name)
        self.generic_visit(node)

    def visit_alias(self, node: ast.alias) -> None:
        if node.name != "*":
            self.scope.bound.add(node.asname or node.name.partition(".")[0])

    def visit_Yield(self, node: ast.Yield) -> None:
        self.scope.generator = True
        self.generic_visit(node)

    def visit_YieldFrom(self, node: ast.YieldFrom) -> None:
        self.scope.generator = True
        self.generic_visit(node)


def all_parameters(args: ast.arguments) -> list[ast.arg]:
    """In the order in which the annotations are evaluated."""
    found = [*args.args, *args.posonlyargs]
    found += [args.vararg] if args.vararg else []
    found += args.kwonlyargs
    return [*found, args.kwarg] if args.kwarg else found


def parameter_names(args: ast.arguments) -> list[str]:
    return [arg.arg for arg in all_parameters(args)]
