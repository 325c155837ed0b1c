"""A program on its input cases: the traced runs, and what they bear out about the program's rules.

Covers running in the sandbox under the tracer, probing the operation's sites, and gathering `Evidence`.
Does not decide which cases become rows (`pipeline.py`), and judges no rule (`constraints/`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from rewards.sandbox import ExecutionResult, Job, Limits, SandboxPool
from rewards.values import parse
from synth.bending import BENT_ENTRY, bendable
from synth.catalogue import Operation
from synth.constraints import Evidence
from synth.errors import SynthError
from synth.sites import PROBED_ENTRY, probed_code
from synth.source import Source
from synth.states import States, Wanted, capture
from synth.traces import RunGroup, Statement, Trace, run_watched, statements

MAX_STEPS = 1_000
"""A longer run is dropped by name: nobody traces it by hand."""
LIMITS = Limits(cpu_seconds=2.0, wall_seconds=60.0, memory_mb=256)
"""Wide on purpose: a budget that a loaded machine can use up would make the rows depend on the load."""


def steady(sandbox: SandboxPool) -> RunGroup:
    """Runs groups of jobs so that what befalls the machine does not decide about a program.

    A call that was killed is run again alone: by the program, and it is killed again, or from outside,
    such as for want of memory. Raises `SynthError` where the sandbox itself failed.
    """

    def run_group(jobs: Sequence[Job]) -> list[ExecutionResult]:
        results = sandbox.run_group(jobs)
        for number, result in enumerate(results):
            if result.outcome == "killed":
                [results[number]] = sandbox.run([jobs[number]])
        for result in results:
            if result.outcome == "infrastructure":
                raise SynthError(f"the sandbox failed: {result.detail}; run again with --resume")
        return results

    return run_group


def run_traced(
    sandbox: SandboxPool, code: str, entry: str, inputs: Sequence[str], hash_seed: int = 0
) -> list[ExecutionResult]:
    """The program on each input (text of the arguments), in one child under the tracer."""
    return run_watched(
        steady(sandbox),
        code,
        entry,
        inputs,
        limits=LIMITS,
        hash_seed=hash_seed,
        options=[{"max_steps": MAX_STEPS}] * len(inputs),
    )


def look(
    sandbox: SandboxPool,
    code: str,
    entry: str,
    inputs: Sequence[str],
    traces: Sequence[Trace],
    wanted: Sequence[Wanted],
    hash_seed: int = 0,
) -> list[States]:
    """The same runs once more, with the values that are wanted. Raises `TraceError` if they differ."""
    return capture(
        steady(sandbox),
        code,
        entry,
        inputs,
        traces,
        wanted,
        limits=LIMITS,
        max_steps=MAX_STEPS,
        hash_seed=hash_seed,
    )


def probe(
    sandbox: SandboxPool, source: Source, operation: Operation, inputs: Iterable[str]
) -> frozenset[tuple[int, str]]:
    """(site, type of the receiver) of every site of the operation that ran on some input."""
    code = probed_code(source, operation)
    jobs = [Job(code, PROBED_ENTRY, args, limits=LIMITS) for args in inputs]
    found: set[tuple[int, str]] = set()
    for result in sandbox.run_group(jobs):
        if result.outcome == "returned" and result.value is not None:
            seen = parse(result.value)
            assert isinstance(seen, list)
            found.update((site, name) for site, name in seen)
    return frozenset(found)


BENT_LIMITS = Limits(cpu_seconds=0.25, wall_seconds=60.0, memory_mb=256)
"""A bent loop may never end; that shows that the statement matters, and need not take long."""


def bend(
    sandbox: SandboxPool,
    source: Source,
    operation: Operation,
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> tuple[tuple[int, ...], bool]:
    """(lines of statements that decide nothing, whether the operation decides something).

    Runs the program once per place and input with that place bent. `outputs` are what the inputs give.
    """
    bent = bendable(source, operation)
    places = dict.fromkeys([place for place, _ in bent.statements] + list(bent.sites))
    jobs = [
        Job(bent.code, BENT_ENTRY, f"{place}, {args}", limits=BENT_LIMITS)
        for place in places
        for args in inputs
    ]
    results = sandbox.run_group(jobs)
    moved: dict[int, bool] = {}
    for number, place in enumerate(places):
        found = results[number * len(inputs) : (number + 1) * len(inputs)]
        moved[place] = [output_text(result) for result in found] != list(outputs)
    idle = tuple(line for place, line in bent.statements if not moved[place])
    return idle, any(moved[place] for place in bent.sites)


def gather(code: str, traces: Sequence[Trace], outputs: Iterable[str]) -> Evidence:
    """What some executions of a program show together; probes and bending apart."""
    table = statements(code)
    executed = frozenset[int]().union(*(trace.executed for trace in traces))
    arms = frozenset[tuple[int, str]]().union(*(trace.branches for trace in traces))
    return Evidence(
        probes=frozenset(),
        lines=frozenset(table[index].line for index in executed),
        statement_lines=frozenset(table[index].line for index in inside_functions(table)),
        arms=frozenset((table[index].line, str(arm)) for index, arm in arms),
        functions=frozenset(name for trace in traces for name in trace.functions),
        outputs=frozenset(outputs),
    )


def examine(
    sandbox: SandboxPool,
    source: Source,
    operation: Operation,
    inputs: Sequence[str],
    traces: Sequence[Trace],
    outputs: Sequence[str],
) -> Evidence:
    """All that can be found out about a program on some inputs, with further runs."""
    idle, matters = bend(sandbox, source, operation, inputs, outputs)
    return replace(
        gather(source.code, traces, outputs),
        probes=probe(sandbox, source, operation, inputs),
        idle_lines=idle,
        operation_matters=matters,
    )


def output_text(result: ExecutionResult) -> str:
    """What an execution gave, as text: the value, or which exception."""
    return result.value if result.value is not None else f"raises {result.error_type}"


def inside_functions(table: Sequence[Statement]) -> frozenset[int]:
    """Statements that can be steps of a call; module level, class bodies there included, is not traced."""
    inside: set[int] = set()
    for statement in table:  # in the order of the text, so a parent comes before what it holds
        if statement.parent in inside or (
            statement.parent >= 0 and table[statement.parent].kind == "FunctionDef"
        ):
            inside.add(statement.index)
    return frozenset(inside)
