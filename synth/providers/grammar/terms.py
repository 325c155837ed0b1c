"""Types while a program is being written: short names for `TypeTerm`, and what values of them can do.

Covers construction, text, element types, and the predicates that the other modules ask. Does not hold
any syntax (`expressions.py`).
"""

from __future__ import annotations

from synth.catalogue import TypeTerm

INT = TypeTerm("int")
FLOAT = TypeTerm("float")
COMPLEX = TypeTerm("complex")
BOOL = TypeTerm("bool")
STR = TypeTerm("str")
BYTES = TypeTerm("bytes")
RANGE = TypeTerm("range")
NONE = TypeTerm("None")
ANY = TypeTerm("any")


def list_of(item: TypeTerm) -> TypeTerm:
    """`list[item]`."""
    return TypeTerm("list", (item,))


def set_of(item: TypeTerm) -> TypeTerm:
    """`set[item]`."""
    return TypeTerm("set", (item,))


def frozenset_of(item: TypeTerm) -> TypeTerm:
    """`frozenset[item]`."""
    return TypeTerm("frozenset", (item,))


def tuple_of(*items: TypeTerm) -> TypeTerm:
    """A tuple of exactly these positions."""
    return TypeTerm("tuple", items)


def tuple_many(item: TypeTerm) -> TypeTerm:
    """`tuple[item, ...]`: any length."""
    return TypeTerm("tuple", (item, TypeTerm("...")))


def dict_of(key: TypeTerm, value: TypeTerm) -> TypeTerm:
    """`dict[key, value]`."""
    return TypeTerm("dict", (key, value))


LIST_INT = list_of(INT)
LIST_STR = list_of(STR)
DICT_STR_INT = dict_of(STR, INT)

SCALARS = frozenset({"int", "float", "str", "bool", "bytes", "complex"})
NUMBERS = frozenset({"int", "float", "bool"})
SIZED = frozenset(
    {"str", "bytes", "bytearray", "list", "tuple", "dict", "set", "frozenset", "range"}
    | {"collections.deque", "collections.Counter", "collections.OrderedDict"}
    | {"collections.defaultdict", "collections.ChainMap", "mapping"}
)
SEQUENCES = frozenset({"list", "tuple", "str", "bytes", "range", "sequence", "collections.deque"})
UNORDERED = frozenset({"set", "frozenset", "set_like"})
MAPPINGS = frozenset(
    {"dict", "mapping", "collections.Counter", "collections.OrderedDict"}
    | {"collections.defaultdict", "collections.ChainMap"}
)


def element(term: TypeTerm) -> TypeTerm:
    """The type that a loop over a value of this type yields; `any` if nothing is known."""
    if term.name == "str":
        return STR
    if term.name in ("bytes", "bytearray", "range"):
        return INT
    if not term.args:
        return ANY
    if term.name == "tuple" and len(set(term.args) - {TypeTerm("...")}) > 1:
        return ANY
    return term.args[0]


def orderable(term: TypeTerm) -> bool:
    """Whether two values of this type can always be compared with `<`."""
    if term.name in ("int", "float", "str", "bool", "bytes"):
        return True
    if term.name in ("list", "tuple") and term.args:
        return all(arg.name == "..." or orderable(arg) for arg in term.args)
    return term.name in ("fractions.Fraction", "decimal.Decimal", "datetime.date")


def hashable(term: TypeTerm) -> bool:
    """Whether values of this type can stand in a set."""
    if term.name == "tuple":
        return all(arg.name == "..." or hashable(arg) for arg in term.args)
    return term.name in SCALARS or term.name in ("frozenset", "range")


def iterable(term: TypeTerm) -> bool:
    """Whether a `for` loop takes values of this type."""
    return term.name in SIZED or term.name in ("iterator", "iterable", "sequence", "set_like")
