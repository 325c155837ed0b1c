"""Whether what a candidate printed or returned is what a test expects. Compared on the host alone.

Covers text on stdout and JSON values. Does not cover how the candidate was run (`rewards.unittests`),
nor answers about programs (`rewards.grading`).

**Stdout.** `lines` (default): line by line; white space at the end of a line and empty lines at the
end of the text are ignored, all else counts. `tokens`: all white space is alike. With a `tolerance`
above 0 two tokens are also equal if both are numbers, at least one with a point or an exponent, and
they differ by no more than that, absolutely or relatively; white space inside a line then is alike,
too. Unlike the harnesses of APPS and TACO, lines are never compared as sets, and numbers not by
default.

**Values** are compared as JSON would write the returned one, because that is what a test can say: a
tuple is a list, keys of a dict are texts (`1` is `"1"`, `True` is `"true"`), Counter, OrderedDict and
defaultdict are dicts; a set, bytes or anything else is equal to nothing. A bool is no number.
`equality` decides on numbers: `json` (default): by size, so 1 and 1.0 are equal, for JSON has one kind
of number; nan equals nan. `strict`: an int and a float differ, and so do 0.0 and -0.0. `python`: `==`,
so 1, 1.0 and True are equal, and nan equals nothing. `tolerance` is for floats, at any depth. A list
of one is never taken for its element.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict, defaultdict
from typing import Any, Literal

__all__ = ["Equality", "OutputRule", "same_text", "same_value"]

Equality = Literal["json", "strict", "python"]
OutputRule = Literal["lines", "tokens"]

_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)


def same_text(
    expected: str, printed: str, *, rule: OutputRule = "lines", tolerance: float = 0.0
) -> bool:
    """Whether `printed` is the expected text on stdout."""
    if expected == printed:
        return True
    if rule == "tokens":
        return _same_tokens(expected.split(), printed.split(), tolerance)
    wanted, given = _lines(expected), _lines(printed)
    if wanted == given:
        return True
    if tolerance <= 0 or len(wanted) != len(given):
        return False
    return all(
        _same_tokens(a.split(), b.split(), tolerance) for a, b in zip(wanted, given, strict=True)
    )


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _same_tokens(wanted: list[str], given: list[str], tolerance: float) -> bool:
    if len(wanted) != len(given):
        return False
    return all(
        a == b or (tolerance > 0 and _close_numbers(a, b, tolerance))
        for a, b in zip(wanted, given, strict=True)
    )


def _close_numbers(a: str, b: str, tolerance: float) -> bool:
    if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):
        return False
    if not any(mark in a + b for mark in ".eE"):
        return False
    return _close(float(a), float(b), tolerance)


def _close(a: float, b: float, tolerance: float) -> bool:
    return math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


def same_value(
    expected: Any, given: Any, *, equality: Equality = "json", tolerance: float = 0.0
) -> bool:
    """Whether a returned value is the one that a test expects.

    Args:
        expected: decoded JSON.
        given: what `rewards.values.parse` or `json.loads` returned; its types are exact.

    """
    if isinstance(expected, (bool, int, float)):
        return _same_number(expected, given, equality, tolerance)
    if expected is None or isinstance(expected, str):
        return type(expected) is type(given) and bool(expected == given)
    if isinstance(expected, list):
        return (
            type(given) in (list, tuple)
            and len(expected) == len(given)
            and all(
                same_value(a, b, equality=equality, tolerance=tolerance)
                for a, b in zip(expected, given, strict=True)
            )
        )
    if type(given) not in (dict, Counter, OrderedDict, defaultdict):
        return False
    items = {_key(key): item for key, item in given.items()}
    return (
        len(items) == len(given)  # no two keys with one text
        and items.keys() == expected.keys()
        and all(
            same_value(expected[key], items[key], equality=equality, tolerance=tolerance)
            for key in expected
        )
    )


def _key(key: object) -> str | None:
    """A key of a dict as JSON writes it; None for one that it cannot write."""
    if type(key) is str:
        return key
    if key is None or type(key) is bool:
        return {None: "null", True: "true", False: "false"}[key]
    if type(key) is float and not math.isfinite(key):
        return "NaN" if key != key else ("Infinity" if key > 0 else "-Infinity")
    return repr(key) if type(key) in (int, float) else None


def _same_number(expected: float, given: Any, equality: Equality, tolerance: float) -> bool:
    if type(given) not in (bool, int, float):
        return False
    if equality != "python" and (type(expected) is bool) != (type(given) is bool):
        return False
    if equality == "strict" and type(expected) is not type(given):
        return False
    if expected == given:
        if equality != "strict" or type(expected) is not float:
            return True
        return math.copysign(1.0, expected) == math.copysign(1.0, given)
    if expected != expected and given != given:
        return equality != "python"
    if tolerance > 0 and float in (type(expected), type(given)):
        try:
            return _close(expected, given, tolerance)
        except OverflowError:  # an int beyond the largest float
            return False
    return False
