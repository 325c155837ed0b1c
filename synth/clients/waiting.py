"""What is told while a server keeps a run waiting: what for, how long at most, how long so far.

Covers when to tell and in which words. Where the words go is the caller's matter, and so is the waiting
itself (`patience.py`). Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from synth.clients.faults import KINDS, PATIENT, Fault

__all__ = ["AGAIN_SECONDS", "FIRST_SECONDS", "Tell", "Waiting", "quiet"]

Tell = Callable[[str], None]
"""Called with a sentence for the user, from the thread of the client's event loop."""

FIRST_SECONDS = 1.5
"""A wait of so many seconds is told: shorter ones are the ordinary course under load."""
AGAIN_SECONDS = 30.0
"""So often it is told again, with the seconds so far."""

LOOK_SECONDS = 0.2


def quiet(text: str) -> None:
    """Tells nobody."""


class Waiting:
    """Tells of one server's waits. A wait begins with a fault that may pass and ends with an answer."""

    def __init__(
        self,
        name: str,
        most: float,
        tell: Tell,
        *,
        first: float = FIRST_SECONDS,
        again: float = AGAIN_SECONDS,
    ) -> None:
        self._name = name
        self._most = most
        self._tell = tell
        self._first = first
        self._again = again
        self._why = self._bound = ""
        self._nobody = True
        self._sent = 0
        self._task: asyncio.Task[None] | None = None

    def met(self, fault: Fault) -> None:
        """A request met a fault; begins a wait if it is one that waiting helps."""
        if fault.kind in PATIENT:
            said = f" ({fault.detail})" if fault.detail else ""
            self._nobody = fault.kind == "unreachable"
            self._begin(f"{KINDS[fault.kind]}{said}", f"{self._most:.0f} s (--patience)")

    def expects(self, seconds: float) -> None:
        """An answer is awaited, for `seconds` at most, that a server in good order gives at once."""
        self._nobody = True
        self._begin("no answer yet", f"{seconds:.0f} s")

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around a request for completions. A server that has taken one in is at work, and keeps nobody
        waiting, even if it told others to wait."""
        self._sent += 1
        try:
            yield
        finally:
            self._sent -= 1

    def over(self) -> None:
        """The server has answered, or nobody waits any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _begin(self, why: str, most: str) -> None:
        self._why, self._bound = why, most
        if self._task is None and self._tell is not quiet:
            self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        start = loop.time()
        await asyncio.sleep(self._first)
        await self._idle()
        self._tell(
            f"waiting up to {self._bound} for {self._name}: {self._why}. Ctrl-C stops; what was answered"
            " is kept"
        )
        while True:
            await asyncio.sleep(self._again)
            await self._idle()
            waited = loop.time() - start
            self._tell(f"still waiting for {self._name}, {waited:.0f} s so far: {self._why}")

    async def _idle(self) -> None:
        """Returns when no request is under way, if one that is may be served."""
        while self._sent and not self._nobody:
            await asyncio.sleep(LOOK_SECONDS)
