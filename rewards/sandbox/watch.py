"""Outside the guest, in its fork server: reads what it says, keeps its budgets, ends it.

Covers the pipes of a guest and following it until it has ended, been ended, or said all. Does not
start it (`zygote.py`) nor judge what it says (`protocol.py`, in the host).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import os
import select
import time
from typing import TYPE_CHECKING, NamedTuple

from rewards.sandbox.wire import CHILD_HEADER, CONTROL_FD, MAX_RESULT_BYTES, START, Request

if TYPE_CHECKING:
    from collections.abc import Callable

    from rewards.sandbox.cell import Cell
    from rewards.sandbox.usage import Usage

_READ_BYTES = 65_536
_FIRST_MS = 4  # most guests have ended by then
_QUICKEST, _SLOWEST = 0.0005, 0.02  # seconds between two looks at a guest's output
# A guest is set up in a millisecond. On a machine that is overloaded or swaps it takes longer, which
# is not the program's fault: only after this long is the guest given up, and not called slow.
_SETUP_SECONDS = 20.0


class Pipes(NamedTuple):
    """Both ends of the three pipes between a child and its zygote."""

    result: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]

    @classmethod
    def open(cls) -> Pipes:
        return cls(os.pipe(), os.pipe(), os.pipe())

    def close_writers(self) -> None:
        for _, writer in self:
            os.close(writer)

    def close_readers(self) -> None:
        for reader, _ in self:
            os.close(reader)


class End(NamedTuple):
    """How a child ended, all that it had started included."""

    status: int
    """As `os.wait` gives it."""
    cpu_seconds: float
    wall_seconds: float


class HostGone(Exception):
    """The control socket was closed: kill what runs and leave."""


class Watch:
    """Follows one child from outside: reads what it says, keeps its budgets, ends it.

    Args:
        request: what the child is to do.
        cell: how it is held in.
        before_long: called before anything that may take long.
    """

    pipes: Pipes
    begun: float
    call_begun: float

    def __init__(self, request: Request, cell: Cell, before_long: Callable[[], None]) -> None:
        self.request = request
        self.marker = request.marker if request.grouped else b""
        self.usage: Usage | None = None
        self.cell = cell
        self.before_long = before_long
        self.result = bytearray()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.calls: list[tuple[bytes, bytes, bytes, float, float]] = []
        self.fetched = 0
        self.started = False
        self.failure: str | None = None
        self.reason: str | None = None
        self.ended = False
        self.call_cpu = 0.0
        self.pace = _QUICKEST
        self.poller = select.poll()
        self.poller.register(CONTROL_FD, 0)

    def begin(self, pipes: Pipes) -> None:
        """Just before the fork: listen to what the child will say through `pipes`."""
        self.begun = self.call_begun = time.monotonic()
        self.pipes = pipes
        self.poller.register(pipes.result[0], 0)
        for reader, _ in pipes:
            os.set_blocking(reader, False)

    def follow(self, pid: int) -> End:
        """Watch a child until it has ended or used up a budget; then end it and say how it went."""
        alone = self.cell.is_alone(self.request.processes)
        if not alone:
            self.usage = self.cell.usage(pid, self.request)
        try:
            self.pipes.close_writers()
            self.sleep(_FIRST_MS)
            if not self.ended:
                self.follow_closely(pid)
        finally:
            status, cpu = self.cell.end(pid, alone=alone)
        if self.usage is not None:
            cpu = self.usage.final_cpu_seconds(cpu)
        wall = time.monotonic() - self.begun
        self.drain()
        return End(status, cpu, wall)

    def follow_closely(self, pid: int) -> None:
        """The child takes its time: from now on there is an eye on its budgets."""
        self.before_long()
        if self.usage is None:
            self.usage = self.cell.usage(pid, self.request)
        exit_fd = self.cell.open_pidfd(pid)
        try:
            if exit_fd is not None:
                self.poller.register(exit_fd, select.POLLIN)
            self.look()
            while self.reason is None and not self.ended:
                self.sleep(self.timeout_ms())
                self.look()
        finally:
            if exit_fd is not None:
                os.close(exit_fd)

    def cpu_seconds(self) -> float:
        """CPU seconds that the child has used so far, if anybody has to know."""
        return 0.0 if self.usage is None else self.usage.cpu_seconds()

    def sleep(self, milliseconds: int) -> None:
        """Sleep, but no longer than until the child ends."""
        for fd, _ in self.poller.poll(milliseconds):
            if fd == CONTROL_FD:
                raise HostGone
            # It has exited, or has let go of the pipe without which it can say nothing more. The one
            # shows even if something that it started holds the pipe, the other costs nothing.
            self.ended = True

    def look(self) -> None:
        """Take in what the child has said, and whether it has used up a budget."""
        self.drain()
        if not self.ended:
            self.reason = self.reason or self.budget_used_up()

    def timeout_ms(self) -> int:
        """How long to sleep: no budget can be used up sooner, output is fetched now and then."""
        call = self.request.calls[min(len(self.calls), len(self.request.calls) - 1)]
        wall_left = self.call_begun + call.wall_seconds - time.monotonic()
        cpu_left = call.cpu_seconds - (self.cpu_seconds() - self.call_cpu)
        self.pace = min(self.pace * 2, _SLOWEST)
        return max(1, int(1000 * min(wall_left, cpu_left, self.pace)) + 1)

    def budget_used_up(self) -> str | None:
        if len(self.calls) >= len(self.request.calls):
            # All is said; a child that does not leave by itself is ended by the wall budget.
            return "done"
        if not self.started:
            return "setup" if time.monotonic() - self.begun >= _SETUP_SECONDS else None
        call = self.request.calls[len(self.calls)]
        if self.cpu_seconds() - self.call_cpu >= call.cpu_seconds:
            return "cpu"
        if time.monotonic() - self.call_begun >= call.wall_seconds:
            return "wall"
        return None if self.usage is None else self.usage.excess()

    def drain(self) -> None:
        """Fetch what has been said so far, results first (their output was written before)."""
        fetched = 0
        if self.reason != "forged":
            fetched = self.fetch(self.pipes.result[0], self.result, MAX_RESULT_BYTES)
        limit = self.request.output_bytes + 2 * len(self.marker) * len(self.request.calls)
        fetched += self.fetch(self.pipes.stdout[0], self.stdout, limit + _READ_BYTES)
        fetched += self.fetch(self.pipes.stderr[0], self.stderr, limit + _READ_BYTES)
        self.fetched += fetched
        if fetched >= _READ_BYTES // 2:
            self.pace = _QUICKEST
        while self.reason != "forged" and self.next_frame():
            pass
        if self.reason is None and self.unclaimed_output() > self.request.output_bytes:
            self.reason = "output"

    @staticmethod
    def fetch(fd: int, into: bytearray, limit: int) -> int:
        """Read what is there, up to `limit` bytes in all; how many bytes that were."""
        before = len(into)
        while len(into) < limit:
            try:
                part = os.read(fd, _READ_BYTES)
            except BlockingIOError:
                break
            if not part:
                break
            into += part
        return len(into) - before

    def unclaimed_output(self) -> int:
        """Bytes printed by the call that runs now."""
        total = 0
        for buffer in (self.stdout, self.stderr):
            end = buffer.find(self.marker) if self.marker else -1
            total += len(buffer) if end < 0 else end
        return total

    def next_frame(self) -> bool:
        """Take one frame off the result stream; False if there is no whole one."""
        if not self.result:
            return False
        if len(self.calls) >= len(self.request.calls):
            self.reason = "forged"
            return False
        if len(self.result) < CHILD_HEADER.size:
            return False
        nonce, kind, length = CHILD_HEADER.unpack_from(self.result)
        if nonce != self.request.nonce or length > MAX_RESULT_BYTES - CHILD_HEADER.size:
            self.reason = "forged"
            return False
        if len(self.result) < CHILD_HEADER.size + length:
            return False
        payload = bytes(self.result[CHILD_HEADER.size : CHILD_HEADER.size + length])
        del self.result[: CHILD_HEADER.size + length]
        self.take(kind, payload)
        return self.reason is None

    def take(self, kind: bytes, payload: bytes) -> None:
        if kind == b"S" and not self.started and len(payload) == START.size:
            # Said before the program runs, so it can be believed: the budgets begin now, not at the
            # fork and not when this is read.
            self.call_begun, self.call_cpu = START.unpack(payload)
            self.started = True
        elif kind == b"R" and self.started:
            now, cpu = time.monotonic(), self.cpu_seconds()
            out, err = self.claim(self.stdout), self.claim(self.stderr)
            self.calls.append((out, err, payload, cpu - self.call_cpu, now - self.call_begun))
            self.call_begun, self.call_cpu = now, cpu
        elif kind == b"F" and not self.started:
            self.failure = payload.decode("utf-8", "replace")
        else:
            self.reason = "forged"

    def claim(self, buffer: bytearray) -> bytes:
        """Output of the call that just ended; a lone call keeps all of it until the end."""
        if not self.marker:
            return b""
        end = buffer.find(self.marker)
        taken = bytes(buffer if end < 0 else buffer[:end])
        del buffer[: len(taken) if end < 0 else end + len(self.marker)]
        return taken
