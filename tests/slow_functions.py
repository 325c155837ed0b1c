"""Part of the second implementation: functions, generators and classes of the program.

A function is a real function: a stub that has the same parameters and hands their values back. A
generator's stub is a real generator that advances suspended work.
"""

from __future__ import annotations

import ast
import functools
import threading
import types
from collections.abc import Callable
from typing import Any

from slow_blocks import Blocks
from slow_frames import (
    Env,
    Frame,
    Raised,
    Recorder,
    Thrown,
    Unsupported,
    Walk,
    attempt,
    held,
    throw,
)
from slow_scopes import Scope, all_parameters, parameter_names
from slow_statements import Returned, docstring, without_docstring

CALL = "slow_call"
"""How names that stubs need begin; no program uses them."""


class Functions(Blocks):
    """Makes functions, lambdas, expression generators and classes, and runs them."""

    tree: ast.Module
    scopes: dict[ast.AST, Scope]
    thread: int
    """The one thread in which the program may run."""
    lost: Unsupported | None = None
    """Refused where the exception may not reach the caller."""

    @staticmethod
    def finish_work(work: Walk) -> Any:
        """The result of work that is never suspended."""
        try:
            work.send(None)
        except StopIteration as stop:
            return stop.value
        raise AssertionError("a yield outside a generator")

    def comprehension_env(self, node: Any, env: Env) -> Env:
        return Env(self.scopes[node], env, env.qualname, env.frame)

    def function(self, node: ast.FunctionDef, env: Env) -> Walk:
        qualname = env.inner_qualname(node.name, node.bound_name)  # type: ignore[attr-defined]
        body = without_docstring(node.body)

        def work(inner: Env) -> Walk:
            left = yield from self.block(body, inner)
            return left.value if isinstance(left, Returned) else None

        made = yield from self.callable(node, env, node.name, qualname, work)
        notes = yield from self.annotations(node, env)
        made.__annotations__.update(notes)
        return made

    def annotations(self, node: ast.FunctionDef, env: Env) -> Walk:
        found: dict[str, Any] = {}
        for arg in all_parameters(node.args):
            if arg.annotation is not None:
                found[arg.arg] = yield from self.annotation(arg.annotation, env)
        if node.returns is not None:
            found["return"] = yield from self.annotation(node.returns, env)
        return found

    def annotation(self, node: ast.expr, env: Env) -> Walk:
        if self.has_future_annotations:
            return ast.unparse(node)
        return (yield from self.value(node, env))

    @functools.cached_property
    def has_future_annotations(self) -> bool:
        imports = [node for node in self.tree.body if isinstance(node, ast.ImportFrom)]
        names = [a.name for node in imports if node.module == "__future__" for a in node.names]
        return "annotations" in names

    def value_Lambda(self, node: ast.Lambda, env: Env) -> Walk:
        qualname = env.inner_qualname("<lambda>", "<lambda>")

        def work(inner: Env) -> Walk:
            return self.value(node.body, inner)

        return (yield from self.callable(node, env, "<lambda>", qualname, work))

    def callable(
        self,
        node: ast.FunctionDef | ast.Lambda,
        env: Env,
        name: str,
        qualname: str,
        work: Callable[[Env], Walk],
    ) -> Walk:
        """A function object of the program; its defaults are evaluated here."""
        defaults = yield from self.values(node.args.defaults, env)
        named = {}
        for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True):
            if default is not None:
                named[arg.arg] = yield from self.value(default, env)
        scope = self.scopes[node]
        names = parameter_names(node.args)
        is_frame = isinstance(node, ast.FunctionDef)

        def call(values: tuple[Any, ...]) -> Any:
            frame = Frame(qualname) if is_frame else None
            inner = Env(scope, env, qualname, frame)
            if frame is not None:
                frame.env = inner
            for parameter, value in zip(names, values, strict=True):
                inner.cells[parameter].cell_contents = value
            return self.activate(work(inner), frame, scope.generator)

        made = _stub(node, scope.generator, env.globals, call)
        made.__name__, made.__qualname__ = name, qualname
        made.__defaults__ = tuple(defaults) or None
        made.__kwdefaults__ = named or None
        return made

    def activate(self, work: Walk, frame: Frame | None, generator: bool) -> Any:
        if self.recorder.active and threading.get_ident() != self.thread:
            self.lost = Unsupported("threads")
            raise self.lost
        if generator:
            return Suspendable(self.recorder, work, frame)
        problem = None
        if frame is not None:
            self.recorder.push(frame)
        try:
            value = self.finish_work(work)
        except Raised as raised:
            problem = raised.problem
        finally:
            if frame is not None:
                self.recorder.stack.pop()
        if problem is not None:
            throw(problem)
        if frame is not None and self.recorder.active:
            frame.returned = held(value)
        return value

    def value_GeneratorExp(self, node: ast.GeneratorExp, env: Env) -> Walk:
        source = yield from self.iterated(node.generators[0].iter, env)
        inner = self.comprehension_env(node, env)

        def add(here: Env) -> Walk:
            yield from self.suspend((yield from self.value(node.elt, here)))

        def call(values: tuple[Any, ...]) -> Any:
            work = self.loops(node.generators, source, inner, add)
            return self.activate(work, None, True)

        made = _stub(None, True, env.globals, call)
        made.__name__ = "<genexpr>"
        made.__qualname__ = env.inner_qualname("<genexpr>", "<genexpr>")
        return made()

    # Classes

    def new_class(self, node: ast.ClassDef, env: Env) -> Walk:
        bases = tuple((yield from self.values(node.bases, env)))
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            value = yield from self.value(keyword.value, env)
            named.update({keyword.arg: value} if keyword.arg else value)
        resolved = attempt(types.resolve_bases, bases)
        kind, space, named = attempt(types.prepare_class, node.name, resolved, named)
        qualname = env.inner_qualname(node.name, node.bound_name)  # type: ignore[attr-defined]
        frame = Frame(qualname)
        inner = Env(self.scopes[node], env, qualname, frame)
        frame.env, inner.names = inner, space
        attempt(self.open_class, node, inner)
        self.recorder.push(frame)
        try:
            yield from self.block(without_docstring(node.body), inner)
        finally:
            self.recorder.stack.pop()
        if inner.scope.class_cell:
            space["__classcell__"] = inner.cells["__class__"]
        if resolved is not bases:
            space["__orig_bases__"] = bases
        return attempt(kind, node.name, resolved, space, **named)

    def open_class(self, node: ast.ClassDef, inner: Env) -> None:
        """What a class body starts with."""
        inner.names["__module__"] = inner.globals["__name__"]
        inner.names["__qualname__"] = inner.qualname
        if annotates(node.body) and "__annotations__" not in inner.names:
            inner.names["__annotations__"] = {}
        if docstring(node.body) is not None:
            # The compiler of 3.13 takes the indentation away; let it do so on every version.
            names: dict[str, Any] = {}
            exec(f"def documented():\n    {docstring(node.body)!r}\n", names)
            inner.names["__doc__"] = names["documented"].__doc__
        if inner.scope.class_cell:
            inner.cells["__class__"] = types.CellType()


class Suspendable:
    """The run of a generator, as its stub sees it."""

    def __init__(self, recorder: Recorder, work: Walk, frame: Frame | None) -> None:
        self.recorder = recorder
        self.work = work
        self.frame = frame
        self.message: Any = None
        self.item: Any = None
        self.value: Any = None
        self.problem: BaseException | None = None

    def advance(self) -> bool:
        """Run to the next `yield`; False if there is none."""
        if self.frame is not None:
            self.recorder.push(self.frame)
        message, self.message = self.message, None
        self.recorder.suspended.discard(self.frame)
        try:
            self.item = self.work.send(message)
            self.recorder.suspended.add(self.frame)
            return True
        except StopIteration as stop:
            self.value = stop.value
        except Raised as raised:
            self.problem = raised.problem
        finally:
            if self.frame is not None:
                self.recorder.stack.pop()
        return False

    def thrown(self, problem: BaseException) -> Thrown:
        return Thrown(problem)

    def result(self) -> Any:
        if self.problem is not None:
            throw(self.problem)
        if self.frame is not None and self.recorder.active:
            self.frame.returned = held(self.value)
        return self.value


def annotates(body: list[ast.stmt]) -> bool:
    """Whether a module or class body holds an annotation (not counting scopes inside it)."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AnnAssign):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.expr)):
            waiting += ast.iter_child_nodes(node)
    return False


def _stub(node: Any, generator: bool, space: dict[str, Any], call: Any) -> Any:
    """A function with the parameters of `node`, which hands their values to `call`."""
    made: dict[str, Any] = {}
    exec(_stub_code(node, generator), space, made)
    return made["make"](call, BaseException)


@functools.lru_cache(maxsize=256)
def _stub_code(node: Any, generator: bool) -> types.CodeType:
    names = parameter_names(node.args) if node is not None else []
    values = f"({', '.join(names)}{',' if names else ''})"
    parameters = _parameters(node.args) if node is not None else ""
    lines = [f"def make({CALL}, {CALL}_base):", f"    def stub({parameters}):"]
    text = docstring(node.body) if isinstance(node, ast.FunctionDef) else None
    lines.append(f"        {text!r}")
    if generator:
        lines += [
            f"        {CALL}_state = {CALL}({values})",
            f"        while {CALL}_state.advance():",
            "            try:",
            f"                {CALL}_state.message = yield {CALL}_state.item",
            f"            except {CALL}_base as {CALL}_error:",
            f"                {CALL}_state.message = {CALL}_state.thrown({CALL}_error)",
            f"        return {CALL}_state.result()",
        ]
    else:
        lines.append(f"        return {CALL}({values})")
    lines.append("    return stub")
    return compile("\n".join(lines) + "\n", "<stub>", "exec", dont_inherit=True)


def _parameters(args: ast.arguments) -> str:
    """The parameter list without defaults, which belong to the function object."""
    parts = [arg.arg for arg in args.posonlyargs]
    parts += ["/"] if parts else []
    parts += [arg.arg for arg in args.args]
    if args.vararg or args.kwonlyargs:
        parts.append("*" + (args.vararg.arg if args.vararg else ""))
    parts += [arg.arg for arg in args.kwonlyargs]
    parts += ["**" + args.kwarg.arg] if args.kwarg else []
    return ", ".join(parts)
