"""`synth generate`: a dataset from nothing, or from what a model writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from synth.commands.difficulty import server_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from synth.completions import Totals
    from synth.config import GenerateConfig, Writer
    from synth.difficulty import DifficultyConfig, Filtered
    from synth.difficulty.filtering import Access
    from synth.engine import Finished, Reach

EPILOG = """\b
Examples:
  synth generate --depth 3
  synth generate --depth 2 -n 2000 --types str,list,dict --out strings
  synth generate --depth 3 -n 50000 --jobs 8 --out big
  synth generate --depth 3 -n 50000 --jobs 8 --out big --resume
  synth generate --provider openai --model my-model --base-url http://127.0.0.1:8000/v1
  synth generate --evaluator-model small --evaluator-base-url http://127.0.0.1:8001/v1
"""


def writer_options(command: Any) -> Any:
    """The options of a model that writes the programs."""
    options = (
        click.option("--model", metavar="NAME",
                     help="The model that writes the programs, with --provider openai."),
        server_options,
        click.option("--temperature", type=float, default=1.0, show_default=True, metavar="T",
                     help="Above 0, at most 2."),
        click.option("--top-p", type=float, default=None, metavar="P",
                     help="Above 0, at most 1.  [default: the server's]"),
        click.option("--max-tokens", type=int, default=4096, show_default=True, metavar="N",
                     help="Limit of one completion; one that is cut there is dropped."),
        click.option("--repair", type=int, default=1, show_default=True, metavar="N",
                     help="Follow-up turns that name the broken rule, 0 to 5."),
        click.option("--attempts", type=int, default=10, show_default=True, metavar="N",
                     help="Prompts for one constraint before it is given up, 1 to 100."),
        click.option("--store", type=click.Path(),
                     help="File of completions.  [default: OUT/completions.sqlite]"),
        click.option("--prices", metavar="IN,OUT",
                     help="Prices per million tokens of prompt and completion, for an estimate."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def evaluator_options(command: Any) -> Any:
    """The options of a filter by difficulty that follows; `synth difficulty` has more."""
    options = (
        click.option("--evaluator-model", metavar="NAME",
                     help="Small model: rows that it passes too often are left out of OUT-hard."),
        click.option("--evaluator-base-url", metavar="URL",
                     help="Its server.  [default: the one of --base-url]"),
        click.option("--evaluator-api-key-env", metavar="NAME",
                     help="Variable with its key.  [default: --api-key-env, on the same server]"),
        click.option("--max-pass-rate", type=float, default=0.3, show_default=True, metavar="SHARE",
                     help="Keep rows of which at most this share of 10 completions passes."),
        click.option("--solver-model", metavar="NAME",
                     help="Strong model that must pass at least once."),
        click.option("--solver-base-url", metavar="URL",
                     help="Its server.  [default: the evaluator's]"),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog=EPILOG, short_help="Make a dataset.")
@click.option(
    "--depth",
    type=int,
    default=3,
    show_default=True,
    metavar="D",
    help="Deepest nest of control structures, 0 to 5; 3 gives the paper's six levels.",
)
@click.option(
    "-n", "--rows", type=int, default=200, show_default=True, metavar="N", help="Rows to make."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same rows.")
@click.option(
    "--types",
    default="",
    metavar="T,T,…",
    help="Owners of the operations (str, list, math, …).  [default: all]",
)
@click.option(
    "--levels", default="", metavar="L,L,…", help="Levels to make.  [default: all of the depth]"
)
@click.option(
    "--tasks",
    default="input,whitebox",
    show_default=True,
    metavar="T,T",
    help="Tasks of the rows: output, input, whitebox.",
)
@click.option(
    "--questions",
    default="paper",
    show_default=True,
    metavar="PRESET",
    help="Questions of whitebox rows: paper (next statement, value) or full.",
)
@click.option(
    "--out", default="curriculum", show_default=True, type=click.Path(), help="Output folder."
)
@click.option(
    "--jobs",
    type=int,
    default=None,
    metavar="N",
    help="Workers; the rows do not depend on it.  [default: all cores]",
)
@click.option(
    "--provider",
    default="grammar",
    show_default=True,
    metavar="NAME",
    help="Who writes the programs: grammar (offline), or openai (any compatible server).",
)
@writer_options
@evaluator_options
@click.option(
    "--inputs-per-program",
    type=int,
    default=4,
    show_default=True,
    metavar="K",
    help="Input cases kept of each program.",
)
@click.option(
    "--inputs",
    default="hypothesis",
    show_default=True,
    metavar="SOURCE",
    help="Who varies them: hypothesis, model (with --provider openai), or both.",
)
@click.option(
    "--exceptions",
    is_flag=True,
    help="Keep input cases whose call raises; they are asked for the exception, as output rows.",
)
@click.option("--resume", is_flag=True, help="Go on with the run in the output folder.")
@click.option("--overwrite", is_flag=True, help="Replace the run in the output folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.pass_context
def generate(
    ctx: click.Context, /, out: str, jobs: int | None, resume: bool, overwrite: bool,
    prices: str | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Make a dataset of executed Python programs, offline and reproducibly.

    Programs are written under constraints (an operation to use, a structure to use it in), checked,
    run in a sandbox on several inputs each, and stored as rows: what a call returns together with what
    happens on the way (whitebox), an input that gives an output (input), or the output alone (output).

    With --provider openai a model writes the programs, and with --inputs model (or both) inputs for them
    as well. Its answers are kept in a file as they arrive, so a run that was killed pays for none of them
    twice. With --evaluator-model the rows are measured as
    by synth difficulty, and those that are hard enough are written to OUT-hard as well.
    """
    import json
    from pathlib import Path

    from synth.commands.difficulty import judge, prices_of, show, summary_json, warn

    config = config_of(settings)
    reach = reach_of(settings)
    cost = prices_of(prices)
    workers = usable_cores() if jobs is None else jobs
    after = filter_of(settings, Path(out), config, resume=resume, overwrite=overwrite)
    hard: Filtered | None = None
    try:
        finished = run(config, reach, out, workers, cost, resume=resume, overwrite=overwrite)
        if finished.asked:
            warn(finished.asked.warnings)
        if after:
            hard = after.run(Path(out), workers, settings["store"])
            warn(hard.warnings)
    except KeyboardInterrupt:
        click.echo(f"stopped; what is finished is kept: {again(out)}", err=True)
        raise
    if as_json:
        data = finished_json(finished, cost)
        if after and hard:
            data["difficulty"] = summary_json(hard, after.target, None)
        click.echo(json.dumps(data, indent=2))
    else:
        summarise(finished, cost, filtered=hard is not None)
        if after and hard:
            click.echo()
            show(hard, after.target, None)
    if hard:
        judge(ctx, hard, settings["max_failures"], "--resume")


def config_of(settings: dict[str, Any]) -> GenerateConfig:
    """The checked settings that decide the rows."""
    from synth.config import GenerateConfig

    return GenerateConfig(
        depth=settings["depth"],
        rows=settings["rows"],
        seed=settings["seed"],
        types=tuple(names(settings["types"])),
        levels=tuple(numbers("--levels", settings["levels"])),
        provider=settings["provider"],
        writer=writer_of(settings),
        inputs_per_program=settings["inputs_per_program"],
        tasks=tuple(names(settings["tasks"])),
        questions=settings["questions"],
        inputs=settings["inputs"],
        exceptions=settings["exceptions"],
    )


def writer_of(settings: dict[str, Any]) -> Writer | None:
    """The model that writes the programs; None if none is named."""
    from synth.completions import Sampling
    from synth.config import Writer

    if settings["model"] is None:
        return None
    return Writer(
        model=settings["model"],
        endpoint=settings["endpoint"],
        sampling=Sampling(
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            max_tokens=settings["max_tokens"],
            extra=settings["extra_body"],
        ),
        repairs=settings["repair"],
        attempts=settings["attempts"],
    )


def reach_of(settings: dict[str, Any]) -> Reach:
    """How the model that writes the programs is reached."""
    import os
    from pathlib import Path

    from synth.commands.difficulty import patience_of, tell
    from synth.engine import Reach

    return Reach(
        base_url=settings["base_url"],
        api_key=os.environ.get(settings["api_key_env"], ""),
        patience=patience_of(settings),
        offline=settings["offline"],
        store=Path(settings["store"]) if settings["store"] else None,
        retry_refused=settings["retry_refused"],
        tell=tell,
    )


class Filter:
    """The filter by difficulty that follows a run."""

    def __init__(
        self, config: DifficultyConfig, access: Access, target: Path, *, overwrite: bool
    ) -> None:
        self.config = config
        self.access = access
        self.target = target
        self.overwrite = overwrite

    def run(self, origin: Path, jobs: int, store: str | None) -> Filtered:
        """Measure the rows in `origin`, and write those that are kept."""
        from synth.commands.difficulty import bar
        from synth.difficulty.filtering import filter_folder

        with bar(None) as progress:
            return filter_folder(
                origin,
                self.target,
                self.config,
                self.access,
                store=store,
                overwrite=self.overwrite,
                jobs=jobs,
                progress=progress,
            )


def filter_of(
    settings: dict[str, Any],
    out: Path,
    config: GenerateConfig,
    *,
    resume: bool,
    overwrite: bool,
) -> Filter | None:
    """The filter that the options ask for, or None. Raises `UsageError` if it could not write its rows."""
    from synth.difficulty import Bar, DifficultyConfig
    from synth.difficulty.config import EVALUATOR
    from synth.difficulty.filtering import check_target
    from synth.errors import ConfigError

    url, model = settings["evaluator_base_url"], settings["evaluator_model"]
    if not url and not model:
        if settings["solver_model"] or settings["solver_base_url"]:
            raise ConfigError("--solver-model needs --evaluator-model NAME: it judges what is hard")
        return None
    wanted = DifficultyConfig(
        model=model or EVALUATOR,
        bar=Bar(most=settings["max_pass_rate"]),
        solver_model=settings["solver_model"],
    )
    target = out.with_name(f"{out.absolute().name}-hard")
    # A finished run that is resumed comes to the same rows again.
    replace = overwrite or (resume and _holds(target, config, wanted))
    check_target(out, target, overwrite=replace)
    return Filter(wanted, evaluator_access(settings, wanted), target, overwrite=replace)


def _holds(target: Path, config: GenerateConfig, wanted: DifficultyConfig) -> bool:
    from synth.dataset import read_manifest
    from synth.journal import MANIFEST
    from synth.manifest import config_digest

    if not (target / MANIFEST).is_file():
        return False
    asked = {**config.resolved(), "difficulty": wanted.resolved()}
    return read_manifest(target).digest == config_digest(asked)


def evaluator_access(settings: dict[str, Any], wanted: DifficultyConfig) -> Access:
    """How evaluator and solver are reached. A key goes to no other server than the one it was given for."""
    from synth.commands.difficulty import patience_of, server_of, tell
    from synth.difficulty.filtering import Access
    from synth.errors import ConfigError

    url = settings["evaluator_base_url"] or settings["base_url"]
    name = settings["evaluator_api_key_env"]
    if name is None:
        name = settings["api_key_env"] if url == settings["base_url"] else ""
    address = {"base_url": url, "api_key_env": name, "endpoint": "chat"}
    solver = None
    if wanted.solver_model is not None:
        at = {**address, "base_url": settings["solver_base_url"] or url}
        solver = server_of(at, wanted.solver_model)
    elif settings["solver_base_url"]:
        raise ConfigError("--solver-base-url needs --solver-model NAME")
    return Access(
        evaluator=server_of(address, wanted.model),
        solver=solver,
        patience=patience_of(settings),
        offline=settings["offline"],
        retry_refused=settings["retry_refused"],
        tell=tell,
    )


def run(
    config: GenerateConfig, reach: Reach, out: str, jobs: int, cost: tuple[float, float] | None,
    *, resume: bool, overwrite: bool,
) -> Finished:  # fmt: skip
    """The run itself, under a bar."""
    from synth.commands.difficulty import spent
    from synth.engine import generate as made

    with _bar(config.rows) as bar:

        def progress(done: int, wanted: int) -> None:
            bar.update(done - bar.n)

        def usage(totals: Totals) -> None:
            bar.set_postfix_str(spent(totals, cost), refresh=False)

        return made(
            config,
            out,
            jobs=jobs,
            resume=resume,
            overwrite=overwrite,
            progress=progress,
            reach=reach,
            usage=usage,
        )


def _bar(rows: int) -> AbstractContextManager[Any]:
    import shutil
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Iterator[Any]:
        from tqdm import tqdm

        # A terminal that reports a size of 0 by 0 would get no bar at all.
        size = shutil.get_terminal_size()
        with tqdm(
            total=rows,
            unit="row",
            desc="generate",
            disable=None,
            leave=False,
            ncols=size.columns,
            nrows=size.lines,
        ) as bar:
            yield bar

    return opened()


def again(out: str) -> str:
    """The command that goes on with an interrupted run."""
    import shlex
    import sys

    words = [word for word in sys.argv[1:] if word not in ("--resume", "--overwrite")]
    return (
        shlex.join(["synth", *words, "--resume"])
        if words[:1] == ["generate"]
        else (f"synth generate … --out {out} --resume")
    )


def names(text: str) -> list[str]:
    """`"str, list"` -> `["str", "list"]`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(option: str, text: str) -> list[int]:
    """`"1,2"` -> `[1, 2]`. Raises `ConfigError` for anything else."""
    from synth.errors import ConfigError

    try:
        return [int(part) for part in names(text)]
    except ValueError:
        raise ConfigError(f"{option} is {text!r}; expected whole numbers, such as 1,2,5") from None


def usable_cores() -> int:
    """Cores that this process may use."""
    import os

    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def finished_json(finished: Finished, cost: tuple[float, float] | None) -> dict[str, Any]:
    """What a run made, as JSON values."""
    from dataclasses import asdict

    data: dict[str, Any] = {
        "folder": str(finished.folder),
        "seconds": round(finished.seconds, 2),
        "resumed_slots": finished.resumed,
        "counts": finished.manifest.counts,
        "config_digest": finished.manifest.digest,
        "funnel": finished.manifest.funnel.to_json(),
    }
    if asked := finished.asked:
        price = None if cost is None else round(asked.totals.cost(*cost), 4)
        data["asked"] = {**asdict(asked), "cost": price}
    return data


def summarise(
    finished: Finished, cost: tuple[float, float] | None = None, *, filtered: bool = False
) -> None:
    """Where things are, and what to do next."""
    from synth.commands.difficulty import spent

    manifest, folder = finished.manifest, finished.folder
    click.echo(f"{manifest.counts['rows']} rows in {finished.seconds:.0f} s -> {folder}/")
    click.echo(f"  data/*.parquet   for datasets.load_dataset({str(folder)!r})")
    click.echo("  jsonl/*.jsonl    the same rows as text")
    click.echo(
        "  README.md        the data card        manifest.json   configuration, versions, funnel"
    )
    without = manifest.figures.get("slots_without_program")
    if without:
        click.echo(
            f"  {without} constraints gave no program in the attempts allowed and were passed over"
        )
    inputs = manifest.figures.get("inputs")
    if isinstance(inputs, dict):
        click.echo(
            f"  {inputs['from_model']:,} inputs were written by the model, {inputs['from_hypothesis']:,}"
            f" drawn by Hypothesis ({inputs['programs_filled_up']:,} of {inputs['programs']:,} programs were"
            f" filled up); of the {inputs['kept']:,} kept {inputs['kept_from_model']:,} are the model's"
        )
    if asked := finished.asked:
        totals = asked.totals
        click.echo(f"  {totals.requests:,} requests answered so far, {spent(totals, cost)}")
        if asked.faults:
            met = ", ".join(f"{kind} ({count})" for kind, count in asked.faults.items())
            click.echo(f"  faults met on the way: {met}")
    click.echo()
    click.echo(manifest.funnel.table())
    click.echo()
    click.echo(f"Next:  synth show {folder}       synth stats {folder}")
    if not filtered:
        click.echo(
            "Rows are not filtered by difficulty: no model has been asked how hard they are."
        )
        click.echo(f"Filter: synth difficulty {folder} --model NAME --base-url URL")
