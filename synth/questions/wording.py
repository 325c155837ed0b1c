"""Questions in words: the sentence for each kind, what they mean by their terms, and the prompt.

Covers every text that a model sees of a whitebox row. Does not cover the answers, nor what may be asked
(`rules.py`). A change of wording is a new version id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rewards.row import Question, ValueAnswer
from synth.prompts import SYSTEM, VALUE_HINT, Messages

__all__ = [
    "CONVENTIONS",
    "EXAMPLE",
    "WHITEBOX_VERSION",
    "answer_text",
    "sentence",
    "whitebox_prompt",
]

WHITEBOX_VERSION = "whitebox-1"

_LINE_END = re.compile(r"\r\n?|\n")

CONVENTIONS = (
    "Lines are counted from 1, blank ones included. A statement is named by its first line. A visit of a "
    "line is one execution of the statement that starts there, counted from 1 over the whole call, all "
    "functions together, in the order in which they start. Of a statement with a block it is the first line "
    "alone: of an `if`, `elif` or `while` one evaluation of its condition, of a `for` one attempt to fetch "
    "an element, also the last, which finds none, of a `with` the entering, of a `match` the choice of a "
    "case. The lines `else:`, `case ...:`, `except ...:` and `finally:` are no statements, and what runs "
    "inside a comprehension or a lambda belongs to the statement that holds it. A statement ends when it "
    "has completed or raised: after all functions that it calls have returned, and a `yield` after the "
    "generator has been resumed.\n"
    "Answer a question for a statement with its first line, or with -1 if no statement runs after it or "
    "the line never runs. Answer a question for what a variable holds or a function returns with the "
    "value and the name of its type, as in [0.5, 'k']; list, or with Nil if the line never runs; write "
    f"the value as {VALUE_HINT}. Answer a question for variables with their names in alphabetical order, "
    "separated by commas, or with Nil if there are none; for an exception or an `except` line, with Nil "
    "if there is none; whether something happens with True or False; how often or how deep with an "
    "integer, where the call that the assertion makes has depth 1."
)


def _place(question: Question, code: str) -> str:
    assert question.line is not None
    text = _LINE_END.split(code)[question.line - 1].strip()
    visit = "" if question.visit is None else f", visit {question.visit}"
    return f"Line {question.line}, `{text}`{visit}:"


_SENTENCES: dict[str, Callable[[Question], str]] = {
    "next_statement": lambda q: "which statement starts next after it has ended?",
    "value": lambda q: f"what does `{q.variable}` hold when it has ended?",
    "executed": lambda q: "does it run at all?",
    "visits": lambda q: "how often does it run?",
    "branch": lambda q: "does its condition hold?",
    "call_entry": lambda q: "which statement runs first inside the first call that it makes?",
    "changed": lambda q: (
        "which variables of its function hold something else when it has ended than they did when the "
        "statement before it in the same call had ended?"
    ),
    "depth": lambda q: "at which depth of calls does it run?",
    "frames": lambda q: f"How often is the body of `{q.function}` entered?",
    "returned": lambda q: (
        f"What does `{q.function}` return, call {q.call} in the order of returning?"
    ),
    "raised": lambda q: "What is the type of the exception that a statement raises?",
    "raised_at": lambda q: "Which statement raises an exception?",
    "handler": lambda q: "Which `except` line catches an exception?",
}


def sentence(question: Question, code: str) -> str:
    """The question in English, for the program `code`; raises KeyError for an unknown kind."""
    words = _SENTENCES[question.kind](question)
    return words if question.line is None else f"{_place(question, code)} {words}"


def answer_text(question: Question) -> str:
    """A right answer as a line of the answer block."""
    answer = question.answers[0]
    return answer.strip() if isinstance(answer, str) else f"{answer.value}; {answer.type}"


class Example(NamedTuple):
    """A row in small, which every prompt shows solved; the tests run it."""

    code: str
    entry: str
    args: str
    output: str
    reasoning: str
    questions: tuple[Question, ...]


EXAMPLE = Example(
    code="""\
def widen(gap):
    if gap > 40:
        return gap - 15
    return gap * 3


def stretch(gaps):
    sizes = {}
    for n, gap in enumerate(gaps):
        if gap % 2 == 1:
            sizes[n] = widen(gap)
        elif gap == 0:
            sizes = dict.fromkeys(sizes, gap)
    return sum(sizes.values())
""",
    entry="stretch",
    args="[21, 34, 57]",
    output="105",
    reasoning=(
        "21 is odd, so widen(21) runs; 21 > 40 is false, it returns 63, which is stored under 0. 34 is "
        "even and not 0, so nothing is stored; line 13 never runs. 57 is odd; 57 > 40, so widen(57) "
        "returns 42, stored under 2. The fourth fetch finds no element, and the sum is 105."
    ),
    questions=(
        Question("next_statement", ("    return sum(sizes.values())",), line=9, visit=4),
        Question("value", (ValueAnswer("{0: 63, 2: 42}", "dict"),), 11, 2, "sizes"),
        Question("value", ("Nil",), line=13, visit=1, variable="sizes"),
        Question("next_statement", ("        return gap - 15",), line=2, visit=2),
    ),
)


def _task(code: str, entry: str, args: str, questions: Sequence[Question]) -> str:
    numbered = "\n".join(f"{n}. {sentence(one, code)}" for n, one in enumerate(questions, 1))
    return (
        f"```python\n{code.rstrip()}\n```\n\n"
        f"assert {entry}({args}) == ????\n\n{numbered or 'No questions.'}"
    )


def whitebox_prompt(code: str, entry: str, args: str, questions: Sequence[Question]) -> Messages:
    """Given program and input, complete the assertion and answer the questions about the call."""
    shown = _task(EXAMPLE.code, EXAMPLE.entry, EXAMPLE.args, EXAMPLE.questions)
    answers = "\n".join(map(answer_text, EXAMPLE.questions))
    solved = f"assert {EXAMPLE.entry}({EXAMPLE.args}) == {EXAMPLE.output}\n{answers}"
    count = len(questions) + 1
    content = (
        "You are given a Python program, a call of it in an assertion, and questions about what happens "
        "during that call. Work it out step by step, without running it. Complete the assertion with "
        f"{VALUE_HINT}: no variables, no calls of the program's functions. Then answer the questions.\n\n"
        f"{CONVENTIONS}\n\n"
        "Put your reasoning between <reasoning> and </reasoning>. Between <answer> and </answer> put "
        "the completed assertion on the first line, and then one line for each question, in their order, "
        "without numbers.\n\n"
        f"Here is an example.\n\n{shown}\n\n"
        f"<reasoning>\n{EXAMPLE.reasoning}\n</reasoning>\n<answer>\n{solved}\n</answer>\n\n"
        f"Now your task; the answer has {count} line{'s' if count > 1 else ''}.\n\n"
        f"{_task(code, entry, args, questions)}"
    )
    return (("system", SYSTEM), ("user", content))
