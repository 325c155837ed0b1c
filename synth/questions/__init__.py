"""White-box questions about one run of a program, with their answers: trace -> questions.

Covers the kinds of the table in "Trace semantics" of the design, in two steps: `plan` says from pass one
what may be asked, so that only that is captured (`Plan.wanted`), and `ask` chooses and answers. Every
question keeps all of `RULES`. Nothing depends on anything but the run and the seed's text. Does not
cover difficulty, and does not run anything.

    plan = plan(trace, code, preset=PRESETS["paper"], seed="0:row id")
    states = capture(…, needed(trace, *plan.wanted))
    questions = ask(plan, states, code=code, entry=entry, args=args, output=output)
"""

from __future__ import annotations

from collections.abc import Sequence

from rewards.row import CONTROL_FLOW, DATA_FLOW, Question
from synth.questions.candidates import candidates_of
from synth.questions.facts import facts_of, gives_away, order_matters
from synth.questions.records import PRESETS, REASONS, Asked, Plan, Preset, preset_named
from synth.questions.rules import MAX_ANSWER_CHARS, RULES, Rule, broken
from synth.questions.sampling import choose
from synth.questions.truth import Context, Moments, moments, truth
from synth.questions.wording import (
    WHITEBOX_VERSION,
    answer_text,
    sentence,
    whitebox_prompt,
)
from synth.states import States
from synth.traces import Trace

__all__ = [
    "MAX_ANSWER_CHARS",
    "PRESETS",
    "REASONS",
    "RULES",
    "WHITEBOX_VERSION",
    "Asked",
    "Context",
    "Moments",
    "Plan",
    "Preset",
    "Rule",
    "answer_text",
    "ask",
    "ask_all",
    "broken",
    "construct",
    "gives_away",
    "moments",
    "order_matters",
    "plan",
    "preset_named",
    "sentence",
    "truth",
    "whitebox_prompt",
]


def plan(trace: Trace, code: str, *, preset: Preset, seed: str) -> Plan:
    """What may be asked of a run, and what of its values must be captured for that.

    `trace` without flags; `seed`: text that no other row shares, such as "7:<row id>".
    """
    context = Context(code, entry="", args="", output="", trace=trace, states=None)
    candidates = candidates_of(context, preset.kinds, preset.data_flow, seed)
    wanted = moments(context, [one.question for one in candidates])
    return Plan(trace, preset, seed, candidates, wanted)


def ask_all(
    plan: Plan,
    states: States,
    *,
    code: str,
    entry: str,
    args: str,
    output: str,
    others: Sequence[States] = (),
) -> Asked:
    """The questions of a row with their answers, and why a family has none.

    `states` must hold `plan.wanted`. `output`: canonical text of the result, empty if there is none.
    `others`: the same captured under other hash seeds; a value that differs is not asked for. They are
    needed where `order_matters`, as what a program returns need not show the order of a set in between.
    """
    if gives_away(code, entry, output):
        return Asked((), dict.fromkeys((CONTROL_FLOW, DATA_FLOW), "told"))
    context = Context(code, entry, args, output, plan.trace, states, others=tuple(others))
    return choose(context, plan.candidates, plan.preset, plan.seed)


def ask(
    plan: Plan,
    states: States,
    *,
    code: str,
    entry: str,
    args: str,
    output: str,
    others: Sequence[States] = (),
) -> tuple[Question, ...]:
    """The questions of a row, in the order in which they are put; see `ask_all`."""
    return ask_all(
        plan, states, code=code, entry=entry, args=args, output=output, others=others
    ).questions


_CONSTRUCTS = {
    **dict.fromkeys(("For", "AsyncFor"), "for"),
    **dict.fromkeys(("Try", "TryStar"), "try"),
    **dict.fromkeys(("With", "AsyncWith"), "with"),
    **{name: name.lower() for name in ("If", "While", "Match")},
}


def construct(question: Question, code: str) -> str:
    """After what a question asks: a header by its word ("if", "for", "while", "match", "try", "with"),
    "call" for a statement that calls a function of the program, else the nearest header around it,
    "plain" if there is none. Questions about a whole function count as "call", those about the
    exception of the run as "try".
    """
    if question.line is None:
        return "call" if question.function is not None else "try"
    facts = facts_of(code)
    index = facts.alone_at(question.line)
    if index is None:
        return "plain"
    if facts.kind(index) in _CONSTRUCTS:
        return _CONSTRUCTS[facts.kind(index)]
    if facts.calls_own(index):
        return "call"
    around = (facts.kind(head) for head, _ in facts.blocks(index))
    return next((_CONSTRUCTS[kind] for kind in around if kind in _CONSTRUCTS), "plain")
