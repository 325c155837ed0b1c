"""Every text that is put to a model, each with a version id.

Covers the prompt that asks for a program under a constraint, the turns that ask for a better one, the one
that asks for inputs of a program, those that rows carry (predict the output, predict an input), and the
worked examples for models that continue text. Those of white-box rows stand with their questions
(`questions/wording.py`). Does not send anything.
A change of wording is a new version id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synth.constraints import Constraint, rules_of

Messages = tuple[tuple[str, str], ...]
"""((role, content), …)"""

PROGRAM_VERSION = "program-1"
REPAIR_VERSION = "repair-1"
INPUTS_VERSION = "inputs-1"
FEW_SHOT_VERSION = "few-shot-1"
OUTPUT_VERSION = "output-1"
INPUT_VERSION = "input-1"
RAISES_VERSION = "raises-1"

VALUE_HINT = "a literal value, or the constructor call by which Python shows the value"

SYSTEM = "You are an expert Python programmer who can run code in your head."


@dataclass(frozen=True)
class Prompt:
    """A request for one program. `seed` is all that an offline provider may draw from."""

    id: str
    constraint: Constraint
    seed: str
    messages: Messages
    version: str = PROGRAM_VERSION


def program_prompt(constraint: Constraint, *, id: str, seed: str) -> Prompt:
    """The prompt for a program: every rule of the constraint contributes its sentence."""
    rules = "\n".join(
        f"{n}. {rule.sentence(constraint)}" for n, rule in enumerate(rules_of(constraint), 1)
    )
    content = (
        "Write one small Python program that is worth tracing by hand: its result must depend on its "
        "arguments, and nothing in it may be superfluous.\n\nRules\n"
        f"{rules}\n\nAnswer with the program alone, in one ```python block."
    )
    return Prompt(id, constraint, seed, (("system", SYSTEM), ("user", content)))


# ------------------------------------------------------------------------------- follow-up turns


@dataclass(frozen=True)
class Turn:
    """A completion that was no program of its constraint, and why."""

    text: str
    rule: str
    """Short name, as in the funnel."""
    detail: str = ""


def repair_messages(prompt: Prompt, turns: Sequence[Turn]) -> Messages:
    """The conversation that asks for a better program (version id `REPAIR_VERSION`)."""
    messages = list(prompt.messages)
    for turn in turns:
        messages.append(("assistant", turn.text))
        messages.append(("user", _complaint(prompt.constraint, turn)))
    return tuple(messages)


# Rules that no constraint holds: about the completion as a whole, or about what happened when it ran.
_SAID = {
    "no_program": "Your answer holds no complete program in a closed code block.",
    "syntax": "The program is not valid Python.",
    "too_long": "The program is too long.",
    "truncated": "Your answer was cut off before its end: be brief.",
    "hash_seed_dependent": "The result depends on the order of a set or on a hash.",
    "varies": "The result is the same for different arguments.",
    "seed_raised": "The call in the program raises an exception.",
    "seed_timed_out": "The call in the program does not end in time.",
    "seed_step_limit": "The call in the program takes too many steps.",
    "seed_prints": "The program prints more than the one result.",
    "seed_long_output": "The result is too long to write out.",
    "seed_no_canonical_text": "The result is no value that can be written as a literal.",
}


def _complaint(constraint: Constraint, turn: Turn) -> str:
    sentences = {rule.name: rule.sentence(constraint) for rule in rules_of(constraint)}
    if turn.rule in sentences:
        broken = f"The program breaks this rule: {sentences[turn.rule]}"
    else:
        broken = _SAID.get(turn.rule, f"The program cannot be used ({turn.rule}).")
    found = f" Found: {turn.detail}." if turn.detail else ""
    return (
        f"{broken}{found}\n\nChange the program so that this rule and all others hold. Answer with the"
        " whole program alone, in one ```python block."
    )


# ---------------------------------------------------------------------------------------- inputs


def inputs_prompt(code: str, entry: str, args: str, count: int) -> Messages:
    """Given program and one call, write `count` more calls (version id `INPUTS_VERSION`)."""
    content = (
        "Here is a Python program.\n\n"
        f"```python\n{code.rstrip()}\n```\n\n"
        f"It is called as `{entry}({args})`. Write {count} more calls with other arguments that are worth "
        "tracing by hand. Between them they must take as many different paths through the program as "
        "there are: each condition true and false, each loop with no, one and several rounds, boundary "
        "values among ordinary ones. The calls must not raise an exception, and their results must "
        f"differ.\n\nEach argument is a literal of the same type as in the call above ({VALUE_HINT}): no "
        "variables, no computation. Keep them about as short as those above.\n\nAnswer with the calls "
        "alone, one on each line, in one ```python block."
    )
    return (("system", SYSTEM), ("user", content))


# --------------------------------------------------------------------------------------- of rows


def output_prompt(code: str, entry: str, args: str) -> Messages:
    """Given program and input, say the output. Its answer is the completed assertion."""
    content = (
        "Here is a Python program.\n\n"
        f"```python\n{code.rstrip()}\n```\n\n"
        f"Work out what `{entry}({args})` returns, step by step, without running it. Then complete the "
        f"assertion with {VALUE_HINT}: no variables, no calls of the program's functions.\n\n"
        f"assert {entry}({args}) == ????\n\n"
        "Put your reasoning between <reasoning> and </reasoning>, and the completed assertion, on one "
        "line, between <answer> and </answer>."
    )
    return (("system", SYSTEM), ("user", content))


def input_prompt(code: str, entry: str, output: str) -> Messages:
    """Given program and output, say arguments that yield it. Any arguments that do are right."""
    content = (
        "Here is a Python program.\n\n"
        f"```python\n{code.rstrip()}\n```\n\n"
        f"Find arguments for which `{entry}` returns the value below. Any arguments that do are right. "
        f"Write each as {VALUE_HINT}.\n\n"
        f"assert {entry}(????) == {output}\n\n"
        "Put your reasoning between <reasoning> and </reasoning>, and the completed assertion, on one "
        "line, between <answer> and </answer>."
    )
    return (("system", SYSTEM), ("user", content))


def raises_prompt(code: str, entry: str, args: str) -> Messages:
    """Given program and input of a call that raises, say which exception. Its answer is the type name."""
    content = (
        "Here is a Python program.\n\n"
        f"```python\n{code.rstrip()}\n```\n\n"
        f"The call `{entry}({args})` does not return: it raises an exception. Work out which, step by "
        "step, without running it, and answer with the name of its type, such as KeyError.\n\n"
        "Put your reasoning between <reasoning> and </reasoning>, and the name between <answer> and "
        "</answer>."
    )
    return (("system", SYSTEM), ("user", content))


EXAMPLES = """\
def f(words, sep):
    return sep.join(w.upper() for w in words)

assert f(['a', 'bc'], '-') == 'A-BC'

def f(numbers):
    total = 0
    for n in numbers:
        if n % 2:
            total += n
    return [total, len(numbers)]

assert f([3, 4, 5]) == [8, 3]

def f(text):
    return {c: text.count(c) for c in text}

assert f('noon') == {'n': 2, 'o': 2}

"""


def few_shot_prompt(code: str, entry: str, args: str) -> Messages:
    """Worked examples and an assertion to continue, for models that follow no instructions (version id
    `FEW_SHOT_VERSION`)."""
    return (("user", f"{EXAMPLES}{code.rstrip()}\n\nassert {entry}({args}) =="),)
