"""Knobs: every field of a config tree as an option: `--phases.0.lr 3e-4`, `--predictor.channels 64 96 128`."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from acvp.cli.main import nearest
from acvp.errors import UserError
from acvp.runs import CONFIG_NAME, RunFolder

Config = TypeVar("Config")
Knobs = Mapping[str, Sequence[str]]
"""Name of a knob without its dashes → the words that follow it."""


def knobs_of(config: Any, fixed: Sequence[str] = (), prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Return name, type and value of every knob of a config tree; `fixed` are left out."""
    hints = get_type_hints(type(config), localns={"PredictorConfig": Any})
    for field in fields(config):
        name, value = prefix + field.name, getattr(config, field.name)
        if name in fixed:
            continue
        if is_dataclass(value):
            yield from knobs_of(value, fixed, f"{name}.")
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            for number, item in enumerate(value):
                yield from knobs_of(item, fixed, f"{name}.{number}.")
        else:
            yield name, hints[field.name], value


def turn(config: Config, knobs: Knobs, fixed: Mapping[str, str], options: Iterable[str] = ()) -> Config:
    """Return a config with some knobs set; `fixed` are fields that cannot be set → where their values come from."""
    values: dict[str, Any] = {}
    known = {knob: hint for knob, hint, _ in knobs_of(config, tuple(fixed))}
    for name, words in knobs.items():
        if name in fixed:
            raise UserError(f"--{_option(name)}: cannot be set, it comes from {fixed[name]}")
        if name not in known:
            near = nearest(f"--{_option(name)}", [*(f"--{_option(knob)}" for knob in known), *options])
            raise UserError(f"--{_option(name)}: no such option{near}; see --help and --help-all")
        values[name] = _parse(name, known[name], words)
    changed: Config = _changed(config, values)
    return changed


def _changed(config: Any, values: Mapping[str, Any]) -> Any:
    """Return a tree with all values set at once, for one may be valid only together with another."""
    parts: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        first, _, rest = name.partition(".")
        parts.setdefault(first, {})[rest] = value
    if isinstance(config, tuple):
        return tuple(_changed(item, parts.get(str(number), {})) for number, item in enumerate(config))
    changes = {
        name: inner[""] if "" in inner else _changed(getattr(config, name), inner) for name, inner in parts.items()
    }
    return replace(config, **changes)


def _parse(name: str, hint: Any, words: Sequence[str]) -> Any:
    """Return the value that the words of an option stand for."""
    try:
        if get_origin(hint) is tuple:
            item, *more = get_args(hint)
            if more == [...]:
                return tuple(_one(item, word) for word in words)
        if len(words) == 0 and hint is bool:
            return True
        (word,) = words
        return _one(hint, word)
    except (ValueError, TypeError) as error:
        given = " ".join(words) or "nothing"
        raise UserError(f"--{_option(name)} {given}: expected {describe_type(hint)}") from error


def _one(hint: Any, word: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if word in ("none", "None"):
            return None
        return _one(next(choice for choice in get_args(hint) if choice is not type(None)), word)
    if get_origin(hint) is Literal:
        if word not in get_args(hint):
            raise ValueError(word)
        return word
    if get_origin(hint) is tuple:
        return _tupled(json.loads(word))
    if hint is bool:
        return {"true": True, "false": False}[word.lower()] if word.lower() in ("true", "false") else _refuse(word)
    if hint in (int, float):
        value = hint(word)
        return value if isfinite(value) else _refuse(word)
    return word


def _refuse(word: str) -> Any:
    raise ValueError(word)


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def run_config(path: Path) -> dict[str, Any]:
    """Return what a run folder's config.json holds; the path is the folder's or the file's."""
    return RunFolder(path.parent if path.name == CONFIG_NAME else path).read_config()


def describe_type(hint: Any) -> str:
    """Return what a knob takes, in words."""
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join("none" if choice is type(None) else describe_type(choice) for choice in get_args(hint))
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        item, *more = get_args(hint)
        return f"{describe_type(item)} …" if more == [...] else "a JSON list"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}.get(hint, str(hint))


def describe_knobs(config: Any, fixed: Sequence[str] = ()) -> list[str]:
    """Return a line for every knob of a config tree: its option, what it takes and its value."""
    lines = [
        (f"--{_option(name)}", describe_type(hint), _shown(value)) for name, hint, value in knobs_of(config, fixed)
    ]
    wide = max(len(option) for option, _, _ in lines)
    return [f"  {option:{wide}}  {value}  ({kind})" for option, kind, value in lines]


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)


def _option(name: str) -> str:
    return name.replace("_", "-")
