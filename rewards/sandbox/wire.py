"""What crosses between host, fork server and guest: requests, frames, and the numbers agreed upon.

Host and fork server exchange frames over the control socket: 4 bytes length, then the body. A
request is JSON. A reply is 4 bytes length of a JSON header, the header, and the bytes it counts. The
guest talks to the fork server through a pipe of its own: 16 bytes nonce, 1 byte kind, 4 bytes
length, payload; kinds are S (the program is about to start: monotonic time and CPU time so far), R
(one call is done) and F (could not set up).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import os
import struct
from types import ModuleType
from typing import NamedTuple

# Long-lived descriptors live high up, out of the way of 0, 1, 2 and of what programs open, but below 64,
# which is all that some hosts are allowed.
RESULT_FD = 50
NULL_FD = 51
CONTROL_FD = 52
STATM_FD = 53
RULES_FD = 54
PROC_FD = 55
FEWEST_FILES = 60
"""Descriptors that a fork server must be allowed, the few for one job included."""

LENGTH = struct.Struct(">I")
CHILD_HEADER = struct.Struct(">16scI")
START = struct.Struct(">dd")
MAX_RESULT_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 20
MAX_REPLY_BYTES = 64 << 20
_READ_BYTES = 1 << 16

# Bound now: the guest uses it after the program has run, which may have changed `os`.
_write = os.write


def write_all(fd: int, data: bytes | bytearray) -> None:
    """Write every byte of `data` to a blocking descriptor."""
    written = _write(fd, data)
    while written < len(data):
        data = data[written:]
        written = _write(fd, data)


class Frames:
    """The bodies of the frames that arrive on a blocking descriptor.

    Args:
        fd: the descriptor.
        limit: longest body accepted, in bytes.
    """

    def __init__(self, fd: int, limit: int) -> None:
        self.fd = fd
        self.limit = limit
        self.rest = bytearray()

    def next(self) -> bytes | None:
        """The next body, or None if the other side has gone or sends too much."""
        if not self.fill(LENGTH.size):
            return None
        end = LENGTH.size + LENGTH.unpack_from(self.rest)[0]
        if end > LENGTH.size + self.limit or not self.fill(end):
            return None
        body = bytes(self.rest[LENGTH.size : end])
        del self.rest[:end]
        return body

    def bundle(self) -> list[bytes]:
        """The next body and all that have come with it; empty if there is none to be had."""
        bodies = []
        body = self.next()
        while body is not None:
            bodies.append(body)
            body = self.next() if self.waiting() else None
        return bodies

    def waiting(self) -> bool:
        """Whether there is a whole one to be had without reading."""
        return (
            len(self.rest) >= LENGTH.size
            and len(self.rest) >= LENGTH.size + LENGTH.unpack_from(self.rest)[0]
        )

    def fill(self, count: int) -> bool:
        """Read until there are so many bytes; false if they do not come."""
        while len(self.rest) < count:
            part = os.read(self.fd, _READ_BYTES)
            if not part:
                return False
            self.rest += part
        return True


class Call(NamedTuple):
    """One call of a request: the only things that differ inside a group."""

    args: str
    options: str
    cpu_seconds: float
    wall_seconds: float


class Request(NamedTuple):
    """What the host asks for: one program and one or more calls, all in one child."""

    nonce: bytes
    code: str
    entry: str | None
    stdin: str
    recorder: ModuleType | None
    memory_bytes: int
    output_bytes: int
    file_bytes: int
    processes: int
    calls: tuple[Call, ...]
    early: bool = True
    """Compile before the fork. Not if a fork server was lost with this request before."""

    @property
    def grouped(self) -> bool:
        return len(self.calls) > 1

    @property
    def marker(self) -> bytes:
        """Ends one call's output on stdout and stderr of a group."""
        return b"\0" + self.nonce + b"\0"
