"""The part file: one episode, immutable, as a safetensors file that any reader of that format can open.

tensors   chunks      uint8 (bytes,)  the compressed frames, 16 a chunk, one chunk after the other
          chunk_ends  int64 (chunks,) where each chunk ends in `chunks`
          palette     uint8 (K, 3)    absent where frames are raw RGB
          actions     int16 (T,)      rewards float32 (T,)      lives int16 (T + 1,)
metadata  acvp        JSON: part_format and the fields of EpisodeHeader
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray
from safetensors import SafetensorError

from acvp.data.chunks import CHUNK_FRAMES
from acvp.data.episode import Episode, EpisodeHeader
from acvp.data.palette import MAX_COLORS
from acvp.errors import UserError

PART_FORMAT = 1
MAX_SIDE = 4096
"""Larger frames are refused, so that a damaged header cannot ask for unbounded memory."""


class PartError(UserError):
    """A part file that cannot be trusted; the message says why."""


def serialize(episode: Episode) -> bytes:
    """The bytes of an episode's part file; equal episodes give equal bytes."""
    tensors: dict[str, NDArray[Any]] = {
        "chunks": np.frombuffer(b"".join(episode.chunks), np.uint8),
        "chunk_ends": np.cumsum([len(c) for c in episode.chunks], dtype=np.int64),
        "actions": episode.actions,
        "rewards": episode.rewards,
        "lives": episode.lives,
    }
    if episode.palette is not None:
        tensors["palette"] = episode.palette
    header = {"part_format": PART_FORMAT} | asdict(episode.header)
    return bytes(safetensors.numpy.save(tensors, {"acvp": json.dumps(header)}))


def parse(data: bytes) -> Episode:
    """Read an episode from the bytes of its part file; PartError says what is wrong with them."""
    try:
        tensors = safetensors.numpy.load(data)  # checks all offsets against the file's length
        layout = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        told = json.loads(layout["__metadata__"]["acvp"])
        offset = 8 + int.from_bytes(data[:8], "little") + layout["chunks"]["data_offsets"][0]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise PartError(f"not a part file of acvp ({type(error).__name__}: {error})") from error
    header = _header(told)
    _check_tensors(header, tensors)
    frames = memoryview(data)[offset : offset + tensors["chunks"].nbytes]
    ends = tensors["chunk_ends"].tolist()
    chunks = tuple(frames[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True))
    return Episode(header, tensors["actions"], tensors["rewards"], tensors["lives"], tensors.get("palette"), chunks)


def _header(told: Any) -> EpisodeHeader:
    if not isinstance(told, dict):
        raise PartError("its header is not an object")
    version = told.pop("part_format", None)
    if version != PART_FORMAT:
        raise PartError(f"part format {version!r}, this acvp reads {PART_FORMAT}: a newer acvp may read it")
    kinds = {"int": int, "str": str, "bool": bool}
    for field in fields(EpisodeHeader):
        if type(told.get(field.name)) is not kinds[str(field.type)]:
            raise PartError(f"its header says {field.name} = {told.get(field.name)!r}, which is no {field.type}")
    if len(told) != len(fields(EpisodeHeader)):
        raise PartError(f"its header has unknown fields: {sorted(told)}")
    header = EpisodeHeader(**told)
    if not (1 <= header.height <= MAX_SIDE and 1 <= header.width <= MAX_SIDE):
        raise PartError(f"frames of {header.height}×{header.width}: sides from 1 to {MAX_SIDE} are possible")
    if header.frames < 1 or header.number < 0 or header.seed < 0:
        raise PartError(f"impossible numbers in its header: {header}")
    return header


def _check_tensors(header: EpisodeHeader, tensors: dict[str, NDArray[Any]]) -> None:
    steps, chunk_count = header.frames - 1, -(-header.frames // CHUNK_FRAMES)
    _expect(tensors, "chunk_ends", "int64", (chunk_count,))
    _expect(tensors, "actions", "int16", (steps,))
    _expect(tensors, "rewards", "float32", (steps,))
    _expect(tensors, "lives", "int16", (header.frames,))
    ends = [0, *tensors["chunk_ends"].tolist()]
    _expect(tensors, "chunks", "uint8", (ends[-1],))
    if sorted(set(ends)) != ends:
        raise PartError("its chunks overlap")
    if "palette" in tensors:
        colors = min(tensors["palette"].size // 3, MAX_COLORS)
        _expect(tensors, "palette", "uint8", (colors, 3))


def _expect(tensors: dict[str, NDArray[Any]], name: str, dtype: str, shape: tuple[int, ...]) -> None:
    got = tensors.get(name)
    if got is None or str(got.dtype) != dtype or got.shape != shape:
        found = "missing" if got is None else f"{got.dtype} {got.shape}"
        raise PartError(f"its array {name} is {found}, expected {dtype} {shape}")
