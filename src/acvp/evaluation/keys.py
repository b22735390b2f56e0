"""Whether keys work inside a prediction, measured with pairs of opposite actions.

A model looks ahead under the recorded actions. After some steps, two opposite actions are each held for a few steps
more: in the prediction, and in the game, from the same frame of the recorded episode. Keys work if each predicted
future is nearer to its own true future than to the other one. A model that ignores the action never passes.

Shapes: B windows, L held steps, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.actions import Pair, opposite_pairs, parse
from acvp.bootstrap import Accumulator, Bootstrap, Curve
from acvp.console import Progress
from acvp.data.frames import View
from acvp.data.replay import replay
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, WindowStart, choose_starts
from acvp.envs import Game
from acvp.errors import UserError
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.windows import batches, open_game
from acvp.loaded import LoadedModel, baselines, identity
from acvp.models import State, imagine
from acvp.models.pixels import as_pixels
from acvp.result_cache import OtherShardError, ResultCache
from acvp.runs import numbers

HELD = 8
"""Steps for which an action is held."""
Futures = dict[int, NDArray[np.uint8]]
"""(L, h, w, C) by action: what holding it leads to."""


@dataclass(frozen=True, kw_only=True)
class KeyTest:
    """Windows of a dataset, and the predicted steps after which keys are tried."""

    store: EpisodeStore
    windows: Sequence[WindowStart]
    context: int
    """Real frames given."""
    steps: tuple[int, ...] = (1, 10, 30, 100)
    """Steps into the prediction."""
    held: int = HELD
    batch_size: int = 16

    @property
    def pairs(self) -> list[Pair]:
        return key_pairs(self.store.info.action_meanings)


def key_pairs(action_meanings: Sequence[str]) -> list[Pair]:
    """Return the pairs of opposite actions to try: straight directions without fire, UP and DOWN for example."""
    moves = [parse(name) for name in action_meanings]
    straight = [m is not None and not m.fire and abs(m.down) + abs(m.right) == 1 for m in moves]
    pairs = [(a, b) for a, b in opposite_pairs(action_meanings) if straight[a] and straight[b]]
    if not pairs:
        raise UserError(f"keys cannot be tested: of {', '.join(action_meanings)} no two are opposite directions")
    return pairs


@torch.inference_mode()
def measure_keys(
    models: Sequence[LoadedModel], test: KeyTest, progress: Callable[[int, int], None] = lambda done, total: None
) -> dict[str, Accumulator]:
    """Return by model how often keys work, by episode and tried step.

    A window counts with the share of its pairs that pass. Pairs whose two true futures are equal are left out, and so
    are those of which one ends the episode.
    """
    working = {model.name: Accumulator(len(test.store), len(test.steps)) for model in models}
    done = 0
    with open_game(test.store) as game:
        for windows in batches(test.windows, test.batch_size):
            futures = true_futures(game, test, windows, models[0].view)
            episodes = np.array([window.episode for window in windows])
            for model in models:
                for number, held in enumerate(_held_futures(model, test, windows)):
                    values = [_share(test.pairs, futures.get((row, number)), held, row) for row in range(len(windows))]
                    working[model.name].add(number, episodes, np.array(values))
            done += len(windows)
            progress(done, len(test.windows))
    return working


def measured_keys(
    models: Sequence[LoadedModel], store: EpisodeStore, config: EvaluateConfig, results: ResultCache, progress: Progress
) -> dict[str, Any]:
    """Return how often keys work after each of --key-steps, with bands over episodes; finished batches are cached."""
    everyone = [*models, *baselines(models[0])]
    context, steps = max(model.predictor.context for model in everyone), config.key_steps
    window = Window(context, max(steps))
    starts = choose_starts(store, window, config.windows, seed=config.seed, option="key-steps")
    test = KeyTest(store=store, windows=starts, context=context, steps=steps)
    works = {model.name: Accumulator(len(store), len(steps)) for model in everyone}
    for number, batch in enumerate(batches(starts, test.batch_size)):
        progress(number * test.batch_size, len(starts))
        settings = identity(everyone, store) | {"what": "keys", "steps": list(steps), "held": test.held}
        settings |= {"windows": [list(start) for start in batch]}
        with suppress(OtherShardError):
            measured = results.part(settings, partial(_measured, everyone, replace(test, windows=batch)))
            for name, plain in measured.items():
                works[name].merge(np.arange(len(store)), Accumulator.from_plain(plain, len(store), len(steps)))
    bootstrap = Bootstrap(len(store), seed=config.seed)
    curves = {name: bootstrap.curve(accumulator) for name, accumulator in works.items()}
    judged = works[models[0].name].counts.sum(0).astype(int).tolist()
    shares = {
        name: {part: numbers(np.asarray(getattr(curve, part))) for part in Curve._fields}
        for name, curve in curves.items()
    }
    return {"steps": list(steps), "held": test.held, "windows_judged": judged, "works": shares}


def _measured(models: Sequence[LoadedModel], test: KeyTest) -> dict[str, Any]:
    return {name: accumulator.to_plain() for name, accumulator in measure_keys(models, test).items()}


def true_futures(
    game: Game, test: KeyTest, windows: Sequence[WindowStart], view: View
) -> dict[tuple[int, int], Futures]:
    """Return the true futures of every held action, by window of the batch and number of the tried step."""
    to_try: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for row, window in enumerate(windows):
        for number, step in enumerate(test.steps):
            frame = window.frame + test.context - 1 + step
            to_try.setdefault(window.episode, {}).setdefault(frame, []).append((row, number))
    by_window: dict[tuple[int, int], Futures] = {}
    for episode, frames in to_try.items():
        recorded = test.store[episode]
        last = recorded.header.frames - 1
        for t in replay(recorded, game, min(max(frames) + 1, last)):  # at its last frame an episode may be over
            if t in frames:
                futures = _branches(game, test, view)
                by_window |= dict.fromkeys(frames[t], futures)
    return by_window


def _branches(game: Game, test: KeyTest, view: View) -> Futures:
    """Return where each action of the pairs leads from here; an action that ends the episode is left out."""
    actions = sorted({action for pair in test.pairs for action in pair})
    futures = {}
    for action, steps in zip(actions, game.branch([[action] * test.held for action in actions]), strict=True):
        if len(steps) == test.held:
            futures[action] = view.apply(np.stack([step.frame for step in steps]), None)
    return futures


def _held_futures(model: LoadedModel, test: KeyTest, windows: Sequence[WindowStart]) -> Iterator[dict[int, Tensor]]:
    """Yield for each tried step the predictions (B, L, C, h, w) in pixel values of every held action."""
    truth = WindowReader(test.store, windows, model.view)
    predictor, given = model.predictor, test.context
    frames = torch.from_numpy(truth.frames(0, given)).to(model.device)
    actions = torch.from_numpy(truth.actions(0, given - 1 + max(test.steps))).to(model.device)
    start = predictor.observe(predictor.normalizer.to_float(frames), actions[:, : given - 1])
    for step, (_, state) in enumerate(imagine(predictor, start, actions[:, given - 1 :]), 1):
        if step in test.steps:
            held = sorted({action for pair in test.pairs for action in pair})
            yield {action: _hold(model, predictor.settled(state), action, test.held, len(windows)) for action in held}


def _hold(model: LoadedModel, state: State, action: int, steps: int, rows: int) -> Tensor:
    actions = torch.full((rows, steps), action, device=model.device)
    to_pixels = model.predictor.normalizer.to_pixels
    frames = [to_pixels(frame).cpu() for frame, _ in imagine(model.predictor, state, actions)]
    return torch.stack(frames, 1)


def _share(pairs: Sequence[Pair], true: Futures | None, held: dict[int, Tensor], row: int) -> float:
    """Return the share of pairs whose keys work in a window; NaN where none can be judged."""
    passed = [
        _nearer(held[a][row], true[a], true[b]) and _nearer(held[b][row], true[b], true[a])
        for a, b in pairs
        if true is not None and a in true and b in true and not np.array_equal(true[a], true[b])
    ]
    return float(np.mean(passed)) if passed else float("nan")


def _nearer(predicted: Tensor, own: NDArray[np.uint8], other: NDArray[np.uint8]) -> bool:
    """Whether predicted frames (L, C, h, w) are nearer to one future (L, h, w, C) than to another, in squared error."""
    distances = [float((predicted - as_pixels(future)).square().sum(dtype=torch.float64)) for future in (own, other)]
    return distances[0] < distances[1]
