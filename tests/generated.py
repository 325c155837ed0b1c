"""Programs from the grammar, for tests that state a law over many programs.

Programs are drawn once per process and kept, since several tests of a file look at the same ones.
"""

from __future__ import annotations

import functools
import itertools

from synth.constraints import Constraint, enumerate_constraints, operations_of
from synth.programs import extract
from synth.prompts import program_prompt
from synth.providers import provider
from synth.source import Source, read


@functools.lru_cache(maxsize=8)
def constraints(count: int, *, depth: int = 3, seed: int = 0) -> tuple[Constraint, ...]:
    """The first `count` constraints of a run."""
    every = enumerate_constraints(operations_of(), depth, seed)
    return tuple(itertools.islice(every, count))


def completion(constraint: Constraint, seed: str) -> str:
    """What the grammar answers to the prompt of `constraint`."""
    prompt = program_prompt(constraint, id=seed, seed=seed)
    return provider("grammar").complete([prompt])[0].text


@functools.lru_cache(maxsize=8)
def programs(
    count: int, *, depth: int = 3, seed: int = 0
) -> tuple[tuple[Constraint, str, Source], ...]:
    """`count` constraints, each with a program for it: its whole text, and that text read."""
    found = []
    for index, constraint in enumerate(constraints(count, depth=depth, seed=seed)):
        text = extract(completion(constraint, f"{seed}:{index}"))
        found.append((constraint, text, read(text)))
    return tuple(found)
