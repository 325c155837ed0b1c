"""Specs and completions in files: what `synth grade` and `synth audit` read, and what a grade looks like.

Specs are lines `{"id": …, "spec": {…} or "JSON text"}` (rows of our datasets are such lines), spec
objects with an `id` of their own, or a dataset folder. Completions are lines `{"id": …, "completion": …}`
in any form that `rewards.answers.text_of` reads; a line may hold its own `spec`. Other keys are passed
over. Every malformed line is named by file and line. Covers reading, matching and figures over all.
Does not cover grading (`rewards.grading`) nor printing (`commands.grade`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewards.row import Spec, SpecError
from synth.errors import DataError, closest

if TYPE_CHECKING:
    from rewards.grades import Grade, Graded, Policy
    from rewards.sandbox.executor import Executor

__all__ = [
    "Answered",
    "Result",
    "Tally",
    "grade_answers",
    "read_completions",
    "read_specs",
    "sandbox",
    "tally",
]

BATCH = 256
"""Completions graded at a time."""
_OTHER_NAMES = ("response", "text", "output", "prediction", "answer", "generation", "completions")


@dataclass(frozen=True)
class Answered:
    """One completion, with the spec that it answers."""

    id: str | int
    spec: Spec
    completion: object
    truncated: bool = False
    """Whether the file says that the server stopped it for its length."""


@dataclass(frozen=True)
class Result:
    """One graded completion."""

    id: str | int
    score: float | None
    """The shaped total, in [0, max]; None if there is none."""
    max: float
    spec: Spec
    graded: Graded

    @property
    def w(self) -> float | None:
        """Share of the white-box answers that are right; None where the row has no questions."""
        return self.graded.w if self.graded.questions else None

    def asked(self) -> list[tuple[str, dict[str, object], Grade]]:
        """Each part that was asked for: `io`, `tests` or `question`, where it asks, and its grade."""
        parts: list[tuple[str, dict[str, object], Grade]] = []
        if self.graded.io is not None:
            parts.append(("io", {}, self.graded.io))
        if self.graded.tests is not None:
            parts.append(("tests", {}, self.graded.tests))
        for question, grade in zip(self.spec.questions, self.graded.questions, strict=True):
            where = ("kind", "line", "visit", "variable", "function", "call")
            asked = {key: getattr(question, key) for key in where}
            known = {key: value for key, value in asked.items() if value is not None}
            parts.append(("question", known, grade))
        return parts

    def to_json(self) -> dict[str, object]:
        """JSON values: the total, the ungated parts, and each grade with its reason."""
        graded = self.graded
        return {
            "id": self.id,
            "score": self.score,
            "max": self.max,
            "status": graded.status,
            "io": graded.io.score if graded.io is not None else None,
            "w": self.w,
            "tests": graded.tests.score if graded.tests is not None else None,
            "grades": [
                {
                    "part": part,
                    **where,
                    "score": grade.score,
                    "status": grade.status,
                    "reason": grade.reason,
                }
                for part, where, grade in self.asked()
            ],
        }


# ---------------------------------------------------------------------------------------------
# Reading


def read_specs(source: str) -> dict[str, Spec]:
    """Id (as text) -> spec, of a file, of standard input (`-`) or of a dataset folder.

    Raises `DataError` for a line that is no spec and for an id that stands twice.
    """
    found: dict[str, Spec] = {}
    places: dict[str, str] = {}
    for where, record in _records(source):
        name = _id(record, where)
        key = str(name)
        if key in found:
            raise DataError(
                f"{where}: id {name!r} has a spec already, in {places[key]}: expected one spec per id"
            )
        found[key] = _spec_in(record, where)
        places[key] = where
    return found


def read_completions(source: str, specs: dict[str, Spec]) -> list[Answered]:
    """The completions of a file or of standard input (`-`), each with its spec.

    A spec in the line itself comes before that of `specs`. Raises `DataError`.
    """
    found = []
    for where, record in _lines(source):
        name = _id(record, where)
        if "completion" not in record:
            near = [key for key in _OTHER_NAMES if key in record]
            hint = f" (rename {near[0]!r})" if near else ""
            raise DataError(f"{where}: field 'completion' is missing{hint}")
        if record.get("spec") is not None:
            spec = _spec(record["spec"], where)
        elif str(name) in specs:
            spec = specs[str(name)]
        elif specs:
            raise DataError(f"{where}: no spec has the id {name!r}{closest(str(name), specs)}")
        else:
            raise DataError(
                f"{where}: no spec for {name!r}: give a file of specs first, or a field 'spec' in the line"
            )
        found.append(Answered(name, spec, record["completion"], _cut(record)))
    if not found:
        raise DataError(f"{_name(source)} holds no completion: expected a JSON object per line")
    return found


def _cut(record: dict[str, Any]) -> bool:
    return record.get("truncated") is True or record.get("finish_reason") == "length"


def _id(record: dict[str, Any], where: str) -> str | int:
    name = record.get("id")
    if isinstance(name, str) or (isinstance(name, int) and not isinstance(name, bool)):
        return name
    given = "is missing" if name is None else f"is a {type(name).__name__}"
    raise DataError(f"{where}: field 'id' {given}; expected text or an integer")


def _spec_in(record: dict[str, Any], where: str) -> Spec:
    if "spec" in record:
        return _spec(record["spec"], where)
    if "task" in record and "schema" in record:
        return _spec({key: value for key, value in record.items() if key != "id"}, where)
    raise DataError(f"{where}: expected a field 'spec', or the keys of a spec beside 'id'")


def _spec(given: object, where: str) -> Spec:
    if not isinstance(given, (str, dict)):
        kind = type(given).__name__
        raise DataError(
            f"{where}: field 'spec' is a {kind}; expected an object or its JSON as text"
        )
    try:
        return Spec.from_json(given)
    except SpecError as error:
        raise DataError(f"{where}: {error}") from None


def _records(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    path = Path(source)
    if source != "-" and (path.is_dir() or path.suffix == ".parquet"):
        from synth.dataset import read_rows

        for row in read_rows(source):
            yield f"{source}, row {row.id}", {"id": row.id, "spec": row.spec}
    else:
        yield from _lines(source)


def _lines(source: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The JSON objects of a file, each with its place in words."""
    name = _name(source)
    try:
        # Bytes, cut at line feeds alone: a string of JSON may hold U+2028 and its like as they are.
        data = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}") from error
    for number, line in enumerate(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: not a JSON object: {error}") from None
        if not isinstance(record, dict):
            raise DataError(f"{where}: a {type(record).__name__}; expected a JSON object")
        yield where, record


def _name(source: str) -> str:
    return "standard input" if source == "-" else source


# ---------------------------------------------------------------------------------------------
# Grading


def sandbox(jobs: int | None) -> AbstractContextManager[Executor | None]:
    """A sandbox of so many processes for a `with` block; None: the one that all callers share."""
    if jobs is None:
        return nullcontext()
    from rewards.sandbox import SandboxPool

    return SandboxPool(jobs)


def grade_answers(
    answers: Sequence[Answered],
    *,
    policy: Policy,
    scale: float | None = None,
    pool: Executor | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Result]:
    """The results in the order of the answers, a batch at a time. `scale` replaces the shapes' maxima."""
    from rewards.grading import grade_all
    from rewards.shapes import maximum, total

    for start in range(0, len(answers), BATCH):
        batch = answers[start : start + BATCH]
        graded = grade_all(
            [(one.spec, one.completion) for one in batch],
            policy=policy,
            pool=pool,
            truncated=[one.truncated for one in batch],
        )
        for one, found in zip(batch, graded, strict=True):
            shape = one.spec.shape
            most = maximum(shape, one.spec, scale=scale)
            yield Result(one.id, total(shape, found, scale=scale), most, one.spec, found)
        if progress is not None:
            progress(start + len(batch))


# ---------------------------------------------------------------------------------------------
# Figures


@dataclass(frozen=True)
class Tally:
    """Figures over all results. Rates are means over specs of the mean over their completions."""

    completions: int
    specs: int
    """Specs in question: those given, and those in the lines of completions."""
    graded_specs: int
    """Specs with a completion that has a score."""
    missing: int
    """Specs without any completion."""
    statuses: tuple[tuple[str, int], ...]
    """(status, completions), most frequent first."""
    right: float | None
    """Share of right completions over the graded specs; None without any."""
    right_of_all: float | None
    """The same, where a spec without a completion counts as 0."""
    score: float | None
    """Mean of score / max over the graded specs."""
    score_of_all: float | None

    def text(self) -> str:
        """Plain lines."""
        found = ", ".join(f"{status} {count:,}" for status, count in self.statuses)
        lines = [
            f"{self.completions:,} completions of {self.specs - self.missing:,} specs: {found}"
        ]
        if self.right is None or self.score is None:
            lines.append("no completion has a score")
        else:
            lines.append(
                f"right {self.right:.1%}, mean score {self.score:.1%} of the maximum"
                f" (over {self.graded_specs:,} specs with a score)"
            )
        if self.missing:
            lines.append(f"{self.missing:,} without a completion")
        if self.missing and self.right_of_all is not None and self.score_of_all is not None:
            lines.append(
                f"right {self.right_of_all:.1%}, mean score {self.score_of_all:.1%} of the maximum"
                f" (over {self.graded_specs + self.missing:,} specs, those without counted as 0)"
            )
        return "\n".join(lines)


def tally(results: Sequence[Result], specs: dict[str, Spec]) -> Tally:
    """Figures over all results; `specs` are those that were to be answered."""
    by_spec: dict[str, list[Result]] = {}
    for one in results:
        by_spec.setdefault(str(one.id), []).append(one)
    right: list[float] = []
    scores: list[float] = []
    for ones in by_spec.values():
        scored = [(one, one.score) for one in ones if one.score is not None]
        if scored:
            right.append(sum(one.graded.status == "right" for one, _ in scored) / len(scored))
            scores.append(sum(score / one.max for one, score in scored) / len(scored))
    missing = len(specs.keys() - by_spec.keys())
    statuses = Counter(one.graded.status for one in results)
    count, everything = len(right), len(right) + missing
    return Tally(
        completions=len(results),
        specs=len(by_spec) + missing,
        graded_specs=count,
        missing=missing,
        statuses=tuple(statuses.most_common()),
        right=sum(right) / count if count else None,
        right_of_all=sum(right) / everything if everything else None,
        score=sum(scores) / count if count else None,
        score_of_all=sum(scores) / everything if everything else None,
    )
