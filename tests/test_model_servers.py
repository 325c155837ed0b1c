"""The whole path against real servers: what each ignores or refuses is handled (see `model_servers`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fault_server import StubServer
from model_servers import llama, tiny_model, transformers_serve
from skilled import numbered_row
from test_clients import Run, ask
from test_openai_provider import STRIP, prompts

from synth.clients import Patience, Server
from synth.completions import CompletionStore, Reply, Sampling
from synth.dataset import read_rows, write_dataset
from synth.difficulty import Bar, DifficultyConfig, filter_folder
from synth.difficulty.filtering import Access
from synth.errors import ProgramRejected, ProviderError
from synth.manifest import Manifest
from synth.programs import vet
from synth.providers.openai import OpenAIProvider

pytestmark = pytest.mark.model

PATIENCE = Patience(concurrency=2, timeout=300.0, attempts=3, seconds=120.0)
SHORT = Sampling(temperature=1.0, top_p=0.95, max_tokens=8)


@pytest.fixture(scope="module")
def gguf() -> Iterator[tuple[str, str]]:
    with llama() as found:
        yield found


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def served(tiny: Path) -> Iterator[tuple[str, str]]:
    with transformers_serve(tiny) as found:
        yield found


def run_on(server: tuple[str, str], **more: object) -> Run:
    stub = StubServer(lambda prompt, seed: "", base_url=server[0])
    return Run(stub, patience=PATIENCE, **{"model": server[1], **more})  # type: ignore[arg-type]


def check_path(server: tuple[str, str], folder: Path, count: int) -> None:
    """Programs asked for and checked, rows labelled, and all of it again without the server."""
    url, model = server
    with CompletionStore(folder / "p.sqlite") as store:
        provider = OpenAIProvider(Server(model, url), store, sampling=SHORT, patience=PATIENCE)
        try:
            provider.check()
            for prompt in prompts(3):
                with pytest.raises(ProgramRejected):  # eight random tokens are no program
                    vet(STRIP, provider.complete([prompt])[0].text)
        finally:
            provider.close()
    rows = folder / "rows"
    rows.mkdir()
    write_dataset(rows, [numbered_row(n) for n in range(count)], Manifest({"depth": 2}, 3))
    config = DifficultyConfig(model=model, bar=Bar(4, 0.25), sampling=SHORT, label_only=True)
    at = Access(Server(model, url), patience=PATIENCE)
    done = filter_folder(rows, folder / "labelled", config, at)
    assert done.figures.verdicts == {"kept": count}
    assert set(done.figures.statuses) <= {"truncated", "wrong", "no_answer"}
    assert all(row.pass_rate == 0.0 for row in read_rows(folder / "labelled"))
    offline = Access(Server(model, "http://127.0.0.1:9/v1"), offline=True)
    filter_folder(rows, folder / "again", config, offline)
    for name in ("jsonl/train.jsonl", "manifest.json", "difficulty.jsonl"):
        one, two = (folder / out / name for out in ("labelled", "again"))
        assert one.read_bytes() == two.read_bytes()


def test_llama_cpp_from_programs_to_labels(gguf: tuple[str, str], tmp_path: Path) -> None:
    check_path(gguf, tmp_path, 6)


def test_llama_cpp_n_more_than_its_slots_is_asked_for_one_by_one(gguf: tuple[str, str]) -> None:
    """It has four slots, and refuses n = 5 with 400."""
    run = run_on(gguf)
    small, large = run(
        (ask("1 + 1 =", gguf[1], max_tokens=4), range(3)),
        (ask("2 +", gguf[1], max_tokens=4), range(5)),
    )
    assert all(isinstance(one, Reply) for one in [*small.values(), *large.values()])
    assert run.client is not None
    assert Counter(run.client.faults) == {"refused": 1}


def test_llama_cpp_a_prompt_that_is_too_long_is_told(gguf: tuple[str, str]) -> None:
    run = run_on(gguf)
    good, bad = ask("1 + 1 =", gguf[1], max_tokens=4), ask("word " * 9000, gguf[1], max_tokens=4)
    first, second = run((good, [0]), (bad, [0]))
    assert isinstance(first[0], Reply)
    assert second[0].kind == "too_long"


@pytest.mark.parametrize("which", ["gguf", "served"])
def test_a_model_that_is_not_there_is_told(which: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(which)
    with pytest.raises(ProviderError, match=r"no model|refused|no such"):
        run_on(server, model="gpt-99")((ask(model="gpt-99", max_tokens=4), [0]), check=True)


def test_transformers_serve_from_programs_to_labels(
    served: tuple[str, str], tmp_path: Path
) -> None:
    check_path(served, tmp_path, 4)


def test_transformers_serve_ignores_n_and_keeps_to_seeds(served: tuple[str, str]) -> None:
    run = run_on(served)
    (found,) = run((ask("1 + 1 =", served[1], max_tokens=6), range(3)))
    assert len({one.text for one in found.values()}) > 1
    assert run.client is not None
    assert any("n > 1" in text for text in run.client.warnings)
    (again,) = run_on(served)((ask("1 + 1 =", served[1], max_tokens=6), range(3)))
    assert [one.text for one in again.values()] == [one.text for one in found.values()]


def test_transformers_serve_quotes_what_it_refuses(served: tuple[str, str]) -> None:
    with pytest.raises(ProviderError, match="no_such_key"):
        run_on(served)((ask(model=served[1], extra='{"no_such_key": 1}', max_tokens=4), [0]))


def test_a_local_model_needs_no_server(tiny: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not there")
    rows = tmp_path / "rows"
    rows.mkdir()
    write_dataset(rows, [numbered_row(n) for n in range(3)], Manifest({"depth": 2}, 3))
    config = DifficultyConfig(model="tiny", bar=Bar(3, 0.3), sampling=SHORT)
    done = filter_folder(rows, tmp_path / "out", config, Access(tiny))
    assert done.figures.verdicts == {"kept": 3}
    assert {row.evaluator for row in done.rows} == {
        f"tiny (temperature 1, top_p 0.95, {done.date})"
    }
