"""Typeshed stubs -> normalised signatures.

Covers: finding a function, a method or a constructor in the stubs that `typeshed_client` bundles
(for the running version and platform), along base classes, and writing its types in one small
vocabulary of `TypeTerm`s. Does not cover: type checking, unification of type variables, and which
operations exist at all (`synth.catalogue` asks the interpreter for that).

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
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typeshed_client import NameInfo

__all__ = ["Param", "Signature", "Stubs", "TypeTerm", "merged", "parse_term", "union"]


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
    node = ast.parse(text, mode="eval").body
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


# What a name of typing, collections.abc, _typeshed, types or a private protocol of one stub means
# here. A and B are its first two arguments. The right-hand side is read by `parse_term`.
_VOCABULARY: dict[str, str] = {
    # abstract classes
    "Iterable": "iterable[A]",
    "Iterator": "iterator[A]",
    "Generator": "iterator[A]",
    "Reversible": "sequence[A]",
    "Sequence": "sequence[A]",
    "MutableSequence": "list[A]",
    "Collection": "union[sequence[A], set_like[A]]",
    "Container": "union[sequence[A], set_like[A]]",
    "Sized": "union[sequence[any], set_like[any], mapping[any, any]]",
    "SupportsLen": "union[sequence[any], set_like[any], mapping[any, any]]",
    "_SizedIterable": "union[sequence[A], set_like[A]]",
    "Mapping": "mapping[A, B]",
    "MutableMapping": "dict[A, B]",
    "AbstractSet": "set_like[A]",
    "Set": "set_like[A]",
    "MutableSet": "set[A]",
    "KeysView": "set_like[A]",
    "ItemsView": "set_like[tuple[A, B]]",
    "ValuesView": "iterable[A]",
    "dict_keys": "set_like[A]",
    "dict_values": "iterable[B]",
    "dict_items": "set_like[tuple[A, B]]",
    "MappingProxyType": "mapping[A, B]",
    "Hashable": "hashable",
    "structseq": "tuple[A, ...]",
    "TypedDict": "dict[str, any]",
    # conversions
    "SupportsIndex": "int",
    "SupportsInt": "union[int, float]",
    "SupportsFloat": "float",
    "SupportsComplex": "complex",
    "SupportsTrunc": "float",
    "SupportsBytes": "bytes",
    "SupportsBool": "bool",
    "Buffer": "bytes",
    "bytearray": "bytes",
    "memoryview": "bytes",
    "Number": "union[int, float]",
    "Complex": "complex",
    "Real": "union[int, float]",
    "Rational": "union[int, fractions.Fraction]",
    "RegexFlag": "int",
    "Integral": "int",
    "_ConvertibleToIntegerRatio": "union[int, float, fractions.Fraction]",
    # protocols of one or two methods
    "SupportsNext": "iterator[A]",
    "SupportsIter": "iterable[A]",
    "_GetItemIterable": "iterable[A]",
    "_SupportsReversed": "sequence[A]",
    "SupportsLenAndGetItem": "sequence[A]",
    "SupportsKeysAndGetItem": "mapping[A, B]",
    "SupportsKeysAndGet": "mapping[A, B]",
    "SupportsItems": "mapping[A, B]",
    "SupportsGet": "mapping[A, B]",
    "SupportsGetItem": "mapping[A, B]",
    "SupportsContainsAndGetItem": "mapping[A, B]",
    "SupportsItemAccess": "dict[A, B]",
    "_FormatMapMapping": "mapping[str, any]",
    "_TranslateTable": "mapping[int, union[str, int, None]]",
    "SupportsRichComparison": "comparable",
    "SupportsAllComparisons": "comparable",
    "SupportsDunderLT": "comparable",
    "SupportsDunderLE": "comparable",
    "SupportsDunderGT": "comparable",
    "SupportsDunderGE": "comparable",
    "_SupportsDunderLT": "comparable",
    "_SupportsDunderLE": "comparable",
    "_SupportsDunderGT": "comparable",
    "_SupportsDunderGE": "comparable",
    "SupportsAbs": "union[int, float]",
    "SupportsRound": "union[int, float]",
    "_SupportsRound1": "union[int, float]",
    "_SupportsRound2": "union[int, float]",
    "_SupportsCeil": "union[int, float]",
    "_SupportsFloor": "union[int, float]",
    "_SupportsTrunc": "union[int, float]",
    "_SupportsNeg": "union[int, float]",
    "_SupportsPos": "union[int, float]",
    "_SupportsInversion": "int",
    "SupportsAdd": "union[int, float]",
    "SupportsRAdd": "union[int, float]",
    "SupportsSub": "union[int, float]",
    "SupportsRSub": "union[int, float]",
    "SupportsMul": "union[int, float]",
    "SupportsRMul": "union[int, float]",
    "SupportsMod": "union[int, float]",
    "SupportsRMod": "union[int, float]",
    "SupportsDivMod": "union[int, float]",
    "SupportsRDivMod": "union[int, float]",
    "_SupportsSumWithNoDefaultGiven": "union[int, float]",
    "_SupportsPow2": "union[int, float]",
    "_SupportsPow3": "int",
    "_SupportsPow3NoneOnly": "union[int, float]",
    "_SupportsProdWithNoDefaultGiven": "union[int, float]",
    "SupportsMulInt": "union[int, float]",
    "_SupportsProdNoDefault": "union[int, float]",
    # the rest
    "object": "any",
    "Any": "any",
    "LiteralString": "str",
    "type": "type",
    "UnionType": "type",
    "GenericAlias": "type",
    "NoneType": "None",
    "NotImplementedType": "any",
    "EllipsisType": "any",
    "BaseException": "exception",
    "tzinfo": "datetime.timezone",
    "Context": "None",  # the context is not in the catalogue: its parameters stay at None
    "_ClassInfo": "union[type, tuple[type, ...]]",
    "Unpack": "any",
    "IO": "file",
    "TextIO": "file",
    "BinaryIO": "file",
    "SupportsRead": "file",
    "SupportsWrite": "file",
    "_SupportsWriteAndFlush": "file",
    "NoReturn": "never",
    "Never": "never",
    "TypeGuard": "bool",
    "TypeIs": "bool",
}

# Overloads that mention one of these in a parameter are left out if others remain: they repeat the
# plain ones for a type checker, or speak of the result of a special method and not of a type.
_BESIDE_THE_POINT = frozenset(
    {"LiteralString", "TypeGuard", "TypeIs", "SupportsIter", "_SupportsReversed"}
    | {"_SupportsPow2", "_SupportsPow3", "_SupportsPow3NoneOnly"}
)

# Modules whose names need no parsing when the vocabulary has them.
_VOCABULARY_MODULES = frozenset(
    {"typing", "typing_extensions", "collections.abc", "_collections_abc", "_typeshed", "types"}
    | {"numbers", "builtins"}
)
_NUMBERS = frozenset({"union[int, float]", "int", "float"})
_SCALARS = frozenset(map(TypeTerm, ("int", "float", "complex", "bool", "str", "bytes")))
_TYPE_VARIABLES = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})


@dataclass(frozen=True)
class _Scope:
    """Where an annotation stands: its module, what type variables and `Self` stand for."""

    module: str
    values: Mapping[str, TypeTerm] = field(default_factory=dict)
    self_term: TypeTerm | None = None


@dataclass(frozen=True)
class _Found:
    """Definitions of a function or method and the scope in which their annotations are read."""

    definitions: tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]
    scope: _Scope
    depth: int  # 0: in the class itself, 1: in a base, …

    @cached_property
    def is_async(self) -> bool:
        return any(isinstance(d, ast.AsyncFunctionDef) for d in self.definitions)


class Stubs:
    """Reads signatures from the bundled stubs, for the running Python version and platform.

    `register` first makes library classes known under the catalogue's names; other classes are
    written as the nearest type of the vocabulary.
    """

    def __init__(self) -> None:
        from typeshed_client import get_search_context

        # An empty search path: stubs of packages that happen to be installed must not be seen, and
        # the default would start a second interpreter only to ask for its path.
        self._context = get_search_context(search_path=[])
        self._modules: dict[str, dict[str, NameInfo] | None] = {}
        self._owners: dict[tuple[str, str], str] = {}
        self._bounds: dict[str, TypeTerm] = {}
        self._pending: set[tuple[str, str]] = set()
        self.unmapped: Counter[str] = Counter()

    # -- names ---------------------------------------------------------------------------------

    def names(self, module: str) -> Mapping[str, NameInfo]:
        """The names that the stub of `module` defines; empty if there is no stub."""
        from typeshed_client import get_stub_names

        if module not in self._modules:
            self._modules[module] = get_stub_names(module, search_context=self._context)
        return self._modules[module] or {}

    def resolve(
        self, module: str, name: str, *, known: bool = True
    ) -> tuple[str, str, NameInfo | None] | None:
        """Follow imports: (module, name, what stands there); None if the name is unknown.

        With `known`, a name of the vocabulary is not looked up: its third part is None.
        """
        from typeshed_client import ImportedName

        for _ in range(20):  # longer than any chain of imports in typeshed
            if known and module in _VOCABULARY_MODULES and name in _KNOWN:
                return module, name, None
            info = self.names(module).get(name)
            if info is None:
                if module == "builtins":
                    return None
                module = "builtins"
                continue
            target = info.ast
            if not isinstance(target, ImportedName):
                alias = _alias_of(target)
                if alias is None or alias == name:
                    return module, name, info
                name = alias
                continue
            if target.name is None:
                return None
            module, name = ".".join(target.module_name), target.name
        return None

    def register(self, module: str, name: str, owner: str) -> bool:
        """Write the class `module.name` as `owner`; False if the stubs have no such class."""
        found = self.resolve(module, name)
        if found is None or (found[2] is not None and not isinstance(found[2].ast, ast.ClassDef)):
            return False
        self._owners[found[0], found[1]] = owner
        return True

    def own_term(self, module: str, name: str) -> TypeTerm | None:
        """The class as a term over its own type variables: `dict[var:_KT, var:_VT]`."""
        found = self._class(module, name)
        if found is None:
            return None
        return self._own(*found)

    def _own(self, module: str, name: str, info: NameInfo) -> TypeTerm:
        args = tuple(TypeTerm(f"var:{p}") for p in self._class_params(module, info))
        if (module, name) == ("builtins", "tuple"):
            args = (*args, REST)
        return self._class_term(module, name, info, args)

    def _class(self, module: str, name: str) -> tuple[str, str, NameInfo] | None:
        found = self.resolve(module, name, known=False)
        if found is None:
            return None
        home, label, info = found
        if info is None or not isinstance(info.ast, ast.ClassDef):
            return None
        return home, label, info

    def _class_params(self, module: str, info: NameInfo) -> tuple[str, ...]:
        node = info.ast
        assert isinstance(node, ast.ClassDef)
        listed: list[ast.expr] = []
        for base in node.bases:
            if isinstance(base, ast.Subscript):
                if ast.unparse(base.value) in ("Generic", "Protocol"):
                    listed = [base.slice]
                    break
                listed.append(base.slice)
        names: dict[str, None] = {}
        for expression in listed:
            for part in ast.walk(expression):
                if isinstance(part, ast.Name) and self._is_var(module, part.id):
                    names[part.id] = None
        return tuple(names)

    def _is_var(self, module: str, name: str) -> bool:
        found = self.resolve(module, name)
        return found is not None and found[2] is not None and _var_call(found[2]) is not None

    def _bases(
        self, module: str, info: NameInfo
    ) -> Iterator[tuple[str, str, NameInfo, list[ast.expr]]]:
        node = info.ast
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            head, args = _split(base)
            found = self._class(module, head) if head not in ("Generic", "Protocol") else None
            if found is not None and found[:2] != ("builtins", "object"):
                yield (*found, args)

    def _values(self, module: str, info: NameInfo, args: Sequence[TypeTerm]) -> dict[str, TypeTerm]:
        params = self._class_params(module, info)
        padded = [*args, *[ANY] * len(params)]
        return dict(zip(params, padded, strict=False))

    # -- definitions ---------------------------------------------------------------------------

    def function(self, module: str, name: str) -> _Found | None:
        """The definitions of a function of a module, or None."""
        found = self.resolve(module, name)
        if found is None or found[2] is None:
            return None
        definitions = _functions(found[2])
        return _Found(definitions, _Scope(found[0]), 0) if definitions else None

    def method(self, module: str, cls: str, name: str) -> _Found | None:
        """The definitions of a method, looked for in the class and then in its bases."""
        found = self._class(module, cls)
        if found is None:
            return None
        home, _label, info = found
        return self._member(home, info, name, _Scope(home, {}, self._own(*found)), 0)

    def _member(
        self, module: str, info: NameInfo, name: str, scope: _Scope, depth: int
    ) -> _Found | None:
        children = info.child_nodes or {}
        if name in children:
            alias = _alias_of(children[name].ast)
            if alias is not None and alias in children:
                name = alias
            definitions = _functions(children[name])
            if definitions:
                return _Found(definitions, scope, depth)
        for home, _label, base, args in self._bases(module, info):
            terms = [self._term(a, scope) for a in args]
            inner = _Scope(home, self._values(home, base, terms), scope.self_term)
            found = self._member(home, base, name, inner, depth + 1)
            if found is not None:
                return found
        return None

    def constructor(self, module: str, cls: str) -> _Found | None:
        """`__init__` or `__new__`, whichever is nearer; at a draw the one that names parameters."""
        init, new = self.method(module, cls, "__init__"), self.method(module, cls, "__new__")
        if init is None or new is None:
            return init or new
        if init.depth != new.depth:
            return min(init, new, key=lambda found: found.depth)
        return init if all(d.args.vararg for d in new.definitions) else new

    # -- signatures ----------------------------------------------------------------------------

    def signatures(
        self, found: _Found, *, bound: Literal["instance", "class", "none", "constructor"]
    ) -> tuple[Signature, ...]:
        """Every overload, without repetition and without the ones meant for type checkers only."""
        definitions = [d for d in found.definitions if not _decorated(d, "deprecated")]
        definitions = definitions or list(found.definitions)
        plain = [d for d in definitions if not _names(d.args) & _BESIDE_THE_POINT]
        chosen = plain or definitions
        pairs = [(self._signature(d, found.scope, bound), _has_number_literal(d)) for d in chosen]
        general = [s for s, literal in pairs if not literal]
        return merged(
            [s for s, literal in pairs if not literal or not any(_covers(g, s) for g in general)]
        )

    def _signature(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        scope: _Scope,
        bound: Literal["instance", "class", "none", "constructor"],
    ) -> Signature:
        self._bounds = {}
        positional = [*node.args.posonlyargs, *node.args.args]
        n_required = len(positional) - len(node.args.defaults)
        required = [index < n_required for index in range(len(positional))]
        receiver: TypeTerm | None = None
        returns = self._term(node.returns, scope)
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
        keywords = None if kwarg is None else self._term(kwarg.annotation, scope)
        terms = [receiver or ANY, returns, *(p.type for p in params)]
        used = {t.name[4:] for term in terms for t in term.walk() if t.is_var}
        return Signature(
            receiver=receiver if bound == "instance" else None,
            params=tuple(params),
            returns=returns,
            keywords=keywords,
            bounds=tuple(sorted((k, v) for k, v in self._bounds.items() if k in used)),
        )

    def _receiver(self, annotation: ast.expr | None, scope: _Scope, bound: str) -> TypeTerm | None:
        if annotation is None or bound == "class":
            return scope.self_term
        term = self._term(annotation, scope)
        # `cls: type[list[str]]` and `self: _SelfT` say no more than Self
        return scope.self_term if term.is_var or term.name in ("type", "any") else term

    def _param(
        self,
        arg: ast.arg,
        scope: _Scope,
        required: bool,
        kind: Literal["positional", "keyword", "varargs"],
    ) -> Param:
        return Param(arg.arg.lstrip("_"), self._term(arg.annotation, scope), required, kind)

    # -- terms ---------------------------------------------------------------------------------

    def _term(self, node: ast.expr | None, scope: _Scope) -> TypeTerm:
        if node is None:
            return ANY
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                return self._term(ast.parse(node.value, mode="eval").body, scope)
            return REST if node.value is Ellipsis else NONE
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return union([self._term(node.left, scope), self._term(node.right, scope)])
        if isinstance(node, ast.Attribute) and node.attr in ("args", "kwargs"):
            return ANY  # P.args, P.kwargs
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            head, args = _split(node)
            return self._special(head, args, scope) or self._named(head, args, scope)
        return self._unknown(node)

    def _special(self, head: str, args: list[ast.expr], scope: _Scope) -> TypeTerm | None:
        """The forms of `typing` that are not classes; None for anything else."""
        if head == "Self":
            return scope.self_term or ANY
        if head == "Union":
            return union([self._term(a, scope) for a in args])
        if head == "Optional":
            return union([self._term(args[0], scope), NONE])
        if head in ("Annotated", "Final", "ClassVar", "Required"):
            return self._term(args[0], scope) if args else ANY
        if head == "Literal":
            return union([_literal(a) for a in args])
        if head == "Callable":
            return self._callable(args, scope)
        return None

    def _callable(self, args: list[ast.expr], scope: _Scope) -> TypeTerm:
        if len(args) != 2:
            return TypeTerm("callable", (REST, ANY))
        takes, gives = args
        if isinstance(takes, ast.List):
            inner = tuple(self._term(a, scope) for a in takes.elts)
        else:  # `...`, a ParamSpec or Concatenate
            inner = (REST,)
        return TypeTerm("callable", (*inner, self._term(gives, scope)))

    def _named(self, head: str, args: list[ast.expr], scope: _Scope) -> TypeTerm:
        found = self.resolve(scope.module, head)
        if found is None:
            return self._unknown(ast.Name(head))
        module, name, info = found
        terms = tuple(self._term(a, scope) for a in args)
        if info is None or isinstance(info.ast, ast.ClassDef):
            return self._class_term(module, name, info, terms)
        call = _var_call(info)
        if call is not None:
            return self._variable(name, call, scope, module)
        return self._aliased(module, name, info, terms)

    def _variable(self, name: str, call: ast.Call, scope: _Scope, module: str) -> TypeTerm:
        if name in scope.values:
            return scope.values[name]
        bounds = [k.value for k in call.keywords if k.arg == "bound"] or call.args[1:]
        if bounds and name not in self._bounds:
            self._bounds[name] = ANY  # a bound that mentions its own variable ends here
            self._bounds[name] = union([self._term(b, _Scope(module)) for b in bounds])
        if self._bounds.get(name) in _SCALARS:
            return self._bounds[name]  # StrOrLiteralStr: a variable for type checkers only
        return TypeTerm(f"var:{name}")

    def _aliased(
        self, module: str, name: str, info: NameInfo, args: Sequence[TypeTerm]
    ) -> TypeTerm:
        if name in _VOCABULARY:
            return self._vocabulary_term(name, args)
        value = getattr(info.ast, "value", None)
        if not isinstance(value, ast.expr) or (module, name) in self._pending:
            return self._unknown(ast.Name(name))
        self._pending.add((module, name))  # typeshed has aliases that mention themselves
        try:
            term = self._term(value, _Scope(module))
        finally:
            self._pending.discard((module, name))
        free = dict.fromkeys(t.name[4:] for t in term.walk() if t.is_var)
        return term.replace(dict(zip(free, args, strict=False)))

    def _class_term(
        self, module: str, name: str, info: NameInfo | None, args: tuple[TypeTerm, ...]
    ) -> TypeTerm:
        owner = self._owners.get((module, name))
        if owner is not None:
            looked = self._class(module, name)
            count = len(self._class_params(looked[0], looked[2])) if looked else 0
            if owner != "tuple" and len(args) < count:
                args = (*args, *[ANY] * (count - len(args)))
            return TypeTerm(owner, args)
        if name in _VOCABULARY:
            return self._vocabulary_term(name, args)
        if info is None or (module, name) == ("builtins", "slice"):
            return TypeTerm(name)
        return self._structural(module, name, info, args) or self._unknown(ast.Name(name))

    def _vocabulary_term(self, name: str, args: Sequence[TypeTerm]) -> TypeTerm:
        letters = {"A": ANY, "B": ANY} | dict(zip("AB", args, strict=False))
        text = _VOCABULARY[name]
        if text.startswith("mapping[A") and letters["A"].name in ("int", "slice"):
            text = "sequence[B]"  # what is asked for by position is no mapping
        term = parse_term(text, letters)
        if text in _NUMBERS:  # x: SupportsAdd[T, S], y: T -> S: these, too, are numbers
            for arg in args:
                if arg.is_var:
                    self._bounds.setdefault(arg.name[4:], term)
        return term

    def _structural(
        self, module: str, name: str, info: NameInfo, args: Sequence[TypeTerm]
    ) -> TypeTerm | None:
        """A class that has no name here, as an iterator or as the nearest of its bases."""
        if (module, name) in self._pending:
            return None
        self._pending.add((module, name))
        try:
            scope = _Scope(module, self._values(module, info, args), ANY)
            for special, term in (("__next__", "iterator"), ("__call__", "callable")):
                child = (info.child_nodes or {}).get(special)
                functions = _functions(child) if child is not None else ()
                if functions:
                    gives = self._term(functions[0].returns, scope)
                    return TypeTerm(term, (gives,) if term == "iterator" else (REST, gives))
            for home, label, base, base_args in self._bases(module, info):
                terms = tuple(self._term(a, scope) for a in base_args)
                return self._class_term(home, label, base, terms)
        finally:
            self._pending.discard((module, name))
        return None

    def _unknown(self, node: ast.AST) -> TypeTerm:
        self.unmapped[ast.unparse(node)] += 1
        return ANY


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


_KNOWN = frozenset(_VOCABULARY)


def _split(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """`a.B[c, d]` -> ("B", [c, d])."""
    args: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        args = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        node = node.value
    # typeshed qualifies a name only to tell it from a local one of the same meaning
    head = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
    return head, args


def _literal(node: ast.expr) -> TypeTerm:
    value = ast.literal_eval(node) if not isinstance(node, ast.Attribute) else 0
    return TypeTerm("None" if value is None else type(value).__name__)


def _var_call(info: NameInfo) -> ast.Call | None:
    value = getattr(info.ast, "value", None)
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _TYPE_VARIABLES:
        return value
    return None


def _alias_of(node: object) -> str | None:
    """The name that `x = name` makes `x` another word for."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def _functions(info: NameInfo) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    from typeshed_client import OverloadedName

    parts = info.ast.definitions if isinstance(info.ast, OverloadedName) else [info.ast]
    return tuple(p for p in parts if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef))


def _decorated(node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> bool:
    return any(
        ast.unparse(d.func if isinstance(d, ast.Call) else d) == name for d in node.decorator_list
    )


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
