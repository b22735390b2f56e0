"""Import and export of datasets: the authors' layout, `datasets`, LeRobot, Minari, npz, and videos."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from acvp.actions import ActionRange
from acvp.data.formats import authors, huggingface, lerobot, minari, npz, video
from acvp.data.formats.importer import ActionNames, Progress, Source, import_source
from acvp.data.store import STORE_NAME, EpisodeStore
from acvp.errors import UserError

__all__ = ["FORMATS", "ActionNames", "Format", "Progress", "export_store", "import_store"]


@dataclass(frozen=True, kw_only=True)
class Format:
    """A format of episodes outside a dataset of acvp."""

    read: Callable[[Path], dict[str, Source]]
    write: Callable[..., None]
    unknown: str
    """Note about what an import has to assume; empty: nothing."""
    lost: str
    """Note about what an export leaves out."""
    options: frozenset[str] = frozenset()
    """Options of export_store that it accepts."""


FORMATS = {
    "authors": Format(
        read=authors.read,
        write=authors.write,
        unknown="rewards are not in this layout and recorded as 0, seeds as 0, every episode as truncated",
        lost="rewards, lives, seeds, terminations, the game's id and the names of actions are not in this layout",
        options=frozenset({"train", "test"}),
    ),
    "datasets": Format(
        read=huggingface.read,
        write=huggingface.write,
        unknown="what a table does not have is recorded as reward 0, truncated; seeds as 0, no lives",
        lost="lives, seeds and who played are not kept",
    ),
    "lerobot": Format(
        read=lerobot.read,
        write=lerobot.write,
        unknown="what the tables do not have is recorded as reward 0, truncated; seeds as 0, no lives; states are not "
        "imported",
        lost="numbers of episodes, lives, seeds and who played are not kept",
    ),
    "minari": Format(
        read=minari.read,
        write=minari.write,
        unknown="",
        lost="numbers of episodes are not kept, and episodes of one frame are left out: they have no action",
        options=frozenset({"dataset_id"}),
    ),
    "npz": Format(
        read=npz.read,
        write=npz.write,
        unknown="what a file does not have is recorded as reward 0, seed 0, no lives, truncated",
        lost="how an episode of one frame ended is not kept: it has no action",
    ),
    "video": Format(
        read=video.read,
        write=video.write,
        unknown="rewards are recorded as 0 where the table has none, seeds as 0, every episode as truncated",
        lost="lives, seeds, terminations, the game's id and the names of actions are not kept",
    ),
}


def import_store(
    format: str,
    source: Path,
    out: Path,
    *,
    env_id: str | None = None,
    actions: ActionNames = None,
    action_range: ActionRange = (),
    progress: Progress | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[EpisodeStore, ...]:
    """Import episodes into a dataset at `out`, or into out/train and out/test if the source has train and test.

    Each imported episode is stored at once. If interrupted, run the same import again to resume. `note` gets a text for
    everything that makes the import lossy. `action_range` is that of a game with continuous actions.
    """
    source, out = Path(source), Path(out)
    chosen = _format(format)
    if not source.exists() and format != "minari":  # Minari's datasets have ids as well
        raise UserError(f"{source}: no such file or folder")
    sources = chosen.read(source)
    if len(sources) > 1 and (out / STORE_NAME).exists():
        raise UserError(
            f"{out} is a dataset itself, and {' and '.join(sources)} need a dataset each; choose another --out"
        )
    advance = _counter(progress, sum(part.frame_count for part in sources.values()))
    policy = f"imported from {format}"
    stores = tuple(
        import_source(
            part, out / name, policy=policy, env_id=env_id, actions=actions, advance=advance, action_range=action_range
        )
        for name, part in sources.items()
    )
    for text in dict.fromkeys(part.lossy for part in sources.values() if part.lossy):
        note(text)
    for store in stores:
        if store.palette is None:
            note(
                f"{store.path} has over 256 colors: its frames are stored as RGB, which is exact and larger, and "
                "--model pixel predicts them by the nearest of 256 colors"
            )
    return stores


def export_store(
    format: str,
    store: EpisodeStore,
    out: Path,
    *,
    train: Sequence[int] | None = None,
    test: Sequence[int] | None = None,
    dataset_id: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Export a dataset to the new folder `out`, which appears when all is written.

    `train` and `test` are positions of episodes, for the authors' layout; `dataset_id` is Minari's.
    """
    chosen = _format(format)
    given = {"train": train, "test": test, "dataset_id": dataset_id}
    options = {name: value for name, value in given.items() if value is not None}
    unread = sorted(options.keys() - chosen.options)
    if unread:
        raise UserError(f"the format {format} has no option {unread[0]}; leave it out")
    if not len(store):
        raise UserError(f"{store.path}: no episodes in it; there is nothing to export")
    chosen.write(store, Path(out), _counter(progress, store.frames), **options)


def _format(name: str) -> Format:
    if name not in FORMATS:
        raise UserError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]


def _counter(progress: Progress | None, total: int) -> Callable[[int], None]:
    done = 0

    def advance(frames: int) -> None:
        nonlocal done
        done += frames
        if progress is not None:
            progress(done, total)

    return advance
