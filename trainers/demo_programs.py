"""The demonstration's programs: the grammar provider's small language, and runs by our own tracer.

A program is `def f(a)` of a few lines over digits and short strings: assignments, `if` with or without
`else`, `for` over a list, written by `synth.providers.grammar.small`. What happens in a run is found by the
pipeline's tracer, in bulk and both passes; nothing here executes or interprets a program. A run that
leaves the language (a number outside 0 to 9, a string of more than four letters, more than nine steps) is
left out.

`bent` makes the deliberately sloppy programs of the warm-up: their runs are true runs, but of a program
that differs from the one shown. Does not cover how a run is written as an answer (`demo_form.py`).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

from rewards.sandbox import SandboxPool
from synth.executions import look, run_traced
from synth.providers.grammar.small import Language, write_small
from synth.source import lines_of, read
from synth.states import States, everything
from synth.traces import Trace

__all__ = ["FIRST_LINE", "INPUTS", "LANGUAGE", "Line", "Program", "Run", "bent", "draw", "runs_of"]

LANGUAGE = Language()
INPUTS = tuple(map(str, range(10)))
"""The inputs each program is run on."""
MAX_STEPS = 9
MAX_LETTERS = 4
FIRST_LINE = 2
"""Line of the file on which a body begins."""

_SPACE = re.compile(r"(?<![a-z]) | (?![a-z\[])")
"""White space that a line can do without."""


@dataclass(frozen=True)
class Line:
    """One line of a program's body."""

    kind: str
    """`set`, `if`, `else`, `for` or `return`."""
    text: str
    """Its source without white space at its begin, nor where it can do without."""
    variable: str = ""
    """What it binds."""
    operand: str = ""
    """The variable it reads first, empty for none."""
    inner: str = ""
    """`if`, `else` or `for` for the only line of such a block, else empty."""


@dataclass(frozen=True)
class Program:
    """One program: its source, as it is traced."""

    code: str

    @cached_property
    def tree(self) -> ast.FunctionDef:
        """Its function. Not to be changed."""
        [function] = ast.parse(self.code).body
        assert isinstance(function, ast.FunctionDef)
        return function

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Its body: line k of the body is line k + 2 of the file."""
        texts = [_SPACE.sub("", text.strip()) for text in lines_of(self.code)]
        return tuple(_lines(self.tree.body, texts, ""))


def _lines(block: list[ast.stmt], texts: list[str], inner: str) -> Iterator[Line]:
    for node in block:
        text = texts[node.lineno - 1]
        if isinstance(node, ast.If):
            yield Line("if", text, operand=_first(node.test))
            yield from _lines(node.body, texts, "if")
            if node.orelse:
                yield Line("else", "else:")
                yield from _lines(node.orelse, texts, "else")
        elif isinstance(node, ast.For):
            yield Line("for", text, _first(node.target))
            yield from _lines(node.body, texts, "for")
        elif isinstance(node, ast.Return):
            yield Line("return", text, operand=_first(node.value))
        elif isinstance(node, ast.AugAssign):
            target = _first(node.target)
            yield Line("set", text, target, target, inner)
        else:
            assert isinstance(node, ast.Assign)
            yield Line("set", text, _first(node.targets[0]), _first(node.value), inner)


def _first(node: ast.AST | None) -> str:
    """The first variable of an expression, empty for none."""
    names = [each.id for each in ast.walk(node or ast.Pass()) if isinstance(each, ast.Name)]
    return names[0] if names else ""


@dataclass(frozen=True)
class Run:
    """One run of one program."""

    lines: tuple[Line, ...]
    code: str
    args: str
    output: str
    trace: Trace
    states: States


def draw(rng: random.Random) -> Program:
    """A program of the language."""
    return Program(read(write_small(LANGUAGE, rng)).code)


SLOPPY = {"pass": 0.6, "branch": 0.3, "value": 0.03}
"""How often the warm-up forgets a loop's last pass, takes the wrong branch, writes a wrong value."""


def bent(program: Program, rng: random.Random) -> Program:
    """The program as somebody sloppy reads it; the shape stays, so that lines keep their numbers."""
    tree = ast.parse(program.code)
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and rng.random() < SLOPPY["pass"]:
            assert isinstance(node.iter, ast.List)
            node.iter.elts.pop()
        elif isinstance(node, ast.If) and rng.random() < SLOPPY["branch"]:
            assert isinstance(node.test, ast.Compare)
            node.test.ops = [ast.GtE()]
        elif isinstance(node, (ast.Assign, ast.AugAssign)):
            for value in ast.walk(node.value):
                if (
                    isinstance(value, ast.Constant)
                    and isinstance(value.value, int)
                    and rng.random() < SLOPPY["value"]
                ):
                    value.value = (value.value + 1) % 10
    return Program(ast.unparse(tree) + "\n")


def runs_of(programs: Iterable[Program], *, workers: int = 2) -> list[list[Run]]:
    """The runs of each program on all inputs, those that leave the language left out. In order."""
    with (
        SandboxPool() as pool,
        ThreadPoolExecutor(max_workers=workers) as threads,
    ):
        return list(threads.map(lambda program: _runs(pool, program), programs))


def _runs(pool: SandboxPool, program: Program) -> list[Run]:
    code, entry = program.code, LANGUAGE.entry
    kept, traces, outputs = list[str](), list[Trace](), list[str]()
    for args, result in zip(INPUTS, run_traced(pool, code, entry, INPUTS), strict=True):
        if result.outcome != "returned" or result.record is None or not _fits(result.value or ""):
            continue
        trace = Trace.from_record(code, result.record)
        if not trace.flags and trace.n_steps <= MAX_STEPS:
            kept, traces, outputs = [*kept, args], [*traces, trace], [*outputs, result.value or ""]
    wanted = [everything(trace) for trace in traces]
    states = look(pool, code, entry, kept, traces, wanted) if kept else []
    runs = [
        Run(program.lines, code, *each) for each in zip(kept, outputs, traces, states, strict=True)
    ]
    return [run for run in runs if _is_small(run)]


def _is_small(run: Run) -> bool:
    return all(
        _fits(held.text or "")
        for step in range(run.trace.n_steps)
        for held in (run.states.at(step) or {}).values()
    )


def _fits(text: str) -> bool:
    """Whether a value's text is one of the language's."""
    if text.startswith("'"):
        return len(text) - 2 <= MAX_LETTERS
    return len(text) == 1 and text.isdigit()
