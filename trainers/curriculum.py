"""In which order rows are shown: by level and pass rate, or by how the policy does.

`ordered` sorts once: levels up, within a level what the evaluator passes most first. `Ladder` moves a
level by recent success and draws each batch of prompts from it: a share from the current level, the rest
from those below, so that nothing is forgotten.

Every draw follows from (seed, number of the batch, level), and a batch uses the level that was decided two
batches before, because trainers fetch one ahead: so all processes draw the same, and a run that is resumed
draws what it would have drawn. Success is the mean that TRL gathers over all processes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from synth.seeds import rng
from trainers.layouts import Example
from trainers.records import CurriculumConfig

__all__ = ["Ladder", "LadderSampler", "ladder_callback", "ordered"]

FILE = "curriculum.json"
_AHEAD = 2


def ordered(examples: Sequence[Example], seed: int) -> list[Example]:
    """From low levels up; within a level from high pass rates down, unknown ones last; ties by seed."""
    places = list(range(len(examples)))
    rng("curriculum", str(seed)).shuffle(places)
    tie = {number: place for place, number in enumerate(places)}

    def key(number: int) -> tuple[int, float, int]:
        example = examples[number]
        rate = -1.0 if example.pass_rate is None else example.pass_rate
        return (example.level or 0, -rate, tie[number])

    return [examples[number] for number in sorted(range(len(examples)), key=key)]


@dataclass
class Ladder:
    """The level of each batch, as recent success has moved it."""

    config: CurriculumConfig
    levels: tuple[int, ...]
    """The levels that there are, ascending."""
    decided: list[int] = field(default_factory=list)
    """Place in `levels` after each batch that was judged, oldest first."""
    recent: list[float] = field(default_factory=list)
    """Success since the level last moved."""

    def place(self, batch: int) -> int:
        """Place in `levels` from which batch number `batch` (from 0) is drawn."""
        known = batch - _AHEAD
        return self.decided[min(known, len(self.decided) - 1)] if known >= 0 and self.decided else 0

    def judge(self, success: float) -> int:
        """Take in the success of one batch, in [0, 1]; returns the place from then on."""
        now = self.decided[-1] if self.decided else 0
        self.recent.append(success)
        window = self.recent[-self.config.window :]
        mean = sum(window) / len(window)
        if len(window) == self.config.window:
            step = (mean >= self.config.up) - (mean < self.config.down)
            moved = min(max(now + step, 0), len(self.levels) - 1)
            if moved != now:
                self.recent.clear()  # what was passed on another level says little of this one
                now = moved
        self.decided.append(now)
        return now

    def save(self, folder: Path) -> None:
        """Beside a checkpoint."""
        text = json.dumps({"decided": self.decided, "recent": self.recent})
        (folder / FILE).write_text(text + "\n", encoding="utf-8")

    def restore(self, folder: Path) -> None:
        """What `save` has written."""
        state = json.loads((folder / FILE).read_text(encoding="utf-8"))
        self.decided, self.recent = list(state["decided"]), list(state["recent"])


class LadderSampler:
    """Places of prompts in the order in which TRL wants them: groups of `repeats`, each batch `again` times."""

    def __init__(
        self,
        ladder: Ladder,
        levels: Sequence[int],
        *,
        prompts: int,
        repeats: int,
        again: int,
        seed: int,
    ) -> None:
        self.ladder = ladder
        self.places = {
            level: [number for number, own in enumerate(levels) if own == level]
            for level in ladder.levels
        }
        self.prompts, self.repeats, self.again, self.seed = prompts, repeats, again, seed
        self.batches = max(1, len(levels) // prompts)
        self.epoch = 0

    def __len__(self) -> int:
        return self.batches * self.prompts * self.repeats * self.again

    def __iter__(self) -> Iterator[int]:
        first = self.epoch * self.batches
        self.epoch += 1  # for loaders that do not say which epoch it is
        for batch in range(first, first + self.batches):
            chosen = self.draw(batch)
            for _ in range(self.again):
                for number in chosen:
                    yield from [number] * self.repeats

    def set_epoch(self, epoch: int) -> None:
        """Which epoch the next iteration is, from 0."""
        self.epoch = epoch

    def draw(self, batch: int) -> list[int]:
        """Places of the prompts of one batch."""
        now = self.ladder.place(batch)
        draw = rng("ladder", str(self.seed), str(batch), str(now))
        below = [n for level in self.ladder.levels[:now] for n in self.places[level]]
        own = list(self.places[self.ladder.levels[now]])
        wanted = (
            self.prompts if not below else max(1, round(self.prompts * self.ladder.config.share))
        )
        chosen = _some(own, wanted, draw)
        return chosen + _some(below or own, self.prompts - len(chosen), draw)


def _some(numbers: list[int], count: int, draw: random.Random) -> list[int]:
    """`count` of `numbers`, none twice before all have been taken."""
    found: list[int] = []
    while len(found) < count:
        found += draw.sample(numbers, min(len(numbers), count - len(found)))
    return found


def ladder_callback(ladder: Ladder, metric: str) -> Any:
    """The callback that feeds a ladder from the trainer's log, and keeps it with checkpoints.

    The log must be written at every step: a batch's rewards are logged with the first step it is good for.
    """
    from trainers.models import library

    base = library("transformers").TrainerCallback

    class LadderCallback(base):  # type: ignore[misc, valid-type]
        """Moves the level by the logged success; see `trainers.curriculum`."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if state.global_step and (folder / FILE).is_file():
                ladder.restore(folder)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            success = (logs or {}).get(metric)
            if success is not None:
                place = ladder.judge(float(success))
                state.log_history[-1]["curriculum/level"] = float(ladder.levels[place])

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            ladder.save(Path(args.output_dir) / f"checkpoint-{state.global_step}")

    return LadderCallback()
