"""A model's answer to the wish for more inputs -> argument lists of the program's entry.

Covers the interface of a provider that can be asked, and the reading of its answer: calls are looked for in
the code blocks (or, without any, in the whole text) and their arguments are read as values. Nothing of the
answer is ever run, here or elsewhere: what reaches the sandbox is written anew from the values. Whether
the values have the types of the seed input is checked where inputs are drawn (`synth/drawing.py`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rewards import lexing, values
from synth.errors import ProgramRejected
from synth.prompts import Messages
from synth.source import FunctionNode, Source

__all__ = ["MAX_ANSWER_CHARS", "Suggested", "Suggesting", "read_suggestions"]

MAX_ANSWER_CHARS = 50_000
"""A longer answer is refused unread: some twenty calls need a tenth of it."""
MAX_LINE_CHARS = 2_000
"""A longer line holds no input that anybody would trace by hand."""

_BLOCK = re.compile(r"^[ \t]*(`{3,}|~{3,})[^`\n]*\n(.*?)(?:^[ \t]*\1|\Z)", re.DOTALL | re.MULTILINE)
_MARKER = re.compile(r"^\s*(?:(?:[-*•]|\d+[.)]|>>>)\s+)?`*")
_HEADER = re.compile(r"\s*(?:async\s+)?(?:def|class)\b")


@runtime_checkable
class Suggesting(Protocol):
    """A provider that can be asked for inputs of a program."""

    def suggest(self, key: str, messages: Messages) -> str:
        """The answer to `messages`; `key` tells apart requests that must not share an answer.

        Raises `ProgramRejected` where there is none, named as by `Provider.complete`, and
        `ProviderError` if the server gives nothing.
        """
        ...


@dataclass(frozen=True)
class Suggested:
    """What could be read of an answer."""

    lists: tuple[tuple[str, ...], ...]
    """Argument lists: a canonical text for each argument of the seed input, in its order. Distinct, and
    none is the seed input itself."""
    dropped: tuple[str, ...]
    """For every other call in the answer why it was left out, one of `not_python`, `long_arguments`,
    `wrong_arity`, `not_literal`, `duplicate`."""


def read_suggestions(answer: str, source: Source) -> Suggested:
    """The argument lists in an answer about `source`.

    Raises `ProgramRejected` for an answer that holds none at all: `long_answer`, `no_calls`.
    """
    if len(answer) > MAX_ANSWER_CHARS:
        raise ProgramRejected("long_answer", f"{len(answer)} characters")
    seed = _bound(source.call, source.functions[source.entry])
    assert seed is not None
    known = {_arguments(source.call, source, tuple(seed))}
    lists: list[tuple[str, ...]] = []
    dropped: list[str] = []
    for line in _lines(answer, source.entry):
        for found in _read_line(line, source, tuple(seed)):
            if isinstance(found, str):
                dropped.append(found)
            elif found in known:
                dropped.append("duplicate")
            else:
                known.add(found)
                lists.append(found)
    if not lists and not dropped:
        raise ProgramRejected("no_calls", "the answer holds no call of the function")
    return Suggested(tuple(lists), tuple(dropped))


def _lines(answer: str, entry: str) -> Iterator[str]:
    """The logical lines that may hold calls."""
    text = answer.replace("\r\n", "\n").replace("\r", "\n")
    blocks = [match.group(2) for match in _BLOCK.finditer(text)]
    called = re.compile(rf"(?<![\w.]){re.escape(entry)}\s*\(")
    for block in blocks or [text]:
        for line in lexing.logical_lines(block):
            # The program, should the answer repeat it, is not meant.
            if called.search(line) and not _HEADER.match(line):
                yield _MARKER.sub("", line).strip().rstrip("`").strip()


def _read_line(
    line: str, source: Source, parameters: Sequence[str]
) -> Iterator[tuple[str, ...] | str]:
    """For each call in a line its arguments, or why it is left out."""
    if len(line) > MAX_LINE_CHARS:
        yield "long_arguments"
        return
    parsed = lexing.tree(line)
    if parsed is None:
        yield "not_python"
        return
    for call in _calls(parsed[0], source.entry):
        yield _arguments(call, source, parameters)


def _calls(tree: ast.AST, entry: str) -> Iterator[ast.Call]:
    """The outermost calls of the entry, in the order of the text."""
    for node in ast.iter_child_nodes(tree):
        named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if isinstance(node, ast.Call) and named and ast.unparse(node.func) == entry:
            yield node
        else:
            yield from _calls(node, entry)


def _arguments(call: ast.Call, source: Source, parameters: Sequence[str]) -> tuple[str, ...] | str:
    bound = _bound(call, source.functions[source.entry])
    if bound is None or set(bound) != set(parameters):
        return "wrong_arity"
    try:
        return tuple(
            values.canonical(values.parse(ast.unparse(bound[name]))) for name in parameters
        )
    except values.Unrepresentable:
        return "long_arguments"
    except (ValueError, RecursionError):
        # Also an integer that Python does not write out in decimal.
        return "not_literal"


def _bound(call: ast.Call, function: FunctionNode) -> dict[str, ast.expr] | None:
    """Parameter -> argument; None if the call does not go with the function."""
    arguments = function.args
    names = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if len(call.args) > len(names) or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    bound = dict(zip(names, call.args, strict=False))
    only = {each.arg for each in arguments.posonlyargs}
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in bound or keyword.arg in only:
            return None
        bound[keyword.arg] = keyword.value
    return bound
