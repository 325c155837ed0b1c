"""Early warnings of a run that teaches nothing, and its log as a file.

Covers groups of one reward throughout, completions without a score, and `OUTPUT/log.jsonl`, one line per
entry of the trainer's log. Does not stop a run: that is `Panel`, for a batch that has too few scores.
"""

from __future__ import annotations

import json
import logging
import math
from collections import deque
from pathlib import Path
from typing import Any

from trainers.records import WatchConfig

__all__ = ["LOG", "Watch", "log_callback", "read_log", "watch_callback"]

LOG = "log.jsonl"
_logger = logging.getLogger("trainers")


class Watch:
    """Averages of what makes a run sick, and what to say when they are too high."""

    def __init__(self, config: WatchConfig) -> None:
        self.config = config
        self._seen: dict[str, deque[float]] = {
            name: deque(maxlen=config.window) for name in ("zero_variance", "unscored")
        }
        self._told: set[str] = set()

    def look(self, logs: dict[str, Any]) -> list[str]:
        """Take in one log entry; returns the warnings that are new since the figure was last in order."""
        found = []
        names = {"zero_variance": "frac_reward_zero_std", "unscored": "unscored"}
        for name, key in names.items():
            value = logs.get(key)
            if not isinstance(value, (int, float)) or math.isnan(value):
                continue
            self._seen[name].append(float(value))
            values = self._seen[name]
            mean = sum(values) / len(values)
            limit = getattr(self.config, name)
            if mean <= limit:
                self._told.discard(name)
            elif len(values) == self.config.window and name not in self._told:
                self._told.add(name)
                found.append(_WORDS[name].format(share=mean, limit=limit, count=len(values)))
        return found


_WORDS = {
    "zero_variance": (
        "{share:.0%} of the groups of the last {count} entries have one reward throughout (more than"
        " {limit:.0%}), so they teach nothing. Rows are too easy or too hard for this policy: filter them"
        " with `synth difficulty`, set curriculum.order = \"adaptive\", or pay for steps too"
        " (reward.shape, reward.families)"
    ),
    "unscored": (
        "{share:.0%} of the completions of the last {count} entries have no score (more than {limit:.0%})."
        " The sandbox is overloaded or a scorer is away: see the rollouts for the reasons"
    ),
}  # fmt: skip


def watch_callback(watch: Watch) -> Any:
    """The callback that shows the trainer's log to a `Watch` and hands its warnings to logging."""
    from trainers.models import library

    base = library("transformers").TrainerCallback

    class WatchCallback(base):  # type: ignore[misc, valid-type]
        """See `trainers.watch`."""

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            for warning in watch.look(logs or {}):
                if state.is_world_process_zero:
                    _logger.warning("step %d: %s", state.global_step, warning)
                state.log_history[-1].setdefault("warnings", []).append(warning)

    return WatchCallback()


def log_callback(output: str | Path) -> Any:
    """The callback that writes the trainer's log to `OUTPUT/log.jsonl`."""
    from trainers.models import library

    base = library("transformers").TrainerCallback
    path = Path(output) / LOG

    class LogCallback(base):  # type: ignore[misc, valid-type]
        """One line per entry; after a resume, lines of steps that are done again are dropped."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                kept = [each for each in read_log(output) if each["step"] <= state.global_step]
                path.write_text("".join(map(_line, kept)), encoding="utf-8")

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if state.is_world_process_zero:
                with path.open("a", encoding="utf-8") as stream:
                    stream.write(_line(state.log_history[-1]))

    return LogCallback()


def read_log(output: str | Path) -> list[dict[str, Any]]:
    """The entries of a run's log; a last line that was cut when the run was killed is left out."""
    path = Path(output) / LOG
    found: list[dict[str, Any]] = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                break
    return found


def _line(entry: dict[str, Any]) -> str:
    clean = {key: _finite(value) for key, value in entry.items()}
    return json.dumps(clean, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
