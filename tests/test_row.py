"""Laws of `rewards.row` and of the package's surface: nothing is lost in JSON, nothing is let in.

Not covered: what the ground truth is worth (the reward modules), Arrow and files (`synth`).
"""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import values

import rewards
from rewards.row import (
    COLUMNS,
    LIMITS,
    QUESTION_FIELDS,
    SCHEMA_VERSION,
    SHAPES,
    TASKS,
    Question,
    Row,
    RowError,
    Shape,
    Spec,
    SpecError,
    Tests,
    ValueAnswer,
)
from rewards.sandbox.jobs import Limits
from rewards.values import canonical, parse

ROOT = Path(__file__).resolve().parent.parent
CODE = "def f(x):\n    y = x\n    return y"
VALUE_ANSWERS = [{"value": "1", "type": "int"}]


def example(**changes: Any) -> dict[str, Any]:
    """A spec with all keys; a change to `...` takes a key away."""
    value = {"kind": "value", "line": 2, "visit": 1, "variable": "y", "answers": VALUE_ANSWERS}
    control = {"kind": "next_statement", "line": 2, "visit": 1, "answers": ["    return y"]}
    spec: dict[str, Any] = {"schema": 1, "task": "whitebox", "code": CODE, "entry": "f"}
    spec |= {"args": "1", "output": "1", "raises": None, "questions": [value, control]}
    spec |= {"shape": {"name": "gated", "alpha": 0.5}, **changes}
    return {key: item for key, item in spec.items() if item is not ...}


def asking(**changes: Any) -> dict[str, Any]:
    question = {"kind": "value", "line": 2, "variable": "y", "answers": VALUE_ANSWERS, **changes}
    return example(questions=[{k: v for k, v in question.items() if v is not ...}])


def unittest_spec(**changes: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "schema": 1,
        "task": "unittest",
        "instruction": "Write f.",
        "entry": "f",
    }
    spec |= {"tests": {"fn_name": "f", "inputs": ["1\n2"], "outputs": ["3"]}}
    spec |= {"limits": {"wall_seconds": 1.5, "memory_mb": 64}, **changes}
    return {key: item for key, item in spec.items() if item is not ...}


# --------------------------------------------------------------------------------- the JSON law


def joined(text: str) -> str:
    """A high and a low surrogate side by side are one character in JSON, so they are one here."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


texts = st.text(st.characters(codec=None), max_size=12).map(joined)
filled = texts.filter(str.strip)
positive = st.integers(1, 3)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind = draw(st.sampled_from(sorted(QUESTION_FIELDS)))
    fields = {
        key: draw(filled if key in ("variable", "function") else positive)
        for key in QUESTION_FIELDS[kind]
    }
    answers: st.SearchStrategy[Any] = filled
    if kind in ("value", "returned"):
        answers = st.builds(ValueAnswer, filled, filled) | st.just("Nil")
    elif kind in ("executed", "branch"):
        answers = st.sampled_from(["True", "False"])
    elif kind in ("visits", "depth", "frames"):
        answers = st.integers(0, 10**30).map(str)
    return Question(kind, tuple(draw(st.lists(answers, min_size=1, max_size=3))), **fields)


shapes = st.builds(
    Shape,
    st.sampled_from(SHAPES),
    st.floats(0, 1),
    st.floats(0, 1),
    st.dictionaries(st.sampled_from(["control_flow", "data_flow"]), st.floats(0, 1e300)).map(
        lambda weights: tuple(sorted(weights.items()))
    ),
)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    task = draw(st.sampled_from(TASKS))
    if task == "unittest":
        pairs = draw(st.lists(st.tuples(texts, texts), min_size=1, max_size=3))
        tests = Tests(
            tuple(a for a, _ in pairs), tuple(b for _, b in pairs), draw(st.none() | filled)
        )
        amounts = {
            name: st.integers(1, 10**9) if kind is int else st.floats(1e-9, 1e9)
            for name, (kind, _) in LIMITS.items()
        }
        limits = draw(st.fixed_dictionaries({}, optional=amounts))
        return Spec(
            task=task,
            instruction=draw(texts),
            entry=draw(texts),
            tests=draw(st.just(tests) | st.builds(Tests, check=filled)),
            limits=tuple(sorted(limits.items())),
        )
    raises = draw(st.none() | filled)
    return Spec(
        task=task,
        code="\n\nx" + draw(texts),
        entry=draw(st.sampled_from(["f", "λ", "_2"])),
        args=draw(texts),
        output="" if raises else canonical(draw(values(max_leaves=3))),
        raises=raises,
        questions=tuple(draw(st.lists(questions(), max_size=3))),
        shape=draw(shapes),
    )


@given(specs())
def test_a_spec_survives_json(spec: Spec) -> None:
    text = spec.to_json()
    assert text.isascii() and "\n" not in text
    assert Spec.from_json(text) == spec
    assert Spec.from_json(json.loads(text)) == spec
    assert Spec.from_json(text).to_json() == text
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(spec) == hash(Spec.from_json(text))


@given(specs())
def test_nulls_count_as_absent_at_every_level(spec: Spec) -> None:
    """Arrow fills the structs of a column with nulls, up to all keys that any row has."""
    record = json.loads(spec.to_json())
    everything = {**example(), **unittest_spec()}
    for question in record.get("questions", []):
        for key in ("line", "visit", "variable", "function", "call"):
            question.setdefault(key, None)
    for key in ("fn_name", "inputs", "outputs", "check"):
        if "tests" in record:
            record["tests"].setdefault(key, None)
    for key in LIMITS:
        record.get("limits", {}).setdefault(key, None)
    assert Spec.from_json({**dict.fromkeys(everything), **record}) == spec


rows = st.builds(
    Row,
    **{
        column.name: {
            "string": texts,
            "int64": st.integers(-(2**63), 2**63 - 1),
            "float64": st.floats(allow_nan=False, allow_infinity=False),
            "messages": st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
        }[column.type]
        | (st.none() if column.nullable else st.nothing())
        for column in COLUMNS
        if column.name != "schema_version"
    },
    schema_version=st.just(SCHEMA_VERSION),
)


@given(rows)
def test_a_row_survives_json(row: Row) -> None:
    record = row.to_dict()
    assert list(record) == [column.name for column in COLUMNS]
    assert Row.from_dict(record) == row
    assert Row.from_dict(json.loads(json.dumps(record))) == row


def test_messages_are_what_chat_templates_take() -> None:
    row = Row.from_dict(plain_record(prompt=[{"role": "user", "content": "hi"}]))
    assert row.prompt == (("user", "hi"),)
    assert row.to_dict()["prompt"] == [{"role": "user", "content": "hi"}]


# ------------------------------------------------------------------------------------- columns


def test_the_columns_are_the_fields_of_a_row() -> None:
    hints = typing.get_type_hints(Row)
    kinds = {
        "string": str,
        "int64": int,
        "float64": float,
        "messages": tuple[tuple[str, str], ...],
    }
    assert [column.name for column in COLUMNS] == [one.name for one in dataclasses.fields(Row)]
    for column in COLUMNS:
        kind = kinds[column.type]
        assert hints[column.name] == (kind | None if column.nullable else kind)
        assert column.meaning.endswith(".") and column.meaning[0] in column.meaning[0].upper() + "`"


def plain_record(**changes: Any) -> dict[str, Any]:
    plain = {"string": "", "int64": 0, "float64": 0.5, "messages": []}
    record = {column.name: plain[column.type] for column in COLUMNS}
    return {**record, "schema_version": SCHEMA_VERSION, **changes}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"args": [1]}, "column 'args' is [1] (list), expected text"),
        ({"args": None}, "column 'args' is None (NoneType), expected text"),
        ({"level": True}, "column 'level' is True (bool), expected an integer of 64 bits"),
        ({"level": 1.0}, "column 'level' is 1.0 (float)"),
        ({"level": 2**63}, "column 'level' is 9223372036854775808 (int)"),
        ({"pass_rate": float("nan")}, "is nan (float), expected a finite number or null"),
        ({"pass_rate": 10**400}, "expected a finite number or null"),
        ({"prompt": "hi"}, "expected a list of {role, content} messages"),
        ({"prompt": [{"role": "user"}]}, "holds {'role': 'user'} (dict)"),
        ({"prompt": [{"role": "user", "content": None}]}, "column 'prompt' holds"),
        ({"outputs": "1"}, "column 'outputs' is unknown, did you mean 'output'?"),
        ({"schema_version": 2}, "column 'schema_version' is 2, this release reads 1"),
    ],
)
def test_a_record_that_is_no_row_is_refused_by_column(change: dict[str, Any], message: str) -> None:
    with pytest.raises(RowError) as caught:
        Row.from_dict(plain_record(**change))
    assert message in str(caught.value)


def test_every_column_is_required_even_a_nullable_one() -> None:
    for column in COLUMNS:
        record = plain_record()
        del record[column.name]
        with pytest.raises(RowError, match=f"column '{column.name}' is missing"):
            Row.from_dict(record)


def test_json_has_one_kind_of_number() -> None:
    rate = Row.from_dict(plain_record(pass_rate=1)).pass_rate
    assert rate == 1.0 and type(rate) is float


# ---------------------------------------------------------------------------- reading a spec


def test_what_is_left_out_has_its_default() -> None:
    spec = Spec.from_json(
        {"schema": 1, "task": "output", "code": CODE, "entry": "f", "args": "1", "output": "1"}
    )
    assert (spec.questions, spec.raises, spec.shape) == ((), None, Shape("gated", 0.5, 0.0, ()))
    assert Spec.from_json(asking()).questions[0].visit == 1
    returned = asking(kind="returned", line=..., variable=..., function="f")
    assert Spec.from_json(returned).questions[0].call == 1
    assert Spec.from_json(unittest_spec(entry=..., limits=..., instruction=...)).limits == ()
    assert Spec.from_json(example(output=..., raises="ValueError")).output == ""


def test_the_text_says_every_key_of_the_task() -> None:
    spec = {"schema": 1, "task": "output", "code": CODE, "entry": "f", "args": "1", "output": "1"}
    written = json.loads(Spec.from_json(spec).to_json())
    assert list(written) == [*spec, "raises", "questions", "shape"]
    assert written["raises"] is None
    assert json.loads(Spec.from_json(unittest_spec()).to_json()) == unittest_spec()
    assert json.loads(Spec.from_json(example()).to_json()) == example()


def test_limits_and_shapes_can_be_handed_on() -> None:
    spec = Spec.from_json(unittest_spec())
    assert Limits(**dict(spec.limits)) == Limits(wall_seconds=1.5, memory_mb=64)  # type: ignore[arg-type]
    hints = typing.get_type_hints(Limits)
    assert {name: kind for name, (kind, _) in LIMITS.items()} == hints
    shape = {"name": "penalized", "alpha": 1, "format": 0.1, "weights": {"data_flow": 2}}
    assert Spec.from_json(example(shape=shape)).shape == Shape(
        "penalized", 1.0, 0.1, (("data_flow", 2.0),)
    )


def test_each_kind_of_question_has_a_family() -> None:
    families = {kind: Question(kind, ("x",)).family for kind in QUESTION_FIELDS}
    assert families["next_statement"] == families["raised_at"] == "control_flow"
    assert families["value"] == families["changed"] == families["returned"] == "data_flow"


REFUSED: list[tuple[Any, str]] = [
    # the text
    ("", "spec: '' (str) is not JSON"),
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ('{"schema": 1, "schema": 1}', "spec key 'schema': stands twice"),
    ('{"schema": NaN}', "spec: NaN is not JSON"),
    ("[]", "spec: got [] (list), expected an object"),
    ("null", "spec: got None (NoneType), expected an object"),
    (None, "expected a JSON text or an object"),
    (b"{}", "expected a JSON text or an object"),
    ({"schema": {1, 2}}, "an object that is not JSON"),
    ({"schema": float("inf")}, "an object that is not JSON"),
    # the top
    ({}, "spec key 'schema' is missing"),
    (example(schema=2), "spec key 'schema': got 2 (int), expected 1, the schema"),
    (example(schema=True), "spec key 'schema': got True (bool)"),
    (example(schema="1"), "spec key 'schema': got '1' (str)"),
    (example(task=...), "spec key 'task' is missing, expected one of 'output'"),
    (example(task="outputs"), "spec key 'task': got 'outputs' (str), expected one of 'output'"),
    (example(raise_="x"), "spec key 'raise_' is unknown, did you mean 'raises'?"),
    (example(zzz=None), "spec key 'zzz' is unknown, expected one of schema, task, code"),
    (
        example(tests={"check": "x"}),
        "spec key 'tests': got {'check': 'x'} (dict), expected no such",
    ),
    (example(limits={}), "spec key 'limits': got {} (dict), expected no such key for the task"),
    (unittest_spec(code=CODE), "spec key 'code'"),
    (unittest_spec(shape={}), "expected no such key for the task 'unittest'"),
    *[
        (example(**{key: ...}), f"'{key}' is missing")
        for key in ("code", "entry", "args", "output")
    ],
    *[(example(**{key: 1}), f"spec key '{key}': got 1 (int)") for key in ("code", "entry", "args")],
    (example(output=1), "spec key 'output': got 1 (int), expected text"),
    (example(output=""), "spec key 'output': got '' (str), expected the text of a value"),
    (example(raises="ValueError"), "spec key 'output': got '1' (str), expected no text"),
    (example(raises=" "), "spec key 'raises'"),
    (example(code=" \n"), "expected the source text of a program"),
    (example(entry="f()"), "expected the name of a function"),
    # questions
    (example(questions={}), "spec key 'questions': got {} (dict), expected a list"),
    (example(questions=[None]), "spec key 'questions[0]': got None (NoneType), expected an object"),
    (asking(kind="vale"), "spec key 'questions[0].kind': got 'vale' (str)"),
    (asking(kind=...), "spec key 'questions[0].kind' is missing"),
    (asking(lines=1), "spec key 'questions[0].lines' is unknown, did you mean 'line'?"),
    (
        asking(function="f"),
        "'questions[0].function': got 'f' (str), expected no such key for the kind",
    ),
    (asking(line=...), "spec key 'questions[0].line' is missing"),
    (asking(line=0), "'questions[0].line': got 0 (int), expected an integer, at least 1"),
    (asking(line=4), "'questions[0].line': got 4 (int), expected a line of the program, 1 to 3"),
    (asking(line="2"), "'questions[0].line': got '2' (str)"),
    (asking(line=2.0), "'questions[0].line': got 2.0 (float)"),
    (asking(visit=True), "'questions[0].visit': got True (bool)"),
    (asking(variable=""), "'questions[0].variable': got '' (str), expected text that is not blank"),
    (asking(answers=...), "'questions[0].answers' is missing"),
    (asking(answers=[]), "expected at least one answer"),
    (asking(answers="1"), "expected a list"),
    (asking(answers=["1; int"]), "'questions[0].answers[0]': got '1; int' (str), expected {"),
    (asking(answers=[{"value": "1"}]), "spec key 'questions[0].answers[0].type' is missing"),
    (asking(answers=[{"value": 1, "type": "int"}]), "'questions[0].answers[0].value': got 1 (int)"),
    (
        asking(answers=[{"value": "1", "type": "int", "x": 1}]),
        "'questions[0].answers[0].x' is unknown",
    ),
    (asking(kind="changed", variable=..., answers=[" "]), "expected text that is not blank"),
    (asking(kind="changed", variable=..., answers=VALUE_ANSWERS), "expected text"),
    (asking(kind="visits", visit=..., variable=..., answers=[3]), "got 3 (int), expected digits"),
    (asking(kind="visits", visit=..., variable=..., answers=["three"]), "expected digits"),
    (asking(kind="executed", variable=..., answers=["yes"]), "expected 'True' or 'False'"),
    # shape
    (example(shape="gated"), "spec key 'shape': got 'gated' (str), expected an object"),
    (example(shape={"name": "gate"}), "spec key 'shape.name': got 'gate' (str)"),
    (
        example(shape={"alpha": 1.5}),
        "'shape.alpha': got 1.5 (float), expected a number, at least 0, at",
    ),
    (example(shape={"alpha": True}), "spec key 'shape.alpha': got True (bool)"),
    (example(shape={"beta": 1}), "spec key 'shape.beta' is unknown, expected one of name, alpha"),
    (example(shape={"weights": {"flow": 1}}), "spec key 'shape.weights.flow' is unknown"),
    (example(shape={"weights": {"data_flow": -1}}), "'shape.weights.data_flow': got -1 (int)"),
    (example(shape={"weights": {"data_flow": 10**400}}), "'shape.weights.data_flow': got 1000"),
    # tests and limits
    (unittest_spec(tests=...), "spec key 'tests' is missing"),
    (unittest_spec(tests={}), "spec key 'tests.inputs' is missing"),
    (
        unittest_spec(tests={"inputs": [], "outputs": []}),
        "'tests.inputs': got [] (list), expected at least",
    ),
    (unittest_spec(tests={"inputs": ["1"], "outputs": []}), "expected 1 texts, one for each input"),
    (
        unittest_spec(tests={"inputs": [1], "outputs": ["1"]}),
        "spec key 'tests.inputs[0]': got 1 (int)",
    ),
    (
        unittest_spec(tests={"check": "x", "inputs": ["1"]}),
        "expected no such key for tests with a 'check'",
    ),
    (unittest_spec(tests={"check": ""}), "spec key 'tests.check'"),
    (
        unittest_spec(tests={"inputs": ["1"], "outputs": ["1"], "fn_name": ""}),
        "spec key 'tests.fn_name'",
    ),
    (
        unittest_spec(limits={"cpu_second": 1}),
        "'limits.cpu_second' is unknown, did you mean 'cpu_seconds'?",
    ),
    (unittest_spec(limits={"cpu_seconds": 0}), "expected a number of seconds above 0"),
    (unittest_spec(limits={"memory_mb": 1.5}), "spec key 'limits.memory_mb': got 1.5 (float)"),
    (unittest_spec(limits={"processes": -1}), "spec key 'limits.processes': got -1 (int)"),
]


@pytest.mark.parametrize(("spec", "message"), REFUSED, ids=[message[:60] for _, message in REFUSED])
def test_what_is_no_spec_is_refused_by_key(spec: Any, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        Spec.from_json(spec)
    assert message in str(caught.value)
    str(caught.value).encode("ascii")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["schema", "task", "code", "tests", "x"]), inner)
        ),
    )
)
def test_any_json_gives_a_spec_or_one_kind_of_error(record: Any) -> None:
    for given_ in (record, json.dumps(record), example(questions=[record]), example(shape=record)):
        try:
            spec = Spec.from_json(given_)
        except SpecError:
            continue
        assert Spec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (Spec(task="output"), "spec key 'code'"),
        (Spec(task="unittest"), "spec key 'tests.inputs' is missing"),
        (Spec("output", CODE, "f", "1", "1", shape=Shape(alpha=float("nan"))), "not JSON"),
        (Spec("output", CODE, "f", "1", "1", instruction="x"), "spec key 'instruction': got 'x'"),
        (Spec("output", CODE, "f", "\ud83d\ude00", "1"), "spec key 'args'"),
        (Spec("output", CODE, "f", "1", "1", questions=(Question("value", ("Nil",)),)), "line"),
        (
            Spec("unittest", tests=Tests(("1",), ("1",), check="x")),
            "spec key 'tests': got Tests(inputs=('1',)",
        ),
    ],
)
def test_a_record_that_would_not_come_back_is_not_written(spec: Spec, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec.to_json()
    assert message in str(caught.value)


def test_equal_specs_have_one_text() -> None:
    for pair in ((1, 1.0), (0.0, -0.0)):
        one, other = (Spec("output", CODE, "f", "1", "1", shape=Shape(alpha=a)) for a in pair)
        assert one == other and one.to_json() == other.to_json()


def test_EX_30_a_lone_surrogate_survives_in_a_spec() -> None:
    spec = Spec.from_json(unittest_spec(instruction="a\ud800"))
    spec.to_json().encode("utf-8")
    assert Spec.from_json(spec.to_json()).instruction == "a\ud800"


def test_HP_14_HP_15_ground_truth_is_text_and_comes_back_from_a_spec() -> None:
    for value in ({1: (2, 3), None: 4}, {(1, 2): 3}, (1, 2), {1, 2}):
        spec = Spec("output", CODE, "f", "1", canonical(value))
        again = parse(Spec.from_json(spec.to_json()).output)
        assert again == value and type(again) is type(value)


# ------------------------------------------------------------------------- the package's surface


def loaded_by(code: str) -> set[str]:
    """Top-level and `rewards` modules that `code` adds in a fresh interpreter."""
    script = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); before = set(sys.modules)\n{code}\n"
        "print('\\n'.join(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_none_of_its_modules() -> None:
    assert {name for name in loaded_by("import rewards") if "rewards" in name} == {"rewards"}


def test_the_package_stands_on_the_standard_library() -> None:
    code = "import rewards\nfor name in rewards.__all__: getattr(rewards, name)"
    tops = {name.partition(".")[0] for name in loaded_by(code)}
    assert tops <= {"rewards", *sys.stdlib_module_names}
    assert "rewards" in tops


def test_every_public_name_resolves_to_its_home() -> None:
    assert sorted(rewards.__all__) == sorted({*rewards._HOME, *rewards._MODULES})
    for name in rewards.__all__:
        assert getattr(rewards, name) is not None
        assert name in dir(rewards)
    assert rewards.Spec is Spec
    assert rewards.canonical is canonical
    with pytest.raises(AttributeError, match="module 'rewards' has no attribute 'nothing'"):
        rewards.nothing  # noqa: B018
