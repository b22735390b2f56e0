"""The numbers of single frames: what is shared by all predictors is computed once per step.

Shapes: B windows, C channels, H height, W width.

Structural similarity with OpenCV's Gaussian filter: what torchmetrics computes, in a fraction of the time.

Shapes: B frames, C channels, H height, W width.

Which pixels of a prediction are wrong: nearest color of the palette, or off by more than a few values.

Shapes: B frames, C channels, H height, W width, N pixels, K colors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.objects import Frame, ObjectFinder, Target
from acvp.data.palette import Palette
from acvp.evaluation.definitions import PSNR_CAP, frame_scale
from acvp.models.pixels import WrongPixels, as_pixels

SIGMA, SIDE, RANGE = 1.5, 11, 255.0
C1, C2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
MIDDLE = 128.0
"""Subtracted before squaring: variances do not change, and rounding errors get smaller."""


class Blurred(NamedTuple):
    """Local statistics of frames, (B, C, H, W) each."""

    shifted: Tensor
    """Pixel values − MIDDLE."""
    mean: Tensor
    """Of the shifted values."""
    level: Tensor
    """Of the pixel values."""
    variance: Tensor


class Ssim:
    """SSIM of frames of one size, reflected at their edges; the window shrinks for frames that are smaller than it."""

    def __init__(self, height: int, width: int) -> None:
        self._side = min(SIDE, 2 * min(height, width) - 1)

    def blur(self, frames: Tensor) -> Blurred:
        """Return the local statistics of frames (B, C, H, W) in pixel values."""
        shifted = frames - MIDDLE
        mean = self._filter(shifted)
        variance = self._filter(shifted.square()).addcmul_(mean, mean, value=-1).clamp_(min=0)
        return Blurred(shifted, mean, mean + MIDDLE, variance)

    def compare(self, a: Blurred, b: Blurred) -> Tensor:
        """Return the similarity (B,) of frames."""
        covariance = self._filter(a.shifted * b.shifted).addcmul_(a.mean, b.mean, value=-1)
        above = (a.level * b.level).mul_(2).add_(C1).mul_(covariance.mul_(2).add_(C2))
        levels = a.level.square().addcmul_(b.level, b.level).add_(C1)
        below = levels.mul_((a.variance + b.variance).add_(C2))
        return above.div_(below).flatten(1).mean(1, dtype=torch.float64)

    def _filter(self, frames: Tensor) -> Tensor:
        planes = frames.contiguous().numpy().reshape(-1, *frames.shape[-2:])  # (B·C, H, W)
        blurred = np.empty_like(planes)
        for plane, out in zip(planes, blurred, strict=True):
            cv2.GaussianBlur(plane, (self._side, self._side), SIGMA, dst=out, borderType=cv2.BORDER_REFLECT_101)
        return torch.from_numpy(blurred).view(frames.shape)


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
        """``palette`` is the store's, None in a view that blends colors; without a finder no object is looked for."""
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


def _sum(values: Tensor) -> NDArray[np.float64]:
    return values.flatten(1).sum(1).double().numpy()
