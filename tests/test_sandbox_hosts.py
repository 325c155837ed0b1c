"""Hosts that are not as usual: limits, signals, descriptors and folders that a fork server inherits, and
arguments that make no sense.

Every host is a process of its own; what it must be able to do is the same for all: a call that returns,
one that never ends, a family, a script with input and a file, and a group.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sandboxed import LAYER_SETS, PLAIN, ROOT, linux

from rewards.sandbox import Job, Limits, RemotePool, SandboxPool

pytestmark = linux

PROGRAM = """
import json, os, signal, sys
{before}
sys.path.insert(0, {root!r})
from rewards.sandbox import Job, Limits, SandboxPool
add = Job("def f(x):\\n    print(x)\\n    return x + 1", "f", "41")
loop = Job("def f():\\n    while True: pass", "f", limits=Limits(cpu_seconds=0.1))
family = Job(
    "import os\\ndef f():\\n    pid = os.fork()\\n    if not pid: os._exit(3)\\n"
    "    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])",
    "f", limits=Limits(processes=2),
)
script = Job("open('a', 'w').write('x' * 5000)\\nprint(input())", stdin="hello")
with SandboxPool(2, layers={layers!r}) as pool:
    results = pool.run([add, loop, family, script, add]) + pool.run_group([add] * 3)
    missing = pool.guarantees().missing
said = [[r.outcome, r.value, r.stdout] for r in results]
with open({report!r}, "w") as file:
    json.dump([said, missing], file)
"""
ADDED = ["returned", "42", "41\n"]
EXPECTED = [
    *(ADDED, ["timed_out", None, ""], ["returned", "3", ""], ["returned", None, "hello\n"]),
    *([ADDED] * 4),
]


def work(tmp_path: Path, layers: tuple[str, ...], before: str = "", shell: str = "{}") -> None:
    """Let a host start under `shell` with `before` done first, and see that all is well."""
    report = tmp_path / "report.json"
    text = PROGRAM.format(before=before, root=str(ROOT), layers=layers, report=str(report))
    command = shell.format(f"{shlex.quote(sys.executable)} -c {shlex.quote(text)}")
    ended = subprocess.run(
        ["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    said, missing = json.loads(report.read_text())
    assert said == EXPECTED
    if "pid" not in layers:
        assert missing == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json"]


@pytest.fixture(params=list(LAYER_SETS.values()), ids=list(LAYER_SETS))
def layers(request: pytest.FixtureRequest) -> tuple[str, ...]:
    chosen: tuple[str, ...] = request.param
    return chosen


def test_few_descriptors(tmp_path: Path, layers: tuple[str, ...]) -> None:
    work(tmp_path, layers, shell="ulimit -n 64; {}")


def test_few_descriptors_for_now(tmp_path: Path) -> None:
    work(tmp_path, PLAIN, shell="ulimit -Sn 40; {}")


def test_too_few_descriptors_are_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"needs 60 descriptors, 40 are allowed"):
        work(tmp_path, PLAIN, shell="ulimit -n 40; {}")


def test_small_files_only(tmp_path: Path, layers: tuple[str, ...]) -> None:
    work(tmp_path, layers, shell="ulimit -f 16; {}")


def test_a_host_that_ignores_its_children(tmp_path: Path, layers: tuple[str, ...]) -> None:
    before = "for n in (signal.SIGCHLD, signal.SIGXCPU): signal.signal(n, signal.SIG_IGN)"
    work(tmp_path, layers, before)


def test_a_host_that_blocks_every_signal(tmp_path: Path, layers: tuple[str, ...]) -> None:
    """As threads of servers do, from which a pool may be started. A guest can use its alarm clock."""
    work(tmp_path, layers, "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())")
    mask = signal_mask_of_a_guest()
    assert mask == "[]"


def signal_mask_of_a_guest() -> str | None:
    import signal

    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        with SandboxPool(1) as pool:
            code = "import signal\ndef f():\n    return [int(n) for n in signal.pthread_sigmask(0, [])]"
            return pool.run([Job(code, "f")])[0].value
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_relative_temporary_folder(tmp_path: Path, layers: tuple[str, ...]) -> None:
    work(tmp_path, layers, shell="TMPDIR=. {}")


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(tmp_path: Path, closed: str) -> None:
    work(tmp_path, PLAIN, shell="{} " + closed)


# --------------------------------------------------------------------------- arguments

SENSELESS = (math.nan, math.inf, -math.inf, -1, True, "1", None, 10**30, 1j, [1], b"1")
"""What no limit may be."""
LIMITS = ("cpu_seconds", "wall_seconds", "memory_mb", "output_bytes", "file_bytes", "processes")


@pytest.mark.parametrize("name", LIMITS)
def test_limits_that_make_no_sense(name: str) -> None:
    seconds = name.endswith("_seconds")
    with SandboxPool(1) as pool:
        for value in (*SENSELESS, 0 if seconds else 1.5):
            wrong: dict[str, Any] = {name: value}
            job = Job("", limits=replace(Limits(), **wrong))
            with pytest.raises(ValueError, match=rf"^Limits.{name} must be an? \w+ in .*, got"):
                pool.run([job])
            with pytest.raises(ValueError, match=name):
                pool.run_group([job, job])
        assert pool._servers == set()


@pytest.mark.parametrize("value", [*SENSELESS, 1.5, 1 << 32])
def test_hash_seeds_that_make_no_sense(value: Any) -> None:
    with SandboxPool(1) as pool, pytest.raises(ValueError, match=r"^Job.hash_seed must be"):
        pool.run([Job("", hash_seed=value)])


@pytest.mark.parametrize("name", ["code", "args", "stdin", "options", "entry", "recorder"])
@pytest.mark.parametrize("value", [b"x", 1, ["x"]])
def test_texts_that_are_none(name: str, value: Any) -> None:
    with SandboxPool(1) as pool, pytest.raises(ValueError, match=rf"^Job.{name} must be a text"):
        pool.run([replace(Job("x = 1"), **{name: value})])


def test_what_is_no_job() -> None:
    with SandboxPool(1) as pool:
        for wrong in ("print(1)", None, Job("", limits=None)):  # type: ignore[arg-type]
            with pytest.raises(ValueError, match=r"^expected a Job"):
                pool.run([wrong])  # type: ignore[list-item]


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2"])
def test_counts_that_make_no_sense(count: Any) -> None:
    """The same words wherever they are given."""
    for make in (
        lambda: SandboxPool(count),
        lambda: RemotePool("http://localhost:1", size=count),
        lambda: RemotePool("http://localhost:1", jobs_per_request=count),
        lambda: SandboxPool(1).run([], workers=count),
        lambda: RemotePool("http://localhost:1").run([], workers=count),
    ):
        with pytest.raises(ValueError, match=r"^\w+ must be an integer >= 1, got"):
            make()


def test_the_largest_limits_are_usable() -> None:
    most = Limits(
        cpu_seconds=1e6, wall_seconds=1e6, memory_mb=1 << 30, output_bytes=1 << 24,
        file_bytes=1 << 50, processes=4096,
    )  # fmt: skip
    least = Limits(0.001, 0.001, 1, 0, 0, 0)
    with SandboxPool(1) as pool:
        good, brief = pool.run(
            [Job("def f():\n    return 1", "f", limits=each) for each in (most, least)]
        )
    assert good.value == "1"
    assert brief.outcome in ("returned", "timed_out", "memory_exceeded"), brief
