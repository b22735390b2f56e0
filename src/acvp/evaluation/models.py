"""Who is evaluated: predictors with a name and a view, and the two baselines that always stand beside them.

Shapes: B windows, T time, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.errors import UserError
from acvp.evaluation.windows import Trained
from acvp.models import CopyLastFrame, CopyLastFrameConfig, MeanFrame, MeanFrameConfig, Predictor, imagine, require_fit
from acvp.models.fit import frame_size
from acvp.runs import RunFolder

COPY_LAST, MEAN_FRAME = "copy-last-frame", "mean-frame"


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A predictor under evaluation."""

    name: str
    """What curves and tables call it."""
    predictor: Predictor
    view: View
    """How it looks at frames."""
    baseline: bool = False
    """Whether it learns nothing."""

    @property
    def device(self) -> torch.device:
        return self.predictor.normalizer.mean.device

    def look_ahead(self, frames: NDArray[Any], actions: NDArray[Any]) -> Iterator[Tensor]:
        """Yield the predictions (B, C, H, W) of steps 1, 2, … in pixel values, clamped to 0..255, on the CPU.

        ``frames`` are uint8 (B, T, H, W, C); ``actions`` (B, T - 1 + K) begin with those between them. Inside, the
        predictions are fed back as they are, not clamped. A pixel that is not a number counts as 0.
        """
        normalizer, given = self.predictor.normalizer, frames.shape[1]
        real = normalizer.to_float(torch.from_numpy(frames).to(self.device))
        moves = torch.from_numpy(actions).to(self.device)
        state = self.predictor.observe(real, moves[:, : given - 1])
        for frame, _ in imagine(self.predictor, state, moves[:, given - 1 :]):
            yield to_pixels(self.predictor, frame).cpu()


def to_pixels(predictor: Predictor, frames: Tensor) -> Tensor:
    """Return normalized frames (..., C, H, W) in pixel values, clamped to 0..255 but not rounded."""
    normalizer = predictor.normalizer
    pixels = frames.float() * normalizer.scale + normalizer.mean.movedim(-1, 0)
    return pixels.nan_to_num_(nan=0.0).clamp_(0, 255)


def baselines(like: Subject) -> list[Subject]:
    """Return copy-last-frame and mean frame for the frames of a subject, with its training set's mean image."""
    config = like.predictor.config
    sizes: dict[str, Any] = {"actions": config.actions, "frame": config.frame, "pixel_scale": config.pixel_scale}
    copy_last, mean = CopyLastFrame(CopyLastFrameConfig(**sizes)), MeanFrame(MeanFrameConfig(**sizes))
    for predictor in (copy_last, mean):
        predictor.normalizer.set_mean(like.predictor.normalizer.mean.cpu())
    return [
        Subject(name=COPY_LAST, predictor=copy_last.eval(), view=like.view, baseline=True),
        Subject(name=MEAN_FRAME, predictor=mean.eval(), view=like.view, baseline=True),
    ]


def check_alike(subjects: Sequence[Subject], store: EpisodeStore) -> None:
    """Refuse subjects that cannot be compared with each other, or not on this store."""
    first = subjects[0]
    for other in subjects[1:]:
        _refuse_other_size(first, other)
    for subject in subjects:
        require_fit(
            subject.name, subject.predictor, store.info, view=subject.view, source=str(store.path),
            cure="choose another --data",
        )  # fmt: skip
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise UserError(f"--runs: two are called {max(names, key=names.count)}; give each another folder name")


def _refuse_other_size(first: Subject, other: Subject) -> None:
    one, two = (frame_size(subject.predictor.config.frame) for subject in (first, other))
    if first.view.name != other.view.name or one != two:
        raise UserError(
            f"{first.name} predicts frames {one} ({first.view.name}), {other.name} {two} ({other.view.name}): "
            "runs of different sizes cannot be compared; evaluate them one by one"
        )


def refuse_unknown_split(subject: Subject, trained: Trained | None, store: EpisodeStore) -> None:
    """Refuse a bare predictor on the store it was trained on: nothing says which episodes it has not seen."""
    about = subject.predictor.about
    if trained is None and about is not None and store.digest[:16] in about.data:
        raise UserError(
            f"{subject.name} was trained on {store.path} and does not say which episodes were held out: name its run's "
            "folder, or pass another store as --data"
        )


def training_of(path: Path) -> Trained | None:
    """Return what the run that a folder is, or is part of, says about its training data; None for a bare predictor."""
    own = path.resolve()
    run = next((each for each in (own, *own.parents[:2]) if (each / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it anew")
    return Trained(digest=config["store"], held_out=tuple(config["held_out"]))
