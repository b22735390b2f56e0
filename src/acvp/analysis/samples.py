"""What an analysis works on: one predictor, moments of episodes it has not seen, and what the emulator says of them.

Moments of stored plays side by side: the frames before, the action taken, the frame it led to.

Shapes: S scenes, T given frames, h height, w width and C channels of the view.

What the emulator tells about moments of stored plays: where the object was, and every action's next frame.

Shapes: S moments, A actions, h height, w width and C channels of the view.
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
from acvp.data.objects import PATCH
from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import Window, WindowReader, WindowStart, choose_starts
from acvp.errors import UserError
from acvp.loaded import LoadedModel

BATCH = 16
"""Scenes predicted at once."""


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """What the store tells about some moments."""

    places: list[WindowStart]
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


def read_scenes(store: EpisodeStore, places: list[WindowStart], view: View, context: int) -> Scenes:
    """Return the scenes whose first given frame is at each place."""
    windows = WindowReader(store, places, view)
    frames = windows.frames(0, context + 1)
    return Scenes(
        places=places, given=frames[:, :context], actions=windows.actions(0, context), after=frames[:, context]
    )


@torch.inference_mode()
def predict_next(subject: LoadedModel, scenes: Scenes) -> Tensor:
    """Return the predicted next frames (S, C, h, w), in pixel values clamped to 0..255."""
    rows = range(0, len(scenes.places), BATCH)
    parts = [subject.look_ahead(scenes.given[i : i + BATCH], scenes.actions[i : i + BATCH]) for i in rows]
    return torch.cat([next(part) for part in parts])


def object_regions(
    positions: NDArray[np.float64], size: tuple[int, ...], recorded: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return the pixels (S, h, w) within a patch of the object's positions (S, 2, 2) before and after.

    None of a scene's where it is not drawn. ``size`` is the view's (h, w), ``recorded`` what positions refer to.
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
    """What one pass through the emulator brings."""

    positions: NDArray[np.float64]
    """Row and column of the controlled object before and after the action taken, (S, 2, 2); NaN while not drawn."""
    futures: NDArray[np.uint8] | None
    """The next frame under every action, (S, A, h, w, C); None where the game cannot save its state."""


def emulate(store: EpisodeStore, places: list[WindowStart], view: View, context: int, progress: Progress) -> Emulated:
    """Play the episodes of the places again, and look around at the last given frame of each."""
    wanted: dict[int, dict[int, int]] = {}
    for number, (episode, start) in enumerate(places):
        wanted.setdefault(episode, {})[start + context - 1] = number
    positions = np.full((len(places), 2, 2), np.nan)
    futures = np.zeros((len(places), store.action_count, *view.shape(store.info.frame_shape)), np.uint8)
    with replay_game(store) as game:
        for done, (episode, numbers) in enumerate(wanted.items()):
            progress(done, len(wanted))
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
    """Return where the object was, or say that the game does not tell."""
    if np.isnan(emulated.positions).all():
        raise UserError(f"{store.info.env_id} does not tell where its controlled object is (docs/environments.md)")
    return emulated.positions


def require_futures(emulated: Emulated, store: EpisodeStore) -> NDArray[np.uint8]:
    """Return every action's next frame, or say that the game cannot go back to a state."""
    if emulated.futures is None:
        raise UserError(
            f"{store.info.env_id} cannot save its state: it has no save_state and restore_state (docs/environments.md)"
        )
    return emulated.futures


class Part(NamedTuple):
    """What one part of an analysis comes to."""

    body: dict[str, Any]
    """For analysis.json."""
    files: dict[str, bytes]
    """Pictures by name."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One predictor on the episodes of a store."""

    subject: LoadedModel
    store: EpisodeStore
    config: AnalyzeConfig
    scenes: Scenes
    """The moments to measure on."""
    emulated: Emulated | str
    """What the emulator says of them, or why it cannot."""
    examples: list[WindowStart]
    """Of the moments to picture."""
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

    def title(self, place: WindowStart) -> str:
        """Return what a moment is called: its episode and the last frame given."""
        last = place.start + self.subject.predictor.context - 1
        return f"episode {self.store.entries[place.episode].number}, frame {last}"


def open_study(subject: LoadedModel, store: EpisodeStore, config: AnalyzeConfig, progress: Progress) -> Study:
    """Choose the moments of a study, each with as many frames to come as pictures show, and play up to them."""
    window = Window(subject.predictor.context, config.steps)
    named = [place_of(store, moment, window) for moment in config.moments()]
    places = choose_starts(store, window, config.states, seed=config.seed, option="steps")
    scenes = read_scenes(store, places, subject.view, window.context)
    emulated: Emulated | str
    try:
        emulated = emulate(store, places, subject.view, window.context, progress)
    except UserError as error:
        emulated = str(error)
    examples = named or [places[i] for i in telling(scenes, emulated, config.examples)]
    return Study(subject=subject, store=store, config=config, scenes=scenes, emulated=emulated, examples=examples)


def telling(scenes: Scenes, emulated: Emulated | str, count: int) -> list[int]:
    """Return the numbers of `count` scenes, one from each part of all, in which the action taken tells most.

    That is where most pixels both change with the step taken and depend on the action, if that is known.
    """
    pixels = scenes.changed()
    if isinstance(emulated, Emulated) and emulated.futures is not None:
        pixels = pixels & (emulated.futures != emulated.futures[:, :1]).any((1, 4))
    weights = pixels.sum((1, 2))
    parts = np.array_split(np.arange(len(weights)), min(count, len(weights)))
    return [int(part[weights[part].argmax()]) for part in parts]


def place_of(store: EpisodeStore, moment: At, window: Window) -> WindowStart:
    """Return where the given frames of a moment begin; refuse one that the store lacks."""
    numbers = [entry.number for entry in store.entries]
    if moment.episode not in numbers:
        some = ", ".join(map(str, numbers[:8])) + (", …" if len(numbers) > 8 else "")
        raise UserError(f"--at {moment.episode}:{moment.frame}: the test episodes of {store.path} are {some}")
    position, first = numbers.index(moment.episode), window.context - 1
    last = store.entries[position].frames - 1 - window.horizon
    if not first <= moment.frame <= last:
        raise UserError(
            f"--at {moment.episode}:{moment.frame}: in this episode frames {first} to {last} have {window.context} "
            f"frames to give and {window.horizon} to come"
        )
    return WindowStart(position, moment.frame - first)
