"""The grader: truth earns everything, a wrong answer changes its own grade alone, nothing else is paid.

Laws over generated rows for every kind of question, the public reports, the predictions of a real
model, what input answers may hold and how they are run, and fuzz against a second, slow opinion.
"""

from __future__ import annotations

import ast
import json
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import patch

import pytest
import strategies
from hacks import APPLY, COUNT, PAIR, SUM, cases
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from sandboxed import SHARED

from rewards import answers, assertions, grading, lexing, values
from rewards.grades import STATUSES, Graded, Policy
from rewards.grading import grade, grade_all, same_statement, same_value
from rewards.questions import plain_answers
from rewards.row import QUESTION_FIELDS, Question, Spec, ValueAnswer
from rewards.sandbox import ExecutionResult, Job

STRICT, PYTHON = Policy(), Policy(equality="python")


def output(result: str, code: str = SUM, args: str = "2") -> Spec:
    return Spec("output", code, "f", args, result)


def inverse(result: str, code: str = PAIR) -> Spec:
    return Spec("input", code, "f", "????", result)


def tagged(text: str) -> str:
    return f"<reasoning>\nstep by step\n</reasoning>\n<answer>\n{text}\n</answer>"


def io(spec: Spec, text: str, policy: Policy = STRICT) -> float | None:
    found = grade(spec, tagged(text), policy=policy).io
    assert found is not None
    return found.score


# ------------------------------------------------------------------------- laws over all kinds

LINES = [
    *(
        "    for ch in s:",
        "x = 1",
        "rows = list(",
        "    table = {",
        "elif x > (1, 2)[0]:",
        "return",
    ),
    *("s = 'it\\'s; (' + \"#\"", 's = """a', "except (KeyError, ValueError) as error:", "pass"),
    *(
        "with open('a') as f:",
        "else_ = [",
        "@property",
        "x = y = -1",
        "lambda: 0",
        "x: int = 3  # n",
    ),
    *("text = '```'", "b += '\\\\'"),
]
PROGRAM = "def f(x):\n" + "".join(f"    pass  # {number}\n" for number in range(60))

texts_of = strategies.values(max_leaves=5)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    kind = draw(st.sampled_from(sorted(QUESTION_FIELDS)))
    where: dict[str, Any] = {}
    for field in QUESTION_FIELDS[kind]:
        where[field] = "x" if field in ("variable", "function") else draw(st.integers(1, 50))
    answer: ValueAnswer | str
    if kind in ("value", "returned"):
        value = draw(texts_of)
        answer = ValueAnswer(values.canonical(value), values.type_name(value))
        answer = draw(st.just(answer) | st.just("Nil")) if kind == "value" else answer
    elif kind in ("executed", "branch"):
        answer = draw(st.sampled_from(["True", "False"]))
    elif kind in ("visits", "depth", "frames"):
        answer = str(draw(st.integers(0, 10**6)))
    elif kind == "changed":
        names = draw(st.sets(st.sampled_from(["a", "b", "total", "ß", "x_1"]), max_size=4))
        answer = ", ".join(sorted(names)) or "Nil"
    elif kind == "raised":
        answer = draw(st.sampled_from(["KeyError", "JSONDecodeError", "Nil"]))
    else:
        answer = draw(st.sampled_from([*LINES, "-1", "Nil"]))
    return Question(kind, (answer,), **where)


@st.composite
def rows(draw: st.DrawFn) -> Spec:
    asked = tuple(draw(st.lists(questions(), min_size=1, max_size=6)))
    result = values.canonical(draw(texts_of))
    return Spec("whitebox", PROGRAM, "f", "2", result, questions=asked)


def answer_to(question: Question) -> str:
    answer = question.answers[0]
    return f"{answer.value}; {answer.type}" if isinstance(answer, ValueAnswer) else answer


def truth(spec: Spec) -> list[str]:
    return [f"assert f({spec.args}) == {spec.output}", *map(answer_to, spec.questions)]


@given(rows(), st.sampled_from([Policy(), PYTHON, Policy(form="lenient")]), st.booleans())
def test_the_truth_earns_everything_for_every_kind(
    spec: Spec, policy: Policy, fenced: bool
) -> None:
    text = "\n".join(truth(spec))
    assume(not fenced or "```" not in text)
    graded = grade(spec, tagged(f"```\n{text}\n```" if fenced else text), policy=policy)
    assert graded.status == "right", graded
    assert (graded.w, graded.w_right, graded.format) == (1.0, len(spec.questions), 1.0)
    # Neither white space nor blank lines nor a comment matter.
    spaced = "\n\n".join(f"  {line} " for line in truth(spec))
    assert grade(spec, tagged(spaced), policy=policy).status == "right"


WRONG_LINES = st.one_of(
    st.sampled_from(
        [
            *("(", "[1, 2; list", "'''", '"', "\\", "x = 'a", "# no", "??", "-1", "Nil", "1; int"),
            *(
                "True",
                "{'a': (1; dict",
                "f(",
                ")",
                "]",
                "0",
                "'a' \\",
                '"""',
                "lambda:",
                "\x00",
                ";",
            ),
        ]
    ),
    st.text(
        st.characters(codec="ascii", exclude_characters="\n\r<>`~\v\f\x1c\x1d\x1e\x1f"), min_size=1
    ).filter(lambda text: text.strip() != ""),
)


@given(rows(), st.data())
def test_a_wrong_answer_to_one_question_changes_its_own_grade_alone(
    spec: Spec, data: st.DataObject
) -> None:
    lines = truth(spec)
    number = data.draw(st.integers(1, len(lines) - 1))
    lines[number] = data.draw(WRONG_LINES)
    graded = grade(spec, tagged("\n".join(lines)))
    for place, one in enumerate(graded.questions, 1):
        assert place == number or one.status == "right", (lines, graded)
    assert graded.io is not None
    assert graded.io.status == "right"


class Slow(grading._Asked):
    """What is asked, nothing of it known beforehand: each line is read."""

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec)
        self.line, self.prefix = None, "\0"
        self.known = [() for _ in spec.questions]


WORDS = ("-1", "Nil", "True", "3", "``", "`", "- 1", "0; int", "Nil #")


def touched(draw: Any, line: str) -> str:
    """The line, or one that a model may have written for it."""
    kind = draw(st.sampled_from(["", "", "", "word", "cut", "insert", "space", "quote"]))
    place = draw(st.integers(0, len(line)))
    if kind == "word":
        return draw(st.sampled_from(WORDS))
    if kind == "cut":
        return line[:place] + line[place + 1 :]
    if kind == "insert":
        pieces = ["`", "'", "(", ")", "#", ";", " ", "1", "-", "l", "\\", "\n", "=", "\u00a0"]
        return line[:place] + draw(st.sampled_from(pieces)) + line[place:]
    mark = {"": "", "space": "  ", "quote": draw(st.sampled_from(["`", "'", "```", '"']))}[kind]
    return mark + line + mark


@settings(max_examples=300)
@given(rows(), st.sampled_from([Policy(), PYTHON, Policy(form="lenient")]), st.data())
def test_the_quick_ways_say_what_the_slow_ones_say(
    spec: Spec, policy: Policy, data: st.DataObject
) -> None:
    """Every verdict and reason of white-box answers; of the first answer the verdict."""
    texts = [
        tagged("\n".join([touched(data.draw, line) for line in truth(spec)])) for _ in range(3)
    ]
    quick = grade_all([(spec, text) for text in texts], policy=policy)
    with (
        patch.object(grading, "_Asked", Slow),
        patch.object(answers, "_asked_form", lambda text: None),
        patch.object(lexing, "_is_simple", lambda line: False),
    ):
        slow = grade_all([(spec, text) for text in texts], policy=policy)
    for one, other in zip(quick, slow, strict=True):
        assert one.questions == other.questions
        assert (one.status, one.format) == (other.status, other.format)
        assert one.io is not None
        assert other.io is not None
        assert one.io.status == other.io.status


@pytest.mark.parametrize(
    ("answer", "line"), [("- 1", "-1"), ("Nil  # x", "Nil"), ("-1  # x", "-1")]
)
def test_a_statement_that_looks_like_a_word(answer: str, line: str) -> None:
    assert ask("next_statement", answer, line)


def test_plain_answers_are_right_as_they_stand() -> None:
    for question in [Question(kind, (" return x ",)) for kind in ("next_statement", "raised_at")]:
        assert plain_answers(question) == ("return x",)
    value = Question("value", (ValueAnswer("'a'", "str"), "Nil"), line=1, variable="s")
    assert plain_answers(value) == ("'a'; str", "Nil")
    assert plain_answers(Question("raised", ("`a`",))) == ()


@settings(max_examples=50)
@given(rows(), rows(), st.integers(0, 6))
def test_a_wrong_number_of_answers_makes_all_wrong_but_the_first(
    spec: Spec, other: Spec, cut: int
) -> None:
    lines = truth(spec)
    changed = lines[: 1 + cut] if cut < len(spec.questions) else [*lines, *truth(other)[1:]]
    assume(not any(mark in line for line in changed[1:] for mark in ("(", "[", "{", '"""', "\\")))
    graded = grade(spec, tagged("\n".join(changed)))
    assert graded.io is not None
    assert graded.io.status == "right"
    assert {one.status for one in graded.questions} == {"wrong"}
    assert graded.format == 0.0


@given(rows())
def test_no_answer_is_no_answer_for_every_part(spec: Spec) -> None:
    for text, status in (("so", "no_answer"), ("<think>so", "truncated"), (None, "no_answer")):
        graded = grade(spec, text)
        assert graded.io is not None
        assert {one.status for one in (graded.io, *graded.questions)} == {status}
        assert (graded.w, graded.unscored, graded.status) == (0.0, False, status)


# ------------------------------------------------------------------------- kinds, one by one


def ask(kind: str, answer: Any, line: str, *, code: str = COUNT, policy: Policy = STRICT) -> bool:
    where = {
        field: "total" if field in ("variable", "function") else 1
        for field in QUESTION_FIELDS[kind]
    }
    if isinstance(answer, tuple):
        answer = ValueAnswer(*answer)
    spec = Spec("whitebox", code, "f", "2", "3", questions=(Question(kind, (answer,), **where),))
    graded = grade(spec, tagged("assert f(2) == 3\n" + line), policy=policy)
    assert graded.questions[0].status in ("right", "wrong")
    return graded.questions[0].status == "right"


@pytest.mark.parametrize(
    ("kind", "answer", "line", "right"),
    [
        ("value", ("None", "NoneType"), "None; NoneType", True),
        ("value", ("None", "NoneType"), "None; object", False),
        ("value", ("True", "bool"), "True; int", False),
        ("value", ("float('nan')", "float"), "nan; float", True),
        ("value", ("-0.0", "float"), "0.0; float", False),
        ("value", ("{'a': 1, 'b': 2}", "dict"), "{'b': 2, 'a': 1}; dict", True),
        ("value", ("{1, 2}", "set"), "{2, 1, 2}; set", True),
        ("value", ("defaultdict(list, {})", "defaultdict"), "x; defaultdict", False),
        (
            "value",
            ("defaultdict(list, {'a': [1]})", "defaultdict"),
            "defaultdict(<class 'list'>, {'a': [1]}); defaultdict",
            True,
        ),
        ("value", ("datetime.date(2024, 1, 2)", "date"), "date(2024, 1, 2); date", True),
        ("value", "Nil", "Nil", True),
        ("value", "Nil", "nil", False),
        ("value", "Nil", "None; NoneType", False),
        ("returned", ("'a;b'", "str"), '"a;b";str', True),
        ("executed", "True", "True", True),
        ("executed", "True", "true", False),
        ("executed", "True", "1", False),
        ("branch", "False", "`False`", True),
        ("branch", "False", "False  # never", True),
        ("visits", "3", "3", True),
        ("visits", "3", "03", True),
        ("visits", "3", "3.0", False),
        ("visits", "3", "three", False),
        ("visits", "3", "9" * 30, False),
        ("depth", "1", "\u0661", False),
        ("frames", "0", "0", True),
        ("changed", "a, b", "a, b", True),
        ("changed", "a, b", "b,a", True),
        ("changed", "a, b", "a", False),
        ("changed", "a, b", "a, a, b", False),
        ("changed", "a, b", "['a', 'b']", False),
        ("changed", "Nil", "Nil", True),
        ("changed", "Nil", "None", False),
        ("raised", "KeyError", "KeyError", True),
        ("raised", "KeyError", "builtins.KeyError", True),
        ("raised", "KeyError", "Exception", False),
        ("raised", "Nil", "Nil", True),
        ("raised_at", "    label = str(total)", "label=str(total)", True),
        ("handler", "except KeyError:", "except  KeyError :", True),
        ("handler", "except KeyError:", "except KeyError as e:", False),
        ("handler", "Nil", "Nil", True),
        ("call_entry", "total = 0", "total = 0", True),
        ("next_statement", "-1", "-1", True),
        ("next_statement", "-1", "- 1", False),
        ("next_statement", "-1", "(-1)", False),
        ("next_statement", "-1", "Nil", False),
        ("next_statement", "total = 0", "2: total = 0", True),
        ("next_statement", "total = 0", "3: total = 0", False),
        ("next_statement", "total = 0", "999999999999: total = 0", False),
        ("next_statement", "total = 0", "line 2: total = 0", True),
        ("next_statement", "total = 0", "2) total = 0", True),
        ("next_statement", "total = 0", "'total = 0'", True),
        ("next_statement", "total = 0", "- total = 0", False),
        ("next_statement", "if x:", "elif x:", False),
        ("next_statement", "x = ' '", "x = '  '", False),
    ],
)
def test_kinds(kind: str, answer: Any, line: str, right: bool) -> None:
    assert ask(kind, answer, line) is right


ONE_OF_EACH: dict[str, Any] = {
    "next_statement": "total = 0",
    "value": ("3", "int"),
    "executed": "True",
    "visits": "3",
    "branch": "False",
    "call_entry": "total = 0",
    "changed": "a, b",
    "depth": "1",
    "frames": "2",
    "returned": ("'a'", "str"),
    "raised": "KeyError",
    "raised_at": "total = 0",
    "handler": "total = 0",
}
"""A kind of question -> an answer; `total = 0` is line 2 of the program."""
KINDS = sorted(ONE_OF_EACH)


def line_for(answer: Any) -> str:
    return "; ".join(answer) if isinstance(answer, tuple) else str(answer)


@pytest.mark.parametrize("kind", [*KINDS, "Nil", "-1"])
def test_back_ticks_and_comments_are_set_aside_for_every_kind(kind: str) -> None:
    answer = ONE_OF_EACH.get(kind, kind)
    kinds = [kind] if kind in ONE_OF_EACH else ["next_statement", "handler"]
    kinds += ["value", "changed", "raised"] if kind == "Nil" else []
    line = line_for(answer)
    for each in kinds:
        for written in (f"`{line}`", f"``{line}``", f"` {line} `", f"`{line}`  # see above"):
            assert ask(each, answer, written), (each, written)
        for wrong in (f"`{line}", f"`{line}` `{line}`", f"`{line}`, `x`", f"`x`, `{line}`"):
            assert not ask(each, answer, wrong), (each, wrong)
        assert not ask(each, answer, f"`{line}x`"), each


def test_every_kind_is_in_the_table() -> None:
    assert sorted(QUESTION_FIELDS) == KINDS


@pytest.mark.parametrize(
    ("kind", "answer", "line", "right"),
    [
        ("value", ("3", "int"), "`3`; `int`", True),
        ("value", ("3", "int"), "`3`; int", True),
        ("value", ("3", "int"), "3; `int`", True),
        ("value", ("3", "int"), "`4`; `int`", False),
        ("value", ("3", "int"), "`3`", False),
        ("value", ("3", "int"), "`3; int", False),
        ("value", ("3", "int"), "`3`, `4`; int", False),
        ("value", ("3", "int"), "`3` `4`; int", False),
        ("value", ("'3'", "str"), "`3`; str", False),
        ("value", ("'`3`'", "str"), "'`3`'; str", True),
        ("value", ("'`3`'", "str"), "`'`3`'; str`", True),
        ("value", ("'`3`'", "str"), "'3'; str", False),
        ("returned", ("'a;`b`'", "str"), "`'a;`b`'`; `str`", True),
        ("changed", "a, b", "`a`, `b`", True),
        ("changed", "a, b", "`b`,`a`", True),
        ("changed", "a, b", "'a', 'b'", True),
        ("changed", "a, b", "`a`, `b`, `c`", False),
        ("changed", "a, b", "`a` `b`", False),
        ("changed", "a, b", "`a`, a, `b`", False),
        ("changed", "a", "`a`", True),
        ("raised", "KeyError", "'KeyError'", True),
        ("raised", "KeyError", "`builtins.KeyError`", True),
        ("raised", "KeyError", "ValueError, builtins.KeyError", False),
        ("raised", "KeyError", "ValueError or builtins.KeyError", False),
        ("raised", "KeyError", "'ValueError', 'KeyError'", False),
        ("raised", "KeyError", "ValueError().KeyError", False),
        ("executed", "True", "'True'", False),
        ("executed", "True", "`True` or `False`", False),
        ("visits", "3", "`3`, `4`", False),
        ("visits", "3", "3, 4", False),
        ("next_statement", "-1", "'-1'", True),
        ("next_statement", "Nil", "`Nil`", True),
    ],
)
def test_back_ticks_and_quotes_around_parts(kind: str, answer: Any, line: str, right: bool) -> None:
    assert ask(kind, answer, line) is right


@pytest.mark.parametrize("kind", ["next_statement", "call_entry", "raised_at", "handler"])
@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("line 2, `total = 0`", True),
        ("line 2, total = 0", True),
        ("Line 2: `total = 0`", True),
        ("line 2 - `total = 0`", True),
        ("line 2 `total = 0`", True),
        ("line 2 total = 0", True),
        ("2: `total = 0`", True),
        ("L2: 'total = 0'", True),
        ("`line 2: total = 0`", True),
        ("`2: total = 0`", True),
        ("`total = 0` (line 2)", True),
        ("total = 0 (line 2)", True),
        ("total = 0  # line 2", True),
        ("line 3, `total = 0`", False),
        ("`total = 0` (line 3)", False),
        ("total = 0 (line 2) (line 3)", False),
        ("line 2, line 3, `total = 0`", False),
        ("line 3, line 2, `total = 0`", False),
        ("line 2, `total = 0`, line 3", False),
        ("line 2, `total = 0` or `return 3`", False),
        ("line 2", False),
        ("`line 2`", False),
        ("line 2,", False),
        ("line 2, ``", False),
        ("line 2, total = 0; x", False),
        ("2, total = 0", False),
        ("2 - total = 0", False),
        ("total = 0 (2)", False),
        ("(line 2)", False),
        ("line", False),
        ("l", False),
    ],
)
def test_numbers_of_lines_around_a_statement(kind: str, line: str, right: bool) -> None:
    assert ask(kind, "total = 0", line) is right


@pytest.mark.parametrize(
    "piece", ["line 2 ", "(line 2)", "`", "` ", "(", " (", "2 ", "line 2, `", "'"]
)
def test_looking_for_numbers_and_back_ticks_takes_linear_time(piece: str) -> None:
    for text in (piece * 2000, "line 2" + piece * 2000, piece * 2000 + " " * 9000 + "(line 2)"):
        started = time.thread_time()
        for kind, answer in ONE_OF_EACH.items():
            ask(kind, answer, text)
        assert time.thread_time() - started < 0.05 * len(KINDS) * len(text) / 1000


def test_all_of_a_statement_of_several_lines_is_its_answer_too() -> None:
    code = "def f(x):\n    rows = list(\n        range(x),\n    )\n    if (x\n        > 1):\n        return 3"
    assert ask("next_statement", "    rows = list(", "rows = list(", code=code)
    assert ask("next_statement", "    rows = list(", "rows = list(\n  range(x),\n)", code=code)
    assert not ask("next_statement", "    rows = list(", "rows = list(\n  range(y),\n)", code=code)
    assert ask("next_statement", "    if (x", "if (x\n> 1):", code=code)
    assert not ask("next_statement", "    if (x", "if (x\n> 1):\n  return 3", code=code)


def test_any_of_several_answers_is_right() -> None:
    asked = (Question("next_statement", ("-1", "return total"), line=1, visit=1),)
    spec = Spec("whitebox", COUNT, "f", "2", "3", questions=asked)
    for line, right in (("-1", 1.0), ("return total", 1.0), ("total = 0", 0.0)):
        assert grade(spec, tagged("assert f(2) == 3\n" + line)).w == right


def test_same_statement_is_symmetric_and_sets_indentation_aside() -> None:
    assert same_statement("    x = 1", "x=1  # one")
    assert not same_statement("if x:", "elif x:")
    assert not same_statement("", "")


# ------------------------------------------------------------------------- policies


def test_equality() -> None:
    pairs = [("True", "1"), ("1", "1.0"), ("-0.0", "0.0"), ("[0, 1]", "[False, True]")]
    pairs += [("(1,)", "(True,)"), ("{1: 2}", "{1.0: 2}")]
    for truth_, text in pairs:
        assert not same_value(text, truth_)
        assert same_value(text, truth_, PYTHON)
        assert io(output(truth_), text) == 0.0
        assert io(output(truth_), text, PYTHON) == 1.0
    assert same_value("nan", "float('nan')")
    assert same_value("float('nan')", "float('nan')", PYTHON)  # the truth is right under any policy
    assert not same_value("[1]", "(1,)", PYTHON)


def test_lenient_form_takes_labels_and_class_names() -> None:
    lenient = Policy(form="lenient")
    for line in ("total = 1; int", "1; <class 'int'>"):
        assert not ask("value", ("1", "int"), line)
        assert ask("value", ("1", "int"), line, policy=lenient)
    assert not ask("value", ("1", "int"), "other = 1; int", policy=lenient)
    assert not ask("value", ("1", "int"), "total == 1; int", policy=lenient)
    assert grade(output("3"), "It is\nAnswer: 3", policy=lenient).status == "right"


def test_answer_first_and_program_are_options() -> None:
    early = "<answer>3</answer><reasoning>x</reasoning>"
    assert grade(output("3"), early).status == "no_answer"
    assert grade(output("3"), early, policy=Policy(answer_first=True)).status == "right"
    assert io(output("3"), SUM + "\nassert f(2) == 3", Policy(program=False)) == 0.0


@pytest.mark.parametrize("options", [{"equality": "=="}, {"form": "x"}, {"tests": "some"}])
def test_policies_refuse_unknown_words(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        Policy(**options)


# ------------------------------------------------------------------------- output


@given(texts_of)
def test_the_output_is_right_in_every_accepted_form(value: object) -> None:
    text = values.canonical(value)
    spec = output(text)
    forms = [text, f"assert f(2) == {text}", f"assert f(x=2)=={text}", f"assert {text} == f( 2 )"]
    forms += [f"assert f(2) == ({text}), 'because'", f"f(2) == {text}  # so"]
    if value is None or value is True or value is False:
        forms.append(f"assert f(2) is {text}")
    for form in forms:
        for policy in (Policy(), PYTHON):
            assert io(spec, form, policy) == 1.0, form


@given(texts_of, texts_of)
def test_another_output_is_never_paid(value: object, other: object) -> None:
    text = values.canonical(other)
    right = values.equal(value, other)
    for form in (text, f"assert f(2) == {text}", f"assert {text} == f(2)"):
        assert io(output(values.canonical(value)), form) == float(right), form


def test_the_call_may_bind_by_name_and_only_as_the_program_names_its_parameters() -> None:
    code = "def f(a, /, b, *rest, c=0):\n    return 1"
    spec = Spec("output", code, "f", "1, 2, c=3", "1")
    for call, right in [
        ("f(1, 2, c=3)", 1.0),
        ("f(1, b=2, c=3)", 1.0),
        ("f(1, c=3, b=2)", 1.0),
        ("f(a=1, b=2, c=3)", 0.0),
        ("f(1, 2, 3)", 0.0),
        ("f(1, 2)", 0.0),
        ("f(1, 2, c=True)", 0.0),
        ("f(*[1, 2], c=3)", 0.0),
        ("f(1, 2, **{'c': 3})", 0.0),
    ]:
        assert io(spec, f"assert {call} == 1") == right, call


def test_a_program_that_prints_its_call_may_be_repeated_with_or_without_that_line() -> None:
    code = SUM + "\n\nprint(f(2))\n"
    spec = Spec("output", code, "f", "2", "3")
    assert io(spec, code + "assert f(2) == 3") == 1.0
    assert io(spec, SUM + "\nassert f(2) == 3") == 1.0
    assert io(spec, SUM + "\nprint(f(3))\nassert f(2) == 3") == 0.0


# ------------------------------------------------------------------------- input


class Counting:
    """A sandbox that returns a fixed result and remembers what it was asked."""

    def __init__(self, result: ExecutionResult) -> None:
        self.result = result
        self.groups: list[list[Job]] = []

    def run_groups(self, groups: Sequence[Sequence[Job]], **_: Any) -> list[list[ExecutionResult]]:
        self.groups += [list(group) for group in groups]
        return [[self.result for _ in group] for group in groups]


def test_identical_answers_to_a_program_run_once() -> None:
    pool: Any = Counting(ExecutionResult("returned", value="10"))
    texts = ["f(6, 2)", "6,2", "assert f(6,2) == 10", "f(7, 2)", "f(helper(3), 2)"]
    other = inverse("10", SUM)
    pairs = [(inverse("10"), tagged(text)) for text in texts] + [(other, tagged("f(6, 2)"))]
    graded = grade_all(pairs, pool=pool)
    assert [one.status for one in graded] == ["right"] * 4 + ["wrong", "right"]
    assert [[job.args for job in group] for group in pool.groups] == [["6, 2", "7, 2"], ["6, 2"]]


def test_a_lambda_shares_its_child_with_no_other_answer() -> None:
    pool: Any = Counting(ExecutionResult("returned", value="[2, 4]"))
    texts = ["f(lambda x: x, [2, 4])", "f(lambda x: x * 2, [1, 2])", "f(lambda x: x, [2, 4])"]
    grade_all([(inverse("[2, 4]", APPLY), tagged(text)) for text in texts], pool=pool)
    assert [len(group) for group in pool.groups] == [1, 1]


@pytest.mark.parametrize(
    ("result", "status", "score"),
    [
        (ExecutionResult("returned", value="10"), "right", 1.0),
        (ExecutionResult("returned", value="11"), "wrong", 0.0),
        (ExecutionResult("returned", value=None, unrepresentable="a function"), "wrong", 0.0),
        (ExecutionResult("raised", error_type="TypeError"), "wrong", 0.0),
        (ExecutionResult("timed_out", detail="2 s"), "timed_out", 0.0),
        (ExecutionResult("memory_exceeded"), "wrong", 0.0),
        (ExecutionResult("output_exceeded"), "wrong", 0.0),
        (ExecutionResult("killed"), "wrong", 0.0),
        (ExecutionResult("infrastructure", detail="lost"), "infrastructure", None),
    ],
)
def test_what_the_sandbox_says_is_what_the_grade_is(
    result: ExecutionResult, status: str, score: float | None
) -> None:
    pool: Any = Counting(result)
    graded = grade(inverse("10"), tagged("f(6, 2)"), pool=pool)
    assert graded.io is not None
    assert (graded.io.status, graded.io.score) == (status, score)
    assert graded.unscored is (score is None)
    assert graded.timed_out is (status == "timed_out")


def test_a_sandbox_that_cannot_start_leaves_inputs_without_a_score() -> None:
    from rewards.sandbox import SandboxPool

    pool = SandboxPool(1)
    pool.close()
    graded = grade_all([(inverse("10"), tagged("f(6, 2)")), (output("3"), tagged("3"))], pool=pool)
    assert [one.status for one in graded] == ["infrastructure", "right"]


def test_an_input_that_makes_the_call_raise() -> None:
    code = "def f(d):\n    return d['k']"
    spec = Spec("input", code, "f", "????", "", raises="KeyError")
    assert io(spec, "f({})") == 1.0
    assert io(spec, "{'a': 1}") == 1.0
    assert io(spec, "f({'k': 1})") == 0.0
    assert io(spec, "f(1)") == 0.0  # TypeError
    assert io(spec, "assert f({}) == 1") == 0.0


def test_an_input_that_does_not_end_is_timed_out() -> None:
    code = "def f(n):\n    while n:\n        pass\n    return n"
    graded = grade(inverse("0", code), tagged("f(1)"))
    assert (graded.status, graded.timed_out, graded.unscored) == ("timed_out", True, False)


PLAIN = "def f(*values, **named):\n    return 1"
LIBRARY = (
    "from collections import Counter, deque as dq\nimport datetime, collections as c\n" + PLAIN
)


@pytest.mark.parametrize(
    ("args", "code", "right"),
    [
        ("1, -2.5, +3, ~4, 1+2j, -1-2j, 'a' 'b', b'x', None, True, ...", PLAIN, 1.0),
        ("[1, (2, {3}), {'a': [4]}], (), {}, 0x10, 1_000", PLAIN, 1.0),
        ("dict(a=1), set(), range(3), list('ab'), frozenset([1]), bytes(2), slice(1)", PLAIN, 1.0),
        ("int('3'), str(5), float('nan'), bool(1), complex(1, 2), bytearray(b'')", PLAIN, 1.0),
        ("'a' * 20, [0] * 5, 3 * (1, 2), [[0] * 2] * 2, b'x' * 2", PLAIN, 1.0),
        ("a=1, b=dict(c={})", PLAIN, 1.0),
        ("*[1, 2], **{'a': 1}", PLAIN, 1.0),
        ("Counter('ab'), datetime.date(2024, 1, 2), c.deque([1])", LIBRARY, 1.0),
        ("c.defaultdict(list, {'a': [1]}), c.OrderedDict([('a', 1)])", LIBRARY, 1.0),
        ("Counter('ab')", PLAIN, 0.0),  # not imported: a NameError when it runs
        ("Counter('ab')", "class Counter:\n    pass\n" + PLAIN, 0.0),
        ("list('ab')", "list = tuple\n" + PLAIN, 0.0),
        ("collections.Counter('ab')", PLAIN, 0.0),
        ("datetime.datetime.now()", LIBRARY, 0.0),
        ("datetime.date.today()", LIBRARY, 0.0),
        ("c.namedtuple('A', 'b')", LIBRARY, 0.0),
        ("c.defaultdict(f)", LIBRARY, 0.0),
        ("c.defaultdict(lambda: 1)", LIBRARY, 0.0),
        ("1 + 2", PLAIN, 0.0),
        ("'a' + 'b'", PLAIN, 0.0),
        ("2 * 3", PLAIN, 0.0),
        ("'a' * -1", PLAIN, 0.0),
        ("'%s' % 1", PLAIN, 0.0),
        ("not 1", PLAIN, 0.0),
        ("-'a'", PLAIN, 0.0),
        ("{**{}}", PLAIN, 0.0),
        ("[*[1]]", PLAIN, 0.0),
        ("[1][0]", PLAIN, 0.0),
        ("f'{1}'", PLAIN, 0.0),
        ("1 if 1 else 2", PLAIN, 0.0),
        ("1 < 2", PLAIN, 0.0),
        ("(x := 1)", PLAIN, 0.0),
        ("nan", PLAIN, 0.0),
        ("x", PLAIN, 0.0),
        ("sorted([1])", PLAIN, 0.0),
        ("'a'.upper()", PLAIN, 0.0),
        ("(yield)", PLAIN, 0.0),
        ("await f()", PLAIN, 0.0),
        ("lambda: 1", PLAIN, 0.0),
        ("[lambda: 1]", PLAIN, 0.0),
        ("print", PLAIN, 0.0),
        ("f", PLAIN, 0.0),
    ],
)
def test_arguments_are_literals(args: str, code: str, right: float) -> None:
    assert io(inverse("1", code), f"f({args})") == right
    assert io(inverse("1", code), f"assert f({args}) == 1") == right


@pytest.mark.parametrize(
    ("code", "args", "right"),
    [
        ("def f(g):\n    return g(1)", "lambda x: x + 1", 1.0),
        ("def f(x, g):\n    return g(x)", "1, lambda x: x + 1", 1.0),
        ("def f(x, g):\n    return g(x)", "1, g=lambda x: x + 1", 1.0),
        ("def f(x, *, g):\n    return g(x)", "1, g=lambda x: x + 1", 1.0),
        ("def f(g, /):\n    return g(1)", "lambda x: x + 1", 1.0),
        ("def f(g):\n    return list(map(g, [1]))[0]", "lambda x: x + 1", 1.0),
        ("def f(k):\n    return sorted([2, 3], key=k)[0]", "lambda x: x", 1.0),
        ("def h(p):\n    return p(1)\ndef f(g):\n    return h(g)", "lambda x: x + 1", 1.0),
        ("def h(p):\n    return p(1)\ndef f(g):\n    return h(p=g)", "lambda x: x + 1", 1.0),
        (
            "def f(g):\n    def inner():\n        return g(1)\n    return inner()",
            "lambda x: 2",
            1.0,
        ),
        ("def f(g):\n    return 2", "lambda x: x", 0.0),
        ("def f(g):\n    return len([g]) + 1", "lambda x: x", 0.0),
        ("def f(g):\n    return g(1)", "lambda x, y=__import__('os'): 2", 0.0),
        ("def f(g):\n    return g(1)", "lambda x: open('/etc/passwd') and 2", 0.0),
        ("def f(g):\n    return g(1)", "lambda x: ().__class__.__base__ and 2", 0.0),
        ("def f(g):\n    return g(1)", "lambda x: '{0.__class__}'.format(x) and 2", 0.0),
        ("def f(g):\n    return g(1)", "lambda x: (y := 2)", 0.0),
        ("def f(g):\n    return g(1)", "lambda x: (yield)", 0.0),
        ("T = 2\ndef f(g):\n    return g(1)", "lambda x: T", 0.0),
    ],
)
def test_a_lambda_stands_only_where_the_program_calls_it(
    code: str, args: str, right: float
) -> None:
    assert io(inverse("2", code), f"f({args})") == right


# ------------------------------------------------------------------------- purity


def test_grading_is_pure_in_64_threads() -> None:
    pairs = [
        (Spec.from_json(spec), text)
        for _, spec, text, _ in cases()
        if len(str(text)) < 2000 and "huge" not in str(text)
    ]
    expected = grade_all(pairs)
    with ThreadPoolExecutor(64) as threads:
        found = list(threads.map(lambda pair: grade(*pair), pairs * 4))
    assert found == expected * 4  # `seconds` is no part of equality


def test_every_status_is_one_of_seven() -> None:
    assert len(STATUSES) == 7
    for one in grade_all([(Spec.from_json(spec), text) for _, spec, text, _ in cases()[::7]]):
        assert one.status in STATUSES
        assert one.io is not None
        assert (one.io.score is None) == (one.io.status in ("infrastructure", "not_applicable"))
    assert Graded("").status == "not_applicable"


# ------------------------------------------------------------------------- a real model's answers

DATA = SHARED / "data"


def predictions(task: str) -> list[tuple[Spec, dict[str, Any]]]:
    def read(name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]

    programs = {row["id"]: row for row in read("cruxeval_dev.jsonl")}
    found = []
    for line in read(f"cruxeval_dev_{task}_predictions.jsonl"):
        row = programs[line["id"]]
        args = row["input"] if task == "output" else "????"
        found.append((Spec(task, row["code"], "f", args, row["output"]), line))
    return found


@pytest.mark.skipif(not DATA.exists(), reason="the CRUXEval predictions are not there")
@pytest.mark.parametrize(
    ("task", "step"),
    [("output", 1), ("input", 16), pytest.param("input", 1, marks=pytest.mark.slow)],
)
def test_the_verdict_is_the_benchmarks_own(task: str, step: int) -> None:
    """With `python` equality: the predictions of CodeLlama-7B on the first 400 rows, or each 16th."""
    every = predictions(task)[::step]
    assert len(every) * step >= {"output": 856, "input": 1278}[task]
    texts = [(spec, f"<answer>{line['prediction']}</answer>") for spec, line in every]
    graded = grade_all(texts, policy=PYTHON)
    differing = [
        (line["id"], line["prediction"], line["passed"], one.io)
        for (_, line), one in zip(every, graded, strict=True)
        if (one.status == "right") != line["passed"]
    ]
    assert differing == []


# ------------------------------------------------------------------------- fuzz


def opinion(completion: str, spec: Spec) -> bool:
    """A second, slow opinion on an output answer: what Python itself makes of the last block."""
    completion = re.sub(r"(?i)< ?(/?) ?answer ?>", r"<\1answer>", completion)
    completion = answers._SPECIAL.sub("", completion).replace("\r", "\n")
    block = (
        completion.rpartition("</answer>")[0].rpartition("<answer>")[2].partition("</answer>")[0]
    )
    fences = re.findall(r"(?ms)^\s*(?:```|~~~)\w*\s*$(.*?)(?:```|~~~|\Z)", block)
    text = "\n".join(fences) if fences else block
    text = re.sub(r"^```(?:[a-zA-Z]\w*)? ?|```\s*$", "", text.strip()).strip().strip("`")
    text = re.sub(r"[^\S\n]", " ", text)  # the grader takes any white space for a blank
    try:
        body = ast.parse(text).body[-1]
    except (SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
        return False
    node: Any = body.test if isinstance(body, ast.Assert) else getattr(body, "value", None)
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else [node]
    for side in sides:
        # `literal_eval` reads one sign, our parser any number of them.
        while isinstance(side, ast.UnaryOp) and isinstance(side.operand, ast.UnaryOp):
            if type(side.op) is not type(side.operand.op) and isinstance(side.op, ast.UAdd):
                side = side.operand
            elif isinstance(side.op, ast.USub) and isinstance(side.operand.op, ast.USub):
                side = side.operand.operand
            else:
                side.operand = side.operand.operand
        try:
            if values.canonical(ast.literal_eval(side)) == spec.output:
                return True
        except (ValueError, TypeError, RecursionError, MemoryError, SyntaxError):
            continue
    return False


PIECES = [
    *(
        "<answer>",
        "</answer>",
        "<think>",
        "</think>",
        "<reasoning>",
        "</reasoning>",
        "\n",
        " ",
        "```",
    ),
    *("assert ", "f(2)", " == ", "3", "[3, 'a']", "(", ")", "'", '"', ",", "#", ";", "int", "-1"),
    *("or ", "is ", "None", "lambda:", "f(", "*", "**", "9", "'''", "\\", "<|im_end|>", "\r", ":="),
    *("if ", "else ", "python", "for x in ", "return ", "\x00", "é", "\ud800", "{", "}", "[", "]"),
]
completions = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)
OUTPUT = output("3")
MIXED = Spec(
    "whitebox",
    COUNT,
    "f",
    "2",
    "3",
    questions=(
        Question("value", (ValueAnswer("[3, 'a']", "list"),), line=1, visit=1, variable="x"),
        Question("next_statement", ("return label",), line=1, visit=1),
        Question("visits", ("9",), line=1),
    ),
)


@settings(max_examples=300)
@given(completions | completions.map(tagged) | st.text(max_size=60).map(tagged))
@example(tagged("assert f(2) == 3"))
def test_whatever_stands_in_a_completion_it_is_graded_and_paid_only_if_right(text: str) -> None:
    graded = grade(OUTPUT, text)
    assert graded.io is not None
    assert graded.io.status in ("right", "wrong", "no_answer", "truncated")
    if graded.io.score:
        assert opinion(text, OUTPUT), text
    grade(MIXED, text)
    pool: Any = Counting(ExecutionResult("returned", value="11"))
    grade(inverse("10"), text, pool=pool)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from([tagged("assert f(2) == 3"), tagged("3"), tagged("```\n3\n```")]))
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(["cut", "insert", "double", "swap"]))
        if kind == "cut":
            text = text[:place] + text[place + draw(st.integers(1, 5)) :]
        elif kind == "insert":
            text = text[:place] + draw(st.sampled_from(PIECES)) + text[place:]
        elif kind == "double":
            text = text[:place] + text[max(0, place - 10) :]
        else:
            text = text[place:] + text[:place]
    return text


@settings(max_examples=300)
@given(mutated())
def test_a_mutated_answer_is_paid_only_if_it_is_still_right(text: str) -> None:
    graded = grade(OUTPUT, text)
    assert graded.io is not None
    if graded.io.score:
        assert opinion(text, OUTPUT), text


NASTY = st.sampled_from(
    [
        *(
            "(",
            "[",
            "{",
            "-",
            "not ",
            "lambda:",
            "a.",
            "a()",
            "1+",
            "'",
            '"',
            "'''",
            '"""',
            "\\",
            "#",
        ),
        *(
            "f'{",
            "1 if 1 else ",
            "f(",
            "9",
            "0x",
            "1_",
            "\n",
            "\n(",
            "\n'''",
            "[(",
            "<answer>",
            "```\n",
        ),
        *("a[", "**", ":=", "await ", "x=", "f(lambda x:", "'a'*", "1,", "{1:", "\\x", "\\N{", "é"),
        *("for x in y:\n ", "class A:\n ", "assert f(2) == ", "; ", ": ", "3: ", "<class 'list'>"),
    ]
)


@settings(max_examples=150)
@given(st.lists(NASTY, min_size=1, max_size=3).map("".join))
def test_reading_a_kilobyte_takes_less_than_50_ms(piece: str) -> None:
    text = tagged((piece * 1000)[:1000])
    pool: Any = Counting(ExecutionResult("returned", value="11"))
    for spec in (OUTPUT, MIXED, inverse("10")):

        def seconds(spec: Spec = spec) -> float:
            started = time.thread_time()
            grade(spec, text, pool=pool)
            return time.thread_time() - started

        assert min(seconds() for _ in range(3)) < 0.05, (spec.task, piece)


# ------------------------------------------------------------------------- reports


def test_ap_17_quotes_belong_to_the_value() -> None:
    spec = output("'abc'")
    paid = [io(spec, text) for text in ("'abc'", '"abc"', "abc", "\"'abc'\"")]
    assert paid == [1.0, 1.0, 0.0, 0.0]


def test_ap_18_values_are_compared_not_texts() -> None:
    assert io(output("{'a': 1, 'b': [1, 2]}"), '{"b": [1,2], "a": 1}') == 1.0


def test_ap_19_any_input_that_yields_the_output_is_right() -> None:
    code = "def f(s):\n    return len(set(s))"
    assert io(inverse("2", code), "'xyx'") == 1.0
    assert io(inverse("2", code), "'aab'") == 1.0
    assert io(inverse("2", code), "'aaa'") == 0.0


def test_ap_23_negative_zero_is_another_value_at_every_depth() -> None:
    for truth_, text in (("-0.0", "0.0"), ("0.0", "-0.0"), ("[-0.0]", "[0.0]")):
        assert io(output(truth_), text) == 0.0
        assert io(output(truth_), text, PYTHON) == 1.0


def test_ap_26_text_is_never_evaluated_and_deep_text_does_no_harm() -> None:
    started = time.process_time()
    for text in (
        *("9**9**9**9", "__import__('os').getpid()", "'a' * 10**10"),
        *("[" * 250 + "]" * 250, "-" * 3000 + "1"),
    ):
        assert io(output("3"), text) == 0.0
        assert io(output("3"), f"assert f(2) == {text}") == 0.0
    assert time.process_time() - started < 1.0


def test_ap_27_a_semicolon_inside_a_value_is_no_separator() -> None:
    assert ask("value", ("'a; b'", "str"), "'a; b'; str")
    assert not ask("value", ("'a'", "str"), "'a; str'")
    assert ask("value", ("[';']", "list"), "[';']; list")


def test_ap_30_a_tuple_of_one_keeps_its_comma() -> None:
    assert [io(output("(1,)"), text) for text in ("(1,)", "(1)", "1,")] == [1.0, 0.0, 1.0]


def test_ap_32_numbers_have_their_type() -> None:
    assert [io(output("3"), text) for text in ("3", "3.0", '"3"', "3 ")] == [1.0, 0.0, 0.0, 1.0]


def test_a_printed_class_inside_quotes_is_text() -> None:
    """A generated row returned `"163/<class 'str'>"`, and its own truth was refused."""
    code = "def f(x):\n    return str(x) + '/' + str(type('a'))\n"
    output = '''"163/<class 'str'>"'''
    completion = f"<reasoning>r</reasoning>\n<answer>\nassert f(163) == {output}\n</answer>"
    for task in ("output", "input"):
        graded = grade(Spec(task, code, "f", "163", output), completion)
        assert graded.io is not None and graded.io.status == "right", (task, graded.io)


def test_an_int_that_python_does_not_write_is_wrong_and_ends_nothing() -> None:
    """`ast.dump` raises for it; one such completion ended a whole batch."""
    huge = "0x" + "f" * 5000
    for form in (f"assert f({huge}) == 3", f"x = {huge}\nassert f(2) == 3", f"f({huge})", huge):
        graded = grade(OUTPUT, tagged(form))
        assert graded.io is not None and graded.io.score == 0.0, form


@pytest.mark.parametrize(
    "deep",
    [
        "[" * 80 + "0x" + "f" * 5000 + "*1" * 150 + "]" * 80,
        "0x" + "f" * 5000 + "+1" * 240,
        "[" * 85 + "'a'" + "*1" * 150 + "]" * 85,
        "set(" * 85 + ")" * 85,
    ],
    ids=lambda text: text[:9],
)
@pytest.mark.parametrize("frames", [0, 300, 600])
def test_deep_arguments_end_nothing_however_deep_the_trainer_is(deep: str, frames: int) -> None:
    """The first raised RecursionError, which ended a whole batch."""

    def under(count: int, text: str) -> Graded:
        if count:
            return under(count - 1, text)
        for spec in (MIXED, inverse("10", APPLY)):
            grade(spec, text, pool=pool)
        return grade(OUTPUT, text)

    pool: Any = Counting(ExecutionResult("returned", value="11"))
    for form in (f"assert f({deep}) == 3", f"x = {deep}\nassert f(2) == 3", deep):
        graded = under(frames, tagged(form))
        assert graded.io is not None and graded.io.score == 0.0


EXPRESSIONS = (
    *("x", "'x'", "u'x'", "b'x'", "1", "1.0", "True", "1j", "0x1", "None", "...", "x.x", "x[1]"),
    *("x[1:]", "x()", "x(x)", "x(x=1)", "(x, 1)", "[x, 1]", "{x, 1}", "{x: 1}", "[[x], 1]", "[]"),
    *(
        "-x",
        "x + 1",
        "x * 1",
        "x + x + 1",
        "x + (x + 1)",
        "lambda: x",
        "lambda x: x",
        "not x",
        "(x,)",
    ),
    *(
        "lambda x=1: x",
        "x if x else 1",
        "x < 1 < x",
        "(x < 1) < x",
        "f'{x}'",
        "f'{x!r}'",
        "(*x, 1)",
    ),
    *("x and 1", "x or 1", "[x for x in x]", "{x for x in x}", "'0x1'", "'\\n'", "x(*x)", "x(**x)"),
    *("[[], 1]", "[[1]]", "{**x}", "1e400", "x(1)(1)", "x(x(1), 1)", "x(x(1, 1))", "'[1'", "()"),
)


def test_trees_have_one_text_exactly_if_they_are_the_same() -> None:
    trees = [ast.parse(text, mode="eval").body for text in EXPRESSIONS]
    for node in trees:
        for each in ast.walk(node):
            if isinstance(each, ast.Constant):
                each.kind = None
    plain = [ast.dump(node) for node in trees]
    found = [assertions._dump(node) for node in trees]
    for number, text in enumerate(plain):
        assert [text == other for other in plain] == [found[number] == other for other in found]
    assert len(set(plain)) < len(plain)  # 0x1 is 1, u'x' is 'x'


@settings(max_examples=200)
@given(st.lists(st.sampled_from(EXPRESSIONS), min_size=1, max_size=4), st.booleans())
def test_trees_of_several_expressions_have_texts_of_their_own(parts: list[str], nest: bool) -> None:
    joined = ", ".join(f"[{part}]" if nest else f"({part})" for part in parts)
    others = [", ".join(f"[{part}]" for part in parts), ", ".join(f"({part})" for part in parts)]
    node = ast.parse(f"f({joined})", mode="eval").body
    for other in others:
        same = ast.parse(f"f({other})", mode="eval").body
        assert (assertions._dump(node) == assertions._dump(same)) == (
            ast.dump(node) == ast.dump(same)
        )


@pytest.mark.parametrize(
    "text",
    [
        "1" * 20_000 + "x",
        "1_" * 10_000 + "x; int",
        "```" + " " * 20_000 + "x",
        "`" + " " * 20_000 + "x",
        "a\n```" + " " * 20_000 + "!",
        "'\\" * 10_000,
        "f(" + "1" * 20_000 + "x) == 3",
    ],
    ids=range(7),
)
def test_reading_twenty_kilobytes_takes_less_than_50_ms_each(text: str) -> None:
    """Once 3 seconds to hours."""
    pool: Any = Counting(ExecutionResult("returned", value="11"))
    for spec in (OUTPUT, MIXED, inverse("10")):
        for form in (text, "assert f(2) == 3\n" + text + "\n" + text + "\n" + text):
            started = time.thread_time()
            grade(spec, tagged(form), pool=pool)
            assert time.thread_time() - started < 0.05 * len(form) / 1000


def test_many_tags_take_linear_time() -> None:
    start = time.thread_time()
    grade(OUTPUT, "<answer>" * 50_000)
    assert time.thread_time() - start < 2.0  # it took 5 s
