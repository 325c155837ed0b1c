"""The row: one training example on disk, and the JSON `spec` that holds all a reward needs.

`Row` is the flat record with its columns described in `COLUMNS`; `Spec` is the checked form of its
`spec` column, which is also what a user writes by hand (schema 1):

    {"schema": 1, "task": "output|input|whitebox", "code": str, "entry": str, "args": str,
     "output": str, "raises": str|null,
     "questions": [{"kind": "value", "line": 5, "visit": 1, "variable": "total",
                    "answers": [{"value": "1", "type": "int"}]},
                   {"kind": "next_statement", "line": 3, "visit": 1, "answers": ["return x"]}],
     "shape": {"name": "gated", "alpha": 0.5}}
    {"schema": 1, "task": "unittest", "instruction": str, "entry": str,
     "tests": {"fn_name": str|absent, "inputs": [str], "outputs": [str]} or {"check": str},
     "limits": {"wall_seconds": 10.0}}

Required: `schema`, `task`, then `code`, `entry`, `args`, `output` (`output` not if it raises) or
`tests`; of a question its `kind`, `answers` and the fields of its kind, where `visit` and `call`
are 1 unless given. An unknown key is an error at every level. A known key whose value is null
counts as absent, because Arrow fills the structs of a column with nulls.

Not covered: whether the ground truth is true (`rewards.audit`), what an answer is worth
(`rewards.grading`, `rewards.shapes`), Arrow types and files (`synth`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

__all__ = [
    "COLUMNS",
    "CONTROL_FLOW",
    "DATA_FLOW",
    "LIMITS",
    "QUESTION_FIELDS",
    "SCHEMA_VERSION",
    "SHAPES",
    "TASKS",
    "Column",
    "Question",
    "Row",
    "RowError",
    "Shape",
    "Spec",
    "SpecError",
    "Tests",
    "ValueAnswer",
]

SCHEMA_VERSION = 1

TASKS = ("output", "input", "whitebox", "unittest")
SHAPES = ("gated", "additive", "outcome", "process", "penalized")

CONTROL_FLOW, DATA_FLOW = "control_flow", "data_flow"

QUESTION_FIELDS: Mapping[str, tuple[str, ...]] = {
    "next_statement": ("line", "visit"),
    "value": ("line", "visit", "variable"),
    "executed": ("line",),
    "visits": ("line",),
    "branch": ("line", "visit"),
    "call_entry": ("line", "visit"),
    "changed": ("line", "visit"),
    "depth": ("line", "visit"),
    "frames": ("function",),
    "returned": ("function", "call"),
    "raised": (),
    "raised_at": (),
    "handler": (),
}
"""Kind of question -> the fields that say where it asks."""

_DATA_FLOW_KINDS = frozenset(("value", "changed", "returned"))
_VALUE_KINDS = frozenset(("value", "returned"))  # answered by `value; type`
# What the answer to a kind looks like, where that is narrower than "some text".
_ANSWER_FORMS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("executed", "branch"), ("True|False|Nil", "'True' or 'False'")),
    **dict.fromkeys(("visits", "depth", "frames"), (r"[0-9]+|Nil", "digits, such as '3'")),
}

LIMITS: Mapping[str, tuple[type, bool]] = {
    "cpu_seconds": (float, False),
    "wall_seconds": (float, False),
    "memory_mb": (int, False),
    "output_bytes": (int, True),
    "file_bytes": (int, True),
    "processes": (int, True),
}
"""Key of `limits` -> (its type, may it be zero); the fields of `rewards.sandbox.Limits`."""


class RowError(ValueError):
    """A record is not a row: names the column, what was given and what was expected."""


class SpecError(ValueError):
    """A `spec` is not of schema 1: names the key, what was given and what was expected."""


# ---------------------------------------------------------------------------------------------
# The row


@dataclass(frozen=True)
class Row:
    """One example. Flat columns are for people and filters; a reward reads `spec` alone.

    What each column means stands in `COLUMNS`.
    """

    id: str
    schema_version: int
    task: str
    split: str
    level: int
    owner: str
    operation: str
    structure: str
    depth: int
    program_id: str
    code: str
    entry: str
    args: str
    output: str
    output_type: str
    input_kind: str
    n_steps: int
    n_lines: int
    path_id: str
    pass_rate: float | None
    n_rollouts: int | None
    evaluator: str | None
    solver: str | None
    provider: str
    prompt_version: str
    python_version: str
    prompt: tuple[tuple[str, str], ...]  # ((role, content), ...)
    spec: str  # JSON text

    def to_dict(self) -> dict[str, Any]:
        """Column -> value, in the order of `COLUMNS`; the prompt as `{role, content}` messages."""
        record: dict[str, Any] = {column.name: getattr(self, column.name) for column in COLUMNS}
        record["prompt"] = [{"role": role, "content": content} for role, content in self.prompt]
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Row:
        """The row of a decoded record; the inverse of `to_dict`.

        Every column must be there and no other; a whole number is taken for a `float64` column, as
        JSON has one kind of number. Raises `RowError`.
        """
        if unknown := sorted(map(str, record.keys() - {column.name for column in COLUMNS})):
            raise RowError(f"column {unknown[0]!r} is unknown{_hint(unknown[0], _names(COLUMNS))}")
        values: dict[str, Any] = {}
        for column in COLUMNS:
            if column.name not in record:
                raise RowError(f"column {column.name!r} is missing, expected {column.expected}")
            values[column.name] = column.read(record[column.name])
        if values["schema_version"] != SCHEMA_VERSION:
            raise RowError(
                f"column 'schema_version' is {values['schema_version']}, this release reads"
                f" {SCHEMA_VERSION}: use the release that wrote the row"
            )
        return cls(**values)


@dataclass(frozen=True)
class Column:
    """One column of a row."""

    name: str
    type: str
    """`string`, `int64`, `float64` or `messages` (a list of `{role, content}`, both strings)."""
    nullable: bool
    meaning: str
    """One sentence for people: the unit, the range, what null means."""

    @property
    def expected(self) -> str:
        """What a value of this column is, in words."""
        words = {
            "string": "text",
            "int64": "an integer of 64 bits",
            "float64": "a finite number",
            "messages": "a list of {role, content} messages",
        }
        return words[self.type] + (" or null" if self.nullable else "")

    def read(self, value: Any) -> object:
        """`value` as the field of a `Row`; raises `RowError`."""
        if value is None and self.nullable:
            return None
        if self.type == "string" and isinstance(value, str):
            return value
        if self.type == "int64" and _whole(value) and -(2**63) <= value < 2**63:
            return value
        if self.type == "float64" and _finite(value):
            return float(value)
        if self.type == "messages" and isinstance(value, (list, tuple)):
            return tuple([self._message(message) for message in value])
        raise RowError(f"column {self.name!r} is {_shown(value)}, expected {self.expected}")

    def _message(self, message: object) -> tuple[str, str]:
        if isinstance(message, Mapping) and set(message) == {"role", "content"}:
            role, content = message["role"], message["content"]
            if isinstance(role, str) and isinstance(content, str):
                return role, content
        raise RowError(f"column {self.name!r} holds {_shown(message)}, expected {self.expected}")


def _columns() -> tuple[Column, ...]:
    """`COLUMNS`: the types follow from the annotations of `Row`, the meanings stand here."""
    meanings = {
        "id": "Content id of the row, unique in the dataset.",
        "schema_version": f"Version of this list of columns and of `spec`: {SCHEMA_VERSION}.",
        "task": "What is asked: `output`, `input`, `whitebox` or `unittest`.",
        "split": "`train`, `validation` or `test`; no program stands in two splits.",
        "level": "Level of the constraint, from 1; a higher level asks for more structure.",
        "owner": "Type or module whose operation the program was made to use.",
        "operation": "Id of that operation, for example `str.strip`.",
        "structure": "Structure that the constraint asks for, for example `for>if`.",
        "depth": "Depth of the control-flow blueprint, 0 for none.",
        "program_id": "Content id of the program; rows of one program share it.",
        "code": "Source text of the program; lines are counted from 1 in this text.",
        "entry": "Name of the function that is called.",
        "args": "Argument list of the call, as text of literals.",
        "output": "Canonical text of what the call returns, empty if it raises.",
        "output_type": "Name of the type of what the call returns, or of the exception it raises.",
        "input_kind": "Where the arguments come from: `seed`, `near`, `boundary` or `free`.",
        "n_steps": "Statements executed during the call, counted with repetition.",
        "n_lines": "Lines of `code`.",
        "path_id": "Digest of the set of branches that the call takes.",
        "pass_rate": "Share of the evaluator's completions that pass, in [0, 1]; null if unknown.",
        "n_rollouts": "Completions behind `pass_rate`; null if unknown.",
        "evaluator": "Model that was measured, with its sampling and the date; null if none was.",
        "solver": "Strong model that solved the row; null if none was asked.",
        "provider": "Who wrote the program: `grammar` or the name of a model server.",
        "prompt_version": "Version of the text in `prompt`.",
        "python_version": "Version of Python that ran the program, for example `3.11.7`.",
        "prompt": "Messages for the model, without the answer.",
        "spec": "JSON text with all that a reward needs, the ground truth included.",
    }
    types = {
        "str": ("string", False),
        "str | None": ("string", True),
        "int": ("int64", False),
        "int | None": ("int64", True),
        "float | None": ("float64", True),
        "tuple[tuple[str, str], ...]": ("messages", False),
    }
    return tuple(
        [Column(one.name, *types[str(one.type)], meanings[one.name]) for one in fields(Row)]
    )


COLUMNS = _columns()
"""The columns of a row on disk, in order."""


def _names(columns: Iterable[Column]) -> list[str]:
    return [column.name for column in columns]


# ---------------------------------------------------------------------------------------------
# The spec


@dataclass(frozen=True)
class ValueAnswer:
    """The answer `value; type`."""

    value: str
    """Canonical text of the value."""
    type: str
    """`type(v).__name__`."""


@dataclass(frozen=True)
class Question:
    """One question about an execution, with its ground truth."""

    kind: str
    """A key of `QUESTION_FIELDS`."""
    answers: tuple[ValueAnswer | str, ...]
    """Equivalent right answers, at least one: `ValueAnswer` for `value` and `returned` (or
    `"Nil"`), text for the other kinds, `"-1"` and `"Nil"` included."""
    line: int | None = None
    """1-based line of the program at which the statement starts."""
    visit: int | None = None
    """Which of the steps that start at the line, from 1 over all frames."""
    variable: str | None = None
    function: str | None = None
    call: int | None = None
    """Which return of the function, from 1."""

    @property
    def family(self) -> str:
        """`control_flow` or `data_flow`."""
        return DATA_FLOW if self.kind in _DATA_FLOW_KINDS else CONTROL_FLOW


@dataclass(frozen=True)
class Shape:
    """Which rule turns the grades of a row into a reward (`rewards.shapes` has the rules)."""

    name: str = "gated"
    """One of `SHAPES`."""
    alpha: float = 0.5
    """Weight of the white-box answers against the output, in [0, 1]."""
    format: float = 0.0
    """Weight of a term for an answer in the asked form, in [0, 1]; 0 for none."""
    weights: tuple[tuple[str, float], ...] = ()
    """(family, weight >= 0) of the questions, sorted; a family that is not named weighs 1."""


@dataclass(frozen=True)
class Tests:
    """The tests of a `unittest` task: pairs of input and output, or one program that checks."""

    __test__ = False  # the name is not for pytest

    inputs: tuple[str, ...] = ()
    """With `fn_name`: one JSON value per line, each an argument. Without: text for stdin."""
    outputs: tuple[str, ...] = ()
    """As many as `inputs`. With `fn_name`: JSON of the value. Without: text expected on stdout."""
    fn_name: str | None = None
    check: str | None = None
    """Source that defines `check(candidate)`; then the other fields are empty."""


@dataclass(frozen=True)
class Spec:
    """All that a reward needs to know of a row. Made by `from_json`, which checks it."""

    task: str
    code: str = ""
    entry: str = ""
    args: str = ""
    output: str = ""
    """Canonical text of the result; empty if the call raises."""
    raises: str | None = None
    """Name of the exception that the call raises."""
    questions: tuple[Question, ...] = ()
    shape: Shape = Shape()
    instruction: str = ""
    tests: Tests | None = None
    limits: tuple[tuple[str, float], ...] = ()
    """(field of `rewards.sandbox.Limits`, value), sorted: `Limits(**dict(spec.limits))`."""
    schema: int = SCHEMA_VERSION

    @classmethod
    def from_json(cls, text: str | dict[str, Any]) -> Spec:
        """The spec in a JSON text, or in the object decoded from one. Raises `SpecError`."""
        if isinstance(text, dict):
            try:
                # One way for both: what is no JSON is found here, and so is what JSON would change.
                text = json.dumps(text, allow_nan=False)
            except (TypeError, ValueError, RecursionError) as error:
                raise SpecError(f"spec: an object that is not JSON: {error}") from None
        if not isinstance(text, str):
            raise SpecError(f"spec: got {_shown(text)}, expected a JSON text or an object")
        return _spec(_decoded(text))

    def to_json(self) -> str:
        """The spec as one line of compact JSON, always the same for equal specs.

        Keys stand in the order of the schema; all keys of the task are written, defaults included
        (of a question those of its kind). ASCII only, so that a lone surrogate survives. Raises
        `SpecError` if the record is not one that `from_json` would return.
        """
        try:
            again = Spec.from_json(_text(self))
        except (TypeError, ValueError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError(f"spec: a record that is not JSON: {error}") from None
        for field in fields(Spec):
            given = getattr(self, field.name)
            if getattr(again, field.name) != given:
                raise SpecError(
                    f"spec key {field.name!r}: got {_shown(given)}, expected what survives JSON"
                    f" for the task {self.task!r}"
                )
        return _text(again)  # of the checked record: 1 and 1.0 are equal and have two texts


def _text(spec: Spec) -> str:
    return json.dumps(_encoded(spec), ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _encoded(spec: Spec) -> dict[str, Any]:
    head = {"schema": spec.schema, "task": spec.task}
    if spec.task == "unittest":
        tests: dict[str, Any] = {}
        if spec.tests is not None and spec.tests.check is not None:
            tests = {"check": spec.tests.check}
        elif spec.tests is not None:
            name = {} if spec.tests.fn_name is None else {"fn_name": spec.tests.fn_name}
            tests = {**name, "inputs": spec.tests.inputs, "outputs": spec.tests.outputs}
        body = {"instruction": spec.instruction, "entry": spec.entry, "tests": tests}
        return {**head, **body, "limits": dict(spec.limits)}
    shape: dict[str, Any] = {"name": spec.shape.name, "alpha": spec.shape.alpha}
    if spec.shape.format:
        shape["format"] = spec.shape.format
    if spec.shape.weights:
        shape["weights"] = dict(spec.shape.weights)
    keys = ("code", "entry", "args", "output", "raises")
    return {
        **head,
        **{key: getattr(spec, key) for key in keys},
        "questions": [_encoded_question(question) for question in spec.questions],
        "shape": shape,
    }


def _encoded_question(question: Question) -> dict[str, Any]:
    answers = [
        {"value": answer.value, "type": answer.type} if isinstance(answer, ValueAnswer) else answer
        for answer in question.answers
    ]
    where = {key: getattr(question, key) for key in QUESTION_FIELDS.get(question.kind, ())}
    return {"kind": question.kind, **where, "answers": answers}


def _decoded(text: str) -> object:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise SpecError(f"spec key {twice!r}: stands twice, expected once")
        return result

    def number(name: str) -> object:
        raise SpecError(f"spec: {name} is not JSON, expected a finite number")

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=number)
    except SpecError:
        raise
    except (ValueError, RecursionError) as error:
        raise SpecError(f"spec: {_shown(text)} is not JSON: {error}") from None


_COMMON = ("schema", "task")
_EXECUTION_KEYS = (*_COMMON, "code", "entry", "args", "output", "raises", "questions", "shape")
_UNITTEST_KEYS = (*_COMMON, "instruction", "entry", "tests", "limits")
_ALL_KEYS = tuple(dict.fromkeys(_EXECUTION_KEYS + _UNITTEST_KEYS))


def _spec(value: object) -> Spec:
    # All keys of any task first: which of them this task takes is known once it has been read.
    top = _Keys(value, "", _ALL_KEYS)
    schema = top.integer("schema", 1)
    if schema != SCHEMA_VERSION:
        raise top.wrong("schema", schema, f"{SCHEMA_VERSION}, the schema that this release reads")
    task = top.word("task", TASKS)
    top.only(_UNITTEST_KEYS if task == "unittest" else _EXECUTION_KEYS, f"the task {task!r}")
    if task == "unittest":
        return Spec(
            task=task,
            instruction=top.text("instruction", ""),
            entry=top.text("entry", ""),
            tests=_tests(top.inner("tests", ("fn_name", "inputs", "outputs", "check"))),
            limits=_limits(top.inner("limits", tuple(LIMITS), {})),
        )
    code, entry, raises = top.text("code"), top.text("entry"), top.optional_text("raises")
    if not code.strip():
        raise top.wrong("code", code, "the source text of a program")
    if not entry.isidentifier():
        raise top.wrong("entry", entry, "the name of a function of the program")
    output = top.text("output", *([""] if raises is not None else []))
    if (not output.strip()) == (raises is None):
        expected = "the text of a value" if raises is None else "no text, as the call raises"
        raise top.wrong("output", output, expected)
    return Spec(
        task=task,
        code=code,
        entry=entry,
        args=top.text("args"),
        output=output,
        raises=raises,
        questions=_questions(top, code.count("\n") + 1),
        shape=_shape(top.inner("shape", ("name", "alpha", "format", "weights"), {})),
    )


def _questions(top: _Keys, n_lines: int) -> tuple[Question, ...]:
    keys = ("kind", "line", "visit", "variable", "function", "call", "answers")
    result = []
    for number, value in enumerate(top.items("questions", [])):
        question = _Keys(value, f"questions[{number}]", keys)
        kind = question.word("kind", tuple(QUESTION_FIELDS))
        taken = QUESTION_FIELDS[kind]
        question.only(("kind", "answers", *taken), f"the kind {kind!r}")
        where: dict[str, Any] = {}
        for key in taken:
            if key in ("variable", "function"):
                where[key] = question.filled(key)
            else:
                where[key] = question.integer(key, 1, *([] if key == "line" else [1]))
        if where.get("line", 1) > n_lines:
            raise question.wrong("line", where["line"], f"a line of the program, 1 to {n_lines}")
        result.append(Question(kind=kind, answers=_answers(question, kind), **where))
    return tuple(result)


def _answers(question: _Keys, kind: str) -> tuple[ValueAnswer | str, ...]:
    answers: list[ValueAnswer | str] = []
    items = question.items("answers")
    for number, item in enumerate(items):
        key = f"answers[{number}]"
        if kind not in _VALUE_KINDS:
            form, words = _ANSWER_FORMS.get(kind, (r"(?s).*\S.*", "text that is not blank"))
            if not isinstance(item, str) or not re.fullmatch(form, item):
                raise question.wrong(key, item, words)
            answers.append(item)
        elif isinstance(item, dict):
            inner = _Keys(item, question.path(key), ("value", "type"))
            answers.append(ValueAnswer(inner.filled("value"), inner.filled("type")))
        elif item == "Nil":
            answers.append(item)
        else:
            raise question.wrong(key, item, '{"value": text, "type": text} or "Nil"')
    if not answers:
        raise question.wrong("answers", items, "at least one answer")
    return tuple(answers)


def _shape(shape: _Keys) -> Shape:
    families = shape.inner("weights", (CONTROL_FLOW, DATA_FLOW), {})
    weights = [(name, families.number(name, 0.0, math.inf)) for name in sorted(families.given)]
    return Shape(
        name=shape.word("name", SHAPES, Shape.name),
        alpha=shape.number("alpha", 0.0, 1.0, Shape.alpha),
        format=shape.number("format", 0.0, 1.0, Shape.format),
        weights=tuple(weights),
    )


def _tests(tests: _Keys) -> Tests:
    check = tests.optional_text("check")
    if check is not None:
        tests.only(("check",), "tests with a 'check'")
        return Tests(check=tests.filled("check"))
    inputs, outputs = tests.texts("inputs"), tests.texts("outputs")
    if not inputs:
        raise tests.wrong("inputs", [], "at least one text")
    if len(inputs) != len(outputs):
        raise tests.wrong("outputs", list(outputs), f"{len(inputs)} texts, one for each input")
    name = tests.filled("fn_name") if "fn_name" in tests.given else None
    return Tests(inputs=inputs, outputs=outputs, fn_name=name)


def _limits(limits: _Keys) -> tuple[tuple[str, float], ...]:
    result: list[tuple[str, float]] = []
    for name in sorted(limits.given):
        kind, zero = LIMITS[name]
        if kind is int:
            result.append((name, limits.integer(name, 0 if zero else 1)))
            continue
        seconds = limits.number(name, 0.0, math.inf)
        if seconds == 0:
            raise limits.wrong(name, seconds, "a number of seconds above 0")
        result.append((name, seconds))
    return tuple(result)


_REQUIRED: Any = object()


class _Keys:
    """One JSON object of a spec: its keys, read once each and checked; nulls count as absent."""

    def __init__(self, value: object, where: str, known: tuple[str, ...]) -> None:
        self.where = where
        if not isinstance(value, dict):
            name = f"spec key {where!r}" if where else "spec"
            raise SpecError(f"{name}: got {_shown(value)}, expected an object")
        if unknown := [key for key in value if key not in known]:
            raise SpecError(
                f"spec key {self.path(unknown[0])!r} is unknown"
                f"{_hint(unknown[0], known) or ', expected one of ' + ', '.join(known)}"
            )
        self.given = {key: item for key, item in value.items() if item is not None}

    def path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def wrong(self, key: str, given: object, expected: str) -> SpecError:
        return SpecError(f"spec key {self.path(key)!r}: got {_shown(given)}, expected {expected}")

    def only(self, keys: tuple[str, ...], owner: str) -> None:
        """Refuses keys that are known, but not to `owner`."""
        for key in self.given:
            if key not in keys:
                raise self.wrong(key, self.given[key], f"no such key for {owner}")

    def get(self, key: str, default: Any, fits: Callable[[Any], bool], expected: str) -> Any:
        if key not in self.given:
            if default is _REQUIRED:
                raise SpecError(f"spec key {self.path(key)!r} is missing, expected {expected}")
            return default
        if not fits(self.given[key]):
            raise self.wrong(key, self.given[key], expected)
        return self.given[key]

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        return str(self.get(key, default, lambda value: isinstance(value, str), "text"))

    def optional_text(self, key: str) -> str | None:
        return self.filled(key) if key in self.given else None

    def filled(self, key: str) -> str:
        return str(self.get(key, _REQUIRED, _not_blank, "text that is not blank"))

    def word(self, key: str, words: tuple[str, ...], default: Any = _REQUIRED) -> str:
        return str(self.get(key, default, lambda value: value in words, _either(words)))

    def integer(self, key: str, least: int, default: Any = _REQUIRED) -> int:
        expected = f"an integer, at least {least}"
        return int(self.get(key, default, lambda value: _whole(value) and value >= least, expected))

    def number(self, key: str, least: float, most: float, default: Any = _REQUIRED) -> float:
        expected = f"a number, at least {least:g}" + (
            "" if math.isinf(most) else f", at most {most:g}"
        )
        value = self.get(key, default, lambda v: _finite(v) and least <= v <= most, expected)
        return float(value) + 0.0  # without a minus sign before zero

    def items(self, key: str, default: Any = _REQUIRED) -> list[Any]:
        items = self.get(key, default, lambda value: isinstance(value, list), "a list")
        return list(items)

    def texts(self, key: str) -> tuple[str, ...]:
        items = self.items(key)
        for number, item in enumerate(items):
            if not isinstance(item, str):
                raise self.wrong(f"{key}[{number}]", item, "text")
        return tuple(items)

    def inner(self, key: str, known: tuple[str, ...], default: Any = _REQUIRED) -> _Keys:
        value = self.get(key, default, lambda value: isinstance(value, dict), "an object")
        return _Keys(value, self.path(key), known)


def _not_blank(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    # An int beyond the largest float has no float; isfinite would raise.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= 1.7976931348623157e308


def _either(words: Iterable[str]) -> str:
    return "one of " + ", ".join(repr(word) for word in words)


def _hint(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, list(known), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def _shown(value: object) -> str:
    """A value in a message: its type and the start of its text, ASCII only."""
    text = ascii(value)
    return f"{text if len(text) <= 60 else text[:60] + '...'} ({type(value).__name__})"
