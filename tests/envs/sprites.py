"""Measure the positions read from RAM against the sprites in the frames: `python -m tests.envs.sprites`."""

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acvp.envs import Game, make_game

Keys = npt.NDArray[np.uint8]  # (210, 160)


class Sprite(NamedTuple):
    """How to find a controlled object in a frame without looking at the RAM."""

    key: int
    """Its palette index."""
    rows: tuple[int, int]
    columns: tuple[int, int]
    """Where it can be: outside are scores and spare lives in the same color."""
    whole: int
    """Pixels from which on it counts as drawn, neither cut off nor covered."""


SPRITES = {
    "freeway": Sprite(30, (14, 195), (40, 54), 16),
    "seaquest": Sprite(24, (40, 161), (0, 160), 40),
    "space_invaders": Sprite(196, (183, 195), (0, 160), 42),
    "qbert": Sprite(52, (0, 210), (0, 160), 60),
    "ms_pacman": Sprite(42, (0, 171), (0, 160), 31),
}


class Measured(NamedTuple):
    """Errors in pixels (the larger of row and column) and how position and sprite agree on being there."""

    errors: npt.NDArray[np.float64]
    frames: int
    unseen: int
    """Frames with a position but without a sprite."""
    silent: int
    """Frames with a whole sprite but without a position."""


def largest_blob(mask: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the cells of the largest group of set cells that are at most two apart."""
    left = {(int(row), int(column)) for row, column in np.argwhere(mask)}
    blobs: list[list[tuple[int, int]]] = [[]]
    while left:
        blob = [left.pop()]
        for row, column in blob:  # grows while it is read
            near = {(row + down, column + right) for down in range(-2, 3) for right in range(-2, 3)} & left
            left -= near
            blob.extend(near)
        blobs.append(blob)
    return max(blobs, key=len)


def find(keys: Keys, sprite: Sprite, scenery: npt.NDArray[np.bool_]) -> tuple[int, tuple[float, float]]:
    """Return the number of pixels of the sprite and its centroid."""
    inside = np.zeros(keys.shape, np.bool_)
    inside[slice(*sprite.rows), slice(*sprite.columns)] = True
    blob = largest_blob((keys == sprite.key) & inside & ~scenery)
    row, column = np.mean(blob, axis=0) if blob else (np.nan, np.nan)
    return len(blob), (float(row), float(column))


def played(game: Game, decisions: int, seed: int) -> Iterator[Any]:
    """Play actions held for five decisions on average, and yield the keys and the position after each decision."""
    rng = np.random.default_rng(seed)
    action, ended = 0, True
    for _ in range(decisions):
        if ended:
            game.reset(seed)
        if ended or rng.random() < 0.2:
            action = int(rng.integers(len(game.action_meanings)))
        step = game.step(action)
        ended = step.terminated or step.truncated
        yield game.color_keys(), game.controlled_position()


def measure(name: str, decisions: int, seed: int = 0) -> Measured:
    """Compare every position of a run with the sprite in its frame."""
    sprite = SPRITES[name]
    with make_game(name) as game:
        moments = list(played(game, decisions, seed))
    scenery = np.mean([keys == sprite.key for keys, _ in moments[::10]], axis=0) > 0.9  # never moves: lines, scores
    errors, unseen, silent = [], 0, 0
    for keys, position in moments:
        pixels, center = find(keys, sprite, scenery)
        if position is None:
            silent += pixels >= sprite.whole
        elif pixels == 0:
            unseen += 1
        elif pixels >= sprite.whole:
            errors.append(max(abs(position[0] - center[0]), abs(position[1] - center[1])))
    return Measured(np.array(errors), len(moments), unseen, silent)


def main() -> None:
    """Print the table of docs/environments.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--decisions", type=int, default=6000, help="decisions per game")
    parser.add_argument("--seed", type=int, default=0, help="seed of the play")
    arguments = parser.parse_args()
    print("| game | frames | compared | median | 99 % | largest | within 2 px | no sprite | no position |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in SPRITES:
        errors, frames, unseen, silent = measure(name, arguments.decisions, arguments.seed)
        median, most, largest = np.percentile(errors, [50, 99, 100])
        figures = f"{median:.2f} | {most:.2f} | {largest:.2f} | {np.mean(errors <= 2):.1%}"
        print(f"| {name} | {frames} | {len(errors)} | {figures} | {unseen} | {silent} |")


if __name__ == "__main__":
    main()
