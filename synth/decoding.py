"""From a recorder's events to the steps of one execution, in columns.

Covers both recorders: `EventDecoder` follows what an instrumented program reported (`tracer.py`),
`LineDecoder` the lines of a plain one (`linetracer.py`). Does not cover what can be asked of the steps
(`traces.py`). A record comes from the guest and is checked: one that cannot be the trace of the program
raises `TraceError`; one in which events are out of order (threads, the recursion limit) keeps the steps
before that point and says so in `flags`.
"""

from __future__ import annotations

import base64
import json
import sys
import zlib
from array import array
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from synth import tracer
from synth.errors import SynthError
from synth.statements import MODULE, Table

__all__ = ["Columns", "Frame", "Outcome", "TraceError", "decode"]

MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Of events, unpacked: enough for a step limit of 600,000."""

Outcome = Literal["completed", "raised", "unfinished"]
"""`unfinished`: the entry ended first (a generator left suspended), or recording stopped."""


class TraceError(SynthError):
    """A record is not one that the recorder could have written for this program."""


class Frame(NamedTuple):
    """One activation of a function or class body."""

    number: int
    """By order of entry, from 1."""
    function: str
    """Qualified name."""
    depth: int
    """Frames on the stack when it was entered, itself included: the entry's is 1."""
    caller: int
    """Index of the step during which it was entered, -1 for the entry's frame and where no step was
    open (a call made by `__exit__` machinery, or by a frame before its first step)."""
    is_class: bool
    """The body of a class statement, not a call."""


class Columns(NamedTuple):
    """The steps of an execution; see the fields of `traces.Trace` of the same names."""

    recorder: str
    flags: frozenset[str]
    frames: tuple[Frame, ...]
    sequence: tuple[int, ...]
    frame_numbers: tuple[int, ...]
    outcomes: tuple[Outcome, ...]
    arms: tuple[str | None, ...]
    ends: tuple[int, ...]
    end_events: tuple[int, ...]
    branches: frozenset[tuple[int, str]]


def decode(table: Table, record: str) -> Columns:
    """The columns of what a recorder reported for a run of the program. Raises `TraceError`."""
    report = _parse_record(record)
    kind = LineDecoder if report["version"] == 2 else EventDecoder
    decoder = kind(table, report["max_steps"])
    try:
        decoder.run(report["events"])
    except (IndexError, KeyError) as error:
        raise TraceError("the record names a statement that the program lacks") from error
    return decoder.columns(report["flags"])


def _parse_record(record: str) -> dict[str, Any]:
    """The fields of a report with its events unpacked; the guest is not trusted to be well-formed."""
    try:
        report = json.loads(record)
        flags, limit, order = report["flags"], report["max_steps"], report["byteorder"]
        events, version = _unpacked(report["events"], order), report["version"]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, zlib.error) as error:
        raise TraceError(f"not a record of the recorder: {error}") from error
    if version not in (1, 2) or type(limit) is not int:
        raise TraceError("not a record of the recorder: version or limit")
    if not (isinstance(flags, list) and all(isinstance(flag, str) for flag in flags)):
        raise TraceError("not a record of the recorder: flags must be a list of strings")
    return {"flags": frozenset(flags), "max_steps": limit, "events": events, "version": version}


def _unpacked(events: Any, order: object) -> Sequence[int]:
    """Events as integers: a list is taken as it is, a text is unpacked. Raises ValueError."""
    if isinstance(events, list):
        return array("i", events)
    packed = base64.b64decode(events, validate=True)
    unpacker = zlib.decompressobj()
    numbers = array("i", unpacker.decompress(packed, MAX_RECORD_BYTES))
    if unpacker.unconsumed_tail:
        raise ValueError("too many events")
    if order != sys.byteorder:
        numbers.byteswap()
    return numbers


class _Inconsistent(Exception):
    """Events that contradict the stack of frames."""


class _Decoder:
    """What both decoders keep: the stack of frames, and the columns of the steps."""

    recorder: str

    def __init__(self, table: Table, max_steps: int) -> None:
        self.table = table
        self.max_steps = max_steps
        self.position = 0
        """Place of the event at hand."""
        self.sequence: list[int] = []
        self.frame_numbers: list[int] = []
        self.outcomes: list[Outcome] = []
        self.arms: list[str | None] = []
        self.ends: list[int] = []
        self.end_events: list[int] = []
        self.branches: set[tuple[int, str]] = set()
        self.frames: list[Frame] = []
        self.open: list[int] = []
        """For each frame, the index of the step that has started and not ended, or -1."""
        self.stack: list[int] = []
        """Places in `frames` of those that run, innermost last."""
        self.flags: set[str] = set()

    def run(self, events: Sequence[int]) -> None:
        try:
            self.follow(events)
        except _Inconsistent:
            self.flags.add("inconsistent")

    def follow(self, events: Sequence[int]) -> None:
        """Take every event in order. Raises `_Inconsistent`."""
        raise NotImplementedError

    def begin(self, frame: int, statement: int) -> None:
        """A step of the running frame starts."""
        self.open[frame] = len(self.sequence)
        self.sequence.append(statement)
        self.frame_numbers.append(frame + 1)
        self.outcomes.append("unfinished")
        self.arms.append(None)
        self.ends.append(-1)
        self.end_events.append(-1)

    def end(self, outcome: Outcome, arm: str | None = None) -> None:
        """The open step of the running frame ends now."""
        if not self.stack:
            raise _Inconsistent
        frame = self.stack[-1]
        step = self.open[frame]
        if step < 0:
            return
        self.open[frame] = -1
        self.outcomes[step] = outcome
        self.ends[step] = len(self.sequence)
        self.end_events[step] = self.position
        statement = self.sequence[step]
        if arm is not None and statement in self.table.branching:
            self.arms[step] = arm
            self.branches.add((statement, arm))

    def push(self, name: str, scope: int) -> None:
        """A new frame, entered from the one that runs."""
        is_class = scope >= 0 and self.table.statements[scope].kind == "ClassDef"
        below = self.stack[-1] if self.stack else tracer.NONE
        depth = self.frames[below].depth + 1 if self.stack else 1
        caller = self.open[below] if self.stack else -1
        self.stack.append(len(self.frames))
        self.frames.append(Frame(len(self.frames) + 1, name, depth, caller, is_class))
        self.open.append(-1)

    def over_limit(self) -> bool:
        """Whether there are more steps than allowed; the one too many is taken back."""
        if len(self.sequence) <= self.max_steps:
            return False
        columns = (self.sequence, self.frame_numbers, self.outcomes, self.arms, self.ends)
        for column in (*columns, self.end_events):
            column.pop()
        self.flags.add("step_limit")
        return True

    def columns(self, flags: frozenset[str]) -> Columns:
        """What was found, with the flags that the recorder raised itself."""
        return Columns(
            recorder=self.recorder,
            flags=flags | self.flags,
            frames=tuple(self.frames),
            sequence=tuple(self.sequence),
            frame_numbers=tuple(self.frame_numbers),
            outcomes=tuple(self.outcomes),
            arms=tuple(self.arms),
            ends=tuple(self.ends),
            end_events=tuple(self.end_events),
            branches=frozenset(self.branches),
        )


class LineDecoder(_Decoder):
    """Follows the lines of a plain program."""

    recorder = "lines"

    def follow(self, events: Sequence[int]) -> None:
        at_line = self.table.at_line
        for self.position, event in enumerate(events):
            if event < 0:
                statement = at_line[-event]
                self.push(self.table.names[statement], statement)
            elif not self.stack:
                raise _Inconsistent
            elif event:
                statement = at_line.get(event, tracer.NONE)
                # Not a step: a line of the open step once more, or one of no statement. What runs first
                # of a statement may stand on a continuation line.
                if statement != tracer.NONE and not self.is_open(statement):
                    self.start(statement)
                    if self.over_limit():
                        return
            else:
                self.end("completed", "false")
                self.stack.pop()

    def is_open(self, statement: int) -> bool:
        step = self.open[self.stack[-1]]
        return step >= 0 and self.sequence[step] == statement

    def start(self, statement: int) -> None:
        frame = self.stack[-1]
        step = self.open[frame]
        if step >= 0:
            known = self.table.statements[statement]
            leads = known.parent == self.sequence[step]
            self.end("completed", known.arm if leads else "false")
        self.begin(frame, statement)


class EventDecoder(_Decoder):
    """Follows the events of an instrumented program."""

    recorder = "events"

    def __init__(self, table: Table, max_steps: int) -> None:
        super().__init__(table, max_steps)
        self.scopes: list[int] = []
        """For each frame, the index of its `def` or `class`."""
        self.left: set[int] = set()
        self.suspended: set[int] = set()
        self.generators: dict[int, int] = {}

    def follow(self, events: Sequence[int]) -> None:
        entered = False
        for self.position, event in enumerate(events):
            if event < 0:
                self.switch(event, entered)
                entered = False
                continue
            number, kind = event >> 3, event & 7
            entered = kind == tracer.ENTER
            if kind == tracer.START:
                self.start(number)
            elif kind == tracer.DONE:
                self.end("completed")
            elif kind == tracer.PASSED:
                self.start(number)
                self.end("completed")
            elif kind == tracer.FETCH:
                self.end("completed")
                self.start(number)
            elif kind == tracer.ENTER:
                self.enter(number)
            elif kind == tracer.TRUE:
                self.end("completed", "true")
            elif kind == tracer.FALSE:
                is_match = self.table.statements[number].kind == "Match"
                self.end("completed", "none" if is_match else "false")
            else:
                self.other(event)
            if self.over_limit():
                return

    def start(self, statement: int) -> None:
        if not self.stack:
            raise _Inconsistent
        frame = self.stack[-1]
        scope = self.table.scope[statement]
        if self.scopes[frame] != scope:
            if self.scopes[frame] != tracer.NONE:
                raise _Inconsistent
            self.name(frame, scope)
        step = self.open[frame]
        before = self.sequence[step] if step >= 0 else tracer.NONE
        known = self.table.statements[statement]
        if step >= 0:
            if self.table.before[statement] == before:
                leads = known.parent == before
                self.end("completed", known.arm if leads else None)
            else:
                self.end("raised")
        if known.arm.startswith("except") and known.parent in self.table.branching:
            self.branches.add((known.parent, known.arm))
        self.begin(frame, statement)

    def enter(self, scope: int) -> None:
        name = self.table.names[scope]
        if not name:
            raise TraceError(f"statement {scope} is no function and no class, but was entered")
        self.push(name, scope)

    def name(self, frame: int, scope: int) -> None:
        """A generator that was begun before the entry shows what it is at its first step."""
        self.scopes[frame] = scope
        name = self.table.names[scope] if scope >= 0 else MODULE
        self.frames[frame] = self.frames[frame]._replace(function=name)

    def switch(self, event: int, entered: bool) -> None:
        """A generator's frame runs (again), or says where it was entered from."""
        identity = -(event // 2) - (event & 1)
        frame = self.generators.get(identity)
        if event & 1:
            if frame is not None and frame in self.suspended:
                # `yield from` in that frame: it stands between the new frame and the one that runs.
                new = self.stack[-1]
                depth, caller = self.frames[frame].depth + 1, self.open[frame]
                self.frames[new] = self.frames[new]._replace(depth=depth, caller=caller)
            return
        if entered:
            self.generators[identity] = self.stack[-1]
            return
        if frame is None or frame in self.left:
            self.generators[identity] = len(self.frames)
            self.push("", tracer.NONE)
            return
        self.suspended.discard(frame)
        if not self.stack or self.stack[-1] != frame:
            if frame in self.stack:
                raise _Inconsistent
            self.stack.append(frame)

    def other(self, event: int) -> None:
        if event == tracer.EXIT:
            self.end("raised")  # also where the stack is found empty
            self.left.add(self.stack.pop())
        elif event == tracer.SUSPEND:
            if not self.stack:
                raise _Inconsistent
            self.suspended.add(self.stack.pop())
        elif event == tracer.RAISED:
            self.end("raised")
        elif event == tracer.ASYNC:
            self.flags.add("async")
        elif event >= tracer.FIRST_CASE and self.open_kind() == "Match":
            self.end("completed", f"case {(event - tracer.FIRST_CASE) // 8}")
        elif event != tracer.NOTHING:
            raise TraceError(f"unknown event {event}")

    def open_kind(self) -> str:
        """Kind of the open step's statement in the running frame; empty if there is none."""
        step = self.open[self.stack[-1]] if self.stack else -1
        return self.table.statements[self.sequence[step]].kind if step >= 0 else ""

    def push(self, name: str, scope: int) -> None:
        super().push(name, scope)
        self.scopes.append(scope)

    def columns(self, flags: frozenset[str]) -> Columns:
        if self.suspended:
            # What is left suspended is closed by collection, after the entry has ended.
            self.flags.add("generator_collected")
        return super().columns(flags)
