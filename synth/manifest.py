"""What a dataset folder says about itself: configuration, versions, funnel, counts, files.

Covers the records and their JSON. Does not cover the rows (`dataset.py`) nor the figures that are
computed from rows (`report.py`). Everything here follows from the seed, the configuration and the
versions, except the one key `run`, which holds what differs between two equal runs (start, seconds,
number of workers).
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from rewards.row import SCHEMA_VERSION
from synth.errors import DataError
from synth.version import VERSION

__all__ = [
    "FORMAT",
    "FileEntry",
    "Funnel",
    "Manifest",
    "Stage",
    "canonical_json",
    "config_digest",
    "file_digest",
    "versions",
]

FORMAT = "execverify-dataset"
"""Marks a manifest as ours; a folder without it is never overwritten."""

LIBRARIES = ("hypothesis", "typeshed_client", "pyarrow")
"""Distributions whose version can change the rows or the bytes of their files."""


def canonical_json(value: object) -> str:
    """The one JSON text of `value`: sorted keys, no spaces, ASCII; NaN and Infinity are refused."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def config_digest(config: Mapping[str, object]) -> str:
    """SHA-256 (64 hex digits) of a resolved configuration."""
    return hashlib.sha256(canonical_json(config).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (64 hex digits) of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Versions of this interpreter and of everything that the rows depend on."""
    found = {"python": platform.python_version(), "execverify": VERSION}
    for name in LIBRARIES:
        found[name] = metadata.version(name)
    return found


@dataclass(frozen=True)
class Stage:
    """One stage of the funnel: what came in is what was kept plus what was dropped, by reason."""

    name: str
    unit: str
    """What is counted here, in the plural: "completions", "programs", "cases", "rows"."""
    kept: int = 0
    dropped: tuple[tuple[str, int], ...] = ()
    """(reason, count > 0), sorted by reason."""

    @classmethod
    def of(
        cls, name: str, unit: str, kept: int = 0, dropped: Mapping[str, int] | None = None
    ) -> Stage:
        """A stage from a mapping of reasons; reasons that never occurred are left out."""
        pairs = sorted((dropped or {}).items())
        return cls(name, unit, kept, tuple((reason, count) for reason, count in pairs if count))

    @property
    def entered(self) -> int:
        return self.kept + sum(count for _, count in self.dropped)

    def __add__(self, other: Stage) -> Stage:
        if (self.name, self.unit) != (other.name, other.unit):
            raise ValueError(f"cannot add stage {other.name!r} to stage {self.name!r}")
        reasons = dict(self.dropped)
        for reason, count in other.dropped:
            reasons[reason] = reasons.get(reason, 0) + count
        return Stage.of(self.name, self.unit, self.kept + other.kept, reasons)

    def to_json(self) -> dict[str, object]:
        return {
            "stage": self.name,
            "unit": self.unit,
            "entered": self.entered,
            "kept": self.kept,
            "dropped": dict(self.dropped),
        }


@dataclass(frozen=True)
class Funnel:
    """Stages in the order in which a row passes them. Funnels of parts of a run can be added."""

    stages: tuple[Stage, ...] = ()

    def __add__(self, other: Funnel) -> Funnel:
        """Counts added stage by stage; a stage that only `other` has stands where it has it."""
        merged = list(self.stages)
        place = 0
        for stage in other.stages:
            names = [known.name for known in merged]
            if stage.name in names:
                place = names.index(stage.name)
                merged[place] = merged[place] + stage
            else:
                merged.insert(place, stage)
            place += 1
        return Funnel(tuple(merged))

    def __getitem__(self, name: str) -> Stage:
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise KeyError(name)

    def to_json(self) -> list[dict[str, object]]:
        return [stage.to_json() for stage in self.stages]

    @classmethod
    def from_json(cls, data: object) -> Funnel:
        """Raises `ValueError` when `data` is not what `to_json` gives, sums included."""
        if not isinstance(data, list):
            raise ValueError(f"a funnel is a list of stages, got {type(data).__name__}")
        stages = []
        for item in data:
            try:
                stage = Stage.of(item["stage"], item["unit"], item["kept"], item["dropped"])
                entered = item["entered"]
            except (KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"not a stage of a funnel: {item!r}") from error
            if stage.entered != entered:
                raise ValueError(
                    f"stage {stage.name!r} entered {entered}, but kept and dropped give"
                    f" {stage.entered}"
                )
            stages.append(stage)
        return cls(tuple(stages))

    def table(self) -> str:
        """Plain text: a line per stage, under it a line per reason, the most frequent first."""
        rows = [("stage", "entered", "kept", "dropped")]
        for stage in self.stages:
            lost = stage.entered - stage.kept
            label = f"{stage.name} ({stage.unit})"
            rows.append((label, f"{stage.entered:,}", f"{stage.kept:,}", f"{lost:,}"))
            for reason, count in sorted(stage.dropped, key=lambda pair: (-pair[1], pair[0])):
                rows.append((f"  {reason}", "", "", f"{count:,}"))
        width = max(len(row[0]) for row in rows)
        return "\n".join(
            f"{name:<{width}}  {entered:>9}  {kept:>9}  {dropped:>9}"
            for name, entered, kept, dropped in rows
        )


@dataclass(frozen=True)
class FileEntry:
    """A row file of the folder."""

    path: str
    """Relative to the folder, with forward slashes."""
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """How the rows of a folder were made. `counts` and `files` are filled in by `write_dataset`."""

    config: Mapping[str, object]
    """The resolved configuration: what decides the rows, nothing else (no folder, no workers)."""
    seed: int
    funnel: Funnel = Funnel()
    versions: Mapping[str, str] = field(default_factory=versions)
    figures: Mapping[str, object] = field(default_factory=dict)
    """Figures that only the pipeline can know without running again, such as statement coverage."""
    run: Mapping[str, object] = field(default_factory=dict)
    """Facts of this very run (clock, workers, command line); differs between two equal runs."""
    counts: Mapping[str, object] = field(default_factory=dict)
    """`{"rows": n, "split": {name: n}, "level": {"1": n}, "task": {name: n}}`."""
    files: tuple[FileEntry, ...] = ()
    schema_version: int = SCHEMA_VERSION

    @property
    def digest(self) -> str:
        """SHA-256 of `config`: two runs with the same digest and versions give the same rows."""
        return config_digest(self.config)

    def to_json(self) -> dict[str, object]:
        return {
            "format": FORMAT,
            "schema_version": self.schema_version,
            "config": dict(self.config),
            "config_digest": self.digest,
            "seed": self.seed,
            "versions": dict(self.versions),
            "counts": dict(self.counts),
            "funnel": self.funnel.to_json(),
            "figures": dict(self.figures),
            "files": [asdict(entry) for entry in self.files],
            "run": dict(self.run),
        }

    @classmethod
    def from_json(cls, data: object, where: str = "manifest.json") -> Manifest:
        """The manifest in `data`; raises `DataError` naming the field that is wrong."""
        fields = _checked_fields(data, where)
        try:
            funnel = Funnel.from_json(fields["funnel"])
        except ValueError as error:
            raise DataError(f"{where}: field 'funnel': {error}") from error
        manifest = cls(
            config=fields["config"],
            seed=fields["seed"],
            funnel=funnel,
            versions=fields["versions"],
            figures=fields["figures"],
            run=fields["run"],
            counts=fields["counts"],
            files=_entries(fields["files"], where),
            schema_version=fields["schema_version"],
        )
        if manifest.digest != fields["config_digest"]:
            raise DataError(
                f"{where}: field 'config_digest' is {fields['config_digest']!r}, but the"
                f" configuration beside it gives {manifest.digest!r}: one of them was edited"
            )
        return manifest


_FIELDS: Mapping[str, type] = {
    "schema_version": int,
    "config": dict,
    "config_digest": str,
    "seed": int,
    "versions": dict,
    "counts": dict,
    "funnel": list,
    "figures": dict,
    "files": list,
    "run": dict,
}


def _checked_fields(data: object, where: str) -> dict[str, Any]:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise DataError(
            f"{where}: not a manifest of `synth generate` (expected an object with"
            f' "format": "{FORMAT}")'
        )
    for name, kind in _FIELDS.items():
        if name not in data:
            raise DataError(f"{where}: field {name!r} is missing")
        if not isinstance(data[name], kind) or isinstance(data[name], bool):
            raise DataError(
                f"{where}: field {name!r}: expected {kind.__name__},"
                f" got {type(data[name]).__name__}"
            )
    if data["schema_version"] > SCHEMA_VERSION:
        raise DataError(
            f"{where}: schema version {data['schema_version']} is newer than this release reads"
            f" ({SCHEMA_VERSION}): upgrade execverify"
        )
    return data


def _entries(items: Iterable[object], where: str) -> tuple[FileEntry, ...]:
    entries = []
    for number, item in enumerate(items):
        good = isinstance(item, dict) and set(item) == {"path", "bytes", "sha256"}
        if not good:
            raise DataError(
                f"{where}: field 'files', item {number}: expected path, bytes and sha256,"
                f" got {item!r}"
            )
        entries.append(FileEntry(**item))  # type: ignore[arg-type]
    return tuple(entries)
