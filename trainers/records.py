"""What a training run is made of: one frozen record per part, checked when it is made.

Covers types, ranges and words. Does not cover where the values come from (`trainers.config`), nor the
fields of `trl`, which are TRL's own and are checked by the installed TRL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rewards.row import CONTROL_FLOW, DATA_FLOW, SHAPES
from synth.errors import ConfigError, closest

__all__ = [
    "FAMILIES",
    "LAYOUTS",
    "ORDERS",
    "STAGES",
    "CurriculumConfig",
    "DataConfig",
    "Extra",
    "LaunchConfig",
    "ModelConfig",
    "RewardConfig",
    "TrainConfig",
    "WatchConfig",
]

STAGES = ("sft", "whitebox", "codegen")
FAMILIES: Mapping[str, tuple[str, ...]] = {
    "both": (CONTROL_FLOW, DATA_FLOW),
    "control_flow": (CONTROL_FLOW,),
    "data_flow": (DATA_FLOW,),
    "none": (),
}
"""The ablation's four flags -> families of questions whose answers are paid for."""
LAYOUTS = ("auto", "rows", "chat", "eurus", "taco", "apps", "codeio", "pyx", "reference")
ORDERS = ("shuffled", "level", "adaptive")


def _word(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(
            f"{name} is {value!r}; expected one of {', '.join(known)}{closest(str(value), known)}"
        )


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}; expected a number from {low:g} to {high:g}")


def _at_least(name: str, value: float, low: int) -> None:
    if value < low:
        raise ConfigError(f"{name} is {value}; expected {low} or more")


def _finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ConfigError(f"{name} is {value}; expected a finite number")


@dataclass(frozen=True)
class ModelConfig:
    """The model to train, and how: all weights, or adapters (`lora_r` > 0)."""

    path: str = ""
    """Folder or Hub id; `tiny` for a model of 60 thousand weights made in this process."""
    revision: str | None = None
    dtype: str | None = None
    """`bfloat16`, `float16`, `float32`; default as stored."""
    attention: str | None = None
    """`attn_implementation` of transformers, such as `sdpa` or `flash_attention_2`."""
    trust_remote_code: bool = False
    lora_r: int = 0
    """Rank of the adapters; 0 trains all weights."""
    lora_alpha: int = 32
    lora_dropout: float = 0.0
    lora_targets: tuple[str, ...] = ()
    """Names of the modules that get adapters; empty for all linear ones but the head."""
    billions: float | None = None
    """Parameters in billions, for the estimate of memory; default from the name or the folder."""

    def __post_init__(self) -> None:
        _word("model.dtype", self.dtype or "float32", ("bfloat16", "float16", "float32"))
        _at_least("model.lora_r", self.lora_r, 0)
        _at_least("model.lora_alpha", self.lora_alpha, 1)
        _within("model.lora_dropout", self.lora_dropout, 0.0, 1.0)
        if self.billions is not None and not 0 < self.billions < math.inf:
            raise ConfigError(f"model.billions is {self.billions}; expected a number above 0")


@dataclass(frozen=True)
class DataConfig:
    """Which rows are trained on."""

    path: str = ""
    """Folder, file (.jsonl, .json, .parquet) or Hub id."""
    layout: str = "auto"
    """One of `LAYOUTS`; `auto` tells it by the columns."""
    name: str | None = None
    """Configuration of a dataset on the Hub."""
    split: str = "train"
    eval_split: str | None = None
    """Split of which the loss or reward is measured during training; default none."""
    eval_limit: int | None = 256
    tasks: tuple[str, ...] = ()
    """Tasks to keep: output, input, whitebox, unittest; empty for those of the stage."""
    levels: tuple[int, ...] = ()
    """Levels to keep; empty for all."""
    limit: int | None = None
    """Rows to keep, for comparisons at equal size."""
    balanced: bool = False
    """With `limit`: the same number of rows of each task and level, as far as there are any."""
    max_prompt_tokens: int | None = 2048
    """Longer prompts are left out and counted, as TRL does not."""
    prompts: str = "keep"
    """Of layouts that bring their own prompts: `keep` them, or write `ours` from the program."""

    def __post_init__(self) -> None:
        _word("data.layout", self.layout, LAYOUTS)
        _word("data.prompts", self.prompts, ("keep", "ours"))
        for task in self.tasks:
            _word("data.tasks", task, ("output", "input", "whitebox", "unittest"))
        for name in ("limit", "eval_limit", "max_prompt_tokens"):
            value = getattr(self, name)
            if value is not None:
                _at_least(f"data.{name}", value, 1)
        if self.balanced and self.limit is None:
            raise ConfigError("data.balanced needs data.limit: say how many rows to keep")
        if self.eval_split is not None and self.eval_split == self.split:
            raise ConfigError(
                f"data.eval_split and data.split are both {self.split!r}; expected another split"
            )


@dataclass(frozen=True)
class Extra:
    """A further reward, named by where it can be imported from."""

    path: str
    """`package.module.name` or `package.module:name`: called as TRL calls rewards."""
    weight: float = 1.0
    """0 logs it without paying it."""
    name: str = ""
    """Under which it is logged; default its own."""
    each: bool = False
    """It takes one completion and its spec, `f(completion, spec, **columns) -> float | None`."""
    retries: int = 2
    """With `each`: how often it is asked again when it raises, before the row goes unscored."""

    def __post_init__(self) -> None:
        if not self.path.replace(":", ".").count("."):
            raise ConfigError(
                f"reward.extra path is {self.path!r}; expected package.module.name of a function"
            )
        _finite("reward.extra weight", self.weight)
        _at_least("reward.extra retries", self.retries, 0)


@dataclass(frozen=True)
class RewardConfig:
    """What an answer is paid. The defaults are the paper's."""

    shape: str = "gated"
    """One of `rewards.row.SHAPES`, for all rows of the run; `row` keeps that of each row."""
    alpha: float = 0.5
    """Share of the white-box part, in [0, 1]."""
    format: float = 0.0
    """Weight of the term for the asked form, in [0, 1]."""
    families: str = "both"
    """One of `FAMILIES`: which white-box answers are paid; `none` pays the output alone."""
    scale: float | None = None
    """The most that a completion can earn; default 2 for whitebox runs that are gated, else 1."""
    tests: str = "share"
    """Unit tests: the `share` passed, or `all` or nothing."""
    equality: str = "strict"
    """When values are equal: `strict` or `python`."""
    weight: float = 1.0
    """Weight of this reward beside the extra ones."""
    extra: tuple[Extra, ...] = ()

    def __post_init__(self) -> None:
        _word("reward.shape", self.shape, (*SHAPES, "row"))
        _word("reward.families", self.families, tuple(FAMILIES))
        _word("reward.tests", self.tests, ("share", "all"))
        _word("reward.equality", self.equality, ("strict", "python"))
        _within("reward.alpha", self.alpha, 0.0, 1.0)
        _within("reward.format", self.format, 0.0, 1.0)
        _finite("reward.weight", self.weight)
        if self.scale is not None and not 0 < self.scale < math.inf:
            raise ConfigError(f"reward.scale is {self.scale}; expected a number above 0")


@dataclass(frozen=True)
class CurriculumConfig:
    """In which order rows are shown."""

    order: str = "shuffled"
    """`shuffled`; `level`: from low levels and easy rows up; `adaptive`: by recent success."""
    up: float = 0.7
    """Success from which the level rises, in [0, 1]."""
    down: float = 0.3
    """Success below which the level falls, in [0, up)."""
    window: int = 4
    """Generations over which success is averaged, >= 1."""
    share: float = 0.5
    """Share of the current level in what is drawn; the rest comes from those below. In (0, 1]."""

    def __post_init__(self) -> None:
        _word("curriculum.order", self.order, ORDERS)
        _within("curriculum.up", self.up, 0.0, 1.0)
        if not 0 <= self.down < self.up:
            raise ConfigError(
                f"curriculum.down is {self.down}; expected 0 or more, below up ({self.up})"
            )
        _at_least("curriculum.window", self.window, 1)
        if not 0 < self.share <= 1:
            raise ConfigError(f"curriculum.share is {self.share}; expected above 0, at most 1")


@dataclass(frozen=True)
class WatchConfig:
    """When a run is called sick."""

    zero_variance: float = 0.8
    """Warn when more than this share of groups has one reward throughout, so teaches nothing."""
    unscored: float = 0.2
    """Warn when more than this share of completions has no score."""
    max_unscored: float = 0.5
    """Stop when more than this share of one batch has none: a dead sandbox must not go unnoticed."""
    window: int = 5
    """Log entries over which shares are averaged, >= 1."""
    rollouts: int = 1
    """Keep every N-th batch of rollouts as Parquet; 0 keeps none."""

    def __post_init__(self) -> None:
        for name in ("zero_variance", "unscored", "max_unscored"):
            _within(f"watch.{name}", getattr(self, name), 0.0, 1.0)
        _at_least("watch.window", self.window, 1)
        _at_least("watch.rollouts", self.rollouts, 0)


@dataclass(frozen=True)
class LaunchConfig:
    """Where it runs: what a launcher is told, and what divisibility and memory are checked against."""

    recipe: str | None = None
    """A configuration of accelerate: a name in `trainers/recipes/accelerate`, or a path."""
    machines: int = 1
    gpus: int = 1
    """Per machine, those that only generate left out; 0 for the CPU."""
    gpu_memory_gb: float = 80.0
    serve: int = 0
    """Machines or GPUs that run `trl vllm-serve` instead of training, for `vllm_mode = "server"`."""

    def __post_init__(self) -> None:
        _at_least("launch.machines", self.machines, 1)
        _at_least("launch.gpus", self.gpus, 0)
        _at_least("launch.serve", self.serve, 0)

    @property
    def processes(self) -> int:
        """Training processes in all."""
        return self.machines * max(1, self.gpus)


@dataclass(frozen=True)
class TrainConfig:
    """All of a run. `trl` holds fields of `SFTConfig` or `GRPOConfig`, as TRL names them."""

    stage: str
    output: str = ""
    seed: int = 0
    model: ModelConfig = ModelConfig()
    data: DataConfig = DataConfig()
    reward: RewardConfig = RewardConfig()
    curriculum: CurriculumConfig = CurriculumConfig()
    watch: WatchConfig = WatchConfig()
    launch: LaunchConfig = LaunchConfig()
    trl: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _word("stage", self.stage, STAGES)
        for name in ("output_dir", "seed"):
            if name in self.trl:
                instead = "output" if name == "output_dir" else name
                raise ConfigError(f"trl.{name} is set by {instead!r}; expected it there")
        if self.curriculum.order != "shuffled" and self.trl.get("shuffle_dataset"):
            raise ConfigError(
                f"curriculum.order is {self.curriculum.order!r} and trl.shuffle_dataset is true:"
                " the order would be lost; leave one of them out"
            )
