"""The records of asking: which questions a row may have, what was planned, what was asked and why not.

Covers presets and results. Does not cover how anything is chosen (`sampling.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rewards.row import CONTROL_FLOW, DATA_FLOW, QUESTION_FIELDS, Question
from synth.errors import ConfigError, closest
from synth.questions.rules import MAX_ANSWER_CHARS, RULES
from synth.questions.truth import Moments
from synth.traces import Trace

__all__ = ["PRESETS", "REASONS", "Asked", "Candidate", "Plan", "Preset", "preset_named"]


@dataclass(frozen=True)
class Preset:
    """How many questions of which kinds a row has at most."""

    name: str
    control_flow: int
    """At most so many questions of this family in a row, at least 0."""
    data_flow: int
    kinds: tuple[str, ...]
    """Keys of `rewards.row.QUESTION_FIELDS`."""
    max_chars: int = MAX_ANSWER_CHARS
    """Longest value asked for, in characters, from 1 to 200."""

    def __post_init__(self) -> None:
        if self.control_flow < 0 or self.data_flow < 0:
            raise ConfigError(f"preset {self.name!r}: numbers of questions must be at least 0")
        for kind in self.kinds:
            if kind not in QUESTION_FIELDS:
                raise ConfigError(f"preset {self.name!r}: no kind of question is named {kind!r}")
        if not 1 <= self.max_chars <= MAX_ANSWER_CHARS:
            raise ConfigError(
                f"preset {self.name!r}: max_chars is {self.max_chars}, expected 1 to {MAX_ANSWER_CHARS}"
            )

    def limit(self, family: str) -> int:
        """The number for a family of `rewards.row`."""
        return {CONTROL_FLOW: self.control_flow, DATA_FLOW: self.data_flow}[family]


PRESETS: Mapping[str, Preset] = {
    "paper": Preset("paper", 5, 5, ("next_statement", "value")),
    "full": Preset("full", 5, 5, tuple(QUESTION_FIELDS)),
}


def preset_named(name: str) -> Preset:
    """The preset of that name; raises `ConfigError`."""
    if name not in PRESETS:
        raise ConfigError(f"no preset is named {name!r}{closest(name, PRESETS)}")
    return PRESETS[name]


@dataclass(frozen=True)
class Candidate:
    """A question that may be asked."""

    question: Question
    """Without answers while they are not known."""
    weight: float
    """> 0: how much it asks for execution, against the others of its kind."""


@dataclass(frozen=True)
class Plan:
    """What pass one says may be asked."""

    trace: Trace
    preset: Preset
    seed: str
    candidates: tuple[Candidate, ...]
    wanted: Moments
    """What to capture before `ask`: `needed(trace, *plan.wanted)`."""


@dataclass(frozen=True)
class Asked:
    """The questions of a row, and why a family has none."""

    questions: tuple[Question, ...]
    reasons: Mapping[str, str]
    """Family without questions -> a key of `REASONS`."""


REASONS: Mapping[str, str] = {
    "no_branch": "Every statement that ran led straight to the next one in the text.",
    "no_assignment": "No step binds or changes a variable to anything but a literal.",
    "told": "A comment, a docstring or a statement outside functions shows the call with its output.",
    "not_sampled": "What could be asked is over the limit on some common answer, or not wanted.",
    **{name: f"Most candidates break this rule: {rule.sentence}" for name, rule in RULES.items()},
}
"""Why a program gets no question of a family."""
