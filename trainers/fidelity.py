"""How the presets stand to the paper's released runs: each of their settings, ours, and why they differ.

The released scripts are for verl (stages I and II) and LLaMA-Factory (SFT); TRL names, defaults and
sometimes means other things. A test holds the presets to these tables. The facts are those of the scripts
and of the defaults of the copies they ran with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainers.config import load
from trainers.records import TrainConfig

__all__ = ["SFT", "STAGE1", "STAGE2", "TABLES", "Setting", "ours"]


@dataclass(frozen=True)
class Setting:
    """One setting of a released run, and its place in the preset."""

    theirs: str
    """Its name there."""
    value: Any
    field: str
    """Where it stands here: a dotted setting, or empty if there is none."""
    ours: Any = None
    """The value here."""
    reason: str = ""
    """Why it is not the same name for the same value; empty if it is."""


def ours(config: TrainConfig, field: str) -> Any:
    """The value of a dotted setting, such as `trl.learning_rate`; None if it is not set."""
    head, _, rest = field.partition(".")
    value = getattr(config, head)
    if head == "trl":
        return value.get(rest)
    return getattr(value, rest) if rest else value


_FSDP = "FSDP of accelerate, parameters and optimizer on the host"

_BOTH = (
    Setting("algorithm.adv_estimator", "grpo", "", reason="TRL's GRPOTrainer is that"),
    Setting("data.shuffle", True, "trl.shuffle_dataset", True),
    Setting(
        "data.train_batch_size", 128, "trl.generation_batch_size", 1024,
        "verl counts prompts, TRL completions: 128 x 8",
    ),
    Setting(
        "actor.ppo_mini_batch_size", 64, "trl.gradient_accumulation_steps", 64,
        "64 prompts are 512 completions a step: 1 a process x 8 processes x 64",
    ),
    Setting("actor.ppo_micro_batch_size_per_gpu", 1, "trl.per_device_train_batch_size", 1),
    Setting("actor.ppo_epochs", 1, "trl.num_iterations", 1),
    Setting(
        "data.max_prompt_length", 2048, "data.max_prompt_tokens", 2048,
        "TRL >= 0.28 cuts no prompts, so rows are filtered here",
    ),
    Setting("data.filter_overlong_prompts", True, "data.max_prompt_tokens", 2048, "the same filter"),
    Setting(
        "data.truncation", "error", "data.max_prompt_tokens", 2048,
        "nothing is left to cut after the filter",
    ),
    Setting("data.max_response_length", 4096, "trl.max_completion_length", 4096),
    Setting("actor.optim.lr", 1e-6, "trl.learning_rate", 1e-6),
    Setting(
        "actor.optim.warmup_style", "constant", "trl.lr_scheduler_type", "constant",
        "TRL's default is linear",
    ),
    Setting("actor.optim.lr_warmup_steps_ratio", 0.0, "trl.warmup_steps", 0),
    Setting("actor.optim.weight_decay", 0.01, "trl.weight_decay", 0.01, "TRL's default is 0"),
    Setting("actor.grad_clip", 1.0, "trl.max_grad_norm", 1.0),
    Setting("actor.use_kl_loss", False, "trl.beta", 0.0, "no reference model is loaded"),
    Setting("algorithm.use_kl_in_reward", False, "trl.beta", 0.0, "TRL has no KL in the reward"),
    Setting("actor.kl_loss_coef", 0.0, "trl.beta", 0.0),
    Setting("actor.kl_loss_type", "low_var_kl", "", reason="of no effect with coefficient 0"),
    Setting("actor.entropy_coeff", 0, "", reason="TRL's default, entropy_coef = 0"),
    Setting("actor.clip_ratio", 0.2, "trl.epsilon", 0.2),
    Setting("actor.clip_ratio_c", 3.0, "trl.delta", 3.0, "the dual clip; TRL's default is none"),
    Setting(
        "actor.loss_agg_mode", "token-mean", "trl.loss_type", "grpo",
        "with micro-batches of 1 their token mean is a mean over sequences of token means; TRL's"
        " default, dapo, is the token mean of the whole batch",
    ),
    Setting(
        "algorithm.norm_adv_by_std_in_grpo", True, "trl.scale_rewards", "group",
        "1e-4 is added to the deviation instead of 1e-6",
    ),
    Setting("rollout.n", 8, "trl.num_generations", 8),
    Setting("rollout.temperature", 1.0, "trl.temperature", 1.0),
    Setting("rollout.top_p", 1, "trl.top_p", 1.0),
    Setting("rollout.top_k", -1, "trl.top_k", 0, "0 is what -1 is there: off"),
    Setting("rollout.name", "vllm", "trl.use_vllm", True, "colocated, as there"),
    Setting("rollout.tensor_model_parallel_size", 4, "trl.vllm_tensor_parallel_size", 4),
    Setting(
        "rollout.gpu_memory_utilization", 0.9, "trl.vllm_gpu_memory_utilization", 0.5,
        "TRL's processes keep more of the policy on the GPU while vLLM generates",
    ),
    Setting(
        "rollout importance correction", None, "trl.vllm_importance_sampling_correction", False,
        "verl 0.3.1 has none; TRL's default is on",
    ),
    Setting(
        "mask of truncated completions", None, "trl.mask_truncated_completions", False,
        "verl 0.3.1 has none",
    ),
    Setting(
        "rollout.log_prob_micro_batch_size_per_gpu", 16, "trl.per_device_train_batch_size", 1,
        "TRL has one micro-batch for both; the result is the same",
    ),
    Setting("ref.log_prob_micro_batch_size_per_gpu", 16, "trl.beta", 0.0, "no reference model"),
    Setting("ref.fsdp_config.param_offload", True, "trl.beta", 0.0, "no reference model"),
    Setting(
        "model.use_remove_padding", True, "", reason="TRL's GRPO pads; it costs time, not results"
    ),
    Setting("model.enable_gradient_checkpointing", True, "trl.gradient_checkpointing", True),
    Setting("model weights", "float32, bf16 arithmetic", "model.dtype", "float32", "trl.bf16 = true"),
    Setting("mixed precision", "bf16", "trl.bf16", True, "the same, by autocast"),
    Setting("actor.fsdp_config.param_offload", True, "launch.recipe", "fsdp-offload-1x8", _FSDP),
    Setting("actor.fsdp_config.optimizer_offload", True, "launch.recipe", "fsdp-offload-1x8", _FSDP),
    Setting("trainer.critic_warmup", 0, "", reason="GRPO has no critic"),
    Setting(
        "trainer.logger", ["console", "wandb"], "trl.report_to", "none",
        "nothing leaves the machine unless asked for: trl.report_to = \"wandb\"",
    ),
    Setting("trainer.n_gpus_per_node", 8, "launch.gpus", 8),
    Setting("trainer.nnodes", 1, "launch.machines", 1),
    Setting(
        "trainer.save_freq", 500, "trl.save_steps", 1000,
        "a step there is a batch of rollouts, which serves 2 steps here",
    ),
)  # fmt: skip

_EVALUATED = (
    "TRL would sample at the training temperature; `synth evaluate` is greedy, with intervals"
)

STAGE1 = (
    *_BOTH,
    Setting("trainer.total_epochs", 4, "trl.num_train_epochs", 4),
    Setting("trainer.test_freq", 5000, "data.eval_split", None, _EVALUATED),
    Setting("reward alpha", 0.5, "reward.alpha", 0.5),
    Setting(
        "reward rule", "0 if the output is wrong, else 1 + w", "reward.shape", "gated",
        "2 * ((1 - alpha) * io + alpha * w), the same at alpha 0.5",
    ),
    Setting("reward range", 2.0, "reward.scale", 2.0),
    Setting(
        "rows without questions", "1 if none could be asked, 2 if none were stored", "reward.scale",
        2.0, "a right output earns everything that was asked: 2",
    ),
    Setting(
        "custom_reward_function.path", "white_box.py", "", reason=(
            "`rewards.whitebox` parses answers instead of running them, and grades input answers by"
            " running our program; theirs pays 2 for any code that exits with 0"
        ),
    ),
    Setting(
        "actor_rollout_ref.model.path", "the SFT model", "model.path", "",
        "given by --set model.path=DIR",
    ),
    Setting("data.train_files", "rl_dataset_train.parquet", "data.path", "",
            "given by --set data.path=…; the layout `reference` reads their file"),
)  # fmt: skip

STAGE2 = (
    *_BOTH,
    Setting("trainer.total_epochs", 5, "trl.num_train_epochs", 5),
    Setting("trainer.test_freq", 500, "data.eval_split", None, _EVALUATED),
    Setting("dataset", "PRIME-RL/Eurus-2-RL-Data", "data.path", "PRIME-RL/Eurus-2-RL-Data"),
    Setting("ability", "code", "data.layout", "eurus", "the layout drops other abilities by name"),
    Setting(
        "prompt", "their instruction around the problem", "data.prompts", "ours",
        "the same form of answer in our words",
    ),
    Setting("pass rate", 1.0, "reward.tests", "share", "the share of tests passed"),
    Setting(
        "format term", 0.05, "reward.format", 0.05 / 1.05,
        "a mixture here, of which scale makes share + 0.05; theirs is lost where no test passes",
    ),
    Setting("reward range", 1.05, "reward.scale", 1.05),
    Setting(
        "timeout of a test", 10, "", reason=(
            "limits of `rewards.unittests` for CPU and wall time, so that queueing costs nothing;"
            " rows may set their own"
        ),
    ),
    Setting("reward_model.reward_manager", "prime", "", reason="TRL calls the reward with the batch"),
    Setting(
        "custom_reward_function.path", "code_gen.py", "", reason=(
            "`rewards.unittests`: in the sandbox, compared on the host"
        ),
    ),
    Setting(
        "actor_rollout_ref.model.path", "the model after stage I", "model.path", "",
        "given by --set model.path=DIR",
    ),
)  # fmt: skip

SFT = (
    Setting("stage", "sft", "stage", "sft"),
    Setting("model_name_or_path", "Qwen2.5-Coder-7B-Instruct", "model.path",
            "Qwen/Qwen2.5-Coder-7B-Instruct", "its id on the Hub"),
    Setting("trust_remote_code", True, "model.trust_remote_code", False,
            "the model needs none, and code from elsewhere is not run unasked"),
    Setting("finetuning_type", "full", "model.lora_r", 0, "no adapters: all weights"),
    Setting("deepspeed", "ds_z3_config.json", "launch.recipe", "fsdp-offload-1x8",
            "also sharded throughout; --config cluster-1x8-zero3 is the same by DeepSpeed"),
    Setting("template", "qwen", "", reason="the tokenizer's own chat template is that"),
    Setting("cutoff_len", 4096, "trl.max_length", 4096),
    Setting("max_samples", 30000, "data.limit", 30000),
    Setting("overwrite_cache", True, "", reason="nothing is cached"),
    Setting("preprocessing_num_workers", 16, "", reason="of no effect on the result"),
    Setting("dataloader_num_workers", 4, "", reason="of no effect on the result"),
    Setting("logging_steps", 1, "trl.logging_steps", 1),
    Setting("plot_loss", True, "", reason="the log is OUTPUT/log.jsonl; report_to plots it"),
    Setting("overwrite_output_dir", True, "", reason="a folder with a run is resumed or refused"),
    Setting("save_only_model", True, "trl.save_only_model", None,
            "the optimizer is kept too, or a run could not be resumed"),
    Setting("save_steps", 500, "trl.save_steps", 100, "a killed run loses less; the result is the same"),
    Setting("report_to", "none", "trl.report_to", "none"),
    Setting("per_device_train_batch_size", 2, "trl.per_device_train_batch_size", 2),
    Setting("gradient_accumulation_steps", 8, "trl.gradient_accumulation_steps", 8),
    Setting("GPUs", "not said", "launch.gpus", 8, "as many as the later stages: 128 rows a step"),
    Setting("learning_rate", 1e-5, "trl.learning_rate", 1e-5),
    Setting("num_train_epochs", 2.0, "trl.num_train_epochs", 2),
    Setting("lr_scheduler_type", "cosine", "trl.lr_scheduler_type", "cosine"),
    Setting("warmup_ratio", 0.1, "trl.warmup_steps", 0.1,
            "transformers 5 takes a number below 1 as the share"),
    Setting("weight_decay", 0.0, "trl.weight_decay", 0.0),
    Setting("max_grad_norm", 1.0, "trl.max_grad_norm", 1.0),
    Setting("packing", False, "trl.packing", False),
    Setting("train_on_prompt", False, "", reason="TRL's default for prompt and completion columns"),
    Setting("bf16", True, "trl.bf16", True),
    Setting("ddp_timeout", 180000000, "", reason="the default; nothing here waits for hours"),
    Setting("resume_from_checkpoint", None, "", reason="--resume finds the newest by itself"),
)  # fmt: skip

TABLES = {"paper-sft": ("sft", SFT), "paper-stage1": ("whitebox", STAGE1),
          "paper-stage2": ("codegen", STAGE2)}  # fmt: skip
"""Preset -> its stage and its table."""


def differences(name: str) -> list[str]:
    """Where a preset is not what its table says; empty as long as the tests pass."""
    stage, table = TABLES[name]
    config = load(stage, [name])
    found = []
    for setting in table:
        if setting.field and ours(config, setting.field) != setting.ours:
            found.append(
                f"{setting.field} is {ours(config, setting.field)!r}, the table says {setting.ours!r}"
            )
        if not setting.reason and (not setting.field or setting.ours != setting.value):
            found.append(f"{setting.theirs}: differs without a reason")
    return found
