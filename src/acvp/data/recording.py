"""Records an episode step by step and compresses it while it is played."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import (
    CHUNK_FRAMES,
    OPENING_FRAMES,
    Episode,
    EpisodeHeader,
    compress,
    decompress,
    finish_content_hash,
)
from acvp.data.palette import MAX_COLORS, Frame, PaletteEncoder, TooManyColorsError, colorize
from acvp.errors import UserError

MAX_ACTIONS = 2**15
MAX_LIVES = 2**15 - 1
MAX_REWARD = float(np.finfo(np.float32).max)


class EpisodeRecorder:
    """Records episodes one after another; memory holds at most 16 raw frames."""

    def __init__(self) -> None:
        self._encoder = PaletteEncoder()

    def start(self, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1) -> None:
        """Begin an episode with its first frame; for `keys` see PaletteEncoder.encode."""
        _check_lives(lives, 0)
        self._encoder.reset()
        self._raw_rgb = False
        self._height, self._width = frame.shape[:2]
        self._pending: list[NDArray[np.uint8]] = []
        self._chunks: list[bytes] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._lives = [lives]
        self._content = hashlib.sha256()
        self._opening = ""
        self._append(frame, keys)

    def step(
        self, action: int, reward: float, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1
    ) -> None:
        """Add a step; UserError for numbers that a part file cannot hold."""
        if not 0 <= action < MAX_ACTIONS:
            raise UserError(f"step {self.frames}: action {action}; actions are numbers from 0 to {MAX_ACTIONS - 1}")
        if not abs(reward) <= MAX_REWARD:
            raise UserError(f"step {self.frames}: reward {reward}; rewards are finite and fit into 32 bits")
        _check_lives(lives, self.frames)
        self._actions.append(action)
        self._rewards.append(reward)
        self._lives.append(lives)
        self._append(frame, keys)

    @property
    def frames(self) -> int:
        """Frames recorded so far."""
        return len(self._lives)

    def finish(
        self,
        *,
        number: int,
        seed: int,
        terminated: bool,
        truncated: bool,
        policy: str | None = None,
        epsilon: float | None = None,
    ) -> Episode:
        """Return the finished episode; of a mix of policies, with the one that played it."""
        self._flush()
        content = self._hash(len(self._actions))
        header = EpisodeHeader(
            number=number,
            seed=seed,
            height=self._height,
            width=self._width,
            frames=self.frames,
            terminated=terminated,
            truncated=truncated,
            content=content,
            opening=self._opening or content,
            policy=policy,
            epsilon=epsilon,
        )
        return Episode(
            header,
            np.array(self._actions, np.int16),
            np.array(self._rewards, np.float32),
            np.array(self._lives, np.int16),
            None if self._raw_rgb else self._encoder.palette,
            tuple(self._chunks),
        )

    def _append(self, frame: Frame, keys: NDArray[np.uint8] | None) -> None:
        if not self._raw_rgb:
            try:
                self._pending.append(self._encoder.encode(frame, keys))
            except TooManyColorsError:
                self._change_to_rgb()
        if self._raw_rgb:
            self._pending.append(np.array(frame))
        if len(self._pending) == CHUNK_FRAMES:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        chunk = np.stack(self._pending)
        self._content.update(chunk.data)
        self._chunks.append(compress(chunk))
        self._pending = []
        if len(self._chunks) * CHUNK_FRAMES == OPENING_FRAMES:
            self._opening = self._opening or self._hash(OPENING_FRAMES - 1)  # before a later color changes it

    def _hash(self, actions: int) -> str:
        palette = None if self._raw_rgb else self._encoder.palette
        return finish_content_hash(self._content.copy(), palette, np.array(self._actions[:actions], np.int16))

    def _change_to_rgb(self) -> None:
        """Over 256 colors: convert the frames so far from indices to raw RGB, and record RGB from here on."""
        palette = self._encoder.palette[:MAX_COLORS]  # the newest colors are in no recorded frame yet
        chunks, pending = self._chunks, self._pending
        self._raw_rgb, self._chunks, self._content = True, [], hashlib.sha256()
        for chunk in chunks:
            indices = np.empty((CHUNK_FRAMES, self._height, self._width), np.uint8)
            decompress(chunk, indices, CHUNK_FRAMES)
            self._pending = list(colorize(indices, palette))
            self._flush()
        self._pending = [np.ascontiguousarray(colorize(indices, palette)) for indices in pending]


def _check_lives(lives: int, step: int) -> None:
    if not -1 <= lives <= MAX_LIVES:
        raise UserError(f"step {step}: {lives} lives; 0 to {MAX_LIVES} are possible, and -1 for a game without lives")
