"""What `synth ask` shows, what `synth stats` counts of questions, and what `synth bench trace` prints."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewards.row import CONTROL_FLOW, QUESTION_FIELDS, Question, Row, Spec, ValueAnswer
from synth.bench import Call
from synth.dataset import read_rows
from synth.inquiry import inquire, inquiry_json, inquiry_text
from synth.question_figures import question_figures
from synth.questions import PRESETS
from synth.runs import follow
from synth.tracebench import measure_traces

PROGRAM = """\
def weigh(words, limit):
    total = 0
    for word in words:
        if len(word) > limit:
            total += score(word)
        else:
            total -= 1
    return total


def score(word):
    return len(set(word)) * 2


print(weigh(['banana', 'fig', 'cherry'], 3))
"""


@pytest.mark.parametrize("name", PRESETS)
def test_questions_of_a_program(name: str) -> None:
    run = follow(PROGRAM, "p.py")
    asked = inquire(run, PRESETS[name], "0")
    record = inquiry_json(run, asked)
    assert json.loads(json.dumps(record)) == record
    assert (record["entry"], record["output"]) == ("weigh", "15")
    assert len(record["questions"]) == len(asked.questions) >= 4
    for question in record["questions"]:
        assert question["kind"] in PRESETS[name].kinds
        assert question["answers"] and question["question"].endswith("?")
        assert set(QUESTION_FIELDS[question["kind"]]) <= set(question)
    text = inquiry_text(run, asked)
    assert all(question["question"] in text for question in record["questions"])
    assert inquire(run, PRESETS[name], "0") == asked


def test_a_program_of_which_nothing_can_be_asked() -> None:
    run = follow("def f(x):\n    return x\n\nprint(f(1))\n", "p.py")
    asked = inquire(run, PRESETS["paper"], "0")
    assert asked.questions == ()
    assert "Nothing can be asked" in inquiry_text(run, asked)
    assert inquiry_json(run, asked)["reasons"] == dict(asked.reasons) != {}


def test_the_command(command_line: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(PROGRAM, encoding="utf-8")
    record = json.loads(command_line("ask", str(path), "--json", "--preset", "paper").stdout)
    assert {question["kind"] for question in record["questions"]} == {"next_statement", "value"}
    shown = command_line("ask", str(path), "--prompt").stdout
    assert "assert weigh(['banana', 'fig', 'cherry'], 3) == ????" in shown
    refused = command_line("ask", str(path), "--preset", "papr")
    assert refused.returncode == 2 and "did you mean 'paper'" in refused.stderr


# Figures.


def row_of(make_row: Callable[..., Row], number: int, *questions: Question) -> Row:
    code = "def f(a):\n    b = a\n    if b:\n        b += 1\n    return b\n"
    spec = Spec("whitebox", code, "f", str(number), str(number + 1), questions=questions)
    return make_row(number, task="whitebox", level=3, code=code, spec=spec.to_json())


def test_figures_by_hand() -> None:
    from handmade import make_row

    ends = Question("next_statement", ("-1",), line=5, visit=1)
    follows = Question("next_statement", ("    if b:",), line=2, visit=1)
    held = Question("value", (ValueAnswer("7", "int"),), line=4, visit=1, variable="b")
    given = Question("value", (ValueAnswer("2", "int"),), line=2, visit=1, variable="b")
    figures = question_figures(
        [row_of(make_row, 1, ends, follows), row_of(make_row, 2, given, held), make_row(3)]
    )
    assert figures is not None
    assert (figures.rows, figures.questions) == (2, 4)
    assert figures.kinds == {"next_statement": 2, "value": 2}
    assert figures.levels == {3: {"control_flow": 2, "data_flow": 2}}
    assert figures.without_data_flow == 1
    assert figures.lazy == {
        "always -1 (control flow)": 0.5,
        "the following line (control flow)": 0.5,
        "the most common value (data flow)": 0.5,
        "any literal of the call (data flow)": 0.5,
    }
    assert "50.0%" in figures.text()
    assert question_figures([make_row(3)]) is None


def test_figures_of_a_run(finished_run: Path) -> None:
    rows = list(read_rows(finished_run))
    figures = question_figures(rows)
    assert figures is not None
    assert figures.rows == sum(row.task == "whitebox" for row in rows) > 0
    assert sum(figures.constructs.values()) == figures.questions
    assert all(share <= 0.5 for share in figures.lazy.values())
    families = {q.family for row in rows for q in Spec.from_json(row.spec).questions}
    assert CONTROL_FLOW in families


# The benchmark.


def test_the_benchmark_times_every_way_and_finds_no_output_changed() -> None:
    timings = measure_traces([
        Call("def f(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n", "f", "4", "6"),
        Call("def f(x):\n    try:\n        return 1 // x\n    except ZeroDivisionError:\n        return x\n",
             "f", "0", "0"),
        Call("def f(x):\n    return 1 // x\n", "f", "0", ""),
    ])  # fmt: skip
    assert timings.programs == 2 and timings.plain_share == 0.5
    assert all(timing.wrong == 0 and timing.seconds > 0 for timing in timings.timings)
    ways = {timing.way for timing in timings.timings}
    assert {"plain", "pass one", "both passes", "settrace, repr of all variables"} <= ways
    large = {t.way: t.seconds for t in timings.timings if t.load == "50 x 50 grid edited in place"}
    assert large["both passes"] * 10 < large["settrace, repr of all variables"]
    assert "x plain" in timings.text() and timings.to_json()["programs"] == 2
