"""Names and words that the generated programs are written with.

Covers what a reader sees: parameter, variable and function names by type, and the words that literals
are made of. Does not decide where a name is used (`scope.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PARAMETERS: dict[str, tuple[str, ...]] = {
    "int": ("limit", "step", "offset", "factor", "threshold", "bound", "shift", "rounds", "quota"),
    "float": ("rate", "weight", "ratio", "price", "margin", "scale"),
    "complex": ("signal", "point", "phase"),
    "bool": ("strict", "reverse", "inclusive", "active"),
    "str": ("text", "phrase", "label", "message", "title", "prefix", "token", "code"),
    "bytes": ("payload", "packet", "chunk", "raw"),
    "bytearray": ("buffer", "frame"),
    "list[int]": ("numbers", "values", "scores", "heights", "readings", "counts"),
    "list[float]": ("prices", "weights", "ratios", "samples"),
    "list[str]": ("words", "names", "tags", "parts", "labels"),
    "list[list[int]]": ("grid", "rows", "matrix"),
    "list[tuple[int, int]]": ("pairs", "edges", "spans"),
    "dict[str, int]": ("stock", "ages", "points", "prices", "votes"),
    "tuple[int, ...]": ("marks", "levels", "digits"),
    "tuple[str, ...]": ("colors", "cities", "steps"),
    "set[int]": ("allowed", "chosen", "primes"),
    "set[str]": ("vocabulary", "topics", "banned"),
    "frozenset[int]": ("fixed", "reserved"),
    "frozenset[str]": ("keywords", "stops"),
    "range": ("window", "slots"),
}
"""Parameter names by type; other types fall back to `FALLBACK`."""

FALLBACK = ("data", "source", "subject", "base")

STATES: dict[str, tuple[str, ...]] = {
    "int": ("total", "score", "tally", "balance", "weight_sum", "level", "checksum"),
    "float": ("average", "amount", "cost", "mean"),
    "bool": ("found", "matched", "even"),
    "str": ("joined", "trail", "caption", "output", "line", "encoded"),
    "bytes": ("block", "stream", "digest"),
    "list": ("picked", "kept", "collected", "result", "ordered", "queue", "history"),
    "dict": ("groups", "table", "lookup", "index", "sizes", "buckets"),
    "tuple": ("pair", "record", "summary", "bounds"),
    "set": ("seen", "unique", "distinct", "known"),
    "frozenset": ("frozen", "shared", "common"),
    "complex": ("rotated", "vector", "sum_point"),
    "range": ("span", "positions"),
    "object": ("current", "derived", "outcome", "measure", "made"),
}
"""Names of local variables by the outer name of their type."""

ITEMS: dict[str, tuple[str, ...]] = {
    "int": ("number", "value", "item", "n"),
    "float": ("amount_item", "reading", "x"),
    "str": ("word", "name", "piece", "entry"),
    "char": ("ch", "letter", "symbol"),
    "list": ("row", "group", "part"),
    "tuple": ("pair_item", "couple"),
    "object": ("element", "thing"),
}
"""Names of loop variables by the type of the element; `char` is a string that came from a string."""

INDEXES = ("i", "j", "k", "position", "turn")


@dataclass(frozen=True)
class Names:
    """What variables are called: pools by the name of a type."""

    parameters: Mapping[str, tuple[str, ...]]
    states: Mapping[str, tuple[str, ...]]
    items: Mapping[str, tuple[str, ...]]
    indexes: tuple[str, ...]


ORDINARY = Names(PARAMETERS, STATES, ITEMS, INDEXES)
"""The names of all programs that are written for a constraint."""

VERBS = (
    "collect", "measure", "combine", "tally", "rank", "encode", "filter", "merge", "scan", "score", "group",
    "fold", "trim", "balance", "extract", "compare", "arrange", "summarize", "transform", "count", "select",
    "blend", "weigh", "trace", "split", "assemble",
)  # fmt: skip

NOUNS: dict[str, tuple[str, ...]] = {
    "int": ("amounts", "steps", "digits", "units"),
    "float": ("rates", "weights", "measures"),
    "complex": ("signals", "points"),
    "bool": ("flags", "states"),
    "str": ("text", "letters", "phrases", "tokens"),
    "bytes": ("packets", "bytes_used", "frames"),
    "list": ("items", "series", "entries"),
    "tuple": ("records", "marks"),
    "dict": ("table", "stock", "entries"),
    "set": ("members", "topics"),
    "frozenset": ("members", "keywords"),
    "range": ("slots", "windows"),
    "object": ("parts", "values", "pieces"),
}

HELPER_VERBS = ("adjust", "shape", "refine", "rate", "convert", "reduce", "derive", "prepare")

WORDS = (
    "apple", "river", "stone", "cloud", "maple", "ember", "tiger", "lemon", "cedar", "pearl", "delta", "crane",
    "amber", "frost", "olive", "raven", "sugar", "Paris", "Oslo", "Lima", "level", "noon", "radar", "banana",
    "letter", "coffee", "kettle", "mirror", "window", "garden", "silver", "Orange", "Winter", "Berlin",
)  # fmt: skip

PHRASES = (
    "the quick brown fox", "hello world", "red green blue", "a stitch in time", "one two two three",
    "Mississippi River", "never odd or even", "Data 2024 report", "to be or not to be", "abc ABC 123",
    "keep calm, carry on", "x=1; y=22; z=333", "green eggs and ham", "Level up: 42 points",
)  # fmt: skip

SYMBOLS = ("-", "_", ":", "/", "+", ".", "*", "#")
"""Separators and fill characters."""
