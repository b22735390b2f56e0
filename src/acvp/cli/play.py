"""`acvp play`: plays a predictor in the browser."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import out
from acvp.exits import EXIT_OK
from acvp.play.config import PlayConfig


def run(config: PlayConfig) -> int:
    """Serve the page until interrupted."""
    from acvp.play.server import play

    play(config, lambda text: out.print(text))
    return EXIT_OK


VERBS = {"play": Verb(options=PlayConfig, run=run, example="acvp play --predictors freeway --temperature 0.5")}
