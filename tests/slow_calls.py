"""Part of the second implementation: calls, and expressions that suspend a generator."""

from __future__ import annotations

import ast
import builtins
import functools
import types
from collections.abc import Callable
from typing import Any

from slow_expressions import Expressions
from slow_frames import Env, Raised, Thrown, Unsupported, Walk, attempt, is_bound


class Calls(Expressions):
    """Calls of anything, `yield` and `yield from`."""

    def suspend(self, value: Any) -> Walk:
        """Hand `value` out of the generator, and take what comes back."""
        message = yield value
        if isinstance(message, Thrown):
            raise_at = message.problem
            attempt(_raise, raise_at)
        return message

    def value_Yield(self, node: ast.Yield, env: Env) -> Walk:
        value = None if node.value is None else (yield from self.value(node.value, env))
        return (yield from self.suspend(value))

    def value_YieldFrom(self, node: ast.YieldFrom, env: Env) -> Walk:
        source = attempt(iter, (yield from self.value(node.value, env)))
        message = None
        while True:
            finished, value = attempt(_delegate, source, message)
            if finished:
                return value
            message = yield value

    def value_Call(self, node: ast.Call, env: Env) -> Walk:
        function = yield from self.value(node.func, env)
        lone = node.args[0] if len(node.args) == 1 else None
        if isinstance(lone, ast.Starred):
            # Python spreads a lone starred argument last of all.
            spread = yield from self.value(lone.value, env)
            named = yield from self.named_arguments(node, function, env)
            args = attempt(lambda: (lambda *all_of: all_of)(*spread))
        else:
            args = yield from self.values(node.args, env)
            named = yield from self.named_arguments(node, function, env)
        special = self.special_call(function, args, named, env)
        if special is not None:
            return attempt(special)
        return attempt(function, *args, **named)

    def named_arguments(self, node: ast.Call, function: Any, env: Env) -> Walk:
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = yield from self.value(keyword.value, env)
            more = {keyword.arg: value} if keyword.arg else attempt(lambda value=value: {**value})
            for name in more:
                if name in named:
                    called = getattr(function, "__qualname__", function)
                    message = f"{called}() got multiple values for keyword argument {name!r}"
                    raise Raised(TypeError(message))
            named.update(more)
        return named

    def special_call(
        self, function: Any, args: list[Any], named: dict[str, Any], env: Env
    ) -> Callable[[], Any] | None:
        """Calls of what looks at its caller's frame."""
        if function is builtins.globals:
            return lambda: env.globals
        # By identity: `==` could call the program.
        if (function is builtins.eval or function is builtins.exec) and len(args) == 1:
            return lambda: function(args[0], env.globals, self.locals_of(env))
        if args or named:
            return None
        if function is builtins.locals or function is builtins.vars:
            return lambda: self.locals_of(env)
        if function is builtins.dir:
            return lambda: sorted(self.locals_of(env))
        if function is builtins.super:
            return lambda: super(self.class_of(env), self.first_argument(env))
        return None

    @staticmethod
    def locals_of(env: Env) -> Any:
        return env.names if env.names is not None else env.visible()

    @staticmethod
    def class_of(env: Env) -> Any:
        cell = env.cell("__class__")
        if cell is None:
            raise RuntimeError("super(): __class__ cell not found")
        if not is_bound(cell):
            raise RuntimeError("super(): empty __class__ cell")
        return cell.cell_contents

    @staticmethod
    def first_argument(env: Env) -> Any:
        node = env.scope.node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            raise Unsupported("super() in a comprehension")
        positional = [*node.args.posonlyargs, *node.args.args]
        if not positional:
            raise RuntimeError("super(): no arguments")
        cell: types.CellType = env.cells[positional[0].arg]
        if not is_bound(cell):
            raise RuntimeError("super(): arg[0] deleted")
        return cell.cell_contents


def _raise(problem: BaseException) -> None:
    raise problem


def _delegate(source: Any, message: Any) -> tuple[bool, Any]:
    """One turn of `yield from`: (it is over, value)."""
    call: Callable[[], Any]
    if isinstance(message, Thrown):
        name = "close" if isinstance(message.problem, GeneratorExit) else "throw"
        method = getattr(source, name, None)
        if name == "close":
            if method is not None:
                method()
            raise message.problem
        if method is None:
            raise message.problem
        call = functools.partial(method, message.problem)
    elif message is None:
        call = functools.partial(next, source)
    else:
        call = functools.partial(source.send, message)
    try:
        return False, call()
    except StopIteration as stop:
        return True, stop.value
