"""What the writers of all formats share: a folder that appears whole or not at all, and frames in small pieces."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.data.chunks import CHUNK_FRAMES
from acvp.data.episode import Episode
from acvp.durable import refuse_full, sync_folder
from acvp.errors import UserError

PIECE_FRAMES = 4 * CHUNK_FRAMES
"""Raw frames held in memory at once."""


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A hidden folder to write into that gets the name `out` when all is written, and vanishes when something fails."""
    out = out.resolve()
    refuse_full(out)
    partial = out.with_name(f".{out.name}.partial")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        partial.mkdir()
    except OSError as error:
        raise _cannot_begin(partial, out, error) from error
    try:
        yield partial
        if out.exists():
            out.rmdir()
        partial.rename(out)
        sync_folder(out.parent)
    except OSError as error:
        raise UserError(f"{out}: could not be written ({error.strerror or error}); nothing of it is left") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def pieces(episode: Episode, size: int = PIECE_FRAMES) -> Iterator[NDArray[np.uint8]]:
    """(n, H, W, 3) frames of an episode, n ≤ size, oldest first."""
    for start in range(0, len(episode), size):
        yield np.ascontiguousarray(episode.frames(start, min(start + size, len(episode))))


def _cannot_begin(partial: Path, out: Path, error: OSError) -> UserError:
    if isinstance(error, FileExistsError) and partial.exists():
        return UserError(f"{partial} is there: another export to {out} runs or was killed; delete it to go on")
    return UserError(f"{out}: could not be made ({error.strerror or error}); choose another --out")
