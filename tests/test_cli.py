"""The command line as a user meets it: exit codes, messages, help pages; each run is a real process.

Covers requests that cannot be met (exit code 2, no traceback, the message says what was given and what
to do next), refusals of the operating system, and `synth constraints`. What a good run makes is in
`test_end_to_end.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import click
import pytest
from conftest import ROOT, RUN_OPTIONS, CommandLine, Environment

from rewards.sandbox import SandboxError
from synth import cli as cli_module
from synth import engine
from synth.catalogue import catalogue
from synth.cli import cli
from synth.commands.generate import again
from synth.constraints import RULES, levels
from synth.errors import SynthError, UsageError
from synth.version import VERSION


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """The request was refused as it should be: status 2, plain words, nothing on stdout."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for part in parts:
        assert re.search(part, done.stderr), f"{part!r} is not in {done.stderr!r}"


BAD_SETTINGS = [
    (["--depth", "-1"], ["--depth is -1", "0 to 5"]),
    (["--depth", "9"], ["--depth is 9", "0 to 5"]),
    (["--depth", "three"], ["--depth", "three", "integer"]),
    (["--types", "strr"], ["'strr'", "did you mean .*'str'"]),
    (["--types", "lits,str"], ["'lits'", "did you mean .*'list'"]),
    (["--jobs", "0"], ["--jobs is 0", "1 to 256"]),
    (["-n", "0"], ["--rows is 0", "from 1 to"]),
    (["--depth", "3", "--levels", "7"], ["--levels has 7", "1, 2, 3, 4, 5, 6"]),
    (["--levels", "x"], ["--levels is 'x'", "whole numbers"]),
    (["--tasks", "outputt"], ["'outputt'", "did you mean 'output'"]),
    (["--provider", "gramar"], ["'gramar'", "did you mean 'grammar'"]),
    (["--inputs-per-program", "0"], ["--inputs-per-program is 0", "from 1 to 50"]),
    (["--out", "no/such/parent"], ["'no/such'", "does not exist", "mkdir -p", "--out"]),
    (["--out", "x" * 300], ["too long", "--out"]),
    (["--seeed", "1"], ["--seeed", "--seed"]),
]


@pytest.mark.parametrize(
    ("args", "parts"), BAD_SETTINGS, ids=[" ".join(a)[:30] for a, _ in BAD_SETTINGS]
)
def test_a_bad_setting_is_refused_and_leaves_nothing(
    command_line: CommandLine, tmp_path: Path, args: list[str], parts: list[str]
) -> None:
    refused(command_line("generate", *args), *parts)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_command_offers_the_closest(command_line: CommandLine) -> None:
    refused(command_line("genrate"), "'genrate'", "did you mean 'generate'", "synth --help")


# ---------------------------------------------------------------------------------------- folders


def test_a_folder_that_exists_names_three_ways_out(
    command_line: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "thesis.tex").write_text("years of work")
    done = command_line("generate", "--out", "rows")
    refused(
        done, "'rows' exists and is not empty", r"thesis\.tex", "--resume", "--overwrite", "--out"
    )
    refused(
        command_line("generate", "--out", "rows", "--overwrite"),
        "only deletes what a run has written",
    )
    refused(
        command_line("generate", "--out", "rows", "--resume"),
        "no run to resume",
        "--overwrite|--out",
    )
    assert (tmp_path / "rows" / "thesis.tex").read_text() == "years of work"


def test_nothing_to_resume(command_line: CommandLine, tmp_path: Path) -> None:
    refused(
        command_line("generate", "--out", "rows", "--resume"),
        "no run to resume in 'rows'",
        "leave out",
    )
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "rows").mkdir()
    refused(
        command_line("generate", "--out", "rows", "--resume"),
        "no run to resume in 'rows'",
        "leave out",
    )


def test_resume_of_another_run(
    command_line: CommandLine, finished_run: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished_run, tmp_path / "rows")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    options = [*RUN_OPTIONS, "--out", "rows", "--resume"]
    other = ["--seed", "4"]
    refused(
        command_line("generate", *options, *other),
        "another configuration",
        "same command",
        "--overwrite",
        "--out",
    )
    refused(
        command_line("generate", *options, "--overwrite"), "--resume and --overwrite", "one of them"
    )
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_that_nobody_may_write_to(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(command_line("generate", "--out", "file"), "'file' is not a folder", "--out")
    refused(command_line("generate", "--out", "file/rows"), "--out")
    # Root may write in any folder, but nobody may make one here.
    refused(command_line("generate", "--out", "/sys/rows"), "'/sys/rows'", "--out")
    if os.geteuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o555)
        refused(command_line("generate", "--out", "locked"), "cannot write to 'locked'", "--out")


FULL_DISK = """
mount -t tmpfs -o size=8k tmpfs disk || exit 1
$SYNTH generate $OPTIONS --out disk/rows 2>&1; echo "journal: $?"
mount -o remount,size=$ENOUGH_FOR_THE_JOURNAL disk
$SYNTH generate $OPTIONS --out disk/rows --resume 2>&1; echo "rows: $?"
find disk/rows -type f
mount -o remount,size=64m disk
$SYNTH generate $OPTIONS --out disk/rows --resume > /dev/null; echo "resumed: $?"
sha256sum < disk/rows/jsonl/train.jsonl
"""


def test_a_full_disk(finished_run: Path, tmp_path: Path, environment: Environment) -> None:
    """A real one: a small tmpfs in a mount namespace of its own, else a limit on the size of files."""
    (tmp_path / "disk").mkdir()
    alone = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
    options = " ".join([*RUN_OPTIONS, "--jobs", "2"])
    synth = f"{sys.executable} -m synth"
    if not can_mount(alone, tmp_path):
        limited = f"ulimit -f 8; exec {synth} generate {options} --out disk/rows"
        refused(shell(["sh", "-c", limited], tmp_path, environment), "'disk/rows'")
        assert not (tmp_path / "disk/rows/manifest.json").exists()
        return
    pages = (finished_run / "journal.jsonl").stat().st_size // 4096 + 8
    settings = {"SYNTH": synth, "OPTIONS": options, "ENOUGH_FOR_THE_JOURNAL": str(4096 * pages)}
    done = shell([*alone, "sh", "-c", FULL_DISK], tmp_path, environment | settings)
    full = (
        "error: disk full while writing to 'disk/rows': .*; free space and run again with --resume"
    )
    assert re.search(
        # Of the row files that did not fit, none is left for anyone to read.
        rf"^{full}\njournal: 2\n{full}\nrows: 2\ndisk/rows/journal.jsonl\nresumed: 0\n[0-9a-f]{{64}} ",
        done.stdout,
    ), done.stdout
    assert done.stderr == ""
    rows = (finished_run / "jsonl" / "train.jsonl").read_bytes()
    assert hashlib.sha256(rows).hexdigest() in done.stdout


def shell(
    command: list[str], cwd: Path, environment: Environment
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, check=False
    )


def can_mount(alone: list[str], folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    tried = [*alone, "mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder / "disk")]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def test_no_room_for_temporary_files(command_line: CommandLine, tmp_path: Path) -> None:
    """Ours are made where TMPDIR says; nobody may write there, and nowhere else either."""
    (tmp_path / "cwd").mkdir()
    code = (
        "import tempfile, sys, errno, os\n"
        "def full(*args, **kwargs): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), '/tmp')\n"
        "tempfile.mkdtemp = full\n"
        "sys.argv = ['synth', 'generate', '-n', '1', '--out', 'rows']\n"
        "from synth.cli import main; main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path / "cwd",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert re.search(r"error: .*No space left on device.*/tmp", done.stderr)


# -------------------------------------------------------------------------------- exit codes


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (UsageError("--x is 3"), 2, "error: --x is 3\n"),
        (SynthError("the request cannot be met"), 1, "error: the request cannot be met\n"),
        (SandboxError("the sandbox does not start"), 1, "error: the sandbox does not start\n"),
        (PermissionError(13, "Permission denied", "/etc/x"), 1, "Permission denied: '/etc/x'\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.UsageError("no such option"), 2, "no such option\n"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expected_errors_are_plain_words(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    error: BaseException,
    status: int,
    text: str,
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr(engine, "generate", fail)
    monkeypatch.setattr(sys, "argv", ["synth", "generate", "--out", str(tmp_path / "rows")])
    with pytest.raises(SystemExit) as stopped:
        cli_module.main()
    assert stopped.value.code == status
    assert capsys.readouterr().err.endswith(text)


@pytest.mark.parametrize("fault", [RuntimeError("a bug"), KeyError("a bug")])
def test_a_fault_of_ours_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: Exception
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise fault

    monkeypatch.setattr(engine, "generate", fail)
    monkeypatch.setattr(sys, "argv", ["synth", "generate", "--out", str(tmp_path / "rows")])
    with pytest.raises(type(fault), match="a bug"):
        cli_module.main()


def test_a_reader_that_stops_early_is_no_error(environment: Environment) -> None:
    synth = f"{sys.executable} -m synth constraints --json"
    done = subprocess.run(
        f"{synth} | head -c 100 > /dev/null",
        shell=True,
        capture_output=True,
        text=True,
        env=environment,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""


def test_how_to_go_on_repeats_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["synth", "generate", "--out", "a b", "--overwrite", "-n", "9"]
    )
    assert again("a b") == "synth generate --out 'a b' -n 9 --resume"
    monkeypatch.setattr(sys, "argv", ["pytest", "tests"])
    assert "--out rows --resume" in again("rows")


# -------------------------------------------------------------------------------- finding commands


def test_version_and_help(command_line: CommandLine) -> None:
    assert VERSION in command_line("--version").stdout
    short, long = command_line("-h"), command_line("--help")
    assert short.stdout == long.stdout
    listed = re.findall(r"^  ([a-z]+)  ", long.stdout, re.MULTILINE)
    assert listed[:4] == ["generate", "difficulty", "chains", "show"]
    assert set(listed) >= {"generate", "show", "stats", "constraints", "publish", "bench"}


def test_commands_of_other_packages_are_found(
    command_line: CommandLine, tmp_path: Path, environment: Environment
) -> None:
    """The entry points of any distribution on the path, read without importing anything."""
    site = tmp_path / "site"
    (site / "guests-1.0.dist-info").mkdir(parents=True)
    (site / "guests-1.0.dist-info" / "entry_points.txt").write_text(
        "[console_scripts]\nnot-this = guests:no\n\n"
        f"[{cli_module.GROUP}]\n# a comment\nwave = guests:wave\n\n[other]\nnor-this = guests:no\n"
    )
    (site / "guests.py").write_text(
        "import click\n@click.command()\ndef wave():\n    'Wave.'\n    click.echo('waved')\n"
    )
    path = f"{environment['PYTHONPATH']}{os.pathsep}{site}"
    assert command_line("wave", PYTHONPATH=path).stdout == "waved\n"
    listed = command_line("--help", PYTHONPATH=path).stdout
    assert "wave" in listed
    assert "not-this" not in listed
    assert "nor-this" not in listed


def test_help_names_every_option_and_shows_examples() -> None:
    with cli.make_context("synth", [], resilient_parsing=True) as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            text = command.get_help(click.Context(command, info_name=name))
            assert "Examples:" in text
            for parameter in command.params:
                if isinstance(parameter, click.Option):
                    assert parameter.help or parameter.name == "help", (name, parameter.name)
                    assert max(parameter.opts, key=len) in text


# -------------------------------------------------------------------------------- synth constraints


def test_constraints_as_json_are_the_catalogue(command_line: CommandLine) -> None:
    done = command_line("constraints", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    data = json.loads(done.stdout)
    operations = catalogue().operations
    assert [item["id"] for item in data["operations"]] == [op.id for op in operations]
    assert data["count"] == len(operations) * len(levels(3))
    families = Counter(item["family"] for item in data["operations"])
    assert families["builtin"] >= 300
    assert families["library"] >= 150
    assert [item["level"] for item in data["levels"]] == list(levels(3))
    assert [rule["name"] for rule in data["optional_rules"]] == [
        r.name for r in RULES if r.optional
    ]
    for level in data["levels"]:
        assert level["rules"]
        assert all(rule["sentence"].endswith(".") for rule in level["rules"])


def test_constraints_of_some_owners_and_one_level(command_line: CommandLine) -> None:
    args = ("constraints", "--types", "str,list", "--level", "4")
    data = json.loads(command_line(*args, "--json").stdout)
    operations = catalogue().select(["str", "list"])
    assert {item["owner"] for item in data["operations"]} == {"str", "list"}
    assert data["count"] == len(data["operations"]) == len(operations) > 80
    assert [level["level"] for level in data["levels"]] == [4]
    text = command_line(*args).stdout
    assert "Rules of level 4" in text
    assert all(op.form in text for op in operations)
    counted = command_line(*args, "--count").stdout
    for owner in ("str", "list"):
        number = sum(op.owner == owner for op in operations)
        assert re.search(rf"^ *{number}  {owner}$", counted, re.MULTILINE)


def test_what_is_excluded_has_a_reason(command_line: CommandLine) -> None:
    data = json.loads(command_line("constraints", "--excluded", "--json").stdout)
    assert [(item["id"], item["reason"]) for item in data] == [
        (exclusion.id, exclusion.reason) for exclusion in catalogue().exclusions
    ]
    assert all(item["reason"] for item in data)
    text = command_line("constraints", "--excluded", "--types", "builtins").stdout
    assert all(re.search(rf"\b{name}\b", text) for name in ("hash", "id", "open", "input", "exec"))


def test_constraints_refuse_what_does_not_exist(command_line: CommandLine) -> None:
    refused(command_line("constraints", "--types", "strr"), "'strr'", "did you mean .*'str'")
    refused(command_line("constraints", "--level", "7"), "--level is 7", "1, 2, 3, 4, 5, 6")
    refused(command_line("constraints", "--depth", "9"), "--depth is 9", "0 to 5")
