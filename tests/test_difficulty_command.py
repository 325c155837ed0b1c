"""`synth difficulty` as a user meets it: its output, its exit codes, its messages."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fault_server import StubServer, serving
from skilled import Skilled, expected, numbered_row

from synth import cli
from synth.dataset import read_rows, write_dataset
from synth.difficulty import DifficultyConfig
from synth.manifest import Manifest

Command = Any


@dataclass(frozen=True)
class Done:
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `synth difficulty` in a folder with a dataset of 40 rows called `rows`."""
    folder = tmp_path / "rows"
    folder.mkdir()
    write_dataset(folder, [numbered_row(n) for n in range(40)], Manifest({"depth": 2}, 3))
    monkeypatch.chdir(tmp_path)
    # Also where the installed entry points are older than this checkout.
    cli._entries().setdefault("difficulty", "synth.commands.difficulty:difficulty")

    def run(*words: str, **env: str) -> Done:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["synth", "difficulty", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        code = ended.value.code
        assert isinstance(code, int)
        return Done(code, *capsys.readouterr())

    return run


def test_tables_for_people_and_figures_for_programs(command: Command, tmp_path: Path) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    skilled = Skilled(rows)
    with serving(StubServer(skilled)) as server:
        asked = ("rows", "--model", "stub", "--base-url", server.base_url)
        done = command(*asked)
        assert done.returncode == 0, done.stderr
        requests = server.requests
        data = command(*asked, "--overwrite", "--json", "--prices", "1,2")
        assert server.requests == requests
    verdicts = [expected(row, skilled, DifficultyConfig(model="stub"))[0] for row in rows]
    kept = verdicts.count("kept")
    assert re.search(rf"^kept +{kept}$", done.stdout, re.MULTILINE)
    for words in ("pass rate", "before", "level", "operation", f"{kept} rows -> rows-hard/"):
        assert words in done.stdout
    assert len(list(read_rows(tmp_path / "rows-hard"))) == kept
    figures = json.loads(data.stdout)
    assert figures["rows"] == kept
    assert figures["figures"]["verdicts"]["kept"] == kept
    totals = figures["totals"]
    cost = (totals["prompt_tokens"] + 2 * totals["completion_tokens"]) / 1e6
    assert figures["cost"] == pytest.approx(cost, abs=1e-4)


def test_labels_alone_go_to_a_folder_of_their_own(command: Command, tmp_path: Path) -> None:
    with serving(StubServer(Skilled(list(read_rows(tmp_path / "rows"))))) as server:
        words = ("rows", "--model", "stub", "--base-url", server.base_url, "--label-only")
        assert command(*words).returncode == 0
    assert len(list(read_rows(tmp_path / "rows-labelled"))) == 40


def test_the_key_comes_from_the_variable_that_is_named(command: Command, tmp_path: Path) -> None:
    seen: list[str] = []

    class Guarded(StubServer):
        async def serve(self, reader: Any, writer: Any) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            seen.append(re.findall(rb"(?i)authorization: (.*)\r", head)[0].decode())
            writer.write(b"HTTP/1.1 401 X\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()
            writer.close()

    with serving(Guarded(lambda prompt, seed: "")) as server:
        words = ("rows", "--model", "stub", "--base-url", server.base_url, "--api-key-env", "MINE")
        done = command(*words, MINE="secret-key")
    assert seen
    assert set(seen) == {"Bearer secret-key"}
    assert done.returncode == 1
    assert "--api-key-env" in done.stderr
    assert "secret-key" not in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("nowhere",), 2, "'nowhere' does not exist"),
        (("rows", "-n", "0"), 2, "-n is 0"),
        (("rows", "--max-pass-rate", "30"), 2, "--max-pass-rate is 30"),
        (("rows", "--base-url", "localhost"), 2, "expected http://"),
        (("rows", "--extra-body", "{"), 2, "not JSON"),
        (("rows", "--prices", "1"), 2, "expected two numbers"),
        (("rows", "--out", "rows"), 2, "folder that is read"),
        (("rows", "--solver-base-url", "http://x/v1"), 2, "--solver-model"),
        (("rows", "--local-model", "nothing"), 2, "config.json"),
        (("rows", "--offline"), 2, "--offline: 4 completions"),
        (("rows", "--concurrency", "0"), 2, "--concurrency is 0"),
        (("rows", "--base-url", "http://127.0.0.1:9/v1", "--patience", "0"), 1, "Start the server"),
    ],
)
def test_what_cannot_be_done_is_told_plainly(
    command: Command, words: tuple[str, ...], status: int, says: str
) -> None:
    done = command(*words)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_nothing_kept_is_told_with_the_figures(command: Command, tmp_path: Path) -> None:
    skilled = Skilled(list(read_rows(tmp_path / "rows")))
    skilled.skill = lambda row: 1.0  # type: ignore[method-assign]
    with serving(StubServer(skilled)) as server:
        done = command("rows", "--model", "stub", "--base-url", server.base_url)
    assert done.returncode == 1
    assert "too_easy" in done.stdout
    assert "no row is kept" in done.stderr


def test_a_server_that_is_away_is_waited_for_aloud(command: Command) -> None:
    """Within about three seconds it says what for, how long at most, and how to stop; once."""
    started = time.monotonic()
    away = ("rows", "--model", "m", "--base-url", "http://127.0.0.1:9/v1", "--patience", "4")
    done = command(*away)
    assert done.returncode == 1
    (line,) = [text for text in done.stderr.splitlines() if "waiting" in text]
    for words in ("m at http://127.0.0.1:9/v1", "up to 4 s (--patience)", "Ctrl-C stops"):
        assert words in line
    assert time.monotonic() - started < 10
    assert done.stdout == ""


def test_what_a_server_refused_for_good_is_sent_again_on_demand(
    command: Command, tmp_path: Path
) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    skilled = Skilled(rows)
    skilled.skill = lambda row: 0.0  # type: ignore[method-assign]
    long = {"\n\n".join(text for _, text in row.prompt) for row in rows[1::10]}

    def script(number: int, body: dict[str, Any]) -> Any:
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        refused = '{"error": {"message": "maximum context length is 2048 tokens"}}'
        return (400, {}, refused) if prompt in long else None

    with serving(StubServer(skilled, script=script)) as server:
        words = ("rows", "--model", "stub", "--base-url", server.base_url)
        first = command(*words, "--json")
        assert first.returncode == 0, first.stderr
        files = [path.read_bytes() for path in sorted((tmp_path / "rows-hard" / "data").iterdir())]
        sent = server.requests
        second = command(*words, "--overwrite", "--json")
        assert server.requests == sent
        assert "--retry-refused" in second.stderr
        offline = command(*words, "--overwrite", "--json", "--offline")
        assert offline.returncode == 0, offline.stderr
        again = [path.read_bytes() for path in sorted((tmp_path / "rows-hard" / "data").iterdir())]
        assert again == files
        server.script = None
        third = command(*words, "--overwrite", "--json", "--retry-refused")
    kept = [json.loads(done.stdout)["rows"] for done in (first, second, offline, third)]
    assert kept == [36, 36, 36, 40]
    verdicts = [json.loads(done.stdout)["figures"]["verdicts"] for done in (first, second)]
    assert verdicts == [{"kept": 36, "too_long": 4}] * 2


def test_rows_that_the_server_failed_end_with_status_1(command: Command, tmp_path: Path) -> None:
    rows = list(read_rows(tmp_path / "rows"))
    skilled = Skilled(rows)
    skilled.skill = lambda row: 0.0  # type: ignore[method-assign]
    bad = {"\n\n".join(text for _, text in row.prompt) for row in rows[::10]}

    def script(number: int, body: dict[str, Any]) -> Any:
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        return (400, {}, '{"error": {"message": "no"}}') if prompt in bad and number > 3 else None

    with serving(StubServer(skilled, script=script)) as server:
        words = ("rows", "--model", "stub", "--base-url", server.base_url, "--max-failures")
        done = command(*words, "0.5")
        assert done.returncode == 0, done.stderr
        done = command(*words, "0.05", "--overwrite", "--concurrency", "1")
    assert done.returncode == 1
    assert "failed, more than the share of 0.05" in done.stderr or "10% of the rows" in done.stderr
    assert os.path.isdir(tmp_path / "rows-hard")
