"""What is in scope while a function is being written: variables with their types and roles, fresh names.

Covers bookkeeping. Does not write code.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from synth.catalogue import TypeTerm
from synth.providers.grammar import vocabulary

Role = Literal["param", "state", "item", "index", "local"]


@dataclass(frozen=True)
class Variable:
    """A name that can be read here."""

    name: str
    term: TypeTerm
    role: Role
    char: bool = False
    """A string of length one: the element of a loop over a string."""


@dataclass
class Scope:
    """The variables of one function. `taken` is shared with the program's other names."""

    rng: random.Random
    taken: set[str]
    variables: list[Variable] = field(default_factory=list)
    names: vocabulary.Names = vocabulary.ORDINARY

    def fresh(self, pool: Iterable[str]) -> str:
        """A name of `pool` that is not taken, or one with a number; taken from then on."""
        names = list(pool)
        free = [name for name in names if name not in self.taken]
        if free:
            name = self.rng.choice(free)
        else:
            base = self.rng.choice(names)
            name = next(f"{base}{n}" for n in range(2, 100) if f"{base}{n}" not in self.taken)
        self.taken.add(name)
        return name

    def add(self, name: str, term: TypeTerm, role: Role, *, char: bool = False) -> Variable:
        """Bring a variable into scope."""
        variable = Variable(name, term, role, char)
        self.variables.append(variable)
        return variable

    def parameter(self, term: TypeTerm) -> Variable:
        """A new parameter with a name that suits its type."""
        pools = self.names.parameters
        pool = pools.get(str(term)) or pools.get(term.name)
        return self.add(self.fresh(pool or vocabulary.FALLBACK), term, "param")

    def local(self, term: TypeTerm, role: Role = "local") -> Variable:
        """A new local variable with a name that suits its type."""
        pool = self.names.states.get(term.name) or self.names.states["object"]
        return self.add(self.fresh(pool), term, role)

    def item(self, term: TypeTerm, *, char: bool = False) -> Variable:
        """A new loop variable for elements of a type."""
        key = "char" if char else term.name
        pool = self.names.items.get(key) or self.names.items["object"]
        return self.add(self.fresh(pool), term, "item", char=char)

    def index(self, term: TypeTerm) -> Variable:
        """A new loop counter."""
        return self.add(self.fresh(self.names.indexes), term, "index")

    def where(self, test: Callable[[Variable], bool]) -> list[Variable]:
        """Variables that pass, nearest (latest) first."""
        return [variable for variable in reversed(self.variables) if test(variable)]

    def of(self, term: TypeTerm) -> list[Variable]:
        """Variables of exactly this type, nearest first."""
        return self.where(lambda variable: variable.term == term)

    def pick(self, term: TypeTerm) -> Variable | None:
        """One variable of a type, the nearer the likelier; None if there is none."""
        found = self.of(term)
        if not found:
            return None
        weights = [2.0**-i for i in range(len(found))]
        return self.rng.choices(found, weights)[0]

    def mark(self) -> int:
        """A point to return to with `release`, when a block ends."""
        return len(self.variables)

    def release(self, mark: int) -> None:
        """Drop the variables that a block brought in; their names stay taken."""
        del self.variables[mark:]
