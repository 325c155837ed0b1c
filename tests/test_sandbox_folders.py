"""What a program leaves in its folder does not reach the next job."""

from __future__ import annotations

from rewards.sandbox import Job, SandboxPool


def test_folders_that_may_not_be_written_to_do_not_harm_the_next_job() -> None:
    """Moving such a folder out of the way was refused, and the job after it was lost."""
    hostile = "import os\nos.makedirs('a/b')\nos.chmod('a/b', 0)\nos.chmod('a', 0)\ndef f(x):\n    return 7\n"
    honest = "def f(x):\n    return x\n"
    jobs = [Job(hostile, "f", "1"), Job(hostile, "f", "1"), Job(honest, "f", "2")] * 4
    with SandboxPool(size=1) as pool:
        assert [result.value for result in pool.run(jobs)] == ["7", "7", "2"] * 4
