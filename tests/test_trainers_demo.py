"""`synth train demo`: its programs and answers, its grading by our grader, its report, and a very small run.

That the three rewards teach is shown by the slow test, which does what a user does.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from trained import needs

from rewards.grading import grade, grade_all
from rewards.row import Spec
from rewards.shapes import total
from rewards.whitebox import Reward
from synth.seeds import rng
from trainers.commands import train
from trainers.demo import ARMS, WARM, Plan, Point
from trainers.demo_form import answer_of, listing, paid_by, spec_of, translated
from trainers.demo_programs import INPUTS, Run, bent, draw, runs_of
from trainers.demo_report import gaps_by_step, spread, summary, table
from trainers.demo_rows import held_out, to_reward, to_warm_up
from trainers.paying import paid
from trainers.records import RewardConfig


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    programs = [draw(rng("test", str(number))) for number in range(60)]
    return [run for found in runs_of(programs) for run in found]


def execute(run: Run) -> object:
    names: dict[str, Any] = {}
    exec(run.code, names)  # what the tracer said, against Python itself
    return names["f"](int(run.args))


def test_true_answers_are_right_and_their_output_is_pythons(runs: list[Run]) -> None:
    assert len(runs) > 100
    assert {line.kind for run in runs for line in run.lines} == {
        "set", "if", "else", "for", "return",
    }  # fmt: skip
    for run in runs:
        spec = spec_of(run)
        assert grade(spec, translated(answer_of(run), spec)).status == "right"
        assert repr(execute(run)) == run.output


def test_every_line_of_an_answer_counts(runs: list[Run]) -> None:
    """Left out, said once more, or with another value: each costs something, and the output stays right."""
    for run in runs[::7]:
        spec, lines = spec_of(run), answer_of(run).split("\n")[1:]
        for number, line in enumerate(lines[:-1]):
            rest = [*lines[:number], *lines[number + 1 :]]
            swapped = {"T": "F", "F": "T"}.get(line[-1]) or ("4" if line[-1].isdigit() else "z")
            wrong = "9" if swapped == line[-1] else swapped
            for changed in (rest, [*lines[:number], line[:-1] + wrong, *lines[number + 1 :]]):
                graded = grade(spec, translated("\n" + "\n".join(changed), spec))
                assert graded.io is not None
                assert graded.io.score == 1.0
                assert graded.w is not None
                assert graded.w < 1.0


def test_steps_that_never_happened_are_wrong(runs: list[Run]) -> None:
    seen = 0
    for run in runs:
        spec = spec_of(run)
        for number, line in enumerate(run.lines, 2):
            if line.inner in ("if", "else") and run.trace.visits(number) == 0:
                seen += 1
                graded = grade(spec, translated(f"\n{number}:b12" + answer_of(run), spec))
                assert graded.w is not None
                assert graded.w < 1.0
    assert seen


@pytest.mark.parametrize("text", ["", "\n", "=", "\n2:", "\n=8\n=9", "2:b5\n</answer>", "9" * 99])
def test_any_text_has_a_grade(runs: list[Run], text: str) -> None:
    spec = spec_of(runs[0])
    assert grade(spec, translated(text, spec)).status == "wrong"


def test_bent_programs_keep_their_lines_and_differ_in_what_they_do() -> None:
    programs = [draw(rng("test", str(number))) for number in range(60)]
    source = rng("test", "bent")
    other = [bent(program, source) for program in programs]
    for program, changed in zip(programs, other, strict=True):
        assert [(a.kind, a.variable, a.operand) for a in program.lines] == [
            (a.kind, a.variable, a.operand) for a in changed.lines
        ]
    assert sum(a != b for a, b in zip(programs, other, strict=True)) > 15


def test_runs_do_not_depend_on_the_number_of_workers() -> None:
    programs = [draw(rng("test", str(number))) for number in range(6)]
    one, two = (
        [[(run.args, answer_of(run)) for run in found] for found in runs_of(programs, workers=n)]
        for n in (1, 3)
    )
    assert one == two
    assert {args for found in one for args, _ in found} <= set(INPUTS)


def test_the_arms_pay_the_same_answers_by_shape_alone(runs: list[Run]) -> None:
    run = next(run for run in runs if len(answer_of(run).split("\n")) > 4)
    spec, right = spec_of(run), answer_of(run)
    sloppy = "\n".join(right.split("\n")[:-2]) + "\n" + right.split("\n")[-1]
    lucky = "\n=" + right.rpartition("=")[2]
    texts = [right, sloppy, lucky, ""]
    earned = {}
    for arm, shape in ARMS.items():
        text = paid(spec.to_json(), RewardConfig(shape=shape))
        earned[arm] = paid_by(Reward())(texts, [text] * len(texts))
        graded = grade_all([(spec, translated(each, spec)) for each in texts])
        assert earned[arm] == [total(Spec.from_json(text).shape, one) for one in graded]
    assert earned["output only"] == [1.0, 1.0, 1.0, 0.0]
    for arm in ("gated", "additive"):
        full, most, least, nothing = (value or 0.0 for value in earned[arm])
        assert full > most > least > nothing


def test_rows_are_kept_and_none_is_shared_with_the_held_out(tmp_path: Path) -> None:
    held = held_out(tmp_path, 10)
    rewarded, warm = to_reward(tmp_path, 0, 24), to_warm_up(tmp_path, 0, 40)
    assert (len(held), len(rewarded), len(warm)) == (10, 24, 40)
    known = {Spec.from_json(row["spec"]).code for row in held}
    assert not known & {Spec.from_json(row["spec"]).code for row in rewarded}
    shown = {row["prompt"].partition("\n")[2] for row in held}
    assert not shown & {row["prompt"].partition("\n")[2] for row in warm}
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()}
    assert held_out(tmp_path, 10) == held
    assert to_reward(tmp_path, 0, 24) == rewarded
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "data").iterdir()} == before
    assert to_reward(tmp_path, 1, 24) != rewarded


def test_the_tokenizer_gives_back_every_text(runs: list[Run]) -> None:
    needs("transformers")
    from trainers.demo_model import tokenizer

    words = tokenizer()
    for run in runs:
        text = listing(run.lines, run.args) + answer_of(run)
        ids = words(text)["input_ids"]
        assert words.pad_token_id not in ids
        assert words.decode(ids) == text


def points(**means: float) -> list[Point]:
    """Two seeds of ten programs, where a run's share of right ones is as given."""
    found = []
    for arm, mean in means.items():
        scores = [1.0] * round(10 * mean) + [0.0] * (10 - round(10 * mean))
        name = {"warm": WARM, "only": "output only"}.get(arm, arm)
        found += [
            Point(seed, name, 8, {"output": scores, "steps": scores, "trace": scores})
            for seed in (0, 1)
        ]
    return found


def test_the_report_says_what_was_measured() -> None:
    found = summary(points(warm=0.2, only=0.5, gated=0.5, additive=0.9))
    assert found["runs"]["additive"]["trace"]["seeds"] == [0.9, 0.9]
    gap = found["gaps"]["additive"]["trace"]
    assert gap["mean"] == pytest.approx(0.4)
    assert gap["half"] == pytest.approx(spread([1.0] * 4 + [0.0] * 6)[1])
    assert found["gaps"]["gated"]["trace"] == {"mean": 0.0, "half": 0.0, "seeds": [0.0, 0.0]}


def test_the_report_tells_how_far_apart_the_runs_were_on_the_way() -> None:
    """A lead that is gone at the end is shown for what it is."""
    early = [replace(point, step=4) for point in points(only=0.2, gated=0.6, additive=0.6)]
    late = points(warm=0.1, only=0.6, gated=0.6, additive=0.7)
    warm = [replace(point, step=0) for point in late if point.arm == WARM]
    measured = [*warm, *early, *(point for point in late if point.arm != WARM)]
    gaps = gaps_by_step(measured)
    assert list(gaps) == [4, 8]
    assert gaps[4]["gated"]["trace"]["mean"] == pytest.approx(0.4)
    assert gaps[8] == summary(measured)["gaps"]
    plan = {"seeds": 2, "steps": 8, "warm_steps": 600, "held_out": 10}
    text = table({"points": measured, "plan": plan, "wall_seconds": 1.0, "cpu_seconds": 2.0})
    before, after = "\n".join(text).split(", after 4 of the steps:")
    assert "+40.0" not in before
    assert "+40.0" in after


def test_the_report_does_not_hide_a_loss() -> None:
    plan = {"seeds": 2, "steps": 80, "warm_steps": 600, "held_out": 10}
    result = {
        "points": points(warm=0.2, only=0.9, gated=0.3, additive=0.9), "plan": plan,
        "wall_seconds": 60.0, "cpu_seconds": 120.0,
    }  # fmt: skip
    text = "\n".join(table(result))
    assert "deliberately sloppy" in text
    assert (
        "gated against output only, trace: ahead in 0 of 2 seeds; the interval excludes 0" in text
    )
    assert "-60.0" in text


def test_a_very_small_run_leaves_figures_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("trl")
    small = Plan(seeds=1, steps=2, warm_steps=3, warm_rows=96, held_out=6, points=1, workers=1)
    monkeypatch.setattr(Plan, "quick", classmethod(lambda cls, seeds: small))
    given = ["demo", "--quick", "--workers", "1", "--steps", "2", "--out", str(tmp_path), "--json"]
    done = CliRunner().invoke(train, given, catch_exceptions=False)
    assert done.exit_code == 0
    record = json.loads((tmp_path / "figures.json").read_text())
    assert set(record["runs"]) == {WARM, *ARMS}
    assert [(point["arm"], point["step"]) for point in record["points"]] == [
        (WARM, 0), *((arm, 2) for arm in ARMS),
    ]  # fmt: skip
    assert all(len(point["scores"]["trace"]) == 6 for point in record["points"])
    assert any((tmp_path / f"plot.{kind}").is_file() for kind in ("png", "txt"))
    for arm in ("output-only", "gated", "additive"):
        assert len(json.loads((tmp_path / "seed-0" / arm / "log.json").read_text())) == 2


@pytest.mark.slow
def test_white_box_rewards_teach_steps_that_the_output_reward_does_not(tmp_path: Path) -> None:
    needs("trl")
    given = ["demo", "--out", str(tmp_path)]
    assert CliRunner().invoke(train, given, catch_exceptions=False).exit_code == 0
    record = json.loads((tmp_path / "figures.json").read_text())
    for arm in ("gated", "additive"):
        assert record["gaps"][arm]["trace"]["mean"] > 0
        assert record["gaps"][arm]["steps"]["mean"] > 0
        assert record["runs"][arm]["trace"]["mean"] > record["runs"][WARM]["trace"]["mean"]
