"""How much memory a run will take, roughly, from sizes alone. An estimate to plan with, not a promise.

Counted per GPU: weights, gradients and Adam's two moments (sharded by FSDP and ZeRO-3, on the host where
they are offloaded), adapters, activations with checkpointing, logits, and vLLM's share. Not counted:
fragmentation, buffers of communication, CUDA itself (1 to 2 GB). Expect errors of a third.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from trainers.records import TrainConfig

__all__ = ["Estimate", "ModelSize", "estimate", "size_of"]

GIB = 1024.0**3
_SIZES = ((0.5, 896, 24), (1.5, 1536, 28), (3.0, 2048, 36), (7.0, 3584, 28), (14.0, 5120, 48),
          (32.0, 5120, 64), (72.0, 8192, 80))  # fmt: skip
"""Billions of parameters, hidden size, layers: of a family whose sizes are usual ones."""
_VOCABULARY = 152_000


@dataclass(frozen=True)
class ModelSize:
    """What of a model decides its memory."""

    parameters: float
    hidden: int
    layers: int
    vocabulary: int = _VOCABULARY


@dataclass(frozen=True)
class Estimate:
    """Memory of one GPU in GiB, part by part."""

    states: float
    """Weights, gradients and optimizer."""
    activations: float
    """Activations and logits of one micro-batch."""
    generation: float
    """vLLM's share, if it runs in the training processes."""
    sleeps: bool
    """Whether vLLM gives its share back while the policy is updated."""
    host: float
    """Offloaded states on each machine's host."""
    limit: float

    @property
    def peak(self) -> float:
        """The larger of the two phases."""
        if self.sleeps:
            return self.states + max(self.activations, self.generation)
        return self.states + self.activations + self.generation

    def lines(self) -> list[str]:
        """The estimate for people."""
        found = [
            f"memory per GPU, roughly: {self.peak:.0f} GiB of {self.limit:.0f}"
            f" (states {self.states:.1f}, activations {self.activations:.1f},"
            f" vLLM {self.generation:.1f})"
        ]
        if self.host:
            found.append(f"memory of each host for what is offloaded: {self.host:.0f} GiB")
        if self.peak > self.limit:
            found.append(
                "warning: more than there is: shard or offload more (launch.recipe), take a smaller"
                " trl.per_device_train_batch_size or trl.vllm_gpu_memory_utilization, or adapters"
                " (model.lora_r)"
            )
        return found


def size_of(config: TrainConfig) -> ModelSize | None:
    """The size of the model, from its folder, `model.billions` or its name; None if none of them tells."""
    path = Path(config.model.path) / "config.json"
    if path.is_file():
        found = json.loads(path.read_text(encoding="utf-8"))
        hidden, layers = int(found["hidden_size"]), int(found["num_hidden_layers"])
        vocabulary, inner = (
            int(found["vocab_size"]),
            int(found.get("intermediate_size", 4 * hidden)),
        )
        heads = int(found.get("num_attention_heads", 1))
        grouped = int(found.get("num_key_value_heads", heads)) / heads
        tied = 1 if found.get("tie_word_embeddings") else 2
        layer = hidden * hidden * (2 + 2 * grouped) + 3 * hidden * inner
        return ModelSize(layers * layer + tied * vocabulary * hidden, hidden, layers, vocabulary)
    billions = config.model.billions
    if billions is None:
        named = re.search(r"(\d+(?:\.\d+)?)[bB](?![a-zA-Z0-9])", config.model.path)
        if named is None:
            return None
        billions = float(named.group(1))
    near = min(_SIZES, key=lambda each: abs(each[0] - billions))
    return ModelSize(billions * 1e9, near[1], near[2])


def estimate(config: TrainConfig, size: ModelSize, *, sharded: bool, offloaded: bool) -> Estimate:
    """The memory of a run of this size; `sharded` over all processes, `offloaded` to the host."""
    trl, launch = config.trl, config.launch
    weight = 2.0 if config.model.dtype in ("bfloat16", "float16") else 4.0
    if config.model.lora_r:
        # Seven matrices a layer, each with two thin ones; moments and gradients are theirs alone.
        trained = 2.0 * 7 * config.model.lora_r * size.hidden * size.layers * 1.5
        states = size.parameters * weight + trained * 16.0
    else:
        states = size.parameters * (2 * weight + 8.0)
    shards = launch.processes if sharded else 1
    host = states / launch.machines if offloaded else 0.0
    gathered = 2.0 * size.parameters / size.layers * weight  # two layers at a time
    on_gpu = gathered if offloaded else states / shards + (gathered if sharded else 0.0)
    tokens = float(trl.get("max_length") or 1024)
    if config.stage != "sft":
        prompt = config.data.max_prompt_tokens or 2048
        tokens = prompt + float(trl.get("max_completion_length") or 512)
    tokens *= float(trl.get("per_device_train_batch_size", 8))
    kept = 1 if trl.get("gradient_checkpointing", True) else 16
    activations = tokens * size.hidden * 2.0 * (size.layers * kept + 34)
    logits = tokens * size.vocabulary * 4.0 * 2
    colocated = trl.get("use_vllm") and trl.get("vllm_mode", "colocate") == "colocate"
    share = float(trl.get("vllm_gpu_memory_utilization", 0.3)) if colocated else 0.0
    return Estimate(
        states=on_gpu / GIB,
        activations=(activations + logits) / GIB,
        generation=share * launch.gpu_memory_gb,
        sleeps=bool(colocated and trl.get("vllm_enable_sleep_mode")),
        host=host / GIB,
        limit=launch.gpu_memory_gb,
    )
