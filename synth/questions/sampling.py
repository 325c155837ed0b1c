"""Which of the fair questions a row asks.

Covers the seeded choice: kinds in turn, every line once before any line twice, and limits on what can be
answered without looking: the end of the run, lines that never run, values that are common everywhere,
values that stand in the arguments or in the program. Does not cover what is fair (`rules.py`).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rewards.row import CONTROL_FLOW, DATA_FLOW, Question, ValueAnswer
from rewards.values import parse_tree
from synth.questions.facts import literals
from synth.questions.implications import follows
from synth.questions.records import Asked, Candidate, Preset
from synth.questions.rules import RULES
from synth.questions.truth import Context, truth
from synth.seeds import rng

__all__ = ["choose"]

COMMON = frozenset(
    ("0", "1", "2", "-1", "True", "False", "None", "''", "[]", "{}", "()", "set()", "0.0", "1.0")
)
"""Texts of values that many variables of many programs hold."""

# Chances, per row, that one question of a sort is let in beside the others.
CHANCE_END = 0.2
CHANCE_NEVER = 0.25
CHANCE_COMMON = 0.35
CHANCE_CONSTANT = 0.5
CHANCE_ECHO = 0.2
CHANCE_LEAD = 0.5
BESIDE = 3
"""A question that "-1" or "Nil" answers is one of at least so many and one more of its family."""


@dataclass(frozen=True)
class _Drawn:
    """What a row's luck lets in, drawn before anything is chosen."""

    end: bool
    never: str
    """The family in which a line that never runs may be asked about, or empty."""
    common: bool
    constant: bool
    echo: bool


class _Row:
    """The questions of a row while they are chosen."""

    def __init__(self, context: Context, preset: Preset, seed: str) -> None:
        self.context = context
        self.preset = preset
        self.chosen: list[Question] = []
        self.refused: dict[str, Counter[str]] = {CONTROL_FLOW: Counter(), DATA_FLOW: Counter()}
        draw = rng(seed, "row")
        self.luck = _Drawn(
            end=draw.random() < CHANCE_END,
            never=draw.choice((CONTROL_FLOW, DATA_FLOW)) if draw.random() < CHANCE_NEVER else "",
            common=draw.random() < CHANCE_COMMON,
            constant=draw.random() < CHANCE_CONSTANT,
            echo=draw.random() < CHANCE_ECHO,
        )

    def count(self, family: str) -> int:
        return sum(question.family == family for question in self.chosen)

    def open(self, family: str) -> bool:
        return self.count(family) < self.preset.limit(family)

    @cached_property
    def echoes(self) -> frozenset[str]:
        """Texts of the literals in the arguments."""
        return literals(parse_tree(f"f({self.context.args}\n)"))

    def text(self, question: Question) -> str:
        """The value that is the answer, empty for other answers."""
        answer = question.answers[0]
        return answer.value if isinstance(answer, ValueAnswer) else ""

    def sort(self, question: Question) -> str:
        """What makes the answer cheap: "end", "never", "bool", "echo", "common", "constant" (it stands in
        the program), or nothing.
        """
        if question.answers[0] in ("-1", "Nil"):
            ran = question.line is None or question.line in self.context.visits
            return "end" if ran else "never"
        text = self.text(question)
        if not text:
            return "bool" if question.answers[0] in ("True", "False") else ""
        if text in self.echoes:
            return "echo"
        if text in COMMON:
            return "common"
        return "constant" if text in self.context.facts.constants else ""

    def affordable(self, question: Question) -> bool:
        """Whether the row's luck lets this question in, beside those that are chosen."""
        sort = self.sort(question)
        if not sort:
            return True
        if sort in [self.sort(other) for other in self.chosen if other.family == question.family]:
            return False
        if self.count(question.family) < {"end": BESIDE, "never": BESIDE, "bool": 1}.get(sort, 0):
            return False
        if sort == "never":
            return self.luck.never == question.family
        return sort == "bool" or bool(getattr(self.luck, sort))

    def offer(self, question: Question, strict: bool = True) -> bool:
        """Take a fair question if nothing speaks against it."""
        if strict and not self.affordable(question):
            return False
        if any(follows(question, other, self.context) for other in self.chosen):
            return False
        self.chosen.append(question)
        return True


def choose(context: Context, candidates: Sequence[Candidate], preset: Preset, seed: str) -> Asked:
    """The questions of a row, in the order in which they are put, and why a family has none."""
    row = _Row(context, preset, seed)
    queues: dict[str, list[Question]] = {}
    for kind in preset.kinds:
        mine = [one for one in candidates if one.question.kind == kind]
        fair = list(_fair(row, mine))
        queues[kind] = _by_line(fair, rng(seed, kind, "order"))
    _fill(row, queues, rng(seed, "turns"))
    questions = sorted(row.chosen, key=_place)
    rng(seed, "shuffle").shuffle(questions)
    every = [question for queue in queues.values() for question in queue]
    return Asked(tuple(questions), _reasons(row, every))


def _fair(row: _Row, candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Candidates with their answers that keep every rule by themselves, weighed by what they answer."""
    for one in candidates:
        answers = truth(row.context, one.question)
        question = replace(one.question, answers=answers or ())
        family = question.family
        if answers is None:
            if question.kind != "value":
                row.refused[family]["true"] += 1
            elif _is_held(row.context, question):
                row.refused[family]["text"] += 1
            continue
        wrong = next((n for n, r in RULES.items() if not r.check(question, row.context)), None)
        if wrong is None and len(row.text(question)) > row.preset.max_chars:
            wrong = "short"
        if wrong is not None:
            row.refused[family][wrong] += 1
            continue
        yield Candidate(question, one.weight * _interest(row, question))


def _is_held(context: Context, question: Question) -> bool:
    """Whether the name is a variable at all; what a statement touches may be a function."""
    step = context.step(question)
    return step is not None and context.held(step.index, question.variable or "") is not None


_FACTORS = {"echo": 0.05, "common": 0.15, "constant": 0.3, "never": 0.5, "end": 0.5}


def _interest(row: _Row, question: Question) -> float:
    text = row.text(question)
    factor = _FACTORS.get(row.sort(question), 1.0)
    if question.line is not None:
        line = row.context.facts.lines[question.line - 1].strip()
        if line in row.context.facts.repeated_lines:
            factor *= 0.3
    if len(text) > 80:
        factor *= 0.5
    return factor


def _by_line(candidates: Sequence[Candidate], draw: random.Random) -> list[Question]:
    """A random order in which heavier candidates tend to stand first and lines take turns."""
    order = sorted(candidates, key=lambda one: draw.random() ** (1 / one.weight), reverse=True)
    seen: Counter[object] = Counter()
    ranked: list[tuple[int, int, Question]] = []
    for number, one in enumerate(order):
        place = one.question.line or one.question.function
        ranked.append((seen[place], number, one.question))
        seen[place] += 1
    return [question for _, _, question in sorted(ranked, key=lambda item: item[:2])]


def _fill(row: _Row, queues: Mapping[str, list[Question]], draw: random.Random) -> None:
    kinds = [kind for kind in queues if queues[kind]]
    # A question about the exception goes with few others, so it is now and then the first one.
    lead = [kind for kind in kinds if kind in ("raised", "raised_at", "handler")]
    if lead and draw.random() < CHANCE_LEAD:
        _take_one(row, list(queues[draw.choice(lead)]))
    # Then a value, as questions about headers may rule out what is asked inside them.
    if not _take_value(row, queues) and row.chosen:
        row.chosen.clear()
        _take_value(row, queues)
    _take_in_turn(row, queues, draw)


def _take_value(row: _Row, queues: Mapping[str, list[Question]]) -> bool:
    """A first question about values: a common value or an echo rather than none at all."""
    mine = [kind for kind in queues if Question(kind, ()).family == DATA_FLOW]
    if any(_take_one(row, list(queues[kind])) for kind in mine):
        return True
    for sorts in (("", "constant", "common"), ("echo",)):
        for question in (question for kind in mine for question in queues[kind]):
            wanted = row.sort(question) in sorts and row.open(DATA_FLOW)
            if wanted and row.offer(question, strict=False):
                return True
    return False


def _take_in_turn(row: _Row, queues: Mapping[str, list[Question]], draw: random.Random) -> None:
    """One question of each kind after another, as long as any is taken. Twice over: what is one of
    several of its family can only be judged when the others stand.
    """
    for _ in range(2):
        left = {kind: list(queue) for kind, queue in queues.items()}
        kinds = [kind for kind in queues if queues[kind]]
        draw.shuffle(kinds)
        while kinds:
            kinds = [kind for kind in kinds if _take_one(row, left[kind])]


def _take_one(row: _Row, queue: list[Question]) -> bool:
    """Take the first question of a queue that can be taken, and drop those before it."""
    while queue:
        question = queue.pop(0)
        if not row.open(question.family):
            return False
        if question not in row.chosen and row.offer(question):
            return True
    return False


def _place(question: Question) -> tuple[object, ...]:
    where = (question.line or 0, question.visit or 0, question.call or 0)
    return (question.kind, *where, question.variable or "", question.function or "")


def _reasons(row: _Row, fair: Iterable[Question]) -> dict[str, str]:
    reasons: dict[str, str] = {}
    dull = {CONTROL_FLOW: "no_branch", DATA_FLOW: "no_assignment"}
    for family, nothing in dull.items():
        if row.count(family) or not row.preset.limit(family):
            continue
        kept = [row.sort(one) for one in fair if one.family == family]
        wrong = Counter(row.refused[family])
        wrong.pop("decided", None)  # no more than that nothing was computed there
        wrong.pop("not_given", None)
        if any(sort not in ("end", "never") for sort in kept):
            reasons[family] = "not_sampled"
        else:
            reasons[family] = max(sorted(wrong), key=wrong.__getitem__, default=nothing)
    return reasons
