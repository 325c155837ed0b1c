"""What is said of a call that ended: the value as text, or the exception by type, message and line.

Covers the flat record of a call and its encoding, without running any code of the program where that
can be avoided: its classes may lie, loop or raise. Does not run anything (`performer.py`).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import builtins
import json
from types import MemberDescriptorType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROGRAM_NAME = "<program>"
MAX_MESSAGE_CHARS = 1000

Fields = dict[str, "str | int | float | None"]
"""What is said of one call: a flat record, so that nothing nested has to be trusted."""

# Everything is held here where the program's own changes to modules do not reach.
_quote = json.encoder.encode_basestring_ascii
# Straight to the slots: an attribute of a program's class may be a property, that is, its code.
type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
bases_of: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_attributes: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_traceback: Callable[[BaseException], TracebackType | None]
_traceback = vars(BaseException)["__traceback__"].__get__
_arguments: Callable[[BaseException], tuple[object, ...]] = vars(BaseException)["args"].__get__
_syntax_filename: Callable[[BaseException], object] = vars(SyntaxError)["filename"].__get__
_syntax_line: Callable[[BaseException], object] = vars(SyntaxError)["lineno"].__get__
_BUILTIN_ERRORS = frozenset(
    t for t in vars(builtins).values() if isinstance(t, type) and issubclass(t, BaseException)
)
_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, complex, type(None)})


def _report_encoder() -> Callable[[object], str]:
    """A JSON encoder bound now, so that a program that patches `json` cannot change it."""
    try:
        from _json import make_encoder
    except ImportError:
        return json.JSONEncoder(separators=(",", ":")).encode

    def refuse(value: object) -> NoReturn:
        raise TypeError(f"a recorder's report must be JSON-able, found {type_name(type(value))}")

    encode = make_encoder(None, refuse, _quote, None, ":", ",", False, False, True)
    join = "".join
    return lambda value: join(encode(value, 0))


encode_record = _report_encoder()


def encode_fields(fields: Fields) -> bytes:
    parts = []
    for name, value in fields.items():
        if value is None:
            continue
        text = _quote(value) if isinstance(value, str) else repr(value)
        parts.append(f"{_quote(name)}:{text}")
    return ("{" + ",".join(parts) + "}").encode("ascii")


def safe_message(error: BaseException) -> str | None:
    """The message of an exception, without running any code of the program.

    None if the class has its own `__str__`, or if the arguments are not plain values: showing those
    would call into the program, which may lie or never come back.
    """
    for cls in bases_of(type(error)):
        if cls in _BUILTIN_ERRORS:
            break
        if "__str__" in _attributes(cls):
            return None
    try:
        if not all(_is_plain(part) for part in (*_arguments(error), *_members(error))):
            return None
        shown = cls.__str__(error)  # type: ignore[call-arg]
        return shown[:MAX_MESSAGE_CHARS]
    except Exception:  # a message is a courtesy: MemoryError, damaged attributes
        return None


def _members(error: BaseException) -> list[object]:
    """What a builtin exception keeps beside `args` and may show: file names, reasons, offsets."""
    found: list[object] = []
    for cls in bases_of(type(error)):
        if cls in _BUILTIN_ERRORS:
            for member in _attributes(cls).values():
                if type(member) is MemberDescriptorType:
                    try:
                        found.append(member.__get__(error))
                    except AttributeError:  # a member that was never set
                        continue
    return found


def _is_plain(value: object, depth: int = 3) -> bool:
    if type(value) in _PLAIN_TYPES:
        return not isinstance(value, (str, bytes)) or len(value) <= 1 << 20
    if type(value) is tuple and depth and len(value) <= 100:
        return all(_is_plain(part, depth - 1) for part in value)
    return False


def program_line(error: BaseException) -> int | None:
    """The line of the program on which the exception left the program's own code."""
    line: int | None = None
    step = _traceback(error)
    while step is not None:
        if step.tb_frame.f_code.co_filename == PROGRAM_NAME:
            line = step.tb_lineno
        step = step.tb_next
    if line is None and SyntaxError in bases_of(type(error)):
        name, stated = _syntax_filename(error), _syntax_line(error)
        if type(name) is str and name == PROGRAM_NAME and type(stated) is int:
            line = stated
    return line
