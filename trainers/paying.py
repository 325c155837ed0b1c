"""What a run pays for, written into the specs of its rows: shape, families of questions, format term.

The reward reads all of that from the spec, so a run that pays for less differs from another in this
column alone. Prompts stay as they are: every question is still asked, as answers are counted by line.

A row none of whose questions is paid earns by its output alone, as the paper's rows without questions do.
"""

from __future__ import annotations

from dataclasses import replace

from rewards.row import CONTROL_FLOW, DATA_FLOW, Shape, Spec
from trainers.records import FAMILIES, RewardConfig

__all__ = ["paid", "scale_of"]


def paid(spec: str, reward: RewardConfig) -> str:
    """The spec of a row as `reward` pays it; rows with unit tests have no shape and stay as they are."""
    read = Spec.from_json(spec)
    if read.task == "unittest":
        return spec
    shape = read.shape
    if reward.shape != "row":
        shape = Shape(reward.shape, reward.alpha, reward.format)
    families = FAMILIES[reward.families]
    if reward.families != "both":
        asked = {question.family for question in read.questions}
        if asked & set(families):
            weights = [(each, float(each in families)) for each in (CONTROL_FLOW, DATA_FLOW)]
            shape = replace(shape, weights=tuple(weights))
        else:
            shape = Shape("outcome", shape.alpha, shape.format)
    return replace(read, shape=shape).to_json()


def scale_of(reward: RewardConfig) -> float | None:
    """The most that a completion can earn; None leaves it to the shape of each row."""
    if reward.scale is not None or reward.shape == "row":
        return reward.scale
    return 2.0 if reward.shape == "gated" else 1.0
