"""When a row's fate is certain: the rule that ends sampling early, in both directions.

Covers the decision alone (DESIGN section 9). A row is kept when at most a share `most` of `n` completions
pass. It is too easy as soon as one more has passed than may, and kept as soon as so many have failed that
the rest could all pass. Either way the decision is the one that all `n` completions would give.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from synth.errors import ConfigError

__all__ = ["KEPT", "TOO_EASY", "Bar"]

KEPT = "kept"
TOO_EASY = "too_easy"
MAX_N = 1000


@dataclass(frozen=True)
class Bar:
    """The bar that a row must not exceed. Raises `ConfigError` for a setting out of its range."""

    n: int = 10
    """Completions that decide, 1 to 1000."""
    most: float = 0.3
    """Share of them that may pass, 0 to 1, inclusive."""
    early: bool = True
    """Stop as soon as the decision is certain; otherwise draw all `n`."""

    def __post_init__(self) -> None:
        if not 1 <= self.n <= MAX_N:
            raise ConfigError(f"-n is {self.n}; expected a whole number from 1 to {MAX_N}")
        if not 0 <= self.most <= 1:
            raise ConfigError(f"--max-pass-rate is {self.most}; expected a share from 0 to 1")

    @property
    def allowed(self) -> int:
        """Passes that a row may have: 3 of 10 at 30 %."""
        # A hair is added: 0.3 * 10 must be 3 whatever the float says.
        return min(self.n, math.floor(self.n * self.most + 1e-9))

    def verdict(self, passes: int, failures: int) -> str | None:
        """`TOO_EASY` or `KEPT` once it is certain; None while more completions are to be drawn."""
        if not self.early and passes + failures < self.n:
            return None
        if passes > self.allowed:
            return TOO_EASY
        return KEPT if failures >= self.n - self.allowed else None

    def chunk(self, passes: int, failures: int) -> int:
        """How many completions to ask for next: the fewest after which the decision may be certain.

        So none is asked for that drawing one by one would not have asked for.
        """
        if not self.early:
            return self.n - passes - failures
        return min(self.allowed + 1 - passes, self.n - self.allowed - failures)
