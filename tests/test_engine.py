"""Who works on which slot: the rows must not show how many workers there were, nor an interruption.

The order, quotas, repeats and the journal are tested with work that costs nothing and ends in any
order (laws over many runs), the funnel and the folder with real runs in this process.
"""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import ScriptedProvider, attempt_of
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from synth import engine
from synth.config import MAX_ATTEMPTS, GenerateConfig
from synth.constraints import Constraint
from synth.dataset import read_manifest, read_rows
from synth.engine import DUPLICATE_SHARE, DUPLICATE_SHARE_DEEP, command, generate, is_complete
from synth.errors import ConfigError, FolderError, SynthError
from synth.journal import Journal
from synth.pipeline import Attempt, Made, MadeCase, Tally
from synth.prompts import Prompt
from synth.providers.grammar import GrammarProvider
from synth.seeds import rng

# ------------------------------------------------------------------- work that costs nothing


class FakePipeline:
    """Outcomes that depend on slot and attempt alone, after a delay that depends on nothing.

    One attempt in four is a program; there are few shapes and few programs, so both repeat often.
    """

    def __init__(self, shapes: int, luck: str, hurry: random.Random | None = None) -> None:
        self.shapes = shapes
        self.luck = luck
        self.hurry = hurry or random.Random()
        self.stopped = False
        self.worked: Counter[int] = Counter()
        self.expected: list[int] = []

    def work(
        self, constraint: Constraint, slot: int, attempt: int = 0, most_inputs: int | None = None
    ) -> Attempt:
        self.worked[slot] += 1
        time.sleep(self.hurry.choice([0, 0, 0.0005, 0.002]))
        tally = Tally()
        while attempt < MAX_ATTEMPTS:
            dice = rng(self.luck, str(slot), str(attempt))
            attempt += 1
            tally.completions += 1
            if dice.random() < 0.25:
                tally.programs += 1
                made = self.made(constraint, dice)
                made = replace(made, cases=made.cases[:most_inputs])
                tally.cases += len(made.cases)
                return Attempt(made, attempt, tally)
            tally.drop("programs", "syntax")
            if dice.random() < 0.05:
                attempt = MAX_ATTEMPTS
        return Attempt(None, attempt, tally)

    def made(self, constraint: Constraint, dice: random.Random) -> Made:
        number = dice.randrange(self.shapes * 2)
        cases = tuple(
            MadeCase(str(k), "near", repr(k), "int", None, 3, "0f")
            for k in range(dice.randint(1, 4))
        )
        code = f"def entry(x):\n    return x + {number}\n"
        return Made(f"{number:016x}", code, "entry", f"shape{number // 2}", 4, 3, cases)

    def expect(self, constraint: Constraint, slot: int) -> None:
        self.expected.append(slot)

    def stop(self) -> None:
        self.stopped = True


class Nothing(contextlib.nullcontext[None]):
    def __init__(self, **_: object) -> None:
        super().__init__()


@contextlib.contextmanager
def faked(pipeline: FakePipeline) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "Pipeline", lambda *_: pipeline)
        patch.setattr(engine, "SandboxPool", Nothing)
        patch.setattr(engine, "Drawer", Nothing)
        patch.setattr(engine, "BARREN_SLOTS", 30)
        yield


def collected(
    pipeline: FakePipeline,
    config: GenerateConfig,
    jobs: int,
    path: Path,
    stop_after: int | None = None,
    at_once: int = 0,
) -> Any:
    """What a run commits; with `stop_after`, None: it is interrupted after so many slots."""
    turns = 0

    def progress(rows: int, wanted: int) -> None:
        nonlocal turns
        turns += 1
        if turns == stop_after:
            raise KeyboardInterrupt

    with faked(pipeline), Journal(path, digest="d") as journal:
        try:
            writing = engine._Writing(ScriptedProvider([]), at_once)
            return engine._collect(config, journal, jobs, progress, writing)
        except KeyboardInterrupt:
            return None
        finally:
            assert pipeline.stopped


plans = st.builds(
    GenerateConfig,
    depth=st.integers(0, 3),
    rows=st.integers(1, 60),
    seed=st.integers(0, 3),
    tasks=st.sampled_from([("output",), ("output", "input")]),
)
lucks = st.text("abc", min_size=1, max_size=3)


@given(plans, lucks, st.integers(1, 60), st.integers(2, 6), st.integers(1, 20))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_neither_workers_nor_an_interruption_show(
    config: GenerateConfig, luck: str, shapes: int, jobs: int, stop_after: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            alone = collected(FakePipeline(shapes, luck), config, 1, folder / "alone")
        except SynthError as barren:
            event("the request cannot be met")
            assert "30 constraints in a row gave no program" in str(barren)
            with pytest.raises(SynthError, match="in a row"):
                collected(FakePipeline(shapes, luck), config, jobs, folder / "many")
            return
        many = collected(FakePipeline(shapes, luck), config, jobs, folder / "many")
        first = collected(FakePipeline(shapes, luck), config, jobs, folder / "broken", stop_after)
        again = FakePipeline(shapes, luck)
        resumed = collected(again, config, 1, folder / "broken")
        for other in (many, first or resumed, resumed):
            assert other.rows == alone.rows
            assert other.tallies == alone.tallies
            assert (other.gaps, other.programs, other.repeats) == (
                alone.gaps,
                alone.programs,
                alone.repeats,
            )
        records = [(folder / name).read_bytes() for name in ("alone", "many", "broken")]
        assert records[0] == records[1] == records[2]
        with Journal(folder / "alone", digest="d") as journal:
            finished = set(journal.slots[:stop_after])
        assert not finished & set(again.worked), "what was finished was done again"


@given(plans, lucks, st.integers(1, 60), st.integers(1, 3), st.integers(1, 12))
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
def test_no_slot_is_begun_in_vain_where_it_is_paid_for(
    config: GenerateConfig, luck: str, shapes: int, jobs: int, at_once: int
) -> None:
    """As many at a time as is certain to be needed, and the rows do not show it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paid = FakePipeline(shapes, luck)
        try:
            free = collected(FakePipeline(shapes, luck), config, 1, folder / "free")
        except SynthError:
            event("the request cannot be met")
            return
        done = collected(paid, config, jobs, folder / "paid", at_once=at_once)
        assert (folder / "paid").read_bytes() == (folder / "free").read_bytes()
        assert done.rows == free.rows
        with Journal(folder / "paid", digest="d") as journal:
            committed = set(journal.slots)
    assert set(paid.worked) == set(paid.expected) == committed
    assert len(paid.expected) == len(committed)


@given(plans, lucks, st.integers(6, 40))
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
def test_quotas_are_exact_and_repeats_bounded(
    config: GenerateConfig, luck: str, shapes: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        try:
            done = collected(FakePipeline(shapes, luck), config, 3, Path(name) / "journal")
        except SynthError:
            event("the request cannot be met")
            return
    levels = Counter(row.level for row in done.rows)
    assert dict(levels) == {k: n for k, n in engine._quota(config).items() if n}
    assert len(done.rows) == config.rows
    assert max(levels.values()) - min(levels[k] for k in config.wanted_levels) <= 1
    assert len({row.id for row in done.rows}) == len(done.rows)
    ids = [made.program_id for _, made in done.made]
    assert len(set(ids)) == len(ids)
    programs = Counter(constraint.level for constraint, _ in done.made)
    seen: set[str] = set()
    repeats: Counter[int] = Counter()
    for constraint, made in done.made:
        repeats[constraint.level] += made.shape in seen
        seen.add(made.shape)
    assert repeats == done.repeats
    for level, number in programs.items():
        share = DUPLICATE_SHARE.get(level, DUPLICATE_SHARE_DEEP)
        assert repeats[level] <= share * number
    funnel = engine._funnel(done)
    assert funnel["programs"].kept == funnel["executions"].entered
    assert funnel["executions"].kept == funnel["dedup"].entered
    assert funnel["dedup"].kept == len(done.made)
    assert funnel["inputs"].kept == sum(len(made.cases) for _, made in done.made)


@given(plans)
def test_shares_of_levels_are_even(config: GenerateConfig) -> None:
    quota = engine._quota(config)
    assert tuple(quota) == config.wanted_levels
    assert sum(quota.values()) == config.rows
    assert max(quota.values()) - min(quota.values()) <= 1


def test_a_request_that_cannot_be_met_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "BARREN_SLOTS", 5)
    monkeypatch.setattr(engine, "provider", lambda _: ScriptedProvider(["no program"]))
    tries = 5 * MAX_ATTEMPTS
    with pytest.raises(
        SynthError, match=rf"5 constraints in a row .* syntax \({tries}\)\. Widen --types"
    ):
        generate(GenerateConfig(), tmp_path / "rows")
    assert not is_complete(tmp_path / "rows")


def test_a_fault_in_a_worker_ends_the_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def broken(prompt: Prompt) -> str:
        raise ZeroDivisionError("a bug in a provider")

    monkeypatch.setattr(engine, "provider", lambda _: ScriptedProvider(broken))
    with pytest.raises(ZeroDivisionError, match="a bug in a provider"):
        generate(GenerateConfig(), tmp_path / "rows", jobs=2)


# ------------------------------------------------------------------------------------- real runs


def test_bad_requests_leave_no_folder(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    with pytest.raises(ConfigError, match=r"--jobs is 0; expected .* 1 to 256"):
        generate(GenerateConfig(), folder, jobs=0)
    with pytest.raises(FolderError, match="no run to resume"):
        generate(GenerateConfig(), folder, resume=True)
    with pytest.raises(ConfigError, match="contradict"):
        generate(GenerateConfig(), folder, resume=True, overwrite=True)
    assert not folder.exists()


FAULTS = {
    0: "Sorry, I cannot help with that.",
    1: "It prints this:\n```\n42\n```",
    2: "```python\ndef f(x):\n    return hash(x)\nprint(f(1))\n```",
}


def faulty(prompt: Prompt) -> str:
    """Three bad answers at each slot, then what the grammar writes."""
    fault = FAULTS.get(attempt_of(prompt))
    return fault if fault is not None else GrammarProvider().complete([prompt])[0].text


def test_the_funnel_adds_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engine, "provider", lambda _: ScriptedProvider(faulty))
    config = GenerateConfig(depth=1, rows=24, types=("str", "list"))
    seen: list[tuple[int, int]] = []
    finished = generate(
        config, tmp_path / "rows", jobs=2, progress=lambda done, wanted: seen.append((done, wanted))
    )
    rows = list(read_rows(tmp_path / "rows"))
    manifest = read_manifest(tmp_path / "rows")
    assert finished.manifest == manifest
    funnel = manifest.funnel
    assert [stage.name for stage in funnel.stages] == [
        "programs", "executions", "dedup", "inputs", "questions", "rows",
    ]  # fmt: skip
    for stage in funnel.stages:
        assert stage.entered == stage.kept + sum(count for _, count in stage.dropped)
        assert stage.kept > 0
    # What one stage keeps is what enters the next that counts the same.
    assert funnel["programs"].kept == funnel["executions"].entered
    assert funnel["executions"].kept == funnel["dedup"].entered
    assert funnel["dedup"].kept == len({row.program_id for row in rows})
    assert funnel["rows"].kept == len(rows) == config.rows
    with Journal(tmp_path / "rows/journal.jsonl", digest=engine._run_digest(manifest)) as journal:
        payloads: list[Any] = [entry.payload for entry in journal.entries()]
    slots = len(payloads)
    kept = sum(len(payload["made"]["cases"]) for payload in payloads if payload["made"])
    assert funnel["inputs"].kept == kept >= len({(row.program_id, row.args) for row in rows})
    dropped = dict(funnel["programs"].dropped)
    assert {dropped[name] for name in ("syntax", "no_program", "pure")} == {slots}
    # The quota of each level, and progress that only ever grows.
    assert Counter(row.level for row in rows) == engine._quota(config)
    assert seen == sorted(seen)
    assert seen[-1] == (24, 24)
    assert manifest.run == {"jobs": 2, "command": command(config)}


def test_a_finished_run_resumes_to_itself_and_can_be_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    config = GenerateConfig(depth=0, rows=6, types=("str",))
    first = generate(config, folder)
    assert (first.resumed, is_complete(folder)) == (0, True)
    again = generate(config, folder, resume=True)
    assert again.resumed > 0
    assert again.manifest == first.manifest
    with pytest.raises(FolderError, match="--resume goes on"):
        generate(config, folder)
    other = generate(
        GenerateConfig(depth=0, rows=6, seed=9, types=("str",)), folder, overwrite=True
    )
    assert other.resumed == 0
    assert other.manifest.files != first.manifest.files
    assert [row.owner for row in read_rows(folder)] == ["str"] * 6


def test_a_journal_of_other_constraints_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    config = GenerateConfig(depth=0, rows=4, types=("str",))
    finished = generate(config, folder)
    journal = folder / "journal.jsonl"
    with Journal(journal, digest=engine._run_digest(finished.manifest)) as old:
        entries = list(old.entries())
    journal.unlink()
    with Journal(journal, digest=engine._run_digest(finished.manifest)) as new:
        for entry in entries:
            new.append(entry.slot, "list.append@1:nested", entry.payload)
    with pytest.raises(FolderError, match=r"slot \d+ .*'list.append@1:nested'.*--overwrite"):
        generate(config, folder, resume=True)


def test_the_manifest_tells_how_to_make_the_rows_again(finished_run: Path) -> None:
    manifest = json.loads((finished_run / "manifest.json").read_text())
    assert manifest["run"]["command"] == "synth generate --depth 2 -n 75 --seed 3"
    assert manifest["config"]["levels"] == [1, 2, 3, 4, 5]
    assert manifest["counts"]["level"] == dict.fromkeys("12345", 15)
