"""python -m benchmarks.memory_format: channels last, torch's own NCHW, and a plain port, with and without AVX-512.

Forward and backward passes of the paper's feedforward network are timed in turns, in one thread, once with all
instructions of the processor and once with AVX2 only. Writes results/memory_format.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from acvp.models import FeedforwardConfig, Predictor, build_predictor, squared_error_loss
from acvp.runs import machine
from benchmarks.models import ACTIONS, PlainPort
from benchmarks.provenance import write_results

SEED = 0
CASES = (("gray 84×84", 8, 1, 15), ("gray 84×84", 32, 1, 9), ("gray 84×84", 8, 3, 9), ("color 210×160", 8, 1, 5))
"""Network, batch, steps ahead, repetitions."""
INSTRUCTIONS = {
    "all": {},
    "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
}


def seconds(loss: Callable[[], Any]) -> float:
    """Return the core-seconds of a forward and a backward pass, which other programs on the machine hardly change."""
    began = time.process_time()
    loss().backward()
    return time.process_time() - began


def variants(predictor: Predictor, plain: PlainPort | None, batch: int, steps: int) -> dict[str, float]:
    """Return the core-seconds of each variant on the same frames."""
    rng = torch.Generator().manual_seed(SEED)
    height, width, channels = predictor.config.frame
    frames = torch.rand(batch, predictor.context + steps, channels, height, width, generator=rng)
    last = frames.movedim(2, -1).contiguous().movedim(-1, 2)
    actions = torch.randint(ACTIONS, (batch, predictor.context + steps - 1), generator=rng)

    def ours(given: torch.Tensor) -> Any:
        return squared_error_loss(predictor(given, actions, predict=steps).frames, given[:, -steps:])

    def port() -> Any:
        assert plain is not None
        return squared_error_loss(plain.predict(frames, actions, steps, False), frames[:, -steps:])

    taken = {"channels last": seconds(lambda: ours(last))}
    with patch.object(torch, "channels_last", torch.contiguous_format):  # the networks ask for it by this name
        taken["NCHW"] = seconds(lambda: ours(frames))
    return taken if plain is None else taken | {"plain port": seconds(port)}


def measure(name: str, batch: int, steps: int, repetitions: int) -> dict[str, Any]:
    """Return what the other variants take of the time of channels last, round by round; the first round warms up."""
    color = name.startswith("color")
    make = FeedforwardConfig.rgb_210x160 if color else FeedforwardConfig.gray_84x84
    predictor = build_predictor(make(actions=ACTIONS), torch.Generator().manual_seed(SEED))
    plain = PlainPort(predictor.context, False).take(predictor) if color else None
    rounds = [variants(predictor, plain, batch, steps) for _ in range(repetitions + 1)][1:]
    of_ours: dict[str, dict[str, float]] = {}
    for other in list(rounds[0])[1:]:
        ratios = sorted(taken[other] / taken["channels last"] for taken in rounds)
        of_ours[other] = {"low": ratios[0], "median": median(ratios), "high": ratios[-1]}
    return {
        "network": name, "batch": batch, "steps_ahead": steps, "core_seconds": rounds, "of_channels_last": of_ours,
    }  # fmt: skip


def main() -> None:
    """Measure all cases with each set of instructions, in a separate process, and write them."""
    torch.set_num_threads(1)
    if sys.argv[1:]:
        print(json.dumps({"machine": machine(), "cases": [measure(*case) for case in CASES]}))
        return
    started, sets = time.monotonic(), {}
    for name, limits in INSTRUCTIONS.items():
        command = [sys.executable, "-m", "benchmarks.memory_format", name]
        sets[name] = json.loads(subprocess.run(command, env=os.environ | limits, stdout=-1, check=True).stdout)
        for case in sets[name]["cases"]:
            print(name, case["network"], case["batch"], case["steps_ahead"], case["of_channels_last"], flush=True)
    body = {"what": "core-seconds of a forward and a backward pass, 1 thread", "instructions": sets}
    write_results("memory_format", body, command="python -m benchmarks.memory_format", seed=SEED, started=started)


if __name__ == "__main__":
    main()
