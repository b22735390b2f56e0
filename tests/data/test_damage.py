"""Stores that rot or lose files: all damage is found, and nothing wrong is ever returned."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.data.episode import serialize
from acvp.data.store import EpisodeStore
from acvp.data.verify import _contradictions, verify
from acvp.data.windows import Window, Windows
from acvp.durable import seal, unseal
from acvp.errors import UserError
from tests.data.answers import answer_action, answer_episode, answer_store, read_answer
from tests.faults import Trials, counted

LENGTHS = [20, 35, 1, 50]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with nothing wrong."""
    folder = tmp_path_factory.mktemp("sound") / "store"
    answer_store(folder, LENGTHS)
    return folder


def copy_of(sound: Path, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(sound, folder)
    return folder


def part(folder: Path, number: int) -> Path:
    return folder / "episodes" / f"{number:06d}.safetensors"


def assert_never_wrong(folder: Path) -> None:
    """Fail if reading gives anything but the right frames or an error of ours."""
    try:
        store = EpisodeStore(folder)
        windows = Windows(store, Window(2, 3))
    except UserError:
        return
    for position, entry in enumerate(store.entries):
        for frame, told in frames_of(store, position):
            assert told == (entry.number, frame)
    for number in range(0, len(windows), 5):
        position, first = windows.locate(number)
        try:
            batch = windows.batch(np.array([number]))
        except UserError:
            continue
        entry = store.entries[position]
        assert batch.palette is not None
        answers = [read_answer(batch.palette[frame]) for frame in batch.frames[0]]
        assert answers == [(entry.number, first + t) for t in range(5)]
        assert batch.actions[0].tolist() == [answer_action(entry.number, first + t) for t in range(4)]


def frames_of(store: EpisodeStore, position: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """(index, what the frame tells) of an episode; nothing of one that is refused."""
    try:
        episode = store[position]
        frames = episode.frames()
    except UserError:
        return
    assert episode.header.frames == LENGTHS[episode.header.number]
    assert episode.rewards.tolist() == list(range(len(frames) - 1))
    assert episode.actions.tolist() == [answer_action(episode.header.number, t) for t in range(len(frames) - 1)]
    yield from ((i, read_answer(frame)) for i, frame in enumerate(frames))


def assert_found(folder: Path) -> None:
    """Fail unless verify, both ways, sees that something is wrong."""
    assert verify(folder) != []
    assert main(["data", "verify", str(folder)]) == 1


def flip(folder: Path, rng: np.random.Generator) -> None:
    """Flip one bit: in store.json, in the index or in a part, equally often."""
    files = [folder / "store.json", folder / "index.jsonl", part(folder, int(rng.integers(len(LENGTHS))))]
    file = files[rng.integers(3)]
    data = bytearray(file.read_bytes())
    data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    file.write_bytes(data)


def delete(folder: Path, rng: np.random.Generator) -> None:
    part(folder, int(rng.integers(len(LENGTHS)))).unlink()


def swap(folder: Path, rng: np.random.Generator) -> None:
    """Exchange two parts, or put a good part of another store in the place of one."""
    one, other = (part(folder, int(number)) for number in rng.permutation(len(LENGTHS))[:2])
    if rng.integers(2):
        first, second = one.read_bytes(), other.read_bytes()
        one.write_bytes(second)
        other.write_bytes(first)
    else:
        number = int(one.stem)
        one.write_bytes(serialize(answer_episode(number, LENGTHS[number], name=99)))


def cut(folder: Path, rng: np.random.Generator) -> None:
    """Cut a file somewhere, to nothing now and then; or add to it."""
    files = [folder / "store.json", folder / "index.jsonl", *(folder / "episodes").iterdir()]
    file = files[rng.integers(len(files))]
    data = file.read_bytes()
    length = 0 if rng.integers(4) == 0 else int(rng.integers(len(data)))
    file.write_bytes(data[:length] if rng.integers(4) else data + rng.bytes(9))


def add(folder: Path, rng: np.random.Generator) -> None:
    """Put a file among the parts that the index does not tell of."""
    names = ["000004.safetensors", "4.safetensors", "notes.txt", ".000001.safetensors.77.tmp", "000001.safetensors.bak"]
    (folder / "episodes" / names[rng.integers(len(names))]).write_bytes(part(folder, 1).read_bytes())


def rot(damage: Callable[[Path, np.random.Generator], None], trials: Trials, sound: Path, folder: Path) -> None:
    def once(i: int, rng: np.random.Generator) -> None:
        damage(copy_of(sound, folder), rng)
        assert_found(folder)
        assert_never_wrong(folder)

    trials.run(once)


@pytest.mark.slow
@counted("10 flipped bits are found", quick=60, full=1000)
def test_flipped_bits_are_found(trials: Trials, sound: Path, tmp_path: Path) -> None:
    rot(flip, trials, sound, tmp_path / "store")


@counted("10 deleted parts are found", quick=5, full=50)
def test_deleted_parts_are_found(trials: Trials, sound: Path, tmp_path: Path) -> None:
    rot(delete, trials, sound, tmp_path / "store")


@counted("10 swapped parts are found", quick=5, full=20)
def test_swapped_parts_are_found(trials: Trials, sound: Path, tmp_path: Path) -> None:
    rot(swap, trials, sound, tmp_path / "store")


@counted("10 cut, emptied and lengthened files are found", quick=20, full=200)
def test_cut_files_are_found(trials: Trials, sound: Path, tmp_path: Path) -> None:
    rot(cut, trials, sound, tmp_path / "store")


@counted("10 added files are found", quick=5, full=20)
def test_added_files_are_found(trials: Trials, sound: Path, tmp_path: Path) -> None:
    rot(add, trials, sound, tmp_path / "store")


@pytest.mark.parametrize("name", ["store.json", "index.jsonl", "episodes"])
def test_a_missing_piece_is_found(sound: Path, tmp_path: Path, name: str) -> None:
    folder = copy_of(sound, tmp_path / "store")
    (folder / name).rename(tmp_path / name)
    assert_found(folder)
    assert_never_wrong(folder)


def test_store_json_of_another_game_is_found(sound: Path, tmp_path: Path) -> None:
    folder = copy_of(sound, tmp_path / "store")
    body = unseal((folder / "store.json").read_bytes())
    (folder / "store.json").write_bytes(seal(body | {"frame_shape": [8, 6, 3]}))  # as many pixels, other sides
    assert_found(folder)
    assert_never_wrong(folder)


def test_an_action_that_the_game_has_not_is_found(sound: Path, tmp_path: Path) -> None:
    folder = copy_of(sound, tmp_path / "store")
    highest = max(int(episode.actions.max(initial=0)) for episode in EpisodeStore(sound))
    body = unseal((folder / "store.json").read_bytes())
    for actions, problems in ((highest + 1, 0), (highest, 3)):  # in all episodes but the one without actions
        (folder / "store.json").write_bytes(seal(body | {"action_meanings": body["action_meanings"][:actions]}))
        found = verify(folder)
        assert sum(f"where there are 0 to {actions - 1}" in problem for problem in found) == len(found) == problems


def test_a_second_line_of_an_episode_is_found(sound: Path, tmp_path: Path) -> None:
    index = copy_of(sound, tmp_path / "store") / "index.jsonl"
    lines = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join([*lines, lines[1]]))
    assert verify(index.parent) == [f"{index}: line 5 is a second one for episode 1"]


@pytest.mark.parametrize("field", ["content", "opening"])
def test_a_header_with_the_hash_of_other_frames_is_found(sound: Path, field: str) -> None:
    store = EpisodeStore(sound)
    assert list(_contradictions(store[1], store.info)) == []
    other = replace(store[1], header=replace(store[1].header, **{field: getattr(store[3].header, field)}))
    assert list(_contradictions(other, store.info)) == ["its frames and actions are not those of its header"]


def test_nothing_is_found_where_nothing_is_wrong(sound: Path) -> None:
    assert verify(sound) == []
    assert main(["data", "verify", str(sound)]) == 0
    assert_never_wrong(sound)
