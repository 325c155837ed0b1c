"""Chains say what happened and nothing else: every value in them is read back and looked up in the trace."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, StubServer, serving
from handmade import make_row, make_spec

from rewards.grading import grade
from rewards.row import Row, Spec
from rewards.sandbox import SandboxPool
from synth.chains import Chain, Dropped, answers_of, model_chains, narrated_chains
from synth.clients import Client, Patience, Server
from synth.completions import CompletionStore, Sampling
from synth.config import GenerateConfig
from synth.dataset import read_rows
from synth.engine import generate
from synth.errors import ConfigError
from synth.executions import look, run_traced
from synth.narration import MAX_LINES, narrate
from synth.seeds import rng
from synth.states import States, everything
from synth.traces import Trace

PLACE = re.compile(r"[Ll]ine (\d+) \(visit (\d+)\)")
VALUE = re.compile(r"(?:^|\s)([A-Za-z_]\w*) = (.+)$")


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxPool]:
    with SandboxPool(size=1) as pool:
        yield pool


def follow(code: str, entry: str, args: str, sandbox: SandboxPool) -> tuple[Trace, States]:
    (result,) = run_traced(sandbox, code, entry, [args])
    assert result.record is not None
    trace = Trace.from_record(code, result.record)
    (states,) = look(sandbox, code, entry, [args], [trace], [everything(trace)])
    return trace, states


def check(text: str, trace: Trace, states: States) -> int:
    """Look up everything that a narration says; returns the number of values that it states."""
    step_at = {(step.line, step.visit): step for step in trace.steps}
    step, before, stated = None, False, 0
    for line in text.split("\n")[1:-1]:
        # What follows "  and" is a value alone, which may look like anything.
        if not line.startswith("  and") and (place := PLACE.search(line)):
            step = step_at[int(place[1]), int(place[2])]
            before = "is reached" in line
        assert step is not None
        if " returns " in line and "returns from" not in line:
            held = states.returned(step.frame)
            assert held is not None
            assert line.endswith(f"{step.function} returns {held.text}")
            stated += 1
        elif value := VALUE.search(line):
            at = trace.previous[step.index] if before else step.index
            state = states.at(at)
            assert state is not None
            assert state[value[1]].text == value[2], line
            stated += 1
        elif re.search("condition|is true|is false", line):
            says = "false" if "not hold" in line or "is false" in line else "true"
            assert step.arm == says, line
        elif "no more elements" in line or "nothing left" in line:
            assert step.arm == "false"
        elif "exception" in line:
            assert step.outcome == "raised"
        elif "no variable" in line or "as they are" in line:
            change = states.change(step.index)
            assert change is not None
            assert not change.changed
        elif called := re.search(r"calls (\S+)$|, (\S+) must run$", line):
            frame = trace.frame_numbers[step.inner_index]
            assert trace.frames[frame - 1].function == (called[1] or called[2])
        else:
            assert re.search(
                "is done|too long to write|leaves the loop|next round|returns from|hold what they",
                line,
            ), line
    return stated


PROGRAMS = {
    "long loop": ("def f(n):\n    t = 0\n    for i in range(n):\n        t += i\n    return t\n", "9"),
    "nested loops": (
        "def f(n):\n    out = []\n    for i in range(n):\n        for j in range(i):\n"
        "            if j % 2:\n                continue\n            out.append(i * j)\n"
        "        if i > 6:\n            break\n    return out\n",
        "9",
    ),
    "a loop in a loop, left and entered again": (
        "def f(rows):\n    hits = 0\n    for row in rows:\n        for x in row:\n"
        "            if x > 2:\n                hits += 1\n                break\n    return hits\n",
        "[[1, 3], [5], [0, 0, 4], [9, 9]]",
    ),
    "while": ("def f(n):\n    k = 0\n    while n > 1:\n        n //= 2\n        k += 1\n    return k\n", "900"),
    "calls": (
        "def g(a):\n    b = a * 2\n    return b\n\n\n"
        "def f(x):\n    y = g(x) + g(x + 1)\n    return [y, g(y)]\n",
        "3",
    ),
    "recursion": (
        "def f(n):\n    if n < 2:\n        return n\n    return f(n - 1) + f(n - 2)\n", "5",
    ),
    "generator": (
        "def g(n):\n    for i in range(n):\n        yield i * i\n\n\n"
        "def f(n):\n    total = 0\n    for x in g(n):\n        total += x\n    return total\n",
        "8",
    ),
    "handled": (
        "def f(d):\n    try:\n        v = d['a'] + 1\n    except TypeError:\n        v = None\n"
        "    finally:\n        d.clear()\n    return [v, d]\n",
        "{'a': 'x'}",
    ),
    "aliases": ("def f(a):\n    b = a\n    b.append(4)\n    del b\n    return a\n", "[1]"),
    "odd texts": ("def f(s):\n    t = s + ' = 3\\nline 1 (visit 1)'\n    return t\n", "'x = 1'"),
    "long value": ("def f(n):\n    s = list(range(n))\n    return len(s)\n", "300"),
    "nested function": (
        "def f(n):\n    def g(k):\n        return k + n\n    return [g(1), g(2)]\n", "4",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_stated_value_is_true(name: str, sandbox: SandboxPool) -> None:
    code, args = PROGRAMS[name]
    trace, states = follow(code, "f", args, sandbox)
    value = states.result.value
    assert value is not None
    for seed in range(12):
        text = narrate(trace, states, f"f({args})", value, rng(str(seed)))
        assert text is not None
        assert check(text, trace, states) >= 1
        assert text.endswith(value)
        assert text == narrate(trace, states, f"f({args})", value, rng(str(seed)))


def test_the_checker_sees_a_wrong_value(sandbox: SandboxPool) -> None:
    code, args = PROGRAMS["long loop"]
    trace, states = follow(code, "f", args, sandbox)
    text = narrate(trace, states, "f(9)", "36", rng("0"))
    assert text is not None
    wrong = re.sub(r"t = 0$", "t = 5", text, count=1, flags=re.MULTILINE)
    assert wrong != text
    with pytest.raises(AssertionError):
        check(wrong, trace, states)


def test_long_loops_are_shortened(sandbox: SandboxPool) -> None:
    code, _ = PROGRAMS["long loop"]
    lengths = []
    for n in (4, 5, 50):
        trace, states = follow(code, "f", str(n), sandbox)
        text = narrate(trace, states, f"f({n})", "0", rng("0"))
        assert text is not None
        lengths.append(text.count("\n"))
        assert ("Rounds 3 to" in text or "rounds 3 to" in text) == (n >= 5)
    assert lengths[1] == lengths[2]
    trace, states = follow(code, "f", "50", sandbox)
    text = narrate(trace, states, "f(50)", "0", rng("0"))
    assert text is not None
    assert "ounds 3 to 49" in text
    assert "t = 1176" in text  # what 49 rounds have left, 0 + 1 + … + 48


def test_a_run_that_is_too_long_has_no_narration(sandbox: SandboxPool) -> None:
    lines = "".join(f"    x = x + {n}\n" for n in range(MAX_LINES))
    trace, states = follow(f"def f(x):\n{lines}    return x\n", "f", "1", sandbox)
    assert narrate(trace, states, "f(1)", "0", rng("0")) is None


# ------------------------------------------------------------------------------------ real rows


def graded(row: Row, text: str) -> str:
    return grade(Spec.from_json(row.spec), text).status


def test_chains_of_generated_rows_earn_everything(finished_run: Path, sandbox: SandboxPool) -> None:
    rows = list(read_rows(finished_run))
    found = list(narrated_chains(rows, sandbox))
    chains = [one for one in found if isinstance(one, Chain)]
    assert len(found) == len(rows)
    assert {one.reason for one in found if isinstance(one, Dropped)} <= {"too_long"}
    assert len(chains) >= 0.9 * len(rows)
    by_id = {row.id: row for row in rows}
    for chain in chains:
        row = by_id[chain.row_id]
        assert graded(row, chain.completion) == "right"
        trace, states = follow(row.code, row.entry, row.args, sandbox)
        told = chain.completion.partition("<reasoning>\n")[2].partition("\n</reasoning>")[0]
        if row.task == "input":
            told = told.partition("\n")[2]
        assert check(told, trace, states) >= 1
    shapes = Counter(shape(by_id[chain.row_id], chain.completion) for chain in chains)
    assert len(shapes) >= 0.9 * len(chains)
    assert list(narrated_chains(rows[:6], sandbox)) == found[:6]


def shape(row: Row, text: str) -> str:
    """A completion without names and numbers."""
    words = set(re.findall(r"[A-Za-z_]\w*", row.code + row.args)) - {"line", "in"}
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "S", text.partition("</reasoning>")[0])
    plain = re.sub(r"[A-Za-z_]\w*", lambda m: "N" if m[0] in words else m[0], plain)
    return re.sub(r"-?\d+(\.\d+)?", "0", plain)


@pytest.mark.slow
def test_chains_of_a_thousand_rows_are_true_and_differ(tmp_path: Path) -> None:
    generate(GenerateConfig(depth=3, rows=1000), tmp_path / "rows", jobs=2)
    rows = list(read_rows(tmp_path / "rows"))
    by_id = {row.id: row for row in rows}
    with SandboxPool(size=2) as sandbox:
        chains = [one for one in narrated_chains(rows, sandbox) if isinstance(one, Chain)]
    assert len(chains) >= 900
    assert all(graded(by_id[chain.row_id], chain.completion) == "right" for chain in chains)
    shapes = {shape(by_id[chain.row_id], chain.completion) for chain in chains}
    assert len(shapes) >= 0.9 * len(chains)


def test_answers_are_those_of_the_row() -> None:
    row = make_row(0)
    assert answers_of(Spec.from_json(row.spec)) == [f"assert scale({row.args}) == [2, 6]"]
    raising = replace(row, output="", spec=make_spec(replace(row, output=""), raises="KeyError"))
    assert answers_of(Spec.from_json(raising.spec)) == ["KeyError"]


def test_a_chain_is_a_row_in_conversational_form(sandbox: SandboxPool) -> None:
    (chain,) = narrated_chains([make_row(0)], sandbox)
    assert isinstance(chain, Chain)
    record = json.loads(json.dumps(chain.to_json()))
    assert [message["role"] for message in record["prompt"]] == ["system", "user"]
    assert [message["role"] for message in record["completion"]] == ["assistant"]
    assert record["source"] == "narration-1"


@pytest.mark.parametrize("task", ["output", "input", "whitebox"])
def test_a_row_that_lies_has_no_chain(task: str, sandbox: SandboxPool) -> None:
    """The narration tells the real run. A grader that compares with the row would not see the lie."""
    spec = json.loads(make_row(0).spec) | {"task": task, "output": "[3, 6]"}
    row = replace(make_row(0), task=task, output="[3, 6]", spec=json.dumps(spec))
    false_answer = json.loads(make_row(2).spec) | {"task": "whitebox"}
    false_answer["questions"] = [{"kind": "visits", "line": 4, "answers": ["7"]}]
    asking = replace(make_row(2), task="whitebox", spec=json.dumps(false_answer))
    raising = replace(
        make_row(3), spec=make_spec(replace(make_row(3), output=""), raises="KeyError")
    )
    unittest = replace(make_row(1), task="unittest")
    assert list(narrated_chains([row, unittest, asking, raising], sandbox)) == [
        Dropped(row.id, "output_differs"),
        Dropped(unittest.id, "task"),
        Dropped(asking.id, "answer_differs"),
        Dropped(raising.id, "output_differs"),
    ]


def test_what_a_row_says_may_be_spelled_in_another_way(sandbox: SandboxPool) -> None:
    rows = [make_row(n, output=text) for n, text in enumerate(("[2,6]", "[2, 6.0]", "[2, x]"))]
    assert [type(one) for one in narrated_chains(rows, sandbox)] == [Chain, Dropped, Dropped]
    code = "def f(d):\n    return d['a']\n"
    row = make_row(3, code=code, entry="f", args="{'b': 1}", output="")
    right, wrong = (
        replace(row, spec=make_spec(row, raises=name)) for name in ("KeyError", "TypeError")
    )
    assert [type(one) for one in narrated_chains([right, wrong], sandbox)] == [Chain, Dropped]


# ------------------------------------------------------------------------------- from a model


def from_model(rows: list[Row], model: Any, **settings: Any) -> list[Chain | Dropped]:
    async def run(server: StubServer) -> list[Chain | Dropped]:
        with CompletionStore(":memory:") as store:
            client = Client(
                Server("stub", server.base_url), store, Patience(attempts=2, first_wait=0)
            )
            try:
                settings.setdefault("sampling", Sampling())
                return await model_chains(rows, client, "stub", **settings)
            finally:
                await client.close()

    with serving(StubServer(model)) as server:
        return asyncio.run(run(server))


def test_the_first_right_completion_of_a_model_is_kept() -> None:
    rows = [make_row(number) for number in range(6)]
    right = "<reasoning>\nx\n</reasoning>\n<answer>\n[2, 6]\n</answer>"

    def model(prompt: str, seed: int) -> Answer:
        number = int(re.findall(r"\d+", prompt)[-1])
        texts = {0: right, 1: right.replace("6", "7"), 2: "<answer>\n[2, 6]\n</answer>"}
        cut = "length" if number == 3 else "stop"
        later = right if seed % 2 else "<reasoning></reasoning>"
        return Answer(texts.get(number, right if number == 3 else later), cut)

    found = from_model(rows, model, tries=4)
    assert [type(one) for one in found] == [Chain, Dropped, Dropped, Dropped, Chain, Chain]
    assert {one.reason for one in found if isinstance(one, Dropped)} == {"not_solved"}
    for one in found:
        if isinstance(one, Chain):
            assert (one.completion, one.source) == (right, "stub")
    with pytest.raises(ConfigError, match="tries is 0"):
        from_model(rows, model, tries=0)


def test_a_whitebox_completion_must_be_right_in_every_answer() -> None:
    spec = json.loads(make_row(0).spec) | {"task": "whitebox"}
    spec["questions"] = [{"kind": "visits", "line": 4, "answers": ["3"]}]
    row = replace(make_row(0), task="whitebox", spec=json.dumps(spec))

    def answers(visits: int) -> Any:
        return lambda prompt, seed: (
            f"<reasoning>\n</reasoning>\n<answer>\n[2, 6]\n{visits}\n</answer>"
        )

    assert isinstance(from_model([row], answers(3))[0], Chain)
    assert from_model([row], answers(5)) == [Dropped(row.id, "not_solved")]
