"""`synth bench trace`: what tracing costs, against the usual tracers and against no tracing at all.

Covers two settings, each in one process without a sandbox, all ways in turn over several rounds: small
programs (compiled and run once each), where a tracer's own start-up counts, and long loops, where each
step counts. The usual tracers are settrace functions that look at every variable at every line: one
takes `repr`, one `copy.deepcopy`. Ours is pass one, and both passes with the values that questions ask
for. What the host does in between (table of statements, decoding, choice of questions) is a line of its
own. Outputs of every way are compared with those of the program alone.

The programs run inside this process: give only rows that you trust.
"""

from __future__ import annotations

import copy
import functools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rewards.values import Unrepresentable, canonical, type_name
from synth import linetracer, tracer
from synth.bench import Call
from synth.questions import PRESETS, plan
from synth.statements import table_of
from synth.states import needed, request
from synth.traces import Trace

__all__ = ["TraceTiming", "TraceTimings", "measure_traces"]

PROGRAM = "<program>"
ROUNDS = 7
LOOP_ROUNDS = 3

LOOPS = {
    "growing list, 2,000 turns": Call(
        "def f(n):\n    xs = []\n    for i in range(n):\n        xs.append(i * 2)\n    return len(xs)\n",
        *("f", "2000", "2000"),
    ),
    "50 x 50 grid edited in place": Call(
        "def f(n):\n    grid = [[0] * n for _ in range(n)]\n    for i in range(n):\n"
        "        for j in range(n):\n            grid[i][j] = i * j\n    return grid[-1][-1]\n",
        *("f", "50", "2401"),
    ),
    "100,000 steps": Call(
        "def f(n):\n    total = 0\n    for i in range(n):\n        total += i % 7\n    return total\n",
        *("f", "50000", "149997"),
    ),
}
"""Long runs. The usual tracers are held against the first two, whose values are large."""
LARGE = tuple(LOOPS)[:2]


@dataclass(frozen=True)
class TraceTiming:
    """One way over one load."""

    load: str
    way: str
    seconds: float
    """CPU time, median of the rounds."""
    over_plain: float
    """Times the programs alone."""
    wrong: int
    """Runs whose output is not that of the program alone."""


@dataclass(frozen=True)
class TraceTimings:
    """All ways over all loads."""

    timings: tuple[TraceTiming, ...]
    programs: int
    plain_share: float
    """Share of the programs that the recorder for plain programs may watch."""

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "programs": self.programs,
            "plain_share": round(self.plain_share, 3),
            "ways": [asdict(timing) for timing in self.timings],
        }

    def text(self) -> str:
        """A table."""
        lines = [
            f"{self.programs} programs, compiled and run once each; {self.plain_share:.1%} plain",
            "",
            f"{'load':30}{'way':40}{'cpu ms':>10}{'x plain':>10}{'wrong':>7}",
        ]
        for one in self.timings:
            lines.append(
                f"{one.load:30}{one.way:40}{one.seconds * 1000:10.1f}{one.over_plain:9.2f}x{one.wrong:7}"
            )
        return "\n".join(lines)


# Ways to run one call. Each compiles the program itself, and returns the output's text.


def _compiled_args(call: Call) -> Any:
    return compile(f"(lambda *a, **k: (a, k))({call.args}\n)", "<arguments>", "eval")


def _namespace_and_args(
    call: Call, code: Any, args_code: Any = None
) -> tuple[Callable[..., Any], Any, Any]:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(code, namespace)
    args, kwargs = eval(args_code or _compiled_args(call), namespace)
    return namespace[call.entry], args, kwargs


def _alone(call: Call) -> object:
    code = compile(call.code, PROGRAM, "exec", dont_inherit=True)
    function, args, kwargs = _namespace_and_args(call, code)
    return function(*args, **kwargs)


def _usual(look: Callable[[object], object]) -> Callable[[Call], object]:
    """A tracer that looks at all variables at every line, as published ones do."""

    def way(call: Call) -> object:
        code = compile(call.code, PROGRAM, "exec", dont_inherit=True)
        function, args, kwargs = _namespace_and_args(call, code)
        seen: list[tuple[int, dict[str, object]]] = []

        def watch(frame: Any, event: str, arg: object) -> Any:
            if frame.f_code.co_filename != PROGRAM:
                return None
            if event == "line":
                held = {name: look(value) for name, value in frame.f_locals.items()}
                seen.append((frame.f_lineno, held))
            return watch

        sys.settrace(watch)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(None)

    return way


def _copied(value: object) -> object:
    try:
        return copy.deepcopy(value)
    except Exception:  # generators, views: the usual tracer would lose the run
        return None


def _hold(value: object, max_chars: int) -> list[str | None]:
    """What the sandbox gives a recorder to write values down with."""
    try:
        return [type_name(value), canonical(value, max_chars=max_chars)]
    except Unrepresentable:
        return [type_name(value), None]


@functools.cache
def _recorder_of(code: str) -> Callable[[str, dict[str, Any]], Any]:
    """Which recorder may watch; the host knows that beforehand."""
    return linetracer.Recorder if table_of(code).plain else tracer.Recorder


def _watched(
    call: Call, options: dict[str, Any], args_code: Any = None
) -> tuple[object, dict[str, Any]]:
    recorder = _recorder_of(call.code)(call.code, options)
    recorder.hold = _hold
    function, args, kwargs = _namespace_and_args(call, recorder.compile(PROGRAM), args_code)
    value = recorder.call(function, args, kwargs)
    return value, recorder.report()


class _Ours:
    """Both passes, with what the host does in between done beforehand."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.asked: dict[Call, dict[str, Any]] = {}
        start = time.process_time()
        for call in calls:
            trace = self.decoded(call)
            planned = plan(trace, call.code, preset=PRESETS["paper"], seed=call.args)
            wanted = needed(trace, *planned.wanted, max_chars=PRESETS["paper"].max_chars)
            self.asked[call] = {
                "max_steps": linetracer.MAX_STEPS,
                "capture": request(trace, wanted),
            }
        self.host_seconds = time.process_time() - start
        for call in calls:
            start = time.process_time()
            _watched(call, {})
            self.host_seconds -= time.process_time() - start

    @staticmethod
    def decoded(call: Call) -> Trace:
        import json

        _, report = _watched(call, {})
        return Trace.from_record(call.code, json.dumps(report))

    @staticmethod
    def first(call: Call) -> object:
        return _watched(call, {})[0]

    def both(self, call: Call) -> object:
        """The second pass takes over what the first has compiled: the program and the call."""
        args_code = _compiled_args(call)
        _watched(call, {}, args_code)
        return _watched(call, self.asked[call], args_code)[0]


# Measuring.


def measure_traces(calls: Sequence[Call]) -> TraceTimings:
    """Time all ways over the calls and over the long loops. Calls that raise are left out."""
    sound = [call for call in calls if _runs(call)]
    ours = _Ours(sound)
    ways: dict[str, Callable[[Call], object]] = {
        "plain": _alone,
        "pass one": ours.first,
        "both passes": ours.both,
        "settrace, repr of all variables": _usual(repr),
        "settrace, deepcopy of all variables": _usual(_copied),
    }
    load = f"{len(sound)} small programs"
    timings = _timed(load, sound, ways, ROUNDS)
    host = TraceTiming(
        load,
        "host: table, decoding, questions",
        ours.host_seconds,
        ours.host_seconds / timings[0].seconds,
        0,
    )
    loops = _Ours(list(LOOPS.values()))
    ways = {**ways, "pass one": loops.first, "both passes": loops.both}
    del ways["settrace, deepcopy of all variables"]
    for name, call in LOOPS.items():
        some = dict(ways)
        if name not in LARGE:
            del some["settrace, repr of all variables"]
        timings += _timed(name, [call], some, LOOP_ROUNDS)
    plain = sum(table_of(call.code).plain for call in sound)
    return TraceTimings((*timings, host), len(sound), plain / max(len(sound), 1))


def _runs(call: Call) -> bool:
    try:
        _alone(call)
    except Exception:
        return False
    return True


def _timed(
    load: str, calls: Sequence[Call], ways: dict[str, Callable[[Call], object]], rounds: int
) -> list[TraceTiming]:
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    wrong = dict.fromkeys(ways, 0)
    expected = [_text(_alone(call)) for call in calls]
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.process_time()
            given = [way(call) for call in calls]
            seconds[name].append(time.process_time() - start)
            wrong[name] = sum(_text(one) != two for one, two in zip(given, expected, strict=True))
    plain = statistics.median(seconds["plain"])
    return [
        TraceTiming(
            load, name, statistics.median(took), statistics.median(took) / plain, wrong[name]
        )
        for name, took in seconds.items()
    ]


def _text(value: object) -> str:
    try:
        return canonical(value)
    except Unrepresentable:
        return type_name(value)
