"""The catalogue of operations that a constraint may name.

Covers: every public method, operator and subscript form of the builtin data types, the builtin
functions, and the functions and classes of the pure library modules. What exists is read from the
running interpreter, parameter and result types from typeshed (`synth.stubs`), so another Python
version gives another catalogue. What a program must not use is not silently missing: it stands in
`Catalogue.exclusions` with the reason. Does not cover: writing a program that uses an operation
(`synth.providers.grammar`), and whether an operation means anything for given values.

    >>> c = catalogue()
    >>> c.get("str.strip").form
    'x.strip()'
    >>> [o.form for o in c.select(["defaultdict"])]
    ['x | y', 'x.copy()']
"""

from __future__ import annotations

import builtins
import fnmatch
import functools
import importlib
import inspect
import itertools
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from synth.errors import UsageError, closest
from synth.stubs import Param, Signature, Stubs, TypeTerm, merged

__all__ = [
    "BUILTIN_TYPES",
    "LIBRARY_MODULES",
    "Catalogue",
    "Exclusion",
    "Operation",
    "Param",
    "Signature",
    "TypeTerm",
    "catalogue",
]

Family = Literal["builtin", "library"]
Kind = Literal[
    "method", "classmethod", "staticmethod", "operator", "subscript", "function", "constructor"
]

# The order of both is the order of the catalogue.
BUILTIN_TYPES: tuple[type, ...] = (
    *(int, float, complex, bool, str, bytes),
    *(list, tuple, dict, set, frozenset, range),
)
LIBRARY_MODULES: tuple[str, ...] = (
    *("collections", "itertools", "functools", "math", "re", "heapq", "bisect", "string"),
    *("textwrap", "statistics", "fractions", "decimal", "datetime", "json", "operator"),
)


@dataclass(frozen=True)
class Operation:
    """One thing that a program can do, and how it is written.

    `form` is Python text over the placeholders x, y, z, … (operands), i, j, k (positions or a key)
    and v (a stored value). `symbol` and `node` are set for operators and subscripts: the token
    ("+", "in", "not", "+=", "[i]", "[i:j]", "[i]=", "del [i]") and the class of `ast` that stands
    for it ("Add", "In", "USub", "Subscript"); in "y in x" the receiver is the right operand. A
    slice is one parameter of type `slice`, of integers. `returns_none`: as written it gives no
    value, which holds for `del`, stores and in-place operators, too. `mutates`: it can change its
    receiver or, for a function, its first argument (using up an iterator is not counted).
    """

    owner: str
    name: str
    kind: Kind
    family: Family
    form: str
    signatures: tuple[Signature, ...] = field(repr=False, compare=False)
    returns_none: bool
    mutates: bool
    symbol: str = ""
    node: str = ""

    @property
    def id(self) -> str:
        """Unique text: owner and name, such as `str.strip`."""
        return f"{self.owner}.{self.name}"

    @property
    def module(self) -> str | None:
        """The module to import before use; None for builtins."""
        return self.owner.split(".")[0] if self.family == "library" else None

    @property
    def is_statement(self) -> bool:
        """Whether it is a statement (`x[i] = v`, `del x[i]`, `x += y`) and no expression."""
        return self.returns_none and self.kind in ("operator", "subscript")

    @property
    def arity(self) -> int:
        """How many operands `form` shows, the receiver among them."""
        return len({w for w in _words(self.form) if w in _OPERANDS or w in ("i", "j", "k", "v")})


@dataclass(frozen=True)
class Exclusion:
    """Something that exists and is not an operation, with the reason."""

    owner: str
    name: str
    reason: str

    @property
    def id(self) -> str:
        """Owner and name, such as `builtins.hash`."""
        return f"{self.owner}.{self.name}"


@dataclass(frozen=True)
class Catalogue:
    """All operations and exclusions, by family, then owner (in the order of DESIGN), then name."""

    operations: tuple[Operation, ...]
    exclusions: tuple[Exclusion, ...]
    unmapped: tuple[tuple[str, int], ...]  # typeshed types that became `any`, with how often

    @functools.cached_property
    def _by_id(self) -> Mapping[str, Operation]:
        return {o.id: o for o in self.operations}

    def owners(self, family: Family | None = None) -> tuple[str, ...]:
        """The types and modules that have operations, in order."""
        names = (o.owner for o in self.operations if family in (None, o.family))
        return tuple(dict.fromkeys(names))

    def get(self, id: str) -> Operation:
        """The operation with this id.

        Raises UsageError if there is none; the message gives the reason if it was excluded.
        """
        if id in self._by_id:
            return self._by_id[id]
        for exclusion in self.exclusions:
            if exclusion.id == id:
                raise UsageError(f"{id!r} is not an operation of the catalogue: {exclusion.reason}")
        raise UsageError(f"unknown operation {id!r}{closest(id, self._by_id)}")

    def select(
        self, types: Sequence[str] | None = None, *, families: Sequence[Family] | None = None
    ) -> tuple[Operation, ...]:
        """The operations of the given owners and families, in the order of the catalogue.

        A module stands for its classes, too (`collections`), and a library class may be named
        without its module (`Counter`) where that is unambiguous. None means all.

        Raises UsageError for an unknown family or owner, naming the closest known ones.
        """
        for family in families or ():
            if family not in ("builtin", "library"):
                raise UsageError(f"unknown family {family!r}: expected 'builtin' or 'library'")
        wanted = None if types is None else {o for name in types for o in self._owners_named(name)}
        return tuple(
            o
            for o in self.operations
            if (wanted is None or o.owner in wanted) and (families is None or o.family in families)
        )

    def _owners_named(self, name: str) -> list[str]:
        owners = self.owners()
        found = [o for o in owners if o == name or o.startswith(f"{name}.")]
        if not found:
            found = [o for o in owners if o.rpartition(".")[2] == name]
        if len(found) != 1 and all(o != name and not o.startswith(f"{name}.") for o in found):
            hint = f": one of {', '.join(found)}" if found else closest(name, owners)
            raise UsageError(
                f"unknown type or module {name!r}{hint}; `synth constraints` lists all of them"
            )
        return found


# -- syntax: how a special method is written ------------------------------------------------------

_BINARY: dict[str, tuple[str, str]] = {
    "__add__": ("+", "Add"),
    "__sub__": ("-", "Sub"),
    "__mul__": ("*", "Mult"),
    "__matmul__": ("@", "MatMult"),
    "__truediv__": ("/", "Div"),
    "__floordiv__": ("//", "FloorDiv"),
    "__mod__": ("%", "Mod"),
    "__pow__": ("**", "Pow"),
    "__lshift__": ("<<", "LShift"),
    "__rshift__": (">>", "RShift"),
    "__and__": ("&", "BitAnd"),
    "__or__": ("|", "BitOr"),
    "__xor__": ("^", "BitXor"),
}
_COMPARE: dict[str, tuple[str, str]] = {
    "__lt__": ("<", "Lt"),
    "__le__": ("<=", "LtE"),
    "__gt__": (">", "Gt"),
    "__ge__": (">=", "GtE"),
    "__eq__": ("==", "Eq"),
    "__ne__": ("!=", "NotEq"),
    "__contains__": ("in", "In"),
}
_UNARY: dict[str, tuple[str, str]] = {
    "__neg__": ("-", "USub"),
    "__pos__": ("+", "UAdd"),
    "__invert__": ("~", "Invert"),
    "__bool__": ("not", "Not"),
    "__len__": ("not", "Not"),  # of a class without __bool__
}
_INPLACE: dict[str, tuple[str, str]] = {
    f"__i{dunder[2:]}": (f"{symbol}=", node) for dunder, (symbol, node) in _BINARY.items()
}
_REFLECTED: dict[str, str] = {f"__r{dunder[2:]}": dunder for dunder in _BINARY}
_SUBSCRIPT: dict[str, str] = {
    "__getitem__": "x[{}]",
    "__setitem__": "x[{}] = v",
    "__delitem__": "del x[{}]",
}
_OPERANDS = ("x", "y", "z", "a", "b", "c", "d", "e")

# -- exclusions -----------------------------------------------------------------------------------

# (pattern of `fnmatch` over the id, reason); the first that matches counts.
_EXCLUDED: tuple[tuple[str, str], ...] = tuple(
    (f"{owner}.{name}" if owner else name, reason)
    for reason, owner, names in (
        ("non-deterministic: differs between processes", "builtins", "hash id"),
        ("input or output", "builtins", "open input print"),
        ("runs text as code or loads code", "builtins", "exec eval compile __import__ breakpoint"),
        (
            "interactive: meant for the prompt",
            "builtins",
            "help exit quit copyright license credits",
        ),
        ("reflection: reads or writes names", "builtins", "globals locals vars dir"),
        ("reflection: reads or writes names", "builtins", "getattr setattr delattr hasattr"),
        ("machinery of classes", "builtins", "super staticmethod classmethod property object"),
        ("asynchronous", "builtins", "aiter anext"),
        ("buffer type outside the catalogue", "builtins", "bytearray memoryview"),
        ("decorator", "functools", "wraps lru_cache cache singledispatch total_ordering"),
        ("decorator", "functools", "cached_property singledispatchmethod partialmethod"),
        ("machinery of decorators", "functools", "update_wrapper"),
        ("infinite iterator", "itertools", "count cycle"),
        ("makes a class", "collections", "namedtuple"),
        ("base class to inherit from", "collections", "UserDict* UserList* UserString*"),
        ("base class to inherit from", "datetime", "tzinfo* timezone.fromutc"),
        ("base class to inherit from", "json", "JSONEncoder.default JSONEncoder.iterencode"),
        ("changes or reads global state", "decimal", "getcontext setcontext localcontext"),
        ("context with state", "decimal", "Context*"),
        ("clears a cache of the process", "re", "purge"),
        ("takes an arbitrary element: depends on the hash seed", "set", "pop"),
        ("no builtin type supports @", "operator", "matmul imatmul"),
        ("reads the clock", "datetime", "date.today datetime.today datetime.now datetime.utcnow"),
        ("depends on the local time zone", "datetime", "date.fromtimestamp datetime.fromtimestamp"),
        ("depends on the local time zone", "datetime", "datetime.timestamp datetime.astimezone"),
        ("non-deterministic: draws at random", "statistics", "NormalDist.samples kde_random"),
        ("reads named attributes or calls named methods", "operator", "attrgetter* methodcaller*"),
    )
    for name in names.split()
)

# Overloads that are excluded while others of the same operation stay.
_KEPT_OVERLOADS: dict[str, Callable[[Signature], bool]] = {
    "builtins.type": lambda s: len(s.params) == 1,  # three arguments make a class
    "builtins.iter": lambda s: len(s.params) == 1,  # a sentinel that never comes is no end
    "itertools.repeat": lambda s: len(s.required) == 2,  # without a number it has no end
}

# Special methods that have a spelling elsewhere in the catalogue.
_BY_FUNCTION: dict[str, str] = {
    **{
        f"__{n}__": n for n in ("len", "abs", "iter", "reversed", "round", "divmod", "next", "hash")
    },
    **{f"__{n}__": n for n in ("repr", "format", "str", "int", "float", "complex", "bytes", "dir")},
    **{f"__{n}__": f"math.{n}" for n in ("ceil", "floor", "trunc")},
    "__rdivmod__": "divmod",
    "__call__": "x(…)",
}

_SPECIAL = frozenset().union(
    *(_BINARY, _COMPARE, _UNARY, _INPLACE, _SUBSCRIPT, _REFLECTED, _BY_FUNCTION)
)


def _excluded_by_pattern(id: str) -> str | None:
    return next((why for pattern, why in _EXCLUDED if fnmatch.fnmatchcase(id, pattern)), None)


def _excluded_object(value: object) -> str | None:
    """The reason why a public name of a module or class is no operation, from what it is."""
    if isinstance(value, types.ModuleType):
        return "a module"
    if not callable(value):
        return "a constant or an attribute, not a call"
    if isinstance(value, type) and issubclass(value, BaseException):
        return "exception type"
    if isinstance(value, type) and hasattr(value, "__members__"):
        return "enumeration of constants"
    if isinstance(value, type) and hasattr(value, "_fields"):
        return "named tuple: other operations give it"
    if inspect.iscoroutinefunction(value):
        return "asynchronous"
    return None


# -- building -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Owner:
    """A class whose methods are listed: its name here, the class, and where its stub is."""

    name: str
    cls: type
    module: str
    family: Family


def _function_of(owner: str, name: str) -> tuple[str, int]:
    """The special method behind a function ("" if none), and how many arguments that takes."""
    if owner == "operator":
        dunder = {"iconcat": "__iadd__", "inv": "__invert__"}.get(name, f"__{name.strip('_')}__")
        if dunder in _BINARY or dunder in _INPLACE:
            return dunder, 1
        return (dunder, 0) if dunder in _UNARY or dunder == "__abs__" else ("", 0)
    dunder = f"__{name}__"
    if (owner, name) in (("builtins", "abs"), ("builtins", "round"), ("builtins", "divmod")):
        return dunder, 1
    return (dunder, 0) if _BY_FUNCTION.get(dunder) == f"{owner}.{name}" else ("", 0)


class _Builder:
    """Collects operations and exclusions; one use."""

    def __init__(self) -> None:
        self.stubs = Stubs()
        self.operations: list[Operation] = []
        self.exclusions: list[Exclusion] = []
        self.owners: dict[type, _Owner] = {}

    def exclude(self, owner: str, name: str, reason: str) -> None:
        self.exclusions.append(Exclusion(owner, name, reason))

    # -- owners --------------------------------------------------------------------------------

    def find_owners(self) -> None:
        """Register every class first: a signature may name a class that is listed later."""
        for cls in BUILTIN_TYPES:
            self.add_owner(cls.__name__, cls, "builtins", "builtin")
        for module in LIBRARY_MODULES:
            for name, value in _public(importlib.import_module(module)):
                id = f"{module}.{name}"
                if (
                    isinstance(value, type)
                    and value not in self.owners
                    and _excluded_object(value) is None
                    and _excluded_by_pattern(id) is None
                ):
                    self.add_owner(id, value, module, "library")

    def add_owner(self, name: str, cls: type, module: str, family: Family) -> None:
        # Iterators have no value to show; they are written as what they yield.
        if hasattr(cls, "__next__") or self.stubs.register(module, cls.__name__, name):
            self.owners[cls] = _Owner(name, cls, module, family)

    # -- modules -------------------------------------------------------------------------------

    def add_module(self, module: types.ModuleType, family: Family) -> None:
        owner = module.__name__
        for name, value in _public(module):
            reason = _excluded_by_pattern(f"{owner}.{name}") or _excluded_object(value)
            if reason is None:
                reason = self.add_callable(owner, name, value, family)
            if reason is not None:
                self.exclude(owner, name, reason)

    def add_callable(self, owner: str, name: str, value: object, family: Family) -> str | None:
        """Add a function or a constructor, or say why not."""
        signatures = self.call_signatures(owner, name, value)
        if signatures is None:
            return "no signature is known, or it refuses to be called"
        keep = _KEPT_OVERLOADS.get(f"{owner}.{name}")
        if keep is not None:
            signatures = tuple(s for s in signatures if keep(s))
        reason = _excluded_signatures(signatures)
        if reason is not None:
            return reason
        prefix = "" if family == "builtin" else f"{owner}."
        self.operations.append(
            Operation(
                owner=owner,
                name=name,
                kind="constructor" if isinstance(value, type) else "function",
                family=family,
                form=f"{prefix}{name}({_arguments(signatures, 'x', bare=False)})",
                signatures=signatures,
                returns_none=_returns_none(signatures),
                mutates=_changes_an_argument(value, signatures),
            )
        )
        return None

    def call_signatures(self, owner: str, name: str, value: object) -> tuple[Signature, ...] | None:
        """The signatures of a function or constructor; None if the stubs have none."""
        signatures = self.operand_signatures(owner, name)
        if signatures:
            return signatures
        found = self.stubs.function(owner, name)
        if found is not None:
            return self.stubs.signatures(found, bound="none")
        found = self.stubs.constructor(owner, name)
        if found is not None:
            return self.stubs.signatures(found, bound="constructor")
        term = self.stubs.own_term(owner, name)
        if term is None or not isinstance(value, type):
            return None
        try:
            value()
        except TypeError:  # "cannot create 're.Match' instances"
            return None
        return (Signature(None, (), term),)

    def operand_signatures(self, owner: str, name: str) -> tuple[Signature, ...]:
        """The signatures of a function that stands for an operator or a special method.

        The stubs of `operator.truediv` take anything, and those of `round` and `math.floor` speak
        of protocols; what the special methods of int, float, list and set say is more exact.
        """
        dunder, count = _function_of(owner, name)
        if not dunder:
            return ()
        plain = f"__{dunder[3:]}" if dunder in _INPLACE else dunder
        out: list[Signature] = []
        for cls in ("list", "set", "int", "float", "complex"):
            special = plain if cls in ("int", "float", "complex") else dunder
            found = self.stubs.method("builtins", cls, special)
            signatures = self.stubs.signatures(found, bound="instance") if found else ()
            for s in _cut(signatures, count):
                letters = (replace(p, name=n) for p, n in zip(s.params, "yz", strict=False))
                first = Param("x", s.receiver or TypeTerm(cls), True, "positional")
                out.append(replace(s, receiver=None, params=(first, *letters)))
        return merged(out)

    # -- classes -------------------------------------------------------------------------------

    def add_class(self, owner: _Owner) -> None:
        for name in sorted(dir(owner.cls)):
            value = inspect.getattr_static(owner.cls, name)
            if name.startswith("_"):
                # the rest is machinery (__reduce__, __doc__) or private, and no operation anywhere
                if name in _SPECIAL and value is not inspect.getattr_static(object, name, None):
                    self.add_special(owner, name)
            else:
                self.add_member(owner, name)

    def inherited(self, owner: _Owner, name: str) -> str | None:
        """The reason for what a listed base class defines and the class itself does not."""
        home = next((c for c in owner.cls.__mro__ if name in c.__dict__), owner.cls)
        if home is owner.cls or home not in self.owners:
            return None
        return f"inherited from {self.owners[home].name}, listed there"

    def add_member(self, owner: _Owner, name: str) -> None:
        reason = (
            _excluded_by_pattern(f"{owner.name}.{name}")
            or self.inherited(owner, name)
            or _excluded_object(getattr(owner.cls, name))
        )
        found = self.stubs.method(owner.module, owner.cls.__name__, name)
        if reason is None and found is None:
            reason = "typeshed has no signature for it"
        if reason is not None or found is None:
            self.exclude(owner.name, name, reason or "")
            return
        kind = _method_kind(owner.cls, name)
        signatures = self.stubs.signatures(found, bound=_BOUND[kind])
        reason = _excluded_signatures(signatures)
        if reason is not None:
            self.exclude(owner.name, name, reason)
            return
        mutates = kind == "method" and _changes_its_receiver(owner.cls, name, signatures)
        if _returns_none(signatures) and not mutates:
            self.exclude(owner.name, name, "gives nothing and changes nothing")
            return
        bare = kind == "method"
        arguments = _arguments(signatures, "y" if bare else "x", bare=bare)
        self.operations.append(
            Operation(
                owner=owner.name,
                name=name,
                kind=kind,
                family=owner.family,
                form=f"{'x' if bare else owner.name}.{name}({arguments})",
                signatures=signatures,
                returns_none=_returns_none(signatures),
                mutates=mutates,
            )
        )

    def add_special(self, owner: _Owner, name: str) -> None:
        """A special method: an operator, a subscript form, or a reason."""
        reason = self.inherited(owner, name) or _excluded_special(name)
        if (
            name == "__len__"
            and not hasattr(owner.cls, "__bool__")
            and not self.inherited(owner, name)
        ):
            signatures = self.special_signatures(owner, name) or ()
            self.operations.append(_operator(owner, name, signatures))
        if reason is not None:
            self.exclude(owner.name, name, reason)
            return
        found = self.special_signatures(owner, name)
        if found is None:
            # The slots of a C type come in groups: complex has __lt__ and refuses to use it.
            self.exclude(owner.name, name, "typeshed does not define it: not supported")
        elif name in _SUBSCRIPT:
            self.operations.extend(_subscripts(owner, name, found))
        else:
            self.operations.append(_operator(owner, name, found))

    def special_signatures(self, owner: _Owner, name: str) -> tuple[Signature, ...] | None:
        """The signatures of a special method; None if the stubs have none."""
        found = self.stubs.method(owner.module, owner.cls.__name__, name)
        if found is None and name == "__ne__":  # by default the opposite of ==
            found = self.stubs.method(owner.module, owner.cls.__name__, "__eq__")
        if found is not None:
            return self.stubs.signatures(found, bound="instance")
        if name in ("__bool__", "__len__"):
            return (Signature(self.stubs.own_term(owner.module, owner.cls.__name__), (), _BOOL),)
        return None


_BOOL = TypeTerm("bool")


def _public(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    """The public names of a module with their values, sorted."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n in dir(module) if not n.startswith("_") or n == "__import__"]
    for name in sorted(set(names)):
        yield name, getattr(module, name)


def _excluded_special(name: str) -> str | None:
    if name in _REFLECTED:
        return f"reflected form of {_REFLECTED[name]}"
    if name in _BY_FUNCTION:
        return f"written as a call of {_BY_FUNCTION[name]}"
    return None


def _excluded_signatures(signatures: Sequence[Signature]) -> str | None:
    if not signatures:
        return "no overload is deterministic and finite"
    if all(any(p.type.name == "file" for p in s.required) for s in signatures):
        return "input or output"
    if all(s.returns.name == "never" for s in signatures):
        return "always raises"
    return None


_BOUND: dict[str, Literal["instance", "class", "none"]] = {
    "method": "instance",
    "classmethod": "class",
    "staticmethod": "none",
}


def _method_kind(cls: type, name: str) -> Literal["method", "classmethod", "staticmethod"]:
    value = inspect.getattr_static(cls, name)
    if isinstance(value, staticmethod):
        return "staticmethod"
    if isinstance(value, classmethod | types.ClassMethodDescriptorType):
        return "classmethod"
    return "method"


def _returns_none(signatures: Sequence[Signature]) -> bool:
    return all(s.returns.name == "None" for s in signatures)


def _arguments(signatures: Sequence[Signature], first: str, *, bare: bool) -> str:
    """The arguments that `form` shows.

    With `bare`, those that the first telling overload requires, maybe none; otherwise those of the
    overload that requires least, or else one optional argument.
    """
    operands = _OPERANDS[_OPERANDS.index(first) :]
    telling = [s for s in signatures if not _tells_nothing(s)] or list(signatures)
    shown = [_needed(s, or_optional=not bare) for s in telling]
    chosen = shown[0] if bare else min(filter(None, shown), key=len, default=[])
    names = zip(chosen, operands, strict=False)
    return ", ".join(f"{p.name}={n}" if p.kind == "keyword" else n for p, n in names)


def _needed(signature: Signature, *, or_optional: bool) -> list[Param]:
    """The required parameters; if none is positional, two of `*args` or one optional one first."""
    required = list(signature.required)
    if any(p.kind == "positional" for p in required):
        return required
    varargs = [p for p in signature.params if p.kind == "varargs"]
    optional = [p for p in signature.params if p.kind == "positional" and or_optional]
    return [*(varargs * 2 or optional[:1]), *required]


def _tells_nothing(signature: Signature) -> bool:
    """An overload for the call without arguments: `update(**kwargs)`, `subtract(iterable=None)`."""
    positional = [p for p in signature.params if p.kind == "positional"]
    no_value = bool(positional) and all(p.type.name == "None" for p in positional)
    return no_value or (signature.keywords is not None and not signature.required)


def _cut(signatures: Sequence[Signature], count: int) -> tuple[Signature, ...]:
    """Reduced to `count` parameters: `pow` has a third operand, the operator has not."""
    usable = [s for s in signatures if len(s.required) <= count] or signatures
    return merged([replace(s, params=s.params[:count], keywords=None) for s in usable])


def _operator(owner: _Owner, name: str, signatures: Sequence[Signature]) -> Operation:
    if name in _UNARY:
        symbol, node = _UNARY[name]
        form = f"{symbol} x" if symbol.isalpha() else f"{symbol}x"
    else:
        symbol, node = next(t[name] for t in (_BINARY, _COMPARE, _INPLACE) if name in t)
        form = "y in x" if node == "In" else f"x {symbol} y"
    cut = _cut(signatures, 0 if name in _UNARY else 1)
    if node == "Not":
        cut = tuple(Signature(s.receiver, (), _BOOL) for s in cut)
    in_place = name in _INPLACE
    return Operation(
        owner=owner.name,
        name="__len__[not]" if name == "__len__" else name,
        kind="operator",
        family=owner.family,
        form=form,
        signatures=cut,
        returns_none=in_place,
        mutates=in_place,
        symbol=symbol,
        node=node,
    )


def _subscripts(owner: _Owner, name: str, signatures: Sequence[Signature]) -> Iterator[Operation]:
    """`x[i]`, `x[i:j]`, … : one operation per form that the key's types allow."""
    by_slice = [s for s in signatures if _takes(s, "slice")]
    by_key = [s for s in signatures if not _takes(s, "slice") or s.params[0].type.name == "union"]
    forms: list[tuple[str, str, list[Signature]]] = []
    if by_key:
        key = [_with_key(s, {"slice"}) for s in by_key]
        position = all(s.params[0].type.name == "int" for s in key)
        forms.append(("index", "i", key) if position else ("key", "k", key))
    if by_slice:
        cut = [_with_key(s, None) for s in by_slice]
        forms.append(("slice", "i:j", cut))
        if name == "__getitem__":  # stores with a step need a value of exactly the right length
            forms.append(("step", "i:j:k", cut))
    stores = name != "__getitem__"
    for label, inside, chosen in forms:
        form = _SUBSCRIPT[name].format(inside)
        yield Operation(
            owner=owner.name,
            name=f"{name}[{label}]",
            kind="subscript",
            family=owner.family,
            form=form,
            signatures=tuple(dict.fromkeys(chosen)),
            returns_none=stores,
            mutates=stores,
            symbol=form.replace("x[", "[").replace(" = v", "="),
            node="Subscript",
        )


def _takes(signature: Signature, name: str) -> bool:
    return any(term.name == name for term in signature.params[0].type.walk())


def _with_key(signature: Signature, without: set[str] | None) -> Signature:
    """The signature with its key reduced: to a slice, or to everything that is not in `without`."""
    first, *rest = signature.params
    members = first.type.args if first.type.name == "union" else (first.type,)
    if without is None:
        term = TypeTerm("slice")
    else:
        kept = tuple(m for m in members if m.name not in without)
        term = kept[0] if len(kept) == 1 else TypeTerm("union", kept)
    param = Param(first.name, term, first.required, first.kind)
    return replace(signature, params=(param, *rest))


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()


# -- what changes its operands: found by trying ---------------------------------------------------

# Sample arguments by the name of a term, made afresh for every try. They overlap with the samples
# of receivers and also bring something new, so that both `remove` and `add` have an effect.
_SAMPLES: dict[str, Callable[[], list[object]]] = {
    **dict.fromkeys(("any", "hashable", "comparable"), lambda: [1, 9]),
    "int": lambda: [1, 0, 2],
    "float": lambda: [1.5],
    "bool": lambda: [True],
    "str": lambda: ["a"],
    "bytes": lambda: [b"a"],
    "None": lambda: [None],
    "slice": lambda: [slice(0, 1)],
    "range": lambda: [range(3)],
    **dict.fromkeys(("list", "iterable", "sequence"), lambda: [[3, 1, 2], [1, 9], [(1, 9)]]),
    **dict.fromkeys(("set", "frozenset", "set_like"), lambda: [{1, 9}, {2}]),
    **dict.fromkeys(("dict", "mapping"), lambda: [{1: 3, 9: 4}]),
    "callable": lambda: [lambda *args: args[0]],
}
_MUTABLE = frozenset({"list", "dict", "set"})


def _samples(term: TypeTerm) -> list[object]:
    if term.name == "union":
        return [value for arg in term.args for value in _samples(arg)]
    if term.name in _SAMPLES:
        return _SAMPLES[term.name]()
    if term.is_var:
        return _SAMPLES["any"]()
    sampled = _sample_of(_class_named(term.name))
    return [] if sampled is None else [sampled]


def _class_named(name: str) -> object:
    """The class behind a term such as `collections.Counter`; None for a word of the vocabulary."""
    module, _, label = name.rpartition(".")
    return getattr(importlib.import_module(module), label) if module else None


def _sample_of(cls: object) -> object | None:
    """An instance with three unsorted elements, or None if the class is no mutable container."""
    if not isinstance(cls, type) or cls.__hash__ is not None:
        return None
    if issubclass(cls, Mapping):
        content: list[object] = [{1: 3, 2: 1, 3: 2}]
        # defaultdict takes the factory of missing values first
        return cls(int, *content) if hasattr(cls, "default_factory") else cls(*content)
    return cls([3, 1, 2]) if issubclass(cls, Collection) else None


def _argument_lists(params: Sequence[Param]) -> Iterator[tuple[list[object], dict[str, object]]]:
    """Arguments to try a call with: the required ones alone, then all that can be had."""
    for chosen in ([p for p in params if p.required], list(params)):
        pools = [_samples(p.type) for p in chosen]
        for values in itertools.islice(itertools.product(*pools), 40):
            pairs = list(zip(chosen, values, strict=True))
            yield (
                [value for p, value in pairs if p.kind != "keyword"],
                {p.name: value for p, value in pairs if p.kind == "keyword"},
            )


def _changes(call: Callable[..., object], target: object, *args: object, **names: object) -> bool:
    """Whether `call(target, …)` leaves `target` looking different."""
    before = repr(target)
    try:
        call(target, *args, **names)
    except Exception:  # any refusal means no more than that these samples do not fit
        return False
    return repr(target) != before


def _changes_its_receiver(cls: type, name: str, signatures: Sequence[Signature]) -> bool:
    method = getattr(cls, name)
    return _sample_of(cls) is not None and any(
        _changes(method, _sample_of(cls), *args, **names)
        for signature in signatures
        for args, names in _argument_lists(signature.params)
    )


def _changes_an_argument(value: object, signatures: Sequence[Signature]) -> bool:
    """Whether a function that asks for a list, dict or set changes it."""
    return callable(value) and any(
        _changes(value, target, *args, **names)
        for signature in signatures
        if signature.params and signature.params[0].type.name in _MUTABLE
        for args, names in _argument_lists(signature.params[1:])
        for target in _samples(signature.params[0].type)
    )


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue of the running interpreter, built once per process (about half a second)."""
    builder = _Builder()
    builder.find_owners()
    classes: dict[str, list[_Owner]] = {}
    for owner in builder.owners.values():
        classes.setdefault(owner.module, []).append(owner)
    for owner in classes["builtins"]:
        builder.add_class(owner)
    builder.add_module(builtins, "builtin")
    for name in LIBRARY_MODULES:
        builder.add_module(importlib.import_module(name), "library")
        for owner in sorted(classes.get(name, []), key=lambda o: o.name):
            builder.add_class(owner)
    order = {name: n for n, name in enumerate(dict.fromkeys(o.owner for o in builder.operations))}
    return Catalogue(
        operations=tuple(sorted(builder.operations, key=lambda o: (order[o.owner], o.name))),
        exclusions=tuple(builder.exclusions),
        unmapped=tuple(sorted(builder.stubs.unmapped.items())),
    )
