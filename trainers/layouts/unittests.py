"""Tasks with unit tests: Eurus-2 (PRIME), TACO, APPS -> `unittest` examples.

Covers tests on standard input and output, and calls of a named function. Does not cover rows of other
abilities (they are dropped by name) nor the solutions that TACO and APPS bring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rewards.row import Tests
from trainers.layouts.base import (
    BrokenRow,
    Example,
    Layout,
    Options,
    content_id,
    messages,
    need,
    spec_text,
    tests_of,
)

__all__ = ["APPS", "EURUS", "TACO", "codegen_prompt"]

CODEGEN_VERSION = "codegen-1"
SYSTEM = "You are an expert Python programmer."


def codegen_prompt(
    question: str, entry: str = "", starter: str = ""
) -> tuple[tuple[str, str], ...]:
    """The messages that ask for a program; its form is the one that `rewards.candidates` looks for."""
    parts = ["Solve the problem below in Python.", question.strip()]
    if starter.strip():
        parts.append(f"Start from this code:\n```python\n{starter.rstrip()}\n```")
    if entry:
        parts.append(f"The tests call `{entry}` and compare what it returns.")
    else:
        parts.append("The program reads standard input and prints its result to standard output.")
    parts.append(
        "Put your reasoning between <reasoning> and </reasoning>, and the whole program, in one"
        " ```python block, between <answer> and </answer>."
    )
    return (("system", SYSTEM), ("user", "\n\n".join(parts)))


def _example(prefix: str, question: str, tests: Tests, prompt: Any) -> Example:
    spec = spec_text(task="unittest", instruction=question, entry=tests.fn_name or "", tests=tests)
    name = content_id(prefix, question, spec)
    return Example(name, prompt, "unittest", spec)


def _eurus(record: Mapping[str, Any], options: Options) -> Iterator[Example]:
    ability = record.get("ability")
    if ability not in (None, "code"):
        raise BrokenRow(f"ability {ability}")
    prompt = messages(record.get("prompt"), "prompt")
    model = need(record, "reward_model", Mapping)
    tests = tests_of(model.get("ground_truth"))
    question = next((text for role, text in reversed(prompt) if role == "user"), "")
    if not question.strip():
        raise BrokenRow("the prompt has no message of a user")
    if options.prompts == "ours":
        prompt = codegen_prompt(question, tests.fn_name or "")
    yield _example("eurus", question, tests, prompt)


def _problem(prefix: str) -> Any:
    def read(record: Mapping[str, Any], _: Options) -> Iterator[Example]:
        question = need(record, "question")
        tests = tests_of(need(record, "input_output", (str, Mapping)))
        starter = record.get("starter_code") or ""
        prompt = codegen_prompt(question, tests.fn_name or "", str(starter))
        yield _example(prefix, question, tests, prompt)

    return read


EURUS = Layout(
    "eurus", (("prompt", "reward_model", "ability"),), ("data_source", "extra_info"), _eurus
)
APPS = Layout(
    "apps",
    (("problem_id", "question", "input_output"),),
    ("solutions", "difficulty", "url", "starter_code"),
    _problem("apps"),
)
TACO = Layout(
    "taco",
    (("question", "input_output"),),
    (
        *("solutions", "starter_code", "difficulty", "raw_tags", "name", "source", "tags"),
        *("skill_types", "url", "Expected Auxiliary Space", "time_limit", "date", "picture_num"),
        *("memory_limit", "Expected Time Complexity"),
    ),
    _problem("taco"),
)
