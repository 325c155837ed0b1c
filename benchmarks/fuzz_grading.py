"""Coverage-guided fuzzing of the graders, by hand: needs `pip install atheris`.

    python benchmarks/fuzz_grading.py -max_total_time=3600

Every input is graded against an output row, a whitebox row and, with a sandbox that is not there, an
input row. It must never raise, never take more than 50 ms of CPU a kilobyte, and never be paid for an
output unless Python's own reading of the last answer block gives the expected value (`opinion`, in
tests/test_grading.py). What fails is written to a file by libFuzzer and can be given as an argument.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import atheris

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

with atheris.instrument_imports(include=["rewards"]):
    from rewards.grading import grade

from test_grading import MIXED, OUTPUT, Counting, inverse, opinion  # noqa: E402

from rewards.sandbox.jobs import ExecutionResult  # noqa: E402

FRAMES = ("{}", "<answer>\n{}\n</answer>", "<answer>\nassert f(2) == {}\n</answer>")
SECONDS_PER_KILOBYTE = 0.05


def one(data: bytes) -> None:
    """Grade what libFuzzer made up; the first byte says how much of an answer stands around it."""
    given = atheris.FuzzedDataProvider(data)
    frame = FRAMES[given.ConsumeIntInRange(0, len(FRAMES) - 1)]
    text = frame.format(given.ConsumeUnicode(atheris.ALL_REMAINING))
    start = time.thread_time()
    graded = grade(OUTPUT, text)
    mixed = grade(MIXED, text)
    took = time.thread_time() - start
    # Coverage counters slow the graders down several times.
    limit = 10 * SECONDS_PER_KILOBYTE * max(1.0, len(text) / 1024)
    assert took < limit, f"{took:.3f} s for {len(text)} characters"
    assert graded.io is not None and mixed.io is not None
    if graded.io.score:
        assert opinion(text, OUTPUT), "paid, and Python reads another value"
    grade(inverse("10"), text, pool=Counting(ExecutionResult("returned", value="11")))


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
