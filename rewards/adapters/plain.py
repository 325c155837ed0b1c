"""For a loop of your own (ART, an evaluation, a notebook): `score(completion, spec)`.

    from rewards.adapters.plain import score
    found = score(completion, spec)        # {"score": 2.0, "io": 1.0, "w": 1.0, …}, finite numbers

Raises `rewards.SpecError` for a spec that cannot be read; where the sandbox failed, `unscored` is 1.0 and
`score` 0.0: leave such a rollout out. `score_answer(answer, entry)` is the same in the form of
reasoning-gym: a number in [0, 1], the spec in `entry["metadata"]["spec"]` or `entry["spec"]`.

Not covered: batches (`rewards.grading.grade_all`).
"""

from __future__ import annotations

from collections.abc import Mapping

from rewards.adapters.scoring import Scorer, spec_in
from rewards.whitebox import score

__all__ = ["score", "score_answer"]

_SHARE = Scorer(scale=1.0)


def score_answer(answer: str | None, entry: Mapping[str, object]) -> float:
    """The score of one completion in [0, 1]; 0.0 without one."""
    spec = spec_in(entry, entry.get("metadata"))
    return _SHARE.judge([answer], [spec])[0].metrics["score"]
