"""Rewards for code execution reasoning: they grade what a model answers about a program.

Any trainer can call them: this package imports the standard library only. Importing it loads none
of its modules; each public name is loaded on first use.

    from rewards import Spec, canonical, equal, parse

- `rewards.values`: canonical text of a Python value, back without `eval`, equality.
- `rewards.row`: `Row`, `Question`, and `Spec`, the JSON that holds all a reward needs.
- `rewards.sandbox`: runs programs that nobody trusts.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from `typing`, which is slow to load
if TYPE_CHECKING:
    from typing import Any

    from rewards import row, sandbox, values
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
    from rewards.values import Unrepresentable, ValueTextError, canonical, equal, parse, type_name

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
    "Unrepresentable": "values",
    "ValueTextError": "values",
    "canonical": "values",
    "equal": "values",
    "parse": "values",
    "type_name": "values",
}
_MODULES = ("row", "sandbox", "values")

__all__ = [
    "SCHEMA_VERSION",
    "ExecutionResult",
    "Job",
    "Limits",
    "Question",
    "Row",
    "RowError",
    "SandboxError",
    "SandboxPool",
    "Spec",
    "SpecError",
    "Unrepresentable",
    "ValueTextError",
    "canonical",
    "equal",
    "guarantees",
    "parse",
    "row",
    "run",
    "run_group",
    "sandbox",
    "type_name",
    "values",
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
