"""The layout of the paper's authors, for their Caffe: a PNG a frame, a text file of actions an episode.

<game>/train/0000/00000.png 00001.png …   episodes and frames count from 0, without gaps
<game>/train/0000/act.log                 a line per action, one fewer than frames
<game>/test/…
<game>/mean.binaryproto                   mean image of the train frames, see `blob`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.exchange.blob import MeanImage, decode_mean, encode_mean
from acvp.data.exchange.outlet import pieces
from acvp.data.exchange.plays import Actions, Play, Recording, Source, checked_actions, highest_action, numbers_of
from acvp.data.exchange.png import encode_png, read_png
from acvp.data.palette import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder
from acvp.errors import UserError
from acvp.reading import read_file

SPLITS = ("train", "test")
ACTIONS_NAME = "act.log"
MEAN_NAME = "mean.binaryproto"


def read(source: Path) -> dict[str, Source]:
    """What to import from a game's folder, one of its splits, or one episode; by the subfolder it is to go to."""
    if not source.is_dir():
        raise UserError(f"{source}: no such folder; give the game's folder, its train/ or test/, or one episode")
    splits = [name for name in SPLITS if (source / name).is_dir()]
    folders = {name: _episode_folders(source / name) for name in splits} or {"": _episode_folders(source)}
    if len(folders) == 1:
        folders = {"": next(iter(folders.values()))}
    actions = {folder: _read_actions(folder, source) for found in folders.values() for folder in found}
    action_count, action_at = highest_action((str(f / ACTIONS_NAME), a) for f, a in actions.items())
    shape = read_png(next(iter(actions)) / _frame_name(0), source).shape
    _check_mean(source, shape)
    return {
        name: Source(
            plays=_plays(source, found, actions, shape),
            env_id=_game_name(source),
            frame_shape=(shape[0], shape[1], 3),
            action_count=action_count,
            action_at=action_at,
        )
        for name, found in folders.items()
    }


def write(
    store: EpisodeStore,
    out: Path,
    advance: Callable[[int], None],
    *,
    train: Sequence[int] | None = None,
    test: Sequence[int] | None = None,
) -> None:
    """Write the episodes at positions `train` and `test` of a store; all in train where nothing is said."""
    splits = dict(zip(SPLITS, _positions(len(store), train, test), strict=True))
    with new_folder(out) as folder:
        for name, positions in splits.items():
            total: NDArray[np.int64] = np.zeros(store.info.frame_shape, np.int64)
            for number, position in enumerate(positions):
                total += _write_episode(store[position], folder / name / f"{number:04d}", advance)
            if name == "train":
                frames = sum(store.entries[i].frames for i in positions)
                (folder / MEAN_NAME).write_bytes(encode_mean(total / frames))


def read_mean(file: Path, within: Path | None = None) -> MeanImage:
    """The (H, W, 3) RGB mean image in a mean.binaryproto."""
    try:
        return decode_mean(read_file(file, within))
    except (OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read as a mean image ({error}); move it away to go on without") from error


def _episode_folders(split: Path) -> list[Path]:
    if (split / ACTIONS_NAME).exists() or any(split.glob("*.png")):
        return [split]
    found = [folder for folder in split.iterdir() if folder.is_dir() and re.fullmatch("[0-9]+", folder.name)]
    if not found:
        raise UserError(
            f"{split}: no episodes in it; expected train/ and test/, or folders like 0000/, or {ACTIONS_NAME} with "
            f"{_frame_name(0)}, {_frame_name(1)}, …"
        )
    return sorted(found, key=lambda folder: (int(folder.name), folder.name))


def _plays(source: Path, folders: list[Path], actions: dict[Path, Actions], shape: tuple[int, ...]) -> list[Play]:
    return [
        Play(
            number=number,
            place=str(folder),
            frame_count=len(actions[folder]) + 1,
            actions=actions[folder],
            read=partial(_record, source, folder, actions[folder], shape),
        )
        for number, folder in zip(numbers_of([folder.name for folder in folders]), folders, strict=True)
    ]


def _record(source: Path, folder: Path, actions: Actions, shape: tuple[int, ...]) -> Recording:
    return Recording(frames=_frames(source, folder, len(actions) + 1, shape), actions=actions)


def _frames(source: Path, folder: Path, count: int, shape: tuple[int, ...]) -> Generator[Frame, None, None]:
    for number in range(count):
        file = folder / _frame_name(number)
        frame = read_png(file, source)
        if frame.shape != shape:
            raise UserError(
                f"{file}: {frame.shape[0]}×{frame.shape[1]} pixels, the first frame of all has {shape[0]}×{shape[1]} "
                "(height×width); all frames must be of one size"
            )
        yield frame


def _read_actions(folder: Path, source: Path) -> Actions:
    """The actions of an episode, once its files are as many as they should be."""
    frames = _count_frames(folder)
    file = folder / ACTIONS_NAME
    try:
        lines = read_file(file, source).decode("ascii").rstrip().splitlines()
    except FileNotFoundError as error:
        raise UserError(f"{folder}: it has no {ACTIONS_NAME}, the file of its actions, one a line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); it must be a text file with one number a line") from error
    values = [_integer(file, number, line) for number, line in enumerate(lines, 1)]
    if len(values) != frames - 1:
        raise UserError(
            f"{file}: {len(values)} actions for the {frames} frames in {folder}; {frames} frames need {frames - 1}"
        )
    return checked_actions(values, lambda i: f"{file}: line {i + 1}")


def _integer(file: Path, number: int, line: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", line):
        raise UserError(f"{file}: line {number} is {line[:40]!r}, not a whole number; every line must be an action")
    return int(line)


def _count_frames(folder: Path) -> int:
    names = {file.name for file in folder.glob("*.png")}
    missing = next(i for i in range(len(names) + 1) if _frame_name(i) not in names)
    if missing < len(names):
        extra = max(names - {_frame_name(i) for i in range(missing)})
        raise UserError(
            f"{folder}: {_frame_name(missing)} is missing, but {extra} is there; frames are numbered from "
            f"{_frame_name(0)} without gaps"
        )
    if not names:
        raise UserError(f"{folder}: no frames in it; an episode has at least {_frame_name(0)}")
    return len(names)


def _frame_name(number: int) -> str:
    return f"{number:05d}.png"


def _check_mean(source: Path, shape: tuple[int, ...]) -> None:
    file = source / MEAN_NAME
    if file.exists() and (mean := read_mean(file, source)).shape != shape:
        raise UserError(
            f"{file}: a mean image of {mean.shape[0]}×{mean.shape[1]} for frames of {shape[0]}×{shape[1]} "
            "(height×width); move it away if it belongs to other data"
        )


def _game_name(source: Path) -> str:
    folder = source.resolve()
    return folder.parent.name if folder.name in SPLITS else folder.name


def _positions(count: int, train: Sequence[int] | None, test: Sequence[int] | None) -> tuple[list[int], list[int]]:
    in_test = list(test or [])
    in_train = sorted(set(range(count)) - set(in_test)) if train is None else list(train)
    wrong = [i for i in in_train + in_test if not 0 <= i < count]
    if wrong:
        raise UserError(f"there is no episode at position {wrong[0]}: the store has positions 0 to {count - 1}")
    twice = set(in_train) & set(in_test)
    if twice:
        raise UserError(f"the episode at position {min(twice)} is both in train and in test; choose one")
    if not in_train:
        raise UserError("no episodes in train, so there is no mean image; leave some for it")
    return in_train, in_test


def _write_episode(episode: Episode, folder: Path, advance: Callable[[int], None]) -> NDArray[np.int64]:
    """Write frames and actions; the sum of the frames comes back."""
    folder.mkdir(parents=True)
    total: NDArray[np.int64] = np.zeros((episode.header.height, episode.header.width, 3), np.int64)
    number = 0
    for piece in pieces(episode):
        total += piece.sum(axis=0, dtype=np.int64)
        for frame in piece:
            (folder / _frame_name(number)).write_bytes(encode_png(frame))
            number += 1
        advance(len(piece))
    (folder / ACTIONS_NAME).write_text("".join(f"{action}\n" for action in episode.actions.tolist()))
    return total
