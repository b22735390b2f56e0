"""Frames as PNG files: exact both ways, and suspicious of what it reads."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from acvp.data.palette import Frame
from acvp.data.part import MAX_SIDE
from acvp.errors import UserError
from acvp.reading import read_file

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">8s4x4sIIB")  # signature, length, "IHDR", width, height, bits a channel


def encode_png(frame: Frame) -> bytes:
    """The bytes of a PNG file that holds a frame."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame)).save(buffer, "PNG")
    return buffer.getvalue()


def read_png(file: Path, within: Path | None = None) -> Frame:
    """(H, W, 3) RGB of a PNG file in a folder; palette and gray images are converted, which is exact."""
    try:
        data = read_file(file, within)
        _check_header(file, data)  # before Pillow makes room for the pixels
        _check_chunks(data)  # Pillow lets some damage pass
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.asarray(_opaque(file, image))
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"{file}: cannot be read as PNG ({error}); replace it") from error


def _check_header(file: Path, data: bytes) -> None:
    if len(data) < _HEADER.size:
        raise ValueError(f"only {len(data)} bytes")
    signature, name, width, height, bits = _HEADER.unpack_from(data)
    if signature != _SIGNATURE or name != b"IHDR":
        raise ValueError("it does not begin like one")
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise UserError(f"{file}: {height}×{width} pixels; sides from 1 to {MAX_SIDE} are possible")
    if bits > 8:
        raise UserError(f"{file}: {bits} bits a channel; frames have 8: convert it")


def _check_chunks(data: bytes) -> None:
    """Compare the checksum of every chunk up to the last one."""
    position, name = len(_SIGNATURE), b""
    while name != b"IEND":
        if position + 12 > len(data):
            raise ValueError("it ends too early")
        length, name = struct.unpack_from(">I4s", data, position)
        end = position + 8 + length
        if data[end : end + 4] != zlib.crc32(data[position + 4 : end]).to_bytes(4, "big"):
            raise ValueError(f"its chunk {name!r} is damaged")
        position = end + 4


def _opaque(file: Path, image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image.convert("RGBA")
    lowest = int(np.asarray(rgba)[..., 3].min())
    if lowest < 255:
        raise UserError(f"{file}: transparent pixels (alpha {lowest}); frames are opaque: paint it on a background")
    return rgba.convert("RGB")
