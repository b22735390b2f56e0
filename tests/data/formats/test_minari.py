"""Minari: what it opens itself, datasets of others, and what is refused."""

import json
from pathlib import Path
from typing import Any

import minari
import numpy as np
import pytest
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_storage import MinariStorage

from acvp.data.formats import export_store, import_store
from acvp.data.formats.minari import default_id
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from tests.data.formats.stores import simple_store

PIXELS = np.random.default_rng(0).integers(0, 256, (4, 40, 36, 3), np.uint8)


def make_dataset(
    folder: Path, observation: Any, action: Any, episodes: list[dict[str, Any]], jpeg: bool = False
) -> Path:
    data = folder / "data"
    data.mkdir(parents=True)
    storage = MinariStorage.new(data, observation_space=observation, action_space=action, jpeg_encoding=jpeg)
    storage.update_metadata({"dataset_id": "others/thing-v1", "minari_version": minari.__version__})
    storage.update_episodes([EpisodeBuffer(**episode) for episode in episodes])
    return folder


def images() -> spaces.Box:
    return spaces.Box(0, 255, PIXELS.shape[1:], np.uint8)


def steps(observations: Any, actions: Any) -> dict[str, Any]:
    flags = [False] * len(actions)
    return {
        "observations": observations,
        "actions": actions,
        "rewards": [1.0] * len(actions),
        "terminations": flags,
        "truncations": flags,
    }


def test_minari_opens_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = simple_store(tmp_path / "store", [5, 1, 70])
    export_store("minari", store, tmp_path / "root", dataset_id="acvp/games/freeway-v3")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    assert list(minari.list_local_datasets()) == ["acvp/games/freeway-v3"]
    dataset = minari.load_dataset("acvp/games/freeway-v3")
    assert (dataset.total_episodes, dataset.total_steps) == (2, 73)
    assert dataset.storage.metadata["jpeg_encoding"] is False
    assert [one["total_steps"] for one in dataset.storage.get_episode_metadata([0, 1])] == [4, 69]
    for mine, theirs in zip((store[0], store[2]), dataset.iterate_episodes(), strict=True):
        assert np.array_equal(theirs.observations, mine.frames())
        assert np.array_equal(theirs.actions, mine.actions)
        assert np.array_equal(theirs.rewards, mine.rewards)
        assert theirs.terminations.tolist() == [False] * (len(mine) - 2) + [True]
        assert not theirs.truncations.any()
        assert np.array_equal(theirs.infos["lives"], mine.lives)


def test_a_dataset_is_found_by_its_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = simple_store(tmp_path / "store", [5])
    export_store("minari", store, tmp_path / "root")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "root"))
    (back,) = import_store("minari", Path("acvp/some_game-v5"), tmp_path / "back")
    assert back[0].header.content == store[0].header.content


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [("ALE/Freeway-v5", "acvp/freeway-v5"), ("My Game!", "acvp/my-game-v0"), ("…", "acvp/episodes-v0")],
)
def test_ids_from_names(tmp_path: Path, env_id: str, expected: str) -> None:
    store = simple_store(tmp_path / "store", [2])
    object.__setattr__(store.info, "env_id", env_id)
    assert default_id(store) == expected


def test_a_jpeg_dataset_of_others(tmp_path: Path) -> None:
    """Its frames were corrupted when it was made; they are taken as they are."""
    folder = make_dataset(tmp_path / "set", images(), spaces.Discrete(5), [steps(PIXELS, [0, 3, 1])], jpeg=True)
    (store,) = import_store("minari", folder, tmp_path / "out")
    assert (store.info.env_id, store.action_count) == ("others/thing-v1", 5)
    assert store[0].actions.tolist() == [0, 3, 1]
    assert store[0].palette is None
    assert store[0].frames().shape == PIXELS.shape
    assert (store[0].header.terminated, store[0].header.truncated) == (False, False)


GOOD = steps(PIXELS, [0, 1, 2])
WRONG: dict[str, tuple[Any, Any, list[dict[str, Any]], str]] = {
    "vectors": (
        spaces.Box(-1, 1, (4,), np.float32),
        spaces.Discrete(3),
        [steps(np.zeros((3, 4), np.float32), [0, 1])],
        r"its observations are Box \(4,\) float32, not images",
    ),
    "dict": (
        spaces.Dict({"image": images()}),
        spaces.Discrete(3),
        [steps({"image": PIXELS}, [0, 1, 2])],
        "its observations are Dict .*, not images",
    ),
    "continuous": (
        images(),
        spaces.Box(-np.inf, 1, (2,), np.float32),
        [steps(PIXELS, np.zeros((3, 2), np.float32))],
        r"its actions are Box.*; expected Discrete",
    ),
    "from 1": (images(), spaces.Discrete(3, start=1), [GOOD], r"its actions are Discrete\(3, start=1\)"),
    "out of range": (images(), spaces.Discrete(2), [GOOD], "episode 0 has action 2, its space ends at 1"),
    "negative": (images(), spaces.Discrete(3), [steps(PIXELS, [0, -1, 2])], "episode 0, step 1: action -1 is out of"),
    "few frames": (images(), spaces.Discrete(3), [steps(PIXELS[:3], [0, 1, 2])], "episode 0: 3 frames for 3 actions"),
    "no episodes": (images(), spaces.Discrete(3), [], "without episodes"),
}


@pytest.mark.parametrize(("observation", "action", "episodes", "reason"), WRONG.values(), ids=WRONG.keys())
def test_bad_datasets_are_named(
    tmp_path: Path, observation: Any, action: Any, episodes: list[dict[str, Any]], reason: str
) -> None:
    folder = make_dataset(tmp_path / "set", observation, action, episodes)
    with pytest.raises(UserError, match=reason) as caught:
        import_store("minari", folder, tmp_path / "out")
    assert str(caught.value).startswith(str(folder))
    assert "\n" not in str(caught.value)


def test_damaged_and_missing_datasets(tmp_path: Path) -> None:
    folder = make_dataset(tmp_path / "set", images(), spaces.Discrete(3), [GOOD])
    with pytest.raises(UserError, match="no Minari dataset in that folder, nor of that id"):
        import_store("minari", tmp_path / "nowhere", tmp_path / "out")
    metadata = folder / "data" / "metadata.json"
    told = json.loads(metadata.read_text())
    metadata.write_text(json.dumps({k: v for k, v in told.items() if k != "action_space"} | {"env_spec": "{}"}))
    with pytest.raises(UserError, match="its metadata has no spaces"):
        import_store("minari", folder, tmp_path / "out")
    metadata.write_text("{")
    with pytest.raises(UserError, match="cannot be read as a Minari dataset"):
        import_store("minari", folder, tmp_path / "out")
    metadata.write_text(json.dumps(told))
    (folder / "data" / "main_data.hdf5").write_bytes(b"nothing")
    with pytest.raises(UserError, match="cannot be read as a Minari dataset"):
        import_store("minari", folder, tmp_path / "out")


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no episode has an action"):
        export_store("minari", simple_store(tmp_path / "one", [1]), tmp_path / "root")
    store: EpisodeStore = simple_store(tmp_path / "two", [2])
    for wrong in ("no version", "../up-v0", "plain"):
        with pytest.raises(UserError, match=r"dataset id .*: expected something like acvp/freeway-v0"):
            export_store("minari", store, tmp_path / "root", dataset_id=wrong)
    export_store("minari", store, tmp_path / "root", dataset_id="ab/cd-v0")
    with pytest.raises(UserError, match=r"d-v0 exists already and is not empty"):
        export_store("minari", store, tmp_path / "root", dataset_id="ab/cd-v0")


@pytest.mark.parametrize("jpeg", [True, False])
def test_lossy_frames_get_a_note(tmp_path: Path, jpeg: bool) -> None:
    flat = np.full_like(PIXELS, 90)
    source = make_dataset(tmp_path / "source", images(), spaces.Discrete(3), [steps(list(flat), [0, 1, 2])], jpeg)
    notes: list[str] = []
    import_store("minari", source, tmp_path / "out", note=notes.append)
    assert [("JPEG" in note) for note in notes] == [True] * jpeg
