from dataclasses import replace
from pathlib import Path

import pytest

from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore, StoreError, part_path
from acvp.durable import seal, unseal
from acvp.errors import UserError
from tests.data.answers import INFO, answer_episode, answer_store, read_answer


def test_a_store_is_a_sequence_of_its_episodes(tmp_path: Path) -> None:
    store = answer_store(tmp_path / "s", [3, 20, 1])
    assert [len(episode) for episode in store] == [3, 20, 1]
    assert (len(store), store.frames, store.action_count) == (3, 24, 3)
    assert read_answer(store[1].frames(19, 20)[0]) == (1, 19)
    assert [len(e) for e in store[1:]] == [20, 1]
    assert "3 episodes, 24 frames 6×8 2 colors, 3 actions" in repr(store)
    assert "1 episode, 20 frames" in repr(store[1:2])


def test_opening_reads_no_part(tmp_path: Path) -> None:
    path = tmp_path / "s"
    answer_store(path, [5, 5])
    part_path(path, 1).unlink()
    store = EpisodeStore(path)
    assert store.frames == 10
    assert len(store[0]) == 5
    with pytest.raises(StoreError, match="cannot be read"):
        store[1]


def test_equal_recordings_have_equal_digests(tmp_path: Path) -> None:
    a, b, c = (answer_store(tmp_path / name, lengths) for name, lengths in (("a", [4]), ("b", [4]), ("c", [5])))
    assert a.digest == b.digest != c.digest


def test_a_store_of_another_recording_is_not_written_to(tmp_path: Path) -> None:
    answer_store(tmp_path, [4])
    with (
        pytest.raises(UserError, match=r"epsilon is 0\.0, asked for 0\.5"),
        open_writer(tmp_path, replace(INFO, epsilon=0.5)),
    ):
        pass


def test_a_folder_with_other_things_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with (
        pytest.raises(UserError, match=r"not a dataset and not empty \(it has thesis.tex\)"),
        open_writer(tmp_path, INFO),
    ):
        pass
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_episode_is_added_once(tmp_path: Path) -> None:
    with open_writer(tmp_path, INFO) as writer:
        writer.add(answer_episode(0, 4))
        with pytest.raises(StoreError, match="episode 0 exists already"):
            writer.add(answer_episode(0, 5))


def test_an_action_the_store_has_not_is_refused(tmp_path: Path) -> None:
    with open_writer(tmp_path, replace(INFO, action_meanings=("ONE",))) as writer:
        with pytest.raises(StoreError, match="episode 0 has actions 0 to 2, where there are 0 to 0"):
            writer.add(answer_episode(0, 9))
        assert writer.entries == []


def test_frames_of_another_size_are_refused(tmp_path: Path) -> None:
    with (
        open_writer(tmp_path, replace(INFO, frame_shape=(9, 9, 3))) as writer,
        pytest.raises(StoreError, match="an episode of 6×8 frames for a dataset of 9×9"),
    ):
        writer.add(answer_episode(0, 9))


def test_a_newer_store_is_named_as_such(tmp_path: Path) -> None:
    answer_store(tmp_path, [4])
    file = tmp_path / "store.json"
    file.write_bytes(seal(unseal(file.read_bytes()) | {"store_format": 99}))
    with pytest.raises(StoreError, match="store format 99, this acvp reads 1"):
        EpisodeStore(tmp_path)


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("x")])
def test_what_is_no_store_is_refused(tmp_path: Path, make: object) -> None:
    path = tmp_path / "x"
    make(path)  # type: ignore[operator]
    with pytest.raises(StoreError):
        EpisodeStore(path)
