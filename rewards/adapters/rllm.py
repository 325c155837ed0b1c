"""rLLM: `evaluate(task, episode)`, a dict with `reward`, `is_correct`, `signals` and `metadata`.

    [verifier]                                                      # dataset.toml
    import_path = "rewards.adapters.rllm:evaluate"

The spec is `task.metadata["spec"]`, JSON text. `reward` is in [0, 1]; `is_correct` says whether the output
or input asked for is right (or every test passed), whatever the white-box answers. `signals` are the
other metrics, for the logs. A rollout without a score gets 0.0, the signal `unscored` and the reason in
`metadata`. `evaluate_action(task_info, action)` is the form of the older RewardFunction.

Not covered: verifiers that run in rLLM's own sandboxes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewards.adapters.scoring import Scorer, Verdict, spec_in

__all__ = ["Evaluate", "evaluate", "evaluate_action"]


class Evaluate(Scorer):
    """The callable."""

    __name__ = "whitebox"

    def __call__(self, task: Any, episode: Any = None) -> dict[str, Any]:
        """The evaluation of one episode."""
        metadata = task if isinstance(task, Mapping) else getattr(task, "metadata", None)
        return _told(self.judge([_answer(episode)], [spec_in(metadata)])[0])


def _told(verdict: Verdict) -> dict[str, Any]:
    return {
        "reward": verdict.metrics["score"],
        "is_correct": verdict.correct,
        "signals": {key: value for key, value in verdict.metrics.items() if key != "score"},
        "metadata": {"unscored": verdict.reason} if verdict.reason else {},
    }


def _answer(episode: Any) -> object:
    """What the agent answered, as rLLM itself looks for it."""
    artifacts = getattr(episode, "artifacts", None)
    if isinstance(artifacts, Mapping) and "answer" in artifacts:
        return artifacts["answer"]
    for trajectory in reversed(getattr(episode, "trajectories", None) or []):
        output: object = getattr(trajectory, "output", None)
        if output:
            return output
        for step in reversed(getattr(trajectory, "steps", None) or []):
            for name in ("output", "model_response"):
                output = getattr(step, name, None)
                if output:
                    return output
        break  # an earlier trajectory is another agent's
    return None


def evaluate_action(task_info: Mapping[str, Any], action: Any) -> dict[str, Any]:
    """`evaluate` for `RewardFunction(task_info, action)`: the spec in `task_info`."""
    text = getattr(action, "action", action)
    return _told(evaluate.judge([text], [spec_in(task_info, task_info.get("ground_truth"))])[0])


evaluate = Evaluate(scale=1.0)
