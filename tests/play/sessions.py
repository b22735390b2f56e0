"""Small sessions: predictors of ToyGame, one of which moves only the player, and model pools of them."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.frames import GRAY_84, RGB, View
from acvp.envs import make_game
from acvp.envs.toy import CELL, TOY_ID
from acvp.models import About, MlpConfig, Predictor, build_predictor
from acvp.models.baselines import CopyLastFrame, CopyLastFrameConfig
from acvp.play.model_pool import ModelPool
from acvp.play.session import Session
from tests.evaluation.predictors import Knowing

MEANINGS = ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")
NOOP, UP, DOWN, LEFT, RIGHT = range(5)
MOVES = ((0, 0), (-1, 0), (1, 0), (0, -1), (0, 1))
PLAYER, WALL, FLOOR = (240, 240, 240), (110, 110, 110), (0, 0, 0)

Frame = NDArray[np.uint8]


def player(frame: Frame) -> tuple[int, int]:
    """Return the cell (row, column) of the player in a frame of ToyGame."""
    rows, columns = np.nonzero((frame == PLAYER).all(-1))
    return int(rows[0]) // CELL, int(columns[0]) // CELL


class StandStill(Knowing):
    """Knows how ToyGame's player moves among walls; ball, goal and lives stay as they were last seen."""

    def __init__(self, context: int = 2, env_id: str = TOY_ID) -> None:
        super().__init__((24, 24, 3), 5, context)
        self.about = About(env_id=env_id, view="rgb", action_meanings=MEANINGS)

    def recognize(self, frames: Frame) -> Frame:
        last: Frame = frames[-1]
        return last

    def go_on(self, known: Frame, action: int) -> tuple[Frame, Frame]:
        cells, (row, column) = known[::CELL, ::CELL].copy(), player(known)
        down, right = MOVES[action]
        if tuple(cells[row + down, column + right]) not in (WALL, (230, 200, 40)):
            cells[row, column] = FLOOR
            cells[row + down, column + right] = PLAYER
        frame = cells.repeat(CELL, 0).repeat(CELL, 1)
        return frame, frame


def network(view: View = RGB, *, env_id: str = TOY_ID, predict_rewards: bool = True, seed: int = 1) -> Predictor:
    """Return a small network of random weights for ToyGame."""
    frame = view.shape((24, 24, 3))
    config = MlpConfig(actions=5, frame=frame, hidden=(6, 8, 10, 7), predict_rewards=predict_rewards)
    predictor = build_predictor(config, torch.Generator().manual_seed(seed)).eval()
    predictor.normalizer.set_mean(torch.rand(frame, generator=torch.Generator().manual_seed(seed)) * 200)
    predictor.about = About(env_id=env_id, view=view.name, action_meanings=MEANINGS)
    return predictor


def model_pool() -> ModelPool:
    """Return a pool of three predictors, the first of which knows something, and copy-last-frame."""
    return ModelPool({"still": StandStill, "net": network, "gray": lambda: network(GRAY_84, predict_rewards=False)})


class SamplingCopy(CopyLastFrame):
    """Repeats the last frame, darker by the temperature, so that sampling can be seen."""

    temperature = 0.0

    def sample(self, temperature: float = 1.0, seed: int = 0) -> None:
        self.temperature = temperature

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, None]:
        frame, outcome = super().next_frame(stacked, action)
        return frame - self.temperature, outcome


def atari_pool(env_id: str = "ALE/Seaquest-v5") -> ModelPool:
    """Return a pool with a predictor of an Atari game that costs nothing: it repeats the last frame."""

    def copy_last() -> Predictor:
        with make_game(env_id) as game:
            sizes = CopyLastFrameConfig(actions=len(game.action_meanings), frame=game.frame_shape, pixel_scale=255.0)
            about = About(env_id=env_id, view="rgb", action_meanings=game.action_meanings)
        predictor = SamplingCopy(sizes).eval()
        predictor.about = about
        return predictor

    return ModelPool({"copy": copy_last})


def make_session(**options: object) -> Session:
    return Session(model_pool(), **options)  # type: ignore[arg-type]


def play_on(session: Session, *actions: int) -> None:
    """Hold each action for one step."""
    for action in actions:
        session.hold(action)
        session.step()


def same(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is not None and other is not None and np.array_equal(one, other)


def imagining_session(**options: object) -> Session:
    """Return a session whose predictor has seen its context frames."""
    session = make_session(**options)
    play_on(session, NOOP)
    return session
