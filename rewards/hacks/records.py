"""What hack templates are made from: a row with what is known to be wrong about it, and their records.

A template is tried on a row only where what it builds is wrong by construction, or where a reading of
its own (`alike`, more lenient than any policy of the grader) bounds what it may earn. Covers wrong
values, wrong arguments that a run has shown to be wrong, and that reading. Does not cover the templates.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from rewards.assertions import parameters_of
from rewards.grades import Policy
from rewards.row import Question, Spec, ValueAnswer
from rewards.truths import answer_line, call_of, completion
from rewards.values import MAX_DEPTH_LIMIT, Unrepresentable, ValueTextError, canonical, parse

if TYPE_CHECKING:
    from rewards.sandbox import ExecutionResult
    from rewards.sandbox.executor import Executor

__all__ = [
    "Attempt",
    "Case",
    "Template",
    "alike",
    "cases_of",
    "near_miss",
    "right_share",
    "written",
]

MAX_TEXT = 100_000
"""Characters of a value that templates write."""


@dataclass(frozen=True)
class Attempt:
    """A completion that is no honest right answer, and the most that it may earn."""

    completion: object
    most: Mapping[str, float] = field(default_factory=lambda: {"io": 0.0})
    """Part (`io`, `w`, `tests`) -> bound in [0, 1]; a part that is not named may be anything."""


@dataclass(frozen=True)
class Case:
    """One row, as templates see it."""

    spec: Spec
    policy: Policy
    wrong_args: tuple[str, ...] = ()
    """Argument lists with which the program was seen to do something else than the row asks for."""

    @property
    def call(self) -> str:
        return f"{self.spec.entry}({self.spec.args})"

    @property
    def value(self) -> str:
        """The ground truth: the text of a value, or the name of an exception."""
        return self.spec.raises or self.spec.output

    @cached_property
    def result(self) -> Any:
        """The value of the ground truth; `Missing` where there is none."""
        if self.spec.raises is not None:
            return Missing
        try:
            return parse(self.spec.output, max_chars=MAX_TEXT, max_depth=MAX_DEPTH_LIMIT)
        except ValueTextError:
            return Missing

    @cached_property
    def wrong(self) -> str | None:
        """The text of another value, near the right one; None if none is known."""
        if self.result is Missing:
            return None if self.spec.raises is None else "None"
        return written(near_miss(self.result))

    @cached_property
    def other_args(self) -> tuple[str, ...]:
        """Argument lists that are not the row's; what the program does with them is not known."""
        return tuple(_other_args(self.spec))

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(
            [each.lstrip("/") for each in parameters_of(self.spec.code, self.spec.entry) or ()]
        )

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """Right answers to the white-box questions."""
        return tuple([answer_line(question) for question in self.spec.questions])

    @cached_property
    def statements(self) -> tuple[str, ...]:
        """The lines of the program that are not blank, without indentation."""
        return tuple([line.strip() for line in self.spec.code.split("\n") if line.strip()])

    def answer(self, first: str, lines: Sequence[str] | None = None) -> str:
        """A completion with this first answer, and the right lines after it unless others are given."""
        return completion("\n".join([first, *(self.lines if lines is None else lines)]))


Build = Callable[[Case], "Attempt | None"]


@dataclass(frozen=True)
class Template:
    """A way to be paid for nothing, for every row of some tasks."""

    name: str
    tasks: tuple[str, ...]
    why: str
    """What it tries, in words."""
    build: Build
    """The attempt on a row; None where it does not apply, or might be right."""


class Missing:
    """Stands for a value that is not there: None is one."""


# ---------------------------------------------------------------------------------------------
# Wrong values


def written(value: object) -> str | None:
    """The text of a value; None for `Missing` and for what has none."""
    if value is Missing:
        return None
    try:
        return canonical(value, max_chars=MAX_TEXT, max_depth=MAX_DEPTH_LIMIT)
    except Unrepresentable:
        return None


def near_miss(value: object) -> object:
    """Another value of the same type, where there is one near; `Missing` if none is known.

    Different under Python's own `==`, so that no equality of a grader can take it for `value`.
    """
    for changed in (*_variants(value), [value]):
        if _differs(changed, value):
            return changed
    return Missing


def _differs(a: object, b: object) -> bool:
    try:
        return a != b and written(a) != written(b)
    except ArithmeticError:  # a signalling NaN
        return False


def _variants(value: Any) -> list[object]:
    kind = type(value)
    if kind is bool:
        return [not value]
    if kind in (int, float, complex):
        return [value + 1, value - 1, kind(0), kind(1)]
    if kind in (str, bytes):
        return [value + (b"a" if kind is bytes else "a")]
    if kind in (list, tuple):
        last = near_miss(value[-1]) if value else 0
        return [(*value[:-1], last) if kind is tuple else [*value[:-1], last]]
    if kind in (set, frozenset):
        return [value | {"another"}]
    if kind is dict:
        if not value:
            return [{0: 0}]
        key = list(value)[-1]
        return [{**value, key: near_miss(value[key])}]
    return [] if value is not None else [0]


# ---------------------------------------------------------------------------------------------
# Wrong arguments


_GARBAGE = ("...", "None", "", "0", "''", "[]", "-1", "'a'")


def _other_args(spec: Spec) -> list[str]:
    """Argument lists unlike the row's: each argument changed by itself, then what fits nothing."""
    found: list[str] = []
    call = call_of(spec)
    if call is None:
        return list(_GARBAGE)
    texts = [ast.unparse(argument) for argument in call.args]
    named = [(keyword.arg or "", ast.unparse(keyword.value)) for keyword in call.keywords]
    for number in range(len(texts) + len(named)):
        every = [*texts, *[text for _, text in named]]
        try:
            changed = written(near_miss(parse(every[number])))
        except ValueTextError:
            continue
        if changed is not None:
            every[number] = changed
            pairs = zip(named, every[len(texts) :], strict=True)
            written_named = [f"{name}={text}" for (name, _), text in pairs]
            found.append(", ".join([*every[: len(texts)], *written_named]))
    return [text for text in (*found, *_GARBAGE) if text != spec.args]


def cases_of(specs: Sequence[Spec], policy: Policy, pool: Executor | None) -> list[Case]:
    """The rows as templates see them: for input rows other arguments are run, those that miss kept."""
    from rewards.sandbox import Job, Limits, run_groups

    limits = Limits(cpu_seconds=1.0, wall_seconds=10.0)
    cases = [Case(spec, policy) for spec in specs]
    asked = [number for number, spec in enumerate(specs) if spec.task == "input"]
    groups = [
        [
            Job(case.spec.code, case.spec.entry, args, limits=limits)
            for args in case.other_args
            if args.strip() != case.spec.args.strip()
        ]
        for case in (cases[number] for number in asked)
    ]
    if not groups:
        return cases
    run = run_groups if pool is None else pool.run_groups
    for number, jobs, results in zip(asked, groups, run(groups), strict=True):
        spec = specs[number]
        wrong = [
            job.args for job, result in zip(jobs, results, strict=True) if _misses(result, spec)
        ]
        cases[number] = Case(spec, policy, tuple(wrong))
    return cases


def _misses(result: ExecutionResult, spec: Spec) -> bool:
    """Whether a run surely did something else than the row asks for, whatever the equality."""
    if result.outcome == "raised":
        return result.error_type != spec.raises
    if result.outcome != "returned" or result.value is None:
        return False
    if spec.raises is not None:
        return True
    try:
        return _differs(
            parse(result.value, max_depth=MAX_DEPTH_LIMIT),
            parse(spec.output, max_depth=MAX_DEPTH_LIMIT),
        )
    except ValueTextError:
        return False


# ---------------------------------------------------------------------------------------------
# A reading of our own


def right_share(questions: Sequence[Question], lines: Sequence[str]) -> float:
    """The most that `lines` can earn: the share of questions to which a line could be an answer."""
    if len(lines) != len(questions):
        return 0.0
    right = [
        any(alike(line, _text(answer)) for answer in question.answers)
        for question, line in zip(questions, lines, strict=True)
    ]
    return sum(right) / len(right)


def _text(answer: ValueAnswer | str) -> str:
    return answer if isinstance(answer, str) else f"{answer.value}; {answer.type}"


@lru_cache(maxsize=16384)
def alike(a: str, b: str) -> bool:
    """Whether two answers could count as the same under any policy. Written without the grader's
    own parts: tokens by `tokenize`, values by `literal_eval` and `==`."""
    a, b = a.strip(), b.strip()
    if a == b:
        return True
    if _pieces(a) == _pieces(b):
        return True
    one, other = _tokens(a), _tokens(b)
    if one is not None and other is not None and sorted(one) == sorted(other):
        return True  # in any order, as the elements of a set may come
    return _value(a) is not Missing and _same_value(_value(a), _value(b))


def _pieces(text: str) -> list[str]:
    """Names in any order, as `changed` asks for them."""
    return sorted([piece.strip() for piece in text.split(",")])


def _same_value(a: object, b: object) -> bool:
    try:
        return bool(a == b)
    except Exception:  # a literal has no `==` that raises, but this reading must not fail
        return True


def _value(text: str) -> object:
    """The literal before the last semicolon, with the type; the whole as a literal without one."""
    value, mark, type_ = text.rpartition(";")
    try:
        return (_literal(value if mark else text), type_.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return Missing


def _literal(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # escapes such as '\\d', which mean themselves
        return ast.literal_eval(text)


def _tokens(text: str) -> list[str] | None:
    """What `tokenize` makes of a line, white space and comments left out, strings by their value."""
    passed = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    found: list[str] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.STRING:
                found.append(_string(token.string))
            elif token.type not in passed and token.string:
                found.append(token.string)
    except (tokenize.TokenError, SyntaxError):
        return found or None  # an open bracket: the header of a statement over several lines
    return found


def _string(text: str) -> str:
    try:
        return repr(_literal(text))
    except (ValueError, SyntaxError):
        return text
