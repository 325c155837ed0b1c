"""Programs of a small language, for models that are too small for Python: the demonstration's, say.

A `Language` restricts the grammar: names, kinds of statements, operations, ranges of literals, length.
Scopes, control flow and layout are the grammar's own (`scope`, `blocks`, `writer`); what an expression, a
condition or a statement of a block may be is narrowed here. Such a program meets no constraint: straight
lines, `if` with or without `else`, and `for` over a list stand one after another, never inside each
other, and some of what is computed may not matter to the result. Ordinary programs are not affected.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from rewards.values import parse_tree
from synth.catalogue import TypeTerm
from synth.providers.grammar import terms
from synth.providers.grammar.blocks import Blocks, Lines, indented
from synth.providers.grammar.expressions import Expressions
from synth.providers.grammar.scope import Scope, Variable
from synth.providers.grammar.vocabulary import Names
from synth.providers.grammar.writer import spaced

Range = tuple[int, int]
"""Least and most, both included."""


@dataclass(frozen=True)
class Language:
    """What programs may be made of."""

    names: Names = field(
        default_factory=lambda: Names({"int": ("a",)}, {"int": ("b", "c", "d"), "str": ("s", "t")}, {}, ("i",))
    )  # fmt: skip
    """Of the parameter, the numbers, the texts and the variable of loops."""
    entry: str = "f"
    kinds: Mapping[str, int] = field(
        default_factory=lambda: {"int": 40, "str": 20, "if": 25, "for": 15}
    )
    """Weight of each kind of statement: a number or a text is bound, or one of two structures."""
    statements: tuple[int, ...] = (2, 3, 3, 4)
    """How many a body has before its `return`, each entry as likely; a block counts once."""
    max_lines: int = 7
    """Of the body, `return` included."""
    operators: str = "+-"
    starts: Range = (0, 9)
    """Numbers that are bound as they are."""
    operands: Range = (1, 4)
    """Numbers that are added or subtracted."""
    bounds: Range = (2, 8)
    """Numbers that conditions compare with."""
    items: Range = (1, 3)
    """Numbers that loops go through."""
    passes: tuple[int, ...] = (2, 2, 3)
    """How many numbers a loop goes through, each entry as likely."""
    letters: str = "pqr"
    """Of texts; one or two are bound, one is added."""


def write_small(language: Language, rng: random.Random) -> str:
    """Source text of a program: one function of one number, then its printed call."""
    while True:
        body = _Function(language, rng)
        lines = body.write()
        if len(lines) <= language.max_lines:
            break
    head = f"def {language.entry}({body.parameter.name}):"
    call = f"print({language.entry}({rng.randint(*language.starts)}))"
    return spaced(ast.unparse(parse_tree("\n".join([head, *indented(lines), call]))))


class _Expressions(Expressions):
    """A variable and a number, joined by an operator; a short text."""

    def __init__(self, language: Language, rng: random.Random, scope: Scope) -> None:
        super().__init__(rng, scope, methods=False)
        self.language = language

    def of(self, term: TypeTerm, depth: int = 2) -> str:
        if term == terms.STR:
            return self.letters(self.rng.randint(1, 2))
        return f"{self.number().name} {self.operator()} {self.operand()}"

    def number(self) -> Variable:
        """A number in scope that is not a loop's."""
        return self.rng.choice(
            self.scope.where(lambda v: v.term == terms.INT and v.role != "index")
        )

    def operator(self) -> str:
        return self.rng.choice(self.language.operators)

    def operand(self) -> int:
        return self.rng.randint(*self.language.operands)

    def letters(self, count: int) -> str:
        return repr("".join(self.rng.choices(self.language.letters, k=count)))


class _Blocks(Blocks):
    """Control flow over numbers that there are already, since a block may be skipped."""

    def __init__(self, make: _Expressions) -> None:
        super().__init__(make.rng, make.scope, make)
        self.small = make

    def update(self, value: str | None = None, term: TypeTerm | None = None) -> str:
        target = self.small.number().name
        if value is not None:
            return f"{target} += {value}"
        if self.rng.random() < 0.5:
            return f"{target} {self.small.operator()}= {self.small.operand()}"
        return f"{target} = {self.small.of(terms.INT)}"

    def condition(self) -> str:
        name = self.small.number().name
        return f"{name} < {self.rng.randint(*self.small.language.bounds)}"

    def _for_head(self) -> str:
        language = self.small.language
        count = self.rng.choice(language.passes)
        items = [self.rng.randint(*language.items) for _ in range(count)]
        # The name is free again: loops stand one after another.
        index = self.scope.add(language.names.indexes[0], terms.INT, "index")
        return f"for {index.name} in {items}:"


class _Function:
    """The body while it is written."""

    def __init__(self, language: Language, rng: random.Random) -> None:
        self.language, self.rng = language, rng
        self.scope = Scope(rng, {language.entry}, names=language.names)
        self.make = _Expressions(language, rng, self.scope)
        self.blocks = _Blocks(self.make)
        self.parameter = self.scope.parameter(terms.INT)

    def write(self) -> Lines:
        lines: Lines = []
        kinds, weights = zip(*self.language.kinds.items(), strict=True)
        for kind in self.rng.choices(kinds, weights, k=self.rng.choice(self.language.statements)):
            lines += self._statement(kind)
        made = self.scope.where(lambda v: v.role == "state")
        return [*lines, f"return {self.rng.choice(made or [self.parameter]).name}"]

    def _statement(self, kind: str) -> Lines:
        if kind == "int":
            plain = self.rng.random() < 0.15
            value = self.rng.randint(*self.language.starts) if plain else self.make.of(terms.INT)
            return [f"{self._bound(terms.INT)} = {value}"]
        if kind == "str":
            texts = self.scope.of(terms.STR)
            if texts and self.rng.random() < 0.6:
                return [f"{self.rng.choice(texts).name} += {self.make.letters(1)}"]
            return [f"{self._bound(terms.STR)} = {self.make.of(terms.STR)}"]
        if kind == "for":
            return self.blocks.nest(("for",), lambda: [self._counted()])
        return self.blocks.nest((kind,), lambda: [self.blocks.update()])

    def _counted(self) -> str:
        """The line of a loop, which adds the loop's number."""
        return self.blocks.update(self.language.names.indexes[0], terms.INT)

    def _bound(self, term: TypeTerm) -> str:
        """A variable to bind, new or not; in scope from then on."""
        name = self.rng.choice(self.language.names.states[term.name])
        if name not in {variable.name for variable in self.scope.variables}:
            self.scope.add(name, term, "state")
        return name
