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
from acvp.data.views import View
from acvp.errors import UserError
from acvp.models import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    Predictor,
    fingerprint,
    imagine,
    pick_device,
    require_fit,
    view_of,
)
from acvp.models.fit import frame_size
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
    view = view_of(predictor, str(path))
    return LoadedModel(name=model_name(path), predictor=predictor.to(pick_device(device)), view=view)


def model_name(path: Path) -> str:
    """Return the name of the model in a folder: the folder's, or its run's."""
    resolved = path.resolve()
    return resolved.parent.name if resolved.name == "predictor" else resolved.name


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
    for model in models:
        require_fit(
            model.name, model.predictor, store.info, view=model.view, source=str(store.path),
            cure="choose another --data",
        )  # fmt: skip
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise UserError(f"--predictors: two are called {max(names, key=names.count)}; give each another folder name")


def _refuse_other_size(first: LoadedModel, other: LoadedModel) -> None:
    one, two = (frame_size(model.predictor.config.frame) for model in (first, other))
    if first.view.name != other.view.name or one != two:
        raise UserError(
            f"{first.name} predicts frames {one} ({first.view.name}), {other.name} {two} ({other.view.name}): "
            "runs of different sizes cannot be compared; evaluate them one by one"
        )
