"""Pixel-exact predictors that were tried and are not part of acvp; benchmarks.trials trains them.

Shapes: B rows, T time, K predicted steps, N rows of cells' features, h, w cells of the grid, q pixels of a cell, E
embedding, R recurrent units.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import Outcome, linear
from acvp.pixel import PixelConfig, PixelPredictor
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.network import to_cells
from acvp.pixel.predictor import PixelState


class RecurrentMemory(PixelPredictor):
    """A gated recurrent unit in each cell remembers what was, in place of the last m embeddings side by side.

    Its state, (B, h, w, R), takes their place in `PixelState.embedded`.
    """

    def __init__(self, config: PixelConfig, generator: torch.Generator) -> None:
        super().__init__(config, generator)
        units = config.channels[0]
        self.unit = nn.GRUCell(config.embedding, units)
        for weight in self.unit.parameters():
            nn.init.uniform_(weight, -(units**-0.5), units**-0.5, generator=generator)
        self.remember = linear(units, units, generator, bias=False)

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> PixelState:
        """Return the state after the last m of the real frames."""
        recent = frames[:, -self.context :]
        classes = torch.stack((self._classes(recent[:, -2]), self._classes(recent[:, -1])), 1)
        return PixelState(embedded=self._run(self._embed(recent))[:, -1], frame=recent[:, -1], classes=classes)

    def _every_state(self, frames: Tensor, classes: Tensor) -> PixelState:
        predict = classes.shape[1] - 1
        seen = frames[:, -predict - self.context : -1]
        states = self._run(self._embed(seen))[:, -predict:].flatten(0, 1)
        newest = seen[:, -predict:].movedim(-3, -1).flatten(0, 1).movedim(-1, -3)
        pairs = torch.stack((classes[:, :-1], classes[:, 1:]), 2).flatten(0, 1)
        return PixelState(embedded=states, frame=newest, classes=pairs)

    def _next(self, state: PixelState, frame: Tensor, classes: Tensor, outcome: Outcome | None) -> PixelState:
        embedded = self._run(self._embed(frame[:, None]), state.embedded)[:, -1]
        both = torch.stack((state.classes[:, 1], classes), 1)
        return PixelState(embedded=embedded, frame=frame, classes=both, outcome=outcome)

    def _run(self, embedded: Tensor, before: Tensor | None = None) -> Tensor:
        """Return the units' states (B, T, h, w, R) after each of T embedded frames (B, T, h, w, E)."""
        cells = embedded.shape[0], *embedded.shape[2:4]
        state = embedded.new_zeros(*cells, self.unit.hidden_size) if before is None else before
        states = []
        for frame in embedded.unbind(1):
            state = self.unit(frame.flatten(0, 2), state.flatten(0, 2)).view(*cells, -1)
            states.append(state)
        return torch.stack(states, 1)


class RareColors(PixelPredictor):
    """A cell counts the more, the rarer the rarest color is that it shows before or after: small objects do more.

    A color of share f of the targets' pixels weighs (f_max / f)^(1/4), at most 8 times what the commonest one does.
    """

    MOST = 8.0

    def _counted(self, state: PixelState, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        row, cell, weight = super()._counted(state, target)
        counts = torch.bincount(target.flatten(), minlength=len(self.pixel_config.palette)).float()
        of_color = (counts.max() / counts.clamp(min=1)).pow(0.25).clamp(max=self.MOST)
        of_color = torch.cat((of_color, torch.ones(1, device=of_color.device)))  # the last: no pixel
        shown = [to_cells(classes, self.pixel_config)[row, cell] for classes in (state.classes[:, 1], target)]
        rarest = torch.cat(shown, 1).masked_fill(torch.cat(shown, 1) == NO_PIXEL, len(counts))
        return row, cell, weight * of_color[rarest].amax(1)


class ChangesAlone(PixelPredictor):
    """What stands still is sampled, whether it is unusual or always there."""

    def _counted(self, state: PixelState, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super()._counted(replace(state, frame=torch.zeros_like(state.frame)), target)


class LatelyChanged(PixelPredictor):
    """What is unusual always counts only in cells that changed within the last m frames; others are sampled."""

    def _counted(self, state: PixelState, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        embedded = state.embedded.detach().view(*state.embedded.shape[:3], self.context, -1)  # (B, h, w, m, E)
        changed = (embedded.diff(dim=3).abs() > 1e-3).any(-1).any(-1)  # (B, h, w)
        side = self.pixel_config.cell
        height, width = state.frame.shape[2:]
        mask = functional.interpolate(changed[:, None].float(), scale_factor=side)[:, :, :height, :width]
        return super()._counted(replace(state, frame=state.frame * mask), target)


VARIANTS: dict[str, type[PixelPredictor]] = {
    "pixel, recurrent memory": RecurrentMemory,
    "pixel, rare colors count more": RareColors,
    "pixel, still cells all alike": ChangesAlone,
    "pixel, unusual where lately changed": LatelyChanged,
}
"""By the name of the trial."""
