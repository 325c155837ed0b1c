"""Questions: every one keeps every rule, has the right answer, and none can be had without execution.

Laws are stated over programs of the grammar and the 18 hand-worked traces; each rule and each implication
also meets a question that breaks it, so that the laws can fail. Reports on question builders are pinned
by their ids.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from generated import programs
from hypothesis import given, settings
from hypothesis import strategies as st
from sandboxed import ROOT, SHARED

from rewards.grading import grade_all, same_statement
from rewards.row import CONTROL_FLOW, DATA_FLOW, QUESTION_FIELDS, Question, Spec, ValueAnswer
from rewards.sandbox import Limits, run_group
from synth.errors import ConfigError
from synth.questions import (
    PRESETS,
    REASONS,
    RULES,
    WHITEBOX_VERSION,
    Asked,
    Context,
    Plan,
    Preset,
    answer_text,
    ask,
    ask_all,
    broken,
    construct,
    gives_away,
    moments,
    order_matters,
    plan,
    preset_named,
    sentence,
    truth,
    whitebox_prompt,
)
from synth.questions.facts import facts_of, literals
from synth.questions.implications import IMPLICATIONS, follows
from synth.questions.records import Candidate
from synth.questions.sampling import _by_line
from synth.questions.wording import EXAMPLE
from synth.seeds import digest, rng
from synth.states import States, capture, everything, needed
from synth.traces import Trace, run_watched

MAX_STEPS = 5_000
LIMITS = Limits(cpu_seconds=5.0, wall_seconds=60.0)


@dataclass(frozen=True)
class Run:
    """A program on one input."""

    code: str
    entry: str
    args: str
    output: str
    trace: Trace

    def states(self, wanted: Any) -> States:
        (found,) = capture(
            run_group,
            self.code,
            self.entry,
            [self.args],
            [self.trace],
            [wanted],
            limits=LIMITS,
            max_steps=MAX_STEPS,
        )
        return found

    def context(self, questions: Sequence[Question] = ()) -> Context:
        """All that the rules may look at, traced anew."""
        again = run(self.code, self.entry, self.args)
        bare = Context(self.code, self.entry, self.args, self.output, again.trace, None)
        states = again.states(needed(again.trace, *moments(bare, questions)))
        return replace(bare, states=states, questions=tuple(questions))

    def whole(self) -> Context:
        """With every value of the run."""
        states = self.states(everything(self.trace))
        return Context(self.code, self.entry, self.args, self.output, self.trace, states)

    def plan(self, preset: str | Preset = "paper", seed: str = "0") -> Plan:
        chosen = PRESETS[preset] if isinstance(preset, str) else preset
        return plan(self.trace, self.code, preset=chosen, seed=seed)

    def asked(self, preset: str | Preset = "paper", seed: str = "0") -> Asked:
        made = self.plan(preset, seed)
        states = self.states(needed(self.trace, *made.wanted))
        return ask_all(
            made, states, code=self.code, entry=self.entry, args=self.args, output=self.output
        )


def run(code: str, entry: str, args: str) -> Run:
    options = [{"max_steps": MAX_STEPS}]
    (result,) = run_watched(run_group, code, entry, [args], limits=LIMITS, options=options)
    assert result.record is not None, result
    return Run(code, entry, args, result.value or "", Trace.from_record(code, result.record))


@functools.cache
def runs() -> tuple[Run, ...]:
    """Programs of the grammar on their seed inputs."""
    made = [run(source.code, source.entry, source.args) for _, _, source in programs(56)]
    return tuple(one for one in made if one.output and not one.trace.flags)


@functools.cache
def rows(preset: str) -> tuple[tuple[Run, Asked], ...]:
    return tuple((one, one.asked(preset, f"0:{n}")) for n, one in enumerate(runs()))


def cases() -> list[dict[str, Any]]:
    path = SHARED / "cases" / "trace_cases.jsonl"
    if not path.exists():
        pytest.skip("the shared cases are not in this checkout")
    text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------------------ laws over many rows


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_every_question_keeps_every_rule(preset: str) -> None:
    """Judged from the row alone and a new trace."""
    asked = 0
    for one, found in rows(preset):
        context = one.context(found.questions)
        for question in found.questions:
            assert broken(question, context) is None, sentence(question, one.code)
            asked += 1
        for family in (CONTROL_FLOW, DATA_FLOW):
            count = sum(question.family == family for question in found.questions)
            assert count <= PRESETS[preset].limit(family)
            assert (count == 0) == (family in found.reasons)
    assert asked > 4 * len(rows(preset))


def test_all_kinds_are_asked_in_the_full_preset() -> None:
    kinds = Counter(q.kind for _, found in rows("full") for q in found.questions)
    rest = Counter(q.kind for name in HANDMADE for q in _many(handmade(name)))
    assert set(QUESTION_FIELDS) == set(kinds | rest)
    assert {q.kind for _, found in rows("paper") for q in found.questions} == set(
        PRESETS["paper"].kinds
    )


def _many(one: Run) -> list[Question]:
    return [question for n in range(12) for question in one.asked("full", str(n)).questions]


def test_a_perfect_answerer_earns_everything() -> None:
    pairs = []
    for preset in PRESETS:
        for one, found in rows(preset):
            answer = "\n".join(
                [
                    f"assert {one.entry}({one.args}) == {one.output}",
                    *map(answer_text, found.questions),
                ]
            )
            spec = Spec(
                "whitebox", one.code, one.entry, one.args, one.output, None, found.questions
            )
            assert Spec.from_json(spec.to_json()) == spec
            pairs.append((spec, f"<reasoning>…</reasoning>\n<answer>\n{answer}\n</answer>"))
    for (_, text), graded in zip(pairs, grade_all(pairs), strict=True):
        assert graded.io is not None
        assert (graded.io.score, graded.w) == (1.0, 1.0), (text, graded)


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_lazy_answers_earn_little(preset: str) -> None:
    questions = [(one, q) for one, found in rows(preset) for q in found.questions]
    control = [answer_text(q) for _, q in questions if q.family == CONTROL_FLOW]
    data = [(one, answer_text(q)) for one, q in questions if q.family == DATA_FLOW]
    assert control.count("-1") <= 0.08 * len(control)
    most = Counter(text for _, text in data).most_common(1)[0][1]
    assert most <= 0.10 * len(data)
    echoed = sum(
        text.rpartition(";")[0] in literals(ast.parse(f"f({one.args}\n)")) for one, text in data
    )
    assert echoed <= 0.10 * len(data)


def test_the_same_seed_gives_the_same_questions_and_another_one_others() -> None:
    some = runs()[:12]
    for n, one in enumerate(some):
        assert one.asked("paper", f"0:{n}") == rows("paper")[n][1]
    assert any(one.asked("paper", "x").questions != one.asked("paper").questions for one in some)


SCRIPT = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import test_questions as t
print([t.handmade(name).asked("full").questions for name in t.HANDMADE])
"""


def test_questions_do_not_depend_on_the_hash_seed() -> None:
    text = SCRIPT.format(root=str(ROOT), tests=str(ROOT / "tests"))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", text],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert outputs != {""}


def test_no_more_is_captured_than_may_be_asked() -> None:
    states = asked = 0
    for one, found in rows("paper"):
        wanted = needed(one.trace, *one.plan().wanted)
        assert len(wanted.states) <= 2 * 3 * PRESETS["paper"].data_flow
        states += len(wanted.states)
        asked += sum(question.family == DATA_FLOW for question in found.questions)
    assert states <= 5 * asked


def test_a_fair_value_is_asked_for_where_there_is_one() -> None:
    """Against all values of the run, whatever the plan thought of."""
    for case in cases():
        one = run(case["code"], case["entry"], case["args"])
        context = one.whole()
        if DATA_FLOW not in one.asked().reasons:
            continue
        for step in one.trace.steps:
            for name in context.states.at(step.index) or {}:  # type: ignore[union-attr]
                question = Question("value", (), step.line, step.visit, name)
                answered = replace(question, answers=truth(context, question) or ())
                assert broken(answered, context) is not None, sentence(question, one.code)


# ------------------------------------------------------------------------------------ right answers


def test_answers_agree_with_the_hand_worked_traces() -> None:
    compared: Counter[str] = Counter()
    for case in cases():
        code = case["code"] + "\n"
        one = run(code, case["entry"], case["args"])
        for seed in ("a", "b", "c"):
            for question in one.asked("full", seed).questions:
                check = CHECKS.get(question.kind)
                if check is not None:
                    check(case, code.split("\n"), question)
                    compared[question.kind] += 1
    assert set(compared) >= {"next_statement", "value", "visits", "changed"}


def _hand_step(case: dict[str, Any], question: Question) -> dict[str, Any] | None:
    for step in case["steps"]:
        if (step["line"], step["nth"]) == (question.line, question.visit):
            return dict(step)
    return None


def _check_next(case: dict[str, Any], lines: list[str], question: Question) -> None:
    step = _hand_step(case, question)
    wanted = -1 if step is None else step["next_done"]
    assert question.answers == ("-1" if wanted == -1 else lines[wanted - 1],)


def _check_value(case: dict[str, Any], lines: list[str], question: Question) -> None:
    step = _hand_step(case, question)
    if step is None:
        assert question.answers == ("Nil",)
        assert question.line not in {each["line"] for each in case["steps"]}
        return
    held = step["locals"][question.variable]
    assert question.answers == (ValueAnswer(held["value"], held["type"]),)


def _check_visits(case: dict[str, Any], lines: list[str], question: Question) -> None:
    count = sum(step["line"] == question.line for step in case["steps"])
    assert question.answers == (str(count if question.kind == "visits" else count > 0),)


def _check_changed(case: dict[str, Any], lines: list[str], question: Question) -> None:
    step = _hand_step(case, question)
    assert step is not None
    before = [s for s in case["steps"][: case["steps"].index(step)] if s["frame"] == step["frame"]]
    old = before[-1]["locals"] or {}
    names = sorted(name for name, held in step["locals"].items() if old.get(name) != held)
    assert question.answers == (", ".join(names) or "Nil",)


CHECKS: dict[str, Callable[[dict[str, Any], list[str], Question], None]] = {
    "next_statement": _check_next,
    "value": _check_value,
    "visits": _check_visits,
    "executed": _check_visits,
    "changed": _check_changed,
}

RECURSIVE = """\
def build(n):
    if n == 0:
        return [n]
    inner = build(n - 1)
    inner.append(n * 2)
    return inner

def total(n):
    parts = build(n)
    count = 0
    for part in parts:
        count += part
    return count + 100
"""
RAISING = """\
def pick(items, key):
    try:
        found = items[key]
    except KeyError as error:
        found = str(error) * 2
    except TypeError:
        found = len(items)
    return found * 3
"""
CATCHING = (
    RAISING
    + """
def outer(d, k):
    size = len(d) * 21
    return [pick(d, k), size + 1]
"""
)
ALIASES = """\
def f(xs):
    ys = xs
    ys += [9]
    zs = [ys, 1]
    ys.append(len(zs))
    xs.count(9)
    ys.extend(x + 3 for x in xs[:2])
    return zs[0][-1]
"""
TWO_HELPERS = """\
def even(n):
    half = n // 2
    return half

def odd(n):
    triple = n * 3
    return triple

def f(xs):
    total = 0
    for x in xs:
        if x % 2:
            y = odd(x)
        else:
            y = even(x)
        total += y
    return total
"""

HANDMADE = {
    "total": (RECURSIVE, "total", "3"),
    "raising": (RAISING, "pick", "{'a': 1}, 'b'"),
    "quiet": (RAISING, "pick", "{'a': 1}, 'a'"),
    "aliases": (ALIASES, "f", "[7]"),
    "catching": (CATCHING, "outer", "{'a': 1}, 'b'"),
    "two helpers": (TWO_HELPERS, "f", "[1, 2, 3, 4]"),
}
"""`build` is entered four times and returns [0], [0, 2], [0, 2, 4], [0, 2, 4, 6]."""


@functools.cache
def handmade(name: str) -> Run:
    return run(*HANDMADE[name])


@functools.cache
def whole(name: str) -> Context:
    return handmade(name).whole()


def place(kind: str, line: int | None = None, visit: int | None = None, **where: Any) -> Question:
    return Question(kind, (), line, visit, **where)


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("total", place("frames", function="build"), "4"),
        ("total", place("visits", 12), "4"),
        ("total", place("executed", 12), "True"),
        ("total", place("depth", 3, 1), "5"),
        ("total", place("depth", 11, 2), "1"),
        ("total", place("call_entry", 9, 1), "    if n == 0:"),
        ("total", place("call_entry", 12, 1), None),
        ("total", place("branch", 2, 4), "True"),
        ("total", place("branch", 2, 1), "False"),
        ("total", place("branch", 11, 1), None),
        ("total", place("returned", function="build", call=2), ValueAnswer("[0, 2]", "list")),
        ("total", place("returned", function="build", call=5), None),
        ("total", place("next_statement", 3, 1), "    inner.append(n * 2)"),
        ("total", place("next_statement", 4, 1), "    inner.append(n * 2)"),
        ("total", place("next_statement", 11, 5), "    return count + 100"),
        ("total", place("next_statement", 13, 1), "-1"),
        ("total", place("next_statement", 13, 2), None),
        ("total", place("value", 12, 3, variable="count"), ValueAnswer("6", "int")),
        ("total", place("value", 12, 3, variable="missing"), None),
        ("total", place("changed", 5, 1), "inner"),
        ("total", place("raised"), "Nil"),
        ("raising", place("raised"), "KeyError"),
        ("raising", place("raised_at"), "        found = items[key]"),
        ("raising", place("handler"), "    except KeyError as error:"),
        ("raising", place("executed", 7), "False"),
        ("raising", place("next_statement", 3, 1), "        found = str(error) * 2"),
        ("raising", place("next_statement", 7, 1), "-1"),
        ("raising", place("value", 7, 1, variable="found"), "Nil"),
        ("raising", place("value", 3, 1, variable="found"), None),
        ("raising", place("value", 7, 2, variable="found"), None),
        ("quiet", place("handler"), "Nil"),
        ("quiet", place("raised_at"), "Nil"),
        ("aliases", place("changed", 3, 1), "xs, ys"),
        ("aliases", place("changed", 5, 1), "xs, ys, zs"),
        ("aliases", place("changed", 6, 1), "Nil"),
    ],
)
def test_truth(name: str, question: Question, answer: str | ValueAnswer | None) -> None:
    found = truth(whole(name), question)
    assert found == (None if answer is None else (answer,))


def test_exceptions_are_asked_about_only_if_there_is_one() -> None:
    code = RAISING.replace("str(error) * 2", "error.args[5]")
    twice = run(
        f"{code}\ndef f(a):\n    try:\n        return pick(a, 1)\n    except IndexError:\n"
        "        return a\n",
        "f",
        "{}",
    )
    context = twice.whole()
    assert [truth(context, place(kind)) for kind in ("raised", "raised_at", "handler")] == [
        None
    ] * 3


# --------------------------------------------------------------------------- each rule can be broken


def value(line: int, visit: int, name: str, text: str, kind: str = "int") -> Question:
    return Question("value", (ValueAnswer(text, kind),), line, visit, name)


def after(line: int, visit: int, text: str) -> Question:
    return Question("next_statement", (text,), line, visit)


GOOD = value(12, 3, "count", "6")
REPEATED = """\
def f(n):
    if n:
        n += 1
    else:
        n += 1
    if n > 3: n = 5
    return n
"""


def context_of(code: str, args: str, entry: str = "f", **changes: Any) -> Context:
    return replace(run(code, entry, args).whole(), **changes)


@pytest.mark.parametrize(
    ("rule", "question", "where"),
    [
        ("place", Question("executed", ("False",), line=7), "total"),
        ("place", after(6, 1, "    return n"), (REPEATED, "2")),
        ("visit", after(12, 9, "-1"), "total"),
        ("visit", Question("value", ("Nil",), 7, 2, "found"), "raising"),
        ("completed", value(3, 1, "found", "1"), "raising"),
        ("named", Question("frames", ("1",), function="missing"), "total"),
        ("named", value(3, 1, "a", "1"), ("def f(n):\n  class A:\n    a = n\n  return 2\n", "1")),
        ("decided", value(12, 3, "parts", "[0, 2, 4, 6]", "list"), "total"),
        ("decided", Question("visits", ("5",), line=11), "total"),
        ("decided", Question("value", ("Nil",), 7, 1, "key"), "raising"),
        ("true", value(12, 3, "count", "7"), "total"),
        ("true", value(12, 3, "count", "6", "float"), "total"),
        ("true", after(12, 1, "    return count + 100"), "total"),
        ("text", value(12, 3, "count", "{2, 1}", "set"), "total"),
        ("text", value(12, 3, "count", "6", "Point"), "total"),
        ("text", value(12, 3, "count", "<object>", "object"), "total"),
        ("short", value(12, 3, "count", str("x" * 220), "str"), "total"),
        ("plain", value(12, 3, "count", "'</answer>'", "str"), "total"),
        ("plain", value(12, 3, "count", "'<f at 0x7f00aa12>'", "str"), "total"),
        ("real_exception", Question("raised", ("Mine",)), "total"),
        ("identified", after(2, 1, "        n += 1"), (REPEATED, "2")),
        (
            "identified",
            after(2, 1, "    x = (n +"),
            ("def f(n):\n    n += 1\n    x = (n +\n        1)\n    return x\n", "2"),
        ),
        (
            "one_handler",
            Question("handler", ("    except KeyError:",)),
            (
                "def f(d):\n    try:\n        d[1]\n    except KeyError:\n        d = 4\n"
                "    try:\n        d += 2\n    except KeyError:\n        d = 5\n    return d\n",
                "{}",
            ),
        ),
        ("unseen", Question("depth", ("3",), 3, 1), "total"),
        ("unseen", value(2, 1, "n", "1"), ("def f(n):\n    n = 1 if n else 7\n    return 5", "3")),
        ("unseen", Question("changed", ("inner",), 5, 1), "total"),
        ("unseen", after(2, 1, "-1"), ("def f(n):\n    return n -1\n", "3")),
        ("not_given", value(10, 1, "count", "0"), "total"),
        ("not_given", Question("value", ("Nil",), 3, 1, "x"),
         ("def f(n):\n    if n:\n        x = 4\n    return 8\n", "0")),
        ("not_given", value(2, 1, "n", "9"), ("def f(n):\n    m = abs(n)\n    return 5", "9")),
        ("not_output", value(2, 1, "m", "9"), ("def f(n):\n    m = n * 3\n    return m", "3")),
        ("not_output", value(2, 1, "m", "9"),
         ("def f(n):\n    m = n * 3\n    return [n, (m,)]", "3")),
        ("independent", GOOD, "twice"),
    ],
)  # fmt: skip
def test_each_rule_refuses_what_breaks_it(
    rule: str, question: Question, where: str | tuple[str, str]
) -> None:
    """`where`: a handmade program, or the code and arguments of one."""
    if where == "twice":
        context = replace(whole("total"), questions=(GOOD, GOOD))
    else:
        context = whole(where) if isinstance(where, str) else context_of(*where)
    assert not RULES[rule].check(question, context)
    assert broken(question, context) is not None
    assert RULES[rule].check(GOOD, whole("total"))


def test_every_rule_has_been_broken_and_says_what_it_asks() -> None:
    (marks,) = test_each_rule_refuses_what_breaks_it.pytestmark  # type: ignore[attr-defined]
    assert {parameters[0] for parameters in marks.args[1]} == set(RULES)
    assert all(rule.sentence.endswith(".") for rule in RULES.values())
    assert broken(GOOD, whole("total")) is None


BRANCHES = """\
def f(xs):
    n = 0
    for x in xs:
        if x > 3:
            n += x
            n = n * 2
        else:
            n -= g(x)
    if n < 0:
        n = len(xs)
    return str(n) + '!'

def g(x):
    return x * 3
"""


@functools.cache
def branches() -> Context:
    return run(BRANCHES, "f", "[5, 2, 8]").whole()


def asked_in(question: Question, context: Context) -> Question:
    return replace(question, answers=truth(context, question) or ())


@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("same_step", place("branch", 4, 1), place("next_statement", 4, 1)),
        ("same_step", place("value", 5, 1, variable="n"), place("changed", 5, 1)),
        ("same_way", place("next_statement", 5, 1), place("next_statement", 5, 2)),
        ("same_event", place("next_statement", 8, 1), place("next_statement", 14, 1)),
        ("same_value", place("value", 14, 1, variable="x"), place("value", 3, 2, variable="x")),
        ("both_never", place("next_statement", 10, 1), place("value", 10, 1, variable="n")),
        ("way_in", place("value", 10, 1, variable="n"), place("next_statement", 9, 1)),
        ("reached", place("executed", 5), place("value", 6, 1, variable="n")),
        ("reached", place("executed", 5), place("branch", 4, 1)),
        ("reached", place("visits", 5), place("visits", 6)),
        ("went_in", place("next_statement", 3, 1), place("value", 4, 2, variable="x")),
        ("calls", place("frames", function="g"), place("call_entry", 8, 1)),
        ("calls", place("frames", function="g"), place("visits", 14)),
    ],
)
def test_what_follows_from_another_question(name: str, a: Question, b: Question) -> None:
    context = branches()
    one, other = asked_in(a, context), asked_in(b, context)
    assert IMPLICATIONS[name](one, other, context) or IMPLICATIONS[name](other, one, context)
    assert follows(one, other, context) == follows(other, one, context) is not None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (place("next_statement", 4, 2), place("value", 5, 1, variable="n")),
        (place("value", 5, 1, variable="n"), place("value", 6, 2, variable="n")),
        (place("next_statement", 3, 4), place("value", 6, 2, variable="n")),
        (place("visits", 5), place("value", 8, 1, variable="n")),
        (place("next_statement", 3, 4), place("next_statement", 4, 1)),
    ],
)
def test_what_does_not_follow(a: Question, b: Question) -> None:
    context = branches()
    assert follows(asked_in(a, context), asked_in(b, context), context) is None


def test_a_part_of_a_later_value_follows_from_it() -> None:
    context = whole("total")
    first, second = (asked_in(place("value", 5, n, variable="inner"), context) for n in (1, 3))
    assert follows(first, second, context) == "part"


def test_questions_about_exceptions_stand_alone() -> None:
    context = whole("raising")
    questions = [asked_in(place(kind), context) for kind in ("raised", "raised_at", "handler")]
    inside = asked_in(place("value", 5, 1, variable="found"), context)
    for question in questions:
        assert follows(question, inside, context) == "exception"
        assert follows(question, questions[0], context) is not None


# ---------------------------------------------------------------------------------------- sampling

weights = st.floats(0.01, 10)


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(1, 50), weights), max_size=30))
@settings(max_examples=50)
def test_no_line_comes_twice_before_every_line_came_once(
    made: list[tuple[int, int, float]],
) -> None:
    candidates = [Candidate(place("branch", line, visit), weight) for line, visit, weight in made]
    order = [question.line for question in _by_line(candidates, rng("a"))]
    assert sorted(map(str, order)) == sorted(str(one.question.line) for one in candidates)
    assert set(order[: len(set(order))]) == set(order)


def test_reasons_are_known() -> None:
    straight = run("def f(a):\n    return a + 1\n", "f", "1").asked()
    assert straight.questions == ()
    assert straight.reasons == {CONTROL_FLOW: "no_branch", DATA_FLOW: "no_assignment"}
    copied = run("def f(a):\n    b = a * 7\n    return b\n", "f", "3").asked()
    assert copied.reasons[DATA_FLOW] == "not_output"
    found = {
        reason for name in PRESETS for _, asked in rows(name) for reason in asked.reasons.values()
    }
    assert found <= set(REASONS)
    assert all(text.endswith(".") for text in REASONS.values())


def test_presets_are_checked() -> None:
    assert preset_named("paper") is PRESETS["paper"]
    with pytest.raises(ConfigError, match="did you mean 'full'"):
        preset_named("ful")
    for wrong in (
        {"kinds": ("nothing",)},
        {"control_flow": -1},
        {"max_chars": 0},
        {"max_chars": 201},
    ):
        with pytest.raises(ConfigError, match="preset 'paper'"):
            replace(PRESETS["paper"], **wrong)


def test_a_preset_bounds_number_and_length() -> None:
    few = Preset("few", 1, 2, ("next_statement", "value"), max_chars=12)
    for one in runs()[:20]:
        questions = one.asked(few).questions
        counts = Counter(question.family for question in questions)
        assert counts[CONTROL_FLOW] <= 1 and counts[DATA_FLOW] <= 2
        values = [a for q in questions for a in q.answers if isinstance(a, ValueAnswer)]
        assert all(len(answer.value) <= 12 for answer in values)


def test_constructs() -> None:
    found = [
        construct(place("next_statement", line, 1), BRANCHES) for line in (2, 3, 5, 8, 9, 10, 14)
    ]
    assert found == ["plain", "for", "if", "call", "if", "if", "plain"]
    assert construct(place("frames", function="g"), BRANCHES) == "call"
    assert construct(place("raised"), RAISING) == "try"
    assert construct(place("value", 5, 1, variable="found"), RAISING) == "try"


# ------------------------------------------------------------------------------------------ wording


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_a_sentence_says_where_and_not_what(preset: str) -> None:
    for one, found in rows(preset):
        prompt = whitebox_prompt(one.code, one.entry, one.args, found.questions)
        (_, _), (_, text) = prompt
        own = text.rpartition("Now your task")[2]
        assert f"assert {one.entry}({one.args}) == ????" in own
        for question in found.questions:
            words = sentence(question, one.code)
            assert words in own
            if question.line is not None:
                assert f"Line {question.line}, " in words
                assert f"`{one.code.splitlines()[question.line - 1].strip()}`" in words
            if question.visit is not None:
                assert f"visit {question.visit}:" in words
            for name in (question.variable, question.function):
                assert name is None or f"`{name}`" in words
            assert answer_text(question) not in [line.strip() for line in own.splitlines()] or (
                question.kind in ("next_statement", "call_entry", "raised_at", "handler")
            )


def test_the_example_is_right() -> None:
    """Every prompt shows it, so its answers must be those of a run."""
    made = run(EXAMPLE.code, EXAMPLE.entry, EXAMPLE.args)
    assert made.output == EXAMPLE.output
    context = made.context(EXAMPLE.questions)
    assert [broken(question, context) for question in EXAMPLE.questions] == [None] * 4
    spec = Spec("whitebox", made.code, made.entry, made.args, made.output, None, EXAMPLE.questions)
    (_, _), (_, text) = whitebox_prompt(made.code, made.entry, made.args, EXAMPLE.questions)
    shown = text[text.index("<reasoning>\n") : text.index("</answer>\n") + len("</answer>\n")]
    assert grade_all([(spec, shown)])[0].w == 1.0


def test_a_change_of_wording_is_a_new_version() -> None:
    """Update the digest together with the version id: rows name the wording that they carry."""
    values: dict[str, Any] = {
        "line": 12,
        "visit": 3,
        "variable": "count",
        "function": "build",
        "call": 2,
    }
    asked = [
        Question(kind, (), **{name: values[name] for name in names})
        for kind, names in sorted(QUESTION_FIELDS.items())
    ]
    (_, _), (_, text) = whitebox_prompt(RECURSIVE, "total", "3", asked)
    assert (WHITEBOX_VERSION, digest(text)[:16]) == ("whitebox-1", "daa6abf5fba9a245")


# ----------------------------------------------------------------------------------------- reports


def test_qb_01_loop_headers_are_not_counted_and_the_rule_is_stated() -> None:
    """pyutils/line_profiler#215: a loop's header runs once more than its body."""
    code = (
        "def f(n):\n    s = 0\n    for i in range(n):\n        s += i\n    return s\n"
        "def g(n):\n    while n:\n        n -= 1\n    return n\n"
    )
    first, second = run(code, "f", "3").whole(), run(code, "g", "2").whole()
    counts = [truth(first, place("visits", line)) for line in (3, 4)]
    counts += [truth(second, place("visits", line)) for line in (7, 8)]
    assert counts == [("4",), ("3",), ("3",), ("2",)]
    for context, line in ((first, 3), (second, 7)):
        assert broken(asked_in(place("visits", line), context), context) == "decided"
    assert "also the last, which finds none" in whitebox_prompt(code, "f", "3", [])[1][1]


def test_qb_02_a_program_that_shows_the_answer_is_not_asked_about() -> None:
    """lm-evaluation-harness#4212: docstring or assertion show the call with its result."""
    code = "def square(x):\n    '''>>> square(3)\n    9'''\n    y = x * x\n    return abs(y)\n"
    assert gives_away(code, "square", "9")
    assert gives_away("def square(x):\n    return x * x\n\nassert square(3) == 9\n", "square", "9")
    assert gives_away("def square(x):\n    return x * x  # square(3) is 9\n", "square", "9")
    assert not gives_away("def square(x):\n    return x * x\n", "square", "9")
    found = run(code, "square", "3").asked()
    assert found == Asked((), {CONTROL_FLOW: "told", DATA_FLOW: "told"})


def test_qb_03_values_that_depend_on_the_order_of_a_set_are_not_asked() -> None:
    """evalplus#148: `list` of a set of strings is right under one hash seed only."""
    code = "def f(k):\n    xs = list({'apple', 'banana', 'cherry'})\n    return len(xs) * k\n"
    one = run(code, "f", "4")
    assert order_matters(code, "4") and not order_matters(RECURSIVE, "3")
    assert order_matters("def f(d):\n    return len(d)\n", "{1, 2}")
    states = one.states(needed(one.trace, *one.plan().wanted))
    shuffled = states.at(0)["xs"]._replace(text="['cherry', 'banana', 'apple']")  # type: ignore[index]
    assert one.trace.steps[0].line == 2 and shuffled != states.at(0)["xs"]  # type: ignore[index]
    other = replace(states, held={**states.held, 0: {"xs": shuffled}})
    row: dict[str, Any] = {"code": code, "entry": "f", "args": "4", "output": one.output}
    assert [q.variable for q in ask(one.plan(), states, **row)] == ["xs"]
    assert ask(one.plan(), states, **row, others=[states]) == ask(one.plan(), states, **row)
    asked = ask_all(one.plan(), states, **row, others=[other])
    assert asked.questions == () and asked.reasons[DATA_FLOW] == "text"


def test_qb_04_functions_and_variables_are_those_of_the_program() -> None:
    """human-eval#60: the question names one function, the code defines another."""
    context = context_of("def Solve(x):\n    return x + 1\n", "1", "Solve")
    for name in ("solve", "Solve"):
        question = Question("frames", ("1",), function=name)
        assert RULES["named"].check(question, context) == (name == "Solve")
    twice = context_of(
        "def f(n):\n    return g(n)\ndef g(n):\n    def f():\n        return n\n    return f()\n",
        "1",
    )
    assert not RULES["named"].check(Question("frames", ("1",), function="f"), twice)


def test_qb_05_values_with_addresses_are_not_asked() -> None:
    """syrupy#71: what Python shows of an object holds its address."""
    code = (
        "class A: pass\n\ndef f(n):\n    xs = [A() for _ in range(n)]\n    shown = str(f)\n"
        "    again = shown.upper()[:4] + str(xs)\n    return len(xs) + 40\n"
    )
    one = run(code, "f", "2")
    for seed in range(5):
        assert not [q for q in one.asked("full", str(seed)).questions if q.variable]
    assert one.asked().reasons[DATA_FLOW] in ("plain", "text")


def test_two_statements_that_the_grader_confuses_are_no_answers() -> None:
    facts = facts_of(
        "def f(s):\n    a = s+'x'\n    a = s + \"x\"\n    b = s + ' x'\n    return a\n"
    )
    unclear = [n for n, each in enumerate(facts.statements) if not facts.identifies(n)]
    assert [facts.statements[n].line for n in unclear] == [2, 3]
    assert same_statement(facts.text(1), facts.text(2))
