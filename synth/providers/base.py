"""The interface of every provider: prompts in, completions out.

Covers the records and the protocol. Nothing downstream asks who wrote a completion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from synth.prompts import Prompt


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

        Raises `ProviderError` if none can be had; a bad completion is returned, not raised.
        """
        ...
