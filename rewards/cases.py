"""The tests of a `unittest` spec, read once, and the verdict on one run of one of them.

Covers pairs of input and output: what is sent, what is expected, and whether what came back is it.
Does not cover what is run when (`rewards.unittests`) nor `check` programs (`rewards.checking`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rewards.candidates import Prelude
from rewards.checking import COURIER, Verdict, argument_list
from rewards.outputs import Equality, OutputRule, same_text, same_value
from rewards.row import Spec
from rewards.sandbox.jobs import ExecutionResult, Job, Limits
from rewards.values import ValueTextError, canonical, parse

__all__ = ["Case", "Plan", "TestPolicy", "judged", "plan_of"]

MAX_INPUT_CHARS = 7 << 20
"""Longest text for stdin, in characters: what the sandbox takes, with room for a program."""

_LONG_CHARS = 5_000  # half of what a canonical text may have
_LIMITS = Limits(cpu_seconds=4.0, wall_seconds=20.0)
_EXITED_WELL = ("", "None", "0", "False")  # message of SystemExit
_LEFT_WELL = "left without a result (exit status 0)"  # os._exit(0)


@dataclass(frozen=True)
class TestPolicy:
    """How tests are run and compared."""

    __test__ = False  # the name is not for pytest

    equality: Equality = "json"
    """When a returned value is the expected one: see `rewards.outputs`."""
    output: OutputRule = "lines"
    """When a printed text is the expected one: see `rewards.outputs`."""
    tolerance: float = 0.0
    """Floats and printed decimals may differ by this, absolutely or relatively; >= 0, 0 for not."""
    prelude: Prelude = "solution"
    """Which programs find the usual names of `typing`, `collections`, `math`, … imported: those whose
    class Solution is called, all whose function is called, or none."""
    stop_at_failure: bool = False
    """Whether tests after the first that is not passed stay `not_run`: for all-or-nothing rewards."""
    max_timeouts: int | None = None
    """Once so many tests have timed out, >= 1, those left stay `not_run`; None for no such bound. A
    program that never ends otherwise costs its budget on every test."""
    limits: Limits = _LIMITS
    """For each test, where the spec does not say otherwise."""

    def __post_init__(self) -> None:
        choices = {
            "equality": ("json", "strict", "python"),
            "output": ("lines", "tokens"),
            "prelude": ("solution", "always", "never"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                given = getattr(self, name)
                raise ValueError(f"{name} is {given!r}, expected one of {', '.join(known)}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance is {self.tolerance!r}, expected a number >= 0")
        if self.max_timeouts is not None and self.max_timeouts < 1:
            raise ValueError(f"max_timeouts is {self.max_timeouts!r}, expected None or >= 1")


# ---------------------------------------------------------------------------------------------
# Tests


@dataclass(frozen=True)
class Case:
    """One pair of input and expected output."""

    input: str = ""
    """Text for stdin, or the argument list of the call."""
    text: str | None = None
    """Expected on stdout; None for a call."""
    value: Any = None
    """Expected of a call, decoded."""
    written: str = ""
    """Canonical text of `value`."""
    unusable: str = ""
    """Why nothing can be said about this test; empty if something can."""

    @property
    def long(self) -> bool:
        return len(self.written) > _LONG_CHARS

    def job(self, code: str, entry: str | None, limits: Limits) -> Job:
        if self.text is not None:
            return Job(code, stdin=self.input, limits=limits)
        recorder = COURIER if self.long else None
        return Job(code, entry, self.input, limits=limits, recorder=recorder)


@dataclass(frozen=True)
class Plan:
    """The tests of a spec, read once for all its completions."""

    cases: tuple[Case, ...]
    entry: str | None
    """The function that is called; None for a program on stdin and stdout."""
    check: str | None = None
    name: str = ""
    """By which a check may know the candidate."""
    output_bytes: int = 0
    """Room for the longest expected output. One bound for all tests, in powers of two: the guest might
    find it, and should not learn more."""


@lru_cache(maxsize=64)
def plan_of(spec: Spec) -> Plan:
    """The tests of a spec. Raises ValueError if it is of another task."""
    tests = spec.tests
    if tests is None:
        raise ValueError(f"a spec of the task {spec.task!r}, expected 'unittest'")
    if tests.check is not None:
        if not spec.entry.isidentifier():
            case = Case(unusable="a check without 'entry', the name of the function to check")
            return Plan((case,), None)
        return Plan((Case(),), spec.entry, tests.check, spec.entry)
    pairs = list(zip(tests.inputs, tests.outputs, strict=True))
    if tests.fn_name is None:
        if not any(output.strip() for output in tests.outputs):
            return Plan(_all_unusable(pairs, "every expected output is blank"), None)
        longest = max(len(output.encode("utf-8", "surrogatepass")) for output in tests.outputs)
        room = 1 << (2 * longest + 4096).bit_length()
        return Plan(tuple(_script_case(*pair) for pair in pairs), None, output_bytes=room)
    name = tests.fn_name.rpartition("Solution.")[2].rpartition("Solution().")[2]
    if not name.isidentifier():
        return Plan(_all_unusable(pairs, f"fn_name {name!r} is not the name of a function"), None)
    cases = tuple(_call_case(given, text) for given, text in pairs)
    usable = [case for case in cases if not case.unusable]
    if usable and all(case.value is None for case in usable):
        return Plan(_all_unusable(pairs, "every expected value is null"), None)
    return Plan(cases, name)


def _all_unusable(pairs: Sequence[object], why: str) -> tuple[Case, ...]:
    return (Case(unusable=why),) * len(pairs)


def _script_case(given: str, expected: str) -> Case:
    if len(given) > MAX_INPUT_CHARS:
        return Case(unusable=f"an input of more than {MAX_INPUT_CHARS} characters")
    return Case(given, expected)


def _call_case(given: str, expected: str) -> Case:
    try:
        args = _json_values(given)
    except ValueError as error:
        return Case(unusable=f"the input {_shown(given)} is not one JSON value per line: {error}")
    try:
        value = json.loads(expected)
        # As long as a value may be that the courier carries.
        written = canonical(value, max_chars=8 << 20, max_depth=90)
        return Case(argument_list(args, {}), None, value, written)
    except (ValueError, RecursionError) as error:
        return Case(unusable=f"the expected output cannot be compared: {error}")


def _json_values(text: str) -> list[Any]:
    """The JSON values of a text: one per line, else the whole as one. Raises ValueError."""
    try:
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        try:
            return [json.loads(text)]
        except RecursionError as error:
            raise ValueError(str(error)) from None


# ---------------------------------------------------------------------------------------------
# Judging


def judged(case: Case, result: ExecutionResult, policy: TestPolicy) -> Verdict:
    """The verdict on one run of one case."""
    if case.text is not None:
        return replace(_judged_script(case.text, result, policy), seconds=result.wall_seconds)
    return replace(_judged_call(case, result, policy), seconds=result.wall_seconds)


def _judged_script(expected: str, result: ExecutionResult, policy: TestPolicy) -> Verdict:
    exited = result.error_type == "SystemExit" and result.error_message in _EXITED_WELL
    left = result.outcome == "killed" and result.detail == _LEFT_WELL
    if result.outcome != "returned" and not exited and not left:
        return _failed(result)
    rule, tolerance = policy.output, policy.tolerance
    if same_text(expected, result.stdout, rule=rule, tolerance=tolerance):
        return Verdict("passed")
    return Verdict("wrong", f"printed {_shown(result.stdout)}")


def _judged_call(case: Case, result: ExecutionResult, policy: TestPolicy) -> Verdict:
    if result.outcome != "returned":
        return _failed(result)
    if result.value is not None and result.value == case.written and not case.long:
        return Verdict("passed")
    try:
        given = _returned(case, result)
    except (ValueError, RecursionError):
        why = result.unrepresentable or result.detail or "a value that cannot be read"
        return Verdict("unrepresentable", f"returned no plain value: {why}"[:300])
    rules = {"equality": policy.equality, "tolerance": policy.tolerance}
    if same_value(case.value, given, **rules):  # type: ignore[arg-type]
        return Verdict("passed")
    shown = _shown(result.value or "") if not case.long else "another value"
    return Verdict("wrong", f"returned {shown}")


def _returned(case: Case, result: ExecutionResult) -> Any:
    """The value that a call gave back. Raises ValueError if there is none of plain types."""
    if not case.long:
        if result.value is None:
            raise ValueTextError("no value")
        return parse(result.value, max_depth=90)
    record = json.loads(result.record or "{}")
    if not isinstance(record, dict) or "value" not in record:
        raise ValueTextError("no value")
    return record["value"]


def _failed(result: ExecutionResult) -> Verdict:
    if result.outcome == "raised":
        message = f": {result.error_message[:200]}" if result.error_message else ""
        return Verdict("raised", f"raised {result.error_type}{message}")
    return Verdict(result.outcome, result.detail)


def _shown(text: str, limit: int = 80) -> str:
    return ascii(text if len(text) <= limit else text[:limit] + "...")
