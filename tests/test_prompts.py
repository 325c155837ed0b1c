"""Laws of the prompts: every rule is said, and no prompt gives its answer away."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from generated import constraints, programs
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import values

from rewards.values import Unrepresentable, canonical
from synth import prompts
from synth.constraints import MAX_DEPTH, RULES, rules_of
from synth.prompts import (
    SYSTEM,
    Messages,
    input_prompt,
    output_prompt,
    program_prompt,
    raises_prompt,
)
from synth.seeds import digest

VERSIONS = {
    "PROGRAM_VERSION": "program",
    "OUTPUT_VERSION": "output",
    "INPUT_VERSION": "input",
    "RAISES_VERSION": "raises",
}


def user(messages: Messages) -> str:
    """The user's part; the rest must be the one system message."""
    assert [role for role, _ in messages] == ["system", "user"]
    assert messages[0][1] == SYSTEM
    return messages[1][1]


def test_version_ids() -> None:
    found = {name: getattr(prompts, name) for name in VERSIONS}
    for name, kind in VERSIONS.items():
        assert re.fullmatch(rf"{kind}-[1-9]\d*", found[name])
    assert len(set(found.values())) == len(found)
    made = program_prompt(constraints(1)[0], id="a", seed="b")
    assert made.version == prompts.PROGRAM_VERSION


WORDING = {
    "program-1": "1d68e20918dd7f9c",
    "output-1": "032d2ece59775b96",
    "input-1": "40b533edaf2940db",
    "raises-1": "e1fa977d9244d7d5",
}


def test_a_change_of_wording_is_a_new_version() -> None:
    """Update the digest together with the version id: rows name the wording that they carry."""
    constraint = constraints(1)[0]
    frames = {
        prompts.PROGRAM_VERSION: user(
            program_prompt(constraint, id="", seed="").messages
        ).partition("Rules")[0],
        prompts.OUTPUT_VERSION: user(output_prompt("C", "E", "A")),
        prompts.INPUT_VERSION: user(input_prompt("C", "E", "O")),
        prompts.RAISES_VERSION: user(raises_prompt("C", "E", "A")),
    }
    assert {version: digest(text)[:16] for version, text in frames.items()} == WORDING


# ---------------------------------------------------------------------------------------------
# The prompt for a program.


@pytest.mark.parametrize("extras", [(), tuple(rule.name for rule in RULES if rule.optional)])
def test_every_sentence_of_the_constraint_stands_in_the_prompt(extras: tuple[str, ...]) -> None:
    for constraint in constraints(200, depth=MAX_DEPTH):
        constraint = replace(constraint, structure=replace(constraint.structure, extras=extras))
        text = user(program_prompt(constraint, id="1", seed="s").messages)
        lines = text.splitlines()
        numbered = [line for line in lines if re.match(r"\d+\. ", line)]
        assert numbered == [
            f"{number}. {rule.sentence(constraint)}"
            for number, rule in enumerate(rules_of(constraint), 1)
        ]
        absent = [rule for rule in RULES if rule not in rules_of(constraint)]
        assert all(rule.sentence(constraint) not in text for rule in absent)
        assert "```python" in text


def test_a_prompt_carries_what_it_was_made_of() -> None:
    constraint = constraints(1)[0]
    prompt = program_prompt(constraint, id="3:1", seed="0:3:1")
    assert (prompt.id, prompt.seed, prompt.constraint) == ("3:1", "0:3:1", constraint)
    other = program_prompt(constraint, id="other", seed="other")
    assert other.messages == prompt.messages  # neither is for the model


def test_prompts_differ_where_constraints_do() -> None:
    seen: dict[Messages, str] = {}
    for constraint in constraints(300):
        messages = program_prompt(constraint, id="", seed="").messages
        key = f"{constraint.operation.id}:{constraint.structure}"
        assert seen.setdefault(messages, key) == key


# ---------------------------------------------------------------------------------------------
# The prompts that rows carry.


def frame(text: str, *parts: str) -> str:
    """What is left of a prompt without the parts that the row brings in."""
    for part in parts:
        assert part in text
        text = text.replace(part, "\0")
    return text


def test_the_frame_of_a_prompt_is_the_same_for_every_row() -> None:
    """So that nothing but code, entry, arguments and (for an input) the output can stand in it."""
    outputs, inputs, raises = set(), set(), set()
    for _, _, source in programs(60):
        code, call = source.code.rstrip(), f"{source.entry}({source.args})"
        outputs.add(frame(user(output_prompt(source.code, source.entry, source.args)), code, call))
        raises.add(frame(user(raises_prompt(source.code, source.entry, source.args)), code, call))
        text = user(input_prompt(source.code, source.entry, "<output>"))
        inputs.add(frame(text, code, f"`{source.entry}`", f"{source.entry}(????)", "<output>"))
    assert [len(found) for found in (outputs, inputs, raises)] == [1, 1, 1]
    for text in outputs | inputs | raises:
        assert not re.search(r"\d", text)
        assert "assert" in text or "KeyError" in text


def test_an_input_prompt_never_shows_the_arguments_of_the_call() -> None:
    for _, _, source in programs(60):
        text = user(input_prompt(source.code, source.entry, "'output'"))
        assert f"{source.entry}({source.args})" not in text
        assert f"assert {source.entry}(????) == 'output'" in text
        assert "print(" not in text


texts = st.sampled_from(["f", "scale_items"]), st.sampled_from(["[1, 2], 'a'", "b={'k': 3}", "-1"])


@settings(deadline=None)
@given(values(), *texts)
def test_an_output_prompt_never_contains_the_output(value: object, entry: str, args: str) -> None:
    """Outputs of one or two characters may occur by chance, as may what stands in code or call."""
    try:
        output = canonical(value)
    except Unrepresentable:
        return
    code = f"def {entry}(*args, **words):\n    return words\n"
    text = frame(user(output_prompt(code, entry, args)), code.rstrip(), f"{entry}({args})")
    if len(output) > 2 and output != "...":
        assert output not in text
    asked = user(input_prompt(code, entry, output))
    assert f"assert {entry}(????) == {output}\n" in asked
    assert args not in frame(asked, code.rstrip(), f"== {output}\n")


def test_the_code_stands_in_one_fence_without_blank_lines_at_its_end() -> None:
    for _, _, source in programs(30):
        for text in (
            user(output_prompt(source.code + "\n\n", source.entry, source.args)),
            user(input_prompt(source.code + "\n\n", source.entry, "1")),
            user(raises_prompt(source.code + "\n\n", source.entry, source.args)),
        ):
            assert text.count("```") == 2
            assert (
                re.search(r"```python\n(.*?)\n```", text, re.DOTALL).group(1)
                == source.code.rstrip()
            )  # type: ignore[union-attr]
            assert "<reasoning>" in text
            assert "</answer>" in text
