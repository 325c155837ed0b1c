"""What a program must contain: rules that are sentences for a model and checks for us, in one place.

Covers the fixed rules of every program, the structural rules of a level (paper, section on data
synthesis: nested calls, other methods, control-flow depth, call chain), the optional rules beyond the
paper, and the balanced enumeration of constraints. A rule is checked on the text (`violations`), or on
what happened when the program ran (`unmet`), or both. Does not find operations in a text (`sites.py`)
and does not run programs (`pipeline.py` gathers the `Evidence`).
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from rewards.values import ValueTextError, parse
from synth.catalogue import Catalogue, Operation, catalogue
from synth.errors import ConfigError, DataError
from synth.seeds import rng
from synth.sites import Site, find_sites
from synth.source import Source, control_chains, control_kind, elif_of, unread_names

MAX_DEPTH = 5
"""Deepest control-flow nest that can be asked for."""
CONTROL_KINDS = ("if", "if-elif", "for", "while")
LIBRARY_SHARE = 5
"""One constraint in this many is about the library family, the others about builtin types."""

_FORBIDDEN_NAMES = frozenset(
    {
        *(
            "breakpoint",
            "compile",
            "delattr",
            "dir",
            "eval",
            "exec",
            "exit",
            "getattr",
            "globals",
            "hasattr",
            "hash",
            "help",
            "id",
        ),
        *("input", "locals", "memoryview", "object", "open", "print", "quit", "setattr", "vars"),
        *("__import__", "__builtins__"),
    }
)

_CLOCK_REASONS = ("reads the clock", "depends on the local time zone")
_IMPURE_REASONS = (
    *_CLOCK_REASONS,
    *("non-deterministic", "input or output", "runs text as code", "reflection"),
    *("clears a cache", "changes or reads global state", "context with state"),
)
"""How the reasons begin for which an exclusion of the catalogue bars a name from programs, too. Most
exclusions do not: `math.pi` is no operation, and harmless."""


@dataclass(frozen=True)
class Structure:
    """The shape that a level asks of a program."""

    other_operations: bool
    """Methods and library functions besides the operation are wanted (True) or barred (False)."""
    blueprint: tuple[str, ...] = ()
    """Kinds of the control structures, each inside the one before; empty for straight-line code."""
    call_chain: bool = False
    """The entry calls a helper; otherwise there is one function."""
    extras: tuple[str, ...] = ()
    """Names of optional rules beyond the paper."""

    @property
    def depth(self) -> int:
        """Number of nested control structures."""
        return len(self.blueprint)

    def __str__(self) -> str:
        parts = ["nested"]
        if self.other_operations:
            parts.append("other")
        if self.blueprint:
            parts.append(">".join(self.blueprint))
        if self.call_chain:
            parts.append("chain")
        return "+".join((*parts, *self.extras))

    @classmethod
    def parse(cls, text: str) -> Structure:
        """The structure whose `str` is `text`, as rows store it. Raises `DataError` for another text."""
        parts = text.split("+")
        nests = [part for part in parts if set(part.split(">")) <= set(CONTROL_KINDS)]
        known = {rule.name for rule in RULES if rule.optional}
        found = cls(
            other_operations="other" in parts,
            blueprint=tuple(nests[0].split(">")) if nests else (),
            call_chain="chain" in parts,
            extras=tuple(part for part in parts if part in known),
        )
        if str(found) != text:
            raise DataError(
                f"structure {text!r}: expected a text such as 'nested+other+for>if+chain', with nests "
                f"of {', '.join(CONTROL_KINDS)} and the optional {', '.join(sorted(known))}"
            )
        return found


@dataclass(frozen=True)
class Constraint:
    """An operation to use and a structure to use it in."""

    operation: Operation
    level: int
    structure: Structure

    @property
    def id(self) -> str:
        """Stable text, for example `str.strip@4:nested+other+for>if`."""
        return f"{self.operation.id}@{self.level}:{self.structure}"

    @cached_property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that a program under this constraint must meet, in the order of checking."""
        return tuple(rule for rule in RULES if rule.applies(self))


@dataclass(frozen=True)
class Evidence:
    """What is known of a program after it ran on its input cases."""

    probes: frozenset[tuple[int, str]]
    """(site index, receiver's type name) of every site that was evaluated."""
    lines: frozenset[int]
    """Lines on which an executed statement starts."""
    statement_lines: frozenset[int]
    """Lines on which any statement of a function starts."""
    arms: frozenset[tuple[int, str]]
    """(line of an `if` or loop, "true" or "false"): how its condition went."""
    functions: frozenset[str]
    """Names of the functions that were entered."""
    outputs: frozenset[str]
    """Distinct outputs, as canonical text."""


Check = Callable[[Constraint, Source], "str | None"]
DynamicCheck = Callable[[Constraint, Source, Evidence], "str | None"]


@dataclass(frozen=True)
class Rule:
    """One requirement. `static` and `dynamic` return None if it is met, else what is wrong."""

    name: str
    sentence: Callable[[Constraint], str]
    applies: Callable[[Constraint], bool] = lambda constraint: True
    static: Check | None = None
    dynamic: DynamicCheck | None = None
    over_drawn: bool = False
    """The dynamic check may use every input that was drawn: four inputs cannot show every branch."""
    optional: bool = False


@dataclass(frozen=True)
class Violation:
    """A rule that a program breaks, and how."""

    rule: str
    detail: str


def violations(constraint: Constraint, source: Source, *, first: bool = True) -> list[Violation]:
    """Rules that the text breaks; with `first`, at most one."""
    found: list[Violation] = []
    for rule in constraint.rules:
        detail = rule.static(constraint, source) if rule.static else None
        if detail is not None:
            found.append(Violation(rule.name, detail))
            if first:
                break
    return found


def unmet(
    constraint: Constraint, source: Source, kept: Evidence, drawn: Evidence | None = None
) -> list[Violation]:
    """Rules that the executions do not bear out.

    `kept` is what the inputs show that become rows; a rule about all that a program can do may also be
    shown by the inputs that were `drawn` and not kept.
    """
    found: list[Violation] = []
    for rule in constraint.rules:
        evidence = drawn if rule.over_drawn and drawn is not None else kept
        detail = rule.dynamic(constraint, source, evidence) if rule.dynamic else None
        if detail is not None:
            found.append(Violation(rule.name, detail))
    return found


# --- fixed rules ------------------------------------------------------------------------------


def _no_comments(_: Constraint, source: Source) -> str | None:
    import io
    import tokenize

    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source.code).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        return str(error)
    comment = next((t for t in tokens if t.type == tokenize.COMMENT), None)
    if comment is not None:
        return f"comment on line {comment.start[0]}"
    for function in ast.walk(source.tree):
        if isinstance(function, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(function):
            return f"docstring in {function.name}"
    return None


def _pure_names(_: Constraint, source: Source) -> str | None:
    allowed = set(catalogue().owners("library")) | {
        op.owner.partition(".")[0] for op in catalogue().operations if op.family == "library"
    }
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Name) and node.id in _FORBIDDEN_NAMES:
            return f"{node.id} on line {node.lineno}"
        if isinstance(node, (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)):
            return f"async on line {node.lineno}"
        if isinstance(node, ast.Attribute) and node.attr.startswith("__"):
            return f"{node.attr} on line {node.lineno}"
        # Each statement, not `source.imports`: a second import of a name does not undo the first.
        for target in _imported(node):
            if target.partition(".")[0] not in allowed or target.endswith(".*"):
                return f"import of {target}"
    excluded = {e.id for e in catalogue().exclusions if e.reason.startswith(_IMPURE_REASONS)}
    # A clock is also reached from a value: `datetime.date(2024, 1, 1).today()`.
    clock = {e.name for e in catalogue().exclusions if e.reason in _CLOCK_REASONS}
    for node in ast.walk(source.tree):
        if isinstance(node, (ast.Name, ast.Attribute)):
            name = _through_imports(source, node)
            if name in excluded or (isinstance(node, ast.Attribute) and node.attr in clock):
                return f"{name or ast.unparse(node)} on line {node.lineno}"
    return None


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names]
    return []


def _through_imports(source: Source, node: ast.expr) -> str | None:
    """The dotted name as written, its first part looked up among the imports even if shadowed."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.insert(0, node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join((source.imports.get(node.id, node.id), *parts))


def _module_level(_: Constraint, source: Source) -> str | None:
    for node in source.tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            return f"{type(node).__name__} at module level on line {node.lineno}"
    if source.entry not in source.functions:
        return f"the printed call names {source.entry}, which is not a function of the program"
    return None


def _entry_once(_: Constraint, source: Source) -> str | None:
    # Calls inside the entry are recursion, an optional rule of its own; others would be extra runs.
    for name, function in source.functions.items():
        if name != source.entry and any(
            isinstance(node, ast.Name) and node.id == source.entry for node in ast.walk(function)
        ):
            return f"{name} refers to the entry {source.entry}"
    return None


def _parameters(_: Constraint, source: Source) -> str | None:
    for function in source.every_function:
        a = function.args
        if a.defaults or any(d is not None for d in a.kw_defaults):
            return f"{function.name} has a default parameter value"
        if not (a.posonlyargs or a.args or a.kwonlyargs) or a.vararg or a.kwarg:
            return f"{function.name} needs at least one parameter, and no * or **"
    return None


def _literal_arguments(_: Constraint, source: Source) -> str | None:
    for value in [*source.call.args, *(word.value for word in source.call.keywords)]:
        try:
            parse(ast.unparse(value))
        except ValueTextError as error:
            return f"argument {ast.unparse(value)[:60]}: {error}"
    if not source.call.args and not source.call.keywords:
        return "the entry is called without an argument"
    return None


def _no_unused(_: Constraint, source: Source) -> str | None:
    for function in source.functions.values():
        unread = unread_names(function)
        if unread:
            return f"{unread[0]} in {function.name} is never read, or only to update itself"
    return None


# --- structural rules -------------------------------------------------------------------------


def nested_site(operation: Operation, site: Site) -> bool:
    """Whether a site meets the nesting rule.

    An operation with a value stands inside two calls, one around the other; one that returns None has
    a receiver or an argument that is itself built by a call within a call.
    """
    if operation.returns_none:
        return site.inner_calls >= 2
    return site.enclosing_calls >= 2


def _nested_calls(constraint: Constraint, source: Source) -> str | None:
    sites = find_sites(source, constraint.operation)
    if len(sites) < 2:
        return f"{constraint.operation.form} occurs {len(sites)} times, at least 2 wanted"
    if not any(nested_site(constraint.operation, site) for site in sites):
        return f"no nested use of {constraint.operation.form}"
    return None


def _operation_runs(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    operation = constraint.operation
    owner = operation.owner.rpartition(".")[2]
    typed = operation.kind in ("method", "operator", "subscript")
    confirmed = {site for site, name in evidence.probes if not typed or name == owner}
    if len(confirmed) < 2:
        return f"{operation.id} ran at {len(confirmed)} sites, at least 2 wanted"
    sites = find_sites(source, operation)
    if not any(nested_site(operation, s) for s in sites if s.index in confirmed):
        return f"the nested use of {operation.id} never ran on {owner}"
    return None


def other_operations(constraint: Constraint, source: Source) -> list[str]:
    """Methods and library functions that the program calls besides the constraint's operation."""
    own_sites = {operation_name(constraint.operation)}
    module = constraint.operation.module
    found: list[str] = []
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        target = source.resolve(node.func)
        if target is not None and "." in target:
            # Its own module is part of using an operation: a pattern must be compiled, a date made.
            if target.partition(".")[0] != module and target not in own_sites:
                found.append(target)
        elif isinstance(node.func, ast.Attribute) and node.func.attr not in own_sites:
            found.append(node.func.attr)
    return found


def operation_name(operation: Operation) -> str:
    """How the operation is named where it is called: `strip`, `math.gcd`, `dict.fromkeys`."""
    if operation.kind == "method":
        return operation.name
    return operation.id


def _other_operations(constraint: Constraint, source: Source) -> str | None:
    others = other_operations(constraint, source)
    if constraint.structure.other_operations:
        return None if others else "no other method or library function is used"
    return f"{others[0]} is used besides the operation" if others else None


def _blueprint(constraint: Constraint, source: Source) -> str | None:
    wanted = constraint.structure.blueprint
    depth = max((len(chain) for chain in source.nests), default=0)
    if depth != len(wanted):
        return f"control structures are nested {depth} deep, {len(wanted)} wanted"
    if wanted and wanted not in source.nests:
        return f"no nest {' > '.join(wanted)}"
    return None


def innermost(constraint: Constraint, source: Source) -> list[ast.stmt]:
    """The innermost structures of the chains that follow the blueprint."""
    wanted = constraint.structure.blueprint
    return [
        node
        for function in source.every_function
        for chain, node in control_chains(function)
        if chain == wanted and isinstance(node, ast.stmt)
    ]


def _innermost_entered(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    if not constraint.structure.blueprint:
        return None
    for node in innermost(constraint, source):
        body: list[ast.stmt] = node.body  # type: ignore[attr-defined]
        if body[0].lineno in evidence.lines:
            return None
    return "no input enters the innermost block"


def _call_chain(constraint: Constraint, source: Source) -> str | None:
    names = list(source.functions)
    if not constraint.structure.call_chain:
        return f"{len(names)} functions, one wanted" if len(names) != 1 else None
    if len(names) != 2:
        return f"{len(names)} functions, two wanted"
    helper = next(name for name in names if name != source.entry)
    called = any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == helper
        for node in ast.walk(source.functions[source.entry])
    )
    return None if called else f"{source.entry} never calls {helper}"


def _helper_runs(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    missing = sorted(set(source.functions) - evidence.functions)
    return f"{missing[0]} is never entered" if missing else None


def _no_dead_code(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    dead = sorted(evidence.statement_lines - evidence.lines)
    return f"line {dead[0]} is never executed" if dead else None


def _both_ways(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.If):
            for arm in ("true", "false"):
                if node.lineno in evidence.lines and (node.lineno, arm) not in evidence.arms:
                    return f"the condition on line {node.lineno} is never {arm}"
    return None


def _varies(constraint: Constraint, source: Source, evidence: Evidence) -> str | None:
    return "every input gives the same output" if len(evidence.outputs) < 2 else None


# --- optional rules ---------------------------------------------------------------------------


def _raises(_: Constraint, source: Source) -> str | None:
    nodes = list(ast.walk(source.tree))
    raised = any(isinstance(node, ast.Raise) for node in nodes)
    caught = any(isinstance(node, ast.ExceptHandler) and node.type for node in nodes)
    return None if raised and caught else "no exception is both raised and caught"


def _recursion(_: Constraint, source: Source) -> str | None:
    for name, function in source.functions.items():
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == name
            ):
                return None
    return "no function calls itself"


def _closure(_: Constraint, source: Source) -> str | None:
    import symtable

    waiting = symtable.symtable(source.code, "<program>", "exec").get_children()
    inner = {function.name for function in source.every_function} - set(source.functions)
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        if isinstance(table, symtable.Function) and table.get_name() in inner:
            # Functions are no variables here: an inner function that calls itself is no closure.
            free = set(table.get_frees()) - inner - {"__class__"}
            if free:
                return None
    return "no inner function uses a variable of the function around it"


def _has_node(*kinds: type[ast.AST], wanted: str) -> Check:
    def check(_: Constraint, source: Source) -> str | None:
        found = any(isinstance(node, kinds) for node in ast.walk(source.tree))
        return None if found else wanted

    return check


def _class(_: Constraint, source: Source) -> str | None:
    names = {node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
            return None
    return "no class is defined and called"


def _deep_comprehension(_: Constraint, source: Source) -> str | None:
    kinds = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    for node in ast.walk(source.tree):
        if isinstance(node, kinds):
            nested = any(isinstance(n, kinds) for n in ast.walk(node) if n is not node)
            if nested or len(node.generators) > 1:
                return None
    return "no comprehension of depth two"


def _chained(constraint: Constraint) -> bool:
    return constraint.structure.call_chain


def _extra(name: str) -> Callable[[Constraint], bool]:
    return lambda constraint: name in constraint.structure.extras


def _blueprint_sentence(constraint: Constraint) -> str:
    blueprint = constraint.structure.blueprint
    if not blueprint:
        return "Use no if, for or while statement."
    words = {"if": "an if", "if-elif": "an if-elif", "for": "a for loop", "while": "a while loop"}
    nest = ", which holds ".join(words[kind] for kind in blueprint)
    return (
        f"Nest control structures exactly {len(blueprint)} deep, in this order from outside in: {nest}; "
        "put no other structure deeper than that."
    )


def _nested_sentence(constraint: Constraint) -> str:
    operation = constraint.operation
    if operation.returns_none:
        return (
            f"Use `{operation.form}` ({operation.id}) at least twice; once, build its receiver or an "
            "argument by a call inside another call."
        )
    return (
        f"Use `{operation.form}` ({operation.id}) at least twice; once as the argument or receiver of a "
        "call that is itself the argument or receiver of another call."
    )


def _other_sentence(constraint: Constraint) -> str:
    if constraint.structure.other_operations:
        return "Use at least one other method or library function as well."
    return (
        "Use no other method and no function of another library module; builtin functions and operators "
        "are fine."
    )


def _chain_sentence(constraint: Constraint) -> str:
    if constraint.structure.call_chain:
        return "Write exactly two functions; the entry function calls the other one."
    return "Write exactly one function."


def _say(text: str) -> Callable[[Constraint], str]:
    return lambda constraint: text


RULES: tuple[Rule, ...] = (
    Rule("module_level", _say("At module level stand only imports and functions, and as the last line one "
         "print of one call of the entry function."), static=_module_level),
    Rule("no_comments", _say("Write no comments and no docstrings."), static=_no_comments),
    Rule("pure", _say("Be deterministic: no input, output, clock, randomness, hash, id or reflection; import "
         "only from collections, itertools, functools, math, re, heapq, bisect, string, textwrap, "
         "statistics, fractions, decimal, datetime, json and operator."), static=_pure_names),
    Rule("entry_once", _say("The entry function is called once, by that print."), static=_entry_once),
    Rule("parameters", _say("Every function has at least one parameter and no default values."),
         static=_parameters),
    Rule("literal_arguments", _say("The arguments of the call are literals."), static=_literal_arguments),
    Rule("no_unused", _say("Every parameter and variable is read for something else than its own update."),
         static=_no_unused),
    Rule("nested_calls", _nested_sentence, static=_nested_calls, dynamic=_operation_runs),
    Rule("other_operations", _other_sentence, static=_other_operations),
    Rule("control_flow", _blueprint_sentence, static=_blueprint, dynamic=_innermost_entered),
    Rule("call_chain", _chain_sentence, static=_call_chain, dynamic=_helper_runs),
    Rule("no_dead_code", _say("Some input reaches every statement."), dynamic=_no_dead_code,
         over_drawn=True),
    Rule("both_ways", _say("Every condition holds for some inputs and fails for others."),
         dynamic=_both_ways, over_drawn=True),
    Rule("varies", _say("The result depends on the arguments."), dynamic=_varies),
    Rule("exceptions", _say("Raise an exception and catch it by its type."), _extra("exceptions"), _raises,
         optional=True),
    Rule("recursion", _say("Let a function call itself."), _extra("recursion"), _recursion, optional=True),
    Rule("closures", _say("Use an inner function that reads a variable of the function around it."),
         _extra("closures"), _closure, optional=True),
    Rule("generators", _say("Write a generator function."), _extra("generators"),
         _has_node(ast.Yield, ast.YieldFrom, wanted="no yield"), optional=True),
    Rule("classes", _say("Define a class and use an instance of it."), _extra("classes"),
         _class, optional=True),
    Rule("comprehensions", _say("Use a comprehension of depth two."), _extra("comprehensions"),
         _deep_comprehension, optional=True),
)  # fmt: skip
"""Every rule, in the order of checking: cheap and common failures first."""


# --- levels and enumeration -------------------------------------------------------------------


def levels(depth: int) -> tuple[int, ...]:
    """The levels that `--depth` gives: 1, 2, one per control-flow depth, and the call chain.

    Raises `ConfigError` unless 0 <= depth <= 5. Depth 3 gives the paper's six.
    """
    if not 0 <= depth <= MAX_DEPTH:
        raise ConfigError(
            f"--depth is {depth}; expected a whole number from 0 to {MAX_DEPTH} "
            "(how deep control structures nest at the highest level; the paper uses 3)"
        )
    return tuple(range(1, 3 if depth == 0 else depth + 4))


def level_sentence(level: int, depth: int) -> str:
    """What a level asks for, in words."""
    if level == 1:
        return "nested calls of one operation"
    if level == 2:
        return "nested calls with other operations"
    if level == depth + 3:
        return f"control flow nested {depth} deep, and a call chain of two functions"
    return f"control flow nested {level - 2} deep"


def structure(level: int, depth: int, blueprint: tuple[str, ...] = ()) -> Structure:
    """The structure of a level; `blueprint` must be as deep as the level says."""
    chain = depth > 0 and level == depth + 3
    return Structure(other_operations=level >= 2, blueprint=blueprint, call_chain=chain)


def level_depth(level: int, depth: int) -> int:
    """Control-flow depth of a level: 0 for 1 and 2, at most `depth`."""
    return min(max(level - 2, 0), depth)


def enumerate_constraints(
    operations: Sequence[Operation], depth: int, seed: int, wanted: Sequence[int] | None = None
) -> Iterator[Constraint]:
    """An endless balanced sequence: any prefix covers levels and operations evenly.

    `wanted` limits the levels. The family of builtin types gets four constraints of five, since the
    paper's data is about those; within a family every operation comes once before any comes again.
    Raises `ConfigError` for an unknown level or an empty set of operations.
    """
    known = levels(depth)
    chosen = tuple(wanted) if wanted else known
    strange = [level for level in chosen if level not in known]
    if strange:
        raise ConfigError(
            f"level {strange[0]} does not exist at --depth {depth}; levels are {known}"
        )
    families = [[op for op in operations if op.family == name] for name in ("builtin", "library")]
    builtin, library = (_rounds(ops, f"{seed}:{i}") for i, ops in enumerate(families))
    blueprints = {
        level: _blueprints(level_depth(level, depth), f"{seed}:{level}") for level in chosen
    }
    if not operations:
        raise ConfigError("no operation is left to choose from; see `synth constraints`")
    for index in itertools.count():
        level = chosen[index % len(chosen)]
        # A cycle's last member is the library's; offset by the level so that no level monopolises it.
        from_library = (index + index // LIBRARY_SHARE // len(chosen)) % LIBRARY_SHARE == 0
        pool = library if families[1] and (from_library or not families[0]) else builtin
        operation = next(pool)
        yield Constraint(operation, level, structure(level, depth, next(blueprints[level])))


def _rounds(operations: Sequence[Operation], seed: str) -> Iterator[Operation]:
    """Every operation once in a shuffled order, then again in another."""
    for turn in itertools.count():
        order = list(operations)
        if not order:
            return
        rng("operations", seed, str(turn)).shuffle(order)
        yield from order


def _blueprints(depth: int, seed: str) -> Iterator[tuple[str, ...]]:
    """All nests of a depth, in shuffled rounds."""
    every = list(itertools.product(CONTROL_KINDS, repeat=depth))
    for turn in itertools.count():
        order = list(every)
        rng("blueprints", seed, str(turn)).shuffle(order)
        yield from order


def operations_of(types: Sequence[str] | None = None) -> tuple[Operation, ...]:
    """Operations of the named owners (all without names). Raises `UsageError` for an unknown owner."""
    found: Catalogue = catalogue()
    return tuple(found.select(types))


__all__ = [
    "CONTROL_KINDS",
    "MAX_DEPTH",
    "RULES",
    "Constraint",
    "Evidence",
    "Rule",
    "Structure",
    "Violation",
    "control_kind",
    "elif_of",
    "enumerate_constraints",
    "innermost",
    "level_depth",
    "level_sentence",
    "levels",
    "nested_site",
    "operations_of",
    "other_operations",
    "structure",
    "unmet",
    "violations",
]
