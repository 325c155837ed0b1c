"""The records that cross the sandbox's border: a `Job` goes in, an `ExecutionResult` comes out.

Covers what a caller may ask and what it may be told. Does not cover how a job is run (`pool.py`),
what runs it (`performer.py`) or what holds it in (`isolation.py`). Nothing in these records ever says
whether a value is *right*: the guest is not told what is expected, and the host compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

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
    """CPU time of the guest, in seconds, > 0."""
    wall_seconds: float = 10.0
    """Wall-clock time from the start of the call, in seconds, > 0."""
    memory_mb: int = 512
    """Address space that each process of the guest may add to what it starts with, and memory that all
    of them may hold together, in MiB, > 0."""
    output_bytes: int = 65_536
    """Bytes on stdout and stderr together, >= 0."""
    file_bytes: int = 1_048_576
    """Size of a file that the guest writes in its private folder, in bytes, >= 0."""
    processes: int = 0
    """Processes and threads that the guest may have at a time beside its first, >= 0."""


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
