"""Types and signatures, as the rest of the package sees them.

Covers the records, the text of a term in both directions, and joining what differs in nothing. Knows
nothing of stubs; type variables are replaced where asked for, never inferred.

The vocabulary
    scalars      int float complex bool str bytes None object-like `any`
    containers   list[T] tuple[A, B] tuple[T, ...] dict[K, V] set[T] frozenset[T] range slice
    abstract     iterable[T] iterator[T] sequence[T] mapping[K, V] set_like[T]
    functions    callable[A, B, R] (the last argument is the result), callable[..., R]
    bounds       comparable (has an order), hashable
    rest         union[A, B], var:T (a type variable), type, exception, file, never, and the names
                 that the catalogue registers for library classes, such as collections.Counter[T]

`any` stands for `object` and `Any`, and for what has no place here; the latter is counted
in `Stubs.unmapped`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rewards.values import parse_expression


@dataclass(frozen=True, order=True)
class TypeTerm:
    """One type in the vocabulary above: a name and its arguments."""

    name: str
    args: tuple[TypeTerm, ...] = ()

    def __str__(self) -> str:
        if not self.args:
            return self.name
        return f"{self.name}[{', '.join(map(str, self.args))}]"

    @property
    def is_var(self) -> bool:
        """Whether this is a type variable."""
        return self.name.startswith("var:")

    def walk(self) -> Iterator[TypeTerm]:
        """This term and every term inside it, outermost first."""
        yield self
        for arg in self.args:
            yield from arg.walk()

    def replace(self, values: Mapping[str, TypeTerm]) -> TypeTerm:
        """This term with the type variables named in `values` (without `var:`) replaced."""
        if self.is_var:
            return values.get(self.name[4:], self)
        if not self.args:
            return self
        args = tuple(a.replace(values) for a in self.args)
        return union(args) if self.name == "union" else TypeTerm(self.name, args)


@dataclass(frozen=True)
class Param:
    """One parameter. `varargs` stands for `*name`: any number of arguments of `type`."""

    name: str
    type: TypeTerm
    required: bool
    kind: Literal["positional", "keyword", "varargs"]


@dataclass(frozen=True)
class Signature:
    """One overload.

    `receiver` is None for functions, constructors, class and static methods. `keywords` is the type
    of `**name` arguments, if such are taken. `bounds` pairs a type variable's name (without
    `var:`) with what its values must be.
    """

    receiver: TypeTerm | None
    params: tuple[Param, ...]
    returns: TypeTerm
    keywords: TypeTerm | None = None
    bounds: tuple[tuple[str, TypeTerm], ...] = ()

    def __str__(self) -> str:
        params = [
            f"*{p.name}: {p.type}"
            if p.kind == "varargs"
            else f"{p.name}: {p.type}{'' if p.required else ' = …'}"
            for p in self.params
        ]
        named = next((n for n, p in enumerate(self.params) if p.kind == "keyword"), None)
        if named is not None and all(p.kind != "varargs" for p in self.params):
            params.insert(named, "*")
        if self.receiver is not None:
            params.insert(0, f"self: {self.receiver}")
        if self.keywords is not None:
            params.append(f"**: {self.keywords}")
        return f"({', '.join(params)}) -> {self.returns}"

    @property
    def required(self) -> tuple[Param, ...]:
        """The parameters without which the call fails."""
        return tuple(p for p in self.params if p.required)

    def terms(self) -> Iterator[TypeTerm]:
        """Every term in the signature."""
        if self.receiver is not None:
            yield from self.receiver.walk()
        for param in self.params:
            yield from param.type.walk()
        yield from self.returns.walk()


ANY = TypeTerm("any")
NONE = TypeTerm("None")
REST = TypeTerm("...")


def union(terms: Sequence[TypeTerm]) -> TypeTerm:
    """The union of `terms`, flat, without repetition, in the order given; one term stays itself."""
    flat: list[TypeTerm] = []
    for term in terms:
        flat.extend(term.args if term.name == "union" else (term,))
    if ANY in flat:
        return ANY
    unique = tuple(dict.fromkeys(flat))
    return unique[0] if len(unique) == 1 else TypeTerm("union", unique)


def parse_term(text: str, values: Mapping[str, TypeTerm] | None = None) -> TypeTerm:
    """`"dict[str, A]"` -> term; names found in `values` stand for the terms given there."""
    node = parse_expression(text)
    return _parsed(node, values or {})


def _parsed(node: ast.expr, values: Mapping[str, TypeTerm]) -> TypeTerm:
    if isinstance(node, ast.Constant):
        return REST if node.value is Ellipsis else NONE
    if isinstance(node, ast.Name):
        return values.get(node.id, TypeTerm(node.id))
    if isinstance(node, ast.Attribute):
        return TypeTerm(ast.unparse(node))
    if isinstance(node, ast.Subscript):
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        args = tuple(_parsed(item, values) for item in inner)
        name = ast.unparse(node.value)
        return union(args) if name == "union" else TypeTerm(name, args)
    raise ValueError(f"not a type term: {ast.unparse(node)!r}")


def merged(signatures: Sequence[Signature]) -> tuple[Signature, ...]:
    """One signature per list of parameter types.

    Overloads that differ in a literal look alike here; their results are joined, and `any` among
    them, which typeshed writes where it cannot tell them apart, gives way to what is known.
    """
    groups: dict[tuple[object, ...], list[Signature]] = {}
    for s in signatures:
        types = tuple((p.type, p.required, p.kind) for p in s.params)
        groups.setdefault((s.receiver, types, s.keywords), []).append(s)
    merged = []
    for group in groups.values():
        returns = union([s.returns for s in group if s.returns != ANY] or [ANY])
        merged.append(replace(group[0], returns=returns))
    return tuple(merged)
