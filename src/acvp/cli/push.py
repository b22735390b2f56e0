"""`acvp push`: uploads a predictor to the Hugging Face hub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg

from acvp.cli.main import Verb
from acvp.console import out
from acvp.errors import require_repository
from acvp.exits import EXIT_OK


@dataclass(frozen=True)
class PushConfig:
    """Upload a predictor and its card to the Hugging Face hub. Log in first: hf auth login."""

    predictor: Annotated[Positional[str], arg(metavar="PREDICTOR")]
    """Run folder, predictor folder or packaged name (freeway)."""
    to: Annotated[str, arg(metavar="OWNER/NAME")]
    """Repository, owner/name. It is created if it does not exist. acvp.load and --predictors take this name."""
    private: bool = False
    """Create the repository as a private one, which only you can see."""

    def __post_init__(self) -> None:
        require_repository(self.to, "--to")


def run(config: PushConfig) -> int:
    """Upload a predictor."""
    from acvp.hub import push_files
    from acvp.loaded import load
    from acvp.models import predictor_files

    files = predictor_files(load(config.predictor))
    out.print(f"uploaded to {push_files(config.to, files, private=config.private)}")
    return EXIT_OK


VERBS = {"push": Verb(options=PushConfig, run=run, example="acvp push runs/freeway --to me/freeway")}
