"""What real servers ignore and refuse: each is an outcome of its own, never a wrong answer of the model.

Covers llama.cpp's server and `transformers serve` on random models; the table of what they do is in the
tests' names. See `test_model_servers_paths.py` for whole runs.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fault_server import StubServer
from model_servers import SLOTS, Served, llama_server, transformers_serve
from skilled import numbered_row
from test_clients import Run, ask
from test_openai_provider import STRIP, prompts
from tiny_models import CONTEXT, gguf_model, transformers_model

from rewards.row import Row
from synth.clients import Patience, Server
from synth.completions import Ask, CompletionStore, Reply, Sampling
from synth.dataset import read_rows, write_dataset
from synth.difficulty import Bar, DifficultyConfig, Filtered, filter_folder, filter_rows
from synth.difficulty.filtering import Access
from synth.difficulty.judging import evaluator_ask
from synth.errors import ProgramRejected, ProviderError
from synth.manifest import Manifest
from synth.programs import vet
from synth.providers.openai import OpenAIProvider

PATIENCE = Patience(concurrency=2, timeout=300.0, attempts=3, seconds=120.0)
SAMPLING = Sampling(temperature=1.0, top_p=1.0, max_tokens=48)
TALL = "word " * (CONTEXT // 4)
"""More tokens than the models are made for: to them each letter is one."""

SAYS = {"<answer>[2, 6]</answer>": 0.45, "[4, 6]\n": 0.4}
"""What the models say. The first is the output of row 0, the second that of row 1 as a base model gives it:
asked to stop at the end of the line."""


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    path = tmp_path_factory.mktemp("models") / "tiny.gguf"
    with llama_server(gguf_model(path, SAYS)) as server:
        yield server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return transformers_model(tmp_path_factory.mktemp("models") / "tiny", SAYS)


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with transformers_serve(folder) as server:
        yield server


@pytest.fixture(params=["llama", "served"])
def server(request: pytest.FixtureRequest) -> Served:
    """One after the other."""
    found: Served = request.getfixturevalue(request.param)
    return found


def run_on(server: Served, patience: Patience = PATIENCE, **more: object) -> Run:
    stub = StubServer(lambda prompt, seed: "", base_url=server.url)
    return Run(stub, patience=patience, **{"model": server.model, **more})  # type: ignore[arg-type]


def question(server: Served, text: str = "1 + 1 =", **sampling: object) -> Ask:
    return ask(text, server.model, **{"max_tokens": 48, **sampling})


def measured(
    server: Served, rows: list[Row], store: CompletionStore, **settings: object
) -> tuple[Filtered, DifficultyConfig]:
    """Rows labelled by a server's model, four completions each."""
    given = {"bar": Bar(4, 0.25), "sampling": SAMPLING, "label_only": True, **settings}
    config = DifficultyConfig(model=server.model, **given)  # type: ignore[arg-type]
    at = Access(Server(server.model, server.url), patience=PATIENCE)
    return filter_rows(rows, config, at, store, jobs=1), config


# ----------------------------------------------------------------------------- programs and labels


def check_programs(server: Served, store: CompletionStore, sampling: Sampling = SAMPLING) -> None:
    """Programs are asked for; what comes back is none, and is dropped as such."""
    address = Server(server.model, server.url)
    provider = OpenAIProvider(address, store, sampling=sampling, patience=PATIENCE)
    try:
        provider.check()
        for prompt in prompts(3):
            with pytest.raises(ProgramRejected) as dropped:
                vet(STRIP, provider.complete([prompt])[0].text)
            assert dropped.value.rule in ("truncated", "no_program", "syntax")
    finally:
        provider.close()


def test_programs_are_asked_for_and_rows_are_labelled(server: Served, tmp_path: Path) -> None:
    """And all of it again without the server."""
    with CompletionStore(tmp_path / "p.sqlite") as store:
        check_programs(server, store)
    rows = [numbered_row(n) for n in range(6)]
    (tmp_path / "rows").mkdir()
    write_dataset(tmp_path / "rows", rows, Manifest({"depth": 2}, 3))
    config = DifficultyConfig(
        model=server.model, bar=Bar(16, 0.0), sampling=SAMPLING, label_only=True
    )
    at = Access(Server(server.model, server.url), patience=PATIENCE)
    done = filter_folder(tmp_path / "rows", tmp_path / "labelled", config, at)
    assert set(done.figures.statuses) <= {"right", "truncated", "wrong", "no_answer"}
    passed = {row.id for row in read_rows(tmp_path / "labelled") if row.pass_rate}
    assert passed == {rows[0].id}  # whose output the model happens to say
    assert [label.verdict for label in done.labels] == ["too_easy", *["kept"] * 5]
    offline = replace(at, evaluator=Server(server.model, "http://127.0.0.1:9/v1"), offline=True)
    filter_folder(tmp_path / "rows", tmp_path / "again", config, offline)
    for name in ("jsonl/train.jsonl", "manifest.json", "difficulty.jsonl"):
        one, two = (tmp_path / out / name for out in ("labelled", "again"))
        assert one.read_bytes() == two.read_bytes()


def test_answers_of_base_models_count_with_and_without_the_text_to_stop_at(server: Served) -> None:
    """llama.cpp leaves the end of the line out, `transformers serve` leaves it in."""
    rows = [numbered_row(n) for n in range(2)]
    with CompletionStore(":memory:") as store:
        done, config = measured(server, rows, store, few_shot=True, bar=Bar(20, 0.0, False))
        request = evaluator_ask(rows[1], config)
        assert request is not None
        texts = [reply.text or "" for reply in store.replies(request, range(20)).values()]
    said = {text for text in texts if text.startswith("[4, 6]")}
    assert said == ({"[4, 6]"} if server.is_llama else {"[4, 6]\n"})
    assert done.labels[1].pass_rate == sum(text.strip() == "[4, 6]" for text in texts) / 20 > 0


# ------------------------------------------------------------------------------------------- n, seed


def test_llama_cpp_gives_several_completions_at_once_and_counts_the_tokens_of_one(
    llama: Served,
) -> None:
    run = run_on(llama)
    (found,) = run((question(llama, "n", max_tokens=6), range(SLOTS)))
    assert run.client is not None
    assert not run.client.warnings + list(run.client.faults)
    # Its usage is that of the first choice, so it is taken for none of them.
    assert all(one.completion_tokens is None for one in found.values())
    assert [one.seed for one in found.values()] == [found[0].seed + place for place in range(SLOTS)]


def test_llama_cpp_n_more_than_its_slots_is_asked_for_one_by_one(llama: Served) -> None:
    """It refuses n = 5 with 400."""
    run = run_on(llama)
    small, large = run((question(llama), range(3)), (question(llama, "2 +"), range(SLOTS + 1)))
    assert all(isinstance(one, Reply) for one in [*small.values(), *large.values()])
    assert run.client is not None
    assert Counter(run.client.faults) == {"refused": 1}
    assert any("refuses n > 1" in text for text in run.client.warnings)


def test_transformers_serve_ignores_n_and_is_asked_one_by_one(served: Served) -> None:
    before = served.completions()
    run = run_on(served)
    (found,) = run((question(served), range(3)))
    assert run.client is not None
    assert any("ignores n > 1" in text for text in run.client.warnings)
    assert [one.seed for one in found.values()] == [found[0].seed + place for place in range(3)]
    assert served.completions() == before + 3  # the one that came is not asked for again


def test_a_seed_gives_one_text_and_other_seeds_give_others(server: Served) -> None:
    """Asked one by one: the choices of one request of llama.cpp are no longer the same the next time."""
    asked = question(server, "noise", extra='{"min_p": 0, "top_k": 0}' if server.is_llama else "{}")
    texts = [
        [run_on(server)((asked, [number]))[0][number].text for number in range(12)]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) > 1


def test_a_model_that_always_says_the_same_is_told(served: Served) -> None:
    """The trap of `transformers serve`: it draws only if the model's own settings say so."""
    greedy = json.dumps({"do_sample": False, "eos_token_id": 2, "pad_token_id": 0})
    extra = json.dumps({"generation_config": greedy})
    sampling = replace(SAMPLING, extra=extra)
    with CompletionStore(":memory:") as store:
        rows = [numbered_row(n) for n in range(5)]
        done, _ = measured(served, rows, store, sampling=sampling, bar=Bar(3, 0.0, False))
    assert done.figures.same == 5
    assert any("not independent" in text for text in done.warnings)


# ------------------------------------------------------------------------- models and parameters


def test_a_model_that_is_not_there_is_told_before_anything_is_asked(server: Served) -> None:
    before = server.completions()
    with pytest.raises(ProviderError, match=r"has no model 'gpt-99'; it has .*tiny"):
        run_on(server, model="gpt-99")((ask(model="gpt-99", max_tokens=4), [0]), check=True)
    assert server.completions() == before


def test_llama_cpp_itself_answers_for_any_model(llama: Served) -> None:
    """Which is why the list of models is asked for first."""
    (found,) = run_on(llama, model="gpt-99")((ask(model="gpt-99", max_tokens=4), [0]))
    assert isinstance(found[0], Reply)


def test_transformers_serve_itself_refuses_another_model(served: Served) -> None:
    with pytest.raises(ProviderError, match=r"refused the request as it is.*400"):
        run_on(served, model="gpt-99")((ask(model="gpt-99", max_tokens=4), [0]))


def test_a_parameter_that_transformers_serve_does_not_know_is_quoted(served: Served) -> None:
    with pytest.raises(ProviderError, match="no_such_key"):
        run_on(served)((question(served, extra='{"no_such_key": 1}'), [0]))


def test_a_parameter_that_llama_cpp_does_not_know_does_no_harm(llama: Served) -> None:
    (found,) = run_on(llama)((question(llama, extra='{"no_such_key": 1}'), [0]))
    assert isinstance(found[0], Reply)


def test_a_server_that_fails_at_a_request_goes_on_with_others(served: Served) -> None:
    """It answers 500 in plain text, and the connection is of no use afterwards."""
    run = run_on(served, replace(PATIENCE, attempts=2, max_failures=1.0, first_wait=0.01))
    bad = question(served, "bad", extra='{"temperature": -1}')
    first, second, third = run((question(served), [0]), (bad, [0]), (question(served, "3"), [0]))
    assert isinstance(first[0], Reply)
    assert second[0].kind in ("server_error", "reset")
    assert isinstance(third[0], Reply)


# ------------------------------------------------------------------------------- prompts and time


def test_llama_cpp_a_row_that_is_too_long_has_no_pass_rate(llama: Served) -> None:
    tall = replace(numbered_row(0), prompt=(("user", TALL),))
    with CompletionStore(":memory:") as store:
        done, _ = measured(llama, [numbered_row(0), tall], store)
    whole, long = done.labels
    assert whole.measured
    assert (long.verdict, long.rollouts, long.pass_rate) == ("too_long", (), None)
    assert done.faults == {"too_long": 1}


def test_transformers_serve_reads_prompts_beyond_what_the_model_is_made_for(served: Served) -> None:
    """Nothing is cut and nothing is told, so its answer counts; the tokens show what happened."""
    run = run_on(served)
    (found,) = run((question(served, TALL, max_tokens=4), [0]))
    assert found[0].prompt_tokens > CONTEXT
    assert run.client is not None
    assert not run.client.faults


def test_an_answer_that_does_not_come_in_time_is_no_answer(server: Served) -> None:
    """The server stands still; afterwards it answers as if nothing had been."""
    hasty = Patience(concurrency=1, timeout=0.3, attempts=2, first_wait=0.01)
    server.process.send_signal(signal.SIGSTOP)
    try:
        (found,) = run_on(server, hasty)((question(server), [0]))
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert found[0].kind == "timed_out"
    (found,) = run_on(server)((question(server), [0]))
    assert isinstance(found[0], Reply)


def test_a_server_that_is_still_loading_is_waited_for(tmp_path: Path) -> None:
    with llama_server(gguf_model(tmp_path / "tiny.gguf", SAYS), wait=False) as server:
        run = run_on(server)
        (found,) = run((question(server), [0]), check=True)
        assert isinstance(found[0], Reply)
        assert run.client is not None
        assert set(run.client.faults) <= {"unreachable", "unavailable"}


# ------------------------------------------------------------------------------------ other models


def test_a_local_model_needs_no_server(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="transformers is not there")
    (tmp_path / "rows").mkdir()
    write_dataset(tmp_path / "rows", [numbered_row(n) for n in range(3)], Manifest({"depth": 2}, 3))
    config = DifficultyConfig(model="tiny", bar=Bar(16, 0.0), sampling=SAMPLING)
    done = filter_folder(tmp_path / "rows", tmp_path / "out", config, Access(folder))
    assert done.figures.verdicts == {"too_easy": 1, "kept": 2}
    assert {row.evaluator for row in done.rows} == {f"tiny (temperature 1, top_p 1, {done.date})"}


@pytest.mark.model
def test_a_real_model_on_llama_cpp() -> None:
    model = Path(os.environ.get("EXECVERIFY_GGUF", ""))
    if not model.is_file():
        pytest.skip("a model file is not there: name one in EXECVERIFY_GGUF")
    with llama_server(model, "real") as server, CompletionStore(":memory:") as store:
        check_programs(server, store, replace(SAMPLING, max_tokens=8))
        rows = [numbered_row(n) for n in range(3)]
        done, _ = measured(server, rows, store, few_shot=True)
    assert all(label.measured for label in done.labels)
