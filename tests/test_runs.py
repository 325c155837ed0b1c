"""One run to look at: the JSON form, the text form, and what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synth.errors import DataError
from synth.runs import FLAGS, follow, run_json, run_text

CASES = Path(__file__).parents[2] / "shared" / "cases" / "trace_cases.jsonl"
PROGRAM = """\
def pick(xs, key):
    best = xs[0]
    for x in xs:
        if x % key == 0:
            del best
            best = x
    return best


print(pick([3, 4], 2))
"""


def changes(case: dict[str, Any]) -> list[dict[str, Any] | None]:
    """What each completed step of a hand-worked program changed; None after a step that raised."""
    last: dict[int, dict[str, Any] | None] = {}
    found: list[dict[str, Any] | None] = []
    for step in case["steps"]:
        before, now = last.get(step["frame"], {}), step["locals"]
        last[step["frame"]] = now
        known = before is not None and now is not None
        found.append({k: v for k, v in now.items() if before.get(k) != v} if known else None)
    return found


def test_hand_worked_programs() -> None:
    if not CASES.exists():
        pytest.skip("the shared cases are not in this checkout")
    for line in CASES.read_text(encoding="utf-8").splitlines():
        case = json.loads(line)
        text = f"{case['code']}\n\nprint({case['entry']}({case['args']}))\n"
        record = run_json(follow(text, case["id"]))
        assert json.loads(json.dumps(record)) == record
        assert record["output"] == case["result"]
        for step, expected, changed in zip(
            record["steps"], case["steps"], changes(case), strict=True
        ):
            place = (case["id"], step)
            names = ("line", "frame", "function", "visit", "next", "outcome")
            theirs = ("line", "frame", "func", "nth", "next_done", "outcome")
            values = [{"done": "completed"}.get(v, v) for v in map(expected.get, theirs)]
            assert [step[name] for name in names] == values, place
            if changed is None:
                continue
            assert step["changed"].keys() == changed.keys(), place
            for name, held in step["changed"].items():
                assert held["type"] == changed[name]["type"], place
                assert held["value"] in (None, changed[name]["value"]), place


def test_the_json_form() -> None:
    record = run_json(follow(PROGRAM, "p.py"))
    assert record.keys() == {"entry", "args", "output", "steps"}
    assert (record["entry"], record["args"], record["output"]) == ("pick", "[3, 4], 2", "4")
    assert record["steps"][1] == {
        "line": 3,
        "visit": 1,
        "frame": 1,
        "function": "pick",
        "outcome": "completed",
        "next": 4,
        "changed": {"x": {"value": "3", "type": "int"}},
        "removed": [],
    }
    assert [step["removed"] for step in record["steps"] if step["line"] == 5] == [["best"]]
    assert record["steps"][-1]["next"] == -1


def test_the_text_form() -> None:
    text = run_text(follow(PROGRAM, "p.py"), width=80)
    assert text.splitlines()[0] == "pick([3, 4], 2)"
    assert re.search(r"^ *5 +del best +del best$", text, re.MULTILINE)
    assert text.endswith("returned 4  (9 steps)")
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_call_that_raises_is_shown_to_its_end() -> None:
    run = follow("def f(x):\n    y = 1\n    return y / x\n\nprint(f(0))\n", "p.py")
    record = run_json(run)
    assert (record["output"], record["raises"]) == ("", "ZeroDivisionError")
    assert [step["outcome"] for step in record["steps"]] == ["completed", "raised"]
    assert "raised ZeroDivisionError: division by zero" in run_text(run)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def f(x):\n    return x\n", r"last line is print\(entry\(args\)\)"),
        ("def f(x:\n", "expected a program"),
        ("", "expected a program"),
        ("import nothing_there\n\ndef f(x):\n    return x\n\nprint(f(1))\n", "ModuleNotFoundError"),
        ("def f(x):\n    return x\n\nprint(g(1))\n", "does not define 'g'"),
        ("def f(x):\n    while x:\n        pass\n\nprint(f(1))\n", "step_limit|timed out"),
        ("def f(x):\n    return f(x)\n\nprint(f(1))\n", "recursion_error"),
        ("async def g():\n    return 1\n\ndef f(x):\n    c = g()\n    c.close()\n    import asyncio\n"
         "    return asyncio.run(g())\n\nprint(f(1))\n", "async"),
        ("def g():\n    yield 1\n    yield 2\n\ndef f(x):\n    i = g()\n    return next(i)\n\nprint(f(1))\n",
         "generator_collected"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        follow(text, "p.py")


def test_every_flag_has_words() -> None:
    from synth import decoding, linetracer, tracer

    texts = [Path(m.__file__).read_text(encoding="utf-8") for m in (tracer, linetracer, decoding)]
    raised = set(re.findall(r'flags\.add\("(\w+)"\)', "".join(texts)))
    assert raised - {"exception", "interrupted"} == set(FLAGS)


def test_the_command(command_line: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(PROGRAM, encoding="utf-8")
    assert json.loads(command_line("trace", str(path), "--json").stdout)["output"] == "4"
    assert "returned 4" in command_line("trace", str(path)).stdout
    refused = command_line("trace", str(path), "--max-steps", "3")
    assert refused.returncode == 2 and "step_limit" in refused.stderr
    missing = command_line("trace", str(tmp_path / "none.py"))
    assert missing.returncode == 2 and "none.py" in missing.stderr
