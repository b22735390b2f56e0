"""python -m benchmarks.chicken [RUN]: when Freeway's chicken is predicted wrongly, one step ahead.

Plays one episode, predicts every step from the real frames before it, and sorts the steps by what happens to the
chicken, whose height the console's RAM holds. Without RUN it uses the predictor that comes with acvp.
"""

from __future__ import annotations

import sys
import time
from collections import defaultdict

import numpy as np
import torch
from numpy.typing import NDArray

import acvp
from acvp.data.policies import load_policy
from acvp.envs import Game, make_game
from acvp.models import Predictor
from benchmarks.provenance import write_results

SEED = 5
STRIDE = 4
"""Pixels that the chicken walks in an agent step."""
STUNNED = 16
"""Agent steps after a collision in which it may still be pushed back or stunned."""
ROAD, COLUMNS = slice(16, None), slice(40, 56)
"""Rows below the score, and columns in which the left chicken walks."""
BATCH, TARGETS = 8, 4
WHOLE = 13
"""Wrong pixels from which the chicken is in the wrong place, not just a pixel or two wrongly drawn."""


def main() -> None:
    """Measure and write results/chicken.json."""
    started = time.monotonic()
    name = sys.argv[1] if len(sys.argv) > 1 else "freeway"
    frames, actions, rewards, rows = play()
    wrong = wrong_pixels(acvp.load(name), frames, actions)
    sorted_steps: dict[str, list[int]] = defaultdict(list)
    unexpected = deviations(rows, actions) & ~rewards
    for step, pixels in wrong.items():
        what = "reaches the other side" if rewards[step] else kind(step, rows, actions, unexpected)
        sorted_steps[what].append(pixels)
    total = sum(wrong.values())
    kinds = {
        what: {
            "steps": len(pixels),
            "share_of_wrong_pixels": round(sum(pixels) / max(total, 1), 3),
            "any_wrong": round(float(np.mean(np.array(pixels) > 0)), 3),
            "elsewhere": round(float(np.mean(np.array(pixels) >= WHOLE)), 3),
            "wrong_pixels": round(float(np.mean(pixels)), 2),
        }
        for what, pixels in sorted(sorted_steps.items())
    }
    for name_of_kind, numbers in kinds.items():
        print(f"{name_of_kind:24}", *(f"{what} {value}" for what, value in numbers.items()), sep="  ")
    body = {"predictor": name, "steps": len(wrong), "wrong_pixels": round(total / len(wrong), 2), "kinds": kinds}
    command = f"python -m benchmarks.chicken {name}"
    print(write_results("chicken", body, command=command, seed=SEED, started=started))


def play() -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_], NDArray[np.float64]]:
    """Return the frames (T+1, H, W, 3) of an episode, its actions (T,), at which frames a reward comes (T+1,), and in
    which row the chicken is, counted from the top (T+1,)."""
    with make_game("freeway") as game:
        choose = load_policy("sticky-random")(game.action_meanings, np.random.default_rng(SEED))
        frames, actions, rewards, rows = [game.reset(SEED)], [], [False], [row_of(game)]
        ended = False
        while not ended:
            actions.append(choose(frames[-1]))
            frame, reward, terminated, truncated = game.step(actions[-1])
            frames.append(frame)
            rewards.append(reward > 0)
            rows.append(row_of(game))
            ended = terminated or truncated
    return np.stack(frames), np.array(actions), np.array(rewards), np.array(rows)


def row_of(game: Game) -> float:
    """Return the row of the chicken, which is always known in Freeway."""
    position = game.controlled_position()
    assert position is not None
    return position[0]


@torch.inference_mode()
def wrong_pixels(predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[np.int64]) -> dict[int, int]:
    """Return how many pixels of the chicken's columns are wrong, by the number of the predicted frame."""
    context, normalizer = predictor.context, predictor.normalizer
    wrong: dict[int, int] = {}
    firsts = range(context + STUNNED, len(frames) - TARGETS, TARGETS)
    for chosen in (firsts[k : k + BATCH] for k in range(0, len(firsts), BATCH)):
        seen = np.stack([frames[first - context : first + TARGETS] for first in chosen])
        acted = np.stack([actions[first - context : first + TARGETS - 1] for first in chosen])
        window = normalizer.to_float(torch.from_numpy(seen))
        predicted = predictor(window, torch.from_numpy(acted), predict=TARGETS, teacher_forcing=True).frames
        differ = (normalizer.to_uint8(predicted).numpy() != seen[:, -TARGETS:]).any(-1)[..., ROAD, COLUMNS].sum((2, 3))
        for first, counts in zip(chosen, differ.tolist(), strict=True):
            wrong.update({first + k: count for k, count in enumerate(counts)})
    return wrong


def deviations(rows: NDArray[np.float64], actions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return (T+1,) at which frames the chicken is not where the action alone would have put it."""
    lowest = rows.max()
    expected = rows[:-1] + np.array([0, -STRIDE, STRIDE])[actions]
    return np.append(False, rows[1:] != np.minimum(expected, lowest))


def kind(step: int, rows: NDArray[np.float64], actions: NDArray[np.int64], unexpected: NDArray[np.bool_]) -> str:
    """What happens to the chicken in a step."""
    before = unexpected[step - STUNNED : step].any()
    if unexpected[step]:
        return "pushed or stunned" if before else "hit by a car"
    if rows[step] == rows[step - 1] == rows.max():
        return "waits at the bottom"
    does = "stands" if actions[step - 1] == 0 else "walks"
    return f"{does}, soon after a hit" if before else does


if __name__ == "__main__":
    main()
