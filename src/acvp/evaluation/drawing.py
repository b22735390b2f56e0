"""Small pictures enlarged without blur, with text and borders around them."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

INK, FAINT, PAPER = (240, 240, 240), (150, 150, 150), (24, 26, 30)
GIVEN, PREDICTED = (46, 158, 79), (222, 82, 20)
"""Border while real frames are given (green), and once the predictor is on its own (orange)."""
TEXT_SIZE, LINE = 14, 20
"""Pixels; a line is even, so that enlarged pixels stay aligned with a video's chroma samples."""

Picture = NDArray[np.uint8]  # (H, W, 3)
Color = tuple[int, int, int]


@cache
def font(size: int = TEXT_SIZE) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's own font."""
    return ImageFont.load_default(size)


def enlarge(picture: Picture, scale: int) -> Picture:
    """Return a picture with every pixel as a square."""
    return picture.repeat(scale, 0).repeat(scale, 1)


def even_scale(height: int, wanted: int) -> int:
    """Return the even number that enlarges a picture to about the wanted height, at least 2."""
    return max(2, 2 * round(wanted / height / 2))


def canvas(width: int, height: int, color: Color = PAPER) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return an empty picture of even size, and what draws on it."""
    image = Image.new("RGB", (width + width % 2, height + height % 2), color)
    return image, ImageDraw.Draw(image)


def fitted(text: str, width: int, size: int = TEXT_SIZE) -> str:
    """Return a text cut to a width in pixels."""
    if font(size).getlength(text) <= width:
        return text
    while text and font(size).getlength(f"{text}..") > width:
        text = text[:-1]
    return f"{text}.."
