"""`synth generate` from the outside: the bytes it makes, how it dies, and whether its rows are true.

Every run is a process of its own. The reference is `finished_run` (conftest): one worker, hash seed 0,
no break. Everything else must give the same bytes. Sizes are small; `--runslow` repeats the main law
on a larger run.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, RUN_OPTIONS, CommandLine, Environment

from rewards.row import Row, Spec
from rewards.sandbox import SandboxPool
from rewards.values import canonical, parse
from synth.config import GenerateConfig
from synth.constraints import unmet, violations
from synth.dataset import read_manifest, read_rows
from synth.engine import generate
from synth.executions import examine, output_text
from synth.inputs import Drawer
from synth.pipeline import CASES_DRAWN, Pipeline, Tally
from synth.programs import Program, vet
from synth.providers.grammar import GrammarProvider
from synth.questions import answer_text
from synth.recheck import constraint_of, recheck, source_of
from synth.report import verify

WAIT_SECONDS = 60.0


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every row file, and of the card that people read beside them."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("data/*", "jsonl/*", "README.md")
        for path in sorted(folder.glob(part))
    }


class Running:
    """A `synth generate` in a session of its own, in folder `rows` of `cwd`, and all it starts."""

    def __init__(self, cwd: Path, environment: Environment, *options: str) -> None:
        self.folder = cwd / "rows"
        command = [
            sys.executable,
            "-m",
            "synth",
            "generate",
            *RUN_OPTIONS,
            *options,
            "--out",
            "rows",
        ]
        self.process = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait_for_slots(self, count: int) -> None:
        """Until so many slots are in the journal: the run is in the middle of its work."""
        journal = self.folder / "journal.jsonl"
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"the run ended: {self.process.communicate()}")
            if journal.exists() and journal.read_bytes().count(b"\n") > count:
                return
            time.sleep(0.01)
        raise AssertionError("the run does not get on")

    def end(self) -> tuple[int, str, float]:
        """Status, stderr, and the seconds it took from now until the process had ended."""
        start = time.monotonic()
        _, stderr = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, stderr, time.monotonic() - start


def descendants(pid: int) -> set[int]:
    """Processes below `pid`, those in other sessions and namespaces included."""
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = {int(word) for word in children.read_text().split()}
        except OSError:  # ended meanwhile
            continue
        for child in below:
            found |= {child} | descendants(child)
    return found


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.fixture
def left_behind() -> Iterator[Callable[[], set[int]]]:
    """Processes that a run has left: orphans come to us instead of to init, so none escapes."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    adopt = 36  # PR_SET_CHILD_SUBREAPER
    before = descendants(os.getpid())
    assert prctl(adopt, 1, 0, 0, 0) == 0

    def left() -> set[int]:
        return {pid for pid in descendants(os.getpid()) - before if alive(pid)}

    yield left
    prctl(adopt, 0, 0, 0, 0)
    for pid in descendants(os.getpid()) - before:
        if not alive(pid):
            os.waitpid(pid, os.WNOHANG)


def nothing_is_left(left: Callable[[], set[int]], seconds: float = 8.0) -> bool:
    deadline = time.monotonic() + seconds
    while left() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not left()


# ------------------------------------------------------------------------------------- the bytes


def test_GE_02_workers_folder_and_hash_seed_do_not_show(
    tmp_path: Path, environment: Environment, finished_run: Path
) -> None:
    run = Running(tmp_path, environment | {"PYTHONHASHSEED": "12345"}, "--jobs", "2", "--json")
    stdout, stderr = run.process.communicate(timeout=120)
    assert run.process.returncode == 0, stderr
    assert digests(run.folder) == digests(finished_run)
    summary = json.loads(stdout)
    manifest = read_manifest(run.folder)
    assert summary["counts"] == manifest.counts
    assert summary["funnel"] == manifest.funnel.to_json()
    assert summary["config_digest"] == read_manifest(finished_run).digest
    assert {entry.path: entry.sha256 for entry in manifest.files}.items() <= digests(
        run.folder
    ).items()
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "README.md", "data", "journal.jsonl", "jsonl", "manifest.json",
    ]  # fmt: skip


def test_another_seed_gives_other_rows(tmp_path: Path, finished_run: Path) -> None:
    generate(GenerateConfig(depth=2, rows=5, seed=4), tmp_path / "rows")
    ids = {row.program_id for row in read_rows(tmp_path / "rows")}
    assert ids.isdisjoint(row.program_id for row in read_rows(finished_run))


@pytest.mark.slow
def test_GE_02_on_a_larger_run(command_line: CommandLine, tmp_path: Path) -> None:
    found = []
    for jobs, seed in (("1", "0"), ("2", "77")):
        options = ("--depth", "3", "-n", "1200", "--jobs", jobs, "--out", f"rows{jobs}")
        done = command_line("generate", *options, PYTHONHASHSEED=seed)
        assert done.returncode == 0, done.stderr
        found.append(digests(tmp_path / f"rows{jobs}"))
    assert found[0] == found[1]


# --------------------------------------------------------------------------------- interruptions


@pytest.mark.parametrize("whom", ["the whole group", "the front process"])
def test_CL_02_control_c_ends_everything_and_says_how_to_go_on(
    tmp_path: Path,
    environment: Environment,
    finished_run: Path,
    left_behind: Callable[[], set[int]],
    whom: str,
) -> None:
    run = Running(tmp_path, environment, "--jobs", "2")
    run.wait_for_slots(2)
    assert len(descendants(run.process.pid)) >= 2, "there are workers to be left behind"
    if whom == "the whole group":  # as a terminal does
        os.killpg(run.process.pid, signal.SIGINT)
    else:
        run.process.send_signal(signal.SIGINT)
    status, stderr, seconds = run.end()
    assert status == 130
    assert seconds < 10
    assert "Traceback" not in stderr
    assert nothing_is_left(left_behind), left_behind()
    assert not (run.folder / "manifest.json").exists()
    if whom == "the front process":
        return
    hint = re.search(
        r"what is finished is kept: (synth generate .*--resume)$", stderr, re.MULTILINE
    )
    assert hint, stderr
    words = shlex.split(hint[1])[1:]
    again = subprocess.run(
        [sys.executable, "-m", "synth", *words, "--json"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=120,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["resumed_slots"] >= 2
    assert digests(run.folder) == digests(finished_run)


def test_kill_9_and_resume_give_the_same_bytes(
    tmp_path: Path,
    environment: Environment,
    finished_run: Path,
    left_behind: Callable[[], set[int]],
) -> None:
    first = Running(tmp_path, environment | {"PYTHONHASHSEED": "1"}, "--jobs", "2")
    first.wait_for_slots(2)
    first.process.kill()
    assert first.end()[0] == -signal.SIGKILL
    assert nothing_is_left(left_behind), left_behind()
    again = Running(
        tmp_path, environment | {"PYTHONHASHSEED": "2"}, "--jobs", "1", "--resume", "--json"
    )
    stdout, stderr = again.process.communicate(timeout=120)
    assert again.process.returncode == 0, stderr
    assert json.loads(stdout)["resumed_slots"] >= 2
    assert digests(again.folder) == digests(finished_run)


def test_a_run_that_did_not_finish_is_not_taken_for_a_dataset(
    tmp_path: Path, command_line: CommandLine, finished_run: Path
) -> None:
    (tmp_path / "rows").mkdir()
    lines = (finished_run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "rows" / "journal.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:20])
    for command in ("show", "stats"):
        done = command_line(command, "rows")
        assert done.returncode == 2
        assert "did not finish" in done.stderr
        assert "--resume" in done.stderr
        assert "Traceback" not in done.stderr


# ------------------------------------------------------------------------------- CL-05: any caller


SCRIPT = """
from rewards.sandbox import Job, run
from synth.config import GenerateConfig
from synth.engine import generate

print([result.value for result in run([Job("def f(): return 1", "f")] * 2, workers=2)])
finished = generate(GenerateConfig(depth=0, rows=4, types=("str",)), FOLDER, jobs=2)
print(finished.manifest.counts["rows"])
"""


@pytest.mark.parametrize("way", ["script", "stdin", pytest.param("thread", marks=pytest.mark.slow)])
def test_CL_05_works_without_a_main_guard(
    tmp_path: Path, environment: Environment, way: str
) -> None:
    text = SCRIPT.replace("FOLDER", repr(f"rows-{way}"))
    if way == "thread":
        inside = "".join(f"    {line}\n" for line in text.splitlines())
        text = f"import threading\ndef work():\n{inside}\nthread = threading.Thread(target=work)\n"
        text += "thread.start()\nthread.join()\n"
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-" if way == "stdin" else "script.py"],
        input=text if way == "stdin" else "",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("['1', '1']\n4\n", "")


# ------------------------------------------------------------------------------------ true rows


@pytest.fixture(scope="module")
def rows(finished_run: Path) -> list[Row]:
    return list(read_rows(finished_run))


def test_levels_tasks_and_columns(rows: list[Row], finished_run: Path) -> None:
    assert Counter(row.level for row in rows) == dict.fromkeys(range(1, 6), 15)
    assert len({row.id for row in rows}) == len(rows) == 75
    for row in rows:
        constraint = constraint_of(row)
        assert row.owner == constraint.operation.owner
        assert row.depth == constraint.structure.depth == min(max(row.level - 2, 0), 2)
        assert constraint.structure.call_chain == (row.level == 5)
        assert row.n_lines == row.code.count("\n")
        assert (row.provider, row.pass_rate, row.evaluator) == ("grammar", None, None)
        spec = Spec.from_json(row.spec)
        assert (spec.task, spec.code, spec.entry) == (row.task, row.code, row.entry)
        assert (spec.args, spec.output, spec.raises) == (row.args, row.output, None)
        assert canonical(parse(row.output)) == row.output
    counts: Any = read_manifest(finished_run).counts
    assert counts["task"] == dict(Counter(row.task for row in rows))


def test_every_row_meets_what_a_text_can_show(rows: list[Row]) -> None:
    for row in rows:
        constraint, source = constraint_of(row), source_of(row)
        assert violations(constraint, source, first=False) == []
        again = vet(constraint, f"{row.code}print({row.entry}({row.args}))\n")
        assert again.id == row.program_id


def test_every_program_meets_what_executions_can_show(rows: list[Row]) -> None:
    """The rules that speak of executions hold on the inputs that were drawn for the program; where its
    seed input is among the rows, the same are drawn again here."""
    seeds = [row for row in rows if row.input_kind == "seed" and row.task == "input"]
    assert len(seeds) >= len({row.program_id for row in rows}) / 4
    with SandboxPool(size=2) as sandbox, Drawer() as drawer:
        pipeline = Pipeline(GenerateConfig(), GrammarProvider(), sandbox, drawer)
        for row in seeds:
            constraint, source = constraint_of(row), source_of(row)
            program = Program(row.program_id, source, constraint)
            drawn = drawer.draw(row.args, seed=f"3:{row.program_id}", count=CASES_DRAWN)
            cases = pipeline._cases(program, drawn, Tally())
            traces = [case.trace for case in cases]
            outputs = [output_text(case.result) for case in cases]
            inputs = [case.args for case in cases]
            every = examine(sandbox, source, constraint.operation, inputs, traces, outputs)
            assert unmet(constraint, source, every) == [], row.code
            found = {case.args: case for case in cases}
            for known in rows:
                if known.program_id == row.program_id:
                    assert found[known.args].kind == known.input_kind
                    assert found[known.args].result.value == known.output
                    assert found[known.args].trace.n_steps == known.n_steps
                    assert found[known.args].trace.path_id == known.path_id


def test_every_row_meets_its_constraint_from_the_rows_alone(rows: list[Row]) -> None:
    found = recheck(rows, workers=2)
    assert (found.rows, found.rows_meeting, found.broken) == (len(rows), len(rows), ())


def test_a_row_that_names_another_constraint_is_found_out(rows: list[Row]) -> None:
    wrong = [replace(row, operation="str.swapcase") for row in rows if row.level == 3]
    found = recheck(wrong, workers=2)
    assert found.rows_meeting == 0
    assert {rule for rule, _ in found.broken} == {"nested_calls", "operation_matters"}


def test_the_checker_would_notice(rows: list[Row]) -> None:
    """Every program breaks the constraint of most others."""
    programs = list({row.program_id: row for row in rows}.values())
    met = [
        violations(constraint_of(one), source_of(other)) == []
        for one in programs
        for other in programs
        if one is not other
    ]
    assert len(met) > 50
    assert sum(met) < 0.05 * len(met)


def test_QB_02_no_prompt_holds_its_answer(rows: list[Row]) -> None:
    for row in rows:
        user = dict(row.prompt)["user"]
        assert row.code.rstrip() in user
        said = user.replace(row.code.rstrip(), "")
        call = f"{row.entry}({row.args})"
        if row.task == "whitebox":
            said = said.partition("Now your task")[2]
            assert f"assert {call} == ????" in said
            asked = Spec.from_json(row.spec).questions
            sentences = said.replace(call, "").rstrip().splitlines()[-len(asked) :]
            for question, line in zip(asked, sentences, strict=True):
                answer = answer_text(question)
                assert answer not in line or answer in row.code  # a statement, or a short number
            if len(row.output) > 4:
                assert row.output not in said.replace(call, "")
        elif row.task == "output":
            assert f"assert {call} == ????" in said
            said = said.replace(call, "")
            assert row.output not in said
        else:
            assert f"assert {row.entry}(????) == {row.output}\n" in said
            assert call not in said.replace(f" == {row.output}", "")
        assert call not in row.code


def test_datasets_gives_the_rows_back(finished_run: Path, rows: list[Row], tmp_path: Path) -> None:
    from datasets import load_dataset

    loaded = load_dataset(str(finished_run), cache_dir=str(tmp_path))
    records = [record for split in loaded.values() for record in split]
    assert records == [row.to_dict() for row in rows]
    for split, table in loaded.items():
        assert {record["split"] for record in table} == {split}
        text = (finished_run / "jsonl" / f"{split}.jsonl").read_text(encoding="utf-8")
        assert "".join(json.dumps(record) + "\n" for record in table) == text


def test_another_process_gets_every_output_again(
    finished_run: Path, command_line: CommandLine, rows: list[Row]
) -> None:
    cases = len({(row.program_id, row.args) for row in rows})
    done = command_line("stats", str(finished_run), "--verify", "--json", PYTHONHASHSEED="99")
    assert done.returncode == 0, done.stderr
    verified = json.loads(done.stdout)["verification"]
    assert (verified["equal"], verified["different"], verified["failed"]) == (cases, 0, 0)


def test_outputs_are_what_a_plain_interpreter_gives(rows: list[Row], tmp_path: Path) -> None:
    """Without our sandbox and our tracer: the programs as text, in one interpreter."""
    cases = sorted({(row.code, row.entry, row.args, row.output) for row in rows})
    script = tmp_path / "all.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom rewards.values import canonical\n"
        f"for code, entry, args, output in {cases!r}:\n"
        "    names = {}\n    exec(code, names)\n"
        "    found = canonical(eval(f'{entry}({args})', names))\n"
        "    assert found == output, (code, args, found, output)\n"
    )
    subprocess.run([sys.executable, "-I", str(script)], check=True, timeout=60)


def test_exception_rows(tmp_path: Path) -> None:
    config = GenerateConfig(
        depth=1, rows=40, types=("list", "int"), exceptions=True, inputs_per_program=8
    )
    generate(config, tmp_path / "rows", jobs=2)
    rows = list(read_rows(tmp_path / "rows"))
    raising = [row for row in rows if Spec.from_json(row.spec).raises]
    assert raising, "nothing raised: ask for other types"
    for row in raising:
        raises = Spec.from_json(row.spec).raises
        assert raises is not None
        assert (row.task, row.output, row.output_type) == ("output", "", raises)
        assert raises not in dict(row.prompt)["user"].replace(row.code.rstrip(), "")
    with_input = {(row.program_id, row.args) for row in rows if row.task == "input"}
    assert with_input.isdisjoint((row.program_id, row.args) for row in raising)
    verified = verify(rows, workers=2)
    assert verified.equal == verified.total > 0, verified.text()
