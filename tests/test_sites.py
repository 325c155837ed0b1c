"""Laws of finding an operation in a text, and of the probes that tell which uses really ran.

Covers every operation of the catalogue by its form, with a receiver of its owner's type. What the other
operands are does not matter: the receiver is evaluated before the operation looks at them.
"""

from __future__ import annotations

import ast
import functools
import itertools
import re

import pytest
from generated import programs
from hypothesis import given, settings
from hypothesis import strategies as st

from rewards.sandbox import ExecutionResult, Job, Limits, run
from rewards.values import parse
from synth.catalogue import Operation, catalogue
from synth.sites import PROBED_ENTRY, Site, find_sites, probed_code
from synth.source import Source, read

OPERATIONS = catalogue().operations
LIMITS = Limits(cpu_seconds=5.0, wall_seconds=60.0)
PROBED = 40
"""Grammar programs that are run with and without probes."""

RECEIVERS = {
    "int": "3",
    "float": "2.5",
    "complex": "(1+2j)",
    "bool": "True",
    "str": "'ab'",
    "bytes": "b'ab'",
    "list": "[2, 1]",
    "tuple": "(2, 1)",
    "dict": "{'a': 1}",
    "set": "{1, 2}",
    "frozenset": "frozenset({1})",
    "range": "range(4)",
    "collections.ChainMap": "collections.ChainMap({'a': 1})",
    "collections.Counter": "collections.Counter('ab')",
    "collections.OrderedDict": "collections.OrderedDict(a=1)",
    "collections.defaultdict": "collections.defaultdict(int)",
    "collections.deque": "collections.deque([1])",
    "datetime.date": "datetime.date(2024, 1, 2)",
    "datetime.datetime": "datetime.datetime(2024, 1, 2)",
    "datetime.time": "datetime.time(1)",
    "datetime.timedelta": "datetime.timedelta(1)",
    "datetime.timezone": "datetime.timezone(datetime.timedelta(0))",
    "decimal.Decimal": "decimal.Decimal(1)",
    "fractions.Fraction": "fractions.Fraction(1, 2)",
    "functools.partial": "functools.partial(len)",
    "json.JSONDecoder": "json.JSONDecoder()",
    "json.JSONEncoder": "json.JSONEncoder()",
    "operator.itemgetter": "operator.itemgetter(0)",
    "re.Match": "re.match('a', 'a')",
    "re.Pattern": "re.compile('a')",
    "statistics.NormalDist": "statistics.NormalDist()",
    "string.Formatter": "string.Formatter()",
    "string.Template": "string.Template('$x')",
    "textwrap.TextWrapper": "textwrap.TextWrapper()",
}


def operation(id: str) -> Operation:
    return catalogue().get(id)


def source_of(*body: str, head: str = "", parameters: str = "x", args: str = "1") -> Source:
    lines = [f"    {line}" for line in body]
    text = "\n".join([head, f"def f({parameters}):", *lines, f"print(f({args}))"])
    return read(text)


def form_source(op: Operation) -> Source:
    """A program that consists of the operation's form, its placeholders as parameters."""
    names = re.findall(r"\b[a-eijkvxyz]\b", re.sub(r"\.\w+", "", op.form)) or ["x"]
    names = ["x", *(n for n in dict.fromkeys(names) if n != "x")]
    receiver = RECEIVERS.get(op.owner, "1")
    args = ", ".join([receiver, *["1"] * (len(names) - 1)])
    head = f"import {op.module}" if op.module else ""
    body = [op.form] if op.is_statement else [f"return {op.form}"]
    return source_of(*body, head=head, parameters=", ".join(names), args=args)


def seen(result: ExecutionResult) -> list[tuple[int, str]]:
    assert result.outcome == "returned", result
    assert result.value is not None
    value = parse(result.value)
    assert isinstance(value, list)
    return value


def probe(source: Source, op: Operation, args: str | None = None) -> list[tuple[int, str]]:
    """The probes that fire on one call."""
    args = source.args if args is None else args
    [result] = run([Job(probed_code(source, op), PROBED_ENTRY, args, limits=LIMITS)])
    return seen(result)


# ---------------------------------------------------------------------------------------------
# Every operation.


def test_every_operation_has_a_site_where_its_form_stands() -> None:
    missing = [op.id for op in OPERATIONS if len(find_sites(form_source(op), op)) != 1]
    assert missing == []


def test_every_receiver_type_has_an_example() -> None:
    typed = ("method", "operator", "subscript")
    owners = {op.owner for op in OPERATIONS if op.kind in typed}
    assert owners <= set(RECEIVERS)


@functools.lru_cache(maxsize=1)
def confirmed() -> dict[str, list[tuple[int, str]]]:
    """Probes of every form of a builtin owner, and of a share of the library's."""
    chosen = [op for i, op in enumerate(OPERATIONS) if op.family == "builtin" or i % 8 == 0]
    sources = [form_source(op) for op in chosen]
    jobs = [
        Job(probed_code(source, op), PROBED_ENTRY, source.args, limits=LIMITS)
        for source, op in zip(sources, chosen, strict=True)
    ]
    return {op.id: seen(result) for op, result in zip(chosen, run(jobs), strict=True)}


def test_probes_confirm_the_type_of_the_owner() -> None:
    wrong = {}
    for id, probes in confirmed().items():
        op = operation(id)
        typed = op.kind in ("method", "operator", "subscript")
        name = op.owner.rpartition(".")[2]
        if not (probes == [(0, name)] if typed else [site for site, _ in probes] == [0]):
            wrong[id] = probes
    assert wrong == {}
    assert len(confirmed()) > 380


def test_probes_tell_types_apart_that_are_written_alike() -> None:
    source = source_of("return x.count('a')")
    assert probe(source, operation("str.count"), "'abc'") == [(0, "str")]
    assert probe(source, operation("str.count"), "['a']") == [(0, "list")]
    source = source_of("return x + x")
    assert probe(source, operation("int.__add__"), "True") == [(0, "bool")]


FORMS = {op.form: op for op in OPERATIONS if op.family == "builtin" and op.owner != "builtins"}
NOT_SITES = {
    "x.strip()": ["strip(x)", "x.strip", "x.lstrip()", "str.strip", "x.a().b.strip"],
    "x + y": ["x - y", "+x", "x and y"],
    "x < y": ["x < y < x", "x <= y", "x > y"],
    "y in x": ["y not in x", "x is y", "[y for y in x]"],
    "not x": ["x != y", "-x", "x is not y"],
    "x[i]": ["x[1:]", "x[:]", "x[::2]"],
    "x[i:j]": ["x[1]", "x[::2]", "x[1:2:3]"],
    "x[i:j:k]": ["x[1]", "x[1:2]", "x[:]"],
}


@pytest.mark.parametrize("form", NOT_SITES)
def test_what_only_looks_like_a_site_is_none(form: str) -> None:
    op = FORMS[form]
    for text in NOT_SITES[form]:
        found = find_sites(source_of(f"return {text}", parameters="x, y"), op)
        assert found == (), text


@pytest.mark.parametrize(
    ("id", "statement", "count"),
    [
        ("list.__setitem__[index]", "x[0] = y", 1),
        ("list.__setitem__[index]", "x[0] = x[1] = y", 0),
        ("list.__setitem__[index]", "x[0], y = y", 0),
        ("list.__setitem__[index]", "x[0] += y", 0),
        ("list.__setitem__[index]", "x = y[0]", 0),
        ("list.__setitem__[slice]", "x[0:1] = y", 1),
        ("list.__setitem__[slice]", "x[0] = y", 0),
        ("list.__delitem__[index]", "del x[0]", 1),
        ("list.__delitem__[index]", "del x[0], y", 0),
        ("list.__delitem__[index]", "del x[:1]", 0),
        ("list.__getitem__[index]", "x[0] = y[0]", 1),
        ("list.__iadd__", "x += y", 1),
        ("list.__iadd__", "x -= y", 0),
        ("list.__iadd__", "x = x + y", 0),
    ],
)
def test_statements(id: str, statement: str, count: int) -> None:
    assert len(find_sites(source_of(statement, parameters="x, y"), operation(id))) == count


@pytest.mark.parametrize(
    ("id", "head", "text", "count"),
    [
        ("math.gcd", "import math", "math.gcd(x, 2)", 1),
        ("math.gcd", "import math as m", "m.gcd(x, m.gcd(x, 3))", 2),
        ("math.gcd", "from math import gcd as g", "g(x, 2)", 1),
        ("math.gcd", "", "math.gcd(x, 2)", 1),
        ("math.gcd", "", "x.gcd(x, 2)", 0),
        ("builtins.len", "", "len(x) + len(x)", 2),
        ("builtins.len", "def len(y):\n    return y", "len(x)", 0),
        ("builtins.len", "", "list(map(len, x))", 0),
        ("dict.fromkeys", "", "dict.fromkeys(x)", 1),
        ("dict.fromkeys", "", "{}.fromkeys(x)", 0),
        ("str.strip", "", "str.strip(x)", 1),
        ("str.format", "import string", "string.Formatter().format('', x)", 1),
        ("str.capitalize", "import string", "string.capitalize()", 0),
        ("datetime.date.fromordinal", "from datetime import date", "date.fromordinal(x)", 1),
        ("datetime.date.fromordinal", "import datetime", "datetime.datetime.fromordinal(x)", 0),
        ("collections.Counter", "from collections import Counter as C", "C(x)", 1),
    ],
)
def test_names(id: str, head: str, text: str, count: int) -> None:
    assert len(find_sites(source_of(f"return {text}", head=head), operation(id))) == count


def test_a_parameter_that_hides_an_import_is_a_receiver() -> None:
    head = "import string"
    source = source_of("return string.strip()", head=head, parameters="string")
    assert len(find_sites(source, operation("str.strip"))) == 1


def test_sites_are_numbered_in_text_order() -> None:
    source = source_of("a = x.strip().strip()", "return [x.strip(), a, x.strip()]")
    sites = find_sites(source, operation("str.strip"))
    assert [site.index for site in sites] == [0, 1, 2, 3]
    assert [site.line for site in sites] == [3, 3, 4, 4]
    # The receiver of the second call is the first one: shorter text, so it comes first.
    assert [site.enclosing_calls for site in sites] == [1, 0, 0, 0]
    assert [site.inner_calls for site in sites] == [0, 1, 0, 0]


# ---------------------------------------------------------------------------------------------
# Nesting.


def only_site(text: str, id: str = "str.strip") -> Site:
    [site] = find_sites(source_of(text), operation(id))
    return site


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("return x.strip()", 0),
        ("return len(x.strip())", 1),
        ("return str(len(x.strip()))", 2),
        ("return x.strip().upper()", 1),
        ("return x.strip().upper().lower()", 2),
        ("return len(x.strip().upper())", 2),
        ("return str(max(x.strip(), key=len))", 2),
        ("return str(dict(a=x.strip()))", 2),
        ("return str(max(*x.strip()))", 2),
        ("return str(dict(**x.strip()))", 2),
        ("return abs(len(x.strip()) + 1)", 1),
        ("return len([x.strip()])", 0),
        ("return len(x.strip()[0])", 0),
        ("return sum(y for y in x.strip())", 0),
        ("return x.upper(x.strip)(x.strip())", 1),
        ("return x.strip()(1)", 0),
        ("return x.strip().a", 0),
        ("return len(x.strip().a)", 0),
        ("return abs(x.strip().real.conjugate())", 0),
        ("print(f(x.strip()))", 2),
    ],
)
def test_calls_around_a_site(text: str, count: int) -> None:
    assert only_site(text).enclosing_calls == count


def test_the_printed_call_is_not_counted() -> None:
    source = source_of("return x", args="' a '.strip()")
    assert find_sites(source, operation("str.strip")) == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("x.append(1)", 0),
        ("x.append(len(x))", 1),
        ("x.append(str(len(x)))", 2),
        ("x.append([str(len(x)), abs(1)])", 2),
        ("list(x).append(1)", 1),
        ("sorted(list(x)).append(1)", 2),
        ("x.a(len(x)).append(1)", 2),
        ("x.append(key=str(len(x)))", 2),
        ("x.append(*str(len(x)))", 2),
    ],
)
def test_calls_below_a_site(text: str, count: int) -> None:
    assert only_site(text, "list.append").inner_calls == count


def test_calls_below_a_statement() -> None:
    [site] = find_sites(source_of("x[len(str(x))] = 1"), operation("list.__setitem__[index]"))
    assert site.inner_calls == 2
    assert site.enclosing_calls == 0
    [site] = find_sites(source_of("x += sorted(x)"), operation("list.__iadd__"))
    assert site.inner_calls == 1


CALLS = [
    "len({})",
    "{}.upper()",
    "max({}, 1)",
    "max(1, {})",
    "dict(a={})",
    "max(*{})",
    "dict(**{})",
]
OTHERS = [
    "({} + 1)",
    "[{}]",
    "{}[0]",
    "(lambda: {})",
    "(1 if {} else 2)",
    "({}.real + 1)",
    "{}()",
]
wrappers = st.lists(st.sampled_from([*CALLS, *OTHERS]), max_size=6)


@settings(deadline=None)
@given(wrappers)
def test_enclosing_calls_of_any_nest(around: list[str]) -> None:
    text = "x.strip()"
    for wrapper in around:
        text = wrapper.format(text)
    direct = list(itertools.takewhile(lambda wrapper: wrapper in CALLS, around))
    assert only_site(f"return {text}").enclosing_calls == len(direct)


@settings(deadline=None)
@given(wrappers)
def test_inner_calls_of_any_nest(around: list[str]) -> None:
    text = "x"
    for wrapper in around:
        text = wrapper.format(text)
    depth = sum(wrapper in CALLS or wrapper == "{}()" for wrapper in around)
    assert only_site(f"x.append({text})", "list.append").inner_calls == depth
    assert only_site(f"({text}).append(1)", "list.append").inner_calls == depth


# ---------------------------------------------------------------------------------------------
# Probes change nothing.


def both_ways(source: Source, op: Operation) -> tuple[ExecutionResult, ExecutionResult]:
    """The entry's result without and with probes."""
    jobs = [Job(code, source.entry, source.args, limits=LIMITS)
            for code in (source.code, probed_code(source, op))]  # fmt: skip
    plain, probed = run(jobs)
    return plain, probed


def same(one: ExecutionResult, two: ExecutionResult) -> bool:
    names = (
        "outcome",
        "value",
        "value_type",
        "unrepresentable",
        "error_type",
        "error_message",
        "stdout",
    )
    return all(getattr(one, name) == getattr(two, name) for name in names)


def test_probes_never_change_what_a_grammar_program_does() -> None:
    """One plain and one probed run of each program, and every nested site of it confirmed."""
    chosen = programs(PROBED)
    jobs = []
    for constraint, _, source in chosen:
        code = probed_code(source, constraint.operation)
        jobs += [
            Job(source.code, source.entry, source.args, limits=LIMITS),
            Job(code, source.entry, source.args, limits=LIMITS),
        ]
    results = run(jobs)
    for (constraint, text, _), plain, probed in zip(
        chosen, results[::2], results[1::2], strict=True
    ):
        assert same(plain, probed), f"{constraint.id}\n{text}\n{plain}\n{probed}"
    assert sum(result.outcome == "returned" for result in results) > len(results) * 0.9


NASTY = {
    "target with side effects": (
        "list.__iadd__",
        """
def f(x):
    order = []
    def index(y):
        order.append(y)
        return y
    def rows(y):
        order.append('rows')
        return x
    rows(0)[index(1)] += [index(5)]
    x[index(0)][index(0):index(1)] += [9]
    return (x, order)
""",
        "[[1], [2]]",
    ),
    "target through an iterator": (
        "int.__add__",
        """
def f(x):
    numbers = iter(x)
    totals = {1: 0, 2: 0, 3: 0}
    totals[next(numbers)] += next(numbers) + 1
    totals[next(numbers)] += 1 + 1
    return totals
""",
        "[1, 5, 3]",
    ),
    "default dict as target": (
        "list.__iadd__",
        """
import collections
def f(x):
    found = collections.defaultdict(list)
    for item in x:
        found[item] += [item]
    found['a'] += [0]
    return found
""",
        "['a', 'b', 'a']",
    ),
    "attribute as target": (
        "list.__iadd__",
        """
class A:
    def __init__(self, x):
        self.x = x
def f(x):
    a = A(x)
    a.x += [1]
    made = [A([]) for _ in x]
    made.pop().x += [2]
    return (a.x, len(made))
""",
        "[1, 2]",
    ),
    "exception in an argument": (
        "list.append",
        """
def f(x):
    try:
        x.append(1 // (len(x) - 1))
    except ZeroDivisionError as error:
        return str(error)
    return x
""",
        "[1]",
    ),
    "exception that leaves": ("list.index", "def f(x):\n    return x.index(0)\n", "[1]"),
    "unbound target": ("list.__iadd__", "def f(x):\n    y += x\n    return y\n", "[1]"),
    "refused target": ("tuple.__add__", "def f(x):\n    x[0] += x + x\n    return x\n", "((1,),)"),
    "walrus, comprehension, lambda": (
        "str.upper",
        """
def f(x):
    made = [(y := item.upper()) + y.upper() for item in x]
    return sorted(made, key=lambda item: item.upper()[::-1])
""",
        "['ab', 'ba']",
    ),
    "chained and nested": (
        "str.strip",
        "def f(x):\n    return x.strip('a').strip(x.strip().strip('b')).strip()\n",
        "' abc '",
    ),
    "deletion and store": (
        "list.__delitem__[index]",
        "def f(x):\n    del x[x.pop()]\n    del x[0]\n    return x\n",
        "[5, 6, 7, 1]",
    ),
    "store with side effects": (
        "dict.__setitem__[key]",
        """
def f(x):
    order = []
    def note(y):
        order.append(y)
        return y
    x[note('k')] = note('v')
    return (x, order)
""",
        "{}",
    ),
    "generator": (
        "int.__add__",
        """
def f(x):
    def count(n):
        for i in range(n):
            got = yield i + 1
            if got:
                yield got + 100
    made = count(x)
    return [next(made), made.send(5), *made]
""",
        "3",
    ),
    "recursion": (
        "int.__mul__",
        "def f(x):\n    return 1 if x < 2 else x * f(x - 1)\n",
        "6",
    ),
    "future import": (
        "int.__add__",
        "from __future__ import annotations\ndef f(x: Missing) -> Missing:\n    return x + 1\n",
        "1",
    ),
    "builtins bound by the program": (
        "int.__add__",
        "def type(y):\n    return y + 1\ndef sorted(y):\n    return 0\ndef f(x):\n    set = x\n"
        "    return type(set) + sorted(set)\n",
        "1",
    ),
    "short circuit": (
        "list.pop",
        "def f(x):\n    return (x and x.pop() or x.pop(), x)\n",
        "[0, 1]",
    ),
    "f-string, star, slice": (
        "str.__getitem__[slice]",
        "def f(x):\n    return [f'{x[1:]!r:>{len(x[:9])}}', *x[:2], x[-2:][0:1]]\n",
        "'abcd'",
    ),
}


def nasty(name: str) -> tuple[Source, Operation]:
    id, code, args = NASTY[name]
    return read(f"{code}\nprint(f({args}))\n"), operation(id)


@pytest.mark.parametrize("name", NASTY)
def test_probes_never_change_what_a_program_does(name: str) -> None:
    source, op = nasty(name)
    assert find_sites(source, op)
    plain, probed = both_ways(source, op)
    assert plain.outcome in ("returned", "raised"), plain
    assert same(plain, probed), f"{probed_code(source, op)}\n{plain}\n{probed}"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exception that leaves", [(0, "list")]),
        ("exception in an argument", [(0, "list")]),
        ("unbound target", []),
        ("future import", [(0, "int")]),
        ("builtins bound by the program", [(0, "int"), (1, "int")]),
        ("target with side effects", [(0, "list"), (1, "list")]),
        ("recursion", [(0, "int")]),
        ("short circuit", [(0, "list")]),
    ],
)
def test_which_probes_fire(name: str, expected: list[tuple[int, str]]) -> None:
    source, op = nasty(name)
    assert probe(source, op) == expected


def test_a_site_that_is_not_reached_is_not_reported() -> None:
    source = source_of("for y in x:", "    y.strip()", "if not x:", "    x.strip()", "return x")
    strip = operation("str.strip")
    assert probe(source, strip, "['a', 'b']") == [(0, "str")]
    assert probe(source, strip, "''") == [(1, "str")]
    assert probe(source, strip, "[]") == [(1, "list")]
    assert probe(source, strip, "['a', []]") == [(0, "list"), (0, "str")]


def test_probing_leaves_the_source_as_it_was() -> None:
    for constraint, _, source in programs(PROBED):
        before = ast.dump(source.tree, include_attributes=True)
        first = probed_code(source, constraint.operation)
        assert probed_code(source, constraint.operation) == first
        assert ast.dump(source.tree, include_attributes=True) == before
