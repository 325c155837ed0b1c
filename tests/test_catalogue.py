"""Laws of `synth.catalogue` and `synth.stubs`: complete, disjoint, true of the interpreter.

Not covered: whether a generated program can use an operation (tests of the providers).
"""

from __future__ import annotations

import ast
import builtins
import fnmatch
import hashlib
import importlib
import inspect
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.catalogue import (
    BUILTIN_TYPES,
    LIBRARY_MODULES,
    Catalogue,
    Operation,
    Signature,
    catalogue,
)
from synth.catalogue.exclusions import EXCLUDED as PATTERNS
from synth.catalogue.exclusions import SPECIAL
from synth.errors import UsageError
from synth.stubs import TypeTerm, parse_term, union

ALL = catalogue()
IDS = {o.id for o in ALL.operations}
EXCLUDED = {e.id: e.reason for e in ALL.exclusions}


def owner_classes() -> Iterator[tuple[str, type]]:
    """The classes of the catalogue under their names in it."""
    for cls in BUILTIN_TYPES:
        yield cls.__name__, cls
    for owner in ALL.owners("library"):
        if "." in owner:
            home, _, name = owner.rpartition(".")
            yield owner, getattr(importlib.import_module(home), name)


def texts(id: str) -> list[str]:
    return [str(s) for s in ALL.get(id).signatures]


# -- completeness ---------------------------------------------------------------------------------


def test_counts() -> None:
    families = Counter(o.family for o in ALL.operations)
    assert families["builtin"] >= 300
    assert families["library"] >= 150
    assert set(ALL.owners("builtin")) == {"builtins", *(t.__name__ for t in BUILTIN_TYPES)}
    assert {o.split(".")[0] for o in ALL.owners("library")} == set(LIBRARY_MODULES)


def test_ids_are_unique_and_never_on_both_sides() -> None:
    assert len(IDS) == len(ALL.operations)
    assert len(EXCLUDED) == len(ALL.exclusions)
    assert not IDS & EXCLUDED.keys()
    assert all(reason.strip() for reason in EXCLUDED.values())


@pytest.mark.parametrize(("owner", "cls"), list(owner_classes()), ids=lambda v: str(v))
def test_every_public_method_is_an_operation_or_excluded(owner: str, cls: type) -> None:
    for name in dir(cls):
        if not name.startswith("_"):
            assert (f"{owner}.{name}" in IDS) != (f"{owner}.{name}" in EXCLUDED), name


@pytest.mark.parametrize(("owner", "cls"), list(owner_classes()), ids=lambda v: str(v))
def test_every_operator_method_is_an_operation_or_excluded(owner: str, cls: type) -> None:
    listed = {i.split("[")[0] for i in IDS | EXCLUDED.keys()}
    for name in dir(cls):
        inherited = getattr(cls, name) is getattr(object, name, None)
        own = inspect.getattr_static(cls, name) is not inspect.getattr_static(object, name, None)
        if name in SPECIAL and own and not inherited:
            assert f"{owner}.{name}" in listed, name


@pytest.mark.parametrize("name", ["builtins", *LIBRARY_MODULES])
def test_every_public_name_of_a_module_is_an_operation_or_excluded(name: str) -> None:
    source = importlib.import_module(name)
    public = getattr(source, "__all__", [n for n in dir(source) if not n.startswith("_")])
    for label in public:
        assert (f"{name}.{label}" in IDS) != (f"{name}.{label}" in EXCLUDED), label


def test_every_exclusion_pattern_excludes_something() -> None:
    later = {"statistics.kde_random"}  # from Python 3.13 on
    public = {f"{m}.{n}" for m in LIBRARY_MODULES for n in dir(importlib.import_module(m))}
    for pattern, reason in PATTERNS:
        hits = fnmatch.filter(EXCLUDED, pattern)
        if pattern in later and pattern not in public:
            continue
        assert hits, f"{pattern} excludes nothing"
        assert any(EXCLUDED[hit] == reason for hit in hits), pattern


# -- exclusions -----------------------------------------------------------------------------------


def test_ge03_hash_is_excluded_as_non_deterministic() -> None:
    # report GE-03: a generated program used hash(s) of a string as a bucket number
    assert "builtins.hash" not in IDS
    assert "non-deterministic" in EXCLUDED["builtins.hash"]
    with pytest.raises(UsageError, match="non-deterministic"):
        ALL.get("builtins.hash")


@pytest.mark.parametrize(
    "id",
    [
        *("builtins.id", "builtins.open", "builtins.input", "builtins.print", "builtins.exec"),
        *("builtins.eval", "builtins.compile", "builtins.__import__", "builtins.breakpoint"),
        *("builtins.globals", "builtins.help", "builtins.exit", "builtins.super", "builtins.aiter"),
        *("datetime.datetime.now", "datetime.date.today", "datetime.datetime.timestamp"),
        *("itertools.count", "itertools.cycle", "json.dump", "json.load", "functools.lru_cache"),
        *("statistics.NormalDist.samples", "decimal.getcontext", "set.pop", "random.random"),
    ],
)
def test_unsafe_and_non_deterministic_things_are_no_operations(id: str) -> None:
    assert id not in IDS
    with pytest.raises(UsageError):
        ALL.get(id)


def test_what_may_never_end_is_left_out_of_the_overloads() -> None:
    assert texts("itertools.repeat") == ["(object: var:_T, times: int) -> iterator[var:_T]"]
    assert all(len(s.params) == 1 for s in ALL.get("builtins.iter").signatures)
    assert all(len(s.params) == 1 for s in ALL.get("builtins.type").signatures)


def test_bool_lists_only_what_it_defines_itself() -> None:
    own = {o.name for o in ALL.select(["bool"])}
    assert {"__and__", "__or__", "__xor__"} <= own <= set(bool.__dict__)
    assert EXCLUDED["bool.bit_length"] == "inherited from int, listed there"


def test_comparisons_that_the_interpreter_refuses_are_excluded() -> None:
    for cls, value in ((complex, 1j), (dict, {}), (range, range(1))):
        with pytest.raises(TypeError):
            value < value  # type: ignore[operator]  # noqa: B015
        assert f"{cls.__name__}.__lt__" in EXCLUDED


# -- forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ALL.owners())
def test_the_form_parses_as_what_it_says(owner: str) -> None:
    for operation in ALL.operations:
        if operation.owner == owner:
            check_form(operation)


def check_form(operation: Operation) -> None:
    (statement,) = ast.parse(operation.form).body
    assert isinstance(statement, ast.Expr) != operation.is_statement
    kinds = {type(node).__name__ for node in ast.walk(statement)}
    if operation.kind in ("operator", "subscript"):
        assert operation.node in kinds
        assert operation.symbol
    else:
        assert "Call" in kinds
        assert not operation.symbol
        assert not operation.node
    placeholders = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and len(n.id) == 1}
    assert operation.arity == len(placeholders)


@pytest.mark.parametrize(
    "operation",
    [o for o in ALL.operations if o.kind in ("operator", "subscript")],
    ids=lambda o: o.id,
)
def test_the_form_calls_the_special_method_it_is_named_for(operation: Operation) -> None:
    name = operation.name.split("[")[0]
    calls: list[object] = []

    def record(self: object, *args: object) -> object:
        calls.append(args)
        return {"__len__": 0, "__bool__": False}.get(name, self)

    x = type("Recorder", (), {name: record, "__hash__": None})()
    values: dict[str, object] = {"x": x, **dict.fromkeys("yijkv", 1)}
    exec(compile(operation.form, "<form>", "exec"), {}, values)
    assert len(calls) == 1
    is_slice = any(isinstance(a, slice) for a in calls[0])  # type: ignore[attr-defined]
    assert is_slice == (operation.symbol.count(":") > 0)


# -- signatures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "expected"),
    [
        ("str.split", "(self: str, sep: union[str, None] = …, maxsplit: int = …) -> list[str]"),
        (
            "dict.get",
            "(self: dict[var:_KT, var:_VT], key: var:_KT, default: var:_VT) -> var:_VT",
        ),
        ("list.__getitem__[slice]", "(self: list[var:_T], s: slice) -> list[var:_T]"),
        ("list.__getitem__[index]", "(self: list[var:_T], i: int) -> var:_T"),
        ("str.__getitem__[index]", "(self: str, key: int) -> str"),
        ("dict.__setitem__[key]", "(self: dict[var:_KT, var:_VT], key: var:_KT, value: var:_VT)"),
        ("math.gcd", "(*integers: int) -> int"),
        ("builtins.sorted", "(iterable: iterable[var:_T], *, key: callable[var:_T, comparable],"),
        ("builtins.round", "(x: float, y: int) -> float"),
        ("builtins.enumerate", "-> iterator[tuple[int, var:_T]]"),
        ("builtins.dict", "(iterable: iterable[tuple[var:_KT, var:_VT]]) -> dict["),
        ("dict.items", "-> set_like[tuple[var:_KT, var:_VT]]"),
        ("dict.update", "(self: dict[var:_KT, var:_VT], m: mapping[var:_KT, var:_VT]"),
        ("collections.Counter.most_common", "-> list[tuple[var:_T, int]]"),
        ("collections.ChainMap.items", "-> set_like[tuple[var:_KT, var:_VT]]"),
        ("itertools.permutations", "-> iterator[tuple[var:_T, ...]]"),
        ("re.Pattern.findall", "(self: re.Pattern[str], string: str, pos: int = …"),
        ("fractions.Fraction.limit_denominator", "-> fractions.Fraction"),
        ("datetime.date.isoformat", "(self: datetime.date) -> str"),
        ("operator.truediv", "(x: int, y: int) -> float"),
    ],
)
def test_signatures_say_what_the_stubs_say(id: str, expected: str) -> None:
    assert any(expected in text for text in texts(id)), texts(id)


def test_every_type_of_the_stubs_has_a_place_in_the_vocabulary() -> None:
    assert sum(count for _, count in ALL.unmapped) <= 5, ALL.unmapped


def test_only_words_of_the_vocabulary_are_used() -> None:
    words = {t.name for o in ALL.operations for s in o.signatures for t in s.terms()}
    words = {w for w in words if not w.startswith("var:")}
    classes = {owner for owner, _ in owner_classes()} | {"functools.partial", "operator.itemgetter"}
    vocabulary = (
        "any None ... object slice iterable iterator sequence mapping set_like callable union "
        "comparable hashable type exception never file"
    )
    assert words <= classes | set(vocabulary.split()), words - classes


def callables() -> Iterator[tuple[Operation, inspect.Signature]]:
    """Operations written as calls, with the interpreter's own signature where it has one."""
    classes = dict(owner_classes())
    for operation in ALL.operations:
        if operation.kind in ("operator", "subscript"):
            continue
        home = classes.get(operation.owner)
        home = home if home is not None else importlib.import_module(operation.owner)  # type: ignore[assignment]
        try:
            yield operation, inspect.signature(getattr(home, operation.name))
        except ValueError:
            continue  # written in C without a text signature


def test_the_interpreter_takes_what_a_signature_requires() -> None:
    checked = list(callables())
    assert len(checked) > 300
    for operation, own in checked:
        assert any(fits(s, own) for s in operation.signatures), f"{operation.id} against {own}"


def fits(signature: Signature, own: inspect.Signature) -> bool:
    """Whether the interpreter's signature takes the required arguments of ours."""
    positional = [1 for p in signature.required if p.kind == "positional"]
    receiver = [1] if signature.receiver is not None else []
    named = {p.name: 1 for p in signature.required if p.kind == "keyword"}
    try:
        own.bind(*receiver, *positional, **named)
    except TypeError:
        return False
    return True


def test_bounds_name_variables_that_occur() -> None:
    for operation in ALL.operations:
        for signature in operation.signatures:
            used = {t.name for t in signature.terms()}
            assert all(f"var:{name}" in used for name, _ in signature.bounds), operation.id
    (plain, _) = ALL.get("builtins.sorted").signatures
    assert plain.bounds == (("SupportsRichComparisonT", TypeTerm("comparable")),)


# -- effects --------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", ["list", "dict", "set", "collections.deque"])
def test_what_gives_nothing_changes_something(owner: str) -> None:
    for operation in ALL.select([owner]):
        if operation.returns_none:
            assert operation.mutates, operation.id


def test_values_that_can_be_hashed_are_never_changed() -> None:
    for owner, cls in owner_classes():
        if cls.__hash__ is not None:
            assert not any(o.mutates for o in ALL.operations if o.owner == owner), owner


def test_effects_found_by_trying() -> None:
    changing = {o.id for o in ALL.operations if o.mutates}
    assert {"list.pop", "dict.setdefault", "dict.popitem", "collections.deque.popleft"} <= changing
    assert {"heapq.heappop", "bisect.insort", "operator.setitem", "operator.iadd"} <= changing
    assert not {"list.copy", "list.count", "dict.get", "set.union", "builtins.sorted"} & changing
    assert not {"heapq.nlargest", "bisect.bisect", "operator.add", "builtins.sum"} & changing


# -- choosing -------------------------------------------------------------------------------------


def test_select_by_type_module_short_name_and_family() -> None:
    assert {o.owner for o in ALL.select(["str", "dict"])} == {"str", "dict"}
    assert "collections.deque" in {o.owner for o in ALL.select(["collections"])}
    assert ALL.select(["Counter"]) == ALL.select(["collections.Counter"])
    assert {o.family for o in ALL.select(families=["library"])} == {"library"}
    assert ALL.select() == ALL.operations
    assert ALL.select([]) == ()


@given(st.lists(st.sampled_from(ALL.owners()), unique=True))
def test_select_keeps_the_order_of_the_catalogue(owners: list[str]) -> None:
    chosen = ALL.select(owners)
    ids = {o.id for o in chosen}
    assert list(chosen) == [o for o in ALL.operations if o.id in ids]
    assert set(owners) <= {o.owner for o in chosen}


def test_unknown_names_are_refused_with_the_closest() -> None:
    with pytest.raises(UsageError, match=r"did you mean .*'str'"):
        ALL.select(["strr"])
    with pytest.raises(UsageError, match="unknown family"):
        ALL.select(families=["builtins"])  # type: ignore[list-item]
    with pytest.raises(UsageError, match=r"did you mean 'str\.strip'"):
        ALL.get("str.stripp")


def test_order_is_family_owner_name() -> None:
    owners = ALL.owners()
    keys = [(owners.index(o.owner), o.name) for o in ALL.operations]
    assert keys == sorted(keys)
    assert owners[: len(BUILTIN_TYPES)] == tuple(t.__name__ for t in BUILTIN_TYPES)
    tops = dict.fromkeys(o.split(".")[0] for o in ALL.owners("library"))
    assert tuple(tops) == LIBRARY_MODULES


def digest(found: Catalogue) -> str:
    return hashlib.sha256(repr([(o, o.signatures) for o in found.operations]).encode()).hexdigest()


def test_the_catalogue_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "import hashlib; from synth.catalogue import catalogue\n"
        "ops = [(o, o.signatures) for o in catalogue().operations]\n"
        "print(hashlib.sha256(repr(ops).encode()).hexdigest())"
    )
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        run = subprocess.run(
            [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert run.stdout.strip() == digest(ALL)


# -- terms ----------------------------------------------------------------------------------------

TERMS = st.recursive(
    st.sampled_from(["int", "str", "None", "any", "collections.Counter"]).map(TypeTerm),
    lambda inner: st.one_of(
        st.builds(lambda a: TypeTerm("list", (a,)), inner),
        st.builds(lambda a: TypeTerm("tuple", (a, TypeTerm("..."))), inner),
        st.builds(lambda a, b: TypeTerm("dict", (a, b)), inner, inner),
        st.lists(inner, min_size=1, max_size=3).map(union),
    ),
    max_leaves=8,
)


@given(TERMS)
def test_terms_are_read_back_from_their_text(term: TypeTerm) -> None:
    assert parse_term(str(term)) == term


@given(st.lists(TERMS, min_size=1, max_size=4))
def test_a_union_is_flat_and_without_repetition(terms: list[TypeTerm]) -> None:
    joined = union(terms)
    assert union([joined, *terms]) == joined
    if joined.name == "union":
        assert len(set(joined.args)) == len(joined.args) > 1
        assert all(arg.name not in ("union", "any") for arg in joined.args)


def test_every_builtin_function_is_accounted_for() -> None:
    for name in dir(builtins):
        if not name.startswith("_"):
            assert (f"builtins.{name}" in IDS) != (f"builtins.{name}" in EXCLUDED), name
