"""`synth chains`: rows with reasoning and answer, for supervised training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from synth.commands.difficulty import server_options

if TYPE_CHECKING:
    from pathlib import Path

    from synth.chain_files import Asking, Written

EPILOG = """\b
Examples:
  synth chains curriculum
  synth chains curriculum --split all --out warmup.jsonl
  synth chains curriculum --model Qwen/QwQ-32B --base-url http://gpu:8001/v1 --tries 8
"""


@click.command(epilog=EPILOG, short_help="Write reasoning chains for the SFT warm-up.")
@click.argument("source", metavar="DIR", type=click.Path())
@click.option("--out", type=click.Path(), help="Output file.  [default: DIR-chains.jsonl]")
@click.option(
    "--split",
    default="train",
    show_default=True,
    metavar="NAME",
    help="Rows of this split, or all: the others are there to measure what was learned.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows at most."
)
@click.option(
    "--model", metavar="NAME", help="Strong model that writes the chains.  [default: none]"
)
@server_options
@click.option(
    "--temperature", type=float, default=0.6, show_default=True, metavar="T", help="0 to 2."
)
@click.option(
    "--top-p", type=float, default=0.95, show_default=True, metavar="P", help="Above 0, at most 1."
)
@click.option(
    "--max-tokens", type=int, default=16384, show_default=True, metavar="N",
    help="Limit of one completion; one that is cut there is not taken.",
)  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed asks anew.")
@click.option(
    "--tries", type=int, default=4, show_default=True, metavar="N",
    help="Completions for a row before it is left out.",
)  # fmt: skip
@click.option(
    "--store", type=click.Path(), help="File of completions.  [default: DIR/completions.sqlite]"
)
@click.option("--overwrite", is_flag=True, help="Replace the output file.")
@click.option(
    "--prices",
    metavar="IN,OUT",
    help="Prices per million tokens of prompt and completion, for an estimate of the cost.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Sandboxed processes.  [default: all cores]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def chains(
    ctx: click.Context, /, source: str, out: str | None, split: str, limit: int | None, overwrite: bool,
    prices: str | None, jobs: int | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Write a reasoning chain for the rows in DIR, as prompt and completion in conversational form.

    A chain is a narration of the real run, made offline. With --model a strong model writes it, and it is
    kept when the reward's own grader finds every answer in it right; what the model answers is kept in a
    file as it arrives. Rows without a chain are left out and counted by reason.
    """
    import json
    from pathlib import Path

    from synth.chain_files import chosen_rows, write_chains
    from synth.commands.difficulty import prices_of, warn
    from synth.commands.generate import usable_cores
    from synth.progress import bar

    origin, cost = Path(source), prices_of(prices)
    target = Path(out) if out else origin.with_name(f"{origin.absolute().name}-chains.jsonl")
    asking = asking_of(settings, origin)
    rows = chosen_rows(origin, split=split, limit=limit)
    with bar("chains", "row", len(rows)) as progress:
        done = write_chains(
            rows,
            target,
            asking=asking,
            jobs=jobs or usable_cores(),
            overwrite=overwrite,
            progress=progress,
        )
    warn(done.warnings)
    if as_json:
        price = round(done.totals.cost(*cost), 4) if cost and done.totals else None
        click.echo(json.dumps({"file": str(target), **done.to_json(), "cost": price}, indent=2))
    else:
        show(done, target, cost)
    if done.failed_share > settings["max_failures"]:
        click.echo(
            f"error: the server failed for {done.failed_share:.0%} of the rows; give the same command with"
            " --overwrite to ask again for what is missing",
            err=True,
        )
        ctx.exit(1)


def asking_of(settings: dict[str, Any], origin: Path) -> Asking | None:
    """The model that the options name; None to narrate."""
    from pathlib import Path

    from synth.chain_files import Asking
    from synth.commands.difficulty import patience_of, server_of, tell
    from synth.completions import Sampling
    from synth.difficulty.filtering import store_beside

    if settings["model"] is None:
        return None
    return Asking(
        server=server_of(settings, settings["model"]),
        store=Path(settings["store"]) if settings["store"] else store_beside(origin),
        sampling=Sampling(
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            max_tokens=settings["max_tokens"],
            extra=settings["extra_body"],
            seed=settings["seed"],
        ),
        tries=settings["tries"],
        patience=patience_of(settings),
        offline=settings["offline"],
        retry_refused=settings["retry_refused"],
        tell=tell,
    )


def show(done: Written, target: object, cost: tuple[float, float] | None) -> None:
    """The figures of a run, for people."""
    from synth.commands.difficulty import spent

    for name, counts in (("task", done.chains), ("left out", done.dropped)):
        if counts:
            width = max(len(name), *map(len, counts))
            click.echo(f"{name:<{width}}  {'rows':>9}")
            for key, count in counts.items():
                click.echo(f"{key:<{width}}  {count:>9,}")
            click.echo()
    if done.totals:
        click.echo(f"{done.totals.requests:,} requests answered so far, {spent(done.totals, cost)}")
    if done.faults:
        met = ", ".join(f"{kind} ({count})" for kind, count in done.faults.items())
        click.echo(f"faults met on the way: {met}")
    click.echo(f"{sum(done.chains.values()):,} chains of {done.rows:,} rows -> {target}")
