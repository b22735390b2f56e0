"""What `acvp evaluate` and `acvp counterfactual` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from tyro.conf import arg

from acvp.console import DatasetFolder, Device, Module, ShardText, optional
from acvp.errors import UserError, require, require_device, require_seed, require_shard

VideoFormat = Literal["mp4", "gif"]
SHOWN_STEPS = (1, 5, 10, 30, 50, 100, 200, 300, 500)
"""Steps that tables and paired comparisons show, besides the last one."""


def shown_steps(horizon: int) -> list[int]:
    """Return the steps to show of predictions of a horizon."""
    return sorted({step for step in SHOWN_STEPS if step < horizon} | {horizon})


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Evaluate predictors step by step against recorded frames: error curves, videos and film strips."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …")]
    """Run folders or predictor folders, all of one game, view and action set."""
    data: Annotated[tuple[Path, ...], arg(metavar="DATASET …")]
    """Dataset to evaluate on, or several as one. Of those that were trained on, only held-out episodes are used."""
    trained_on: Annotated[Path | None, optional("DATASET", "none")] = None
    """Training dataset, if --data is another one. Fails if an episode is in both."""
    out: Annotated[Path | None, optional("PATH", "the run folder, or evaluation/ for several predictors")] = None
    """Folder for evaluation.json, plots/, videos/ and strips/."""
    horizon: int = 100
    """Prediction horizon in agent steps."""
    windows: int = 500
    """Number of evaluation windows, spread over the test episodes."""
    shuffled_windows: int = 100
    """Windows also predicted with the actions of another window, to measure action sensitivity. 0: none."""
    key_steps: Annotated[tuple[int, ...], optional("INT …", "none")] = ()
    """Prediction steps after which keys are tested, such as 1 10 30 100.
    Two opposite actions are each held for 8 steps: do they lead where they lead in the game?"""
    reward_steps: Annotated[int | None, optional("INT", "4 times --windows")] = None
    """Agent steps on which reward and termination heads are evaluated, from real frames. 0: none."""
    batch_size: int = 32
    """Windows predicted in one batch. Affects speed and memory; results can differ by rounding only."""
    videos: int = 1
    """Number of windows to render as videos."""
    video_steps: Annotated[int | None, optional("INT", "--horizon")] = None
    """Length of a video in agent steps."""
    video_formats: Annotated[tuple[VideoFormat, ...], arg(metavar="FORMAT …")] = ("mp4", "gif")
    """File formats of the videos: mp4, gif."""
    strip: Annotated[str | None, optional("STEPS", "the first and last seven")] = None
    """Prediction steps shown in the film strips, such as 1-7,174-180."""
    crop: Annotated[str | None, optional("CROP", "none")] = None
    """Also write a film strip of a part of the frame: ROWxCOL+HEIGHT+WIDTH in pixels, such as 90x40+28+28."""
    seed: int = 0
    """Random seed of the windows, the shuffled actions and the bootstrap."""
    shard: ShardText = None
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, horizon=self.horizon, windows=self.windows, batch_size=self.batch_size)
        require(0, shuffled_windows=self.shuffled_windows, videos=self.videos)
        require(1, video_steps=self.video_steps)
        for step in self.key_steps:
            require(1, key_steps=step)
        require_seed(self.seed)
        require_shard(self.shard)
        require_device(self.device)
        require(0, reward_steps=self.most_reward_steps)
        strip_steps(self.strip, self.film_steps)
        if self.crop is not None:
            parse_crop(self.crop)

    @property
    def most_reward_steps(self) -> int:
        """Steps whose rewards and terminations are predicted, where there are so many."""
        return 4 * self.windows if self.reward_steps is None else self.reward_steps

    @property
    def film_steps(self) -> int:
        """Steps of a video."""
        return self.horizon if self.video_steps is None else self.video_steps


@dataclass(frozen=True, kw_only=True)
class CounterfactualConfig:
    """Compare the predicted future of every action with the true one, emulated from the same state."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …")]
    """Run folders or predictor folders, all of one game, view and action set."""
    data: DatasetFolder
    """Dataset made by acvp collect. Its episodes are replayed in the game to reach the states."""
    trained_on: Annotated[Path | None, optional("DATASET", "none")] = None
    """Training dataset, if --data is another one. Fails if an episode is in both."""
    out: Annotated[Path | None, optional("PATH", "the run folder, or evaluation/ for several predictors")] = None
    """Folder for counterfactual.json and plots/."""
    states: int = 200
    """Number of emulator states to predict from."""
    steps: int = 1
    """Length of a future in agent steps. Without --sequences, each action is repeated for all of them."""
    sequences: Annotated[int | None, optional("INT", "one future per action")] = None
    """Number of random action sequences per state, each of length --steps."""
    seed: int = 0
    """Random seed of the states and the action sequences."""
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, states=self.states, steps=self.steps)
        require(2, sequences=self.sequences)
        require_seed(self.seed)
        require_device(self.device)


class Crop(NamedTuple):
    """A part of a frame, in the view's pixels."""

    row: int
    column: int
    height: int
    width: int


def require_predictors(predictors: tuple[Path, ...]) -> None:
    """Refuse an empty list of predictors."""
    if not predictors:
        raise UserError("--predictors is empty: name at least one predictor")


def parse_crop(text: str) -> Crop:
    """Return the crop that ROWxCOL+HEIGHT+WIDTH stands for."""
    match = re.fullmatch(r"(\d+)x(\d+)\+(\d+)\+(\d+)", text)
    crop = Crop(*map(int, match.groups())) if match else None
    if crop is None or not crop.height or not crop.width:
        raise UserError(f"--crop {text}: write ROWxCOL+HEIGHT+WIDTH in pixels, such as 90x40+28+28")
    return crop


def strip_steps(text: str | None, last: int) -> tuple[int, ...]:
    """Return the steps of a film strip, 1 to `last`; without a text the first and the last seven."""
    if text is None:
        return tuple(sorted({*range(1, min(7, last) + 1), *range(max(1, last - 6), last + 1)}))
    steps: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if not match:
            raise UserError(f"--strip {text}: write steps and ranges of steps, such as 1-7,174-180")
        steps |= set(range(int(match[1]), min(int(match[2] or match[1]), last + 1) + 1)) or {0}
    if not steps or min(steps) < 1 or max(steps) > last:
        raise UserError(f"--strip {text}: steps must lie in 1 to {last}; --video-steps makes videos longer")
    return tuple(sorted(steps))
