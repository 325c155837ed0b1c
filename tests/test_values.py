"""Laws of `rewards.values`: the text round trip, its sameness everywhere, equality, caps.

The reports whose ids name a test (EX-30, ...) are public bug reports about values that changed on
their way between two processes or two libraries.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import datetime
import enum
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
import tracemalloc
import types
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal, getcontext, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import hashables, values

from rewards.values import (
    FACTORIES,
    MAX_CHARS,
    MAX_DEPTH_LIMIT,
    MAX_INT_DIGITS,
    Unrepresentable,
    ValueTextError,
    _quick,
    _write,
    canonical,
    equal,
    parse,
    type_name,
)

ROOT = Path(__file__).resolve().parent.parent
NAN = float("nan")


def reread(value: object) -> object:
    return parse(canonical(value))


# ------------------------------------------------------------------------------------- round trip


@given(
    values(max_leaves=6) | st.lists(st.text(max_size=9) | st.integers()) | st.text(max_size=40),
    st.integers(0, 60),
)
@example(["a", "it's", "\\", "é", "\n"], 60)
@example([10**4299, 10**4300], 10_000)
@example(["x" * 20, 1], 10)
@example({True: None, "k": -1}, 60)
def test_the_quick_way_writes_what_the_long_way_does(value: object, max_chars: int) -> None:
    quick = _quick(value, max_chars)
    try:
        long = _write(value, max_chars, 50, unordered=False)
    except Unrepresentable:
        long = None
    assert quick in (None, long)


def test_the_quick_way_is_taken() -> None:
    for value in (1, True, None, "ab", [1, "a", None], (2,), {"k": 1}, []):
        assert _quick(value, 100) == repr(value)


@given(values(max_leaves=14))
@example({(0.0, NAN), (-0.0, NAN)})
@example({NAN: 1, float("nan"): 2})
@example([complex(-0.0, -2.0), complex(0.0, -2.0), complex(NAN, math.inf)])
@example(deque([1, 2], maxlen=0))
def test_reading_inverts_writing(value: object) -> None:
    text = canonical(value)
    text.encode("utf-8")
    again = parse(text)
    assert equal(again, value)
    assert canonical(again) == text
    assert type_name(again) == type(value).__name__


@given(values())
@example("\xad")
def test_a_text_stays_on_one_line_and_is_printable_on_this_python(value: object) -> None:
    assert canonical(value).isprintable()


def test_a_character_stands_for_itself_only_if_every_python_can_print_it() -> None:
    characters = [chr(code) for code in range(sys.maxunicode + 1)]
    literal = [char for char in characters if canonical(char) == f"'{char}'"]
    assert len(literal) > 90_000 and "é" in literal and "漢" in literal
    assert all(char.isprintable() for char in literal)


SHOWN: list[tuple[object, str]] = [
    (None, "None"),
    (..., "Ellipsis"),
    (NotImplemented, "NotImplemented"),
    (True, "True"),
    (-12, "-12"),
    (1e16, "1e+16"),
    (-0.0, "-0.0"),
    (NAN, "float('nan')"),
    (-math.inf, "float('-inf')"),
    (1 - 2j, "(1-2j)"),
    (complex(0, -2), "-2j"),
    (complex(-0.0, 2), "(-0+2j)"),
    (complex(NAN, 1), "complex(float('nan'), 1.0)"),
    ("it's", '"it\'s"'),
    ("'\"\\\n\x00\x7f", r"""'\'"\\\n\x00\x7f'"""),
    ("é λ\xa0\u2028\U0001f600\ud800", "'é λ\\xa0\\u2028\\U0001f600\\ud800'"),
    (b"a\xff'", 'b"a\\xff\'"'),
    (bytearray(b"a"), "bytearray(b'a')"),
    ((), "()"),
    ((1,), "(1,)"),
    (set(), "set()"),
    ({10, 9, -1, 2.5}, "{-1, 2.5, 9, 10}"),
    ({"b", "B", "a", 3, None}, "{None, 3, 'B', 'a', 'b'}"),
    (frozenset(), "frozenset()"),
    (frozenset({(2, 1), (1, 9), (1,)}), "frozenset({(1,), (1, 9), (2, 1)})"),
    ({"b": 1, "a": [2]}, "{'b': 1, 'a': [2]}"),
    (Counter("abb"), "Counter({'a': 1, 'b': 2})"),
    (Counter(), "Counter()"),
    (OrderedDict(b=1, a=2), "OrderedDict({'b': 1, 'a': 2})"),
    (OrderedDict(), "OrderedDict()"),
    (defaultdict(list, {1: [2]}), "defaultdict(list, {1: [2]})"),
    (defaultdict(None), "defaultdict(None, {})"),
    (deque([1, "a"]), "deque([1, 'a'])"),
    (deque(maxlen=3), "deque([], maxlen=3)"),
    (range(3), "range(0, 3)"),
    (range(3, 0, -1), "range(3, 0, -1)"),
    (slice(None, 2), "slice(None, 2, None)"),
    (Decimal("-1.50"), "Decimal('-1.50')"),
    (Decimal("sNaN"), "Decimal('sNaN')"),
    (Fraction(-1, 2), "Fraction(-1, 2)"),
    (datetime.date(2024, 1, 2), "datetime.date(2024, 1, 2)"),
    (datetime.time(1, 2), "datetime.time(1, 2)"),
    (datetime.datetime(2024, 1, 2), "datetime.datetime(2024, 1, 2, 0, 0)"),
    (
        datetime.datetime(2024, 1, 2, 3, 4, 0, 5, datetime.timezone.utc, fold=1),
        "datetime.datetime(2024, 1, 2, 3, 4, 0, 5, fold=1, tzinfo=datetime.timezone.utc)",
    ),
    (datetime.timedelta(0), "datetime.timedelta(0)"),
    (datetime.timedelta(-1, 5), "datetime.timedelta(days=-1, seconds=5)"),
    (
        datetime.timezone(datetime.timedelta(hours=1), "CET"),
        "datetime.timezone(datetime.timedelta(seconds=3600), 'CET')",
    ),
]


@pytest.mark.parametrize(("value", "text"), SHOWN, ids=[text for _, text in SHOWN])
def test_the_text_of(value: object, text: str) -> None:
    assert canonical(value) == text
    assert equal(parse(text), value)


def test_an_ordered_dict_is_written_in_its_own_order() -> None:
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    assert canonical(value) == "OrderedDict({'b': 2, 'a': 1})"


# --------------------------------------------------------------------------- the same everywhere

# A program of its own, so that it runs where pytest and Hypothesis are not installed.
EVERYWHERE = r"""
import collections, datetime, json, sys
from decimal import Decimal
from fractions import Fraction
from rewards.values import Unrepresentable, ValueTextError, canonical, equal, parse

words = ["pear", "apple", "fig", "\xe9", "\u0378", "\U0001f600", "\U0001fae0", "\ud800", ""]
values = [
    set(words), frozenset(map(frozenset, (words, words[:2], []))), {w: {w, w + "x"} for w in words},
    {1, 2.5, None, "a", b"a", (1, "b"), (1, "a"), Decimal("1.25"), Fraction(1, 3), 2j, range(2)},
    {float("nan"), float("inf"), -1, (float("nan"), 1), (float("nan"), 0)},
    [1e16, 1e-5, 0.1 + 0.2, -0.0, 5e-324, 10**4299, 2**64, True], [2j, -2j, complex(-0.0, -0.0)],
    collections.Counter(words), collections.OrderedDict.fromkeys(words), collections.deque([1], 2),
    collections.defaultdict(set, {1: {"b", "a"}}), "".join(map(chr, range(0x0, 0x3000, 7))),
    "".join(map(chr, range(0x3000, 0x20000, 131))), bytes(range(256)), slice(1, None),
    {datetime.date(2024, 1, 2), datetime.timedelta(1), datetime.timezone.utc, datetime.time(1)},
    datetime.datetime(2024, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(minutes=7))),
    {slice(1)} if sys.version_info >= (3, 12) else (i for i in ()),
]
texts = ["{1, [2]}", "'\\d\\400'", "1if 2else 3", "-" * 9000 + "1", "[" * 9000, "f'{1}'", "0x_f",
         "(" * 60 + "1" + ")" * 60, "1_0", "01", "'a\x00'", "dict(a=1, a=2)", "1+1", "lambda: 0"]
texts.append("9" * 5000)
out = []
for value in values:
    try:
        out.append(canonical(value, max_chars=40_000))
        assert equal(parse(out[-1], max_chars=40_000), value)
    except Unrepresentable:
        out.append("unrepresentable")
for text in texts:
    try:
        out.append(canonical(parse(text)))
    except ValueTextError:
        out.append("refused")
print(json.dumps(out))
"""


def run_everywhere(python: str, **environment: str) -> list[str]:
    command = [python, "-W", "error", "-c", EVERYWHERE]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "0", **environment}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    result = json.loads(done.stdout)
    assert isinstance(result, list)
    return result


def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    first = run_everywhere(sys.executable)
    assert len(first) == 33
    assert first.count("unrepresentable") == 1
    for seed in ("1", "42"):
        assert run_everywhere(sys.executable, PYTHONHASHSEED=seed) == first


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_the_text_is_the_same_on_python(version: str) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"Python {version} is not installed here")
    assert run_everywhere(python) == run_everywhere(sys.executable)


def interpreter(version: str) -> str | None:
    """An interpreter of that version: under pyenv, or on the path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


# --------------------------------------------------------------------------------------- equality


@given(values(), values(), values())
def test_strict_equality_is_an_equivalence(a: object, b: object, c: object) -> None:
    assert equal(a, a)
    assert equal(a, b) == equal(b, a)
    if equal(a, b) and equal(b, c):
        assert equal(a, c)


def has_nan(value: object) -> bool:
    return "nan" in canonical(value).lower()


@given(values(), values())
def test_strict_equality_refines_that_of_python(a: object, b: object) -> None:
    again = reread(a)
    if not has_nan(a):
        assert equal(a, again, mode="python")
    if equal(a, b) and not has_nan(a):
        assert equal(a, b, mode="python")
        assert type(a) is type(b)


@given(st.lists(hashables, max_size=6), st.lists(hashables, max_size=6))
def test_sets_are_equal_exactly_when_their_texts_are(a: list[Any], b: list[Any]) -> None:
    for kind in (set, frozenset):
        assert equal(kind(a), kind(b)) == (canonical(kind(a)) == canonical(kind(b)))
        assert equal(kind(a), kind(reversed([*dict.fromkeys(a)]))) or has_nan(a)


@given(st.dictionaries(hashables, values(max_leaves=3), max_size=5), st.randoms())
def test_the_order_of_a_dict_does_not_count(value: dict[Any, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)
    for kind in (dict, Counter, lambda it: defaultdict(int, it)):
        assert equal(kind(dict(items)), kind(value))
    assert equal(OrderedDict(items), OrderedDict(value)) == (
        canonical(OrderedDict(items)) == canonical(OrderedDict(value))
    )


APART: list[tuple[object, object]] = [
    (1, True),
    (1, 1.0),
    (0.0, -0.0),
    (0j, complex(0.0, -0.0)),
    ({1}, {True}),
    ({1: "a"}, {1.0: "a"}),
    ([1, [2, (3,)]], [1, [2, (3.0,)]]),
    ([1], (1,)),
    ({1}, frozenset({1})),
    ({frozenset({(1,)})}, {frozenset({(True,)})}),
    ({"a": 1}, Counter("a")),
    (OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    (deque([1]), deque([1], 3)),
    (defaultdict(int), defaultdict(list)),
    (Decimal("1.0"), Decimal("1.00")),
    (Fraction(1), 1),
    (b"a", bytearray(b"a")),
    (range(0), range(5, 5)),
    (NAN, None),
    ([NAN, 1], [NAN, 2]),
    (slice(1), slice(1.0)),
]


@pytest.mark.parametrize(("a", "b"), APART, ids=[f"{a!r} {b!r}" for a, b in APART])
def test_strict_equality_keeps_apart(a: object, b: object) -> None:
    assert not equal(a, b)
    assert not equal([a], [b])
    assert not equal({"k": a}, {"k": b})


def test_nan_equals_nan_strictly_also_in_sets_and_keys() -> None:
    nan = float("nan")
    for a, b in ((nan, NAN), ({nan, 1}, {1, NAN}), ({nan: 1}, {NAN: 1}), ([{(nan,)}], [{(NAN,)}])):
        assert equal(a, b)
        assert not equal(a, b, mode="python")
    assert equal({nan: 1, NAN: 2}, {nan: 2, NAN: 1})


def test_python_equality_is_the_double_equals_sign() -> None:
    for a, b in (
        (1, True),
        ({1: "a"}, {1.0: "a"}),
        (OrderedDict(a=1), {"a": 1}),
        (b"", bytearray()),
    ):
        assert equal(a, b, mode="python")
    assert not equal([1], (1,), mode="python")
    assert not equal(Decimal("sNaN"), Decimal("sNaN"), mode="python")
    assert equal(Decimal("sNaN"), Decimal("sNaN"))


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"'strict' or 'python', got 'loose'"):
        equal(1, 1, mode="loose")  # type: ignore[arg-type]


def test_comparing_big_sets_does_not_match_pairs() -> None:
    """Counted in calls, not in seconds, so that a busy machine does not show."""

    def calls(size: int) -> int:
        a, b = ({(i, str(i)) for i in order} for order in (range(size), reversed(range(size))))
        count = 0

        def counter(frame: object, event: str, arg: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counter)
        try:
            assert equal(a, b)
        finally:
            sys.setprofile(None)
        return count

    assert calls(2_000) < 12 * calls(250)  # 8 for linear, 64 for quadratic


# ------------------------------------------------------------------------------ outside, and caps


class Liar(str):
    """Every method that could be asked fails the test."""

    def _refuse(self, *_: object) -> Any:
        raise AssertionError("a method of an untrusted value was called")

    __repr__ = __str__ = __eq__ = __len__ = __iter__ = __getattribute__ = _refuse  # type: ignore
    __hash__ = str.__hash__


class Meta(type):
    def __hash__(cls) -> int:
        raise AssertionError("a method of an untrusted class was called")

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("a method of an untrusted class was called")

    def __getattribute__(cls, name: str) -> Any:
        raise AssertionError("a method of an untrusted class was called")


class Colour(enum.IntEnum):
    RED = 1


class Zone(datetime.tzinfo):
    pass


Point = collections.namedtuple("Point", "x y")
with_meta = Meta("Odd", (int,), {})(1)


# Held back from pytest, which would itself ask an argument for its methods.
OUTSIDE: dict[str, Any] = {
    "subclass of str": Liar("a"),
    "subclass of int with a metaclass": with_meta,
    "enum member": Colour.RED,
    "named tuple": Point(1, 2),
    "object": object(),
    "class": int,
    "builtin function": len,
    "module": types,
    "lambda": lambda: 0,
    "iterator": iter([]),
    "generator": (i for i in ()),
    "view": {}.keys(),
    "ChainMap": collections.ChainMap(),
    "memoryview": memoryview(b""),
    "pattern": re.compile(""),
    "exception": ValueError("x"),
    "factory that is a lambda": defaultdict(lambda: 0),
    "factory of an untrusted type": defaultdict(Liar),
    "method": datetime.timezone.utc.tzname,
    "zone of the program's own": datetime.datetime(2024, 1, 1, tzinfo=Zone()),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_outside_the_grammar_has_no_text_at_any_depth(name: str) -> None:
    value = OUTSIDE[name]
    for wrapped in (value, [value], {"k": value}, (1, (value,)), deque([value])):
        with pytest.raises(Unrepresentable):
            canonical(wrapped)
        with pytest.raises(Unrepresentable):
            equal(wrapped, wrapped)


def test_keys_and_elements_of_untrusted_types_are_never_asked() -> None:
    for value in ({Liar("a")}, {Liar("a"): 1}, frozenset({(Liar("a"),)}), Counter([Liar("a")])):
        with pytest.raises(Unrepresentable, match="Liar"):
            canonical(value)


def test_the_type_name_does_not_ask_a_metaclass() -> None:
    assert type_name(with_meta) == "Odd"
    assert type_name([]) == "list"


def test_an_attribute_cannot_hide_the_items() -> None:
    counter, ordered = Counter("a"), OrderedDict(a=1)
    counter.items = ordered.items = lambda: [("forged", 9)]  # type: ignore[method-assign]
    assert canonical(counter) == "Counter({'a': 1})"
    assert canonical(ordered) == "OrderedDict({'a': 1})"


def test_a_value_that_contains_itself_is_named_as_such() -> None:
    loop: list[Any] = []
    loop.append({"k": (loop,)})
    with pytest.raises(Unrepresentable, match="contains itself"):
        canonical(loop)
    twice = [1]
    assert canonical([twice, twice]) == "[[1], [1]]"


@given(values(), st.integers(0, 60))
def test_the_cap_on_characters_is_exact(value: object, cap: int) -> None:
    text = canonical(value)
    if len(text) <= cap:
        assert canonical(value, max_chars=cap) == text
    else:
        with pytest.raises(Unrepresentable, match=f"longer than {cap} characters"):
            canonical(value, max_chars=cap)


def nested(depth: int, wrap: Any) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS = [
    *(lambda v: [v], lambda v: (v,), lambda v: {0: v}, lambda v: deque([v])),
    *(lambda v: frozenset({v}), lambda v: OrderedDict({0: v}), lambda v: slice(v)),
    lambda v: defaultdict(list, {0: v}),
]


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_cap_on_depth_is_exact_both_ways(wrap: Any) -> None:
    for depth, cap in ((50, 50), (MAX_DEPTH_LIMIT, MAX_DEPTH_LIMIT)):
        text = canonical(nested(depth, wrap), max_depth=cap)
        assert equal(parse(text, max_depth=cap), nested(depth, wrap))
        with pytest.raises(Unrepresentable, match="too deeply"):
            canonical(nested(depth + 1, wrap), max_depth=cap)
        with pytest.raises(ValueTextError, match="too deeply"):
            parse(text, max_depth=cap - 1)
    with pytest.raises(ValueError, match="max_depth: expected 0 to 90, got 91"):
        canonical(0, max_depth=MAX_DEPTH_LIMIT + 1)


def test_a_huge_value_is_given_up_at_once() -> None:
    huge: list[Any] = [
        [0] * 10_000_000,
        [[0] * 10_000_000],
        b"\x00" * 50_000_000,
        "\ud800" * 20_000_000,
        1 << 50_000_000,
        Decimal("9" * 5_000_000),
        nested(40, lambda v: [v, v]),
    ]
    for value in huge:
        start = time.process_time()
        with pytest.raises(Unrepresentable):
            canonical(value)
        # Visiting ten million elements takes far over a second.
        assert time.process_time() - start < 2


def test_a_huge_container_is_not_even_copied() -> None:
    kinds = (list, tuple, deque, set, dict.fromkeys, OrderedDict.fromkeys)
    for value in [kind(range(300_000)) for kind in kinds]:
        tracemalloc.start()
        try:
            with pytest.raises(Unrepresentable):
                canonical(value)
            assert tracemalloc.get_traced_memory()[1] < 200_000  # a copy takes 2,400,000 bytes
        finally:
            tracemalloc.stop()


def test_an_int_has_at_most_4300_digits_whatever_the_interpreter_is_set_to() -> None:
    largest = 10**MAX_INT_DIGITS - 1
    assert canonical(largest) == "9" * MAX_INT_DIGITS
    for value in (largest + 1, -largest - 1):
        with pytest.raises(Unrepresentable, match="more than 4300 digits"):
            canonical(value)
    for text in ("9" * (MAX_INT_DIGITS + 1), hex(largest + 1)):
        with pytest.raises(ValueTextError):
            parse(text)
    before = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(640)  # a program can
        assert canonical(-(10**2000) - 7) == "-1" + "0" * 1999 + "7"
    finally:
        sys.set_int_max_str_digits(before)


def test_the_text_of_a_decimal_does_not_follow_the_context() -> None:
    with localcontext() as context:
        context.capitals = 0
        context.prec = 2
        assert canonical(Decimal("1.2345E+30")) == "Decimal('1.2345E+30')"
        assert equal(parse("Decimal('1.2345E+30')"), Decimal("1.2345E+30"))
        context.traps = dict.fromkeys(getcontext().traps, False)  # type: ignore[assignment]
        with pytest.raises(ValueTextError):
            parse("Decimal('many')")


def test_no_room_on_the_stack_is_a_reason_not_a_crash() -> None:
    reasons = []

    def descend() -> None:
        with contextlib.suppress(RecursionError):
            descend()
        try:
            canonical(nested(30, lambda v: [v]))
        except Unrepresentable as error:
            reasons.append(str(error))

    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(len(collections_of_frames()) + 120)
        descend()
    finally:
        sys.setrecursionlimit(limit)
    assert set(reasons) == {"no room left on the interpreter's stack to write the value"}


def collections_of_frames() -> list[types.FrameType]:
    frame: types.FrameType | None = sys._getframe()
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


# ---------------------------------------------------------------------------------------- reading

READ: list[tuple[str, object]] = [
    ("0x10", 16),
    ("1_000", 1000),
    ("- -1", 1),
    ("+1", 1),
    ("'a' \"b\"", "ab"),
    ("r'\\d'", "\\d"),
    ("'\\d'", "\\d"),
    ("'\\x41\\u0042\\N{BULLET}\\101'", "AB•A"),
    ("b'\\u'", b"\\u"),
    ("'''a\nb'''", "a\nb"),
    ("1+2j", 1 + 2j),
    ("-2j", complex(0, -2)),
    ("complex('-2j')", complex(0, -2)),
    ("(-0-2j)", complex(-0.0, -2)),
    ("[nan, inf, -inf]", [NAN, math.inf, -math.inf]),
    ("-float('inf')", -math.inf),
    ("math.nan", NAN),
    ("1e999", math.inf),
    ("1, 2", (1, 2)),
    (" [1,\n  2]  # two\n", [1, 2]),
    ("...", ...),
    ("{1: 'a', True: 'b'}", {1: "b"}),
    ("{1, True}", {1}),
    ("dict(a=1, r=2)", {"a": 1, "r": 2}),
    ("dict([('a', 1)], b=2)", {"a": 1, "b": 2}),
    ("dict()", {}),
    ("list(range(3))", [0, 1, 2]),
    ("tuple('ab')", ("a", "b")),
    ("set([1, 1])", {1}),
    ("frozenset({1})", frozenset({1})),
    ("Counter('abb')", Counter(a=1, b=2)),
    ("Counter(a=1)", Counter(a=1)),
    ("Counter({'a': 1.5})", Counter({"a": 1.5})),  # type: ignore[dict-item]
    ("collections.OrderedDict([('b', 1), ('a', 2)])", OrderedDict(b=1, a=2)),
    ("defaultdict(<class 'list'>, {'a': [1]})", defaultdict(list, a=[1])),
    ("defaultdict(<class 'collections.Counter'>, {})", defaultdict(Counter)),
    ("defaultdict(int)", defaultdict(int)),
    ("deque([1, 2, 3], 2)", deque([2, 3], 2)),
    ("decimal.Decimal(3)", Decimal(3)),
    ("Fraction(2, 4)", Fraction(1, 2)),
    ("date(2024, 1, 2)", datetime.date(2024, 1, 2)),
    ("datetime(2024, 1, 2)", datetime.datetime(2024, 1, 2)),
    ("datetime.timedelta(hours=1.5)", datetime.timedelta(minutes=90)),
    ("bytes([1, 2])", b"\x01\x02"),
    ("range(3)", range(3)),
    ("str()", ""),
]


@pytest.mark.parametrize(("text", "value"), READ, ids=[text for text, _ in READ])
def test_reading(text: str, value: object) -> None:
    assert equal(parse(text), value)


REFUSED = [
    *("", " ", "x", "int", "1 2", "(1,", "1)", "a.b", "1.5.real", "'a", "'a' b'b'", "007", "1__0"),
    *("f'{1}'", "t'x'", "1if 1else 2", "1 if 1 else 2", "lambda: 0", "not 1", "[i for i in 'a']"),
    *(
        "'a' * 3",
        "1 + 1",
        "1 + 2j + 3j",
        "2j - 1",
        "[1][0]",
        "set()()",
        "(1)(2)",
        "print(1)",
        "x := 1",
    ),
    *("[*'ab']", "{**{}}", "dict(**{})", "dict(a=1, a=2)", "{1, [2]}", "{[1]: 2}", "{slice(1)}"),
    *("-True", "~1", "-'a'", "-Decimal(1)", "__import__('os')", "().__class__", "int('1')"),
    *("list({1, 2})", "dict([{1, 2}])", "Counter({1, 2})", "dict.fromkeys('a')", "list(5)"),
    *("list(range(1000000000))", "list(range(99999999999999999999999))", "tuple(iter([1]))"),
    *("[" + "list(range(9999)), " * 9 + "]", "bytes(1000000000)", "bytes('a', 'utf-8')"),
    *(
        "Fraction('1e999999999')",
        "Fraction(1, 0)",
        "Decimal('x')",
        "Decimal(0.1)",
        "date(2024, 13, 1)",
    ),
    *("datetime.date(b'\\x07\\xe8\\x01\\x01')", "timedelta(1e300)", "timezone(timedelta(days=3))"),
    *(
        "defaultdict(lambda: 0)",
        "defaultdict(5, {})",
        "defaultdict(open)",
        "<class 'int'>",
        "float('x')",
    ),
    *(
        "<generator object f at 0x7f>",
        "dict_keys([1])",
        "'\\x4'",
        "'\\N{NO SUCH NAME}'",
        "'a\ud800'",
    ),
    *("'a\x00'", "ｓｅｔ()", "[1,\xa02]", "range(1, 2, 0)", "deque([1], -1)", "deque([1], 1.0)"),
    *("1;", "1 == 1", "'a'\n'b'", "\\\n1", "$", "collections.set()", "os.date(2024, 1, 2)"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_a_value_is_refused(text: str) -> None:
    with pytest.raises(ValueTextError) as caught:
        parse(text)
    str(caught.value).encode("ascii")


@pytest.mark.parametrize("text", [None, 1, b"1", ["1"]])
def test_only_a_text_is_read(text: Any) -> None:
    with pytest.raises(ValueTextError, match=r"expected a text \(str\)"):
        parse(text)


BOMBS = [
    "(",
    "[",
    "{0:",
    "-",
    "- ",
    "+-",
    "1+",
    "1,-",
    "set()",
    "()",
    "a.",
    "'a'",
    "1j-",
    "1**",
    "~",
]
BOMBS += [
    "not ",
    "lambda:",
    "[1][",
    "x if x else ",
    "-(",
    "1,--(",
    "'",
    '"""',
    "\\",
    "#",
    "frozenset({",
]


@pytest.mark.parametrize("unit", BOMBS)
def test_a_long_text_is_refused_quickly_or_read(unit: str) -> None:
    repeated = unit * (19_990 // len(unit))
    start = time.process_time()
    for text in (repeated, repeated + "1", "[" + repeated + "1]"):
        with contextlib.suppress(ValueTextError):
            parse(text)
    assert time.process_time() - start < 2
    with pytest.raises(ValueTextError, match="more than 20000"):
        parse(unit * 20_001)


TOKENS = [
    *("1", "0", "-", "+", ".", "...", "2j", "1e5", "nan", "None", "'a'", "b'a'", "r'\\'", "[", "]"),
    *(
        "(",
        ")",
        "{",
        "}",
        ",",
        ":",
        "=",
        " ",
        "\n",
        "a",
        "set",
        "dict",
        "deque",
        "Counter",
        "maxlen",
    ),
    *(
        "defaultdict",
        "list",
        "<class 'int'>",
        "datetime",
        "timezone",
        "utc",
        "date",
        "range",
        "slice",
    ),
    *(
        "Decimal",
        "Fraction",
        "complex",
        "float",
        "frozenset",
        "timedelta",
        "time",
        "bytes",
        "OrderedDict",
    ),
]


@settings(max_examples=400)
@given(st.lists(st.sampled_from(TOKENS), max_size=14).map("".join) | st.text(max_size=20))
def test_every_text_gives_a_value_of_the_grammar_or_one_kind_of_error(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            value = parse(text)
        except ValueTextError:
            return
    assert equal(parse(canonical(value)), value)


@given(values())
def test_where_python_reads_the_printed_form_so_do_we(value: object) -> None:
    try:
        expected = ast.literal_eval(repr(value))
    except (ValueError, SyntaxError, ArithmeticError):
        return  # Counter's own repr sorts its counts, which a signalling Decimal refuses
    again = parse(repr(value))
    assert again == expected or has_nan(value)
    if "j" not in repr(value):  # the sign of a zero: see the module's docstring
        assert equal(again, expected)


def test_every_factory_is_written_and_read() -> None:
    for name, factory in FACTORIES.items():
        text = canonical(defaultdict(factory, {1: 2}))
        assert text == f"defaultdict({name}, {{1: 2}})"
        again = parse(text)
        assert isinstance(again, defaultdict)
        assert again.default_factory is factory
        assert equal(parse(repr(again)), again)


def test_reading_leaves_the_filters_of_warnings_alone() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = list(warnings.filters)
        assert parse(r"['\d', '\400', b'\400', '\ ']") == ["\\d", "\u0100", b"\x00", "\\ "]
        assert warnings.filters == before


# ------------------------------------------------------------------------------- public reports


def test_EX_30_a_lone_surrogate_is_written_in_escaped_form() -> None:
    text = canonical("a\ud800")
    assert text == "'a\\ud800'"
    assert text.encode("utf-8").decode("utf-8") == text
    assert parse(text) == "a\ud800"


def test_EX_31_sets_infinities_bytes_and_big_ints_keep_value_and_type() -> None:
    for value, text in (
        ({3, 1}, "{1, 3}"),
        ([float("inf")], "[float('inf')]"),
        (b"hi", "b'hi'"),
        (2**80, "1208925819614629174706176"),
    ):
        assert canonical(value) == text
        assert equal(parse(text), value)


def test_EX_32_int_and_str_keys_stay_apart() -> None:
    value = {2: "a", "2": "b"}
    again = reread(value)
    assert equal(again, value)
    assert isinstance(again, dict) and len(again) == 2
    assert not equal({2: "a"}, {"2": "a"})


def test_HP_14_keys_of_any_type_come_back() -> None:
    for value in ({1: (2, 3), None: 4}, {True: "y"}, {(1, 2): 3}, {1.5: 0, "1.5": 0}):
        assert equal(reread(value), value)
    assert not equal({True: "n"}, {1: "n"})


def test_HP_15_tuples_and_sets_are_not_lists() -> None:
    assert canonical((1, 2)) == "(1, 2)"
    assert canonical({1, 2}) == "{1, 2}"
    assert not equal(reread((1, 2)), [1, 2])
    assert not equal(reread({1, 2}), [1, 2])


def test_IM_01_equal_inputs_of_different_types_stay_distinct() -> None:
    inputs = [1, True, 1.0, 0, False, -0.0, 0.0, float("nan"), "1"]
    assert len({(type_name(value), canonical(value)) for value in inputs}) == 9
    assert len({canonical(value) for value in inputs}) == 9


# -------------------------------------------------------------------------------------- importing


def test_the_module_loads_on_its_own() -> None:
    """The guest loads it by path, without the project on the path."""
    code = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('v', {str(ROOT / 'rewards/values.py')!r})\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "assert module.parse(module.canonical({1: 'a'})) == {1: 'a'}\n"
        "assert 'typing' not in sys.modules, 'typing is slow to load'\n"
    )
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True, timeout=30)


def test_the_default_cap_is_what_the_documentation_says() -> None:
    assert canonical("a" * (MAX_CHARS - 2)) == repr("a" * 9_998)
    with pytest.raises(Unrepresentable):
        canonical("a" * (MAX_CHARS - 1))


def test_parsing_from_many_threads_never_fails() -> None:
    """CPython up to 3.12 raises SystemError when a collection lets another thread parse meanwhile."""
    import gc
    import sys
    import threading

    class Yields:
        def __init__(self) -> None:
            self.me = self  # in a cycle, so that a collection finalises it

        def __del__(self) -> None:
            sum(range(50))

    failures: list[BaseException] = []

    def work() -> None:
        try:
            for number in range(150):
                Yields()
                assert parse(f"[{number}, (1, 'a'), {{2: [3, 4]}}]") == [
                    number,
                    (1, "a"),
                    {2: [3, 4]},
                ]
        except BaseException as error:
            failures.append(error)

    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(20)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(interval)
    assert failures == []
