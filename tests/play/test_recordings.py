"""Sessions over a recorded play, and with no game at all."""

from __future__ import annotations

import dataclasses
import io

import pytest
from PIL import Image

from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.play.context import Cast
from acvp.play.session import Session
from acvp.play.worlds import LiveWorld, RecordedWorld
from tests.play.dreamers import (
    DOWN,
    LEFT,
    UP,
    StandStill,
    network,
    play_on,
    same,
    session,
)


def test_a_recording_plays_on_and_the_dream_starts_anywhere_in_it(toy: EpisodeStore) -> None:
    one, episode = session(store=toy), toy[1]
    one.scrub(1, 10)
    assert one.driver == "recording"
    for frame in range(10, 15):
        assert same(one.moment.real, episode.frames(frame, frame + 1)[0])
        assert one.moment.dream.steps == frame - 10
        one.step()
    one.rewind()
    one.rewind()
    assert isinstance(one.world, RecordedWorld)
    assert one.world.at == 13
    assert same(one.moment.real, episode.frames(13, 14)[0])


def test_a_recording_ends(toy: EpisodeStore) -> None:
    one, last = session(store=toy), len(toy[0]) - 1
    one.scrub(0, last - 1)
    one.step()
    assert one.moment.over
    one.scrub(0, last)
    one.step()
    assert one.moment.over
    assert same(one.moment.real, toy[0].frames(last, last + 1)[0])


def test_near_the_beginning_of_a_recording_the_predictor_watches(toy: EpisodeStore) -> None:
    one = session(store=toy)
    one.scrub(0, 0)
    assert one.moment.dream.state is None
    one.step()
    assert one.moment.dream.state is not None


def test_taking_over_a_recording_goes_on_with_the_game(toy: EpisodeStore) -> None:
    one, episode = session(store=toy), toy[2]
    one.scrub(2, 8)
    assert one.change_driver() is None
    assert isinstance(one.world, LiveWorld)
    game = make_game("toy")
    game.reset(episode.header.seed)
    for action in episode.actions[:8].tolist():
        game.step(action)
    play_on(one, LEFT)
    assert same(one.moment.real, game.step(LEFT).frame)
    assert one.driver == "human"


def test_without_the_game_a_recording_is_dreamed_on_alone(toy: EpisodeStore) -> None:
    imported = dataclasses.replace(toy.info, policy="imported from elsewhere")
    one = session(store=EpisodeStore(toy.path, imported, toy.entries))
    one.scrub(0, 5)
    note = one.change_driver()
    assert note is not None
    assert "goes on alone" in note
    play_on(one, UP)
    assert one.moment.real is None
    assert one.moment.dream.steps == 1
    one.switch("net")
    assert one.moment.dream.steps == 0
    one.reset()
    assert one.moment.real is not None, "the game itself is there"


@pytest.mark.parametrize(("episode", "frame"), [(-1, 0), (99, 0), (0, -1), (0, 10**9)])
def test_places_outside_the_store(toy: EpisodeStore, episode: int, frame: int) -> None:
    one = session(store=toy)
    before = one.moment
    with pytest.raises(UserError, match="to"):
        one.scrub(episode, frame)
    assert one.moment is before


def test_scrubbing_needs_a_store() -> None:
    with pytest.raises(UserError, match="--data"):
        session().scrub(0, 0)


class TestAlone:
    """A predictor whose game is not installed."""

    @staticmethod
    def alone(toy: EpisodeStore, **options: object) -> Session:
        elsewhere = EpisodeStore(toy.path, dataclasses.replace(toy.info, env_id="elsewhere/Toy-v0"), toy.entries)
        loaders = {
            "still": lambda: StandStill(env_id="elsewhere/Toy-v0"),
            "net": lambda: network(env_id="elsewhere/Toy-v0"),
        }
        return Session(Cast(loaders), store=elsewhere, **options)  # type: ignore[arg-type]

    def test_it_plays_from_stored_frames(self, toy: EpisodeStore) -> None:
        one = self.alone(toy)
        assert one.moment.real is None
        assert one.stage.missing is not None
        assert any(same(one.moment.dream.frame, frame) for episode in toy for frame in episode.frames())
        start = one.moment.dream.frame
        play_on(one, UP, LEFT)
        assert one.moment.dream.steps == 2
        one.rewind()
        assert one.moment.dream.steps == 1
        one.reground()
        assert same(one.moment.dream.frame, start)
        one.switch("net")
        play_on(one, UP)
        assert one.moment.dream.steps == 1
        assert one.every_action().truths is None

    def test_every_reset_is_another_start(self, toy: EpisodeStore) -> None:
        one = self.alone(toy)
        starts = set()
        for _ in range(5):
            one.reset()
            starts.add(one.moment.dream.frame.tobytes())
        assert len(starts) > 1

    def test_an_agent_plays_too(self, toy: EpisodeStore) -> None:
        one = self.alone(toy, policy=lambda meanings, rng: lambda frame: 2 + int(frame.shape != (24, 24, 3)))
        one.change_driver()
        one.step()
        assert one.moment.action == DOWN

    def test_its_clip_shows_the_dream_only(self, toy: EpisodeStore) -> None:
        one = self.alone(toy)
        one.record()
        play_on(one, UP, UP)
        assert Image.open(io.BytesIO(one.end_clip("gif"))).width < 300

    def test_without_stored_frames_it_says_the_cure(self) -> None:
        with pytest.raises(UserError, match="--data"):
            Session(Cast({"x": lambda: network(env_id="elsewhere/Toy-v0")}))
