"""Where colors can be, against frames looked at one by one."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.pixel.palette import REACHES, count_violations, find_mask
from tests.data.answers import color_store

pytestmark = pytest.mark.usefixtures("statistics_not_cached")

Colors = list[tuple[int, ...]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    folder: Path = tmp_path_factory.mktemp("places") / "s"
    return collect(CollectConfig(env_id="acvp/Toy-v0", out=folder, frames=1500, seed=3))


def colors_of(store: EpisodeStore) -> Colors:
    assert store.palette is not None
    return [tuple(color) for color in reversed(store.palette.tolist())]  # another order than the store's


def plain(store: EpisodeStore, colors: Colors) -> NDArray[np.bool_]:
    """Whether any frame has a color at a place, (N, H, W)."""
    frames = np.concatenate([episode.frames(0, len(episode)) for episode in store])
    return np.stack([(frames == np.array(color)).all(-1).any(0) for color in colors])


def test_a_color_can_be_where_it_was(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    colors = colors_of(store)
    for block in (2**24, 2**13):  # in one block, in many
        monkeypatch.setattr("acvp.data.statistics.BLOCK_BYTES", block)
        found = find_mask(store, store, colors)
        assert np.array_equal(found.mask, plain(store, colors))
        assert (found.reach, found.violations) == (0, 0.0)


def test_what_is_elsewhere_is_counted(store: EpisodeStore) -> None:
    colors, part = colors_of(store), store.subset([0])
    places = plain(part, colors)
    number = {color: i for i, color in enumerate(colors)}
    odd = [
        not places[number[tuple(pixel)], row, column]
        for episode in store
        for frame in episode.frames(0, len(episode))
        for row, line in enumerate(frame.tolist())
        for column, pixel in enumerate(line)
    ]
    assert count_violations(store, colors, places) == pytest.approx(sum(odd) / store.frames)
    assert sum(odd) > 0


def test_the_held_out_part_decides_how_far_a_color_reaches(
    store: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    colors, train, held_out = colors_of(store), store.subset([0]), store.subset(list(range(1, len(store))))
    seen = plain(train, colors)
    odd = {}
    for reach in range(max(REACHES) + 1):
        odd[reach] = count_violations(held_out, colors, seen)
        if reach in REACHES:
            monkeypatch.setattr("acvp.pixel.palette.MOST_VIOLATIONS", odd[reach])
            found = find_mask(train, held_out, colors)
            assert (found.reach, found.violations) == (reach, odd[reach])
            assert np.array_equal(found.mask, seen)
        seen = wider(seen)
    assert odd[0] > odd[1] > odd[2] > odd[4] > odd[8] > 0
    monkeypatch.setattr("acvp.pixel.palette.MOST_VIOLATIONS", odd[8] / 2)
    found = find_mask(train, held_out, colors)
    assert found.reach is None
    assert found.mask.all()


def wider(places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Places and their eight neighbors."""
    padded = np.pad(places, ((0, 0), (1, 1), (1, 1)))
    height, width = places.shape[1:]
    shifts = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.asarray(np.stack(shifts).any(0))


def test_colors_that_are_not_the_stores_can_be_anywhere(store: EpisodeStore) -> None:
    found = find_mask(store, store, colors_of(store)[1:])
    assert found.reach is None
    assert found.mask.all()


def test_a_color_that_only_the_held_out_part_has_is_odd_wherever_it_is(tmp_path: Path) -> None:
    black, red = (0, 0, 0), (200, 0, 0)
    store = color_store(tmp_path / "s", [[black, red], [red, black, (0, 9, 0), red]])
    train, held_out = store.subset([0]), store.subset([1])
    found = find_mask(train, held_out, [red, black])
    assert (found.reach, found.violations) == (None, 0.0)  # a quarter of all pixels is too many
    places = np.ones((2, 6, 8), np.bool_)
    assert count_violations(held_out, [red, black], places) == 6 * 8 / 4
    assert count_violations(train, [red, black], places) == 0
