"""python -m benchmarks.object_moves --data DATASET: which objects obey the actions, and how soon is that learned?

Measures for each main color how much the action says about the moves of its objects, and how many objects flicker. Then
trains `--model objects` for some seconds of processor time, once for each weight of controlled objects and each number
of frames in which they are learned, and measures how often it predicts the moves of controlled objects exactly on
held-out windows: all of them, and those where an object turns. Adds the game to results/object_moves.json.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import tyro
from torch import Tensor

from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.models import build_predictor, keep_freed_memory, without_denormals
from acvp.pixel import ObjectPredictor, object_loss
from acvp.pixel.object_windows import Look, past_actions
from acvp.pixel.objects import FEWEST_MOVES, MoveCounts, find_background, information, sampled_steps
from acvp.pixel.palette import color_numbers
from acvp.training.config import TrainConfig
from acvp.training.data import TrainingData, to_device
from acvp.training.optimizers import make_optimizer, set_learning_rate
from acvp.training.presets import make_config
from benchmarks.provenance import RESULTS, write_results

TURN = 2
"""Pixels by which a turning object's move differs from its last one, at least."""
BATCH = 8
LOWEST_RATE = 0.02
"""Of the learning rate at the end."""


@dataclass(frozen=True, kw_only=True)
class MovesConfig:
    """Measure how soon the moves of controlled objects are learned."""

    data: Path
    """Dataset of one game."""
    seconds: float = 240.0
    """Processor time of a trial."""
    weights: tuple[float, ...] = (1.0, 16.0)
    """Weights of controlled objects; none: no trials."""
    targets: tuple[int, ...] = (4, 12)
    """Frames of a window in which controlled objects are learned."""
    windows: int = 500
    """Held-out windows."""
    seed: int = 1


@dataclass(frozen=True)
class Example:
    """Controlled objects of some held-out frames."""

    look: Look
    vectors: Tensor
    move: Tensor
    turns: Tensor


def main(config: MovesConfig) -> None:
    """Run every trial on the same held-out objects, and write the results."""
    keep_freed_memory()
    torch.set_num_threads(1)
    started, store = time.monotonic(), EpisodeStore(config.data)
    rows, counted = [], statistics(store)
    print(counted, flush=True)
    with without_denormals():
        for targets in config.targets:
            for weight in config.weights:
                settings: dict[str, Any] = {"CONTROLLED_TARGETS": targets, "CONTROLLED_WEIGHT": weight}
                with patch.multiple(object_loss, **settings):
                    rows.append({"weight": weight, "targets": targets} | trial(config, store))
                print(rows[-1], flush=True)
    path = RESULTS / "object_moves.json"
    games = json.loads(path.read_text())["games"] if path.exists() else {}
    games[store.info.env_id] = {"data": store.info.played_by, "seconds": config.seconds, **counted, "trials": rows}
    command = f"python -m benchmarks.object_moves --data DATASET --seconds {config.seconds:g}"
    write_results("object_moves", {"games": games}, command=command, seed=config.seed, started=started)


def statistics(store: EpisodeStore) -> dict[str, Any]:
    """Return the information of actions about moves by main color, in nats, and how often objects flicker."""
    assert store.palette is not None
    palette = [tuple(color) for color in store.palette.tolist()]
    numbers = color_numbers(store, palette)
    counts, lost, back, unseen, seen = dict[int, MoveCounts](), 0, 0, 0, 0
    background = find_background(store, numbers, len(palette))
    for objects, moves, action in sampled_steps(store, numbers, background, lambda done, total: None):
        for color, hidden, move in zip(objects.main_colors.tolist(), objects.unseen.tolist(), moves, strict=True):
            if move is not None:
                counts.setdefault(color, Counter())[action, move] += 1
            seen, unseen = seen + (not hidden), unseen + bool(hidden)
            lost, back = lost + (move is None and not hidden), back + (move is not None and bool(hidden))
    known = {color: information(by_action) for color, by_action in counts.items() if by_action.total() >= FEWEST_MOVES}
    ranked = sorted(known, key=lambda color: -known[color])
    return {
        "information": {f"rgb{palette[color]}": round(known[color], 4) for color in ranked},
        "seen_objects": seen,
        "of_them_not_seen_next": lost,
        "remembered_objects": unseen,
        "of_them_seen_next": back,
    }


def trial(config: MovesConfig, store: EpisodeStore) -> dict[str, Any]:
    """Train for a while, and return how often moves are exact."""
    training = make_config(TrainConfig(data=(config.data,), model="objects", seed=config.seed), store)
    data, phase = TrainingData(store, training), training.phases[0]
    predictor = build_predictor(training.predictor, torch.Generator().manual_seed(config.seed))
    assert isinstance(predictor, ObjectPredictor)
    predictor.normalizer.set_mean(data.mean())
    predictor.calibrate(data.as_split(), print, lambda done, total: None)
    data.compute_priorities(lambda done, total: None)
    windows, optimizer = data.windows(phase), make_optimizer(training.optimizer, predictor)
    began, step = time.process_time(), 0
    while (spent := (time.process_time() - began) / config.seconds) < 1:
        set_learning_rate(optimizer, phase.lr * min(1, (step + 1) / phase.warmup) * max(LOWEST_RATE, 1 - spent))
        drawn = windows.draw(phase.batch_size, seed=config.seed, step=step)
        batch = to_device(windows.batch(drawn), predictor)
        loss, _ = predictor.loss(batch._replace(predict=phase.predict, teacher_forcing=True))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step += 1
    return {"updates": step} | accuracy(predictor, data.test, config.windows, phase.predict)


@torch.no_grad()
def accuracy(predictor: ObjectPredictor, store: EpisodeStore, count: int, predict: int) -> dict[str, Any]:
    """Return how often the moves of controlled objects are exact in windows spread over a dataset."""
    exact, turns = [], []
    for example in _examples(predictor, store, count, predict):
        moving, _ = predictor.object_network.act(example.look.features, example.vectors)
        exact.append(predictor.object_network.head(moving).argmax(1) == example.move)
        turns.append(example.turns)
    right, turned = torch.cat(exact), torch.cat(turns)
    return {
        "exact": float(right.float().mean()),
        "exact_turns": float(right[turned].float().mean()),
        "objects": len(right),
        "turns": int(turned.sum()),
    }


def _examples(predictor: ObjectPredictor, store: EpisodeStore, count: int, predict: int) -> Iterator[Example]:
    windows = Windows(store, Window(predictor.context, predict))
    spread = np.linspace(0, len(windows) - 1, count).astype(np.int64)
    network, config = predictor.object_network, predictor.object_config
    rng = np.random.default_rng(0)  # draws nothing here
    objects = object_loss.ObjectLoss(network, config, predictor.kinds, predictor.shifts, rng)
    for first in range(0, count, BATCH):
        batch = to_device(windows.batch(spread[first : first + BATCH]), predictor)
        classes, vectors, _ = predictor._checked(batch._replace(predict=predict))
        memory = predictor._memory(classes[:, :-1], past_actions(vectors, predict))
        moving = objects.moving(memory, classes[:, -predict:])
        mine = moving.some(moving.controlled)
        if not len(mine.move):
            continue
        look = predictor._look(memory, mine.objects)
        before = -look.trail.offset[:, 1]  # how the main color moved in the last step
        turns = (predictor.shifts[mine.move] - before).abs().amax(1) > TURN
        yield Example(look, vectors[:, -predict:].flatten(0, 1)[mine.objects.row], mine.move, turns)


if __name__ == "__main__":
    main(tyro.cli(MovesConfig, description=__doc__))
