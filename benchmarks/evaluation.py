"""make bench-evaluation: what evaluation costs beyond the network's own forward passes; writes results/evaluation.json.

500 windows × 100 steps of the gray 84×84 network on Freeway. Compared are `acvp evaluate` without videos (all metrics,
both baselines, shuffled actions, controlled object, bootstrap, figures, files) and as many bare forward passes in the
same batches, on one core in one process, half of the bare passes before and half after.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import GRAY_84
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.run import evaluate_runs
from acvp.models import About, FeedforwardConfig, Predictor, build_predictor
from acvp.training.data import mean_frame
from benchmarks.provenance import write_results

SEED, FRAMES, WINDOWS, HORIZON, BATCH = 1, 12_000, 500, 100, 32
LIMIT = 2.0
"""Times the bare forward passes that an evaluation may take."""


def main() -> None:
    """Measure, print and write the numbers."""
    started = time.monotonic()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        collect(CollectConfig(env_id="freeway", out=Path(folder) / "store", frames=FRAMES, seed=SEED, epsilon=(0.3,)))
        store = EpisodeStore(Path(folder) / "store")
        predictor = gray_predictor(store)
        body = measure(predictor, store, Path(folder))
    print(body)
    print(write_results("evaluation", body, command="make bench-evaluation", seed=SEED, started=started))
    if body["evaluation / bare passes"]["processor time"] > LIMIT:
        raise SystemExit(f"evaluation takes more than {LIMIT} times its forward passes")


def gray_predictor(store: EpisodeStore) -> Predictor:
    """The gray network with random weights: its speed does not depend on them."""
    predictor = build_predictor(FeedforwardConfig.gray_84x84(actions=store.action_count)).eval()
    predictor.normalizer.set_mean(torch.from_numpy(mean_frame(store, GRAY_84)))
    predictor.about = About(env_id=store.info.env_id, view="gray84", action_meanings=store.info.action_meanings)
    return predictor


def measure(predictor: Predictor, store: EpisodeStore, folder: Path) -> dict[str, Any]:
    """All numbers."""
    config = EvaluateConfig(
        predictors=(folder / "run",), data=(store.path,), out=folder / "out", horizon=HORIZON, windows=WINDOWS,
        batch_size=BATCH, videos=0, seed=SEED,
    )  # fmt: skip
    given = Windows(store, Window(predictor.context, 0), GRAY_84)
    before = timed(lambda: bare_passes(predictor, given, WINDOWS // 2))
    with patch("acvp.evaluation.run.load", lambda path: predictor):
        evaluation = timed(lambda: evaluate_runs(config, lambda name: lambda done, total: None))
    after = timed(lambda: bare_passes(predictor, given, WINDOWS // 2))
    bare = {name: before[name] + after[name] for name in before}
    return {
        "what": f"{WINDOWS} windows × {HORIZON} steps, gray 84×84 network, batch {BATCH}, one core",
        "bare passes, seconds": rounded(bare),
        "evaluation, seconds": rounded(evaluation),
        "evaluation / bare passes": rounded({name: evaluation[name] / bare[name] for name in bare}),
        "shuffled windows, passes beyond the bare ones": config.shuffled_windows,
    }


@torch.inference_mode()
def bare_passes(predictor: Predictor, given: Windows, count: int) -> None:
    """Predict every step of some windows, and nothing else but decode the frames given."""
    numbers = np.random.default_rng(SEED).integers(len(given), size=count)
    for first in range(0, count, BATCH):
        frames = torch.from_numpy(given.batch(numbers[first : first + BATCH]).frames)
        state = predictor.observe(predictor.normalizer.to_float(frames))
        for step in range(HORIZON):
            _, state = predictor.predict(state, torch.full((len(frames),), step % predictor.actions))


def timed(work: Callable[[], object]) -> dict[str, float]:
    """Seconds on the wall and of the processor."""
    wall, processor = time.monotonic(), time.process_time()
    work()
    return {"wall": time.monotonic() - wall, "processor time": time.process_time() - processor}


def rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in values.items()}


if __name__ == "__main__":
    main()
