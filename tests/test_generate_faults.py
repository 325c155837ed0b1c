"""A run with a model among faults and kills: the same rows, and nothing paid for twice."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import environment_in
from fault_server import Schedule, StubServer, serving
from lives import Lives, warm
from programming import CONFIG, WORDS, GrammarModel, files, made

from synth.completions import CompletionStore
from synth.dataset import read_manifest, read_rows
from synth.errors import ProviderError
from synth.journal import STORE

CONCURRENCY = 4


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as they come without any mishap. Do not write to the folder."""
    folder = tmp_path_factory.mktemp("undisturbed") / "rows"
    with serving(StubServer(GrammarModel(CONFIG, spoil))) as server:
        made(folder, server)
    return folder


def spoil(constraint: Any, seed: int, text: str) -> str:
    """Every third answer must be repaired."""
    return text if seed % 3 else text.replace("\n    return", "\n    # so\n    return", 1)


def test_faults_change_no_row(undisturbed: Path, tmp_path: Path) -> None:
    schedule = Schedule(0.6, seed=3)
    with serving(
        StubServer(GrammarModel(CONFIG, spoil), schedule=schedule, hang_seconds=0.2)
    ) as server:
        finished = made(tmp_path / "rows", server)
    assert files(tmp_path / "rows") == files(undisturbed)
    assert finished.asked is not None
    # One choice is all that is asked for.
    met = sum(schedule.met.values()) - schedule.met["one_choice"]
    assert sum(finished.asked.faults.values()) == met >= 5


def test_a_run_that_the_server_fails_goes_on_where_it_was(
    undisturbed: Path, tmp_path: Path
) -> None:
    """It ends with words, not with fewer rows; what was answered is used."""

    def script(number: int, body: dict[str, Any]) -> Any:
        return (500, {}, "{}") if number >= 3 else None

    with serving(StubServer(GrammarModel(CONFIG, spoil), script=script)) as server:
        with pytest.raises(ProviderError, match=r"--resume|more than the share"):
            made(tmp_path / "rows", server, patience={"attempts": 3})
        answered = len(server.given)
        server.script = None
        made(tmp_path / "rows", server, resume=True)
        assert Counter(server.given).most_common(1)[0][1] == 1
    assert answered >= 3
    assert files(tmp_path / "rows") == files(undisturbed)


def test_a_prompt_that_is_refused_is_dropped_by_name(tmp_path: Path) -> None:
    """A server that answers all others will not change its mind about this one."""
    config = replace(CONFIG, rows=12, levels=(1,))
    model = GrammarModel(config)
    refused = list(model.constraints)[1]

    def script(number: int, body: dict[str, Any]) -> Any:
        first = "\n\n".join(message["content"] for message in body["messages"][:2])
        return (422, {}, '{"detail": "I refuse"}') if first == refused else None

    with serving(StubServer(model, script=script)) as server:
        finished = made(
            tmp_path / "rows", server, config, concurrency=1, patience={"max_failures": 0.95}
        )
    dropped = dict(finished.manifest.funnel["programs"].dropped)
    assert dropped["refused"] == config.attempts
    assert len(list(read_rows(tmp_path / "rows"))) == 12


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lives]:
    """Starts the command line in processes of its own."""
    home = tmp_path_factory.mktemp("home")
    with warm(environment_in(home), home / "log") as found:
        yield found


def words_for(folder: Path, server: StubServer) -> list[str]:
    words = ["generate", *WORDS, "--base-url", server.base_url, "--out", str(folder)]
    words += ["--jobs", "1", "--concurrency", str(CONCURRENCY)]
    return [*words, "--resume"] if folder.exists() else words


def kept(folder: Path) -> set[int]:
    """Seeds of the completions on the disk: each request of a run has its own."""
    if not (folder / STORE).exists():
        return set()
    with CompletionStore(folder / STORE) as store:
        found = store._db.execute("SELECT reply FROM completions").fetchall()
    return {json.loads(reply)["seed"] for (reply,) in found}


def test_killed_again_and_again_it_writes_the_same_rows_and_pays_once(
    undisturbed: Path, tmp_path: Path, lives: Lives
) -> None:
    folder = tmp_path / "rows"
    with serving(StubServer(GrammarModel(CONFIG, spoil), delay=0.1)) as server:
        for life in range(4):
            paid, before = kept(folder), len(server.given)
            process = lives.start(words_for(folder, server))
            if life < 3:
                while len(server.given) < before + 1 + life % 2 and not process.over:
                    time.sleep(0.002)
                process.kill()
            status, printed = process.end()
            assert status == (-signal.SIGKILL if life < 3 else 0), printed
            assert {seed for _, seed in server.given[before:]} & paid == set()
            assert len(paid) >= (life > 1)
        given = Counter(server.given)
    assert files(folder) == files(undisturbed)
    # Only what was on its way when a life ended can have been asked for again.
    assert sum(count - 1 for count in given.values()) <= 3 * CONCURRENCY
    assert kept(folder) == {seed for _, seed in given}
    assert read_manifest(folder).run["command"] == read_manifest(undisturbed).run["command"]


def test_control_c_ends_the_waiting_and_says_how_to_go_on(tmp_path: Path, lives: Lives) -> None:
    folder = tmp_path / "rows"
    with serving(StubServer(GrammarModel(CONFIG), delay=30.0)) as server:
        process = lives.start(words_for(folder, server))
        while not server.requests and not process.over:
            time.sleep(0.01)
        time.sleep(0.3)
        started = time.monotonic()
        os.kill(process.pid, signal.SIGINT)
        status, printed = process.end(20)
        assert time.monotonic() - started < 8
    assert status == 130, printed
    assert "--resume" in printed
    assert "Traceback" not in printed
