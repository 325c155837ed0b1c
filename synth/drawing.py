"""Draws argument lists that keep the type structure of a seed input. Runs in a child of its own.

Covers the child of `synth.inputs.Drawer`: argument lists as nodes (`synth/structures/`), the
three kinds of draws, and the loop that serves requests. Does not cover processes, retries or the
choice among executed cases: `synth/inputs.py`. Nothing in `synth` imports this file. The host
hands its *text* to the child, so that what is drawn cannot depend on the folder it lies in.

Arguments that are no values of `rewards.values` (a lambda, `'a' * 20`) are held as they are
written. Hypothesis would mix its own pools of awkward constants, and literals of local source
files, into what it draws. No local file is loaded here, strings come from restricted alphabets, and
`drop_constant_pools` empties the pools where this version of Hypothesis has them.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, BinaryIO

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as hypothesis_seed
from hypothesis import strategies as st

from rewards import values as notation
from synth.structures.inference import infer
from synth.structures.nodes import Dice, Held, Node, Value, in_order, write

KINDS = ("near", "boundary", "free")
BATCH = 8  # cases drawn by one test case of Hypothesis: its own cost is as high as that of a draw
MIN_TEXT = 200  # characters: a drawn argument list may be this long, or twice the seed's length


class RequestError(Exception):
    """The request cannot be met; the message goes to the host as it is."""


# --------------------------------------------------------------------------------------------------
# Argument lists


@dataclasses.dataclass(frozen=True)
class Argument:
    """One argument of the seed: its name if given by keyword, its text, its node if it varies."""

    name: str | None
    text: str
    value: Value
    node: Node | None

    def written(self, value: Value, spelling: dict[str, str]) -> str:
        text = self.text if self.node is None else _respelled(write(value), spelling)
        return text if self.name is None else f"{self.name}={text}"

    @cached_property
    def edges(self) -> list[Value]:
        found: dict[str, Value] = {}
        if self.node is not None:
            for edge in self.node.edges(self.value):
                if self.node.fits(edge):
                    found.setdefault(write(edge), edge)
        return list(found.values())


LIBRARY = (
    "Counter",
    "OrderedDict",
    "deque",
    "Decimal",
    "Fraction",
    "date",
    "datetime",
    "timedelta",
)


def _respelled(text: str, spelling: dict[str, str]) -> str:
    """Canonical text with constructors named as the seed names them (`date`, `datetime.date`)."""
    if not spelling:
        return text
    tree = ast.parse(text, mode="eval")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in spelling:
                node.func = ast.parse(spelling[name], mode="eval").body
    return ast.unparse(tree)


def _spelling(tree: ast.AST) -> dict[str, str]:
    """How the seed names the constructors of the library, by their short names."""
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {dotted.rpartition(".")[2]: dotted for dotted in calls}
    return {name: dotted for name, dotted in sorted(names.items()) if name in LIBRARY}


def _characters(value: Value) -> str:
    """The characters of all strings inside a value, in order of appearance."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return "".join(_characters(part) for pair in value.items() for part in pair)
    if isinstance(value, (list, tuple, collections.deque)):
        return "".join(map(_characters, value))
    if isinstance(value, (set, frozenset)):
        return "".join(map(_characters, in_order(value)))
    return ""


class ArgumentList:
    """The seed's arguments with their nodes."""

    def __init__(self, text: str) -> None:
        try:
            call = ast.parse(f"f({text}\n)", mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise RequestError(f"not an argument list: {text[:200]!r} ({error})") from error
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "f":
            raise RequestError(f"not an argument list: {text[:200]!r}")
        starred = any(isinstance(node, ast.Starred) for node in call.args)
        if starred or any(keyword.arg is None for keyword in call.keywords):
            raise RequestError(f"arguments are unpacked with * or **: {text[:200]!r}")
        pairs: list[tuple[str | None, ast.expr]] = [(None, node) for node in call.args]
        pairs += [(keyword.arg, keyword.value) for keyword in call.keywords]
        read = [(name, ast.unparse(node), *_read(node)) for name, node in pairs]
        everything = "".join(_characters(value) for _, _, known, value in read if known)
        pool = "".join(dict.fromkeys(everything))
        self.spelling = _spelling(call)
        self.arguments = [
            Argument(name, text, value, infer(value, pool) if known else None)
            for name, text, known, value in read
        ]
        self.seeds = [argument.value for argument in self.arguments]
        self.movable = [
            i
            for i, argument in enumerate(self.arguments)
            if argument.node is not None and not isinstance(argument.node, Held)
        ]

    def write(self, values: Sequence[Value]) -> str:
        pairs = zip(self.arguments, values, strict=True)
        return ", ".join(argument.written(value, self.spelling) for argument, value in pairs)

    def fits(self, values: Sequence[Value]) -> bool:
        pairs = zip(self.arguments, values, strict=True)
        return all(arg.node is None or arg.node.fits(value) for arg, value in pairs)


def _read(node: ast.expr) -> tuple[bool, Value]:
    """(True, value) of an argument, or (False, None) if it is no value, for example a lambda."""
    try:
        value = notation.parse(ast.unparse(node))
        notation.canonical(value)
    except (notation.ValueTextError, notation.Unrepresentable):
        return False, None
    return True, value


# --------------------------------------------------------------------------------------------------
# Drawing


@st.composite
def drawn_cases(draw: Callable[..., Any], seed: ArgumentList) -> tuple[str, list[Value]]:
    """(kind, values) of one input case."""
    dice = Dice(draw)
    kind = dice.one(KINDS)
    values = list(seed.seeds)
    if kind == "free":
        for i in seed.movable:
            node = seed.arguments[i].node
            values[i] = values[i] if node is None else draw(node.strategy)
        return kind, values
    for _ in range(1 + (dice.below(3) == 2)):
        i = dice.one(seed.movable)
        argument = seed.arguments[i]
        if kind == "near" and argument.node is not None:
            values[i] = argument.node.near(dice, values[i])
        elif argument.edges:
            values[i] = dice.one(argument.edges)
    return kind, values


class _Enough(BaseException):
    """Ends the search early; not an Exception, which Hypothesis would take for a failing test."""


def longest_text(args: str) -> int:
    """Characters that an argument list may have, given the seed's."""
    return max(MIN_TEXT, 2 * len(args))


class Collector:
    """Distinct texts by kind. The canonical text tells types apart: 1, True and 1.0 all differ."""

    def __init__(self, seed: ArgumentList, args: str, count: int) -> None:
        self.seed = seed
        self.count = count
        self.longest = longest_text(args)
        self.known = {seed.write(seed.seeds)}
        self.found: dict[str, list[str]] = {kind: [] for kind in KINDS}
        # No kind takes more than half, so that a rich one does not crowd out the others.
        self.share = max(1, math.ceil(count / 2))
        self.patience = self.allowed = count + 24

    def add(self, kind: str, values: list[Value]) -> None:
        self.patience -= 1
        if self.patience < 0:
            raise _Enough
        if not self.seed.fits(values):
            return
        try:
            text = self.seed.write(values)
        except notation.Unrepresentable:
            return
        texts = self.found[kind]
        if len(text) > self.longest or text in self.known or len(texts) >= self.share:
            return
        self.known.add(text)
        texts.append(text)
        self.patience = self.allowed
        if len(self.known) > self.count:
            raise _Enough

    def cases(self) -> list[tuple[str, str]]:
        """The kinds in turn, so that any prefix is mixed."""
        rows = itertools.zip_longest(*(self.found[kind] for kind in KINDS))
        mixed = [
            (text, kind) for row in rows for text, kind in zip(row, KINDS, strict=True) if text
        ]
        return mixed[: self.count]


def draw_cases(args: str, seed: str, count: int) -> list[tuple[str, str]]:
    """At most `count` (text, kind) pairs, the seed input first and as it was given.

    Fewer come back if the types offer fewer: the search ends after `count + 24` draws in a row
    that bring nothing new, or after `8 * count + 64` draws in all.
    """
    seed_list = ArgumentList(args)
    first = [(args.strip(), "seed")]
    if count <= 1 or not seed_list.movable:
        return first
    collector = Collector(seed_list, args, count - 1)
    number = int.from_bytes(hashlib.sha256(f"{seed}\0{args}".encode()).digest(), "big")

    # The health checks guard tests against slow or wasteful strategies; here nothing is tested.
    @hypothesis_seed(number)
    @settings(
        database=None,
        deadline=None,
        derandomize=False,
        max_examples=count + 8,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.tuples(*[drawn_cases(seed_list)] * BATCH))
    def collect(batch: tuple[tuple[str, list[Value]], ...]) -> None:
        for kind, drawn in batch:
            collector.add(kind, drawn)

    with contextlib.suppress(_Enough):
        collect()
    return first + collector.cases()


def fitted(args: str, lists: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """For each argument list that others have written (text, reason why not): what is drawn is held to
    the same types and length. `lists`: texts of values, one for each argument of `args`, in its order.
    """
    seed = ArgumentList(args)
    longest = longest_text(args)
    found: list[tuple[str, str]] = []
    for texts in lists:
        try:
            values = [notation.parse(text) for text in texts]
        except notation.ValueTextError as error:
            raise RequestError(f"not a value: {error}") from error
        if len(values) != len(seed.arguments):
            raise RequestError(f"{len(values)} values for {len(seed.arguments)} arguments")
        if not seed.fits(values):
            found.append(("", "other_types"))
            continue
        text = seed.write(values)
        found.append(("", "long_arguments") if len(text) > longest else (text, ""))
    return found


# --------------------------------------------------------------------------------------------------
# Serving


def drop_constant_pools() -> None:
    """Empty Hypothesis's pools of constants, its own and those of local source files.

    These are private names, so every one is looked for: a version without them has no pools, or has
    moved them, and then the restricted alphabets and the absence of local modules still hold.
    """
    providers = sys.modules.get("hypothesis.internal.conjecture.providers")
    if providers is None or not hasattr(providers, "_get_local_constants"):
        return
    pool = getattr(providers, "_local_constants", None)
    if pool is not None:
        empty = type(pool)()
        providers.GLOBAL_CONSTANTS = empty  # type: ignore[attr-defined]
        providers._get_local_constants = lambda: empty  # type: ignore[attr-defined]


def _watch_host(host: int) -> None:
    """Leave when the host is gone, even if another process still holds the other end of stdin."""
    while os.getppid() == host:
        time.sleep(2.0)
    os._exit(0)


def _answer(line: bytes) -> dict[str, Any]:
    try:
        request = json.loads(line)
        if "lists" in request:
            return {"fitted": fitted(request["args"], request["lists"])}
        return {"cases": draw_cases(request["args"], request["seed"], request["count"])}
    except RequestError as error:
        return {"error": str(error)}
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{where.name}, line {where.lineno} of {where.filename}"
        return {"error": f"{type(error).__name__}: {error} (in {place})"}


def serve(requests: BinaryIO, host: int) -> None:
    """Answer JSON lines until the other end closes. stdout is the channel, so it is moved away."""
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    drop_constant_pools()
    threading.Thread(target=_watch_host, args=(host,), daemon=True).start()
    reply: dict[str, Any] = {"ready": True}
    while True:
        channel.write(json.dumps(reply).encode() + b"\n")
        channel.flush()
        line = requests.readline()
        if not line:
            return
        reply = _answer(line)
