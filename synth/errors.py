"""What `synth` raises, one type per boundary.

    SynthError
    ├── UsageError            the caller asked for something that cannot be done (exit code 2)
    │   ├── ConfigError       a setting is out of its range, or two settings contradict each other
    │   ├── FolderError       an output folder exists, is missing, or cannot be written
    │   └── DataError         a file given as input is not what it should be (file, line, field)
    ├── ProgramRejected       a completion is not a program that meets its constraint (names the rule)
    ├── ProviderError         a provider could not produce a completion
    └── PublishError          the Hub refused, or would refuse, what was to be sent

A program that is rejected is the ordinary course of generation and is counted in the funnel; it
never ends a run. A sandbox that is broken is not in this tree: `rewards.sandbox.SandboxError`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = [
    "ConfigError",
    "DataError",
    "FolderError",
    "ProgramRejected",
    "ProviderError",
    "PublishError",
    "SynthError",
    "UsageError",
    "closest",
]


class SynthError(Exception):
    """Base of everything that `synth` raises on purpose."""


class UsageError(SynthError):
    """The request cannot be met as put; the message says what was given, expected, and what to do."""


class ConfigError(UsageError):
    """A setting is out of range or contradicts another one."""


class FolderError(UsageError):
    """A folder cannot serve as asked."""


class DataError(UsageError):
    """An input file is malformed; the message names the file, the line and the field."""


class ProgramRejected(SynthError):
    """A completion did not become a program.

    `rule` is the short name counted in the funnel, `detail` says what was found.
    """

    def __init__(self, rule: str, detail: str = "") -> None:
        super().__init__(f"{rule}: {detail}" if detail else rule)
        self.rule = rule
        self.detail = detail


class ProviderError(SynthError):
    """A provider failed to give a completion at all."""


class PublishError(SynthError):
    """A dataset cannot be published as it is, or the Hub refused it."""


def closest(name: str, known: Iterable[str], *, count: int = 3) -> str:
    """`" (did you mean 'str'?)"` for the nearest of `known`, or the empty string if none is near."""
    near = difflib.get_close_matches(name, sorted(known), n=count, cutoff=0.5)
    if not near:
        return ""
    return f" (did you mean {' or '.join(repr(n) for n in near)}?)"
