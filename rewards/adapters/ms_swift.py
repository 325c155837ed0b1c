"""ms-swift: classes for its registry `orms`, one for each reward that is logged.

    --external_plugins "$(python -m rewards path ms-swift)" --reward_funcs whitebox

The file registers `whitebox` (the total) and the ungated parts `whitebox_io`, `whitebox_w`,
`whitebox_tests` and `whitebox_format`, for those who weigh parts (`--reward_weights`). ms-swift calls
them with the texts of the completions and every column by name; the column `spec` holds the JSON text.
A row without a score gets None, which ms-swift takes for NaN and leaves out; keep it from GDPO
(ms-swift#8123) with `--reward_funcs whitebox_zero`, which gives 0.0 instead.

Not covered: rewards by model, process rewards.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from rewards.whitebox import Reward

__all__ = ["CLASSES", "register"]


class Whitebox:
    """The shaped total. ms-swift logs under the name of the class."""

    options: dict[str, Any] = {}  # noqa: RUF012 - read only, overridden by subclasses

    def __init__(self, args: Any = None, **_: Any) -> None:
        self.reward = Reward(**self.options)

    def __call__(self, completions: Sequence[object], **columns: Any) -> list[float | None]:
        return self.reward(completions, **columns)


class WhiteboxIO(Whitebox):
    """The output or input asked for, 0 or 1."""

    options = {"part": "io"}  # noqa: RUF012


class WhiteboxW(Whitebox):
    """The share of white-box answers that are right."""

    options = {"part": "w"}  # noqa: RUF012


class WhiteboxTests(Whitebox):
    """The share of unit tests passed."""

    options = {"part": "tests"}  # noqa: RUF012


class WhiteboxFormat(Whitebox):
    """Whether the completion has the form that was asked for."""

    options = {"part": "format"}  # noqa: RUF012


class WhiteboxZero(Whitebox):
    """The shaped total, 0.0 for a row without a score."""

    options = {"abstain": "zero"}  # noqa: RUF012


CLASSES: dict[str, type[Whitebox]] = {
    "whitebox": Whitebox,
    "whitebox_io": WhiteboxIO,
    "whitebox_w": WhiteboxW,
    "whitebox_tests": WhiteboxTests,
    "whitebox_format": WhiteboxFormat,
    "whitebox_zero": WhiteboxZero,
}
"""Name for `--reward_funcs` -> class."""


def register() -> None:
    """Enter the classes in the registry of the ms-swift that is installed (4.x, or 3.x)."""
    for home in ("swift.rewards", "swift.plugin"):
        try:
            orms = importlib.import_module(home).orms
        except (ImportError, AttributeError):
            continue
        orms.update(CLASSES)
        return
    raise ImportError(
        "rewards.adapters.ms_swift found no registry of rewards (swift.rewards.orms): it needs ms-swift"
        " 3 or 4, pip install ms-swift"
    )
