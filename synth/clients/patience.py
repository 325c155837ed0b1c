"""How long to wait for a server, how often to ask again, and when to give a run up.

Covers the settings and the rule for one request, for `tenacity`. What passes by waiting (429, 503, nobody
at the address) is bounded by time; what fails (5xx, broken connections, pages that are no completion) is
bounded by attempts; a wait that the server asks for is honoured.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from synth.clients.faults import PASSING, PATIENT, Fault
from synth.errors import ConfigError
from synth.seeds import rng

if TYPE_CHECKING:
    from tenacity import AsyncRetrying, RetryCallState

__all__ = ["Clock", "Patience", "retrying"]

CONTENTLESS = 4
"""Attempts at an answer without content, before that is taken for the model's answer."""
MAX_WAIT = 30.0
"""Longest back-off in seconds that we choose ourselves."""


@dataclass(frozen=True)
class Patience:
    """Bounds of a run. Raises `ConfigError` for a value out of its range."""

    concurrency: int = 16
    """Requests under way at a time, 1 to 1000."""
    timeout: float = 600.0
    """Seconds for one request, > 0."""
    attempts: int = 8
    """Attempts at a request that the server fails, >= 1."""
    seconds: float = 300.0
    """Seconds of waiting, per request, for a server that is busy, loading or away, >= 0."""
    first_wait: float = 0.5
    """Seconds before the second attempt; doubles each time, to 30."""
    max_failures: float = 0.2
    """Share of requests, 0 to 1, beyond which the run stops."""

    def __post_init__(self) -> None:
        checks = (
            ("--concurrency", self.concurrency, 1 <= self.concurrency <= 1000, "1 to 1000"),
            ("--timeout", self.timeout, 0 < self.timeout < math.inf, "seconds above 0"),
            ("attempts", self.attempts, self.attempts >= 1, "1 or more"),
            ("--patience", self.seconds, 0 <= self.seconds < math.inf, "seconds, 0 or more"),
            ("first_wait", self.first_wait, 0 <= self.first_wait <= MAX_WAIT, "seconds, 0 to 30"),
            ("--max-failures", self.max_failures, 0 <= self.max_failures <= 1, "a share, 0 to 1"),
        )
        for name, value, fine, expected in checks:
            if not fine:
                raise ConfigError(f"{name} is {value}; expected {expected}")


class Clock:
    """The time that a client lives by, so that a test need not wait."""

    def now(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Return when so much later."""
        await asyncio.sleep(seconds)


class _Attempts:
    """The attempts at one request so far, as the three questions that `tenacity` asks.

    Each is asked with the state of `tenacity`; the order in which it asks has changed between versions,
    so only `again` counts.
    """

    def __init__(self, patience: Patience, key: str) -> None:
        self.patience = patience
        self.key = key
        self.patient = 0
        self.failed = 0
        self.contentless = 0

    def again(self, outcome: object) -> bool:
        """Whether this is a fault that may pass."""
        if not isinstance(outcome, Fault) or outcome.kind not in PASSING:
            return False
        if outcome.kind in PATIENT:
            self.patient += 1
        else:
            self.failed += 1
            self.contentless += outcome.kind == "no_content"
        return True

    def wait(self, state: RetryCallState) -> float:
        """Seconds until the next attempt."""
        fault = last(state)
        if fault.retry_after is not None:
            return float(fault.retry_after)
        tries = self.patient if fault.kind in PATIENT else self.failed
        spread = rng("back-off", self.key, str(state.attempt_number)).uniform(0.75, 1.25)
        return min(MAX_WAIT, self.patience.first_wait * 2.0 ** (tries - 1)) * spread

    def stop(self, state: RetryCallState) -> bool:
        """Whether the bounds are reached."""
        if last(state).kind in PATIENT:
            return state.idle_for + self.wait(state) > self.patience.seconds
        if last(state).kind == "no_content" and self.contentless >= CONTENTLESS:
            return True
        return self.failed >= self.patience.attempts


def retrying(
    patience: Patience, key: str, sleep: Callable[[float], Awaitable[None]]
) -> AsyncRetrying:
    """The rule for one request: calls a coroutine function until it returns no passing fault.

    When the bounds are reached the last fault is returned, not raised. `key` spreads the waits of
    requests that were refused together.
    """
    import tenacity

    attempts = _Attempts(patience, key)
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_result(attempts.again),
        wait=attempts.wait,
        stop=attempts.stop,
        sleep=sleep,
        retry_error_callback=last,
    )


def last(state: RetryCallState) -> Any:
    """What the last attempt gave."""
    assert state.outcome is not None
    return state.outcome.result()
