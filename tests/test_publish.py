"""Publishing: everything that can be wrong is found before anything is sent, and what is sent is
exactly what was listed. No test speaks to the network."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from handmade import make_row
from huggingface_hub.errors import HfHubHTTPError

from rewards.row import COLUMNS
from synth import publish as publishing
from synth.card import LICENCES, check_card, render_card
from synth.commands.publish import publish
from synth.dataset import Funnel, Manifest, Stage, read_rows, write_dataset
from synth.errors import ConfigError, DataError, PublishError
from synth.report import Coverage, compute

ROWS = [make_row(n, split=split) for n, split in enumerate(("train", "train", "test"))]
REPO = "someone/execution-rows"


def made(folder: Path) -> Path:
    """A dataset folder with the card that `synth generate` writes."""
    folder.mkdir(exist_ok=True)
    funnel = Funnel((Stage.of("programs", "programs", 3, {"constant result": 2}),))
    manifest = Manifest({"depth": 3}, 7, funnel, run={"command": "synth generate --depth 3"})
    report = compute(ROWS, coverage=Coverage(20, 19))
    write_dataset(folder, ROWS, manifest, card=lambda full: render_card(full, report, ROWS[0]))
    (folder / "journal.jsonl").write_text("")
    (folder / "secret.txt").write_text("not yours")
    return folder


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("made"))


@pytest.fixture
def folder(template: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(template, tmp_path / "rows"))


@pytest.fixture(autouse=True)
def no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's login on this machine may leak into a test."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)


class Hub:
    """Stands in for `HfApi`: notes what it is asked to do."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None

    def __call__(self, token: str) -> Hub:
        self.calls.append(("token", {"token": token}))
        return self

    def create_repo(self, repo_id: str, **options: Any) -> str:
        self.calls.append(("create_repo", {"repo_id": repo_id, **options}))
        return f"https://huggingface.co/datasets/{repo_id}"

    def upload_folder(self, **options: Any) -> None:
        self.calls.append(("upload_folder", options))
        if self.error:
            raise self.error


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    fake = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", fake)
    return fake


def invoke(*args: object) -> str:
    options = [str(arg) for arg in args]
    result = CliRunner().invoke(publish, options, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


# --------------------------------------------------------------------------------------- the card


def test_the_card_shows_what_it_must(folder: Path) -> None:
    text = (folder / "README.md").read_text()
    for column in COLUMNS:
        assert f"`{column.name}`" in text
    manifest = json.loads((folder / "manifest.json").read_text())
    shown = [
        manifest["config_digest"],
        *manifest["versions"].values(),
        "synth generate --depth 3",
        "constant result",
        ROWS[0].code,
        f"scale({ROWS[0].args})",
        'load_dataset("path/to/this/folder", split="train")',
        "first argument",
        "95.0%",
        "Apache License 2.0",
    ]
    for part in shown:
        assert part in text, part
    assert "$" not in text


def test_the_card_is_metadata_that_the_hub_reads(folder: Path) -> None:
    from huggingface_hub import DatasetCard

    text = (folder / "README.md").read_text()
    card = DatasetCard(text)
    assert str(card) == text  # parsing and writing again loses nothing
    data = card.data.to_dict()
    assert data["license"] == "apache-2.0"
    assert data["size_categories"] == ["n<1K"]
    assert data["configs"] == [
        {
            "config_name": "default",
            "data_files": [
                {"split": "train", "path": "data/train-*.parquet"},
                {"split": "test", "path": "data/test-*.parquet"},
            ],
        }
    ]


def test_load_dataset_reads_the_prepared_folder(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hub: Hub
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    publishing.send(publishing.plan(folder, REPO), token="hf_x")
    loaded = load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert {name: loaded[name].to_list() for name in loaded} == {
        split: [row.to_dict() for row in ROWS if row.split == split] for split in ("train", "test")
    }


def test_code_with_a_fence_stays_one_block() -> None:
    row = make_row(code='def f(x):\n    return """\n```\n""" + x\n')
    manifest = replace(Manifest({}, 0), counts={"split": {"train": 1}})
    text = render_card(manifest, compute([row]), row, repo_id=REPO)
    assert "````python\n" + row.code in text
    assert f'load_dataset("{REPO}"' in text
    assert text.count("# execution-rows\n") == 1


HEADER = """\
---
license: apache-2.0
language:
- en
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
---
# Rows
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "license: apache-2.0",
            "license: my own licence",
            "license: expected a licence identifier",
        ),
        ("license: apache-2.0", "license: apache2.0", r"did you mean 'apache-2\.0'"),
        ("license: apache-2.0\n", "", "lacks the field 'license'"),
        ("- en", "- python", "language: expected an ISO 639 code .* got 'python'"),
        ("- en", "- no: 1", "language: expected"),
        ("- en", "- [en", "does not parse"),
        ("---\nlicense", "license", "has no header"),
        ("license: apache-2.0\n", "license: mit\ntask_categories: [coding]\n", "task_categories"),
        ("license: apache-2.0\n", "license: mit\nsize_categories: 5\n", "size_categories"),
        ("license: apache-2.0\n", "license: mit\ntags: [1]\n", "tags are texts"),
        ("data/train-*", "rows/train-*", r"no file matches 'rows/train-\*\.parquet'"),
        ("    path:", "    file:", "configs: expected"),
    ],
)
def test_hp_02_a_header_that_the_hub_would_refuse(old: str, new: str, message: str) -> None:
    files = ["data/train-00000-of-00001.parquet"]
    check_card(HEADER, files)
    assert old in HEADER
    with pytest.raises(PublishError, match=message):
        check_card(HEADER.replace(old, new, 1), files)


def test_hp_02_the_card_is_checked_before_anything_is_sent(folder: Path, hub: Hub) -> None:
    card = folder / "README.md"
    card.write_text("---\nlicense: my own licence\nlanguage: python\n---\n")
    with pytest.raises(PublishError, match="my own licence"):
        invoke(folder, "--repo-id", REPO, "--dry-run")
    with pytest.raises(PublishError, match="my own licence"):
        invoke(folder, "--repo-id", REPO)
    assert hub.calls == []


def test_known_licences_are_accepted() -> None:
    for licence in LICENCES:
        check_card(HEADER.replace("apache-2.0", licence))


# ------------------------------------------------------------------------------- what would be sent


def test_dry_run_lists_exactly_what_is_sent(folder: Path, hub: Hub, tmp_path: Path) -> None:
    listed = json.loads(invoke(folder, "--repo-id", REPO, "--dry-run", "--json"))
    assert hub.calls == []
    assert listed["sent"] is False
    text = invoke(folder, "--repo-id", REPO, "--dry-run")
    for item in listed["files"]:
        assert f"{item['path']} " in text
        assert f"{item['bytes']:,} bytes" in text

    sent = json.loads(
        CliRunner()
        .invoke(publish, [str(folder), "--repo-id", REPO, "--json"], env={"HF_TOKEN": "hf_x"})
        .output
    )
    assert sent["files"] == listed["files"]
    (upload,) = (options for name, options in hub.calls if name == "upload_folder")
    assert sorted(upload["allow_patterns"]) == sorted(item["path"] for item in listed["files"])
    for item in listed["files"]:
        assert (folder / item["path"]).stat().st_size == item["bytes"]


def test_only_our_files_leave_and_old_shards_go(folder: Path, hub: Hub) -> None:
    publishing.send(publishing.plan(folder, REPO), token="hf_x", private=True)
    calls = dict(hub.calls)
    assert calls["token"] == {"token": "hf_x"}
    assert calls["create_repo"]["repo_type"] == "dataset"
    assert calls["create_repo"]["private"] is True
    assert calls["create_repo"]["exist_ok"] is True
    upload = calls["upload_folder"]
    assert not {"secret.txt", "journal.jsonl"} & set(upload["allow_patterns"])
    assert upload["delete_patterns"] == ["data/*.parquet", "jsonl/*.jsonl"]
    assert f'load_dataset("{REPO}"' in (folder / "README.md").read_text()
    assert list(read_rows(folder)) == ROWS


def test_a_dry_run_changes_nothing(folder: Path) -> None:
    def state() -> dict[str, bytes]:
        return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}

    before = state()
    invoke(folder, "--repo-id", REPO, "--dry-run")
    assert state() == before


def test_edits_of_the_card_are_kept(folder: Path) -> None:
    card = folder / "README.md"
    card.write_text(card.read_text() + "\nThanks to nobody.\n")
    assert publishing.plan(folder, REPO).card.endswith("\nThanks to nobody.\n")


@pytest.mark.parametrize("damage", ["append", "flip", "remove"])
def test_a_file_that_is_not_the_manifests(folder: Path, damage: str) -> None:
    path = folder / "jsonl" / "train.jsonl"
    data = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        path.write_bytes(data + b"\n" if damage == "append" else data.replace(b"scale", b"Scale"))
    with pytest.raises(PublishError, match=r"train\.jsonl is (missing|not the file)"):
        publishing.plan(folder, REPO)


def test_a_folder_that_is_no_dataset(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="expected a folder made by `synth generate`"):
        publishing.plan(tmp_path, REPO)


@pytest.mark.parametrize(
    "repo_id", ["rows", "a/b/c", "some one/rows", "me/-rows", "me/ro--ws", "me/rows.git", "", "me/"]
)
def test_a_bad_repository_name(folder: Path, repo_id: str) -> None:
    with pytest.raises(ConfigError, match="expected USER/NAME"):
        publishing.plan(folder, repo_id)


def test_a_missing_token_is_said_plainly(folder: Path, hub: Hub) -> None:
    with pytest.raises(ConfigError, match="set the environment variable MY_TOKEN"):
        invoke(folder, "--repo-id", REPO, "--token-env", "MY_TOKEN")
    assert hub.calls == []


# ------------------------------------------------------------------------------ what the Hub says


def hub_error(status: int) -> Exception:
    response: Any = SimpleNamespace(headers={}, request=None, status_code=status)
    return HfHubHTTPError("no", response=response)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "the token was refused"),
        (403, "may not write to 'someone/execution-rows'"),
        (404, "'someone' is no user or organisation"),
        (429, "too many requests"),
        (500, "the Hub says 500"),
    ],
)
def test_a_refusal_of_the_hub(folder: Path, hub: Hub, status: int, message: str) -> None:
    hub.error = hub_error(status)
    with pytest.raises(PublishError, match=message):
        publishing.send(publishing.plan(folder, REPO), token="hf_x")


def test_no_network(folder: Path, hub: Hub) -> None:
    class ConnectError(HfHubHTTPError.__bases__[0]):  # type: ignore[misc]
        """As the HTTP library under the Hub's client raises it: no OSError, no response."""

    for error in (ConnectError("no route"), ConnectionError("no route")):
        hub.error = error
        with pytest.raises(PublishError, match="the Hub cannot be reached: no route"):
            publishing.send(publishing.plan(folder, REPO), token="hf_x")


def test_a_bug_is_not_called_a_network_error(folder: Path, hub: Hub) -> None:
    hub.error = KeyError("ours")
    with pytest.raises(KeyError):
        publishing.send(publishing.plan(folder, REPO), token="hf_x")
