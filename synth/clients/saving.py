"""Answers on their way to the store: many at a time, each on the disk before it may be used.

Covers the batching of commits, so that forcing to the disk never holds up the event loop.
"""

from __future__ import annotations

import asyncio

from synth.completions import Answered, CompletionStore

__all__ = ["Saver"]


class Saver:
    """Writes to a store from one event loop."""

    def __init__(self, store: CompletionStore) -> None:
        self._store = store
        self._waiting: list[tuple[Answered, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def save(self, answered: Answered) -> None:
        """Returns when the answer is on the disk. Raises what the store raises."""
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((answered, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        await done

    async def drain(self) -> None:
        """Returns when nothing is left to write."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                error = await self._commit(batch)
                for _, done in batch:
                    if done.done():
                        continue
                    if error is None:
                        done.set_result(None)
                    else:
                        done.set_exception(error)
        finally:
            self._writing = None

    async def _commit(self, batch: list[tuple[Answered, asyncio.Future[None]]]) -> Exception | None:
        try:
            await asyncio.to_thread(self._store.put, *(answered for answered, _ in batch))
        except Exception as error:
            return error
        return None
