"""Our rows, and conversations: what needs no more than to be read.

Covers rows of `synth generate` (with the chain that `synth.chains` wrote, if any), messages, ShareGPT
conversations, prompts with completions, and CodeI/O's conversations, of which the turn is taken that its
feedback calls correct.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rewards.row import COLUMNS, SCHEMA_VERSION, Row, RowError, Spec, SpecError
from trainers.layouts.base import BrokenRow, Example, Layout, Options, content_id, messages, need

__all__ = ["CHAT", "CODEIO_CHAT", "ROWS", "example_of", "row_of"]


def example_of(row: Row) -> Example:
    """The example of one of our rows."""
    return Example(row.id, row.prompt, row.task, row.spec, "", row.level, row.pass_rate, row.split)


def row_of(example: Example) -> Row:
    """A row that says what an example says; what it does not say is left blank."""
    spec = Spec.from_json(example.spec)
    texts = dict.fromkeys(
        ("owner", "operation", "structure", "output_type", "input_kind", "path_id", "provider"), ""
    )
    return Row(
        **texts,
        id=example.id,
        schema_version=SCHEMA_VERSION,
        task=example.task,
        split=example.split,
        level=example.level or 0,
        depth=0,
        program_id=example.id,
        code=spec.code,
        entry=spec.entry,
        args=spec.args,
        output=spec.output,
        n_steps=0,
        n_lines=spec.code.count("\n"),
        pass_rate=example.pass_rate,
        n_rollouts=None,
        evaluator=None,
        solver=None,
        prompt_version="",
        python_version="",
        prompt=example.prompt,
        spec=example.spec,
    )


def _rows(record: Mapping[str, Any], _: Options) -> Iterator[Example]:
    try:
        row = Row.from_dict({key: record[key] for key in _COLUMNS if key in record})
        Spec.from_json(row.spec)
    except (RowError, SpecError) as error:
        raise BrokenRow(str(error)) from error
    yield example_of(row)


def _chat(record: Mapping[str, Any], _: Options) -> Iterator[Example]:
    if record.get("completion") is not None:
        given, answer = record.get("prompt"), record["completion"]
        prompt = (("user", given),) if isinstance(given, str) else messages(given, "prompt")
        text = answer if isinstance(answer, str) else _last(messages(answer, "completion"))
    else:
        column = "messages" if record.get("messages") is not None else "conversations"
        turns = messages(record.get(column), column)
        prompt, text = turns[:-1], _last(turns)
        if isinstance(record.get("system"), str) and record["system"].strip():
            prompt = (("system", record["system"]), *prompt)
    if not prompt:
        raise BrokenRow("there is no prompt before the answer")
    if not text.strip():
        raise BrokenRow("the answer is blank")
    name = record.get("id")
    identity = str(name) if name is not None else content_id("chat", repr(prompt), text)
    yield Example(identity, prompt, str(record.get("task") or "chat"), completion=text)


def _last(turns: tuple[tuple[str, str], ...]) -> str:
    role, text = turns[-1]
    if role != "assistant":
        raise BrokenRow(f"the last message is of the role {role!r}, not of the assistant")
    return text


def _codeio_chat(record: Mapping[str, Any], _: Options) -> Iterator[Example]:
    prompt = need(record, "prompt")
    for turn in ("1", "2"):
        feedback = record.get(f"feedback_{turn}")
        if isinstance(feedback, str) and feedback.strip().lower().startswith("correct"):
            text = need(record, f"turn_{turn}")
            name = content_id("codeio", prompt, text)
            yield Example(name, (("user", prompt),), "chat", completion=text)
            return
    raise BrokenRow("no turn that its feedback calls correct")


_COLUMNS = tuple(column.name for column in COLUMNS)

ROWS = Layout("rows", (("schema_version", "spec", "prompt", "task"),), _COLUMNS, _rows)
CHAT = Layout(
    "chat",
    (("prompt", "completion"), ("messages",), ("conversations",)),
    ("id", "task", "source", "system"),
    _chat,
)
CODEIO_CHAT = Layout(
    "codeio", (("prompt", "turn_1", "feedback_1"),), ("turn_2", "feedback_2"), _codeio_chat
)
