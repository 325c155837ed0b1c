"""The recorder for plain programs, which runs in the guest: lines in the order of their execution.

Covers programs that `plain.py` lets through, in which lines tell statements apart. For them
`sys.settrace` costs a few per cent of compiling and running a small program (instrumenting the tree
takes three times as long as both) and a factor of 4 in a tight loop. Not covered: all other programs
(`tracer.py`), and what the events mean (`decoding.py`). Self-contained: standard library only.

Events are integers, in order: n > 0, line n begins; 0, the running frame returns; -n, a frame of the
function whose text begins at line n is entered. A few are no steps (continuation lines, the same line
again after a call inside it, comprehensions on versions that inline them); the host drops them.

Flags: `step_limit`; `exception`, something was raised in a function of the program, and how that ends
is for the other recorder to find out; `interrupted`, somebody else set a trace function.
"""

from __future__ import annotations

import binascii
import sys
import types
import zlib
from array import array
from collections.abc import Callable
from typing import Any

MAX_STEPS = 100_000
CAPTURE_FRAMES = 500
"""What writing a value down may need of the stack: the depth of values is bounded."""
EVENTS_PER_STEP = 6
"""Bound on what is kept, in events for each step allowed."""
PLAIN_EVENTS = 200
"""As many events are reported as they are; packing pays off later."""

Hold = Callable[[object, int], "list[str | None]"]

_compiled: dict[tuple[str, str], types.CodeType] = {}
"""The last program: a group of calls compiles it once."""


class Recorder:
    """Watches one call of one plain program.

    Options: `max_steps`, an integer of at least 1, and `capture` (see `tracer.Recorder`).
    """

    hold: Hold
    """Value, most characters -> [name of its type, canonical text or None]; set after it is made."""

    def __init__(self, source: str, options: dict[str, Any]) -> None:
        self._source = source
        self._filename = ""
        self._max_steps = int(options.get("max_steps", MAX_STEPS))
        if self._max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self._max_steps}")
        self._capture: dict[str, Any] | None = options.get("capture")
        self._events: list[int] = []
        self._flags: set[str] = set()
        self._states: list[Any] = []
        self._returned: list[Any] = []

    def compile(self, filename: str) -> types.CodeType:
        """The program as it is. Raises what `compile` raises."""
        self._filename = filename
        code = _compiled.get((self._source, filename))
        if code is None:
            code = compile(self._source, filename, "exec", dont_inherit=True)
            _compiled.clear()
            _compiled[self._source, filename] = code
        return code

    def namespace(self) -> dict[str, object]:
        """Nothing: the program's namespace is its own."""
        return {}

    def call(self, function: Callable[..., object], args: tuple[Any, ...], kwargs: Any) -> object:
        """`function(*args, **kwargs)` under watch; its exceptions go through unchanged."""
        if self._capture is not None:
            sys.setrecursionlimit(sys.getrecursionlimit() + CAPTURE_FRAMES)
        local = self._watcher() if self._capture is None else self._capturer()
        entered = self._entrance(local)
        sys.settrace(entered)
        try:
            return function(*args, **kwargs)
        finally:
            if sys.gettrace() is not entered and not self._flags:
                self._flags.add("interrupted")
            sys.settrace(None)

    def report(self) -> dict[str, object]:
        """`{"version", "events", "flags", "max_steps"}`, and `states` and `returned` if asked for."""
        events: object = self._events
        if len(self._events) > PLAIN_EVENTS:
            packed = zlib.compress(array("i", self._events).tobytes(), 1)
            events = binascii.b2a_base64(packed, newline=False).decode("ascii")
        report: dict[str, object] = {
            "version": 2,
            "byteorder": sys.byteorder,
            "max_steps": self._max_steps,
            "flags": sorted(self._flags),
            "events": events,
        }
        if self._capture is not None:
            report.update(states=self._states, returned=self._returned)
        return report

    def _entrance(self, local: Callable[..., Any]) -> Callable[..., Any]:
        """The function that hears of every call and says whose lines are watched."""
        append, filename = self._events.append, self._filename

        def entered(frame: types.FrameType, event: str, arg: object) -> Any:
            code = frame.f_code
            # Lambdas and comprehensions are part of the statement that holds them.
            if code.co_filename != filename or code.co_name[0] == "<":
                return None
            append(-code.co_firstlineno)
            return local

        return entered

    def _watcher(self) -> Callable[..., Any]:
        """Hears of the lines of a frame: pass one."""
        events, stop = self._events, self._stop
        append = events.append
        limit = EVENTS_PER_STEP * self._max_steps + 64

        def local(frame: types.FrameType, event: str, arg: object) -> Any:
            if event == "line":
                append(frame.f_lineno)
                if len(events) > limit:
                    return stop("step_limit")
            elif event == "return":
                append(0)
            else:
                return stop("exception")
            return local

        return local

    def _capturer(self) -> Callable[..., Any]:
        """Hears of the lines of a frame and writes down what was asked for: pass two."""
        assert self._capture is not None
        events, stop, hold = self._events, self._stop, self.hold
        append = events.append
        limit = EVENTS_PER_STEP * self._max_steps + 64
        returned = {int(place): int(most) for place, most in self._capture["returned"]}
        states = {int(place): (names, int(most)) for place, names, most in self._capture["states"]}
        places = iter([*sorted({*states, *returned}), -1])
        coming = next(places)

        def local(frame: types.FrameType, event: str, arg: object) -> Any:
            nonlocal coming
            if len(events) == coming:
                if coming in states:
                    self._states.append([coming, _held(frame, *states[coming], hold)])
                if coming in returned:
                    self._returned.append([coming, hold(arg, returned[coming])])
                coming = next(places)
            if event == "line":
                append(frame.f_lineno)
                if len(events) > limit:
                    return stop("step_limit")
            elif event == "return":
                append(0)
            else:
                return stop("exception")
            return local

        return local

    def _stop(self, flag: str) -> None:
        """From here on nothing is recorded; `flag` says why."""
        self._flags.add(flag)
        sys.settrace(None)


def _held(frame: types.FrameType, names: list[str] | None, most: int, hold: Hold) -> dict[str, Any]:
    """Variable -> what it holds, of those named (None: all) that are bound; dunders left out."""
    variables = frame.f_locals
    if names is None:
        names = [
            name for name in variables if name.isidentifier() and name[:2] + name[-2:] != "____"
        ]
    return {name: hold(variables[name], most) for name in names if name in variables}
