"""Laws of the input mutator: structure, distinctness, isolation, and the choice among cases."""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rewards.sandbox.jobs import ExecutionResult
from rewards.values import canonical, parse
from synth.errors import SynthError, UsageError
from synth.inputs import Case, Drawer, Drawn, choose

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (
    "[3, 1, 2], 'ab', key=4",
    "{'apple': [1, 2], 'fig': [3]}, None",
    "[{'name': 'Ann', 'age': 3}, {'name': 'Bob', 'age': 5}]",
    "{3, 1}, frozenset({'a'}), (1, 'a', 2.5), b'ab'",
    "[[1, 2], [3, 4]], True, '2024-01-15'",
)


@pytest.fixture(scope="module")
def drawer() -> Iterator[Drawer]:
    with Drawer() as made:
        yield made


def values_of(args: str) -> list[Any]:
    """The values of an argument list, keyword arguments last."""
    call = ast.parse(f"f({args})", mode="eval").body
    assert isinstance(call, ast.Call)
    return [
        parse(ast.unparse(node)) for node in (*call.args, *(word.value for word in call.keywords))
    ]


def texts(drawn: tuple[Drawn, ...]) -> list[str]:
    return [case.args for case in drawn]


# ---------------------------------------------------------------------------------------------
# Structure. The checker below was written from the documentation, not from the nodes.


def same_structure(value: Any, samples: list[Any]) -> bool:
    """Whether `value` has the types of one of the samples that stand at the same kind of place."""
    alike = [sample for sample in samples if type(sample) is type(value)]
    if not alike:
        return False
    if isinstance(value, tuple):
        alike = [sample for sample in alike if len(sample) == len(value)]
        columns = [[sample[i] for sample in alike] for i in range(len(value))]
        return bool(alike) and all(map(same_structure, value, columns))
    if isinstance(value, dict):
        return _same_parts(list(value), [list(sample) for sample in alike], str) and _same_parts(
            list(value.values()), [list(sample.values()) for sample in alike], int
        )
    if isinstance(value, (list, set, frozenset)):
        return _same_parts(list(value), [list(sample) for sample in alike], int)
    return True


def _same_parts(parts: list[Any], samples: list[list[Any]], default: type) -> bool:
    pool = [part for sample in samples for part in sample]
    if not all(samples) and all(type(part) is default for part in parts):
        return True  # an empty sample may be filled with the default, see below for when not
    kinds = {type(part) for part in parts} - {type(None)}
    mixed = any(kinds <= {type(part) for part in sample} for sample in samples)
    return mixed and all(same_structure(part, pool) for part in parts)


numbers = st.integers(-1000, 1000) | st.floats(-100, 100).map(lambda x: round(x, 2) + 0.0)
words = st.text("abcXYZ 019_-é", max_size=8) | st.sampled_from(["apple pie", "Bob", "k=v;x=1"])
scalars = st.none() | st.booleans() | numbers | words | st.binary(max_size=4)
keys = st.integers(-9, 9) | words
seed_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.dictionaries(keys, inner, max_size=3),
        st.lists(st.tuples(words, numbers), max_size=3),
        st.sets(keys, max_size=3),
        st.frozensets(st.integers(0, 9), max_size=3),
    ),
    max_leaves=6,
)
FEW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FEW
@given(st.lists(seed_values, min_size=1, max_size=3), st.integers(0, 3))
@example([[[], [1]]], 0)
@example([[[1], ["a"], [2, 3]]], 0)
@example([{"a": {"n": 1.5, "s": "x"}, "b": {}}], 0)
@example([[[["a", 0.5], ["b", 1.5]], [[]], [["c", 2.5], ["d", 3.5]]]], 0)
@example([[[[]], [["a", "b"], ["c", "d"]]]], 0)
@example([{0: ([], None), 1: ([None, False], None)}], 0)
@example([[[], [[1, 2], [3, 4]]], {"a": {}, "b": {"c": 1}}], 0)
@example([[1, True, 1.0]], 0)
@example([{"a": None, "b": 1}], 0)
@example([[[1, 2], [3, 4], [5, 6]]], 0)
@example([[["a", 1], ["b", 2]]], 0)
def test_draws_keep_the_structure_are_distinct_and_canonical(
    drawer: Drawer, arguments: list[Any], number: int
) -> None:
    seed_texts = [canonical(value) for value in arguments]
    drawn = drawer.draw(", ".join(seed_texts), seed=f"s{number}", count=16)
    assert drawn[0] == Drawn(", ".join(seed_texts), "seed")
    assert all(case.kind in ("near", "boundary", "free") for case in drawn[1:])
    assert len(set(texts(drawn))) == len(drawn) <= 16
    for case in drawn:
        values = values_of(case.args)
        assert len(values) == len(arguments)
        for value, sample in zip(values, arguments, strict=True):
            assert same_structure(value, [sample]), (value, sample)
        assert ", ".join(map(canonical, values)) == case.args


@pytest.mark.parametrize(
    "seed",
    [
        "[[], ['a']]",
        "{'a': [], 'b': [[1.5, 2.5], [3.5, 4.5]]}",
        "[[], [['a', 0.5], ['b', 1.5]]]",
        "[{}, {'k': 'v'}]",
        "[([], 'x'), (['a'], 'y')]",
    ],
)
def test_empty_containers_take_the_elements_of_their_neighbours(drawer: Drawer, seed: str) -> None:
    for case in drawer.draw(seed, seed="s", count=40):
        assert not re.search(r"(?<![\w.'])-?\d+(?![\w.'])", case.args), case


def test_the_structure_checker_can_fail() -> None:
    assert not same_structure(True, [1])
    assert not same_structure((1, 2, 3), [(1, 2)])
    assert not same_structure([1, "a"], [[1], ["a"]][:1])
    assert not same_structure([[1, "a"]], [[[1], ["a"]]])
    assert not same_structure({"a": "b"}, [{"a": 1}])
    assert not same_structure([0.5], [[]])


def test_records_keep_their_keys_grids_their_shape_and_rows_their_columns(drawer: Drawer) -> None:
    for case in drawer.draw(
        "[{'name': 'Ann', 'n': 3}, {'name': 'Bo', 'n': 5}]", seed="s", count=40
    ):
        (people,) = values_of(case.args)
        assert all(set(person) == {"name", "n"} for person in people)
    for case in drawer.draw("[[1, 2], [3, 4]]", seed="s", count=40):
        (grid,) = values_of(case.args)
        assert all(len(row) == len(grid) for row in grid)
    for case in drawer.draw("[[1, 2, 3], [3, 4, 5]]", seed="s", count=40):
        (grid,) = values_of(case.args)
        assert len({len(row) for row in grid}) <= 1
    for case in drawer.draw("[['a', 1], ['b', 2]]", seed="s", count=40):
        (rows,) = values_of(case.args)
        assert all([type(cell) for cell in row] == [str, int] for row in rows)


@pytest.mark.parametrize("seed", ["[3, 12], 7", "5", "{'a': 40}", "[-3, 4], 2.5"])
def test_numbers_stay_in_proportion(drawer: Drawer, seed: str) -> None:
    biggest = max(abs(float(number)) for number in re.findall(r"\d+\.?\d*", seed))
    for case in drawer.draw(seed, seed="s", count=60):
        found = [float(number) for number in re.findall(r"-?\d+\.?\d*", case.args)]
        assert all(abs(number) <= max(30, 12 * biggest) for number in found), case
        if case.kind == "free" and "-" not in seed:
            assert all(number >= 0 for number in found), case


def test_boundary_values_are_met(drawer: Drawer) -> None:
    def drawn(args: str) -> set[str]:
        return {
            text
            for number in range(4)
            for text in texts(drawer.draw(args, seed=str(number), count=60))
        }

    lists = drawn("[3, 1, 2]")
    assert {"[]", "[1, 2, 3]", "[3, 2, 1]", "[3]", "[3, 3]", "[3, 3, 3]"} <= lists
    assert any("-" in text for text in lists)
    assert {"''", "'olleh'", "'HELLO'", "'é'", "'hhhhh'", "' '"} <= drawn("'hello'")
    assert {"0", "-1", "1"} <= drawn("7")


@FEW
@given(st.text("abcdefghij ,.!", min_size=1, max_size=20), st.integers(0, 5))
def test_strings_are_spelled_from_classes_of_the_seed(
    drawer: Drawer, text: str, number: int
) -> None:
    for case in drawer.draw(canonical(text), seed=str(number), count=16):
        (value,) = values_of(case.args)
        assert set(value.lower()) <= set("abcdefghijklmnopqrstuvwxyzé ") | set(text), case


def test_every_kind_is_drawn_and_prefixes_are_mixed(drawer: Drawer) -> None:
    for seed in SEEDS:
        drawn = drawer.draw(seed, seed="s", count=32)
        assert len(drawn) == 32
        assert {case.kind for case in drawn[:4]} == {"seed", "near", "boundary", "free"}
        for kind in ("near", "boundary", "free"):
            assert 3 <= sum(case.kind == kind for case in drawn) <= 16


def test_constructors_keep_the_spelling_of_the_seed(drawer: Drawer) -> None:
    seed = "date(2024, 1, 2), collections.deque([1, 2]), decimal.Decimal('1.5'), Counter({'a': 2})"
    names = ("date(", "collections.deque(", "decimal.Decimal(", "Counter(")
    for case in drawer.draw(seed, seed="s", count=24):
        assert all(name in case.args for name in names) and "datetime.date" not in case.args
        assert [type(value).__name__ for value in values_of(case.args)] == [
            *("date", "deque", "Decimal", "Counter")
        ]


def test_arguments_without_a_value_are_held(drawer: Drawer) -> None:
    drawn = drawer.draw("lambda x: x + 1, [1, 2], 'a' * 3", seed="s", count=12)
    assert len(drawn) == 12
    for case in drawn:
        assert case.args.startswith("lambda x: x + 1, [") and case.args.endswith(", 'a' * 3")
    assert texts(drawer.draw("lambda x: x", seed="s", count=5)) == ["lambda x: x"]
    assert texts(drawer.draw("", seed="s", count=5)) == [""]


# ---------------------------------------------------------------------------------------------
# Public reports


def test_im_01_values_of_different_types_stay_apart(drawer: Drawer) -> None:
    drawn = texts(drawer.draw("[1, True, 1.0, 0, False, '1']", seed="s", count=64))
    assert len(drawn) == 64 == len(set(drawn))
    # Python calls 1, True and 1.0 equal: of [1], [True] and [1.0] a dict would keep the first.
    small = texts(drawer.draw("[1, True, 1.0]", seed="s", count=100))
    groups: list[tuple[Any, list[str]]] = []
    for text in small:
        (value,) = values_of(text)
        for known, members in groups:
            if known == value:
                members.append(text)
                break
        else:
            groups.append((value, [text]))
    assert len(groups) < len(small) == 100


def test_im_02_mutants_keep_the_types_of_the_seed(drawer: Drawer) -> None:
    for case in drawer.draw("[1, 2]", seed="s", count=100):
        (value,) = values_of(case.args)
        assert type(value) is list and all(type(item) is int for item in value)


def test_im_03_inputs_are_texts_fixed_before_the_call(drawer: Drawer) -> None:
    def smallest(xs: list[int]) -> int:
        xs.sort()
        return xs[0] if xs else 0

    drawn = drawer.draw("[3, 1, 2]", seed="s", count=20)
    before = texts(drawn)
    for case in drawn:
        (first,), (second,) = values_of(case.args), values_of(case.args)
        assert smallest(first) == smallest(second)
    assert texts(drawn) == before and before[0] == "[3, 1, 2]"
    # The child mutates too: were a draw to change the seed in place, later requests would differ.
    assert texts(drawer.draw("[3, 1, 2]", seed="s", count=20)) == before


def test_im_06_fewer_values_than_asked_for_end_the_search(drawer: Drawer) -> None:
    begun = time.monotonic()
    assert sorted(texts(drawer.draw("True", seed="s", count=10))) == ["False", "True"]
    pairs = texts(drawer.draw("(True, False)", seed="s", count=1000))
    assert sorted(pairs) == [f"({a}, {b})" for a in (False, True) for b in (False, True)]
    assert texts(drawer.draw("None, ()", seed="s", count=10)) == ["None, ()"]
    assert time.monotonic() - begun < 20


# ---------------------------------------------------------------------------------------------
# Isolation

SCRIPT = """
import json, sys
from synth.inputs import Drawer
with Drawer(workers=2) as drawer:
    for args in json.loads(sys.argv[1]):
        drawn = drawer.draw(args, seed="s", count=20)
        print(json.dumps([[case.args, case.kind] for case in drawn]))
"""


def draw_elsewhere(folder: Path, code: Path, **variables: str) -> list[Any]:
    """What another host draws: other working folder, install folder, environment."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(SEEDS[::-1])],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(code), **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()][::-1]


def test_the_same_request_gives_the_same_draws_everywhere(drawer: Drawer, tmp_path: Path) -> None:
    def drawn() -> list[Any]:
        found = [drawer.draw(seed, seed="s", count=20) for seed in SEEDS]
        return [[[case.args, case.kind] for case in cases] for cases in found]

    expected = drawn()
    for seed in ("[1.5]", "'x'", "True", "{1: [2]}"):
        drawer.draw(seed, seed="other", count=50)  # another history in the same child
    assert drawn() == expected
    copy, empty = tmp_path / "elsewhere", tmp_path / "empty"
    empty.mkdir()
    for package in ("rewards", "synth"):
        shutil.copytree(ROOT / package, copy / package)
    (copy / "hypothesis_bait.py").write_text("WORD = 'xyzzy'\n")
    assert draw_elsewhere(empty, ROOT, PYTHONHASHSEED="1", CI="true") == expected
    assert draw_elsewhere(copy, copy, PYTHONHASHSEED="77", LC_ALL="C") == expected
    assert not list(tmp_path.rglob(".hypothesis")) and not list(empty.iterdir())


def test_seeds_and_counts_matter(drawer: Drawer) -> None:
    one = texts(drawer.draw("[3, 1, 2]", seed="a", count=20))
    assert one != texts(drawer.draw("[3, 1, 2]", seed="b", count=20))
    assert len(drawer.draw("[3, 1, 2]", seed="a", count=1)) == 1


def test_hypothesis_pools_of_constants_do_not_enter(drawer: Drawer) -> None:
    pool = {"undefined", "null", "nil", "true", "false", "none", "if", "then", "else", "xyzzy"}
    seen: set[str] = set()
    for number in range(8):
        for case in drawer.draw("'q r u n', b'zz'", seed=str(number), count=100):
            seen.update(str(value) for value in values_of(case.args))
    assert len(seen) > 300 and not seen & pool


def test_threads_share_a_drawer() -> None:
    found: dict[int, list[str]] = {}
    with Drawer(workers=2) as shared:

        def work(number: int) -> None:
            found[number] = texts(shared.draw(SEEDS[number % 3], seed="s", count=10))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number in range(9):
            assert found[number] == texts(shared.draw(SEEDS[number % 3], seed="s", count=10))


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if not listed.exists():
        pytest.skip("this kernel does not list the children of a process")
    return [int(child) for child in listed.read_text().split()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Any, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_dead_child_is_replaced_and_close_leaves_none() -> None:
    others = set(children(os.getpid()))
    with Drawer() as made:
        before = made.draw("[1, 2]", seed="s", count=8)
        (child,) = set(children(os.getpid())) - others
        environment = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        assert b"PYTHONHASHSEED=0" in environment
        assert not any(part.startswith((b"HOME=", b"PYTHONPATH=", b"CI=")) for part in environment)
        os.kill(child, signal.SIGKILL)
        assert made.draw("[1, 2]", seed="s", count=8) == before
        (second,) = set(children(os.getpid())) - others
        assert second != child
    assert not alive(second)
    with pytest.raises(SynthError, match="closed"):
        made.draw("1", seed="s", count=2)
    made.close()


def test_no_child_outlives_a_host_that_is_killed() -> None:
    script = "import sys; from synth.inputs import Drawer; d = Drawer()\n"
    script += "d.draw('1', seed='s', count=2); print('ready', flush=True); sys.stdin.read()"
    host = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"ready\n"
        (child,) = children(host.pid)
        host.kill()
        host.wait()
        assert until(lambda: not alive(child))


@pytest.mark.parametrize("args", ["[1, 2", "1), f(2", "1)(2", "*[1]", "**{'a': 1}", "a b", "\0"])
def test_what_is_no_argument_list_is_refused(drawer: Drawer, args: str) -> None:
    with pytest.raises(SynthError, match="cannot vary the input"):
        drawer.draw(args, seed="s", count=4)
    assert len(drawer.draw("1", seed="s", count=4)) == 4  # and the child lives on


def test_impossible_requests_are_usage_errors(drawer: Drawer) -> None:
    with pytest.raises(UsageError, match="count=0"):
        drawer.draw("1", seed="s", count=0)
    with pytest.raises(UsageError, match="workers=0"):
        Drawer(workers=0)
    with pytest.raises(UsageError, match="count=0"):
        choose([], 0)


# ---------------------------------------------------------------------------------------------
# Choosing


def case(
    args: str,
    value: str | None,
    executed: set[int],
    *,
    shape: str | None = None,
    kind: Any = "near",
    error: str | None = None,
) -> Case:
    branches = frozenset((statement, True) for statement in executed if statement % 2)
    trace: Any = SimpleNamespace(
        executed=frozenset(executed),
        branches=branches,
        path_id=str(sorted(branches)),
        shape_id=shape or f"{sorted(executed)} {args}",
    )
    outcome: Any = "returned" if error is None else "raised"
    return Case(args, kind, ExecutionResult(outcome, value=value, error_type=error), trace)


def covered(cases: tuple[Case, ...]) -> int:
    parts = [{*one.trace.executed, *one.trace.branches} for one in cases]
    return len(set().union(*parts))


plain_cases = st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=8).map(
    lambda sets: [case(f"{i + 100}", f"{i + 200}", found) for i, found in enumerate(sets)]
)
any_cases = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.sampled_from(["[]", "0", "'x'", "7", "8", "None", "9" * 301]),
        st.sets(st.integers(0, 5), min_size=1),
        st.sampled_from("abc"),
        st.sampled_from(["seed", "near", "boundary", "free"]),
    ),
    max_size=9,
    unique_by=lambda made: made[0],
).map(lambda rows: [case(str(a), v, e, shape=s, kind=k) for a, v, e, s, k in rows])


@given(plain_cases, st.integers(1, 4))
def test_choice_covers_at_least_the_greedy_bound_of_the_best(cases: list[Case], count: int) -> None:
    best = max(covered(some) for some in itertools.combinations(cases, min(count, len(cases))))
    chosen = choose(cases, count)
    assert covered(chosen) >= (1 - (1 - 1 / count) ** count) * best
    if count >= len(cases):
        assert covered(chosen) == covered(tuple(cases))
    assert covered(chosen[:1]) == max(covered((one,)) for one in cases)


@given(any_cases, st.integers(1, 5), st.randoms(use_true_random=False))
def test_choice_is_small_known_and_independent_of_order(
    cases: list[Case], count: int, random: Any
) -> None:
    chosen = choose(cases, count)
    assert len(chosen) <= count and all(one in cases for one in chosen)
    assert bool(chosen) == bool(cases)
    assert len({one.args for one in chosen}) == len(chosen)
    mixed = list(cases)
    random.shuffle(mixed)
    assert choose(mixed, count) == chosen


@given(any_cases, st.integers(1, 5))
def test_choice_avoids_lazy_equal_and_long_outputs(cases: list[Case], count: int) -> None:
    def lazy(one: Case) -> bool:
        return one.result.value in ("[]", "0", "None") or one.result.value == one.args

    chosen = choose(cases, count)
    if not all(map(lazy, cases)):
        assert sum(map(lazy, chosen)) <= 1
    outputs = [str(one.result.value) for one in chosen]
    for i, output in enumerate(outputs):
        left = [one for one in cases if one not in chosen and not lazy(one)]
        fresh = [str(one.result.value) for one in left if str(one.result.value) not in outputs]
        reached = {index for one in chosen[:i] for index in one.trace.executed}
        reaches_more = not chosen[i].trace.executed <= reached
        if output in outputs[:i] and not reaches_more:
            assert not [text for text in fresh if len(text) <= 300]
        if len(output) > 300:
            assert not [text for text in fresh if len(text) <= 300]


def test_lazy_cases_are_all_there_is_of_a_predicate() -> None:
    cases = [case("1", "True", {1, 2}), case("2", "False", {1, 3}), case("3", "True", {1, 2, 4})]
    assert [one.result.value for one in choose(cases, 2)] == ["False", "True"]
    assert len(choose(cases, 3)) == 3


def test_what_adds_nothing_is_not_chosen() -> None:
    cases = [case(str(n), "5", {1, 2}, shape="same") for n in range(6)]
    assert len(choose(cases, 4)) == 1
    seed = case("9", "5", {1, 2}, shape="same", kind="seed")
    assert choose([*cases, seed], 4) == (seed,)


def test_a_new_path_goes_before_a_new_output_and_the_seed_before_its_equals() -> None:
    first, same = case("1", "'a'", {1, 3, 4}), case("2", "'b'", {1, 3, 4})
    shorter = case("3", "'c'", {1, 4})
    assert choose([first, same, shorter], 2) == (first, shorter)
    seed = case("4", "'d'", {1, 3, 4}, kind="seed")
    assert choose([first, same, shorter, seed], 2) == (seed, shorter)


def test_lazy_outputs_are_known_by_value() -> None:
    dull = ["set()", "Counter()", "deque([])", "''", "{}", "-1", "1.0", "b''", "False", "[1, 2]"]
    for output in dull:
        others = [case("[1,2], 7", output, {1, 2}), case("[4]", "'word'", {1})]
        both = [case("[1,2], 7", output, {1, 2}), case("[5], 8", output, {1, 2, 3}), others[1]]
        assert len(choose(others, 2)) == 2
        assert len(choose(both[:1] + others[1:], 5)) == 2
        assert sum(one.result.value == output for one in choose(both, 5)) <= 2
    assert choose([case("[1,2]", "[1, 2]", {1}), case("[3]", "[9]", {1})], 1)[0].args == "[3]"


def test_failing_executions_are_dropped_unless_asked_for() -> None:
    good, bad = case("1", "'a'", {1}), case("2", None, {1, 2}, error="ValueError")
    without_text = case("3", None, {1, 2, 3})
    assert choose([good, bad, without_text], 3) == (good,)
    assert choose([good, bad, without_text], 3, exceptions=True) == (bad, good)
