"""Imagined games for Stable-Baselines3 and for acvp's DQN: what an agent sees, all games in one batch.

Shapes: E games.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.agents.observation import Gray
from acvp.agents.vector import Moment, PlayVecEnv
from acvp.control.imagined import MAX_STEPS, ImaginedPlays
from acvp.control.viewing import Pixels, agent_view
from acvp.data.store import EpisodeStore
from acvp.evaluation.config import Device
from acvp.models import Predictor
from acvp.seeding import generator

NO_LIVES = -1


class ImaginedVecEnv(PlayVecEnv):
    """Games that are played in a predictor, in place of the real ones: observations (E, 4, 84, 84)."""

    can_save = False

    def __init__(
        self,
        predictor: Predictor | str | Path,
        store: EpisodeStore | str | Path,
        *,
        games: int,
        seed: int,
        max_steps: int = MAX_STEPS,
        device: Device = "auto",
    ) -> None:
        """Take what `acvp/Imagined-v0` takes; where plays begin follows from the seed and the plays before."""
        self._imagined = ImaginedPlays(
            predictor, store, plays=games, observation="frame", max_steps=max_steps, device=device
        )
        self._seed = seed
        info = self._imagined.imagination.store.info
        super().__init__(games, info.env_id, info.action_meanings)

    def close(self) -> None:
        """Do nothing: a predictor goes with its last reference."""

    def _begin_all(self) -> list[tuple[Gray, int]]:
        self._imagined.begin(np.arange(self.num_envs), self._rng())
        return [(frame, NO_LIVES) for frame in self._seen()]

    def _advance(self, actions: NDArray[np.int64]) -> list[Moment]:
        rewards, ends, cut_off = self._imagined.step(np.asarray(actions, np.int64))
        last, over = self._seen(), ends | cut_off
        self._imagined.begin(np.flatnonzero(over), self._rng())
        first = self._seen()
        return [
            Moment(
                last[game], float(rewards[game]), bool(ends[game]), bool(cut_off[game]), NO_LIVES,
                first[game] if over[game] else None,
            )
            for game in range(self.num_envs)
        ]  # fmt: skip

    def _rng(self) -> np.random.Generator:
        """Return what draws the next places to begin from."""
        return generator("imagined games", self._seed, sum(play.number + 1 for play in self.plays))

    def _seen(self) -> Pixels:
        """Return the newest frames as an agent sees them, (E, 84, 84), the caller's to keep."""
        return agent_view(self._imagined.frames).copy()
