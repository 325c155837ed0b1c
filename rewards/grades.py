"""The records of grading: what was decided about an answer, and under which policy.

Covers `Grade` (one answer), `Graded` (one completion) and `Policy`. Does not cover how a grade is
found (`rewards.grading`) nor what grades are worth together (`rewards.shapes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["STATUSES", "Grade", "Graded", "Policy"]

STATUSES = (
    "right",
    "wrong",
    "no_answer",  # the completion holds no complete answer
    "truncated",  # it stops within its reasoning or its answer
    "timed_out",  # our program did not end on these arguments
    "infrastructure",  # the sandbox failed, not the answer
    "not_applicable",  # nothing of the kind is asked
)
"""What a grade can be. The last two have no score (None): they never count as 0."""


@dataclass(frozen=True)
class Policy:
    """Where a strict and a lenient reader differ. The defaults are those of the documentation.

    Raises ValueError for a word that is not one of those named.
    """

    equality: str = "strict"
    """`strict`: values of equal type at every depth, so 1, True and 1.0 differ and so do 0.0 and
    -0.0; `python`: what `==` says, and a value of the same text (nan)."""
    form: str = "exact"
    """`exact`, or `lenient`: also `total = 1; int` (labelled with the variable asked for),
    `1; <class 'int'>`, and a last line `Answer: …` where the tags are missing."""
    answer_first: bool = False
    """Also take an answer that stands before the reasoning."""
    program: bool = True
    """Accept the program, repeated in front of the assertion, in answers without white-box lines."""
    tests: str = "share"
    """Score of unit tests: `share` of those passed, or `all` (1 if all passed, else 0)."""

    def __post_init__(self) -> None:
        words = {"equality": ("strict", "python"), "form": ("exact", "lenient")}
        for name, known in {**words, "tests": ("share", "all")}.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"Policy.{name}: expected {' or '.join(map(repr, known))},"
                    f" got {getattr(self, name)!r}"
                )


@dataclass(frozen=True)
class Grade:
    """What one answer is worth."""

    score: float | None
    """In [0, 1]; None if there is none (`infrastructure`, `not_applicable`)."""
    status: str
    """One of `STATUSES`."""
    reason: str = ""
    """Why, in words; empty if right. Never holds the ground truth."""


RIGHT = Grade(1.0, "right")


def wrong(reason: str) -> Grade:
    return Grade(0.0, "wrong", reason)


@dataclass(frozen=True)
class Graded:
    """What one completion is worth, part by part."""

    task: str
    io: Grade | None = None
    """The output or the input asked for; None for the task `unittest`."""
    questions: tuple[Grade, ...] = ()
    """One per white-box question, in order."""
    families: tuple[str, ...] = ()
    """The family of each question: `control_flow` or `data_flow`."""
    tests: Grade | None = None
    """The unit tests; None for every other task."""
    format: float = 0.0
    """1.0 if the completion has the form that was asked for, else 0.0."""
    seconds: float = field(default=0.0, compare=False)
    """Wall time that grading this completion took, its share of the sandbox's included."""

    @property
    def w_total(self) -> int:
        """How many white-box questions there are."""
        return len(self.questions)

    @property
    def w_right(self) -> int:
        """How many of them are answered rightly."""
        return sum([grade.status == "right" for grade in self.questions])

    @property
    def w(self) -> float | None:
        """Share of the white-box answers that are right, in [0, 1]; without questions that of io."""
        if self.questions:
            return self.w_right / self.w_total
        return self.io.score if self.io is not None else None

    def share(self, weights: Mapping[str, float]) -> float | None:
        """`w` with a weight for each family of questions, 1 where none is given."""
        if not weights or not self.questions:
            return self.w
        each = [weights.get(family, 1.0) for family in self.families]
        total = sum(each)
        if not total:
            return self.w
        pairs = zip(each, self.questions, strict=True)
        return sum([weight for weight, grade in pairs if grade.status == "right"]) / total

    @property
    def unscored(self) -> bool:
        """Whether this completion has no score at all: infrastructure, or nothing was asked."""
        main = self.tests if self.task == "unittest" else self.io
        return main is None or main.score is None

    @property
    def timed_out(self) -> bool:
        """Whether a program that had to be run did not end in time."""
        return any(grade.status == "timed_out" for grade in (self.io, self.tests) if grade)

    @property
    def status(self) -> str:
        """One of `STATUSES` for the whole: `right` only if every part is."""
        found = [grade.status for grade in self.questions]
        found += [grade.status for grade in (self.io, self.tests) if grade is not None]
        if found and found.count("right") == len(found):
            return "right"
        for status in ("infrastructure", "timed_out", "truncated", "no_answer", "wrong", "right"):
            if status in found:
                return status
        return "not_applicable"
