"""Videos and strips of some windows: true and predicted frames side by side.

A clip is a window from its first frame to its last predicted step. Its video shows truth, prediction and difference for
every model, as MP4 and GIF; its strips are those of the paper: whole frames by step (appendix E) and zoomed crops
(figure 4). Clips are chosen and checked before the long work and made after it.

Shapes: T given frames, K predicted steps, H height and W width of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.actions import label_of
from acvp.console import Progress
from acvp.data.replay import Positions, find_positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, WindowStart, choose_starts
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError
from acvp.evaluation.config import Crop, EvaluateConfig, parse_crop, strip_steps
from acvp.evaluation.windows import HeldOutPart
from acvp.figures import (
    FAINT,
    GIF_HEIGHT,
    GIVEN,
    INK,
    LINE,
    PREDICTED,
    VIDEO_HEIGHT,
    Color,
    Picture,
    canvas,
    difference,
    encode_gif,
    encode_mp4,
    even_scale,
    fitted,
    font,
    in_color,
    paste,
    png,
    require_encoder,
    side_by_side,
)
from acvp.loaded import LoadedModel, check_alike
from acvp.models.pixels import PATCH, to_frames

Pictures = NDArray[np.uint8]  # (n, H, W, 3)


@dataclass(frozen=True, kw_only=True)
class Clip:
    """The frames of one window; step 1 is the first predicted frame."""

    title: str
    truth: Pictures
    """(T + K, H, W, 3)"""
    predictions: dict[str, Pictures]
    """(K, H, W, 3) by model."""
    actions: tuple[str, ...]
    """Name of the action that led to each frame but the first, T + K − 1."""
    context: int
    """T, the real frames given."""
    boxes: tuple[tuple[int, int, int, int] | None, ...]
    """Left, top, right, bottom of the controlled object by frame; None: not known."""

    @property
    def steps(self) -> int:
        return len(self.truth) - self.context

    def frame(self, step: int) -> Pictures:
        """Return the true frame (H, W, 3) of a step; 0 is the last given one."""
        picture: Pictures = self.truth[self.context - 1 + step]
        return picture

    def action(self, step: int) -> str:
        """Return the name of the action that led to a step."""
        return self.actions[self.context - 2 + step]

    def box(self, step: int) -> tuple[int, int, int, int] | None:
        """Return where the controlled object is at a step."""
        return self.boxes[self.context - 1 + step]


@torch.inference_mode()
def record_clip(
    models: Sequence[LoadedModel],
    store: EpisodeStore,
    start: WindowStart,
    *,
    context: int,
    steps: int,
    positions: Positions | None = None,
) -> Clip:
    """Look ahead from one window with every model and keep all frames."""
    view, length = models[0].view, context + steps
    window = WindowReader(store, [start], view)
    truth, actions = window.frames(0, length), window.actions(0, length - 1)
    predictions = {
        model.name: np.concatenate([to_frames(p) for p in model.look_ahead(truth[:, :context], actions)])
        for model in models
    }
    numbers = np.maximum(np.arange(start.frame, start.frame + length), 0)  # below 0: the first frame, repeated
    where = None if positions is None else positions[start.episode][numbers]
    return Clip(
        title=f"episode {store.entries[start.episode].number}, frame {start.frame}",
        truth=in_color(truth[0]),
        predictions={name: in_color(frames) for name, frames in predictions.items()},
        actions=tuple(label_of(action, store.info.action_meanings) for action in actions[0]),
        context=context,
        boxes=_boxes(where, length, truth.shape[2:4], store.info.frame_shape[:2]),
    )


def _boxes(
    where: NDArray[np.float64] | None, length: int, size: tuple[int, ...], recorded: tuple[int, ...]
) -> tuple[tuple[int, int, int, int] | None, ...]:
    if where is None:
        return (None,) * length
    down, right = size[0] / recorded[0], size[1] / recorded[1]
    half, middle = 1.2 * PATCH * max(recorded), 0.5  # a pixel's center lies half a pixel from its edge
    boxes: list[tuple[int, int, int, int] | None] = []
    for row, column in where + middle:
        edges = ((column - half) * right, (row - half) * down, (column + half) * right, (row + half) * down)
        boxes.append(None if np.isnan(row) else (round(edges[0]), round(edges[1]), round(edges[2]), round(edges[3])))
    return tuple(boxes)


def pictures(clip: Clip, scale: int) -> Iterator[Picture]:
    """Yield the pictures of a video, from the first given frame on."""
    for number in range(len(clip.truth)):
        yield _compose(clip, number - clip.context + 1, scale)


def _compose(clip: Clip, step: int, scale: int) -> Picture:
    """Draw one step; steps up to 0 are given frames."""
    return side_by_side(list(_panels(clip, step, clip.frame(step))), _headline(clip, step), scale)


def _panels(clip: Clip, step: int, truth: Picture) -> Iterator[tuple[str, Picture, Color]]:
    yield "truth", truth, FAINT
    border = GIVEN if step <= 0 else PREDICTED
    for name, frames in clip.predictions.items():
        shown = truth if step <= 0 else frames[step - 1]
        yield name, shown, border
        yield "difference x 2", difference(shown, truth), border


def _headline(clip: Clip, step: int) -> str:
    first = step == 1 - clip.context
    action = "" if first else f"   action {clip.action(step)}"
    return f"given frame {step + clip.context}{action}" if step <= 0 else f"step {step}{action}"


def check_format(name: str) -> None:
    """Refuse a format that cannot be written here, before any work is done."""
    if name == "mp4":
        try:
            require_encoder()
        except UserError as error:
            raise UserError(f"{error}, or choose --video-formats gif, or --videos 0") from error


def mp4(clip: Clip) -> bytes:
    """Return a clip as an H.264 video that browsers and phones play."""
    return encode_mp4(pictures(clip, even_scale(clip.truth.shape[1], VIDEO_HEIGHT)))


def gif(clip: Clip) -> bytes:
    """Return a clip as a GIF; each picture has a separate palette of 256 colors."""
    return encode_gif(pictures(clip, max(1, round(GIF_HEIGHT / clip.truth.shape[1]))))


ENCODERS: dict[str, Callable[[Clip], bytes]] = {"mp4": mp4, "gif": gif}


TRUTH = "truth"
PANEL, CROPPED = 168, 112
"""Heights of a whole frame and of a crop in a strip, about, in pixels."""
STRIP_GAP, JUMP, SIDE = 6, 18, 76
"""Pixels between panels, more where steps are left out, and for step and action beside them."""
WHITE = (255, 255, 255)


def strip(clip: Clip, steps: Sequence[int]) -> bytes:
    """Return a PNG: a row for each step, a column for each model and the truth, the controlled object boxed."""
    height, width = clip.truth.shape[1:3]
    scale = max(1, round(PANEL / height))
    names = [*clip.predictions, TRUTH]
    across, down = max(width * scale, 60) + STRIP_GAP, height * scale + STRIP_GAP
    jumps = sum(b != a + 1 for a, b in pairwise(steps))
    image, draw = canvas(2 * SIDE + across * len(names), LINE + STRIP_GAP + down * len(steps) + JUMP * jumps)
    for column, name in enumerate(names):
        draw.text((SIDE + column * across, 2), fitted(name, across - STRIP_GAP), INK, font())
    top, before = LINE + STRIP_GAP, steps[0] - 1
    for step in steps:
        top += 0 if step == before + 1 else JUMP
        draw.text((STRIP_GAP, top), f"step {step}", INK, font())
        draw.text((SIDE + across * len(names), top), fitted(clip.action(step), SIDE), INK, font())
        box = clip.box(step)
        for column, name in enumerate(names):
            left = SIDE + column * across
            paste(image, _frame(clip, name, step), scale, (left, top))
            if box is not None:
                edges = [edge * scale + shift for edge, shift in zip(box, (left, top) * 2, strict=True)]
                draw.rectangle(edges, outline=WHITE)
        top, before = top + down, step
    return png(image)


def check_crop(crop: Crop, height: int, width: int) -> None:
    """Refuse a crop that leaves the frame."""
    if crop.row + crop.height > height or crop.column + crop.width > width:
        text = f"{crop.row}x{crop.column}+{crop.height}+{crop.width}"
        raise UserError(f"--crop {text}: it leaves the frame of {height}×{width} pixels")


def crop_strip(clip: Clip, steps: Sequence[int], crop: Crop) -> bytes:
    """Return a PNG: a column for each step, a row for each model and the truth, enlarged crops."""
    check_crop(crop, *clip.truth.shape[1:3])
    scale = max(1, round(CROPPED / crop.height))
    names = [*clip.predictions, TRUTH]
    across, down, side = crop.width * scale + STRIP_GAP, crop.height * scale + STRIP_GAP, 2 * SIDE
    image, draw = canvas(side + across * len(steps), 2 * LINE + down * len(names))
    for row, name in enumerate(names):
        draw.text((STRIP_GAP, 2 * LINE + row * down), fitted(name, side - 2 * STRIP_GAP), INK, font())
    for column, step in enumerate(steps):
        left = side + column * across
        draw.text((left, 2), fitted(f"step {step}", across - STRIP_GAP, 12), INK, font(12))
        draw.text((left, LINE + 2), fitted(clip.action(step), across - STRIP_GAP, 12), INK, font(12))
        for row, name in enumerate(names):
            frame = _frame(clip, name, step)
            part = frame[crop.row : crop.row + crop.height, crop.column : crop.column + crop.width]
            paste(image, part, scale, (left, 2 * LINE + row * down))
    return png(image)


def _frame(clip: Clip, name: str, step: int) -> Picture:
    return clip.frame(step) if name == TRUTH else clip.predictions[name][step - 1]


VIDEOS_NAME, STRIPS_NAME = "videos", "strips"


class MediaWriter:
    """Writes the videos and strips of an evaluation; refuses before the long work what it could not write after it."""

    def __init__(self, models: Sequence[LoadedModel], part: HeldOutPart, config: EvaluateConfig) -> None:
        check_alike(models, part.store)
        self.models, self.store, self.config = models, part.store, config
        self.window = Window(max(model.predictor.context for model in models), config.film_steps)
        self.starts: list[WindowStart] = []
        self.crop = None if config.crop is None else parse_crop(config.crop)
        if config.videos:
            for name in config.video_formats:
                check_format(name)
            self.starts = choose_starts(self.store, self.window, config.videos, seed=config.seed, option="video-steps")
        if self.crop:
            check_crop(self.crop, *models[0].predictor.config.frame[:2])

    def write(self, out: Path, progress: Progress) -> list[dict[str, str]]:
        """Write the files of every clip and return their names."""
        positions = self._positions()
        clips = []
        for number, start in enumerate(self.starts):
            progress(number, len(self.starts))
            clip = record_clip(
                self.models,
                self.store,
                start,
                context=self.window.context,
                steps=self.window.horizon,
                positions=positions,
            )
            clips.append({"title": clip.title} | self._write(clip, out, number))
        return clips

    def _write(self, clip: Clip, out: Path, number: int) -> dict[str, str]:
        steps = strip_steps(self.config.strip, clip.steps)
        files = {f"{VIDEOS_NAME}/{number}.{name}": ENCODERS[name](clip) for name in self.config.video_formats}
        files[f"{STRIPS_NAME}/{number}.png"] = strip(clip, steps)
        if self.crop:
            files[f"{STRIPS_NAME}/{number}-crop.png"] = crop_strip(clip, steps, self.crop)
        for name, data in files.items():
            make_folder((out / name).parent)
            write_atomic(out / name, data)
        kinds = {f"{VIDEOS_NAME}/{number}.mp4": "mp4", f"{VIDEOS_NAME}/{number}.gif": "gif"}
        kinds |= {f"{STRIPS_NAME}/{number}.png": "strip", f"{STRIPS_NAME}/{number}-crop.png": "crop"}
        return {kinds[name]: name for name in files}

    def _positions(self) -> Positions | None:
        """Return where the controlled object is, None where that is not known: then no box is drawn."""
        try:
            return find_positions(self.store, self.starts, self.window.length) if self.starts else None
        except UserError:
            return None
