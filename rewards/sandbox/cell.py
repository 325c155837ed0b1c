"""What a fork server asks of the kernel for one guest: its limits, its folder, its end.

Covers what differs from job to job. Does not cover the layers that last as long as the fork server
(`isolation.py`), nor when a guest is ended (`watch.py`).

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator

from rewards.sandbox.isolation import Limit, Prison
from rewards.sandbox.kernel import LINUX, PR_SET_DUMPABLE, Step
from rewards.sandbox.root import empty_folder
from rewards.sandbox.usage import Alone, Family, Usage
from rewards.sandbox.wire import Request

_PAGE = resource.getpagesize()
_UNKNOWN_SIZE = 256 << 20  # more address space than any fork server has


class Cell:
    """Holds one guest at a time.

    Args:
        prison: the layers that are in force already.
    """

    def __init__(self, prison: Prison) -> None:
        self.prison = prison

    @property
    def bounds_memory(self) -> bool:
        """Whether guests are told how much memory they may use."""
        return LINUX and "rlimits" in self.prison.active

    def clean_folder(self) -> None:
        """An empty private folder, whatever the last guest did to it."""
        try:
            if not os.listdir(self.prison.work):
                return
        except FileNotFoundError:
            os.mkdir(self.prison.work, 0o700)
            os.chdir(self.prison.work)
            return
        except PermissionError:
            os.chmod(self.prison.work, 0o700)
        empty_folder(self.prison.work)

    def anonymous_file(self) -> int:
        """A file without a name, open for reading and writing."""
        if hasattr(os, "memfd_create"):
            return os.memfd_create("stdin", os.MFD_CLOEXEC)
        path = os.path.join(self.prison.work, "stdin")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        return fd

    def open_pidfd(self, pid: int) -> int | None:
        """A descriptor that becomes readable when the process has ended, where there is such."""
        return os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None

    def usage(self, pid: int, request: Request) -> Usage:
        """Where to read what a guest has used."""
        if self.prison.processes is None or self.is_alone(request.processes):
            return Alone(pid)
        return Family(pid, self.prison.processes, request.processes, request.memory_bytes)

    def is_alone(self, processes: int) -> bool:
        """True if a guest with this budget cannot have started anything."""
        return processes == 0 and ("seccomp" in self.prison.active or self.prison.counts_processes)

    def end(self, pid: int, *, alone: bool) -> tuple[int, float]:
        """Kill a guest and all it started, reap them; wait status and CPU seconds of the guest.

        Args:
            pid: the guest's.
            alone: it cannot have started anything.
        """
        if "pid" in self.prison.active:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            # Not reaped yet, so the number cannot belong to anybody else; the group exists once
            # the guest has called setsid.
            for kill in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        if not alone:
            self.sweep()
        return status, usage.ru_utime + usage.ru_stime

    def sweep(self) -> None:
        """Reap what the guest left behind; outside a PID namespace find and kill it first."""
        deadline = time.monotonic() + 5.0
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG)[0]:
                    continue
            except ChildProcessError:
                return
            if "pid" not in self.prison.active and self.prison.processes is not None:
                for child in self.prison.processes.children(self.prison.processes.own):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(child, signal.SIGKILL)
            time.sleep(0.001)

    def sentence(self, request: Request) -> list[Step]:
        """What a child does last before it runs the program, but for its memory (`memory`).

        Worked out before the fork: a child copies every page it touches.
        """
        steps: list[Step] = [(resource.setrlimit, limit) for limit in self.limits(request)]
        steps += self.prison.steps
        if request.processes and self.prison.kernel is not None:
            # So that the fork server may read how much memory is shared; the filter keeps the
            # members of a family from tracing each other.
            steps.append(
                self.prison.kernel.prepared(
                    self.prison.kernel.libc.prctl, PR_SET_DUMPABLE, 1, 0, 0, 0
                )
            )
        if "seccomp" in self.prison.active:
            steps += self.prison.filters[request.processes > 0].steps()
        return steps

    def limits(self, request: Request) -> list[Limit]:
        """Resource limits of a guest, but for its memory."""
        if "rlimits" not in self.prison.active:
            return []
        budget = sum(call.cpu_seconds for call in request.calls)
        cpu = int(budget) + 1  # a backstop in whole seconds, never below the budget
        limits = [
            self.prison.limit(resource.RLIMIT_CPU, cpu, cpu + 1),
            self.prison.limit(resource.RLIMIT_FSIZE, request.file_bytes, request.file_bytes),
        ]
        if self.prison.counts_processes:
            if not request.processes:
                limits.append(self.prison.limit(resource.RLIMIT_NPROC, 0, 0))
            elif "user" in self.prison.active:
                # Counted per namespace: the two halves of the fork server and the guest itself.
                allowed = request.processes + 3
                limits.append(self.prison.limit(resource.RLIMIT_NPROC, allowed, allowed))
        return limits

    def memory(self, request: Request, reserve: int) -> Limit:
        """The limit of a guest's address space: what is here now, and its budget on top.

        What lies between soft and hard is for the report of a program that ran out of memory.
        """
        if not self.bounds_memory:
            return resource.RLIMIT_AS, resource.getrlimit(resource.RLIMIT_AS)
        soft = self.size() + request.memory_bytes
        return self.prison.limit(resource.RLIMIT_AS, soft, soft + reserve)

    def size(self) -> int:
        """Address space of the fork server, and so of a new child, in bytes."""
        if self.prison.statm_fd < 0:
            return _UNKNOWN_SIZE  # no /proc to read it from
        return int(os.pread(self.prison.statm_fd, 64, 0).split()[0]) * _PAGE

    @contextlib.contextmanager
    def little_memory(self, amount: int) -> Iterator[None]:
        """While it lasts, the fork server itself may grow by so many bytes and no more."""
        if not LINUX or self.prison.statm_fd < 0:
            yield
            return
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        least = self.size() + amount
        resource.setrlimit(resource.RLIMIT_AS, (least if soft < 0 else min(soft, least), hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    def refused(self) -> OSError:
        """Why a step of a sentence failed."""
        assert self.prison.kernel is not None  # the other steps raise by themselves
        return self.prison.kernel.refused()
