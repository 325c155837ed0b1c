"""Figures about the questions of a dataset: how many of which kind, and what a lazy answerer earns.

Covers counts by kind, by construct and by level, and the credit of answers that need no execution, from
the rows alone. Whether the answers are true is not looked into (`rewards.audit`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from rewards.row import CONTROL_FLOW, DATA_FLOW, Question, Row, Spec, ValueAnswer
from rewards.values import parse_tree
from synth.questions import answer_text, construct
from synth.questions.facts import literals
from synth.source import lines_of

__all__ = ["QuestionFigures", "question_figures"]


@dataclass(frozen=True)
class QuestionFigures:
    """What the whitebox rows of a dataset ask."""

    rows: int
    """Whitebox rows."""
    questions: int
    kinds: Mapping[str, int]
    constructs: Mapping[str, int]
    levels: Mapping[int, Mapping[str, int]]
    """Level -> family -> questions."""
    rows_by_level: Mapping[int, int]
    without_data_flow: int
    """Whitebox rows without a question of that family."""
    lazy: Mapping[str, float] = field(default_factory=dict)
    """Way of answering without execution -> share of the credit of its family, in [0, 1]."""

    def to_json(self) -> dict[str, object]:
        """JSON values."""
        return {
            "rows": self.rows,
            "questions": self.questions,
            "kinds": dict(self.kinds),
            "constructs": dict(self.constructs),
            "levels": {str(level): dict(found) for level, found in self.levels.items()},
            "rows_by_level": {str(level): count for level, count in self.rows_by_level.items()},
            "rows_without_data_flow": self.without_data_flow,
            "lazy": {name: round(share, 4) for name, share in self.lazy.items()},
        }

    def text(self) -> str:
        """Tables for people."""
        head = f"{self.questions:,} questions in {self.rows:,} whitebox rows"
        blocks = [f"{head} ({self.without_data_flow:,} of them without a data-flow question)"]
        for name, counts in (("kind", self.kinds), ("construct", self.constructs)):
            lines = [f"{name:16}{'count':>8}{'share':>9}"]
            lines += [
                f"{key:16}{count:8,}{count / self.questions:9.1%}" for key, count in counts.items()
            ]
            blocks.append("\n".join(lines))
        lines = [f"{'level':7}{'rows':>7}{'control flow':>14}{'data flow':>11}{'a row':>8}"]
        for level, count in self.rows_by_level.items():
            families = self.levels.get(level, {})
            control, data = families.get(CONTROL_FLOW, 0), families.get(DATA_FLOW, 0)
            lines.append(
                f"{level:<7}{count:7,}{control:14,}{data:11,}{(control + data) / count:8.1f}"
            )
        blocks.append("\n".join(lines))
        lines = [f"{'lazy answer':38}{'earns':>8}"]
        lines += [f"{name:38}{share:8.1%}" for name, share in self.lazy.items()]
        blocks.append("\n".join(lines))
        return "\n\n".join(blocks)


def question_figures(rows: Iterable[Row]) -> QuestionFigures | None:
    """The figures of all whitebox rows; None if there are none."""
    specs = [(row, Spec.from_json(row.spec)) for row in rows if row.task == "whitebox"]
    if not specs:
        return None
    kinds: Counter[str] = Counter()
    constructs: Counter[str] = Counter()
    levels: dict[int, Counter[str]] = {}
    for row, spec in specs:
        for question in spec.questions:
            kinds[question.kind] += 1
            constructs[construct(question, spec.code)] += 1
            levels.setdefault(row.level, Counter())[question.family] += 1
    return QuestionFigures(
        rows=len(specs),
        questions=kinds.total(),
        kinds=dict(kinds.most_common()),
        constructs=dict(constructs.most_common()),
        levels={level: dict(levels[level]) for level in sorted(levels)},
        rows_by_level=dict(sorted(Counter(row.level for row, _ in specs).items())),
        without_data_flow=sum(not _of(spec, DATA_FLOW) for _, spec in specs),
        lazy=_lazy([spec for _, spec in specs]),
    )


def _of(spec: Spec, family: str) -> list[Question]:
    return [question for question in spec.questions if question.family == family]


def _lazy(specs: list[Spec]) -> dict[str, float]:
    """Credit of ways to answer that look at no execution, as a share of their family's questions."""
    control = [question for spec in specs for question in _of(spec, CONTROL_FLOW)]
    data = [(spec, question) for spec in specs for question in _of(spec, DATA_FLOW)]
    found: dict[str, float] = {}
    if control:
        found["always -1 (control flow)"] = _share(["-1" in q.answers for q in control])
        following = [_is_following_line(spec, q) for spec in specs for q in _of(spec, CONTROL_FLOW)]
        found["the following line (control flow)"] = _share(following)
    if data:
        texts = Counter(answer_text(question) for _, question in data)
        found["the most common value (data flow)"] = max(texts.values()) / len(data)
        echoed = [_is_echo(spec.args, question) for spec, question in data]
        found["any literal of the call (data flow)"] = _share(echoed)
    return found


def _share(hits: list[bool]) -> float:
    return sum(hits) / len(hits)


def _is_following_line(spec: Spec, question: Question) -> bool:
    """Whether the next line of the text is the answer."""
    lines = lines_of(spec.code)
    if question.kind != "next_statement" or question.line is None or question.line >= len(lines):
        return False
    return any(str(answer).strip() == lines[question.line].strip() for answer in question.answers)


def _is_echo(args: str, question: Question) -> bool:
    """Whether the answer stands in the call: right for whoever guesses which literal it is."""
    known = _literals(args)
    return any(isinstance(a, ValueAnswer) and a.value in known for a in question.answers)


@lru_cache(maxsize=1024)
def _literals(args: str) -> frozenset[str]:
    return literals(parse_tree(f"f({args})"))
