"""The episodes that an evaluation may use: those that no run was trained on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acvp.data.split import refuse_leaks
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.runs import RunFolder


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run says about its training data."""

    digest: str
    """Of the store."""
    held_out: tuple[int, ...]
    """Positions of the episodes it was not trained on."""


@dataclass(frozen=True, kw_only=True)
class HeldOutPart:
    """Episodes that no run was trained on."""

    store: EpisodeStore
    how: str
    """How they were chosen, in a sentence."""


def held_out_part(
    store: EpisodeStore, trained: Sequence[Trained | None], trained_on: EpisodeStore | None
) -> HeldOutPart:
    """Return the episodes of a store that every run has held out; all of a store that none was trained on."""
    own = [each for each in trained if each is not None and each.digest == store.digest]
    if not own:
        return _other_store(store, trained_on)
    held_out = set(range(len(store))).intersection(*(each.held_out for each in own))
    if not held_out:
        raise UserError(
            f"{store.path}: the runs were split by different seeds and have no held-out episode in common; "
            "train them with one --seed, or record a test store with another seed and pass it as --data"
        )
    how = f"held out in training by every run: {len(held_out)} of {len(store)} episodes"
    return HeldOutPart(store=store.subset(sorted(held_out)), how=how)


def _other_store(store: EpisodeStore, trained_on: EpisodeStore | None) -> HeldOutPart:
    if trained_on is None:
        how = "not compared with the training store: name it with --trained-on"
    else:
        refuse_leaks(trained_on, store)
        how = f"none of them is in the training store {trained_on.path}"
    return HeldOutPart(store=store, how=f"all {len(store)} episodes of a store that no run was trained on ({how})")


def refuse_unknown_split(model: LoadedModel, trained: Trained | None, store: EpisodeStore) -> None:
    """Refuse a bare predictor on the store it was trained on: nothing says which episodes it has not seen."""
    about = model.predictor.about
    if trained is None and about is not None and store.digest[:16] in about.data:
        raise UserError(
            f"{model.name} was trained on {store.path} and does not say which episodes were held out: name its run's "
            "folder, or pass another store as --data"
        )


def training_of(path: Path) -> Trained | None:
    """Return what the run that a folder is, or is part of, says about its training data; None for a bare predictor."""
    own = path.resolve()
    run = next((each for each in (own, *own.parents[:2]) if (each / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it anew")
    return Trained(digest=config["store"], held_out=tuple(config["held_out"]))


def evenly(count: int, wanted: int) -> list[int]:
    """Return `wanted` of the numbers 0 to count - 1, evenly spaced; all where there are fewer."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


def batches(places: Sequence[WindowStart], size: int) -> Iterator[Sequence[WindowStart]]:
    """Yield places `size` at a time."""
    for first in range(0, len(places), size):
        yield places[first : first + size]
