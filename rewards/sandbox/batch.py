"""One call of `run`: which jobs go to which child, and what comes back, in order.

Covers grouping, driving several fork servers from the caller's thread, the retry of what was lost to
the infrastructure, and running alone what misbehaved in a group. Does not cover who may have a fork
server when (`pool.py`).
"""

from __future__ import annotations

import select
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Protocol

from rewards.sandbox.jobs import ExecutionResult, Job
from rewards.sandbox.protocol import (
    Kind,
    Lost,
    Reply,
    finished,
    parse_reply,
    request_for,
    settle_single,
)
from rewards.sandbox.server import START_SECONDS, STUCK_SECONDS, ForkServer
from rewards.sandbox.sharing import may_share

_CALLS_PER_CHILD = 128
_MAX_GROUP_CHARS = 1 << 20
_BUNDLE_TASKS = 8
_BUNDLE_CHARS = 16_384
STOP_SECONDS = 0.1
"""How often a call that may be stopped looks whether it was."""


class Servers(Protocol):
    """Where fork servers come from."""

    def acquire(
        self, kind: Kind, *, block: bool, stop: threading.Event | None
    ) -> ForkServer | None: ...
    def release(self, server: ForkServer, *, broken: bool = False) -> None: ...
    def note_start(self, greeted: bool, words: str = "") -> None: ...


@dataclass(frozen=True)
class Task:
    """Jobs that go to one child, with their places in the caller's sequence."""

    numbers: tuple[int, ...]
    jobs: tuple[Job, ...]
    attempts: int = 0

    def singles(self) -> list[Task]:
        return [Task((n,), (job,)) for n, job in zip(self.numbers, self.jobs, strict=True)]

    def budget(self) -> float:
        return sum(job.limits.wall_seconds for job in self.jobs)

    def chars(self) -> int:
        first = self.jobs[0]
        calls = sum(len(job.args) + len(job.options) for job in self.jobs)
        return len(first.code) + len(first.stdin) + calls


_SHARED = ("code", "entry", "recorder", "hash_seed", "apart")
_shared = attrgetter(*_SHARED)


def group_tasks(jobs: Sequence[Job], first: int) -> list[Task]:
    """One task per run of jobs that can share a child."""
    shared = _shared(jobs[0]) if jobs else ()
    for job in jobs:
        if _shared(job) != shared:
            name = next(n for n in _SHARED if getattr(job, n) != getattr(jobs[0], n))
            raise ValueError(
                f"jobs of a group must share code, entry, recorder, hash_seed and apart; {name} "
                "differs. Use run() for jobs that do not."
            )
    tasks: list[Task] = []
    chars = 0
    for offset, job in enumerate(jobs):
        chars += len(job.args) + len(job.options)
        last = tasks[-1] if tasks else None
        if (
            last is not None
            and may_share(job.code, job.args)
            and may_share(job.code, last.jobs[-1].args)
            and len(last.jobs) < _CALLS_PER_CHILD
            and chars <= _MAX_GROUP_CHARS
            and last.jobs[0].stdin == job.stdin
            and last.jobs[0].limits == job.limits
        ):
            tasks[-1] = Task((*last.numbers, first + offset), (*last.jobs, job))
        else:
            tasks.append(Task((first + offset,), (job,)))
            chars = len(job.args) + len(job.options)
    return tasks


@dataclass(frozen=True)
class Settled:
    """What a task came to: results by place, and what has to run (again)."""

    results: dict[int, ExecutionResult]
    again: list[Task]


def settle(task: Task, reply: Reply) -> Settled:
    """Turn a reply into results; what a misbehaving child left undone runs again."""
    if len(task.jobs) == 1:
        return Settled({task.numbers[0]: settle_single(task.jobs[0], reply)}, [])
    if reply.reason == "forged" or len(reply.calls) > len(task.jobs):
        return Settled({}, task.singles())
    done = len(reply.calls)
    results = {
        number: finished(job, call, reply)
        for number, job, call in zip(task.numbers, task.jobs, reply.calls, strict=False)
    }
    # The call that ended the child goes alone, the others go on together.
    culprit = Task(task.numbers[done : done + 1], task.jobs[done : done + 1])
    others = Task(task.numbers[done + 1 :], task.jobs[done + 1 :])
    return Settled(results, [each for each in (culprit, others) if each.jobs])


def lost(task: Task, why: str) -> Settled:
    """A task was lost to the infrastructure: once more, then call by call, then say so."""
    if task.attempts == 0:
        return Settled({}, [Task(task.numbers, task.jobs, attempts=1)])
    if len(task.jobs) > 1:
        return Settled({}, task.singles())
    failure = ExecutionResult("infrastructure", detail=f"lost twice: {why}")
    return Settled({task.numbers[0]: failure}, [])


@dataclass
class _Active:
    """A fork server with the tasks that it has, the one that it runs first."""

    server: ForkServer
    tasks: deque[Task]
    nonces: deque[str] = field(default_factory=deque)
    deadline: float = 0.0

    def renew(self, more: float = 0.0) -> None:
        """The first task begins only now."""
        self.deadline = time.monotonic() + self.tasks[0].budget() + STUCK_SECONDS + more


class Batch:
    """Drives the tasks of one call over the fork servers it gets, in the caller's thread."""

    def __init__(
        self,
        servers: Servers,
        tasks: Iterable[Task],
        lanes: int,
        stop: threading.Event | None = None,
    ) -> None:
        self.servers = servers
        self.stop = stop
        self.lanes = lanes
        self.waiting = deque(tasks)
        self.active: dict[int, _Active] = {}
        self.results: dict[int, ExecutionResult] = {}
        self.poller = select.poll()

    def run(self) -> dict[int, ExecutionResult]:
        try:
            while self.waiting or self.active:
                if self.stop is not None and self.stop.is_set():
                    break
                self.fill()
                self.collect()
        finally:
            # Stopped, or after an exception: what still runs has nobody left to report to.
            for active in list(self.active.values()):
                self.drop(active, broken=True)
        return self.results

    def fill(self) -> None:
        """Start waiting tasks while there is a lane for this call and a permit in the pool."""
        while self.waiting and len(self.active) < self.lanes:
            kind = Kind.of(self.waiting[0].jobs[0])
            server = self.servers.acquire(kind, block=not self.active, stop=self.stop)
            if server is None:
                return
            self.start(server, self.bundle(kind))

    def bundle(self, kind: Kind) -> deque[Task]:
        """Waiting tasks to send together: the fewer messages, the less time goes into waking up.

        Few enough that no lane is left with much to do when the others are done, and short enough that
        the socket takes them all at once, whatever the fork server is doing.
        """
        most = min(_BUNDLE_TASKS, len(self.waiting) // (2 * self.lanes))
        tasks = deque([self.waiting.popleft()])
        chars = tasks[0].chars()
        while len(tasks) < most and not tasks[0].attempts:
            task = self.waiting[0]
            chars += task.chars()
            if chars > _BUNDLE_CHARS or task.attempts or Kind.of(task.jobs[0]) != kind:
                break
            tasks.append(self.waiting.popleft())
        return tasks

    def start(self, server: ForkServer, tasks: deque[Task]) -> None:
        active = _Active(server, tasks)
        active.renew(START_SECONDS if server.guarantees is None else 0.0)
        self.active[server.fileno()] = active
        self.poller.register(server.fileno(), select.POLLIN)
        requests = []
        for task in tasks:
            requests.append(request_for(task.jobs, server.known, early=not task.attempts))
            active.nonces.append(requests[-1]["nonce"])
            if requests[-1]["recorder"] is not None:
                server.known.add(requests[-1]["recorder"][0])
        try:
            server.submit(requests)
        except Lost as lost:
            self.lose(active, str(lost))

    def collect(self) -> None:
        """Wait until something can be done, and take in what has arrived."""
        if not self.active:
            return
        wait = min(active.deadline for active in self.active.values()) - time.monotonic()
        if self.waiting and len(self.active) < self.lanes:
            wait = min(wait, 0.05)  # another caller may have given a permit back
        if self.stop is not None:
            wait = min(wait, STOP_SECONDS)
        for fd, _ in self.poller.poll(max(0.0, wait) * 1000):
            self.take(self.active[fd])
        now = time.monotonic()
        for active in list(self.active.values()):
            if now >= active.deadline:
                self.lose(active, "it did not answer in time")

    def take(self, active: _Active) -> None:
        """Take in the replies that have arrived."""
        while active.tasks:
            try:
                received = active.server.receive()
                if received is None:
                    return
                reply = parse_reply(*received, active.nonces[0])
            except Lost as lost:
                self.lose(active, str(lost))
                return
            if not reply.started:
                self.lose(active, f"the guest could not be set up: {reply.failure or reply.reason}")
                return
            self.servers.note_start(True)
            active.nonces.popleft()
            self.take_in(settle(active.tasks.popleft(), reply))
            if active.tasks:
                active.renew()
        self.drop(active, broken=False)

    def drop(self, active: _Active, *, broken: bool) -> None:
        fd = active.server.fileno()
        self.poller.unregister(fd)
        del self.active[fd]
        self.servers.release(active.server, broken=broken)

    def lose(self, active: _Active, why: str) -> None:
        """The job that ran was lost to the infrastructure: once more, then say so."""
        words = active.server.last_words()
        greeted = active.server.guarantees is not None
        self.drop(active, broken=True)
        self.servers.note_start(greeted, f"{why}\n{words}".strip())
        lost_task = active.tasks.popleft()
        self.waiting.extendleft(reversed(active.tasks))  # their turn had not come
        self.take_in(lost(lost_task, f"{why}. {words}".strip()))

    def take_in(self, settled: Settled) -> None:
        self.results.update(settled.results)
        self.waiting.extendleft(reversed(settled.again))
