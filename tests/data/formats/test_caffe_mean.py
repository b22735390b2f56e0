"""The mean image's file against bytes put together by hand."""

import struct

import numpy as np
import pytest

from acvp.data.formats.authors import decode_mean, encode_mean

# 1×3×1×2: two pixels, blue 1 and 2, green 3 and 4, red 5 and 6
FLOATS = struct.pack("<6f", 1, 2, 3, 4, 5, 6)
LEGACY = b"\x08\x01\x10\x03\x18\x01\x20\x02"
SHAPE = b"\x3a\x06\x0a\x04\x01\x03\x01\x02"
PACKED = b"\x2a\x18" + FLOATS
IMAGE = np.array([[(5, 3, 1), (6, 4, 2)]], np.float32)


@pytest.mark.parametrize(
    "data",
    [
        LEGACY + PACKED,
        PACKED + LEGACY,
        SHAPE + PACKED,
        b"\x3a\x08\x08\x01\x08\x03\x08\x01\x08\x02" + PACKED,  # dims unpacked
        b"\x3a\x05\x0a\x03\x03\x01\x02" + PACKED,  # 3×1×2
        LEGACY + b"".join(b"\x2d" + FLOATS[i : i + 4] for i in range(0, 24, 4)),  # data unpacked
        LEGACY + b"\x2a\x08" + FLOATS[:8] + b"\x2a\x10" + FLOATS[8:],  # data in two runs
        LEGACY + b"\x42\x30" + struct.pack("<6d", 1, 2, 3, 4, 5, 6),  # doubles
        LEGACY + b"\x32\x04abcd" + b"\x50\xff\xff\x03" + PACKED,  # fields nobody asked for
    ],
)
def test_reads_every_way_to_write_it(data: bytes) -> None:
    assert np.array_equal(decode_mean(data), IMAGE)


def test_writes_what_caffe_reads() -> None:
    assert encode_mean(IMAGE) == LEGACY + PACKED


def test_a_frame_of_the_paper_comes_back() -> None:
    mean = np.random.default_rng(0).uniform(0, 255, (210, 160, 3)).astype(np.float32)
    data = encode_mean(mean)
    assert data[:10] == b"\x08\x01\x10\x03\x18\xd2\x01\x20\xa0\x01"
    assert np.array_equal(decode_mean(data), mean)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "its shape is 0×0×0×0"),
        (LEGACY, "0 bytes of numbers do not fill its shape 1×3×1×2"),
        (LEGACY + PACKED[:-4], "ends 4 bytes too early"),
        (LEGACY + b"\x2a\x14" + FLOATS[:20], "20 bytes of numbers do not fill"),
        (b"\x08\x01\x10\x01\x18\x01\x20\x06" + PACKED, "its shape is 1×1×1×6"),
        (b"\x08\x01\x10\x03\x18\x01\x20" + b"\xff" * 9 + b"\x01" + PACKED, "do not fill its shape"),
        (b"\x08" + b"\xff" * 11, "over 10 bytes"),
        (b"\x08", "ends inside a number"),
        (b"\x0b" + PACKED, "no field of a BlobProto"),
    ],
)
def test_says_what_is_wrong(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode_mean(data)


def test_random_bytes_do_no_harm() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        data = bytearray(LEGACY + PACKED)
        for position in rng.integers(0, len(data), 3):
            data[position] = rng.integers(256)
        try:
            assert decode_mean(bytes(data)).shape[2] == 3
        except ValueError:
            continue
