"""No cheat is paid and no right answer refused: our own corpus, and the shared one when it is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hacks import DEBATABLE, cases
from sandboxed import SHARED

from rewards.grades import Graded, Policy
from rewards.grading import grade, grade_all
from rewards.row import Spec
from rewards.shapes import maximum, total

CORPUS = SHARED / "cases" / "reward_hacks.jsonl"


def part(graded: Graded) -> float | None:
    """What the bound of a case speaks of: io, w or tests, never the shaped total."""
    if graded.task == "unittest":
        return graded.tests.score if graded.tests else None
    if graded.task == "whitebox":
        return graded.w
    return graded.io.score if graded.io else None


@pytest.fixture(scope="module")
def own() -> dict[str, tuple[float, Graded, Spec]]:
    every = cases()
    pairs = [(Spec.from_json(spec), completion) for _, spec, completion, _ in every]
    graded = grade_all(pairs)
    return {
        name: (most, one, spec)
        for (name, _, _, most), one, (spec, _) in zip(every, graded, pairs, strict=True)
    }


def test_the_corpus_is_large_and_every_case_has_a_name_of_its_own() -> None:
    names = [name for name, *_ in cases()]
    assert len(names) == len(set(names))
    assert sum(most < 1.0 for *_, most in cases()) >= 100
    assert sum(most == 1.0 for *_, most in cases()) >= 50


@pytest.mark.parametrize("name", [name for name, *_ in cases()])
def test_own_corpus(name: str, own: dict[str, tuple[float, Graded, Spec]]) -> None:
    most, graded, spec = own[name]
    assert part(graded) == most, graded
    shaped = total(spec.shape, graded)
    assert shaped is not None
    assert (shaped == maximum(spec.shape, spec)) == (most == 1.0 and graded.status == "right")


def shared_lines(*tasks: str) -> Iterator[dict[str, Any]]:
    if CORPUS.exists():
        for line in CORPUS.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            if record["spec"]["task"] in tasks:
                yield record


ENDLESS = {"unittest-021", "unittest-023"}
"""Lines that use up the budget of every test: half a minute each, so they run with --runslow."""


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not there")
@pytest.mark.parametrize(
    "tasks",
    [
        ("output", "whitebox"),
        ("input",),
        ("unittest",),
        pytest.param(("endless",), marks=pytest.mark.slow),
    ],
    ids=lambda tasks: "+".join(tasks),
)
def test_shared_corpus(tasks: tuple[str, ...]) -> None:
    """Cheats stay at or below their fraction, undisputed right answers reach it."""
    lines = list(shared_lines("unittest" if tasks == ("endless",) else tasks[0], *tasks))
    if "unittest" in lines[0]["spec"]["task"]:
        lines = [line for line in lines if (line["id"] in ENDLESS) == (tasks == ("endless",))]
    assert lines
    graded = grade_all([(Spec.from_json(line["spec"]), line["completion"]) for line in lines])
    for line, one in zip(lines, graded, strict=True):
        if line["debatable"]:
            continue
        paid = part(one)
        assert paid is not None, (line["id"], one)
        if line["right"]:
            assert paid == line["fraction"], (line["id"], one)
        else:
            assert paid <= line["fraction"], (line["id"], one)


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not there")
def test_every_debatable_line_is_decided_by_the_policy_that_the_table_names() -> None:
    lines = {
        line["id"]: line
        for line in shared_lines("output", "input", "whitebox", "unittest")
        if line["debatable"]
    }
    assert sorted(lines) == sorted(DEBATABLE)
    for name, line in lines.items():
        spec, (needs, _) = Spec.from_json(line["spec"]), DEBATABLE[name]
        if needs is not None:
            assert part(grade(spec, line["completion"], policy=Policy(**needs))) == 1.0, name
        strict = Policy(program=False, tests="all")
        paid = part(grade(spec, line["completion"], policy=strict))
        assert paid == (1.0 if needs == {} else 0.0), name
