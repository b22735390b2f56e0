"""An agent plays by what it is shown; the emulator executes its actions and gives the score (§4.2, figure 5).

Shapes: P plays, B of them that have not ended, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.agents.averages import standard_error
from acvp.control.sight import Sight
from acvp.control.viewing import AGENT_SIZE, FrameHistory, Pixels
from acvp.envs import Game
from acvp.errors import UserError
from acvp.seeding import derived_seed, generator

Actions = NDArray[np.int64]


class AgentAbout(Protocol):
    """What an agent tells about itself."""

    @property
    def env_id(self) -> str: ...
    @property
    def action_meanings(self) -> tuple[str, ...]: ...


class Player(Protocol):
    """Who plays: an agent, or one action that is held."""

    @property
    def actions(self) -> int: ...
    @property
    def stack(self) -> int: ...
    def act(self, frames: Pixels) -> Actions:
        """Return the best actions (B,) for frames (B, 4, 84, 84), oldest first."""


class PlayingAgent(Player, Protocol):
    """An agent that was trained."""

    @property
    def about(self) -> AgentAbout: ...
    def values(self, frames: Pixels) -> NDArray[np.float32]:
        """Return the value (B, A) of each action."""


@dataclass(frozen=True)
class Plays:
    """What came of some plays."""

    scores: tuple[float, ...]
    decisions: tuple[int, ...]

    @property
    def mean(self) -> float:
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float | None:
        """Of the mean; None for a single play."""
        return standard_error(self.scores)


def refuse_other_actions(name: str, about: AgentAbout, game: Game) -> None:
    """Refuse an agent that knows other actions than the game has."""
    if tuple(about.action_meanings) != game.action_meanings:
        raise UserError(
            f"agent {name} plays {about.env_id} with {len(about.action_meanings)} actions "
            f"({', '.join(about.action_meanings)}), {game.env_id} has {len(game.action_meanings)} "
            f"({', '.join(game.action_meanings)}): name an agent of this game"
        )


def play(
    games: Sequence[Game],
    player: Player,
    sight: Sight,
    *,
    epsilon: float,
    seed: int,
    progress: Callable[[int], None] = lambda decision: None,
) -> Plays:
    """Play every game to its end, all at once, the player seeing only what ``sight`` shows; each action is random
    with probability ε.

    The random numbers of a play follow from the seed and its number, not from what is shown or how the others fare:
    perfect predictions give the emulator's score.
    """
    rngs = [generator("predicted-play", seed, row) for row in range(len(games))]
    scores, decisions = np.zeros(len(games)), np.zeros(len(games), np.int64)
    rows = np.arange(len(games))
    first = np.stack([game.reset(derived_seed("play", seed, row)) for row, game in enumerate(games)])
    seen = FrameHistory(len(games), player.stack, AGENT_SIZE)
    seen.begin(sight.begin(first)[:, None])
    while len(rows):
        coins = [(rngs[row].random() < epsilon, rngs[row].integers(player.actions)) for row in rows.tolist()]
        explores, drawn = (np.array(each) for each in zip(*coins, strict=True))
        actions = np.where(explores, drawn, player.act(seen.frames))
        steps = [games[row].step(action) for row, action in zip(rows.tolist(), actions.tolist(), strict=True)]
        scores[rows] += [step.reward for step in steps]
        decisions[rows] += 1
        seen.add(sight.see(actions, np.stack([step.frame for step in steps])))
        going = np.flatnonzero([not (step.terminated or step.truncated) for step in steps])
        if len(going) < len(rows):
            rows = rows[going]
            seen.keep(going)
            sight.keep(going)
        progress(int(decisions.max()))
    return Plays(tuple(scores.tolist()), tuple(decisions.tolist()))
