"""`rl_dataset.json`, the rows that the paper's authors published -> `whitebox` and `input` examples.

Covers both types of rows. Ordinals, values and types are taken as published (`synth audit` and a tracer
find some of them wrong); a question that cannot be graded at all, such as a value that was cut or a type
`object`, is left out if the prompt is ours, and costs the whole row if the published prompt is kept,
since that one asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewards.row import Question, ValueAnswer
from rewards.values import Unrepresentable, ValueTextError, canonical, parse, type_name
from synth.prompts import input_prompt
from synth.questions import whitebox_prompt
from trainers.layouts.base import (
    BrokenRow,
    Example,
    Layout,
    Options,
    content_id,
    need,
    spec_text,
)

__all__ = ["REFERENCE"]

SYSTEM = "You are a programming expert."
_NEXT = re.compile(r"immediately after line (\d+): .* for the (\d+) time\?\s*\Z", re.S)
_VALUE = re.compile(r"variable '([^']+)' after line (\d+) has .* for the (\d+) time\?\s*\Z", re.S)


def _reference(record: Mapping[str, Any], options: Options) -> Iterator[Example]:
    kind = need(record, "type")
    code, entry = need(record, "func_str"), need(record, "func_name")
    args = record.get("func_args")
    if not isinstance(args, str):
        raise BrokenRow("column 'func_args' is missing")
    output = _output(need(record, "result"))
    fields = {"code": code, "entry": entry, "args": args, "output": output}
    name = content_id("reference", kind, code, args)
    if kind == "oi":
        ours = input_prompt(code, entry, output)
        prompt = ours if options.prompts == "ours" else _published(record)
        yield Example(name, prompt, "input", spec_text(task="input", **fields))
    elif kind == "io_mixed":
        questions, bad = _questions(record)
        if bad and options.prompts != "ours":
            raise BrokenRow(f"asks a question that cannot be graded ({bad[0]})")
        ours = whitebox_prompt(code, entry, args, questions)
        prompt = ours if options.prompts == "ours" else _published(record)
        spec = spec_text(task="whitebox", questions=questions, **fields)
        yield Example(name, prompt, "whitebox", spec)
    else:
        raise BrokenRow(f"type {kind}")


def _published(record: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return (("system", SYSTEM), ("user", need(record, "prompt_str")))


def _output(text: str) -> str:
    try:
        return canonical(parse(text))
    except (ValueTextError, Unrepresentable) as error:
        raise BrokenRow("the result is no literal") from error


def _questions(record: Mapping[str, Any]) -> tuple[tuple[Question, ...], list[str]]:
    """The questions that can be graded, in order, and why others cannot."""
    asked = record.get("questions") or {}
    known = record.get("question_answers") or {}
    if not isinstance(asked, Mapping) or not isinstance(known, Mapping):
        raise BrokenRow("columns 'questions' or 'question_answers' hold no object")
    found: list[Question] = []
    bad: list[str] = []
    for texts, answers, read in (
        ("path_questions", "path_answers", _next_statement),
        ("state_questions", "state_as", _value),
    ):
        # Null where Arrow has filled a struct up.
        pairs: tuple[Sequence[Any], Sequence[Any]] = (
            asked.get(texts) or (),
            known.get(answers) or (),
        )
        if len(pairs[0]) != len(pairs[1]):
            raise BrokenRow(f"has not as many {answers} as {texts}")
        for text, given in zip(*pairs, strict=True):
            one = read(text, given)
            if isinstance(one, Question):
                found.append(one)
            else:
                bad.append(one)
    return tuple(found), bad


def _next_statement(text: str, answers: Sequence[str]) -> Question | str:
    place = _NEXT.search(text)
    if place is None or not answers:
        return "a path question of another form"
    line, visit = int(place.group(1)), int(place.group(2))
    return Question("next_statement", line=line, visit=visit, answers=tuple(answers))


def _value(text: str, answers: Sequence[Sequence[str]]) -> Question | str:
    place = _VALUE.search(text)
    if place is None or not answers:
        return "a state question of another form"
    found = []
    for kind, value in answers:
        literal = canonical(value) if kind == "str" else value
        try:
            read = parse(literal)
        except ValueTextError:
            return "a value that is no literal"
        if type_name(read) != kind:
            return "a type that is not the value's"
        found.append(ValueAnswer(canonical(read), kind))
    return Question(
        "value",
        variable=place.group(1),
        line=int(place.group(2)),
        visit=int(place.group(3)),
        answers=tuple(found),
    )


REFERENCE = Layout(
    "reference",
    (("func_str", "func_name", "func_args", "result", "type"),),
    ("prompt_str", "questions", "question_answers", "trace_events"),
    _reference,
)
