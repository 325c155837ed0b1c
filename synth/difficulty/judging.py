"""Whether a completion passes: the reward's own grader, asked for one thing.

Covers the question put to a model for a row, and the verdict on what it answers. A row of tasks `output`,
`input` and `whitebox` passes when its first answer is right, one of `unittest` when all tests pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rewards.row import Row, Spec
from synth.completions import Ask, Reply, Sampling
from synth.difficulty.config import DifficultyConfig
from synth.difficulty.labels import Rollout
from synth.errors import SynthError
from synth.prompts import few_shot_prompt

if TYPE_CHECKING:
    from rewards.sandbox import SandboxPool

__all__ = ["Judge", "RewardJudge", "evaluator_ask", "solver_ask"]

GRADING_TRIES = 3


class Judge(Protocol):
    """Says of texts whether they pass; may be called from any thread."""

    def __call__(self, row: Row, texts: Sequence[str]) -> list[tuple[str, bool]]:
        """(status, passed) for each text."""
        ...


class RewardJudge:
    """The grader of `rewards.grading`, with the sandbox it may need."""

    def __init__(self, pool: SandboxPool | None = None) -> None:
        self.pool = pool

    def __call__(self, row: Row, texts: Sequence[str]) -> list[tuple[str, bool]]:
        """See `Judge`. Raises `SynthError` when the sandbox fails again and again."""
        from rewards.grading import grade_all

        spec = Spec.from_json(row.spec)
        found: dict[int, tuple[str, bool]] = {}
        for _ in range(GRADING_TRIES):
            left = [number for number in range(len(texts)) if number not in found]
            graded = grade_all([(spec, texts[number]) for number in left], pool=self.pool)
            for number, one in zip(left, graded, strict=True):
                grade = one.tests if spec.task == "unittest" else one.io
                if grade is not None and grade.score is not None:
                    found[number] = (grade.status, grade.score == 1.0)
                elif one.status == "not_applicable":
                    raise SynthError(f"row {row.id!r}: the grader has no verdict for its task")
            if len(found) == len(texts):
                return [found[number] for number in range(len(texts))]
        raise SynthError(
            f"row {row.id!r}: the sandbox failed {GRADING_TRIES} times while an answer was graded; what"
            " the models answered is kept: give the same command again"
        )


def evaluator_ask(row: Row, config: DifficultyConfig) -> Ask | None:
    """The request put to the small model for a row; None if the row is not put to it."""
    if not config.few_shot:
        return Ask(config.model, row.prompt, config.sampling, config.endpoint)
    spec = Spec.from_json(row.spec)
    if row.task != "output" or spec.raises is not None:
        return None
    messages = few_shot_prompt(row.code, row.entry, row.args)
    stop = tuple(dict.fromkeys(("\n", *config.sampling.stop)))
    sampling = Sampling(**{**vars(config.sampling), "stop": stop})
    return Ask(config.model, messages, sampling, "completion")


def solver_ask(row: Row, config: DifficultyConfig) -> Ask:
    """The request put to the strong model for a row."""
    assert config.solver_model is not None
    return Ask(config.solver_model, row.prompt, config.solver_sampling)


def judged(
    judge: Judge, row: Row, replies: Sequence[Reply], *, few_shot: bool = False
) -> list[Rollout]:
    """The rollouts of replies. One that was cut or is empty is not put to the judge: it did not pass."""
    readable = [place for place, reply in enumerate(replies) if not _no_answer(reply)]
    texts = [_answer(replies[place].text or "", few_shot=few_shot) for place in readable]
    verdicts = dict(zip(readable, judge(row, texts) if texts else [], strict=True))
    return [
        Rollout.of(reply, *verdicts.get(place, (_no_answer(reply), False)))
        for place, reply in enumerate(replies)
    ]


def _no_answer(reply: Reply) -> str:
    """Why a reply holds no answer, whatever its text; "" if it may hold one."""
    if reply.truncated:
        return "truncated"
    if reply.finish_reason == "content_filter":
        return "filtered"
    return "no_content" if reply.text is None else ""


def _answer(text: str, *, few_shot: bool) -> str:
    # A base model continues the assertion; the grader reads answer blocks.
    return f"<answer>\n{text.strip()}\n</answer>" if few_shot else text
