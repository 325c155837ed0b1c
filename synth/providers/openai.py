"""Programs from a model: the provider that asks any OpenAI-compatible server.

Covers the request for a program, follow-up turns that name a broken rule, and the bridge from the threads
of a run to the one event loop of the client. Every completion goes through the completion store, so an
interrupted run pays for nothing twice. Does not look at what comes back: prose and several code blocks are
the matter of `synth.programs`. Does not import `openai` itself (`synth.clients` does, on use).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from synth.clients import Client, Fault, Outcome, Patience, Server
from synth.clients.faults import OF_THE_PROMPT
from synth.completions import Ask, CompletionStore, Sampling
from synth.constraints import Constraint, rules_of
from synth.errors import ConfigError, ProgramRejected, ProviderError
from synth.prompts import Messages, Prompt
from synth.providers.base import Completion

__all__ = ["MAX_REPAIRS", "REPAIR_VERSION", "OpenAIProvider", "Turn", "repair_messages"]

REPAIR_VERSION = "repair-1"
MAX_REPAIRS = 5
SAMPLING = Sampling(temperature=1.0, max_tokens=4096)

T = TypeVar("T")


@dataclass(frozen=True)
class Turn:
    """A completion that was no program of its constraint, and why."""

    text: str
    rule: str
    """Short name, as in the funnel."""
    detail: str = ""


class OpenAIProvider:
    """See `synth.providers.Provider`. Any number of threads may ask; `close` ends their waiting.

    `repairs`: follow-up turns that a caller may ask for after a rejected completion, 0 to 5.
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
        self._client = Client(server, store, patience, offline=offline)
        self._closed = False

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
        content, refused by a filter), `ProviderError` if the server gives nothing, to be resumed.
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

    def prefetch(self, prompts: Sequence[Prompt]) -> None:
        """Send for completions that will be asked for soon; does not wait and raises nothing.

        A run whose workers ask one prompt at a time keeps the server busy this way.
        """
        for prompt in prompts:
            # What goes wrong is told to whoever asks for the completion.
            self._submit(self._drawn(self._ask(prompt, prompt.messages)))

    def close(self) -> None:
        """Keep what has been answered, call the rest off and let go; may be called again."""
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
        if isinstance(outcome, Fault):
            if outcome.kind in OF_THE_PROMPT:
                raise ProgramRejected(outcome.kind, outcome.detail)
            raise ProviderError(
                f"{self.name} at {self._server.base_url}: {outcome}; what was answered is kept: give"
                " the same command with --resume"
            )
        if outcome.truncated:
            raise ProgramRejected("truncated", "the completion was cut at the limit of tokens")
        if outcome.text is None:
            raise ProgramRejected("no_content", "the completion holds reasoning at most")
        return Completion(prompt.id, outcome.text, self.name)


# ------------------------------------------------------------------------------- follow-up turns


def repair_messages(prompt: Prompt, turns: Sequence[Turn]) -> Messages:
    """The conversation that asks for a better program (version id `REPAIR_VERSION`)."""
    messages = list(prompt.messages)
    for turn in turns:
        messages.append(("assistant", turn.text))
        messages.append(("user", _complaint(prompt.constraint, turn)))
    return tuple(messages)


# Rules that no constraint holds: about the completion as a whole, or about what happened when it ran.
_SAID = {
    "no_program": "Your answer holds no complete program in a closed code block.",
    "syntax": "The program is not valid Python.",
    "too_long": "The program is too long.",
    "truncated": "Your answer was cut off before its end: be brief.",
    "hash_seed_dependent": "The result depends on the order of a set or on a hash.",
    "seed_raised": "The call in the program raises an exception.",
    "seed_timed_out": "The call in the program does not end in time.",
}


def _complaint(constraint: Constraint, turn: Turn) -> str:
    sentences = {rule.name: rule.sentence(constraint) for rule in rules_of(constraint)}
    if turn.rule in sentences:
        broken = f"The program breaks this rule: {sentences[turn.rule]}"
    else:
        broken = _SAID.get(turn.rule, f"The program cannot be used ({turn.rule}).")
    found = f" Found: {turn.detail}." if turn.detail else ""
    return (
        f"{broken}{found}\n\nChange the program so that this rule and all others hold. Answer with the"
        " whole program alone, in one ```python block."
    )
