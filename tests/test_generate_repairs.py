"""Answers of a model that are no good: what is repaired, what is dropped, and under which name.

A whole run each time, against a server that spoils some of its answers. More adversaries, one by one and
those that only an execution gives away, are in `test_openai_provider.py` and `test_pipeline.py`.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import StubServer, serving
from programming import CONFIG, GrammarModel, made

from synth.config import Writer
from synth.constraints import Constraint, rules_of
from synth.dataset import read_rows
from synth.errors import SynthError

# ----------------------------------------------------------------------------------------- repairs


def commented(constraint: Constraint, seed: int, text: str) -> str:
    return text.replace("\n    return", "\n    # the result\n    return", 1)


def test_a_follow_up_turn_repairs_the_rule_that_it_names(tmp_path: Path) -> None:
    model = GrammarModel(CONFIG, commented)
    with serving(StubServer(model)) as server:
        finished = made(tmp_path / "rows", server)
    assert len(list(read_rows(tmp_path / "rows"))) == 24
    assert model.follow_ups
    sentence = next(
        rule.sentence(constraint)
        for constraint in model.constraints.values()
        for rule in rules_of(constraint)
        if rule.name == "no_comments"
    )
    assert all(sentence in turn and "comment on line" in turn for turn in model.follow_ups)
    funnel = finished.manifest.funnel
    dropped = dict(funnel["programs"].dropped)
    # Every first answer is refused, every second one is a program: half of all.
    assert dropped == {"no_comments": funnel["programs"].entered // 2}
    assert funnel["programs"].kept == dropped["no_comments"]


def test_an_execution_that_fails_is_named_too(tmp_path: Path) -> None:
    """What only a run can show goes back to the model as well, and is counted where it was found."""

    def raising(constraint: Constraint, seed: int, text: str) -> str:
        return re.sub(r"\n    return (.*)", r"\n    return [\1][1]", text, count=1)

    config = replace(CONFIG, rows=8, levels=(1, 2))
    model = GrammarModel(config, raising)
    with serving(StubServer(model)) as server:
        finished = made(tmp_path / "rows", server, config)
    failed = dict(finished.manifest.funnel["executions"].dropped)["seed_raised"]
    assert failed >= 2
    assert sum("raises an exception" in turn for turn in model.follow_ups) > 0
    assert len(list(read_rows(tmp_path / "rows"))) == 8


def test_without_repairs_another_program_is_asked_for(tmp_path: Path) -> None:
    config = replace(CONFIG, rows=8, levels=(1,), writer=Writer("stub", repairs=0))
    spoiled: Counter[str] = Counter()

    def first_two(constraint: Constraint, seed: int, text: str) -> str:
        spoiled[constraint.id] += 1
        return commented(constraint, seed, text) if spoiled[constraint.id] <= 2 else text

    model = GrammarModel(config, first_two)
    with serving(StubServer(model)) as server:
        finished = made(tmp_path / "rows", server, config, concurrency=1)
        assert all(len(body["messages"]) == 2 for body in server.bodies)
    assert model.follow_ups == []
    dropped = dict(finished.manifest.funnel["programs"].dropped)
    assert dropped["no_comments"] >= 2


def test_a_constraint_is_given_up_after_so_many_attempts(tmp_path: Path) -> None:
    """A model that cannot meet a constraint must not be paid for a hundred tries at it."""
    config = replace(CONFIG, rows=6, levels=(1,), writer=Writer("stub", repairs=1, attempts=2))
    hopeless = next(iter(GrammarModel(config).constraints.values())).id
    plain = GrammarModel(config)

    def model(prompt: str, seed: int) -> str:
        first = next(text for text in plain.constraints if prompt.startswith(text))
        return "No." if plain.constraints[first].id == hopeless else plain(prompt, seed)

    with serving(StubServer(model)) as server:
        finished = made(tmp_path / "rows", server, config)
        said_no = sum(plain.constraints[head(body, plain)].id == hopeless for body in server.bodies)
    assert finished.manifest.figures["slots_without_program"] == 1
    assert said_no == 4  # two prompts, a follow-up turn each
    assert dict(finished.manifest.funnel["programs"].dropped)["syntax"] == 4


def test_a_model_that_is_never_right_is_given_up_soon(tmp_path: Path) -> None:
    config = replace(CONFIG, writer=Writer("stub", repairs=1, attempts=2))
    with serving(StubServer(lambda prompt, seed: "def f(x): return x")) as server:
        with pytest.raises(
            SynthError, match=r"15 constraints in a row .*one_print \(60\).*--model"
        ):
            made(tmp_path / "rows", server, config)
        # Four for each constraint, and what was begun ahead of its turn.
        assert server.requests <= 4 * (15 + 4 * 8)


def head(body: dict[str, Any], model: GrammarModel) -> str:
    prompt = "\n\n".join(message["content"] for message in body["messages"])
    return next(text for text in model.constraints if prompt.startswith(text))


# ------------------------------------------------------------------------------------- adversaries


def spoiled(text: str, kind: str, port: int) -> str:
    """A good program in its block, made bad in one way."""
    first = r"\n(    \w[^\n]*)"  # the first statement of the first function
    inside: dict[str, str] = {
        "network": f"import socket; socket.create_connection(('127.0.0.1', {port}))",
        "network, hidden": f"__builtins__['__import__']('socket').create_connection(('', {port}))",
        "files": "open('adversarial-was-here', 'w').write('x')",
        "process": "import os; os.system('touch adversarial-was-here')",
        "endless": "while True: pass",
        "comment": "pass  # nothing",
        "prints": "print('twice')",
    }
    if kind in inside:
        return re.sub(first, lambda m: f"\n    {inside[kind]}\n{m[1]}", text, count=1)
    other: dict[str, str] = {
        "at module level": text.replace("\nprint(", "\nopen('adversarial-was-here', 'w')\nprint("),
        "two prints": re.sub(r"\n(print\(.*\))", r"\n\1\n\1", text),
        "default": re.sub(r"(def \w+\([^)]*)\)", r"\1=None)", text, count=1),
        "unpacked": re.sub(r"\nprint\((\w+)\(.*", r"\nprint(\1(**{'x': 1}))", text),
        "prose": "I would rather not write a program.",
        "an open fence": text.replace("```", "", 2).join(("```python\n", "")),
        "another block last": f"{text}\n```python\ndef other(x):\n    return x\n```",
    }
    return other[kind]


NAMED = {
    "network": "pure",
    "network, hidden": "pure",
    "files": "pure",
    "process": "pure",
    "endless": "control_flow",
    "comment": "no_comments",
    "prints": "pure",
    "at module level": "module_level",
    "two prints": "module_level",
    "default": "parameters",
    "unpacked": "literal_arguments",
    "prose": "syntax",
    "an open fence": "no_program",
    "another block last": "one_print",
}


def test_adversaries_leave_nothing_but_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among 24 rows: every kind is sent, in turn, and nothing that it does happens to this machine."""
    monkeypatch.chdir(tmp_path)
    kinds = list(NAMED)
    sent: Counter[str] = Counter()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def spoil(constraint: Constraint, seed: int, text: str) -> str:
            if sum(sent.values()) == len(kinds):
                return text
            kind = kinds[sum(sent.values())]
            sent[kind] += 1
            return spoiled(text, kind, port)

        config = replace(CONFIG, writer=Writer("stub", repairs=0))
        with serving(StubServer(GrammarModel(config, spoil))) as server:
            finished = made(tmp_path / "rows", server, config, concurrency=1)
        listener.settimeout(0)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert sent == dict.fromkeys(kinds, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]
    assert len(list(read_rows(tmp_path / "rows"))) == 24
    # All of them by their text, so nothing of them was run, not even in the sandbox.
    dropped = finished.manifest.funnel["programs"].dropped
    assert dict(dropped) == Counter(NAMED.values())
    for row in read_rows(tmp_path / "rows"):
        assert "adversarial" not in row.code
        assert "socket" not in row.code
