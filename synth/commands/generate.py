"""`synth generate`: a dataset from nothing."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth generate --depth 3
  synth generate --depth 2 -n 2000 --types str,list,dict --out strings
  synth generate --depth 3 -n 50000 --jobs 8 --out big
  synth generate --depth 3 -n 50000 --jobs 8 --out big --resume
"""


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
@click.option("--provider", default="grammar", show_default=True, help="Who writes the programs.")
@click.option(
    "--inputs-per-program",
    type=int,
    default=4,
    show_default=True,
    metavar="K",
    help="Input cases kept of each program.",
)
@click.option("--exceptions", is_flag=True, help="Keep input cases whose call raises.")
@click.option("--resume", is_flag=True, help="Go on with the run in the output folder.")
@click.option("--overwrite", is_flag=True, help="Replace the run in the output folder.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def generate(
    depth: int, rows: int, seed: int, types: str, levels: str, tasks: str, questions: str, out: str,
    jobs: int | None, provider: str, inputs_per_program: int, exceptions: bool, resume: bool, overwrite: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Make a dataset of executed Python programs, offline and reproducibly.

    Programs are written under constraints (an operation to use, a structure to use it in), checked,
    run in a sandbox on several inputs each, and stored as rows: what a call returns together with what
    happens on the way (whitebox), an input that gives an output (input), or the output alone (output).
    """
    import shutil

    from synth.config import GenerateConfig
    from synth.engine import generate as run

    config = GenerateConfig(
        depth=depth,
        rows=rows,
        seed=seed,
        types=tuple(names(types)),
        levels=tuple(numbers("--levels", levels)),
        provider=provider,
        inputs_per_program=inputs_per_program,
        tasks=tuple(names(tasks)),
        questions=questions,
        exceptions=exceptions,
    )
    workers = usable_cores() if jobs is None else jobs
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

        def progress(done: int, wanted: int) -> None:
            bar.update(done - bar.n)

        try:
            finished = run(
                config, out, jobs=workers, resume=resume, overwrite=overwrite, progress=progress
            )
        except KeyboardInterrupt:
            bar.close()
            click.echo(f"stopped; what is finished is kept: {again(out)}", err=True)
            raise
    summarise(finished, as_json=as_json)


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


def summarise(finished: object, *, as_json: bool) -> None:
    """Where things are, and what to do next."""
    import json

    from synth.engine import Finished

    assert isinstance(finished, Finished)
    manifest, folder = finished.manifest, finished.folder
    counts = manifest.counts
    if as_json:
        data = {
            "folder": str(folder),
            "seconds": round(finished.seconds, 2),
            "resumed_slots": finished.resumed,
            "counts": counts,
            "config_digest": manifest.digest,
            "funnel": manifest.funnel.to_json(),
        }
        click.echo(json.dumps(data, indent=2))
        return
    click.echo(f"{counts['rows']} rows in {finished.seconds:.0f} s -> {folder}/")
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
    click.echo()
    click.echo(manifest.funnel.table())
    click.echo()
    click.echo(f"Next:  synth show {folder}       synth stats {folder}")
    click.echo("Rows are not filtered by difficulty: no model has been asked how hard they are.")
