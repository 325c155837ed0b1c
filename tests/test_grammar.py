"""Laws of the programs that the grammar writes, over constraints of all levels and all operations.

Everything here is checked on the text. Whether the programs run, vary and reach their blocks is the
pipeline's filter and is not a promise of the provider.
"""

from __future__ import annotations

import ast
import functools
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from generated import completion, constraints

from rewards.values import canonical, parse
from synth.catalogue import catalogue
from synth.constraints import (
    CONTROL_KINDS,
    MAX_DEPTH,
    RULES,
    Constraint,
    enumerate_constraints,
    level_depth,
    levels,
    operations_of,
    structure,
    violations,
)
from synth.errors import ConfigError, ProviderError
from synth.programs import extract
from synth.prompts import Prompt, program_prompt
from synth.providers import Provider, provider
from synth.providers.grammar.small import Language, write_small
from synth.providers.grammar.vocabulary import Names
from synth.seeds import rng
from synth.source import Source, read

ROOT = Path(__file__).resolve().parent.parent
OFFLINE = ("grammar",)
"""Providers that need no server; the others are tried in files of their own."""
STEP = 2
"""One operation in this many is tried; all owners and levels come up."""


@functools.lru_cache(maxsize=1)
def spread() -> tuple[Constraint, ...]:
    """Every second operation, the eight levels in turn, each nest as often as the others."""
    found = []
    known = levels(MAX_DEPTH)
    for index, operation in enumerate(catalogue().operations[::STEP]):
        level = known[index % len(known)]
        inside = level_depth(level, MAX_DEPTH)
        number = index // len(known) * 7 + index
        blueprint = tuple(CONTROL_KINDS[number // 4**place % 4] for place in range(inside))
        found.append(Constraint(operation, level, structure(level, MAX_DEPTH, blueprint)))
    return tuple(found)


@functools.lru_cache(maxsize=1)
def written() -> tuple[tuple[Constraint, str, Source], ...]:
    found = []
    for index, constraint in enumerate(spread()):
        text = extract(completion(constraint, f"law:{index}"))
        found.append((constraint, text, read(text)))
    return tuple(found)


# ---------------------------------------------------------------------------------------------
# The programs.


def test_the_sample_is_wide() -> None:
    sample = spread()
    assert len(sample) >= 300
    assert {c.level for c in sample} == set(levels(MAX_DEPTH))
    assert {c.operation.owner for c in sample} >= set(catalogue().owners("builtin"))
    assert len({c.operation.owner for c in sample}) > 0.9 * len(catalogue().owners())
    kinds = Counter(kind for c in sample for kind in c.structure.blueprint)
    assert set(kinds) == set(CONTROL_KINDS)


def test_programs_meet_every_static_rule_at_the_first_attempt() -> None:
    """All parse (or `written` would have raised), and 97 of 100 meet all rules."""
    broken = {}
    for constraint, text, source in written():
        compile(text, "<grammar>", "exec", dont_inherit=True)
        found = violations(constraint, source, first=False)
        if found:
            broken[constraint.id] = [f"{violation.rule}: {violation.detail}" for violation in found]
    assert len(broken) <= 0.03 * len(written()), broken


def test_no_comments_no_docstrings_no_strings_that_pass_for_them() -> None:
    for _, text, source in written():
        for node in ast.walk(source.tree):
            assert not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)), text
        # A hash mark in a string is a separator, never a comment.
        assert ast.unparse(ast.parse(text)).count("#") == text.count("#")


def nesting(block: list[ast.stmt], text: list[str]) -> list[tuple[str, ...]]:
    """Chains of control structures, found by the words in the text and not by `synth.source`."""
    found: list[tuple[str, ...]] = []
    for node in block:
        if not isinstance(node, (ast.If, ast.For, ast.While)):
            continue
        word = text[node.lineno - 1].split()[0]
        kind = "if" if word in ("if", "elif") else word
        arms = [node.body]
        rest = node.orelse
        while rest and isinstance(node, ast.If) and text[rest[0].lineno - 1].split()[0] == "elif":
            kind = "if-elif"
            branch = rest[0]
            assert isinstance(branch, ast.If)
            arms.append(branch.body)
            rest = branch.orelse
        inner = [chain for arm in [*arms, rest] for chain in nesting(arm, text)]
        found += [(kind, *chain) for chain in inner] or [(kind,)]
    return found


def test_the_structure_is_the_one_asked_for() -> None:
    for constraint, text, source in written():
        lines = text.splitlines()
        chains = [
            chain
            for function in source.functions.values()
            for chain in nesting(function.body, lines)
        ]
        blueprint = constraint.structure.blueprint
        assert max(map(len, chains), default=0) == len(blueprint), f"{constraint.id}\n{text}"
        assert not blueprint or blueprint in chains
        assert len(source.functions) == (2 if constraint.structure.call_chain else 1)
        assert source.every_function == tuple(source.functions.values())
        if constraint.structure.call_chain:
            helper, entry = source.functions
            assert entry == source.entry
            assert f"{helper}(" in ast.unparse(source.functions[entry])


def test_arguments_are_values_of_their_own_canonical_text() -> None:
    kinds: Counter[str] = Counter()
    for _, text, source in written():
        assert not source.call.keywords
        assert len(source.call.args) == len(source.functions[source.entry].args.args) >= 1
        for argument in source.call.args:
            value = parse(ast.unparse(argument))
            assert parse(canonical(value)) == value, text
            kinds[type(value).__name__] += 1
    assert set(kinds) >= {"int", "float", "str", "bytes", "list", "tuple", "dict", "set", "bool"}


def test_programs_are_of_a_size_that_can_be_traced_by_hand() -> None:
    for constraint, text, _ in written():
        lines = [line for line in text.splitlines() if line.strip()]
        assert 4 <= len(lines) <= 50, f"{constraint.id}\n{text}"
        assert max(map(len, lines)) <= 400, text


def test_names_are_words_and_parameters_are_not_builtins() -> None:
    import builtins

    for _, text, source in written():
        for name in source.stored_names:
            assert name.isidentifier()
            assert name not in vars(builtins), f"{name}\n{text}"
            assert name not in source.imports
        assert source.entry == source.entry.lower()


# --- expressions that say nothing -------------------------------------------------------------


def operands(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Pairs that make an operation void if they are equal: `a - a`, `a < a`, `max(a, a)`, `a or a`."""
    if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Mult, ast.Pow)):
        yield node.left, node.right
    elif isinstance(node, ast.Compare):
        every = [node.left, *node.comparators]
        yield from itertools.pairwise(every)
    elif isinstance(node, ast.BoolOp):
        yield from itertools.pairwise(node.values)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("max", "min", "divmod") and len(node.args) == 2:
            yield node.args[0], node.args[1]
    elif isinstance(node, ast.IfExp):
        yield node.body, node.orelse
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        yield node.targets[0], node.value


def same(one: ast.expr, two: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(two)


def void(source: Source) -> list[str]:
    return [
        ast.unparse(node)
        for node in ast.walk(source.tree)
        if any(same(one, two) for one, two in operands(node))
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a - a", True), ("a - b", False), ("(a + 1) % (a + 1)", True), ("a + a", False), ("a * a", False),
        ("a // a", True), ("a ^ a", True), ("max(a, a)", True), ("max(a, b)", False), ("min(b[0], b[0])", True),
        ("max(a, a, b)", False), ("a < a", True), ("a < b", False), ("a == a", True), ("a < b <= b", True),
        ("a in a", True), ("a or a", True), ("a or b", False), ("a if b else a", True), ("len(a - a)", True),
        ("divmod(a, a)", True), ("sum([a - a for a in b])", True), ("a.max(b, b)", False),
    ],
)  # fmt: skip
def test_the_check_for_void_expressions_itself(text: str, found: bool) -> None:
    source = read(f"def f(a, b):\n    return {text}\n\nprint(f(1, 2))\n")
    assert bool(void(source)) is found


def test_few_programs_hold_an_expression_that_says_nothing() -> None:
    found = {c.id: texts for c, _, source in written() if (texts := void(source))}
    assert len(found) <= 0.05 * len(written()), found


# --- seeds ------------------------------------------------------------------------------------


def test_the_seed_alone_decides() -> None:
    grammar = provider("grammar")
    for index, constraint in enumerate(spread()[::8]):
        prompts = [program_prompt(constraint, id=id, seed=f"{index}") for id in ("a", "b")]
        texts = [done.text for done in grammar.complete(prompts)]
        assert texts[0] == texts[1] == completion(constraint, f"{index}")


def test_other_seeds_give_other_programs() -> None:
    for constraint in spread()[::16]:
        texts = [completion(constraint, f"seed {n}") for n in range(8)]
        assert len(set(texts)) >= 7, constraint.id
    texts = [completion(constraint, "one seed") for constraint in spread()[::4]]
    assert len(set(texts)) == len(texts)


def test_programs_hardly_ever_repeat() -> None:
    codes = [source.code for _, _, source in written()]
    assert len(set(codes)) >= 0.99 * len(codes)


TEXTS = """
import itertools, sys
sys.path.insert(0, "tests")
from generated import completion
from synth.constraints import enumerate_constraints, operations_of
every = enumerate_constraints(operations_of(), 5, 3)
for index, constraint in enumerate(itertools.islice(every, 60)):
    print(ascii(completion(constraint, f"3:{index}")))
"""


def test_a_fresh_process_under_another_hash_seed_writes_the_same() -> None:
    every = enumerate_constraints(operations_of(), MAX_DEPTH, 3)
    expected = [ascii(completion(next(every), f"3:{index}")) for index in range(60)]
    for hash_seed in ("1", "99"):
        done = subprocess.run(
            [sys.executable, "-c", TEXTS],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines() == expected


# ---------------------------------------------------------------------------------------------
# The provider's contract.


def prompts_for(count: int) -> list[Prompt]:
    return [
        program_prompt(constraint, id=f"id {index}", seed=f"seed {index}")
        for index, constraint in enumerate(constraints(count))
    ]


@pytest.mark.parametrize("name", OFFLINE)
def test_one_completion_per_prompt_in_order(name: str) -> None:
    made: Provider = provider(name)
    assert made.name == name
    prompts = prompts_for(12)
    for asked in ([], prompts[:1], prompts, prompts[::-1], [prompts[0]] * 3):
        answers = made.complete(asked)
        assert [answer.prompt_id for answer in answers] == [prompt.id for prompt in asked]
        assert {answer.provider for answer in answers} <= {name}
        alone = [made.complete([prompt])[0] for prompt in asked]
        assert alone == answers  # a prompt's answer does not depend on what else was asked
    assert provider(name).complete(prompts) == made.complete(prompts)


@pytest.mark.parametrize("name", OFFLINE)
def test_a_completion_is_one_fenced_block(name: str) -> None:
    for answer in provider(name).complete(prompts_for(20)):
        assert answer.text.startswith("```python\n")
        assert answer.text.endswith("\n```\n")
        assert answer.text.count("```") == 2


@pytest.mark.parametrize("extra", [rule.name for rule in RULES if rule.optional])
def test_optional_rules_are_refused_and_not_ignored(extra: str) -> None:
    constraint = constraints(1)[0]
    wanted = replace(constraint, structure=replace(constraint.structure, extras=(extra,)))
    with pytest.raises(ProviderError, match=extra):
        provider("grammar").complete([program_prompt(wanted, id="1", seed="1")])


def test_unknown_providers_are_named_with_what_is_known() -> None:
    with pytest.raises(ConfigError, match=r"'gramar'.*expected one of.*'grammar'"):
        provider("gramar")


# ---------------------------------------------------------------------------------------------
# The small language.


def small(count: int, language: Language = Language(), name: str = "small") -> list[Source]:  # noqa: B008
    return [read(write_small(language, rng(name, str(number)))) for number in range(count)]


SMALL_LINES = re.compile(
    r"def f\(a\):|    return [abcdst]|    if [abcd] < [2-8]:|    else:|    for i in \[[1-3](, [1-3]){1,2}\]:"
    r"|    (    )?[abcd] (=( [abcd] [+-])? [0-9]|[+-]= [1-4])|        [abcd] \+= i"
    r"|    [st] = '[pqr]{1,2}'|    [st] \+= '[pqr]'"
)


def test_small_programs_hold_nothing_but_their_language() -> None:
    kinds: Counter[str] = Counter()
    for source in small(600):
        lines = source.code.splitlines()
        assert len(lines) <= 1 + Language().max_lines
        for line in lines:
            assert SMALL_LINES.fullmatch(line), source.code
        assert source.args in map(str, range(10))
        assert max(map(len, source.nests), default=0) <= 1
        kinds.update(type(node).__name__ for node in ast.walk(source.tree))
    assert min(kinds[kind] for kind in ("If", "For", "AugAssign")) > 100


def test_small_programs_read_what_was_bound_before() -> None:
    """On every way through: a block only changes what there is already."""
    for source in small(300):
        known = {"a"}
        for node in source.functions["f"].body:
            if isinstance(node, ast.For):
                known.add("i")
            for name in ast.walk(node):
                if isinstance(name, ast.Name):
                    assert not isinstance(name.ctx, ast.Load) or name.id in known, source.code
            inner = [each for each in ast.walk(node) if isinstance(each, ast.Name)]
            bound = {name.id for name in inner if isinstance(name.ctx, ast.Store)}
            if isinstance(node, (ast.If, ast.For)):
                assert bound <= known, source.code
            known |= bound
            known -= {"i"}


def test_a_language_is_what_its_fields_say() -> None:
    names = Names({"int": ("x",)}, {"int": ("y",), "str": ("z",)}, {}, ("k",))
    language = Language(
        names=names, entry="g", kinds={"int": 1, "for": 1}, statements=(5,), max_lines=9,
        operators="*", operands=(7, 7), items=(5, 6), passes=(4,),
    )  # fmt: skip
    for source in small(60, language):
        found = {name.id for name in ast.walk(source.tree) if isinstance(name, ast.Name)}
        assert found <= {"x", "y", "k"}
        assert source.entry == "g"
        assert not any(isinstance(node, (ast.If, ast.Sub)) for node in ast.walk(source.tree))
        assert len(source.code.splitlines()) <= 10
        for node in ast.walk(source.tree):
            if isinstance(node, ast.List):
                assert [type(each) for each in node.elts] == [ast.Constant] * 4
            if isinstance(node, ast.BinOp):
                assert isinstance(node.op, ast.Mult)
                assert ast.unparse(node.right) == "7"


def test_the_seed_alone_decides_about_small_programs() -> None:
    codes = [source.code for source in small(200)]
    assert codes == [source.code for source in small(200)]
    assert len(set(codes)) >= 190
    assert codes != [source.code for source in small(200, name="other")]
