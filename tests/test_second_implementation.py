"""The law that a second implementation of the trace semantics tells what the tracer tells.

Steps, ends, frames, values, changes and returns are compared on the hand-worked programs, the
CRUXEval programs, programs of the grammar, programs written against tracers (`slow_programs.py`),
random ones (`slow_composer.py`, and the oracle's in `test_tracer.py`), under both recorders and on
every interpreter that this machine has. `golden_traces.json` holds steps that are the same on every
version; it is written by `python tests/slow_watch.py golden`, from the second implementation alone.

What the second implementation refuses and what the tracer drops are counted, and must be rare.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import slow_statements
import slow_watch
from generated import programs
from slow_composer import Composer
from slow_interpreter import Unsupported, run, told
from slow_programs import PROGRAMS
from slow_watch import Verdict, compare, spelled, told_by_trace
from test_tracer import (
    CASES,
    OTHER_VERSIONS,
    WORKED,
    Failed,
    Oracle,
    Writer,
    case_steps,
    cruxeval,
    other_interpreter,
    quiet_finalizers,
    read_cases,
)

from rewards import sandbox
from rewards.sandbox import Job
from synth.traces import RECORDER, trace

HERE = Path(__file__).parent
GOLDEN = HERE / "golden_traces.json"
Program = tuple[str, str, str]
"""Code, entry, arguments."""


def verdicts(
    jobs: Iterable[Program],
    *,
    recorders: tuple[str | None, ...] = (None, RECORDER),
    names: Callable[[], Mapping[str, Any]] = dict,
) -> Counter[str]:
    """How many runs ended how; fails at the first disagreement. None: the recorder that is chosen."""
    found: Counter[str] = Counter()
    for code, entry, args in jobs:
        for recorder in recorders:
            verdict = compare(code, entry, args, recorder=recorder, names=names)
            assert verdict.kind != "different", f"{verdict.detail}\n\n{code}\n\n{entry}({args})"
            found[verdict.kind] += 1
    return found


def share(found: Counter[str], kind: str) -> float:
    return found[kind] / found.total()


# The hand-worked programs.


@pytest.mark.skipif(not CASES.exists(), reason="the hand-worked traces are not in this checkout")
def test_second_implementation_tells_the_hand_worked_traces() -> None:
    for case in read_cases():
        found = run(case["code"], case["entry"], case["args"])
        assert repr(found.value) == case["result"]
        steps = [
            [
                s.line,
                s.col,
                s.visit,
                s.frame,
                s.function.rpartition(".")[2],
                s.kind,
                s.outcome,
                s.next,
            ]
            for s in found.steps
        ]
        assert steps == case_steps(case), case["id"]
        for step, expected in zip(found.steps, case["steps"], strict=True):
            for name, value in (expected["locals"] or {}).items():
                assert step.state[name].type == value["type"], (case["id"], step)
                assert step.state[name].text in (value["value"], None), (case["id"], step)
            if expected["locals"] is not None:
                assert step.state.keys() == expected["locals"].keys(), (case["id"], step)


@pytest.mark.skipif(not CASES.exists(), reason="the hand-worked traces are not in this checkout")
def test_hand_worked_programs_agree() -> None:
    jobs = [(case["code"], case["entry"], case["args"]) for case in read_cases()]
    assert verdicts(jobs) == {"agreed": 2 * len(jobs)}
    for code, entry, args in jobs:  # through the sandbox, as a user's run goes
        found = trace(code, entry, args)[1]
        assert found is not None
        assert told_by_trace(found) == told(run(code, entry, args))


# Programs of others.


def test_cruxeval_programs_agree() -> None:
    jobs = [(row["code"], "f", row["input"]) for row in cruxeval()]
    found = verdicts(jobs, recorders=(None,)) + verdicts(jobs[::4], recorders=(RECORDER,))
    assert found == {"agreed": len(jobs) + len(jobs[::4])}


def grammar(count: int) -> list[Program]:
    """Programs that end within the limits of the sandbox; here nothing would stop one that does not."""
    sources = [source for _, _, source in programs(count)]
    results = sandbox.run([Job(each.code, each.entry, each.args) for each in sources])
    return [
        (source.code, source.entry, source.args)
        for source, result in zip(sources, results, strict=True)
        if result.outcome in ("returned", "raised")
    ]


def test_generated_programs_agree() -> None:
    jobs = grammar(200)
    found = verdicts(jobs, recorders=(None,)) + verdicts(jobs[::4], recorders=(RECORDER,))
    assert found.total() > 240 and share(found, "agreed") > 0.99


@pytest.mark.slow
def test_cruxeval_programs_agree_under_the_other_recorder() -> None:
    jobs = [(row["code"], "f", row["input"]) for row in cruxeval()]
    assert verdicts(jobs, recorders=(RECORDER,)) == {"agreed": len(jobs)}


@pytest.mark.slow
def test_many_generated_programs_agree() -> None:
    found = verdicts(grammar(2500))
    assert found.total() > 4900 and share(found, "agreed") > 0.99


# Programs written against tracers.


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_against_tracers_agree(name: str) -> None:
    assert verdicts([(PROGRAMS[name], "f", "")]) == {"agreed": 2}


def test_worked_programs_agree() -> None:
    found = verdicts((code, "f", args) for code, args, _ in WORKED.values())
    # One leaves a generator behind on purpose.
    assert found == {"agreed": 2 * len(WORKED) - 2, "unfit": 2}


ENTRIES: dict[str, Program] = {
    "a lambda": ("def g(n):\n    return n\nf = lambda n: g(n) + g(n)\n", "f", "2"),
    "a bound method": (
        "class A:\n    def __init__(self, k): self.k = k\n    def m(self, n):\n"
        "        return n + self.k\nf = A(1).m\n",
        "f",
        "2",
    ),
    "a class": ("class f:\n    def __init__(self, n):\n        self.n = n\n", "f", "2"),
    "a generator that nobody advances": ("def f(n):\n    yield n\n", "f", "2"),
    "cached": (
        "import functools\n@functools.lru_cache\ndef f(n):\n    if n < 2: return n\n"
        "    return f(n - 1) + f(n - 2)\n",
        "f",
        "5",
    ),
    "wrapped": (
        "import functools\ndef d(g):\n    @functools.wraps(g)\n    def w(*a):\n        r = g(*a)\n"
        "        return r\n    return w\n@d\ndef f(n):\n    return n\n",
        "f",
        "5",
    ),
    "called with what the program defines": (
        "class A:\n    def __init__(self, n): self.n = n\n    def __add__(self, o):\n"
        "        return self.n + o.n\ndef f(a, b, g):\n    return g(a + b)\n",
        "f",
        "A(3), b=A(4), g=lambda x: -x",
    ),
    "tabs, form feeds, carriage returns": (
        "def f(n):\r\n\tif n:\r\n\t\tx = 1\r\n\x0c\r\n\treturn '\\x0c\\u2028', (x,\r\n n)\r\n",
        "f",
        "1",
    ),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_entries_agree(name: str) -> None:
    assert verdicts([ENTRIES[name]]) == {"agreed": 2}


# What the two once saw differently: the least program for each, and the paragraph that decides.

ONCE_DIFFERENT = {
    # "Step ... `with`: entering, until the target is bound": raised then, before `__exit__` runs.
    "with whose target fails": (
        "class M:\n    def __enter__(self):\n        return 1\n    def __exit__(self, *error):\n"
        "        return True\ndef f():\n    with M() as (a, b):\n        pass\n    return 2\n"
    ),
    # "Branch": a case is chosen although its first line is no step.
    "case that begins with a bare annotation": (
        "def f():\n    match 1:\n        case 1:\n            x: int\n            y = 2\n    return y\n"
    ),
    # "Frames on the stack": a generator that waits in `yield from` is one of them.
    "depth below a delegation to what is no generator": (
        "def k(x):\n    return x\ndef g():\n    yield from map(k, [1])\ndef f():\n"
        "    return list(g())\n"
    ),
    # "At the moment the step ends": when it raises, the handler's name is still bound.
    "state of a step that raises in a handler": (
        "def f():\n    try:\n        try:\n            1 / 0\n        except ArithmeticError as e:\n"
        "            {}[1]\n    except KeyError:\n        x = 1\n    return x\n"
    ),
    # "Qualified name": of a `def` whose name is declared global it is that name alone.
    "def of a name that is declared global": (
        "def f():\n    global g\n    def g():\n        return 1\n    return g()\n"
    ),
}


@pytest.mark.parametrize("name", ONCE_DIFFERENT)
def test_once_different_programs_agree(name: str) -> None:
    assert verdicts([(ONCE_DIFFERENT[name], "f", "")]) == {"agreed": 2}


# Random programs.


def composed(seeds: range) -> Iterator[Program]:
    for seed in seeds:
        yield Composer(seed).program(), "f", ""


def test_composed_programs_agree() -> None:
    with quiet_finalizers():
        found = verdicts(composed(range(40)), recorders=(None,))
    assert share(found, "agreed") > 0.9


@pytest.mark.slow
def test_many_composed_programs_agree() -> None:
    with quiet_finalizers():
        found = verdicts(composed(range(40, 1500)), recorders=(None,))
    assert share(found, "agreed") > 0.97 and share(found, "unsupported") < 0.02


def oracle_programs(seeds: range) -> Counter[str]:
    found: Counter[str] = Counter()
    for seed in seeds:

        def names(seed: int = seed) -> dict[str, Any]:
            oracle = Oracle(seed)
            told_to = {name: getattr(oracle, name) for name in ("t", "c", "it", "cm")}
            return {**told_to, "Failed": Failed, "x_is": lambda: False}

        found += verdicts([(Writer(seed).program(), "f", "")], recorders=(None,), names=names)
    return found


def test_oracle_programs_agree() -> None:
    with quiet_finalizers():
        assert share(oracle_programs(range(60)), "agreed") > 0.9


@pytest.mark.slow
def test_many_oracle_programs_agree() -> None:
    with quiet_finalizers():
        assert share(oracle_programs(range(60, 1000)), "agreed") > 0.9


# Other interpreters.


@pytest.mark.parametrize("version", OTHER_VERSIONS)
def test_both_agree_on_other_versions(version: str) -> None:
    jobs = [(case["code"], case["entry"], case["args"]) for case in read_cases()]
    jobs += [(code, "f", "") for code in (*PROGRAMS.values(), *ONCE_DIFFERENT.values())]
    jobs += composed(range(100, 110))
    answers = elsewhere(other_interpreter(version), jobs)
    assert answers["golden"] == golden()
    for (kind, detail), (code, _, _) in zip(answers["verdicts"], jobs, strict=True):
        assert kind == "agreed", f"{detail}\n\n{code}"


def elsewhere(python: str, jobs: list[Program]) -> dict[str, Any]:
    """What `slow_watch` answers in a process of an interpreter that has no other packages."""
    done = subprocess.run(
        [python, "-W", "ignore", str(HERE / "slow_watch.py")],
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE.parent), "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def golden() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_trace(name: str) -> None:
    """Of the tracer here, through the sandbox."""
    found = trace(PROGRAMS[name], "f", "")[1]
    assert found is not None and not found.flags
    assert spelled(told_by_trace(found)) == golden()[name]


def test_golden_traces_are_up_to_date() -> None:
    assert slow_watch.golden() == golden()


# The laws can fail, and the second implementation says what it does not know.


def test_a_wrong_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "def f(n):\n    if n:\n        n += 1\n    return n\n"
    assert compare(code, "f", "1") == Verdict("agreed", steps=3)
    right = slow_statements.Statements.start

    def start(self: Any, node: ast.stmt, env: Any) -> Any:
        return None if isinstance(node, ast.If) else right(self, node, env)

    monkeypatch.setattr(slow_statements.Statements, "start", start)
    assert compare(code, "f", "1").kind == "different"


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        ("told_by_trace", lambda found: [[*step[:-1], -1] for step in found]),
        ("changes", lambda found: [(change, ("n",)) for change, _ in found]),
    ],
)
def test_a_wrong_next_line_or_change_is_seen(
    monkeypatch: pytest.MonkeyPatch, where: str, wrong: Callable[[Any], Any]
) -> None:
    right = getattr(slow_watch, where)
    monkeypatch.setattr(slow_watch, where, lambda found: wrong(right(found)))
    assert compare("def f(n):\n    n += 1\n    return n\n", "f", "1").kind == "different"


REFUSED = {
    "AsyncFunctionDef": "async def f(): pass\n",
    "deep recursion": "def f(n=0):\n    return f(n + 1)\n",
    "threads": "import threading\ndef g(): return 1\ndef f():\n    t = threading.Thread(target=g)\n"
    "    t.start()\n    t.join()\n",
    "attribute _getframe": "import sys\ndef f(): return sys._getframe()\n",
    "__del__": "class A:\n    def __del__(self): pass\ndef f(): A()\n",
    "more than 20000 steps": "def f():\n    while True: pass\n",
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("what", REFUSED)
def test_refuses_by_name(what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        run(REFUSED[what], "f", "")
