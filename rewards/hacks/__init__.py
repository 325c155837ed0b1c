"""Hack templates: ways to be paid without knowing the answer, to be tried on every row of a dataset.

Each is wrong by construction for the row it is built for, or comes with the most that it may earn.
`rewards.audit` tries them.
"""

from __future__ import annotations

from rewards.hacks import completions, inputs, outputs, programs, questions
from rewards.hacks.records import Attempt, Case, Template, cases_of

__all__ = ["TEMPLATES", "Attempt", "Case", "Template", "cases_of"]

TEMPLATES: tuple[Template, ...] = (
    *outputs.TEMPLATES,
    *inputs.TEMPLATES,
    *questions.TEMPLATES,
    *completions.TEMPLATES,
    *programs.TEMPLATES,
)
"""All of them. Names are unique among the templates of a task."""
