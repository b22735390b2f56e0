"""The data of a training run: the split dataset, its mean image, batches by step and on the device, held-out windows.

Shapes: B windows, L frames of a window, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.episode import CHUNK_FRAMES
from acvp.data.frames import RGB, View, get_view
from acvp.data.merge import refuse_leaks, split_positions
from acvp.data.statistics import Arrays, cached, step_priorities, window_priorities
from acvp.data.store import EpisodeStore
from acvp.data.windows import Priority, Window, WindowBatch, Windows, stream
from acvp.errors import UserError
from acvp.models import DatasetSplit, Predictor, TrainingBatch
from acvp.seeding import generator
from acvp.training.config import Phase, TrainingConfig

HELD_OUT_CONTEXT = 11
"""Real frames of a held-out window: the recurrent network's, so that all predictors are compared on the same ones."""
HELD_OUT_STEP = 2**31
"""Held-out windows are drawn as those of a step that training never reaches."""


def to_device(batch: WindowBatch, predictor: Predictor) -> TrainingBatch:
    """Return a batch of windows on a predictor's device, as its loss takes them."""
    device = predictor.normalizer.mean.device
    frames = torch.from_numpy(batch.frames).to(device, non_blocking=True)
    palette = None if batch.palette is None else torch.from_numpy(batch.palette.copy()).to(device)
    return TrainingBatch(
        predictor.training_frames(frames, palette),
        torch.from_numpy(batch.actions).to(device),
        torch.from_numpy(batch.rewards).to(device),
        torch.from_numpy(batch.terminated).to(device),
        lost_lives=torch.from_numpy(batch.lost_lives).to(device),
    )


class TrainingData:
    """A dataset split in two, in the view of the predictor to train."""

    def __init__(self, store: EpisodeStore, training: TrainingConfig) -> None:
        self.store, self.config = store, training
        if not len(store):
            raise UserError(f"{store.path}: the dataset has no episodes; record some with acvp collect")
        train, self.held_out_episodes = split_positions(store, test_fraction=training.test_fraction, seed=training.seed)
        self.train, self.test = store.subset(train), store.subset(self.held_out_episodes)
        refuse_leaks(self.train, self.test)
        self.view = get_view(training.view)
        self._priorities: list[NDArray[np.float64]] | None = None
        self._stored_as_seen = not self.view.gray and self.view.size is None

    def mean(self) -> Tensor:
        """Return the mean image (H, W, C) of the training part."""
        return torch.from_numpy(mean_frame(self.train, self.view, seed=self.config.seed))

    def as_split(self) -> DatasetSplit:
        """Return the data as a predictor looks at it before training."""
        return DatasetSplit(train=self.train, held_out=self.test, view=self.view, seed=self.config.seed)

    def windows(self, phase: Phase) -> Windows:
        """Return the training windows of a phase."""
        window = Window(phase.context, phase.predict)
        return Windows(self.train, window, None if self._stored_as_seen else self.view)

    def compute_priorities(self, progress: Callable[[int, int], None] = lambda done, total: None) -> None:
        """Compute the sampling priority of each step of the training part, once; `progress` may raise to stop it."""
        if self._priorities is None:
            self._priorities = step_priorities(self.train, progress)

    def priorities(self, windows: Windows, phase: Phase) -> tuple[Priority, ...]:
        """Return which of a phase's windows are drawn more often than others."""
        priorities: tuple[Priority, ...] = ()
        if phase.priority_share:
            self.compute_priorities()
            assert self._priorities is not None
            weights = self._shared(windows, window_priorities(windows, self._priorities))
            priorities += windows.priority(phase.priority_share, weights)
        if phase.event_share:
            priorities += windows.priority(phase.event_share, self._shared(windows, self._event_weights(windows)))
        if self.config.shares:  # all the rest
            priorities += windows.priority(1.0, self._shared(windows, np.ones(len(windows))))
        return priorities

    def _event_weights(self, windows: Windows) -> NDArray[np.float64]:
        """Return weights by the events that the predictor learns."""
        return windows.event_weights(lost_lives=getattr(self.config.predictor, "predict_lives", False))

    def _shared(self, windows: Windows, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        return windows.share_out(weights, self.config.shares) if self.config.shares else weights

    def batches(
        self, phase: Phase, first_step: int, *, rank: int, world_size: int, threads: int
    ) -> Generator[WindowBatch]:
        """Yield this process's share of the batches of steps first_step, first_step + 1, … without end."""
        size = phase.batch_size // world_size
        windows, seed = self.windows(phase), self.config.seed
        batches = stream(
            windows, size, seed=seed, first_step=first_step, rank=rank, world_size=world_size, threads=threads,
            ahead=threads + 1, priorities=self.priorities(windows, phase),
        )  # fmt: skip
        yield from batches

    def held_out(self) -> tuple[WindowBatch, tuple[int, ...]]:
        """Return the held-out windows and the horizons that fit into the test episodes; both follow from the seed."""
        windows, horizons = self.test_windows()
        numbers = windows.draw(self.config.windows, seed=self.config.seed, step=HELD_OUT_STEP)
        return windows.batch(numbers), horizons

    def test_windows(self) -> tuple[Windows, tuple[int, ...]]:
        """Return all windows of the test episodes, and the horizons that fit into them."""
        longest = max(entry.frames for entry in self.test.entries)
        context = max(HELD_OUT_CONTEXT, self.config.predictor.context)
        horizons = tuple(h for h in self.config.horizons if context + h <= longest)
        if not horizons:
            context = self.config.predictor.context  # padded where an episode is shorter
            horizons = tuple(h for h in self.config.horizons if h < longest) or (min(self.config.horizons),)
        window = Window(context, max(horizons))
        return Windows(self.test, window, None if self._stored_as_seen else self.view), horizons


MEAN_FRAMES = 50_000
"""Of larger datasets, chunks are drawn at random: more frames do not change the mean visibly."""


def mean_frame(store: EpisodeStore, view: View = RGB, *, seed: int = 0) -> NDArray[np.float32]:
    """Return the mean over all frames of a dataset, per pixel and channel, in pixel values: (h, w, channels).

    It is computed once for a dataset and cached beside it.
    """

    def compute() -> Arrays:
        return {"mean": _mean_frame(store, view, seed)}

    return cached(store, "mean", {"view": view.name, "seed": seed, "frames": MEAN_FRAMES}, compute)["mean"]


def _mean_frame(store: EpisodeStore, view: View, seed: int) -> NDArray[np.float32]:
    """Compute the mean of `mean_frame`."""
    stops = np.cumsum([-(-entry.frames // CHUNK_FRAMES) for entry in store.entries])  # of the chunks of each episode
    numbers = np.arange(stops[-1] if len(stops) else 0)
    if store.frames > MEAN_FRAMES:
        drawn = generator("mean", seed).choice(len(numbers), MEAN_FRAMES // CHUNK_FRAMES, replace=False)
        numbers = np.sort(drawn)
    positions = np.searchsorted(stops, numbers, side="right")
    firsts = (numbers - np.concatenate(([0], stops))[positions]) * CHUNK_FRAMES
    total, count = np.zeros(view.shape(store.info.frame_shape), np.float64), 0
    for i, first in zip(positions.tolist(), firsts.tolist(), strict=True):
        episode = store[i]
        frames = view.apply(episode.stored(first, min(first + CHUNK_FRAMES, len(episode))), episode.palette)
        total += frames.sum(axis=0, dtype=np.uint32)
        count += len(frames)
    return (total / max(count, 1)).astype(np.float32)
