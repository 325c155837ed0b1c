"""The command line in processes that can be killed, without paying for its imports each time.

Covers one process that has loaded what `synth generate` loads and forks for every command. Nothing but
modules and the catalogue is shared: a life begins where `python -m synth` is once its modules are there,
and what kills it is a real signal. How the command line itself starts is the matter of `test_cli.py`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_WARM = """
import json, os, sys
import huggingface_hub.repocard, openai.resources, openai.resources.chat, pandas, pyarrow.parquet
import synth.engine, synth.commands.difficulty, synth.commands.generate, synth.difficulty.filtering
from synth import cli
from synth.catalogue import catalogue
catalogue()  # as long as all imports together; it depends on nothing but the interpreter
for line in sys.stdin:
    words, log = json.loads(line)
    pid = os.fork()
    if not pid:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for fd in (1, 2):
            os.dup2(file, fd)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["synth", *words]
        cli.main()  # ends with SystemExit, as it does for a user
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@dataclass
class Life:
    """One command under way. Only one at a time."""

    pid: int
    log: Path
    warm: subprocess.Popen[str]

    @property
    def over(self) -> bool:
        """Whether the process has ended, by itself or not."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def kill(self) -> None:
        """No goodbye."""
        os.kill(self.pid, signal.SIGKILL)

    def end(self, seconds: float = 100.0) -> tuple[int, str]:
        """Exit status (negative: the signal) and what was printed; kills what takes longer."""
        assert self.warm.stdout is not None
        timer = threading.Timer(seconds, self.kill)
        timer.start()
        status = int(self.warm.stdout.readline())
        timer.cancel()
        return status, self.log.read_text()


class Lives:
    """Starts commands; see `warm`."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def start(self, words: Sequence[str]) -> Life:
        """Run `synth WORDS`; the command before must have ended."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([list(words), str(self._log)]) + "\n")
        self._process.stdin.flush()
        return Life(int(self._process.stdout.readline()), self._log, self._process)


@contextmanager
def warm(environment: dict[str, str], log: Path) -> Iterator[Lives]:
    """A process that starts commands. `log`: where the one under way prints."""
    with subprocess.Popen(
        [sys.executable, "-c", _WARM],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Lives(process, log)
        finally:
            process.kill()
