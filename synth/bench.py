"""Ratios against a stated baseline, measured in the same run.

Covers `execute`: running rows in the sandbox against the usual way, a new interpreter for every run and
two runs a row (once for the output, once to check it). A rate alone says little about a shared machine;
the ratio is taken per CPU-second, all ways in turn on the same rows, and the outputs of every way are
compared with what the rows say, those of drawn inputs with what an ordinary interpreter gives.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from synth.errors import DataError, SynthError

if TYPE_CHECKING:
    from rewards.sandbox import ExecutionResult, Job, SandboxPool
    from synth.inputs import Drawer

BASELINE = "a new interpreter of a clean virtual environment per run, two runs a row"
BASELINE_SECONDS = 20.0
"""Longest run of the baseline, wall time."""
DEFAULT_ROWS = 64
INPUTS = 8
"""Inputs a program in the grouped lane: the row's own and drawn ones."""
ROUNDS = 4
"""Parts that the rows are cut into; every way runs a part before the next one comes."""
ISOLATED, RLIMITS = "sandbox, one run a row", "sandbox, one run, rlimits alone"


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
    """Runs that gave an output, or pairs of runs where a row is run twice."""
    wall_seconds: float
    cpu_seconds: float
    """Of this process and all that it started for the purpose."""
    wrong: int
    """Rows whose output differed from the expected one."""

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

    @property
    def isolation_cost(self) -> float | None:
        """CPU time of full isolation over resource limits alone, less 1: 0.1 is 10 % more.

        None if one of the two was not timed.
        """
        seconds = {timing.name: timing.cpu_seconds for timing in self.timings}
        if not {ISOLATED, RLIMITS} <= seconds.keys():
            return None
        return seconds[ISOLATED] / seconds[RLIMITS] - 1

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        cost = self.isolation_cost
        return {
            "baseline": BASELINE,
            "isolation_cost": None if cost is None else round(cost, 3),
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
        if self.isolation_cost is not None:
            lines += ["", f"full isolation costs {self.isolation_cost:+.1%} over rlimits alone"]
        return "\n".join(lines)


def calls_from(source: str | Path | None, limit: int | None = None) -> list[Call]:
    """Rows to run: a dataset folder, a JSONL of `code, input, output` (entry `f`), or programs made now.

    Raises `DataError` naming file and line for a malformed record.
    """
    if source is None:
        calls = list(_made_now())
    elif Path(source).is_dir():
        from synth.dataset import read_rows

        rows = [row for row in read_rows(source) if row.output]
        # Rows of several tasks share an input case.
        calls = list(dict.fromkeys(Call(r.code, r.entry, r.args, r.output) for r in rows))
    else:
        calls = list(_from_jsonl(Path(source)))
    if not calls:
        raise DataError(
            f"{str(source)!r} holds no row with an output to compare: give another file"
        )
    return calls[:limit]


def execute(calls: Sequence[Call]) -> Comparison:
    """Run `calls` in every way, one worker each, part by part in turn."""
    with tempfile.TemporaryDirectory(prefix="execverify-bench-") as folder:
        python = clean_interpreter(Path(folder))
        cases = cases_of(calls, python)
        ways: list[_Way] = [
            _Usual("baseline", python),
            _Single(ISOLATED),
            _Single(RLIMITS, layers=("rlimits", "process_group")),
            _TwoSeeds("sandbox, two hash seeds a row"),
            _Grouped(f"sandbox, grouped, {INPUTS} inputs"),
        ]
        part = -(-len(cases) // ROUNDS)
        for number, start in enumerate(range(0, len(cases), part)):
            turn = number % len(ways)
            for way in (*ways[turn:], *ways[:turn]):
                way.run(cases[start : start + part])
        for way in ways:
            way.close()
    return Comparison(tuple(way.timing() for way in ways))


@dataclass(frozen=True)
class Case:
    """A program with inputs, the row's own first, and what each must give: a text, or what it raises."""

    call: Call
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def jobs(self, hash_seed: int = 0) -> list[Job]:
        from rewards.sandbox import Job

        code, entry = self.call.code, self.call.entry
        return [Job(code, entry, args, hash_seed=hash_seed) for args in self.inputs]


class _Way(ABC):
    """One way of running cases, with what it has used so far."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = self.wrong = 0
        self.wall = self.cpu = 0.0

    def run(self, cases: Sequence[Case]) -> None:
        with self._measured():
            outputs = self.outputs(cases)
        for case, given in zip(cases, outputs, strict=True):
            self.rows += len(given)
            pairs = zip(given, case.outputs, strict=False)
            self.wrong += sum(not _equal(got, wanted) for got, wanted in pairs)

    @abstractmethod
    def outputs(self, cases: Sequence[Case]) -> list[list[str | None]]:
        """What the first inputs of each case give, None for no output."""

    def close(self) -> None:  # noqa: B027 - most start nothing that lasts
        """End what it started; the CPU time of a process counts once it has ended."""

    def timing(self) -> Timing:
        return Timing(self.name, self.rows, self.wall, self.cpu, self.wrong)

    @contextmanager
    def _measured(self) -> Iterator[None]:
        start, before = time.perf_counter(), _cpu_seconds()
        yield
        self.wall += time.perf_counter() - start
        self.cpu += _cpu_seconds() - before


class _Usual(_Way):
    """Print the output, then assert it in another interpreter."""

    def __init__(self, name: str, python: str) -> None:
        super().__init__(name)
        self.python = python

    def outputs(self, cases: Sequence[Case]) -> list[list[str | None]]:
        return [[self._checked(case.call)] for case in cases]

    def _checked(self, call: Call) -> str | None:
        output = interpreted(self.python, f"{call.code}\nprint(repr({call.entry}({call.args})))")
        if output is None:
            return None
        test = f"{call.code}\nassert {call.entry}({call.args}) == {output}"
        return None if interpreted(self.python, test) is None else output


class _Sandboxed(_Way):
    """In a pool of one fork server, started with the first run and ended by `close`."""

    def __init__(self, name: str, layers: tuple[str, ...] | None = None) -> None:
        super().__init__(name)
        self.layers = layers
        self._pool: SandboxPool | None = None

    @property
    def pool(self) -> SandboxPool:
        if self._pool is None:
            from rewards.sandbox import SandboxPool

            self._pool = SandboxPool(1, layers=self.layers)
        return self._pool

    def close(self) -> None:
        with self._measured():
            self.pool.close()


class _Single(_Sandboxed):
    def outputs(self, cases: Sequence[Case]) -> list[list[str | None]]:
        return [[_said(result)] for result in self.pool.run([case.jobs()[0] for case in cases])]


class _TwoSeeds(_Sandboxed):
    """An output counts if two interpreters of different hash seeds agree on it."""

    def outputs(self, cases: Sequence[Case]) -> list[list[str | None]]:
        first, second = (
            self.pool.run([case.jobs(hash_seed)[0] for case in cases]) for hash_seed in (0, 1)
        )
        pairs = zip(map(_said, first), map(_said, second), strict=True)
        return [[one if one == other else None] for one, other in pairs]


class _Grouped(_Sandboxed):
    def outputs(self, cases: Sequence[Case]) -> list[list[str | None]]:
        groups = self.pool.run_groups([case.jobs() for case in cases])
        return [[_said(result) for result in results] for results in groups]


def _said(result: ExecutionResult) -> str | None:
    """What came of a call as text, None if that is neither a value nor an exception."""
    if result.outcome == "raised":
        return f"raises {result.error_type}"
    return result.value


# --------------------------------------------------------------------------- the cases


def cases_of(calls: Sequence[Call], python: str) -> list[Case]:
    """`calls` with drawn inputs, each with the output that an ordinary interpreter gives for it."""
    from rewards.sandbox import Job, Limits, run_groups
    from synth.inputs import Drawer

    limits = Limits(cpu_seconds=0.2)
    with Drawer() as drawer:
        drawn = [_drawn(drawer, call) for call in calls]
    groups = [
        [Job(call.code, call.entry, args, limits=limits) for args in inputs]
        for call, inputs in zip(calls, drawn, strict=True)
    ]
    cases = []
    for call, inputs, results in zip(calls, drawn, run_groups(groups), strict=True):
        # Not all drawn inputs suit the program: some never end.
        ended = [args for args, result in zip(inputs, results, strict=True) if _said(result)]
        chosen = (call.args, *(args for args in ended if args != call.args))[:INPUTS]
        cases.append(Case(call, chosen, (call.output, *_reference(python, call, chosen[1:]))))
    return cases


def _drawn(drawer: Drawer, call: Call) -> list[str]:
    try:
        cases = drawer.draw(call.args, seed=f"bench:{call.code}", count=2 * INPUTS)
    except SynthError:  # arguments that cannot be varied, such as a lambda
        return [call.args]
    return [case.args for case in cases]


# Every input in a fresh namespace, as in the sandbox.
_REFERENCE = """
import contextlib, io, json, sys
code, entry, inputs = json.load(sys.stdin)
outputs = []
for args in inputs:
    namespace = {"__name__": "__main__"}
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(code, namespace)
            outputs.append(repr(eval(f"{entry}({args})", namespace)))
    except Exception as error:
        outputs.append("raises " + type(error).__name__)
print(json.dumps(outputs))
"""


def _reference(python: str, call: Call, inputs: Sequence[str]) -> list[str]:
    """What an ordinary interpreter gives for inputs that nobody has stored an output for."""
    if not inputs:
        return []
    order = json.dumps([call.code, call.entry, inputs])
    printed = interpreted(python, _REFERENCE, order)
    return ["no output"] * len(inputs) if printed is None else list(json.loads(printed))


def clean_interpreter(folder: Path) -> str:
    """A virtual environment with nothing in it: what `site` loads elsewhere would count."""
    import venv

    venv.EnvBuilder(symlinks=os.name != "nt").create(folder)
    return str(folder / "bin" / "python")


def interpreted(python: str, script: str, stdin: str = "") -> str | None:
    """What a new interpreter prints for `script`; None if it fails or takes too long."""
    try:
        ended = subprocess.run(
            [python, "-c", script],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=BASELINE_SECONDS,
            # Sets are shown in the order that the sandbox has by default.
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
    except subprocess.TimeoutExpired:
        return None
    return ended.stdout.rstrip("\n") if ended.returncode == 0 else None


def _equal(got: str | None, wanted: str) -> bool:
    from rewards.values import ValueTextError, equal, parse

    if got is None or got == wanted:
        return got is not None
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
