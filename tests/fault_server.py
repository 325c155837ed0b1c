"""A model server for tests: real HTTP on 127.0.0.1, an honest stub of known skill, and every fault.

`StubServer` answers chat and text completions from a function of (prompt, seed). Choice j of a request
with seed s is what a single request with seed s + j would get, as with llama.cpp. A `Schedule` draws
faults from a seed, so a run meets the same share of faults every time. It logs what it gave away, so a
test can say that nothing was paid for twice.

Also a program: `python tests/fault_server.py` prints its address and echoes, for tests of throughput.
"""

from __future__ import annotations

import asyncio
import email.utils
import hashlib
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

TRANSIENT = (
    "429", "429_date", "503", "500", "reset", "hang", "html_200", "html_502", "broken_json",
    "no_choices", "null_choices", "error_200", "no_content", "one_choice",
)  # fmt: skip
"""Faults that a second attempt may not meet."""

HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def unit(*parts: object) -> float:
    """A number in [0, 1) that the parts decide."""
    digest = hashlib.sha256("\x00".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:7], "big") / 2**56


@dataclass
class Answer:
    """What the model says."""

    text: str | None
    finish_reason: str = "stop"
    reasoning: str | None = None
    prompt_tokens: int | None = None
    """None: as many as the prompt has."""
    error: tuple[int, str] | None = None
    """Status and message with which this prompt is refused, always."""


Model = Callable[[str, int], "Answer | str"]
"""(prompt text, seed) -> what is said."""


@dataclass
class Schedule:
    """Which request meets which fault."""

    share: float = 0.3
    seed: int = 0
    kinds: tuple[str, ...] = TRANSIENT
    met: Counter[str] = field(default_factory=Counter)

    def draw(self, number: int) -> str | None:
        """The fault of request `number`, or None."""
        rng = random.Random(f"{self.seed}:{number}")
        if rng.random() >= self.share:
            return None
        return rng.choice(self.kinds)


@dataclass
class StubServer:
    """The server; use `serving`."""

    model: Model
    name: str = "stub"
    schedule: Schedule | None = None
    script: Callable[[int, dict[str, Any]], tuple[int, dict[str, str], str] | None] | None = None
    """(request number, body) -> status, headers, body to send instead; None to answer honestly."""
    ignores_n: bool = False
    refuses: tuple[str, ...] = ()
    """Keys of the body that it does not know."""
    lists_models: bool = True
    hang_seconds: float = 1.0
    delay: float = 0.0
    base_url: str = ""
    requests: int = 0
    """Requests for completions, faults included."""
    given: list[tuple[str, int]] = field(default_factory=list)
    """(prompt digest, seed) of every completion that was sent without a fault."""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    keep_bodies: bool = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, any number of requests."""
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ", 2)[1].decode()
                size = next(
                    (int(line.partition(b":")[2]) for line in head.split(b"\r\n")
                     if line.lower().startswith(b"content-length")), 0,
                )  # fmt: skip
                body = json.loads(await reader.readexactly(size)) if size else {}
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
                try:
                    if not await self._answer(path, body, writer):
                        return
                finally:
                    self.at_once -= 1
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the client, or the whole server, has gone
        finally:
            writer.close()

    async def _answer(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        if path.endswith("/models"):
            if not self.lists_models:
                await _send(writer, 404, {}, "{}")
                return True
            listed = {"object": "list", "data": [{"id": self.name, "object": "model"}]}
            await _send(writer, 200, {}, json.dumps(listed))
            return True
        number, self.requests = self.requests, self.requests + 1
        if self.keep_bodies:
            self.bodies.append(body)
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.script is not None and (told := self.script(number, body)) is not None:
            await _send(writer, *told)
            return True
        fault = self.schedule.draw(number) if self.schedule else None
        if fault is None:
            await _send(writer, *self._honest(path, body))
            return True
        assert self.schedule is not None
        self.schedule.met[fault] += 1
        return await self._fail(fault, path, body, writer)

    def _honest(
        self, path: str, body: dict[str, Any], most: int | None = None
    ) -> tuple[int, dict[str, str], str]:
        for key in self.refuses:
            if key in body:
                return 422, {}, json.dumps({"detail": f"unknown field {key!r}"})
        chat = path.endswith("/chat/completions")
        prompt = prompt_of(body)
        count = 1 if self.ignores_n else body.get("n", 1)
        seed = body.get("seed", random.getrandbits(30))
        choices, tokens, prompt_tokens = [], 0, max(1, len(prompt.encode()) // 4)
        for place in range(min(count, most or count)):
            said = self.model(prompt, seed + place)
            answer = Answer(said) if isinstance(said, str) else said
            if answer.error:
                status, message = answer.error
                return status, {}, json.dumps({"error": {"message": message}})
            prompt_tokens = answer.prompt_tokens or prompt_tokens
            tokens += len(answer.text or "") // 4 + 1
            choice: dict[str, Any] = {"index": place, "finish_reason": answer.finish_reason}
            if chat:
                choice["message"] = {"role": "assistant", "content": answer.text}
                if answer.reasoning is not None:
                    choice["message"]["reasoning_content"] = answer.reasoning
            else:
                choice["text"] = answer.text
            choices.append(choice)
            self.given.append((hashlib.sha256(prompt.encode()).hexdigest()[:16], seed + place))
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}
        usage["total_tokens"] = prompt_tokens + tokens
        kind = "chat.completion" if chat else "text_completion"
        data = {"id": "x", "object": kind, "created": 0, "model": self.name}
        return 200, {}, json.dumps({**data, "choices": choices, "usage": usage})

    async def _fail(
        self, fault: str, path: str, body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> bool:
        """Send a fault; False if the connection is gone."""
        date = email.utils.formatdate(time.time(), usegmt=True)
        message = json.dumps({"error": {"message": f"injected {fault}"}})
        blank = {"id": "x", "object": "chat.completion", "created": 0, "model": self.name}
        empty = {"role": "assistant", "content": None, "reasoning_content": "<answer>1</answer>"}
        contentless = [{"index": 0, "message": empty, "finish_reason": "stop"}]
        told: dict[str, tuple[int, dict[str, str], str]] = {
            "429": (429, {"Retry-After": "0.01"}, message),
            "429_date": (429, {"Retry-After": date}, message),
            "503": (503, {}, message),
            "500": (500, {}, message),
            "html_200": (200, {"Content-Type": "text/html"}, HTML),
            "html_502": (502, {"Content-Type": "text/html"}, HTML),
            "broken_json": (200, {}, '{"choices": [{"index": 0, "mess'),
            "no_choices": (200, {}, json.dumps({**blank, "choices": []})),
            "null_choices": (200, {}, json.dumps({**blank, "choices": None})),
            "error_200": (200, {}, message),
            "no_content": (200, {}, json.dumps({**blank, "choices": contentless})),
        }
        if fault in told:
            await _send(writer, *told[fault])
            return True
        if fault == "one_choice":
            await _send(writer, *self._honest(path, body, most=1))
            return True
        if fault == "hang":
            await asyncio.sleep(self.hang_seconds)
        else:
            # Half an answer, then a reset.
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
            )
            await writer.drain()
        return False


async def _send(
    writer: asyncio.StreamWriter, status: int, headers: dict[str, str], body: str
) -> None:
    data = body.encode()
    fields = {"Content-Type": "application/json", **headers, "Content-Length": str(len(data))}
    lines = [f"HTTP/1.1 {status} X", *(f"{name}: {value}" for name, value in fields.items())]
    writer.write("\r\n".join([*lines, "", ""]).encode() + data)
    await writer.drain()


def prompt_of(body: dict[str, Any]) -> str:
    """The text of a request's prompt: that of its messages, joined."""
    if "prompt" in body:
        return str(body["prompt"])
    return "\n\n".join(message["content"] for message in body["messages"])


@contextmanager
def serving(server: StubServer) -> Iterator[StubServer]:
    """Runs the server in a thread; its address is in `base_url`."""
    loop = asyncio.new_event_loop()
    started = threading.Event()
    stop = asyncio.Event()

    async def main() -> None:
        listener = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 24)
        server.base_url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
        started.set()
        async with listener:
            await stop.wait()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    thread = threading.Thread(target=loop.run_until_complete, args=(main(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()


def main() -> None:
    """An honest server until standard input ends."""
    server = StubServer(lambda prompt, seed: f"{len(prompt)} {seed}", keep_bodies=False)
    with serving(server):
        print(server.base_url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
