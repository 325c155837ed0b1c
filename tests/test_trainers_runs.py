"""Whole runs on a model made in the test: warm-up, stage I and stage II in turn, killed and resumed.

On the CPU and for a few steps: what is shown is that the stages fit together, that a resumed run is the
undisturbed one, and what is left behind for people to read. That training teaches is shown by the
demonstration, not here. The slow test kills a process as the operating system does.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import ROOT
from trained import apps_file, needs, rows_file

from synth.errors import ConfigError, FolderError
from trainers.config import load
from trainers.rollouts import read_rollouts
from trainers.watch import read_log

needs("torch")
needs("trl")

SPREAD = 'reward.extra=[{path = "trained.spread", weight = 1.0}]'
"""A reward that tells completions of a model apart that can do nothing, so that there is a gradient."""


def config(stage: str, out: Path, data: Path, *settings: str) -> Any:
    return load(stage, ["cpu-tiny"], [f"data.path={data}", f"output={out}", *settings])


def losses(log: Sequence[dict[str, Any]]) -> list[tuple[int, float, float]]:
    return [(e["step"], e["loss"], e["grad_norm"]) for e in log if "loss" in e]


class Killed(Exception):
    """Stands for a signal that cannot be caught."""


def killer(step: int) -> Any:
    """A callback that ends the run as abruptly as one process can end itself, after a checkpoint."""
    from transformers import TrainerCallback

    class Killer(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step == step:
                raise Killed

    return Killer()


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The warm-up on narrated rows: (folder, outcome)."""
    from trainers import sft

    folder = tmp_path_factory.mktemp("runs")
    outcome = sft.train(config("sft", folder / "sft", rows_file(folder, brief=True)))
    return folder, outcome


@pytest.fixture(scope="module")
def first(warm: Any) -> Any:
    """Stage I from the warm-up's model."""
    from trainers import grpo

    folder, _ = warm
    settings = [f"model.path={folder / 'sft'}", SPREAD]
    return grpo.train(config("whitebox", folder / "one", folder / "rows.jsonl", *settings))


def test_the_warm_up_learns_what_it_is_shown(warm: Any) -> None:
    _, outcome = warm
    values = [loss for _, loss, _ in losses(outcome.log)]
    assert len(values) == outcome.steps == 4
    assert values[-1] < values[0]


def test_stage_one_starts_from_the_warm_up_and_moves_on(warm: Any, first: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder, _ = warm
    found = losses(first.log)
    assert [step for step, *_ in found] == [1, 2, 3, 4]
    assert all(norm > 0 for _, _, norm in found)
    before, after, random = (
        AutoModelForCausalLM.from_pretrained(path).model.embed_tokens.weight
        for path in (folder / "sft", folder / "one", folder / "sft" / "checkpoint-2")
    )
    moved, apart = torch.dist(before, after), torch.dist(before, random)
    assert 0 < moved < apart  # four steps at a tenth of the rate


def test_stage_two_starts_from_stage_one(warm: Any, first: Any) -> None:
    from trainers import grpo

    folder, _ = warm
    settings = [f"model.path={folder / 'one'}", "trl.max_steps=2", SPREAD]
    outcome = grpo.train(config("codegen", folder / "two", apps_file(folder), *settings))
    assert outcome.steps == 2
    assert [entry["unittest/tests"] for entry in outcome.log if "loss" in entry] == [0.0, 0.0]
    assert outcome.reports["train"]["layout"] == "apps"
    assert {row["task"] for row in read_rollouts(folder / "two")} == {"unittest"}


def test_a_run_that_was_killed_and_resumed_is_the_undisturbed_one(warm: Any, first: Any) -> None:
    from trainers import grpo

    folder, _ = warm
    settings = [f"model.path={folder / 'sft'}", SPREAD]
    again = config("whitebox", folder / "killed", folder / "rows.jsonl", *settings)
    with pytest.raises(Killed):
        grpo.train(again, callbacks=[killer(3)])
    assert losses(read_log(folder / "killed")) == losses(first.log)[:3]
    with pytest.raises(FolderError, match="give --resume"):
        grpo.train(again)
    other = config(
        "whitebox", folder / "killed", folder / "rows.jsonl", *settings, "reward.alpha=0.1"
    )
    with pytest.raises(ConfigError, match=r"other settings \(reward\.alpha\)"):
        grpo.train(other, resume=True)
    outcome = grpo.train(again, resume=True)
    assert losses(outcome.log) == losses(first.log)
    assert losses(read_log(folder / "killed")) == losses(first.log)
    # Weights and rollouts too, not only the curve.
    one, two = ((folder / name / "model.safetensors").read_bytes() for name in ("one", "killed"))
    assert one == two
    told = [
        [(row["step"], row["id"], row["completion"]) for row in read_rollouts(folder / name)]
        for name in ("one", "killed")
    ]
    assert len(told[0]) == 32
    assert told[0] == told[1]


def test_a_warm_up_that_was_killed_and_resumed(warm: Any) -> None:
    from trainers import sft

    folder, outcome = warm
    again = config("sft", folder / "sft2", folder / "rows.jsonl")
    with pytest.raises(Killed):
        sft.train(again, callbacks=[killer(2)])
    assert losses(sft.train(again, resume=True).log) == losses(outcome.log)


def test_what_a_run_leaves_behind(warm: Any, first: Any) -> None:
    folder, _ = warm
    record = json.loads((folder / "one" / "run.json").read_text())
    assert record["finished"]
    assert record["steps"] == 4
    assert record["data"]["train"]["kept"] == 12
    assert record["versions"]["trl"] != "not installed"
    again = load("whitebox", [folder / "one" / "config.toml"])
    from trainers.config import digest

    assert digest(again) == record["digest"]
    card = (folder / "one" / "README.md").read_text()
    assert card.count("## Made with execverify") == 1
    assert "12 of" in card
    assert record["digest"] in card
    assert "| reward |" in card
    rollouts = read_rollouts(folder / "one")
    assert len(rollouts) == 4 * 8
    assert {"step", "id", "level", "prompt", "completion", "whitebox", "spread"} <= set(rollouts[0])
    for entry in read_log(folder / "one")[:4]:
        # No `w`: no row here asks questions.
        assert {"whitebox/io", "rewards/spread/mean", "unscored"} <= set(entry)
        assert "whitebox/w" not in entry
        assert entry["reward_seconds"] < entry["step_time"]


def test_the_level_moves_while_training_and_is_kept(warm: Any, tmp_path: Path) -> None:
    from trainers import grpo

    folder, _ = warm
    settings = [
        f"model.path={folder / 'sft'}",
        "curriculum.order=adaptive",
        "curriculum.up=0.001",
        "curriculum.down=0",
        "curriculum.window=1",
        'reward.extra=[{path = "trained.spread", weight = 1.0}]',
    ]
    # With success always 0 the level stays; what is drawn is of the lowest level alone.
    outcome = grpo.train(config("whitebox", tmp_path / "run", folder / "rows.jsonl", *settings))
    assert {row["level"] for row in read_rollouts(tmp_path / "run")} == {1}
    assert [e["curriculum/level"] for e in outcome.log if "loss" in e] == [1.0] * 4
    state = json.loads((tmp_path / "run/checkpoint-4/curriculum.json").read_text())
    assert state["decided"] == [0] * 4


def test_rows_in_order_of_level(warm: Any, tmp_path: Path) -> None:
    from trainers import grpo

    folder, _ = warm
    settings = [f"model.path={folder / 'sft'}", "curriculum.order=level", "trl.max_steps=4"]
    grpo.train(config("whitebox", tmp_path / "run", folder / "rows.jsonl", *settings))
    levels = [row["level"] for row in read_rollouts(tmp_path / "run")]
    assert levels == sorted(levels)
    assert len(set(levels)) > 1


def test_a_checkpoint_between_two_steps_of_one_batch_is_refused(tmp_path: Path) -> None:
    from trainers import grpo

    settings = ["trl.steps_per_generation=2", "trl.save_steps=3"]
    with pytest.raises(ConfigError, match="expected a multiple of 2"):
        grpo.train(config("whitebox", tmp_path / "run", rows_file(tmp_path, brief=True), *settings))
    with pytest.raises(ConfigError, match="takes the column `spec` away"):
        grpo.train(
            config(
                "whitebox",
                tmp_path / "run",
                rows_file(tmp_path, brief=True),
                "trl.remove_unused_columns=true",
            )
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_over_batches_that_serve_two_steps_resumes_too(warm: Any, tmp_path: Path) -> None:
    from trainers import grpo

    folder, _ = warm
    settings = [f"model.path={folder / 'sft'}", SPREAD, "trl.steps_per_generation=2"]
    whole = grpo.train(config("whitebox", tmp_path / "a", folder / "rows.jsonl", *settings))
    killed = config("whitebox", tmp_path / "b", folder / "rows.jsonl", *settings)
    with pytest.raises(Killed):
        grpo.train(killed, callbacks=[killer(3)])
    assert losses(grpo.train(killed, resume=True).log) == losses(whole.log)


def test_the_reward_is_measured_on_another_split_while_training(warm: Any, tmp_path: Path) -> None:
    from trained import lines, output_row

    from trainers import grpo

    folder, _ = warm
    brief = {"prompt": (("user", "Answer."),)}
    rows = [output_row(n, split="train" if n < 8 else "validation", **brief) for n in range(12)]
    data = lines(tmp_path / "rows.jsonl", [row.to_dict() for row in rows])
    settings = [f"model.path={folder / 'sft'}", "data.eval_split=validation", "trl.max_steps=2"]
    settings += [
        "trl.eval_strategy=steps",
        "trl.eval_steps=1",
        "trl.num_generations_eval=1",
        SPREAD,
    ]
    outcome = grpo.train(config("whitebox", tmp_path / "run", data, *settings))
    measured = [entry for entry in outcome.log if "eval_rewards/spread/mean" in entry]
    assert len(measured) == 2
    assert outcome.reports["eval"]["kept"] == 4
    assert {row["id"] for row in read_rollouts(tmp_path / "run")} <= {row.id for row in rows[:8]}


def test_adapters_are_trained_and_merged_for_the_next_stage(warm: Any, tmp_path: Path) -> None:
    needs("peft")
    from trainers import grpo, sft
    from trainers.models import load_model, load_tokenizer
    from trainers.records import ModelConfig

    folder, _ = warm
    base = [f"model.path={folder / 'sft'}", "model.lora_r=2", "trl.max_steps=2"]
    sft.train(config("sft", tmp_path / "sft", folder / "rows.jsonl", *base))
    assert (tmp_path / "sft/adapter_model.safetensors").is_file()
    again = [f"model.path={tmp_path / 'sft'}", *base[1:], SPREAD]
    with pytest.raises(ConfigError, match=r"holds adapters.*merged"):
        grpo.train(config("whitebox", tmp_path / "one", folder / "rows.jsonl", *again))
    merged = ModelConfig(path=str(tmp_path / "sft/merged"))
    before = load_model(ModelConfig(path=str(folder / "sft")), None)
    after = load_model(merged, load_tokenizer(merged))
    names = [n for (n, one), (_, other) in zip(before.named_parameters(), after.named_parameters(), strict=True)
             if not one.equal(other)]  # fmt: skip
    assert names
    assert all("proj" in name for name in names)
    settings = [f"model.path={merged.path}", *again[1:]]
    outcome = grpo.train(config("whitebox", tmp_path / "two", folder / "rows.jsonl", *settings))
    assert all(norm > 0 for _, _, norm in losses(outcome.log))


# ------------------------------------------------------------------------- evaluation


def test_figures_of_a_model(warm: Any, tmp_path: Path) -> None:
    from trainers.commands import evaluate

    folder, _ = warm
    out = tmp_path / "completions.jsonl"
    given = [str(folder / "sft"), str(folder / "rows.jsonl"), "--split", "train", "--limit", "6"]
    done = CliRunner().invoke(
        evaluate, [*given, "--max-tokens", "8", "--json", "--out", str(out)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout[done.stdout.index("{") :])
    value, low, high, count = found["figures"]["output/io"]
    assert (value, low, count) == (0.0, 0.0, 6)
    assert 0 < high < 0.5
    assert len(out.read_text().splitlines()) == 6
    again = CliRunner().invoke(evaluate, [*given, "--max-tokens", "8"], catch_exceptions=False)
    assert "output/io" in again.output


# ------------------------------------------------------------------------- a process that is killed


@pytest.mark.slow
def test_a_process_that_is_killed_by_a_signal_and_resumed(warm: Any, first: Any) -> None:
    folder, _ = warm
    out = folder / "signalled"
    line = [sys.executable, "-m", "trainers", "whitebox", "--config", "cpu-tiny"]
    for setting in (
        *(f"data.path={folder / 'rows.jsonl'}", f"model.path={folder / 'sft'}"),
        *(SPREAD, "trl.max_steps=12"),
    ):
        line += ["--set", setting]
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}

    def start(where: Path, *more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*line, "--out", str(where), *more], env=env, cwd=folder)

    assert start(folder / "whole").wait(timeout=300) == 0
    process = start(out)
    deadline = time.monotonic() + 240
    while not list(out.glob("checkpoint-4/trainer_state.json")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert start(out).wait(timeout=120) == 2  # not without --resume
    assert start(out, "--resume").wait(timeout=300) == 0
    assert losses(read_log(out)) == losses(read_log(folder / "whole"))
    assert (out / "model.safetensors").read_bytes() == (
        folder / "whole/model.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_two_processes_share_one_run(warm: Any, tmp_path: Path) -> None:
    folder, _ = warm
    out = tmp_path / "two"
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    line += ["-m", "trainers", "whitebox", "--config", "cpu-tiny", "--out", str(out)]
    for setting in (
        *(f"data.path={folder / 'rows.jsonl'}", f"model.path={folder / 'sft'}", SPREAD),
        *("launch.gpus=2", "trl.per_device_train_batch_size=4", "curriculum.order=adaptive"),
    ):
        line += ["--set", setting]
    env = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    subprocess.run(line, env=env, cwd=folder, timeout=400, check=True)
    assert [step for step, *_ in losses(read_log(out))] == [1, 2, 3, 4]
    names = {path.name[-12:-10] for path in (out / "rollouts").iterdir()}
    assert names == {"r0", "r1"}
    assert len(read_rollouts(out)) == 4 * 8
