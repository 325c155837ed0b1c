"""Part of the second implementation: statements that hold others.

The header is a step, what it holds are steps of their own.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable
from typing import Any

from slow_expressions import pull
from slow_frames import Env, Raised, Unsupported, Walk, attempt, throw
from slow_patterns import Bound
from slow_statements import BREAK, Returned, Started, Statements


class Blocks(Statements):
    """Compound statements; `def` and `class` up to what they make."""

    def block_If(self, node: ast.If, env: Env) -> Walk:
        step = self.start(node, env)
        chosen = yield from self.during(step, self.truth(node.test, env))
        self.recorder.finish(step, arm="true" if chosen else "false")
        return (yield from self.block(node.body if chosen else node.orelse, env))

    def block_While(self, node: ast.While, env: Env) -> Walk:
        def turn(first: bool) -> Walk:
            return self.truth(node.test, env)

        return self.loop(node, env, turn)

    def block_For(self, node: ast.For, env: Env) -> Walk:
        source: Any = None

        def fetch(first: bool) -> Walk:
            nonlocal source
            if first:
                source = yield from self.iterated(node.iter, env)
            more, item = attempt(pull, source)
            if more:
                yield from self.store(node.target, item, env)
            return more

        return self.loop(node, env, fetch)

    def loop(self, node: ast.For | ast.While, env: Env, head: Callable[[bool], Walk]) -> Walk:
        first = True
        while True:
            step = self.start(node, env)
            goes_on = yield from self.during(step, head(first))
            self.recorder.finish(step, arm="true" if goes_on else "false")
            if not goes_on:
                return (yield from self.block(node.orelse, env))
            first = False
            left = yield from self.block(node.body, env)
            if left is BREAK:
                return None
            if isinstance(left, Returned):
                return left

    def block_Match(self, node: ast.Match, env: Env) -> Walk:
        step = self.start(node, env)
        chosen = yield from self.during(step, self.choose(node, env))
        self.recorder.finish(step, arm="none" if chosen is None else f"case {chosen}")
        if chosen is None:
            return None
        return (yield from self.block(node.cases[chosen].body, env))

    def choose(self, node: ast.Match, env: Env) -> Walk:
        """Index of the case that the subject matches; its names are bound then."""
        subject = yield from self.value(node.subject, env)
        for index, case in enumerate(node.cases):
            bound: Bound = []
            if not (yield from self.matches(case.pattern, subject, env, bound)):
                continue
            for name, value in bound:
                attempt(self.assign, name, value, env)
            if case.guard is None or (yield from self.truth(case.guard, env)):
                return index
        return None

    def block_With(self, node: ast.With, env: Env) -> Walk:
        return self.manage(node, node.items, env, self.start(node, env))

    def manage(self, node: ast.With, items: list[ast.withitem], env: Env, step: Started) -> Walk:
        """Enter the managers that are left, then run the body."""
        if not items:
            self.recorder.finish(step)
            return (yield from self.block(node.body, env))
        leave, value = yield from self.during(step, self.enter(items[0], env))
        problem = None
        try:
            target = items[0].optional_vars
            if target is not None:
                yield from self.during(step, self.store(target, value, env))
            left = yield from self.manage(node, items[1:], env, step)
        except Raised as raised:
            problem = raised.problem
        if problem is None:
            attempt(leave, None, None, None)
            return left
        try:
            throw(problem)
        except BaseException:
            what = type(problem), problem, problem.__traceback__
            if attempt(operator.truth, attempt(leave, *what)):
                return None
        raise Raised(problem)

    def enter(self, item: ast.withitem, env: Env) -> Walk:
        manager = yield from self.value(item.context_expr, env)
        enter = attempt(_special, manager, "__enter__")
        leave = attempt(_special, manager, "__exit__")
        return leave, attempt(enter)

    def block_Try(self, node: ast.Try, env: Env) -> Walk:
        self.recorder.finish(self.start(node, env))
        problem = left = None
        try:
            left = yield from self.guarded(node, env)
        except Raised as raised:
            problem = raised.problem
        if problem is None:
            instead = yield from self.block(node.finalbody, env)
            return left if instead is None else instead
        try:
            throw(problem)
        except BaseException:
            instead = yield from self.block(node.finalbody, env)
        if instead is not None:
            return instead
        raise Raised(problem)

    def guarded(self, node: ast.Try, env: Env) -> Walk:
        """All of a `try` but its `finally`."""
        problem = None
        try:
            left = yield from self.block(node.body, env)
        except Raised as raised:
            problem = raised.problem
        if problem is None:
            return left if left is not None else (yield from self.block(node.orelse, env))
        try:
            throw(problem)
        except BaseException:
            for handler in node.handlers:
                if handler.type is not None:
                    kind = yield from self.value(handler.type, env)
                    if not attempt(_is_caught, problem, kind):
                        continue
                return (yield from self.handle(handler, problem, env))
        raise Raised(problem)

    def handle(self, handler: ast.ExceptHandler, problem: BaseException, env: Env) -> Walk:
        if handler.name is None:
            return (yield from self.block(handler.body, env))
        attempt(self.assign, handler.name, problem, env)
        try:
            return (yield from self.block(handler.body, env))
        finally:
            self.assign(handler.name, None, env)
            self.unassign(handler.name, env)

    def block_FunctionDef(self, node: ast.FunctionDef, env: Env) -> Walk:
        if node.name == "__del__":
            raise Unsupported("__del__")  # objects live longer here
        step = self.start(node, env)
        yield from self.during(step, self.decorated(node, env, self.function(node, env)))
        self.recorder.finish(step)

    def block_ClassDef(self, node: ast.ClassDef, env: Env) -> Walk:
        step = self.start(node, env)
        yield from self.during(step, self.decorated(node, env, self.new_class(node, env)))
        self.recorder.finish(step)

    def decorated(self, node: ast.FunctionDef | ast.ClassDef, env: Env, making: Walk) -> Walk:
        if getattr(node, "type_params", None):
            raise Unsupported("type parameters")
        decorators = yield from self.values(node.decorator_list, env)
        made = yield from making
        for decorator in reversed(decorators):
            made = attempt(decorator, made)
        attempt(self.assign, node.bound_name, made, env)  # type: ignore[union-attr]

    def function(self, node: ast.FunctionDef, env: Env) -> Walk:
        raise NotImplementedError

    def new_class(self, node: ast.ClassDef, env: Env) -> Walk:
        raise NotImplementedError


def _is_caught(problem: BaseException, kind: Any) -> bool:
    try:
        throw(problem)
    except kind:
        return True
    except BaseException as other:
        if other is not problem:
            raise  # `kind` is nothing that can be caught
    return False


def _special(manager: Any, name: str) -> Any:
    """A method as the interpreter looks it up: on the class."""
    kind = type(manager)
    for base in kind.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            bind = getattr(type(found), "__get__", None)
            return found if bind is None else bind(found, manager, kind)
    if sys.version_info < (3, 11):
        raise AttributeError(name)
    message = f"{kind.__name__!r} object does not support the context manager protocol"
    missed = " (missed __exit__ method)" if name == "__exit__" else ""
    raise TypeError(message + missed)
