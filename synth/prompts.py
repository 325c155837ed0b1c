"""Every text that is put to a model, each with a version id.

Covers the prompt that asks for a program under a constraint, and the two that rows carry: predict the
output, predict an input. Does not send anything. A change of wording is a new version id.
"""

from __future__ import annotations

from dataclasses import dataclass

from synth.constraints import Constraint, rules_of

Messages = tuple[tuple[str, str], ...]
"""((role, content), …)"""

PROGRAM_VERSION = "program-1"
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
