"""What is known of a row's difficulty: each completion's status, and the verdict on the row.

Covers the record and its place in a row and in a line of JSON. A row that could not be measured has a
verdict that names the reason and no pass rate: a server's fault never looks like a wrong answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from rewards.row import Row
from synth.completions import Reply
from synth.difficulty.config import DifficultyConfig
from synth.difficulty.stopping import KEPT, TOO_EASY

__all__ = ["NOT_ASKED", "UNSOLVED", "Label", "Rollout"]

UNSOLVED = "unsolved"
"""Verdict on a row that is hard enough and that the solver did not solve."""
NOT_ASKED = "not_asked"
"""Verdict on a row whose task was not put to the model."""
MEASURED = (KEPT, TOO_EASY, UNSOLVED)


@dataclass(frozen=True)
class Rollout:
    """One completion of a model, judged."""

    status: str
    """A status of `rewards.grading`, or "no_content" or "filtered" if the server gave no answer."""
    passed: bool
    finish_reason: str
    seed: int | None
    completion_tokens: int | None

    @classmethod
    def of(cls, reply: Reply, status: str, passed: bool) -> Rollout:
        """The rollout of a reply."""
        return cls(status, passed, reply.finish_reason, reply.seed, reply.completion_tokens)


@dataclass(frozen=True)
class Label:
    """What came of one row."""

    row_id: str
    verdict: str
    """`KEPT`, `TOO_EASY`, `UNSOLVED`, `NOT_ASKED`, or the kind of the fault that kept it from being
    measured (`synth.clients.faults.KINDS`)."""
    rollouts: tuple[Rollout, ...] = ()
    """Completions of the evaluator, in the order drawn."""
    solver: tuple[Rollout, ...] = ()
    same: bool = False
    """All completions of the evaluator, three or more, are one text."""

    @property
    def measured(self) -> bool:
        """Whether the pass rate stands for the row."""
        return self.verdict in MEASURED

    @property
    def passes(self) -> int:
        """Completions of the evaluator that passed."""
        return sum(rollout.passed for rollout in self.rollouts)

    @property
    def pass_rate(self) -> float | None:
        """Share that passed of those that were drawn; None if the row was not measured."""
        return self.passes / len(self.rollouts) if self.measured and self.rollouts else None

    def on(self, row: Row, config: DifficultyConfig, date: str) -> Row:
        """The row with its columns of difficulty filled in."""
        solved = any(rollout.passed for rollout in self.solver)
        return replace(
            row,
            pass_rate=self.pass_rate,
            n_rollouts=len(self.rollouts) if self.measured else None,
            evaluator=config.described(date) if self.measured else None,
            solver=config.solver_model if solved else None,
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values: a line of `difficulty.jsonl`."""
        return {
            "id": self.row_id,
            "verdict": self.verdict,
            "pass_rate": self.pass_rate,
            "passes": self.passes,
            "n_rollouts": len(self.rollouts),
            "evaluator": _columns(self.rollouts),
            "solver": _columns(self.solver),
        }


def _columns(rollouts: tuple[Rollout, ...]) -> dict[str, list[Any]]:
    return {
        "status": [rollout.status for rollout in rollouts],
        "finish_reason": [rollout.finish_reason for rollout in rollouts],
        "seed": [rollout.seed for rollout in rollouts],
        "completion_tokens": [rollout.completion_tokens for rollout in rollouts],
    }
