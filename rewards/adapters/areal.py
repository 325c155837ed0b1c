"""AReaL: `reward(prompt, completions, prompt_ids, completion_ids, **row)`, a number.

    workflow_kwargs["reward_fn"] = "rewards.adapters.areal.reward"         # of RLVRWorkflow

AReaL runs it in a process pool, with a time-out of 15 s and three tries, and hands over every column of
the row by name: `spec` holds the JSON text. Columns called `prompt` do no harm. `completions` is decoded
with special tokens, which grading strips. A sample without a score gets 0.0 and a warning in the log.
For another range or policy: `reward = Reward(scale=1.0)` in a module of your own.

Not covered: named parts, for which AReaL has no channel.
"""

from __future__ import annotations

from typing import Any

from rewards.adapters.scoring import Scorer, spec_in

__all__ = ["Reward", "reward"]


class Reward(Scorer):
    """The callable. Texts and ids come by position, so that columns may bear their names."""

    __name__ = "whitebox"

    def __call__(
        self,
        prompt: object,
        completions: object,
        prompt_ids: object = None,
        completion_ids: object = None,
        /,
        spec: object = None,
        **_: Any,
    ) -> float:
        """The score of one sample."""
        return self.judge([completions], [spec_in(spec)])[0].metrics["score"]


reward = Reward()
