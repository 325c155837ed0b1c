"""The demonstration's compact answers: how a run is written, asked about, and handed to our grader.

A prompt lists the input and the program; an answer is one line a step, then the output:

    a=5                     2:b58        line 2 read 5 and bound b to 8
    2:b=a+3                 3:5T         line 3 read 5, and the test held
    3:if a<6:               4:b86
    4:b-=2                  =6           the output
    5:return b
    >

A 130 thousand parameter model cannot write the form that the rewards ask of language models, so
`translated` rewrites an answer into that form, word for word, and `rewards.grading` grades it. The
questions of a row (`spec_of`) are each step's value or branch, then whether each line of a branch ran
and how often each loop's did, so that steps which never happened are wrong too.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from rewards.row import Question, Spec, ValueAnswer
from trainers.demo_programs import FIRST_LINE, LANGUAGE, Line, Run

__all__ = ["TOKENS", "answer_of", "listing", "paid_by", "spec_of", "translated"]

TOKENS = r"\n[2-9]:|\n[=>]|for i in |return |if |else:|[+\-]=|<|>=|[a-zA-Z0-9'=+\-\[\],:>]"
"""Pattern of one token of prompts and answers."""


def listing(lines: Sequence[Line], args: str) -> str:
    """The prompt."""
    body = "".join(f"\n{number}:{line.text}" for number, line in enumerate(lines, FIRST_LINE))
    return f"a={args}{body}\n>"


def answer_of(run: Run) -> str:
    """The answer that tells a run."""
    state = {"a": run.args}
    parts = []
    for step in run.trace.steps:
        line = run.lines[step.line - FIRST_LINE]
        read = _bare(state.get(line.operand, ""))
        after = {name: held.text or "" for name, held in (run.states.at(step.index) or {}).items()}
        if line.kind == "if":
            parts.append(f"\n{step.line}:{read}{'T' if step.arm == 'true' else 'F'}")
        elif line.kind == "set" or (line.kind == "for" and step.arm == "true"):
            value = after[line.variable]
            mark = "'" if value.startswith("'") else ""
            parts.append(f"\n{step.line}:{line.variable}{read}{mark}{_bare(value)}")
        state.update(after)
    return "".join(parts) + f"\n={_bare(run.output)}"


def _bare(text: str) -> str:
    return text.strip("'")


def spec_of(run: Run) -> Spec:
    """What the reward has to know of a true run."""
    questions = [each for each in map(_asked(run), run.trace.steps) if each is not None]
    for number, line in enumerate(run.lines, FIRST_LINE):
        count = run.trace.visits(number)
        if line.inner in ("if", "else"):
            questions.append(Question("executed", line=number, answers=(str(count > 0),)))
        elif line.inner == "for":
            questions.append(Question("visits", line=number, answers=(str(count),)))
    return Spec(
        "whitebox", run.code, LANGUAGE.entry, run.args, run.output, questions=tuple(questions)
    )


def _asked(run: Run) -> Callable[[Any], Question | None]:
    def question(step: Any) -> Question | None:
        line = run.lines[step.line - FIRST_LINE]
        where = {"line": step.line, "visit": step.visit}
        if line.kind == "if":
            return Question("branch", **where, answers=(str(step.arm == "true"),))
        if line.kind == "set" or (line.kind == "for" and step.arm == "true"):
            held = (run.states.at(step.index) or {})[line.variable]
            answer = ValueAnswer(held.text or "", held.type)
            return Question("value", **where, variable=line.variable, answers=(answer,))
        return None  # the end of a loop, and the return, whose value is the output

    return question


_LINE = re.compile(r"([2-9]):(.+)")
_BOUND = re.compile(r"([a-z])(?:[0-9]?([0-9])|[a-z]{0,4}'([a-z]{1,4}))")
_TESTED = re.compile(r"[0-9]([TF])")


def translated(text: str, spec: Spec) -> str:
    """A compact answer in the form the rewards ask for; what cannot be read becomes `Nil`, which is wrong."""
    told: defaultdict[int, list[str]] = defaultdict(list)
    output = "Nil"
    for part in text.strip("\n").split("\n"):
        step = _LINE.fullmatch(part)
        if step:
            told[int(step.group(1))].append(step.group(2))
        elif part.startswith("="):
            output = _value(part[1:])
            break
    answers = [_reply(question, told) for question in spec.questions]
    claim = f"assert f({spec.args}) == {output}"
    body = "\n".join([claim, *answers])
    return f"<reasoning>\n{text.strip()}\n</reasoning>\n<answer>\n{body}\n</answer>"


def _reply(question: Question, told: dict[int, list[str]]) -> str:
    """What an answer says to one question."""
    line = question.line or 0
    if question.kind == "executed":
        return str(line in told)
    if question.kind == "visits":
        return str(len(told.get(line, ())))
    visit = question.visit or 1
    lines = told.get(line, [])
    if visit > len(lines):
        return "Nil"
    if question.kind == "branch":
        tested = _TESTED.fullmatch(lines[visit - 1])
        return str(tested.group(1) == "T") if tested else "Nil"
    bound = _BOUND.fullmatch(lines[visit - 1])
    if bound is None or bound.group(1) != question.variable:
        return "Nil"
    return f"'{bound.group(3)}'; str" if bound.group(3) else f"{bound.group(2)}; int"


def _value(text: str) -> str:
    if text.isdigit():
        return text
    return f"'{text}'" if text.isalpha() else "Nil"


def paid_by(reward: Any) -> Callable[..., list[float | None]]:
    """A reward callable for compact answers, which has `reward` (`rewards.whitebox.Reward()`, say) pay for
    their translation.
    """

    def compact(
        completions: Sequence[str], spec: Sequence[str], **columns: Any
    ) -> list[float | None]:
        pairs = zip(completions, spec, strict=True)
        texts = [translated(text, Spec.from_json(one)) for text, one in pairs]
        logs = {name: columns.get(name) for name in ("log_extra", "log_metric")}
        paid: list[float | None] = reward(completions=texts, spec=spec, **logs)
        return paid

    return compact
