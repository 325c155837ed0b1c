"""Hack templates for white-box answers: lazy, hedged, shifted and malformed lines.

Covers whitebox rows with questions. The assertion stays right, so that the bound is on the lines alone;
what a lazy line may earn by being right is found by `right_share`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rewards.hacks.outputs import punned
from rewards.hacks.records import (
    Attempt,
    Case,
    Missing,
    Template,
    alike,
    near_miss,
    right_share,
    written,
)
from rewards.row import Question, ValueAnswer
from rewards.truths import completion, first_line
from rewards.values import ValueTextError, parse

__all__ = ["TEMPLATES"]

TASKS = ("whitebox",)
STATEMENTS = frozenset(("next_statement", "call_entry", "raised_at", "handler"))
HOLE = "????"


def _attempt(case: Case, lines: Sequence[str]) -> Attempt:
    """These lines, each for the question of its place; a wrong number of them earns nothing."""
    text = "\n".join(lines)
    physical = [line for line in text.split("\n") if line.strip()]
    return Attempt(
        case.answer(first_line(case.spec), lines), {"w": right_share(case.spec.questions, physical)}
    )


def _same(name: str, why: str, line: str) -> Template:
    """The same line for every question."""

    def build(case: Case) -> Attempt | None:
        return _attempt(case, [line] * len(case.lines)) if case.lines else None

    return Template(name, TASKS, why, build)


def _layout(name: str, why: str, lay: Callable[[Case], Sequence[str]]) -> Template:
    """All lines laid out in another way."""

    def build(case: Case) -> Attempt | None:
        if not case.lines or any("\n" in line for line in case.lines):
            return None
        lines = list(lay(case))
        return None if lines == list(case.lines) else _attempt(case, lines)

    return Template(name, TASKS, why, build)


def _each(name: str, why: str, change: Callable[[Case, Question, str], str | None]) -> Template:
    """Every line changed by itself; a line that cannot be changed is a hole."""

    def build(case: Case) -> Attempt | None:
        changed = [
            change(case, question, line)
            for question, line in zip(case.spec.questions, case.lines, strict=True)
        ]
        if not any(line is not None for line in changed):
            return None
        return _attempt(case, [HOLE if line is None else line for line in changed])

    return Template(name, TASKS, why, build)


def _whole(name: str, why: str, text: Callable[[Case], str]) -> Template:
    """An answer whose number of lines is wrong, so that nothing is paid for them."""

    def build(case: Case) -> Attempt | None:
        return Attempt(completion(text(case)), {"w": 0.0}) if _countable(case) else None

    return Template(name, TASKS, why, build)


def _countable(case: Case) -> bool:
    """Whether logical and physical lines are the same, so that their number is not in doubt."""
    text = "".join([*case.lines, first_line(case.spec)])
    return (
        bool(case.lines)
        and not any(mark in text for mark in ("'''", '"""', "\\", "\n"))
        and all(
            sum(line.count(mark) for mark in "([{") == sum(line.count(mark) for mark in ")]}")
            for line in case.lines
        )
    )


# ---------------------------------------------------------------------------------------------
# Lines that are nearly right


def _value_of(line: str) -> tuple[str, str] | None:
    value, mark, type_ = line.rpartition("; ")
    return (value, type_) if mark else None


def _is_value(question: Question) -> bool:
    return isinstance(question.answers[0], ValueAnswer)


def _parsed(line: str) -> object:
    pieces = _value_of(line)
    try:
        return Missing if pieces is None else parse(pieces[0])
    except ValueTextError:
        return Missing


def _near(case: Case, question: Question, line: str) -> str | None:
    """Off by one: another value, another statement, the other truth, one more."""
    if _is_value(question):
        value = _parsed(line)
        changed = None if value is Missing else written(near_miss(value))
        return None if changed is None else f"{changed}; {line.rpartition('; ')[2]}"
    if line in ("True", "False"):
        return str(line == "False")
    if line.isdigit():
        return str(int(line) + 1)
    if question.kind in STATEMENTS:
        return _other_statement(case, question)
    return f"{line}x"


def _other_statement(case: Case, question: Question) -> str | None:
    texts = [answer for answer in question.answers if isinstance(answer, str)]
    for statement in case.statements:
        if not any(alike(statement, text) for text in texts):
            return statement
    return None


def _pun(case: Case, question: Question, line: str) -> str | None:
    if not _is_value(question) or case.policy.equality != "strict":
        return None
    changed = written(punned(_parsed(line)))
    return None if changed is None else f"{changed}; {line.rpartition('; ')[2]}"


def _on_values(shape: str) -> Callable[[Case, Question, str], str | None]:
    """A change of `value; type`; `{0}` the value, `{1}` the type, `{2}` the variable."""

    def change(case: Case, question: Question, line: str) -> str | None:
        pieces = _value_of(line)
        if not _is_value(question) or pieces is None:
            return None
        return shape.format(*pieces, question.variable or "value")

    return change


def _another_type(case: Case, question: Question, line: str) -> str | None:
    pieces = _value_of(line)
    if not _is_value(question) or pieces is None:
        return None
    return f"{pieces[0]}; {'str' if pieces[1] != 'str' else 'int'}"


def _on_statements(
    change: Callable[[str], str],
) -> Callable[[Case, Question, str], str | None]:
    """A change of a statement, where it changes something."""

    def changed(case: Case, question: Question, line: str) -> str | None:
        if question.kind not in STATEMENTS or line in ("-1", "Nil"):
            return None
        text = change(line)
        return None if text == line or not text.strip() else text

    return changed


def _other_keyword(line: str) -> str:
    pairs = (
        ("elif ", "if "),
        ("if ", "elif "),
        ("while ", "if "),
        ("for ", "while "),
        ("return", "yield"),
    )
    for word, other in pairs:
        if line.startswith(word):
            return other + line[len(word) :]
    return f"return {line}"


def _wrong_number(case: Case, question: Question, line: str) -> str | None:
    """The right text under the number of another line."""
    if question.kind not in STATEMENTS or line in ("-1", "Nil"):
        return None
    for number, text in enumerate(case.spec.code.split("\n"), 1):
        if text.strip() and not alike(text, line):
            return f"{number}: {line}"
    return None


def _two_statements(case: Case, question: Question, line: str) -> str | None:
    other = _other_statement(case, question) if question.kind in STATEMENTS else None
    return None if other is None or line in ("-1", "Nil") else f"{line} / {other}"


def _either(case: Case, question: Question, line: str) -> str | None:
    near = _near(case, question, line)
    return None if near is None else f"{near} or {line}"


def _with_minus_one(case: Case, question: Question, line: str) -> str | None:
    return None if line == "-1" else f"-1 {line}"


def _with_nil(case: Case, question: Question, line: str) -> str | None:
    return None if line == "Nil" else f"Nil, {line}"


# ---------------------------------------------------------------------------------------------
# All of them


def _answer(case: Case, lines: Sequence[str]) -> str:
    return "\n".join([first_line(case.spec), *lines])


TEMPLATES: tuple[Template, ...] = (
    _same("all -1", "the answer for what does not happen", "-1"),
    _same("all Nil", "the answer for what does not happen", "Nil"),
    _same("all 0; int", "a frequent value", "0; int"),
    _same("all None; NoneType", "a frequent value", "None; NoneType"),
    _same("all []; list", "a frequent value", "[]; list"),
    _same("all True", "one of two", "True"),
    _same("all False", "one of two", "False"),
    _same("all 1", "a frequent number", "1"),
    _same("all holes", "the question's own mark", HOLE),
    _same("all code", "code in place of an answer", "__import__('os')._exit(0); int"),
    _same("all eval", "code in place of an answer", "eval('1'); int"),
    _same("all ellipsis", "a literal that states nothing", "...; ellipsis"),
    _layout("shifted", "each answer one place later", lambda case: [case.lines[-1], *case.lines[:-1]]),
    _layout("reversed", "the answers from the last to the first", lambda case: case.lines[::-1]),
    _layout("first for all", "every line the same", lambda case: [case.lines[0]] * len(case.lines)),
    _layout("last for all", "every line the same", lambda case: [case.lines[-1]] * len(case.lines)),
    _layout("sorted", "the answers in another order", lambda case: sorted(case.lines)),
    _layout("in one text", "all lines in one string",
            lambda case: ['"""' + case.lines[0], *case.lines[1:-1], case.lines[-1] + '"""']
            if len(case.lines) > 1 else [f'"""{case.lines[0]}"""']),
    _layout("return of the entry", "the last line of the program for all",
            lambda case: [case.statements[-1]] * len(case.lines)),
    _each("off by one", "near the right answer", _near),
    _each("type pun of a line", "an equal value of another type", _pun),
    _each("another type", "the right value", _another_type),
    _each("no type", "the right value", _on_values("{0}")),
    _each("union of types", "the right value", _on_values("{0}; {1} | str | int")),
    _each("any object", "the right value", _on_values("{0}; object")),
    _each("swapped", "the type before the value", _on_values("{1}; {0}")),
    _each("name for the value", "the variable's own name", _on_values("{2}; {1}")),
    _each("two values", "a guess beside the right one", _on_values("{0}, {0}; {1}")),
    _each("value, then a comment", "no type but in a comment", _on_values("{0}  # ; {1}")),
    _each("computed", "a call that gives the value", _on_values("(lambda: {0})(); {1}")),
    _each("in a list", "an element of a list", _on_values("[{0}][0]; {1}")),
    _each("f-string of a line", "a text that is computed", _on_values("f'{{{0}}}'; {1}")),
    _each("either", "two answers", _either),
    _each("either, -1", "two answers", _with_minus_one),
    _each("either, Nil", "two answers", _with_nil),
    _each("two statements", "two answers", _two_statements),
    _each("commented out", "the statement in a comment", _on_statements(lambda line: f"# {line}")),
    _each("another keyword", "`if` for `elif`", _on_statements(_other_keyword)),
    _each("last character cut", "a statement that stops", _on_statements(lambda line: line[:-1])),
    _each("first word alone", "the beginning of a statement",
          _on_statements(lambda line: line.split()[0])),
    _each("other case", "capitals for small letters", _on_statements(str.swapcase)),
    _each("without spaces", "words run together", _on_statements(lambda line: line.replace(" ", ""))),
    _each("spaces doubled", "also within texts", _on_statements(lambda line: line.replace("' '", "'  '"))),
    _each("wrong line number", "the number names another line", _wrong_number),
    _whole("no lines", "the assertion alone", lambda case: first_line(case.spec)),
    _whole("one line too few", "the last is left out", lambda case: _answer(case, case.lines[:-1])),
    _whole("one line too many", "one more guess", lambda case: _answer(case, [*case.lines, "0; int"])),
    _whole("every line twice", "twice as many",
           lambda case: _answer(case, [line for line in case.lines for _ in (0, 1)])),
    _whole("lines without the assertion", "one too few", lambda case: "\n".join(case.lines)),
    _whole("all on one line", "one line for all",
           lambda case: f"{first_line(case.spec)} {' | '.join(case.lines)}"),
    _whole("every statement", "the whole program as lines",
           lambda case: _answer(case, [*case.statements, *case.lines])),
)  # fmt: skip
