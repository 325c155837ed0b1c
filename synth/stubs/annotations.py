"""Annotations of the stubs -> terms.

Covers the forms of `typing`, type variables and their bounds, aliases, classes under the catalogue's
names, and other classes as the nearest type of the vocabulary. What has no place there becomes `any`
and is counted. Finds no definitions (`lookup.py`) and reads no parameter lists (`signatures.py`).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from synth.stubs.lookup import Lookup, functions_in, split, var_call
from synth.stubs.terms import ANY, NONE, REST, TypeTerm, parse_term, union
from synth.stubs.vocabulary import NUMBERS, SCALARS, VOCABULARY

if TYPE_CHECKING:
    from typeshed_client import NameInfo


@dataclass(frozen=True)
class Scope:
    """Where an annotation stands: its module, what type variables and `Self` stand for."""

    module: str
    values: Mapping[str, TypeTerm] = field(default_factory=dict)
    self_term: TypeTerm | None = None


class Annotations:
    """Reads annotations. `owners` gives the catalogue's name of a class by (module, name)."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._pending: set[tuple[str, str]] = set()
        self.owners: dict[tuple[str, str], str] = {}
        self.bounds: dict[str, TypeTerm] = {}
        """Of the type variables met since this was last emptied."""
        self.unmapped: Counter[str] = Counter()

    def own(self, module: str, name: str, info: NameInfo) -> TypeTerm:
        """A class as a term over its own type variables."""
        args = tuple(TypeTerm(f"var:{p}") for p in self._lookup.class_params(module, info))
        if (module, name) == ("builtins", "tuple"):
            args = (*args, REST)
        return self._class_term(module, name, info, args)

    def values(self, module: str, info: NameInfo, args: Sequence[TypeTerm]) -> dict[str, TypeTerm]:
        """What the type variables of a class stand for, given its arguments."""
        params = self._lookup.class_params(module, info)
        padded = [*args, *[ANY] * len(params)]
        return dict(zip(params, padded, strict=False))

    def term(self, node: ast.expr | None, scope: Scope) -> TypeTerm:
        """An annotation as a term; `any` where there is none."""
        if node is None:
            return ANY
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return self.term(ast.parse(node.value, mode="eval").body, scope)
            return REST if node.value is Ellipsis else NONE
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return union([self.term(node.left, scope), self.term(node.right, scope)])
        if isinstance(node, ast.Attribute) and node.attr in ("args", "kwargs"):
            return ANY  # P.args, P.kwargs
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            head, args = split(node)
            return self._special(head, args, scope) or self._named(head, args, scope)
        return self._unknown(node)

    def _special(self, head: str, args: list[ast.expr], scope: Scope) -> TypeTerm | None:
        """The forms of `typing` that are not classes; None for anything else."""
        if head == "Self":
            return scope.self_term or ANY
        if head == "Union":
            return union([self.term(a, scope) for a in args])
        if head == "Optional":
            return union([self.term(args[0], scope), NONE])
        if head in ("Annotated", "Final", "ClassVar", "Required"):
            return self.term(args[0], scope) if args else ANY
        if head == "Literal":
            return union([_literal(a) for a in args])
        if head == "Callable":
            return self._callable(args, scope)
        return None

    def _callable(self, args: list[ast.expr], scope: Scope) -> TypeTerm:
        if len(args) != 2:
            return TypeTerm("callable", (REST, ANY))
        takes, gives = args
        if isinstance(takes, ast.List):
            inner = tuple(self.term(a, scope) for a in takes.elts)
        else:  # `...`, a ParamSpec or Concatenate
            inner = (REST,)
        return TypeTerm("callable", (*inner, self.term(gives, scope)))

    def _named(self, head: str, args: list[ast.expr], scope: Scope) -> TypeTerm:
        found = self._lookup.resolve(scope.module, head)
        if found is None:
            return self._unknown(ast.Name(head))
        module, name, info = found
        terms = tuple(self.term(a, scope) for a in args)
        if info is None or isinstance(info.ast, ast.ClassDef):
            return self._class_term(module, name, info, terms)
        call = var_call(info)
        if call is not None:
            return self._variable(name, call, scope, module)
        return self._aliased(module, name, info, terms)

    def _variable(self, name: str, call: ast.Call, scope: Scope, module: str) -> TypeTerm:
        if name in scope.values:
            return scope.values[name]
        bounds = [k.value for k in call.keywords if k.arg == "bound"] or call.args[1:]
        if bounds and name not in self.bounds:
            self.bounds[name] = ANY  # a bound that mentions its own variable ends here
            self.bounds[name] = union([self.term(b, Scope(module)) for b in bounds])
        if self.bounds.get(name) in SCALARS:
            return self.bounds[name]  # StrOrLiteralStr: a variable for type checkers only
        return TypeTerm(f"var:{name}")

    def _aliased(
        self, module: str, name: str, info: NameInfo, args: Sequence[TypeTerm]
    ) -> TypeTerm:
        if name in VOCABULARY:
            return self._vocabulary_term(name, args)
        value = getattr(info.ast, "value", None)
        if not isinstance(value, ast.expr) or (module, name) in self._pending:
            return self._unknown(ast.Name(name))
        self._pending.add((module, name))  # typeshed has aliases that mention themselves
        try:
            term = self.term(value, Scope(module))
        finally:
            self._pending.discard((module, name))
        free = dict.fromkeys(t.name[4:] for t in term.walk() if t.is_var)
        return term.replace(dict(zip(free, args, strict=False)))

    def _class_term(
        self, module: str, name: str, info: NameInfo | None, args: tuple[TypeTerm, ...]
    ) -> TypeTerm:
        owner = self.owners.get((module, name))
        if owner is not None:
            looked = self._lookup.class_of(module, name)
            count = len(self._lookup.class_params(looked[0], looked[2])) if looked else 0
            if owner != "tuple" and len(args) < count:
                args = (*args, *[ANY] * (count - len(args)))
            return TypeTerm(owner, args)
        if name in VOCABULARY:
            return self._vocabulary_term(name, args)
        if info is None or (module, name) == ("builtins", "slice"):
            return TypeTerm(name)
        return self._structural(module, name, info, args) or self._unknown(ast.Name(name))

    def _vocabulary_term(self, name: str, args: Sequence[TypeTerm]) -> TypeTerm:
        letters = {"A": ANY, "B": ANY} | dict(zip("AB", args, strict=False))
        text = VOCABULARY[name]
        if text.startswith("mapping[A") and letters["A"].name in ("int", "slice"):
            text = "sequence[B]"  # what is asked for by position is no mapping
        term = parse_term(text, letters)
        if text in NUMBERS:  # x: SupportsAdd[T, S], y: T -> S: these, too, are numbers
            for arg in args:
                if arg.is_var:
                    self.bounds.setdefault(arg.name[4:], term)
        return term

    def _structural(
        self, module: str, name: str, info: NameInfo, args: Sequence[TypeTerm]
    ) -> TypeTerm | None:
        """A class that has no name here, as an iterator or as the nearest of its bases."""
        if (module, name) in self._pending:
            return None
        self._pending.add((module, name))
        try:
            scope = Scope(module, self.values(module, info, args), ANY)
            for special, term in (("__next__", "iterator"), ("__call__", "callable")):
                child = (info.child_nodes or {}).get(special)
                functions = functions_in(child) if child is not None else ()
                if functions:
                    gives = self.term(functions[0].returns, scope)
                    return TypeTerm(term, (gives,) if term == "iterator" else (REST, gives))
            for home, label, base, base_args in self._lookup.bases(module, info):
                terms = tuple(self.term(a, scope) for a in base_args)
                return self._class_term(home, label, base, terms)
        finally:
            self._pending.discard((module, name))
        return None

    def _unknown(self, node: ast.AST) -> TypeTerm:
        self.unmapped[ast.unparse(node)] += 1
        return ANY


def _literal(node: ast.expr) -> TypeTerm:
    value = ast.literal_eval(node) if not isinstance(node, ast.Attribute) else 0
    return TypeTerm("None" if value is None else type(value).__name__)
