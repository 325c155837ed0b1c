"""Clients of models: an OpenAI-compatible server, or a model in this process."""

from __future__ import annotations

from synth.clients.client import Client
from synth.clients.faults import Fault
from synth.clients.patience import Patience
from synth.clients.servers import Asker, Outcome, Server
from synth.clients.waiting import Tell, quiet

__all__ = ["Asker", "Client", "Fault", "Outcome", "Patience", "Server", "Tell", "quiet"]
