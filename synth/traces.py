"""What one execution did, statement by statement: `Trace`, its `Step`s, and running for a trace.

Covers pass one: which statement ran when, in which frame, how it ended and what came next, under
the definitions of "Trace semantics" in the design, and which recorder watches a program. Does not
cover values of variables (`states.py`), nor the recording (`tracer.py` and `linetracer.py`, which run in
the guest), nor what the recorded integers mean (`decoding.py`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from rewards.sandbox.jobs import ExecutionResult, Job, Limits
from synth import linetracer, tracer
from synth.decoding import Frame, Outcome, TraceError, decode
from synth.statements import Statement, statements, table_of

__all__ = [
    "LINE_RECORDER",
    "RECORDER",
    "RECORDERS",
    "Frame",
    "RunGroup",
    "Statement",
    "Step",
    "Trace",
    "TraceError",
    "run_watched",
    "statements",
    "trace",
]

RECORDER = str(Path(tracer.__file__))
"""Path of the recorder for every program, for `Job.recorder`."""
LINE_RECORDER = str(Path(linetracer.__file__))
"""Path of the recorder for plain programs."""
RECORDERS = {"events": RECORDER, "lines": LINE_RECORDER}

MAX_STEPS = 100_000

RunGroup = Callable[[Sequence[Job]], "list[ExecutionResult]"]
"""`run_group` of `rewards.sandbox` or of a pool."""


class Step(NamedTuple):
    """One execution of one statement in one frame."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    """Place in the trace, by start, from 0."""
    statement: int
    """Index in `Trace.statements`."""
    line: int
    """First line of the statement, 1-based."""
    col: int
    visit: int
    """This is the k-th step that starts at `line`, from 1, over all frames."""
    frame: int
    """Number of the frame by order of entry, from 1."""
    function: str
    """Qualified name of the function or class whose frame it is."""
    outcome: Outcome
    arm: str | None
    """Which way a header went: "true" or "false" (`for`: fetched or exhausted), "case 0", "none"
    (no case). None for other statements, and where it did not get so far."""
    next: int
    """Line of the first step that starts after this one has ended, in whatever frame; -1 for none
    (also for an unfinished step)."""
    next_index: int
    """That step's index, -1 for none."""
    inner_index: int
    """Index of the first step in a frame that this step entered (a call, a class body), if that is
    the next step of the trace at all; else -1."""


@dataclass(frozen=True)
class Trace:
    """The steps of one execution of a program, in the order in which they started."""

    statements: tuple[Statement, ...]
    recorder: str
    """Which recorder watched: "lines" or "events"."""
    flags: frozenset[str]
    """Why a row made of this trace must be dropped, by name; empty for a good trace: "step_limit",
    "recursion_error", "threads", "async", "generator_collected", "not_instrumented", and
    "inconsistent" for events that contradict each other."""
    frames: tuple[Frame, ...]
    """By order of entry."""
    sequence: tuple[int, ...]
    """Statement index of every step, in order."""
    frame_numbers: tuple[int, ...]
    """Frame number of every step."""
    outcomes: tuple[Outcome, ...]
    arms: tuple[str | None, ...]
    ends: tuple[int, ...]
    """How many steps had started when a step ended, -1 if it never did."""
    end_events: tuple[int, ...]
    """Place of the recorder's event by which a step was known to have ended, -1 if it never did."""
    branches: frozenset[tuple[int, str]]
    """(statement index, arm) of every way that was taken: "true" and "false" of `if`, `while` and
    `for`, "case k" and "none" of `match`, "except k" of `try`."""

    @classmethod
    def from_record(cls, code: str, record: str) -> Trace:
        """Decode what the recorder reported for a run of `code`. Raises `TraceError`."""
        table = table_of(code)
        return cls(table.statements, *decode(table, record))

    @property
    def n_steps(self) -> int:
        return len(self.sequence)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps as objects; made on first use."""
        table, count = self.statements, len(self.sequence)
        visits: Counter[int] = Counter()
        made: list[Step] = []
        for index, statement in enumerate(self.sequence):
            where = table[statement]
            line = where.line
            visits[line] += 1
            end = self.ends[index]
            following = end if 0 <= end < count else -1
            frame = self.frame_numbers[index]
            inner = index + 1
            if not (inner < end and self._enters(inner, index)):
                inner = -1
            made.append(
                Step(
                    index=index,
                    statement=statement,
                    line=line,
                    col=where.col,
                    visit=visits[line],
                    frame=frame,
                    function=self.frames[frame - 1].function,
                    outcome=self.outcomes[index],
                    arm=self.arms[index],
                    next=table[self.sequence[following]].line if following >= 0 else -1,
                    next_index=following,
                    inner_index=inner,
                )
            )
        return tuple(made)

    def _enters(self, inner: int, index: int) -> bool:
        """Whether step `inner` is the first of a frame that step `index` entered."""
        number = self.frame_numbers[inner]
        return self.frames[number - 1].caller == index and self._first_steps[number] == inner

    @cached_property
    def _first_steps(self) -> dict[int, int]:
        """Index of the first step of each frame that has one, by the frame's number."""
        first: dict[int, int] = {}
        for index, number in enumerate(self.frame_numbers):
            first.setdefault(number, index)
        return first

    @cached_property
    def previous(self) -> Mapping[int, int]:
        """Step -> the step before it in the same frame; a frame's first step is missing."""
        last: dict[int, int] = {}
        found: dict[int, int] = {}
        for step, frame in enumerate(self.frame_numbers):
            if frame in last:
                found[step] = last[frame]
            last[frame] = step
        return found

    @cached_property
    def executed(self) -> frozenset[int]:
        """Indices of the statements that ran at least once."""
        return frozenset(self.sequence)

    @cached_property
    def functions(self) -> tuple[str, ...]:
        """Qualified names of the frames, in order of entry; class bodies included."""
        return tuple(frame.function for frame in self.frames)

    @cached_property
    def path_id(self) -> str:
        """16 hex digits that two traces share if they took the same set of branches."""
        return _digest(f"{statement}:{arm}" for statement, arm in sorted(self.branches))

    @cached_property
    def shape_id(self) -> str:
        """16 hex digits that two traces share if their whole statement sequences are equal."""
        return _digest(map(str, self.sequence))

    def lines_executed(self) -> frozenset[int]:
        """First lines of the statements that ran."""
        return frozenset(self.statements[index].line for index in self.executed)

    def visits(self, line: int) -> int:
        """How many steps start at a line."""
        return self._visits_by_line[line]

    @cached_property
    def _visits_by_line(self) -> Counter[int]:
        return Counter(self.statements[index].line for index in self.sequence)


def _digest(parts: Any) -> str:
    return hashlib.sha256(",".join(parts).encode()).hexdigest()[:16]


def run_watched(
    run_group: RunGroup,
    code: str,
    entry: str,
    inputs: Sequence[str],
    *,
    limits: Limits | None = None,
    hash_seed: int = 0,
    options: Sequence[dict[str, Any]] = (),
    recorder: str | None = None,
) -> list[ExecutionResult]:
    """Run a program on each input (text of the arguments) under watch; a result's `record` is for
    `Trace.from_record`.

    `options`: what the recorder is told for each input, nothing if left out. `recorder`: the one to
    use, None for the cheapest that knows the program; if that one meets what it does not know, the run
    is repeated under the other.
    """
    chosen = recorder or (LINE_RECORDER if _is_plain(code) else RECORDER)
    given = options or [{} for _ in inputs]
    jobs = [
        Job(
            code,
            entry,
            args,
            limits=limits or Limits(),
            recorder=chosen,
            options=json.dumps({"max_steps": MAX_STEPS, **option}),
            hash_seed=hash_seed,
        )
        for args, option in zip(inputs, given, strict=True)
    ]
    results = run_group(jobs)
    if chosen == LINE_RECORDER and recorder is None:
        again = [number for number, result in enumerate(results) if _gave_up(result)]
        if again:
            repeated = run_watched(
                run_group,
                code,
                entry,
                [inputs[number] for number in again],
                limits=limits,
                hash_seed=hash_seed,
                options=[given[number] for number in again],
                recorder=RECORDER,
            )
            for number, result in zip(again, repeated, strict=True):
                results[number] = result
    return results


def _is_plain(code: str) -> bool:
    try:
        return table_of(code).plain
    except SyntaxError:
        return False  # the sandbox says so too, with all the rest that it says


def _gave_up(result: ExecutionResult) -> bool:
    """Whether the recorder for plain programs met something that others have to tell."""
    if result.record is None:
        return False
    try:
        flags = json.loads(result.record)["flags"]
    except (ValueError, KeyError, TypeError):
        return False  # not a record: decoding says so
    return "exception" in flags or "interrupted" in flags


def trace(
    code: str, entry: str, args: str, limits: Limits | None = None, max_steps: int = MAX_STEPS
) -> tuple[ExecutionResult, Trace | None]:
    """Run `entry(args)` in the sandbox under watch.

    The trace is None if the guest left no record (timed out, killed, raised before the call).
    Raises `TraceError` for a record that is not the recorder's, `SandboxError` if nothing can run.
    """
    from rewards.sandbox import run

    (result,) = run_watched(
        run, code, entry, [args], limits=limits, options=[{"max_steps": max_steps}]
    )
    if result.record is None:
        return result, None
    return result, Trace.from_record(code, result.record)
