"""`synth grade` and `synth audit`: what they read, what they print, and what they refuse by name.

Commands are called as the `synth` script does, in this process; a few run in one of their own, where
pipes and standard input matter. Grades themselves are tested elsewhere.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment
from hacks import ROWS
from handmade import make_row
from sandboxed import SHARED

from rewards.row import Spec
from rewards.truths import truth
from synth.cli import main
from synth.errors import DataError
from synth.grade_files import read_completions, read_specs, tally

CORPUS = SHARED / "cases" / "reward_hacks.jsonl"
ENDLESS = {"unittest-021", "unittest-023"}
"""Lines whose programs use up the budget of every test."""
RIGHT, WRONG = "<answer>3</answer>", "<answer>4</answer>"
SUM = ROWS["sum"]

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def synth(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command line in this process: exit status, standard output, standard error."""

    def run(*args: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["synth", *args])
        fed = io.TextIOWrapper(io.BytesIO(stdin.encode("utf-8", "surrogatepass")))
        monkeypatch.setattr(sys, "stdin", fed)
        with pytest.raises(SystemExit) as stop:
            main()
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out, shown.err

    return run


def written(path: Path, *records: Any, raw: str = "") -> str:
    text = raw or "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    path.write_bytes(text.encode("utf-8"))
    return str(path)


def lines_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


# -------------------------------------------------------------------------------------- the lines


def test_each_completion_is_one_line_of_json(synth: Run, tmp_path: Path) -> None:
    specs = written(
        tmp_path / "specs.jsonl",
        {"id": "sum", "spec": SUM},
        {"id": 7, "spec": json.dumps(ROWS["count"])},
        {"id": "text", **ROWS["text"]},
    )
    half = "<answer>assert count('cab') == '2'\nfor ch in s:\n2; int</answer>"
    answers = written(
        tmp_path / "answers.jsonl",
        {"id": "sum", "completion": RIGHT},
        {"id": 7, "completion": half},
        {"id": "sum", "completion": [{"role": "assistant", "content": WRONG}]},
        {"id": "text", "completion": None},
    )
    code, out, err = synth("grade", specs, answers, "--json")
    assert code == 0
    lines = lines_of(out)
    assert [line["id"] for line in lines] == ["sum", 7, "sum", "text"]
    keys = ["id", "score", "max", "status", "io", "w", "tests", "grades"]
    assert all(list(line) == keys for line in lines)
    assert [line["score"] for line in lines] == [2.0, 0.0, 0.0, 0.0]
    assert [line["status"] for line in lines] == ["right", "wrong", "wrong", "no_answer"]
    # io is 0, so the shape pays nothing; the parts are what they are.
    assert (lines[1]["io"], lines[1]["w"], lines[1]["tests"]) == (0.0, 0.5, None)
    io, statement, value = lines[1]["grades"]
    assert (io["part"], io["status"], io["reason"]) == ("io", "wrong", "another value")
    assert (statement["kind"], statement["line"], statement["score"]) == ("next_statement", 5, 1.0)
    assert (value["variable"], value["status"]) == ("total", "wrong")
    assert "4 completions of 3 specs" in err


def test_the_table_has_a_row_for_each_and_the_figures(synth: Run, tmp_path: Path) -> None:
    lines = [
        {"id": f"r{n}", "spec": SUM, "completion": text} for n, text in enumerate((RIGHT, WRONG))
    ]
    code, out, err = synth("grade", written(tmp_path / "a.jsonl", *lines))
    assert (code, err) == (0, "")
    head, first, second, why, blank, *summary = out.splitlines()
    assert head.split()[:4] == ["id", "status", "score", "max"]
    # Nothing is asked besides the output: no share of white-box answers either.
    assert first.split() == ["r0", "right", "2", "2", "1", "-", "-"]
    assert second.split() == ["r1", "wrong", "0", "2", "0", "-", "-"]
    assert why == "  io: another value"
    assert blank == ""
    assert summary == [
        "2 completions of 2 specs: right 1, wrong 1",
        "right 50.0%, mean score 50.0% of the maximum (over 2 specs with a score)",
    ]


def test_the_table_says_of_every_part_why_it_is_not_right(synth: Run, tmp_path: Path) -> None:
    texts = {
        "two": "assert count('cab') == '1'\n-1\n3; int",
        "one": "assert count('cab') == '0'\nfor ch in s:\nclass; int",
        "few": "assert count('cab') == '1'\nfor ch in s:",
        "none": None,
        "x" * 200: "assert count('cab') == '1'\nfor ch in s:\n[" + "1, " * 100 + "; int",
    }
    lines = [
        {"id": name, "spec": ROWS["count"], "completion": text and f"<answer>{text}</answer>"}
        for name, text in texts.items()
    ]
    code, out, _ = synth("grade", written(tmp_path / "a.jsonl", *lines))
    assert code == 0
    assert all(len(line) <= 100 for line in out.splitlines())
    table = out.split("\n\n", 1)[0].splitlines()[1:]
    rows: dict[str, list[str]] = {}
    for line in table:
        if not line.startswith(" "):
            rows[line.split()[0]] = reasons = []
        else:
            reasons.append(line.strip())
    assert rows["two"] == [
        "question 1 (next_statement, line 5, visit 1): another answer",
        "question 2 (value of total, line 5, visit 1): another answer",
    ]
    assert rows["one"] == [
        "io: another value",
        "question 2 (value of total, line 5, visit 1): the word 'class' cannot stand in a value",
    ]
    assert rows["few"] == [
        "questions 1 to 2: 2 answers, expected 3: one for the assertion and each question"
    ]
    assert rows["none"] == ["the completion holds no complete answer"]
    (last,) = [name for name in rows if name.startswith("xxx")]
    assert last.endswith("…")
    assert rows[last][0].startswith("question 2 (value of total, line 5, visit 1): ")


def test_a_row_without_questions_has_no_share_of_them(synth: Run, tmp_path: Path) -> None:
    rows = [("output", SUM, RIGHT), ("count", ROWS["count"], WRONG)]
    lines = [{"id": name, "spec": spec, "completion": text} for name, spec, text in rows]
    _, out, _ = synth("grade", written(tmp_path / "a.jsonl", *lines), "--json")
    plain, asked = lines_of(out)
    assert (plain["score"], plain["max"], plain["io"], plain["w"]) == (2.0, 2.0, 1.0, None)
    assert (asked["io"], asked["w"]) == (0.0, 0.0)


def test_cl_03_predictions_for_three_of_a_hundred_specs(synth: Run, tmp_path: Path) -> None:
    """A subset is graded: what is missing is counted, and both rates are given."""
    specs = written(tmp_path / "q.jsonl", *[{"id": f"q{n}", "spec": SUM} for n in range(100)])
    three = written(
        tmp_path / "three.jsonl",
        *[
            {"id": f"q{n}", "completion": text}
            for n, text in ((5, RIGHT), (50, RIGHT), (99, WRONG))
        ],
    )
    code, out, _ = synth("grade", specs, three)
    assert code == 0
    assert "97 without a completion" in out
    assert "right 66.7%" in out
    assert "over 3 specs" in out
    assert "right 2.0%" in out
    assert "over 100 specs" in out
    code, out, err = synth("grade", specs, three, "--strict")
    assert (code, out) == (2, "")
    assert "97 of 100 specs have no completion" in err
    assert "'q0'" in err


def test_several_completions_of_a_spec_count_as_their_mean(synth: Run, tmp_path: Path) -> None:
    specs = written(tmp_path / "s.jsonl", {"id": "a", "spec": SUM}, {"id": "b", "spec": SUM})
    texts = [("a", RIGHT), ("a", RIGHT), ("a", WRONG), ("a", WRONG), ("b", RIGHT)]
    answers = written(tmp_path / "c.jsonl", *[{"id": i, "completion": t} for i, t in texts])
    _, out, _ = synth("grade", specs, answers)
    assert "5 completions of 2 specs: right 3, wrong 2" in out
    assert "right 75.0%" in out


def test_a_completion_without_a_verdict_has_score_null(synth: Run, tmp_path: Path) -> None:
    tests = {"inputs": ["1"], "outputs": [""]}  # what does nothing would pass
    spec = {"schema": 1, "task": "unittest", "tests": tests}
    fenced = "<answer>\n```python\nprint(1)\n```\n</answer>"
    answers = written(tmp_path / "c.jsonl", {"id": "t", "spec": spec, "completion": fenced})
    code, out, err = synth("grade", answers, "--json")
    (line,) = lines_of(out)
    assert code == 0
    assert (line["score"], line["tests"], line["max"]) == (None, None, 1.0)
    assert line["status"] == "not_applicable"
    assert "no completion has a score" in err


def test_options_are_those_of_the_policy(synth: Run, tmp_path: Path) -> None:
    spec = {**SUM, "output": "True"}
    one = written(
        tmp_path / "c.jsonl", {"id": "a", "spec": spec, "completion": "<answer>1</answer>"}
    )
    first = "<answer>3</answer><reasoning>so</reasoning>"
    early = written(tmp_path / "d.jsonl", {"id": "a", "spec": SUM, "completion": first})
    marked = written(tmp_path / "e.jsonl", {"id": "a", "spec": SUM, "completion": "Answer: 3"})
    for path, option in (
        (one, ("--equality", "python")),
        (early, ("--answer-first",)),
        (marked, ("--form", "lenient")),
    ):
        scores = [
            lines_of(synth("grade", path, "--json", *more)[1])[0]["score"]
            for more in ((), option, (*option, "--scale", "1"))
        ]
        assert scores == [0.0, 2.0, 1.0], option
    code, _, err = synth("grade", one, "--scale", "-1")
    assert code == 2
    assert "--scale is -1.0" in err


def test_truncated_is_told_from_no_answer(synth: Run, tmp_path: Path) -> None:
    lines = [
        {"id": "a", "spec": SUM, "completion": "so far"},
        {"id": "a", "spec": SUM, "completion": "so far", "finish_reason": "length"},
        {"id": "a", "spec": SUM, "completion": "so far", "truncated": True},
    ]
    _, out, _ = synth("grade", written(tmp_path / "c.jsonl", *lines), "--json")
    assert [line["status"] for line in lines_of(out)] == ["no_answer", "truncated", "truncated"]


# -------------------------------------------------------------------------------------- what is read


def test_specs_of_a_dataset_and_bare_specs(tmp_path: Path) -> None:
    rows = [make_row(number).to_dict() for number in range(3)]
    path = written(tmp_path / "rows.jsonl", *rows, {"id": "bare", **SUM})
    specs = read_specs(path)
    assert list(specs) == ["row0000", "row0001", "row0002", "bare"]
    assert specs["row0000"] == Spec.from_json(make_row(0).spec)


def test_a_dataset_folder_is_read_and_its_truths_are_right(
    synth: Run, tmp_path: Path, finished_run: Path
) -> None:
    specs = read_specs(str(finished_run))
    assert len(specs) == 75
    some = list(specs.items())[:9]
    answers = written(
        tmp_path / "c.jsonl", *[{"id": name, "completion": truth(spec)} for name, spec in some]
    )
    code, out, err = synth("grade", str(finished_run), answers, "--json")
    assert code == 0
    assert [line["score"] == line["max"] for line in lines_of(out)] == [True] * 9
    assert "66 without a completion" in err
    code, out, _ = synth("audit", str(finished_run), "--limit", "12")
    assert code == 0, out
    assert out.startswith("rows")


def test_text_of_every_kind_survives(synth: Run, tmp_path: Path) -> None:
    name = "zeile\u2028ü\U0001f600\u0085"
    spec = {**SUM, "output": "'\\u2028'"}
    text = "<answer>'\u2028'</answer>"
    path = tmp_path / "c.jsonl"
    line = json.dumps({"id": name, "spec": spec, "completion": text}, ensure_ascii=False)
    path.write_bytes(b"\xef\xbb\xbf" + line.encode() + b"\r\n\r\n")
    _, out, _ = synth("grade", str(path), "--json")
    (found,) = lines_of(out)
    assert (found["id"], found["score"]) == (name, 2.0)
    assert out.isascii()
    code, out, _ = synth("grade", str(path))
    assert code == 0
    assert len(out.splitlines()) == 5  # the id does not break the table


def test_either_file_may_be_standard_input(synth: Run, tmp_path: Path) -> None:
    specs = written(tmp_path / "s.jsonl", {"id": "a", "spec": SUM})
    answers = written(tmp_path / "c.jsonl", {"id": "a", "completion": RIGHT})
    own = json.dumps({"id": "a", "spec": SUM, "completion": RIGHT})
    for files, stdin in (
        ((specs, "-"), Path(answers).read_text()),
        (("-", answers), Path(specs).read_text()),
        (("-",), own),
        (("-", "-"), own),
    ):
        code, out, _ = synth("grade", *files, "--json", stdin=stdin)
        assert code == 0, files
        assert lines_of(out)[0]["score"] == 2.0


def test_a_spec_in_the_line_comes_first(tmp_path: Path) -> None:
    other = {**SUM, "output": "4"}
    path = written(tmp_path / "c.jsonl", {"id": "a", "spec": other, "completion": WRONG})
    (answer,) = read_completions(path, {"a": Spec.from_json(SUM)})
    assert answer.spec.output == "4"


SPEC = json.dumps(SUM)


@pytest.mark.parametrize(
    ("specs", "completions", "named", "why"),
    [
        ("{", "", "specs.jsonl, line 1", "not a JSON object"),
        ("[1]", "", "specs.jsonl, line 1", "a list; expected a JSON object"),
        ("\n\n{}", "", "specs.jsonl, line 3", "field 'id' is missing"),
        ('{"id": true}', "", "specs.jsonl, line 1", "field 'id' is a bool"),
        ('{"id": 1.5}', "", "specs.jsonl, line 1", "field 'id' is a float"),
        ('{"id": "a"}', "", "specs.jsonl, line 1", "expected a field 'spec'"),
        ('{"id": "a", "spec": 3}', "", "specs.jsonl, line 1", "field 'spec' is a int"),
        ('{"id": "a", "spec": "{"}', "", "specs.jsonl, line 1", "is not JSON"),
        ('{"id": "a", "spec": {"schema": 1}}', "", "specs.jsonl, line 1", "'task' is missing"),
        ('{"id": "a", "schema": 1, "task": "outputs"}', "", "line 1", "'task'"),
        (
            f'{{"id": "a", "spec": {SPEC}}}\n{{"id": "a", "spec": {SPEC}}}',
            "",
            "specs.jsonl, line 2",
            "has a spec already, in",
        ),
        (
            f'{{"id": "1", "spec": {SPEC}}}\n{{"id": 1, "spec": {SPEC}}}',
            "",
            "specs.jsonl, line 2",
            "expected one spec per id",
        ),
        (f'{{"id": "sum", "spec": {SPEC}}}', "3", "completions.jsonl, line 1", "a int"),
        (
            f'{{"id": "sum", "spec": {SPEC}}}',
            '{"id": "sun", "completion": ""}',
            "completions.jsonl, line 1",
            "no spec has the id 'sun' (did you mean 'sum'?)",
        ),
        (
            f'{{"id": "sum", "spec": {SPEC}}}',
            '{"id": "sum", "completion": ""}\n{"id": "sum", "response": ""}',
            "completions.jsonl, line 2",
            "field 'completion' is missing (rename 'response')",
        ),
        (f'{{"id": "sum", "spec": {SPEC}}}', "\n", "completions.jsonl", "holds no completion"),
        ("", '{"id": "a", "completion": ""}', "completions.jsonl, line 1", "no spec for 'a'"),
        (
            "",
            '{"id": "a", "completion": "", "spec": {"task": "input"}}',
            "completions.jsonl, line 1",
            "'schema' is missing",
        ),
    ],
)
def test_a_malformed_line_is_named(
    synth: Run, tmp_path: Path, specs: str, completions: str, named: str, why: str
) -> None:
    first = written(tmp_path / "specs.jsonl", raw=specs or "\n")
    second = written(tmp_path / "completions.jsonl", raw=completions or "\n")
    code, out, err = synth("grade", first, second)
    assert (code, out) == (2, "")
    assert named in err
    assert why in err
    assert err.count("\n") == 1


def test_bytes_that_are_no_text_and_files_that_are_not_there(synth: Run, tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"id": "a"}\n{"id": "\xff"}\n')
    with pytest.raises(DataError, match=r"c\.jsonl, line 1: .*'completion'"):
        read_completions(str(path), {})
    path.write_bytes(b'\n{"id": "\xff"}\n')
    with pytest.raises(DataError, match=r"line 2: not a JSON object: 'utf-8' codec"):
        read_completions(str(path), {})
    code, _, err = synth("grade", str(tmp_path / "none.jsonl"))
    assert code == 2
    assert "cannot be read: No such file or directory" in err
    assert synth("grade")[0] == 2
    assert synth("grade", "a", "b", "c")[0] == 2
    assert synth("audit", str(tmp_path / "none"))[0] == 2
    (tmp_path / "folder").mkdir()
    assert synth("grade", str(tmp_path / "folder"))[0] == 2


# --------------------------------------------------------------------------------------- in a shell


def test_a_reader_that_leaves_early_ends_it_quietly(
    tmp_path: Path, environment: Environment
) -> None:
    lines = [{"id": "a", "spec": SUM, "completion": RIGHT}] * 3000
    path = written(tmp_path / "c.jsonl", *lines)
    with subprocess.Popen(
        [sys.executable, "-m", "synth", "grade", path, "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["score"] == 2.0
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 1


# ------------------------------------------------------------------------------------- the corpora


def corpus(*, endless: bool) -> list[dict[str, Any]]:
    text = CORPUS.read_text(encoding="utf-8")
    lines = [json.loads(line) for line in text.split("\n") if line]
    return lines if endless else [line for line in lines if line["id"] not in ENDLESS]


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not there")
@pytest.mark.parametrize("endless", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_shared_corpus_as_it_lies_there(synth: Run, tmp_path: Path, endless: bool) -> None:
    """Each line holds its spec, and other keys that are passed over."""
    records = corpus(endless=endless)
    path = written(tmp_path / "hacks.jsonl", *records)
    code, out, _ = synth("grade", path, "--json")
    assert code == 0
    lines = lines_of(out)
    assert [line["id"] for line in lines] == [record["id"] for record in records]
    part = {"output": "io", "input": "io", "whitebox": "w", "unittest": "tests"}
    for line, record in zip(lines, records, strict=True):
        if record["debatable"]:
            continue
        paid = line[part[record["spec"]["task"]]]
        assert paid is not None, record["id"]
        if record["right"]:
            assert paid == record["fraction"], record["id"]
        else:
            assert paid <= record["fraction"], record["id"]
        if record["right"] and line["status"] == "right":
            assert line["score"] == line["max"], record["id"]


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not there")
def test_the_specs_of_the_shared_corpus_keep_the_law(synth: Run) -> None:
    code, out, _ = synth("audit", str(CORPUS), "--json")
    data = json.loads(out)
    assert code == 0, data["paid"] + data["below_maximum"]
    assert data["rows"] == 131
    assert data["attempts"] > 10_000


def test_the_audit_exits_with_one_where_the_law_is_broken(synth: Run, tmp_path: Path) -> None:
    false = {**ROWS["back"], "args": "'aaab'"}
    code, out, _ = synth("audit", written(tmp_path / "s.jsonl", {"id": "x", "spec": false}))
    assert code == 1
    assert "truth  x  truth: 0 of 2, wrong (the call returns another value)" in out
    code, _, err = synth("audit", written(tmp_path / "e.jsonl", raw="\n"))
    assert code == 2
    assert "holds no row" in err


def test_figures_over_nothing_are_none() -> None:
    found = tally([], {"a": Spec.from_json(SUM)})
    assert (found.right, found.score, found.missing) == (None, None, 1)
    assert "no completion has a score" in found.text()
