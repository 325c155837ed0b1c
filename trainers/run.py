"""What all stages share: the output folder, resuming, seeds, TRL's arguments, the card, the end.

    OUTPUT/run.json        resolved settings, their digest, versions, what became of the rows, figures
    OUTPUT/config.toml     the same settings, to be given to --config
    OUTPUT/log.jsonl       the trainer's log      OUTPUT/rollouts/   what the policy wrote, and earned
    OUTPUT/checkpoint-N/   TRL's checkpoints      OUTPUT/            the trained model
    OUTPUT/merged/         of a run with adapters on one GPU: the whole model, for the next stage

A folder belongs to one set of settings: it is resumed with the same ones, or not at all.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import metadata
from pathlib import Path
from typing import Any

from synth.errors import ConfigError, FolderError, closest
from synth.version import VERSION
from trainers.config import digest, resolved, to_toml
from trainers.models import library, save_merged
from trainers.records import TrainConfig

__all__ = [
    "RUN",
    "Outcome",
    "arguments",
    "carded",
    "finish",
    "last_checkpoint",
    "prepare",
    "versions",
]

RUN = "run.json"
PACKAGES = ("torch", "transformers", "trl", "accelerate", "peft", "datasets")


@dataclass
class Outcome:
    """What a stage has done."""

    output: Path
    steps: int
    log: list[dict[str, Any]] = field(default_factory=list)
    reports: dict[str, Any] = field(default_factory=dict)
    trainer: Any = None


def versions() -> dict[str, str]:
    """Versions of what decides a run."""
    found = {"python": platform.python_version(), "execverify": VERSION}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def prepare(config: TrainConfig, *, resume: bool = False) -> str | None:
    """Make the output folder ready; returns the checkpoint to go on from, if `resume`.

    Of several processes the first does it and the others wait. Raises `FolderError` for a folder that is
    in use, `ConfigError` for one of other settings.
    """
    if not config.output:
        raise ConfigError("output is empty; give --out DIR or --set output=DIR")
    folder = Path(config.output)
    if os.environ.get("RANK", "0") == "0":
        _claim(folder, config, resume=resume)
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        library("accelerate").PartialState().wait_for_everyone()
    return last_checkpoint(folder) if resume else None


def _claim(folder: Path, config: TrainConfig, *, resume: bool) -> None:
    path = folder / RUN
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    if known is not None and not resume:
        raise FolderError(
            f"{folder} holds a run already: give --resume to go on with it, or another folder"
        )
    if known is not None and known["digest"] != digest(config):
        changed = sorted(_changed(known["config"], resolved(config)))
        raise ConfigError(
            f"{folder} holds a run with other settings ({', '.join(changed)}): resume it with its own,"
            f" --config {folder / 'config.toml'}, or give another folder"
        )
    if known is None and folder.is_dir() and any(folder.iterdir()):
        raise FolderError(f"{folder} is not empty and holds no run: give another folder")
    folder.mkdir(parents=True, exist_ok=True)
    if known is None:
        record = {"digest": digest(config), "config": resolved(config), "versions": versions()}
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], above: str = "") -> list[str]:
    found: list[str] = []
    for key in sorted({*old, *new} - ({"output", "launch"} if not above else set())):
        one, other = old.get(key), new.get(key)
        if isinstance(one, dict) and isinstance(other, dict):
            found += _changed(one, other, f"{above}{key}.")
        elif one != other:
            found.append(above + key)
    return found


def last_checkpoint(folder: str | Path) -> str | None:
    """The newest checkpoint that is complete; None if there is none yet."""
    found = []
    for path in Path(folder).glob("checkpoint-*"):
        # The state is written last of what a resume needs.
        if path.name[11:].isdigit() and (path / "trainer_state.json").is_file():
            found.append((int(path.name[11:]), str(path)))
    return max(found)[1] if found else None


def arguments(kind: str, config: TrainConfig, **more: Any) -> Any:
    """The `SFTConfig` or `GRPOConfig` of a run. Raises `ConfigError` for what the installed TRL refuses."""
    trl = library("trl")
    made = getattr(trl, kind)
    known = [each.name for each in fields(made)]
    for name in config.trl:
        if name not in known:
            raise ConfigError(
                f"trl.{name} is no field of {kind} in TRL {metadata.version('trl')}{closest(name, known)}"
            )
    values = {**config.trl, "output_dir": config.output, "seed": config.seed, **more}
    try:
        return made(**values)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"TRL {metadata.version('trl')} refuses the settings: {error}") from error


def carded(trainer_class: Any, config: TrainConfig, reports: Mapping[str, Any]) -> Any:
    """The trainer class, with our section in every model card that TRL writes (also when it pushes)."""
    from trainers.card import add_section

    class Carded(trainer_class):  # type: ignore[misc]
        """TRL's trainer; only its card has a section more."""

        def create_model_card(self, *args: Any, **kwargs: Any) -> None:
            super().create_model_card(*args, **kwargs)
            if self.is_world_process_zero():
                path = Path(self.args.output_dir) / "README.md"
                add_section(path, config, reports, self.state.log_history)

    Carded.__name__ = Carded.__qualname__ = trainer_class.__name__
    return Carded


def finish(trainer: Any, config: TrainConfig, reports: Mapping[str, Any]) -> Outcome:
    """Save the model with its card and figures, push it if TRL was told to."""
    trainer.save_model(config.output)
    folder = Path(config.output)
    if trainer.is_world_process_zero():
        trainer.processing_class.save_pretrained(config.output)
        trainer.create_model_card()
        path = folder / RUN
        record = json.loads(path.read_text(encoding="utf-8"))
        record |= {"data": dict(reports), "steps": trainer.state.global_step, "finished": True}
        path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    if config.model.lora_r and trainer.args.world_size == 1:
        save_merged(trainer, config.output)
    if trainer.args.push_to_hub:
        trainer.push_to_hub(dataset_name=config.data.path)
    return Outcome(
        folder, trainer.state.global_step, list(trainer.state.log_history), dict(reports), trainer
    )
