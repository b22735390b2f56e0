"""Loaded models: predictors with a name, a view and a device, and whether they fit each other and a dataset.

Evaluation, analysis, control and play all look ahead with them. Two baselines stand beside every comparison: copying
the last frame, and the mean frame of the training set.

Shapes: B windows, T time, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp import __version__
from acvp.data.store import EpisodeStore
from acvp.data.views import View, get_view
from acvp.errors import UserError
from acvp.models import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    Predictor,
    fingerprint,
    imagine,
)
from acvp.models.pixels import to_pixels

COPY_LAST, MEAN_FRAME = "copy-last-frame", "mean-frame"

Load = Callable[[Path], Predictor]
"""Reads a predictor from a folder, or from the package by its name."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A predictor that is ready to look ahead."""

    name: str
    """Its name in curves and tables."""
    predictor: Predictor
    view: View
    """What it sees of a frame."""
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


def as_model(path: Path, predictor: Predictor, device: str) -> LoadedModel:
    """Return a predictor under the name of the folder that it was loaded from, on a device."""
    if predictor.about is None:
        raise UserError(f"{path}: this predictor does not say of what game and view it is; train it with acvp train")
    resolved = path.resolve()
    name = resolved.parent.name if resolved.name == "predictor" else resolved.name
    return LoadedModel(name=name, predictor=predictor.to(pick_device(device)), view=get_view(predictor.about.view))


def pick_device(name: str) -> torch.device:
    """Return a device by its name; auto takes the fastest there is."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name != "auto" and not there[name]:
        raise UserError(f"--device {name}: this machine has none; use --device auto")
    return torch.device(name if name != "auto" else next(kind for kind in there if there[kind]))


def baselines(like: LoadedModel) -> list[LoadedModel]:
    """Return copy-last-frame and mean frame for the frames of a model, with its training set's mean image."""
    config = like.predictor.config
    sizes: dict[str, Any] = {"actions": config.actions, "frame": config.frame, "pixel_scale": config.pixel_scale}
    copy_last, mean = CopyLastFrame(CopyLastFrameConfig(**sizes)), MeanFrame(MeanFrameConfig(**sizes))
    for predictor in (copy_last, mean):
        predictor.normalizer.set_mean(like.predictor.normalizer.mean.cpu())
    return [
        LoadedModel(name=COPY_LAST, predictor=copy_last.eval(), view=like.view, baseline=True),
        LoadedModel(name=MEAN_FRAME, predictor=mean.eval(), view=like.view, baseline=True),
    ]


def identity(models: Sequence[LoadedModel], store: EpisodeStore) -> dict[str, Any]:
    """Return everything about models and a dataset that decides a measurement: the key of cached results."""
    weights = [[model.name, fingerprint(model.predictor), model.device.type] for model in models]
    return {"version": __version__, "models": weights, "view": models[0].view.name, "data": store.digest}


def check_alike(models: Sequence[LoadedModel], store: EpisodeStore) -> None:
    """Refuse models that cannot be compared with each other, or not on this dataset."""
    first = models[0]
    for other in models[1:]:
        _refuse_other_size(first, other)
    height, width, channels = first.view.shape(store.info.frame_shape)
    if tuple(first.predictor.config.frame) != (height, width, channels):
        raise UserError(
            f"{first.name} predicts frames {_size(first)}, {store.path} gives {height}×{width}×{channels} in view "
            f"{first.view.name}: choose another --data"
        )
    for model in models:
        _refuse_other_game(model, store)
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise UserError(f"--predictors: two are called {max(names, key=names.count)}; give each another folder name")


def _refuse_other_size(first: LoadedModel, other: LoadedModel) -> None:
    if first.view.name != other.view.name or first.predictor.config.frame != other.predictor.config.frame:
        raise UserError(
            f"{first.name} predicts frames {_size(first)} ({first.view.name}), {other.name} {_size(other)} "
            f"({other.view.name}): runs of different sizes cannot be compared; evaluate them one by one"
        )


def _refuse_other_game(model: LoadedModel, store: EpisodeStore) -> None:
    about, info = model.predictor.about, store.info
    if about is not None and about.env_id != info.env_id:
        raise UserError(
            f"{model.name} predicts {about.env_id}, {store.path} holds {info.env_id}: runs and data must be of one game"
        )
    if model.predictor.actions != store.action_count:
        raise UserError(
            f"{model.name} knows {model.predictor.actions} actions, {store.path} has {store.action_count} "
            f"({', '.join(info.action_meanings)}): runs and data must be of one game"
        )


def _size(model: LoadedModel) -> str:
    return "×".join(str(side) for side in model.predictor.config.frame)
