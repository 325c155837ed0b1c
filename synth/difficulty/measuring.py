"""Rows -> labels: asks the small model until the bar decides, then the strong one.

Covers the order of questions, not how they travel (`synth.clients`) nor what is done with the labels
(`filtering.py`). Labels depend on the completions alone: not on the order in which they arrive, nor on
where an earlier run was killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from rewards.row import Row
from synth.clients import Asker, Fault
from synth.clients.faults import KINDS, OF_THE_PROMPT
from synth.completions import Ask, Reply
from synth.difficulty.config import DifficultyConfig
from synth.difficulty.judging import Judge, evaluator_ask, judged, solver_ask
from synth.difficulty.labels import NOT_ASKED, UNSOLVED, Label, Rollout
from synth.difficulty.stopping import KEPT

__all__ = ["assess"]

ROUNDS = 3
"""So often a row that a server's fault kept from being measured is taken up again."""
_PASSING = frozenset(KINDS) - OF_THE_PROMPT
ENOUGH_TO_DIFFER = 3
"""Completions of a row from which on it says something that they are all one text."""


async def assess(
    rows: Sequence[Row],
    config: DifficultyConfig,
    evaluator: Asker,
    judge: Judge,
    *,
    solver: Asker | None = None,
    workers: int = 16,
    progress: Callable[[int], None] = lambda labelled: None,
) -> list[Label]:
    """The label of each row, in order.

    `workers`: rows that are worked on at a time. `progress` is called with the number of rows that have
    their label. Raises what the askers raise to end a run (`ProviderError`), after the work under way
    has been called off.
    """
    meter = _Meter(config, evaluator, solver, judge)
    labels: dict[int, Label] = {}
    settled = 0

    async def measure(place: int) -> None:
        nonlocal settled
        labels[place] = await meter.label(rows[place])
        settled += labels[place].verdict not in _PASSING
        progress(settled)

    left: Iterable[int] = range(len(rows))
    for _ in range(ROUNDS):
        await in_turn(measure, left, workers)
        left = [place for place in range(len(rows)) if labels[place].verdict in _PASSING]
        if not left:
            break
    return [labels[place] for place in range(len(rows))]


async def in_turn(
    work: Callable[[int], Awaitable[None]], items: Iterable[int], workers: int
) -> None:
    """Run `work` on every item, `workers` at a time; the first exception calls the rest off."""
    source = iter(items)

    async def worker() -> None:
        for item in source:
            await work(item)

    tasks = [asyncio.ensure_future(worker()) for _ in range(workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _Meter:
    """Measures one row after the other; holds no state of its own."""

    def __init__(
        self, config: DifficultyConfig, evaluator: Asker, solver: Asker | None, judge: Judge
    ) -> None:
        self.config = config
        self.evaluator = evaluator
        self.solver = solver
        self.judge = judge

    async def label(self, row: Row) -> Label:
        ask = evaluator_ask(row, self.config)
        if ask is None:
            return Label(row.id, NOT_ASKED)
        bar = self.config.bar
        rollouts: list[Rollout] = []
        texts: list[str | None] = []
        passes = 0
        while (verdict := bar.verdict(passes, len(rollouts) - passes)) is None:
            wanted = bar.chunk(passes, len(rollouts) - passes)
            replies = await _drawn(self.evaluator, ask, len(rollouts), wanted)
            if isinstance(replies, Fault):
                return Label(row.id, replies.kind, tuple(rollouts))
            rollouts += await self._judged(row, replies, few_shot=self.config.few_shot)
            texts += [reply.text for reply in replies]
            passes = sum(rollout.passed for rollout in rollouts)
        same = len(texts) >= ENOUGH_TO_DIFFER and len(set(texts)) == 1
        if verdict != KEPT or self.solver is None or self.config.solver_model is None:
            return Label(row.id, verdict, tuple(rollouts), same=same)
        verdict, solved = await self._solve(row, self.solver)
        return Label(row.id, verdict, tuple(rollouts), tuple(solved), same)

    async def _solve(self, row: Row, solver: Asker) -> tuple[str, list[Rollout]]:
        """Ask until it passes once; `KEPT`, `UNSOLVED`, or the kind of a fault."""
        ask = solver_ask(row, self.config)
        rollouts: list[Rollout] = []
        for number in range(self.config.solver_n):
            replies = await _drawn(solver, ask, number, 1)
            if isinstance(replies, Fault):
                return replies.kind, rollouts
            rollouts += await self._judged(row, replies)
            if rollouts[-1].passed:
                return KEPT, rollouts
        return UNSOLVED, rollouts

    async def _judged(
        self, row: Row, replies: Sequence[Reply], *, few_shot: bool = False
    ) -> list[Rollout]:
        # In a thread: an answer to an input row is run in the sandbox.
        return await asyncio.to_thread(judged, self.judge, row, replies, few_shot=few_shot)


async def _drawn(asker: Asker, ask: Ask, first: int, count: int) -> list[Reply] | Fault:
    """Completions `first` and following, or the first fault among them."""
    numbers = range(first, first + count)
    outcomes = await asker.sample(ask, numbers)
    replies: list[Reply] = []
    for number in numbers:
        outcome = outcomes[number]
        if isinstance(outcome, Fault):
            return outcome
        replies.append(outcome)
    return replies
