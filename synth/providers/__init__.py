"""Providers by name. Loaded on use: the grammar needs nothing, a server needs its client."""

from __future__ import annotations

from typing import Any

from synth.errors import ConfigError, closest
from synth.providers.base import MAX_REPAIRS, Completion, Provider, Remote

NAMES = ("grammar", "openai")


def provider(name: str, **settings: Any) -> Provider:
    """The provider called `name`. Raises `ConfigError` with the nearest names for an unknown one.

    `settings`: what `OpenAIProvider` is made with (server, store, …); the grammar takes none.
    """
    if name == "grammar":
        from synth.providers.grammar import GrammarProvider

        return GrammarProvider(**settings)
    if name == "openai":
        from synth.providers.openai import OpenAIProvider

        return OpenAIProvider(**settings)
    raise ConfigError(
        f"--provider is {name!r}; expected one of {', '.join(NAMES)}{closest(name, NAMES)}"
    )


__all__ = ["MAX_REPAIRS", "NAMES", "Completion", "Provider", "Remote", "provider"]
