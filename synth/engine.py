"""Who works on which slot, and in which order results are taken.

Covers one machine: worker threads that each drive a sandboxed child, results committed strictly in the
order of slots, so that the number of workers never shows in the rows. Takes from the journal what an
earlier, interrupted run has finished. Does not know what a slot does (`pipeline.py`).

With a model as the writer there are as many threads as requests may be under way, since most of them wait;
the sandbox still holds `jobs` children. No slot is begun that might not be needed, because each is paid for.
"""

from __future__ import annotations

import itertools
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from rewards.row import Row
from rewards.sandbox import SandboxPool
from synth.card import render_card
from synth.clients import Patience, Server, Tell, quiet
from synth.completions import CompletionStore, Totals
from synth.config import SAMPLING, GenerateConfig, Writer
from synth.constraints import Constraint, enumerate_constraints, operations_of
from synth.dataset import splits_of, write_dataset
from synth.errors import ConfigError, FolderError, SynthError
from synth.inputs import Drawer
from synth.journal import JOURNAL, MANIFEST, STORE, Journal, folder_errors, prepare_folder
from synth.manifest import Funnel, Manifest, Stage
from synth.pipeline import Attempt, Made, Pipeline, Tally, rows_of
from synth.providers import Provider, provider
from synth.providers.openai import OpenAIProvider
from synth.report import compute, coverage_in

DUPLICATE_SHARE = {1: 0.2, 2: 0.2}
"""Share of a level's programs that may repeat a shape; straight-line levels have fewer shapes."""
DUPLICATE_SHARE_DEEP = 0.05
DUPLICATE_TRIES = 6
"""Further programs asked of a slot whose shape is taken, before the repeat may be kept."""
BARREN_SLOTS = 60
"""So many slots in a row without a program end the run: the request cannot be met."""
BARREN_SLOTS_PAID = 15
"""The same where every attempt is paid for. Of a model of whose programs one in twenty is good, one run in
two thousand would end for bad luck."""
MAX_JOBS = 256
"""Each worker has a fork server and a process that draws inputs."""
AHEAD = 4
"""Slots per worker that may be worked on before their turn to be committed."""

PATIENCE = Patience()

Progress = Callable[[int, int], None]
"""Called with (rows so far, rows wanted)."""
Usage = Callable[[Totals], None]
"""Called with what has been asked of the model so far, earlier runs on the same store included."""


@dataclass(frozen=True)
class Reach:
    """How the model that writes programs is reached; nothing here decides a row."""

    base_url: str = "http://127.0.0.1:8000/v1"
    api_key: str = ""
    patience: Patience = PATIENCE
    offline: bool = False
    """Ask nothing; use what the store holds."""
    store: Path | None = None
    """File of completions; None for the one in the output folder."""
    retry_refused: bool = False
    """Send again what the server has refused for good in an earlier run."""
    tell: Tell = quiet
    """Called with a sentence when the server keeps the run waiting, from another thread."""


@dataclass(frozen=True)
class Asked:
    """What a run asked of its model."""

    totals: Totals
    """Of this model, earlier runs on the same store included."""
    faults: dict[str, int]
    """Faults met on the way by kind, those included that a later attempt made good."""
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Finished:
    """What a run made, for the summary."""

    manifest: Manifest
    folder: Path
    seconds: float
    resumed: int
    """Slots that were taken from the journal."""
    asked: Asked | None = None
    """None if no model was to be asked."""


@dataclass
class _Progress:
    """What has been committed so far."""

    quota: dict[int, int]
    made: list[tuple[Constraint, Made]] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    shapes: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    programs: Counter[int] = field(default_factory=Counter)
    repeats: Counter[int] = field(default_factory=Counter)
    tallies: list[Tally] = field(default_factory=list)
    gaps: int = 0

    def may_repeat(self, level: int) -> bool:
        """Whether the level can take one more program of a shape that it has."""
        share = DUPLICATE_SHARE.get(level, DUPLICATE_SHARE_DEEP)
        return self.repeats[level] + 1 <= share * (self.programs[level] + 1)


def generate(
    config: GenerateConfig,
    folder: str | Path,
    *,
    jobs: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    reach: Reach | None = None,
    usage: Usage | None = None,
) -> Finished:
    """Make the dataset that `config` describes in `folder`.

    `reach` and `usage` are for a config with a writer. Raises `UsageError` for a folder or a setting that
    cannot serve, `SynthError` if the request cannot be met, of it `ProviderError` if the model cannot be
    reached or fails too often: what it answered is in the store. `KeyboardInterrupt` passes through after
    the workers have ended; what is finished stays in the journal.
    """
    start = time.monotonic()
    target = Path(folder)
    if not 1 <= jobs <= MAX_JOBS:
        raise ConfigError(f"--jobs is {jobs}; expected a whole number of workers, 1 to {MAX_JOBS}")
    if resume and not overwrite:
        _must_exist(target)
    reach = reach or Reach()
    _check_model(config, reach)
    prepare_folder(target, resume=resume, overwrite=overwrite)
    manifest = Manifest(
        config.resolved(), config.seed, run={"jobs": jobs, "command": command(config)}
    )
    with Journal(target / JOURNAL, digest=_run_digest(manifest)) as journal:
        resumed = len(journal)
        with _writing(config, reach, target, usage) as writing:
            done = _collect(config, journal, jobs, progress or (lambda rows, wanted: None), writing)
            asked = writing.asked()
        complete = _write(target, done, manifest, config)
    return Finished(complete, target, time.monotonic() - start, resumed, asked)


@dataclass(frozen=True)
class _Writing:
    """Who writes the programs of a run, and how many prompts may be worked on at a time."""

    provider: Provider
    at_once: int = 0
    """0: as many as there are workers."""
    asked: Callable[[], Asked | None] = lambda: None
    tell: Callable[[], None] = lambda: None


@contextmanager
def _writing(
    config: GenerateConfig, reach: Reach, folder: Path, usage: Usage | None
) -> Iterator[_Writing]:
    writer = config.writer
    if writer is None:
        yield _Writing(provider(config.provider))
        return
    with CompletionStore(reach.store or folder / STORE) as store:
        model = _model(config, reach, store)

        def asked() -> Asked:
            return Asked(store.totals_of(writer.model), model.faults, model.warnings)

        def tell() -> None:
            if usage is not None:
                usage(store.totals())

        try:
            yield _Writing(model, reach.patience.concurrency, asked, tell)
        finally:
            model.close()


def _model(config: GenerateConfig, reach: Reach, store: CompletionStore) -> OpenAIProvider:
    writer = config.writer
    assert writer is not None
    made = provider(
        config.provider,
        server=Server(writer.model, reach.base_url, reach.api_key, writer.endpoint),
        store=store,
        sampling=writer.sampling,
        patience=reach.patience,
        repairs=writer.repairs,
        offline=reach.offline,
        retry_refused=reach.retry_refused,
        tell=reach.tell,
    )
    assert isinstance(made, OpenAIProvider)
    return made


def _check_model(config: GenerateConfig, reach: Reach) -> None:
    """A server that is away, or has no such model, must not leave a folder behind."""
    if config.writer is None:
        return
    with CompletionStore(":memory:") as nothing:
        model = _model(config, reach, nothing)
        try:
            model.check()
        finally:
            model.close()


def _must_exist(folder: Path) -> None:
    """A mistyped folder must not start a long run from the beginning."""
    with folder_errors(folder):
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            raise FolderError(
                f"there is no run to resume in {str(folder)!r}: it does not exist or is empty; give the "
                "--out of the run that was interrupted, or leave out --resume to start one"
            )


def command(config: GenerateConfig) -> str:
    """The command line that makes the same rows; no folder, no workers."""
    # Depth, rows and seed are always said: a reader looks for them.
    words = ["synth generate", *_options(config, GenerateConfig(), ("depth", "rows", "seed"))]
    if writer := config.writer:
        words += _options(writer, Writer(writer.model), ("model",))
        words += _options(writer.sampling, SAMPLING, ())
    return " ".join(words)


OPTIONS = {"rows": "-n", "repairs": "--repair", "extra": "--extra-body"}
"""Settings whose option has another name."""


def _options(settings: object, standard: object, always: tuple[str, ...]) -> Iterator[str]:
    """The options that set what differs from the standard, and those of `always`."""
    for name, value in vars(settings).items():
        same = value == getattr(standard, name) and name not in always
        if same or name in ("writer", "sampling"):
            continue
        option = OPTIONS.get(name, "--" + name.replace("_", "-"))
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        yield option if value is True else f"{option} {shlex.quote(text)}"


def _run_digest(manifest: Manifest) -> str:
    """Configuration and versions: a run may only be resumed by the same program with the same request."""
    from synth.manifest import config_digest

    return config_digest({"config": dict(manifest.config), "versions": dict(manifest.versions)})


def _collect(
    config: GenerateConfig, journal: Journal, jobs: int, progress: Progress, writing: _Writing
) -> _Progress:
    done = _Progress(_quota(config))
    most_barren = BARREN_SLOTS_PAID if config.writer else BARREN_SLOTS
    with (
        SandboxPool(size=jobs) as sandbox,
        Drawer(workers=jobs) as drawer,
        _Workers(
            jobs, Pipeline(config, writing.provider, sandbox, drawer), writing.at_once
        ) as workers,
    ):
        barren = 0
        for slot, constraint, first in _turns(config, journal, workers, done):
            attempt = _settle(slot, constraint, first, journal, workers, done)
            _commit(attempt, constraint, config, done)
            progress(len(done.rows), config.rows)
            writing.tell()
            barren = 0 if attempt.made is not None else barren + 1
            if barren >= most_barren:
                raise SynthError(_barren(done, most_barren, config))
    return done


def _quota(config: GenerateConfig) -> dict[int, int]:
    """Rows per level: equal shares, what is left over to the lowest levels."""
    share, rest = divmod(config.rows, len(config.wanted_levels))
    return {level: share + (position < rest) for position, level in enumerate(config.wanted_levels)}


class _Workers:
    """A pool of threads for `Pipeline.work`; on the way out nothing is left running.

    `at_once`: prompts that may be waited for at a time, 0 if none takes any time.
    """

    def __init__(self, jobs: int, pipeline: Pipeline, at_once: int = 0) -> None:
        self.at_once = at_once
        self.ahead = max(jobs, at_once) * AHEAD
        self.pipeline = pipeline
        self.pool = ThreadPoolExecutor(max(jobs, at_once), thread_name_prefix="synth")

    def begin(self, constraint: Constraint, slot: int) -> Future[Attempt]:
        """The first work on a slot. Its completion is sent for now, not when a thread is free."""
        if self.at_once:
            self.pipeline.expect(constraint, slot)
        return self.submit(constraint, slot)

    def submit(
        self, constraint: Constraint, slot: int, attempt: int = 0, most_inputs: int | None = None
    ) -> Future[Attempt]:
        return self.pool.submit(self.pipeline.work, constraint, slot, attempt, most_inputs)

    def __enter__(self) -> _Workers:
        return self

    def __exit__(self, *_: object) -> None:
        # What was started ahead is of no use any more, be it after the last row or an interrupt.
        self.pipeline.stop()
        self.pool.shutdown(wait=True, cancel_futures=True)


@dataclass
class _Turn:
    """A slot whose turn will come, what it asks for, and the work on it."""

    slot: int
    constraint: Constraint
    known: bool
    """The journal has it."""
    work: Future[Attempt] | None = None


def _turns(
    config: GenerateConfig, journal: Journal, workers: _Workers, done: _Progress
) -> Iterator[tuple[int, Constraint, Future[Attempt] | None]]:
    """Slots in order, each with its running work (None: in the journal), until no level lacks rows.

    A slot whose level is full is passed over. It may have been started before that was known; its
    result is then not used, so starting ahead never shows.
    """
    operations = operations_of(config.types or None)
    source = enumerate(
        enumerate_constraints(operations, config.depth, config.seed, config.wanted_levels)
    )
    waiting: list[_Turn] = []
    while any(left > 0 for left in done.quota.values()):
        while len(waiting) < workers.ahead:
            slot, constraint = next(source)
            if done.quota[constraint.level] > 0:
                known = slot in journal
                if known and journal.key(slot) != constraint.id:
                    raise FolderError(
                        f"slot {slot} of {str(journal.path)!r} is {journal.key(slot)!r}, expected "
                        f"{constraint.id!r}: the journal was written by another version; use --overwrite"
                    )
                waiting.append(_Turn(slot, constraint, known))
        _begin(waiting, config, workers, done)
        turn = waiting.pop(0)
        if done.quota[turn.constraint.level] > 0:
            yield turn.slot, turn.constraint, turn.work
        elif turn.work is not None:
            turn.work.cancel()


def _begin(
    waiting: list[_Turn], config: GenerateConfig, workers: _Workers, done: _Progress
) -> None:
    """Begin work on slots that wait; where it is paid for, on no more than are certain to be needed."""
    most = config.inputs_per_program * len(config.tasks)
    # The fewest slots that give a level the rows it lacks; one is left for the first that waits.
    needed = {level: -(-max(0, left) // most) for level, left in done.quota.items()}
    for turn in waiting:
        level = turn.constraint.level
        if turn.work is None and not turn.known and (not workers.at_once or needed[level] > 0):
            turn.work = workers.begin(turn.constraint, turn.slot)
        needed[level] -= 1


def _settle(
    slot: int,
    constraint: Constraint,
    work: Future[Attempt] | None,
    journal: Journal,
    workers: _Workers,
    done: _Progress,
) -> Attempt:
    """The final outcome of a slot: a program whose shape is new (or may repeat), or none."""
    if work is None:
        return _from_journal(cast("dict[str, Any]", journal.read(slot).payload))
    attempt = work.result()
    tally = attempt.tally
    room = done.quota[constraint.level]
    for repeat in itertools.count(1):
        made = attempt.made
        if made is None:
            break
        following = attempt.next_attempt
        if len(made.cases) > room:
            # The level has fewer rows left than the program has inputs: the rules must hold on so
            # few, so the same completion is tried again with that many.
            reason, following = "remade_with_fewer_inputs", following - 1
        elif not _fresh(made, constraint, done, repeat):
            reason = "duplicate_shape"
        else:
            break
        tally.drop("dedup", reason)
        tally.drop("cases", "of_dropped_program", len(made.cases))
        attempt = workers.submit(constraint, slot, following, room).result()
        _add(tally, attempt.tally)
    settled = Attempt(attempt.made, attempt.next_attempt, tally)
    journal.append(slot, constraint.id, _to_journal(settled))
    return settled


def _fresh(made: Made, constraint: Constraint, done: _Progress, repeat: int) -> bool:
    if made.program_id in done.ids:
        return False
    return made.shape not in done.shapes or (
        repeat > DUPLICATE_TRIES and done.may_repeat(constraint.level)
    )


def _commit(
    attempt: Attempt, constraint: Constraint, config: GenerateConfig, done: _Progress
) -> None:
    done.tallies.append(attempt.tally)
    made = attempt.made
    if made is None:
        done.gaps += 1
        return
    level = constraint.level
    kept = rows_of(made, constraint, config, at_most=done.quota[level])
    done.quota[level] -= len(kept)
    done.rows += kept
    done.made.append((constraint, made))
    done.programs[level] += 1
    done.repeats[level] += made.shape in done.shapes
    done.shapes.add(made.shape)
    done.ids.add(made.program_id)


def _write(target: Path, done: _Progress, manifest: Manifest, config: GenerateConfig) -> Manifest:
    splits = splits_of([made.program_id for _, made in done.made], config.seed)
    rows = [replace(row, split=splits[row.program_id]) for row in done.rows]
    statements = sum(made.statements for _, made in done.made)
    executed = sum(made.executed for _, made in done.made)
    figures: dict[str, object] = {
        "coverage": {"statements": statements, "executed": executed},
        "slots_without_program": done.gaps,
    }
    suggesting = config.inputs != "hypothesis"
    funnel = _funnel(done, suggesting=suggesting)
    if suggesting:
        figures["inputs"] = _inputs(done, funnel)
    manifest = replace(manifest, funnel=funnel, figures=figures)
    report = compute(rows, coverage=coverage_in(figures))
    highest = [row for row in rows if row.level == max(config.wanted_levels)] or rows
    example = next((row for row in highest if row.task == "whitebox"), highest[0])
    return write_dataset(
        target, rows, manifest, card=lambda complete: render_card(complete, report, example)
    )


def _inputs(done: _Progress, funnel: Funnel) -> dict[str, int]:
    """Where the inputs come from, of all programs that were run and of those that were kept."""
    total = _total(done)
    kept = Counter(case.kind == "model" for _, made in done.made for case in made.cases)
    return {
        "from_model": funnel["arguments"].kept,
        "from_hypothesis": total.cases - total.answers - funnel["arguments"].kept,
        "programs_filled_up": total.wanting,
        "programs": total.answers,
        "kept_from_model": kept[True],
        "kept": kept.total(),
    }


def _total(done: _Progress) -> Tally:
    total = Tally()
    for tally in done.tallies:
        _add(total, tally)
    return total


def _funnel(done: _Progress, *, suggesting: bool = False) -> Funnel:
    """`suggesting`: whether a model was to be asked for inputs."""
    total = _total(done)
    dropped = total.dropped
    vetted = total.completions - sum(dropped.get("programs", {}).values())
    repeated = sum(dropped.get("dedup", {}).values())
    cases = total.cases - sum(dropped.get("cases", {}).values())
    asked = total.asked - sum(dropped.get("questions", {}).values())
    suggested: tuple[Stage, ...] = ()
    if suggesting:
        answers = total.answers - sum(dropped.get("suggestions", {}).values())
        lists = total.suggested - sum(dropped.get("arguments", {}).values())
        suggested = (
            Stage.of("suggestions", "completions", answers, dropped.get("suggestions")),
            Stage.of("arguments", "calls", lists, dropped.get("arguments")),
        )
    return Funnel((
        Stage.of("programs", "completions", vetted, dropped.get("programs")),
        Stage.of("executions", "programs", total.programs, dropped.get("executions")),
        Stage.of("dedup", "programs", total.programs - repeated, dropped.get("dedup")),
        *suggested,
        Stage.of("inputs", "cases", cases, dropped.get("cases")),
        Stage.of("questions", "cases", asked, dropped.get("questions")),
        Stage.of("rows", "rows", len(done.rows), None),
    ))  # fmt: skip


def _add(total: Tally, part: Tally) -> None:
    total.completions += part.completions
    total.programs += part.programs
    total.cases += part.cases
    total.asked += part.asked
    total.answers += part.answers
    total.suggested += part.suggested
    total.wanting += part.wanting
    for stage, reasons in part.dropped.items():
        for reason, count in reasons.items():
            total.drop(stage, reason, count)


def _to_journal(attempt: Attempt) -> dict[str, Any]:
    # Of what does not occur nothing is said: a journal is the same where no model is asked for inputs.
    optional = ("answers", "suggested", "wanting")
    tally = {k: v for k, v in vars(attempt.tally).items() if v or k not in optional}
    made = attempt.made.to_json() if attempt.made else None
    return {"made": made, "next_attempt": attempt.next_attempt, "tally": tally}


def _from_journal(data: dict[str, Any]) -> Attempt:
    made = Made.from_json(data["made"]) if data["made"] else None
    return Attempt(made, data["next_attempt"], Tally(**data["tally"]))


def _barren(done: _Progress, slots: int, config: GenerateConfig) -> str:
    reasons: Counter[str] = Counter()
    for tally in done.tallies[-slots:]:
        for found in tally.dropped.values():
            reasons.update(found)
    common = ", ".join(f"{name} ({count})" for name, count in reasons.most_common(3))
    advice = "Widen --types or --levels, or raise --inputs-per-program"
    if config.writer:
        advice = f"{advice}; a stronger --model, or more --repair or --max-tokens, may do better"
    return f"{slots} constraints in a row gave no program; most common reasons: {common}. {advice}"


def is_complete(folder: str | Path) -> bool:
    """Whether a folder holds a finished dataset: the manifest is written last."""
    return (Path(folder) / MANIFEST).is_file()


__all__ = ["Asked", "Finished", "FolderError", "Reach", "generate", "is_complete"]
