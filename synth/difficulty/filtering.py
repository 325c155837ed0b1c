"""A dataset folder -> the same rows with their difficulty, those that are too easy left out.

Covers the run as a whole: store, clients, sandbox, the folder that is written. The source is only read.

    OUT/…                   a dataset folder as `synth generate` writes it
    OUT/difficulty.jsonl    a line for every row of the source, those that were dropped included

Both follow from the rows, the settings and the completions in the store; the date is that of the first run
with these settings on that store. So a run that was killed and started again writes the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path

from rewards.row import Row
from rewards.sandbox import SandboxPool
from synth.card import render_card
from synth.clients import Asker, Client, Patience, Server, Tell, quiet
from synth.clients.faults import KINDS, OF_THE_PROMPT
from synth.completions import CompletionStore, Totals
from synth.dataset import read_manifest, read_rows, write_dataset
from synth.difficulty import tables
from synth.difficulty.config import DifficultyConfig
from synth.difficulty.judging import Judge, RewardJudge
from synth.difficulty.labels import Label
from synth.difficulty.measuring import assess
from synth.difficulty.stopping import KEPT
from synth.errors import ConfigError, FolderError, SynthError
from synth.journal import CARD, MANIFEST, STAGING, STORE, folder_errors, prepare_folder
from synth.manifest import Funnel, Manifest, Stage, canonical_json, config_digest
from synth.report import compute as compute_report

__all__ = [
    "LABELS",
    "STORE",
    "Access",
    "Filtered",
    "check_target",
    "filter_folder",
    "filter_rows",
    "none_kept",
]

LABELS = "difficulty.jsonl"

PATIENCE = Patience()

Progress = Callable[[int, int, Totals], None]
"""Called with (rows labelled, rows in all, what has been asked so far)."""


@dataclass(frozen=True)
class Access:
    """How the models are reached; nothing here decides a label."""

    evaluator: Server | Path
    """A server, or the folder of a model that runs in this process."""
    solver: Server | None = None
    patience: Patience = PATIENCE
    offline: bool = False
    retry_refused: bool = False
    """Send again what a server has refused for good in an earlier run."""
    tell: Tell = quiet
    """Called with a sentence when a server keeps the run waiting."""


@dataclass(frozen=True)
class Filtered:
    """What came of a run."""

    rows: tuple[Row, ...]
    """Rows that are kept, with their columns of difficulty."""
    labels: tuple[Label, ...]
    """One for every row that was read, in order."""
    figures: tables.Figures
    totals: Totals
    faults: dict[str, int]
    """Faults met on the way by kind, those included that a later attempt made good."""
    warnings: tuple[str, ...]
    date: str
    """When these settings were first measured with this store, YYYY-MM-DD (UTC)."""

    @property
    def failed_share(self) -> float:
        """Share of rows, in [0, 1], that a fault of the server kept from being measured."""
        failed = sum(n for kind, n in self.figures.verdicts.items() if kind in _OF_THE_SERVER)
        return failed / self.figures.rows if self.figures.rows else 0.0


_OF_THE_SERVER = frozenset(KINDS) - OF_THE_PROMPT
_MOSTLY = 0.8
"""Share of rows with identical completions, or of truncated completions, that is worth a warning."""


def filter_rows(
    rows: Sequence[Row],
    config: DifficultyConfig,
    access: Access,
    store: CompletionStore,
    *,
    judge: Judge | None = None,
    jobs: int | None = None,
    progress: Progress = lambda done, rows, totals: None,
) -> Filtered:
    """Measure rows and keep those that are hard enough. `jobs`: sandboxed processes, default all cores.

    Raises `ProviderError` to end a run that makes no sense, `ConfigError` for a setting.
    """
    if (config.solver_model is None) != (access.solver is None):
        raise ConfigError("a solver needs both a model and an address")
    with SandboxPool(size=jobs) as pool:
        labels, met, warnings = asyncio.run(
            _measure(rows, config, access, store, judge or RewardJudge(pool), progress)
        )
    note = f"date:{config_digest(config.resolved())}"
    date = store.keep_note(note, datetime.now(timezone.utc).date().isoformat())
    pairs = zip(rows, labels, strict=True)
    figures = tables.compute(rows, labels, config.bar.n)
    return Filtered(
        rows=tuple(
            label.on(row, config, date)
            for row, label in pairs
            if config.label_only or label.verdict == KEPT
        ),
        labels=tuple(labels),
        figures=figures,
        totals=store.totals(),
        faults=dict(met.most_common()),
        warnings=(*warnings, *_suspicions(figures, few_shot=config.few_shot)),
        date=date,
    )


async def _measure(
    rows: Sequence[Row],
    config: DifficultyConfig,
    access: Access,
    store: CompletionStore,
    judge: Judge,
    progress: Progress,
) -> tuple[list[Label], Counter[str], list[str]]:
    clients: list[Asker] = [_asker(access.evaluator, config, store, access)]
    if access.solver is not None:
        clients.append(_client(access.solver, store, access))
    try:
        for client in clients:
            await client.check()
        labels = await assess(
            rows,
            config,
            clients[0],
            judge,
            solver=clients[1] if len(clients) > 1 else None,
            workers=access.patience.concurrency,
            progress=lambda done: progress(done, len(rows), store.totals()),
        )
    finally:
        for client in clients:
            await client.close()
    met: Counter[str] = Counter()
    for client in clients:
        met.update(client.faults)
    return labels, met, [text for client in clients for text in client.warnings]


def _asker(
    evaluator: Server | Path, config: DifficultyConfig, store: CompletionStore, access: Access
) -> Asker:
    if isinstance(evaluator, Server):
        return _client(evaluator, store, access)
    from synth.clients.local import LocalModel

    return LocalModel(evaluator, store)


def _client(server: Server, store: CompletionStore, access: Access) -> Client:
    return Client(
        server,
        store,
        access.patience,
        offline=access.offline,
        retry_refused=access.retry_refused,
        tell=access.tell,
    )


def _suspicions(figures: tables.Figures, *, few_shot: bool) -> list[str]:
    found = []
    if figures.with_three >= 5 and figures.same > _MOSTLY * figures.with_three:
        found.append(
            f"samples are not independent: {figures.same} of {figures.with_three} rows have completions"
            " that are all one text. The server may ignore the temperature (transformers serve does,"
            " unless generation_config.json says do_sample) or answer from a cache"
        )
    if figures.drawn >= 50 and not any(figures.before[1:]):
        hint = "it may" if few_shot else "a base model wants --few-shot, another may"
        found.append(
            f"not one of {figures.drawn} completions passed. Before you trust that, look at what the model"
            f" answers: {hint} not keep to the answer's form"
            f" ({_share(figures, 'no_answer')} had no answer at all)"
        )
    cut = figures.statuses.get("truncated", 0)
    if figures.drawn >= 20 and 5 * cut > figures.drawn:
        found.append(
            f"{cut} of {figures.drawn} completions were cut at --max-tokens and count as not passed"
        )
    return found


def _share(figures: tables.Figures, status: str) -> str:
    return f"{figures.statuses.get(status, 0) / figures.drawn:.0%}"


# ------------------------------------------------------------------------------------ the folder


def filter_folder(
    source: str | Path,
    out: str | Path,
    config: DifficultyConfig,
    access: Access,
    *,
    store: str | Path | None = None,
    overwrite: bool = False,
    jobs: int | None = None,
    progress: Progress = lambda done, rows, totals: None,
) -> Filtered:
    """Measure the rows of a folder (or of one .jsonl or .parquet file) and write those kept to `out`.

    `store`: the file of completions, by default beside the rows. Nothing is written to `out` when no
    row is kept. Raises `UsageError` for a folder or a setting that cannot serve, `ProviderError` to
    end a run.
    """
    origin, target = Path(source), Path(out)
    check_target(origin, target, overwrite=overwrite)
    rows = tuple(read_rows(origin))
    if not rows:
        raise FolderError(f"{str(origin)!r} holds no rows")
    before = _manifest_of(origin)
    with CompletionStore(store or store_beside(origin)) as completions:
        done = filter_rows(rows, config, access, completions, jobs=jobs, progress=progress)
    if done.rows:
        _write(target, done, config, before, overwrite=overwrite)
    return done


def store_beside(source: Path) -> Path:
    """Where completions for the rows of `source` are kept: in the folder, or next to the file."""
    return source / STORE if source.is_dir() else source.with_name(f"{source.name}.{STORE}")


def _manifest_of(origin: Path) -> Manifest:
    if (origin / MANIFEST).is_file():
        return read_manifest(origin)
    return Manifest({"source": origin.name}, 0)


def check_target(origin: Path, target: Path, *, overwrite: bool) -> None:
    """Raises `FolderError` if the rows kept of `origin` cannot be written to `target`."""
    with folder_errors(target):
        if target.resolve() == origin.resolve():
            raise FolderError(f"--out is {str(target)!r}, the folder that is read: give another")
        if not target.exists():
            return
        if not target.is_dir():
            raise FolderError(f"{str(target)!r} is not a folder: give another --out")
        finished = (target / MANIFEST).is_file()
        occupants = sorted(entry.name for entry in target.iterdir())
    if finished and not overwrite:
        raise FolderError(
            f"the folder {str(target)!r} holds a dataset: --overwrite replaces it, another --out leaves"
            " it alone"
        )
    # What a run leaves that was killed while it wrote is ours to replace.
    strange = [name for name in occupants if name not in (STAGING, CARD, LABELS, "data", "jsonl")]
    if strange and not finished:
        raise FolderError(
            f"the folder {str(target)!r} is not empty (it holds {strange[0]!r}): give another --out"
        )


def _write(
    target: Path, done: Filtered, config: DifficultyConfig, before: Manifest, *, overwrite: bool
) -> None:
    with folder_errors(target):
        if overwrite and (target / MANIFEST).is_file():
            prepare_folder(target, overwrite=True)
        elif not target.exists():
            target.mkdir(parents=True)
        _write_labels(target / LABELS, done.labels)
    manifest = _manifest(done, config, before)
    report = compute_report(done.rows)
    example = max(done.rows, key=lambda row: row.level)
    write_dataset(
        target, done.rows, manifest, card=lambda complete: render_card(complete, report, example)
    )


def _manifest(done: Filtered, config: DifficultyConfig, before: Manifest) -> Manifest:
    verdicts = done.figures.verdicts
    kept = len(done.rows)
    dropped = {} if config.label_only else {k: n for k, n in verdicts.items() if k != KEPT}
    stage = Stage.of("difficulty", "rows", kept, dropped)
    # Coverage was measured over rows that may be gone.
    figures = {name: value for name, value in before.figures.items() if name != "coverage"}
    measured = {**done.figures.to_json(), "date": done.date}
    run = dict(before.run)
    if isinstance(command := run.get("command"), str):
        run["command"] = f"{command}\n{command_of(config)}"
    return replace(
        before,
        config={**before.config, "difficulty": config.resolved()},
        funnel=Funnel((*before.funnel.stages, stage)),
        figures={**figures, "difficulty": json.loads(canonical_json(measured))},
        run=run,
    )


def command_of(config: DifficultyConfig) -> str:
    """The command line that measures the same; no folder, no addresses."""
    words = [f"synth difficulty DIR --model {config.model} -n {config.bar.n}"]
    words.append(f"--max-pass-rate {config.bar.most:g}")
    if config.solver_model is not None:
        words.append(f"--solver-model {config.solver_model}")
    if config.label_only:
        words.append("--label-only")
    return " ".join(words)


def _write_labels(path: Path, labels: Sequence[Label]) -> None:
    """All lines or none: a reader never finds half a line."""
    aside = path.with_name(f".{path.name}")
    with aside.open("w", encoding="ascii", newline="\n") as stream:
        for label in labels:
            stream.write(json.dumps(label.to_json(), allow_nan=False) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(aside, path)


def none_kept(done: Filtered) -> SynthError:
    """What to tell when there is no row to write."""
    common = ", ".join(f"{verdict} ({rows})" for verdict, rows in done.figures.verdicts.items())
    return SynthError(
        f"no row is kept: {common}. Raise --max-pass-rate, make rows with a greater --depth, or ask a"
        " weaker model"
    )
