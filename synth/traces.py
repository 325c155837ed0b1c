"""What one execution did, statement by statement: `Trace`, its `Step`s, and the `Statement` table.

Covers pass one: which statement ran when, in which frame, how it ended and what came next, under
the definitions of "Trace semantics" in the design. Does not cover values of variables, nor the
recording itself (`tracer.py`, which runs in the guest). A record comes from the guest and is
checked: one that cannot be the trace of the program raises `TraceError`; one in which events are
out of order (threads, the recursion limit) keeps the steps before that point and says so in `flags`.
"""

from __future__ import annotations

import ast
import base64
import binascii
import functools
import hashlib
import json
import sys
import threading
import warnings
import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

from rewards.sandbox.jobs import ExecutionResult, Job, Limits
from rewards.values import parse_tree
from synth import tracer
from synth.errors import SynthError

__all__ = [
    "RECORDER",
    "Frame",
    "Statement",
    "Step",
    "Trace",
    "TraceError",
    "statements",
    "trace",
]

RECORDER = str(Path(tracer.__file__))
"""Path of the recorder file, for `Job.recorder`."""

MODULE = "<module>"
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""Of events, unpacked: enough for a step limit of 600,000."""

Outcome = Literal["completed", "raised", "unfinished"]
"""`unfinished`: the entry ended first (a generator left suspended), or recording stopped."""


class TraceError(SynthError):
    """A record is not one that the recorder could have written for this program."""


@dataclass(frozen=True)
class Statement:
    """A statement that can be a step."""

    index: int
    """Place in the table: order of the text, a compound statement before what it holds."""
    line: int
    """First line, 1-based; of a decorated `def` or `class`, the line of that word."""
    col: int
    """Column of the first character, 0-based, in UTF-8 bytes (as in `ast`)."""
    end_line: int
    end_col: int
    kind: str
    """Class name in `ast`: "Assign", "If", "For", …"""
    function: str
    """Qualified name of the innermost function or class around it, "<module>" at module level."""
    parent: int
    """Index of the statement whose block holds it, -1 at module level."""
    arm: str
    """Which block of the parent: "true" and "false" of `if`, `while` and `for` (the latter is the
    `else`), "body", "else", "finally", "except 0", "case 0"; empty at module level."""


@dataclass(frozen=True)
class _Table:
    """What decoding needs, computed once for a program."""

    statements: tuple[Statement, ...]
    names: tuple[str, ...]
    """Qualified name of the `def` or `class` with that index, else empty."""
    scope: tuple[int, ...]
    """Index of the innermost `def` or `class` around a statement, -1 at module level."""
    before: tuple[int, ...]
    branching: frozenset[int]


_parsing = threading.Lock()
"""`catch_warnings` changes what all threads see."""


@functools.lru_cache(maxsize=64)
def _table(code: str) -> _Table:
    with _parsing, warnings.catch_warnings():
        # What the compiler has to say about the program is said where the program is compiled.
        warnings.simplefilter("ignore")
        sites = tracer.survey(parse_tree(code))
    names: list[str] = []
    table: list[Statement] = []
    branching = (ast.If, ast.While, ast.For, ast.Match, *tracer.TryNode)
    for index, site in enumerate(sites):
        node = site.node
        names.append(_qualified_name(node, site.function, sites, names))
        function = names[site.function] if site.function >= 0 else MODULE
        assert node.end_lineno is not None and node.end_col_offset is not None
        place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
        kind = type(node).__name__
        table.append(Statement(index, *place, kind, function, site.parent, site.arm))
    return _Table(
        statements=tuple(table),
        names=tuple(names),
        scope=tuple(site.function for site in sites),
        before=tuple(site.before for site in sites),
        branching=frozenset(i for i, site in enumerate(sites) if isinstance(site.node, branching)),
    )


def _qualified_name(
    node: ast.stmt, function: int, sites: Sequence[tracer.Site], names: Sequence[str]
) -> str:
    if not isinstance(node, tracer.ScopeNode):
        return ""
    if function < 0:
        return node.name
    inside_function = isinstance(sites[function].node, tracer.FunctionNode)
    return names[function] + (".<locals>." if inside_function else ".") + node.name


def statements(code: str) -> tuple[Statement, ...]:
    """All statements of a program that can be steps. Raises SyntaxError for text that is no program.

    Left out: docstrings, `global`, `nonlocal`, annotations without a value.
    """
    return _table(code).statements


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


@dataclass(frozen=True)
class Trace:
    """The steps of one execution of a program, in the order in which they started."""

    statements: tuple[Statement, ...]
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
    branches: frozenset[tuple[int, str]]
    """(statement index, arm) of every way that was taken: "true" and "false" of `if`, `while` and
    `for`, "case k" and "none" of `match`, "except k" of `try`."""

    @classmethod
    def from_record(cls, code: str, record: str) -> Trace:
        """Decode what the recorder reported for a run of `code`. Raises `TraceError`."""
        table = _table(code)
        report = _parse_record(record)
        decoder = _Decoder(table, report["max_steps"])
        try:
            decoder.run(report["events"])
        except IndexError as error:
            raise TraceError("the record names a statement that the program lacks") from error
        return decoder.trace(report["flags"])

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


def _parse_record(record: str) -> dict[str, Any]:
    """The fields of a report with its events unpacked; the guest is not trusted to be well-formed."""
    try:
        report = json.loads(record)
        flags, limit, order = report["flags"], report["max_steps"], report["byteorder"]
        packed = base64.b64decode(report["events"], validate=True)
        unpacker = zlib.decompressobj()
        raw = unpacker.decompress(packed, MAX_RECORD_BYTES)
        events = array("i", raw)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, zlib.error) as error:
        raise TraceError(f"not a record of the recorder: {error}") from error
    if unpacker.unconsumed_tail or report.get("version") != 1 or type(limit) is not int:
        raise TraceError("not a record of the recorder: version, size or limit")
    if not (isinstance(flags, list) and all(isinstance(flag, str) for flag in flags)):
        raise TraceError("not a record of the recorder: flags must be a list of strings")
    if order != sys.byteorder:
        events.byteswap()
    return {"flags": frozenset(flags), "max_steps": limit, "events": events}


class _Inconsistent(Exception):
    """Events that contradict the stack of frames."""


class _Decoder:
    """Follows the stack of frames through the events of one record."""

    def __init__(self, table: _Table, max_steps: int) -> None:
        self.table = table
        self.max_steps = max_steps
        self.sequence: list[int] = []
        self.frame_numbers: list[int] = []
        self.outcomes: list[Outcome] = []
        self.arms: list[str | None] = []
        self.ends: list[int] = []
        self.branches: set[tuple[int, str]] = set()
        self.frames: list[Frame] = []
        self.scopes: list[int] = []
        """For each frame, the index of its `def` or `class`."""
        self.open: list[int] = []
        """For each frame, the index of the step that has started and not ended, or -1."""
        self.left: set[int] = set()
        self.suspended: set[int] = set()
        self.stack: list[int] = []
        """Places in `frames` of those that run, innermost last."""
        self.generators: dict[int, int] = {}
        self.flags: set[str] = set()

    def run(self, events: Sequence[int]) -> None:
        try:
            self.follow(events)
        except _Inconsistent:
            self.flags.add("inconsistent")

    def follow(self, events: Sequence[int]) -> None:
        entered = False
        for event in events:
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
            if len(self.sequence) > self.max_steps:
                self.drop_last()
                self.flags.add("step_limit")
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
        self.open[frame] = len(self.sequence)
        self.sequence.append(statement)
        self.frame_numbers.append(frame + 1)
        self.outcomes.append("unfinished")
        self.arms.append(None)
        self.ends.append(-1)

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
        statement = self.sequence[step]
        if arm is not None and statement in self.table.branching:
            self.arms[step] = arm
            self.branches.add((statement, arm))

    def enter(self, scope: int) -> None:
        name = self.table.names[scope]
        if not name:
            raise TraceError(f"statement {scope} is no function and no class, but was entered")
        self.push(name, scope)

    def push(self, name: str, scope: int) -> None:
        """A new frame, entered from the one that runs."""
        is_class = scope >= 0 and self.table.statements[scope].kind == "ClassDef"
        below = self.stack[-1] if self.stack else tracer.NONE
        depth = self.frames[below].depth + 1 if self.stack else 1
        caller = self.open[below] if self.stack else -1
        self.stack.append(len(self.frames))
        self.frames.append(Frame(len(self.frames) + 1, name, depth, caller, is_class))
        self.scopes.append(scope)
        self.open.append(-1)

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
        elif event != tracer.NOTHING:
            raise TraceError(f"unknown event {event}")

    def drop_last(self) -> None:
        """Take back the step that is one too many."""
        for column in (self.sequence, self.frame_numbers, self.outcomes, self.arms, self.ends):
            column.pop()

    def trace(self, flags: frozenset[str]) -> Trace:
        if self.suspended:
            # What is left suspended is closed by collection, after the entry has ended.
            self.flags.add("generator_collected")
        return Trace(
            statements=self.table.statements,
            flags=flags | self.flags,
            frames=tuple(self.frames),
            sequence=tuple(self.sequence),
            frame_numbers=tuple(self.frame_numbers),
            outcomes=tuple(self.outcomes),
            arms=tuple(self.arms),
            ends=tuple(self.ends),
            branches=frozenset(self.branches),
        )


def trace(
    code: str, entry: str, args: str, limits: Limits | None = None, max_steps: int = 100_000
) -> tuple[ExecutionResult, Trace | None]:
    """Run `entry(args)` in the sandbox under watch.

    The trace is None if the guest left no record (timed out, killed, raised before the call).
    Raises `TraceError` for a record that is not the recorder's, `SandboxError` if nothing can run.
    """
    from rewards.sandbox import run

    job = Job(
        code=code,
        entry=entry,
        args=args,
        limits=limits or Limits(),
        recorder=RECORDER,
        options=json.dumps({"max_steps": max_steps}),
    )
    (result,) = run([job])
    if result.record is None:
        return result, None
    return result, Trace.from_record(code, result.record)
