"""Where a model is, and the interface of whoever asks it.

Covers the address of a server, the interface that servers and local models share, and what to advise a
user whom a server turns away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from synth.clients.faults import Fault
from synth.completions import ENDPOINTS, Ask, Reply
from synth.errors import ConfigError, closest

__all__ = ["Asker", "Outcome", "Server", "advice"]

Outcome = Reply | Fault


@dataclass(frozen=True)
class Server:
    """Where a model is, and how it is called there."""

    model: str
    base_url: str = "http://127.0.0.1:8000/v1"
    api_key: str = ""
    """Empty for servers that want none."""
    endpoint: str = "chat"
    """One of `synth.completions.ENDPOINTS`."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("no model is named; expected --model NAME")
        if not self.base_url.startswith(("http://", "https://")):
            raise ConfigError(
                f"the base URL is {self.base_url!r}; expected http://… or https://…, such as"
                " http://127.0.0.1:8000/v1"
            )
        if self.endpoint not in ENDPOINTS:
            raise ConfigError(
                f"--endpoint is {self.endpoint!r}; expected one of {', '.join(ENDPOINTS)}"
                f"{closest(self.endpoint, ENDPOINTS)}"
            )


class Asker(Protocol):
    """Whoever gives completions by number: a server's client, or a model in this process."""

    warnings: list[str]
    """What a user should know of this run, in sentences."""
    faults: Counter[str]
    """Faults met by kind, those of attempts that were repeated included."""

    async def check(self) -> None:
        """See that the model is there; ends the run with `ProviderError` if it is not."""
        ...

    async def sample(self, ask: Ask, numbers: Sequence[int]) -> dict[int, Outcome]:
        """Completions `numbers` of a request, each a reply or the fault for which there is none."""
        ...

    async def close(self) -> None:
        """Keep what is under way and let go of the connections."""
        ...


def advice(fault: Fault) -> str:
    """What a user may do about a fault that ends a run."""
    if fault.kind == "unreachable":
        return "Start the server, or give its address with --base-url"
    if fault.kind == "denied":
        return "Give the variable that holds the key with --api-key-env, or look at the account"
    if fault.kind == "not_found":
        return "Look at --base-url (it usually ends in /v1), --endpoint and --model"
    if fault.kind == "unavailable":
        return "Wait until it is ready, or raise --patience"
    return "Change the setting that the server names"
