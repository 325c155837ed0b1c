"""The same jobs on somebody else's machine: an executor over the HTTP API of SandboxFusion.

Covers `POST /run_code` as SandboxFusion serves it (and what speaks its language): the request is a
Python program that starts one of our own fork servers over there (`relay.py`), so limits, outcomes,
recorders, grouped calls and the layers that can be had are the same as here; the reply is read with
the same distrust. What the server, the network or the program's start get wrong is lost and tried once
more, then reported as an infrastructure failure, never as the program's fault.

Does not cover other languages or files. The server needs Python 3.10 or later as `python`. A server
behind TLS or a token: give an https URL and `headers`. Proxies of the environment are honoured, as by
`urllib`.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import secrets
import threading
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from http.client import HTTPException
from pathlib import Path
from typing import Any

from rewards.sandbox.batch import Settled, Task, group_tasks, lost, settle
from rewards.sandbox.executor import Executor, SandboxError, check_arguments
from rewards.sandbox.jobs import ExecutionResult, Guarantees, Job
from rewards.sandbox.protocol import (
    STDERR_TAIL,
    Kind,
    Lost,
    parse_hello,
    parse_reply,
    request_for,
    split_body,
    warn_once,
)
from rewards.sandbox.server import GUEST, MODULES, environment
from rewards.sandbox.wire import MAX_REPLY_BYTES

_START_SECONDS = 90.0
"""Beyond the budgets of the jobs: two interpreters and a fork server that start over there."""
_OWN_MEMORY_MB = 1024
"""Beyond the memory of a job: address space of the fork server and of its report."""
_PAUSE_SECONDS = 0.5
_TRY_AGAIN = (408, 425, 429)
"""HTTP statuses of a client's fault that are none: too slow, too early, too many."""


class RemotePool(Executor):
    """Runs jobs on a server that speaks SandboxFusion's `POST /run_code`.

    Args:
        url: the server, for example `http://localhost:8080`.
        size: requests that may be under way at a time, >= 1.
        strict: refuse (`SandboxError`) if a wanted layer is missing over there.
        layers: the layers wanted, of `kernel.LAYERS`; default all.
        headers: sent with every request, for example a token.
        jobs_per_request: jobs that one request may carry, >= 1. Every request starts two
            interpreters, some 0.2 s; jobs of one request run one after the other.
        patience: seconds to wait for an answer beyond what the request may take, > 0: queueing at
            the server happens in that time.
    """

    def __init__(
        self,
        url: str,
        *,
        size: int = 8,
        strict: bool = False,
        layers: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
        jobs_per_request: int = 16,
        patience: float = 60.0,
    ) -> None:
        super().__init__()
        if not url.startswith(("http://", "https://")):
            raise ValueError(f"url must begin with http:// or https://, got {url!r}")
        if not (patience > 0 and math.isfinite(patience)):
            raise ValueError(f"patience must be finite and > 0, got {patience!r}")
        self.url = url.rstrip("/") + "/run_code"
        self.size = size
        self.strict = strict
        self.layers = check_arguments(layers, size=size, jobs_per_request=jobs_per_request)
        self.headers = dict(headers or {})
        self.jobs_per_request = jobs_per_request
        self.patience = patience
        self._closed = False
        self._reached = False
        self._permits = threading.BoundedSemaphore(size)

    def _run(
        self, jobs: Sequence[Job], workers: int | None, stop: threading.Event | None
    ) -> list[ExecutionResult]:
        tasks = [Task((number,), (job,)) for number, job in enumerate(jobs)]
        return self._perform(jobs, tasks, workers, stop)

    def run_groups(
        self, groups: Sequence[Sequence[Job]], *, workers: int | None = None
    ) -> list[list[ExecutionResult]]:
        """As `SandboxPool.run_groups`."""
        flat: list[Job] = []
        tasks: list[Task] = []
        for jobs in groups:
            tasks += group_tasks(jobs, len(flat))
            flat += jobs
        results = iter(self._perform(flat, tasks, workers, None))
        return [[next(results) for _ in jobs] for jobs in groups]

    def guarantees(self) -> Guarantees:
        """Which layers a fork server over there really has.

        Raises SandboxError if the server cannot be reached or starts none.
        """
        try:
            hello, _ = self._exchange([], kind=Kind(0), seconds=0.0, memory_mb=0)
        except Lost as reason:
            raise SandboxError(f"no sandbox at {self.url}: {reason}") from reason
        return hello

    def close(self) -> None:
        """Take no more jobs. Nothing is left running: every request ends what it starts."""
        self._closed = True
        self._end_threads()

    @property
    def closed(self) -> bool:
        return self._closed

    def _after_fork(self) -> None:
        super()._after_fork()
        self._permits = threading.BoundedSemaphore(self.size)

    # -- rounds of requests

    def _perform(
        self,
        jobs: Sequence[Job],
        tasks: list[Task],
        workers: int | None,
        stop: threading.Event | None,
    ) -> list[ExecutionResult]:
        from concurrent.futures import ThreadPoolExecutor

        self._admit(jobs, workers)
        lanes = min(self.size, workers or self.size)
        stop = stop or threading.Event()
        results: dict[int, ExecutionResult] = {}
        while tasks and not stop.is_set():
            bundles = _bundles(tasks, lanes, self.jobs_per_request)
            with ThreadPoolExecutor(min(lanes, len(bundles))) as threads:
                rounds = list(threads.map(lambda bundle: self._send(bundle, stop), bundles))
            tasks = []
            for settled in (each for settlements in rounds for each in settlements):
                results.update(settled.results)
                tasks += settled.again
            if any(task.attempts for task in tasks):
                stop.wait(_PAUSE_SECONDS)  # what failed a moment ago fails again at once
        return [] if stop.is_set() else [results[number] for number in range(len(jobs))]

    def _send(self, bundle: Sequence[Task], stop: threading.Event) -> list[Settled]:
        """What became of the tasks of one request."""
        if stop.is_set():
            return []
        known: set[str] = set()
        requests = []
        for task in bundle:
            requests.append(request_for(task.jobs, known, early=not task.attempts))
            if requests[-1]["recorder"] is not None:
                known.add(requests[-1]["recorder"][0])
        try:
            _, frames = self._exchange(
                requests,
                kind=Kind.of(bundle[0].jobs[0]),
                seconds=sum(task.budget() for task in bundle),
                memory_mb=max(job.limits.memory_mb for task in bundle for job in task.jobs),
            )
        except Lost as reason:
            if not self._reached and bundle[0].attempts:
                raise SandboxError(f"no sandbox at {self.url}: {reason}") from reason
            return [lost(task, str(reason)) for task in bundle]
        return [
            self._settle(task, frames.get(request["nonce"]), request["nonce"])
            for task, request in zip(bundle, requests, strict=True)
        ]

    def _settle(self, task: Task, frame: bytes | None, nonce: str) -> Settled:
        if frame is None:
            return lost(task, "the server's answer does not hold it")
        try:
            reply = parse_reply(*split_body(frame), nonce)
        except Lost as reason:
            return lost(task, str(reason))
        if not reply.started:
            why = reply.failure or reply.reason
            return lost(task, f"the guest could not be set up: {why}")
        return settle(task, reply)

    # -- one request

    def _exchange(
        self, requests: Sequence[dict[str, Any]], *, kind: Kind, seconds: float, memory_mb: int
    ) -> tuple[Guarantees, dict[str, bytes]]:
        """Have a fork server over there answer requests; its layers, and the replies by nonce.

        Raises Lost if the answer is none, SandboxError if trying again is of no use.
        """
        nonce = secrets.token_hex(16)
        order = {
            "nonce": nonce,
            "layers": list(self.layers),
            "preload": kind.preload(),
            "environment": environment(kind.hash_seed, ""),
            "requests": list(requests),
        }
        run_timeout = seconds + _START_SECONDS
        body = {
            "code": _program(),
            "language": "python",
            "compile_timeout": _START_SECONDS,
            "run_timeout": run_timeout,
            "stdin": json.dumps(order),
            "memory_limit_MB": memory_mb + _OWN_MEMORY_MB,
        }
        with self._permits:
            answer = self._post(json.dumps(body).encode("ascii"), run_timeout + self.patience)
        frames = _frames(_printed(answer), nonce)
        if "hello" not in frames:
            raise Lost(f"no fork server started there: {_last_words(answer)}")
        hello = parse_hello(split_body(frames.pop("hello"))[0].get("hello"))
        self._reached = True
        if self.strict and hello.missing:
            reasons = "; ".join(f"{layer}: {why}" for layer, why in hello.missing)
            raise SandboxError(f"strict: {self.url} does not have these layers: {reasons}")
        warn_once(hello)
        return hello, frames

    def _post(self, body: bytes, seconds: float) -> dict[str, Any]:
        request = urllib.request.Request(
            self.url, body, {"Content-Type": "application/json", **self.headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=seconds) as response:
                text = response.read(MAX_REPLY_BYTES + 1)
        except urllib.error.HTTPError as error:
            with error:
                words = error.read(STDERR_TAIL).decode("utf-8", "replace").strip()
            why = f"HTTP {error.code} {error.reason}: {words}"
            if 400 <= error.code < 500 and error.code not in _TRY_AGAIN:
                raise SandboxError(f"{self.url} refuses the request: {why}") from error
            raise Lost(why) from error
        except (OSError, HTTPException) as error:
            raise Lost(f"{self.url} cannot be reached: {error}") from error
        try:
            answer = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise Lost(f"an answer that is no JSON: {error}") from error
        if not isinstance(answer, dict):
            raise Lost("an answer that is no JSON object")
        return answer


def _bundles(tasks: Sequence[Task], lanes: int, most: int) -> list[list[Task]]:
    """Tasks by request: of one kind, spread over the lanes; what was lost before goes alone."""
    size = min(most, max(1, math.ceil(len(tasks) / lanes)))
    bundles: list[list[Task]] = []
    open_bundles: dict[Kind, list[Task]] = {}
    for task in tasks:
        kind = Kind.of(task.jobs[0])
        bundle = None if task.attempts else open_bundles.get(kind)
        if bundle is None or len(bundle) >= size:
            bundle = []
            bundles.append(bundle)
            if not task.attempts:
                open_bundles[kind] = bundle
        bundle.append(task)
    return bundles


@cache
def _program() -> str:
    """The text that starts a fork server wherever it is run."""
    modules = [
        [name, f"<{name}>", Path(path).read_text(encoding="utf-8")]
        for name, path in MODULES.items()
    ]
    loaded = json.dumps([Path(GUEST).read_text(encoding="utf-8"), modules]).encode("ascii")
    packed = base64.b64encode(zlib.compress(loaded, 9)).decode("ascii")
    relay = Path(GUEST).with_name("relay.py").read_text(encoding="utf-8")
    return f"{relay}\n\nmain(*json.loads(zlib.decompress(base64.b64decode({packed!r}))))\n"


def _printed(answer: dict[str, Any]) -> str:
    """What the relay printed, if the server ran it at all; raises Lost with its reason otherwise."""
    status, result = answer.get("status"), answer.get("run_result")
    if status not in ("Success", "Failed") or not isinstance(result, dict):
        raise Lost(f"the server says {status!r}: {str(answer.get('message'))[:STDERR_TAIL]}")
    if result.get("status") != "Finished":
        raise Lost(f"the server ended it: {result.get('status')!r}")
    printed = result.get("stdout")
    if not isinstance(printed, str):
        raise Lost("an answer without output")
    return printed


def _last_words(answer: dict[str, Any]) -> str:
    result = answer.get("run_result")
    return str(result.get("stderr") if isinstance(result, dict) else "")[-STDERR_TAIL:].strip()


def _frames(printed: str, nonce: str) -> dict[str, bytes]:
    """Name -> body of the frames in the relay's output; those that are damaged are left out."""
    found: dict[str, bytes] = {}
    for line in printed.split("\n"):
        words = line.split(" ")
        if len(words) != 4 or words[0] != nonce or words[2] != str(len(words[3])):
            continue  # the last may be cut off: servers keep so much output and no more
        unpacked = zlib.decompressobj()
        try:
            body = unpacked.decompress(base64.b64decode(words[3], validate=True), MAX_REPLY_BYTES)
        except (binascii.Error, zlib.error):
            continue
        if unpacked.eof:
            # Without the length in front, which only a socket needs.
            found[words[1]] = body
    return found
