"""Layouts of datasets: how records of each become examples. `detect` tells them apart by columns."""

from __future__ import annotations

from synth.errors import DataError
from trainers.layouts.base import BrokenRow, Example, Layout, Options
from trainers.layouts.chats import CHAT, CODEIO_CHAT, ROWS, example_of
from trainers.layouts.programs import CODEIO, PYX
from trainers.layouts.reference import REFERENCE
from trainers.layouts.unittests import APPS, EURUS, TACO, codegen_prompt

__all__ = [
    "ALL",
    "BrokenRow",
    "Example",
    "Layout",
    "Options",
    "codegen_prompt",
    "detect",
    "example_of",
]

ALL = (ROWS, REFERENCE, CODEIO, CODEIO_CHAT, PYX, EURUS, APPS, TACO, CHAT)
"""The more particular first, as columns of one may stand in another too."""


def detect(columns: set[str], name: str = "auto") -> Layout:
    """The layout of records with these columns, or the one named if they are of it.

    Raises `DataError` that says which columns were found and which are expected.
    """
    candidates = [layout for layout in ALL if name in ("auto", layout.name)]
    for layout in candidates:
        if layout.fits(columns):
            return layout
    wanted = "; ".join(
        f"{layout.name}: {' or '.join(', '.join(group) for group in layout.needed)}"
        for layout in candidates
    )
    raise DataError(
        f"the columns {', '.join(sorted(columns)) or 'are none'}: not the layout that was asked for"
        f" ({name}); expected {wanted}"
    )
