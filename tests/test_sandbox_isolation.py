"""What holds a guest in where it is allowed more, or where the machine offers less.

Families of processes and their budgets; an ordinary user instead of root; a container that refuses
namespaces, imitated by a user namespace in which the kernel itself refuses them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandboxed import ADD_ONE, LAYER_SETS, ROOT, call, descendants, linux, value

from rewards.sandbox import Job, Limits, SandboxPool
from rewards.sandbox.kernel import LAYERS

pytestmark = linux


@pytest.fixture(scope="module", params=LAYER_SETS)
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    with SandboxPool(1, layers=LAYER_SETS[request.param]) as made:
        yield made


# --------------------------------------------------------------------------- families

BURN = """
import os, signal, time
def burn(seconds):
    while time.process_time() < seconds: pass
def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid
"""
EVASIONS = {
    "waited for": "os.waitpid(child(lambda: burn(0.1)), 0)",
    "orphans": "os.waitpid(child(lambda: child(lambda: burn(0.1))), 0); time.sleep(0.12)",
    "forgotten by the kernel": (
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN); child(lambda: burn(0.1)); time.sleep(0.12)"
    ),
    "still running": "child(lambda: burn(60)); time.sleep(60)",
}


@pytest.mark.parametrize("name", EVASIONS)
def test_the_cpu_time_of_what_it_started_counts(pool: SandboxPool, name: str) -> None:
    code = f"{BURN}\ndef f():\n    while True:\n        {EVASIONS[name]}"
    limits = Limits(cpu_seconds=0.6, wall_seconds=20, processes=50)
    result = call(pool, code, limits=limits)
    assert result.outcome == "timed_out"
    assert "CPU" in result.detail
    assert 0.5 < result.cpu_seconds < 2
    assert result.wall_seconds < 10


def test_the_cpu_time_of_what_has_ended_is_told(pool: SandboxPool) -> None:
    code = f"{BURN}\ndef f():\n    os.waitpid(child(lambda: burn(0.2)), 0)\n    return 1"
    result = call(pool, code, limits=Limits(cpu_seconds=5, wall_seconds=20, processes=2))
    assert value(result) == 1
    assert 0.15 < result.cpu_seconds < 1


HOLD = """
import os, time
def hold(megabytes):
    data = b'x' * (megabytes << 20)
    time.sleep(60)
def f(parent, each):
    shared = b'x' * (parent << 20)
    pids = []
    for _ in range(4):
        pids.append(os.fork())
        if pids[-1] == 0:
            try:
                hold(each) if each else time.sleep(0.3) or sum(shared[::4096])
            finally:
                os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)
    return len(shared) >> 20
"""


def test_memory_is_counted_over_the_family(pool: SandboxPool) -> None:
    """Four times 60 MiB are too much of 128, though each is not."""
    limits = Limits(cpu_seconds=10, wall_seconds=20, processes=5, memory_mb=128)
    result = call(pool, HOLD, "0, 60", limits)
    assert (result.outcome, result.value) == ("memory_exceeded", None)
    assert "128 MiB in all its processes" in result.detail
    assert result.wall_seconds < 15


def test_shared_memory_is_counted_once(pool: SandboxPool) -> None:
    """Four children that look at 80 MiB of their parent's do not make it 400."""
    limits = Limits(cpu_seconds=10, wall_seconds=20, processes=5, memory_mb=128)
    assert value(call(pool, HOLD, "80, 0", limits)) == 80


def test_what_has_ended_leaves_room_for_others(pool: SandboxPool) -> None:
    """Orphans are reaped while the guest runs: three at a time, not three in all."""
    code = f"""{BURN}
def f():
    for _ in range(30):
        os.waitpid(child(lambda: child(lambda: None)), 0)
        time.sleep(0.03)
    return 'done'
"""
    limits = Limits(cpu_seconds=10, wall_seconds=60, processes=3)
    assert value(call(pool, code, limits=limits)) == "done"


def test_more_processes_than_allowed(pool: SandboxPool) -> None:
    code = f"{BURN}\ndef f():\n    for _ in range(9): child(lambda: time.sleep(60))\n    time.sleep(60)"
    result = call(pool, code, limits=Limits(cpu_seconds=5, wall_seconds=20, processes=4))
    assert result.outcome in ("killed", "raised")  # or refused by the kernel
    assert result.wall_seconds < 10
    assert len(descendants(os.getpid())) < 20


# --------------------------------------------------------------------------- other machines

CHECKS = r"""
import json, os, sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
from rewards.sandbox import Job, Limits, SandboxPool
SHORT = Limits(cpu_seconds=0.3, wall_seconds=3)
ATTACKS = {
    "fork": "os.fork() or os._exit(0)",
    "fork bomb": "exec('while True: os.fork()')",
    "thread": "threading.Thread(target=time.sleep, args=(9,)).start()",
    "kill the fork server": "os.kill(os.getppid(), 9)",
    "kill everybody": "os.kill(-1, 9) or time.sleep(9)",
    "kill the host": "os.kill(HOST, 15)",
    "read the password file": "open('/etc/passwd').read()",
    "read the host's environment": "open(f'/proc/{HOST}/environ').read()",
    "write elsewhere": "open(OUTSIDE + '/breach', 'w')",
    "remove elsewhere": "os.remove(OUTSIDE + '/kept')",
    "connect": "socket.create_connection(('127.0.0.1', PORT), 1)",
    "trace": "LIBC.ptrace(16, os.getppid(), 0, 0) == 0 or refused()",
    "unshare": "LIBC.unshare(0x10000000) == 0 or refused()",
    "mount": "LIBC.mount(b'x', b'/tmp', b'tmpfs', 0, None) == 0 or refused()",
    "more memory": "bytearray(1 << 30)",
}
import socket, tempfile
server = socket.create_server(("127.0.0.1", 0))
outside = tempfile.mkdtemp()
open(outside + "/kept", "w").close()
PRELUDE = f'''
import ctypes, os, socket, threading, time
LIBC = ctypes.CDLL(None)
HOST, PORT, OUTSIDE = {os.getpid()}, {server.getsockname()[1]}, {outside!r}
def refused(): raise PermissionError
def f():
    BODY
    return 'breached'
'''
found = {"user": os.geteuid(), "attacks": {}}
with SandboxPool(1, strict=len(sys.argv) > 2 and sys.argv[2] == "strict") as pool:
    layers = pool.guarantees()
    found["active"], found["missing"] = layers.active, dict(layers.missing)
    good = Job("def f(x):\n    return x + 1", "f", "41")
    loop = Job("def f():\n    while True: pass", "f", limits=SHORT)
    sleep = Job("import time\ndef f():\n    time.sleep(60)", "f", limits=SHORT)
    found["plain"] = [(r.outcome, r.value) for r in pool.run([good, loop, sleep, good])]
    found["group"] = [r.value for r in pool.run_group([good] * 3)]
    for name, body in ATTACKS.items():
        job = Job(PRELUDE.replace("BODY", body), "f", limits=Limits(cpu_seconds=2, wall_seconds=5))
        result, after = pool.run([job, good])
        found["attacks"][name] = [result.outcome, result.value, after.value]
    folder = Job("import os\ndef f():\n    before = os.listdir('.')\n    open('a', 'w').write('x')\n"
                 "    return before", "f")
    found["folder"] = [r.value for r in pool.run([folder] * 2)]
found["left"] = sorted(os.listdir(outside))
found["temporary"] = [n for n in os.listdir(tempfile.gettempdir()) if n.startswith("sandbox-")]
print(json.dumps(found))
"""


def check(found: dict[str, object], *, missing: set[str]) -> None:
    """The whole of `CHECKS`: right answers, and nothing breached."""
    assert set(found["missing"]) == missing  # type: ignore[call-overload]
    assert found["plain"] == [
        ["returned", "42"], ["timed_out", None], ["timed_out", None], ["returned", "42"],
    ]  # fmt: skip
    assert found["group"] == ["42"] * 3
    assert found["folder"] == ["[]", "[]"]
    assert found["left"] == ["kept"]
    assert found["temporary"] == []
    attacks = found["attacks"]
    assert isinstance(attacks, dict) and len(attacks) == 15
    for name, (outcome, given, after) in attacks.items():
        assert given is None, (name, outcome, given)
        assert outcome in ("raised", "killed", "timed_out", "memory_exceeded"), (name, outcome)
        assert after == "42", name


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """The package in a folder that everybody may read, and an empty temporary folder in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        shutil.copytree(ROOT / "rewards", Path(folder, "rewards"))
        Path(folder, "checks.py").write_text(CHECKS, encoding="utf-8")
        os.mkdir(Path(folder, "tmp"))
        os.chmod(Path(folder, "tmp"), 0o1777)
        yield Path(folder)


def run_checks(
    elsewhere: Path, python: str, *prefix: str, mode: str = "", **options: int
) -> dict[str, object]:
    done = subprocess.run(
        [*prefix, python, str(elsewhere / "checks.py"), str(elsewhere), mode],
        capture_output=True,
        text=True,
        timeout=120,
        cwd="/",
        env={"TMPDIR": str(elsewhere / "tmp"), "PATH": os.environ["PATH"]},
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


NOBODY = 65534


def python_of_everybody() -> str | None:
    """An interpreter that an ordinary user may run: this one may live in root's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        test = [python, "-c", "import sys, ctypes; sys.exit(sys.version_info < (3, 10))"]
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.geteuid() == 0 else {}
        try:
            done = subprocess.run(test, stderr=subprocess.DEVNULL, cwd="/", **options)  # type: ignore[call-overload]
        except OSError:
            continue
        if done.returncode == 0:
            return python
    return None


def test_as_an_ordinary_user(elsewhere: Path) -> None:
    python = python_of_everybody()
    if python is None:
        pytest.skip("no interpreter that an ordinary user may run on this machine")
    options: dict[str, object] = {}
    if os.geteuid() == 0:
        options = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    found = run_checks(elsewhere, python, **options)  # type: ignore[arg-type]
    assert found["user"] != 0
    active = found["active"]
    assert isinstance(active, list) and {"rlimits", "privileges", "seccomp"} <= set(active)
    check(found, missing=set(LAYERS) - set(active))


# A user namespace of one's own, in which the kernel refuses to make any more of any kind.
REFUSE = r"""
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
user, group = os.geteuid(), os.getegid()
if libc.unshare(0x10000000):
    sys.exit(77)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    with open(f"/proc/self/{name}", "w") as file:
        file.write(text)
for kind in ("user", "pid", "mnt", "net", "ipc", "uts"):
    with open(f"/proc/sys/user/max_{kind}_namespaces", "w") as file:
        file.write("0")
os.execv(sys.argv[1], sys.argv[1:])
"""
NAMESPACES = {"user", "pid", "mount", "network", "ipc", "uts"}


def can_refuse() -> bool:
    done = subprocess.run([sys.executable, "-c", REFUSE, "/bin/true"], stderr=subprocess.DEVNULL)
    return done.returncode == 0


def test_where_the_kernel_refuses_namespaces(elsewhere: Path) -> None:
    if not can_refuse():
        pytest.skip("user namespaces cannot be limited on this machine")
    refuse = (sys.executable, "-c", REFUSE)
    found = run_checks(elsewhere, sys.executable, *refuse)
    check(found, missing=NAMESPACES)
    assert {"seccomp", "landlock", "privileges"} <= set(found["active"])  # type: ignore[call-overload]
    reasons = found["missing"]
    assert isinstance(reasons, dict)
    assert all("unshare" in why for why in reasons.values())
    with pytest.raises(AssertionError, match="strict: these layers are not to be had here"):
        run_checks(elsewhere, sys.executable, *refuse, mode="strict")


def test_without_ctypes(elsewhere: Path) -> None:
    """An interpreter built without it: limits and process groups are left, and it says so."""
    kernel = elsewhere / "rewards" / "sandbox" / "kernel.py"
    text = kernel.read_text(encoding="utf-8")
    kernel.write_text(
        text.replace("        import ctypes\n", "        raise ImportError('none')\n")
    )
    code = """
    import sys, warnings
    sys.path.insert(0, sys.argv[1])
    from rewards.sandbox import Job, SandboxPool
    with warnings.catch_warnings(record=True) as caught, SandboxPool(1) as pool:
        warnings.simplefilter("always")
        job = Job('def f(x):\\n    return x + 1', 'f', '41')
        print([r.value for r in pool.run([job] * 3)], len(caught), pool.guarantees().active)
    """
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(line[4:] for line in code.splitlines()), str(elsewhere)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "['42', '42', '42'] 1 ('rlimits', 'process_group')\n", done.stderr


def test_a_lower_hard_limit_of_the_host_is_kept(elsewhere: Path) -> None:
    """Where an administrator has set one, a job gets what is left, not an error."""
    code = (
        "import resource, sys; sys.path.insert(0, sys.argv[1])\n"
        "from rewards.sandbox import Job, Limits, SandboxPool\n"
        "for kind, most in ((resource.RLIMIT_AS, 1 << 30), (resource.RLIMIT_FSIZE, 1 << 20),\n"
        "                   (resource.RLIMIT_CPU, 40)):\n"
        "    resource.setrlimit(kind, (most, most))\n"
        "job = Job('def f():\\n    return len(bytes(1 << 20))', 'f',\n"
        "          limits=Limits(cpu_seconds=90, memory_mb=4096, file_bytes=1 << 30))\n"
        "with SandboxPool(1) as pool:\n"
        "    print(pool.run([job])[0].value)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(elsewhere)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"{1 << 20}\n", done.stderr


def test_an_overloaded_machine_does_not_count_the_setup() -> None:
    """A guest that is slow to start for no fault of its own keeps its whole budget."""
    step = "                for function, arguments in steps:\n"
    slow = f"                time.sleep(1.5)\n{step}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "zygote.py")
        text = (ROOT / "rewards" / "sandbox" / "zygote.py").read_text(encoding="utf-8")
        assert text.count(step) == 1
        path.write_text(text.replace(step, slow))
        from rewards.sandbox import server

        with pytest.MonkeyPatch.context() as patch, SandboxPool(1) as pool:
            patch.setitem(server.MODULES, "rewards.sandbox.zygote", str(path))
            begun = time.monotonic()
            limits = Limits(cpu_seconds=0.5, wall_seconds=0.5)
            result = pool.run([Job(ADD_ONE.code, "f", "41", limits=limits)])[0]
        assert value(result) == 42
        assert time.monotonic() - begun > 1.5
