"""The interface of all games: uint8 frames, actions 0 to A - 1 or vectors, episodes that follow from seed and actions.

A game can save its state, return to it, and try plans of actions from where it is.
"""

from __future__ import annotations

import json
import operator
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from acvp.actions import Action, ActionRange, blank_vectors, checked_vector
from acvp.errors import UserError

_MAGIC = b"acvp-state-1\n"


@dataclass(frozen=True, kw_only=True)
class SavedState:
    """The whole state of a game, and the frame it shows; kept in memory or on disk, without pickle."""

    env_id: str
    """Canonical id of the game; only the same game can restore it."""
    elapsed: int
    """Agent steps since the reset."""
    ended: bool
    """Whether the episode was over."""
    lives: int
    """Lives left; -1: the game has no lives."""
    last_action: int | list[float]
    """The action executed last, which a sticky joystick may repeat."""
    generator: dict[str, Any] | None
    """State of the sticky joystick's generator, None before it is used."""
    payload: bytes
    """The game's own state, in its own format."""

    def to_bytes(self) -> bytes:
        """Write the state as a checksummed block that `from_bytes` reads on any machine with the same emulator."""
        header = asdict(self)
        del header["payload"]
        text = json.dumps(header).encode()
        return _MAGIC + zlib.compress(len(text).to_bytes(4, "little") + text + self.payload, level=1)

    @classmethod
    def from_bytes(cls, data: bytes) -> SavedState:
        """Read what `to_bytes` wrote; anything else is refused."""
        if not data.startswith(_MAGIC):
            raise UserError(
                f"these {len(data)} bytes are not a saved game state: they do not begin with {_MAGIC.strip()!r}"
            )
        try:
            body = zlib.decompress(data[len(_MAGIC) :])
        except zlib.error as error:
            raise UserError(f"the saved game state is damaged ({error}): save it again") from error
        end = 4 + int.from_bytes(body[:4], "little")
        try:
            return cls(**json.loads(body[4:end]), payload=body[end:])
        except (ValueError, TypeError, RecursionError) as error:
            raise UserError(f"the saved game state is damaged ({error}): save it again") from error

    def __repr__(self) -> str:
        names = [f.name for f in fields(self) if f.name not in ("generator", "payload")]
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"SavedState({shown}, {len(self.payload)} bytes)"


Frame = npt.NDArray[np.uint8]  # (H, W, 3)
Json = str | int | float | bool | None


class Step(NamedTuple):
    """The result of one agent step."""

    frame: Frame
    """uint8 (H, W, 3), a copy that the caller may keep or change."""
    reward: float
    """Sum over the repeated emulator steps."""
    terminated: bool
    """The game itself is over."""
    truncated: bool
    """The episode was truncated by a time limit."""


class Game(ABC):
    """A game with image frames and numbered or continuous actions.

    One `step` is one agent step: the action is held for `frame_skip` emulator steps. With `sticky` > 0, each emulator
    step repeats the action before it with that probability (Machado et al., 2018; action 0 before the first). The
    draws come from a generator that `reset` seeds, so an episode is a function of its seed and its actions alone.
    Subclasses run the emulator; this class counts steps, draws sticky actions and keeps both in saved states.
    """

    lives: int = -1
    """Lives left; -1: the game has no lives."""
    can_save: bool = False
    """Whether `save` and `restore` work."""

    def __init__(
        self,
        *,
        env_id: str,
        frame_shape: tuple[int, int, int],
        action_meanings: Sequence[str],
        settings: dict[str, Json],
        limit: int | None,
        action_range: ActionRange = (),
    ) -> None:
        self.env_id = env_id
        self.frame_shape = frame_shape
        self.action_meanings = tuple(action_meanings)
        self.action_range = action_range
        """Limits of each component of a continuous action; empty: actions are numbers."""
        self.settings = settings
        self.versions = {name: version(name) for name in ("gymnasium", "numpy")}
        self._sticky = float(settings["sticky"] or 0)
        self._skip = int(settings["frame_skip"] or 1)
        self.limit = limit
        """Agent steps after which an episode is truncated; None: never."""
        self._elapsed = 0
        self._ended = True
        self._last_action = self._no_action()
        self._generator: np.random.Generator | None = None
        self._seed = 0
        self._taken: list[Action] = []  # the actions since reset, of games that cannot save their state

    def reset(self, seed: int) -> Frame:
        """Begin the episode of this seed and return its first frame."""
        frame = self._begin(seed)
        self._seed, self._taken = seed, []
        self._elapsed, self._ended, self._last_action = 0, False, self._no_action()
        self._generator = np.random.default_rng(seed) if self._sticky else None
        return frame

    def step(self, action: Action) -> Step:
        """Take one agent step."""
        if self._ended:
            raise RuntimeError(f"{self.env_id} has no running episode: call reset(seed) or restore(state) before step")
        action = self._checked(action)
        step = self._emulate(self._executed(action))
        if not self.can_save:
            self._taken.append(action)
        self._elapsed += 1
        if self.limit is not None and self._elapsed >= self.limit and not step.terminated:
            step = step._replace(truncated=True)
        self._ended = step.terminated or step.truncated
        return step

    def save(self) -> SavedState:
        """Save the state; after `restore` the game continues from it bit for bit."""
        payload = self._payload()
        return SavedState(
            env_id=self.env_id,
            elapsed=self._elapsed,
            ended=self._ended,
            lives=self.lives,
            last_action=self._last_action if isinstance(self._last_action, int) else self._last_action.tolist(),
            generator=dict(self._generator.bit_generator.state) if self._generator else None,
            payload=payload,
        )

    def restore(self, state: SavedState) -> Frame:
        """Return to a saved state and return its frame."""
        if state.env_id != self.env_id:
            raise UserError(f"the saved state is of {state.env_id}, this game is {self.env_id}: make_game the same one")
        generator = _generator_at(state.generator) if self._sticky else None
        frame = self._return_to(state)
        self._elapsed, self._ended = state.elapsed, state.ended
        self._last_action = self._checked(state.last_action)  # type: ignore[arg-type]
        self.lives = state.lives
        self._generator = generator
        return frame

    def branch(self, plans: Iterable[Sequence[Action]]) -> Iterator[list[Step]]:
        """Try each plan of actions from here and yield its steps, up to the plan's end or the episode's.

        Whenever it yields, the game is back where it was, and continues bit for bit as if nothing had been tried. A
        game that cannot save its state is played again from its seed, which takes as long as the episode so far.
        """
        start = self.save() if self.can_save else None
        taken = tuple(self._taken)
        for plan in plans:
            try:
                steps = self._follow(plan)
            finally:
                if start is not None:
                    self.restore(start)
                else:
                    self._play_again(taken)
            yield steps

    def _play_again(self, actions: Sequence[Action]) -> None:
        """Return to where the episode was after some actions, by its seed."""
        self.reset(self._seed)
        if len(self._follow(actions)) < len(actions):
            raise UserError(
                f"{self.env_id} ended earlier when it was played again: episodes must follow from seed and actions"
            )

    def _follow(self, plan: Sequence[Action]) -> list[Step]:
        steps: list[Step] = []
        for action in plan:
            steps.append(self.step(action))
            if steps[-1].terminated or steps[-1].truncated:
                break
        return steps

    def color_keys(self) -> npt.NDArray[np.uint8] | None:
        """Return (H, W) bytes of the current frame that are equal where colors are, or None if the game has none."""
        return None

    def controlled_position(self) -> tuple[float, float] | None:
        """Return the (row, column) in pixels of the controlled object's center, or None while it is unknown."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Free what the game holds."""

    @abstractmethod
    def _begin(self, seed: int) -> Frame: ...

    @abstractmethod
    def _emulate(self, actions: Sequence[Any]) -> Step:
        """Run one emulator step per action and return the last frame and the sum of rewards."""

    def _payload(self) -> bytes:
        raise UserError(
            f"{self.env_id} cannot save its state: its env needs save_state() -> bytes and restore_state(bytes) -> "
            "observation (docs/environments.md), as acvp/Toy-v0 and every Atari game have"
        )

    def _return_to(self, state: SavedState) -> Frame:
        raise UserError(f"{self.env_id} cannot restore a state: its env has no restore_state (docs/environments.md)")

    def _checked(self, action: Action) -> Action:
        """Return an action as a number or a float32 vector; UserError if it is out of range."""
        if self.action_range:
            return checked_vector(action, self.action_range, self.env_id)
        if np.ndim(action) or not 0 <= action < len(self.action_meanings):
            raise UserError(f"action {action!r:.60} is out of range: {self.env_id} has {self._action_list()}")
        return operator.index(action)

    def _no_action(self) -> Action:
        return blank_vectors(self.action_range, 1)[0] if self.action_range else 0

    def _executed(self, action: Action) -> Sequence[Action]:
        """Return the action of each emulator step in one agent step."""
        if self._generator is None:
            self._last_action = action
            return (action,) * self._skip
        executed = []
        for draw in self._generator.random(self._skip):
            self._last_action = self._last_action if draw < self._sticky else action
            executed.append(self._last_action)
        return executed

    def _action_list(self) -> str:
        return ", ".join(f"{index} {meaning}" for index, meaning in enumerate(self.action_meanings))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        height, width, _ = self.frame_shape
        where = "no running episode" if self._ended else f"step {self._elapsed}"
        options = ", ".join(f"{key}={value}" for key, value in self.settings.items() if value not in (None, 0.0))
        return f"<{self.env_id} {height}×{width}, actions {' '.join(self.action_meanings)}, {options}, {where}>"


def _generator_at(state: dict[str, Any] | None) -> np.random.Generator:
    if state is None:
        raise UserError("the state was saved without sticky actions, this game has them: use the same sticky")
    generator = np.random.default_rng(0)
    try:
        generator.bit_generator.state = state
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"the saved game state is damaged (its generator: {error}): save it again") from error
    return generator
