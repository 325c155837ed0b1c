"""Run programs that nobody trusts, and say what happened.

`run` takes jobs and returns results in the same order; `run_group` makes many calls of one program
in one child. Both start what they need by themselves; `RemotePool` does the same on a server that
speaks SandboxFusion's HTTP API. Names are imported on first use, so that importing this package loads
no process machinery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rewards.sandbox.jobs import ExecutionResult, Guarantees, Job, Limits, Outcome
    from rewards.sandbox.pool import (
        SandboxError,
        SandboxPool,
        guarantees,
        run,
        run_async,
        run_group,
        run_groups,
    )
    from rewards.sandbox.remote import RemotePool

_HOME = {
    "ExecutionResult": "jobs",
    "Guarantees": "jobs",
    "Job": "jobs",
    "Limits": "jobs",
    "Outcome": "jobs",
    "RemotePool": "remote",
    "SandboxError": "pool",
    "SandboxPool": "pool",
    "guarantees": "pool",
    "run": "pool",
    "run_async": "pool",
    "run_group": "pool",
    "run_groups": "pool",
}

__all__ = [
    "ExecutionResult",
    "Guarantees",
    "Job",
    "Limits",
    "Outcome",
    "RemotePool",
    "SandboxError",
    "SandboxPool",
    "guarantees",
    "run",
    "run_async",
    "run_group",
    "run_groups",
]


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
