"""Settings of a training run: where they come from, what is refused, and the presets against the paper's runs.

Does not cover what the settings do in a run (`test_trainers_runs.py`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from trained import needs

from synth.errors import ConfigError, UsageError
from trainers import fidelity
from trainers.commands import train
from trainers.config import digest, load, preset_names, preset_text, resolved, to_toml
from trainers.launch import batch_of, commands, plan, recipe_names, recipe_path
from trainers.memory import estimate, size_of
from trainers.records import STAGES, DataConfig, RewardConfig

RUNS = [
    *[("paper-sft", "sft"), ("paper-stage1", "whitebox"), ("paper-stage2", "codegen")],
    *[(name, stage) for name in ("14b", "one-gpu", "cpu-tiny") for stage in STAGES],
]
"""Every preset that is a run, with every stage it is for."""
CLUSTERS = ["cluster-1x8", "cluster-1x8-zero3", "cluster-2x8", "cluster-2x8-zero3"]


# --------------------------------------------------------------------------------- sources


def test_later_sources_win_key_by_key(tmp_path: Path) -> None:
    first, second = tmp_path / "a.toml", tmp_path / "b.toml"
    first.write_text("seed = 1\n[reward]\nalpha = 0.25\nshape = 'additive'\n[trl]\nbeta = 0.1\n")
    second.write_text("base = 'a.toml'\n[reward]\nalpha = 0.75\n[stage.sft]\nseed = 9\n")
    config = load("whitebox", [second], ["trl.beta=0.2", "output=some where"])
    assert (config.seed, config.output) == (1, "some where")
    assert config.reward == RewardConfig(shape="additive", alpha=0.75)
    assert config.trl == {"beta": 0.2}
    assert load("sft", [second]).seed == 9


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("reward.alfa=1", "did you mean 'alpha'"),
        ("rewards.alpha=1", "did you mean 'reward'"),
        ("reward.alpha=2", "reward.alpha is 2.0; expected a number from 0 to 1"),
        ("reward.alpha=high", "expected a number"),
        ("seed=1.5", "expected a whole number"),
        ("seed=true", "expected a whole number"),
        ("data.balanced=1", "expected true or false"),
        ("data.balanced=true", "data.balanced needs data.limit"),
        ("reward.families=cf", "expected one of both, control_flow, data_flow, none"),
        ("curriculum.down=0.9", "expected 0 or more, below up"),
        ("trl=3", "expected a table"),
        ("trl.seed=3", "is set by 'seed'"),
        ("trl.output_dir=x", "is set by 'output'"),
        ("alpha", "expected key=value"),
        ("reward.extra=[{path = 'nothing'}]", "expected package.module.name"),
    ],
)
def test_a_setting_that_is_refused_says_what_is_expected(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match="(?s)" + message.replace("(", r"\(")):
        load("whitebox", [], [setting])


def test_sources_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'paper-stage1'"):
        load("whitebox", ["paper-stage-1"])
    with pytest.raises(ConfigError, match="for the stage 'sft', the command is 'whitebox'"):
        load("whitebox", ["paper-sft"])
    loop = tmp_path / "loop.toml"
    loop.write_text("base = 'loop.toml'\n")
    with pytest.raises(ConfigError, match="builds on itself"):
        load("sft", [loop])
    loop.write_text("a = = b\n")
    with pytest.raises(ConfigError, match="not TOML"):
        load("sft", [loop])
    with pytest.raises(ConfigError, match="cannot be read"):
        load("sft", [tmp_path / "absent.toml"])
    loop.write_text("[stage.rl]\nseed = 1\n")
    with pytest.raises(ConfigError, match=r"stage\.rl.*expected one of sft"):
        load("sft", [loop])


@given(
    alpha=st.floats(0, 1),
    families=st.sampled_from(["both", "control_flow", "data_flow", "none"]),
    path=st.text(st.characters(exclude_categories=["Cs", "Cc"])),
    tasks=st.lists(st.sampled_from(["output", "input", "whitebox"]), max_size=3, unique=True),
    limit=st.none() | st.integers(1, 10**6),
    trl=st.dictionaries(
        st.sampled_from(["beta", "loss_type", "bf16", "max_steps", "generation_kwargs"]),
        st.booleans() | st.integers(-5, 5) | st.floats(0, 1) | st.just({"min_p": 0.1, "x": "y"}),
    ),
    weight=st.floats(-2, 2),
)
def test_settings_survive_the_file_they_are_written_to(
    tmp_path_factory: pytest.TempPathFactory, **drawn: Any
) -> None:
    extra = [{"path": "a.b", "weight": drawn["weight"], "each": True}]
    table = {
        "reward": {"alpha": drawn["alpha"], "families": drawn["families"], "extra": extra},
        "data": {"path": drawn["path"], "tasks": drawn["tasks"], "limit": drawn["limit"]},
    }
    settings = [
        f"{section}.{key}={json.dumps(value, ensure_ascii=False)}"
        for section, values in table.items()
        for key, value in values.items()
        if value is not None and key != "extra"
    ]
    config = load("whitebox", [], settings)
    from dataclasses import replace

    from trainers.records import Extra

    config = replace(config, trl=drawn["trl"])
    config = replace(config, reward=replace(config.reward, extra=(Extra(**extra[0]),)))
    path = tmp_path_factory.mktemp("toml") / "config.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    again = load("whitebox", [path])
    assert again == config
    assert digest(again) == digest(config)


def test_the_digest_is_of_what_decides_the_run() -> None:
    plain = load("whitebox", ["cpu-tiny"], [])
    same = load("whitebox", ["cpu-tiny"], ["output=elsewhere", "launch.gpu_memory_gb=24"])
    other = load("whitebox", ["cpu-tiny"], ["reward.alpha=0.25"])
    assert digest(plain) == digest(same) != digest(other)
    assert json.loads(json.dumps(resolved(plain))) == resolved(plain)


# --------------------------------------------------------------------------------- presets


@pytest.mark.parametrize("name", sorted(fidelity.TABLES))
def test_a_preset_is_what_its_table_says_and_every_difference_has_a_reason(name: str) -> None:
    assert fidelity.differences(name) == []


def test_the_tables_have_every_setting_of_the_released_scripts() -> None:
    # Options that the scripts give, by the last parts of their names: read off the scripts, not off our table.
    both = [
        *("adv_estimator", "shuffle", "train_batch_size", "max_prompt_length"),
        *("max_response_length", "filter_overlong_prompts", "truncation", "lr"),
        *("use_remove_padding", "ppo_mini_batch_size", "ppo_micro_batch_size_per_gpu"),
        *("use_kl_loss", "kl_loss_coef", "kl_loss_type", "entropy_coeff"),
        *("enable_gradient_checkpointing", "param_offload", "optimizer_offload"),
        *("log_prob_micro_batch_size_per_gpu", "tensor_model_parallel_size", "name"),
        *("gpu_memory_utilization", "n", "use_kl_in_reward", "custom_reward_function.path"),
        *("critic_warmup", "logger", "n_gpus_per_node", "nnodes", "save_freq", "test_freq"),
        *("total_epochs",),
    ]
    for table, more in ((fidelity.STAGE1, []), (fidelity.STAGE2, ["reward_manager"])):
        names = [setting.theirs for setting in table]
        for option in (*both, *more):
            assert any(name == option or name.endswith("." + option) for name in names), option
    sft = [
        *("stage", "finetuning_type", "deepspeed", "template", "cutoff_len", "max_samples"),
        *("overwrite_cache", "preprocessing_num_workers", "dataloader_num_workers"),
        *("logging_steps", "plot_loss", "overwrite_output_dir", "save_only_model"),
        *("report_to", "per_device_train_batch_size", "gradient_accumulation_steps"),
        *("learning_rate", "num_train_epochs", "lr_scheduler_type", "warmup_ratio", "bf16"),
        *("ddp_timeout", "resume_from_checkpoint", "model_name_or_path"),
        *("trust_remote_code",),
    ]
    assert set(sft) <= {setting.theirs for setting in fidelity.SFT}


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        (
            "paper-stage1",
            {
                "beta": 0.0,
                "learning_rate": 1e-6,
                "weight_decay": 0.01,
                "max_grad_norm": 1.0,
                "num_generations": 8,
                "temperature": 1.0,
                "top_p": 1.0,
                "top_k": 0,
                "max_completion_length": 4096,
                "epsilon": 0.2,
                "epsilon_high": None,
                "delta": 3.0,
                "loss_type": "grpo",
                "scale_rewards": "group",
                "generation_batch_size": 1024,
                "num_iterations": 1,
                "num_train_epochs": 4,
                "mask_truncated_completions": False,
                "entropy_coef": 0.0,
                "warmup_steps": 0,
                "vllm_importance_sampling_correction": False,
                "use_vllm": True,
                "vllm_mode": "colocate",
                "vllm_tensor_parallel_size": 4,
                "bf16": True,
                "remove_unused_columns": False,
                "shuffle_dataset": True,
            },
        ),
        (
            "paper-sft",
            {
                "learning_rate": 1e-5,
                "num_train_epochs": 2,
                "max_length": 4096,
                "per_device_train_batch_size": 2,
                "gradient_accumulation_steps": 8,
                "warmup_steps": 0.1,
                "packing": False,
                "completion_only_loss": None,
            },
        ),
    ],
)
def test_trl_takes_the_papers_values(preset: str, expected: dict[str, Any]) -> None:
    needs()
    from trainers.run import arguments

    stage, _ = fidelity.TABLES[preset]
    kind = "SFTConfig" if stage == "sft" else "GRPOConfig"
    made = arguments(kind, load(stage, [preset], ["output=out"]), use_cpu=True)
    assert {name: getattr(made, name) for name in expected} == expected
    schedule = "cosine" if stage == "sft" else "constant"
    assert str(getattr(made.lr_scheduler_type, "value", made.lr_scheduler_type)) == schedule


def test_the_papers_batches() -> None:
    batch = batch_of(load("whitebox", ["paper-stage1"]))
    assert (batch.step, batch.generation, batch.prompts, batch.rounds) == (512, 1024, 128, 2)
    assert batch_of(load("codegen", ["paper-stage2"])) == batch
    assert batch_of(load("whitebox", ["14b"])) == batch
    assert batch_of(load("sft", ["paper-sft"])).step == batch_of(load("sft", ["14b"])).step == 128


# --------------------------------------------------------------------------------- dry runs


@pytest.mark.parametrize(("name", "stage"), RUNS)
def test_a_dry_run_of_every_preset(name: str, stage: str) -> None:
    needs()
    done = CliRunner().invoke(train, [stage, "--config", name, "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "takes the settings" in done.output
    assert "# digest " in done.output
    assert "accelerate launch" in done.output
    assert ("memory per GPU" in done.output) == (name != "cpu-tiny")
    assert "warning" not in done.output


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("serving", ["vllm-colocate", "vllm-server"])
def test_a_dry_run_of_every_cluster(cluster: str, serving: str) -> None:
    needs()
    sources = ["paper-stage1", cluster, serving]
    # Two machines halve what each process does; the batch stays.
    steps = 64 if "1x8" in cluster else 32
    config = load("whitebox", sources, [f"trl.gradient_accumulation_steps={steps}", "model.path=m"])
    told = plan(config, "config.toml")
    assert told[0].startswith("512 completions a step; 1024 a batch of rollouts (128 prompts)")
    starts = [line for line in told if line.startswith("accelerate launch")]
    assert len(starts) == config.launch.machines
    assert any(line.startswith("trl vllm-serve") for line in told) == (serving == "vllm-server")


@pytest.mark.parametrize("name", recipe_names())
def test_accelerate_reads_every_recipe(name: str) -> None:
    reading = needs("accelerate.commands.config.config_args")
    found = reading.load_config_from_file(str(recipe_path(name)))
    assert found.num_processes == (16 if "nodes" in name else 8 if "8" in name else 1)
    assert found.mixed_precision == ("no" if name == "cpu" else "bf16")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["trl.generation_batch_size=1000"], "cut into 125 slices"),
        (["trl.generation_batch_size=1020"], "no multiple of 8"),
        (["trl.num_generations=7"], "no multiple of trl.num_generations"),
        (["trl.gradient_accumulation_steps=48"], "no multiple of trl.gradient_accumulation_steps"),
        (["trl.save_steps=501"], "expected a multiple of 2"),
        (["trl.vllm_tensor_parallel_size=3"], "no divisor of the 8 processes"),
        (["trl.vllm_mode=server"], "launch.serve is 0"),
        (["trl.vllm_max_model_length=4096"], "expected at least"),
        (["launch.recipe=fsdp"], "did you mean"),
        (["launch.recipe=none.yaml"], "no file"),
        (["trl.learning_rates=1"], "is no field of GRPOConfig"),
        (["trl.loss_type=grpo", "trl.num_generations=1"], "TRL .* refuses the settings"),
    ],
)
def test_a_dry_run_refuses_what_cannot_run(settings: list[str], message: str) -> None:
    needs()
    with pytest.raises(UsageError, match=message):
        plan(load("whitebox", ["paper-stage1"], settings), "config.toml")


def test_the_estimate_of_memory_follows_what_it_is_made_of() -> None:
    config = load("whitebox", ["paper-stage1"])
    size = size_of(config)
    assert size is not None

    def states(**how: bool) -> float:
        return estimate(config, size, **how).states

    alone, shared = states(sharded=False, offloaded=False), states(sharded=True, offloaded=False)
    assert alone > 100 > shared > states(sharded=True, offloaded=True)
    assert estimate(config, size, sharded=True, offloaded=True).host > 100
    assert size_of(load("sft", [], ["model.path=some/model-3B"])) is not None
    assert size_of(load("sft", [], ["model.path=some/thing"])) is None
    adapted = load("whitebox", ["paper-stage1"], ["model.lora_r=16", "model.dtype=bfloat16"])
    assert estimate(adapted, size, sharded=False, offloaded=False).states < alone / 4


def test_the_command_of_each_machine() -> None:
    config = load("whitebox", ["14b"], ["output=out", "model.path=m"])
    first, second = commands(config, "c.toml")
    assert first[first.index("--machine_rank") + 1] == "0"
    assert second[second.index("--machine_rank") + 1] == "1"
    assert first[first.index("--num_processes") + 1] == "16"
    assert first[-6:] == ["trainers", "whitebox", "--config", "c.toml", "--out", "out"]


def test_presets_are_listed_and_shown() -> None:
    listed = CliRunner().invoke(train, ["presets"]).output
    assert all(name in listed for name in (*preset_names(), *recipe_names()))
    shown = CliRunner().invoke(train, ["presets", "paper-sft"]).output
    assert shown == preset_text("paper-sft")


def test_the_module_has_the_exit_codes_of_synth() -> None:
    import subprocess
    import sys

    from conftest import ROOT

    def run(*args: str, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "trainers", *args],
            capture_output=True, text=True, cwd=ROOT, check=False, timeout=120,
            env=os.environ | env,
        )  # fmt: skip

    assert "paper-stage1" in run("presets").stdout
    refused = run("whitebox", "--config", "paper-stage")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "did you mean" in refused.stderr
    alone = run("whitebox", "--config", "paper-stage1", WORLD_SIZE="2", LOCAL_RANK="0")
    assert alone.returncode == 2
    assert "2 processes were started" in alone.stderr


def test_records_check_themselves() -> None:
    with pytest.raises(ConfigError, match=r"data\.eval_split"):
        DataConfig(eval_split="train")
    with pytest.raises(ConfigError, match="the order would be lost"):
        load("whitebox", ["paper-stage1"], ["curriculum.order=level"])


# --------------------------------------------------------------------------------- verl


def test_the_recipes_for_verl_hold_the_same_runs() -> None:
    from trainers.verl import overrides

    for name, preset, stage in (
        ("stage1", "paper-stage1", "whitebox"),
        ("stage2", "paper-stage2", "codegen"),
    ):
        found = dict(one.split("=", 1) for one in overrides(name))
        config = load(stage, [preset])
        assert float(found["actor_rollout_ref.actor.optim.lr"]) == config.trl["learning_rate"]
        assert int(found["actor_rollout_ref.rollout.n"]) == config.trl["num_generations"]
        group = int(found["actor_rollout_ref.rollout.n"])
        assert int(found["data.train_batch_size"]) * group == config.trl["generation_batch_size"]
        assert int(found["trainer.total_epochs"]) == config.trl["num_train_epochs"]
        assert found["reward.custom_reward_function.path"] == "pkg://rewards.adapters.verl"
        assert "+reward.custom_reward_function.reward_kwargs.scale" in found
    with pytest.raises(ConfigError, match="expected one of stage1, stage2"):
        overrides("stage3")
