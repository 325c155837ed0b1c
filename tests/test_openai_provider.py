"""The provider that asks a server for programs, against a server that writes them."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fakes import ScriptedProvider
from fault_server import Answer, Schedule, StubServer, serving

from rewards.sandbox import SandboxPool
from synth.catalogue import catalogue
from synth.clients import Patience, Server
from synth.completions import CompletionStore, Sampling
from synth.config import GenerateConfig
from synth.constraints import Constraint, rules_of, structure
from synth.errors import ConfigError, ProgramRejected, ProviderError
from synth.inputs import Drawer
from synth.pipeline import Pipeline
from synth.programs import Program, vet
from synth.prompts import Prompt, Turn, program_prompt, repair_messages
from synth.providers.grammar import GrammarProvider
from synth.providers.openai import OpenAIProvider
from synth.repairing import first_that_holds

STRIP = Constraint(catalogue().get("str.strip"), 1, structure(1, 3))
DEEP = Constraint(catalogue().get("list.append"), 4, structure(4, 3))
QUICK = Patience(concurrency=8, timeout=0.5, attempts=10, seconds=3.0, first_wait=0.002)

GOOD = "def f(text):\n    size = len(str(text.strip()))\n    return [size, text.strip()]\nprint(f(' a '))"


def prompts(count: int, constraint: Constraint = STRIP) -> list[Prompt]:
    keys = [f"0:{slot}:0" for slot in range(count)]
    return [program_prompt(constraint, id=key, seed=key) for key in keys]


def writes_programs(prompt: str, seed: int) -> str:
    """Programs of the grammar as a model would send them: with prose and a second block around."""
    for constraint in (STRIP, DEEP):
        asked = program_prompt(constraint, id=str(seed), seed=str(seed))
        if "\n\n".join(content for _, content in asked.messages) == prompt:
            text = GrammarProvider().complete([asked])[0].text
            return f"Sure! Here it is:\n\n{text}\n\nOutput:\n```\n42\n```\nEnjoy."
    raise AssertionError(prompt)


@contextmanager
def provider(
    server: StubServer, path: Path | str = ":memory:", **settings: Any
) -> Iterator[OpenAIProvider]:
    settings = {"patience": QUICK, **settings}
    with CompletionStore(path) as store:
        made = OpenAIProvider(Server("stub", server.base_url), store, **settings)
        try:
            yield made
        finally:
            made.close()


def test_programs_come_through_prose_and_blocks() -> None:
    asked = [*prompts(12), *prompts(12, DEEP)]
    with serving(StubServer(writes_programs)) as server, provider(server) as made:
        completions = made.complete(asked)
    assert [one.prompt_id for one in completions] == [prompt.id for prompt in asked]
    assert {one.provider for one in completions} == {"stub"}
    programs = [vet(p.constraint, one.text) for p, one in zip(asked, completions, strict=True)]
    assert len({program.id for program in programs[:12]}) > 8  # one constraint, other programs
    assert all("Sure" not in program.code for program in programs)


def test_a_run_that_is_resumed_asks_only_for_what_is_missing(tmp_path: Path) -> None:
    asked = prompts(10)
    path = tmp_path / "s.sqlite"
    with serving(StubServer(writes_programs)) as server:
        with provider(server, path) as made:
            first = made.complete(asked[:6])
        with provider(server, path) as made:
            again = made.complete(asked)
        assert server.requests == 10
    assert again[:6] == first
    with provider(
        StubServer(writes_programs, base_url="http://127.0.0.1:9/v1"), path, offline=True
    ) as made:
        assert made.complete(asked) == again
        with pytest.raises(ConfigError, match="--offline"):
            made.complete(prompts(11))


def test_any_number_of_threads_may_ask() -> None:
    asked = prompts(40)
    with (
        serving(StubServer(writes_programs, schedule=Schedule(0.3, seed=2))) as server,
        provider(server) as made,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(lambda prompt: made.complete([prompt])[0], asked))
        assert server.schedule is not None
        assert server.schedule.met
    with serving(StubServer(writes_programs)) as server, provider(server) as made:
        assert made.complete(asked) == found


def test_prefetched_completions_are_asked_for_once() -> None:
    asked = prompts(20)
    with serving(StubServer(writes_programs, delay=0.05)) as server, provider(server) as made:
        made.prefetch(asked)
        started = time.monotonic()
        for prompt in asked:
            made.complete([prompt])
        assert time.monotonic() - started < 20 * 0.05
        assert server.requests == 20
        assert server.most_at_once > 4


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (Answer("```python\ndef f(", "length"), "truncated"),
        (Answer(None, reasoning="hm"), "no_content"),
        (Answer("", error=(400, "This model's maximum context length is 9")), "too_long"),
        (Answer("", error=(400, "blocked by content_filter")), "filtered"),
        (Answer("x", prompt_tokens=16), "prompt_cut"),
    ],
)
def test_what_is_no_completion_is_dropped_by_its_name(said: Answer, rule: str) -> None:
    with serving(StubServer(lambda prompt, seed: said)) as server, provider(server) as made:
        with pytest.raises(ProgramRejected) as caught:
            made.complete(prompts(1))
        assert caught.value.rule == rule


def test_a_server_that_fails_ends_the_run_and_says_how_to_go_on() -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        return (500, {}, "{}") if number else None

    with serving(StubServer(writes_programs, script=script)) as server, provider(server) as made:
        made.complete(prompts(1))
        with pytest.raises(ProviderError, match="--resume"):
            made.complete(prompts(2)[1:])


def test_closing_ends_the_waiting() -> None:
    said: list[str] = []
    with (
        serving(StubServer(writes_programs, delay=5.0)) as server,
        CompletionStore(":memory:") as store,
    ):
        made = OpenAIProvider(Server("stub", server.base_url), store)

        def ask() -> None:
            try:
                made.complete(prompts(1))
            except ProviderError as error:
                said.append(str(error))

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        started = time.monotonic()
        made.close()
        made.close()
        thread.join()
        assert time.monotonic() - started < 2
        with pytest.raises(ProviderError, match="closed"):
            made.complete(prompts(1))
    assert said == ["the run was stopped while a completion was awaited"]


def test_whoever_asks_while_it_is_closed_is_not_left_waiting() -> None:
    """Many threads ask on and on while another closes: each gets an answer or is told."""
    told: Counter[str] = Counter()

    def ask(made: OpenAIProvider, number: int) -> None:
        for turn in range(1000):
            try:
                made.prefetch(prompts(1))
                made.complete([program_prompt(STRIP, id="x", seed=f"{number}:{turn}")])
            except ProviderError:
                told["closed"] += 1
                return

    for delay in (0.0, 0.01, 0.03):
        with (
            serving(StubServer(lambda prompt, seed: GOOD)) as server,
            CompletionStore(":memory:") as store,
        ):
            made = OpenAIProvider(Server("stub", server.base_url), store, patience=QUICK)
            threads = [threading.Thread(target=ask, args=(made, n)) for n in range(8)]
            for thread in threads:
                thread.start()
            time.sleep(delay)
            made.close()
            for thread in threads:
                thread.join(10)
            assert not any(thread.is_alive() for thread in threads)
    assert told["closed"] == 24


def test_a_completion_cut_by_a_filter_is_no_program() -> None:
    said = Answer(GOOD, "content_filter")
    with serving(StubServer(lambda prompt, seed: said)) as server, provider(server) as made:
        with pytest.raises(ProgramRejected) as caught:
            made.complete(prompts(1))
        assert caught.value.rule == "filtered"


@pytest.mark.parametrize(
    "settings", [{"repairs": -1}, {"repairs": 6}, {"sampling": Sampling(temperature=0)}]
)
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with CompletionStore(":memory:") as store, pytest.raises(ConfigError):
        OpenAIProvider(Server("stub"), store, **settings)


# --------------------------------------------------------------------------------------- repairs


def examine(text: str) -> Program:
    return vet(STRIP, text)


def test_a_follow_up_turn_names_the_rule_and_is_answered() -> None:
    def model(prompt: str, seed: int) -> str:
        if "breaks this rule" in prompt:
            return f"You are right.\n```python\n{GOOD}\n```"
        return "```python\ndef f(text):\n    # a comment\n    return text.strip()\nprint(f(' a '))\n```"

    dropped: Counter[str] = Counter()
    with serving(StubServer(model)) as server, provider(server, repairs=2) as made:
        found = first_that_holds(
            made, prompts(1)[0], examine, lambda why: dropped.update([why.rule])
        )
        assert found is not None
        assert found.code == GOOD.rpartition("\n")[0] + "\n"
        assert server.requests == 2
        last = server.bodies[-1]["messages"]
    assert [message["role"] for message in last] == ["system", "user", "assistant", "user"]
    (rule,) = dropped
    sentence = next(r.sentence(STRIP) for r in rules_of(STRIP) if r.name == rule)
    assert sentence in last[-1]["content"]


def test_repairs_are_bounded() -> None:
    dropped: list[str] = []
    with (
        serving(StubServer(lambda prompt, seed: "no program")) as server,
        provider(server, repairs=3) as made,
    ):
        why = first_that_holds(made, prompts(1)[0], examine, lambda why: dropped.append(why.rule))
        assert why is None
        assert server.requests == 4
    assert len(dropped) == 4


def test_a_provider_without_repairs_is_asked_once() -> None:
    dropped: list[str] = []
    scripted = ScriptedProvider(["nothing here"])
    found = first_that_holds(scripted, prompts(1)[0], examine, lambda why: dropped.append(why.rule))
    assert found is None
    assert len(dropped) == 1
    assert first_that_holds(ScriptedProvider([GOOD]), prompts(1)[0], examine) is not None


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("syntax", "not valid Python"),
        ("truncated", "cut off"),
        ("seed_odd", "(seed_odd)"),
    ],
)
def test_every_refusal_has_words(rule: str, says: str) -> None:
    messages = repair_messages(prompts(1)[0], [Turn("text", rule, "what was found")])
    assert says in messages[-1][1]
    assert "Found: what was found." in messages[-1][1]


# -------------------------------------------------------------------------- the path after it


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxPool]:
    with SandboxPool(size=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def drawer() -> Iterator[Drawer]:
    with Drawer() as drawer:
        yield drawer


def test_programs_of_a_server_become_cases(sandbox: SandboxPool, drawer: Drawer) -> None:
    config = GenerateConfig(depth=3, tasks=("output", "input"))
    with serving(StubServer(writes_programs)) as server, provider(server) as made:
        pipeline = Pipeline(config, made, sandbox, drawer)
        attempts = [pipeline.work(DEEP, slot) for slot in range(3)]
    programs = [attempt.made for attempt in attempts]
    assert all(program is not None and len(program.cases) > 1 for program in programs)
    assert len({program.program_id for program in programs if program}) == 3


def body(*lines: str, after: str = "print(f(' a '))") -> str:
    inside = "\n".join(f"    {line}" for line in lines)
    return f"```python\ndef f(text):\n    size = len(str(text.strip()))\n{inside}\n{after}\n```"


MARK = "adversarial-was-here"
ADVERSARIAL = {
    "network": body("import socket", "return socket.socket().connect(('127.0.0.1', 9))"),
    "files": body(f"open({MARK!r}, 'w').write(text)", "return [size, text.strip()]"),
    "files, spelled otherwise": body(
        f"__builtins__['open']({MARK!r}, 'w').write(text)", "return [size, text.strip()]"
    ),
    "files, at module level": body(
        "return [size, text.strip()]", after=f"open({MARK!r}, 'w').write('x')\nprint(f(' a '))"
    ),
    "endless": body("return [size, len(list(iter(str, text.strip() == 1)))]"),
    "wrong method": f"```python\n{GOOD.replace('strip', 'upper')}\n```",
    "no nesting": "```python\ndef f(text):\n    a = text.strip()\n    b = a.strip()\n    return [a, b]\n"
    "print(f(' a '))\n```",
    "comment": body("return [size, text.strip()]  # the result"),
    "default": f"```python\n{GOOD.replace('f(text)', 'f(text=1)')}\n```",
    "two prints": body("return [size, text.strip()]", after="print(f(' a '))\nprint(f(' b '))"),
    "prose alone": "I cannot write such a program, sorry.",
    "a fence left open": f"```python\n{GOOD}",
    "the good block is not the last": f"```python\n{GOOD}\n```\nor\n```python\ndef g(x):\n    return x\n```",
}


DROPPED = {
    "network": "pure",
    "files": "pure",
    "files, spelled otherwise": "pure",
    "files, at module level": "module_level",
    "endless": "seed_memory_exceeded",
    "wrong method": "nested_calls",
    "no nesting": "nested_calls",
    "comment": "no_comments",
    "default": "parameters",
    "two prints": "module_level",
    "prose alone": "syntax",
    "a fence left open": "no_program",
    "the good block is not the last": "one_print",
}


@pytest.mark.parametrize("name", ADVERSARIAL)
def test_adversarial_programs_are_dropped_by_name(
    name: str,
    sandbox: SandboxPool,
    drawer: Drawer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    text = ADVERSARIAL[name]
    answers = {
        "first": text,
        "then": f"Here:\n```python\n{GOOD}\n```\nIt prints\n```\n[1, 'a']\n```",
    }
    config = GenerateConfig(depth=3, tasks=("output", "input"))

    def model(prompt: str, seed: int) -> str:
        return answers.pop("first", answers["then"])

    with serving(StubServer(model)) as server, provider(server) as made:
        attempt = Pipeline(config, made, sandbox, drawer).work(STRIP, 0)
    assert attempt.made is not None
    assert attempt.tally.completions == 2
    dropped = {stage: why for stage, why in attempt.tally.dropped.items() if stage != "cases"}
    ((_, reasons),) = dropped.items()
    assert reasons == {DROPPED[name]: 1}
    assert list(tmp_path.iterdir()) == []
