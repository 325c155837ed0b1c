"""The model and tokenizer of a run: from a folder or the Hub, or a tiny pair made in this process.

The tiny pair (`model.path = "tiny"`, or a folder in which it was saved) needs no download: a byte-level
tokenizer trained on a few lines of Python, and about 60 thousand random weights. It shows that the parts
of a run fit together; it is far too small to learn from it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from synth.errors import ConfigError
from trainers.records import ModelConfig

__all__ = [
    "TINY",
    "adapters",
    "library",
    "load_model",
    "load_tokenizer",
    "save_merged",
    "tiny_model",
    "tiny_tokenizer",
]

TINY = "tiny"
MERGED = "merged"
"""Folder in the output of a run with adapters: the model with the adapters in its weights."""

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def library(name: str) -> Any:
    """A module of the extra `train`. Raises `ConfigError` saying how it is installed."""
    if find_spec(name.partition(".")[0]) is None:
        raise ConfigError(f"training needs {name}: pip install 'execverify[train]'")
    return import_module(name)


def load_tokenizer(config: ModelConfig) -> Any:
    """The tokenizer, with a chat template and a padding token. Raises `ConfigError`."""
    if config.path == TINY:
        return tiny_tokenizer()
    transformers = library("transformers")
    _named(config)
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            config.path, revision=config.revision, trust_remote_code=config.trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path is {config.path!r}: no tokenizer: {error}") from error
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.chat_template is None:
        raise ConfigError(
            f"model.path is {config.path!r}, whose tokenizer has no chat template; expected an"
            " instruction-tuned model, or a folder into which a template was put"
        )
    return tokenizer


def load_model(config: ModelConfig, tokenizer: Any, *, seed: int = 0) -> Any:
    """The model in the precision asked for, its weights as stored. Raises `ConfigError`."""
    if config.path == TINY:
        return tiny_model(tokenizer, seed)
    if config.lora_r and (Path(config.path) / "adapter_config.json").is_file():
        raise ConfigError(
            f"model.path is {config.path!r}, which holds adapters; new ones would lie on top of them:"
            f" give {str(Path(config.path) / MERGED)!r}, where a run leaves the whole model"
        )
    transformers, torch = library("transformers"), library("torch")
    _named(config)
    try:
        return transformers.AutoModelForCausalLM.from_pretrained(
            config.path,
            revision=config.revision,
            dtype=getattr(torch, config.dtype) if config.dtype else "auto",
            attn_implementation=config.attention,
            trust_remote_code=config.trust_remote_code,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"model.path is {config.path!r}: cannot be loaded: {error}") from error


def adapters(config: ModelConfig) -> Any:
    """The `LoraConfig` of a run; None if all weights are trained."""
    if not config.lora_r:
        return None
    return library("peft").LoraConfig(
        r=config.lora_r,
        lora_alpha=config.lora_alpha,
        lora_dropout=config.lora_dropout,
        target_modules=list(config.lora_targets) or "all-linear",
        task_type="CAUSAL_LM",
    )


def save_merged(trainer: Any, folder: str) -> None:
    """Save the model with its adapters in its weights, which ends the training of them."""
    model = trainer.accelerator.unwrap_model(trainer.model).merge_and_unload()
    target = Path(folder) / MERGED
    model.save_pretrained(target)
    trainer.processing_class.save_pretrained(target)


def _named(config: ModelConfig) -> None:
    if not config.path:
        raise ConfigError("model.path is empty; give a folder, an id on the Hub, or tiny")


def tiny_tokenizer() -> Any:
    """A byte-level BPE tokenizer of about 400 tokens with a chat template."""
    parts, transformers = library("tokenizers"), library("transformers")
    trained = parts.Tokenizer(parts.models.BPE())
    trained.pre_tokenizer = parts.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = parts.decoders.ByteLevel()
    corpus = [
        "def f(x):\n    y = x + 1\n    for item in items:\n        if item > 0:\n    return total",
        "assert f(1) == 2\n<answer>\n2; int\n</answer>\n<reasoning>\nline after line\n</reasoning>",
    ]
    trained.train_from_iterator(
        corpus * 4,
        parts.trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
            initial_alphabet=parts.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=trained,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def tiny_model(tokenizer: Any, seed: int = 0) -> Any:
    """A Qwen2 of two layers and random weights that follow from the seed."""
    torch, transformers = library("torch"), library("transformers")
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    try:
        return transformers.Qwen2ForCausalLM(
            transformers.Qwen2Config(
                vocab_size=len(tokenizer),
                hidden_size=32,
                intermediate_size=64,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                max_position_embeddings=2048,
                bos_token_id=None,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                tie_word_embeddings=False,
            )
        )
    finally:
        torch.set_rng_state(state)
