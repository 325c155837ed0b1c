"""The folder of a run while it runs: what may be written where, and which slots are finished.

Covers `prepare_folder` (may this run use this folder?), `Journal` (the append-only file that makes
a killed run resumable) and `folder_errors` (what the operating system refuses, in plain words).
Does not cover the rows: `dataset.py` writes them when the run is complete.

How a line of the journal survives: it is handed to the kernel by one `write` as soon as its slot is
finished, so a process that is killed loses nothing; it is forced to the disk every `sync_every`
lines and at the end, so a machine that loses power loses at most that many slots. Each line carries
a checksum; a torn or damaged line is dropped and its slot is done again.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from synth.errors import ConfigError, FolderError
from synth.manifest import FORMAT

__all__ = [
    "CARD",
    "JOURNAL",
    "MANIFEST",
    "STAGING",
    "STORE",
    "Entry",
    "Journal",
    "folder_errors",
    "prepare_folder",
    "row_files",
]

CARD = "README.md"
MANIFEST = "manifest.json"
JOURNAL = "journal.jsonl"
STORE = "completions.sqlite"
"""Completions that were asked of models; it is paid for, so no run deletes it."""
STAGING = ".writing"
"""Folder inside the output folder in which files are written before they get their names."""

ROW_FILE = re.compile(
    r"data/(?:train|validation|test)-\d{5}-of-\d{5}\.parquet|jsonl/(?:train|validation|test)\.jsonl"
)
"""Paths of row files, relative to the folder; nothing else under data/ and jsonl/ is ours."""

JOURNAL_VERSION = 1
CHECK_DIGITS = 12


@contextlib.contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Turns `OSError` from work in `folder` into a `FolderError` that says what to do next."""
    try:
        yield
    except OSError as error:
        raise FolderError(_plain(folder, error)) from error


def _plain(folder: Path, error: OSError) -> str:
    code = error.errno
    if code in (errno.ENOSPC, errno.EDQUOT):
        return (
            f"disk full while writing to {str(folder)!r}: what was finished is kept; free space"
            " and run again with --resume"
        )
    if code in (errno.EACCES, errno.EPERM, errno.EROFS):
        return (
            f"cannot write to {str(folder)!r} ({error.strerror}): give a folder you may write to"
            " with --out"
        )
    if code == errno.ENOTDIR:
        return f"{str(folder)!r} lies under a file, not under a folder: give another --out"
    if code == errno.ENAMETOOLONG:
        return f"the name of the folder {str(folder)[:60]!r}… is too long: give another --out"
    return f"cannot use the folder {str(folder)!r}: {error.strerror or error}"


def row_files(folder: Path) -> list[str]:
    """Relative paths of the row files in `folder`, sorted; files with other names are left out."""
    found: list[str] = []
    for part in ("data", "jsonl"):
        base = folder / part
        if base.is_dir() and not base.is_symlink():
            names = (f"{part}/{entry.name}" for entry in base.iterdir())
            found.extend(name for name in names if ROW_FILE.fullmatch(name))
    return sorted(found)


def prepare_folder(
    path: str | Path, *, resume: bool = False, overwrite: bool = False
) -> tuple[str, ...]:
    """Makes `path` ready to be written to and returns the files that were deleted for that.

    A folder that is missing or empty is always fine (its parent must exist), and so is one that holds
    completions alone: they are used again. One that holds anything else needs `resume` (goes on with the
    journal there) or `overwrite`, which deletes the files of an earlier run — only files that a run
    writes, and only where a manifest or journal shows that one did. Raises `FolderError`, and
    `ConfigError` when both are given.
    """
    folder = Path(path)
    if resume and overwrite:
        raise ConfigError("--resume and --overwrite contradict each other: give one of them")
    with folder_errors(folder):
        _make_folder(folder)
        names = sorted(entry.name for entry in folder.iterdir())
        occupants = [name for name in names if not name.startswith(STORE)]
        removed: tuple[str, ...] = ()
        if occupants and resume:
            _check_resumable(folder, occupants)
        elif occupants and overwrite:
            removed = _delete_run(folder, occupants)
        elif occupants:
            raise FolderError(_three_ways(folder, occupants))
        # Permission bits do not tell (root, read-only mounts, quotas): only writing does.
        with tempfile.TemporaryFile(dir=folder):
            pass
    return removed


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    if folder.exists() or folder.is_symlink():
        raise FolderError(f"{str(folder)!r} is not a folder: give another --out")
    parent = folder.parent
    if not parent.exists():
        raise FolderError(
            f"the folder {str(parent)!r}, in which {folder.name!r} was to be made, does not exist:"
            f" create it (mkdir -p {parent}) or give another --out"
        )
    folder.mkdir()


def _three_ways(folder: Path, occupants: list[str]) -> str:
    return (
        f"the folder {str(folder)!r} exists and is not empty (it holds {_some(occupants)}):"
        " --resume goes on with the run in it, --overwrite replaces that run,"
        " another --out leaves it alone"
    )


def _some(names: list[str], count: int = 3) -> str:
    shown = ", ".join(names[:count])
    return f"{shown}, … {len(names)} in all" if len(names) > count else shown


def _is_manifest(path: Path) -> bool:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, IsADirectoryError, ValueError):
        return False
    return isinstance(data, dict) and data.get("format") == FORMAT


def _is_journal(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            line = stream.readline(1 << 16)
    except (FileNotFoundError, IsADirectoryError):
        return False
    # Empty: the run was killed before its first line.
    return not line or _decode(line) is not None


def _check_resumable(folder: Path, occupants: list[str]) -> None:
    if (folder / JOURNAL).is_file():
        return
    raise FolderError(
        f"there is no run to resume in {str(folder)!r}: it holds {_some(occupants)} but no"
        f" {JOURNAL}; give --overwrite to replace a run, or another --out"
    )


def _delete_run(folder: Path, occupants: list[str]) -> tuple[str, ...]:
    if not (_is_manifest(folder / MANIFEST) or _is_journal(folder / JOURNAL)):
        raise FolderError(
            f"{str(folder)!r} holds {_some(occupants)}, and neither a {MANIFEST} nor a {JOURNAL}"
            " written by `synth generate`: --overwrite only deletes what a run has written; give"
            " another --out, or empty the folder yourself"
        )
    journal = folder / JOURNAL
    if journal.is_file():
        descriptor = os.open(journal, os.O_RDONLY)
        try:
            _lock(descriptor, folder)
        finally:
            os.close(descriptor)
    # The manifest goes first: from here on the folder no longer claims to be complete.
    names = [MANIFEST, *row_files(folder), CARD, JOURNAL]
    removed = [name for name in names if (folder / name).is_file()]
    for name in removed:
        (folder / name).unlink()
    shutil.rmtree(folder / STAGING, ignore_errors=True)
    for part in ("data", "jsonl"):
        with contextlib.suppress(OSError):  # not empty: someone else's files stay
            (folder / part).rmdir()
    return tuple(removed)


def _lock(descriptor: int, folder: Path) -> None:
    """Exclusive, not waiting; the kernel lets go of it when the process ends, however it ends."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderError(
            f"another run is writing to {str(folder)!r}: wait until it has ended, or give"
            " another --out"
        ) from None


def _encode(record: Mapping[str, object]) -> bytes:
    # ASCII, so that even a lone surrogate in a completion survives.
    text = json.dumps(record, separators=(",", ":"), allow_nan=False)
    return f"{_check(text)} {text}\n".encode("ascii")


def _check(text: str) -> str:
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:CHECK_DIGITS]


def _decode(line: bytes) -> dict[str, object] | None:
    """The record of a line, or None if the line is torn or damaged."""
    try:
        check, _, text = line.decode("ascii").partition(" ")
    except UnicodeDecodeError:
        return None
    if not text.endswith("\n") or check != _check(text[:-1]):
        return None
    record = json.loads(text)
    return record if isinstance(record, dict) else None


@dataclass(frozen=True)
class Entry:
    """A finished slot."""

    slot: int
    """Number of the slot in the run, >= 0."""
    key: str
    """What the slot was asked to do; the reader checks that it would ask the same again."""
    payload: object
    """JSON value: what came of it."""


class Journal:
    """The finished slots of one run, in a file that one process at a time may write.

    Opens (or makes) the file, locks it, and reads which slots it holds; payloads stay on the disk
    until `read` is called. Use as a context manager. Raises `FolderError` when the file belongs to
    a run with another configuration, is locked, cannot be written, or the disk is full. The lock
    (flock) ends with the process; child processes that are started by `exec` do not inherit it.
    """

    def __init__(self, path: str | Path, *, digest: str, sync_every: int = 64) -> None:
        self.path = Path(path)
        self.damaged = 0
        """Lines that were dropped on opening because they were torn or damaged."""
        self._sync_every = sync_every
        self._unsynced = 0
        self._places: dict[int, tuple[str, int, int]] = {}
        with folder_errors(self.path.parent):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self.path, flags, 0o644)
            try:
                _lock(self._descriptor, self.path.parent)
                self._load(digest)
            except BaseException:
                os.close(self._descriptor)
                raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __contains__(self, slot: object) -> bool:
        return slot in self._places

    def __len__(self) -> int:
        return len(self._places)

    @property
    def slots(self) -> tuple[int, ...]:
        """The finished slots, in ascending order."""
        return tuple(sorted(self._places))

    def key(self, slot: int) -> str:
        """The key that `slot` was finished under; raises `KeyError` if it is not finished."""
        return self._places[slot][0]

    def read(self, slot: int) -> Entry:
        """The entry of a finished slot; raises `KeyError` if it is not finished."""
        key, offset, size = self._places[slot]
        record = _decode(os.pread(self._descriptor, size, offset))
        if record is None:
            raise FolderError(
                f"{str(self.path)!r} changed while it was in use: run again with --resume"
            )
        return Entry(slot, key, record["payload"])

    def entries(self) -> Iterator[Entry]:
        """All finished slots, in ascending order."""
        for slot in self.slots:
            yield self.read(slot)

    def append(self, slot: int, key: str, payload: object) -> None:
        """Records `slot` as finished. `payload` is a JSON value; NaN raises `ValueError`."""
        if slot in self._places:
            raise ValueError(f"slot {slot} is finished already")
        line = _encode({"slot": slot, "key": key, "payload": payload})
        offset = self._write(line)
        self._places[slot] = (key, offset, len(line))
        self._unsynced += 1
        if self._unsynced >= self._sync_every:
            self.sync()

    def sync(self) -> None:
        """Forces everything appended so far to the disk."""
        with folder_errors(self.path.parent):
            os.fsync(self._descriptor)
        self._unsynced = 0

    def close(self) -> None:
        """Forces the lines to the disk and lets go of the lock; may be called again."""
        if self._descriptor < 0:
            return
        try:
            self.sync()
        finally:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, line: bytes) -> int:
        """Appends one line whole, or leaves the file as it was and raises; returns its offset."""
        with folder_errors(self.path.parent):
            offset = os.fstat(self._descriptor).st_size
            try:
                done = 0
                while done < len(line):
                    done += os.write(self._descriptor, line[done:])
            except BaseException:
                os.ftruncate(self._descriptor, offset)
                raise
        return offset

    def _load(self, digest: str) -> None:
        with open(self._descriptor, "rb", closefd=False) as stream:
            stream.seek(0)
            offset = 0
            for line in stream:
                if not line.endswith(b"\n"):  # torn: the next line must not be glued to it
                    self.damaged += 1
                    os.ftruncate(self._descriptor, offset)
                    break
                if offset:
                    self._load_line(line, offset)
                else:
                    self._check_header(line, digest)
                offset += len(line)
        if not offset:
            self._write(_encode({"journal": JOURNAL_VERSION, "digest": digest}))

    def _load_line(self, line: bytes, offset: int) -> None:
        record = _decode(line)
        if record is None:
            self.damaged += 1
            return
        slot, key = record.get("slot"), record.get("key")
        if not isinstance(slot, int) or not isinstance(key, str) or "payload" not in record:
            raise FolderError(f"{str(self.path)!r} is not a journal of this release")
        self._places[slot] = (key, offset, len(line))

    def _check_header(self, line: bytes, digest: str) -> None:
        header = _decode(line) or {}
        if header.get("journal") != JOURNAL_VERSION:
            raise FolderError(
                f"{str(self.path)!r} does not begin as a journal of this release does: give"
                " --overwrite to start again, or another --out"
            )
        if header.get("digest") != digest:
            raise FolderError(
                f"the run in {str(self.path.parent)!r} was started with another configuration"
                f" or other versions (digest {str(header.get('digest'))[:12]}…, this one has"
                f" {digest[:12]}…): run the same command as then to resume it, or give --overwrite"
                " or another --out"
            )
