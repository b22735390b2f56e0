"""Plays side by side that exist in a predictor only, each begun from real frames of a store.

Shapes: B plays, R some of them, T given frames, H height, W width, C channels.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.control.states import join_rows, select_rows
from acvp.control.viewing import Pixels
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.evaluation.subjects import Subject, check_alike
from acvp.models import State

Rows = NDArray[np.int64]


class Imagined(NamedTuple):
    """What one decision in every play led to."""

    frames: Pixels
    """(B, H, W, C)"""
    rewards: NDArray[np.float64]
    """(B,): −1, 0 or 1, the likeliest sign of the reward."""
    ends: NDArray[np.bool_]
    """(B,): the end of the episode is likelier than not."""


class Start(NamedTuple):
    """Real frames that plays begin with, and where they come from."""

    frames: Pixels
    """(R, T, H, W, C), as many as the predictor needs."""
    episodes: NDArray[np.int64]
    """(R,): number of the episode in the store."""
    times: NDArray[np.int64]
    """(R,): the last of the frames, counted in the episode from 0."""


class Imagination:
    """A batch of imagined plays; each may be begun anew at any time."""

    def __init__(self, subject: Subject, store: EpisodeStore, plays: int) -> None:
        check_alike([subject], store)
        self.subject, self.store, self.plays = subject, store, plays
        self._windows = Windows(store, Window(subject.predictor.context, 1), subject.view)  # never the last frame
        self._groups: list[tuple[Rows, State]] = []
        """Plays that were begun together, or have all been stepped since."""
        self._refuse_silent_predictor()

    def begin(self, rows: Rows, rng: np.random.Generator) -> Start:
        """Begin some plays from real frames drawn at random."""
        start = self._draw(len(rows), rng)
        if not len(rows):
            return start
        groups = []
        for members, state in self._groups:
            kept = np.flatnonzero(~np.isin(members, rows))
            if len(kept):
                groups.append((members[kept], select_rows(state, kept)))
        self._groups = [*groups, (rows, self._observe(start.frames))]
        return start

    @torch.inference_mode()
    def step(self, actions: NDArray[np.int64]) -> Imagined:
        """Take a decision (B,) in every play."""
        order = np.concatenate([rows for rows, _ in self._groups])
        steps = [self.subject.predictor.predict(state, self._tensor(actions[rows])) for rows, state in self._groups]
        sorting = np.argsort(order)
        state = select_rows(join_rows([state for _, state in steps]), sorting)
        self._groups = [(order[sorting], state)]
        pixels = self.subject.predictor.normaliser.to_uint8(torch.cat([frame for frame, _ in steps]))
        return Imagined(pixels.numpy(force=True)[sorting], *_outcome(state))

    @torch.inference_mode()
    def _observe(self, frames: Pixels) -> State:
        predictor = self.subject.predictor
        return predictor.observe(predictor.normaliser.to_float(self._tensor(frames)))

    def _draw(self, count: int, rng: np.random.Generator) -> Start:
        numbers = rng.integers(len(self._windows), size=count)
        places = [self._windows.locate(number) for number in numbers.tolist()]
        last = self.subject.predictor.context - 1
        return Start(
            frames=self._windows.batch(numbers).frames[:, :-1],
            episodes=np.array([self.store.entries[position].number for position, _ in places]),
            times=np.array([first + last for _, first in places]),
        )

    def _tensor(self, values: NDArray[np.uint8] | NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.subject.device)

    @torch.inference_mode()
    def _refuse_silent_predictor(self) -> None:
        frames = self._draw(1, np.random.default_rng(0)).frames
        _, state = self.subject.predictor.predict(self._observe(frames), self._tensor(np.zeros(1, np.int64)))
        if state.outcome is None:
            raise UserError(
                f"{self.subject.name} predicts frames only, and an imagined game needs rewards and ends: train a "
                "predictor that has them with acvp train --outcome-heads, or one with --model pixel"
            )


def _outcome(state: State) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the likeliest reward signs and ends, (B,) each."""
    if state.outcome is None:
        raise RuntimeError("the predictor gave an outcome before, and now it gives none")
    signs = state.outcome.reward.argmax(1).numpy(force=True) - 1.0
    return signs, state.outcome.end.numpy(force=True) > 0
