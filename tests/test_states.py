"""Pass two: what variables held, and the law that both recorders tell the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from generated import programs

from rewards.sandbox import run_group
from rewards.sandbox.jobs import ExecutionResult
from synth.executions import MAX_STEPS
from synth.statements import table_of
from synth.states import Held, States, Wanted, capture, everything, needed
from synth.traces import LINE_RECORDER, RECORDER, Trace, TraceError, run_watched

CASES = Path(__file__).parents[2] / "shared" / "cases" / "trace_cases.jsonl"
CRUXEVAL = Path(__file__).parents[2] / "shared" / "data" / "cruxeval_dev.jsonl"


def watched(
    code: str, args: str, *, entry: str = "f", recorder: str | None = None
) -> tuple[ExecutionResult, Trace]:
    options = [{"max_steps": MAX_STEPS}]
    (result,) = run_watched(run_group, code, entry, [args], options=options, recorder=recorder)
    assert result.record is not None, result
    return result, Trace.from_record(code, result.record)


def states_of(
    code: str,
    args: str,
    wanted: Wanted | None = None,
    *,
    entry: str = "f",
    recorder: str | None = None,
) -> States:
    result, trace = watched(code, args, entry=entry, recorder=recorder)
    wanted = wanted or everything(trace)
    (states,) = capture(run_group, code, entry, [args], [trace], [wanted], max_steps=MAX_STEPS)
    assert (states.result.outcome, states.result.value) == (result.outcome, result.value)
    return states


def lines_of(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        pytest.skip("the shared cases are not in this checkout")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


# The hand-worked programs.


@pytest.mark.parametrize("recorder", [None, RECORDER], ids=["chosen", "events"])
def test_hand_worked_programs(recorder: str | None) -> None:
    for case in lines_of(CASES):
        code, args, entry = case["code"], case["args"], case["entry"]
        states = states_of(code, args, entry=entry, recorder=recorder)
        for step, expected in zip(states.trace.steps, case["steps"], strict=True):
            assert step.next == expected["next_done"], (case["id"], step)
            if expected["locals"] is None:
                continue
            found = states.at(step.index)
            assert found is not None and found.keys() == expected["locals"].keys(), (
                case["id"],
                step,
            )
            for name, held in found.items():
                assert held.type == expected["locals"][name]["type"]
                if held.text is not None:
                    assert held.text == expected["locals"][name]["value"], (case["id"], step, name)


# What a state is.


def test_changes_are_against_the_end_of_the_frame_s_previous_step() -> None:
    code = "def f(a):\n    b = a\n    b.append(1)\n    del b\n    return a\n"
    states = states_of(code, "[]")
    changes = [states.change(step) for step in range(4)]
    assert [dict(one.changed) for one in changes if one] == [
        {"a": Held("list", "[]"), "b": Held("list", "[]")},
        {"a": Held("list", "[1]"), "b": Held("list", "[1]")},
        {},
        {},
    ]
    assert [one.removed for one in changes if one] == [(), (), ("b",), ()]


def test_a_handler_s_name_changes_with_its_first_step() -> None:
    code = (
        "def f(e):\n    try:\n        x = 1 // e\n    except ZeroDivisionError as e:\n"
        "        x = 2\n    return x\n"
    )
    states = states_of(code, "0")
    raised = states.at(1 + 0)  # the step that raises: `e` is still the parameter
    assert raised == {"e": Held("int", "0")}
    change = states.change(2)
    assert change is not None
    assert change.changed["e"] == Held("ZeroDivisionError", None)
    last = states.change(3)
    assert last is not None and last.removed == ("e",)


def test_free_variables_count_and_globals_and_dunders_do_not() -> None:
    code = (
        "LIMIT = 3\n\n"
        "def f(n):\n    total = 0\n    def add(k):\n        nonlocal total\n        total += k + LIMIT\n"
        "    class C:\n        y = n\n    add(n)\n    return total\n"
    )
    states = states_of(code, "2")
    by_function = {
        step.function: states.at(step.index)
        for step in states.trace.steps
        if step.function in ("f.<locals>.add", "f.<locals>.C")
    }
    assert by_function["f.<locals>.add"] == {"k": Held("int", "2"), "total": Held("int", "5")}
    assert by_function["f.<locals>.C"] == {"y": Held("int", "2")}


def test_looking_calls_no_code_of_the_program_and_advances_no_iterator() -> None:
    code = (
        "class Odd:\n    seen = []\n    def __repr__(self):\n        Odd.seen.append('repr')\n"
        "        return 'odd'\n    def __eq__(self, other):\n        Odd.seen.append('eq')\n"
        "        return True\n    def __hash__(self):\n        Odd.seen.append('hash')\n"
        "        return 1\n\n"
        "def f(n):\n    odd = [Odd()]\n    it = iter([1, 2, 3])\n    gen = (i for i in it)\n"
        "    first = next(gen)\n    return (first, list(it), Odd.seen)\n"
    )
    states = states_of(code, "1")
    assert states.result.value == "(1, [2, 3], [])"
    state = states.at(3)
    assert state is not None
    assert state["odd"] == Held("list", None)
    assert state["gen"] == Held("generator", None)
    assert state["first"] == Held("int", "1")


def test_returned_values() -> None:
    code = (
        "def g(n):\n    if n > 1:\n        return [n]\n    n += 1\n\n"
        "def h(n):\n    try:\n        return n\n    finally:\n        n = 5\n\n"
        "def f(n):\n    return (g(n), g(0), h(7))\n"
    )
    states = states_of(code, "4")
    assert states.returned(1) == Held("tuple", "([4], None, 7)")
    assert states.returned(2) == Held("list", "[4]")
    assert states.returned(3) == Held("NoneType", "None")
    assert states.returned(4) is None  # a `finally` might have returned something else


def test_only_what_is_wanted_is_captured() -> None:
    code = "def f(n):\n    a = n\n    b = a + 1\n    c = b\n    return c\n"
    _, trace = watched(code, "1")
    wanted = needed(trace, {1: ["b"]}, changes=[3])
    states = states_of(code, "1", wanted)
    assert states.at(0) is None
    assert states.at(1) == {"b": Held("int", "2")}
    assert states.change(3) is not None
    assert states.returned(1) is None


def test_deep_recursion_leaves_room_for_looking() -> None:
    code = "def f(n):\n    if n == 0:\n        return 0\n    return 1 + f(n - 1)\n"
    for recorder in (None, RECORDER):
        states = states_of(code, "900", recorder=recorder)
        assert states.result.value == "900"
        assert states.at(0) == {"n": Held("int", "900")}


def test_a_program_that_sees_that_it_is_watched_is_found_out() -> None:
    """`locals()` hands out a dict that a later look at the frame fills up, before Python 3.13."""
    code = "def f(n):\n    d = locals()\n    m = 1\n    return sorted(d)\n"
    result, trace = watched(code, "1")
    (states,) = capture(
        run_group, code, "f", ["1"], [trace], [everything(trace)], max_steps=MAX_STEPS
    )
    # The caller compares; here, that there is something to compare.
    assert result.value == "['n']"
    assert states.result.value in ("['n']", "['d', 'm', 'n']", "['d', 'n']")


def test_another_run_is_refused() -> None:
    code = "def f(n):\n    for i in range(n):\n        n += i\n    return n\n"
    _, trace = watched(code, "3")
    with pytest.raises(TraceError, match="not deterministic"):
        capture(run_group, code, "f", ["2"], [trace], [everything(trace)], max_steps=MAX_STEPS)


# Both recorders.


def both(code: str, args: str, entry: str) -> bool:
    """Whether a program is plain; if so, both recorders are held against each other."""
    if not table_of(code).plain:
        return False
    one_result, one = watched(code, args, entry=entry)
    other_result, other = watched(code, args, entry=entry, recorder=RECORDER)
    same = replace(other, recorder=one.recorder, end_events=one.end_events)
    assert same == one, code
    names = ("outcome", "value", "value_type", "error_type", "stdout")
    assert [getattr(one_result, name) for name in names] == [
        getattr(other_result, name) for name in names
    ]
    mine = states_of(code, args, entry=entry)
    theirs = states_of(code, args, entry=entry, recorder=RECORDER)
    assert mine.held == theirs.held, code
    assert mine.values == theirs.values, code
    return True


def test_both_recorders_tell_the_same_of_cruxeval() -> None:
    rows = lines_of(CRUXEVAL)
    plain = sum(both(row["code"], row["input"], "f") for row in rows[::4])
    assert plain >= 0.9 * len(rows[::4])


def test_both_recorders_tell_the_same_of_generated_programs() -> None:
    found = programs(120)
    plain = sum(both(source.code, source.args, source.entry) for _, _, source in found)
    assert plain >= 0.9 * len(found)


PLAIN = {
    "continuation lines": """
def g(a, b):
    return a + b

def f(n):
    y = g(
        n,
        g(
            n, 1),
    )
    return y
""",
    "loops and jumps": """
def f(n):
    k = 0
    for i in range(n):
        if i % 2:
            continue
        elif i > 7:
            break
        else:
            pass
        k += i
    else:
        k = -k
    while k > n:
        k -= 1
        if k == 3:
            break
    return k
""",
    "comprehensions": """
def g(i):
    return i * 2

def f(n):
    a = [
        g(i)
        for i in range(n)
        if i % 2
    ]
    b = {k: [g(v) for v in range(k)] for k in a}
    return sum(x for x in a), b, sorted(a, key=lambda v: -g(v))
""",
    "nested functions": """
def f(n):
    def g(m):
        nonlocal n
        n += m
        return h(m) if m else n
    def h(m):
        return g(m - 1)
    while n < 20:
        g(3)
    return n
""",
    "what runs first stands on a later line": """
def g(x):
    return x + 1

def f(n):
    b = 0
    total = [
        g(n),
        g(b),
    ]
    c = (
        (b := n) + 1
    )
    for x in \\
            [g(c)]:
        total.append(x)
    return \\
        total + [b, c]
""",
    "falls off": """
def g(xs):
    for x in xs:
        if x > 1:
            xs.remove(x)

def f(n):
    xs = list(range(n))
    g(xs)
    return xs
""",
    "conditions": """
def f(n):
    while n > 0 and (n != 5 or n > 100):
        n -= 1
    assert n >= 0, 'no'
    if not (n > 3 and
            n < 9):
        n = 1
    del n
    return
""",
}


@pytest.mark.parametrize("name", PLAIN)
def test_both_recorders_tell_the_same(name: str) -> None:
    for n in (0, 1, 4, 9):
        assert both(PLAIN[name], str(n), "f")


@pytest.mark.parametrize(
    "code",
    [
        "def f(n):\n    x = 1; y = 2\n    return x + y\n",
        "def f(n):\n    for i in range(n): n += i\n    return n\n",
        "def f(n):\n    while True:\n        n += 1\n        if n > 3:\n            return n\n",
        "def f(n):\n    if 1:\n        return n\n",
        "def f(n):\n    for i in range(n):\n        x: int\n    return n\n",
        "def f(n):\n    ...\n    return n\n",
        "def f(n):\n    yield n\n",
        "def f(n):\n    try:\n        return n\n    finally:\n        n = 2\n",
        "def f(n):\n    with open('x'):\n        return n\n",
        "class A:\n    pass\n\ndef f(n):\n    return n\n",
        "import sys\n\ndef f(n):\n    return sys.gettrace()\n",
        "def f(n):\n    return eval('n')\n",
        "def f(n):\n    return f.__code__.co_name\n",
        "@id\ndef g(n):\n    return n\n\ndef f(n):\n    return n\n",
        "def f(n): return n\n",
        "def g(x):\n    '''Nothing.'''\n\ndef f(n):\n    g(n)\n    return n\n",
        "def g(x):\n    y: int\n\ndef f(n):\n    g(n)\n    return n\n",
        "def g(x):\n    return {}\n\ndef f(n):\n    g(n)['k']: int\n    return n\n",
    ],
)
def test_what_is_not_plain(code: str) -> None:
    assert not table_of(code).plain


def test_an_exception_is_told_by_the_other_recorder() -> None:
    code = (
        "def g(n):\n    if n > 2:\n        raise StopIteration\n    return n\n\n"
        "def f(n):\n    return [next(map(g, [n]), None), n]\n"
    )
    assert table_of(code).plain
    _, calm = watched(code, "1")
    result, stirred = watched(code, "5")
    assert (calm.recorder, stirred.recorder) == ("lines", "events")
    assert result.value == "[None, 5]"
    assert [step.outcome for step in stirred.steps] == ["completed", "completed", "raised"]


def test_recorders_are_files_of_their_own() -> None:
    assert RECORDER != LINE_RECORDER
    for path in (RECORDER, LINE_RECORDER):
        text = Path(path).read_text(encoding="utf-8")
        assert "import synth" not in text and "from synth" not in text
