"""A dataset folder -> a file of reasoning chains for the warm-up, one JSON object a line.

Covers which rows are told (by default those of the training split alone: the others measure what was
learned), the work of several processes, and the file, which appears whole or not at all. What a chain
says, and whether it is kept, is the matter of `chains.py`.

Each line: {"id", "task", "source", "prompt": [message, …], "completion": [message]}.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewards.row import Row
from rewards.sandbox import SandboxPool
from synth.chains import Chain, Dropped, model_chains, narrated_chains
from synth.clients import Client, Patience, Server, Tell, quiet
from synth.clients.faults import KINDS, OF_THE_PROMPT
from synth.completions import CompletionStore, Sampling, Totals
from synth.dataset import read_rows
from synth.difficulty.config import SOLVER_SAMPLING
from synth.errors import ConfigError, FolderError, SynthError, closest
from synth.journal import folder_errors

__all__ = ["ALL", "Asking", "Written", "chosen_rows", "write_chains"]

ALL = "all"
"""In place of a split: all of them."""
PATIENCE = Patience()
_OF_THE_SERVER = frozenset(KINDS) - OF_THE_PROMPT

Progress = Callable[[int], None]
"""Called with the number of rows that are done."""


@dataclass(frozen=True)
class Asking:
    """The strong model that writes the chains, and how it is reached."""

    server: Server
    store: Path
    """File of completions, made if it is missing."""
    sampling: Sampling = SOLVER_SAMPLING
    tries: int = 4
    """Completions for a row before it is left out, >= 1."""
    patience: Patience = PATIENCE
    offline: bool = False
    retry_refused: bool = False
    """Send again what the server has refused for good in an earlier run."""
    tell: Tell = quiet
    """Called with a sentence when the server keeps the run waiting."""

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ConfigError(f"--tries is {self.tries}; expected 1 or more")
        if self.sampling.temperature == 0 and self.tries > 1:
            raise ConfigError(
                f"--temperature is 0 with --tries {self.tries}: all completions of a row would be one and"
                " the same; give a temperature above 0, or --tries 1"
            )


@dataclass(frozen=True)
class Written:
    """What came of a run."""

    rows: int
    chains: dict[str, int]
    """Task -> chains, most frequent first."""
    dropped: dict[str, int]
    """Reason -> rows without a chain, most frequent first."""
    totals: Totals | None = None
    """What has been asked of the model, earlier runs on the same store included."""
    faults: dict[str, int] | None = None
    """Faults met on the way by kind, those included that a later attempt made good."""
    warnings: tuple[str, ...] = ()

    @property
    def failed_share(self) -> float:
        """Share of rows, in [0, 1], that a fault of the server left without a chain."""
        failed = sum(rows for reason, rows in self.dropped.items() if reason in _OF_THE_SERVER)
        return failed / self.rows

    def to_json(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


def chosen_rows(
    source: str | Path, *, split: str = "train", limit: int | None = None
) -> tuple[Row, ...]:
    """The rows of a folder or file that chains are wanted of. Raises `UsageError` if there are none."""
    every = list(read_rows(source))
    splits = sorted({row.split for row in every})
    if split != ALL and split not in splits:
        raise ConfigError(
            f"--split is {split!r}; {str(source)!r} has {', '.join(splits) or 'no rows'}"
            f"{closest(split, splits)}"
        )
    rows = (row for row in every if split in (ALL, row.split))
    return tuple(itertools.islice(rows, limit))


def write_chains(
    rows: Sequence[Row],
    out: Path,
    *,
    asking: Asking | None = None,
    jobs: int = 1,
    overwrite: bool = False,
    progress: Progress = lambda done: None,
) -> Written:
    """Write the chains of `rows` (at least one) to the file `out`, in their order.

    Without `asking` they are narrated, offline, and equal rows give equal bytes. `jobs`: sandboxed
    processes. Raises `UsageError` for a file that cannot be written, `ProviderError` if the model cannot
    be asked, `SynthError` if no row has a chain: then no file is written.
    """
    with folder_errors(out.parent):
        if out.exists() and (out.is_dir() or not overwrite):
            raise FolderError(
                f"{str(out)!r} exists: --overwrite replaces a file; or give another --out"
            )
        if not out.parent.is_dir():
            raise FolderError(f"the folder {str(out.parent)!r} does not exist: give another --out")
    with SandboxPool(size=jobs) as sandbox:
        if asking is None:
            found = list(_narrated(rows, sandbox, jobs, progress))
            extras: dict[str, Any] = {}
        else:
            found, extras = _asked(rows, asking, sandbox, progress)
    chains = [one for one in found if isinstance(one, Chain)]
    reasons = Counter(one.reason for one in found if isinstance(one, Dropped))
    if not chains:
        common = ", ".join(f"{reason} ({count})" for reason, count in reasons.most_common(3))
        raise SynthError(f"no row has a chain: {common}")
    with folder_errors(out.parent):
        _write(out, chains)
    tasks = Counter(chain.task for chain in chains)
    return Written(len(rows), dict(tasks.most_common()), dict(reasons.most_common()), **extras)


def _narrated(
    rows: Sequence[Row], sandbox: SandboxPool, jobs: int, progress: Progress
) -> Iterator[Chain | Dropped]:
    """As `narrated_chains`, of several programs at a time."""
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda row: row.program_id)]
    done = 0
    with ThreadPoolExecutor(jobs, thread_name_prefix="chains") as threads:
        try:
            for found in threads.map(lambda group: list(narrated_chains(group, sandbox)), groups):
                yield from found
                done += len(found)
                progress(done)
        finally:
            threads.shutdown(wait=True, cancel_futures=True)


def _asked(
    rows: Sequence[Row], asking: Asking, sandbox: SandboxPool, progress: Progress
) -> tuple[list[Chain | Dropped], dict[str, Any]]:
    with CompletionStore(asking.store) as store:

        async def run() -> tuple[list[Chain | Dropped], Client]:
            client = Client(
                asking.server,
                store,
                asking.patience,
                offline=asking.offline,
                retry_refused=asking.retry_refused,
                tell=asking.tell,
            )
            try:
                await client.check()
                found = await model_chains(
                    rows,
                    client,
                    asking.server.model,
                    sampling=asking.sampling,
                    endpoint=asking.server.endpoint,
                    tries=asking.tries,
                    workers=asking.patience.concurrency,
                    sandbox=sandbox,
                    progress=progress,
                )
            finally:
                await client.close()
            return found, client

        found, client = asyncio.run(run())
        return found, {
            "totals": store.totals_of(asking.server.model),
            "faults": dict(client.faults.most_common()),
            "warnings": tuple(client.warnings),
        }


def _write(out: Path, chains: Iterable[Chain]) -> None:
    """All lines or none: a reader never finds half a line."""
    aside = out.with_name(f".{out.name}")
    with aside.open("w", encoding="ascii", newline="\n") as stream:
        for chain in chains:
            stream.write(json.dumps(chain.to_json(), allow_nan=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, out)
