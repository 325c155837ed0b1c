"""How operations are written: special methods as operators and subscripts, calls with operands.

Covers the Python text of an operation, with the signatures reduced to the operands that this text
shows. Does not decide which operations exist (`enumeration.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from synth.catalogue.records import OPERANDS, Operation, Owner
from synth.stubs import Param, Signature, TypeTerm, merged

BINARY: dict[str, tuple[str, str]] = {
    "__add__": ("+", "Add"),
    "__sub__": ("-", "Sub"),
    "__mul__": ("*", "Mult"),
    "__matmul__": ("@", "MatMult"),
    "__truediv__": ("/", "Div"),
    "__floordiv__": ("//", "FloorDiv"),
    "__mod__": ("%", "Mod"),
    "__pow__": ("**", "Pow"),
    "__lshift__": ("<<", "LShift"),
    "__rshift__": (">>", "RShift"),
    "__and__": ("&", "BitAnd"),
    "__or__": ("|", "BitOr"),
    "__xor__": ("^", "BitXor"),
}
COMPARE: dict[str, tuple[str, str]] = {
    "__lt__": ("<", "Lt"),
    "__le__": ("<=", "LtE"),
    "__gt__": (">", "Gt"),
    "__ge__": (">=", "GtE"),
    "__eq__": ("==", "Eq"),
    "__ne__": ("!=", "NotEq"),
    "__contains__": ("in", "In"),
}
UNARY: dict[str, tuple[str, str]] = {
    "__neg__": ("-", "USub"),
    "__pos__": ("+", "UAdd"),
    "__invert__": ("~", "Invert"),
    "__bool__": ("not", "Not"),
    "__len__": ("not", "Not"),  # of a class without __bool__
}
INPLACE: dict[str, tuple[str, str]] = {
    f"__i{dunder[2:]}": (f"{symbol}=", node) for dunder, (symbol, node) in BINARY.items()
}
REFLECTED: dict[str, str] = {f"__r{dunder[2:]}": dunder for dunder in BINARY}
SUBSCRIPT: dict[str, str] = {
    "__getitem__": "x[{}]",
    "__setitem__": "x[{}] = v",
    "__delitem__": "del x[{}]",
}
BOOL = TypeTerm("bool")


def operator_of(owner: Owner, name: str, signatures: Sequence[Signature]) -> Operation:
    """The operation of a special method that is written as an operator."""
    if name in UNARY:
        symbol, node = UNARY[name]
        form = f"{symbol} x" if symbol.isalpha() else f"{symbol}x"
    else:
        symbol, node = next(t[name] for t in (BINARY, COMPARE, INPLACE) if name in t)
        form = "y in x" if node == "In" else f"x {symbol} y"
    cut = cut_to(signatures, 0 if name in UNARY else 1)
    if node == "Not":
        cut = tuple(Signature(s.receiver, (), BOOL) for s in cut)
    in_place = name in INPLACE
    return Operation(
        owner=owner.name,
        name="__len__[not]" if name == "__len__" else name,
        kind="operator",
        family=owner.family,
        form=form,
        signatures=cut,
        returns_none=in_place,
        mutates=in_place,
        symbol=symbol,
        node=node,
    )


def cut_to(signatures: Sequence[Signature], count: int) -> tuple[Signature, ...]:
    """Reduced to `count` parameters: `pow` has a third operand, the operator has not."""
    usable = [s for s in signatures if len(s.required) <= count] or signatures
    return merged([replace(s, params=s.params[:count], keywords=None) for s in usable])


def subscripts_of(owner: Owner, name: str, signatures: Sequence[Signature]) -> Iterator[Operation]:
    """`x[i]`, `x[i:j]`, … : one operation per form that the key's types allow."""
    by_slice = [s for s in signatures if _takes(s, "slice")]
    by_key = [s for s in signatures if not _takes(s, "slice") or s.params[0].type.name == "union"]
    forms: list[tuple[str, str, list[Signature]]] = []
    if by_key:
        key = [_with_key(s, {"slice"}) for s in by_key]
        position = all(s.params[0].type.name == "int" for s in key)
        forms.append(("index", "i", key) if position else ("key", "k", key))
    if by_slice:
        cut = [_with_key(s, None) for s in by_slice]
        forms.append(("slice", "i:j", cut))
        if name == "__getitem__":  # stores with a step need a value of exactly the right length
            forms.append(("step", "i:j:k", cut))
    stores = name != "__getitem__"
    for label, inside, chosen in forms:
        form = SUBSCRIPT[name].format(inside)
        yield Operation(
            owner=owner.name,
            name=f"{name}[{label}]",
            kind="subscript",
            family=owner.family,
            form=form,
            signatures=tuple(dict.fromkeys(chosen)),
            returns_none=stores,
            mutates=stores,
            symbol=form.replace("x[", "[").replace(" = v", "="),
            node="Subscript",
        )


def _takes(signature: Signature, name: str) -> bool:
    return any(term.name == name for term in signature.params[0].type.walk())


def _with_key(signature: Signature, without: set[str] | None) -> Signature:
    """The signature with its key reduced: to a slice, or to everything that is not in `without`."""
    first, *rest = signature.params
    members = first.type.args if first.type.name == "union" else (first.type,)
    if without is None:
        term = TypeTerm("slice")
    else:
        kept = tuple(m for m in members if m.name not in without)
        term = kept[0] if len(kept) == 1 else TypeTerm("union", kept)
    param = Param(first.name, term, first.required, first.kind)
    return replace(signature, params=(param, *rest))


def shown_arguments(signatures: Sequence[Signature], first: str, *, bare: bool) -> str:
    """The arguments that `form` shows.

    With `bare`, those that the first telling overload requires, maybe none; otherwise those of the
    overload that requires least, or else one optional argument.
    """
    operands = OPERANDS[OPERANDS.index(first) :]
    telling = [s for s in signatures if not _tells_nothing(s)] or list(signatures)
    shown = [_needed(s, or_optional=not bare) for s in telling]
    chosen = shown[0] if bare else min(filter(None, shown), key=len, default=[])
    names = zip(chosen, operands, strict=False)
    return ", ".join(f"{p.name}={n}" if p.kind == "keyword" else n for p, n in names)


def _needed(signature: Signature, *, or_optional: bool) -> list[Param]:
    """The required parameters; if none is positional, two of `*args` or one optional one first."""
    required = list(signature.required)
    if any(p.kind == "positional" for p in required):
        return required
    varargs = [p for p in signature.params if p.kind == "varargs"]
    optional = [p for p in signature.params if p.kind == "positional" and or_optional]
    return [*(varargs * 2 or optional[:1]), *required]


def _tells_nothing(signature: Signature) -> bool:
    """An overload for the call without arguments: `update(**kwargs)`, `subtract(iterable=None)`."""
    positional = [p for p in signature.params if p.kind == "positional"]
    no_value = bool(positional) and all(p.type.name == "None" for p in positional)
    return no_value or (signature.keywords is not None and not signature.required)
