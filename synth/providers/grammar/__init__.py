"""Provider `grammar`: programs written by rule, offline, with no model and no key.

Covers one completion per prompt, drawn from the prompt's seed alone. In the order of the data:
`vocabulary` and `terms` (names and types), `literals`, `scope`, `expressions`, `recipes` and `uses` (the
constraint's operation), `blocks` (control flow), `writer` (the whole program).
"""

from __future__ import annotations

from collections.abc import Sequence

from synth.errors import ProviderError
from synth.prompts import Prompt
from synth.providers.base import Completion
from synth.seeds import rng


class GrammarProvider:
    """Writes a program that meets the prompt's constraint by construction."""

    name = "grammar"

    def complete(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """One completion per prompt, in order. Raises `ProviderError` for optional rules."""
        return [self._complete(prompt) for prompt in prompts]

    def _complete(self, prompt: Prompt) -> Completion:
        from synth.providers.grammar.writer import write_program

        if prompt.constraint.structure.extras:
            raise ProviderError(
                "provider 'grammar' does not write programs for the optional rules "
                f"{', '.join(prompt.constraint.structure.extras)}; use a model"
            )
        text = write_program(prompt.constraint, rng("grammar", prompt.seed))
        return Completion(prompt.id, f"```python\n{text}```\n", self.name)
