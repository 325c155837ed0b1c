"""The constraint's operation, put to use: as a value, inside nested calls, or as a statement.

Covers the arguments of an operation (from its recipe, or from its signature), the calls around it, and
the mutable copy that an operation without a value works on. Does not decide where a use stands
(`blocks.py`, `writer.py`).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from synth.catalogue import Operation, Param, Signature, TypeTerm
from synth.providers.grammar import terms, vocabulary
from synth.providers.grammar.expressions import Expressions
from synth.providers.grammar.recipes import RECIPES, receiver
from synth.providers.grammar.scope import Scope, Variable
from synth.stubs import parse_term

_HOLE = re.compile(r"\{([a-z]\d?)(?::([^{}]+))?\}|\{(letter2?|symbol)\}|(\{\{)|(\}\})")
_OPERAND = re.compile(r"\b[xyzijkv]\b")

STORABLE = frozenset(
    {"int", "float", "str", "bool", "bytes", "complex", "list", "tuple", "dict", "set", "frozenset"}
    | {"range", "collections.Counter", "collections.deque", "collections.OrderedDict"}
    | {
        "fractions.Fraction",
        "decimal.Decimal",
        "datetime.date",
        "datetime.datetime",
        "datetime.time",
    }
    | {"datetime.timedelta"}
)
"""Types whose values may be kept in a variable and returned: they have a canonical text."""


@dataclass(frozen=True)
class Use:
    """One use: an expression with its type, or (term None) a statement on `target`."""

    text: str
    term: TypeTerm | None
    target: Variable | None = None


@dataclass(frozen=True)
class Prepared:
    """What a statement works on: a mutable copy, perhaps a second one, and the lines that make them."""

    signature: Signature
    target: Variable
    twin: Variable | None
    before: tuple[str, ...]


@dataclass
class Uses:
    """Writes uses of one operation in one function."""

    rng: random.Random
    scope: Scope
    make: Expressions
    operation: Operation
    item: TypeTerm
    """What type variables stand for in this program: int or str."""

    # --- values ---------------------------------------------------------------------------

    def value(self) -> Use:
        """The operation as an expression whose value can be kept in a variable."""
        text, term = self._plain()
        while term.name not in STORABLE or _vague(term):
            text, term = self.enclose(text, term)
        return Use(text, term)

    def nested(self) -> Use:
        """The operation inside two calls, one around the other."""
        text, term = self._plain()
        text, term = self.enclose(text, term)
        text, term = self.enclose(text, term)
        while term.name not in STORABLE or _vague(term):
            text, term = self.enclose(text, term)
        return Use(text, term)

    def _plain(self) -> tuple[str, TypeTerm]:
        recipes = [r for r in RECIPES.get(self.operation.id, ()) if self._permitted(r[0])]
        if recipes:
            template, result = self.rng.choice(recipes)
            return self.fill(template), self._term(result)
        return self._from_signature()

    def _permitted(self, template: str) -> bool:
        """Whether a recipe uses no other method, where those are barred."""
        called = set(re.findall(r"(\w*)\.(\w+)\(", template))
        foreign = {name for base, name in called if base != self.operation.module}
        return self.make.methods or foreign <= {self.operation.name}

    def _term(self, text: str) -> TypeTerm:
        return parse_term(re.sub(r"\bT\b", str(self.item), text))

    def fill(self, template: str) -> str:
        """A recipe with its holes filled over the variables in scope."""
        texts: dict[str, str] = {}

        def hole(match: re.Match[str]) -> str:
            if match.group(4) or match.group(5):
                return "{" if match.group(4) else "}"
            if match.group(3):
                return self._word(match.group(3))
            key = match.group(1)
            if key not in texts:
                texts[key] = self._hole(key, match.group(2))
                if texts[key] in [text for other, text in texts.items() if other != key]:
                    # Two holes are two things: a second try, so that `max(a, a)` is rare.
                    texts[key] = self._hole(key, match.group(2))
            return texts[key]

        return _HOLE.sub(hole, template)

    def _word(self, kind: str) -> str:
        if kind == "symbol":
            return repr(self.rng.choice(vocabulary.SYMBOLS))
        return repr(self.rng.choice("ae" if kind == "letter2" else "aeilnort"))

    def _hole(self, key: str, kind: str | None) -> str:
        if kind is None:
            return str(self.rng.randint(9, 14) if key == "w" else self.rng.randint(2, 4))
        term = self._term(kind)
        return (
            self.make.leaf(term) if key == "v" or self.rng.random() < 0.5 else self.make.of(term, 1)
        )

    def _from_signature(self) -> tuple[str, TypeTerm]:
        signature = self._signature()
        bound = {
            t.name[4:]: self.item for s in self._all_terms(signature) for t in s.walk() if t.is_var
        }
        base = (
            "" if signature.receiver is None else self._receiver(signature.receiver.replace(bound))
        )
        owner = terms.ANY if signature.receiver is None else signature.receiver.replace(bound)
        args = [
            self._unlike(self._varied(param, param.type.replace(bound), owner, base), base, owner)
            for param in self._wanted(signature)
        ]
        return self.spell(base, args), self._result(signature, bound)

    @staticmethod
    def _all_terms(signature: Signature) -> list[TypeTerm]:
        found = [param.type for param in signature.params] + [signature.returns]
        return found if signature.receiver is None else [signature.receiver, *found]

    def _result(self, signature: Signature, bound: dict[str, TypeTerm]) -> TypeTerm:
        result = _simple(signature.returns.replace(bound))
        # typeshed writes tuple[T] for a tuple of any length where the class is generic.
        if result.name == "tuple" and len(result.args) == 1:
            return terms.tuple_many(result.args[0])
        return result

    def _signature(self) -> Signature:
        found = [s for s in self.operation.signatures if s.params or s.receiver is not None]
        found = [s for s in found if s.returns.name != "never"] or list(self.operation.signatures)
        # The first overload is the ordinary one; the others are met now and then. A statement needs
        # arguments that nested calls can build, which only the first is sure to have.
        usual = self.operation.is_statement or self.rng.random() < 0.8
        return found[0] if usual else self.rng.choice(found)

    def _wanted(self, signature: Signature) -> list[Param]:
        wanted: list[Param] = []
        for param in signature.params:
            if param.required:
                wanted.append(param)
            elif param.kind == "varargs":
                wanted += [param] * self.rng.choice((1, 1, 2))
            elif param.kind == "positional" and param.name in _OPTIONAL and self.rng.random() < 0.4:
                wanted.append(param)
            else:
                break
        return wanted

    def _receiver(self, term: TypeTerm) -> str:
        template = receiver(term.name)
        if template is not None:
            return self.fill(template)
        if term.name == "tuple" and len(term.args) == 1:
            term = terms.tuple_many(term.args[0])
        return self.make.leaf(term) if self.rng.random() < 0.7 else self.make.of(term, 1)

    def _varied(self, param: Param, term: TypeTerm, owner: TypeTerm, base: str) -> str:
        """An argument that is, if possible within a few tries, not the receiver itself."""
        for _ in range(3):
            made = self.argument(param, term, owner, base)
            if made != base:
                break
        return made

    def _unlike(self, arg: str, base: str, owner: TypeTerm) -> str:
        """The argument, changed if it is the receiver itself: `a - a` says nothing."""
        if arg != base:
            return arg
        small = self.rng.randint(2, 3)
        ways = {
            "int": f"{arg} // {small}",
            "float": f"{arg} / {small}",
            "complex": f"{arg} * {small}",
            "set": f"set(sorted({arg})[:{small}])",
            "frozenset": f"frozenset(sorted({arg})[:{small}])",
            "dict": f"{{part: len(part) for part in {arg}}}",
            "bool": f"not {arg}",
        }
        sequence = self.rng.choice((f"{arg}[::-1]", f"{arg}[{small}:]"))
        return ways.get(owner.name, sequence if owner.name in _SLICEABLE else arg)

    def argument(self, param: Param, term: TypeTerm, owner: TypeTerm, base: str) -> str:
        """An argument for a parameter: by its name where that says more than its type."""
        text_like = "b" if owner == terms.BYTES else ""
        hint = _HINTS.get(param.name)
        if hint is not None:
            made = hint(self, base, text_like)
            if made is not None:
                return made
        term = _simple(term)
        if owner in (terms.INT, terms.FLOAT) and self.operation.name in _COMPARISONS:
            return self._compared(base, owner)
        if term.name == "slice":
            low = self.rng.randint(0, 1)
            return (
                self._slice() if self.operation.kind == "subscript" else f"slice({low}, {low + 3})"
            )
        if term.name in ("any", "hashable", "comparable"):
            element = terms.element(owner)
            like = (
                owner
                if self.operation.kind == "operator" and "in" not in self.operation.form
                else element
            )
            return self._receiver(like) if like.name != "any" else self.make.of(self.item, 1)
        if term.name == "callable":
            return self._function(term)
        if term.name in ("set_like", "iterable", "sequence", "mapping"):
            term = self._concrete(term, owner)
        if receiver(term.name) is not None:
            return self._receiver(term)
        if (term == terms.STR and owner == terms.STR) or (
            term == terms.BYTES and owner == terms.BYTES
        ):
            return self._piece(term, base)
        return self.make.of(term, 1)

    def _concrete(self, term: TypeTerm, owner: TypeTerm) -> TypeTerm:
        """A concrete container for an abstract one; elements like the receiver's where unknown."""
        element = terms.element(term)
        if element.name in ("any", "hashable", "comparable"):
            element = terms.element(owner)
        if element.name in ("any", "hashable", "comparable", "..."):
            element = self.item
        if term.name == "mapping":
            return terms.DICT_STR_INT
        if term.name == "set_like":
            return (
                terms.frozenset_of(element) if owner.name == "frozenset" else terms.set_of(element)
            )
        return terms.list_of(element)

    def _compared(self, base: str, owner: TypeTerm) -> str:
        """A number to compare with that is sometimes larger and sometimes smaller."""
        others = [v.name for v in self.scope.of(owner) if v.name not in base]
        constant = str(self.rng.randint(3, 12))
        return self.rng.choice([*others, constant, constant])

    def _piece(self, term: TypeTerm, base: str) -> str:
        """Something to look for in a string: a letter, another variable, or a part of the string."""
        prefix = "b" if term == terms.BYTES else ""
        others = [v.name for v in self.scope.of(term) if v.name != base]
        ways = [prefix + repr(self.rng.choice("aeilnort"))] * 2
        if re.fullmatch(r"\w+", base):
            ways.append(f"{base}[:{self.rng.randint(1, 2)}]")
        if self.operation.kind == "operator":
            ways = [f"{base}[::-1]", *(others or ways)]
        return self.rng.choice(ways + others)

    def _slice(self) -> str:
        number = self.make.leaf(terms.INT)
        small = self.rng.randint(1, 3)
        return self.rng.choice(
            (f"{small}:", f":{number} % 5 + 1", f"{number} % 3:", f"{small}:{small + 4}")
        )

    def _function(self, term: TypeTerm) -> str:
        have = term.args[0] if term.args else self.item
        if have == terms.STR:
            return self.rng.choice(("len", "lambda part: part[::-1]", "lambda part: part[-1:]"))
        return f"lambda part: part % {self.rng.randint(2, 5)}"

    def spell(self, base: str, args: list[str]) -> str:
        """The operation written out with its receiver and arguments."""
        operation = self.operation
        if operation.kind in ("method",):
            return f"{_group(base)}.{operation.name}({', '.join(args)})"
        if operation.kind in ("function", "constructor", "classmethod", "staticmethod"):
            return f"{operation.id.removeprefix('builtins.')}({', '.join(args)})"
        if operation.kind == "subscript":
            return self._spell_subscript(base, args)
        operands = {"x": base, "y": args[0] if args else base}
        form = operation.form
        text = _OPERAND.sub(lambda m: _group(operands[m.group()]), form)
        return text if operation.is_statement else f"({text})"

    def _spell_subscript(self, base: str, args: list[str]) -> str:
        form, key = self.operation.form, args[0]
        if "i:j:k" in form:
            key = self.rng.choice(
                ("::2", "::-1", "1::2", f":{self.make.leaf(terms.INT)} % 7 + 2:2")
            )
        elif "i:j" in form and ":" not in key:
            key = self._slice()
        elif self.operation.signatures[0].params[0].type == terms.INT and ":" not in form:
            key = f"({key}) % len({base})"
        parts = {"x": _group(base), "v": args[1] if len(args) > 1 else ""}
        shape = (
            form.replace("i:j:k", "K")
            .replace("i:j", "K")
            .replace("[i]", "[K]")
            .replace("[k]", "[K]")
        )
        return re.sub(r"\b[xvK]\b", lambda m: key if m.group() == "K" else parts[m.group()], shape)

    # --- the calls around a value ---------------------------------------------------------

    def enclose(self, text: str, term: TypeTerm) -> tuple[str, TypeTerm]:
        """One more call around an expression, and the type of that call."""
        ways = self._around(term)
        if term == terms.STR and text.startswith(("str(", "repr(", "bin(", "hex(", "ascii(")):
            # The characters of a printed value are tedious; its length is enough.
            ways = [("len({0})", terms.INT)]
        # `sorted(sorted(x))` and `max(max(x, 2), 3)` say nothing twice.
        fresh = [way for way in ways if not _repeats(way[0], text)]
        template, result = self.rng.choice(fresh or ways)
        return template.format(text, k=self.rng.randint(2, 5), n=self.make.other(text)), result

    def _around(self, term: TypeTerm) -> list[tuple[str, TypeTerm]]:
        name, item = term.name, _simple(terms.element(term))
        if name == "int":
            return [("abs({0})", terms.INT), ("str({0})", terms.STR), ("pow({0}, 2)", terms.INT),
                    ("divmod({0}, {k})", terms.tuple_of(terms.INT, terms.INT)), ("bin({0})", terms.STR),
                    ("float({0})", terms.FLOAT), ("pow({0}, {k})", terms.INT),
                    ("hex({0})", terms.STR)]  # fmt: skip
        if name == "float":
            return [("round({0}, 2)", terms.FLOAT), ("round({0}, 3)", terms.FLOAT), ("str({0})", terms.STR),
                    ("abs({0})", terms.FLOAT)]  # fmt: skip
        if name == "bool":
            return [("int({0})", terms.INT), ("str({0})", terms.STR)]
        if name == "str":
            return [("len({0})", terms.INT), ("list({0})", terms.LIST_STR), ("sorted({0})", terms.LIST_STR),
                    ("tuple({0})", terms.tuple_many(terms.STR)), ("repr({0})", terms.STR),
                    ("set({0})", terms.set_of(terms.STR))]  # fmt: skip
        if name in ("bytes", "bytearray", "range"):
            return [("list({0})", terms.LIST_INT), ("sum({0})", terms.INT), ("len({0})", terms.INT),
                    ("sorted({0})", terms.LIST_INT), ("tuple({0})", terms.tuple_many(terms.INT))]  # fmt: skip
        if name == "complex":
            return [("abs({0})", terms.FLOAT), ("str({0})", terms.STR)]
        if name in ("fractions.Fraction", "decimal.Decimal"):
            return [("float({0})", terms.FLOAT), ("str({0})", terms.STR), ("abs({0})", term)]
        if name in terms.MAPPINGS:
            key = _simple(term.args[0]) if term.args else terms.STR
            ways = [
                ("len({0})", terms.INT),
                ("dict({0})", terms.dict_of(key, _value(term))),
                ("list({0})", terms.list_of(key)),
            ]
            return ways + ([("sorted({0})", terms.list_of(key))] if terms.orderable(key) else [])
        if terms.iterable(term):
            return self._around_iterable(name, item)
        if name == "translation":
            return [("sum({0})", terms.INT)]
        if name == "copies":
            return [("map(sorted, {0})", TypeTerm("iterator", (terms.list_of(self.item),)))]
        if name == "unary":
            return [
                (
                    f"map({{0}}, {self.make.leaf(terms.LIST_INT)})",
                    TypeTerm("iterator", (terms.INT,)),
                )
            ]
        return [("str({0})", terms.STR)]

    def _around_iterable(self, name: str, item: TypeTerm) -> list[tuple[str, TypeTerm]]:
        ways: list[tuple[str, TypeTerm]] = []
        if name not in terms.UNORDERED and name != "iterable":
            ways += [("list({0})", terms.list_of(item)), ("tuple({0})", terms.tuple_many(item))]
        if name in terms.SIZED or name in ("set_like", "sequence"):
            ways += [("len({0})", terms.INT)]
        if terms.orderable(item):
            ways += [("sorted({0})", terms.list_of(item))]
        if item == terms.INT:
            ways += [("sum({0})", terms.INT)]
        return ways or [("list({0})", terms.list_of(item))]

    # --- statements -----------------------------------------------------------------------

    def prepare(self, *, nested: bool) -> Prepared:
        """The mutable copy (and, if a nested use needs a choice, a second one) that statements work on."""
        signature = self._signature()
        bound = self._bound(signature)
        first = signature.params[0].type if signature.receiver is None else signature.receiver
        # heapq.heappush(x, y): without a receiver the first parameter is what changes.
        target, before = self._copy(_simple(first.replace(bound)))
        rest = self._arguments(signature)
        kinds = [self._fitting(param, bound, target) for param in rest]
        # What is cleared leaves nothing to see; which of two is cleared does.
        chooses = self.operation.name == "clear" or (
            nested and self.operation.name != "sort" and not any(map(self.nested_value, kinds))
        )
        if chooses:
            twin, more = self._twin(target)
            return Prepared(signature, target, twin, (*before, *more))
        return Prepared(signature, target, None, before)

    def statement(self, prepared: Prepared, *, nested: bool) -> Use:
        """The operation as a statement on a prepared copy.

        With `nested`, an argument or the receiver is built by a call within a call.
        """
        signature, target = prepared.signature, prepared.target
        bound = self._bound(signature)
        rest = self._arguments(signature)
        args = [self._given(p, p.type.replace(bound), target) for p in rest]
        for index, arg in enumerate(args):
            if arg == target.name:
                # `x |= x` changes nothing.
                fitting = self._fitting(rest[index], bound, target)
                args[index] = self.nested_value(fitting) or arg
        base = target.name
        if nested:
            base = self._nest(rest, args, prepared, bound)
        elif prepared.twin is not None:
            base = f"[{target.name}, {prepared.twin.name}][{self.make.leaf(terms.INT)} % 2]"
        elif self.operation.name == "sort":
            args = ["reverse=True"] if self.rng.random() < 0.5 else []
        if signature.receiver is None:
            args = [base, *args]
        return Use(self.spell(base, args), None, target)

    def _bound(self, signature: Signature) -> dict[str, TypeTerm]:
        """What the type variables stand for: the program's item type; in a mapping, text to numbers."""
        found = [term for part in self._all_terms(signature) for term in part.walk()]
        bound = {term.name[4:]: self.item for term in found if term.is_var}
        mapping = signature.receiver or signature.returns
        if mapping.name in terms.MAPPINGS and len(mapping.args) == 2:
            for term, meaning in zip(mapping.args, (terms.STR, terms.INT), strict=True):
                if term.is_var:
                    bound[term.name[4:]] = meaning
        return bound

    def _given(self, param: Param, term: TypeTerm, target: Variable) -> str:
        if self.operation.name in _REMOVALS:
            return f"{self.rng.choice(('max', 'min'))}({target.name})"
        if self.operation.name in _OVERLAPS and target.term.name == "set":
            return self._overlapping(target)
        return self.argument(param, term, target.term, target.name)

    def _overlapping(self, target: Variable) -> str:
        """Some of the members of a set, as a set: built by a call within a call."""
        cut = self.rng.choice(
            (f":{self.rng.randint(2, 3)}", "1:", f"{self.make.leaf(terms.INT)} % 3:")
        )
        return f"set(sorted({target.name})[{cut}])"

    def _fitting(self, param: Param, bound: dict[str, TypeTerm], target: Variable) -> TypeTerm:
        """The concrete type of an argument for `target`."""
        term = _simple(param.type.replace(bound))
        if term.name in ("any", "hashable", "comparable"):
            return terms.element(target.term)
        if term.name in ("iterable", "sequence", "set_like", "mapping"):
            return self._concrete(term, target.term)
        return term

    def _arguments(self, signature: Signature) -> list[Param]:
        """The parameters to fill besides what changes; rotating by nothing would change nothing."""
        needed = _needed(signature, optional=self.operation.name == "rotate")
        return needed[signature.receiver is None :]

    def _copy(self, term: TypeTerm) -> tuple[Variable, tuple[str, ...]]:
        existing = [v for v in self.scope.of(term) if v.role == "state"]
        if existing and self.rng.random() < 0.8:
            return existing[0], ()
        template = receiver(term.name)
        source = self.fill(template) if template else _copied(term.name, self._source(term))
        target = self.scope.local(term, "state")
        return target, (f"{target.name} = {source}",)

    def _source(self, term: TypeTerm) -> str:
        if term.name == "set" and terms.element(term) == terms.STR and self.rng.random() < 0.3:
            texts = [v.name for v in self.scope.of(terms.STR) if v.role == "param"]
            if texts:
                return texts[0]
        return self.make.leaf(term)

    def _nest(
        self, params: list[Param], args: list[str], prepared: Prepared, bound: dict[str, TypeTerm]
    ) -> str:
        """Put a call within a call into one of `args`, or return a receiver that is one."""
        target = prepared.target
        if prepared.twin is not None:
            # The remainder turns the choice over from input to input: each of the two shows.
            rank = f"(len(part) + {self.make.leaf(terms.INT)}) % 3"
            return f"max({target.name}, {prepared.twin.name}, key=lambda part: {rank})"
        if self.operation.name == "sort":
            args[:] = ["key=lambda part: len(str(part))"]
        elif self.operation.name in _REMOVALS:
            args[0] = f"{self.rng.choice(('max', 'min'))}(sorted({target.name}))"
        elif self.operation.name in _OVERLAPS and target.term.name == "set":
            args[0] = self._overlapping(target)
        else:
            order = list(range(len(params)))
            self.rng.shuffle(order)
            for index in order:
                made = self.nested_value(self._fitting(params[index], bound, target))
                if made is not None:
                    args[index] = made
                    break
        return target.name

    def _twin(self, target: Variable) -> tuple[Variable, tuple[str, ...]]:
        """A second container of the same type and other contents, so that a call can choose."""
        known = [v for v in self.scope.of(target.term) if v.role == "state" and v != target]
        if known:
            return known[0], ()
        template = receiver(target.term.name)
        others = [
            made
            for v in self.scope.variables
            if v.term != target.term
            and (made := self.make.convert(v.name, v.term, target.term)) is not None
        ]
        source = self.rng.choice(others) if others else self.make.of(target.term, 1)
        text = self.fill(template) if template else _copied(target.term.name, source)
        twin = self.scope.local(target.term, "state")
        return twin, (f"{twin.name} = {text}",)

    def nested_value(self, term: TypeTerm) -> str | None:
        """An expression of a type that is a call within a call; None if there is no way to one."""
        ints, words = self.make.leaf(terms.LIST_INT), self.make.leaf(terms.LIST_STR)
        number, text = self.make.of(terms.INT, 1), self.make.leaf(terms.STR)
        items, small = ints if self.item == terms.INT else words, self.rng.randint(2, 5)
        ways: dict[str, tuple[str, ...]] = {
            "int": (f"len(str({number}))", f"abs(min({number}, {self.make.leaf(terms.INT)}))",
                    f"len(set({text}))", f"max(len({text}), {small})", f"sum(sorted({ints}))"),
            "float": (f"float(len({text}))", f"round(float({number}), 1)"),
            "str": (f"str(len({text}))", f"str(abs({number}))", f"max(sorted({text} + 'm'))",
                    f"repr(len({words}))"),
            "list[int]": (f"sorted(set({ints}))", f"list(range(len({text})))", f"list(map(len, {words}))"),
            "list[str]": (f"sorted(set({words}))", f"list(sorted({text}))", f"list(map(str, {ints}))"),
            "set[int]": (f"set(range(len({words})))", f"set(map(abs, {ints}))", f"set(sorted({ints})[:3])"),
            "set[str]": (f"set(sorted({text})[:3])", f"set(map(str, {ints}))"),
            "frozenset[int]": (f"frozenset(map(abs, {ints}))",),
            "dict[str, int]": (f"dict(zip({words}, {ints}))",),
            "tuple[int, ...]": (f"tuple(sorted({ints}))",),
            "bytes": (f"bytes(range(len({text})))",),
            "collections.Counter": (f"collections.Counter(sorted({items}))",),
            "collections.deque": (f"collections.deque(sorted({items}))",),
        }  # fmt: skip
        found = ways.get(str(term)) or ways.get(term.name)
        return self.rng.choice(found) if found else None


Hint = Callable[[Uses, str, str], "str | None"]


def _small_number(low: int, high: int) -> Hint:
    return lambda uses, base, prefix: str(uses.rng.randint(low, high))


def _symbol(uses: Uses, base: str, prefix: str) -> str:
    return prefix + repr(uses.rng.choice(vocabulary.SYMBOLS))


def _letters(uses: Uses, base: str, prefix: str) -> str:
    return prefix + repr("".join(uses.rng.sample("aeilnorst", uses.rng.randint(1, 3))))


def _existing_key(uses: Uses, base: str, prefix: str) -> str | None:
    if uses.operation.name in ("__contains__", "setdefault"):
        return None
    if uses.operation.kind == "subscript" and uses.operation.signatures[0].params[0].type.name in (
        "int",
        "slice",
    ):
        return None
    return f"{uses.rng.choice(('max', 'min'))}({base})" if base else None


_HINTS: dict[str, Hint] = {
    "width": lambda uses, base, prefix: (
        f"{uses.make.leaf(terms.INT)} % 6 + {uses.rng.randint(8, 11)}"
    ),
    "fillchar": _symbol,
    "chars": _letters,
    "bytes": _letters,
    "sep": _symbol,
    "maxsplit": _small_number(1, 2),
    "tabsize": _small_number(2, 6),
    "errors": lambda uses, base, prefix: "'replace'",
    "encoding": lambda uses, base, prefix: "'utf-8'",
    "key": _existing_key,
    "elem": _existing_key,
    "n": _small_number(1, 3),
    "r": _small_number(2, 2),
    "index": lambda uses, base, prefix: f"{uses.make.leaf(terms.INT)} % 3",
    "count": _small_number(1, 2),
    "start": _small_number(1, 2),
    "reverse": lambda uses, base, prefix: "True",
    "context": lambda uses, base, prefix: None,
}
"""Arguments whose parameter name says more than the type: (uses, receiver text, `b` for bytes)."""

_COMPARISONS = frozenset({"__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__"})
_SLICEABLE = frozenset({"list", "tuple", "str", "bytes", "range"})

_REMOVALS = frozenset({"remove", "discard", "__delitem__[key]", "move_to_end"})
"""Operations whose argument must be there already."""

_OVERLAPS = frozenset(
    {"intersection_update", "__iand__", "difference_update", "__isub__"}
    | {"symmetric_difference_update", "__ixor__"}
)
"""Operations on sets that only show if the argument shares members with the receiver."""

_OPTIONAL = frozenset({"fillchar", "chars", "sep", "maxsplit", "tabsize", "count", "n"})
"""Optional parameters that are worth giving now and then."""


_CONVERSIONS = frozenset({"list", "tuple", "sorted", "set"})


def _repeats(outer: str, inner: str) -> bool:
    """Whether a call around `inner` does what `inner`'s own outermost call does."""
    one, two = outer.partition("(")[0], inner.partition("(")[0]
    return one == two or {one, two} <= _CONVERSIONS


def _copied(kind: str, source: str) -> str:
    """A fresh container of a type; a display or a call of that type is one already."""
    displays = {
        "list": r"\[[^\[\]]*\]",
        "set": r"\{[^{}:]*\}",
        "dict": r"\{[^{}]*(\[[^\[\]]*\])?[^{}]*\}",
    }
    made = re.fullmatch(rf"{kind}\([^()]*(\([^()]*\)[^()]*)*\)", source)
    if kind in ("set", "frozenset"):
        # set(list(x)) and set(tuple(x)) are set(x).
        source = re.sub(r"^(?:list|tuple)\((\w+)\)$", r"\1", source)
    return (
        source if made or re.fullmatch(displays.get(kind, r"\0"), source) else f"{kind}({source})"
    )


def _needed(signature: Signature, *, optional: bool = False) -> list[Param]:
    return [p for p in signature.params if p.required or p.kind == "varargs" or optional]


def _simple(term: TypeTerm) -> TypeTerm:
    """A union by its first member that is not None."""
    while term.name == "union":
        members = [arg for arg in term.args if arg.name != "None"]
        plain = [m for m in members if m.name in ("int", "float", "str")]
        term = (plain or members)[0]
    return TypeTerm(term.name, tuple(_simple(arg) for arg in term.args))


def _value(term: TypeTerm) -> TypeTerm:
    if term.name == "collections.Counter":
        return terms.INT
    return _simple(term.args[1]) if len(term.args) > 1 else terms.INT


def _vague(term: TypeTerm) -> bool:
    """Whether some part of the type is not known well enough to build on."""
    return any(
        t.name in ("any", "iterator", "comparable", "union") or t.is_var for t in term.walk()
    )


def _group(text: str) -> str:
    return (
        text
        if re.fullmatch(r"[\w.]+|\w+\([^()]*\)", text) and not text[:1].isdigit()
        else f"({text})"
    )
