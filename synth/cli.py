"""The `synth` command: finds its subcommands, turns expected errors into plain messages.

Covers the group, the exit codes (0 done, 1 failed, 2 the request cannot be met, 130 interrupted) and lazy
loading. Subcommands are found through the entry-point group `execverify.commands`, so that other packages
(`trainers`) add theirs without being imported here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from synth.errors import SynthError, UsageError, closest
from synth.version import VERSION

GROUP = "execverify.commands"

EPILOG = """\b
Examples:
  synth generate --depth 3                 200 rows into ./curriculum
  synth show curriculum                    what is in it
  synth constraints --types str --level 4  what programs are asked for
"""


class Commands(click.Group):
    """A click group whose members are loaded when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the installed subcommands, the order of a run first."""
        order = [
            *("generate", "difficulty", "chains", "show", "stats", "constraints", "trace", "ask"),
            *("grade", "audit", "train", "evaluate", "publish", "bench"),
        ]
        found = sorted(_entries())
        return [name for name in order if name in found] + [n for n in found if n not in order]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The subcommand, imported now."""
        target = _entries().get(name)
        if target is None:
            return None
        import importlib

        module, _, attribute = target.partition(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, with the nearest names for an unknown command."""
        name = args[0]
        if not name.startswith("-") and name not in _entries():
            ctx.fail(f"no command {name!r}{closest(name, _entries())}; see synth --help")
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(VERSION, prog_name="synth")
def cli() -> None:
    """Make and inspect datasets of executed Python programs for code execution reasoning."""


def main() -> None:
    """Entry point of the `synth` script."""
    try:
        code = cli(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except UsageError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except SynthError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except BrokenPipeError:
        # The reader (head, less) has gone; python would complain again while closing stdout.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # A temporary folder that is full, a file that may not be read: not a fault of the program.
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
    except RuntimeError as error:
        from rewards.sandbox import SandboxError

        if not isinstance(error, SandboxError):
            raise
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _entries() -> dict[str, str]:
    """Subcommand name -> `module:attribute`, from the metadata of installed distributions.

    Reads the small text files itself: importing `importlib.metadata` would double the time that
    `synth --help` takes.
    """
    global _found
    if _found is None:
        _found = {}
        for line in _entry_lines():
            name, _, target = line.partition("=")
            _found.setdefault(name.strip(), target.strip())
    return _found


_found: dict[str, str] | None = None


def _entry_lines() -> Iterator[str]:
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(names):
            if not name.endswith((".dist-info", ".egg-info")):
                continue
            path = Path(folder or ".") / name / "entry_points.txt"
            try:
                text = path.read_text(encoding="utf-8")
            except OSError:
                continue
            yield from _section(text)


def _section(text: str) -> Iterator[str]:
    """The lines of our group in an entry_points.txt."""
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith("#"):
            yield line
