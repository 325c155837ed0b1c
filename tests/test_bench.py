"""`synth bench execute`: the figures it gives, and what it refuses.

The ratios themselves say something only on a quiet machine; here they must be there, be consistent with
the times beside them, and come from outputs that are right.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import CommandLine

from synth.bench import BASELINE, Call, Comparison, Timing, calls_from, execute
from synth.errors import DataError

RECORDS = [
    {"code": "def f(x):\n    return x + 1\n", "input": "41", "output": "42"},
    {"code": "def f(s):\n    return {c for c in s}\n", "input": "'aba'", "output": "{'a', 'b'}"},
    {"code": "def f(s):\n    return s.upper()", "input": "'a\u2028b'", "output": "'A\u2028B'"},
    {"code": "def f(a, b):\n    return [a, (b,), None]", "input": "1.5, b=True",
     "output": "[1.5, (True,), None]"},
]  # fmt: skip


def written(folder: Path, *lines: str) -> str:
    path = folder / "calls.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def record(number: int, **changes: Any) -> str:
    # U+2028 and its like stand in the file as they are: JSON allows it.
    return json.dumps({**RECORDS[number % len(RECORDS)], **changes}, ensure_ascii=False)


def test_figures_as_json(command_line: CommandLine, tmp_path: Path) -> None:
    path = written(tmp_path, *(record(number) for number in range(10)), "")
    done = command_line("bench", "execute", path, "--limit", "8", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    assert data["baseline"] == BASELINE
    ways = data["ways"]
    assert ways[0]["name"] == "baseline"
    assert len({way["name"] for way in ways}) == len(ways) == 5
    for way in ways:
        assert set(way) == {
            "name", "rows", "wall_seconds", "cpu_seconds", "wrong", "rows_per_cpu_second", "ratio",
        }  # fmt: skip
        assert way["wrong"] == 0
        assert way["rows"] == 8 or (way is ways[-1] and 8 < way["rows"] <= 64)
        assert way["cpu_seconds"] > 0
        rate = way["rows"] / way["cpu_seconds"]
        assert way["rows_per_cpu_second"] == pytest.approx(rate, abs=0.06)
        base = ways[0]["rows"] / ways[0]["cpu_seconds"]
        assert way["ratio"] == pytest.approx(rate / base, abs=0.006)
    assert ways[0]["ratio"] == 1
    full, limits = ways[1]["cpu_seconds"], ways[2]["cpu_seconds"]
    assert data["isolation_cost"] == pytest.approx(full / limits - 1, abs=0.0006)


def test_figures_as_a_table(command_line: CommandLine, tmp_path: Path) -> None:
    path = written(tmp_path, record(0))
    done = command_line("bench", "execute", path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"baseline: {BASELINE}"
    assert re.match(r"way +rows +wrong +cpu s +rows/cpu s +ratio$", lines[2])
    assert lines[3].startswith("baseline  ")
    assert len({len(line) for line in lines[2:8]}) == 1
    assert re.fullmatch(r"full isolation costs [+-][\d.]+% over rlimits alone", lines[-1])


def test_a_wrong_output_is_counted_and_fails(command_line: CommandLine, tmp_path: Path) -> None:
    path = written(tmp_path, record(0), record(0, output="43"), record(1, output="{'a'}"))
    done = command_line("bench", "execute", path, "--json")
    assert done.returncode == 1
    assert [way["wrong"] for way in json.loads(done.stdout)["ways"]] == [2] * 5


def test_what_hangs_on_the_hash_seed_shows() -> None:
    code = "def f(s):\n    return [*{s + 'x', s + 'y', s + 'z'}]"
    calls = [Call(code, "f", repr("a" * n), "[]") for n in range(1, 5)]
    wrong = [timing.wrong for timing in execute(calls).timings]
    # Of the drawn inputs nobody has stored an output; one seed gives the same as an interpreter of it.
    assert wrong == [4, 4, 4, 4, 4]


MALFORMED = {
    "not JSON": "{",
    "an array": "[]",
    "a number": "7",
    "a field is missing": '{"code": "", "input": ""}',
    "a field is no text": '{"code": "", "input": 1, "output": "1"}',
    "cut off": record(0)[:20],
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_CL_06_a_malformed_record_is_named_by_its_line(tmp_path: Path, fault: str) -> None:
    path = written(tmp_path, record(0), record(1), MALFORMED[fault])
    with pytest.raises(DataError, match=r"calls\.jsonl, line 3: .*code, input and output"):
        calls_from(path)


def test_bad_files_are_refused_in_plain_words(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9\n")
    cases = {
        written(tmp_path, record(0), "{"): "line 2",
        "nowhere.jsonl": "'nowhere.jsonl' cannot be read: No such file",
        "latin": "'latin' is not UTF-8",
        "/dev/null": "'/dev/null' holds no row",
        ".": "holds no manifest.json",
    }
    for path, message in cases.items():
        done = command_line("bench", "execute", path)
        assert done.returncode == 2, (path, done.stderr)
        assert message in done.stderr
        assert "Traceback" not in done.stderr
    assert command_line("bench", "execute", "latin", "--limit", "0").returncode == 2


def test_rows_of_a_dataset_and_programs_made_now(finished_run: Path) -> None:
    calls = calls_from(finished_run)
    assert 30 <= len(calls) < 75
    assert calls_from(finished_run, 3) == calls[:3]
    made = calls_from(None, 5)
    assert len(made) == 5
    assert made == calls_from(None, 5)
    comparison = execute([*calls[:2], *made[:2]])
    assert [timing.wrong for timing in comparison.timings[1:]] == [0] * 4


def test_a_ratio_compares_rows_per_cpu_second() -> None:
    base = Timing("baseline", 10, wall_seconds=9.0, cpu_seconds=2.0, wrong=0)
    ours = Timing("ours", 40, wall_seconds=1.0, cpu_seconds=1.0, wrong=1)
    comparison = Comparison((base, ours))
    assert (comparison.ratio(base), comparison.ratio(ours)) == (1, 8)
    assert "8.0x" in comparison.text().splitlines()[-1]


def test_drawn_inputs_are_compared_with_an_ordinary_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = """
def f(xs, n):
    print('noise')
    while n == 77:
        pass
    return [x // n for x in xs]
"""
    calls = [Call(code, "f", "[4, 9, 7], 2", "[2, 4, 3]")]
    grouped = execute(calls).timings[-1]
    assert (grouped.wrong, grouped.rows) == (0, 8)
    monkeypatch.setattr(
        "synth.bench._REFERENCE", "print('[0]' if 0 else '[' + ', '.join('1' * 7) + ']')"
    )
    assert execute(calls).timings[-1].wrong > 0
