"""The fork server: a clean interpreter that forks one guest per request and tells the host how it went.

Covers loading what programs use, the service loop (one request at a time), and the fork. Does not
cover what the guest does (`performer.py`), watching it (`watch.py`), nor how it is held in
(`isolation.py`).

Loaded by path by `guest.py`, so it uses the standard library alone.
"""

from __future__ import annotations

import _sitebuiltins
import builtins
import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple, NoReturn

from rewards.sandbox.cell import Cell
from rewards.sandbox.isolation import HIGHEST_FD, Limit, Prison
from rewards.sandbox.kernel import Step
from rewards.sandbox.performer import Performer, Shared, Streams, rehearse
from rewards.sandbox.report import PROGRAM_NAME
from rewards.sandbox.watch import End, HostGone, Pipes, Watch
from rewards.sandbox.wire import (
    CONTROL_FD,
    FEWEST_FILES,
    LENGTH,
    MAX_REQUEST_BYTES,
    NULL_FD,
    PROC_FD,
    RESULT_FD,
    RULES_FD,
    START,
    STATM_FD,
    Call,
    Frames,
    Request,
    write_all,
)

Load = Callable[[str, str, str], ModuleType]
"""Makes a module of (name, path, source) that programs can neither find nor patch."""

# Address space beyond the job's budget that only the report may use: a program that ran out of
# memory must still be able to say so.
REPORT_RESERVE_BYTES = 64 << 20
# What the compiler may take before the fork. A few nested `finally` make it write code by the gigabyte.
_COMPILER_BYTES = 32 << 20

# Bound now: a guest uses it after the program has run, which may have changed `os`.
_leave = os._exit
_monotonic, _thread_time = time.monotonic, time.thread_time
_HELD_BYTES = 1 << 16
_quote = json.encoder.encode_basestring_ascii


class Prepared(NamedTuple):
    """A request with what can be made for it ahead of its turn."""

    request: Request
    sentence: list[Step]
    performer: Performer
    watch: Watch


class Desk:
    """What lies here of other requests than the one that runs: no guest may see it.

    A guest can follow frames and attributes to whatever its fork server could, so a child lets go of
    its desk (`Zygote.become_child`). What is left of it in the child's memory is found by nobody who
    does not search that byte by byte, as `ctypes` and, for some users, /proc/self/mem allow; therefore
    no fork server meets what a program is expected to give together with such a program (`Job.apart`).
    """

    def __init__(self) -> None:
        self.frames = Frames(CONTROL_FD, MAX_REQUEST_BYTES)
        self.ready: list[Prepared | str] = []
        """Requests to be run, the next one last; a text is an answer already."""
        self.ended: list[tuple[Prepared, End] | str] = []
        """What the host has not been told yet. Whole, since to free something is to write to it: better
        for all of them at once."""
        self.held = 0
        """Bytes of it, about."""


class Zygote:
    """Serves one request at a time until the host goes away."""

    def __init__(
        self, config: dict[str, Any], values: ModuleType, load: Load, gaps: list[object]
    ) -> None:
        self.values = values
        self.gaps = gaps
        self.desk = Desk()
        self.load = load
        self.recorders: dict[str, ModuleType] = {}
        self.prison = Prison(
            config["layers"],
            config["work"],
            sys.path,
            rules_fd=RULES_FD,
            statm_fd=STATM_FD,
            proc_fd=PROC_FD,
        )
        self.cell = Cell(self.prison)

    def prepare(self) -> None:
        """Enter the isolation, rehearse, freeze what the children share."""
        sys.argv[:] = [PROGRAM_NAME]
        # What the host ignores or blocks is inherited; a child that nobody may wait for cannot be reaped.
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for usual in (signal.SIGCHLD, signal.SIGXCPU):
            signal.signal(usual, signal.SIG_DFL)
        for name in ("exit", "quit"):
            # `-S` leaves out `site`, which defines these two; programs use them.
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
        for handled in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(handled, signal.SIG_IGN)
        for handled in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(handled, signal.SIG_IGN)
        self.prison.enter()
        for ours in ("LD_LIBRARY_PATH", "LD_BIND_NOW"):
            os.environ.pop(ours, None)
        os.environ["HOME"] = os.environ["TMPDIR"] = self.prison.work
        self.shared = Shared(self.values, self.open_streams())
        self.shared.streams.use()
        self.rehearse()
        if self.prison.kernel is not None:
            # A child that lets go of it is not to take it apart, which would copy a lot of memory.
            self.prison.kernel.keep(self.desk)
            self.prison.kernel.stay_frozen()
        gc.unfreeze = _stay_frozen
        self.gaps.clear()
        gc.freeze()

    def rehearse(self) -> None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, RESULT_FD)
        rehearse(self.shared)
        os.close(RESULT_FD)
        os.close(null)

    @staticmethod
    def open_streams() -> Streams:
        """Streams over a pipe, as in a child: what they ask of a descriptor, they ask only once."""
        kept = [os.dup(fd) for fd in (1, 2)]
        reader, writer = os.pipe()
        os.dup2(writer, 1)
        os.dup2(writer, 2)
        streams = Streams.open()
        for number, fd in zip((1, 2), kept, strict=True):
            os.dup2(fd, number)
        for fd in (*kept, reader, writer):
            os.close(fd)
        return streams

    def serve(self) -> None:
        """Requests that have come together are made ready together, run in turn, answered together.

        After a fork this process pays again for every page that it writes to, so there is as little
        as possible between one fork and the next.
        """
        while self.receive():
            try:
                # Nothing of the others in a variable here: a guest can look at those of its callers.
                while self.desk.ready:
                    self.serve_one(self.desk.ready.pop())
            except HostGone:
                return
            self.send_answers()

    def receive(self) -> bool:
        """Take in the requests that have come together; false if the host has gone."""
        bodies = self.desk.frames.bundle()
        # In the order of sending: the first to need a recorder brings its text.
        ready = [self.prepare_request(json.loads(body)) for body in bodies]
        with self.cell.little_memory(_COMPILER_BYTES):
            for each in ready:
                if not isinstance(each, str) and each.request.early:
                    each.performer.compile_early()
        self.desk.ready += reversed(ready)
        return bool(bodies)

    def serve_one(self, prepared: Prepared | str) -> None:
        if isinstance(prepared, str):
            self.desk.ended.append(prepared)
            return
        answer: tuple[Prepared, End] | str
        try:
            # In two steps: what this function is about to call lies on a stack that the child has too.
            answer = prepared, self.execute(prepared)
        except OSError as error:
            answer = _broken(prepared.request.nonce.hex(), error)
        self.desk.ended.append(answer)
        self.desk.held += prepared.watch.fetched + len(prepared.request.code)
        if self.desk.held > _HELD_BYTES:
            # What is held here would be in the next child, too.
            self.send_answers()

    def send_answers(self) -> None:
        """What the host waits for; answers to requests that came together go together."""
        data = bytearray()
        for answer in self.desk.ended:
            header, blobs = (
                (answer, []) if isinstance(answer, str) else _reply(answer[0].watch, answer[1])
            )
            text = header.encode("ascii")
            data += LENGTH.pack(LENGTH.size + len(text) + sum(map(len, blobs)))
            data += LENGTH.pack(len(text)) + text
            for blob in blobs:
                data += blob
        self.desk.ended.clear()
        self.desk.held = 0
        if data:
            write_all(CONTROL_FD, data)

    def request(self, raw: dict[str, Any]) -> Request:
        recorder = None
        if raw["recorder"] is not None:
            digest, path, source = raw["recorder"]
            if digest not in self.recorders:
                self.recorders[digest] = self.load("_sandbox_recorder", path, source)
            recorder = self.recorders[digest]
        return Request(
            nonce=bytes.fromhex(raw["nonce"]),
            code=raw["code"],
            entry=raw["entry"],
            stdin=raw["stdin"],
            recorder=recorder,
            memory_bytes=raw["memory_bytes"],
            output_bytes=raw["output_bytes"],
            file_bytes=raw["file_bytes"],
            processes=raw["processes"],
            calls=tuple(Call(*call) for call in raw["calls"]),
            early=raw["early"],
        )

    def prepare_request(self, raw: dict[str, Any]) -> Prepared | str:
        """Whatever can be made before the fork, or an answer that says why it cannot."""
        try:
            request = self.request(raw)
            sentence = self.cell.sentence(request)
            performer = Performer(request, self.shared)
        except Exception as error:  # a recorder that cannot be loaded is the host's
            return _broken(raw["nonce"], error)
        watch = Watch(request, self.cell, self.send_answers)
        return Prepared(request, sentence, performer, watch)

    def execute(self, prepared: Prepared) -> End:
        """Fork a child for a request and follow it to its end."""
        request, sentence, performer, watch = prepared
        self.cell.clean_folder()
        performer.take_the_stage()
        # Now and not earlier: the child has what is here now, and its budget is what comes on top.
        memory = self.cell.memory(request, REPORT_RESERVE_BYTES)
        performer.memory = memory[1]
        stdin = self.open_stdin(request.stdin) if request.stdin else NULL_FD
        pipes = Pipes.open()
        try:
            steps = self.steps(sentence, memory, pipes, stdin)
            watch.begin(pipes)
            # When the guest's collector runs must not depend on what was made here.
            gc.freeze()
            pid = os.fork()
            if pid == 0:
                self.become_child(performer, steps)
            return watch.follow(pid)
        finally:
            pipes.close_readers()
            if stdin != NULL_FD:
                os.close(stdin)

    def open_stdin(self, text: str) -> int:
        """A real, seekable file with the job's standard input."""
        data = text.encode("utf-8", "surrogatepass")
        fd = int(self.cell.anonymous_file())
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def steps(self, sentence: list[Step], memory: Limit, pipes: Pipes, stdin: int) -> list[Step]:
        """What makes a child a guest."""
        return [
            (os.setsid, ()),
            (os.dup2, (stdin, 0)),
            (os.dup2, (pipes.stdout[1], 1)),
            (os.dup2, (pipes.stderr[1], 2)),
            (os.dup2, (pipes.result[1], RESULT_FD, False)),
            *([(resource.setrlimit, memory)] if self.cell.bounds_memory else []),
            *sentence,
            (os.closerange, (3, RESULT_FD)),
            (os.closerange, (RESULT_FD + 1, HIGHEST_FD)),
        ]

    def become_child(self, performer: Performer, steps: list[Step]) -> NoReturn:
        """Never returns: set up, run, report, leave without any of the interpreter's farewells."""
        try:
            try:
                del self.desk
                for function, arguments in steps:
                    if function(*arguments) == -1:
                        raise self.cell.refused()
                if performer.request.processes:
                    # What the guest starts by forking must not be able to speak for it.
                    os.register_at_fork(after_in_child=lambda: os.close(RESULT_FD))
                performer.send(b"S", START.pack(_monotonic(), _thread_time()))
            except BaseException as error:  # told to the zygote as a failure
                performer.send(b"F", f"{type(error).__name__}: {error}".encode("utf-8", "replace"))
                _leave(72)
            gc.enable()
            performer.run()
            _leave(0)
        finally:
            _leave(71)


def main(
    control: int, config: dict[str, Any], values: ModuleType, load: Load, gaps: list[object]
) -> None:
    """Serve the host behind the socket `control` until it goes away.

    `config` names the layers wanted (`layers`) and the folder for private working folders (`work`);
    `gaps` is dropped once there is nothing more to be made that all children look at.
    """
    _make_room()
    _park(control, CONTROL_FD)
    _park(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), NULL_FD)
    zygote = Zygote(config, values, load, gaps)
    zygote.prepare()
    zygote.desk.ended.append(json.dumps({"hello": zygote.prison.summary()}))
    zygote.send_answers()
    try:
        zygote.serve()
    finally:
        zygote.prison.leave()
    _leave(0)


def _stay_frozen() -> None:
    """In place of `gc.unfreeze`: the collector would list what the fork server holds."""


def _json_text(text: str | None) -> str:
    return "null" if text is None else _quote(text)


def _broken(nonce: str, error: Exception) -> str:
    return json.dumps({"nonce": nonce, "broken": f"{type(error).__name__}: {error}"})


def _reply(watch: Watch, end: End) -> tuple[str, list[bytes]]:
    """Header and contents of what is said of a child that has ended."""
    blobs: list[bytes] = []
    rows = []
    for out, err, payload, cpu, wall in watch.calls:
        blobs += [out, err, payload]
        rows.append([len(out), len(err), len(payload), cpu, wall])
    rest = [bytes(watch.stdout), bytes(watch.stderr)]
    blobs += rest
    # JSON by hand: the general way costs as much as the fork.
    header = (
        f'{{"nonce":"{watch.request.nonce.hex()}","calls":{rows},'
        f'"rest":{[len(part) for part in rest]},"reason":{_json_text(watch.reason)},'
        f'"started":{int(watch.started)},"failure":{_json_text(watch.failure)},'
        f'"status":{end.status},"cpu":{end.cpu_seconds},"wall":{end.wall_seconds}}}'
    )
    return header, blobs


def _make_room() -> None:
    """See to it that there are enough descriptors. Raises OSError if they are not to be had."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FEWEST_FILES:
        raise OSError(
            f"a fork server needs {FEWEST_FILES} descriptors, {hard} are allowed (ulimit -n)"
        )
    if soft != resource.RLIM_INFINITY and soft < FEWEST_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (FEWEST_FILES, hard))


def _park(fd: int, number: int) -> int:
    """Move a descriptor to a fixed high number."""
    if fd != number:
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
    return number
