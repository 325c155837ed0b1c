"""The sandbox, attacked for real: nothing here is simulated.

Every attack runs twice: with all layers, and as in a container that refuses namespaces. After each
one the same pool must still give the right answer. Tests named `test_ex_NN` answer the public report
with that id.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards import values
from rewards.sandbox import (
    ExecutionResult,
    Job,
    Limits,
    SandboxError,
    SandboxPool,
    guarantees,
    run,
    run_async,
    run_group,
)
from rewards.sandbox import isolation as isolation_module
from rewards.sandbox.isolation import LAYERS

ROOT = Path(__file__).resolve().parent.parent
CRUXEVAL = ROOT.parent / "shared" / "data" / "cruxeval_dev.jsonl"
PLAIN = ("rlimits", "process_group", "privileges", "seccomp", "landlock")
SHORT = Limits(cpu_seconds=0.2, wall_seconds=1.0)
AMPLE = Limits(cpu_seconds=5.0, wall_seconds=30.0)
ADD_ONE = Job("def f(x):\n    return x + 1", entry="f", args="41")

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs the Linux kernel's isolation")


@pytest.fixture(scope="module", params=["all layers", "no namespaces"])
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    layers = LAYERS if request.param == "all layers" else PLAIN
    with SandboxPool(2, layers=layers) as made:
        yield made


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


def zygotes(pool: SandboxPool) -> list[int]:
    return sorted(slot.process.pid for slot in pool._slots)


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for child in isolation_module._children(pid):
        found |= {child} | descendants(child)
    return found


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def wait_until(condition: object, seconds: float = 10.0) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# --------------------------------------------------------------------------- what a call gives


def test_value_type_and_text(pool: SandboxPool) -> None:
    result = call(pool, "def f(a, *, b):\n    print('hi')\n    return [a, b]", "(1, 2), b='x'")
    assert result.outcome == "returned"
    assert result.value == values.canonical([(1, 2), "x"])
    assert result.value_type == "list"
    assert (result.stdout, result.stderr) == ("hi\n", "")
    assert 0 < result.cpu_seconds < 2 and 0 < result.wall_seconds < 20


def test_arguments_are_built_in_the_namespace_of_the_program(pool: SandboxPool) -> None:
    code = "from collections import Counter\ndef f(c):\n    return c['a']"
    assert value(call(pool, code, "Counter('aab')")) == 2


@pytest.mark.parametrize(
    "args", ["1)(2", "1) or f(2", "1), f(2", "1", "*[1]", "1, # note", "x=(1)"]
)
def test_only_an_argument_list_is_an_argument_list(pool: SandboxPool, args: str) -> None:
    result = call(pool, "def f(x):\n    return x", args)
    if ")" in args and args != "x=(1)":
        assert (result.outcome, result.error_type) == ("raised", "SyntaxError")
        assert result.error_line is None
    else:
        assert value(result) == 1


def test_exception_with_type_message_and_line(pool: SandboxPool) -> None:
    code = """
    def g(d, k):
        return d[k]

    def f(k):
        import json
        try:
            return g({}, k)
        except KeyError:
            return json.loads('{')
    """
    result = call(pool, code, "(1, 'a')")
    assert (result.outcome, result.error_type, result.error_line) == (
        "raised",
        "JSONDecodeError",
        10,
    )
    result = call(pool, "def g():\n    {}[1, 'a']\n\ndef f():\n    g()")
    assert (result.error_type, result.error_message) == ("KeyError", "(1, 'a')")
    assert result.error_line == 2


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("def f():\n  return 1\n\ndef g(:\n  pass", "SyntaxError", 4),
        ("def f():\n    pass\nx = 1 / 0", "ZeroDivisionError", 3),
        ("def f(:", "SyntaxError", 1),
        ("def f():\n    return f()", "RecursionError", 2),
        ("def g(): pass", "NameError", None),
        ("def f():\n    raise KeyboardInterrupt", "KeyboardInterrupt", 2),
    ],
)
def test_where_it_was_raised(pool: SandboxPool, code: str, name: str, line: int | None) -> None:
    result = call(pool, code)
    assert (result.outcome, result.error_type, result.error_line) == ("raised", name, line)


def test_a_value_without_canonical_text_is_told_by_type(pool: SandboxPool) -> None:
    result = call(pool, "class A: pass\ndef f():\n    return A()")
    assert (result.outcome, result.value, result.value_type) == ("returned", None, "A")
    assert result.unrepresentable


def test_standard_helpers_of_an_ordinary_interpreter(pool: SandboxPool) -> None:
    code = """
    import inspect, sys
    def f(x):
        return inspect.getsource(f).splitlines()[0], sys.argv, __name__, callable(exit)
    """
    assert value(call(pool, code, "1")) == ("def f(x):", ["<program>"], "__main__", True)


def test_asyncio_programs_run(pool: SandboxPool) -> None:
    code = """
    import asyncio
    async def g(x):
        await asyncio.sleep(0)
        return x * 2
    def f(x):
        return asyncio.run(g(x))
    """
    assert value(call(pool, code, "4")) == 8


def test_script_end_of_life(pool: SandboxPool) -> None:
    """A script's exit handlers run, as they do in an ordinary interpreter, also after sys.exit."""
    code = "import atexit, sys\natexit.register(print, 'bye')\nprint('hi')\n"
    assert script(pool, code).stdout == "hi\nbye\n"
    result = script(pool, code + "sys.exit('no')")
    assert (result.outcome, result.error_type) == ("raised", "SystemExit")
    assert (result.error_message, result.stdout) == ("no", "hi\nbye\n")


def test_output_of_every_kind(pool: SandboxPool) -> None:
    code = """
    import os, sys
    print('text', flush=True)
    sys.stdout.buffer.write(b'\\xff\\x00')
    sys.stdout.flush()
    os.write(1, b'raw')
    print('a\\ud800', file=sys.stderr)
    """
    result = script(pool, code)
    assert result.stdout == "text\n\\xff\x00raw"
    assert result.stderr == "a\\ud800\n"


def test_streams_that_the_program_broke(pool: SandboxPool) -> None:
    for breaking in ("sys.stdout.close()", "sys.stdout = None", "del sys.stdout, sys.stderr"):
        result = call(pool, f"import sys\nprint('x')\n{breaking}\ndef f():\n    return 1")
        assert value(result) == 1, breaking


@pytest.mark.skipif(not CRUXEVAL.exists(), reason="../shared/data/cruxeval_dev.jsonl is not there")
def test_cruxeval_outputs() -> None:
    rows = [json.loads(line) for line in CRUXEVAL.read_text(encoding="utf-8").splitlines()]
    jobs = [Job(row["code"], "f", row["input"], limits=AMPLE) for row in rows]
    assert len(jobs) == 400
    for row, result in zip(rows, run(jobs), strict=True):
        assert values.equal(value(result), values.parse(row["output"])), row["id"]


@settings(deadline=None, max_examples=25)
@given(st.recursive(st.none() | st.integers() | st.text() | st.floats(), st.lists, max_leaves=8))
def test_law_identity_survives_the_border(given_value: object) -> None:
    text = values.canonical(given_value)
    result = run([Job("def f(x):\n    return x", "f", text.replace("nan", "nan"))])[0]
    if "float(" not in text:
        assert result.value == text


# --------------------------------------------------------------------------- public reports


def test_ex_01_busy_loop_is_stopped_and_delays_nobody(pool: SandboxPool) -> None:
    loop = Job("def f():\n    n = 0\n    while True:\n        n += 1", "f", limits=SHORT)
    begun = time.monotonic()
    results = pool.run([loop, ADD_ONE, loop, ADD_ONE])
    assert [r.outcome for r in results] == ["timed_out", "returned", "timed_out", "returned"]
    assert all(0.15 < r.cpu_seconds < 0.4 for r in results[::2])
    assert "CPU" in results[0].detail
    assert time.monotonic() - begun < 10


@linux
def test_ex_02_processes_that_it_started_die_with_it(pool: SandboxPool) -> None:
    code = """
    import subprocess, time
    def f():
        subprocess.Popen(['sleep', '987'], start_new_session=True)
        print('started', flush=True)
        time.sleep(30)
    """
    limits = Limits(cpu_seconds=5, wall_seconds=0.7, processes=4)
    result = call(pool, code, limits=limits)
    assert (result.outcome, result.stdout) == ("timed_out", "started\n")
    assert "wall" in result.detail
    assert not any("987" in _command(pid) for pid in descendants(os.getpid()))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@linux
def test_ex_03_a_grandchild_that_holds_the_pipe_delays_nothing(pool: SandboxPool) -> None:
    code = """
    import subprocess
    def f():
        subprocess.Popen(['sleep', '986'])
        print('hi')
        return 1
    """
    begun = time.monotonic()
    result = call(pool, code, limits=Limits(cpu_seconds=5, wall_seconds=60, processes=4))
    assert (value(result), result.stdout) == (1, "hi\n")
    assert time.monotonic() - begun < 20
    assert not any("986" in _command(pid) for pid in descendants(os.getpid()))


@pytest.mark.parametrize(
    "body",
    [
        "sum(range(2 * 10**9))",
        "10 ** 10 ** 8",
        "__import__('re').match('(a*)*b', 'a' * 30)",
        "max(x for x in iter(int, 1))",
    ],
)
def test_ex_05_work_inside_one_call_of_c(pool: SandboxPool, body: str) -> None:
    result = call(pool, f"def f():\n    return {body}", limits=SHORT)
    assert result.outcome == "timed_out"
    assert result.cpu_seconds < 1


def test_ex_06_a_time_out_cannot_be_swallowed(pool: SandboxPool) -> None:
    code = """
    import signal
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    def f(xs):
        while True:
            try:
                xs[0] += 1
            except BaseException:
                pass
    """
    assert call(pool, code, "[0]", SHORT).outcome == "timed_out"


def test_ex_08_memory_is_counted_from_a_clean_start() -> None:
    held = bytearray(700 << 20)
    limits = Limits(memory_mb=128)
    with SandboxPool(1) as pool:
        small, large = pool.run(
            [
                Job("def f():\n    return len(bytearray(64 << 20))", "f", limits=limits),
                Job("def f():\n    return len(bytearray(256 << 20))", "f", limits=limits),
            ]
        )
    assert value(small) == 64 << 20
    assert large.outcome == "memory_exceeded"
    assert len(held) == 700 << 20


def test_ex_08_a_sandbox_that_cannot_start_is_an_error() -> None:
    with SandboxPool(1, python="/bin/false") as pool:
        with pytest.raises(SandboxError, match="does not start"):
            pool.run([ADD_ONE] * 5)
        with pytest.raises(SandboxError, match="does not start"):
            pool.guarantees()
    with SandboxPool(1, python="/nonexistent/python") as pool, pytest.raises(SandboxError):
        pool.run([ADD_ONE])


def test_ex_12_the_host_is_never_forked() -> None:
    """CUDA and threads of the host are safe: fork servers start from a new interpreter."""
    forks: list[int] = []
    os.register_at_fork(before=lambda: forks.append(1))
    with SandboxPool(1) as pool:
        job = Job("import sys\ndef f():\n    return sorted(sys.modules)", "f")
        modules = value(pool.run([job])[0])
    assert forks == []
    assert isinstance(modules, list) and "hypothesis" not in modules and "rewards" not in modules


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_ex_13_output_is_cut_while_it_is_read(pool: SandboxPool, stream: str) -> None:
    code = f"import sys\ndef f():\n    while True:\n        sys.{stream}.write('x' * 1000)"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = call(pool, code)
    assert result.outcome == "output_exceeded"
    assert getattr(result, stream) == "x" * 65_536
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB


def test_ex_13_the_output_budget_does_not_depend_on_timing(pool: SandboxPool) -> None:
    for size, outcome in ((100, "returned"), (101, "output_exceeded")):
        code = f"def f():\n    print('x' * {size - 1})"
        assert call(pool, code, limits=Limits(output_bytes=100)).outcome == outcome


def test_ex_14_standard_input(pool: SandboxPool) -> None:
    result = call(pool, "def f():\n    return input()")
    assert (result.outcome, result.error_type) == ("raised", "EOFError")
    code = "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split())))"
    assert script(pool, code, "1 2 3").stdout == "6\n"
    assert script(pool, "print(open(0).read() + input.__name__)", "é\n").stdout == "é\ninput\n"
    large = "7\n" * 300_000
    assert script(pool, "import sys\nprint(sum(map(int, sys.stdin)))", large).stdout == "2100000\n"


@pytest.mark.parametrize(
    ("code", "outcome", "name"),
    [
        ("import sys\ndef f():\n    sys.exit(0)", "raised", "SystemExit"),
        ("def f():\n    raise SystemExit", "raised", "SystemExit"),
        ("def f():\n    exit()", "raised", "SystemExit"),
        ("import os\ndef f():\n    os._exit(0)", "killed", None),
        ("import os\nos._exit(0)", "killed", None),
        ("import os\ndef f():\n    os.abort()", "killed", None),
    ],
)
def test_ex_15_leaving_early_is_never_a_result(
    pool: SandboxPool, code: str, outcome: str, name: str | None
) -> None:
    result = call(pool, code)
    assert (result.outcome, result.error_type, result.value) == (outcome, name, None)


@linux
def test_ex_18_nothing_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def held() -> tuple[int, set[int]]:
        return len(os.listdir("/proc/self/fd")), descendants(os.getpid())

    before = held()
    for _ in range(5):
        with SandboxPool(2) as pool:
            slow = Job("def f():\n    while True: pass", "f", limits=SHORT)
            pool.run([ADD_ONE, ADD_ONE, slow])
    assert held() == before
    assert list(tmp_path.iterdir()) == []


def test_ex_22_results_are_never_unpickled(pool: SandboxPool) -> None:
    code = """
    class R:
        def __reduce__(self):
            return (exec, ("import builtins; builtins.PWNED = 1",))
    def f():
        return R()
    """
    assert call(pool, code).value_type == "R"
    import builtins

    assert not hasattr(builtins, "PWNED")


def test_ex_24_main_guard(pool: SandboxPool) -> None:
    code = "def main():\n    print(5)\nif __name__ == '__main__':\n    main()"
    assert script(pool, code).stdout == "5\n"


def test_ex_25_no_header_is_put_in_front(pool: SandboxPool) -> None:
    code = "from __future__ import annotations\ndef f(x: int) -> int:\n    return x"
    assert value(call(pool, code, "1")) == 1
    # and the sandbox's own future import does not leak into the program
    assert value(call(pool, "def f(x: 1 + 1):\n    return f.__annotations__", "1")) == {"x": 2}


def test_ex_26_the_module_is_registered(pool: SandboxPool) -> None:
    code = """
    from __future__ import annotations
    from dataclasses import dataclass
    @dataclass
    class A:
        x: int
    def f():
        return A(1).x
    """
    assert value(call(pool, code)) == 1


def test_ex_27_every_call_has_a_fresh_namespace(pool: SandboxPool) -> None:
    code = "seen = []\ndef f(x, acc=[]):\n    acc.append(x); seen.append(x)\n    return len(acc + seen)"
    jobs = [Job(code, "f", "1"), Job(code, "f", "2")]
    assert [value(r) for r in pool.run_group(jobs)] == [2, 2]
    assert [value(r) for r in pool.run(jobs)] == [2, 2]


@linux
def test_ex_28_threads_still_running_keep_nothing_alive(pool: SandboxPool) -> None:
    code = """
    import threading, time
    def f():
        threading.Thread(target=time.sleep, args=(60,)).start()
        return 1
    """
    begun = time.monotonic()
    assert value(call(pool, code, limits=Limits(processes=4))) == 1
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    x = [0]\n    while True:\n        x = x + x",
        "def f():\n    return bytes(10**10)",
        "def f():\n    return 'ab' * 10**10",
        "def f():\n    return 1 << (10**11)",
        "x = [0] * 10**10\ndef f():\n    pass",
    ],
)
def test_ex_29_memory_bombs(pool: SandboxPool, code: str) -> None:
    result = call(pool, code)
    assert (result.outcome, result.error_type) == ("memory_exceeded", "MemoryError")
    assert result.value is None


def test_ex_30_lone_surrogates(pool: SandboxPool) -> None:
    result = call(pool, "def f():\n    return 'a\\ud800'")
    assert value(result) == "a\ud800"
    result = call(pool, "def f(x):\n    raise ValueError(x)", "'\\udfff'")
    assert result.error_message == "\udfff"
    result = call(pool, "def f():\n    return 'z\ud800'")
    assert (result.outcome, result.error_type) == ("raised", "UnicodeEncodeError")


@pytest.mark.parametrize("text", ["{3, 1}", "b'hi'", "2 ** 80", "{2: 'a', '2': 'b'}", "(1, [2])"])
def test_ex_31_ex_32_types_and_keys_survive(pool: SandboxPool, text: str) -> None:
    result = call(pool, f"def f():\n    return {text}")
    assert values.equal(value(result), eval(text))
    assert call(pool, "def f():\n    return [float('inf')]").value == values.canonical(
        [float("inf")]
    )


# --------------------------------------------------------------------------- attacks

# Each defines f(), which returns "breached" if it got through. Any other end is containment.
ATTACKS = {
    "fork": "os.fork() or os._exit(0); return 'breached'",
    "daemon": "subprocess.Popen(['sleep', '985'], start_new_session=True); return 'breached'",
    "shell": "return os.system('true') == 0 and 'breached'",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "thread": "threading.Thread(target=time.sleep, args=(9,)).start(); return 'breached'",
    "read password file": "return open('/etc/passwd').read() and 'breached'",
    "list root home": "return os.listdir('/root') is not None and 'breached'",
    "read environment of the host": (
        "return open(f'/proc/{os.getppid() or 1}/environ').read() and 'breached'"
    ),
    "write beside": "open('/tmp/../var/tmp/breach', 'w').write('x'); return 'breached'",
    "write to the library": "open(os.__file__, 'a').write('#'); return 'breached'",
    "remove from the library": "os.remove(os.__file__); return 'breached'",
    "mode of the library": "os.chmod(os.__file__, 0o666); return 'breached'",
    "ipv4": "socket.create_connection(('127.0.0.1', PORT), 1); return 'breached'",
    "ipv6": "socket.socket(socket.AF_INET6).bind(('::', 0)); return 'breached'",
    "abstract socket": (
        "socket.socket(socket.AF_UNIX).connect('\\0sandbox-test'); return 'breached'"
    ),
    "raw socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); return 'breached'",
    "kill the fork server": "os.kill(os.getppid(), 9); time.sleep(0.05)",
    "interrupt the fork server": "os.kill(os.getppid(), 2); time.sleep(0.05)",
    "stop the fork server": "os.kill(os.getppid(), 19); time.sleep(0.05)",
    "kill everybody": "os.kill(-1, 9)",
    "kill the host": "os.kill(HOST, 15); return 'breached'",
    "ptrace": "return LIBC.ptrace(16, os.getppid(), 0, 0) == 0 and 'breached'",
    "unshare": "return LIBC.unshare(0x10000000) == 0 and 'breached'",
    "mount": "return LIBC.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 and 'breached'",
    "chroot": "os.chroot('.'); return 'breached'",
    "setuid": "os.setuid(0 if os.getuid() else 1); return 'breached'",
    "limits of the fork server": (
        "resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (3, 3)); return 'breached'"
    ),
    "own limits": ("resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)); return 'breached'"),
    "host name": "socket.sethostname('breached'); return 'breached'",
    "large file": "open('big', 'wb').write(bytes(2 << 20)); return 'breached'",
}
ATTACK_PRELUDE = """
import ctypes, os, resource, socket, subprocess, sys, threading, time
LIBC = ctypes.CDLL(None)
HOST = {host}
PORT = {port}
def f():
    {body}
"""


@linux
@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_attack_is_contained(pool: SandboxPool, name: str) -> None:
    import socket

    active = set(pool.guarantees().active)
    if not ({"seccomp", "landlock"} <= active or {"pid", "mount", "network"} <= active):
        pytest.skip("this kernel offers too little isolation to try attacks on a live machine")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind("\0sandbox-test")
        hidden.listen()
        port = server.getsockname()[1]
        code = ATTACK_PRELUDE.format(host=os.getpid(), port=port, body=ATTACKS[name])
        pool.run([ADD_ONE] * 4)
        before = zygotes(pool)
        result = call(pool, code, limits=Limits(cpu_seconds=2, wall_seconds=5))
    assert result.outcome in ("returned", "raised", "killed"), result
    assert "breached" not in (result.value or ""), result
    assert zygotes(pool) == before, "a fork server died of it"
    assert not any("985" in _command(pid) for pid in descendants(os.getpid()))


@linux
@pytest.mark.parametrize(
    "body",
    [
        "while True: os.fork()",
        "\n        while True: threading.Thread(target=time.sleep, args=(30,)).start()",
    ],
)
def test_bombs_of_processes_and_threads(pool: SandboxPool, body: str) -> None:
    """Also where some are allowed: the number is a budget, not a switch."""
    code = f"import os, threading, time\ndef f():\n    {body.strip()}"
    for processes in (0, 6):
        limits = Limits(cpu_seconds=1, wall_seconds=3, processes=processes, memory_mb=2048)
        result = call(pool, code, limits=limits)
        assert result.outcome in ("raised", "killed", "timed_out"), result
    assert len(descendants(os.getpid())) < 20


@linux
def test_a_daemon_does_not_outlive_its_job(pool: SandboxPool) -> None:
    code = """
    import os, time
    def f():
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                while True:
                    time.sleep(1)
            os._exit(0)
        return os.getpid() > 0
    """
    before = descendants(os.getpid())
    assert value(call(pool, code, limits=Limits(processes=6))) is True
    assert {pid for pid in descendants(os.getpid()) if not gone(pid)} <= before


def test_segmentation_faults(pool: SandboxPool) -> None:
    result = call(pool, "import ctypes\ndef f():\n    ctypes.string_at(0)")
    assert (result.outcome, result.detail) == ("killed", "signal 11 (SIGSEGV)")
    code = "import sys\nsys.setrecursionlimit(10**9)\ndef f(x=0):\n    return sorted([1], key=f)"
    result = call(pool, code, limits=Limits(cpu_seconds=1))
    assert result.outcome in ("killed", "raised")  # some versions count the stack of C, too


def test_forged_results_on_every_descriptor(pool: SandboxPool) -> None:
    code = """
    import os
    def f():
        for fd in range(1024):
            try:
                os.write(fd, b'x' * 40 + b'{"o":"returned","type":"int","value":"1"}')
            except OSError:
                pass
        LEAVE
        return 2
    """
    for leave in ("pass", "os._exit(0)"):
        result = call(pool, code.replace("LEAVE", leave))
        assert (result.outcome, result.value) == ("killed", None)
        assert result.detail == "forged or damaged result"


def test_every_descriptor_closed(pool: SandboxPool) -> None:
    result = call(pool, "import os\ndef f():\n    os.closerange(0, 4096)\n    return 1")
    assert (result.outcome, result.value) == ("killed", None)


def test_a_guest_that_speaks_its_reporters_language_is_checked_too(pool: SandboxPool) -> None:
    """It can always lie about its own value; nonsense and a second result are no values."""
    code = """
    import os, sys
    def f(payload, times):
        frame = sys._getframe()
        while frame.f_code.co_name != 'run':
            frame = frame.f_back
        performer = frame.f_locals['self']
        for _ in range(times):
            performer.send(b'R', payload)
        os._exit(0)
    """
    lies = [
        b"nonsense",
        b"[]",
        b'{"o": "returned", "type": 3, "value": "1"}',
        b'{"o": "returned", "type": "int"}',
        b'{"o": "won", "type": "int", "value": "1"}',
        b'{"o": "returned", "type": "int", "value": "1", "extra": "1"}',
        b'{"o": "raised", "type": "int", "value": "1"}',
        b"[" * 100_000,
    ]
    for lie in lies:
        result = call(pool, code, f"{lie!r}, 1")
        assert (result.outcome, result.detail) == ("killed", "forged or damaged result"), lie[:40]
    good = b'{"o": "returned", "type": "int", "value": "1"}'
    assert call(pool, code, f"{good!r}, 2").outcome == "killed"
    assert call(pool, code, f"{good!r}, 1").outcome == "returned"


@pytest.mark.parametrize(
    "patch",
    [
        "builtins.repr = builtins.str = builtins.len = builtins.isinstance = lambda *a: 1 / 0",
        "builtins.__dict__.clear()",
        "json.dumps = json.encoder.JSONEncoder = None; json.encoder.__dict__.clear()",
        "sys.modules.clear()",
        "sys.settrace(lambda *a: 1 / 0); sys.setprofile(lambda *a: None)",
        "sys.setrecursionlimit(60)",
        "os.write = os._exit = None; io.__dict__.clear()",
        "warnings.simplefilter('error')",
        "sys.meta_path.clear(); sys.path.clear()",
        "gc.set_threshold(1)",
        "atexit.register(os._exit, 9)",
    ],
)
def test_monkeypatching_changes_no_verdict(pool: SandboxPool, patch: str) -> None:
    code = f"import atexit, builtins, gc, io, json, os, sys, warnings\ndef f(x):\n    {patch}\n    return x"
    job = Job(code, "f", "[1, {'a': (2.5, None)}]")
    for result in [*pool.run([job]), *pool.run_group([job, job])]:
        assert value(result) == [1, {"a": (2.5, None)}]
    assert value(call(pool, "def f():\n    return repr(len('ab'))")) == "2"


@pytest.mark.parametrize(
    "code",
    [
        "class E(Exception):\n    def __str__(self):\n        while True: pass",
        "class S:\n    def __str__(self):\n        while True: pass\n    __repr__ = __str__\n"
        "class E(Exception):\n    def __init__(self):\n        super().__init__(S())",
        "class M(type):\n    __name__ = property(lambda c: 1 / 0)\n    __mro__ = property(exit)\n"
        "class E(Exception, metaclass=M): pass",
        "class E(Exception):\n    args = __traceback__ = __class__ = property(lambda s: 1 / 0)\n"
        "    def __getattribute__(self, name): return 1 / 0",
        "class E(Exception):\n    def __init__(self):\n        super().__init__('x' * 10**7)",
    ],
)
def test_exceptions_that_lie_or_loop(pool: SandboxPool, code: str) -> None:
    result = call(pool, f"{code}\ndef f():\n    raise E()", limits=Limits(cpu_seconds=1))
    assert (result.outcome, result.error_type) == ("raised", "E")
    assert len(result.error_message or "") <= 1000
    assert result.error_line == code.count("\n") + 3


def test_values_that_lie_or_loop(pool: SandboxPool) -> None:
    for body in ("while True: pass", "return 'x' * 10**9", "return '1'", "raise KeyError"):
        code = f"class L(list):\n    def __repr__(self):\n        {body}\n    __len__ = __iter__ = __repr__\n"
        result = call(pool, f"{code}def f():\n    return L([1])", limits=Limits(cpu_seconds=1))
        assert result.outcome in ("returned", "timed_out", "memory_exceeded")
        assert result.value is None


def test_the_private_folder(pool: SandboxPool) -> None:
    """Writable, empty at the start of every job, whatever the last one left in it."""
    code = """
    import os, tempfile
    def f():
        before = os.listdir('.')
        with tempfile.NamedTemporaryFile('w') as file:
            file.write('x')
        open('a', 'w').write('x')
        os.symlink('/etc', 'link')
        os.mkdir('shut', 0)
        for depth in range(200):
            os.mkdir('d' * 40)
            os.chdir('d' * 40)
        return before
    """
    for _ in range(3):
        assert value(call(pool, code)) == []


def test_nothing_of_the_host_is_in_its_environment(
    pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SANDBOX_TEST_SECRET", "hunter2")
    with SandboxPool(1, layers=pool.layers) as fresh:
        names = value(call(fresh, "import os\ndef f():\n    return sorted(os.environ)"))
    assert names == ["HOME", "LANG", "LC_ALL", "PATH", "PYTHONHASHSEED", "TMPDIR", "TZ"]


# --------------------------------------------------------------------------- grouped calls

GROUP = """
import os, sys
print('module', __name__)
def f(x):
    print('call', x)
    if x == 1:
        return 1 / 0
    if x == 3:
        while True: pass
    if x == 5:
        os._exit(0)
    if x == 7:
        return bytearray(10**10)
    return -x
"""


def test_a_misbehaving_call_costs_the_others_nothing(pool: SandboxPool) -> None:
    jobs = [Job(GROUP, "f", str(n), limits=SHORT) for n in range(9)]
    results = pool.run_group(jobs)
    expected = ["returned", "raised", "returned", "timed_out", "returned", "killed", "returned"]
    assert [r.outcome for r in results] == [*expected, "memory_exceeded", "returned"]
    for number, result in enumerate(results):
        if result.outcome == "returned":
            assert value(result) == -number
        if result.outcome in ("returned", "raised"):
            assert result.stdout == f"module __main__\ncall {number}\n"
            assert result.cpu_seconds < 0.2


def test_grouped_and_single_calls_agree(pool: SandboxPool) -> None:
    code = """
    import decimal, sys
    def f(x):
        before = decimal.getcontext().prec, sys.getrecursionlimit()
        decimal.getcontext().prec = 5
        sys.setrecursionlimit(200 + x)
        print(x, file=sys.stderr)
        return before, str(decimal.Decimal(1) / x), input() if x == 2 else open(0).read()
    """
    jobs = [Job(textwrap.dedent(code), "f", str(n), stdin="in\n") for n in (3, 2, 7, 0)]
    grouped, single = pool.run_group(jobs), pool.run(jobs)
    for one, other in zip(grouped, single, strict=True):
        assert (one.outcome, one.value, one.stderr, one.error_type) == (
            (other.outcome, other.value, other.stderr, other.error_type)
        )


def test_forging_inside_a_group_is_attributed(pool: SandboxPool) -> None:
    code = """
    import os
    def f(x):
        if x == 1:
            os.write(100, b'x' * 100)
        return x
    """
    jobs = [Job(textwrap.dedent(code), "f", str(n)) for n in range(3)]
    results = pool.run_group(jobs)
    assert [r.outcome for r in results] == ["returned", "killed", "returned"]


def test_groups_larger_than_one_child_and_many_at_once(pool: SandboxPool) -> None:
    code = "def f(x):\n    return x"
    groups = [[Job(code, "f", str(n)) for n in range(size)] for size in (0, 1, 300)]
    results = pool.run_groups(groups)
    assert [[value(r) for r in group] for group in results] == [[], [0], list(range(300))]


def test_a_group_shares_its_program() -> None:
    with pytest.raises(ValueError, match="share code"):
        run_group([ADD_ONE, Job("def f(x): pass", "f", "1")])


# --------------------------------------------------------------------------- recorders

RECORDER = """
class Recorder:
    def __init__(self, source, options):
        self.source, self.options, self.calls = source, options, []
    def compile(self, filename):
        return compile(self.source, filename, 'exec')
    def namespace(self):
        return {'extra': 7}
    def call(self, function, args, kwargs):
        self.calls.append(repr(args))
        return function(*args, **kwargs)
    def report(self):
        return {'calls': self.calls, 'options': self.options, 'odd': '\\ud800'}
"""


def test_recorder(pool: SandboxPool, tmp_path: Path) -> None:
    path = tmp_path / "recorder.py"
    path.write_text(RECORDER, encoding="utf-8")
    code = "def f(x):\n    return extra // x"
    jobs = [Job(code, "f", str(n), recorder=str(path), options='{"a": [1]}') for n in (2, 0)]
    for good, bad in (pool.run(jobs), pool.run_group(jobs)):
        assert value(good) == 3
        assert (bad.error_type, bad.error_line) == ("ZeroDivisionError", 2)
        for result, args in ((good, "(2,)"), (bad, "(0,)")):
            report = json.loads(result.record or "")
            assert report == {"calls": [args], "options": {"a": [1]}, "odd": "\ud800"}
    # a changed file is read again; a broken one is no fault of the program
    path.write_text(RECORDER.replace("7", "70"), encoding="utf-8")
    assert value(pool.run(jobs[:1])[0]) == 35
    path.write_text("raise RuntimeError('broken recorder')", encoding="utf-8")
    result = pool.run(jobs[:1])[0]
    assert result.outcome == "infrastructure" and "broken recorder" in result.detail
    with pytest.raises(FileNotFoundError):
        pool.run([Job(code, "f", "1", recorder=str(tmp_path / "none.py"))])


# --------------------------------------------------------------------------- the host's side


def test_hash_seeds_are_kept_apart(pool: SandboxPool) -> None:
    code = "def f():\n    return hash('abc'), list({'a', 'b', 'c', 'd', 'e'})"
    jobs = [Job(code, "f", hash_seed=seed) for seed in (0, 1, 0, 1, 4294967295)]
    shown = [r.value for r in pool.run(jobs)]
    assert shown[0] == shown[2] and shown[1] == shown[3]
    assert len(set(shown)) == 3


def test_order_is_kept_and_workers_bound_it(pool: SandboxPool) -> None:
    jobs = [Job("def f(x):\n    return x", "f", str(n)) for n in range(30)]
    for workers in (1, 2, None):
        assert [value(r) for r in pool.run(jobs, workers=workers)] == list(range(30))
    assert pool.run([]) == []


def test_sixteen_threads() -> None:
    failures: list[object] = []

    def work(number: int) -> None:
        jobs = [Job("def f(x):\n    return x", "f", str(number * 100 + n)) for n in range(20)]
        for n, result in enumerate(run(jobs)):
            if result.value != str(number * 100 + n):
                failures.append(result)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_asyncio_host() -> None:
    async def main() -> list[list[ExecutionResult]]:
        return list(await asyncio.gather(*(run_async([ADD_ONE] * 3) for _ in range(3))))

    for results in asyncio.run(main()):
        assert [r.value for r in results] == ["42"] * 3


@linux
def test_a_killed_fork_server_is_replaced(pool: SandboxPool) -> None:
    pool.run([ADD_ONE] * 2)
    for pid in zygotes(pool):  # idle
        os.kill(pid, signal.SIGKILL)
    assert [r.value for r in pool.run([ADD_ONE] * 4)] == ["42"] * 4

    job = Job("import time\ndef f():\n    time.sleep(0.4)\n    return 1", "f", limits=AMPLE)
    results: list[ExecutionResult] = []
    thread = threading.Thread(target=lambda: results.extend(pool.run([job, job])))
    thread.start()
    time.sleep(0.2)
    victims = {p for z in zygotes(pool) for p in ({z} | descendants(z))}
    for pid in zygotes(pool):  # busy
        os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert [value(r) for r in results] == [1, 1]
    assert wait_until(lambda: all(gone(pid) for pid in victims))


@linux
def test_a_job_lost_twice_is_an_infrastructure_failure(pool: SandboxPool) -> None:
    job = Job("import time\ndef f():\n    time.sleep(20)", "f", limits=Limits(2, 30))
    results: list[ExecutionResult] = []
    thread = threading.Thread(target=lambda: results.extend(pool.run([job])))
    thread.start()
    while thread.is_alive():
        time.sleep(0.3)
        for pid in zygotes(pool):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert [r.outcome for r in results] == ["infrastructure"]
    assert value(pool.run([ADD_ONE])[0]) == 42


HOST = """
import os, sys, time
sys.path.insert(0, {root!r})
from rewards.sandbox import Job, Limits, run
job = Job('def f(x):\\n    return x + 1', 'f', '41')
"""


def host(code: str, **options: object) -> subprocess.Popen[str]:
    """Another host process, for what a test cannot do to its own."""
    text = HOST.format(root=str(ROOT)) + textwrap.dedent(code)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)


@linux
def test_a_killed_host_leaves_nothing_behind() -> None:
    code = """
    run([job])
    print('ready', flush=True)
    run([Job('import time\\ndef f():\\n    time.sleep(60)', 'f', limits=Limits(2, 90))] * 2)
    """
    with host(code) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        left = descendants(process.pid)
        assert left
        process.kill()
    assert wait_until(lambda: all(gone(pid) for pid in left))


def test_at_interpreter_exit_and_after_fork() -> None:
    code = """
    import atexit
    @atexit.register
    def last():
        print(run([job])[0].value, flush=True)
    print(run([job])[0].value, flush=True)
    pid = os.fork()
    print('child' if not pid else 'parent', run([job])[0].value, flush=True)
    if not pid:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print('parent', run([job])[0].value, flush=True)
    """
    with host(code) as process:
        out, _ = process.communicate(timeout=60)
    lines = out.splitlines()
    assert process.returncode == 0
    assert sorted(lines) == ["42"] * 3 + ["child 42"] + ["parent 42"] * 2
    assert lines[-1] == "42"


def test_import_is_light() -> None:
    code = """
    import rewards.sandbox
    heavy = {'subprocess', 'threading', 'selectors', 'socket', 'json', 'rewards.sandbox.pool'}
    print(sorted(heavy & set(sys.modules)))
    """
    text = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(code)
    command = [sys.executable, "-S", "-c", text]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[]\n"


def test_closed_pool_refuses() -> None:
    pool = SandboxPool(1)
    pool.close()
    with pytest.raises(SandboxError, match="closed"):
        pool.run([ADD_ONE])


@pytest.mark.parametrize(
    "job",
    [
        Job("", limits=Limits(cpu_seconds=0)),
        Job("", limits=Limits(wall_seconds=float("inf"))),
        Job("", limits=Limits(memory_mb=-1)),
        Job("", limits=Limits(output_bytes=-1)),
        Job("", hash_seed=-1),
        Job("#" * (9 << 20)),
    ],
)
def test_jobs_that_make_no_sense(job: Job) -> None:
    with pytest.raises(ValueError, match="must be"):
        run([job])


# --------------------------------------------------------------------------- guarantees


def test_guarantees_say_what_is_there(pool: SandboxPool) -> None:
    found = pool.guarantees()
    assert set(found.active) <= set(pool.layers)
    assert set(found.active) | {layer for layer, _ in found.missing} == set(pool.layers)
    assert {"rlimits", "process_group"} <= set(found.active)
    assert guarantees().active


def test_strict_refuses_where_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = guarantees()
    with SandboxPool(1, strict=True) as pool:
        if found.complete:
            assert value(pool.run([ADD_ONE])[0]) == 42
        else:
            with pytest.raises(SandboxError, match="strict"):
                pool.run([ADD_ONE])
    with pytest.raises(ValueError, match="unknown layers"):
        SandboxPool(1, layers=["moat"])


@linux
def test_strict_refuses_when_the_kernel_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that forbids user namespaces, imitated in the fork server's own copy of the file."""
    text = Path(isolation_module.__file__).read_text(encoding="utf-8")
    refusing = tmp_path / "isolation.py"
    refusing.write_text(
        text.replace(
            "    def unshare(self, flags: int) -> None:\n",
            "    def unshare(self, flags: int) -> None:\n"
            "        raise PermissionError(errno.EPERM, 'unshare: refused')\n",
        ),
        encoding="utf-8",
    )
    monkeypatch.setattr("rewards.sandbox.pool._ISOLATION", str(refusing))
    with SandboxPool(1) as pool:
        with pytest.warns(RuntimeWarning, match="less isolation"):
            assert value(pool.run([ADD_ONE])[0]) == 42
        found = pool.guarantees()
        assert {"user", "pid", "mount", "network", "ipc", "uts"} == {
            name for name, _ in found.missing
        }
        assert {"seccomp", "landlock"} <= set(found.active)
    with SandboxPool(1, strict=True) as pool, pytest.raises(SandboxError, match="refused"):
        pool.run([ADD_ONE])
