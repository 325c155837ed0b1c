"""`synth grade`: what completions are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from synth.grade_files import Result

EPILOG = """\b
Examples:
  synth grade rows/ completions.jsonl
  synth grade specs.jsonl completions.jsonl --json > grades.jsonl
  synth grade answered.jsonl --equality python
  synth grade specs.jsonl - --strict < completions.jsonl
"""


@click.command(epilog=EPILOG, short_help="Grade completions.")
@click.argument("files", nargs=-1, metavar="[SPECS] COMPLETIONS", type=click.Path(allow_dash=True))
@click.option(
    "--equality",
    type=click.Choice(["strict", "python"]),
    default="strict",
    show_default=True,
    help="When two values are equal: strict tells 1, True and 1.0 apart.",
)
@click.option(
    "--form",
    type=click.Choice(["exact", "lenient"]),
    default="exact",
    show_default=True,
    help="lenient also takes `x = 1; int` and a last line `Answer: …`.",
)
@click.option(
    "--answer-first", is_flag=True, help="Also take an answer that precedes the reasoning."
)
@click.option(
    "--tests",
    type=click.Choice(["share", "all"]),
    default="share",
    show_default=True,
    help="Score of unit tests: the share passed, or all or nothing.",
)
@click.option(
    "--scale",
    type=float,
    default=None,
    metavar="S",
    help="Maximum of a score.  [default: the shape's]",
)
@click.option("--strict", is_flag=True, help="Refuse to grade if a spec has no completion.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Sandboxed processes.  [default: all cores]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per completion.")
def grade(
    files: tuple[str, ...], equality: str, form: str, answer_first: bool, tests: str, scale: float | None,
    strict: bool, jobs: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Grade the completions in COMPLETIONS, lines {"id": …, "completion": …}.

    SPECS is a dataset folder or a file of lines {"id": …, "spec": …}; it may be left out, or be `-` as
    either file may for standard input, if the lines of COMPLETIONS hold a `spec` of their own. A
    completion is text, a message or a list of messages; an id may have any number of them.

    The table says under a completion what is not right in it, and why. With --json each line has the
    total and its maximum, the parts io, w and tests, which no shape has gated and which are null where
    nothing of the kind is asked, and every grade with its reason; the summary goes to standard error.
    A completion that cannot be scored has score null. Nothing is graded before all lines have been
    read.
    """
    import json

    from rewards.grades import Policy
    from synth.grade_files import grade_answers, sandbox, tally
    from synth.progress import bar

    if scale is not None and not 0 < scale < float("inf"):
        from synth.errors import ConfigError

        raise ConfigError(f"--scale is {scale}; expected a positive number, such as 1")
    specs, answers = _read(files, strict)
    policy = Policy(equality=equality, form=form, answer_first=answer_first, tests=tests)
    results = []
    if not as_json:
        click.echo(_HEAD)
    with sandbox(jobs) as pool, bar("grade", "completion", len(answers)) as progress:
        for result in grade_answers(
            answers, policy=policy, scale=scale, pool=pool, progress=progress
        ):
            results.append(result)
            line = json.dumps(result.to_json(), ensure_ascii=True) if as_json else _line(result)
            click.echo(line)
    if not as_json:
        click.echo()
    click.echo(tally(results, specs).text(), err=as_json)


def _read(files: tuple[str, ...], strict: bool) -> tuple[dict[str, Any], list[Any]]:
    from synth.errors import DataError, UsageError
    from synth.grade_files import read_completions, read_specs

    if not 1 <= len(files) <= 2:
        raise UsageError(
            f"expected [SPECS] COMPLETIONS, got {len(files)} files; see synth grade --help"
        )
    # A `-` in place of the specs says that there are none, unless the completions are a file.
    named = len(files) == 2 and files != ("-", "-")
    specs = read_specs(files[0]) if named else {}
    answers = read_completions(files[-1], specs)
    if strict and specs:
        missing = sorted(specs.keys() - {str(one.id) for one in answers})
        if missing:
            raise DataError(
                f"{len(missing):,} of {len(specs):,} specs have no completion in {files[-1]},"
                f" the first is {missing[0]!r} (--strict)"
            )
    return specs, answers


COLUMNS = 100
"""Width of the table, in characters."""
_NAME = 46
_HEAD = f"{'id':{_NAME}}{'status':16}{'score':>8}{'max':>6}{'io':>8}{'w':>8}{'tests':>8}"


def _line(result: Result) -> str:
    """One row of the table, and under it why a part is not right."""
    name = str(result.id).encode("unicode_escape").decode("ascii")
    shown = name if len(name) <= _NAME - 2 else f"{name[: _NAME - 3]}…"
    graded = result.graded
    parts = [graded.io, graded.tests]
    io, tests = (_number(part.score if part is not None else None) for part in parts)
    line = (
        f"{shown:{_NAME}}{graded.status:16}{_number(result.score):>8}{result.max:>6g}"
        f"{io:>8}{_number(result.w):>8}{tests:>8}"
    )
    return "\n".join([line.rstrip(), *_reasons(result)])


def _reasons(result: Result) -> Iterator[str]:
    """Why each part is not right, wrapped; what holds for all parts or all questions stands once."""
    import textwrap

    from rewards.questions import ANOTHER

    grades = result.graded.questions
    whole = result.graded.status in ("no_answer", "truncated")
    alike = len(grades) > 1 and len(set(grades)) == 1 and grades[0] != ANOTHER
    told: dict[str, str] = {}  # label -> reason
    number = 0
    for part, where, grade in result.asked():
        number += part == "question"
        label = part
        if whole:
            label = ""
        elif part == "question":
            each = f"question {number} ({_place(**where)})"
            label = f"questions 1 to {len(grades)}" if alike else each
        if grade.status != "right":
            told[label] = grade.reason or grade.status
    for label, reason in told.items():
        yield from textwrap.wrap(
            f"{label}: {reason}" if label else reason,
            COLUMNS,
            initial_indent="  ",
            subsequent_indent="    ",
        )


def _place(kind: object, variable: object = None, function: object = None, **where: object) -> str:
    """What a question asks and where, in words."""
    name = variable or function
    asked = f"{kind} of {name}" if name else str(kind)
    return ", ".join([asked, *[f"{key} {value}" for key, value in where.items()]])


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
