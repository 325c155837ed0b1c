"""The fork server and, after a fork, the guest itself: the only file that shares a process with
untrusted code.

Covers: the zygote's service loop (one job at a time, one forked child per job or per group of
calls), watching that child from outside (CPU, wall clock, output, exit), and what the child does:
run the program, make the host's call, say what came of it. Does not cover which jobs run where
(`pool.py`) nor how a process is held in (`isolation.py`). Knows nothing of what a job is expected to
return, so there is nothing here for a program to steal.

Run by path with a bare interpreter; uses the standard library alone. Started as

    guest.py CONTROL_FD CONFIG_JSON

where CONFIG_JSON names the files to load (`isolation`, `values`), the layers wanted and the folder
for private working folders.

Host and zygote exchange frames over the control socket: 4 bytes length, then the body. A request is
JSON. A reply is 4 bytes length of a JSON header, the header, and the bytes it counts. The child
talks to the zygote through a pipe of its own: 16 bytes nonce, 1 byte kind, 4 bytes length, payload;
kinds are S (the program is about to start), R (one call is done) and F (could not set up).

Recorder protocol. A recorder is the host's own self-contained Python file; its text is sent by the
host, and it is loaded before the fork. It defines

    class Recorder:
        def __init__(self, source: str, options: dict) -> None
        def compile(self, filename: str) -> types.CodeType
        def namespace(self) -> dict[str, object]
        def call(self, function, args: tuple, kwargs: dict) -> object
        def report(self) -> dict          # JSON-able; asked for after `call`, also when that raised

and is instantiated once per call.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Running a file by path puts its folder first on the path (-P exists from 3.11 only), and what
    # this module defines from here on must not look names up in the `builtins` that the program is
    # free to change: functions take their builtins from this key when they are made.
    import builtins as _shared_builtins

    sys.path[:] = [p for p in sys.path[1:] if p and not p.endswith("site-packages")]
    globals()["__builtins__"] = dict(vars(_shared_builtins))

import _sitebuiltins
import ast
import builtins
import gc
import io
import json
import linecache
import os
import resource
import select
import signal
import struct
import time
import warnings
from types import CodeType, MemberDescriptorType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rewards.sandbox import isolation as isolation_module

# What programs import most. Loading it here once also halves the price of a fork: less is loaded,
# and so fewer pages are copied, in the child.
PRELOADED = (
    "abc",
    "array",
    "bisect",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "inspect",
    "io",
    "itertools",
    "json",
    "linecache",
    "math",
    "numbers",
    "operator",
    "os",
    "random",
    "re",
    "statistics",
    "string",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
)

PROGRAM_NAME = "<program>"
ARGUMENTS_NAME = "<arguments>"

# Long-lived descriptors live high up, out of the way of 0, 1, 2 and of what programs open.
RESULT_FD = 100
NULL_FD = 110
CONTROL_FD = 111
STATM_FD = 112
RULES_FD = 113

CHILD_HEADER = struct.Struct(">16scI")
LENGTH = struct.Struct(">I")
MAX_RESULT_BYTES = 16 << 20
MAX_REQUEST_BYTES = 64 << 20
MAX_MESSAGE_CHARS = 1000
# Address space beyond the job's budget that only the report may use: a program that ran out of
# memory must still be able to say so.
REPORT_RESERVE_BYTES = 64 << 20
READ_BYTES = 65_536

Fields = dict[str, "str | int | float | None"]
"""What is said of one call: a flat record, so that nothing nested has to be trusted."""

# Everything the child needs after the program has run, held where the program's own changes to
# modules do not reach.
_write = os.write
_leave = os._exit
_quote = json.encoder.encode_basestring_ascii
# Straight to the slots: an attribute of a program's class may be a property, that is, its code.
_type_name: Callable[[type], str] = type.__dict__["__name__"].__get__
_bases: Callable[[type], tuple[type, ...]] = type.__dict__["__mro__"].__get__
_attributes: Callable[[type], Mapping[str, Any]] = type.__dict__["__dict__"].__get__
_traceback: Callable[[BaseException], TracebackType | None]
_traceback = vars(BaseException)["__traceback__"].__get__
_arguments: Callable[[BaseException], tuple[object, ...]] = vars(BaseException)["args"].__get__
_syntax_filename: Callable[[BaseException], object] = vars(SyntaxError)["filename"].__get__
_syntax_line: Callable[[BaseException], object] = vars(SyntaxError)["lineno"].__get__
_setrlimit = resource.setrlimit
_set_recursion_limit = sys.setrecursionlimit
_get_trace, _set_trace = sys.gettrace, sys.settrace
_get_profile, _set_profile = sys.getprofile, sys.setprofile
# Of the thread: RLIMIT_CPU makes the clock of the whole process advance in timer ticks only.
_cpu_clock = time.thread_time
_perf_counter = time.perf_counter
_modules = sys.modules
_forget_warnings: Callable[[], None] = getattr(warnings, "_filters_mutated", lambda: None)
_RECURSION_LIMIT = sys.getrecursionlimit()
_BUILTIN_ERRORS = frozenset(
    t for t in vars(builtins).values() if isinstance(t, type) and issubclass(t, BaseException)
)
_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, complex, type(None)})


def _report_encoder() -> Callable[[object], str]:
    """A JSON encoder bound now, so that a program that patches `json` cannot change it."""
    try:
        from _json import make_encoder
    except ImportError:
        return json.JSONEncoder(separators=(",", ":")).encode

    def refuse(value: object) -> NoReturn:
        raise TypeError(f"a recorder's report must be JSON-able, found {_type_name(type(value))}")

    encode = make_encoder(None, refuse, _quote, None, ":", ",", False, False, True)
    join = "".join
    return lambda value: join(encode(value, 0))


_encode_report = _report_encoder()


# --------------------------------------------------------------------------- frames


def write_all(fd: int, data: bytes) -> None:
    """Write every byte of `data` to a blocking descriptor."""
    view = memoryview(data)
    while view:
        view = view[_write(fd, view) :]


def read_exactly(fd: int, count: int) -> bytes | None:
    """Read `count` bytes, or None if the other side has gone."""
    parts = bytearray()
    while len(parts) < count:
        part = os.read(fd, min(count - len(parts), 1 << 20))
        if not part:
            return None
        parts += part
    return bytes(parts)


def _park(fd: int, number: int) -> int:
    """Move a descriptor to a fixed high number."""
    if fd != number:
        os.dup2(fd, number, inheritable=False)
        os.close(fd)
    return number


def load_file(name: str, path: str, source: str | None = None) -> ModuleType:
    """Run a self-contained host file as a module that the program cannot find or patch.

    It gets a private copy of the builtins and is gone from `sys.modules` afterwards.
    """
    if source is None:
        with open(path, encoding="utf-8") as file:
            source = file.read()
    module = ModuleType(name)
    module.__file__ = path
    module.__dict__["__builtins__"] = dict(vars(builtins))
    sys.modules[name] = module
    try:
        exec(compile(source, path, "exec"), module.__dict__)
    finally:
        sys.modules.pop(name, None)
    return module


# --------------------------------------------------------------------------- requests


class Call(NamedTuple):
    """One call of a request: the only things that differ inside a group."""

    args: str
    options: str
    cpu_seconds: float
    wall_seconds: float


class Request(NamedTuple):
    """What the host asks for: one program and one or more calls, all in one child."""

    nonce: bytes
    code: str
    entry: str | None
    stdin: str
    recorder: ModuleType | None
    memory_bytes: int
    output_bytes: int
    file_bytes: int
    processes: int
    calls: tuple[Call, ...]

    @property
    def grouped(self) -> bool:
        return len(self.calls) > 1

    @property
    def marker(self) -> bytes:
        """Ends one call's output on stdout and stderr of a group."""
        return b"\0" + self.nonce + b"\0"


# --------------------------------------------------------------------------- the child


class Streams(NamedTuple):
    """Standard streams over descriptors 0, 1 and 2, which they never close."""

    stdin: io.TextIOWrapper
    stdout: io.TextIOWrapper
    stderr: io.TextIOWrapper

    @classmethod
    def open(cls) -> Streams:
        def wrap(fd: int, errors: str) -> io.TextIOWrapper:
            raw = io.FileIO(fd, "w" if fd else "r", closefd=False)
            buffer = io.BufferedWriter(raw) if fd else io.BufferedReader(raw)
            return io.TextIOWrapper(buffer, "utf-8", errors, line_buffering=fd == 2)

        return cls(wrap(0, "strict"), wrap(1, "strict"), wrap(2, "backslashreplace"))

    def use(self) -> None:
        sys.stdin = sys.__stdin__ = self.stdin  # type: ignore[misc]
        sys.stdout = sys.__stdout__ = self.stdout  # type: ignore[misc]
        sys.stderr = sys.__stderr__ = self.stderr  # type: ignore[misc]


class Shared(NamedTuple):
    """Made once in the zygote for its children: making it anew in each would copy more memory."""

    values: ModuleType
    streams: Streams
    builtins: dict[str, Any]
    modules: dict[str, ModuleType]
    lists: tuple[tuple[list[Any], list[Any]], ...]
    """Lists that programs change, each with what belongs in it."""

    @classmethod
    def take(cls, values: ModuleType, streams: Streams) -> Shared:
        modules = {name: kept for name, kept in _modules.items() if name != "__main__"}
        changed = (sys.path, sys.meta_path, sys.path_hooks, sys.argv, warnings.filters)
        lists = tuple((each, list(each)) for each in changed if isinstance(each, list))
        return cls(values, streams, dict(vars(builtins)), modules, lists)


class Performer:
    """Runs the calls of one request inside the forked child and reports each."""

    def __init__(
        self, request: Request, shared: Shared, prison: Any, memory: tuple[int, int]
    ) -> None:
        self.request = request
        self.shared = shared
        self.streams = shared.streams
        self.canonical: Callable[[object], str] = shared.values.canonical
        self.unrepresentable: type[Exception] = shared.values.Unrepresentable
        self.clean_folder: Callable[[], None] = prison.clean_folder
        self.work: str = prison.work
        self.memory = memory
        self.code: CodeType | None = None

    def run(self) -> None:
        """Every call in order, one result frame each."""
        for number, call in enumerate(self.request.calls):
            if number:
                self.restore()
                self.streams = Streams.open()
                self.streams.use()
            cpu, wall = _cpu_clock(), _perf_counter()
            fields = self.perform(call)
            self.flush()
            if self.request.grouped:
                # For information: the zygote keeps the budgets, but looks too rarely to tell how
                # short calls differ.
                fields["cpu"] = _cpu_clock() - cpu
                fields["wall"] = _perf_counter() - wall
                marker = self.request.marker
                write_all(1, marker)
                write_all(2, marker)
            self.send(b"R", _encode(fields))

    def send(self, kind: bytes, payload: bytes) -> None:
        write_all(RESULT_FD, CHILD_HEADER.pack(self.request.nonce, kind, len(payload)) + payload)

    def restore(self) -> None:
        """Between the calls of a group: undo what a program commonly leaves behind."""
        self.end_of_program()
        if self.memory[0] != self.memory[1]:
            _setrlimit(resource.RLIMIT_AS, self.memory)
        for live, clean in self.shared.lists:
            live[:] = clean
        _forget_warnings()
        _restore(vars(builtins), self.shared.builtins)
        for name in [name for name in vars(builtins) if name not in self.shared.builtins]:
            del vars(builtins)[name]
        _restore(_modules, self.shared.modules)
        if self.request.stdin:
            os.lseek(0, 0, os.SEEK_SET)
        self.clean_folder()
        os.chdir(self.work)
        decimal = _modules.get("decimal")
        if decimal is not None:
            decimal.setcontext(decimal.Context())

    def flush(self) -> None:
        """Push buffered output out; a stream that the program broke loses its own output only."""
        ours = (self.streams.stdout, self.streams.stderr)
        for stream in (getattr(sys, "stdout", None), getattr(sys, "stderr", None), *ours):
            try:
                if stream is not None:
                    stream.flush()
            except BaseException:  # program code; nothing it raises here is a verdict
                continue

    def end_of_program(self) -> None:
        """From here on only the sandbox's own code runs."""
        if _get_profile() is not None:
            _set_profile(None)
        _set_recursion_limit(_RECURSION_LIMIT)

    def perform(self, call: Call) -> Fields:
        """Run one call and describe what came of it."""
        recorder: Any = None
        called = False
        try:
            recorder = self.recorder(call)
            namespace = self.namespace(recorder)
            code = self.compiled(recorder)
            value: object = None
            if self.request.entry is None:
                try:
                    exec(code, namespace)
                finally:
                    self.finish_script()
            else:
                exec(code, namespace)
                function = self.entry(namespace)
                args, kwargs = build_arguments(call.args, namespace)
                called = True
                if recorder is None:
                    value = function(*args, **kwargs)
                else:
                    value = recorder.call(function, args, kwargs)
            # Here and not in a function: a trace function of the program would hear of the call.
            if _get_trace() is not None:
                _set_trace(None)
            self.end_of_program()
            fields = self.describe_value(value)
        except BaseException as error:  # whatever the program raises is a result
            if _get_trace() is not None:
                _set_trace(None)
            self.end_of_program()
            fields = self.describe_error(error)
        if recorder is not None and called:
            self.add_record(recorder, fields)
        return fields

    def recorder(self, call: Call) -> Any:
        if self.request.recorder is None:
            return None
        return self.request.recorder.Recorder(self.request.code, json.loads(call.options))

    def compiled(self, recorder: Any) -> CodeType:
        if recorder is not None:
            code: CodeType = recorder.compile(PROGRAM_NAME)
            return code
        if self.code is None:
            # dont_inherit: the future import of this file is not the program's.
            self.code = compile(self.request.code, PROGRAM_NAME, "exec", dont_inherit=True)
        return self.code

    def namespace(self, recorder: Any) -> dict[str, Any]:
        """A fresh `__main__`, registered so that decorators can look their module up."""
        module = ModuleType("__main__")
        module.__dict__.update(__builtins__=builtins, __file__=PROGRAM_NAME)
        if recorder is not None:
            module.__dict__.update(recorder.namespace())
        _modules["__main__"] = module
        lines = self.request.code.splitlines(keepends=True)
        linecache.cache[PROGRAM_NAME] = (len(self.request.code), None, lines, PROGRAM_NAME)
        return module.__dict__

    def entry(self, namespace: dict[str, Any]) -> Any:
        name = self.request.entry
        assert name is not None
        if name not in namespace:
            raise NameError(f"the program does not define {name!r}")
        return namespace[name]

    def finish_script(self) -> None:
        """What the interpreter does after the last line: wait for threads, run exit handlers."""
        threading = _modules.get("threading")
        if threading is not None:
            threading._shutdown()
        import atexit

        atexit._run_exitfuncs()

    def describe_value(self, value: object) -> Fields:
        fields: Fields = {"o": "returned"}
        if self.request.entry is None:
            return fields
        fields["type"] = _type_name(type(value))
        try:
            fields["value"] = self.canonical(value)
        except self.unrepresentable as reason:
            fields["unrepresentable"] = str(reason)[:MAX_MESSAGE_CHARS]
        except MemoryError:
            raise
        except Exception as error:  # the value's own code may raise anything
            fields["unrepresentable"] = f"raised {_type_name(type(error))} when it was read"
        return fields

    def describe_error(self, error: BaseException) -> Fields:
        no_memory = MemoryError in _bases(type(error))
        if no_memory:
            # Frames in the traceback hold what filled the memory; the reserve is for the report.
            _setrlimit(resource.RLIMIT_AS, (self.memory[1], self.memory[1]))
        fields: Fields = {
            "o": "memory" if no_memory else "raised",
            "type": _type_name(type(error)),
            "message": safe_message(error),
            "line": program_line(error),
        }
        return fields

    def add_record(self, recorder: Any, fields: Fields) -> None:
        try:
            fields["record"] = _encode_report(recorder.report())
        except Exception as error:  # reported to the host as a missing record
            fields["detail"] = f"no record: {_type_name(type(error))}: {safe_message(error)}"


def _restore(live: dict[str, Any], clean: dict[str, Any]) -> None:
    """Put back what was changed or removed. By identity: `==` would ask the program's objects."""
    if any(live.get(name) is not value for name, value in clean.items()):
        live.update(clean)


def build_arguments(text: str, namespace: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Evaluate an argument list in the program's namespace.

    Raises SyntaxError if the text is not the inside of one call's parentheses.
    """
    source = f"(lambda *a, **k: (a, k))({text}\n)"
    code = compile(source, ARGUMENTS_NAME, "eval", dont_inherit=True)
    if ")" in text:
        # It might close the call and open another: `1)(2`, `1) or f(2`.
        tree = compile(source, ARGUMENTS_NAME, "eval", ast.PyCF_ONLY_AST, dont_inherit=True)
        call = tree.body  # type: ignore[attr-defined]
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Lambda)):
            raise SyntaxError(f"not an argument list: {text[:200]!r}")
    built: tuple[tuple[Any, ...], dict[str, Any]] = eval(code, namespace)
    return built


def safe_message(error: BaseException) -> str | None:
    """The message of an exception, without running any code of the program.

    None if the class has its own `__str__`, or if the arguments are not plain values: showing those
    would call into the program, which may lie or never come back.
    """
    for cls in _bases(type(error)):
        if cls in _BUILTIN_ERRORS:
            break
        if "__str__" in _attributes(cls):
            return None
    try:
        if not all(_is_plain(part) for part in (*_arguments(error), *_members(error))):
            return None
        shown = cls.__str__(error)  # type: ignore[call-arg]
        return shown[:MAX_MESSAGE_CHARS]
    except Exception:  # a message is a courtesy: MemoryError, damaged attributes
        return None


def _members(error: BaseException) -> list[object]:
    """What a builtin exception keeps beside `args` and may show: file names, reasons, offsets."""
    found: list[object] = []
    for cls in _bases(type(error)):
        if cls in _BUILTIN_ERRORS:
            for member in _attributes(cls).values():
                if type(member) is MemberDescriptorType:
                    try:
                        found.append(member.__get__(error))
                    except AttributeError:  # a member that was never set
                        continue
    return found


def _is_plain(value: object, depth: int = 3) -> bool:
    if type(value) in _PLAIN_TYPES:
        return not isinstance(value, (str, bytes)) or len(value) <= 1 << 20
    if type(value) is tuple and depth and len(value) <= 100:
        return all(_is_plain(part, depth - 1) for part in value)
    return False


def program_line(error: BaseException) -> int | None:
    """The line of the program on which the exception left the program's own code."""
    line: int | None = None
    step = _traceback(error)
    while step is not None:
        if step.tb_frame.f_code.co_filename == PROGRAM_NAME:
            line = step.tb_lineno
        step = step.tb_next
    if line is None and SyntaxError in _bases(type(error)):
        name, stated = _syntax_filename(error), _syntax_line(error)
        if type(name) is str and name == PROGRAM_NAME and type(stated) is int:
            line = stated
    return line


def _encode(fields: Fields) -> bytes:
    parts = []
    for name, value in fields.items():
        if value is None:
            continue
        text = _quote(value) if isinstance(value, str) else repr(value)
        parts.append(f"{_quote(name)}:{text}")
    return ("{" + ",".join(parts) + "}").encode("ascii")


# --------------------------------------------------------------------------- the zygote


class Pipes(NamedTuple):
    """Both ends of the three pipes between a child and its zygote."""

    result: tuple[int, int]
    stdout: tuple[int, int]
    stderr: tuple[int, int]

    @classmethod
    def open(cls) -> Pipes:
        return cls(os.pipe(), os.pipe(), os.pipe())

    def close_writers(self) -> None:
        for _, writer in self:
            os.close(writer)

    def close_readers(self) -> None:
        for reader, _ in self:
            os.close(reader)


class HostGone(Exception):
    """The control socket was closed: kill what runs and leave."""


class Watch:
    """Follows one child from outside: reads what it says, keeps its budgets, ends it."""

    def __init__(self, request: Request, pid: int, pipes: Pipes, prison: Any) -> None:
        self.request = request
        self.pid = pid
        self.pipes = pipes
        self.prison = prison
        self.result = bytearray()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.calls: list[tuple[bytes, bytes, bytes, float, float]] = []
        self.started = False
        self.failure: str | None = None
        self.reason: str | None = None
        self.ended = self.hung_up = False
        self.begun = self.call_begun = time.monotonic()
        self.call_cpu = 0.0
        self.pace = 0.002
        for reader, _ in pipes:
            os.set_blocking(reader, False)

    def follow(self) -> dict[str, Any]:
        """Watch until the child has ended or used up a budget; then end it and say how it went."""
        exit_fd = self.prison.open_pidfd(self.pid)
        poller = select.poll()
        poller.register(CONTROL_FD, 0)
        if exit_fd is not None:
            poller.register(exit_fd, select.POLLIN)
        try:
            while self.reason is None and not self.ended:
                events = poller.poll(self.timeout_ms(exit_fd is not None))
                if any(fd == CONTROL_FD for fd, _ in events):
                    raise HostGone
                self.ended = self.has_exited(exit_fd, events)
                self.drain()
                if not self.ended:
                    self.reason = self.reason or self.budget_used_up()
        finally:
            if exit_fd is not None:
                os.close(exit_fd)
            status, cpu = self.prison.end(self.pid)
        wall = time.monotonic() - self.begun
        self.drain()
        return {"status": status, "cpu": cpu, "wall": wall}

    def has_exited(self, exit_fd: int | None, events: list[tuple[int, int]]) -> bool:
        if exit_fd is not None:
            return any(fd == exit_fd for fd, _ in events)
        # No PID descriptors here: a guest that no longer holds its pipe is over either way.
        return self.hung_up

    def timeout_ms(self, wakes_on_exit: bool) -> int:
        """How long to sleep: no budget can be used up sooner, output is fetched now and then."""
        call = self.request.calls[min(len(self.calls), len(self.request.calls) - 1)]
        now = time.monotonic()
        wall_left = self.call_begun + call.wall_seconds - now
        cpu_left = call.cpu_seconds - (self.cpu() - self.call_cpu)
        if self.request.processes:
            cpu_left = min(cpu_left, 0.02)
        self.pace = min(self.pace * 2, 0.02) if wakes_on_exit else 0.001
        return max(1, int(1000 * min(wall_left, cpu_left, self.pace)) + 1)

    def cpu(self) -> float:
        return float(self.prison.cpu_seconds(self.pid, self.request.processes))

    def budget_used_up(self) -> str | None:
        if len(self.calls) >= len(self.request.calls):
            # All is said; a child that does not leave by itself is ended by the wall budget.
            return "done" if self.started else None
        call = self.request.calls[len(self.calls)]
        if self.cpu() - self.call_cpu >= call.cpu_seconds:
            return "cpu"
        if time.monotonic() - self.call_begun >= call.wall_seconds:
            return "wall"
        if self.prison.too_many(self.request.processes):
            return "processes"
        return None

    def drain(self) -> None:
        """Fetch what has been said so far, results first (their output was written before)."""
        before = len(self.stdout) + len(self.stderr) + len(self.result)
        if self.reason != "forged":
            self.hung_up = self.fetch(self.pipes.result[0], self.result, MAX_RESULT_BYTES)
        limit = self.request.output_bytes + 2 * len(self.request.marker) * len(self.request.calls)
        self.fetch(self.pipes.stdout[0], self.stdout, limit + READ_BYTES)
        self.fetch(self.pipes.stderr[0], self.stderr, limit + READ_BYTES)
        after = len(self.stdout) + len(self.stderr) + len(self.result)
        if after - before >= READ_BYTES // 2:
            self.pace = 0.0005
        while self.reason != "forged" and self.next_frame():
            pass
        if self.reason is None and self.unclaimed_output() > self.request.output_bytes:
            self.reason = "output"

    @staticmethod
    def fetch(fd: int, into: bytearray, limit: int) -> bool:
        """Read what is there, up to `limit` bytes in all; True at the end of the stream."""
        while len(into) < limit:
            try:
                part = os.read(fd, READ_BYTES)
            except BlockingIOError:
                return False
            if not part:
                return True
            into += part
        return False

    def unclaimed_output(self) -> int:
        """Bytes printed by the call that runs now."""
        total = 0
        for buffer in (self.stdout, self.stderr):
            end = buffer.find(self.request.marker) if self.request.grouped else -1
            total += len(buffer) if end < 0 else end
        return total

    def next_frame(self) -> bool:
        """Take one frame off the result stream; False if there is no whole one."""
        if not self.result:
            return False
        if len(self.calls) >= len(self.request.calls):
            self.reason = "forged"
            return False
        if len(self.result) < CHILD_HEADER.size:
            return False
        nonce, kind, length = CHILD_HEADER.unpack_from(self.result)
        if nonce != self.request.nonce or length > MAX_RESULT_BYTES - CHILD_HEADER.size:
            self.reason = "forged"
            return False
        if len(self.result) < CHILD_HEADER.size + length:
            return False
        payload = bytes(self.result[CHILD_HEADER.size : CHILD_HEADER.size + length])
        del self.result[: CHILD_HEADER.size + length]
        self.take(kind, payload)
        return self.reason is None

    def take(self, kind: bytes, payload: bytes) -> None:
        if kind == b"S" and not self.started and not payload:
            self.started = True
        elif kind == b"R" and self.started:
            now, cpu = time.monotonic(), self.cpu()
            out, err = self.claim(self.stdout), self.claim(self.stderr)
            self.calls.append((out, err, payload, cpu - self.call_cpu, now - self.call_begun))
            self.call_begun, self.call_cpu = now, cpu
        elif kind == b"F" and not self.started:
            self.failure = payload.decode("utf-8", "replace")
        else:
            self.reason = "forged"

    def claim(self, buffer: bytearray) -> bytes:
        """Output of the call that just ended; a lone call keeps all of it until the end."""
        if not self.request.grouped:
            return b""
        marker = self.request.marker
        end = buffer.find(marker)
        taken = bytes(buffer if end < 0 else buffer[:end])
        del buffer[: len(taken) if end < 0 else end + len(marker)]
        return taken


class Zygote:
    """Serves one request at a time until the host goes away."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.isolation: Any = load_file("_sandbox_isolation", config["isolation"])
        self.values = load_file("_sandbox_values", config["values"])
        self.recorders: dict[str, ModuleType] = {}
        self.prison: isolation_module.Prison = self.isolation.Prison(
            config["layers"], config["work"], sys.path, rules_fd=RULES_FD, statm_fd=STATM_FD
        )

    def prepare(self) -> None:
        """Load what programs use, enter the isolation, freeze what the children share."""
        for name in PRELOADED:
            __import__(name)
        sys.argv[:] = [PROGRAM_NAME]
        for name in ("exit", "quit"):
            # `-S` leaves out `site`, which defines these two; programs use them.
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
        for handled in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(handled, signal.SIG_IGN)
        for handled in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            signal.signal(handled, signal.SIG_IGN)
        self.prison.enter()
        os.environ.pop("LD_LIBRARY_PATH", None)
        os.environ["HOME"] = os.environ["TMPDIR"] = self.prison.work
        self.shared = Shared.take(self.values, self.open_streams())
        self.shared.streams.use()
        gc.collect()
        gc.freeze()
        gc.disable()

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
        while True:
            head = read_exactly(CONTROL_FD, LENGTH.size)
            if head is None:
                return
            (length,) = LENGTH.unpack(head)
            body = read_exactly(CONTROL_FD, length) if length <= MAX_REQUEST_BYTES else None
            if body is None:
                return
            raw = json.loads(body)
            try:
                self.answer(*self.execute(raw))
            except HostGone:
                return
            except OSError as error:
                self.answer({"nonce": raw["nonce"], "broken": f"{error}"}, [])

    def answer(self, header: dict[str, Any], blobs: list[bytes]) -> None:
        text = json.dumps(header).encode("ascii")
        body = LENGTH.pack(len(text)) + text + b"".join(blobs)
        write_all(CONTROL_FD, LENGTH.pack(len(body)) + body)

    def request(self, raw: dict[str, Any]) -> Request:
        recorder = None
        if raw["recorder"] is not None:
            digest, path, source = raw["recorder"]
            if digest not in self.recorders:
                self.recorders[digest] = load_file("_sandbox_recorder", path, source)
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
        )

    def execute(self, raw: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Fork a child for a request, follow it to its end, and put the reply together."""
        try:
            request = self.request(raw)
        except HostGone:
            raise
        except Exception as error:  # a recorder that cannot be loaded is the host's
            return {"nonce": raw["nonce"], "broken": f"{type(error).__name__}: {error}"}, []
        self.prison.clean_folder()
        stdin = self.open_stdin(request.stdin)
        pipes = Pipes.open()
        try:
            pid = os.fork()
            if pid == 0:
                self.become_child(request, pipes, stdin)
            pipes.close_writers()
            watch = Watch(request, pid, pipes, self.prison)
            end = watch.follow()
        finally:
            pipes.close_readers()
            if stdin != NULL_FD:
                os.close(stdin)
        return self.reply(watch, end)

    def reply(self, watch: Watch, end: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        blobs: list[bytes] = []
        rows = []
        for out, err, payload, cpu, wall in watch.calls:
            blobs += [out, err, payload]
            rows.append([len(out), len(err), len(payload), cpu, wall])
        rest = [bytes(watch.stdout), bytes(watch.stderr)]
        header = {
            "nonce": watch.request.nonce.hex(),
            "calls": rows,
            "rest": [len(part) for part in rest],
            "reason": watch.reason,
            "started": watch.started,
            "failure": watch.failure,
            **end,
        }
        return header, blobs + rest

    def open_stdin(self, text: str) -> int:
        """A real, seekable file with the job's standard input; /dev/null if there is none."""
        if not text:
            return NULL_FD
        data = text.encode("utf-8", "surrogatepass")
        fd = int(self.prison.anonymous_file())
        write_all(fd, data)
        os.lseek(fd, 0, os.SEEK_SET)
        return fd

    def become_child(self, request: Request, pipes: Pipes, stdin: int) -> NoReturn:
        """Never returns: set up, run, report, leave without any of the interpreter's farewells."""
        try:
            try:
                os.setsid()
                os.dup2(stdin, 0)
                os.dup2(pipes.stdout[1], 1)
                os.dup2(pipes.stderr[1], 2)
                os.dup2(pipes.result[1], RESULT_FD, inheritable=False)
                memory = self.prison.confine(request, RESULT_FD, REPORT_RESERVE_BYTES)
                performer = Performer(request, self.shared, self.prison, memory)
                performer.send(b"S", b"")
            except BaseException as error:  # told to the zygote as a failure
                text = f"{type(error).__name__}: {error}".encode("utf-8", "replace")
                head = CHILD_HEADER.pack(request.nonce, b"F", len(text))
                write_all(RESULT_FD, head + text)
                _leave(72)
            gc.enable()
            performer.run()
            _leave(0)
        finally:
            _leave(71)


def main() -> None:
    control, config = int(sys.argv[1]), json.loads(sys.argv[2])
    _park(control, CONTROL_FD)
    _park(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), NULL_FD)
    zygote = Zygote(config)
    zygote.prepare()
    zygote.answer({"hello": zygote.prison.summary()}, [])
    try:
        zygote.serve()
    finally:
        zygote.prison.leave()
    os._exit(0)


if __name__ == "__main__":
    main()
