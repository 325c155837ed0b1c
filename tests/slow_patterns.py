"""Part of the second implementation: the patterns of `match`."""

from __future__ import annotations

import ast
import operator
from typing import Any

from slow_calls import Calls
from slow_frames import Env, Raised, Unsupported, Walk, attempt
from slow_names import unpacker

WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes of which `case int(x)` binds the whole value."""
MISSING = object()
Bound = list[tuple[str, Any]]


def is_sequence(value: Any) -> bool:
    match value:
        case [*_]:
            return True
    return False


def is_mapping(value: Any) -> bool:
    match value:
        case {}:
            return True
    return False


def is_wildcard(node: ast.pattern) -> bool:
    return isinstance(node, ast.MatchAs) and node.name is None and node.pattern is None


class Patterns(Calls):
    """`matches` says whether a value has a pattern; what it binds is appended to `bound`."""

    def matches(self, node: ast.pattern, value: Any, env: Env, bound: Bound) -> Walk:
        name = type(node).__name__
        method = getattr(self, "matches_" + name, None)
        if method is None:
            raise Unsupported(name)
        return method(node, value, env, bound)  # type: ignore[no-any-return]

    def matches_MatchValue(self, node: ast.MatchValue, value: Any, env: Env, bound: Bound) -> Walk:
        wanted = yield from self.value(node.value, env)
        return attempt(operator.truth, attempt(operator.eq, value, wanted))

    def matches_MatchSingleton(
        self, node: ast.MatchSingleton, value: Any, env: Env, bound: Bound
    ) -> Walk:
        return value is node.value
        yield

    def matches_MatchAs(self, node: ast.MatchAs, value: Any, env: Env, bound: Bound) -> Walk:
        if node.pattern and not (yield from self.matches(node.pattern, value, env, bound)):
            return False
        if node.name:
            bound.append((node.name, value))
        return True

    def matches_MatchStar(self, node: ast.MatchStar, value: Any, env: Env, bound: Bound) -> Walk:
        if node.name:
            bound.append((node.name, value))
        return True
        yield

    def matches_MatchOr(self, node: ast.MatchOr, value: Any, env: Env, bound: Bound) -> Walk:
        for part in node.patterns:
            tried: Bound = []
            if (yield from self.matches(part, value, env, tried)):
                bound += tried
                return True
        return False

    def all_match(self, patterns: list[ast.pattern], values: Any, env: Env, bound: Bound) -> Walk:
        for pattern, value in zip(patterns, values, strict=True):
            if not (yield from self.matches(pattern, value, env, bound)):
                return False
        return True

    def matches_MatchSequence(
        self, node: ast.MatchSequence, value: Any, env: Env, bound: Bound
    ) -> Walk:
        if not attempt(is_sequence, value):
            return False
        parts = node.patterns
        starred = [isinstance(part, ast.MatchStar) for part in parts]
        star = any(starred)
        at = starred.index(True) if star else len(parts)
        if not (star and len(parts) == 1):
            length = attempt(len, value)
            if length < len(parts) - 1 if star else length != len(parts):
                return False
        unnamed = star and parts[at].name is None  # type: ignore[attr-defined]
        if all(is_wildcard(part) or (unnamed and part is parts[at]) for part in parts):
            return True
        if not unnamed:
            items = attempt(unpacker(at, star, len(parts) - at - star), value)
            return (yield from self.all_match(parts, items, env, bound))
        for index, part in enumerate(parts):
            if is_wildcard(part) or index == at:
                continue
            place = index if index < at else attempt(len, value) - (len(parts) - index)
            item = attempt(operator.getitem, value, place)
            if not (yield from self.matches(part, item, env, bound)):
                return False
        return True

    def matches_MatchMapping(
        self, node: ast.MatchMapping, value: Any, env: Env, bound: Bound
    ) -> Walk:
        if not attempt(is_mapping, value):
            return False
        if node.keys and attempt(len, value) < len(node.keys):
            return False
        keys = yield from self.values(node.keys, env)
        items = []
        for key in keys:
            items.append(attempt(lambda key=key: value.get(key, MISSING)))
            if items[-1] is MISSING:
                return False
        if not (yield from self.all_match(node.patterns, items, env, bound)):
            return False
        if node.rest:
            rest = attempt(lambda: dict(value.items() if hasattr(value, "keys") else value))
            for key in keys:
                del rest[key]
            bound.append((node.rest, rest))
        return True

    def matches_MatchClass(self, node: ast.MatchClass, value: Any, env: Env, bound: Bound) -> Walk:
        kind = yield from self.value(node.cls, env)
        if not isinstance(kind, type):
            raise Raised(TypeError("called match pattern must be a class"))
        if not attempt(isinstance, value, kind):
            return False
        names = attempt(self.positional_names, kind, len(node.patterns))
        items = [value] if names is None else []
        for name in [*(names or ()), *node.kwd_attrs]:
            items.append(attempt(getattr, value, name, MISSING))
            if items[-1] is MISSING:
                return False
        patterns = [*node.patterns, *node.kwd_patterns]
        return (yield from self.all_match(patterns, items, env, bound))

    @staticmethod
    def positional_names(kind: type, count: int) -> list[str] | None:
        """Attributes of the positional patterns; None: the value itself is the one."""
        if not count:
            return []
        names: Any = getattr(kind, "__match_args__", MISSING)
        whole = names is MISSING and issubclass(kind, WHOLE)
        allowed = 1 if whole else 0 if names is MISSING else len(names)
        if count > allowed:
            plural = "" if allowed == 1 else "s"
            message = f"{kind.__name__}() accepts {allowed} positional sub-pattern{plural}"
            raise TypeError(f"{message} ({count} given)")
        return None if whole else list(names[:count])
