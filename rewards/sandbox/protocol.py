"""The host's side of a conversation: what a fork server is told, and what its reply is worth.

Covers checking jobs, putting a request together, and turning what a guest says into an
`ExecutionResult` without believing any of its types. Does not cover who is asked (`servers.py`), and
never judges a value.

Bytes printed that are no UTF-8 appear as backslash escapes in `stdout` and `stderr`.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import signal
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from rewards.sandbox.jobs import (
    ExecutionResult,
    Guarantees,
    Job,
    Limits,
    Outcome,
    check_fields,
)
from rewards.sandbox.wire import LENGTH

STDERR_TAIL = 2000
FORGED = "forged or damaged result"


# Modules that some programs import, and that make every fork dearer once they are loaded: three of
# them pull in a tenth of all the memory. A program that imports one pays 2 to 10 ms for it.
_HEAVY = ("dataclasses", "random", "statistics")


class Kind(NamedTuple):
    """What a fork server must be like for a job."""

    hash_seed: int
    heavy: bool = False
    """It has the modules of `_HEAVY` loaded. Read off the program's text, so that a program always
    meets the same interpreter, whatever else has been run."""
    apart: bool = False
    """It runs only jobs that say so."""

    @classmethod
    def of(cls, job: Job) -> Kind:
        return cls(job.hash_seed, any(name in job.code for name in _HEAVY), job.apart)

    def preload(self) -> list[str]:
        """Modules to load beyond those that every fork server loads."""
        return list(_HEAVY if self.heavy else ())


class Lost(Exception):
    """A fork server went away or spoke nonsense; its job may be tried again."""


# --------------------------------------------------------------------------- requests


class _RecorderFiles:
    """Texts of recorder files, read again only when the file has changed."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[tuple[int, int], str, str]] = {}

    def read(self, path: str) -> tuple[str, str]:
        """Digest and text of the file. Raises OSError if it cannot be read."""
        found = os.stat(path)
        stamp = (found.st_mtime_ns, found.st_size)
        known = self._known.get(path)
        if known is None or known[0] != stamp:
            text = Path(path).read_text(encoding="utf-8")
            digest = hashlib.sha256(f"{path}\0{text}".encode()).hexdigest()
            known = self._known[path] = (stamp, digest, text)
        return known[1], known[2]


recorders = _RecorderFiles()


def check_job(job: Job, checked: Limits | None = None) -> None:
    """Raises ValueError for a job that makes no sense, OSError for an unreadable recorder.

    `checked` are limits that need no second look, as of the job before.
    """
    check_fields(job, checked)
    if job.recorder is not None:
        recorders.read(job.recorder)


def request_for(jobs: Sequence[Job], known: set[str], *, early: bool = True) -> dict[str, Any]:
    """What a fork server is told about jobs that share everything but the call.

    Args:
        jobs: one or more.
        known: digests of the recorders that the fork server has loaded.
        early: it may compile the program before it forks. Not once a fork server was lost with it.
    """
    first = jobs[0]
    recorder = None
    if first.recorder is not None:
        digest, text = recorders.read(first.recorder)
        recorder = [digest, first.recorder, None if digest in known else text]
    return {
        "nonce": secrets.token_hex(16),
        "code": first.code,
        "entry": first.entry,
        "stdin": first.stdin,
        "recorder": recorder,
        "memory_bytes": int(first.limits.memory_mb * (1 << 20)),
        "output_bytes": first.limits.output_bytes,
        "file_bytes": first.limits.file_bytes,
        "processes": first.limits.processes,
        "early": early,
        "calls": [
            [job.args, job.options, job.limits.cpu_seconds, job.limits.wall_seconds] for job in jobs
        ],
    }


# --------------------------------------------------------------------------- replies


@dataclass(frozen=True)
class CallReply:
    """One finished call as the fork server saw it."""

    stdout: bytes
    stderr: bytes
    payload: bytes
    cpu: float
    wall: float


@dataclass(frozen=True)
class Reply:
    """How a child went: the calls it finished and how it ended."""

    calls: tuple[CallReply, ...]
    stdout: bytes
    stderr: bytes
    reason: str | None
    status: int
    cpu: float
    wall: float
    started: bool
    failure: str | None


def split_body(body: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        (length,) = LENGTH.unpack_from(body)
        header = json.loads(body[LENGTH.size : LENGTH.size + length])
    except (struct.error, ValueError, RecursionError) as error:
        raise Lost(f"a damaged reply: {error!r}") from error
    if not isinstance(header, dict):
        raise Lost("a damaged reply")
    return header, body[LENGTH.size + length :]


def parse_hello(hello: Any) -> Guarantees:
    """What a fork server says of its layers when it is ready; raises Lost if it is nonsense."""
    try:
        return Guarantees(
            active=tuple(map(str, hello["active"])),
            missing=tuple(sorted((str(k), str(v)) for k, v in hello["missing"].items())),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Lost(f"a damaged greeting: {error!r}") from error


_warned: set[Guarantees] = set()


def warn_once(found: Guarantees) -> None:
    """Say plainly what a platform lacks, once per process for each set of layers."""
    if found.missing and found not in _warned:
        _warned.add(found)
        reasons = "; ".join(f"{layer} ({why})" for layer, why in found.missing)
        warnings.warn(
            f"programs run with less isolation than intended, missing: {reasons}. "
            "SandboxPool(strict=True) refuses instead; SandboxPool(layers=...) asks for less.",
            RuntimeWarning,
            stacklevel=2,
        )


def parse_reply(header: dict[str, Any], blobs: bytes, nonce: str) -> Reply:
    """Check a reply field by field; raises Lost if it is not what a fork server sends."""
    if header.get("nonce") != nonce:
        raise Lost("a reply to another request")
    if "broken" in header:
        raise Lost(str(header["broken"])[:STDERR_TAIL])
    try:
        lengths = [int(n) for row in header["calls"] for n in row[:3]]
        lengths += [int(n) for n in header["rest"]]
        if min(lengths) < 0 or sum(lengths) != len(blobs):
            raise Lost("a reply of the wrong size")
        parts = []
        start = 0
        for length in lengths:
            parts.append(blobs[start : start + length])
            start += length
        calls = tuple(
            CallReply(
                parts[3 * i], parts[3 * i + 1], parts[3 * i + 2], float(row[3]), float(row[4])
            )
            for i, row in enumerate(header["calls"])
        )
        return Reply(
            calls=calls,
            stdout=parts[-2],
            stderr=parts[-1],
            reason=header["reason"],
            status=int(header["status"]),
            cpu=float(header["cpu"]),
            wall=float(header["wall"]),
            started=bool(header["started"]),
            failure=header["failure"],
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise Lost(f"a damaged reply: {error!r}") from error


_FIELDS: dict[str, type] = {
    "o": str,
    "value": str,
    "type": str,
    "unrepresentable": str,
    "message": str,
    "line": int,
    "record": str,
    "detail": str,
    "cpu": float,
    "wall": float,
}


def read_payload(payload: bytes, job: Job) -> dict[str, Any] | None:
    """What the guest says of a call, or None if a guest that plays by the rules cannot say that."""
    try:
        fields = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    if any(type(value) is not _FIELDS.get(name) for name, value in fields.items()):
        return None
    said = fields.get("o")
    if said == "returned":
        answers = ("value" in fields) + ("unrepresentable" in fields)
        expected = 0 if job.entry is None else 1
        good = answers == expected and ("type" in fields) == bool(expected)
    else:
        good = said in ("raised", "memory") and "type" in fields and "value" not in fields
    return fields if good else None


def cut_output(stdout: bytes, stderr: bytes, limit: int) -> tuple[str, str]:
    out = stdout[:limit]
    err = stderr[: limit - len(out)]
    return out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace")


def finished(job: Job, call: CallReply, reply: Reply) -> ExecutionResult:
    """The result of a call that the guest reported."""
    limit = job.limits.output_bytes
    most = {"cpu": reply.cpu, "wall": reply.wall}
    stdout, stderr = cut_output(call.stdout, call.stderr, limit)
    used: dict[str, Any] = {
        "stdout": stdout,
        "stderr": stderr,
        "cpu_seconds": call.cpu,
        "wall_seconds": call.wall,
    }
    if len(call.stdout) + len(call.stderr) > limit:
        return ExecutionResult("output_exceeded", detail=f"more than {limit} bytes", **used)
    fields = read_payload(call.payload, job)
    if fields is None:
        return ExecutionResult("killed", detail=FORGED, **used)
    # Of a call in a group only the guest itself can say how long it took: bounded by the whole.
    for name in ("cpu", "wall"):
        if name in fields and 0 <= fields[name] <= most[name]:
            used[f"{name}_seconds"] = fields[name]
    return told(fields, used)


def told(fields: dict[str, Any], used: dict[str, Any]) -> ExecutionResult:
    """What a checked payload says, beside what was seen from outside."""
    said = {"detail": fields.get("detail", ""), "record": fields.get("record"), **used}
    if fields["o"] == "returned":
        return ExecutionResult(
            "returned",
            value=fields.get("value"),
            value_type=fields.get("type"),
            unrepresentable=fields.get("unrepresentable"),
            **said,
        )
    return ExecutionResult(
        "memory_exceeded" if fields["o"] == "memory" else "raised",
        error_type=fields["type"],
        error_message=fields.get("message"),
        error_line=fields.get("line"),
        **said,
    )


def settle_single(job: Job, reply: Reply) -> ExecutionResult:
    """The result of a request with one call."""
    if reply.reason in ("forged", "output") or len(reply.calls) != 1:
        return _ended(job, reply)
    call = reply.calls[0]
    whole = CallReply(reply.stdout, reply.stderr, call.payload, reply.cpu, reply.wall)
    return finished(job, whole, reply)


def _ended(job: Job, reply: Reply) -> ExecutionResult:
    """The result of a lone call whose guest ended without reporting it."""
    outcome, detail = _why_ended(job, reply)
    stdout, stderr = cut_output(reply.stdout, reply.stderr, job.limits.output_bytes)
    return ExecutionResult(
        outcome,
        stdout=stdout,
        stderr=stderr,
        detail=detail,
        cpu_seconds=reply.cpu,
        wall_seconds=reply.wall,
    )


def _why_ended(job: Job, reply: Reply) -> tuple[Outcome, str]:
    limits = job.limits
    reasons: dict[str, tuple[Outcome, str]] = {
        "cpu": ("timed_out", cpu_text(limits)),
        "wall": ("timed_out", wall_text(limits)),
        "output": ("output_exceeded", f"more than {limits.output_bytes} bytes"),
        "memory": ("memory_exceeded", f"more than {limits.memory_mb} MiB in all its processes"),
        "processes": ("killed", f"more than {limits.processes} processes and threads"),
        "forged": ("killed", FORGED),
    }
    if reply.reason in reasons:
        return reasons[reply.reason]
    if not os.WIFSIGNALED(reply.status):
        code = os.waitstatus_to_exitcode(reply.status)
        return "killed", f"left without a result (exit status {code})"
    number = os.WTERMSIG(reply.status)
    return by_signal(number, limits, used_up=reply.cpu >= limits.cpu_seconds)


def by_signal(number: int, limits: Limits, *, used_up: bool) -> tuple[Outcome, str]:
    """How to read the signal that ended a guest; `used_up`: it had no CPU budget left."""
    if number == signal.SIGXCPU or (number == signal.SIGKILL and used_up):
        return "timed_out", cpu_text(limits)
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unnamed"
    return "killed", f"signal {number} ({name})"


def cpu_text(limits: Limits) -> str:
    return f"the CPU budget of {limits.cpu_seconds:g} s was used up"


def wall_text(limits: Limits) -> str:
    return f"the wall-clock budget of {limits.wall_seconds:g} s was used up"
