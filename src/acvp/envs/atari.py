"""Atari games in the Arcade Learning Environment (ALE): ids, emulator, palette, saved states, object positions.

In the paper's five games the position of the controlled object is read from the console's 128 bytes of RAM. The
addresses of the coordinates are those of AtariARI (Anand et al., 2019). All were checked against the sprites in the
frames; docs/environments.md lists every byte and the measured errors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from importlib.metadata import version

import ale_py
import gymnasium
import numpy as np
import numpy.typing as npt
from ale_py import roms

from acvp.envs.game import Frame, Game, Json, SavedState, Step
from acvp.errors import UserError

Ram = npt.NDArray[np.uint8]  # (128,), index 0 is the console's address 0x80
Position = tuple[float, float] | None  # row, column of the center in the 210×160 frame; None while not drawn or dead


def _freeway(ram: Ram) -> Position:
    """Byte 14: the chicken's height above the bottom; it never leaves its column."""
    return 196.8 - int(ram[14]), 46.8


def _seaquest(ram: Ram) -> Position:
    """Bytes 97 and 70: the submarine's row and column; byte 105: frames left of its explosion."""
    row = int(ram[97])
    exploding, game_over = ram[105] != 0, row == 0
    return None if exploding or game_over else (row + 39.1, int(ram[70]) + 7.5)


def _space_invaders(ram: Ram) -> Position:
    """Byte 28: the cannon's column; byte 42: 0 playing, 1 blinking before play by the clock in byte 74, 4 exploding."""
    phase, clock, lives = int(ram[42]), int(ram[74]), int(ram[73])
    drawn = phase == 0 or (phase == 1 and clock & 8)
    return (190.6, int(ram[28]) + 2.0) if drawn and lives else None


def _qbert(ram: Ram) -> Position:
    """Bytes 67 and 43: Q*bert's row and column; byte 59: not 0 when it has missed the pyramid; byte 115: 2 when lost;
    byte 81: frames to wait for the next life.

    The screen lags behind the RAM, so the row is corrected by the direction of the hop: byte 82 is 26 in a hop up and
    255 in a hop down, byte 55 its clock, which runs down.
    """
    row, hop, clock = int(ram[67]), int(ram[82]), int(ram[55])
    on_screen = 20 <= row < 200
    lost = ram[59] != 0 or ram[115] == 2
    if lost or ram[81] != 0 or not on_screen:
        return None
    rising = (hop == 26 and clock > 10) or (hop == 255 and clock > 248)
    falling = (hop == 26 and clock < 6) or (hop == 255 and clock <= 248)
    return 1.035 * row - 0.2 + 1.2 * rising - 1.9 * falling, int(ram[43]) + 0.5


def _ms_pacman(ram: Ram) -> Position:
    """Bytes 16 and 10: Ms Pacman's row and column, which continues past the screen's edge in the tunnels."""
    return int(ram[16]) + 5.5, (int(ram[10]) - 8.5) % 160


POSITIONS: dict[str, Callable[[Ram], Position]] = {
    "freeway": _freeway,
    "seaquest": _seaquest,
    "space_invaders": _space_invaders,
    "qbert": _qbert,
    "ms_pacman": _ms_pacman,
}
"""Reader of the controlled object's position by ROM name."""


FRAME_SKIP = 4
"""Emulator frames per agent step (paper, section 4)."""
MAX_EMULATOR_FRAMES = 108_000
"""Default limit of an episode in emulator frames: 30 minutes, as in Gymnasium."""

_SPELLING = re.compile(r"(?:ALE/)?(?P<name>\w+?)(?:NoFrameskip|Deterministic)?(?:-v[045])?")


def atari_games() -> dict[str, str]:
    """Return the ROM's name (snake_case) of every single-player game under its canonical id."""
    specs = gymnasium.registry.values()
    return {spec.id: str(spec.kwargs["game"]) for spec in specs if spec.namespace == "ALE"}


def atari_id(env_id: str) -> str | None:
    """Return the canonical id of an Atari game in any of its spellings, None if it is not one."""
    spec = gymnasium.registry.get(env_id)
    if spec is not None and not str(spec.entry_point).startswith("ale_py"):
        return None  # another package's game with the name of one of these
    match = _SPELLING.fullmatch(env_id)
    name = match["name"].replace("_", "").lower() if match else None
    return next((canonical for canonical, rom in atari_games().items() if rom.replace("_", "") == name), None)


class AtariGame(Game):
    """An Atari 2600 game: 210×160 RGB, minimal action set, no max pooling over frames.

    ALE's saved states leave out the joystick and the console's switches, which reach the game one emulator frame late.
    A state is therefore restored with the same input held as when it was saved: that of the last action, or of the
    reset. `reset` restores the state after power-up in this way, since ALE's own reset keeps traces of the episode
    before it in some games, and loading the ROM again takes ten times as long. For the same reason sticky actions are
    drawn by Game and not by ALE, whose states leave out the action to be repeated.
    """

    can_save = True

    def __init__(self, env_id: str, *, settings: dict[str, Json], limit: int | None) -> None:
        rom = atari_games()[env_id]
        self._ale = _powered_up(rom)
        self._action_set = self._ale.getMinimalActionSet()
        self._position = POSITIONS.get(rom)
        self._restored: tuple[Frame, npt.NDArray[np.uint8]] | None = None
        height, width = self._ale.getScreenDims()
        super().__init__(
            env_id=env_id,
            frame_shape=(height, width, 3),
            action_meanings=[action.name for action in self._action_set],
            settings=settings,
            limit=limit,
        )
        self.limit = limit or MAX_EMULATOR_FRAMES // self._skip
        self.versions["ale-py"] = version("ale-py")
        self._power_up_state = self._payload()
        self._ale.act(ale_py.Action.NOOP)
        self._has_lives = self._ale.lives() > 0  # some games count them only after their first frame

    def _begin(self, seed: int) -> Frame:
        self._ale.reset_game()
        return self._put_back(self._power_up_state)

    def _emulate(self, actions: Sequence[int]) -> Step:
        ale, action_set = self._ale, self._action_set
        reward = 0
        for action in actions:
            reward += ale.act(action_set[action])
        self._restored = None
        self.lives = self._count_lives()
        over = ale.game_over(with_truncation=False)
        return Step(ale.getScreenRGB(), float(reward), over, truncated=False)

    def _payload(self) -> bytes:
        """Join the emulator's state and the screen, which the emulator cannot redraw before its next step."""
        frame, keys = self._screen()
        return frame.tobytes() + keys.tobytes() + self._ale.cloneState(include_rng=True).serialize()

    def _return_to(self, state: SavedState) -> Frame:
        if state.elapsed == 0:
            self._ale.reset_game()
        else:
            self._put_back(state.payload)
            self._ale.act(self._action_set[state.last_action])  # type: ignore[index]
        return self._put_back(state.payload)

    def _put_back(self, payload: bytes) -> Frame:
        """Restore emulator and screen, but not the held input, and return the frame."""
        height, width, _ = self.frame_shape
        frame_size, screen_size = 3 * height * width, 4 * height * width
        frame = np.frombuffer(payload, np.uint8, frame_size).reshape(self.frame_shape)
        keys = np.frombuffer(payload, np.uint8, height * width, frame_size).reshape(height, width)
        self._ale.restoreState(ale_py.ALEState(payload[screen_size:]))
        self._restored = frame, keys
        self.lives = self._count_lives()
        return frame.copy()

    def color_keys(self) -> npt.NDArray[np.uint8]:
        """Return the emulator's (H, W) palette indices of the current frame."""
        return self._screen()[1].copy() if self._restored else self._ale.getScreen()

    def controlled_position(self) -> tuple[float, float] | None:
        """Return the controlled object's position by the RAM (docs/environments.md), None while it is unknown."""
        return self._position(self._ale.getRAM()) if self._position else None

    def close(self) -> None:
        """Do nothing: the emulator is freed with its last reference."""

    def _screen(self) -> tuple[Frame, npt.NDArray[np.uint8]]:
        return self._restored or (self._ale.getScreenRGB(), self._ale.getScreen())

    def _count_lives(self) -> int:
        return int(self._ale.lives()) if self._has_lives else -1


def _powered_up(rom: str) -> ale_py.ALEInterface:
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.setInt("random_seed", 0)
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("max_num_frames_per_episode", 0)  # none: Game counts
    path = roms.get_rom_path(rom)
    if path is None:
        raise UserError(f"ale-py has no ROM of {rom}: reinstall ale-py, which ships it")
    ale.loadROM(path)
    ale.reset_game()
    return ale
