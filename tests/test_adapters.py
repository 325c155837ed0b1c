"""The shims: each called the way its trainer calls it, and what holds for all of them.

Tests marked `contract` are written from a trainer's source or documentation and do not run its code;
`test_trl.py` and `test_trainers.py` do. Not covered here: what answers are worth (`test_grading.py`).
"""

from __future__ import annotations

import asyncio
import copy
import importlib
import importlib.util
import inspect
import json
import logging
import math
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from conftest import ROOT, Environment
from hacks import cases
from hypothesis import given, settings
from hypothesis import strategies as st
from sandboxed import descendants, linux, wait_until

from rewards import adapters, whitebox
from rewards.adapters import areal, ms_swift, openrlhf, plain, rllm, scoring, slime, verifiers, verl
from rewards.adapters.scoring import METRIC_KEYS, Scorer, Unscored, spec_in
from rewards.row import Spec, SpecError
from rewards.sandbox.pool import usable_cores
from rewards.selfcheck import CASES, Case

KNOWN = {case.name: case for case in CASES}
RIGHT, HALF, WRONG = (KNOWN[f"whitebox, {name}"] for name in ("right", "half", "wrong"))
INPUT, TESTS = KNOWN["input, right"], KNOWN["calls, half"]
MIXED = [KNOWN["output, right"], INPUT, RIGHT, HALF, WRONG, TESTS, KNOWN["stdin, right"]]
UNREADABLE: list[Any] = [None, "", "{", "[1]", "{}", {}, 3, json.dumps({"spec": None}), "[" * 9000]


def text(case: Case) -> str:
    return json.dumps(case.spec)


def top(case: Case) -> float:
    """The maximum of the row's own range."""
    return 1.0 if case.spec["task"] == "unittest" else 2.0


# ------------------------------------------------------------------------- as the trainers call

PROMPT = (
    "<|im_start|>user\nAnswer like this: <answer>\nassert f(4) == 6\nfor i in range(n):\n3; int\n</answer>"
    "<|im_end|>\n<|im_start|>assistant\n"
)
IDS = [1, 2, 3]


def by_openrlhf(completion: Any, spec: Any) -> float:
    found = openrlhf.reward_func([f"{PROMPT}{completion}<|im_end|>"], [PROMPT], [spec])
    assert set(found) == {"rewards", "scores", "extra_logs"}
    assert found["rewards"] == found["scores"]
    assert set(found["extra_logs"]) == set(METRIC_KEYS) - {"score"}
    return float(found["rewards"])


def by_rubric(completion: Any, spec: Any) -> float:
    messages = [{"role": "assistant", "content": completion}]
    objects = {"prompt": [], "state": {}, "task": "t", "parser": None, "resources": None}
    info = {"spec": spec, "other": 1}
    return asyncio.run(
        verifiers.rubric_reward(completion=messages, answer="", info=info, **objects)
    )


def by_verifiers(completion: Any, spec: Any) -> float:
    task = SimpleNamespace(spec=spec, prompt="?")
    trace = SimpleNamespace(last_reply=completion, is_truncated=False)
    return asyncio.run(verifiers.reward(trace=trace, task=task))


def by_slime(completion: Any, spec: Any) -> float:
    sample = SimpleNamespace(response=completion, label=spec, metadata={}, prompt=PROMPT)
    args = SimpleNamespace(reward_key=None)
    return float(asyncio.run(slime.slime_rm(args, sample, evaluation=False)))


def by_slime_key(completion: Any, spec: Any) -> float:
    sample = SimpleNamespace(
        response=completion, label=None, metadata={"spec": spec, "rm_type": ""}
    )
    found = asyncio.run(slime.slime_rm(SimpleNamespace(reward_key="score"), [sample, sample]))
    assert isinstance(found, list)
    assert tuple(found[0]) == METRIC_KEYS
    return float(found[1]["score"])


def by_rllm(completion: Any, spec: Any) -> float:
    episode = SimpleNamespace(
        artifacts={}, trajectories=[SimpleNamespace(output=completion, steps=[])]
    )
    found = rllm.evaluate(task=SimpleNamespace(metadata={"spec": spec, "id": 1}), episode=episode)
    assert type(found["is_correct"]) is bool
    assert set(found["signals"]) == set(METRIC_KEYS) - {"score"}
    return float(found["reward"])


def by_rllm_action(completion: Any, spec: Any) -> float:
    action = SimpleNamespace(action=completion)
    return float(rllm.evaluate_action({"ground_truth": spec, "question": "?"}, action)["reward"])


def by_verl(completion: Any, spec: Any) -> float:
    found = verl.compute_score(
        data_source="d", solution_str=completion, ground_truth=spec, extra_info={"index": 3}
    )
    assert tuple(found) == METRIC_KEYS
    return found["score"]


def by_verl_info(completion: Any, spec: Any) -> float:
    extra = {"index": 3, "spec": spec, "num_turns": None, "rollout_reward_scores": {}}
    kwargs = {"reward_router_address": "x", "reward_model_tokenizer": None}
    return verl.compute_score("d", completion, "", extra, **kwargs)["score"]


def by_verl_batch(completion: Any, spec: Any) -> float:
    found = verl.compute_score_batch(
        data_sources=["d"] * 2,
        solution_strs=[completion] * 2,
        ground_truths=[spec, ""],
        extra_infos=[{}, {"spec": spec}],
    )
    assert found[0]["score"] == found[1]["score"]
    return found[0]["score"]


def by_areal(completion: Any, spec: Any) -> float:
    row = {"spec": spec, "messages": [], "prompt": "a column", "completions": "another", "level": 2}
    return areal.reward(PROMPT, f"{completion}<|endoftext|>", IDS, IDS, **row)


def by_swift(completion: Any, spec: Any) -> float:
    rows = {"spec": [spec, text(RIGHT)], "messages": [[], []], "request_id": ["a", "b"]}
    reward = ms_swift.CLASSES["whitebox_zero"](args=SimpleNamespace())
    return reward([completion, RIGHT.completion], trainer_state=None, **rows)[0] or 0.0


def by_reasoning_gym(completion: Any, spec: Any) -> float:
    return plain.score_answer(completion, {"question": "?", "metadata": {"spec": spec}})


SHARE: dict[str, Callable[[Any, Any], float]] = {
    "openrlhf": by_openrlhf,
    "rllm": by_rllm,
    "rllm, action": by_rllm_action,
    "reasoning-gym": by_reasoning_gym,
}
"""Shims that pay in [0, 1]."""
OWN: dict[str, Callable[[Any, Any], float]] = {
    "verl": by_verl,
    "verl, extra_info": by_verl_info,
    "verl, batch": by_verl_batch,
    "verl, prime": lambda completion, spec: verl.prime_score("d", completion, spec, None),
    "verifiers": by_verifiers,
    "verifiers, rubric": by_rubric,
    "slime": by_slime,
    "slime, key": by_slime_key,
    "areal": by_areal,
    "ms-swift": by_swift,
}
"""Shims that pay in the range of the row's shape."""


@pytest.mark.contract
@pytest.mark.parametrize("name", [*SHARE, *OWN])
@pytest.mark.parametrize("case", MIXED, ids=lambda case: str(case.name))
def test_known_answers_score_as_known(name: str, case: Case) -> None:
    found = (SHARE | OWN)[name](case.completion, text(case))
    assert found == pytest.approx(case.score / top(case) if name in SHARE else case.score)
    assert type(found) is float


@pytest.mark.contract
@pytest.mark.parametrize("name", [*SHARE, *OWN])
def test_a_row_without_a_readable_spec_gets_zero_or_is_dropped(name: str) -> None:
    for spec in UNREADABLE:
        if name == "verifiers":
            with pytest.raises(Unscored, match="completion 0 has no score: the"):
                by_verifiers(RIGHT.completion, spec)
        else:
            assert (SHARE | OWN)[name](RIGHT.completion, spec) == 0.0, spec


@pytest.mark.parametrize("completion", [None, "", [], {}, [{"role": "tool", "content": "x"}], 3])
def test_completions_of_any_form_score(completion: Any) -> None:
    found = Scorer().judge([completion] * 3, [text(RIGHT), text(INPUT), text(TESTS)])
    assert [each.metrics["score"] for each in found] == [0.0] * 3
    assert [each.metrics["unscored"] for each in found] == [0.0] * 3


# ------------------------------------------------------------------------- finding the spec


def test_the_spec_is_found_wherever_it_travels() -> None:
    spec, decoded = text(RIGHT), RIGHT.spec
    for places in [
        (spec,),
        (decoded,),
        ({"spec": spec},),
        ({"spec": decoded, "id": 3},),
        (json.dumps({"spec": spec, "id": 3}),),
        (json.dumps({"spec": decoded}),),
        ("", spec),
        ("6", {"spec": spec}),
        (None, {"id": 3}, spec),
        ({"spec": None}, spec),
        (MappingProxyType({"spec": spec}),),
        (Spec.from_json(spec),),
    ]:
        found = spec_in(*places)
        read = found if isinstance(found, Spec) else Spec.from_json(found)  # type: ignore[arg-type]
        assert read == Spec.from_json(spec), places
    assert spec_in() is None
    assert spec_in(None, {}, "") is None
    assert spec_in("6") == "6"  # for the reader of specs to refuse by name


def test_what_a_manager_hands_over_is_not_changed() -> None:
    info = {"spec": copy.deepcopy(RIGHT.spec), "index": 1, "interaction_kwargs": {"a": [1]}}
    before = copy.deepcopy(info)
    found = verl.compute_score("d", RIGHT.completion, "", info)
    assert found["score"] == 2.0
    assert info == before
    assert found is not verl.compute_score("d", RIGHT.completion, "", info)


# ------------------------------------------------------------------------- what holds for all

SHIMS = [
    verl.compute_score,
    verl.compute_score_batch,
    verl.prime_score,
    openrlhf.reward_func,
    verifiers.reward,
    verifiers.metrics,
    verifiers.rubric_reward,
    verifiers.Rubric(part="w"),
    slime.slime_rm,
    areal.reward,
    rllm.evaluate,
    rllm.evaluate_action,
    plain.score,
    whitebox.reward,
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(("schema", "task", "spec", "code", "x")), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150)
@given(st.lists(st.tuples(JSON, JSON | st.sampled_from([text(RIGHT), RIGHT.spec])), max_size=4))
def test_nothing_raises_and_numbers_are_finite(pairs: list[tuple[Any, Any]]) -> None:
    found = Scorer().judge([one for one, _ in pairs], [spec_in(spec) for _, spec in pairs])
    for verdict in found:
        assert tuple(verdict.metrics) == METRIC_KEYS
        assert all(type(value) is float for value in verdict.metrics.values())
        assert all(math.isfinite(value) for value in verdict.metrics.values())
        assert 0 <= verdict.share <= 1
        assert bool(verdict.reason) == bool(verdict.metrics["unscored"])


@pytest.mark.parametrize("shim", SHIMS, ids=lambda shim: str(shim.__name__))
def test_a_shim_has_a_name_and_can_be_pickled(shim: Any) -> None:
    assert shim.__name__
    again = pickle.loads(pickle.dumps(shim))
    assert again.__name__ == shim.__name__
    assert again == shim or type(again) is type(shim)


@pytest.mark.parametrize("shim", [s for s in SHIMS if s not in (verifiers.reward, plain.score)])
def test_a_shim_tolerates_more_keywords(shim: Any) -> None:
    """All but the reward of verifiers v1, which is called by the names of its parameters."""
    if shim in (verifiers.metrics, rllm.evaluate, rllm.evaluate_action):
        return  # called with what their parameters name
    kinds = [each.kind for each in inspect.signature(shim).parameters.values()]
    assert inspect.Parameter.VAR_KEYWORD in kinds


def test_the_parameters_are_those_that_trainers_look_at() -> None:
    for shim in (verifiers.reward, verifiers.metrics):
        assert list(inspect.signature(shim).parameters) == ["task", "trace"]
    rubric = inspect.signature(verifiers.rubric_reward)
    plural = {"states", "prompts", "completions", "answers", "tasks", "infos"}
    assert not plural & set(rubric.parameters), "verifiers would call it with a whole group"
    assert "list" not in str(rubric.return_annotation)
    assert list(inspect.signature(rllm.evaluate).parameters) == ["task", "episode"]


LOADED = """
import sys
import rewards.adapters
{imports}
foreign = sorted({{name.partition(".")[0] for name in sys.modules}} - sys.stdlib_module_names)
print(*[name for name in foreign if not name.startswith("_sysconfigdata")])
"""
MODULES = [
    f"rewards.adapters.{path.stem}"
    for path in sorted((ROOT / "rewards" / "adapters").glob("[a-z]*.py"))
] + [
    f"rewards.adapters.files.{path.stem}"
    for path in sorted((ROOT / "rewards" / "adapters" / "files").glob("[a-z]*.py"))
]


def test_importing_every_shim_loads_the_standard_library_only(environment: Environment) -> None:
    imports = "\n".join(f"import {name}" for name in MODULES)
    done = subprocess.run(
        [sys.executable, "-S", "-c", LOADED.format(imports=imports)],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    assert set(done.stdout.split()) <= {"rewards", "__main__"}
    assert len(MODULES) >= 15


# ------------------------------------------------------------------------- no score


class Broken:
    """A sandbox that loses every job."""

    def run_groups(self, groups: Any, *, workers: int | None = None) -> Any:
        from rewards.sandbox import ExecutionResult

        return [[ExecutionResult("infrastructure", detail="gone") for _ in jobs] for jobs in groups]


@pytest.fixture
def lost(monkeypatch: pytest.MonkeyPatch) -> None:
    from rewards.sandbox import pool

    monkeypatch.setattr(pool, "default_pool", Broken)


@pytest.mark.usefixtures("lost")
def test_what_infrastructure_lost_is_told_from_what_is_wrong() -> None:
    found = verl.compute_score("d", INPUT.completion, text(INPUT))
    assert (found["score"], found["unscored"], found["io"]) == (0.0, 1.0, 0.0)
    assert (
        openrlhf.reward_func([INPUT.completion], [""], [text(INPUT)])["extra_logs"]["unscored"] == 1
    )
    with pytest.raises(Unscored, match="completion 0 has no score: infrastructure: gone"):
        by_verifiers(INPUT.completion, text(INPUT))
    with pytest.raises(Unscored, match="infrastructure: gone"):
        verl.compute_score("d", INPUT.completion, text(INPUT), abstain="raise")
    evaluation = rllm.evaluate(
        SimpleNamespace(metadata={"spec": text(INPUT)}),
        SimpleNamespace(artifacts={"answer": INPUT.completion}),
    )
    assert evaluation["metadata"] == {"unscored": "infrastructure: gone"}
    assert (evaluation["reward"], evaluation["is_correct"]) == (0.0, False)
    swift = ms_swift.CLASSES["whitebox"]()
    assert swift([INPUT.completion, RIGHT.completion], spec=[text(INPUT), text(RIGHT)]) == [
        None,
        2.0,
    ]


def test_a_fault_of_the_grader_costs_the_score_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise RuntimeError("the truth is 6")

    monkeypatch.setattr("rewards.grading.grade_all", fails)
    monkeypatch.setattr(scoring, "_lost", iter(range(1, 100)))
    with caplog.at_level(logging.WARNING):
        verdict = Scorer().judge([RIGHT.completion], [text(RIGHT)])[0]
    assert verdict.metrics["unscored"] == 1.0
    assert verdict.reason == "infrastructure: the grader failed: RuntimeError"
    assert "the grader failed" in caplog.text
    assert "truth" not in caplog.text
    with pytest.raises(Unscored, match="RuntimeError") as caught:
        Scorer(abstain="raise").judge([RIGHT.completion], [text(RIGHT)])
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_lost_scores_are_logged_ever_more_rarely_and_without_the_spec(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scoring, "_lost", iter(range(1, 10**6)))
    broken = json.dumps({**RIGHT.spec, "outputs": "secret"})
    with caplog.at_level(logging.DEBUG):
        Scorer().judge([RIGHT.completion] * 250, [broken] * 250)
    assert len(caplog.records) == 3
    assert "so far: 100." in caplog.text
    for word in ("secret", "total", "range"):
        assert word not in caplog.text


@pytest.mark.parametrize(
    ("options", "word"),
    [({"abstain": "none"}, "abstain"), ({"scale": -1}, "scale"), ({"equality": "x"}, "equality")],
)
def test_a_bad_option_raises(options: dict[str, Any], word: str) -> None:
    with pytest.raises(ValueError, match=word):
        verl.compute_score("d", RIGHT.completion, text(RIGHT), **options)


def test_options_of_verl() -> None:
    half = ("d", HALF.completion, text(HALF))
    assert verl.compute_score(*half, scale=1.0)["score"] == 0.75
    assert (
        verl.compute_score_batch(["d"], [HALF.completion], [text(HALF)], scale=1)[0]["score"]
        == 0.75
    )
    typed = KNOWN["output, wrong type"]
    assert verl.compute_score("d", typed.completion, text(typed))["score"] == 0.0
    assert verl.compute_score("d", typed.completion, text(typed), equality="python")["score"] == 2.0
    assert verl.compute_score("d", TESTS.completion, text(TESTS), tests="all")["score"] == 0.0


def test_a_cut_completion_is_no_error() -> None:
    class Status(Enum):
        TRUNCATED = "truncated"

    sample = SimpleNamespace(
        response="so", label=text(RIGHT), metadata=None, status=Status.TRUNCATED
    )
    assert asyncio.run(slime.slime_rm(SimpleNamespace(), sample)) == 0.0
    assert slime._cut(sample)
    assert not slime._cut(SimpleNamespace(status="completed"))


# ------------------------------------------------------------------------- OpenRLHF's query


@pytest.mark.contract
@pytest.mark.parametrize(
    ("query", "paid"),
    [
        (PROMPT, 0.0),  # an empty response is not paid for the example in the prompt
        (PROMPT + "no answer", 0.0),
        (PROMPT + RIGHT.completion, 1.0),
        (PROMPT[40:] + RIGHT.completion, 1.0),  # a long prompt loses its beginning
        ("<s> " + PROMPT + RIGHT.completion + "</s>", 1.0),  # decoding adds a token
        (PROMPT[40:], 0.0),
        (PROMPT[40:] + PROMPT[-70:] + RIGHT.completion, 1.0),  # it repeats the end of the prompt
        (RIGHT.completion, 0.0),  # the prompt is not there at all: no score
    ],
)
def test_the_prompt_is_never_graded(query: str, paid: float) -> None:
    found = openrlhf.reward_func([query], [PROMPT], [text(RIGHT)])
    assert found["rewards"] == paid
    assert found["extra_logs"]["unscored"] == float(query == RIGHT.completion)


@pytest.mark.contract
def test_a_batch_of_openrlhf_gives_lists_and_another_scale_keeps_scores_in_range() -> None:
    queries = [PROMPT + case.completion for case in (RIGHT, HALF)]
    twice = openrlhf.RewardFunc(scale=2.0)(queries, [PROMPT] * 2, [text(RIGHT), text(HALF)])
    assert twice["rewards"] == [2.0, 1.5]
    assert twice["scores"] == [1.0, 0.75]
    assert twice["extra_logs"]["w"] == [1.0, 0.5]


# ------------------------------------------------------------------------- files loaded by path


def load_file(path: str, *, register: bool = False) -> ModuleType:
    """As OpenRLHF, verl >= 0.7 and rLLM do: outside of `sys.modules`."""
    spec = importlib.util.spec_from_file_location("reward_func", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if register:  # as verl <= 0.6.1 and ms-swift do
        sys.modules["custom_module"] = module
    spec.loader.exec_module(module)
    return module


def in_child(call: Any, *args: Any) -> Any:
    return call(*args)


@pytest.mark.contract
@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_a_file_loaded_by_path_scores_and_its_reward_works_in_other_processes(method: str) -> None:
    reward = load_file(adapters.path("openrlhf")).reward_func
    score = load_file(adapters.path("verl")).compute_score
    again = pickle.loads(pickle.dumps([reward, score]))
    assert again[0]([INPUT.completion], [""], [text(INPUT)])["rewards"] == 1.0
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(1, mp_context=context) as processes:
        one = processes.submit(in_child, reward, [INPUT.completion], [""], [text(INPUT)])
        two = processes.submit(in_child, score, "d", INPUT.completion, text(INPUT))
        three = processes.submit(in_child, areal.reward, "?", HALF.completion, IDS, IDS, text(HALF))
        assert one.result(60)["rewards"] == 1.0
        assert two.result(60)["score"] == 2.0
        assert three.result(60) == 1.5


@pytest.mark.contract
def test_verl_of_old_finds_its_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "custom_module", raising=False)
    module = load_file(adapters.path("verl"), register=True)
    assert module.compute_score("d", RIGHT.completion, text(RIGHT))["score"] == 2.0
    assert module.prime_score("d", RIGHT.completion, text(RIGHT), None) == 2.0
    del sys.modules["custom_module"]


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """A registry where ms-swift 4 has its own."""
    orms: dict[str, Any] = {"math": object}
    for name in [name for name in sys.modules if name.partition(".")[0] == "swift"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "swift", ModuleType("swift"))
    monkeypatch.setitem(sys.modules, "swift.rewards", ModuleType("swift.rewards"))
    monkeypatch.setattr(sys.modules["swift.rewards"], "orms", orms, raising=False)
    yield orms


@pytest.mark.contract
def test_the_plug_in_of_ms_swift_registers_classes(swift: dict[str, Any]) -> None:
    load_file(adapters.path("ms-swift"))
    assert "math" in swift
    names = {swift[name].__name__ for name in ms_swift.CLASSES}
    assert len(names) == len(ms_swift.CLASSES), "ms-swift logs under the name of the class"
    rows = {"spec": [text(HALF), None], "is_truncated": [False, False]}
    completions = [HALF.completion, RIGHT.completion]
    paid = {name: swift[name](args=None)(completions, **rows) for name in ms_swift.CLASSES}
    assert paid["whitebox"] == [1.5, None]
    assert paid["whitebox_zero"] == [1.5, 0.0]
    assert (paid["whitebox_io"], paid["whitebox_w"]) == ([1.0, None], [0.5, None])
    with pytest.raises(ValueError, match="column 'spec' is missing"):
        swift["whitebox"]()(completions, messages=[[], []])


@pytest.mark.contract
def test_ms_swift_3_keeps_its_registry_elsewhere(
    swift: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "swift.rewards", None)
    plugin = ModuleType("swift.plugin")
    monkeypatch.setattr(plugin, "orms", swift, raising=False)
    monkeypatch.setitem(sys.modules, "swift.plugin", plugin)
    ms_swift.register()
    assert "whitebox" in swift
    monkeypatch.setitem(sys.modules, "swift.plugin", None)
    with pytest.raises(ImportError, match="needs ms-swift 3 or 4, pip install ms-swift"):
        ms_swift.register()


# ------------------------------------------------------------------------- environments


def framework(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> None:
    """A module of a trainer, with what a shim takes from it; its parents as far as they are missing."""
    parts = name.split(".")
    for end in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(".".join(parts[:end])))
    module = ModuleType(name)
    for key, value in contents.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.parametrize(
    ("module", "attribute", "needs"),
    [
        ("skyrl", "WhiteboxEnv", "skyrl_gym"),
        ("nemo_rl", "WhiteboxEnvironment", "nemo_rl"),
    ],
)
def test_an_environment_without_its_framework_says_so(
    monkeypatch: pytest.MonkeyPatch, module: str, attribute: str, needs: str
) -> None:
    found = importlib.import_module(f"rewards.adapters.{module}")
    monkeypatch.delitem(vars(found), attribute, raising=False)
    monkeypatch.setitem(sys.modules, needs, None)
    monkeypatch.setitem(sys.modules, "ray", ModuleType("ray"))
    with pytest.raises(
        ImportError, match=f"{attribute} is an environment of .* not installed here"
    ):
        getattr(found, attribute)
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        getattr(found, "other")  # noqa: B009 - looked up at run time, as the trainers do


@pytest.mark.contract
def test_the_environment_of_skyrl(monkeypatch: pytest.MonkeyPatch) -> None:
    from rewards.adapters import skyrl

    class BaseTextEnv:
        def __init__(self) -> None:
            self.turns = 0

    framework(monkeypatch, "skyrl_gym.envs.base_text_env", BaseTextEnv=BaseTextEnv)
    monkeypatch.delitem(vars(skyrl), "WhiteboxEnv", raising=False)
    made = skyrl.WhiteboxEnv
    monkeypatch.setitem(vars(skyrl), "WhiteboxEnv", made)  # so that it is removed afterwards
    assert issubclass(made, BaseTextEnv)
    assert pickle.loads(pickle.dumps(made)) is made
    for extras in (
        {"reward_spec": {"method": "rule", "ground_truth": text(HALF)}, "max_turns": 1},
        {"extra_info": {"spec": text(HALF)}, "reward_spec": {"ground_truth": ""}},
        {"spec": text(HALF)},
    ):
        environment = made(env_config={"scale": 1.0}, extras=extras)
        assert environment.get_metrics() == {}
        environment.spec = "EnvSpec"  # as `skyrl_gym.make` does
        step = environment.step(HALF.completion)
        assert step == {"observations": [], "reward": 0.75, "done": True, "metadata": {}}
        assert tuple(environment.get_metrics()) == METRIC_KEYS
    assert made(extras={"spec": text(HALF)}).step(HALF.completion)["reward"] == 1.5
    lost = made(extras={})
    assert lost.step(HALF.completion)["reward"] == 0.0
    assert lost.get_metrics()["unscored"] == 1.0


@pytest.mark.contract
@pytest.mark.parametrize("masked", [False, True])
def test_the_environment_of_nemo_rl(monkeypatch: pytest.MonkeyPatch, masked: bool) -> None:
    from collections import namedtuple

    from rewards.adapters import nemo_rl

    torch = pytest.importorskip("torch", reason="torch is not installed here")
    fields = ["observations", "metadata", "next_stop_strings", "rewards", "terminateds", "answers"]
    returned = namedtuple("returned", fields + ["reward_valid_mask"] * masked)  # type: ignore[misc]
    framework(
        monkeypatch,
        "nemo_rl.environments.interfaces",
        EnvironmentInterface=type("EnvironmentInterface", (), {}),
        EnvironmentReturn=returned,
    )
    framework(monkeypatch, "ray", remote=lambda **_: lambda cls: cls)
    monkeypatch.delitem(vars(nemo_rl), "WhiteboxEnvironment", raising=False)
    made = nemo_rl.WhiteboxEnvironment
    monkeypatch.setitem(vars(nemo_rl), "WhiteboxEnvironment", made)
    environment = made({"scale": 1.0})
    logs = [
        [{"role": "user", "content": "?"}, {"role": "assistant", "content": case.completion}]
        for case in (RIGHT, HALF, WRONG, RIGHT)
    ]
    infos = [{"spec": text(RIGHT)}, {"spec": text(HALF)}, {"spec": text(WRONG)}, {}]
    found = environment.step(logs, infos)
    assert torch.equal(found.rewards, torch.tensor([1.0, 0.75, 0.0, 0.0]))
    assert torch.equal(found.terminateds, torch.ones(4))
    assert found.metadata == infos
    assert [len(each) for each in (found.observations, found.next_stop_strings)] == [4, 4]
    if masked:
        assert found.reward_valid_mask.tolist() == [True, True, True, False]
    batch, means = environment.global_post_process_and_metrics("batch")
    assert batch == "batch"
    assert (means["score"], means["unscored"]) == (pytest.approx(1.75 / 4), 0.25)
    assert environment.global_post_process_and_metrics("batch") == ("batch", {})


# ------------------------------------------------------------------------- event loops


ASYNC: dict[str, Callable[[], Any]] = {
    "verifiers": lambda: verifiers.reward(
        SimpleNamespace(spec=text(RIGHT)), SimpleNamespace(last_reply=RIGHT.completion)
    ),
    "rubric": lambda: verifiers.rubric_reward(completion=RIGHT.completion, info=RIGHT.spec),
    "slime": lambda: slime.slime_rm(
        SimpleNamespace(), SimpleNamespace(response=RIGHT.completion, label=text(RIGHT))
    ),
    "trl": lambda: whitebox.reward_async(completions=[RIGHT.completion], spec=[text(RIGHT)]),
}


@pytest.mark.parametrize("name", ASYNC)
def test_an_event_loop_goes_on_while_a_reward_works(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rewards import grading

    threads: list[threading.Thread] = []
    real = grading.grade_all

    def slow(*args: Any, **kwargs: Any) -> Any:
        threads.append(threading.current_thread())
        time.sleep(0.3)
        return real(*args, **kwargs)

    monkeypatch.setattr(grading, "grade_all", slow)

    async def both() -> tuple[Any, int]:
        work = asyncio.ensure_future(ASYNC[name]())
        ticks = 0
        while not work.done():
            await asyncio.sleep(0.01)
            ticks += 1
        return await work, ticks

    found, ticks = asyncio.run(both())
    assert found in (2.0, [2.0])
    assert ticks >= 5
    assert threads
    assert threads[0] is not threading.main_thread()


def test_metrics_of_verifiers_are_prefixed_and_do_not_raise() -> None:
    trace = SimpleNamespace(last_reply=HALF.completion, is_truncated=False)
    found = asyncio.run(verifiers.metrics(SimpleNamespace(spec=text(HALF)), trace))
    assert found["whitebox_w"] == 0.5
    assert set(found) == {f"whitebox_{key}" for key in METRIC_KEYS if key != "score"}
    assert asyncio.run(verifiers.metrics(SimpleNamespace(), trace))["whitebox_unscored"] == 1.0
    with pytest.raises(ValueError, match="part: expected one of score"):
        verifiers.Rubric(part="total")
    part = verifiers.Rubric(part="w")
    assert part.__name__ == "whitebox_w"
    assert asyncio.run(part(completion=HALF.completion, info={"spec": text(HALF)})) == 0.5


def test_the_plain_score_raises_for_a_spec_that_cannot_be_read() -> None:
    assert plain.score(HALF.completion, text(HALF))["score"] == 1.5
    with pytest.raises(SpecError):
        plain.score(HALF.completion, "{")


# ------------------------------------------------------------------------- threads and processes


def many(count: int) -> tuple[list[str], list[Any]]:
    """Completions of the corpus with their rows, mostly parsed and a few run."""
    pairs = [
        (str(completion), spec)
        for _, spec, completion, _ in cases()
        if spec["task"] != "input" and len(str(completion)) < 2000
    ]
    pairs = [pairs[number % len(pairs)] for number in range(count)]
    few = [case for case in CASES if case.spec["task"] == "input"]
    for number, place in enumerate(range(0, count, 500)):
        case = few[number % len(few)]
        pairs[place] = (case.completion, case.spec)
    texts = {id(spec): json.dumps(spec) for _, spec in pairs}
    return [one for one, _ in pairs], [texts[id(spec)] for _, spec in pairs]


@linux
def test_64_threads_score_20_000_completions_as_one_does_and_leave_nothing() -> None:
    completions, specs = many(20_000)
    expected = whitebox.reward(completions, specs)
    assert len({*expected} - {0.0, 2.0}) > 0
    size = math.ceil(len(specs) / 64)
    parts = [slice(start, start + size) for start in range(0, len(specs), size)]

    def left() -> tuple[int, int, int]:
        fds = len(os.listdir("/proc/self/fd"))
        return threading.active_count(), fds, len(descendants(os.getpid()))

    def score(part: slice) -> list[float | None]:
        return whitebox.reward(completions[part], specs[part])

    before = left()
    with ThreadPoolExecutor(64) as threads:
        found = [one for part in threads.map(score, parts) for one in part]
    assert found == expected
    assert wait_until(lambda: left()[0] <= before[0]), "threads are left"
    # The shared pool may have grown to its bound meanwhile, and keeps that for the next batch.
    assert wait_until(lambda: left()[1] <= before[1] + 8 * usable_cores()), "descriptors are left"
    assert wait_until(lambda: left()[2] <= before[2] + 4 * usable_cores()), "processes are left"
    grown = left()
    with ThreadPoolExecutor(64) as threads:
        list(threads.map(score, parts[::4]))
    assert wait_until(lambda: all(now <= then for now, then in zip(left(), grown, strict=True)))


LEAVES = """
import os, sys
sys.path.insert(0, {root!r})
from rewards.selfcheck import selftest
selftest()
sys.path.insert(0, {tests!r})
from sandboxed import descendants
print(*descendants(os.getpid()))
"""


@linux
def test_nothing_outlives_the_process_that_scored() -> None:
    code = LEAVES.format(root=str(ROOT), tests=str(ROOT / "tests"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    started = [int(word) for word in done.stdout.split()]
    assert started, "the shared pool keeps its fork server until the end"
    assert wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in started))


# ------------------------------------------------------------------------- the table and the command


def test_the_table_names_every_shim_once_and_each_loads() -> None:
    names = [one.name for one in adapters.ADAPTERS]
    assert len(set(names)) == len(names)
    assert len({one.symbol for one in adapters.ADAPTERS}) == len(names)
    shims = {one.symbol.partition(":")[0] for one in adapters.ADAPTERS}
    written = {name for name in MODULES if ".files." not in name} - {
        "rewards.adapters.scoring",
        "rewards.adapters.plain",
        "rewards.adapters.trl",
    }
    assert written <= shims
    for one in adapters.ADAPTERS:
        module, _, attribute = one.symbol.partition(":")
        if one.name not in ("nemo-rl", "skyrl"):
            assert callable(getattr(importlib.import_module(module), attribute))
        loads = f"path {one.name}" if one.file and "pkg://" not in one.line else module
        assert loads in one.line
        assert one.ran or one.read or one.name == "plain"


@pytest.mark.parametrize("name", [one.name for one in adapters.ADAPTERS if one.file])
def test_a_file_is_there_and_bears_no_name_of_a_module(name: str) -> None:
    found = Path(adapters.path(name))
    assert found.is_absolute()
    assert found.is_file()
    # ms-swift puts the folder first on the path of imports.
    for other in found.parent.glob("*.py"):
        assert other.stem == "__init__" or other.stem.startswith("execverify_")


def test_the_files_are_in_packages_that_setup_finds() -> None:
    """`packages = find:` takes folders with an `__init__.py`, under the names that it includes."""
    for folder in {path.parent for path in (ROOT / "rewards" / "adapters").rglob("*.py")}:
        assert (folder / "__init__.py").is_file()
    assert "\n    rewards*\n" in (ROOT / "setup.cfg").read_text(encoding="utf-8")


def test_the_readme_has_the_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert adapters.table() in readme, "paste what `python -m rewards table` prints"


def run_command(*args: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rewards", *args],
        capture_output=True,
        text=True,
        env=dict(environment),
        check=False,
    )


def test_python_m_rewards(environment: Environment) -> None:
    one = run_command("path", "openrlhf", environment=environment)
    assert (one.returncode, one.stdout) == (0, adapters.path("openrlhf") + "\n")
    every = run_command("path", environment=environment)
    assert [line.split() for line in every.stdout.splitlines()] == [
        [each.name, adapters.path(each.name)] for each in adapters.ADAPTERS if each.file
    ]
    assert run_command("table", environment=environment).stdout == adapters.table()
    for args, words in (
        ((), "expected a command: path, selftest or table"),
        (("path", "trl"), "trl loads no file but a name: trl grpo --reward_funcs"),
        (("path", "nonesuch"), "no trainer is called 'nonesuch'; those that load a file: verl"),
        (("frobnicate",), "invalid choice"),
    ):
        wrong = run_command(*args, environment=environment)
        assert wrong.returncode == 2
        assert words in wrong.stderr
        assert "Traceback" not in wrong.stderr
