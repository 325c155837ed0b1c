"""What an answer to an output or input question states: a call, a value, or both.

Covers `assert <call> == <literal>`, the mirror image, `is None/True/False`, the bare comparison, call
or literal, and the question's program in front of any of them. Text is parsed, never run, and the
literal is left as text for `rewards.values`. Also covers whether a call is the question's call and
whether statements are the question's program, by syntax tree.

Not covered: which arguments an input answer may use (`rewards.arguments`), comparing values
(`rewards.grading`).
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache

from rewards import lexing

__all__ = ["Claim", "Refused", "is_asked_call", "parameters_of", "read_claim"]


class Refused(Exception):
    """The answer is not of an accepted form; the message says why, in words."""


@dataclass(frozen=True)
class Claim:
    """What an answer states."""

    call: ast.Call | None
    """The call of the entry, None if the answer names none."""
    stated: str | None
    """Text of the other side of the comparison or, without a call, of the whole answer."""


def read_claim(text: str, code: str, entry: str, *, program: bool = True) -> Claim:
    """What `text` states about a call of `entry`.

    `program` accepts the program `code` in front of it. A text that is no such statement is returned
    as it is, without a call: it may be a bare literal or bare arguments. Raises `Refused`.
    """
    text = _dedented(text)
    parsed = lexing.tree(text)
    if parsed is None:
        return Claim(None, text)
    module, source = parsed
    if not module.body:
        raise Refused("the answer holds no statement")
    if len(module.body) > 1:
        if not program:
            raise Refused("more than one statement")
        if not _is_program(module.body[:-1], code):
            raise Refused("statements that are not the program's stand before the last one")
    last = module.body[-1]
    if isinstance(last, ast.Assert):
        return _comparison(last.test, source, entry)
    if isinstance(last, ast.Expr):
        if isinstance(last.value, ast.Compare):
            return _comparison(last.value, source, entry)
        if _calls(last.value, entry):
            return Claim(last.value, None)  # type: ignore[arg-type]  # `_calls` has looked
    if len(module.body) > 1:
        raise Refused("the program is not followed by an assertion")
    return Claim(None, source)


def _dedented(text: str) -> str:
    lines = text.strip("\n").split("\n")
    first = lines[0]
    margin = first[: len(first) - len(first.lstrip())]
    if margin and all(line.startswith(margin) or not line.strip() for line in lines):
        lines = [line[len(margin) :] for line in lines]
    return "\n".join(lines).strip()


def _comparison(test: ast.expr, source: str, entry: str) -> Claim:
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        raise Refused("the assertion is not one comparison")
    left, right = test.left, test.comparators[0]
    if _calls(left, entry) == _calls(right, entry):
        raise Refused(f"the assertion does not compare one call of {entry} with a value")
    call, other = (left, right) if _calls(left, entry) else (right, left)
    operator = test.ops[0]
    if isinstance(operator, ast.Is):
        if not (isinstance(other, ast.Constant) and other.value in (None, True, False)):
            raise Refused("`is` compares with None, True and False alone")
        if type(other.value) not in (type(None), bool):
            raise Refused("`is` compares with None, True and False alone")
    elif not isinstance(operator, ast.Eq):
        raise Refused("the assertion does not state equality")
    return Claim(call, _segment(source, other))  # type: ignore[arg-type]  # `_calls` has looked


def _calls(node: ast.expr, entry: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == entry


def _segment(source: str, node: ast.expr) -> str:
    if "\n" not in source and source.isascii():
        return source[node.col_offset : node.end_col_offset]
    return ast.get_source_segment(source, node) or ""


# ---------------------------------------------------------------------------------------------
# The question's call and program


def is_asked_call(call: ast.Call, code: str, entry: str, args: str) -> bool:
    """Whether `call` is `entry(args)`: the same arguments by syntax tree, by position or by name."""
    asked = _asked(entry, args)
    if asked is None:
        return False
    if _dumps(call) == asked[1]:
        return True
    names = parameters_of(code, entry)
    bound = names is not None and _bound(call, names)
    return bool(bound) and bound == _bound(asked[0], names or ())


@lru_cache(maxsize=1024)
def _asked(entry: str, args: str) -> tuple[ast.Call, tuple[str, ...]] | None:
    parsed = lexing.tree(f"{entry}({args}\n)")
    if parsed is None or len(parsed[0].body) != 1:
        return None
    (statement,) = parsed[0].body
    if not isinstance(statement, ast.Expr) or not _calls(statement.value, entry):
        return None
    call: ast.Call = statement.value  # type: ignore[assignment]  # `_calls` has looked
    return call, _dumps(call)


def _dumps(call: ast.Call) -> tuple[str, ...]:
    named = [(each.arg or "**", _dump(each.value)) for each in call.keywords]
    return (*map(_dump, call.args), *[f"{name}={text}" for name, text in sorted(named)])


def _dump(node: ast.AST) -> str:
    """Text that trees share exactly if they are the same one; `u'a'` is `'a'`, positions do not count.

    Unlike `ast.dump` it takes any int, also one of more digits than Python writes, and any depth.
    """
    parts: list[str] = []
    waiting: list[object] = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, ast.Constant):
            value = each.value
            parts.append(f"={hex(value) if type(value) is int else repr(value)}")
        elif isinstance(each, ast.AST):
            parts.append(type(each).__name__)
            # All fields of its type, always in one order: what follows tells where each ends.
            waiting += [getattr(each, name, None) for name in each._fields]
        elif isinstance(each, list):
            parts.append(f"[{len(each)}")
            waiting += each
        else:
            parts.append(repr(each))
    return "\n".join(parts)


def _bound(call: ast.Call, names: tuple[str, ...]) -> dict[str, str] | None:
    """Parameter -> argument, None where that depends on values (`*args`) or is no call at all."""
    bound: dict[str, str] = {}
    for number, argument in enumerate(call.args):
        if isinstance(argument, ast.Starred):
            return None
        bound[names[number] if number < len(names) else f"*{number}"] = _dump(argument)
    for each in call.keywords:
        if each.arg is None or each.arg in bound:
            return None
        bound[each.arg] = _dump(each.value)
    return bound


@lru_cache(maxsize=1024)
def parameters_of(code: str, entry: str) -> tuple[str, ...] | None:
    """Names of the positional parameters of the program's function `entry`; None without one.

    A positional-only parameter has a `/` before its name, which no keyword has.
    """
    function = function_of(code, entry)
    if function is None:
        return None
    arguments = function.args
    only = [f"/{each.arg}" for each in arguments.posonlyargs]
    return (*only, *[each.arg for each in arguments.args])


def function_of(code: str, name: str) -> ast.FunctionDef | None:
    """The last function of that name on the module level of `code`."""
    found = [
        each for each in program_of(code) if isinstance(each, ast.FunctionDef) and each.name == name
    ]
    return found[-1] if found else None


@lru_cache(maxsize=256)
def program_of(code: str) -> tuple[ast.stmt, ...]:
    """The statements of the program, none if it does not parse."""
    parsed = lexing.tree(code)
    return tuple(parsed[0].body) if parsed is not None else ()


@lru_cache(maxsize=256)
def _program_dumps(code: str) -> tuple[str, ...]:
    return tuple([_dump(each) for each in program_of(code)])


def _is_program(statements: list[ast.stmt], code: str) -> bool:
    """Whether the statements are the program's, with or without its last line, which prints."""
    wanted = _program_dumps(code)
    if len(statements) not in (len(wanted), len(wanted) - 1):
        return False
    if len(statements) == len(wanted) - 1 and not _prints(program_of(code)[-1]):
        return False
    return [_dump(each) for each in statements] == list(wanted[: len(statements)])


def _prints(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and _calls(statement.value, "print")
