"""python -m benchmarks.pixel_speed: predicted full-resolution frames a second, and the share of the machine's limit.

Asked are the predictors that come with acvp, from real frames of their games. The limit is the time that the network's
multiplications and additions would take at the speed of a large matrix product, timed turn about in the same run.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import acvp
from acvp.data.policies import load_policy
from acvp.envs import make_game
from acvp.models import Predictor, keep_freed_memory
from benchmarks.models import PEAK_SIZE, peak_flops
from benchmarks.pixel import GAMES, PACKAGED
from benchmarks.provenance import write_results

SEED = 1
ROUNDS = 15
STEPS = 20
"""Predictions of a round, each fed back."""
PLAYED = 200
"""Agent steps of a game before the predictor looks ahead."""


def main() -> None:
    """Measure all cases and write results/pixel_speed.json."""
    started = time.monotonic()
    keep_freed_memory()
    games = [game for game in GAMES if (PACKAGED / game).exists()]
    cases = [measure(game, batch) for game in games for batch in (1, 16)]
    for case in cases:
        print(case, flush=True)
    bars = {"30 frames/s at batch 1": min(case["frames_per_second"] for case in cases if case["batch"] == 1) >= 30}
    body: dict[str, Any] = {"bars": bars, "threads": torch.get_num_threads(), "cases": cases}
    print(write_results("pixel_speed", body, command="make bench-pixel", seed=SEED, started=started))


@torch.inference_mode()
def measure(game: str, batch: int) -> dict[str, Any]:
    """One game's predictor, one batch size."""
    predictor = acvp.load(game)
    state = predictor.observe(predictor.normalizer.to_float(real_frames(game, predictor, batch)))
    actions = torch.randint(predictor.actions, (STEPS, batch), generator=torch.Generator().manual_seed(SEED))
    with FlopCounterMode(display=False) as counter:
        predictor.predict(state, actions[0])
    flops, matrix = counter.get_total_flops(), torch.randn(PEAK_SIZE, PEAK_SIZE)
    rates, shares = [], []
    for _ in range(ROUNDS):
        peak, ahead = peak_flops(matrix), state
        start = time.perf_counter()
        for action in actions:
            _, ahead = predictor.predict(ahead, action)
        seconds = (time.perf_counter() - start) / STEPS
        rates.append(batch / seconds)
        shares.append(flops / seconds / peak)
    return {
        "game": game,
        "batch": batch,
        "frames_per_second": round(statistics.median(rates), 1),
        "fraction_of_peak": round(statistics.median(shares), 3),
        "gflop_a_frame": round(flops / batch / 1e9, 3),
    }


def real_frames(name: str, predictor: Predictor, batch: int) -> torch.Tensor:
    """Return frames (B, T, H, W, C) of an episode, each row one agent step earlier than the one before."""
    with make_game(name) as game:
        choose = load_policy("sticky-random")(game.action_meanings, np.random.default_rng(SEED))
        frames = [game.reset(SEED)]
        while len(frames) < PLAYED:
            step = game.step(choose(frames[-1]))
            over = step.terminated or step.truncated
            frames = [game.reset(SEED)] if over else [*frames, step.frame]
    lasts = [len(frames) - row for row in range(batch)]
    return torch.from_numpy(np.stack([frames[last - predictor.context : last] for last in lasts]))


if __name__ == "__main__":
    main()
