"""`synth stats`: figures over a dataset folder."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth stats rows/
  synth stats rows/ --trace --json > figures.json
  synth stats rows/ --verify --check
"""


@click.command(epilog=EPILOG, short_help="Figures over a dataset.")
@click.argument("source", metavar="DIR", type=click.Path())
@click.option("--trace", is_flag=True, help="Trace every case again to measure statement coverage.")
@click.option("--verify", is_flag=True, help="Hold files and outputs against what was written.")
@click.option("--check", is_flag=True, help="Check every program against its constraint again.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Processes for --trace, --verify, --check.  [default: all cores]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
@click.pass_context
def stats(
    ctx: click.Context,
    source: str,
    trace: bool,
    verify: bool,
    check: bool,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Print figures over the rows in DIR (or in one .jsonl or .parquet file).

    Rows by level, task and split, distinct program shapes, operations seen, outputs per program,
    executed statements, questions by kind, construct and level, and what lazy answers earn. With
    --verify the exit status is 1 if any output differs, with --check if any program breaks a rule.
    """
    import json
    from pathlib import Path

    from synth import report as figures
    from synth.dataset import check_files, read_manifest, read_rows
    from synth.journal import MANIFEST
    from synth.question_figures import question_figures
    from synth.recheck import recheck

    rows = tuple(read_rows(source))
    manifest = read_manifest(source) if (Path(source) / MANIFEST).is_file() else None
    coverage = figures.coverage_in(manifest.figures) if manifest else None
    if trace:
        coverage = figures.statement_coverage(rows, workers=jobs)
    report = figures.compute(rows, coverage=coverage)
    asked = question_figures(rows)
    if verify and manifest:
        check_files(source, manifest)
    checked = figures.verify(rows, workers=jobs) if verify else None
    ruled = recheck(rows, workers=jobs) if check else None
    if as_json:
        data = report.to_json()
        if asked:
            data["questions"] = asked.to_json()
        if manifest:
            data["funnel"] = manifest.funnel.to_json()
        if checked:
            data["verification"] = checked.to_json()
        if ruled:
            data["rules"] = ruled.to_json()
        click.echo(json.dumps(data, indent=2))
    else:
        click.echo(figures.render(report), nl=False)
        if asked:
            click.echo(f"\n{asked.text()}")
        if manifest and manifest.funnel.stages:
            click.echo(f"\n{manifest.funnel.table()}")
        if checked:
            click.echo(f"\n{checked.text()}")
        if ruled:
            click.echo(f"\n{ruled.text()}")
    if (checked and checked.equal != checked.total) or (ruled and ruled.broken):
        ctx.exit(1)
