"""`synth trace`: one run of a program, step by step."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth trace program.py
  synth trace - < program.py
  synth trace program.py --json | jq .steps
"""


@click.command(epilog=EPILOG, short_help="Show a run of a program, step by step.")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option("--json", "as_json", is_flag=True, help="Print the run as JSON.")
@click.option(
    "--max-steps",
    type=click.IntRange(min=1, max=100_000),
    default=10_000,
    show_default=True,
    metavar="N",
    help="Refuse a longer run.",
)
def trace(file: str, as_json: bool, max_steps: int) -> None:
    """Run the program in FILE and show each step: line, source, and what it changed.

    FILE holds a program whose last line is print(entry(args)); - stands for stdin.

    The program runs in the sandbox. A step is one execution of one statement; of a compound
    statement it is the header alone.
    """
    import json
    import shutil

    from synth.runs import follow, read_program, run_json, run_text

    run = follow(read_program(file), file, max_steps=max_steps)
    if as_json:
        click.echo(json.dumps(run_json(run), indent=2))
    else:
        click.echo(run_text(run, width=max(shutil.get_terminal_size((100, 24)).columns, 60)))
