"""`python -m rewards`: where the files for trainers lie, and whether grading works on this machine.

    python -m rewards path              # every trainer that loads a file, and the file
    python -m rewards path openrlhf     # the file alone, for a command line
    python -m rewards selftest          # scores known answers; exit code 1 if one differs
    python -m rewards table             # all trainers, as in the README

Exit code 2 for a command that cannot be understood. Not covered: grading files of completions
(`synth grade`).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m rewards", description="Rewards for code execution reasoning."
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    where = commands.add_parser("path", help="print the file that a trainer loads by path")
    where.add_argument("trainer", nargs="?", help="such as openrlhf; default: all of them")
    commands.add_parser("selftest", help="score known answers, from a thread and an event loop")
    commands.add_parser("table", help="how every trainer is pointed at the rewards")
    given = parser.parse_args(arguments)
    if given.command == "path":
        return _path(given.trainer, where)
    if given.command == "selftest":
        return _selftest()
    if given.command == "table":
        from rewards.adapters import table

        sys.stdout.write(table())
        return 0
    parser.error("expected a command: path, selftest or table")


def _path(trainer: str | None, parser: argparse.ArgumentParser) -> int:
    from rewards.adapters import ADAPTERS, path

    files = [adapter.name for adapter in ADAPTERS if adapter.file]
    if trainer is None:
        width = max(len(name) for name in files)
        sys.stdout.writelines(f"{name:{width}}  {path(name)}\n" for name in files)
        return 0
    for adapter in ADAPTERS:
        if adapter.name == trainer and not adapter.file:
            parser.error(f"{trainer} loads no file but a name: {adapter.line}")
    if trainer not in files:
        parser.error(
            f"no trainer is called {trainer!r}; those that load a file: {', '.join(files)}"
        )
    sys.stdout.write(path(trainer) + "\n")
    return 0


def _selftest() -> int:
    from rewards.selfcheck import SelfTestError, selftest

    try:
        found = selftest()
    except SelfTestError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
