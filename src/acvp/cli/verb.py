"""A verb of the command line: its options, the function that runs it, and an example."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import tyro

from acvp.envs import load_module
from acvp.errors import UserError


@dataclass(frozen=True, kw_only=True)
class Verb:
    """A verb: `acvp NAME [OPTIONS]`."""

    options: type[Any]
    """Dataclass of its options; its docstring begins the help."""
    run: Callable[[Any], int]
    """Runs the verb with its options and returns the exit code."""
    example: str
    """Command line shown at the end of the description."""
    first: Callable[[list[str]], list[str]] | None = None
    """Of a verb with a config tree: returns the options that --config gives, which the command line can change."""

    def parse(self, name: str, arguments: Sequence[str]) -> Any:
        """Return the options that a command line gives; an unknown option is an error that names the nearest one.

        Of a verb with a config tree, unknown options are fields of the tree and become the option `knobs`.
        """
        knobs: dict[str, tuple[str, ...]] = {}
        if self.first is not None:
            arguments, knobs = split_knobs([*self.first(list(arguments)), *arguments], self.known)
        options, unknown = tyro.cli(
            self.options,
            prog=f"acvp {name}",
            description=f"{self.options.__doc__}\n\nExample: {self.example}",
            args=arguments,
            return_unknown_args=True,
            config=(tyro.conf.OmitArgPrefixes,),
        )
        if unknown:
            raise UserError(self._unknown(name, unknown[0]))
        return replace(options, knobs=knobs) if knobs else options

    @property
    def known(self) -> set[str]:
        """All options, also in their negative form."""
        names = [option_name(field) for field in self.options.__dataclass_fields__ if field != "knobs"]
        return {"--help", *names, *(f"--no-{name[2:]}" for name in names)}

    def _unknown(self, name: str, word: str) -> str:
        if not word.startswith("--"):
            return f"{word}: acvp {name} does not expect this argument; see acvp {name} --help"
        known = [option_name(field) for field in self.options.__dataclass_fields__]
        return f"{word}: no such option of acvp {name}{nearest(word, known)}; see acvp {name} --help"


def split_knobs(arguments: Sequence[str], known: set[str]) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    """Return the arguments of known options, and the others with their values."""
    rest: list[str] = []
    knobs: dict[str, tuple[str, ...]] = {}
    name: str | None = None
    for word in arguments:
        option, equals, value = word.partition("=")
        if word.startswith("--") and option not in known:
            name = option[2:].replace("-", "_")
            knobs[name] = (value,) if equals else ()
        elif word.startswith("--") or name is None:
            name = None
            rest.append(word)
        else:
            knobs[name] = (*knobs[name], word)
    return rest, knobs


def option_name(field: str) -> str:
    """Return the option of a field."""
    return f"--{field.removesuffix('_module').replace('_', '-')}"


def value_of(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option on a command line; None where it is not given."""
    for word, after in zip(arguments, [*arguments[1:], ""], strict=True):
        if word == option or word.startswith(f"{option}="):
            return word.partition("=")[2] or after
    return None


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a suggestion for a word that is not known, to append to a message; nothing where none is near."""
    matches = get_close_matches(word.partition("=")[0], known, n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def import_modules(options: Any) -> None:
    """Import the modules that the user named, alone or before an id; only then is the current folder on the path."""
    prefix = (getattr(options, "env_id", None) or "").rpartition(":")[0]
    if getattr(options, "actions", None) is not None:
        prefix = ""  # data import with --actions: the game need not be installed
    modules, policy = [getattr(options, "import_module", None), prefix], getattr(options, "policy", ())
    policies = [policy] if isinstance(policy, str) else policy
    if any(modules) or any(":" in name and not name.startswith("agent:") for name in policies):
        sys.path.append(str(Path.cwd()))
    for module in filter(None, modules):
        load_module(module)
