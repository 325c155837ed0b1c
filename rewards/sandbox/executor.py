"""What every way of running jobs offers: the interface that `SandboxPool` and `RemotePool` share."""

from __future__ import annotations

import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from rewards.sandbox.jobs import ExecutionResult, Guarantees, Job
from rewards.sandbox.kernel import LAYERS
from rewards.sandbox.protocol import check_job

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

_WAITING_THREADS = 64
_Self = TypeVar("_Self", bound="Executor")


class SandboxError(RuntimeError):
    """The sandbox cannot do what was asked: closed, not startable, or less isolated than demanded."""


def check_arguments(layers: Iterable[str] | None, **counts: object) -> tuple[str, ...]:
    """The layers wanted. Raises ValueError for unknown ones, and for counts that are not >= 1."""
    for name, value in counts.items():
        if type(value) is not int or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")
    wanted = tuple(LAYERS if layers is None else layers)
    unknown = sorted(set(wanted) - set(LAYERS))
    if unknown:
        raise ValueError(f"unknown layers {unknown}; known: {', '.join(LAYERS)}")
    return wanted


class Executor(ABC):
    """Runs jobs. Every method may be called from any thread; as a context manager it closes itself."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._threads_lock = threading.Lock()
        _executors.add(self)

    def run(self, jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
        """Run jobs, each in a process of its own; results in the same order.

        Args:
            jobs: what to run.
            workers: at most so many at a time for this call, >= 1; never more than the pool's size.

        Raises ValueError for a job that makes no sense, OSError for a recorder that cannot be read,
        SandboxError if the pool is closed or, under `strict`, less isolated than demanded.
        """
        return self._run(jobs, workers, None)

    @abstractmethod
    def _run(
        self, jobs: Sequence[Job], workers: int | None, stop: threading.Event | None
    ) -> list[ExecutionResult]:
        """`run`; once `stop` is set nobody waits for the results any more."""

    @abstractmethod
    def run_groups(
        self, groups: Sequence[Sequence[Job]], *, workers: int | None = None
    ) -> list[list[ExecutionResult]]:
        """`run_group` for many programs at once; results in the same shape."""

    def run_group(self, jobs: Sequence[Job]) -> list[ExecutionResult]:
        """Many calls of one program, each in a fresh namespace, under its own budgets.

        Jobs must share `code`, `entry`, `recorder`, `hash_seed` and `apart`. They may share a process: use it
        for programs that are trusted not to attack each other's calls, `run` for all others.
        """
        return self.run_groups([jobs])[0]

    async def run_async(
        self, jobs: Sequence[Job], *, workers: int | None = None
    ) -> list[ExecutionResult]:
        """`run` for callers in an event loop; waits in a thread of the pool's own.

        If the awaiting task is cancelled, what still runs here is ended; a request that a server has
        taken ends by itself.
        """
        import asyncio

        stop = threading.Event()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._waiting_threads(), self._run, list(jobs), workers, stop
            )
        finally:
            stop.set()

    def _admit(self, jobs: Sequence[Job], workers: int | None) -> None:
        """Raises what `run` raises before it has begun."""
        if self.closed:
            raise SandboxError("this pool is closed; make a new one")
        if workers is not None:
            check_arguments((), workers=workers)
        checked = None
        for job in jobs:
            check_job(job, checked)
            checked = job.limits

    def _waiting_threads(self) -> ThreadPoolExecutor:
        # Not the loop's own executor: it has a handful of threads, which others need, too.
        from concurrent.futures import ThreadPoolExecutor

        with self._threads_lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_WAITING_THREADS, "sandbox")
            return self._threads

    def _after_fork(self) -> None:
        """In a forked copy of the process: locks and threads of the original mean nothing."""
        self._threads, self._threads_lock = None, threading.Lock()

    def _end_threads(self) -> None:
        with self._threads_lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False)

    @abstractmethod
    def guarantees(self) -> Guarantees:
        """Which layers hold guests in. Raises SandboxError if that cannot be found out."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything. Jobs under way in other threads finish."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether `close` was called."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_executors: weakref.WeakSet[Executor] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    for executor in list(_executors):
        executor._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)
