"""Real TRL: GRPOTrainer on the CPU with a tiny random model, and `trl grpo` as a command.

The model is built in code, trains for three steps, and writes known answers instead of sampling, so
that every reward is known: rows of all tasks in one batch, and one that nobody can score. Nothing is
downloaded. Not covered: learning (`trainers`), vLLM.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Environment

from rewards import whitebox
from rewards.selfcheck import CASES
from rewards.whitebox import METRIC_KEYS

torch = pytest.importorskip("torch", reason="torch is not installed here")
pytest.importorskip("trl", reason="trl is not installed here")

CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
KNOWN = {case.name: case for case in CASES}
BATCH: list[list[str]] = [
    ["output, right", "output, wrong value"],
    ["input, wrong", "input, right"],
    ["whitebox, half", "whitebox, wrong"],
    ["calls, half", "calls, right"],
    ["output, right", "whitebox, right"],  # its row has no spec: nobody can score it
]
"""The answers of one group each, in order."""
STEPS = 3
PAID = [
    [2.0, 0.0],
    [0.0, 2.0],
    [1.5, 0.0],
    [0.5, 1.0],
    [None, None],
]


def rows() -> list[dict[str, Any]]:
    """One row a group, for every step."""
    found = []
    for number in range(STEPS * len(BATCH)):
        place = number % len(BATCH)
        spec = json.dumps(KNOWN[BATCH[place][0]].spec)
        found.append(
            {
                "prompt": [{"role": "user", "content": f"row {place}: what does it return?"}],
                "spec": spec if place < len(BATCH) - 1 else None,
                "id": f"r{number}",
                "level": place,
                "pass_rate": None,
            }
        )
    return found


def make_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([case.completion for case in CASES] * 4, trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    fast.chat_template = CHAT
    return fast


def make_model(tokenizer: Any, *, scripted: bool = True) -> Any:
    """A random Qwen2 of two small layers; `scripted` answers from `BATCH` instead of sampling."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    class Scripted(Qwen2ForCausalLM):  # type: ignore[misc, unused-ignore]
        def generate(self, input_ids: Any, **_: Any) -> Any:
            seen: dict[int, int] = {}
            answers = []
            for prompt in tokenizer.batch_decode(input_ids):
                place = int(prompt.partition("row ")[2].partition(":")[0])
                nth = seen[place] = seen.get(place, -1) + 1
                text = KNOWN[BATCH[place][nth % 2]].completion + "<|im_end|>"
                answers.append(tokenizer(text, add_special_tokens=False)["input_ids"])
            longest = max(map(len, answers))
            pad = tokenizer.pad_token_id
            padded = [each + [pad] * (longest - len(each)) for each in answers]
            return torch.cat([input_ids, torch.tensor(padded)], dim=1)

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return (Scripted if scripted else Qwen2ForCausalLM)(config)


def train(folder: Path, rewards: list[Callable[..., Any]]) -> Any:
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = make_tokenizer()
    arguments = GRPOConfig(
        output_dir=str(folder),
        max_steps=STEPS,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        per_device_train_batch_size=2 * len(BATCH),
        num_generations=2,
        shuffle_dataset=False,
        max_completion_length=256,
        learning_rate=1e-3,
        beta=0.0,
        log_completions=True,
        reward_weights=[1.0] + [0.0] * (len(rewards) - 1),
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=make_model(tokenizer),
        processing_class=tokenizer,
        reward_funcs=rewards,
        args=arguments,
        train_dataset=Dataset.from_list(rows()),
    )
    before = [each.clone() for each in trainer.model.parameters()]
    trainer.train()
    changed = [
        not torch.equal(*pair) for pair in zip(before, trainer.model.parameters(), strict=True)
    ]
    assert any(changed), "the rewards of a group differ, so something is learnt"
    return trainer


def tables(folder: Path) -> list[dict[str, list[Any]]]:
    """The completions that TRL wrote down, one table a step."""
    import pyarrow.parquet

    files = sorted((folder / "completions").glob("*.parquet"))
    return [pyarrow.parquet.read_table(file).to_pydict() for file in files]


def numbers(values: list[Any]) -> list[float | None]:
    return [None if value is None or math.isnan(value) else value for value in values]


def check_run(trainer: Any, folder: Path, name: str) -> None:
    """Every reward of every step is what is known, and the parts are logged."""
    paid = [one for group in PAID for one in group]
    scored = [one for one in paid if one is not None]
    steps = [each for each in trainer.state.log_history if "reward" in each]
    assert trainer.state.global_step == len(steps) == STEPS
    for step in steps:
        assert math.isfinite(step["loss"])
        assert step[f"rewards/{name}/mean"] == pytest.approx(sum(scored) / len(scored))
        assert {f"whitebox/{key}" for key in METRIC_KEYS} <= set(step)
        assert step["whitebox/unscored"] == pytest.approx(0.2)
        assert step["whitebox/score"] == pytest.approx(sum(scored) / len(scored))
        assert step["whitebox/w_total"] == pytest.approx(2 * 2 / 8)
    found = tables(folder)
    assert len(found) == STEPS
    for table in found:
        assert numbers(table[name]) == paid
        assert table["whitebox_status"][:2] == ["right", "wrong"]
        assert table["whitebox_status"][-2:] == ["not_applicable"] * 2
        assert numbers(table["whitebox_tests"])[6:8] == [0.5, 1.0]
        assert table["advantage"][-2:] == [0.0, 0.0]
        assert all(value != 0.0 for value in table["advantage"][:-2])


def test_grpo_with_the_total_and_its_parts(tmp_path: Path) -> None:
    trainer = train(tmp_path, [whitebox.reward, whitebox.io, whitebox.w])
    check_run(trainer, tmp_path, "whitebox")
    assert trainer.reward_func_names == ["whitebox", "whitebox_io", "whitebox_w"]
    for table in tables(tmp_path):
        for part in ("whitebox", "whitebox_io", "whitebox_w"):
            assert numbers(table[part])[-2:] == [None, None]
        assert numbers(table["whitebox_io"])[4:8] == [1.0, 0.0, None, None]
        assert numbers(table["whitebox_w"])[4:6] == [0.5, 1.0]


def test_grpo_with_the_async_form(tmp_path: Path) -> None:
    trainer = train(tmp_path, [whitebox.reward_async])
    check_run(trainer, tmp_path, "reward_async")


OPTIONS = {
    "model_name_or_path": "model",
    "dataset_name": "data",
    "output_dir": "out",
    "max_steps": "2",
    "logging_steps": "1",
    "per_device_train_batch_size": "4",
    "num_generations": "2",
    "max_completion_length": "12",
    "report_to": "none",
    "save_strategy": "no",
    "use_cpu": "true",
    "bf16": "false",
    "gradient_checkpointing": "false",
    "log_completions": "true",
    "disable_tqdm": "true",
    "shuffle_dataset": "false",
}


def test_the_command_line_of_trl(tmp_path: Path, environment: Environment) -> None:
    """`trl grpo --reward_funcs rewards.whitebox.reward`, from a folder and a Parquet file."""
    from datasets import Dataset

    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(tmp_path / "model")
    make_model(tokenizer, scripted=False).save_pretrained(tmp_path / "model")
    (tmp_path / "data").mkdir()
    Dataset.from_list(rows()).to_parquet(tmp_path / "data" / "train.parquet")
    words = [word for name, value in OPTIONS.items() for word in (f"--{name}", value)]
    rewards = ["--reward_funcs", "rewards.whitebox.reward", "rewards.whitebox.format"]
    done = subprocess.run(
        [str(Path(sys.executable).parent / "trl"), "grpo", *words, *rewards],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment
        | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rewards/whitebox/mean" in done.stdout
    found = tables(tmp_path / "out")
    assert len(found) == 2
    for table in found:
        assert len(numbers(table["whitebox"])) == 4
        assert set(numbers(table["whitebox"])) <= {0.0, None}, "noise earns nothing"
        assert set(table["whitebox_status"]) <= {
            "no_answer",
            "truncated",
            "wrong",
            "not_applicable",
        }
