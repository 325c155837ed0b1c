"""`synth show`: rows as a person wants to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rewards.row import Row

EPILOG = """\b
Examples:
  synth show rows/                 the first rows, a line each
  synth show rows/ 4f2a            the row whose id begins with 4f2a
  synth show rows/ 4f2a --prompt   what a model is asked
  synth show rows/ --level 5 --task input -n 30
"""


@click.command(epilog=EPILOG, short_help="Show rows of a dataset.")
@click.argument("source", metavar="DIR", type=click.Path())
@click.argument("row_id", metavar="[ID]", required=False)
@click.option("--prompt", "with_prompt", is_flag=True, help="Show the messages to the model too.")
@click.option("--level", type=int, default=None, metavar="L", help="List rows of this level only.")
@click.option("--task", default=None, metavar="T", help="List rows of this task only.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=1, max=1_000_000),
    default=10,
    show_default=True,
    metavar="N",
    help="Rows to list when no ID is given.",
)
@click.option(
    "--color/--no-color", default=None, help="Colours.  [default: when stdout is a terminal]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the row (or the rows) as JSON.")
def show(
    source: str,
    row_id: str | None,
    with_prompt: bool,
    level: int | None,
    task: str | None,
    limit: int,
    color: bool | None,
    as_json: bool,
) -> None:
    """Show one row of the dataset in DIR, or list the first rows.

    DIR may also be one .jsonl or .parquet file. ID may be any beginning of an id that only one row
    has, or of a program's id: then the rows of that program are listed.
    """
    import itertools
    import json
    import sys

    from synth.dataset import read_rows
    from synth.errors import DataError

    rows = (
        row for row in read_rows(source) if level in (None, row.level) and task in (None, row.task)
    )
    if row_id is None:
        chosen = list(itertools.islice(rows, limit))
        if not chosen and (level is not None or task is not None):
            raise DataError(_no_such_rows(source, level, task))
    else:
        chosen = find_rows(rows, row_id)
    listed = row_id is None or len(chosen) > 1
    if as_json:
        data = [row.to_dict() for row in chosen]
        click.echo(json.dumps(data if listed else data[0], indent=2))
        return
    if listed:
        click.echo(list_text(chosen, source))
        return
    coloured = sys.stdout.isatty() if color is None else color
    # click would take the colours out again when stdout is no terminal, even under --color.
    click.echo(row_text(chosen[0], coloured=coloured, with_prompt=with_prompt), color=coloured)


def find_rows(rows: Iterator[Row], prefix: str) -> list[Row]:
    """The row with this id, the only one whose id begins so, or the rows of a program.

    Raises `DataError` if there is none, or if several rows have an id that begins so.
    """
    from synth.errors import DataError, closest

    found: list[Row] = []
    of_program: list[Row] = []
    ids: list[str] = []
    for row in rows:
        ids.append(row.id)
        if row.id == prefix:
            return [row]
        if row.id.startswith(prefix):
            found.append(row)
        if row.program_id.startswith(prefix):
            of_program.append(row)
    if len(found) == 1:
        return found
    if not found and len({row.program_id for row in of_program}) == 1:
        return of_program
    if found:
        first = ", ".join(row.id for row in found[:5])
        more = f", … {len(found)} in all" if len(found) > 5 else ""
        raise DataError(f"{len(found)} rows have an id that begins with {prefix!r}: {first}{more}")
    near = closest(prefix, ids)
    raise DataError(f"no row among {len(ids):,} has an id that begins with {prefix!r}{near}")


def _no_such_rows(source: str, level: int | None, task: str | None) -> str:
    """Why a list is empty: what was asked for, and what there is."""
    from synth.dataset import read_rows

    found = [(row.level, row.task) for row in read_rows(source)]
    levels = ", ".join(map(str, sorted({one for one, _ in found})))
    tasks = ", ".join(sorted({one for _, one in found}))
    asked = [f"level {level}"] * (level is not None) + [f"task {task!r}"] * (task is not None)
    return f"{source} has no row of {' and '.join(asked)}; levels there: {levels}; tasks: {tasks}"


def list_text(rows: list[Row], source: str) -> str:
    """A line per row, and how to see one."""
    lines = [("id", "task", "level", "operation", "call and output")]
    for row in rows:
        output = row.output or row.output_type or "(raises)"
        shown = f"{_one_line(f'{row.entry}({row.args})', 44)} -> {_one_line(output, 24)}"
        lines.append((row.id, row.task, str(row.level), row.operation, shown))
    if not rows:
        return f"{source} holds no rows"
    widths = [max(len(line[i]) for line in lines) for i in range(4)]
    table = []
    for line in lines:
        cells = [cell.ljust(width) for cell, width in zip(line, widths, strict=False)]
        table.append("  ".join([*cells, line[4]]))
    return "\n".join([*table, "", f"one row: synth show {source} {rows[0].id}"])


def row_text(row: Row, *, coloured: bool, with_prompt: bool) -> str:
    """One row: what it is, the program, the call, what came of it, and questions with answers."""
    import json

    from rewards.row import Spec
    from synth.questions import answer_text, sentence

    def strong(text: str) -> str:
        return click.style(text, bold=True) if coloured else text

    raised = json.loads(row.spec).get("raises")
    structure = f"  ·  {row.structure}" if row.structure else ""
    parts = [
        f"{strong(row.id)}  level {row.level}  ·  {row.operation}{structure}",
        f"task {row.task}, split {row.split}, program {row.program_id}, input {row.input_kind},"
        f" {row.n_steps} steps, {row.n_lines} lines",
        "",
        _code(row.code, coloured).rstrip("\n"),
        "",
        f"{strong('call')}    {_code(f'{row.entry}({row.args})', coloured).strip()}",
    ]
    if raised:
        parts.append(f"{strong('raises')}  {raised}")
    else:
        output = _code(row.output, coloured).strip()
        parts.append(f"{strong('output')}  {output}  ({row.output_type})")
        hidden = f"{row.entry}(????)" if row.task == "input" else f"{row.entry}({row.args})"
        answer = row.output if row.task == "input" else "????"
        parts.append(
            f"{strong('asked')}   {_code(f'assert {hidden} == {answer}', coloured).strip()}"
        )
    if row.task == "whitebox":
        parts.append("")
        for number, question in enumerate(Spec.from_json(row.spec).questions, 1):
            parts.append(printable(f"{number:>2}. {sentence(question, row.code)}"))
            parts.append(f"    {strong(printable(answer_text(question)))}")
    if row.pass_rate is not None:
        parts.append(f"{strong('passed')}  {row.pass_rate:.0%} of {row.n_rollouts} rollouts")
    if with_prompt:
        for role, content in row.prompt:
            parts += ["", strong(f"--- {role}"), printable(content).rstrip("\n")]
    return "\n".join(parts)


def printable(text: str) -> str:
    """`text` with control characters written as escapes: a program cannot move the cursor."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda found: f"\\x{ord(found[0]):02x}", text)


def _code(text: str, coloured: bool) -> str:
    text = printable(text)
    if not coloured:
        return text
    from pygments import highlight
    from pygments.formatters import TerminalFormatter
    from pygments.lexers import PythonLexer

    # stripnl would take away a program's leading blank lines, ensurenl adds one at the end.
    return highlight(text, PythonLexer(stripnl=False), TerminalFormatter())


def _one_line(text: str, width: int) -> str:
    flat = printable(" ".join(text.split("\n")))
    return flat if len(flat) <= width else flat[: width - 1] + "…"
