"""Public bug reports about tracers, each as the program that showed it: ours must not have the fault."""

from __future__ import annotations

from collections import Counter

import pytest

from rewards.sandbox import Job, run, run_group
from rewards.sandbox.jobs import ExecutionResult
from synth.states import Held, States, capture, everything
from synth.traces import RECORDER, Trace, run_watched

STEPS = 1_000


def watched(
    code: str, args: str = "", *, recorder: str | None = None
) -> tuple[ExecutionResult, Trace]:
    """`f(args)` under watch; the same result as without is part of every test."""
    (alone,) = run([Job(code, "f", args)])
    options = [{"max_steps": STEPS}]
    (result,) = run_watched(run_group, code, "f", [args], options=options, recorder=recorder)
    names = ("outcome", "value", "value_type", "error_type", "error_message", "stdout")
    assert [getattr(result, n) for n in names] == [getattr(alone, n) for n in names]
    assert result.record is not None
    return result, Trace.from_record(code, result.record)


def with_values(code: str, args: str = "") -> tuple[ExecutionResult, States]:
    result, trace = watched(code, args)
    (states,) = capture(run_group, code, "f", [args], [trace], [everything(trace)], max_steps=STEPS)
    assert states.result.value == result.value
    return result, states


def lines(trace: Trace, function: str) -> list[int]:
    return [step.line for step in trace.steps if step.function == function]


def test_TR_01_reaching_the_recursion_limit_is_told() -> None:
    code = (
        "def g(n):\n    return g(n + 1)\ndef f():\n    x = 1\n    try:\n        g(0)\n"
        "    except RecursionError:\n        x = 2\n    y = x + 1\n    return y\n"
    )
    result, trace = watched(code)
    assert result.value == "3"
    assert "recursion_error" in trace.flags


def test_TR_02_iterators_are_not_consumed_by_looking() -> None:
    code = "def f():\n    it = map(str, [1, 2, 3])\n    out = list(it)\n    return out\n"
    result, states = with_values(code)
    assert result.value == "['1', '2', '3']"
    first = states.at(0)
    assert first is not None and first["it"] == Held("map", None)


def test_TR_03_looking_runs_no_repr_of_the_program() -> None:
    code = (
        "class A:\n    n = 0\n    def __repr__(self):\n        A.n += 1\n        return 'A'\n"
        "def f():\n    a = A()\n    b = 1\n    return A.n\n"
    )
    result, states = with_values(code)
    assert result.value == "0"
    first = states.at(0)
    assert first is not None and first["a"] == Held("A", None)


def test_TR_06_a_call_over_several_lines_is_one_visit() -> None:
    code = (
        "def g(a, b):\n    return a + b\ndef f(x):\n    y = g(\n        x,\n        x * 2,\n    )\n"
        "    return y\n"
    )
    for recorder in (None, RECORDER):
        _, trace = watched(code, "1", recorder=recorder)
        assert lines(trace, "f") == [4, 8]
        assert trace.visits(4) == 1


def test_TR_09_else_and_finally_are_never_executed() -> None:
    code = "def f():\n    try:\n        return 1\n    finally:\n        z = 2\n"
    result, trace = watched(code)
    assert (result.value, lines(trace, "f")) == ("1", [2, 3, 5])


def test_TR_12_a_generator_is_called_once() -> None:
    code = "def g():\n    yield 1\n    yield 2\ndef f():\n    return list(g())\n"
    result, trace = watched(code)
    assert (result.value, trace.functions) == ("[1, 2]", ("f", "g"))


def test_TR_14_threads_are_refused() -> None:
    code = (
        "import threading\nout = []\ndef work():\n    out.append(1)\ndef f():\n"
        "    t = threading.Thread(target=work)\n    t.start()\n    t.join()\n    return out\n"
    )
    (result,) = run_watched(run_group, code, "f", [""])
    if result.record is None:  # where threads are not allowed at all
        assert result.outcome == "raised"
    else:
        assert "threads" in Trace.from_record(code, result.record).flags


@pytest.mark.parametrize("limit", [1, 7, 1_000])
def test_TR_16_recording_stops_at_the_limit_and_keeps_what_came_before(limit: int) -> None:
    code = "def f():\n    n = 0\n    while n < 5000:\n        n += 1\n    return n\n"
    for recorder in (None, RECORDER):
        options = [{"max_steps": limit}]
        (result,) = run_watched(run_group, code, "f", [""], options=options, recorder=recorder)
        assert result.value == "5000" and result.record is not None
        trace = Trace.from_record(code, result.record)
        assert trace.flags == {"step_limit"}
        assert trace.n_steps == limit


def test_TR_17_functions_of_one_name_are_told_apart() -> None:
    code = (
        "def f():\n    def make(k):\n        def g(x):\n            return x + k\n        return g\n"
        "    def other():\n        def g(x):\n            return x * 2\n        return g\n"
        "    a = lambda x: x + 1\n    return make(1)(1), other()(5), other()(6), a(1)\n"
    )
    result, trace = watched(code)
    assert result.value == "(2, 10, 12, 2)"
    calls = Counter(trace.functions)
    assert calls["f.<locals>.make.<locals>.g"] == 1
    assert calls["f.<locals>.other.<locals>.g"] == 2
    assert not any("lambda" in name for name in calls)


def test_TR_18_the_text_is_at_hand_without_a_file() -> None:
    code = "import inspect\ndef g():\n    return 1\ndef f():\n    return inspect.getsource(g)\n"
    result, trace = watched(code)
    assert result.value == "'def g():\\n    return 1\\n'"
    assert lines(trace, "f") == [5]


def test_TR_20_one_line_loops_are_counted_by_statement() -> None:
    code = "def f(n):\n    s = 0\n    for i in range(n): s += i\n    while s > 1: s -= 1\n    return s\n"
    result, trace = watched(code, "3")
    assert result.value == "1"
    assert trace.visits(3) == 4 + 3  # two statements start there, so the line is never asked about
    assert trace.visits(4) == 3 + 2


def test_TR_21_continue_is_a_step_everywhere() -> None:
    code = (
        "def f(n):\n    k = 0\n    for i in range(n):\n        if i % 2:\n            continue\n"
        "        k += i\n    return k\n"
    )
    for recorder in (None, RECORDER):
        result, trace = watched(code, "4", recorder=recorder)
        assert result.value == "2"
        assert [trace.visits(line) for line in (3, 5, 6)] == [5, 2, 2]


def test_TR_22_coroutines_are_refused_by_name() -> None:
    code = (
        "import asyncio\nasync def w():\n    await asyncio.sleep(0)\n    return 1\n"
        "def f():\n    return asyncio.run(w())\n"
    )
    (result,) = run_watched(run_group, code, "f", [""])
    if result.record is not None and result.outcome == "returned":
        assert "async" in Trace.from_record(code, result.record).flags
    else:  # an event loop needs a socket, which the sandbox refuses
        assert result.outcome == "raised"


def test_TR_23_a_class_body_is_no_call() -> None:
    code = (
        "def f():\n    class A:\n        x = 1\n        def m(self):\n            return self.x\n"
        "    return A().m()\n"
    )
    result, trace = watched(code)
    assert result.value == "1"
    assert [(frame.function, frame.is_class) for frame in trace.frames] == [
        ("f", False),
        ("f.<locals>.A", True),
        ("f.<locals>.A.m", False),
    ]


def test_TR_24_the_trace_function_is_gone_afterwards() -> None:
    """A recursive program in a group, whose later calls would meet what an earlier one left."""
    code = "def f(n):\n    if n <= 1:\n        return 1\n    return n * f(n - 1)\n"
    results = run_watched(run_group, code, "f", ["3", "3", "4"])
    records = [result.record for result in results]
    assert [result.value for result in results] == ["6", "6", "24"]
    assert records[0] == records[1] is not None
    trace = Trace.from_record(code, str(records[0]))
    assert [trace.visits(line) for line in (2, 3, 4)] == [3, 1, 2]


def test_TR_25_every_step_names_its_activation() -> None:
    code = "def f(n):\n    m = n * 10\n    if n:\n        f(n - 1)\n    return m\n"
    _, states = with_values(code, "2")
    trace = states.trace
    reached = [states.at(step.index) for step in trace.steps if step.line == 5]
    assert [state["m"].text for state in reached if state] == ["0", "10", "20"]
    outermost = [step.line for step in trace.steps if step.frame == 1]
    assert outermost == [2, 3, 4, 5]
