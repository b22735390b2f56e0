"""An agent plays by what it is shown; the emulator executes its actions and gives the score (§4.2, figure 5).

Shapes: P plays, B of them that have not ended, H height, W width.

What an agent is shown while it plays: the game's own frames, or only predicted ones.

Shapes: B plays, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.agents.observations import AGENT_SIZE, FrameHistory, Pixels, agent_view, predictor_view
from acvp.agents.play import standard_error
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor, State
from acvp.models.rollout import select_rows
from acvp.seeding import derived_seed, generator

Rows = NDArray[np.int64]


class Sight(Protocol):
    """Turns what happens in the games into what the agent sees of it."""

    def begin(self, frames: Pixels) -> Pixels:
        """Return what the agent sees (B, 84, 84) of the first frames (B, H, W, 3)."""

    def see(self, actions: NDArray[np.int64], frames: Pixels) -> Pixels:
        """Return what the agent sees (B, 84, 84) after actions (B,) that truly led to frames (B, H, W, 3)."""

    def keep(self, rows: Rows) -> None:
        """Go on with some of the plays only."""


class TrueSight:
    """The game's own frames: the reference line `emulator`."""

    def begin(self, frames: Pixels) -> Pixels:
        """Return the first frames."""
        return agent_view(frames)

    def see(self, actions: NDArray[np.int64], frames: Pixels) -> Pixels:
        """Return the frames."""
        return agent_view(frames)

    def keep(self, rows: Rows) -> None:
        """Do nothing."""


class NoSight:
    """Nothing, for players that do not look: the reference lines `constant` and `random`."""

    def begin(self, frames: Pixels) -> Pixels:
        """Return black frames."""
        return np.zeros((len(frames), *AGENT_SIZE), np.uint8)

    def see(self, actions: NDArray[np.int64], frames: Pixels) -> Pixels:
        """Return black frames."""
        return self.begin(frames)

    def keep(self, rows: Rows) -> None:
        """Do nothing."""


class PredictedSight:
    """Predicted frames only, grounded in real ones every n decisions (figure 5).

    A predictor needs ``context`` real frames before its first prediction; until then the agent sees real ones.
    """

    def __init__(self, predictor: Predictor, reground_every: int) -> None:
        self.predictor, self.reground_every = predictor, reground_every
        self._state: State | None = None
        self._depth = 0
        """Predictions since real frames were last taken in."""

    def begin(self, frames: Pixels) -> Pixels:
        """Return the first frames: there is nothing to predict them from."""
        real = predictor_view(self.predictor, frames)
        self._real = FrameHistory(len(real), self.predictor.context, real.shape[1:])
        self._real.begin(real[:, None])
        self._known, self._state = 1, None
        return agent_view(frames)

    @torch.inference_mode()
    def see(self, actions: NDArray[np.int64], frames: Pixels) -> Pixels:
        """Return what the predictor expects of the actions; then learn what was true, for the next grounding."""
        enough = self._known >= self.predictor.context
        seen = self._predict(actions) if enough else agent_view(frames)
        self._real.add(predictor_view(self.predictor, frames))
        self._known += 1
        return seen

    def keep(self, rows: Rows) -> None:
        """Go on with some of the plays only."""
        self._real.keep(rows)
        if self._state is not None:
            self._state = select_rows(self._state, rows)

    def _predict(self, actions: NDArray[np.int64]) -> Pixels:
        predictor, normalizer = self.predictor, self.predictor.normalizer
        device = normalizer.mean.device
        if self._state is None or self._depth == self.reground_every:
            real = torch.from_numpy(self._real.frames).to(device)
            self._state, self._depth = predictor.observe(normalizer.to_float(real)), 0
        frame, self._state = predictor.predict(self._state, torch.from_numpy(actions).to(device))
        self._depth += 1
        return agent_view(normalizer.to_uint8(frame).numpy(force=True))


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
