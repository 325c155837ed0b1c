"""Control flow: loops and conditions after a blueprint, and the state that their bodies change.

Covers the nest of structures, the conditions, and the updates of accumulators. Every loop ends by
construction, and inner loops are short so that a run stays readable. Does not write functions
(`writer.py`).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rewards.values import parse_tree
from synth.catalogue import TypeTerm
from synth.providers.grammar import terms
from synth.providers.grammar.expressions import Expressions
from synth.providers.grammar.scope import Scope, Variable

Lines = list[str]
INDENT = "    "
SHORT = 18
"""Characters of an expression that may be written twice in one statement."""


def indented(lines: Lines) -> Lines:
    """The lines one level deeper."""
    return [INDENT + line for line in lines]


def names(lines: Lines, context: type[ast.expr_context]) -> list[str]:
    """Variables that complete statements read (`ast.Load`) or assign (`ast.Store`), in text order."""
    tree = parse_tree("\n".join(lines) or "pass")
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, context)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return list(dict.fromkeys(node.id for node in found))


@dataclass
class Blocks:
    """Writes the control flow of one function. `inits` collects what must stand before it."""

    rng: random.Random
    scope: Scope
    make: Expressions
    inits: Lines = field(default_factory=list)
    _tests: set[str] = field(default_factory=set)
    _subjects: list[str] = field(default_factory=list)
    """Variables that the conditions around the place being written are about."""
    _loops: int = 0

    # --- state ----------------------------------------------------------------------------

    def update(self, value: str | None = None, term: TypeTerm | None = None) -> str:
        """A statement that changes an accumulator by `value`, or by something made from the scope."""
        if value is None or term is None:
            value, term = self._fresh_value()
        writer = _UPDATES.get(term.name, Blocks._update_list)
        return writer(self, value, term)

    def _fresh_value(self) -> tuple[str, TypeTerm]:
        items = self.scope.where(lambda v: v.role in ("item", "index"))
        term = terms.INT
        if items and items[0].term == terms.STR and self.rng.random() < 0.6:
            term = terms.STR
        if items and self.rng.random() < 0.75:
            made = self.make.element_expression(
                items[0].name, items[0].term, term, char=items[0].char
            )
            if made is not None:
                return made, term
        return self.make.of(term, 1), term

    def state(self, term: TypeTerm, start: str) -> Variable:
        """An accumulator of a type; a new one is set to `start` before the control flow."""
        known = [v for v in self.scope.of(term) if v.role == "state"]
        if known and self.rng.random() < 0.7:
            return known[0]
        mark = len(self.scope.variables)
        variable = self.scope.local(term, "state")
        # States live in the whole function: they go below the variables of the open blocks.
        self.scope.variables.insert(0, self.scope.variables.pop(mark))
        self.inits.append(f"{variable.name} = {start}")
        return variable

    def _start(self, term: TypeTerm, empty: str) -> str:
        given = [v.name for v in self.scope.of(term) if v.role == "param"]
        return given[0] if given and self.rng.random() < 0.4 else empty

    def _update_int(self, value: str, term: TypeTerm) -> str:
        if len(value) < SHORT and self.rng.random() < 0.12:
            return self._update_dict(f"str({value})")
        name = self.state(term, self._start(term, self.rng.choice(("0", "0", "1")))).name
        k = self.rng.randint(2, 7)
        return self.rng.choice((
            f"{name} += {value}", f"{name} += {value}", f"{name} -= {value}", f"{name} += {k} * ({value})",
            f"{name} = ({name} * {k} + {value}) % {self.rng.choice((97, 101, 211, 997))}",
            f"{name} = {value} - {name}",
        ))  # fmt: skip

    def _update_float(self, value: str, term: TypeTerm) -> str:
        name = self.state(term, "0.0").name
        return self.rng.choice((f"{name} += {value}", f"{name} = round({name} + {value}, 2)"))

    def _update_str(self, value: str, term: TypeTerm) -> str:
        if len(value) < SHORT and self.rng.random() < 0.15:
            return self._update_dict(value)
        name = self.state(term, self._start(term, "''")).name
        short = value.endswith("]") or re.search(r"\* 2\)?$", value)
        part = value if short else f"({value})[:{self.rng.randint(2, 5)}]"
        return self.rng.choice(
            (f"{name} += {part}", f"{name} += {part}", f"{name} = {part} + {name}")
        )

    def _update_list(self, value: str, term: TypeTerm) -> str:
        if term.name == "list" and self.rng.random() < 0.4:
            return f"{self.state(term, '[]').name} += ({value})[:{self.rng.randint(2, 3)}]"
        if (
            terms.hashable(term)
            and term.name in ("int", "str", "tuple")
            and self.rng.random() < 0.4
        ):
            return self._update_dict(value)
        if term.name == "set":
            value = f"sorted({value})" if terms.orderable(terms.element(term)) else f"len({value})"
            term = terms.list_of(terms.element(term)) if value.startswith("sorted") else terms.INT
        name = self.state(terms.list_of(term), "[]").name
        if not self.make.methods or "append" in self.make.banned:
            return f"{name} = {name} + [{value}]"
        return self.rng.choice(
            (f"{name}.append({value})", f"{name}.append({value})", f"{name} += [{value}]")
        )

    def _update_dict(self, key: str) -> str:
        table = self.state(terms.dict_of(terms.STR, terms.INT), "{}").name
        if "get" in self.make.banned or not self.make.methods:
            return f"{table}[{key}] = {self.make.leaf(terms.INT)}"
        return f"{table}[{key}] = {table}.get({key}, 0) + {self.rng.randint(1, 3)}"

    def _update_bytes(self, value: str, term: TypeTerm) -> str:
        name = self.state(term, self._start(term, "b''")).name
        return f"{name} += ({value})[:4]"

    def _update_complex(self, value: str, term: TypeTerm) -> str:
        return f"{self.state(term, '0j').name} += {value}"

    def _update_bool(self, value: str, term: TypeTerm) -> str:
        name = self.state(terms.INT, "0").name
        return f"{name} += {self.rng.randint(1, 4)} if {value} else {self.rng.randint(5, 9)}"

    # --- conditions -----------------------------------------------------------------------

    def condition(self) -> str:
        """A condition that does not stand in the function yet, on a variable of its own.

        Conditions around it have asked about other variables, so it is not decided by them.
        """
        for avoid in [frozenset(self._subjects)] * 6 + [frozenset()] * 4:
            made = self.make.condition(avoid, looped=self._loops > 0)
            if made is not None and made[0] not in self._tests:
                test, subject = made
                break
        else:
            subject = self.make.leaf(terms.INT)
            test = f"({subject} + {len(self._tests)}) % {self.rng.randint(2, 3)} == 0"
        self._tests.add(test)
        self._subjects.append(subject)
        return test

    # --- structures -----------------------------------------------------------------------

    def nest(self, kinds: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        """Structures of these kinds, each inside the one before; `inner` writes the innermost body."""
        if not kinds:
            return inner()
        writers: dict[str, Callable[[tuple[str, ...], Callable[[], Lines]], Lines]] = {
            "if": self._if,
            "if-elif": self._if_elif,
            "for": self._for,
            "while": self._while,
        }
        return writers[kinds[0]](kinds[1:], inner)

    def _body(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        """The nest below, now and then with a statement before or after it."""
        lines = self.nest(rest, inner)
        if rest and self.rng.random() < 0.3:
            lines = [self.update(), *lines]
        if rest and self.rng.random() < 0.35:
            lines = [*lines, self.update()]
        return lines

    def _scoped(self, write: Callable[[], Lines]) -> Lines:
        known = {v.name for v in self.scope.variables}
        lines = write()
        self.scope.variables = [
            v for v in self.scope.variables if v.name in known or v.role == "state"
        ]
        return lines

    def _if(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        known = len(self._subjects)
        head = f"if {self.condition()}:"
        lines = [head, *indented(self._scoped(lambda: self._body(rest, inner)))]
        del self._subjects[known:]
        if self.rng.random() < 0.45:
            lines += ["else:", *indented([self.update()])]
        return lines

    def _if_elif(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        known = len(self._subjects)
        first, second = self.condition(), self.condition()
        deep = self._scoped(lambda: self._body(rest, inner))
        del self._subjects[known:]
        arms = [deep, [self.update()]]
        if self.rng.random() < 0.4:
            arms.reverse()
        lines = [f"if {first}:", *indented(arms[0]), f"elif {second}:", *indented(arms[1])]
        if self.rng.random() < 0.5:
            lines += ["else:", *indented([self.update()])]
        return lines

    def _for(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        def write() -> Lines:
            known = len(self.scope.variables)
            head = self._for_head()
            items = self.scope.variables[known:]
            body = self._looped(rest, inner)
            for item in items:
                body = self._reading(item, body)
            return [head, *indented(body)]

        return self._scoped(write)

    def _for_head(self) -> str:
        if self._loops:
            return self._inner_for_head()
        ways = self.scope.where(
            lambda v: v.term.name in ("list", "tuple", "str", "range", "bytes") and not v.char
            and v.role in ("param", "local")
        )  # fmt: skip
        sets = self.scope.where(
            lambda v: v.term.name in ("set", "frozenset", "dict") and v.role == "param"
        )
        sets = [v for v in sets if terms.orderable(terms.element(v.term))]
        if (not ways and not sets) or self.rng.random() < 0.12:
            stop = f"{self.make.leaf(terms.INT)} % 5 + 2"
            return f"for {self.scope.index(terms.INT).name} in range({stop}):"
        source = self.rng.choice(ways + sets)
        term, char = terms.element(source.term), source.term == terms.STR
        if source in sets:
            text = f"sorted({source.name})"
        else:
            text = self.rng.choice((source.name, source.name, source.name, f"{source.name}[::-1]"))
        if self.rng.random() < 0.2:
            index = self.scope.index(terms.INT)
            item = self.scope.item(term, char=char)
            return f"for {index.name}, {item.name} in enumerate({text}):"
        item = self.scope.item(term, char=char)
        return f"for {item.name} in {text}:"

    def _inner_for_head(self) -> str:
        """A short loop: over a range, or over the element that the outer loop holds."""
        items = self.scope.where(lambda v: v.role == "item")
        if items and items[0].term == terms.STR and not items[0].char and self.rng.random() < 0.6:
            item = self.scope.item(terms.STR, char=True)
            return f"for {item.name} in {items[0].name}[:{self.rng.randint(3, 4)}]:"
        if items and items[0].term == terms.LIST_INT:
            item = self.scope.item(terms.INT)
            return f"for {item.name} in {items[0].name}:"
        source = self.make.leaf(terms.INT)
        stop = self.rng.choice(
            (str(self.rng.randint(2, 3)), f"{source} % 3 + 1", f"{source} % 2 + 2")
        )
        return f"for {self.scope.index(terms.INT).name} in range({stop}):"

    def _reading(self, item: Variable, body: Lines) -> Lines:
        """The body, with one more update if it does not read the loop variable."""
        if item.name in names(body, ast.Load):
            return body
        want = item.term if item.term in (terms.INT, terms.STR) else terms.INT
        made = self.make.element_expression(item.name, item.term, want, char=item.char)
        if made is None:
            made, want = self.make.convert(item.name, item.term, terms.INT) or item.name, item.term
            want = terms.INT if made != item.name else item.term
        return [self.update(made, want), *body]

    def _while(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        forms = [self._while_counter, self._while_shrinking]
        if self.make.methods and "pop" not in self.make.banned:
            forms.append(self._while_consuming)
        form = self.rng.choice(forms)
        return self._scoped(lambda: form(rest, inner))

    def _looped(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        self._loops += 1
        body = self._body(rest, inner)
        self._loops -= 1
        return body

    def _while_counter(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        stop = self._bound()
        counter = self.scope.index(terms.INT)
        sources = self.scope.where(
            lambda v: v.term in (terms.LIST_INT, terms.LIST_STR) and v.role == "param"
        )
        lines = [f"{counter.name} = {self.rng.choice(('0', '0', '1'))}"]
        if sources and not self._loops and self.rng.random() < 0.5:
            source = sources[0]
            stop = f"len({source.name})"
            item = self.scope.item(terms.element(source.term))
            head = [f"{item.name} = {source.name}[{counter.name}]"]
            body = head + self._reading(item, self._looped(rest, inner))
        else:
            body = self._looped(rest, inner)
        step = self.rng.choice((1, 1, 2))
        return [
            *lines,
            f"while {counter.name} < {stop}:",
            *indented([*body, f"{counter.name} += {step}"]),
        ]

    def _bound(self) -> str:
        number = self.make.leaf(terms.INT)
        if self._loops:
            return f"{number} % 3 + {self.rng.randint(1, 2)}"
        return f"{number} % {self.rng.randint(4, 6)} + {self.rng.randint(2, 3)}"

    def _while_shrinking(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        number = self.make.leaf(terms.INT)
        size = self.rng.randint(5, 9) if self._loops else self.rng.randint(12, 40)
        left = self.scope.add(
            self.scope.fresh(("remaining", "budget", "left", "fuel")), terms.INT, "index"
        )
        lines = [f"{left.name} = {number} % {size} + {self.rng.randint(2, 5)}"]
        step = (
            f"{left.name} //= 2"
            if self.rng.random() < 0.5
            else f"{left.name} -= {max(2, size // 5)}"
        )
        body = self._looped(rest, inner)
        return [*lines, f"while {left.name} > 0:", *indented([*body, step])]

    def _while_consuming(self, rest: tuple[str, ...], inner: Callable[[], Lines]) -> Lines:
        found = self.scope.where(lambda v: v.term.name in ("list", "tuple", "str") and not v.char
                                 and v.role in ("param", "item", "local"))  # fmt: skip
        if not found or (self._loops and found[0].role != "item"):
            return self._while_counter(rest, inner)
        source = found[0] if self._loops else self.rng.choice(found)
        pending = self.scope.add(self.scope.fresh(("pending", "todo", "stack", "backlog")),
                                 terms.list_of(terms.element(source.term)), "index")  # fmt: skip
        text = f"{source.name}[:{self.rng.randint(2, 3)}]" if self._loops else source.name
        item = self.scope.item(terms.element(source.term), char=source.term == terms.STR)
        take = self.rng.choice(("pop()", "pop()", "pop(0)"))
        body = self._reading(item, self._looped(rest, inner))
        body = [f"{item.name} = {pending.name}.{take}", *body]
        return [f"{pending.name} = list({text})", f"while {pending.name}:", *indented(body)]


_UPDATES: dict[str, Callable[[Blocks, str, TypeTerm], str]] = {
    "int": Blocks._update_int,
    "float": Blocks._update_float,
    "str": Blocks._update_str,
    "bytes": Blocks._update_bytes,
    "complex": Blocks._update_complex,
    "bool": Blocks._update_bool,
}
