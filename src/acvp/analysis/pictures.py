"""Frames in rows and columns with names around them, pixels enlarged and never blurred.

Shapes: h height, w width of a picture.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache

import numpy as np
from matplotlib.font_manager import findfont
from PIL import Image, ImageFont

from acvp.analysis.movements import parse
from acvp.evaluation.drawing import INK, LINE, PAPER, Picture, canvas, enlarge
from acvp.evaluation.film import in_colour

GAP, SIDE = 6, 116
"""Pixels between pictures, and for names beside them."""
HIGH, WIDE = 168, 1600
"""Pixels that a picture's height and all columns should come to, about."""
COLUMNS = 9
"""More columns than this are put below each other in bands."""
TEXT = 12

Row = tuple[str, Sequence[Picture]]
"""A name and pictures (h, w, C)."""


def grid(heads: Sequence[str], rows: Sequence[Row]) -> bytes:
    """Return a PNG of rows of pictures below the heads of their columns."""
    bands = [_band(heads, rows, part) for part in _parts(len(heads))]
    image = np.concatenate([_padded(band, max(each.shape[1] for each in bands)) for band in bands])
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def _parts(columns: int) -> list[slice]:
    """Return as few parts of the columns as COLUMNS allows, all of about the same size."""
    each = -(-columns // -(-columns // COLUMNS))
    return [slice(first, first + each) for first in range(0, columns, each)]


def _band(heads: Sequence[str], rows: Sequence[Row], part: slice) -> Picture:
    """Return a part of the columns, without the rows that have no picture there."""
    heads, rows = heads[part], [(name, pictures[part]) for name, pictures in rows if pictures[part]]
    height, width = rows[0][1][0].shape[:2]
    scale = max(1, min(round(HIGH / height), WIDE // (len(heads) * width)))
    across, down = width * scale + GAP, height * scale + GAP
    drawing, draw = canvas(SIDE + across * len(heads), LINE + down * len(rows))
    for column, head in enumerate(heads):
        draw.text((SIDE + column * across, 3), _fitted(head, across - GAP), INK, _font())
    for row, (name, pictures) in enumerate(rows):
        top = LINE + row * down
        draw.multiline_text((GAP, top), name, INK, _font())
        for column, picture in enumerate(pictures):
            coloured = in_colour(np.ascontiguousarray(picture))
            drawing.paste(Image.fromarray(enlarge(coloured, scale)), (SIDE + column * across, top))
    return np.asarray(drawing)


def _padded(band: Picture, width: int) -> Picture:
    """Return a band filled up to a width at its right."""
    filled = np.full((band.shape[0], width, 3), PAPER, np.uint8)
    filled[:, : band.shape[1]] = band
    return filled


def action_heads(names: Sequence[str]) -> list[str]:
    """Return names of actions, each with its arrow in front, so that the arrow is left where a name is cut."""
    movements = [parse(name) for name in names]
    return [f"{move.label} {name}" if move else name for name, move in zip(names, movements, strict=True)]


def _fitted(text: str, width: int) -> str:
    """Return a text cut to a width in pixels."""
    while text and _font().getlength(text) > width:
        text = text[:-1]
    return text


@cache
def _font() -> ImageFont.FreeTypeFont:
    """Return matplotlib's own font, which has arrows."""
    return ImageFont.truetype(findfont("DejaVu Sans"), TEXT)
