"""The law of the library, and whether the audit would notice a reward that breaks it.

Rows are written by hand so that every kind of value, question and test is there; a slow test makes
2,000 rows and audits them by the command line. What templates call wrong is checked by running the
programs here, without any part of the grader.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from conftest import CommandLine
from hacks import COUNT, ROWS
from hypothesis import given
from hypothesis import strategies as st
from strategies import values

import rewards.audit as auditing
from rewards.audit import SPELLINGS, TEMPLATES, AuditReport, audit, truth
from rewards.grades import Grade, Graded, Policy
from rewards.grading import grade, grade_all, same_statement
from rewards.hacks import Attempt, Case, Template, cases_of
from rewards.hacks.outputs import punned
from rewards.hacks.records import Missing, alike, near_miss, right_share, written
from rewards.row import Spec
from rewards.sandbox import SandboxError
from rewards.sandbox.jobs import ExecutionResult, Job
from rewards.shapes import maximum, total
from rewards.values import canonical, equal

ECHO = "def f(x):\n    return x"
VALUES = (
    *("0", "-7", "True", "None", "1.5", "0.0", "1e+20", "''", "'a\\'b; int'", "b'x'", "'{}'"),
    *("[]", "[1, [2.0]]", "(1,)", "(1, 'a', None)", "set()", "{1, 2}", "{'k': [True]}", "{}"),
    *("'\\n'", "'line\\nline'", "'caf\u00e9'", "float('nan')", "[float('inf')]", "(1+2j)"),
    "'(['",
)
BRANCHES = """\
def f(xs, limit):
    kept = []
    for x in xs:
        if x > limit:
            kept.append(' ' + str(x))
        elif x == 0:
            kept.clear()
    return kept
"""


def whitebox() -> dict[str, Any]:
    """A row with questions of many kinds, -1 and Nil among the answers."""

    def asked(kind: str, answer: Any, **where: Any) -> dict[str, Any]:
        return {"kind": kind, "answers": [answer], **where}

    return {
        "task": "whitebox",
        "code": BRANCHES,
        "entry": "f",
        "args": "[3, 1], 2",
        "output": "[' 3']",
        "questions": [
            asked("next_statement", "        if x > limit:", line=3, visit=1),
            asked("next_statement", "            kept.append(' ' + str(x))", line=4, visit=1),
            asked("next_statement", "-1", line=7, visit=1),
            asked("value", {"value": "[' 3']", "type": "list"}, line=5, visit=1, variable="kept"),
            asked("value", "Nil", line=7, visit=1, variable="kept"),
            asked("value", {"value": "1", "type": "int"}, line=3, visit=2, variable="x"),
            asked("visits", "3", line=3),
            asked("branch", "False", line=4, visit=2),
            asked("changed", "kept", line=5, visit=1),
        ],
    }


def unit_tests() -> list[dict[str, Any]]:
    calls = {"fn_name": "evens", "inputs": ["[1, 2, 4]", "[3]"], "outputs": ["[2, 4]", "[]"]}
    script = {"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]}
    check = "def check(candidate):\n    assert candidate([1, 2]) == [2]\n"
    return [
        {"task": "unittest", "instruction": "Keep even numbers.", "entry": "evens", "tests": calls},
        {"task": "unittest", "instruction": "Print the sum.", "tests": script},
        {"task": "unittest", "entry": "evens", "tests": {"check": check}},
    ]


def specs_of(records: Iterable[dict[str, Any]]) -> list[Spec]:
    return [Spec.from_json({"schema": 1, **record}) for record in records]


def echoes(task: str) -> list[dict[str, Any]]:
    """A row for each value; what goes in comes out."""
    return [
        {"task": task, "code": ECHO, "entry": "f", "args": text, "output": text} for text in VALUES
    ]


SHAPES = [{"name": name, "alpha": 0.3} for name in ("gated", "additive", "outcome", "process")]
ANSWERED = specs_of(
    [
        *echoes("output"),
        *echoes("input"),
        whitebox(),
        *[{**whitebox(), "shape": shape} for shape in SHAPES],
        *[row for row in ROWS.values() if row["args"] != "????"],
        {**ROWS["raises"], "task": "input"},
        {**ROWS["raises"], "questions": []},
    ]
)
TESTED = specs_of(unit_tests())


@pytest.fixture(scope="module")
def report() -> AuditReport:
    return audit([*ANSWERED, *TESTED])


# ------------------------------------------------------------------------------------- the law


def test_there_are_many_templates_and_every_one_applies_somewhere(report: AuditReport) -> None:
    assert len(TEMPLATES) >= 40
    names = Counter((task, one.name) for one in TEMPLATES for task in one.tasks)
    assert max(names.values()) == 1
    used = {name.partition(": ")[2] for name, count in report.tried.items() if count}
    assert {one.name for one in TEMPLATES} - used == set()
    assert report.templates == len(TEMPLATES)
    assert sum(report.tried.values()) == report.attempts > 5_000


def test_the_law_holds_for_every_kind_of_row(report: AuditReport) -> None:
    assert report.lawful, report.text()
    assert report.rows == len(ANSWERED) + len(TESTED) == sum(report.tasks.values())
    assert report.underivable == (f"row {report.rows}",)  # the check, of which no program follows


@pytest.mark.parametrize(
    "policy",
    [
        Policy(equality="python"),
        Policy(form="lenient"),
        Policy(answer_first=True),
        Policy(program=False, tests="all"),
    ],
    ids=str,
)
def test_the_law_holds_under_every_policy(policy: Policy) -> None:
    found = audit([*ANSWERED[::2], *TESTED[:1]], policy=policy)
    assert found.lawful, found.text()


def test_every_spelling_of_the_truth_earns_as_much_as_the_truth() -> None:
    used = set()
    for spec in ANSWERED:
        for spelling in SPELLINGS:
            completion = spelling.build(spec)
            if completion is not None:
                used.add(spelling.name)
                graded = grade(spec, completion)
                assert total(spec.shape, graded) == maximum(spec.shape, spec), completion
    assert used == {spelling.name for spelling in SPELLINGS}


def test_adjacent_literals_are_no_hack() -> None:
    (spec,) = specs_of([{**echoes("output")[0], "args": "'abcd'", "output": "'abcd'"}])
    (spelling,) = [one for one in SPELLINGS if one.name == "adjacent literals"]
    assert "'ab' 'cd'" in (spelling.build(spec) or "")
    assert all("'ab' 'cd'" not in str(_built(one, Case(spec, Policy()))) for one in TEMPLATES)


def _built(template: Template, case: Case) -> object:
    if case.spec.task not in template.tasks:
        return None
    attempt = template.build(case)
    return None if attempt is None else attempt.completion


# ---------------------------------------------------------------- an audit that would see nothing


def graded_as(spec: Spec, share: float) -> Graded:
    one = Grade(share, "right" if share == 1.0 else "wrong", "as it seems")
    if spec.task == "unittest":
        return Graded(spec.task, tests=one, format=1.0)
    return Graded(spec.task, one, (one,) * len(spec.questions), format=1.0)


def text_of(completion: object) -> str:
    return json.dumps(completion) if not isinstance(completion, str) else completion


GRADERS: dict[str, Callable[[Spec, object], float]] = {
    "pays all": lambda spec, completion: 1.0,
    "pays nothing": lambda spec, completion: 0.0,
    "looks for the value": lambda spec, completion: float(
        (spec.output or spec.raises or "") in text_of(completion)
    ),
    "looks for a comparison": lambda spec, completion: float(" == " in text_of(completion)),
    "looks for the call": lambda spec, completion: float(
        f"{spec.entry}({spec.args})" in text_of(completion)
    ),
}


def audited_by(
    monkeypatch: pytest.MonkeyPatch, grader: Callable[[Spec, object], float]
) -> AuditReport:
    def grade_like_that(pairs: Any, **_: Any) -> list[Graded]:
        return [graded_as(spec, grader(spec, completion)) for spec, completion in pairs]

    monkeypatch.setattr(auditing, "grade_all", grade_like_that)
    return audit([*ANSWERED, *TESTED[:2]])


@pytest.mark.parametrize("name", sorted(GRADERS))
def test_a_grader_that_can_be_cheated_breaks_the_law(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = audited_by(monkeypatch, GRADERS[name])
    assert not found.lawful
    if name == "pays nothing":
        assert not found.paid
        assert len(found.below) == found.truths
    else:
        assert len({one.template for one in found.paid}) >= 40
        assert all(one.score > one.most for one in found.paid)
    assert f"{len(found.paid):>12,}" in found.text()


def test_a_grader_that_pays_all_is_seen_on_every_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited_by(monkeypatch, GRADERS["pays all"])
    assert not found.below
    paid = {(one.id, one.template) for one in found.paid}
    bounds = [
        min(attempt.most.values())
        for spec, case in _cases()
        for template in TEMPLATES
        if spec.task in template.tasks and (attempt := template.build(case)) is not None
    ]
    # What is bound by 1 is a lazy answer that is right: one test, one question.
    assert len(paid) == sum(bound < 1.0 for bound in bounds) > 0.98 * len(bounds)


def _cases() -> list[tuple[Spec, Case]]:
    specs = [*ANSWERED, *TESTED[:2]]
    return list(zip(specs, cases_of(specs, Policy(), None), strict=True))


def run_it(spec: Spec, completion: object) -> float:
    """The usual way: the program and the first line of the answer are run; an exception is a no."""
    answer = text_of(completion).rpartition("<answer>\n")[2].partition("\n")[0]
    deadly = ("exit", "import", "open", "9**9", "10**11", "builtins", "globals", "[[[[")
    if spec.task != "output" or any(word in answer for word in deadly):
        return 0.0
    namespace: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an assertion that is always true
        try:
            exec(spec.code, namespace)
            exec(answer, namespace)
        except Exception:
            return 0.0
    return float("assert" in answer)


def test_the_usual_way_pays_what_the_audit_calls_hacks(monkeypatch: pytest.MonkeyPatch) -> None:
    found = audited_by(monkeypatch, run_it)
    paid = {one.template for one in found.paid}
    assert {
        "self-compare", "assertion in a string", "assertion of a tuple", "or True", "equal object",
        "member of itself", "entry rebound", "caught", "not equal", "type pun", "negative zero",
    } <= paid  # fmt: skip


# ------------------------------------------------------------------------- wrong by construction


@given(values())
def test_a_near_miss_is_another_value_for_python_and_as_text(value: Any) -> None:
    near = near_miss(value)
    assert near is not Missing
    if written(value) is not None and written(near) is not None:
        assert written(near) != written(value)
        assert not equal(near, value)
        assert not equal(near, value, "python")


@given(values())
def test_a_pun_is_equal_for_python_and_of_another_type_somewhere(value: Any) -> None:
    pun = punned(value)
    if pun is not Missing:
        assert pun == value or "nan" in repr(value).lower()
        assert not equal(pun, value)


def test_wrong_arguments_miss_when_the_program_runs_here() -> None:
    """By `exec`, `eval` and `==`: no part of the grader, the sandbox or the values."""
    specs = [spec for spec in ANSWERED if spec.task == "input"]
    cases = cases_of(specs, Policy(), None)
    assert sum(bool(case.wrong_args) for case in cases) > 0.9 * len(cases)
    for spec, case in zip(specs, cases, strict=True):
        target = None if spec.raises else eval(spec.output, {"nan": float("nan")})
        for args in case.wrong_args:
            namespace: dict[str, Any] = {}
            exec(spec.code, namespace)
            try:
                result = eval(f"{spec.entry}({args})", namespace)
            except Exception as error:
                assert type(error).__name__ != spec.raises
            else:
                assert spec.raises is not None or result != target


def test_a_constant_program_has_no_wrong_arguments_that_run() -> None:
    code = "def f(*args):\n    return 3"
    (spec,) = specs_of([{"task": "input", "code": code, "entry": "f", "args": "1", "output": "3"}])
    (case,) = cases_of([spec], Policy(), None)
    assert case.wrong_args == ()
    assert audit([spec]).lawful


def test_what_counts_as_alike_is_no_narrower_than_the_grader() -> None:
    lines = [
        line.strip() for code in (BRANCHES, COUNT) for line in code.split("\n") if line.strip()
    ]
    written_otherwise = [line.replace("'", '"').replace(" == ", "==") for line in lines]
    for one in [*lines, *written_otherwise]:
        for other in lines:
            if same_statement(one, other):
                assert alike(one, other), (one, other)
    assert sum(alike(a, b) for a in lines for b in lines) < len(lines) + 8


@given(st.data())
def test_values_that_are_equal_are_alike(data: st.DataObject) -> None:
    plain = st.recursive(
        st.integers(-3, 3) | st.booleans() | st.none() | st.sampled_from(["", "a", "; int", "'"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.dictionaries(st.integers(0, 3), inner, max_size=3)
        ),
        max_leaves=6,
    )
    one, other = data.draw(plain), data.draw(plain)
    if equal(one, other, "python"):
        name = type(one).__name__
        assert alike(f"{canonical(one)}; {name}", f"{canonical(other)}; {name}")


def test_lines_are_worth_what_they_answer() -> None:
    (spec,) = specs_of([whitebox()])
    case = Case(spec, Policy())
    assert right_share(spec.questions, case.lines) == 1.0
    assert right_share(spec.questions, ["-1"] * 9) == 1 / 9
    assert right_share(spec.questions, ["Nil"] * 9) == 1 / 9
    assert right_share(spec.questions, case.lines[:-1]) == 0.0
    for template in TEMPLATES:
        if "whitebox" in template.tasks:
            attempt = template.build(case)
            # Of a text in quotes over all lines those in the middle are what they are.
            lazy = attempt is None or attempt.most.get("w", 0.0) <= 0.5
            assert lazy or template.name == "in one text", template.name


# ------------------------------------------------------------------------------------ ground truth


def test_the_truth_of_unit_tests_answers_from_a_table() -> None:
    for spec in TESTED[:2]:
        completion = truth(spec)
        assert completion is not None
        assert grade(spec, completion).status == "right"
    assert truth(TESTED[2]) is None


def test_tests_that_contradict_each_other_have_no_truth() -> None:
    tests = {"fn_name": "f", "inputs": ["1", "1 "], "outputs": ["2", "3"]}
    (spec,) = specs_of([{"task": "unittest", "entry": "f", "tests": tests}])
    assert truth(spec) is None
    assert audit([("twice", spec)]).underivable == ("twice",)


def test_an_input_row_without_arguments_has_no_truth_and_is_still_audited() -> None:
    (spec,) = specs_of([ROWS["pair"]])
    assert spec.args == "????"
    found = audit([("hidden", spec)])
    assert found.lawful
    assert (found.truths, found.underivable) == (0, ("hidden",))
    assert found.attempts > 20


def test_a_false_ground_truth_is_seen_where_it_is_run() -> None:
    (spec,) = specs_of([{**ROWS["back"], "args": "'aaab'"}])
    found = audit([("false", spec)])
    assert {one.id for one in found.below} == {"false"}
    assert found.below[0].spelling == "truth"
    assert "another value" in found.below[0].reason


# -------------------------------------------------------------------------------------- the report


def test_the_report_is_json_and_names_what_broke() -> None:
    bad = Template("gift", ("output",), "the right answer", lambda case: Attempt(truth(case.spec)))
    found = audit([("a", ANSWERED[0]), ("b", ANSWERED[1])], templates=[bad])
    assert not found.lawful
    data = json.loads(json.dumps(found.to_json()))
    assert data["lawful"] is False
    assert [(one["id"], one["template"], one["score"], one["most"]) for one in data["paid"]] == [
        ("a", "gift", 1.0, 0.0),
        ("b", "gift", 1.0, 0.0),
    ]
    assert data["tried"] == {"output: gift": 2}
    assert "paid   a  gift: io 1, at most 0" in found.text()


def test_progress_counts_rows() -> None:
    seen: list[int] = []
    audit(iter([ANSWERED[0]] * 70), templates=TEMPLATES[:2], spellings=(), progress=seen.append)
    assert seen == [32, 64, 70]


def test_the_same_rows_give_the_same_report() -> None:
    rows = ANSWERED[::7]
    assert audit(rows) == audit(rows)


class Broken:
    """A pool whose machine is gone."""

    def run_groups(self, groups: Any, *, workers: int | None = None) -> list[list[ExecutionResult]]:
        if all(
            isinstance(job, Job) and job.limits.wall_seconds == 10.0 for g in groups for job in g
        ):
            return [[ExecutionResult("infrastructure") for _ in group] for group in groups]
        raise SandboxError("gone")


def test_a_lost_sandbox_is_no_verdict_and_no_law() -> None:
    spec = next(spec for spec in ANSWERED if spec.task == "input")
    found = audit([("lost", spec)], pool=Broken())  # type: ignore[arg-type]
    assert not found.lawful
    assert not found.paid
    assert {one.status for one in found.below} == {"infrastructure"}
    assert all(one.score is None for one in found.below)


def test_grading_a_batch_is_grading_each_alone() -> None:
    """The audit grades many rows together; that must not lend one the verdict of another."""
    cases = _cases()[::9]
    pairs = [
        (spec, attempt.completion)
        for spec, case in cases
        for template in TEMPLATES[::5]
        if spec.task in template.tasks and (attempt := template.build(case)) is not None
    ]
    together = grade_all(pairs)
    for (spec, completion), one in list(zip(pairs, together, strict=True))[::3]:
        assert replace(grade(spec, completion), seconds=0.0) == replace(one, seconds=0.0)


@pytest.mark.slow
def test_two_thousand_rows_keep_the_law(command_line: CommandLine) -> None:
    made = command_line(
        *("generate", "--depth", "3", "-n", "2000", "--seed", "11", "--exceptions"),
        *("--tasks", "output,input,whitebox", "--questions", "full", "--out", "rows"),
    )
    assert made.returncode == 0, made.stderr
    done = command_line("audit", "rows", "--json")
    assert done.returncode == 0, done.stdout[-3000:]
    data = json.loads(done.stdout)
    assert data["rows"] == 2000
    assert data["lawful"]
    assert data["attempts"] > 100_000
