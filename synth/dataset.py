"""Rows on disk: a folder that `datasets.load_dataset` reads and that says how it was made.

    DIR/README.md                        data card; its header names the Parquet shards
    DIR/data/<split>-00000-of-0000N.parquet
    DIR/jsonl/<split>.jsonl              the same rows, one JSON object a line
    DIR/manifest.json                    configuration, versions, counts, funnel, files with SHA-256
    DIR/journal.jsonl                    finished slots, for --resume (see `journal.py`)

Covers writing, reading and splitting. The row files depend on the rows alone: not on the clock, the
folder or the number of workers (Parquet bytes also on the version of pyarrow, which the manifest
names). Does not cover the card's text (`publish.py`) nor figures (`report.py`). Rows are held in
memory while they are written.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rewards.row import COLUMNS, Row, RowError
from synth.errors import DataError
from synth.journal import (
    CARD,
    JOURNAL,
    MANIFEST,
    STAGING,
    Entry,
    Journal,
    folder_errors,
    prepare_folder,
    row_files,
)
from synth.manifest import FileEntry, Funnel, Manifest, Stage, file_digest

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "FRACTIONS",
    "SPLITS",
    "Entry",
    "FileEntry",
    "Funnel",
    "Journal",
    "Manifest",
    "Stage",
    "arrow_schema",
    "card_header",
    "check_files",
    "data_files",
    "prepare_folder",
    "read_manifest",
    "read_rows",
    "splits_of",
    "write_dataset",
]

SPLITS = ("train", "validation", "test")
FRACTIONS = (0.90, 0.05, 0.05)
"""Default shares of programs in train, validation and test."""

SHARD_ROWS = 10_000
# Fixed, since the bytes of a shard depend on them.
ROW_GROUP_ROWS = 1_000
COMPRESSION = "zstd"


def arrow_schema() -> pa.Schema:
    """The one schema of all shards: no column's type is ever inferred from values."""
    import pyarrow as pa

    message = pa.struct([pa.field("role", pa.string()), pa.field("content", pa.string())])
    types = {
        "string": pa.string(),
        "int64": pa.int64(),
        "float64": pa.float64(),
        "messages": pa.list_(pa.field("element", message)),  # the name that Parquet gives it
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in COLUMNS])


def splits_of(
    program_ids: Iterable[str], seed: int | str = 0, fractions: Sequence[float] = FRACTIONS
) -> dict[str, str]:
    """The split of each program, and so of every row of it: "train", "validation" or "test".

    Programs are put in the order of SHA-256 over seed and id; the last ones are the test split, those
    before them validation, in exact shares rounded down (`fractions`: three shares, sum 1). So a small
    dataset still has its train split, and validation and test begin at 20 programs by default.
    """
    if len(fractions) != len(SPLITS) or min(fractions) < 0 or not math.isclose(sum(fractions), 1):
        raise ValueError(f"expected three shares with sum 1, got {fractions!r}")
    order = sorted(
        dict.fromkeys(program_ids),
        key=lambda name: hashlib.sha256(f"split:{seed}:{name}".encode()).digest(),
    )
    # A hair is added before rounding down: 0.05 * 20 must be 1 whatever the float says.
    test, validation = (math.floor(len(order) * share + 1e-9) for share in fractions[:0:-1])
    train = len(order) - test - validation
    sizes = zip(SPLITS, (train, validation, test), strict=True)
    names = [split for split, size in sizes for _ in range(size)]
    return dict(zip(order, names, strict=True))


# ---------------------------------------------------------------------------------------- writing


def write_dataset(
    folder: str | Path,
    rows: Iterable[Row],
    manifest: Manifest,
    *,
    shard_rows: int = SHARD_ROWS,
    card: Callable[[Manifest], str] | None = None,
) -> Manifest:
    """Writes all files of the folder and returns the manifest with counts and files filled in.

    Rows keep the order given, within their split. Files are written aside, then renamed one by one;
    the old manifest is removed first and the new one comes last, so a folder with a manifest is
    complete. `card` makes the text of README.md from that manifest (default: a header that lets
    `datasets` find the shards). Raises `FolderError` when the disk refuses, and `DataError` for
    rows that cannot be stored: equal ids, a program in two splits, text that is not Unicode, NaN.
    """
    target = Path(folder)
    table = tuple(rows)
    _check_rows(table)
    by_split = {split: [row for row in table if row.split == split] for split in SPLITS}
    used = [split for split in SPLITS if by_split[split]] or ["train"]
    with folder_errors(target):
        staging = target / STAGING
        shutil.rmtree(staging, ignore_errors=True)
        try:
            names = []
            for split in used:
                names += _write_shards(staging, split, by_split[split], shard_rows)
                names.append(_write_jsonl(staging, split, by_split[split]))
            files = tuple(_file_entry(staging, name) for name in names)
            complete = replace(manifest, counts=_counts(table), files=files)
            text = card(complete) if card else f"{card_header(used)}\n# Rows\n"
            _write_text(staging / CARD, text)
            _write_text(staging / MANIFEST, json.dumps(complete.to_json(), indent=2) + "\n")
            _commit(target, staging, [*names, CARD, MANIFEST])
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return complete


def data_files(splits: Iterable[str]) -> list[dict[str, str]]:
    """`data_files` of the card's header for these splits."""
    return [{"split": split, "path": f"data/{split}-*.parquet"} for split in splits]


def card_header(splits: Iterable[str]) -> str:
    """The smallest card header with which `datasets` reads the Parquet shards and nothing else."""
    lines = ["---", "configs:", "- config_name: default", "  data_files:"]
    for item in data_files(splits):
        lines += [f"  - split: {item['split']}", f"    path: {item['path']}"]
    return "\n".join([*lines, "---", ""])


def _check_rows(rows: Sequence[Row]) -> None:
    ids: set[str] = set()
    splits: dict[str, str] = {}
    for row in rows:
        if row.id in ids:
            raise DataError(f"two rows have the id {row.id!r}: ids are unique in a dataset")
        ids.add(row.id)
        if row.split not in SPLITS:
            raise DataError(f"row {row.id!r}: split {row.split!r} is none of {', '.join(SPLITS)}")
        if splits.setdefault(row.program_id, row.split) != row.split:
            raise DataError(
                f"program {row.program_id!r} has rows in {splits[row.program_id]!r} and in"
                f" {row.split!r}: a program belongs to one split (see splits_of)"
            )
        record = row.to_dict()
        _row_from(record, f"row {row.id!r}")
        try:
            # Ours are ASCII with escapes; anything else must at least be Unicode for Parquet.
            json.dumps(record, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError as error:
            raise DataError(f"row {row.id!r} holds text that is no Unicode: {error}") from error


def _counts(rows: Sequence[Row]) -> dict[str, object]:
    splits = Counter(row.split for row in rows)
    return {
        "rows": len(rows),
        "programs": len({row.program_id for row in rows}),
        "split": {split: splits[split] for split in SPLITS if splits[split]},
        "level": {str(k): n for k, n in sorted(Counter(row.level for row in rows).items())},
        "task": dict(sorted(Counter(row.task for row in rows).items())),
    }


def _write_shards(staging: Path, split: str, rows: Sequence[Row], shard_rows: int) -> list[str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = arrow_schema()
    shards = max(1, -(-len(rows) // shard_rows))
    names = []
    for number in range(shards):
        part = rows[number * shard_rows : (number + 1) * shard_rows]
        table = pa.Table.from_pylist([row.to_dict() for row in part], schema=schema)
        name = f"data/{split}-{number:05d}-of-{shards:05d}.parquet"
        (staging / "data").mkdir(parents=True, exist_ok=True)
        with (staging / name).open("wb") as stream:
            pq.write_table(table, stream, compression=COMPRESSION, row_group_size=ROW_GROUP_ROWS)
            stream.flush()
            os.fsync(stream.fileno())
        names.append(name)
    return names


def _write_jsonl(staging: Path, split: str, rows: Sequence[Row]) -> str:
    # ASCII, so that no reader splits a line at U+2028; NaN is no JSON (strict readers refuse it).
    lines = [json.dumps(row.to_dict(), ensure_ascii=True, allow_nan=False) + "\n" for row in rows]
    (staging / "jsonl").mkdir(parents=True, exist_ok=True)
    name = f"jsonl/{split}.jsonl"
    _write_text(staging / name, "".join(lines))
    return name


def _write_text(path: Path, text: str) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _file_entry(folder: Path, name: str) -> FileEntry:
    path = folder / name
    return FileEntry(name, path.stat().st_size, file_digest(path))


def _commit(target: Path, staging: Path, names: Sequence[str]) -> None:
    (target / MANIFEST).unlink(missing_ok=True)
    _sync_folder(target)
    for stale in row_files(target):
        (target / stale).unlink()
    for part in ("data", "jsonl"):
        (target / part).mkdir(exist_ok=True)
    for name in names[:-1]:
        os.replace(staging / name, target / name)
    for changed in (target / "data", target / "jsonl", target):
        _sync_folder(changed)
    os.replace(staging / names[-1], target / names[-1])
    _sync_folder(target)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------------------------------- reading


def read_manifest(folder: str | Path) -> Manifest:
    """The manifest of a finished folder; raises `DataError` saying what is wrong."""
    path = Path(folder) / MANIFEST
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise DataError(_no_dataset(Path(folder))) from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    try:
        return Manifest.from_json(data, str(path))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        # Edited by hand: a count that is text, a file entry without its path.
        raise DataError(f"{path}: a field is damaged: {error}") from error


def check_files(folder: str | Path, manifest: Manifest) -> None:
    """Hold the files of a dataset against the SHA-256 in its manifest; raises `DataError` naming the first
    that differs or is missing.
    """
    for entry in manifest.files:
        path = Path(folder) / entry.path
        if not path.is_file():
            raise DataError(
                f"{path}: is missing, though {MANIFEST} lists it; make the dataset again"
            )
        if path.stat().st_size != entry.bytes or file_digest(path) != entry.sha256:
            raise DataError(
                f"{path}: was changed after it was written (its SHA-256 is not the one in {MANIFEST});"
                " make the dataset again, or give the file alone to see its rows"
            )


def _no_dataset(folder: Path) -> str:
    if not folder.exists():
        return f"{str(folder)!r} does not exist: expected a folder made by `synth generate`"
    if (folder / JOURNAL).exists():
        return (
            f"the run in {str(folder)!r} did not finish (it has a {JOURNAL} and no {MANIFEST}):"
            " give the same `synth generate` command again with --resume"
        )
    return f"{str(folder)!r} holds no {MANIFEST}: expected a folder made by `synth generate`"


def read_rows(source: str | Path) -> Iterator[Row]:
    """The rows of a dataset folder, or of one .jsonl or .parquet file, in stored order.

    Of a folder the Parquet shards are read: those in the manifest, or without one all under data/
    (or, without any, jsonl/). Raises `DataError` that names file, line (row of a Parquet file,
    counted from 1) and field.
    """
    path = Path(source)
    if path.is_dir():
        for name in _files_to_read(path):
            yield from _read_file(path / name)
    elif path.is_file():
        yield from _read_file(path)
    else:
        raise DataError(_no_dataset(path))


def _files_to_read(folder: Path) -> list[str]:
    if (folder / MANIFEST).exists():
        names = [entry.path for entry in read_manifest(folder).files]
    elif (folder / JOURNAL).exists():  # row files of a run that was killed while writing them
        raise DataError(_no_dataset(folder))
    else:
        names = row_files(folder)
    for ending in (".parquet", ".jsonl"):
        chosen = [name for name in names if name.endswith(ending)]
        if chosen:
            return chosen
    raise DataError(_no_dataset(folder))


def _read_file(path: Path) -> Iterator[Row]:
    if path.suffix not in (".parquet", ".jsonl"):
        raise DataError(f"{path}: expected a .parquet or .jsonl file, or a dataset folder")
    records = _parquet_records(path) if path.suffix == ".parquet" else _json_records(path)
    place = "row" if path.suffix == ".parquet" else "line"
    try:
        for number, record in records:
            where = f"{path}, {place} {number}"
            yield _checked(_row_from(record, where), where)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error


def _checked(row: Row, where: str) -> Row:
    """The row, if its spec is a JSON object, as every reader of rows takes for granted."""
    try:
        spec = json.loads(row.spec)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: field 'spec' is not JSON: {error}") from error
    if not isinstance(spec, dict):
        raise DataError(
            f"{where}: field 'spec' holds a {type(spec).__name__}; expected a JSON object"
        )
    return row


def _json_records(path: Path) -> Iterator[tuple[int, object]]:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                yield number, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}, line {number}: not a JSON object: {error}") from error


def _parquet_records(path: Path) -> Iterator[tuple[int, object]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        # An open file, not a path: Arrow only takes paths that are UTF-8.
        with path.open("rb") as stream, pq.ParquetFile(stream) as shard:
            for batch in shard.iter_batches(batch_size=ROW_GROUP_ROWS):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not a readable Parquet file: {error}") from error


def _row_from(record: object, where: str) -> Row:
    """The row in a decoded record, every column checked; the `DataError` begins with `where`."""
    if not isinstance(record, dict):
        raise DataError(f"{where}: expected an object, got {type(record).__name__}")
    try:
        return Row.from_dict(record)
    except RowError as error:
        raise DataError(f"{where}: {error}") from error
