"""Out and in again: equal content for every format, and whatever else the format keeps."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings

from acvp.data.episode import Episode
from acvp.data.formats import FORMATS, export_store, import_store
from acvp.data.store import EpisodeStore
from acvp.data.verify import verify
from tests.data.formats.stores import INFO, MEANINGS, Plan, answer_of, make_store, simple_store, store_plans

KEEPS_SEEDS = {"npz", "minari"}
KEEPS_NAMES = KEEPS_SEEDS | {"datasets", "lerobot"}
KEEPS_REWARDS = KEEPS_NAMES | {"video"}
KEEPS_ENDS = KEEPS_NAMES


def there_and_back(format: str, planned: list[Plan], folder: Path) -> tuple[EpisodeStore, EpisodeStore]:
    before = make_store(folder / "before", planned)
    export_store(format, before, folder / "game")
    source = folder / "game" / "acvp/some_game-v5" if format == "minari" else folder / "game"
    (after,) = import_store(format, source, folder / "after", actions=None if format in KEEPS_NAMES else MEANINGS)
    return before, after


def check_episode(format: str, before: Episode, after: Episode) -> None:
    assert after.header.content == before.header.content
    assert after.header.opening == before.header.opening
    if format in KEEPS_REWARDS:
        assert np.array_equal(before.rewards, after.rewards)
    else:
        assert not after.rewards.any()
    if format in KEEPS_SEEDS:
        assert after.header.seed == before.header.seed
        assert np.array_equal(before.lives, after.lives)
    if format in KEEPS_ENDS and len(before) > 1:
        assert (after.header.terminated, after.header.truncated) == (before.header.terminated, before.header.truncated)
    elif format not in KEEPS_ENDS:
        assert (after.header.terminated, after.header.truncated) == (False, True)


def check(format: str, planned: list[Plan]) -> None:
    with TemporaryDirectory() as folder:
        before, after = there_and_back(format, planned, Path(folder))
        kept = [episode for episode in before if len(episode) > 1 or format != "minari"]
        assert len(after) == len(kept)
        for old, new in zip(kept, after, strict=True):
            check_episode(format, old, new)
            answers = [answer_of(frame) for frame in new.frames()]
            assert answers == [(old.header.number, i) for i in range(len(old))]
        assert after.info.action_meanings == MEANINGS
        assert after.info.policy == f"imported from {format}"
        assert after.info.env_id == (INFO.env_id if format in KEEPS_NAMES else "game")


@pytest.mark.slow
@pytest.mark.parametrize("format", ["authors", "npz", "video"])
@settings(max_examples=25)
@given(planned=store_plans)
def test_round_trip(format: str, planned: list[Plan]) -> None:
    check(format, planned)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["datasets", "lerobot"])
@settings(max_examples=10)
@given(planned=store_plans)
def test_round_trip_of_tables(format: str, planned: list[Plan]) -> None:
    check(format, planned)


@settings(max_examples=10)
@given(planned=store_plans.filter(lambda planned: any(plan.frames > 1 for plan in planned)))
def test_minari_round_trip(planned: list[Plan]) -> None:
    check("minari", planned)


@pytest.mark.slow
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("frames", [64, 65, 66, 200])
def test_long_episodes_go_in_pieces(format: str, frames: int) -> None:
    check(format, [Plan(frames, True, False, False, 1), Plan(3, False, True, True, 2)])


@pytest.mark.parametrize("format", FORMATS)
def test_progress_counts_every_frame(format: str, tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [70, 2])
    out, back = list[tuple[int, int]](), list[tuple[int, int]]()
    export_store(format, store, tmp_path / "out", progress=lambda *told: out.append(told))
    source = tmp_path / "out" / ("acvp/some_game-v5" if format == "minari" else "")
    (after,) = import_store(format, source, tmp_path / "back", progress=lambda *told: back.append(told))
    for told in (out, back):
        assert told[-1] == (72, 72)
        assert told == sorted(told)
    assert verify(after.path) == []


@pytest.mark.parametrize("format", ["authors", "datasets", "lerobot", "npz", "minari"])
def test_equal_stores_give_equal_files(format: str, tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [3, 20])
    for name in ("a", "b"):
        export_store(format, store, tmp_path / name)
    first, second = ({f.relative_to(tmp_path / n): f for f in (tmp_path / n).rglob("*")} for n in ("a", "b"))
    assert first.keys() == second.keys()
    for relative, file in first.items():
        assert file.is_dir() or file.read_bytes() == second[relative].read_bytes(), relative
