"""Videos: truth | prediction | difference for every subject, as MP4 and GIF.

Pixels are enlarged by an even number and placed on even coordinates, so that every chroma sample of a 4:2:0 video,
which all players take, belongs to one pixel of the game: one-pixel sprites keep their colour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from PIL import Image

from acvp.errors import UserError
from acvp.evaluation.drawing import (
    FAINT,
    GIVEN,
    INK,
    LINE,
    PREDICTED,
    Picture,
    canvas,
    enlarge,
    even_scale,
    fitted,
    font,
)
from acvp.evaluation.film import Film
from acvp.video import encode_gif, encode_mp4, require_encoder

HEIGHT, GIF_HEIGHT = 336, 168
"""Of a frame in a video, about, in pixels."""
BORDER, GAP = 4, 8


def pictures(film: Film, scale: int) -> Iterator[Picture]:
    """Yield the pictures of a video, from the first given frame on."""
    for number in range(len(film.truth)):
        yield _compose(film, number - film.context + 1, scale)


def _compose(film: Film, step: int, scale: int) -> Picture:
    """Draw one moment; steps up to 0 are given frames."""
    truth = film.frame(step)
    height, width = (side * scale for side in truth.shape[:2])
    across, down = width + 2 * BORDER + GAP, LINE
    columns = 1 + 2 * len(film.predictions)
    image, draw = canvas(columns * across + GAP, 3 * LINE + height + 2 * BORDER)
    draw.text((GAP, down // 2 - 8), _told(film, step), INK, font())
    for column, (name, picture, border) in enumerate(_panels(film, step, truth)):
        left, top = GAP + column * across, 2 * LINE
        draw.text((left, LINE + 2), fitted(name, across - GAP), INK, font())
        draw.rectangle((left, top, left + width + 2 * BORDER - 1, top + height + 2 * BORDER - 1), border)
        image.paste(Image.fromarray(enlarge(picture, scale)), (left + BORDER, top + BORDER))
    return np.asarray(image)


def _panels(film: Film, step: int, truth: Picture) -> Iterator[tuple[str, Picture, tuple[int, int, int]]]:
    yield "truth", truth, FAINT
    border = GIVEN if step <= 0 else PREDICTED
    for name, frames in film.predictions.items():
        shown = truth if step <= 0 else frames[step - 1]
        yield name, shown, border
        apart = np.abs(shown.astype(np.int16) - truth)
        yield "difference x 2", np.minimum(2 * apart, 255).astype(np.uint8), border


def _told(film: Film, step: int) -> str:
    first = step == 1 - film.context
    action = "" if first else f"   action {film.action(step)}"
    return f"given frame {step + film.context}{action}" if step <= 0 else f"step {step}{action}"


def check_format(name: str) -> None:
    """Refuse a format that cannot be written here, before any work is done."""
    if name == "mp4":
        try:
            require_encoder()
        except UserError as error:
            raise UserError(f"{error}, or choose --video-formats gif, or --videos 0") from error


def mp4(film: Film) -> bytes:
    """Return a film as an H.264 video that browsers and phones play."""
    return encode_mp4(pictures(film, even_scale(film.truth.shape[1], HEIGHT)))


def gif(film: Film) -> bytes:
    """Return a film as a GIF; each picture has its own 256 colours."""
    return encode_gif(pictures(film, max(1, round(GIF_HEIGHT / film.truth.shape[1]))))


ENCODERS: dict[str, Callable[[Film], bytes]] = {"mp4": mp4, "gif": gif}
