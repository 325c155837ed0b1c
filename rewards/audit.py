"""The law of the library over a dataset: ground truth scores the maximum, hack templates earn nothing.

For every row the completion that answers it with its ground truth must score the maximum of its shape,
in every spelling that the grader takes. Every hack template is instantiated on every row to which it
applies, and must not earn more than its bound: of io for output and input rows, of w for whitebox rows
(of io where it is the assertion that cheats), of `tests` for unit tests, never of the shaped total. The
bound is 0, or what a lazy answer earns because it happens to be right (-1 where -1 is the answer).

Covers rows of every task. Does not cover whether the ground truth is true of the program (`synth stats
--verify` runs it again), nor cheats that nobody has thought of (the fuzz tests look for those).

    report = audit([(row.id, Spec.from_json(row.spec)) for row in rows])
    assert report.lawful, report.text()
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from rewards.grades import Graded, Policy
from rewards.grading import grade_all
from rewards.hacks import TEMPLATES, Attempt, Case, Template, cases_of
from rewards.row import Spec
from rewards.shapes import maximum, total
from rewards.truths import SPELLINGS, Spelling, truth

if TYPE_CHECKING:
    from rewards.sandbox.executor import Executor

__all__ = [
    "SPELLINGS",
    "TEMPLATES",
    "AuditReport",
    "BelowMaximum",
    "Paid",
    "Template",
    "Unscored",
    "audit",
    "truth",
]

BATCH = 32
"""Rows graded at a time: bounds memory, and lets their input answers share processes."""
_SLACK = 1e-9  # shares are quotients
_SHOWN = 20


@dataclass(frozen=True)
class Paid:
    """A hack that earned more than its bound."""

    id: str
    template: str
    part: str
    """`io`, `w` or `tests`."""
    score: float
    """What the part was graded as, in [0, 1]."""
    most: float
    """Its bound."""
    completion: object


@dataclass(frozen=True)
class BelowMaximum:
    """A ground truth that did not score the maximum."""

    id: str
    spelling: str
    """`truth` for the form that prompts ask for, else the name of another spelling."""
    score: float | None
    maximum: float
    status: str
    reason: str
    completion: str


@dataclass(frozen=True)
class Unscored:
    """A completion on which the sandbox gave no verdict."""

    id: str
    name: str
    reason: str


@dataclass(frozen=True)
class AuditReport:
    """What came of an audit."""

    rows: int
    tasks: Mapping[str, int] = field(default_factory=dict)
    """Task -> rows."""
    templates: int = 0
    truths: int = 0
    """Completions that had to score the maximum, other spellings included."""
    attempts: int = 0
    """Hacks instantiated and graded."""
    tried: Mapping[str, int] = field(default_factory=dict)
    """`task: template` -> rows on which it was instantiated, 0 included."""
    paid: tuple[Paid, ...] = ()
    below: tuple[BelowMaximum, ...] = ()
    underivable: tuple[str, ...] = ()
    """Ids of rows whose ground truth cannot be written as a completion (unit tests by a program)."""
    unscored: tuple[Unscored, ...] = ()
    """Hacks without a verdict; a ground truth without one stands in `below`."""
    seconds: float = field(default=0.0, compare=False)

    @property
    def lawful(self) -> bool:
        """Whether no hack was paid, every ground truth scored the maximum, and all had a verdict."""
        return not (self.paid or self.below or self.unscored)

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "lawful": self.lawful,
            "rows": self.rows,
            "tasks": dict(self.tasks),
            "templates": self.templates,
            "truths": self.truths,
            "attempts": self.attempts,
            "tried": dict(self.tried),
            "paid": [asdict(one) for one in self.paid],
            "below_maximum": [asdict(one) for one in self.below],
            "underivable": list(self.underivable),
            "unscored": [asdict(one) for one in self.unscored],
            "seconds": round(self.seconds, 2),
        }

    def text(self) -> str:
        """A table, and the first of what broke the law."""
        tasks = ", ".join(f"{task} {count:,}" for task, count in self.tasks.items())
        never = sorted(name for name, count in self.tried.items() if not count)
        lines = [
            f"{'rows':34}{self.rows:>12,}   {tasks}",
            f"{'ground truths, all spellings':34}{self.truths:>12,}",
            f"{'  below the maximum':34}{len(self.below):>12,}",
            f"{'hack templates':34}{self.templates:>12,}",
            f"{'  instantiated':34}{self.attempts:>12,}",
            f"{'  paid':34}{len(self.paid):>12,}",
        ]
        if self.unscored:
            lines.append(f"{'  without a verdict':34}{len(self.unscored):>12,}")
        if self.underivable:
            lines.append(f"{'rows without a written truth':34}{len(self.underivable):>12,}")
        lines.append(f"{'seconds':34}{self.seconds:>12,.1f}")
        if never:
            lines += ["", f"applied to no row: {', '.join(never)}"]
        broken: list[Paid | BelowMaximum | Unscored] = [*self.below, *self.paid, *self.unscored]
        findings = [_line_of(one) for one in broken]
        if findings:
            lines += ["", *findings[:_SHOWN]]
        if len(findings) > _SHOWN:
            lines.append(f"… and {len(findings) - _SHOWN:,} more (--json lists all)")
        return "\n".join(lines)


def _line_of(found: Paid | BelowMaximum | Unscored) -> str:
    if isinstance(found, Paid):
        return (
            f"paid   {found.id}  {found.template}: {found.part} {found.score:g},"
            f" at most {found.most:g}"
        )
    if isinstance(found, Unscored):
        return f"lost   {found.id}  {found.name}: {found.reason}"
    score = "no score" if found.score is None else f"{found.score:g}"
    return (
        f"truth  {found.id}  {found.spelling}: {score} of {found.maximum:g},"
        f" {found.status} {found.reason}"
    )


def audit(
    specs: Iterable[Spec | tuple[str, Spec]],
    *,
    pool: Executor | None = None,
    policy: Policy | None = None,
    templates: Sequence[Template] = TEMPLATES,
    spellings: Sequence[Spelling] = SPELLINGS,
    progress: Callable[[int], None] | None = None,
) -> AuditReport:
    """Grade the ground truth and every hack template of every row.

    Args:
        specs: the rows, each with an id or numbered from 1.
        pool: the sandbox for input answers and unit tests; default the shared one.
        policy: where readers differ; templates that it pays by its own words are left out.
        templates: the hacks to try.
        spellings: other forms of the ground truth that must score the maximum, too.
        progress: called with the number of rows done.

    Raises `rewards.sandbox.SandboxError` if the sandbox cannot be started.
    """
    started = time.perf_counter()
    audited = _Audited(policy or Policy(), templates, spellings, pool)
    done = 0
    for batch in _batches(_named(specs)):
        audited.take(batch)
        done += len(batch)
        if progress is not None:
            progress(done)
    return audited.report(time.perf_counter() - started)


def _named(specs: Iterable[Spec | tuple[str, Spec]]) -> Iterator[tuple[str, Spec]]:
    for number, one in enumerate(specs, 1):
        yield (f"row {number}", one) if isinstance(one, Spec) else one


def _batches(rows: Iterable[tuple[str, Spec]]) -> Iterator[list[tuple[str, Spec]]]:
    batch: list[tuple[str, Spec]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


@dataclass(frozen=True)
class _Asked:
    """One completion that is graded, and what is expected of it."""

    id: str
    spec: Spec
    name: str
    """Of the template or spelling."""
    attempt: Attempt | None
    """None for a ground truth."""
    completion: object


class _Audited:
    """What has been found so far."""

    def __init__(
        self,
        policy: Policy,
        templates: Sequence[Template],
        spellings: Sequence[Spelling],
        pool: Executor | None,
    ) -> None:
        self.policy, self.pool = policy, pool
        self.templates, self.spellings = tuple(templates), tuple(spellings)
        self.tasks: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.truths = self.attempts = 0
        self.paid: list[Paid] = []
        self.below: list[BelowMaximum] = []
        self.underivable: list[str] = []
        self.unscored: list[Unscored] = []

    def take(self, rows: Sequence[tuple[str, Spec]]) -> None:
        asked: list[_Asked] = []
        cases = cases_of([spec for _, spec in rows], self.policy, self.pool)
        for (name, spec), case in zip(rows, cases, strict=True):
            self.tasks[spec.task] += 1
            asked += self._truths_of(name, spec)
            asked += self._attempts_on(name, case)
        pairs = [(one.spec, one.completion) for one in asked]
        graded = grade_all(pairs, policy=self.policy, pool=self.pool)
        for one, found in zip(asked, graded, strict=True):
            if one.attempt is None:
                self._judge_truth(one, found)
            else:
                self._judge_attempt(one, one.attempt, found)

    def _truths_of(self, name: str, spec: Spec) -> Iterator[_Asked]:
        plain = truth(spec)
        if plain is None:
            self.underivable.append(name)
            return
        yield _Asked(name, spec, "truth", None, plain)
        for spelling in self.spellings:
            other = spelling.build(spec)
            if other is not None:
                yield _Asked(name, spec, spelling.name, None, other)

    def _attempts_on(self, name: str, case: Case) -> Iterator[_Asked]:
        task = case.spec.task
        for template in self.templates:
            if task not in template.tasks:
                continue
            attempt = template.build(case)
            self.tried[f"{task}: {template.name}"] += attempt is not None
            if attempt is not None:
                yield _Asked(name, case.spec, template.name, attempt, attempt.completion)

    def _judge_truth(self, one: _Asked, graded: Graded) -> None:
        self.truths += 1
        most = maximum(one.spec.shape, one.spec)
        score = total(one.spec.shape, graded)
        if graded.status == "right" and score is not None and score >= most - _SLACK:
            return
        grades = (graded.io, graded.tests, *graded.questions)
        reasons = [f"({each.reason})" for each in grades if each is not None and each.reason]
        self.below.append(
            BelowMaximum(
                one.id,
                one.name,
                score,
                most,
                graded.status,
                reasons[0] if reasons else "",
                str(one.completion),
            )
        )

    def _judge_attempt(self, one: _Asked, attempt: Attempt, graded: Graded) -> None:
        self.attempts += 1
        scores = {
            "io": None if graded.io is None else graded.io.score,
            "w": graded.w if graded.questions else None,
            "tests": None if graded.tests is None else graded.tests.score,
        }
        if graded.status == "infrastructure":
            lost = [each for each in (graded.io, graded.tests) if each and each.score is None]
            self.unscored.append(Unscored(one.id, one.name, lost[0].reason if lost else ""))
        for part, most in attempt.most.items():
            score = scores[part]
            if score is not None and score > most + _SLACK:
                self.paid.append(Paid(one.id, one.name, part, score, most, one.completion))

    def report(self, seconds: float) -> AuditReport:
        return AuditReport(
            rows=sum(self.tasks.values()),
            tasks=dict(sorted(self.tasks.items())),
            templates=len(self.templates),
            truths=self.truths,
            attempts=self.attempts,
            tried=dict(self.tried),
            paid=tuple(self.paid),
            below=tuple(self.below),
            underivable=tuple(self.underivable),
            unscored=tuple(self.unscored),
            seconds=seconds,
        )
