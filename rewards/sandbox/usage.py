"""What a guest has used so far, seen from outside: CPU time, memory, processes.

Covers the guest alone, which is one clock to read, and the guest with all that it may start
(`Family`): what has ended counts too, orphans included. Does not end anything (`isolation.py`).
Without /proc nothing can be seen of a family but the guest itself, outside Linux nothing at all.

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import resource
import time
from typing import Literal, Protocol

from rewards.sandbox.kernel import LINUX

_PAGE = resource.getpagesize()
_TICKS = os.sysconf("SC_CLK_TCK")

Excess = Literal["processes", "memory"]


class Usage(Protocol):
    """What is asked about a guest while it runs."""

    def cpu_seconds(self) -> float:
        """CPU seconds so far, of the guest and of what it started."""

    def excess(self) -> Excess | None:
        """Which budget is exceeded that the kernel does not keep by itself."""

    def final_cpu_seconds(self, of_guest: float) -> float:
        """CPU seconds in all, once everything has been reaped; `of_guest` as the kernel told it."""


class Alone:
    """A guest that cannot have started anything: the kernel keeps its memory and its number."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_seconds(self) -> float:
        return _cpu_clock(self.pid) if LINUX else 0.0

    def excess(self) -> Excess | None:
        return None

    def final_cpu_seconds(self, of_guest: float) -> float:
        return of_guest


class Family:
    """A guest and all that it starts; one at a time in a process.

    Args:
        pid: the guest, a child of this process.
        processes: where to see it and what it starts.
        count: processes and threads that it may start, >= 0.
        memory_bytes: what they may use together beyond what a guest starts with.
    """

    def __init__(self, pid: int, processes: Processes, count: int, memory_bytes: int) -> None:
        self.pid = pid
        self.processes = processes
        self.count = count
        self.memory_bytes = memory_bytes
        self.reaped_before = _reaped_seconds()
        self.clocks: dict[int, float] = {}
        self.most = 0.0

    def cpu_seconds(self) -> float:
        """Never less than before, whoever has ended meanwhile.

        Two lower bounds, of which the larger counts: the clocks of the living with what they have
        waited for and what was reaped here; and the clocks of all that were ever seen, which holds
        for a parent that refuses to wait (SIGCHLD ignored: the kernel then forgets the time).
        """
        self._reap_orphans()
        total = _reaped_seconds() - self.reaped_before
        for pid in self.processes.below():
            own, waited = self.processes.cpu_seconds(pid)
            self.clocks[pid] = max(own, self.clocks.get(pid, 0.0))
            total += own + waited
        self.most = max(self.most, total, sum(self.clocks.values()))
        return self.most

    def excess(self) -> Excess | None:
        members = self.processes.below()
        if sum(map(self.processes.threads, members)) > self.count + 1:
            return "processes"
        # Every member shares the pages of the fork server: counted once, they are its size.
        most = self.memory_bytes + self.processes.resident_bytes(self.processes.own)
        # The first sum is quick and counts shared pages again and again; the second is exact.
        for bytes_of in (self.processes.resident_bytes, self.processes.proportional_bytes):
            if sum(map(bytes_of, members)) <= most:
                return None
        return "memory"

    def final_cpu_seconds(self, of_guest: float) -> float:
        return max(of_guest, self.most, _reaped_seconds() - self.reaped_before)

    def _reap_orphans(self) -> None:
        """Reap what ended after its own parent had: it would fill the budget of processes."""
        with contextlib.suppress(ChildProcessError):
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None or ended.si_pid == self.pid:
                    return
                os.waitpid(ended.si_pid, 0)


def _cpu_clock(pid: int) -> float:
    """CPU seconds of a process with all its threads; 0 if it has gone."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # how Linux numbers the clock of a process
    except OSError:
        return 0.0


def _reaped_seconds() -> float:
    """CPU seconds of all children that this process has reaped, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Processes:
    """The processes below this one, as the /proc that it started with shows them.

    That /proc is kept open, because a private root has another or none, and it counts in numbers of
    its own: those that are not of this object mean nothing to it. A process may end at any moment:
    then it has no threads and uses nothing.

    Args:
        number: the descriptor to keep it at.

    Raises OSError where there is no /proc.
    """

    def __init__(self, number: int) -> None:
        self.own = int(os.readlink("/proc/self"))
        folder = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        os.dup2(folder, number, inheritable=False)
        os.close(folder)
        self.folder = number
        # Without this file (a kernel option) children are found by asking all for their parents.
        self.lists = self._read(f"{self.own}/task/{self.own}/children") is not None

    def _read(self, path: str) -> bytes | None:
        """The whole of a small file; None if the process has gone or does not show it."""
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self.folder)
        except OSError:
            return None
        try:
            return os.read(fd, 65_536)
        except OSError:
            return None
        finally:
            os.close(fd)

    def _numbers(self, path: str) -> list[int]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        except OSError:
            return []
        try:
            return [int(name) for name in os.listdir(fd) if name.isdigit()]
        except OSError:
            return []
        finally:
            os.close(fd)

    def children(self, pid: int) -> list[int]:
        """Direct children of a process."""
        if self.lists:
            texts = [
                self._read(f"{pid}/task/{thread}/children")
                for thread in self._numbers(f"{pid}/task")
            ]
            return [int(number) for text in texts if text for number in text.split()]
        return [each for each in self._numbers(".") if self._stat(each)[1:2] == [b"%d" % pid]]

    def below(self) -> list[int]:
        """All processes under this one."""
        found: list[int] = []
        waiting = self.children(self.own)
        while waiting:
            found.append(waiting.pop())
            waiting += self.children(found[-1])
        return found

    def threads(self, pid: int) -> int:
        return len(self._numbers(f"{pid}/task"))

    def _stat(self, pid: int) -> list[bytes]:
        """The fields after the name, which may hold spaces and brackets; empty if it has gone."""
        return (self._read(f"{pid}/stat") or b"").rpartition(b")")[2].split()

    def cpu_seconds(self, pid: int) -> tuple[float, float]:
        """CPU seconds of a process itself, and of all children that it has waited for."""
        fields = self._stat(pid)
        if not fields:
            return 0.0, 0.0
        user, system, waited_user, waited_system = map(int, fields[11:15])
        return (user + system) / _TICKS, (waited_user + waited_system) / _TICKS

    def resident_bytes(self, pid: int) -> int:
        fields = (self._read(f"{pid}/statm") or b"").split()
        return int(fields[1]) * _PAGE if fields else 0

    def proportional_bytes(self, pid: int) -> int:
        """Resident memory, every page divided by the number of processes that share it."""
        for line in (self._read(f"{pid}/smaps_rollup") or b"").splitlines():
            if line.startswith(b"Pss:"):
                return int(line.split()[1]) << 10
        return self.resident_bytes(pid)  # an old kernel, or not ours to ask
