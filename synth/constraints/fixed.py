"""The fixed rules: what every program must be, whatever it is asked to contain.

Covers the layout of the text, purity (names, imports, the clock), parameters and arguments, and unused
names. All of it is checked on the text alone; that a program does the same in every process is found
by running it (`pipeline.py`).
"""

from __future__ import annotations

import ast
import io
import tokenize

from rewards.values import ValueTextError, parse
from synth.catalogue import catalogue
from synth.constraints.records import Constraint, Rule, say
from synth.source import Source, unread_names

_FORBIDDEN_NAMES = frozenset(
    (
        *("breakpoint", "compile", "delattr", "dir", "eval", "exec", "exit", "getattr", "globals"),
        *("hasattr", "hash", "help", "id", "input", "locals", "memoryview", "object", "open"),
        *("print", "quit", "setattr", "vars"),
    )
)

_CLOCK_REASONS = ("reads the clock", "depends on the local time zone")
_IMPURE_REASONS = (
    *_CLOCK_REASONS,
    *("non-deterministic", "input or output", "runs text as code", "reflection"),
    *("clears a cache", "changes or reads global state", "context with state"),
)
"""How the reasons begin for which an exclusion of the catalogue bars a name from programs, too. Most
exclusions do not: `math.pi` is no operation, and harmless."""


def _module_level(_: Constraint, source: Source) -> str | None:
    for node in source.tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)):
            return f"{type(node).__name__} at module level on line {node.lineno}"
    if source.entry not in source.functions:
        return f"the printed call names {source.entry}, which is not a function of the program"
    return None


def _no_comments(_: Constraint, source: Source) -> str | None:
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
        # `__file__` and its like say where and how the program runs.
        if isinstance(node, ast.Name) and (node.id in _FORBIDDEN_NAMES or node.id.startswith("__")):
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
    if any(word.arg is None for word in source.call.keywords):
        return "the arguments are unpacked with **"
    if not source.call.args and not source.call.keywords:
        return "the entry is called without an argument"
    return None


def _no_unused(_: Constraint, source: Source) -> str | None:
    for function in source.functions.values():
        unread = unread_names(function)
        if unread:
            return f"{unread[0]} in {function.name} is never read, or only to update itself"
    return None


FIXED: tuple[Rule, ...] = (
    Rule("module_level", say("At module level stand only imports and functions, and as the last line one "
         "print of one call of the entry function."), static=_module_level),
    Rule("no_comments", say("Write no comments and no docstrings."), static=_no_comments),
    Rule("pure", say("Be deterministic: no input, output, clock, randomness, hash, id or reflection; import "
         "only from collections, itertools, functools, math, re, heapq, bisect, string, textwrap, "
         "statistics, fractions, decimal, datetime, json and operator."), static=_pure_names),
    Rule("entry_once", say("The entry function is called once, by that print."), static=_entry_once),
    Rule("parameters", say("Every function has at least one parameter and no default values."),
         static=_parameters),
    Rule("literal_arguments", say("The arguments of the call are literals."), static=_literal_arguments),
    Rule("no_unused", say("Every parameter and variable is read for something else than its own update."),
         static=_no_unused),
)  # fmt: skip
"""In the order of checking."""
