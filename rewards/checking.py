"""`check(candidate)` tests: two processes that meet in the host alone.

The check program runs in one sandboxed process, the candidate in others. The check reaches a stub
(`rewards/courier.py`) that knows answers; the host asks the candidate for those that are missing and
runs the check again, until it ends without missing one. So the candidate is handed argument values and
hands back text of a closed grammar, which the host reads and writes anew: it shares no object, frame,
module or descriptor with what judges it. Of a run that missed an answer only the questions count.

Covers check programs that define `check(candidate)`, and those that call the candidate at module level
by its own name or as `candidate`. What such a check can see of a candidate:

- the value of a call, of exactly the types of `rewards.values`; anything else ends the test as
  `unrepresentable`, which is not passed. The text of one value has at most 200,000 characters;
- the exception it raises, by name and message: builtin subclasses of Exception as such, all others
  (SystemExit too) as a new subclass of Exception of that name; StopIteration as RuntimeError;
- nothing it does to its arguments: a check of a function that works in place cannot be passed. It is
  the price for this: a candidate that empties a list before the check looks at it again gains nothing;
- no state: each call has a fresh namespace, and equal arguments are asked once.

`random` is seeded before each run of the check, if the check names it. A test is *not applicable* only
for what the check does by itself, before or whatever the candidate answers: it fails, calls nothing,
passes what is no plain value, or asks differently each time. A completion can never bring that about.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewards.candidates import may_loop
from rewards.rounds import Steps
from rewards.sandbox.jobs import ExecutionResult, Job, Limits
from rewards.values import Unrepresentable, ValueTextError, canonical, parse

__all__ = ["COURIER", "MAX_ROUNDS", "Verdict", "argument_list", "run_check"]

COURIER = str(Path(__file__).with_name("courier.py"))
"""The recorder that carries values; see there."""
MAX_ROUNDS = 256
"""How often a check may be run to learn what it asks next."""
MAX_CHECK_CHARS = 7 << 20
"""Characters of a check with all its questions and answers."""
MAX_VALUE_CHARS = 200_000
"""Characters of one value that a candidate returns."""
MAX_ARGUMENT_CHARS = 4 << 20
"""Characters of the arguments of one call."""
_ENTRY = "__check__"
_LONG = json.dumps({"max_chars": MAX_VALUE_CHARS})
_MAX_WALL_BUDGETS = 30  # wall-clock seconds of a whole check, in units of the limit of one call
_PARTS = (8, 64, 512)  # sizes of the parts in which the candidate is asked
_ENDED = ("timed_out", "memory_exceeded", "output_exceeded", "killed")


@dataclass(frozen=True)
class Verdict:
    """What came of one test."""

    outcome: str
    """`passed`, or why not: see `rewards.unittests.OUTCOMES`."""
    reason: str = ""
    seconds: float = 0.0
    """Wall-clock seconds in the sandbox, of all runs behind it."""


@dataclass(frozen=True)
class Asked:
    """The candidate as the check may ask it."""

    code: str
    entry: str
    limits: Limits


def run_check(source: str, name: str, asked: Asked) -> Steps:
    """Steps to the `Verdict` of a check program.

    Args:
        source: the check program.
        name: the name by which it may know the candidate, besides `candidate`.
        asked: the candidate.

    """
    answers: dict[str, list[Any]] = {}
    guess, seconds = True, 0.0
    for _ in range(MAX_ROUNDS):
        job = _check_job(source, name, answers, asked.limits, guess=guess)
        if len(job.code) + len(job.options) > MAX_CHECK_CHARS:
            outcome = "output_exceeded" if answers else "not_applicable"
            return Verdict(outcome, "the check and its answers are too long", seconds)
        (result,) = yield [job]
        seconds += result.wall_seconds
        record = _record(result)
        if record is None and guess and result.outcome in _ENDED:
            guess = False  # it may have gone astray on a guess
            continue
        verdict = _verdict(result, record, first=not answers)
        if verdict is not None:
            return Verdict(verdict.outcome, verdict.reason, seconds)
        assert record is not None
        first = not answers
        spent = yield from _ask(record["needs"], answers, asked)
        if spent is None:
            why = "the check calls the candidate with what is no plain value"
            return Verdict("not_applicable" if first else "wrong", why, seconds)
        seconds += spent
        if seconds > _MAX_WALL_BUDGETS * asked.limits.wall_seconds:
            return Verdict("timed_out", "the check takes too long in all", seconds)
    return (yield from _at_the_bound(source, name, asked, seconds))


def _at_the_bound(source: str, name: str, asked: Asked, seconds: float) -> Steps:
    """Too many rounds: is it the check, which asks differently each time?"""
    first, second = yield [
        _check_job(source, name, {}, asked.limits, again=again) for again in (1, 2)
    ]
    for result in (first, second):
        if result.outcome == "infrastructure":
            return Verdict("infrastructure", result.detail, seconds)
    if (_record(first) or {}).get("needs") != (_record(second) or {}).get("needs"):
        return Verdict("not_applicable", "the check asks differently each time", seconds)
    return Verdict("timed_out", f"the check does not end within {MAX_ROUNDS} rounds", seconds)


def _check_job(
    source: str,
    name: str,
    answers: Mapping[str, list[Any]],
    limits: Limits,
    *,
    guess: bool = True,
    again: int = 0,
) -> Job:
    """One run of the check; `again` only makes equal jobs different ones."""
    options = {"entry": name, "answers": answers, "guess": guess, "again": again}
    return Job(
        source,
        _ENTRY,
        limits=limits,
        recorder=COURIER,
        options=json.dumps(options, sort_keys=True),
        apart=True,
    )


def _record(result: ExecutionResult) -> dict[str, Any] | None:
    """What the courier reports; None if nothing. A candidate shares its process and may write nonsense."""
    try:
        record = json.loads(result.record or "null")
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _verdict(
    result: ExecutionResult, record: dict[str, Any] | None, *, first: bool
) -> Verdict | None:
    """The verdict of one run of the check; None if it missed answers."""
    if result.outcome == "infrastructure":
        return Verdict("infrastructure", result.detail)
    error = result.error_type or result.detail or result.outcome
    if record is None or (not record["needs"] and not record["calls"]):
        if first or result.outcome in ("returned", "raised"):
            why = (
                "calls no candidate"
                if result.outcome == "returned"
                else f"fails by itself: {error}"
            )
            return Verdict("not_applicable", f"the check {why}")
        timed = result.outcome == "timed_out"
        return Verdict("timed_out" if timed else "wrong", f"the check ended by {error}")
    if record["refused"] is not None:
        why = f"the check calls the candidate, but {record['refused']}"
        return Verdict("not_applicable" if first else "wrong", why)
    if record["stopped"] is not None:
        return Verdict(record["stopped"], "a call of the candidate ended so")
    if record["needs"]:
        return None
    if result.outcome == "returned":
        return Verdict("passed")
    # Not its message, which may name what was expected.
    return Verdict("wrong", f"the check raised {error}")


def _ask(
    needs: Sequence[str], answers: dict[str, list[Any]], asked: Asked
) -> Generator[list[Job], list[ExecutionResult], float | None]:
    """Put the candidate's answers to `needs` into `answers`; the seconds that took.

    None if arguments are no plain values. Where a call uses up its budget, those after its part wait:
    the check will most likely end at it.
    """
    try:
        texts = [_arguments(need) for need in needs]
    except ValueError:
        return None
    seconds, start = 0.0, 0
    first = (1,) if may_loop(asked.code) else ()
    for size in (*first, *_PARTS, len(needs)):
        part = slice(start, start + size)
        start += size
        if not texts[part]:
            break
        jobs = [Job(asked.code, asked.entry, text, limits=asked.limits) for text in texts[part]]
        results = yield jobs
        seconds += sum(result.wall_seconds for result in results)
        long = [number for number, result in enumerate(results) if _is_long(result)]
        if long:
            again = yield [
                replace(jobs[number], recorder=COURIER, options=_LONG) for number in long
            ]
            results = list(results)
            for number, result in zip(long, again, strict=True):
                results[number] = replace(result, value=(_record(result) or {}).get("value"))
        for need, result in zip(needs[part], results, strict=True):
            answers[need] = _answer(result)
        if any(result.outcome == "timed_out" for result in results):
            break
    return seconds


def _is_long(result: ExecutionResult) -> bool:
    """Whether a value was too long for the ordinary way. The guest says so, and gains nothing by it."""
    return "longer than" in (result.unrepresentable or "")


def _answer(result: ExecutionResult) -> list[Any]:
    """What the check is told of a call: [kind, text] or ["raised", class name, message]."""
    if result.outcome == "raised":
        return ["raised", result.error_type or "Exception", result.error_message]
    if result.outcome != "returned":
        return [result.outcome, None]
    if not isinstance(result.value, str):
        return ["unrepresentable", None]
    try:
        # The guest may have written anything; what the check evaluates is written here.
        value = parse(result.value, max_chars=MAX_VALUE_CHARS, max_depth=90)
        return ["value", canonical(value, max_chars=12 * MAX_VALUE_CHARS, max_depth=90)]
    except (ValueTextError, Unrepresentable):
        return ["unrepresentable", None]


@lru_cache(maxsize=256)
def _arguments(need: str) -> str:
    """The argument list of a call in a check. Raises ValueError if it holds no plain values."""
    call: Any = parse(need, max_chars=MAX_ARGUMENT_CHARS, max_depth=90)
    return argument_list(call[0], call[1])


_CONSTRUCTORS = {
    **{
        name: f"__import__('collections').{name}"
        for name in ("Counter", "OrderedDict", "defaultdict", "deque")
    },
    "Decimal": "__import__('decimal').Decimal",
    "Fraction": "__import__('fractions').Fraction",
    "datetime": "__import__('datetime')",
}
_CONSTRUCTED = re.compile(r"\b(" + "|".join(_CONSTRUCTORS) + r")\b")


def argument_list(args: Sequence[object], kwargs: Mapping[str, object]) -> str:
    """The text of an argument list that gives these values in any program.

    Raises ValueError (`Unrepresentable`) for what is no plain value.
    """
    texts = [canonical(value, max_chars=MAX_ARGUMENT_CHARS, max_depth=88) for value in args]
    named = {}
    for name, value in kwargs.items():
        if not name.isidentifier():
            raise Unrepresentable(f"the keyword {name!r}")
        named[name] = canonical(value, max_chars=MAX_ARGUMENT_CHARS, max_depth=88)
    parts = [*texts, *(f"{name}={text}" for name, text in named.items())]
    whole = ", ".join(parts)
    if len(whole) > MAX_ARGUMENT_CHARS:
        raise Unrepresentable(f"arguments of more than {MAX_ARGUMENT_CHARS} characters")
    constructors = sorted(set(_CONSTRUCTED.findall(whole)))
    if not constructors:
        return whole
    # Not every program imports them; `__import__` keeps such a call from sharing its process.
    given = ", ".join(_CONSTRUCTORS[name] for name in constructors)
    pairs = ", ".join(f"{name!r}: {text}" for name, text in named.items())
    head = f"(lambda {', '.join(constructors)}: "
    listed = f"*{head}[{', '.join(texts)}])({given})"
    return f"{listed}, **{head}{{{pairs}}})({given})" if named else listed
