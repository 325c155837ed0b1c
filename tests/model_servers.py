"""Real OpenAI-compatible servers for tests marked `model`: llama.cpp's and `transformers serve`.

Each starts on 127.0.0.1 from what is installed beside the tests, and is skipped by name where it is not:

    EXECVERIFY_LLAMA_PYTHON   an interpreter that has the `xllamacpp` wheel   [default: this one]
    EXECVERIFY_GGUF           a model file for it
    EXECVERIFY_TRANSFORMERS   an interpreter that has `transformers[serving]` and torch   [default: this one]

The model for `transformers serve` is made here: a random Qwen2 of 200,000 parameters.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LLAMA = """
import sys
import xllamacpp as x
params = x.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.n_ctx, params.n_parallel, params.kv_unified = 4096, 4, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.model_alias = {"gemma"}
server = x.Server(params)
sys.stdin.read()
"""

TINY = """
import sys
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
import torch
torch.manual_seed(0)
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
bpe.decoder = decoders.ByteLevel()
special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
corpus = ["def f(x):\\n    return x", "assert f([1, 2]) == {'a': 3}", "<answer> </answer>"] * 50
trainer = trainers.BpeTrainer(
    vocab_size=500, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
bpe.train_from_iterator(corpus, trainer)
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>")
tokenizer.chat_template = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}")
config = Qwen2Config(
    vocab_size=len(tokenizer), hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
    eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
model = Qwen2ForCausalLM(config)
model.generation_config = GenerationConfig(
    do_sample=True, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
model.save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
"""
"""`do_sample` is what makes `transformers serve` draw at all."""


def interpreter(variable: str, module: str) -> str:
    """The interpreter that has a module; the test is skipped where there is none."""
    python = os.environ.get(variable, sys.executable)
    found = subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False)
    if found.returncode:
        pytest.skip(f"{module} is not there: name an interpreter that has it in {variable}")
    return python


@contextmanager
def started(words: list[str], url: str, **env: str) -> Iterator[None]:
    """Runs a server until the block ends; returns once it answers."""
    process = subprocess.Popen(
        words,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise RuntimeError(
                    f"the server ended with status {process.returncode}: {words[:4]}"
                )
            try:
                with urllib.request.urlopen(url, timeout=5):
                    break
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                time.sleep(0.5)
        else:
            raise RuntimeError(f"the server does not answer at {url}")
        yield
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def llama() -> Iterator[tuple[str, str]]:
    """(base URL, model name) of llama.cpp's server."""
    python = interpreter("EXECVERIFY_LLAMA_PYTHON", "xllamacpp")
    model = os.environ.get("EXECVERIFY_GGUF", "")
    if not Path(model).is_file():
        pytest.skip("a model file is not there: name one in EXECVERIFY_GGUF")
    port = free_port()
    words = [python, "-c", LLAMA, model, str(port)]
    with started(words, f"http://127.0.0.1:{port}/health"):
        yield f"http://127.0.0.1:{port}/v1", "gemma"


def tiny_model(folder: Path) -> Path:
    """A folder with a random model for `transformers`."""
    python = interpreter("EXECVERIFY_TRANSFORMERS", "transformers")
    subprocess.run([python, "-c", TINY, str(folder)], check=True, capture_output=True)
    return folder


@contextmanager
def transformers_serve(folder: Path) -> Iterator[tuple[str, str]]:
    """(base URL, model name) of `transformers serve` on the model in a folder."""
    python = interpreter("EXECVERIFY_TRANSFORMERS", "transformers")
    port = free_port()
    serve = [str(Path(python).parent / "transformers"), "serve", str(folder)]
    words = [*serve, "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    with started(words, f"http://127.0.0.1:{port}/v1/models"):
        yield f"http://127.0.0.1:{port}/v1", str(folder)
