"""Programs with inputs and outputs: CodeI/O's raw form, SemCoder's PyX -> `output` and `input` examples.

The outputs of CodeI/O are JSON, so a tuple stands there as a list; where a program's result has to be
compared (input tasks) that may fail a right answer, which is why rows whose program needs a package
beyond the standard library are dropped there, and why `data.tasks = ["output"]` is the safe choice.

Of PyX, rows that only ask for code in words have no input: they are examples for SFT alone.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from rewards.values import Unrepresentable, ValueTextError, canonical, parse
from synth.prompts import input_prompt, output_prompt
from trainers.layouts.base import (
    BrokenRow,
    Example,
    Layout,
    Options,
    content_id,
    need,
    spec_text,
)

__all__ = ["CODEIO", "PYX"]


def _pair(prefix: str, code: str, entry: str, args: str, output: str) -> Iterator[Example]:
    """The output and the input task of one call."""
    _parameters(code, entry)
    fields = {"code": code, "entry": entry, "args": args, "output": output}
    name = content_id(prefix, code, args)
    ask = output_prompt(code, entry, args)
    yield Example(f"{name}-o", ask, "output", spec_text(task="output", **fields))
    if not _foreign(code):
        ask = input_prompt(code, entry, output)
        yield Example(f"{name}-i", ask, "input", spec_text(task="input", **fields))


def _parameters(code: str, entry: str) -> set[str]:
    """Names by which the entry takes arguments; empty if it takes any. Raises `BrokenRow`."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BrokenRow("the program is not Python") from error
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == entry:
            taken = node.args
            if taken.kwarg is not None:
                return set()
            return {each.arg for each in (*taken.args, *taken.kwonlyargs)}
    raise BrokenRow("the program does not define the function that is called")


def _foreign(code: str) -> list[str]:
    """Names of the modules beyond the standard library that a program imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return sorted(names - sys.stdlib_module_names)


def _canonical(value: object, what: str) -> str:
    try:
        return canonical(value)
    except Unrepresentable as error:
        raise BrokenRow(f"{what} has no canonical text") from error


# --------------------------------------------------------------------------------------- CodeI/O


def _codeio(record: Mapping[str, Any], _: Options) -> Iterator[Example]:
    code, entry = need(record, "refcode"), need(record, "funcname")
    cases = need(record, "ios", (list, tuple))
    if not cases:
        raise BrokenRow("there are no inputs and outputs")
    names = _parameters(code, entry)
    for case in cases:
        if not isinstance(case, Mapping) or "input" not in case or "output" not in case:
            raise BrokenRow("an entry of 'ios' has no input or no output")
        given = case["input"]
        if not isinstance(given, Mapping) or not all(str(key).isidentifier() for key in given):
            raise BrokenRow("an input is no object of named arguments")
        # Arrow fills structs up with nulls for arguments that only other rows have.
        pairs = [(key, value) for key, value in given.items() if not names or key in names]
        args = ", ".join(f"{key}={_canonical(value, 'an input')}" for key, value in pairs)
        yield from _pair("codeio", code, entry, args, _canonical(case["output"], "an output"))


# ------------------------------------------------------------------------------------------- PyX

_PROGRAM = re.compile(r"\[PYTHON\](.*?)\[/PYTHON\]", re.S)
_ANSWER = re.compile(r"\[ANSWER\](.*?)\[/ANSWER\]", re.S)


def _pyx(record: Mapping[str, Any], options: Options) -> Iterator[Example]:
    response = need(record, "response")
    forward, backward = record.get("fwd_mnl") or "", record.get("bwd_mnl") or ""
    asked = next((text for text in (forward, backward, record.get("nl") or "") if text.strip()), "")
    if not asked:
        raise BrokenRow("columns 'nl', 'fwd_mnl' and 'bwd_mnl' are blank")
    if options.stage == "sft":
        name = content_id("pyx", asked, response)
        yield Example(name, (("user", asked),), "chat", completion=response)
        return
    if not forward.strip() and not backward.strip():
        raise BrokenRow("asks for code in words, so there is no input")
    program, answer = _PROGRAM.search(asked), _ANSWER.search(response)
    if program is None or answer is None:
        raise BrokenRow("has no [PYTHON] or no [ANSWER] block")
    entry, args, output = _assertion(answer.group(1).strip())
    code = _without_asserts(program.group(1))
    task = "output" if forward.strip() else "input"
    for example in _pair("pyx", code, entry, args, output):
        if example.task == task:
            yield example


def _without_asserts(text: str) -> str:
    """The program above the assertion that asks, which may hold `??`."""
    lines = text.strip("\n").splitlines()
    cut = next((n for n, line in enumerate(lines) if line.startswith("assert")), len(lines))
    return "\n".join(lines[:cut]).rstrip() + "\n"


def _assertion(text: str) -> tuple[str, str, str]:
    """Entry, arguments and output of `assert f(args) == value`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise BrokenRow("the answer is not Python") from error
    for statement in tree.body:
        test = statement.test if isinstance(statement, ast.Assert) else None
        if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
            continue
        call, value = test.left, ast.get_source_segment(text, test.comparators[0])
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and value:
            source = ast.get_source_segment(text, call) or ""
            args = source[len(call.func.id) :].strip()[1:-1].strip()
            try:
                return call.func.id, args, canonical(parse(value))
            except (ValueTextError, Unrepresentable) as error:
                raise BrokenRow("the output is no literal") from error
    raise BrokenRow("the answer holds no assertion of the form f(...) == value")


CODEIO = Layout(
    "codeio",
    (("refcode", "funcname", "ios"),),
    ("problem_description", "io_requirements", "source", "category", "meta"),
    _codeio,
)
PYX = Layout("pyx", (("response", "fwd_mnl", "bwd_mnl"),), ("id", "nl"), _pyx)
