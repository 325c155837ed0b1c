"""The host's side of the sandbox: fork servers, who may use one when, and what came back.

Covers starting and replacing fork servers (`guest.py`), the bound on how many jobs run at a time,
the retry after an infrastructure failure, and turning what a guest says into an `ExecutionResult`
without believing any of its types. Does not cover what happens inside a guest nor how it is held in
(`isolation.py`), and never judges a value.

Use it from any thread: the host installs no signal handler, starts no thread of its own and never
forks itself (`subprocess` only). A host that forks gets fresh fork servers in its child. If the host
is killed, its fork servers see their socket close and leave.

Bytes printed that are no UTF-8 appear as backslash escapes in `stdout` and `stderr`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from rewards.sandbox.isolation import LAYERS, Guarantees, empty_folder
from rewards.sandbox.jobs import ExecutionResult, Job, Outcome

_GUEST = str(Path(__file__).with_name("guest.py"))
_ISOLATION = str(Path(__file__).with_name("isolation.py"))
_VALUES = str(Path(__file__).parent.parent / "values.py")

_LENGTH = struct.Struct(">I")
_MAX_REPLY_BYTES = 64 << 20
# A fork server answers within the budgets of its job; past this much more it is taken for stuck
# (stopped from outside, machine suspended) and replaced.
_STUCK_SECONDS = 30.0
_START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
_CALLS_PER_CHILD = 128
_MAX_FAILED_STARTS = 3
_MAX_JOB_CHARS = 8 << 20
_MAX_GROUP_CHARS = 1 << 20
_STDERR_TAIL = 2000

_FORGED = "forged or damaged result"


class SandboxError(RuntimeError):
    """The sandbox cannot do what was asked: closed, not startable, or less isolated than demanded."""


class _Lost(Exception):
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


_recorders = _RecorderFiles()


def _check_job(job: Job) -> None:
    limits = job.limits
    for name in ("cpu_seconds", "wall_seconds", "memory_mb"):
        value = getattr(limits, name)
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"Limits.{name} must be finite and > 0, got {value!r}")
    for name in ("output_bytes", "file_bytes", "processes"):
        value = getattr(limits, name)
        if not (isinstance(value, int) and value >= 0):
            raise ValueError(f"Limits.{name} must be an integer >= 0, got {value!r}")
    size = len(job.code) + len(job.args) + len(job.stdin) + len(job.options)
    if size > _MAX_JOB_CHARS:
        raise ValueError(
            f"a job's code, args, stdin and options must be at most {_MAX_JOB_CHARS} characters "
            f"together, got {size}"
        )
    if job.recorder is not None:
        _recorders.read(job.recorder)
    if not 0 <= job.hash_seed <= 4294967295:
        raise ValueError(f"Job.hash_seed must be in [0, 4294967295], got {job.hash_seed!r}")


def _request(jobs: Sequence[Job], known: set[str]) -> dict[str, Any]:
    """What a fork server is told about jobs that share everything but the call."""
    first = jobs[0]
    recorder = None
    if first.recorder is not None:
        digest, text = _recorders.read(first.recorder)
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
        "calls": [
            [job.args, job.options, job.limits.cpu_seconds, job.limits.wall_seconds] for job in jobs
        ],
    }


# --------------------------------------------------------------------------- replies


@dataclass(frozen=True)
class _CallReply:
    """One finished call as the fork server saw it."""

    stdout: bytes
    stderr: bytes
    payload: bytes
    cpu: float
    wall: float


@dataclass(frozen=True)
class _Reply:
    """How a child went: the calls it finished and how it ended."""

    calls: tuple[_CallReply, ...]
    stdout: bytes
    stderr: bytes
    reason: str | None
    status: int
    cpu: float
    wall: float
    started: bool
    failure: str | None


def _parse_reply(header: dict[str, Any], blobs: bytes, nonce: str) -> _Reply:
    """Check a reply field by field; raises _Lost if it is not what a fork server sends."""
    if header.get("nonce") != nonce:
        raise _Lost("a reply to another request")
    if "broken" in header:
        raise _Lost(str(header["broken"])[:_STDERR_TAIL])
    try:
        lengths = [int(n) for row in header["calls"] for n in row[:3]]
        lengths += [int(n) for n in header["rest"]]
        if min(lengths) < 0 or sum(lengths) != len(blobs):
            raise _Lost("a reply of the wrong size")
        parts = []
        start = 0
        for length in lengths:
            parts.append(blobs[start : start + length])
            start += length
        calls = tuple(
            _CallReply(
                parts[3 * i], parts[3 * i + 1], parts[3 * i + 2], float(row[3]), float(row[4])
            )
            for i, row in enumerate(header["calls"])
        )
        return _Reply(
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
        raise _Lost(f"a damaged reply: {error!r}") from error


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


def _read_payload(payload: bytes, job: Job) -> dict[str, Any] | None:
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


def _cut(stdout: bytes, stderr: bytes, limit: int) -> tuple[str, str]:
    out = stdout[:limit]
    err = stderr[: limit - len(out)]
    return out.decode("utf-8", "backslashreplace"), err.decode("utf-8", "backslashreplace")


def _finished(job: Job, call: _CallReply, reply: _Reply) -> ExecutionResult:
    """The result of a call that the child reported."""
    limit = job.limits.output_bytes
    most = {"cpu": reply.cpu, "wall": reply.wall}
    stdout, stderr = _cut(call.stdout, call.stderr, limit)
    used: dict[str, Any] = {
        "stdout": stdout,
        "stderr": stderr,
        "cpu_seconds": call.cpu,
        "wall_seconds": call.wall,
    }
    if len(call.stdout) + len(call.stderr) > limit:
        return ExecutionResult("output_exceeded", detail=f"more than {limit} bytes", **used)
    fields = _read_payload(call.payload, job)
    if fields is None:
        return ExecutionResult("killed", detail=_FORGED, **used)
    # Of a call in a group only the guest itself can say how long it took: bounded by the whole.
    for name in ("cpu", "wall"):
        if name in fields and 0 <= fields[name] <= most[name]:
            used[f"{name}_seconds"] = fields[name]
    detail = fields.get("detail", "")
    record = fields.get("record")
    if fields["o"] == "returned":
        return ExecutionResult(
            "returned",
            value=fields.get("value"),
            value_type=fields.get("type"),
            unrepresentable=fields.get("unrepresentable"),
            record=record,
            detail=detail,
            **used,
        )
    return ExecutionResult(
        "memory_exceeded" if fields["o"] == "memory" else "raised",
        error_type=fields["type"],
        error_message=fields.get("message"),
        error_line=fields.get("line"),
        record=record,
        detail=detail,
        **used,
    )


def _ended(job: Job, reply: _Reply) -> ExecutionResult:
    """The result of a lone call whose child ended without reporting it."""
    outcome, detail = _why_ended(job, reply)
    stdout, stderr = _cut(reply.stdout, reply.stderr, job.limits.output_bytes)
    return ExecutionResult(
        outcome,
        stdout=stdout,
        stderr=stderr,
        detail=detail,
        cpu_seconds=reply.cpu,
        wall_seconds=reply.wall,
    )


def _why_ended(job: Job, reply: _Reply) -> tuple[Outcome, str]:
    limits = job.limits
    cpu_text = f"the CPU budget of {limits.cpu_seconds:g} s was used up"
    match reply.reason:
        case "cpu":
            return "timed_out", cpu_text
        case "wall":
            return "timed_out", f"the wall-clock budget of {limits.wall_seconds:g} s was used up"
        case "output":
            return "output_exceeded", f"more than {limits.output_bytes} bytes"
        case "processes":
            return "killed", f"more than {limits.processes} processes and threads"
        case "forged":
            return "killed", _FORGED
    if not os.WIFSIGNALED(reply.status):
        code = os.waitstatus_to_exitcode(reply.status)
        return "killed", f"left without a result (exit status {code})"
    number = os.WTERMSIG(reply.status)
    if number == signal.SIGXCPU or (number == signal.SIGKILL and reply.cpu >= limits.cpu_seconds):
        return "timed_out", cpu_text
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unnamed"
    return "killed", f"signal {number} ({name})"


# --------------------------------------------------------------------------- fork servers


def _environment(hash_seed: int, work: str) -> dict[str, str]:
    """The guest's whole environment: nothing of the host's but where its libraries are."""
    environment = {
        "PYTHONHASHSEED": str(hash_seed),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "HOME": work,
        "TMPDIR": work,
    }
    # An interpreter built with shared libraries in an unusual place needs it to start at all.
    if "LD_LIBRARY_PATH" in os.environ:
        environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return environment


class _Slot:
    """One fork server and the socket to it. Used by one thread at a time."""

    def __init__(self, hash_seed: int, python: str, layers: Sequence[str]) -> None:
        self.hash_seed = hash_seed
        self.known: set[str] = set()
        self.guarantees: Guarantees | None = None
        self._buffer = bytearray()
        self._work = tempfile.mkdtemp(prefix="sandbox-")
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._socket, theirs = socket.socketpair()
        self._socket.setblocking(False)
        config = {"isolation": _ISOLATION, "values": _VALUES, "work": self._work}
        command = [python, "-s", "-S", "-B", "-X", "utf8", _GUEST, str(theirs.fileno())]
        try:
            self.process = subprocess.Popen(
                [*command, json.dumps({**config, "layers": list(layers)})],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._stderr,
                env=_environment(hash_seed, self._work),
                cwd="/",
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        except BaseException:
            self._socket.close()
            self._stderr.close()
            os.rmdir(self._work)
            raise
        finally:
            theirs.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def is_usable(self) -> bool:
        """False if the fork server has gone, or has something to say that nobody asked for."""
        if self.guarantees is None or self._socket.fileno() < 0:
            return False
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        return not poller.poll(0)

    def submit(self, request: dict[str, Any]) -> None:
        body = json.dumps(request).encode("ascii")
        view = memoryview(_LENGTH.pack(len(body)) + body)
        deadline = time.monotonic() + _STUCK_SECONDS
        poller = select.poll()
        poller.register(self._socket, select.POLLOUT)
        while view:
            try:
                view = view[self._socket.send(view) :]
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise _Lost("it does not take its job") from None
                poller.poll(1000)
            except OSError as error:
                raise _Lost(f"it has gone ({error.strerror})") from error

    def receive(self) -> tuple[dict[str, Any], bytes] | None:
        """The next reply if it has arrived whole, else None. Raises _Lost if none can come."""
        while True:
            frame = self._take_frame()
            if frame is None:
                return None
            header, blobs = frame
            if "hello" not in header:
                return header, blobs
            self._greet(header)

    def _greet(self, header: dict[str, Any]) -> None:
        try:
            hello = header["hello"]
            self.guarantees = Guarantees(
                active=tuple(map(str, hello["active"])),
                missing=tuple(sorted((str(k), str(v)) for k, v in hello["missing"].items())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _Lost(f"a damaged greeting: {error!r}") from error
        _warn_once(self.guarantees)

    def _take_frame(self) -> tuple[dict[str, Any], bytes] | None:
        while True:
            if len(self._buffer) >= _LENGTH.size:
                (length,) = _LENGTH.unpack_from(self._buffer)
                if length > _MAX_REPLY_BYTES:
                    raise _Lost("a reply of the wrong size")
                if len(self._buffer) >= _LENGTH.size + length:
                    body = bytes(self._buffer[_LENGTH.size : _LENGTH.size + length])
                    del self._buffer[: _LENGTH.size + length]
                    return _split_body(body)
            try:
                part = self._socket.recv(1 << 18)
            except BlockingIOError:
                return None
            except OSError as error:
                raise _Lost(f"it has gone ({error.strerror})") from error
            if not part:
                raise _Lost("it has gone")
            self._buffer += part

    def wait_ready(self, seconds: float) -> Guarantees:
        """Wait for the greeting. Raises _Lost if it does not come in time."""
        deadline = time.monotonic() + seconds
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        while self.guarantees is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Lost(f"no greeting within {seconds:g} s")
            poller.poll(left * 1000)
            self.receive()
        return self.guarantees

    def last_words(self) -> str:
        """The end of what the fork server wrote on stderr: why it could not start or went away."""
        with contextlib.suppress(OSError, ValueError):
            size = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, size - _STDERR_TAIL))
            return self._stderr.read().decode("utf-8", "backslashreplace").strip()
        return ""

    def hang_up(self) -> None:
        """Close the socket: the fork server kills what runs in it and leaves."""
        self._socket.close()

    def close(self, *, kill: bool = False) -> None:
        """End the fork server and wait until it has gone."""
        self.hang_up()
        if kill:
            self.process.kill()
        try:
            self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._stderr.close()
        # Usually gone: the fork server removes it unless it was killed.
        with contextlib.suppress(FileNotFoundError):
            empty_folder(self._work)
            os.rmdir(self._work)

    def forget(self) -> None:
        """In a forked copy of the host: let go of what belongs to the original."""
        self._socket.close()
        self._stderr.close()
        self.process.returncode = 0


_warned: set[Guarantees] = set()


def _warn_once(found: Guarantees) -> None:
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


def _split_body(body: bytes) -> tuple[dict[str, Any], bytes]:
    try:
        (length,) = _LENGTH.unpack_from(body)
        header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
    except (struct.error, ValueError, RecursionError) as error:
        raise _Lost(f"a damaged reply: {error!r}") from error
    if not isinstance(header, dict):
        raise _Lost("a damaged reply")
    return header, body[_LENGTH.size + length :]


# --------------------------------------------------------------------------- the pool


class _Lock(Protocol):
    def acquire(self) -> bool: ...
    def release(self) -> None: ...


def _close_slots(slots: set[_Slot]) -> None:
    """Close many at once: all are told first, then waited for."""
    doomed = list(slots)
    slots.clear()
    for slot in doomed:
        slot.hang_up()
    for slot in doomed:
        slot.close()


class SandboxPool:
    """Fork servers behind one bound on how many jobs run at a time.

    Args:
        size: jobs that may run at a time, >= 1; default the number of usable cores.
        strict: refuse (`SandboxError`) to run anything if a wanted layer is missing.
        layers: the layers wanted, of `isolation.LAYERS`; default all.
        python: the interpreter to run programs with; default this one.

    Every method may be called from any thread. As a context manager it closes itself.
    """

    def __init__(
        self,
        size: int | None = None,
        *,
        strict: bool = False,
        layers: Iterable[str] | None = None,
        python: str | None = None,
    ) -> None:
        self.size = _usable_cores() if size is None else size
        if self.size < 1:
            raise ValueError(f"size must be >= 1, got {size!r}")
        self.strict = strict
        self.layers = tuple(LAYERS if layers is None else layers)
        unknown = sorted(set(self.layers) - set(LAYERS))
        if unknown:
            raise ValueError(f"unknown layers {unknown}; known: {', '.join(LAYERS)}")
        self.python = python or sys.executable
        if not self.python:
            raise SandboxError("this interpreter does not know its own path; pass python=")
        self._slots: set[_Slot] = set()
        self._reset()
        self._finalizer = weakref.finalize(self, _close_slots, self._slots)
        _pools.add(self)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Slot] = []
        self._queue: deque[_Lock] = deque()
        self._busy = 0
        self._closed = False
        self._failed_starts = 0

    def run(self, jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
        """Run jobs, each in a child of its own; results in the same order.

        Args:
            jobs: what to run.
            workers: at most so many at a time for this call, >= 1; never more than the pool's size.

        Raises ValueError for a job that makes no sense, OSError for a recorder that cannot be read,
        SandboxError if the pool is closed or, under `strict`, less isolated than demanded.
        """
        tasks = [_Task((number,), (job,)) for number, job in enumerate(jobs)]
        return self._perform(jobs, tasks, workers)

    def run_group(self, jobs: Sequence[Job]) -> list[ExecutionResult]:
        """Many calls of one program in one child, each in a fresh namespace, under its own budgets.

        Jobs must share `code`, `entry`, `recorder` and `hash_seed`. If a call misbehaves, the child
        is ended, that call is run again alone, and the rest go on in a new child. Whatever a call
        changes outside its namespace (a module's state) can be seen by later calls: use it for
        programs that are trusted not to, `run` for all others.
        """
        return self.run_groups([jobs])[0]

    def run_groups(
        self, groups: Sequence[Sequence[Job]], *, workers: int | None = None
    ) -> list[list[ExecutionResult]]:
        """`run_group` for many programs at once; results in the same shape."""
        flat: list[Job] = []
        tasks: list[_Task] = []
        for jobs in groups:
            tasks += _group_tasks(jobs, len(flat))
            flat += jobs
        results = iter(self._perform(flat, tasks, workers))
        return [[next(results) for _ in jobs] for jobs in groups]

    async def run_async(
        self, jobs: Sequence[Job], *, workers: int | None = None
    ) -> list[ExecutionResult]:
        """`run` for callers in an event loop; it waits in a thread of the loop's executor."""
        import asyncio

        return await asyncio.to_thread(self.run, jobs, workers=workers)

    def guarantees(self) -> Guarantees:
        """Which layers a fork server of this pool really has; starts one if none is there.

        Raises SandboxError if none can be started.
        """
        slot = self._acquire(0, block=True)
        assert slot is not None
        try:
            found = slot.wait_ready(_START_SECONDS)
        except _Lost as lost:
            text = f"the sandbox does not start: {lost}\n{slot.last_words()}"
            self._release(slot, broken=True)
            raise SandboxError(text.strip()) from lost
        self._release(slot)
        return found

    def close(self) -> None:
        """End all fork servers and remove their folders. Jobs under way in other threads finish."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            self._slots.difference_update(idle)
        _close_slots(set(idle))

    def __enter__(self) -> SandboxPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        return self._closed

    def _perform(
        self, jobs: Sequence[Job], tasks: list[_Task], workers: int | None
    ) -> list[ExecutionResult]:
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be >= 1, got {workers!r}")
        for job in jobs:
            _check_job(job)
        lanes = min(self.size, workers or self.size, max(1, len(tasks)))
        results = _Batch(self, tasks, lanes).run()
        return [results[number] for number in range(len(jobs))]

    # -- permits and fork servers

    def _acquire(self, hash_seed: int, *, block: bool) -> _Slot | None:
        """A fork server for this seed, first come first served; None if `block` is false and none
        may be used now."""
        ticket: _Lock | None = None
        with self._lock:
            if self._closed:
                raise SandboxError("this pool is closed; make a new one")
            if self._busy < self.size and not self._queue:
                self._busy += 1
            elif not block:
                return None
            else:
                ticket = threading.Lock()
                ticket.acquire()
                self._queue.append(ticket)
        if ticket is not None:
            self._wait(ticket)
        try:
            return self._take_idle(hash_seed) or self._start(hash_seed)
        except BaseException:
            with self._lock:
                self._pass_on()
            raise

    def _wait(self, ticket: _Lock) -> None:
        try:
            ticket.acquire()
        except BaseException:  # KeyboardInterrupt while waiting
            with self._lock:
                if ticket in self._queue:
                    self._queue.remove(ticket)
                else:
                    self._pass_on()
            raise

    def _pass_on(self) -> None:
        """Give a permit to whoever waits longest, else back. The lock is held."""
        if self._queue:
            self._queue.popleft().release()
        else:
            self._busy -= 1

    def _take_idle(self, hash_seed: int) -> _Slot | None:
        while True:
            with self._lock:
                if self._closed:
                    raise SandboxError("this pool is closed; make a new one")
                fitting = [slot for slot in self._idle if slot.hash_seed == hash_seed]
                if not fitting:
                    return None
                slot = fitting[-1]
                self._idle.remove(slot)
            if slot.is_usable():
                return slot
            self._discard(slot)

    def _start(self, hash_seed: int) -> _Slot:
        try:
            slot = _Slot(hash_seed, self.python, self.layers)
        except OSError as error:
            raise SandboxError(f"cannot start {self.python!r}: {error}") from error
        with self._lock:
            self._slots.add(slot)
        if self.strict:
            self._demand_all(slot)
        return slot

    def _demand_all(self, slot: _Slot) -> None:
        try:
            missing = slot.wait_ready(_START_SECONDS).missing
        except _Lost as lost:
            text = f"the sandbox does not start: {lost}\n{slot.last_words()}".strip()
            self._discard(slot)
            raise SandboxError(text) from lost
        if missing:
            self._discard(slot)
            reasons = "; ".join(f"{layer}: {why}" for layer, why in missing)
            raise SandboxError(
                f"strict: these layers are not to be had here: {reasons}. "
                "Ask for fewer (layers=) or run without strict."
            )

    def _note_start(self, greeted: bool, words: str = "") -> None:
        """A sandbox that never starts is an error, not a batch of unscored jobs."""
        with self._lock:
            self._failed_starts = 0 if greeted else self._failed_starts + 1
            failed = self._failed_starts
        if failed >= _MAX_FAILED_STARTS:
            raise SandboxError(f"the sandbox does not start ({failed} attempts): {words}")

    def _release(self, slot: _Slot, *, broken: bool = False) -> None:
        doomed: list[_Slot] = []
        with self._lock:
            if broken or self._closed:
                doomed.append(slot)
            else:
                self._idle.append(slot)
                # A few seeds at a time are in use; a fork server costs some 15 MiB.
                while len(self._idle) > 4 * self.size:
                    doomed.append(self._idle.pop(0))
            self._pass_on()
        for each in doomed:
            self._discard(each, kill=broken)

    def _discard(self, slot: _Slot, *, kill: bool = True) -> None:
        with self._lock:
            self._slots.discard(slot)
        slot.close(kill=kill)

    def _after_fork(self) -> None:
        for slot in list(self._slots):
            slot.forget()
        self._slots.clear()
        self._reset()


def _usable_cores() -> int:
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = min(cores, len(os.sched_getaffinity(0)))
    return cores


# --------------------------------------------------------------------------- one call of `run`


@dataclass(frozen=True)
class _Task:
    """Jobs that go to one child, with their places in the caller's sequence."""

    numbers: tuple[int, ...]
    jobs: tuple[Job, ...]
    attempts: int = 0

    def singles(self) -> list[_Task]:
        return [_Task((n,), (job,)) for n, job in zip(self.numbers, self.jobs, strict=True)]

    def budget(self) -> float:
        return sum(job.limits.wall_seconds for job in self.jobs)


def _group_tasks(jobs: Sequence[Job], first: int) -> list[_Task]:
    """One task per run of jobs that can share a child."""
    for job in jobs:
        for name in ("code", "entry", "recorder", "hash_seed"):
            if getattr(job, name) != getattr(jobs[0], name):
                raise ValueError(
                    f"jobs of a group must share code, entry, recorder and hash_seed; {name} "
                    "differs. Use run() for jobs that do not."
                )
    tasks: list[_Task] = []
    chars = 0
    for offset, job in enumerate(jobs):
        chars += len(job.args) + len(job.options)
        last = tasks[-1] if tasks else None
        if (
            last is not None
            and len(last.jobs) < _CALLS_PER_CHILD
            and chars <= _MAX_GROUP_CHARS
            and last.jobs[0].stdin == job.stdin
            and last.jobs[0].limits == job.limits
        ):
            tasks[-1] = _Task((*last.numbers, first + offset), (*last.jobs, job))
        else:
            tasks.append(_Task((first + offset,), (job,)))
            chars = len(job.args) + len(job.options)
    return tasks


@dataclass
class _Active:
    slot: _Slot
    task: _Task
    nonce: str
    deadline: float


class _Batch:
    """Drives the tasks of one call over the fork servers it gets, in the caller's thread."""

    def __init__(self, pool: SandboxPool, tasks: Iterable[_Task], lanes: int) -> None:
        self.pool = pool
        self.lanes = lanes
        self.waiting = deque(tasks)
        self.active: dict[int, _Active] = {}
        self.results: dict[int, ExecutionResult] = {}
        self.poller = select.poll()

    def run(self) -> dict[int, ExecutionResult]:
        try:
            while self.waiting or self.active:
                self.fill()
                self.collect()
        finally:
            # Only after an exception: what still runs has nobody left to report to.
            for active in list(self.active.values()):
                self.drop(active, broken=True)
        return self.results

    def fill(self) -> None:
        """Start waiting tasks while there is a lane for this call and a permit in the pool."""
        while self.waiting and len(self.active) < self.lanes:
            seed = self.waiting[0].jobs[0].hash_seed
            slot = self.pool._acquire(seed, block=not self.active)
            if slot is None:
                return
            self.start(slot, self.waiting.popleft())

    def start(self, slot: _Slot, task: _Task) -> None:
        budget = task.budget() + _STUCK_SECONDS
        if slot.guarantees is None:
            budget += _START_SECONDS
        active = _Active(slot, task, "", time.monotonic() + budget)
        self.active[slot.fileno()] = active
        self.poller.register(slot.fileno(), select.POLLIN)
        request = _request(task.jobs, slot.known)
        active.nonce = request["nonce"]
        try:
            slot.submit(request)
        except _Lost as lost:
            self.lose(active, str(lost))
            return
        if request["recorder"] is not None:
            slot.known.add(request["recorder"][0])

    def collect(self) -> None:
        """Wait until something can be done, and take in what has arrived."""
        if not self.active:
            return
        wait = min(active.deadline for active in self.active.values()) - time.monotonic()
        if self.waiting and len(self.active) < self.lanes:
            wait = min(wait, 0.05)  # another caller may have given a permit back
        for fd, _ in self.poller.poll(max(0.0, wait) * 1000):
            self.take(self.active[fd])
        now = time.monotonic()
        for active in list(self.active.values()):
            if now >= active.deadline:
                self.lose(active, "it did not answer in time")

    def take(self, active: _Active) -> None:
        try:
            received = active.slot.receive()
            if received is None:
                return
            reply = _parse_reply(*received, active.nonce)
        except _Lost as lost:
            self.lose(active, str(lost))
            return
        if not reply.started and reply.reason not in ("cpu", "wall"):
            self.lose(active, f"the guest could not be set up: {reply.failure}")
            return
        self.pool._note_start(True)
        self.drop(active, broken=False)
        self.settle(active.task, reply)

    def drop(self, active: _Active, *, broken: bool) -> None:
        fd = active.slot.fileno()
        self.poller.unregister(fd)
        del self.active[fd]
        self.pool._release(active.slot, broken=broken)

    def lose(self, active: _Active, why: str) -> None:
        """A job was lost to the infrastructure: once more, then say so."""
        task = active.task
        words = active.slot.last_words()
        greeted = active.slot.guarantees is not None
        self.drop(active, broken=True)
        self.pool._note_start(greeted, f"{why}\n{words}".strip())
        if task.attempts == 0:
            self.waiting.appendleft(_Task(task.numbers, task.jobs, attempts=1))
        elif len(task.jobs) > 1:
            self.waiting.extendleft(reversed(task.singles()))
        else:
            detail = f"the fork server was lost twice: {why}. {words}".strip()
            self.results[task.numbers[0]] = ExecutionResult("infrastructure", detail=detail)

    def settle(self, task: _Task, reply: _Reply) -> None:
        """Turn a reply into results; what a misbehaving child left undone waits again."""
        if len(task.jobs) == 1:
            self.results[task.numbers[0]] = _settle_single(task.jobs[0], reply)
            return
        if reply.reason == "forged" or len(reply.calls) > len(task.jobs):
            self.waiting.extendleft(reversed(task.singles()))
            return
        done = len(reply.calls)
        for number, job, call in zip(task.numbers, task.jobs, reply.calls, strict=False):
            self.results[number] = _finished(job, call, reply)
        rest = [_Task(task.numbers[done : done + 1], task.jobs[done : done + 1])]
        rest.append(_Task(task.numbers[done + 1 :], task.jobs[done + 1 :]))
        self.waiting.extendleft(each for each in reversed(rest) if each.jobs)


def _settle_single(job: Job, reply: _Reply) -> ExecutionResult:
    if reply.reason in ("forged", "output") or len(reply.calls) != 1:
        return _ended(job, reply)
    call = reply.calls[0]
    whole = _CallReply(reply.stdout, reply.stderr, call.payload, reply.cpu, reply.wall)
    return _finished(job, whole, reply)


# --------------------------------------------------------------------------- the shared pool

_pools: weakref.WeakSet[SandboxPool] = weakref.WeakSet()
_default: SandboxPool | None = None
_default_lock = threading.Lock()


def _after_fork_in_child() -> None:
    global _default_lock
    _default_lock = threading.Lock()
    for pool in list(_pools):
        pool._after_fork()


os.register_at_fork(after_in_child=_after_fork_in_child)


def default_pool() -> SandboxPool:
    """The pool that all callers in this process share; made on first use, and again if closed."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = SandboxPool()
        return _default


def run(jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
    """`SandboxPool.run` on the shared pool."""
    return default_pool().run(jobs, workers=workers)


def run_group(jobs: Sequence[Job]) -> list[ExecutionResult]:
    """`SandboxPool.run_group` on the shared pool."""
    return default_pool().run_group(jobs)


def run_groups(
    groups: Sequence[Sequence[Job]], *, workers: int | None = None
) -> list[list[ExecutionResult]]:
    """`SandboxPool.run_groups` on the shared pool."""
    return default_pool().run_groups(groups, workers=workers)


async def run_async(jobs: Sequence[Job], *, workers: int | None = None) -> list[ExecutionResult]:
    """`SandboxPool.run_async` on the shared pool."""
    return await default_pool().run_async(jobs, workers=workers)


def guarantees() -> Guarantees:
    """Which layers hold guests in on this machine: `SandboxPool.guarantees` of the shared pool."""
    return default_pool().guarantees()
