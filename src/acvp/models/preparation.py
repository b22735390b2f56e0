"""A dataset as a predictor may look at it before training: for its config, and for what it keeps beside its weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from acvp.data.store import EpisodeStore
from acvp.data.views import View

Progress = Callable[[int, int], None]
"""Takes work done and total work, again and again; it may raise to stop the work."""


@dataclass(frozen=True, kw_only=True)
class DatasetSplit:
    """Training and held-out episodes of one dataset, in the view of the predictor."""

    train: EpisodeStore
    held_out: EpisodeStore
    """For choices that need unseen data; never for what is predicted."""
    view: View
    seed: int
    """Of everything that is drawn."""

    @property
    def frame(self) -> tuple[int, int, int]:
        """(height, width, channels) of a frame in the view."""
        return self.view.shape(self.train.info.frame_shape)

    @property
    def actions(self) -> int:
        """Number of actions."""
        return len(self.train.info.action_meanings)

    @property
    def resampled_view(self) -> View | None:
        """The view, or None where it shows frames as they are stored."""
        return self.view if self.view.gray or self.view.size is not None else None
