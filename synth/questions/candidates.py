"""What could be asked of a run: candidates for every kind, with how much each asks for execution.

Covers pass one: which (line, visit), function or variable, without answers. Values are not known yet, so
a candidate may turn out unfair or dull when they are (`sampling.py`).
"""

from __future__ import annotations

import ast
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from rewards.row import Question
from synth.questions.records import Candidate
from synth.questions.truth import Context
from synth.seeds import rng
from synth.traces import Step

__all__ = ["candidates_of"]

VISITS_PER_LINE = 4
"""Steps of one line that become candidates."""
VALUES_PER_QUESTION = 2
"""States written down for each value that may be asked."""
VARIABLES_PER_PLACE = 2
"""Variables that are written down of one state."""
FEW = 3
"""Candidates of each of the kinds `changed` and `returned`, whose values cost a run too."""

_HEADERS = ("If", "While", "For", "Match")
_COMPOUND = (*_HEADERS, "Try", "TryStar", "With", "FunctionDef", "ClassDef")


def candidates_of(
    context: Context, kinds: Sequence[str], data_flow: int, seed: str
) -> tuple[Candidate, ...]:
    """Candidates of the given kinds; `data_flow`: how many questions about values there may be."""
    found: list[Candidate] = []
    for kind in kinds:
        draw = rng(seed, kind)
        made = list(_MAKERS[kind](context, draw))
        if kind == "value":
            made = _spread(made, VALUES_PER_QUESTION * data_flow, draw)
        elif kind in ("changed", "returned"):
            made = _spread(made, FEW, draw)
        found.extend(made)
    return tuple(found)


def _spread(made: list[Candidate], limit: int, draw: random.Random) -> list[Candidate]:
    """At most `limit` places, every line once before any line twice; a few variables of each."""
    order = sorted(made, key=lambda one: draw.random() ** (1 / one.weight), reverse=True)
    rounds: dict[object, list[Place]] = {}
    for one in order:
        question = one.question
        places = rounds.setdefault(question.line or question.function, [])
        if _place(question) not in places:
            places.append(_place(question))
    turns = (place for turn in itertools.zip_longest(*rounds.values()) for place in turn)
    chosen = set(itertools.islice((place for place in turns if place is not None), limit))
    # With few places to ask about, none of their variables is let go.
    most = VARIABLES_PER_PLACE if len(chosen) == limit else len(order)
    kept: list[Candidate] = []
    taken: Counter[Place] = Counter()
    for one in order:
        place = _place(one.question)
        if place in chosen and taken[place] < most:
            taken[place] += 1
            kept.append(one)
    return kept


Place = tuple[int | None, int | None, str | None, int | None]


def _place(question: Question) -> Place:
    return question.line, question.visit, question.function, question.call


def _some(steps: Sequence[int], draw: random.Random) -> list[int]:
    """A few visits of a line, late ones first of all."""
    if len(steps) <= VISITS_PER_LINE:
        return list(steps)
    late = steps[len(steps) // 2 : -1]
    early = steps[: len(steps) // 2]
    chosen = {steps[-1], draw.choice(early), *draw.sample(late, min(2, len(late)))}
    return sorted(chosen)


def _visited(context: Context, draw: random.Random) -> Iterator[Step]:
    """Some visits of every line that can be asked about."""
    for line in sorted(context.visits):
        if context.facts.alone_at(line) is not None:
            for step in _some(context.visits[line], draw):
                yield context.trace.steps[step]


def _untouched(context: Context) -> Iterator[tuple[int, int]]:
    """(line, statement) of what never runs and can be asked about."""
    for line, indices in sorted(context.facts.at_line.items()):
        if context.never_runs(line):
            yield line, indices[0]


def _at(kind: str, step: Step, weight: float) -> Candidate:
    return Candidate(Question(kind, (), line=step.line, visit=step.visit), weight)


def _next_statement(context: Context, draw: random.Random) -> Iterator[Candidate]:
    for step in _visited(context, draw):
        weight = _turn(context, step)
        if weight and not _ends_the_call(context, step):
            yield _at("next_statement", step, weight * _late(context, step))
    for line, _ in _untouched(context):
        yield Candidate(Question("next_statement", (), line=line, visit=1), 1.0)


def _ends_the_call(context: Context, step: Step) -> bool:
    """Whether it is a `return` of the entry after which nothing can run, as everybody sees."""
    if step.frame != 1 or context.facts.kind(step.statement) != "Return":
        return False
    around = {context.facts.kind(head) for head, _ in context.facts.blocks(step.statement)}
    return around.isdisjoint(("Try", "TryStar", "With"))


def _turn(context: Context, step: Step) -> float:
    """How little the text alone says of what comes after a step; 0 if it says all."""
    facts, trace = context.facts, context.trace
    if step.next_index < 0:
        return 1.0
    if step.outcome == "raised":
        return 6.0
    kind = facts.kind(step.statement)
    if kind in _HEADERS:
        in_loop = bool(facts.loops(step.statement)) or kind in ("While", "For")
        entering = step.visit == 1 and kind in ("While", "For")
        return 1.0 if entering else 4.0 if step.arm != "true" or in_loop else 3.0
    following = trace.steps[step.next_index]
    if following.frame != step.frame:
        return 5.0
    if step.inner_index >= 0:
        return 1.5
    straight = (
        trace.statements[step.statement].parent == trace.statements[following.statement].parent
    )
    if (
        straight
        and trace.statements[step.statement].arm == trace.statements[following.statement].arm
    ):
        return 0.0
    if trace.statements[following.statement].parent == step.statement:
        return 0.0  # into the block of `try` or `with`
    return 2.0  # back to the loop, out of a block


def _late(context: Context, step: Step) -> float:
    """1 for a line's only visit, up to 2 for late ones."""
    count = len(context.visits[step.line])
    return 1.0 if count == 1 else 0.5 + 1.5 * (step.visit - 1) / (count - 1)


def _value(context: Context, draw: random.Random) -> Iterator[Candidate]:
    facts = context.facts
    for step in _visited(context, draw):
        if step.outcome != "completed" or context.trace.frames[step.frame - 1].is_class:
            continue
        index = step.statement
        names = facts.bound(index) | facts.touched(index) | _parameters(context, step)
        weight = _late(context, step) * (0.3 if facts.copies(index) else 1.0)
        weight *= 1.5 if facts.conditional(index) or step.frame > 1 else 1.0
        for name in sorted(names - facts.given(index).keys()):
            bound = 1.0 if name in facts.bound(index) else 0.7
            yield Candidate(
                Question("value", (), line=step.line, visit=step.visit, variable=name),
                weight * bound,
            )
    for line, index in _untouched(context):
        for name in sorted(facts.bound(index)):
            yield Candidate(Question("value", (), line=line, visit=1, variable=name), 1.0)


def _parameters(context: Context, step: Step) -> frozenset[str]:
    """The parameters of the function, at the first step of a call that the program makes."""
    if step.index in context.trace.previous or step.frame == 1:
        return frozenset()
    node = context.facts.nodes[context.facts.function_of(step.statement)]
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return frozenset()
    args = node.args
    extra = [each for each in (args.vararg, args.kwarg) if each is not None]
    return frozenset(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs, *extra))


def _executed(context: Context, draw: random.Random) -> Iterator[Candidate]:
    """Lines that run or lines that do not. The former are more often ruled out by other questions, and
    in the end neither answer is much the better guess.
    """
    never = [line for line, index in _untouched(context) if context.facts.conditional(index)]
    runs = [
        line
        for line in sorted(context.visits)
        if (index := context.facts.alone_at(line)) is not None and context.facts.conditional(index)
    ]
    lines = runs if draw.random() < 0.7 else never
    for line in lines:
        yield Candidate(Question("executed", (), line=line), 1.0)


def _visits(context: Context, draw: random.Random) -> Iterator[Candidate]:
    for line in sorted(context.visits):
        index = context.facts.alone_at(line)
        count = len(context.visits[line])
        if index is not None and count > 1:
            yield Candidate(
                Question("visits", (), line=line),
                2.0 if len(context.facts.blocks(index)) > 2 else 1.0,
            )


def _branch(context: Context, draw: random.Random) -> Iterator[Candidate]:
    wanted = "true" if draw.random() < 0.5 else "false"
    for step in _visited(context, draw):
        if context.facts.kind(step.statement) in ("If", "While") and step.arm == wanted:
            yield _at("branch", step, _late(context, step))


def _call_entry(context: Context, draw: random.Random) -> Iterator[Candidate]:
    """Not with a single function to be called: then every answer is the first line of its body."""
    if len({frame.function for frame in context.trace.frames[1:]}) < 2:
        return
    for step in _visited(context, draw):
        if step.inner_index >= 0:
            yield _at("call_entry", step, _late(context, step))


def _changed(context: Context, draw: random.Random) -> Iterator[Candidate]:
    for step in _visited(context, draw):
        touched = context.facts.touched(step.statement) | context.facts.bound(step.statement)
        if context.facts.kind(step.statement) in ("Return", "Pass", "Break", "Continue"):
            continue  # whatever they touch, they seldom change it, and everybody knows
        if step.outcome == "completed" and touched and step.index in context.trace.previous:
            yield _at("changed", step, 2.0 if len(touched) > 1 else 1.0)


def _depth(context: Context, draw: random.Random) -> Iterator[Candidate]:
    """Not where calls go no deeper than one below the entry: then the function tells the depth."""
    if max(frame.depth for frame in context.trace.frames) < 3:
        return
    for step in _visited(context, draw):
        depth = context.trace.frames[step.frame - 1].depth
        if depth > 1:
            yield _at("depth", step, 1.0 if depth == 2 else 4.0)


def _frames(context: Context, draw: random.Random) -> Iterator[Candidate]:
    for name, index in sorted(context.facts.functions.items()):
        generator = context.facts.has(index, ast.Yield, ast.YieldFrom)
        if not generator and len(context.frames_of(name)) > 1:
            yield Candidate(Question("frames", (), function=name), 1.0)


def _returned(context: Context, draw: random.Random) -> Iterator[Candidate]:
    for name, index in sorted(context.facts.functions.items()):
        frames = context.returns_of(name)
        for call, frame in enumerate(frames, 1):
            if frame != 1 and not _says_one_thing(context, index):
                yield Candidate(Question("returned", (), function=name, call=call), float(call))


def _says_one_thing(context: Context, function: int) -> bool:
    """Whether all that a function can return stands in its text as one literal, or is nothing."""
    returns = [
        node.value
        for index, node in enumerate(context.facts.nodes)
        if isinstance(node, ast.Return) and context.facts.function_of(index) == function
        if node.value is not None
    ]
    told = {ast.dump(value) for value in returns}
    return len(told) <= 1 and all(isinstance(value, ast.Constant) for value in returns)


def _about_exceptions(kind: str) -> Callable[[Context, random.Random], Iterator[Candidate]]:
    def make(context: Context, draw: random.Random) -> Iterator[Candidate]:
        """Where one was raised; seldom where one could have been."""
        raised = "raised" in context.trace.outcomes
        tries = any(
            context.facts.kind(index) in ("Try", "TryStar") for index in context.trace.executed
        )
        if (raised and context.incident is not None) or (
            not raised and tries and draw.random() < 0.2
        ):
            yield Candidate(Question(kind, ()), 1.0)

    return make


_MAKERS: Mapping[str, Callable[[Context, random.Random], Iterator[Candidate]]] = {
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
    "raised": _about_exceptions("raised"),
    "raised_at": _about_exceptions("raised_at"),
    "handler": _about_exceptions("handler"),
}
