"""Arrays inside an .npz file, read row by row and without trust: no objects, no memory taken on a header's word."""

from __future__ import annotations

import ast
import lzma
import re
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from acvp.errors import UserError

MAX_ARRAY_BYTES = 2**28
"""Arrays read at once may be so large: 32 million actions."""
MAX_HEADER_BYTES = 10_000

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError),  # from zipfile
    *(ValueError, SyntaxError, TypeError, MemoryError),  # from headers
)


@dataclass(frozen=True)
class Header:
    """Shape and type of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool


@contextmanager
def opened(file: Path) -> Generator[zipfile.ZipFile, None, None]:
    """An .npz file, open; whatever is wrong with it becomes one line."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        raise UserError(f"{file}: cannot be read as npz ({error}); write it with numpy.savez_compressed") from error


def names(archive: zipfile.ZipFile) -> set[str]:
    """Which arrays there are."""
    return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}


def read_header(archive: zipfile.ZipFile, name: str) -> Header:
    """What the array claims to be."""
    with archive.open(f"{name}.npy") as stream:
        return _header(name, stream)


def read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """A small array, whole."""
    with archive.open(f"{name}.npy") as stream:
        header = _header(name, stream)
        size = prod(header.shape) * header.dtype.itemsize
        if size > MAX_ARRAY_BYTES:
            raise ValueError(f"its array {name} claims {size:,} bytes, {MAX_ARRAY_BYTES:,} are possible")
        data = _exactly(name, stream, size)
        _expect_end(name, stream)
    return np.frombuffer(data, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def rows(archive: zipfile.ZipFile, name: str) -> Generator[NDArray[Any], None, None]:
    """The array's entries along its first axis, one by one."""
    with archive.open(f"{name}.npy") as stream:
        header = _header(name, stream)
        row_bytes = prod(header.shape[1:]) * header.dtype.itemsize
        for _ in range(header.shape[0]):
            yield np.frombuffer(_exactly(name, stream, row_bytes), header.dtype).reshape(header.shape[1:])
        _expect_end(name, stream)  # also makes zipfile compare the checksum


def _header(name: str, stream: IO[bytes]) -> Header:
    magic = _exactly(name, stream, 8)
    if magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2):
        raise ValueError(f"its array {name} is not in numpy's format")
    length = int.from_bytes(_exactly(name, stream, 2 * magic[6]), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its array {name} has a header of {length:,} bytes")
    told = ast.literal_eval(_exactly(name, stream, length).decode("latin1").strip())
    if not isinstance(told, dict) or set(told) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"its array {name} has a header without shape and type")
    descr, shape = told["descr"], told["shape"]
    if not isinstance(descr, str) or not re.fullmatch(r"[<>|=]?[biufU][0-9]{1,6}", descr, re.ASCII):
        raise ValueError(f"its array {name} holds {str(descr)[:40]!r}; only plain numbers and text are read")
    if not isinstance(shape, tuple) or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"its array {name} has the shape {str(shape)[:40]!r}")
    return Header(_dtype(name, descr), shape, bool(told["fortran_order"]))


def _dtype(name: str, descr: str) -> np.dtype[Any]:
    try:
        return np.dtype(descr)
    except TypeError as error:
        raise ValueError(f"its array {name} is of the unknown type {descr!r}") from error


def _exactly(name: str, stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"its array {name} ends too early")
    return data


def _expect_end(name: str, stream: IO[bytes]) -> None:
    if stream.read(1):
        raise ValueError(f"its array {name} is longer than its shape")
