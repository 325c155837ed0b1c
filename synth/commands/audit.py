"""`synth audit`: whether the reward keeps its law on a dataset."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth audit rows/
  synth audit rows/ --limit 200 --equality python
  synth audit specs.jsonl --json > audit.json
"""


@click.command(epilog=EPILOG, short_help="Try to cheat the reward on every row.")
@click.argument("source", metavar="DIR", type=click.Path(allow_dash=True))
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows at most."
)
@click.option(
    "--equality",
    type=click.Choice(["strict", "python"]),
    default="strict",
    show_default=True,
    help="The equality of the grader that is audited.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Sandboxed processes.  [default: all cores]",
)
@click.option("--json", "as_json", is_flag=True, help="Print all that was found as JSON.")
@click.pass_context
def audit(
    ctx: click.Context,
    source: str,
    limit: int | None,
    equality: str,
    jobs: int | None,
    as_json: bool,
) -> None:
    """Grade the ground truth and all hack templates of every row in DIR (or a file of specs).

    The ground truth must score the maximum, and no hack more than its bound: 0, or what a lazy answer
    such as -1 for everything earns where it happens to be right. The exit status is 1 if the law is
    broken on any row.
    """
    import json
    from itertools import islice

    from rewards.audit import audit as tried
    from rewards.grades import Policy
    from synth.errors import DataError
    from synth.grade_files import read_specs, sandbox
    from synth.progress import bar

    rows = list(islice(read_specs(source).items(), limit))
    if not rows:
        raise DataError(f"{source!r} holds no row to audit")
    with sandbox(jobs) as pool, bar("audit", "row", len(rows)) as progress:
        report = tried(rows, pool=pool, policy=Policy(equality=equality), progress=progress)
    click.echo(json.dumps(report.to_json(), indent=2) if as_json else report.text())
    if not report.lawful:
        ctx.exit(1)
