"""Film strips as in the paper: whole frames by step (appendix E), and zoomed crops of some steps (figure 4)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise

from PIL import Image

from acvp.errors import UserError
from acvp.evaluation.config import Crop
from acvp.evaluation.drawing import INK, LINE, Picture, canvas, enlarge, fitted, font
from acvp.evaluation.film import Film

TRUTH = "truth"
PANEL, CROPPED = 168, 112
"""Heights of a whole frame and of a crop in a strip, about, in pixels."""
GAP, JUMP, SIDE = 6, 18, 76
"""Pixels between panels, more where steps are left out, and for step and action beside them."""
WHITE = (255, 255, 255)


def strip(film: Film, steps: Sequence[int]) -> bytes:
    """Return a PNG: a row for each step, a column for each subject and the truth, the controlled object boxed."""
    height, width = film.truth.shape[1:3]
    scale = max(1, round(PANEL / height))
    names = [*film.predictions, TRUTH]
    across, down = max(width * scale, 60) + GAP, height * scale + GAP
    jumps = sum(b != a + 1 for a, b in pairwise(steps))
    image, draw = canvas(2 * SIDE + across * len(names), LINE + GAP + down * len(steps) + JUMP * jumps)
    for column, name in enumerate(names):
        draw.text((SIDE + column * across, 2), fitted(name, across - GAP), INK, font())
    top, before = LINE + GAP, steps[0] - 1
    for step in steps:
        top += 0 if step == before + 1 else JUMP
        draw.text((GAP, top), f"step {step}", INK, font())
        draw.text((SIDE + across * len(names), top), fitted(film.action(step), SIDE), INK, font())
        box = film.box(step)
        for column, name in enumerate(names):
            left = SIDE + column * across
            image.paste(Image.fromarray(enlarge(_frame(film, name, step), scale)), (left, top))
            if box is not None:
                edges = [edge * scale + shift for edge, shift in zip(box, (left, top) * 2, strict=True)]
                draw.rectangle(edges, outline=WHITE)
        top, before = top + down, step
    return _png(image)


def check_crop(crop: Crop, height: int, width: int) -> None:
    """Refuse a crop that leaves the frame."""
    if crop.row + crop.height > height or crop.column + crop.width > width:
        text = f"{crop.row}x{crop.column}+{crop.height}+{crop.width}"
        raise UserError(f"--crop {text}: it leaves the frame of {height}×{width} pixels")


def crop_strip(film: Film, steps: Sequence[int], crop: Crop) -> bytes:
    """Return a PNG: a column for each step, a row for each subject and the truth, enlarged crops."""
    check_crop(crop, *film.truth.shape[1:3])
    scale = max(1, round(CROPPED / crop.height))
    names = [*film.predictions, TRUTH]
    across, down, side = crop.width * scale + GAP, crop.height * scale + GAP, 2 * SIDE
    image, draw = canvas(side + across * len(steps), 2 * LINE + down * len(names))
    for row, name in enumerate(names):
        draw.text((GAP, 2 * LINE + row * down), fitted(name, side - 2 * GAP), INK, font())
    for column, step in enumerate(steps):
        left = side + column * across
        draw.text((left, 2), fitted(f"step {step}", across - GAP, 12), INK, font(12))
        draw.text((left, LINE + 2), fitted(film.action(step), across - GAP, 12), INK, font(12))
        for row, name in enumerate(names):
            frame = _frame(film, name, step)
            part = frame[crop.row : crop.row + crop.height, crop.column : crop.column + crop.width]
            image.paste(Image.fromarray(enlarge(part, scale)), (left, 2 * LINE + row * down))
    return _png(image)


def _frame(film: Film, name: str, step: int) -> Picture:
    return film.frame(step) if name == TRUTH else film.predictions[name][step - 1]


def _png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
