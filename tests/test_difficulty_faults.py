"""A measurement among faults and kills: no label lost, none changed, nothing paid for twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from conftest import Environment
from fault_server import Schedule, StubServer, serving
from skilled import COMMAND, Skilled, as_drawn, measured, numbered_row, without_tokens

from rewards.row import Row
from synth.clients import Patience, Server
from synth.completions import Ask, CompletionStore, Reply
from synth.dataset import read_rows, write_dataset
from synth.difficulty import DifficultyConfig, filter_folder
from synth.difficulty.filtering import Access
from synth.difficulty.judging import evaluator_ask
from synth.manifest import Manifest

CONFIG = DifficultyConfig(model="stub")
CONCURRENCY = 6


def test_30_percent_of_faults_lose_and_change_no_label() -> None:
    rows = [numbered_row(number) for number in range(500)]
    skilled = Skilled(rows, cut=0.05)
    faulty = StubServer(skilled, schedule=Schedule(0.3, seed=1), hang_seconds=1.0)
    with serving(faulty) as server:
        labels, client = measured(rows, server, CONFIG)
    assert [without_tokens(label) for label in labels] == [
        as_drawn(row, skilled, CONFIG) for row in rows
    ]
    assert sum(client.faults.values()) > 200
    assert faulty.schedule is not None
    assert len(faulty.schedule.met) == len(faulty.schedule.kinds)


def start(
    folder: Path, out: str, server: StubServer, environment: Environment
) -> subprocess.Popen[str]:
    words = ["difficulty", str(folder), "--model", "stub", "--base-url", server.base_url]
    words += ["--out", str(folder.parent / out), "--concurrency", str(CONCURRENCY), "--jobs", "1"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kept_seeds(path: Path, asks: dict[str, Ask]) -> set[int]:
    """Seeds of the completions that are in a store."""
    with CompletionStore(path) as store:
        found = [store.replies(ask, range(10)) for ask in asks.values()]
    seeds = {reply.seed for one in found for reply in one.values()}
    return {seed for seed in seeds if seed is not None}


def asks_of(rows: list[Row]) -> dict[str, Ask]:
    asks = {row.id: evaluator_ask(row, CONFIG) for row in rows}
    return {name: ask for name, ask in asks.items() if ask is not None}


def test_killed_five_times_it_writes_the_same_bytes_and_pays_once(
    tmp_path: Path, environment: Environment
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    rows = [numbered_row(number) for number in range(90)]
    write_dataset(folder, rows, Manifest({"depth": 2}, 3))
    skilled = Skilled(rows)
    asks = asks_of(list(read_rows(folder)))
    store = folder / "completions.sqlite"
    paid: set[int] = set()
    with serving(StubServer(skilled, delay=0.03)) as server:
        for life in range(5):
            before = len(server.given)
            process = start(folder, "out", server, environment)
            while len(server.given) < before + 25 + 10 * life and process.poll() is None:
                time.sleep(0.005)
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            assert process.returncode == -signal.SIGKILL
            again = {seed for _, seed in server.given[before:]} & paid
            assert again == set(), "a completion that was kept was asked for again"
            paid = kept_seeds(store, asks)
            assert len({seed for _, seed in server.given} - paid) <= 7 * CONCURRENCY * (life + 1)
        assert not (tmp_path / "out").exists()
        process = start(folder, "out", server, environment)
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 0, errors
        killed = len(server.given)
        undisturbed = tmp_path / "undisturbed"
        (undisturbed / "rows").mkdir(parents=True)
        write_dataset(undisturbed / "rows", rows, Manifest({"depth": 2}, 3))
        at = Access(Server("stub", server.base_url), patience=Patience(concurrency=CONCURRENCY))
        filter_folder(undisturbed / "rows", undisturbed / "out", CONFIG, at)
        once = len(server.given) - killed
    assert once < killed <= once + 5 * 7 * CONCURRENCY
    files = sorted(path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("*.*"))
    assert len(files) >= 5
    for name in files:
        assert (tmp_path / "out" / name).read_bytes() == (undisturbed / "out" / name).read_bytes()
    with CompletionStore(store) as kept:
        assert all(isinstance(kept.replies(ask, [0])[0], Reply) for ask in asks.values())
