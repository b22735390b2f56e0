"""python -m benchmarks.pixel_speed: predicted full-resolution frames a second, and the share of the machine's limit.

The limit is the time that the network's multiplications and additions would take at the speed of a large matrix
product, timed turn about in the same run. Weights are random: they do not change the time.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from acvp.models import PixelConfig, PixelPredictor, keep_freed_memory
from benchmarks.models import PEAK_SIZE, peak_flops
from benchmarks.provenance import write_results

SEED = 1
ROUNDS = 15
STEPS = 20
"""Predictions of a round, each fed back."""
COLOURS = {"freeway": (71, 3), "ms_pacman": (13, 9), "qbert": (119, 6)}
"""Colours and actions of the games with the most and the fewest."""
MOTIONS = ((0, 0), *((down, right) for down in (-4, -2, 2, 4) for right in (-4, -3, -2, -1, 1, 2, 3, 4)))
OLDER = tuple((0, right) for right in range(-8, 8))
"""As many as a store can have."""


def main() -> None:
    """Measure all cases and write results/pixel_speed.json."""
    started = time.monotonic()
    keep_freed_memory()
    cases = [measure(game, batch) for game in COLOURS for batch in (1, 16)]
    for case in cases:
        print(case, flush=True)
    freeway = next(case for case in cases if case["colours_of"] == "freeway" and case["batch"] == 1)
    bars = {"30 frames/s at batch 1": freeway["frames_per_second"] >= 30}
    body: dict[str, Any] = {"bars": bars, "threads": torch.get_num_threads(), "cases": cases}
    print(write_results("pixel_speed", body, command="make bench-pixel", seed=SEED, started=started))


@torch.inference_mode()
def measure(game: str, batch: int) -> dict[str, Any]:
    """One game's number of colours and actions, one batch size."""
    colours, actions = COLOURS[game]
    palette = tuple((k, 255 - k, 128) for k in range(colours))
    predictor = PixelPredictor(
        PixelConfig(
            actions=actions,
            palette=palette,
            motions=MOTIONS,
            older_motions=OLDER,
            recolours=tuple(range(colours)),
            round_edges=True,
        ),
        torch.Generator().manual_seed(SEED),
    ).eval()
    classes = torch.randint(
        0, colours, (batch, predictor.context, 210, 160), generator=torch.Generator().manual_seed(SEED)
    )
    state = predictor.observe(predictor.normaliser.to_float(predictor.colours.pixels(classes)))
    action = torch.zeros(batch, dtype=torch.long)
    with FlopCounterMode(display=False) as counter:
        predictor.predict(state, action)
    flops, matrix = counter.get_total_flops(), torch.randn(PEAK_SIZE, PEAK_SIZE)
    rates, shares = [], []
    for _ in range(ROUNDS):
        peak = peak_flops(matrix)
        start = time.perf_counter()
        for _ in range(STEPS):
            _, state = predictor.predict(state, action)
        seconds = (time.perf_counter() - start) / STEPS
        rates.append(batch / seconds)
        shares.append(flops / seconds / peak)
    return {
        "colours_of": game,
        "batch": batch,
        "frames_per_second": round(statistics.median(rates), 1),
        "fraction_of_peak": round(statistics.median(shares), 3),
        "gflop_a_frame": round(flops / batch / 1e9, 3),
    }


if __name__ == "__main__":
    main()
