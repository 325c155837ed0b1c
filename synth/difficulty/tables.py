"""Figures over labels: histogram of pass rates before and after, per level, per operation.

Covers the records, their JSON and their text. Pass rates of rows whose sampling stopped early are those of
the completions that were drawn; measure with `--no-early-stop` where the histogram itself is wanted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rewards.row import Row
from synth.difficulty.labels import Label
from synth.difficulty.stopping import KEPT

__all__ = ["Figures", "Group", "compute"]

BINS = ("0 %", *(f"{low + 1}-{low + 10} %" for low in range(0, 100, 10)))
BAR_WIDTH = 40
SHOWN_OPERATIONS = 12


@dataclass(frozen=True)
class Group:
    """Rows that share a level or an operation."""

    name: str
    rows: int
    measured: int
    mean_pass_rate: float | None
    """Over the measured rows; None if there are none."""
    kept: int


@dataclass(frozen=True)
class Figures:
    """What a measurement found."""

    rows: int
    verdicts: dict[str, int]
    """Verdict -> rows, most frequent first."""
    statuses: dict[str, int]
    """Status -> completions of the evaluator, most frequent first."""
    before: tuple[int, ...]
    """Measured rows per bin of `BINS`."""
    after: tuple[int, ...]
    """Those of them that are kept."""
    levels: tuple[Group, ...]
    operations: tuple[Group, ...]
    drawn: int
    """Completions of the evaluator."""
    full: int
    """Completions that `n` for each measured row would have been."""
    same: int
    """Rows with three or more completions that are all one text."""
    with_three: int
    """Rows with three or more completions."""

    @property
    def saved(self) -> float:
        """Share of completions that stopping early has spared, in [0, 1]."""
        return 1 - self.drawn / self.full if self.full else 0.0

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        data = asdict(self)
        data["before"] = dict(zip(BINS, self.before, strict=True))
        data["after"] = dict(zip(BINS, self.after, strict=True))
        return {**data, "saved": round(self.saved, 4)}

    def text(self) -> str:
        """Tables for a terminal."""
        parts = [
            _counts("verdict", self.verdicts, "rows"),
            _counts("completion", self.statuses, "completions"),
            _histogram(self.before, self.after),
            _groups("level", self.levels),
            _groups("operation", self.operations[:SHOWN_OPERATIONS]),
        ]
        if len(self.operations) > SHOWN_OPERATIONS:
            parts.append(f"… {len(self.operations)} operations in all (--json has them)")
        if self.drawn < self.full:
            parts.append(
                f"{self.drawn:,} completions drawn; stopping early spared {self.saved:.0%} of"
                f" {self.full:,}"
            )
        return "\n\n".join(part for part in parts if part)


def compute(rows: Sequence[Row], labels: Sequence[Label], n: int) -> Figures:
    """Figures of `rows` with their `labels`, in the same order; `n` is that of the bar."""
    pairs = list(zip(rows, labels, strict=True))
    measured = [label for label in labels if label.measured]
    three = [label for label in measured if len(label.rollouts) >= 3]
    statuses = Counter(rollout.status for label in labels for rollout in label.rollouts)
    operations = _grouped(pairs, lambda row: row.operation)
    return Figures(
        rows=len(rows),
        verdicts=dict(Counter(label.verdict for label in labels).most_common()),
        statuses=dict(statuses.most_common()),
        before=_binned(measured),
        after=_binned([label for label in measured if label.verdict == KEPT]),
        levels=_grouped(pairs, lambda row: row.level),
        operations=tuple(sorted(operations, key=lambda group: (-group.rows, group.name))),
        drawn=sum(len(label.rollouts) for label in labels),
        full=n * len(measured),
        same=sum(label.same for label in three),
        with_three=len(three),
    )


def _grouped(pairs: Iterable[tuple[Row, Label]], key: Callable[[Row], Any]) -> tuple[Group, ...]:
    groups: dict[Any, list[Label]] = {}
    for row, label in pairs:
        groups.setdefault(key(row), []).append(label)
    found = []
    for name, labels in sorted(groups.items()):
        rates = [label.pass_rate for label in labels if label.pass_rate is not None]
        mean = round(sum(rates) / len(rates), 4) if rates else None
        kept = sum(label.verdict == KEPT for label in labels)
        found.append(Group(str(name), len(labels), len(rates), mean, kept))
    return tuple(found)


def _binned(labels: Iterable[Label]) -> tuple[int, ...]:
    counts = [0] * len(BINS)
    for label in labels:
        # In whole numbers: 3 of 10 belongs to the bin that ends at 30 %.
        counts[-(-10 * label.passes // len(label.rollouts)) if label.rollouts else 0] += 1
    return tuple(counts)


def _counts(name: str, counts: dict[str, int], unit: str) -> str:
    if not counts:
        return ""
    width = max(len(name), *map(len, counts))
    lines = [f"{key:<{width}}  {count:>9,}" for key, count in counts.items()]
    return "\n".join([f"{name:<{width}}  {unit:>9}", *lines])


def _histogram(before: Sequence[int], after: Sequence[int]) -> str:
    if not any(before):
        return ""
    scale = BAR_WIDTH / max(before)
    lines = [f"{'pass rate':<9}  {'before':>7}  {'after':>7}"]
    for name, all_rows, kept in zip(BINS, before, after, strict=True):
        drawn = "#" * round(kept * scale) + "." * (round(all_rows * scale) - round(kept * scale))
        lines.append(f"{name:<9}  {all_rows:>7,}  {kept:>7,}  {drawn}".rstrip())
    return "\n".join(lines)


def _groups(name: str, groups: Sequence[Group]) -> str:
    if not groups:
        return ""
    width = max(len(name), *(len(group.name) for group in groups))
    lines = [f"{name:<{width}}  {'rows':>6}  {'measured':>8}  {'mean rate':>9}  {'kept':>6}"]
    for group in groups:
        rate = "-" if group.mean_pass_rate is None else f"{group.mean_pass_rate:.0%}"
        lines.append(
            f"{group.name:<{width}}  {group.rows:>6,}  {group.measured:>8,}  {rate:>9}"
            f"  {group.kept:>6,}"
        )
    return "\n".join(lines)
