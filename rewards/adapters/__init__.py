"""One thin shim per trainer, each loadable the way that trainer loads it, and the table of them.

    from rewards.adapters import ADAPTERS, path, table

`ADAPTERS` says for each trainer which line points it at us, where the spec travels, what a completion
without a score gets, and which versions this was checked against; `table` writes it for the README, and
`python -m rewards path` prints the files that some trainers load by path.

Importing a shim loads the standard library only; the environment classes of NeMo-RL and SkyRL are made
when they are asked for. Not covered: grading (`rewards.grading`), options of the rewards themselves
(`rewards.whitebox`).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ADAPTERS", "Adapter", "path", "table"]


@dataclass(frozen=True)
class Adapter:
    """How one trainer calls us."""

    name: str
    """One word, as in `python -m rewards path NAME`."""
    trainer: str
    """Its name for people."""
    line: str
    """The one line that points the trainer at us."""
    symbol: str
    """What that line loads: `module:attribute`."""
    column: str
    """Where in a row, or in its command, the JSON text of the spec is."""
    unscored: str
    """What a completion without a score gets."""
    ran: tuple[str, ...] = ()
    """Versions whose own code loaded and called the shim in a test."""
    read: tuple[str, ...] = ()
    """Versions whose source was read; a test calls the shim as it does."""
    file: str = ""
    """The file in `rewards/adapters/files`, for trainers that load by path."""


ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        "trl",
        "TRL; Unsloth and open-r1 with it",
        "trl grpo --reward_funcs rewards.whitebox.reward",
        "rewards.whitebox:reward",
        "column `spec`",
        "None, left out of the baseline from TRL 1.6",
        ran=("1.16.0", "1.6.0", "1.0.0"),
        read=("0.18", "0.24", "1.10"),
    ),
    Adapter(
        "verl",
        "verl",
        "reward.custom_reward_function.path=pkg://rewards.adapters.verl"
        " reward.custom_reward_function.name=compute_score",
        "rewards.adapters.verl:compute_score",
        "`reward_model.ground_truth` or `extra_info.spec`",
        "0.0 and `unscored`",
        ran=("0.9.1", "0.6.1 (loader)"),
        read=("0.3.1", "0.8.0", "0.10.0.dev"),
        file="execverify_verl.py",
    ),
    Adapter(
        "openrlhf",
        "OpenRLHF",
        '--reward.remote_url "$(python -m rewards path openrlhf)" --data.label_key spec',
        "rewards.adapters.openrlhf:reward_func",
        "column `spec`, as the label",
        "0.0 and `unscored`",
        ran=("0.11.2",),
        read=("0.11.0",),
        file="execverify_openrlhf.py",
    ),
    Adapter(
        "verifiers",
        "verifiers v1, prime-rl",
        'whitebox = { fn = "rewards.adapters.verifiers:reward" } in `[env.taskset.task.rewards]`',
        "rewards.adapters.verifiers:reward",
        "field `spec` of the task's data",
        "raises: the rollout is dropped",
        ran=("0.4.0", "0.3.1"),
        read=("prime-rl 559b447",),
    ),
    Adapter(
        "verifiers-legacy",
        "verifiers rubrics",
        "vf.Rubric(funcs=[rewards.adapters.verifiers.rubric_reward])",
        "rewards.adapters.verifiers:rubric_reward",
        '`info["spec"]`, or `answer`',
        "0.0",
        ran=("0.3.1 (legacy)",),
        read=("0.1.5",),
    ),
    Adapter(
        "slime",
        "slime (THUDM)",
        "--custom-rm-path rewards.adapters.slime.slime_rm --label-key spec",
        "rewards.adapters.slime:slime_rm",
        'column `spec`, as the label, or `metadata["spec"]`',
        "0.0 and `unscored`",
        read=("0.3.1",),
    ),
    Adapter(
        "ms-swift",
        "ms-swift",
        '--external_plugins "$(python -m rewards path ms-swift)" --reward_funcs whitebox',
        "rewards.adapters.ms_swift:Whitebox",
        "column `spec`",
        "None (NaN); `whitebox_zero` for 0.0",
        ran=("4.6.0",),
        read=("3602360",),
        file="execverify_swift.py",
    ),
    Adapter(
        "areal",
        "AReaL",
        'workflow_kwargs["reward_fn"] = "rewards.adapters.areal.reward"',
        "rewards.adapters.areal:reward",
        "column `spec`",
        "0.0",
        ran=("1.0.4",),
        read=("4aef98d",),
    ),
    Adapter(
        "rllm",
        "rLLM",
        'import_path = "rewards.adapters.rllm:evaluate" in `[verifier]` of dataset.toml',
        "rewards.adapters.rllm:evaluate",
        'key `spec` of the row (`task.metadata["spec"]`)',
        "0.0 and the signal `unscored`",
        read=("9beb6e0",),
    ),
    Adapter(
        "nemo-rl",
        "NeMo-RL",
        'register_env("whitebox", "rewards.adapters.nemo_rl.WhiteboxEnvironment")',
        "rewards.adapters.nemo_rl:WhiteboxEnvironment",
        '`extra_env_info["spec"]`',
        "0.0, masked where there is a mask",
        read=("7ea279a", "0b8a793"),
    ),
    Adapter(
        "skyrl",
        "SkyRL",
        'register(id="whitebox", entry_point="rewards.adapters.skyrl:WhiteboxEnv")',
        "rewards.adapters.skyrl:WhiteboxEnv",
        "`reward_spec.ground_truth` or `extra_info.spec`",
        "0.0 and `unscored`",
        ran=("skyrl-gym 0.4.0",),
        read=("a956457",),
    ),
    Adapter(
        "plain",
        "your own loop, ART, reasoning-gym",
        "rewards.whitebox.score(completion, spec)",
        "rewards.whitebox:score",
        "the second argument",
        "`unscored` = 1.0",
    ),
)
"""Every trainer that has a shim, by name."""

_FILES = "files"


def path(name: str) -> str:
    """The absolute path of the file for a trainer that loads one. Raises KeyError for any other."""
    import os

    for adapter in ADAPTERS:
        if adapter.name == name and adapter.file:
            return os.path.join(os.path.dirname(os.path.abspath(__file__)), _FILES, adapter.file)
    raise KeyError(name)


def table() -> str:
    """The table of the README, in Markdown."""
    lines = [
        "| trainer | the one line | where the spec is | without a score | ran with | read |",
        "|---|---|---|---|---|---|",
    ]
    for one in ADAPTERS:
        # A line may name a place for itself, already in back-ticks.
        line, _, place = one.line.partition(" in `")
        cells = (
            one.trainer,
            f"`{line}`" + (f" in `{place}" if place else ""),
            one.column,
            one.unscored,
            ", ".join(one.ran) or "–",
            ", ".join(one.read) or "–",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
