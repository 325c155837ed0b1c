"""SkyRL: an environment of one turn, `WhiteboxEnv`.

    skyrl_gym.register(id="whitebox", entry_point="rewards.adapters.skyrl:WhiteboxEnv")

in the script that starts the training, and `env_class: "whitebox"` in every row. The spec stands in
`reward_spec.ground_truth`, `extra_info.spec` or a column `spec`, as JSON text. `environment.skyrl_gym`
may hold `whitebox: {scale: 1.0}`. SkyRL takes no None: an episode without a score gets 0.0, and
`unscored` 1.0 among the metrics (`get_metrics`: the keys of `rewards.whitebox.METRIC_KEYS`, averaged).

The class exists where `skyrl_gym` is installed; elsewhere asking for it says so.

Not covered: several turns, tools.
"""

from __future__ import annotations

import importlib
from typing import Any

from rewards.adapters.scoring import Scorer, spec_in

__all__ = ["WhiteboxEnv"]  # noqa: F822 - made by __getattr__


def __getattr__(name: str) -> Any:
    if name != "WhiteboxEnv":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        base = importlib.import_module("skyrl_gym.envs.base_text_env").BaseTextEnv
    except ImportError as error:
        raise ImportError(
            f"{__name__}.WhiteboxEnv is an environment of SkyRL, which is not installed here"
            f" ({error}): pip install skyrl-gym"
        ) from error
    made = _environment(base)
    globals()[name] = made  # one class a process, found without this function from now on
    return made


def _environment(base: Any) -> type[Any]:
    class WhiteboxEnv(base):  # type: ignore[misc]
        """One prompt, one answer, graded."""

        def __init__(self, env_config: Any = None, extras: Any = None) -> None:
            super().__init__()
            given = dict(extras or {})
            reward_spec = given.get("reward_spec") or {}
            self.asked = spec_in(  # `spec` is the registry's, which sets it
                {"spec": given.get("spec")},
                given.get("extra_info"),
                reward_spec.get("ground_truth"),
            )
            scale = env_config.get("scale") if hasattr(env_config, "get") else None
            self.scorer = Scorer(scale=scale)
            self.metrics: dict[str, float] = {}

        def step(self, action: str) -> Any:
            """The score of the answer; the episode is over."""
            self.turns += 1
            self.metrics = self.scorer.judge([action], [self.asked])[0].metrics
            reward = self.metrics["score"]
            return {"observations": [], "reward": reward, "done": True, "metadata": {}}

        def get_metrics(self) -> dict[str, float]:
            """All metrics of the episode, which SkyRL averages."""
            return dict(self.metrics)

    WhiteboxEnv.__module__, WhiteboxEnv.__qualname__ = __name__, "WhiteboxEnv"  # can be pickled
    return WhiteboxEnv
