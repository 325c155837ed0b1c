"""What one line is worth as the answer to one white-box question.

Covers every kind of `rewards.row.QUESTION_FIELDS`: statements, `value; type`, `True`/`False`, integers,
names, and the words `-1` and `Nil`. Does not cover cutting the lines out of a completion
(`rewards.answers`) nor comparing values, which the caller brings.

For every kind alike, back-ticks may stand around the line and around each thing in it: the value and
the type, each name, the statement behind its line number. Quotes may stand around what is no value:
names and statements. A comment may follow. A line number has to be that of the statement; it stands in
front (`16: if x:`, `line 16, if x:`) or behind in parentheses (`if x: (line 16)`). No form takes two
candidates: what is left when these are taken off has to be the answer, all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rewards.assertions import Refused, program_of
from rewards.grades import RIGHT, Grade, Policy, wrong
from rewards.lexing import same_tokens, split_value_and_type, tokens, without_comment
from rewards.row import Question, ValueAnswer

__all__ = ["ANOTHER", "grade_question", "plain_answers"]

SameValue = Callable[[str, str, Policy], bool]

_STATEMENTS = frozenset(("next_statement", "call_entry", "raised_at", "handler"))
_WORDS = frozenset(("executed", "branch"))
_COUNTS = frozenset(("visits", "depth", "frames"))
# Without the word, `16, x` and `16 - x` are statements of their own.
_NUMBERED = re.compile(
    r"(?:l?(?P<number>\d+)\s*[:.)|]|line\s*(?P<line>\d+)\s*(?:[:.)|,\u2013\u2014-]|(?=[\s`'\"])))"
    r"\s*(?P<text>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_NUMBER_BEHIND = re.compile(r"line\s*(\d+)\)", re.IGNORECASE)
_LABEL = re.compile(r"([^\W\d]\w*)\s*=(?!=)\s*(\S.*)", re.DOTALL)
_TYPE = re.compile(r"<class '(?:\w+\.)*(\w+)'>")

ANOTHER = wrong("another answer")
"""The grade of an answer that has the right form and is not the right one."""


def plain_answers(question: Question) -> tuple[str, ...]:
    """Lines that are right as they stand, whatever the policy: `grade_question` need not be asked."""
    found = []
    for answer in question.answers:
        if isinstance(answer, ValueAnswer):
            answer = f"{answer.value}; {answer.type}"
        elif question.kind in _STATEMENTS:
            answer = answer.strip()  # a line of the program, with its indentation
        if answer[:1] != "`" and answer == answer.strip():
            found.append(answer)
    return tuple(found)


def grade_question(
    question: Question, line: str, code: str, policy: Policy, same_value: SameValue
) -> Grade:
    """The grade of `line`; `same_value` compares two texts of values."""
    line = _unticked(line.strip())
    if line[:1] == "`" and "#" in line:
        line = _unticked(without_comment(line))
    refused_for = ""
    for answer in question.answers:
        try:
            if isinstance(answer, ValueAnswer):
                right = _is_value(line, answer, question, policy, same_value)
            elif line == answer:
                right = True
            elif question.kind in _STATEMENTS:
                right = _is_statement(line, answer, code)
            else:
                right = _is_word(without_comment(line), answer, question.kind)
        except Refused as refused:
            right, refused_for = False, str(refused)
        if right:
            return RIGHT
    return wrong(refused_for) if refused_for else ANOTHER


def _unticked(text: str) -> str:
    """`text` without the back-ticks around it, where they are one pair around all of it."""
    if text[:1] != "`" or text[-1:] != "`":
        return text
    inner = text.strip("`")
    if "`" in inner and any(
        part == "`" for _, part in tokens(inner)
    ):  # in a string it says nothing
        return text
    return inner.strip()


def _unquoted(text: str) -> str:
    """`text` without back-ticks, then without one pair of quotes around it."""
    text = _unticked(text)
    if len(text) > 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1].strip()
    return text


def _is_value(
    line: str, answer: ValueAnswer, question: Question, policy: Policy, same_value: SameValue
) -> bool:
    if line == f"{answer.value}; {answer.type}":
        return True
    pieces = split_value_and_type(line)
    if pieces is None:
        raise Refused("expected `value; type`")
    value, type_ = map(_unticked, pieces)
    if policy.form == "lenient":
        shown = _TYPE.fullmatch(type_)
        type_ = shown.group(1) if shown else type_
        label = _LABEL.fullmatch(value)
        if label and label.group(1) == question.variable:
            value = _unticked(label.group(2))
    if type_ != answer.type:
        raise Refused("another type")
    return same_value(value, answer.value, policy)


def _is_word(line: str, answer: str, kind: str) -> bool:
    if line == answer:
        return True
    if kind in _COUNTS:
        digits = line.isascii() and line.isdigit() and len(line) < 20
        return digits and answer.isdigit() and int(line) == int(answer)
    if kind == "changed":
        names = [_unquoted(name.strip()) for name in line.split(",")]
        return len(names) == len(set(names)) and sorted(names) == sorted(
            [name.strip() for name in answer.split(",")]
        )
    if kind == "raised":
        names = _unquoted(line).split(".")
        return names[-1] == answer and all(name.isidentifier() for name in names)
    return False


def _is_statement(line: str, answer: str, code: str) -> bool:
    if answer in ("-1", "Nil"):
        return _unquoted(without_comment(line)) == answer
    if line in ("-1", "Nil") and line[0] not in answer:
        return False  # the usual wrong answer, told without cutting the statement into tokens
    answer = answer.strip()
    if same_tokens(line, answer):
        return True
    if "\n" in line and _is_whole(line, answer, code):
        return True
    unquoted = _unquoted(line)
    if unquoted is not line and same_tokens(unquoted, answer):
        return True
    return _is_numbered(line, answer, code)


def _is_numbered(line: str, answer: str, code: str) -> bool:
    """Whether `line` is the statement with the number of its line, in front or behind."""
    if line[:1].isdigit() or line[:1] in "lL":
        found = _NUMBERED.fullmatch(line)
        digits, text = (found["line"] or found["number"], found["text"]) if found else ("", "")
    else:
        text, _, behind = line.rpartition("(")
        found = _NUMBER_BEHIND.fullmatch(behind)
        digits = found[1] if found else ""
    if found is None:
        return False
    number = int(digits[:9])
    lines = code.split("\n")
    # Another number names another statement.
    return (
        1 <= number <= len(lines)
        and same_tokens(lines[number - 1].strip(), answer)
        and same_tokens(_unquoted(text.strip()), answer)
    )


def _is_whole(line: str, answer: str, code: str) -> bool:
    """Whether `line` is all of a statement of several lines that begins with `answer`."""
    import ast

    lines = code.split("\n")
    for statement in program_of(code):
        for node in ast.walk(statement):
            if not isinstance(node, ast.stmt) or not same_tokens(
                lines[node.lineno - 1].strip(), answer
            ):
                continue
            body = getattr(node, "body", None)
            last = node.end_lineno or node.lineno
            if isinstance(body, list) and body:  # its header alone
                last = max(node.lineno, body[0].lineno - 1)
            if same_tokens(line, "\n".join(lines[node.lineno - 1 : last]).strip()):
                return True
    return False
