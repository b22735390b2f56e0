"""The test part of a dataset: the episodes that no run was trained on."""

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
    """The training data of a run."""

    digest: str
    """Of the dataset."""
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
    own = [run for run in trained if run is not None and run.digest == store.digest]
    if not own:
        return _other_store(store, trained_on)
    held_out = set(range(len(store))).intersection(*(run.held_out for run in own))
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
    run = next((folder for folder in (own, *own.parents[:2]) if (folder / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it again")
    return Trained(digest=config["store"], held_out=tuple(config["held_out"]))


def evenly(count: int, size: int) -> list[int]:
    """Return `size` of the numbers 0 to count - 1, evenly spaced, or all of them."""
    size = min(count, size)
    return [i * count // size for i in range(size)]


def batches(starts: Sequence[WindowStart], size: int) -> Iterator[Sequence[WindowStart]]:
    """Yield window starts, `size` at a time."""
    for first in range(0, len(starts), size):
        yield starts[first : first + size]
