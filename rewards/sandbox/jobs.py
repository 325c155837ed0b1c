"""The records that cross the sandbox's border: a `Job` goes in, an `ExecutionResult` comes out.

Covers what a caller may ask and what it may be told, of the sandbox itself too (`Guarantees`). Does
not cover how a job is run (`pool.py`), what runs it (`performer.py`) or what holds it in
(`isolation.py`). Nothing in these records ever says whether a value is *right*: the guest is not told
what is expected, and the host compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

MAX_JOB_CHARS = 8 << 20
"""Most characters of code, args, stdin and options together."""

Outcome = Literal[
    "returned",  # the entry returned (script: the program ran to its end)
    "raised",  # the program raised, SystemExit included
    "timed_out",  # the CPU or the wall budget was used up
    "memory_exceeded",  # MemoryError, or killed by the memory limit
    "output_exceeded",  # more on stdout and stderr than `Limits.output_bytes`
    "killed",  # ended by a signal, or left without a result (os._exit)
    "infrastructure",  # the sandbox failed, not the program; already retried once
]


@dataclass(frozen=True)
class Limits:
    """What one call may use. Queueing is never counted."""

    cpu_seconds: float = 2.0
    """CPU time of the guest, in seconds, in (0, 1e6]."""
    wall_seconds: float = 10.0
    """Wall-clock time from the start of the call, in seconds, in (0, 1e6]."""
    memory_mb: int = 512
    """Address space that each process of the guest may add to what it starts with, and memory that all
    of them may hold together, in MiB, in [1, 2**30]."""
    output_bytes: int = 65_536
    """Bytes on stdout and stderr together, in [0, 2**24]."""
    file_bytes: int = 1_048_576
    """Size of a file that the guest writes in its private folder, in bytes, in [0, 2**50]."""
    processes: int = 0
    """Processes and threads that the guest may have at a time beside its first, in [0, 4096]."""


@dataclass(frozen=True)
class Job:
    """One call of one program.

    With `entry`, the program's module level runs (its prints go to stdout) and then the host's call
    `entry(<args>)` is made; its value is the result. Without `entry` the program is a script:
    `stdin` in, `stdout` out, `__name__ == "__main__"`, and there is no value.
    """

    code: str
    """Source text, run as it is: no header is put in front, so line numbers are the program's own."""
    entry: str | None = None
    """Name of the function to call; None for a script."""
    args: str = ""
    """Text of the argument list, for example `"[3, 1], sep='-'"`; built afresh in the guest for every
    run, in the namespace of the program (so `Counter('ab')` works if the program imports Counter)."""
    stdin: str = ""
    limits: Limits = field(default_factory=Limits)
    hash_seed: int = 0
    """PYTHONHASHSEED of the interpreter that runs the job, in [0, 4294967295]."""
    recorder: str | None = None
    """Path of a self-contained Python file that watches the call from inside (see `performer.py` for its
    protocol); None for none. The file is the host's, never the model's."""
    options: str = "{}"
    """JSON object handed to the recorder."""
    apart: bool = False
    """The job holds what other programs must not come to know, such as what a check expects. It runs in
    fork servers where only such jobs run: the memory of a guest may hold what its fork server has
    forgotten of earlier jobs."""


@dataclass(frozen=True)
class ExecutionResult:
    """What happened. Text fields are what the guest *says*; `outcome` is what the host saw."""

    outcome: Outcome
    value: str | None = None
    """Canonical text of the returned value (`rewards.values`), or None: not returned, or the value has
    no canonical text (then `unrepresentable` says why)."""
    value_type: str | None = None
    """`type(value).__name__` of the returned value."""
    unrepresentable: str | None = None
    error_type: str | None = None
    """Class name of the exception that ended the call, for example `"ZeroDivisionError"`."""
    error_message: str | None = None
    error_line: int | None = None
    """1-based line of the program on which the exception left the program's code, None if unknown."""
    stdout: str = ""
    stderr: str = ""
    record: str | None = None
    """JSON text from the recorder, if one ran."""
    detail: str = ""
    """Plain words for `timed_out`, `killed`, `infrastructure`: which budget, which signal, what broke."""
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


@dataclass(frozen=True)
class Guarantees:
    """Which layers hold guests in on this machine, as a fork server found when it put them on."""

    active: tuple[str, ...]
    """Layers in force, in the order of `kernel.LAYERS`."""
    missing: tuple[tuple[str, str], ...]
    """Layers that were wanted and are not in force, with the reason in plain words."""

    @property
    def complete(self) -> bool:
        """True if nothing that was wanted is missing."""
        return not self.missing

    def __str__(self) -> str:
        lines = ["active: " + (", ".join(self.active) or "none")]
        lines += [f"missing: {layer} ({why})" for layer, why in self.missing]
        return "\n".join(lines)


# --------------------------------------------------------------------------- what makes sense

_RANGES: dict[str, tuple[float, float]] = {
    "cpu_seconds": (0.0, 1e6),
    "wall_seconds": (0.0, 1e6),
    "memory_mb": (1, 1 << 30),
    "output_bytes": (0, 1 << 24),
    "file_bytes": (0, 1 << 50),
    "processes": (0, 4096),
}
"""Least and most of each of the limits; of the two in seconds, more than the least."""


def check_fields(job: object, checked: Limits | None = None) -> None:
    """Raises ValueError for a job that makes no sense: no job, a field of the wrong type or out of range.

    `checked` are limits that need no second look.
    """
    if not (isinstance(job, Job) and isinstance(job.limits, Limits)):
        raise ValueError(f"expected a Job with Limits, got {job!r}")
    for name in ("code", "args", "stdin", "options"):
        if not isinstance(getattr(job, name), str):
            raise ValueError(f"Job.{name} must be a text, got {getattr(job, name)!r}")
    for name in ("entry", "recorder"):
        if not isinstance(getattr(job, name), (str, type(None))):
            raise ValueError(f"Job.{name} must be a text or None, got {getattr(job, name)!r}")
    if job.limits is not checked:
        for name, (least, most) in _RANGES.items():
            check_number(f"Limits.{name}", getattr(job.limits, name), least, most)
    if not isinstance(job.apart, bool):
        raise ValueError(f"Job.apart must be True or False, got {job.apart!r}")
    check_number("Job.hash_seed", job.hash_seed, 0, 4294967295)
    size = len(job.code) + len(job.args) + len(job.stdin) + len(job.options)
    if size > MAX_JOB_CHARS:
        raise ValueError(
            f"a job's code, args, stdin and options must be at most {MAX_JOB_CHARS} characters "
            f"together, got {size}"
        )


def check_number(name: str, value: object, least: float, most: float) -> None:
    """Raises ValueError unless `value` is an integer in [least, most].

    If `least` is a float, any number larger than it will do.
    """
    if isinstance(least, float):
        wanted = f"a number in ({least:g}, {most:g}]"
        good = isinstance(value, (int, float)) and least < value <= most
    else:
        wanted = f"an integer in [{least}, {most}]"
        good = isinstance(value, int) and least <= value <= most
    if not good or isinstance(value, bool):
        raise ValueError(f"{name} must be {wanted}, got {value!r}")
