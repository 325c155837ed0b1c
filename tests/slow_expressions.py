"""Part of the second implementation: expressions other than calls."""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

from slow_frames import Env, Unsupported, Walk, attempt
from slow_names import Names

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "MatMult": operator.matmul,
}
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda item, container: item in container,
    "NotIn": lambda item, container: item not in container,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "USub": operator.neg,
    "UAdd": operator.pos,
    "Invert": operator.invert,
    "Not": operator.not_,
}
CONVERSIONS: dict[int, Callable[[Any], str]] = {115: str, 114: repr, 97: ascii}
LOOKS_AT_FRAMES = frozenset(
    (
        *("_getframe", "currentframe", "stack", "settrace", "setprofile", "setrecursionlimit"),
        *("gi_frame", "f_lineno", "tb_lineno", "format_exc", "print_exc", "__code__"),
    )
)
"""Attributes through which a program would see this interpreter in place of itself."""


def pull(source: Iterator[Any]) -> tuple[bool, Any]:
    """The next item, if there is one."""
    try:
        return True, next(source)
    except StopIteration:
        return False, None


def is_constant(node: ast.expr) -> bool:
    """Whether the compiler knows the value. It keeps sets of such values ready-made, so that their
    order is its business: it is asked for them.
    """
    if isinstance(node, (ast.UnaryOp, ast.Tuple)):
        parts = [node.operand] if isinstance(node, ast.UnaryOp) else node.elts
        return all(map(is_constant, parts))
    return isinstance(node, ast.Constant)


class Expressions(Names):
    """`value` computes an expression."""

    def values(self, nodes: list[ast.expr], env: Env) -> Walk:
        """The items of a display or of positional arguments, starred ones spread."""
        found: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                spread = yield from self.value(node.value, env)
                attempt(found.extend, spread)
            else:
                found.append((yield from self.value(node, env)))
        return found

    def truth(self, node: ast.AST, env: Env) -> Walk:
        return attempt(operator.truth, (yield from self.value(node, env)))

    # Operators

    def value_BinOp(self, node: ast.BinOp, env: Env) -> Walk:
        left = yield from self.value(node.left, env)
        right = yield from self.value(node.right, env)
        return attempt(BINARY[type(node.op).__name__], left, right)

    def value_UnaryOp(self, node: ast.UnaryOp, env: Env) -> Walk:
        operand = yield from self.value(node.operand, env)
        return attempt(UNARY[type(node.op).__name__], operand)

    def value_BoolOp(self, node: ast.BoolOp, env: Env) -> Walk:
        stops_at = isinstance(node.op, ast.Or)
        for part in node.values[:-1]:
            found = yield from self.value(part, env)
            if attempt(operator.truth, found) is stops_at:
                return found
        return (yield from self.value(node.values[-1], env))

    def value_Compare(self, node: ast.Compare, env: Env) -> Walk:
        left = yield from self.value(node.left, env)
        last = len(node.ops) - 1
        for index, (op, part) in enumerate(zip(node.ops, node.comparators, strict=True)):
            right = yield from self.value(part, env)
            found = attempt(COMPARE[type(op).__name__], left, right)
            if index == last or not attempt(operator.truth, found):
                return found
            left = right
        raise AssertionError("a comparison without operators")

    def value_IfExp(self, node: ast.IfExp, env: Env) -> Walk:
        chosen = node.body if (yield from self.truth(node.test, env)) else node.orelse
        return (yield from self.value(chosen, env))

    def value_NamedExpr(self, node: ast.NamedExpr, env: Env) -> Walk:
        found = yield from self.value(node.value, env)
        attempt(self.assign, node.target.id, found, env)
        return found

    def value_Attribute(self, node: ast.Attribute, env: Env) -> Walk:
        holder = yield from self.value(node.value, env)
        if node.attr in LOOKS_AT_FRAMES:
            raise Unsupported(f"attribute {node.attr}")
        return attempt(getattr, holder, node.attr)

    def value_Subscript(self, node: ast.Subscript, env: Env) -> Walk:
        holder = yield from self.value(node.value, env)
        index = yield from self.value(node.slice, env)
        return attempt(operator.getitem, holder, index)

    def value_Slice(self, node: ast.Slice, env: Env) -> Walk:
        ends = []
        for part in (node.lower, node.upper, node.step):
            ends.append(None if part is None else (yield from self.value(part, env)))
        return slice(*ends)

    # Displays

    def value_Tuple(self, node: ast.Tuple, env: Env) -> Walk:
        return tuple((yield from self.values(node.elts, env)))

    def value_List(self, node: ast.List, env: Env) -> Walk:
        return (yield from self.values(node.elts, env))

    def value_Set(self, node: ast.Set, env: Env) -> Walk:
        if all(map(is_constant, node.elts)):
            return attempt(eval, ast.unparse(node), {})
        starred = [isinstance(part, ast.Starred) for part in node.elts]
        first = starred.index(True) if any(starred) else len(starred)
        items = yield from self.values(node.elts[:first], env)
        found: set[Any] = set()
        attempt(found.update, items)
        for part in node.elts[first:]:
            if isinstance(part, ast.Starred):
                attempt(found.update, (yield from self.value(part.value, env)))
            else:
                attempt(found.add, (yield from self.value(part, env)))
        return found

    def value_Dict(self, node: ast.Dict, env: Env) -> Walk:
        found: dict[Any, Any] = {}
        waiting: list[tuple[Any, Any]] = []
        for key, part in zip(node.keys, node.values, strict=True):
            if key is not None:
                name = yield from self.value(key, env)
                waiting.append((name, (yield from self.value(part, env))))
                continue
            attempt(found.update, waiting)
            waiting = []
            other = yield from self.value(part, env)
            attempt(found.update, attempt(lambda other=other: {**other}))
        attempt(found.update, waiting)
        return found

    # Texts

    def value_JoinedStr(self, node: ast.JoinedStr, env: Env) -> Walk:
        parts = []
        for part in node.values:
            parts.append((yield from self.value(part, env)))
        return "".join(parts)

    def value_FormattedValue(self, node: ast.FormattedValue, env: Env) -> Walk:
        found = yield from self.value(node.value, env)
        convert = CONVERSIONS.get(node.conversion)
        early = sys.version_info >= (3, 13)
        if convert and early:
            found = attempt(convert, found)
        spec = ""
        if node.format_spec is not None:
            spec = yield from self.value(node.format_spec, env)
        if convert and not early:
            found = attempt(convert, found)
        return attempt(format, found, spec)

    # Comprehensions

    def value_ListComp(self, node: ast.ListComp, env: Env) -> Walk:
        found: list[Any] = []

        def add(inner: Env) -> Walk:
            found.append((yield from self.value(node.elt, inner)))

        yield from self.comprehend(node, env, add)
        return found

    def iterated(self, node: ast.expr, env: Env) -> Walk:
        """The iterator over what stands after `in` of a loop."""
        if isinstance(node, ast.Set) and all(map(is_constant, node.elts)):
            return attempt(eval, f"iter([item for item in {ast.unparse(node)}])", {})
        return attempt(iter, (yield from self.value(node, env)))

    def value_SetComp(self, node: ast.SetComp, env: Env) -> Walk:
        found: set[Any] = set()

        def add(inner: Env) -> Walk:
            attempt(found.add, (yield from self.value(node.elt, inner)))

        yield from self.comprehend(node, env, add)
        return found

    def value_DictComp(self, node: ast.DictComp, env: Env) -> Walk:
        found: dict[Any, Any] = {}

        def add(inner: Env) -> Walk:
            key = yield from self.value(node.key, inner)
            attempt(operator.setitem, found, key, (yield from self.value(node.value, inner)))

        yield from self.comprehend(node, env, add)
        return found

    def comprehend(self, node: Any, env: Env, add: Callable[[Env], Walk]) -> Walk:
        source = yield from self.iterated(node.generators[0].iter, env)
        yield from self.loops(node.generators, source, self.comprehension_env(node, env), add)

    def comprehension_env(self, node: Any, env: Env) -> Env:
        raise NotImplementedError

    def loops(
        self, generators: list[ast.comprehension], source: Any, env: Env, add: Callable[[Env], Walk]
    ) -> Walk:
        """The `for` parts of a comprehension; `source` is the iterator of the first."""
        first, *others = generators
        if first.is_async:
            raise Unsupported("async comprehension")
        while True:
            more, item = attempt(pull, source)
            if not more:
                return
            yield from self.store(first.target, item, env)
            for test in first.ifs:
                if not (yield from self.truth(test, env)):
                    break
            else:
                if others:
                    inner = yield from self.iterated(others[0].iter, env)
                    yield from self.loops(others, inner, env, add)
                else:
                    yield from add(env)
