"""Predictors that cheat: they know the truth, know it a step late, or ignore the action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.frames import RGB, View
from acvp.data.replay import replay_game
from acvp.data.store import EpisodeStore
from acvp.envs import SavedState
from acvp.loaded import LoadedModel
from acvp.models import About, CopyLastFrameConfig, MlpConfig, Predictor, State, build_predictor
from acvp.models.predictor import Predictions
from tests.data.answers import answer_frame, read_answer


@dataclass(frozen=True, kw_only=True)
class KnowingState(State):
    """What was seen or predicted last, row by row, and whatever else the cheat knows."""

    known: tuple[Any, ...]


class Knowing(Predictor):
    """A predictor whose next frame comes from a function and not from a network."""

    def __init__(self, frame: tuple[int, int, int], actions: int, context: int = 1) -> None:
        super().__init__(CopyLastFrameConfig(actions=actions, frame=frame))
        self.context = context
        self.normalizer.set_mean(torch.full(frame, 100.0))

    def recognize(self, frames: NDArray[np.uint8]) -> Any:
        """Return what is known after real frames (T, H, W, C) of one row."""
        raise NotImplementedError

    def go_on(self, known: Any, action: int) -> tuple[NDArray[np.uint8], Any]:
        """Return the next frame (H, W, C) of one row, and what is known then."""
        raise NotImplementedError

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> KnowingState:
        return KnowingState(known=tuple(map(self.recognize, self.normalizer.to_uint8(frames).numpy())))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, KnowingState]:
        assert isinstance(state, KnowingState)
        pairs = [self.go_on(known, int(a)) for known, a in zip(state.known, action.tolist(), strict=True)]
        frames = torch.from_numpy(np.stack([frame for frame, _ in pairs]))
        return self.normalizer.to_float(frames), replace(state, known=tuple(known for _, known in pairs))

    def predict_all(self, state: State) -> Tensor:
        assert isinstance(state, KnowingState)
        rows = len(state.known)
        frames = [self.predict(state, torch.full((rows,), action))[0] for action in range(self.actions)]
        return torch.stack(frames, 1)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        raise NotImplementedError


class Answers(Knowing):
    """Reads episode and index from a frame of an answer store and shows the frame `ahead` of the next one."""

    def __init__(self, ahead: int = 0) -> None:
        super().__init__((6, 8, 3), 3)
        self.ahead = ahead

    def recognize(self, frames: NDArray[np.uint8]) -> tuple[int, int]:
        return read_answer(frames[-1])

    def go_on(self, known: tuple[int, int], action: int) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        episode, index = known
        return answer_frame(episode, index + 1 + self.ahead), (episode, index + 1)


class Oracle(Knowing):
    """Finds the frames it is given in a store, plays the store's game up to there, and then plays on."""

    def __init__(self, store: EpisodeStore, context: int = 10) -> None:
        super().__init__(store.info.frame_shape, store.action_count, context)
        self.game = replay_game(store)
        self._moments = {
            frames[t + 1 - context : t + 1].tobytes(): (episode, t)
            for episode, frames in ((episode, episode.frames()) for episode in store)
            for t in range(context - 1, len(frames))
        }

    def recognize(self, frames: NDArray[np.uint8]) -> SavedState:
        episode, t = self._moments[frames[-self.context :].tobytes()]
        self.game.reset(episode.header.seed)
        for action in episode.actions[:t].tolist():
            self.game.step(action)
        return self.game.save()

    def go_on(self, known: SavedState, action: int) -> tuple[NDArray[np.uint8], SavedState]:
        self.game.restore(known)
        return self.game.step(action).frame, self.game.save()


def as_model(name: str, predictor: Predictor, view: View = RGB) -> LoadedModel:
    return LoadedModel(name=name, predictor=predictor.eval(), view=view)


def small_network(store: EpisodeStore, seed: int = 1, view: View = RGB, *, predict_rewards: bool = False) -> Predictor:
    """A small learned predictor with random weights, of a store's game."""
    info = store.info
    frame = view.shape(info.frame_shape)
    hidden = (6, 8, 10, 7)
    config = MlpConfig(actions=store.action_count, frame=frame, hidden=hidden, predict_rewards=predict_rewards)
    predictor = build_predictor(config, torch.Generator().manual_seed(seed)).eval()
    predictor.normalizer.set_mean(torch.rand(frame, generator=torch.Generator().manual_seed(seed)) * 200)
    predictor.about = About(env_id=info.env_id, view=view.name, action_meanings=info.action_meanings)
    return predictor
