"""The authors' layout, made here by hand, and what happens when it is not as it should be."""

import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from acvp.data.formats import export_store, import_store
from acvp.data.formats.authors import read_mean
from acvp.errors import UserError
from tests.data.formats.stores import simple_store

SIZE = (4, 6)


def picture(episode: int, index: int) -> Image.Image:
    pixels = np.zeros((*SIZE, 3), np.uint8)
    pixels[0, 0], pixels[1, 2] = (episode, 100, index), (7, 8, 9)
    return Image.fromarray(pixels)


def make_episode(folder: Path, episode: int, actions: list[int]) -> Path:
    folder.mkdir(parents=True)
    for index in range(len(actions) + 1):
        picture(episode, index).save(folder / f"{index:05d}.png")
    (folder / "act.log").write_text("".join(f"{action}\n" for action in actions))
    return folder


def make_game(root: Path) -> Path:
    """freeway/train with episodes 0 and 1, freeway/test with episode 0, and a mean image of known numbers."""
    game = root / "freeway"
    make_episode(game / "train" / "0000", 1, [0, 1, 2])
    make_episode(game / "train" / "0001", 2, [2])
    make_episode(game / "test" / "0000", 3, [1, 0])
    blue_first = struct.pack("<72f", *range(72))
    (game / "mean.binaryproto").write_bytes(b"\x08\x01\x10\x03\x18\x04\x20\x06\x2a\xa0\x02" + blue_first)
    return game


def test_train_and_test_become_two_stores(tmp_path: Path) -> None:
    train, test = import_store("authors", make_game(tmp_path), tmp_path / "out")
    assert (train.path, test.path) == (tmp_path / "out" / "train", tmp_path / "out" / "test")
    assert [len(episode) for episode in train] == [4, 2]
    assert [episode.actions.tolist() for episode in train] == [[0, 1, 2], [2]]
    assert [episode.actions.tolist() for episode in test] == [[1, 0]]
    assert train.info.env_id == test.info.env_id == "freeway"
    assert train.info.action_meanings == test.info.action_meanings == ("0", "1", "2")
    for name, store in ((1, train), (3, test)):
        frames = store[0].frames()
        assert [tuple(frame[0, 0]) for frame in frames] == [(name, 100, i) for i in range(len(frames))]
        assert tuple(frames[-1][1, 2]) == (7, 8, 9)
        assert not store[0].rewards.any()
        assert (store[0].header.seed, store[0].header.truncated, store[0].header.terminated) == (0, True, False)


def test_a_split_and_an_episode_become_one_store(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    (split,) = import_store("authors", game / "train", tmp_path / "split", env_id="ALE/Freeway-v5", actions=3)
    (episode,) = import_store("authors", game / "train" / "0001", tmp_path / "episode", actions=("a", "b", "c"))
    assert (len(split), split.info.env_id, split.path) == (2, "ALE/Freeway-v5", tmp_path / "split")
    assert episode[0].header.content == split[1].header.content
    assert episode.info.action_meanings == ("a", "b", "c")


def test_only_one_split_becomes_one_store(tmp_path: Path) -> None:
    make_episode(tmp_path / "game" / "train" / "0000", 1, [0])
    (store,) = import_store("authors", tmp_path / "game", tmp_path / "out")
    assert (store.path, len(store), store.info.env_id) == (tmp_path / "out", 1, "game")


def test_the_mean_is_read_blue_first(tmp_path: Path) -> None:
    mean = read_mean(make_game(tmp_path) / "mean.binaryproto")
    assert mean.shape == (4, 6, 3)
    assert mean[0, 0].tolist() == [48, 24, 0]  # red is the last plane
    assert mean[3, 5].tolist() == [71, 47, 23]


def test_export_splits_and_averages_the_train_frames(tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [5, 1, 3])
    export_store("authors", store, tmp_path / "game", train=[2, 0], test=[1])
    names = sorted(str(p.relative_to(tmp_path / "game")) for p in (tmp_path / "game").rglob("*") if p.is_file())
    frames = [f"train/0000/{i:05d}.png" for i in range(3)] + [f"train/0001/{i:05d}.png" for i in range(5)]
    logs = ["mean.binaryproto", "test/0000/00000.png", "test/0000/act.log", "train/0000/act.log", "train/0001/act.log"]
    assert names == sorted(frames + logs)
    assert (tmp_path / "game/train/0000/act.log").read_text() == "".join(f"{a}\n" for a in store[2].actions)
    assert (tmp_path / "game/test/0000/act.log").read_text() == ""
    together = np.concatenate([store[2].frames(), store[0].frames()])
    assert np.allclose(read_mean(tmp_path / "game/mean.binaryproto"), together.mean(axis=0), atol=1e-4)
    train, test = import_store("authors", tmp_path / "game", tmp_path / "back")
    assert [e.header.content for e in train] == [store[2].header.content, store[0].header.content]
    assert [e.header.content for e in test] == [store[1].header.content]


def test_test_alone_leaves_the_rest_for_train(tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [2, 3, 4])
    export_store("authors", store, tmp_path / "game", test=[1])
    train, test = import_store("authors", tmp_path / "game", tmp_path / "back")
    assert ([len(e) for e in train], [len(e) for e in test]) == ([2, 4], [3])


@pytest.mark.parametrize(
    ("train", "test", "reason"),
    [
        ([0, 3], [], "no episode at position 3: the store has positions 0 to 1"),
        ([0], [0], "position 0 is both in train and in test"),
        ([], [0], "no episodes in train"),
    ],
)
def test_impossible_splits(tmp_path: Path, train: list[int], test: list[int], reason: str) -> None:
    store = simple_store(tmp_path / "store", [2, 3])
    with pytest.raises(UserError, match=reason):
        export_store("authors", store, tmp_path / "game", train=train, test=test)
    assert not (tmp_path / "game").exists()


def put(text: str) -> Callable[[Path], object]:
    return lambda episode: (episode / "act.log").write_text(text)


def move(old: str, new: str) -> Callable[[Path], object]:
    return lambda episode: (episode / old).rename(episode / new)


def save(mode: str, size: tuple[int, int] = (6, 4), color: str | int | tuple[int, ...] = 0) -> Callable[[Path], object]:
    return lambda episode: Image.new(mode, size, color).save(episode / "00002.png")


def cut(episode: Path) -> None:
    data = (episode / "00002.png").read_bytes()
    (episode / "00002.png").write_bytes(data[:-12])


def flip(episode: Path) -> None:
    data = bytearray((episode / "00002.png").read_bytes())
    data[-20] ^= 8  # one of the bits whose change Pillow does not see
    (episode / "00002.png").write_bytes(data)


def clear(episode: Path) -> None:
    for file in episode.glob("*.png"):
        file.unlink()


def bomb(episode: Path) -> None:
    data = bytearray((episode / "00002.png").read_bytes())
    data[16:24] = struct.pack(">II", 60000, 60000)
    (episode / "00002.png").write_bytes(data)


DAMAGE: list[tuple[str, Callable[[Path], object], str]] = [
    ("short", put("0\n1\n"), r"0000/act.log: 2 actions for the 4 frames in .*0000; 4 frames need 3"),
    ("long", put("0\n1\n2\n0\n"), r"4 actions for the 4 frames"),
    ("blank", put("0\n\n2\n"), r"act.log: line 2 is ''"),
    ("word", put("0\nleft\n2\n"), r"act.log: line 2 is 'left', not a whole number"),
    ("float", put("0\n1.0\n2\n"), r"line 2 is '1.0'"),
    ("digits", put("0\n1\n" + "9" * 5000 + "\n"), r"line 3 is '9{40}'"),
    ("negative", put("0\n-1\n2\n"), r"act.log: line 2: action -1 is out of range"),
    ("huge", put("0\n1\n32768\n"), r"line 3: action 32768 is out of range; actions are numbers from 0 to 32767"),
    ("not text", lambda e: (e / "act.log").write_bytes(b"0\n\xff\n2\n"), r"act.log: cannot be read"),
    ("no log", lambda e: (e / "act.log").unlink(), r"0000: it has no act.log"),
    ("gap", lambda e: (e / "00001.png").unlink(), r"0000: 00001.png is missing, but 00003.png is there"),
    ("from 1", lambda e: (e / "00000.png").unlink(), r"00000.png is missing"),
    ("name", move("00002.png", "2.png"), r"00002.png is missing, but 2.png is there"),
    ("no frames", clear, r"0000: no frames in it"),
    ("size", save("RGB", (6, 5)), r"00002.png: 5×6 pixels, the first frame of all has 4×6"),
    ("16 bits", save("I;16"), r"00002.png: 16 bits a channel; frames have 8"),
    ("alpha", save("RGBA", color=(1, 2, 3, 128)), r"00002.png: transparent pixels \(alpha 128\)"),
    ("cut", cut, r"00002.png: cannot be read as PNG \(it ends too early\)"),
    ("flipped", flip, r"00002.png: cannot be read as PNG \(its chunk b'IDAT' is damaged\)"),
    ("empty", lambda e: (e / "00002.png").write_bytes(b""), r"00002.png: cannot be read as PNG \(only 0 bytes\)"),
    ("jpeg", lambda e: picture(0, 0).save(e / "00002.png", "JPEG"), r"00002.png: cannot be read as PNG"),
    ("text", lambda e: (e / "00002.png").write_text("A" * 99), r"\(it does not begin like one\)"),
    ("bomb", bomb, r"00002.png: 60000×60000 pixels; sides from 1 to 4096"),
]


@pytest.mark.parametrize(("damage", "reason"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_bad_input_is_named(tmp_path: Path, damage: Callable[[Path], object], reason: str) -> None:
    game = make_game(tmp_path)
    damage(game / "train" / "0000")
    with pytest.raises(UserError, match=reason) as caught:
        import_store("authors", game, tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "color", "expected"),
    [
        ("L", 9, (9, 9, 9)),
        ("1", 1, (255, 255, 255)),
        ("P", 0, (0, 0, 0)),
        ("RGBA", (1, 2, 3, 255), (1, 2, 3)),
        ("LA", (5, 255), (5, 5, 5)),
    ],
)
def test_other_kinds_of_png_are_converted(
    tmp_path: Path, mode: str, color: int | tuple[int, ...], expected: tuple[int, ...]
) -> None:
    game = make_game(tmp_path)
    save(mode, color=color)(game / "train" / "0000")
    train, _ = import_store("authors", game, tmp_path / "out")
    assert (train[0].frames(2, 3) == expected).all()


def test_a_transparent_palette_is_refused(tmp_path: Path) -> None:
    game = make_game(tmp_path)
    Image.new("P", (6, 4)).save(game / "train/0000/00002.png", transparency=0)
    with pytest.raises(UserError, match=r"00002.png: transparent pixels \(alpha 0\)"):
        import_store("authors", game, tmp_path / "out")


def test_folders_that_are_no_game(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    game = make_game(tmp_path)
    with pytest.raises(UserError, match="empty: no episodes in it; expected train/ and test/"):
        import_store("authors", tmp_path / "empty", tmp_path / "out")
    with pytest.raises(UserError, match="file: no such folder"):
        import_store("authors", tmp_path / "file", tmp_path / "out")
    with pytest.raises(UserError, match="nowhere: no such file or folder"):
        import_store("authors", tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (game / "mean.binaryproto").write_bytes(b"\x08\x01\x10\x03\x18\x01\x20\x01\x2a\x0c" + bytes(12))
    with pytest.raises(UserError, match=r"mean.binaryproto: a mean image of 1×1 for frames of 4×6"):
        import_store("authors", game, tmp_path / "out")
    (game / "mean.binaryproto").write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"mean.binaryproto: cannot be read as a mean image"):
        import_store("authors", game, tmp_path / "out")


def test_two_stores_do_not_fit_into_one(tmp_path: Path) -> None:
    simple_store(tmp_path / "out", [2])
    with pytest.raises(UserError, match="out is a dataset itself, and train and test need a dataset each"):
        import_store("authors", make_game(tmp_path), tmp_path / "out")
