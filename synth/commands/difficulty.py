"""`synth difficulty`: what is hard for a small model, and solvable for a strong one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

    from synth.clients import Patience, Server
    from synth.difficulty import DifficultyConfig, Filtered
    from synth.difficulty.filtering import Access

EPILOG = """\b
Examples:
  synth difficulty curriculum
  synth difficulty curriculum --model my-model --base-url http://127.0.0.1:8080/v1 --label-only
  synth difficulty curriculum --solver-model Qwen/QwQ-32B --solver-base-url http://gpu:8001/v1
  synth difficulty curriculum --offline --json
"""

DEFAULT_URL = "http://127.0.0.1:8000/v1"


def server_options(command: Any) -> Any:
    """The options by which a command says how a model is reached."""
    options = (
        click.option("--base-url", default=DEFAULT_URL, show_default=True, metavar="URL",
                     help="OpenAI-compatible server."),
        click.option("--api-key-env", default="OPENAI_API_KEY", show_default=True, metavar="NAME",
                     help="Environment variable that holds the key, if the server wants one."),
        click.option("--endpoint", default="chat", show_default=True, metavar="KIND",
                     help="chat or completion."),
        click.option("--extra-body", default="{}", metavar="JSON",
                     help="Further keys of the request body, for one server's own settings."),
        click.option("--concurrency", type=int, default=16, show_default=True, metavar="N",
                     help="Requests under way at a time."),
        click.option("--timeout", type=float, default=600.0, show_default=True, metavar="S",
                     help="Seconds for one request."),
        click.option("--patience", type=float, default=300.0, show_default=True, metavar="S",
                     help="Seconds to wait for a server that is busy, loading or away."),
        click.option("--max-failures", type=float, default=0.2, show_default=True, metavar="SHARE",
                     help="Share of requests that may fail before the run stops."),
        click.option("--offline", is_flag=True, help="Ask nothing; use what has been answered."),
        click.option("--retry-refused", is_flag=True,
                     help="Send again what the server has refused for good, such as long prompts."),
    )  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@click.command(epilog=EPILOG, short_help="Keep the rows that are hard for a small model.")
@click.argument("source", metavar="DIR", type=click.Path())
@click.option(
    "--model",
    metavar="NAME",
    help="The small model.  [default: Qwen/Qwen2.5-Coder-7B-Instruct]",
)
@server_options
@click.option(
    "--local-model",
    type=click.Path(),
    metavar="PATH",
    help="Folder of a transformers model to run in this process, instead of a server.",
)
@click.option(
    "-n", "n", type=int, default=10, show_default=True, metavar="N", help="Completions per row."
)
@click.option(
    "--max-pass-rate",
    type=float,
    default=0.3,
    show_default=True,
    metavar="SHARE",
    help="Keep rows of which at most this share of completions passes.",
)
@click.option(
    "--temperature", type=float, default=1.0, show_default=True, metavar="T", help="0 to 2."
)
@click.option(
    "--top-p", type=float, default=0.9, show_default=True, metavar="P", help="Above 0, at most 1."
)
@click.option(
    "--max-tokens",
    type=int,
    default=2048,
    show_default=True,
    metavar="N",
    help="Limit of one completion; one that is cut there has not passed.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed asks anew.")
@click.option(
    "--few-shot", is_flag=True, help="Ask with worked examples, as base models need (output rows)."
)
@click.option("--no-early-stop", is_flag=True, help="Draw all N even when the decision is certain.")
@click.option("--solver-model", metavar="NAME", help="Strong model that must pass at least once.")
@click.option(
    "--solver-base-url", metavar="URL", help="Its server.  [default: the one of --base-url]"
)
@click.option(
    "--solver-n", type=int, default=1, show_default=True, metavar="N", help="Its completions."
)
@click.option("--label-only", is_flag=True, help="Keep all rows and fill in their columns.")
@click.option(
    "--out", type=click.Path(), help="Output folder.  [default: DIR-hard, or DIR-labelled]"
)
@click.option(
    "--store", type=click.Path(), help="File of completions.  [default: DIR/completions.sqlite]"
)
@click.option("--overwrite", is_flag=True, help="Replace the dataset in the output folder.")
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
    help="Sandboxed processes for grading.  [default: all cores]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def difficulty(
    ctx: click.Context, /, source: str, out: str | None, store: str | None, overwrite: bool,
    prices: str | None, jobs: int | None, as_json: bool, **settings: Any,
) -> None:  # fmt: skip
    """Measure how often a small model passes the rows in DIR, and keep those it mostly fails.

    Every answer is kept in a file as soon as it arrives: a run that was killed goes on with the same
    command and asks only for what is missing. Rows that a fault of the server kept from being measured
    are listed apart and never count as failed; beyond a share of them the exit status is 1.

    With the defaults, a vLLM server on this machine is asked; start it with

        vllm serve Qwen/Qwen2.5-Coder-7B-Instruct
    """
    import json
    from pathlib import Path

    from synth.difficulty.filtering import filter_folder

    config = config_of(settings)
    cost = prices_of(prices)
    origin = Path(source)
    suffix = "labelled" if config.label_only else "hard"
    target = Path(out) if out else origin.with_name(f"{origin.absolute().name}-{suffix}")
    with bar(cost) as progress:
        done = filter_folder(
            origin,
            target,
            config,
            access_of(settings, config.model),
            store=store,
            overwrite=overwrite,
            jobs=jobs,
            progress=progress,
        )
    warn(done.warnings)
    if as_json:
        click.echo(json.dumps(summary_json(done, target, cost), indent=2))
    else:
        show(done, target, cost)
    judge(ctx, done, settings["max_failures"], "--overwrite")


def config_of(settings: dict[str, Any]) -> DifficultyConfig:
    """The checked settings that decide the labels."""
    from pathlib import Path

    from synth.completions import Sampling
    from synth.difficulty import Bar, DifficultyConfig
    from synth.difficulty.config import EVALUATOR

    local = settings["local_model"]
    model = settings["model"] or (Path(local).resolve().name if local else EVALUATOR)
    sampling = Sampling(
        temperature=settings["temperature"],
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        extra=settings["extra_body"],
        seed=settings["seed"],
    )
    return DifficultyConfig(
        model=model,
        bar=Bar(settings["n"], settings["max_pass_rate"], not settings["no_early_stop"]),
        sampling=sampling,
        endpoint="completion" if settings["few_shot"] else settings["endpoint"],
        few_shot=settings["few_shot"],
        solver_model=settings["solver_model"],
        solver_n=settings["solver_n"],
        label_only=settings["label_only"],
    )


def access_of(settings: dict[str, Any], model: str) -> Access:
    """How the models are reached, the small one under the name `model`."""
    from pathlib import Path

    from synth.difficulty.filtering import Access
    from synth.errors import ConfigError

    local = settings["local_model"]
    solver_url = settings["solver_base_url"]
    if solver_url and not settings["solver_model"]:
        raise ConfigError("--solver-base-url needs --solver-model NAME")
    solver = None
    if settings["solver_model"]:
        address = {**settings, "endpoint": "chat", "base_url": solver_url or settings["base_url"]}
        solver = server_of(address, settings["solver_model"])
    return Access(
        evaluator=Path(local) if local else server_of(settings, model),
        solver=solver,
        patience=patience_of(settings),
        offline=settings["offline"],
        retry_refused=settings["retry_refused"],
        tell=tell,
    )


def patience_of(settings: dict[str, Any]) -> Patience:
    """The bounds that the options of `server_options` set."""
    from synth.clients import Patience

    return Patience(
        concurrency=settings["concurrency"],
        timeout=settings["timeout"],
        seconds=settings["patience"],
        max_failures=settings["max_failures"],
    )


def server_of(settings: dict[str, Any], model: str) -> Server:
    """The server that the options of `server_options` name, for a model on it."""
    import os

    from synth.clients import Server

    return Server(
        model=model,
        base_url=settings["base_url"],
        api_key=os.environ.get(settings["api_key_env"], ""),
        endpoint=settings["endpoint"],
    )


def prices_of(text: str | None) -> tuple[float, float] | None:
    """`"0.1,0.4"` -> `(0.1, 0.4)`. Raises `ConfigError` for anything else."""
    from synth.errors import ConfigError

    if text is None:
        return None
    try:
        price_in, price_out = (float(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--prices is {text!r}; expected two numbers, such as 0.1,0.4") from None
    return price_in, price_out


def bar(cost: tuple[float, float] | None) -> Any:
    """A context manager that gives the function to call with the progress of a run."""
    import shutil
    from collections.abc import Iterator
    from contextlib import contextmanager

    from synth.completions import Totals

    @contextmanager
    def opened() -> Iterator[Any]:
        from tqdm import tqdm

        size = shutil.get_terminal_size()
        with tqdm(
            unit="row",
            desc="difficulty",
            disable=None,
            leave=False,
            ncols=size.columns,
            nrows=size.lines,
        ) as bar:

            def progress(done: int, rows: int, totals: Totals) -> None:
                bar.total = rows
                bar.set_postfix_str(spent(totals, cost), refresh=False)
                bar.update(done - bar.n)

            yield progress

    return opened()


def spent(totals: Any, cost: tuple[float, float] | None) -> str:
    """Tokens so far, and what they cost where prices are given."""
    text = f"{totals.prompt_tokens + totals.completion_tokens:,} tokens"
    return text if cost is None else f"{text}, about {totals.cost(*cost):.2f}"


def tell(text: str) -> None:
    """A sentence on standard error, above a progress bar if there is one; from any thread."""
    import sys

    from tqdm import tqdm

    tqdm.write(text, file=sys.stderr)


def warn(warnings: Iterable[str]) -> None:
    """What a user should know, on standard error."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def judge(ctx: click.Context, done: Filtered, max_failures: float, again: str) -> None:
    """End the command with status 1 if no row is kept, or the server failed too many; `again`: the option
    that makes it ask for what is missing."""
    from synth.difficulty.filtering import none_kept

    if not done.rows:
        raise none_kept(done)
    if done.failed_share > max_failures:
        refused = done.figures.verdicts.get("refused", 0)
        also = f" (and --retry-refused, for the {refused} that it refused)" if refused else ""
        click.echo(
            f"error: {done.failed_share:.0%} of the rows could not be measured; give the same command"
            f" with {again}{also} to ask again for what is missing",
            err=True,
        )
        ctx.exit(1)


def show(done: Filtered, target: object, cost: tuple[float, float] | None) -> None:
    """The tables of a run, for people."""
    click.echo(done.figures.text())
    click.echo()
    if done.faults:
        met = ", ".join(f"{kind} ({count})" for kind, count in done.faults.items())
        click.echo(f"faults met on the way: {met}; rows not measured: {done.failed_share:.0%}")
    totals = done.totals
    click.echo(f"{totals.requests:,} requests answered so far, {spent(totals, cost)}")
    if done.rows:
        click.echo(f"{len(done.rows)} rows -> {target}/")


def summary_json(
    done: Filtered, target: object, cost: tuple[float, float] | None
) -> dict[str, Any]:
    """What came of a run, as JSON values."""
    from dataclasses import asdict

    return {
        "folder": str(target) if done.rows else None,
        "rows": len(done.rows),
        "failed_share": round(done.failed_share, 4),
        "figures": done.figures.to_json(),
        "faults": done.faults,
        "totals": asdict(done.totals),
        "cost": None if cost is None else round(done.totals.cost(*cost), 4),
        "warnings": list(done.warnings),
        "date": done.date,
    }
