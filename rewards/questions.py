"""What one line is worth as the answer to one white-box question.

Covers every kind of `rewards.row.QUESTION_FIELDS`: statements, `value; type`, `True`/`False`, integers,
names, and the words `-1` and `Nil`. Does not cover cutting the lines out of a completion
(`rewards.answers`) nor comparing values, which the caller brings.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from rewards.assertions import Refused, program_of
from rewards.grades import RIGHT, Grade, Policy, wrong
from rewards.lexing import same_tokens, split_value_and_type, without_comment
from rewards.row import Question, ValueAnswer

__all__ = ["grade_question"]

SameValue = Callable[[str, str, Policy], bool]

_STATEMENTS = frozenset(("next_statement", "call_entry", "raised_at", "handler"))
_WORDS = frozenset(("executed", "branch"))
_COUNTS = frozenset(("visits", "depth", "frames"))
_NUMBERED = re.compile(r"(?:line\s*|l)?(\d+)\s*[:.)|]\s*(\S.*)", re.IGNORECASE | re.DOTALL)
_LABEL = re.compile(r"([^\W\d]\w*)\s*=(?!=)\s*(\S.*)", re.DOTALL)
_TYPE = re.compile(r"<class '(?:\w+\.)*(\w+)'>")


def grade_question(
    question: Question, line: str, code: str, policy: Policy, same_value: SameValue
) -> Grade:
    """The grade of `line`; `same_value` compares two texts of values."""
    line = line.strip()
    if len(line) > 1 and line[0] == line[-1] == "`":
        line = line.strip("`").strip()
    reason = "another answer"
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
            right, reason = False, str(refused)
        if right:
            return RIGHT
    return wrong(reason)


def _is_value(
    line: str, answer: ValueAnswer, question: Question, policy: Policy, same_value: SameValue
) -> bool:
    if line == f"{answer.value}; {answer.type}":
        return True
    pieces = split_value_and_type(line)
    if pieces is None:
        raise Refused("expected `value; type`")
    value, type_ = pieces
    if policy.form == "lenient":
        shown = _TYPE.fullmatch(type_)
        type_ = shown.group(1) if shown else type_
        label = _LABEL.fullmatch(value)
        if label and label.group(1) == question.variable:
            value = label.group(2)
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
        names = [name.strip() for name in line.split(",")]
        return len(names) == len(set(names)) and sorted(names) == sorted(
            [name.strip() for name in answer.split(",")]
        )
    if kind == "raised":
        return line.strip("'\"").rpartition(".")[2] == answer and line.strip("'\"").isascii()
    return False


def _is_statement(line: str, answer: str, code: str) -> bool:
    if answer in ("-1", "Nil"):
        return without_comment(line) == answer
    if same_tokens(line, answer.strip()):
        return True
    if "\n" in line and _is_whole(line, answer.strip(), code):
        return True
    if len(line) > 2 and line[0] == line[-1] and line[0] in "'\"":
        return same_tokens(line[1:-1].strip(), answer.strip())
    numbered = _NUMBERED.fullmatch(line)
    if numbered is None:
        return False
    # The number has to be that of the statement; another one names another statement.
    number, text = int(numbered.group(1)[:9]), numbered.group(2)
    lines = code.split("\n")
    return (
        1 <= number <= len(lines)
        and same_tokens(lines[number - 1].strip(), answer.strip())
        and same_tokens(text.strip(), answer.strip())
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
