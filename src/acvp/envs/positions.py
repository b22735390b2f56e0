"""Where the controlled object of the paper's five games is, read from the console's 128 bytes of RAM.

The addresses of the coordinates are those of AtariARI (Anand et al., 2019); everything else here was found and all of
it was checked by finding the sprite in the frames. docs/environments.md lists every byte and the errors measured.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Ram = npt.NDArray[np.uint8]  # (128,), index 0 is the console's address 0x80
Position = tuple[float, float] | None  # row, column of the centre in the 210×160 frame; None while not drawn or dead


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

    The screen lags behind the RAM, so the row is mended by the direction of the hop: byte 82 is 26 in a hop up and 255
    in a hop down, byte 55 its clock, which runs down.
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
    """Bytes 16 and 10: Ms Pacman's row and column, which goes on past the screen's edge in the tunnels."""
    return int(ram[16]) + 5.5, (int(ram[10]) - 8.5) % 160


POSITIONS: dict[str, Callable[[Ram], Position]] = {
    "freeway": _freeway,
    "seaquest": _seaquest,
    "space_invaders": _space_invaders,
    "qbert": _qbert,
    "ms_pacman": _ms_pacman,
}
"""Reader of the controlled object's position by ROM name."""
