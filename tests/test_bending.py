"""Bending: places, what bending does, and the verdict that a statement or an operation decides nothing."""

from __future__ import annotations

import pytest
from generated import programs

from rewards.sandbox import Job, SandboxPool, run
from synth.bending import BENT_ENTRY, bendable
from synth.catalogue import catalogue
from synth.executions import bend
from synth.source import read

IDLE = """
def f(text, limit):
    shown = max(len(text), 0)
    capped = min(limit, -1000)
    noise = str(text.upper())
    noise += 'x'
    if shown > 2:
        shown += len(noise) - len(noise)
    return (shown, capped)


print(f('abcd', 5))
"""


@pytest.fixture(scope="module")
def sandbox() -> SandboxPool:
    return SandboxPool(size=1)


def verdict(
    sandbox: SandboxPool, text: str, operation: str, inputs: list[str]
) -> tuple[list[int], bool]:
    source = read(text.lstrip())
    jobs = [Job(source.code, source.entry, args) for args in inputs]
    outputs = [str(result.value) for result in run(jobs)]
    idle, matters = bend(sandbox, source, catalogue().get(operation), inputs, outputs)
    return list(idle), matters


def test_statements_that_decide_nothing_are_named(sandbox: SandboxPool) -> None:
    idle, matters = verdict(sandbox, IDLE, "str.upper", ["'abcd', 5", "'x', 7"])
    assert idle == [4, 5]
    assert not matters


def test_a_statement_counts_if_one_input_shows_it(sandbox: SandboxPool) -> None:
    text = "def f(n):\n    m = n * 2\n    return m if n > 5 else n\n\nprint(f(9))\n"
    assert verdict(sandbox, text, "int.__mul__", ["9", "1"]) == ([], True)
    assert verdict(sandbox, text, "int.__mul__", ["2", "1"]) == ([2], False)


@pytest.mark.parametrize(
    ("text", "operation", "matters"),
    [
        ("def f(x):\n    x.append(len(x))\n    return x\n\nprint(f([1]))\n", "list.append", True),
        ("def f(x):\n    x.append(len(x))\n    return 1\n\nprint(f([1]))\n", "list.append", False),
        ("def f(x):\n    y = set(x)\n    y |= {9}\n    return len(y)\n\nprint(f([1]))\n", "set.__ior__", True),
        ("def f(x):\n    y = dict(x)\n    del y[1]\n    return y\n\nprint(f({1: 2}))\n",
         "dict.__delitem__[key]", True),
        ("def f(x):\n    return int(x < 9)\n\nprint(f(3))\n", "int.__lt__", True),
        ("def f(x):\n    return max(int(x < 9), 4)\n\nprint(f(3))\n", "int.__lt__", False),
    ],
)  # fmt: skip
def test_operations_with_and_without_a_value(
    sandbox: SandboxPool, text: str, operation: str, matters: bool
) -> None:
    args = text.rpartition("print(f(")[2].rstrip(")\n")
    assert verdict(sandbox, text, operation, [args])[1] is matters


def test_with_nothing_bent_the_copy_does_what_the_program_does() -> None:
    """Law over generated programs: place -1 changes neither value nor exception."""
    made = programs(60)
    plain = [Job(source.code, source.entry, source.args) for _, _, source in made]
    copies = [
        Job(bendable(source, constraint.operation).code, BENT_ENTRY, f"-1, {source.args}")
        for constraint, _, source in made
    ]
    for one, two in zip(run(plain), run(copies), strict=True):
        assert (one.outcome, one.value, one.error_type) == (two.outcome, two.value, two.error_type)


def test_every_assignment_and_effect_is_a_place() -> None:
    source = read(IDLE.lstrip())
    lines = [line for _, line in bendable(source, catalogue().get("str.upper")).statements]
    assert lines == [2, 3, 4, 5, 7]
