"""A whole program for one constraint: parameters, body, result, helper, and the printed call.

Covers how the parts are put together so that the constraint is met by construction and nothing that is
computed is thrown away. What construction cannot promise (both ways taken, results that vary) is
checked later, on the trace.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from rewards.values import parse_tree
from synth.catalogue import LIBRARY_MODULES, TypeTerm
from synth.constraints import Constraint
from synth.providers.grammar import terms, vocabulary
from synth.providers.grammar.blocks import Blocks, Lines, indented, names
from synth.providers.grammar.expressions import Expressions
from synth.providers.grammar.literals import literal
from synth.providers.grammar.recipes import RECIPES
from synth.providers.grammar.scope import Scope, Variable
from synth.providers.grammar.uses import STORABLE, Prepared, Uses
from synth.source import unread_names
from synth.stubs import parse_term

_TYPE_IN_RECIPE = re.compile(r"\{[a-z]\d?:([^{}]+)\}")
_LITERAL_TYPES = frozenset(
    {
        "int",
        "float",
        "complex",
        "bool",
        "str",
        "bytes",
        "list",
        "tuple",
        "dict",
        "set",
        "frozenset",
        "range",
    }
)


def write_program(constraint: Constraint, rng: random.Random) -> str:
    """Source text of a program that meets `constraint` by construction."""
    item = rng.choice((terms.INT, terms.STR))
    taken = {*LIBRARY_MODULES, "part", "left", "right"}
    name = _function_name(constraint, rng, vocabulary.VERBS, taken)
    chain = constraint.structure.call_chain
    parts: list[str] = []
    helper: Function | None = None
    nest_in_helper = chain and rng.random() < 0.4
    if chain:
        helper_name = _function_name(constraint, rng, vocabulary.HELPER_VERBS, taken)
        helper = Function(constraint, rng, helper_name, set(taken), item, scalar=True)
        helper.write(constraint.structure.blueprint if nest_in_helper else (), uses=1)
        parts.append(helper.text)
    entry = Function(constraint, rng, name, taken, item, helper=helper)
    entry.write(() if nest_in_helper else constraint.structure.blueprint, uses=2)
    parts.append(entry.text)
    body = "\n".join(parts)
    modules = [name for name in LIBRARY_MODULES if re.search(rf"\b{name}\.", body)]
    head = "".join(f"import {name}\n" for name in sorted(modules)) + "\n"
    arguments = ", ".join(literal(v.term, rng) for v in entry.parameters)
    text = head + "\n\n".join(parts) + f"\n\nprint({name}({arguments}))\n"
    return spaced(ast.unparse(parse_tree(text)))


def spaced(text: str) -> str:
    """Two blank lines around functions, as people write them."""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(("def ", "print(")) and lines:
            while lines[-1] == "":
                lines.pop()
            lines += ["", ""]
        lines.append(line)
    return "\n".join(lines) + "\n"


def _function_name(
    constraint: Constraint, rng: random.Random, verbs: tuple[str, ...], taken: set[str]
) -> str:
    owner = constraint.operation.owner
    nouns = vocabulary.NOUNS.get(owner, vocabulary.NOUNS["object"])
    for _ in range(50):
        name = f"{rng.choice(verbs)}_{rng.choice(nouns)}"
        if name not in taken:
            break
    taken.add(name)
    return name


@dataclass
class Function:
    """One function while it is written."""

    constraint: Constraint
    rng: random.Random
    name: str
    taken: set[str]
    item: TypeTerm
    helper: Function | None = None
    scalar: bool = False
    """The result is an int or a string, so that the caller can go on with it."""
    parameters: list[Variable] = field(default_factory=list)
    returns: TypeTerm = terms.INT
    text: str = ""

    def __post_init__(self) -> None:
        self.scope = Scope(self.rng, self.taken)
        operation = self.constraint.operation
        methods = self.constraint.structure.other_operations
        self.make = Expressions(self.rng, self.scope, methods, frozenset({operation.name}))
        self.uses = Uses(self.rng, self.scope, self.make, operation, self.item)
        self.blocks = Blocks(self.rng, self.scope, self.make)
        self.locals: list[Variable] = []
        self.changed: list[Variable] = []
        """What statements of the operation change: it has to show in the result."""

    # --- the function ---------------------------------------------------------------------

    def write(self, blueprint: tuple[str, ...], uses: int) -> None:
        """Write the function: `uses` is how often the operation is placed, once nested if 2."""
        self.parameters = [self.scope.parameter(term) for term in self._parameter_terms()]
        if blueprint:
            lines = self._with_control_flow(blueprint, uses)
        else:
            lines = self._straight(uses)
        lines = lines + self._unread_parameters(lines)
        result = self._result(lines)
        body = [*lines, f"return {result}"]
        head = f"def {self.name}({', '.join(v.name for v in self.parameters)}):"
        self.text = "\n".join([head, *indented(body)])

    def _parameter_terms(self) -> list[TypeTerm]:
        first = self._subject()
        pool = [t for t in (terms.INT, terms.STR, terms.LIST_INT, terms.LIST_STR) if t != first]
        found = [first, self.rng.choice(pool)]
        if self.scalar:
            return [first, terms.INT] if first != terms.INT else [first, terms.STR]
        if not any(term == terms.INT for term in found) and self.rng.random() < 0.7:
            found.append(terms.INT)
        elif self.rng.random() < 0.35:
            found.append(self.rng.choice(pool))
        return found[:3]

    def _subject(self) -> TypeTerm:
        """The type that the operation works on, as a parameter type."""
        operation = self.constraint.operation
        kinds: list[TypeTerm] = []
        for template, _ in RECIPES.get(operation.id, ()):
            kinds += [
                parse_term(re.sub(r"\bT\b", str(self.item), t))
                for t in _TYPE_IN_RECIPE.findall(template)
            ]
        if not kinds:
            for signature in operation.signatures:
                if signature.receiver is not None:
                    bound = {t.name[4:]: self.item for t in signature.receiver.walk() if t.is_var}
                    kinds.append(signature.receiver.replace(bound))
        kinds = [_parameter_form(kind, self.item) for kind in kinds]
        kinds = [kind for kind in kinds if kind.name in _LITERAL_TYPES]
        return (
            self.rng.choice(kinds)
            if kinds
            else self.rng.choice((terms.list_of(self.item), terms.STR))
        )

    # --- bodies ---------------------------------------------------------------------------

    def _straight(self, uses: int) -> Lines:
        lines: Lines = []
        steps: list[Callable[[], Lines]] = []
        if uses > 1 or self.rng.random() < 0.5:
            steps.append(lambda: self._use(nested=True))
        steps += [lambda: self._use(nested=False)] * (uses - len(steps))
        # A third use now and then, and other statements between the uses.
        if self.rng.random() < 0.25:
            steps.append(lambda: self._use(nested=self.rng.random() < 0.5))
        for _ in range(self.rng.randint(1, 3) if not self.scalar else self.rng.randint(0, 1)):
            steps.insert(self.rng.randint(0, len(steps)), self._extra)
        if self.helper is not None:
            steps.insert(self.rng.randint(0, len(steps)), self._helper_call)
        if self.constraint.structure.other_operations and not self.scalar:
            steps.insert(self.rng.randint(0, len(steps)), self._other_operation)
        for step in steps:
            lines += step()
        return lines

    def _with_control_flow(self, blueprint: tuple[str, ...], uses: int) -> Lines:
        nested_first = uses > 1
        outside = self.rng.random() < 0.75
        before = self._use(nested=nested_first) if outside else []
        if self.rng.random() < 0.3:
            before += self._extra()
        inside = self._inside(nested_first, outside, uses, before)

        def inner() -> Lines:
            made = [write() for write in inside]
            if not made or self.rng.random() < 0.6:
                made.append(self.blocks.update())
            return made

        nest = self.blocks.nest(blueprint, inner)
        after = self._use(nested=False) if not outside and uses > 1 else []
        if self.rng.random() < 0.25:
            after += self._extra()
        if not self.scalar and not _has_method(before + nest + after, self.constraint):
            after += self._other_operation()
        starts, self.blocks.inits = self.blocks.inits, []
        return before + starts + nest + after

    def _inside(
        self, nested_first: bool, outside: bool, uses: int, before: Lines
    ) -> list[Callable[[], str]]:
        """What the innermost block must hold: a use of the operation, a call of the helper."""
        inside: list[Callable[[], str]] = []
        nested = nested_first and not outside
        if not outside or uses > 1:
            if self.constraint.operation.returns_none:
                prepared = self._prepare(nested=nested, lines=before)
                inside.append(lambda: self.uses.statement(prepared, nested=nested).text)
            else:
                inside.append(lambda: self._use_in_block(nested=nested))
        if self.helper is not None:
            inside.append(self._helper_in_block)
        return inside

    def _prepare(self, *, nested: bool, lines: Lines) -> Prepared:
        """The copy that a statement changes, made at the end of `lines`."""
        prepared = self.uses.prepare(nested=nested)
        lines += prepared.before
        for variable in (prepared.target, prepared.twin):
            if variable is not None and variable not in self.changed:
                self.locals.append(variable)
                self.changed.append(variable)
        return prepared

    def _use(self, *, nested: bool) -> Lines:
        if self.constraint.operation.returns_none:
            lines: Lines = []
            prepared = self._prepare(nested=nested, lines=lines)
            return [*lines, self.uses.statement(prepared, nested=nested).text]
        use = self.uses.nested() if nested else self.uses.value()
        assert use.term is not None
        return self._keep(use.text, use.term)

    def _use_in_block(self, *, nested: bool) -> str:
        use = self.uses.nested() if nested else self.uses.value()
        assert use.term is not None
        return self.blocks.update(use.text, use.term)

    def _keep(self, text: str, term: TypeTerm) -> Lines:
        variable = self.scope.local(term)
        self.locals.append(variable)
        return [f"{variable.name} = {text}"]

    def _helper_call(self) -> Lines:
        assert self.helper is not None
        return self._keep(self._call(self.helper), self.helper.returns)

    def _helper_in_block(self) -> str:
        assert self.helper is not None
        return self.blocks.update(self._call(self.helper), self.helper.returns)

    def _call(self, helper: Function) -> str:
        arguments = [self.make.of(variable.term, 1) for variable in helper.parameters]
        return f"{helper.name}({', '.join(arguments)})"

    def _extra(self) -> Lines:
        """An ordinary statement that brings a new local."""
        ints = (terms.INT, terms.INT, terms.INT)
        term = self.rng.choice((*ints, terms.STR, terms.LIST_INT, terms.LIST_STR))
        for _ in range(4):
            made = self.make.of(term, 2)
            if not made.isidentifier():
                break
        return self._keep(made, term)

    def _other_operation(self) -> Lines:
        """A statement with a method other than the constraint's operation, on a variable in scope."""
        number, letter = self.make.leaf(terms.INT), self.rng.choice("aeilnort")
        ways: list[tuple[str, str, TypeTerm]] = []
        for v in self.scope.variables:
            if v.term == terms.STR and v.role in ("param", "state"):
                ways += [
                    ("upper", f"{v.name}.upper()", terms.STR),
                    ("title", f"{v.name}.title()", terms.STR),
                    ("replace", f"{v.name}.replace({letter!r}, str({number}))", terms.STR),
                    ("count", f"{v.name}.count({letter!r})", terms.INT),
                    ("find", f"{v.name}.find({letter!r})", terms.INT),
                    ("split", f"{v.name}.split({letter!r})", terms.LIST_STR),
                    ("partition", f"{v.name}.partition({letter!r})[0]", terms.STR),
                ]
            elif v.term == terms.LIST_STR:
                mark = self.rng.choice(vocabulary.SYMBOLS)
                ways += [
                    ("join", f"{mark!r}.join({v.name})", terms.STR),
                    ("count", f"{v.name}.count({v.name}[0])", terms.INT),
                ]
            elif v.term == terms.LIST_INT:
                ways += [
                    ("index", f"{v.name}.index(max({v.name}))", terms.INT),
                    ("count", f"{v.name}.count({v.name}[-1])", terms.INT),
                ]
            elif v.term == terms.DICT_STR_INT:
                ways += [("values", f"sum({v.name}.values())", terms.INT)]
        ways = [way for way in ways if way[0] != self.constraint.operation.name]
        _, made, term = self.rng.choice(
            ways or [("bit_length", f"({number}).bit_length()", terms.INT)]
        )
        return self._keep(made, term)

    # --- the result -----------------------------------------------------------------------

    def _unread_parameters(self, lines: Lines) -> Lines:
        """A last statement for each parameter that nothing reads."""
        read = set(names(lines, ast.Load))
        extra: Lines = []
        for variable in self.parameters:
            if variable.name not in read:
                extra += self._read_now(variable)
        starts, self.blocks.inits = self.blocks.inits, []
        return starts + extra

    def _read_now(self, variable: Variable) -> Lines:
        text, term = self._measure(variable)
        if term == terms.INT:
            other = self.make.other(text)
            return self._keep(f"{text} * {self.rng.randint(2, 6)} + {other}", terms.INT)
        if term == terms.STR:
            others = [v.name for v in self.scope.of(terms.STR) if v.name != variable.name]
            return self._keep(f"{text} + {others[0] if others else repr('-')}", terms.STR)
        return [self.blocks.update(text, term)]

    def _measure(self, variable: Variable) -> tuple[str, TypeTerm]:
        made = self.make.convert(variable.name, variable.term, terms.INT)
        if variable.term == terms.INT or made is None:
            return (variable.name, variable.term)
        if variable.term == terms.STR and self.rng.random() < 0.5:
            return (f"{variable.name}[:{self.rng.randint(2, 4)}]", terms.STR)
        return (made, terms.INT)

    def _result(self, lines: Lines) -> str:
        """Everything that nothing else reads, as one expression."""
        unread = unread_names(parse_tree("\n".join(lines)))
        known = {v.name: v for v in [*self.scope.variables, *self.locals]}
        shown = {*unread, *(variable.name for variable in self.changed)}
        parts = [variable for name, variable in known.items() if name in shown]
        if not parts:
            stored = names(lines, ast.Store)
            parts = [v for v in known.values() if v.name in stored][-1:]
        texts = [self._shown(variable) for variable in parts]
        if self.scalar:
            return self._scalar_result(texts)
        return self._joined(texts, parts)

    def _shown(self, variable: Variable) -> tuple[str, TypeTerm]:
        """A variable as part of a result: sets in order, flags as numbers."""
        term, name = variable.term, variable.name
        if term.name in ("set", "frozenset") and terms.orderable(terms.element(term)):
            return (f"sorted({name})", terms.list_of(terms.element(term)))
        if term == terms.BOOL:
            return (f"int({name}) + {self.make.leaf(terms.INT)}", terms.INT)
        if term == terms.FLOAT:
            return (f"round({name}, 3)", term)
        if term.name not in STORABLE:
            return (f"str({name})", terms.STR)
        return (name, term)

    def _scalar_result(self, texts: list[tuple[str, TypeTerm]]) -> str:
        numbers: list[str] = []
        words: list[str] = []
        for text, term in texts:
            if term == terms.INT:
                numbers.append(text)
            elif term == terms.STR:
                words.append(text)
            elif term.name in terms.SIZED and self.rng.random() < 0.5:
                numbers.append(f"len({text})")
            else:
                words.append(f"str({text})")
        if not words:
            self.returns = terms.INT
            return " + ".join(numbers)
        self.returns = terms.STR
        return " + ".join(words + [f"str({number})" for number in numbers])

    def _joined(self, texts: list[tuple[str, TypeTerm]], parts: list[Variable]) -> str:
        """Several values as one: numbers and strings are folded, the rest stands side by side."""
        if len(texts) > 2 or self.rng.random() < 0.5:
            texts = self._folded(texts)
        shown = [text for text, _ in texts]
        if len(shown) == 1:
            return shown[0] if len(parts) > 1 else self._alone(*texts[0])
        kinds = {term for _, term in texts}
        plain = all(name.isidentifier() for name in shown)
        quoted = any("'" in name or "{" in name for name in shown)
        if kinds == {terms.INT, terms.STR} and not quoted and self.rng.random() < 0.6:
            mark = self.rng.choice(("-", ":", "/", "|"))
            return "f'" + mark.join("{" + name + "}" for name in shown) + "'"
        roll = self.rng.random()
        if roll < 0.3 and plain:
            return "{" + ", ".join(f"{name!r}: {name}" for name in shown) + "}"
        if roll < 0.55:
            return "[" + ", ".join(shown) + "]"
        return "(" + ", ".join(shown) + ")"

    def _folded(self, texts: list[tuple[str, TypeTerm]]) -> list[tuple[str, TypeTerm]]:
        """All numbers as one number, all strings as one string, other values as they are."""
        numbers = [text for text, term in texts if term == terms.INT]
        words = [text for text, term in texts if term == terms.STR]
        rest = [(text, term) for text, term in texts if term not in (terms.INT, terms.STR)]
        folded: list[tuple[str, TypeTerm]] = []
        if numbers:
            factors = self.rng.sample(range(2, 12), len(numbers) - 1) if len(numbers) < 9 else []
            weighted = [f"{text} * {k}" for text, k in zip(numbers, factors, strict=False)]
            folded.append((" + ".join([*weighted, *numbers[len(weighted) :]]), terms.INT))
        if words:
            folded.append((" + ".join(words), terms.STR))
        return folded + rest

    def _alone(self, text: str, term: TypeTerm) -> str:
        """A single value: as it is, or beside something that tells its size."""
        others = [v for v in self.parameters if v.term in (terms.INT, terms.STR)]
        if term in (terms.INT, terms.FLOAT, terms.COMPLEX) and self.rng.random() < 0.5 and others:
            other = others[0].name if others[0].term == terms.INT else f"len({others[0].name})"
            return f"({text}, {other} + {self.rng.randint(1, 9)})"
        if term == terms.INT:
            return f"{text} * {self.rng.randint(2, 9)} + {self.rng.randint(1, 20)}"
        if term.name in ("list", "str", "tuple") and self.rng.random() < 0.4:
            return f"({text}, len({text}))"
        return text


def _parameter_form(kind: TypeTerm, item: TypeTerm) -> TypeTerm:
    if kind.name in ("iterable", "sequence", "iterator"):
        return terms.list_of(item)
    if kind.name == "tuple" and len(kind.args) == 1:
        return terms.tuple_many(kind.args[0])
    if kind.name == "dict":
        return terms.DICT_STR_INT
    return kind


def _has_method(lines: Lines, constraint: Constraint) -> bool:
    """Whether a method of a builtin type other than the operation is called."""
    operation = constraint.operation
    tree = parse_tree("\n".join(lines) or "pass")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            library = ast.unparse(node.func).partition(".")[0] == operation.module
            if node.func.attr != operation.name and not library:
                return True
    return False
