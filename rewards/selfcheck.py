"""The self-test: known right and wrong answers of every task, scored where trainers score them.

    rewards.selftest()          # raises SelfTestError if anything differs

Rewards that time out by signals, or lean on a process pool, fail without a word off the main thread: every
score is 0 and the run goes on. So the answers are scored in a worker thread and in an event loop, at the
same time, through `rewards.whitebox` and `rewards.unittests`, and every one must come out as expected.
Call it at the start of a run.

Not covered: how well programs are held in (`rewards.sandbox.guarantees`), speed, datasets
(`rewards.audit`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

__all__ = ["CASES", "Case", "SelfTest", "SelfTestError", "selftest"]


class SelfTestError(RuntimeError):
    """Answers were not scored as they must be: names each, with what was expected and what was found."""


@dataclass(frozen=True)
class Case:
    """One answer whose score is known."""

    name: str
    spec: dict[str, Any]
    answer: str
    """What stands between the answer tags."""
    score: float
    """What `rewards.whitebox.reward` must give."""

    @property
    def completion(self) -> str:
        """The answer as a model writes it."""
        return f"<reasoning>\nStep by step.\n</reasoning>\n<answer>\n{self.answer}\n</answer>"


@dataclass(frozen=True)
class SelfTest:
    """A self-test that passed."""

    answers: int
    """How many answers were scored, all as expected."""
    seconds: float
    """Wall time."""

    def __str__(self) -> str:
        return f"selftest: {self.answers} scores as expected, in {self.seconds:.1f} s"


_LOOP = "def f(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total"
_TWICE = {"schema": 1, "task": "unittest", "instruction": "Double a number.", "entry": "f"}
_OUTPUT = {"schema": 1, "task": "output", "code": _LOOP, "entry": "f", "args": "4", "output": "6"}
_INPUT = {**_OUTPUT, "task": "input", "args": "????", "output": "10"}
_WHITEBOX = {
    **_OUTPUT,
    "task": "whitebox",
    "questions": [
        {"kind": "next_statement", "line": 4, "visit": 4, "answers": ["    for i in range(n):"]},
        {
            "kind": "value",
            "line": 4,
            "visit": 3,
            "variable": "total",
            "answers": [{"value": "3", "type": "int"}],
        },
    ],
}
_CALLS = {**_TWICE, "tests": {"fn_name": "f", "inputs": ["1", "2"], "outputs": ["2", "4"]}}
_SHORT = {
    **_TWICE,
    "tests": {"fn_name": "f", "inputs": ["1"], "outputs": ["2"]},
    "limits": {"cpu_seconds": 0.1},
}
_STDIN = {**_TWICE, "tests": {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "4\n"]}}
_CHECK = {
    **_TWICE,
    "tests": {"check": "def check(candidate):\n    assert candidate(2) == 4\n"},
}
_RIGHT = "```python\ndef f(x):\n    return 2 * x\n```"
_WRONG = "```python\ndef f(x):\n    return x + 1\n```"

CASES: tuple[Case, ...] = (
    Case("output, right", _OUTPUT, "assert f(4) == 6", 2.0),
    Case("output, wrong value", _OUTPUT, "assert f(4) == 7", 0.0),
    Case("output, wrong type", _OUTPUT, "assert f(4) == 6.0", 0.0),
    Case("output, a call that would give the value", _OUTPUT, "assert f(4) == f(4)", 0.0),
    Case("input, right", _INPUT, "assert f(5) == 10", 2.0),
    Case("input, wrong", _INPUT, "assert f(4) == 10", 0.0),
    Case("input, no literal", _INPUT, "assert f(2 + 3) == 10", 0.0),
    Case("whitebox, right", _WHITEBOX, "assert f(4) == 6\nfor i in range(n):\n3; int", 2.0),
    Case("whitebox, half", _WHITEBOX, "assert f(4) == 6\nfor i in range(n):\n4; int", 1.5),
    Case("whitebox, wrong", _WHITEBOX, "assert f(4) == 5\nfor i in range(n):\n3; int", 0.0),
    Case("calls, right", _CALLS, _RIGHT, 1.0),
    Case("calls, half", _CALLS, _WRONG, 0.5),
    Case("calls, exits", _CALLS, "```python\nimport os\nos._exit(0)\n```", 0.0),
    Case(
        "calls, does not end",
        _SHORT,
        "```python\ndef f(x):\n    while True:\n        x += 1\n```",
        0.0,
    ),
    Case("stdin, right", _STDIN, "```python\nprint(2 * int(input()))\n```", 1.0),
    Case("stdin, wrong", _STDIN, "```python\nprint(0)\n```", 0.0),
    Case("check, right", _CHECK, _RIGHT, 1.0),
    Case("check, wrong", _CHECK, _WRONG, 0.0),
)
"""What is scored."""


def selftest(cases: Sequence[Case] = CASES) -> SelfTest:
    """Score known answers from a worker thread and from an event loop.

    Works from any thread, also inside a running event loop, in a second or two. Raises
    `SelfTestError` naming every answer that is not scored as expected.
    """
    started = time.perf_counter()
    with ThreadPoolExecutor(2, thread_name_prefix="rewards-selftest") as threads:
        ways = {
            "in a worker thread": threads.submit(_in_thread, cases),
            "in an event loop": threads.submit(lambda: asyncio.run(_in_loop(cases))),
        }
    differing: list[str] = []
    for way, future in ways.items():
        try:
            scores = future.result()
        except Exception as error:
            differing.append(f"{way}: {type(error).__name__}: {error}")
            continue
        differing += [f"{way}: {text}" for text in _differing(cases, *scores)]
    if differing:
        raise SelfTestError(
            "the self-test of the rewards failed, so do not train with them here:\n  "
            + "\n  ".join(differing)
        )
    return SelfTest(len(ways) * 2 * len(cases), time.perf_counter() - started)


_Scores = tuple["list[float | None]", "list[float | None]"]


def _in_thread(cases: Sequence[Case]) -> _Scores:
    from rewards import unittests, whitebox

    completions, specs = [case.completion for case in cases], [case.spec for case in cases]
    return whitebox.reward(completions, specs), unittests.reward(completions, specs)


async def _in_loop(cases: Sequence[Case]) -> _Scores:
    from rewards import unittests, whitebox

    completions, specs = [case.completion for case in cases], [case.spec for case in cases]
    one, other = await asyncio.gather(
        whitebox.reward_async(completions, specs), unittests.reward_async(completions, specs)
    )
    return one, other


def _differing(
    cases: Sequence[Case], whole: list[float | None], tests: list[float | None]
) -> list[str]:
    found = []
    for case, one, other in zip(cases, whole, tests, strict=True):
        if one != case.score:
            found.append(_told("rewards.whitebox.reward", case, case.score, one))
        expected = case.score if case.spec["task"] == "unittest" else None
        if other != expected:
            found.append(_told("rewards.unittests.reward", case, expected, other))
    return found


def _told(reward: str, case: Case, expected: float | None, found: float | None) -> str:
    """One difference, with what the grader says of it now."""
    from rewards.grading import grade
    from rewards.row import Spec

    graded = grade(Spec.from_json(case.spec), case.completion)
    parts = [part for part in (graded.io, graded.tests, *graded.questions) if part is not None]
    why = "; ".join(f"{part.status}: {part.reason}" for part in parts if part.reason)
    text = f"{reward}, {case.name}: expected {expected}, got {found}"
    return f"{text} ({why})" if why else text
