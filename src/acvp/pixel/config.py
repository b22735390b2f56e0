"""The configs of the pixel-exact networks, of sizes and of statistics of a game (colors, motions, objects); presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acvp.errors import UserError
from acvp.models.config import ConfigError, FrameShape, PredictorConfig, require_whole

Palette = tuple[tuple[int, ...], ...]
"""A color each, of C values 0..255."""
MAX_COLORS = 256
Motion = tuple[int, int]
"""Pixels (down, right)."""
MAX_MOTIONS = 64
SEEN_FRAMES = 4
"""Frames in which objects are seen, the newest included."""
OLD, LONGEST_CONTEXT = 16, 256
"""Steps after which a pixel that has not changed counts as old in a network without a longer memory, and the frames of
the longest."""
PAST_ACTIONS = 3
"""Actions before the newest frame that the prediction of objects depends on."""


@dataclass(frozen=True, kw_only=True)
class PixelConfig(PredictorConfig):
    """The pixel-exact network."""

    palette: Palette
    """The colors, each of as many values 0..255 as a frame has channels."""
    motions: tuple[Motion, ...] = ((0, 0),)
    """Pixels (down, right) by which what a cell shows may have moved since the newest frame; the first is no motion."""
    older_motions: tuple[Motion, ...] = ()
    """The same since the frame before the newest, in which an animated object has the pose that it will have again."""
    palette_cycle: tuple[int, ...] = ()
    """Palette cycling: for each color the number of the color that it turns into, or its own number; (): no cycling."""
    quantized: bool = False
    """Whether each color stands for similar ones too, as in a game of over 256 colors."""
    context: int = 16
    """Real frames needed before the first prediction."""
    cell: int = 8
    """Side p of a cell in pixels."""
    embedding: int = 16
    """Numbers E that are remembered of a cell of each frame."""
    channels: tuple[int, ...] = (32, 48, 64)
    """Features of a cell at each scale of the U-Net."""
    blocks: tuple[int, ...] = (1, 1, 2)
    """Residual blocks at each scale, on the way down and, except at the last scale, on the way up."""
    circular_padding: bool = False
    """Whether convolutions of the U-Net see the opposite edge beyond an edge, for games whose screen wraps around."""
    background_subsampling: int = 8
    """The loss takes one in so many background cells, with that weight: cells that neither change nor differ from the
    mean image."""
    input_corruption: float = 0.0
    """Share of the training windows whose input frames get patches of wrong pixels, so that errors are corrected."""
    palette_mask: bool = False
    """Whether each pixel is restricted to the colors that the training episodes show at or near it."""
    predict_rewards: bool = True
    """Whether the network has reward and termination heads."""
    predict_lives: bool = False
    """Whether these heads also predict a lost life."""
    events: int = 0
    """Features of the finest grid whose maximum over positions feeds the heads, as a hit may be anywhere; 0: none."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _require_palette(self.palette, self.frame[2])
        require_whole(cell=self.cell, embedding=self.embedding, background_subsampling=self.background_subsampling)
        if type(self.events) is not int or self.events < 0:
            raise ConfigError(f"events is {self.events}; it must be a whole number, 0 or more")
        if not 0 <= self.input_corruption <= 1:
            raise ConfigError(f"input_corruption is {self.input_corruption}; it must be a share of the windows, 0 to 1")
        _require_motions(self.motions, self.older_motions, self.frame)
        _require_palette_cycle(self.palette_cycle, len(self.palette))
        if self.older_motions and self.context < 2:
            raise ConfigError("older_motions come from the frame before the newest: they need a context of at least 2")
        if not self.channels or len(self.channels) != len(self.blocks):
            raise ConfigError(f"channels {self.channels} and blocks {self.blocks}: one each per scale")
        for size in (*self.channels, *self.blocks):
            require_whole(**{f"a size in {self.channels}, {self.blocks}": size})

    @property
    def copies(self) -> int:
        """Number S of ways to copy a pixel's color out of the last two frames: the motions, and palette cycling."""
        return len(self.motions) + len(self.older_motions) + bool(self.palette_cycle)

    @property
    def embedded_frames(self) -> int:
        """Number m of the newest frames that are embedded."""
        return self.context

    @property
    def recalls(self) -> bool:
        """Whether the network has a longer memory of single pixels: when each changed, and what it showed before."""
        return False

    @property
    def grid(self) -> tuple[int, int]:
        """(height, width) in cells."""
        return -(-self.frame[0] // self.cell), -(-self.frame[1] // self.cell)


@dataclass(frozen=True, kw_only=True)
class ObjectConfig(PixelConfig):
    """The pixel-exact network with objects."""

    moves: tuple[Motion, ...] = ((0, 0),)
    """Pixels (down, right) by which an object may move in a step."""
    moving_colors: tuple[int, ...] = ()
    """Numbers of the colors whose pixels are objects except where they nearly always are."""
    controlled_colors: tuple[int, ...] = ()
    """Numbers of the main colors of objects whose moves depend on the action."""
    features: int = 128
    """Features of an object: so many for its move, and as many for drawing it."""
    grid_context: int = 16
    """Newest frames that the grid embeds, at most; of older ones, up to the context, the network remembers when each
    pixel last changed, and what it showed before."""

    def __post_init__(self) -> None:
        super().__post_init__()
        named = self.moving_colors + self.controlled_colors
        known = all(type(color) is int and 0 <= color < len(self.palette) for color in named)
        if not self.moves or len(set(self.moves)) != len(self.moves) or not known:
            raise ConfigError(
                f"moves are {str(self.moves)[:200]}, moving_colors {str(self.moving_colors)[:200]} and "
                f"controlled_colors {str(self.controlled_colors)[:200]}; they must be different moves, at least one, "
                "and numbers of colors"
            )
        require_whole(grid_context=self.grid_context)
        if self.context > LONGEST_CONTEXT:
            raise ConfigError(f"context is {self.context}; it must be at most {LONGEST_CONTEXT}")
        if self.context < SEEN_FRAMES:
            raise ConfigError(f"context is {self.context}; objects are seen in {SEEN_FRAMES} frames")

    @property
    def embedded_frames(self) -> int:
        """Number m of the newest frames that the grid embeds."""
        return min(self.grid_context, self.context)

    @property
    def recalls(self) -> bool:
        """Whether the context is longer than what the grid embeds."""
        return self.context > self.grid_context

    @property
    def oldest(self) -> int:
        """Steps after which a pixel that has not changed counts as old."""
        return self.context - 1 if self.recalls else OLD


def _require_palette(palette: Palette, channels: int) -> None:
    """Refuse anything but 1 to 256 different colors of so many values 0..255."""
    whole = all(type(value) is int and 0 <= value < 256 for color in palette for value in color)
    sized = all(len(color) == channels for color in palette)
    if not whole or not sized or not 1 <= len(set(palette)) == len(palette) <= MAX_COLORS:
        raise ConfigError(
            f"palette has {len(palette)} colors; it must be 1 to 256 different ones of {channels} values 0..255"
        )


def _require_motions(motions: tuple[Motion, ...], older: tuple[Motion, ...], frame: FrameShape) -> None:
    within = all(
        len(motion) == 2
        and all(type(shift) is int and abs(shift) < side for shift, side in zip(motion, frame, strict=False))
        for motion in motions + older
    )
    different = len(set(motions)) == len(motions) and len(set(older)) == len(older)
    if not within or motions[:1] != ((0, 0),) or not different or len(motions + older) > MAX_MOTIONS:
        raise ConfigError(
            f"motions are {str(motions)[:200]} and, of the older frame, {str(older)[:200]}; they must be 1 to "
            f"{MAX_MOTIONS} different ones of less than a frame's sides (down, right), the first (0, 0)"
        )


def _require_palette_cycle(palette_cycle: tuple[int, ...], colors: int) -> None:
    known = all(type(number) is int and 0 <= number < colors for number in palette_cycle)
    if not known or len(palette_cycle) not in (0, colors):
        raise ConfigError(
            f"palette_cycle is {str(palette_cycle)[:200]}; it must be empty, or have for each of the {colors} colors "
            "the number of one of them"
        )


CELL, SMALL_CELLS = 8, (4, 5)
"""Side of a cell in pixels, and of small frames."""
SMALL_FRAME = 128
"""Pixels: a frame with a shorter side has small cells."""

CPU: Mapping[str, Any] = {
    "view": "rgb",
    "optimizer": {"name": "muon", "weight_decay": 0.1},
    "phases": (
        {
            "predict": 4, "batch_size": 2, "teacher_forcing": True, "lr": 2e-3, "minutes": 30.0, "warmup": 50,
            "priority_share": 0.5, "event_share": 0.15, "reward_weight": 10.0, "anneal": True,
        },
    ),
    "evaluate_every": 1000,
    "windows": 8,
}  # fmt: skip
GPU: Mapping[str, Any] = {
    **CPU,
    "phases": ({**CPU["phases"][0], "batch_size": 16, "lr": 4e-3, "minutes": 20.0, "warmup": 100},),
}
SMOKE: Mapping[str, Any] = {
    **CPU,
    "phases": ({**CPU["phases"][0], "minutes": None, "steps": 120, "lr": 5e-3, "warmup": 10},),
    "evaluate_every": 50,
}


def cell_side(frame: FrameShape) -> int:
    """Return the side of a cell: 8 pixels, or fewer for small frames."""
    if min(frame[:2]) >= SMALL_FRAME:
        return CELL
    even, odd = SMALL_CELLS
    return even if frame[0] % odd or frame[1] % odd else odd


def preset_sizes(preset: str, frame: FrameShape) -> dict[str, Any]:
    """Return the fields of PixelConfig that a preset sets for frames of a shape."""
    _refuse_paper(preset)
    sizes = {"cell": cell_side(frame), "circular_padding": True, "palette_mask": True, "events": 16}
    if preset == "smoke":
        return sizes | {"context": 8, "embedding": 16, "channels": (32, 32), "blocks": (1, 1)}
    return sizes


def training_defaults(preset: str) -> Mapping[str, Any]:
    """Return half an hour, 20 minutes of a GPU or seconds, of one-step prediction from real frames."""
    _refuse_paper(preset)
    return {"smoke": SMOKE, "gpu": GPU}.get(preset, CPU)


def _refuse_paper(preset: str) -> None:
    if preset in ("paper", "authors"):
        raise UserError("the pixel-exact predictor is not the paper's: train it with --preset gpu, cpu or smoke")
