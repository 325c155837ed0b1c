"""What the names of typeshed mean in the vocabulary of terms.

Covers one table, which is data, and the sets of names that are treated in a way of their own. How a name
is looked up and its arguments are read: `lookup.py` and `annotations.py`.
"""

from __future__ import annotations

from synth.stubs.terms import TypeTerm

# What a name of typing, collections.abc, _typeshed, types or a private protocol of one stub means
# here. A and B are its first two arguments. The right-hand side is read by `parse_term`.
VOCABULARY: dict[str, str] = {
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
BESIDE_THE_POINT = frozenset(
    {"LiteralString", "TypeGuard", "TypeIs", "SupportsIter", "_SupportsReversed"}
    | {"_SupportsPow2", "_SupportsPow3", "_SupportsPow3NoneOnly"}
)

# Modules whose names need no parsing when the vocabulary has them.
VOCABULARY_MODULES = frozenset(
    {"typing", "typing_extensions", "collections.abc", "_collections_abc", "_typeshed", "types"}
    | {"numbers", "builtins"}
)
NUMBERS = frozenset({"union[int, float]", "int", "float"})
SCALARS = frozenset(map(TypeTerm, ("int", "float", "complex", "bool", "str", "bytes")))
