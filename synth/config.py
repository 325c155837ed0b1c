"""The settings of a stage, checked when they are made.

Covers `synth generate`. Only what decides the rows is in `resolved`; the folder, the number of workers, the
address of a server and its key are not, so that two runs that must give the same bytes have the same digest.
"""

from __future__ import annotations

from dataclasses import dataclass

from synth.completions import ENDPOINTS, Sampling
from synth.constraints import levels, operations_of
from synth.errors import ConfigError, closest
from synth.prompts import INPUTS_VERSION, PROGRAM_VERSION, REPAIR_VERSION
from synth.providers import MAX_REPAIRS, NAMES
from synth.questions import preset_named

TASKS = ("output", "input", "whitebox")
DEFAULT_TASKS = ("input", "whitebox")
"""A whitebox row asks for the output too."""
INPUT_SOURCES = ("hypothesis", "model", "both")
MAX_ROWS = 10_000_000
MAX_ATTEMPTS = 100
"""Completions asked of the grammar for one slot before it is given up."""
SAMPLING = Sampling(temperature=1.0, max_tokens=4096)


@dataclass(frozen=True)
class Writer:
    """The model that writes the programs, as far as it decides them. Raises `ConfigError`."""

    model: str
    endpoint: str = "chat"
    """One of `synth.completions.ENDPOINTS`."""
    sampling: Sampling = SAMPLING
    repairs: int = 1
    """Follow-up turns for one prompt, 0 to 5."""
    attempts: int = 10
    """Prompts for one slot before it is given up, 1 to 100."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ConfigError("--provider openai asks a model: name it with --model")
        if self.endpoint not in ENDPOINTS:
            raise ConfigError(
                f"--endpoint is {self.endpoint!r}; expected one of {', '.join(ENDPOINTS)}"
                f"{closest(self.endpoint, ENDPOINTS)}"
            )
        _within("--repair", self.repairs, 0, MAX_REPAIRS)
        _within("--attempts", self.attempts, 1, MAX_ATTEMPTS)
        if self.sampling.temperature == 0:
            raise ConfigError(
                "--temperature is 0: a model would write one and the same program for a constraint,"
                " however often it is asked; give a temperature above 0"
            )

    def resolved(self) -> dict[str, object]:
        """Everything that decides the programs, as JSON values."""
        sampling = {**vars(self.sampling), "stop": list(self.sampling.stop)}
        return {
            "name": self.model,
            "endpoint": self.endpoint,
            **sampling,
            "repairs": self.repairs,
            "attempts": self.attempts,
            "prompts": [PROGRAM_VERSION, REPAIR_VERSION],
        }


@dataclass(frozen=True)
class GenerateConfig:
    """What `synth generate` makes. Raises `ConfigError` or `UsageError` for a bad setting."""

    depth: int = 3
    """Deepest control-flow nest, 0 to 5."""
    rows: int = 200
    """Rows to make, >= 1."""
    seed: int = 0
    """Any whole number; the same seed gives the same rows."""
    types: tuple[str, ...] = ()
    """Owners of the operations; empty for all."""
    levels: tuple[int, ...] = ()
    """Levels to make; empty for all that the depth gives."""
    provider: str = "grammar"
    writer: Writer | None = None
    """The model, for the provider that asks one."""
    inputs_per_program: int = 4
    """Input cases kept of each program, 1 to 50."""
    tasks: tuple[str, ...] = DEFAULT_TASKS
    questions: str = "paper"
    """Preset of the questions of whitebox rows, a name of `synth.questions.PRESETS`."""
    inputs: str = "hypothesis"
    """Who varies the seed input, one of `INPUT_SOURCES`: Hypothesis, the model (and Hypothesis where it
    writes too few), or each for a half."""
    exceptions: bool = False
    """Keep input cases whose execution raises; in place of a whitebox row such a case gives an output
    row."""

    def __post_init__(self) -> None:
        known = levels(self.depth)
        _within("-n/--rows", self.rows, 1, MAX_ROWS)
        _within("--inputs-per-program", self.inputs_per_program, 1, 50)
        for level in self.levels:
            if level not in known:
                listed = ", ".join(map(str, known))
                raise ConfigError(
                    f"--levels has {level}; --depth {self.depth} gives the levels {listed}"
                )
        for task in self.tasks:
            if task not in TASKS:
                raise ConfigError(
                    f"--tasks has {task!r}; expected {' or '.join(TASKS)}{closest(task, TASKS)}"
                )
        if not self.tasks:
            raise ConfigError(f"--tasks is empty; expected some of {', '.join(TASKS)}")
        preset_named(self.questions)
        if self.provider not in NAMES:
            raise ConfigError(
                f"--provider is {self.provider!r}; expected one of {', '.join(NAMES)}"
                f"{closest(self.provider, NAMES)}"
            )
        _check_writer(self.provider, self.writer)
        _check_inputs(self.inputs, self.writer)
        operations_of(self.types or None)
        # One order, whatever order they were named in: it decides the rows.
        object.__setattr__(self, "tasks", tuple(task for task in TASKS if task in self.tasks))

    @property
    def wanted_levels(self) -> tuple[int, ...]:
        """The levels to make, ascending."""
        return tuple(sorted(set(self.levels))) or levels(self.depth)

    @property
    def written_by(self) -> str:
        """Who writes the programs: `grammar`, or the name of a model."""
        return self.writer.model if self.writer else self.provider

    @property
    def attempts(self) -> int:
        """Completions asked for one slot, follow-up turns apart, before it is given up."""
        return self.writer.attempts if self.writer else MAX_ATTEMPTS

    def resolved(self) -> dict[str, object]:
        """Everything that decides the rows, as JSON values."""
        model = {"model": self.writer.resolved()} if self.writer else {}
        # Left out by default, so that the digest of such a run is what it was before there was a choice.
        asked = {} if self.inputs == "hypothesis" else {"inputs": [self.inputs, INPUTS_VERSION]}
        return {
            "depth": self.depth,
            "rows": self.rows,
            "seed": self.seed,
            "types": sorted(set(self.types)),
            "levels": list(self.wanted_levels),
            "provider": self.provider,
            **model,
            "inputs_per_program": self.inputs_per_program,
            "tasks": list(self.tasks),
            "questions": self.questions if "whitebox" in self.tasks else None,
            "exceptions": self.exceptions,
            **asked,
        }


def _check_writer(provider: str, writer: Writer | None) -> None:
    if provider == "openai" and writer is None:
        raise ConfigError("--provider openai asks a model: name it with --model")
    if provider != "openai" and writer is not None:
        raise ConfigError(
            f"--model is {writer.model!r}, and --provider {provider} asks no model: add --provider openai"
        )


def _check_inputs(inputs: str, writer: Writer | None) -> None:
    if inputs not in INPUT_SOURCES:
        raise ConfigError(
            f"--inputs is {inputs!r}; expected one of {', '.join(INPUT_SOURCES)}"
            f"{closest(inputs, INPUT_SOURCES)}"
        )
    if inputs != "hypothesis" and writer is None:
        raise ConfigError(
            f"--inputs {inputs} asks a model: add --provider openai --model NAME, or leave it out"
        )


def _within(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name} is {value}; expected a whole number from {low} to {high}")
