"""The rules of a fair question: each with its sentence and its check.

Covers the last paragraphs of "Trace semantics" in the design: exactly one right answer, which is neither
given away nor implied. A check needs the question, its row and the execution (`Context`), so the builder
and an audit over finished rows run the same ones. Does not cover which fair question is a good one
(`sampling.py`).
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rewards.row import Question, ValueAnswer
from rewards.values import Unrepresentable, ValueTextError, canonical, parse, type_name
from synth.questions.facts import ANY, literal_text
from synth.questions.implications import follows
from synth.questions.truth import Context, handler_line, truth
from synth.questions.wording import sentence

__all__ = ["MAX_ANSWER_CHARS", "RULES", "Rule", "argument_texts", "broken"]

MAX_ANSWER_CHARS = 200
"""Longest value that is asked for, in characters of its canonical text."""

_STATEMENT_KINDS = ("next_statement", "call_entry", "raised_at")
_MARKUP = re.compile(r"</?(answer|reasoning|think)|<\||\|>|```| at 0x[0-9a-f]{4}", re.IGNORECASE)
"""Marks of the answer format and of chat templates, and addresses, which another process changes."""
_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|\d[\w.]*|\w+|[^\w\s]")


@dataclass(frozen=True)
class Rule:
    """One rule; `check` says whether a question keeps it, and says so too where it does not apply."""

    sentence: str
    check: Callable[[Question, Context], bool]


def _place(question: Question, context: Context) -> bool:
    if question.line is None:
        return True
    index = context.facts.alone_at(question.line)
    return index is not None and context.facts.inside(index)


def _visit(question: Question, context: Context) -> bool:
    if question.visit is None or context.step(question) is not None:
        return True
    may = question.kind in ("next_statement", "value") and question.visit == 1
    return may and context.never_runs(question.line)


def _true(question: Question, context: Context) -> bool:
    return truth(context, question) == question.answers


def _completed(question: Question, context: Context) -> bool:
    step = context.step(question) if question.kind in ("value", "changed") else None
    return step is None or step.outcome == "completed"


def _text(question: Question, context: Context) -> bool:
    for answer in question.answers:
        if isinstance(answer, ValueAnswer):
            try:
                value = parse(answer.value)
                written = canonical(value)
            except (ValueTextError, Unrepresentable):
                return False
            if written != answer.value or type_name(value) != answer.type:
                return False
    return True


def _short(question: Question, context: Context) -> bool:
    return all(
        len(answer.value) <= MAX_ANSWER_CHARS
        for answer in question.answers
        if isinstance(answer, ValueAnswer)
    )


def _plain(question: Question, context: Context) -> bool:
    for answer in question.answers:
        text = answer.value if isinstance(answer, ValueAnswer) else answer
        if _MARKUP.search(text) or not text.strip(" \t").isprintable() or not text.strip():
            return False
    return True


def _unseen(question: Question, context: Context) -> bool:
    shown = _tokens(sentence(question, context.code))
    index = context.facts.alone_at(question.line)
    literals = frozenset[str]() if index is None else context.facts.literals(index)
    for answer in question.answers:
        text = answer.value if isinstance(answer, ValueAnswer) else answer
        if isinstance(answer, ValueAnswer) and text in literals:
            return False
        if _stands_in(_tokens(text), shown):
            return False
    return True


def _stands_in(part: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    size = len(part)
    return any(whole[at : at + size] == part for at in range(len(whole) - size + 1))


@lru_cache(maxsize=1024)
def _tokens(text: str) -> tuple[str, ...]:
    """Words, numbers, quoted texts and signs; quoted texts by what they mean."""
    found = []
    for token in _TOKEN.findall(text):
        try:
            found.append(repr(ast.literal_eval(token)) if token[0] in "'\"" else token)
        except (SyntaxError, ValueError):
            found.append(token)  # two quotes of the English around something else
    return tuple(found)


def _not_given(question: Question, context: Context) -> bool:
    index = context.facts.alone_at(question.line)
    if question.kind != "value" or index is None or question.variable is None:
        return True
    given = context.facts.given(index).get(question.variable)
    answer = question.answers[0]
    if given is not None and (given == ANY or isinstance(answer, str) or given == answer.value):
        return False
    step = context.step(question)
    if step is None or step.frame != 1 or isinstance(answer, str):
        return True
    return argument_texts(context).get(question.variable) != answer.value


def argument_texts(context: Context) -> Mapping[str, str]:
    """Parameter of the entry -> canonical text of its argument, as far as that is plain to see."""
    index = context.facts.functions.get(context.entry)
    if index is None:
        return {}
    node = context.facts.nodes[index]
    call = ast.parse(f"f({context.args}\n)", mode="eval").body
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and isinstance(call, ast.Call)
    names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    given: dict[str, ast.expr] = dict(zip(names, call.args, strict=False))
    given.update({word.arg: word.value for word in call.keywords if word.arg})
    texts = {name: literal_text(value) for name, value in given.items()}
    return {name: text for name, text in texts.items() if text is not None}


def _decided(question: Question, context: Context) -> bool:
    index = context.facts.alone_at(question.line)
    if index is None:
        return True
    kind = context.facts.kind(index)
    if question.kind == "value" and question.variable is not None:
        step = context.step(question)
        bound = question.variable in context.facts.bound(index)
        return bound or (step is not None and context.altered(step.index, question.variable))
    if question.kind == "branch":
        return not isinstance(context.facts.nodes[index].test, ast.Constant)  # type: ignore[attr-defined]
    if question.kind == "visits":
        return kind not in ("For", "While", "AsyncFor")
    return True


def _identified(question: Question, context: Context) -> bool:
    answered = _answered(question, context)
    if answered is None:
        return True
    if not context.facts.identifies(answered):
        return False
    return not any(str(answer).strip() in ("-1", "Nil") for answer in question.answers)


def _answered(question: Question, context: Context) -> int | None:
    """The statement that is the answer, if one is."""
    if question.kind == "raised_at":
        incident = context.incident
        return None if incident is None else incident.origin.statement
    step = context.step(question) if question.kind in _STATEMENT_KINDS else None
    if step is None:
        return None
    after = step.next_index if question.kind == "next_statement" else step.inner_index
    return context.trace.sequence[after] if after >= 0 else None


def _one_handler(question: Question, context: Context) -> bool:
    if question.kind != "handler" or question.answers == ("Nil",):
        return True
    incident = context.incident
    if incident is None or incident.handler is None:
        return False
    mine = handler_line(context, incident.handler).strip()
    return [line.strip() for line in context.facts.lines].count(mine) == 1


def _named(question: Question, context: Context) -> bool:
    facts = context.facts
    if question.function is not None:
        return question.function in facts.functions and not question.function.startswith("__")
    if question.variable is not None:
        index = facts.alone_at(question.line)
        return index is not None and facts.kind(facts.function_of(index)) != "ClassDef"
    return True


def _not_output(question: Question, context: Context) -> bool:
    texts = {answer.value for answer in question.answers if isinstance(answer, ValueAnswer)}
    if context.output in texts:
        return False
    step = context.step(question) if question.kind == "value" else None
    shown = step is not None and step.frame == 1 and question.variable in context.returned_names
    return not (shown and texts & context.output_parts)


def _real_exception(question: Question, context: Context) -> bool:
    if question.kind != "raised" or question.answers == ("Nil",):
        return True
    found = getattr(builtins, str(question.answers[0]), None)
    return isinstance(found, type) and issubclass(found, BaseException)


def _independent(question: Question, context: Context) -> bool:
    others = list(context.questions)
    if question in others:
        others.remove(question)
    return all(follows(question, other, context) is None for other in others)


RULES: Mapping[str, Rule] = {
    "place": Rule("One statement of a function starts at the line, and leads it.", _place),
    "visit": Rule("The visit happens, or is visit 1 of a line that never runs.", _visit),
    "completed": Rule("Values are asked of steps that completed.", _completed),
    "named": Rule("The function or variable is known by one name, and is no class's.", _named),
    "decided": Rule("The answer is decided at the step that is asked about.", _decided),
    "true": Rule("The answers are what the trace and the states say.", _true),
    "text": Rule("A value has canonical text of exactly the named type.", _text),
    "short": Rule(f"A value has at most {MAX_ANSWER_CHARS} characters.", _short),
    "plain": Rule(
        "An answer is one printable line without the marks of the answer format.", _plain
    ),
    "real_exception": Rule("A raised type is a builtin one.", _real_exception),
    "identified": Rule("A statement that is the answer is equal to no other.", _identified),
    "one_handler": Rule("An `except` line that is the answer stands once.", _one_handler),
    "unseen": Rule("The answer does not stand in the question's sentence.", _unseen),
    "not_given": Rule(
        "The answer is no literal that is assigned or passed to the call.", _not_given
    ),
    "not_output": Rule("The answer is not the output, which the row asks for first.", _not_output),
    "independent": Rule("The answer follows from no other question of the row.", _independent),
}
"""Name -> rule, in the order in which the builder applies them."""


def broken(question: Question, context: Context) -> str | None:
    """The first rule that a question breaks, None if it is fair among `context.questions`."""
    for name, rule in RULES.items():
        if not rule.check(question, context):
            return name
    return None
