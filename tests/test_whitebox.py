"""The reward callables: how trainers call them, what they return where there is no score, and cost."""

from __future__ import annotations

import asyncio
import inspect
import json
import multiprocessing
import pickle
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from conftest import Environment
from hacks import ROWS, cases

from rewards import whitebox
from rewards.grades import Grade, Graded, Policy
from rewards.row import Spec, SpecError
from rewards.whitebox import METRIC_KEYS, Reward, Unscored, metrics, reward, reward_async, score

SUM, COUNT, PAIR = (json.dumps(ROWS[name]) for name in ("sum", "count", "pair"))
TESTS = json.dumps(
    {
        "schema": 1,
        "task": "unittest",
        "instruction": "double",
        "entry": "f",
        "tests": {"fn_name": "f", "inputs": ["1", "2"], "outputs": ["2", "4"]},
    }
)
RIGHT = "<answer>assert f(2) == 3</answer>"
HALF = "<answer>\nassert count('cab') == '1'\nfor ch in s:\n0; int\n</answer>"
DOUBLE = "<answer>\n```python\ndef f(x):\n    return 2 * x\n```\n</answer>"
BATCH = [RIGHT, "<answer>4</answer>", HALF, "<answer>f(6, 2)</answer>", DOUBLE]
SPECS = [SUM, SUM, COUNT, PAIR, TESTS]
TRL = {"prompts": ["?"] * 5, "completion_ids": [[1]] * 5, "trainer_state": object(), "id": [1] * 5}


def test_called_as_trl_calls_it() -> None:
    completions = [[{"role": "assistant", "content": text}] for text in BATCH]
    assert reward(completions=completions, spec=SPECS, **TRL) == [2.0, 0.0, 1.5, 2.0, 1.0]
    assert reward(BATCH, SPECS) == reward(BATCH, spec=[json.loads(spec) for spec in SPECS])
    assert reward(BATCH[:2], SUM) == [2.0, 0.0]
    assert reward([], []) == []


def test_components_are_ungated_and_none_where_nothing_is_asked() -> None:
    assert whitebox.io(BATCH, SPECS) == [1.0, 0.0, 1.0, 1.0, None]
    assert whitebox.w(BATCH, SPECS) == [1.0, 0.0, 0.5, 1.0, None]
    assert Reward("tests")(BATCH, SPECS) == [None, None, None, None, 1.0]
    assert whitebox.format(["<answer>3</answer>", "3"], SUM) == [1.0, 0.0]


def test_the_async_form_gives_the_same() -> None:
    assert inspect.iscoroutinefunction(reward_async)
    assert asyncio.run(reward_async(completions=BATCH, spec=SPECS, **TRL)) == reward(BATCH, SPECS)

    async def many() -> list[list[float | None]]:
        return await asyncio.gather(*[reward_async(BATCH[:3], SPECS[:3]) for _ in range(20)])

    assert asyncio.run(many()) == [[2.0, 0.0, 1.5]] * 20


@pytest.mark.parametrize(
    ("scale", "paid"), [(None, [2.0, 1.5]), (1.0, [1.0, 0.75]), (2.0, [2.0, 1.5])]
)
def test_scale(scale: float | None, paid: list[float]) -> None:
    assert Reward(scale=scale)([RIGHT, HALF], [SUM, COUNT]) == paid


def test_policy() -> None:
    text = ["<answer>assert f(2) == 3.0</answer>"]
    assert reward(text, SUM) == [0.0]
    assert Reward(policy=Policy(equality="python"))(text, SUM) == [2.0]


# ------------------------------------------------------------------------------------ no score


class Broken:
    """A sandbox that loses every job."""

    def run_groups(self, groups: Any, *, workers: int | None = None) -> Any:
        from rewards.sandbox import ExecutionResult

        return [[ExecutionResult("infrastructure", detail="gone") for _ in jobs] for jobs in groups]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from rewards.sandbox import pool

    monkeypatch.setattr(pool, "default_pool", Broken)


@pytest.mark.usefixtures("lost")
def test_a_row_that_infrastructure_lost_has_no_part_at_all() -> None:
    texts, specs = ["<answer>f(6, 2)</answer>", RIGHT], [PAIR, SUM]
    for one in (reward, whitebox.io, whitebox.w, whitebox.format):
        assert one(texts, specs)[0] is None
        assert one(texts, specs)[1] is not None
    assert Reward(abstain="zero")(texts, specs) == [0.0, 2.0]
    with pytest.raises(Unscored, match="completion 0 has no total score: infrastructure: gone"):
        Reward(abstain="raise")(texts, specs)
    found = score(texts[0], PAIR)
    assert (found["score"], found["unscored"]) == (0.0, 1.0)


def test_a_row_without_a_readable_spec_abstains_and_a_batch_of_them_raises() -> None:
    assert reward([RIGHT] * 4, [SUM, None, "", "{"]) == [2.0, None, None, None]
    with pytest.raises(Unscored, match=r"spec: '{' .* is not JSON"):
        Reward(abstain="raise")([RIGHT] * 2, [SUM, "{"])
    with pytest.raises(SpecError, match="is not JSON"):
        reward([RIGHT], ["{"])
    with pytest.raises(SpecError, match="expected a JSON text"):
        score(RIGHT, 3)
    assert reward([RIGHT], [None]) == [None]


def test_a_missing_column_is_explained() -> None:
    with pytest.raises(ValueError, match=r"column 'spec' is missing.*remove_unused_columns"):
        reward(completions=[RIGHT], prompts=["?"])
    with pytest.raises(ValueError, match="2 rows for 1 completions"):
        reward([RIGHT], [SUM, SUM])


@pytest.mark.parametrize(
    "options", [{"part": "x"}, {"abstain": "no"}, {"scale": 0.0}, {"scale": float("nan")}]
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="|".join(options)):
        Reward(**options)


def test_a_cut_completion_is_told_from_one_without_answer() -> None:
    statuses: list[list[str]] = []

    def log_extra(column: str, values: list[Any]) -> None:
        if column.endswith("status"):
            statuses.append(values)

    for columns in ({"finish_reason": ["length", "stop"]}, {"is_truncated": [True, False]}, {}):
        reward(["so", "so"], SUM, log_extra=log_extra, **columns)
    assert statuses == [["truncated", "no_answer"]] * 2 + [["no_answer", "no_answer"]]


# ------------------------------------------------------------------------------------ logging


def test_parts_are_logged_one_value_a_completion() -> None:
    columns: dict[str, list[Any]] = {}
    means: dict[str, float] = {}
    reward(
        [*BATCH, RIGHT],
        [*SPECS, None],
        log_extra=lambda name, values: columns.__setitem__(name, values),
        log_metric=lambda name, value: means.__setitem__(name, value),
    )
    assert sorted(means) == sorted(f"whitebox/{key}" for key in METRIC_KEYS)
    assert means["whitebox/score"] == pytest.approx((2.0 + 0.0 + 1.5 + 2.0 + 1.0) / 5)
    assert means["whitebox/unscored"] == pytest.approx(1 / 6)
    assert set(columns) == {f"whitebox_{key}" for key in ("status", "io", "w", "tests", "format")}
    for values in columns.values():
        assert len(values) == 6
        kinds = {type(value) for value in values if value is not None}
        assert kinds in ({str}, {float}), values  # else Arrow refuses the column and the run dies


def test_a_mean_counts_the_rows_that_ask_for_the_part() -> None:
    columns: dict[str, list[Any]] = {}
    means: dict[str, float] = {}
    logs: Any = {"log_extra": columns.__setitem__, "log_metric": means.__setitem__}
    reward([RIGHT, BATCH[1], HALF], [SUM, SUM, COUNT], **logs)
    assert columns["whitebox_w"] == [None, None, 0.5]
    assert means["whitebox/w"] == 0.5
    assert means["whitebox/io"] == pytest.approx(2 / 3)
    assert means["whitebox/w_total"] == pytest.approx(2 / 3)
    assert "whitebox/tests" not in means
    means.clear()
    assert reward([RIGHT, BATCH[1]], [SUM, SUM], **logs) == [2.0, 0.0]  # the maximum is what it was
    assert means["whitebox/score"] == 1.0
    assert "whitebox/w" not in means
    assert whitebox.w(BATCH[:2], SUM) == [1.0, 0.0]  # as the shapes count it


def test_specs_are_read_once() -> None:
    assert whitebox.read_spec(SUM) is whitebox.read_spec(SUM)
    assert whitebox.read_spec(json.loads(SUM)) == Spec.from_json(SUM)
    with pytest.raises(SpecError, match="got int"):
        whitebox.read_spec(3)


def test_metrics_have_all_keys_and_finite_numbers() -> None:
    for text, spec in zip(BATCH, SPECS, strict=True):
        found = score(text, spec)
        assert tuple(found) == METRIC_KEYS
        assert all(type(value) is float and value == value for value in found.values())
    lost = Graded("input", Grade(None, "infrastructure"))
    assert metrics(Spec("input"), lost)["unscored"] == 1.0
    assert score(RIGHT, Spec.from_json(SUM))["score"] == 2.0
    assert score(HALF, json.loads(COUNT))["w_right"] == 1.0


# ------------------------------------------------------------------------------------ portability


def everyone() -> list[Any]:
    return [reward, whitebox.io, whitebox.w, whitebox.format, reward_async]


def test_names_are_unique_and_all_can_be_pickled() -> None:
    names = [one.__name__ for one in everyone()]
    assert len(set(names)) == len(names)
    for one in everyone():
        again = pickle.loads(pickle.dumps(one))
        assert again.__name__ == one.__name__
    mine = Reward("w", scale=1.0, policy=Policy(equality="python"), abstain="zero", name="mine")
    assert vars(pickle.loads(pickle.dumps(mine))) == vars(mine)


def _in_child(call: Any) -> Any:
    return call(BATCH[:3], SPECS[:3])


def test_works_in_a_spawned_process() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(_in_child, [reward]) == [[2.0, 0.0, 1.5]]


def test_64_threads_score_as_one_does() -> None:
    every = [
        (spec, text)
        for _, spec, text, _ in cases()
        if spec["task"] != "input" and len(str(text)) < 2000
    ]
    texts, specs = [text for _, text in every], [spec for spec, _ in every]
    expected = reward(texts, specs)
    with ThreadPoolExecutor(64) as threads:
        found = list(threads.map(lambda _: reward(texts, specs), range(64)))
    assert found == [expected] * 64


IMPORT = "import sys, time; t = time.process_time(); import {0}; print(time.process_time() - t)"


def test_importing_costs_little(environment: Environment) -> None:
    """Under 50 ms over an empty interpreter, and no process machinery."""

    def seconds(module: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", IMPORT.format(module)],
            capture_output=True,
            text=True,
            env=environment,
            check=True,
        )
        return float(done.stdout)

    seconds("rewards.whitebox")  # writes the compiled files
    found = statistics.median(seconds("rewards.whitebox") for _ in range(5))
    assert found < 0.05
    check = "import sys, rewards.whitebox; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", check], capture_output=True, text=True, env=environment, check=True
    )
    assert not {"subprocess", "multiprocessing", "asyncio", "ctypes"} & set(loaded.stdout.split())
