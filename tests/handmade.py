"""Rows written by hand, for tests of what is done with rows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from rewards.row import SCHEMA_VERSION, Row

CODE = """\
def scale(items, factor):
    total = []
    for item in items:
        if item > 0:
            total.append(item * factor)
    return total
"""


def make_row(number: int = 0, **changes: Any) -> Row:
    """Row number `number` of a dataset in which each row is a program of its own."""
    row = Row(
        id=f"row{number:04d}",
        schema_version=SCHEMA_VERSION,
        task="output",
        split="train",
        level=3,
        owner="list",
        operation="list.append",
        structure="for>if",
        depth=2,
        program_id=f"program{number:04d}",
        code=CODE,
        entry="scale",
        args="[1, -2, 3], 2",
        output="[2, 6]",
        output_type="list",
        input_kind="seed",
        n_steps=11,
        n_lines=6,
        path_id="0f" * 8,
        pass_rate=None,
        n_rollouts=None,
        evaluator=None,
        solver=None,
        provider="grammar",
        prompt_version="output-1",
        python_version="3.11.0",
        prompt=(("system", "Answer."), ("user", f"What is scale{number}?")),
        spec="",
    )
    row = replace(row, **changes)
    if not row.spec:
        row = replace(row, spec=make_spec(row))
    return row


def make_spec(row: Row, raises: str | None = None) -> str:
    """The `spec` that says what the flat columns of `row` say."""
    fields = {"schema": 1, "task": row.task, "code": row.code, "entry": row.entry}
    fields |= {"args": row.args, "output": row.output, "raises": raises}
    return json.dumps(fields)
