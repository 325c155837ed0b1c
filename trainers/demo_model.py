"""The demonstration's model and tokenizer, built in code, and its warm-up.

The warm-up is a plain torch loop, because Muon learns this task in a third of the steps that AdamW takes
(900 steps of AdamW answered 33 % right, 600 of Muon 53 %), and TRL's trainer drives one optimizer.
Does not cover GRPO, which is TRL's (`demo.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from synth.errors import ConfigError
from synth.seeds import rng
from trainers.demo_form import TOKENS
from trainers.models import library

__all__ = ["build", "tokenizer", "warm_up"]

END, PAD = "<end>", "<pad>"
BATCH = 32
WARM_STEPS = 30


def tokenizer() -> Any:
    """One token a sign, a line number or a keyword of the tiny language."""
    tokenizers, transformers = library("tokenizers"), library("transformers")
    words = [PAD, END, *(f"\n{number}:" for number in range(2, 10)), "\n=", "\n>"]
    words += ["for i in ", "return ", "if ", "else:", "+=", "-=", "<", ">="]
    words += [*"0123456789", *"abcdipqrst", *"TF", *"'=+-[],:>"]
    vocabulary = {word: number for number, word in enumerate(words)}
    model = tokenizers.models.WordLevel(vocabulary, unk_token=PAD)
    made = tokenizers.Tokenizer(model)
    pattern = tokenizers.Regex(TOKENS)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split(pattern, behavior="isolated")
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, eos_token=END, pad_token=PAD, padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template="{{ messages[0]['content'] }}",
    )  # fmt: skip


def build(words: Any, seed: int) -> Any:
    """An untrained model of about 130 thousand parameters."""
    torch, transformers = library("torch"), library("transformers")
    torch.manual_seed(seed)
    config = transformers.Qwen2Config(
        vocab_size=len(words), hidden_size=64, intermediate_size=128, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=256,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )  # fmt: skip
    return transformers.Qwen2ForCausalLM(config).float()


def warm_up(
    model: Any,
    words: Any,
    pairs: Sequence[tuple[str, str]],
    *,
    steps: int,
    seed: int,
    progress: Callable[[int, float], None] | None = None,
) -> float:
    """Teach the answers of `pairs` (prompt, answer); returns the loss of the last 20 steps."""
    torch = library("torch")
    optimizers, rates = _optimizers(model)
    coded = [_coded(words, *pair) for pair in pairs]
    batches = _batches(coded, rng("demo", "warm-up", str(seed)))
    losses: list[float] = []
    model.train()
    for step in range(steps):
        share = min(1.0, (step + 1) / WARM_STEPS) * (1.0 - 0.9 * step / steps)
        for optimizer, rate in zip(optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
        loss = _loss(model, next(batches), words.pad_token_id)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if progress is not None and (step + 1) % 50 == 0:
            progress(step + 1, sum(losses[-20:]) / len(losses[-20:]))
    return sum(losses[-20:]) / max(1, len(losses[-20:]))


def _optimizers(model: Any) -> tuple[list[Any], list[float]]:
    """Muon for the matrices within the layers, AdamW for the rest, and their rates."""
    torch = library("torch")
    inner: list[Any] = []
    rest: list[Any] = []
    for name, weight in model.named_parameters():
        (inner if weight.ndim == 2 and "embed" not in name else rest).append(weight)
    if not hasattr(torch.optim, "Muon"):
        raise ConfigError(
            f"the demonstration needs torch 2.9 or later, for Muon; this is {torch.__version__}"
        )
    muon = torch.optim.Muon(
        inner, lr=0.015, momentum=0.9, weight_decay=0.0, adjust_lr_fn="original"
    )
    adam = torch.optim.AdamW(rest, lr=5e-3, betas=(0.9, 0.95), weight_decay=0.0)
    return [muon, adam], [0.015, 5e-3]


def _coded(words: Any, prompt: str, answer: str) -> tuple[list[int], int]:
    """The tokens of both, and how many are the prompt's."""
    first = words(prompt, add_special_tokens=False)["input_ids"]
    second = words(answer, add_special_tokens=False)["input_ids"]
    return [*first, *second, words.eos_token_id], len(first)


def _batches(
    coded: Sequence[tuple[list[int], int]], source: random.Random
) -> Iterator[list[tuple[list[int], int]]]:
    """Batches of examples about as long as each other, for ever."""
    while True:
        order = list(coded)
        source.shuffle(order)
        for start in range(0, len(order), 16 * BATCH):
            part = sorted(order[start : start + 16 * BATCH], key=lambda pair: len(pair[0]))
            cut = [part[at : at + BATCH] for at in range(0, len(part), BATCH)]
            source.shuffle(cut)
            yield from cut


def _loss(model: Any, batch: Sequence[tuple[list[int], int]], pad: int) -> Any:
    """Cross entropy of the answers' tokens. Padding is on the right, so no token sees it."""
    torch = library("torch")
    width = max(len(ids) for ids, _ in batch)
    inputs = torch.full((len(batch), width), pad)
    labels = torch.full((len(batch), width), -100)
    for row, (ids, prompt) in enumerate(batch):
        inputs[row, : len(ids)] = torch.tensor(ids)
        labels[row, prompt : len(ids)] = torch.tensor(ids[prompt:])
    logits = model(input_ids=inputs).logits[:, :-1]
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), labels[:, 1:].reshape(-1), ignore_index=-100
    )
