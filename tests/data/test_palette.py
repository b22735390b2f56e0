import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.data.frames import (
    PaletteEncoder,
    TooManyColorsError,
    colorize,
    merge_palettes,
    pack_colors,
    translation,
    unpack_colors,
)


def random_frames(seed: int, colors: int, count: int = 4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    palette = rng.integers(0, 256, (colors, 3)).astype(np.uint8)
    return palette[rng.integers(0, colors, (count, 5, 7))]


@given(seed=st.integers(0, 10**6), colors=st.integers(1, 256))
def test_encode_then_colorize_gives_the_frames_back(seed: int, colors: int) -> None:
    frames, encoder = random_frames(seed, colors), PaletteEncoder()
    indices = np.stack([encoder.encode(frame) for frame in frames])
    assert np.array_equal(colorize(indices, encoder.palette), frames)


@given(seed=st.integers(0, 10**6), colors=st.integers(1, 60))
def test_keys_give_the_same_code_as_colors(seed: int, colors: int) -> None:
    frames = random_frames(seed, colors)
    shuffled = np.random.default_rng(seed).permutation(256).astype(np.uint8)
    packed, keys = np.unique(pack_colors(frames), return_inverse=True)
    by_color, by_key = PaletteEncoder(), PaletteEncoder()
    for frame, key in zip(frames, shuffled[keys.reshape(frames.shape[:-1])], strict=True):
        assert np.array_equal(by_color.encode(frame), by_key.encode(frame, key))
    assert np.array_equal(by_color.palette, by_key.palette)
    assert len(packed) == len(by_key.palette)


def test_two_keys_of_one_color_share_an_index() -> None:
    frame, keys = np.full((1, 2, 3), 9, np.uint8), np.array([[4, 200]], np.uint8)
    encoder = PaletteEncoder()
    assert encoder.encode(frame, keys).tolist() == [[0, 0]]
    assert encoder.palette.tolist() == [[9, 9, 9]]


def test_a_new_episode_begins_with_an_empty_palette() -> None:
    first, second = random_frames(0, 5), random_frames(1, 5)
    used, fresh = PaletteEncoder(), PaletteEncoder()
    used.encode(first[0])
    used.reset()
    assert np.array_equal(used.encode(second[0]), fresh.encode(second[0]))
    assert np.array_equal(used.palette, fresh.palette)


def test_the_257th_color_is_refused() -> None:
    colors = unpack_colors(list(range(257))).reshape(1, 257, 3)
    encoder = PaletteEncoder()
    encoder.encode(colors[:, :256])
    with pytest.raises(TooManyColorsError):
        encoder.encode(colors)


def test_colors_are_numbered_as_they_appear_and_by_value_within_a_frame() -> None:
    encoder = PaletteEncoder()
    encoder.encode(unpack_colors([9, 5]).reshape(1, 2, 3))
    encoder.encode(unpack_colors([7, 1]).reshape(1, 2, 3))
    assert pack_colors(encoder.palette).tolist() == [5, 9, 1, 7]


def test_merged_palette_keeps_first_appearances_and_translates() -> None:
    a, b = unpack_colors([1, 2, 3]), unpack_colors([3, 4])
    merged = merge_palettes([a, b])
    assert pack_colors(merged).tolist() == [1, 2, 3, 4]
    assert translation(a, merged) is None
    table = translation(b, merged)
    assert table is not None
    assert list(table.table[:2]) == [2, 3]
    assert table.first_change == 0
    partly = translation(unpack_colors([1, 2, 4]), merged)
    assert partly is not None
    assert partly.first_change == 2
