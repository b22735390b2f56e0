"""Windows in torch: the batches of a DataLoader, whatever its workers, are those of `Windows`."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from acvp.data.collect import CollectConfig, collect
from acvp.data.dataset import WindowDataset
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows

WINDOW = Window(context=2, horizon=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    folder: Path = tmp_path_factory.mktemp("dataset") / "s"
    return collect(CollectConfig(env_id="acvp/Toy-v0", out=folder, frames=300, max_steps=40, seed=3))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_yields_the_batches_of_the_steps_in_order(store: EpisodeStore, workers: int) -> None:
    dataset = WindowDataset(store, WINDOW, 3, seed=7, first_step=4, steps=5)
    batches = list(DataLoader(dataset, batch_size=None, num_workers=workers))
    windows = Windows(store, WINDOW, RGB)
    assert len(batches) == 5
    for step, batch in enumerate(batches, 4):
        expected = windows.batch(windows.draw(3, seed=7, step=step))
        assert batch.frames.dtype == torch.uint8
        assert np.array_equal(batch.frames, expected.frames)
        assert np.array_equal(batch.actions, expected.actions)
        assert np.array_equal(batch.rewards, expected.rewards)
        assert np.array_equal(batch.terminated, expected.terminated)


def test_without_a_number_of_steps_the_batches_do_not_end(store: EpisodeStore) -> None:
    first, *_, last = islice(WindowDataset(store, WINDOW, 2), 40)
    assert first.actions.shape == last.actions.shape == (2, 2)


def test_recording_needs_no_torch() -> None:
    code = "import sys, acvp.data.collect, acvp.data.windows, acvp.data.statistics; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
