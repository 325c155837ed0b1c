"""A progress bar on a terminal, nothing elsewhere.

Covers bars whose total is known. Does not cover what is printed at the end.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar"]


@contextmanager
def bar(name: str, unit: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error while it is a terminal; gives the function to call with the number done."""
    from tqdm import tqdm

    # A terminal that reports a size of 0 by 0 would get no bar at all.
    size = shutil.get_terminal_size()
    with tqdm(
        total=total,
        unit=unit,
        desc=name,
        disable=None,
        leave=False,
        ncols=size.columns,
        nrows=size.lines,
    ) as shown:

        def progress(done: int) -> None:
            shown.update(done - shown.n)

        yield progress
