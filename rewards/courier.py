"""In the guest: carries values of unit tests in and out that the sandbox alone does not carry.

Two jobs, told apart by the options that the host sends:

- `{}` or `{"max_chars"}`: a call of the *candidate* whose value may be long. It goes out as JSON, as
  `json.dumps` would write it, or as canonical text with a cap of its own.
- `{"entry", "answers", "guess"}`: the host's own *check program*. It reaches the candidate through a
  stub, which knows answers and nothing else: the candidate itself runs in another process. A call
  whose answer is not there is noted, and the host asks the candidate later. Until then the check goes
  on with a placeholder that agrees with everything, only to find out what else it will ask; nothing it
  concludes in that state counts, and an `assert` that fails in that state is passed over.

Arguments leave as their `repr`, which the host reads with `rewards.values.parse`; answers arrive as
canonical text that the host has written itself, so evaluating them runs no code of the candidate.

Not covered: verdicts (`rewards.checking`), changes that a candidate makes to its arguments (they
happen in its own process, so a check sees only what is returned).

A recorder file (see `rewards/sandbox/performer.py`): self-contained, standard library alone.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

ENTRY = "__check__"
"""The name under which the host calls the check program."""
MAX_NEEDS = 4096
"""Calls that one run may ask for."""
MAX_NEED_CHARS = 2 << 20
"""Characters of all arguments that one run may ask for."""

_MARK = "<not known yet>"
_TOLERATED = "__tolerated__"
_ERRORS = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
}
# Inside `map` or a generator of the check these would end the loop quietly: `all(map(ask, cases))`
# would hold for a candidate that always raises StopIteration. PEP 479 does the same.
for _name in ("StopIteration", "StopAsyncIteration"):
    _ERRORS[_name] = RuntimeError


def Recorder(source: str, options: dict[str, Any]) -> Any:
    """The recorder for one call."""
    if "answers" in options:
        return CheckCourier(source, options["entry"], options["answers"], options["guess"])
    return ValueCourier(source, options.get("max_chars"))


_compiled: dict[str, Any] = {}  # by source, for the calls of one child


class ValueCourier:
    """Runs the entry and reports its value as JSON, or as text of up to `max_chars` characters.

    A value that cannot be written so is reported as missing.
    """

    hold: Any  # set by the performer: writes canonical text

    def __init__(self, source: str, max_chars: int | None) -> None:
        self.source, self.max_chars = source, max_chars
        self.values: list[Any] = []

    def compile(self, filename: str) -> Any:
        if self.source not in _compiled:
            _compiled[self.source] = compile(self.source, filename, "exec", dont_inherit=True)
        return _compiled[self.source]

    def namespace(self) -> dict[str, object]:
        return {}

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.values.append(function(*args, **kwargs))

    def report(self) -> dict[str, Any]:
        if not self.values:
            return {}
        value = self.values[0]
        return {"value": value if self.max_chars is None else self.hold(value, self.max_chars)[1]}


class Stopped(BaseException):
    """The check cannot go on. Not an Exception: a check may well catch those."""


class CheckCourier:
    """Runs a check program against the answers that are known so far.

    The report: `needs`, arguments of calls without an answer, in order; `calls`, how many were made;
    `stopped`, how the candidate's process ended instead of answering; `refused`, why a call cannot be
    carried.
    """

    def __init__(self, source: str, entry: str, answers: dict[str, list[Any]], guess: bool) -> None:
        self.source, self.entry, self.answers, self.guess = source, entry, answers, guess
        self.needs: dict[str, None] = {}
        self.chars = 0
        self.calls = 0
        self.stopped: str | None = None
        self.refused: str | None = None

    def compile(self, filename: str) -> Any:
        """Nothing yet: the check program runs in `call`, so that `report` is asked for in any case."""
        if self.source not in _compiled:
            tree = ast.fix_missing_locations(_Tolerant().visit(ast.parse(self.source, filename)))
            _compiled[self.source] = compile(tree, filename, "exec", dont_inherit=True)
        return compile("", filename, "exec", dont_inherit=True)

    def namespace(self) -> dict[str, object]:
        return {ENTRY: None}

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if "random" in self.source:
            # The check runs again with every answer learnt, and must ask the same each time.
            import random

            random.seed(0)
        namespace = sys.modules["__main__"].__dict__
        stub = self.stub()
        del namespace[ENTRY]
        namespace[_TOLERATED] = self.tolerated
        namespace[self.entry] = namespace["candidate"] = stub
        exec(_compiled[self.source], namespace)
        check = namespace.get("check")
        if check is not None and check is not stub:
            check(stub)

    def report(self) -> dict[str, Any]:
        return {
            "needs": list(self.needs),
            "calls": self.calls,
            "stopped": self.stopped,
            "refused": self.refused,
        }

    def stub(self) -> Any:
        def candidate(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            return self.answer(args, kwargs)

        candidate.__name__ = candidate.__qualname__ = self.entry
        return candidate

    def tolerated(self) -> Any:
        """What a failed `assert` may raise unnoticed: anything while guessing, nothing otherwise."""
        return Exception if self.needs else ()

    def answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What the candidate says to these arguments; the placeholder if that is not known."""
        try:
            text = repr((args, kwargs))
        except Exception as error:  # of the check's own objects, or an int too long to print
            self.refuse(f"its arguments cannot be written: {type(error).__name__}")
        if self.needs and _MARK in text:
            return UNKNOWN  # asked again once what stands in it is known
        known = self.answers.get(text)
        if known is None:
            return self.need(text)
        kind, said = known[0], known[1]
        if kind == "value":
            return eval(said, _names())  # anew each time: the check may change what it got
        if kind == "raised":
            raise _error(said, known[2])
        if not self.needs:
            self.stopped = kind
        raise Stopped

    def need(self, text: str) -> Any:
        if text not in self.needs:
            self.chars += len(text)
            if len(text) > MAX_NEED_CHARS:
                self.refuse(f"its arguments are longer than {MAX_NEED_CHARS} characters")
            if len(self.needs) >= MAX_NEEDS or self.chars > MAX_NEED_CHARS:
                raise Stopped  # enough for this time
            self.needs[text] = None
        if not self.guess:
            raise Stopped
        return UNKNOWN

    def refuse(self, why: str) -> NoReturn:
        # Without any answer yet, all this is the check's own doing, also what follows a guess.
        if not self.needs or not self.answers:
            self.refused = self.refused or why
        raise Stopped


class _Tolerant(ast.NodeTransformer):
    """`assert x` becomes `try: assert x` / `except __tolerated__(): pass`.

    The tuple of exceptions is looked up when one has been raised, so that while all answers are known
    the assertion fails as if nothing stood around it.
    """

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        tolerated = ast.Call(ast.Name(_TOLERATED, ast.Load()), [], [])
        handler = ast.ExceptHandler(tolerated, None, [ast.Pass()])
        return ast.copy_location(ast.Try([node], [handler], [], []), node)


def _error(name: str, message: str | None) -> Exception:
    """An exception as the candidate raised it: builtin ones as such, others by name alone."""
    kind: Any = _ERRORS.get(name) or type(name, (Exception,), {})
    try:
        error: Exception = kind() if message is None else kind(message)
    except TypeError:  # UnicodeDecodeError and its like want more arguments
        error = kind.__new__(kind)
    return error


_made: dict[str, Any] = {}


def _names() -> dict[str, Any]:
    """What canonical texts are evaluated with: the constructors that stand in them."""
    if not _made:
        import collections
        import datetime
        import decimal
        import fractions

        kinds = (
            *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
            *(range, slice, collections.Counter, collections.OrderedDict, collections.defaultdict),
            *(collections.deque, decimal.Decimal, fractions.Fraction),
        )
        _made.update({kind.__name__: kind for kind in kinds})
        _made.update(
            __builtins__={}, datetime=datetime, Ellipsis=..., NotImplemented=NotImplemented
        )
    return _made


class _Unknown:
    """Stands for an answer that is not known yet, and agrees with everything."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __repr__(self) -> str:
        return _MARK

    def __format__(self, spec: str) -> str:
        return _MARK

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _complete() -> None:
    def itself(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self

    def always(value: Any) -> Any:
        return lambda self, *args, **kwargs: value

    both = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod"
    for name in both.split():
        setattr(_Unknown, f"__{name}__", itself)
        setattr(_Unknown, f"__r{name}__", itself)
    for name in ("neg", "pos", "abs", "invert", "round", "getitem", "call", "enter"):
        setattr(_Unknown, f"__{name}__", itself)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "contains"):
        setattr(_Unknown, f"__{name}__", always(True))
    for name in ("len", "int", "index"):
        setattr(_Unknown, f"__{name}__", always(0))
    for name in ("exit", "setitem", "delitem"):
        setattr(_Unknown, f"__{name}__", always(None))
    _Unknown.__float__ = always(0.0)  # type: ignore[attr-defined]
    _Unknown.__complex__ = always(0j)  # type: ignore[attr-defined]


_complete()
UNKNOWN = _Unknown()
