"""`synth chains` as a user meets it: the file, the figures, its exit codes, its messages."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, StubServer, serving
from handmade import make_row
from skilled import text_of

from rewards.grading import grade
from rewards.row import Row, Spec
from synth import chains, cli, executions
from synth.chain_files import chosen_rows, write_chains
from synth.dataset import read_rows, write_dataset
from synth.journal import STORE
from synth.manifest import Manifest
from synth.traces import TraceError


@dataclass(frozen=True)
class Done:
    """What a command left."""

    status: int
    stdout: str
    stderr: str


Command = Callable[..., Done]


def some_rows() -> list[Row]:
    """Twelve rows of the training split and three of the test split."""
    rows = [make_row(number, program_id=f"{number // 3:016x}") for number in range(15)]
    tests = [replace(row, split="test") for row in rows[12:]]
    return [*rows[:12], *tests]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `synth chains` beside a dataset called `rows`."""
    (tmp_path / "rows").mkdir()
    write_dataset(tmp_path / "rows", some_rows(), Manifest({"depth": 2}, 3))
    monkeypatch.chdir(tmp_path)
    # Also where the installed entry points are older than this checkout.
    cli._entries().setdefault("chains", "synth.commands.chains:chains")

    def run(*words: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["synth", "chains", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capsys.readouterr())

    return run


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_chains_of_the_training_split_in_the_form_of_sft(command: Command, tmp_path: Path) -> None:
    done = command("rows", "--jobs", "2")
    assert done.status == 0, done.stderr
    assert "12 chains of 12 rows -> rows-chains.jsonl" in done.stdout
    found = records(tmp_path / "rows-chains.jsonl")
    rows = {row.id: row for row in read_rows(tmp_path / "rows")}
    assert [one["id"] for one in found] == [row.id for row in rows.values() if row.split == "train"]
    for one in found:
        row = rows[one["id"]]
        assert one["prompt"] == [{"role": role, "content": text} for role, text in row.prompt]
        ((role, completion),) = [tuple(message.values()) for message in one["completion"]]
        assert role == "assistant"
        assert grade(Spec.from_json(row.spec), completion).status == "right"
    first = (tmp_path / "rows-chains.jsonl").read_bytes()
    assert command("rows", "--jobs", "1", "--overwrite", "--json").status == 0
    assert (tmp_path / "rows-chains.jsonl").read_bytes() == first


def test_other_splits_a_limit_and_another_file(command: Command, tmp_path: Path) -> None:
    done = command("rows", "--split", "all", "--limit", "14", "--out", "warm.jsonl", "--json")
    assert done.status == 0, done.stderr
    figures = json.loads(done.stdout)
    assert figures["file"] == "warm.jsonl"
    assert (figures["rows"], figures["chains"], figures["dropped"]) == (14, {"output": 14}, {})
    assert len(records(tmp_path / "warm.jsonl")) == 14


def answers(rows: list[Row], right: Callable[[int], bool]) -> Callable[[str, int], Answer]:
    """A model that is right about the rows for whose number in the list `right` says so."""
    numbers = {text_of(row): number for number, row in enumerate(rows)}

    def model(prompt: str, seed: int) -> Answer:
        row = rows[numbers[prompt]]
        value = row.output if right(numbers[prompt]) else "[0]"
        said = f"assert {row.entry}({row.args}) == {value}"
        return Answer(f"<reasoning>\nseed {seed}\n</reasoning>\n<answer>\n{said}\n</answer>")

    return model


def test_a_strong_model_writes_them_and_is_asked_once(command: Command, tmp_path: Path) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    with serving(StubServer(answers(rows, lambda number: number % 4 != 0))) as server:
        words = ("rows", "--model", "stub", "--base-url", server.base_url, "--tries", "2")
        done = command(*words)
        assert done.status == 0, done.stderr
        requests = server.requests
        again = command(*words, "--overwrite", "--json", "--prices", "1,2")
        assert again.status == 0, again.stderr
        assert server.requests == requests
    assert "not_solved" in done.stdout
    assert "requests answered so far" in done.stdout
    figures = json.loads(again.stdout)
    assert figures["chains"] == {"output": 9}
    assert figures["dropped"] == {"not_solved": 3}
    assert figures["cost"] > 0
    found = records(tmp_path / "rows-chains.jsonl")
    assert {one["source"] for one in found} == {"stub"}
    assert (tmp_path / "rows" / STORE).is_file()


def test_a_server_that_fails_too_often_is_an_error(command: Command, tmp_path: Path) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    bad = {text_of(row) for row in rows[6:12]}

    def script(number: int, body: dict[str, Any]) -> Any:
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        return (400, {}, '{"error": {"message": "no"}}') if prompt in bad else None

    with serving(StubServer(answers(rows, lambda number: True), script=script)) as server:
        words = ("--model", "stub", "--base-url", server.base_url, "--concurrency", "1")
        done = command("rows", *words)
    assert done.status == 1
    assert "the server failed for 50% of the rows" in done.stderr
    assert len(records(tmp_path / "rows-chains.jsonl")) == 6


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("nowhere",), 2, "'nowhere' does not exist"),
        (("rows", "--split", "tets"), 2, "did you mean 'test'"),
        (("rows", "--out", "rows"), 2, "give another --out"),
        (("rows", "--out", "away/x.jsonl"), 2, "'away' does not exist"),
        (("rows", "--model", "m", "--tries", "0"), 2, "--tries is 0"),
        (("rows", "--model", "m", "--temperature", "0"), 2, "--temperature is 0 with --tries 4"),
        (("rows", "--model", "m", "--base-url", "x"), 2, "expected http://"),
        (("rows", "--model", "m", "--offline"), 2, "--offline"),
        (("rows", "--prices", "x"), 2, "expected two numbers"),
        (
            ("rows", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--patience", "0"),
            1,
            "Start the server",
        ),
    ],
)
def test_what_cannot_be_done_is_told_plainly(
    command: Command, tmp_path: Path, words: tuple[str, ...], status: int, says: str
) -> None:
    done = command(*words)
    assert done.status == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.glob("*.jsonl")) == []


def test_a_file_is_replaced_only_when_asked(command: Command, tmp_path: Path) -> None:
    (tmp_path / "rows-chains.jsonl").write_text("mine")
    done = command("rows")
    assert done.status == 2
    assert "--overwrite" in done.stderr
    assert (tmp_path / "rows-chains.jsonl").read_text() == "mine"


def test_a_model_that_is_never_right_leaves_no_file(command: Command, tmp_path: Path) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    with serving(StubServer(answers(rows, lambda number: False))) as server:
        done = command("rows", "--model", "stub", "--base-url", server.base_url, "--tries", "1")
    assert done.status == 1
    assert "no row has a chain: not_solved (12)" in done.stderr
    assert list(tmp_path.glob("*.jsonl")) == []


def test_a_row_that_does_not_do_the_same_again_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(sandbox: Any, code: str, entry: str, inputs: list[str], *rest: Any) -> Any:
        if inputs == ["[4], 5"]:
            raise TraceError("the second run took other steps than the first")
        return seen(sandbox, code, entry, inputs, *rest)

    seen = executions.look
    monkeypatch.setattr(chains, "look", look)
    rows = [make_row(0), make_row(1, args="[4], 5", output="[20]"), make_row(2)]
    written = write_chains(rows, tmp_path / "chains.jsonl")
    assert written.chains == {"output": 2}
    assert written.dropped == {"not_followed": 1}


def test_progress_only_grows(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    write_dataset(folder, some_rows(), Manifest({"depth": 2}, 3))
    seen: list[int] = []
    write_chains(chosen_rows(folder), tmp_path / "c.jsonl", jobs=2, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 12
