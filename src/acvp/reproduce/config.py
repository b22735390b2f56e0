"""What `acvp reproduce` and `acvp claims` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from acvp.console import optional
from acvp.envs import make_game
from acvp.envs.atari import atari_games, atari_id
from acvp.envs.toy import TOY_ID
from acvp.errors import AT_ONCE, UserError, require, require_seed

ScaleName = Literal["smoke", "cpu", "gpu", "paper"]
PAPER_GAMES = ("freeway", "space_invaders", "seaquest", "qbert", "ms_pacman")
PARTS = {
    "data": "§4: the datasets",
    "dqn": "table 1: the agents' scores",
    "curriculum": "§3.4: training that starts with several steps",
    "figure3": "squared error over 100 steps, figure 4, counterfactual futures",
    "figure2": "long predictions: figure 2, appendix E",
    "figure5": "play from predicted frames",
    "figure6": "exploration without learning: first reward, heat maps",
    "table1": "learning with informed exploration, tables 1 and 2",
    "figure7": "figures 7 and 8, appendices C and D: what was learned",
    "pixel": "the pixel-exact predictor beside the paper's networks",
}
"""Parts of the paper that --only can name → what they show."""
ALIASES = {"figure4": "figure3", "figure8": "figure7", "table2": "table1"}
"""Other names of parts: what these show is measured by the same steps."""


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Run the paper's experiments and judge each of its claims. If interrupted, run the same command to resume."""

    out: Path
    """Folder for datasets, runs, results, logs and the conclusions on claims."""
    games: Annotated[tuple[str, ...], optional("GAME …", "the paper's five; smoke: freeway")] = ()
    """Games: bare Atari names (freeway) or Gymnasium ids, also separated by commas."""
    scale: ScaleName = "cpu"
    """Size of everything. smoke: minutes, for a test; cpu: gray networks, days on one core;
    gpu: RGB networks, about a day on one GPU; paper: sections 3 and 4 and the appendices as published, months."""
    only: Annotated[tuple[str, ...], optional("PART …", "all parts")] = ()
    """Parts of the paper: data, dqn, curriculum, figure2 to figure8, table1, table2, pixel.
    What they need is run too."""
    jobs: int = 1
    """Steps run at the same time, one thread each."""
    seed: int = 1
    """Random seed of datasets, training and exploration."""
    dry_run: bool = False
    """Print the plan with its cost, and exit."""
    print_commands: bool = False
    """Print the commands of the plan as shell lines, in an order that respects what they need, and exit."""

    def __post_init__(self) -> None:
        require(1, AT_ONCE, jobs=self.jobs)
        require_seed(self.seed)
        unknown = [part for part in self.parts if part not in PARTS]
        if unknown:
            raise UserError(f"--only {unknown[0]}: no such part; choose of {', '.join(PARTS)}")
        games = [game_name(game) for game in self.chosen_games]
        twice = [game for game in games if games.count(game) > 1]
        if twice:
            raise UserError(f"--games {' '.join(self.games)}: {twice[0]} comes twice")

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts to run; none: all."""
        return tuple(ALIASES.get(part, part) for part in _split(self.only))

    @property
    def chosen_games(self) -> tuple[str, ...]:
        """The games to run."""
        default = ("freeway",) if self.scale == "smoke" else PAPER_GAMES
        return _split(self.games) or default


@dataclass(frozen=True, kw_only=True)
class ClaimsConfig:
    """Judge every claim of the paper by the results in some folders, and write the conclusions."""

    results: Annotated[tuple[Path, ...], arg(metavar="PATH …")]
    """Folders that are searched for results; if two have a result of the same kind, the folder named first counts."""
    out: Path
    """Folder for claims.json and claims.md."""

    def __post_init__(self) -> None:
        if not self.results:
            raise UserError("--results is empty: name at least one folder")


def game_name(game: str) -> str:
    """Return the name of a game, and of its folder; an unknown game is refused."""
    if atari_id(game) is None:
        make_game(game).close()  # raises for an unknown one, with a suggestion
    return bare_name(game)


def bare_name(env_id: str) -> str:
    """Return the bare name of an Atari game, `toy`, or an id without special characters."""
    if env_id in (TOY_ID, "toy"):
        return "toy"
    canonical = atari_id(env_id)
    return atari_games()[canonical] if canonical else re.sub(r"[^A-Za-z0-9_.-]+", "-", env_id).strip("-.")


def _split(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part for word in words for part in word.split(",") if part)
