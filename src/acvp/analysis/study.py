"""What an analysis works on: one predictor, the episodes it has not seen, and moments of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from acvp.analysis.config import AnalyzeConfig, At
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window
from acvp.errors import UserError
from acvp.evaluation.futures import Moment, every_action, moments
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
    places: list[Place]
    """Where the given frames of each moment begin."""
    chosen: list[Place]
    """Of the moments to picture; empty: each part of the analysis finds those that tell most."""
    left_out: dict[str, str] = field(default_factory=dict)
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
    chosen = [place_of(store, moment, window) for moment in config.moments()]
    return Study(subject=subject, store=store, config=config, places=places, chosen=chosen)


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
