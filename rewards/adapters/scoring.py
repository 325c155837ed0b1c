"""What the shims share: the spec among what a trainer hands over, and verdicts that never raise.

Covers finding a spec in columns, labels and metadata (`spec_in`), grading a batch into finite numbers
with fixed keys (`Scorer.judge`), and what a completion without a score gets. Does not cover any
trainer's call (the modules beside this one) nor grading (`rewards.grading`).

Most trainers can neither take None nor survive an exception, so a completion without a score gets 0.0
there and says so in the metric `unscored`. The first, tenth, hundredth, … of a process is also logged
as a warning, without the spec: a run in which nothing is scored must not pass for one in which nothing
is right.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rewards.whitebox import METRIC_KEYS, Unscored

if TYPE_CHECKING:
    from rewards.grades import Graded, Policy
    from rewards.row import Spec

__all__ = ["METRIC_KEYS", "Scorer", "Unscored", "Verdict", "spec_in"]

_MISSING = "the row holds no spec: keep the JSON text of the column 'spec' where the shim reads it"
_UNREADABLE = "the spec of the row cannot be read: Spec.from_json of it says what is wrong"
_FAILED = "infrastructure: the grader failed"

_lost = itertools.count(1)


@dataclass(frozen=True)
class Verdict:
    """What one completion is worth, in the form that trainers take."""

    metrics: dict[str, float]
    """All `METRIC_KEYS`, finite; `score` is 0.0 where `unscored` is 1.0."""
    maximum: float
    """The most that `score` could have been, > 0."""
    reason: str = ""
    """Why there is no score; empty if there is one. Never holds the ground truth."""
    error: Exception | None = None
    """What was raised on the way, if anything."""

    @property
    def share(self) -> float:
        """The score as a share of its maximum, in [0, 1]."""
        return self.metrics["score"] / self.maximum

    @property
    def correct(self) -> bool:
        """Whether the answer is right: the output or input asked for, or every unit test."""
        return self.metrics["io"] == 1.0 or self.metrics["tests"] == 1.0


@dataclass(frozen=True)
class Scorer:
    """Options of a shim, and the grading behind it. Raises ValueError for a bad option.

    Instances can be pickled, work in any thread and install no signal handlers.
    """

    scale: float | None = None
    """The maximum of the score, > 0; default that of the row's shape (2 for `gated`, else 1)."""
    abstain: str = "zero"
    """What a completion without a score gets: `zero`, or `raise` (`rewards.whitebox.Unscored`)."""
    policy: Policy | None = None
    """Where a strict and a lenient reader differ; default `rewards.grades.Policy()`."""

    def __post_init__(self) -> None:
        if self.abstain not in ("zero", "raise"):
            raise ValueError(f"abstain: expected zero or raise, got {self.abstain!r}")
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise ValueError(f"scale: expected a positive number such as 1.0, got {self.scale!r}")

    def judge(
        self,
        completions: Sequence[object],
        specs: Sequence[object],
        truncated: Sequence[bool] | None = None,
    ) -> list[Verdict]:
        """One verdict for each completion; under `zero` nothing that they or the rows hold raises.

        Args:
            completions: what the model wrote, in any form that `rewards.answers.text_of` takes.
            specs: one for each: JSON text, the object decoded from it, `Spec`, or None.
            truncated: whether the trainer says that a completion was stopped for its length.

        """
        count = len(completions)
        if len(specs) != count:
            raise ValueError(f"{len(specs)} specs for {count} completions, expected one for each")
        read = [_read(spec) for spec in specs]
        cut = list(truncated) if truncated is not None else [False] * count
        graded = self._grade(completions, read, cut)
        verdicts = [self._verdict(*each) for each in zip(read, graded, strict=True)]
        for number, verdict in enumerate(verdicts):
            if verdict.reason:
                self._tell(number, verdict)
        return verdicts

    async def judge_in_thread(
        self,
        completions: Sequence[object],
        specs: Sequence[object],
        truncated: Sequence[bool] | None = None,
    ) -> list[Verdict]:
        """`judge` for an event loop, which goes on meanwhile."""
        import asyncio

        return await asyncio.to_thread(self.judge, completions, specs, truncated)

    def _grade(
        self,
        completions: Sequence[object],
        read: Sequence[Spec | Exception | None],
        cut: list[bool],
    ) -> list[Graded | Exception | None]:
        from rewards.grading import Policy, grade_all
        from rewards.row import Spec

        found: list[Graded | Exception | None] = [None] * len(read)
        asked = [number for number, spec in enumerate(read) if isinstance(spec, Spec)]
        pairs: Any = [(read[number], completions[number]) for number in asked]
        try:
            graded = grade_all(
                pairs, policy=self.policy or Policy(), truncated=[cut[n] for n in asked]
            )
        except (
            Exception
        ) as error:  # a fault of ours costs this batch its scores, not the run its life
            for number in asked:
                found[number] = error
            return found
        for number, one in zip(asked, graded, strict=True):
            found[number] = one
        return found

    def _verdict(self, spec: Spec | Exception | None, graded: Graded | Exception | None) -> Verdict:
        from rewards.grades import Graded
        from rewards.row import Spec
        from rewards.shapes import maximum
        from rewards.whitebox import metrics

        if not isinstance(spec, Spec):
            reason = _MISSING if spec is None else _UNREADABLE
            return Verdict(_no_score(), self.scale or 1.0, reason, spec)
        top = maximum(spec.shape, spec, scale=self.scale)
        if not isinstance(graded, Graded):
            why = f"{_FAILED}: {type(graded).__name__}"
            return Verdict(_no_score(), top, why, graded)
        found = metrics(spec, graded, scale=self.scale)
        return Verdict(found, top, _why(graded) if found["unscored"] else "")

    def _tell(self, number: int, verdict: Verdict) -> None:
        if self.abstain == "raise":
            why = f"completion {number} has no score: {verdict.reason}"
            raise Unscored(why) from verdict.error
        so_far = next(_lost)
        if str(so_far).strip("0") == "1":  # 1, 10, 100, …
            import logging

            logging.getLogger("rewards").warning(
                "completions without a score in this process so far: %d. The last: %s",
                so_far,
                verdict.reason,
            )


def _read(spec: object) -> Spec | Exception | None:
    """The spec; None if there is none, the exception that says why it is unreadable."""
    from rewards.row import SpecError
    from rewards.whitebox import read_spec

    if spec is None or spec == "":
        return None
    try:
        return read_spec(spec)
    except (SpecError, RecursionError) as error:
        return error


def _no_score() -> dict[str, float]:
    return {**dict.fromkeys(METRIC_KEYS, 0.0), "unscored": 1.0}


def _why(graded: Graded) -> str:
    for grade in (graded.io, graded.tests):
        if grade is not None and grade.score is None:
            return f"{grade.status}: {grade.reason}"
    return "not_applicable: the row asks for nothing of the kind"


def spec_in(*places: object) -> object:
    """The first spec in what a trainer hands over, or None; nothing is changed.

    A place is a `Spec`, JSON text, or a mapping (also as JSON text) that is a spec or has one under
    the key `spec`. Texts that are no JSON object, such as an empty ground truth, are passed over if a
    later place has a spec.
    """
    fallback: object = None
    for place in places:
        if isinstance(place, Mapping):
            inner = place.get("spec")
            if inner is not None and inner != "":
                return inner
            if "task" in place and "schema" in place:
                return dict(place)
        elif isinstance(place, str) and place.lstrip().startswith("{"):
            return _unwrapped(place)
        elif place is not None and not isinstance(place, str):
            return place
        elif place and fallback is None:
            fallback = place
    return fallback


def _unwrapped(text: str) -> object:
    """`text` itself, or the spec in it if it is the JSON text of a record that carries one."""
    if '"spec"' not in text:
        return text
    import json

    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text  # the reader of specs says what is wrong with it
    inner = record.get("spec") if isinstance(record, dict) else None
    return text if inner is None else inner
