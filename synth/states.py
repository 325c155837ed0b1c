"""What variables held when steps ended: pass two of a trace.

Covers choosing the moments (`needed`), running the program again to write the values down there
(`capture`), and what can be asked of them (`States`: a state, what changed, what a frame returned). Does
not cover which values are worth asking for (`questions`). The second run must be the first one over
again: where its events or its outcome differ, `TraceError` says so.

A state is that of the step's frame: parameters, locals and free variables that are bound, without
dunders; of a class body what it has bound itself. A value outside the canonical text, or longer than
`MAX_VALUE_CHARS`, is held by its type alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rewards.sandbox.jobs import ExecutionResult, Limits
from synth.decoding import TraceError
from synth.statements import Statement
from synth.traces import RECORDERS, RunGroup, Trace, run_watched

__all__ = [
    "MAX_VALUE_CHARS",
    "Change",
    "Held",
    "States",
    "Wanted",
    "capture",
    "everything",
    "needed",
]

MAX_VALUE_CHARS = 10_000
"""Longest canonical text of a value that is written down, in characters."""


class Held(NamedTuple):
    """What a variable holds."""

    type: str
    """`type(v).__name__`."""
    text: str | None
    """Canonical text; None for a value that has none, or none so short."""


@dataclass(frozen=True)
class Change:
    """How a state differs from that at the end of the frame's previous step."""

    changed: Mapping[str, Held]
    """Variables that hold something else now, by name; those bound anew included."""
    removed: tuple[str, ...]
    """Names that were bound and are not any more, sorted."""


@dataclass(frozen=True)
class Wanted:
    """Which states and returns of a trace to write down; made by `needed`."""

    states: Mapping[int, frozenset[str] | None]
    """Step -> the variables wanted at its end, None for all."""
    returns: frozenset[int] = frozenset()
    """Numbers of the frames whose returned value is wanted."""
    max_chars: int = MAX_VALUE_CHARS
    """Longest text of a variable that is named, and of what is returned. States that are wanted whole
    are compared with each other, so there the limit is `MAX_VALUE_CHARS`."""

    def __bool__(self) -> bool:
        return bool(self.states or self.returns)


def needed(
    trace: Trace,
    steps: Iterable[int] | Mapping[int, Iterable[str]] = (),
    changes: Iterable[int] = (),
    returns: Iterable[int] = (),
    *,
    max_chars: int = MAX_VALUE_CHARS,
) -> Wanted:
    """What to capture for the states of `steps` (a mapping names the variables), for the `change` of
    some steps, and for what some frames (by number) returned. `max_chars`: see `Wanted`.
    """
    states: dict[int, frozenset[str] | None] = {}
    if isinstance(steps, Mapping):
        states.update({step: frozenset(names) for step, names in steps.items()})
    else:
        states.update(dict.fromkeys(steps))
    for step in changes:
        states[step] = None
        if step in trace.previous:
            states[trace.previous[step]] = None
    return Wanted(dict(sorted(states.items())), frozenset(returns), max_chars)


def everything(trace: Trace) -> Wanted:
    """All states and all returned values of a trace."""
    return Wanted(
        dict.fromkeys(range(trace.n_steps)), frozenset(frame.number for frame in trace.frames)
    )


@dataclass(frozen=True)
class States:
    """What variables held at the end of some steps of one trace."""

    trace: Trace
    held: Mapping[int, Mapping[str, Held]] = field(repr=False)
    """Step -> variable -> what it held; names sorted."""
    values: Mapping[int, Held] = field(repr=False)
    """Number of a frame -> what it returned."""
    result: ExecutionResult = field(repr=False)
    """Of the second run."""

    def at(self, step: int) -> Mapping[str, Held] | None:
        """The state of the step's frame when the step ended; None if it was not captured."""
        return self.held.get(step)

    def change(self, step: int) -> Change | None:
        """What the step changed, against the end of the frame's previous step; None if not captured.

        At a frame's first step everything is changed, so that its parameters appear.
        """
        now = self.at(step)
        previous = self.trace.previous.get(step)
        before = self.at(previous) if previous is not None else {}
        if now is None or before is None:
            return None
        changed = {name: value for name, value in now.items() if before.get(name) != value}
        return Change(changed, tuple(sorted(before.keys() - now.keys())))

    def returned(self, frame: int) -> Held | None:
        """What a frame (by number) returned; None if not captured, or if it did not return.

        Not known, and so None, where a `with` or `try` of the function holds the frame's last step: what
        runs after it may decide otherwise. A generator's end counts as a return.
        """
        return self.values.get(frame)


def capture(
    run_group: RunGroup,
    code: str,
    entry: str,
    inputs: Sequence[str],
    traces: Sequence[Trace],
    wanted: Sequence[Wanted],
    *,
    limits: Limits | None = None,
    max_steps: int,
    hash_seed: int = 0,
) -> list[States]:
    """Run a program on inputs whose traces are known and write down what is wanted of each.

    `run_group`: how jobs are run, such as `rewards.sandbox.run_group`. `max_steps`: as in pass one.
    Raises `TraceError` if a run is not the one that was traced.
    """
    options = [
        {"max_steps": max_steps, "capture": request(trace, one)}
        for trace, one in zip(traces, wanted, strict=True)
    ]
    found: dict[int, States] = {}
    for name, recorder in RECORDERS.items():
        mine = [number for number, trace in enumerate(traces) if trace.recorder == name]
        if not mine:
            continue
        results = run_watched(
            run_group,
            code,
            entry,
            [inputs[number] for number in mine],
            limits=limits,
            hash_seed=hash_seed,
            options=[options[number] for number in mine],
            recorder=recorder,
        )
        for number, result in zip(mine, results, strict=True):
            found[number] = read_states(code, traces[number], wanted[number], result)
    return [found[number] for number in range(len(traces))]


def request(trace: Trace, wanted: Wanted) -> dict[str, Any]:
    """The option `capture` of the recorders."""
    states: dict[int, list[str] | None] = {}
    for step, names in wanted.states.items():
        place = trace.end_events[step]
        known = states.get(place, [])
        if place >= 0:
            all_of_them = names is None or known is None
            states[place] = None if all_of_them else sorted({*names, *known})  # type: ignore[misc]
    ends = _last_returns(trace)
    returned = {
        trace.end_events[ends[frame]] for frame in wanted.returns if ends.get(frame, -1) >= 0
    }
    return {
        "states": [
            [place, names, MAX_VALUE_CHARS if names is None else wanted.max_chars]
            for place, names in sorted(states.items())
        ],
        "returned": [[place, wanted.max_chars] for place in sorted(returned)],
    }


IMPLICIT = -1
"""A frame that ended without `return`."""


def _last_returns(trace: Trace) -> dict[int, int]:
    """Frame -> its `return` step, or IMPLICIT; frames of which that is not certain are left out."""
    last = {frame: step for step, frame in enumerate(trace.frame_numbers)}
    found: dict[int, int] = {}
    for frame, step in last.items():
        statement = trace.statements[trace.sequence[step]]
        if trace.outcomes[step] != "completed" or trace.frames[frame - 1].is_class:
            continue
        if _is_guarded(trace.statements, statement):
            continue  # what runs afterwards may raise, or return something else
        found[frame] = step if statement.kind == "Return" else IMPLICIT
    return found


def _is_guarded(table: Sequence[Statement], statement: Statement) -> bool:
    """Whether a `with` or `try` of the same function holds the statement."""
    while statement.parent >= 0 and table[statement.parent].function == statement.function:
        statement = table[statement.parent]
        if statement.kind in ("With", "AsyncWith", "Try", "TryStar"):
            return True
    return False


def _steps_by_end(trace: Trace) -> dict[int, list[int]]:
    """Place of an event -> the steps that it ended. More than one: a header whose block begins with a
    statement that does nothing, such as `pass`, ends at the event that tells all of that statement.
    """
    found: dict[int, list[int]] = {}
    for step, place in enumerate(trace.end_events):
        if place >= 0:
            found.setdefault(place, []).append(step)
    return found


def read_states(code: str, trace: Trace, wanted: Wanted, result: ExecutionResult) -> States:
    """What a run of pass two wrote down. Raises `TraceError` if it is not the run that was traced."""
    if result.record is None:
        raise TraceError(
            f"the second run left no record: {result.outcome} {result.detail}".rstrip()
        )
    if Trace.from_record(code, result.record) != trace:
        raise TraceError("the second run took other steps than the first: not deterministic")
    report = json.loads(result.record)
    ended_at = _steps_by_end(trace)
    held: dict[int, Mapping[str, Held]] = {}
    values: dict[int, Held] = {}
    try:
        for place, state in report["states"]:
            known = {name: Held(*pair) for name, pair in state.items()}
            held.update(dict.fromkeys(ended_at[place], known))
        for place, pair in report["returned"]:
            values[trace.frame_numbers[ended_at[place][-1]]] = Held(*pair)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise TraceError(f"not a record of the recorder: {error}") from error
    for frame, step in _last_returns(trace).items():
        if step == IMPLICIT and frame in wanted.returns:
            values[frame] = Held("NoneType", "None")
    return States(trace, held, values, result)
