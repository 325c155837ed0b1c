"""From the grades of one completion to one number.

With io in {0, 1} and w in [0, 1], the share of white-box answers that are right (without questions
w = io), and alpha of the row's `Shape`:

    gated      0 if io = 0, else 2 * ((1 - alpha) * io + alpha * w)    in [0, 2] (the paper's, alpha 0.5)
    additive   (1 - alpha) * io + alpha * w                            in [0, 1]
    outcome    io                                                      in [0, 1]
    process    w                                                       in [0, 1]
    penalized  as additive, with w = max(0, (right - wrong) / asked)   in [0, 1]

`Shape.weights` weighs the families of questions within w. `Shape.format`, f in [0, 1], gives
(1 - f) * shape + f * format, so that the range stays. Answers that are missing or malformed count as
wrong. Unit tests: the share of those passed, or all or nothing (`Policy.tests`), in [0, 1].

Not covered: how grades come about (`rewards.grading`).
"""

from __future__ import annotations

from rewards.grades import Graded
from rewards.row import Shape, Spec

__all__ = ["maximum", "total"]

_TOP = {"gated": 2.0, "additive": 1.0, "outcome": 1.0, "process": 1.0, "penalized": 1.0}


def maximum(shape: Shape, spec: Spec | None = None, *, scale: float | None = None) -> float:
    """The most that `total` can be: what the ground truth earns.

    `scale` replaces the shape's own range, which a row of task `unittest` has none of: it has [0, 1].
    """
    if scale is not None:
        return scale
    return 1.0 if spec is not None and spec.task == "unittest" else _TOP[shape.name]


def total(shape: Shape, graded: Graded, *, scale: float | None = None) -> float | None:
    """The reward, in [0, `maximum`]; None if the completion has no score.

    `scale` (1.0 and 2.0 are usual, > 0) is the maximum; default the shape's own: 2 for `gated`, else
    1. Raises ValueError for a scale that is not positive and finite.
    """
    if scale is not None and not 0 < scale < float("inf"):
        raise ValueError(f"scale: expected a positive number such as 1.0 or 2.0, got {scale!r}")
    if graded.unscored:
        return None
    if graded.task == "unittest":
        assert graded.tests is not None
        assert graded.tests.score is not None
        core, top = graded.tests.score, 1.0
    else:
        core, top = _core(shape, graded), _TOP[shape.name]
    mixed = (1.0 - shape.format) * core + shape.format * graded.format
    return mixed * (top if scale is None else scale)


def _core(shape: Shape, graded: Graded) -> float:
    """The shape, scaled to [0, 1]."""
    assert graded.io is not None
    io = graded.io.score or 0.0
    weights = dict(shape.weights)
    share = graded.share(weights) or 0.0
    if shape.name == "outcome" or (shape.name == "gated" and io == 0.0):
        return io
    if shape.name == "process":
        return share
    if shape.name == "penalized" and graded.questions:
        share = max(0.0, 2.0 * share - 1.0)  # right - wrong, as shares of what was asked
    return (1.0 - shape.alpha) * io + shape.alpha * share
