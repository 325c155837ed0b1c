"""`synth generate --inputs`: a model writes inputs beside Hypothesis. What it writes is read, never run."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, Schedule, StubServer, serving
from hypothesis import given
from hypothesis import strategies as st
from programming import CONFIG, WORDS, GrammarModel, files, made

from rewards.sandbox import SandboxPool
from rewards.values import canonical, parse
from synth import cli
from synth.catalogue import catalogue
from synth.clients import Patience, Server
from synth.completions import CompletionStore
from synth.config import GenerateConfig, Writer
from synth.constraints import Constraint, structure
from synth.dataset import read_manifest, read_rows
from synth.errors import ConfigError, ProgramRejected, ProviderError
from synth.inputs import Drawer
from synth.journal import STORE
from synth.pipeline import CASES_DRAWN, Attempt, Pipeline
from synth.prompts import INPUTS_VERSION, inputs_prompt
from synth.providers.openai import OpenAIProvider
from synth.providers.suggestions import (
    MAX_ANSWER_CHARS,
    MAX_LINE_CHARS,
    Suggested,
    read_suggestions,
)
from synth.recheck import recheck
from synth.source import Source, read

SOURCE = read("def f(items, k):\n    return items[:k]\nprint(f([1, 2, 3], k=2))\n")


def told(answer: str, source: Source = SOURCE) -> Suggested:
    return read_suggestions(answer, source)


# ----------------------------------------------------------------------------------- one answer


@pytest.mark.parametrize(
    "answer",
    [
        "f([4], 1)\nf([], 0)",
        "Sure!\n\n```python\nf([4], 1)\nf([], 0)\n```\nThese f(...) take both paths.",
        "```\nf([4], k=1)  # one round\nf(items=[], k=0) # none\n```",
        "```python\nprint(f([4], 1))\nprint(f([], 0))\n```",
        "1. `f([4], 1)`\n2. `f([], 0)`",
        "- f([4], 1)\n- f([], 0)",
        ">>> f([4], 1)\n[4]\n>>> f([], 0)\n[]",
        "assert f([4], 1) == [4]\nassert f([], 0) == []",
        "f([4], 1) == [4]; f([], 0) == []",
        "f([\n    4,\n], 1)\nf([], 0)",
        "calls = [f([4], 1), f([], 0)]",
        "```python\nf([4], 1)\n```\nand\n```python\nf([], 0)\n```",
        "```python\nf([4], 1)\nf([], 0)",  # the fence is never closed
        "~~~\r\nf([4], 1)\r\nf([], 0)\r\n~~~",
        "def f(items, k):\n    return items[:k]\n\nf([4], 1)\nf([], 0)",
        "x = f([4], 1) if True else f([], 0)",
    ],
)
def test_calls_are_found_in_whatever_stands_around(answer: str) -> None:
    found = told(answer)
    assert found == Suggested((("[4]", "1"), ("[]", "0")), ())


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ("f([__import__('os').system('touch was-here')], 1)", "not_literal"),
        ("f(__import__('os').system('touch was-here'), 1)", "not_literal"),
        ("f([open('was-here', 'w').write('x')], 1)", "not_literal"),
        ('f(f\'{open("was-here", "w")}\', 1)', "not_literal"),
        ("f([x for x in range(3)], 1)", "not_literal"),
        ("f(items, k)", "not_literal"),
        ("f([1] * 10, 2)", "not_literal"),
        ("f([1, 2], 1 + 1)", "not_literal"),
        ("f(f([1], 1), 1)", "not_literal"),
        ("f(lambda: 1, 1)", "not_literal"),
        ("f(list(range(9000)), 1)", "long_arguments"),
        ("f('" + "a" * MAX_LINE_CHARS + "', 1)", "long_arguments"),
        ("f([1])", "wrong_arity"),
        ("f([1], 1, 2)", "wrong_arity"),
        ("f([1], items=[2])", "wrong_arity"),
        ("f(*[[1], 2])", "wrong_arity"),
        ("f(**{'items': [1], 'k': 2})", "wrong_arity"),
        ("f([1], 1, key=3)", "wrong_arity"),
        ("f([1, 2, 3], 2)", "duplicate"),  # the seed itself
        ("f([5], 1); f([5],k=1)", "duplicate"),
        ("f([1], 2", "not_python"),
        ("f([1], 2) -> [1]", "not_python"),
        ("f(" + "[" * 300 + "]" * 300 + ", 1)", "not_python"),
    ],
)
def test_what_is_no_literal_argument_list_is_left_out_by_name(
    call: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = told(f"f([9], 9)\n{call}\n")
    assert found.dropped == (reason,)
    assert found.lists[0] == ("[9]", "9")
    assert len(found.lists) == 1 + (call.count(";"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "rule"),
    [
        ("", "no_calls"),
        ("I would rather not.", "no_calls"),
        ("```python\n```", "no_calls"),
        ("[(1, 2), (3, 4)]", "no_calls"),
        ("other([1], 2)", "no_calls"),
        ("x.f([1], 2)", "no_calls"),
        ("f([1], 2)\n" * (MAX_ANSWER_CHARS // 9), "long_answer"),
    ],
)
def test_an_answer_without_calls_is_its_own_outcome(answer: str, rule: str) -> None:
    with pytest.raises(ProgramRejected) as why:
        told(answer)
    assert why.value.rule == rule


@given(st.text(st.sampled_from("f([1], 2)'\"\n`#\\*{}:;= λ\0"), max_size=60))
def test_any_text_is_read_and_all_that_comes_of_it_are_values(text: str) -> None:
    try:
        found = told(f"f([9], 9)\n{text}")
    except ProgramRejected as why:
        assert why.rule == "no_calls"  # a quote that never ends may swallow the call
        return
    for texts in found.lists:
        assert len(texts) == 2
        for one in texts:
            assert canonical(parse(one)) == one
    assert len(set(found.lists)) == len(found.lists)


def test_types_and_length_are_those_of_drawn_inputs() -> None:
    lists = [
        ("[4]", "1"), ("[]", "0"), ("['a']", "1"), ("[1.0]", "1"), ("[1]", "True"), ("'abc'", "1"),
        ("None", "1"), (str(list(range(200))), "1"), ("(1, 2)", "1"),
    ]  # fmt: skip
    with Drawer() as drawer:
        found = drawer.fitted("[1, 2, 3], k=2", lists)
        assert drawer.fitted("1", []) == []
        # What is drawn does not depend on it.
        again = drawer.draw("[1, 2, 3], k=2", seed="s", count=8)
    with Drawer() as fresh:
        assert fresh.draw("[1, 2, 3], k=2", seed="s", count=8) == again
    assert [text for text, _ in found[:2]] == ["[4], k=1", "[], k=0"]
    assert [why for _, why in found[2:]] == [
        *["other_types"] * 5,
        "long_arguments",
        "other_types",
    ]


def test_constructors_are_spelled_as_the_program_does() -> None:
    code = (
        "from datetime import date\ndef f(day):\n    return day.year\nprint(f(date(2024, 1, 2)))\n"
    )
    source = read(code)
    found = told("f(date(1999, 2, 3))\nf(datetime.date(2001, 2, 3))", source)
    with Drawer() as drawer:
        assert drawer.fitted(source.args, found.lists) == [
            ("date(1999, 2, 3)", ""),
            ("date(2001, 2, 3)", ""),
        ]


# ----------------------------------------------------------------------------------- whole runs

RUN = replace(CONFIG, rows=16, levels=(1, 3), inputs="model", writer=Writer("stub", repairs=0))
ASKED = re.compile(r"It is called as `(\w+)\((.*)\)`\. Write (\d+) more calls", re.DOTALL)


class Inventive(GrammarModel):
    """Writes programs as `GrammarModel`, and calls of them: drawn under another seed, so they fit."""

    def __init__(self, config: GenerateConfig, around: str = "{calls}") -> None:
        super().__init__(config)
        self.around = around
        self.drawer = Drawer()
        self.asked: list[str] = []
        self.calls: set[str] = set()

    def __call__(self, prompt: str, seed: int) -> Any:
        wish = ASKED.search(prompt)
        if wish is None:
            return super().__call__(prompt, seed)
        self.asked.append(prompt)
        entry, args, count = wish[1], wish[2], int(wish[3])
        drawn = self.drawer.draw(args, seed="another", count=count + 1)[1:]
        self.calls |= {one.args for one in drawn}
        calls = "\n".join(f"{entry}({one.args})" for one in drawn)
        return self.around.format(calls=calls, entry=entry)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, StubServer, Inventive]]:
    """16 rows with inputs by the model. Do not write to the folder."""
    folder = tmp_path_factory.mktemp("inputs") / "rows"
    model = Inventive(RUN, "Here you are:\n```python\n{calls}\n```\nEnjoy {entry}(x).")
    with serving(StubServer(model)) as server:
        made(folder, server, RUN)
        yield folder, server, model
    model.drawer.close()


Run = tuple[Path, StubServer, Inventive]


def test_inputs_of_the_model_become_rows(run: Run) -> None:
    folder, _, model = run
    rows = list(read_rows(folder))
    kinds = Counter(row.input_kind for row in rows)
    assert len(rows) == 16
    assert kinds["model"] >= 4
    assert {row.args for row in rows if row.input_kind == "model"} <= model.calls
    assert recheck(tuple(rows)).broken == ()
    manifest = read_manifest(folder)
    assert manifest.config["inputs"] == ["model", INPUTS_VERSION]
    assert "--inputs model" in str(manifest.run["command"])


def test_the_funnel_and_the_figures_count_them(run: Run) -> None:
    folder, server, model = run
    manifest = read_manifest(folder)
    funnel, figures = manifest.funnel, manifest.figures["inputs"]
    for stage in funnel.stages:
        assert stage.entered == stage.kept + sum(count for _, count in stage.dropped)
    assert isinstance(figures, dict)
    assert funnel["suggestions"].kept == funnel["suggestions"].entered == figures["programs"]
    assert funnel["arguments"].kept == figures["from_model"] > 0
    drawn = figures["from_hypothesis"] + figures["from_model"] + figures["programs"]
    assert drawn == funnel["inputs"].entered
    # A program is looked at again where its level has fewer rows left; that costs no request.
    assert len(set(model.asked)) == len(model.asked) <= figures["programs"]
    assert len(set(server.given)) == len(server.given)


def test_workers_do_not_show_and_a_stored_run_is_replayed_offline(run: Run, tmp_path: Path) -> None:
    folder, server, model = run
    again = tmp_path / "again"
    with serving(StubServer(model, delay=0.01)) as other:
        made(again, other, RUN, jobs=1, concurrency=1)
    assert files(again) == files(folder)
    replayed = tmp_path / "replayed"
    replayed.mkdir()
    (replayed / STORE).write_bytes((folder / STORE).read_bytes())
    away = replace(server, base_url="http://127.0.0.1:9/v1")
    made(replayed, away, RUN, offline=True)
    assert files(replayed) == files(folder)


def test_faults_change_no_row_and_nothing_is_paid_for_twice(run: Run, tmp_path: Path) -> None:
    folder, _, model = run
    faulty = StubServer(model, schedule=Schedule(0.5, seed=4), hang_seconds=0.1)
    with serving(faulty) as server:
        made(tmp_path / "rows", server, RUN, patience={"timeout": 0.6})
        asked = server.requests
        again = tmp_path / "again"
        again.mkdir()
        (again / STORE).write_bytes((tmp_path / "rows" / STORE).read_bytes())
        made(again, server, RUN)
    assert files(again) == files(folder)
    assert faulty.schedule is not None
    assert sum(faulty.schedule.met.values()) >= 5
    assert server.requests == asked
    assert files(tmp_path / "rows") == files(folder)


# ------------------------------------------------------------------------------------- one program

PROGRAM = "def f(text):\n    size = len(str(text.strip()))\n    return [size, text.strip()]\nprint(f(' a '))"
PLAIN = Constraint(catalogue().get("str.strip"), 1, structure(1, 3))


@pytest.fixture(scope="module")
def sandbox() -> Iterator[SandboxPool]:
    with SandboxPool(size=1) as pool:
        yield pool


@pytest.fixture(scope="module")
def drawer() -> Iterator[Drawer]:
    with Drawer() as drawer:
        yield drawer


Work = Callable[..., Attempt]


@pytest.fixture
def work(sandbox: SandboxPool, drawer: Drawer) -> Work:
    """Makes `PROGRAM` with inputs by a model that says `answer` (a function of the number wanted)."""

    def run(answer: Callable[[int], Any], inputs: str = "model", **settings: Any) -> Attempt:
        def model(prompt: str, seed: int) -> Any:
            wish = ASKED.search(prompt)
            return f"```python\n{PROGRAM}\n```" if wish is None else answer(int(wish[3]))

        config = replace(RUN, tasks=("output",), inputs=inputs)
        with serving(StubServer(model, **settings)) as server, CompletionStore(":memory:") as store:
            patience = Patience(timeout=2.0, attempts=2, first_wait=0.0)
            made = OpenAIProvider(Server("stub", server.base_url), store, patience=patience)
            try:
                return Pipeline(config, made, sandbox, drawer).work(PLAIN, 0)
            finally:
                made.close()

    return run


def test_hypothesis_fills_up_what_the_model_leaves_open(work: Work) -> None:
    few = work(lambda count: "f('  x y')\nf('z')")
    assert few.made is not None
    assert (few.tally.answers, few.tally.suggested, few.tally.wanting) == (1, 2, 1)
    assert few.tally.cases == CASES_DRAWN
    many = work(lambda count: "\n".join(f"f('{' ' * n}{n}')" for n in range(40)))
    assert (many.tally.answers, many.tally.suggested, many.tally.wanting) == (1, 40, 0)
    assert many.tally.dropped["arguments"] == {"surplus": 40 - CASES_DRAWN + 1}
    assert many.tally.cases == CASES_DRAWN
    assert many.made is not None
    assert {case.kind for case in many.made.cases} <= {"seed", "model"}


def test_both_share_the_inputs(work: Work) -> None:
    wanted: list[int] = []

    def answer(count: int) -> str:
        wanted.append(count)
        return "\n".join(f"f('{' ' * n}{n}')" for n in range(count))

    attempt = work(answer, "both")
    assert wanted == [(CASES_DRAWN - 1) // 2]
    assert (attempt.tally.suggested, attempt.tally.wanting) == (wanted[0], 0)
    assert attempt.tally.cases == CASES_DRAWN
    assert "arguments" not in attempt.tally.dropped


@pytest.mark.parametrize(
    ("answer", "stage", "reason"),
    [
        (Answer("f('x'", "length"), "suggestions", "truncated"),
        (Answer(None, "length"), "suggestions", "truncated"),
        (Answer("", "content_filter"), "suggestions", "filtered"),
        (Answer("", error=(400, "blocked by content_filter")), "suggestions", "filtered"),
        (Answer("", error=(400, "exceeds the available context size")), "suggestions", "too_long"),
        (Answer("", error=(400, "no")), "suggestions", "refused"),
        (Answer("x", prompt_tokens=3), "suggestions", "prompt_cut"),
        (Answer(None), "suggestions", "no_content"),
        (Answer("No."), "suggestions", "no_calls"),
        (Answer("f('x')\n" * 9_000), "suggestions", "long_answer"),
        (Answer("f(__import__('os').system('touch was-here'))"), "arguments", "not_literal"),
        (Answer("f()"), "arguments", "wrong_arity"),
        (Answer("f(' a ')"), "arguments", "duplicate"),
        (Answer("f(b' a ')\nf(3)"), "arguments", "other_types"),
        (Answer(f"f('{'a' * 900}')"), "arguments", "long_arguments"),
    ],
)
def test_what_is_no_good_is_counted_and_hypothesis_does_it(
    work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    answer: Answer, stage: str, reason: str,
) -> None:  # fmt: skip
    """The program has the inputs of a run in which no model was asked for any."""
    monkeypatch.chdir(tmp_path)
    attempt, plain = work(lambda count: answer), work(lambda count: answer, "hypothesis")
    assert attempt.made == plain.made
    assert attempt.made is not None
    entered = attempt.tally.suggested if stage == "arguments" else attempt.tally.answers
    assert attempt.tally.dropped[stage] == {reason: entered}
    assert attempt.tally.wanting == 1
    assert (plain.tally.answers, plain.tally.suggested, plain.tally.wanting) == (0, 0, 0)
    others = {k: v for k, v in attempt.tally.dropped.items() if k != stage}
    assert others == plain.tally.dropped
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_fails_ends_the_run(work: Work) -> None:
    """It is no answer of the model, so the program must not get other inputs for it."""
    with pytest.raises(ProviderError, match="--resume"):
        work(lambda count: Answer("", error=(500, "out of memory")))


# ------------------------------------------------------------------------------------- the option


def test_without_the_option_nothing_says_that_there_is_one() -> None:
    plain = replace(CONFIG, inputs="hypothesis")
    assert "inputs" not in plain.resolved()
    text = json.dumps(GenerateConfig().resolved(), sort_keys=True)
    # A golden value: the digest of a run that asks no model for inputs is what it was before.
    assert hashlib.sha256(text.encode()).hexdigest() == GOLDEN


GOLDEN = "f07f260a19aebd92684f5caab0e1c44d8c0f68d5081c1f02807ef9b33867abb0"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"inputs": "modle"}, r"--inputs is 'modle'.*did you mean 'model'"),
        ({"inputs": "model"}, r"add --provider openai"),
        ({"inputs": "both"}, r"add --provider openai"),
    ],
)
def test_the_setting_is_checked(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        GenerateConfig(**settings)


def test_the_prompt_shows_the_program_and_how_many() -> None:
    ((_, _), (role, text)) = inputs_prompt("def f(x):\n    return x\n", "f", "1", 7)
    assert role == "user"
    for words in ("```python\ndef f(x):\n    return x\n```", "`f(1)`", "Write 7 more calls"):
        assert words in text


def test_the_command_takes_it_and_says_what_came_of_it(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, model = run
    monkeypatch.chdir(tmp_path)
    words = [*WORDS, "--inputs", "model", "--levels", "1,3", "--repair", "0", "--jobs", "2"]
    words[words.index("24")] = "16"
    with serving(StubServer(model)) as server:
        words += ["--base-url", server.base_url]
        monkeypatch.setattr("sys.argv", ["synth", "generate", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    out, err = capsys.readouterr()
    assert ended.value.code == 0, err
    assert files(tmp_path / "curriculum") == files(folder)
    figures: Any = read_manifest(folder).figures["inputs"]
    assert f"{figures['from_model']:,} inputs were written by the model" in out
