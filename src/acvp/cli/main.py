"""`acvp VERB …`: finds the verb's file, parses its options and runs it; exits.py decides how it ends.

A verb is a `Verb`: its options, the function that runs it, and an example; each file beside this one has some. Every
field of a verb's config tree is a knob, an option too: `--phases.0.lr 3e-4`, `--predictor.channels 64 96 128`.
"""

from __future__ import annotations

import io
import json
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, fields, is_dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from inspect import getdoc
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tyro

from acvp import __version__, exits
from acvp.compat import OPTIONS
from acvp.console import field_texts, out, stages
from acvp.data.policies import AGENT, PLAN
from acvp.envs import load_module
from acvp.errors import UserError
from acvp.exits import EXIT_CODES, EXIT_OK, EXIT_USER_ERROR
from acvp.runs import CONFIG_NAME, RunFolder

SUMMARIES = {
    "collect": "record a game into a dataset",
    "data info": "show what is in a dataset",
    "data verify": "check every byte of a dataset",
    "data import": "import episodes from other formats",
    "data export": "export a dataset to other formats",
    "data merge": "copy several datasets into one",
    "data split": "copy a dataset into a train and a test dataset",
    "data filter": "copy some episodes of a dataset",
    "data push": "upload a dataset to the Hugging Face hub",
    "data pull": "download a dataset from the Hugging Face hub",
    "train": "train a predictor on a dataset",
    "calibrate": "choose thresholds of rewards, terminations and lost lives on held-out episodes",
    "evaluate": "compare predictions with recorded frames, step by step",
    "counterfactual": "compare the predicted and the true future of every action",
    "analyze": "show what a predictor has learned about actions",
    "agent train": "train a DQN agent",
    "agent learn": "learn from few real steps: record, train a predictor, train an agent in it, in rounds",
    "agent evaluate": "let an agent play and report its score",
    "agent compare": "draw the learning curves of several agents",
    "agent import": "convert a DQN saved by Stable-Baselines3",
    "control": "let an agent act on predicted frames, and report its score",
    "explore": "compare random and informed exploration",
    "play": "play a predictor in the browser",
    "export": "export a predictor to ONNX or to a web page",
    "push": "upload a predictor to the Hugging Face hub",
    "report": "write an HTML report of runs",
    "reproduce": "run the paper's experiments and judge each claim",
    "claims": "judge the paper's claims by results",
}
"""Verb → what it does, in the order of the help."""
HELP = ("-h", "--help")
Config = TypeVar("Config")
Knobs = Mapping[str, Sequence[str]]
"""Name of a knob without its dashes → the words that follow it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line in this process and return its exit code."""
    return exits.run(lambda: _run(list(sys.argv[1:] if arguments is None else arguments)))


def _run(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        out.print(f"acvp {__version__}")
        return EXIT_OK
    if not arguments or arguments[0] in HELP:
        return _help("", EXIT_OK if arguments else EXIT_USER_ERROR)
    if arguments[0] in GROUPS and (not arguments[1:] or arguments[1] in HELP):
        return _help(f"{arguments[0]} ", EXIT_OK if arguments[1:] else EXIT_USER_ERROR)
    words = 2 if arguments[0] in GROUPS else 1
    name = " ".join(arguments[:words])
    if name not in SUMMARIES:
        raise UserError(f"{name}: no such verb of acvp{nearest(name, list(SUMMARIES))}; see acvp --help")
    verb = load_verb(name)
    options = verb.parse(name, arguments[words:])
    exits.handler.loading = False
    return execute(verb, options)


GROUPS = {name.split()[0] for name in SUMMARIES if " " in name}


def load_verb(name: str) -> Verb:
    """Return a verb, from the one file that describes it."""
    verb: Verb = import_module(f"acvp.cli.{name.split()[0]}").VERBS[name]
    return verb


def execute(verb: Verb, options: Any) -> int:
    """Run a verb with its options and return the exit code."""
    import_modules(options)
    return verb.run(options)


def _help(prefix: str, code: int) -> int:
    """Print the verbs that begin with a prefix."""
    title = "Record a pixel game, learn to predict its frames from the actions taken, and use the predictions."
    verbs = [f"  {name:16} {summary}" for name, summary in SUMMARIES.items() if name.startswith(prefix)]
    more = f"acvp {prefix}VERB --help shows the options of a verb; acvp --version prints the version."
    codes, *rest = EXIT_CODES.split("; ")
    lines = [f"usage: acvp {prefix}VERB [OPTIONS]", "", *(() if prefix else (title, "")), *verbs, "", more]
    lines += [] if prefix else ["", codes, *(f"  {line}" for line in rest)]
    for line in lines:
        out.print(line)
    return code


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
        arguments = [_current(word, self._other_names | OPTIONS.get(name, {})) for word in arguments]
        knobs: dict[str, tuple[str, ...]] = {}
        if self.first is not None:
            arguments, knobs = split_knobs([*self.first(list(arguments)), *arguments], self.known)
        complaint = io.StringIO()
        try:
            with redirect_stderr(complaint):
                options, unknown = tyro.cli(
                    self.options,
                    prog=f"acvp {name}",
                    description=f"{getdoc(self.options)}\n\nExample: {self.example}",
                    args=arguments,
                    return_unknown_args=True,
                    config=(tyro.conf.OmitArgPrefixes,),
                )
        except SystemExit as end:
            if end.code == 0:
                raise
            lines = [line.strip("│╭╮╰╯─|+ ") for line in complaint.getvalue().splitlines()]
            if "Unrecognized options:" in lines:  # among the options that are missing, whose name it may have
                raise UserError(self._unknown(name, lines[lines.index("Unrecognized options:") + 1])) from None
            raise UserError(complaint_line(lines, name, arguments)) from None
        if unknown:
            raise UserError(self._unknown(name, unknown[0]))
        return replace(options, knobs=knobs) if knobs else options

    @property
    def known(self) -> set[str]:
        """All options, also in their negative form."""
        names = [option_name(field) for field in self.options.__dataclass_fields__ if field != "knobs"]
        return {"--help", *names, *(f"--no-{name[2:]}" for name in names)}

    @property
    def _other_names(self) -> dict[str, str]:
        """One predictor or several: a verb takes both names."""
        several = "predictors" in self.options.__dataclass_fields__
        return {"--predictor": "--predictors"} if several else {"--predictors": "--predictor"}

    def _unknown(self, name: str, word: str) -> str:
        if not word.startswith("--"):
            return f"{word}: acvp {name} does not expect this argument; see acvp {name} --help"
        known = [option_name(field) for field in self.options.__dataclass_fields__]
        return f"{word}: no such option of acvp {name}{nearest(word, known)}; see acvp {name} --help"


def _current(word: str, renamed: Mapping[str, str]) -> str:
    """Return an argument with the present name of its option, which 0.1.0 may have called otherwise."""
    option, equals, value = word.partition("=")
    return f"{renamed.get(option, option)}{equals}{value}"


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
    for word, after in pairwise([*arguments, ""]):
        if word == option or word.startswith(f"{option}="):
            return word.partition("=")[2] or after
    return None


def complaint_line(lines: Sequence[str], name: str, arguments: Sequence[str]) -> str:
    """Return what tyro complains about in the lines of a box, in one: the option, its value and what it takes."""
    text, see = " ".join(lines), f"see acvp {name} --help"
    if "Missing from acvp" in text:
        return f"missing: {', '.join(line for line in lines if re.match('--[a-z]', line))}; {see}"
    if choice := re.search(r"invalid choice '(.*?)' for argument '(--[\w-]+)'. Expected one of \((.*?),?\)", text):
        return f"{choice[2]} {choice[1]}: choose one of {choice[3].replace(chr(39), '')}"
    if wrong := re.search(r"Error parsing (--[\w-]+): .*Argument helptext: +--[\w-]+ (\S+(?: …)?)", text):
        return f"{wrong[1]} {value_of(wrong[1], arguments)}: expected {wrong[2]}; {see}"
    if without := re.search(r"Missing value for argument '([\w-]+)'", text):
        return f"{without[1]}: its value is missing; {see}"
    return text.partition(" For full helptext")[0].strip()


def nearest(word: str, known: Sequence[str]) -> str:
    """Return a suggestion for a word that is not known, to append to a message; nothing where none is near."""
    matches = get_close_matches(word.partition("=")[0], known, n=1)
    return f" (did you mean {matches[0]}?)" if matches else ""


def import_modules(options: Any) -> None:
    """Import the modules that the user named, alone or before an id; only then is the current folder on the path."""
    prefix = (getattr(options, "env_id", None) or "").rpartition(":")[0]
    if getattr(options, "actions", None) is not None:
        prefix = ""  # data import with --actions: the game need not be installed
    modules, policy = [getattr(options, "import_module", None), prefix], getattr(options, "policy", None) or ()
    policies = [*([policy] if isinstance(policy, str) else policy), getattr(options, "driver", None) or ""]
    if any(modules) or any(":" in name and not name.startswith((AGENT, PLAN)) for name in policies):
        sys.path.append(str(Path.cwd()))
    for module in filter(None, modules):
        load_module(module)


@contextmanager
def predictor_stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show the progress of work with a predictor, whose memory is kept from one step to the next."""
    from acvp.models import keep_freed_memory

    keep_freed_memory()
    with stages() as stage:
        yield stage


def knobs_of(config: Any, fixed: Sequence[str] = (), prefix: str = "") -> Iterator[tuple[str, Any, Any, type]]:
    """Return name, type, value and config class of every knob of a config tree; `fixed` are left out."""
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
            yield name, hints[field.name], value, type(config)


def turn(config: Config, knobs: Knobs, fixed: Mapping[str, str], options: Iterable[str] = ()) -> Config:
    """Return a config with some knobs set; `fixed` are fields that cannot be set → where their values come from."""
    values: dict[str, Any] = {}
    known = {knob: hint for knob, hint, *_ in knobs_of(config, tuple(fixed))}
    for name, words in knobs.items():
        if name in fixed:
            raise UserError(f"--{_option(name)}: cannot be set, it comes from {fixed[name]}")
        if name not in known:
            near = nearest(f"--{_option(name)}", [*(f"--{_option(knob)}" for knob in known), *options])
            raise UserError(f"--{_option(name)}: no such option{near}; see --help and --help-all")
        values[name] = _parse(name, known[name], words)
    try:
        changed: Config = _changed(config, values)
    except UserError as error:
        raise UserError(f"{_blamed(knobs, str(error))}: {error}") from error
    return changed


def _blamed(knobs: Knobs, error: str) -> str:
    """Return the options that an error about a config is about: those whose fields it names, else all that were set."""
    named = [name for name in knobs if name.rpartition(".")[2] in error] or list(knobs)
    return ", ".join(f"--{_option(name)} {' '.join(knobs[name])}".strip() for name in named)


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
    """Return the lines of every knob of a config tree: its option, its value, what it takes, and what it means."""
    lines = []
    for name, hint, value, kind in knobs_of(config, fixed):
        lines.append(f"  --{_option(name)} {_shown(value)}  ({describe_type(hint)})")
        if text := field_texts(kind).get(name.rpartition(".")[2]):
            lines.append(f"      {text}")
    return lines


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return "none" if value is None else str(value)


def _option(name: str) -> str:
    return name.replace("_", "-")
