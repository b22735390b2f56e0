import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acvp.data.episode import OPENING_FRAMES, PartError, parse, serialize
from acvp.data.recording import EpisodeRecorder
from acvp.errors import UserError
from tests.data.answers import answer_episode, read_answer


def record(frames: np.ndarray) -> EpisodeRecorder:
    recorder = EpisodeRecorder()
    recorder.start(frames[0])
    for t in range(len(frames) - 1):
        recorder.step(t % 3, t / 4, frames[t + 1])
    return recorder


def frames_of(seed: int, count: int, colors: int, late: int) -> np.ndarray:
    """Frames of few colors that become `colors` colors from frame `late` on."""
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (max(colors, 3), 3)).astype(np.uint8)
    frames = palette[rng.integers(0, 3, (count, 9, 11))]
    frames[late:] = palette[rng.integers(0, len(palette), (max(0, count - late), 9, 11))]
    return frames


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 70),
    colors=st.sampled_from([1, 2, 40, 256, 600]),
    late=st.integers(0, 70),
    data=st.data(),
)
def test_what_is_recorded_is_read_back(seed: int, count: int, colors: int, late: int, data: st.DataObject) -> None:
    frames = frames_of(seed, count, colors, late)
    episode = record(frames).finish(number=4, seed=seed, terminated=False, truncated=True)
    start = data.draw(st.integers(0, count))
    stop = data.draw(st.integers(start, count))
    for one in (episode, parse(serialize(episode))):
        assert np.array_equal(one.frames(), frames)
        assert np.array_equal(one.frames(start, stop), frames[start:stop])
        assert one.actions.tolist() == [t % 3 for t in range(count - 1)]
        assert one.rewards.tolist() == [t / 4 for t in range(count - 1)]
        assert one.content_hash() == one.header.content
        assert one.content_hash(OPENING_FRAMES) == one.header.opening
        assert (one.palette is None) == (len(np.unique(frames.reshape(-1, 3), axis=0)) > 256)
    assert serialize(parse(serialize(episode))) == serialize(episode)


def test_a_recorder_is_clean_after_each_episode() -> None:
    many, few = frames_of(0, 20, 600, 0), frames_of(1, 20, 5, 0)
    used = record(many)
    used.finish(number=0, seed=0, terminated=True, truncated=False)
    used.start(few[0])
    for t in range(19):
        used.step(t % 3, t / 4, few[t + 1])
    fresh = record(few)
    same = {"number": 1, "seed": 2, "terminated": True, "truncated": False}
    assert serialize(used.finish(**same)) == serialize(fresh.finish(**same))  # type: ignore[arg-type]


def test_content_depends_on_frames_and_actions_only() -> None:
    a, b, copy = answer_episode(0, 40), answer_episode(1, 40), answer_episode(2, 40, name=0)
    longer = answer_episode(3, 50, name=0)
    assert a.header.content == copy.header.content != b.header.content
    assert a.header.opening == longer.header.opening
    assert a.header.content != longer.header.content


def test_the_repr_describes_the_episode() -> None:
    assert repr(answer_episode(12, 40)).startswith(
        "Episode(12: 40 frames 6×8 2 colors, 39 actions, reward 741, terminated, seed 112, "
    )


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (3, 2), (0, 41), (41, 41)])
def test_frames_that_are_not_there_are_refused(start: int, stop: int) -> None:
    with pytest.raises(IndexError, match="episode of 40 frames"):
        answer_episode(0, 40).frames(start, stop)


def test_answers_survive() -> None:
    episode = answer_episode(5, 33)
    assert [read_answer(frame) for frame in episode.frames()] == [(5, t) for t in range(33)]


def test_a_play_of_many_colors_has_no_indices() -> None:
    episode = record(frames_of(0, 20, 600, 0)).finish(number=0, seed=0, terminated=True, truncated=False)
    with pytest.raises(UserError, match="over 256 colors"):
        episode.indices()


@pytest.mark.parametrize("data", [b"", b"12345678", b"\xff" * 100, b"{}" * 40])
def test_what_is_no_part_is_refused(data: bytes) -> None:
    with pytest.raises(PartError, match="not a part file"):
        parse(data)
