"""Names in the stubs that `typeshed_client` bundles: what stands where, and which classes have which bases.

Covers following imports and aliases, for the running Python version and platform. Reads no types
(`annotations.py`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from synth.stubs.vocabulary import VOCABULARY, VOCABULARY_MODULES

if TYPE_CHECKING:
    from typeshed_client import NameInfo

_TYPE_VARIABLES = frozenset({"TypeVar", "ParamSpec", "TypeVarTuple"})


class Lookup:
    """Finds definitions by module and name; modules are parsed once."""

    def __init__(self) -> None:
        from typeshed_client import get_search_context

        # An empty search path: stubs of packages that happen to be installed must not be seen, and
        # the default would start a second interpreter only to ask for its path.
        self._context = get_search_context(search_path=[])
        self._modules: dict[str, dict[str, NameInfo] | None] = {}

    def names(self, module: str) -> Mapping[str, NameInfo]:
        """The names that the stub of `module` defines; empty if there is no stub."""
        from typeshed_client import get_stub_names

        if module not in self._modules:
            self._modules[module] = get_stub_names(module, search_context=self._context)
        return self._modules[module] or {}

    def resolve(
        self, module: str, name: str, *, known: bool = True
    ) -> tuple[str, str, NameInfo | None] | None:
        """Follow imports: (module, name, what stands there); None if the name is unknown.

        With `known`, a name of the vocabulary is not looked up: its third part is None.
        """
        from typeshed_client import ImportedName

        for _ in range(20):  # longer than any chain of imports in typeshed
            if known and module in VOCABULARY_MODULES and name in VOCABULARY:
                return module, name, None
            info = self.names(module).get(name)
            if info is None:
                if module == "builtins":
                    return None
                module = "builtins"
                continue
            target = info.ast
            if not isinstance(target, ImportedName):
                alias = alias_of(target)
                if alias is None or alias == name:
                    return module, name, info
                name = alias
                continue
            if target.name is None:
                return None
            module, name = ".".join(target.module_name), target.name
        return None

    def class_of(self, module: str, name: str) -> tuple[str, str, NameInfo] | None:
        """(module, name, definition) of a class, imports followed; None if it is no class."""
        found = self.resolve(module, name, known=False)
        if found is None:
            return None
        home, label, info = found
        if info is None or not isinstance(info.ast, ast.ClassDef):
            return None
        return home, label, info

    def class_params(self, module: str, info: NameInfo) -> tuple[str, ...]:
        """Names of the type variables of a class, in order."""
        node = info.ast
        assert isinstance(node, ast.ClassDef)
        listed: list[ast.expr] = []
        for base in node.bases:
            if isinstance(base, ast.Subscript):
                if ast.unparse(base.value) in ("Generic", "Protocol"):
                    listed = [base.slice]
                    break
                listed.append(base.slice)
        names: dict[str, None] = {}
        for expression in listed:
            for part in ast.walk(expression):
                if isinstance(part, ast.Name) and self._is_var(module, part.id):
                    names[part.id] = None
        return tuple(names)

    def _is_var(self, module: str, name: str) -> bool:
        found = self.resolve(module, name)
        return found is not None and found[2] is not None and var_call(found[2]) is not None

    def bases(
        self, module: str, info: NameInfo
    ) -> Iterator[tuple[str, str, NameInfo, list[ast.expr]]]:
        """(module, name, definition, arguments) of every base class but `object`."""
        node = info.ast
        assert isinstance(node, ast.ClassDef)
        for base in node.bases:
            head, args = split(base)
            found = self.class_of(module, head) if head not in ("Generic", "Protocol") else None
            if found is not None and found[:2] != ("builtins", "object"):
                yield (*found, args)


def split(node: ast.expr) -> tuple[str, list[ast.expr]]:
    """`a.B[c, d]` -> ("B", [c, d])."""
    args: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        args = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
        node = node.value
    # typeshed qualifies a name only to tell it from a local one of the same meaning
    head = node.attr if isinstance(node, ast.Attribute) else ast.unparse(node)
    return head, args


def var_call(info: NameInfo) -> ast.Call | None:
    """The call that makes a type variable, if the name stands for one."""
    value = getattr(info.ast, "value", None)
    if isinstance(value, ast.Call) and ast.unparse(value.func) in _TYPE_VARIABLES:
        return value
    return None


def alias_of(node: object) -> str | None:
    """The name that `x = name` makes `x` another word for."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
        return node.value.id
    return None


def functions_in(info: NameInfo) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
    """The overloads that stand under a name; empty if it is no function."""
    from typeshed_client import OverloadedName

    parts = info.ast.definitions if isinstance(info.ast, OverloadedName) else [info.ast]
    return tuple(p for p in parts if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef))
