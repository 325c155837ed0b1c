"""Models for tests that write programs: what the grammar writes, sent as a model would send it.

Also the small run that several test files make with one.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fault_server import StubServer

from synth.clients import Patience
from synth.config import GenerateConfig, Writer
from synth.constraints import Constraint, enumerate_constraints, operations_of
from synth.engine import Finished, Reach, generate
from synth.journal import JOURNAL, STORE
from synth.prompts import program_prompt
from synth.providers.grammar import GrammarProvider

Spoiler = Callable[[Constraint, int, str], str]
"""(constraint, seed of the request, a good program in its block) -> what is sent instead."""

FOLLOW_UP = "Change the program so that"


class GrammarModel:
    """Answers the prompts of a run with programs of the grammar, prose and a second block around them.

    `spoil` may replace the answer to a first prompt; a follow-up turn is answered with the good program.
    """

    def __init__(
        self, config: GenerateConfig, spoil: Spoiler | None = None, slots: int = 400
    ) -> None:
        every = enumerate_constraints(
            operations_of(config.types or None), config.depth, config.seed, config.wanted_levels
        )
        self.constraints = {
            text_of(constraint): constraint for constraint in itertools.islice(every, slots)
        }
        self.spoil = spoil
        self.follow_ups: list[str] = []
        """The last user turns of the conversations that went on."""

    def __call__(self, prompt: str, seed: int) -> str:
        first, _, rest = prompt.partition(BLOCK)
        constraint = self.constraints[first + BLOCK]
        asked = program_prompt(constraint, id=str(seed), seed=str(seed))
        text = GrammarProvider().complete([asked])[0].text
        if FOLLOW_UP in rest:
            self.follow_ups.append(rest)
        elif self.spoil is not None:
            text = self.spoil(constraint, seed, text)
        return f"Sure! Here it is:\n\n{text}\n\nIt prints this:\n```\n42\n```\nEnjoy."


BLOCK = "in one ```python block."
"""How the first prompt ends."""


def text_of(constraint: Constraint) -> str:
    """The prompt for a program of a constraint, as the server sees it."""
    asked = program_prompt(constraint, id="", seed="")
    return "\n\n".join(content for _, content in asked.messages)


# ------------------------------------------------------------------------------------------- runs


CONFIG = GenerateConfig(
    depth=1, rows=24, types=("str", "list"), provider="openai", writer=Writer("stub")
)
WORDS = (
    *("--depth", "1", "-n", "24", "--types", "str,list"),
    *("--provider", "openai", "--model", "stub"),
)
"""The options that give `CONFIG`."""


def made(
    folder: Path,
    server: StubServer,
    config: GenerateConfig = CONFIG,
    *,
    jobs: int = 2,
    concurrency: int = 8,
    offline: bool = False,
    patience: dict[str, Any] | None = None,
    **settings: Any,
) -> Finished:
    """A run against a server."""
    bounds = {"timeout": 5.0, "attempts": 10, "first_wait": 0.002, **(patience or {})}
    reach = Reach(
        server.base_url, patience=Patience(concurrency=concurrency, **bounds), offline=offline
    )
    return generate(config, folder, jobs=jobs, reach=reach, **settings)


def files(folder: Path) -> dict[str, bytes]:
    """What a dataset consists of, without journal, store and the number of workers."""
    found = {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith((JOURNAL, STORE, "manifest"))
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["run"]
    return found | {"manifest": json.dumps(manifest).encode()}
