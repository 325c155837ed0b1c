"""How a fork server's memory is mapped: the same bytes at the same places, in fewer pieces."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest

from rewards.sandbox import Job, SandboxPool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mappings are Linux's")

_BEGIN = """
import ctypes, hashlib, sys
from rewards.sandbox.kernel import Kernel
from rewards.sandbox.mappings import enlarge_pages, join_mappings, mappings

def code():
    found = [m for m in mappings() if m.rights == "r-xp" and m.name.startswith("/")]
    return {(m.start, m.end): hashlib.sha256(ctypes.string_at(m.start, m.end - m.start)).hexdigest()
            for m in found}

def digest(ranges):
    return {r: hashlib.sha256(ctypes.string_at(r[0], r[1] - r[0])).hexdigest() for r in ranges}

def large():
    with open("/proc/self/smaps") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("AnonHugePages"))

kernel = Kernel()
join_mappings(kernel)
before = code()
"""


def said(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _BEGIN + program], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_code_in_large_pages_is_the_same_at_the_same_place() -> None:
    words = said(
        """
try:
    enlarge_pages(kernel)
except OSError as error:
    print("refused", error)
else:
    assert digest(before) == before
    assert code().keys() != before.keys()
    assert large() >= 2048, large()
    import fractions, json  # what is loaded afterwards runs as well
    assert json.loads("[1.5]") == [fractions.Fraction(3, 2)]
    print("done")
"""
    )
    if words.startswith("refused"):
        pytest.skip(words)
    assert words == "done"


@pytest.mark.parametrize("call", ["madvise", "mprotect", "mremap"])
def test_a_kernel_that_refuses_leaves_everything_as_it_was(call: str) -> None:
    words = said(
        f"""
class Refusing:
    def __init__(self, libc):
        self.libc = libc
        self.syscall = lambda *_: -1
    def __getattr__(self, name):
        if name != {call!r}:
            return getattr(self.libc, name)
        return refuse

def refuse(*_):
    ctypes.set_errno(12)
    return -1

kernel.libc = Refusing(kernel.libc)
count = len(mappings())
try:
    enlarge_pages(kernel)
except OSError as error:
    print("refused")
assert code() == before
assert len(mappings()) == count
assert large() < 2048
"""
    )
    assert words == "refused"


def test_every_guest_begins_with_an_empty_collector() -> None:
    """When its garbage is collected must not depend on what was run before, nor on how many came."""
    job = Job("import gc\ndef f():\n    return gc.isenabled(), *gc.get_count()", "f")
    with SandboxPool(1) as pool:
        results = pool.run([job] * 40)
    for result in results:
        enabled, young, middle, old = ast.literal_eval(result.value or "")
        assert (enabled, middle, old) == (True, 0, 0)
        assert young < 20  # what sets the guest up; a collection is due at 700
