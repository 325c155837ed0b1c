"""`Trace` and its table: what they say, that they agree with themselves, and bad records.

The recorder has its own tests (`test_tracer.py`); here a program goes through the sandbox once for
each outcome that `trace` must handle.
"""

from __future__ import annotations

import ast
import base64
import json
import sys
import zlib
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tracer import Writer, quiet_finalizers, record, run_oracle

from rewards.sandbox import Limits
from synth.traces import RECORDER, Trace, TraceError, statements, trace

TABLE = '''"""module docstring"""
from __future__ import annotations
LIMIT = 3
class A:
    """class docstring"""
    x: int
    y: int = 2
    @property
    def size(self):
        global LIMIT
        if LIMIT:
            return 1
        elif self.y: pass
        else:
            def inner(): return lambda: 0
        for é in (1,): a = 1; b = (
            2)
        else:
            pass
        while a:
            break
        with a: a
        try:
            a
        except ValueError:
            a
        except:
            a
        else:
            a
        finally:
            a
        match a:
            case 1: a
            case _: a
'''


def test_table_of_statements() -> None:
    """Every statement that can be a step, once, with its place, its function and its block."""
    rows = [
        f"{s.line}:{s.col} {s.kind} {s.function} {s.parent} {s.arm}".rstrip()
        for s in statements(TABLE)
    ]
    assert rows == [
        "2:0 ImportFrom <module> -1",
        "3:0 Assign <module> -1",
        "4:0 ClassDef <module> -1",
        "7:4 AnnAssign A 2 body",
        "9:4 FunctionDef A 2 body",
        "11:8 If A.size 4 body",
        "12:12 Return A.size 5 true",
        "13:8 If A.size 5 false",
        "13:21 Pass A.size 7 true",
        "15:12 FunctionDef A.size 7 false",
        "15:25 Return A.size.<locals>.inner 9 body",
        "16:8 For A.size 4 body",
        "16:24 Assign A.size 11 true",
        "16:31 Assign A.size 11 true",
        "19:12 Pass A.size 11 false",
        "20:8 While A.size 4 body",
        "21:12 Break A.size 15 true",
        "22:8 With A.size 4 body",
        "22:16 Expr A.size 17 body",
        "23:8 Try A.size 4 body",
        "24:12 Expr A.size 19 body",
        "26:12 Expr A.size 19 except 0",
        "28:12 Expr A.size 19 except 1",
        "30:12 Expr A.size 19 else",
        "32:12 Expr A.size 19 finally",
        "33:8 Match A.size 4 body",
        "34:20 Expr A.size 25 case 0",
        "35:20 Expr A.size 25 case 1",
    ]
    multi_line = next(s for s in statements(TABLE) if s.line == 16 and s.col == 31)
    assert (multi_line.end_line, multi_line.end_col) == (17, 14)
    assert [s.index for s in statements(TABLE)] == list(range(len(rows)))


def test_table_refuses_what_is_no_program() -> None:
    with pytest.raises(SyntaxError):
        statements("def f(:\n")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_table_holds_all_statements_of_the_tree(seed: int) -> None:
    code = Writer(seed).program()
    tree = ast.parse(code)
    skipped = (ast.Global, ast.Nonlocal)
    scopes = (ast.FunctionDef, ast.ClassDef)
    docstrings = {
        node.body[0]
        for node in ast.walk(tree)
        if isinstance(node, scopes) and ast.get_docstring(node, clean=False) is not None
    }
    expected = [
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt)
        and not isinstance(node, skipped)
        and not (isinstance(node, ast.AnnAssign) and node.value is None)
        and node not in docstrings
    ]
    table = statements(code)
    assert [(s.line, s.col) for s in table] == sorted(expected)
    for s in table:
        assert s.parent < s.index
        if s.parent >= 0:
            parent = table[s.parent]
            assert (parent.line, parent.col) <= (s.line, s.col)
            assert (s.end_line, s.end_col) <= (parent.end_line, parent.end_col)


BRANCHES = """
def f(n):
    for i in range(n):
        if i == 1:
            n = 0
        elif i > 1:
            break
    else:
        n = -1
    while n > 3:
        note: int
        n -= 1
    try:
        match n:
            case 2: n / 0
            case 3: pass
    except ZeroDivisionError:
        n = 9
    return n
"""


def branches(args: str) -> set[str]:
    found = record(BRANCHES, args)
    return {f"{found.statements[index].line} {arm}" for index, arm in found.branches}


def test_branches_are_the_ways_that_were_taken() -> None:
    assert branches("0") == {"3 false", "10 false", "14 none"}
    assert branches("1") == {
        *("3 true", "3 false", "4 false", "6 false"),
        *("10 false", "14 none"),
    }
    assert branches("3") == {
        *("3 true", "4 false", "4 true", "6 false", "6 true"),
        *("10 false", "14 none"),
    }
    assert branches("range(5)") == set()  # range(range(5)) raises: no way was taken


def test_branches_of_while_match_and_except() -> None:
    code = BRANCHES.replace("for i in range(n):", "for i in ():").replace("n = -1", "pass")
    found = record(code, "5")
    named = {f"{found.statements[index].line} {arm}" for index, arm in found.branches}
    assert named == {"3 false", "10 true", "10 false", "14 case 1"}
    found = record(code, "2")
    named = {f"{found.statements[index].line} {arm}" for index, arm in found.branches}
    assert named == {"3 false", "10 false", "14 case 0", "13 except 0"}
    arms = [(s.line, s.arm) for s in found.steps if s.arm]
    assert arms == [(3, "false"), (10, "false"), (14, "case 0")]


def test_ids_follow_the_path_and_the_shape() -> None:
    one, two, three, none = (record(BRANCHES, str(n)) for n in (1, 2, 3, 0))
    assert record(BRANCHES, "1").path_id == one.path_id
    assert len({found.path_id for found in (one, two, three, none)}) == 4
    loop = "def f(n):\n    for i in range(n):\n        n += i\n"
    short, long = record(loop, "1"), record(loop, "2")
    assert short.path_id == long.path_id and short.shape_id != long.shape_id
    assert len(one.path_id) == len(one.shape_id) == 16
    assert int(one.path_id, 16) >= 0


CALLS = """
class Box:
    def __init__(self, n):
        self.n = n
    def grow(self):
        return Box(self.n + 1)
def inner(n):
    for i in range(n):
        yield i
def outer(n):
    yield from inner(n)
def silent(n):
    'no steps'
def f(n):
    box = Box(n).grow()
    silent(n)
    total = sum(outer(n))
    class Local:
        x = n
    return box.n + (lambda: total)()
"""


def test_frames_and_calls() -> None:
    found = record(CALLS, "2")
    frames = [(frame.function, frame.depth, frame.is_class) for frame in found.frames]
    assert frames == [
        ("f", 1, False),
        ("Box.__init__", 2, False),
        ("Box.grow", 2, False),
        ("Box.__init__", 3, False),
        ("silent", 2, False),
        ("outer", 2, False),
        ("inner", 3, False),
        ("f.<locals>.Local", 2, True),
    ]
    assert found.functions == tuple(name for name, _, _ in frames)
    entered = {s.line: found.steps[s.inner_index].line for s in found.steps if s.inner_index >= 0}
    assert entered == {15: 4, 6: 4, 17: 11, 11: 8, 18: 19}
    callers = [found.steps[frame.caller].line for frame in found.frames[1:]]
    assert callers == [15, 15, 6, 16, 17, 11, 18]


def test_lines_and_visits() -> None:
    found = record(
        "def f(n):\n    for i in range(n):\n        n += 1\n    if n < 0:\n        n = 0\n", "2"
    )
    assert found.lines_executed() == {2, 3, 4}
    assert [found.visits(line) for line in range(1, 7)] == [0, 3, 2, 1, 0, 0]
    assert [(s.line, s.visit) for s in found.steps] == [
        (2, 1),
        (3, 1),
        (2, 2),
        (3, 2),
        (2, 3),
        (4, 1),
    ]
    assert found.executed == {1, 2, 3}
    assert found.steps is found.steps


@pytest.mark.parametrize("seed", range(60))
def test_trace_agrees_with_itself(seed: int) -> None:
    with quiet_finalizers():
        _, _, run = run_oracle(seed)
    found = run.trace
    assert found is not None
    assert found.n_steps == len(found.steps) == len(found.sequence)
    for step in found.steps:
        statement = found.statements[step.statement]
        assert (step.line, step.col, step.function) == (
            *(statement.line, statement.col),
            statement.function,
        )
        assert found.frames[step.frame - 1].function == step.function
        assert step.next == (found.steps[step.next_index].line if step.next_index >= 0 else -1)
        assert step.next_index == -1 or step.next_index > step.index
        if step.outcome == "unfinished":
            assert step.next == -1 and step.arm is None
        if step.inner_index >= 0:
            inner = found.steps[step.inner_index]
            assert inner.frame != step.frame
            assert step.outcome == "unfinished" or inner.index < found.ends[step.index]
    first_steps = {step.frame: step.index for step in reversed(found.steps)}
    order = sorted(first_steps, key=lambda number: first_steps[number])
    assert order == sorted(order)
    for line in {step.line for step in found.steps}:
        visits = [step.visit for step in found.steps if step.line == line]
        assert visits == list(range(1, found.visits(line) + 1))


# Records come from the guest: anything may stand in them.

CODE = "def f(n):\n    return n\n"


def forged(numbers: list[int], /, **changes: object) -> str:
    packed = base64.b64encode(zlib.compress(array("i", numbers).tobytes())).decode()
    report: dict[str, object] = {"version": 1, "byteorder": sys.byteorder}
    report |= {"max_steps": 100, "flags": []}
    return json.dumps({**report, "events": packed, **changes})


def test_forged_records_that_hold_together_are_read() -> None:
    assert Trace.from_record(CODE, forged([6, 8, 9, 7])).n_steps == 1
    other = "big" if sys.byteorder == "little" else "little"
    swapped = array("i", [6, 8, 9, 7])
    swapped.byteswap()
    assert Trace.from_record(CODE, forged(list(swapped), byteorder=other)).n_steps == 1


@pytest.mark.parametrize(
    "text",
    [
        *("", "null", "[]", "{}", "3"),
        forged([], version=3),
        forged([], events="?"),
        forged([], events=None),
        forged([], events=base64.b64encode(b"no").decode()),
        forged([], events=base64.b64encode(zlib.compress(b"abc")).decode()),
        forged([], events=base64.b64encode(zlib.compress(bytes(20_000_000))).decode()),
        forged([], flags="threads"),
        forged([], flags=[1]),
        forged([], max_steps="many"),
        forged([6, 8 * 9]),
        forged([8 * 9 + 6]),
        forged([8 + 6]),
        forged([7 + 8 * 30]),
    ],
)
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(TraceError):
        Trace.from_record(CODE, text)


@given(st.lists(st.integers(-6, 40), max_size=30))
def test_any_events_are_refused_or_decoded(events: list[int]) -> None:
    """A guest can at worst name a trace that did not happen; it cannot break the host."""
    try:
        found = Trace.from_record(CODE, forged(events))
    except TraceError:
        return
    assert len(found.steps) == found.n_steps <= 100
    assert found.path_id and found.functions is not None


# Through the sandbox.


def test_trace_in_the_sandbox() -> None:
    result, found = trace("def f(a, b=2):\n    c = a * b\n    return c\n", "f", "3, b=5")
    assert (result.outcome, result.value) == ("returned", "15")
    assert found is not None and not found.flags
    assert [(s.line, s.outcome, s.next) for s in found.steps] == [
        (2, "completed", 3),
        (3, "completed", -1),
    ]
    assert RECORDER.endswith("tracer.py")


def test_trace_of_a_program_that_raises() -> None:
    result, found = trace("def f(n):\n    n += 1\n    return 1 // n\n", "f", "-1")
    assert (result.outcome, result.error_type, result.error_line) == (
        "raised",
        "ZeroDivisionError",
        3,
    )
    assert found is not None
    assert [(s.line, s.outcome) for s in found.steps] == [(2, "completed"), (3, "raised")]


def test_no_trace_without_a_call() -> None:
    result, found = trace("def f(n):\n    return n\n1 / 0\n", "f", "1")
    assert (result.outcome, found) == ("raised", None)
    endless = "def f(n):\n    while True:\n        n += 1\n"
    result, found = trace(endless, "f", "1", limits=Limits(cpu_seconds=0.3))
    assert (result.outcome, found) == ("timed_out", None)


def test_step_limit_in_the_sandbox() -> None:
    code = "def f(n):\n    while n:\n        n -= 1\n    return n\n"
    result, found = trace(code, "f", "1000", max_steps=50)
    assert result.value == "0"
    assert found is not None and found.flags == {"step_limit"} and found.n_steps == 50
