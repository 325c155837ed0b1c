"""When two programs count as the same: exactly (up to formatting), or in the shape of their tree.

Covers texts and digests that name a program regardless of layout, comments or its choice of words.
Does not cover near duplicates between different shapes, nor overlap with benchmarks.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

from rewards.values import parse_tree
from synth.source import content_digest, normalised

__all__ = ["ast_shape", "content_digest", "distinct", "normalised"]

Key = TypeVar("Key", bound=Hashable)


def ast_shape(code: str) -> str:
    """Digest (32 hex digits) of the program's tree without names, attribute names and literals.

    What remains: which kinds of statements, expressions and operators stand where. A literal of any
    type or size, displays of literals included, is one leaf, so two programs that differ only in
    their data have the same shape. Raises `SyntaxError`.
    """
    parts: list[str] = []
    _write_shape(parse_tree(code), parts)
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:32]


def _write_shape(node: ast.AST, parts: list[str]) -> None:
    if _is_literal(node):
        parts.append("L")
        return
    parts.append(f"({type(node).__name__}")
    for name, value in ast.iter_fields(node):
        # Names and attribute names are strings, not nodes, so they never get here.
        children = [
            child
            for child in (value if isinstance(value, list) else [value])
            if isinstance(child, ast.AST) and not isinstance(child, ast.expr_context)
        ]
        if children:
            parts.append(f" {name}:")
            for child in children:
                _write_shape(child, parts)
    parts.append(")")


def _is_literal(node: ast.AST | None) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.UAdd)) and _is_literal(node.operand)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        # An empty tuple, list or dict is a literal too; a target such as `(a, b)` holds names.
        return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and all(
            map(_is_literal, node.elts)
        )
    if isinstance(node, ast.Dict):
        return all(map(_is_literal, node.keys)) and all(map(_is_literal, node.values))
    return False


def distinct(items: Iterable[tuple[Key, str]]) -> Iterator[tuple[Key, Key | None]]:
    """For each (key, code): the key, and the key of the first equal program before it, or None."""
    first: dict[str, Key] = {}
    for key, code in items:
        digest = content_digest(code)
        yield key, first.get(digest)
        first.setdefault(digest, key)
