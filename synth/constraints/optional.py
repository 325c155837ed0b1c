"""The optional rules, beyond the paper: language features that a structure may ask for by name.

Covers exceptions, recursion, closures, generators, classes and nested comprehensions, each checked on
the text alone: that the feature is executed follows from the rule against dead code (`structural.py`).
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Callable

from synth.constraints.records import Check, Constraint, Rule, say
from synth.source import Source


def _extra(name: str) -> Callable[[Constraint], bool]:
    return lambda constraint: name in constraint.structure.extras


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


OPTIONAL: tuple[Rule, ...] = (
    Rule("exceptions", say("Raise an exception and catch it by its type."), _extra("exceptions"), _raises,
         optional=True),
    Rule("recursion", say("Let a function call itself."), _extra("recursion"), _recursion, optional=True),
    Rule("closures", say("Use an inner function that reads a variable of the function around it."),
         _extra("closures"), _closure, optional=True),
    Rule("generators", say("Write a generator function."), _extra("generators"),
         _has_node(ast.Yield, ast.YieldFrom, wanted="no yield"), optional=True),
    Rule("classes", say("Define a class and use an instance of it."), _extra("classes"),
         _class, optional=True),
    Rule("comprehensions", say("Use a comprehension of depth two."), _extra("comprehensions"),
         _deep_comprehension, optional=True),
)  # fmt: skip
"""In the order of checking; their names are `EXTRAS`."""
