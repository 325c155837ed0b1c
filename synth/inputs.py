"""Seed input -> input cases: draw argument lists like the seed's, then choose among those executed.

Covers the host's side. `Drawer` owns the isolated children that draw with Hypothesis (what they do
is in `synth/drawing.py`); `choose` picks a small set of executed cases that between them take the
most paths. Does not cover execution and tracing, which stand between the two.

Drawing has a process of its own because Hypothesis mixes literals of local source files into what
it draws: in the process of a user, the same seed would give other inputs after every edit. The
child runs under `PYTHONHASHSEED=0` (not under `-I`, which would ignore it), with a scrubbed
environment, in an empty folder, and gets the text of the modules that it needs over its stdin. A
result depends on the argument text, the seed, the count, and the versions of Python, Hypothesis and
this package; not on earlier requests, other threads, the folder, or the hash seed of the host.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import os
import queue
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Literal, cast

from rewards import values
from rewards.values import parse_expression
from synth.errors import SynthError, UsageError

if TYPE_CHECKING:
    from rewards.sandbox.jobs import ExecutionResult
    from synth.traces import Trace

__all__ = ["Case", "Drawer", "Drawn", "Kind", "choose"]

Kind = Literal["seed", "model", "near", "boundary", "free"]

START_SECONDS = 60.0
"""How long a child may take to start; importing Hypothesis takes 0.3 s on an idle machine."""
REQUEST_SECONDS = 60.0
"""How long one request may take; 32 cases take some 30 ms."""
LONG_TEXT = 300
"""Characters; cases whose arguments or output are longer are chosen last."""

# Runs in the child before anything else. On 3.10 there is no -P, so the working folder is taken off
# the path by hand; `fallback` is where the host found Hypothesis, if the child cannot (PYTHONPATH).
_BOOT = """
import sys
sys.path[:] = [folder for folder in sys.path if folder not in ("", ".")]
import importlib.util, json, types
def load(name, source):
    package, _, short = name.rpartition(".")
    parent = sys.modules.setdefault(package, types.ModuleType(package))
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, "<" + name + ">", "exec"), module.__dict__)
    setattr(parent, short, module)
    return module
requests = sys.stdin.buffer
hello = json.loads(requests.readline())
if importlib.util.find_spec("hypothesis") is None:
    sys.path.append(hello["fallback"])
modules = [load(name, source) for name, source in hello["modules"]]
modules[-1].serve(requests, hello["host"])
"""


# What the child runs, each after those it imports; it serves with the last.
_CHILD_MODULES = (
    "rewards.values",
    "synth.spelling",
    "synth.structures.nodes",
    "synth.structures.scalars",
    "synth.structures.sequences",
    "synth.structures.dicts",
    "synth.structures.inference",
    "synth.drawing",
)


@dataclass(frozen=True)
class Drawn:
    """One drawn argument list."""

    args: str
    """Literal text, for example `"[3, 1], sep='-'"`."""
    kind: Kind
    """Where it comes from: the seed itself, a model, a small change of it, a boundary value, a free draw."""


@dataclass(frozen=True)
class Case:
    """One input case that has been executed."""

    args: str
    kind: Kind
    result: ExecutionResult
    trace: Trace


class _Died(Exception):
    """The child is gone or does not answer."""


class _Child:
    """One drawing process. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `close`)
        flags = ["-s", *(["-P"] if sys.version_info >= (3, 11) else [])]
        self._process = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=folder,
            env=_environment(folder),
        )
        self._buffer = b""
        try:
            self._exchange(_hello(), START_SECONDS)
        except BaseException:
            self.close()
            raise

    def ask(self, request: dict[str, object]) -> dict[str, object]:
        """The child's reply; raises `_Died` if none comes."""
        return self._exchange(request, REQUEST_SECONDS)

    def _exchange(self, message: dict[str, object], seconds: float) -> dict[str, object]:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(message).encode() + b"\n")
            stdin.flush()
        except (OSError, ValueError) as error:
            raise _Died(self._last_words(str(error))) from error
        reply = json.loads(self._read_line(time.monotonic() + seconds))
        return cast("dict[str, object]", reply)

    def _read_line(self, deadline: float) -> bytes:
        stdout = self._process.stdout
        assert stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise _Died("it did not answer in time")
                chunk = os.read(stdout.fileno(), 1 << 16)
                if not chunk:
                    raise _Died(self._last_words("it ended"))
                self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self, otherwise: str) -> str:
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else otherwise

    def close(self) -> None:
        """Kill and reap. The child keeps nothing, so there is nothing to wait for."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # what a dead child did not read is lost
                    stream.close()


def _environment(folder: Path) -> dict[str, str]:
    # LD_LIBRARY_PATH: some interpreters do not start without it. Nothing else of the host's
    # environment enters, for example CI, which would switch Hypothesis to another profile.
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    return kept | {
        "HYPOTHESIS_NO_PLUGINS": "1",
        "HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "TMPDIR": str(folder),
    }


def _hello() -> dict[str, object]:
    spec = importlib.util.find_spec("hypothesis")
    if spec is None or spec.origin is None:
        raise UsageError(
            "drawing input cases needs Hypothesis, which is not installed: pip install hypothesis"
        )
    return {
        "fallback": str(Path(spec.origin).parent.parent),
        "host": os.getpid(),
        "modules": [(name, _source(name)) for name in _CHILD_MODULES],
    }


def _source(module: str) -> str:
    package, _, name = module.rpartition(".")
    return files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


class Drawer:
    """Draws input cases in isolated children; a context manager that any thread may use.

    `workers` (>= 1) is the number of children, so of requests that are served at the same time;
    each is started when it is first needed. Children are killed by `close`, and leave by themselves
    when the host is gone.
    """

    def __init__(self, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"workers={workers!r} is not a number of processes: give at least 1")
        self._owner = os.getpid()
        self._folder = tempfile.TemporaryDirectory(prefix="execverify-draw-")
        self._closed = False
        # Last in, first out: a warm child is taken before one that would have to be started.
        self._slots: queue.LifoQueue[_Child | None] = queue.LifoQueue()
        self._workers = workers
        for _ in range(workers):
            self._slots.put(None)

    def __enter__(self) -> Drawer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def draw(self, args: str, *, seed: str, count: int) -> tuple[Drawn, ...]:
        """At most `count` (>= 1) distinct argument lists of the type structure of `args`.

        The first is `args` itself. Fewer than `count` come back if the types offer fewer, after a
        bounded number of attempts. Raises `SynthError` if `args` is not an argument list or the
        child fails twice.
        """
        if count < 1:
            raise UsageError(f"count={count!r} is not a number of cases: give at least 1")
        reply = self._request({"args": args, "seed": seed, "count": count})
        cases = cast("list[tuple[str, Kind]]", reply["cases"])
        return tuple(Drawn(text, kind) for text, kind in cases)

    def fitted(self, args: str, lists: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
        """For each argument list written elsewhere (its text, ""), or ("", why it is none).

        It must have the type structure of `args` and no more than the length that drawn ones may have:
        `other_types`, `long_arguments`. `lists`: canonical texts of values, one for each argument of
        `args`, in its order. Raises as `draw`.
        """
        if not lists:
            return []
        reply = self._request({"args": args, "lists": [list(texts) for texts in lists]})
        return [(text, why) for text, why in cast("list[list[str]]", reply["fitted"])]

    def _request(self, request: dict[str, object]) -> dict[str, object]:
        """The reply of some child. Raises `SynthError`."""
        if self._closed or os.getpid() != self._owner:
            raise SynthError(
                "this Drawer is closed, or was made in another process: make a new one"
            )
        child = self._slots.get()
        if self._closed:  # while this thread waited
            self._slots.put(child)
            raise SynthError("the Drawer was closed while a request waited for a process")
        try:
            child, reply = self._ask(child, request)
        except BaseException:
            self._slots.put(None)
            raise
        self._slots.put(child)
        if "error" in reply:
            args = str(request["args"])
            raise SynthError(f"cannot vary the input {args[:200]!r}: {reply['error']}")
        return reply

    def _ask(
        self, child: _Child | None, request: dict[str, object]
    ) -> tuple[_Child, dict[str, object]]:
        """A reply and the child that gave it: `child`, or a fresh one if it had died."""
        for last in (False, True):
            try:
                child = child or _Child(Path(self._folder.name))
                return child, child.ask(request)
            except _Died as error:
                if child is not None:
                    child.close()
                child = None
                if last:
                    raise SynthError(
                        f"the process that draws inputs failed twice: {error}"
                    ) from error
            except BaseException:
                # An interrupt between question and answer: the next reader would get this answer.
                if child is not None:
                    child.close()
                raise
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Kill the children, after requests in flight have been answered. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for child in [self._slots.get() for _ in range(self._workers)]:
            if child is not None:
                child.close()
        for _ in range(self._workers):
            self._slots.put(None)  # wakes whoever still waits
        self._folder.cleanup()


# --------------------------------------------------------------------------------------------------
# Choosing


# The empty values of their types, and the constants that a guess hits most often.
_DULL = re.compile(
    r"""-?[01](\.0)? | True | False | None | b?'' | b?"" | \[\] | \(\) | \{\}
    | [A-Za-z_.]+\((\[\]|\{\}|'0'|0)?\)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class _Ranked:
    """A case with what the choice looks at."""

    case: Case
    output: str
    lazy: bool
    long: bool
    covers: frozenset[tuple[str, object]]

    @property
    def neutral(self) -> tuple[bool, int, str]:
        """Order among equals, whatever order the cases came in: the seed, then by text."""
        return self.case.kind != "seed", _KIND_ORDER[self.case.kind], self.case.args


_KIND_ORDER: dict[Kind, int] = {"seed": 0, "model": 1, "near": 2, "free": 3, "boundary": 4}


def choose(cases: Sequence[Case], count: int, *, exceptions: bool = False) -> tuple[Case, ...]:
    """At most `count` (>= 1) of the cases, in the order in which they were chosen.

    Greedy: each next case adds the most executed statements and branches, then a new output, a new
    path, a new shape of trace. Only cases that add one of these are taken, so fewer than `count`
    may come back. Chosen last, and then only while nothing better is left: arguments or outputs of
    more than 300 characters. At most
    one *lazy* case (its output is empty, 0, 1, a truth value, None, or one of its own arguments) is
    chosen, unless all are lazy. Executions that did not return a value with a canonical text are
    dropped; with `exceptions` those that raised are kept, with the exception's type for an output.
    The result does not depend on the order of `cases`.
    """
    if count < 1:
        raise UsageError(f"count={count!r} is not a number of cases: give at least 1")
    left = [_ranked(case) for case in cases if _usable(case.result, exceptions)]
    left.sort(key=lambda item: item.neutral)
    most_lazy = count if all(item.lazy for item in left) else 1
    chosen: list[_Ranked] = []
    while left and len(chosen) < count:
        best = min(_priorities(left, chosen))[-1]
        chosen.append(left.pop(best))
        lazy_full = sum(item.lazy for item in chosen) >= most_lazy
        left = [item for item in left if _adds(item, chosen) and not (item.lazy and lazy_full)]
    return tuple(item.case for item in chosen)


def _usable(result: ExecutionResult, exceptions: bool) -> bool:
    if result.outcome == "returned":
        return result.value is not None
    return exceptions and result.outcome == "raised"


def _ranked(case: Case) -> _Ranked:
    result = case.result
    output = result.value if result.value is not None else f"raises {result.error_type}"
    covers = {("statement", index) for index in case.trace.executed}
    branches = {("branch", branch) for branch in case.trace.branches}
    return _Ranked(
        case,
        output,
        lazy=_DULL.fullmatch(output) is not None or output in _argument_texts(case.args),
        long=max(len(case.args), len(output)) > LONG_TEXT,
        covers=frozenset(covers | branches),
    )


def _priorities(
    left: Sequence[_Ranked], chosen: Sequence[_Ranked]
) -> Iterator[tuple[bool, int, bool, bool, bool, bool, int]]:
    """A key per case, smallest first; the last part is its position, which is never equal."""
    covered = frozenset[tuple[str, object]]().union(*(item.covers for item in chosen))
    outputs = {item.output for item in chosen}
    paths = {item.case.trace.path_id for item in chosen}
    shapes = {item.case.trace.shape_id for item in chosen}
    for position, item in enumerate(left):
        yield (
            item.long,
            -len(item.covers - covered),
            item.output in outputs,
            item.case.trace.path_id in paths,
            item.lazy,
            item.case.trace.shape_id in shapes,
            position,
        )


def _adds(item: _Ranked, chosen: Sequence[_Ranked]) -> bool:
    """Whether the case has anything that no chosen one has.

    New coverage and a new path always show in the shape of the trace, its sequence of statements.
    """
    return all(item.output != other.output for other in chosen) or all(
        item.case.trace.shape_id != other.case.trace.shape_id for other in chosen
    )


def _argument_texts(args: str) -> frozenset[str]:
    """Canonical texts of the arguments that are values."""
    call = parse_expression(f"f({args}\n)")
    assert isinstance(call, ast.Call)
    texts = set()
    for node in (*call.args, *(keyword.value for keyword in call.keywords)):
        try:
            texts.add(values.canonical(values.parse(ast.unparse(node))))
        except (values.ValueTextError, values.Unrepresentable):
            continue  # a lambda, for example: no output can be equal to it
    return frozenset(texts)
