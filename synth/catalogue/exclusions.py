"""What is no operation of the catalogue, and why.

Covers the rules: by name (whatever is not deterministic, not pure, or machinery), by what a value is,
by its signatures, and the special methods that are spelled another way. Exclusions for want of a
signature, or because a base class lists the name, are made where they are found (`enumeration.py`).
"""

from __future__ import annotations

import fnmatch
import inspect
import types
from collections.abc import Callable, Sequence

from synth.catalogue.forms import BINARY, COMPARE, INPLACE, REFLECTED, SUBSCRIPT, UNARY
from synth.stubs import Signature

# (pattern of `fnmatch` over the id, reason); the first that matches counts.
EXCLUDED: tuple[tuple[str, str], ...] = tuple(
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
        ("gone from Python 3.13", "re", "template"),
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
KEPT_OVERLOADS: dict[str, Callable[[Signature], bool]] = {
    "builtins.type": lambda s: len(s.params) == 1,  # three arguments make a class
    "builtins.iter": lambda s: len(s.params) == 1,  # a sentinel that never comes is no end
    "itertools.repeat": lambda s: len(s.required) == 2,  # without a number it has no end
}

# Special methods that have a spelling elsewhere in the catalogue.
BY_FUNCTION: dict[str, str] = {
    **{
        f"__{n}__": n for n in ("len", "abs", "iter", "reversed", "round", "divmod", "next", "hash")
    },
    **{f"__{n}__": n for n in ("repr", "format", "str", "int", "float", "complex", "bytes", "dir")},
    **{f"__{n}__": f"math.{n}" for n in ("ceil", "floor", "trunc")},
    "__rdivmod__": "divmod",
    "__call__": "x(…)",
}

SPECIAL = frozenset().union(*(BINARY, COMPARE, UNARY, INPLACE, SUBSCRIPT, REFLECTED, BY_FUNCTION))


def excluded_by_pattern(id: str) -> str | None:
    """The reason why the id of a name bars it, or None."""
    return next((why for pattern, why in EXCLUDED if fnmatch.fnmatchcase(id, pattern)), None)


def excluded_object(value: object) -> str | None:
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


def excluded_special(name: str) -> str | None:
    """The reason why a special method has no form of its own, or None."""
    if name in REFLECTED:
        return f"reflected form of {REFLECTED[name]}"
    if name in BY_FUNCTION:
        return f"written as a call of {BY_FUNCTION[name]}"
    return None


def excluded_signatures(signatures: Sequence[Signature]) -> str | None:
    """The reason why nothing can be called with these signatures, or None."""
    if not signatures:
        return "no overload is deterministic and finite"
    if all(any(p.type.name == "file" for p in s.required) for s in signatures):
        return "input or output"
    if all(s.returns.name == "never" for s in signatures):
        return "always raises"
    return None
