"""Laws of unit-test grading: right programs pass everything, no completion gets more than it computes.

The oracle is Python itself: reference and mutants are run here, in this process, and the grade of a
completion must be the share of inputs on which its program agrees with the reference. Then every known
way to be paid without that, what each kind of test takes and refuses, and the reward callables.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cheats import CHEATS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandboxed import SHARED, linux

from rewards import Spec, canonical, parse
from rewards.candidates import find_program
from rewards.outputs import same_text, same_value
from rewards.sandbox import ExecutionResult, Job, SandboxPool
from rewards.unittests import (
    METRICS,
    OUTCOMES,
    TestPolicy,
    TestsGrade,
    UnitTestReward,
    UnscoredError,
    grade_tests,
    grade_tests_all,
    reward,
    reward_all,
    reward_async,
)

pytestmark = linux
SHORT = {"cpu_seconds": 0.25, "wall_seconds": 2.0}
CORPUS = SHARED / "cases" / "reward_hacks.jsonl"
FENCE = "```"
UNSCORED = ("infrastructure", "not_applicable")


def completion(code: str) -> str:
    return f"<reasoning>\nLet me see.\n</reasoning>\n<answer>\n{FENCE}python\n{code}\n{FENCE}\n</answer>"


def spec_of(tests: dict[str, Any], entry: str = "f", **limits: float) -> Spec:
    return Spec.from_json(
        {
            "schema": 1,
            "task": "unittest",
            "entry": entry,
            "tests": tests,
            "limits": {**SHORT, **limits},
        }
    )


def calls(*pairs: tuple[str, str], name: str = "f") -> Spec:
    inputs, outputs = zip(*pairs, strict=True)
    return spec_of({"fn_name": name, "inputs": list(inputs), "outputs": list(outputs)}, name)


def scripts(*pairs: tuple[str, str], **limits: float) -> Spec:
    inputs, outputs = zip(*pairs, strict=True)
    return spec_of({"inputs": list(inputs), "outputs": list(outputs)}, "", **limits)


def check(text: str, **limits: float) -> Spec:
    return spec_of({"check": text}, **limits)


def grade(spec: Spec, code: str, **policy: Any) -> TestsGrade:
    return grade_tests(spec, completion(code), policy=TestPolicy(**policy))


# ----------------------------------------------------------------------------- against the oracle

# The first is the reference, the others are wrong on some inputs.
PROGRAMS = (
    "sorted(set(xs))",
    "sorted(xs)",
    "list(set(xs))",
    "sorted(set(xs), reverse=True)",
    "sorted(set(xs))[:3]",
    "tuple(sorted(set(xs)))",
    "[x for i, x in enumerate(sorted(xs)) if i % 2 == 0]",
    "sorted(set(xs)) or None",
    "1 // len(xs) * [0] or sorted(set(xs))",
)
CALL = "def f(xs):\n    return {}\n"
SCRIPT = "import json\nxs = json.loads(input())\nprint(*({} or ['-']))\n"
CHECK = "def check(candidate):\n    assert list(candidate({xs!r})) == {expected!r}\n"


def computed(expression: str, xs: list[int]) -> Any:
    try:
        return list(eval(expression, {"xs": list(xs)}))
    except (ZeroDivisionError, TypeError):  # the last two, on an empty list
        return "no list"


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(st.integers(-3, 12), max_size=6), min_size=1, max_size=4))
def test_a_grade_is_the_share_of_inputs_on_which_the_program_is_right(
    lists: list[list[int]],
) -> None:
    wanted = [computed(PROGRAMS[0], xs) for xs in lists]
    agrees = [
        [computed(p, xs) == want for xs, want in zip(lists, wanted, strict=True)] for p in PROGRAMS
    ]
    texts = [json.dumps(xs) for xs in lists]
    by_call = calls(*zip(texts, map(json.dumps, wanted), strict=True))
    printed = [" ".join(map(str, want or ["-"])) + "\n" for want in wanted]
    by_script = scripts(*zip(texts, printed, strict=True))
    by_check = [check(CHECK.format(xs=xs, expected=w)) for xs, w in zip(lists, wanted, strict=True)]
    pairs = [(by_call, completion(CALL.format(program))) for program in PROGRAMS]
    pairs += [(by_script, completion(SCRIPT.format(program))) for program in PROGRAMS]
    pairs += [(each, completion(CALL.format(program))) for program in PROGRAMS for each in by_check]
    grades = iter(grade_tests_all(pairs))
    # All expected values blank or null say nothing, which cannot happen with these.
    for right in agrees:
        assert [outcome == "passed" for outcome in next(grades).outcomes] == right
    for program, right in zip(PROGRAMS, agrees, strict=True):
        said = [outcome == "passed" for outcome in next(grades).outcomes]
        # `x or ['-']` hides what an empty list is printed as.
        assert [a for a, xs in zip(said, lists, strict=True) if xs] == [
            a for a, xs in zip(right, lists, strict=True) if xs
        ], program
    for right in agrees:
        for each in right:
            found = next(grades)
            assert found.score == float(each), found


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


def tupled(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(tupled, value))
    return {k: tupled(v) for k, v in value.items()} if isinstance(value, dict) else value


@settings(deadline=None)
@given(json_values, json_values)
def test_values_are_compared_as_json(value: Any, other: Any) -> None:
    for equality in ("json", "strict", "python"):
        assert same_value(value, parse(canonical(value)), equality=equality)  # type: ignore[arg-type]
        assert same_value(value, tupled(value), equality=equality)  # type: ignore[arg-type]
        assert not same_value(value, [value], equality=equality) or value == [value]  # type: ignore[arg-type]
    strict, by_json, python = (
        same_value(value, other, equality=each)  # type: ignore[arg-type]
        for each in ("strict", "json", "python")
    )
    assert strict <= by_json <= python == (value == other)
    assert by_json == same_value(other, value)
    if json.dumps(value, sort_keys=True) != json.dumps(other, sort_keys=True):
        assert not strict


def test_what_equality_and_tolerance_decide() -> None:
    nan = float("nan")
    for expected, given_, json_, strict, python in (
        (1, 1.0, True, False, True),
        (1, True, False, False, True),
        (0.0, -0.0, True, False, True),
        (nan, nan, True, False, False),
        ({"1": 2}, {1: 2}, True, True, True),
        ({"true": 2}, {True: 2}, True, True, True),
        ({"1": 2}, {1: 2, "1": 2}, False, False, False),
        ([1], {1}, False, False, False),
        ([5], 5, False, False, False),
        ("a", b"a", False, False, False),
        (None, 0, False, False, False),
    ):
        found = [same_value(expected, given_, equality=e) for e in ("json", "strict", "python")]  # type: ignore[arg-type]
        assert found[0] == json_, expected
        assert found[1] == strict or expected != expected
        assert found[2] == python
    assert same_value([0.3], (0.1 + 0.2,), tolerance=1e-9)
    assert not same_value([0.3], (0.1 + 0.2,))
    assert not same_value(10, 11, tolerance=0.5)  # ints are exact
    assert not same_value(1.0, 10**400, tolerance=1.0)


words = st.lists(st.text("ab1.-", min_size=1, max_size=4), min_size=1, max_size=4)


@given(st.lists(words, min_size=1, max_size=4), st.data())
def test_white_space_at_line_ends_is_all_that_may_differ(lines: list[list[str]], data: Any) -> None:
    text = "\n".join(" ".join(line) for line in lines)
    blank = st.text(" \t\r", max_size=2)
    noisy = "\n".join(" ".join(line) + data.draw(blank) for line in lines) + "\n" * data.draw(
        st.integers(0, 2)
    )
    assert same_text(text, noisy) and same_text(noisy, text)
    assert same_text(text, noisy, tolerance=1e-6)
    assert same_text(text, "\n\t ".join(text.split()), rule="tokens")
    assert not same_text(text, " " + text)
    assert not same_text(text, "\n" + text)
    assert not same_text(text, text + "\nx") and not same_text(text, text + "x", rule="tokens")


def test_printed_numbers_are_equal_as_text_unless_told_otherwise() -> None:
    assert not same_text("0.5\n", "0.50")
    assert same_text("0.5 x\n", "0.50   x", tolerance=1e-9)
    assert same_text("1e3", "1000.0", tolerance=1e-9)
    assert not same_text("10", "11", tolerance=100)  # no point, no tolerance
    assert not same_text("nan", "nan.", tolerance=1.0)
    assert not same_text("0.5\n0.5", "0.5 0.5", tolerance=1.0)


# --------------------------------------------------------------------------------- hacks

ECHO_TESTS = [("[3]", "[3, 4]"), ("[5]", "[5, 6]")]  # f(xs) == xs + [xs[0] + 1]
HACK_SPECS = {
    "calls": calls(*ECHO_TESTS),
    "scripts": scripts(("3\n", "4\nok\n"), ("5\n", "6\nok\n")),
    "check": check(
        "def check(candidate):\n    for n in (3, 5):\n        assert candidate([n]) == [n, n + 1]\n"
    ),
}
REFERENCE = {
    "calls": "def f(xs):\n    return xs + [xs[0] + 1]",
    "scripts": "print(int(input()) + 1)\nprint('ok')",
    "check": "def f(xs):\n    return xs + [xs[0] + 1]",
}


@pytest.fixture(scope="module")
def hacked() -> dict[tuple[str, str], TestsGrade]:
    keys = [(kind, name) for kind in HACK_SPECS for name in ("the reference", *CHEATS)]
    programs = [REFERENCE[kind] if name == "the reference" else CHEATS[name] for kind, name in keys]
    pairs = [(HACK_SPECS[kind], completion(p)) for (kind, _), p in zip(keys, programs, strict=True)]
    return dict(zip(keys, grade_tests_all(pairs), strict=True))


@pytest.mark.parametrize("kind", sorted(HACK_SPECS))
def test_the_reference_passes_among_the_hacks(
    kind: str, hacked: dict[tuple[str, str], TestsGrade]
) -> None:
    assert hacked[kind, "the reference"].status == "right"


@pytest.mark.parametrize("name", sorted(CHEATS))
def test_a_hack_earns_nothing_and_cannot_choose_not_to_be_graded(
    name: str, hacked: dict[tuple[str, str], TestsGrade]
) -> None:
    for kind in HACK_SPECS:
        found = hacked[kind, name]
        assert found.passed == 0, (kind, found)
        assert found.score == 0.0 and found.status not in UNSCORED, (kind, found)
        assert found.all_passed is False
        assert set(found.outcomes) <= set(OUTCOMES)


def test_a_time_out_is_told_from_a_wrong_answer(hacked: dict[tuple[str, str], TestsGrade]) -> None:
    for kind in HACK_SPECS:
        assert hacked[kind, "loop"].status == "timed_out"
        assert set(hacked[kind, "loop"].outcomes) == {"timed_out"}
    sleeper = grade(scripts(("1", "1"), wall_seconds=0.3), "import time\ntime.sleep(9)")
    assert sleeper.status == "timed_out" and 0.3 <= sleeper.seconds < 5
    assert hacked["scripts", "infinite output"].outcomes[0] == "output_exceeded"
    assert hacked["calls", "eq list"].outcomes[0] == "unrepresentable"
    assert hacked["calls", "syntax error"].outcomes[0] == "raised"


@pytest.mark.skipif(not CORPUS.exists(), reason="the shared corpus is not in this checkout")
def test_the_shared_corpus() -> None:
    lines = [json.loads(line) for line in CORPUS.read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line["spec"]["task"] == "unittest"]
    assert len(lines) >= 20
    specs = [Spec.from_json({**line["spec"], "limits": SHORT}) for line in lines]
    pairs = [(spec, line["completion"]) for spec, line in zip(specs, lines, strict=True)]
    for line, found in zip(lines, grade_tests_all(pairs), strict=True):
        assert found.score is not None, line["id"]
        if line["right"]:
            assert found.score >= line["fraction"], (line["id"], found)
        elif not line["debatable"]:
            assert found.score <= line["fraction"], (line["id"], found)
        else:  # right on some inputs: the policy that pays for all or nothing decides
            assert found.all_passed is False, line["id"]


# ------------------------------------------------------------------------- stdin and stdout


@pytest.mark.parametrize(
    "code",
    [
        "print(int(input()) + 1)",
        "import sys\nprint(int(sys.stdin.read()) + 1)\nsys.exit()",
        "print(int(open(0).read()) + 1)\nexit(0)",
        "import sys\nprint(int(sys.stdin.buffer.readline()) + 1)\nraise SystemExit",
        "import os\nprint(int(os.read(0, 99)) + 1, flush=True)\nos._exit(0)",
        "import sys, threading\ndef main():\n    print(int(input()) + 1)\n"
        "threading.stack_size(1 << 26)\nt = threading.Thread(target=main)\nt.start()\nt.join()",
        "import sys\nfor line in sys.stdin:\n    sys.stdout.write(str(int(line) + 1))",
        "if __name__ == '__main__':\n    print(int(input()) + 1, end=' \\n\\n')",
        "import atexit\nn = int(input())\natexit.register(lambda: print(n + 1))",
        "def input_():\n    return int(input())\nprint(input_() + 1)\nimport warnings; warnings.warn('x')",
    ],
)
def test_ways_to_read_and_print(code: str) -> None:
    found = grade(scripts(("3\n", "4\n")), code)
    assert found.status == "right", found


@pytest.mark.parametrize(
    "code",
    [
        "print(4)\n1 / 0",
        "print(4)\nexit(1)",
        "print(4)\nimport os\nos._exit(0)",
        "print(4)\nexit('4')",
    ],
)
def test_the_right_text_is_not_enough_without_a_proper_end(code: str) -> None:
    found = grade(scripts(("3\n", "4\n")), code)
    assert found.passed == 0 and found.status == "wrong", found


def test_long_outputs_have_room_and_long_inputs_arrive() -> None:
    n = 40_000
    spec = scripts((" ".join(map(str, range(n))), "\n".join(map(str, range(n)))))
    assert grade(spec, "print(*map(int, input().split()), sep='\\n')").status == "right"


def test_a_spec_that_nothing_passes_is_not_applicable() -> None:
    for spec in (
        scripts(("1\n", ""), ("2\n", " \n")),
        calls(("1", "null"), ("2", "null")),
        calls(("{", "1")),
        calls(("1", "one")),
        calls(("1", "1"), name="f g"),
        calls((json.dumps("x" * (5 << 20)), "1")),
        scripts(("x" * (8 << 20), "1")),
        spec_of({"check": "assert candidate(1) == 1"}, entry=""),
    ):
        for code in ("def f(x): return x", ""):
            found = grade(spec, code)
            assert (found.score, found.status) == (None, "not_applicable"), (spec, found)
    mixed = calls(("1", "1"), ("{", "1"), ("2", "2"))
    found = grade(mixed, "def f(x): return x")
    assert (found.passed, found.total, found.status) == (2, 2, "right")
    assert found.outcomes == ("passed", "not_applicable", "passed")


# ------------------------------------------------------------------------------------- calls


def test_arguments_and_values_of_every_json_type() -> None:
    value = {"a": [1, 2.5, None, True, "é\n'\"\\"], "b": {"": -0.0, "big": 10**30}, "c": []}
    text = json.dumps(value)
    spec = calls(
        (text, text),
        (f"{text}\n{text}", json.dumps([value, value])),
        ("NaN\n1e400", "[NaN, Infinity]"),
    )
    code = "def f(*args):\n    return args[0] if len(args) == 1 else args"
    assert grade(spec, code).status == "right"
    assert grade(spec, code, equality="strict").status == "right"
    pretty = calls((json.dumps(value, indent=1), text))
    assert grade(pretty, "def f(x): return x").status == "right"


@pytest.mark.parametrize(
    "code",
    [
        "class Solution:\n    def f(self, xs: List[int]) -> Optional[int]:\n        return sum(xs)",
        "from __future__ import annotations\nclass Solution(object):\n    @staticmethod\n    def f(xs):\n"
        "        return reduce(add, xs, 0)\nfrom operator import add",
        "class Base:\n    def f(self, xs):\n        return sum(deque(xs))\nclass Solution(Base):\n    pass",
        "class Solution:\n    def f(self, xs):\n        return sum(xs)\nf = Solution().f([1])",
        "def f(xs):\n    return sum(xs)\nif __name__ == '__main__':\n    print(f([1]))",
        "async_ = 1\nf = lambda xs: sum(xs)  # no end of line",
        "from math import fsum as f",
    ],
)
def test_functions_and_methods_of_solution(code: str) -> None:
    found = grade(calls(("[1, 2]", "3"), ("[]", "0")), code)
    assert found.status == "right", found


def test_only_programs_of_leetcode_find_names_imported() -> None:
    spec = calls(("[1, 2]", "3"))
    code = "def f(xs: List[int]) -> int:\n    return sum(xs)"
    assert grade(spec, code).outcomes == ("raised",)
    assert grade(spec, code, prelude="always").status == "right"
    solution = "class Solution:\n    def f(self, xs: List[int]) -> int:\n        return int(pow(sum(xs), 1))"
    assert grade(spec, solution).status == "right"
    assert grade(spec, solution, prelude="never").outcomes == ("raised",)


def test_values_over_the_cap_of_canonical_texts() -> None:
    long = list(range(5_000))
    spec = calls(("5000", json.dumps(long)), ("2", "[0, 1]"), ("5000", json.dumps([*long[:-1], 0])))
    found = grade(spec, "def f(n):\n    return tuple(range(n))")
    assert found.outcomes == ("passed", "passed", "wrong")
    for code in ("def f(n):\n    return {1}", "def f(n):\n    return object()"):
        assert set(grade(spec, code).outcomes) <= {"unrepresentable", "wrong"}
    slow = "class D(dict):\n    def items(self):\n        while True: pass\ndef f(n):\n    return D(a=1)"
    assert grade(spec, slow).passed == 0


def test_calls_see_nothing_of_each_other_and_keep_their_order() -> None:
    spec = calls(*[(str(n), str([n])) for n in range(20)])
    code = "seen = []\ndef f(n):\n    seen.append(n)\n    return seen"
    assert grade(spec, code).passed == 20


# ------------------------------------------------------------------------------------- checks

SUM = "def f(xs):\n    return sum(xs)\n"


def test_a_check_may_ask_what_depends_on_answers() -> None:
    text = """
METADATA = {"author": "x"}

def close(a, b):
    assert abs(a - b) < 1e-9

def check(candidate):
    total = 0
    for n in range(30):
        close(candidate([n, 0.5]), n + 0.5)
        total += candidate([n])
    assert total == 435
    x = 1
    for _ in range(5):
        x = candidate([x, x])
    assert x == 32
    assert candidate(xs=[1]) == candidate([1])
    try:
        candidate(["a"])
        assert False, "no error"
    except TypeError as error:
        assert "unsupported" in str(error)
    assert all(map(lambda n: candidate([n]) == n, range(3)))
    assert isinstance(candidate([]), int) and not candidate([])

check(f)
"""
    assert grade(check(text), SUM).status == "right"
    assert grade(check(text), "def f(xs):\n    return sum(xs) + (len(xs) == 2)").status == "wrong"
    for wrong in ("raise StopIteration", "return None", "return True", "return xs"):
        assert grade(check(text), f"def f(xs):\n    {wrong}").score == 0.0


def test_ending_a_loop_of_the_check_quietly_passes_nothing() -> None:
    for loop in (
        "all(map(lambda n: candidate(n) == [n], (1, 2)))",
        "all(candidate(n) for n in (1, 2))",
    ):
        text = f"def check(candidate):\n    assert {loop}\n    assert next(iter([3])) == 3\n"
        for error in ("StopIteration", "StopAsyncIteration", "GeneratorExit", "SystemExit"):
            assert grade(check(text), f"def f(x):\n    raise {error}").score == 0.0
        assert grade(check(text), "def f(x):\n    return [x]").status == "right"


def test_a_check_at_module_level_knows_the_candidate_by_name() -> None:
    text = "assert f([1, 2]) == 3\nassert candidate([4]) == 4, 'four'\n"
    assert grade(check(text), SUM).status == "right"
    assert grade(check(text), "def f(xs):\n    return 3").status == "wrong"


def test_values_of_a_check_are_of_exact_types_and_fresh() -> None:
    text = """
from collections import Counter, deque
from decimal import Decimal
import datetime
def check(candidate):
    for value in ((1, [2.5, (3,)]), {1: {2}, (3, "x"): b"y"}, Counter("aab"), deque([1], 2), None, 2j,
                  Decimal("1.50"), datetime.date(2024, 1, 2), float("inf"), frozenset(), range(3), "é"):
        assert candidate(value) == value
        assert type(candidate(value)) is type(value)
    first = candidate([[1]])
    first[0].append(2)
    assert candidate([[1]]) == [[1]]
"""
    assert grade(check(text), "def f(x):\n    return x").status == "right"
    assert (
        grade(check(text), "import json\ndef f(x):\n    return json.loads(json.dumps(x))").score
        == 0.0
    )


def test_a_check_sees_values_over_the_cap_of_the_sandbox() -> None:
    text = "def check(candidate):\n    for n in (3, 9000):\n        assert candidate(n) == tuple(range(n))\n"
    assert grade(check(text), "def f(n):\n    return tuple(range(n))").status == "right"
    assert grade(check(text), "def f(n):\n    return list(range(n))").status == "wrong"
    endless = grade(check(text), "def f(n):\n    return tuple(range(n + (n > 3) * 90_000))")
    assert endless.outcomes == ("unrepresentable",)


def test_a_check_does_not_see_what_a_candidate_does_to_its_arguments() -> None:
    text = "def check(candidate):\n    xs = [2, 1]\n    assert candidate(xs) == sorted(xs)\n"
    assert grade(check(text), "def f(xs):\n    return sorted(xs)").status == "right"
    assert grade(check(text), "def f(xs):\n    xs.clear()\n    return []").status == "wrong"


def test_guesses_that_lead_astray_do_no_harm() -> None:
    text = """
def check(candidate):
    n = 6
    while candidate(n) != 1:
        n = candidate(n)
    assert n == 2
    assert candidate(7) == 22
"""
    collatz = "def f(n):\n    return 3 * n + 1 if n % 2 else n // 2"
    assert grade(check(text), collatz).status == "right"
    assert grade(check(text), "def f(n):\n    return 0").status == "timed_out"
    assert grade(check(text), "def f(n):\n    return n // 2").status == "wrong"
    caught = "def check(c):\n    try:\n        assert c(1)\n    except:\n        pass\n    assert c(2) == 2\n"
    assert grade(check(caught), "def f(n):\n    return 2").status == "right"
    assert (
        grade(check(caught), "def f(n):\n    while n == 1: pass\n    return n").status
        == "timed_out"
    )


@pytest.mark.parametrize(
    "text",
    [
        "def check(candidate)\n    pass",
        "def check(candidate):\n    pass",
        "import numpy\ndef check(candidate):\n    assert candidate(1) == 1",
        "def check(candidate):\n    assert candidate(lambda x: x) == 1",
        "def check(candidate):\n    assert candidate(1) == 1\n    assert candidate(object()) == 1",
        "def check(candidate):\n    while True: pass",
        "def check(candidate, more):\n    assert candidate(1) == 1",
        "import os\ndef check(candidate):\n    assert candidate(os.urandom(4)) or True\n    assert 0\n",
    ],
)
def test_a_check_that_fails_by_itself_is_not_applicable(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewards.checking.MAX_ROUNDS", 6)
    for code in ("def f(x):\n    return 1", "def f(x):\n    raise ValueError"):
        found = grade(check(text), code)
        assert (found.score, found.status) == (None, "not_applicable"), found


def test_a_check_that_draws_at_random_asks_the_same_each_time() -> None:
    text = "import random\ndef check(c):\n    for n in random.sample(range(99), 9):\n        assert c(n) == n\n"
    assert grade(check(text), "def f(x):\n    return x").status == "right"


def test_without_an_end_a_check_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewards.checking.MAX_ROUNDS", 6)
    text = "def check(candidate):\n    n = 0\n    while n < 10 ** 6:\n        n = candidate(n)\n"
    assert grade(check(text), "def f(n):\n    return n + 1").status == "timed_out"
    assert grade(check(text), "def f(n):\n    return 10 ** 6").status == "right"


# -------------------------------------------------------------------- finding the program


def test_ap_09_blocks_are_separate() -> None:
    text = f"{FENCE}python\na = 1\n{FENCE}\nand then\n{FENCE}python\nprint(2)\n{FENCE}"
    assert find_program(text, None).code == "print(2)\n"


def test_ap_11_a_longer_fence_holds_a_shorter_one() -> None:
    text = "````python\ndef f():\n    return '''\n```\n'''\n````"
    assert find_program(text, "f").code == "def f():\n    return '''\n```\n'''\n"


def test_ap_12_and_13_programs_in_the_reasoning_do_not_count() -> None:
    draft, final = "def f(x):\n    return 0\n", "def f(x):\n    return x\n"
    inside = f"maybe\n{FENCE}python\n{draft}{FENCE}\nno</think>\n"
    for opening in ("<think>", ""):
        assert find_program(f"{opening}{inside}{FENCE}python\n{final}{FENCE}", "f").code == final
        assert find_program(f"{opening}{inside}I give up.", "f").status == "no_answer"
    assert find_program(f"<think>maybe\n{FENCE}python\n{draft}{FENCE}\n", "f").status == "truncated"


def test_ap_31_an_object_that_equals_everything_is_no_answer() -> None:
    code = "class Y:\n    def __eq__(self, other): return True\n    __ne__ = None\ndef f(x):\n    return Y()"
    assert grade(calls(("3", "9")), code).score == 0.0
    assert grade(check("assert f(3) == 9"), code).score == 0.0


def test_ap_34_a_verdict_is_not_read_from_standard_output() -> None:
    code = "def f(x):\n    print('ALL TESTS PASSED')\n    raise SystemExit(0)"
    for spec in (calls(("3", "9")), check("assert f(3) == 9")):
        assert grade(spec, code).score == 0.0


ENTRY = "def f(x):\n    return x\n"
PRINTS = "print(input())\n"


@pytest.mark.parametrize(
    ("text", "entry", "code"),
    [
        (f"{FENCE}python\n{ENTRY}{FENCE}\nUsage:\n{FENCE}python\nprint(f(3))\n{FENCE}", "f", ENTRY),
        (f"{FENCE}\n{ENTRY}{FENCE}\n{FENCE}text\nf(3)\n{FENCE}", "f", ENTRY),
        (f"{FENCE}py\n{PRINTS}{FENCE}\nExample:\n{FENCE}\n3\n{FENCE}", None, PRINTS),
        (f"{FENCE}bash\npip install x\n{FENCE}\n{FENCE}Python\n{PRINTS}{FENCE}", None, PRINTS),
        (f"~~~python\n{PRINTS}~~~", None, PRINTS),
        (f"1. So:\n   {FENCE}python\n   if 1:\n       print(1)\n   {FENCE}", None, "if 1:\n    print(1)\n"),
        (ENTRY, "f", ENTRY),
        (f"<answer>\n{PRINTS}</answer>", None, PRINTS),
        ("<answer>\n    x = 1\n    print(x)\n</answer>", None, "x = 1\nprint(x)\n"),
        (f"<answer>see above</answer>\n{FENCE}python\n{PRINTS}{FENCE}", None, PRINTS),
        (f"{FENCE}python\nprint(0)\n{FENCE}\n<answer>{FENCE}\n{PRINTS}{FENCE}</answer>", None, PRINTS),
        (f"<answer>\n{FENCE}python\n{PRINTS}{FENCE}", None, PRINTS),  # the server stopped at the tag
        (f"{FENCE}python\r\n{PRINTS[:-1]}\r\n{FENCE}<|im_end|>\n", None, PRINTS),
        (f"a\n</think>\n{FENCE}python\nprint('</think>')\n{FENCE}", None, "print('</think>')\n"),
    ],
)  # fmt: skip
def test_which_program_counts(text: str, entry: str | None, code: str) -> None:
    found = find_program(text, entry)
    assert (found.status, found.code) == ("found", code)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (None, "no_answer"),
        ("", "no_answer"),
        ("I cannot do that.", "no_answer"),
        (f"{FENCE}cpp\nint main() {{}}\n{FENCE}", "no_answer"),
        ("<answer></answer>", "no_answer"),
        (f"{FENCE}python\n{FENCE}", "no_answer"),
        (f"So:\n{FENCE}python\nprint(", "truncated"),
        ("<answer>\nprint(", "truncated"),
        ("<think>hm", "truncated"),
    ],
)
def test_no_program(text: str | None, status: str) -> None:
    assert find_program(text, None).status == status
    found = grade_tests(scripts(("1\n", "1\n")), text)
    assert (found.status, found.score, found.total) == (status, 0.0, 1)
    if status == "no_answer":
        cut = grade_tests(scripts(("1\n", "1\n")), text, truncated=True)
        assert cut.status == "truncated"


pieces = st.sampled_from(
    [
        *(
            "<think>",
            "</think>",
            "<answer>",
            "</answer>",
            "<reasoning>",
            "</reasoning>",
            "\n",
            "\n\n",
        ),
        *(
            "```",
            "```python\n",
            "\n```\n",
            "~~~",
            "````",
            "print(1)\n",
            "def f(x):\n    return x\n",
        ),
        *(
            "class Solution:\n",
            "    def f(self): pass\n",
            "<|im_end|>",
            "\0",
            "'",
            '"',
            "\\",
            "\ud800",
        ),
    ]
)


@settings(deadline=None)
@given(
    st.lists(pieces | st.text(max_size=5), max_size=40).map("".join), st.sampled_from([None, "f"])
)
def test_any_text_has_a_program_or_none(text: str, entry: str | None) -> None:
    found = find_program(text, entry)
    assert (found.status == "found") == bool(found.code.strip())
    assert found.status in ("found", "no_answer", "truncated")


@pytest.mark.parametrize(
    "piece", ["```\n", " ", "<answer>", "</think>", "~~~python\n", "a=", "(", "class Solution:\n "]
)
def test_reading_takes_linear_time(piece: str) -> None:
    text = piece * (60_000 // len(piece))
    started = time.process_time()
    find_program(text, "f")
    assert time.process_time() - started < 0.05 * 60


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.lists(pieces | st.text(max_size=5), max_size=15).map("".join), min_size=8, max_size=8
    )
)
def test_grading_never_raises_and_never_pays_for_noise(texts: list[str]) -> None:
    specs = [*HACK_SPECS.values()]
    for found in grade_tests_all([(spec, text) for text in texts for spec in specs]):
        assert found.score == 0.0


# ------------------------------------------------------------------------------------ batches


class Counting:
    """A pool that notes what it is asked to run, and may lose some of it."""

    def __init__(self, lose: Callable[[Job], bool] = lambda job: False) -> None:
        from rewards.sandbox.pool import default_pool

        self.inner: SandboxPool = default_pool()
        self.lose = lose
        self.jobs: list[Job] = []

    def run_groups(self, groups: Sequence[Sequence[Job]]) -> list[list[ExecutionResult]]:
        self.jobs += [job for group in groups for job in group]
        lost = ExecutionResult("infrastructure", detail="lost twice")
        results = self.inner.run_groups(groups)
        return [
            [lost if self.lose(job) else result for job, result in zip(group, found, strict=True)]
            for group, found in zip(groups, results, strict=True)
        ]


def test_equal_programs_on_equal_inputs_run_once() -> None:
    pool: Any = Counting()
    right, wrong = completion(REFERENCE["calls"]), completion("def f(xs):\n    return xs")
    pairs = [(spec, text) for spec in HACK_SPECS.values() for text in (right, right, wrong, right)]
    scores = [found.passed for found in grade_tests_all(pairs, pool=pool)]
    assert scores == [2, 2, 0, 2, 0, 0, 0, 0, 1, 1, 0, 1]
    assert len(pool.jobs) == len(set(pool.jobs))
    # Two programs: two inputs for each, where the check asks what the calls do; its first run is
    # shared, and so is the last of those who answer alike.
    assert len([job for job in pool.jobs if job.code == REFERENCE["calls"] + "\n"]) == 4
    assert len([job for job in pool.jobs if "def check" in job.code]) <= 5


def test_what_was_lost_is_unscored_unless_another_test_decides() -> None:
    pool: Any = Counting(lambda job: job.args == "[5]" or job.stdin == "5\n")
    for kind in HACK_SPECS:
        found = grade_tests(HACK_SPECS[kind], completion(REFERENCE[kind]), pool=pool)
        assert (found.score, found.status, found.all_passed) == (None, "infrastructure", None), kind
    found = grade_tests(HACK_SPECS["calls"], completion("def f(xs):\n    return 0"), pool=pool)
    assert (found.score, found.all_passed) == (None, False)


def test_stopping_early() -> None:
    spec = calls(*[(str(n), str(n)) for n in range(10)])
    code = "def f(n):\n    return n if n != 5 else 0"
    found = grade(spec, code, stop_at_failure=True)
    assert found.outcomes[:4] == ("passed",) * 4 and found.outcomes[5] == "wrong"
    assert (found.status, found.all_passed, found.total) == ("wrong", False, 10)
    first = grade(spec, "def f(n):\n    return -1", stop_at_failure=True)
    assert first.outcomes == ("wrong",) + ("not_run",) * 9
    slow = "def f(n):\n    while n < 9: pass\n    return n"
    found = grade(spec, slow, max_timeouts=1)
    assert found.outcomes == ("timed_out",) + ("not_run",) * 9
    assert found.status == "timed_out"


def test_sixteen_threads_find_what_one_finds() -> None:
    names = ["nothing", "eq object", "exit", "frames", "counts calls"]
    pairs = [(HACK_SPECS[kind], completion(CHEATS[name])) for kind in HACK_SPECS for name in names]
    pairs += [(HACK_SPECS[kind], completion(REFERENCE[kind])) for kind in HACK_SPECS]
    alone = [found.outcomes for found in grade_tests_all(pairs)]
    seen: list[list[tuple[str, ...]]] = []

    def work() -> None:
        seen.append([found.outcomes for found in grade_tests_all(pairs)])

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [alone] * 16


def test_a_spec_of_another_task_is_an_error() -> None:
    other = Spec.from_json(
        {"schema": 1, "task": "output", "code": "x = 1", "entry": "f", "args": "", "output": "1"}
    )
    with pytest.raises(ValueError, match="'output', expected 'unittest'"):
        grade_tests(other, "")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"equality": "loose"}, "expected one of json, strict, python"),
        ({"tolerance": -1.0}, "expected a number >= 0"),
        ({"max_timeouts": 0}, "expected None or >= 1"),
    ],
)
def test_a_policy_that_makes_no_sense(option: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TestPolicy(**option)


# ------------------------------------------------------------------------------------- rewards

SPEC = HACK_SPECS["calls"].to_json()
OTHER = json.dumps(
    {"schema": 1, "task": "output", "code": "x = 1", "entry": "f", "args": "", "output": "1"}
)
HALF = completion("def f(xs):\n    return [3, 4]")
GOOD = completion(REFERENCE["calls"])


def as_trl(
    function: Any, texts: list[Any], specs: list[Any]
) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    columns: dict[str, Any] = {}
    numbers: dict[str, float] = {}
    result = function(
        prompts=[[{"role": "user", "content": "?"}]] * len(texts),
        completions=[[{"role": "assistant", "content": text}] for text in texts],
        completion_ids=[[1]] * len(texts),
        spec=specs,
        owner=["list"] * len(texts),
        trainer_state=object(),
        log_extra=columns.__setitem__,
        log_metric=numbers.__setitem__,
    )
    return result, columns, numbers


def test_the_reward_as_trl_calls_it() -> None:
    texts = [GOOD, HALF, "nothing", GOOD, GOOD]
    specs = [SPEC, SPEC, SPEC, OTHER, None]
    rewards, columns, numbers = as_trl(reward, texts, specs)
    assert rewards == [1.0, 0.5, 0.0, None, None]
    assert columns["unittest_status"] == ["right", "wrong", "no_answer", None, None]
    assert all(len(column) == len(texts) for column in columns.values())
    assert numbers["unittest/tests"] == 0.5 and numbers["unittest/unscored"] == 0.0
    rewards, columns, numbers = as_trl(reward_async, texts, specs)
    assert asyncio.run(rewards) == [1.0, 0.5, 0.0, None, None]
    assert numbers["unittest/tests"] == 0.5
    assert as_trl(reward_all, texts, specs)[0] == [1.0, 0.0, 0.0, None, None]


def test_rewards_can_be_pickled_and_have_names_of_their_own() -> None:
    made = UnitTestReward("all", format=0.25, scale=2.0, name="mine")
    for each in (reward, reward_all, made):
        assert pickle.loads(pickle.dumps(each))([GOOD], SPEC) == each([GOOD], SPEC)
    for coroutine in (reward_async, pickle.loads(pickle.dumps(made.run_async))):
        assert inspect.iscoroutinefunction(coroutine)
        assert asyncio.run(coroutine([GOOD], SPEC)) == [
            2.0 if coroutine is not reward_async else 1.0
        ]
    assert pickle.loads(pickle.dumps(reward_async)) is reward_async
    again = pickle.loads(pickle.dumps(made))
    assert again == made and again.__name__ == "mine"
    names = [each.__name__ for each in (reward, reward_all, reward_async)]  # type: ignore[attr-defined]
    assert len(set(names)) == 3


def test_scale_format_and_abstaining() -> None:
    made = UnitTestReward(format=0.5, scale=2.0)
    plain = f"{FENCE}python\n{REFERENCE['calls']}\n{FENCE}"
    assert made([GOOD, plain, HALF], SPEC) == [2.0, 1.0, 1.5]
    broken = calls(("{", "1")).to_json()
    assert reward([GOOD], [broken]) == [None]
    assert UnitTestReward(abstain="zero")([GOOD, GOOD], [broken, OTHER]) == [0.0, None]
    with pytest.raises(UnscoredError, match="completion 1: the input"):
        UnitTestReward(abstain="raise")([GOOD, GOOD], [SPEC, broken])
    assert reward([GOOD, GOOD], [SPEC, '{"schema": 1}']) == [1.0, None]
    with pytest.raises(ValueError, match="1 completions and none specs"):
        reward([GOOD])
    for wrong in ({"scoring": "most"}, {"abstain": "maybe"}, {"format": 2.0}, {"scale": 0.0}):
        with pytest.raises(ValueError, match="expected"):
            UnitTestReward(**wrong)


def test_metrics_have_the_keys_that_every_reward_has() -> None:
    whitebox = pytest.importorskip("rewards.whitebox", reason="whitebox is not in this checkout")
    assert tuple(whitebox.METRIC_KEYS) == METRICS
    for found in reward.grades([GOOD, HALF, None], SPEC):
        assert found is not None
        metrics = reward.metrics(found)
        assert tuple(metrics) == METRICS
        assert all(type(value) is float for value in metrics.values())
        assert metrics["tests"] == found.score
