"""The section that a trained model's card gets from its run: data, recipe, figures. TRL writes the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from trainers.config import digest
from trainers.records import TrainConfig

__all__ = ["add_section", "section"]

MARK = "## Made with execverify"
_TITLES = {
    "sft": "Supervised warm-up on reasoning chains",
    "whitebox": "Stage I: GRPO with white-box rewards",
    "codegen": "Stage II: GRPO with unit-test rewards",
}
_FIGURES = (
    *("loss", "reward", "reward_std", "frac_reward_zero_std", "unscored", "entropy"),
    *("whitebox/io", "whitebox/w", "whitebox/format", "unittest/tests", "unittest/format"),
    *("completions/mean_length", "mean_token_accuracy", "reward_seconds"),
)


def section(
    config: TrainConfig, reports: Mapping[str, Any], log: Sequence[Mapping[str, Any]]
) -> str:
    """The Markdown of the section."""
    lines = [MARK, "", f"{_TITLES[config.stage]}, from `{config.model.path}`.", ""]
    for name, report in reports.items():
        if isinstance(report, Mapping):
            dropped = sum(report.get("dropped", {}).values())
            lines.append(
                f"- **Rows ({name})**: {report.get('kept', 0):,} of `{report.get('source', '')}`"
                f" (layout {report.get('layout', '')}); {dropped:,} left out"
            )
    reward = config.reward
    if config.stage == "whitebox":
        lines.append(
            f"- **Reward**: shape `{reward.shape}`, alpha {reward.alpha:g}, families"
            f" `{reward.families}`, format term {reward.format:g}"
        )
    elif config.stage == "codegen":
        lines.append(f"- **Reward**: tests `{reward.tests}`, format term {reward.format:g}")
    lines += [f"- **Order**: {config.curriculum.order}", f"- **Digest**: `{digest(config)}`", ""]
    lines += ["| setting of TRL | value |", "|---|---|"]
    lines += [f"| `{name}` | {value} |" for name, value in sorted(config.trl.items())]
    lines += ["", *_table(log)]
    return "\n".join(lines).rstrip() + "\n"


def _table(log: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """First and last of each figure, averaged over up to ten entries."""
    rows = []
    for name in _FIGURES:
        values = [float(e[name]) for e in log if isinstance(e.get(name), (int, float))]
        if values:
            span = max(1, min(10, len(values) // 2))
            first, last = sum(values[:span]) / span, sum(values[-span:]) / span
            rows.append(f"| {name} | {first:.4g} | {last:.4g} | {len(values)} |")
    if not rows:
        return []
    return ["| figure | at first | at last | entries |", "|---|---|---|---|", *rows]


def add_section(
    path: Path, config: TrainConfig, reports: Mapping[str, Any], log: Sequence[Mapping[str, Any]]
) -> None:
    """Put the section at the end of a card, in place of an older one."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    text = text.partition(MARK)[0].rstrip()
    path.write_text(f"{text}\n\n{section(config, reports, log)}", encoding="utf-8")
