"""Videos: exact ones, lossy ones, and files that are none."""

from pathlib import Path

import av
import numpy as np
import pytest

from acvp.data.formats import export_store, import_store
from acvp.errors import UserError
from tests.data.formats.stores import simple_store


def make_video(file: Path, frames: int, codec: str = "ffv1", pixels: str = "bgr0", side: int = 32) -> Path:
    with av.open(str(file), "w") as container:
        stream = container.add_stream(codec, rate=15)
        assert isinstance(stream, av.VideoStream)
        stream.width = stream.height = side
        stream.pix_fmt = pixels
        for i in range(frames):
            ramp = np.add.outer(np.arange(side), np.arange(side))[..., None] * (1, 2, 3) + i
            container.mux(stream.encode(av.VideoFrame.from_ndarray(ramp.astype(np.uint8), format="rgb24")))
        container.mux(stream.encode())
    return file


def write_table(video: Path, text: str) -> None:
    video.with_suffix(".csv").write_text(text)


def test_an_exported_video_is_exact_and_its_table_plain(tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [3])
    export_store("video", store, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["episode_000000.csv", "episode_000000.mkv"]
    with av.open(str(tmp_path / "out" / "episode_000000.mkv")) as container:
        frames = np.stack([frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)])
    assert np.array_equal(frames, store[0].frames())
    lines = (tmp_path / "out" / "episode_000000.csv").read_text().splitlines()
    assert lines[0] == "action,reward"
    assert [int(line.split(",")[0]) for line in lines[1:]] == store[0].actions.tolist()
    assert [np.float32(line.split(",")[1]) for line in lines[1:]] == store[0].rewards.tolist()


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (210, 160)])
def test_noise_of_any_size_is_exact(tmp_path: Path, shape: tuple[int, int]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (6, *shape, 3), np.uint8)
    np.savez(tmp_path / "noise.npz", frames=noise, actions=np.arange(5))
    (store,) = import_store("npz", tmp_path / "noise.npz", tmp_path / "store")
    export_store("video", store, tmp_path / "out")
    (back,) = import_store("video", tmp_path / "out", tmp_path / "back")
    assert np.array_equal(back[0].frames(), noise)


def test_a_lossy_video_becomes_rgb(tmp_path: Path) -> None:
    video = make_video(tmp_path / "play.mp4", 4, "mpeg4", "yuv420p")
    write_table(video, "action\n1\n0\n2\n")
    notes: list[str] = []
    (store,) = import_store("video", video, tmp_path / "out", note=notes.append)
    assert notes[0].startswith("play.mp4: its codec mpeg4 (yuv420p) is lossy")
    assert "has over 256 colors" in notes[1]
    assert (store.info.env_id, store.info.action_meanings) == ("play", ("0", "1", "2"))
    assert store[0].actions.tolist() == [1, 0, 2]
    assert store[0].palette is None
    assert not store[0].rewards.any()


def test_a_folder_of_videos(tmp_path: Path) -> None:
    for name, frames in (("play-3", 2), ("play-11", 3)):
        write_table(
            make_video(tmp_path / f"{name}.mkv", frames), "Action, Reward\n" + "1, -0.5\n" * (frames - 1) + "\n"
        )
    (tmp_path / "notes.txt").touch()
    (store,) = import_store("video", tmp_path, tmp_path / "out")
    assert [(e.header.number, len(e)) for e in store] == [(3, 2), (11, 3)]
    assert store[1].rewards.tolist() == [-0.5, -0.5]


TABLES = {
    "missing": (None, r"play.mkv: no play.csv beside it"),
    "empty": ("", r"play.csv: its first line is ''; expected names of columns, one of them `action`"),
    "no header": ("1\n0\n2\n", r"its first line is '1'"),
    "other columns": ("reward,move\n1,1\n", r"its first line is 'reward,move'"),
    "two columns of one name": ("action,action\n1,1\n", r"its first line is 'action,action'"),
    "word": ("action\n1\nleft\n2\n", r"play.csv: line 3 is 'left'; expected a whole number"),
    "columns": ("action,reward\n1,1\n1\n1,1\n", r"line 3 is '1'; expected a whole number and a reward"),
    "reward": ("action,reward\n1,1\n1,much\n1,1\n", r"line 3 is '1,much'"),
    "negative": ("action\n1\n-1\n2\n", r"line 3: action -1 is out of range"),
    "short": ("action\n1\n2\n", r"play.mkv: over 3 frames for 2 actions; 2 actions need 3"),
    "long": ("action\n1\n2\n1\n2\n", r"play.mkv: 4 frames for 4 actions; 4 actions need 5 frames"),
    "quote": ('action\n"1\n', r"play.csv: cannot be read as a table"),
}


@pytest.mark.parametrize(("table", "reason"), TABLES.values(), ids=TABLES.keys())
def test_bad_tables_are_named(tmp_path: Path, table: str | None, reason: str) -> None:
    video = make_video(tmp_path / "play.mkv", 4)
    if table is not None:
        write_table(video, table)
    with pytest.raises(UserError, match=reason) as caught:
        import_store("video", video, tmp_path / "out")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"", b"no video at all", b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nother.mkv\n#EXT-X-ENDLIST\n"]
)
def test_files_that_are_no_video(tmp_path: Path, data: bytes) -> None:
    make_video(tmp_path / "other.mkv", 4)
    video = tmp_path / "play.mkv"
    video.write_bytes(data)
    write_table(video, "action\n1\n0\n2\n")
    with pytest.raises(UserError, match=r"play.mkv: cannot be read as a video"):
        import_store("video", video, tmp_path / "out")


def test_a_list_of_files_opens_no_other_file(tmp_path: Path) -> None:
    make_video(tmp_path / "other.mkv", 4)
    video = tmp_path / "play.mkv"
    video.write_text("ffconcat version 1.0\nfile other.mkv\n")
    write_table(video, "action\n1\n0\n2\n")
    with pytest.raises(UserError, match=r"play.mkv: "):
        import_store("video", video, tmp_path / "out")


def test_a_cut_video_is_refused(tmp_path: Path) -> None:
    video = make_video(tmp_path / "play.mkv", 40)
    write_table(video, "action\n" + "1\n" * 39)
    video.write_bytes(video.read_bytes()[:-20000])
    with pytest.raises(UserError, match=r"play.mkv: "):
        import_store("video", video, tmp_path / "out")


def test_folders_without_pairs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no video files there"):
        import_store("video", tmp_path, tmp_path / "out")
    (tmp_path / "lost.csv").write_text("action\n")
    with pytest.raises(UserError, match=r"lost.csv has no video of its name beside it"):
        import_store("video", tmp_path, tmp_path / "out")


def test_frames_of_two_sizes(tmp_path: Path) -> None:
    for name, side in (("a", 32), ("b", 16)):
        write_table(make_video(tmp_path / f"{name}.mkv", 2, side=side), "action\n0\n")
    with pytest.raises(UserError, match=r"b.mkv: frame 0 is 16×16, the first one of all is 32×32"):
        import_store("video", tmp_path, tmp_path / "out")


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    video = make_video(tmp_path / "play.mkv", 3, side=4)
    write_table(video, "frame, Reward ,note,ACTION\n0,1.5,start,2\n1,-1,,0\n")
    notes: list[str] = []
    (store,) = import_store("video", video, tmp_path / "out", note=notes.append)
    assert store[0].actions.tolist() == [2, 0]
    assert store[0].rewards.tolist() == [1.5, -1.0]
    assert notes == []  # FFV1 in RGB, and few colors: nothing is lost
