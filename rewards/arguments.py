"""From an answer to an input question to the arguments that the program is run with.

Accepted are bare arguments, the bare call, the assertion, and the program followed by either; a stated
right side must equal the target. An argument is a literal, a constructor call over literals
(`dict(a=1)`, `set()`, `range(3)`), a bounded repetition (`'a' * 20`), or, where the program calls the
parameter, a lambda. No name of the program, no search, no computation stands in them.

Not covered: running the program and comparing its result (`rewards.grading`). What an argument still
can do, a lambda above all, it does in the sandbox alone.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rewards import lexing
from rewards.assertions import Refused, function_of, parameters_of, program_of, read_claim
from rewards.values import FACTORIES

__all__ = ["MAX_EXPANDED", "Arguments", "read_arguments"]

MAX_EXPANDED = 100_000
"""Characters or elements that a repetition may come to."""

CONSTRUCTORS: dict[str, str] = {
    **dict.fromkeys(
        (
            *("bool", "int", "float", "complex", "str", "bytes", "bytearray", "list", "tuple"),
            *("dict", "set", "frozenset", "range", "slice"),
        ),
        "",
    ),
    **dict.fromkeys(("Counter", "OrderedDict", "defaultdict", "deque"), "collections"),
    **dict.fromkeys(("date", "time", "datetime", "timedelta", "timezone"), "datetime"),
    "Decimal": "decimal",
    "Fraction": "fractions",
}
"""Name of a constructor -> its module, "" for a builtin."""

_IN_LAMBDA = frozenset(
    (
        *("abs", "all", "any", "bool", "chr", "dict", "divmod", "enumerate", "float", "frozenset"),
        *("int", "isinstance", "len", "list", "max", "min", "ord", "pow", "range", "repr"),
        *("reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
    )
)
_LAMBDA_NODES = (
    *(ast.Lambda, ast.arguments, ast.arg, ast.Name, ast.Load, ast.Constant, ast.Attribute),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Subscript, ast.Slice),
    *(ast.Call, ast.keyword, ast.List, ast.Tuple, ast.Set, ast.Dict, ast.Starred),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)
_HIDDEN = ("_", "gi_", "cr_", "ag_", "f_", "tb_", "co_", "func_", "format")


@dataclass(frozen=True)
class Arguments:
    """The arguments of one answer."""

    text: str
    """Argument list in one spelling, for example `6, k=[1]`."""
    runs_code: bool
    """Whether a lambda stands in it."""
    stated: str | None
    """Text of the right side that the answer states, None if it states none."""


def read_arguments(text: str, code: str, entry: str, *, program: bool = True) -> Arguments:
    """The arguments in an answer. Raises `Refused` with the reason."""
    claim = read_claim(text, code, entry, program=program)
    call, stated = claim.call, claim.stated
    if call is None:
        call, stated = _bare(claim.stated or "", entry), None
    check = _Check(code)
    names = parameters_of(code, entry) or ()
    try:
        for number, argument in enumerate(call.args):
            check.argument(argument, entry, names[number] if number < len(names) else "")
        for keyword in call.keywords:
            check.argument(keyword.value, entry, keyword.arg or "")
        parts = [ast.unparse(argument) for argument in call.args]
        for keyword in call.keywords:
            value = ast.unparse(keyword.value)
            parts.append(f"**{value}" if keyword.arg is None else f"{keyword.arg}={value}")
    except (RecursionError, ValueError):
        raise Refused("the arguments are nested too deeply") from None
    return Arguments(", ".join(parts), check.runs_code, stated)


def _bare(text: str, entry: str) -> ast.Call:
    """Arguments without a call around them."""
    parsed = lexing.tree(f"{entry}({text}\n)")
    if parsed is not None and len(parsed[0].body) == 1:
        (statement,) = parsed[0].body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
            if isinstance(call.func, ast.Name) and call.func.id == entry:
                return call
    raise Refused("the answer is neither an assertion nor a call nor arguments")


class _Check:
    """Whether expressions are of what an argument may be made of; raises `Refused`."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.runs_code = False

    def argument(self, node: ast.expr, entry: str, parameter: str) -> None:
        if isinstance(node, ast.Starred):
            node = node.value
        if isinstance(node, ast.Lambda):
            if not _is_called(self.code, entry, parameter.lstrip("/"), 3):
                raise Refused("a lambda stands where the program calls nothing")
            self.function(node)
        else:
            self.literal(node)

    def literal(self, node: ast.expr) -> int:
        """The size of what `node` comes to, in characters or elements, at least 1."""
        check: Callable[[Any], int] | None = getattr(self, "_" + type(node).__name__, None)
        if check is None:
            raise Refused(f"an expression of kind {type(node).__name__} is not a literal")
        size = check(node)
        if size > MAX_EXPANDED:
            raise Refused(f"a repetition to more than {MAX_EXPANDED} elements")
        return size

    def literals(self, nodes: list[ast.expr]) -> int:
        return 1 + sum([self.literal(node) for node in nodes])

    def _Constant(self, node: ast.Constant) -> int:
        return 1 + len(node.value) if isinstance(node.value, (str, bytes)) else 1

    def _List(self, node: ast.List) -> int:
        return self.literals(node.elts)

    def _Tuple(self, node: ast.Tuple) -> int:
        return self.literals(node.elts)

    def _Set(self, node: ast.Set) -> int:
        return self.literals(node.elts)

    def _Dict(self, node: ast.Dict) -> int:
        keys = [key for key in node.keys if key is not None]
        if len(keys) != len(node.values):
            raise Refused("a dict with ** is not a literal")
        return self.literals(keys) + self.literals(node.values)

    def _UnaryOp(self, node: ast.UnaryOp) -> int:
        operand = node.operand
        while isinstance(operand, ast.UnaryOp):
            operand = operand.operand
        number = isinstance(operand, ast.Constant) and type(operand.value) in (int, float, complex)
        if isinstance(node.op, ast.Not) or not (number or _is_complex(operand)):
            raise Refused("a sign stands before something that is not a number")
        return 1

    def _BinOp(self, node: ast.BinOp) -> int:
        if _is_complex(node):
            return 1
        if not isinstance(node.op, ast.Mult):
            raise Refused("arithmetic is not a literal")
        left, right = node.left, node.right
        if _is_count(left):
            left, right = right, left
        if not _is_count(right) or not _is_sequence(left):
            raise Refused("arithmetic is not a literal")
        assert isinstance(right, ast.Constant)
        return self.literal(left) * max(1, int(right.value))  # type: ignore[arg-type]

    def _Call(self, node: ast.Call) -> int:
        name = self.constructor(node.func)
        arguments = list(node.args)
        if name == "defaultdict" and arguments and isinstance(arguments[0], ast.Name):
            factory = arguments.pop(0)
            assert isinstance(factory, ast.Name)
            if factory.id not in FACTORIES or factory.id in _bindings(self.code):
                raise Refused(f"the factory {factory.id} is not a type of Python's")
        for keyword in node.keywords:
            if keyword.arg is None:
                raise Refused("a call with ** is not a literal")
            arguments.append(keyword.value)
        return self.literals(arguments)

    def constructor(self, node: ast.expr) -> str:
        """The name of the constructor that is called, as far as the program leaves it what it is."""
        bound = _bindings(self.code)
        if isinstance(node, ast.Name) and node.id in CONSTRUCTORS:
            if bound.get(node.id, "") in ("", f"{CONSTRUCTORS[node.id]}.{node.id}"):
                return node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = node.value.id
            known = CONSTRUCTORS.get(node.attr)
            if known and bound.get(module) == known:
                return node.attr
            if known == "datetime" and bound.get(module) == "datetime.datetime":
                raise Refused("a method is not a constructor")
        raise Refused("a call that is not of a constructor, or of one that the program defines")

    def function(self, node: ast.Lambda) -> None:
        """A lambda computes from its own parameters, with operators, methods and plain builtins."""
        self.runs_code = True
        own: set[str] = set()
        for each in ast.walk(node):
            if not isinstance(each, _LAMBDA_NODES) or (
                isinstance(each, ast.Lambda) and each is not node
            ):
                raise Refused(f"a lambda with an expression of kind {type(each).__name__}")
            if isinstance(each, ast.arg):
                own.add(each.arg)
        bound = _bindings(self.code)
        for each in ast.walk(node):
            if isinstance(each, ast.Attribute) and each.attr.startswith(_HIDDEN):
                raise Refused(f"a lambda that reaches for {each.attr}")
            if not isinstance(each, ast.Name) or each.id in own:
                continue
            if each.id not in _IN_LAMBDA or each.id in bound:
                raise Refused(f"a lambda that uses the name {each.id}")


def _is_complex(node: ast.expr) -> bool:
    """`1+2j`, as a complex number is printed."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Add, ast.Sub)):
        return False
    left = node.left
    if isinstance(left, ast.UnaryOp) and isinstance(left.op, (ast.USub, ast.UAdd)):
        left = left.operand
    right = node.right
    return (
        isinstance(left, ast.Constant)
        and type(left.value) in (int, float)
        and isinstance(right, ast.Constant)
        and type(right.value) is complex
    )


def _is_count(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_sequence(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bytes))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Mult)
    return isinstance(node, (ast.List, ast.Tuple))


@lru_cache(maxsize=256)
def _bindings(code: str) -> dict[str, str]:
    """Name that the program binds anywhere in its module -> what it imports under it, else "?"."""
    bound: dict[str, str] = {}
    for statement in program_of(code):
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    bound[alias.asname or alias.name.partition(".")[0]] = alias.name
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    bound[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for statement in program_of(code):
        for node in _on_module_level(statement):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
                bound[node.name] = "?"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                bound[node.id] = "?"
            elif isinstance(node, ast.Global):
                bound.update(dict.fromkeys(node.names, "?"))
    return bound


def _on_module_level(statement: ast.stmt) -> list[ast.AST]:
    """Nodes that bind names of the module: all but what functions and classes bind for themselves."""
    found: list[ast.AST] = []
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop()
        found.append(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            found += [each for each in ast.walk(node) if isinstance(each, ast.Global)]
        else:
            waiting += ast.iter_child_nodes(node)
    return found


@lru_cache(maxsize=1024)
def _is_called(code: str, function: str, parameter: str, hops: int) -> bool:
    """Whether `function` calls its parameter, or hands it to what calls it."""
    found = function_of(code, function)
    if found is None or not parameter or hops == 0:
        return False
    for node in ast.walk(found):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == parameter:
            return True
        for number, argument in enumerate(node.args):
            if _is_name(argument, parameter) and isinstance(node.func, ast.Name):
                if node.func.id in ("map", "filter", "reduce", "sorted", "min", "max"):
                    return True
                names = parameters_of(code, node.func.id) or ()
                if number < len(names) and _is_called(
                    code, node.func.id, names[number].lstrip("/"), hops - 1
                ):
                    return True
        for keyword in node.keywords:
            if _is_name(keyword.value, parameter):
                if keyword.arg == "key":
                    return True
                if isinstance(node.func, ast.Name) and _is_called(
                    code, node.func.id, keyword.arg or "", hops - 1
                ):
                    return True
    return False


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
