"""What README.md shows is true: its row, its code, its commands."""

from __future__ import annotations

import re
from pathlib import Path

from rewards.sandbox import Job, run
from rewards.values import equal, parse

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_row_gives_the_output_that_stands_beside_it() -> None:
    code, _, assertion = BLOCKS[0].rpartition("assert ")
    match = re.fullmatch(r"(\w+)\((.*)\) == \?\?\?\?   # (.+)\n", assertion)
    assert match is not None
    entry, args, output = match.groups()
    [result] = run([Job(code, entry, args)])
    assert result.value is not None
    assert equal(parse(result.value), parse(output))


def test_the_row_meets_its_level() -> None:
    from synth.catalogue import catalogue
    from synth.constraints import Constraint, structure, violations
    from synth.source import read

    code, _, assertion = BLOCKS[0].rpartition("assert ")
    source = read(f"{code.rstrip()}\n\nprint({assertion.partition(' == ')[0]})\n")
    constraint = Constraint(catalogue().get("int.__add__"), 4, structure(4, 3, ("if", "for")))
    assert violations(constraint, source) == []


def test_the_code_prints_what_its_comments_say() -> None:
    wanted = [
        line.partition("# ")[2].partition(":")[0] for line in BLOCKS[1].splitlines() if "# " in line
    ]
    lines: list[str] = []
    exec(BLOCKS[1], {"print": lambda *words: lines.append(" ".join(map(str, words)))})
    assert lines == wanted


def test_every_command_it_names_exists() -> None:
    from synth.cli import cli

    named = set(re.findall(r"`synth (\w+)", README))
    assert named
    assert named <= set(cli.list_commands(None))  # type: ignore[arg-type]
