"""The rewards of a run, called together and checked: what stands between TRL and any reward function.

    panel = Panel([Paid("whitebox", reward, 1.0), Paid("style", style, 0.1)], …)
    GRPOTrainer(reward_funcs=panel.functions, args=GRPOConfig(reward_weights=panel.weights, …))

TRL calls each function by itself; the first call of a batch makes the panel ask all of them, the others
get their part. Checked, on every batch and for every function, whatever the version of TRL:

- one reward for each completion, each a finite number or None; anything else ends the run by name;
- a column has one entry for each completion, or is one value for all; another length ends the run;
- a completion that one function cannot judge while it judges others of the same prompt is unscored by
  all of them, since TRL would otherwise take the missing term for a zero;
- more unscored completions than `max_unscored` end the run: they are a dead sandbox, not an answer.

Not covered: what rewards are worth, and groups that are split over processes.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from synth.errors import ConfigError, SynthError, closest
from trainers.records import Extra

__all__ = ["Each", "Paid", "Panel", "RewardError", "import_reward"]

NOT_COLUMNS = ("trainer_state", "log_extra", "log_metric", "environments")
"""Keywords of TRL that are no columns of the dataset."""

Rewards = list["float | None"]


class RewardError(SynthError):
    """A reward function broke its contract, or too much of a batch has no score."""


@dataclass(frozen=True)
class Paid:
    """One reward function of a run."""

    name: str
    """Under which it is logged; unique."""
    function: Callable[..., Any]
    weight: float = 1.0


class Each:
    """A function of one completion, called for all: what raises is asked again, then is unscored.

    `function(completion, spec, **columns) -> float | None`, `completion` as text. It is for scorers that
    sit behind a wire: what their failure hands on is None, which is not the same as 0.
    """

    def __init__(
        self, function: Callable[..., Any], *, retries: int = 2, wait: float = 0.5, workers: int = 8
    ) -> None:
        self.function = function
        self.retries = retries
        self.wait = wait
        """Seconds before the first new try; doubled for each further one."""
        self.workers = workers
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.last: BaseException | None = None
        """What was raised last, for the message when too much is unscored."""

    def __call__(
        self, completions: Sequence[object], spec: Sequence[object] = (), **columns: Any
    ) -> Rewards:
        """One number or None for each completion, in order."""
        from concurrent.futures import ThreadPoolExecutor

        from rewards.answers import text_of

        names = [
            name for name in columns if name not in (*NOT_COLUMNS, "prompts", "completion_ids")
        ]
        specs = list(spec) or [None] * len(completions)

        def one(number: int) -> float | None:
            own = {name: columns[name][number] for name in names}
            return self._ask(text_of(completions[number]), specs[number], own)

        with ThreadPoolExecutor(max(1, min(self.workers, len(completions)))) as pool:
            return list(pool.map(one, range(len(completions))))

    def _ask(self, text: str | None, spec: object, columns: Mapping[str, Any]) -> float | None:
        for attempt in range(self.retries + 1):
            if attempt:
                time.sleep(self.wait * 2 ** (attempt - 1))
            try:
                found: float | None = self.function(text, spec, **columns)
                return found
            except (
                Exception
            ) as error:  # whatever a scorer's client raises; it is told if it matters
                self.last = error
        return None


def import_reward(extra: Extra) -> Paid:
    """The reward that a dotted path names. Raises `ConfigError` if there is none."""
    module, colon, name = extra.path.partition(":")
    if not colon:
        module, _, name = extra.path.rpartition(".")
    try:
        found: Any = import_module(module)
    except ImportError as error:
        raise ConfigError(f"reward {extra.path!r}: cannot import {module}: {error}") from error
    if not callable(getattr(found, name, None)):
        public = [each for each in dir(found) if not each.startswith("_")]
        raise ConfigError(
            f"reward {extra.path!r}: {module} has no function {name!r}{closest(name, public)}"
        )
    function = getattr(found, name)
    label = extra.name or getattr(function, "__name__", name)
    if extra.each:
        function = Each(function, retries=extra.retries)
    return Paid(label, function, extra.weight)


class Panel:
    """All rewards of a run."""

    def __init__(
        self,
        rewards: Sequence[Paid],
        *,
        max_unscored: float = 0.5,
        keep: Callable[[Mapping[str, Any], Any], None] | None = None,
    ) -> None:
        """`keep` is handed each batch as columns of one entry per completion, and the trainer's state."""
        names = [paid.name for paid in rewards]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ConfigError(
                f"two rewards are called {twice[0]!r}: their figures would be mixed up; give one of"
                " them another name"
            )
        self.rewards = tuple(rewards)
        self.max_unscored = max_unscored
        self.keep = keep
        self._batch: tuple[object, list[Rewards]] | None = None
        self.functions: list[Callable[..., Rewards]] = [
            self._part(number) for number in range(len(self.rewards))
        ]

    @property
    def weights(self) -> list[float]:
        """`reward_weights` of the trainer's configuration."""
        return [paid.weight for paid in self.rewards]

    def _part(self, number: int) -> Callable[..., Rewards]:
        def part(completions: Sequence[object], **columns: Any) -> Rewards:
            if self._batch is None or self._batch[0] is not completions:
                self._batch = (completions, self.judge(completions, **columns))
            return self._batch[1][number]

        part.__name__ = self.rewards[number].name
        return part

    def judge(
        self,
        completions: Sequence[object],
        prompts: Sequence[object] = (),
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[Rewards]:
        """The rewards of all functions for one batch. Raises `RewardError`."""
        started = time.perf_counter()
        count = len(completions)
        shared = {name: columns.pop(name) for name in NOT_COLUMNS if name in columns}
        each = {name: _spread(name, value, count) for name, value in columns.items()}
        extras: dict[str, list[Any]] = {}

        def extra(name: str, values: list[Any]) -> None:
            extras[name] = values
            if log_extra is not None:
                log_extra(name, values)

        given = {"prompts": list(prompts), "completions": completions, **each, **shared}
        given |= {"log_extra": extra, "log_metric": log_metric}
        found = self._ask_all(given, count)
        _harmonised(found, _groups(prompts, count))
        unscored = [all(one[row] is None for one in found) for row in range(count)]
        self._check_share(unscored)
        if log_metric is not None:
            log_metric("unscored", sum(unscored) / count if count else 0.0)
            log_metric("reward_seconds", time.perf_counter() - started)
        if self.keep is not None:
            table = {"prompt": list(prompts) or [None] * count, "completion": completions, **each}
            parts = {paid.name: one for paid, one in zip(self.rewards, found, strict=True)}
            self.keep({**table, **extras, **parts}, shared.get("trainer_state"))
        return found

    def _ask_all(self, given: Mapping[str, Any], count: int) -> list[Rewards]:
        answers = [paid.function(**given) for paid in self.rewards]
        waiting = [answer for answer in answers if inspect.isawaitable(answer)]
        if waiting:
            done = iter(asyncio.run(_gathered(waiting)))
            answers = [next(done) if inspect.isawaitable(answer) else answer for answer in answers]
        return [
            _numbers(paid.name, answer, count)
            for paid, answer in zip(self.rewards, answers, strict=True)
        ]

    def _check_share(self, unscored: Sequence[bool]) -> None:
        share = sum(unscored) / len(unscored) if unscored else 0.0
        if share > self.max_unscored:
            causes = [one.function.last for one in self.rewards if isinstance(one.function, Each)]
            cause = next((error for error in causes if error is not None), None)
            raise RewardError(
                f"{share:.0%} of {len(unscored)} completions have no score (at most"
                f" {self.max_unscored:.0%} may, watch.max_unscored): the sandbox or a scorer is down,"
                " or the rows are not of the task that the reward judges; nothing was trained on them"
                + (f". The last error: {cause}" if cause else "")
            ) from cause


async def _gathered(waiting: Sequence[Any]) -> list[Any]:
    return await asyncio.gather(*waiting)


def _spread(name: str, value: Any, count: int) -> list[Any]:
    """A column as one entry per completion; a single value is for all of them."""
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise RewardError(
            f"the column {name!r} has {len(value)} entries for {count} completions; expected one for"
            " each"
        )
    return list(value)


def _numbers(name: str, answer: Any, count: int) -> Rewards:
    """The rewards that a function returned, checked one by one."""
    try:
        values = list(answer)
    except TypeError:
        raise RewardError(
            f"the reward {name!r} returned a {type(answer).__name__}; expected a list with one number"
            " for each completion"
        ) from None
    if len(values) != count:
        raise RewardError(
            f"the reward {name!r} returned {len(values)} values for {count} completions; expected one"
            " for each"
        )
    found: Rewards = []
    for value in values:
        try:
            number = None if value is None else float(value)
        except (TypeError, ValueError):
            raise RewardError(
                f"the reward {name!r} returned a {type(value).__name__}; expected a number or None"
            ) from None
        if number is not None and math.isinf(number):
            raise RewardError(f"the reward {name!r} returned {number}; expected a finite number")
        found.append(None if number is None or math.isnan(number) else number)
    return found


def _groups(prompts: Sequence[object], count: int) -> list[range]:
    """Runs of equal prompts: the completions that are compared with each other."""
    if len(prompts) != count:
        return [range(count)]
    found, start = [], 0
    for place in range(1, count + 1):
        if place == count or prompts[place] != prompts[start]:
            found.append(range(start, place))
            start = place
    return found


def _harmonised(found: list[Rewards], groups: Sequence[range]) -> None:
    """Unscore, in all functions, what one of them judges for a part of its group only."""
    for group in groups:
        lost: set[int] = set()
        for judged in found:
            missing = {row for row in group if judged[row] is None}
            if len(missing) < len(group):
                lost |= missing
        for judged in found:
            for row in lost:
                judged[row] = None
