"""What the configuration of every predictor has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from acvp.models.checks import FrameShape, require_frame, require_positive, require_whole


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Sizes that a predictor shares with its dataset; a kind of predictors adds its own fields in a subclass."""

    kind: ClassVar[str] = ""
    """Name of the kind; set by ``class MyPredictor(Predictor, kind="mine")``."""
    actions: int
    """Number of actions, or length of a continuous action vector."""
    frame: FrameShape = (210, 160, 3)
    """(height, width, channels) of a frame."""
    context: int = 4
    """Real frames needed before the first prediction."""
    pixel_scale: float = 255.0
    """What (pixel - mean) is divided by."""

    def __post_init__(self) -> None:
        require_frame(self.frame)
        require_whole(actions=self.actions, context=self.context)
        require_positive(pixel_scale=self.pixel_scale)
