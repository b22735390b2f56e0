"""What an agent is shown while it plays: the game's own frames, or only predicted ones.

Shapes: B plays, H height, W width.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.control.states import select_rows
from acvp.control.viewing import AGENT_SIZE, FrameHistory, Pixels, agent_view, predictor_view
from acvp.models import Predictor, State

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
        predictor, normaliser = self.predictor, self.predictor.normaliser
        device = normaliser.mean.device
        if self._state is None or self._depth == self.reground_every:
            real = torch.from_numpy(self._real.frames).to(device)
            self._state, self._depth = predictor.observe(normaliser.to_float(real)), 0
        frame, self._state = predictor.predict(self._state, torch.from_numpy(actions).to(device))
        self._depth += 1
        return agent_view(normaliser.to_uint8(frame).numpy(force=True))
