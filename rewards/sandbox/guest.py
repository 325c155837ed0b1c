"""The first file that a fork server runs: loads the others so that programs never meet them.

Run by path with a bare interpreter; uses the standard library alone. Started as

    guest.py CONTROL_FD CONFIG_JSON

where CONFIG_JSON holds `modules`, triples of name, path and text (null: read it from the path) in the
order in which they need each other (`rewards.values` among them, `rewards.sandbox.zygote` last), and
what `zygote.main` wants to know.
"""

from __future__ import annotations

import builtins
import contextlib
import gc
import json
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType
from typing import Any

# What programs import most. Loading it here once spares the children that; but what brings an extension
# module of its own makes every fork dearer, whoever uses it.
PRELOADED = (
    "abc",
    "bisect",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "datetime",
    "decimal",
    "enum",
    "fractions",
    "functools",
    "heapq",
    "io",
    "itertools",
    "json",
    "linecache",
    "math",
    "numbers",
    "operator",
    "os",
    "re",
    "string",
    "textwrap",
    "time",
    "types",
    "typing",
    "unicodedata",
)
_OURS = ("ctypes", "errno", "select", "resource", "signal", "stat", "struct", "warnings")
"""What our files import beyond those."""

_GAP_BYTES = 10_000
_BYTES_HEAD = 41
"""What a bytes object needs beyond its contents, and a little less than the step between two sizes."""

# What functions look up in `builtins` the program is free to change: ours have a copy of it.
_builtins = dict(vars(builtins))


def load_source(name: str, path: str, source: str) -> ModuleType:
    """Run a self-contained host file as a module that a program cannot import or patch."""
    module = _run(name, path, _compiled(name, path, source))
    del sys.modules[name]
    return module


def load_files(files: list[list[str | None]]) -> dict[str, ModuleType]:
    """Run host files that import each other, each after those it needs; then hide them all."""
    loaded = {}
    for name, path, source in files:
        assert name is not None and path is not None
        loaded[name] = _run(name, path, _compiled(name, path, source))
    for name in loaded:
        del sys.modules[name]
    return loaded


def fill_gaps() -> list[object]:
    """Objects where start-up has left gaps in the interpreter's memory.

    While they live, what is made lies together instead of here and there. A guest copies every page that
    holds something that it looks at, so the fewer they are, the better.
    """
    gc.collect()
    gaps: list[object] = [object() for _ in range(_GAP_BYTES // 16)]
    gaps += map(float, range(_GAP_BYTES // 32))
    for size in range(48, 513, 16):  # the sizes that Python's own allocator tells apart
        gaps += [bytes(size - _BYTES_HEAD) for _ in range(_GAP_BYTES // size)]
    # Beyond them is the C library's.
    gaps += [bytes(size - _BYTES_HEAD) for size in range(528, 4097, 16)]
    return gaps


def _compiled(name: str, path: str, source: str | None) -> CodeType:
    if source is not None:
        code: CodeType | None = compile(source, path, "exec", dont_inherit=True)
    else:
        # The loader keeps compiled files, as an import would: half the time of a start.
        code = SourceFileLoader(name, path).get_code(name)
    assert code is not None
    return code


def _run(name: str, path: str, code: CodeType) -> ModuleType:
    module = sys.modules[name] = ModuleType(name)
    module.__dict__.update(__file__=path, __builtins__=_builtins)
    try:
        exec(code, module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def main(control: int, config: dict[str, Any]) -> None:
    gc.disable()  # it has nothing to find while modules are loaded, and is looking all the time
    # Running a file by path puts its folder first on the path (-P exists from 3.11 only).
    sys.path[:] = [p for p in sys.path[1:] if p and not p.endswith("site-packages")]
    for name in (*PRELOADED, *config["preload"], *_OURS):
        with contextlib.suppress(ImportError):  # those that are needed are asked for again
            __import__(name)
    gaps = fill_gaps()
    modules = load_files(config["modules"])
    sys.dont_write_bytecode = True
    serve = modules["rewards.sandbox.zygote"].main
    serve(control, config, modules["rewards.values"], load_source, gaps)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
