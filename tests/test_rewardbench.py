"""`synth bench reward`: that its ways agree, that its loads are what they say, and its figures.

The ratios themselves say something only on a quiet machine; here they must be there, be consistent, and
come from verdicts that are right.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine, Environment

from rewards.grading import grade_all
from synth import rewardbench
from synth.bench import Call
from synth.rewardbench import (
    GROUP,
    SHARES,
    different_items,
    forget,
    input_items,
    output_items,
    whitebox_items,
)
from synth.rewardbench import (
    test_items as items_of_tests,
)

COUNT = """\
def f(xs, k):
    total = 0
    for x in xs:
        if x > k:
            total += x
    return total
"""
CALLS = [
    Call(COUNT, "f", "[3, 1, 4], 2", "7"),
    Call("def f(s):\n    return s[::-1]\n", "f", "'ab'", "'ba'"),
]
INPUTS = [
    [("[3, 1, 4], 2", "7"), ("[3, 1], 2", "3"), ("[], 2", "0"), ("[9], 2", "9"), ("[7], 2", "7")],
    [("'ab'", "'ba'"), ("'x'", "'x'"), ("''", "''"), ("'abc'", "'cba'")],
]


def test_loads_are_as_described_and_graded_as_expected() -> None:
    every = {
        "output": output_items(CALLS),
        "whitebox": whitebox_items(CALLS[:1]),
        "input": input_items(CALLS, INPUTS),
        "different": different_items(CALLS, INPUTS),
        "calls": items_of_tests(CALLS, INPUTS, stdin=False),
        "stdin": items_of_tests(CALLS, INPUTS, stdin=True),
    }
    sizes = {name: len(items) for name, items in every.items()}
    assert sizes == {
        "output": 2 * GROUP, "whitebox": GROUP, "input": 2 * sum(SHARES), "different": 9, "calls": 4,
        "stdin": 4,
    }  # fmt: skip
    for name, items in every.items():
        right = sum(item.right for item in items)
        assert 0 < right < len(items), name
        graded = grade_all([(item.spec, item.completion) for item in items])
        assert [one.status == "right" for one in graded] == [item.right for item in items], name
    assert len({item.completion for item in every["input"]}) == 2 * len(SHARES)
    assert all(len(item.stdin) >= 3 for item in every["stdin"])


def test_arguments_that_no_answer_may_give_are_left_out() -> None:
    """Some stored rows hold arithmetic or names; the grader refuses them in an answer."""
    inputs = [[(args.replace("4]", "2 + 2]"), output) for args, output in INPUTS[0]], *INPUTS[1:]]
    inputs[0][1] = ("XS[:], 2", "3")
    calls = [Call(COUNT, "f", inputs[0][0][0], "7"), *CALLS[1:]]
    # Of the first program, whose own arguments hold arithmetic, there is no group.
    assert {item.spec.code for item in input_items(calls, inputs)} == {CALLS[1].code}
    found = different_items(calls, inputs)
    assert {item.spec.code for item in found} == {call.code for call in calls}
    assert not any("2 + 2" in item.completion or "XS" in item.completion for item in found)


def test_each_way_starts_without_knowing_the_rows() -> None:
    from rewards.grading import _truth

    grade_all([(item.spec, item.completion) for item in output_items(CALLS)])
    forget()
    assert _truth.cache_info().currsize == 0


def test_figures_as_json_and_as_a_table(command_line: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    records = [{"code": call.code, "input": call.args, "output": call.output} for call in CALLS]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    done = command_line("bench", "reward", str(path), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data["baseline"] == rewardbench.BASELINE
    by_load: dict[str, list[dict[str, Any]]] = {}
    for way in data["ways"]:
        by_load.setdefault(way["load"], []).append(way)
        assert set(way) == {
            "load", "way", "holds", "completions", "cpu_seconds", "ratio", "wrong",
        }  # fmt: skip
        assert way["wrong"] == 0, way
        assert way["holds"]
    assert len(by_load) == 6
    for ways in by_load.values():
        assert ways[0]["way"] == "usual way"
        assert ways[0]["ratio"] == 1.0
        assert len({way["way"] for way in ways}) == len(ways) >= 2
        for way in ways:
            assert way["ratio"] == pytest.approx(
                ways[0]["cpu_seconds"] / way["cpu_seconds"], rel=0.01, abs=0.006
            )
    assert data["import_ms"]["added"] < 50
    parsed = [way for way in data["ways"] if way["holds"] == rewardbench.PARSED]
    assert len(parsed) == 2
    # Far below what a quiet machine gives, far above what starting anything would.
    assert all(way["ratio"] > 100 for way in parsed)


def test_importing_the_rewards_costs_next_to_nothing(environment: Environment) -> None:
    import sys

    times = rewardbench.import_times(sys.executable, repeats=3)
    assert times.added < 50
    assert times.empty > 0
    assert times.grading >= times.whitebox - 20
