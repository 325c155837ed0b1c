"""verl: `compute_score` for one sample, `compute_score_batch` for many, `prime_score` for `prime`.

    reward.custom_reward_function.path=pkg://rewards.adapters.verl
    reward.custom_reward_function.name=compute_score
    +reward.custom_reward_function.reward_kwargs.scale=1.0      # and others of the options below

Up to 0.7.0 the key has no `reward.` before it; up to 0.6.1 the path is a file: `python -m rewards path
verl`. The spec stands in `reward_model.ground_truth` or in `extra_info.spec`, as JSON text.

verl takes no None: a sample without a score gets 0.0 and `unscored` 1.0, or raises with
`reward_kwargs.abstain=raise`. The dict that is returned has the keys of `rewards.whitebox.METRIC_KEYS`
for every sample, all floats, which verl averages in validation, dumps with rollouts, and offers to GDPO
(`algorithm.gdpo_reward_keys`). Options by `reward_kwargs`: `scale`, `abstain`, and the fields of
`rewards.grades.Policy` (`equality`, `form`, `answer_first`, `program`, `tests`).

Not covered: Ray, tokenizers, reward models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rewards.adapters.scoring import Scorer, spec_in

__all__ = ["compute_score", "compute_score_batch", "prime_score"]


def compute_score(
    data_source: str = "",
    solution_str: object = "",
    ground_truth: object = None,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, float]:
    """All metrics of one sample, `score` among them."""
    spec = spec_in(extra_info, ground_truth)
    return _scorer(options).judge([solution_str], [spec])[0].metrics


def compute_score_batch(
    data_sources: Sequence[str] = (),
    solution_strs: Sequence[object] = (),
    ground_truths: Sequence[object] = (),
    extra_infos: Sequence[Mapping[str, Any] | None] | None = None,
    **options: Any,
) -> list[dict[str, float]]:
    """All metrics of each sample (manager `batch`); identical input answers run once."""
    infos = [None] * len(ground_truths) if extra_infos is None else extra_infos
    specs = [spec_in(*each) for each in zip(infos, ground_truths, strict=True)]
    return [verdict.metrics for verdict in _scorer(options).judge(list(solution_strs), specs)]


def prime_score(
    data_source: str = "",
    solution_str: object = "",
    ground_truth: object = None,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> float:
    """The score alone: what the manager `prime` of verl <= 0.7.0 can take."""
    return compute_score(data_source, solution_str, ground_truth, extra_info, **options)["score"]


_DEFAULT = Scorer()


def _scorer(options: Mapping[str, Any]) -> Scorer:
    """The scorer that `reward_kwargs` ask for; names that are not ours are the trainer's."""
    if not options:
        return _DEFAULT
    from rewards.grades import Policy

    words = {field.name: options[field.name] for field in fields(Policy) if field.name in options}
    own = {name: options[name] for name in ("scale", "abstain") if name in options}
    return Scorer(policy=Policy(**words) if words else None, **own)
