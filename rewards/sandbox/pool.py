"""The host's side of the sandbox: fork servers, and who may use one when.

Covers starting and replacing fork servers, the bound on how many jobs run at a time, and the pool that
all callers of a process share. Does not cover which job goes to which child (`batch.py`), what
happens inside a guest (`performer.py`) nor how it is held in (`isolation.py`).

Use it from any thread: the host installs no signal handler, starts no thread except for `run_async`,
and never forks itself (`subprocess` only). A host that forks gets fresh fork servers in its child.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from rewards.sandbox.batch import STOP_SECONDS, Batch, Task, group_tasks
from rewards.sandbox.executor import Executor, SandboxError, check_arguments
from rewards.sandbox.jobs import ExecutionResult, Guarantees, Job
from rewards.sandbox.protocol import Kind, Lost
from rewards.sandbox.server import START_SECONDS, ForkServer

__all__ = [
    "SandboxError",
    "SandboxPool",
    "default_pool",
    "guarantees",
    "run",
    "run_async",
    "run_group",
    "run_groups",
]

# A fork server compiles what it is sent, and from Python 3.12 on it never forgets a name again: some
# four bytes for each character of programs that share none.
_RETIRE_CHARS = 16 << 20
_MAX_FAILED_STARTS = 3
_QUOTA = "/sys/fs/cgroup/cpu.max"


class _Lock(Protocol):
    def acquire(self, blocking: bool = ..., timeout: float = ...) -> bool: ...
    def release(self) -> None: ...


def _close_all(servers: set[ForkServer]) -> None:
    """Close many at once: all are told first, then waited for."""
    doomed = list(servers)
    servers.clear()
    for server in doomed:
        server.hang_up()
    for server in doomed:
        server.close()


class SandboxPool(Executor):
    """Fork servers behind one bound on how many jobs run at a time.

    Args:
        size: jobs that may run at a time, >= 1; default the number of usable cores.
        strict: refuse (`SandboxError`) to run anything if a wanted layer is missing.
        layers: the layers wanted, of `kernel.LAYERS`; default all.
        python: the interpreter to run programs with; default this one.

    """

    def __init__(
        self,
        size: int | None = None,
        *,
        strict: bool = False,
        layers: Iterable[str] | None = None,
        python: str | None = None,
    ) -> None:
        super().__init__()
        self.size = usable_cores() if size is None else size
        self.strict = strict
        self.layers = check_arguments(layers, size=self.size)
        self.python = python or sys.executable
        if not self.python:
            raise SandboxError("this interpreter does not know its own path; pass python=")
        self._servers: set[ForkServer] = set()
        self._reset()
        self._finalizer = weakref.finalize(self, _close_all, self._servers)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[ForkServer] = []
        self._queue: deque[_Lock] = deque()
        self._busy = 0
        self._closed = False
        self._failed_starts = 0

    def _run(
        self, jobs: Sequence[Job], workers: int | None, stop: threading.Event | None
    ) -> list[ExecutionResult]:
        tasks = [Task((number,), (job,)) for number, job in enumerate(jobs)]
        return self._perform(jobs, tasks, workers, stop)

    def run_groups(
        self, groups: Sequence[Sequence[Job]], *, workers: int | None = None
    ) -> list[list[ExecutionResult]]:
        """Many calls of each program in one child, each in a fresh namespace, under its own budgets.

        The jobs of a group must share `code`, `entry`, `recorder`, `hash_seed` and `apart`. If a call
        misbehaves, its child is ended, that call is run again alone, and the rest go on in a new
        child. Calls of a program that might change what lies outside its namespace, say a function
        of a module, do not share a child (`sharing.py`). That is a guard against accidents: `run` is
        for programs that nobody trusts.
        """
        flat: list[Job] = []
        tasks: list[Task] = []
        for jobs in groups:
            tasks += group_tasks(jobs, len(flat))
            flat += jobs
        results = iter(self._perform(flat, tasks, workers, None))
        return [[next(results) for _ in jobs] for jobs in groups]

    def guarantees(self) -> Guarantees:
        """Which layers a fork server of this pool really has; starts one if none is there.

        Raises SandboxError if none can be started.
        """
        server = self.acquire(Kind(0))
        assert server is not None
        try:
            found = server.wait_ready(START_SECONDS)
        except Lost as lost:
            text = f"the sandbox does not start: {lost}\n{server.last_words()}"
            self.release(server, broken=True)
            raise SandboxError(text.strip()) from lost
        self.release(server)
        return found

    def close(self) -> None:
        """End all fork servers and remove their folders. Jobs under way in other threads finish."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._servers.difference_update(idle)
        _close_all(set(idle))
        self._end_threads()

    @property
    def closed(self) -> bool:
        return self._closed

    def _perform(
        self,
        jobs: Sequence[Job],
        tasks: list[Task],
        workers: int | None,
        stop: threading.Event | None,
    ) -> list[ExecutionResult]:
        self._admit(jobs, workers)
        lanes = min(self.size, workers or self.size, max(1, len(tasks)))
        results = Batch(self, tasks, lanes, stop).run()
        if stop is not None and stop.is_set():
            return []  # nobody is there to read them
        return [results[number] for number in range(len(jobs))]

    # -- permits and fork servers

    def acquire(
        self, kind: Kind, *, block: bool = True, stop: threading.Event | None = None
    ) -> ForkServer | None:
        """A fork server of this kind, first come first served.

        None if none may be used now and `block` is false, or `stop` was set while waiting.
        """
        ticket: _Lock | None = None
        with self._lock:
            if self._closed:
                raise SandboxError("this pool is closed; make a new one")
            if self._busy < self.size and not self._queue:
                self._busy += 1
            elif not block:
                return None
            else:
                ticket = threading.Lock()
                ticket.acquire()
                self._queue.append(ticket)
        if ticket is not None and not self._wait(ticket, stop):
            return None
        try:
            return self._take_idle(kind) or self._start(kind)
        except BaseException:
            with self._lock:
                self._pass_on()
            raise

    def _wait(self, ticket: _Lock, stop: threading.Event | None) -> bool:
        """Wait for a permit; false if `stop` was set first."""
        granted = False
        try:
            if stop is None:
                granted = ticket.acquire()
            while stop is not None and not granted and not stop.is_set():
                granted = ticket.acquire(timeout=STOP_SECONDS)
            return granted
        finally:
            if not granted:  # stopped, or KeyboardInterrupt
                with self._lock:
                    if ticket in self._queue:
                        self._queue.remove(ticket)
                    else:
                        self._pass_on()

    def _pass_on(self) -> None:
        """Give a permit to whoever waits longest, else back. The lock is held."""
        if self._queue:
            self._queue.popleft().release()
        else:
            self._busy -= 1

    def _take_idle(self, kind: Kind) -> ForkServer | None:
        while True:
            with self._lock:
                if self._closed:
                    raise SandboxError("this pool is closed; make a new one")
                fitting = [server for server in self._idle if server.kind == kind]
                if not fitting:
                    return None
                server = fitting[-1]
                self._idle.remove(server)
            if server.is_usable():
                return server
            self._discard(server)

    def _start(self, kind: Kind) -> ForkServer:
        try:
            server = ForkServer(kind, self.python, self.layers)
        except OSError as error:
            raise SandboxError(f"cannot start {self.python!r}: {error}") from error
        with self._lock:
            self._servers.add(server)
        if self.strict:
            self._demand_all(server)
        return server

    def _demand_all(self, server: ForkServer) -> None:
        try:
            missing = server.wait_ready(START_SECONDS).missing
        except Lost as lost:
            text = f"the sandbox does not start: {lost}\n{server.last_words()}".strip()
            self._discard(server)
            raise SandboxError(text) from lost
        if missing:
            self._discard(server)
            reasons = "; ".join(f"{layer}: {why}" for layer, why in missing)
            raise SandboxError(
                f"strict: these layers are not to be had here: {reasons}. "
                "Ask for fewer (layers=) or run without strict."
            )

    def note_start(self, greeted: bool, words: str = "") -> None:
        """A sandbox that never starts is an error, not a batch of unscored jobs."""
        with self._lock:
            self._failed_starts = 0 if greeted else self._failed_starts + 1
            failed = self._failed_starts
        if failed >= _MAX_FAILED_STARTS:
            raise SandboxError(f"the sandbox does not start ({failed} attempts): {words}")

    def release(self, server: ForkServer, *, broken: bool = False) -> None:
        doomed: list[ForkServer] = []
        with self._lock:
            if broken or self._closed or server.sent_chars > _RETIRE_CHARS:
                doomed.append(server)
            else:
                self._idle.append(server)
                # A few kinds at a time are in use; a fork server costs some 15 MiB.
                while len(self._idle) > 4 * self.size:
                    doomed.append(self._idle.pop(0))
            self._pass_on()
        for each in doomed:
            self._discard(each, kill=broken)

    def _discard(self, server: ForkServer, *, kill: bool = True) -> None:
        with self._lock:
            self._servers.discard(server)
        server.close(kill=kill)

    def _after_fork(self) -> None:
        for server in list(self._servers):
            server.forget()
        self._servers.clear()
        self._reset()
        super()._after_fork()


def usable_cores() -> int:
    """How many cores this process may use: by its affinity and by the quota of its container."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    try:
        with open(_QUOTA, encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


# --------------------------------------------------------------------------- the shared pool

_default: SandboxPool | None = None
_default_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)


def default_pool() -> SandboxPool:
    """The pool that all callers in this process share; made on first use, and again if closed."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = SandboxPool()
        return _default


def run(jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
    """`SandboxPool.run` on the shared pool."""
    return default_pool().run(jobs, workers=workers)


def run_group(jobs: Sequence[Job]) -> list[ExecutionResult]:
    """`SandboxPool.run_group` on the shared pool."""
    return default_pool().run_group(jobs)


def run_groups(
    groups: Sequence[Sequence[Job]], *, workers: int | None = None
) -> list[list[ExecutionResult]]:
    """`SandboxPool.run_groups` on the shared pool."""
    return default_pool().run_groups(groups, workers=workers)


async def run_async(jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
    """`SandboxPool.run_async` on the shared pool."""
    return await default_pool().run_async(jobs, workers=workers)


def guarantees() -> Guarantees:
    """Which layers hold guests in on this machine: `SandboxPool.guarantees` of the shared pool."""
    return default_pool().guarantees()
