"""Rollouts as Parquet files, to be read afterwards: `OUTPUT/rollouts/step-000012-r0-0.parquet`.

One file per batch and process (the last number counts the batches of one step; `eval-…` are those of an
evaluation), one line per completion: the step, the row, the prompt, the completion, every reward and
whatever the rewards log of it. Files of a step that is done again after a resume replace those of the
first time. Ground truth is not in them; it stands in the rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewards.answers import text_of

__all__ = ["RolloutKeeper", "read_rollouts"]

FOLDER = "rollouts"
_LEFT_OUT = ("spec", "completion_ids", "completions", "prompts")


class RolloutKeeper:
    """Writes the batches that a `Panel` hands over."""

    def __init__(self, output: str | Path, *, every: int = 1, rank: int | None = None) -> None:
        self.folder = Path(output) / FOLDER
        self.every = every
        self.rank = int(os.environ.get("RANK", "0")) if rank is None else rank
        self._seen = 0
        self._last: dict[str, tuple[int, int]] = {}

    def __call__(self, batch: Mapping[str, Any], state: Any) -> None:
        """Write one batch, if it is its turn."""
        self._seen += 1
        if self.every < 1 or (self._seen - 1) % self.every:
            return
        import pyarrow as pa
        import pyarrow.parquet as pq

        step = int(getattr(state, "global_step", 0) or 0)
        kind = "eval" if "eval" in (batch.get("part") or ()) else "step"
        before, number = self._last.get(kind, (step, -1))
        self._last[kind] = (step, number + 1 if before == step else 0)
        target = f"{kind}-{step:06d}-r{self.rank}-{self._last[kind][1]}.parquet"
        count = len(batch["completion"])
        columns: dict[str, list[Any]] = {"step": [step] * count}
        for name, values in batch.items():
            if name not in _LEFT_OUT:
                columns[name] = [_cell(name, value) for value in values]
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / target
        aside = path.with_suffix(".part")
        with aside.open("wb") as stream:
            pq.write_table(pa.table({k: _array(pa, v) for k, v in columns.items()}), stream)
        os.replace(aside, path)


def read_rollouts(output: str | Path) -> list[dict[str, Any]]:
    """All kept rollouts of a run, by step and process."""
    import pyarrow.parquet as pq

    found: list[dict[str, Any]] = []
    for path in sorted((Path(output) / FOLDER).glob("step-*.parquet")):
        with path.open("rb") as stream:
            found += pq.read_table(stream).to_pylist()
    return found


def _cell(name: str, value: Any) -> Any:
    if name == "completion":
        return text_of(value)
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    return json.dumps(value, default=str)


def _array(pa: Any, values: list[Any]) -> Any:
    """A column; values of several kinds become text, as Arrow has one type for each."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) > 1 and kinds != {int, float}:
        return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pa.array(values)
