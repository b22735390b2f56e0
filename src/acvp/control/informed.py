"""Where every action leads: the two sources that informed exploration can ask.

A source is told of every frame of every play, and gives the frames that each action leads to as an agent sees them.

Shapes: B plays, R some of them, A actions, L decisions looked ahead, H height, W width, C channels.

Informed exploration (§4.2, algorithm 1): a strategy for any agent that acts by ε-greedy choice.

    from acvp.control.exploration import informed_by_model
    strategy = informed_by_model(acvp.load("runs/gray"), paper_kernel("ALE/Freeway-v5"), seed=0)
    actions = strategy.choose(observations, greedy_actions, epsilon)

Shapes: B plays, R some of them, A actions, L decisions looked ahead, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.agents.observations import FrameStack, Pixels, agent_view, predictor_view
from acvp.control.kernel import KernelConfig, TrajectoryMemory, least_visited, total
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor, imagine
from acvp.models.rollout import select_rows
from acvp.seeding import generator

Rows = NDArray[np.int64]


class Lookahead(Protocol):
    """Knows, or thinks to know, where every action leads."""

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (B, H, W, C) of every play, and which plays (B,) begin with it."""

    def futures(self, rows: Rows) -> Pixels:
        """Return the frames (R, A, L, 84, 84) of some plays after each action, held for L decisions."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it has to know to go on later."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""


def require_look_ahead(look_ahead: int) -> None:
    """Refuse to look ahead by less than a decision."""
    if look_ahead < 1:
        raise UserError(f"--look-ahead {look_ahead}: at least 1 decision")


class ModelLookahead:
    """Asks a predictor: informed-model."""

    def __init__(self, predictor: Predictor, *, look_ahead: int = 1) -> None:
        require_look_ahead(look_ahead)
        self.predictor, self.look_ahead = predictor, look_ahead
        self._history: FrameStack | None = None

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
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
        """Predict every action's future; of one decision all actions share one encoding."""
        if self._history is None:
            raise RuntimeError("no frame has been seen yet: call see before futures")
        predictor, normalizer = self.predictor, self.predictor.normalizer
        real = torch.from_numpy(self._history.frames[rows]).to(normalizer.mean.device)
        state = predictor.observe(normalizer.to_float(real))
        if self.look_ahead == 1:
            return self._pixels(predictor.predict_all(state)[:, :, None])
        held = torch.arange(predictor.actions, device=real.device).repeat(len(rows))  # (R·A,)
        state = select_rows(state, np.repeat(np.arange(len(rows)), predictor.actions))
        plan = held[:, None].expand(-1, self.look_ahead)
        frames = torch.stack([frame for frame, _ in imagine(predictor, state, plan)], 1)
        return self._pixels(frames.view(len(rows), -1, *frames.shape[1:]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the last frames."""
        return {} if self._history is None else {"history": self._history.frames}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on with the last frames of a state."""
        frames = state["history"].astype(np.uint8)
        self._history = FrameStack(len(frames), frames.shape[1], frames.shape[2:])
        self._history.begin(frames)

    def _pixels(self, frames: Tensor) -> Pixels:
        """Return normalized frames (R, A, L, C, H, W) as an agent sees them."""
        return agent_view(self.predictor.normalizer.to_uint8(frames).numpy(force=True))


class EmulatorLookahead:
    """Tries every action in the game itself and takes it back: informed-emulator."""

    def __init__(self, games: Sequence[Game], *, look_ahead: int = 1) -> None:
        """``games`` are those that are played, one for each play; their states are saved and restored."""
        require_look_ahead(look_ahead)
        for game in games:
            if not game.can_save:
                raise UserError(
                    f"informed-emulator tries every action and takes it back, and {game.env_id} cannot save its state: "
                    "give its env save_state and restore_state (docs/environments.md), or use informed-model"
                )
        self.games, self.look_ahead = games, look_ahead

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing: the games know where they are."""

    def futures(self, rows: Rows) -> Pixels:
        """Play every action's future; the games are left as they were."""
        return agent_view(np.stack([self._of(self.games[row]) for row in rows.tolist()]))

    def state(self) -> dict[str, NDArray[Any]]:
        """Return nothing: the games know where they are."""
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Do nothing."""

    def _of(self, game: Game) -> Pixels:
        """Return the frames (A, L, H, W, 3) of each action held; a game that ends keeps its last frame."""
        length = self.look_ahead
        futures = game.branch([action] * length for action in range(len(game.action_meanings)))
        return np.stack([[steps[min(t, len(steps) - 1)].frame for t in range(length)] for steps in futures])


Actions = NDArray[np.int64]


class InformedExploration:
    """The action whose future is most unlike the last frames: arg-min over actions of n_D (algorithm 1).

    Every play has a memory of its own. A future of several decisions counts with the sum over its frames. What is
    random follows from the seed and the number of decisions.
    """

    def __init__(
        self, source: Lookahead, config: KernelConfig, *, seed: int, screens: Callable[[], Pixels] | None = None
    ) -> None:
        """``screens`` gives what all games show now, (B, H, W, C), where the source needs more than an agent sees."""
        self.source, self.config, self.seed, self._screens = source, config, seed, screens
        self._memories: list[TrajectoryMemory] = []
        self._decisions = 0
        self._last: Pixels | None = None  # (B, 3, 84, 84), what observations begin with if a play goes on

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return greedy actions (B,), each replaced by an informed one with probability ε: one coin for each play.

        ``observations`` (B, 4, 84, 84) are gray and oldest first. Call it once for each decision.
        """
        begins = np.ones(len(observations), np.bool_)
        if self._last is not None:
            begins = (observations[:, :-1] != self._last).any((1, 2, 3))  # a stack that does not go on is a new play's
        self._last = observations[:, 1:].copy()
        self.see(self._screens() if self._screens else observations[:, -1, :, :, None], begins)
        actions = np.array(greedy_actions, np.int64)
        rng = self._rng("coins")
        rows = np.flatnonzero(rng.random(len(actions)) < epsilon)
        actions[rows] = self.explore(rows)
        return actions

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Remember the newest frame (B, H, W, C) of every play; ``begins`` (B,) says which plays begin with it."""
        if not self._memories:
            self._memories = [TrajectoryMemory(self.config) for _ in frames]
        for memory, frame in zip(self._memories, agent_view(frames), strict=True):
            memory.add(frame)
        self.source.see(frames, begins)
        self._decisions += 1

    def explore(self, rows: Rows) -> Actions:
        """Return the action (R,) of each of some plays whose future has been visited least."""
        if not len(rows):
            return np.empty(0, np.int64)
        rng = self._rng("ties")
        pairs = zip(rows.tolist(), self.source.futures(rows), strict=True)
        return np.array([least_visited(self._visits(row, futures), rng) for row, futures in pairs])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that decides what follows, for a run that goes on later."""
        if not self._memories:
            return {}
        memories = np.stack([memory.frames for memory in self._memories])  # (B, d', N), oldest first
        last = {} if self._last is None else {"last": self._last}
        return {"decisions": np.array(self._decisions), "memories": memories} | last | self.source.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        if not state:
            return
        self._decisions = int(state["decisions"])
        self._last = state["last"].astype(np.uint8) if "last" in state else None
        self._memories = [TrajectoryMemory(self.config) for _ in state["memories"]]
        for memory, frames in zip(self._memories, state["memories"].astype(np.uint8), strict=True):
            for frame in frames:
                memory.add(frame)
        self.source.restore(state)

    def _visits(self, row: int, futures: Pixels) -> NDArray[np.float64]:
        """Return n_D (A,) of the futures (A, L, 84, 84) of one play."""
        actions, steps = futures.shape[:2]
        visits = self._memories[row].visit_frequency(futures.reshape(actions * steps, *futures.shape[2:]))
        return total(visits.reshape(actions, steps))

    def _rng(self, purpose: str) -> np.random.Generator:
        return generator(f"informed exploration, {purpose}", self.seed, self._decisions)


def informed_by_model(
    predictor: Predictor,
    config: KernelConfig,
    *,
    seed: int,
    look_ahead: int = 1,
    screens: Callable[[], Pixels] | None = None,
) -> InformedExploration:
    """Return exploration informed by a predictor; `choose` needs screens where it does not look at gray84 frames."""
    return InformedExploration(ModelLookahead(predictor, look_ahead=look_ahead), config, seed=seed, screens=screens)


def informed_by_emulator(
    games: Sequence[Game], config: KernelConfig, *, seed: int, look_ahead: int = 1
) -> InformedExploration:
    """Return exploration informed by the games themselves, one for each play, which must be the ones played."""
    return InformedExploration(EmulatorLookahead(games, look_ahead=look_ahead), config, seed=seed)
