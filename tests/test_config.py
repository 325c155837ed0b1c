"""Settings of `synth generate`: what is refused and how, and what decides the rows.

Laws: settings in range are accepted; what decides the rows is in `resolved` and nothing else is; the
command line that a manifest names gives the same settings again.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.cli import cli
from synth.commands.generate import config_of, numbers
from synth.commands.generate import generate as generate_command
from synth.completions import ENDPOINTS, Sampling
from synth.config import INPUT_SOURCES, MAX_ATTEMPTS, MAX_ROWS, TASKS, GenerateConfig, Writer
from synth.constraints import MAX_DEPTH, levels, operations_of
from synth.engine import command
from synth.errors import ConfigError, UsageError
from synth.manifest import config_digest
from synth.providers import MAX_REPAIRS

owners = sorted({operation.owner for operation in operations_of()})


@st.composite
def writers(draw: st.DrawFn) -> Writer:
    numbers = {f"k{n}": n for n in range(draw(st.integers(0, 2)))}
    return Writer(
        model=draw(st.sampled_from(["stub", "org/Model-7B", "it's a model", "a b"])),
        endpoint=draw(st.sampled_from(ENDPOINTS)),
        sampling=Sampling(
            temperature=draw(st.sampled_from([1.0, 0.7, 2.0])),
            top_p=draw(st.sampled_from([None, 0.9])),
            max_tokens=draw(st.sampled_from([4096, 1, 100_000])),
            extra=json.dumps(numbers),
        ),
        repairs=draw(st.integers(0, MAX_REPAIRS)),
        attempts=draw(st.integers(1, MAX_ATTEMPTS)),
    )


@st.composite
def configs(draw: st.DrawFn) -> GenerateConfig:
    depth = draw(st.integers(0, MAX_DEPTH))
    writer = draw(st.none() | writers())
    return GenerateConfig(
        provider="openai" if writer else "grammar",
        writer=writer,
        depth=depth,
        rows=draw(st.integers(1, MAX_ROWS)),
        seed=draw(st.integers()),
        types=tuple(draw(st.lists(st.sampled_from(owners), max_size=3))),
        levels=tuple(draw(st.lists(st.sampled_from(levels(depth)), max_size=3))),
        inputs_per_program=draw(st.integers(1, 50)),
        tasks=tuple(draw(st.lists(st.sampled_from(TASKS), min_size=1, max_size=3))),
        exceptions=draw(st.booleans()),
    )


def parsed(line: str) -> dict[str, Any]:
    """The parameters that click makes of a command line of `synth generate`."""
    program, name, *args = shlex.split(line)
    assert (program, name) == ("synth", "generate")
    with cli.make_context("synth", [name, *args], resilient_parsing=True):
        return dict(generate_command.make_context(name, args).params)


@given(configs())
@settings(max_examples=50)
def test_the_named_command_makes_the_same_settings(config: GenerateConfig) -> None:
    again = config_of(parsed(command(config)))
    assert again.resolved() == config.resolved()
    assert again.writer == config.writer
    assert command(GenerateConfig()) == "synth generate --depth 3 -n 200 --seed 0"


@given(configs(), st.randoms())
@settings(max_examples=50)
def test_the_order_and_repetition_of_names_does_not_matter(
    config: GenerateConfig, dice: Any
) -> None:
    def shuffled(values: tuple[Any, ...]) -> tuple[Any, ...]:
        twice = [*values, *values]
        dice.shuffle(twice)
        return tuple(twice)

    other = GenerateConfig(
        **{
            **vars(config),
            "types": shuffled(config.types),
            "levels": shuffled(config.levels),
            "tasks": shuffled(config.tasks),
        }
    )
    assert config_digest(other.resolved()) == config_digest(config.resolved())
    assert other.wanted_levels == config.wanted_levels == tuple(sorted(config.wanted_levels))
    assert other.tasks == config.tasks
    # Equal digests promise equal rows, so the operations must stand in one order as well.
    assert operations_of(other.types or None) == operations_of(config.types or None)


CHANGES: dict[str, Any] = {
    "depth": 2,
    "rows": 201,
    "seed": 1,
    "types": ("str",),
    "levels": (1, 2),
    "inputs_per_program": 5,
    "tasks": ("output",),
    "questions": "full",
    "exceptions": True,
}
WRITER_CHANGES: dict[str, Any] = {
    "model": "other",
    "endpoint": "completion",
    "sampling": Sampling(temperature=0.7, max_tokens=4096),
    "repairs": 0,
    "attempts": 3,
}


def test_every_setting_is_part_of_the_digest() -> None:
    standard = GenerateConfig()
    assert set(CHANGES) | {"provider", "writer", "inputs"} == set(vars(standard))
    digests = {config_digest(standard.resolved())}
    for name, value in CHANGES.items():
        digests.add(config_digest(GenerateConfig(**{name: value}).resolved()))
    assert len(digests) == len(CHANGES) + 1
    assert json.loads(json.dumps(standard.resolved())) == standard.resolved()


def test_every_setting_of_a_writer_is_part_of_the_digest_and_no_address_is() -> None:
    standard = Writer("stub")
    assert set(WRITER_CHANGES) == set(vars(standard))
    every = [standard, *(replace(standard, **{k: v}) for k, v in WRITER_CHANGES.items())]
    configs = [GenerateConfig(provider="openai", writer=writer) for writer in every]
    assert len({config_digest(config.resolved()) for config in configs}) == len(every)
    resolved = configs[0].resolved()
    assert json.loads(json.dumps(resolved)) == resolved
    sources = [replace(configs[0], inputs=inputs) for inputs in INPUT_SOURCES]
    assert len({config_digest(config.resolved()) for config in sources}) == len(INPUT_SOURCES)
    assert "http" not in json.dumps(resolved)
    assert "key" not in json.dumps(resolved)


def test_the_grammar_has_the_digest_that_it_had() -> None:
    """A finished dataset must be resumable: nothing of models stands in its configuration."""
    assert "model" not in GenerateConfig().resolved()
    assert config_digest(GenerateConfig(rows=60).resolved()) == (
        "98317cf6f1825555dd6ba1da8d998ea63554b1253f01ba28f794d126b22dde1b"
    )


@pytest.mark.parametrize("depth", range(MAX_DEPTH + 1))
def test_levels_follow_the_depth(depth: int) -> None:
    assert GenerateConfig(depth=depth).wanted_levels == tuple(
        range(1, 3 if depth == 0 else depth + 4)
    )


BAD: list[tuple[dict[str, Any], str]] = [
    ({"depth": -1}, r"--depth is -1; expected a whole number from 0 to 5"),
    ({"depth": 6}, r"--depth is 6; expected a whole number from 0 to 5"),
    ({"rows": 0}, r"-n/--rows is 0; expected a whole number from 1 to"),
    ({"rows": MAX_ROWS + 1}, r"-n/--rows is 10000001; expected"),
    ({"inputs_per_program": 0}, r"--inputs-per-program is 0; expected a whole number from 1 to 50"),
    ({"inputs_per_program": 51}, r"--inputs-per-program is 51"),
    ({"levels": (1, 7)}, r"--levels has 7; --depth 3 gives the levels 1, 2, 3, 4, 5, 6"),
    ({"depth": 0, "levels": (3,)}, r"--levels has 3; --depth 0 gives the levels 1, 2"),
    (
        {"tasks": ("outputt",)},
        r"--tasks has 'outputt'.*output or input or whitebox.*did you mean 'output'",
    ),
    ({"tasks": ()}, r"--tasks is empty; expected some of output, input"),
    ({"provider": "gramar"}, r"--provider is 'gramar'.*did you mean 'grammar'"),
    ({"types": ("strr",)}, r"'strr'.*'str'"),
    ({"provider": "openai"}, r"--provider openai asks a model: name it with --model"),
    (
        {"writer": Writer("m")},
        r"--model is 'm', and --provider grammar asks no model.*--provider openai",
    ),
]


@pytest.mark.parametrize(("setting", "message"), BAD, ids=[str(setting) for setting, _ in BAD])
def test_a_bad_setting_says_what_was_given_and_what_is_expected(
    setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        GenerateConfig(**setting)
    assert re.search(message, str(caught.value))


BAD_WRITERS: list[tuple[dict[str, Any], str]] = [
    ({"model": ""}, r"--model"),
    ({"endpoint": "chatt"}, r"--endpoint is 'chatt'.*did you mean 'chat'"),
    ({"repairs": 6}, r"--repair is 6; expected a whole number from 0 to 5"),
    ({"attempts": 0}, r"--attempts is 0; expected a whole number from 1 to 100"),
    ({"sampling": Sampling(temperature=0)}, r"--temperature is 0"),
]


@pytest.mark.parametrize(("setting", "message"), BAD_WRITERS, ids=[str(s) for s, _ in BAD_WRITERS])
def test_a_bad_setting_of_a_writer_is_refused(setting: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Writer(**{"model": "m", **setting})
    assert re.search(message, str(caught.value))


@pytest.mark.parametrize("text", ["x", "1,x", "1.0", "1;2", "١x"])
def test_levels_that_are_no_numbers(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--levels is .*; expected whole numbers, such as 1,2,5"):
        numbers("--levels", text)
    assert numbers("--levels", " 1, 2,,3 ") == [1, 2, 3]
