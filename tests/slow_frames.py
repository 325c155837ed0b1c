"""Part of the second implementation: variables, frames, steps, and how errors of the program travel.

An error of the program travels through the interpreter inside `Raised`: the interpreter is made of
generators, which would turn a plain StopIteration into a RuntimeError.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

from slow_scopes import Scope

from rewards.values import Unrepresentable, canonical, type_name

Walk = Generator[Any, Any, Any]
"""A piece of work that may be suspended by a `yield` of the program."""


class Unsupported(BaseException):
    """The program does what this interpreter does not know; the argument names it."""


class Raised(BaseException):
    """An exception of the program on its way out."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem


class Thrown:
    """Sent into suspended work in place of a value: raise this there."""

    def __init__(self, problem: BaseException) -> None:
        self.problem = problem


def attempt(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call what may raise on behalf of the program."""
    try:
        return function(*args, **named)
    except (Unsupported, Raised):
        raise
    except RecursionError as error:
        raise Unsupported("RecursionError") from error
    except BaseException as error:
        problem = error
    raise Raised(problem)


def throw(problem: BaseException) -> None:
    """Raise what was raised before: its context stays what it was."""
    context = problem.__context__
    try:
        raise problem
    finally:
        problem.__context__ = context


@dataclass(frozen=True)
class Held:
    """What a variable held."""

    type: str
    text: str | None
    """Canonical text, None if it has none."""


def held(value: object) -> Held:
    try:
        return Held(type_name(value), canonical(value))
    except Unrepresentable:
        return Held(type_name(value), None)


class Env:
    """The variables of one activation of a scope."""

    __slots__ = ("cells", "frame", "globals", "names", "parent", "qualname", "scope")

    def __init__(self, scope: Scope, parent: Env | None, qualname: str, frame: Frame | None):
        self.scope = scope
        self.parent = parent
        self.qualname = qualname
        self.frame = frame
        self.cells = {name: types.CellType() for name in sorted(scope.locals())}
        self.names: Any = None
        """The namespace of a module or of a class body."""
        self.globals: dict[str, Any] = parent.globals if parent is not None else {}

    def cell(self, name: str) -> types.CellType | None:
        """Where `name` lives; None if it is a global (or a name of this class body)."""
        owner = self.scope.owner(name)
        if owner is None or (owner is self.scope and self.names is not None):
            return None
        env: Env | None = self
        while env is not None and env.scope is not owner:
            env = env.parent
        assert env is not None
        return env.cells[name]

    def inner_qualname(self, name: str, bound_name: str) -> str:
        """What a `def` or `class` here is called."""
        if self.scope.kind == "module" or bound_name in self.scope.globals:
            return name
        if self.scope.kind == "class":
            return f"{self.qualname}.{name}"
        return f"{self.qualname}.<locals>.{name}"

    def visible(self) -> dict[str, object]:
        """Locals, parameters and free variables that are bound."""
        if self.names is not None:
            found = {name: value for name, value in self.names.items() if isinstance(name, str)}
        else:
            found = {}
            for name in sorted(self.scope.locals() | self.scope.free):
                cell = self.cell(name)
                if cell is not None and is_bound(cell):
                    found[name] = cell.cell_contents
        return found


def is_bound(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def is_dunder(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


@dataclass(eq=False)
class Frame:
    """One activation of a function or class body."""

    function: str
    number: int | None = None
    """None while it has not run during the entry."""
    depth: int = 0
    env: Any = None
    returned: Held | None = None


@dataclass(eq=False)
class Step:
    """One execution of one statement."""

    line: int
    col: int
    kind: str
    frame: int
    function: str
    visit: int = 0
    outcome: str = "unfinished"
    arm: str | None = None
    """Which way a header went."""
    end: int = -1
    """How many steps had started when it ended."""
    next: int = -1
    state: dict[str, Held] = field(default_factory=dict)
    """By name: what the variables of its frame held when it ended."""


class Recorder:
    """Keeps the steps of one run, while it is switched on."""

    def __init__(self, max_steps: int) -> None:
        self.active = False
        self.max_steps = max_steps
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.stack: list[Frame] = []
        self.suspended: set[Frame | None] = set()
        """Frames of generators that wait at a `yield`."""

    def push(self, frame: Frame) -> None:
        """The frame runs (again)."""
        self.stack.append(frame)
        if self.active and frame.number is None:
            self.frames.append(frame)
            frame.number = len(self.frames)
            frame.depth = len(self.stack)
        if len(self.stack) > 300:
            raise Unsupported("deep recursion")

    def start(self, node: Any, frame: Frame | None) -> tuple[Step, Frame] | None:
        if not self.active or frame is None:
            return None
        assert frame.number is not None and frame is self.stack[-1]
        if len(self.steps) >= self.max_steps:
            raise Unsupported(f"more than {self.max_steps} steps")
        kind = type(node).__name__
        step = Step(node.lineno, node.col_offset, kind, frame.number, frame.function)
        self.steps.append(step)
        return step, frame

    def finish(
        self,
        started: tuple[Step, Frame] | None,
        outcome: str = "completed",
        arm: str | None = None,
    ) -> None:
        """The step ends now, unless it has ended before (or the entry has)."""
        if started is None or not self.active or started[0].outcome != "unfinished":
            return
        step, frame = started
        step.outcome, step.arm, step.end = outcome, arm, len(self.steps)
        visible = frame.env.visible().items()
        step.state = {name: held(value) for name, value in visible if not is_dunder(name)}

    def close(self) -> None:
        """Fill in what is known only at the end."""
        self.active = False
        visits: dict[int, int] = {}
        for step in self.steps:
            visits[step.line] = step.visit = visits.get(step.line, 0) + 1
            if 0 <= step.end < len(self.steps):
                step.next = self.steps[step.end].line

    def forget(self) -> int:
        """Let go of the program's values. How many frames of the run are still suspended."""
        for frame in self.frames:
            frame.env = None
        left = sum(frame.number is not None for frame in self.suspended if frame is not None)
        self.suspended.clear()
        return left
