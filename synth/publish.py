"""A dataset folder on its way to the Hugging Face Hub.

Covers the list of what would be sent (`plan`) and the sending (`send`). Does not cover making or
changing rows: what is sent are the files that the manifest lists, with the digests that it lists.
Everything that can be wrong with the folder, the name or the card is found before the first byte is
sent.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from synth.card import LOCAL_NAME, check_card, render_card
from synth.dataset import read_manifest
from synth.errors import ConfigError, PublishError
from synth.journal import CARD, MANIFEST, folder_errors
from synth.manifest import file_digest

__all__ = [
    "Item",
    "Plan",
    "check_card",
    "check_repo_id",
    "find_token",
    "plan",
    "render_card",
    "send",
]


def check_repo_id(repo_id: str) -> None:
    """Raises `ConfigError` unless `repo_id` is USER/NAME as the Hub allows it. No network."""
    from huggingface_hub.errors import HFValidationError
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ConfigError(f"--repo-id {repo_id!r}: expected USER/NAME: {error}") from error
    if "/" not in repo_id:
        raise ConfigError(f"--repo-id {repo_id!r}: expected USER/NAME, got a name alone")


def find_token(variable: str) -> str:
    """The token in the environment variable, else the one stored by `hf auth login`.

    Raises `ConfigError` when there is neither.
    """
    from huggingface_hub import get_token

    token = os.environ.get(variable, "").strip() or get_token()
    if not token:
        raise ConfigError(
            f"no token for the Hub: set the environment variable {variable} to a token with write"
            " access (https://huggingface.co/settings/tokens) or log in with `hf auth login`;"
            " --dry-run needs none"
        )
    return token


@dataclass(frozen=True)
class Item:
    """A file to be sent."""

    path: str
    bytes: int


@dataclass(frozen=True)
class Plan:
    """Exactly what would be sent, and the card as it would stand in the repository."""

    folder: Path
    repo_id: str
    items: tuple[Item, ...]
    card: str

    @property
    def total_bytes(self) -> int:
        return sum(item.bytes for item in self.items)

    def to_json(self) -> dict[str, object]:
        files = [{"path": item.path, "bytes": item.bytes} for item in self.items]
        return {"repo_id": self.repo_id, "files": files, "bytes": self.total_bytes}


REPLACED = ("data/*.parquet", "jsonl/*.jsonl")
"""Row files of an earlier upload that are not sent again are removed: shards are numbered."""


def plan(folder: str | Path, repo_id: str) -> Plan:
    """Checks the folder, the name and the card, and returns what would be sent. No network.

    Raises `DataError` (no finished dataset), `ConfigError` (name) or `PublishError` (a file is not
    what the manifest says, or the card would be refused).
    """
    base = Path(folder)
    check_repo_id(repo_id)
    manifest = read_manifest(base)
    for entry in manifest.files:
        _check_file(base / entry.path, entry.bytes, entry.sha256)
    try:
        card = (base / CARD).read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise PublishError(f"{base / CARD}: cannot be read as text: {error}") from error
    card = card.replace(LOCAL_NAME, repo_id)
    check_card(card, [entry.path for entry in manifest.files])
    items = [
        Item(CARD, len(card.encode("utf-8"))),
        Item(MANIFEST, (base / MANIFEST).stat().st_size),
        *(Item(entry.path, entry.bytes) for entry in manifest.files),
    ]
    return Plan(base, repo_id, tuple(items), card)


def _check_file(path: Path, size: int, digest: str) -> None:
    if not path.is_file():
        raise PublishError(f"{path} is missing, though the {MANIFEST} lists it")
    if path.stat().st_size != size or file_digest(path) != digest:
        raise PublishError(
            f"{path} is not the file that the {MANIFEST} lists (size or SHA-256 differ): make the"
            " dataset again"
        )


def send(what: Plan, *, token: str, private: bool = False) -> str:
    """Makes the repository if needed, uploads the plan's files in one commit, returns the URL.

    The folder's README.md becomes the plan's card. Raises `PublishError` in plain words.
    """
    from huggingface_hub import HfApi

    with folder_errors(what.folder):
        aside = what.folder / f".{CARD}.new"
        aside.write_text(what.card, encoding="utf-8", newline="\n")
        os.replace(aside, what.folder / CARD)
    api = HfApi(token=token)
    try:
        url = api.create_repo(what.repo_id, repo_type="dataset", private=private, exist_ok=True)
        api.upload_folder(
            repo_id=what.repo_id,
            repo_type="dataset",
            folder_path=what.folder,
            # Names, not wildcards: a journal or a stranger's file beside the rows never leaves.
            allow_patterns=[item.path for item in what.items],
            delete_patterns=list(REPLACED),
            commit_message=f"{sum(item.bytes for item in what.items):,} bytes of rows",
        )
    except _hub_errors() as error:
        raise PublishError(_plain(what.repo_id, error)) from error
    return str(url)


def _hub_errors() -> tuple[type[BaseException], ...]:
    """What the Hub's client raises for a refusal or a broken connection, in any of its versions.

    Which library it speaks HTTP with has changed several times; the base classes of its own error
    tell. (Bugs, ours or its, are none of these and keep their traceback.)
    """
    from huggingface_hub.errors import HfHubHTTPError

    return (OSError, *HfHubHTTPError.__bases__)


def _plain(repo_id: str, error: BaseException) -> str:
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    reasons = {
        401: "the token was refused: make a new one with write access",
        403: f"the token may not write to {repo_id!r}: use one with write access to that user or"
        " organisation",
        404: f"{repo_id.partition('/')[0]!r} is no user or organisation that this token knows",
        409: "the repository was changed at the same time: run the command again",
        429: "too many requests: wait some minutes and run the command again",
    }
    if status in reasons:
        return f"the Hub says {status}: {reasons[status]}"
    if status is not None:
        return f"the Hub says {status}: {error}"
    return f"the Hub cannot be reached: {error}; nothing is lost, run the command again"
