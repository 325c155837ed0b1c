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
from synth.config import TASKS, GenerateConfig
from synth.constraints import Constraint, unmet
from synth.dedup import ast_shape
from synth.errors import ConfigError, ProgramRejected
from synth.executions import bend, gather, inside_functions, look, output_text, probe, run_traced
from synth.inputs import Case, Drawer, Drawn, choose
from synth.programs import Program, vet
from synth.prompts import (
    INPUT_VERSION,
    OUTPUT_VERSION,
    RAISES_VERSION,
    Messages,
    Prompt,
    input_prompt,
    inputs_prompt,
    output_prompt,
    program_prompt,
    raises_prompt,
)
from synth.providers import Provider, Remote
from synth.providers.suggestions import Suggested, Suggesting, read_suggestions
from synth.questions import WHITEBOX_VERSION, Plan, ask_all, plan, preset_named, whitebox_prompt
from synth.repairing import first_that_holds
from synth.runs import HASH_SEEDS
from synth.source import lines_of
from synth.states import States, Wanted, needed
from synth.traces import Trace, TraceError, statements

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
    "completions",
    "clients.faults", "clients.servers", "clients.patience", "clients.waiting", "clients.saving",
    "clients.client", "clients.local", "clients",
    "providers.base", "providers.grammar.vocabulary", "providers.grammar.terms",
    "providers.grammar.literals", "providers.grammar.scope", "providers.grammar.expressions",
    "providers.grammar.recipes", "providers.grammar.uses", "providers.grammar.blocks",
    "providers.grammar.writer", "providers.grammar.small", "providers.grammar", "providers.openai",
    "providers.suggestions", "providers",
    "repairing",
    "programs",
    "plain", "tracer", "linetracer", "statements", "decoding", "traces", "states", "runs",
    "bending", "executions",
    "spelling",
    "structures.nodes", "structures.scalars", "structures.sequences", "structures.dicts",
    "structures.inference", "structures",
    "drawing", "inputs",
    "questions.wording", "questions.facts", "questions.truth", "questions.implications",
    "questions.rules", "questions.records", "questions.candidates", "questions.sampling", "questions",
    "inquiry", "narration",
    "dedup",
    "progress", "manifest", "journal", "dataset", "grade_files",
    "report", "question_figures", "recheck", "card", "publish",
    "difficulty.stopping", "difficulty.config", "difficulty.labels", "difficulty.judging",
    "difficulty.measuring", "difficulty.tables", "difficulty.filtering", "difficulty",
    "chains", "chain_files", "config", "pipeline", "engine", "bench", "tracebench", "rewardbench",
    "cli", "commands", "commands.difficulty", "commands.generate", "commands.chains",
    "commands.show", "commands.stats", "commands.constraints", "commands.trace", "commands.ask",
    "commands.grade", "commands.audit", "commands.publish", "commands.bench",
)  # fmt: skip
"""All modules of `synth` in the order of a row's path; each imports only modules that stand before it."""

CASES_DRAWN = 24
"""Input cases drawn for a program, before a few are chosen."""
MAX_OUTPUT_CHARS = 400


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
    whitebox: str = ""
    """The `spec` of its whitebox row, questions included; empty if it has none."""


@dataclass
class Tally:
    """Reasons for which completions, programs and cases of one slot were dropped."""

    completions: int = 0
    """Completions asked for, those of follow-up turns included."""
    programs: int = 0
    """Programs that came through their executions."""
    cases: int = 0
    """Input cases drawn."""
    asked: int = 0
    """Kept input cases of which questions were to be asked."""
    answers: int = 0
    """Answers of a model that was asked for inputs."""
    suggested: int = 0
    """Calls in these answers."""
    wanting: int = 0
    """Programs for which the model gave fewer inputs than it was to give; Hypothesis drew the rest."""
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


class _Unfit(ProgramRejected):
    """A program that is fine as a text and not when it runs; counted under `executions`."""


class Pipeline:
    """Works on slots. Any thread may call `work`; the parts it uses are thread-safe."""

    def __init__(
        self, config: GenerateConfig, provider: Provider, sandbox: SandboxPool, drawer: Drawer
    ) -> None:
        self.config = config
        self.provider = provider
        self.sandbox = sandbox
        self.drawer = drawer
        if config.inputs != "hypothesis" and not isinstance(provider, Suggesting):
            raise ConfigError(
                f"--inputs is {config.inputs!r}; {provider.name} cannot be asked for any"
            )
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Make calls of `work` that are under way in other threads end soon, without a result."""
        self._stopping.set()
        # No execution starts from here on; the one under way ends within its budget.
        self.sandbox.close()
        if isinstance(self.provider, Remote):
            self.provider.close()  # ends the waiting for a server

    def expect(self, constraint: Constraint, slot: int) -> None:
        """Have the first completion for a slot sent for, where that takes time; does not wait."""
        if isinstance(self.provider, Remote) and not self._stopping.is_set():
            self.provider.prefetch([self._prompt(constraint, slot, 0)])

    def _prompt(self, constraint: Constraint, slot: int, attempt: int) -> Prompt:
        key = f"{self.config.seed}:{slot}:{attempt}"
        return program_prompt(constraint, id=key, seed=key)

    def work(
        self, constraint: Constraint, slot: int, attempt: int = 0, most_inputs: int | None = None
    ) -> Attempt:
        """Try completions from `attempt` on until one becomes a program with input cases.

        `most_inputs` (>= 1) lowers the number of inputs that are kept.
        """
        inputs = min(most_inputs or self.config.inputs_per_program, self.config.inputs_per_program)
        tally = Tally()
        while attempt < self.config.attempts and not self._stopping.is_set():
            prompt = self._prompt(constraint, slot, attempt)
            attempt += 1
            made = self._try(prompt, inputs, tally)
            if made is not None:
                return Attempt(made, attempt, tally)
        return Attempt(None, attempt, tally)

    def _try(self, prompt: Prompt, inputs: int, tally: Tally) -> Made | None:
        """The program that came of a prompt, follow-up turns included; None if none came."""

        def examine(text: str) -> Made:
            return self._execute(vet(prompt.constraint, text), inputs, tally)

        def rejected(why: ProgramRejected) -> None:
            tally.completions += 1
            tally.drop("executions" if isinstance(why, _Unfit) else "programs", why.rule)

        made = first_that_holds(self.provider, prompt, examine, rejected)
        if made is not None:
            tally.completions += 1
            tally.programs += 1
        return made

    # --- executions -----------------------------------------------------------------------

    def _execute(self, program: Program, inputs: int, tally: Tally) -> Made:
        """The program with the input cases that are kept. Raises `_Unfit` if it is no good."""
        first = Tally()
        if not self._cases(program, [Drawn(program.args, "seed")], first):
            (reason,) = first.dropped["cases"]
            raise _Unfit(f"seed_{reason}")
        drawn = self._inputs(program, max(CASES_DRAWN, 2 * inputs), tally)
        tally.cases += len(drawn)
        cases = self._cases(program, drawn, tally)
        chosen = choose(cases, inputs, exceptions=self.config.exceptions)
        try:
            self._hold(program, cases, chosen)
            specs = self._whitebox(program, chosen, tally)
        except _Unfit:
            tally.drop("cases", "of_dropped_program", len(cases))
            raise
        tally.drop("cases", "not_chosen", len(cases) - len(chosen))
        return _made(program, chosen, specs)

    def _inputs(self, program: Program, count: int, tally: Tally) -> tuple[Drawn, ...]:
        """At most `count` input cases that have not been run yet, the seed first."""
        seed = f"{self.config.seed}:{program.id}"
        drawn = self.drawer.draw(program.args, seed=seed, count=count)
        if self.config.inputs == "hypothesis":
            return drawn
        share = count - 1 if self.config.inputs == "model" else (count - 1) // 2
        written = self._written(program, seed, share, tally)
        tally.wanting += len(written) < share
        rest = [one for one in drawn[1:] if one.args not in written]
        cases = [drawn[0], *(Drawn(text, "model") for text in written), *rest]
        return tuple(cases[:count])

    def _written(self, program: Program, seed: str, most: int, tally: Tally) -> tuple[str, ...]:
        """At most `most` argument lists from the model, distinct and none of them the seed's."""
        assert isinstance(self.provider, Suggesting)
        tally.answers += 1
        messages = inputs_prompt(program.code, program.entry, program.args, most)
        try:
            found = read_suggestions(self.provider.suggest(seed, messages), program.source)
        except ProgramRejected as why:
            tally.drop("suggestions", why.rule)
            return ()
        return self._fitting(program, found, most, tally)

    def _fitting(
        self, program: Program, found: Suggested, most: int, tally: Tally
    ) -> tuple[str, ...]:
        tally.suggested += len(found.lists) + len(found.dropped)
        for reason in found.dropped:
            tally.drop("arguments", reason)
        kept: list[str] = []
        for text, reason in self.drawer.fitted(program.args, found.lists):
            if reason or len(kept) == most:
                tally.drop("arguments", reason or "surplus")
            else:
                kept.append(text)
        return tuple(kept)

    def _hold(self, program: Program, cases: Sequence[Case], chosen: Sequence[Case]) -> None:
        """Raises `_Unfit` for the first rule that the executions show to be broken."""
        if len({output_text(case.result) for case in cases}) < 2:
            raise _Unfit("varies")
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
            raise _Unfit(broken[0].rule, broken[0].detail)
        if len(chosen) > 1 and len({output_text(c.result) for c in chosen}) < 2:
            raise _Unfit("varies")

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

    def _whitebox(self, program: Program, chosen: Sequence[Case], tally: Tally) -> list[str]:
        """The spec of each case's whitebox row, empty where there is none. Raises `_Unfit` for a
        program whose values, steps or output differ in fresh processes under other hash seeds.
        """
        asking = "whitebox" in self.config.tasks
        preset = preset_named(self.config.questions)
        plans = [
            plan(case.trace, program.code, preset=preset, seed=_question_seed(self.config, case))
            if asking and case.result.outcome == "returned"
            else None
            for case in chosen
        ]
        wanted = [
            needed(case.trace, *planned.wanted, max_chars=preset.max_chars)
            if planned
            else needed(case.trace)
            for case, planned in zip(chosen, plans, strict=True)
        ]
        found = self._steady_states(program, chosen, wanted)
        if found is None:
            raise _Unfit("hash_seed_dependent")
        specs: list[str] = []
        for case, planned, states in zip(chosen, plans, found, strict=True):
            spec = self._asked(program, case, planned, states, tally) if planned else None
            specs.append(spec.to_json() if spec else "")
        return specs

    def _asked(
        self, program: Program, case: Case, planned: Plan, states: States, tally: Tally
    ) -> Spec | None:
        """The spec of a case's whitebox row; None if nothing can be asked of it."""
        code, entry, args, output = program.code, program.entry, case.args, output_text(case.result)
        asked = ask_all(planned, states, code=code, entry=entry, args=args, output=output)
        tally.asked += 1
        if not asked.questions:
            tally.drop("questions", "_".join(sorted(set(asked.reasons.values()))))
            return None
        return Spec("whitebox", code, entry, args, output, questions=asked.questions)

    def _steady_states(
        self, program: Program, chosen: Sequence[Case], wanted: Sequence[Wanted]
    ) -> list[States] | None:
        """What is wanted of each case, if it is the same under every hash seed."""
        inputs, traces = [case.args for case in chosen], [case.trace for case in chosen]
        call = (self.sandbox, program.code, program.entry, inputs, traces, wanted)
        try:
            found = look(*call)
            again = [look(*call, hash_seed=hash_seed) for hash_seed in HASH_SEEDS]
        except TraceError:
            return None  # other steps than the first time
        for case, states, *others in zip(chosen, found, *again, strict=True):
            if not all(_same(states.result, other.result) for other in others):
                return None
            if output_text(states.result) != output_text(case.result):
                return None  # it looks at its own variables
        return found


def _question_seed(config: GenerateConfig, case: Case) -> str:
    return f"{config.seed}:{case.trace.shape_id}:{case.args}"


def _shown(cases: Sequence[Case]) -> tuple[list[Trace], list[str]]:
    return [case.trace for case in cases], [output_text(case.result) for case in cases]


def _same(one: ExecutionResult, two: ExecutionResult) -> bool:
    names = ("outcome", "value", "value_type", "error_type", "error_message", "record")
    return all(getattr(one, name) == getattr(two, name) for name in names)


def _made(program: Program, chosen: Sequence[Case], specs: Sequence[str]) -> Made:
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
        cases=tuple(_made_case(case, spec) for case, spec in zip(chosen, specs, strict=True)),
    )


def _made_case(case: Case, whitebox: str) -> MadeCase:
    raised = case.result.outcome == "raised"
    return MadeCase(
        args=case.args,
        kind=case.kind,
        output="" if raised else case.result.value or "",
        output_type=(case.result.error_type if raised else case.result.value_type) or "",
        raises=case.result.error_type if raised else None,
        n_steps=case.trace.n_steps,
        path_id=case.trace.path_id,
        whitebox=whitebox,
    )


# --- rows -----------------------------------------------------------------------------------------


UNSPLIT = "train"
"""Split of a row until all programs are known; shares can only be exact then."""


def rows_of(
    made: Made, constraint: Constraint, config: GenerateConfig, *, at_most: int | None = None
) -> list[Row]:
    """The rows of a program: one per input case and task; a case that raises gives an output row only.

    With `at_most`, one task after the other is cut, not one case after the other, so that the
    rows that are left still show the program on several inputs.
    """
    wanted = [
        (position, task)
        for task in TASKS
        for position, case in enumerate(made.cases)
        if _gives(case, task, config)
    ][:at_most]
    wanted.sort(key=lambda pair: (pair[0], TASKS.index(pair[1])))
    return [_row(made, made.cases[position], task, constraint, config) for position, task in wanted]


def _gives(case: MadeCase, task: str, config: GenerateConfig) -> bool:
    """Whether a case gives a row of a task. One that raises is asked for its exception alone."""
    if case.raises is not None:
        return task == "output" and not {"output", "whitebox"}.isdisjoint(config.tasks)
    return task in config.tasks and (task != "whitebox" or bool(case.whitebox))


def _row(
    made: Made, case: MadeCase, task: str, constraint: Constraint, config: GenerateConfig
) -> Row:
    from synth.seeds import digest

    if task == "whitebox":
        spec = Spec.from_json(case.whitebox)
    else:
        spec = Spec(task, made.code, made.entry, case.args, case.output, case.raises)
    version, prompt = _row_prompt(spec)
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
        n_lines=len(lines_of(made.code)),
        path_id=case.path_id,
        pass_rate=None,
        n_rollouts=None,
        evaluator=None,
        solver=None,
        provider=config.written_by,
        prompt_version=version,
        python_version=platform.python_version(),
        prompt=prompt,
        spec=spec.to_json(),
    )


def _row_prompt(spec: Spec) -> tuple[str, Messages]:
    """(version, messages) of the prompt that goes with a spec."""
    if spec.task == "whitebox":
        asked = whitebox_prompt(spec.code, spec.entry, spec.args, spec.questions)
        return WHITEBOX_VERSION, asked
    if spec.task == "input":
        return INPUT_VERSION, input_prompt(spec.code, spec.entry, spec.output)
    if spec.raises is not None:
        return RAISES_VERSION, raises_prompt(spec.code, spec.entry, spec.args)
    return OUTPUT_VERSION, output_prompt(spec.code, spec.entry, spec.args)
