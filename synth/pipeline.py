"""One program's way: constraint -> prompt -> completion -> program -> inputs -> executions -> rows.

Covers what happens to a single slot of the enumeration, and the order of the stages. Which slots are
worked on, by how many workers, and in which order results are taken is the engine's matter
(`engine.py`). A slot's outcome depends on (seed, slot, attempt) alone.
"""

from __future__ import annotations

import platform
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rewards.row import SCHEMA_VERSION, Row, Spec
from rewards.sandbox import ExecutionResult, SandboxPool
from synth.config import GenerateConfig
from synth.constraints import Constraint, unmet
from synth.dedup import ast_shape
from synth.errors import ProgramRejected, SynthError
from synth.executions import bend, gather, inside_functions, output_text, probe, run_traced
from synth.inputs import Case, Drawer, Drawn, choose
from synth.programs import Program, vet
from synth.prompts import (
    INPUT_VERSION,
    OUTPUT_VERSION,
    RAISES_VERSION,
    Messages,
    input_prompt,
    output_prompt,
    program_prompt,
    raises_prompt,
)
from synth.providers import Provider
from synth.traces import Trace, statements

STAGES = (
    "version", "errors", "seeds",
    "source",
    "stubs.terms", "stubs.vocabulary", "stubs.lookup", "stubs.annotations", "stubs.signatures",
    "stubs",
    "catalogue.records", "catalogue.forms", "catalogue.exclusions", "catalogue.effects",
    "catalogue.enumeration", "catalogue",
    "sites",
    "constraints.records", "constraints.fixed", "constraints.structural", "constraints.optional",
    "constraints.rules", "constraints.levels", "constraints",
    "prompts",
    "providers.base", "providers.grammar.vocabulary", "providers.grammar.terms",
    "providers.grammar.literals", "providers.grammar.scope", "providers.grammar.expressions",
    "providers.grammar.recipes", "providers.grammar.uses", "providers.grammar.blocks",
    "providers.grammar.writer", "providers.grammar", "providers",
    "programs",
    "plain", "tracer", "linetracer", "statements", "decoding", "traces", "states", "runs",
    "bending", "executions",
    "spelling",
    "structures.nodes", "structures.scalars", "structures.sequences", "structures.dicts",
    "structures.inference", "structures",
    "drawing", "inputs",
    "dedup",
    "manifest", "journal", "dataset", "report", "recheck", "card", "publish",
    "config", "pipeline", "engine", "bench",
    "cli", "commands", "commands.generate", "commands.show", "commands.stats",
    "commands.constraints", "commands.trace", "commands.publish", "commands.bench",
)  # fmt: skip
"""All modules of `synth` in the order of a row's path; each imports only modules that stand before it."""

MAX_ATTEMPTS = 100
"""Completions asked for one slot before it is given up."""
CASES_DRAWN = 24
"""Input cases drawn for a program, before a few are chosen."""
MAX_OUTPUT_CHARS = 400
HASH_SEEDS = (1_000_003, 2, 7)
"""Further hash seeds under which a program must do the same; a set of two strings comes out in the same
order under every second one."""


@dataclass(frozen=True)
class Made:
    """A program with the input cases that were kept, as plain values that a journal can hold."""

    program_id: str
    code: str
    entry: str
    shape: str
    statements: int
    """Statements that could run, over all functions."""
    executed: int
    """Statements that some kept input ran."""
    cases: tuple[MadeCase, ...]

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        cases = [vars(case) for case in self.cases]
        return {**vars(self), "cases": cases}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Made:
        """The inverse of `to_json`."""
        return cls(**{**data, "cases": tuple(MadeCase(**case) for case in data["cases"])})


@dataclass(frozen=True)
class MadeCase:
    """One input case and what its execution gave."""

    args: str
    kind: str
    output: str
    output_type: str
    raises: str | None
    n_steps: int
    path_id: str


@dataclass
class Tally:
    """Reasons for which completions, programs and cases of one slot were dropped."""

    completions: int = 0
    """Completions asked for."""
    programs: int = 0
    """Programs that came through their executions."""
    cases: int = 0
    """Input cases drawn."""
    dropped: dict[str, dict[str, int]] = field(default_factory=dict)
    """stage -> reason -> count."""

    def drop(self, stage: str, reason: str, count: int = 1) -> None:
        """Count `count` drops for a reason; no drop leaves no trace."""
        if not count:
            return
        reasons = self.dropped.setdefault(stage, {})
        reasons[reason] = reasons.get(reason, 0) + count


@dataclass(frozen=True)
class Attempt:
    """What became of a slot from one attempt on: a program, or none within the attempts left."""

    made: Made | None
    next_attempt: int
    tally: Tally


class Pipeline:
    """Works on slots. Any thread may call `work`; the parts it uses are thread-safe."""

    def __init__(
        self, config: GenerateConfig, provider: Provider, sandbox: SandboxPool, drawer: Drawer
    ) -> None:
        self.config = config
        self.provider = provider
        self.sandbox = sandbox
        self.drawer = drawer
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make calls of `work` that are under way in other threads end soon, without a result."""
        self._stopping.set()
        # No execution starts from here on; the one under way ends within its budget.
        self.sandbox.close()

    def work(
        self, constraint: Constraint, slot: int, attempt: int = 0, most_inputs: int | None = None
    ) -> Attempt:
        """Try completions from `attempt` on until one becomes a program with input cases.

        `most_inputs` (>= 1) lowers the number of inputs that are kept.
        """
        inputs = min(most_inputs or self.config.inputs_per_program, self.config.inputs_per_program)
        tally = Tally()
        while attempt < MAX_ATTEMPTS and not self._stopping.is_set():
            key = f"{self.config.seed}:{slot}:{attempt}"
            attempt += 1
            made = self._try(constraint, key, inputs, tally)
            if made is not None:
                return Attempt(made, attempt, tally)
        return Attempt(None, attempt, tally)

    def _try(self, constraint: Constraint, key: str, inputs: int, tally: Tally) -> Made | None:
        tally.completions += 1
        prompt = program_prompt(constraint, id=key, seed=key)
        completion = self.provider.complete([prompt])[0]
        try:
            program = vet(constraint, completion.text)
        except ProgramRejected as rejected:
            tally.drop("programs", rejected.rule)
            return None
        stage, reason, made = self._execute(program, inputs, tally)
        if made is None:
            tally.drop(stage, reason)
        else:
            tally.programs += 1
        return made

    # --- executions -----------------------------------------------------------------------

    def _execute(self, program: Program, inputs: int, tally: Tally) -> tuple[str, str, Made | None]:
        first = Tally()
        if not self._cases(program, [Drawn(program.args, "seed")], first):
            (reason,) = first.dropped["cases"]
            return "executions", f"seed_{reason}", None
        drawn = self.drawer.draw(
            program.args,
            seed=f"{self.config.seed}:{program.id}",
            count=max(CASES_DRAWN, 2 * inputs),
        )
        tally.cases += len(drawn)
        cases = self._cases(program, drawn, tally)
        chosen = choose(cases, inputs, exceptions=self.config.exceptions)
        reason = self._lacking(program, cases, chosen)
        if reason:
            tally.drop("cases", "of_dropped_program", len(cases))
            return "executions", reason, None
        tally.drop("cases", "not_chosen", len(cases) - len(chosen))
        return "", "", _made(program, chosen)

    def _lacking(self, program: Program, cases: Sequence[Case], chosen: Sequence[Case]) -> str:
        """The name of what a program lacks after it ran on its input cases; empty if nothing."""
        if len({output_text(case.result) for case in cases}) < 2:
            return "varies"
        source, operation = program.source, program.constraint.operation
        inputs = [case.args for case in chosen]
        drawn = gather(program.code, *_shown(cases))
        traces, outputs = _shown(chosen)
        # Cheap rules first: bending costs a run per statement.
        early = gather(program.code, traces, outputs)
        probes = probe(self.sandbox, source, operation, inputs)
        broken = unmet(program.constraint, source, replace(early, probes=probes), drawn)
        if not broken:
            idle, matters = bend(self.sandbox, source, operation, inputs, outputs)
            known = replace(early, probes=probes, idle_lines=idle, operation_matters=matters)
            broken = unmet(program.constraint, source, known, drawn)
        if broken:
            return broken[0].rule
        if len(chosen) > 1 and len({output_text(c.result) for c in chosen}) < 2:
            return "varies"
        return "" if self._deterministic(program, chosen) else "hash_seed_dependent"

    def _cases(self, program: Program, drawn: Sequence[Drawn], tally: Tally) -> list[Case]:
        """Run the drawn inputs in one child under the tracer; those that can become rows."""
        inputs = [case.args for case in drawn]
        results = run_traced(self.sandbox, program.code, program.entry, inputs)
        kept: list[Case] = []
        for case, result in zip(drawn, results, strict=True):
            reason, trace = self._judge(program, result)
            if trace is not None:
                kept.append(Case(case.args, case.kind, result, trace))
            else:
                tally.drop("cases", reason)
        return kept

    def _judge(self, program: Program, result: ExecutionResult) -> tuple[str, Trace | None]:
        """The trace of an execution that can become a row, or the reason why it cannot."""
        if result.outcome == "infrastructure":
            raise SynthError(f"the sandbox failed: {result.detail}; run again with --resume")
        if result.outcome != "returned" and not (
            result.outcome == "raised" and self.config.exceptions
        ):
            return result.outcome, None
        if result.outcome == "returned" and result.value is None:
            return "no_canonical_text", None
        if result.value is not None and len(result.value) > MAX_OUTPUT_CHARS:
            return "long_output", None
        if result.stdout:
            return "prints", None
        if result.record is None:
            return "no_trace", None
        trace = Trace.from_record(program.code, result.record)
        if trace.flags:
            return sorted(trace.flags)[0], None
        return "", trace

    def _deterministic(self, program: Program, chosen: Sequence[Case]) -> bool:
        """Whether fresh processes under other hash seeds give the same values and the same steps."""
        for hash_seed in HASH_SEEDS:
            again = run_traced(
                self.sandbox, program.code, program.entry, [c.args for c in chosen], hash_seed
            )
            if not all(_same(one.result, two) for one, two in zip(chosen, again, strict=True)):
                return False
        return True


def _shown(cases: Sequence[Case]) -> tuple[list[Trace], list[str]]:
    return [case.trace for case in cases], [output_text(case.result) for case in cases]


def _same(one: ExecutionResult, two: ExecutionResult) -> bool:
    names = ("outcome", "value", "value_type", "error_type", "error_message", "record")
    return all(getattr(one, name) == getattr(two, name) for name in names)


def _made(program: Program, chosen: Sequence[Case]) -> Made:
    table = statements(program.code)
    inside = inside_functions(table)
    executed = frozenset[int]().union(*(case.trace.executed for case in chosen))
    return Made(
        program_id=program.id,
        code=program.code,
        entry=program.entry,
        shape=ast_shape(program.code),
        statements=len(inside),
        executed=len(inside & executed),
        cases=tuple(_made_case(case) for case in chosen),
    )


def _made_case(case: Case) -> MadeCase:
    raised = case.result.outcome == "raised"
    return MadeCase(
        args=case.args,
        kind=case.kind,
        output="" if raised else case.result.value or "",
        output_type=(case.result.error_type if raised else case.result.value_type) or "",
        raises=case.result.error_type if raised else None,
        n_steps=case.trace.n_steps,
        path_id=case.trace.path_id,
    )


# --- rows -----------------------------------------------------------------------------------------


UNSPLIT = "train"
"""Split of a row until all programs are known; shares can only be exact then."""


def rows_of(
    made: Made, constraint: Constraint, config: GenerateConfig, *, at_most: int | None = None
) -> list[Row]:
    """The rows of a program: one per input case and task, input prediction only where it returned.

    With `at_most`, one task after the other is cut, not one case after the other, so that the
    rows that are left still show the program on several inputs.
    """
    wanted = [
        (position, task)
        for task in config.tasks
        for position, case in enumerate(made.cases)
        if task == "output" or case.raises is None
    ][:at_most]
    wanted.sort(key=lambda pair: (pair[0], config.tasks.index(pair[1])))
    return [_row(made, made.cases[position], task, constraint, config) for position, task in wanted]


def _row(
    made: Made, case: MadeCase, task: str, constraint: Constraint, config: GenerateConfig
) -> Row:
    from synth.seeds import digest

    version, prompt = _row_prompt(made, case, task)
    spec = Spec(
        task=task,
        code=made.code,
        entry=made.entry,
        args=case.args,
        output=case.output,
        raises=case.raises,
    )
    return Row(
        id=digest(made.program_id, case.args, task)[:20],
        schema_version=SCHEMA_VERSION,
        task=task,
        split=UNSPLIT,
        level=constraint.level,
        owner=constraint.operation.owner,
        operation=constraint.operation.id,
        structure=str(constraint.structure),
        depth=constraint.structure.depth,
        program_id=made.program_id,
        code=made.code,
        entry=made.entry,
        args=case.args,
        output=case.output,
        output_type=case.output_type,
        input_kind=case.kind,
        n_steps=case.n_steps,
        n_lines=len(made.code.splitlines()),
        path_id=case.path_id,
        pass_rate=None,
        n_rollouts=None,
        evaluator=None,
        solver=None,
        provider=config.provider,
        prompt_version=version,
        python_version=platform.python_version(),
        prompt=prompt,
        spec=spec.to_json(),
    )


def _row_prompt(made: Made, case: MadeCase, task: str) -> tuple[str, Messages]:
    if task == "input":
        return INPUT_VERSION, input_prompt(made.code, made.entry, case.output)
    if case.raises is not None:
        return RAISES_VERSION, raises_prompt(made.code, made.entry, case.args)
    return OUTPUT_VERSION, output_prompt(made.code, made.entry, case.args)
