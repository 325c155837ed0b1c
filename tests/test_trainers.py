"""The shims under the trainers' own code: their loaders and managers find and call them.

Each test needs its trainer (most come without their GPU parts, `pip install --no-deps`) and is skipped
where that is not installed, as in CI; the versions they last ran with stand in
`rewards.adapters.ADAPTERS`. TRL has a file of its own. What a trainer does with the reward afterwards,
and those that install nowhere without a GPU, are not covered (`test_adapters.py` has their contracts).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from rewards import adapters
from rewards.adapters.scoring import METRIC_KEYS
from rewards.selfcheck import CASES, Case

KNOWN = {case.name: case for case in CASES}
ANSWERS = [
    KNOWN[name]
    for name in (
        *("output, right", "output, wrong value", "input, right", "input, wrong"),
        *("whitebox, right", "whitebox, half", "calls, half", "check, right"),
    )
]
PROMPT = "Write <answer>\nassert f(4) == 6\n</answer>, like this.\n<|im_start|>assistant\n"


def needs(module: str) -> Any:
    return pytest.importorskip(
        module, reason=f"{module} is not installed here", exc_type=ImportError
    )


def text(case: Case) -> str:
    return json.dumps(case.spec)


def expected(scale: float | None = None) -> list[float]:
    """What each answer earns, in the range of its row or in [0, scale]."""
    tops = [1.0 if case.spec["task"] == "unittest" else 2.0 for case in ANSWERS]
    pairs = zip(ANSWERS, tops, strict=True)
    return [case.score if scale is None else case.score / top * scale for case, top in pairs]


class Letters:
    """A tokenizer with one token a character."""

    def decode(self, ids: Any, skip_special_tokens: bool = True) -> str:
        return "".join(chr(int(each)) for each in ids if int(each))

    def batch_decode(self, rows: Any, skip_special_tokens: bool = True) -> list[str]:
        return [self.decode(ids) for ids in rows]

    def __call__(self, text: str, **_: Any) -> Any:
        import torch

        return {"input_ids": torch.tensor([[ord(letter) for letter in text]])}


# ------------------------------------------------------------------------- verl


def verl_data(field: str) -> Any:
    """A batch as verl's rollout leaves it, with the spec in one of its two places."""
    import numpy
    import torch

    from_verl = needs("verl")
    longest = max(len(case.completion) for case in ANSWERS)
    responses = torch.zeros((len(ANSWERS), longest), dtype=torch.long)
    for row, case in enumerate(ANSWERS):
        responses[row, : len(case.completion)] = torch.tensor([ord(c) for c in case.completion])
    prompts = torch.full((len(ANSWERS), 3), ord("?"))
    mask = torch.cat([torch.ones_like(prompts), (responses > 0).long()], dim=1)
    truths = [text(case) if field == "ground_truth" else "" for case in ANSWERS]
    extras = [{"index": 0} | ({"spec": text(c)} if field == "spec" else {}) for c in ANSWERS]
    return from_verl.DataProto.from_dict(
        tensors={"prompts": prompts, "responses": responses, "attention_mask": mask},
        non_tensors={
            "data_source": numpy.array(["execverify"] * len(ANSWERS), dtype=object),
            "reward_model": numpy.array([{"ground_truth": one} for one in truths], dtype=object),
            "extra_info": numpy.array(extras, dtype=object),
        },
    )


def verl_manager(path: str, name: str, **reward_kwargs: Any) -> Any:
    omegaconf = needs("omegaconf")
    reward = needs("verl.trainer.ppo.reward")
    config = omegaconf.OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {
                    "path": path,
                    "name": name,
                    "reward_kwargs": reward_kwargs,
                },
                "reward_manager": {"source": "register", "name": "naive", "module": None},
                "num_workers": 1,
            }
        }
    )
    return reward.load_reward_manager(config, Letters())


@pytest.mark.parametrize("path", ["pkg://rewards.adapters.verl", adapters.path("verl")])
@pytest.mark.parametrize("field", ["ground_truth", "spec"])
def test_the_reward_loop_of_verl(path: str, field: str) -> None:
    needs("verl.experimental.reward_loop.reward_manager")
    data = verl_data(field)

    async def scores(scale: float | None) -> list[dict[str, Any]]:
        options = {} if scale is None else {"scale": scale}
        manager = verl_manager(path, "compute_score", **options)
        manager.loop = asyncio.get_running_loop()
        rows = [data[number : number + 1] for number in range(len(ANSWERS))]
        return await asyncio.gather(*[manager.run_single(row) for row in rows])

    found = asyncio.run(scores(None))
    assert [one["reward_score"] for one in found] == expected()
    assert [one["reward_score"] for one in asyncio.run(scores(1.0))] == expected(1.0)
    extras = [one["reward_extra_info"] for one in found]
    assert {tuple(one) for one in extras} == {METRIC_KEYS}
    metrics = needs("verl.trainer.ppo.metric_utils").process_validation_metrics(
        ["execverify"] * len(ANSWERS),
        [str(number // 2) for number in range(len(ANSWERS))],
        {key: [one[key] for one in extras] for key in METRIC_KEYS},
    )
    for key in METRIC_KEYS:
        assert all(math.isfinite(value) for value in metrics["execverify"][key].values())


def test_the_managers_batch_and_prime_of_verl() -> None:
    managers = needs("verl.workers.reward_manager")
    from rewards.adapters import verl

    data = verl_data("ground_truth")
    last = data.batch["attention_mask"][:, 3:].sum(dim=1) - 1
    batch = managers.BatchRewardManager(Letters(), 0, verl.compute_score_batch)
    for manager in (
        batch,
        managers.PrimeRewardManager(Letters(), 0, verl.prime_score),
        managers.NaiveRewardManager(Letters(), 0, verl.compute_score),
    ):
        found = manager(data)
        paid = [float(found[row, place]) for row, place in enumerate(last)]
        assert paid == expected(), type(manager).__name__
    details = batch(data, return_dict=True)["reward_extra_info"]
    assert set(details) == set(METRIC_KEYS)


# ------------------------------------------------------------------------- OpenRLHF


def test_the_agent_of_openrlhf() -> None:
    agent = needs("openrlhf.utils.agent")
    executor = agent.SingleTurnAgentExecutor(remote_rm_url=adapters.path("openrlhf"))

    class Engine:
        def __init__(self, case: Case) -> None:
            self.case = case

        async def generate(self, *_: Any, **__: Any) -> Any:
            ids = [ord(letter) for letter in self.case.completion + "<|im_end|>"]
            return SimpleNamespace(
                outputs=[SimpleNamespace(token_ids=ids, finish_reason="stop", logprobs=None)]
            )

    async def scores() -> list[dict[str, Any]]:
        params = SimpleNamespace(max_tokens=500, logprobs=None)
        return await asyncio.gather(
            *[
                executor.execute(PROMPT, text(case), params, 4000, Letters(), Engine(case))
                for case in ANSWERS
            ]
        )

    found = asyncio.run(scores())
    assert [one["reward"] for one in found] == expected(1.0)
    assert [one["scores"] for one in found] == expected(1.0)
    for one in found:
        assert set(one["extra_logs"]) == set(METRIC_KEYS) - {"score"}


# ------------------------------------------------------------------------- verifiers


def test_a_plugged_reward_of_verifiers() -> None:
    vf = needs("verifiers.v1")
    from pydantic import create_model

    from rewards.whitebox import Unscored

    data_type = create_model("Data", __base__=vf.TaskData, spec=(str, ""))
    config = vf.TaskConfig(
        rewards={"whitebox": {"fn": "rewards.adapters.verifiers:reward", "weight": 0.5}},
        metrics={"parts": {"fn": "rewards.adapters.verifiers:metrics"}},
    )

    async def scored(case: Case, spec: str) -> Any:
        message = vf.AssistantMessage(content=case.completion)
        node = SimpleNamespace(message=message, sampled=True, finish_reason="stop")
        trace = vf.Trace.model_construct(nodes=[node])
        await vf.Task(data_type(prompt="?", spec=spec), config).score(trace)
        return trace

    for case, score in zip(ANSWERS, expected(), strict=True):
        trace = asyncio.run(scored(case, text(case)))
        assert (trace.rewards["whitebox"].score, trace.rewards["whitebox"].weight) == (score, 0.5)
        assert set(trace.metrics) == {f"whitebox_{key}" for key in METRIC_KEYS if key != "score"}
    with pytest.raises(Exception, match="has no score") as caught:
        asyncio.run(scored(ANSWERS[0], ""))
    chain = [caught.value, caught.value.__cause__]
    assert any(isinstance(error, Unscored) for error in chain), chain


def test_a_rubric_of_verifiers() -> None:
    vf = needs("verifiers.legacy")
    from rewards.adapters.verifiers import Rubric, rubric_reward

    rubric = vf.Rubric(funcs=[rubric_reward, Rubric(part="w")], weights=[1.0, 0.0])
    assert not rubric.has_group_rewards
    for case, score in zip(ANSWERS, expected(), strict=True):
        state = vf.State(
            prompt=[{"role": "user", "content": PROMPT}],
            completion=[{"role": "assistant", "content": case.completion}],
            info={"spec": text(case)},
            task="execverify",
            answer="",
        )
        asyncio.run(rubric.score_rollout(state))
        assert state["reward"] == score
        assert set(state["metrics"]) == {"whitebox", "whitebox_w"}


# ------------------------------------------------------------------------- ms-swift


def test_a_plug_in_of_ms_swift() -> None:
    needs("swift.rewards.orm")
    algorithm = needs("swift.rl_core.grpo_algorithm")
    utils, data = needs("swift.utils.utils"), needs("swift.rl_core.data")
    import torch

    utils.import_external_file(adapters.path("ms-swift"))
    orms = needs("swift.rewards").orms
    samples = [
        data.GRPOSample(
            messages=[
                {"role": "user", "content": PROMPT},
                {"role": "assistant", "content": case.completion},
            ],
            extra={"spec": spec, "level": 1},
            finish_reason="stop",
        )
        for case, spec in [*((case, text(case)) for case in ANSWERS), (ANSWERS[0], None)]
    ]
    funcs = [orms[name](args=None) for name in ("whitebox", "whitebox_zero", "whitebox_io")]
    found = algorithm.compute_rewards_per_func(samples, funcs, [None] * 3, torch.device("cpu"))
    assert found[:-1, 0].tolist() == expected()
    assert found[:, 1].tolist() == [*expected(), 0.0]
    assert math.isnan(found[-1, 0])
    assert math.isnan(found[-1, 2])


# ------------------------------------------------------------------------- AReaL


def test_the_reward_wrapper_of_areal() -> None:
    api = needs("areal.api.reward_api")
    load: Callable[[str], Any] = needs("areal.utils.dynamic_import").import_from_string

    async def scores() -> list[float]:
        reward = api.AsyncRewardWrapper(load("rewards.adapters.areal.reward"), max_workers=2)
        return await asyncio.gather(
            *[
                reward(
                    PROMPT, case.completion + "<|im_end|>", [1], [2], messages=[], spec=text(case)
                )
                for case in ANSWERS
            ]
        )

    assert asyncio.run(scores()) == expected()


# ------------------------------------------------------------------------- SkyRL


def test_an_environment_of_skyrl() -> None:
    gym = needs("skyrl_gym")
    aggregate = needs("skyrl_gym.metrics").aggregate_for_environment
    registration = needs("skyrl_gym.envs.registration")
    registration.register(id="whitebox", entry_point="rewards.adapters.skyrl:WhiteboxEnv")
    metrics = []
    for case, score in zip(ANSWERS, expected(), strict=True):
        extras = {"reward_spec": {"method": "rule", "ground_truth": text(case)}, "max_turns": 1}
        environment = gym.make("whitebox", env_config={}, extras=extras)
        prompt, _ = environment.init([{"role": "user", "content": PROMPT}])
        assert prompt[0]["content"] == PROMPT
        step = environment.step(case.completion)
        assert (step["reward"], step["done"]) == (score, True)
        metrics.append(environment.get_metrics())
    means = aggregate("whitebox", metrics)
    assert means["score"] == pytest.approx(sum(expected()) / len(ANSWERS))
    assert set(means) == set(METRIC_KEYS)
