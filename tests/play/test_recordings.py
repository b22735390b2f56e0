"""Sessions on a recorded episode, and without any game."""

from __future__ import annotations

import dataclasses
import io

import pytest
from PIL import Image

from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.models.pixels import WrongPixels
from acvp.play.context import RecordedWorld
from acvp.play.model_pool import ModelPool
from acvp.play.players import Players
from acvp.play.session import Session
from acvp.play.worlds import LiveWorld
from tests.play.sessions import (
    DOWN,
    LEFT,
    UP,
    StandStill,
    make_session,
    network,
    play_on,
    same,
)


def test_a_recording_plays_and_a_resync_works_anywhere_in_it(toy: EpisodeStore) -> None:
    session, episode = make_session(store=toy), toy[1]
    session.scrub(1, 10)
    assert session.driver == "recording"
    for frame in range(10, 15):
        assert same(session.state.real, episode.frames(frame, frame + 1)[0])
        assert session.state.imagined.steps == frame - 10
        session.step()
    session.rewind()
    session.rewind()
    assert isinstance(session.worlds.real, RecordedWorld)
    assert session.worlds.real.frame_index == 13
    assert same(session.state.real, episode.frames(13, 14)[0])


def test_a_recording_ends(toy: EpisodeStore) -> None:
    session, last = make_session(store=toy), len(toy[0]) - 1
    session.scrub(0, last - 1)
    session.step()
    assert session.state.over
    session.scrub(0, last)
    session.step()
    assert session.state.over
    assert same(session.state.real, toy[0].frames(last, last + 1)[0])


def test_near_the_start_of_a_recording_the_predictor_waits_for_frames(toy: EpisodeStore) -> None:
    session = make_session(store=toy)
    session.scrub(0, 0)
    assert session.state.imagined.predictor_state is None
    session.step()
    assert session.state.imagined.predictor_state is not None


def test_taking_over_a_recording_continues_with_the_game(toy: EpisodeStore) -> None:
    session, episode = make_session(store=toy), toy[2]
    session.scrub(2, 8)
    assert session.change_driver() is None
    assert isinstance(session.worlds.real, LiveWorld)
    game = make_game("toy")
    game.reset(episode.header.seed)
    for action in episode.actions[:8].tolist():
        game.step(action)
    play_on(session, LEFT)
    assert same(session.state.real, game.step(LEFT).frame)
    assert session.driver == "human"


def test_without_the_game_only_the_imagined_world_continues(toy: EpisodeStore) -> None:
    imported = dataclasses.replace(toy.info, policy="imported from elsewhere")
    session = make_session(store=EpisodeStore(toy.path, imported, toy.entries))
    session.scrub(0, 5)
    note = session.change_driver()
    assert note is not None
    assert "only the dream continues" in note
    play_on(session, UP)
    assert session.state.real is None
    assert session.state.imagined.steps == 1
    session.switch("net")
    assert session.state.imagined.steps == 0
    session.reset()
    assert session.state.real is not None, "the game itself is there"


def test_a_game_that_differs_from_the_recording_is_not_taken_over(
    toy: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    game, closed = make_game("toy"), []
    reset = game.reset
    monkeypatch.setattr(game, "reset", lambda seed: reset(seed + 1))
    monkeypatch.setattr(game, "close", lambda: closed.append(True))
    monkeypatch.setattr("acvp.play.context.replay_game", lambda store: game)
    session = make_session(store=toy)
    session.scrub(0, 5)
    note = session.change_driver()
    assert note is not None
    assert "only the dream continues" in note
    assert (session.state.real, closed) == (None, [True])


def test_live_metrics_use_the_palette_of_the_dataset(toy: EpisodeStore) -> None:
    session = make_session(store=toy)
    session.switch("net")
    play_on(session, UP, UP, LEFT)
    state = session.state
    assert state.real is not None
    assert state.metrics is not None
    counts = [WrongPixels(palette).count_in_frame(state.imagined.frame, state.real) for palette in (toy.palette, None)]
    assert counts[0] != counts[1], "the two definitions differ on this frame"
    assert state.metrics.wrong_pixels == counts[0]


@pytest.mark.parametrize(("episode", "frame"), [(-1, 0), (99, 0), (0, -1), (0, 10**9)])
def test_frames_outside_the_dataset(toy: EpisodeStore, episode: int, frame: int) -> None:
    session = make_session(store=toy)
    before = session.state
    with pytest.raises(UserError, match="to"):
        session.scrub(episode, frame)
    assert session.state is before


def test_scrubbing_needs_a_dataset() -> None:
    with pytest.raises(UserError, match="--data"):
        make_session().scrub(0, 0)


class TestImaginedOnly:
    """A predictor whose game is not installed."""

    @staticmethod
    def imagined_only(toy: EpisodeStore, **options: object) -> Session:
        elsewhere = EpisodeStore(toy.path, dataclasses.replace(toy.info, env_id="elsewhere/Toy-v0"), toy.entries)
        loaders = {
            "still": lambda: StandStill(env_id="elsewhere/Toy-v0"),
            "net": lambda: network(env_id="elsewhere/Toy-v0"),
        }
        return Session(ModelPool(loaders), store=elsewhere, **options)  # type: ignore[arg-type]

    def test_it_plays_from_stored_frames(self, toy: EpisodeStore) -> None:
        session = self.imagined_only(toy)
        assert session.state.real is None
        assert session.context.missing is not None
        assert any(same(session.state.imagined.frame, frame) for episode in toy for frame in episode.frames())
        start = session.state.imagined.frame
        play_on(session, UP, LEFT)
        assert session.state.imagined.steps == 2
        session.rewind()
        assert session.state.imagined.steps == 1
        session.resync()
        assert same(session.state.imagined.frame, start)
        session.switch("net")
        play_on(session, UP)
        assert session.state.imagined.steps == 1
        assert session.every_action().real is None

    def test_every_reset_is_another_start(self, toy: EpisodeStore) -> None:
        session = self.imagined_only(toy)
        starts = set()
        for _ in range(5):
            session.reset()
            starts.add(session.state.imagined.frame.tobytes())
        assert len(starts) > 1

    def test_an_agent_plays_too(self, toy: EpisodeStore) -> None:
        session = self.imagined_only(
            toy, players=Players("mine", lambda meanings, rng: lambda frame: 2 + int(frame.shape != (24, 24, 3)))
        )
        session.change_driver()
        session.step()
        assert session.state.action == DOWN

    def test_its_clip_shows_the_imagined_world_only(self, toy: EpisodeStore) -> None:
        session = self.imagined_only(toy)
        session.record()
        play_on(session, UP, UP)
        assert Image.open(io.BytesIO(session.end_clip("gif"))).width < 300

    def test_without_stored_frames_the_error_names_the_option(self) -> None:
        with pytest.raises(UserError, match="--data"):
            Session(ModelPool({"x": lambda: network(env_id="elsewhere/Toy-v0")}))
