"""Pixel-exact prediction: every pixel is classified by color, so that every prediction fed back has a game's colors.

The frame is divided into cells of p×p pixels. Each frame is embedded once, when it arrives. The embeddings of the last
m frames, and a larger one of the newest frame, are the input of a U-Net that is conditioned on the action. From a
cell's features, a linear layer predicts logits of N colors for each pixel of the cell, and another one a logit for each
of S ways to copy a color: motions out of the newest frame or the one before it, and palette cycling, which turns a
pixel's color into the next.

Shapes: B batch, N rows or colors, T time, K predicted steps, C channels, H height, W width, A actions, E embedding,
S ways to copy, h, w cells of the grid, q = p·p pixels of a cell, n selected cells of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.config import ConfigError, DatasetSplit, FrameShape, Progress
from acvp.models.layers import ActionFactors, Outcome, convolution, linear
from acvp.models.pixels import action_vectors, check_frames, check_window
from acvp.models.predictor import (
    Metrics,
    Predictions,
    Predictor,
    State,
    TrainingBatch,
    as_window,
    joint_loss,
)
from acvp.pixel.config import PixelConfig, preset_sizes, training_defaults
from acvp.pixel.loss import FOREGROUND_DIFFERENCE, color_probability, copy_mixture_loss, corrupt_inputs, counted_cells
from acvp.pixel.network import (
    ActionUnet,
    add_border,
    as_rows,
    copied_in_cells,
    decode,
    decode_changes,
    event_heads,
    joined,
    pad_to_cells,
    position_heads,
    to_cells,
    to_frames,
)
from acvp.pixel.palette import Colors, Mask, calibrated_mask, make_room, packed, unpack
from acvp.pixel.statistics import statistics_of
from acvp.pixel.traceable import TraceableColors, TraceableDecoder

CELLS_AT_ONCE = 128
"""Cells whose loss is computed together: few enough to stay in a processor's cache."""
START_ODDS = 6.0
"""Logarithm of the odds, before training, that a pixel keeps its color."""


@dataclass(frozen=True, kw_only=True)
class PixelState(State):
    """What is remembered of the last m frames, and the newest one."""

    embedded: Tensor
    """Embeddings of the last m frames, oldest first, (B, h, w, m·E)."""
    frame: Tensor
    """The newest frame, normalized, (B, C, H, W)."""
    classes: Tensor
    """Colors of the frame before it and its own, and, if pixels are recalled, those before their last change, as
    planes (B, 2 or 3, H, W)."""


class PixelPredictor(Predictor, kind="pixel"):
    """The pixel-exact network.

    ::

        x_t-15:t ── conv 8×8/8 ── concat ── linear ──(+)── + place ── U-Net ── h ─┬─ linear ── colors ─┬─ x_t+1
        3×210×160    16×27×20    256×27×20          │      32×27×20     │     32  │  64·N per cell      │  3×210×160
        x_t ──────── conv 8×8/8 ────────────────────┘             a_t ──┘         └─ linear ── motions ─┘
                                                                                     S per cell, of x_t, x_t-1
    """

    config_class: ClassVar[type[Any]] = PixelConfig
    names_colors: ClassVar[bool] = True
    gives_uncertainty: ClassVar[bool] = True

    palette_mask: Tensor | None
    """Which colors each pixel can have, a bit for each, (H, W, ⌈N / 8⌉); None: all of them."""
    excluded: Tensor | None
    """Which it cannot have, by cells, (h·w, q, N)."""

    def __init__(self, config: PixelConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.pixel_config = config
        pixels = config.cell**2
        first = config.channels[0]
        self.colors = Colors(config.palette, quantized=config.quantized)
        self.embed = convolution(config.frame[2], config.embedding, config.cell, config.cell, (0, 0), generator)
        self.remember = linear(config.embedded_frames * config.embedding, first, generator, bias=False)
        self.newest = convolution(config.frame[2], first, config.cell, config.cell, (0, 0), generator)
        self.place = nn.Parameter(torch.zeros(*config.grid, first))
        self.unet = ActionUnet(
            config.channels, config.blocks, config.actions, generator, circular_padding=config.circular_padding
        )
        self.head = linear(first, pixels * len(config.palette), generator, bound=0.0)
        self.copy = linear(first, config.copies, generator, bound=0.0)
        nn.init.zeros_(self.copy.bias)
        self.copy.bias.data[0] = START_ODDS + log(len(config.palette))
        self.heads = position_heads(config, generator) if config.predict_rewards else None
        self.events = event_heads(config, generator) if config.predict_rewards and config.events else None
        self.register_buffer("palette_mask", None)
        self.register_buffer("excluded", None, persistent=False)
        self.register_load_state_dict_pre_hook(make_room)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_post_hook(unpack)  # type: ignore[no-untyped-call]
        self.temperature = 0.0
        self.exhaustive = False
        """Whether copies are computed for all pixels, not only where they may change: same result, slower."""
        self.generator: torch.Generator | None = None
        self.decoder: TraceableDecoder | None = None
        """What chooses the colors of a traceable predictor."""

    @classmethod
    def prepare(cls, data: DatasetSplit) -> dict[str, Any]:
        """Return palette, motions and palette cycling of the training episodes."""
        return {"actions": data.actions, "frame": data.frame, "predict_rewards": True} | statistics_of(data)

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of the network."""
        return preset_sizes(preset, frame)

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return one phase of teacher forcing with Muon, on windows drawn by sampling priority."""
        return training_defaults(preset)

    def calibrate(self, data: DatasetSplit, report: Callable[[str], None], progress: Progress) -> None:
        """Find the palette mask: which colors each pixel can have."""
        if self.pixel_config.palette_mask:
            mask = calibrated_mask(data, self.pixel_config.palette, report, progress)
            if mask is not None:
                self.set_palette_mask(mask)

    def set_palette_mask(self, mask: Mask) -> None:
        """Predict only colors that the mask (N, H, W) allows."""
        self.palette_mask = None if mask.all() else packed(mask, self.pixel_config).to(self.place.device)
        unpack(self)

    def sample(self, temperature: float = 1.0, seed: int = 0) -> None:
        """Sample every pixel's color from its probabilities from now on; temperature 0 takes the most probable again.

        All pixels of a frame share their noise, so that an object that may move in two ways mostly moves in one as a
        whole; two equally uncertain objects do the same. `predict_all` shares the noise among actions, too.
        """
        if temperature < 0:
            raise ConfigError(f"temperature is {temperature}; it must be 0 or more")
        self.temperature = temperature
        self.generator = torch.Generator(self.place.device).manual_seed(seed)

    @contextmanager
    def shared_noise(self) -> Iterator[None]:
        """Restore the state of the sampling generator at the end."""
        before = None if self.generator is None else self.generator.get_state()
        try:
            yield
        finally:
            if self.generator is not None and before is not None:
                self.generator.set_state(before)

    def traceable(self) -> Self:
        """Return a copy that knows only the colors of the palette and chooses colors in fewer operations."""
        copied = deepcopy(self)
        copied.colors = TraceableColors(copied.colors)
        copied.decoder = TraceableDecoder(copied.head, copied.excluded, copied.pixel_config)
        return copied

    def example_frames(self, rows: int, generator: torch.Generator) -> Tensor:
        """Return random uint8 frames (rows, context, H, W, C) in the predictor's colors."""
        shape = (rows, self.context, *self.config.frame[:2])
        return self.colors.pixels(torch.randint(len(self.colors), shape, generator=generator))

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> PixelState:
        """Return the state after the last m of the real frames (B, T, C, H, W)."""
        check_frames(frames, self.config.frame, self.context)
        recent = frames[:, -self.pixel_config.embedded_frames :]
        newest = recent[:, -1]
        older = recent[:, -2] if self.context > 1 else newest
        classes = torch.stack((self._classes(older), self._classes(newest)), 1)
        return PixelState(embedded=joined(self._embed(recent)), frame=newest, classes=classes)

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, PixelState]:
        """Return the next frame (B, C, H, W), its colors those of the palette, and the state after it."""
        state = PixelState.require(state)
        vectors = action_vectors(action, self.actions, (len(state.classes),))
        features, outcome = self._features(self._mixed(state), vectors)
        classes = self._choose(features, state.classes)
        frame = self._frame(classes)
        return frame, self._next(state, frame.clone(), classes, outcome)  # a caller may change the frame

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        state = PixelState.require(state)
        rows = len(state.classes)
        mixed = self._mixed(state).repeat_interleave(self.actions, 0)
        every = torch.eye(self.actions, dtype=mixed.dtype, device=mixed.device).repeat(rows, 1)
        features, _ = self._features(mixed, every)
        frames = self._frame(self._choose(features, state.classes.repeat_interleave(self.actions, 0), self.actions))
        return frames.reshape(rows, self.actions, *frames.shape[1:])

    @torch.no_grad()
    def uncertainty(self, state: State, action: Tensor, frame: Tensor) -> Tensor:
        """Return the probability that each pixel of a predicted frame (B, C, H, W) is another color, (B, H, W)."""
        state, config = PixelState.require(state), self.pixel_config
        features, _ = self._features(self._mixed(state), action_vectors(action, self.actions, (len(state.classes),)))
        own, motion = self._logits(features.permute(0, 2, 3, 1).flatten(0, 2))
        cells, count = torch.arange(len(own), device=own.device), len(own) // len(frame)
        if self.excluded is not None:
            own = own.masked_fill(self.excluded[cells % count], -torch.inf)
        moved = copied_in_cells(add_border(state.classes, config), cells // count, cells % count, config)
        shown = to_cells(self._classes(frame), config).flatten(0, 1)
        return 1 - to_frames(color_probability(own, motion, moved, shown), len(frame), config)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the m real frames before it, as one batch."""
        state = self._every_state(frames, self._window_classes(frames[:, :-1], predict - 1))
        features, outcome = self._features(self._mixed(state), actions[:, -predict:].flatten(0, 1))
        return as_window(self._frame(self._choose(features, state.classes)), outcome, len(frames))

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Return the cross-entropy of the colors summed over a frame's pixels, averaged over batch and steps.

        Background cells are subsampled; predictions are fed back as frames, through which no gradient flows.
        """
        frames, predict = batch.frames, batch.predict
        check_frames(frames, self.config.frame, self.context + predict)
        check_window(frames, batch.actions, predict)
        rows, seen = len(frames), frames.shape[1] - predict
        vectors = action_vectors(batch.actions, self.actions, (rows, frames.shape[1] - 1))[:, seen - 1 :]
        classes = self._window_classes(frames, predict)
        targets = classes[:, 2:]  # (B, K, H, W)
        if self.pixel_config.input_corruption:
            rng = np.random.default_rng(int(targets.sum()))  # the same for the same window: a run can be repeated
            frames = corrupt_inputs(
                frames, self.pixel_config.input_corruption, self.colors.palette, self.normalizer, rng
            )
            classes = self._window_classes(frames, predict)
        if batch.teacher_forcing:
            state = self._every_state(frames, classes[:, :-1])
            features, outcome = self._features(self._mixed(state), vectors.flatten(0, 1))
            return self._scored([self._loss(features, state, targets.flatten(0, 1))], [outcome], batch)
        state, losses, outcomes = self.observe(frames[:, :seen]), [], []
        for step in range(predict):
            features, outcome = self._features(self._mixed(state), vectors[:, step])
            losses.append(self._loss(features, state, targets[:, step]))
            outcomes.append(outcome)
            if step + 1 < predict:
                chosen = self._choose(features, state.classes)
                state = self._next(state, self._frame(chosen), chosen, outcome)
        return self._scored(losses, outcomes, batch)

    def _scored(
        self, losses: list[Tensor], outcomes: list[Outcome | None], batch: TrainingBatch
    ) -> tuple[Tensor, Metrics]:
        """Return the mean loss with that of the heads, of K steps with B rows each, or of one batch of B·K."""
        loss, rows = torch.stack(losses).mean(), len(batch.frames)
        known = [outcome for outcome in outcomes if outcome is not None]
        if not known:
            return joint_loss(loss, None, None, batch)
        reward, termination, lost_life = Outcome.of_windows(known, rows)
        return joint_loss(loss, reward, termination, batch, lost_life)

    def action_factors(self) -> list[ActionFactors]:
        """Return the gains and shifts of the U-Net."""
        return list(self.unet.factors())

    def wrong_pixels(self, predicted: Tensor, true: Tensor) -> Tensor:
        """Return which pixels of normalized frames (..., C, H, W) have another color, (..., H, W)."""
        return self._classes(predicted) != self._classes(true)

    def _window_classes(self, frames: Tensor, predict: int) -> Tensor:
        """Return the colors (B, K+2, H, W) of the last K frames and the two before them."""
        recent = frames[:, -predict - 2 :] if self.context > 1 else frames[:, -predict - 1 :]
        classes = self._classes(as_rows(recent)).view(len(frames), -1, *self.config.frame[:2])
        return classes if self.context > 1 else torch.cat((classes[:, :1], classes), 1)

    def _every_state(self, frames: Tensor, classes: Tensor) -> PixelState:
        """Return the states before the last K real frames, of classes (B, K+1, H, W), as one batch (B·K, ...)."""
        predict, count = classes.shape[1] - 1, self.pixel_config.embedded_frames
        seen = frames[:, -predict - count : -1]  # (B, m+K-1, C, H, W)
        embedded = self._embed(seen)  # (B, m+K-1, h, w, E)
        stacked = torch.stack([joined(embedded[:, k : k + count]) for k in range(predict)], 1)
        newest = as_rows(seen[:, -predict:])
        pairs = torch.stack((classes[:, :-1], classes[:, 1:]), 2)  # (B, K, 2, H, W)
        return PixelState(embedded=stacked.flatten(0, 1), frame=newest, classes=pairs.flatten(0, 1))

    def _next(self, state: PixelState, frame: Tensor, classes: Tensor, outcome: Outcome | None) -> PixelState:
        """Return the state after a predicted frame (B, C, H, W) of classes (B, H, W)."""
        kept = state.embedded[..., self.pixel_config.embedding :]
        embedded = torch.cat((kept, self._embed(frame[:, None])[:, 0]), -1)
        both = torch.stack((state.classes[:, 1], classes), 1)
        return PixelState(embedded=embedded, frame=frame, classes=both, outcome=outcome)

    def _mixed(self, state: PixelState) -> Tensor:
        """Return the features (B, F, h, w) before the action."""
        newest = self.newest(pad_to_cells(state.frame, self.pixel_config, 0.0)).permute(0, 2, 3, 1)
        mixed: Tensor = self.remember(state.embedded) + newest + self.place  # (B, h, w, F)
        return mixed.permute(0, 3, 1, 2)

    def _features(self, mixed: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the features (N, F, h, w) after action vectors (N, A), and the outcome."""
        features, smallest = self.unet(mixed, action)
        features = functional.relu(features)
        outcome = self.heads(smallest) if self.heads else None
        return features, outcome.plus(self.events(features)) if outcome and self.events else outcome

    @torch.no_grad()
    def _choose(self, features: Tensor, seen: Tensor, alike: int = 1) -> Tensor:
        """Return the color classes (N, H, W) of features (N, F, h, w) after two frames of classes ``seen``.

        Where they are sampled, ``alike`` frames in a row share their noise.
        """
        config, rows = self.pixel_config, features.permute(0, 2, 3, 1).flatten(1, 2)  # (N, h·w, F)
        if self.decoder is not None:
            decoded: Tensor = self.decoder(rows[0], self._copy_logits(rows[0]), seen)
            return decoded
        if self.exhaustive or self.temperature or rows.device.type != "cpu":
            add_noise = partial(self._noisy, frames=len(seen), alike=alike) if self.temperature else None
            return to_frames(
                decode(*self._logits(rows.flatten(0, 1)), seen, self.excluded, config, add_noise), len(seen), config
            )
        now = to_cells(seen[:, 1], config)  # (N, h·w, q)
        head = torch.cat((self.head.weight, self.head.bias[:, None]), 1).T  # (F + 1, q·N), faster than adding the bias
        frames = []
        for features_of_cells, classes, shown in zip(rows, seen, now, strict=True):  # logits of a frame fit the cache
            own = torch.cat((features_of_cells, torch.ones_like(features_of_cells[:, :1])), 1) @ head
            own, motion = own.view(*shown.shape, -1), self._copy_logits(features_of_cells)  # (h·w, q, N), (h·w, S)
            frames.append(decode_changes(own, motion, classes, shown, self.excluded, config))
        return to_frames(torch.cat(frames), len(seen), config)

    def _logits(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of colors (n, q, N) and of ways to copy (n, S) of cells with features (n, F)."""
        return self.head(rows).unflatten(1, (self.pixel_config.cell**2, -1)), self._copy_logits(rows)

    def _copy_logits(self, rows: Tensor) -> Tensor:
        """Return the logits of ways to copy (n, S) of cells with features (n, F)."""
        logits: Tensor = self.copy(rows)
        return logits

    def _noisy(self, logits: Tensor, frames: int, alike: int) -> Tensor:
        """Return logits (N·h·w, q, ...) with Gumbel noise: the largest is a sample from their probabilities."""
        noise = logits.new_empty(frames // alike, 1, 1, logits.shape[2]).exponential_(generator=self.generator).log_()
        noise = noise.repeat_interleave(alike, 0)
        return (logits.view(frames, -1, *logits.shape[1:]) / self.temperature - noise).view_as(logits)

    def _loss(self, features: Tensor, state: PixelState, target: Tensor) -> Tensor:
        """Return the cross-entropy of classes ``target`` (N, H, W) after a state, summed over pixels, mean over rows.

        The probabilities of predicting and of copying a color add up. The palette mask is not applied.
        """
        config = self.pixel_config
        row, cell, weight = self._counted(state, target)
        own, motion = self._logits(features.permute(0, 2, 3, 1).flatten(1, 2)[row, cell])  # (n, q, N), (n, S)
        true = to_cells(target, config)[row, cell]  # (n, q)
        size = CELLS_AT_ONCE if own.device.type == "cpu" else max(len(own), 1)
        tensors = (row, cell, own.float(), motion.float(), true)
        parts = zip(*(tensor.split(size) for tensor in tensors), strict=True)  # type: ignore[no-untyped-call]
        bordered = add_border(state.classes, config)
        losses = [copy_mixture_loss(o, m, copied_in_cells(bordered, r, c, config), t) for r, c, o, m, t in parts]
        return (torch.cat(losses) * weight).sum() / len(features)

    def _counted(self, state: PixelState, target: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return rows, cells and weights (n,) of the cells that the loss counts."""
        config = self.pixel_config
        differs = state.frame.abs().amax(1) > FOREGROUND_DIFFERENCE / config.pixel_scale  # (N, H, W)
        planes = (state.classes[:, 1], target, differs.long())
        before, after, differing = (to_cells(plane, config) for plane in planes)  # (N, h·w, q)
        return counted_cells(before, after, differing == 1, target.sum((1, 2)), config.background_subsampling)

    def _classes(self, frames: Tensor) -> Tensor:
        """Return the color classes (N, H, W) of normalized frames (N, C, H, W)."""
        return self.colors.classes(self.normalizer.to_uint8(frames))

    def _frame(self, classes: Tensor) -> Tensor:
        """Return the normalized frames (N, C, H, W) of color classes (N, H, W)."""
        return self.normalizer.to_float(self.colors.pixels(classes))

    def _embed(self, frames: Tensor) -> Tensor:
        """Return what is remembered of frames (B, T, C, H, W), (B, T, h, w, E)."""
        embedded: Tensor = self.embed(pad_to_cells(as_rows(frames), self.pixel_config, 0.0))
        embedded = embedded.permute(0, 2, 3, 1)
        return embedded.reshape(*frames.shape[:2], *embedded.shape[1:])
