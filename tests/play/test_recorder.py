"""What people play becomes a dataset that replays bit for bit, and a clip."""

from __future__ import annotations

import io
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from acvp.cli.main import main
from acvp.data.replay import first_difference, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.verify import verify
from acvp.errors import UserError
from acvp.play.protocol import facts
from acvp.play.recording import PlayRecorder, dataset_name
from acvp.play.session import Session
from tests.play.sessions import DOWN, LEFT, NOOP, RIGHT, UP, imagining_session, make_session, play_on


def recording_session(folder: Path, **options: object) -> Session:
    return make_session(recorder=PlayRecorder(folder), **options)


def datasets(folder: Path) -> EpisodeStore:
    return EpisodeStore(folder / dataset_name("acvp/Toy-v0"))


@pytest.mark.parametrize("fast_forward", [False, True])
def test_a_game_is_recorded_as_it_was_played(tmp_path: Path, fast_forward: bool) -> None:
    session = recording_session(tmp_path, seed=4, fast_forward=fast_forward)
    play_on(session, UP, LEFT, DOWN)
    frames = list(session.state.frames)
    session.reset()
    store = datasets(tmp_path)
    assert len(store) == 1
    assert store[0].actions[-3:].tolist() == [UP, LEFT, DOWN]
    assert np.array_equal(store[0].frames()[-len(frames) :], np.stack(frames))
    assert (store[0].header.seed, store[0].header.terminated, store[0].header.truncated) == (4, False, True)
    assert store.info.policy == "human"
    assert "episode 0" in facts(session)["notice"]


def test_the_dataset_passes_verification_with_replay(tmp_path: Path) -> None:
    session = recording_session(tmp_path, seed=1)
    play_on(session, UP, LEFT)
    session.reset()
    play_on(session, *[DOWN] * 150)
    assert session.state.over, "one game to its end"
    assert len(datasets(tmp_path)) == 2, "recorded at once: a server may be killed"
    session.close()
    store = datasets(tmp_path)
    assert [episode.header.terminated for episode in store] == [False, True]
    assert verify(store.path) == []
    with replay_game(store) as game:
        assert [first_difference(episode, game) for episode in store] == [None, None]
    assert main(["data", "verify", str(store.path), "--replay"]) == 0


def test_what_was_rewound_is_not_recorded(tmp_path: Path) -> None:
    session = recording_session(tmp_path, seed=4)
    play_on(session, UP, RIGHT, RIGHT)
    session.rewind()
    session.rewind()
    play_on(session, DOWN)
    session.rewind()
    session.close()
    assert datasets(tmp_path)[0].actions.tolist() == [UP]


def test_games_without_a_key_press_are_not_recorded(tmp_path: Path) -> None:
    session = recording_session(tmp_path, seed=4)
    play_on(session, NOOP, NOOP)
    session.reset()
    session.change_driver()
    for _ in range(20):
        session.step()
    session.close()
    assert list(tmp_path.iterdir()) == []


def test_scrubbing_and_replaying_end_a_game(tmp_path: Path, toy: EpisodeStore) -> None:
    session = recording_session(tmp_path, seed=4, store=toy)
    play_on(session, UP)
    session.scrub(0, 5)
    session.step()
    session.reset()
    play_on(session, DOWN)
    session.replay("seed=1&skip=0&moves=1x3", last=True)
    session.step()
    session.close()
    assert [episode.actions.tolist() for episode in datasets(tmp_path)] == [[UP], [DOWN]]


def test_a_dataset_that_cannot_be_written_becomes_a_notice(tmp_path: Path) -> None:
    (tmp_path / dataset_name("acvp/Toy-v0")).write_text("not a folder")
    session = recording_session(tmp_path, seed=4)
    play_on(session, UP)
    session.reset()
    assert "not recorded" in session.notice
    play_on(session, UP)
    assert session.state.agent_steps == 1


def test_recording_into_a_file_is_refused_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert main(["play", "--no-browser", "--record", str(file)]) == 2
    assert "is a file" in capsys.readouterr().err


def test_a_clip_holds_what_was_played() -> None:
    session = imagining_session(seed=4)
    session.record()
    play_on(session, UP, LEFT, DOWN)
    with pytest.raises(UserError, match="end it first"):
        session.switch("net")
    data = session.end_clip("mp4")
    with av.open(io.BytesIO(data), "r") as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(pictures) == 4
    assert pictures[0].shape[1] > 3 * pictures[0].shape[0] / 2, "three panels beside each other"
    session.record()
    play_on(session, UP, UP)
    gif = Image.open(io.BytesIO(session.end_clip("gif")))
    assert gif.n_frames == 3  # type: ignore[attr-defined]


def test_clips_that_cannot_be() -> None:
    session = imagining_session()
    with pytest.raises(UserError, match="start one"):
        session.end_clip("mp4")
    session.record()
    with pytest.raises(UserError, match="mp4 or gif"):
        session.end_clip("avi")
