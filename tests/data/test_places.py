"""Where colours can be, against frames looked at one by one."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.data.places import MOST_ODD, REACHES, odd_pixels, places_of
from acvp.data.store import EpisodeStore

Colours = list[tuple[int, ...]]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    folder: Path = tmp_path_factory.mktemp("places") / "s"
    return collect(CollectConfig(env_id="acvp/Toy-v0", out=folder, frames=1500, seed=3))


def colours_of(store: EpisodeStore) -> Colours:
    assert store.palette is not None
    return [tuple(colour) for colour in reversed(store.palette.tolist())]  # another order than the store's


def plain(store: EpisodeStore, colours: Colours) -> NDArray[np.bool_]:
    """Whether any frame has a colour at a place, (N, H, W)."""
    frames = np.concatenate([episode.frames(0, len(episode)) for episode in store])
    return np.stack([(frames == np.array(colour)).all(-1).any(0) for colour in colours])


def test_a_colour_can_be_where_it_was(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = colours_of(store)
    for block in (2**24, 2**13):  # in one block, in many
        monkeypatch.setattr("acvp.data.changes.BLOCK_BYTES", block)
        assert np.array_equal(places_of(store, store, colours), plain(store, colours))


def test_what_is_elsewhere_is_counted(store: EpisodeStore) -> None:
    colours, part = colours_of(store), store.subset([0])
    places = plain(part, colours)
    number = {colour: i for i, colour in enumerate(colours)}
    odd = [
        not places[number[tuple(pixel)], row, column]
        for episode in store
        for frame in episode.frames(0, len(episode))
        for row, line in enumerate(frame.tolist())
        for column, pixel in enumerate(line)
    ]
    assert odd_pixels(store, colours, places) == pytest.approx(sum(odd) / store.frames)
    assert sum(odd) > 0


@pytest.mark.parametrize("most", [0.0, 0.05, 1.0])
def test_the_held_out_part_decides_how_far_a_colour_reaches(
    store: EpisodeStore, monkeypatch: pytest.MonkeyPatch, most: float
) -> None:
    colours, train, held_out = colours_of(store), store.subset([0]), store.subset(list(range(1, len(store))))
    monkeypatch.setattr("acvp.data.places.MOST_ODD", most)
    found, seen = places_of(train, held_out, colours), plain(train, colours)
    assert found[seen].all()
    assert odd_pixels(held_out, colours, found) <= most
    if not found.all():
        narrower = seen
        for _ in range(max(REACHES)):  # every step further was needed
            if np.array_equal(narrower, found):
                break
            assert odd_pixels(held_out, colours, narrower) > most
            narrower = wider(narrower)
        assert np.array_equal(narrower, found)


def wider(places: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Places and their eight neighbours."""
    padded = np.pad(places, ((0, 0), (1, 1), (1, 1)))
    height, width = places.shape[1:]
    shifts = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
    return np.asarray(np.stack(shifts).any(0))


def test_a_small_store_forbids_nothing(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.data.places.REACHES", ())
    assert places_of(store, store, colours_of(store)).all()
    assert MOST_ODD < 1  # what is forbidden wrongly costs less than a pixel of a frame
