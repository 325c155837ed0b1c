"""The same runs under verl: its columns of rows, and its settings as overrides for the command line.

The settings are the files in `trainers/recipes/verl`. Does not run verl, nor check its version.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from synth.errors import ConfigError
from trainers.data import load, turns
from trainers.layouts import Example
from trainers.paying import paid
from trainers.records import RewardConfig, TrainConfig

__all__ = ["export", "overrides", "records"]

SPLITS = {"train": "train.parquet", "validation": "val.parquet", "test": "test.parquet"}


def records(examples: Sequence[Example], split: str, reward: RewardConfig) -> list[dict[str, Any]]:
    """Rows in verl's layout; the spec stands in `reward_model.ground_truth`, as JSON text."""
    return [
        {
            "data_source": "execverify",
            "prompt": turns(example.prompt),
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": paid(example.spec, reward)},
            "extra_info": {"index": number, "split": split, "id": example.id, "task": example.task},
        }
        for number, example in enumerate(examples)
    ]


def export(config: TrainConfig, folder: str | Path) -> dict[str, int]:
    """Write the splits that there are as Parquet files; returns rows per file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from synth.errors import DataError

    target, written = Path(folder), {}
    target.mkdir(parents=True, exist_ok=True)
    for split, name in SPLITS.items():
        try:
            loaded = load(config.data, stage=config.stage, split=split, seed=config.seed)
        except DataError:
            if split == "train":
                raise
            continue  # small datasets have no rows to hold out
        rows = records(loaded.examples, split, config.reward)
        with (target / name).open("wb") as stream:
            pq.write_table(pa.Table.from_pylist(rows), stream)
        written[name] = len(rows)
    return written


def overrides(name: str) -> list[str]:
    """`key=value` for every setting of a file in `recipes/verl`. Raises `ConfigError`."""
    folder = resources.files("trainers") / "recipes" / "verl"
    known = sorted(each.name[:-5] for each in folder.iterdir() if each.name.endswith(".yaml"))
    if name not in known:
        raise ConfigError(f"{name!r} is no recipe for verl; expected one of {', '.join(known)}")
    yaml: Any = import_module("yaml")  # comes with `datasets`
    return list(_flat(yaml.safe_load((folder / f"{name}.yaml").read_text(encoding="utf-8")), ""))


def _flat(table: Mapping[str, Any], above: str) -> Iterator[str]:
    for key, value in table.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            # Keys that verl's own configuration does not have are added, which Hydra wants told.
            added = "+" if path.endswith("reward_kwargs") else ""
            yield from (f"{added}{each}" for each in _flat(value, f"{path}."))
        else:
            yield f"{path}={str(value).lower() if isinstance(value, bool) else value}"
