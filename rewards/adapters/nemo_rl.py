"""NeMo-RL: an environment actor, `WhiteboxEnvironment`.

    register_env("whitebox", "rewards.adapters.nemo_rl.WhiteboxEnvironment")
    ACTOR_ENVIRONMENT_REGISTRY["rewards.adapters.nemo_rl.WhiteboxEnvironment"] = PY_EXECUTABLES.SYSTEM

in the script that starts the training (before `create_env`), `env_name: whitebox` in the data section and
`env: {whitebox: {scale: 1.0}}`. The processor of the data puts the JSON text of the spec into
`extra_env_info["spec"]`. NeMo-RL takes no None: a sample without a score gets 0.0, is masked where this
version has a mask (`reward_valid_mask`), and counts in the metric `unscored`.

The class, a Ray actor, exists where NeMo-RL is installed; elsewhere asking for it says so.

Not covered: several turns, GDPO's named rewards.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from rewards.adapters.scoring import METRIC_KEYS, Scorer, spec_in

__all__ = ["WhiteboxEnvironment"]  # noqa: F822 - made by __getattr__


def __getattr__(name: str) -> Any:
    if name != "WhiteboxEnvironment":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        ray = importlib.import_module("ray")
        interfaces = importlib.import_module("nemo_rl.environments.interfaces")
    except ImportError as error:
        raise ImportError(
            f"{__name__}.WhiteboxEnvironment is an environment of NeMo-RL, which is not installed here"
            f" ({error}): install it from its repository, see docs.nvidia.com/nemo/rl"
        ) from error
    made = ray.remote(max_restarts=-1, max_task_retries=-1)(_environment(interfaces))
    globals()[name] = made
    return made


def _environment(interfaces: Any) -> type[Any]:
    class WhiteboxEnvironment(interfaces.EnvironmentInterface):  # type: ignore[misc]
        """One prompt, one answer, graded batch by batch."""

        def __init__(self, cfg: Any = None) -> None:
            scale = cfg.get("scale") if hasattr(cfg, "get") else None
            self.scorer = Scorer(scale=scale)
            self.graded: list[dict[str, float]] = []

        def shutdown(self) -> None:
            """There are no workers: the sandbox ends with the process."""

        def step(self, message_log_batch: Sequence[Any], metadata: Sequence[Any], *_: Any) -> Any:
            """Grade the last assistant message of each log."""
            torch = importlib.import_module("torch")
            texts = [_last_answer(log) for log in message_log_batch]
            specs = [spec_in(info) for info in metadata]
            found = [verdict.metrics for verdict in self.scorer.judge(texts, specs)]
            self.graded += found
            rewards = torch.tensor([one["score"] for one in found], dtype=torch.float32)
            given = {
                "observations": [{"role": "environment", "content": ""} for _ in found],
                "metadata": list(metadata),
                "next_stop_strings": [None] * len(found),
                "rewards": rewards,
                "terminateds": torch.ones_like(rewards),
                "answers": None,
                "reward_valid_mask": torch.tensor([not one["unscored"] for one in found]),
            }
            known = interfaces.EnvironmentReturn._fields  # which differ between versions
            return interfaces.EnvironmentReturn(**{name: given[name] for name in known})

        def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
            """The means of all metrics since the last call."""
            rows, self.graded = self.graded, []
            if not rows:
                return batch, {}
            return batch, {key: sum(row[key] for row in rows) / len(rows) for key in METRIC_KEYS}

    WhiteboxEnvironment.__module__ = __name__
    WhiteboxEnvironment.__qualname__ = "WhiteboxEnvironment"
    return WhiteboxEnvironment


def _last_answer(log: Sequence[Any]) -> object:
    own = [message["content"] for message in log if message["role"] == "assistant"]
    return own[-1] if own else None
