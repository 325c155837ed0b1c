"""A model of the `transformers` library in this process, behind the interface of a client.

Covers a folder on this machine; nothing is fetched. One request runs at a time: the model is one. Its
completions go to the same store, so the run can be resumed like any other. For more than a few hundred
rows a server (vLLM, SGLang, llama.cpp) is many times as fast.
"""

from __future__ import annotations

import asyncio
import importlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from synth.clients.faults import Fault
from synth.completions import Answered, Ask, CompletionStore, Reply
from synth.errors import ConfigError

__all__ = ["LocalModel"]


class LocalModel:
    """See `Asker`. The model is loaded on the first request that the store cannot answer."""

    def __init__(self, folder: str | Path, store: CompletionStore) -> None:
        self.folder = Path(folder)
        self.store = store
        self.warnings: list[str] = []
        self.faults: Counter[str] = Counter()
        self._busy = asyncio.Lock()
        self._parts: tuple[Any, Any, Any] | None = None

    async def check(self) -> None:
        """Raises `ConfigError` if the folder holds no model."""
        if not (self.folder / "config.json").is_file():
            raise ConfigError(
                f"--local-model is {str(self.folder)!r}, which has no config.json; expected a folder"
                " that `save_pretrained` has written"
            )

    async def sample(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Reply | Fault]:
        """See `Asker`."""
        async with self._busy:
            found: dict[int, Reply | Fault] = dict(self.store.replies(ask, numbers))
            missing = [number for number in numbers if number not in found]
            if missing:
                found |= await asyncio.to_thread(self._draw, ask, missing)
        return {number: found[number] for number in numbers}

    async def close(self) -> None:
        """Nothing to let go of: every completion is kept as it is drawn."""

    def _draw(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Reply | Fault]:
        torch, tokenizer, model = self._loaded()
        if ask.endpoint == "chat":
            messages = [{"role": role, "content": content} for role, content in ask.messages]
            text = tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
            inputs = tokenizer(text, return_tensors="pt", add_special_tokens=False)
        else:
            inputs = tokenizer(ask.text, return_tensors="pt")
        inputs = inputs.to(model.device)
        size = int(inputs["input_ids"].shape[1])
        room = getattr(model.config, "max_position_embeddings", None)
        if room is not None and size >= room:
            self.faults["too_long"] += 1
            fault = Fault("too_long", f"{size} tokens, the model takes {room}")
            return dict.fromkeys(numbers, fault)
        found: dict[int, Reply | Fault] = {}
        for number in numbers:
            torch.manual_seed(ask.seed(number))
            with torch.inference_mode():
                made = model.generate(**inputs, **_settings(ask, tokenizer, size, room))[0][size:]
            reply = _reply(ask, number, made.tolist(), tokenizer, size)
            self.store.put(Answered(ask, {number: reply}, size, len(made)))
            found[number] = reply
        return found

    def _loaded(self) -> tuple[Any, Any, Any]:
        if self._parts is None:
            try:
                torch: Any = importlib.import_module("torch")
                library: Any = importlib.import_module("transformers")
            except ImportError as error:
                raise ConfigError(
                    f"--local-model needs {error.name}: pip install 'execverify[train]'"
                ) from error
            where: dict[str, Any] = {"local_files_only": True}
            tokenizer = library.AutoTokenizer.from_pretrained(self.folder, **where)
            model = library.AutoModelForCausalLM.from_pretrained(self.folder, **where)
            device = "cuda" if torch.cuda.is_available() else "cpu"
            self._parts = (torch, tokenizer, model.to(device).eval())
        return self._parts


def _settings(ask: Ask, tokenizer: Any, size: int, room: int | None) -> dict[str, Any]:
    sampling = ask.sampling
    longest = sampling.max_tokens if room is None else min(sampling.max_tokens, room - size)
    settings: dict[str, Any] = {
        "max_new_tokens": longest,
        "do_sample": sampling.temperature > 0,
        "pad_token_id": tokenizer.pad_token_id or tokenizer.eos_token_id,
    }
    if sampling.temperature > 0:
        # top_k 0: the library's default of 50 is not what a server draws from.
        settings |= {"temperature": sampling.temperature, "top_k": 0}
        settings |= {"top_p": 1.0 if sampling.top_p is None else sampling.top_p}
    if sampling.stop:
        settings |= {"stop_strings": list(sampling.stop), "tokenizer": tokenizer}
    return settings


def _reply(ask: Ask, number: int, tokens: list[int], tokenizer: Any, size: int) -> Reply:
    text = tokenizer.decode(tokens, skip_special_tokens=True)
    cuts = [text.index(stop) for stop in ask.sampling.stop if stop in text]
    ended = bool(cuts) or (bool(tokens) and tokens[-1] in _ends(tokenizer))
    return Reply(
        text=text[: min(cuts)] if cuts else text,
        finish_reason="stop" if ended else "length",
        served_by=ask.model,
        seed=ask.seed(number),
        prompt_tokens=size,
        completion_tokens=len(tokens),
    )


def _ends(tokenizer: Any) -> set[int]:
    special = (tokenizer.eos_token_id, tokenizer.pad_token_id)
    return {token for token in special if token is not None}
