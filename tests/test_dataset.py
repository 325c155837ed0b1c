"""Rows on disk: they come back as they went in, files do not depend on anything else, and whatever
kills a run leaves a folder that is complete or says that it is not."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from handmade import make_row, make_spec
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.row import COLUMNS, Row
from rewards.values import canonical, equal, parse
from synth import dataset, journal
from synth.dataset import (
    SPLITS,
    Funnel,
    Journal,
    Manifest,
    Stage,
    arrow_schema,
    prepare_folder,
    read_manifest,
    read_rows,
    splits_of,
    write_dataset,
)
from synth.errors import ConfigError, DataError, FolderError
from synth.manifest import config_digest, file_digest

ROOT = Path(__file__).resolve().parent.parent
CONFIG = {"depth": 3, "rows": 4}
DIGEST = config_digest(CONFIG)


def manifest(**changes: object) -> Manifest:
    funnel = Funnel((Stage.of("programs", "programs", 4, {"unused parameter": 1}),))
    return replace(Manifest(config=CONFIG, seed=0, funnel=funnel), **changes)


def row_digests(folder: Path) -> dict[str, str]:
    return {name: file_digest(folder / name) for name in journal.row_files(folder)}


AWKWARD = (
    "",
    "\n",
    "'\\ud800'",
    "'2024-01-02'",
    '"quote\\"s"',
    "tab\there",
    "line\u2028separator",
    "nul\0byte",
    "\r\n",
    "é ü 漢 \U0001f600",
    "[1, (2, 3), {4}]",
    "NaN",
    "null",
)


def awkward_rows() -> list[Row]:
    rows = [
        make_row(number, code=text, output=text, prompt=(("user", text), ("assistant", text)))
        for number, text in enumerate(AWKWARD)
    ]
    rows += [make_row(100 + n, split=split) for n, split in enumerate(SPLITS)]
    rows.append(make_row(200, pass_rate=0.1, n_rollouts=10, evaluator="small", solver="strong"))
    rows.append(make_row(201, n_steps=2**62, level=0, prompt=()))
    return rows


# ---------------------------------------------------------------------------------- round trips


def by_split(rows: list[Row]) -> list[Row]:
    return [row for split in SPLITS for row in rows if row.split == split]


def test_rows_come_back_from_parquet_and_from_jsonl(tmp_path: Path) -> None:
    rows = awkward_rows()
    write_dataset(tmp_path, rows, manifest(), shard_rows=5)
    assert list(read_rows(tmp_path)) == by_split(rows)
    lines = [row for split in SPLITS for row in read_rows(tmp_path / "jsonl" / f"{split}.jsonl")]
    assert lines == by_split(rows)


def test_load_dataset_gives_the_rows_back_byte_for_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    rows = awkward_rows()
    folder = tmp_path / "rows"
    prepare_folder(folder)
    write_dataset(folder, rows, manifest(), shard_rows=5)
    with Journal(folder / journal.JOURNAL, digest=DIGEST):  # must not be taken for rows
        pass
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == list(SPLITS)
    for split in SPLITS:
        expected = [row.to_dict() for row in rows if row.split == split]
        assert loaded[split].to_list() == expected
        assert [Row.from_dict(record) for record in loaded[split]] == [
            row for row in rows if row.split == split
        ]
    assert list(loaded["train"].features) == [column.name for column in COLUMNS]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1, max_size=4))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    specs = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    rows = [
        make_row(n, args=text, output=text, spec=spec)
        for n, (text, spec) in enumerate(zip(texts, specs, strict=True))
    ]
    write_dataset(folder, rows, manifest())
    assert list(read_rows(folder)) == list(read_rows(folder / "jsonl/train.jsonl")) == rows


@pytest.mark.parametrize("spec", ["", "[]", "nonsense", "[" * 100_000, "3"])
def test_a_damaged_spec_is_named_by_its_line(tmp_path: Path, spec: str) -> None:
    write_dataset(tmp_path, [make_row(0), make_row(1)], manifest())
    path = tmp_path / "jsonl/train.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[1] = json.dumps({**json.loads(lines[1]), "spec": spec})
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2: field 'spec'"):
        list(read_rows(path))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("funnel", [{"stage": "a", "unit": "b", "kept": "x", "dropped": {}, "entered": 1}]),
        ("files", [3]),
    ],
)
def test_a_damaged_manifest_is_refused_by_name(tmp_path: Path, field: str, value: object) -> None:
    write_dataset(tmp_path, [make_row(0)], manifest())
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), field: value}))
    with pytest.raises(DataError, match=r"manifest\.json"):
        read_manifest(tmp_path)


def test_hp_07_outputs_of_several_types_share_a_column(tmp_path: Path) -> None:
    values = (1, "a", [1], True, 2, 2.5, None)
    rows = [make_row(n, output=canonical(value)) for n, value in enumerate(values)]
    write_dataset(tmp_path, rows, manifest())
    back = [parse(row.output) for row in read_rows(tmp_path)]
    assert all(equal(a, b) for a, b in zip(back, values, strict=True))


def test_hp_09_dates_stay_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    rows = [make_row(n, output=f"2024-01-0{n + 2}") for n in range(2)]
    write_dataset(tmp_path, rows, manifest())
    loaded = load_dataset(str(tmp_path), split="train", cache_dir=str(tmp_path / ".cache"))
    assert loaded[:]["output"] == ["2024-01-02", "2024-01-03"]
    assert [row.output for row in read_rows(tmp_path)] == ["2024-01-02", "2024-01-03"]


def test_hp_10_a_shard_of_nulls_fits_the_next_one(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = [
        make_row(0, prompt=()),
        make_row(1, pass_rate=0.5, n_rollouts=2, evaluator="small", solver="strong"),
    ]
    write_dataset(tmp_path, rows, manifest(), shard_rows=1)
    shards = sorted((tmp_path / "data").iterdir())
    assert len(shards) == 2
    assert {pq.read_schema(shard) for shard in shards} == {arrow_schema()}
    assert list(read_rows(tmp_path)) == rows


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({}, id="HP-12"),
        pytest.param({1: (2, 3), None: 4}, id="HP-14-keys"),
        pytest.param({(1, 2): 3}, id="HP-14-tuple-key"),
        pytest.param((1, 2), id="HP-15-tuple"),
        pytest.param({1, 2}, id="HP-15-set"),
    ],
)
def test_hp_12_14_15_values_that_arrow_or_json_would_change(tmp_path: Path, value: object) -> None:
    write_dataset(tmp_path, [make_row(output=canonical(value))], manifest())
    for source in (tmp_path, tmp_path / "jsonl/train.jsonl"):
        (row,) = read_rows(source)
        assert equal(parse(row.output), value)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_hp_13_nan_fails_at_the_source(tmp_path: Path, number: float) -> None:
    with pytest.raises(DataError, match=r"row 'row0000': column 'pass_rate' is .*finite"):
        write_dataset(tmp_path, [make_row(pass_rate=number)], manifest())
    assert not (tmp_path / journal.MANIFEST).exists()


# ------------------------------------------------------------------------------------ same bytes


def test_row_files_depend_on_the_rows_alone(tmp_path: Path) -> None:
    for name, run in (("a", {}), ("b", {"started": "today", "jobs": 2})):
        (tmp_path / name).mkdir()
        write_dataset(tmp_path / name, awkward_rows(), manifest(run=run), shard_rows=5)
    assert row_digests(tmp_path / "a") == row_digests(tmp_path / "b")
    first, second = (read_manifest(tmp_path / name) for name in "ab")
    assert replace(first, run={}) == replace(second, run={})
    assert row_digests(tmp_path / "a") == {entry.path: entry.sha256 for entry in first.files}


def test_row_files_are_the_same_under_another_hash_seed(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path[:0] = sys.argv[2:]\n"
        "from test_dataset import awkward_rows, manifest, write_dataset\n"
        "write_dataset(sys.argv[1], awkward_rows(), manifest(), shard_rows=5)\n"
    )
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-c", program, str(tmp_path / seed), str(ROOT)]
        command.append(str(ROOT / "tests"))
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    assert row_digests(tmp_path / "1") == row_digests(tmp_path / "2") != {}


def test_writing_again_leaves_no_stale_shard(tmp_path: Path) -> None:
    rows = awkward_rows()
    write_dataset(tmp_path, rows, manifest(), shard_rows=2)
    write_dataset(tmp_path, rows[:1], manifest())
    assert journal.row_files(tmp_path) == [
        "data/train-00000-of-00001.parquet",
        "jsonl/train.jsonl",
    ]
    assert list(read_rows(tmp_path)) == rows[:1]


def test_no_rows_at_all_is_a_dataset_too(tmp_path: Path) -> None:
    complete = write_dataset(tmp_path, [], manifest())
    assert list(read_rows(tmp_path)) == []
    assert complete.counts["rows"] == 0


@pytest.mark.parametrize("failing", range(8))
def test_a_folder_with_a_manifest_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """Whatever rename fails: no manifest, or the manifest and every file it lists."""
    write_dataset(tmp_path, awkward_rows(), manifest(), shard_rows=5)
    with Journal(tmp_path / journal.JOURNAL, digest=DIGEST):
        pass
    calls = Counter[str]()
    real = os.replace

    def broken(source: Path, target: Path) -> None:
        calls["replace"] += 1
        if calls["replace"] > failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(source, target)

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(FolderError, match="disk full"):
        write_dataset(tmp_path, [make_row(n, split=s) for n, s in enumerate(SPLITS)], manifest())
    assert not (tmp_path / journal.MANIFEST).exists()
    assert not (tmp_path / journal.STAGING).exists()
    with pytest.raises(DataError, match="--resume"):
        list(read_rows(tmp_path))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([make_row(1), make_row(1)], "two rows have the id 'row0001'"),
        ([make_row(1, split="dev")], "split 'dev' is none of train, validation, test"),
        (
            [make_row(1, program_id="p"), make_row(2, program_id="p", split="test")],
            "program 'p' has rows in 'train' and in 'test'",
        ),
        ([make_row(1, output="'\ud800'")], "row 'row0001' holds text that is no Unicode"),
    ],
)
def test_rows_that_cannot_be_stored_are_refused(
    tmp_path: Path, rows: list[Row], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        write_dataset(tmp_path, rows, manifest())
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------------------- reading bad files


def damaged_copy(folder: Path, number: int, **changes: object) -> Path:
    """A .jsonl of three rows of which row `number` (from 1) has other fields; None removes one."""
    lines = []
    for n in range(1, 4):
        record = make_row(n).to_dict()
        if n == number:
            record |= changes
        lines.append(json.dumps({k: v for k, v in record.items() if v != "(gone)"}))
    path = folder / "rows.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"args": [1]}, r"column 'args' is .*\[1\].*, expected text"),
        ({"args": None}, "column 'args' is .*None.*, expected text"),
        ({"level": True}, "column 'level' is .*True.*, expected an integer"),
        ({"level": "3"}, "column 'level' is .*'3'.*, expected an integer"),
        ({"pass_rate": "x"}, "column 'pass_rate' is .*'x'.*, expected a finite number or null"),
        ({"prompt": "hi"}, "column 'prompt' is .*, expected a list of"),
        ({"prompt": [{"role": "user"}]}, "column 'prompt' holds .*, expected a list of"),
        ({"colour": 1}, "column 'colour' is unknown"),
        ({"code": "(gone)"}, "column 'code' is missing"),
        ({"schema_version": 99}, "column 'schema_version' is 99, this release reads"),
    ],
)
def test_cl_06_an_error_names_file_line_and_field(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    path = damaged_copy(tmp_path, 2, **changes)
    with pytest.raises(DataError, match=f"{path}, line 2: {message}"):
        list(read_rows(path))


def test_cl_06_in_parquet(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    records = [{**make_row(n).to_dict(), "args": [1]} for n in range(2)]
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.Table.from_pylist(records), path)
    with pytest.raises(DataError, match=f"{path}, row 1: column 'args' is .*expected text"):
        list(read_rows(path))


@pytest.mark.parametrize("line", ["{", "[1]", "nonsense", '{"id": 1}'])
def test_a_line_that_is_no_row(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(make_row().to_dict()) + "\n" + line + "\n")
    with pytest.raises(DataError, match=f"{path}, line 2: "):
        list(read_rows(path))


def test_a_parquet_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1 not really")
    with pytest.raises(DataError, match="not a readable Parquet file"):
        list(read_rows(path))


def test_folders_that_hold_no_dataset(tmp_path: Path) -> None:
    for source in (tmp_path / "absent", tmp_path):
        with pytest.raises(DataError, match="expected a folder made by `synth generate`"):
            list(read_rows(source))
        with pytest.raises(DataError, match="expected a folder made by `synth generate`"):
            read_manifest(source)
    other = tmp_path / "rows.csv"
    other.write_text("a,b\n")
    with pytest.raises(DataError, match=r"expected a \.parquet or \.jsonl file"):
        list(read_rows(other))


# ------------------------------------------------------------------------------- manifest, funnel


def test_manifest_round_trip(tmp_path: Path) -> None:
    written = write_dataset(tmp_path, awkward_rows(), manifest(run={"seconds": 1.5}))
    assert read_manifest(tmp_path) == written
    assert written.counts["split"] == {"train": 16, "validation": 1, "test": 1}
    assert {"python", "execverify", "hypothesis", "typeshed_client"} <= set(written.versions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"depth": 4}}, "'config_digest' .* one of them was edited"),
        ({"format": "other"}, "not a manifest of `synth generate`"),
        ({"seed": "0"}, "field 'seed': expected int, got str"),
        ({"schema_version": 99}, "newer than this release reads"),
        ({"files": [{"path": "x"}]}, "field 'files', item 0"),
        ({"funnel": [{"stage": "s"}]}, "field 'funnel'"),
    ],
)
def test_a_manifest_that_was_tampered_with(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    write_dataset(tmp_path, [make_row()], manifest())
    path = tmp_path / journal.MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(DataError, match=message):
        read_manifest(tmp_path)


counts = st.integers(0, 1000)
reasons = st.dictionaries(st.sampled_from(["a", "b", "c"]), counts)
stages = st.builds(Stage.of, st.just("programs"), st.just("programs"), counts, reasons)


@st.composite
def funnels(draw: st.DrawFn) -> Funnel:
    """Funnels whose stages are some of three, in their order."""
    names = [name for name in ("completions", "programs", "cases") if draw(st.booleans())]
    return Funnel(tuple(Stage.of(name, name, draw(counts), draw(reasons)) for name in names))


@given(st.lists(funnels(), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_funnels_add_up(parts: list[Funnel], random: object) -> None:
    whole = Funnel()
    for part in parts:
        whole += part
    for name in ("completions", "programs", "cases"):
        having = [s for part in parts for s in part.stages if s.name == name]
        if having:
            assert whole[name].entered == sum(s.entered for s in having)
            assert whole[name].kept == sum(s.kept for s in having)
    assert Funnel.from_json(json.loads(json.dumps(whole.to_json()))) == whole
    assert all(f"{s.kept:,}" in whole.table() for s in whole.stages)


def test_a_stage_missing_from_one_part_keeps_its_place() -> None:
    def funnel(*names: str) -> Funnel:
        return Funnel(tuple(Stage.of(name, "rows", 1) for name in names))

    for parts in (("ac", "abc"), ("abc", "ac"), ("bc", "abc"), ("ab", "abc"), ("", "abc")):
        merged = funnel(*parts[0]) + funnel(*parts[1])
        assert [stage.name for stage in merged.stages] == ["a", "b", "c"]


# ---------------------------------------------------------------------------------------- splits


@given(st.sets(st.text(max_size=8)), st.integers(), st.randoms(use_true_random=False))
def test_splits_have_exact_shares_in_any_order(ids: set[str], seed: int, random: Random) -> None:
    found = splits_of(ids, seed)
    mixed = list(ids) * 2
    random.shuffle(mixed)
    assert splits_of(mixed, seed) == found
    counts = Counter(found.values())
    assert counts["test"] == counts["validation"] == len(ids) // 20
    assert counts["train"] == len(ids) - 2 * (len(ids) // 20)
    assert set(splits_of(ids, seed, (0, 0, 1)).values()) <= {"test"}


def test_splits_differ_by_seed_and_are_pinned() -> None:
    ids = [f"p{n}" for n in range(6)]
    # Pinned: another hash would move programs between the splits of published datasets.
    assert list(splits_of(ids, 0, (0.34, 0.33, 0.33)).items()) == PINNED
    assert splits_of(ids, 1, (0.34, 0.33, 0.33)) != dict(PINNED)


PINNED = [
    ("p4", "train"),
    ("p5", "train"),
    ("p2", "train"),
    ("p0", "train"),
    ("p1", "validation"),
    ("p3", "test"),
]


def test_split_shares_must_add_up() -> None:
    for shares in ((0.5, 0.5), (0.5, 0.5, 0.5), (1.5, -0.5, 0)):
        with pytest.raises(ValueError, match="three shares with sum 1"):
            splits_of(["p"], 0, shares)


# --------------------------------------------------------------------------------------- journal

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),  # lone surrogates included
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.integers(0, 1000), json_values, max_size=6))
def test_finished_slots_come_back(
    tmp_path_factory: pytest.TempPathFactory, payloads: dict[int, object]
) -> None:
    path = tmp_path_factory.mktemp("run") / journal.JOURNAL
    with Journal(path, digest=DIGEST) as log:
        for slot, payload in payloads.items():
            log.append(slot, f"key{slot}", payload)
            assert log.read(slot).payload == payload
    with Journal(path, digest=DIGEST) as log:
        assert {e.slot: e.payload for e in log.entries()} == payloads
        assert log.slots == tuple(sorted(payloads))
        assert all(log.key(slot) == f"key{slot}" for slot in payloads)
        assert log.damaged == 0


def filled(folder: Path, slots: int = 3) -> Path:
    path = folder / journal.JOURNAL
    with Journal(path, digest=DIGEST) as log:
        for slot in range(slots):
            log.append(slot, "k", {"text": "é" * slot})
    return path


def test_a_journal_cut_anywhere_keeps_its_whole_lines(tmp_path: Path) -> None:
    data = filled(tmp_path).read_bytes()
    path = tmp_path / journal.JOURNAL
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        whole = max(0, data[:cut].count(b"\n") - 1)
        with Journal(path, digest=DIGEST) as log:
            assert log.slots == tuple(range(whole))
            log.append(7, "k", "after")
        with Journal(path, digest=DIGEST) as log:
            assert log.slots == (*range(whole), 7)
            assert log.damaged == 0


def test_a_damaged_line_is_dropped_and_the_others_stay(tmp_path: Path) -> None:
    path = filled(tmp_path)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    at = len(lines[0]) + len(lines[1]) + len(lines[2]) // 2  # in the middle of slot 1
    for byte in (b"\x00", b"\xff", b"\r", b"\n", b"x"):
        path.write_bytes(data[:at] + byte + data[at + 1 :])
        with Journal(path, digest=DIGEST) as log:
            assert log.slots == (0, 2)
            assert log.damaged >= 1


def test_a_journal_of_another_configuration_is_refused(tmp_path: Path) -> None:
    path = filled(tmp_path)
    with pytest.raises(FolderError, match=r"another configuration.*--overwrite or another --out"):
        Journal(path, digest=config_digest({"depth": 4}))
    path.write_text("something else\n")
    with pytest.raises(FolderError, match="does not begin as a journal"):
        Journal(path, digest=DIGEST)


def test_a_slot_is_finished_once(tmp_path: Path) -> None:
    with Journal(filled(tmp_path), digest=DIGEST) as log:
        with pytest.raises(ValueError, match="slot 1 is finished already"):
            log.append(1, "k", None)
        with pytest.raises(ValueError, match="JSON compliant"):
            log.append(9, "k", float("nan"))
        assert 9 not in log
        assert len(log) == 3


def test_a_full_disk_leaves_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 10:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, data[: len(data) // 2])

    with Journal(path, digest=DIGEST) as log:
        monkeypatch.setattr(os, "write", full)
        with pytest.raises(FolderError, match=r"disk full.*free space and run again with --resume"):
            log.append(9, "k", "payload")
        monkeypatch.undo()
        log.append(10, "k", "after")
    with Journal(path, digest=DIGEST) as log:
        assert log.slots == (0, 1, 2, 10)
        assert log.damaged == 0


HOLDER = """
import sys, time
from synth.dataset import Journal
log = Journal(sys.argv[1], digest=sys.argv[2])
log.append(50, "k", "from the other process")
print("locked", flush=True)
time.sleep(60)
"""


def test_one_writer_and_a_killed_one_leaves_the_lock_and_its_slots(tmp_path: Path) -> None:
    path = filled(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(path), DIGEST]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(FolderError, match="another run is writing to"):
            Journal(path, digest=DIGEST)
        with pytest.raises(FolderError, match="another run is writing to"):
            prepare_folder(tmp_path, overwrite=True)
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.communicate()
    with Journal(path, digest=DIGEST) as log:
        assert log.read(50).payload == "from the other process"


# --------------------------------------------------------------------------------- prepare_folder


def test_a_new_or_empty_folder_is_fine(tmp_path: Path) -> None:
    for resume in (False, True):
        folder = tmp_path / str(resume)
        assert prepare_folder(folder, resume=resume) == ()
        assert prepare_folder(folder, resume=resume) == ()
        assert list(folder.iterdir()) == []


def test_completions_are_kept_and_stand_in_nobodys_way(tmp_path: Path) -> None:
    """They are paid for: a folder that holds nothing else is as good as empty, and none deletes them."""
    store = tmp_path / journal.STORE
    log = tmp_path / f"{journal.STORE}-wal"
    for path in (store, log):
        path.write_text("paid for")
    assert prepare_folder(tmp_path) == ()
    with Journal(tmp_path / journal.JOURNAL, digest="d"):
        pass
    with pytest.raises(FolderError, match=r"--resume"):
        prepare_folder(tmp_path)
    assert prepare_folder(tmp_path, overwrite=True) == (journal.JOURNAL,)
    assert [path.read_text() for path in (store, log)] == ["paid for"] * 2


def test_a_folder_that_is_not_empty_names_the_three_ways_out(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(FolderError, match=r"thesis\.tex.*--resume.*--overwrite.*another --out"):
        prepare_folder(tmp_path)
    with pytest.raises(FolderError, match=r"no run to resume.*another --out"):
        prepare_folder(tmp_path, resume=True)
    with pytest.raises(FolderError, match="--overwrite only deletes what a run has written"):
        prepare_folder(tmp_path, overwrite=True)
    with pytest.raises(ConfigError, match="contradict"):
        prepare_folder(tmp_path, resume=True, overwrite=True)
    assert (tmp_path / "thesis.tex").read_text() == "years of work"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": "other"}', "\x00"])
def test_a_strangers_manifest_is_not_ours(tmp_path: Path, content: str) -> None:
    (tmp_path / journal.MANIFEST).write_text(content)
    with pytest.raises(FolderError, match="only deletes what a run has written"):
        prepare_folder(tmp_path, overwrite=True)
    assert (tmp_path / journal.MANIFEST).read_text() == content


def test_overwrite_deletes_the_run_and_nothing_else(tmp_path: Path) -> None:
    write_dataset(tmp_path, awkward_rows(), manifest())
    filled(tmp_path)
    mine = [tmp_path / "notes.txt", tmp_path / "data" / "mine.parquet"]
    for path in mine:
        path.write_text("mine")
    removed = prepare_folder(tmp_path, overwrite=True)
    assert {"manifest.json", "journal.jsonl", "README.md"} <= set(removed)
    left = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert left == sorted(mine)


def test_overwrite_of_a_run_that_was_killed(tmp_path: Path) -> None:
    filled(tmp_path)
    assert prepare_folder(tmp_path, overwrite=True) == (journal.JOURNAL,)
    assert list(tmp_path.iterdir()) == []


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FolderError, match="is not a folder"):
        prepare_folder(file)
    with pytest.raises(FolderError, match=r"lies under a file|is not a folder"):
        prepare_folder(file / "sub")
    with pytest.raises(FolderError, match=r"does not exist: create it \(mkdir -p"):
        prepare_folder(tmp_path / "no" / "such")
    with pytest.raises(FolderError, match="too long"):
        prepare_folder(tmp_path / ("x" * 300))


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (errno.EROFS, "cannot write to"),
        (errno.EACCES, "cannot write to"),
        (errno.ENOSPC, "disk full.*--resume"),
        (errno.EIO, "cannot use the folder"),
    ],
)
def test_a_folder_that_refuses_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, message: str
) -> None:
    def refuse(**_: object) -> object:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(journal.tempfile, "TemporaryFile", refuse)
    with pytest.raises(FolderError, match=message):
        prepare_folder(tmp_path / "out")


def test_a_folder_where_not_even_root_may_write() -> None:
    with pytest.raises(FolderError, match=r"cannot write to .*--out"):
        prepare_folder("/sys/execverify-rows")


def test_exception_rows_are_rows(tmp_path: Path) -> None:
    row = make_row(output="", output_type="ValueError")
    row = replace(row, spec=make_spec(row, raises="ValueError"))
    write_dataset(tmp_path, [row], manifest())
    assert list(read_rows(tmp_path)) == [row]
    assert dataset.SPLITS == SPLITS
