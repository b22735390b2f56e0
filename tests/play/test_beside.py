"""A second predictor under the same keys, and the temperature of a session."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.errors import UserError
from acvp.models.pixels import WrongPixels
from acvp.pixel import PixelPredictor
from acvp.play.model_pool import ModelPool, make_model_pool
from acvp.play.protocol import PictureStream, facts, welcome
from acvp.play.session import Session
from tests.play.serving import Frames, unpack
from tests.play.sessions import (
    DOWN,
    LEFT,
    RIGHT,
    UP,
    StandStill,
    atari_pool,
    imagining_session,
    make_session,
    network,
    play_on,
    same,
)


def test_two_predictors_dream_as_each_does_alone() -> None:
    session, alone = imagining_session(seed=4), imagining_session(seed=4)
    alone.switch("net")
    session.compare("net")
    for action in (UP, LEFT, DOWN, RIGHT):
        play_on(session, action)
        play_on(alone, action)
        assert session.state.other is not None
        assert same(session.state.other.frame, alone.state.imagined.frame)
        assert not same(session.state.other.frame, session.state.imagined.frame)
        assert alone.state.metrics is not None
        assert session.state.other_wrong_pixels == alone.state.metrics.wrong_pixels
    assert facts(session)["beside"] == "net"


def test_both_are_resynced_and_rewound_together() -> None:
    session = imagining_session(seed=4)
    session.compare("net")
    play_on(session, UP, LEFT)
    before = session.state
    play_on(session, DOWN)
    session.rewind()
    assert session.state is before
    session.resync()
    assert session.state.other is not None
    assert session.state.other.steps == session.state.imagined.steps == 0
    assert same(session.state.other.frame, session.state.real)


def test_a_longer_context_beside_waits_for_its_frames() -> None:
    pool = ModelPool({"short": StandStill, "long": lambda: StandStill(context=5)})
    session = Session(pool, seed=4)
    session.compare("long")
    steps = []
    for _ in range(6):
        play_on(session, UP)
        assert session.state.other is not None
        steps.append(session.state.other.steps)
    assert steps == [0, 0, 0, 0, 1, 2]


def test_a_predictor_of_another_view_is_compared_in_its_own() -> None:
    session = imagining_session(seed=4)
    session.compare("gray")
    play_on(session, UP, UP)
    other, real = session.state.other, session.state.frames[-1]
    assert other is not None
    assert session.worlds.other is not None
    viewed = session.worlds.other.view(real)
    assert other.frame.shape == viewed.shape == (84, 84, 1)
    assert session.state.other_wrong_pixels == WrongPixels(None).count_in_frame(other.frame, viewed)


def test_it_arrives_as_a_third_frame() -> None:
    session, stream, reader = imagining_session(seed=4), PictureStream(), Frames()
    session.compare("net")
    play_on(session, UP)
    _, header, payload = unpack(stream.encode(session, 1))
    assert session.state.other is not None
    size = 24 * 24 * (3 if header["other"]["form"] == "rgb" else 1)
    assert np.array_equal(reader.read(header["other"], payload[-size:]), session.state.other.frame)
    session.compare("")
    _, header, _ = unpack(stream.encode(session, 2))
    assert "other" not in header
    assert facts(session)["beside"] == ""


def test_a_predictor_of_another_game_is_refused_and_dropped_with_its_game() -> None:
    seaquest = atari_pool().get("copy").predictor
    session = Session(ModelPool({"toy": network, "seaquest": lambda: seaquest, "still": StandStill}))
    with pytest.raises(UserError, match="predicts ALE/Seaquest-v5"):
        session.compare("seaquest")
    session.compare("still")
    assert welcome(session)["same_game"] == ["toy", "still", "copy-last-frame"]
    session.switch("seaquest")
    assert session.worlds.other is None
    session.step()
    assert session.state.other is None
    session.close()


def test_it_stays_when_the_first_one_is_switched() -> None:
    session = imagining_session(seed=4)
    session.compare("net")
    play_on(session, UP)
    steps = session.state.agent_steps
    session.switch("copy-last-frame")
    play_on(session, LEFT)
    assert session.state.agent_steps == steps + 1
    assert session.state.other is not None
    assert facts(session)["beside"] == "net"


def test_packaged_predictors_name_their_games_without_being_loaded() -> None:
    pool = make_model_pool(["freeway"])
    assert pool.of_game("ALE/Qbert-v5") == ("qbert-objects", "qbert", "copy-last-frame"), "the best one first"


def test_the_temperature_is_of_one_session_alone() -> None:
    pool = make_model_pool(["freeway"])
    hot, cold = Session(pool), Session(pool)
    hot.set_temperature(1.5)
    predictors = [session.worlds.imagined.predictor for session in (hot, cold)]
    assert all(isinstance(predictor, PixelPredictor) for predictor in predictors)
    assert [predictor.temperature for predictor in predictors] == [1.5, 0.0]
    assert predictors[0].normalizer is predictors[1].normalizer, "the weights are shared"
    assert welcome(hot)["samples"]
    hot.switch("copy-last-frame")
    assert not welcome(hot)["samples"]
    hot.switch("freeway")
    assert hot.worlds.imagined.predictor.temperature == 1.5
    for session in (hot, cold):
        session.close()


def test_a_temperature_changes_the_dream_and_is_part_of_a_link() -> None:
    session = Session(atari_pool())
    play_on(session, UP)
    cold = session.state.imagined.frame
    session.set_temperature(0.5)
    play_on(session, UP)
    assert session.state.imagined.frame.mean() < cold.mean() - 20
    other = Session(atari_pool())
    other.replay(session.share(), last=True)
    assert other.temperature == 0.5
    session.close()
    other.close()


@pytest.mark.parametrize("temperature", [-0.1, 10.1, float("nan")])
def test_other_temperatures_are_refused(temperature: float) -> None:
    session = make_session()
    with pytest.raises(UserError, match="0 to 10"):
        session.set_temperature(temperature)
    assert session.temperature == 0
