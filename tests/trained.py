"""What the tests of `trainers` share: small sources in every layout, rewards by dotted path, a tiny run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from handmade import CODE, make_row

from rewards.row import Question, Row, Spec, ValueAnswer
from synth.prompts import output_prompt
from synth.questions import whitebox_prompt

QUESTIONS = (
    Question("next_statement", line=4, visit=2, answers=("for item in items:",)),
    Question("next_statement", line=5, visit=2, answers=("for item in items:",)),
    Question("value", line=3, visit=3, variable="item", answers=(ValueAnswer("3", "int"),)),
    Question("value", line=5, visit=1, variable="total", answers=(ValueAnswer("[2]", "list"),)),
)
"""Two questions of each family about `scale([1, -2, 3], 2)`."""


def needs(module: str = "trl") -> Any:
    """The module, or a skip that says that it is not installed here."""
    return pytest.importorskip(module, reason=f"{module} is not installed here")


def output_row(number: int, **changes: Any) -> Row:
    """Row `number`: an output task with a prompt of its own, true of the program."""
    args = f"[{number + 1}, -2, 3], 2"
    own = {
        "args": args,
        "output": f"[{2 * number + 2}, 6]",
        "prompt": output_prompt(CODE, "scale", args),
        "level": 1 + number % 3,
    }
    return make_row(number, **{**own, **changes})


def whitebox_row(number: int = 0, questions: Sequence[Question] = QUESTIONS) -> Row:
    """A whitebox row about `scale([1, -2, 3], 2)`, which returns [2, 6]."""
    args = "[1, -2, 3], 2"
    spec = Spec("whitebox", CODE, "scale", args, "[2, 6]", questions=tuple(questions))
    return make_row(
        number,
        task="whitebox",
        args=args,
        prompt=whitebox_prompt(CODE, "scale", args, questions),
        spec=spec.to_json(),
    )


def lines(path: Path, records: Iterable[Any]) -> Path:
    """A file of JSON lines; a text is written as it is."""
    path.write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in records)
    )
    return path


def rows_file(folder: Path, count: int = 12, *, brief: bool = False) -> Path:
    """A file of output rows; brief ones ask in three words, which makes runs several times as fast."""
    changes = [{"prompt": (("user", f"Answer row {n}."),)} if brief else {} for n in range(count)]
    rows = [output_row(n, **changes[n]).to_dict() for n in range(count)]
    return lines(folder / "rows.jsonl", rows)


def apps_file(folder: Path, count: int = 8) -> Path:
    """A file of unit-test rows in the layout of APPS."""
    return lines(folder / "apps.jsonl", [apps_record(n) for n in range(count)])


def apps_record(number: int) -> dict[str, Any]:
    tests = {"fn_name": "add", "inputs": [[1], [2]], "outputs": [[1 + number], [2 + number]]}
    return {
        "problem_id": number,
        "question": f"Add {number} to x.",
        "solutions": "[]",
        "input_output": json.dumps(tests),
        "difficulty": "interview",
        "url": "",
        "starter_code": "def add(x):",
    }


# ------------------------------------------------------------------ rewards by dotted path


def spread(completions: Sequence[Any], **_: Any) -> list[float]:
    """A reward that differs between completions even of a model that can do nothing."""
    return [len(set(str(one[-1]["content"]))) / 100 for one in completions]


async def waiting(completions: Sequence[Any], **_: Any) -> list[float]:
    """A reward that is awaited."""
    import asyncio

    await asyncio.sleep(0)
    return [0.5] * len(completions)


def length(completion: str, spec: object, **_: Any) -> float:
    """A reward of one completion."""
    return float(len(completion))


NOT_A_REWARD = 3
