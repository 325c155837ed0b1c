"""All operations of the running interpreter, each with the exclusions around it.

Covers which types and modules are looked at, what exists there, the signatures that typeshed has for it,
and the order. A name is an operation or an exclusion, never neither.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from synth.catalogue.effects import changes_an_argument, changes_its_receiver
from synth.catalogue.exclusions import (
    BY_FUNCTION,
    KEPT_OVERLOADS,
    SPECIAL,
    excluded_by_pattern,
    excluded_object,
    excluded_signatures,
    excluded_special,
)
from synth.catalogue.forms import (
    BINARY,
    BOOL,
    INPLACE,
    SUBSCRIPT,
    UNARY,
    cut_to,
    operator_of,
    shown_arguments,
    subscripts_of,
)
from synth.catalogue.records import Catalogue, Exclusion, Family, Operation, Owner
from synth.stubs import Param, Signature, Stubs, TypeTerm, merged

# The order of both is the order of the catalogue.
BUILTIN_TYPES: tuple[type, ...] = (
    *(int, float, complex, bool, str, bytes),
    *(list, tuple, dict, set, frozenset, range),
)
LIBRARY_MODULES: tuple[str, ...] = (
    *("collections", "itertools", "functools", "math", "re", "heapq", "bisect", "string"),
    *("textwrap", "statistics", "fractions", "decimal", "datetime", "json", "operator"),
)


@functools.cache
def catalogue() -> Catalogue:
    """The catalogue of the running interpreter, built once per process (about half a second)."""
    builder = _Builder()
    builder.find_owners()
    classes: dict[str, list[Owner]] = {}
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


class _Builder:
    """Collects operations and exclusions; one use."""

    def __init__(self) -> None:
        self.stubs = Stubs()
        self.operations: list[Operation] = []
        self.exclusions: list[Exclusion] = []
        self.owners: dict[type, Owner] = {}

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
                    and excluded_object(value) is None
                    and excluded_by_pattern(id) is None
                ):
                    self.add_owner(id, value, module, "library")

    def add_owner(self, name: str, cls: type, module: str, family: Family) -> None:
        # Iterators have no value to show; they are written as what they yield.
        if hasattr(cls, "__next__") or self.stubs.register(module, cls.__name__, name):
            self.owners[cls] = Owner(name, cls, module, family)

    # -- modules -------------------------------------------------------------------------------

    def add_module(self, module: types.ModuleType, family: Family) -> None:
        owner = module.__name__
        for name, value in _public(module):
            reason = excluded_by_pattern(f"{owner}.{name}") or excluded_object(value)
            if reason is None:
                reason = self.add_callable(owner, name, value, family)
            if reason is not None:
                self.exclude(owner, name, reason)

    def add_callable(self, owner: str, name: str, value: object, family: Family) -> str | None:
        """Add a function or a constructor, or say why not."""
        signatures = self.call_signatures(owner, name, value)
        if signatures is None:
            return "no signature is known, or it refuses to be called"
        keep = KEPT_OVERLOADS.get(f"{owner}.{name}")
        if keep is not None:
            signatures = tuple(s for s in signatures if keep(s))
        reason = excluded_signatures(signatures)
        if reason is not None:
            return reason
        prefix = "" if family == "builtin" else f"{owner}."
        self.operations.append(
            Operation(
                owner=owner,
                name=name,
                kind="constructor" if isinstance(value, type) else "function",
                family=family,
                form=f"{prefix}{name}({shown_arguments(signatures, 'x', bare=False)})",
                signatures=signatures,
                returns_none=_returns_none(signatures),
                mutates=changes_an_argument(value, signatures),
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
        plain = f"__{dunder[3:]}" if dunder in INPLACE else dunder
        out: list[Signature] = []
        for cls in ("list", "set", "int", "float", "complex"):
            special = plain if cls in ("int", "float", "complex") else dunder
            found = self.stubs.method("builtins", cls, special)
            signatures = self.stubs.signatures(found, bound="instance") if found else ()
            for s in cut_to(signatures, count):
                letters = (replace(p, name=n) for p, n in zip(s.params, "yz", strict=False))
                first = Param("x", s.receiver or TypeTerm(cls), True, "positional")
                out.append(replace(s, receiver=None, params=(first, *letters)))
        return merged(out)

    # -- classes -------------------------------------------------------------------------------

    def add_class(self, owner: Owner) -> None:
        for name in sorted(dir(owner.cls)):
            value = inspect.getattr_static(owner.cls, name)
            if name.startswith("_"):
                # the rest is machinery (__reduce__, __doc__) or private, and no operation anywhere
                if name in SPECIAL and value is not inspect.getattr_static(object, name, None):
                    self.add_special(owner, name)
            else:
                self.add_member(owner, name)

    def inherited(self, owner: Owner, name: str) -> str | None:
        """The reason for what a listed base class defines and the class itself does not."""
        home = next((c for c in owner.cls.__mro__ if name in c.__dict__), owner.cls)
        if home is owner.cls or home not in self.owners:
            return None
        return f"inherited from {self.owners[home].name}, listed there"

    def add_member(self, owner: Owner, name: str) -> None:
        reason = (
            excluded_by_pattern(f"{owner.name}.{name}")
            or self.inherited(owner, name)
            or excluded_object(getattr(owner.cls, name))
        )
        found = self.stubs.method(owner.module, owner.cls.__name__, name)
        if reason is None and found is None:
            reason = "typeshed has no signature for it"
        if reason is not None or found is None:
            self.exclude(owner.name, name, reason or "")
            return
        kind = _method_kind(owner.cls, name)
        signatures = self.stubs.signatures(found, bound=_BOUND[kind])
        reason = excluded_signatures(signatures)
        if reason is not None:
            self.exclude(owner.name, name, reason)
            return
        mutates = kind == "method" and changes_its_receiver(owner.cls, name, signatures)
        if _returns_none(signatures) and not mutates:
            self.exclude(owner.name, name, "gives nothing and changes nothing")
            return
        bare = kind == "method"
        arguments = shown_arguments(signatures, "y" if bare else "x", bare=bare)
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

    def add_special(self, owner: Owner, name: str) -> None:
        """A special method: an operator, a subscript form, or a reason."""
        reason = self.inherited(owner, name) or excluded_special(name)
        if (
            name == "__len__"
            and not hasattr(owner.cls, "__bool__")
            and not self.inherited(owner, name)
        ):
            signatures = self.special_signatures(owner, name) or ()
            self.operations.append(operator_of(owner, name, signatures))
        if reason is not None:
            self.exclude(owner.name, name, reason)
            return
        found = self.special_signatures(owner, name)
        if found is None:
            # The slots of a C type come in groups: complex has __lt__ and refuses to use it.
            self.exclude(owner.name, name, "typeshed does not define it: not supported")
        elif name in SUBSCRIPT:
            self.operations.extend(subscripts_of(owner, name, found))
        else:
            self.operations.append(operator_of(owner, name, found))

    def special_signatures(self, owner: Owner, name: str) -> tuple[Signature, ...] | None:
        """The signatures of a special method; None if the stubs have none."""
        found = self.stubs.method(owner.module, owner.cls.__name__, name)
        if found is None and name == "__ne__":  # by default the opposite of ==
            found = self.stubs.method(owner.module, owner.cls.__name__, "__eq__")
        if found is not None:
            return self.stubs.signatures(found, bound="instance")
        if name in ("__bool__", "__len__"):
            return (Signature(self.stubs.own_term(owner.module, owner.cls.__name__), (), BOOL),)
        return None


def _public(module: types.ModuleType) -> Iterator[tuple[str, object]]:
    """The public names of a module with their values, sorted."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [n for n in dir(module) if not n.startswith("_") or n == "__import__"]
    for name in sorted(set(names)):
        yield name, getattr(module, name)


def _function_of(owner: str, name: str) -> tuple[str, int]:
    """The special method behind a function ("" if none), and how many arguments that takes."""
    if owner == "operator":
        dunder = {"iconcat": "__iadd__", "inv": "__invert__"}.get(name, f"__{name.strip('_')}__")
        if dunder in BINARY or dunder in INPLACE:
            return dunder, 1
        return (dunder, 0) if dunder in UNARY or dunder == "__abs__" else ("", 0)
    dunder = f"__{name}__"
    if (owner, name) in (("builtins", "abs"), ("builtins", "round"), ("builtins", "divmod")):
        return dunder, 1
    return (dunder, 0) if BY_FUNCTION.get(dunder) == f"{owner}.{name}" else ("", 0)


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
