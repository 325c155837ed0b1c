"""Python values as text and back: the one notation that rows, guests, questions and graders share.

Four functions: `canonical` writes a value, `parse` reads a text without running it, `equal`
compares two values, `type_name` names a type. Standard library only and no import from this
project, because the guest loads this file too.

**The grammar.** None, True, False, Ellipsis, NotImplemented, int, float, complex, str, bytes,
bytearray, list, tuple, dict, set, frozenset, range, slice; of the standard library Counter,
OrderedDict, defaultdict, deque, Decimal, Fraction, and date, time, datetime, timedelta, timezone of
`datetime`. Only values of *exactly* these types: an instance of a subclass may lie about itself, so
it has no text, and no method of it (nor of its metaclass) is ever called. Everything else (named
tuples, iterators, functions, classes, modules, `ChainMap`, dict views, ...) has no text either.

**One text per value**, on every Python version and under every hash seed. Sets are sorted (numbers
by size, strings by code point, dates by time, different types apart); dicts keep their order. A
character stands for itself only if it is printable in Unicode 3.2, which every Python carries
unchanged; others are escaped, so the text always encodes to UTF-8. `canonical` gives for example
`set()`, `frozenset({1})`, `Counter({'a': 2})`, `deque([1], maxlen=3)`, `Decimal('1.50')`,
`defaultdict(list, {})` (the factory only if it is None or a type of `FACTORIES`),
`float('nan')`, `float('-inf')`, `(1-2j)`, `complex(float('nan'), 1.0)`,
`datetime.date(2024, 1, 2)`.

**Reading is wider than writing**: ordinary literals (`0x10`, `1_000`, `'a' 'b'`, `+1`, `1+2j`,
`...`), bare `nan` and `inf` as they are printed inside lists, qualified names
(`collections.deque`), constructors over literals (`dict(a=1)`, `set([1])`, `list(range(3))`,
`OrderedDict([('a', 1)])`), and `defaultdict(<class 'list'>, {})` as Python prints it. Two readings
follow the printed form where the expression would give a zero of the other sign: `-2j` is
`complex(0.0, -2.0)`, `(-0-2j)` is `complex(-0.0, -2.0)`. No arithmetic, no indexing, no variables.

Not covered: object identity (a list that stands twice in a value is written twice), attributes that
a program hung on a Counter, the order in which a set was iterated.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction
from keyword import kwlist
from unicodedata import ucd_3_2_0

TYPE_CHECKING = False  # not from `typing`: the guest's start-up time is paid by every worker
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterable
    from typing import Any, Literal

__all__ = [
    "FACTORIES",
    "MAX_CHARS",
    "MAX_DEPTH",
    "MAX_DEPTH_LIMIT",
    "MAX_INT_DIGITS",
    "MAX_PARSE_CHARS",
    "Unrepresentable",
    "ValueTextError",
    "canonical",
    "equal",
    "parse",
    "type_name",
]

MAX_CHARS = 10_000
"""Default bound on the characters of a canonical text."""
MAX_PARSE_CHARS = 20_000
"""Default bound on the characters of a text that `parse` accepts."""
MAX_DEPTH = 50
"""Default bound on containers inside one another; `1` has depth 0, `[]` and `[1]` depth 1."""
MAX_DEPTH_LIMIT = 90
"""Largest bound on depth that may be asked for: Python's own parser stops at 200 open brackets."""
MAX_INT_DIGITS = 4300
"""Decimal digits of an int, the default limit of Python's own conversion, here on every version."""

FACTORIES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(Counter, OrderedDict, deque),
    )
}
"""Name -> type: the factories with which a defaultdict has a text."""

_EQUAL_CHARS = 1_000_000  # what `parse` can give at its default cap stays well below
_INT_BOUND = 10**MAX_INT_DIGITS
_CHUNK_DIGITS = 600  # below 640, the lowest limit that a program can set for int -> str
_CHUNK = 10**_CHUNK_DIGITS


class Unrepresentable(ValueError):
    """The value has no canonical text: its type is outside the grammar, or it is over a cap."""


class ValueTextError(ValueError):
    """The text is not a value of the grammar, or it is over a cap."""


def type_name(value: object) -> str:
    """`type(value).__name__`, read without asking a metaclass."""
    return str(_NAME_OF(type(value)))


_NAME_OF: Callable[[type], str] = type.__dict__["__name__"].__get__


def canonical(value: object, *, max_chars: int = MAX_CHARS, max_depth: int = MAX_DEPTH) -> str:
    """The canonical text of `value`, at most `max_chars` characters long.

    `max_depth` is in [0, 90]. The cost is bounded by `max_chars`, whatever the size of the value.
    Raises `Unrepresentable` with the reason, also for a value that contains itself.
    """
    if 1 <= max_depth <= MAX_DEPTH_LIMIT:
        text = _quick(value, max_chars)
        if text is not None:
            return text
    return _write(value, max_chars, max_depth, unordered=False)


def equal(a: object, b: object, mode: Literal["strict", "python"] = "strict") -> bool:
    """Whether two values of the grammar are equal.

    `strict`: same type and same canonical text at every depth, with the order of sets, dicts,
    Counters and defaultdicts set aside. So 1, True and 1.0 differ, also as keys; 0.0 and -0.0
    differ; nan equals nan; Decimal('1.0') and Decimal('1.00'), range(0) and range(5, 5), two deques
    of different `maxlen`, two defaultdicts of different factories differ, as they do when printed.
    An OrderedDict keeps its order, as in Python. Strictly equal values without nan are `==`.

    `python`: `a == b`; nan differs from nan, and a signalling NaN from everything.

    Near-linear in the size of the two values (sorting, no pairwise matching). Raises
    `Unrepresentable` if a value is outside the grammar, deeper than 90 or longer than 1,000,000
    characters; never for what `parse` returned at its default caps. ValueError for another mode.
    """
    if mode not in ("strict", "python"):
        raise ValueError(f"mode: expected 'strict' or 'python', got {mode!r}")
    text_a = _write(a, _EQUAL_CHARS, MAX_DEPTH_LIMIT, unordered=True)
    text_b = _write(b, _EQUAL_CHARS, MAX_DEPTH_LIMIT, unordered=True)
    if mode == "strict":
        return text_a == text_b  # the text names every type that a literal does not show
    try:
        return bool(a == b)
    except InvalidOperation:  # a signalling NaN refuses even ==; it equals nothing
        return False


# ---------------------------------------------------------------------------------------------
# Writing

_NONE = type(None)
_QUICK_LENGTH = 100


def _quick(value: object, max_chars: int) -> str | None:
    """The canonical text where `repr` gives it: an int, a bool, a str, None, or one list, tuple or dict of
    those, with nothing to escape. None for other values, and for what may be over a cap. Most values
    of small programs are of this kind, and this is several times as fast.

    Types are told by identity alone: a metaclass may have a `__hash__` and an `__eq__` of its own.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        parts: tuple[Any, ...] = (value,)
    elif kind is dict:
        parts = (value, value.values())  # type: ignore[attr-defined]
    elif kind is int or kind is bool or kind is _NONE or kind is str:
        parts = ()
    else:
        return None
    room = max_chars - len(value) if kind is str else max_chars  # type: ignore[arg-type]
    for part in parts:
        if len(part) > _QUICK_LENGTH:
            return None
        for item in part:
            kind = type(item)
            if kind is str:
                room -= len(item)
            elif kind is not int and kind is not bool and kind is not _NONE:
                return None
    if room < 0:
        return None
    try:
        text = repr(value)
    except (ValueError, RuntimeError):  # an int of too many digits, a value that changes meanwhile
        return None
    if len(text) > max_chars or not text.isascii() or "\\" in text or '"' in text:
        return None
    return text


def _write(value: object, max_chars: int, max_depth: int, *, unordered: bool) -> str:
    _check_depth(max_depth)
    try:
        return _Writer(max_chars, max_depth, unordered).text(value)
    except RuntimeError as error:
        if not isinstance(error, RecursionError):  # a thread of the program, or its finalizer
            raise Unrepresentable("the value changed while it was written") from None
        # Deep inside a recursive program there may be no room for our own frames.
        raise Unrepresentable(
            "no room left on the interpreter's stack to write the value"
        ) from None


def _check_depth(max_depth: int) -> None:
    if not 0 <= max_depth <= MAX_DEPTH_LIMIT:
        raise ValueError(f"max_depth: expected 0 to {MAX_DEPTH_LIMIT}, got {max_depth!r}")


class _Writer:
    """One run of `canonical`: what is left of the caps, and which containers are open."""

    __slots__ = ("depth", "hashed", "left", "max_chars", "open", "unordered")

    def __init__(self, max_chars: int, max_depth: int, unordered: bool) -> None:
        self.max_chars = max_chars
        self.left = max_chars
        self.depth = max_depth  # levels that may still be opened
        self.unordered = unordered  # sort dicts as well, for comparison
        self.hashed = 0  # > 0 inside a set or a key
        self.open: set[int] = set()  # ids of the containers around the current value

    def text(self, value: object) -> str:
        # Looked up by id: hashing the class itself would call a metaclass's __hash__.
        write = _WRITERS.get(id(type(value)))
        if write is None:
            raise Unrepresentable(f"a value of type {_shown(type_name(value))} has no text")
        return write(self, value)

    def pay(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Unrepresentable(f"the text is longer than {self.max_chars} characters")

    def paid(self, text: str) -> str:
        self.pay(len(text))
        return text

    def enter(self, value: object, size: int) -> None:
        if id(value) in self.open:
            raise Unrepresentable("the value contains itself")
        if self.depth == 0:
            raise Unrepresentable("the value is nested too deeply")
        if size > self.left:  # at least one character each: do not even list them
            self.pay(size)
        self.depth -= 1
        self.open.add(id(value))

    def leave(self, value: object) -> None:
        self.depth += 1
        self.open.discard(id(value))

    def key(self, value: object) -> str:
        self.hashed += 1
        text = self.text(value)
        self.hashed -= 1
        return text

    def join(self, before: str, texts: list[str], after: str) -> str:
        self.pay(len(before) + len(after) + 2 * max(0, len(texts) - 1))
        return before + ", ".join(texts) + after

    def sequence(self, value: Any, before: str, after: str) -> str:
        self.enter(value, len(value))
        texts = [self.text(item) for item in list(value)]
        self.leave(value)
        return self.join(before, texts, after)

    def elements(self, value: Any) -> str:
        """The display of a set that is not empty."""
        self.enter(value, len(value))
        items = list(value)
        texts = [self.key(item) for item in items]
        self.leave(value)
        texts = [
            text for _, text in sorted((_order(i), t) for i, t in zip(items, texts, strict=True))
        ]
        return self.join("{", texts, "}")

    def entries(self, value: Any, items: Iterable[Any], ordered: bool = False) -> str:
        """The display of a mapping whose (key, value) pairs are `items`."""
        self.enter(value, len(value))
        pairs = [(key, self.key(key), self.text(item)) for key, item in list(items)]
        self.leave(value)
        if self.unordered and not ordered:
            pairs.sort(key=lambda pair: (_order(pair[0]), pair[1], pair[2]))
        self.pay(2 * len(pairs))
        return self.join("{", [f"{key}: {item}" for _, key, item in pairs], "}")


def _shown(text: str, limit: int = 80) -> str:
    """`text` in quotes, ASCII only, shortened: for messages."""
    return ascii(text if len(text) <= limit else text[:limit] + "...")


def _int(w: _Writer, value: int) -> str:
    if not -_INT_BOUND < value < _INT_BOUND:
        raise Unrepresentable(f"an int of more than {MAX_INT_DIGITS} digits")
    rest, chunks = abs(value), []
    while rest >= _CHUNK:  # in chunks: a program can lower the limit of int -> str
        rest, chunk = divmod(rest, _CHUNK)
        chunks.append(str(chunk).zfill(_CHUNK_DIGITS))
    chunks.append(str(rest))
    return w.paid(("-" if value < 0 else "") + "".join(reversed(chunks)))


def _float_text(value: float) -> str:
    if value != value:
        return "float('nan')"
    if value in (_INF, -_INF):
        return "float('inf')" if value > 0 else "float('-inf')"
    return repr(value)


_INF = float("inf")


def _complex(w: _Writer, value: complex) -> str:
    if value - value == 0:  # finite: the printed form reads back, signs of zeros included
        return w.paid(repr(value))
    return w.paid(f"complex({_float_text(value.real)}, {_float_text(value.imag)})")


def _str(w: _Writer, value: str) -> str:
    if len(value) > w.left:
        w.pay(len(value))
    return w.paid(_quoted(value))


def _quoted(value: str) -> str:
    quote = '"' if "'" in value and '"' not in value else "'"
    if value.isascii() and value.isprintable():  # nothing to escape but the quote and backslash
        body = value.replace("\\", "\\\\").replace(quote, "\\" + quote)
    else:
        body = "".join([_character(char, quote) for char in value])
    return quote + body + quote


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# Other, unassigned, surrogate, private, separators: what `str.isprintable` refuses as well.
_UNPRINTABLE = frozenset(("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"))


def _character(char: str, quote: str) -> str:
    if char == quote:
        return "\\" + char
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0x20 <= code < 0x7F:
        return char
    # Not str.isprintable(): the Unicode data of the running Python differs between versions.
    # The soft hyphen is the one character that was printable then and no longer is.
    if code > 0x7F and code != 0xAD and ucd_3_2_0.category(char) not in _UNPRINTABLE:
        return char
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _bytes(w: _Writer, value: bytes) -> str:
    if len(value) > w.left:
        w.pay(len(value))
    return w.paid(repr(value))


def _bytearray(w: _Writer, value: bytearray) -> str:
    if len(value) > w.left:
        w.pay(len(value))
    return w.paid(f"bytearray({bytes(value)!r})")


def _tuple(w: _Writer, value: tuple[object, ...]) -> str:
    return w.sequence(value, "(", ",)" if len(value) == 1 else ")")


def _set(w: _Writer, value: set[object]) -> str:
    return w.elements(value) if value else w.paid("set()")


def _frozenset(w: _Writer, value: frozenset[object]) -> str:
    if not value:
        return w.paid("frozenset()")
    w.pay(len("frozenset()"))
    return f"frozenset({w.elements(value)})"


def _dict(w: _Writer, value: dict[object, object]) -> str:
    return w.entries(value, value.items())


def _counter(w: _Writer, value: Counter[object]) -> str:
    if not value:
        return w.paid("Counter()")
    w.pay(len("Counter()"))
    return f"Counter({w.entries(value, dict.items(value))})"  # an attribute may hide `items`


def _ordered_dict(w: _Writer, value: OrderedDict[object, object]) -> str:
    if not value:
        return w.paid("OrderedDict()")
    w.pay(len("OrderedDict()"))
    # Its own `items`, not dict's: after move_to_end only its own list has the order.
    return f"OrderedDict({w.entries(value, OrderedDict.items(value), ordered=True)})"


def _defaultdict(w: _Writer, value: defaultdict[object, object]) -> str:
    factory = value.default_factory
    name = "None"
    if factory is not None:
        names = [name for name, kind in FACTORIES.items() if kind is factory]
        if not names:
            raise Unrepresentable("a defaultdict whose factory is not a type of the grammar")
        name = names[0]
    w.pay(len("defaultdict(, )") + len(name))
    return f"defaultdict({name}, {w.entries(value, value.items())})"


def _deque(w: _Writer, value: deque[object]) -> str:
    after = "])" if value.maxlen is None else f"], maxlen={value.maxlen})"
    return w.sequence(value, "deque([", after)


def _decimal(w: _Writer, value: Decimal) -> str:
    if value.__sizeof__() > 200 + 8 * w.max_chars:  # 19 digits to 8 bytes: far over the cap
        w.pay(w.max_chars + 1)
    text = str(value)
    # A program may set `capitals` to 0 in its context, which shows in the exponent alone.
    return w.paid(f"Decimal('{text.upper() if value.is_finite() else text}')")


def _fraction(w: _Writer, value: Fraction) -> str:
    parts = (value.numerator, value.denominator)
    if not all(type(part) is int for part in parts):
        raise Unrepresentable("a Fraction whose parts are not ints")
    return w.join("Fraction(", [_int(w, part) for part in parts], ")")


def _parts(w: _Writer, name: str, values: Iterable[object]) -> str:
    return w.join(f"{name}(", [w.text(value) for value in values], ")")


def _range(w: _Writer, value: range) -> str:
    ends = (value.start, value.stop)
    return _parts(w, "range", ends if value.step == 1 else (*ends, value.step))


def _slice(w: _Writer, value: slice) -> str:
    if w.hashed:  # hashable from Python 3.12 on only, so such a text would not read back before
        raise Unrepresentable("a slice inside a set or a key")
    w.enter(value, 3)
    text = _parts(w, "slice", (value.start, value.stop, value.step))
    w.leave(value)
    return text


def _date(w: _Writer, value: date) -> str:
    return _parts(w, "datetime.date", (value.year, value.month, value.day))


def _clock(value: time | datetime) -> list[int]:
    fields = [value.hour, value.minute, value.second, value.microsecond]
    while len(fields) > 2 and fields[-1] == 0:
        fields.pop()
    return fields


def _zone_and_fold(w: _Writer, value: time | datetime, texts: list[str]) -> list[str]:
    if value.fold:
        texts.append(w.paid("fold=1"))
    if value.tzinfo is not None:
        w.pay(len("tzinfo="))
        texts.append("tzinfo=" + w.text(value.tzinfo))
    return texts


def _time(w: _Writer, value: time) -> str:
    texts = [w.text(field) for field in _clock(value)]
    return w.join("datetime.time(", _zone_and_fold(w, value, texts), ")")


def _datetime(w: _Writer, value: datetime) -> str:
    fields = (value.year, value.month, value.day, *_clock(value))
    texts = [w.text(field) for field in fields]
    return w.join("datetime.datetime(", _zone_and_fold(w, value, texts), ")")


def _timedelta(w: _Writer, value: timedelta) -> str:
    fields = {"days": value.days, "seconds": value.seconds, "microseconds": value.microseconds}
    texts = [f"{name}={field}" for name, field in fields.items() if field] or ["0"]
    return w.paid(f"datetime.timedelta({', '.join(texts)})")


def _timezone(w: _Writer, value: timezone) -> str:
    arguments = value.__getinitargs__()  # type: ignore[attr-defined]  # (offset,) or (offset, name)
    if arguments == (timedelta(0),):
        return w.paid("datetime.timezone.utc")
    return _parts(w, "datetime.timezone", arguments)


_WRITE: tuple[tuple[type, Callable[[_Writer, Any], str]], ...] = (
    (type(None), lambda w, _: w.paid("None")),
    (type(...), lambda w, _: w.paid("Ellipsis")),
    (type(NotImplemented), lambda w, _: w.paid("NotImplemented")),
    (bool, lambda w, value: w.paid("True" if value else "False")),
    (int, _int),
    (float, lambda w, value: w.paid(_float_text(value))),
    (complex, _complex),
    (str, _str),
    (bytes, _bytes),
    (bytearray, _bytearray),
    (list, lambda w, value: w.sequence(value, "[", "]")),
    (tuple, _tuple),
    (dict, _dict),
    (set, _set),
    (frozenset, _frozenset),
    (range, _range),
    (slice, _slice),
    (Counter, _counter),
    (OrderedDict, _ordered_dict),
    (defaultdict, _defaultdict),
    (deque, _deque),
    (Decimal, _decimal),
    (Fraction, _fraction),
    (date, _date),
    (time, _time),
    (datetime, _datetime),
    (timedelta, _timedelta),
    (timezone, _timezone),
)
# `_WRITE` keeps the types alive, so that no other type can ever have one of these ids.
_WRITERS = {id(kind): write for kind, write in _WRITE}


def _order(value: Any) -> tuple[Any, ...]:
    """Sort key of a hashable value of the grammar: (rank of its kind, what sorts within the rank).

    Equal keys do not mean equal values; whoever sorts adds the text. No NaN stands in a key, since
    it would make the order depend on where the sort began.
    """
    kind = type(value)
    if kind in (bool, int, float):
        return (1, *_number(value))
    if kind is complex:
        return (2, *_number(value.real), *_number(value.imag))
    if kind is Decimal:
        return (3, 1) if value.is_nan() else (3, 0, value)
    if kind is Fraction:
        return (4, value)
    if kind is str or kind is bytes:
        return (5 if kind is str else 6, value)
    if kind is tuple:
        return (7, tuple([_order(item) for item in value]))
    if kind is frozenset:
        return (8, tuple(sorted([_order(item) for item in value])))
    if kind is range:
        return (9, value.start, value.stop, value.step)
    if kind is date:
        return (10, value.year, value.month, value.day)
    if kind is datetime:
        return (11, value.year, value.month, value.day, *_moment(value))
    if kind is time:
        return (12, *_moment(value))
    if kind is timedelta:
        return (13, value)
    return (0, kind.__name__)  # None, Ellipsis, NotImplemented, timezone: the text decides


def _number(value: float) -> tuple[int, float]:
    return (0, value) if value == value else (1, 0)


def _moment(value: time | datetime) -> tuple[int, ...]:
    return (value.hour, value.minute, value.second, value.microsecond)


# ---------------------------------------------------------------------------------------------
# Reading


def parse_tree(text: str) -> ast.Module:
    """`ast.parse(text)`, safe to call from several threads.

    CPython up to 3.12 counts the depth of the tree in one place for all threads, and may raise
    SystemError ("recursion depth mismatch") when another thread parses meanwhile. The text is not at
    fault: it is parsed again.
    """
    import ast

    for _ in range(_PARSE_TRIES):
        try:
            return ast.parse(text)
        except SystemError:
            continue
    return ast.parse(text)


def parse_expression(text: str) -> ast.expr:
    """The tree of one expression; see `parse_tree`."""
    import ast

    for _ in range(_PARSE_TRIES):
        try:
            return ast.parse(text, mode="eval").body
        except SystemError:
            continue
    return ast.parse(text, mode="eval").body


_PARSE_TRIES = 100


def parse(text: str, *, max_chars: int = MAX_PARSE_CHARS, max_depth: int = MAX_DEPTH) -> object:
    """The value that `text` writes; nothing of it is ever run.

    Whatever is returned has a canonical text of its own. Duplicate keys and elements collapse as in
    Python (the last value of a key counts). `max_chars` bounds the text and every sequence built
    from a range or a string in it; `max_depth` is as in `canonical`. Raises `ValueTextError`, and
    nothing else, for every text that is not such a value.
    """
    _check_depth(max_depth)
    if type(text) is not str:
        raise ValueTextError(f"expected a text (str), got a value of type {type_name(text)}")
    if len(text) > max_chars:
        raise ValueTextError(f"the text has {len(text)} characters, more than {max_chars}")
    try:
        value = _Reader(max_chars).value(_expression(text, max_depth))
        # Twelve: one raw character can become an escape of ten, a list of letters five.
        _Writer(12 * max_chars + 100, max_depth, unordered=False).text(value)
    except ValueTextError:
        raise
    except SyntaxError as error:
        raise ValueTextError(f"{_shown(text)} is not a value: {error.msg}") from None
    except (ValueError, TypeError, OverflowError, ArithmeticError) as error:
        raise ValueTextError(f"{_shown(text)} is not a value: {error}") from None
    except (RecursionError, MemoryError):
        raise ValueTextError(f"{_shown(text)} is nested too deeply") from None
    return value


_NUMBER = (
    r"0[xX][\da-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+"
    r"|(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?"
)
_TOKEN = (
    r"(?P<space>\s+|\#[^\n]*)"
    r"|<class\ '(?:collections\.)?(?P<factory>[A-Za-z]+)'>"
    r"|(?P<ellipsis>\.\.\.)"
    r"|(?P<prefix>[A-Za-z]{0,2})(?P<string>'''(?:[^\\]|\\.)*?'''|\"\"\"(?:[^\\]|\\.)*?\"\"\""
    r"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")"
    rf"|(?P<number>{_NUMBER})"
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<dot>\.)|(?P<sign>[+-])|(?P<mark>[,:=])"
)
_KEYWORDS = frozenset(kwlist) - {"None", "True", "False"}
_MAX_SIGNS = 6  # between two commas: `-(-1-2j)`, never a sum of thousands


def _expression(text: str, max_depth: int) -> ast.expr:
    """The syntax tree of `text`, from Python's own parser behind a check of the tokens.

    The check keeps from that parser all that could make it recurse deeply (brackets, chains of
    signs, dots, calls and subscripts), makes it warn (unknown escapes), or could never be a value.
    """
    import re

    scan = re.compile(_TOKEN, re.ASCII | re.DOTALL | re.VERBOSE).match
    pieces, position, nesting, signs, dots, previous = [], 0, 0, 0, 0, "mark"
    while position < len(text):
        token = scan(text, position)
        if token is None:
            raise ValueTextError(f"{_shown(text[position])} cannot stand in a value")
        position = token.end()
        kind = token.lastgroup or ""
        if kind == "space":
            pieces.append(token.group())
            continue
        pieces.append(_checked_token(token, kind, previous, text[position : position + 1]))
        nesting += (kind == "open") - (kind == "close")
        signs = 0 if kind == "mark" else signs + (kind == "sign")
        dots = dots + 1 if kind == "dot" else dots * (kind == "name")
        previous = kind
        if nesting > 2 * max_depth + 10:
            raise ValueTextError(f"{_shown(text)} is nested too deeply")
        if signs > _MAX_SIGNS or dots > 2:
            raise ValueTextError("a value holds no arithmetic and no attributes")
    return parse_expression("".join(pieces).strip())


def _checked_token(token: Any, kind: str, previous: str, following: str) -> str:
    """The source text for Python's parser of one token, or `ValueTextError`."""
    source: str = token.group()
    if kind == "factory":
        return str(token.group(kind))
    if kind == "string":
        return _quiet(token.group("prefix"), token.group(kind))
    if kind == "number" and (following.isalnum() or following == "_"):
        raise ValueTextError(f"{_shown(source + following)} is not a number")
    if kind == "name" and source in _KEYWORDS:
        raise ValueTextError(f"the word {_shown(source)} cannot stand in a value")
    if kind == "dot" and previous != "name":
        raise ValueTextError("a value holds no attributes")
    called = source == "(" and previous in ("close", "string", "number", "factory")
    if called or (source == "[" and previous in ("close", "string", "number", "factory", "name")):
        raise ValueTextError("a value holds no indexing and no calls of a result")
    return source


def _quiet(prefix: str, body: str) -> str:
    r"""The string token with escapes that mean the same and about which no Python warns.

    `'\d'` becomes `'\\d'`: a warning would go to the trainer's log, or under `-W error` refuse the
    text, and silencing warnings is not safe with threads.
    """
    import re

    letters = prefix.lower()
    if letters not in ("", "r", "u", "b", "br", "rb"):
        raise ValueTextError(f"a string with the prefix {_shown(prefix)} is not a value")
    if "r" in letters or "\\" not in body:
        return prefix + body
    raw = "b" in letters
    known = "\n\r\\'\"abfnrtvx01234567" + ("" if raw else "NuU")

    def escape(found: re.Match[str]) -> str:
        tail = found.group(1)
        if len(tail) == 3:  # an octal over \377
            return f"\\x{int(tail, 8) & 0xFF:02x}" if raw else f"\\u{int(tail, 8):04x}"
        return found.group() if tail in known else "\\" + found.group()

    return prefix + re.sub(r"\\([4-7][0-7][0-7]|.)", escape, body, flags=re.DOTALL)


class _Reader:
    """Builds the value of a syntax tree; `left` bounds what ranges and strings may expand to."""

    def __init__(self, max_chars: int) -> None:
        self.left = max_chars

    def value(self, node: ast.expr) -> object:
        build: Callable[[Any], object] | None = getattr(self, "_" + type(node).__name__, None)
        if build is None:
            raise ValueTextError(f"an expression of kind {type(node).__name__} is not a value")
        return build(node)

    def values(self, nodes: list[ast.expr]) -> list[object]:
        return [self.value(node) for node in nodes]

    def _Constant(self, node: ast.Constant) -> object:
        return node.value  # f-strings are nodes of their own

    def _List(self, node: ast.List) -> object:
        return self.values(node.elts)

    def _Tuple(self, node: ast.Tuple) -> object:
        return tuple(self.values(node.elts))

    def _Set(self, node: ast.Set) -> object:
        return set(self.values(node.elts))

    def _Dict(self, node: ast.Dict) -> object:
        keys = [key for key in node.keys if key is not None]  # None stands for `**other`
        if len(keys) != len(node.values):
            raise ValueTextError("a dict with ** is not a value")
        return dict(zip(self.values(keys), self.values(node.values), strict=True))

    def _UnaryOp(self, node: ast.UnaryOp) -> object:
        negative = type(node.op).__name__ == "USub"
        operand: Any = self.value(node.operand)
        if type(operand) is complex and operand.real == 0.0 and negative:
            return complex(0.0, -operand.imag)  # -2j as it is printed
        if type(operand) not in (int, float, complex):
            raise ValueTextError(f"a sign before a value of type {type_name(operand)}")
        return -operand if negative else operand

    def _BinOp(self, node: ast.BinOp) -> object:
        """Only `<real> + <imaginary literal>` and `<real> - <imaginary literal>`."""
        real: Any = self.value(node.left)
        imaginary: Any = self.value(node.right)
        literal = type(node.right).__name__ == "Constant" and type(imaginary) is complex
        sign = {"Add": 1, "Sub": -1}.get(type(node.op).__name__)
        if not literal or sign is None or type(real) not in (int, float):
            raise ValueTextError("arithmetic is not a value")
        if real == 0:  # (-0-2j) is printed without the point, and the int loses the sign
            real = -0.0 if _minus_signs(node.left) % 2 else 0.0
        return complex(float(real), sign * imaginary.imag)

    def _Name(self, node: ast.Name) -> object:
        return self.named(node.id)

    def _Attribute(self, node: ast.Attribute) -> object:
        return self.named(_dotted(node))

    def named(self, name: str) -> object:
        if name in ("nan", "inf", "math.nan", "math.inf"):
            return float(name.rpartition(".")[2])  # a new nan each time: two may be keys of a dict
        if name in ("timezone.utc", "datetime.timezone.utc"):
            return timezone.utc
        if name in ("Ellipsis", "NotImplemented"):
            return ... if name == "Ellipsis" else NotImplemented
        raise ValueTextError(f"the name {_shown(name)} is not a value")

    def _Call(self, node: ast.Call) -> object:
        name = _dotted(node.func)
        module, _, short = name.rpartition(".")
        construct = _CONSTRUCTORS.get(short)
        if construct is None or module not in ("", _MODULES.get(short, "")):
            raise ValueTextError(f"{_shown(name)} is not a constructor of a value")
        if short == "defaultdict" and node.args:  # the one constructor that takes a type
            return self.defaultdict(node)
        named = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise ValueTextError("a call with ** is not a value")
            if keyword.arg in named:
                raise ValueTextError(f"the keyword {_shown(keyword.arg)} stands twice")
            named[keyword.arg] = self.value(keyword.value)
        return construct(self, *self.values(node.args), **named)

    def defaultdict(self, node: ast.Call) -> object:
        factory = _dotted(node.args[0]) if type(node.args[0]).__name__ != "Constant" else "None"
        short = factory.rpartition(".")[2]
        if node.keywords or (factory != "None" and short not in FACTORIES):
            raise ValueTextError(f"defaultdict with the factory {_shown(factory)} is not a value")
        if factory == "None" and self.value(node.args[0]) is not None:
            raise ValueTextError("the factory of a defaultdict is a type or None")
        result: defaultdict[object, object] = defaultdict(FACTORIES.get(short))
        result.update(_make_dict(self, *self.values(node.args[1:])))
        return result

    def items(self, source: object, *, sets: bool = False) -> list[object]:
        """The elements of a value from which a constructor builds a container.

        A set is taken only where order does not matter: its own order depends on the hash seed.
        """
        kinds = [list, tuple, str, bytes, bytearray, dict, OrderedDict, Counter, deque, range]
        if type(source) not in ([*kinds, set, frozenset] if sets else kinds):
            raise ValueTextError(f"a container from a value of type {type_name(source)}")
        collection: Any = source
        size = len(collection)  # OverflowError for a range beyond any memory
        self.left -= size
        if self.left < 0:
            raise ValueTextError("a container that is written as a range or a text is too long")
        return list(collection)


def _dotted(node: ast.expr) -> str:
    """`a.b.c` of names alone."""
    node_: Any = node
    parts: list[str] = []
    while type(node_).__name__ == "Attribute":
        parts.append(node_.attr)
        node_ = node_.value
    if type(node_).__name__ != "Name":
        raise ValueTextError("a call of something that is not a name")
    return ".".join([node_.id, *reversed(parts)])


def _minus_signs(node: Any) -> int:
    """How many minus signs stand before a real number, the number's own included."""
    count = 0
    while type(node).__name__ == "UnaryOp":
        count += type(node.op).__name__ == "USub"
        node = node.operand
    return count


_MISSING: Any = object()
_MAPPINGS = (dict, OrderedDict, Counter, defaultdict)


def _exactly(name: str, values: Iterable[object], *kinds: type) -> None:
    """Python's own constructor would take more: pickled state, text in a language of its own."""
    for value in values:
        if type(value) not in kinds:
            raise ValueTextError(f"{name}() of a value of type {type_name(value)}")


def _make_list(r: _Reader, source: object = (), /) -> object:
    return r.items(source)


def _make_tuple(r: _Reader, source: object = (), /) -> object:
    return tuple(r.items(source))


def _make_set(r: _Reader, source: object = (), /) -> object:
    return set(r.items(source, sets=True))


def _make_frozenset(r: _Reader, source: object = (), /) -> object:
    return frozenset(r.items(source, sets=True))


def _make_deque(r: _Reader, iterable: object = (), maxlen: Any = None) -> object:
    _exactly("deque", [maxlen], int, type(None))
    return deque(r.items(iterable), maxlen)


def _make_dict(r: _Reader, source: Any = (), /, **named: object) -> dict[object, object]:
    result: dict[Any, object] = {}
    if type(source) in _MAPPINGS:
        r.items(list(source))
        result.update(source.items())
        source = ()
    for pair in r.items(source):
        _exactly("dict", [pair], list, tuple)
        key, item = r.items(pair)
        result[key] = item
    result.update(named)
    return result


def _make_ordered_dict(r: _Reader, source: Any = (), /, **named: object) -> object:
    return OrderedDict(_make_dict(r, source, **named))


def _make_defaultdict(r: _Reader, /, **named: object) -> object:
    return defaultdict(None, _make_dict(r, **named))


def _make_counter(r: _Reader, source: Any = (), /, **named: Any) -> object:
    if named:  # Counter would add these up; `Counter(a=1)` is all that is written
        _exactly("Counter", [*r.items(source), *named.values()], int)
        return Counter(named) if not source else _refuse("Counter() of both a value and names")
    if type(source) not in _MAPPINGS:
        return Counter(r.items(source))
    counter: Any = Counter()
    dict.update(counter, _make_dict(r, source))  # as they are: Counter's own would add them up
    return counter


def _refuse(reason: str) -> object:
    raise ValueTextError(f"{reason} is not a value")


def _make_str(r: _Reader, text: object = "", /) -> object:
    _exactly("str", [text], str)
    return text


def _make_float(r: _Reader, value: Any = 0.0, /) -> object:
    _exactly("float", [value], str, int, float)
    return float(value)


def _make_complex(r: _Reader, real: Any = 0.0, imag: Any = _MISSING) -> object:
    if imag is _MISSING:
        _exactly("complex", [real], str, int, float, complex)
        return complex(real)
    _exactly("complex", [real, imag], int, float)
    return complex(float(real), float(imag))


def _make_bytes(r: _Reader, source: Any = b"", /) -> object:
    _exactly("bytes", [source], bytes, bytearray, list, tuple)
    return bytes(source)


def _make_bytearray(r: _Reader, source: Any = b"", /) -> object:
    _exactly("bytearray", [source], bytes, bytearray, list, tuple)
    return bytearray(source)


def _make_range(r: _Reader, *ends: Any) -> object:
    _exactly("range", ends, int, bool)
    return range(*ends)


def _make_slice(r: _Reader, *ends: Any) -> object:
    return slice(*ends)


def _make_decimal(r: _Reader, value: Any = "0", /) -> object:
    _exactly("Decimal", [value], str, int)
    try:
        # A context of our own: the caller's might turn a malformed text into NaN.
        return Decimal(value, Context(traps=[InvalidOperation]))
    except InvalidOperation:
        return _refuse(f"Decimal({_shown(str(value))})")


def _make_fraction(r: _Reader, numerator: Any = 0, denominator: Any = 1) -> object:
    _exactly("Fraction", [numerator, denominator], int)  # '1e999999999' is a text of 11 characters
    return Fraction(numerator, denominator)


def _make_date(r: _Reader, *values: Any, **named: Any) -> object:
    _exactly("date", [*values, *named.values()], int)
    return date(*values, **named)


def _make_time(r: _Reader, *values: Any, **named: Any) -> object:
    _exactly("time", [*values, *named.values()], int, timezone, type(None))
    return time(*values, **named)


def _make_datetime(r: _Reader, *values: Any, **named: Any) -> object:
    _exactly("datetime", [*values, *named.values()], int, timezone, type(None))
    return datetime(*values, **named)


def _make_timedelta(r: _Reader, *values: Any, **named: Any) -> object:
    _exactly("timedelta", [*values, *named.values()], int, float)
    return timedelta(*values, **named)


def _make_timezone(r: _Reader, *values: Any, **named: Any) -> object:
    _exactly("timezone", [*values, *named.values()], timedelta, str)
    return timezone(*values, **named)


_CONSTRUCTORS: dict[str, Callable[..., object]] = {
    "list": _make_list,
    "tuple": _make_tuple,
    "set": _make_set,
    "frozenset": _make_frozenset,
    "dict": _make_dict,
    "str": _make_str,
    "float": _make_float,
    "complex": _make_complex,
    "bytes": _make_bytes,
    "bytearray": _make_bytearray,
    "range": _make_range,
    "slice": _make_slice,
    "deque": _make_deque,
    "Counter": _make_counter,
    "OrderedDict": _make_ordered_dict,
    "defaultdict": _make_defaultdict,
    "Decimal": _make_decimal,
    "Fraction": _make_fraction,
    "date": _make_date,
    "time": _make_time,
    "datetime": _make_datetime,
    "timedelta": _make_timedelta,
    "timezone": _make_timezone,
}
_MODULES = {
    **dict.fromkeys(("deque", "Counter", "OrderedDict", "defaultdict"), "collections"),
    **dict.fromkeys(("date", "time", "datetime", "timedelta", "timezone"), "datetime"),
    "Decimal": "decimal",
    "Fraction": "fractions",
}
