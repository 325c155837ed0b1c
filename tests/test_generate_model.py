"""`synth generate --provider openai`: the whole path, against a server that writes programs over HTTP.

The server is real HTTP on this machine and answers with programs of the grammar, prose around them. See
`test_generate_repairs.py` for bad answers, and `test_generate_faults.py` for kills and faults.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, StubServer, serving
from programming import CONFIG, WORDS, GrammarModel, files, made
from skilled import Skilled, text_of

from rewards.row import Row
from synth import cli
from synth.completions import CompletionStore, Sampling
from synth.config import Writer
from synth.dataset import read_manifest, read_rows
from synth.engine import Finished
from synth.errors import ProviderError
from synth.journal import JOURNAL, STORE
from synth.recheck import recheck


@dataclass(frozen=True)
class Run:
    """A finished run, and what the server saw of it."""

    folder: Path
    finished: Finished
    server: StubServer
    usage: list[int]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """24 rows by one sandboxed process. Do not write to its folder."""
    folder = tmp_path_factory.mktemp("model") / "rows"
    usage: list[int] = []
    with serving(StubServer(GrammarModel(CONFIG), delay=0.3)) as server:
        finished = made(
            folder, server, jobs=1, usage=lambda totals: usage.append(totals.completion_tokens)
        )
        yield Run(folder, finished, server, usage)


# ---------------------------------------------------------------------------------- the whole path


def test_rows_come_from_the_model_and_meet_their_constraints(run: Run) -> None:
    rows = list(read_rows(run.folder))
    assert len(rows) == 24
    assert Counter(row.level for row in rows) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert {row.provider for row in rows} == {"stub"}
    assert {row.owner for row in rows} <= {"str", "list"}
    assert not any("Sure" in row.code or "```" in row.code for row in rows)
    assert recheck(tuple(rows)).broken == ()


def test_the_funnel_counts_every_completion(run: Run) -> None:
    funnel = read_manifest(run.folder).funnel
    for stage in funnel.stages:
        assert stage.entered == stage.kept + sum(count for _, count in stage.dropped)
    assert funnel["programs"].kept == funnel["executions"].entered
    assert run.finished.asked is not None
    # No request is sent for nothing, and none is left out. A program for a level with fewer rows left
    # than it has inputs is looked at again, and counted again, without being asked for.
    remade = dict(funnel["dedup"].dropped).get("remade_with_fewer_inputs", 0)
    asked = funnel["programs"].entered - remade
    assert run.server.requests == asked == run.finished.asked.totals.completions


def test_the_manifest_says_who_wrote_and_not_where_or_with_which_key(run: Run) -> None:
    manifest = read_manifest(run.folder)
    model = manifest.config["model"]
    assert isinstance(model, dict)
    assert model["name"] == "stub"
    assert (model["endpoint"], model["repairs"], model["temperature"]) == ("chat", 1, 1.0)
    assert manifest.run["command"] == (
        "synth generate --depth 1 -n 24 --seed 0 --types str,list --provider openai --model stub"
    )
    for name in ("manifest.json", "README.md", JOURNAL):
        assert run.server.base_url not in (run.folder / name).read_text()


def test_requests_are_not_bound_to_the_number_of_workers(run: Run) -> None:
    """One sandboxed process. Four slots are needed; the first request goes alone, to try the settings."""
    assert run.server.most_at_once == 3


def test_what_is_spent_is_told_as_it_grows(run: Run) -> None:
    assert run.finished.asked is not None
    assert run.usage == sorted(run.usage)
    assert run.usage[-1] == run.finished.asked.totals.completion_tokens > 0


def test_workers_and_concurrency_do_not_show_in_the_rows(run: Run, tmp_path: Path) -> None:
    with serving(StubServer(GrammarModel(CONFIG))) as server:
        made(tmp_path / "rows", server, jobs=2, concurrency=1)
    assert files(tmp_path / "rows") == files(run.folder)


def test_a_stored_run_is_replayed_without_a_server(run: Run, tmp_path: Path) -> None:
    """The folder holds the completions alone, as after a lost dataset; nothing is asked."""
    folder = tmp_path / "rows"
    folder.mkdir()
    (folder / STORE).write_bytes((run.folder / STORE).read_bytes())
    away = replace(run.server, base_url="http://127.0.0.1:9/v1")
    made(folder, away, offline=True)
    assert files(folder) == files(run.folder)
    with CompletionStore(folder / STORE) as store:
        assert store.totals().requests == run.server.requests
    # A run that is replaced keeps what was paid for, too.
    made(folder, away, offline=True, overwrite=True)
    assert files(folder) == files(run.folder)


# -------------------------------------------------------------------------------- the command line


Command = Callable[..., "Done"]


@dataclass(frozen=True)
class Done:
    """What a command left."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Command:
    """Runs `synth generate` in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **env: str) -> Done:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(sys, "argv", ["synth", "generate", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert isinstance(ended.value.code, int)
        return Done(ended.value.code, *capsys.readouterr())

    return run


def test_the_command_makes_the_rows_and_says_how_to_filter(
    run: Run, command: Command, tmp_path: Path
) -> None:
    with serving(StubServer(GrammarModel(CONFIG))) as server:
        done = command(*WORDS, "--base-url", server.base_url, "--jobs", "2", "--prices", "1,2")
    assert done.status == 0, done.stderr
    assert files(tmp_path / "curriculum") == files(run.folder)
    assert re.search(
        r"^  \d+ requests answered so far, [\d,]+ tokens, about 0\.\d\d$", done.stdout, re.M
    )
    assert "Rows are not filtered by difficulty" in done.stdout
    assert "synth difficulty curriculum --model NAME --base-url URL" in done.stdout


def test_with_an_evaluator_the_rows_are_filtered(command: Command, tmp_path: Path) -> None:
    """Rows that the small model always passes are left out; the key goes to the writer's server alone."""
    keys: dict[str, set[str]] = {"writer": set(), "small": set()}
    rows: dict[str, Row] = {}

    def small(prompt: str, seed: int) -> Answer:
        if not rows:
            rows.update({text_of(row): row for row in read_rows(tmp_path / "curriculum")})
        skilled = Skilled(list(rows.values()))
        skilled.skill = lambda row: float(row.task == "input")  # type: ignore[method-assign]
        return skilled(prompt, seed)

    writer = Guarded(GrammarModel(CONFIG), keys=keys["writer"])
    evaluator = Guarded(small, name="small", keys=keys["small"])
    with serving(writer) as one, serving(evaluator) as two:
        words = [*WORDS, "--base-url", one.base_url, "--jobs", "2"]
        words += ("--evaluator-model", "small", "--evaluator-base-url", two.base_url)
        done = command(*words, OPENAI_API_KEY="secret")
        assert done.status == 0, done.stderr
        asked = (one.requests, two.requests)
        again = command(*words, "--resume", "--json")
        assert again.status == 0, again.stderr
        assert (one.requests, two.requests) == asked
        clash = command(*words, "--max-pass-rate", "0.5", "--resume")
    assert keys == {"writer": {"Bearer secret"}, "small": {"Bearer none"}}
    kept = list(read_rows(tmp_path / "curriculum-hard"))
    every = list(read_rows(tmp_path / "curriculum"))
    assert [row.id for row in kept] == [row.id for row in every if row.task != "input"]
    assert {row.pass_rate for row in kept} == {0.0}
    assert "not filtered" not in done.stdout
    assert re.search(rf"^{len(kept)} rows -> curriculum-hard/$", done.stdout, re.M)
    figures = json.loads(again.stdout)
    assert figures["difficulty"]["rows"] == len(kept)
    assert figures["asked"]["totals"]["completions"] > 0
    # Labels of other settings are not replaced unasked.
    assert clash.status == 2
    assert "curriculum-hard" in clash.stderr


class Guarded(StubServer):
    """A server that writes down the keys it is shown."""

    def __init__(self, model: Any, *, keys: set[str], name: str = "stub") -> None:
        super().__init__(model, name=name)
        self.keys = keys

    async def serve(self, reader: Any, writer: Any) -> None:
        readuntil = reader.readuntil

        async def seen(separator: bytes) -> bytes:
            head: bytes = await readuntil(separator)
            self.keys.update(
                found.decode() for found in re.findall(rb"(?i)authorization: (.*)\r", head)
            )
            return head

        reader.readuntil = seen
        await super().serve(reader, writer)


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("--provider", "openai"), 2, "name it with --model"),
        (("--model", "m"), 2, "add --provider openai"),
        (("--provider", "opnai", "--model", "m"), 2, "did you mean 'openai'"),
        ((*WORDS, "--repair", "9"), 2, "--repair is 9"),
        ((*WORDS, "--attempts", "0"), 2, "--attempts is 0"),
        ((*WORDS, "--temperature", "0"), 2, "--temperature is 0"),
        ((*WORDS, "--temperature", "3"), 2, "expected a number from 0 to 2"),
        ((*WORDS, "--extra-body", "["), 2, "not JSON"),
        ((*WORDS, "--endpoint", "chatt"), 2, "did you mean 'chat'"),
        ((*WORDS, "--base-url", "localhost"), 2, "expected http://"),
        ((*WORDS, "--prices", "1"), 2, "expected two numbers"),
        ((*WORDS, "--base-url", "http://127.0.0.1:9/v1", "--patience", "0"), 1, "Start the server"),
        (("--evaluator-base-url", "localhost"), 2, "expected http://"),
        (("--solver-model", "big"), 2, "--solver-model needs --evaluator-model"),
        (("--evaluator-model", "m", "--solver-base-url", "http://x/v1"), 2, "--solver-model"),
        (("--evaluator-model", "m", "--max-pass-rate", "30"), 2, "--max-pass-rate is 30"),
    ],
)
def test_what_cannot_be_done_is_told_at_once_and_leaves_nothing(
    command: Command, tmp_path: Path, words: tuple[str, ...], status: int, says: str
) -> None:
    done = command(*words)
    assert done.status == status, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_the_server_does_not_have_leaves_no_folder(tmp_path: Path) -> None:
    with (
        serving(StubServer(GrammarModel(CONFIG), name="other")) as server,
        pytest.raises(ProviderError, match=r"no model 'stub'.*other"),
    ):
        made(tmp_path / "rows", server)
    assert not (tmp_path / "rows").exists()


def test_settings_reach_the_server(tmp_path: Path) -> None:
    writer = Writer("stub", sampling=Sampling(0.7, 0.9, 1000, extra='{"min_p": 0.1}'), repairs=0)
    config = replace(CONFIG, rows=4, levels=(1,), writer=writer)
    with serving(StubServer(GrammarModel(config))) as server:
        made(tmp_path / "rows", server, config)
        bodies = server.bodies
    for body in bodies:
        assert body["model"] == "stub"
        assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 1000)
        assert body["min_p"] == 0.1
    assert len({body["seed"] for body in bodies}) == len(bodies)
