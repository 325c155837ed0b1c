"""The warm-up: supervised training on reasoning chains, with the loss on the answer only.

Covers rows with answers of their own (chains, conversations) and our rows, whose runs are narrated. Does
not cover packing or multi-turn conversations: of several turns the last answer is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainers.data import chained, columns, load
from trainers.models import adapters, library, load_model, load_tokenizer
from trainers.records import TrainConfig
from trainers.run import Outcome, arguments, carded, finish, prepare
from trainers.watch import log_callback

__all__ = ["train"]


def train(
    config: TrainConfig,
    *,
    resume: bool = False,
    model: Any = None,
    tokenizer: Any = None,
    callbacks: Sequence[Any] = (),
) -> Outcome:
    """Run the stage; `model` and `tokenizer` replace those that `config.model` names.

    Raises `ConfigError`, `DataError` or `FolderError` for what cannot be done as asked.
    """
    settings = arguments("SFTConfig", config)
    checkpoint = prepare(config, resume=resume)
    tokenizer = tokenizer or load_tokenizer(config.model)
    found = {"train": load(config.data, stage="sft", seed=config.seed)}
    if config.data.eval_split:
        found["eval"] = load(
            config.data, stage="sft", split=config.data.eval_split, seed=config.seed
        )
    chains = {name: chained(loaded) for name, loaded in found.items()}
    tables = {name: columns(loaded.examples, config) for name, loaded in chains.items()}
    reports = {name: loaded.report.to_json() for name, loaded in chains.items()}
    trainer = carded(library("trl").SFTTrainer, config, reports)(
        model=model or load_model(config.model, tokenizer, seed=config.seed),
        args=settings,
        processing_class=tokenizer,
        train_dataset=tables["train"],
        eval_dataset=tables.get("eval"),
        peft_config=adapters(config.model),
        callbacks=[log_callback(config.output), *callbacks],
    )
    trainer.train(resume_from_checkpoint=checkpoint)
    return finish(trainer, config, reports)
