"""The tracer next to the second implementation: what one says and the other does not.

`compare` runs both passes of the tracer in this process (that the sandbox runs a recorder in the same
way has its own tests) and `slow_interpreter`, and tells the first difference. Standard library,
`rewards` and `synth` only, so that it runs under bare interpreters as well, as a script: see `main`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import re
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from slow_interpreter import Execution, Unsupported, changes, run, told
from slow_programs import PROGRAMS

from rewards.sandbox.jobs import ExecutionResult, Job
from rewards.values import Unrepresentable, canonical, type_name
from synth.states import States, capture, everything
from synth.traces import Trace, run_watched

NAME = "<program>"
MAX_STEPS = 20_000
MAX_CHARS = 10_000


def hold(value: object, max_chars: int) -> list[str | None]:
    try:
        return [type_name(value), canonical(value, max_chars=max_chars)]
    except Unrepresentable:
        return [type_name(value), None]


@functools.cache
def load(path: str) -> Any:
    """A recorder's file, as the guest loads it: by path."""
    spec = importlib.util.spec_from_file_location("recorder", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Here:
    """Runs jobs in this process, in the order of calls that a guest keeps."""

    def __init__(self, names: Callable[[], Mapping[str, Any]] = dict) -> None:
        self.names = names
        """Called for every run: what stands in the program's namespace before it starts."""

    def __call__(self, jobs: Sequence[Job]) -> list[ExecutionResult]:
        depth = sys.getrecursionlimit()
        results = []
        for job in jobs:
            results.append(self.run(job))
            sys.setrecursionlimit(depth)  # the recorder makes room for itself, as does a program
        return results

    def run(self, job: Job) -> ExecutionResult:
        assert job.recorder is not None and job.entry is not None
        made = load(job.recorder).Recorder(job.code, json.loads(job.options))
        made.hold = hold
        names: dict[str, Any] = {"__name__": "__main__", **self.names()}
        out, value, error, called = io.StringIO(), None, None, False
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            try:
                compiled = made.compile(NAME)
                names.update(made.namespace())
                exec(compiled, names)
                args, named = eval(f"(lambda *a, **k: (a, k))({job.args})", names)
                function, called = names[job.entry], True
                value = made.call(function, args, named)
            except BaseException as raised:  # SystemExit is an end like any other
                error = raised
        record = json.dumps(made.report()) if called else None
        shown = out.getvalue()
        if error is not None:
            name = type_name(error)
            return ExecutionResult("raised", error_type=name, stdout=shown, record=record)
        kind, text = hold(value, MAX_CHARS)
        return ExecutionResult("returned", text, kind, stdout=shown, record=record)


@dataclass(frozen=True)
class Verdict:
    """How the two implementations stand on one run."""

    kind: str
    """"agreed", "different", "unfit" (the tracer drops the row), "unsupported" (the other cannot)."""
    detail: str = ""
    steps: int = 0


def compare(
    code: str,
    entry: str,
    args: str,
    *,
    recorder: str | None = None,
    names: Callable[[], Mapping[str, Any]] = dict,
) -> Verdict:
    """Run a program under both. `recorder`: as in `run_watched`."""
    here, _kept = Here(names), known_texts(code, args)
    options = [{"max_steps": MAX_STEPS}]
    (result,) = run_watched(here, code, entry, [args], options=options, recorder=recorder)
    try:
        other = run(code, entry, args, names(), MAX_STEPS)
    except Unsupported as refused:
        return Verdict("unsupported", str(refused))
    if result.record is None:
        return Verdict("unfit", "no record")
    trace = Trace.from_record(code, result.record)
    if trace.flags:
        return Verdict("unfit", ", ".join(sorted(trace.flags)))
    found = _differences(result, trace, other)
    if not found:
        wanted = [everything(trace)]
        (states,) = capture(here, code, entry, [args], [trace], wanted, max_steps=MAX_STEPS)
        found = _value_differences(states, other)
    return Verdict("different", found) if found else Verdict("agreed", steps=trace.n_steps)


def known_texts(code: str, args: str) -> object:
    """Compiles the program; to be kept while it is run.

    In which order Python goes through a set that is written out depends on whether it has met the
    texts in it before: now it has.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compile(code, NAME, "exec"), compile(f"f({args})", NAME, "eval")
        except SyntaxError:
            return None  # said by all that run it


def _differences(result: ExecutionResult, trace: Trace, other: Execution) -> str:
    """The first difference between two runs; empty if there is none."""
    if other.left:
        return f"{other.left} generators are still suspended, but the trace has no flag"
    for ours, theirs in zip(told_by_trace(trace), told(other), strict=False):
        if ours != theirs:
            return f"step: tracer {ours}, second {theirs}"
    if trace.n_steps != len(other.steps):
        return f"number of steps: tracer {trace.n_steps}, second {len(other.steps)}"
    frames = [(frame.number, frame.function, frame.depth) for frame in trace.frames]
    others = [(frame.number, frame.function, frame.depth) for frame in other.frames]
    if frames != others:
        wrong = [pair for pair in zip(frames, others, strict=False) if pair[0] != pair[1]]
        return f"frames: (tracer, second) {wrong[:3]}"
    error = None if other.error is None else type_name(other.error)
    value = hold(other.value, MAX_CHARS)[::-1] if error is None else [None, None]
    ends = [
        *(result.error_type, _faceless(result.value), result.value_type),
        _faceless(result.stdout),
    ]
    other_ends = [error, _faceless(value[0]), value[1], _faceless(other.output)]
    return "" if ends == other_ends else f"end: tracer {ends}, second {other_ends}"


def _value_differences(states: States, other: Execution) -> str:
    for index, (step, change) in enumerate(zip(other.steps, changes(other), strict=True)):
        place = f"after {step.kind} on line {step.line}, visit {step.visit}"
        ours, theirs = _plain(states.at(index)), _plain(step.state)
        if ours != theirs:
            return f"state {place}: tracer {ours}, second {theirs}"
        found = states.change(index)
        if found is None or (_plain(found.changed), found.removed) != (
            _plain(change[0]),
            change[1],
        ):
            return f"change {place}: tracer {found}, second {change}"
    for frame in other.frames:
        assert frame.number is not None
        known = states.returned(frame.number)
        # Where a `finally` or a manager could still decide otherwise the tracer does not say.
        if known is not None and _plain({"": known}) != _plain({"": frame.returned}):
            return f"returned by frame {frame.number}: tracer {known}, second {frame.returned}"
    return ""


def told_by_trace(trace: Trace) -> list[list[Any]]:
    """The steps of a trace as `slow_interpreter.told` writes them."""
    kinds = [statement.kind for statement in trace.statements]
    return [
        [s.line, s.col, kinds[s.statement], s.visit, s.frame, s.function, s.outcome, s.arm, s.next]
        for s in trace.steps
    ]


def _plain(state: Mapping[str, Any] | None) -> dict[str, list[str | None] | None] | None:
    """Without the classes, so that either side's can be compared."""
    if state is None:
        return None
    return {
        name: None if held is None else [held.type, _faceless(held.text)]
        for name, held in sorted(state.items())
    }


def _faceless(text: str | None) -> str | None:
    """Without the addresses of objects, which differ from run to run."""
    return text and re.sub(r"\b0x[0-9a-f]{6,}", "0x", text)


def spelled(rows: list[list[Any]]) -> dict[str, str]:
    """A sequence of steps for golden traces: "line:col frame mark next" each, the mark being `+`
    (completed) or `!` (raised) and how a header went; and whose the frames are that have steps.
    """
    steps, functions = [], {}
    for line, col, _, _, frame, function, outcome, arm, following in rows:
        mark = {"completed": "+", "raised": "!"}.get(outcome, "?") + (arm or "").replace(" ", "")
        steps.append(f"{line}:{col} {frame}{mark} {following}")
        functions[frame] = f"{frame} {function}"
    return {"steps": ", ".join(steps), "frames": ", ".join(functions.values())}


def golden() -> dict[str, Any]:
    return {name: spelled(told(run(code, "f", ""))) for name, code in PROGRAMS.items()}


def main() -> None:
    """With the argument `golden`: golden traces as JSON on stdout, from the second implementation.

    Else jobs as JSON on stdin, [code, entry, args] each; on stdout [verdict, detail] for each, and the
    golden traces.
    """
    if sys.argv[1:] == ["golden"]:
        print(json.dumps(golden(), indent=0))
        return
    verdicts = [compare(*job) for job in json.loads(sys.stdin.buffer.read())]
    told_here = [[verdict.kind, verdict.detail] for verdict in verdicts]
    json.dump({"verdicts": told_here, "golden": golden()}, sys.stdout)


if __name__ == "__main__":
    main()
