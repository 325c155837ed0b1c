"""The settings of a measurement of difficulty, checked when they are made.

Covers who is asked, how often, and what is kept. Addresses of servers, keys, concurrency and patience are
not here: they do not decide the labels.
"""

from __future__ import annotations

from dataclasses import dataclass

from synth.completions import Sampling
from synth.difficulty.stopping import Bar
from synth.errors import ConfigError

__all__ = ["EVALUATOR", "DifficultyConfig"]

EVALUATOR = "Qwen/Qwen2.5-Coder-7B-Instruct"
"""The small model that rows are measured with by default."""
MAX_SOLVER_N = 100
BAR = Bar()
SAMPLING = Sampling(temperature=1.0, top_p=0.9, max_tokens=2048)
SOLVER_SAMPLING = Sampling(temperature=0.6, top_p=0.95, max_tokens=16384)


@dataclass(frozen=True)
class DifficultyConfig:
    """What a row's labels depend on, besides the row and the models' answers."""

    model: str = EVALUATOR
    bar: Bar = BAR
    sampling: Sampling = SAMPLING
    endpoint: str = "chat"
    few_shot: bool = False
    """Ask with worked examples and no instructions, as base models need; tasks `output` only."""
    solver_model: str | None = None
    """Strong model that must pass at least once; None asks none."""
    solver_n: int = 1
    """Completions that the solver gets, 1 to 100."""
    solver_sampling: Sampling = SOLVER_SAMPLING
    label_only: bool = False
    """Keep every row, with its labels."""

    def __post_init__(self) -> None:
        if not 1 <= self.solver_n <= MAX_SOLVER_N:
            raise ConfigError(f"--solver-n is {self.solver_n}; expected 1 to {MAX_SOLVER_N}")
        if self.sampling.temperature == 0 and self.bar.n > 1:
            raise ConfigError(
                f"--temperature is 0 with -n {self.bar.n}: all completions of a row would be one and"
                " the same; give a temperature above 0, or -n 1"
            )

    def resolved(self) -> dict[str, object]:
        """Everything that decides the labels, as JSON values."""
        solver: dict[str, object] | None = None
        if self.solver_model is not None:
            solver = {"model": self.solver_model, "n": self.solver_n}
            solver |= _sampling(self.solver_sampling)
        return {
            "evaluator": {
                "model": self.model,
                "endpoint": self.endpoint,
                "few_shot": self.few_shot,
                **_sampling(self.sampling),
            },
            "n": self.bar.n,
            "max_pass_rate": self.bar.most,
            "early_stop": self.bar.early,
            "solver": solver,
            "label_only": self.label_only,
        }

    def described(self, date: str) -> str:
        """The text of a row's column `evaluator`: model, sampling, date of the measurement."""
        words = [f"temperature {self.sampling.temperature:g}"]
        if self.sampling.top_p is not None:
            words.append(f"top_p {self.sampling.top_p:g}")
        return f"{self.model} ({', '.join([*words, date])})"


def _sampling(sampling: Sampling) -> dict[str, object]:
    return {**vars(sampling), "stop": list(sampling.stop)}
