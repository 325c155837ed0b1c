"""Figures over rows: each is checked against rows for which it is known by construction."""

from __future__ import annotations

import ast
import json
import keyword
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from handmade import CODE, make_row, make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.row import Row
from rewards.values import canonical
from synth import report
from synth.commands.show import show
from synth.commands.stats import stats
from synth.dataset import Funnel, Manifest, Stage, write_dataset
from synth.dedup import ast_shape, content_digest, distinct, normalised
from synth.errors import DataError
from synth.report import Coverage, compute, render

DOUBLE = "def double(x):\n    return x * 2\n"
CLAMP = """\
def clamp(x):
    if x < 0:
        return 0
    return x
"""


def case(number: int, program: str = "p", **changes: object) -> Row:
    return make_row(number, program_id=program, **changes)


def computed(rows: Sequence[Row], **kwargs: object) -> report.Report:
    return compute(rows, **kwargs)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------ dedup

names = st.from_regex(r"[a-z]{3,8}", fullmatch=True).filter(
    lambda name: not keyword.iskeyword(name) and name not in dir(__builtins__)
)


class Renamed(ast.NodeTransformer):
    """Other names, attributes and literals; the same tree."""

    def __init__(self, word: str, value: object) -> None:
        self.word = word
        self.value = value

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(node.id + self.word, node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.Attribute:
        return ast.Attribute(self.visit(node.value), node.attr + self.word, node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        return ast.parse(repr(self.value), mode="eval").body

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(node.arg + self.word)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name += self.word
        return self.generic_visit(node)


literals = st.one_of(
    st.integers(-5, 5), st.text(max_size=3), st.lists(st.integers(), max_size=3), st.none()
)


@given(names, literals)
def test_the_shape_forgets_names_and_literals(word: str, value: object) -> None:
    tree = Renamed(word, value).visit(ast.parse(CODE))
    other = ast.unparse(ast.fix_missing_locations(tree))
    assert ast_shape(other) == ast_shape(CODE)
    assert content_digest(other) != content_digest(CODE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("item > 0", "item >= 0"),
        ("item * factor", "item + factor"),
        ("return total", "return total, factor"),
        ("for item in items", "for item in items[1:]"),
        ("total = []", "total = items"),
        ("        if item > 0:", "        while item > 0:"),
        ("total.append(item * factor)", "total.append(factor, item * factor)"),
    ],
)
def test_the_shape_keeps_everything_else(old: str, new: str) -> None:
    assert old in CODE
    assert ast_shape(CODE.replace(old, new)) != ast_shape(CODE)


def test_layout_and_comments_do_not_make_another_program() -> None:
    noisy = "# a\n\n" + CODE.replace("    total = []", "    total=[ ]  # empty")
    assert normalised(noisy) == normalised(CODE)
    assert list(distinct([("a", CODE), ("b", DOUBLE), ("c", noisy)])) == [
        ("a", None),
        ("b", None),
        ("c", "a"),
    ]


# ----------------------------------------------------------------------------------- the figures


def test_rows_programs_and_cases_are_told_apart() -> None:
    rows = [
        case(1, "a", args="1", task="output"),
        case(2, "a", args="1", task="input"),
        case(3, "a", args="2", task="output", level=1),
        case(4, "b", args="1", task="output", split="test"),
    ]
    found = computed(rows)
    assert (found.rows, found.programs, found.cases) == (4, 2, 3)
    assert found.tasks == {"output": 3, "input": 1}
    assert found.splits == {"train": 3, "test": 1}
    assert [(one.level, one.rows, one.share) for one in found.levels] == [
        (1, 1, 0.25),
        (3, 3, 0.75),
    ]


def test_shapes_are_counted_per_program_and_level() -> None:
    rows = [
        case(1, "a", code=DOUBLE),
        case(2, "b", code=DOUBLE.replace("x", "y").replace("2", "[3]")),
        case(3, "c", code=CLAMP),
        case(4, "c", code=CLAMP, args="7"),
        case(5, "d", code=DOUBLE, level=4),
    ]
    three, four = computed(rows).levels
    assert (three.programs, three.shapes, three.shape_share) == (3, 2, 2 / 3)
    assert (four.programs, four.shapes, four.shape_share) == (1, 1, 1.0)


def test_quantiles_of_steps_and_lines() -> None:
    rows = [case(n, f"p{n}", n_steps=n, n_lines=n + 100) for n in range(101)]
    (level,) = computed(rows).levels
    assert level.steps == (10, 50, 90, 100)
    assert level.lines == (110, 150, 190, 200)


def test_distinct_outputs_per_program() -> None:
    outputs = {"one": "111", "two": "1122", "three": "123"}
    rows = [
        case(n * 10 + i, program, args=str(i), output=output)
        for n, (program, texts) in enumerate(outputs.items())
        for i, output in enumerate(texts)
    ]
    found = computed(rows)
    assert found.two_outputs == pytest.approx(2 / 3)
    assert found.three_outputs == pytest.approx(1 / 3)


def test_an_input_row_adds_no_output() -> None:
    rows = [case(1, args="1", output="1"), case(2, args="1", output="1", task="input")]
    assert computed(rows).two_outputs == 0


def test_bools_are_counted_and_not_guessed() -> None:
    rows = [
        case(1, "a", output="True", output_type="bool", args="True"),
        case(2, "b", output="5", output_type="int", args="5"),
        case(3, "c", output="6", output_type="int", args="7"),
    ]
    found = computed(rows)
    assert found.bool_outputs == pytest.approx(1 / 3)
    assert found.lazy_cases == 2
    assert found.lazy["first argument"] == 0.5


@pytest.mark.parametrize(
    ("strategy", "right", "wrong"),
    [
        ("first argument", {"args": "[1, 2], 3", "output": "[1, 2]"}, {"args": "3, [1, 2]"}),
        ("second argument", {"args": "3, 'x'", "output": "'x'"}, {"args": "'x'"}),
        ("longest argument", {"args": "3, 'xyz', 4", "output": "'xyz'"}, {"args": "3, 'xyz!', 4"}),
        ("last literal of the program", {"code": DOUBLE, "output": "2"}, {"code": CLAMP}),
        (
            "last literal of the program",
            {"code": "f = lambda x: x + [1, 2]", "output": "[1, 2]"},
            {},
        ),
        ("last literal of the program", {"code": "f = lambda x: x - -7", "output": "-7"}, {}),
        ("empty value of the output's type", {"output": "[]", "output_type": "list"}, {}),
        ("empty value of the output's type", {"output": "0.0", "output_type": "float"}, {}),
        ("empty value of the output's type", {"output": "set()", "output_type": "set"}, {}),
        ("empty value of the output's type", {"output": "None", "output_type": "NoneType"}, {}),
        ("empty value of the output's type", {"output": "Counter()", "output_type": "Counter"}, {}),
    ],
)
def test_each_lazy_guess(strategy: str, right: dict[str, object], wrong: dict[str, object]) -> None:
    rows = [case(1, "a", **right), case(2, "b", **{**right, "output": "'other'", **wrong})]
    assert computed(rows).lazy[strategy] == 0.5


@settings(max_examples=50)
@given(st.one_of(st.integers(), st.text(), st.lists(st.integers()), st.floats(), st.binary()))
def test_an_echo_is_found_however_the_argument_is_written(value: object) -> None:
    text = canonical(value)
    written = [text, f"({text})", f" {text} ", f"x={text}"]
    rows = [case(n, f"p{n}", args=args, output=text) for n, args in enumerate(written)]
    assert computed(rows).lazy["first argument"] == (0 if isinstance(value, bool) else 1)


def test_the_most_common_output_is_that_of_its_type() -> None:
    outputs = [("1", "int"), ("1", "int"), ("2", "int"), ("'a'", "str"), ("'b'", "str")]
    rows = [
        case(n, f"p{n}", args="0", output=output, output_type=kind)
        for n, (output, kind) in enumerate(outputs)
    ]
    assert computed(rows).lazy["most common output of that type"] == pytest.approx(3 / 5)


def test_rows_that_raise_are_not_guessed() -> None:
    row = make_row(1, output="", output_type="ValueError")
    rows = [replace(row, spec=make_spec(row, raises="ValueError")), make_row(2)]
    assert computed(rows).lazy_cases == 1


def test_operations_are_compared_with_the_catalogue() -> None:
    from synth.catalogue import catalogue

    known = catalogue().operations
    chosen = [next(op for op in known if op.family == family) for family in ("builtin", "library")]
    rows = [case(n, f"p{n}", operation=op.id, owner=op.owner) for n, op in enumerate(chosen)]
    for family in computed(rows).families:
        assert (family.seen, family.owners) == (1, 1)
        assert family.catalogue == sum(op.family == family.family for op in known)


def test_an_empty_dataset_has_figures() -> None:
    found = computed([])
    assert found.rows == found.cases == found.lazy_cases == 0
    assert "0 rows" in render(found)


def test_the_report_is_json_and_text() -> None:
    rows = [case(n, f"p{n}", output=str(n), output_type="int") for n in range(5)]
    found = computed(rows, coverage=Coverage(10, 9))
    data = json.loads(json.dumps(found.to_json()))
    assert data["coverage"] == {"statements": 10, "executed": 9, "share": 0.9}
    text = render(found)
    for shown in ("5 rows", "90.0%", *found.lazy, "list.append"[:4]):
        assert shown in text
    assert max(map(len, text.splitlines())) <= 80
    assert "not measured" in render(computed(rows))


def test_coverage_travels_in_the_manifest() -> None:
    assert report.coverage_in({}) is None
    left = {"coverage": {"statements": 4, "executed": 3}}
    assert report.coverage_in(left) == Coverage(4, 3)


# ------------------------------------------------------------------------------ running it again


def real_rows() -> list[Row]:
    """Rows whose outputs are true, one that raises included."""
    rows = [
        case(1, "double", code=DOUBLE, entry="double", args="3", output="6", output_type="int"),
        case(
            2, "double", code=DOUBLE, entry="double", args="'a'", output="'aa'", output_type="str"
        ),
        case(3, "clamp", code=CLAMP, entry="clamp", args="5", output="5", output_type="int"),
        case(4, "clamp", code=CLAMP, entry="clamp", args="2.5", output="2.5", output_type="float"),
    ]
    bad = case(5, "double", code=DOUBLE, entry="double", args="{}", output="", output_type="")
    return [*rows, replace(bad, spec=make_spec(bad, raises="TypeError"))]


def test_true_outputs_verify() -> None:
    found = report.verify(real_rows(), workers=1)
    assert (found.equal, found.different, found.failed) == (5, 0, 0)


@pytest.mark.parametrize("change", [{"output": "7"}, {"output_type": "bool"}, {"args": "4"}])
def test_a_false_output_is_found(change: dict[str, object]) -> None:
    rows = real_rows()
    rows[0] = replace(rows[0], **change)
    found = report.verify(rows, workers=1)
    assert (found.equal, found.different, found.failed) == (4, 1, 0)
    assert found.examples[0].startswith("row0001: ")
    assert found.examples[0] in found.text()


def test_statements_that_some_input_executes() -> None:
    rows = real_rows()
    # clamp has three statements, and no input above is negative: `return 0` never runs.
    assert report.statement_coverage(rows, workers=1) == Coverage(statements=4, executed=3)
    more = replace(rows[2], id="x", args="-1", output="0")
    assert report.statement_coverage([*rows, more], workers=1) == Coverage(4, 4)


# ------------------------------------------------------------------------------------ the commands


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    funnel = Funnel((Stage.of("programs", "programs", 2, {"unused parameter": 1}),))
    manifest = Manifest(
        {"depth": 3}, 0, funnel, figures={"coverage": {"statements": 4, "executed": 4}}
    )
    write_dataset(tmp_path, real_rows(), manifest)
    return tmp_path


def invoke(command: object, *args: object) -> Result:
    runner = CliRunner()
    return runner.invoke(command, [str(arg) for arg in args], catch_exceptions=False)  # type: ignore[arg-type]


def test_stats_prints_figures_and_funnel(folder: Path) -> None:
    result = invoke(stats, folder)
    assert result.exit_code == 0
    for shown in ("5 rows", "unused parameter", "first argument", "100.0%"):
        assert shown in result.output
    data = json.loads(invoke(stats, folder, "--json").output)
    assert data["rows"] == 5
    assert data["funnel"][0]["dropped"] == {"unused parameter": 1}


def test_stats_of_a_single_file(folder: Path) -> None:
    (file,) = (folder / "jsonl").iterdir()
    assert "5 rows" in invoke(stats, file).output


def test_stats_verify_says_whether_all_is_equal(folder: Path) -> None:
    result = invoke(stats, folder, "--verify", "--jobs", 1)
    assert result.exit_code == 0
    assert "5 equal" in result.output
    rows = [replace(real_rows()[0], output="7")]
    write_dataset(folder, rows, Manifest({"depth": 3}, 0))
    result = invoke(stats, folder, "--verify", "--jobs", 1)
    assert result.exit_code == 1
    assert "row0001: 6" in result.output


def test_show_lists_rows_and_says_how_to_see_one(folder: Path) -> None:
    output = invoke(show, folder).output
    assert "double(3) -> 6" in output
    assert output.splitlines()[-1] == f"one row: synth show {folder} row0001"
    assert "row0002" not in invoke(show, folder, "--limit", 1).output


def test_show_one_row(folder: Path) -> None:
    output = invoke(show, folder, "row0002").output
    assert DOUBLE.rstrip() in output
    assert "double('a')" in output
    assert "'aa'  (str)" in output
    assert "Answer." not in output
    assert "\x1b" not in output
    assert "What is scale2?" in invoke(show, folder, "row0002", "--prompt").output
    assert "\x1b[" in invoke(show, folder, "row0002", "--color").output
    assert "raises  TypeError" in invoke(show, folder, "row0005").output


def test_colours_change_nothing_but_colours(folder: Path) -> None:
    import re

    plain = invoke(show, folder, "row0003", "--prompt").output
    coloured = invoke(show, folder, "row0003", "--prompt", "--color").output
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_a_row_cannot_move_the_cursor(tmp_path: Path) -> None:
    row = make_row(code="x = '\x1b[2J'\n", args="'\x1b]0;t\x07'", output="'\x9b1A'")
    row = replace(row, prompt=(("user", "\x1b[8m"),))
    write_dataset(tmp_path, [row], Manifest({"depth": 3}, 0))
    listed = invoke(show, tmp_path).output
    shown = invoke(show, tmp_path, "row", "--prompt").output
    assert r"x = '\x1b[2J'" in shown
    assert not set("\x1b\x07\x9b") & set(listed + shown)
    coloured = invoke(show, tmp_path, "row", "--prompt", "--color").output
    assert "\x1b[2J" not in coloured
    assert "\x1b[8m" not in coloured


def test_show_json_is_the_row(folder: Path) -> None:
    data = json.loads(invoke(show, folder, "row0004", "--json").output)
    assert Row.from_dict(data) == real_rows()[3]
    assert len(json.loads(invoke(show, folder, "--json").output)) == 5


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        ("row000", r"5 rows have an id that begins with 'row000': row0001, row0002"),
        ("row00O1", r"no row among 5 has an id that begins with 'row00O1' \(did you mean 'row000"),
        ("zzz", r"no row among 5 has an id that begins with 'zzz'$"),
    ],
)
def test_show_an_id_that_is_none(folder: Path, prefix: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        invoke(show, folder, prefix)


def test_show_accepts_a_unique_beginning(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    target = tmp_path_factory.mktemp("ids")
    rows = [replace(row, id=f"{n}{row.id}") for n, row in enumerate(real_rows())]
    write_dataset(target, rows, Manifest({"depth": 3}, 0))
    assert "clamp(2.5)" in invoke(show, target, "3").output


def test_cl_06_commands_name_file_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    good = make_row().to_dict()
    path.write_text(json.dumps(good) + "\n" + json.dumps({**good, "args": [1]}) + "\n")
    for command in (show, stats):
        with pytest.raises(DataError, match=f"{path}, line 2: column 'args' is .*expected text"):
            invoke(command, path)
