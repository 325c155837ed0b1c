"""Stand-ins for parts of a run that tests want to control: who writes a completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synth.prompts import Prompt
from synth.providers import Completion


class ScriptedProvider:
    """Answers every prompt as a script says, through the same interface as a model.

    `script` is a list of texts, one for each attempt at a slot (the last one again for all further
    attempts), or a function of the prompt. Holds no state, so any number of workers may ask it.
    """

    name = "scripted"

    def __init__(self, script: Sequence[str] | Callable[[Prompt], str]) -> None:
        self.script = script

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion(prompt.id, self._text(prompt), self.name) for prompt in prompts]

    def _text(self, prompt: Prompt) -> str:
        if callable(self.script):
            return self.script(prompt)
        return self.script[min(attempt_of(prompt), len(self.script) - 1)]


def attempt_of(prompt: Prompt) -> int:
    """Which attempt at its slot a prompt is, from 0; its id is `seed:slot:attempt`."""
    return int(prompt.id.rpartition(":")[2])
