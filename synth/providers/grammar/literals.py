"""Literals of a type: the seed inputs of a program and the constants inside it.

Covers text that reads well and is ordinary for its type. Does not draw input cases: that is
`synth.inputs`, from the literals written here.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from synth.catalogue import TypeTerm
from synth.providers.grammar import terms, vocabulary


def literal(term: TypeTerm, rng: random.Random, *, size: int | None = None) -> str:
    """Source text of a literal of `term`; `size` is the length of an outer container.

    Raises `KeyError` for a type that has no literal (an iterator, a library class).
    """
    count = size if size is not None else rng.randint(4, 6)
    item = terms.element(term)
    if term.name in ("any", "hashable", "comparable"):
        return literal(rng.choice((terms.INT, terms.STR)), rng)
    if term.name in ("list", "iterable", "sequence"):
        return "[" + ", ".join(_items(_known(item), rng, count)) + "]"
    if term.name == "tuple":
        return _tuple(term, rng, count)
    if term.name in ("set", "set_like"):
        return "{" + ", ".join(_distinct(_known(item), rng, count)) + "}"
    if term.name == "frozenset":
        return "frozenset({" + ", ".join(_distinct(_known(item), rng, count)) + "})"
    if term.name in ("dict", "mapping"):
        key, value = term.args if len(term.args) == 2 else (terms.STR, terms.INT)
        keys = _distinct(_known(key), rng, count)
        return "{" + ", ".join(f"{k}: {literal(_known(value), rng, size=2)}" for k in keys) + "}"
    return _SCALARS[term.name](rng)


def _known(item: TypeTerm) -> TypeTerm:
    return terms.INT if item.name in ("any", "hashable", "comparable") or item.is_var else item


def _items(item: TypeTerm, rng: random.Random, count: int) -> list[str]:
    if item == terms.STR:
        made = [repr(rng.choice(vocabulary.WORDS)) for _ in range(count)]
        return [*made[:-1], made[0]] if len(made) > 3 and rng.random() < 0.4 else made
    inner = rng.randint(2, 4) if item.name in ("list", "tuple", "dict", "set") else None
    made = [literal(item, rng, size=inner) for _ in range(count)]
    # A repeated element now and then gives counting and grouping something to find.
    if len(made) > 3 and rng.random() < 0.4:
        made[-1] = made[0]
    return made


def _distinct(item: TypeTerm, rng: random.Random, count: int) -> list[str]:
    made: list[str] = []
    for _ in range(count * 6):
        text = _items(item, rng, 1)[0]
        if text not in made:
            made.append(text)
        if len(made) == count:
            break
    return made


def _tuple(term: TypeTerm, rng: random.Random, count: int) -> str:
    if term.args and term.args[-1].name != "...":
        parts = [literal(arg, rng) for arg in term.args]
    else:
        parts = _items(_known(terms.element(term)), rng, count)
    return "(" + ", ".join(parts) + ("," if len(parts) == 1 else "") + ")"


def _string(rng: random.Random) -> str:
    return repr(rng.choice(vocabulary.WORDS if rng.random() < 0.7 else vocabulary.PHRASES))


def _float(rng: random.Random) -> str:
    return repr(rng.choice((rng.randint(1, 90) / 10, rng.randint(3, 400) / 4)))


def _range(rng: random.Random) -> str:
    start, step = rng.randint(0, 5), rng.choice((1, 1, 2, 3))
    stop = start + step * rng.randint(4, 7)
    return f"range({start}, {stop})" if step == 1 else f"range({start}, {stop}, {step})"


_SCALARS: dict[str, Callable[[random.Random], str]] = {
    "int": lambda rng: str(rng.choice((rng.randint(2, 9), rng.randint(2, 9), rng.randint(10, 40)))),
    "float": _float,
    "str": _string,
    "bool": lambda rng: rng.choice(("True", "False")),
    "bytes": lambda rng: "b" + repr(rng.choice(vocabulary.WORDS)),
    "bytearray": lambda rng: "bytearray(b" + repr(rng.choice(vocabulary.WORDS)) + ")",
    "complex": lambda rng: f"{rng.randint(1, 9)}+{rng.randint(1, 9)}j",
    "range": _range,
    "None": lambda rng: "None",
}
