"""The questions about one run, for people and scripts: what `synth ask` shows.

Covers asking of a run that is already followed, as JSON and as text. Does not choose or answer anything
itself (`questions`).
"""

from __future__ import annotations

import json
from typing import Any

from rewards.row import Spec
from synth.questions import REASONS, Asked, Preset, answer_text, ask_all, plan, sentence
from synth.runs import Run
from synth.source import lines_of

__all__ = ["inquire", "inquiry_json", "inquiry_text"]


def inquire(run: Run, preset: Preset, seed: str) -> Asked:
    """The questions about a run under a preset; the same seed gives the same questions.

    What comes out otherwise in another process (under another hash seed, drawn at random) is not asked
    for; `DataError` if the steps or the output do.
    """
    planned = plan(run.trace, run.code, preset=preset, seed=seed)
    call = {"code": run.code, "entry": run.entry, "args": run.args, "output": run.output}
    return ask_all(planned, run.states, **call, others=run.elsewhere())


def inquiry_json(run: Run, asked: Asked) -> dict[str, Any]:
    """entry, args, output (or `raises`), the questions as in a `spec`, each with its sentence, and why
    a family has none.
    """
    raises = run.result.error_type if run.result.outcome == "raised" else None
    spec = Spec(
        "whitebox", run.code, run.entry, run.args, run.output, raises, questions=asked.questions
    )
    questions: list[dict[str, Any]] = json.loads(spec.to_json())["questions"]
    for question, record in zip(asked.questions, questions, strict=True):
        record["question"] = sentence(question, run.code)
    record = {"entry": run.entry, "args": run.args, "output": run.output}
    if raises:
        record["raises"] = raises
    return {**record, "questions": questions, "reasons": dict(asked.reasons)}


def inquiry_text(run: Run, asked: Asked) -> str:
    """The program with line numbers, the call, and each question with its answer."""
    width = len(str(run.code.count("\n") + 1))
    lines = [f"{n:>{width}}  {line}" for n, line in enumerate(lines_of(run.code), 1)]
    lines += ["", f"{run.entry}({run.args})", ""]
    for number, question in enumerate(asked.questions, 1):
        lines += [f"{number:>2}. {sentence(question, run.code)}", f"    {answer_text(question)}"]
    if not asked.questions:
        lines.append("Nothing can be asked of this run.")
    for family, reason in asked.reasons.items():
        lines.append(f"no {family.replace('_', '-')} question: {REASONS[reason]}")
    return "\n".join(lines)
