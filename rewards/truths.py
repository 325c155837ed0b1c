"""What the ground truth of a row looks like as a completion: the answer that must score the maximum.

Covers the answer of every task, the line for each white-box question, a program for unit tests that
answers every test from a table (it shows that the tests can be passed and agree with themselves, not
how), and other spellings of the same answer that a grader must take. Does not cover whether the ground
truth is true of the program, nor reasoning worth reading (`synth.chains`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from rewards.assertions import parameters_of
from rewards.row import Question, Spec, Tests

__all__ = ["REASONING", "SPELLINGS", "Spelling", "answer_line", "completion", "table", "truth"]

REASONING = "<reasoning>\nI go through the call step by step.\n</reasoning>\n"


def truth(spec: Spec) -> str | None:
    """The completion that answers `spec` with its ground truth.

    None if it cannot be derived: for unit tests that check by a program, or whose tests contradict
    each other, and for input rows that keep no arguments (`????`).
    """
    if not answerable(spec):
        return None
    if spec.task == "unittest":
        program = table(spec)
        return None if program is None else completion(f"```python\n{program}```")
    return completion("\n".join([first_line(spec), *map(answer_line, spec.questions)]))


def answerable(spec: Spec) -> bool:
    """Whether an input row holds an input; True for every other task."""
    return spec.task != "input" or call_of(spec) is not None


def call_of(spec: Spec) -> ast.Call | None:
    """The row's call as a syntax tree, None if it is none."""
    try:
        (statement,) = ast.parse(f"{spec.entry}({spec.args}\n)").body
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    call = statement.value if isinstance(statement, ast.Expr) else None
    return call if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else None


def completion(answer: str) -> str:
    """A completion of the form that prompts ask for."""
    return f"{REASONING}<answer>\n{answer}\n</answer>"


def first_line(spec: Spec) -> str:
    """The answer to what is asked first: the assertion, the call, or the name of the exception."""
    call = f"{spec.entry}({spec.args})"
    if spec.raises is None:
        return f"assert {call} == {spec.output}"
    return call if spec.task == "input" else spec.raises


def answer_line(question: Question) -> str:
    """A right answer to a white-box question, as a line of the answer block."""
    answer = question.answers[0]
    return answer.strip() if isinstance(answer, str) else f"{answer.value}; {answer.type}"


# ---------------------------------------------------------------------------------------------
# Unit tests


_SCRIPT = """\
import sys

KNOWN = {known!r}
sys.stdout.write(KNOWN[sys.stdin.read()])
"""
_FUNCTION = """\
import json

KNOWN = {known!r}


def {name}(*args):
    return json.loads(KNOWN["\\n".join([json.dumps(arg, sort_keys=True) for arg in args])])
"""


def table(spec: Spec) -> str | None:
    """A program that gives what the tests expect, looked up by what they send; None without one."""
    tests = spec.tests
    if tests is None or tests.check is not None:
        return None
    known: dict[str, str] = {}
    for given, expected in zip(tests.inputs, tests.outputs, strict=True):
        key = given if tests.fn_name is None else _written_again(given)
        if key is None or known.setdefault(key, expected) != expected:
            return None
    if tests.fn_name is None:
        return _SCRIPT.format(known=known)
    name = _function(tests)
    return None if name is None else _FUNCTION.format(known=known, name=name)


def _function(tests: Tests) -> str | None:
    name = (tests.fn_name or "").rpartition(".")[2]
    return name if name.isidentifier() else None


def _written_again(given: str) -> str | None:
    """The arguments of an input, each as `json.dumps` writes it; None if they are not JSON."""
    import json

    try:
        values = [json.loads(line) for line in given.split("\n") if line.strip()]
    except (ValueError, RecursionError):
        try:
            values = [json.loads(given)]
        except (ValueError, RecursionError):
            return None
    return "\n".join([json.dumps(value, sort_keys=True) for value in values])


# ---------------------------------------------------------------------------------------------
# Other spellings


@dataclass(frozen=True)
class Spelling:
    """Another way to write a right answer, which earns as much."""

    name: str
    tasks: tuple[str, ...]
    first: Callable[[Spec], str | None]
    """What stands in place of `first_line`; None where the spelling does not apply."""

    def build(self, spec: Spec) -> str | None:
        """The completion, None where the spelling does not apply."""
        if spec.task not in self.tasks or not answerable(spec):
            return None
        first = self.first(spec)
        if first is None:
            return None
        return completion("\n".join([first, *map(answer_line, spec.questions)]))


def _call(spec: Spec) -> str:
    return f"{spec.entry}({spec.args})"


def _bare(spec: Spec) -> str | None:
    return spec.output if spec.raises is None else None


def _mirror(spec: Spec) -> str | None:
    return f"assert {spec.output} == {_call(spec)}" if spec.raises is None else None


def _commented(spec: Spec) -> str | None:
    return f"{first_line(spec)}  # type: ignore" if spec.raises is None else None


def _with_message(spec: Spec) -> str | None:
    return f"{first_line(spec)}, 'as computed'" if spec.raises is None else None


def _concatenated(spec: Spec) -> str | None:
    """Adjacent literals are one literal."""
    try:
        value = ast.literal_eval(spec.output)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    if type(value) is not str or len(value) < 2:
        return None
    if any("\ud800" <= char <= "\udfff" for char in value):
        return None
    middle = len(value) // 2
    return f"assert {_call(spec)} == {value[:middle]!a} {value[middle:]!a}"


def _by_name(spec: Spec) -> str | None:
    """The arguments by the names of the parameters, where each argument fills one of them."""
    names = parameters_of(spec.code, spec.entry)
    call = call_of(spec)
    if spec.raises is not None or names is None or call is None:
        return None
    given = call.args
    if not given or call.keywords or len(given) > len(names):
        return None
    if any(isinstance(argument, ast.Starred) for argument in given):
        return None
    if any(name.startswith("/") for name in names[: len(given)]):
        return None
    written = [
        f"{name}={ast.unparse(argument)}" for name, argument in zip(names, given, strict=False)
    ]
    return f"assert {spec.entry}({', '.join(written)}) == {spec.output}"


def _fenced(spec: Spec) -> str | None:
    return None if spec.questions else f"```python\n{first_line(spec)}\n```"


def _arguments(spec: Spec) -> str | None:
    return spec.args if spec.args.strip() else None


_VALUES = ("output", "whitebox")
_ALL = (*_VALUES, "input")

SPELLINGS: tuple[Spelling, ...] = (
    Spelling("bare value", _VALUES, _bare),
    Spelling("mirror image", _ALL, _mirror),
    Spelling("trailing comment", _ALL, _commented),
    Spelling("message of the assertion", _ALL, _with_message),
    Spelling("adjacent literals", _ALL, _concatenated),
    Spelling("arguments by name", _ALL, _by_name),
    Spelling("code fence", _ALL, _fenced),
    Spelling("bare call", ("input",), _call),
    Spelling("bare arguments", ("input",), _arguments),
)
"""Spellings of the first answer that the grader takes under every policy."""
