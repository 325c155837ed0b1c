"""Inside the guest: runs the program, makes the host's calls, says what came of each.

This file and those it imports are the only ones that share a process with untrusted code. They know
nothing of what a call is expected to return, so there is nothing here for a program to steal. Does
not cover how the process is held in (`isolation.py`) nor who watches it (`watch.py`).

A `Performer` is made before the fork, and whatever it can have ready by then, it has: a child copies
every page that it writes to, and in Python every object that is looked at is written to. For the same
reason what runs in the child is a few long functions instead of many short ones, and the fork server
rehearses them (`rehearse`), so that the interpreter has adapted their bytecode before it is shared.

Recorder protocol. A recorder is the host's own self-contained Python file; its text is sent by the
host, and it is loaded before the fork. It defines

    class Recorder:
        def __init__(self, source: str, options: dict) -> None
        def compile(self, filename: str) -> types.CodeType
        def namespace(self) -> dict[str, object]
        def call(self, function, args: tuple, kwargs: dict) -> object
        def report(self) -> dict          # JSON-able; asked for after `call`, also when that raised

and is instantiated once per call. Its attribute `hold` is then set to a function with which it can
write values down as text: `hold(value, max_chars)` is [name of the type, canonical text or None].

Loaded by path inside the fork server, so it uses the standard library alone.
"""

from __future__ import annotations

import _ast
import builtins
import io
import json
import linecache
import os
import resource
import sys
import time
import warnings
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from rewards.sandbox.report import (
    MAX_MESSAGE_CHARS,
    PROGRAM_NAME,
    Fields,
    bases_of,
    encode_fields,
    encode_record,
    program_line,
    safe_message,
    type_name,
)
from rewards.sandbox.wire import CHILD_HEADER, RESULT_FD, Call, Request, write_all

if TYPE_CHECKING:
    from collections.abc import Callable

ARGUMENTS_NAME = "<arguments>"
_EARLY_CHARS = 16_384
"""Texts up to this long are compiled before the fork: none of them keeps the compiler busy for long."""
_MOST_FINALLY, _MOST_LAMBDAS = 4, 50
_AS_ERROR = ("error", None, Warning, None, 0)
_REHEARSALS = 12

# Everything that is needed after the program has run, held where its own changes to modules do not
# reach.
_setrlimit = resource.setrlimit
_set_recursion_limit = sys.setrecursionlimit
_get_trace, _set_trace = sys.gettrace, sys.settrace
_get_profile, _set_profile = sys.getprofile, sys.setprofile
# Of the thread: RLIMIT_CPU makes the clock of the whole process advance in timer ticks only.
_cpu_clock = time.thread_time
_perf_counter = time.perf_counter
_modules = sys.modules
_header = CHILD_HEADER.pack
_RECURSION_LIMIT = sys.getrecursionlimit()


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
    """`rewards/values.py`, loaded."""
    streams: Streams


class Performer:
    """Runs the calls of one request inside the forked child and reports each."""

    memory: tuple[int, int]
    """Soft and hard limit of address space, known when the child is about to be made."""

    def __init__(self, request: Request, shared: Shared) -> None:
        self.request = request
        self.nonce = request.nonce
        self.calls = request.calls
        self.grouped = request.grouped
        self.source = request.code
        self.entry = request.entry
        self.record = None if request.recorder is None else request.recorder.Recorder
        self.stdout, self.stderr = shared.streams.stdout, shared.streams.stderr
        self.canonical: Callable[..., str] = shared.values.canonical
        self.unrepresentable: type[Exception] = shared.values.Unrepresentable
        self.code: CodeType | None = None
        self.arguments: dict[str, CodeType] = {}
        self.module: ModuleType | None = _main_module()
        lines = request.code.splitlines(keepends=True)
        self.listing = (len(request.code), None, lines, PROGRAM_NAME)

    def compile_early(self) -> None:
        """Compile before the fork, which costs a fifth of what it costs after it.

        What is long, or does not compile without an error or a warning, is left to the child, which
        says so in the program's name. Nothing is run here.
        """
        warnings.filters.insert(0, _AS_ERROR)  # type: ignore[attr-defined]
        try:
            if self.record is None and _is_quick_to_compile(self.source):
                self.code = compile(self.source, PROGRAM_NAME, "exec", dont_inherit=True)
            if self.entry is not None:
                for call in self.calls:
                    if _is_quick_to_compile(call.args):
                        self.arguments[call.args] = compile_arguments(call.args)
        except Exception:  # the child meets it again, where it is the program's result
            return
        finally:
            del warnings.filters[0]  # type: ignore[attr-defined]

    def take_the_stage(self) -> None:
        """From now on the program of this request is the interpreter's main one."""
        _modules["__main__"] = self.module  # type: ignore[assignment]
        # For `inspect.getsource` and printed tracebacks.
        linecache.cache[PROGRAM_NAME] = self.listing

    def run(self) -> None:
        """Every call in order, one result frame each."""
        for number, call in enumerate(self.calls):
            if number:
                self.restore()
            if not self.grouped:
                fields = self.perform(call)
                self.flush()
            else:
                cpu, wall = _cpu_clock(), _perf_counter()
                fields = self.perform(call)
                self.flush()
                # For information: the zygote keeps the budgets, but looks too rarely to tell how
                # short calls differ.
                fields["cpu"] = _cpu_clock() - cpu
                fields["wall"] = _perf_counter() - wall
                marker = self.request.marker
                write_all(1, marker)
                write_all(2, marker)
            self.send(b"R", encode_fields(fields))

    def send(self, kind: bytes, payload: bytes) -> None:
        write_all(RESULT_FD, _header(self.nonce, kind, len(payload)) + payload)

    def restore(self) -> None:
        """Between the calls of a group: what even a program that may share a child leaves behind.

        Little, since `sharing.py` keeps others out.
        """
        if self.memory[0] != self.memory[1]:
            _setrlimit(resource.RLIMIT_AS, self.memory)
        if self.request.stdin:
            os.lseek(0, 0, os.SEEK_SET)
            streams = Streams.open()
            streams.use()
            self.stdout, self.stderr = streams.stdout, streams.stderr
        decimal = _modules.get("decimal")
        if decimal is not None:
            decimal.setcontext(decimal.Context())

    def flush(self) -> None:
        """Push buffered output out; a stream that the program broke loses its own output only."""
        stdout, stderr = self.stdout, self.stderr
        streams: tuple[Any, ...] = getattr(sys, "stdout", None), getattr(sys, "stderr", None)
        if streams[0] is not stdout or streams[1] is not stderr:
            streams = (*streams, stdout, stderr)
        for stream in streams:
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
            if self.record is not None:
                recorder = self.record(self.source, json.loads(call.options))
                recorder.hold = self.hold
            module, self.module = self.module or _main_module(), None
            namespace = module.__dict__
            if recorder is not None:
                namespace.update(recorder.namespace())
            code = self.code
            if recorder is not None:
                code = recorder.compile(PROGRAM_NAME)
            elif code is None:
                # dont_inherit: the future import of this file is not the program's.
                code = self.code = compile(self.source, PROGRAM_NAME, "exec", dont_inherit=True)
            value: object = None
            if self.entry is None:
                self.run_script(code, namespace)
            else:
                exec(code, namespace)
                if self.entry not in namespace:
                    raise NameError(f"the program does not define {self.entry!r}")
                function = namespace[self.entry]
                ready = self.arguments.get(call.args) or compile_arguments(call.args)
                args, kwargs = eval(ready, namespace)
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

    def run_script(self, code: CodeType, namespace: dict[str, Any]) -> None:
        """A program as such, with what the interpreter does after its last line."""
        try:
            exec(code, namespace)
        finally:
            threading = _modules.get("threading")
            if threading is not None:
                threading._shutdown()
            import atexit

            atexit._run_exitfuncs()

    def hold(self, value: object, max_chars: int) -> list[str | None]:
        """[name of the value's type, its canonical text, or None if it has none so short]."""
        try:
            return [type_name(type(value)), self.canonical(value, max_chars=max_chars)]
        except self.unrepresentable:
            return [type_name(type(value)), None]

    def describe_value(self, value: object) -> Fields:
        fields: Fields = {"o": "returned"}
        if self.entry is None:
            return fields
        fields["type"] = type_name(type(value))
        try:
            fields["value"] = self.canonical(value)
        except self.unrepresentable as reason:
            fields["unrepresentable"] = str(reason)[:MAX_MESSAGE_CHARS]
        except MemoryError:
            raise
        except Exception as error:  # the value's own code may raise anything
            fields["unrepresentable"] = f"raised {type_name(type(error))} when it was read"
        return fields

    def describe_error(self, error: BaseException) -> Fields:
        no_memory = MemoryError in bases_of(type(error))
        if no_memory:
            # Frames in the traceback hold what filled the memory; the reserve is for the report.
            _setrlimit(resource.RLIMIT_AS, (self.memory[1], self.memory[1]))
        fields: Fields = {
            "o": "memory" if no_memory else "raised",
            "type": type_name(type(error)),
            "message": safe_message(error),
            "line": program_line(error),
        }
        return fields

    def add_record(self, recorder: Any, fields: Fields) -> None:
        try:
            fields["record"] = encode_record(recorder.report())
        except Exception as error:  # reported to the host as a missing record
            fields["detail"] = f"no record: {type_name(type(error))}: {safe_message(error)}"


def _is_quick_to_compile(text: str) -> bool:
    """Whether the compiler's time is in proportion to the text; a guess that errs on the side of no.

    It writes the body of a `finally` twice, of nested ones again and again, and looks through nested
    functions once for each level. What it takes of memory is bounded by the fork server.
    """
    return (
        len(text) <= _EARLY_CHARS
        and text.count("finally") <= _MOST_FINALLY
        and text.count("lambda") <= _MOST_LAMBDAS
    )


def _main_module() -> ModuleType:
    """A fresh `__main__`, registered so that decorators can look their module up."""
    module = _modules["__main__"] = ModuleType("__main__")
    namespace = module.__dict__
    namespace["__builtins__"] = builtins
    namespace["__file__"] = PROGRAM_NAME
    return module


def compile_arguments(text: str) -> CodeType:
    """Code that evaluates an argument list to `(args, kwargs)`, in the program's namespace.

    Raises SyntaxError if the text is not the inside of one call's parentheses.
    """
    source = f"(lambda *a, **k: (a, k))({text}\n)"
    code = compile(source, ARGUMENTS_NAME, "eval", dont_inherit=True)
    if ")" in text:
        # It might close the call and open another: `1)(2`, `1) or f(2`.
        tree = compile(source, ARGUMENTS_NAME, "eval", _ast.PyCF_ONLY_AST, dont_inherit=True)
        call = tree.body  # type: ignore[attr-defined]
        if not (isinstance(call, _ast.Call) and isinstance(call.func, _ast.Lambda)):
            raise SyntaxError(f"not an argument list: {text[:200]!r}")
    return code


_REHEARSED = """
def f(a, *, b=2):
    return [a, {"b": (b, 1.5, None, True)}, {"c"}]
"""


def rehearse(shared: Shared) -> None:
    """Perform programs of our own where no child will see it; RESULT_FD must be open."""
    calls = (Call("[1, 'x'], b=(3,)", "{}", 1.0, 1.0), Call("", "{}", 1.0, 1.0))
    nothing = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    for _ in range(_REHEARSALS):
        for call in calls:  # the second one raises
            request = Request(bytes(16), _REHEARSED, "f", "", None, 0, 0, 0, 0, (call,))
            performer = Performer(request, shared)
            performer.memory = nothing
            performer.compile_early()
            performer.take_the_stage()
            performer.run()
    linecache.cache.clear()
