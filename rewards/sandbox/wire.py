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

# Long-lived descriptors live high up, out of the way of 0, 1, 2 and of what programs open.
RESULT_FD = 100
NULL_FD = 110
CONTROL_FD = 111
STATM_FD = 112
RULES_FD = 113
PROC_FD = 114

LENGTH = struct.Struct(">I")
CHILD_HEADER = struct.Struct(">16scI")
START = struct.Struct(">dd")
MAX_RESULT_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 20
MAX_REPLY_BYTES = 64 << 20

# Bound now: the guest uses it after the program has run, which may have changed `os`.
_write = os.write


def write_all(fd: int, data: bytes) -> None:
    """Write every byte of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]


def read_exactly(fd: int, count: int) -> bytes | None:
    """Read `count` bytes, or None if the other side has gone."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


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

    @property
    def grouped(self) -> bool:
        return len(self.calls) > 1

    @property
    def marker(self) -> bytes:
        """Ends one call's output on stdout and stderr of a group."""
        return b"\0" + self.nonce + b"\0"
