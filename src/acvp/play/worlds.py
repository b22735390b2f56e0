"""What a dream is compared with: a game that runs, or a recorded episode.

Frames are uint8 (H, W, 3) as recorded, whatever the predictor's view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.data.replay import replay_game
from acvp.data.store import EpisodeStore
from acvp.envs import Game, Step
from acvp.errors import UserError

Frame = NDArray[np.uint8]  # (H, W, 3)


class World(ABC):
    """True frames, one a decision."""

    recorded_action: int | None = None
    """What the recording does next; None where nothing is recorded."""

    @abstractmethod
    def step(self, action: int) -> Step:
        """Return what an action leads to."""

    @abstractmethod
    def save(self) -> Any:
        """Return what `restore` needs to come back to this moment; None where that is impossible."""

    @abstractmethod
    def restore(self, saved: Any) -> None:
        """Come back to a saved moment."""

    def position(self) -> tuple[float, float] | None:
        """Return (row, column) of the controlled object; None while it is not known."""
        return None

    def size_of(self, saved: Any) -> int:
        """Return the bytes that a saved moment takes."""
        return 0


class LiveWorld(World):
    """A game that runs."""

    def __init__(self, game: Game) -> None:
        self.game = game

    def reset(self, seed: int) -> Frame:
        """Begin an episode and return its first frame."""
        return self.game.reset(seed)

    def step(self, action: int) -> Step:
        """Hold an action for one decision."""
        return self.game.step(action)

    def save(self) -> Any:
        """Return the game's state, None where it cannot tell it."""
        return self.game.save() if self.game.can_save else None

    def restore(self, saved: Any) -> None:
        """Put the game back."""
        self.game.restore(saved)

    def position(self) -> tuple[float, float] | None:
        """Return where the game says its controlled object is."""
        return self.game.controlled_position()

    def size_of(self, saved: Any) -> int:
        """Return the bytes of the game's own state."""
        return 0 if saved is None else len(saved.payload)


class RecordedWorld(World):
    """An episode of a store; its actions are given, another one needs the game itself."""

    def __init__(self, store: EpisodeStore, position: int, frame: int) -> None:
        if not 0 <= position < len(store):
            raise UserError(f"episode {position}: the store has episodes 0 to {len(store) - 1}")
        self.store, self.position_in_store, self.episode = store, position, store[position]
        if not 0 <= frame < len(self.episode):
            raise UserError(f"frame {frame}: episode {position} has frames 0 to {len(self.episode) - 1}")
        self.at = frame

    @property
    def recorded_action(self) -> int | None:  # type: ignore[override]
        """The action that was taken here; None at the end."""
        actions = self.episode.actions
        return int(actions[self.at]) if self.at < len(actions) else None

    def before(self, count: int) -> tuple[list[Frame], list[int]]:
        """Return up to `count` frames that end here, oldest first, and the actions between them."""
        first = max(0, self.at + 1 - count)
        return list(self.episode.frames(first, self.at + 1)), self.episode.actions[first : self.at].tolist()

    def step(self, action: int) -> Step:
        """Go on by the recorded action, which is the one to be passed."""
        assert action == self.recorded_action, f"{action} is not what was recorded"
        frame, reward = self.episode.frames(self.at + 1, self.at + 2)[0], float(self.episode.rewards[self.at])
        self.at += 1
        over = self.recorded_action is None
        return Step(frame, reward, over and self.episode.header.terminated, over)

    def save(self) -> Any:
        """Return the number of the frame."""
        return self.at

    def restore(self, saved: Any) -> None:
        """Go to a frame."""
        self.at = saved

    def take_over(self) -> LiveWorld:
        """Return the game itself at this frame, by playing the recorded actions up to it."""
        game = replay_game(self.store)
        game.reset(self.episode.header.seed)
        for action in self.episode.actions[: self.at].tolist():
            game.step(action)
        return LiveWorld(game)
