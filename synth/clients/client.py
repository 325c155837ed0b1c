"""An asynchronous client of one model on an OpenAI-compatible server.

Covers bounded concurrency, back-off, the store in front of the server, and what real servers do with a
request: ignore or refuse `n`, refuse a seed or an unknown parameter, need another name for the limit of
tokens, answer for any model name. Each completion is a `Reply` or a `Fault`; a run that makes no sense
(wrong key, wrong model, too many faults, nothing but reasoning) ends with `ProviderError`.

Does not judge replies and knows nothing of rows or programs. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from synth.clients.faults import FINAL, HOPELESS, Fault, fault_of, prompt_was_cut, read
from synth.clients.patience import Clock, Patience, retrying
from synth.clients.saving import Saver
from synth.clients.servers import Outcome, Server, advice
from synth.clients.waiting import Tell, Waiting, quiet
from synth.completions import Answered, Ask, CompletionStore, Refusal, Reply
from synth.errors import ConfigError, ProviderError, closest

if TYPE_CHECKING:
    from openai import AsyncOpenAI

__all__ = ["Client"]

ENOUGH = 20
"""Requests (or completions) after which a share of them says something about the run."""
CONNECT_SECONDS = 10.0
"""How long a connection may take to come about; an address that swallows packets never answers."""
LIST_SECONDS = 30.0
"""How long the list of models may take: a server that has it in memory needs milliseconds."""


class Client:
    """Asks one server. `sample` is the whole of it; `warnings` and `faults` say what was met."""

    def __init__(
        self,
        server: Server,
        store: CompletionStore,
        patience: Patience | None = None,
        *,
        offline: bool = False,
        retry_refused: bool = False,
        tell: Tell = quiet,
        clock: Clock | None = None,
    ) -> None:
        """`retry_refused`: send again what the server has refused for good in an earlier run. `tell` is
        called with a sentence when the server keeps the run waiting."""
        self.server = server
        self.store = store
        self.patience = patience or Patience()
        self.offline = offline
        self.retry_refused = retry_refused
        self.warnings: list[str] = []
        self.faults: Counter[str] = Counter()
        """Faults by kind, attempts that were repeated included."""
        self._clock = clock or Clock()
        self._api: AsyncOpenAI | None = None
        self._saver = Saver(store)
        self._waiting = Waiting(self._name(), self.patience.seconds, tell)
        self._slots = asyncio.Semaphore(self.patience.concurrency)
        self._first = asyncio.Lock()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._refused: dict[str, dict[int, Refusal]] = {}
        """What the server has refused for good in this run, by key and number."""
        self._unkept: list[Answered] = []
        """Of that, what is kept as soon as the server has answered anything."""
        self._rest_until = 0.0
        self._proven = False
        self._ended: ProviderError | None = None
        self._many = True
        self._many_worked = False
        self._seeds = True
        self._limit_name = "max_tokens"
        self._final: Counter[str] = Counter()
        self._contents: Counter[str] = Counter()

    # --- what callers use -----------------------------------------------------------------

    async def sample(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Outcome]:
        """See `Asker`. Takes from the store what is there. Raises `ProviderError` to end the run, and
        with `offline` a `ConfigError` if anything is missing."""
        lock = self._locks.setdefault(ask.key, asyncio.Lock())
        async with lock:  # who asks the same at the same time finds it in the store
            found: dict[int, Outcome] = {}
            if ask.key in self.store or ask.key in self._refused:
                # The store may be waiting for the disk; the event loop must not.
                found = await asyncio.to_thread(self._kept_outcomes, ask, numbers)
            missing = [number for number in numbers if number not in found]
            if missing and self.offline:
                raise ConfigError(
                    f"--offline: {len(missing)} completions of {ask.model!r} that this run needs are not"
                    f" in {str(self.store.path)!r}; give the same command without --offline"
                )
            if missing:
                found |= await self._fetch(ask, missing)
        replies = [outcome for outcome in found.values() if isinstance(outcome, Reply)]
        if cut := prompt_was_cut(ask, replies):
            self.faults[cut.kind] += 1
            return dict.fromkeys(numbers, cut)
        return {number: found[number] for number in numbers}

    async def check(self) -> None:
        """Ask the server which models it has; ends the run if ours is not one of them.

        Some servers answer for any name with the one model they have, and the labels would carry a
        wrong name. A server without such a list is taken at its word.
        """
        if self.offline:
            return
        self._waiting.expects(self.patience.attempts * self._list_seconds)
        outcome: Any = await retrying(self.patience, "models", self._clock.sleep)(self._list_models)
        self._waiting.over()
        if isinstance(outcome, Fault):
            if outcome.kind in ("unreachable", "denied", "unavailable"):
                raise ProviderError(f"{self._name()}: {outcome}. {advice(outcome)}")
            return
        if outcome and self.server.model not in outcome:
            listed = ", ".join(outcome[:5])
            raise ProviderError(
                f"{self.server.base_url} has no model {self.server.model!r}; it has {listed}"
                f"{closest(self.server.model, outcome)}: give one of them with --model"
            )

    async def drain(self) -> None:
        """Return when everything that has been answered is on the disk."""
        await self._saver.drain()

    async def close(self) -> None:
        """Keep what has been answered and let go of the connections."""
        self._waiting.over()
        await self.drain()
        if self._api is not None:
            await self._api.close()

    # --- completions ----------------------------------------------------------------------

    def _kept_outcomes(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Outcome]:
        """What the store holds of a request: replies, and ends that are final."""
        found: dict[int, Outcome] = dict(self.store.replies(ask, numbers))
        refusals = dict(self._refused.get(ask.key, {}))
        if not self.retry_refused or self.offline:
            earlier = self.store.refusals(ask, [n for n in numbers if n not in found])
            if earlier.keys() - refusals.keys() and _REFUSED_BEFORE not in self.warnings:
                self._warn(_REFUSED_BEFORE)
            refusals = earlier | refusals
        return {n: Fault(one.kind, one.detail) for n, one in refusals.items()} | found

    async def _fetch(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Outcome]:
        found: dict[int, Outcome] = {}
        # One request for all where they are neighbours, as their seeds must be.
        if self._many and 1 < len(numbers) == numbers[-1] - numbers[0] + 1:
            outcome = await self._request(ask, numbers[0], len(numbers))
            if isinstance(outcome, Fault):
                if outcome.kind != "refused":
                    return dict.fromkeys(numbers, outcome)
                self._only_single("refuses")
            else:
                found |= outcome
                # A server that has given several before has not forgotten how.
                self._many_worked |= len(outcome) == len(numbers)
                if not self._many_worked:
                    self._only_single("ignores")
        rest = [number for number in numbers if number not in found]
        outcomes = await asyncio.gather(*(self._request(ask, number, 1) for number in rest))
        for number, outcome in zip(rest, outcomes, strict=True):
            found[number] = outcome if isinstance(outcome, Fault) else outcome[number]
        return found

    def _only_single(self, does: str) -> None:
        if self._many:
            self._many = False
            self._warn(f"{self._name()} {does} n > 1; completions are asked for one by one")

    async def _request(self, ask: Ask, first: int, count: int) -> dict[int, Reply] | Fault:
        """One request, repeated until it is answered or given up."""
        # Until something has worked, one request at a time: a wrong setting costs one request.
        async with self._first:
            if self._ended is not None:
                raise self._ended
            if count > 1 and not self._many:
                return Fault("refused", "n > 1, as an answer has shown in the meantime")
            self._proven = self._proven or self.store.note(_worked(ask)) is not None
            if not self._proven:
                outcome = self._settled(await self._repeat(ask, first, count), count)
                if self._proven:
                    self.store.keep_note(_worked(ask), "yes")
                await self._keep_refusals(ask, range(first, first + count), outcome)
                return outcome
        outcome = self._settled(await self._repeat(ask, first, count), count)
        await self._keep_refusals(ask, range(first, first + count), outcome)
        return outcome

    async def _keep_refusals(
        self, ask: Ask, numbers: Sequence[int], outcome: dict[int, Reply] | Fault
    ) -> None:
        """Keep an end that the same request would meet again."""
        # A refusal of several may be about n; then the completions are asked for one by one.
        about_n = isinstance(outcome, Fault) and outcome.kind == "refused" and len(numbers) > 1
        if isinstance(outcome, Fault) and outcome.kind in FINAL and not about_n:
            refused = dict.fromkeys(numbers, Refusal(outcome.kind, outcome.detail))
            self._refused.setdefault(ask.key, {}).update(refused)
            self._unkept.append(Answered(ask, {}, refused=refused))
        # A server that answers nobody may refuse all requests alike, for what it was started with.
        if self._unkept and self._final["answered"]:
            unkept, self._unkept = self._unkept, []
            await asyncio.gather(*map(self._saver.save, unkept))

    async def _repeat(self, ask: Ask, first: int, count: int) -> dict[int, Reply] | Fault:
        rule = retrying(self.patience, f"{ask.key}:{first}", self._clock.sleep)
        empty: list[Answered] = []
        outcome: dict[int, Reply] | Fault = await rule(self._attempt, ask, first, count, empty)
        while isinstance(outcome, Fault) and self._without_what_was_refused(outcome):
            outcome = await rule(self._attempt, ask, first, count, empty)
        if isinstance(outcome, Fault) and outcome.kind == "no_content":
            # Again and again: this is what the model does, not what the server did once.
            return await self._kept(empty[-1])
        return outcome

    def _settled(self, outcome: dict[int, Reply] | Fault, count: int) -> dict[int, Reply] | Fault:
        """Counts a final outcome, and ends the run if it or the share of faults calls for that."""
        if not isinstance(outcome, Fault):
            self._proven = True
            self._final["answered"] += 1
            self._look_at_contents(outcome.values())
            return outcome
        if outcome.kind == "refused" and count > 1:
            return outcome  # asked again one by one
        wrong_setting = outcome.kind == "refused" and not self._proven
        if wrong_setting or outcome.kind in HOPELESS:
            raise self._end(f"{self._name()}: {outcome}. {advice(outcome)}")
        self._final[outcome.kind] += 1
        total = sum(self._final.values())
        failed = total - self._final["answered"]
        if total >= ENOUGH and failed > self.patience.max_failures * total:
            raise self._end(
                f"{failed} of {total} requests to {self._name()} failed, more than the share of"
                f" {self.patience.max_failures:g} that is let pass (--max-failures); the last one:"
                f" {outcome}. What was answered is kept: give the same command again to go on"
            )
        return outcome

    def _end(self, why: str) -> ProviderError:
        """The end of the run, for this request and all that are still waiting."""
        self._ended = ProviderError(why)
        return self._ended

    def _without_what_was_refused(self, fault: Fault) -> bool:
        """Whether the request is worth another try without a parameter that the server refused."""
        if fault.kind != "refused":
            return False
        said = fault.detail.lower()
        if self._limit_name == "max_tokens" and "max_completion_tokens" in said:
            self._limit_name = "max_completion_tokens"
            return True
        if self._seeds and "seed" in said:
            self._seeds = False
            self._warn(f"{self._name()} refuses a seed; its completions cannot be asked for again")
            return True
        return False

    def _look_at_contents(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            self._contents["all"] += 1
            self._contents["none"] += reply.text is None
        if self._contents["all"] >= ENOUGH and 2 * self._contents["none"] > self._contents["all"]:
            raise self._end(
                f"{self._contents['none']} of {self._contents['all']} answers of {self._name()} have no"
                " content. A reasoning parser puts all text elsewhere, or the limit of tokens ends the"
                " reasoning: start the server without the parser, or raise --max-tokens"
            )

    # --- one attempt ----------------------------------------------------------------------

    async def _attempt(
        self, ask: Ask, first: int, count: int, empty: list[Answered]
    ) -> dict[int, Reply] | Fault:
        seed = ask.seed(first) if self._seeds else None
        async with self._slots:
            await self._rest()
            if self._ended is not None:
                raise self._ended
            try:
                with self._waiting.under_way():
                    response = await self._send(ask, seed, count)
            except Exception as error:
                fault = fault_of(error, now=time.time())
                if fault is None:
                    raise
                return self._met(fault)
        self._waiting.over()
        found = read(response, count, seed)
        if isinstance(found, Fault):
            return self._met(found)
        replies = dict(zip(range(first, first + count), found, strict=False))
        usage = getattr(response, "usage", None)
        answered = Answered(
            ask,
            replies,
            getattr(usage, "prompt_tokens", None) or 0,
            getattr(usage, "completion_tokens", None) or 0,
        )
        if any(reply.text is None and not reply.truncated for reply in found):
            empty.append(answered)
            return self._met(Fault("no_content", "content is null"))
        return await self._kept(answered)

    async def _kept(self, answered: Answered) -> dict[int, Reply]:
        # Paid for: kept even if the run is being stopped.
        await asyncio.shield(self._saver.save(answered))
        return dict(answered.replies)

    async def _rest(self) -> None:
        """Wait as long as the server has asked anyone of this run to wait."""
        while (left := self._rest_until - self._clock.now()) > 0:
            await self._clock.sleep(left)

    def _met(self, fault: Fault) -> Fault:
        self.faults[fault.kind] += 1
        self._waiting.met(fault)
        if fault.retry_after and fault.retry_after <= self.patience.seconds:
            until = self._clock.now() + fault.retry_after
            self._rest_until = max(self._rest_until, until)
        return fault

    async def _send(self, ask: Ask, seed: int | None, count: int) -> Any:
        sampling = ask.sampling
        body: dict[str, Any] = {"temperature": sampling.temperature}
        if sampling.top_p is not None:
            body["top_p"] = sampling.top_p
        if sampling.stop:
            body["stop"] = list(sampling.stop)
        if seed is not None:
            body["seed"] = seed
        if count > 1:
            body["n"] = count
        extra = json.loads(sampling.extra)
        if self._limit_name == "max_tokens":
            body["max_tokens"] = sampling.max_tokens
        else:  # a parameter that older clients do not know
            extra[self._limit_name] = sampling.max_tokens
        api = self._client()
        if ask.endpoint == "completion":
            return await api.completions.create(
                model=ask.model, prompt=ask.text, extra_body=extra or None, **body
            )
        messages: Any = [{"role": role, "content": content} for role, content in ask.messages]
        return await api.chat.completions.create(
            model=ask.model, messages=messages, extra_body=extra or None, **body
        )

    async def _list_models(self) -> list[str] | Fault:
        try:
            page = await self._client().models.list(timeout=self._limits(self._list_seconds))
        except Exception as error:
            fault = fault_of(error, now=time.time())
            if fault is None:
                raise
            self._waiting.met(fault)
            return fault
        listed = getattr(page, "data", None) or []
        return [str(model.id) for model in listed if getattr(model, "id", None)]

    def _client(self) -> AsyncOpenAI:
        if self._api is None:
            from openai import AsyncOpenAI

            self._api = AsyncOpenAI(
                base_url=self.server.base_url,
                api_key=self.server.api_key or "none",
                timeout=self._limits(self.patience.timeout),
                max_retries=0,
            )
        return self._api

    @property
    def _list_seconds(self) -> float:
        return min(self.patience.timeout, LIST_SECONDS)

    def _limits(self, seconds: float) -> Any:
        from openai import Timeout

        return Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))

    def _warn(self, text: str) -> None:
        self.warnings.append(text)

    def _name(self) -> str:
        return f"{self.server.model} at {self.server.base_url}"


_REFUSED_BEFORE = (
    "the server refused some requests for good in an earlier run; they are not sent again (if it has been"
    " started with other settings since, --retry-refused sends them)"
)


def _worked(ask: Ask) -> str:
    """Name of the note that a server has answered under these settings, in this run or before."""
    settings = (ask.model, ask.endpoint, ask.sampling)
    return f"worked:{hashlib.sha256(repr(settings).encode()).hexdigest()}"
