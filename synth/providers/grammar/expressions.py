"""Expressions of a wanted type, over what is in scope.

Covers ordinary pieces of Python by result type: arithmetic, slices, comprehensions, builtin functions,
and (from level 2 on) common methods. Every expression reads at least one variable unless it is asked to
be a constant. Does not place the operation of a constraint (`uses.py`).

The text carries its own parentheses; the writer lets `ast.unparse` drop those that are not needed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from synth.catalogue import TypeTerm
from synth.providers.grammar import terms, vocabulary
from synth.providers.grammar.literals import literal
from synth.providers.grammar.scope import Scope, Variable

Maker = Callable[[], "str | None"]


@dataclass
class Expressions:
    """Writes expressions for one function."""

    rng: random.Random
    scope: Scope
    methods: bool
    """Methods and library functions may be used (levels above 1)."""
    banned: frozenset[str] = frozenset()
    """Names of methods and functions not to use: the constraint's operation is placed elsewhere."""

    # --- entry points ---------------------------------------------------------------------

    def of(self, term: TypeTerm, depth: int = 2) -> str:
        """An expression of type `term`; `depth` bounds its nesting."""
        if depth <= 0:
            return self.leaf(term)
        makers = self._makers(term, depth)
        self.rng.shuffle(makers)
        for maker in makers:
            made = maker()
            if made is not None:
                return made
        return self.leaf(term)

    def leaf(self, term: TypeTerm) -> str:
        """A variable of the type, a simple conversion of one, or, failing that, a literal."""
        variable = self.scope.pick(term)
        if variable is not None:
            return variable.name
        made = self.derive(term)
        return made if made is not None else literal(term, self.rng)

    def small(self, low: int = 2, high: int = 5) -> str:
        """A small positive constant."""
        return str(self.rng.randint(low, high))

    # --- conversions from whatever is in scope --------------------------------------------

    def derive(self, term: TypeTerm) -> str | None:
        """A value of the type made from a variable of another type; None if no way is known."""
        ways: list[str] = []
        for variable in self.scope.variables:
            made = self.convert(variable.name, variable.term, term)
            if made is not None:
                # Near variables (loop items above all) make a result that changes.
                ways += [made] * (3 if variable.role == "item" else 1)
        return self.rng.choice(ways) if ways else None

    def convert(self, text: str, have: TypeTerm, want: TypeTerm) -> str | None:
        """`text`, an expression of type `have`, turned into one of type `want`; None if unknown."""
        if have == want:
            return text
        item, wanted = terms.element(have), terms.element(want)
        if want == terms.INT:
            return self._to_int(text, have)
        if want == terms.FLOAT:
            return f"({text} / {self.small(2, 4)})" if have == terms.INT else None
        if want == terms.STR:
            return f"str({text})" if have.name in ("int", "float", "bool", "tuple") else None
        if want == terms.BOOL:
            return f"({text} % 2 == 0)" if have == terms.INT else None
        if want == terms.COMPLEX:
            return f"complex({text}, {self.small()})" if have == terms.INT else None
        if want == terms.RANGE:
            return f"range(abs({text}) % 6 + 2)" if have == terms.INT else self._span(text, have)
        if want == terms.BYTES:
            if have == terms.STR:
                return f"bytes({text}, 'utf-8')"
            return f"bytes([n % 256 for n in {text}])" if have == terms.LIST_INT else None
        if want.name in ("dict", "mapping"):
            return self._to_dict(text, have, want)
        if not terms.iterable(have):
            return None
        if item != wanted:
            return self._recast(text, have, want)
        return _wrap(text, have, want)

    def _to_int(self, text: str, have: TypeTerm) -> str | None:
        if have.name in terms.SIZED:
            return f"len({text})"
        return f"int({text})" if have.name in ("float", "bool") else None

    def _span(self, text: str, have: TypeTerm) -> str | None:
        return f"range(len({text}))" if have.name in terms.SIZED else None

    def _to_dict(self, text: str, have: TypeTerm, want: TypeTerm) -> str | None:
        key, value = want.args if len(want.args) == 2 else (terms.STR, terms.INT)
        if not terms.iterable(have) or terms.element(have) != key:
            return None
        if value == terms.INT:
            body = "len(part)" if key == terms.STR else f"part * {self.small()}"
        elif value == terms.STR:
            body = "part[::-1]" if key == terms.STR else "str(part)"
        else:
            return None
        return f"{{part: {body} for part in {text}}}"

    def _recast(self, text: str, have: TypeTerm, want: TypeTerm) -> str | None:
        item, wanted = terms.element(have), terms.element(want)
        if item == terms.STR and wanted == terms.INT:
            body = "ord(part)" if have == terms.STR else "len(part)"
        elif item == terms.INT and wanted == terms.STR:
            body = "str(part)"
        elif item == terms.INT and wanted == terms.FLOAT:
            body = f"part / {self.small()}"
        elif wanted == terms.list_of(terms.INT) and item == terms.INT:
            body = f"[part, part + {self.small()}]"
        elif wanted.name == "tuple" and wanted.args == (terms.INT, terms.INT) and item == terms.INT:
            body = f"(part, part * {self.small()})"
        else:
            return None
        made = f"[{body} for part in {text}]"
        return _wrap(made, terms.list_of(wanted), want)

    # --- productions by type --------------------------------------------------------------

    def _makers(self, term: TypeTerm, depth: int) -> list[Maker]:
        makers: list[Maker] = [lambda: self.leaf(term)]
        if term == terms.INT:
            makers += self._ints(depth)
        elif term == terms.FLOAT:
            makers += self._floats(depth)
        elif term == terms.STR:
            makers += self._strings(depth)
        elif term == terms.BOOL:
            makers += [lambda: (self.condition() or (None,))[0]]
        elif term.name == "list" and term.args:
            makers += self._lists(term, depth)
        elif term.name in ("tuple", "set", "frozenset") and term.args:
            makers += [lambda: self.derive(term)]
            if term.args[-1].name == "..." or term.name != "tuple":
                inner = terms.list_of(terms.element(term))
                makers += [lambda: f"{term.name}({self.of(inner, depth - 1)})"]
        return makers

    def _ints(self, depth: int) -> list[Maker]:
        def pair(template: str) -> Maker:
            def make() -> str:
                first = self.of(terms.INT, depth - 1)
                return template.format(a=first, b=self.other(first), k=self.small())

            return make

        makers = [
            pair(t)
            for t in ("({a} + {b})", "({a} * {k})", "({a} - {b})", "({a} % {k})", "({a} // {k})",
                      "abs({a} - {b})", "max({a}, {b})", "min({a}, {b})", "({a} + {k})",
                      "({a} * {k} + {b})")
        ]  # fmt: skip
        makers += [lambda: self._sum(), lambda: self._generator_count()]
        if self.methods:
            makers += [lambda: self._method_int()]
        return makers

    def other(self, text: str) -> str:
        """A number that is not already in `text`: `a - a` and `max(b, b)` say nothing."""
        for _ in range(4):
            made = self.leaf(terms.INT)
            if made not in text:
                return made
        return self.small(3, 9)

    def _sum(self) -> str | None:
        found = self.scope.where(lambda v: v.term.name in ("list", "tuple", "range", "set")
                                 and terms.element(v.term) == terms.INT)  # fmt: skip
        return f"sum({self.rng.choice(found).name})" if found else None

    def _generator_count(self) -> str | None:
        variable = self._iterable()
        if variable is None:
            return None
        item, char = terms.element(variable.term), variable.term == terms.STR
        test = self.test("part", item, char=char)
        return None if test is None else f"sum([1 for part in {variable.name} if {test}])"

    def _method_int(self) -> str | None:
        ways: list[tuple[str, str]] = []
        for v in self.scope.variables:
            if v.term == terms.STR and not v.char and v.role in ("param", "item"):
                ways += [("count", f"{v.name}.count({self.rng.choice('aeot')!r})"),
                         ("find", f"{v.name}.find({self.rng.choice('aeinr')!r})")]  # fmt: skip
            elif v.term in (terms.LIST_INT, terms.tuple_many(terms.INT)):
                other = self.scope.pick(terms.INT)
                if other is not None:
                    ways.append(("count", f"{v.name}.count({other.name})"))
            elif v.term == terms.DICT_STR_INT:
                ways.append(("values", f"sum({v.name}.values())"))
            elif v.term == terms.INT and v.role != "index":
                ways.append(("bit_length", f"{v.name}.bit_length()"))
        return self._allowed(ways)

    def _floats(self, depth: int) -> list[Maker]:
        return [
            lambda: (
                f"round({self.leaf(terms.FLOAT)} * {self.rng.choice(('1.5', '0.5', '2.5'))}, 2)"
            ),
            lambda: f"({self.of(terms.INT, depth - 1)} / {self.small()})",
            lambda: f"({self.leaf(terms.FLOAT)} + {self.leaf(terms.INT)})",
            lambda: f"abs({self.leaf(terms.FLOAT)} - {self.leaf(terms.INT)})",
        ]

    def _strings(self, depth: int) -> list[Maker]:
        text = self._plain_string
        makers: list[Maker] = [
            lambda: self._over(text(), "{t}[::-1]"),
            lambda: self._over(text(), "{t}[1:]"),
            lambda: self._over(text(), "{t}[::2]"),
            lambda: self._over(text(), "({t} + {n})", n=f"str({self.leaf(terms.INT)})"),
            lambda: self._over(text(), "({t} * {k})", k=self.small(2, 3)),
            lambda: f"str({self.of(terms.INT, depth - 1)})",
        ]
        if self.methods:
            makers += [lambda: self._method_str()]
        return makers

    def _plain_string(self) -> str | None:
        found = self.scope.where(lambda v: v.term == terms.STR and v.role != "state")
        return self.rng.choice(found).name if found else None

    @staticmethod
    def _over(text: str | None, template: str, **parts: str) -> str | None:
        return None if text is None else template.format(t=text, **parts)

    def _method_str(self) -> str | None:
        text = self._plain_string()
        ways: list[tuple[str, str]] = []
        if text is not None:
            ways = [
                ("upper", f"{text}.upper()"), ("title", f"{text}.title()"),
                ("swapcase", f"{text}.swapcase()"), ("capitalize", f"{text}.capitalize()"),
                ("replace", f"{text}.replace({self.rng.choice('aeo')!r}, {self.rng.choice('xyz*')!r})"),
                ("strip", f"{text}.strip({self.rng.choice('abcdt')!r})"),
                ("center", f"{text}.center(9, {self.rng.choice(vocabulary.SYMBOLS)!r})"),
                ("zfill", f"{text}.zfill({self.small(6, 9)})"),
            ]  # fmt: skip
        for v in self.scope.of(terms.LIST_STR):
            ways.append(("join", f"{self.rng.choice(vocabulary.SYMBOLS)!r}.join({v.name})"))
        return self._allowed(ways)

    def _lists(self, term: TypeTerm, depth: int) -> list[Maker]:
        item = terms.element(term)
        makers: list[Maker] = [lambda: self.derive(term), lambda: self._mapped(term)]
        known = self.scope.of(term)
        if known:
            name = self.rng.choice(known).name
            makers += [
                lambda: f"{name}[::-1]",
                lambda: f"{name}[1:]",
                lambda: self._filtered(name, item),
            ]
            if terms.orderable(item):
                makers += [lambda: f"sorted({name})"]
        if self.methods and item == terms.STR:
            text = self._plain_string()
            ways = [("split", f"{text}.split()")] if text else []
            makers += [lambda: self._allowed(ways)]
        return makers

    def _filtered(self, name: str, item: TypeTerm) -> str | None:
        test = self.test("part", item)
        return None if test is None else f"[part for part in {name} if {test}]"

    def _mapped(self, term: TypeTerm) -> str | None:
        """`[<expression of part> for part in <variable>]` with an element of the wanted type."""
        variable = self._iterable()
        if variable is None:
            return None
        have, want = terms.element(variable.term), terms.element(term)
        body = self.element_expression("part", have, want, char=variable.term == terms.STR)
        return None if body is None else f"[{body} for part in {variable.name}]"

    def element_expression(
        self, name: str, have: TypeTerm, want: TypeTerm, *, char: bool = False
    ) -> str | None:
        """A small expression of type `want` over a variable `name` of type `have`."""
        if have == want == terms.INT:
            template = self.rng.choice(
                ("{n} * {k}", "{n} + {k}", "{n} % {k}", "abs({n} - {k})", "{n} ** 2")
            )
            return template.format(n=name, k=self.small(2, 7))
        if have == terms.STR and want == terms.INT:
            return f"ord({name}) % {self.small(3, 9)}" if char else f"len({name})"
        if have == want == terms.STR:
            return f"{name} * 2" if char else self.rng.choice((f"{name}[::-1]", f"{name}[1:]"))
        if have == terms.INT and want == terms.STR:
            return f"str({name})"
        return None

    # --- conditions -----------------------------------------------------------------------

    def condition(
        self, avoid: frozenset[str] = frozenset(), *, looped: bool = False
    ) -> tuple[str, str] | None:
        """(test, variable) that some inputs pass and others fail; None if nothing in scope allows one.

        Variables in `avoid` are passed over; accumulators only vary inside a loop.
        """
        ranked = self.scope.where(lambda v: v.role in ("item", "index")) + self.scope.where(
            lambda v: (
                v.role == "param"
                or (v.role == "state" and looped and v.term == terms.INT)
                or (v.role == "local" and v.term in (terms.INT, terms.LIST_INT))
            )
        )
        tests: list[tuple[str, str]] = []
        for variable in ranked:
            test = None
            if variable.name not in avoid:
                test = self.test(variable.name, variable.term, char=variable.char)
            if test is not None:
                tests.append((test, variable.name))
        if not tests:
            return None
        weights = [1.6**-i for i in range(len(tests))]
        return self.rng.choices(tests, weights)[0]

    def test(self, name: str, term: TypeTerm, *, char: bool = False) -> str | None:
        """A condition on one variable."""
        choose = self.rng.choice
        if term == terms.INT:
            others = [
                v.name for v in self.scope.of(terms.INT) if v.name != name and v.role != "index"
            ]
            tests = [
                f"{name} % 2 == {choose('01')}",
                f"{name} % 3 != {choose('012')}",
                f"{name} > {self.small(2, 6)}",
            ]
            tests += [f"{name} > {other}" for other in others[:2]]
            tests += [f"({name} + {other}) % 2 == 0" for other in others[:1]]
            return choose(tests)
        if term == terms.FLOAT:
            return f"{name} > {self.small(2, 8)}"
        if term == terms.STR:
            if char:
                return choose((f"{name} in 'aeiou'", f"{name} > 'm'", f"ord({name}) % 2 == 0"))
            return choose(
                (
                    f"len({name}) > {self.small(3, 5)}",
                    f"len({name}) % 2 == {choose('01')}",
                    f"{name} > 'm'",
                )
            )
        if term == terms.BOOL:
            return name
        if term.name in terms.SIZED:
            return f"len({name}) % 2 == {choose('01')}"
        if term == terms.COMPLEX:
            return f"abs({name}) > {self.small(3, 7)}"
        return None

    # --- helpers --------------------------------------------------------------------------

    def _iterable(self) -> Variable | None:
        found = self.scope.where(
            lambda v: (
                v.term.name in ("list", "tuple", "str", "range", "set", "frozenset")
                and not v.char
                and v.role != "state"
            )
        )
        # The order of a set is not part of a program's meaning; only sums over one are, and those
        # are written elsewhere.
        found = [v for v in found if v.term.name not in terms.UNORDERED]
        return self.rng.choice(found) if found else None

    def _allowed(self, ways: list[tuple[str, str]]) -> str | None:
        texts = [text for name, text in ways if name not in self.banned]
        return self.rng.choice(texts) if texts else None


def _wrap(text: str, have: TypeTerm, want: TypeTerm) -> str | None:
    """A container with the same elements and another outer type."""
    if want.name == have.name or (
        want.name in ("iterable", "sequence") and have.name not in terms.UNORDERED
    ):
        return text
    if have.name in terms.UNORDERED and want.name in ("list", "iterable", "sequence", "tuple"):
        made = f"sorted({text})"
        return f"tuple({made})" if want.name == "tuple" else made
    if want.name == "list":
        return f"list({text})"
    if want.name in ("set", "frozenset", "set_like"):
        outer = "set" if want.name == "set_like" else want.name
        return f"{outer}({text})" if terms.hashable(terms.element(want)) else None
    if want.name == "tuple" and want.args and want.args[-1].name == "...":
        return f"tuple({text})"
    return None
