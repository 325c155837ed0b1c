"""What a constraint asks for, what is known of a program, and what a rule is.

Covers the records that the other modules here pass on, and the text of a structure as rows store it.
Holds no rule (`fixed.py`, `structural.py`, `optional.py`) and says nothing of which structure a level
has (`levels.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from synth.catalogue import Operation
from synth.errors import DataError
from synth.source import Source

CONTROL_KINDS = ("if", "if-elif", "for", "while")
EXTRAS = ("exceptions", "recursion", "closures", "generators", "classes", "comprehensions")
"""Names of the optional rules (`optional.py`), which a structure may ask for besides the paper's."""


@dataclass(frozen=True)
class Structure:
    """The shape that a level asks of a program."""

    other_operations: bool
    """Methods and library functions besides the operation are wanted (True) or barred (False)."""
    blueprint: tuple[str, ...] = ()
    """Kinds of the control structures, each inside the one before; empty for straight-line code."""
    call_chain: bool = False
    """The entry calls a helper; otherwise there is one function."""
    extras: tuple[str, ...] = ()
    """Names of optional rules, of `EXTRAS`."""

    @property
    def depth(self) -> int:
        """Number of nested control structures."""
        return len(self.blueprint)

    def __str__(self) -> str:
        parts = ["nested"]
        if self.other_operations:
            parts.append("other")
        if self.blueprint:
            parts.append(">".join(self.blueprint))
        if self.call_chain:
            parts.append("chain")
        return "+".join((*parts, *self.extras))

    @classmethod
    def parse(cls, text: str) -> Structure:
        """The structure whose `str` is `text`, as rows store it. Raises `DataError` for another text."""
        parts = text.split("+")
        nests = [part for part in parts if set(part.split(">")) <= set(CONTROL_KINDS)]
        found = cls(
            other_operations="other" in parts,
            blueprint=tuple(nests[0].split(">")) if nests else (),
            call_chain="chain" in parts,
            extras=tuple(part for part in parts if part in EXTRAS),
        )
        if str(found) != text:
            raise DataError(
                f"structure {text!r}: expected a text such as 'nested+other+for>if+chain', with nests "
                f"of {', '.join(CONTROL_KINDS)} and the optional {', '.join(sorted(EXTRAS))}"
            )
        return found


@dataclass(frozen=True)
class Constraint:
    """An operation to use and a structure to use it in."""

    operation: Operation
    level: int
    structure: Structure

    @property
    def id(self) -> str:
        """Stable text, for example `str.strip@4:nested+other+for>if`."""
        return f"{self.operation.id}@{self.level}:{self.structure}"


@dataclass(frozen=True)
class Evidence:
    """What is known of a program after it ran on its input cases."""

    probes: frozenset[tuple[int, str]]
    """(site index, receiver's type name) of every site that was evaluated."""
    lines: frozenset[int]
    """Lines on which an executed statement starts."""
    statement_lines: frozenset[int]
    """Lines on which any statement of a function starts."""
    arms: frozenset[tuple[int, str]]
    """(line of an `if` or loop, "true" or "false"): how its condition went."""
    functions: frozenset[str]
    """Names of the functions that were entered."""
    outputs: frozenset[str]
    """Distinct outputs, as canonical text."""
    idle_lines: tuple[int, ...] = ()
    """Lines of statements that can be bent or left out without any output changing."""
    operation_matters: bool = True
    """Whether some output changes when what the operation gives is bent."""


Check = Callable[[Constraint, Source], "str | None"]
DynamicCheck = Callable[[Constraint, Source, Evidence], "str | None"]


@dataclass(frozen=True)
class Rule:
    """One requirement. `static` and `dynamic` return None if it is met, else what is wrong."""

    name: str
    sentence: Callable[[Constraint], str]
    applies: Callable[[Constraint], bool] = lambda constraint: True
    static: Check | None = None
    dynamic: DynamicCheck | None = None
    over_drawn: bool = False
    """The dynamic check may use every input that was drawn: four inputs cannot show every branch."""
    optional: bool = False


@dataclass(frozen=True)
class Violation:
    """A rule that a program breaks, and how."""

    rule: str
    detail: str


def say(text: str) -> Callable[[Constraint], str]:
    """The sentence of a rule that says the same under every constraint."""
    return lambda constraint: text
