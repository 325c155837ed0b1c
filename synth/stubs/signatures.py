"""Definitions in the stubs -> signatures.

Covers finding a function, a method or a constructor, along base classes, and its overloads without those
that are meant for type checkers. Which operations exist at all is asked of the interpreter
(`synth.catalogue`).
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from synth.stubs.annotations import Annotations, Scope
from synth.stubs.lookup import Lookup, alias_of, functions_in
from synth.stubs.terms import ANY, Param, Signature, TypeTerm, merged
from synth.stubs.vocabulary import BESIDE_THE_POINT

if TYPE_CHECKING:
    from typeshed_client import NameInfo


@dataclass(frozen=True)
class Found:
    """Definitions of a function or method and the scope in which their annotations are read."""

    definitions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    scope: Scope
    depth: int  # 0: in the class itself, 1: in a base, …


class Stubs:
    """Reads signatures from the bundled stubs, for the running Python version and platform.

    `register` first makes library classes known under the catalogue's names; other classes are
    written as the nearest type of the vocabulary.
    """

    def __init__(self) -> None:
        self._lookup = Lookup()
        self._annotations = Annotations(self._lookup)

    @property
    def unmapped(self) -> Counter[str]:
        """How often each type was met that has no place in the vocabulary."""
        return self._annotations.unmapped

    def register(self, module: str, name: str, owner: str) -> bool:
        """Write the class `module.name` as `owner`; False if the stubs have no such class."""
        found = self._lookup.resolve(module, name)
        if found is None or (found[2] is not None and not isinstance(found[2].ast, ast.ClassDef)):
            return False
        self._annotations.owners[found[0], found[1]] = owner
        return True

    def own_term(self, module: str, name: str) -> TypeTerm | None:
        """The class as a term over its own type variables: `dict[var:_KT, var:_VT]`."""
        found = self._lookup.class_of(module, name)
        if found is None:
            return None
        return self._annotations.own(*found)

    def function(self, module: str, name: str) -> Found | None:
        """The definitions of a function of a module, or None."""
        found = self._lookup.resolve(module, name)
        if found is None or found[2] is None:
            return None
        definitions = functions_in(found[2])
        return Found(definitions, Scope(found[0]), 0) if definitions else None

    def method(self, module: str, cls: str, name: str) -> Found | None:
        """The definitions of a method, looked for in the class and then in its bases."""
        found = self._lookup.class_of(module, cls)
        if found is None:
            return None
        home, _label, info = found
        return self._member(home, info, name, Scope(home, {}, self._annotations.own(*found)), 0)

    def _member(
        self, module: str, info: NameInfo, name: str, scope: Scope, depth: int
    ) -> Found | None:
        children = info.child_nodes or {}
        if name in children:
            alias = alias_of(children[name].ast)
            if alias is not None and alias in children:
                name = alias
            definitions = functions_in(children[name])
            if definitions:
                return Found(definitions, scope, depth)
        for home, _label, base, args in self._lookup.bases(module, info):
            terms = [self._annotations.term(a, scope) for a in args]
            inner = Scope(home, self._annotations.values(home, base, terms), scope.self_term)
            found = self._member(home, base, name, inner, depth + 1)
            if found is not None:
                return found
        return None

    def constructor(self, module: str, cls: str) -> Found | None:
        """`__init__` or `__new__`, whichever is nearer; at a draw the one that names parameters."""
        init, new = self.method(module, cls, "__init__"), self.method(module, cls, "__new__")
        if init is None or new is None:
            return init or new
        if init.depth != new.depth:
            return min(init, new, key=lambda found: found.depth)
        return init if all(d.args.vararg for d in new.definitions) else new

    def signatures(
        self, found: Found, *, bound: Literal["instance", "class", "none", "constructor"]
    ) -> tuple[Signature, ...]:
        """Every overload, without repetition and without the ones meant for type checkers only."""
        definitions = [d for d in found.definitions if not _decorated(d, "deprecated")]
        definitions = definitions or list(found.definitions)
        plain = [d for d in definitions if not _names(d.args) & BESIDE_THE_POINT]
        chosen = plain or definitions
        pairs = [(self._signature(d, found.scope, bound), _has_number_literal(d)) for d in chosen]
        general = [s for s, literal in pairs if not literal]
        return merged(
            [s for s, literal in pairs if not literal or not any(_covers(g, s) for g in general)]
        )

    def _signature(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        scope: Scope,
        bound: Literal["instance", "class", "none", "constructor"],
    ) -> Signature:
        self._annotations.bounds = {}
        positional = [*node.args.posonlyargs, *node.args.args]
        n_required = len(positional) - len(node.args.defaults)
        required = [index < n_required for index in range(len(positional))]
        receiver: TypeTerm | None = None
        returns = self._annotations.term(node.returns, scope)
        if bound != "none" and not _decorated(node, "staticmethod"):
            first = positional.pop(0)
            required.pop(0)
            receiver = self._receiver(first.annotation, scope, bound)
        if bound == "constructor":
            returns = receiver if node.name == "__init__" and receiver is not None else returns
        params = [
            self._param(arg, scope, needed, "positional")
            for arg, needed in zip(positional, required, strict=True)
        ]
        if node.args.vararg is not None:
            params.append(self._param(node.args.vararg, scope, False, "varargs"))
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            params.append(self._param(arg, scope, default is None, "keyword"))
        kwarg = node.args.kwarg
        keywords = None if kwarg is None else self._annotations.term(kwarg.annotation, scope)
        terms = [receiver or ANY, returns, *(p.type for p in params)]
        used = {t.name[4:] for term in terms for t in term.walk() if t.is_var}
        return Signature(
            receiver=receiver if bound == "instance" else None,
            params=tuple(params),
            returns=returns,
            keywords=keywords,
            bounds=tuple(sorted((k, v) for k, v in self._annotations.bounds.items() if k in used)),
        )

    def _receiver(self, annotation: ast.expr | None, scope: Scope, bound: str) -> TypeTerm | None:
        if annotation is None or bound == "class":
            return scope.self_term
        term = self._annotations.term(annotation, scope)
        # `cls: type[list[str]]` and `self: _SelfT` say no more than Self
        return scope.self_term if term.is_var or term.name in ("type", "any") else term

    def _param(
        self,
        arg: ast.arg,
        scope: Scope,
        required: bool,
        kind: Literal["positional", "keyword", "varargs"],
    ) -> Param:
        return Param(
            arg.arg.lstrip("_"), self._annotations.term(arg.annotation, scope), required, kind
        )


def _covers(general: Signature, special: Signature) -> bool:
    """Whether `general` takes all that `special` takes."""
    if general.receiver != special.receiver or len(general.params) != len(special.params):
        return False
    pairs = [(g.type, s.type) for g, s in zip(general.params, special.params, strict=True)]
    return all(g == s or (g.name == "union" and s in g.args) for g, s in pairs)


def _has_number_literal(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a parameter is annotated `Literal[2]`: an overload for one number."""
    return any(
        isinstance(part, ast.Subscript)
        and ast.unparse(part.value) == "Literal"
        and any(isinstance(c, ast.Constant) and type(c.value) is int for c in ast.walk(part.slice))
        for part in ast.walk(node.args)
    )


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(
        ast.unparse(d.func if isinstance(d, ast.Call) else d) == name for d in node.decorator_list
    )


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
