"""What an analysis works on: one predictor, moments of episodes it has not seen, and what the emulator says of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.analysis.config import AnalyzeConfig, At
from acvp.analysis.emulator import Emulated, emulate, require_futures, require_positions
from acvp.analysis.scenes import Scenes, read_scenes
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window
from acvp.errors import UserError
from acvp.evaluation.horizon import Progress
from acvp.evaluation.places import Place, choose_places
from acvp.evaluation.subjects import Subject


class Part(NamedTuple):
    """What one part of an analysis comes to."""

    body: dict[str, Any]
    """For analysis.json."""
    files: dict[str, bytes]
    """Pictures by name."""


@dataclass(frozen=True, kw_only=True)
class Study:
    """One predictor on the episodes of a store."""

    subject: Subject
    store: EpisodeStore
    config: AnalyzeConfig
    scenes: Scenes
    """The moments to measure on."""
    emulated: Emulated | str
    """What the emulator says of them, or why it cannot."""
    examples: list[Place]
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

    def title(self, place: Place) -> str:
        """Return what a moment is called: its episode and the last frame given."""
        last = place.start + self.subject.predictor.context - 1
        return f"episode {self.store.entries[place.episode].number}, frame {last}"


def open_study(subject: Subject, store: EpisodeStore, config: AnalyzeConfig, progress: Progress) -> Study:
    """Choose the moments of a study, each with as many frames to come as pictures show, and play up to them."""
    window = Window(subject.predictor.context, config.steps)
    named = [place_of(store, moment, window) for moment in config.moments()]
    places = choose_places(store, window, config.states, seed=config.seed, option="steps")
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


def place_of(store: EpisodeStore, moment: At, window: Window) -> Place:
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
    return Place(position, moment.frame - first)
