"""When the answer to one question of a row follows from another question and its answer.

Covers pairs of questions of one row, and the question for the output that every row begins with. It
errs on the side of caution: a pair counts as soon as the answer can follow under some reading. Does not
cover chains over three questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from rewards.row import Question, ValueAnswer
from rewards.values import ValueTextError, parse
from synth.questions.truth import Context

__all__ = ["IMPLICATIONS", "follows"]

Check = Callable[[Question, Question, Context], bool]

_WAYS = ("next_statement", "branch")
"""Kinds that tell which way a header went."""
_RAISING = ("raised", "raised_at", "handler")


def _same_step(a: Question, b: Question, context: Context) -> bool:
    """Both ask the same, or one says how a condition went and the other what came next."""
    if replace(a, answers=()) == replace(b, answers=()):
        return True
    pair = {a.kind, b.kind}
    return pair in ({*_WAYS}, {"changed", "value"}) and (a.line, a.visit) == (b.line, b.visit)


def _same_way(a: Question, b: Question, context: Context) -> bool:
    """What comes after a line is the same at two visits, or what it changes."""
    if a.kind != b.kind or a.kind not in ("next_statement", "changed"):
        return False
    return a.line == b.line and a.answers == b.answers


def _same_event(a: Question, b: Question, context: Context) -> bool:
    """Two statements that end together, such as a call and the `return` in it, have one next statement."""
    if a.kind != "next_statement" or b.kind != "next_statement":
        return False
    one, other = context.step(a), context.step(b)
    if one is None or other is None:
        return False
    return one.next_index == other.next_index


def _same_value(a: Question, b: Question, context: Context) -> bool:
    """The same value of the same type is the answer to both."""
    values = {answer for answer in a.answers if isinstance(answer, ValueAnswer)}
    return not values.isdisjoint(b.answers)


def _part(a: Question, b: Question, context: Context) -> bool:
    """One variable at two moments, and what it held at one is the beginning or a part of the other."""
    if a.kind != "value" or b.kind != "value" or a.variable != b.variable:
        return False
    one, other = a.answers[0], b.answers[0]
    if isinstance(one, str) or isinstance(other, str) or one.type != other.type:
        return False
    return _contains(_read(one.value), _read(other.value))


def _read(text: str) -> Any:
    try:
        return parse(text)
    except ValueTextError:
        return None  # `rules.py` refuses such a value


def _contains(one: Any, other: Any) -> bool:
    small, large = (one, other) if _size(one) <= _size(other) else (other, one)
    if isinstance(one, (list, tuple, str, bytes)):
        return bool(large[: len(small)] == small)
    if isinstance(one, (set, frozenset)):
        return bool(small <= large)
    if isinstance(one, dict):
        return all(key in large and large[key] == value for key, value in small.items())
    return False


def _size(value: Any) -> int:
    return len(value) if hasattr(value, "__len__") else 0


def _never(question: Question, context: Context) -> int | None:
    """The statement that a question shows never to run."""
    asks = question.kind in ("next_statement", "value", "executed", "visits")
    if not asks or question.line in context.visits:
        return None
    return context.facts.alone_at(question.line)


def _both_never(a: Question, b: Question, context: Context) -> bool:
    """Two lines that never run: often for one and the same reason."""
    return _never(a, context) is not None and _never(b, context) is not None


def _shown(question: Question, context: Context) -> Iterator[tuple[int, int]]:
    """(statement that a question and its answer show to run, a visit of it that happens)."""
    step = None if question.line is None else context.step(question)
    if step is not None:
        yield step.statement, step.visit
        if question.kind == "next_statement" and step.next_index >= 0:
            yield context.trace.sequence[step.next_index], 1
        if question.kind == "call_entry" and step.inner_index >= 0:
            yield context.trace.sequence[step.inner_index], 1
    elif question.kind in ("executed", "visits") and question.line in context.visits:
        index = context.facts.alone_at(question.line)
        assert index is not None
        yield index, 1


def _way_in(a: Question, b: Question, context: Context) -> bool:
    """A line that never runs tells how the header before it went, and the other way round."""
    index = _never(a, context)
    if index is None or b.kind not in _WAYS:
        return False
    around = context.facts.blocks(index)
    return bool(around) and context.facts.alone_at(b.line) == around[0][0]


def _reached(a: Question, b: Question, context: Context) -> bool:
    """`a` asks whether or how often a line runs, and `b` shows that its block does, or how often."""
    if a.kind not in ("executed", "visits"):
        return False
    index = context.facts.alone_at(a.line)
    if index is None or b.line == a.line:
        return index is not None
    around = context.facts.blocks(index)
    if b.kind in _WAYS and any(context.facts.alone_at(b.line) == head for head, _ in around):
        return True
    other = context.facts.alone_at(b.line)
    if {a.kind, b.kind} <= {"executed", "visits"} and other is not None:
        return _share_block(context, index, other)
    return any(around[0] in context.facts.blocks(shown) for shown, _ in _shown(b, context))


def _share_block(context: Context, one: int, other: int) -> bool:
    """Whether one of two statements stands in the innermost block of the other, or heads it."""
    first, second = context.facts.blocks(one), context.facts.blocks(other)
    heads = one in [head for head, _ in second] or other in [head for head, _ in first]
    return heads or first[0] in second or second[0] in first


def _went_in(a: Question, b: Question, context: Context) -> bool:
    """`a` asks which way a header went, and `b` shows a visit inside that it must have led to."""
    step = context.step(a) if a.kind in _WAYS else None
    if step is None or step.arm is None:
        return False
    needed = step.visit if context.facts.kind(step.statement) in ("For", "While") else None
    if needed is None:
        needed = len(context.visits[step.line])
    elif step.arm != "true":
        return False  # the last evaluation; how many there are, no visit inside tells
    return any(
        visit >= needed and (step.statement, step.arm) in context.facts.blocks(shown)
        for shown, visit in _shown(b, context)
    )


def _calls(a: Question, b: Question, context: Context) -> bool:
    """Both tell how often, or how deep, a function is called."""
    if a.kind not in ("frames", "depth"):
        return False
    name = a.function if a.kind == "frames" else _function_at(a, context)
    if b.kind in ("frames", "returned"):
        return b.function == name
    if b.kind == "depth":
        return _function_at(b, context) == name or b.line == a.line
    if b.kind == "visits":
        return _function_at(b, context) == name
    if b.kind == "call_entry":
        return any(_name_around(shown, context) == name for shown, _ in _shown(b, context))
    return False


def _function_at(question: Question, context: Context) -> str:
    index = context.facts.alone_at(question.line)
    return "" if index is None else _name_around(index, context)


def _name_around(index: int, context: Context) -> str:
    return context.facts.statements[index].function.rpartition(".")[2]


def _exception(a: Question, b: Question, context: Context) -> bool:
    """`a` asks about an exception, and `b` shows whether there was one."""
    if a.kind not in _RAISING:
        return False
    if b.kind in _RAISING:
        return True
    touched = [index for index, _ in _shown(b, context)]
    touched += [index for index in [_never(b, context)] if index is not None]
    facts = context.facts
    if any(arm.startswith("except") for index in touched for _, arm in facts.blocks(index)):
        return True
    step = None if b.line is None else context.step(b)
    return step is not None and step.outcome == "raised"


IMPLICATIONS: Mapping[str, Check] = {
    "same_step": _same_step,
    "same_way": _same_way,
    "same_event": _same_event,
    "same_value": _same_value,
    "part": _part,
    "both_never": _both_never,
    "way_in": _way_in,
    "reached": _reached,
    "went_in": _went_in,
    "calls": _calls,
    "exception": _exception,
}
"""Name -> whether the answers to two questions of a row are bound to each other, read from the first."""


def follows(a: Question, b: Question, context: Context) -> str | None:
    """By which of `IMPLICATIONS` the answer to one of two questions follows from the other; None if not."""
    for name, check in IMPLICATIONS.items():
        if check(a, b, context) or check(b, a, context):
            return name
    return None
