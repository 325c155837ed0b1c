"""From a prompt to a program, with follow-up turns where the provider offers them.

Covers the bounded loop: ask, examine, name the broken rule, ask again. What is examined, and how, is the
caller's matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar, runtime_checkable

from synth.errors import ProgramRejected
from synth.prompts import Prompt, Turn
from synth.providers import Completion, Provider

__all__ = ["Repairing", "first_that_holds"]

T = TypeVar("T")


@runtime_checkable
class Repairing(Protocol):
    """A provider that can be told what was wrong."""

    repairs: int
    """Most follow-up turns for one prompt."""

    def repair(self, prompt: Prompt, turns: Sequence[Turn]) -> Completion:
        """Another completion, after what was wrong with those before has been said."""
        ...


def first_that_holds(
    provider: Provider,
    prompt: Prompt,
    examine: Callable[[str], T],
    rejected: Callable[[ProgramRejected], None] = lambda why: None,
) -> T | None:
    """What `examine` makes of the first completion that it accepts; None if it accepts none.

    `examine` raises `ProgramRejected` to refuse a text. `rejected` is called with every refusal, so that
    each completion that was asked for is counted once. Raises `ProviderError` as the provider does.
    """
    turns: list[Turn] = []
    repairs = provider.repairs if isinstance(provider, Repairing) else 0
    for number in range(1 + repairs):
        text = ""
        try:
            if number == 0:
                text = provider.complete([prompt])[0].text
            else:
                assert isinstance(provider, Repairing)
                text = provider.repair(prompt, turns).text
            return examine(text)
        except ProgramRejected as why:
            rejected(why)
            if not text:
                # The server gave no text to talk about; the same conversation would give none again.
                break
            turns.append(Turn(text, why.rule, why.detail))
    return None
