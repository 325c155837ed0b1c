"""verifiers and prime-rl: `reward` and `metrics` for `verifiers.v1`, `rubric_reward` for rubrics.

    [env.taskset.task.rewards]                              # prime-rl: orchestrator.train.source.env.…
    whitebox = { fn = "rewards.adapters.verifiers:reward" }
    [env.taskset.task.metrics]
    parts = { fn = "rewards.adapters.verifiers:metrics" }

    vf.Rubric(funcs=[rubric_reward])                        # up to 0.3: verifiers.legacy

v1 hands over arguments by name and awaits the result. The spec is the field `spec` of the task's data
(JSON text); the completion is the trace's last reply. A rollout whose reward raises is dropped, not
scored 0, so here a completion without a score raises `rewards.whitebox.Unscored`. `metrics` grades a
second time, in its own hook.

A rubric finds the spec in `info["spec"]` (or `info`, or `answer`, as JSON text), and counts an exception
as 0.0, so nothing raises there. `Rubric(part="w")` and the like make functions for single parts, to be
added with weight 0 as metrics.

All work is done in threads: the event loop that all rollouts share goes on.

Not covered: group rewards, judges, tool environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewards.adapters.scoring import METRIC_KEYS, Scorer, spec_in

__all__ = ["Metrics", "Reward", "Rubric", "metrics", "reward", "rubric_reward"]


class Reward(Scorer):
    """A reward of `verifiers.v1`."""

    __name__ = "whitebox"

    async def __call__(self, task: Any, trace: Any) -> float:
        """The score. Raises `Unscored` if there is none and `abstain` is `raise`."""
        return (await _judge(self, task, trace))["score"]


class Metrics(Scorer):
    """All metrics of `verifiers.v1` but the score itself, recorded and not summed."""

    __name__ = "whitebox_metrics"

    async def __call__(self, task: Any, trace: Any) -> dict[str, float]:
        """The metrics, prefixed with `whitebox_`."""
        found = await _judge(self, task, trace)
        return {f"whitebox_{key}": value for key, value in found.items() if key != "score"}


async def _judge(scorer: Scorer, task: Any, trace: Any) -> dict[str, float]:
    data = task if isinstance(task, Mapping) else getattr(task, "data", task)
    spec = spec_in(data if isinstance(data, Mapping) else getattr(data, "spec", None))
    cut = getattr(trace, "is_truncated", False) is True
    return (await scorer.judge_in_thread([trace.last_reply], [spec], [cut]))[0].metrics


@dataclass(frozen=True)
class Rubric(Scorer):
    """A function of a rubric (`verifiers.legacy`, or `verifiers` up to 0.1)."""

    part: str = "score"
    """One of `rewards.whitebox.METRIC_KEYS`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.part not in METRIC_KEYS:
            raise ValueError(f"part: expected one of {', '.join(METRIC_KEYS)}, got {self.part!r}")
        name = "whitebox" if self.part == "score" else f"whitebox_{self.part}"
        object.__setattr__(self, "__name__", name)

    async def __call__(
        self,
        completion: Any = None,
        info: Any = None,
        answer: Any = "",
        state: Any = None,
        **_: Any,
    ) -> float:
        """The part of one completion; 0.0 without a score."""
        cut = isinstance(state, Mapping) and state.get("is_truncated") is True
        spec = spec_in(info, answer)
        return (await self.judge_in_thread([completion], [spec], [cut]))[0].metrics[self.part]


reward = Reward(abstain="raise")
metrics = Metrics()
rubric_reward = Rubric()
