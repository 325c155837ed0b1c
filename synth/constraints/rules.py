"""All rules in one row, and the two questions that are asked of them.

`violations` asks about a text, `unmet` about what happened when the program ran. Neither runs programs:
`synth.executions` gathers the `Evidence`.
"""

from __future__ import annotations

from synth.constraints.fixed import FIXED
from synth.constraints.optional import OPTIONAL
from synth.constraints.records import Constraint, Evidence, Rule, Violation
from synth.constraints.structural import STRUCTURAL
from synth.source import Source

RULES: tuple[Rule, ...] = (*FIXED, *STRUCTURAL, *OPTIONAL)
"""Every rule, in the order of checking: cheap and common failures first."""


def rules_of(constraint: Constraint) -> tuple[Rule, ...]:
    """All rules that a program under this constraint must meet, in the order of checking."""
    return tuple(rule for rule in RULES if rule.applies(constraint))


def violations(constraint: Constraint, source: Source, *, first: bool = True) -> list[Violation]:
    """Rules that the text breaks; with `first`, at most one."""
    found: list[Violation] = []
    for rule in rules_of(constraint):
        detail = rule.static(constraint, source) if rule.static else None
        if detail is not None:
            found.append(Violation(rule.name, detail))
            if first:
                break
    return found


def unmet(
    constraint: Constraint, source: Source, kept: Evidence, drawn: Evidence | None = None
) -> list[Violation]:
    """Rules that the executions do not bear out.

    `kept` is what the inputs show that become rows; a rule about all that a program can do may also be
    shown by the inputs that were `drawn` and not kept.
    """
    found: list[Violation] = []
    for rule in rules_of(constraint):
        evidence = drawn if rule.over_drawn and drawn is not None else kept
        detail = rule.dynamic(constraint, source, evidence) if rule.dynamic else None
        if detail is not None:
            found.append(Violation(rule.name, detail))
    return found
