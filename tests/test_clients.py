"""The client against servers that speak real HTTP: every fault is its own outcome, never an answer."""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT
from fault_server import HTML, TRANSIENT, Answer, Schedule, StubServer, serving, unit

from synth.clients import Client, Fault, Outcome, Patience, Server
from synth.clients.faults import KINDS, fault_of, prompt_was_cut
from synth.clients.patience import Clock
from synth.clients.waiting import Waiting
from synth.completions import Ask, CompletionStore, Reply, Sampling
from synth.difficulty.measuring import in_turn
from synth.errors import ConfigError, ProviderError

QUICK = Patience(concurrency=8, timeout=0.4, attempts=6, seconds=2.0, first_wait=0.002)


class FakeClock(Clock):
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


def ask(text: str = "question", model: str = "stub", **sampling: Any) -> Ask:
    return Ask(model, (("user", text),), Sampling(**sampling))


def echo(prompt: str, seed: int) -> str:
    return f"{prompt}#{seed}"


class Run:
    """A client of a server, used from a test without an event loop."""

    def __init__(
        self,
        server: StubServer,
        path: Path | str = ":memory:",
        patience: Patience = QUICK,
        *,
        offline: bool = False,
        retry_refused: bool = False,
        clock: Clock | None = None,
        **where: Any,
    ) -> None:
        self.retry_refused = retry_refused
        self.server = Server(**{"model": "stub", "base_url": server.base_url, **where})
        self.path, self.patience, self.offline, self.clock = path, patience, offline, clock
        self.client: Client | None = None

    def __call__(self, *asked: tuple[Ask, Sequence[int]], check: bool = False) -> list[Any]:
        async def run() -> list[Any]:
            with CompletionStore(self.path) as store:
                self.client = client = Client(
                    self.server,
                    store,
                    self.patience,
                    offline=self.offline,
                    retry_refused=self.retry_refused,
                    clock=self.clock,
                )
                try:
                    if check:
                        await client.check()
                    return await asyncio.gather(*(client.sample(*one) for one in asked))
                finally:
                    await client.close()

        return asyncio.run(run())


def told(outcomes: dict[int, Outcome]) -> list[str | None]:
    return [one.text if isinstance(one, Reply) else one.kind for one in outcomes.values()]


@contextmanager
def stub(model: Any = echo, **settings: Any) -> Any:
    with serving(StubServer(model, **settings)) as server:
        yield server


def scripted(*answers: tuple[int, dict[str, str], str] | None) -> Any:
    """Answers the first requests as given, then honestly."""
    return lambda number, body: answers[number] if number < len(answers) else None


def plain(found: list[dict[int, Outcome]]) -> list[dict[int, Outcome]]:
    """Without the tokens of single completions, which a server does not tell of several at a time."""
    return [
        {n: replace(one, completion_tokens=None) if isinstance(one, Reply) else one
         for n, one in outcomes.items()}
        for outcomes in found
    ]  # fmt: skip


def error(message: str, **more: Any) -> str:
    return json.dumps({"error": {"message": message, **more}})


# ------------------------------------------------------------------------------ what goes well


@pytest.mark.parametrize("endpoint", ["chat", "completion"])
def test_completions_by_number_with_their_seeds(endpoint: str) -> None:
    request = Ask("stub", (("system", "a"), ("user", "b")), endpoint=endpoint)
    with stub() as server:
        (found,) = Run(server, endpoint=endpoint)((request, [0, 1, 2, 7]))
    assert told(found) == [f"a\n\nb#{request.seed(n)}" for n in (0, 1, 2, 7)]
    assert [one.seed for one in found.values()] == [request.seed(n) for n in (0, 1, 2, 7)]
    assert {one.served_by for one in found.values()} == {"stub"}
    assert {one.prompt_tokens for one in found.values()} == {1}


def test_one_request_for_neighbours() -> None:
    with stub() as server:
        run = Run(server)
        (found,) = run((ask(), range(4)))
        assert [body.get("n") for body in server.bodies] == [4]
    assert told(found) == [f"question#{ask().seed(n)}" for n in range(4)]


def test_the_settings_are_sent_and_no_others() -> None:
    request = ask(temperature=0.7, top_p=0.9, max_tokens=5, stop=("x",), extra='{"min_p": 0.2}')
    with stub() as server:
        Run(server)((request, [0]))
        (body,) = server.bodies
    messages = [{"role": "user", "content": "question"}]
    assert body == {
        "model": "stub", "messages": messages, "temperature": 0.7, "top_p": 0.9, "max_tokens": 5,
        "stop": ["x"], "min_p": 0.2, "seed": request.seed(0),
    }  # fmt: skip


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    with stub() as server:
        path = tmp_path / "s.sqlite"
        first = Run(server, path)((ask(), range(3)), (ask("other"), [0]))
        assert server.requests == 2
        again = Run(server, path)((ask(), range(5)), (ask("other"), [0]))
        assert server.requests == 3
        assert server.bodies[-1]["n"] == 2  # only what was missing
    assert told(again[0])[:3] == told(first[0])
    assert again[1] == first[1]
    assert len(set(server.given)) == len(server.given)


def test_who_asks_the_same_at_the_same_time_shares_the_answer() -> None:
    with stub(delay=0.02) as server:
        found = Run(server)(*[(ask(), range(3))] * 5)
        assert server.requests == 1
    assert all(one == found[0] for one in found)


def test_offline_replays_and_asks_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with stub() as server:
        (before,) = Run(server, path)((ask(), range(3)))
    (after,) = Run(server, path, offline=True)((ask(), range(3)), check=True)
    assert after == before
    with pytest.raises(ConfigError, match="--offline: 2 completions of 'stub'"):
        Run(server, path, offline=True)((ask(), range(5)))


def test_concurrency_is_bounded() -> None:
    with stub(delay=0.02) as server:
        Run(server, patience=Patience(concurrency=5))(*[(ask(str(n)), [0]) for n in range(40)])
        assert server.most_at_once == 5


# ------------------------------------------------------------------------------------ the faults

SENT = {
    "rate_limited": (429, {}, error("slow down")),
    "unavailable": (503, {}, error("Loading model")),
    "server_error": (500, {}, error("internal")),
    "timed_out": (504, {}, error("upstream")),
    "not_json": (200, {"Content-Type": "text/html"}, HTML),
    "no_choices": (200, {}, '{"id": "x", "choices": []}'),
    "too_long": (400, {}, error("This model's maximum context length is 2048 tokens")),
    "filtered": (400, {}, error("prompt blocked", code="content_filter")),
    "refused": (400, {}, error("stop: at most 4 allowed")),
    "denied": (401, {}, error("no such key")),
    "not_found": (404, {}, error("no such model")),
}
HERE = {kind for kind, told in SENT.items()}


@pytest.mark.parametrize("kind", sorted(HERE - {"denied", "not_found"}))
def test_a_fault_that_stays_is_that_fault_and_no_reply(kind: str) -> None:
    # After one good answer: the settings are right, so the fault is not theirs.
    with stub(script=lambda number, body: SENT[kind] if number else None) as server:
        good, bad = ask("good"), ask("bad")

        async def run() -> tuple[Any, Any]:
            with CompletionStore(":memory:") as store:
                patience = Patience(attempts=3, seconds=0.02, first_wait=0.002, timeout=0.4)
                client = Client(Server("stub", server.base_url), store, patience)
                first = await client.sample(good, [0])
                second = await client.sample(bad, [0])
                assert store.totals().completions == 1
                await client.close()
                return first, second

        first, second = asyncio.run(run())
    assert isinstance(first[0], Reply)
    assert isinstance(second[0], Fault)
    assert second[0].kind == kind
    assert KINDS[kind] in str(second[0])


@pytest.mark.parametrize("fault", sorted(set(TRANSIENT)))
def test_a_fault_that_passes_leaves_no_trace_in_the_answers(fault: str) -> None:
    class Once(Schedule):
        def draw(self, number: int) -> str | None:
            return fault if number in (0, 2, 3) else None

    asked = [(ask(str(n)), range(3)) for n in range(4)]
    with stub() as server:
        clean = Run(server)(*asked)
    with stub(schedule=Once(), hang_seconds=0.6) as server:
        run = Run(server)
        assert plain(run(*asked)) == plain(clean)
        assert server.schedule is not None
        assert server.schedule.met[fault] >= 1


def test_nobody_at_the_address() -> None:
    with stub() as server:
        pass  # its port is free now
    clock = FakeClock()
    run = Run(server, patience=Patience(seconds=30), clock=clock)
    (found,) = run((ask(), [0]))
    assert found[0].kind == "unreachable"
    assert 15 < sum(clock.slept) <= 30
    with pytest.raises(ProviderError, match="Start the server"):
        run(check=True)


def test_the_first_request_with_a_wrong_setting_ends_the_run() -> None:
    with stub(script=lambda number, body: SENT["refused"]) as server:
        with pytest.raises(ProviderError, match=r"at most 4 allowed.*Change the setting"):
            Run(server)(*[(ask(str(n)), [0]) for n in range(50)])
        assert server.requests == 1


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (SENT["denied"], "--api-key-env"),
        (SENT["not_found"], "--base-url"),
        ((429, {}, error("You exceeded your quota", type="insufficient_quota")), "account"),
    ],
)
def test_what_no_waiting_helps_ends_the_run(answer: Any, advice: str) -> None:
    with stub(script=lambda number, body: answer if number >= 3 else None) as server:
        with pytest.raises(ProviderError, match=advice):
            Run(server)(*[(ask(str(n)), [0]) for n in range(50)])
        assert server.requests <= 3 + QUICK.concurrency


def test_too_large_a_share_of_faults_ends_the_run(tmp_path: Path) -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        return SENT["server_error"] if int(body["messages"][0]["content"]) % 3 == 2 else None

    path = tmp_path / "s.sqlite"
    with stub(script=script) as server:
        run = Run(server, path, Patience(concurrency=1, attempts=2, first_wait=0.0))
        with pytest.raises(
            ProviderError, match=r"\d+ of \d+ requests .* failed, more than the share of 0\.2"
        ):
            run(*[(ask(str(n)), [0]) for n in range(60)])
    with CompletionStore(path) as store:
        assert store.totals().completions >= 8  # what was answered is kept


def test_a_long_wait_that_the_server_asks_for_is_not_sat_out() -> None:
    answer = (429, {"Retry-After": "86400"}, error("daily limit"))
    with stub(script=lambda number, body: answer) as server:
        clock = FakeClock()
        (found,) = Run(server, clock=clock)((ask(), [0]))
        assert server.requests == 1
    assert found[0] == Fault("rate_limited", found[0].detail, 86400.0)
    assert clock.slept == []


def test_the_others_wait_too_when_one_is_told_to() -> None:
    """While one request is told to wait, no other goes out."""
    seen: list[float] = []

    def script(number: int, body: dict[str, Any]) -> Any:
        seen.append(time.monotonic())
        return (429, {"Retry-After": "0.3"}, "{}") if number == 1 else None

    with stub(script=script) as server:
        Run(server, patience=Patience(concurrency=1))(*[(ask(str(n)), [0]) for n in range(4)])
    assert seen[2] - seen[1] >= 0.3
    assert len(seen) == 5


# ----------------------------------------------------------------- what is refused for good

FINAL_KINDS = ("too_long", "filtered", "refused")
PASSING_KINDS = (
    "server_error",
    "no_choices",
    "not_json",
    "timed_out",
    "unavailable",
    "rate_limited",
)


def refusing(kind: str) -> Any:
    """Answers prompts that say "good", and meets all others with a fault."""
    return lambda number, body: None if "good" in body["messages"][0]["content"] else SENT[kind]


BRIEF = Patience(1, attempts=2, seconds=0.01, first_wait=0.002, timeout=0.4, max_failures=1.0)


@pytest.mark.parametrize("kind", FINAL_KINDS)
def test_what_is_refused_for_good_is_not_sent_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    asked = [
        (ask("good"), [0]),
        (ask("bad"), [0]),
        (ask("bad good"), range(2)),
        (ask("worse"), range(3)),
    ]
    with stub(script=refusing(kind)) as server:
        first = Run(server, path, BRIEF)(*asked)
        sent = server.requests
        second = Run(server, path, BRIEF)
        assert second(*asked) == first
        assert server.requests == sent
        assert second.client is not None
        assert "--retry-refused" in second.client.warnings[0]
        assert sum(second.client.faults.values()) == 0
        # The rest of a request is asked for, with the same end.
        Run(server, path, BRIEF)((ask("bad"), range(2)))
        assert server.requests == sent + 1
        server.script = None
        again = Run(server, path, BRIEF, retry_refused=True)
        found = again(*asked)
        assert all(isinstance(one, Reply) for outcomes in found for one in outcomes.values())
        assert again.client is not None
        assert again.client.warnings == []
    # Replayed without a server: first the refusals of another store, then what came of a second try.
    away = Run(server, path, BRIEF, offline=True)
    assert away(*asked) == found
    assert told(first[1]) == [kind]
    assert told(first[3]) == [kind] * 3


def test_refusals_are_replayed_offline(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    asked = [(ask("good"), [0]), (ask("bad"), range(2))]
    with stub(script=refusing("too_long")) as server:
        first = Run(server, path, BRIEF)(*asked)
    for again in (False, True):
        assert Run(server, path, BRIEF, offline=True, retry_refused=again)(*asked) == first
    with pytest.raises(ConfigError, match="--offline: 1 completions"):
        Run(server, path, BRIEF, offline=True)((ask("bad"), range(3)))


@pytest.mark.parametrize("kind", PASSING_KINDS)
def test_what_may_pass_is_sent_again(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    asked = [(ask("good"), [0]), (ask("bad"), [0])]
    with stub(script=refusing(kind)) as server:
        first = Run(server, path, BRIEF)(*asked)
        assert told(first[1]) == [kind]
        server.script = None
        (_, second) = Run(server, path, BRIEF)(*asked)
    assert isinstance(second[0], Reply)


@pytest.mark.parametrize("kind", FINAL_KINDS[:2])
def test_a_server_that_answers_nobody_has_refused_nothing_for_good(
    kind: str, tmp_path: Path
) -> None:
    """It may have been started with the wrong settings, and will not be asked in vain when it is right."""
    path = tmp_path / "s.sqlite"
    asked = [(ask(str(number)), [0]) for number in range(5)]
    with stub(script=refusing(kind)) as server:
        assert {told(one)[0] for one in Run(server, path, BRIEF)(*asked)} == {kind}
        server.script = None
        assert all(isinstance(one[0], Reply) for one in Run(server, path, BRIEF)(*asked))


def test_in_one_run_a_request_is_refused_once(tmp_path: Path) -> None:
    """Also where refusals of earlier runs are not believed: rows are taken up several times."""
    path = tmp_path / "s.sqlite"
    for retry in (False, True):
        with stub(script=refusing("refused")) as server:
            run = Run(server, path, BRIEF, retry_refused=retry)
            run((ask("good"), [0]), *[(ask("bad"), [0])] * 4)
            assert sum(body["messages"][0]["content"] == "bad" for body in server.bodies) == 1


# ---------------------------------------------------------------------------------- waiting is told


class Told:
    """What a client says while it waits, with the seconds since the start."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.lines: list[tuple[float, str]] = []

    def __call__(self, text: str) -> None:
        self.lines.append((time.monotonic() - self.start, text))


def waited(server: Server, patience: Patience, *, check: bool = True) -> tuple[Told, Any]:
    """What is told while one completion is asked for, and what came of it."""
    told = Told()

    async def run() -> Any:
        with CompletionStore(":memory:") as store:
            client = Client(server, store, patience, tell=told)
            try:
                if check:
                    await client.check()
                return (await client.sample(ask(), [0]))[0]
            except ProviderError as error:
                return error
            finally:
                await client.close()

    return told, asyncio.run(run())


def test_a_wait_for_a_server_that_is_away_is_told_once_and_soon() -> None:
    with stub() as server:
        pass  # its port is free now
    told, end = waited(Server("stub", server.base_url), Patience(seconds=5.0, first_wait=0.2))
    assert isinstance(end, ProviderError)
    ((seconds, text),) = told.lines
    assert 1.4 <= seconds < 3
    for words in ("up to 5 s", "--patience", server.base_url, "nothing answers", "Ctrl-C"):
        assert words in text


def test_a_server_that_says_nothing_is_waited_for_aloud() -> None:
    """A connection that is taken and never answered."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        told, end = waited(Server("stub", url), Patience(timeout=2.0, attempts=1, seconds=0.0))
    assert isinstance(end, Fault)
    ((seconds, text),) = told.lines
    assert 1.4 <= seconds < 3
    assert "up to 2 s" in text
    assert "no answer yet" in text


def test_a_server_that_comes_up_late_is_told_of_and_used() -> None:
    with stub() as server:
        pass
    port = int(server.base_url.rpartition(":")[2].partition("/")[0])
    late = StubServer(echo)

    async def run() -> Any:
        told = Told()
        with CompletionStore(":memory:") as store:
            where = Server("stub", f"http://127.0.0.1:{port}/v1")
            client = Client(where, store, Patience(seconds=30, first_wait=0.1), tell=told)
            asked = asyncio.ensure_future(_checked(client))
            await asyncio.sleep(2.0)
            listener = await asyncio.start_server(late.serve, "127.0.0.1", port)
            found = await asked
            lines = list(told.lines)
            await asyncio.sleep(0.1)
            await client.close()
            listener.close()
            return found, lines

    found, lines = asyncio.run(run())
    assert isinstance(found, Reply)
    assert len(lines) == 1


async def _checked(client: Client) -> Outcome:
    await client.check()
    return (await client.sample(ask(), [0]))[0]


def test_a_long_wait_is_told_again_and_an_answer_ends_it() -> None:
    async def run() -> list[tuple[float, str]]:
        told = Told()
        waiting = Waiting("m", 60.0, told, first=0.05, again=0.1)
        waiting.met(Fault("server_error"))  # nothing that waiting alone helps
        await asyncio.sleep(0.1)
        waiting.met(Fault("unavailable", "Loading model"))
        await asyncio.sleep(0.02)
        waiting.met(Fault("rate_limited"))  # the same wait, for another reason
        await asyncio.sleep(0.28)
        waiting.over()
        waiting.over()
        await asyncio.sleep(0.15)
        return told.lines

    lines = [text for _, text in asyncio.run(run())]
    assert 2 <= len(lines) <= 3
    assert "waiting up to 60 s (--patience) for m: " in lines[0]
    assert KINDS["rate_limited"] in lines[0]
    assert all(re.match(r"still waiting for m, 0 s so far", text) for text in lines[1:])


def test_ordinary_work_is_not_told_of() -> None:
    """Long completions, and a server that is busy now and then, are the ordinary course."""

    def script(number: int, body: dict[str, Any]) -> Any:
        return (429, {"Retry-After": "0.3"}, "{}") if number == 0 else None

    with stub(script=script, delay=1.7) as server:
        told, end = waited(Server("stub", server.base_url), Patience())
    assert isinstance(end, Reply)
    assert told.lines == []


# --------------------------------------------------------------- what servers ignore and refuse


def test_a_server_that_ignores_n() -> None:
    with stub(ignores_n=True) as server:
        run = Run(server)
        first, second = run((ask("a"), range(4)), (ask("b"), range(4)))
        sizes = [body.get("n", 1) for body in server.bodies]
    assert told(first) == [f"a#{ask('a').seed(n)}" for n in range(4)]
    assert told(second) == [f"b#{ask('b').seed(n)}" for n in range(4)]
    assert sizes.count(4) <= 2  # noticed at the first answer
    assert run.client is not None
    assert len(run.client.warnings) == 1
    assert "ignores n" in run.client.warnings[0]


def test_a_server_that_refuses_n() -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        return (400, {}, error("n must be 1")) if body.get("n", 1) > 1 else None

    with stub(script=script) as server:
        run = Run(server)
        first, second = run((ask("a"), range(3)), (ask("b"), range(3)))
        assert sum("n" in body for body in server.bodies) <= 2
    assert told(first) + told(second) == [
        f"{text}#{ask(text).seed(n)}" for text in "ab" for n in range(3)
    ]


def test_a_server_that_refuses_a_seed() -> None:
    with stub(refuses=("seed",)) as server:
        run = Run(server)
        (found,) = run((ask(), range(3)))
        assert sum("seed" in body for body in server.bodies) <= 2
    assert all(isinstance(one, Reply) and one.seed is None for one in found.values())
    assert run.client is not None
    assert "refuses a seed" in run.client.warnings[0]


def test_a_server_with_another_name_for_the_limit() -> None:
    def script(number: int, body: dict[str, Any]) -> Any:
        text = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
        return (400, {}, error(text)) if "max_tokens" in body else None

    with stub(script=script) as server:
        (found,) = Run(server)((ask(max_tokens=9), [0]))
        assert server.bodies[-1]["max_completion_tokens"] == 9
    assert isinstance(found[0], Reply)


def test_a_server_that_refuses_what_the_user_asked_for_is_quoted() -> None:
    with stub(refuses=("min_p",)) as server, pytest.raises(ProviderError, match="'min_p'"):
        Run(server)((ask(extra='{"min_p": 1}'), [0]))


def test_a_wrong_name_that_a_server_would_answer_for_is_found_first() -> None:
    with stub(name="gemma-3-270m") as server:
        with pytest.raises(
            ProviderError, match=r"no model 'gemma-270m'.*did you mean 'gemma-3-270m'"
        ):
            Run(server, model="gemma-270m")(check=True)
        assert server.requests == 0
    with stub(lists_models=False) as server:
        assert Run(server)(check=True) == []


def test_a_server_that_is_still_loading_is_waited_for() -> None:
    with stub(script=scripted(SENT["unavailable"], SENT["unavailable"])) as server:
        clock = FakeClock()
        (found,) = Run(server, clock=clock)((ask(), [0]))
    assert told(found) == [echo("question", ask().seed(0))]
    assert len(clock.slept) == 2


# ------------------------------------------------------------------------------- odd answers


def test_reasoning_is_set_apart() -> None:
    with stub(lambda prompt, seed: Answer("42", reasoning="6 * 7")) as server:
        (found,) = Run(server)((ask(), [0]))
    assert (found[0].text, found[0].reasoning) == ("42", "6 * 7")


def test_a_cut_completion_says_so() -> None:
    with stub(lambda prompt, seed: Answer("half an", finish_reason="length")) as server:
        (found,) = Run(server)((ask(), range(2)))
    assert all(one.truncated for one in found.values())


def test_no_content_for_want_of_tokens_is_a_cut_completion() -> None:
    said = Answer(None, finish_reason="length", reasoning="so far")
    with stub(lambda prompt, seed: said) as server:
        (found,) = Run(server)((ask(), [0]))
        assert server.requests == 1
    assert found[0].truncated
    assert found[0].text is None


@pytest.mark.parametrize(
    ("tokens", "size", "cut"),
    [
        *((2048, 24_000, True), (2048, 9_000, False), (700, 6_000, True), (4096, 21_000, True)),
        *((4097, 21_000, False), (1, 8, False), (None, 10**6, False)),
    ],
)
def test_a_prompt_that_was_cut_shows_in_its_tokens(tokens: int, size: int, cut: bool) -> None:
    fault = prompt_was_cut(ask("x" * size), [Reply("a", prompt_tokens=tokens)])
    assert (fault is not None) == cut


def test_other_exceptions_are_not_taken_for_faults() -> None:
    assert fault_of(TypeError("ours")) is None
    assert fault_of(KeyError("ours")) is None


def test_a_date_to_wait_for() -> None:
    when = email.utils.formatdate(1_700_000_007, usegmt=True)

    class APIStatusError(Exception):
        status_code = 429

        response = SimpleNamespace(headers={"retry-after": when})

    fault = fault_of(APIStatusError("x"), now=1_700_000_000.0)
    assert fault == Fault("rate_limited", "429: x", 7.0)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"base_url": "localhost:8000"}, "expected http://"),
        ({"endpoint": "chats"}, "did you mean 'chat'"),
        ({"model": ""}, "--model NAME"),
    ],
)
def test_addresses_are_checked(settings: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Server(**{"model": "m", **settings})


@pytest.mark.parametrize(
    "settings",
    [{"concurrency": 0}, {"timeout": 0}, {"attempts": 0}, {"seconds": -1}, {"max_failures": 2}],
)
def test_bounds_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Patience(**settings)


# ------------------------------------------------------------------------------------- under load


def test_30_percent_of_faults_change_no_answer(tmp_path: Path) -> None:
    asked = [(ask(f"p{n}"), range(1 + n % 5)) for n in range(150)]
    with stub() as server:
        clean = Run(server)(*asked)
    with stub(schedule=Schedule(0.3, seed=5), hang_seconds=0.6) as server:
        run = Run(server, tmp_path / "s.sqlite", Patience(16, 0.5, 12, 5.0, 0.002))
        assert plain(run(*asked)) == plain(clean)
        assert server.schedule is not None
        assert set(server.schedule.met) == set(TRANSIENT)
    assert run.client is not None
    assert sum(run.client.faults.values()) > 30


def test_the_draws_of_the_stub_are_even() -> None:
    values = [unit("x", n) for n in range(2000)]
    assert 0.45 < sum(values) / len(values) < 0.55


@pytest.mark.slow
def test_10000_requests_at_256_cost_no_more_than_a_bare_loop(tmp_path: Path) -> None:
    """CPU time within 20 % of a loop over `openai` alone, and memory flat."""
    asked = [ask(f"question {number} {'x' * 300}") for number in range(10_000)]
    words = [sys.executable, str(Path(__file__).with_name("fault_server.py"))]
    memory: list[int] = []

    async def bare(url: str) -> None:
        from openai import AsyncOpenAI

        api = AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=600)

        async def one(place: int) -> None:
            request = asked[place]
            messages: Any = [{"role": role, "content": text} for role, text in request.messages]
            made = await api.chat.completions.create(
                model="stub", messages=messages, temperature=1.0, max_tokens=2048, seed=place
            )
            assert made.choices[0].message.content

        await in_turn(one, range(len(asked)), 256)
        await api.close()

    async def ours(url: str) -> None:
        with CompletionStore(tmp_path / "s.sqlite") as store:
            client = Client(Server("stub", url), store, Patience(concurrency=256))

            async def one(place: int) -> None:
                await client.sample(asked[place], [0])
                if place % 1000 == 999:
                    memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)

            await in_turn(one, range(len(asked)), 256)
            await client.close()
            assert store.totals().completions == len(asked)

    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        seconds = []
        for run in (bare, ours):
            started = time.process_time()
            asyncio.run(run(url))
            seconds.append(time.process_time() - started)
        process.stdin.close()
    assert seconds[1] <= 1.2 * seconds[0], seconds
    assert memory[-1] - memory[1] < 20_000, memory  # KiB
    print(f"CPU {seconds}, resident KiB {memory}")
