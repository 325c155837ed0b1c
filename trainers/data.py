"""Rows -> what TRL trains on. Covers reading, choosing and checking; every row that is left out is counted.

    loaded = load(config.data, stage=config.stage)          # examples and a report
    table = columns(loaded.examples, config)                # datasets.Dataset for SFT or GRPO

Sources: a folder of `synth generate`, a .jsonl, .json or .parquet file, a folder of such files, or an id
on the Hub. GRPO reads the columns `prompt` (messages) and `spec` (JSON text; TRL hands it to the reward),
SFT `prompt` and `completion`. Our own rows have no completion: for SFT the run of each program is told
step by step (`synth.chains`), in the sandbox.

Not covered: what each layout means (`trainers.layouts`), what is paid (`trainers.paying`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from synth.errors import DataError
from synth.seeds import rng
from trainers.layouts import BrokenRow, Example, Layout, Options, detect
from trainers.reading import Place, read_records
from trainers.records import DataConfig, RewardConfig, TrainConfig

__all__ = ["TASKS", "Loaded", "Report", "chained", "choose", "columns", "fitting", "load"]

TASKS: dict[str, tuple[str, ...]] = {
    "sft": ("output", "input", "whitebox", "unittest", "chat"),
    "whitebox": ("output", "input", "whitebox"),
    "codegen": ("unittest",),
}
"""Stage -> tasks of the rows that it trains on by default."""


@dataclass
class Report:
    """What became of the records of a source: counts, and where each reason was met first."""

    source: str = ""
    layout: str = ""
    records: int = 0
    examples: int = 0
    """Examples made of them; one record may give several."""
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    """Reason -> records or examples left out."""
    first: dict[str, str] = field(default_factory=dict)
    """Reason -> the first place at which it was met."""
    unknown: tuple[str, ...] = ()
    """Columns that the layout knows nothing of, which were passed over."""

    def drop(self, reason: str, where: str) -> None:
        """Count one that is left out."""
        self.dropped[reason] += 1
        self.first.setdefault(reason, where)

    def lines(self) -> list[str]:
        """The report for people."""
        found = [
            f"{self.source}: {self.records:,} records of the layout {self.layout},"
            f" {self.kept:,} examples kept"
        ]
        if self.unknown:
            found.append(f"  columns passed over: {', '.join(self.unknown)}")
        for reason, count in sorted(self.dropped.items(), key=lambda item: (-item[1], item[0])):
            found.append(f"  left out: {count:,}, {reason} (first: {self.first[reason]})")
        return found

    def to_json(self) -> dict[str, Any]:
        """The report as JSON values."""
        return {
            **{name: getattr(self, name) for name in ("source", "layout", "records", "examples")},
            "kept": self.kept,
            "dropped": dict(sorted(self.dropped.items())),
            "unknown_columns": list(self.unknown),
        }


@dataclass(frozen=True)
class Loaded:
    """The examples of one split, and what became of the rest."""

    examples: tuple[Example, ...]
    report: Report


def load(config: DataConfig, *, stage: str, split: str | None = None, seed: int = 0) -> Loaded:
    """The examples of a split (default `config.split`), those the stage cannot use left out.

    Raises `DataError` if the source cannot be read or nothing is left of it.
    """
    wanted = split or config.split
    report = Report(source=config.path)
    options = Options(config.prompts, stage)
    tasks = config.tasks or TASKS[stage]
    kept: list[Example] = []
    layout: Layout | None = None
    seen: set[str] = set()
    columns_met: set[str] = set()
    for place, record in read_records(config.path, wanted, config.name, report.drop):
        report.records += 1
        if layout is None:
            layout = detect(set(record), config.layout)
            report.layout = layout.name
        columns_met |= record.keys()
        for example in _examples(layout, record, options, place, report):
            reason = _unwanted(example, config, stage, tasks, place.split or wanted, wanted, seen)
            if reason is None:
                seen.add(example.id)
                kept.append(example)
            else:
                report.drop(reason, place.text)
    if layout is not None:
        report.unknown = tuple(layout.unknown(columns_met))
    chosen = choose(kept, config, seed, report)
    report.kept = len(chosen)
    if not chosen:
        raise DataError(
            "\n".join([f"{config.path}: no example is left to train on", *report.lines()])
        )
    return Loaded(tuple(chosen), report)


def _examples(
    layout: Layout, record: dict[str, Any], options: Options, place: Place, report: Report
) -> Iterator[Example]:
    try:
        for example in layout.read(record, options):
            report.examples += 1
            yield example
    except BrokenRow as error:
        report.drop(str(error), place.text)


def _unwanted(
    example: Example,
    config: DataConfig,
    stage: str,
    tasks: Sequence[str],
    split: str,
    wanted: str,
    seen: set[str],
) -> str | None:
    """Why an example is left out; None if it is not."""
    if (example.split or split) != wanted:
        return f"split {example.split or split}"
    if example.task not in tasks:
        return f"task {example.task}"
    if config.levels and example.level not in config.levels:
        return f"level {example.level}"
    if stage != "sft" and not example.spec:
        return "nothing to judge an answer by"
    return "stands twice" if example.id in seen else None


def choose(
    examples: Sequence[Example], config: DataConfig, seed: int, report: Report
) -> list[Example]:
    """At most `config.limit` examples, drawn by seed, in their old order.

    Balanced: the strata of (task, level) give one each in turn until the limit is reached.
    """
    if config.limit is None or len(examples) <= config.limit:
        return list(examples)
    strata: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, example in enumerate(examples):
        key = (example.task, example.level or 0) if config.balanced else ("", 0)
        strata[key].append(number)
    for key, numbers in strata.items():
        rng("limit", str(seed), *map(str, key)).shuffle(numbers)
    taken: list[int] = []
    longest = max(map(len, strata.values()))
    for turn in range(longest):
        taken += [numbers[turn] for _, numbers in sorted(strata.items()) if turn < len(numbers)]
    chosen = set(taken[: config.limit])
    report.dropped["beyond the limit"] += len(examples) - config.limit
    report.first.setdefault("beyond the limit", "drawn by seed")
    return [example for number, example in enumerate(examples) if number in chosen]


def fitting(loaded: Loaded, tokenizer: Any, limit: int | None) -> Loaded:
    """Without the examples whose prompt has more than `limit` tokens, which are counted."""
    if limit is None:
        return loaded
    kept = []
    for example in loaded.examples:
        size = prompt_tokens(example, tokenizer)
        if size <= limit:
            kept.append(example)
        else:
            loaded.report.drop(f"prompt of more than {limit} tokens", f"{example.id}, {size}")
    if not kept:
        raise DataError(
            f"{loaded.report.source}: every prompt has more than {limit} tokens; raise"
            " data.max_prompt_tokens"
        )
    loaded.report.kept = len(kept)
    return Loaded(tuple(kept), loaded.report)


def prompt_tokens(example: Example, tokenizer: Any) -> int:
    """Tokens of the prompt, as the trainer will put it."""
    text = tokenizer.apply_chat_template(
        turns(example.prompt), tokenize=False, add_generation_prompt=True
    )
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])


def chained(loaded: Loaded, seed: int = 0) -> Loaded:
    """With a completion for each example: what it brings, or the narrated run of its program.

    Examples for which there is none (unit tests, programs whose run is not told) are counted.
    """
    silent = [example for example in loaded.examples if not example.completion]
    told = _narrated(silent) if silent else {}
    kept = []
    for example in loaded.examples:
        if example.completion:
            kept.append(example)
        elif told.get(example.id, "").startswith("<"):
            kept.append(replace(example, completion=told[example.id]))
        else:
            why = told.get(example.id, "task")
            loaded.report.drop(f"no answer to imitate ({why})", example.id)
    if not kept:
        raise DataError("\n".join([f"{loaded.report.source}: no row has an answer to imitate",
                                   *loaded.report.lines()]))  # fmt: skip
    loaded.report.kept = len(kept)
    return Loaded(tuple(kept), loaded.report)


def _narrated(examples: Iterable[Example]) -> dict[str, str]:
    """Id -> completion, or the reason why there is none (which never starts with `<`)."""
    from rewards.sandbox import SandboxPool
    from synth.chains import Dropped, narrated_chains
    from trainers.layouts.chats import row_of

    found: dict[str, str] = {}
    rows = [row_of(example) for example in examples if example.task in TASKS["whitebox"]]
    with SandboxPool() as sandbox:
        for chain in narrated_chains(rows, sandbox):
            found[chain.row_id] = chain.reason if isinstance(chain, Dropped) else chain.completion
    return found


def columns(examples: Sequence[Example], config: TrainConfig, part: str = "train") -> Any:
    """The `datasets.Dataset` of these examples for the stage; `part` is what they are for: train or eval."""
    from datasets import Dataset

    if config.stage == "sft":
        rows: list[dict[str, Any]] = [
            {
                "prompt": turns(example.prompt),
                "completion": [{"role": "assistant", "content": example.completion}],
            }
            for example in examples
        ]
    else:
        rows = [_row(example, config.reward) | {"part": part} for example in examples]
    return Dataset.from_list(rows)


def _row(example: Example, reward: RewardConfig) -> dict[str, Any]:
    from trainers.paying import paid

    return {
        "prompt": turns(example.prompt),
        "spec": paid(example.spec, reward),
        "id": example.id,
        "task": example.task,
        "level": example.level,
        "pass_rate": example.pass_rate,
    }


def turns(prompt: Sequence[tuple[str, str]]) -> list[dict[str, str]]:
    """Messages in the form that chat templates take."""
    return [{"role": role, "content": content} for role, content in prompt]
