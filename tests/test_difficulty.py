"""Labels: exactly those that the model's skill implies, whatever the server does on the way."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fault_server import Answer, StubServer, serving, unit
from handmade import make_row
from hypothesis import given
from hypothesis import strategies as st
from skilled import QUICK, Skilled, expected, measured, numbered_row

from rewards.row import Row
from synth.clients import Patience, Server
from synth.completions import CompletionStore, Sampling
from synth.dataset import read_manifest, read_rows, write_dataset
from synth.difficulty import Bar, DifficultyConfig, Label, filter_folder, filter_rows
from synth.difficulty.filtering import LABELS, STORE, Access, none_kept
from synth.difficulty.judging import RewardJudge
from synth.difficulty.stopping import KEPT, TOO_EASY
from synth.difficulty.tables import BINS, compute
from synth.errors import ConfigError, FolderError, ProviderError, SynthError
from synth.manifest import Manifest

CONFIG = DifficultyConfig(model="stub")

# ------------------------------------------------------------------------------ the stopping rule


def run_bar(bar: Bar, outcomes: Sequence[bool]) -> tuple[str, int]:
    """(verdict, completions drawn) of a bar on completions drawn in its chunks."""
    drawn: list[bool] = []
    while (verdict := bar.verdict(sum(drawn), len(drawn) - sum(drawn))) is None:
        chunk = bar.chunk(sum(drawn), len(drawn) - sum(drawn))
        assert chunk >= 1
        drawn += outcomes[len(drawn) : len(drawn) + chunk]
    return verdict, len(drawn)


def one_by_one(bar: Bar, outcomes: Sequence[bool]) -> int:
    """Completions after which the decision is certain for the first time, by trying both extremes."""
    for drawn in range(bar.n + 1):
        passes, left = sum(outcomes[:drawn]), bar.n - drawn
        if passes > bar.allowed or passes + left <= bar.allowed:
            return drawn
    raise AssertionError


@pytest.mark.parametrize("n", range(1, 12))
def test_stopping_early_decides_as_all_completions_would(n: int) -> None:
    """Every outcome sequence, for every number of passes that may be allowed."""
    for allowed in range(n + 1):
        bar = Bar(n, allowed / n)
        full = Bar(n, allowed / n, early=False)
        assert bar.allowed == allowed
        for outcomes in itertools.product((False, True), repeat=n):
            certain = KEPT if sum(outcomes) <= allowed else TOO_EASY
            verdict, drawn = run_bar(bar, outcomes)
            assert verdict == certain
            assert drawn == one_by_one(bar, outcomes), "a completion was asked for in vain"
            assert run_bar(full, outcomes) == (certain, n)


def test_the_rule_of_the_paper() -> None:
    bar = Bar()
    assert (bar.n, bar.allowed) == (10, 3)
    assert bar.verdict(4, 0) == TOO_EASY
    assert bar.verdict(3, 6) is None
    assert bar.verdict(0, 7) == bar.verdict(3, 7) == KEPT


@given(st.integers(1, 1000), st.integers(0, 1000))
def test_the_share_is_exact(n: int, k: int) -> None:
    assert Bar(n, min(k, n) / n).allowed == min(k, n)


def test_the_share_of_completions_saved() -> None:
    """Over evenly spread pass rates about a third is spared; for rows of one kind, known numbers."""
    bar = Bar()
    drawn = {
        rate: sum(
            run_bar(bar, [unit(rate, row, n) < rate for n in range(10)])[1] for row in range(300)
        )
        / 300
        for rate in (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
    }
    assert drawn[0.0] == 7
    assert drawn[1.0] == 4
    assert all(4 <= mean <= 10 for mean in drawn.values())
    assert 1 - sum(drawn.values()) / 70 > 0.25


@pytest.mark.parametrize("settings", [{"n": 0}, {"n": 1001}, {"most": -0.1}, {"most": 1.1}])
def test_a_bar_is_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        Bar(**settings)


def test_equal_completions_are_not_asked_for() -> None:
    with pytest.raises(ConfigError, match="--temperature is 0"):
        DifficultyConfig(sampling=Sampling(temperature=0))
    DifficultyConfig(sampling=Sampling(temperature=0), bar=Bar(1))


# -------------------------------------------------------------------------------- known skill


def test_exactly_the_rows_that_the_skill_implies_are_kept() -> None:
    rows = [numbered_row(number) for number in range(160)]
    skilled = Skilled(rows, cut=0.1)
    with serving(StubServer(skilled)) as server:
        labels, _ = measured(rows, server, CONFIG)
        drawn = len(server.given)
    found = [(label.verdict, label.passes, len(label.rollouts)) for label in labels]
    assert found == [expected(row, skilled, CONFIG) for row in rows]
    verdicts = Counter(label.verdict for label in labels)
    assert verdicts[KEPT] >= 50
    assert verdicts[TOO_EASY] >= 50
    assert drawn == sum(len(label.rollouts) for label in labels)
    statuses = Counter(rollout.status for label in labels for rollout in label.rollouts)
    assert set(statuses) == {"right", "wrong", "truncated"}
    for label in labels:
        assert all(rollout.passed == (rollout.status == "right") for rollout in label.rollouts)


@pytest.mark.parametrize("settings", [{"ignores_n": True}, {"refuses": ("seed",)}])
def test_what_a_server_ignores_or_refuses_changes_no_decision(settings: dict[str, Any]) -> None:
    rows = [numbered_row(number) for number in range(30)]
    skilled = Skilled(rows)
    skilled.skill = lambda row: float(unit(row.id) < 0.5)  # type: ignore[method-assign]
    with serving(StubServer(skilled, **settings)) as server:
        labels, client = measured(rows, server, CONFIG)
    assert [label.verdict for label in labels] == [
        TOO_EASY if skilled.skill(row) else KEPT for row in rows
    ]
    assert client.warnings


def test_the_solver_must_pass_once() -> None:
    rows = [numbered_row(number) for number in range(40)]
    weak, strong = Skilled(rows), Skilled(rows)
    weak.skill = lambda row: 0.0  # type: ignore[method-assign]
    strong.skill = lambda row: 0.4  # type: ignore[method-assign]
    config = replace(CONFIG, solver_model="strong", solver_n=3)
    with serving(StubServer(weak)) as small, serving(StubServer(strong, name="strong")) as large:
        labels, _ = measured(rows, small, config, solver=large)
    verdicts = Counter(label.verdict for label in labels)
    assert set(verdicts) == {"kept", "unsolved"}
    for label in labels:
        solved = [rollout.passed for rollout in label.solver]
        assert solved == [False] * (len(solved) - 1) + [label.verdict == "kept"]
        assert len(solved) == 3 or label.verdict == "kept"
        row = label.on(rows[0], config, "2026-01-02")
        assert row.solver == ("strong" if label.verdict == "kept" else None)
        assert row.pass_rate == 0.0
        assert row.n_rollouts == 7


def test_rows_with_the_same_prompt_share_their_completions() -> None:
    row = numbered_row(0)
    rows = [row, replace(row, id="twin"), numbered_row(1)]
    with serving(StubServer(Skilled(rows))) as server:
        labels, _ = measured(rows, server, CONFIG)
        assert len(set(server.given)) == len(server.given)
    assert [label.row_id for label in labels] == [one.id for one in rows]
    assert labels[0].rollouts == labels[1].rollouts


def test_rows_of_every_task_are_judged_by_their_own_grader() -> None:
    spec = {"schema": 1, "task": "unittest", "instruction": "Double x.", "entry": "double"}
    spec |= {"tests": {"fn_name": "double", "inputs": ["2"], "outputs": ["4"]}, "limits": {}}
    judge = RewardJudge()
    unittest = replace(numbered_row(0), task="unittest", spec=json.dumps(spec))
    good = "```python\ndef double(x):\n    return 2 * x\n```"
    bad = "```python\ndef double(x):\n    return x\n```"
    assert [passed for _, passed in judge(unittest, [good, bad, "?"])] == [True, False, False]
    row = make_row(0, task="input")
    answers = [
        "<answer>\nassert scale([1, 3], 2) == [2, 6]\n</answer>",
        "<answer>\n[1], 2\n</answer>",
    ]
    assert judge(row, [*answers, "none"]) == [
        ("right", True),
        ("wrong", False),
        ("no_answer", False),
    ]


def test_a_whitebox_row_passes_when_its_output_is_right() -> None:
    spec = json.loads(make_row(0).spec) | {"task": "whitebox"}
    spec["questions"] = [{"kind": "visits", "line": 4, "answers": ["3"]}]
    row = replace(make_row(0), task="whitebox", spec=json.dumps(spec))
    texts = [f"<answer>\n[2, 6]\n{visits}\n</answer>" for visits in (3, 5)]
    assert RewardJudge()(row, texts) == [("right", True), ("right", True)]


# -------------------------------------------------------------------------- rows without a verdict


def test_a_row_that_cannot_be_asked_is_set_apart() -> None:
    rows = [numbered_row(number) for number in range(30)]
    skilled = Skilled(rows)

    def model(prompt: str, seed: int) -> Answer:
        number = int(skilled.rows[prompt].id[3:])
        if number == 3:
            return Answer("", error=(400, "maximum context length is 10 tokens"))
        answer = skilled(prompt, seed)
        return replace(answer, prompt_tokens=16) if number == 4 else answer

    with serving(StubServer(model)) as server:
        labels, _ = measured(rows, server, CONFIG)
    assert (labels[3].verdict, labels[4].verdict) == ("too_long", "prompt_cut")
    for label in labels[3:5]:
        row = label.on(rows[0], CONFIG, "2026-01-02")
        assert (row.pass_rate, row.n_rollouts, row.evaluator) == (None, None, None)
    assert all(label.measured for place, label in enumerate(labels) if place not in (3, 4))


def test_answers_without_content_are_counted_apart() -> None:
    rows = [numbered_row(number) for number in range(12)]
    skilled = Skilled(rows)

    def model(prompt: str, seed: int) -> Answer:
        empty = Answer(None, reasoning=skilled(prompt, seed).text)
        return empty if skilled.rows[prompt] is rows[5] else skilled(prompt, seed)

    with serving(StubServer(model)) as server:
        labels, _ = measured(rows, server, CONFIG)
    assert {rollout.status for rollout in labels[5].rollouts} == {"no_content"}
    assert labels[5].pass_rate == 0.0


def test_few_shot_for_models_that_continue_text() -> None:
    rows = [numbered_row(number) for number in range(8)]
    rows.append(replace(numbered_row(9), task="input"))
    config = replace(CONFIG, endpoint="completion", few_shot=True)
    texts = {}

    def model(prompt: str, seed: int) -> str:
        call = prompt.rpartition("assert ")[2]
        texts[prompt] = call
        row = next(row for row in rows if f"{row.entry}({row.args}) ==" == call)
        return f" {row.output}" if int(row.id[3:]) % 2 else " [0]"

    with serving(StubServer(model)) as server:
        labels, _ = measured(rows, server, config)
        assert all(body["stop"] == ["\n"] for body in server.bodies)
    assert [label.verdict for label in labels] == [KEPT, TOO_EASY] * 4 + ["not_asked"]
    assert len(texts) == 8


# ------------------------------------------------------------------------------------- the folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset of 60 rows."""
    target = tmp_path / "rows"
    target.mkdir()
    write_dataset(target, [numbered_row(n) for n in range(60)], Manifest({"depth": 2}, 3))
    return target


def access(server: StubServer, **more: Any) -> Access:
    return Access(Server("stub", server.base_url), patience=QUICK, **more)


def test_a_folder_is_filtered(folder: Path, tmp_path: Path) -> None:
    rows = list(read_rows(folder))
    skilled = Skilled(rows)
    out = tmp_path / "hard"
    calls: list[tuple[int, int]] = []
    with serving(StubServer(skilled)) as server:
        done = filter_folder(
            folder, out, CONFIG, access(server), progress=lambda n, of, t: calls.append((n, of))
        )
        asked = server.requests
    verdicts = {row.id: expected(row, skilled, CONFIG) for row in rows}
    kept = list(read_rows(out))
    assert {row.id for row in kept} == {k for k, v in verdicts.items() if v[0] == KEPT}
    for row in kept:
        _, passes, drawn = verdicts[row.id]
        assert (row.pass_rate, row.n_rollouts) == (passes / drawn, drawn)
        assert row.evaluator == f"stub (temperature 1, top_p 0.9, {done.date})"
        assert replace(row, pass_rate=None, n_rollouts=None, evaluator=None) in rows
    manifest = read_manifest(out)
    assert manifest.config["difficulty"] == CONFIG.resolved()
    stage = manifest.funnel["difficulty"]
    assert (stage.entered, stage.kept) == (60, len(kept))
    assert manifest.figures["difficulty"]["verdicts"] == done.figures.verdicts  # type: ignore[index]
    lines = [json.loads(line) for line in (out / LABELS).read_text().splitlines()]
    assert [line["id"] for line in lines] == [row.id for row in rows]
    assert [(x["verdict"], x["passes"], x["n_rollouts"]) for x in lines] == list(verdicts.values())
    assert calls[-1] == (60, 60)
    assert (folder / STORE).is_file()
    assert asked == done.totals.requests


def test_labels_alone(folder: Path, tmp_path: Path) -> None:
    rows = list(read_rows(folder))
    skilled = Skilled(rows)
    config = replace(CONFIG, label_only=True)
    with serving(StubServer(skilled)) as server:
        done = filter_folder(folder, tmp_path / "all", config, access(server))
    assert [row.id for row in done.rows] == [row.id for row in rows]
    assert [row.pass_rate for row in done.rows] == [label.pass_rate for label in done.labels]
    assert read_manifest(tmp_path / "all").funnel["difficulty"].dropped == ()


def test_a_second_run_writes_the_same_bytes_and_asks_nothing(folder: Path, tmp_path: Path) -> None:
    skilled = Skilled(list(read_rows(folder)))
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    with serving(StubServer(skilled)) as server:
        filter_folder(folder, one, CONFIG, access(server))
        asked = server.requests
        filter_folder(folder, two, CONFIG, access(server))
        assert server.requests == asked
    offline = Access(Server("stub", "http://127.0.0.1:9/v1"), offline=True)
    filter_folder(folder, three, CONFIG, offline)
    for name in sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file()):
        assert (one / name).read_bytes() == (two / name).read_bytes() == (three / name).read_bytes()


def test_offline_without_the_completions_is_told(folder: Path, tmp_path: Path) -> None:
    offline = Access(Server("stub", "http://127.0.0.1:9/v1"), offline=True)
    with pytest.raises(ConfigError, match="--offline"):
        filter_folder(folder, tmp_path / "out", CONFIG, offline)
    assert not (tmp_path / "out").exists()


def test_a_file_of_rows_is_filtered(folder: Path, tmp_path: Path) -> None:
    source = folder / "jsonl" / "train.jsonl"
    with serving(StubServer(Skilled(list(read_rows(source))))) as server:
        done = filter_folder(source, tmp_path / "hard", CONFIG, access(server))
    assert list(read_rows(tmp_path / "hard")) == list(done.rows)
    assert source.with_name("train.jsonl.completions.sqlite").is_file()


def test_other_folders_are_left_alone(folder: Path, tmp_path: Path) -> None:
    nowhere = Access(Server("stub", "http://127.0.0.1:9/v1"), offline=True)
    with pytest.raises(FolderError, match="folder that is read"):
        filter_folder(folder, folder, CONFIG, nowhere, overwrite=True)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("x")
    with pytest.raises(FolderError, match=r"not empty \(it holds 'thesis.tex'\)"):
        filter_folder(folder, mine, CONFIG, nowhere, overwrite=True)
    with serving(StubServer(Skilled(list(read_rows(folder))))) as server:
        filter_folder(folder, tmp_path / "out", CONFIG, access(server))
        with pytest.raises(FolderError, match="--overwrite"):
            filter_folder(folder, tmp_path / "out", CONFIG, access(server))
        filter_folder(folder, tmp_path / "out", CONFIG, access(server), overwrite=True)


def test_nothing_is_written_when_nothing_is_kept(folder: Path, tmp_path: Path) -> None:
    skilled = Skilled(list(read_rows(folder)))
    skilled.skill = lambda row: 1.0  # type: ignore[method-assign]
    with serving(StubServer(skilled)) as server:
        done = filter_folder(folder, tmp_path / "out", CONFIG, access(server))
    assert done.rows == ()
    assert not (tmp_path / "out").exists()
    assert "too_easy (60)" in str(none_kept(done))


@pytest.mark.parametrize("few_shot", [False, True])
def test_a_rate_of_nothing_at_all_is_warned_of(
    folder: Path, tmp_path: Path, few_shot: bool
) -> None:
    config = replace(CONFIG, few_shot=few_shot)
    with serving(StubServer(lambda prompt, seed: f"It returns [{seed}].")) as server:
        done = filter_folder(folder, tmp_path / "out", config, access(server))
    (warning,) = done.warnings
    assert "not one of 420 completions passed" in warning
    # What was given already is no advice.
    assert ("--few-shot" in warning) == (not few_shot)
    if not few_shot:
        assert "100% had no answer" in warning


# ------------------------------------------------------------------------------------ the figures


def test_figures_add_up(folder: Path) -> None:
    rows = list(read_rows(folder))
    with serving(StubServer(Skilled(rows))) as server:
        labels, _ = measured(rows, server, CONFIG)
    figures = compute(rows, labels, 10)
    kept = sum(label.verdict == KEPT for label in labels)
    assert sum(figures.before) == 60
    assert sum(figures.after) == kept
    assert sum(figures.after[5:]) == 0
    for groups in (figures.levels, figures.operations):
        assert sum(group.rows for group in groups) == 60
        assert sum(group.kept for group in groups) == kept
    assert figures.drawn == sum(len(label.rollouts) for label in labels)
    assert 0.2 < figures.saved < 0.6
    text = figures.text()
    assert all(name in text for name in (*BINS, "level", "operation", "too_easy"))
    json.dumps(figures.to_json(), allow_nan=False)


def test_bins_end_where_they_say() -> None:
    def label(passes: int, drawn: int) -> Label:
        from synth.difficulty.labels import Rollout

        made = [Rollout("right", place < passes, "stop", 0, 1) for place in range(drawn)]
        return Label("x", KEPT, tuple(made))

    for passes, drawn, name in [
        (0, 10, "0 %"),
        (1, 10, "1-10 %"),
        (3, 10, "21-30 %"),
        (4, 4, "91-100 %"),
    ]:
        figures = compute([make_row()], [label(passes, drawn)], 10)
        assert figures.before[BINS.index(name)] == 1


def test_a_sandbox_that_fails_is_no_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    import rewards.grading as grading
    from rewards.grades import Grade, Graded

    tries = []

    def fails(pairs: Any, **_: Any) -> list[Graded]:
        tries.append(len(list(pairs)))
        grade = Grade(None, "infrastructure", "the sandbox is gone")
        return [Graded("output", io=grade) for _ in range(tries[-1])]

    monkeypatch.setattr(grading, "grade_all", fails)
    with pytest.raises(SynthError, match="sandbox failed 3 times"):
        RewardJudge()(make_row(), ["a", "b"])
    assert tries == [2, 2, 2]


def test_settings_must_fit_together() -> None:
    rows: list[Row] = []
    with CompletionStore(":memory:") as store, pytest.raises(ConfigError, match="solver"):
        filter_rows(rows, replace(CONFIG, solver_model="x"), Access(Server("stub")), store)
    with pytest.raises(ConfigError, match="--solver-n"):
        DifficultyConfig(solver_n=0)


def test_a_run_of_nothing_but_reasoning_stops() -> None:
    rows = [numbered_row(number) for number in range(40)]
    with (
        serving(StubServer(lambda prompt, seed: Answer(None, reasoning="so"))) as server,
        pytest.raises(ProviderError, match="reasoning parser"),
    ):
        measured(rows, server, CONFIG, patience=Patience(8, 1.0, 2, 1.0, 0.001))
