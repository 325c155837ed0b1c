"""What every layout turns its records into, and how it says that a record is of no use."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rewards.row import Spec, SpecError, Tests

__all__ = ["BrokenRow", "Example", "Layout", "Options", "messages", "need", "spec_text"]

Messages = tuple[tuple[str, str], ...]


class BrokenRow(ValueError):
    """A record cannot become an example; the message is what is counted and told."""


@dataclass(frozen=True)
class Example:
    """One prompt to train on, with what is needed to judge or to imitate an answer."""

    id: str
    prompt: Messages
    task: str
    """output, input, whitebox, unittest, or `chat` where nothing is judged."""
    spec: str = ""
    """JSON text for the reward; empty if there is none."""
    completion: str = ""
    """An answer worth imitating; empty if there is none."""
    level: int | None = None
    pass_rate: float | None = None
    split: str = ""
    """Split that the record itself names; empty if it names none."""


@dataclass(frozen=True)
class Options:
    """What a layout may do differently."""

    prompts: str = "keep"
    """`keep` the prompts of the records, or write `ours`."""
    stage: str = "whitebox"


@dataclass(frozen=True)
class Layout:
    """One way in which datasets are laid out."""

    name: str
    needed: tuple[tuple[str, ...], ...]
    """Sets of columns of which one must be there; by these it is told from the others."""
    known: tuple[str, ...]
    """Further columns that are passed over knowingly; any other is named in the report."""
    read: Callable[[Mapping[str, Any], Options], Iterator[Example]]
    """The examples of one record; raises `BrokenRow`."""

    def fits(self, columns: set[str]) -> bool:
        """Whether records with these columns are of this layout."""
        return any(set(group) <= columns for group in self.needed)

    def unknown(self, columns: set[str]) -> list[str]:
        """Columns that this layout knows nothing of."""
        return sorted(columns - {name for group in self.needed for name in group} - set(self.known))


def need(record: Mapping[str, Any], column: str, kind: type | tuple[type, ...] = str) -> Any:
    """The value of a column. Raises `BrokenRow` if it is missing or of another type."""
    value = record.get(column)
    if value is None:
        raise BrokenRow(f"column {column!r} is missing")
    if not isinstance(value, kind):
        raise BrokenRow(f"column {column!r} holds a {type(value).__name__}")
    if isinstance(value, str) and not value.strip():
        raise BrokenRow(f"column {column!r} is blank")
    return value


def messages(value: object, column: str) -> Messages:
    """`[{role, content}, …]` as pairs, with the role names of ShareGPT turned into the usual ones."""
    roles = {"human": "user", "gpt": "assistant", "bot": "assistant"}
    if not isinstance(value, (list, tuple)) or not value:
        raise BrokenRow(f"column {column!r} holds no messages")
    found = []
    for one in value:
        if not isinstance(one, Mapping):
            raise BrokenRow(f"column {column!r} holds a message that is a {type(one).__name__}")
        role = one.get("role", one.get("from"))
        content = one.get("content", one.get("value"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise BrokenRow(f"column {column!r} holds a message without role or content")
        found.append((roles.get(role, role), content))
    return tuple(found)


def spec_text(**fields: Any) -> str:
    """The checked JSON text of a spec. Raises `BrokenRow` with what is wrong with it."""
    try:
        return Spec(**fields).to_json()
    except SpecError as error:
        raise BrokenRow(str(error).partition(":")[0]) from error


def tests_of(given: object) -> Tests:
    """`{"inputs", "outputs", "fn_name"}`, also as JSON text, in the form that a spec takes.

    Of calls, an input may be the list of arguments or JSON lines, one for each; an output may be JSON
    text or the value, alone or as the only element of a list (if it is so in every test). Of programs,
    an input or output may be a list of lines.
    """
    value = _json(given, "the tests") if isinstance(given, str) else given
    if not isinstance(value, Mapping):
        raise BrokenRow("the tests are no object")
    inputs, outputs = value.get("inputs"), value.get("outputs")
    if not isinstance(inputs, (list, tuple)) or not isinstance(outputs, (list, tuple)):
        raise BrokenRow("the tests have no inputs or no outputs")
    if not inputs:
        raise BrokenRow("there are no tests")
    if len(inputs) != len(outputs):
        raise BrokenRow("the tests have not as many outputs as inputs")
    name = value.get("fn_name") or None
    if name is None:
        return Tests(inputs=tuple(map(_lines, inputs)), outputs=tuple(map(_lines, outputs)))
    wrapped = all(isinstance(one, (list, tuple)) and len(one) == 1 for one in outputs)
    return Tests(
        inputs=tuple(map(_arguments, inputs)),
        outputs=tuple(_value(one[0] if wrapped else one) for one in outputs),
        fn_name=str(name),
    )


def content_id(prefix: str, *parts: str) -> str:
    """An id that equal contents share."""
    text = "\0".join(parts)
    return f"{prefix}-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _json(text: str, what: str) -> Any:
    if not text.strip():
        raise BrokenRow(f"{what} are blank")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenRow(f"{what} are not JSON") from error


def _lines(given: object) -> str:
    if isinstance(given, str):
        return given
    if isinstance(given, (list, tuple)):
        return "\n".join(one if isinstance(one, str) else json.dumps(one) for one in given)
    return json.dumps(given)


def _arguments(given: object) -> str:
    if isinstance(given, str):
        return given  # JSON lines already
    if not isinstance(given, (list, tuple)):
        raise BrokenRow(f"the input of a call is a {type(given).__name__}")
    return "\n".join(json.dumps(one) for one in given)


def _value(given: object) -> str:
    """JSON text of what is expected; text that is JSON already stays as it is."""
    if isinstance(given, str):
        try:
            json.loads(given)
        except (ValueError, RecursionError):
            return json.dumps(given)
        return given
    return json.dumps(given)
