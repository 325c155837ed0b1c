"""Rewards for code execution reasoning: they grade what a model answers about a program.

Any trainer can call them: this package imports the standard library only. Importing it loads none
of its modules; each public name is loaded on first use.

    from rewards import Spec, canonical, equal, parse

- `rewards.values`: canonical text of a Python value, back without `eval`, equality.
- `rewards.row`: `Row`, `Question`, and `Spec`, the JSON that holds all a reward needs.
- `rewards.sandbox`: runs programs that nobody trusts.
- `rewards.grading`: what a completion's answers are worth, each with a reason.
- `rewards.whitebox`, `rewards.unittests`: the reward callables that a trainer is pointed at.
- `rewards.adapters`: the same for trainers that call with another signature.
- `rewards.selftest()`: scores known answers and fails loudly; call it at the start of a run.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

    from rewards import (
        adapters,
        grading,
        row,
        sandbox,
        selfcheck,
        shapes,
        unittests,
        values,
        whitebox,
    )
    from rewards.grades import Grade, Graded, Policy
    from rewards.grading import grade, grade_all, same_statement
    from rewards.row import SCHEMA_VERSION, Question, Row, RowError, Spec, SpecError
    from rewards.sandbox import (
        ExecutionResult,
        Job,
        Limits,
        SandboxError,
        SandboxPool,
        guarantees,
        run,
        run_group,
    )
    from rewards.selfcheck import SelfTestError, selftest
    from rewards.shapes import maximum, total
    from rewards.unittests import TestPolicy, TestsGrade, UnitTestReward, grade_tests
    from rewards.values import Unrepresentable, ValueTextError, canonical, equal, parse, type_name
    from rewards.whitebox import Reward, score

_HOME = {
    "SCHEMA_VERSION": "row",
    "Question": "row",
    "Row": "row",
    "RowError": "row",
    "Spec": "row",
    "SpecError": "row",
    "ExecutionResult": "sandbox",
    "Job": "sandbox",
    "Limits": "sandbox",
    "SandboxError": "sandbox",
    "SandboxPool": "sandbox",
    "guarantees": "sandbox",
    "run": "sandbox",
    "run_group": "sandbox",
    "Grade": "grades",
    "Graded": "grades",
    "Policy": "grades",
    "grade": "grading",
    "grade_all": "grading",
    "same_statement": "grading",
    "maximum": "shapes",
    "total": "shapes",
    "TestPolicy": "unittests",
    "TestsGrade": "unittests",
    "UnitTestReward": "unittests",
    "grade_tests": "unittests",
    "SelfTestError": "selfcheck",
    "selftest": "selfcheck",
    "Reward": "whitebox",
    "score": "whitebox",
    "Unrepresentable": "values",
    "ValueTextError": "values",
    "canonical": "values",
    "equal": "values",
    "parse": "values",
    "type_name": "values",
}
_MODULES = (
    *("adapters", "grading", "row", "sandbox", "selfcheck", "shapes", "unittests", "values"),
    "whitebox",
)

__all__ = [
    "SCHEMA_VERSION",
    "ExecutionResult",
    "Grade",
    "Graded",
    "Job",
    "Limits",
    "Policy",
    "Question",
    "Reward",
    "Row",
    "RowError",
    "SandboxError",
    "SandboxPool",
    "SelfTestError",
    "Spec",
    "SpecError",
    "TestPolicy",
    "TestsGrade",
    "UnitTestReward",
    "Unrepresentable",
    "ValueTextError",
    "adapters",
    "canonical",
    "equal",
    "grade",
    "grade_all",
    "grade_tests",
    "grading",
    "guarantees",
    "maximum",
    "parse",
    "row",
    "run",
    "run_group",
    "same_statement",
    "sandbox",
    "score",
    "selfcheck",
    "selftest",
    "shapes",
    "total",
    "type_name",
    "unittests",
    "values",
    "whitebox",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # found without this function from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
