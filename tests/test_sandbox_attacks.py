"""The sandbox, attacked for real: nothing here is simulated.

Every attack runs twice: with all layers, and as in a container that refuses namespaces. After each
one the same pool must still give the right answer. Tests named `test_ex_NN` answer the public report
with that id.
"""

from __future__ import annotations

import json
import os
import re
import resource
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxed import (
    ADD_ONE,
    AMPLE,
    LAYER_SETS,
    SHARED,
    SHORT,
    call,
    command_of,
    descendants,
    gone,
    linux,
    script,
    servers,
    value,
)

from rewards import values
from rewards.sandbox import (
    Job,
    Limits,
    SandboxError,
    SandboxPool,
)


@pytest.fixture(scope="module", params=LAYER_SETS)
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    with SandboxPool(2, layers=LAYER_SETS[request.param]) as made:
        yield made


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
    assert not any("987" in command_of(pid) for pid in descendants(os.getpid()))


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
    assert not any("986" in command_of(pid) for pid in descendants(os.getpid()))


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


@pytest.mark.parametrize("text", ["{3, 1}", "b'hi'", "2 ** 80", "(1, [2])", "[1e400, -0.0]"])
def test_ex_31_types_survive(pool: SandboxPool, text: str) -> None:
    result = call(pool, f"def f():\n    return {text}")
    assert values.equal(value(result), eval(text))
    assert result.value == values.canonical(eval(text))


def test_ex_32_keys_that_look_alike_survive(pool: SandboxPool) -> None:
    result = call(pool, "def f():\n    return {2: 'a', '2': 'b'}")
    assert value(result) == {2: "a", "2": "b"}


REPORTS = SHARED / "notes" / "public-reports.jsonl"


@pytest.mark.skipif(
    not REPORTS.exists(), reason="../shared/notes/public-reports.jsonl is not there"
)
def test_every_public_report_has_a_test() -> None:
    reports = [json.loads(line) for line in REPORTS.read_text(encoding="utf-8").splitlines()]
    ours = {report["id"] for report in reports if report["component"] == "executor/sandbox"}
    assert len(ours) > 20
    tested = {"EX-" + match for name in globals() for match in re.findall(r"^test_ex_(\d+)_", name)}
    assert ours - tested == set()


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
    "rename in the library": "os.rename(os.__file__, os.__file__ + 'x'); return 'breached'",
    "rename over the library": "open('x', 'w'); os.rename('x', os.__file__); return 'breached'",
    "link to the password file": (
        "os.symlink('/etc/passwd', 'l'); return open('l').read() and 'breached'"
    ),
    "hard link out of the folder": "os.link(os.__file__, 'l'); return 'breached'",
    "make a folder outside": "os.mkdir('/var/tmp/breach'); return 'breached'",
    "memory of the fork server": (
        "return open(f'/proc/{os.getppid() or 1}/mem', 'rb') and 'breached'"
    ),
    "memory of another process": "return open(f'/proc/{HOST}/maps').read() and 'breached'",
    "unix socket": "socket.socket(socket.AF_UNIX).bind('s'); return 'breached'",
    "udp": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM); return 'breached'",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW); return 'breached'",
    "gain by exec": "return LIBC.prctl(38, 0, 0, 0, 0) == 0 and 'breached'",
    "traced by anybody": "return LIBC.prctl(4, 1, 0, 0, 0) == 0 and 'breached'",
    "new filter": "return LIBC.syscall(317, 1, 0, 0) == 0 and 'breached'",
    "vfork": "return LIBC.vfork() >= 0 and 'breached'",
    "raw clone": "return LIBC.syscall(56, 17, 0, 0, 0, 0) >= 0 and 'breached'",
    "raw clone3": "return LIBC.syscall(435, 0, 88) >= 0 and 'breached'",
    "io_uring": "return LIBC.syscall(425, 8, ctypes.create_string_buffer(120)) >= 0 and 'breached'",
    "keys of the kernel": "return LIBC.syscall(250, 0, -3, 0) >= 0 and 'breached'",
    "pivot_root": "return LIBC.syscall(155, b'.', b'.') == 0 and 'breached'",
    "higher priority": "os.nice(-5); return 'breached'",
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

    active = set(pool.guarantees().active)
    if not ({"seccomp", "landlock"} <= active or {"pid", "mount", "network"} <= active):
        pytest.skip("this kernel offers too little isolation to try attacks on a live machine")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as hidden:
        hidden.bind("\0sandbox-test")
        hidden.listen()
        port = server.getsockname()[1]
        code = ATTACK_PRELUDE.format(host=os.getpid(), port=port, body=ATTACKS[name])
        pool.run([ADD_ONE] * 4)
        before = servers(pool)
        result = call(pool, code, limits=Limits(cpu_seconds=2, wall_seconds=5))
    assert result.outcome in ("returned", "raised", "killed"), result
    assert "breached" not in (result.value or ""), result
    assert servers(pool) == before, "a fork server died of it"
    assert not any("985" in command_of(pid) for pid in descendants(os.getpid()))


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


@linux
def test_what_a_guest_starts_cannot_speak_for_it(pool: SandboxPool) -> None:
    """Neither a forked copy nor another program has the descriptor that results go through."""
    code = """
    import os, subprocess
    def open_ones():
        found = []
        for fd in range(3, 1024):
            try:
                os.fstat(fd)
            except OSError:
                continue
            found.append(fd)
        return found
    def f():
        own = open_ones()
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, repr(sorted(set(open_ones()) - {reader, writer})).encode())
            os._exit(0)
        os.wait()
        script = "for n in 50 51 52 53 54 55; do (echo x >&$n) 2>/dev/null && echo $n; done; echo end"
        shell = subprocess.run(["/bin/sh", "-c", script], close_fds=False, capture_output=True)
        return own, os.read(reader, 999).decode(), shell.stdout.decode()
    """
    result = call(pool, code, limits=Limits(processes=3))
    assert value(result) == ([50], "[]", "end\n")


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


def test_sleep_ends_with_the_wall_budget(pool: SandboxPool) -> None:
    result = call(pool, "import time\ndef f():\n    time.sleep(60)", limits=SHORT)
    assert (result.outcome, result.value) == ("timed_out", None)
    assert "wall" in result.detail
    assert 0.9 < result.wall_seconds < 8 and result.cpu_seconds < 0.2


def test_equality_that_lies_has_nobody_to_lie_to(pool: SandboxPool) -> None:
    """The guest compares nothing: what crosses is text, and an instance of a subclass has none."""
    code = """
    class Yes(int):
        def __eq__(self, other): return True
        __hash__ = int.__hash__
    class Always:
        def __eq__(self, other): return True
    def f(kind):
        return Yes(7) if kind == 'int' else [Always()]
    """
    for kind in ("'int'", "'any'"):
        result = call(pool, code, kind)
        assert (result.outcome, result.value) == ("returned", None)


def test_the_pickle_protocol_is_not_spoken(pool: SandboxPool) -> None:
    code = """
    import copyreg, pickle
    class R:
        def __reduce_ex__(self, protocol): raise SystemExit
        __reduce__ = __getstate__ = __getnewargs__ = __reduce_ex__
    pickle.dumps = pickle.Pickler = None
    copyreg.pickle(list, lambda x: 1 / 0)
    def f():
        return [1, [2]] if len(__name__) > 3 else R()
    """
    assert value(call(pool, code)) == [1, [2]]


IMPORT_HOOK = """
import sys, importlib.abc
class Hook(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        raise SystemExit('hooked ' + name)
sys.meta_path.insert(0, Hook())
sys.path_hooks.insert(0, lambda path: 1 / 0)
sys.path_importer_cache.clear()
class Modules(dict):
    def __getitem__(self, name): raise KeyError(name)
import builtins
builtins.__import__ = lambda *a, **k: sys.exit('hooked')
def f(x):
    return x
"""


def test_an_import_hook_changes_no_verdict(pool: SandboxPool) -> None:
    jobs = [Job(IMPORT_HOOK, "f", "{'a': 1.5}")] * 2
    for result in [*pool.run(jobs), *pool.run_group(jobs)]:
        assert value(result) == {"a": 1.5}
    assert (
        value(call(pool, "import colorsys\ndef f():\n    return colorsys.__name__")) == "colorsys"
    )


@pytest.mark.parametrize(
    "body", ["os._exit(0)", "os.write(1, b'late')", "\n            while True: pass"]
)
def test_finalizers_and_exit_handlers_come_too_late(pool: SandboxPool, body: str) -> None:
    """The value is told before the program's last objects go, and they get no time after that."""
    code = f"""
    import atexit, os
    class D:
        def __del__(self): {body}
    kept = D()
    atexit.register(kept.__del__)
    def f():
        return 1
    """
    result = call(pool, code)
    assert (value(result), result.stdout) == (1, "")
    assert result.wall_seconds < 10


@pytest.mark.parametrize(
    "printed", ["'\\0' * 3", "'a\\ud800b'", "'\\x1b[2J\\r'", "'\\u2028\\U0001f600'"]
)
def test_odd_characters_in_output(pool: SandboxPool, printed: str) -> None:
    """On stdout as in an ordinary interpreter; on stderr and in the value nothing is refused."""
    text = eval(printed)
    code = f"import sys\ndef f():\n    print({printed}, file=sys.stderr)\n    return {printed}"
    result = call(pool, code)
    assert value(result) == text
    assert result.stderr == text.encode("utf-8", "backslashreplace").decode() + "\n"
    result = call(pool, f"def f():\n    print({printed})")
    if "\ud800" in text:
        assert (result.outcome, result.error_type) == ("raised", "UnicodeEncodeError")
    else:
        assert result.stdout == text + "\n"


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


_SEARCH = """
import gc, sys
MARK = 'tell' + 'tale'
def reachable():
    found, todo = set(), [sys._getframe(), sys.modules, *gc.get_objects()]
    gc.unfreeze()
    todo += gc.get_objects()
    del sys.modules['gc']
    import gc as again
    again.unfreeze()
    todo += again.get_objects()
    import _imp, importlib.machinery as machinery
    fresh = _imp.create_builtin(machinery.ModuleSpec('gc', machinery.BuiltinImporter))
    _imp.exec_builtin(fresh)
    fresh.unfreeze()
    todo += fresh.get_objects()
    while todo:
        thing = todo.pop()
        if id(thing) not in found:
            found.add(id(thing))
            yield thing
            frame = type(thing) is type(sys._getframe())
            todo += gc.get_referents(thing)
            if frame:
                todo += [thing.f_back, thing.f_locals, thing.f_globals]
            elif type(thing).__name__ in ('method', 'function'):
                todo += [getattr(thing, '__self__', None), getattr(thing, '__globals__', None)]
def f(x):
    seen = 0
    for thing in reachable():
        seen += 1
        if type(thing) in (str, bytes, bytearray):
            text = thing if type(thing) is str else thing.decode('latin-1')
            for place in range(len(text)):
                place = text.find(MARK, place)
                if place < 0:
                    break
                if text[place + 8:place + 9].isdigit():
                    return [seen, text[place:place + 20]]
    return [seen, None]
"""


def test_what_was_sent_together_with_a_job_is_out_of_its_reach(pool: SandboxPool) -> None:
    """Programs, arguments, inputs and results of the jobs before it and after it."""
    with SandboxPool(1, layers=pool.layers) as one:
        jobs = []
        for number in range(10, 40):
            if number % 3:
                code = f"def f(x):\n    print('telltale{number}')\n    return x"
                jobs.append(Job(code, "f", f"'telltale{number}'", f"telltale{number}"))
            else:
                jobs.append(Job(_SEARCH, "f", "0", limits=AMPLE))
        results = one.run(jobs)
    for job, result in zip(jobs, results, strict=True):
        if job.code == _SEARCH:
            seen, found = value(result)
            assert seen > 5_000  # it really looks around
            assert found is None
        else:
            assert result.outcome == "returned"


def test_jobs_that_hold_what_is_expected_run_apart(pool: SandboxPool) -> None:
    code = "import os\ndef f():\n    return os.getppid(), os.stat('/').st_ino, os.stat('.').st_ino"
    with SandboxPool(1, layers=pool.layers) as one:
        one.run([Job(code, "f"), Job(code, "f", apart=True)] * 3)
        assert sorted(server.kind.apart for server in one._servers) == [False, True]


_RUNS_ON = """
import sys
def f():
    frame = sys._getframe()
    while frame:
        if frame.f_code.co_name == 'become_child':
            zygote = frame.f_globals
        if frame.f_code.co_name == 'execute':
            watch, pipes = frame.f_locals['watch'], frame.f_locals['pipes']
        frame = frame.f_back
    type(watch).follow = lambda self, pid: None
    type(pipes).close_readers = lambda self: None
    leave = zygote['_leave']
    def see(frame, event, arg):
        owner = getattr(arg, '__self__', None)
        if event == 'c_call' and type(owner) is list and owner:
            if frame.f_code.co_name == 'serve_one':
                sys.setprofile(None)
                sys.stdout.write('SEEN ' + repr(owner))
                sys.stdout.flush()
                leave(0)
    zygote['_leave'] = lambda code: sys.setprofile(see)
    return 1
"""


def test_a_child_that_runs_on_as_its_fork_server_finds_no_other_jobs(pool: SandboxPool) -> None:
    """What was about to be called lay on a stack, and a profiler hears on what it is called."""
    with SandboxPool(1, layers=pool.layers) as one:
        results = one.run([ADD_ONE, Job(_RUNS_ON, "f", limits=AMPLE), ADD_ONE] * 8)
    for mine, result in enumerate(results):
        if mine % 3 == 1:
            assert "SEEN" not in result.stdout
        else:
            assert result.value == "42"


def nested_finally(depth: int) -> str:
    """A function for which the compiler writes code by the gigabyte."""
    lines = ["def f(x):"]
    for level in range(depth):
        lines += [
            f"{' ' * (level + 1)}try:",
            f"{' ' * (level + 2)}return 1",
            f"{' ' * (level + 1)}finally:",
        ]
    return "\n".join([*lines, f"{' ' * (depth + 1)}return 1"])


@linux
@pytest.mark.parametrize("depth", [4, 14])
def test_the_compiler_runs_within_the_budgets(pool: SandboxPool, depth: int) -> None:
    """It once took 7 GB and 20 s of the fork server, whatever the job might use."""
    bomb = Job(nested_finally(depth), "f", "1", limits=Limits(cpu_seconds=0.5, memory_mb=64))
    with SandboxPool(1, layers=pool.layers) as one:
        results = one.run([ADD_ONE] * 7 + [bomb] + [ADD_ONE] * 8)
        peaks = []
        for first in servers(one):
            for pid in (first, *descendants(first)):
                text = Path(f"/proc/{pid}/status").read_text()
                peaks += [int(line.split()[1]) for line in text.splitlines() if "VmHWM" in line]
    assert max(peaks) < 150_000  # KiB
    assert results[7].outcome in ("memory_exceeded", "timed_out", "returned")
    assert [r.value for n, r in enumerate(results) if n != 7] == ["42"] * 15


@linux
def test_what_others_print_is_not_taken_off_a_budget_of_memory(pool: SandboxPool) -> None:
    flood = Job("def f():\n    print('x' * (15 << 20))", "f", limits=Limits(output_bytes=16 << 20))
    code = "def f():\n    return len(bytearray(24 << 20))"
    taking = Job(code, "f", limits=Limits(memory_mb=32))
    with SandboxPool(1, layers=pool.layers) as one:
        results = one.run([flood, *[taking] * 15])
    assert [r.value for r in results[1:]] == [str(24 << 20)] * 15


def test_a_bundle_with_a_new_recorder_costs_no_fork_server(
    pool: SandboxPool, tmp_path: Path
) -> None:
    path = tmp_path / "recorder.py"
    path.write_text(
        "class Recorder:\n"
        "    def __init__(self, source, options): self.source = source\n"
        "    def compile(self, filename): return compile(self.source, filename, 'exec')\n"
        "    def namespace(self): return {}\n"
        "    def call(self, function, args, kwargs): return function(*args, **kwargs)\n"
        "    def report(self): return {}\n"
    )
    jobs = [Job("def f(x):\n    return x", "f", str(n), recorder=str(path)) for n in range(32)]
    with SandboxPool(1, layers=pool.layers) as one:
        one.run([ADD_ONE])
        before = servers(one)
        results = one.run(jobs)
        assert servers(one) == before
    assert [r.value for r in results] == [job.args for job in jobs]


def test_a_fork_server_that_was_sent_much_is_replaced(
    pool: SandboxPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From Python 3.12 on it never forgets a name again."""
    monkeypatch.setattr("rewards.sandbox.pool._RETIRE_CHARS", 3 * len(ADD_ONE.code))
    with SandboxPool(1, layers=pool.layers) as one:
        seen = set()
        for _ in range(12):
            assert one.run([ADD_ONE])[0].value == "42"
            seen |= set(servers(one))
    assert 2 <= len(seen) <= 4
