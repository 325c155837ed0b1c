"""Real OpenAI-compatible servers for tests: llama.cpp's and `transformers serve`.

Each starts on 127.0.0.1 from what is installed beside the tests, with a model of `tiny_models`, and its
tests are skipped by name where it is not installed:

    EXECVERIFY_LLAMA_PYTHON   an interpreter that has the `xllamacpp` wheel   [default: this one]
    EXECVERIFY_TRANSFORMERS   an interpreter that has `transformers[serving]` and torch   [default: this one]
    EXECVERIFY_GGUF           a real model file for llama.cpp, for tests marked `model`
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SLOTS = 4
"""Completions that llama.cpp's server works on at a time, and the largest `n` it takes."""

LLAMA = """
import sys
import xllamacpp as x
params = x.CommonParams()
params.model.path, params.port, name, slots = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
params.n_ctx, params.n_parallel, params.kv_unified = 16384, slots, True
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.model_alias = {name}
server = x.Server(params)
sys.stdin.read()
"""

SERVE = """
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name="transformers")
sys.exit(script.load()())
"""
"""The command `transformers`, also where the interpreter's folder of scripts lacks it."""


@dataclass(frozen=True)
class Served:
    """A server that runs."""

    url: str
    """Its base URL, which ends in /v1."""
    model: str
    """The name of its model."""
    log: Path
    """What it has written so far."""
    process: subprocess.Popen[bytes]
    is_llama: bool

    def completions(self) -> int:
        """How many completions it has begun to compute, all clients together."""
        text = self.log.read_text(errors="replace")
        return len(re.findall(r"launch_slot_: .*processing task|POST /v1/\S*completions", text))

    def cpu_seconds(self) -> float:
        """Seconds of CPU time that it has used so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def interpreter(variable: str, *modules: str) -> str:
    """The interpreter that has some modules; the test is skipped where there is none."""
    python = os.environ.get(variable, sys.executable)
    look = f"import importlib.util as u; print(*[m for m in {modules} if u.find_spec(m) is None])"
    found = subprocess.run([python, "-c", look], capture_output=True, text=True, check=True)
    if lacking := found.stdout.strip():
        pytest.skip(f"{lacking} is not there: name an interpreter that has it in {variable}")
    return python


@contextmanager
def _running(
    words: list[str], port: int, model: Path, name: str, *, is_llama: bool, wait: bool = True
) -> Iterator[Served]:
    """Runs a server beside its model until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                words,
                cwd=model.parent,
                env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
            )
        try:
            if wait:
                ready = "health" if is_llama else "v1/models"
                _await(process, f"http://127.0.0.1:{port}/{ready}", log)
            yield Served(f"http://127.0.0.1:{port}/v1", name, log, process, is_llama)
        finally:
            process.kill()
            process.communicate()


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(1200):
        if process.poll() is not None:
            said = log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the server ended with status {process.returncode}:\n{said}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.25)
    raise RuntimeError(f"the server does not answer at {url}")


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def llama_server(
    model: Path, name: str = "tiny", *, slots: int = SLOTS, wait: bool = True
) -> Iterator[Served]:
    """llama.cpp's server on a model file. Without `wait` it may not be up yet."""
    python = interpreter("EXECVERIFY_LLAMA_PYTHON", "xllamacpp")
    port = free_port()
    words = [python, "-c", LLAMA, str(model), str(port), name, str(slots)]
    with _running(words, port, model, name, is_llama=True, wait=wait) as server:
        yield server


@contextmanager
def transformers_serve(folder: Path) -> Iterator[Served]:
    """`transformers serve` on the model in a folder, whose name is the model's."""
    needed = ("transformers", "torch", "fastapi", "uvicorn")
    python = interpreter("EXECVERIFY_TRANSFORMERS", *needed)
    port = free_port()
    # A path of its own would be part of every request, and so of every seed.
    words = [python, "-c", SERVE, "serve", folder.name, "--host", "127.0.0.1"]
    words += ["--port", str(port), "--device", "cpu"]
    with _running(words, port, folder, folder.name, is_llama=False) as server:
        yield server
