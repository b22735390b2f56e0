"""The numbers of single frames: what is shared by all predictors is computed once per step.

Shapes: B windows, C channels, H height, W width.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.palette import Palette
from acvp.evaluation.definitions import PSNR_CAP, frame_scale
from acvp.evaluation.objects import Frame, ObjectFinder, Target
from acvp.evaluation.pixels import WrongPixels
from acvp.evaluation.ssim import Blurred, Ssim

Values = dict[str, NDArray[np.float64]]
"""By metric, one value (B,) for each window; NaN where there is nothing to measure."""


@dataclass(frozen=True)
class TrueStep:
    """A true frame of each window with what the metrics need of it."""

    frames: Tensor  # (B, C, H, W), pixel values
    moved: Tensor  # (B, 1, H, W), 1 where the frame differs from the one before
    moved_values: NDArray[np.float64]  # (B,), how many values the pixels that moved have
    blurred: Blurred
    targets: list[Target | None] | None


class FrameMetrics:
    """Compares predictions with true frames of one view."""

    def __init__(
        self, shape: tuple[int, int, int], *, gray: bool, palette: Palette | None, finder: ObjectFinder | None = None
    ) -> None:
        """``palette`` is the store's, None in a view that blends colours; without a finder no object is looked for."""
        self.scale = frame_scale(gray)
        self.finder = finder
        self._ssim = Ssim(*shape[:2])
        self._wrong = WrongPixels(palette)

    def step(
        self, frames: NDArray[np.uint8], before: NDArray[np.uint8], positions: NDArray[np.float64] | None = None
    ) -> TrueStep:
        """Prepare true frames (B, H, W, C) of a step, those before them, and positions (B, 2) of the object."""
        moved = torch.from_numpy((frames != before).any(-1)).unsqueeze(1).float()
        pixels = as_pixels(frames)
        targets = None
        if self.finder is not None and positions is not None:
            pairs = zip(frames.astype(np.float32), positions.tolist(), strict=True)
            targets = [self.finder.target(frame, position) for frame, position in pairs]
        return TrueStep(pixels, moved, _sum(moved) * pixels.shape[1], self._ssim.blur(pixels), targets)

    def error(self, truth: Tensor, predicted: Tensor) -> NDArray[np.float64]:
        """Return the squared error (B,) in the paper's scale."""
        return _sum((predicted - truth).square()) / self.scale**2

    def measure(self, step: TrueStep, predicted: Tensor) -> Values:
        """Return all metrics of predictions (B, C, H, W) in pixel values."""
        squared = (predicted - step.frames).square()
        total = _sum(squared)
        mse = total / squared[0].numel()
        moved, moving = step.moved_values, _sum(squared * step.moved)
        values = {
            "error": total / self.scale**2,
            "mse": mse,
            "psnr": 10 * np.log10(255**2 / np.maximum(mse, 255**2 / 10 ** (PSNR_CAP / 10))),
            "ssim": self._ssim.compare(self._ssim.blur(predicted), step.blurred).numpy(),
            "wrong_pixels": self._wrong.count(predicted, step.frames).numpy().astype(np.float64),
            "moving_mse": np.divide(moving, moved, out=np.full_like(moving, np.nan), where=moved > 0),
        }
        return values | ({} if step.targets is None else {"object_distance": self._distances(step.targets, predicted)})

    def _distances(self, targets: list[Target | None], predicted: Tensor) -> NDArray[np.float64]:
        assert self.finder is not None
        frames: list[Frame] = list(predicted.permute(0, 2, 3, 1).numpy())
        found = [
            np.nan if target is None else self.finder.distance(frame, target)
            for frame, target in zip(frames, targets, strict=True)
        ]
        return np.array(found, np.float64)


def as_pixels(frames: NDArray[np.uint8]) -> Tensor:
    """Return uint8 frames (B, H, W, C) as floats (B, C, H, W) of the same values."""
    return torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2))).float()


def _sum(values: Tensor) -> NDArray[np.float64]:
    return values.flatten(1).sum(1).double().numpy()
