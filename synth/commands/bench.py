"""`synth bench`: ratios against a stated baseline."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth bench execute
  synth bench execute curriculum --limit 100
  synth bench execute cruxeval.jsonl --json
  synth bench trace cruxeval.jsonl
  synth bench reward cruxeval.jsonl --limit 64
"""


@click.group(epilog=EPILOG, short_help="Measure against a baseline.")
def bench() -> None:
    """Measure speed as a ratio against a stated baseline, both in the same run."""


@bench.command(epilog=EPILOG)
@click.argument("source", required=False, metavar="[DIR|FILE.jsonl]", type=click.Path())
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def execute(ctx: click.Context, source: str | None, limit: int | None, as_json: bool) -> None:
    """Rows run per CPU-second in the sandbox, against a new interpreter per run.

    SOURCE is a dataset folder, or a JSONL file with the fields code, input and output (the entry is
    `f`); without it, programs are written for the purpose. The exit status is 1 if an output differs.

    The baseline runs the programs as they are, outside the sandbox: give only rows that you trust.
    """
    import json

    from synth.bench import calls_from
    from synth.bench import execute as measure

    comparison = measure(calls_from(source, limit))
    click.echo(json.dumps(comparison.to_json(), indent=2) if as_json else comparison.text())
    if any(timing.wrong for timing in comparison.timings[1:]):
        ctx.exit(1)


@bench.command(epilog=EPILOG)
@click.argument("source", required=False, metavar="[DIR|FILE.jsonl]", type=click.Path())
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def trace(ctx: click.Context, source: str | None, limit: int | None, as_json: bool) -> None:
    """What tracing adds to compiling and running, against settrace tracers that look at every value.

    SOURCE is as for `synth bench execute`. The exit status is 1 if an output differs.

    Programs run in this process, without the sandbox: give only rows that you trust.
    """
    import json

    from synth.bench import calls_from
    from synth.tracebench import measure_traces

    timings = measure_traces(calls_from(source, limit))
    click.echo(json.dumps(timings.to_json(), indent=2) if as_json else timings.text())
    if any(timing.wrong for timing in timings.timings):
        ctx.exit(1)


@bench.command(epilog=EPILOG)
@click.argument("source", required=False, metavar="[DIR|FILE.jsonl]", type=click.Path())
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows at most."
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def reward(ctx: click.Context, source: str | None, limit: int | None, as_json: bool) -> None:
    """Completions graded per CPU-second, against a new interpreter per completion.

    SOURCE is as for `synth bench execute`; a row takes about half a second. The table names what holds
    the code of others in at each speed. The exit status is 1 if a verdict differs.

    The baseline runs the programs as they are, outside the sandbox: give only rows that you trust.
    """
    import json

    from synth.bench import calls_from
    from synth.rewardbench import measure_rewards

    timings = measure_rewards(calls_from(source, limit))
    click.echo(json.dumps(timings.to_json(), indent=2) if as_json else timings.text())
    if any(timing.wrong for timing in timings.timings):
        ctx.exit(1)
