"""TRL (GRPOTrainer, RLOOTrainer, AsyncGRPOTrainer), and what is built on it: Unsloth, open-r1.

    GRPOTrainer(reward_funcs=rewards.whitebox.reward, …)
    trl grpo --reward_funcs rewards.whitebox.reward …

TRL calls a batch by keyword: `completions` (message lists or texts), every dataset column as a list,
`trainer_state`, `log_extra`, `log_metric`. That is the signature of the rewards themselves, so here
they only stand together; the reward of each row is in the range of its shape, [0, 2] for `gated`.
A row without a score gets None from all of them, which TRL >= 1.6 leaves out of the baseline.

Columns: `prompt`, and `spec` as JSON text. Keep `remove_unused_columns=False` (the default of GRPOConfig).
Before TRL 1.0 `log_extra` and `log_metric` are not given, before 0.16 None is refused:
`Reward(abstain="zero")` there. Use `reward_async` where other rewards await, from 0.27.

Not covered: trainers that call with another signature.
"""

from __future__ import annotations

from rewards.unittests import UnitTestReward
from rewards.unittests import reward as unittest_reward
from rewards.unittests import reward_all as unittest_reward_all
from rewards.unittests import reward_async as unittest_reward_async
from rewards.whitebox import Reward, format, io, reward, reward_async, w

__all__ = [
    "Reward",
    "UnitTestReward",
    "format",
    "io",
    "reward",
    "reward_async",
    "unittest_reward",
    "unittest_reward_all",
    "unittest_reward_async",
    "w",
]
