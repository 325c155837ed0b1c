"""On a remote machine: starts a fork server there, puts the host's requests to it, prints the replies.

`RemotePool` sends this file with all that it needs as one program. It runs twice: first as the server
was told (requests on stdin, replies on stdout), and from there once more as the fork server, under
the hash seed and the environment that the requests ask for. What it prints are frames of its own; the
guests have pipes instead, so nothing of theirs gets among them.

Self-contained; uses the standard library alone.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import zlib
from types import ModuleType
from typing import Any

_LENGTH = struct.Struct(">I")
_START_SECONDS = 60.0
_STUCK_SECONDS = 20.0
_END_SECONDS = 5.0


def main(guest_source: str, modules: list[list[str | None]]) -> None:
    """Either side of it: with arguments this is the fork server, without it is the relay."""
    if len(sys.argv) > 1:
        guest = ModuleType("_sandbox_guest")
        exec(compile(guest_source, "guest.py", "exec", dont_inherit=True), guest.__dict__)
        guest.main(int(sys.argv[1]), {**json.loads(sys.argv[2]), "modules": modules})
    else:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a server that ignores it hands that down
        _relay(json.loads(sys.stdin.buffer.read()))


def _relay(order: dict[str, Any]) -> None:
    ours, theirs = socket.socketpair()
    pid = _start(order, theirs)
    theirs.close()
    try:
        _print_frame(order["nonce"], "hello", _answer(ours, _START_SECONDS))
        for request in order["requests"]:
            body = json.dumps(request).encode("ascii")
            ours.settimeout(_STUCK_SECONDS)
            ours.sendall(_LENGTH.pack(len(body)) + body)
            budget = sum(call[3] for call in request["calls"])
            _print_frame(order["nonce"], request["nonce"], _answer(ours, budget + _STUCK_SECONDS))
    finally:
        ours.close()
        _end(pid)


def _start(order: dict[str, Any], theirs: socket.socket) -> int:
    work = os.path.abspath("box-" + os.urandom(8).hex())
    os.mkdir(work, 0o700)
    environment = {**order["environment"], "HOME": work, "TMPDIR": work}
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    os.set_inheritable(theirs.fileno(), True)
    config = json.dumps({"work": work, "layers": order["layers"], "preload": order["preload"]})
    # -B: what it loads has no files of its own.
    flags = ["-s", "-S", "-B", "-X", "utf8"]
    return os.posix_spawn(
        sys.executable,
        [sys.executable, *flags, os.path.abspath(sys.argv[0]), str(theirs.fileno()), config],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
    )


def _answer(ours: socket.socket, seconds: float) -> bytes:
    """The body of the next frame. Raises EOFError or TimeoutError, which ends the relay."""
    deadline = time.monotonic() + seconds
    data = b""
    wanted = _LENGTH.size
    while len(data) < wanted:
        ready, _, _ = select.select([ours], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"the fork server did not answer within {seconds:g} s")
        part = ours.recv(1 << 18)
        if not part:
            raise EOFError("the fork server has gone")
        data += part
        if wanted == _LENGTH.size <= len(data):
            wanted += _LENGTH.unpack_from(data)[0]
    return data[_LENGTH.size :]


def _print_frame(nonce: str, name: str, body: bytes) -> None:
    text = base64.b64encode(zlib.compress(body, 1)).decode("ascii")
    print(f"{nonce} {name} {len(text)} {text}", flush=True)  # noqa: T201 - its only way to speak


def _end(pid: int) -> None:
    """The fork server leaves when its socket closes; if it does not, it is made to."""
    deadline = time.monotonic() + _END_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.002)
