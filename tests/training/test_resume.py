"""Promise 2: a resumed run is bit for bit the run that was never stopped."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.checkpoint import Checkpoint
from acvp.data.store import EpisodeStore
from acvp.training import run as session
from acvp.training.config import Phase, TrainingConfig
from acvp.training.state import Restored, from_checkpoint
from tests.faults import Trials, counted
from tests.training.small import Trace, run, small_config

STOPPED = 128 + 15


def telling_config(model: str = "feedforward", scale: int = 1) -> TrainingConfig:
    """Phases that end by steps, by the clock and by patience, so that every saved number has a say in what follows."""
    training = small_config(model)
    first = Phase(predict=1, context=training.predictor.context, batch_size=2, lr=1e-3, warmup=3, steps=7 * scale)
    by_clock = replace(first, predict=2, steps=None, minutes=5 * scale / 60, anneal=True)
    by_patience = replace(first, lr=1e-12, warmup=0, steps=100 * scale, patience=2)
    return replace(training, phases=(first, by_clock, by_patience), evaluate_every=2 * scale)


def test_the_config_uses_all_three_limits(store: EpisodeStore, tmp_path: Path, trace: Trace) -> None:
    text = io.StringIO()
    assert run(store, telling_config(), tmp_path / "run", text).exit_code == 0
    assert [update[0] for update in trace.updates] == list(range(1, 7 + 5 + 6 + 1))
    assert "finished at step 18" in text.getvalue()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "stops"),
    [
        pytest.param("feedforward", [3], id="mid-phase"),
        pytest.param("feedforward", [7], id="phase boundary"),
        pytest.param("mlp", [4], id="right after an evaluation"),
        pytest.param("no-action", [9, 10], id="two in a row"),
        pytest.param("recurrent", [2, 12, 16], id="three, the last with patience counting"),
    ],
)
def test_resume_is_never_having_stopped(
    store: EpisodeStore, tmp_path: Path, trace: Trace, stops: list[int], model: str
) -> None:
    training = telling_config(model)
    assert run(store, training, tmp_path / "whole", save_minutes=99).exit_code == 0
    whole, trace.updates = trace.updates, []
    for stop in stops:
        trace.stop_after = stop
        assert run(store, training, tmp_path / "parts", save_minutes=99).exit_code == STOPPED
    trace.stop_after = 0
    assert run(store, training, tmp_path / "parts", save_minutes=99).exit_code == 0
    assert trace.updates == whole
    files = [tmp_path / name / "predictor" / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()


def drop(name: str) -> Callable[[Restored], None]:
    """A loss of one item: the number is what it is at the start of a run."""
    fresh: dict[str, Any] = {"step": 0, "phase": 0, "phase_step": 0, "seconds": [0.0], "stale": 0}
    return lambda restored: setattr(restored.state, name, fresh.get(name, inf))


def drop_tensors(name: str) -> Callable[[Restored], None]:
    def zero(restored: Restored) -> None:
        for key, tensor in restored.optimizer.items():
            if key.endswith(name):
                tensor.zero_()

    return zero


def other_weights(restored: Restored) -> None:
    for tensor in restored.weights.values():
        tensor.mul_(1 + 1e-6)


ITEMS: dict[str, tuple[int, Callable[[Restored], None]]] = {
    "step": (3, drop("step")),
    "phase": (9, drop("phase")),
    "phase_step": (3, drop("phase_step")),
    "seconds": (9, drop("seconds")),
    "best": (3, drop("best")),
    "phase_best": (15, drop("phase_best")),
    "stale": (17, drop("stale")),
    "exp_avg": (3, drop_tensors("exp_avg")),
    "exp_avg_sq": (3, drop_tensors("exp_avg_sq")),
    "adam step": (3, drop_tensors(".step")),
    "weights": (3, other_weights),
}
"""What is dropped, and after which step."""


@pytest.mark.slow
@pytest.mark.parametrize("item", ITEMS)
def test_every_saved_item_matters(
    store: EpisodeStore, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch, item: str
) -> None:
    stop, corrupt = ITEMS[item]
    training = telling_config()
    run(store, training, tmp_path / "whole", save_minutes=99)
    whole, trace.updates = trace.updates, []
    trace.stop_after = stop
    assert run(store, training, tmp_path / "parts", save_minutes=99).exit_code == STOPPED

    def corrupted(checkpoint: Checkpoint) -> Restored:
        restored = from_checkpoint(checkpoint)
        corrupt(restored)
        return restored

    monkeypatch.setattr(session, "from_checkpoint", corrupted)
    trace.stop_after = 0
    run(store, training, tmp_path / "parts", save_minutes=99)
    assert trace.updates != whole


@pytest.mark.slow
@counted("2 resume is bit-identical for the next 200 updates", quick=1, full=10)
def test_resume_at_many_points(
    trials: Trials, store: EpisodeStore, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    scale = 40 if trials.full else 4
    training = telling_config(scale=scale)
    run(store, training, tmp_path / "whole", save_minutes=99)
    whole = trace.updates
    assert len(whole) >= 200 + 7 * scale or not trials.full
    aimed = [1, 7 * scale - 1, 7 * scale, 2 * scale, 4 * scale + 1, 7 * scale + 1]

    def stop_and_go(i: int, rng: np.random.Generator) -> None:
        trace.updates = []
        stops = [aimed[i] if i < len(aimed) else int(rng.integers(1, 7 * scale))]
        stops += [stops[0] + n for n in range(1, 1 + i % 3)]  # up to three in a row
        for stop in stops:
            trace.stop_after = stop
            assert run(store, training, tmp_path / str(i), save_minutes=99).exit_code == STOPPED
        trace.stop_after = 0
        run(store, training, tmp_path / str(i), save_minutes=99)
        assert trace.updates == whole

    trials.run(stop_and_go)


@pytest.mark.slow
def test_same_seed_same_files(store: EpisodeStore, tmp_path: Path, trace: Trace) -> None:
    """Promise 14."""
    for name in ("a", "b"):
        run(store, small_config(), tmp_path / name)
    half = len(trace.updates) // 2
    assert trace.updates[:half] == trace.updates[half:]
    first, second = ((tmp_path / name / "predictor" / "model.safetensors").read_bytes() for name in ("a", "b"))
    assert first == second
    run(store, small_config(seed=2), tmp_path / "c")
    assert (tmp_path / "c" / "predictor" / "model.safetensors").read_bytes() != first
