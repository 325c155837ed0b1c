"""The demonstration's table, plot and JSON, made from what was measured.

Intervals are 95 %, over the held-out programs: they say how far another set of programs could move a
figure, not how far another seed could; of seeds the least and most are shown. Differences are paired by
program. Does not cover the measuring (`demo.py`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trainers.demo import ARMS, FIGURES, WARM, Point, last_points

__all__ = ["draw_plot", "gaps_by_step", "summary", "table", "write_json"]

BASE = "output only"

HONEST = """\
What was done. The grammar provider wrote programs of a tiny language (digits, short strings, if, for),
and our tracer ran them.
The warm-up was deliberately sloppy: its answers are runs of bent programs, in which a loop lost its last
pass (60 %), a test was turned round (30 %) or a number was off by one (3 %). So the model knew the form and
the skills, and had bad habits that a checked reward can undo. The warm-up is a plain torch loop (Muon and
AdamW); GRPO is TRL's. All runs of a seed share checkpoint, prompts, order and number of completions.
Rewards and figures are true executions, graded by rewards.grading. A model this small says nothing about
real ones."""


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean, and half the width of its 95 % interval."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.inf
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, 1.96 * math.sqrt(variance / len(values))


def _over_seeds(points: dict[int, Point], figure: str) -> list[float]:
    """Each program's score, averaged over the seeds."""
    columns = [points[seed].scores[figure] for seed in sorted(points)]
    return [sum(values) / len(values) for values in zip(*columns, strict=True)]


def summary(points: Sequence[Point]) -> dict[str, Any]:
    """`runs`: run -> figure -> mean, half-width, and the mean of each seed. `gaps`: white-box run ->
    figure -> difference to the output reward, the same three. All as shares.
    """
    last = last_points(points)
    runs: dict[str, Any] = {}
    for arm, found in last.items():
        runs[arm] = {name: _figure(_over_seeds(found, name), found, name) for name in FIGURES}
    gaps: dict[str, Any] = {}
    for arm in [name for name in ARMS if name != BASE]:
        gaps[arm] = {}
        for name in FIGURES:
            mine, base = _over_seeds(last[arm], name), _over_seeds(last[BASE], name)
            paired = [a - b for a, b in zip(mine, base, strict=True)]
            mean, half = spread(paired)
            seeds = [a - b for a, b in zip(
                runs[arm][name]["seeds"], runs[BASE][name]["seeds"], strict=True)]  # fmt: skip
            gaps[arm][name] = {"mean": mean, "half": half, "seeds": seeds}
    return {"runs": runs, "gaps": gaps}


def gaps_by_step(points: Sequence[Point]) -> dict[int, Any]:
    """Step of GRPO -> the `gaps` of `summary` as they were then, for every step that was measured."""
    steps = sorted({point.step for point in points if point.arm in ARMS})
    then = {step: [point for point in points if point.step in (0, step)] for step in steps}
    return {step: summary(known)["gaps"] for step, known in then.items()}


def _figure(values: Sequence[float], found: dict[int, Point], name: str) -> dict[str, Any]:
    mean, half = spread(values)
    seeds = [spread(found[seed].scores[name])[0] for seed in sorted(found)]
    return {"mean": mean, "half": half, "seeds": seeds}


def table(result: dict[str, Any]) -> list[str]:
    """The lines to print."""
    found = summary(result["points"])
    plan = result["plan"]
    seeds = plan["seeds"]
    lines = [*HONEST.splitlines(), ""]
    if plan["steps"] < 40 or plan["warm_steps"] < 400:
        lines += ["Too few steps to learn anything: the figures show only that the parts work.", ""]
    lines.append(
        f"{plan['held_out']} held-out programs, greedy; {plan['steps']} steps of GRPO with 128"
        f" completions; {seeds} seed{'s' if seeds > 1 else ''}; 95 % intervals over programs"
    )
    lines.append(f"{'':14}" + "".join(f"{name:>27}" for name in FIGURES))
    for arm in (WARM, *ARMS):
        cells = [_cell(found["runs"][arm][name]) for name in FIGURES]
        lines.append(f"{arm:14}" + "".join(f"{cell:>27}" for cell in cells))
    for step, by_arm in reversed(gaps_by_step(result["points"]).items()):
        when = "" if step == plan["steps"] else f", after {step} of the steps"
        lines += ["", f"Difference to {BASE}, points, paired by program{when}:"]
        for arm, gaps in by_arm.items():
            cells = [_gap(gaps[name]) for name in FIGURES]
            lines.append(f"{arm:14}" + "".join(f"{cell:>27}" for cell in cells))
    lines += ["", *_verdict(found["gaps"], seeds)]
    minutes, spent = result["wall_seconds"] / 60, result["cpu_seconds"] / 60
    lines.append(f"{minutes:.1f} minutes, {spent:.1f} minutes of processor time.")
    return lines


def _cell(figure: dict[str, Any]) -> str:
    low, high = min(figure["seeds"]), max(figure["seeds"])
    seeds = f" ({100 * low:.1f}..{100 * high:.1f})" if len(figure["seeds"]) > 1 else ""
    return f"{100 * figure['mean']:.1f} ± {100 * figure['half']:.1f} %{seeds}"


def _gap(gap: dict[str, Any]) -> str:
    low, high = min(gap["seeds"]), max(gap["seeds"])
    seeds = f" ({100 * low:+.1f}..{100 * high:+.1f})" if len(gap["seeds"]) > 1 else ""
    return f"{100 * gap['mean']:+.1f} ± {100 * gap['half']:.1f}{seeds}"


def _verdict(gaps: dict[str, Any], seeds: int) -> list[str]:
    """What the differences bear out, in words."""
    lines = []
    for arm, figures in gaps.items():
        for name in FIGURES:
            gap = figures[name]
            ahead = sum(one > 0 for one in gap["seeds"])
            sure = "excludes" if abs(gap["mean"]) > gap["half"] else "includes"
            lines.append(
                f"{arm} against {BASE}, {name}: ahead in {ahead} of {seeds}"
                f" seed{'s' if seeds > 1 else ''}; the interval {sure} 0"
            )
    lines.append(
        "The intervals leave out what another seed would change; --seeds 3 shows some of that."
    )
    return lines


def write_json(result: dict[str, Any], path: Path) -> dict[str, Any]:
    """Write all figures, the scores of each program included; returns what `--json` prints."""
    record = {key: value for key, value in result.items() if key != "points"}
    record.update(summary(result["points"]))
    record["gaps_by_step"] = gaps_by_step(result["points"])
    points = [asdict(point) for point in result["points"]]
    path.write_text(json.dumps({**record, "points": points}), encoding="utf-8")
    return record


# The plot.


def draw_plot(result: dict[str, Any], folder: Path) -> tuple[list[str], Path]:
    """Save the curves: a picture if matplotlib is installed, else text. Returns text lines and the path."""
    lines = _bars(summary(result["points"])["runs"])
    if find_spec("matplotlib") is None:
        path = folder / "plot.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return lines, path
    path = folder / "plot.png"
    _picture(result["points"], path)
    return lines, path


def _bars(runs: dict[str, Any], width: int = 50) -> list[str]:
    """One bar a figure and run, from 0 to 100 %."""
    lines = []
    for name in FIGURES:
        lines.append(f"{name}, %")
        for arm in (WARM, *ARMS):
            mean = runs[arm][name]["mean"]
            filled = round(mean * width)
            lines.append(f"  {arm:12} |{'#' * filled}{'.' * (width - filled)}| {100 * mean:.1f}")
    return lines


def _picture(points: Sequence[Point], path: Path) -> None:
    from importlib import import_module

    import_module("matplotlib").use("Agg")
    plt: Any = import_module("matplotlib.pyplot")
    figure, axes = plt.subplots(1, len(FIGURES), figsize=(12, 4), sharex=True)
    start = {point.seed: point for point in points if point.arm == WARM}
    for axis, name in zip(axes, FIGURES, strict=True):
        for arm in ARMS:
            by_step: dict[int, dict[int, Point]] = {0: start}
            for point in points:
                if point.arm == arm:
                    by_step.setdefault(point.step, {})[point.seed] = point
            drawn = [spread(_over_seeds(by_step[step], name)) for step in sorted(by_step)]
            means = [100 * mean for mean, _ in drawn]
            halves = [100 * half for _, half in drawn]
            axis.errorbar(sorted(by_step), means, yerr=halves, label=arm, capsize=3, marker="o")
        axis.set_title(f"{name}: right, %")
        axis.set_xlabel("steps of GRPO")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
