"""Levels and the endless balanced sequence of constraints.

Covers which levels there are at a depth, what each asks for in words and as a structure, and the
enumeration of (operation, level, structure) from a seed. Does not judge programs (`rules.py`) and never
asks for an optional rule: those are for structures that somebody writes out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from synth.catalogue import Catalogue, Operation, catalogue
from synth.constraints.records import CONTROL_KINDS, Constraint, Structure
from synth.errors import ConfigError
from synth.seeds import rng

MAX_DEPTH = 5
"""Deepest control-flow nest that can be asked for."""
LIBRARY_SHARE = 5
"""One constraint in this many is about the library family, the others about builtin types."""


def levels(depth: int) -> tuple[int, ...]:
    """The levels that `--depth` gives: 1, 2, one per control-flow depth, and the call chain.

    Raises `ConfigError` unless 0 <= depth <= 5. Depth 3 gives the paper's six.
    """
    if not 0 <= depth <= MAX_DEPTH:
        raise ConfigError(
            f"--depth is {depth}; expected a whole number from 0 to {MAX_DEPTH} "
            "(how deep control structures nest at the highest level; the paper uses 3)"
        )
    return tuple(range(1, 3 if depth == 0 else depth + 4))


def level_sentence(level: int, depth: int) -> str:
    """What a level asks for, in words."""
    if level == 1:
        return "nested calls of one operation"
    if level == 2:
        return "nested calls with other operations"
    if level == depth + 3:
        return f"control flow nested {depth} deep, and a call chain of two functions"
    return f"control flow nested {level - 2} deep"


def level_depth(level: int, depth: int) -> int:
    """Control-flow depth of a level: 0 for 1 and 2, at most `depth`."""
    return min(max(level - 2, 0), depth)


def structure(level: int, depth: int, blueprint: tuple[str, ...] = ()) -> Structure:
    """The structure of a level; `blueprint` must be as deep as the level says."""
    chain = depth > 0 and level == depth + 3
    return Structure(other_operations=level >= 2, blueprint=blueprint, call_chain=chain)


def enumerate_constraints(
    operations: Sequence[Operation], depth: int, seed: int, wanted: Sequence[int] | None = None
) -> Iterator[Constraint]:
    """An endless balanced sequence: any prefix covers levels and operations evenly.

    `wanted` limits the levels. The family of builtin types gets four constraints of five, since the
    paper's data is about those; within a family every operation comes once before any comes again.
    Raises `ConfigError` for an unknown level or an empty set of operations.
    """
    known = levels(depth)
    chosen = tuple(wanted) if wanted else known
    strange = [level for level in chosen if level not in known]
    if strange:
        raise ConfigError(
            f"level {strange[0]} does not exist at --depth {depth}; levels are {known}"
        )
    families = [[op for op in operations if op.family == name] for name in ("builtin", "library")]
    builtin, library = (_rounds(ops, f"{seed}:{i}") for i, ops in enumerate(families))
    blueprints = {
        level: _blueprints(level_depth(level, depth), f"{seed}:{level}") for level in chosen
    }
    if not operations:
        raise ConfigError("no operation is left to choose from; see `synth constraints`")
    for index in itertools.count():
        level = chosen[index % len(chosen)]
        # A cycle's last member is the library's; offset by the level so that no level monopolises it.
        from_library = (index + index // LIBRARY_SHARE // len(chosen)) % LIBRARY_SHARE == 0
        pool = library if families[1] and (from_library or not families[0]) else builtin
        operation = next(pool)
        yield Constraint(operation, level, structure(level, depth, next(blueprints[level])))


def _rounds(operations: Sequence[Operation], seed: str) -> Iterator[Operation]:
    """Every operation once in a shuffled order, then again in another."""
    for turn in itertools.count():
        order = list(operations)
        if not order:
            return
        rng("operations", seed, str(turn)).shuffle(order)
        yield from order


def _blueprints(depth: int, seed: str) -> Iterator[tuple[str, ...]]:
    """All nests of a depth, in shuffled rounds."""
    every = list(itertools.product(CONTROL_KINDS, repeat=depth))
    for turn in itertools.count():
        order = list(every)
        rng("blueprints", seed, str(turn)).shuffle(order)
        yield from order


def operations_of(types: Sequence[str] | None = None) -> tuple[Operation, ...]:
    """Operations of the named owners (all without names). Raises `UsageError` for an unknown owner."""
    found: Catalogue = catalogue()
    return tuple(found.select(types))
