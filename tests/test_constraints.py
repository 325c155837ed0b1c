"""Every rule by programs that meet it and programs that break it and nothing else; levels; balance.

The tables are checked against `RULES`, so that a new rule without an example fails.
"""

from __future__ import annotations

import ast
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from generated import constraints, programs
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.catalogue import Operation, catalogue
from synth.constraints import (
    CONTROL_KINDS,
    EXTRAS,
    LIBRARY_SHARE,
    MAX_DEPTH,
    RULES,
    Constraint,
    Evidence,
    Structure,
    enumerate_constraints,
    level_depth,
    level_sentence,
    levels,
    operations_of,
    other_operations,
    rules_of,
    structure,
    unmet,
    violations,
)
from synth.errors import ConfigError, ProgramRejected, UsageError
from synth.programs import vet
from synth.sites import find_sites
from synth.source import read

ROOT = Path(__file__).resolve().parent.parent
RULE = {rule.name: rule for rule in RULES}


def wanted(
    id: str = "str.strip",
    *,
    other: bool = True,
    blueprint: tuple[str, ...] = (),
    chain: bool = False,
    extras: tuple[str, ...] = (),
) -> Constraint:
    return Constraint(catalogue().get(id), 1, Structure(other, blueprint, chain, extras))


PLAIN = wanted()
LOOP = wanted(blueprint=("for", "if"))
ALONE = wanted(other=False)
CHAIN = wanted(chain=True)
APPEND = wanted("list.append", other=False)
GCD = wanted("math.gcd", other=False)


def clean(extra: str = "", *, before: str = "", args: str = "' ab ', 'x'") -> str:
    """A program that meets `PLAIN`: `extra` is a statement in front of its return."""
    return (
        f"{before}def clean(text, mark):\n"
        "    first = len(str(text.strip(mark)))\n"
        "    second = text.strip().upper()\n"
        f"{extra}"
        "    return (first, second)\n\n"
        f"print(clean({args}))\n"
    )


def looped(body: str) -> str:
    """A program with the statements of `body` before its return."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return clean(lines.replace("DO", "first += 1"))


CHAINED = """\
def tidy(text):
    return len(str(text.strip()))


def clean(text, mark):
    return (tidy(text), tidy(mark), text.strip().upper())

print(clean(' ab ', 'x'))
"""
STRAIGHT = clean().replace(".upper()", "")
RECURSIVE = clean("    if first > 9:\n        return clean(second, mark)\n")
INNER = "    def inner(y):\n        return {}\n    first += inner(1)\n"

# rule -> constraint, programs that meet it, programs that break it and nothing else
STATIC: dict[str, tuple[Constraint, list[str], list[str]]] = {
    "module_level": (
        PLAIN,
        [clean(), clean(before="import math\nfrom re import sub\n"), clean(before="class A:\n    x = 1\n")],
        [
            clean(before="LIMIT = 3\n"),
            clean(before="'text'\n"),
            clean(before="if 1 > 0:\n    import math\n"),
            clean(before="len('a')\n"),
            clean().replace("print(clean(", "print(min("),
            clean().replace("\nprint", "\nclean(' a ', 'x')\nprint"),
        ],
    ),
    "no_comments": (
        PLAIN,
        [clean(), clean("    first += len('# no comment')\n"), clean("    first += len('''a\n# b''')\n")],
        [
            clean("    # a comment\n"),
            clean("    first += 1  # a comment\n"),
            clean().replace("mark):\n", "mark):\n    'A docstring.'\n"),
            clean(before="# at the top\n"),
            clean(INNER.format("y").replace("return y", "'doc'\n        return y")),
            clean(before="class A:\n    'A docstring.'\n"),
        ],
    ),
    "pure": (
        PLAIN,
        [
            clean(),
            clean("    first += round(math.pi)\n", before="import math\n"),
            clean("    second += string.digits\n", before="import string\n"),
            clean("    first += d(2024, 1, 2).year\n", before="from datetime import date as d\n"),
            clean("    first += len(collections.OrderedDict(a=1))\n", before="import collections\n"),
        ],
        [
            *(clean(f"    first += {text}\n") for text in (
                "hash(second)", "id(text)", "len(input())", "open('a')", "eval('1')", "len(dir())",
                "getattr(text, 'strip')", "hasattr(text, 'a')", "len(vars())", "exec('1')", "print(1)",
                "object()", "text.__len__()", "text.__class__", "__import__('os')", "len(globals())",
                "[hash][0](text)", "memoryview(b'a')", "compile('1', '', 'eval')",
            )),
            *(clean(before=f"{text}\n") for text in (
                "import os", "import random", "import time", "import sys", "from os import path",
                "import os.path as math", "from . import math", "from math import *", "import uuid",
                "from __future__ import annotations", "import os as m\nimport math as m",
            )),
            *(clean(f"    first += {text}\n", before="import datetime\n") for text in (
                "datetime.datetime.now()", "datetime.date.today()", "datetime.date(2024, 1, 2).today()",
                "[datetime.datetime][0].utcnow()", "datetime.datetime(2024, 1, 2).timestamp()",
            )),
            clean("    first += now.now()\n", before="from datetime import datetime as now\n"),
            clean("    first += statistics.NormalDist.samples(1)\n", before="import statistics\n"),
            clean("    decimal.getcontext().clear()\n", before="import decimal\n"),
            clean("    json.dump(text, mark)\n", before="import json\n"),
        ],
    ),
    "entry_once": (
        CHAIN,
        [CHAINED, CHAINED.replace("return (tidy", "return (len(clean(text, mark)), tidy")],
        [
            CHAINED.replace("text.strip()))", "text.strip())) + clean(text, text)[0]"),
            CHAINED.replace("text.strip()))", "text.strip())) + [clean, text][1].count('a')"),
        ],
    ),
    "parameters": (
        PLAIN,
        [
            clean(),
            clean().replace("(text, mark)", "(text, /, mark)"),
            clean(args="' ab ', mark='x'").replace("(text, mark)", "(text, *, mark)"),
            clean(INNER.format("y + 1")),
        ],
        [
            clean().replace("text, mark)", "text, mark='x')"),
            clean().replace("text, mark)", "text, *, mark='x')"),
            clean().replace("text, mark)", "text, *mark)"),
            clean().replace("text, mark)", "text, **mark)"),
            clean(INNER.format("1").replace("(y)", "()").replace("(1)", "()")),
            clean(INNER.format("y").replace("(y)", "(y=1)").replace("(1)", "()")),
        ],
    ),
    "literal_arguments": (
        PLAIN,
        [
            clean(args=args) for args in (
                "'a', 'b'", "'a', mark='b'", "[1, -2.5, None, True], {'a': (1,)}", "set(), b'x'", "1j, ''",
            )
        ],
        [
            clean(args=args) for args in (
                "", "'a'.upper(), 'b'", "len('a'), 'b'", "'a' + 'b', 'c'", "[x for x in 'ab'], 'b'",
                "name, 'b'", "'a', mark=str(1)", "*['a', 'b']", "lambda x: x, 'b'", "f'{1}', 'b'",
            )
        ],
    ),
    "no_unused": (
        PLAIN,
        [
            clean(),
            clean("    for _ in text:\n        first += 1\n").replace("for _ in text:\n        ", ""),
            clean("    _, first = divmod(first, 2)\n"),
            clean("    first += sum([len(item) for item in text])\n"),
        ],
        [
            clean("    third = 3\n"),
            clean("    third, first = divmod(first, 2)\n"),
            clean("    third = 1\n    third += 1\n"),
            clean().replace("strip(mark)", "strip('x')"),
            clean("    first += sum([1 for item in text])\n"),
            clean("    first += max([1, 2], key=lambda item: 1)\n"),
            clean(INNER.format("1")),
            clean("    first += (third := 1)\n"),
        ],
    ),
    "nested_calls": (
        PLAIN,
        [
            clean(),
            clean().replace("len(str(text.strip(mark)))", "text.strip(mark).upper().count(mark)"),
            clean().replace("len(str(text.strip(mark)))", "max(1, len(text.strip(mark)))"),
        ],
        [
            clean().replace("text.strip().upper()", "text.upper()"),
            clean().replace("text.strip(mark)", "mark").replace("text.strip()", "text"),
            clean().replace("len(str(text.strip(mark)))", "len(text.strip(mark))"),
            clean().replace("len(str(text.strip(mark)))", "len([text.strip(mark)] + str(1).split())"),
        ],
    ),
    "other_operations": (
        ALONE,
        [
            STRAIGHT,
            STRAIGHT.replace("(first, second)", "(first, sorted(second), second + mark, second[1:])"),
            STRAIGHT.replace("(first, second)", "(first, second, str(len(mark)), [1] * 2)"),
        ],
        [
            clean(),
            STRAIGHT.replace("(first, second)", "(first, second.lower())"),
            "import math\n" + STRAIGHT.replace("(first, second)", "(math.gcd(first, 2), second)"),
            "from math import gcd\n" + STRAIGHT.replace("(first, second)", "(gcd(first, 2), second)"),
            STRAIGHT.replace("(first, second)", "(first, dict.fromkeys(second))"),
        ],
    ),
    "control_flow": (
        LOOP,
        [
            looped("for i in range(2):\n    if i > first:\n        DO"),
            looped("for i in range(2):\n    if i > first:\n        DO\nwhile first > 9:\n    first -= 1"),
            looped("for i in range(2):\n    if i > first:\n        DO\n    else:\n        first -= 1"),
            looped("for i in range(2):\n    first -= 1\n    if i > first:\n        DO"),
        ],
        [
            clean(),
            looped("for i in range(2):\n    first += i"),
            looped("if first > 1:\n    for i in range(2):\n        first += i"),
            looped("for i in range(2):\n    while i > first:\n        DO"),
            looped("for i in range(2):\n    if i > first:\n        DO\n    elif i > 1:\n        DO"),
            looped("for i in range(2):\n    if i > first:\n        if i > 3:\n            DO"),
            looped("for i in range(2):\n    first += i\nif first > 1:\n    DO"),
            looped("for i in range(2):\n    if i > first:\n        DO\n"
                   "while first > 8:\n    while first > 9:\n        while first > 10:\n            DO"),
            looped("first += sum([1 if i else 2 for i in range(2) if i])"),
        ],
    ),
    "call_chain": (
        CHAIN,
        [CHAINED, CHAINED.replace("(tidy(text), tidy(mark),", "(max(map(tidy, text)), tidy(mark),")],
        [
            clean(),
            CHAINED.replace("(tidy(text), tidy(mark),", "(len(text), mark,"),
            CHAINED.replace("(tidy(text), tidy(mark),", "(max(map(tidy, text)), mark,"),
            CHAINED.replace("\n\ndef clean", "\n\ndef third(y):\n    return y\n\n\ndef clean"),
        ],
    ),
    "exceptions": (
        wanted(extras=("exceptions",)),
        [clean(
            "    try:\n        raise ValueError(mark)\n    except ValueError:\n        first += 1\n"
        )],
        [
            clean(),
            clean("    try:\n        first += int(text)\n    except ValueError:\n        first += 1\n"),
            clean("    try:\n        raise ValueError(mark)\n    finally:\n        first += 1\n"),
            clean("    try:\n        raise ValueError(mark)\n    except:\n        first += 1\n"),
        ],
    ),
    "recursion": (
        replace(LOOP, structure=Structure(True, ("if",), False, ("recursion",))),
        [RECURSIVE],
        [
            RECURSIVE.replace("clean(second, mark)", "(second, mark)"),
            RECURSIVE.replace("return clean(second, mark)", "return [clean, (mark, 1)][1]"),
        ],
    ),
    "closures": (
        wanted(extras=("closures",)),
        [clean(INNER.format("y + len(second)")), clean(INNER.format("max(y, len(text))")),
         clean(INNER.format("[y for _ in mark].count(y)"))],
        [
            clean(),
            clean(INNER.format("y + 1")),
            clean(INNER.format("y").replace("return y", "local = y\n        return local")),
            clean(INNER.format("inner(y - 1) if y else 0")),
            clean("    first += max([1], key=lambda y: y + len(second))\n"),
            clean("    first += sum([len(second) for y in text if y])\n"),
        ],
    ),
    "generators": (
        wanted(extras=("generators",)),
        [clean(INNER.format("y").replace("return y", "yield y").replace("inner(1)", "next(inner(1))")),
         clean(INNER.format("y").replace("return y", "yield from [y]").replace("inner(1)", "sum(inner(1))"))],
        [clean(), clean("    first += sum(len(y) for y in text)\n")],
    ),
    "classes": (
        wanted(extras=("classes",)),
        [clean("    first += Box().size\n", before="class Box:\n    size = 3\n\n\n")],
        [clean(), clean(before="class Box:\n    size = 3\n\n\n"),
         clean("    first += Box.size\n", before="class Box:\n    size = 3\n\n\n")],
    ),
    "comprehensions": (
        wanted(extras=("comprehensions",)),
        [clean("    first += sum([sum([ord(c) for c in word]) for word in text.split()])\n"),
         clean("    first += len({c for word in text.split() for c in word})\n"),
         clean("    first += len({w: [c for c in w] for w in text.split()})\n"),
         clean("    first += sum(len([c for c in w]) for w in text.split())\n")],
        [clean(), clean("    first += sum([len(word) for word in text.split()])\n"),
         clean("    first += sum([len(w) for w in text]) + len({w for w in mark})\n")],
    ),
}  # fmt: skip

MORE: list[tuple[str, Constraint, str, list[str]]] = [
    ("another operation is wanted", PLAIN, STRAIGHT, ["other_operations"]),
    ("another operation is there", PLAIN, clean(), []),
    ("no structure is wanted", ALONE, STRAIGHT, []),
    (
        "no structure is wanted, one is there",
        PLAIN,
        looped("for i in range(2):\n    first += i"),
        ["control_flow"],
    ),
    (
        "no structure is wanted, one is in an inner function",
        PLAIN,
        clean(
            INNER.format("y").replace(
                "return y", "while y > 3:\n            y -= 1\n        return y"
            )
        ),
        ["control_flow"],
    ),
    ("one function is wanted, two are there", PLAIN, CHAINED, ["call_chain"]),
    (
        "an operation without a value: nested receiver and argument",
        APPEND,
        "def f(x):\n    x.append(str(len(x)))\n    x.append(1)\n    return x\n\nprint(f([1]))\n",
        [],
    ),
    (
        "an operation without a value: nested receiver alone",
        APPEND,
        "def f(x):\n    sorted(list(x)).append(1)\n    x.append(1)\n    return x\n\nprint(f([1]))\n",
        [],
    ),
    (
        "an operation without a value: flat",
        APPEND,
        "def f(x):\n    x.append(len(x))\n    x.append(1)\n    return x\n\nprint(f([1]))\n",
        ["nested_calls"],
    ),
    (
        "an operation without a value inside two calls",
        APPEND,
        "def f(x):\n    x.append(1)\n    return str(len([x.append(1)]))\n\nprint(f([1]))\n",
        ["nested_calls"],
    ),
    (
        "the operation's own module is part of its use",
        GCD,
        "import math\n\ndef f(x):\n    return abs(max(math.gcd(x, 4), 1)) + math.gcd(math.lcm(x, 2), 6)\n\n"
        "print(f(4))\n",
        [],
    ),
    (
        "another module is not",
        GCD,
        "import math\nimport re\n\ndef f(x):\n    y = abs(max(math.gcd(x, 4), 1)) + math.gcd(x, 6)\n"
        "    return re.escape(str(y))\n\nprint(f(4))\n",
        ["other_operations"],
    ),
]


def broken(constraint: Constraint, text: str) -> list[str]:
    return [found.rule for found in violations(constraint, read(text), first=False)]


def test_every_static_rule_has_examples() -> None:
    assert set(STATIC) == {rule.name for rule in RULES if rule.static is not None}
    assert all(good and bad for _, good, bad in STATIC.values())


@pytest.mark.parametrize("name", STATIC)
def test_rule_on_the_text(name: str) -> None:
    constraint, good, bad = STATIC[name]
    for text in good:
        assert broken(constraint, text) == [], text
    for text in bad:
        assert broken(constraint, text) == [name], text
        [found] = violations(constraint, read(text))
        assert found.rule == name
        assert found.detail
        with pytest.raises(ProgramRejected) as caught:
            vet(constraint, text)
        assert caught.value.rule == name


@pytest.mark.parametrize("case", MORE, ids=[case[0] for case in MORE])
def test_structures(case: tuple[str, Constraint, str, list[str]]) -> None:
    _, constraint, text, expected = case
    assert broken(constraint, text) == expected


def test_ge_03_a_program_that_uses_hash_is_refused() -> None:
    text = "def f(s):\n    return hash(s) % 10\n\nprint(f('abc'))\n"
    for constraint in constraints(40):
        found = {violation.rule for violation in violations(constraint, read(text), first=False)}
        assert "pure" in found


def test_first_violation_is_the_first_of_all() -> None:
    text = "x = 1\ndef f(a=1):\n    # c\n    return hash(a)\nprint(f(id(1)))\n"
    for constraint in constraints(20):
        every = violations(constraint, read(text), first=False)
        assert violations(constraint, read(text)) == every[:1]
        order = [rule.name for rule in RULES]
        assert [v.rule for v in every] == sorted((v.rule for v in every), key=order.index)
        assert len(every) >= 4


def test_a_structure_may_ask_for_the_optional_rules() -> None:
    # The names stand with the structure, the rules with their checks.
    assert tuple(rule.name for rule in RULES if rule.optional) == EXTRAS


@pytest.mark.parametrize("name", EXTRAS)
def test_optional_rules_apply_only_when_asked_for(name: str) -> None:
    constraint, _, bad = STATIC[name]
    assert name in [rule.name for rule in rules_of(constraint)]
    plain = replace(constraint, structure=replace(constraint.structure, extras=()))
    assert name not in [rule.name for rule in rules_of(plain)]
    for text in bad:
        assert name not in broken(plain, text)
    others = [rule.name for rule in RULES if rule.optional and rule.name != name]
    assert not set(others) & {rule.name for rule in rules_of(constraint)}


def test_other_operations_names_what_it_finds() -> None:
    text = "import math\n" + clean("    first += math.gcd(first, dict.fromkeys(text).get('a'))\n")
    assert sorted(other_operations(PLAIN, read(text))) == [
        "dict.fromkeys",
        "get",
        "math.gcd",
        "upper",
    ]
    assert other_operations(PLAIN, read(STRAIGHT)) == []


# ---------------------------------------------------------------------------------------------
# Rules on executions.

RUN = """\
def tidy(text):
    return len(str(text.strip()))


def clean(text, mark):
    first = text.strip().upper()
    for char in first:
        if char > mark:
            mark = char
        else:
            mark += char
    return (tidy(text), mark)

print(clean(' ab ', 'x'))
"""
RUN_CONSTRAINT = wanted(blueprint=("for", "if"), chain=True)
COMPLETE = Evidence(
    probes=frozenset({(0, "str"), (1, "str")}),
    lines=frozenset({2, 6, 7, 8, 9, 11, 12}),
    statement_lines=frozenset({2, 6, 7, 8, 9, 11, 12}),
    arms=frozenset({(7, "true"), (7, "false"), (8, "true"), (8, "false")}),
    functions=frozenset({"tidy", "clean"}),
    outputs=frozenset({"(2, 'x')", "(0, '')"}),
)
DYNAMIC: dict[str, list[Evidence]] = {
    "nested_calls": [
        replace(COMPLETE, probes=frozenset()),
        replace(COMPLETE, probes=frozenset({(0, "str")})),
        replace(COMPLETE, probes=frozenset({(0, "str"), (1, "bytes")})),
        replace(COMPLETE, probes=frozenset({(0, "list"), (1, "list")})),
        replace(COMPLETE, probes=frozenset({(0, "Str"), (1, "str")})),
    ],
    "control_flow": [
        # The block's line is no statement's line: dead code is another rule.
        replace(COMPLETE, lines=COMPLETE.lines - {9}, statement_lines=COMPLETE.lines - {9}),
    ],
    "call_chain": [
        replace(COMPLETE, functions=frozenset({"clean"})),
        replace(COMPLETE, functions=frozenset({"clean", "other"})),
    ],
    "no_dead_code": [
        replace(COMPLETE, lines=COMPLETE.lines - {11}),
        replace(COMPLETE, lines=COMPLETE.lines - {12}),
        replace(COMPLETE, statement_lines=COMPLETE.lines | {13}),
    ],
    "both_ways": [
        replace(COMPLETE, arms=COMPLETE.arms - {(8, "true")}),
        replace(COMPLETE, arms=COMPLETE.arms - {(8, "false")}),
    ],
    "varies": [
        replace(COMPLETE, outputs=frozenset()),
        replace(COMPLETE, outputs=frozenset({"(2, 'x')"})),
    ],
    "operation_matters": [replace(COMPLETE, operation_matters=False)],
    "no_idle_statement": [
        replace(COMPLETE, idle_lines=(9,)),
        replace(COMPLETE, idle_lines=(6, 11)),
    ],
}


def test_every_dynamic_rule_has_examples() -> None:
    assert set(DYNAMIC) == {rule.name for rule in RULES if rule.dynamic is not None}
    assert all(DYNAMIC.values())


def test_complete_evidence_meets_every_rule() -> None:
    source = read(RUN)
    assert broken(RUN_CONSTRAINT, RUN) == []
    assert unmet(RUN_CONSTRAINT, source, COMPLETE) == []
    # A loop that always ends by its iterable, and one arm's line on its own, are no faults.
    arms = COMPLETE.arms - {(7, "false")}
    assert unmet(RUN_CONSTRAINT, source, replace(COMPLETE, arms=arms)) == []


@pytest.mark.parametrize("name", DYNAMIC)
def test_rule_on_the_executions(name: str) -> None:
    for evidence in DYNAMIC[name]:
        found = unmet(RUN_CONSTRAINT, read(RUN), evidence)
        assert [violation.rule for violation in found] == [name]
        assert found[0].detail


def test_a_condition_that_was_never_reached_is_dead_code_only() -> None:
    lines = COMPLETE.lines - {8, 9, 11}
    arms = frozenset({(7, "false")})
    found = unmet(RUN_CONSTRAINT, read(RUN), replace(COMPLETE, lines=lines, arms=arms))
    assert [violation.rule for violation in found] == ["control_flow", "no_dead_code"]


def test_the_nested_use_itself_must_run() -> None:
    text = clean("    first += len(text.strip('b'))\n")
    source = read(text)
    sites = find_sites(source, PLAIN.operation)
    nested = [site.index for site in sites if site.enclosing_calls >= 2]
    assert nested == [0]
    for probes, expected in (
        ({(0, "str"), (1, "str")}, []),
        ({(1, "str"), (2, "str")}, ["nested_calls"]),
        ({(0, "bytes"), (1, "str"), (2, "str")}, ["nested_calls"]),
    ):
        evidence = replace(
            COMPLETE, probes=frozenset(probes), functions=frozenset({"clean"}), arms=frozenset()
        )
        assert [v.rule for v in unmet(PLAIN, source, evidence)] == expected


@pytest.mark.parametrize(
    ("id", "form", "name", "confirmed"),
    [
        ("collections.Counter.elements", "x.elements()", "Counter", True),
        ("collections.Counter.elements", "x.elements()", "OrderedDict", False),
        ("datetime.date.isoformat", "x.isoformat()", "datetime", False),
        ("datetime.datetime.isoformat", "x.isoformat()", "datetime", True),
        ("int.__add__", "(x + x)", "bool", False),
        ("math.gcd", "math.gcd(x, x)", "builtin_function_or_method", True),
        ("collections.Counter", "collections.Counter(x)", "type", True),
        ("dict.fromkeys", "dict.fromkeys(x)", "type", True),
    ],
)
def test_whose_receiver_counts(id: str, form: str, name: str, confirmed: bool) -> None:
    constraint = wanted(id)
    head = "import math\nimport collections\n"
    text = f"{head}def f(x):\n    return (len(str({form})), {form}, x.upper())\n\nprint(f(1))\n"
    evidence = replace(
        COMPLETE,
        probes=frozenset({(0, name), (1, name)}),
        functions=frozenset({"f"}),
        arms=frozenset(),
    )
    rules = [violation.rule for violation in unmet(constraint, read(text), evidence)]
    assert rules == ([] if confirmed else ["nested_calls"])


@pytest.mark.parametrize("kind", CONTROL_KINDS)
def test_entering_the_innermost_block(kind: str) -> None:
    heads = {"if": "if i:", "if-elif": "if i:", "for": "for j in [i]:", "while": "while i:"}
    lines = [
        "def f(x):",
        "    i = x",
        "    for k in x:",
        f"        {heads[kind]}",
        "            i = k",
    ]
    if kind == "if-elif":
        lines += ["        elif k:", "            i = 1"]
    source = read("\n".join([*lines, "    return i", "", "print(f([1]))"]))
    constraint = wanted(blueprint=("for", kind))
    for entered in (True, False):
        evidence = replace(COMPLETE, lines=frozenset({2, 3, 4} | ({5} if entered else set())))
        rules = [violation.rule for violation in unmet(constraint, source, evidence)]
        assert ("control_flow" in rules) is not entered


def test_only_the_nest_that_was_asked_for_counts_as_entered() -> None:
    lines = [
        "def f(x):",
        "    for k in x:",
        "        if k:",
        "            x = k",
        "    for k in x:",
    ]
    lines += ["        while k:", "            k = 0", "    return x", "", "print(f([1]))"]
    constraint = wanted(blueprint=("for", "if"))
    for entered, expected in ((4, False), (7, True)):
        evidence = replace(COMPLETE, lines=frozenset({2, 3, 5, 6, 8, entered}))
        rules = [v.rule for v in unmet(constraint, read("\n".join(lines)), evidence)]
        assert ("control_flow" in rules) is expected


# ---------------------------------------------------------------------------------------------
# Sentences.


def with_extras() -> list[Constraint]:
    return [
        replace(constraint, structure=replace(constraint.structure, extras=EXTRAS))
        for constraint in constraints(400, depth=MAX_DEPTH)
    ]


def test_sentences() -> None:
    for constraint in with_extras():
        assert len(rules_of(constraint)) == len(RULES)
        said = {rule.name: rule.sentence(constraint) for rule in rules_of(constraint)}
        for name, sentence in said.items():
            assert re.fullmatch(r"[A-Z].*[a-z`)]\.", sentence), (name, sentence)
            assert "\n" not in sentence
        assert len(set(said.values())) == len(said)
        assert f"`{constraint.operation.form}`" in said["nested_calls"]
        assert constraint.operation.id in said["nested_calls"]
        assert "twice" in said["nested_calls"]


def test_sentences_follow_the_structure() -> None:
    for constraint in constraints(200, depth=MAX_DEPTH):
        shape = constraint.structure
        said = {rule.name: rule.sentence(constraint) for rule in rules_of(constraint)}
        words = {
            "if": "an if",
            "if-elif": "an if-elif",
            "for": "a for loop",
            "while": "a while loop",
        }
        places = re.findall(r"an if-elif|an if|a for loop|a while loop", said["control_flow"])
        assert places == [words[kind] for kind in shape.blueprint]
        if shape.blueprint:
            assert f"exactly {len(shape.blueprint)} deep" in said["control_flow"]
        assert ("two functions" in said["call_chain"]) == shape.call_chain
        assert ("no other method" in said["other_operations"]) != shape.other_operations
        assert (
            "receiver or an argument" in said["nested_calls"]
        ) == constraint.operation.returns_none


# ---------------------------------------------------------------------------------------------
# Levels.


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(0, (1, 2)), (1, (1, 2, 3, 4)), (2, (1, 2, 3, 4, 5)), (3, (1, 2, 3, 4, 5, 6)),
     (4, (1, 2, 3, 4, 5, 6, 7)), (5, (1, 2, 3, 4, 5, 6, 7, 8))],
)  # fmt: skip
def test_levels(depth: int, expected: tuple[int, ...]) -> None:
    assert levels(depth) == expected
    for level in expected:
        inside = level_depth(level, depth)
        shape = structure(level, depth, ("for",) * inside)
        assert shape.other_operations == (level > 1)
        assert inside == (0 if level <= 2 else min(level - 2, depth))
        assert shape.call_chain == (depth > 0 and level == expected[-1])
        assert shape.depth == inside
        assert level_sentence(level, depth)
    assert len({level_sentence(level, depth) for level in expected}) == len(expected)


@pytest.mark.parametrize("depth", [-1, 6, 9])
def test_levels_out_of_range(depth: int) -> None:
    with pytest.raises(ConfigError) as caught:
        levels(depth)
    assert str(depth) in str(caught.value)
    assert "0 to 5" in str(caught.value)
    assert "--depth" in str(caught.value)
    with pytest.raises(ConfigError):
        next(enumerate_constraints(operations_of(), depth, 0))


# ---------------------------------------------------------------------------------------------
# Enumeration.


@st.composite
def enumerations(draw: st.DrawFn) -> tuple[list[Constraint], int, tuple[int, ...]]:
    depth = draw(st.integers(0, MAX_DEPTH))
    some = draw(st.none() | st.lists(st.sampled_from(levels(depth)), min_size=1, unique=True))
    seed = draw(st.integers(0, 2**32))
    count = draw(st.integers(1, 700))
    every = enumerate_constraints(operations_of(), depth, seed, some)
    return list(itertools.islice(every, count)), depth, tuple(some or levels(depth))


@settings(max_examples=40, deadline=None)
@given(enumerations())
def test_any_prefix_is_balanced(
    drawn: tuple[list[Constraint], int, tuple[int, ...]],
) -> None:
    found, depth, wanted_levels = drawn
    per_level = Counter(constraint.level for constraint in found)
    counts = [per_level[level] for level in wanted_levels]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) == len(found)
    for family in ("builtin", "library"):
        ids = [c.operation.id for c in found if c.operation.family == family]
        total = len({op.id for op in operations_of() if op.family == family})
        for start in range(0, len(ids), total):
            part = ids[start : start + total]
            assert len(set(part)) == len(part)
    library = sum(constraint.operation.family == "library" for constraint in found)
    assert abs(library - len(found) / LIBRARY_SHARE) <= len(wanted_levels)
    for level in wanted_levels:
        inside = level_depth(level, depth)
        nests = Counter(c.structure.blueprint for c in found if c.level == level)
        assert all(len(nest) == inside for nest in nests)
        if nests:
            absent = len(CONTROL_KINDS) ** inside > len(nests)
            assert max(nests.values()) - (0 if absent else min(nests.values())) <= 1


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 400))
def test_a_shorter_run_is_a_prefix_of_a_longer_one(seed: int, count: int) -> None:
    long = itertools.islice(enumerate_constraints(operations_of(), 3, seed), 400)
    short = itertools.islice(enumerate_constraints(operations_of(), 3, seed), count)
    assert list(short) == list(long)[:count]


def test_every_operation_and_every_nest_comes_up() -> None:
    found = constraints(1 + len(operations_of()) * LIBRARY_SHARE, depth=2)
    assert {c.operation.id for c in found} == {op.id for op in operations_of()}
    assert {c.structure.blueprint for c in found if c.level == 4} == {
        (a, b) for a in CONTROL_KINDS for b in CONTROL_KINDS
    }
    assert len({c.level for c in found if c.operation.family == "library"}) == 5


def test_other_seeds_give_other_orders() -> None:
    orders = {tuple(c.id for c in constraints(30, seed=seed)) for seed in range(6)}
    assert len(orders) == 6


IDS = """
import itertools
from synth.constraints import enumerate_constraints, operations_of
for types in (None, ["dict", "set", "Counter"]):
    for constraint in itertools.islice(enumerate_constraints(operations_of(types), 3, 7), 150):
        print(constraint.id)
"""


def test_a_fresh_process_under_another_hash_seed_gives_the_same_sequence() -> None:
    expected = [
        constraint.id
        for types in (None, ["dict", "set", "Counter"])
        for constraint in itertools.islice(enumerate_constraints(operations_of(types), 3, 7), 150)
    ]
    for hash_seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", IDS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == expected


@pytest.mark.parametrize(
    "types", [["str"], ["list", "dict"], ["math"], ["collections"], ["Counter"], ["str", "re"]]
)
def test_types_filter(types: list[str]) -> None:
    chosen = operations_of(types)
    found = list(itertools.islice(enumerate_constraints(chosen, 3, 0), 600))
    owners = {constraint.operation.owner for constraint in found}
    assert owners == {op.owner for op in chosen}
    for owner in owners:
        names = {owner, owner.partition(".")[0], owner.rpartition(".")[2]}
        assert names & set(types)
    assert {constraint.level for constraint in found} == set(levels(3))


def test_unknown_types_levels_and_nothing_left() -> None:
    with pytest.raises(UsageError, match=r"strr.*'str'"):
        operations_of(["strr"])
    with pytest.raises(ConfigError, match="level 7 does not exist at --depth 3"):
        next(enumerate_constraints(operations_of(), 3, 0, [1, 7]))
    with pytest.raises(ConfigError, match="no operation"):
        next(enumerate_constraints((), 3, 0))


def test_ids_tell_constraints_apart() -> None:
    seen: dict[str, Constraint] = {}
    for constraint in constraints(600, depth=MAX_DEPTH):
        assert seen.setdefault(constraint.id, constraint) == constraint
        operation, _, rest = constraint.id.rpartition("@")
        assert operation == constraint.operation.id
        assert rest.startswith(f"{constraint.level}:nested")
    assert wanted(extras=("classes",)).id != wanted().id


def test_programs_of_another_level_break_the_structure() -> None:
    """What the grammar wrote for one structure does not pass for a deeper or a flatter one."""
    for constraint, text, source in programs(60):
        shape = constraint.structure
        deeper = replace(constraint, structure=replace(shape, blueprint=("for", *shape.blueprint)))
        chained = replace(constraint, structure=replace(shape, call_chain=not shape.call_chain))
        assert "control_flow" in broken(deeper, text)
        assert broken(chained, text) == ["call_chain"]
        assert isinstance(source.tree, ast.Module)
        assert isinstance(constraint.operation, Operation)
