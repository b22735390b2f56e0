"""Which windows a run is trained on."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from acvp.data.statistics import step_priorities, window_priorities
from acvp.data.store import EpisodeStore
from acvp.training.data import TrainingData
from tests.training.small import small_config


def test_batches_emphasize_what_a_phase_asks_for(store: EpisodeStore) -> None:
    training = small_config()
    phase = replace(training.phases[1], batch_size=6, priority_share=0.5, event_share=0.25)
    data = TrainingData(store, training)
    windows = data.windows(phase)
    rare, eventful = data.priorities(windows, phase)
    assert (rare.share, eventful.share) == (0.5, 0.25)
    assert np.allclose(rare.cumulative, np.cumsum(window_priorities(windows, step_priorities(data.train))))
    assert np.array_equal(eventful.cumulative, np.cumsum(windows.event_weights()))
    expected = windows.draw(6, seed=training.seed, step=4, priorities=(rare, eventful))
    assert not np.array_equal(expected, windows.draw(6, seed=training.seed, step=4))
    whole = list(islice(data.batches(phase, 0, rank=0, world_size=1, threads=1), 5))[4]
    resumed = next(data.batches(phase, 4, rank=0, world_size=1, threads=1))
    halves = [next(data.batches(phase, 4, rank=rank, world_size=2, threads=1)).frames for rank in (0, 1)]
    assert np.array_equal(whole.frames, windows.batch(expected).frames)
    assert np.array_equal(whole.frames, resumed.frames)
    assert np.array_equal(whole.frames, np.concatenate(halves))


def test_without_a_priority_nothing_is_computed(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.training.data.step_priorities", None)
    training = small_config()
    data = TrainingData(store, training)
    assert data.priorities(data.windows(training.phases[0]), training.phases[0]) == ()


@pytest.mark.parametrize("seed", [1, 2])
def test_held_out_windows_are_of_the_test_part(store: EpisodeStore, seed: int) -> None:
    data = TrainingData(store, small_config(seed=seed))
    batch, horizons = data.held_out()
    assert not set(data.held_out_episodes) & {entry.number for entry in data.train.entries}
    assert batch.palette is not None
    tested = [data.test[k].frames() for k in range(len(data.test))]
    length = 11 + max(horizons)
    legal = {episode[s : s + length].tobytes() for episode in tested for s in range(len(episode) - length + 1)}
    assert all(batch.palette[window].tobytes() in legal for window in batch.frames)


def test_the_mean_image_is_of_the_training_part_alone(store: EpisodeStore) -> None:
    data = TrainingData(store, small_config())
    train = np.concatenate([data.train[k].frames() for k in range(len(data.train))])
    every = np.concatenate([episode.frames() for episode in store])
    np.testing.assert_allclose(data.mean(), train.mean(0), rtol=1e-5)
    assert np.abs(train.mean(0) - every.mean(0)).max() > 0.1
