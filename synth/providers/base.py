"""The interface of every provider: prompts in, completions out.

Covers the records and the protocols. Nothing downstream asks who wrote a completion, only whether it
has to be waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from synth.prompts import Prompt

MAX_REPAIRS = 5
"""Most follow-up turns for one prompt: a conversation grows with each, and so does its price."""


@dataclass(frozen=True)
class Completion:
    """What a provider returned for one prompt, once."""

    prompt_id: str
    text: str
    provider: str


class Provider(Protocol):
    """Source of completions, local or remote."""

    name: str

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One completion per prompt, in the same order.

        Raises `ProviderError` if none can be had: the run ends. A bad completion is returned, not
        raised; where there is nothing to return, `ProgramRejected` says so: `truncated` (cut at the
        limit of tokens), `no_content`, `filtered` (by the server), `too_long` (the prompt), `prompt_cut`
        (by the server, silently), `refused` (this one prompt).
        """
        ...


@runtime_checkable
class Remote(Provider, Protocol):
    """A provider whose completions take their time and are paid for. Any thread may use it."""

    def prefetch(self, prompts: Sequence[Prompt]) -> None:
        """Send for completions that will be asked for soon; does not wait and raises nothing."""
        ...

    def close(self) -> None:
        """Keep what has been answered, call the rest off, end all waiting; may be called again."""
        ...
