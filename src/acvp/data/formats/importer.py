"""Episodes outside a store, as the readers of all formats describe them.

Shapes: T actions, H height, W width.

What the writers of all formats share: frames in small pieces.

Takes plays into a store, one durable episode after the other; run again it goes on where it was stopped.
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

from acvp.data.episode import MAX_SIDE, Episode
from acvp.data.palette import Frame
from acvp.data.recording import MAX_ACTIONS, MAX_LIVES, MAX_REWARD, EpisodeRecorder
from acvp.data.store import EpisodeStore, IndexEntry, StoreInfo, load_part
from acvp.data.writer import StoreWriter, open_writer
from acvp.durable import check_file
from acvp.errors import UserError

Actions = NDArray[np.int64]  # (T,)
Progress = Callable[[int, int], None]
"""Told how many frames are done, and how many there are."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a play holds; frames come one by one, so that a long one needs no memory."""

    frames: Generator[Frame, None, None]  # T + 1 of (H, W, 3)
    actions: Actions
    rewards: NDArray[np.float32] | None = None  # (T,)
    lives: NDArray[np.int16] | None = None  # (T + 1,)
    seed: int = 0
    terminated: bool = False
    truncated: bool = True


@dataclass(frozen=True, kw_only=True)
class Play:
    """One episode that can be read."""

    number: int
    """Its place in the store."""
    place: str
    """Where it lies, for messages."""
    frame_count: int
    actions: Actions | None = None
    """Its actions, where they are known before it is read."""
    read: Callable[[], Recording]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All plays that go into one store, checked as far as that is cheap."""

    plays: Sequence[Play]
    env_id: str
    """What the source seems to be called."""
    frame_shape: tuple[int, int, int]
    action_count: int
    """The least number of actions that its plays need."""
    action_at: str
    """Where the highest action stands, for messages."""
    action_meanings: tuple[str, ...] | None = None
    """Names, where the source has them."""

    @property
    def frame_count(self) -> int:
        return sum(play.frame_count for play in self.plays)


def checked_files(files: Sequence[Path], within: Path | None) -> list[Path]:
    """Files of a source if all are regular and none lies outside the folder that the user named."""
    for file in files:
        try:
            check_file(file, within)
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    return list(files)


def checked_actions(values: NDArray[np.integer] | Sequence[int], where: Callable[[int], str]) -> Actions:
    """Actions as an array if all are possible; `where` names the place of the one that is not."""
    for i, value in enumerate(values):
        if not 0 <= value < MAX_ACTIONS:
            raise UserError(
                f"{where(i)}: action {value} is out of range; actions are numbers from 0 to {MAX_ACTIONS - 1}"
            )
    return np.array(values, np.int64).reshape(-1)


def checked_rewards(values: NDArray[Any], where: Callable[[int], str]) -> NDArray[np.float32]:
    """Rewards in 32 bits if all are finite and fit; `where` names the place of the one that does not."""
    with np.errstate(over="ignore"):
        wide = np.asarray(values, np.float64)
    fits = np.abs(wide) <= MAX_REWARD
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(f"{where(i)}: reward {values[i]}; rewards are finite and fit into 32 bits")
    return wide.astype(np.float32)


def checked_lives(values: NDArray[np.integer], where: Callable[[int], str]) -> NDArray[np.int16]:
    """Lives in 16 bits if all are possible; `where` names the place of the one that is not."""
    fits = (values >= -1) & (values <= MAX_LIVES)
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(
            f"{where(i)}: {values[i]} lives; 0 to {MAX_LIVES} are possible, and -1 where the game has no such thing"
        )
    return values.astype(np.int16)


def highest_action(places: Iterable[tuple[str, Actions]]) -> tuple[int, str]:
    """How many actions there must be at least, and the place that says so."""
    best = max(places, key=lambda one: int(one[1].max(initial=0)))
    return int(best[1].max(initial=0)) + 1, best[0]


def numbers_of(names: Sequence[str]) -> list[int]:
    """The number each name ends with if there are several and that tells them apart, else their places in the list."""
    ends = [re.search(r"(\d{1,9})$", name, re.ASCII) for name in names]
    numbers = [int(end[1]) for end in ends if end]
    return numbers if len(set(numbers)) == len(names) > 1 else list(range(len(names)))


ActionNames = int | tuple[str, ...] | None
"""How many actions a game has, or their names, or None: what the source says."""


def take_in(
    source: Source, out: Path, *, policy: str, env_id: str | None, actions: ActionNames, advance: Callable[[int], None]
) -> EpisodeStore:
    """Bring all plays into the store at `out`; those that it holds already are skipped."""
    _check_size(source)
    info = StoreInfo(
        env_id=env_id or source.env_id,
        frame_shape=source.frame_shape,
        action_meanings=action_names(source, actions),
        policy=policy,
    )
    with open_writer(out, info) as writer:
        recorder, there = EpisodeRecorder(), _already_there(writer, source)
        for play in source.plays:
            if play.number in there:
                advance(play.frame_count)
            else:
                writer.add(_record(recorder, play, source.frame_shape, advance))
        writer.rewrite_index()
    return EpisodeStore(out)


def action_names(source: Source, actions: ActionNames) -> tuple[str, ...]:
    """The names of the actions: the caller's, or the source's own, or their numbers."""
    if actions is None:
        actions = source.action_meanings or source.action_count
    count = actions if isinstance(actions, int) else len(actions)
    if not 1 <= count <= MAX_ACTIONS:
        raise UserError(f"{count} actions: a game has from 1 to {MAX_ACTIONS}")
    names = tuple(map(str, range(actions))) if isinstance(actions, int) else tuple(actions)
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
            f"{source.plays[0].place}: frames of {height}×{width}: sides from 1 to {MAX_SIDE} are possible; scale them"
        )


def _already_there(writer: StoreWriter, source: Source) -> set[int]:
    """Numbers of the plays that the store holds; refuses a store that holds other ones."""
    plays = {play.number: play for play in source.plays}
    for entry in writer.entries:
        play = plays.get(entry.number)
        if play is None or play.frame_count != entry.frames or not _same_actions(play, writer.path, entry):
            where = "the source" if play is None else play.place
            raise UserError(
                f"{writer.path}: its episode {entry.number} ({entry.frames} frames) is not from {where}: "
                "it is another import; choose another --out"
            )
    return {entry.number for entry in writer.entries}


def _same_actions(play: Play, store: Path, entry: IndexEntry) -> bool:
    return play.actions is None or np.array_equal(play.actions, load_part(store, entry).actions)


def _record(
    recorder: EpisodeRecorder, play: Play, shape: tuple[int, int, int], advance: Callable[[int], None]
) -> Episode:
    recording = play.read()
    steps, count = play.frame_count - 1, 0
    assert len(recording.actions) == steps, (len(recording.actions), steps)
    with closing(recording.frames) as frames:
        for frame in frames:
            if count > steps:
                raise UserError(f"{play.place}: over {count} frames for {steps} actions; {steps} actions need {count}")
            _check_shape(frame, shape, play, count)
            _feed(recorder, recording, frame, count)
            count += 1
            advance(1)
    if count <= steps:
        raise UserError(f"{play.place}: {count} frames for {steps} actions; {steps} actions need {steps + 1} frames")
    return recorder.finish(
        number=play.number, seed=recording.seed, terminated=recording.terminated, truncated=recording.truncated
    )


def _feed(recorder: EpisodeRecorder, recording: Recording, frame: Frame, t: int) -> None:
    lives = -1 if recording.lives is None else int(recording.lives[t])
    if t == 0:
        recorder.start(frame, lives=lives)
        return
    reward = 0.0 if recording.rewards is None else float(recording.rewards[t - 1])
    recorder.step(int(recording.actions[t - 1]), reward, frame, lives=lives)


def _check_shape(frame: Frame, shape: tuple[int, int, int], play: Play, t: int) -> None:
    if frame.dtype != np.uint8 or frame.ndim != 3:
        raise UserError(f"{play.place}: frame {t} is {frame.dtype} of shape {frame.shape}; frames are uint8 (H, W, 3)")
    if frame.shape != shape:
        raise UserError(
            f"{play.place}: frame {t} is {frame.shape[0]}×{frame.shape[1]}, the first one of all is "
            f"{shape[0]}×{shape[1]} (height×width); all frames must be of one size"
        )
