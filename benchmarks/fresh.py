"""python -m benchmarks.fresh: a fresh game in which one action is held: does the dream survive the points?

The predictor sees the first real frames of a game, then only its own, while the game and the dream get the same
action. Writes, at each point that the real game scores, the wrong pixels and where the controlled object is in the
dream, to results/dreams/<predictor>-held.json.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
import tyro
from numpy.typing import NDArray

import acvp
from acvp.loaded import view_of
from acvp.models.pixels import ObjectFinder
from benchmarks.provenance import write_results

MOST_STEPS = 1_000
"""Agent steps after which the game counts as over."""


@dataclass(frozen=True, kw_only=True)
class FreshConfig:
    """Hold an action in a fresh game and in a predictor."""

    predictor: str = "freeway"
    """Name of a packaged predictor, or a folder."""
    action: str = "UP"
    """Action to hold."""
    points: int = 5
    """Rewards of the real game to play for."""
    seed: int = 7_001
    """Seed of the game."""
    picture: Path | None = None
    """PNG file to draw game and dream in, side by side, at each point."""


def main(config: FreshConfig) -> None:
    """Play the game, dream it, and write how they differ."""
    started = time.monotonic()
    torch.set_num_threads(1)
    predictor = acvp.load(config.predictor)
    assert predictor.about is not None
    action = predictor.about.action_meanings.index(config.action)
    frames, rewards, positions = play(predictor.about.env_id, action, config)
    first = predictor.context
    actions = np.full(len(frames) - first, action)
    dream = acvp.rollout(predictor, frames[:first], actions)
    real = view_of(predictor).apply(frames[first:], None)
    mean = predictor.normalizer.mean.numpy(force=True)
    finder = ObjectFinder(frames.shape[1:3], mean)
    wrong = (real != dream).any(3).sum((1, 2))  # (K,)
    scored = [step for step in np.flatnonzero(rewards).tolist() if step >= first][: config.points]
    rows = [_at(step + 1 - first, finder, real, dream, positions[step + 1], wrong) for step in scored]
    body: dict[str, Any] = {
        "what": f"{predictor.about.env_id} from its first frame, {config.action} held, {config.predictor}",
        "first_wrong_step": int(np.flatnonzero(wrong)[0]) + 1 if wrong.any() else None,
        "points": rows,
        "alive_at_all_points": all(row["object_distance"] is not None for row in rows),
    }
    for row in rows:
        print(row)
    name = Path(config.predictor).name
    command = f"python -m benchmarks.fresh --predictor {name} --action {config.action}"
    write_results(f"dreams/{name}-held", body, command=command, seed=config.seed, started=started)
    if config.picture is not None:
        pairs = [np.concatenate((real[row["step"] - 1], dream[row["step"] - 1]), 1) for row in rows]
        cv2.imwrite(str(config.picture), np.ascontiguousarray(np.concatenate(pairs, 1)[..., ::-1]))


def play(
    env_id: str, action: int, config: FreshConfig
) -> tuple[NDArray[np.uint8], NDArray[np.float64], list[tuple[float, float] | None]]:
    """Return frames (T + 1), rewards (T) and positions of the controlled object (T + 1) until the last point."""
    with acvp.make_game(env_id) as game:
        frames, rewards, positions = [game.reset(config.seed)], list[float](), [game.controlled_position()]
        while np.count_nonzero(rewards) < config.points and len(rewards) < MOST_STEPS:
            step = game.step(action)
            frames.append(step.frame)
            rewards.append(step.reward)
            positions.append(game.controlled_position())
    return np.stack(frames), np.array(rewards), positions


def _at(
    step: int,
    finder: ObjectFinder,
    real: NDArray[np.uint8],
    dream: NDArray[np.uint8],
    position: tuple[float, float] | None,
    wrong: NDArray[np.int64],
) -> dict[str, Any]:
    """Return how game and dream differ after a step, counted from 0."""
    target = None if position is None else finder.target(real[step].astype(np.float32), position)
    distance = np.inf if target is None else finder.distance(dream[step].astype(np.float32), target)
    return {
        "step": step + 1,
        "wrong_pixels": int(wrong[step]),
        "object_distance": None if np.isinf(distance) else round(float(distance), 2),
    }


if __name__ == "__main__":
    main(tyro.cli(FreshConfig, description=__doc__))
