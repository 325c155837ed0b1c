"""Jobs on another machine: `RemotePool` against a small server that speaks SandboxFusion's HTTP API.

The server is in this file and really runs what it is sent, in an interpreter of its own and in a folder
that is removed afterwards; it can be told to fail in all the ways that servers do.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rewards import values
from rewards.sandbox import (
    ExecutionResult,
    Job,
    Limits,
    RemotePool,
    SandboxError,
    SandboxPool,
)

ADD_ONE = Job("def f(x):\n    return x + 1", "f", "41")
KEPT_BYTES = 1 << 20
"""SandboxFusion keeps this much of a program's output and drops the rest."""

Answer = tuple[int, bytes]
Fault = Callable[[dict[str, Any]], "Answer | None"]


def run_code(request: dict[str, Any]) -> dict[str, Any]:
    """What SandboxFusion does with a request for Python, without isolation of its own."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "program.py")
        path.write_text(request["code"], encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, str(path)],
                input=(request["stdin"] or "").encode(),
                capture_output=True,
                timeout=request["run_timeout"],
                cwd=folder,
                preexec_fn=limit_to(request["memory_limit_MB"]),
            )
        except subprocess.TimeoutExpired:
            result = {
                "status": "TimeLimitExceeded",
                "return_code": None,
                "stdout": "",
                "stderr": "",
            }
        else:
            result = {
                "status": "Finished",
                "return_code": done.returncode,
                "stdout": done.stdout[:KEPT_BYTES].decode(),
                "stderr": done.stderr[:KEPT_BYTES].decode(),
            }
    result["execution_time"] = time.monotonic() - begun
    return answer("Success" if result["return_code"] == 0 else "Failed", run_result=result)


def limit_to(megabytes: int) -> Callable[[], None]:
    """The way SandboxFusion keeps memory where it has no isolation of its own."""

    def apply() -> None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, hard))

    return apply


def answer(status: str, **fields: Any) -> dict[str, Any]:
    empty = {"message": "", "compile_result": None, "run_result": None}
    return {"status": status, **empty, "executor_pod_name": None, "files": {}, **fields}


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.faults: list[Fault] = []
        """Taken from the front, one for each request; None of it: the request is answered well."""
        self.most = self.busy = 0
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.requests.append(request)
            server.headers.append(dict(self.headers))
            fault = server.faults.pop(0) if server.faults else None
            server.busy += 1
            server.most = max(server.most, server.busy)
        try:
            found = (404, b"no such page") if self.path != "/run_code" else None
            if found is None and fault is not None:
                found = fault(request)
            status, body = found or (200, json.dumps(run_code(request)).encode())
        finally:
            with server.lock:
                server.busy -= 1
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(BrokenPipeError):  # the caller has lost patience
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("rewards.sandbox.remote._PAUSE_SECONDS", 0.0)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def remote(server: Server) -> Iterator[RemotePool]:
    with RemotePool(server.url, size=2) as pool:
        yield pool


def says(status: int, body: Any) -> Fault:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda request: (status, data)


def value(result: ExecutionResult) -> object:
    assert result.outcome == "returned", result
    assert result.value is not None
    return values.parse(result.value)


# --------------------------------------------------------------------------- the same as here

SHORT = Limits(cpu_seconds=0.3, wall_seconds=2.0)
SAME = {
    "value": ADD_ONE,
    "several arguments": Job(
        "def f(a, *, b):\n    print('hi')\n    return {a: b}", "f", "(1, 2), b='x'"
    ),
    "no text": Job("class A: pass\ndef f():\n    return A()", "f"),
    "raises": Job("def f():\n    print('out')\n    return {}[1, 'a']", "f"),
    "script": Job("import sys\nprint(sum(map(int, sys.stdin)))", stdin="1\n2\n"),
    "bytes": Job("import os\nos.write(1, b'\\xff\\x00')\nos.write(2, b'e\\xe9')"),
    "surrogates": Job("def f(x):\n    return x + chr(0xd800)", "f", "'\\ud801\\0'"),
    "busy": Job("def f():\n    while True: pass", "f", limits=SHORT),
    "asleep": Job("import time\ndef f():\n    time.sleep(60)", "f", limits=SHORT),
    "too much memory": Job("def f():\n    return bytes(10**10)", "f"),
    "too much output": Job("print('x' * 100_000)"),
    "leaves": Job("import os\ndef f():\n    os._exit(0)", "f"),
    "exits": Job("import sys\ndef f():\n    sys.exit(3)", "f"),
    "crashes": Job("import ctypes\ndef f():\n    ctypes.string_at(0)", "f"),
    "forges": Job("import os\ndef f():\n    os.write(50, b'x' * 99)\n    return 1", "f"),
    "seed": Job("def f():\n    return hash('abc')", "f", hash_seed=7),
    "other seed": Job("def f():\n    return hash('abc')", "f", hash_seed=4294967295),
    "syntax": Job("def f(:", "f"),
}
TIMES = {"cpu_seconds": 0.0, "wall_seconds": 0.0}


def test_every_outcome_is_the_same_there_and_here(remote: RemotePool) -> None:
    jobs = list(SAME.values())
    with SandboxPool(2) as local:
        pairs = zip(SAME, remote.run(jobs), local.run(jobs), strict=True)
    outcomes = set()
    for name, there, here in pairs:
        assert replace(there, **TIMES) == replace(here, **TIMES), name
        assert there.wall_seconds > 0
        outcomes.add(there.outcome)
    assert len(outcomes) == 6


def test_what_is_sent_is_the_api_and_holds_no_program_text(
    remote: RemotePool, server: Server
) -> None:
    remote.run([ADD_ONE])
    (request,) = server.requests
    assert set(request) == {
        *("code", "language", "compile_timeout", "run_timeout", "stdin", "memory_limit_MB")
    }
    assert request["language"] == "python"
    assert request["run_timeout"] > ADD_ONE.limits.wall_seconds
    assert request["memory_limit_MB"] > ADD_ONE.limits.memory_mb
    assert ADD_ONE.code not in request["code"]


def test_groups_go_in_one_request(remote: RemotePool, server: Server) -> None:
    code = """
def f(x):
    print('call', x)
    if x == 1:
        return 1 / 0
    if x == 3:
        while True: pass
    return -x
"""
    jobs = [Job(code, "f", str(n), limits=SHORT) for n in range(6)]
    results = remote.run_group(jobs)
    outcomes = [result.outcome for result in results]
    assert outcomes == ["returned", "raised", "returned", "timed_out", "returned", "returned"]
    # what the loop had printed was in a buffer when it was killed
    printed = [result.stdout for result in results]
    assert printed == ["" if n == 3 else f"call {n}\n" for n in range(6)]
    assert [value(results[n]) for n in (0, 2, 4, 5)] == [0, -2, -4, -5]
    assert len(server.requests) == 3  # all; the loop alone and the rest, both at once
    assert remote.run_groups([[], [ADD_ONE]])[1][0].value == "42"


RECORDER = """
class Recorder:
    def __init__(self, source, options): self.source, self.options = source, options
    def compile(self, filename): return compile(self.source, filename, "exec")
    def namespace(self): return {"extra": 7}
    def call(self, function, args, kwargs): return function(*args, **kwargs)
    def report(self): return {"options": self.options, "filler": "x" * 100_000}
"""


def test_recorders_travel(remote: RemotePool, tmp_path: Path) -> None:
    path = tmp_path / "recorder.py"
    path.write_text(RECORDER, encoding="utf-8")
    code = "def f(x):\n    return extra * x"
    jobs = [Job(code, "f", str(n), recorder=str(path), options=f"[{n}]") for n in range(5)]
    for results in (remote.run(jobs), remote.run_group(jobs)):
        assert [value(result) for result in results] == [0, 7, 14, 21, 28]
        assert [json.loads(result.record or "")["options"] for result in results] == [
            [n] for n in range(5)
        ]


def test_jobs_are_spread_and_bounded(server: Server) -> None:
    jobs = [Job("def f(x):\n    return x", "f", str(n), hash_seed=n % 2) for n in range(12)]
    with RemotePool(server.url, size=3, jobs_per_request=3) as pool:
        assert [value(result) for result in pool.run(jobs)] == list(range(12))
        assert (len(server.requests), server.most) == (4, 3)
        threads = [threading.Thread(target=pool.run, args=(jobs[:2],)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert server.most == 3  # over all callers of the pool
        server.most = 0
        pool.run(jobs[:2], workers=1)
        assert server.most == 1
        assert pool.run([]) == []


# --------------------------------------------------------------------------- the host decides


def test_a_reply_to_another_request_is_none(server: Server) -> None:
    """An answer kept from an earlier request, or made up, is not taken for this one's."""
    with RemotePool(server.url, size=1) as pool:
        kept: list[dict[str, Any]] = []

        def keep(request: dict[str, Any]) -> None:
            kept.append(run_code(request))

        server.faults = [keep]
        assert value(pool.run([ADD_ONE])[0]) == 42
        server.faults = [says(200, kept[0])] * 2
        result = pool.run([ADD_ONE])[0]
        assert result.outcome == "infrastructure"
        assert "no fork server started there" in result.detail


def test_what_a_program_prints_is_no_frame(remote: RemotePool) -> None:
    code = """
import os, sys
lines = "".join(f"{'0' * 32} {name} 4 AAAA\\n" for name in ("hello", "0" * 32))
for fd in (1, 2):
    os.write(fd, lines.encode())
def f():
    return 1
"""
    result = remote.run([Job(code, "f")])[0]
    assert value(result) == 1
    assert result.stdout.count("hello") == result.stderr.count("hello") == 1


# --------------------------------------------------------------------------- what servers get wrong


def cut_off(request: dict[str, Any]) -> Answer:
    """The server kept the beginning of the output only."""
    found = run_code(request)
    found["run_result"]["stdout"] = found["run_result"]["stdout"][:-20]
    return 200, json.dumps(found).encode()


FAULTS = {
    "HTTP 500": (says(500, b"oops"), "HTTP 500"),
    "HTTP 503": (says(503, b""), "HTTP 503"),
    "too many requests": (says(429, b"later"), "HTTP 429"),
    "no JSON": (says(200, b"<html>"), "no JSON"),
    "deep JSON": (says(200, b"[" * 100_000), "no JSON"),
    "a list": (says(200, []), "no JSON object"),
    "sandbox error": (says(200, answer("SandboxError", message="no disk")), "no disk"),
    "no run": (says(200, answer("Failed", compile_result={})), "Failed"),
    "time limit": (
        says(200, answer("Failed", run_result={"status": "TimeLimitExceeded", "stdout": ""})),
        "TimeLimitExceeded",
    ),
    "old interpreter": (
        says(
            200,
            answer(
                "Failed",
                run_result={"status": "Finished", "stdout": "", "stderr": "SyntaxError: match"},
            ),
        ),
        "SyntaxError",
    ),
    "no output": (
        says(200, answer("Success", run_result={"status": "Finished"})),
        "without output",
    ),
    "output cut off": (cut_off, "does not hold it"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_of_the_server_is_tried_again_and_never_the_programs(
    remote: RemotePool, server: Server, name: str
) -> None:
    fault, words = FAULTS[name]
    server.faults = [fault]
    assert value(remote.run([ADD_ONE])[0]) == 42
    server.faults = [fault, fault]
    result = remote.run([ADD_ONE])[0]
    assert (result.outcome, result.value) == ("infrastructure", None)
    assert words in result.detail
    assert len(server.requests) == 4


def test_only_what_was_lost_is_tried_again(server: Server) -> None:
    jobs = [Job("def f(x):\n    return x", "f", str(n)) for n in range(6)]
    with RemotePool(server.url, size=1, jobs_per_request=3) as pool:
        server.faults = [says(500, b"")]
        assert [value(result) for result in pool.run(jobs)] == list(range(6))
        # two of three jobs, one lost; its three go alone
        assert len(server.requests) == 2 + 3


def test_a_server_that_cannot_be_used_is_an_error(server: Server) -> None:
    with RemotePool(server.url) as pool:
        server.faults = [says(401, b"who are you?")]
        with pytest.raises(SandboxError, match="401 Unauthorized: who are you"):
            pool.run([ADD_ONE])
        server.faults = [says(500, b"")] * 2
        with pytest.raises(SandboxError, match="HTTP 500"):
            pool.run([ADD_ONE])  # never reached yet
        server.faults = [says(500, b"")]
        with pytest.raises(SandboxError, match="HTTP 500"):
            pool.guarantees()
    with (
        RemotePool("http://127.0.0.1:9") as pool,
        pytest.raises(SandboxError, match="cannot be reached"),
    ):
        pool.run([ADD_ONE])
    with RemotePool(server.url + "/v2") as pool, pytest.raises(SandboxError, match="404"):
        pool.run([ADD_ONE])


def test_a_server_that_never_answers(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewards.sandbox.remote._START_SECONDS", 0.1)
    released = threading.Event()

    def hang(request: dict[str, Any]) -> Answer:
        released.wait(30)
        return 200, b""

    limits = Limits(wall_seconds=0.1)
    with RemotePool(server.url, patience=0.1) as pool:
        server.faults = [hang, hang]
        with pytest.raises(SandboxError, match="timed out"):
            pool.run([replace(ADD_ONE, limits=limits)])
    released.set()


# --------------------------------------------------------------------------- the interface


def test_guarantees_are_those_of_the_server(remote: RemotePool, server: Server) -> None:
    with SandboxPool(1) as local:
        assert remote.guarantees() == local.guarantees()
    with RemotePool(server.url, layers=["rlimits", "process_group"]) as pool:
        assert pool.guarantees().active == ("rlimits", "process_group")


def test_strict_refuses_what_the_server_lacks(server: Server) -> None:
    lacking = server.faults = []

    def without(request: dict[str, Any]) -> Answer:
        """A server whose machine has no ctypes, so nothing but what the C library offers."""
        code = "import sys\nsys.modules['ctypes'] = None\n"
        where = request["code"].index("import base64")
        spoilt = request["code"][:where] + code + request["code"][where:]
        return 200, json.dumps(run_code({**request, "code": spoilt})).encode()

    lacking[:] = [without]
    with RemotePool(server.url, strict=True) as pool:
        with pytest.raises(SandboxError, match=r"strict: .*does not have these layers: .*seccomp"):
            pool.run([ADD_ONE])
        assert value(pool.run([ADD_ONE])[0]) == 42
    lacking[:] = [without]
    with RemotePool(server.url) as pool, pytest.warns(RuntimeWarning, match="less isolation"):
        assert value(pool.run([ADD_ONE])[0]) == 42


def test_from_an_event_loop(remote: RemotePool) -> None:
    async def main() -> list[list[ExecutionResult]]:
        return list(await asyncio.gather(*(remote.run_async([ADD_ONE]) for _ in range(4))))

    for results in asyncio.run(main()):
        assert value(results[0]) == 42


def test_after_fork(remote: RemotePool) -> None:
    remote.run([ADD_ONE])
    pid = os.fork()
    if pid == 0:
        try:
            os._exit(0 if remote.run([ADD_ONE])[0].value == "42" else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert value(remote.run([ADD_ONE])[0]) == 42


def test_headers_are_sent(server: Server) -> None:
    with RemotePool(server.url, headers={"Authorization": "Bearer x"}) as pool:
        pool.run([ADD_ONE])
    assert server.headers[0]["Authorization"] == "Bearer x"


def test_arguments_that_make_no_sense(server: Server) -> None:
    for arguments, words in (
        ({"url": "localhost:8080"}, "http://"),
        ({"size": 0}, "size"),
        ({"jobs_per_request": 0}, "jobs_per_request"),
        ({"patience": float("inf")}, "patience"),
        ({"layers": ["moat"]}, "unknown layers"),
    ):
        with pytest.raises(ValueError, match=words):
            RemotePool(**{"url": server.url, **arguments})  # type: ignore[arg-type]
    pool = RemotePool(server.url)
    with pytest.raises(ValueError, match="must be"):
        pool.run([Job("", limits=Limits(cpu_seconds=0))])
    with pytest.raises(ValueError, match="workers"):
        pool.run([ADD_ONE], workers=0)
    pool.close()
    assert pool.closed
    with pytest.raises(SandboxError, match="closed"):
        pool.run([ADD_ONE])
    assert server.requests == []
