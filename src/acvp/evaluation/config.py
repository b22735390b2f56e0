"""What `acvp evaluate` and `acvp counterfactual` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from tyro.conf import arg

from acvp.errors import UserError
from acvp.options import require, require_seed

Device = Literal["auto", "cpu", "cuda", "mps"]
VideoFormat = Literal["mp4", "gif"]


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """Look ahead with one or several runs and compare every step with the truth: curves, videos, film strips."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …", aliases=("--runs",))]
    """Folders of runs or of predictors; all of one game, view and set of actions."""
    data: Path
    """Store to test on: the one trained on (its held-out episodes are used) or another one (all of it)."""
    trained_on: Path | None = None
    """Store the runs were trained on, where --data is another one: episodes in both are refused."""
    out: Path | None = None
    """Folder for evaluation.json, plots/, videos/ and strips/; None: the run's own, `evaluation` for several runs."""
    horizon: int = 100
    """Agent steps to predict ahead."""
    windows: int = 500
    """Windows to predict, spread over the test episodes."""
    shuffled_windows: int = 100
    """How many of them are also predicted under another window's actions, for the action sensitivity; 0: none."""
    reward_steps: int | None = None
    """Steps whose rewards and terminations are predicted from real frames, by runs that predict them; 0: none; None:
    four for each of --windows."""
    batch_size: int = 32
    """Windows predicted at once; the results do not depend on it but for rounding."""
    videos: int = 1
    """Windows to show as videos."""
    video_steps: int | None = None
    """Steps of a video; None: as --horizon."""
    video_formats: tuple[VideoFormat, ...] = ("mp4", "gif")
    """Files to write of each video."""
    strip: str | None = None
    """Steps of the film strips, such as 1-7,174-180; None: the first and the last seven."""
    crop: str | None = None
    """Also a strip of a part of the frame, ROWxCOL+HEIGHT+WIDTH in the view's pixels, such as 90x40+28+28."""
    seed: int = 0
    """Windows, shuffled actions and bootstrap follow from it."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, horizon=self.horizon, windows=self.windows, batch_size=self.batch_size)
        require(0, shuffled_windows=self.shuffled_windows, videos=self.videos)
        require(1, video_steps=self.video_steps)
        require_seed(self.seed)
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
    """Compare every action's predicted future with the true one, which the emulator plays from the same saved state."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …", aliases=("--runs",))]
    """Folders of runs or of predictors; all of one game, view and set of actions."""
    data: Path
    """Store whose plays lead to the states: made by acvp collect, for its seeds and game are needed."""
    trained_on: Path | None = None
    """Store the runs were trained on, where --data is another one: episodes in both are refused."""
    out: Path | None = None
    """Folder for counterfactual.json and plots/; None: the run's own, `evaluation` for several runs."""
    states: int = 200
    """Saved states to look ahead from."""
    steps: int = 1
    """Agent steps of a future; without --sequences each action is held for all of them."""
    sequences: int | None = None
    """Futures sampled at each state, of --steps random actions each; None: one future for each action."""
    seed: int = 0
    """States and sampled sequences follow from it."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, states=self.states, steps=self.steps)
        require(2, sequences=self.sequences)
        require_seed(self.seed)


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
