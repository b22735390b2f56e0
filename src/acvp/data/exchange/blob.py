"""The mean image as Caffe keeps it: a BlobProto in protobuf's wire format, 1×3×H×W floats, blue first.

Fields: 1 num, 2 channels, 3 height, 4 width (older files), 7 shape with packed dims in its field 1 (newer files),
5 data as floats, 8 data as doubles, both packed or not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MeanImage = NDArray[np.float32]  # (H, W, 3) RGB

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LEGACY_DIMS, _DATA, _SHAPE, _DOUBLE_DATA = (1, 2, 3, 4), 5, 7, 8


def encode_mean(mean: NDArray[np.floating]) -> bytes:
    """The bytes of a mean.binaryproto for an (H, W, 3) RGB image, readable by old and new Caffe."""
    assert mean.shape[2:] == (3,), mean.shape
    blue_first = np.ascontiguousarray(mean[..., ::-1].transpose(2, 0, 1), "<f4")  # (3, H, W)
    dims = b"".join(_varint(field << 3 | _VARINT) + _varint(dim) for field, dim in enumerate((1, *blue_first.shape), 1))
    return dims + _varint(_DATA << 3 | _BYTES) + _varint(blue_first.nbytes) + blue_first.tobytes()


def decode_mean(data: bytes) -> MeanImage:
    """The (H, W, 3) RGB image in the bytes of a mean.binaryproto; ValueError says what is wrong with them."""
    legacy, shape = dict.fromkeys(_LEGACY_DIMS, 0), list[int]()
    floats, doubles = bytearray(), bytearray()
    for field, value in _fields(memoryview(data)):
        if field in legacy and isinstance(value, int):
            legacy[field] = value
        elif field == _SHAPE and isinstance(value, memoryview):
            shape = list(_dims(value))
        elif field in (_DATA, _DOUBLE_DATA) and isinstance(value, memoryview):
            (floats if field == _DATA else doubles).extend(value)
    return _image(shape or list(legacy.values()), floats, doubles)


def _image(dims: list[int], floats: bytearray, doubles: bytearray) -> MeanImage:
    raw, kind = (floats, "<f4") if floats or not doubles else (doubles, "<f8")
    if [*([1] * (4 - len(dims))), *dims][:2] != [1, 3] or len(dims) > 4:
        raise ValueError(f"its shape is {'×'.join(map(str, dims))}, not 1×3×height×width")
    if math.prod(dims) * np.dtype(kind).itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes of numbers do not fill its shape {'×'.join(map(str, dims))}")
    values = np.frombuffer(raw, kind).reshape(dims[-3:])
    return np.ascontiguousarray(values.transpose(1, 2, 0)[..., ::-1], np.float32)


def _dims(message: memoryview) -> Iterator[int]:
    for field, value in _fields(message):
        if field == 1 and isinstance(value, int):
            yield value
        elif field == 1 and isinstance(value, memoryview):
            position = 0
            while position < len(value):
                dim, position = _read_varint(value, position)
                yield dim


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field: varints as numbers, all else as bytes."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            number, position = _read_varint(message, position)
            yield field, number
            continue
        if kind == _BYTES:
            length, position = _read_varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"byte {position} is no field of a BlobProto")
        if length > len(message) - position:
            raise ValueError(f"it ends {length - len(message) + position} bytes too early")
        yield field, message[position : position + length]
        position += length


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("it ends inside a number")
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError(f"a number of over 10 bytes before byte {position}")


def _varint(value: int) -> bytes:
    low = bytearray()
    while value > 127:
        low.append(value & 127 | 128)
        value >>= 7
    return bytes(low) + bytes([value])
