"""A second implementation of the trace semantics: slow, and made differently from the tracer.

`run` walks the `ast` of a program, statement by statement and expression by expression, and keeps
a `Step` for every statement under the definitions of "Trace semantics" in the design. It uses no
trace function, no monitoring, no rewriting of the program and nothing of `synth`; only operations
on values, calls and imports are left to the running Python. Standard library and `rewards.values`
only, Python 3.10 to 3.13.

Functions of the program are real functions (a stub that has the same parameters and hands their
values back), so that `sorted` or `functools` can call them; generators are real generators.

Not covered, and refused by name with `Unsupported`: `async`, `except*`, type parameters and `type`
statements, `import *`, threads, `__del__`, what looks at frames, code objects and tracebacks, recursion
deeper than 300 frames. Not reproduced: `__static_attributes__` and `__firstlineno__` of classes, the
moment at which objects are collected.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import threading
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slow_frames import Env, Frame, Held, Raised, Recorder, Step, Unsupported
from slow_functions import CALL, Functions, annotates
from slow_scopes import scopes
from slow_statements import docstring, without_docstring

__all__ = ["Execution", "Frame", "Held", "Step", "Unsupported", "changes", "run", "told"]

STACK_BYTES = 512 * 1024 * 1024
HOST_DEPTH = 200_000


@dataclass(frozen=True)
class Execution:
    """What a program did."""

    steps: list[Step]
    frames: list[Frame]
    value: object
    error: BaseException | None
    """What the entry (or the program before it) raised."""
    output: str
    left: int
    """Generator frames of the run that were still suspended when the entry ended."""


class Interpreter(Functions):
    """One program, its functions and classes."""

    def __init__(self, code: str, max_steps: int) -> None:
        if CALL in code:
            raise Unsupported(f"the name {CALL}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ast.parse(code)
        self.scopes = scopes(self.tree)
        self.recorder = Recorder(max_steps)
        self.thread = threading.get_ident()

    def module(self, names: Mapping[str, Any]) -> dict[str, Any]:
        """Run the program's module level; its namespace."""
        env = Env(self.scopes[self.tree], None, "<module>", None)
        env.globals = env.names = dict(names)
        env.globals.setdefault("__builtins__", __builtins__)
        if annotates(self.tree.body):
            env.globals.setdefault("__annotations__", {})
        if docstring(self.tree.body) is not None:
            env.globals["__doc__"] = docstring(self.tree.body)
        self.finish_work(self.block(without_docstring(self.tree.body), env))
        return env.globals


def run(
    code: str,
    entry: str,
    args: str,
    names: Mapping[str, Any] | None = None,
    max_steps: int = 20_000,
) -> Execution:
    """Run `entry(args)` of a program; `names` are added to its namespace.

    Raises `Unsupported` for a program that uses what is not covered, SyntaxError for no program.
    """
    outcome: list[Any] = []

    def work() -> None:
        try:
            outcome.append(_run(code, entry, args, names or {}, max_steps))
        except Unsupported as refused:
            # Without its traceback: what that holds is nested deeply, and must be let go of here,
            # where the stack is large.
            outcome.append(Unsupported(*refused.args))
        except BaseException as error:
            outcome.append(error)

    # Each call and each expression of the program takes several frames of this interpreter.
    size, depth = threading.stack_size(STACK_BYTES), sys.getrecursionlimit()
    try:
        thread = threading.Thread(target=work)
        sys.setrecursionlimit(HOST_DEPTH)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(depth)
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    found: Execution = outcome[0]
    return found


def _run(code: str, entry: str, args: str, names: Mapping[str, Any], max_steps: int) -> Execution:
    interpreter = Interpreter(code, max_steps)
    recorder = interpreter.recorder
    value: object = None
    error: BaseException | None = None
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            space = interpreter.module({"__name__": "__main__", **names})
            positional, named = eval(f"(lambda *a, **k: (a, k))({args})", space)
            function = space[entry]
            recorder.active = True
            value = function(*positional, **named)
        except Unsupported:
            raise
        except RecursionError as problem:
            raise Unsupported("RecursionError") from problem
        except Raised as raised:
            error = raised.problem
        except BaseException as problem:  # SystemExit is an end like any other
            error = problem
    recorder.close()
    if interpreter.lost is not None:
        raise interpreter.lost
    left = recorder.forget()
    return Execution(recorder.steps, recorder.frames, value, error, out.getvalue(), left)


def told(execution: Execution) -> list[list[Any]]:
    """The steps as plain lists, equal on every Python version: what golden traces are made of."""
    return [
        [s.line, s.col, s.kind, s.visit, s.frame, s.function, s.outcome, s.arm, s.next]
        for s in execution.steps
    ]


def changes(execution: Execution) -> list[tuple[dict[str, Held], tuple[str, ...]]]:
    """For every step, against the end of its frame's previous step: what changed, what is gone."""
    before: dict[int, dict[str, Held]] = {}
    found = []
    for step in execution.steps:
        known = before.get(step.frame, {})
        changed = {name: what for name, what in step.state.items() if known.get(name) != what}
        found.append((changed, tuple(sorted(known.keys() - step.state.keys()))))
        before[step.frame] = step.state
    return found
