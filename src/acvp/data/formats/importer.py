"""Imports episodes into a dataset: what the readers of all formats return, and how it is recorded.

Episodes are imported one by one, and each is stored at once. If interrupted, run the same import again to resume.

Shapes: T actions, H height, W width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.actions import ActionRange, Actions, range_of
from acvp.data.episode import MAX_ACTIONS, MAX_SIDE, Episode
from acvp.data.frames import Frame
from acvp.data.recording import MAX_LIVES, MAX_REWARD, EpisodeRecorder, StoreWriter, open_writer
from acvp.data.store import EpisodeStore, IndexEntry, StoreInfo, load_part
from acvp.durable import check_file
from acvp.errors import UserError

Progress = Callable[[int, int], None]
"""Called with (frames done, all frames)."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """The contents of an episode; frames come one by one, so that long episodes need no memory."""

    frames: Generator[Frame, None, None]  # T + 1 of (H, W, 3)
    actions: Actions  # (T,) or (T, A)
    rewards: NDArray[np.float32] | None = None  # (T,)
    lives: NDArray[np.int16] | None = None  # (T + 1,)
    seed: int = 0
    terminated: bool = False
    truncated: bool = True


@dataclass(frozen=True, kw_only=True)
class SourceEpisode:
    """An episode of a source, which `read` reads."""

    number: int
    """Its number in the dataset."""
    location: str
    """Its file, for messages."""
    frame_count: int
    actions: Actions | None = None
    """Its actions, if they are known before it is read."""
    read: Callable[[], Recording]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All episodes of one dataset to be, checked as far as that is cheap."""

    episodes: Sequence[SourceEpisode]
    env_id: str
    """Name of the game, as far as the source has one."""
    frame_shape: tuple[int, int, int]
    action_count: int
    """The least number of actions that its episodes need, or the components of a continuous one."""
    action_at: str
    """Location of the highest action, for messages."""
    action_meanings: tuple[str, ...] | None = None
    """Names of the actions, if the source has them."""
    action_range: ActionRange = ()
    """Limits of each component of continuous actions; empty: actions are numbers."""
    lossy: str = ""
    """Why its frames are not those that the game has drawn; empty: they may be."""

    @property
    def frame_count(self) -> int:
        return sum(episode.frame_count for episode in self.episodes)


def checked_files(files: Sequence[Path], within: Path | None) -> list[Path]:
    """Return the files of a source; UserError unless all are regular files inside the folder that the user named."""
    for file in files:
        try:
            check_file(file, within)
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    return list(files)


def checked_actions(values: NDArray[np.integer] | Sequence[int], where: Callable[[int], str]) -> Actions:
    """Return actions as an array; UserError if one is out of range, with its location by `where`."""
    for i, value in enumerate(values):
        if not 0 <= value < MAX_ACTIONS:
            raise UserError(
                f"{where(i)}: action {value} is out of range; actions are numbers from 0 to {MAX_ACTIONS - 1}"
            )
    return np.array(values, np.int64).reshape(-1)


def checked_vectors(values: NDArray[Any], where: Callable[[int], str]) -> NDArray[np.float32]:
    """Return continuous actions (T, A) in 32 bits; UserError if one is not finite, with its location by `where`."""
    with np.errstate(over="ignore"):
        vectors = np.asarray(values, np.float32)
    fits = np.isfinite(vectors).all(1)
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(f"{where(i)}: action {values[i].tolist()!r:.60}; components are finite and fit into 32 bits")
    return vectors


def checked_rewards(values: NDArray[Any], where: Callable[[int], str]) -> NDArray[np.float32]:
    """Return rewards in 32 bits; UserError if one is not finite or does not fit, with its location by `where`."""
    with np.errstate(over="ignore"):
        wide = np.asarray(values, np.float64)
    fits = np.abs(wide) <= MAX_REWARD
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(f"{where(i)}: reward {values[i]}; rewards are finite and fit into 32 bits")
    return wide.astype(np.float32)


def checked_lives(values: NDArray[np.integer], where: Callable[[int], str]) -> NDArray[np.int16]:
    """Return lives in 16 bits; UserError if one is out of range, with its location by `where`."""
    fits = (values >= -1) & (values <= MAX_LIVES)
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(
            f"{where(i)}: {values[i]} lives; 0 to {MAX_LIVES} are possible, and -1 for a game without lives"
        )
    return values.astype(np.int16)


def described_actions(located: Iterable[tuple[str, Actions]], limits: ActionRange = ()) -> dict[str, Any]:
    """Return the fields of Source that follow from all actions: least number and location of the highest, or range.

    Continuous actions have the range `limits`, or where that is empty the one that they fill.
    """
    pairs = list(located)
    first = pairs[0][1]
    for location, actions in pairs:
        if actions.shape[1:] != first.shape[1:]:
            raise UserError(f"{location}: its actions are {_kind(actions)}, those of {pairs[0][0]} {_kind(first)}")
    if first.ndim == 2:
        vectors = np.concatenate([actions for _, actions in pairs]) if sum(len(a) for _, a in pairs) else first + 0.0
        low, high = (vectors.min(0, initial=np.inf), vectors.max(0, initial=-np.inf))
        filled = range_of(*(np.where(np.isfinite(side), side, 0) for side in (low, high)))
        return {"action_count": first.shape[1], "action_at": pairs[0][0], "action_range": limits or filled}
    location, actions = max(pairs, key=lambda pair: int(pair[1].max(initial=0)))
    return {"action_count": int(actions.max(initial=0)) + 1, "action_at": location}


def _kind(actions: Actions) -> str:
    return "numbers" if actions.ndim == 1 else f"vectors of {actions.shape[1]}"


def numbers_of(names: Sequence[str]) -> list[int]:
    """Return the number at the end of each name; 0, 1, … if there is one name or the numbers are not unique."""
    matches = [re.search(r"(\d{1,9})$", name, re.ASCII) for name in names]
    numbers = [int(match[1]) for match in matches if match]
    return numbers if len(set(numbers)) == len(names) > 1 else list(range(len(names)))


ActionNames = int | tuple[str, ...] | None
"""Number of actions of a game, or their names; None: as in the source."""


def import_source(
    source: Source,
    out: Path,
    *,
    policy: str,
    env_id: str | None,
    actions: ActionNames,
    advance: Callable[[int], None],
    action_range: ActionRange = (),
) -> EpisodeStore:
    """Import all episodes into the dataset at `out`, without those that it has already.

    `action_range` is that of the game; where it is empty, that of the source counts.
    """
    _check_size(source)
    info = StoreInfo(
        env_id=env_id or source.env_id,
        frame_shape=source.frame_shape,
        action_meanings=action_names(source, actions),
        action_range=_range(source, action_range),
        policy=policy,
    )
    with open_writer(out, info) as writer:
        recorder, imported = EpisodeRecorder(info.action_range), _already_imported(writer, source)
        for episode in source.episodes:
            if episode.number in imported:
                advance(episode.frame_count)
            else:
                writer.add(_record(recorder, episode, source.frame_shape, advance))
        writer.rewrite_index()
    return EpisodeStore(out)


def _range(source: Source, given: ActionRange) -> ActionRange:
    """Return the range of continuous actions; UserError if source and game have other actions."""
    if given and len(given) != len(source.action_range):
        words = f"vectors of {len(source.action_range)} numbers" if source.action_range else "numbers"
        raise UserError(f"{source.action_at}: actions are {words}, the game's are vectors of {len(given)} numbers")
    return given or source.action_range


def action_names(source: Source, actions: ActionNames) -> tuple[str, ...]:
    """Return the names of the actions: the caller's, or those of the source, or their numbers."""
    if actions is None:
        actions = source.action_meanings or source.action_count
    count = actions if isinstance(actions, int) else len(actions)
    if not 1 <= count <= MAX_ACTIONS:
        raise UserError(f"{count} actions: a game has from 1 to {MAX_ACTIONS}")
    names = tuple(map(str, range(actions))) if isinstance(actions, int) else tuple(actions)
    if source.action_range and source.action_count != len(names):
        raise UserError(
            f"{source.action_at}: actions are vectors of {source.action_count} numbers, and {len(names)} are given"
        )
    if source.action_count > len(names):
        raise UserError(
            f"{source.action_at}: action {source.action_count - 1} is out of range: {len(names)} actions are given "
            f"(0 to {len(names) - 1}); give at least {source.action_count}"
        )
    return names


def _check_size(source: Source) -> None:
    height, width, _ = source.frame_shape
    if not (1 <= height <= MAX_SIDE and 1 <= width <= MAX_SIDE):
        raise UserError(
            f"{source.episodes[0].location}: frames of {height}×{width}: sides from 1 to {MAX_SIDE} are possible; "
            "scale them"
        )


def _already_imported(writer: StoreWriter, source: Source) -> set[int]:
    """Return the numbers of the episodes that the dataset has; UserError if it has others."""
    episodes = {episode.number: episode for episode in source.episodes}
    for entry in writer.entries:
        episode = episodes.get(entry.number)
        if episode is None or episode.frame_count != entry.frames or not _same_actions(episode, writer.path, entry):
            where = "the source" if episode is None else episode.location
            raise UserError(
                f"{writer.path}: its episode {entry.number} ({entry.frames} frames) is not from {where}: "
                "it is another import; choose another --out"
            )
    return {entry.number for entry in writer.entries}


def _same_actions(episode: SourceEpisode, store: Path, entry: IndexEntry) -> bool:
    return episode.actions is None or np.array_equal(episode.actions, load_part(store, entry).actions)


def _record(
    recorder: EpisodeRecorder, episode: SourceEpisode, shape: tuple[int, int, int], advance: Callable[[int], None]
) -> Episode:
    recording = episode.read()
    steps, count = episode.frame_count - 1, 0
    assert len(recording.actions) == steps, (len(recording.actions), steps)
    with closing(recording.frames) as frames:
        for frame in frames:
            if count > steps:
                raise UserError(
                    f"{episode.location}: over {count} frames for {steps} actions; {steps} actions need {count}"
                )
            _check_shape(frame, shape, episode, count)
            _feed(recorder, recording, frame, count)
            count += 1
            advance(1)
    if count <= steps:
        raise UserError(
            f"{episode.location}: {count} frames for {steps} actions; {steps} actions need {steps + 1} frames"
        )
    return recorder.finish(
        number=episode.number, seed=recording.seed, terminated=recording.terminated, truncated=recording.truncated
    )


def _feed(recorder: EpisodeRecorder, recording: Recording, frame: Frame, t: int) -> None:
    lives = -1 if recording.lives is None else int(recording.lives[t])
    if t == 0:
        recorder.start(frame, lives=lives)
        return
    reward = 0.0 if recording.rewards is None else float(recording.rewards[t - 1])
    action = recording.actions[t - 1]
    recorder.step(action if action.ndim else int(action), reward, frame, lives=lives)


def _check_shape(frame: Frame, shape: tuple[int, int, int], episode: SourceEpisode, t: int) -> None:
    if frame.dtype != np.uint8 or frame.ndim != 3:
        raise UserError(
            f"{episode.location}: frame {t} is {frame.dtype} of shape {frame.shape}; frames are uint8 (H, W, 3)"
        )
    if frame.shape != shape:
        raise UserError(
            f"{episode.location}: frame {t} is {frame.shape[0]}×{frame.shape[1]}, the first one of all is "
            f"{shape[0]}×{shape[1]} (height×width); all frames must be of one size"
        )
