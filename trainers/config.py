"""Where the settings of a run come from: presets, TOML files, `--set key=value`; and their digest.

    load("whitebox", ["paper-stage1", "cluster-2x8"], ["data.path=curriculum"]) -> TrainConfig

Later sources win, key by key. A file may name others that it builds on (`base = "paper-stage1"`, or a
list), and may have tables for one stage alone (`[stage.sft.trl]`), which win over the general ones. The
fields of `[trl]` are those of the installed `SFTConfig` or `GRPOConfig`.

Does not cover what the values mean (`trainers.records`).
"""

from __future__ import annotations

import hashlib
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from importlib import import_module, resources
from pathlib import Path
from typing import Any

from synth.errors import ConfigError, closest
from trainers.records import STAGES, TrainConfig

__all__ = ["digest", "load", "preset_names", "preset_text", "resolved", "to_toml"]

Table = dict[str, Any]


def load(
    stage: str, sources: Sequence[str | Path] = (), settings: Sequence[str] = ()
) -> TrainConfig:
    """The checked settings of a run of `stage`.

    `sources`: names of presets or paths of TOML files, the last wins; `settings`: texts `key=value`
    whose value is TOML (`true`, `1e-6`, `["a"]`), or plain text. Raises `ConfigError`.
    """
    merged: Table = {}
    for source in sources:
        _merge(merged, _read(source, stage, ()))
    for text in settings:
        _merge(merged, _setting(text))
    given = merged.pop("stage", stage)
    if given != stage:
        raise ConfigError(f"the configuration is for the stage {given!r}, the command is {stage!r}")
    return typing.cast(TrainConfig, _record(TrainConfig, {"stage": stage, **merged}, ""))


def resolved(config: TrainConfig) -> Table:
    """All settings as JSON values, defaults included."""
    values = json.loads(json.dumps(asdict(config), sort_keys=True))
    assert isinstance(values, dict)
    return values


def digest(config: TrainConfig) -> str:
    """SHA-256 over all that decides the run: everything but where it is written and launched."""
    values = resolved(config)
    for name in ("output", "launch"):
        values.pop(name)
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def preset_names() -> list[str]:
    """Names that can stand in place of a file."""
    folder = resources.files("trainers") / "presets"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def preset_text(name: str) -> str:
    """The TOML text of a preset. Raises `ConfigError` for an unknown name."""
    if name not in preset_names():
        raise ConfigError(
            f"{name!r} is neither a file nor a preset; the presets are"
            f" {', '.join(preset_names())}{closest(name, preset_names())}"
        )
    return (resources.files("trainers") / "presets" / f"{name}.toml").read_text(encoding="utf-8")


def to_toml(config: TrainConfig) -> str:
    """The settings as a TOML text that `load` reads back to an equal record."""
    values = resolved(config)
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if not _is_table(value)]
    for key, value in values.items():
        if _is_table(value):
            lines += ["", f"[{key}]"]
            lines += [f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None]
    return "\n".join(line for line in lines if not line.endswith("= None")) + "\n"


# ---------------------------------------------------------------------------------------- reading


def _read(source: str | Path, stage: str, above: tuple[str, ...]) -> Table:
    """The table of one source with those it builds on, made for one stage."""
    if str(source) in above:
        raise ConfigError(f"{source}: builds on itself, by way of {' and '.join(above)}")
    path = Path(source)
    if path.suffix == ".toml" or path.is_file():
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read: {error}") from error
    else:
        text = preset_text(str(source))
    table = _parsed(text, str(source))
    special: Table = {}
    if isinstance(table.get("stage"), dict):
        tables = table.pop("stage")
        _known(tables, STAGES, f"{source}, stage")
        special = tables.get(stage, {})
    merged: Table = {}
    for name in [*_names(table.pop("base", [])), *_names(special.pop("base", []))]:
        beside = path.parent / name
        inner = beside if path.suffix == ".toml" and beside.is_file() else name
        _merge(merged, _read(inner, stage, (*above, str(source))))
    _merge(merged, table)
    _merge(merged, special)
    return merged


def _names(base: str | list[str]) -> list[str]:
    return [base] if isinstance(base, str) else list(base)


def _parsed(text: str, where: str) -> Table:
    # The reader of TOML joined the standard library in Python 3.11; before, it is a package.
    toml: Any = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table: Table = toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise ConfigError(f"{where}: not TOML: {error}") from error
    return table


def _setting(text: str) -> Table:
    key, equals, value = text.partition("=")
    if not equals or not all(part.strip() for part in key.split(".")):
        raise ConfigError(f"--set is {text!r}; expected key=value, such as trl.learning_rate=2e-6")
    try:
        found = _parsed(f"value = {value.strip()}", "--set")["value"]
    except ConfigError:
        found = value.strip()  # plain text needs no quotes on a command line
    table: Any = found
    for part in reversed(key.split(".")):
        table = {part.strip(): table}
    assert isinstance(table, dict)
    return table


def _merge(into: Table, other: Mapping[str, Any]) -> None:
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


# --------------------------------------------------------------------------------------- checking


def _record(kind: Any, table: Mapping[str, Any], where: str) -> object:
    """The frozen record `kind` of a table. Raises `ConfigError` for a key or type that is none of its."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{where} is {table!r}; expected a table")
    names = [each.name for each in fields(kind)]
    _known(table, names, where)
    hints = typing.get_type_hints(kind)
    values = {
        name: _value(hints[name], value, f"{where}.{name}" if where else name)
        for name, value in table.items()
    }
    return kind(**values)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None or value == "none":
            return None
        return _value(next(each for each in inner if each is not type(None)), value, where)
    if is_dataclass(hint):
        return _record(hint, value, where)
    if origin is tuple:
        many = value if isinstance(value, (list, tuple)) else [value]
        return tuple([_value(inner[0], each, where) for each in many])
    if origin is not None:  # the mapping of TRL's own fields
        if not isinstance(value, Mapping):
            raise ConfigError(f"{where} is {value!r}; expected a table of fields of TRL")
        return dict(value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        words = {"int": "a whole number", "float": "a number", "bool": "true or false"}
        expected = words.get(hint.__name__, "text")
        raise ConfigError(f"{where} is {value!r}; expected {expected}")
    return value


def _known(table: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for key in table:
        if key not in names:
            place = f"{where}.{key}" if where else key
            raise ConfigError(
                f"the setting {place!r} is unknown{closest(key, names)};"
                f" expected one of {', '.join(names)}"
            )


# ---------------------------------------------------------------------------------------- writing


def _is_table(value: object) -> bool:
    return isinstance(value, dict)


def _toml_key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)  # TOML knows no surrogate pairs
    if isinstance(value, list):
        return "[" + ", ".join(_toml(each) for each in value) + "]"
    if isinstance(value, dict):
        pairs = [f"{_toml_key(k)} = {_toml(v)}" for k, v in value.items() if v is not None]
        return "{" + ", ".join(pairs) + "}"
    return repr(value)
