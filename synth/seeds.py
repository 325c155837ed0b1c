"""Randomness from names: a generator that depends on what it is for, and on nothing else.

Covers the one way in which this project draws. Worker count, hash seed, clock and folder never enter.
"""

from __future__ import annotations

import hashlib
import random


def digest(*parts: str) -> str:
    """Hex SHA-256 over the parts; lengths are mixed in, so ("a", "bc") and ("ab", "c") differ."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def rng(*parts: str) -> random.Random:
    """A generator seeded by (seed, item id, …): neighbouring items share nothing."""
    return random.Random(int(digest(*parts), 16))
