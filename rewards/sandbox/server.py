"""One fork server as the host sees it: starting it, talking to it over its socket, ending it.

Covers the process, its folder, its environment and its frames. Does not cover who may use it when
(`pool.py`) nor what replies mean (`protocol.py`). If the host is killed, its fork servers see their
socket close and leave.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rewards.sandbox.jobs import Guarantees
from rewards.sandbox.protocol import STDERR_TAIL, Kind, Lost, parse_hello, split_body, warn_once
from rewards.sandbox.root import empty_folder
from rewards.sandbox.wire import LENGTH, MAX_REPLY_BYTES

# A fork server answers within the budgets of its job; past this much more it is taken for stuck
# (stopped from outside, machine suspended) and replaced.
STUCK_SECONDS = 30.0
START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0

_HERE = Path(__file__).parent
GUEST = str(_HERE / "guest.py")
MODULES = {
    "rewards.values": str(_HERE.parent / "values.py"),
    **{
        f"rewards.sandbox.{name}": str(_HERE / f"{name}.py")
        for name in (
            *("kernel", "mappings", "seccomp", "root", "landlock", "usage", "isolation", "wire"),
            *("cell", "report", "performer", "watch", "zygote"),
        )
    },
}
"""Name -> path of the files that a fork server loads, each after those it needs."""


def environment(hash_seed: int, work: str) -> dict[str, str]:
    """The guest's whole environment: nothing of the host's but where its libraries are."""
    environment = {
        "PYTHONHASHSEED": str(hash_seed),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "HOME": work,
        "TMPDIR": work,
        # Every symbol is looked up at the start and once, not in every child that first needs it.
        "LD_BIND_NOW": "1",
    }
    # An interpreter built with shared libraries in an unusual place needs it to start at all.
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


def _beyond_standard(end: socket.socket) -> socket.socket:
    """The same socket out of the way of stdin, stdout and stderr, which the host may have closed."""
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


class ForkServer:
    """One fork server and the socket to it. Used by one thread at a time."""

    def __init__(self, kind: Kind, python: str, layers: Sequence[str]) -> None:
        self.kind = kind
        self.known: set[str] = set()
        self.sent_chars = 0
        self.guarantees: Guarantees | None = None
        self._buffer = bytearray()
        # Absolute: TMPDIR may be relative, and the fork server stands elsewhere.
        self._work = os.path.abspath(tempfile.mkdtemp(prefix="sandbox-"))
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._socket, theirs = map(_beyond_standard, socket.socketpair())
        self._socket.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._socket, select.POLLIN)
        modules = [[name, path, None] for name, path in MODULES.items()]
        config = {
            "modules": modules,
            "work": self._work,
            "layers": list(layers),
            "preload": kind.preload(),
        }
        command = [python, "-s", "-S", "-X", "utf8", GUEST, str(theirs.fileno())]
        try:
            self.process = subprocess.Popen(
                [*command, json.dumps(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=environment(kind.hash_seed, self._work),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            self._stderr.close()
            os.rmdir(self._work)
            raise
        finally:
            theirs.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_usable(self) -> bool:
        """False if the fork server has gone, or has something to say that nobody asked for."""
        if self.guarantees is None or self._socket.fileno() < 0:
            return False
        # Killed from outside, its socket may stay open for a moment longer.
        return self.process.poll() is None and not self._poller.poll(0)

    def submit(self, requests: Sequence[dict[str, Any]]) -> None:
        """Send requests, to be answered in order. Raises Lost if they are not taken."""
        self.sent_chars += sum(len(request["code"]) for request in requests)
        bodies = [json.dumps(request).encode("ascii") for request in requests]
        view = memoryview(b"".join([LENGTH.pack(len(body)) + body for body in bodies]))
        deadline = time.monotonic() + STUCK_SECONDS
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Lost("it does not take its job") from None
                poller = select.poll()
                poller.register(self._socket, select.POLLOUT)
                poller.poll(1000)
            except OSError as error:
                raise Lost(f"it has gone ({error.strerror})") from error

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """The next reply if it has arrived whole, else None. Raises Lost if none can come."""
        while True:
            frame = self._take_frame()
            if frame is None:
                return None
            header, blobs = frame
            if "hello" not in header:
                return header, blobs
            self.guarantees = parse_hello(header["hello"])
            warn_once(self.guarantees)

    def _take_frame(self) -> tuple[dict[str, Any], bytes] | None:
        while True:
            if len(self._buffer) >= LENGTH.size:
                (length,) = LENGTH.unpack_from(self._buffer)
                if length > MAX_REPLY_BYTES:
                    raise Lost("a reply of the wrong size")
                if len(self._buffer) >= LENGTH.size + length:
                    body = bytes(self._buffer[LENGTH.size : LENGTH.size + length])
                    del self._buffer[: LENGTH.size + length]
                    return split_body(body)
            try:
                part = self._socket.recv(1 << 18)
            except BlockingIOError:
                return None
            except OSError as error:
                raise Lost(f"it has gone ({error.strerror})") from error
            if not part:
                raise Lost("it has gone")
            self._buffer += part

    def wait_ready(self, seconds: float) -> Guarantees:
        """Wait for the greeting. Raises Lost if it does not come in time."""
        deadline = time.monotonic() + seconds
        while self.guarantees is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise Lost(f"no greeting within {seconds:g} s")
            self._poller.poll(left * 1000)
            self.receive()
        return self.guarantees

    def last_words(self) -> str:
        """The end of what the fork server wrote on stderr: why it could not start or went away."""
        with contextlib.suppress(OSError, ValueError):
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - STDERR_TAIL))
            return self._stderr.read().decode("utf-8", "backslashreplace").strip()
        return ""

    def hang_up(self) -> None:
        """Close the socket: the fork server kills what runs in it and leaves."""
        self._socket.close()

    def close(self, *, kill: bool = False) -> None:
        """End the fork server and wait until it has gone."""
        self.hang_up()
        if kill:
            self.process.kill()
        try:
            self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.close()
        # Usually gone: the fork server removes it unless it was killed.
        with contextlib.suppress(FileNotFoundError):
            empty_folder(self._work)
            os.rmdir(self._work)

    def forget(self) -> None:
        """In a forked copy of the host: let go of what belongs to the original."""
        self._socket.close()
        self._stderr.close()
        self.process.returncode = 0
