"""What a run pays, and what stands between TRL and a reward: flags, shapes, checks, rollouts, warnings, levels.

The reports of the component `trainer wrapper` have their tests here, by id. Does not train
(`test_trainers_runs.py`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import Request, urlopen

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trained import QUESTIONS, output_row, whitebox_row

from rewards.grading import grade
from rewards.row import SHAPES, Spec
from rewards.whitebox import Reward
from synth.errors import ConfigError
from trainers.curriculum import Ladder, LadderSampler, ordered
from trainers.grpo import panel_of
from trainers.layouts import Example
from trainers.panel import Each, Paid, Panel, RewardError, import_reward
from trainers.paying import paid, scale_of
from trainers.records import (
    FAMILIES,
    CurriculumConfig,
    Extra,
    RewardConfig,
    TrainConfig,
    WatchConfig,
)
from trainers.rollouts import RolloutKeeper, read_rollouts
from trainers.watch import Watch

# ------------------------------------------------------------------------- flags and shapes


def completion(output: str, *answers: str) -> str:
    lines = "\n".join([f"assert scale([1, -2, 3], 2) == {output}", *answers])
    return f"<reasoning>\nI go through it.\n</reasoning>\n<answer>\n{lines}\n</answer>"


NEXT, VALUES = ("for item in items:",) * 2, ("3; int", "[2]; list")
BATCH = {
    "all right": completion("[2, 6]", *NEXT, *VALUES),
    "flow right": completion("[2, 6]", *NEXT, "4; int", "[]; list"),
    "data right": completion("[2, 6]", "return total", "return total", *VALUES),
    "half of each": completion("[2, 6]", NEXT[0], "return total", VALUES[0], "[]; list"),
    "output alone": completion("[2, 6]", "-1", "-1", "Nil", "Nil"),
    "steps alone": completion("[3]", *NEXT, *VALUES),
    "malformed": completion("[2, 6]", *NEXT),
    "nothing": "I do not know.",
}
"""Completions for the row of `whitebox_row`, which asks for two statements and two values."""
IO = {name: float("[2, 6]" in text) for name, text in BATCH.items()}
FLOW = dict.fromkeys(BATCH, 0.0) | {
    **dict.fromkeys(("all right", "flow right", "steps alone"), 1.0),
    "half of each": 0.5,
}
DATA = dict.fromkeys(BATCH, 0.0) | {
    **dict.fromkeys(("all right", "data right", "steps alone"), 1.0),
    "half of each": 0.5,
}


def paid_for(reward: RewardConfig) -> dict[str, float | None]:
    """What each completion of the batch earns."""
    spec = paid(whitebox_row().spec, reward)
    pay = Reward(scale=scale_of(reward))
    found = pay(completions=list(BATCH.values()), spec=[spec] * len(BATCH))
    return dict(zip(BATCH, found, strict=True))


def test_the_batch_is_what_its_names_say() -> None:
    spec = whitebox_row().spec
    for name, text in BATCH.items():
        graded = grade(Spec.from_json(spec), text)
        assert (graded.io.score if graded.io else None) == IO[name], name
        for family, share in (("control_flow", FLOW), ("data_flow", DATA)):
            off = {"control_flow": 0.0, "data_flow": 0.0, family: 1.0}
            assert graded.share(off) == share[name], name


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("families", FAMILIES)
@pytest.mark.parametrize("alpha", [0.25, 0.5])
def test_flags_and_shapes_pay_exactly_the_parts_they_name(
    shape: str, families: str, alpha: float
) -> None:
    found = paid_for(RewardConfig(shape=shape, families=families, alpha=alpha))
    for name in BATCH:
        io = IO[name]
        w = {
            "both": (FLOW[name] + DATA[name]) / 2,
            "control_flow": FLOW[name],
            "data_flow": DATA[name],
            "none": io,
        }[families]
        penalized = max(0.0, 2 * w - 1) if families != "none" else w
        expected = {
            "gated": io and 2 * ((1 - alpha) * io + alpha * w),
            "additive": (1 - alpha) * io + alpha * w,
            "outcome": io,
            "process": w,
            "penalized": (1 - alpha) * io + alpha * penalized,
        }[shape]
        assert found[name] == pytest.approx(expected), name


def test_a_family_that_is_off_changes_nothing_when_its_answers_change() -> None:
    for families, here, there in (
        ("control_flow", "flow right", "all right"),
        ("data_flow", "data right", "all right"),
        ("none", "output alone", "all right"),
    ):
        found = paid_for(RewardConfig(families=families))
        assert found[here] == found[there] == 2.0


def test_a_row_without_questions_of_the_family_earns_by_its_output() -> None:
    spec = whitebox_row(questions=QUESTIONS[2:]).spec
    only_flow = paid(spec, RewardConfig(families="control_flow"))
    text = completion("[2, 6]", "Nil", "Nil")
    assert Reward(scale=2.0)(completions=[text], spec=[only_flow]) == [2.0]
    assert Reward(scale=2.0)(completions=[text], spec=[spec]) == [1.0]


def test_the_format_term_and_the_shape_of_the_row() -> None:
    found = paid_for(RewardConfig(shape="outcome", format=0.1))
    assert found["nothing"] == 0.0
    assert found["steps alone"] == pytest.approx(0.1)
    assert found["output alone"] == pytest.approx(1.0)
    own = whitebox_row().spec
    assert paid(own, RewardConfig(shape="row")) == own
    assert scale_of(RewardConfig(shape="row")) is None


def test_specs_stay_specs_and_only_their_shape_changes() -> None:
    for row in (output_row(0), whitebox_row(1)):
        before, after = (Spec.from_json(s) for s in (row.spec, paid(row.spec, RewardConfig())))
        assert before.questions == after.questions
        assert (before.code, before.args, before.output) == (after.code, after.args, after.output)
    tests = json.dumps(
        {"schema": 1, "task": "unittest", "tests": {"inputs": ["1"], "outputs": ["2"]}}
    )
    assert paid(tests, RewardConfig(families="none")) == tests


def test_the_rewards_of_a_stage(tmp_path: Path) -> None:
    extra = (Extra("trained.spread", 0.25, name="style"), Extra("trained:waiting", 0.0))
    config = TrainConfig("whitebox", reward=RewardConfig(weight=2.0, extra=extra))
    panel = panel_of(config)
    assert [one.name for one in panel.rewards] == ["whitebox", "style", "waiting"]
    assert panel.weights == [2.0, 0.25, 0.0]
    completions = [[{"role": "assistant", "content": text}] for text in BATCH.values()]
    specs = [paid(whitebox_row().spec, config.reward)] * len(BATCH)
    given = {"completions": completions, "prompts": ["p"] * len(BATCH), "spec": specs}
    own, style, waiting = [function(**given) for function in panel.functions]
    assert own == list(paid_for(config.reward).values())
    assert waiting == [0.5] * len(BATCH)
    assert len(set(style)) > 1
    codegen = panel_of(TrainConfig("codegen", reward=RewardConfig(tests="all")))
    assert [one.name for one in codegen.rewards] == ["unittest"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("trained.spraed", "did you mean 'spread'"),
        ("trained.NOT_A_REWARD", "no function"),
        ("no_such_module.reward", "cannot import"),
    ],
)
def test_a_reward_that_cannot_be_imported(path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        import_reward(Extra(path))


def test_two_rewards_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two rewards are called 'whitebox'"):
        panel_of(
            TrainConfig("whitebox", reward=RewardConfig(extra=(Extra("rewards.whitebox.reward"),)))
        )


# ------------------------------------------------------------------------- the panel


def panel(*functions: Any, **options: Any) -> Panel:
    return Panel([Paid(f"r{n}", one) for n, one in enumerate(functions)], **options)


def constant(*values: float | None) -> Any:
    return lambda completions, **_: list(values)


def test_each_function_is_asked_once_a_batch_whichever_is_called_first() -> None:
    calls: list[int] = []

    def counted(completions: Sequence[str], **_: Any) -> list[float]:
        calls.append(len(completions))
        return [1.0] * len(completions)

    found = panel(counted, constant(0.0, 1.0))
    for _ in range(2):
        batch = ["a", "b"]
        assert found.functions[1](completions=batch, prompts=["p", "p"]) == [0.0, 1.0]
        assert found.functions[0](completions=batch, prompts=["p", "p"]) == [1.0, 1.0]
    assert calls == [2, 2]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([1.0], "returned 1 values for 2 completions"),
        ([1.0, 2.0, 3.0], "returned 3 values for 2"),
        (1.0, "returned a float; expected a list"),
        ([{"score": 1}, 0], "returned a dict; expected a number"),
        ([float("inf"), 0.0], "expected a finite number"),
        (["high", 0.0], "returned a str"),
    ],
)
def test_an_answer_that_is_no_list_of_numbers_ends_the_run(answer: Any, message: str) -> None:
    with pytest.raises(RewardError, match=f"'r0' {message}|{message}"):
        panel(lambda completions, **_: answer).judge(["a", "b"], ["p", "p"])


def test_numbers_of_other_libraries_and_nan() -> None:
    import numpy as np

    answer = np.array([1.0, float("nan"), 0.0], dtype=np.float32)
    assert panel(lambda **_: answer).judge(["a", "b", "c"], ["p", "q", "q"]) == [[1.0, None, 0.0]]


@given(st.data())
def test_within_a_group_all_functions_judge_or_none_does(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    prompts = [f"p{number}" for number, size in enumerate(sizes) for _ in range(size)]
    row = st.lists(st.none() | st.floats(0, 1), min_size=len(prompts), max_size=len(prompts))
    answers = data.draw(st.lists(row, min_size=1, max_size=3))
    given = [constant(*one) for one in answers]
    found = panel(*given, max_unscored=1.0).judge(["c"] * len(prompts), prompts)
    start = 0
    for size in sizes:
        group = range(start, start + size)
        start += size
        lost = {
            place
            for one in answers
            if any(one[p] is not None for p in group)
            for place in group
            if one[place] is None
        }
        for own, one in zip(answers, found, strict=True):
            for place in group:
                assert one[place] == (None if place in lost else own[place])


def test_what_rewards_log_reaches_trl_and_the_rollouts(tmp_path: Path) -> None:
    extras: dict[str, list[Any]] = {}
    metrics: dict[str, float] = {}
    keep = RolloutKeeper(tmp_path, rank=0)
    judged = Panel([Paid("whitebox", Reward(scale=2.0))], keep=keep)
    specs = [whitebox_row().spec] * 2
    texts = [BATCH["all right"], BATCH["flow right"]]
    completions = [[{"role": "assistant", "content": text}] for text in texts]
    prompts = [[{"role": "user", "content": "?"}]] * 2
    found = judged.judge(
        completions,
        prompts,
        spec=specs,
        id=["a", "b"],
        trainer_state=SimpleNamespace(global_step=7),
        log_extra=extras.__setitem__,
        log_metric=metrics.__setitem__,
    )
    assert found == [[2.0, 1.5]]
    assert extras["whitebox_w"] == [1.0, 0.5]
    assert metrics["whitebox/w"] == 0.75
    assert metrics["unscored"] == 0.0
    assert metrics["reward_seconds"] > 0
    kept = read_rollouts(tmp_path)
    assert [row["completion"] for row in kept] == texts
    assert [(row["step"], row["id"], row["whitebox"]) for row in kept] == [
        (7, "a", 2.0),
        (7, "b", 1.5),
    ]
    assert kept[1]["whitebox_w"] == 0.5
    assert "spec" not in kept[0]
    assert "[2, 6]" not in json.dumps({k: v for k, v in kept[0].items() if k != "completion"})


def test_rollouts_of_mixed_kinds_and_every_nth(tmp_path: Path) -> None:
    keep = RolloutKeeper(tmp_path, every=2, rank=3)
    for step in range(5):
        batch = {
            "completion": ["a", None],
            "prompt": ["p", "p"],
            "odd": [1, "x"],
            "level": [None, 2],
        }
        keep(batch, SimpleNamespace(global_step=step))
    names = [path.name for path in sorted((tmp_path / "rollouts").iterdir())]
    assert names == [f"step-{step:06d}-r3-0.parquet" for step in (0, 2, 4)]
    assert [row["odd"] for row in read_rollouts(tmp_path)[:2]] == ["1", "x"]
    RolloutKeeper(tmp_path / "none", every=0)({"completion": ["a"]}, None)
    assert not (tmp_path / "none").exists()


def test_batches_of_one_step_and_of_an_evaluation_do_not_replace_each_other(tmp_path: Path) -> None:
    keep = RolloutKeeper(tmp_path, rank=0)
    for step, part in ((1, "train"), (1, "train"), (2, "eval"), (2, "eval"), (2, "train")):
        batch = {"completion": ["a"], "prompt": ["p"], "part": [part]}
        keep(batch, SimpleNamespace(global_step=step))
    names = [path.name[:-8] for path in sorted((tmp_path / "rollouts").iterdir())]
    assert names == [
        *("eval-000002-r0-0", "eval-000002-r0-1", "step-000001-r0-0", "step-000001-r0-1"),
        "step-000002-r0-0",
    ]
    assert len(read_rollouts(tmp_path)) == 3


# ------------------------------------------------------------------------- reports


def test_TW_01_a_list_of_another_length_is_an_error_and_never_spread() -> None:
    def reward(completions: Sequence[str], **_: Any) -> list[float]:
        return [1.0]

    with pytest.raises(RewardError, match="'r0' returned 1 values for 4 completions"):
        panel(reward).judge(["a"] * 4, ["p"] * 4)
    # And ours give one for each, also where a spec is for all of them.
    assert len(Reward()(completions=["a"] * 4, spec=whitebox_row().spec)) == 4


def test_TW_04_what_nobody_can_judge_stays_unscored_and_much_of_it_ends_the_run() -> None:
    def down(completions: Sequence[str], **_: Any) -> list[None]:
        return [None] * len(completions)

    with pytest.raises(RewardError, match="100% of 4 completions have no score"):
        panel(down).judge(["a"] * 4, ["p"] * 4)
    some = panel(constant(1.0, None, 0.0, 1.0), max_unscored=0.25)
    assert some.judge(["a"] * 4, ["p"] * 4) == [[1.0, None, 0.0, 1.0]]
    with pytest.raises(RewardError, match="nothing was trained on them"):
        panel(constant(1.0, None, None, 1.0), max_unscored=0.25).judge(["a"] * 4, ["p"] * 4)


class Scorer(BaseHTTPRequestHandler):
    """Answers with the length of what is posted; 503 to what says so, as often as it asks."""

    failures: dict[str, int]
    asked: list[str]

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        type(self).asked.append(text)
        left = self.failures.get(text, 0)
        self.failures[text] = left - 1
        self.send_response(503 if left > 0 else 200)
        self.end_headers()
        if left <= 0:
            self.wfile.write(b"1.0" if "good" in text else b"0.0")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def scorer() -> Iterator[Any]:
    handler = type("Handler", (Scorer,), {"failures": {}, "asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield SimpleNamespace(handler=handler, url=f"http://127.0.0.1:{server.server_port}/")
    server.shutdown()
    server.server_close()
    thread.join()


def test_TW_09_a_scorer_that_fails_is_asked_again_and_its_failure_is_no_zero(scorer: Any) -> None:
    def remote(completion: str, spec: object, **_: Any) -> float:
        with urlopen(Request(scorer.url, completion.encode()), timeout=10) as answer:
            return float(answer.read())

    scorer.handler.failures = {"lost good": 9, "late good": 1}
    texts = ["good", "lost good", "bad", "late good"]
    judged = panel(Each(remote, retries=2, wait=0.001))
    assert judged.judge(texts, ["p"] * 4, spec=["{}"] * 4) == [[1.0, None, 0.0, 1.0]]
    assert scorer.handler.asked.count("lost good") == 3
    assert scorer.handler.asked.count("late good") == 2
    scorer.handler.failures = dict.fromkeys(texts, 9)
    with pytest.raises(RewardError, match="503"):
        judged.judge(texts, ["p"] * 4, spec=["{}"] * 4)


def test_TW_10_columns_are_read_by_completion_and_one_value_is_for_all() -> None:
    seen: list[Any] = []

    def reward(completions: Sequence[str], language: Sequence[str], **_: Any) -> list[float]:
        seen.append(language)
        return [float(one == "python") for one in language]

    both = ["c1", "c2"]
    assert panel(reward).judge(both, ["p", "q"], language=["python", "python"]) == [[1.0, 1.0]]
    assert panel(reward).judge(both, ["p", "q"], language="python") == [[1.0, 1.0]]
    assert panel(reward).judge(both, ["p", "q"], language=["python", "c"]) == [[1.0, 0.0]]
    assert seen[0] == seen[1] == ["python", "python"]
    with pytest.raises(RewardError, match="'language' has 3 entries for 2 completions"):
        panel(reward).judge(both, ["p", "q"], language=["python"] * 3)

    def one(completion: str, spec: object, language: str, **_: Any) -> float:
        return float(language == "python")

    judged = panel(Each(one))
    assert judged.judge(both, ["p", "q"], spec=["", ""], language=["python", "c"]) == [[1.0, 0.0]]


def test_scorers_of_one_completion_are_asked_at_the_same_time() -> None:
    def slow(completion: str, spec: object, **_: Any) -> float:
        time.sleep(0.05)
        return 1.0

    started = time.perf_counter()
    assert Each(slow, workers=8)(["a"] * 16, ["{}"] * 16) == [1.0] * 16
    assert time.perf_counter() - started < 0.6


# ------------------------------------------------------------------------- warnings


def entry(zero: float, unscored: float = 0.0) -> dict[str, float]:
    return {"frac_reward_zero_std": zero, "unscored": unscored}


def test_warnings_come_early_once_and_again_after_things_were_in_order() -> None:
    watch = Watch(WatchConfig(window=3))
    told = [watch.look(entry(1.0)) for _ in range(5)]
    assert [len(one) for one in told] == [0, 0, 1, 0, 0]
    assert "100% of the groups" in told[2][0]
    assert "synth difficulty" in told[2][0]
    assert [watch.look(entry(0.0)) for _ in range(3)] == [[], [], []]
    assert sum(len(watch.look(entry(1.0))) for _ in range(4)) == 1


def test_the_limits_are_those_of_the_settings() -> None:
    watch = Watch(WatchConfig(window=1))
    assert watch.look(entry(0.8, 0.2)) == []
    (only,) = watch.look(entry(0.5, 0.21))
    assert "21% of the completions" in only
    (only,) = watch.look(entry(0.81, 0.0))
    assert "reward throughout" in only
    assert watch.look({"loss": 1.0, "frac_reward_zero_std": float("nan")}) == []


# ------------------------------------------------------------------------- curriculum


def example(number: int, level: int, rate: float | None = None) -> Example:
    return Example(f"e{number}", (), "output", level=level, pass_rate=rate)


@given(
    st.lists(st.tuples(st.integers(1, 4), st.none() | st.floats(0, 1)), max_size=30),
    st.integers(0, 3),
)
def test_rows_are_ordered_by_level_then_pass_rate(
    drawn: list[tuple[int, float | None]], seed: int
) -> None:
    examples = [example(number, *one) for number, one in enumerate(drawn)]
    found = ordered(examples, seed)
    assert sorted(found, key=lambda one: one.id) == sorted(examples, key=lambda one: one.id)
    keys = [(one.level, -1.0 if one.pass_rate is None else one.pass_rate) for one in found]
    for (level, rate), (next_level, next_rate) in pairwise(keys):
        assert level < next_level or (level == next_level and rate >= next_rate)
    assert found == ordered(examples, seed)


def test_the_level_follows_success() -> None:
    ladder = Ladder(CurriculumConfig("adaptive", window=2), (1, 2, 3))
    assert [ladder.judge(x) for x in (0.9, 0.9)] == [0, 1]
    assert [ladder.judge(x) for x in (0.5, 0.5, 0.5)] == [1, 1, 1]
    assert ladder.judge(1.0) == 2  # 0.75 over the last two
    assert [ladder.judge(x) for x in (1.0, 1.0, 1.0)] == [2, 2, 2]
    assert [ladder.judge(x) for x in (0.0, 0.0, 0.0, 0.0, 0.0)][-1] < 2


def sampler(ladder: Ladder, levels: Sequence[int]) -> LadderSampler:
    return LadderSampler(ladder, levels, prompts=4, repeats=2, again=3, seed=5)


def test_a_ladder_draws_whole_groups_and_mostly_of_its_level(tmp_path: Path) -> None:
    levels = [1 + number % 3 for number in range(24)]
    ladder = Ladder(CurriculumConfig("adaptive", window=1, share=0.5), (1, 2, 3))
    plain = list(sampler(ladder, levels))
    assert len(plain) == len(sampler(ladder, levels)) == 6 * 4 * 2 * 3
    for start in range(0, len(plain), 8):
        assert plain[start : start + 8 : 2] == plain[start + 1 : start + 8 : 2]
    assert plain[:8] == plain[8:16] == plain[16:24]
    assert {levels[number] for number in plain} == {1}
    for _ in range(6):
        ladder.judge(1.0)
    drawn = sampler(ladder, levels)
    assert [sum(levels[n] == 3 for n in drawn.draw(batch)) for batch in range(6)] == [
        0,
        0,
        0,
        2,
        2,
        2,
    ]


def test_a_ladder_that_is_restored_draws_what_it_would_have_drawn(tmp_path: Path) -> None:
    levels = [1 + number % 3 for number in range(40)]

    def run(resume_at: int | None) -> list[int]:
        ladder = Ladder(CurriculumConfig("adaptive", window=2), (1, 2, 3))
        drawing = iter(sampler(ladder, levels))
        found: list[int] = []
        ahead = [next(drawing) for _ in range(24)]  # loaders fetch one batch ahead
        for batch in range(8):
            found += ahead
            ahead = [next(drawing) for _ in range(24)]
            ladder.judge(0.9 if batch < 5 else 0.1)
            if batch == resume_at:
                ladder.save(tmp_path)
                ladder = Ladder(CurriculumConfig("adaptive", window=2), (1, 2, 3))
                ladder.restore(tmp_path)
                drawing = iter(sampler(ladder, levels))
                for _ in range(24 * (batch + 1)):
                    next(drawing)
                ahead = [next(drawing) for _ in range(24)]
        return found

    whole = run(None)
    assert len({levels[number] for number in whole}) > 1
    assert all(run(batch) == whole for batch in range(7))
