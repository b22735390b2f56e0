"""Random generators by a name and numbers: the same key gives the same stream, whatever ran before."""

from __future__ import annotations

import zlib

import numpy as np


def generator(purpose: str, *key: int) -> np.random.Generator:
    """Return an independent generator for a purpose and a key of non-negative numbers, e.g. ("windows", seed, step).

    All keys of a purpose have the same length: NumPy ignores zeros at the end of a seed.
    """
    return np.random.default_rng([zlib.crc32(purpose.encode()), *key])


def derived_seed(purpose: str, *key: int) -> int:
    """Return a 31-bit seed for libraries that take a number."""
    return int(generator(purpose, *key).integers(2**31))
