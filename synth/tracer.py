"""The recorder that runs in the guest: which statement starts when, in which frame, and when it ends.

Covers pass one of a trace, the sequence of steps as integers (`Recorder`, for the protocol of
`rewards/sandbox/performer.py`), pass two, what variables hold when given steps end, and the numbering
of statements that guest and host share (`survey`). Not covered: what the integers mean
(`decoding.py`); programs whose lines tell enough have a cheaper recorder (`linetracer.py`).
Self-contained: standard library only, one file, Python 3.10 to 3.13.

Mechanism: the program's tree is instrumented before it is compiled. A statement is preceded by a
call of one C function, `deque.append`, with a small integer; nothing else runs in between.

* Why not `sys.settrace`: it reports lines, not statements (`a; b`, a call spread over lines), says
  nothing about `pass` and constant expressions, which the compiler removes, or about where a
  statement ends before `__exit__` and `finally` run; a program can switch it off, and the
  interpreter drops it at the recursion limit. Its events differ between versions. The calls here
  are the same on all of them. Cost of 100k small steps, times plain execution: settrace with line
  numbers 3.7, this 2.5 (loops) to 5.5 (calls, generators); of 400 CRUXEval programs with their
  compilation: 4.
* Why a C function: no Python frame is pushed, so recursion depth stays the program's own.
* Why constants: the function stands in `co_consts` of the instrumented code, put there after
  compilation in place of a marker text. No name is added to any scope, so `locals()`, `globals()`,
  `dir()`, name mangling, `del` and shadowed builtins have nothing to meet.
* Memory is bounded: the deque drops its oldest entry when full. The oldest is a sentinel whose
  finalizer keeps a copy of the first events and raises the flag `step_limit`.

Events, `kind + 8 * number` of a statement (see the constants): START; DONE, the open step of the
current frame has completed; PASSED, start and completion at once; FETCH, DONE and the START of the
next fetch of a `for`; TRUE and FALSE, which way a header went where its block starts with no step;
ENTER, a frame of that `def` or `class` begins; OTHER, see below. DONE is left out where the start
of the next sibling tells the same (`Site.before`). A negative even integer, `-id(frame)`, says that
a generator's frame runs (again); a negative odd one, `~id(frame)`, which frame a generator's was
entered from. The report has small numbers in their place: `-2n` and `-2n - 1` for the n-th frame.

Flags in the report: `step_limit`, `recursion_error`, `threads`, `async`, `generator_collected`,
`not_instrumented` (the compiler refused the instrumented program, but not the program: more than
about 17 nested blocks).

Known gaps: a RecursionError that is swallowed outside the program's own `try`, `with` and entry goes
unseen, as does one inside an exception group. A function called by a lambda that `yield from` runs
counts as called by whoever resumed the generator. Steps inside code that the program makes with
`exec` do not exist.
"""

from __future__ import annotations

import ast
import binascii
import gc
import itertools
import os
import re
import sys
import types
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

Hold = Callable[[object, int], "list[str | None]"]

START, DONE, PASSED, FETCH, TRUE, FALSE, ENTER, OTHER = range(8)
"""Kinds of event, the low three bits."""
EXIT, SUSPEND, RAISED, NOTHING, ASYNC = (OTHER + 8 * n for n in range(5))
"""Events without a statement: a frame ends; a generator is about to yield; the open step of the
current frame has raised; no event at all; a coroutine began."""
FIRST_CASE = OTHER + 8 * 16
"""FIRST_CASE + 8 * n: case n of the open `match` was chosen, and its block begins with no step."""

MAX_STEPS = 100_000
CAPTURE_FRAMES = 500
"""What writing a value down may need of the stack: the depth of values is bounded."""
EVENTS_PER_STEP = 6
"""Bound on what is kept, in events for each step allowed. A step has 2 or 3; calls add 2."""

FunctionNode = (ast.FunctionDef, ast.AsyncFunctionDef)
ScopeNode = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
LoopNode = (ast.For, ast.While, ast.AsyncFor)
WithNode = (ast.With, ast.AsyncWith)
TryNode: tuple[type[ast.AST], ...] = (ast.Try, getattr(ast, "TryStar", ast.Try))
NONE = -1


# The numbering that guest and host share.


class Site(NamedTuple):
    """Where a statement stands in its program; its number is its place in `survey`'s list."""

    node: ast.stmt
    parent: int
    """Number of the statement that holds it, NONE at module level."""
    arm: str
    """Which block of the parent: "true", "false", "body", "else", "finally", "except 0", "case 0"."""
    function: int
    """Number of the innermost `def` or `class` around it, NONE at module level."""
    before: int
    """If this number's step is open when this statement starts in the same frame, it has completed:
    the header that leads here, or the simple statement just before. NONE if there is none."""


def is_step(statement: ast.stmt) -> bool:
    """Whether execution of a statement is a step; docstrings are left out by `own_body`."""
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None
    return not isinstance(statement, (ast.Global, ast.Nonlocal))


def has_docstring(scope: ast.AST) -> bool:
    """Whether the first statement of a module, class or function is its docstring."""
    body: list[ast.stmt] = scope.body  # type: ignore[attr-defined]
    if not body or not isinstance(body[0], ast.Expr):
        return False
    value = body[0].value
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def own_body(scope: ast.AST) -> list[ast.stmt]:
    """The statements of a module, class or function without its docstring."""
    body: list[ast.stmt] = scope.body  # type: ignore[attr-defined]
    return body[1:] if has_docstring(scope) else body


def arms(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The blocks of a compound statement by name, in the order in which they stand in the text."""
    if isinstance(node, (ast.If, *LoopNode)):
        yield "true", node.body
        yield "false", node.orelse
    elif isinstance(node, WithNode):
        yield "body", node.body
    elif isinstance(node, ScopeNode):
        yield "body", own_body(node)
    elif isinstance(node, ast.Match):
        for number, case in enumerate(node.cases):
            yield f"case {number}", case.body
    elif isinstance(node, TryNode):
        yield "body", node.body  # type: ignore[attr-defined]
        for number, handler in enumerate(node.handlers):  # type: ignore[attr-defined]
            yield f"except {number}", handler.body
        yield "else", node.orelse  # type: ignore[attr-defined]
        yield "finally", node.finalbody  # type: ignore[attr-defined]


def leads(node: ast.stmt) -> bool:
    """Whether a header's step is still open when one of its blocks is reached."""
    return isinstance(node, (ast.If, ast.Match, *LoopNode, *WithNode))


def survey(tree: ast.Module) -> list[Site]:
    """All statements that can be steps, numbered in the order of the text, parents first."""
    sites: list[Site] = []

    def block(body: list[ast.stmt], parent: int, arm: str, function: int, before: int) -> None:
        for node in body:
            if not is_step(node):
                before = NONE
                continue
            number = len(sites)
            sites.append(Site(node, parent, arm, function, before))
            inside = number if isinstance(node, ScopeNode) else function
            header = number if leads(node) else NONE
            compound = False
            for name, inner in arms(node):
                compound = True
                block(inner, number, name, inside, header)
            simple = not compound or isinstance(node, ScopeNode)
            before = number if simple else NONE

    block(own_body(tree), NONE, "", NONE, NONE)
    return sites


# Nodes that are put into the tree.

# What a program cannot write down, since it changes with every process. A text in `co_consts` that
# starts so is replaced by the function it stands for.
_MARK = f"\0{os.urandom(12).hex()}:"
_AT: dict[str, Any] = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
# Instrumented nodes never raise, so where they stand is never seen; one place lets programs share
# them, and building nodes is most of what instrumenting costs.


def _callable(name: str) -> ast.expr:
    """A function from `Recorder`'s bindings, in the position of what is called.

    The compiler warns of a constant that is called. It does not look into a conditional
    expression, and removes the condition.
    """
    return ast.IfExp(
        test=ast.Constant(value=True, **_AT),
        body=ast.Constant(value=_MARK + name, **_AT),
        orelse=ast.Constant(value=None, **_AT),
        **_AT,
    )


def _call(name: str, *args: ast.expr) -> ast.Call:
    return ast.Call(func=_callable(name), args=list(args), keywords=[], **_AT)


def _number(value: int) -> ast.Constant:
    return ast.Constant(value=value, **_AT)


class _Events(dict[int, ast.Expr]):
    """The statement that appends an event, by its integer; made once in a process."""

    def __missing__(self, event: int) -> ast.Expr:
        node = self[event] = ast.Expr(value=_call("append", _number(event)), **_AT)
        return node


_EVENT = _Events()
_FIRST = ast.Subscript(value=_call("exc_info"), slice=_number(0), ctx=ast.Load(), **_AT)
_SEEN = ast.Expr(value=_call("seen", _call("id", _FIRST), _FIRST), **_AT)
_SWITCH_CALL = _call(
    "append", ast.UnaryOp(op=ast.USub(), operand=_call("id", _call("getframe")), **_AT)
)
_SWITCH = ast.Expr(value=_SWITCH_CALL, **_AT)
_BACK = ast.Attribute(value=_call("getframe"), attr="f_back", ctx=ast.Load(), **_AT)
_CALLER = ast.Expr(
    value=_call("append", ast.UnaryOp(op=ast.Invert(), operand=_call("id", _BACK), **_AT)), **_AT
)
_SLOT = ast.Constant(value=_MARK + "slot", **_AT)
_THROWN = ast.Expr(value=_call("thrown"), **_AT)
_RERAISE = ast.Raise(exc=None, cause=None, **_AT)
_ANY_ERROR = ast.Constant(value=_MARK + "BaseException", **_AT)


def _then(value: ast.expr, after: ast.expr) -> ast.expr:
    """An expression with the value of `value`, after which `after` is evaluated."""
    pair = ast.Tuple(elts=[value, after], ctx=ast.Load(), **_AT)
    return ast.Subscript(value=pair, slice=_number(0), ctx=ast.Load(), **_AT)


def _on_error(body: list[ast.stmt], *events: ast.stmt) -> list[ast.stmt]:
    """`body`, with `events` before an exception goes on its way."""
    handler = ast.ExceptHandler(type=_ANY_ERROR, name=None, body=[*events, _RERAISE], **_AT)
    return [ast.Try(body=body, handlers=[handler], orelse=[], finalbody=[], **_AT)]


# Yields: only those that suspend the function itself.

_BLOCK_FIELDS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})


def _own_expressions(node: ast.AST) -> Iterator[tuple[ast.AST, str, Any]]:
    """Fields of a node that are evaluated in its own frame, blocks and lambdas left out."""
    if isinstance(node, ast.Lambda):
        yield node, "args", node.args
        return
    skipped = _BLOCK_FIELDS if isinstance(node, (ast.stmt, ast.match_case)) else frozenset()
    for name, value in ast.iter_fields(node):
        if name == "cases":
            for case in value:
                yield case, "guard", case.guard
        elif name not in skipped:
            yield node, name, value


def _has_yield(node: ast.AST) -> bool:
    """Whether evaluating a statement's own expressions can suspend the frame."""
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        return True
    for _, _, value in _own_expressions(node):
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST) and _has_yield(child):
                return True
    return False


def _is_generator(body: list[ast.stmt]) -> bool:
    for node in body:
        if _has_yield(node):
            return True
        if not isinstance(node, ScopeNode) and any(_is_generator(b) for _, b in arms(node)):
            return True
    return False


def _mark_yields(node: ast.AST) -> ast.AST:
    """The node with events around each of its own yields; changed in place where possible."""
    for owner, name, value in list(_own_expressions(node)):
        if isinstance(value, list):
            value[:] = [_mark_yields(v) if isinstance(v, ast.AST) else v for v in value]
        elif isinstance(value, ast.AST):
            setattr(owner, name, _mark_yields(value))
    if isinstance(node, (ast.Yield, ast.YieldFrom)):
        value = node.value or ast.Constant(value=None, **_AT)
        node.value = _then(value, _EVENT[SUSPEND].value)
        return _then(node, _SWITCH_CALL)
    return node


# The instrumentation itself.


def _continues_through(body: list[ast.stmt], cleanup: bool = False) -> bool:
    """Whether a `continue` of the loop with this body leaves a `with`, `finally` or handler.

    Code of the program can run between such a `continue` and the next fetch.
    """
    for node in body:
        if isinstance(node, ast.Continue):
            if cleanup:
                return True
        elif isinstance(node, LoopNode):
            if _continues_through(node.orelse, cleanup):
                return True
        elif not isinstance(node, ScopeNode):
            final = isinstance(node, TryNode) and bool(node.finalbody)  # type: ignore[attr-defined]
            for name, inner in arms(node):
                inside = final or isinstance(node, WithNode) or name.startswith("except")
                if _continues_through(inner, cleanup or inside):
                    return True
    return False


def _is_plain(handler_type: ast.expr | None) -> bool:
    """Whether finding out what an `except` clause catches runs no code of the program."""
    if handler_type is None or isinstance(handler_type, (ast.Name, ast.Constant)):
        return True
    return isinstance(handler_type, ast.Tuple) and all(map(_is_plain, handler_type.elts))


class _Instrumenter:
    """Puts events into a tree, in place."""

    def __init__(self, sites: list[Site], source: str, captures: bool) -> None:
        self.captures = captures
        self.number = {site.node: number for number, site in enumerate(sites)}
        self.has_yields = "yield" in source
        self.delegates = self.has_yields and re.search(r"\byield\s+from\b", source) is not None
        self.has_continues = "continue" in source
        self.generator = False
        self.loops: list[int] = []
        """For each loop around: its number if it is a `for` whose fetches are announced by the
        statements before them, else NONE."""
        self.handlers: dict[type[ast.stmt], Callable[[Any, int, list[ast.stmt]], None]] = {
            ast.If: self.if_,
            ast.While: self.while_,
            ast.For: self.for_,
            ast.With: self.with_,
            ast.Match: self.match_,
            ast.Return: self.return_,
            ast.Continue: self.continue_,
        }
        for kind in TryNode:
            self.handlers[kind] = self.try_  # type: ignore[index]

    def outside(self, body: list[ast.stmt]) -> None:
        """Statements that run before the entry does: only the functions in them are watched."""
        for node in body:
            if isinstance(node, FunctionNode):
                self.scope(node)
            else:
                for _, inner in arms(node):
                    self.outside(inner)

    def scope(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        """The body of a function, or of a class inside a function: a frame."""
        body = own_body(node)
        doc = node.body[: len(node.body) - len(body)]
        if isinstance(node, ast.AsyncFunctionDef):
            node.body = [*doc, _EVENT[ASYNC], *body]
            return
        outer = self.generator, self.loops
        self.generator = (
            self.has_yields and not isinstance(node, ast.ClassDef) and _is_generator(body)
        )
        self.loops = []
        events: list[ast.stmt] = [_EVENT[ENTER + 8 * self.number[node]]]
        if self.generator:
            events += (_SWITCH, _CALLER)
        elif self.delegates:
            events.append(_CALLER)  # it may be a generator that waits in `yield from`
        watched = self.block(body) or [_EVENT[NOTHING]]
        whole = ast.Try(body=watched, handlers=[], orelse=[], finalbody=[_EVENT[EXIT]], **_AT)
        node.body = [*doc, *events, whole]
        self.generator, self.loops = outer

    def block(self, body: list[ast.stmt], reached: int = NONE) -> list[ast.stmt]:
        """The statements of a block with their events.

        `reached`: the event that says that the header has completed, if the first step's start
        cannot say so; NONE where no header leads to the block.
        """
        out: list[ast.stmt] = []
        if reached != NONE and not (body and is_step(body[0])):
            out.append(_EVENT[reached])
        last = len(body) - 1
        for place, node in enumerate(body):
            if not is_step(node):
                out.append(node)
                continue
            number = 8 * self.number[node]
            own: list[ast.stmt] = []
            suspends = self.generator and _has_yield(node)
            if suspends:
                _mark_yields(node)
            handler = self.handlers.get(type(node))
            if handler is not None:
                handler(node, number, own)
            else:
                followed = place < last and is_step(body[place + 1])
                self.simple(node, number, own, followed)
            if suspends:
                own = _on_error(own, _SWITCH, _THROWN)
            out += own
        return out

    def simple(self, node: ast.stmt, number: int, out: list[ast.stmt], followed: bool) -> None:
        """A statement without blocks, a `def` or a `class`."""
        if isinstance(node, ast.Pass) or (
            isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        ):
            out.append(_EVENT[PASSED + number])
            return
        if isinstance(node, ast.Break):
            out += (_EVENT[PASSED + number], node)
            return
        if isinstance(node, ScopeNode):
            self.scope(node)
        out += (_EVENT[START + number], node)
        if not followed and not isinstance(node, ast.Raise):
            out.append(_EVENT[DONE + number])

    def return_(self, node: ast.Return, number: int, out: list[ast.stmt]) -> None:
        if node.value is None or isinstance(node.value, ast.Constant):
            if self.captures:
                value = node.value or ast.Constant(value=None, **_AT)
                node.value = _call("returned", _number(PASSED + number), value)
                out.append(node)
            else:
                out += (_EVENT[PASSED + number], node)
            return
        out += (_EVENT[START + number], node)
        if self.captures:
            node.value = _call("returned", _number(DONE + number), node.value)
        else:
            node.value = _then(node.value, _EVENT[DONE + number].value)

    def continue_(self, node: ast.Continue, number: int, out: list[ast.stmt]) -> None:
        out.append(_EVENT[PASSED + number])
        if self.loops and self.loops[-1] != NONE:
            out.append(_EVENT[START + self.loops[-1]])
        out.append(node)

    def if_(self, node: ast.If, number: int, out: list[ast.stmt]) -> None:
        node.body = self.block(node.body, TRUE + number)
        node.orelse = self.block(node.orelse, FALSE + number)
        out += (_EVENT[START + number], node)

    def while_(self, node: ast.While, number: int, out: list[ast.stmt]) -> None:
        self.loops.append(NONE)
        node.body = self.block(node.body, TRUE + number)
        self.loops.pop()
        node.orelse = self.block(node.orelse, FALSE + number)
        # `append` returns None, so the condition is what decides.
        start = _EVENT[START + number].value
        node.test = ast.BoolOp(op=ast.Or(), values=[start, node.test], **_AT)
        out.append(node)

    def for_(self, node: ast.For, number: int, out: list[ast.stmt]) -> None:
        announced = not (self.has_continues and _continues_through(node.body))
        self.loops.append(number if announced else NONE)
        node.body = self.block(node.body, TRUE + number)
        self.loops.pop()
        node.orelse = self.block(node.orelse, FALSE + number)
        out += (_EVENT[START + number], node)
        if not announced:
            node.iter = self.announcing(node.iter, number)
            return
        tail = node.body[-1]
        event = self.event_of(tail)
        if event is not None and event % 8 == DONE:
            node.body[-1] = _EVENT[FETCH + number]
        else:
            node.body.append(_EVENT[START + number])

    def event_of(self, node: ast.stmt) -> int | None:
        """The integer of an event statement, None for a statement of the program."""
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            args = node.value.args
            if args and isinstance(args[0], ast.Constant) and type(args[0].value) is int:
                event = args[0].value
                return event if _EVENT.get(event) is node else None
        return None

    def announcing(self, iterable: ast.expr, number: int) -> ast.expr:
        """An iterator over `iterable`, all in C, that appends START before each fetch but the first.

        `{}.get(None, item)` is the item; `None` is what `append` returned.
        """
        events = _call(
            "chain",
            ast.Tuple(elts=[_number(NOTHING)], ctx=ast.Load(), **_AT),
            _call("repeat", _number(START + number)),
        )
        appended = _call("map", ast.Constant(value=_MARK + "append", **_AT), events)
        return _call("map", ast.Constant(value=_MARK + "second", **_AT), appended, iterable)

    def with_(self, node: ast.With, number: int, out: list[ast.stmt]) -> None:
        inner = self.block(node.body, DONE + number)
        # `with a, b` is `with a: with b`: entering b may raise, and then `a.__exit__` runs.
        for item in reversed(node.items[1:]):
            inner = _on_error(self.bound(item) + inner, _EVENT[RAISED], _SEEN)
            place = {name: getattr(item.context_expr, name) for name in _AT}
            inner = [ast.With(items=[item], body=inner, **place)]
        node.body = _on_error(self.bound(node.items[0]) + inner, _EVENT[RAISED], _SEEN)
        node.items[1:] = []
        out += (_EVENT[START + number], node)

    def bound(self, item: ast.withitem) -> list[ast.stmt]:
        """Binds the target of `with … as target` where a failure is seen before `__exit__` runs.

        The value waits in a dict of ours for no longer than it takes to bind it: `slot[0]` is the
        target instead, and `target = slot.pop(0)` the first thing in the block.
        """
        target = item.optional_vars
        if target is None or isinstance(target, ast.Name):
            return []  # binding a name does not fail
        item.optional_vars = ast.Subscript(value=_SLOT, slice=_number(0), ctx=ast.Store(), **_AT)
        place = {name: getattr(target, name) for name in _AT}
        return [ast.Assign(targets=[target], value=_call("unslot", _number(0)), **place)]

    def match_(self, node: ast.Match, number: int, out: list[ast.stmt]) -> None:
        for index, case in enumerate(node.cases):
            case.body = self.block(case.body, FIRST_CASE + 8 * index)
        last = node.cases[-1]
        catches_all = isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        if not catches_all or last.guard is not None:
            anything = ast.MatchAs(pattern=None, name=None, **_AT)
            otherwise: list[ast.stmt] = [_EVENT[FALSE + number]]
            node.cases.append(ast.match_case(pattern=anything, guard=None, body=otherwise))
        out += (_EVENT[START + number], node)

    def try_(self, node: Any, number: int, out: list[ast.stmt]) -> None:
        node.body = self.block(node.body)
        # Where a name is bound to the exception, the step has ended before that.
        if not all(_is_plain(handler.type) and not handler.name for handler in node.handlers):
            node.body = _on_error(node.body, _EVENT[RAISED])
        for handler in node.handlers:
            handler.body = [_SEEN, *self.block(handler.body)]
            if handler.name:  # which Python unbinds on the way out, after the step has raised
                handler.body = _on_error(handler.body, _EVENT[RAISED])
        node.orelse = self.block(node.orelse)
        node.finalbody = self.block(node.finalbody)
        out += (_EVENT[PASSED + number], node)


_compiled: dict[tuple[str, str, bool], tuple[types.CodeType, bool]] = {}
"""The last program, instrumented but not bound: a group of calls compiles it once."""


def _compile(source: str, filename: str, captures: bool) -> tuple[types.CodeType, bool]:
    """The instrumented program, and whether it is instrumented at all."""
    known = _compiled.get((source, filename, captures))
    if known is not None:
        return known
    tree: Any = compile(source, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    instrumenter = _Instrumenter(survey(tree), source, captures)
    instrumenter.outside(tree.body)
    try:
        result = compile(tree, filename, "exec", dont_inherit=True), True
    except SyntaxError:
        # The program's own error comes with its text; what compiles now was too deeply nested.
        result = compile(source, filename, "exec", dont_inherit=True), False
    _compiled.clear()
    _compiled[source, filename, captures] = result
    return result


def _bind(code: types.CodeType, bindings: dict[str, object]) -> types.CodeType:
    """The code with each marker text in its constants replaced by what it stands for."""
    constants: list[object] = []
    changed = False
    for constant in code.co_consts:
        bound = constant
        if type(constant) is str:
            if constant.startswith(_MARK):
                bound = bindings[constant[len(_MARK) :]]
        elif type(constant) is types.CodeType:
            bound = _bind(constant, bindings)
        changed = changed or bound is not constant
        constants.append(bound)
    return code.replace(co_consts=tuple(constants)) if changed else code


# The recorder.


def _small(event: int, names: dict[int, int]) -> int:
    """The event with a small number in place of a frame's address (which is even)."""
    odd = event & 1
    address = ~event if odd else -event
    return -2 * names.setdefault(address, len(names) + 1) - odd


def _held(frame: types.FrameType, names: list[str] | None, most: int, hold: Hold) -> dict[str, Any]:
    """Variable -> what it holds, of those named (None: all) that are bound; dunders left out."""
    variables = frame.f_locals
    if names is None:
        names = [
            name for name in variables if name.isidentifier() and name[:2] + name[-2:] != "____"
        ]
    return {name: hold(variables[name], most) for name in names if name in variables}


class _Sentinel:
    """First entry of the events: dropped, and so finalized, when there are too many."""

    def __init__(self, overflow: Callable[[], None]) -> None:
        self.overflow = overflow

    def __del__(self) -> None:
        self.overflow()


_THREAD_STARTERS = (
    ("_thread", "start_new_thread"),
    ("_thread", "start_new"),
    ("_thread", "start_joinable_thread"),
    ("threading", "_start_new_thread"),
    ("threading", "_start_joinable_thread"),
)


class Recorder:
    """Watches one call of one program. See the module's text for what it records.

    Options: `max_steps`, an integer of at least 1; recording stops soon after that many steps.
    `capture`, for pass two: `states`, triples of the place of an event, the names of variables (null:
    all) that are written down at it, and the longest text of a value; `returned`, pairs of the place of
    an event that ends a `return`, whose value is written down, and the longest text.
    """

    hold: Hold
    """Value, most characters -> [name of its type, canonical text or None]; set after it is made."""

    def __init__(self, source: str, options: dict[str, Any]) -> None:
        self._source = source
        self._max_steps = int(options.get("max_steps", MAX_STEPS))
        if self._max_steps < 1:
            raise ValueError(f"max_steps must be at least 1, got {self._max_steps}")
        limit = EVENTS_PER_STEP * self._max_steps + 64
        self._events: deque[Any] = deque(maxlen=limit)
        self._capture: dict[str, Any] | None = options.get("capture")
        self._states: list[Any] = []
        self._returned: list[Any] = []
        self._kept: list[Any] | None = None
        self._seen: dict[int, type[BaseException]] = {}
        self._flags: set[str] = set()
        # Threads that are there before the program's first statement are not the program's.
        self._threads_before = sys.modules["_thread"]._count()
        self._watching = False
        self._collecting = False
        self._replaced: list[tuple[str, str, Any, Any]] = []

    def compile(self, filename: str) -> types.CodeType:
        """The program, instrumented. Raises what `compile` raises for the program itself."""
        captures = self._capture is not None
        code, instrumented = _compile(self._source, filename, captures)
        if not instrumented:
            self._flags.add("not_instrumented")
        append, returned = self._capturers() if captures else (self._events.append, None)
        slot: dict[int, object] = {}
        return _bind(
            code,
            {
                "append": append,
                "returned": returned,
                "id": id,
                "exc_info": sys.exc_info,
                "seen": self._seen.setdefault,
                "getframe": sys._getframe,
                "thrown": self._thrown,
                "chain": itertools.chain,
                "repeat": itertools.repeat,
                "map": map,
                "second": {}.get,
                "slot": slot,
                "unslot": slot.pop,
                "BaseException": BaseException,
            },
        )

    def namespace(self) -> dict[str, object]:
        """Nothing: the program's namespace is its own."""
        return {}

    def call(self, function: Callable[..., object], args: tuple[Any, ...], kwargs: Any) -> object:
        """`function(*args, **kwargs)` under watch; its exceptions go through unchanged."""
        self._begin()
        if self._capture is not None:
            sys.setrecursionlimit(sys.getrecursionlimit() + CAPTURE_FRAMES)
        try:
            return function(*args, **kwargs)
        except RecursionError:
            self._flags.add("recursion_error")
            raise
        finally:
            self._end()

    def report(self) -> dict[str, object]:
        """`{"version", "events", "flags", "max_steps"}`; events are zlib-packed 32-bit integers.

        With `capture` also `states`, pairs of a place and variables, and `returned`, pairs of a place
        and what was returned; a value is [name of its type, canonical text or null].
        """
        if any(issubclass(kind, RecursionError) for kind in self._seen.values()):
            self._flags.add("recursion_error")
        events = self._kept or []
        if events and min(events) < 0:
            names: dict[int, int] = {}
            events = [e if e >= 0 else _small(e, names) for e in events]
        packed = zlib.compress(array("i", events).tobytes(), 1)
        report: dict[str, object] = {
            "version": 1,
            "byteorder": sys.byteorder,
            "max_steps": self._max_steps,
            "flags": sorted(self._flags),
            "events": binascii.b2a_base64(packed, newline=False).decode("ascii"),
        }
        if self._capture is not None:
            report.update(states=self._states, returned=self._returned)
        return report

    def _capturers(self) -> tuple[Callable[[int], None], Callable[[int, object], object]]:
        """Stand-ins for `append` and for the end of a `return`, which write down what was asked for.

        They are Python functions and need a few frames of stack: pass one has shown that the program
        stays within its own limit, so a higher one changes nothing for it.
        """
        assert self._capture is not None
        events, hold = self._events, self.hold
        states = {int(place): (names, int(most)) for place, names, most in self._capture["states"]}
        wanted = {int(place): int(most) for place, most in self._capture["returned"]}

        def append(event: int) -> None:
            place = len(events) - 1  # the sentinel stands first
            if place in states:
                frame = sys._getframe(1)
                self._states.append([place, _held(frame, *states[place], hold)])
            events.append(event)

        def returned(event: int, value: object) -> object:
            place = len(events) - 1
            if place in wanted:
                self._returned.append([place, hold(value, wanted[place])])
            if place in states:
                frame = sys._getframe(1)
                self._states.append([place, _held(frame, *states[place], hold)])
            events.append(event)
            return value

        return append, returned

    def _begin(self) -> None:
        if sys.modules["_thread"]._count() > self._threads_before:
            self._flags.add("threads")  # one that module level started
        for module_name, name in _THREAD_STARTERS:
            module = sys.modules.get(module_name)
            original = getattr(module, name, None)
            if original is not None:
                watcher = self._watch_threads(original)
                self._replaced.append((module_name, name, original, watcher))
                setattr(module, name, watcher)
        gc.callbacks.append(self._collection)
        self._seen.clear()
        self._events.clear()
        self._watching = True
        self._events.append(_Sentinel(self._overflow))

    def _end(self) -> None:
        if self._kept is None:
            self._kept = list(self._events)[1:]
        self._watching = False
        self._events.clear()
        gc.callbacks.remove(self._collection)
        for module_name, name, original, _ in self._replaced:
            setattr(sys.modules[module_name], name, original)
        self._replaced.clear()

    def _overflow(self) -> None:
        if self._watching and self._kept is None:
            self._kept = list(self._events)
            self._flags.add("step_limit")

    def _watch_threads(self, start: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            self._flags.add("threads")
            return start(*args, **kwargs)

        return watched

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        self._collecting = phase == "start"

    def _thrown(self) -> None:
        """An exception leaves a yield: is a generator being closed because nobody holds it?"""
        closed = sys.exc_info()[0] is GeneratorExit and self._watching
        if closed and (self._collecting or self._is_abandoned(sys._getframe(1))):
            self._flags.add("generator_collected")

    def _is_abandoned(self, frame: types.FrameType) -> bool:
        """Whether the generator that runs in `frame` is held by nothing but its own finalization.

        `make().close()` looks the same; such a row is dropped without need.
        """
        objects = gc.get_objects()
        for candidate in objects:
            if type(candidate) is types.GeneratorType and candidate.gi_frame is frame:
                # Held by the list, the loop variable and the call; and by whoever else.
                return sys.getrefcount(candidate) - 3 <= 1
        return True
