"""Commands of the page, and messages to it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from acvp.errors import UserError
from acvp.play.protocol import COMMANDS, LARGEST_NUMBER, FrameStream, Note, PictureStream, facts, grid_message, parse
from acvp.play.session import Session
from tests.play.serving import Frames, unpack
from tests.play.sessions import NOOP, UP, make_session, play_on


def colors(count: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return so many different colors."""
    draw = np.random.default_rng(seed).choice(2**24, count, replace=False)
    return np.stack((draw >> 16, draw >> 8 & 255, draw & 255), -1).astype(np.uint8)


@given(st.lists(st.tuples(st.sampled_from(["few", "many", "gray"]), st.integers(0, 99)), min_size=1, max_size=8))
@settings(max_examples=25)
def test_frames_arrive_as_they_were_sent(kinds: list[tuple[str, int]]) -> None:
    stream, reader = FrameStream(), Frames()
    few, many = colors(40), colors(400)
    for kind, seed in kinds:
        draw = np.random.default_rng(seed)
        size = (draw.integers(1, 9), draw.integers(1, 9)) if seed < 20 else (20, 20)
        if kind == "gray":
            frame = draw.integers(0, 256, (*size, 1)).astype(np.uint8)
        else:
            choice = few if kind == "few" else many
            frame = choice[draw.integers(0, len(choice), size)]
        header, data = stream.encode(frame)
        assert np.array_equal(reader.read(header, data), frame)


def test_a_changed_pixel_arrives_as_it_was_sent() -> None:
    """To larger and to smaller values: what the page gets is no plain difference."""
    stream, reader = FrameStream(), Frames()
    frame = np.arange(30, dtype=np.uint8).reshape(5, 6, 1)
    for at, value in (((0, 0), 200), ((4, 5), 3), ((0, 0), 7), ((2, 2), 255)):
        assert np.array_equal(reader.read(*stream.encode(frame.copy())), frame)
        frame[at] = value
    assert np.array_equal(reader.read(*stream.encode(frame.copy())), frame)


def test_few_colors_take_one_byte_per_pixel_and_no_change_is_zeros() -> None:
    frame = colors(30)[np.random.default_rng(1).integers(0, 30, (50, 60))]
    stream = FrameStream()
    assert len(stream.encode(frame)[1]) == 3000
    header, data = stream.encode(frame.copy())
    assert data == bytes(3000)
    assert "palette" not in header


def test_a_picture_message_holds_both_frames_and_the_facts() -> None:
    session, stream, readers = make_session(seed=4), PictureStream(), {"real": Frames(), "imagined": Frames()}
    for name in ("still", "gray", "net", "still"):
        if name != session.model_name:
            session.switch(name)
        for action in (NOOP, UP, UP):
            play_on(session, action)
            _, header, payload = unpack(stream.encode(session, 7))
            for world, frame in (("real", session.state.real), ("imagined", session.state.imagined.frame)):
                size = int(np.prod(header[world]["size"])) * (3 if header[world]["form"] == "rgb" else 1)
                assert frame is not None
                assert np.array_equal(readers[world].read(header[world], payload[:size]), frame)
                payload = payload[size:]
            assert (header["steps"], header["predictor"], header["picture"]) == (session.state.imagined.steps, name, 7)


def test_facts_before_the_first_prediction() -> None:
    first = facts(make_session())
    assert first["watching"] == [1, 2]
    assert first["action"] is None
    assert first["imagined_reward"] is None


def test_the_grid_holds_every_action() -> None:
    session = make_session()
    play_on(session, NOOP)
    _, header, payload = unpack(grid_message(session.every_action()))
    assert header["shape"] == [5, 24, 24, 3]
    assert len(payload) == 2 * 5 * 24 * 24 * 3


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "1", '"hold"', "{", "{}", '{"do": 1}', '{"do": "close"}', '{"do": "__init__"}',
        '{"do": "hold"}', "\ud800",
        '{"do": "hold", "action": "1"}', '{"do": "hold", "action": true}', '{"do": "hold", "action": 1.0}',
        '{"do": "hold", "action": 1, "more": 2}', '{"do": "fps", "fps": NaN}', '{"do": "fps", "fps": 1e999}',
        '{"do": "fps", "fps": ' + "9" * 400 + "}", '{"do": "fps", "fps": -' + "9" * 400 + "}",
        '{"do": "fps", "fps": -Infinity}', '{"do": "fps", "fps": 1e300}', '{"do": "fps", "fps": "15"}',
        '{"do": "fps", "fps": ' + "9" * 5000 + "}", '{"do": "hold", "action": ' + "9" * 400 + "}",
        '{"do": "scrub", "episode": 0, "frame": -' + "9" * 400 + "}", '{"do": "every_action", "steps": 1e400}',
        '{"do": "pause", "on": 1}', '{"do": "switch", "name": ["still"]}', "[" * 500, '{"do":"step"}' + " " * 1100,
    ],
)  # fmt: skip
def test_messages_that_are_not_commands(text: str) -> None:
    with pytest.raises(UserError):
        parse(text)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


@pytest.mark.slow
@given(
    st.text()
    | st.dictionaries(st.sampled_from(["do", "action", "name", "x"]), json_values | st.sampled_from([*COMMANDS]))
)
def test_every_message_is_a_command_or_a_user_error(message: object) -> None:

    text = message if isinstance(message, str) else json.dumps(message)
    try:
        command = parse(text)
    except UserError:
        return
    assert command.name in COMMANDS


FIELDS: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-2, 300) | st.integers(-LARGEST_NUMBER, LARGEST_NUMBER),
    bool: st.booleans(),
    float: st.floats(-LARGEST_NUMBER, LARGEST_NUMBER),
    str: st.sampled_from(["still", "net", "gray", "copy-last-frame", "mp4", "gif", "x"]),
}
any_command = st.sampled_from([name for name in COMMANDS if name != "end_clip"]).flatmap(
    lambda name: st.fixed_dictionaries({field: FIELDS[kind] for field, kind in COMMANDS[name][1].items()}).map(
        lambda fields: (name, fields)
    )
)


@pytest.mark.slow
@given(st.lists(any_command, max_size=25))
@settings(max_examples=40)
def test_no_order_of_commands_breaks_a_session(
    toy_session_maker: Any, commands: list[tuple[str, dict[str, Any]]]
) -> None:

    session: Session = toy_session_maker()
    stream = PictureStream()
    for name, fields in commands:
        reply = parse(json.dumps({"do": name} | fields)).perform(session)
        assert not isinstance(reply, Note) or reply.text
        session.step()
        stream.encode(session, 1)
    assert session.state.imagined.frame.dtype == np.uint8
