"""Figures over a dataset: what is in it, how varied it is, and how far lazy guessing gets.

Covers what follows from the rows (`compute`), what needs the programs to run again
(`statement_coverage`, `verify`) and the text for people (`render`). Does not cover the funnel,
which the manifest holds. Input cases, not rows, are counted where a case may stand in two rows (one
per task): a case is a (program, arguments) pair.

A lazy guess answers without executing anything. Each strategy is scored on its own over all cases
whose output is no bool (a coin solves half of those); in a good dataset none solves over 10 %.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from rewards.row import Row
from rewards.values import (
    Unrepresentable,
    ValueTextError,
    canonical,
    parse,
    parse_expression,
    parse_tree,
)
from synth.dedup import ast_shape
from synth.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from rewards.sandbox import ExecutionResult

__all__ = [
    "Coverage",
    "FamilyFigures",
    "LevelFigures",
    "Report",
    "Verification",
    "compute",
    "coverage_in",
    "render",
    "statement_coverage",
    "verify",
]

QUANTILES = (0.10, 0.50, 0.90, 1.00)


@dataclass(frozen=True)
class Coverage:
    """Statements of programs, and how many of them some input of their program executed."""

    statements: int
    executed: int

    @property
    def share(self) -> float:
        return self.executed / self.statements if self.statements else 1.0


@dataclass(frozen=True)
class LevelFigures:
    """One level. Shares are in [0, 1]; quantiles are those of `QUANTILES`."""

    level: int
    rows: int
    share: float
    programs: int
    shapes: int
    """Distinct program trees, names and literals removed (`dedup.ast_shape`)."""
    shape_share: float
    """`shapes` per program."""
    steps: tuple[float, ...]
    """Quantiles of executed statements per case."""
    lines: tuple[float, ...]
    """Quantiles of code lines per program."""


@dataclass(frozen=True)
class FamilyFigures:
    """Operations of one family of the catalogue that occur in the rows."""

    family: str
    seen: int
    catalogue: int
    owners: int
    """Owners of the operations seen."""


@dataclass(frozen=True)
class Report:
    """All figures; every field is a JSON value, see `to_json`."""

    rows: int
    programs: int
    cases: int
    tasks: Mapping[str, int]
    splits: Mapping[str, int]
    input_kinds: Mapping[str, int]
    output_types: Mapping[str, int]
    """Cases by type of output, the most frequent first."""
    levels: tuple[LevelFigures, ...]
    families: tuple[FamilyFigures, ...]
    owners: Mapping[str, int]
    """Rows by owner of the operation, the most frequent first."""
    two_outputs: float
    """Share of programs with at least two distinct outputs over their inputs."""
    three_outputs: float
    bool_outputs: float
    """Share of cases whose output is a bool."""
    lazy_cases: int
    """Cases that the lazy guesses were scored on."""
    lazy: Mapping[str, float]
    """Share of those cases that each strategy solves, the best first."""
    coverage: Coverage | None = None
    """None: not measured."""

    def to_json(self) -> dict[str, object]:
        """JSON object; `coverage` gains its share."""
        data = asdict(self)
        if self.coverage:
            data["coverage"]["share"] = self.coverage.share
        return data


def coverage_in(figures: Mapping[str, object]) -> Coverage | None:
    """The coverage that a pipeline left in a manifest's figures, or None.

    It stands there as `{"coverage": {"statements": n, "executed": m}}`.
    """
    found = figures.get("coverage")
    if not isinstance(found, Mapping):
        return None
    counts = (found.get("statements"), found.get("executed"))
    if not all(isinstance(count, int) for count in counts):
        raise DataError(f"the manifest's coverage is {dict(found)!r}; expected two whole numbers")
    return Coverage(int(found["statements"]), int(found["executed"]))


def _shapes(rows: Sequence[Row]) -> dict[str, str]:
    """Shape of each program text. Raises `DataError` naming the row whose code or call is damaged."""
    shapes: dict[str, str] = {}
    for row in rows:
        try:
            if row.code not in shapes:
                shapes[row.code] = ast_shape(row.code)
            parse_expression(f"f({row.args}\n)")
            row.program_id.encode()
        except (ValueError, SyntaxError, RecursionError, MemoryError) as error:
            raise DataError(f"row {row.id!r}: code or args is damaged: {error}") from error
    return shapes


def compute(rows: Iterable[Row], *, coverage: Coverage | None = None) -> Report:
    """All figures of `rows`; `coverage` comes from the pipeline or from `statement_coverage`."""
    import pandas as pd

    table = tuple(rows)
    cases = _cases(table)
    shapes = _shapes(table)
    frame = pd.DataFrame([_record(row, shapes) for row in table], columns=_RECORD)
    per_case = frame.drop_duplicates(["program_id", "args"])
    # The text of an output does not tell exceptions apart; their names stand in the type.
    answers = per_case.assign(answer=per_case["output_type"] + "\n" + per_case["output"])
    outputs = answers.groupby("program_id")["answer"].nunique()
    asked = [row for row in cases if row.output_type != "bool" and not _raises(row)]
    return Report(
        rows=len(table),
        programs=int(frame["program_id"].nunique()),
        cases=len(cases),
        tasks=_counted(frame["task"]),
        splits=_counted(frame["split"]),
        input_kinds=_counted(per_case["input_kind"]),
        output_types=_counted(per_case["output_type"].replace("", "(raises)")),
        levels=_level_figures(frame),
        families=_family_figures(table),
        owners=_counted(frame["owner"]),
        two_outputs=_mean(count >= 2 for count in outputs),
        three_outputs=_mean(count >= 3 for count in outputs),
        bool_outputs=_mean(row.output_type == "bool" for row in cases),
        lazy_cases=len(asked),
        lazy=_lazy(asked),
        coverage=coverage,
    )


_RECORD = [
    "program_id",
    "args",
    "output",
    "output_type",
    "task",
    "split",
    "level",
    "owner",
    "input_kind",
    "n_steps",
    "n_lines",
    "shape",
]


def _record(row: Row, shapes: Mapping[str, str]) -> tuple[object, ...]:
    return (*(getattr(row, name) for name in _RECORD[:-1]), shapes[row.code])


def _cases(rows: Sequence[Row]) -> list[Row]:
    """One row per (program, arguments), in order of first occurrence."""
    first: dict[tuple[str, str], Row] = {}
    for row in rows:
        first.setdefault((row.program_id, row.args), row)
    return list(first.values())


def _counted(values: pd.Series) -> dict[str, int]:
    counts = Counter(values)
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def _mean(flags: Iterable[bool]) -> float:
    values = list(flags)
    return sum(values) / len(values) if values else 0.0


def _level_figures(frame: pd.DataFrame) -> tuple[LevelFigures, ...]:
    figures = []
    for _, part in frame.groupby("level"):
        programs = part.drop_duplicates("program_id")
        shapes = int(programs["shape"].nunique())
        steps = part.drop_duplicates(["program_id", "args"])["n_steps"].quantile(list(QUANTILES))
        lines = programs["n_lines"].quantile(list(QUANTILES))
        figures.append(
            LevelFigures(
                level=int(part["level"].iloc[0]),
                rows=len(part),
                share=len(part) / len(frame),
                programs=len(programs),
                shapes=shapes,
                shape_share=shapes / len(programs),
                steps=tuple(float(value) for value in steps),
                lines=tuple(float(value) for value in lines),
            )
        )
    return tuple(figures)


def _family_figures(rows: Sequence[Row]) -> tuple[FamilyFigures, ...]:
    from synth.catalogue import catalogue

    known = catalogue()
    seen = {row.operation for row in rows}
    families: dict[str, list[bool]] = {}
    owners: dict[str, set[str]] = {}
    for operation in known.operations:
        occurs = operation.id in seen
        families.setdefault(operation.family, []).append(occurs)
        if occurs:
            owners.setdefault(operation.family, set()).add(operation.owner)
    return tuple(
        FamilyFigures(family, sum(flags), len(flags), len(owners.get(family, ())))
        for family, flags in sorted(families.items())
    )


# ------------------------------------------------------------------------------------ lazy guesses


def _raises(row: Row) -> bool:
    return json.loads(row.spec).get("raises") is not None


def _lazy(cases: Sequence[Row]) -> dict[str, float]:
    commonest = _commonest_outputs(cases)
    strategies: dict[str, Callable[[Row, list[str]], str | None]] = {
        "first argument": lambda row, args: args[0] if args else None,
        "second argument": lambda row, args: args[1] if len(args) > 1 else None,
        "longest argument": lambda row, args: max(args, key=len) if args else None,
        "last literal of the program": lambda row, args: _last_literal(row.code),
        "empty value of the output's type": lambda row, args: EMPTY.get(row.output_type),
        "most common output of that type": lambda row, args: commonest[row.output_type],
    }
    solved = dict.fromkeys(strategies, 0)
    for row in cases:
        args = _argument_texts(row.args)
        for name, guess in strategies.items():
            solved[name] += guess(row, args) == row.output
    shares = {name: count / len(cases) if cases else 0.0 for name, count in solved.items()}
    return dict(sorted(shares.items(), key=lambda pair: -pair[1]))


def _commonest_outputs(cases: Sequence[Row]) -> dict[str, str]:
    by_type: dict[str, Counter[str]] = {}
    for row in cases:
        by_type.setdefault(row.output_type, Counter())[row.output] += 1
    return {
        kind: min(counts, key=lambda text: (-counts[text], text))
        for kind, counts in by_type.items()
    }


def _empty_values() -> dict[str, str]:
    from collections import Counter as CounterType
    from collections import OrderedDict, deque
    from decimal import Decimal
    from fractions import Fraction

    makers = (int, float, complex, bool, str, bytes, bytearray, list, tuple, dict, set, frozenset)
    library = (CounterType, OrderedDict, deque, Decimal, Fraction)
    empty = {"NoneType": "None", "range": "range(0, 0)"}
    for maker in (*makers, *library):
        empty[maker.__name__] = canonical(maker())
    return empty


EMPTY: Mapping[str, str] = _empty_values()
"""Canonical text of the empty (zero) value, by type name."""


def _argument_texts(args: str) -> list[str]:
    """Canonical text of each argument of an argument list; keyword arguments last."""
    call = parse_expression(f"f({args})")
    if not isinstance(call, ast.Call):
        raise ValueError(f"not an argument list: {args!r}")
    nodes = [*call.args, *(keyword.value for keyword in call.keywords)]
    return [_value_text(ast.unparse(node)) for node in nodes]


def _value_text(text: str) -> str:
    """Canonical text of the value that `text` writes, or `text` if it is more than a literal."""
    try:
        return canonical(parse(text))
    except (ValueTextError, Unrepresentable):
        return text


def _last_literal(code: str) -> str | None:
    """Canonical text of the literal that stands last in the program (displays count as one)."""
    last: tuple[tuple[int, int, int, int], ast.expr] | None = None
    for node in ast.walk(parse_tree(code)):
        if not isinstance(node, ast.expr):
            continue
        # The end decides; of two that end together the one that begins first holds the other.
        place = (node.end_lineno or 0, node.end_col_offset or 0, -node.lineno, -node.col_offset)
        if (last is None or place > last[0]) and _is_literal(node):
            last = (place, node)
    return None if last is None else _value_text(ast.unparse(last[1]))


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


# -------------------------------------------------------------------------------- running it again


@dataclass(frozen=True)
class Verification:
    """What came of running every stored case again."""

    equal: int
    different: int
    failed: int
    """The sandbox itself failed: nothing is known about these."""
    examples: tuple[str, ...] = ()
    """Ids of up to ten rows that are not equal, with what was found."""

    @property
    def total(self) -> int:
        return self.equal + self.different + self.failed

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "total": self.total}

    def text(self) -> str:
        """One line, and one more per example."""
        line = (
            f"run again: {self.total:,} cases, {self.equal:,} equal,"
            f" {self.different:,} different, {self.failed:,} could not be run"
        )
        return "\n".join([line, *(f"  {example}" for example in self.examples)])


def verify(rows: Iterable[Row], *, workers: int | None = None) -> Verification:
    """Runs each case of `rows` once more and compares output (or exception type) with the row.

    `workers`: processes side by side, >= 1, default all cores. Raises `SandboxError` when there is
    no sandbox at all.
    """
    counts: Counter[str] = Counter()
    examples: list[str] = []
    for row, result in _run_again(rows, workers):
        verdict, found = _compare(row, result)
        counts[verdict] += 1
        if verdict != "equal" and len(examples) < 10:
            examples.append(f"{row.id}: {found}")
    return Verification(counts["equal"], counts["different"], counts["failed"], tuple(examples))


def _compare(row: Row, result: ExecutionResult) -> tuple[str, str]:
    """("equal", "different" or "failed", what was found)."""
    if result.outcome == "infrastructure":
        return "failed", result.detail
    expected = json.loads(row.spec).get("raises")
    if expected is not None:
        found = result.error_type or result.outcome
        return ("equal" if found == expected else "different"), found
    found = result.value if result.value is not None else result.outcome
    same = (result.value, result.value_type) == (row.output, row.output_type)
    return ("equal" if same else "different"), found


def _run_again(
    rows: Iterable[Row], workers: int | None, recorder: str | None = None
) -> Iterator[tuple[Row, ExecutionResult]]:
    """Each case with its new result, program by program."""
    from rewards.sandbox import Job, run_groups

    programs: dict[tuple[str, str], list[Row]] = {}
    for row in _cases(tuple(rows)):
        programs.setdefault((row.code, row.entry), []).append(row)
    groups = list(programs.values())
    jobs = [[Job(r.code, r.entry, r.args, recorder=recorder) for r in group] for group in groups]
    for group, results in zip(groups, run_groups(jobs, workers=workers), strict=True):
        yield from zip(group, results, strict=True)


def statement_coverage(rows: Iterable[Row], *, workers: int | None = None) -> Coverage:
    """Traces each case again and counts the statements that some input of their program executed.

    Statements as the tracer counts them (DESIGN section 6): those inside functions, without
    docstrings and declarations. Raises `SandboxError` when a case cannot be traced at all.
    """
    from rewards.sandbox import SandboxError
    from synth.executions import inside_functions
    from synth.traces import RECORDER, Trace, statements

    executed: dict[str, set[int]] = {}
    inside: dict[str, set[int]] = {}
    for row, result in _run_again(rows, workers, RECORDER):
        if result.record is None:
            raise SandboxError(f"row {row.id!r} could not be traced: {result.detail}")
        if row.program_id not in inside:
            # Module level is not traced (DESIGN section 6), so it is not counted either.
            inside[row.program_id] = set(inside_functions(statements(row.code)))
        trace = Trace.from_record(row.code, result.record)
        executed.setdefault(row.program_id, set()).update(trace.executed)
    return Coverage(
        statements=sum(map(len, inside.values())),
        executed=sum(len(executed[program] & found) for program, found in inside.items()),
    )


# --------------------------------------------------------------------------------------- the text


def render(report: Report) -> str:
    """The figures as plain text tables, for a terminal of 80 columns."""
    blocks = [
        f"{report.rows:,} rows, {report.programs:,} programs, {report.cases:,} input cases",
        _pairs_table("task", report.tasks),
        _pairs_table("split", report.splits),
        _level_table(report.levels),
        _table(
            ("family", "operations seen", "in catalogue", "owners"),
            [
                (f.family, f"{f.seen:,}", f"{f.catalogue:,}", f"{f.owners:,}")
                for f in report.families
            ],
        ),
        _pairs_table("owner", report.owners),
        _pairs_table("output type", report.output_types),
        _pairs_table("input kind", report.input_kinds),
        _checks(report),
        _table(
            (f"lazy guess ({report.lazy_cases:,} cases, no bools)", "solves"),
            [(name, f"{share:.1%}") for name, share in report.lazy.items()],
        ),
    ]
    return "\n\n".join(blocks) + "\n"


def _checks(report: Report) -> str:
    covered = "not measured (--trace)"
    if report.coverage:
        covered = f"{report.coverage.share:.1%}"
    return _table(
        ("variety", "share"),
        [
            ("programs with at least 2 outputs", f"{report.two_outputs:.1%}"),
            ("programs with at least 3 outputs", f"{report.three_outputs:.1%}"),
            ("cases whose output is a bool", f"{report.bool_outputs:.1%}"),
            ("statements that some input executes", covered),
        ],
    )


def _level_table(levels: Sequence[LevelFigures]) -> str:
    head = ("level", "rows", "share", "programs", "shapes", "steps 10/50/90/max", "lines 50/max")
    lines = []
    for one in levels:
        steps = "/".join(f"{value:.0f}" for value in one.steps)
        code = f"{one.lines[1]:.0f}/{one.lines[3]:.0f}"
        shapes = f"{one.shapes:,} ({one.shape_share:.0%})"
        row = (str(one.level), f"{one.rows:,}", f"{one.share:.1%}", f"{one.programs:,}")
        lines.append((*row, shapes, steps, code))
    return _table(head, lines)


def _pairs_table(name: str, counts: Mapping[str, int]) -> str:
    total = sum(counts.values()) or 1
    lines = [(key, f"{count:,}", f"{count / total:.1%}") for key, count in counts.items()]
    return _table((name, "count", "share"), lines)


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """First column left, the others right aligned."""
    widths = [max(len(row[i]) for row in (head, *lines)) for i in range(len(head))]
    out = []
    for row in (head, *lines):
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        out.append("  ".join(cells).rstrip())
    return "\n".join(out)
