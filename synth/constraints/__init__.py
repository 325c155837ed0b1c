"""What a program must contain: rules that are sentences for a model and checks for us, in one place.

Covers the fixed rules of every program, the structural rules of a level (paper, section on data
synthesis: nested calls, other methods, control-flow depth, call chain), the optional rules beyond the
paper, and the balanced enumeration of constraints. A rule is checked on the text (`violations`), or on
what happened when the program ran (`unmet`), or both. Does not find operations in a text (`sites.py`)
and does not run programs (`pipeline.py` gathers the `Evidence`).

In the order of reading: `records`, `fixed`, `structural`, `optional`, `rules`, `levels`.
"""

from synth.constraints.levels import (
    LIBRARY_SHARE,
    MAX_DEPTH,
    enumerate_constraints,
    level_depth,
    level_sentence,
    levels,
    operations_of,
    structure,
)
from synth.constraints.records import (
    CONTROL_KINDS,
    EXTRAS,
    Constraint,
    Evidence,
    Rule,
    Structure,
    Violation,
)
from synth.constraints.rules import RULES, rules_of, unmet, violations
from synth.constraints.structural import innermost, nested_site, other_operations

__all__ = [
    "CONTROL_KINDS",
    "EXTRAS",
    "LIBRARY_SHARE",
    "MAX_DEPTH",
    "RULES",
    "Constraint",
    "Evidence",
    "Rule",
    "Structure",
    "Violation",
    "enumerate_constraints",
    "innermost",
    "level_depth",
    "level_sentence",
    "levels",
    "nested_site",
    "operations_of",
    "other_operations",
    "rules_of",
    "structure",
    "unmet",
    "violations",
]
