"""The test part of a dataset, the episodes that no run was trained on, and true futures of every plan from its windows.

For the futures, stored episodes are replayed and the game is branched.

Shapes: T given frames, P plans, L steps of a plan, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.actions import require_numbered
from acvp.console import counted
from acvp.data.frames import View
from acvp.data.merge import openings, refuse_leaks
from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowReader, WindowStart
from acvp.envs import Game
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.runs import RunFolder
from acvp.seeding import generator


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The training data of a run."""

    held_out: Mapping[str, tuple[int, ...]]
    """Digest of each dataset → positions of its episodes that the run was not trained on."""
    openings: frozenset[str] = frozenset()
    """Of the episodes that it was trained on; empty for a run of an earlier version, which did not note them."""


@dataclass(frozen=True, kw_only=True)
class HeldOutPart:
    """Episodes that no run was trained on."""

    store: EpisodeStore
    how: str
    """How they were chosen, in a sentence."""


def held_out_part(
    store: EpisodeStore, trained: Sequence[Trained | None], trained_on: EpisodeStore | None
) -> HeldOutPart:
    """Return the episodes that every run has held out, and those of a dataset whose digest no run names.

    Of a dataset that some run does not name, episodes that begin like one that was trained on are left out; it must
    have no episode of `trained_on`, nor one that was trained on as an episode of another dataset here.
    """
    runs = [run.held_out for run in trained if run is not None]
    known = frozenset[str]().union(*(run.openings for run in trained if run is not None))
    held_out: list[int] = []
    named: dict[str, EpisodeStore] = {}  # digest → the episodes that were trained on
    unsure: list[EpisodeStore] = []
    first = 0
    for dataset in _datasets(store):
        own = [positions[dataset.digest] for positions in runs if dataset.digest in positions]
        free = sorted(set(range(len(dataset))).intersection(*own))
        if not own or len(own) < len(trained):
            names = openings(dataset)
            free = [position for position in free if names[position] not in known]
            unsure.append(dataset.subset(free))
        if own:
            named[dataset.digest] = dataset.subset(sorted(set(range(len(dataset))) - set(free)))
        held_out += [first + position for position in free]
        first += len(dataset)
    if not held_out and not named:
        raise UserError(
            f"{store.path}: every episode of it begins like one that was trained on; record a test dataset with "
            "another seed, or pass the training dataset itself as --data"
        )
    if not held_out:
        raise UserError(
            f"{store.path}: the runs have no held-out episode in common in it; train them with one --seed, or record a "
            "test dataset with another seed and pass it as --data"
        )
    _refuse_trained(unsure, named, trained_on)
    part = store.subset(held_out)
    if not unsure:
        how = f"held out in training by every run: {len(part)} of {counted(len(store), 'episode')}"
    elif named:
        how = _how_mixed(part, store, trained, named, trained_on)
    else:
        how = _how_other(part, store, trained, trained_on)
    return HeldOutPart(store=part, how=how)


def _datasets(store: EpisodeStore) -> list[EpisodeStore]:
    """Return the datasets that are read as one, each by its own path, or the only one."""
    if not store.origins:
        return [store]
    stops = np.cumsum([origin.episodes for origin in store.origins]).tolist()
    return [
        EpisodeStore(origin.path, origin.info, store.entries[stop - origin.episodes : stop])
        for origin, stop in zip(store.origins, stops, strict=True)
    ]


def _refuse_trained(
    unsure: Sequence[EpisodeStore], named: Mapping[str, EpisodeStore], trained_on: EpisodeStore | None
) -> None:
    """Refuse copies of episodes that were trained on; of a `trained_on` in `named`, held-out episodes are allowed."""
    for test in unsure:
        cure = f"they were trained on: leave {test.path} out of --data, or copy the others with acvp data filter"
        for train in named.values():
            refuse_leaks(train, test, cure)
        if trained_on is not None and trained_on.digest not in named:
            refuse_leaks(trained_on, test)


def _how_mixed(
    part: EpisodeStore,
    store: EpisodeStore,
    trained: Sequence[Trained | None],
    named: Mapping[str, EpisodeStore],
    trained_on: EpisodeStore | None,
) -> str:
    """Return how episodes were chosen where some datasets are named by some runs only, or by none."""
    compared = set(named) | (set() if trained_on is None else {trained_on.digest})
    if all(run is not None and (run.openings or run.held_out.keys() <= compared) for run in trained):
        rest = "none of them is a copy of an episode that was trained on"
    else:
        rest = "contents not compared with all training data (--trained-on compares them)"
    return (
        f"held out in training, or of a dataset with another digest than the training data: {len(part)} of "
        f"{counted(len(store), 'episode')}; {rest}"
    )


def _how_other(
    part: EpisodeStore, store: EpisodeStore, trained: Sequence[Trained | None], trained_on: EpisodeStore | None
) -> str:
    """Return how episodes were chosen where no run names a dataset by its digest."""
    how = f"all {counted(len(store), 'episode')}"
    if len(part) < len(store):
        how = f"{len(part)} of {counted(len(store), 'episode')}, without those that begin like one that was trained on,"
    if None not in trained:  # a predictor alone need not say what it was trained on
        how += " of a dataset with another digest than the training data"
    if trained_on is not None:
        return f"{how}; none of them is in the training dataset {trained_on.path}"
    if all(run is not None and run.openings for run in trained):
        return f"{how}; none of them begins like an episode that was trained on"
    return f"{how}; contents not compared (--trained-on compares them)"


def refuse_unknown_split(model: LoadedModel, trained: Trained | None, store: EpisodeStore) -> None:
    """Refuse a bare predictor on the store it was trained on: nothing says which episodes it has not seen."""
    about = model.predictor.about
    if trained is None and about is not None and any(digest[:16] in about.data for digest in store.digests):
        raise UserError(
            f"{model.name} was trained on {store.path} and does not say which episodes were held out: name its run's "
            "folder, or pass another store as --data"
        )


def training_of(path: Path) -> Trained | None:
    """Return what the run that a folder is, or is part of, says about its training data; None for a bare predictor."""
    own = path.resolve()
    run = next((folder for folder in (own, *own.parents[:2]) if (folder / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it again")
    stores = config.get("stores") or [[config["store"], max(config["held_out"], default=0) + 1]]
    held_out: dict[str, tuple[int, ...]] = {}
    first = 0
    for digest, count in stores:
        held_out[digest] = tuple(i - first for i in config["held_out"] if first <= i < first + count)
        first += count
    return Trained(held_out=held_out, openings=frozenset(config.get("openings", ())))


def evenly(count: int, size: int) -> list[int]:
    """Return `size` of the numbers 0 to count - 1, evenly spaced, or all of them."""
    size = min(count, size)
    return [i * count // size for i in range(size)]


def batches(starts: Sequence[WindowStart], size: int) -> Iterator[Sequence[WindowStart]]:
    """Yield window starts, `size` at a time."""
    for first in range(0, len(starts), size):
        yield starts[first : first + size]


Plans = NDArray[np.int64]  # (P, L)
NEEDS = "counterfactuals need a store made by acvp collect, with its game, seeds and actions"


@dataclass(frozen=True, kw_only=True)
class BranchedState:
    """A state of a stored episode with the true future of several plans."""

    start: WindowStart
    given: NDArray[np.uint8]
    """(T, h, w, C), the frames that led to it."""
    between: NDArray[np.int64]
    """(T − 1,), the actions between them."""
    plans: Plans
    futures: NDArray[np.uint8]
    """(P, L, h, w, C), the frames that each plan leads to."""


def every_action(actions: int, steps: int) -> Plans:
    """Return one plan for each action, which is repeated for all steps."""
    return np.repeat(np.arange(actions)[:, None], steps, 1)


def sampled_plans(actions: int, steps: int, count: int, *key: int) -> Plans:
    """Return up to `count` different plans of uniformly random actions, a pure function of the key."""
    drawn = generator("plans", *key).integers(actions, size=(count, steps))
    return np.unique(drawn, axis=0)


def open_game(store: EpisodeStore) -> Game:
    """Return the game of a dataset, to replay its episodes and try plans of actions on the way."""
    require_numbered(store.info.action_range, "trying every action")
    try:
        return replay_game(store)
    except UserError as error:
        raise UserError(f"{NEEDS}: {error}") from error


def branched_states(
    store: EpisodeStore, starts: Sequence[WindowStart], view: View, context: int, plans: Callable[[int], Plans]
) -> Iterator[BranchedState | None]:
    """Yield the state at the last given frame of each window, None where a plan ends the game too early.

    ``plans`` returns the plans of the n-th window.
    """
    by_episode: dict[int, dict[int, int]] = {}
    for number, start in enumerate(starts):
        by_episode.setdefault(start.episode, {})[start.frame + context - 1] = number
    with open_game(store) as game:
        for episode, numbers in by_episode.items():
            for t in _replayed(store, episode, game, max(numbers) + 1):
                if t in numbers:
                    yield _branched(store, starts[numbers[t]], view, context, plans(numbers[t]), game)


def _replayed(store: EpisodeStore, episode: int, game: Game, stop: int) -> Iterator[int]:
    try:
        yield from replay(store[episode], game, stop)
    except UserError as error:
        raise UserError(f"{NEEDS}: {error}") from error


def _branched(
    store: EpisodeStore, start: WindowStart, view: View, context: int, plans: Plans, game: Game
) -> BranchedState | None:
    window = WindowReader(store, [start], view)
    futures = list(game.branch(plans.tolist()))
    if any(len(steps) < plans.shape[1] for steps in futures):
        return None
    return BranchedState(
        start=start,
        given=window.frames(0, context)[0],
        between=window.actions(0, context - 1)[0],
        plans=plans,
        futures=view.apply(np.stack([[step.frame for step in steps] for steps in futures]), None),
    )
