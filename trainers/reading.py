"""Records of a source, whatever it is stored as. Covers files, folders and the Hub; no layout, no checks.

JSON files are read without Arrow, which would give every record the union of all keys, with nulls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.errors import DataError

__all__ = ["Place", "read_records"]

SUFFIXES = (".parquet", ".jsonl", ".json")
_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_OURS = ("manifest.json", "journal.jsonl")

Records = Iterator[tuple["Place", dict[str, Any]]]
Drop = Callable[[str, str], None]


@dataclass(frozen=True)
class Place:
    """Where a record stands."""

    text: str
    split: str = ""
    """The split that the place itself names; empty if it names none."""


def read_records(source: str, split: str, name: str | None, drop: Drop) -> Records:
    """The records of a source with their places. `drop` is told of lines that are no record.

    Of a folder, the files are read whose name holds the split, or all if none does. Raises `DataError`.
    """
    if not source:
        raise DataError("data.path is empty; give a folder, a file or an id on the Hub")
    path = Path(source)
    if path.is_file():
        yield from _file(path, drop)
    elif path.is_dir():
        yield from _folder(path, split, drop)
    elif _HUB_ID.fullmatch(source):
        yield from _hub(source, split, name)
    else:
        raise DataError(f"{source!r} does not exist: expected a folder, a file or an id on the Hub")


def _folder(folder: Path, split: str, drop: Drop) -> Records:
    if any((folder / name).exists() for name in _OURS):
        from synth.dataset import read_rows

        for number, row in enumerate(read_rows(folder), 1):
            yield Place(f"{folder}, row {number}"), row.to_dict()
        return
    files = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    # Of one dataset stored twice, as ours is, one copy is enough.
    kinds = [suffix for suffix in SUFFIXES if any(path.suffix == suffix for path in files)]
    files = [path for path in files if path.suffix == kinds[0]] if kinds else []
    named = [path for path in files if split in path.stem]
    if not files:
        raise DataError(f"{folder}: no {', '.join(SUFFIXES)} file in it")
    for path in named or files:
        yield from _file(path, drop)


def _file(path: Path, drop: Drop) -> Records:
    if path.suffix == ".parquet":
        yield from _parquet(path)
    elif path.suffix == ".jsonl":
        yield from _lines(path, drop)
    elif path.suffix == ".json":
        yield from _json(path, drop)
    else:
        raise DataError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")


def _lines(path: Path, drop: Drop) -> Records:
    with path.open("rb") as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            place = Place(f"{path}, line {number}")
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                drop("a line that is not JSON", place.text)
                continue
            if isinstance(record, dict):
                yield place, record
            else:
                drop("a line that is no JSON object", place.text)


def _json(path: Path, drop: Drop) -> Records:
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON: {error}") from error
    if isinstance(content, dict):  # {"data": [...]}, or one list under another name
        lists = [value for value in content.values() if isinstance(value, list)]
        content = lists[0] if len(lists) == 1 else [content]
    if not isinstance(content, list):
        raise DataError(f"{path}: holds a {type(content).__name__}; expected a list of objects")
    for number, record in enumerate(content, 1):
        place = Place(f"{path}, entry {number}")
        if isinstance(record, dict):
            yield place, record
        else:
            drop("an entry that is no JSON object", place.text)


def _parquet(path: Path) -> Records:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with path.open("rb") as stream, pq.ParquetFile(stream) as shard:
            for batch in shard.iter_batches(batch_size=1_000):
                for record in batch.to_pylist():
                    number += 1
                    yield Place(f"{path}, row {number}"), record
    except pa.ArrowException as error:
        raise DataError(f"{path}: not a readable Parquet file: {error}") from error


def _hub(source: str, split: str, name: str | None) -> Records:
    from datasets import load_dataset

    try:
        table = load_dataset(source, name, split=split, streaming=True)
        for number, record in enumerate(table, 1):
            yield Place(f"{source}, {split}, row {number}", split), dict(record)
    except (OSError, ValueError) as error:
        # What the client raises for an id or split that is not there, or without a connection.
        raise DataError(f"{source}: the split {split!r} cannot be read: {error}") from error
