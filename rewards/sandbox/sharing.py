"""Whether calls of a program may share a child: it must leave nothing behind outside its namespace.

Every call gets a fresh namespace, but modules and their classes are shared by the calls of one child. A
program that could change them gets one child per call instead. Read off the text, which is quick and
errs on the safe side: `self.total = 0` in a class is harmless, `heapq.heappush = push` is not, and what
cannot be told from it counts as it.

A guard against accidents, in programs that are trusted to be no attack: what a program may reach by
tricks is kept apart from others by `SandboxPool.run`, not by this.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Modules whose documented functions keep no state that a later call could see. (`decimal` has its
# context, which the guest puts back.)
_STATELESS = _words(
    """
    __future__ abc array base64 binascii bisect builtins cmath collections contextlib copy
    dataclasses datetime decimal enum fractions functools graphlib heapq itertools json keyword math
    numbers operator re statistics string struct textwrap types typing unicodedata
    """
)
# Whatever their object: each can change, or reach, what lies outside the namespace, files and
# standard streams included.
_REACHING = _words(
    """
    __builtins__ __del__ __dict__ __globals__ __import__ __loader__ __self__ __spec__ __subclasses__
    breakpoint delattr eval exec exit f_back f_builtins f_globals globals help open quit setattr vars
    """
)
# Harmless as long as nothing of a module is in reach.
_CHANGING = _words("__delattr__ __setattr__ getattr register setcontext")
_IN_PLACE = _words(
    "add append clear discard extend insert pop popitem remove reverse setdefault sort update"
)
_WORD = re.compile(r"\w+")


def may_share(code: str, args: str) -> bool:
    """True if a call `entry(<args>)` of the program leaves the next call in its child as it was."""
    return _leaves_nothing(code) and _REACHING.isdisjoint(_WORD.findall(args))


@lru_cache(maxsize=256)
def _leaves_nothing(code: str) -> bool:
    words = set(_WORD.findall(code))
    if not _REACHING.isdisjoint(words):
        return False
    if "import" not in words:
        return True  # nothing in reach but builtins, which cannot be changed
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False  # alone, it will say so itself
    imported = _imported(tree)
    if imported is None or not _CHANGING.isdisjoint(words):
        return False
    own = _first_parameters(tree)
    return not any(_changes(node, imported, own) for node in ast.walk(tree))


def _imported(tree: ast.AST) -> frozenset[str] | None:
    """The names that a program's imports bind; None if it imports a module that has a state."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
            names.update(alias.asname or alias.name for alias in node.names)
        else:
            continue
        if not _STATELESS.issuperset(module.partition(".")[0] for module in modules):
            return None
    return frozenset(names)


def _first_parameters(tree: ast.AST) -> frozenset[str]:
    """Names of the first parameter of the functions in classes: `self` and its like."""
    return frozenset(
        function.args.args[0].arg
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for function in node.body
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)) and function.args.args
    )


def _changes(node: ast.AST, imported: frozenset[str], own: frozenset[str]) -> bool:
    """Whether a piece of the program might change something that it imports."""
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return not (isinstance(node.value, ast.Name) and node.value.id in own - imported)
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        return _root(node.value) in imported
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _IN_PLACE and _root(node.func.value) in imported
    return False


def _root(node: ast.expr) -> str | None:
    """The name at the start of `a.b[c].d`."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None
