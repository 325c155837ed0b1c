"""One run of one program, from its text to every value: what `synth trace` and `synth ask` look at.

Covers reading a program that ends in `print(entry(args))`, both passes of its trace, and the run as JSON
and as text for people. Does not choose questions (`questions`).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rewards.sandbox import ExecutionResult
from synth.errors import DataError, ProgramRejected
from synth.source import lines_of, read
from synth.states import Held, States, capture, everything
from synth.traces import Step, Trace, TraceError, run_watched

__all__ = ["Run", "follow", "read_program", "run_json", "run_text"]

MAX_STEPS = 10_000
"""Steps that are shown; a longer run is refused by name."""

HASH_SEEDS = (1_000_003, 2, 7)
"""Further hash seeds under which a run must do the same; a set of two strings comes out in the same order
under every second one."""
UNSTEADY = (
    "are not the same in every process: they hang on the order of a set, on chance or on the clock, so"
    " nothing can be asked; sort what is iterated, or draw nothing"
)

FLAGS = {
    "step_limit": "it takes more steps than are followed",
    "recursion_error": "it reaches the recursion limit, which differs between interpreters",
    "threads": "it starts threads, whose steps have no fixed order",
    "async": "it runs coroutines, which are not followed",
    "generator_collected": "it leaves a generator to be closed by collection, at no fixed moment",
    "not_instrumented": "its blocks are nested deeper than the compiler allows under watch",
    "inconsistent": "its steps came in an order that no stack of frames allows",
}
"""Flag of a trace -> why a run that raises it cannot be followed, for people."""


@dataclass(frozen=True)
class Run:
    """A program, its call, and all that happened."""

    code: str
    entry: str
    args: str
    result: ExecutionResult
    trace: Trace
    states: States
    max_steps: int

    @property
    def output(self) -> str:
        """Canonical text of what the call returned, empty if it has none or the call raised."""
        return self.result.value or ""

    def elsewhere(self) -> tuple[States, ...]:
        """The same run in fresh processes under other hash seeds.

        Raises `DataError` if it takes other steps there, or gives another output.
        """
        from rewards.sandbox import run

        wanted = everything(self.trace)
        call = (run, self.code, self.entry, [self.args], [self.trace], [wanted])
        found: list[States] = []
        for hash_seed in HASH_SEEDS:
            try:
                (states,) = capture(*call, max_steps=self.max_steps, hash_seed=hash_seed)
            except TraceError:
                raise DataError(f"the steps of {self.entry}({self.args}) {UNSTEADY}") from None
            if (states.result.outcome, states.result.value) != (
                self.result.outcome,
                self.result.value,
            ):
                raise DataError(f"the results of {self.entry}({self.args}) {UNSTEADY}")
            found.append(states)
        return tuple(found)


def read_program(path: str) -> str:
    """The text of a file, `-` for stdin. Raises `DataError`."""
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8")
        return Path(path).read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a Python file") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}); expected a Python file") from error


def follow(text: str, name: str, *, max_steps: int = MAX_STEPS) -> Run:
    """Run the program in `text`, called `name` in messages, and write down every step's values.

    Raises `DataError` for a text that is no such program and for a run that cannot be followed.
    """
    from rewards.sandbox import run

    try:
        source = read(text)
    except ProgramRejected as error:
        wanted = "expected a program whose last line is print(entry(args)), arguments written out"
        raise DataError(f"{name}: {wanted}; {error.detail or error.rule}") from error
    code, entry, args = source.code, source.entry, source.args
    (result,) = run_watched(run, code, entry, [args], options=[{"max_steps": max_steps}])
    if result.record is None:
        raise DataError(f"{name}: {_why_not(result)}")
    trace = Trace.from_record(code, result.record)
    if trace.flags:
        flag = sorted(trace.flags)[0]
        raise DataError(f"{name}: this run cannot be followed: {FLAGS[flag]} ({flag})")
    (states,) = capture(run, code, entry, [args], [trace], [everything(trace)], max_steps=max_steps)
    if (states.result.outcome, states.result.value) != (result.outcome, result.value):
        raise DataError(f"{name}: the program acts differently when its variables are looked at")
    return Run(code, entry, args, result, trace, states, max_steps)


def _why_not(result: ExecutionResult) -> str:
    if result.outcome == "raised":
        where = f" on line {result.error_line}" if result.error_line else ""
        return (
            f"the entry was never called: {result.error_type}{where}: {result.error_message}; mend"
            " the program, or its arguments"
        )
    return f"the run left no trace: {result.outcome.replace('_', ' ')}: {result.detail}".rstrip(
        ": "
    )


# As JSON.


def run_json(run: Run) -> dict[str, Any]:
    """The run as data: entry, args, output (or `raises`), and the steps in order."""
    record: dict[str, Any] = {"entry": run.entry, "args": run.args, "output": run.output}
    if run.result.outcome == "raised":
        record["raises"] = run.result.error_type
    record["steps"] = [_step_json(run, step) for step in run.trace.steps]
    return record


def _step_json(run: Run, step: Step) -> dict[str, Any]:
    change = run.states.change(step.index)
    changed = change.changed if change else {}
    return {
        "line": step.line,
        "visit": step.visit,
        "frame": step.frame,
        "function": simple_name(step.function),
        "outcome": step.outcome,
        "next": step.next,
        "changed": {
            name: {"value": held.text, "type": held.type} for name, held in changed.items()
        },
        "removed": list(change.removed) if change else [],
    }


def simple_name(qualified: str) -> str:
    """The last part of a qualified name: `f.<locals>.g` -> `g`."""
    return qualified.rpartition(".")[2]


# As text.


def run_text(run: Run, *, width: int = 100) -> str:
    """The run as a person reads it: one line a step, with its source and what it changed."""
    lines = lines_of(run.code)
    sources = [_source(run, step, lines) for step in run.trace.steps]
    column = min(max(map(len, sources), default=0), max(width // 2, 24))
    number = len(str(len(lines)))
    out = [f"{run.entry}({run.args})", ""]
    for step, source in zip(run.trace.steps, sources, strict=True):
        text = source if len(source) <= column else source[: column - 3] + "..."
        room = max(width - number - column - 6, 20)
        out.append(f"{step.line:>{number}}  {text:<{column}}  {_effect(run, step, room)}".rstrip())
    out += ["", _ending(run)]
    return "\n".join(out)


def _source(run: Run, step: Step, lines: list[str]) -> str:
    """The first line of a statement, set in by how deep its frame stands."""
    depth = run.trace.frames[step.frame - 1].depth - 1
    return "  | " * depth + lines[step.line - 1].rstrip()


def _effect(run: Run, step: Step, room: int) -> str:
    if step.outcome != "completed":
        return {"raised": "raised", "unfinished": "never finished"}[step.outcome]
    change = run.states.change(step.index)
    parts = [f"{name} = {_shown(held)}" for name, held in change.changed.items()] if change else []
    parts += [f"del {name}" for name in change.removed] if change else []
    text = ", ".join(parts)
    return text if len(text) <= room else text[: room - 3] + "..."


def _shown(held: Held) -> str:
    return held.text if held.text is not None else f"<{held.type}>"


def _ending(run: Run) -> str:
    count = f"{run.trace.n_steps:,} step{'s' if run.trace.n_steps != 1 else ''}"
    if run.result.outcome == "raised":
        return f"raised {run.result.error_type}: {run.result.error_message}  ({count})"
    value = run.output or f"a value of type {run.result.value_type}"
    return f"returned {value}  ({count})"
