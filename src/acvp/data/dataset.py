"""Windows as a torch IterableDataset, for training loops of your own.

    from torch.utils.data import DataLoader

    dataset = WindowDataset(EpisodeStore("stores/freeway"), Window(context=4, horizon=1), batch_size=32, seed=0)
    for batch in DataLoader(dataset, batch_size=None, num_workers=2):
        frames, actions = batch.frames, batch.actions  # uint8 (32, 5, 210, 160, 3), int64 (32, 4)

This is the only module of acvp.data that imports torch.

Shapes: B windows, L = context + horizon frames, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from acvp.data.frames import RGB, View
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows


class TensorBatch(NamedTuple):
    """Windows side by side: frames[:, t], actions[:, t] → frames[:, t + 1]."""

    frames: Tensor
    """uint8 (B, L, h, w, C)"""
    actions: Tensor
    """int64 (B, L - 1)"""
    rewards: Tensor
    """float32 (B, L - 1)"""
    terminated: Tensor
    """bool (B, L - 1): the game ended by its own rules with this action."""


class WindowDataset(IterableDataset[TensorBatch]):
    """Batches of uniformly drawn windows; the batch of a step follows from the seed and the step alone.

    A DataLoader with `batch_size=None` yields the same batches in the same order for any number of workers.
    """

    def __init__(
        self,
        store: EpisodeStore,
        window: Window,
        batch_size: int,
        *,
        seed: int = 0,
        view: View = RGB,
        first_step: int = 0,
        steps: int | None = None,
    ) -> None:
        """Draw the batches of steps first_step, first_step + 1, …; `steps` is their number, None: without end."""
        super().__init__()
        self.windows = Windows(store, window, view)
        self.batch_size, self.seed, self.first_step, self.steps = batch_size, seed, first_step, steps

    def __iter__(self) -> Iterator[TensorBatch]:
        worker = get_worker_info()
        offset, stride = (0, 1) if worker is None else (worker.id, worker.num_workers)
        for step in count(self.first_step + offset, stride):
            if self.steps is not None and step >= self.first_step + self.steps:
                return
            yield self._batch(step)

    def _batch(self, step: int) -> TensorBatch:
        batch = self.windows.batch(self.windows.draw(self.batch_size, seed=self.seed, step=step))
        return TensorBatch(
            torch.from_numpy(np.ascontiguousarray(batch.frames)),
            torch.from_numpy(batch.actions),
            torch.from_numpy(batch.rewards),
            torch.from_numpy(batch.terminated),
        )
