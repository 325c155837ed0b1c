"""What changes its operands, found by trying.

Covers methods of mutable containers and functions that ask for a list, dict or set: each is called with
sample arguments, and whoever looks different afterwards was changed. The stubs do not say it. Using up
an iterator is not counted.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from synth.stubs import Param, Signature, TypeTerm

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


def changes_its_receiver(cls: type, name: str, signatures: Sequence[Signature]) -> bool:
    """Whether a method changes the object that it is called on."""
    method = getattr(cls, name)
    return _sample_of(cls) is not None and any(
        _changes(method, _sample_of(cls), *args, **names)
        for signature in signatures
        for args, names in _argument_lists(signature.params)
    )


def changes_an_argument(value: object, signatures: Sequence[Signature]) -> bool:
    """Whether a function that asks for a list, dict or set changes it."""
    return callable(value) and any(
        _changes(value, target, *args, **names)
        for signature in signatures
        if signature.params and signature.params[0].type.name in _MUTABLE
        for args, names in _argument_lists(signature.params[1:])
        for target in _samples(signature.params[0].type)
    )


def _changes(call: Callable[..., object], target: object, *args: object, **names: object) -> bool:
    """Whether `call(target, …)` leaves `target` looking different."""
    before = repr(target)
    try:
        call(target, *args, **names)
    except Exception:  # any refusal means no more than that these samples do not fit
        return False
    return repr(target) != before


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
