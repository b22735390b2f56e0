"""Where every action leads: the two sources that informed exploration can ask.

A source is told of every frame of every play, and gives the frames that each action leads to as an agent sees them.

Shapes: B plays, R some of them, A actions, L decisions looked ahead, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.control.states import select_rows
from acvp.control.viewing import FrameHistory, Pixels, agent_view, predictor_view
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor, imagine

Rows = NDArray[np.int64]


class FutureSource(Protocol):
    """Knows, or thinks to know, where every action leads."""

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (B, H, W, C) of every play, and which plays (B,) begin with it."""

    def futures(self, rows: Rows) -> Pixels:
        """Return the frames (R, A, L, 84, 84) of some plays after each action, held for L decisions."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it has to know to go on later."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""


def require_look_ahead(look_ahead: int) -> None:
    """Refuse to look ahead by less than a decision."""
    if look_ahead < 1:
        raise UserError(f"--look-ahead {look_ahead}: at least 1 decision")


class ModelSource:
    """Asks a predictor: informed-model."""

    def __init__(self, predictor: Predictor, *, look_ahead: int = 1) -> None:
        require_look_ahead(look_ahead)
        self.predictor, self.look_ahead = predictor, look_ahead
        self._history: FrameHistory | None = None

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Keep as many of the last frames as the predictor needs."""
        seen = predictor_view(self.predictor, frames)
        if self._history is None:
            self._history = FrameHistory(len(seen), self.predictor.context, seen.shape[1:])
            self._history.begin(seen[:, None])
            return
        self._history.add(seen)
        rows = np.flatnonzero(begins)
        self._history.begin(seen[rows, None], rows)

    @torch.inference_mode()
    def futures(self, rows: Rows) -> Pixels:
        """Predict every action's future; of one decision all actions share one encoding."""
        if self._history is None:
            raise RuntimeError("no frame has been seen yet: call see before futures")
        predictor, normaliser = self.predictor, self.predictor.normaliser
        real = torch.from_numpy(self._history.frames[rows]).to(normaliser.mean.device)
        state = predictor.observe(normaliser.to_float(real))
        if self.look_ahead == 1:
            return self._pixels(predictor.predict_all(state)[:, :, None])
        held = torch.arange(predictor.actions, device=real.device).repeat(len(rows))  # (R·A,)
        state = select_rows(state, np.repeat(np.arange(len(rows)), predictor.actions))
        plan = held[:, None].expand(-1, self.look_ahead)
        frames = torch.stack([frame for frame, _ in imagine(predictor, state, plan)], 1)
        return self._pixels(frames.view(len(rows), -1, *frames.shape[1:]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the last frames."""
        return {} if self._history is None else {"history": self._history.frames}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on with the last frames of a state."""
        frames = state["history"].astype(np.uint8)
        self._history = FrameHistory(len(frames), frames.shape[1], frames.shape[2:])
        self._history.begin(frames)

    def _pixels(self, frames: Tensor) -> Pixels:
        """Return normalised frames (R, A, L, C, H, W) as an agent sees them."""
        return agent_view(self.predictor.normaliser.to_uint8(frames).numpy(force=True))


class EmulatorSource:
    """Tries every action in the game itself and takes it back: informed-emulator."""

    def __init__(self, games: Sequence[Game], *, look_ahead: int = 1) -> None:
        """``games`` are those that are played, one for each play; their states are saved and restored."""
        require_look_ahead(look_ahead)
        for game in games:
            if not game.can_save:
                raise UserError(
                    f"informed-emulator tries every action and takes it back, and {game.env_id} cannot save its state: "
                    "give its env save_state and restore_state (docs/environments.md), or use informed-model"
                )
        self.games, self.look_ahead = games, look_ahead

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing: the games know where they are."""

    def futures(self, rows: Rows) -> Pixels:
        """Play every action's future; the games are left as they were."""
        return agent_view(np.stack([self._of(self.games[row]) for row in rows.tolist()]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return nothing: the games know where they are."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Do nothing."""

    def _of(self, game: Game) -> Pixels:
        now = game.save()
        futures = []
        for action in range(len(game.action_meanings)):
            futures.append(_held(game, action, self.look_ahead))
            game.restore(now)
        return np.stack(futures)


def _held(game: Game, action: int, decisions: int) -> Pixels:
    """Return the frames (L, H, W, 3) of an action that is held; a game that ends keeps its last frame."""
    frames, ended = [], False
    for _ in range(decisions):
        if not ended:
            frame, _, terminated, truncated = game.step(action)
            ended = terminated or truncated
        frames.append(frame)
    return np.stack(frames)
