"""Datasets of Minari 0.5: whole episodes with lossless frames (Minari's default is JPEG).

A dataset `acvp/freeway-v0` is the folder acvp/freeway-v0 below Minari's root (MINARI_DATASETS_PATH, or
~/.minari/datasets).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from acvp.actions import ActionRange, range_of
from acvp.data.episode import BLOCK_FRAMES, Episode
from acvp.data.formats.importer import (
    Recording,
    Source,
    SourceEpisode,
    checked_actions,
    checked_files,
    checked_lives,
    checked_rewards,
    checked_vectors,
)
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import check_space, new_folder, write_atomic
from acvp.errors import UserError

INFO_KEY = "acvp"
"""Key of the metadata that only acvp writes."""
JPEG = (
    "this Minari dataset stores frames as JPEG, which is lossy: they differ from the game's; record it with "
    "jpeg_encoding=False for exact frames"
)

_NO_MINARI = "Minari is not installed: pip install 'acvp[minari]'"
_DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, AssertionError, NotImplementedError, RuntimeError)


def read(source: Path) -> dict[str, Source]:
    """Return what to import from a dataset, by its folder or its id."""
    storage, metadata, lengths = _open(source)
    shape, limits = _frame_shape(source, storage.observation_space), _limits(source, storage.action_space)
    action_count = len(limits) or int(storage.action_space.n)
    episodes = [
        SourceEpisode(
            number=i,
            location=f"{source}: episode {i}",
            frame_count=steps + 1,
            read=partial(_record, source, storage, i, steps, limits or action_count),
        )
        for i, steps in enumerate(lengths)
    ]
    contents = Source(
        episodes=episodes,
        env_id=_env_id(metadata, source),
        frame_shape=shape,
        action_count=action_count,
        action_at=f"{source}: its action space",
        action_meanings=_action_meanings(metadata, action_count),
        action_range=limits,
        lossy=JPEG if getattr(storage, "jpeg_encoding", False) else "",
    )
    return {"": contents}


def write(store: EpisodeStore, out: Path, advance: Callable[[int], None], *, dataset_id: str | None = None) -> None:
    """Write a dataset below `out`, Minari's root, without the episodes that have no action: Minari cannot hold them."""
    minari = _minari()
    name = dataset_id or default_id(store)
    try:
        namespace, _, _ = minari.parse_dataset_id(name)
    except (ValueError, TypeError) as error:
        raise UserError(f"dataset id {name!r}: expected something like acvp/freeway-v0") from error
    positions = [i for i, entry in enumerate(store.entries) if entry.frames > 1]
    if not positions:
        raise UserError(f"{store.path}: no episode has an action, and Minari holds no others")
    with new_folder(out / name) as folder:
        data = folder / "data"
        data.mkdir()
        check_space(data, sum(store.entries[i].frames for i in positions) * int(np.prod(store.info.frame_shape)))
        storage = minari.MinariStorage.new(
            data,
            observation_space=spaces.Box(0, 255, store.info.frame_shape, np.uint8),
            action_space=_space(store),
            jpeg_encoding=False,
        )
        storage.update_metadata(_metadata(store, name, minari.version))
        storage.update_episodes(_buffers(store, positions, minari.EpisodeBuffer, advance))
        lengths = [{"total_steps": store.entries[i].frames - 1} for i in positions]
        storage.update_episode_metadata(lengths, range(len(lengths)))
        _name_namespaces(out, namespace, minari.NAMESPACE_METADATA_FILENAME)


def default_id(store: EpisodeStore) -> str:
    """An id from the game's name: ALE/Freeway-v5 becomes acvp/freeway-v5."""
    name = store.info.env_id.rsplit("/", 1)[-1].lower()
    match = re.fullmatch(r"(.*?)(?:-v([0-9]+))?", re.sub(r"[^a-z0-9_-]+", "-", name).strip("-"))
    assert match is not None
    return f"acvp/{match[1] or 'episodes'}-v{match[2] or 0}"


class _Minari:
    """What is used of Minari, imported only when it is needed."""

    def __init__(self) -> None:
        import minari
        from minari.data_collector import EpisodeBuffer
        from minari.dataset.minari_dataset import parse_dataset_id
        from minari.dataset.minari_storage import MinariStorage
        from minari.namespace import NAMESPACE_METADATA_FILENAME

        self.version: str = minari.__version__
        self.EpisodeBuffer, self.MinariStorage = EpisodeBuffer, MinariStorage
        self.parse_dataset_id, self.NAMESPACE_METADATA_FILENAME = parse_dataset_id, NAMESPACE_METADATA_FILENAME


def _minari() -> _Minari:
    try:
        return _Minari()
    except ImportError as error:
        raise UserError(_NO_MINARI) from error


def _open(source: Path) -> tuple[Any, dict[str, Any], list[int]]:
    """Minari's storage, its metadata, and how many steps each episode has."""
    storage_class = _minari().MinariStorage
    folder = _dataset_folder(source)
    try:
        _refuse_links(source if source.is_dir() else folder, folder)
        metadata = storage_class.read_raw_metadata(folder)
        if not {"observation_space", "action_space"} <= metadata.keys():
            raise ValueError("its metadata has no spaces")  # Minari would run the environment to find them
        storage = storage_class.read(folder)
        lengths = [
            int(episode["total_steps"]) for episode in storage.get_episode_metadata(range(storage.total_episodes))
        ]
    except (*_DAMAGE, ImportError) as error:
        raise UserError(f"{source}: cannot be read as a Minari dataset ({type(error).__name__}: {error})") from error
    if not lengths:
        raise UserError(f"{source}: a Minari dataset without episodes; there is nothing to import")
    return storage, metadata, lengths


def _refuse_links(named: Path, folder: Path) -> None:
    """Refuse a dataset from which anything leads out of the folder that was named: symbolic links, or HDF5's own."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()]
    for file in checked_files(paths, named):
        if file.suffix in (".hdf5", ".h5"):
            _refuse_external(file)


def _refuse_external(file: Path) -> None:
    """Refuse an HDF5 file whose data lies in other files: HDF5 would open any that it names."""
    import h5py

    with h5py.File(file, "r") as opened:
        groups, seen = [opened["/"]], set[int]()
        while groups:
            group = groups.pop()
            for name in group:
                link = group.get(name, getlink=True)
                if isinstance(link, h5py.SoftLink):
                    continue  # leads to another part of this file, which is checked as well
                item = group[name] if isinstance(link, h5py.HardLink) else None
                if item is None or getattr(item, "external", None) or getattr(item, "is_virtual", False):
                    raise UserError(f"{file}: {name!r:.80} lies in another file; a dataset must be whole in itself")
                address = int(h5py.h5o.get_info(item.id).addr)
                if isinstance(item, h5py.Group) and address not in seen:
                    seen.add(address)
                    groups.append(item)


def _dataset_folder(source: Path) -> Path:
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    for folder in (source, source / "data", root / source / "data"):
        if (folder / "metadata.json").is_file():
            return folder
    below = [file.parent for file in sorted(source.glob("**/data/metadata.json"))] if source.is_dir() else []
    if len(below) == 1:
        return below[0]
    if below:
        names = ", ".join(str(folder.parent) for folder in below)
        raise UserError(f"{source}: {len(below)} Minari datasets are in that folder; name one of {names}")
    raise UserError(
        f"{source}: no Minari dataset in that folder, nor of that id below {root}; `minari list local` names them"
    )


def _frame_shape(source: Path, space: Any) -> tuple[int, int, int]:
    shape = getattr(space, "shape", None)
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) != 3 or space.shape[2] != 3:
        raise UserError(
            f"{source}: its observations are {type(space).__name__} {shape} {space.dtype}, not images; expected uint8 "
            "(height, width, 3)"
        )
    return space.shape[0], space.shape[1], 3


def _limits(source: Path, space: Any) -> ActionRange:
    """Return the range of continuous actions; empty: they are numbers."""
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and np.issubdtype(space.dtype, np.floating):
        if np.isfinite(space.low).all() and np.isfinite(space.high).all() and space.shape[0]:
            return range_of(space.low, space.high)
    elif isinstance(space, spaces.Discrete) and space.start == 0:
        return ()
    raise UserError(
        f"{source}: its actions are {space}; expected Discrete(n), counted from 0, or a Box of floats with limits"
    )


def _space(store: EpisodeStore) -> spaces.Space[Any]:
    if not store.info.action_range:
        return spaces.Discrete(store.action_count)
    return spaces.Box(*np.array(store.info.action_range, np.float32).T, dtype=np.float32)


def _env_id(metadata: dict[str, Any], source: Path) -> str:
    try:
        return str(metadata[INFO_KEY]["env_id"])
    except (KeyError, TypeError):
        pass
    try:
        return str(json.loads(metadata["env_spec"])["id"])
    except (KeyError, TypeError, ValueError):
        return str(metadata.get("dataset_id", source.name))


def _action_meanings(metadata: dict[str, Any], count: int) -> tuple[str, ...] | None:
    try:
        meanings = tuple(str(name) for name in metadata[INFO_KEY]["action_meanings"])
    except (KeyError, TypeError):
        return None
    return meanings if len(meanings) == count else None


def _record(source: Path, storage: Any, i: int, steps: int, known: int | ActionRange) -> Recording:
    try:
        episode = next(iter(storage.get_episodes([i])))
        seed = int(next(iter(storage.get_episode_metadata([i]))).get("seed") or 0)
        frames, lives = episode["observations"], (episode["infos"] or {}).get("lives")
        actions, rewards = np.asarray(episode["actions"]), np.asarray(episode["rewards"])
        flags = [np.asarray(episode[name], bool) for name in ("terminations", "truncations")]
    except (*_DAMAGE, StopIteration, SyntaxError, OverflowError) as error:
        raise UserError(f"{source}: episode {i} cannot be read ({type(error).__name__}: {error})") from error
    shape, kinds = ((steps,), "iu") if isinstance(known, int) else ((steps, len(known)), "f")
    fits = actions.shape == shape and actions.dtype.kind in kinds and rewards.dtype.kind in "iufb"
    if any(array.shape != (steps,) for array in (rewards, *flags)) or not fits or not steps:
        raise UserError(
            f"{source}: episode {i} has actions {actions.dtype} {actions.shape}, "
            f"rewards {rewards.dtype} {rewards.shape}, terminations {flags[0].shape} and truncations {flags[1].shape}; "
            f"expected {steps} each"
        )
    if isinstance(known, int) and actions.max() >= known:
        raise UserError(f"{source}: episode {i} has action {actions.max()}, its space ends at {known - 1}")
    lives = None if lives is None else np.asarray(lives)
    known_lives = lives is not None and lives.shape == (steps + 1,) and lives.dtype.kind in "iu"
    where = f"{source}: episode {i}, step"
    return Recording(
        frames=_each(frames),
        actions=(checked_actions if actions.ndim == 1 else checked_vectors)(actions, lambda t: f"{where} {t}"),
        rewards=checked_rewards(rewards, lambda t: f"{where} {t}"),
        lives=checked_lives(lives, lambda t: f"{where} {t}") if lives is not None and known_lives else None,
        seed=max(0, seed),
        terminated=bool(flags[0][-1]),
        truncated=bool(flags[1][-1]),
    )


def _each(frames: NDArray[np.uint8]) -> Generator[Frame, None, None]:
    yield from frames


def _metadata(store: EpisodeStore, dataset_id: str, version: str) -> dict[str, Any]:
    info = store.info
    return {
        "dataset_id": dataset_id,
        "minari_version": version,
        "algorithm_name": info.policy,
        "description": f"Episodes of {info.env_id}, exported by acvp; frames are exact.",
        INFO_KEY: {"env_id": info.env_id, "action_meanings": list(info.action_meanings)},
    }


def _buffers(
    store: EpisodeStore, positions: list[int], make: Callable[..., Any], advance: Callable[[int], None]
) -> Iterator[Any]:
    """Minari's episodes in blocks: it appends a block to the episode of the same id, so memory holds one block."""
    for number, position in enumerate(positions):
        episode = store[position]
        for start in range(0, len(episode) - 1, BLOCK_FRAMES):
            stop = min(start + BLOCK_FRAMES, len(episode) - 1)
            yield make(id=number, seed=episode.header.seed if start == 0 else None, **_steps(episode, start, stop))
            advance(stop - start)
        advance(1)


def _steps(episode: Episode, start: int, stop: int) -> dict[str, Any]:
    """Steps start to stop; the first block also brings the frame before them."""
    first = start + (start > 0)
    last, actions = np.arange(start, stop) == len(episode) - 2, episode.actions[start:stop]
    return {
        "observations": np.ascontiguousarray(episode.frames(first, stop + 1)),
        "actions": actions if actions.ndim == 2 else actions.astype(np.int64),
        "rewards": episode.rewards[start:stop],
        "terminations": last & episode.header.terminated,
        "truncations": last & episode.header.truncated,
        "infos": {"lives": episode.lives[first : stop + 1]},
    }


def _name_namespaces(root: Path, namespace: str | None, file_name: str) -> None:
    """Give each part of the namespace the file by which Minari knows it."""
    folder = root
    for part in (namespace or "").split("/"):
        folder = folder / part
        if part and not (folder / file_name).exists():
            write_atomic(folder / file_name, b"{}")
