"""What was asked of a model, what it answered, and the file that keeps both.

Covers the records of a request (`Ask`) and an answer (`Reply`), and `CompletionStore`: one SQLite file,
addressed by the content of the request, so that nothing is asked and paid for twice. Does not send
anything (`synth.clients`) and does not judge answers.

What the file survives: an answer is committed (write-ahead log, forced to the disk) before anyone may use
it, all answers of one request together. A process that is killed loses the requests under way at that
moment and nothing else. One process at a time may hold the file.

Requests that the server refused for good (`Refusal`) are kept as well, so that a later run does not send
them again: the prompt does not fit the model's context (`too_long`), a filter refused it (`filtered`), or
the server refused this one request while it answered others under the same settings (`refused`). Nothing
else that went wrong is kept: what may pass (429, 5xx, broken connections, pages that are no completion, …)
is asked for again. What a server refuses changes when it is started anew, with a larger context say; then
`--retry-refused` sends these requests again.

A request's address leaves out where the server is: a restarted server, or one on another port, continues
the same run. Two models served under one name are one model here; name them apart.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path

from synth.errors import ConfigError, DataError, FolderError
from synth.prompts import Messages

__all__ = [
    "ENDPOINTS",
    "Answered",
    "Ask",
    "CompletionStore",
    "Refusal",
    "Reply",
    "Sampling",
    "Totals",
]

ENDPOINTS = ("chat", "completion")
STORE_VERSION = 1
MAX_SEED = 2**31
"""Seeds are below this: some servers keep them in 32 signed bits."""


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn. Raises `ConfigError` for a setting out of its range."""

    temperature: float = 1.0
    """0 to 2."""
    top_p: float | None = None
    """0 (excluded) to 1; None leaves it to the server."""
    max_tokens: int = 2048
    """Most tokens of one completion, >= 1."""
    stop: tuple[str, ...] = ()
    extra: str = "{}"
    """JSON object with further keys of the request body, for one server's own settings."""
    seed: int = 0
    """Another seed is another request."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= 2:
            raise ConfigError(f"temperature is {self.temperature}; expected a number from 0 to 2")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p is {self.top_p}; expected a number above 0, at most 1")
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens is {self.max_tokens}; expected a whole number, >= 1")
        try:
            given = json.loads(self.extra)
        except ValueError as error:
            raise ConfigError(f"extra body {self.extra!r} is not JSON: {error}") from None
        if not isinstance(given, dict):
            raise ConfigError(
                f'extra body {self.extra!r} is no JSON object, such as {{"min_p": 0}}'
            )
        # One text for equal objects: it is part of the request's address.
        object.__setattr__(self, "extra", json.dumps(given, sort_keys=True))


@dataclass(frozen=True)
class Ask:
    """One prompt to one model, of which any number of completions can be drawn."""

    model: str
    messages: Messages
    sampling: Sampling = Sampling()
    endpoint: str = "chat"
    """One of `ENDPOINTS`; for "completion" the contents of the messages are joined by blank lines."""
    salt: str = ""
    """Tells apart requests that are equal in all else and must not share their completions."""

    @cached_property
    def body(self) -> str:
        """The one JSON text of this request."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @cached_property
    def key(self) -> str:
        """SHA-256 (64 hex digits) of `body`: the address of this request in the store."""
        return hashlib.sha256(self.body.encode("ascii")).hexdigest()

    def seed(self, number: int) -> int:
        """The seed of completion `number`, from 0. Neighbours have neighbouring seeds: so does llama.cpp
        for the choices of one request, whose first choice has the seed that was sent."""
        return (int(self.key[:7], 16) + number) % MAX_SEED

    @property
    def text(self) -> str:
        """The prompt as one text."""
        return "\n\n".join(content for _, content in self.messages)


@dataclass(frozen=True)
class Reply:
    """One completion as the server gave it."""

    text: str | None
    """None if the server sent no content, as some do for a model that only reasoned."""
    finish_reason: str = "stop"
    """"stop", "length" (cut at max_tokens), "content_filter", …; "" if the server gave none."""
    reasoning: str = ""
    """What the server set apart as reasoning; never part of the answer."""
    served_by: str = ""
    """The model's name according to the server."""
    seed: int | None = None
    """Seed of the request that gave it; None if none could be sent."""
    prompt_tokens: int | None = None
    """Tokens of the prompt according to the server; None if it does not say."""
    completion_tokens: int | None = None
    """Tokens of this completion; None if the server gives only the sum over several."""

    @property
    def truncated(self) -> bool:
        """Whether it was cut at the limit of tokens."""
        return self.finish_reason == "length"


@dataclass(frozen=True)
class Refusal:
    """Why there will be no completion: the end of a request that the same request would meet again."""

    kind: str
    """A kind of fault, one of `synth.clients.faults.FINAL`."""
    detail: str = ""
    """What the server said, shortened."""


@dataclass(frozen=True)
class Totals:
    """What has been asked so far."""

    requests: int = 0
    completions: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.requests + other.requests,
            self.completions + other.completions,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
        )

    def cost(self, price_in: float, price_out: float) -> float:
        """Estimate from prices per million tokens of prompt and of completion, in their currency."""
        return (self.prompt_tokens * price_in + self.completion_tokens * price_out) / 1e6


@dataclass(frozen=True)
class Answered:
    """What one request brought: completions by number (or refusals), and what it cost."""

    ask: Ask
    replies: Mapping[int, Reply]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    refused: Mapping[int, Refusal] = field(default_factory=dict)

    @property
    def spent(self) -> Totals:
        """This request as totals; one that was refused counts for nothing."""
        answered = int(bool(self.replies))
        return Totals(answered, len(self.replies), self.prompt_tokens, self.completion_tokens)


_SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS asks (
    key TEXT PRIMARY KEY, model TEXT NOT NULL, body TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS completions (
    key TEXT NOT NULL, number INTEGER NOT NULL, reply TEXT NOT NULL,
    PRIMARY KEY (key, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    key TEXT NOT NULL, completions INTEGER NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS refusals (
    key TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (key, number)) WITHOUT ROWID;
"""


class CompletionStore:
    """Completions on disk, by request and number. A context manager; any thread may use it.

    Raises `FolderError` if the file cannot be opened, written, or is in use by another process, and
    `DataError` if it is no store of this release.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        with self._plain_errors():
            self._db = sqlite3.connect(
                self.path, timeout=0, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._db.close()
                raise

    def _prepare(self) -> None:
        # Exclusive: two runs that write one store would ask for the same completions twice. The
        # operating system lets go of it when the process ends, however it ends.
        for pragma in ("locking_mode=EXCLUSIVE", "journal_mode=WAL", "synchronous=FULL"):
            self._db.execute(f"PRAGMA {pragma}")
        self._db.execute("BEGIN EXCLUSIVE")
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if tables and "completions" not in tables:
            raise DataError(
                f"{str(self.path)!r} is a database of something else: give another file"
            )
        for statement in _SCHEMA.split(";"):
            self._db.execute(statement)
        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('version', ?)", (str(STORE_VERSION),))
        self._db.execute("COMMIT")
        self._keys = {
            bytes.fromhex(key[:16]) for (key,) in self._db.execute("SELECT key FROM asks")
        }
        self._totals = self._summed("")
        if (found := self.note("version")) != str(STORE_VERSION):
            raise DataError(
                f"{str(self.path)!r} has version {found}, this release reads {STORE_VERSION}"
            )

    def __enter__(self) -> CompletionStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; may be called again."""
        with self._lock:
            self._db.close()

    # --- completions ----------------------------------------------------------------------

    def __contains__(self, key: object) -> bool:
        """Whether anything may be there for a request's key; a quick no, without looking at the disk."""
        return isinstance(key, str) and bytes.fromhex(key[:16]) in self._keys

    def replies(self, ask: Ask, numbers: Iterable[int]) -> dict[int, Reply]:
        """Those of the completions `numbers` of a request that are there."""
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        with self._lock, self._plain_errors():
            found = self._db.execute(
                "SELECT number, reply FROM completions WHERE key = ? AND number BETWEEN ? AND ?",
                (ask.key, wanted[0], wanted[-1]),
            ).fetchall()
        return {
            number: Reply(**json.loads(text)) for number, text in found if number in set(wanted)
        }

    def put(self, *answered: Answered) -> None:
        """Keep what requests brought: on the disk when this returns, all of it or nothing.

        A completion that is there already stays as it is, so what was used once never changes.
        """
        with self._lock, self._plain_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                for one in answered:
                    self._insert(one)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")
            self._totals = sum((one.spent for one in answered), self._totals)
            self._keys.update(bytes.fromhex(one.ask.key[:16]) for one in answered)

    def _insert(self, one: Answered) -> None:
        key = one.ask.key
        self._db.execute(
            "INSERT OR IGNORE INTO asks VALUES (?, ?, ?)", (key, one.ask.model, one.ask.body)
        )
        self._db.executemany(
            "INSERT OR IGNORE INTO completions VALUES (?, ?, ?)",
            [(key, number, _text_of(reply)) for number, reply in sorted(one.replies.items())],
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO refusals VALUES (?, ?, ?, ?)",
            # As JSON, for lone surrogates in what a server said.
            [(key, n, why.kind, json.dumps(why.detail)) for n, why in sorted(one.refused.items())],
        )
        if not one.replies:
            return
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        spent = (one.prompt_tokens, one.completion_tokens)
        self._db.execute(
            "INSERT INTO requests VALUES (?, ?, ?, ?, ?)", (key, len(one.replies), *spent, now)
        )

    def refusals(self, ask: Ask, numbers: Iterable[int]) -> dict[int, Refusal]:
        """Why there is none, of those of the completions `numbers` that were refused for good."""
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        with self._lock, self._plain_errors():
            found = self._db.execute(
                "SELECT number, kind, detail FROM refusals WHERE key = ? AND number BETWEEN ? AND ?",
                (ask.key, wanted[0], wanted[-1]),
            ).fetchall()
        return {
            number: Refusal(kind, json.loads(detail))
            for number, kind, detail in found
            if number in set(wanted)
        }

    def totals(self) -> Totals:
        """Requests, completions and tokens so far, of all models."""
        return self._totals

    def totals_of(self, model: str) -> Totals:
        """The same of one model."""
        return self._summed("JOIN asks USING (key) WHERE model = ?", model)

    def _summed(self, which: str, *names: str) -> Totals:
        with self._lock, self._plain_errors():
            (found,) = self._db.execute(
                "SELECT count(*), coalesce(sum(completions), 0), coalesce(sum(prompt_tokens), 0),"
                f" coalesce(sum(completion_tokens), 0) FROM requests {which}",
                names,
            ).fetchall()
        return Totals(*found)

    # --- notes ----------------------------------------------------------------------------

    def note(self, name: str) -> str | None:
        """The note of this name, or None."""
        with self._lock, self._plain_errors():
            row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def keep_note(self, name: str, value: str) -> str:
        """Keep a note unless there is one of this name; returns the one that is kept."""
        with self._lock, self._plain_errors():
            self._db.execute("INSERT OR IGNORE INTO meta VALUES (?, ?)", (name, value))
        kept = self.note(name)
        assert kept is not None
        return kept

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _plain(self.path, error) from error


def _text_of(reply: Reply) -> str:
    # ASCII with escapes: SQLite refuses a lone surrogate, which a completion can hold.
    default = Reply(None)
    kept = {k: v for k, v in asdict(reply).items() if k == "text" or v != getattr(default, k)}
    return json.dumps(kept, separators=(",", ":"))


def _plain(path: Path, error: sqlite3.DatabaseError) -> FolderError | DataError:
    text = str(error)
    if "locked" in text:
        return FolderError(
            f"another run is using the completions in {str(path)!r}: wait until it has ended, or give"
            " another file with --store"
        )
    if "unable to open" in text:
        return FolderError(
            f"cannot open {str(path)!r}: its folder is missing or may not be written"
        )
    if "full" in text:
        return FolderError(
            f"disk full while writing {str(path)!r}: what was answered is kept; free space and give the"
            " same command again"
        )
    if isinstance(error, sqlite3.OperationalError):
        return FolderError(f"cannot use {str(path)!r}: {text}")
    return DataError(f"{str(path)!r} is not a store of completions: {text}; give another --store")
