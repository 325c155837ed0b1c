"""Whole runs of the command line against real servers with random models, from nothing to labelled rows.

The models know nothing, but some say programs or answers by heart (`tiny_models`), so that runs end both
ways: with rows, and with a plain message that says why there are none.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from conftest import CommandLine, Environment, environment_in
from model_servers import SLOTS, Served, llama_server, transformers_serve
from tiny_models import gguf_model, transformers_model

from rewards.row import Row
from synth.completions import CompletionStore, Sampling
from synth.dataset import read_manifest, read_rows
from synth.difficulty import Bar, DifficultyConfig
from synth.difficulty.judging import evaluator_ask
from synth.journal import STORE
from synth.recheck import recheck

ALL_TOKENS = '{"min_p": 0, "top_k": 0}'
"""llama.cpp leaves unlikely tokens out unless it is told not to."""
CONCURRENCY = 4

Start = Callable[[Path, Mapping[str, float]], AbstractContextManager[Served]]
"""Starts a server, in a folder of its own, on a model that says some texts."""


@contextmanager
def on_llama(folder: Path, says: Mapping[str, float]) -> Iterator[Served]:
    with llama_server(gguf_model(folder / "tiny.gguf", says)) as server:
        yield server


@contextmanager
def on_transformers(folder: Path, says: Mapping[str, float]) -> Iterator[Served]:
    with transformers_serve(transformers_model(folder / "tiny", says)) as server:
        yield server


SERVERS = [
    pytest.param(on_llama, id="llama_cpp"),
    pytest.param(on_transformers, id="transformers_serve", marks=pytest.mark.slow),
]


def access(server: Served) -> tuple[str, ...]:
    """The options that say which model to ask, and how."""
    extra = ALL_TOKENS if server.is_llama else "{}"
    words = ("--model", server.model, "--base-url", server.url, "--extra-body", extra)
    return (*words, "--concurrency", str(CONCURRENCY), "--jobs", "1")


# ----------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("start", SERVERS)
def test_a_model_that_writes_no_program_ends_the_run_with_the_reasons(
    start: Start, command_line: CommandLine, tmp_path: Path
) -> None:
    words = ("generate", "--provider", "openai", "--depth", "1", "-n", "4", "--types", "str")
    words += ("--attempts", "1", "--max-tokens", "24")
    says = {"I do not know.": 0.4, "```python\ndef f(x):\n    return x\n": 0.4}
    with start(tmp_path, says) as server:
        words += access(server)
        done = command_line(*words)
        asked = server.completions()
    assert done.returncode == 1, done.stderr
    told = re.fullmatch(
        r"error: 15 constraints in a row gave no program; most common reasons: (.*?)\. Widen .*\n",
        done.stderr,
    )
    assert told, done.stderr
    reasons = {name: int(n) for name, n in re.findall(r"(\w+) \((\d+)\)", told[1])}
    assert {"syntax", "no_program"} <= set(reasons) <= {"syntax", "no_program", "truncated"}
    assert not (tmp_path / "curriculum/manifest.json").exists()
    # What was answered is there; requests under way are called off when the run ends.
    with CompletionStore(tmp_path / "curriculum" / STORE) as store:
        paid = store.totals().completions
    assert sum(reasons.values()) <= paid <= asked <= paid + CONCURRENCY
    again = command_line(*words, "--offline", "--resume")
    assert (again.returncode, again.stderr) == (1, done.stderr)


WANTED = ("--depth", "1", "-n", "8", "--types", "str", "--levels", "1,2", "--tasks", "output,input")


@pytest.mark.parametrize("start", SERVERS)
def test_programs_are_asked_for_checked_run_and_filtered(
    start: Start, command_line: CommandLine, tmp_path: Path
) -> None:
    """The model knows those of the grammar for the same constraints, and does not know which is for which."""
    assert command_line("generate", *WANTED, "--out", "grammar", "--jobs", "1").returncode == 0
    known = {
        row.code: f"Sure:\n\n```python\n{row.code}\n\nprint({row.entry}({row.args}))\n```\nEnjoy."
        for row in reversed(list(read_rows(tmp_path / "grammar")))
    }
    said = {text: 0.9 / len(known) for text in known.values()}
    words = ("generate", "--provider", "openai", *WANTED, "--max-tokens", "24")
    with start(tmp_path, said) as server:
        words += (*access(server), "--attempts", "30", "--evaluator-model", server.model)
        done = command_line(*words)
        asked = server.completions()
    assert done.returncode == 0, done.stderr
    rows = tuple(read_rows(tmp_path / "curriculum"))
    assert Counter(row.level for row in rows) == {1: 4, 2: 4}
    assert {row.code for row in rows} <= set(known)
    assert {row.provider for row in rows} == {server.model}
    assert recheck(rows).broken == ()
    funnel = read_manifest(tmp_path / "curriculum").funnel
    assert "nested_calls" in dict(funnel["programs"].dropped)  # a program of another constraint
    hard = tuple(read_rows(tmp_path / "curriculum-hard"))
    assert [row.pass_rate for row in hard] == [0.0] * 8  # programs are no answers
    with CompletionStore(tmp_path / "curriculum" / STORE) as store:
        paid = store.totals().completions
    assert paid <= asked <= paid + CONCURRENCY


# -------------------------------------------------------------------------------------------- labels


@pytest.fixture(scope="module")
def rows_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """200 rows of the grammar. Do not write to it."""
    folder = tmp_path_factory.mktemp("grammar")
    words = ("generate", "--depth", "2", "-n", "200", "--seed", "6", "--tasks", "output,input")
    done = subprocess.run(
        [sys.executable, "-m", "synth", *words, "--out", "rows"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment_in(folder),
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "rows"


def answer(row: Row) -> str:
    return f"<answer>{row.output}</answer>"


def killed(
    words: tuple[str, ...], server: Served, after: int, folder: Path, env: Environment
) -> None:
    """Starts a command and kills it when the server has begun `after` completions."""
    begun = server.completions()
    run = subprocess.Popen([sys.executable, "-m", "synth", *words], cwd=folder, env=env)
    while server.completions() < begun + after:
        assert run.poll() is None, "the command ended before it was killed"
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    seen = -1
    while seen != (seen := server.completions()):
        time.sleep(1.0)  # what was under way is finished, for nobody


@pytest.mark.parametrize("start", SERVERS)
def test_200_rows_are_labelled_and_nothing_is_paid_for_twice(
    start: Start,
    rows_folder: Path,
    command_line: CommandLine,
    environment: Environment,
    tmp_path: Path,
) -> None:
    rows = tuple(read_rows(rows_folder))
    output = [row for row in rows if row.task == "output" and row.output.isascii()]
    said = dict(zip(map(answer, output[::10]), (0.8, *[0.03] * 5), strict=False))
    words = ("difficulty", str(rows_folder), "-n", "4", "--max-tokens", "12", "--label-only")
    words += ("--out", "labelled", "--store", "answers.sqlite")
    with start(tmp_path, said) as server:
        words += access(server)
        killed(words, server, 150, tmp_path, environment)
        begun = server.completions()
        with CompletionStore(tmp_path / "answers.sqlite") as store:
            kept = store.totals().completions
        assert begun - CONCURRENCY * SLOTS <= kept <= begun
        done = command_line(*words)
        assert done.returncode == 0, done.stderr
        further = server.completions() - begun
    assert "before" in done.stdout
    check_labels(tmp_path, rows, server.model, access(server)[5], kept + further)
    there = tmp_path / "labelled"
    command_line(*words, "--offline", "--out", "again")
    assert (there / "difficulty.jsonl").read_bytes() == (
        tmp_path / "again/difficulty.jsonl"
    ).read_bytes()


def check_labels(
    folder: Path, rows: tuple[Row, ...], model: str, extra: str, completions: int
) -> None:
    """Every row has the label that its stored completions give, and there is none that was not used."""
    labels = [json.loads(line) for line in (folder / "labelled/difficulty.jsonl").open()]
    labelled = tuple(read_rows(folder / "labelled"))
    assert [row.id for row in labelled] == [label["id"] for label in labels] == [r.id for r in rows]
    assert {label["verdict"] for label in labels} <= {"kept", "too_easy"}
    assert any(row.pass_rate for row in labelled)
    sampling = Sampling(temperature=1.0, top_p=0.9, max_tokens=12, extra=extra)
    config = DifficultyConfig(model=model, bar=Bar(4, 0.3), sampling=sampling)
    drawn = 0
    with CompletionStore(folder / "answers.sqlite") as store:
        for row in labelled:
            request = evaluator_ask(row, config)
            assert request is not None
            replies = store.replies(request, range(4))
            drawn += len(replies)
            assert sorted(replies) == list(range(row.n_rollouts or 0))
            if row.task == "output":
                right = [(one.text or "").endswith(answer(row)) for one in replies.values()]
                assert row.pass_rate == sum(right) / len(right)
        assert drawn == store.totals().completions == completions
