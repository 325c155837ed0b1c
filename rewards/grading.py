"""One grader for the difficulty filter, the reward and the evaluation.

`grade` takes what a row asks (`Spec`) and what a model wrote (any container, see
`rewards.answers.text_of`) and says of every part what it is worth and why. `grade_all` does so for a
batch and runs identical input answers once. An answer to an output or white-box question is parsed,
never run; the arguments of an input answer are run with *our* program, in the sandbox, and the host
compares. Nothing that a completion holds makes it raise.

Where a strict and a lenient reader differ, `Policy` decides.

Not covered: what the grades are worth together (`rewards.shapes`), unit tests (`rewards.unittests`,
which `grade` calls), trainers (`rewards.whitebox`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from rewards import values
from rewards.answers import Extracted, code_of, extract, text_of
from rewards.arguments import Arguments, read_arguments
from rewards.assertions import Refused, is_asked_call, read_claim
from rewards.grades import RIGHT, STATUSES, Grade, Graded, Policy, wrong
from rewards.lexing import same_tokens
from rewards.questions import grade_question, plain_answers
from rewards.row import Spec

if TYPE_CHECKING:
    from rewards.sandbox import ExecutionResult, Job
    from rewards.sandbox.executor import Executor

__all__ = [
    "STATUSES",
    "Grade",
    "Graded",
    "Policy",
    "grade",
    "grade_all",
    "same_statement",
    "same_value",
]

_DEFAULT = Policy()
_NO_ANSWER = {
    "no_answer": Grade(0.0, "no_answer", "the completion holds no complete answer"),
    "truncated": Grade(0.0, "truncated", "the completion stops before an answer is complete"),
}
_NOT_RUN = Grade(None, "infrastructure", "not run yet")


def same_statement(a: str, b: str) -> bool:
    """Whether two texts are the same statement: equal tokens, so `elif` is not `if`.

    White space between tokens, comments and the kind of quotes are set aside; white space inside
    strings is not. The relation that decides statement answers, and by which the question builder
    finds statements that could be taken for one another.
    """
    return same_tokens(a.strip(), b.strip())


def grade(
    spec: Spec,
    completion: object,
    *,
    policy: Policy = _DEFAULT,
    pool: Executor | None = None,
    truncated: bool = False,
) -> Graded:
    """What `completion` is worth as an answer to `spec`.

    Args:
        spec: what the row asks.
        completion: what the model wrote, as the trainer hands it over.
        policy: where readers differ.
        pool: the sandbox to run input answers and unit tests in; default the shared one.
        truncated: the server says that it stopped the completion for its length.

    """
    return grade_all([(spec, completion)], policy=policy, pool=pool, truncated=[truncated])[0]


def grade_all(
    pairs: Iterable[tuple[Spec, object]],
    *,
    policy: Policy = _DEFAULT,
    pool: Executor | None = None,
    truncated: Sequence[bool] | None = None,
) -> list[Graded]:
    """`grade` for a batch, in the same order. Identical input answers to a program run once."""
    graded: list[Graded] = []
    inputs: list[_Pending] = []
    tests: list[_Pending] = []
    asked: _Asked | None = None
    for number, (spec, completion) in enumerate(pairs):
        if spec.task == "unittest":
            tests.append(_Pending(number, spec, completion))
            graded.append(Graded(spec.task))
            continue
        cut = bool(truncated[number]) if truncated is not None else False
        if asked is None or asked.spec is not spec:
            asked = _Asked(spec)
        one, arguments = _first_pass(asked, completion, policy, cut)
        graded.append(one)
        if arguments is not None:
            inputs.append(_Pending(number, spec, completion, arguments))
    if inputs:
        _run_inputs(inputs, graded, policy, pool)
    if tests:
        _run_tests(tests, graded, policy, pool)
    return graded


class _Pending(NamedTuple):
    """One completion of which something has to be run."""

    number: int
    """Its place in the batch."""
    spec: Spec
    completion: object
    arguments: Arguments | None = None


class _Asked:
    """A spec, and what the completions of a row that follow one another can share."""

    __slots__ = ("count", "families", "known", "line", "prefix", "spec")

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.families = tuple([question.family for question in spec.questions])
        self.count = 1 + len(spec.questions)
        self.prefix = f"assert {spec.entry}({spec.args}) == "
        self.line = self.prefix + spec.output if spec.raises is None else None
        """The assertion that prompts ask for, with the right value."""
        self.known = [plain_answers(question) for question in spec.questions]


def _first_pass(
    asked: _Asked, completion: object, policy: Policy, truncated: bool
) -> tuple[Graded, Arguments | None]:
    """All that can be said without running anything, and the arguments to run the program with."""
    started = time.perf_counter()
    spec = asked.spec
    found = extract(
        completion if type(completion) is str else text_of(completion),
        answer_first=policy.answer_first,
        marked=policy.form == "lenient",
        truncated=truncated,
    )
    if found.status != "found":
        missing = _NO_ANSWER[found.status]
        every = (missing,) * len(spec.questions)
        return Graded(spec.task, missing, every, asked.families), None
    first, questions, counted = _parts(asked, found, policy)
    arguments = None
    try:
        if spec.task == "input":
            arguments = _arguments(first, spec, policy)
            io = _NOT_RUN
        elif first == asked.line and "\n" not in first:
            io = RIGHT
        else:
            io = _output(first, asked, policy)
    except Refused as refused:
        io = wrong(str(refused))
    well_formed = 1.0 if found.well_formed and counted else 0.0
    seconds = time.perf_counter() - started
    graded = Graded(spec.task, io, questions, asked.families, None, well_formed, seconds)
    return graded, arguments


def _parts(asked: _Asked, found: Extracted, policy: Policy) -> tuple[str, tuple[Grade, ...], bool]:
    """The text that answers io, the grades of the questions, and whether the count is right."""
    spec, count = asked.spec, asked.count
    if count == 1:
        return code_of(found.answer), (), True
    lines = found.aligned(count)
    first = lines[0].strip().strip("`") if lines else ""
    if len(lines) != count:
        reason = f"{len(lines)} answers, expected {count}: one for the assertion and each question"
        return first, (wrong(reason),) * (count - 1), False
    grades = [
        RIGHT if line in known else grade_question(question, line, spec.code, policy, same_value)
        for question, line, known in zip(spec.questions, lines[1:], asked.known, strict=True)
    ]
    return first, tuple(grades), True


# ---------------------------------------------------------------------------------------------
# Values


def same_value(text: str, truth: str, policy: Policy = _DEFAULT) -> bool:
    """Whether `text` writes the value `truth`, a canonical text. Raises `Refused` if it is no value."""
    if text == truth:
        return True
    if policy.equality == "strict" and _is_plain(text) and _is_plain(truth):
        return False  # both are canonical, and a value has one canonical text
    try:
        return _equals(values.parse(text), truth, policy)
    except values.ValueTextError as error:
        raise Refused(str(error)) from None


_SCALAR = (
    r"(?:-?[1-9][0-9]{0,17}|0|None|True|False|'[ !#-&(-\[\]-~]*'"
    r"|-?(?=[0-9.]{3,16}(?![0-9.]))(?:0|[1-9][0-9]*)\.(?:0|[0-9]*[1-9]))"
)
_TUPLE = rf"\((?:{_SCALAR}(?:,|(?:, {_SCALAR})+))?\)"


def _listed(item: str) -> str:
    return rf"\[(?:{item}(?:, {item})*)?\]"


_FLAT = rf"(?:{_SCALAR}|{_TUPLE})"
_PLAIN = re.compile(rf"{_FLAT}|{_listed(rf'(?:{_FLAT}|{_listed(_FLAT)})')}")
"""Texts that are canonical: no other text of this form writes the same value."""


@lru_cache(maxsize=8192)
def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None


def _equals(value: object, truth: str, policy: Policy) -> bool:
    known = _truth(truth)
    if known is None:
        return False
    expected, text = known
    if policy.equality == "python" and values.equal(value, expected, "python"):
        return True
    if "{" in text:  # unordered, so its text is one of several
        return values.equal(value, expected)
    try:
        return values.canonical(value, max_chars=len(text), max_depth=_DEPTH) == text
    except values.Unrepresentable:  # longer than the truth, or deeper than any
        return False


_DEPTH = values.MAX_DEPTH_LIMIT


@lru_cache(maxsize=8192)
def _truth(text: str) -> tuple[object, str] | None:
    """The value of a ground truth and its canonical text, once; None if it is no value."""
    try:
        value = values.parse(text)
        return value, values.canonical(value, max_chars=_TRUTH_CHARS, max_depth=_DEPTH)
    except (values.ValueTextError, values.Unrepresentable):
        return None


_TRUTH_CHARS = 20 * values.MAX_PARSE_CHARS


# ---------------------------------------------------------------------------------------------
# Output


def _output(answer: str, asked: _Asked, policy: Policy) -> Grade:
    spec, prefix = asked.spec, asked.prefix
    if spec.raises is not None:
        name = answer.strip().strip("`'\"").strip()
        parts = name.split(".")
        if all(part.isidentifier() for part in parts) and parts[-1] == spec.raises:
            return RIGHT
        return wrong("another exception, or not the name of one alone")
    if answer.startswith(prefix) and "\n" not in answer:
        rest = answer[len(prefix) :]
        if rest == spec.output:
            return RIGHT
        if _is_plain(rest):
            return RIGHT if same_value(rest, spec.output, policy) else wrong("another value")
        try:
            value = values.parse(rest)
        except values.ValueTextError as error:
            if "," not in rest:  # else it may be a message
                return wrong(str(error))
        else:
            if type(value) is not tuple:  # a tuple may be a value and a message
                return RIGHT if _equals(value, spec.output, policy) else wrong("another value")
    claim = read_claim(answer, spec.code, spec.entry, program=policy.program and not spec.questions)
    if claim.call is not None and not is_asked_call(claim.call, spec.code, spec.entry, spec.args):
        return wrong("the call is not the call asked about")
    if claim.stated is None:
        return wrong("the answer states no value")
    return RIGHT if same_value(claim.stated, spec.output, policy) else wrong("another value")


# ---------------------------------------------------------------------------------------------
# Input


def _arguments(answer: str, spec: Spec, policy: Policy) -> Arguments:
    found = read_arguments(
        answer, spec.code, spec.entry, program=policy.program and not spec.questions
    )
    if found.stated is not None:
        if spec.raises is not None:
            raise Refused("the answer states a value, and the call is to raise")
        if not same_value(found.stated, spec.output, policy):
            raise Refused("the answer states another value than the one asked for")
    return found


def _run_inputs(
    pending: list[_Pending], graded: list[Graded], policy: Policy, pool: Executor | None
) -> None:
    """Run the arguments of all, each (program, arguments) once, and set their grades."""
    from rewards.sandbox import Job

    jobs: dict[tuple[str, str, str], Job] = {}
    groups: dict[tuple[str, ...], list[tuple[str, str, str]]] = {}
    for each in pending:
        assert each.arguments is not None
        key = (each.spec.code, each.spec.entry, each.arguments.text)
        if key not in jobs:
            jobs[key] = Job(each.spec.code, each.spec.entry, each.arguments.text)
            # A lambda is code of the model's: it shares a child with no other answer.
            lane = key if each.arguments.runs_code else key[:2]
            groups.setdefault(lane, []).append(key)
    results = _results(jobs, list(groups.values()), pool)
    for each in pending:
        assert each.arguments is not None
        result = results[each.spec.code, each.spec.entry, each.arguments.text]
        seconds = getattr(result, "wall_seconds", 0.0)
        one = graded[each.number]
        graded[each.number] = replace(
            one, io=_ran(result, each.spec, policy), seconds=one.seconds + seconds
        )


_Key = tuple[str, str, str]


def _results(
    jobs: dict[_Key, Job], groups: list[list[_Key]], pool: Executor | None
) -> dict[_Key, ExecutionResult | str]:
    """What came of each job, or in words why the sandbox could not run it."""
    from rewards.sandbox import SandboxError, run_groups

    run = run_groups if pool is None else pool.run_groups
    try:
        lists = run([[jobs[key] for key in keys] for keys in groups])
    except (SandboxError, OSError) as error:
        return dict.fromkeys(jobs, str(error))
    found: dict[_Key, ExecutionResult | str] = {}
    for keys, results in zip(groups, lists, strict=True):
        found.update(zip(keys, results, strict=True))
    return found


def _ran(result: ExecutionResult | str, spec: Spec, policy: Policy) -> Grade:
    """The grade of arguments with which our program did what `result` says."""
    if isinstance(result, str):
        return Grade(None, "infrastructure", result)
    if result.outcome == "infrastructure":
        return Grade(None, "infrastructure", result.detail)
    if result.outcome == "timed_out":
        return Grade(
            0.0, "timed_out", f"the program does not end on these arguments: {result.detail}"
        )
    if spec.raises is not None:
        if result.outcome == "raised" and result.error_type == spec.raises:
            return RIGHT
        return wrong("the call does not raise the exception asked for")
    if result.outcome == "raised":
        return wrong(f"the call raises {result.error_type}")
    if result.outcome != "returned":
        return wrong(f"the call does not return: {result.outcome}")
    if result.value is None:
        return wrong(f"the call returns a value without a text: {result.unrepresentable}")
    try:
        right = same_value(result.value, spec.output, policy)
    except Refused as refused:
        return wrong(str(refused))
    return RIGHT if right else wrong("the call returns another value")


# ---------------------------------------------------------------------------------------------
# Unit tests


def _run_tests(
    pending: list[_Pending], graded: list[Graded], policy: Policy, pool: Executor | None
) -> None:
    from rewards.sandbox import SandboxError
    from rewards.unittests import grade_tests_all

    try:
        found = grade_tests_all([(each.spec, each.completion) for each in pending], pool=pool)
    except SandboxError as error:
        for each in pending:
            lost = Grade(None, "infrastructure", str(error))
            graded[each.number] = replace(graded[each.number], tests=lost)
        return
    for each, one in zip(pending, found, strict=True):
        score, status = one.score, one.status
        if policy.tests == "all" and one.all_passed is not None:
            # A test that failed decides, also where another was lost.
            score = float(one.all_passed)
            status = "wrong" if status == "infrastructure" else status
        graded[each.number] = replace(
            graded[each.number],
            tests=Grade(score, status, one.reason),
            format=float(one.well_formed),
            seconds=one.seconds,
        )
