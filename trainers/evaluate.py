"""Held-out figures of a model: outputs, white-box steps, whole traces, inputs, unit tests, with intervals.

    result = evaluate(model, tokenizer, examples, Sampling(...))

Greedy by default, one completion a row. Each figure is a share with its 95 % interval: Wilson's for yes or
no, a normal one around the mean of rows for shares of steps and tests. Completions without a score are
counted apart and are in no figure. Does not start servers; a model is loaded into this process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from rewards.grades import Graded, Policy
from rewards.grading import grade_all
from rewards.row import Spec
from synth.errors import ConfigError
from trainers.data import turns
from trainers.layouts import Example
from trainers.models import library

__all__ = ["Figure", "Result", "Sampling", "evaluate", "figures_of", "generate", "wilson"]


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn."""

    max_new_tokens: int = 1024
    temperature: float = 0.0
    """0 for greedy."""
    top_p: float = 1.0
    n: int = 1
    """Completions per row."""
    batch: int = 16
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "n", "batch"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; expected 1 or more")
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ConfigError(
                f"temperature is {self.temperature} and top_p {self.top_p}; expected 0 or more, and"
                " above 0 to 1"
            )
        if self.n > 1 and self.temperature == 0:
            raise ConfigError("n is above 1 and the temperature 0: all would be one text")


@dataclass(frozen=True)
class Figure:
    """A share, with the interval in which it lies with 95 % confidence."""

    name: str
    value: float
    low: float
    high: float
    count: int
    """Completions behind it."""


@dataclass
class Result:
    """What a model is worth on some rows."""

    figures: list[Figure] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    unscored: int = 0
    tokens: float = 0.0
    """Mean length of a completion."""
    completions: list[dict[str, Any]] = field(default_factory=list)

    def value(self, name: str) -> float | None:
        """The figure of that name; None if no row asks for it."""
        return next((figure.value for figure in self.figures if figure.name == name), None)

    def to_json(self) -> dict[str, Any]:
        """Figures and counts as JSON values, completions left out."""
        return {
            "figures": {f.name: [f.value, f.low, f.high, f.count] for f in self.figures},
            "statuses": dict(sorted(self.statuses.items())),
            "unscored": self.unscored,
            "mean_tokens": round(self.tokens, 2),
        }


def evaluate(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    sampling: Sampling | None = None,
    *,
    policy: Policy | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """The figures of `model` on rows that have a spec. The state of torch's generator is kept."""
    how = sampling or Sampling()
    drawn = [
        (example, text, size, cut)
        for example, text, size, cut in generate(model, tokenizer, examples, how, progress)
    ]
    specs = [Spec.from_json(example.spec) for example, *_ in drawn]
    graded = grade_all(
        list(zip(specs, [text for _, text, *_ in drawn], strict=True)),
        policy=policy or Policy(),
        truncated=[cut for *_, cut in drawn],
    )
    result = Result(figures=figures_of(graded))
    for (example, text, size, _), each in zip(drawn, graded, strict=True):
        result.statuses[each.status] = result.statuses.get(each.status, 0) + 1
        result.unscored += each.unscored
        result.tokens += size / len(drawn)
        record = {"id": example.id, "task": example.task, "level": example.level}
        result.completions.append(record | {"status": each.status, "completion": text})
    return result


def generate(
    model: Any,
    tokenizer: Any,
    examples: Sequence[Example],
    sampling: Sampling,
    progress: Callable[[int], None] | None = None,
) -> Iterator[tuple[Example, str, int, bool]]:
    """(row, completion, tokens, was it cut) for each row and draw, in order of the rows."""
    torch = library("torch")
    wanted = [example for example in examples for _ in range(sampling.n)]
    kept, training, side = torch.get_rng_state(), model.training, tokenizer.padding_side
    torch.manual_seed(sampling.seed)
    tokenizer.padding_side = "left"
    model.eval()
    try:
        for start in range(0, len(wanted), sampling.batch):
            part = wanted[start : start + sampling.batch]
            for example, ids in zip(part, _ids(model, tokenizer, part, sampling), strict=True):
                size = len(ids)
                cut = tokenizer.eos_token_id not in ids and size >= sampling.max_new_tokens
                yield example, tokenizer.decode(ids, skip_special_tokens=True), size, cut
            if progress is not None:
                progress(len(part))
    finally:
        torch.set_rng_state(kept)
        model.train(training)
        tokenizer.padding_side = side


def _ids(
    model: Any, tokenizer: Any, part: Sequence[Example], sampling: Sampling
) -> list[list[int]]:
    """Tokens of the completions, up to and with the first end of text."""
    torch = library("torch")
    texts = [
        tokenizer.apply_chat_template(
            turns(example.prompt), tokenize=False, add_generation_prompt=True
        )
        for example in part
    ]
    inputs = tokenizer(texts, return_tensors="pt", padding=True, add_special_tokens=False)
    inputs = inputs.to(model.device)
    drawing: dict[str, Any] = {"do_sample": False}
    if sampling.temperature > 0:
        drawing = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p}
        drawing["top_k"] = 0
    with torch.inference_mode():
        made = model.generate(
            input_ids=inputs["input_ids"],
            attention_mask=inputs["attention_mask"],
            max_new_tokens=sampling.max_new_tokens,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **drawing,
        )
    found = []
    for row in made[:, inputs["input_ids"].shape[1] :].tolist():
        end = tokenizer.eos_token_id
        found.append(row[: row.index(end) + 1] if end in row else row)
    return found


def figures_of(graded: Sequence[Graded]) -> list[Figure]:
    """All figures that some row asks for, in a fixed order."""
    scored = [one for one in graded if not one.unscored]
    found = []
    for task in ("output", "input", "whitebox"):
        rows = [one for one in scored if one.task == task and one.io is not None]
        right = sum(one.io.score == 1.0 for one in rows if one.io is not None)
        found.append(wilson(f"{task}/io", right, len(rows)))
    asked = [one for one in scored if one.questions]
    found.append(_mean("whitebox/steps", [one.w or 0.0 for one in asked]))
    whole = sum(one.status == "right" for one in asked)
    found.append(wilson("whitebox/all", whole, len(asked)))
    tested = [one.tests.score for one in scored if one.tests is not None]
    shares = [score for score in tested if score is not None]
    found.append(_mean("unittest/share", shares))
    found.append(wilson("unittest/all", sum(share == 1.0 for share in shares), len(shares)))
    found.append(wilson("format", sum(one.format == 1.0 for one in scored), len(scored)))
    return [figure for figure in found if figure.count]


def wilson(name: str, right: int, count: int, z: float = 1.96) -> Figure:
    """A share of yes with Wilson's interval; a count of 0 gives one that says nothing."""
    if not count:
        return Figure(name, 0.0, 0.0, 1.0, 0)
    share, square = right / count, z * z
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = z / (1 + square / count)
    half *= math.sqrt(share * (1 - share) / count + square / (4 * count * count))
    return Figure(name, share, max(0.0, middle - half), min(1.0, middle + half), count)


def _mean(name: str, values: Sequence[float], z: float = 1.96) -> Figure:
    if not values:
        return Figure(name, 0.0, 0.0, 1.0, 0)
    mean = sum(values) / len(values)
    spread = sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)
    half = z * math.sqrt(spread / len(values))
    return Figure(name, mean, max(0.0, mean - half), min(1.0, mean + half), len(values))
