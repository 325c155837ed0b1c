"""Stages I and II: GRPO with white-box or unit-test rewards, by TRL's `GRPOTrainer`.

Covers which rewards are paid (ours, and any others by dotted path and weight), what is logged of them,
the order of rows, and a resume that goes on as if nothing had happened. Does not cover how completions
are sampled or the policy is updated: that is TRL's.

A batch of rollouts may serve several optimizer steps. TRL does not keep rollouts with a checkpoint, so
`save_steps` must be a multiple of those, or a resumed run would differ; `rounds_of` says how many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from synth.errors import ConfigError
from trainers.curriculum import Ladder, LadderSampler, ladder_callback, ordered
from trainers.data import Loaded, columns, fitting, load
from trainers.models import adapters, library, load_model, load_tokenizer
from trainers.panel import Paid, Panel, import_reward
from trainers.paying import scale_of
from trainers.records import TrainConfig
from trainers.rollouts import RolloutKeeper
from trainers.run import Outcome, arguments, carded, finish, prepare
from trainers.watch import Watch, log_callback, watch_callback

__all__ = ["panel_of", "rounds_of", "train"]


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    model: Any = None,
    tokenizer: Any = None,
    callbacks: Sequence[Any] = (),
) -> Outcome:
    """Run the stage; `model` and `tokenizer` replace those that `config.model` names.

    Raises `ConfigError`, `DataError` or `FolderError` for what cannot be done as asked, `RewardError` if a
    reward breaks its contract or too much of a batch has no score.
    """
    panel = panel_of(config)
    settings = arguments("GRPOConfig", config, **_ours(config, panel))
    check(config, settings)
    checkpoint = prepare(config, resume=resume)
    tokenizer = tokenizer or load_tokenizer(config.model)
    found = {"train": _loaded(config, tokenizer, config.data.split)}
    if config.data.eval_split:
        part = replace(config, data=replace(config.data, limit=config.data.eval_limit))
        found["eval"] = _loaded(part, tokenizer, config.data.eval_split)
    examples = list(found["train"].examples)
    if config.curriculum.order == "level":
        examples = ordered(examples, config.seed)
    reports = {name: loaded.report.to_json() for name, loaded in found.items()}
    ladder = _ladder(config, [example.level or 0 for example in examples])
    watching = [watch_callback(Watch(config.watch)), *_feeding(config, ladder)]
    trainer = _trainer_class(config, reports, ladder)(
        model=model or load_model(config.model, tokenizer, seed=config.seed),
        reward_funcs=panel.functions,
        args=settings,
        processing_class=tokenizer,
        train_dataset=columns(examples, config),
        eval_dataset=columns(found["eval"].examples, config, "eval") if "eval" in found else None,
        peft_config=adapters(config.model),
        # The log last: the others add to its entries.
        callbacks=[*watching, log_callback(config.output), *callbacks],
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    return finish(trainer, config, reports)


def panel_of(config: TrainConfig) -> Panel:
    """The rewards of a run. Raises `ConfigError` for one that cannot be imported."""
    reward = config.reward
    if config.stage == "codegen":
        from rewards.unittests import UnitTestReward

        scoring: Any = reward.tests
        own: Any = UnitTestReward(
            scoring, format=reward.format, scale=reward.scale or 1.0, name="unittest"
        )
    else:
        from rewards.grades import Policy
        from rewards.whitebox import Reward

        policy = Policy(equality=reward.equality, tests=reward.tests)
        own = Reward(scale=scale_of(reward), policy=policy)
    paid = [Paid(own.__name__, own, reward.weight), *map(import_reward, reward.extra)]
    keep = RolloutKeeper(config.output, every=config.watch.rollouts) if config.output else None
    return Panel(paid, max_unscored=config.watch.max_unscored, keep=keep)


def rounds_of(settings: Any) -> int:
    """Optimizer steps that one batch of rollouts serves, from a `GRPOConfig`."""
    slices = int(settings.steps_per_generation * settings.num_iterations)
    return max(1, slices // int(settings.gradient_accumulation_steps))


def check(config: TrainConfig, settings: Any) -> None:
    """What TRL takes and we do not. Raises `ConfigError`."""
    if settings.remove_unused_columns:
        raise ConfigError(
            "trl.remove_unused_columns is true, which takes the column `spec` away from the reward;"
            " expected false"
        )
    rounds = rounds_of(settings)
    strategy = getattr(settings.save_strategy, "value", settings.save_strategy)
    if strategy == "steps" and settings.save_steps % rounds:
        raise ConfigError(
            f"trl.save_steps is {settings.save_steps:g}, and a batch of rollouts serves {rounds} steps;"
            f" expected a multiple of {rounds}, since a checkpoint in between cannot be resumed truly"
        )
    slices = settings.steps_per_generation * settings.num_iterations
    if (
        slices > settings.gradient_accumulation_steps
        and slices % settings.gradient_accumulation_steps
    ):
        raise ConfigError(
            f"a batch of rollouts is cut into {slices} slices and a step takes"
            f" {settings.gradient_accumulation_steps}: expected a whole number of steps"
        )
    if config.curriculum.order == "adaptive" and settings.logging_steps != 1:
        raise ConfigError("curriculum.order is adaptive, which needs trl.logging_steps = 1")


def _ours(config: TrainConfig, panel: Panel) -> dict[str, Any]:
    """Fields of `GRPOConfig` that follow from our settings."""
    found: dict[str, Any] = {"reward_weights": panel.weights}
    if "remove_unused_columns" not in config.trl:
        found["remove_unused_columns"] = False
    if config.curriculum.order != "shuffled":
        found["shuffle_dataset"] = False
    return found


def _loaded(config: TrainConfig, tokenizer: Any, split: str) -> Loaded:
    loaded = load(config.data, stage=config.stage, split=split, seed=config.seed)
    return fitting(loaded, tokenizer, config.data.max_prompt_tokens)


def _ladder(config: TrainConfig, levels: Sequence[int]) -> tuple[Ladder, Sequence[int]] | None:
    if config.curriculum.order != "adaptive":
        return None
    return Ladder(config.curriculum, tuple(sorted(set(levels)))), levels


def _feeding(config: TrainConfig, ladder: tuple[Ladder, Sequence[int]] | None) -> list[Any]:
    if ladder is None:
        return []
    return [ladder_callback(ladder[0], SUCCESS[config.stage])]


SUCCESS = {"whitebox": "whitebox/io", "codegen": "unittest/tests"}
"""Stage -> figure of the log by which the level moves."""


def _trainer_class(
    config: TrainConfig, reports: dict[str, Any], ladder: tuple[Ladder, Sequence[int]] | None
) -> Any:
    base = carded(library("trl").GRPOTrainer, config, reports)
    if ladder is None:
        return base
    steps, levels = ladder

    class LadderTrainer(base):  # type: ignore[misc, valid-type]
        """Draws its prompts from a ladder of levels."""

        def _get_train_sampler(self, dataset: Any = None) -> Any:
            return LadderSampler(
                steps,
                levels,
                prompts=self.args.generation_batch_size // self.num_generations,
                repeats=self.num_generations,
                again=self.num_iterations * self.args.steps_per_generation,
                seed=self.args.seed,
            )

    return LadderTrainer
