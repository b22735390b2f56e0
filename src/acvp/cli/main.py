"""`acvp VERB …`: finds the verb's file, parses its options and runs it; exits.py decides how it ends."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from acvp import __version__, exits
from acvp.cli.verb import Verb, import_modules, nearest
from acvp.console import out
from acvp.errors import UserError
from acvp.exits import EXIT_CODES, EXIT_OK, EXIT_USER_ERROR

SUMMARIES = {
    "collect": "record a game into a dataset",
    "data info": "show what is in a dataset",
    "data verify": "check every byte of a dataset",
    "data import": "import episodes from other formats",
    "data export": "export a dataset to other formats",
    "train": "train a predictor on a dataset",
    "evaluate": "compare predictions with recorded frames, step by step",
    "counterfactual": "compare the predicted and the true future of every action",
    "analyze": "show what a predictor has learned about actions",
    "agent train": "train a DQN agent",
    "agent evaluate": "let an agent play and report its score",
    "agent compare": "draw the learning curves of several agents",
    "agent import": "convert a DQN saved by Stable-Baselines3",
    "control": "let an agent act on predicted frames, and report its score",
    "explore": "compare random and informed exploration",
    "play": "play a predictor in the browser",
    "export": "export a predictor to ONNX or to a web page",
    "report": "write an HTML report of runs",
}
"""Verb → what it does, in the order of the help."""
HELP = ("-h", "--help")


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


if __name__ == "__main__":
    sys.exit(exits.run_process(main))
