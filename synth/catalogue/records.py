"""What the catalogue consists of: operations, exclusions, and how to find and select them.

Covers the records alone. How an operation is written is said in `forms.py`, what is left out in
`exclusions.py`, and what there is at all in `enumeration.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from synth.errors import UsageError, closest
from synth.stubs import Signature

Family = Literal["builtin", "library"]
Kind = Literal[
    "method", "classmethod", "staticmethod", "operator", "subscript", "function", "constructor"
]
OPERANDS = ("x", "y", "z", "a", "b", "c", "d", "e")


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
        return len({w for w in _words(self.form) if w in OPERANDS or w in ("i", "j", "k", "v")})


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


@dataclass(frozen=True)
class Owner:
    """A class whose methods are listed: its name here, the class, and where its stub is."""

    name: str
    cls: type
    module: str
    family: Family


def _words(text: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in text).split()
