"""Programs from a model: the provider that asks any OpenAI-compatible server.

Covers the request for a program, follow-up turns that name a broken rule, the wish for inputs, and the
bridge from the threads of a run to the one event loop of the client. Every completion goes through the
completion store, so an interrupted run pays for nothing twice. Does not look at what comes back: prose and
several code blocks are the matter of `synth.programs` and `suggestions.py`. Does not import `openai` itself
(`synth.clients` does, on use).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from synth.clients import Client, Fault, Outcome, Patience, Server, Tell, quiet
from synth.clients.faults import OF_THE_PROMPT
from synth.completions import Ask, CompletionStore, Sampling
from synth.errors import ConfigError, ProgramRejected, ProviderError
from synth.prompts import Messages, Prompt, Turn, repair_messages
from synth.providers.base import MAX_REPAIRS, Completion

__all__ = ["OpenAIProvider"]

SAMPLING = Sampling(temperature=1.0, max_tokens=4096)

T = TypeVar("T")


class OpenAIProvider:
    """See `synth.providers.Provider`. Any number of threads may ask; `close` ends their waiting.

    `repairs`: follow-up turns that a caller may ask for after a rejected completion, 0 to 5. The other
    settings are those of `synth.clients.Client`.
    """

    def __init__(
        self,
        server: Server,
        store: CompletionStore,
        *,
        sampling: Sampling = SAMPLING,
        patience: Patience | None = None,
        repairs: int = 0,
        offline: bool = False,
        retry_refused: bool = False,
        tell: Tell = quiet,
    ) -> None:
        if not 0 <= repairs <= MAX_REPAIRS:
            raise ConfigError(f"--repair is {repairs}; expected 0 to {MAX_REPAIRS}")
        if sampling.temperature == 0:
            raise ConfigError(
                "--temperature is 0: prompts for one constraint are alike, and so would be the programs;"
                " give a temperature above 0"
            )
        self.name = server.model
        self.repairs = repairs
        self._server = server
        self._sampling = sampling
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="provider", daemon=True)
        self._thread.start()
        self._client = Client(
            server, store, patience, offline=offline, retry_refused=retry_refused, tell=tell
        )
        self._closed = False
        self._lock = threading.Lock()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a user should know of this run, in sentences."""
        return tuple(self._client.warnings)

    @property
    def faults(self) -> dict[str, int]:
        """Faults met so far by kind, those included that a later attempt made good."""
        return dict(self._client.faults)

    def check(self) -> None:
        """See that the server has the model. Raises `ProviderError`."""
        self._wait(self._submit(self._client.check()))

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One completion per prompt, in the same order.

        Raises `ProgramRejected` for a completion that is none (cut at the limit of tokens, without
        content, refused by a filter, …), `ProviderError` if the server gives nothing, to be resumed.
        """
        waiting = [self._submit(self._drawn(self._ask(p, p.messages))) for p in prompts]
        return [
            self._completion(prompt, self._wait(one))
            for prompt, one in zip(prompts, waiting, strict=True)
        ]

    def repair(self, prompt: Prompt, turns: Sequence[Turn]) -> Completion:
        """Another completion, after what was wrong with those before has been said. Raises as above."""
        ask = self._ask(prompt, repair_messages(prompt, turns))
        return self._completion(prompt, self._wait(self._submit(self._drawn(ask))))

    def suggest(self, key: str, messages: Messages) -> str:
        """The answer to a wish for inputs, see `synth.providers.suggestions`. Raises as `complete`."""
        ask = Ask(
            self._server.model,
            messages,
            self._sampling,
            self._server.endpoint,
            salt=f"inputs:{key}",
        )
        return self._text(self._wait(self._submit(self._drawn(ask))))

    def prefetch(self, prompts: Sequence[Prompt]) -> None:
        """Send for completions that will be asked for soon; does not wait and raises nothing.

        A run whose workers ask one prompt at a time keeps the server busy this way.
        """
        with suppress(ProviderError):  # closed: nobody will ask any more
            for prompt in prompts:
                # What goes wrong is told to whoever asks for the completion.
                self._submit(self._drawn(self._ask(prompt, prompt.messages)))

    def close(self) -> None:
        """Keep what has been answered, call the rest off and let go; may be called again."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await self._client.drain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._client.close()

    # --- between threads and the event loop -------------------------------------------------

    def _submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        # Under the lock, so that what is submitted at all is submitted before `_end`, which ends it.
        with self._lock:
            if self._closed:
                work.close()
                raise ProviderError("the provider is closed: the run is being stopped")
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _wait(self, future: Future[T]) -> T:
        try:
            return future.result()
        except CancelledError:
            raise ProviderError("the run was stopped while a completion was awaited") from None

    async def _drawn(self, ask: Ask) -> Outcome:
        return (await self._client.sample(ask, [0]))[0]

    def _ask(self, prompt: Prompt, messages: Messages) -> Ask:
        # The seed: two slots may have one constraint and must not share a program.
        return Ask(
            self._server.model, messages, self._sampling, self._server.endpoint, salt=prompt.seed
        )

    def _completion(self, prompt: Prompt, outcome: Outcome) -> Completion:
        return Completion(prompt.id, self._text(outcome), self.name)

    def _text(self, outcome: Outcome) -> str:
        if isinstance(outcome, Fault):
            # A request that is refused while others are not: waiting will not change that.
            if outcome.kind in OF_THE_PROMPT or outcome.kind == "refused":
                raise ProgramRejected(outcome.kind, outcome.detail)
            raise ProviderError(
                f"{self.name} at {self._server.base_url}: {outcome}; what was answered is kept: give"
                " the same command with --resume"
            )
        if outcome.truncated:
            raise ProgramRejected("truncated", "the completion was cut at the limit of tokens")
        if outcome.finish_reason == "content_filter":
            raise ProgramRejected("filtered", "the server's content filter cut the completion")
        if outcome.text is None:
            raise ProgramRejected("no_content", "the completion holds reasoning at most")
        return outcome.text
