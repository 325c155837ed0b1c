"""From sources in every layout to what TRL trains on: nothing is lost without a word.

Every layout has a small file here, written for this test. Does not cover the Hub, which the tests cannot
reach; the files that are read from it have the same layouts.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from handmade import CODE
from hypothesis import given
from hypothesis import strategies as st
from trained import apps_record, lines, needs, output_row, rows_file, whitebox_row

from rewards.grading import grade
from rewards.row import Spec
from rewards.truths import truth
from synth.errors import DataError
from trainers.data import Report, chained, choose, columns, fitting, load
from trainers.layouts import Example
from trainers.records import DataConfig, TrainConfig

PLUS = "def main_solution(a, b):\n    return a + b\n"


def read(path: Path | str, stage: str = "whitebox", **settings: Any) -> Any:
    return load(DataConfig(path=str(path), **settings), stage=stage)


def right(example: Example) -> bool:
    """Whether the ground truth of an example earns everything by our own grader."""
    spec = Spec.from_json(example.spec)
    answer = truth(spec)
    return answer is not None and grade(spec, answer).status == "right"


# --------------------------------------------------------------------------------- our rows


def test_rows_keep_their_split_level_and_spec(tmp_path: Path) -> None:
    rows = [
        output_row(0),
        output_row(1, pass_rate=0.2),
        output_row(2, split="test"),
        whitebox_row(3),
        output_row(4, task="input"),
    ]
    path = lines(tmp_path / "rows.jsonl", [row.to_dict() for row in rows])
    loaded = read(path)
    assert [one.id for one in loaded.examples] == [rows[n].id for n in (0, 1, 3, 4)]
    assert loaded.examples[1].pass_rate == 0.2
    assert loaded.examples[0].spec == rows[0].spec
    assert loaded.report.dropped == {"split test": 1}
    assert [one.id for one in read(path, split="test").examples] == [rows[2].id]
    assert [one.id for one in read(path, tasks=("whitebox",)).examples] == [rows[3].id]
    assert [one.id for one in read(path, levels=(2,)).examples] == [rows[n].id for n in (1, 4)]


def test_a_folder_of_ours_is_read_once(finished_run: Path) -> None:
    everything = [json.loads(line) for line in (finished_run / "jsonl/train.jsonl").open()]
    loaded = read(finished_run)
    assert [one.id for one in loaded.examples] == [row["id"] for row in everything]
    assert loaded.report.layout == "rows"


def test_a_broken_row_is_named_and_the_others_are_kept(tmp_path: Path) -> None:
    good = output_row(0).to_dict()
    broken = [
        {**output_row(1).to_dict(), "spec": "{}"},
        {k: v for k, v in output_row(2).to_dict().items() if k != "code"},
        {**output_row(3).to_dict(), "prompt": "text"},
        "{not json",
        "[1, 2]",
        good,
    ]
    loaded = read(lines(tmp_path / "rows.jsonl", [good, *broken]))
    assert [one.id for one in loaded.examples] == [good["id"]]
    report = loaded.report
    assert sum(report.dropped.values()) == len(broken)
    assert report.dropped["a line that is not JSON"] == 1
    assert report.dropped["a line that is no JSON object"] == 1
    assert report.dropped["stands twice"] == 1
    assert any("column 'code' is missing" in reason for reason in report.dropped)
    told = "\n".join(report.lines())
    assert "line 5" in told
    assert "column 'prompt'" in told


def test_nothing_left_is_an_error_that_lists_the_reasons(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{**output_row(1).to_dict(), "spec": "{}"}])
    with pytest.raises(DataError, match=r"(?s)no example is left.*'schema'"):
        read(path)
    with pytest.raises(DataError, match=r"expected .*rows: schema_version"):
        read(lines(tmp_path / "other.jsonl", [{"text": "x"}]))
    with pytest.raises(DataError, match="not the layout that was asked for"):
        read(rows_file(tmp_path), layout="eurus")
    for source in ("", str(tmp_path / "absent" / "x"), str(tmp_path / "rows.txt")):
        with pytest.raises(DataError):
            read(source)


# --------------------------------------------------------------------------------- unit tests


def eurus(number: int, truth: Any, ability: str = "code") -> dict[str, Any]:
    return {
        "data_source": "taco",
        "prompt": [
            {"role": "system", "content": "Think."},
            {"role": "user", "content": f"Problem {number}."},
        ],
        "ability": ability,
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "dummy", "index": number},
    }


def test_eurus(tmp_path: Path) -> None:
    stdin = json.dumps({"inputs": ["1 2\n", "3 4\n"], "outputs": ["3\n", "7\n"]})
    calls = json.dumps({"fn_name": "add", "inputs": ["1\n2", '"a"\n"b"'], "outputs": ["3", '"ab"']})
    records = [
        eurus(0, stdin),
        eurus(1, calls),
        eurus(2, "42", ability="math"),
        eurus(3, "not json"),
        eurus(4, json.dumps({"inputs": [], "outputs": []})),
        eurus(5, json.dumps({"inputs": ["1"], "outputs": []})),
        {**eurus(6, stdin), "solution": "?"},
    ]
    loaded = read(lines(tmp_path / "eurus.jsonl", records), "codegen", layout="eurus")
    assert len(loaded.examples) == 3
    assert loaded.report.unknown == ("solution",)
    assert loaded.report.dropped == {
        "ability math": 1,
        "the tests are not JSON": 1,
        "there are no tests": 1,
        "the tests have not as many outputs as inputs": 1,
    }
    assert loaded.examples[0].prompt[0] == ("system", "Think.")
    ours = read(tmp_path / "eurus.jsonl", "codegen", prompts="ours").examples
    assert "<answer>" in ours[0].prompt[1][1]
    assert "Problem 0." in ours[0].prompt[1][1]
    assert all(right(one) for one in ours)


def test_apps_and_taco(tmp_path: Path) -> None:
    taco = {
        "question": "Sum the lines.",
        "solutions": "[]",
        "starter_code": "",
        "input_output": json.dumps({"inputs": [["1", "2"], "3"], "outputs": [["3"], "3"]}),
        **dict.fromkeys(["difficulty", "raw_tags", "name", "source", "tags", "url"], ""),
    }
    for layout, records in (
        ("apps", [apps_record(3), {**apps_record(4), "input_output": ""}]),
        ("taco", [taco, {**taco, "question": "  "}]),
    ):
        loaded = read(lines(tmp_path / f"{layout}.jsonl", records), "codegen")
        assert loaded.report.layout == layout
        assert loaded.report.unknown == ()
        assert len(loaded.examples) == sum(loaded.report.dropped.values()) == 1
        assert right(loaded.examples[0])
    (example,) = read(tmp_path / "apps.jsonl", "codegen").examples
    tests = Spec.from_json(example.spec).tests
    assert tests is not None
    assert (tests.inputs, tests.outputs) == (("1", "2"), ("4", "5"))
    assert "def add(x):" in example.prompt[1][1]
    (example,) = read(tmp_path / "taco.jsonl", "codegen").examples
    tests = Spec.from_json(example.spec).tests
    assert tests is not None
    assert (tests.inputs, tests.outputs) == (("1\n2", "3"), ("3", "3"))


def test_outputs_that_are_lists_themselves_stay_whole(tmp_path: Path) -> None:
    tests = {"fn_name": "f", "inputs": [[[1, 2]], [[3]]], "outputs": [[2, 1], [3]]}
    record = {**apps_record(0), "input_output": json.dumps(tests)}
    (example,) = read(lines(tmp_path / "apps.jsonl", [record]), "codegen").examples
    found = Spec.from_json(example.spec).tests
    assert found is not None
    assert found.outputs == ("[2, 1]", "[3]")


# --------------------------------------------------------------------------------- programs


def test_codeio(tmp_path: Path) -> None:
    record = {
        "problem_description": "Add.",
        "io_requirements": "…",
        "refcode": PLUS,
        "funcname": "main_solution",
        "ios": [
            {"input": {"a": 1, "b": 2}, "output": 3},
            {"input": {"a": "x", "b": "y", "other": None}, "output": "xy"},
        ],
        "source": "",
        "category": "",
        "meta": {},
    }
    records = [
        record,
        {**record, "refcode": "import numpy as np\n" + PLUS},
        {**record, "refcode": "def other(): pass"},
        {**record, "ios": []},
        {**record, "ios": [{"input": [1], "output": 3}]},
        {**record, "refcode": "def ("},
    ]
    loaded = read(lines(tmp_path / "codeio.jsonl", records))
    assert Counter(one.task for one in loaded.examples) == {"output": 4, "input": 2}
    assert sum(loaded.report.dropped.values()) == 4
    assert loaded.report.unknown == ()
    assert all(right(one) for one in loaded.examples)
    assert Spec.from_json(loaded.examples[2].spec).args == "a='x', b='y'"


def test_codeio_conversations_give_the_turn_that_was_correct(tmp_path: Path) -> None:
    record = {"prompt": "What is f(1)?", "turn_1": "2", "feedback_1": "Correct output!"}
    later = {"turn_2": "3", "feedback_2": "Correct output!"}
    records = [
        record,
        {**record, "prompt": "And f(2)?", "feedback_1": "Incorrect.", **later},
        {**record, "prompt": "And f(3)?", "feedback_1": "Incorrect."},
    ]
    loaded = read(lines(tmp_path / "chat.jsonl", records), "sft")
    assert [one.completion for one in loaded.examples] == ["2", "3"]
    assert loaded.report.dropped == {"no turn that its feedback calls correct": 1}


def pyx(forward: bool, answer: str, code: str = CODE) -> dict[str, Any]:
    asked = f"Simulate.\n[PYTHON]\n{code}\nassert scale([1, -2, 3], 2) == ??\n[/PYTHON]"
    return {
        "id": 1,
        "nl": "",
        "fwd_mnl": asked if forward else "",
        "bwd_mnl": "" if forward else asked,
        "response": f"Line by line.\n[ANSWER]\n{answer}\n[/ANSWER]",
    }


def test_pyx(tmp_path: Path) -> None:
    good = "assert scale([1, -2, 3], 2) == [2, 6]"
    words = {"id": 2, "nl": "Write f.", "fwd_mnl": "", "bwd_mnl": "", "response": "def f(): …"}
    records = [
        pyx(True, good),
        pyx(False, good),
        words,
        pyx(True, "assert ("),
        pyx(True, "assert scale(1, 2) == scale(1, 2)"),
        {**pyx(True, good), "response": "nothing"},
        {**words, "nl": ""},
    ]
    loaded = read(lines(tmp_path / "pyx.jsonl", records))
    assert [one.task for one in loaded.examples] == ["output", "input"]
    assert all(right(one) for one in loaded.examples)
    assert sum(loaded.report.dropped.values()) == 5
    taught = {one.prompt[0][1]: one for one in read(tmp_path / "pyx.jsonl", "sft").examples}
    assert taught["Write f."].completion == "def f(): …"


# --------------------------------------------------------------------------------- the reference's rows


def reference(kind: str = "io_mixed", **changes: Any) -> dict[str, Any]:
    call = "scale([1, -2, 3], 2)"
    path = (
        f"While executing {call}, which line of code is executed immediately after line 4:"
        "         if item > 0: has been executed for the 2 time?"
    )
    state = (
        f"Is line 5:             total.append(item * factor) executed when {call} is called? If so,"
        " what are the value and type of the variable 'total' after line 5 has been executed for the"
        " 1 time?"
    )
    record: dict[str, Any] = {
        "func_str": CODE,
        "func_name": "scale",
        "func_args": "[1, -2, 3], 2",
        "result": "[2, 6]",
        "prompt_str": "Answer the questions.",
        "type": kind,
    }
    if kind == "io_mixed":
        record["questions"] = {"path_questions": [path], "state_questions": [state]}
        record["question_answers"] = {
            "path_answers": [["    for item in items:"]],
            "state_as": [[["list", "[2]"]]],
        }
    return {**record, **changes}


def test_the_reference_layout(tmp_path: Path) -> None:
    cut = {
        "path_answers": [["    for item in items:"]],
        "state_as": [[["str", "[2, 3, 4..."], ["object", "None"]]],
    }
    records = [
        reference(),
        reference("oi"),
        reference(question_answers=cut),
        reference(question_answers={"path_answers": [], "state_as": []}),
        reference("io_other"),
        reference(result="<object at 0x7f>"),
        reference("oi", func_args="[3], 1", result="[3]", questions=None, question_answers=None),
    ]
    path = tmp_path / "rl_dataset.json"
    path.write_text(json.dumps(records))
    loaded = read(path)
    assert loaded.report.layout == "reference"
    assert [one.task for one in loaded.examples] == ["whitebox", "input", "input"]
    assert sum(loaded.report.dropped.values()) == 4
    assert loaded.examples[0].prompt[1] == ("user", "Answer the questions.")
    assert all(right(one) for one in loaded.examples)
    kinds = [question.kind for question in Spec.from_json(loaded.examples[0].spec).questions]
    assert kinds == ["next_statement", "value"]
    ours = read(path, prompts="ours")
    assert "visit 2" in ours.examples[0].prompt[1][1]
    # The question that cannot be graded is left out where the prompt does not ask it.
    assert len(Spec.from_json(ours.examples[1].spec).questions) == 1 or len(ours.examples) == 3


def test_texts_of_the_reference_are_values(tmp_path: Path) -> None:
    answers = {
        "path_answers": [["-1"]],
        "state_as": [[["str", "it's; here"]]],
    }
    (example,) = read(lines(tmp_path / "r.jsonl", [reference(question_answers=answers)])).examples
    _, value = Spec.from_json(example.spec).questions
    assert value.answers[0].value == '"it\'s; here"'  # type: ignore[union-attr]


# --------------------------------------------------------------------------------- conversations


def test_conversations(tmp_path: Path) -> None:
    user, assistant = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
    records = [
        {"prompt": [user], "completion": [assistant]},
        {"prompt": "Q?", "completion": "A!"},
        {"messages": [{"role": "system", "content": "s"}, user, assistant]},
        {"conversations": [{"from": "human", "value": "h"}, {"from": "gpt", "value": "g"}]},
        {"system": "s2", "conversations": [{"from": "human", "value": "x"}, {"from": "gpt", "value": "y"}]},
        {"messages": [user]},
        {"messages": [assistant]},
        {"messages": []},
        {"messages": [user, {"role": "assistant", "content": "  "}]},
    ]  # fmt: skip
    loaded = read(lines(tmp_path / "chat.jsonl", records), "sft", layout="chat")
    assert [one.completion for one in loaded.examples] == ["a", "A!", "a", "g", "y"]
    assert loaded.examples[3].prompt == (("user", "h"),)
    assert loaded.examples[4].prompt[0] == ("system", "s2")
    assert sum(loaded.report.dropped.values()) == 4
    with pytest.raises(DataError, match=r"nothing to judge|task chat"):
        read(tmp_path / "chat.jsonl", "whitebox", layout="chat")


def test_the_chains_of_synth_are_read(tmp_path: Path) -> None:
    from synth.chains import Chain

    chain = Chain("r1", "output", (("user", "q"),), "<reasoning>…", "narration-1")
    (example,) = read(lines(tmp_path / "chains.jsonl", [chain.to_json()]), "sft").examples
    assert (example.id, example.task, example.completion) == ("r1", "output", "<reasoning>…")


# --------------------------------------------------------------------------------- choosing


@given(
    sizes=st.dictionaries(
        st.tuples(st.sampled_from(["output", "input"]), st.integers(1, 3)),
        st.integers(1, 12),
        min_size=1,
    ),
    limit=st.integers(1, 40),
    seed=st.integers(0, 5),
)
def test_a_balanced_choice_is_as_even_as_the_rows_allow(
    sizes: dict[tuple[str, int], int], limit: int, seed: int
) -> None:
    examples = [
        Example(f"{task}{level}-{n}", (), task, level=level)
        for (task, level), size in sizes.items()
        for n in range(size)
    ]
    config = DataConfig(limit=limit, balanced=True)
    chosen = choose(examples, config, seed, Report())
    assert len(chosen) == min(limit, len(examples))
    assert chosen == [one for one in examples if one in chosen]
    assert chosen == choose(examples, config, seed, Report())
    counts = Counter((one.task, one.level) for one in chosen)
    short = [key for key, size in sizes.items() if counts[key] < size]
    if short:  # strata with rows left have as many as any other, or one fewer
        assert max(counts.values()) - min(counts[key] for key in short) <= 1


def test_a_limit_is_counted_and_drawn_by_seed(tmp_path: Path) -> None:
    path = rows_file(tmp_path, 20)
    loaded = load(DataConfig(path=str(path), limit=5), stage="whitebox", seed=1)
    other = load(DataConfig(path=str(path), limit=5), stage="whitebox", seed=2)
    assert len(loaded.examples) == 5
    assert loaded.examples != other.examples
    assert loaded.report.dropped == {"beyond the limit": 15}


class Words:
    """A tokenizer with one token a word."""

    def apply_chat_template(self, turns: Any, **_: Any) -> str:
        return " ".join(turn["content"] for turn in turns)

    def __call__(self, text: str, **_: Any) -> dict[str, list[str]]:
        return {"input_ids": text.split()}


def test_prompts_that_are_too_long_are_left_out_and_counted(tmp_path: Path) -> None:
    rows = [output_row(n, prompt=(("user", "word " * (n + 1)),)).to_dict() for n in range(10)]
    loaded = fitting(read(lines(tmp_path / "rows.jsonl", rows)), Words(), 4)
    assert len(loaded.examples) == loaded.report.kept == 4
    assert loaded.report.dropped == {"prompt of more than 4 tokens": 6}
    with pytest.raises(DataError, match=r"raise data\.max_prompt_tokens"):
        fitting(loaded, Words(), 0)


# --------------------------------------------------------------------------------- columns


def test_rows_without_an_answer_get_the_run_of_their_program(tmp_path: Path) -> None:
    tests = {"schema": 1, "task": "unittest", "tests": {"inputs": ["1"], "outputs": ["2"]}}
    coding = output_row(2, task="unittest", spec=json.dumps(tests))
    rows = [output_row(0), whitebox_row(1), coding]
    loaded = chained(read(lines(tmp_path / "rows.jsonl", [r.to_dict() for r in rows]), "sft"))
    assert [one.id for one in loaded.examples] == [rows[0].id, rows[1].id]
    for row, example in zip(rows[:2], loaded.examples, strict=True):
        assert grade(Spec.from_json(row.spec), example.completion).status == "right"
    assert loaded.report.dropped == {"no answer to imitate (task)": 1}


def test_the_columns_that_trl_reads(tmp_path: Path) -> None:
    needs("datasets")
    loaded = read(lines(tmp_path / "rows.jsonl", [output_row(0, pass_rate=0.5).to_dict()]))
    table = columns(loaded.examples, TrainConfig("whitebox"))
    assert table.column_names == ["prompt", "spec", "id", "task", "level", "pass_rate", "part"]
    assert [turn["role"] for turn in table[0]["prompt"]] == ["system", "user"]
    assert Spec.from_json(table[0]["spec"]).output == "[2, 6]"
    told = columns(chained(loaded).examples, TrainConfig("sft"))
    assert told.column_names == ["prompt", "completion"]
    assert told[0]["completion"][0]["role"] == "assistant"


def test_rows_for_verl(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    from rewards.adapters.verl import compute_score
    from trainers.verl import export

    rows = [output_row(0), output_row(1, split="test"), whitebox_row(2)]
    path = lines(tmp_path / "rows.jsonl", [row.to_dict() for row in rows])
    config = TrainConfig("whitebox", data=DataConfig(path=str(path)))
    assert export(config, tmp_path / "verl") == {"train.parquet": 2, "test.parquet": 1}
    for record in pq.read_table(tmp_path / "verl/train.parquet").to_pylist():
        spec = record["reward_model"]["ground_truth"]
        answer = truth(Spec.from_json(spec))
        scored = compute_score("execverify", answer, spec, record["extra_info"])
        assert scored["score"] == 2.0
