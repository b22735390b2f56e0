"""Short loops of real | dream for the start page: made when first asked for, one at a time, and kept in memory."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from acvp.errors import UserError
from acvp.figures import Picture, encode_gif, in_color
from acvp.loaded import COPY_LAST
from acvp.play.model_pool import ModelPool
from acvp.play.session import Session
from acvp.play.worlds import share_cores

STEPS = 45
"""Agent steps of a loop: three seconds of Atari."""
GAP = 4
"""Pixels between real and dream."""


class Loops:
    """The loop of each predictor of a pool."""

    def __init__(self, models: ModelPool, seed: int = 0) -> None:
        self.names = tuple(name for name in models.names if name != COPY_LAST)
        self._models, self._seed = models, seed
        self._made: dict[str, Future[bytes]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="acvp-loops", initializer=share_cores)

    def get(self, name: str) -> bytes | None:
        """Return a loop as a GIF, None while it is being made; UserError if there is none."""
        if name not in self.names:
            raise UserError(f"no predictor is called {name[:80]!r}")
        if name not in self._made:
            self._made[name] = self._thread.submit(self._make, name)
        made = self._made[name]
        return made.result() if made.done() else None

    def close(self) -> None:
        """Drop the loops that are waiting."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _make(self, name: str) -> bytes:
        session = Session(self._models, first=name, seed=self._seed, fast_forward=True)
        try:
            return encode_gif(list(self._pictures(session)))
        finally:
            session.close()

    def _pictures(self, session: Session) -> Iterator[Picture]:
        session.change_driver()
        for _ in range(STEPS):
            session.step()
            real, imagined = session.state.real, session.state.imagined.frame
            yield in_color(imagined) if real is None else side_by_side(in_color(real), in_color(imagined))


def side_by_side(left: Picture, right: Picture) -> Picture:
    """Return two pictures (H, W, 3) beside each other, with a black gap."""
    gap = np.zeros((left.shape[0], GAP, 3), np.uint8)
    return np.concatenate([left, gap, right], axis=1)
