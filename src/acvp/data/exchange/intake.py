"""Takes plays into a store, one durable episode after the other; run again it goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from acvp.data.episode import Episode
from acvp.data.exchange.plays import Play, Recording, Source
from acvp.data.palette import Frame
from acvp.data.part import MAX_SIDE
from acvp.data.recorder import MAX_ACTIONS, EpisodeRecorder
from acvp.data.store import EpisodeStore, IndexEntry, StoreInfo, load_part
from acvp.data.writer import StoreWriter, open_writer
from acvp.errors import UserError

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
    return EpisodeStore.open(out)


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
