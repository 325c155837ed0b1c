"""Reasoning chains for the warm-up: rows with a completion that reasons and answers rightly.

Covers two sources: the narration of the real trace (offline, `narration.py`), and a strong model whose
completions are kept when the reward's own grader finds nothing wrong in them. Either way a chain is graded
before it is kept, white-box answers included. A narration is made only of a row that says of the run what
is true of it, output and answers: the grader compares with the row, so it would not see what is false there.
Does not train on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewards import values
from rewards.grading import grade_all
from rewards.lexing import same_tokens
from rewards.row import Row, Spec, ValueAnswer
from rewards.sandbox import SandboxPool
from synth.clients import Asker, Fault
from synth.completions import Ask, Reply, Sampling
from synth.difficulty.measuring import in_turn
from synth.errors import ConfigError
from synth.executions import look, run_traced
from synth.narration import NARRATION_VERSION, narrate
from synth.prompts import Messages
from synth.questions import Context, answer_text, truth
from synth.seeds import rng
from synth.states import States, everything
from synth.traces import Trace, TraceError

__all__ = ["Chain", "Dropped", "answers_of", "model_chains", "narrated_chains"]

TASKS = ("output", "input", "whitebox")
OUTPUT_DIFFERS = "output_differs"
"""Why a row is left out whose stored output is not what its program gives."""
ANSWER_DIFFERS = "answer_differs"
"""The same of a stored answer to one of its questions."""


@dataclass(frozen=True)
class Chain:
    """A row's prompt with a completion that earns everything."""

    row_id: str
    task: str
    prompt: Messages
    completion: str
    source: str
    """Version id of the narration, or the name of the model."""

    def to_json(self) -> dict[str, Any]:
        """A row for supervised training, in conversational form."""
        prompt = [{"role": role, "content": content} for role, content in self.prompt]
        answer = [{"role": "assistant", "content": self.completion}]
        record = {"id": self.row_id, "task": self.task, "source": self.source}
        return {**record, "prompt": prompt, "completion": answer}


@dataclass(frozen=True)
class Dropped:
    """A row without a chain, and why."""

    row_id: str
    reason: str


def narrated_chains(rows: Iterable[Row], sandbox: SandboxPool) -> Iterator[Chain | Dropped]:
    """A chain for each row of a task that has one, in order, from the run of its program.

    Every program runs twice per input, in the sandbox. Raises `SandboxError` if nothing can run.
    """
    followed: dict[tuple[str, str, str], tuple[Trace, States] | None] = {}
    for row in rows:
        if row.task not in TASKS:
            yield Dropped(row.id, "task")
            continue
        key = (row.code, row.entry, row.args)
        if key not in followed:
            followed.clear()  # rows of one input stand together; one run is held at a time
            followed[key] = _follow(row, sandbox)
        found = followed[key]
        if found is not None and (differs := _differs(row, *found)):
            yield Dropped(row.id, differs)
            continue
        text = None if found is None else _told(row, *found)
        if text is None:
            yield Dropped(row.id, "not_followed" if found is None else "too_long")
            continue
        chain = Chain(row.id, row.task, row.prompt, text, NARRATION_VERSION)
        yield chain if _earns_all(row, [text], sandbox)[0] else Dropped(row.id, "wrong")


def _follow(row: Row, sandbox: SandboxPool) -> tuple[Trace, States] | None:
    """Trace and states of the row's call; None if it left no good trace, or does not do the same again."""
    (result,) = run_traced(sandbox, row.code, row.entry, [row.args])
    if result.record is None:
        return None
    trace = Trace.from_record(row.code, result.record)
    if trace.flags:
        return None
    try:
        (states,) = look(sandbox, row.code, row.entry, [row.args], [trace], [everything(trace)])
    except TraceError:
        return None
    return trace, states


def _differs(row: Row, trace: Trace, states: States) -> str:
    """The name of what a row says of the run and is false; empty if there is nothing."""
    spec = Spec.from_json(row.spec)
    result = states.result
    if spec.raises is not None or result.value is None:
        if result.error_type is None or spec.raises != result.error_type:
            return OUTPUT_DIFFERS
    elif not _one_value(spec.output, result.value):
        return OUTPUT_DIFFERS
    context = Context(spec.code, spec.entry, spec.args, result.value or "", trace, states)
    for question in spec.questions:
        found = truth(context, question)
        # None: not one answer, or a value that is too long to be captured. Nothing is known then.
        if found is not None and not any(_same(question.answers[0], one) for one in found):
            return ANSWER_DIFFERS
    return ""


def _same(stored: ValueAnswer | str, true: ValueAnswer | str) -> bool:
    if isinstance(stored, ValueAnswer) and isinstance(true, ValueAnswer):
        return stored.type == true.type and _one_value(stored.value, true.value)
    # A statement may be stored with other white space, such as without its indentation.
    return isinstance(stored, str) and isinstance(true, str) and same_tokens(stored, true)


def _one_value(stored: str, true: str) -> bool:
    """Whether two texts say the same value; a row may spell it in another way."""
    if stored == true:
        return True
    try:
        return values.equal(values.parse(stored), values.parse(true))
    except values.ValueTextError:
        return False


def _told(row: Row, trace: Trace, states: States) -> str | None:
    spec = Spec.from_json(row.spec)
    call = f"{row.entry}({row.args})"
    seed = rng(NARRATION_VERSION, row.id)
    text = narrate(trace, states, call, spec.raises or spec.output, seed)
    if text is None:
        return None
    if row.task == "input":
        tried = seed.choice(
            ("I try the arguments {args}.", "Arguments that may do: {args}.", "Take {args}.")
        )
        text = f"{tried.format(args=row.args)}\n{text}, as was asked."
    answers = "\n".join(answers_of(spec))
    return f"<reasoning>\n{text}\n</reasoning>\n<answer>\n{answers}\n</answer>"


def answers_of(spec: Spec) -> list[str]:
    """The lines of a right answer to a row."""
    if spec.raises is not None and spec.task == "output":
        return [spec.raises]
    first = f"assert {spec.entry}({spec.args}) == {spec.output}"
    return [first, *map(answer_text, spec.questions)]


def _earns_all(row: Row, texts: Sequence[str], sandbox: SandboxPool | None) -> list[bool]:
    """Whether each text is right in all its parts: the output or input, and every question."""
    spec = Spec.from_json(row.spec)
    graded = grade_all([(spec, text) for text in texts], pool=sandbox)
    return [one.status == "right" for one in graded]


async def model_chains(
    rows: Sequence[Row],
    asker: Asker,
    model: str,
    *,
    sampling: Sampling,
    endpoint: str = "chat",
    tries: int = 4,
    workers: int = 16,
    sandbox: SandboxPool | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Chain | Dropped]:
    """For each row the first right completion of a strong model, of at most `tries` (>= 1).

    A completion that was cut, or that reasons outside its content, is not taken. `progress` is called with
    the number of rows that are done. Raises what the asker raises to end a run.
    """
    if tries < 1:
        raise ConfigError(f"tries is {tries}; expected 1 or more")
    found: dict[int, Chain | Dropped] = {}

    async def work(place: int) -> None:
        row = rows[place]
        found[place] = await _from_model(
            row, asker, Ask(model, row.prompt, sampling, endpoint), tries, sandbox
        )
        progress(len(found))

    await in_turn(work, range(len(rows)), workers)
    return [found[place] for place in range(len(rows))]


async def _from_model(
    row: Row, asker: Asker, ask: Ask, tries: int, sandbox: SandboxPool | None
) -> Chain | Dropped:
    if row.task not in TASKS:
        return Dropped(row.id, "task")
    for number in range(tries):
        outcome = (await asker.sample(ask, [number]))[number]
        if isinstance(outcome, Fault):
            return Dropped(row.id, outcome.kind)
        text = _usable(outcome)
        if text and (await asyncio.to_thread(_earns_all, row, [text], sandbox))[0]:
            return Chain(row.id, row.task, row.prompt, text, ask.model)
    return Dropped(row.id, "not_solved")


def _usable(reply: Reply) -> str | None:
    return None if reply.truncated or "<reasoning>" not in (reply.text or "") else reply.text
