"""Providers by name. Loaded on use: the grammar needs nothing, a server needs its client."""

from __future__ import annotations

from synth.errors import ConfigError, closest
from synth.providers.base import Completion, Provider

NAMES = ("grammar",)


def provider(name: str) -> Provider:
    """The provider called `name`. Raises `ConfigError` with the nearest names for an unknown one."""
    if name == "grammar":
        from synth.providers.grammar import GrammarProvider

        return GrammarProvider()
    raise ConfigError(
        f"--provider is {name!r}; expected one of {', '.join(NAMES)}{closest(name, NAMES)}"
    )


__all__ = ["NAMES", "Completion", "Provider", "provider"]
