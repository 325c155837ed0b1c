"""What the tests of the sandbox share: pools with and without namespaces, calls, and a look at processes."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rewards import values
from rewards.sandbox import ExecutionResult, Job, Limits, SandboxPool
from rewards.sandbox.kernel import LAYERS

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"
PLAIN = ("rlimits", "process_group", "privileges", "seccomp", "landlock")
LAYER_SETS = {"all layers": LAYERS, "no namespaces": PLAIN}
"""As on a machine that offers everything, and as in a container that refuses namespaces."""
SHORT = Limits(cpu_seconds=0.2, wall_seconds=1.0)
AMPLE = Limits(cpu_seconds=5.0, wall_seconds=30.0)
ADD_ONE = Job("def f(x):\n    return x + 1", entry="f", args="41")

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs the Linux kernel's isolation")


def call(
    pool: SandboxPool, code: str, args: str = "", limits: Limits = AMPLE, entry: str | None = "f"
) -> ExecutionResult:
    """Run one program and make sure that the next job is none the worse for it."""
    result, after = pool.run([Job(textwrap.dedent(code), entry, args, limits=limits), ADD_ONE])
    assert (after.outcome, after.value) == ("returned", "42"), after
    return result


def script(
    pool: SandboxPool, code: str, stdin: str = "", limits: Limits = AMPLE
) -> ExecutionResult:
    return pool.run([Job(textwrap.dedent(code), stdin=stdin, limits=limits)])[0]


def value(result: ExecutionResult) -> object:
    assert result.outcome == "returned", result
    assert result.value is not None, result
    return values.parse(result.value)


HOST = """
import os, sys, time
sys.path.insert(0, {root!r})
from rewards.sandbox import Job, Limits, SandboxPool, guarantees, run
job = Job('def f(x):\\n    return x + 1', 'f', '41')
"""


def host(code: str, python: str = sys.executable, root: Path = ROOT) -> subprocess.Popen[str]:
    """Another host process, for what a test cannot do to its own."""
    text = HOST.format(root=str(root)) + textwrap.dedent(code)
    return subprocess.Popen([python, "-c", text], stdout=subprocess.PIPE, text=True)


# --------------------------------------------------------------------------- processes


def servers(pool: SandboxPool) -> list[int]:
    """The fork servers' first processes, as the host started them."""
    return sorted(each.process.pid for each in pool._servers)


def children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for child in children(pid):
        found |= {child} | descendants(child)
    return found


def state(pid: int) -> str | None:
    """`R`, `S`, `Z`, …; None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def gone(pid: int) -> bool:
    return state(pid) in (None, "Z")


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
