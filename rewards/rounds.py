"""Many gradings at once: what all of them ask for next is one batch of the sandbox.

A grading is a generator: it yields the jobs that it wants run, is sent their results, and returns what
came of them. Covers driving them side by side, running equal jobs once, and which calls share a
process. Does not cover what is asked or judged (`rewards.unittests`, `rewards.checking`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rewards.sandbox.jobs import ExecutionResult, Job

if TYPE_CHECKING:
    from rewards.sandbox.executor import Executor

__all__ = ["Steps", "together"]

Steps = Generator[list[Job], list[ExecutionResult], Any]
"""Asks for jobs to be run, is sent their results in the same order, and returns what came of it."""


def together(steps: Sequence[Steps], pool: Executor | None) -> list[Any]:
    """What each grading returns, in order.

    `pool`: where to run; None for the pool that all callers in this process share.
    """
    done: dict[int, Any] = {}
    runs = _Runs(pool)
    asking: dict[int, list[Job]] = {}

    def go_on(number: int, send: list[ExecutionResult] | None) -> None:
        try:
            # A generator that has not started takes None alone.
            asking[number] = steps[number].send(send)  # type: ignore[arg-type]
        except StopIteration as end:
            done[number] = end.value

    for number in range(len(steps)):
        go_on(number, None)
    while asking:
        asked, asking = asking, {}
        runs.run([job for jobs in asked.values() for job in jobs])
        for number, jobs in asked.items():
            go_on(number, [runs.known[job] for job in jobs])
    return [done[number] for number in range(len(steps))]


class _Runs:
    """What has been run for one batch, so that equal jobs run once."""

    def __init__(self, pool: Executor | None) -> None:
        self.pool = pool
        self.known: dict[Job, ExecutionResult] = {}
        self.slow: set[object] = set()  # programs of which a call has used up its budget

    def run(self, jobs: Iterable[Job]) -> None:
        """Run the jobs that have no result yet; the calls of one program go together."""
        groups: dict[object, list[Job]] = {}
        for job in dict.fromkeys(jobs):
            if job not in self.known:
                program = _program_of(job)
                # A call that does not end costs its budget twice in a group: there, and alone.
                alone = program is None or program in self.slow
                groups.setdefault(job if alone else program, []).append(job)
        if not groups:
            return
        if self.pool is None:
            from rewards.sandbox import run_groups
        else:
            run_groups = self.pool.run_groups
        results = run_groups(list(groups.values()))
        for group, found in zip(groups.values(), results, strict=True):
            self.known.update(zip(group, found, strict=True))
            if any(result.outcome == "timed_out" for result in found):
                self.slow.add(_program_of(group[0]))


def _program_of(job: Job) -> object:
    """What the calls of one program have in common; None for a script, which has its own input."""
    if job.entry is None:
        return None
    return (job.code, job.entry, job.recorder, job.hash_seed, job.apart)
