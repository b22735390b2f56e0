"""What is kept of a session: a clip (real | dream | difference) as MP4 or GIF, and its games in datasets.

`acvp data verify --replay` accepts these datasets, one for each game. A game is played again from its seed and actions
when it ends, so that a dataset has no trace of what was rewound. It is added whole or not at all; games in which nobody
pressed a key are left out.

Shapes: h height, w width and C channels of the view.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import numpy as np

from acvp.data.episode import Episode
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import StoreInfo
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.figures import (
    FAINT,
    FPS,
    GIF_HEIGHT,
    PREDICTED,
    VIDEO_HEIGHT,
    Picture,
    difference,
    encode_gif,
    encode_mp4,
    even_scale,
    in_color,
    side_by_side,
)
from acvp.play.history import Moves
from acvp.play.worlds import ViewedFrame

MAX_CLIP_STEPS = 30 * FPS
"""Agent steps that a clip holds at most: half a minute of Atari."""

FORMATS: dict[str, tuple[Callable[[Iterable[Picture]], bytes], int]] = {
    "mp4": (encode_mp4, VIDEO_HEIGHT),
    "gif": (encode_gif, GIF_HEIGHT),
}
"""The encoder of each format, and the approximate height of its frames in pixels."""
POLICY = "human"
"""Name of the policy in the datasets."""


@dataclass(frozen=True)
class _CompressedFrames:
    real: bytes | None
    imagined: bytes
    caption: str


class Clip:
    """Frames of both worlds, kept compressed until they are encoded as a video."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape  # (h, w, C)
        self._steps: list[_CompressedFrames] = []

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def full(self) -> bool:
        """Whether it has reached its maximum length."""
        return len(self) >= MAX_CLIP_STEPS

    def add(self, real: ViewedFrame | None, imagined: ViewedFrame, caption: str) -> None:
        """Add the frames of one step; a full clip ignores them."""
        if not self.full:
            packed = None if real is None else zlib.compress(real.tobytes(), 1)
            self._steps.append(_CompressedFrames(packed, zlib.compress(imagined.tobytes(), 1), caption))

    def encode(self, kind: str) -> bytes:
        """Return the clip as an mp4 or gif file."""
        if kind not in FORMATS:
            raise UserError(f"a clip cannot be {kind[:20]!r}: mp4 or gif")
        if not self._steps:
            raise UserError("the clip is empty: play a few steps before you end it")
        encode, height = FORMATS[kind]
        return encode(self._pictures(even_scale(self._shape[0], height)))

    def _pictures(self, scale: int) -> Iterator[Picture]:
        imagined_only = any(step.real is None for step in self._steps)
        for step in self._steps:
            imagined = self._unpack(step.imagined)
            if imagined_only or step.real is None:
                yield side_by_side([("dream", imagined, PREDICTED)], step.caption, scale)
                continue
            real = self._unpack(step.real)
            panels = [("real", real, FAINT), ("dream", imagined, PREDICTED)]
            panels.append(("difference x 2", difference(imagined, real), PREDICTED))
            yield side_by_side(panels, step.caption, scale)

    def _unpack(self, packed: bytes) -> Picture:
        return in_color(np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape))


class PlayRecorder:
    """Adds finished games to the datasets in a folder; all sessions of a server share it."""

    def __init__(self, folder: Path) -> None:
        if folder.is_file():
            raise UserError(f"--record {folder} is a file: name a folder")
        self.folder = folder
        self._lock = Lock()

    def add(self, env_id: str, moves: Moves) -> str:
        """Record a game and return a line about it; UserError if that fails."""
        path = self.folder / dataset_name(env_id)
        try:
            with self._lock, make_game(env_id) as game, open_writer(path, describe(game)) as writer:
                number = max((entry.number for entry in writer.entries), default=-1) + 1
                episode = record(game, moves, number)
                writer.add(episode)
        except OSError as error:
            raise UserError(f"the game was not recorded: {path}: {error.strerror or error}") from error
        return f"recorded as episode {number} of {path} ({episode.header.frames} frames)"


def dataset_name(env_id: str) -> str:
    """Return the name of a game's folder."""
    return re.sub(r"[^\w.-]+", "_", env_id)


def describe(game: Game) -> StoreInfo:
    """Return what a dataset of a game played by people says about itself."""
    return StoreInfo(
        env_id=game.env_id,
        settings=game.settings,
        frame_shape=game.frame_shape,
        action_meanings=game.action_meanings,
        policy=POLICY,
        versions=game.versions,
    )


def record(game: Game, moves: Moves, number: int) -> Episode:
    """Play moves again and return them as an episode; one that its player left is truncated."""
    recorder = EpisodeRecorder()
    recorder.start(game.reset(moves.seed), game.color_keys(), game.lives)
    terminated = False
    for action in moves.actions:
        frame, reward, terminated, truncated = game.step(action)
        recorder.step(action, reward, frame, game.color_keys(), game.lives)
        if terminated or truncated:
            break
    return recorder.finish(number=number, seed=moves.seed, terminated=terminated, truncated=not terminated)
