"""The rules again, from the rows alone: whether every program meets the constraint that its rows name.

Covers a finished dataset: constraint from the columns, program from the code, executions from the stored
inputs. Rules about all that a program can do (`Rule.over_drawn`) may need inputs that were drawn and not
kept; how far the stored ones show them is told apart. Does not compare outputs (`report.verify`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rewards.row import Row
from rewards.sandbox import SandboxPool
from synth.catalogue import catalogue
from synth.constraints import Constraint, Structure, rules_of, unmet, violations
from synth.errors import ProgramRejected
from synth.executions import examine, output_text, run_traced
from synth.source import Source, read
from synth.traces import Trace


@dataclass(frozen=True)
class Recheck:
    """What came of checking every program of a dataset again."""

    rows: int
    programs: int
    rows_meeting: int
    """Rows whose program breaks no rule."""
    broken: tuple[tuple[str, int], ...]
    """(rule, programs that break it), most frequent first."""
    not_shown: tuple[tuple[str, int], ...]
    """(rule, programs whose stored inputs alone do not show it), for rules over all drawn inputs."""
    examples: tuple[str, ...] = ()
    """Up to ten programs that break a rule, with what was found."""

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "rows": self.rows,
            "programs": self.programs,
            "rows_meeting": self.rows_meeting,
            "broken": dict(self.broken),
            "not_shown_by_stored_inputs": dict(self.not_shown),
            "examples": list(self.examples),
        }

    def text(self) -> str:
        """A line of result, and one per rule."""
        lines = [
            f"rules checked again: {self.rows_meeting:,} of {self.rows:,} rows meet their constraint"
            f" ({self.programs:,} programs)"
        ]
        lines += [f"  broken: {rule} by {count:,} programs" for rule, count in self.broken]
        lines += [
            f"  {rule}: {count:,} programs need inputs that were drawn and not kept"
            for rule, count in self.not_shown
        ]
        return "\n".join([*lines, *(f"  {example}" for example in self.examples)])


def recheck(rows: Iterable[Row], *, workers: int | None = None) -> Recheck:
    """Check every program of `rows` against the constraint in its columns.

    `workers`: processes side by side, >= 1, default all cores. Raises `SandboxError` when there is no
    sandbox at all.
    """
    programs: dict[str, list[Row]] = {}
    for row in rows:
        programs.setdefault(row.program_id, []).append(row)
    broken: Counter[str] = Counter()
    not_shown: Counter[str] = Counter()
    examples: list[str] = []
    meeting = 0
    with SandboxPool(size=workers) as sandbox:
        for program_id, group in programs.items():
            wrong, open_rules = _check(sandbox, group)
            broken.update({rule for rule, _ in wrong})
            not_shown.update(open_rules)
            meeting += 0 if wrong else len(group)
            if wrong and len(examples) < 10:
                examples.append(f"{program_id}: {wrong[0][0]}: {wrong[0][1]}")
    return Recheck(
        rows=sum(map(len, programs.values())),
        programs=len(programs),
        rows_meeting=meeting,
        broken=tuple(broken.most_common()),
        not_shown=tuple(not_shown.most_common()),
        examples=tuple(examples),
    )


def constraint_of(row: Row) -> Constraint:
    """What the row's program was asked for, from its columns alone."""
    return Constraint(catalogue().get(row.operation), row.level, Structure.parse(row.structure))


def source_of(row: Row) -> Source:
    """The row's program with its call. Raises `ProgramRejected` if it is none."""
    return read(f"{row.code}print({row.entry}({row.args}))\n")


def _check(sandbox: SandboxPool, rows: Sequence[Row]) -> tuple[list[tuple[str, str]], list[str]]:
    """(rules broken with details, rules that the stored inputs alone do not show) of one program."""
    try:
        constraint, source = constraint_of(rows[0]), source_of(rows[0])
    except ProgramRejected as rejected:
        return [(rejected.rule, rejected.detail)], []
    wrong = [(v.rule, v.detail) for v in violations(constraint, source, first=False)]
    inputs = list(dict.fromkeys(row.args for row in rows))
    results = run_traced(sandbox, rows[0].code, rows[0].entry, inputs)
    traces = [Trace.from_record(rows[0].code, r.record) for r in results if r.record is not None]
    outputs = [output_text(result) for result in results]
    shown = examine(sandbox, source, constraint.operation, inputs, traces, outputs)
    wide = {rule.name for rule in rules_of(constraint) if rule.over_drawn}
    found = unmet(constraint, source, shown)
    wrong += [(v.rule, v.detail) for v in found if v.rule not in wide]
    return wrong, [v.rule for v in found if v.rule in wide]
