"""What `acvp train` is asked for; imports no torch, so that the command line stays quick."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from acvp.options import AT_ONCE, LONGEST, MAX_MINUTES, require, require_above_zero, require_seed, require_share

ModelName = Literal["pixel", "feedforward", "recurrent", "no-action", "mlp"]
PresetName = Literal["paper", "authors", "cpu", "smoke"]
ViewName = Literal["auto", "rgb", "gray84"]


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a predictor on a store; the same command again goes on after a stop."""

    data: Path
    """Folder of the store (acvp collect makes one)."""
    model: ModelName = "feedforward"
    """Which predictor: the pixel-exact one, the paper's two networks, or one of its two learned baselines."""
    preset: PresetName = "cpu"
    """paper: §4 and appendix A; authors: their code's Adam; cpu: half an hour on two cores; smoke: seconds."""
    run: Path | None = None
    """Folder of the run; None: runs/{game}__{model}__{seed}__{time}."""
    view: ViewName = "auto"
    """Frames in color as recorded, or gray 84×84; auto: gray84 with cpu for the paper's networks of Atari."""
    seed: int = 1
    """Weights, split and order of the data follow from it."""
    resume: Literal["auto", "never"] = "auto"
    """auto: go on from the newest checkpoint of --run if there is one; never: refuse a run that has begun."""
    test_fraction: float = 0.1
    """Share of the frames held out for the errors shown during training; whole episodes."""
    minutes: float | None = None
    """Wall-clock minutes for all phases together, in the preset's proportions; None: the preset's own lengths. More
    than a run was started with: the difference is added to it."""
    predict_rewards: bool = False
    """Learn reward signs and ends of episodes too; the pixel-exact predictor always does."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    devices: int = 1
    """Processes of this machine that share each batch (under torchrun: its own number)."""
    precision: Literal["32", "bf16"] = "32"
    """Floats of convolutions and products."""
    accumulate: int = 1
    """Parts in which each batch is computed, to save memory; the update stays the same."""
    compile: bool = False
    """Compile the networks first; on a CPU this needs a C++ compiler."""
    threads: int = 1
    """Threads that decode batches ahead of need."""
    save_minutes: float = 5.0
    """Wall-clock minutes between checkpoints; 0: one after every step."""
    keep: int = 2
    """Newest checkpoints kept, besides the best one."""

    def __post_init__(self) -> None:
        require(1, AT_ONCE, devices=self.devices, accumulate=self.accumulate, threads=self.threads)
        require(1, LONGEST, keep=self.keep)
        require(0, MAX_MINUTES, save_minutes=self.save_minutes)
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require_share(test_fraction=self.test_fraction)
        require_seed(self.seed)

    def command(self, run: Path, minutes: float) -> str:
        """Return the command line that continues a run with these options until it has had so many minutes."""
        words = ["acvp", "train", "--run", str(run), "--minutes", f"{minutes:g}"]
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("run", "minutes", "resume") or value == field.default:
                continue
            words += [f"--{field.name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join(words)
