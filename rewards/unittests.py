"""Grades of `unittest` tasks: the program in a completion against the tests of its spec.

Covers the three kinds of tests, batches of completions, and the reward callables (`reward`,
`reward_async`, `UnitTestReward`). Does not cover how a program is found in a completion
(`rewards.candidates`), what counts as the expected text or value (`rewards.outputs`), `check` programs
(`rewards.checking`), nor how programs are held in (`rewards.sandbox`).

The candidate runs in the sandbox and nowhere else. It is handed inputs, never what is expected; it says
what it prints and returns, and the host compares. So there is no verdict it could forge, print, exit
with or find, and what it does to `json`, `builtins` or an `__eq__` it does to itself.

- **stdin/stdout** (no `fn_name`): one process for each test. The program must end by itself, or leave
  with status 0 (`sys.exit()`, `os._exit(0)` after flushing). Threads may be used if the program names
  them.
- **calls** (`fn_name`): each line of an input is one argument, as JSON; a dot-free name that class
  `Solution` defines is called as `Solution().name`, and such a program finds the names that LeetCode
  imports. The calls of one candidate may share a process, each in a fresh namespace: whatever a
  program leaves behind there it can only use against itself, since the expected values are not there.
  Values longer than 5,000 characters leave as JSON.
- **`check(candidate)`**: `rewards.checking`.

Not covered: tests that compare arguments changed in place, ListNode and TreeNode arguments, classes
whose methods are called in turn, packages beyond the standard library.

A test is *not applicable* only because of the spec (its input is no JSON, its check fails by itself),
so a completion cannot choose not to be graded. Tests that a program which does nothing would pass (all
expected outputs blank or all `null`) are not applicable.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from rewards.answers import text_of
from rewards.candidates import callable_program, find_program, may_loop
from rewards.cases import Case, Plan, TestPolicy, judged, plan_of
from rewards.checking import Asked, Verdict, run_check
from rewards.rounds import Steps, together
from rewards.row import Spec, SpecError
from rewards.sandbox.jobs import ExecutionResult, Job, Limits

if TYPE_CHECKING:
    from rewards.sandbox.executor import Executor

__all__ = [
    "METRICS",
    "OUTCOMES",
    "TestPolicy",
    "TestsGrade",
    "UnitTestReward",
    "UnscoredError",
    "grade_tests",
    "grade_tests_all",
    "reward",
    "reward_all",
    "reward_async",
]

OUTCOMES = (
    "passed",
    "wrong",  # another output or value, or the check failed
    "raised",  # an exception, or an exit status that is not 0
    "timed_out",
    "memory_exceeded",
    "output_exceeded",
    "killed",  # by a signal, or left without a word
    "unrepresentable",  # returned what is no plain value
    "not_run",  # an earlier test had failed, and the policy stops there
    "infrastructure",  # lost by the sandbox: no verdict
    "not_applicable",  # nothing can be said about this test of this spec
)
"""What can come of one test."""

METRICS = (
    *("score", "io", "w", "w_right", "w_total", "tests", "format", "unscored", "timed_out"),
    "seconds",
)
"""Keys of `UnitTestReward.metrics`, the same for every reward of this package."""

_DEFAULT = TestPolicy()
_BATCH = 256  # completions graded at a time: bounds what is kept of their outputs
_FIRST_PARTS = (1, 3, 12)  # tests run before it is looked whether to go on, if the policy may stop
_THREADS = 8
_THREADING = re.compile(
    r"\b(?:threading|_thread|concurrent|multiprocessing|subprocess|to_thread)\b"
)


@dataclass(frozen=True)
class TestsGrade:
    """What came of the tests of one completion."""

    __test__ = False

    passed: int
    """Tests passed, in [0, total]."""
    total: int
    """Tests that can be judged."""
    status: str
    """`right` (all passed), `wrong`, `no_answer`, `truncated`, `timed_out` (so did the first test that
    was not passed), `infrastructure` (a test was lost), `not_applicable`."""
    reason: str = ""
    """Why not right, in words; without what was expected."""
    seconds: float = 0.0
    """Wall-clock seconds in the sandbox of all runs behind it; shared runs count for each."""
    outcomes: tuple[str, ...] = ()
    """One of `OUTCOMES` for each test, in order; empty without a program."""
    well_formed: bool = False
    """Whether the completion has the form that was asked for."""

    @property
    def score(self) -> float | None:
        """Share of tests passed, in [0, 1]; None if there is no verdict."""
        if self.status in ("infrastructure", "not_applicable") or not self.total:
            return None
        return self.passed / self.total

    @property
    def all_passed(self) -> bool | None:
        """Whether every test is passed; None if there is no verdict.

        One that failed decides, also where another was lost.
        """
        undecided = ("passed", "infrastructure", "not_applicable", "not_run")
        if any(outcome not in undecided for outcome in self.outcomes):
            return False
        return None if self.score is None else self.status == "right"


def grade_tests(
    spec: Spec,
    completion: object,
    *,
    policy: TestPolicy = _DEFAULT,
    pool: Executor | None = None,
    truncated: bool = False,
) -> TestsGrade:
    """The grade of one completion; see `grade_tests_all`."""
    pairs = [(spec, completion)]
    return grade_tests_all(pairs, policy=policy, pool=pool, truncated=[truncated])[0]


def grade_tests_all(
    pairs: Iterable[tuple[Spec, object]],
    *,
    policy: TestPolicy = _DEFAULT,
    pool: Executor | None = None,
    truncated: Sequence[bool] | None = None,
) -> list[TestsGrade]:
    """The grades of many completions, in order. From any thread; no signals.

    Equal programs on equal inputs run once. Raises ValueError for a spec of another task, SandboxError
    if the sandbox does not start; never for anything that a completion holds.

    Args:
        pairs: spec and completion, in any form that `rewards.answers.text_of` takes.
        policy: how to run and compare.
        pool: where to run; default the pool that all callers in this process share.
        truncated: for each completion, whether the server says that it stopped it for its length;
            without a program it then is `truncated` instead of `no_answer`.

    """
    steps = [
        _grading(spec, completion, policy, truncated is not None and truncated[number])
        for number, (spec, completion) in enumerate(pairs)
    ]
    grades: list[TestsGrade] = []
    for start in range(0, len(steps), _BATCH):
        grades += together(steps[start : start + _BATCH], pool)
    return grades


# ---------------------------------------------------------------------------------------------
# One completion


def _grading(spec: Spec, completion: object, policy: TestPolicy, truncated: bool) -> Steps:
    """Steps to the `TestsGrade` of one completion."""
    plan = plan_of(spec)
    total = sum(not case.unusable for case in plan.cases)
    if not total:
        outcomes = ("not_applicable",) * len(plan.cases)
        return TestsGrade(0, 0, "not_applicable", plan.cases[0].unusable, outcomes=outcomes)
    candidate = find_program(text_of(completion), plan.entry)
    if candidate.status != "found":
        status = "truncated" if truncated else candidate.status
        return TestsGrade(0, total, status, candidate.reason)
    code, entry = callable_program(candidate.code, plan.entry, policy.prelude)
    limits = _limits(spec, candidate.code, plan, policy)
    if plan.check is not None:
        verdict = yield from run_check(plan.check, plan.name, Asked(code, entry or "", limits))
        verdicts = [verdict]
    else:
        verdicts = yield from _cases(code, entry, plan.cases, limits, policy)
    return replace(_summary(verdicts), well_formed=candidate.well_formed)


def _cases(
    code: str, entry: str | None, cases: Sequence[Case], limits: Limits, policy: TestPolicy
) -> Generator[list[Job], list[ExecutionResult], list[Verdict]]:
    """Run the usable cases, all at once or in growing parts."""
    verdicts = [
        Verdict("not_applicable" if case.unusable else "not_run", case.unusable) for case in cases
    ]
    usable = [number for number, case in enumerate(cases) if not case.unusable]
    may_stop = policy.stop_at_failure or policy.max_timeouts is not None
    # One by itself first: a call that does not end is best known before others share its process.
    first = _FIRST_PARTS if may_stop else (1,) if entry is not None and may_loop(code) else ()
    for part in _parts(usable, first):
        results = yield [cases[number].job(code, entry, limits) for number in part]
        for number, result in zip(part, results, strict=True):
            verdicts[number] = judged(cases[number], result, policy)
        outcomes = [verdict.outcome for verdict in verdicts]
        if policy.stop_at_failure and any(outcomes[number] != "passed" for number in part):
            break
        if policy.max_timeouts is not None and outcomes.count("timed_out") >= policy.max_timeouts:
            break
    return verdicts


def _parts(numbers: list[int], sizes: Sequence[int]) -> list[list[int]]:
    parts = []
    for size in sizes:
        parts.append(numbers[:size])
        numbers = numbers[size:]
    return [part for part in (*parts, numbers) if part]


def _limits(spec: Spec, code: str, plan: Plan, policy: TestPolicy) -> Limits:
    """The limits of one test: the spec's, else the policy's with room for what is expected."""
    given: dict[str, Any] = dict(spec.limits)
    limits = replace(policy.limits, **given)
    if "output_bytes" not in given:
        limits = replace(limits, output_bytes=max(limits.output_bytes, plan.output_bytes))
    if "processes" not in given and _THREADING.search(code):
        limits = replace(limits, processes=max(limits.processes, _THREADS))
    return limits


def _summary(verdicts: Sequence[Verdict]) -> TestsGrade:
    outcomes = tuple(verdict.outcome for verdict in verdicts)
    total = len(outcomes) - outcomes.count("not_applicable")
    passed = outcomes.count("passed")
    seconds = sum(verdict.seconds for verdict in verdicts)
    if not total:
        status, number = "not_applicable", 0
    elif "infrastructure" in outcomes:
        status, number = "infrastructure", outcomes.index("infrastructure")
    elif passed == total:
        return TestsGrade(passed, total, "right", "", seconds, outcomes)
    else:
        fine = ("passed", "not_applicable")
        number = next(n for n, outcome in enumerate(outcomes) if outcome not in fine)
        status = "timed_out" if outcomes[number] == "timed_out" else "wrong"
    reason = f"test {number + 1} of {len(outcomes)}: {verdicts[number].outcome}"
    if verdicts[number].reason:
        reason += f", {verdicts[number].reason}"
    return TestsGrade(passed, total, status, reason, seconds, outcomes)


# ---------------------------------------------------------------------------------------------
# The reward


OneSpec = Spec | str | dict[str, Any] | None
Specs = Sequence[OneSpec] | OneSpec


@dataclass(frozen=True)
class UnitTestReward:
    """A reward for rows of the task `unittest`, called as TRL calls rewards: keywords in, list out.

    Rows of other tasks, and rows without a verdict under `abstain="none"`, get None. Instances can be
    pickled, and need neither the main thread nor signals.
    """

    scoring: Literal["share", "all"] = "share"
    """The share of tests passed, or 1 for all of them and 0 otherwise."""
    format: float = 0.0
    """Weight of the term for a completion in the asked form, in [0, 1]."""
    scale: float = 1.0
    """The largest reward, > 0."""
    abstain: Literal["none", "zero", "raise"] = "none"
    """What a row without a verdict gets: None, 0.0, or an `UnscoredError` for the whole batch."""
    policy: TestPolicy = _DEFAULT
    name: str = "unittest_reward"
    """Under which a trainer logs it."""

    def __post_init__(self) -> None:
        if self.scoring not in ("share", "all"):
            raise ValueError(f"scoring is {self.scoring!r}, expected 'share' or 'all'")
        if self.abstain not in ("none", "zero", "raise"):
            raise ValueError(f"abstain is {self.abstain!r}, expected 'none', 'zero' or 'raise'")
        if not 0 <= self.format <= 1:
            raise ValueError(f"format is {self.format!r}, expected a number in [0, 1]")
        if not 0 < self.scale < float("inf"):
            raise ValueError(f"scale is {self.scale!r}, expected a number > 0")
        object.__setattr__(self, "__name__", self.name)

    def __call__(
        self,
        completions: Sequence[object],
        spec: Specs = None,
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """The rewards of a batch, in [0, scale].

        Args:
            completions: in any form that `rewards.answers.text_of` takes.
            spec: the column of that name: JSON text, the object decoded from it, or `Spec`; None for
                a row that is none of ours. One alone is for all completions.
            log_extra: takes a column of the table of completions, if the trainer has one.
            log_metric: takes a number to plot, if the trainer does that.

        """
        return self._told(self.grades(completions, spec), log_extra, log_metric)

    async def run_async(
        self,
        completions: Sequence[object],
        spec: Specs = None,
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **_: Any,
    ) -> list[float | None]:
        """`__call__` for an event loop, which stays free meanwhile."""
        import asyncio

        grades = await asyncio.to_thread(self.grades, completions, spec)
        return self._told(grades, log_extra, log_metric)

    def grades(
        self,
        completions: Sequence[object],
        spec: Specs = None,
    ) -> list[TestsGrade | None]:
        """The grade of each completion; None for a row of another task."""
        if isinstance(spec, (str, dict, Spec)):
            spec = [spec] * len(completions)
        if spec is None or len(spec) != len(completions):
            given = "none" if spec is None else str(len(spec))
            raise ValueError(
                f"{self.name}: {len(completions)} completions and {given} specs; the dataset needs a "
                "column 'spec', which the trainer hands over with one entry for each completion"
            )
        grades: list[TestsGrade | None] = []
        pairs: list[tuple[Spec, object]] = []
        places: list[int] = []
        for place, (given_spec, completion) in enumerate(zip(spec, completions, strict=True)):
            read = _spec_of(given_spec)
            grades.append(
                TestsGrade(0, 0, "not_applicable", read) if isinstance(read, str) else None
            )
            if isinstance(read, Spec) and read.task == "unittest":
                pairs.append((read, completion))
                places.append(place)
        for place, grade in zip(places, grade_tests_all(pairs, policy=self.policy), strict=True):
            grades[place] = grade
        return grades

    def value(self, grade: TestsGrade | None) -> float | None:
        """The reward for a grade, in [0, scale], or None."""
        if grade is None:
            return None
        score = grade.score
        if self.scoring == "all":
            score = None if grade.all_passed is None else float(grade.all_passed)
        if score is None:
            return 0.0 if self.abstain == "zero" else None
        return self.scale * ((1 - self.format) * score + self.format * grade.well_formed)

    def metrics(self, grade: TestsGrade) -> dict[str, float]:
        """Named parts of a reward, always all of `METRICS`; what does not concern tests is 0."""
        value = self.value(grade)
        return dict.fromkeys(METRICS, 0.0) | {
            "score": value or 0.0,
            "tests": grade.score or 0.0,
            "format": float(grade.well_formed),
            "unscored": float(grade.score is None),
            "timed_out": float("timed_out" in grade.outcomes),
            "seconds": grade.seconds,
        }

    def _told(
        self,
        grades: Sequence[TestsGrade | None],
        log_extra: Callable[[str, list[Any]], None] | None,
        log_metric: Callable[[str, float], None] | None,
    ) -> list[float | None]:
        ours = [grade for grade in grades if grade is not None]
        values = [self.value(grade) for grade in grades]
        if self.abstain == "raise":
            for place, (grade, value) in enumerate(zip(grades, values, strict=True)):
                if grade is not None and value is None:
                    raise UnscoredError(f"{self.name}: completion {place}: {grade.reason}")
        if log_extra is not None:
            log_extra("unittest_status", [grade and grade.status for grade in grades])
            log_extra("unittest_tests", [grade and grade.score for grade in grades])
        if log_metric is not None and ours:
            rows = [self.metrics(grade) for grade in ours]
            for key in ("tests", "format", "unscored", "timed_out", "seconds"):
                log_metric(f"unittest/{key}", sum(row[key] for row in rows) / len(rows))
        return values


class UnscoredError(RuntimeError):
    """A row has no verdict, and the reward was told to raise then."""


def _spec_of(given: OneSpec) -> Spec | str | None:
    """The spec of a row; a text if it cannot be read, saying why."""
    if given is None or isinstance(given, Spec):
        return given
    try:
        return _spec_in(given) if isinstance(given, str) else Spec.from_json(given)
    except SpecError as error:
        return str(error)


@lru_cache(maxsize=256)
def _spec_in(text: str) -> Spec:
    return Spec.from_json(text)


reward = UnitTestReward()
"""The share of tests passed."""
reward_all = UnitTestReward(
    "all", policy=TestPolicy(stop_at_failure=True), name="unittest_reward_all"
)
"""1 if all tests are passed, else 0; stops at the first failure."""


async def reward_async(
    completions: Sequence[object],
    spec: Specs = None,
    **columns: Any,
) -> list[float | None]:
    """`reward` as a coroutine function, which every version of a trainer takes for one."""
    return await reward.run_async(completions, spec, **columns)
