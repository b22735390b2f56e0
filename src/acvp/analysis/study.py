"""What an analysis works on: one predictor, the episodes it has not seen, and moments of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from acvp.analysis.config import AnalyzeConfig, At
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window
from acvp.errors import UserError
from acvp.evaluation.futures import Moment, every_action, moments
from acvp.evaluation.places import Place, choose_places, evenly
from acvp.evaluation.subjects import Subject

CANDIDATES = 8
"""Moments looked at for each one that is pictured."""


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
    places: list[Place]
    """Where the given frames of each moment begin."""
    examples: list[Place] = field(default_factory=list[Place])
    """Of the moments to picture."""
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    """What could not be made, and why."""

    @property
    def context(self) -> int:
        """Real frames given before a prediction."""
        return self.subject.predictor.context

    @property
    def actions(self) -> tuple[str, ...]:
        """The actions' names."""
        return self.store.info.action_meanings

    def branched(self, places: list[Place], steps: int) -> Iterator[Moment | None]:
        """Yield every action's true future, held for some decisions, at each place; None where one ends the game."""
        plans = every_action(len(self.actions), steps)
        return moments(self.store, places, self.subject.view, self.context, lambda number: plans)

    def title(self, place: Place) -> str:
        """Return what a moment is called: its episode and the last frame given."""
        return f"episode {self.store.entries[place.episode].number}, frame {place.start + self.context - 1}"


def open_study(subject: Subject, store: EpisodeStore, config: AnalyzeConfig) -> Study:
    """Choose the moments of a study; each has as many frames to come as pictures show."""
    window = Window(subject.predictor.context, config.steps)
    places = choose_places(store, window, config.states, seed=config.seed, option="steps")
    study = Study(subject=subject, store=store, config=config, places=places)
    named = [place_of(store, moment, window) for moment in config.moments()]
    return replace(study, examples=named or telling_places(study))


def telling_places(study: Study) -> list[Place]:
    """Return from each part of the test episodes the place where the action taken tells most.

    That is where most pixels both change with the step taken and depend on the action. In a game that cannot be played
    again, any place is as good as another.
    """
    count = study.config.examples
    candidates = [study.places[i] for i in evenly(len(study.places), CANDIDATES * count)]
    try:
        weights = {moment.place: _telling(study, moment) for moment in study.branched(candidates, 1) if moment}
    except UserError:
        weights = {}
    groups = [candidates[i : i + CANDIDATES] for i in range(0, len(candidates), CANDIDATES)]
    return [max(group, key=lambda place: weights.get(place, 0)) for group in groups]


def _telling(study: Study, moment: Moment) -> int:
    episode, start = moment.place
    taken = study.store[episode].actions[start + study.context - 1]
    futures = moment.futures[:, 0]
    depends = (futures != futures[:1]).any((0, 3))
    changed = (futures[taken] != moment.given[-1]).any(2)
    return int(np.count_nonzero(depends & changed))


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
