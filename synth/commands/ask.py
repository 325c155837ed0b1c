"""`synth ask`: the questions about one run of a program, with their answers."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  synth ask program.py
  synth ask program.py --preset full --seed 7
  synth ask program.py --json
  synth ask program.py --prompt
"""


@click.command(epilog=EPILOG, short_help="Show the questions about a run of a program.")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option(
    "--preset",
    default="full",
    show_default=True,
    metavar="NAME",
    help="paper (next statement, value) or full.",
)
@click.option("--seed", default="0", show_default=True, help="Chooses among the questions.")
@click.option("--prompt", "with_prompt", is_flag=True, help="Print what a model is asked instead.")
@click.option("--json", "as_json", is_flag=True, help="Print questions and answers as JSON.")
def ask(file: str, preset: str, seed: str, with_prompt: bool, as_json: bool) -> None:
    """Run the program in FILE and show white-box questions about the run, each with its answer.

    FILE holds a program whose last line is print(entry(args)); - stands for stdin. The questions are
    those that a whitebox row would have.
    """
    import json

    from synth.inquiry import inquire, inquiry_json, inquiry_text
    from synth.questions import preset_named, whitebox_prompt
    from synth.runs import follow, read_program

    chosen = preset_named(preset)
    run = follow(read_program(file), file)
    asked = inquire(run, chosen, seed)
    if as_json:
        click.echo(json.dumps(inquiry_json(run, asked), indent=2))
    elif with_prompt:
        for role, content in whitebox_prompt(run.code, run.entry, run.args, asked.questions):
            click.echo(f"--- {role}\n{content}\n")
    else:
        click.echo(inquiry_text(run, asked))
