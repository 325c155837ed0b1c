"""The demonstration's rows: sloppy answers for the warm-up, true specs for GRPO and for the held-out figures.

Traced in bulk and kept as JSON lines in the output folder, so that a second run does not trace again. No
program of the held-out rows, by its source, is in any other rows. Does not cover how rows are used.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from synth.seeds import digest, rng
from trainers.demo_form import answer_of, listing, spec_of
from trainers.demo_programs import Program, Run, bent, draw, runs_of

__all__ = ["held_out", "to_reward", "to_warm_up"]

VERSION = "2"
"""Part of the name of what is kept; changes with the language or the form."""

Record = dict[str, str]


def held_out(folder: Path, count: int) -> list[Record]:
    """`count` rows, each of another program: `id`, `prompt`, `spec`."""

    def make() -> Iterator[Record]:
        source = rng("demo", "held-out")
        for runs in _traced(_programs("held-out", 2 * count + 20, frozenset())):
            if runs:
                yield _row(source.choice(runs))

    return _kept(folder, "held-out", f"{count}", count, make)


def to_reward(folder: Path, seed: int, count: int) -> list[Record]:
    """`count` rows to train on by reward, of up to three inputs a program, in the order of training."""

    def make() -> Iterator[Record]:
        source = rng("demo", "rewarded", str(seed))
        programs = _programs(f"rewarded-{seed}", count // 2 + 20, _held_out_codes(count=1000))
        rows = [_row(run) for runs in _traced(programs) for run in _some(runs, 3, source)]
        source.shuffle(rows)
        yield from rows

    return _kept(folder, f"rewarded-{seed}", f"{count}", count, make)


def to_warm_up(folder: Path, seed: int, count: int) -> list[Record]:
    """About `count` pairs `prompt`, `answer`, where the answers are runs of bent programs."""

    def make() -> Iterator[Record]:
        source = rng("demo", "warm-up", str(seed))
        shown = _programs(f"warm-up-{seed}", count // 3 + 20, _held_out_codes(count=1000))
        for program, runs in zip(shown, _traced([bent(one, source) for one in shown]), strict=True):
            for run in _some(runs, 5, source):
                yield {"prompt": listing(program.lines, run.args), "answer": answer_of(run)}

    return _kept(folder, f"warm-up-{seed}", f"{count}", count, make)


def _programs(name: str, count: int, without: frozenset[str]) -> list[Program]:
    """`count` distinct programs, none whose source is in `without`."""
    source = rng("demo", "programs", name)
    found: dict[str, Program] = {}
    while len(found) < count:
        program = draw(source)
        if program.code not in without:
            found[program.code] = program
    return list(found.values())


def _held_out_codes(count: int) -> frozenset[str]:
    """Sources of every program that `held_out` may use for up to `count` rows."""
    return frozenset(program.code for program in _programs("held-out", 2 * count + 20, frozenset()))


def _traced(programs: list[Program]) -> list[list[Run]]:
    return runs_of(programs)


def _some(runs: list[Run], most: int, source: Random) -> list[Run]:
    return source.sample(runs, min(most, len(runs)))


def _row(run: Run) -> Record:
    prompt = listing(run.lines, run.args)
    return {"id": digest(prompt)[:12], "prompt": prompt, "spec": spec_of(run).to_json()}


def _kept(
    folder: Path, name: str, key: str, count: int, make: Callable[[], Iterator[Record]]
) -> list[Record]:
    """The first `count` records, from the folder if they lie there."""
    path = folder / "data" / f"{name}-{digest(VERSION, name, key)[:8]}.jsonl"
    if path.is_file():
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    records = [record for record, _ in zip(make(), range(count), strict=False)]
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(one) + "\n" for one in records), encoding="utf-8")
    partial.replace(path)
    return records
