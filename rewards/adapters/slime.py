"""slime, the RL framework: `slime_rm`, for one sample or a group.

    --custom-rm-path rewards.adapters.slime.slime_rm --label-key spec      # or in --metadata-key: {"spec": …}
    --reward-key score                                                     # optional: all parts are kept

The spec is the label, or `metadata["spec"]`, as JSON text. Without `--reward-key` a sample gets a
number, with it the dict of all metrics (`rewards.whitebox.METRIC_KEYS`), of which slime trains on the key.
None means "not yet computed" to slime, so a sample without a score gets 0.0 and `unscored` 1.0. The work
is done in a thread: the loop that generates goes on.

Not covered: remote reward models, dynamic filters.
"""

from __future__ import annotations

from typing import Any

from rewards.adapters.scoring import Scorer, spec_in

__all__ = ["Slime", "slime_rm"]


class Slime(Scorer):
    """The callable."""

    __name__ = "slime_rm"

    async def __call__(self, args: Any, sample: Any, **_: Any) -> Any:
        """A number or dict for a sample, a list of these for a list of samples."""
        samples = list(sample) if isinstance(sample, (list, tuple)) else [sample]
        verdicts = await self.judge_in_thread(
            [one.response for one in samples],
            [spec_in(getattr(one, "metadata", None), one.label) for one in samples],
            [_cut(one) for one in samples],
        )
        found: list[Any] = [verdict.metrics for verdict in verdicts]
        if not getattr(args, "reward_key", None):
            found = [metrics["score"] for metrics in found]
        return found if isinstance(sample, (list, tuple)) else found[0]


def _cut(sample: Any) -> bool:
    status = getattr(sample, "status", None)
    return getattr(status, "value", status) == "truncated"


slime_rm = Slime()
