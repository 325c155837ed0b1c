"""Reports from the issue trackers of other projects, one test each, named after its id in our list.

DF: difficulty filters and clients of model servers. GE: generators. What a report expects stands in the
test's first line.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, CommandLine
from fault_server import Answer, StubServer, serving
from skilled import COMMAND, Skilled, measured, numbered_row
from test_clients import FakeClock, Run, ask, echo, error, scripted, told

from rewards.row import Row
from synth.catalogue import catalogue
from synth.clients import Patience, Server
from synth.completions import Ask, CompletionStore
from synth.constraints import Constraint, structure
from synth.dataset import read_rows, write_dataset
from synth.difficulty import DifficultyConfig, filter_folder
from synth.difficulty.filtering import LABELS, STORE, Access
from synth.errors import ProgramRejected, ProviderError
from synth.manifest import Manifest
from synth.programs import extract, vet

CONFIG = DifficultyConfig(model="stub")
STRIP = Constraint(catalogue().get("str.strip"), 1, structure(1, 3))
QUICK = Patience(concurrency=8, timeout=1.0, attempts=3, seconds=2.0, first_wait=0.002)


def rows_of(count: int) -> list[Row]:
    return [numbered_row(number) for number in range(count)]


def folder_of(path: Path, rows: list[Row]) -> Path:
    path.mkdir(exist_ok=True)
    write_dataset(path, rows, Manifest({"depth": 2}, 3))
    return path


def access(server: StubServer) -> Access:
    return Access(Server("stub", server.base_url), patience=QUICK)


def always(status: int, body: str, **headers: str) -> Any:
    return lambda number, _: (status, headers, body)


def test_DF_01_a_server_that_ignores_n_is_asked_for_the_rest() -> None:
    """Eight completions for n=8 from a server that sends one; the denominator is what was received."""
    rows = rows_of(6)
    with serving(StubServer(Skilled(rows), ignores_n=True)) as server:
        (found,) = Run(server)((Ask("stub", rows[0].prompt), range(8)))
        assert len(found) == 8
        assert len({one.seed for one in found.values()}) == 8
        labels, _ = measured(rows, server, CONFIG)
    for label in labels:
        assert label.pass_rate == label.passes / len(label.rollouts)


def test_DF_02_a_server_that_refuses_n_is_asked_one_by_one() -> None:
    """Decided once, and the refusal is no wrong answer."""

    def script(number: int, body: dict[str, Any]) -> Any:
        return (400, {}, error("n must be 1")) if body.get("n", 1) > 1 else None

    rows = rows_of(12)
    with serving(StubServer(Skilled(rows), script=script)) as server:
        labels, _ = measured(rows, server, CONFIG, patience=Patience(concurrency=1))
        assert sum("n" in body for body in server.bodies) == 1
    assert {rollout.status for label in labels for rollout in label.rollouts} <= {"right", "wrong"}


def test_DF_03_identical_samples_are_warned_of(tmp_path: Path) -> None:
    """Every request has another seed; equal texts all over raise a warning and are still reported."""
    rows = rows_of(20)
    skilled = Skilled(rows)

    def model(prompt: str, seed: int) -> Answer:
        return skilled(prompt, 0)  # the server's own fixed seed

    with serving(StubServer(model, ignores_n=True)) as server:
        done = filter_folder(
            folder_of(tmp_path / "rows", rows), tmp_path / "o", CONFIG, access(server)
        )
        seeds = [(body["messages"][1]["content"], body["seed"]) for body in server.bodies]
    assert len(set(seeds)) == len(seeds)
    assert any("samples are not independent" in text for text in done.warnings)
    assert {label.pass_rate for label in done.labels} == {0.0, 1.0}
    with serving(StubServer(skilled)) as server:
        done = filter_folder(
            folder_of(tmp_path / "rows2", rows), tmp_path / "o2", CONFIG, access(server)
        )
    assert done.warnings == ()


def test_DF_04_content_null_is_no_answer_and_reasoning_is_not_graded() -> None:
    """No crash; tallied apart; drafts in the reasoning are not graded; mostly null stops with a hint."""
    rows = rows_of(30)

    def model(prompt: str, seed: int) -> Answer:
        right = Skilled(rows)
        right.skill = lambda row: 1.0  # type: ignore[method-assign]
        answer = right(prompt, seed)
        hidden = f"scale([{1}, -2" in prompt
        return Answer(None, reasoning=answer.text) if hidden else answer

    with serving(StubServer(model)) as server:
        labels, _ = measured(rows, server, CONFIG, patience=QUICK)
    statuses = Counter(rollout.status for rollout in labels[0].rollouts)
    assert set(statuses) == {"no_content"}
    assert {rollout.status for label in labels[1:] for rollout in label.rollouts} == {"right"}
    null = Answer(None, reasoning="<answer>5</answer>")
    with (
        serving(StubServer(lambda prompt, seed: null)) as server,
        pytest.raises(ProviderError, match="reasoning parser"),
    ):
        measured(rows, server, CONFIG, patience=QUICK)


@pytest.mark.parametrize(
    "body", ['{"id": "x", "choices": null}', '{"choices": []}', '{"error": {"message": "busy"}}']
)
def test_DF_07_no_choices_is_no_answer(body: str) -> None:
    """Asked again a bounded number of times, then a fault of this completion alone."""
    with serving(StubServer(echo, script=scripted(None, *[(200, {}, body)] * 3))) as server:

        async def run() -> tuple[Any, Any]:
            from synth.clients import Client

            with CompletionStore(":memory:") as store:
                client = Client(Server("stub", server.base_url), store, QUICK)
                found = [await client.sample(ask(text), [0]) for text in ("a", "b", "c")]
                await client.close()
                return found, server.requests

        (first, second, third), requests = asyncio.run(run())
    assert told(first) + told(second) + told(third) == [
        f"a#{ask('a').seed(0)}",
        "no_choices",
        f"c#{ask('c').seed(0)}",
    ]
    assert requests == 5


def test_DF_09_an_error_text_is_never_graded() -> None:
    """A 400 to every prompt ends the run at the first request, and nothing is stored."""
    rows = rows_of(20)
    script = always(400, error("stop: at most 4 allowed"))
    with CompletionStore(":memory:") as store:
        with serving(StubServer(Skilled(rows), script=script)) as server:
            with pytest.raises(ProviderError, match="at most 4 allowed"):
                measured(rows, server, CONFIG, store=store)
            assert server.requests <= 2  # once with n, once without
        assert store.totals().completions == 0


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_DF_10_a_rate_limit_is_waited_out(form: str) -> None:
    """Three times 429 with 2 s to wait, then the completion; attempts for failures are not used up."""

    def script(number: int, body: dict[str, Any]) -> Any:
        later = email.utils.formatdate(time.time() + 3, usegmt=True)
        wait = "2" if form == "seconds" else later
        return (429, {"Retry-After": wait}, "{}") if number < 3 else None

    clock = FakeClock()
    with serving(StubServer(echo, script=script)) as server:
        patience = Patience(attempts=1, seconds=60)
        (found,) = Run(server, patience=patience, clock=clock)((ask(), [0]))
        assert server.requests == 4
    assert told(found) == [echo("question", ask().seed(0))]
    assert sum(clock.slept) >= 6 - 1e-6


def test_DF_12_a_prompt_cut_by_the_server_is_found_and_left_out() -> None:
    """2,048 tokens for 24 kB: the row is marked and has no pass rate."""
    rows = rows_of(5)
    long = replace(rows[2], prompt=(("user", "x = 1  # filler\n" * 1500),))
    rows[2] = long
    skilled = Skilled(rows)

    def model(prompt: str, seed: int) -> Answer:
        return replace(skilled(prompt, seed), prompt_tokens=min(2048, len(prompt) // 3))

    with serving(StubServer(model)) as server:
        labels, _ = measured(rows, server, CONFIG)
    assert labels[2].verdict == "prompt_cut"
    assert labels[2].pass_rate is None
    assert all(label.measured for place, label in enumerate(labels) if place != 2)


def test_DF_13_a_server_that_is_gone_ends_the_run(
    tmp_path: Path, command_line: CommandLine
) -> None:
    """Within a bounded time, not with status 0, and what was answered is on the disk."""
    rows = rows_of(30)
    folder = folder_of(tmp_path / "rows", rows)
    with serving(StubServer(Skilled(rows))) as server:
        filter_folder(folder, tmp_path / "x", CONFIG, access(server))
        address = server.base_url
    with CompletionStore(folder / STORE) as store:
        before = store.totals()
    started = time.monotonic()
    done = difficulty(folder, "--base-url", address, "--seed", "1", "--patience", "2")
    assert time.monotonic() - started < 30
    assert done.returncode == 1
    assert "nothing answers at the address" in done.stderr
    assert "Traceback" not in done.stderr
    with CompletionStore(folder / STORE) as store:
        assert store.totals() == before


def difficulty(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`synth difficulty FOLDER …` for the model "stub"."""
    return subprocess.run(
        [sys.executable, "-c", COMMAND, "difficulty", str(folder), "--model", "stub", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_DF_16_half_a_line_is_never_left_or_added_to(tmp_path: Path) -> None:
    """After a crash and a second run every line is JSON, and every id stands once."""
    rows = rows_of(20)
    folder = folder_of(tmp_path / "rows", rows)
    out = tmp_path / "out"
    out.mkdir()
    (out / LABELS).write_text('{"id": 1, "ok": true}\n{"id": 2, "o')
    with serving(StubServer(Skilled(rows))) as server:
        filter_folder(folder, out, CONFIG, access(server))
    ids = [json.loads(line)["id"] for line in (out / LABELS).read_text().splitlines()]
    assert ids == [row.id for row in rows]


def test_DF_17_rows_with_one_prompt_are_rows_of_their_own(tmp_path: Path) -> None:
    """p, p, q give three labels, whatever was finished before."""
    one = numbered_row(0)
    rows = [one, replace(one, id="again"), numbered_row(1)]
    skilled = Skilled(rows)
    config = replace(CONFIG, label_only=True)
    folder = folder_of(tmp_path / "rows", rows)
    with serving(StubServer(skilled)) as server:
        first = folder_of(tmp_path / "first", rows[:1])
        filter_folder(first, tmp_path / "x", config, access(server), store=folder / STORE)
        done = filter_folder(folder, tmp_path / "out", config, access(server))
    assert [label.row_id for label in done.labels] == [row.id for row in rows]
    assert [row.id for row in read_rows(tmp_path / "out")] == [row.id for row in rows]


def test_DF_18_a_row_put_in_front_moves_nothing(tmp_path: Path) -> None:
    """After a and b (b dropped) were measured, z, a, b, c asks for z and c only; drops are recorded."""
    z, a, b, c = rows_of(4)
    skilled = Skilled([z, a, b, c])
    skilled.skill = lambda row: float(row is b)  # type: ignore[method-assign]
    store = tmp_path / "s.sqlite"
    with serving(StubServer(skilled)) as server:
        first = folder_of(tmp_path / "ab", [a, b])
        before = filter_folder(first, tmp_path / "o1", CONFIG, access(server), store=store)
        known = len(server.given)
        second = folder_of(tmp_path / "zabc", [z, a, b, c])
        after = filter_folder(second, tmp_path / "o2", CONFIG, access(server), store=store)
        asked = {prompt for prompt, _ in server.given[known:]}
        assert asked.isdisjoint({prompt for prompt, _ in server.given[:known]})
        assert len(asked) == 2
    assert after.labels[1:3] == before.labels
    lines = [json.loads(line) for line in (tmp_path / "o2" / LABELS).read_text().splitlines()]
    assert [line["verdict"] for line in lines] == ["kept", "kept", "too_easy", "kept"]


@pytest.mark.parametrize(
    ("reason", "status"), [("length", "truncated"), ("content_filter", "filtered")]
)
def test_DF_19_the_reason_for_an_end_is_kept(tmp_path: Path, reason: str, status: str) -> None:
    """Finish reason, model, seed, temperature and tokens are with the row; it has not passed."""
    rows = rows_of(3)
    skilled = Skilled(rows)
    folder = folder_of(tmp_path / "rows", rows)
    with serving(StubServer(lambda p, s: replace(skilled(p, s), finish_reason=reason))) as server:
        done = filter_folder(folder, tmp_path / "out", CONFIG, access(server))
    for line in (tmp_path / "out" / LABELS).read_text().splitlines():
        found = json.loads(line)["evaluator"]
        assert set(found["finish_reason"]) == {reason}
        assert set(found["status"]) == {status}
        assert all(isinstance(seed, int) for seed in found["seed"])
        assert len(found["completion_tokens"]) == 7
    assert all(
        row.evaluator == f"stub (temperature 1, top_p 0.9, {done.date})" for row in done.rows
    )
    assert {row.pass_rate for row in done.rows} == {0.0}


def test_DF_20_rows_that_the_server_fails_are_told_and_not_averaged_away(tmp_path: Path) -> None:
    """500 to 3 of 10 prompts: 7 rows with a rate, 3 named, the share printed, status not 0."""
    rows = rows_of(10)
    skilled = Skilled(rows)
    skilled.skill = lambda row: 0.0  # type: ignore[method-assign]
    bad = {"\n\n".join(text for _, text in row.prompt) for row in rows[4:7]}

    def script(number: int, body: dict[str, Any]) -> Any:
        prompt = "\n\n".join(message["content"] for message in body["messages"])
        return (500, {}, error("internal")) if prompt in bad else None

    folder = folder_of(tmp_path / "rows", rows)
    with serving(StubServer(skilled, script=script)) as server:
        done = filter_folder(
            folder,
            tmp_path / "out",
            CONFIG,
            Access(Server("stub", server.base_url), patience=Patience(8, 1.0, 2, 1.0, 0.0, 1.0)),
        )
    assert done.figures.verdicts == {"kept": 7, "server_error": 3}
    assert done.failed_share == 0.3
    assert [row.id for row in done.rows] == [row.id for row in rows[:4] + rows[7:]]
    with CompletionStore(folder / STORE) as store:
        assert store.totals().completions == 49


# ---------------------------------------------------------------------------------------- GE


def test_GE_02_workers_and_order_of_answers_change_no_row(tmp_path: Path) -> None:
    """The same rows in the same order, whatever the number of requests under way."""
    rows = rows_of(25)
    skilled = Skilled(rows)
    written = []
    for concurrency, delay in ((1, 0.0), (8, 0.003)):
        base = tmp_path / str(concurrency)
        base.mkdir()
        folder = folder_of(base / "rows", rows)
        with serving(StubServer(skilled, delay=delay)) as server:
            patience = replace(QUICK, concurrency=concurrency)
            at = Access(Server("stub", server.base_url), patience=patience)
            filter_folder(folder, base / "out", CONFIG, at)
        written.append((base / "out" / "jsonl" / "train.jsonl").read_bytes())
    assert written[0] == written[1]


def test_GE_03_a_program_that_hangs_on_a_hash_is_refused() -> None:
    """`hash` of a text changes with PYTHONHASHSEED."""
    text = "def f(s):\n    return [hash(s) % 10, len(s.strip()), s.strip()]\nprint(f('ab'))\n"
    with pytest.raises(ProgramRejected):
        vet(STRIP, text)


def test_GE_04_prose_and_fences_are_not_stored() -> None:
    """Exactly the function, without the words around it."""
    said = "Sure! Here is the function:\n```python\ndef f(x):\n    return x - 1\n```\nCall it with f(1)."
    assert extract(said) == "def f(x):\n    return x - 1\n"


def test_every_report_of_the_two_components_has_a_test() -> None:
    notes = ROOT.parent / "shared" / "notes" / "public-reports.jsonl"
    if not notes.exists():
        pytest.skip("the list of reports is not in this checkout")
    reports = [json.loads(line) for line in notes.read_text().splitlines()]
    ours = ("difficulty filter/OpenAI client", "generator")
    ids = {one["id"].replace("-", "_") for one in reports if one["component"] in ours}
    named = {name.removeprefix("test_")[:5] for name in globals() if name.startswith("test_")}
    assert ids <= named
