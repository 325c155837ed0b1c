"""A run told in words: the text of a reasoning chain, written from the real trace.

Covers which steps are told, how loops are shortened, and the wording, which varies with a seed. Says only
what the trace and the captured states bear out: a value stands as `name = value` at the end of a line,
after the step (`line 4 (visit 2)`) that it is true of. Does not run anything and does not grade.

Shortening: of a loop of five rounds or more the first two and the last are told; the rest is named and
followed by what it left in the variables. A run that is still too long to tell has no narration.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from synth.states import Held, States
from synth.traces import Step, Trace

__all__ = ["MAX_LINES", "NARRATION_VERSION", "narrate"]

NARRATION_VERSION = "narration-1"

MAX_LINES = 90
"""Longest narration, in lines."""
MAX_SHOWN_CHARS = 160
"""Longer values are named and not written out."""
FIRST_ROUNDS = 2
LEAST_ROUNDS = 5
"""Loops with fewer rounds are told whole."""
_UNTOLD = frozenset(("function", "type", "module", "builtin_function_or_method", "generator"))
"""Types of values that a reader does not follow."""

_OPENINGS = (
    "I follow the call {call}.",
    "The call to work out is {call}.",
    "Let me trace {call}.",
    "Start with {call}.",
    "What happens in {call}? Step by step:",
    "I go through {call} one statement at a time.",
)
_CLOSINGS = (
    "So the call returns {value}",
    "That is the result: {value}",
    "Hence {call} gives {value}",
    "The call therefore ends with {value}",
)
_CLOSINGS_RAISED = (
    "So the call ends with {value}",
    "The exception leaves the call: {value}",
)
_CHANGED = (
    "{place}: {changes}",
    "{place} gives {changes}",
    "After {place}, {changes}",
    "Then {place} leaves {changes}",
    "Next comes {place}, and {changes}",
)
_FETCHED = (
    "{place} fetches {changes}",
    "The loop at {place} takes {changes}",
    "{place}, another round with {changes}",
)
_EXHAUSTED = ("{place} finds no more elements", "The loop at {place} has nothing left")
_TRUE = ("{place}: the condition holds", "The condition at {place} holds", "{place} is true")
_FALSE = (
    "{place}: the condition does not hold",
    "The condition at {place} does not hold",
    "{place} is false",
)
_NOTHING = ("{place} changes no variable", "At {place} all variables stay as they are")
_CALLS = ("{place} calls {function}", "To finish {place}, {function} must run")
_RETURNS = ("{place}: {function} returns {value}", "At {place} {function} returns {value}")
_RAISES = ("{place} raises an exception", "An exception comes from {place}")
_SKIPPED = (
    "Rounds {first} to {last} of this loop go by the same lines. When {place} is reached, {changes}",
    "I do rounds {first} to {last} in the same manner. When {place} is reached, {changes}",
)
_JUMPS = {"Break": "{place} leaves the loop", "Continue": "{place} goes on to the next round"}


@dataclass(frozen=True)
class _Skip:
    """Rounds of a loop that are not told: steps `start` up to, not including, `stop`."""

    start: int
    stop: int
    first: int
    last: int


def narrate(
    trace: Trace, states: States, call: str, result: str, seed: random.Random
) -> str | None:
    """The narration of a run whose states are all captured; None if it takes too many lines.

    `call` is the text of the call, `result` that of what it returned, or the name of the exception that it
    ended with. Equal arguments and an equal generator give an equal text.
    """
    closings = _CLOSINGS_RAISED if states.result.outcome == "raised" else _CLOSINGS
    lines = [seed.choice(_OPENINGS).format(call=call)]
    for line in _Teller(trace, states, seed).lines():
        lines.append(line)
        if len(lines) > MAX_LINES:
            return None
    lines.append(seed.choice(closings).format(call=call, value=result))
    return "\n".join(lines)


class _Teller:
    """Walks through a trace."""

    def __init__(self, trace: Trace, states: States, seed: random.Random) -> None:
        self.trace = trace
        self.states = states
        self.seed = seed
        self.skips = {skip.start: skip for skip in _skips(trace)}
        self.last_of_frame = {frame: step for step, frame in enumerate(trace.frame_numbers)}

    def lines(self) -> Iterator[str]:
        """The lines of all steps that are told, those of a statement that calls at its end."""
        steps = self.trace.steps
        open_calls: list[Step] = []
        place = 0
        while place < len(steps):
            while open_calls and self.trace.ends[open_calls[-1].index] == place:
                yield from self._ended(open_calls.pop())
            if skip := self.skips.get(place):
                yield from self._skipped(skip)
                place = skip.stop
                continue
            step = steps[place]
            if step.inner_index >= 0:
                function = self.trace.frames[
                    self.trace.frame_numbers[step.inner_index] - 1
                ].function
                yield self._say(_CALLS, step, function=function)
                open_calls.append(step)
            else:
                yield from self._ended(step)
            place += 1
        while open_calls:
            step = open_calls.pop()
            if self.trace.ends[step.index] >= 0:
                yield from self._ended(step)

    def _ended(self, step: Step) -> Iterator[str]:
        kind = self.trace.statements[step.statement].kind
        if step.outcome == "raised":
            yield self._say(_RAISES, step)
            return
        change = self.states.change(step.index)
        changes = list(_told(change.changed)) if change else []
        if kind == "For" and step.arm == "false":
            yield self._say(_EXHAUSTED, step)
        elif kind == "For" and changes:
            yield from self._changes(_FETCHED, step, changes)
            return
        elif kind in ("If", "While") and step.arm in ("true", "false"):
            yield self._say(_TRUE if step.arm == "true" else _FALSE, step)
        elif kind == "Return" and step.index == self.last_of_frame[step.frame]:
            yield from self._returned(step)
            return
        elif kind in _JUMPS:
            yield self._say((_JUMPS[kind],), step)
        elif not changes:
            yield self._say(
                _NOTHING if change and not change.changed else ("{place} is done",), step
            )
        if changes:
            yield from self._changes(_CHANGED, step, changes)

    def _returned(self, step: Step) -> Iterator[str]:
        held = self.states.returned(step.frame)
        if held is None or held.text is None or len(held.text) > MAX_SHOWN_CHARS:
            yield self._say(("{place} returns from {function}",), step, function=step.function)
        else:
            yield self._say(_RETURNS, step, function=step.function, value=held.text)

    def _skipped(self, skip: _Skip) -> Iterator[str]:
        step = self.trace.steps[skip.stop]
        before = self.states.at(self.trace.previous[skip.start]) or {}
        now = self.states.at(self.trace.previous[skip.stop]) or {}
        changed = {name: held for name, held in now.items() if before.get(name) != held}
        changes = list(_told(changed)) or ["the variables hold what they held"]
        yield from self._changes(_SKIPPED, step, changes, first=skip.first, last=skip.last)

    def _changes(
        self, forms: Sequence[str], step: Step, changes: Sequence[str], **more: object
    ) -> Iterator[str]:
        yield self._say(forms, step, changes=changes[0], **more)
        yield from (f"  and {change}" for change in changes[1:])

    def _say(self, forms: Sequence[str], step: Step, **parts: object) -> str:
        place = f"line {step.line} (visit {step.visit})"
        text = self.seed.choice(forms).format(place=place, **parts)
        return text[0].upper() + text[1:]


def _told(changed: Mapping[str, Held]) -> Iterator[str]:
    for name, held in changed.items():
        if held.text is not None and len(held.text) <= MAX_SHOWN_CHARS:
            yield f"{name} = {held.text}"
        elif held.type not in _UNTOLD:
            yield f"{name} holds a {held.type} that is too long to write out"


# --------------------------------------------------------------------------------- shortened loops


def _skips(trace: Trace) -> list[_Skip]:
    """The rounds that are not told; of nested loops the outer one decides."""
    found: list[_Skip] = []
    for headers in _loops(trace):
        rounds = [index for index in headers if trace.arms[index] == "true"]
        if len(rounds) < LEAST_ROUNDS:
            continue
        start, stop = rounds[FIRST_ROUNDS], rounds[-1]
        if _is_closed(trace, start, stop):
            found.append(_Skip(start, stop, FIRST_ROUNDS + 1, len(rounds) - 1))
    found.sort(key=lambda skip: (skip.start, -skip.stop))
    kept: list[_Skip] = []
    for skip in found:
        if not kept or skip.start >= kept[-1].stop:
            kept.append(skip)
    return kept


def _loops(trace: Trace) -> Iterator[list[int]]:
    """The header steps of each run of a loop, in order."""
    runs: dict[tuple[int, int], list[int]] = {}
    inside = _bodies(trace)
    for index, statement in enumerate(trace.sequence):
        frame = trace.frame_numbers[index]
        # A step outside a loop's body, in the loop's frame, ends that run of the loop.
        for key in [key for key in runs if key[0] == frame]:
            if statement != key[1] and statement not in inside[key[1]]:
                yield runs.pop(key)
        if statement in inside:
            runs.setdefault((frame, statement), []).append(index)
    yield from runs.values()


def _bodies(trace: Trace) -> dict[int, frozenset[int]]:
    """Loop -> the statements that its rounds consist of."""
    bodies: dict[int, set[int]] = {
        statement.index: set()
        for statement in trace.statements
        if statement.kind in ("For", "While")
    }
    for statement in trace.statements:
        child = statement
        while child.parent >= 0:
            parent = trace.statements[child.parent]
            if parent.index in bodies and child.arm == "true":
                bodies[parent.index].add(statement.index)
            child = parent
    return {loop: frozenset(body) for loop, body in bodies.items()}


def _is_closed(trace: Trace, start: int, stop: int) -> bool:
    """Whether steps `start` to `stop` belong to the loop's frame and frames that they entered."""
    frame = trace.frame_numbers[start]
    fresh = {frame}
    for index in range(start, stop):
        number = trace.frame_numbers[index]
        if number not in fresh:
            if trace.frames[number - 1].caller < start:
                return False
            fresh.add(number)
    return trace.frame_numbers[stop] == frame
