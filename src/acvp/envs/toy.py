"""ToyGame, and DriftGame with continuous actions: small deterministic games, for tests and quick experiments."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from acvp.errors import UserError

Frame = npt.NDArray[np.uint8]  # (size, size, 3)
Cell = tuple[int, int]  # row, column

TOY_ID = "acvp/Toy-v0"
TOY_STEPS = 200
"""Steps after which an episode of the registered game is truncated."""

CELL = 2
"""Pixels per cell: every object is one cell."""
LIVES = 3
STUN = 6
"""Steps for which the player does not move after a hit; no pixel shows it."""

_MOVES: dict[str, Cell] = {"NOOP": (0, 0), "UP": (-1, 0), "DOWN": (1, 0), "LEFT": (0, -1), "RIGHT": (0, 1)}
_FLOOR, _WALL, _LIFE, _GOAL, _BALL, _PLAYER = range(6)
_PALETTE = np.array(
    [[0, 0, 0], [110, 110, 110], [230, 200, 40], [60, 200, 80], [220, 60, 60], [240, 240, 240]], np.uint8
)


@dataclass
class _State:
    """The whole state of the game, hidden timer included."""

    player: Cell
    ball: Cell
    velocity: Cell
    goal: int
    lives: int
    stun: int


class ToyGame(gymnasium.Env[Frame, np.int64]):
    """A player among walls, a goal to reach and a ball to avoid.

    The player (white) moves one cell a step and is stopped by walls (gray). The ball (red) flies diagonally and
    bounces, whatever the player does. Reaching the goal (green) gives +1 and the goal moves to the next corner,
    clockwise. Being hit gives −1, costs one of three lives (yellow, in the top wall) and stuns: for six steps the
    player neither moves nor can be hit, and no pixel shows it. The game ends with the last life. The seed chooses
    where everything starts; after that nothing is random.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(self, size: int = 24, render_mode: str | None = None) -> None:
        """Build a game of size×size pixels."""
        if size % CELL or size < 8 * CELL:
            raise UserError(f"size is {size}: ToyGame needs an even number of at least {8 * CELL} pixels")
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(len(_MOVES))
        self._walls = _walls(size // CELL)
        near, far = 1, size // CELL - 2
        self._corners: list[Cell] = [(near, near), (near, far), (far, far), (far, near)]
        self._now = _State((1, 1), (1, 1), (1, 1), 0, LIVES, 0)

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return list(_MOVES)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Put player, ball and goal where the seed says."""
        super().reset(seed=seed)
        free = [(int(row), int(column)) for row, column in np.argwhere(~self._walls)]
        player, ball = self.np_random.choice(len(free), size=2, replace=False)
        down, right = self.np_random.choice([-1, 1], size=2)
        goal = int(self.np_random.integers(len(self._corners)))
        self._now = _State(free[player], free[ball], (int(down), int(right)), goal, LIVES, 0)
        return self._draw(), {"lives": LIVES}

    def step(self, action: int | np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """Move the player, then the ball, then settle goal and hit."""
        now = self._now
        before = now.player, now.ball
        if now.stun == 0:
            now.player = self._moved(now.player, list(_MOVES.values())[action])
        now.ball, now.velocity = self._bounced(now.ball, now.velocity)
        now.stun = max(now.stun - 1, 0)
        reward = self._settle_goal() + self._settle_hit(before)
        return self._draw(), reward, now.lives == 0, False, {"lives": now.lives}

    def render(self) -> Frame:
        """Return the current frame."""
        return self._draw()

    def save_state(self) -> bytes:
        """Return the whole state; the seed's generator is not part of it, for only `reset` draws from it."""
        return json.dumps(asdict(self._now)).encode()

    def restore_state(self, state: bytes) -> Frame:
        """Return to a saved state and to its frame."""
        fields = json.loads(state)
        cells = {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
        self._now = _State(**(fields | cells))
        return self._draw()

    def controlled_position(self) -> tuple[float, float]:
        """Return the (row, column) in pixels of the player's center."""
        row, column = self._now.player
        middle = (CELL - 1) / 2
        return row * CELL + middle, column * CELL + middle

    def _moved(self, cell: Cell, move: Cell) -> Cell:
        target = cell[0] + move[0], cell[1] + move[1]
        return cell if self._walls[target] else target

    def _bounced(self, cell: Cell, velocity: Cell) -> tuple[Cell, Cell]:
        """Return cell and velocity a step later: turned on each axis that is blocked, back on a blocked diagonal."""
        (row, column), (down, right) = cell, velocity
        down = -down if self._walls[row + down, column] else down
        right = -right if self._walls[row, column + right] else right
        if self._walls[row + down, column + right]:
            down, right = -down, -right
        return self._moved(cell, (down, right)), (down, right)

    def _settle_goal(self) -> float:
        if self._now.player != self._corners[self._now.goal]:
            return 0.0
        self._now.goal = (self._now.goal + 1) % len(self._corners)
        return 1.0

    def _settle_hit(self, before: tuple[Cell, Cell]) -> float:
        """Settle a hit: the two share a cell, or have just passed through each other."""
        now = self._now
        met = now.player == now.ball or (now.player, now.ball) == before[::-1]
        if not met or now.stun:
            return 0.0
        now.lives -= 1
        now.stun = STUN
        return -1.0

    def _draw(self) -> Frame:
        """Paint the cells, later objects over earlier ones, and enlarge them to pixels."""
        now = self._now
        cells = np.where(self._walls, _WALL, _FLOOR)
        cells[0, 1 : 1 + now.lives] = _LIFE
        for cell, color in ((self._corners[now.goal], _GOAL), (now.ball, _BALL), (now.player, _PLAYER)):
            cells[cell] = color
        return np.asarray(_PALETTE[cells.repeat(CELL, 0).repeat(CELL, 1)])


def _walls(count: int) -> npt.NDArray[np.bool_]:
    """Return the walls of a count×count board: the rim and an upright bar in the middle that leaves both ends free."""
    walls = np.ones((count, count), np.bool_)
    walls[1:-1, 1:-1] = False
    walls[3:-3, count // 2] = True
    return walls


DRIFT_ID = "acvp/Drift-v0"
DRIFT_STEPS = 100
"""Steps after which an episode of the registered game is truncated."""

DRIFT_SIZE, SIDE = 24, 4
"""Pixels of DriftGame's frame, and of its player."""
SPEED = 3.0
"""Pixels that the player moves at most in a step, along each axis."""
WALL, FLOOR, GOAL, PLAYER = (110, 110, 110), (0, 0, 0), (60, 200, 80), (240, 240, 240)
GOALS = ((4, 4), (4, 17), (17, 17), (17, 4))
"""Upper left corners of the goals, clockwise."""


class DriftGame(gymnasium.Env[Frame, npt.NDArray[np.float32]]):
    """A square that is pushed down and right by any amount, and goals to touch.

    The action is (down, right), each from −1 to 1; the player moves by that times three pixels and is stopped by the
    rim. Touching the goal gives +1, and the next corner has it. The seed chooses where everything starts; after that
    nothing is random. An episode ends after nine goals.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (DRIFT_SIZE, DRIFT_SIZE, 3), np.uint8)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._corner, self._goal, self._touched = np.zeros(2), 0, 0

    def get_action_meanings(self) -> list[str]:
        """Return the names of the components."""
        return ["down", "right"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Put player and goal where the seed says."""
        super().reset(seed=seed)
        self._corner = self.np_random.uniform(1, DRIFT_SIZE - SIDE - 1, 2)
        self._goal, self._touched = int(self.np_random.integers(len(GOALS))), 0
        return self._draw(), {}

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """Move the player and see whether it touches the goal."""
        self._corner = np.clip(self._corner + SPEED * np.asarray(action, np.float64), 1, DRIFT_SIZE - SIDE - 1)
        touches = bool((np.abs(self._corner - GOALS[self._goal]) < SIDE).all())
        if touches:
            self._goal, self._touched = (self._goal + 1) % len(GOALS), self._touched + 1
        return self._draw(), float(touches), self._touched == 9, False, {}

    def render(self) -> Frame:
        """Return the current frame."""
        return self._draw()

    def save_state(self) -> bytes:
        """Return the whole state; the seed's generator is not part of it, for only `reset` draws from it."""
        return json.dumps([*self._corner.tolist(), self._goal, self._touched]).encode()

    def restore_state(self, state: bytes) -> Frame:
        """Return to a saved state and to its frame."""
        down, right, self._goal, self._touched = json.loads(state)
        self._corner = np.array([down, right])
        return self._draw()

    def controlled_position(self) -> tuple[float, float]:
        """Return the (row, column) in pixels of the player's center."""
        row, column = np.round(self._corner) + (SIDE - 1) / 2
        return float(row), float(column)

    def _draw(self) -> Frame:
        frame = np.full((DRIFT_SIZE, DRIFT_SIZE, 3), WALL, np.uint8)
        frame[1:-1, 1:-1] = FLOOR
        for (row, column), color in ((GOALS[self._goal], GOAL), (np.round(self._corner).astype(int), PLAYER)):
            frame[row : row + SIDE, column : column + SIDE] = color
        return frame
