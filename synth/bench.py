"""Ratios against a stated baseline, measured in the same run.

Covers `execute`: running rows in the sandbox against the usual way, a new interpreter for every run and
two runs a row (once for the output, once to check it). A rate alone says little about a shared machine;
the ratio is taken per CPU-second, baseline and ours in turn, and both sides' outputs are compared.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from synth.errors import DataError

BASELINE = "a new interpreter per run, two runs a row"
BASELINE_SECONDS = 20.0
"""Longest run of the baseline, wall time."""
DEFAULT_ROWS = 64


@dataclass(frozen=True)
class Call:
    """One row to run: a program, its entry, the arguments, and the output it must give."""

    code: str
    entry: str
    args: str
    output: str


@dataclass(frozen=True)
class Timing:
    """One way of running the rows."""

    name: str
    rows: int
    wall_seconds: float
    cpu_seconds: float
    wrong: int
    """Rows whose output differed from the stored one."""

    @property
    def rows_per_cpu_second(self) -> float:
        """Throughput of one core."""
        return self.rows / self.cpu_seconds


@dataclass(frozen=True)
class Comparison:
    """All ways, the baseline first."""

    timings: tuple[Timing, ...]

    def ratio(self, timing: Timing) -> float:
        """How many times as many rows per CPU-second as the baseline."""
        return timing.rows_per_cpu_second / self.timings[0].rows_per_cpu_second

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "baseline": BASELINE,
            "ways": [
                {
                    **asdict(timing),
                    "rows_per_cpu_second": round(timing.rows_per_cpu_second, 1),
                    "ratio": round(self.ratio(timing), 2),
                }
                for timing in self.timings
            ],
        }

    def text(self) -> str:
        """A table."""
        lines = [f"baseline: {BASELINE}", ""]
        lines.append(f"{'way':34}{'rows':>6}{'wrong':>7}{'cpu s':>8}{'rows/cpu s':>12}{'ratio':>8}")
        for t in self.timings:
            lines.append(
                f"{t.name:34}{t.rows:6}{t.wrong:7}{t.cpu_seconds:8.2f}{t.rows_per_cpu_second:12.0f}"
                f"{self.ratio(t):7.1f}x"
            )
        if self.timings[0].wrong:
            lines += [
                "",
                "The baseline is wrong where its assertion cannot write the value back (Decimal, dates) or the",
                "printed text has no fixed order (sets); the sandbox compares values.",
            ]
        return "\n".join(lines)


def calls_from(source: str | Path | None, limit: int | None = None) -> list[Call]:
    """Rows to run: a dataset folder, a JSONL of `code, input, output` (entry `f`), or programs made now.

    Raises `DataError` naming file and line for a malformed record.
    """
    if source is None:
        calls = list(_made_now())
    elif Path(source).is_dir():
        from synth.dataset import read_rows

        rows = [row for row in read_rows(source) if row.task == "output" and row.output]
        calls = [Call(row.code, row.entry, row.args, row.output) for row in rows]
    else:
        calls = list(_from_jsonl(Path(source)))
    if not calls:
        raise DataError(
            f"{str(source)!r} holds no row with an output to compare: give another file"
        )
    return calls[:limit]


def execute(calls: Sequence[Call]) -> Comparison:
    """Run `calls` in every way, one after the other, on one worker."""
    from rewards.sandbox import Job, SandboxPool

    jobs = [Job(call.code, call.entry, call.args) for call in calls]
    seeded = [Job(call.code, call.entry, call.args, hash_seed=1) for call in calls]

    def one_run() -> list[str | None]:
        with SandboxPool(size=1) as pool:
            return [result.value for result in pool.run(jobs)]

    def two_seeds() -> list[str | None]:
        with SandboxPool(size=1) as pool:
            first, second = pool.run(jobs), pool.run(seeded)
        return [a.value if a.value == b.value else None for a, b in zip(first, second, strict=True)]

    def grouped() -> list[str | None]:
        groups = [[job] * 8 for job in jobs]
        with SandboxPool(size=1) as pool:
            return [results[0].value for results in pool.run_groups(groups)]

    return Comparison((
        _timed("baseline", calls, lambda: [_usual(call) for call in calls]),
        _timed("sandbox, one run a row", calls, one_run),
        _timed("sandbox, two hash seeds a row", calls, two_seeds),
        _timed("sandbox, grouped, 8 inputs", calls, grouped, times=8),
    ))  # fmt: skip


def _usual(call: Call) -> str | None:
    """Run a row the usual way: print the output, then assert it in another interpreter."""
    output = _interpreted(f"{call.code}\nprint(repr({call.entry}({call.args})))")
    if output is None:
        return None
    checked = _interpreted(f"{call.code}\nassert {call.entry}({call.args}) == {output}")
    return None if checked is None else output


def _interpreted(script: str) -> str | None:
    """What a new interpreter prints for `script`; None if it fails or takes too long."""
    try:
        ended = subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=False,
            timeout=BASELINE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return None
    return ended.stdout.rstrip("\n") if ended.returncode == 0 else None


def _timed(
    name: str, calls: Sequence[Call], run: Callable[[], list[str | None]], *, times: int = 1
) -> Timing:
    """Wall and CPU time of `run`; the CPU time of children counts once they have ended."""
    start, before = time.perf_counter(), _cpu_seconds()
    outputs = run()
    wall, cpu = time.perf_counter() - start, _cpu_seconds() - before
    wrong = sum(not _equal(got, call.output) for got, call in zip(outputs, calls, strict=True))
    return Timing(name, len(calls) * times, wall, cpu, wrong)


def _equal(got: str | None, wanted: str) -> bool:
    from rewards.values import ValueTextError, equal, parse

    if got is None:
        return False
    try:
        return equal(parse(got), parse(wanted))
    except ValueTextError:
        return False


def _cpu_seconds() -> float:
    own, children = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def _from_jsonl(path: Path) -> Iterator[Call]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{str(path)!r} is not UTF-8 text: {error}") from error
    # Not splitlines: a string of JSON may hold U+2028 and its like as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            fields = [record[name] for name in ("code", "input", "output")]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}, line {number}: expected an object with code, input and output ({error})"
            ) from error
        if not all(isinstance(field, str) for field in fields):
            raise DataError(f"{path}, line {number}: code, input and output must be strings")
        yield Call(fields[0], "f", fields[1], fields[2])


def _made_now() -> Iterator[Call]:
    """Calls of programs that the grammar writes now, with the outputs that the sandbox gives."""
    from rewards.sandbox import Job, run
    from synth.constraints import enumerate_constraints, operations_of
    from synth.errors import ProgramRejected
    from synth.programs import Program, vet
    from synth.prompts import program_prompt
    from synth.providers import provider

    grammar = provider("grammar")
    source = enumerate_constraints(operations_of(), depth=3, seed=0)
    programs: list[Program] = []
    while len(programs) < DEFAULT_ROWS:
        constraint = next(source)
        key = f"bench:{len(programs)}:{constraint.id}"
        completion = grammar.complete([program_prompt(constraint, id=key, seed=key)])[0]
        try:
            programs.append(vet(constraint, completion.text))
        except ProgramRejected:
            continue
    jobs = [Job(program.code, program.entry, program.args) for program in programs]
    for job, result in zip(jobs, run(jobs), strict=True):
        if result.value is not None and job.entry is not None:
            yield Call(job.code, job.entry, job.args, result.value)
