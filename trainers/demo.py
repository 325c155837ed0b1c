"""`synth train demo`: from nothing to a model that learns, on two cores, in minutes.

A model of 130 thousand parameters is warmed up on runs of tiny programs, deliberately sloppy ones, and then
trained by TRL's `GRPOTrainer` from the same checkpoint, on the same prompts in the same order, with three
rewards: for the output alone, and white-box, gated and additive. What differs between the three runs is the
shape in the rows' specs (`trainers.paying`). Held-out figures come from `trainers.evaluate` and
`rewards.grading`.

Shows that the step reward teaches something that the output reward does not, at this size and on habits
that were taught on purpose. Says nothing about real models. Not covered: the table and plot (`demo_report`).
"""

from __future__ import annotations

import json
import os
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rewards.grading import grade_all
from rewards.row import Spec
from trainers.demo_form import paid_by, translated
from trainers.demo_model import build, tokenizer, warm_up
from trainers.demo_rows import held_out, to_reward, to_warm_up
from trainers.evaluate import Sampling, generate
from trainers.layouts import Example
from trainers.models import library
from trainers.paying import paid
from trainers.records import RewardConfig

__all__ = ["ARMS", "FIGURES", "Plan", "Point", "run"]

ARMS = {"output only": "outcome", "gated": "gated", "additive": "additive"}
"""Name of a run -> shape of its reward."""
WARM = "warm-up"
"""Name of the checkpoint from which all runs start."""
FIGURES = ("output", "steps", "trace")
"""Share of right outputs, of right questions about steps, and of answers right throughout."""

PROMPTS, ROLLOUTS = 16, 8
"""Prompts a step, and completions of each."""
MAX_TOKENS = 40


@dataclass(frozen=True)
class Plan:
    """How much is done."""

    seeds: int = 1
    steps: int = 160
    """Of GRPO, each of 128 completions."""
    warm_steps: int = 1600
    """Of the warm-up, each of 32 answers."""
    warm_rows: int = 16_000
    """Answers to choose from: so many runs are traced, and each is shown about three times."""
    held_out: int = 1000
    """Programs that the figures are measured on."""
    points: int = 2
    """How often a run is measured, evenly, the last time at its end."""
    workers: int = 2
    """Processes at a time, each of one thread."""

    @classmethod
    def quick(cls, seeds: int = 1) -> Plan:
        """Enough to see that all parts work; teaches nothing."""
        return cls(seeds=seeds, steps=4, warm_steps=20, warm_rows=640, held_out=40, points=1)


@dataclass(frozen=True)
class Point:
    """What one model scored at one moment."""

    seed: int
    arm: str
    step: int
    scores: dict[str, list[float]]
    """Figure -> score of each held-out program, in their order."""


def run(plan: Plan, folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Do all of it; returns `points` (`Point`s), `wall_seconds`, `cpu_seconds` and `plan`.

    Data and checkpoints are kept in `folder`. Raises `ConfigError` if the extra `train` is not installed.
    """
    for name in ("torch", "trl", "datasets"):
        if (
            find_spec(name) is None
        ):  # else they are for the processes to import, which takes seconds
            library(name)
    started, spent = time.perf_counter(), _cpu()
    clock = _Clock(say, started)
    clock("programs: drawing them and tracing their runs")
    sizes = {"held-out": len(held_out(folder, plan.held_out))}
    for seed in range(plan.seeds):
        sizes[WARM] = len(to_warm_up(folder, seed, plan.warm_rows))
        sizes["rewarded"] = len(to_reward(folder, seed, PROMPTS * plan.steps))
    counts = ", ".join(f"{count:,} {name}" for name, count in sizes.items())
    clock(f"rows per seed: {counts}")
    points = _trained(plan, folder, clock)
    clock("done")
    return {
        "plan": asdict(plan),
        "rows": sizes,
        "points": points,
        "wall_seconds": time.perf_counter() - started,
        "cpu_seconds": _cpu() - spent,
    }


@dataclass(frozen=True)
class _Clock:
    say: Callable[[str], None]
    started: float

    def __call__(self, text: str) -> None:
        self.say(f"[{time.perf_counter() - self.started:5.0f} s] {text}")


def _trained(plan: Plan, folder: Path, clock: Callable[[str], None]) -> list[Point]:
    """Warm-ups, then every arm of every seed, in processes of one thread each."""
    points: list[Point] = []
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes started below
    try:
        with ProcessPoolExecutor(plan.workers, mp_context=get_context("spawn")) as pool:
            warm = [pool.submit(_warm, plan, str(folder), seed) for seed in range(plan.seeds)]
            for future in warm:
                point, loss = future.result()
                points.append(point)
                clock(f"seed {point.seed}, {WARM}: loss {loss:.3f} a token; {_brief(point)}")
            jobs = [(seed, arm) for seed in range(plan.seeds) for arm in ARMS]
            arms = [pool.submit(_arm, plan, str(folder), *job) for job in jobs]
            for found in arms:
                points += found.result()
                clock(f"seed {points[-1].seed}, {points[-1].arm}: {_brief(points[-1])}")
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before
    return points


def _brief(point: Point) -> str:
    means = {name: sum(values) / len(values) for name, values in point.scores.items()}
    return ", ".join(f"{name} {mean:.1%}" for name, mean in means.items())


def _cpu() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


# In the processes.


def _settle() -> None:
    """One thread; no bars and notices of libraries, since several processes would talk at once."""
    library("torch").set_num_threads(1)
    library("transformers").utils.logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")


def _warm(plan: Plan, folder: str, seed: int) -> tuple[Point, float]:
    """Build a model, warm it up, leave it in the folder."""
    _settle()
    words = tokenizer()
    model = build(words, seed)
    pairs = to_warm_up(Path(folder), seed, plan.warm_rows)
    loss = warm_up(
        model, words, [(one["prompt"], one["answer"]) for one in pairs],
        steps=plan.warm_steps, seed=seed,
    )  # fmt: skip
    model.save_pretrained(_checkpoint(folder, seed))
    return Point(seed, WARM, 0, _measure(plan, folder, model, words)), loss


def _checkpoint(folder: str, seed: int) -> Path:
    return Path(folder) / f"seed-{seed}" / WARM


def _measure(plan: Plan, folder: str, model: Any, words: Any) -> dict[str, list[float]]:
    """Greedy, on the held-out programs."""
    rows = held_out(Path(folder), plan.held_out)
    examples = [
        Example(row["id"], (("user", row["prompt"]),), "whitebox", spec=row["spec"]) for row in rows
    ]
    specs = [Spec.from_json(row["spec"]) for row in rows]
    texts = generate(model, words, examples, Sampling(max_new_tokens=MAX_TOKENS, batch=125))
    pairs = [
        (spec, translated(text, spec)) for spec, (_, text, *_) in zip(specs, texts, strict=True)
    ]
    graded = grade_all(pairs)
    return {
        "output": [(one.io.score or 0.0) if one.io else 0.0 for one in graded],
        "steps": [one.w or 0.0 for one in graded],
        "trace": [float(one.status == "right") for one in graded],
    }


def _arm(plan: Plan, folder: str, seed: int, arm: str) -> list[Point]:
    """One run of GRPO from the seed's checkpoint."""
    torch, transformers, trl = library("torch"), library("transformers"), library("trl")
    _settle()
    from rewards.whitebox import Reward

    words = tokenizer()
    model = transformers.AutoModelForCausalLM.from_pretrained(
        _checkpoint(folder, seed), dtype=torch.float32
    )
    rows = to_reward(Path(folder), seed, PROMPTS * plan.steps)
    pays = RewardConfig(shape=ARMS[arm])
    table = [{"prompt": row["prompt"], "spec": paid(row["spec"], pays)} for row in rows]
    points: list[Point] = []
    trainer = trl.GRPOTrainer(
        model=model,
        processing_class=words,
        reward_funcs=[paid_by(Reward())],
        args=_settings(plan, Path(folder) / f"seed-{seed}" / arm.replace(" ", "-"), seed),
        train_dataset=library("datasets").Dataset.from_list(table),
        callbacks=[_measuring(plan, folder, seed, arm, words, points)],
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    log = [entry for entry in trainer.state.log_history if "reward" in entry]
    path = Path(trainer.args.output_dir) / "log.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(log, indent=1), encoding="utf-8")
    return points


def _settings(plan: Plan, output: Path, seed: int) -> Any:
    size = PROMPTS * ROLLOUTS
    return library("trl").GRPOConfig(
        output_dir=str(output), max_steps=plan.steps, logging_steps=max(1, plan.steps // 8),
        save_strategy="no", report_to="none", use_cpu=True, bf16=False,
        gradient_checkpointing=False, seed=seed, disable_tqdm=True, shuffle_dataset=False,
        remove_unused_columns=False, per_device_train_batch_size=size,
        gradient_accumulation_steps=1, num_generations=ROLLOUTS,
        max_completion_length=MAX_TOKENS, temperature=1.0, beta=0.0, loss_type="dapo",
        scale_rewards="group", learning_rate=2.5e-4, adam_beta2=0.99, weight_decay=0.0,
        lr_scheduler_type="linear", warmup_steps=min(10, plan.steps // 4), max_grad_norm=1.0,
    )  # fmt: skip


def _measuring(
    plan: Plan, folder: str, seed: int, arm: str, words: Any, points: list[Point]
) -> Any:
    """A callback that measures evenly; `generate` leaves torch's generator and the mode as they were."""
    every = max(1, plan.steps // plan.points)

    class Measuring(library("transformers").TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            step = state.global_step
            if step == plan.steps or (step % every == 0 and plan.steps - step >= every):
                scores = _measure(plan, folder, given["model"], words)
                points.append(Point(seed, arm, step, scores))

    return Measuring()


def last_points(points: Sequence[Point]) -> dict[str, dict[int, Point]]:
    """Name of a run -> seed -> its last measurement."""
    found: dict[str, dict[int, Point]] = {}
    for point in points:
        known = found.setdefault(point.arm, {}).get(point.seed)
        if known is None or point.step >= known.step:
            found[point.arm][point.seed] = point
    return found
