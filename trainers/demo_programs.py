"""The demonstration's programs: a tiny language, drawn from a seed and run by our own tracer.

A program is `def f(a)` of a few lines over digits and short strings: assignments, `if` with or without
`else`, `for` over a list. What happens in a run is found by the pipeline's tracer, in bulk and both
passes; nothing here executes or interprets a program. A run that leaves the language (a number outside
0 to 9, a string of more than four letters, more than nine steps) is left out.

`bent` makes the deliberately sloppy programs of the warm-up: their runs are true runs, but of a program
that differs from the one shown. Does not cover how a run is written as an answer (`demo_form.py`).
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rewards.sandbox import SandboxPool
from synth.executions import look, run_traced
from synth.states import States, everything
from synth.traces import Trace

__all__ = ["INPUTS", "Line", "Run", "bent", "code_of", "draw", "runs_of"]

INPUTS = tuple(map(str, range(10)))
"""The inputs each program is run on."""
MAX_STEPS = 9
MAX_LETTERS = 4
MAX_LINES = 7
LETTERS = "pqr"
NUMBERS = "bcd"


@dataclass(frozen=True)
class Line:
    """One line of a program's body."""

    kind: str
    """`set`, `if`, `else`, `for` or `return`."""
    text: str
    """Its source without white space at its begin."""
    variable: str = ""
    """What it binds."""
    operand: str = ""
    """The variable it reads, empty for none."""
    inner: str = ""
    """`if`, `else` or `for` for the only line of such a block, else empty."""


@dataclass(frozen=True)
class Run:
    """One run of one program."""

    lines: tuple[Line, ...]
    args: str
    output: str
    trace: Trace
    states: States


def code_of(lines: Sequence[Line]) -> str:
    """The program's source; line k of the body is line k + 2 of the file."""
    body = [f"    {'    ' if line.inner else ''}{line.text}\n" for line in lines]
    return "def f(a):\n" + "".join(body)


def draw(rng: random.Random) -> tuple[Line, ...]:
    """A program of the language."""
    while True:
        numbers, words = ["a"], list[str]()
        lines: list[Line] = []
        for _ in range(rng.choice((2, 3, 3, 4))):
            lines += _statement(rng, numbers, words)
        back = rng.choice([*numbers[1:], *words] or ["a"])
        lines.append(Line("return", f"return {back}", operand=back))
        if len(lines) <= MAX_LINES:
            return tuple(lines)


def _statement(rng: random.Random, numbers: list[str], words: list[str]) -> list[Line]:
    kind = rng.choices(("set", "word", "if", "for"), (40, 20, 25, 15))[0]
    if kind == "word":
        return [_word(rng, words)]
    if kind == "if":
        tested = rng.choice(numbers)
        lines = [Line("if", f"if {tested}<{rng.randint(2, 8)}:", operand=tested)]
        lines.append(replace(_change(rng, numbers), inner="if"))
        if rng.random() < 0.4:
            lines += [Line("else", "else:"), replace(_change(rng, numbers), inner="else")]
        return lines
    if kind == "for":
        items = ",".join(str(rng.randint(1, 3)) for _ in range(rng.choice((2, 2, 3))))
        total = rng.choice(numbers)
        body = Line("set", f"{total}+=i", total, total, "for")
        return [Line("for", f"for i in [{items}]:", "i"), body]
    target = rng.choice(NUMBERS)
    source = rng.choice(numbers)
    if target not in numbers:
        numbers.append(target)
    if rng.random() < 0.15:
        return [Line("set", f"{target}={rng.randint(0, 9)}", target)]
    return [Line("set", f"{target}={source}{_step(rng)}", target, source)]


def _change(rng: random.Random, numbers: Sequence[str]) -> Line:
    """A statement that changes a variable there is: a block may be skipped."""
    target, source = rng.choice(numbers), rng.choice(numbers)
    if rng.random() < 0.5:
        step = _step(rng)
        return Line("set", f"{target}{step[0]}={step[1]}", target, target)
    return Line("set", f"{target}={source}{_step(rng)}", target, source)


def _step(rng: random.Random) -> str:
    return f"{rng.choice('+-')}{rng.randint(1, 4)}"


def _word(rng: random.Random, words: list[str]) -> Line:
    if words and rng.random() < 0.6:
        target = rng.choice(words)
        return Line("set", f"{target}+='{rng.choice(LETTERS)}'", target, target)
    target = rng.choice("st")
    if target not in words:
        words.append(target)
    letters = "".join(rng.choice(LETTERS) for _ in range(rng.choice((1, 2))))
    return Line("set", f"{target}='{letters}'", target)


SLOPPY = {"pass": 0.6, "branch": 0.3, "value": 0.03}
"""How often the warm-up forgets a loop's last pass, takes the wrong branch, writes a wrong value."""


def bent(lines: Sequence[Line], rng: random.Random) -> tuple[Line, ...]:
    """The program as somebody sloppy reads it; the shape stays, so that lines keep their numbers."""
    found = []
    for line in lines:
        text = line.text
        if line.kind == "for" and rng.random() < SLOPPY["pass"]:
            text = text[: text.rindex(",")] + "]:"
        elif line.kind == "if" and rng.random() < SLOPPY["branch"]:
            text = text.replace("<", ">=")
        elif line.kind == "set" and text[-1].isdigit() and rng.random() < SLOPPY["value"]:
            text = text[:-1] + str((int(text[-1]) + 1) % 10)
        found.append(replace(line, text=text))
    return tuple(found)


def runs_of(programs: Iterable[tuple[Line, ...]], *, workers: int = 2) -> list[list[Run]]:
    """The runs of each program on all inputs, those that leave the language left out. In order."""
    with (
        SandboxPool() as pool,
        ThreadPoolExecutor(max_workers=workers) as threads,
    ):
        return list(threads.map(lambda lines: _runs(pool, lines), programs))


def _runs(pool: SandboxPool, lines: tuple[Line, ...]) -> list[Run]:
    code = code_of(lines)
    kept, traces, outputs = list[str](), list[Trace](), list[str]()
    for args, result in zip(INPUTS, run_traced(pool, code, "f", INPUTS), strict=True):
        if result.outcome != "returned" or result.record is None or not _fits(result.value or ""):
            continue
        trace = Trace.from_record(code, result.record)
        if not trace.flags and trace.n_steps <= MAX_STEPS:
            kept, traces, outputs = [*kept, args], [*traces, trace], [*outputs, result.value or ""]
    wanted = [everything(trace) for trace in traces]
    states = look(pool, code, "f", kept, traces, wanted) if kept else []
    runs = [Run(lines, *each) for each in zip(kept, outputs, traces, states, strict=True)]
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
