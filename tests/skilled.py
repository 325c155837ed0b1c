"""A model of known skill for rows of a known answer, and what a measurement of it must find."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fault_server import Answer, StubServer, unit
from handmade import CODE, make_row

from rewards.row import Row
from synth.clients import Client, Patience, Server
from synth.completions import CompletionStore
from synth.difficulty import DifficultyConfig, Label, assess
from synth.difficulty.judging import Judge, RewardJudge, evaluator_ask
from synth.difficulty.labels import Rollout
from synth.prompts import output_prompt

COMMAND = """
import sys
from synth import cli
cli._entries().setdefault("difficulty", "synth.commands.difficulty:difficulty")
sys.argv[0] = "synth"
cli.main()
"""
"""`synth`, also where the installed entry points are older than this checkout."""

QUICK = Patience(concurrency=16, timeout=0.6, attempts=10, seconds=5.0, first_wait=0.002)


def numbered_row(number: int, **changes: Any) -> Row:
    """Row `number` of a dataset in which every prompt is another one; `number` >= 0."""
    args = f"[{number + 1}, -2, 3], 2"
    return make_row(
        number,
        args=args,
        output=f"[{2 * number + 2}, 6]",
        prompt=output_prompt(CODE, "scale", args),
        level=1 + number % 6,
        **changes,
    )


def text_of(row: Row) -> str:
    """The prompt of a row as the server sees it."""
    return "\n\n".join(content for _, content in row.prompt)


class Skilled:
    """Answers each prompt rightly with a probability that is the row's own, between 0 and 1."""

    def __init__(self, rows: Sequence[Row], *, cut: float = 0.0) -> None:
        self.rows = {text_of(row): row for row in rows}
        self.cut = cut
        """Share of completions that end for their length."""

    def skill(self, row: Row) -> float:
        """Nearly never, nearly always, or anything between: a third of the rows each."""
        kind = unit("kind", row.id)
        return 0.05 if kind < 1 / 3 else 0.95 if kind < 2 / 3 else unit("skill", row.id)

    def passes(self, row: Row, seed: int) -> bool:
        """Whether the completion with this seed is right and whole."""
        return not self.is_cut(row, seed) and unit(row.id, seed) < self.skill(row)

    def is_cut(self, row: Row, seed: int) -> bool:
        """Whether the completion with this seed is cut."""
        return unit("cut", row.id, seed) < self.cut

    def __call__(self, prompt: str, seed: int) -> Answer:
        row = self.rows[prompt]
        right = unit(row.id, seed) < self.skill(row)
        value = row.output if right else "[0, 0]"
        answer = f"assert {row.entry}({row.args}) == {value}"
        text = f"<reasoning>seed {seed}</reasoning>\n<answer>\n{answer}\n</answer>"
        return Answer(text, "length" if self.is_cut(row, seed) else "stop")


def expected(row: Row, skilled: Skilled, config: DifficultyConfig) -> tuple[str, int, int]:
    """(verdict, passes, rollouts) by drawing one by one: the slow definition."""
    ask = evaluator_ask(row, config)
    assert ask is not None
    passes = failures = 0
    while (verdict := config.bar.verdict(passes, failures)) is None:
        if skilled.passes(row, ask.seed(passes + failures)):
            passes += 1
        else:
            failures += 1
    return verdict, passes, passes + failures


def measured(
    rows: Sequence[Row],
    server: StubServer,
    config: DifficultyConfig,
    *,
    store: CompletionStore | Path | str = ":memory:",
    patience: Patience = QUICK,
    judge: Judge | None = None,
    solver: StubServer | None = None,
) -> tuple[list[Label], Client]:
    """The labels of rows and the client that was used."""

    async def run(kept: CompletionStore) -> tuple[list[Label], Client]:
        client = Client(Server(config.model, server.base_url), kept, patience)
        strong = None
        if solver is not None and config.solver_model is not None:
            strong = Client(Server(config.solver_model, solver.base_url), kept, patience)
        try:
            labels = await assess(
                rows, config, client, judge or RewardJudge(), solver=strong, workers=16
            )
        finally:
            await client.close()
            if strong is not None:
                await strong.close()
        return labels, client

    if isinstance(store, CompletionStore):
        return asyncio.run(run(store))
    with CompletionStore(store) as opened:
        return asyncio.run(run(opened))


def as_drawn(row: Row, skilled: Skilled, config: DifficultyConfig) -> Label:
    """The whole label that a row must get, without the tokens of single completions."""
    verdict, _, drawn = expected(row, skilled, config)
    ask = evaluator_ask(row, config)
    assert ask is not None
    rollouts = []
    for number in range(drawn):
        seed = ask.seed(number)
        cut, passed = skilled.is_cut(row, seed), skilled.passes(row, seed)
        status = "truncated" if cut else "right" if passed else "wrong"
        rollouts.append(Rollout(status, passed, "length" if cut else "stop", seed, None))
    return Label(row.id, verdict, tuple(rollouts))


def without_tokens(label: Label) -> Label:
    """The label without the tokens of single completions, which depend on how they were asked for."""
    rollouts = tuple(replace(one, completion_tokens=None) for one in label.rollouts)
    return replace(label, rollouts=rollouts)
