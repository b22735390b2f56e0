"""What an analysis works on: one predictor and samples of episodes it was not trained on.

A sample is a state of a stored episode: the frames before it, the action taken, and the next frame. The emulator, which
replays the episode, adds where the controlled object was and every action's next frame.

Shapes: S samples, T given frames, A actions, h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, floor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.analysis.config import AnalyzeConfig, At
from acvp.console import Progress
from acvp.data.frames import View
from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, WindowStart, choose_starts
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.models.pixels import PATCH

BATCH = 16
"""Samples predicted at once."""


@dataclass(frozen=True, kw_only=True)
class Samples:
    """States of stored episodes."""

    starts: list[WindowStart]
    """Where the given frames begin."""
    given: NDArray[np.uint8]
    """(S, T, h, w, C)"""
    actions: NDArray[np.int64]
    """(S, T), the last of them the one taken."""
    after: NDArray[np.uint8]
    """(S, h, w, C)"""

    @property
    def now(self) -> NDArray[np.uint8]:
        """The last frames given, (S, h, w, C)."""
        return self.given[:, -1]

    def changed(self) -> NDArray[np.bool_]:
        """Return the pixels (S, h, w) that the next frame shows otherwise."""
        changed: NDArray[np.bool_] = (self.now != self.after).any(-1)
        return changed


def read_samples(store: EpisodeStore, starts: list[WindowStart], view: View, context: int) -> Samples:
    """Return the samples whose first given frame is at each window start."""
    windows = WindowReader(store, starts, view)
    frames = windows.frames(0, context + 1)
    return Samples(
        starts=starts, given=frames[:, :context], actions=windows.actions(0, context), after=frames[:, context]
    )


@torch.inference_mode()
def predict_next(model: LoadedModel, samples: Samples) -> Tensor:
    """Return the predicted next frames (S, C, h, w), in pixel values clamped to 0..255."""
    rows = range(0, len(samples.starts), BATCH)
    parts = [model.look_ahead(samples.given[i : i + BATCH], samples.actions[i : i + BATCH]) for i in rows]
    return torch.cat([next(part) for part in parts])


def object_regions(
    positions: NDArray[np.float64], size: tuple[int, ...], recorded: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return the pixels (S, h, w) within a patch of the object's positions (S, 2, 2) before and after.

    None of a sample's where it is not drawn. ``size`` is the view's (h, w), ``recorded`` what positions refer to.
    """
    regions = np.zeros((len(positions), *size[:2]), np.bool_)
    half, scale = PATCH * max(recorded[:2]), np.array(regions.shape[1:]) / recorded[:2]
    middles = positions + 0.5  # a pixel's center lies half a pixel from its edge
    for region, low, high in zip(regions, (middles - half) * scale, (middles + half) * scale, strict=True):
        if not np.isnan(low).any():
            for (top, left), (bottom, right) in zip(low, high, strict=True):
                region[_span(top, bottom), _span(left, right)] = True
    return regions


def _span(low: float, high: float) -> slice:
    return slice(max(0, floor(low)), max(0, ceil(high)))


NOT_DRAWN = (np.nan, np.nan)


@dataclass(frozen=True)
class Emulated:
    """What replaying the episodes adds."""

    positions: NDArray[np.float64]
    """Row and column of the controlled object before and after the action taken, (S, 2, 2); NaN while not drawn."""
    futures: NDArray[np.uint8] | None
    """The next frame under every action, (S, A, h, w, C); None where the game cannot save its state."""


def emulate(store: EpisodeStore, starts: list[WindowStart], view: View, context: int, progress: Progress) -> Emulated:
    """Replay the episodes of samples, and try every action at the last given frame of each."""
    by_episode: dict[int, dict[int, int]] = {}
    for number, (episode, frame) in enumerate(starts):
        by_episode.setdefault(episode, {})[frame + context - 1] = number
    positions = np.full((len(starts), 2, 2), np.nan)
    futures = np.zeros((len(starts), store.action_count, *view.shape(store.info.frame_shape)), np.uint8)
    with replay_game(store) as game:
        for done, (episode, numbers) in enumerate(by_episode.items()):
            progress(done, len(by_episode))
            for t in replay(store[episode], game, max(numbers) + 2):
                if t - 1 in numbers:
                    positions[numbers[t - 1], 1] = game.controlled_position() or NOT_DRAWN
                if t in numbers:
                    positions[numbers[t], 0] = game.controlled_position() or NOT_DRAWN
                    if game.can_save:
                        branches = game.branch([action] for action in range(store.action_count))
                        futures[numbers[t]] = view.apply(np.stack([steps[0].frame for steps in branches]), None)
        return Emulated(positions, futures if game.can_save else None)


def require_positions(emulated: Emulated, store: EpisodeStore) -> NDArray[np.float64]:
    """Return where the object was; refuse a game that does not report it."""
    if np.isnan(emulated.positions).all():
        raise UserError(f"{store.info.env_id} does not report where its controlled object is (docs/environments.md)")
    return emulated.positions


def require_futures(emulated: Emulated, store: EpisodeStore) -> NDArray[np.uint8]:
    """Return every action's next frame; refuse a game that cannot save its state."""
    if emulated.futures is None:
        raise UserError(
            f"{store.info.env_id} cannot save its state: it has no save_state and restore_state (docs/environments.md)"
        )
    return emulated.futures


class Part(NamedTuple):
    """The result of one part of an analysis."""

    body: dict[str, Any]
    """For analysis.json."""
    files: dict[str, bytes]
    """Pictures by name."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One predictor on the episodes of a store."""

    model: LoadedModel
    store: EpisodeStore
    config: AnalyzeConfig
    samples: Samples
    """The samples to measure on."""
    emulated: Emulated | str
    """What replaying adds, or why the episodes cannot be replayed."""
    examples: list[WindowStart]
    """Starts of the samples to draw."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be made, and why."""

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions' names."""
        return self.store.info.action_meanings

    @property
    def futures(self) -> NDArray[np.uint8]:
        """The true next frame under every action, (S, A, h, w, C); UserError where it is not known."""
        return require_futures(self._known(), self.store)

    @property
    def positions(self) -> NDArray[np.float64]:
        """The object's row and column before and after the action taken, (S, 2, 2); UserError where not known."""
        return require_positions(self._known(), self.store)

    def _known(self) -> Emulated:
        if isinstance(self.emulated, str):
            raise UserError(self.emulated)
        return self.emulated

    def title(self, start: WindowStart) -> str:
        """Return the name of a sample: its episode and the last frame given."""
        last = start.frame + self.model.predictor.context - 1
        return f"episode {self.store.entries[start.episode].number}, frame {last}"


def open_study(model: LoadedModel, store: EpisodeStore, config: AnalyzeConfig, progress: Progress) -> Study:
    """Choose the samples of a study, each with as many frames to come as pictures show, and replay their episodes."""
    window = Window(model.predictor.context, config.steps)
    named = [start_of(store, at, window) for at in config.named_states()]
    starts = choose_starts(store, window, config.states, seed=config.seed, option="steps")
    samples = read_samples(store, starts, model.view, window.context)
    emulated: Emulated | str
    try:
        emulated = emulate(store, starts, model.view, window.context, progress)
    except UserError as error:
        emulated = str(error)
    examples = named or [starts[i] for i in informative(samples, emulated, config.examples)]
    return Study(model=model, store=store, config=config, samples=samples, emulated=emulated, examples=examples)


def informative(samples: Samples, emulated: Emulated | str, count: int) -> list[int]:
    """Return the numbers of the `count` most informative samples, one from each part of all.

    Those in which most pixels both change with the step taken and depend on the action, if that is known.
    """
    pixels = samples.changed()
    if isinstance(emulated, Emulated) and emulated.futures is not None:
        pixels = pixels & (emulated.futures != emulated.futures[:, :1]).any((1, 4))
    weights = pixels.sum((1, 2))
    parts = np.array_split(np.arange(len(weights)), min(count, len(weights)))
    return [int(part[weights[part].argmax()]) for part in parts]


def start_of(store: EpisodeStore, at: At, window: Window) -> WindowStart:
    """Return where the given frames of a frame named by --at begin; refuse one that the dataset lacks."""
    numbers = [entry.number for entry in store.entries]
    if at.episode not in numbers:
        some = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
        raise UserError(f"--at {at.episode}:{at.frame}: the test episodes of {store.path} are {some}")
    position, first = numbers.index(at.episode), window.context - 1
    last = store.entries[position].frames - 1 - window.horizon
    if not first <= at.frame <= last:
        raise UserError(
            f"--at {at.episode}:{at.frame}: in this episode frames {first} to {last} have {window.context} "
            f"frames to give and {window.horizon} to come"
        )
    return WindowStart(position, at.frame - first)
