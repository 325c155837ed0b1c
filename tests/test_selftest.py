"""The self-test: it passes here from anywhere, and fails loudly where a reward does not work."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

import rewards
from rewards import unittests, whitebox
from rewards.__main__ import main
from rewards.row import TASKS
from rewards.selfcheck import CASES, SelfTest, SelfTestError, selftest


def test_it_passes_and_says_what_it_did() -> None:
    found = selftest()
    assert found.answers == 4 * len(CASES)
    assert 0 < found.seconds < 30  # a second, on a machine that does nothing else
    assert str(found).startswith(f"selftest: {4 * len(CASES)} scores as expected, in ")
    assert rewards.selftest is selftest


def test_every_task_has_a_right_and_a_wrong_answer() -> None:
    for task in TASKS:
        scores = {case.score for case in CASES if case.spec["task"] == task}
        assert 0.0 in scores
        assert max(scores) == (1.0 if task == "unittest" else 2.0)
    assert len({case.name for case in CASES}) == len(CASES)


def test_it_runs_in_a_thread_in_an_event_loop_and_in_another_process() -> None:
    with ThreadPoolExecutor(1) as threads:
        assert threads.submit(selftest, CASES[:5]).result().answers == 20

    async def inside() -> SelfTest:
        return selftest(CASES[:5])

    assert asyncio.run(inside()).answers == 20
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        assert processes.submit(selftest, CASES[:5]).result(60).answers == 20


def test_it_looks_from_a_worker_thread_and_from_an_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: set[str] = set()
    real = whitebox.reward

    def watched(*args: Any, **kwargs: Any) -> list[float | None]:
        assert threading.current_thread() is not threading.main_thread()
        seen.add(threading.current_thread().name.partition("_")[0])
        return real(*args, **kwargs)

    monkeypatch.setattr(whitebox, "reward", watched)
    selftest(CASES[:2])
    assert len(seen) == 2, seen


def test_a_reward_that_gives_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(completions: Sequence[Any], *_: Any, **__: Any) -> list[float | None]:
        return [0.0] * len(completions)

    monkeypatch.setattr(whitebox, "reward", nothing)
    with pytest.raises(SelfTestError) as caught:
        selftest()
    text = str(caught.value)
    assert "do not train with them here" in text
    for way in ("in a worker thread", "in an event loop"):
        for case in CASES:
            line = f"{way}: rewards.whitebox.reward, {case.name}: expected {case.score}, got 0.0"
            assert (line in text) == (case.score != 0.0)


def test_a_reward_that_pays_everything_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_right(completions: Sequence[Any], *_: Any, **__: Any) -> list[float | None]:
        return [1.0] * len(completions)

    monkeypatch.setattr(unittests, "reward", all_right)
    with pytest.raises(
        SelfTestError, match=r"unittests\.reward, calls, exits: expected 0\.0, got 1\.0"
    ):
        selftest()
    with pytest.raises(SelfTestError, match=r"output, right: expected None, got 1\.0"):
        selftest(CASES[:1])


def test_a_reward_that_needs_the_main_thread_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What became of rewards with `signal.alarm`: every score 0, and nobody told."""
    real = whitebox.reward

    def alarmed(*args: Any, **kwargs: Any) -> list[float | None]:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        return real(*args, **kwargs)

    monkeypatch.setattr(whitebox, "reward", alarmed)
    with pytest.raises(SelfTestError, match="in a worker thread: ValueError: signal only works"):
        selftest(CASES[:2])


class Broken:
    """A sandbox that loses every job."""

    def run_groups(self, groups: Any, *, workers: int | None = None) -> Any:
        from rewards.sandbox import ExecutionResult

        return [[ExecutionResult("infrastructure", detail="gone") for _ in jobs] for jobs in groups]


def test_a_sandbox_that_does_not_work_is_named_with_its_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rewards.sandbox import pool

    monkeypatch.setattr(pool, "default_pool", Broken)
    expected = r"input, right: expected 2\.0, got None \(infrastructure: gone\)"
    with pytest.raises(SelfTestError, match=expected):
        selftest([case for case in CASES if case.spec["task"] == "input"])

    monkeypatch.setattr(selftest, "__defaults__", ([c for c in CASES if c.name == "input, right"],))
    assert main(["selftest"]) == 1
    written = capsys.readouterr()
    assert "input, right: expected 2.0, got None" in written.err
    assert written.out == ""


def test_the_command_says_that_all_is_well(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "__defaults__", (CASES[:2],))
    assert main(["selftest"]) == 0
    assert capsys.readouterr().out.startswith("selftest: 8 scores as expected")
