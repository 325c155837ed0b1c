"""Reward callables for rows of the tasks output, input, whitebox and unittest.

    GRPOTrainer(reward_funcs=[rewards.whitebox.reward], ...)        # or on the command line:
    trl grpo --reward_funcs rewards.whitebox.reward ...

`reward` is called by keyword with `completions` and the dataset column `spec` (JSON text or object,
one per row) and returns one number per row, or None for a row without a score. `reward_async` is its
`async def` form; `io`, `w` and `format` are the ungated parts, for those who weigh them by themselves.
`Reward` makes others: another part, scale, policy, or way to abstain. `score` grades one completion.

Importing this module loads next to nothing; the grader is loaded by the first call. All callables can
be pickled, may be called from any thread, and install no signal handlers.

Not covered: trainers that call with another signature (`rewards.adapters`).
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from `typing`: trainers import this in every worker
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rewards.grades import Graded, Policy
    from rewards.row import Spec
    from rewards.sandbox.executor import Executor

__all__ = [
    "ABSTAIN",
    "METRIC_KEYS",
    "PARTS",
    "Reward",
    "Unscored",
    "format",
    "io",
    "metrics",
    "read_spec",
    "reward",
    "reward_async",
    "score",
    "w",
]

METRIC_KEYS = (
    *("score", "io", "w", "w_right", "w_total", "tests", "format", "unscored", "timed_out"),
    "seconds",
)
"""The keys of what `score` returns, always all of them.

Without questions `w_total` is 0 and `w` is io, as the shapes count it: a mean of `w` is one over the
rows with a `w_total` above 0.
"""
PARTS = ("total", "io", "w", "tests", "format")
"""What a `Reward` may pay: the shaped total, or one part as it was graded."""
ABSTAIN = ("none", "zero", "raise")
"""What a row without a score gets: None, 0.0, or the exception `Unscored`."""


class Unscored(RuntimeError):
    """A completion has no score, and the caller asked to be told so: says which row and why."""


class Reward:
    """A reward callable: lists in, list out.

    Args:
        part: one of `PARTS`.
        scale: the maximum of the total, such as 1.0 or 2.0; default that of the row's shape.
        policy: where a strict and a lenient reader differ; default `rewards.grades.Policy()`.
        abstain: one of `ABSTAIN`.
        name: `__name__`, under which trainers log; must be unique among the rewards of a run.

    Raises ValueError for a word that is not one of those.
    """

    def __init__(
        self,
        part: str = "total",
        *,
        scale: float | None = None,
        policy: Policy | None = None,
        abstain: str = "none",
        name: str | None = None,
    ) -> None:
        for label, given, known in (("part", part, PARTS), ("abstain", abstain, ABSTAIN)):
            if given not in known:
                raise ValueError(f"{label}: expected one of {', '.join(known)}, got {given!r}")
        if scale is not None and not 0 < scale < float("inf"):
            raise ValueError(f"scale: expected a positive number such as 1.0, got {scale!r}")
        self.part = part
        self.scale = scale
        self.policy = policy
        self.abstain = abstain
        self.__name__ = name or ("whitebox" if part == "total" else f"whitebox_{part}")

    def __repr__(self) -> str:
        return f"<reward {self.__name__}>"

    def __call__(
        self,
        completions: Sequence[object] = (),
        spec: object = None,
        *,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        """One number per completion. Other columns of the dataset are passed over.

        `finish_reason` or `is_truncated`, where a trainer gives them, tell an answer that was cut from
        one that is missing. Raises ValueError if `spec` is not given or has another length,
        `rewards.SpecError` if no row of the batch has a spec that can be read.
        """
        specs = _specs(spec, len(completions))
        graded = _grade(specs, list(completions), self.policy, _cut(columns, len(completions)))
        paid = [
            self.pay(one, each, number)
            for number, (one, each) in enumerate(zip(specs, graded, strict=True))
        ]
        if self.part == "total" and (log_extra or log_metric):
            _log(self.__name__, specs, graded, paid, log_extra, log_metric)
        return paid

    def pay(self, spec: Spec | str | None, graded: Graded, number: int = 0) -> float | None:
        """What one graded completion earns; None, 0.0 or `Unscored` where it has no score."""
        found: float | None = None
        if isinstance(spec, str) or spec is None:
            pass
        elif self.part == "total":
            from rewards.shapes import total

            found = total(spec.shape, graded, scale=self.scale)
        elif not graded.unscored:
            found = _parts(graded)[self.part]
        if found is None and self.abstain == "raise":
            why = spec if isinstance(spec, str) else _reason(graded)
            raise Unscored(f"completion {number} has no {self.part} score: {why}")
        return 0.0 if found is None and self.abstain == "zero" else found


def score(
    completion: object,
    spec: object,
    *,
    policy: Policy | None = None,
    scale: float | None = None,
    pool: Executor | None = None,
    truncated: bool = False,
) -> dict[str, float]:
    """Grade one completion: all `METRIC_KEYS`, each a finite float.

    `score` is the shaped total, `unscored` 1.0 if there is none (then `score` is 0.0). `spec` is JSON
    text, the object decoded from one, or a `Spec`. Raises `rewards.SpecError`.
    """
    from rewards.grading import Policy, grade

    read = read_spec(spec)
    graded = grade(read, completion, policy=policy or Policy(), pool=pool, truncated=truncated)
    return metrics(read, graded, scale=scale)


def metrics(spec: Spec, graded: Graded, *, scale: float | None = None) -> dict[str, float]:
    """The record of metrics of one graded completion; a part that was not asked for is 0.0."""
    from rewards.shapes import total

    shaped = total(spec.shape, graded, scale=scale)
    parts = _parts(graded)
    return {
        "score": shaped or 0.0,
        "io": parts["io"] or 0.0,
        "w": parts["w"] or 0.0,
        "w_right": float(graded.w_right),
        "w_total": float(graded.w_total),
        "tests": parts["tests"] or 0.0,
        "format": graded.format,
        "unscored": float(shaped is None),
        "timed_out": float(graded.timed_out),
        "seconds": graded.seconds,
    }


def _parts(graded: Graded) -> dict[str, float | None]:
    return {
        "io": graded.io.score if graded.io is not None else None,
        "w": graded.w,
        "tests": graded.tests.score if graded.tests is not None else None,
        "format": graded.format,
    }


def _asked(graded: Graded) -> dict[str, float | None]:
    """The parts for figures: None where a row asks for nothing of the kind, so that no mean counts it."""
    return {**_parts(graded), "w": graded.w if graded.questions else None}


def _reason(graded: Graded) -> str:
    for grade in (graded.io, graded.tests):
        if grade is not None and grade.score is None:
            return f"{grade.status}: {grade.reason}"
    return "not_applicable: the row asks for nothing of the kind"


# ---------------------------------------------------------------------------------------------
# Rows


_CACHE_SIZE = 4096
_read_texts: dict[str, Spec] = {}


def read_spec(spec: object) -> Spec:
    """The checked spec of a row, which is JSON text, the object decoded from one, or a `Spec`.

    JSON texts are decoded once, as a group of completions shares its row. Raises `rewards.SpecError`.
    """
    from rewards.row import Spec, SpecError

    if isinstance(spec, Spec):
        return spec
    if isinstance(spec, str):
        known = _read_texts.get(spec)
        if known is None:
            known = Spec.from_json(spec)
            if len(_read_texts) >= _CACHE_SIZE:
                _read_texts.clear()
            _read_texts[spec] = known
        return known
    if isinstance(spec, dict):
        return Spec.from_json(spec)
    raise SpecError(f"spec: got {type(spec).__name__}, expected a JSON text or an object")


def _specs(given: object, count: int) -> list[Spec | str | None]:
    """One spec per completion; None where a row has none, a text that says why it is unreadable."""
    from rewards.row import Spec, SpecError

    if given is None:
        raise ValueError(
            "the column 'spec' is missing: the reward needs it for every row. Keep it in the dataset"
            " (TRL: remove_unused_columns=False) and call by keyword"
        )
    if isinstance(given, (str, dict, Spec)):
        given = [given] * count
    each: list[Any] = list(given)  # type: ignore[call-overload]
    if len(each) != count:
        raise ValueError(f"spec: {len(each)} rows for {count} completions, expected one for each")
    found: list[Spec | str | None] = []
    first: SpecError | None = None
    for one in each:
        try:
            found.append(None if one is None or one == "" else read_spec(one))
        except SpecError as error:
            first = first or error
            found.append(str(error))
    if first is not None and not any(isinstance(one, Spec) for one in found):
        raise first
    return found


def _grade(
    specs: list[Spec | str | None],
    completions: list[object],
    policy: Policy | None,
    cut: list[bool],
) -> list[Graded]:
    from rewards.grading import Graded, Policy, grade_all
    from rewards.row import Spec

    asked = [number for number, spec in enumerate(specs) if isinstance(spec, Spec)]
    pairs: Any = [(specs[number], completions[number]) for number in asked]
    found = grade_all(pairs, policy=policy or Policy(), truncated=[cut[n] for n in asked])
    graded = [Graded("")] * len(specs)
    for number, one in zip(asked, found, strict=True):
        graded[number] = one
    return graded


def _cut(columns: Mapping[str, Any], count: int) -> list[bool]:
    """Which completions the trainer says were stopped for their length."""
    for name, means in (("is_truncated", True), ("finish_reason", "length")):
        given = columns.get(name)
        if isinstance(given, (list, tuple)) and len(given) == count:
            return [one == means for one in given]
    return [False] * count


# ---------------------------------------------------------------------------------------------
# Logging


def _log(
    name: str,
    specs: list[Spec | str | None],
    graded: list[Graded],
    paid: list[float | None],
    log_extra: Callable[[str, list[Any]], None] | None,
    log_metric: Callable[[str, float], None] | None,
) -> None:
    """The named parts, for trainers that log: one text or number per completion, and means.

    The mean of a part is over the completions of which it was asked; without any it is not logged.
    """
    from rewards.row import Spec

    if log_extra is not None:
        log_extra(f"{name}_status", [each.status for each in graded])
        for key in ("io", "w", "tests", "format"):
            log_extra(f"{name}_{key}", [_number(_asked(each)[key]) for each in graded])
    if log_metric is None:
        return
    rows: list[dict[str, float | None]] = []
    for spec, each, one in zip(specs, graded, paid, strict=True):
        if isinstance(spec, Spec) and not each.unscored:
            rows.append({**metrics(spec, each), **_asked(each), "score": one or 0.0})
    unscored = len(graded) - len(rows)
    for key in METRIC_KEYS:
        found = [value for row in rows if (value := row[key]) is not None]
        if key == "unscored":
            log_metric(f"{name}/{key}", unscored / len(graded) if graded else 0.0)
        elif found:
            log_metric(f"{name}/{key}", sum(found) / len(found))


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


reward = Reward()
io = Reward("io")
w = Reward("w")
format = Reward("format")


async def reward_async(
    completions: Sequence[object] = (), spec: object = None, **columns: Any
) -> list[float | None]:
    """`reward` for trainers that await: works in a thread, so that the event loop goes on."""
    import asyncio

    return await asyncio.to_thread(reward, completions, spec, **columns)
