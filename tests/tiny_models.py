"""Random models of 30,000 parameters for real servers, written by the tests: nothing is downloaded.

One small Llama, as a GGUF file for llama.cpp and as a folder for `transformers`. Every byte is a token, so
what it says is noise: broken UTF-8, control characters, no program and no answer. It can be given texts
that it says instead, each whole and each with a likelihood of its own, so that a run on a real server also
meets answers that count. It does not understand its prompt, and the two forms do not compute the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

WIDTH, FEED, HEADS, LAYERS = 32, 64, 2, 1
CONTEXT = 8192
"""Tokens that the model is made for."""
UNKNOWN, START, END = "<unk>", "<s>", "</s>"
FIRST_BYTE, SPACE, FIRST_TEXT = 3, 259, 260
"""Tokens: of byte 0 and then the other bytes, of llama.cpp's space, of the first given text."""
TEMPLATE = "{% for message in messages %}[{{ message.role }}]\n{{ message.content }}\n{% endfor %}[answer]\n"

Array = np.ndarray[Any, np.dtype[np.float32]]


def weights(says: Mapping[str, float]) -> dict[str, Array]:
    """The tensors of the model, named as llama.cpp names them.

    No layer writes to the first two places of a token's vector, so they reach the output as they are: the
    first is the same for all tokens and carries how likely each is, the second tells that the last token
    was a given text, after which the model ends.
    """
    rng = np.random.default_rng(0)

    def noise(*shape: int, scale: float = 1.0) -> Array:
        return (rng.normal(0, scale / math.sqrt(shape[-1]), shape)).astype(np.float32)

    size = FIRST_TEXT + len(says)
    given = slice(FIRST_TEXT, size)
    embedding, output = noise(size, WIDTH, scale=4.0), noise(size, WIDTH, scale=0.4)
    embedding[:, 0], embedding[:, 1], embedding[given, 1] = 4.0, 0.0, 8.0
    output[:, :2] = 0.0
    # The first place comes out near 4 behind the norm, so this is the logarithm of the odds.
    rest = (1 - sum(says.values())) / FIRST_TEXT
    output[given, 0] = [math.log(share / rest) / 4 for share in says.values()]
    output[2, 1] = 3.0
    found = {"token_embd": embedding, "output": output, "output_norm": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        shapes = {
            **dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH)),
            "ffn_gate": (FEED, WIDTH),
            "ffn_up": (FEED, WIDTH),
            "ffn_down": (WIDTH, FEED),
        }
        tensors = {name: noise(*shape, scale=0.5) for name, shape in shapes.items()}
        tensors["attn_output"][:2] = tensors["ffn_down"][:2] = 0.0
        tensors |= {name: np.ones(WIDTH, np.float32) for name in ("attn_norm", "ffn_norm")}
        found |= {f"blk.{layer}.{name}": tensor for name, tensor in tensors.items()}
    return found


def gguf_model(path: Path, says: Mapping[str, float] | None = None) -> Path:
    """Writes the model for llama.cpp. `says`: text -> how often it is said first, sum below 1."""
    gguf = pytest.importorskip("gguf", reason="gguf is not there: pip install gguf")
    says = says or {}
    kinds = gguf.TokenType
    tokens = {UNKNOWN: kinds.UNKNOWN, START: kinds.CONTROL, END: kinds.CONTROL}
    tokens |= {f"<0x{byte:02X}>": kinds.BYTE for byte in range(256)}
    tokens |= {text.replace(" ", "\u2581"): kinds.NORMAL for text in (" ", *says)}
    file = gguf.GGUFWriter(path, "llama")
    file.add_context_length(CONTEXT)
    file.add_embedding_length(WIDTH)
    file.add_feed_forward_length(FEED)
    file.add_block_count(LAYERS)
    file.add_head_count(HEADS)
    file.add_head_count_kv(HEADS)
    file.add_rope_dimension_count(WIDTH // HEADS)
    file.add_layer_norm_rms_eps(1e-5)
    file.add_vocab_size(len(tokens))
    file.add_tokenizer_model("llama")
    file.add_add_space_prefix(False)
    file.add_token_list(list(tokens))
    file.add_token_scores([0.0] * len(tokens))
    file.add_token_types([int(kind) for kind in tokens.values()])
    file.add_unk_token_id(0)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_chat_template(TEMPLATE)
    for name, tensor in weights(says).items():
        file.add_tensor(f"{name}.weight", tensor)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return path


NAMES = {
    "token_embd": "model.embed_tokens",
    "output": "lm_head",
    "output_norm": "model.norm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}
"""llama.cpp's names of tensors -> those of `transformers`."""


def transformers_model(folder: Path, says: Mapping[str, float] | None = None) -> Path:
    """Writes the same for `transformers`, into a new folder."""
    for name in ("safetensors", "tokenizers"):
        pytest.importorskip(name, reason=f"{name} is not there: pip install transformers")
    from safetensors.numpy import save_file

    says = says or {}
    folder.mkdir(parents=True)
    tensors = {}
    for name, tensor in weights(says).items():
        _, layer, own = name.split(".") if name.startswith("blk.") else ("", "", name)
        prefix = f"model.layers.{layer}." if layer else ""
        tensors[f"{prefix}{NAMES[own]}.weight"] = tensor
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    _tokenizer(list(says)).save(str(folder / "tokenizer.json"))
    marks = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    texts = {
        "config": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": len(tensors["lm_head.weight"]),
            "hidden_size": WIDTH,
            "intermediate_size": FEED,
            "num_hidden_layers": LAYERS,
            "num_attention_heads": HEADS,
            "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5,
            "dtype": "float32",
            **marks,
        },
        # Without `do_sample`, `transformers serve` takes the likeliest token at any temperature.
        "generation_config": {"do_sample": True, **marks},
        "tokenizer_config": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": START,
            "eos_token": END,
            "pad_token": UNKNOWN,
            "chat_template": TEMPLATE,
        },
    }
    for name, values in texts.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


def _tokenizer(says: list[str]) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    # GPT-2's letters for the 256 bytes: printable ones stand for themselves.
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in plain}
    others = (byte for byte in range(256) if byte not in letters)
    letters |= {byte: chr(256 + place) for place, byte in enumerate(others)}
    vocabulary = {UNKNOWN: 0, START: 1, END: 2}
    vocabulary |= {letters[byte]: FIRST_BYTE + byte for byte in range(256)}
    vocabulary["<space>"] = SPACE  # the byte's token is taken instead
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in (UNKNOWN, START, END)])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in says])
    return tokenizer
