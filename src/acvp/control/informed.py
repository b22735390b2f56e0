"""Informed exploration (§4.2, algorithm 1): a strategy for any agent that acts ε-greedily.

    strategy = InformedExploration.from_predictor(acvp.load("runs/gray"), seed=0)
    actions = strategy.choose(observations, greedy_actions, epsilon)

A lookahead gives the frames that each action leads to: a predictor's, or those of the emulator itself.

Shapes: B games, R some of them, A actions, L agent steps looked ahead, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.agents.agent import FrameStack, Pixels, Rows, agent_view, predictor_view
from acvp.agents.play import Actions
from acvp.control.kernel import KernelConfig, TrajectoryMemory, least_visited, paper_kernel, total
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor, imagine
from acvp.models.rollout import select_rows
from acvp.seeding import generator


class Lookahead(Protocol):
    """Gives the frames that each action leads to."""

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (B, H, W, C) of every game, and whether an episode begins with it (B,)."""

    def futures(self, rows: Rows) -> Pixels:
        """Return the frames (R, A, L, 84, 84) of some games while each action is held for L agent steps."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything needed to resume."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume from a state."""


def require_look_ahead(look_ahead: int) -> None:
    """Refuse a lookahead of less than one agent step."""
    if look_ahead < 1:
        raise UserError(f"--look-ahead {look_ahead}: at least 1 agent step")


class ModelLookahead:
    """The predictions of a predictor: informed-model."""

    def __init__(self, predictor: Predictor, *, look_ahead: int = 1) -> None:
        require_look_ahead(look_ahead)
        self.predictor, self.look_ahead = predictor, look_ahead
        self._history: FrameStack | None = None

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Keep as many of the last frames as the predictor needs."""
        seen = predictor_view(self.predictor, frames)
        if self._history is None:
            self._history = FrameStack(len(seen), self.predictor.context, seen.shape[1:])
            self._history.begin(seen[:, None])
            return
        self._history.add(seen)
        rows = np.flatnonzero(begins)
        self._history.begin(seen[rows, None], rows)

    @torch.inference_mode()
    def futures(self, rows: Rows) -> Pixels:
        """Predict the frames of every action; they share one encoding of the real frames."""
        if self._history is None:
            raise RuntimeError("no frame was observed yet: call observe before futures")
        predictor, normalizer = self.predictor, self.predictor.normalizer
        real = torch.from_numpy(self._history.frames[rows]).to(normalizer.mean.device)
        state = predictor.observe(normalizer.to_float(real))
        if self.look_ahead == 1:
            return self._pixels(predictor.predict_all(state)[:, :, None])
        actions = torch.arange(predictor.actions, device=real.device).repeat(len(rows))  # (R·A,)
        state = select_rows(state, np.repeat(np.arange(len(rows)), predictor.actions))
        plan = actions[:, None].expand(-1, self.look_ahead)
        frames = torch.stack([frame for frame, _ in imagine(predictor, state, plan)], 1)
        return self._pixels(frames.view(len(rows), -1, *frames.shape[1:]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the last frames."""
        return {} if self._history is None else {"history": self._history.frames}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume with the last frames of a state."""
        frames = state["history"].astype(np.uint8)
        self._history = FrameStack(len(frames), frames.shape[1], frames.shape[2:])
        self._history.begin(frames)

    def _pixels(self, frames: Tensor) -> Pixels:
        """Return normalized frames (R, A, L, C, H, W) as an agent sees them."""
        return agent_view(self.predictor.normalizer.to_uint8(frames).numpy(force=True))


class EmulatorLookahead:
    """The emulator's own frames: every action is tried, and the state restored: informed-emulator."""

    def __init__(self, games: Sequence[Game], *, look_ahead: int = 1) -> None:
        """Take the games that are played; their states are saved and restored."""
        require_look_ahead(look_ahead)
        for game in games:
            if not game.can_save:
                raise UserError(
                    f"informed-emulator tries every action and restores the state, which {game.env_id} cannot save: "
                    "give its env save_state and restore_state (docs/environments.md), or use informed-model"
                )
        self.games, self.look_ahead = games, look_ahead

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing: the games have their own state."""

    def futures(self, rows: Rows) -> Pixels:
        """Return the frames of every action; the games are left in their state."""
        return agent_view(np.stack([self._of(self.games[row]) for row in rows.tolist()]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return nothing: the games have their own state."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Do nothing."""

    def _of(self, game: Game) -> Pixels:
        """Return the frames (A, L, H, W, 3) of each action held; where the episode ends, its last frame is repeated."""
        length = self.look_ahead
        futures = game.branch([action] * length for action in range(len(game.action_meanings)))
        return np.stack([[steps[min(t, len(steps) - 1)].frame for t in range(length)] for steps in futures])


class InformedExploration:
    """Chooses the action whose predicted frames were visited least: arg-min over actions of n_D (algorithm 1).

    Every game has a separate trajectory memory. Of several predicted frames the visits are summed. Random numbers
    follow from the seed and the number of agent steps.
    """

    def __init__(
        self, lookahead: Lookahead, kernel: KernelConfig, *, seed: int, screens: Callable[[], Pixels] | None = None
    ) -> None:
        """Take a lookahead; `screens` returns the games' frames (B, H, W, C) if it needs more than gray ones."""
        self.lookahead, self.kernel, self.seed, self._screens = lookahead, kernel, seed, screens
        self._memories: list[TrajectoryMemory] = []
        self._steps = 0
        self._last: Pixels | None = (
            None  # (B, 3, 84, 84): the first frames of the next observations if the episode continues
        )

    @classmethod
    def from_predictor(
        cls,
        predictor: Predictor,
        kernel: KernelConfig | None = None,
        *,
        seed: int,
        look_ahead: int = 1,
        screens: Callable[[], Pixels] | None = None,
    ) -> InformedExploration:
        """Return exploration by a predictor, with the paper's kernel for its game; a color one needs `screens`."""
        if kernel is None:
            kernel = KernelConfig() if predictor.about is None else paper_kernel(predictor.about.env_id)
        return cls(ModelLookahead(predictor, look_ahead=look_ahead), kernel, seed=seed, screens=screens)

    @classmethod
    def from_emulator(
        cls, games: Sequence[Game], kernel: KernelConfig | None = None, *, seed: int, look_ahead: int = 1
    ) -> InformedExploration:
        """Return exploration by the games that are played, with the paper's kernel for them."""
        kernel = kernel or paper_kernel(games[0].env_id)
        return cls(EmulatorLookahead(games, look_ahead=look_ahead), kernel, seed=seed)

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return greedy actions (B,), each replaced by an informed one with probability ε: one coin per game.

        `observations` (B, 4, 84, 84) are gray and oldest first. Call it once per agent step.
        """
        begins = np.ones(len(observations), np.bool_)
        if self._last is not None:
            begins = (observations[:, :-1] != self._last).any((1, 2, 3))  # no continuation: a new episode
        self._last = observations[:, 1:].copy()
        self.observe(self._screens() if self._screens else observations[:, -1, :, :, None], begins)
        actions = np.array(greedy_actions, np.int64)
        rng = self._rng("coins")
        rows = np.flatnonzero(rng.random(len(actions)) < epsilon)
        actions[rows] = self.explore(rows)
        return actions

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Remember the newest frame (B, H, W, C) of every game, and whether an episode begins with it (B,)."""
        if not self._memories:
            self._memories = [TrajectoryMemory(self.kernel) for _ in frames]
        for memory, frame in zip(self._memories, agent_view(frames), strict=True):
            memory.add(frame)
        self.lookahead.observe(frames, begins)
        self._steps += 1

    def explore(self, rows: Rows) -> Actions:
        """Return the least visited action (R,) of some games."""
        if not len(rows):
            return np.empty(0, np.int64)
        rng = self._rng("ties")
        pairs = zip(rows.tolist(), self.lookahead.futures(rows), strict=True)
        return np.array([least_visited(self._visits(row, futures), rng) for row, futures in pairs])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything needed to resume exactly."""
        if not self._memories:
            return {}
        memories = np.stack([memory.frames for memory in self._memories])  # (B, d', N), oldest first
        last = {} if self._last is None else {"last": self._last}
        return {"steps": np.array(self._steps), "memories": memories} | last | self.lookahead.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume from a state."""
        if not state:
            return
        self._steps = int(state["steps"])
        self._last = state["last"].astype(np.uint8) if "last" in state else None
        self._memories = [TrajectoryMemory(self.kernel) for _ in state["memories"]]
        for memory, frames in zip(self._memories, state["memories"].astype(np.uint8), strict=True):
            for frame in frames:
                memory.add(frame)
        self.lookahead.restore(state)

    def _visits(self, row: int, futures: Pixels) -> NDArray[np.float64]:
        """Return n_D (A,) of the frames (A, L, 84, 84) of one game."""
        actions, steps = futures.shape[:2]
        visits = self._memories[row].visit_frequency(futures.reshape(actions * steps, *futures.shape[2:]))
        return total(visits.reshape(actions, steps))

    def _rng(self, purpose: str) -> np.random.Generator:
        return generator(f"informed exploration, {purpose}", self.seed, self._steps)


class InformedPlayer:
    """Plays one episode by informed exploration alone."""

    def __init__(self, predictor: Any, seed: int) -> None:
        self._frame: NDArray[np.uint8] | None = None
        self._stack: FrameStack | None = None
        self._strategy = InformedExploration.from_predictor(
            predictor, seed=seed, screens=lambda: np.asarray(self._frame)[None]
        )

    def __call__(self, frame: NDArray[np.uint8]) -> int:
        """Return the action whose predicted frame was visited least."""
        return int(self._choose(frame, 1.0))

    def observe(self, frame: NDArray[np.uint8], action: int) -> None:
        """Remember a frame after which a random action is taken."""
        self._choose(frame, 0.0)

    def _choose(self, frame: NDArray[np.uint8], epsilon: float) -> int:
        self._frame, seen = frame, agent_view(frame[None])
        if self._stack is None:
            self._stack = FrameStack(1, 4)
            self._stack.begin(seen[:, None])
        else:
            self._stack.add(seen)
        return int(self._strategy.choose(self._stack.frames, np.zeros(1, np.int64), epsilon)[0])
