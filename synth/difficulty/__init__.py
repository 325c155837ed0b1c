"""How hard a row is for a small model, and which rows are kept for that."""

from __future__ import annotations

from synth.difficulty.config import DifficultyConfig
from synth.difficulty.filtering import Filtered, filter_folder, filter_rows
from synth.difficulty.labels import Label
from synth.difficulty.measuring import assess
from synth.difficulty.stopping import Bar

__all__ = [
    "Bar",
    "DifficultyConfig",
    "Filtered",
    "Label",
    "assess",
    "filter_folder",
    "filter_rows",
]
