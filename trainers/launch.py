"""How a run is started, and whether its numbers fit together: all that can be said without a GPU.

Covers the recipes of accelerate, the command lines (one for each machine, and the vLLM server's),
divisibility, and whether the installed TRL and accelerate take the settings.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from math import lcm
from pathlib import Path
from typing import Any

from synth.errors import ConfigError, closest
from trainers.memory import estimate, size_of
from trainers.models import library
from trainers.records import TrainConfig
from trainers.run import arguments

__all__ = ["Batch", "accepted", "batch_of", "commands", "plan", "recipe_names", "recipe_path"]


@dataclass(frozen=True)
class Batch:
    """Sizes that follow from the settings."""

    step: int
    """Rows, or completions, of one optimizer step, over all processes."""
    generation: int = 0
    """Completions of one batch of rollouts; 0 for SFT."""
    rounds: int = 1
    """Optimizer steps that one batch of rollouts serves."""
    prompts: int = 0
    """Prompts of one batch of rollouts."""


def batch_of(config: TrainConfig) -> Batch:
    """The sizes, checked. Raises `ConfigError` for numbers that do not divide."""
    trl, processes = config.trl, config.launch.processes
    each = int(trl.get("per_device_train_batch_size", 8))
    steps = int(trl.get("gradient_accumulation_steps", 1))
    step = each * processes * steps
    if config.stage == "sft":
        return Batch(step)
    slices = int(trl.get("steps_per_generation", steps))
    generation = int(trl.get("generation_batch_size", each * processes * slices))
    group = int(trl.get("num_generations", 8))
    where = f"{each} a process x {processes} processes"
    if generation % (each * processes):
        raise ConfigError(
            f"trl.generation_batch_size is {generation}, no multiple of {each * processes} ({where})"
        )
    if generation % group:
        raise ConfigError(
            f"a batch of rollouts has {generation} completions, no multiple of"
            f" trl.num_generations ({group}); the next is {-(-generation // group) * group}"
        )
    slices = generation // (each * processes) * int(trl.get("num_iterations", 1))
    if slices > steps and slices % steps:
        raise ConfigError(
            f"a batch of rollouts is cut into {slices} slices ({generation} completions, {where}), no"
            f" multiple of trl.gradient_accumulation_steps ({steps})"
        )
    rounds = max(1, slices // steps)
    if trl.get("save_strategy", "steps") == "steps" and trl.get("save_steps", 500) % rounds:
        raise ConfigError(
            f"trl.save_steps is {trl.get('save_steps', 500)}; expected a multiple of {rounds}, the steps"
            " that one batch of rollouts serves"
        )
    _check_vllm(config)
    return Batch(step, generation, rounds, generation // group)


def _check_vllm(config: TrainConfig) -> None:
    trl, processes = config.trl, config.launch.processes
    if not trl.get("use_vllm"):
        return
    parallel = int(trl.get("vllm_tensor_parallel_size", 1))
    if trl.get("vllm_mode", "colocate") == "server":
        if not config.launch.serve:
            raise ConfigError(
                "trl.vllm_mode is server and launch.serve is 0; expected the number of GPUs that"
                " generate, such as launch.serve=8"
            )
    elif processes % parallel:
        raise ConfigError(
            f"trl.vllm_tensor_parallel_size is {parallel}, no divisor of the {processes} processes"
        )
    length = trl.get("vllm_max_model_length")
    prompt, answer = config.data.max_prompt_tokens, int(trl.get("max_completion_length") or 512)
    if length is not None and prompt is not None and prompt + answer > length:
        raise ConfigError(
            f"trl.vllm_max_model_length is {length}; expected at least data.max_prompt_tokens +"
            f" trl.max_completion_length = {prompt + answer}"
        )


def notes(config: TrainConfig) -> list[str]:
    """What is allowed, and worth knowing."""
    found = []
    batch = batch_of(config)
    group = int(config.trl.get("num_generations", 8))
    if batch.generation and batch.generation // config.launch.processes % group:
        least = lcm(group, config.launch.processes * group)
        found.append(
            "note: groups are split over processes, so unscored completions cannot be taken out of"
            f" their group everywhere; a multiple of {least} completions keeps them whole"
        )
    for name, why in (("vllm", "trl.use_vllm"), ("deepspeed", "launch.recipe")):
        asked = (
            config.trl.get("use_vllm") if name == "vllm" else "zero" in str(config.launch.recipe)
        )
        if asked and find_spec(name) is None:
            found.append(f"note: {name} is not installed here ({why} needs it where it runs)")
    return found


# --------------------------------------------------------------------------------------- commands


def recipe_names() -> list[str]:
    """Names of the configurations of accelerate that come with the package."""
    folder = resources.files("trainers") / "recipes" / "accelerate"
    return sorted(each.name[:-5] for each in folder.iterdir() if each.name.endswith(".yaml"))


def recipe_path(name: str) -> Path:
    """The file of a recipe: a name of ours, or a path. Raises `ConfigError`."""
    if Path(name).suffix in (".yaml", ".yml"):
        if not Path(name).is_file():
            raise ConfigError(f"launch.recipe is {name!r}, which is no file")
        return Path(name)
    if name not in recipe_names():
        raise ConfigError(
            f"launch.recipe is {name!r}; expected a .yaml file or one of {', '.join(recipe_names())}"
            f"{closest(name, recipe_names())}"
        )
    return Path(str(resources.files("trainers") / "recipes" / "accelerate" / f"{name}.yaml"))


def commands(config: TrainConfig, settings: str | Path) -> list[list[str]]:
    """The command lines that start the run, one for each machine; `settings` is its TOML file.

    A vLLM server, if there is one, comes first. `$MAIN_ADDRESS` stands for the address of machine 0.
    """
    launch = config.launch
    own = [
        "-m",
        "trainers",
        config.stage,
        "--config",
        str(settings),
        "--out",
        config.output or "OUTPUT",
    ]
    if launch.recipe is None:
        return [["python", *own]]
    found = []
    if config.trl.get("use_vllm") and config.trl.get("vllm_mode") == "server":
        serve = ["trl", "vllm-serve", "--model", config.model.path]
        serve += ["--tensor_parallel_size", str(config.trl.get("vllm_tensor_parallel_size", 1))]
        parallel = int(config.trl.get("vllm_tensor_parallel_size", 1))
        serve += ["--data_parallel_size", str(max(1, launch.serve // parallel))]
        serve += ["--port", str(config.trl.get("vllm_server_port", 8000))]
        found.append(serve)
    for rank in range(launch.machines):
        line = ["accelerate", "launch", "--config_file", str(recipe_path(launch.recipe))]
        line += ["--num_processes", str(launch.processes), "--num_machines", str(launch.machines)]
        if launch.machines > 1:
            line += ["--machine_rank", str(rank), "--main_process_ip", "$MAIN_ADDRESS"]
            line += ["--main_process_port", "29500"]
        found.append([*line, *own])
    return found


def accepted(config: TrainConfig) -> list[str]:
    """Have the installed TRL and accelerate read the settings. Raises `ConfigError` if one refuses."""
    from importlib import metadata

    kind = "SFTConfig" if config.stage == "sft" else "GRPOConfig"
    found = []
    # On the CPU, whatever is asked for: nothing is run, and no GPU need be here.
    here: dict[str, Any] = {"use_cpu": True, "push_to_hub": False}
    if config.stage != "sft":
        here["reward_weights"] = [config.reward.weight, *(e.weight for e in config.reward.extra)]
    arguments(kind, config, **{"output_dir": config.output or "runs/dry", **here})
    found.append(f"TRL {metadata.version('trl')} takes the settings ({kind})")
    if config.launch.recipe is not None:
        path = recipe_path(config.launch.recipe)
        reading = library("accelerate.commands.config.config_args")
        parser = library("accelerate.commands.launch").launch_command_parser()
        try:
            reading.load_config_from_file(str(path))
            for line in commands(config, "config.toml"):
                if line[0] == "accelerate":
                    parser.parse_args(line[2:])
        except (ValueError, TypeError, KeyError, SystemExit) as error:
            raise ConfigError(f"accelerate refuses {path}: {error}") from error
        found.append(f"accelerate {metadata.version('accelerate')} takes {path.name}")
    return found


def plan(config: TrainConfig, settings: str | Path) -> list[str]:
    """All that a dry run says, after the settings. Raises `ConfigError` for what cannot run."""
    batch = batch_of(config)
    if config.stage == "sft":
        found = [f"{batch.step} rows a step"]
    else:
        found = [
            f"{batch.step} completions a step; {batch.generation} a batch of rollouts"
            f" ({batch.prompts} prompts), which serves {batch.rounds} steps"
        ]
    found += [shlex.join(line).replace("'$MAIN_ADDRESS'", "$MAIN_ADDRESS")
              for line in commands(config, settings)]  # fmt: skip
    size, recipe = size_of(config), str(config.launch.recipe)
    if size is not None and config.launch.gpus:
        sharded = any(word in recipe for word in ("fsdp", "zero3"))
        found += estimate(config, size, sharded=sharded, offloaded="offload" in recipe).lines()
    elif size is None:
        found.append(
            "memory: not estimated, as the size of the model is not known (model.billions)"
        )
    return [*found, *notes(config), *accepted(config)]
