"""Part of the second implementation: names, and targets of assignments and `del`."""

from __future__ import annotations

import ast
import builtins
import functools
import operator
import sys
from collections.abc import Callable
from typing import Any

from slow_frames import Env, Unsupported, Walk, attempt, is_bound


@functools.cache
def unpacker(before: int, star: bool, after: int) -> Callable[[Any], tuple[Any, ...]]:
    """Takes a value apart as an assignment to so many targets does."""
    names = [f"v{i}" for i in range(before + star + after)]
    targets = [("*" if star and i == before else "") + name for i, name in enumerate(names)]
    if not names:
        return functools.partial(_unpack_nothing)
    space: dict[str, Any] = {}
    exec(
        f"def unpack(value):\n {', '.join(targets)}, = value\n return {', '.join(names)},\n", space
    )
    found: Callable[[Any], tuple[Any, ...]] = space["unpack"]
    return found


def _unpack_nothing(value: Any) -> tuple[Any, ...]:
    [] = value
    return ()


class Names:
    """`store` assigns to a target, `remove` deletes one.

    Every method that computes is a generator, because every expression may hold a `yield`. What it
    yields are the values that the program yields.
    """

    def value(self, node: ast.AST, env: Env) -> Walk:
        name = type(node).__name__
        method = getattr(self, "value_" + name, None)
        if method is None:
            raise Unsupported(name)
        return method(node, env)  # type: ignore[no-any-return]

    def value_Constant(self, node: ast.Constant, env: Env) -> Walk:
        return node.value
        yield

    def value_Name(self, node: ast.Name, env: Env) -> Walk:
        return attempt(self.load, node.id, env)
        yield

    def load(self, name: str, env: Env) -> Any:
        if env.scope.kind == "class" and name not in env.scope.globals:
            try:
                return env.names[name]
            except KeyError:
                pass
        cell = env.cell(name)
        if cell is not None:
            if is_bound(cell):
                return cell.cell_contents
            raise self.unbound(name, env)
        if name in env.globals:
            return env.globals[name]
        known = vars(builtins)
        if name in known:
            return known[name]
        raise NameError(f"name {name!r} is not defined")

    @staticmethod
    def unbound(name: str, env: Env) -> NameError:
        old = sys.version_info < (3, 11)
        if env.scope.owner(name) is env.scope:
            if old:
                return UnboundLocalError(f"local variable {name!r} referenced before assignment")
            message = f"cannot access local variable {name!r}"
            return UnboundLocalError(f"{message} where it is not associated with a value")
        if old:
            message = f"free variable {name!r} referenced before assignment"
            return NameError(f"{message} in enclosing scope")
        message = f"cannot access free variable {name!r} where it is not associated with a value"
        return NameError(f"{message} in enclosing scope")

    def assign(self, name: str, value: Any, env: Env) -> None:
        while env.scope.kind == "comprehension" and name not in env.scope.bound:
            assert env.parent is not None  # the target of `:=` belongs to the function around
            env = env.parent
        cell = env.cell(name)
        if cell is not None:
            cell.cell_contents = value
        elif env.names is not None and name not in env.scope.globals:
            env.names[name] = value
        else:
            env.globals[name] = value

    def unassign(self, name: str, env: Env) -> None:
        cell = env.cell(name)
        if cell is not None:
            if not is_bound(cell):
                raise self.unbound(name, env)
            del cell.cell_contents
            return
        space = env.names
        if env.names is None or name in env.scope.globals:
            space = env.globals
        if name not in space:
            raise NameError(f"name {name!r} is not defined")
        del space[name]

    # Targets

    def store(self, target: ast.AST, value: Any, env: Env) -> Walk:
        if isinstance(target, ast.Name):
            attempt(self.assign, target.id, value, env)
        elif isinstance(target, ast.Starred):
            yield from self.store(target.value, value, env)
        elif isinstance(target, ast.Attribute):
            holder = yield from self.value(target.value, env)
            attempt(setattr, holder, target.attr, value)
        elif isinstance(target, ast.Subscript):
            holder = yield from self.value(target.value, env)
            index = yield from self.value(target.slice, env)
            attempt(operator.setitem, holder, index, value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            starred = [isinstance(part, ast.Starred) for part in target.elts]
            star = any(starred)
            before = starred.index(True) if star else len(starred)
            unpack = unpacker(before, star, len(starred) - before - star)
            for part, item in zip(target.elts, attempt(unpack, value), strict=True):
                yield from self.store(part, item, env)
        else:
            raise Unsupported(f"assignment to {type(target).__name__}")

    def remove(self, target: ast.AST, env: Env) -> Walk:
        if isinstance(target, ast.Name):
            attempt(self.unassign, target.id, env)
        elif isinstance(target, ast.Attribute):
            attempt(delattr, (yield from self.value(target.value, env)), target.attr)
        elif isinstance(target, ast.Subscript):
            holder = yield from self.value(target.value, env)
            attempt(operator.delitem, holder, (yield from self.value(target.slice, env)))
        elif isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                yield from self.remove(part, env)
        else:
            raise Unsupported(f"del of {type(target).__name__}")
