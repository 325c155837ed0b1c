"""Part of the second implementation: simple statements, and when a step begins and ends."""

from __future__ import annotations

import ast
import builtins
import operator
import sys
from collections.abc import Callable
from typing import Any

from slow_expressions import BINARY
from slow_frames import Env, Frame, Raised, Recorder, Step, Unsupported, Walk, attempt
from slow_patterns import Patterns

Started = tuple[Step, Frame] | None
INPLACE: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, "i" + function.__name__.strip("_")) for name, function in BINARY.items()
}


class Returned:
    """A `return` on its way out."""

    def __init__(self, value: Any) -> None:
        self.value = value


BREAK, CONTINUE = object(), object()


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    return body[1:] if docstring(body) is not None else body


def docstring(body: list[ast.stmt]) -> str | None:
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        text = first.value.value
        return text if isinstance(text, str) else None
    return None


class Statements(Patterns):
    """`block` runs statements; its result is how they were left: None, BREAK, CONTINUE, Returned."""

    recorder: Recorder

    def block(self, body: list[ast.stmt], env: Env) -> Walk:
        for node in body:
            left = yield from self.run_statement(node, env)
            if left is not None:
                return left
        return None

    def run_statement(self, node: ast.stmt, env: Env) -> Walk:
        name = type(node).__name__
        compound = getattr(self, "block_" + name, None)
        if compound is not None:
            return (yield from compound(node, env))
        simple = getattr(self, "do_" + name, None)
        if simple is None:
            raise Unsupported(name)
        if isinstance(node, (ast.Global, ast.Nonlocal)) or (
            isinstance(node, ast.AnnAssign) and node.value is None
        ):
            return (yield from simple(node, env))
        step = self.start(node, env)
        left = yield from self.during(step, simple(node, env))
        self.recorder.finish(step)
        return left

    def start(self, node: ast.stmt, env: Env) -> Started:
        return self.recorder.start(node, env.frame)

    def during(self, step: Started, work: Walk) -> Walk:
        """Do a part of a step: if it raises, that ends the step."""
        try:
            return (yield from work)
        except Raised:
            self.recorder.finish(step, "raised")
            raise

    # Simple statements

    def do_Expr(self, node: ast.Expr, env: Env) -> Walk:
        yield from self.value(node.value, env)

    def do_Pass(self, node: ast.Pass, env: Env) -> Walk:
        return None
        yield

    do_Global = do_Nonlocal = do_Pass

    def do_Break(self, node: ast.Break, env: Env) -> Walk:
        return BREAK
        yield

    def do_Continue(self, node: ast.Continue, env: Env) -> Walk:
        return CONTINUE
        yield

    def do_Return(self, node: ast.Return, env: Env) -> Walk:
        return Returned(None if node.value is None else (yield from self.value(node.value, env)))

    def do_Assign(self, node: ast.Assign, env: Env) -> Walk:
        value = yield from self.value(node.value, env)
        for target in node.targets:
            yield from self.store(target, value, env)

    def do_AugAssign(self, node: ast.AugAssign, env: Env) -> Walk:
        change = INPLACE[type(node.op).__name__]
        target = node.target
        if isinstance(target, ast.Name):
            before = attempt(self.load, target.id, env)
            value = attempt(change, before, (yield from self.value(node.value, env)))
            attempt(self.assign, target.id, value, env)
        elif isinstance(target, ast.Attribute):
            holder = yield from self.value(target.value, env)
            before = attempt(getattr, holder, target.attr)
            value = attempt(change, before, (yield from self.value(node.value, env)))
            attempt(setattr, holder, target.attr, value)
        else:
            holder = yield from self.value(target.value, env)
            index = yield from self.value(target.slice, env)
            before = attempt(operator.getitem, holder, index)
            value = attempt(change, before, (yield from self.value(node.value, env)))
            attempt(operator.setitem, holder, index, value)

    def do_AnnAssign(self, node: ast.AnnAssign, env: Env) -> Walk:
        target = node.target
        if node.value is not None:
            yield from self.store(target, (yield from self.value(node.value, env)), env)
        elif isinstance(target, (ast.Attribute, ast.Subscript)):
            yield from self.value(target.value, env)
            if isinstance(target, ast.Subscript):
                yield from self.value(target.slice, env)
        if env.names is None:
            return
        annotation = yield from self.annotation(node.annotation, env)
        if node.simple and isinstance(target, ast.Name):
            notes = attempt(operator.getitem, env.names, "__annotations__")
            attempt(operator.setitem, notes, target.id, annotation)

    def annotation(self, node: ast.expr, env: Env) -> Walk:
        raise NotImplementedError

    def do_Delete(self, node: ast.Delete, env: Env) -> Walk:
        for target in node.targets:
            yield from self.remove(target, env)

    def do_Assert(self, node: ast.Assert, env: Env) -> Walk:
        if (yield from self.truth(node.test, env)):
            return
        args = [] if node.msg is None else [(yield from self.value(node.msg, env))]
        attempt(_raise, AssertionError(*args), None, False)

    def do_Raise(self, node: ast.Raise, env: Env) -> Walk:
        if node.exc is None:
            attempt(_raise_again)
        problem = yield from self.value(node.exc, env)  # type: ignore[arg-type]
        cause = None if node.cause is None else (yield from self.value(node.cause, env))
        attempt(_raise, problem, cause, node.cause is not None)

    def do_Import(self, node: ast.Import, env: Env) -> Walk:
        for alias in node.names:
            module = attempt(builtins.__import__, alias.name, env.globals, None, None, 0)
            if alias.asname:
                for part in alias.name.split(".")[1:]:
                    module = attempt(getattr, module, part)
            name = alias.asname or alias.name.partition(".")[0]
            attempt(self.assign, name, module, env)
        return None
        yield

    def do_ImportFrom(self, node: ast.ImportFrom, env: Env) -> Walk:
        names = tuple(alias.name for alias in node.names)
        module = attempt(
            builtins.__import__, node.module or "", env.globals, None, names, node.level
        )
        for alias in node.names:
            if alias.name == "*":
                raise Unsupported("import *")
            value = attempt(_import_from, module, alias.name)
            attempt(self.assign, alias.asname or alias.name, value, env)
        return None
        yield


def _raise(problem: Any, cause: Any, has_cause: bool) -> None:
    if has_cause:
        raise problem from cause
    raise problem


def _raise_again() -> None:
    raise


def _import_from(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError:
        found = sys.modules.get(f"{module.__name__}.{name}")
        if found is not None:
            return found
        where = getattr(module, "__file__", None) or "unknown location"
        message = f"cannot import name {name!r} from {module.__name__!r} ({where})"
    raise ImportError(message, name=module.__name__)
