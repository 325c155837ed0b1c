"""What is true of an execution: the right answer to a question, from the trace and the states.

Covers every kind of the table in "Trace semantics" of the design. Does not cover whether a question is
fair (`rules.py`): `truth` gives None only where there is no one answer, or what it rests on was not
captured (`moments` says what that is).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from rewards.row import Question, ValueAnswer
from rewards.values import parse_tree
from synth.questions.facts import Facts, facts_of, literals
from synth.states import Held, States
from synth.traces import Step, Trace

__all__ = ["Answers", "Context", "Incident", "Moments", "moments", "truth"]

Answers = tuple[ValueAnswer | str, ...]
NOTHING: Answers = ("Nil",)
END: Answers = ("-1",)


class Incident(NamedTuple):
    """The one exception of a run."""

    origin: Step
    """The step in which it was raised."""
    steps: frozenset[int]
    """All steps that it ended."""
    handler: Step | None
    """The first step of the `except` block that caught it; None if that is not plain to see."""


@dataclass(frozen=True)
class Context:
    """A row's program and execution, and the questions of the row, for looking things up."""

    code: str
    entry: str
    args: str
    """Text of the argument list."""
    output: str
    """Canonical text of the result; empty if there is none."""
    trace: Trace
    states: States | None
    """None while nothing has been captured: then nothing is known of values."""
    questions: tuple[Question, ...] = ()
    others: tuple[States, ...] = ()
    """The same run under other hash seeds: a value that differs there has no text."""

    @cached_property
    def facts(self) -> Facts:
        return facts_of(self.code)

    @cached_property
    def visits(self) -> Mapping[int, list[int]]:
        """Line -> the steps that start there, in order."""
        found: dict[int, list[int]] = {}
        for step, statement in enumerate(self.trace.sequence):
            found.setdefault(self.trace.statements[statement].line, []).append(step)
        return found

    def step(self, question: Question) -> Step | None:
        """The step that a question with a line asks about; None if there is none."""
        here = self.visits.get(question.line or 0, [])
        visit = question.visit or 0
        return self.trace.steps[here[visit - 1]] if 1 <= visit <= len(here) else None

    def never_runs(self, line: int | None) -> bool:
        """Whether one statement of a function starts at a line, and no step does."""
        index = self.facts.alone_at(line)
        return index is not None and self.facts.inside(index) and line not in self.visits

    def held(self, step: int, variable: str) -> Held | None:
        """What a variable held when a step ended; None if unbound or not captured."""
        state = None if self.states is None else self.states.at(step)
        found = None if state is None else state.get(variable)
        if found is None:
            return None
        again = [(other.at(step) or {}).get(variable) for other in self.others]
        return found if all(one == found for one in again) else Held(found.type, None)

    def altered(self, step: int, variable: str) -> bool:
        """Whether a variable held something else at a step's end than at the frame's previous one."""
        now = self.held(step, variable)
        before = self.trace.previous.get(step)
        if now is None or self.states is None:
            return False
        if before is None:
            return True
        known = self.states.at(before)
        return known is not None and known.get(variable) != now

    @cached_property
    def incident(self) -> Incident | None:
        """The exception of the run; None if there was none, or several."""
        return _incident(self)

    @cached_property
    def returned_names(self) -> frozenset[str]:
        """Variables that the entry's last `return` shows as they are: `x` and `y` in `return [x, (y, 1)]`."""
        last = self.last_in_frame.get(1)
        node = None if last is None else self.facts.nodes[self.trace.sequence[last]]
        return frozenset(_shown_as_is(node.value)) if isinstance(node, ast.Return) else frozenset()

    @cached_property
    def output_parts(self) -> frozenset[str]:
        """Canonical texts of the output and of its parts."""
        return literals(parse_tree(self.output)) if self.output else frozenset()

    @cached_property
    def last_in_frame(self) -> Mapping[int, int]:
        """Frame -> its last step; no entry for a frame without any."""
        return {frame: step for step, frame in enumerate(self.trace.frame_numbers)}

    def returns_of(self, function: str) -> tuple[int, ...]:
        """Frames of a function that returned, in order of returning; empty where that is uncertain."""
        facts = self.facts
        index = facts.functions.get(function)
        if index is None or not _returns_plainly(facts, index):
            return ()
        done: list[tuple[int, int, int]] = []
        for frame in self.frames_of(function):
            last = self.last_in_frame.get(frame)
            if last is None:
                return ()  # a body without statements
            if self.trace.outcomes[last] == "completed":
                done.append((self.trace.ends[last], -self.trace.frames[frame - 1].depth, frame))
        return tuple(frame for _, _, frame in sorted(done))

    def frames_of(self, function: str) -> list[int]:
        """Numbers of the frames of a function of `Facts.functions`."""
        return [
            frame.number
            for frame in self.trace.frames
            if not frame.is_class and frame.function.rpartition(".")[2] == function
        ]


def _next_statement(context: Context, question: Question) -> Answers | None:
    step = context.step(question)
    if step is None:
        return END if question.visit == 1 and context.never_runs(question.line) else None
    if step.outcome == "unfinished":
        return None
    return _statement_of(context, step.next_index) or END


def _statement_of(context: Context, step: int) -> Answers:
    """The first line of a step's statement, if there is such a step."""
    return (context.facts.text(context.trace.sequence[step]),) if step >= 0 else ()


def _value(context: Context, question: Question) -> Answers | None:
    step = context.step(question)
    if step is None:
        return NOTHING if question.visit == 1 and context.never_runs(question.line) else None
    if step.outcome != "completed" or question.variable is None:
        return None
    return _written(context.held(step.index, question.variable))


def _written(held: Held | None) -> Answers | None:
    return None if held is None or held.text is None else (ValueAnswer(held.text, held.type),)


def _executed(context: Context, question: Question) -> Answers | None:
    return (str(question.line in context.visits),)


def _visits(context: Context, question: Question) -> Answers | None:
    return (str(len(context.visits.get(question.line or 0, ()))),)


def _branch(context: Context, question: Question) -> Answers | None:
    step = context.step(question)
    if step is None or context.facts.kind(step.statement) not in ("If", "While"):
        return None
    return {"true": ("True",), "false": ("False",)}.get(step.arm or "")


def _call_entry(context: Context, question: Question) -> Answers | None:
    step = context.step(question)
    return None if step is None else _statement_of(context, step.inner_index) or None


def _changed(context: Context, question: Question) -> Answers | None:
    """Only where all that the frame holds has a text: of other objects no one sees whether they change."""
    step = context.step(question)
    if step is None or step.outcome != "completed" or context.states is None:
        return None
    now, change = context.states.at(step.index), context.states.change(step.index)
    if now is None or change is None or change.removed:
        return None
    if any(held.text is None for held in now.values()):
        return None
    if any(other.change(step.index) != change for other in context.others):
        return None
    return (", ".join(sorted(change.changed)),) if change.changed else NOTHING


def _depth(context: Context, question: Question) -> Answers | None:
    step = context.step(question)
    return None if step is None else (str(context.trace.frames[step.frame - 1].depth),)


def _frames(context: Context, question: Question) -> Answers | None:
    name = question.function
    known = name is not None and name in context.facts.functions
    return (str(len(context.frames_of(name or ""))),) if known else None


def _returned(context: Context, question: Question) -> Answers | None:
    frames = context.returns_of(question.function or "")
    call = question.call or 0
    if not 1 <= call <= len(frames) or context.states is None:
        return None
    found = context.states.returned(frames[call - 1])
    steady = all(other.returned(frames[call - 1]) == found for other in context.others)
    return _written(found) if steady else None


def _raised(context: Context, question: Question) -> Answers | None:
    if "raised" not in context.trace.outcomes:
        return NOTHING
    incident = context.incident
    if incident is None or incident.handler is None:
        return None
    name = handler_name(context, incident.handler)
    if name is None or name in context.facts.bound(incident.handler.statement):
        return None
    held = context.held(incident.handler.index, name)
    return None if held is None else (held.type,)


def _raised_at(context: Context, question: Question) -> Answers | None:
    if "raised" not in context.trace.outcomes:
        return NOTHING
    return _statement_of(context, context.incident.origin.index) if context.incident else None


def _handler(context: Context, question: Question) -> Answers | None:
    if "raised" not in context.trace.outcomes:
        return NOTHING
    if context.incident is None or context.incident.handler is None:
        return None
    return (handler_line(context, context.incident.handler),)


def handler_line(context: Context, first: Step) -> str:
    """The `except` line of the block that a step begins."""
    return context.facts.lines[_handler_node(context, first).lineno - 1].rstrip()


def handler_name(context: Context, first: Step) -> str | None:
    """`e` of `except … as e`."""
    return _handler_node(context, first).name


def _handler_node(context: Context, first: Step) -> ast.ExceptHandler:
    statement = context.facts.statements[first.statement]
    handlers: list[ast.ExceptHandler] = context.facts.nodes[statement.parent].handlers  # type: ignore[attr-defined]
    return handlers[int(statement.arm.removeprefix("except "))]


TRUTHS: Mapping[str, Callable[[Context, Question], Answers | None]] = {
    "next_statement": _next_statement,
    "value": _value,
    "executed": _executed,
    "visits": _visits,
    "branch": _branch,
    "call_entry": _call_entry,
    "changed": _changed,
    "depth": _depth,
    "frames": _frames,
    "returned": _returned,
    "raised": _raised,
    "raised_at": _raised_at,
    "handler": _handler,
}


def truth(context: Context, question: Question) -> Answers | None:
    """All right answers to a question, whatever answers it carries itself."""
    return TRUTHS[question.kind](context, question)


class Moments(NamedTuple):
    """What must be captured, as `states.needed` takes it."""

    steps: Mapping[int, frozenset[str]]
    """Step -> the variables wanted at its end."""
    changes: tuple[int, ...] = ()
    returns: tuple[int, ...] = ()
    """Numbers of frames."""


def moments(context: Context, questions: Iterable[Question]) -> Moments:
    """What the answers to some questions, and the checks of their rules, rest on."""
    steps: dict[int, frozenset[str]] = {}
    changes: set[int] = set()
    returns: set[int] = set()
    for question in questions:
        step = None if question.line is None else context.step(question)
        if question.kind == "value" and step is not None and question.variable is not None:
            wanted = frozenset((question.variable,))
            steps[step.index] = steps.get(step.index, frozenset()) | wanted
            before = context.trace.previous.get(step.index)
            if before is not None and question.variable not in context.facts.bound(step.statement):
                steps[before] = steps.get(before, frozenset()) | wanted
        elif question.kind == "changed" and step is not None:
            changes.add(step.index)
        elif question.kind == "returned" and question.function is not None:
            frames = context.returns_of(question.function)
            returns.update(frames[(question.call or 1) - 1 : question.call])
        elif question.kind == "raised" and context.incident and context.incident.handler:
            first = context.incident.handler
            name = handler_name(context, first)
            if name is not None:
                steps[first.index] = steps.get(first.index, frozenset()) | {name}
    return Moments(dict(sorted(steps.items())), tuple(sorted(changes)), tuple(sorted(returns)))


def _shown_as_is(node: ast.expr | None) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        for element in node.elts:
            yield from _shown_as_is(element)
    elif isinstance(node, ast.Dict):
        for part in (*node.keys, *node.values):
            yield from _shown_as_is(part)


def _returns_plainly(facts: Facts, function: int) -> bool:
    """Whether a frame's last step tells that it returned: no `finally`, `with` or `yield` comes after."""
    waits = (
        ast.With,
        ast.AsyncWith,
        ast.Yield,
        ast.YieldFrom,
        ast.Try,
        getattr(ast, "TryStar", ast.Try),
    )
    return not facts.has(function, *waits)


def _incident(context: Context) -> Incident | None:
    trace = context.trace
    raised = [step for step in trace.steps if step.outcome == "raised"]
    if not raised or not all(_plain_frame(context, frame.function) for frame in trace.frames):
        return None
    # The innermost step ends first; of steps that end together the innermost started last.
    origin = min(raised, key=lambda step: (trace.ends[step.index], -step.index))
    outermost, chain = origin, {origin.index}
    while (caller := trace.frames[outermost.frame - 1].caller) >= 0:
        if trace.outcomes[caller] != "raised" or trace.ends[caller] != trace.ends[origin.index]:
            break
        outermost = trace.steps[caller]
        chain.add(caller)
    if chain != {step.index for step in raised}:
        return None
    following = outermost.next_index
    first = trace.steps[following] if following >= 0 else None
    return Incident(origin, frozenset(chain), first if _caught(context, outermost, first) else None)


def _caught(context: Context, raised: Step, first: Step | None) -> bool:
    """Whether step `first` begins an `except` block of a `try` around `raised`."""
    if first is None or first.frame != raised.frame:
        return False
    where = context.facts.statements[first.statement]
    tried = (where.parent, "body") in context.facts.blocks(raised.statement)
    return where.arm.startswith("except") and tried


def _plain_frame(context: Context, qualified: str) -> bool:
    """Whether a frame's function is known by name and is no generator, which is closed by exceptions."""
    facts = context.facts
    name = qualified.rpartition(".")[2]
    if name not in facts.functions:
        return False
    return not facts.has(facts.functions[name], ast.Yield, ast.YieldFrom)
