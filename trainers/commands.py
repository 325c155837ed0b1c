"""`synth train sft|whitebox|codegen`, `synth evaluate`, and `python -m trainers` for launchers.

Covers options and what is printed. Everything heavy is imported by the command that needs it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from trainers.records import TrainConfig

__all__ = ["evaluate", "main", "train"]

LAUNCHED = "EXECVERIFY_LAUNCHED"
"""Set for what was started here, so that it never starts another launcher, whatever that one does."""

EPILOG = """\b
Examples:
  synth train sft --config paper-sft --set data.path=chains.jsonl --out runs/sft
  synth train whitebox --config paper-stage1 --set data.path=curriculum --out runs/stage1 --dry-run
  synth train whitebox --config cpu-tiny --set data.path=curriculum --out runs/tiny
  synth train presets
"""


@click.group(epilog=EPILOG, short_help="Train a model on rows: warm-up, stage I, stage II.")
def train() -> None:
    """Train a model by TRL's means, on rows of `synth generate` or a public layout.

    Settings come from presets and TOML files (--config, the last wins) and from --set key=value.
    """


def _options(command: Any) -> Any:
    options = (
        click.option("--config", "sources", multiple=True, metavar="NAME|FILE",
                     help="Preset or TOML file; may be given again, the last wins."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                     help="One setting, such as trl.learning_rate=2e-6."),
        click.option("--out", metavar="DIR", type=click.Path(), help="Output folder."),
        click.option("--limit", type=int, metavar="N", help="Rows to train on."),
        click.option("--balanced", is_flag=True,
                     help="With --limit: as many rows of each task and level."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def _running(command: Any) -> Any:
    command = click.option("--resume", is_flag=True, help="Go on with the run in DIR.")(command)
    return click.option(
        "--dry-run", is_flag=True, help="Print what would be done, check it, and stop."
    )(command)


def _config(stage: str, given: dict[str, Any]) -> TrainConfig:
    import json

    from trainers.config import load

    settings = list(given["settings"])
    if given["out"]:
        settings.append(f"output={json.dumps(given['out'])}")
    if given["limit"] is not None:
        settings.append(f"data.limit={given['limit']}")
    if given["balanced"]:
        settings.append("data.balanced=true")
    return load(stage, given["sources"], settings)


def _stage(ctx: click.Context, stage: str, *, dry_run: bool, resume: bool, **given: Any) -> None:
    from trainers.launch import batch_of

    config = _config(stage, given)
    if dry_run:
        _print_plan(config)
        return
    import os

    inside = "LOCAL_RANK" in os.environ or LAUNCHED in os.environ
    if config.launch.processes > 1 and not inside:
        ctx.exit(_launched(config, resume=resume))
    batch_of(config)
    started = int(os.environ.get("WORLD_SIZE", "1"))
    if started != config.launch.processes:
        from synth.errors import ConfigError

        raise ConfigError(
            f"{started} processes were started, and launch.machines x launch.gpus is"
            f" {config.launch.processes}; expected the same"
        )
    if stage == "sft":
        from trainers.sft import train as run
    else:
        from trainers.grpo import train as run
    outcome = run(config, resume=resume)
    if os.environ.get("RANK", "0") == "0":
        click.echo(f"{outcome.steps} steps -> {outcome.output}/")


def _print_plan(config: TrainConfig) -> None:
    from pathlib import Path

    from trainers.config import digest, to_toml
    from trainers.launch import plan

    click.echo(to_toml(config))
    click.echo(f"# digest {digest(config)}")
    for line in plan(config, Path(config.output or "OUTPUT") / "config.toml"):
        click.echo(f"# {line}")


def _launched(config: TrainConfig, *, resume: bool) -> int:
    """Start the run under accelerate, on one machine; returns its exit status."""
    import os
    import subprocess
    import tempfile
    from pathlib import Path

    from synth.errors import ConfigError
    from trainers.config import to_toml
    from trainers.launch import commands, plan

    if config.launch.recipe is None:
        raise ConfigError(
            f"launch.gpus is {config.launch.gpus} and launch.recipe is not set; expected a recipe, such"
            " as fsdp-1x8, or --config cluster-1x8"
        )
    plan(config, "config.toml")  # what cannot run is said here, not by each process
    if config.launch.machines > 1:
        raise ConfigError(
            f"launch.machines is {config.launch.machines}: give --dry-run for the command that each"
            " machine runs"
        )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.toml"
        path.write_text(to_toml(config), encoding="utf-8")
        line = commands(config, path)[-1]
        line[0:2] = [sys.executable, "-m", "accelerate.commands.launch"]
        line += ["--resume"] if resume else []
        return subprocess.run(line, env=os.environ | {LAUNCHED: "1"}, check=False).returncode


@train.command(
    epilog="""\b
Examples:
  synth train sft --config paper-sft --set data.path=chains.jsonl --out runs/sft --dry-run
  synth train sft --config cpu-tiny --set data.path=chains.jsonl --out runs/sft
""",
    short_help="Supervised warm-up on reasoning chains.",
)
@_options
@_running
@click.pass_context
def sft(ctx: click.Context, /, **given: Any) -> None:
    """Warm up: imitate answers that reason. Rows without an answer get the narrated run of their program."""
    _stage(ctx, "sft", **given)


@train.command(
    epilog="""\b
Examples:
  synth train whitebox --config cpu-tiny --set data.path=curriculum --out runs/tiny
  synth train whitebox --config paper-stage1 --set data.path=curriculum --out runs/stage1 --dry-run
""",
    short_help="Stage I: GRPO, white-box rewards.",
)
@_options
@_running
@click.pass_context
def whitebox(ctx: click.Context, /, **given: Any) -> None:
    """Stage I: GRPO on output, input and whitebox rows, paid for outputs and for single steps."""
    _stage(ctx, "whitebox", **given)


@train.command(
    epilog="""\b
Examples:
  synth train codegen --config paper-stage2 --set data.path=taco.parquet --out runs/stage2 --dry-run
""",
    short_help="Stage II: GRPO, unit tests.",
)
@_options
@_running
@click.pass_context
def codegen(ctx: click.Context, /, **given: Any) -> None:
    """Stage II: GRPO on unit-test rows, from the checkpoint of stage I (--set model.path=DIR)."""
    _stage(ctx, "codegen", **given)


@train.command(
    epilog="""\b
Examples:
  synth train presets
""",
    short_help="List presets and recipes.",
)
@click.argument("name", required=False)
def presets(name: str | None) -> None:
    """List what --config and launch.recipe know by name, or print the preset NAME."""
    from trainers.config import preset_names, preset_text
    from trainers.launch import recipe_names

    if name is not None:
        click.echo(preset_text(name), nl=False)
        return
    for each in preset_names():
        first = preset_text(each).partition("\n")[0].lstrip("# ")
        click.echo(f"{each:22} {first}")
    click.echo(f"\nlaunch.recipe: {', '.join(recipe_names())}")


@train.command(
    "verl-data",
    epilog="""\b
Examples:
  synth train verl-data curriculum --out verl-rows
""",
    short_help="Write rows in verl's layout.",
)
@click.argument("rows", type=click.Path())
@click.option("--stage", type=click.Choice(["whitebox", "codegen"]), default="whitebox",
              show_default=True, help="Which rows: those of stage I, or with unit tests.")  # fmt: skip
@_options
def verl_data(rows: str, stage: str, **given: Any) -> None:
    """Write the splits of ROWS as Parquet files for verl into DIR (--out)."""
    import json

    from synth.errors import ConfigError
    from trainers.verl import export

    if not given["out"]:
        raise ConfigError("--out is missing; give the folder for train.parquet")
    config = _config(
        stage, {**given, "settings": [f"data.path={json.dumps(rows)}", *given["settings"]]}
    )
    for name, count in export(config, given["out"]).items():
        click.echo(f"{count:,} rows -> {given['out']}/{name}")


@train.command(
    "verl-args",
    epilog="""\b
Examples:
  synth train verl-args stage1
""",
    short_help="Print a verl recipe as overrides.",
)
@click.argument("name")
def verl_args(name: str) -> None:
    """Print the settings of the verl recipe NAME (stage1, stage2) as command-line overrides."""
    from trainers.verl import overrides

    click.echo(" ".join(overrides(name)))


DEMO_EPILOG = """\b
Examples:
  synth train demo
  synth train demo --seeds 3 --out runs/demo
  synth train demo --quick --json
"""


@train.command(epilog=DEMO_EPILOG, short_help="Watch white-box rewards teach a tiny model here.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, metavar="N",
              help="Runs of everything, each from a seed of its own.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), metavar="N", help="Steps of GRPO; default 160.")
@click.option(
    "--quick", is_flag=True, help="A few steps: shows that the parts work, teaches nothing."
)
@click.option("--workers", type=click.IntRange(1), metavar="N",
              help="Processes at a time; default the usable cores, at most 4.")  # fmt: skip
@click.option("--out", type=click.Path(), metavar="DIR", default="demo", show_default=True,
              help="Folder for data, checkpoints, figures and plot.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def demo(
    *, seeds: int, steps: int | None, quick: bool, workers: int | None, out: str, as_json: bool
) -> None:
    """Warm a tiny model up, then train it with output-only, gated and additive rewards, and compare.

    Needs no download and no GPU: under twelve minutes on two cores. The rows are kept in DIR.
    """
    import json
    from dataclasses import replace
    from pathlib import Path

    from rewards.sandbox.pool import usable_cores
    from trainers.demo import Plan, run
    from trainers.demo_report import draw_plot, table, write_json

    plan = Plan.quick(seeds) if quick else Plan(seeds=seeds)
    plan = replace(plan, workers=workers or min(4, usable_cores()), steps=steps or plan.steps)
    folder = Path(out)
    result = run(plan, folder, lambda text: click.echo(text, err=True))
    record = write_json(result, folder / "figures.json")
    lines, path = draw_plot(result, folder)
    if as_json:
        click.echo(json.dumps(record, indent=2))
        return
    for line in (*table(result), "", *lines, "", f"-> {folder / 'figures.json'}, {path}"):
        click.echo(line)


EVALUATE_EPILOG = """\b
Examples:
  synth evaluate runs/stage1 curriculum --split test
  synth evaluate runs/stage1 curriculum --temperature 1 -n 4 --json
"""


@click.command(epilog=EVALUATE_EPILOG, short_help="Measure a model on held-out rows.")
@click.argument("model", metavar="MODEL")
@click.argument("rows", metavar="ROWS", type=click.Path())
@click.option("--split", default="test", show_default=True, help="Split to measure on.")
@click.option("--limit", type=int, metavar="N", help="Rows, balanced over tasks and levels.")
@click.option("-n", "n", type=int, default=1, show_default=True, help="Completions per row.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 for greedy.")
@click.option("--max-tokens", type=int, default=1024, show_default=True, metavar="N",
              help="Longest completion.")  # fmt: skip
@click.option("--batch", type=int, default=16, show_default=True, metavar="N",
              help="Rows that are generated for at a time.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Of sampling.")
@click.option(
    "--out", type=click.Path(), metavar="FILE", help="Write the completions, as JSON lines."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def evaluate(**given: Any) -> None:
    """Measure MODEL (a folder or Hub id) on held-out ROWS: shares with 95 % intervals.

    The model runs in this process, by transformers. Outputs, inputs and unit tests are yes or no;
    whitebox rows also give the share of steps, and of traces that are right throughout.
    """
    _evaluate(**given)


def _evaluate(
    *, model: str, rows: str, split: str, limit: int | None, n: int, temperature: float,
    max_tokens: int, batch: int, seed: int, out: str | None, as_json: bool,
) -> None:  # fmt: skip
    import json
    from pathlib import Path

    from trainers.data import TASKS, fitting, load
    from trainers.evaluate import Sampling
    from trainers.evaluate import evaluate as measure
    from trainers.models import load_model, load_tokenizer
    from trainers.records import DataConfig, ModelConfig

    sampling = Sampling(max_tokens, temperature, 1.0, n, batch, seed)
    tasks = (*TASKS["whitebox"], *TASKS["codegen"])
    data = DataConfig(path=rows, split=split, tasks=tasks, limit=limit, balanced=limit is not None)
    which = ModelConfig(path=model)
    loaded = load(data, stage="whitebox", seed=seed)
    tokenizer = load_tokenizer(which)
    loaded = fitting(loaded, tokenizer, data.max_prompt_tokens)
    result = measure(load_model(which, tokenizer, seed=seed), tokenizer, loaded.examples, sampling)
    if out:
        lines = [json.dumps(each) + "\n" for each in result.completions]
        Path(out).write_text("".join(lines), encoding="utf-8")
    if as_json:
        click.echo(json.dumps({"data": loaded.report.to_json(), **result.to_json()}, indent=2))
        return
    for line in loaded.report.lines():
        click.echo(line)
    for each in result.figures:
        click.echo(
            f"{each.name:16} {each.value:6.1%}   {each.low:.1%} to {each.high:.1%}   of {each.count:,}"
        )
    click.echo(f"unscored: {result.unscored}; mean length {result.tokens:.0f} tokens")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def _cli() -> None:
    """Train and evaluate; the same commands as `synth train` and `synth evaluate`."""


for _command in (*train.commands.values(), evaluate):
    _cli.add_command(_command)


def main() -> None:
    """Entry point of `python -m trainers`, with the exit codes of `synth`."""
    from synth import cli

    cli.cli = _cli  # type: ignore[assignment]  # the same handling of errors, other commands
    cli.main()
