"""`synth bench reward`: what grading costs, against the usual way: a new interpreter per completion.

The usual way writes the answer behind the program and runs both; what a process leaves with is the
verdict. It is the baseline of every load, on the same completions in the same run, half of them wrong,
and all ways must give the same verdicts. Loads: assertions (output), assertions with white-box lines,
inputs as a policy samples them (sixteen answers a row, four of them different) and all different, unit
tests that call and unit tests on stdin. Ratios are per CPU-second, children included. What is held in
how differs from way to way and is printed with it. The time of `import rewards.whitebox` is a line of
its own.

The baseline runs programs as they are, outside the sandbox: give only rows that you trust.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewards.grades import Graded, Policy
from rewards.grading import grade, grade_all, same_value
from rewards.hacks.records import near_miss, written
from rewards.row import Question, Spec, Tests
from rewards.truths import answer_line, completion, first_line
from rewards.values import canonical, parse
from synth.bench import Call, cases_of, clean_interpreter, interpreted
from synth.errors import DataError

if TYPE_CHECKING:
    from rewards.sandbox import SandboxPool

__all__ = ["BASELINE", "ImportTimes", "RewardTiming", "RewardTimings", "measure_rewards"]

BASELINE = "a new interpreter of a clean virtual environment per completion (per test on stdin)"
GROUP = 8
"""Completions a row."""
SHARES = (8, 4, 3, 1)
"""How often each answer of a group of sixteen is given: the right one, then three wrong ones. Samples
of a code model at temperature 0.2 repeat themselves as often."""
IMPORTS = 15
REASONING = (
    "Step by step: the loop runs once more, the total grows by one, nothing else changes.\n" * 14
)
PARSED = "nothing runs"
GROUPED = "all layers, a fresh namespace a call; calls of one program share a process"
ALONE = "all layers, a process a call"
OPEN = "none: the program runs in this process"
USUAL = "none: an ordinary process"
ROUNDS = {PARSED: 20, OPEN: 20, GROUPED: 4, ALONE: 2}
"""How often a way is repeated, every cache emptied in between; the usual way goes once."""


@dataclass(frozen=True)
class Item:
    """One completion, and how the usual way judges it."""

    spec: Spec
    completion: str
    script: str
    """Program for a new interpreter; that it ends with status 0 is the verdict."""
    right: bool
    stdin: tuple[tuple[str, str], ...] = ()
    """(input, expected output) of tests, each a run of the script of its own."""
    lines: tuple[str, ...] = ()
    """White-box answers, compared as text with the truth."""
    each: tuple[str, ...] = ()
    """Programs for one test each, where the usual way may also be a new interpreter per test."""


@dataclass(frozen=True)
class RewardTiming:
    """One way over one load."""

    load: str
    way: str
    holds: str
    """What holds the code of others in."""
    completions: int
    cpu_seconds: float
    ratio: float
    """Completions per CPU-second over those of the baseline."""
    wrong: int
    """Verdicts that are not what they should be."""


@dataclass(frozen=True)
class ImportTimes:
    """CPU milliseconds of a new interpreter, medians."""

    empty: float
    json: float
    whitebox: float
    grading: float
    """`import rewards.grading`, which the first call of a reward loads."""

    @property
    def added(self) -> float:
        """What `import rewards.whitebox` adds to an empty interpreter."""
        return self.whitebox - self.empty

    @property
    def over_json(self) -> float:
        """The same, over what `import json` adds."""
        return self.added / max(self.json - self.empty, 1e-3)


@dataclass(frozen=True)
class RewardTimings:
    """All ways over all loads."""

    timings: tuple[RewardTiming, ...]
    imports: ImportTimes

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "baseline": BASELINE,
            "ways": [
                {
                    **asdict(one),
                    "cpu_seconds": round(one.cpu_seconds, 6),
                    "ratio": round(one.ratio, 2),
                }
                for one in self.timings
            ],
            "import_ms": {
                "empty": round(self.imports.empty, 2),
                "json": round(self.imports.json, 2),
                "rewards.whitebox": round(self.imports.whitebox, 2),
                "rewards.grading": round(self.imports.grading, 2),
                "added": round(self.imports.added, 2),
                "over_json": round(self.imports.over_json, 2),
            },
        }

    def text(self) -> str:
        """A table, and what holds in at each speed."""
        lines = [f"baseline: {BASELINE}", ""]
        lines.append(f"{'load':26}{'way':36}{'n':>6}{'wrong':>7}{'per cpu s':>11}{'ratio':>9}")
        for one in self.timings:
            rate = one.completions / one.cpu_seconds
            lines.append(
                f"{one.load:26}{one.way:36}{one.completions:6}{one.wrong:7}{rate:11,.0f}"
                f"{one.ratio:8,.1f}x"
            )
        lines += ["", "held in by:"]
        held = dict.fromkeys((one.way, one.holds) for one in self.timings)
        lines += [f"  {way:34}{holds}" for way, holds in held]
        found = self.imports
        lines += [
            "",
            f"import rewards.whitebox adds {found.added:.1f} ms to an empty interpreter"
            f" ({found.empty:.1f} ms), {found.over_json:.2f}x what import json adds; the first call loads"
            f" the grader, {found.grading - found.whitebox:.1f} ms",
        ]
        return "\n".join(lines)


# ---------------------------------------------------------------------------------------------
# Loads


def _completion(*lines: str) -> str:
    return completion("\n".join(lines)).replace("<reasoning>\n", f"<reasoning>\n{REASONING}", 1)


def _is_plain(text: str) -> bool:
    """Whether an ordinary interpreter reads the text back as the value: the baseline has to."""
    try:
        value = ast.literal_eval(text)
        return bool(value == value) and canonical(value) == text
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return False


def output_items(calls: Sequence[Call]) -> list[Item]:
    """For each row the right answer four times, three near ones, and one that is cut."""
    items = []
    for call in calls:
        spec = Spec("output", call.code, call.entry, call.args, call.output)
        texts = [call.output] * (GROUP // 2) + _near(call.output, GROUP // 2 - 1) + ["["]
        for number, text in enumerate(texts, 1):
            claim = f"assert {call.entry}({call.args}) == {text}"
            items.append(
                Item(spec, _completion(claim), f"{call.code}\n{claim}", number <= GROUP // 2)
            )
    return items


def _near(output: str, count: int) -> list[str]:
    """Texts of other values, each near the one before."""
    truth = value = parse(output)
    found: list[str] = []
    for other in (*range(count), "another", None, 2.5):
        value = near_miss(value)
        # Two steps from True is True again: then something else.
        wrong = value if value != truth else other
        text = written(wrong)
        if wrong != truth and text is not None and text not in found:
            found.append(text)
    return found[:count]


def whitebox_items(calls: Sequence[Call]) -> list[Item]:
    """For each row of which something can be asked the right lines four times, three with a wrong
    one among them, and one with a line too few.
    """
    items = []
    for call in calls:
        questions = _questions(call)
        if not questions:
            continue
        spec = Spec("whitebox", call.code, call.entry, call.args, call.output, questions=questions)
        claim = first_line(spec)
        lines = tuple(map(answer_line, questions))
        other = "-1" if lines[-1] != "-1" else "Nil"
        every = [lines] * (GROUP // 2) + [(*lines[:-1], other)] * (GROUP // 2 - 1) + [lines[:-1]]
        items += [
            Item(
                spec,
                _completion(claim, *given),
                f"{call.code}\n{claim}",
                given == lines,
                lines=given,
            )
            for given in every
        ]
    return items


def _questions(call: Call) -> tuple[Question, ...]:
    from synth.inquiry import inquire
    from synth.questions import PRESETS
    from synth.runs import follow

    try:
        run = follow(f"{call.code}\nprint({call.entry}({call.args}))\n", "bench")
    except DataError:  # a run that is not followed: no row of our own either
        return ()
    return inquire(run, PRESETS["paper"], "bench").questions


def input_items(calls: Sequence[Call], inputs: Sequence[Sequence[tuple[str, str]]]) -> list[Item]:
    """Groups of sixteen answers: the right input eight times, three others that miss."""
    items = []
    for call, pairs in zip(calls, inputs, strict=True):
        if not _is_literal(call, call.args):
            continue
        others = [args for args, output in pairs if not _equal(output, call.output)]
        others = [args for args in others if _is_literal(call, args)][: len(SHARES) - 1]
        if len(others) == len(SHARES) - 1:
            for args, count in zip((call.args, *others), SHARES, strict=True):
                items += [_input_item(call, args, right=args == call.args)] * count
    return items


def different_items(
    calls: Sequence[Call], inputs: Sequence[Sequence[tuple[str, str]]]
) -> list[Item]:
    """Up to eight different answers a row."""
    return [
        _input_item(call, args, right=output == call.output)
        for call, pairs in zip(calls, inputs, strict=True)
        for args, output in pairs[:GROUP]
        # 1 and 1.0 are one value for the baseline, two for us.
        if (output == call.output or not _equal(output, call.output)) and _is_literal(call, args)
    ]


def _is_literal(call: Call, args: str) -> bool:
    """Whether an answer may give these arguments: the stored ones of some rows hold arithmetic."""
    from rewards.arguments import read_arguments
    from rewards.assertions import Refused

    try:
        read_arguments(f"{call.entry}({args})", call.code, call.entry)
    except Refused:
        return False
    return True


def _equal(a: str, b: str) -> bool:
    return bool(ast.literal_eval(a) == ast.literal_eval(b))


def _input_item(call: Call, args: str, *, right: bool) -> Item:
    spec = Spec("input", call.code, call.entry, call.args, call.output)
    claim = f"assert {call.entry}({args}) == {call.output}"
    return Item(spec, _completion(claim), f"{call.code}\n{claim}", right)


def test_items(
    calls: Sequence[Call], inputs: Sequence[Sequence[tuple[str, str]]], *, stdin: bool
) -> list[Item]:
    """For each row whose inputs are JSON its own program, and one that is wrong on some test."""
    items = []
    for call, pairs in zip(calls, inputs, strict=True):
        tests = [found for found in map(_json_test, [call] * len(pairs), pairs) if found]
        if len(tests) < 3 or len({output for _, output in tests}) < 2:
            continue
        given, expected = (tuple(one) for one in zip(*tests, strict=True))
        constant = f"def {call.entry}(*args):\n    return {json.loads(expected[0])!r}\n"
        for program, right in ((call.code, True), (constant, False)):
            if stdin:
                items.append(_stdin_item(call, program, given, expected, right=right))
            else:
                items.append(_call_item(call, program, given, expected, right=right))
    return items


def _json_test(call: Call, pair: tuple[str, str]) -> tuple[str, str] | None:
    """(arguments, result) as JSON, where JSON keeps them as they are."""
    try:
        args = ast.literal_eval(f"({pair[0]},)")
        values = [*args, ast.literal_eval(pair[1])]
        texts = [json.dumps(value) for value in values]
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if any(
        canonical(json.loads(text)) != canonical(value)
        for text, value in zip(texts, values, strict=True)
    ):
        return None
    return ("\n".join(texts[:-1]), texts[-1]) if args else None


def _call_item(
    call: Call, program: str, given: tuple[str, ...], expected: tuple[str, ...], *, right: bool
) -> Item:
    spec = Spec("unittest", entry=call.entry, tests=Tests(given, expected, fn_name=call.entry))
    checks = [
        f"assert {call.entry}({', '.join(repr(json.loads(line)) for line in one.split(chr(10)))})"
        f" == {json.loads(output)!r}"
        for one, output in zip(given, expected, strict=True)
    ]
    return Item(
        spec,
        _completion(f"```python\n{program.rstrip()}\n```"),
        "\n".join([program, *checks]),
        right,
        each=tuple([f"{program}\n{check}" for check in checks]),
    )


def _stdin_item(
    call: Call, program: str, given: tuple[str, ...], expected: tuple[str, ...], *, right: bool
) -> Item:
    script = (
        f"import json, sys\n{program}\n"
        f"print(json.dumps({call.entry}(*map(json.loads, sys.stdin.read().split(chr(10))))))"
    )
    spec = Spec("unittest", tests=Tests(given, expected))
    pairs = tuple(zip(given, expected, strict=True))
    return Item(spec, _completion(f"```python\n{script}\n```"), script, right, stdin=pairs)


# ---------------------------------------------------------------------------------------------
# Ways


Judge = Callable[[Sequence[Item]], "list[bool]"]
"""Items -> verdicts."""
Way = Callable[[Sequence[Item], int], "list[bool]"]
"""Items and how often to judge them -> the last verdicts; what it starts it starts once, and ends."""


def _repeated(judge: Judge) -> Way:
    """Every round meets its rows for the first time."""

    def way(items: Sequence[Item], rounds: int) -> list[bool]:
        verdicts: list[bool] = []
        for _ in range(rounds):
            forget()
            verdicts = judge(items)
        return verdicts

    return way


def _usual(python: str) -> Way:
    return _repeated(lambda items: [_interpreted_verdict(python, item) for item in items])


def _per_test(python: str) -> Way:
    def judge(items: Sequence[Item]) -> list[bool]:
        # No test is left out: the share of those passed is wanted.
        ended = [[interpreted(python, script) for script in item.each] for item in items]
        return [None not in outputs for outputs in ended]

    return _repeated(judge)


def _interpreted_verdict(python: str, item: Item) -> bool:
    if item.stdin:
        return all(
            interpreted(python, item.script, given) == expected for given, expected in item.stdin
        )
    if interpreted(python, item.script) is None:
        return False
    return list(item.lines) == [answer_line(question) for question in item.spec.questions]


def _verdicts(graded: Sequence[Graded]) -> list[bool]:
    return [one.status == "right" for one in graded]


def _graded(items: Sequence[Item]) -> list[bool]:
    return _verdicts(grade_all([(item.spec, item.completion) for item in items]))


def _pooled(items: Sequence[Item], pool: SandboxPool) -> list[bool]:
    """All together, a row's completions side by side."""
    return _verdicts(grade_all([(item.spec, item.completion) for item in items], pool=pool))


def _singly(items: Sequence[Item], pool: SandboxPool) -> list[bool]:
    """One after the other: every answer has a process of its own, equal ones too."""
    return _verdicts([grade(item.spec, item.completion, pool=pool) for item in items])


def _sandboxed(judge: Callable[[Sequence[Item], SandboxPool], list[bool]]) -> Way:
    """A pool of one fork server, whose processes count once they have ended."""

    def way(items: Sequence[Item], rounds: int) -> list[bool]:
        from rewards.sandbox import Job, SandboxPool

        with SandboxPool(1) as pool:
            pool.run([Job("pass")])
            return _repeated(lambda some: judge(some, pool))(items, rounds)

    return way


def _here(items: Sequence[Item]) -> list[bool]:
    """Input answers in this very process: as fast as it gets, and nothing is held in."""
    from rewards.answers import code_of, extract
    from rewards.arguments import read_arguments

    verdicts = []
    for item in items:
        spec = item.spec
        found = extract(item.completion)
        args = read_arguments(code_of(found.answer), spec.code, spec.entry).text
        namespace: dict[str, Any] = {"__name__": "__main__"}
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(spec.code, namespace)
                text = canonical(eval(f"{spec.entry}({args})", namespace))
            verdicts.append(same_value(text, spec.output, Policy()))
        except Exception:  # whatever the program raises is a wrong answer
            verdicts.append(False)
    return verdicts


# ---------------------------------------------------------------------------------------------
# Measuring


def measure_rewards(calls: Sequence[Call]) -> RewardTimings:
    """Time all ways over all loads made of `calls`, and the import.

    Raises `DataError` if the rows give no completion that an ordinary interpreter can judge.
    """
    with tempfile.TemporaryDirectory(prefix="execverify-bench-") as folder:
        python = clean_interpreter(Path(folder))
        plain = [call for call in calls if _is_plain(call.output)]
        inputs = [
            [(args, output) for args, output in pairs if _is_plain(output)]
            for pairs in _inputs(plain, python)
        ]
        usual = ("usual way", USUAL, _usual(python))
        parsed = [usual, ("parsed", PARSED, _repeated(_graded))]
        alone = ("a process an answer", ALONE, _sandboxed(_singly))
        grouped = ("grouped, equal answers run once", GROUPED, _sandboxed(_pooled))
        here = ("this process, no isolation", OPEN, _repeated(_here))
        each = ("usual way, per test", USUAL, _per_test(python))
        whole = ("sandbox", GROUPED, _sandboxed(_pooled))
        stdin = ("sandbox, a process a test", ALONE, _sandboxed(_pooled))
        loads = [
            ("output", output_items(plain), parsed),
            ("whitebox", whitebox_items(plain), parsed),
            ("input, 4 of 16 different", input_items(plain, inputs), [usual, grouped, alone, here]),
            ("input, all different", different_items(plain, inputs), [usual, grouped, alone, here]),
            ("unit tests, calls", test_items(plain, inputs, stdin=False), [usual, each, whole]),
            ("unit tests, stdin", test_items(plain[:16], inputs[:16], stdin=True), [usual, stdin]),
        ]
        timings: list[RewardTiming] = []
        for name, items, ways in loads:
            if items:
                timings += _timed(name, items, ways)
        if not timings:
            raise DataError("no row has an output that an ordinary interpreter can compare")
        return RewardTimings(tuple(timings), import_times(python))


def _inputs(calls: Sequence[Call], python: str) -> Iterator[list[tuple[str, str]]]:
    """Inputs of each program with what an ordinary interpreter gives for them, the row's own first."""
    for case in cases_of(calls, python):
        yield list(zip(case.inputs, case.outputs, strict=True))


def _timed(
    load: str, items: Sequence[Item], ways: Sequence[tuple[str, str, Way]]
) -> list[RewardTiming]:
    timings: list[RewardTiming] = []
    for name, holds, way in ways:
        rounds = ROUNDS.get(holds, 1)
        way(items[:2], 1)  # what is loaded on first use
        # A trainer starts its sandbox once: what the start and the end of one cost does not count.
        start, _ = _cost(way, [], 1)
        cost, verdicts = _cost(way, items, rounds)
        seconds = max(cost - start, 1e-9) / rounds
        wrong = sum(one != item.right for one, item in zip(verdicts, items, strict=True))
        timing = RewardTiming(load, name, holds, len(items), seconds, 1.0, wrong)
        base = timings[0] if timings else timing
        timings.append(replace(timing, ratio=base.cpu_seconds / seconds))
    return timings


def _cost(way: Way, items: Sequence[Item], rounds: int) -> tuple[float, list[bool]]:
    """CPU seconds and verdicts."""
    before = _cpu_seconds()
    verdicts = way(items, rounds)
    return _cpu_seconds() - before, verdicts


def _cpu_seconds() -> float:
    """Of this process, to the nanosecond, and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def forget() -> None:
    """Empty every cache of `rewards`, so that each round meets its rows for the first time."""
    for name, module in list(sys.modules.items()):
        if name.startswith("rewards."):
            for held in vars(module).values():
                clear = getattr(held, "cache_clear", None)
                if callable(clear):
                    clear()


def import_times(python: str, repeats: int = IMPORTS) -> ImportTimes:
    """What importing costs, in turn, in a clean interpreter that writes and reads compiled files."""
    root = str(Path(__file__).resolve().parent.parent)
    statements = ("pass", "import json", "import rewards.whitebox", "import rewards.grading")
    found: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(repeats + 1):
        for statement in statements:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                [python, "-c", statement], env={**os.environ, "PYTHONPATH": root}, check=True
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[statement].append(1000 * seconds)
    # The first round writes the compiled files.
    medians = [statistics.median(found[statement][1:]) for statement in statements]
    return ImportTimes(*medians)
