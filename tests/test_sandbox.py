"""The sandbox as its callers see it: what a call gives, groups, recorders, and the host's side.

Run with all layers, and as in a container that refuses namespaces. Attacks are in
`test_sandbox_attacks.py`, load in `test_sandbox_load.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sandboxed import (
    ADD_ONE,
    AMPLE,
    LAYER_SETS,
    ROOT,
    SHARED,
    SHORT,
    call,
    descendants,
    gone,
    host,
    linux,
    script,
    servers,
    value,
    wait_until,
)

from rewards import values
from rewards.sandbox import (
    ExecutionResult,
    Job,
    Limits,
    SandboxError,
    SandboxPool,
    guarantees,
    kernel,
    run,
    run_async,
    run_group,
    server,
)
from rewards.sandbox.batch import group_tasks
from rewards.sandbox.pool import usable_cores


@pytest.fixture(scope="module", params=LAYER_SETS)
def pool(request: pytest.FixtureRequest) -> Iterator[SandboxPool]:
    with SandboxPool(2, layers=LAYER_SETS[request.param]) as made:
        yield made


# --------------------------------------------------------------------------- what a call gives


def test_value_type_and_text(pool: SandboxPool) -> None:
    result = call(pool, "def f(a, *, b):\n    print('hi')\n    return [a, b]", "(1, 2), b='x'")
    assert result.outcome == "returned"
    assert result.value == values.canonical([(1, 2), "x"])
    assert result.value_type == "list"
    assert (result.stdout, result.stderr) == ("hi\n", "")
    assert 0 < result.cpu_seconds < 2 and 0 < result.wall_seconds < 20


def test_arguments_are_built_in_the_namespace_of_the_program(pool: SandboxPool) -> None:
    code = "from collections import Counter\ndef f(c):\n    return c['a']"
    assert value(call(pool, code, "Counter('aab')")) == 2


@pytest.mark.parametrize(
    "args", ["1)(2", "1) or f(2", "1), f(2", "1", "*[1]", "1, # note", "x=(1)"]
)
def test_only_an_argument_list_is_an_argument_list(pool: SandboxPool, args: str) -> None:
    result = call(pool, "def f(x):\n    return x", args)
    if ")" in args and args != "x=(1)":
        assert (result.outcome, result.error_type) == ("raised", "SyntaxError")
        assert result.error_line is None
    else:
        assert value(result) == 1


def test_exception_with_type_message_and_line(pool: SandboxPool) -> None:
    code = """
    def g(d, k):
        return d[k]

    def f(k):
        import json
        try:
            return g({}, k)
        except KeyError:
            return json.loads('{')
    """
    result = call(pool, code, "(1, 'a')")
    assert (result.outcome, result.error_type, result.error_line) == (
        "raised",
        "JSONDecodeError",
        10,
    )
    result = call(pool, "def g():\n    {}[1, 'a']\n\ndef f():\n    g()")
    assert (result.error_type, result.error_message) == ("KeyError", "(1, 'a')")
    assert result.error_line == 2


@pytest.mark.parametrize(
    ("code", "name", "line"),
    [
        ("def f():\n  return 1\n\ndef g(:\n  pass", "SyntaxError", 4),
        ("def f():\n    pass\nx = 1 / 0", "ZeroDivisionError", 3),
        ("def f(:", "SyntaxError", 1),
        ("def f():\n    return f()", "RecursionError", 2),
        ("def g(): pass", "NameError", None),
        ("def f():\n    raise KeyboardInterrupt", "KeyboardInterrupt", 2),
    ],
)
def test_where_it_was_raised(pool: SandboxPool, code: str, name: str, line: int | None) -> None:
    result = call(pool, code)
    assert (result.outcome, result.error_type, result.error_line) == ("raised", name, line)


def test_a_value_without_canonical_text_is_told_by_type(pool: SandboxPool) -> None:
    result = call(pool, "class A: pass\ndef f():\n    return A()")
    assert (result.outcome, result.value, result.value_type) == ("returned", None, "A")
    assert result.unrepresentable


def test_standard_helpers_of_an_ordinary_interpreter(pool: SandboxPool) -> None:
    code = """
    import inspect, sys
    def f(x):
        return inspect.getsource(f).splitlines()[0], sys.argv, __name__, callable(exit)
    """
    assert value(call(pool, code, "1")) == ("def f(x):", ["<program>"], "__main__", True)


def test_asyncio_programs_run(pool: SandboxPool) -> None:
    code = """
    import asyncio
    async def g(x):
        await asyncio.sleep(0)
        return x * 2
    def f(x):
        return asyncio.run(g(x))
    """
    assert value(call(pool, code, "4")) == 8


def test_script_end_of_life(pool: SandboxPool) -> None:
    """A script's exit handlers run, as they do in an ordinary interpreter, also after sys.exit."""
    code = "import atexit, sys\natexit.register(print, 'bye')\nprint('hi')\n"
    assert script(pool, code).stdout == "hi\nbye\n"
    result = script(pool, code + "sys.exit('no')")
    assert (result.outcome, result.error_type) == ("raised", "SystemExit")
    assert (result.error_message, result.stdout) == ("no", "hi\nbye\n")


def test_output_of_every_kind(pool: SandboxPool) -> None:
    code = """
    import os, sys
    print('text', flush=True)
    sys.stdout.buffer.write(b'\\xff\\x00')
    sys.stdout.flush()
    os.write(1, b'raw')
    print('a\\ud800', file=sys.stderr)
    """
    result = script(pool, code)
    assert result.stdout == "text\n\\xff\x00raw"
    assert result.stderr == "a\\ud800\n"


def test_streams_that_the_program_broke(pool: SandboxPool) -> None:
    for breaking in ("sys.stdout.close()", "sys.stdout = None", "del sys.stdout, sys.stderr"):
        result = call(pool, f"import sys\nprint('x')\n{breaking}\ndef f():\n    return 1")
        assert value(result) == 1, breaking


CRUXEVAL = SHARED / "data" / "cruxeval_dev.jsonl"


@pytest.mark.skipif(not CRUXEVAL.exists(), reason="../shared/data/cruxeval_dev.jsonl is not there")
def test_cruxeval_outputs() -> None:
    rows = [json.loads(line) for line in CRUXEVAL.read_text(encoding="utf-8").splitlines()]
    jobs = [Job(row["code"], "f", row["input"], limits=AMPLE) for row in rows]
    assert len(jobs) == 400
    for row, result in zip(rows, run(jobs), strict=True):
        assert values.equal(value(result), values.parse(row["output"])), row["id"]


@settings(deadline=None, max_examples=25)
@given(st.recursive(st.none() | st.integers() | st.text() | st.floats(), st.lists, max_leaves=8))
def test_law_identity_survives_the_border(given_value: object) -> None:
    text = values.canonical(given_value)
    result = run([Job("def f(x):\n    return x", "f", text.replace("nan", "nan"))])[0]
    if "float(" not in text:
        assert result.value == text


# --------------------------------------------------------------------------- grouped calls

GROUP = """
import os, sys
print('module', __name__)
def f(x):
    print('call', x)
    if x == 1:
        return 1 / 0
    if x == 3:
        while True: pass
    if x == 5:
        os._exit(0)
    if x == 7:
        return bytearray(10**10)
    return -x
"""


def test_a_misbehaving_call_costs_the_others_nothing(pool: SandboxPool) -> None:
    jobs = [Job(GROUP, "f", str(n), limits=SHORT) for n in range(9)]
    results = pool.run_group(jobs)
    expected = ["returned", "raised", "returned", "timed_out", "returned", "killed", "returned"]
    assert [r.outcome for r in results] == [*expected, "memory_exceeded", "returned"]
    for number, result in enumerate(results):
        if result.outcome == "returned":
            assert value(result) == -number
        if result.outcome in ("returned", "raised"):
            assert result.stdout == f"module __main__\ncall {number}\n"
            assert result.cpu_seconds < 0.2


def test_grouped_and_single_calls_agree(pool: SandboxPool) -> None:
    code = """
    import decimal, sys
    def f(x):
        before = decimal.getcontext().prec, sys.getrecursionlimit()
        decimal.getcontext().prec = 5
        sys.setrecursionlimit(200 + x)
        print(x, file=sys.stderr)
        return before, str(decimal.Decimal(1) / x), input() if x == 2 else open(0).read()
    """
    jobs = [Job(textwrap.dedent(code), "f", str(n), stdin="in\n") for n in (3, 2, 7, 0)]
    grouped, single = pool.run_group(jobs), pool.run(jobs)
    for one, other in zip(grouped, single, strict=True):
        assert (one.outcome, one.value, one.stderr, one.error_type) == (
            (other.outcome, other.value, other.stderr, other.error_type)
        )


def test_forging_inside_a_group_is_attributed(pool: SandboxPool) -> None:
    code = """
    import os
    def f(x):
        if x == 1:
            os.write(50, b'x' * 100)
        return x
    """
    jobs = [Job(textwrap.dedent(code), "f", str(n)) for n in range(3)]
    results = pool.run_group(jobs)
    assert [r.outcome for r in results] == ["returned", "killed", "returned"]


def test_groups_larger_than_one_child_and_many_at_once(pool: SandboxPool) -> None:
    code = "def f(x):\n    return x"
    groups = [[Job(code, "f", str(n)) for n in range(size)] for size in (0, 1, 300)]
    results = pool.run_groups(groups)
    assert [[value(r) for r in group] for group in results] == [[], [0], list(range(300))]


SHARING = {
    # nothing in reach
    "def f(x):\n    return x + 1": True,
    "def f(x, acc=[]):\n    acc.append(x)\n    return len(acc)": True,
    "class A:\n    def __init__(self):\n        self.n = 0\ndef f(x):\n    a = A()\n    a.n = x": True,
    "def f(x):\n    f.calls = 1\n    return f.calls": True,
    "def f(x):\n    return open('a').read()": False,
    "def f(x):\n    exit()": False,
    "class A:\n    def __del__(self): print('late')\ndef f(x):\n    A()": False,
    "def f(x):\n    return x.__class__.__subclasses__()": False,
    "def f(x):\n    print.__self__.len = x": False,
    "def f(x):\n    eval(x)": False,
    "def f(:": True,  # it fails before it can do anything
    # modules in reach
    "import math\ndef f(x):\n    return math.sqrt(x)": True,
    "import collections.abc as c\ndef f(x):\n    return isinstance(x, c.Sized)": True,
    "from collections import deque\ndef f(x):\n    d = deque(x)\n    d.append(1)\n    return d": True,
    "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\ndef f(x):\n    return A(x)": True,
    "import heapq\nclass A:\n    def g(self):\n        self.h = []\n        heapq.heapify(self.h)": True,
    "import builtins as b\ndef f(x):\n    return b.sorted(x)": True,
    "import string\ndef f(x):\n    return string.digits.strip(x)": True,
    "import heapq\ndef f(x):\n    heapq.heappush = x": False,
    "import heapq\ndef f(x):\n    del heapq.heappush": False,
    "import builtins\ndef f(x):\n    builtins.len = x": False,
    "import math as m\nm.pi += 1\ndef f(x):\n    return m.pi": False,
    "from collections import Counter as C\nC.total = 1\ndef f(x): pass": False,
    "import json\ndef f(x):\n    json.encoder.ESCAPE_DCT[x] = 1": False,
    "import json\ndef f(x):\n    json.encoder.ESCAPE_DCT.clear()": False,
    "from json.encoder import ESCAPE_DCT\ndef f(x):\n    ESCAPE_DCT.update(x)": False,
    "import collections.abc\ndef f(x):\n    collections.abc.Sized.register(x)": False,
    "import math\ndef f(node):\n    node.next = node": False,  # `node` might be the module
    "import heapq\ndef f(x):\n    setattr(heapq, 'heappush', x)": False,
    "import heapq\ndef f(x):\n    getattr(heapq, x)": False,
    # modules with a state
    "import sys\ndef f(x):\n    return sys.maxsize": False,
    "import os.path\ndef f(x):\n    return os.path.join(x, x)": False,
    "from random import seed\ndef f(x):\n    seed(x)": False,
    "def f(x):\n    import threading": False,
    "def f(x):\n    return __import__('sys')": False,
    "import math\ndef f(:": False,
}


@pytest.mark.parametrize("code", SHARING)
def test_who_may_share_a_child(code: str) -> None:
    jobs = [Job(code, "f", str(n)) for n in range(3)]
    tasks = group_tasks(jobs, 10)
    assert [n for task in tasks for n in task.numbers] == [10, 11, 12]
    assert len(tasks) == (1 if SHARING[code] else 3)


def test_arguments_that_reach_out_travel_alone() -> None:
    args = ["1", "eval('1')", "2", "3", "lambda: setattr(1, 2, 3)", "'f_globals'"]
    tasks = group_tasks([Job(ADD_ONE.code, "f", each) for each in args], 0)
    assert [task.numbers for task in tasks] == [(0,), (1,), (2, 3), (4,), (5,)]


PATCHES = {
    "a function": "heapq.nsmallest = lambda n, xs: []",
    "a class": "collections.Counter.most_common = lambda self: []",
    "a constant": "math.pi = 3",
    "a table": "json.encoder.ESCAPE_DCT['a'] = 'b'",
    "a builtin": "builtins.sorted = list",
    "the default context": "decimal.getcontext().prec = 2",
    "a registry": "collections.abc.Sized.register(int)",
    "the recursion limit": "sys.setrecursionlimit(77)",
    "the seed": "random.seed(1)",
    "an import": "sys.modules['colorsys'] = math",
    "a file": "open('left', 'w').close()",
    "a stream": "sys.stdout.reconfigure(newline='\\r\\n')",
    "the folder": "os.mkdir('d'); os.chdir('d')",
    "an exit handler": "atexit.register(print, 'late')",
    "a trace function": "sys.settrace(lambda *a: None); threading.settrace(lambda *a: None)",
    "a thread": "threading.Thread(target=time.sleep, args=(0.01,)).start()",
    "an environment variable": "os.environ['X'] = '1'",
    "a signal handler": "signal.signal(signal.SIGUSR1, print)",
    "warnings": "warnings.simplefilter('error')",
}
SEEN = """
import atexit, builtins, collections, collections.abc, decimal, heapq, json, math, os, random
import signal, sys, threading, time, warnings
def f(x):
    seen = [
        heapq.nsmallest(1, [2, 1]), collections.Counter('aab').most_common(), math.pi, json.dumps('a'),
        sorted([2, 1]), str(decimal.Decimal(1) / 3), isinstance(1, collections.abc.Sized),
        sys.getrecursionlimit(), 'colorsys' in sys.modules, os.listdir('.'), sys.gettrace(),
        threading.gettrace() if hasattr(threading, 'gettrace') else None, 'X' in os.environ,
        str(signal.getsignal(signal.SIGUSR1)), len(warnings.filters), os.getcwd().count('/'),
        random.getstate()[1][:3] == f.__defaults__,
    ]
    print('seen')
    PATCH
    return seen
"""


@pytest.mark.parametrize("name", PATCHES)
def test_what_a_call_patches_is_not_seen_by_the_next(pool: SandboxPool, name: str) -> None:
    limits = Limits(processes=2)
    code = SEEN.replace("PATCH", PATCHES[name])
    results = pool.run_group([Job(code, "f", str(n), limits=limits) for n in range(3)])
    first, *others = [(result.value, result.stdout) for result in results]
    assert first[0] is not None
    assert others == [first] * 2


def test_a_group_shares_its_program() -> None:
    with pytest.raises(ValueError, match="share code"):
        run_group([ADD_ONE, Job("def f(x): pass", "f", "1")])


# --------------------------------------------------------------------------- before the fork


@linux
def test_a_program_that_breaks_the_compiler_is_the_programs_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fork server that dies of compiling early is replaced, and the child compiles."""
    path = Path(server.MODULES["rewards.sandbox.performer"])
    text = path.read_text(encoding="utf-8")
    line = "        warnings.filters.insert(0, _AS_ERROR)"
    assert text.count(line) == 1
    deadly = tmp_path / "performer.py"
    guard = '        if "deadly" in self.source:\n            os.abort()\n'
    deadly.write_text(text.replace(line, guard + line), encoding="utf-8")
    monkeypatch.setitem(server.MODULES, "rewards.sandbox.performer", str(deadly))
    job = Job("def f(x):\n    return [x, 'deadly']", "f", "1")
    with SandboxPool(1) as pool:
        batch = ([ADD_ONE] * 9 + [job]) * 3  # enough for several to be sent together
        alone = pool.run(batch)
        group = pool.run_group([job, job, job])
    assert [value(result) for result in alone] == ([42] * 9 + [[1, "deadly"]]) * 3
    assert [value(result) for result in group] == [[1, "deadly"]] * 3


def test_the_compilers_warnings_are_the_programs_output(pool: SandboxPool) -> None:
    """Whoever compiles, they appear on the program's stderr and nowhere else, every time."""
    in_code = Job("def f(x):\n    return x is 1", "f", "2")
    in_args = Job("def f(x=0):\n    return x", "f", "2 is 2")
    for result in pool.run([in_code, in_args] * 2):
        assert result.stderr.count("SyntaxWarning") == 1, result
    strict = Job("import warnings\nwarnings.simplefilter('error')\n" + in_code.code, "f", "2")
    assert [value(each) for each in pool.run([strict, in_code])] == [False, False]
    broken = pool.run([Job("def f(x):\n    return ]", "f", "2")])[0]
    assert (broken.error_type, broken.error_line, broken.stderr) == ("SyntaxError", 2, "")


def test_a_program_too_long_to_compile_early_runs_like_any(pool: SandboxPool) -> None:
    long = "x = [\n" + "    1,\n" * 9_000 + "]\ndef f(n):\n    return len(x) + n"
    result = pool.run([Job(long, "f", "1"), Job("def f(*a): return len(a)", "f", "1, " * 9_000)])
    assert [value(each) for each in result] == [9_001, 9_000]


def test_a_program_meets_the_same_modules_whatever_has_run_before() -> None:
    code = "import sys\ndef f():\n    return sorted(sys.modules)"
    naming = "import dataclasses, random, statistics, sys\n" + code
    jobs = [Job(text, "f") for text in (code, naming, naming, code, code)]
    with SandboxPool(1) as pool:
        first, named, again, second, third = [result.value for result in pool.run(jobs)]
    assert first == second == third and named == again
    assert first is not None and "dataclasses" not in first and "'re'" in first
    assert named is not None and "dataclasses" in named


# --------------------------------------------------------------------------- recorders

RECORDER = """
class Recorder:
    def __init__(self, source, options):
        self.source, self.options, self.calls = source, options, []
    def compile(self, filename):
        return compile(self.source, filename, 'exec')
    def namespace(self):
        return {'extra': 7}
    def call(self, function, args, kwargs):
        self.calls.append(self.hold(args, 100)[1])
        return function(*args, **kwargs)
    def report(self):
        return {'calls': self.calls, 'options': self.options, 'odd': '\\ud800'}
"""


def test_recorder(pool: SandboxPool, tmp_path: Path) -> None:
    path = tmp_path / "recorder.py"
    path.write_text(RECORDER, encoding="utf-8")
    code = "def f(x):\n    return extra // x"
    jobs = [Job(code, "f", str(n), recorder=str(path), options='{"a": [1]}') for n in (2, 0)]
    for good, bad in (pool.run(jobs), pool.run_group(jobs)):
        assert value(good) == 3
        assert (bad.error_type, bad.error_line) == ("ZeroDivisionError", 2)
        for result, args in ((good, "(2,)"), (bad, "(0,)")):
            report = json.loads(result.record or "")
            assert report == {"calls": [args], "options": {"a": [1]}, "odd": "\ud800"}
    # a changed file is read again; a broken one is no fault of the program
    path.write_text(RECORDER.replace("7", "70"), encoding="utf-8")
    assert value(pool.run(jobs[:1])[0]) == 35
    path.write_text("raise RuntimeError('broken recorder')", encoding="utf-8")
    result = pool.run(jobs[:1])[0]
    assert result.outcome == "infrastructure" and "broken recorder" in result.detail
    with pytest.raises(FileNotFoundError):
        pool.run([Job(code, "f", "1", recorder=str(tmp_path / "none.py"))])


# --------------------------------------------------------------------------- the host's side


def test_hash_seeds_are_kept_apart(pool: SandboxPool) -> None:
    code = "def f():\n    return hash('abc'), list({'a', 'b', 'c', 'd', 'e'})"
    jobs = [Job(code, "f", hash_seed=seed) for seed in (0, 1, 0, 1, 4294967295)]
    shown = [r.value for r in pool.run(jobs)]
    assert shown[0] == shown[2] and shown[1] == shown[3]
    assert len(set(shown)) == 3


def test_order_is_kept_and_workers_bound_it(pool: SandboxPool) -> None:
    jobs = [Job("def f(x):\n    return x", "f", str(n)) for n in range(30)]
    for workers in (1, 2, None):
        assert [value(r) for r in pool.run(jobs, workers=workers)] == list(range(30))
    assert pool.run([]) == []


def test_sixteen_threads() -> None:
    failures: list[object] = []

    def work(number: int) -> None:
        jobs = [Job("def f(x):\n    return x", "f", str(number * 100 + n)) for n in range(20)]
        for n, result in enumerate(run(jobs)):
            if result.value != str(number * 100 + n):
                failures.append(result)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


def test_asyncio_host() -> None:
    async def main() -> list[list[ExecutionResult]]:
        return list(await asyncio.gather(*(run_async([ADD_ONE] * 3) for _ in range(3))))

    for results in asyncio.run(main()):
        assert [r.value for r in results] == ["42"] * 3


def test_waiting_jobs_leave_the_event_loops_own_threads_alone() -> None:
    """The loop has a handful, for name look-ups and the like."""

    async def main() -> float:
        slow = Job("import time\ndef f():\n    time.sleep(0.3)", "f")
        jobs = [asyncio.create_task(pool.run_async([slow])) for _ in range(40)]
        await asyncio.sleep(0)
        begun = time.monotonic()
        await asyncio.to_thread(time.sleep, 0)
        waited = time.monotonic() - begun
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        return waited

    with SandboxPool(1) as pool:
        assert asyncio.run(main()) < 2


@linux
def test_a_cancelled_job_is_ended() -> None:
    async def main() -> None:
        job = Job("import time\ndef f():\n    time.sleep(60)", "f", limits=Limits(2, 90))
        running = asyncio.create_task(pool.run_async([job]))
        waiting = asyncio.create_task(pool.run_async([job]))
        await asyncio.sleep(0.5)
        for task in (running, waiting):
            task.cancel()
        found = await asyncio.gather(running, waiting, return_exceptions=True)
        assert [type(each) for each in found] == [asyncio.CancelledError] * 2

    with SandboxPool(1) as pool:
        begun = time.monotonic()
        asyncio.run(main())
        assert pool.run([ADD_ONE])[0].value == "42"
        assert time.monotonic() - begun < 20


def test_errors_reach_the_event_loop() -> None:
    with pytest.raises(ValueError, match="must be"):
        asyncio.run(run_async([Job("", limits=Limits(cpu_seconds=0))]))


def test_a_fork_while_other_threads_run_jobs() -> None:
    """Locks that another thread holds at that moment are not held in the child."""
    code = """
    import threading
    stop = threading.Event()
    def work():
        while not stop.is_set():
            assert run([job] * 3)[-1].value == '42'
    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for _ in range(10):
        time.sleep(0.02)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if [r.value for r in run([job] * 3)] == ['42'] * 3 else 1)
        assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    print('done', flush=True)
    """
    with host(code) as process:
        out, _ = process.communicate(timeout=100)
    assert (process.returncode, out) == (0, "done\n")


def test_at_interpreter_exit_with_jobs_under_way() -> None:
    """Daemon threads and an event loop that was left: the interpreter ends, and so does all else."""
    code = """
    import asyncio, threading
    from rewards.sandbox import run_async
    slow = Job('import time\\ndef f():\\n    time.sleep(1)', 'f')
    run([job])
    threading.Thread(target=run, args=([slow] * 50,), daemon=True).start()
    async def main():
        asyncio.ensure_future(run_async([slow] * 50))
        await asyncio.sleep(0.3)
    asyncio.run(main())
    print('ready', flush=True)
    """
    begun = time.monotonic()
    with host(code) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        left = descendants(process.pid)
        assert process.wait(60) == 0
    assert time.monotonic() - begun < 30
    assert wait_until(lambda: all(gone(pid) for pid in left))


def test_a_container_with_a_quota_has_fewer_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(16), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    file = tmp_path / "cpu.max"
    monkeypatch.setattr("rewards.sandbox.pool._QUOTA", str(file))
    assert usable_cores() == 16
    for text, cores in (("max 100000", 16), ("250000 100000", 2), ("50000 100000", 1), ("x", 16)):
        file.write_text(text + "\n")
        assert usable_cores() == cores


@linux
def test_a_killed_fork_server_is_replaced(pool: SandboxPool) -> None:
    pool.run([ADD_ONE] * 2)
    for pid in servers(pool):  # idle
        os.kill(pid, signal.SIGKILL)
    assert [r.value for r in pool.run([ADD_ONE] * 4)] == ["42"] * 4

    job = Job("import time\ndef f():\n    time.sleep(0.4)\n    return 1", "f", limits=AMPLE)
    results: list[ExecutionResult] = []
    thread = threading.Thread(target=lambda: results.extend(pool.run([job, job])))
    thread.start()
    time.sleep(0.2)
    victims = {p for z in servers(pool) for p in ({z} | descendants(z))}
    for pid in servers(pool):  # busy
        os.kill(pid, signal.SIGKILL)
    thread.join(30)
    assert [value(r) for r in results] == [1, 1]
    assert wait_until(lambda: all(gone(pid) for pid in victims))


@linux
def test_fork_servers_killed_all_the_time_lose_nothing() -> None:
    """Jobs that were sent together with one that is lost keep their turn."""
    jobs = [Job("def f(x):\n    return x", "f", str(number)) for number in range(400)]
    results: list[ExecutionResult] = []
    with SandboxPool(1) as pool:
        begun = time.monotonic()
        pool.run(jobs[:1])
        # A busy machine starts one so slowly that few would live to answer anything.
        pause = max(0.15, 3 * (time.monotonic() - begun))
        thread = threading.Thread(target=lambda: results.extend(pool.run(jobs)))
        thread.start()
        while thread.is_alive():
            time.sleep(pause)
            for each in list(pool._servers):
                if each.guarantees is not None:  # one that never starts is another matter
                    each.process.kill()
    lost = [result for result in results if result.outcome == "infrastructure"]
    assert len(lost) <= 4, lost  # hit twice in a row
    assert [r.value for r in results if r not in lost] == [
        job.args for job, r in zip(jobs, results, strict=True) if r not in lost
    ]


@linux
def test_a_job_lost_twice_is_an_infrastructure_failure(pool: SandboxPool) -> None:
    job = Job("import time\ndef f():\n    time.sleep(20)", "f", limits=Limits(2, 30))
    results: list[ExecutionResult] = []
    thread = threading.Thread(target=lambda: results.extend(pool.run([job])))
    thread.start()
    while thread.is_alive():
        time.sleep(0.3)
        for pid in servers(pool):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert [r.outcome for r in results] == ["infrastructure"]
    assert value(pool.run([ADD_ONE])[0]) == 42


@linux
def test_a_killed_host_leaves_nothing_behind() -> None:
    code = """
    run([job])
    print('ready', flush=True)
    run([Job('import time\\ndef f():\\n    time.sleep(60)', 'f', limits=Limits(2, 90))] * 2)
    """
    with host(code) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        left = descendants(process.pid)
        assert left
        process.kill()
    assert wait_until(lambda: all(gone(pid) for pid in left))


def test_at_interpreter_exit_and_after_fork() -> None:
    code = """
    import atexit
    @atexit.register
    def last():
        print(run([job])[0].value, flush=True)
    print(run([job])[0].value, flush=True)
    pid = os.fork()
    print('child' if not pid else 'parent', run([job])[0].value, flush=True)
    if not pid:
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    print('parent', run([job])[0].value, flush=True)
    """
    with host(code) as process:
        out, _ = process.communicate(timeout=60)
    lines = out.splitlines()
    assert process.returncode == 0
    assert sorted(lines) == ["42"] * 3 + ["child 42"] + ["parent 42"] * 2
    assert lines[-1] == "42"


def test_import_is_light() -> None:
    code = """
    import rewards.sandbox
    heavy = {'subprocess', 'threading', 'selectors', 'socket', 'json', 'rewards.sandbox.pool'}
    print(sorted(heavy & set(sys.modules)))
    """
    text = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + textwrap.dedent(code)
    command = [sys.executable, "-S", "-c", text]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "[]\n"


def test_closed_pool_refuses() -> None:
    pool = SandboxPool(1)
    pool.close()
    with pytest.raises(SandboxError, match="closed"):
        pool.run([ADD_ONE])


@pytest.mark.parametrize(
    "job",
    [
        Job("", limits=Limits(cpu_seconds=0)),
        Job("", limits=Limits(wall_seconds=float("inf"))),
        Job("", limits=Limits(memory_mb=-1)),
        Job("", limits=Limits(output_bytes=-1)),
        Job("", hash_seed=-1),
        Job("#" * (9 << 20)),
    ],
)
def test_jobs_that_make_no_sense(job: Job) -> None:
    with pytest.raises(ValueError, match="must be"):
        run([job])


# --------------------------------------------------------------------------- guarantees


def test_guarantees_say_what_is_there(pool: SandboxPool) -> None:
    found = pool.guarantees()
    assert set(found.active) <= set(pool.layers)
    assert set(found.active) | {layer for layer, _ in found.missing} == set(pool.layers)
    assert {"rlimits", "process_group"} <= set(found.active)
    assert guarantees().active


def test_strict_refuses_where_something_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = guarantees()
    with SandboxPool(1, strict=True) as pool:
        if found.complete:
            assert value(pool.run([ADD_ONE])[0]) == 42
        else:
            with pytest.raises(SandboxError, match="strict"):
                pool.run([ADD_ONE])
    with pytest.raises(ValueError, match="unknown layers"):
        SandboxPool(1, layers=["moat"])


@linux
def test_strict_refuses_when_the_kernel_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that forbids user namespaces, imitated in the fork server's own copy of the file."""
    text = Path(kernel.__file__).read_text(encoding="utf-8")
    refusing = tmp_path / "kernel.py"
    refusing.write_text(
        text.replace(
            "    def unshare(self, flags: int) -> None:\n",
            "    def unshare(self, flags: int) -> None:\n"
            "        raise PermissionError(1, 'unshare: refused')\n",
        ),
        encoding="utf-8",
    )
    monkeypatch.setitem(server.MODULES, "rewards.sandbox.kernel", str(refusing))
    with SandboxPool(1) as pool:
        with pytest.warns(RuntimeWarning, match="less isolation"):
            assert value(pool.run([ADD_ONE])[0]) == 42
        found = pool.guarantees()
        assert {"user", "pid", "mount", "network", "ipc", "uts"} == {
            name for name, _ in found.missing
        }
        assert {"seccomp", "landlock"} <= set(found.active)
    with SandboxPool(1, strict=True) as pool, pytest.raises(SandboxError, match="refused"):
        pool.run([ADD_ONE])
