"""Encodes pictures as videos: H.264 for browsers and phones, and GIF."""

from __future__ import annotations

import io
from collections.abc import Iterable
from fractions import Fraction
from itertools import chain
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from acvp.errors import UserError, describe

FPS = 15
"""Frames per second: real time at four emulator frames per agent step."""
CODEC: Final = "libx264"
QUALITY = "14"
"""Constant rate factor of the encoder; lower is better, 0 without loss."""
BT601 = 6
"""Number of the color space in the H.264 standard."""

Picture = NDArray[np.uint8]  # (H, W, 3)


def require_encoder() -> None:
    """Raise UserError if this PyAV cannot write mp4."""
    import av

    if CODEC not in av.codecs_available:
        raise UserError(
            f"this PyAV was built without the H.264 encoder {CODEC}: install PyAV's own wheel (pip install "
            "--force-reinstall av)"
        )


def encode_mp4(images: Iterable[Picture]) -> bytes:
    """Return pictures of one even size as an H.264 video."""
    require_encoder()
    import av

    try:
        return _encode_mp4(images)
    except av.FFmpegError as error:
        raise UserError(
            f"the video cannot be encoded ({describe(error)}): free some memory, or ask for none"
        ) from error


def _encode_mp4(images: Iterable[Picture]) -> bytes:
    import av

    buffer, images = io.BytesIO(), iter(images)
    first = next(images)
    with av.open(buffer, "w", format="mp4") as container:
        stream = container.add_stream(CODEC, rate=FPS)
        stream.options = {"crf": QUALITY, "preset": "medium", "threads": "1"}
        stream.pix_fmt, stream.time_base = "yuv420p", Fraction(1, FPS)
        stream.height, stream.width = first.shape[:2]
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = BT601
        for picture in chain([first], images):
            planes = cv2.cvtColor(picture, cv2.COLOR_RGB2YUV_I420).astype(np.uint8, copy=False)
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def encode_gif(images: Iterable[Picture]) -> bytes:
    """Return pictures of one size as a GIF."""
    buffer = io.BytesIO()
    first, *others = (Image.fromarray(image).quantize(256, dither=Image.Dither.NONE) for image in images)
    duration = round(100 / FPS) * 10  # ms; a GIF counts hundredths of a second
    first.save(buffer, "GIF", save_all=True, append_images=others, duration=duration, loop=0, optimize=False)
    return buffer.getvalue()
