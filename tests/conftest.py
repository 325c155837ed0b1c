"""What all tests share: flags for costly tests, Hypothesis profiles, an environment without surprises.

Covers `--runslow`, `--runmodel` and `--rungpu` (tests with these marks are skipped otherwise, and say
so), the profiles `dev` and `ci`, and fixtures that run the command line as a user does. The one
dataset that several modules look at is made here, once a session.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# Before anything imports `datasets` or `huggingface_hub`, which read it once.
os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
from hypothesis import settings

ROOT = Path(__file__).parent.parent

FLAGS = {
    "slow": ("--runslow", "takes minutes"),
    "model": ("--runmodel", "needs a language model"),
    "gpu": ("--rungpu", "needs an accelerator"),
}
"""Mark -> (flag that runs its tests, why they are skipped without it)."""

# Times say little on a shared machine, so neither profile has a deadline. In CI a red run must mean
# a change, not luck: the same examples every time.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    for mark, (flag, why) in FLAGS.items():
        parser.addoption(flag, action="store_true", help=f"run the tests marked {mark} ({why})")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for mark, (flag, why) in FLAGS.items():
        if config.getoption(flag):
            continue
        skip = pytest.mark.skip(reason=f"{why}: run with {flag}")
        for item in items:
            if mark in item.keywords:
                item.add_marker(skip)


EXPECTED_SKIPS = re.compile(
    r"run with --run|not in this checkout|(is|are) not there|installed here|on this machine|Linux kernel"
    r"|kernel does not list|reads the bytecode"
)
"""Why a test may be skipped in CI: costly, data or interpreter or platform not at hand."""


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skip for another reason than these fails the run: a guard that always skips guards nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not os.environ.get("CI") or reporter is None:
        return
    reasons = {str(report.longrepr[2]) for report in reporter.stats.get("skipped", [])}
    strange = sorted(reason for reason in reasons if not EXPECTED_SKIPS.search(reason))
    if strange:
        reporter.write_line(f"\nunexpected skips: {'; '.join(strange)}", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


Environment = dict[str, str]
CommandLine = Callable[..., "subprocess.CompletedProcess[str]"]


def environment_in(home: Path) -> Environment:
    """The variables of a process that sees nothing of the user's: no caches, no settings, no network."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {
        "HOME": str(home),
        "HF_HOME": str(home / "huggingface"),
        "HF_DATASETS_CACHE": str(home / "datasets"),
        "HF_HUB_OFFLINE": "1",
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(ROOT),
    }


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """A clean environment for a process; a test may add to it."""
    return environment_in(tmp_path_factory.mktemp("home"))


@pytest.fixture
def command_line(tmp_path: Path, environment: Environment) -> CommandLine:
    """Runs `python -m synth` with arguments in an empty folder, as a user does."""

    def run(*args: str, cwd: Path = tmp_path, **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "synth", *args],
            capture_output=True,
            text=True,
            cwd=cwd,
            env=environment | env,
            timeout=120,
            check=False,
        )

    return run


RUN_OPTIONS = ("--depth", "2", "-n", "75", "--seed", "3")
"""What `finished_run` was asked for."""


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small dataset of `synth generate`, made by one worker without a break. Do not write to it."""
    folder = tmp_path_factory.mktemp("finished")
    done = subprocess.run(
        [sys.executable, "-m", "synth", "generate", *RUN_OPTIONS, "--jobs", "1", "--out", "rows"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment_in(folder) | {"PYTHONHASHSEED": "0"},
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "rows"
