"""The objective of section 3.4 at the authors' scale.

Shapes: B batch, K predicted steps, C channels, H height, W width.
"""

from torch import Tensor
from torch.nn import functional

from acvp.models.checks import FrameError


def squared_error_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """Return half the squared error summed over pixels and channels, averaged over batch and steps (equation 6).

    ``predicted`` and ``target`` are normalised frames (B, K, C, H, W).
    """
    if predicted.shape != target.shape or predicted.ndim != 5:
        raise FrameError(
            f"predicted frames {tuple(predicted.shape)} beside target frames {tuple(target.shape)}; "
            f"expected two equal shapes (B, K, C, H, W)"
        )
    rows, steps = predicted.shape[:2]
    return functional.mse_loss(predicted.float(), target, reduction="sum") / (2 * rows * steps)
