"""Episodes as rows of a table, a row for each frame: what LeRobot datasets and Hugging Face `datasets` share.

A row has a frame, the action that was taken at it, and what that action led to. The action of an episode's last row
leads to no frame that is there; it is left out of an import, and blank in an export.

Shapes: N rows of an episode, A components of a continuous action.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from acvp.actions import Actions
from acvp.data.episode import Episode
from acvp.data.formats.importer import Recording, checked_actions, checked_rewards, checked_vectors
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.errors import UserError

_DAMAGE = (OSError, ValueError, SyntaxError, TypeError, KeyError, Image.DecompressionBombError)


def actions_of(values: NDArray[Any], location: str) -> Actions:
    """Return the actions of all rows but the last: numbers (N - 1,), or vectors (N - 1, A)."""

    def where(i: int) -> str:
        return f"{location}, row {i}"

    array = values[:-1]
    if array.dtype.kind in "iu" and (array.ndim == 1 or array.shape[1:] == (1,)):
        return checked_actions(array.reshape(-1), where)
    if array.dtype.kind == "f" and array.ndim in (1, 2):
        return checked_vectors(array.reshape(len(array), values[0].size), where)
    raise UserError(f"{location}: its actions are {array.dtype} {array.shape}; expected whole numbers, or vectors")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of an episode besides its frames; None: the table does not have it."""

    actions: Actions
    rewards: NDArray[Any] | None = None
    terminated: NDArray[Any] | None = None
    truncated: NDArray[Any] | None = None

    def recording(self, frames: Generator[Frame, None, None], location: str) -> Recording:
        """Return the episode with its frames; it was truncated unless a column says otherwise."""
        steps = len(self.actions)
        rewards = None if self.rewards is None else np.asarray(self.rewards[:steps]).reshape(steps)
        ended = self.terminated is not None and bool(np.asarray(self.terminated[-2:]).any())
        cut = not ended if self.truncated is None else bool(np.asarray(self.truncated[-2:]).any())
        return Recording(
            frames=frames,
            actions=self.actions,
            rewards=None if rewards is None else checked_rewards(rewards, lambda i: f"{location}, row {i}"),
            terminated=ended,
            truncated=cut,
        )


def pictures(cells: Iterable[Any], location: str) -> Generator[Frame, None, None]:
    """Yield the frames (H, W, 3) of cells {"bytes": an image file, "path": its name}."""
    for number, cell in enumerate(cells):
        data = cell.get("bytes") if isinstance(cell, dict) else None
        if not isinstance(data, bytes):
            raise UserError(f"{location}, row {number}: its frame is in no row but in another file; embed the images")
        try:
            with Image.open(io.BytesIO(data)) as image:
                yield np.asarray(image.convert("RGB"), np.uint8)
        except _DAMAGE as error:
            raise UserError(f"{location}, row {number}: its frame cannot be read ({error})") from error


def lossy_pictures(cell: Any) -> str:
    """Return a note if a cell's image is compressed with losses."""
    data = cell.get("bytes") if isinstance(cell, dict) else None
    if isinstance(data, bytes) and data.startswith(b"\xff\xd8"):
        return "frames are JPEG images, which is lossy: they differ from the game's"
    return ""


def png(frame: Frame) -> bytes:
    """Return a frame as the bytes of a PNG file, which is exact."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame)).save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def blocks_of_rows(store: EpisodeStore, episode: Episode) -> Generator[dict[str, Any], None, None]:
    """Yield the rows of an episode in blocks: images, actions (n,) or (n, A), rewards and terminations by column."""
    steps, first = len(episode) - 1, 0
    blank = store.info.blank_actions(1)
    actions = np.concatenate((episode.actions, blank.astype(episode.actions.dtype)))
    rewards = np.append(episode.rewards, np.float32(0))
    for block in episode.blocks():
        numbers = np.arange(first, first + len(block))
        last = numbers >= steps - 1  # with the last action, and at the row after it
        yield {
            "frame_index": numbers,
            "images": [{"bytes": png(frame), "path": None} for frame in block],
            "actions": actions[numbers],
            "rewards": rewards[numbers],
            "terminated": last & episode.header.terminated,
            "truncated": last & episode.header.truncated,
        }
        first += len(block)


def pyarrow(extra: str) -> tuple[Any, Any]:
    """Return pyarrow and pyarrow.parquet, or say how to install them."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError as error:
        raise UserError(f"pyarrow is not installed: pip install 'acvp[{extra}]'") from error
    return arrow, parquet


def unreadable(source: Path, what: str) -> Callable[[Exception], UserError]:
    """Return what makes one line of an error of a library that reads a source."""

    def refuse(error: Exception) -> UserError:
        return UserError(f"{source}: cannot be read as {what} ({type(error).__name__}: {error!s:.200})")

    return refuse
