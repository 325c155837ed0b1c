"""The sandbox under load: many callers at once, programs that never end, and workers killed from outside.

The small tests always run; the full ones (`--runslow`) take minutes and print their figures (`-s`).
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from sandboxed import children, descendants, linux, state, wait_until

from rewards.sandbox import ExecutionResult, Job, Limits, SandboxPool, run

BRIEF = Limits(cpu_seconds=0.1, wall_seconds=60.0)
LOOP = Job("def f(x):\n    while True:\n        x += 1", "f", "0", limits=BRIEF)


def right(number: int) -> Job:
    """A trivially right job, whose value nobody else's job has."""
    return Job("def f(x):\n    return [x, 'done']", "f", str(number))


def is_right(number: int, result: ExecutionResult) -> bool:
    return (result.outcome, result.value) == ("returned", f"[{number}, 'done']")


# --------------------------------------------------------------------------- many callers


def hammer(threads: int, each: int, job: Callable[[int], Job]) -> list[ExecutionResult]:
    """`each` jobs one after the other from every one of `threads` threads of this process."""
    results: dict[int, ExecutionResult] = {}
    begin = threading.Barrier(threads)

    def work(first: int) -> None:
        begin.wait()
        for number in range(first, first + each):
            results[number] = run([job(number)])[0]

    callers = [threading.Thread(target=work, args=(n * each,)) for n in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return [results[number] for number in range(threads * each)]


def check_all_right(threads: int, each: int) -> None:
    begun = time.monotonic()
    results = hammer(threads, each, right)
    wrong = [r for number, r in enumerate(results) if not is_right(number, r)]
    took = time.monotonic() - begun
    print(
        f"\n{threads} threads x {each}: {len(results) - len(wrong)} right in {took:.1f} s", end=" "
    )
    print(f"slowest {max(r.wall_seconds for r in results):.3f} s")
    assert wrong == []


def check_half_loops(threads: int, each: int) -> None:
    begun = time.monotonic()
    results = hammer(threads, each, lambda number: LOOP if number % 2 else right(number))
    took = time.monotonic() - begun
    good, loops = results[::2], results[1::2]
    outcomes = Counter(result.outcome for result in loops)
    print(f"\n{len(good)} right jobs among {dict(outcomes)} in {took:.1f} s")
    assert [r for place, r in enumerate(good) if not is_right(2 * place, r)] == []
    assert outcomes == {"timed_out": len(loops)}
    assert all(0.09 < result.cpu_seconds < 0.5 for result in loops)


def test_many_callers() -> None:
    check_all_right(32, 12)


def test_many_callers_and_half_of_the_jobs_never_end() -> None:
    check_half_loops(16, 4)


@pytest.mark.slow
def test_64_callers_and_200_jobs_each() -> None:
    check_all_right(64, 200)


@pytest.mark.slow
def test_64_callers_and_200_jobs_each_half_of_which_never_end() -> None:
    check_half_loops(64, 200)


# --------------------------------------------------------------------------- a long life

KINDS: Sequence[tuple[str, Job, tuple[str, str | None, str | None]]] = (
    ("value", Job("def f(x):\n    return x * 2", "f", "'ab'"), ("returned", "'abab'", None)),
    ("raise", Job("def f(x):\n    return 1 // x", "f", "0"), ("raised", None, "ZeroDivisionError")),
    ("print", Job("print('x' * 100)"), ("returned", None, None)),
    ("files", Job("open('a', 'w').write('x')"), ("returned", None, None)),
    ("flood", Job("while True: print('x' * 99)"), ("output_exceeded", None, None)),
    ("memory", Job("x = bytes(10**10)"), ("memory_exceeded", None, "MemoryError")),
    ("leave", Job("import os\nos._exit(0)"), ("killed", None, None)),
)
"""What jobs of the soak do, and outcome, value and exception of each."""


@dataclass
class Held:
    """What a host holds on to."""

    descriptors: int
    memory_kib: int
    folders: int
    zombies: int
    processes: int

    @classmethod
    def now(cls, temporary: Path) -> Held:
        below = descendants(os.getpid())
        status = Path("/proc/self/status").read_text()
        return cls(
            len(os.listdir("/proc/self/fd")),
            int(status.split("VmRSS:")[1].split()[0]),
            len(list(temporary.iterdir())),
            sum(state(pid) == "Z" for pid in below),
            len(below),
        )


def jobs_of_a_part(size: int, loops: int, seed: int) -> list[tuple[Job, tuple[object, ...]]]:
    """A shuffled mix with so many loops among them, each with what must come of it."""
    mix: list[tuple[Job, tuple[object, ...]]] = [(LOOP, ("timed_out", None, None))] * loops
    # Mostly values: the others cost more.
    kinds = [*KINDS[:4] * 5, *KINDS[4:]]
    mix += [(kinds[n % len(kinds)][1], kinds[n % len(kinds)][2]) for n in range(size - loops)]
    random.Random(seed).shuffle(mix)
    return mix


def kill_one(pool: SandboxPool, chance: random.Random, stop: threading.Event) -> bool:
    """Kill a worker: a fork server, or the process that keeps its namespace. False if none came."""
    while not stop.wait(chance.uniform(0.0, 0.1)):
        with contextlib.suppress(ProcessLookupError, IndexError, RuntimeError):
            first = chance.choice(sorted(each.process.pid for each in pool._servers))
            victim = chance.choice([first, *children(first)])
            os.kill(victim, signal.SIGKILL)
            return True
    return False


def soak(
    pool: SandboxPool, parts: int, size: int, loops: int
) -> tuple[int, Counter[str], list[str]]:
    """Run parts of the mix, one worker killed in each; kills, outcomes, and what was wrong."""
    killed = 0
    outcomes: Counter[str] = Counter()
    wrong = []
    for part in range(parts):
        mix = jobs_of_a_part(size, loops, part)
        stop = threading.Event()
        with ThreadPoolExecutor(1) as threads:
            killer = threads.submit(kill_one, pool, random.Random(part), stop)
            results = pool.run([job for job, _ in mix])
            stop.set()
            killed += killer.result()
        outcomes.update(result.outcome for result in results)
        for result, (_, expected) in zip(results, mix, strict=True):
            if (result.outcome, result.value, result.error_type) != expected:
                wrong.append(f"{result} instead of {expected}")
    return killed, outcomes, wrong


def check_soak(parts: int, size: int, loops: int, temporary: Path, most_kib: int) -> None:
    begun = time.monotonic()
    soak_begin = Held.now(temporary)
    with SandboxPool(2) as pool:
        soak(pool, 1, size, 1)
        warm = Held.now(temporary)
        killed, outcomes, wrong = soak(pool, parts, size, loops)
        hot = Held.now(temporary)
    assert wait_until(lambda: Held.now(temporary).processes == soak_begin.processes)
    end = Held.now(temporary)
    took = time.monotonic() - begun
    print(f"\n{parts * size} jobs, {killed} workers killed, {dict(outcomes)} in {took:.0f} s")
    print(f"at first {soak_begin}\nwarm     {warm}\nat last  {hot}\nclosed   {end}")
    assert wrong == []
    assert outcomes.total() == parts * size and outcomes["infrastructure"] == 0
    assert outcomes["timed_out"] == parts * loops
    assert killed >= 0.9 * parts
    assert (end.zombies, hot.zombies) == (0, 0)
    assert (end.descriptors, end.folders) == (soak_begin.descriptors, soak_begin.folders)
    assert hot.memory_kib - warm.memory_kib < most_kib


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@linux
def test_a_short_soak(temporary: Path) -> None:
    check_soak(6, 40, 6, temporary, 4096)


@linux
@pytest.mark.slow
def test_a_soak_of_20_000_jobs(temporary: Path) -> None:
    check_soak(200, 100, 10, temporary, 8192)
