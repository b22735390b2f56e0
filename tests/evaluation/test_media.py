"""Videos, strips and crops: the right number of pictures, crisp pixels, a border that changes."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageSequence

from acvp.data.replay import find_positions
from acvp.data.windows import WindowStart
from acvp.errors import UserError
from acvp.evaluation.config import parse_crop, strip_steps
from acvp.evaluation.media import Clip, check_crop, check_format, crop_strip, gif, mp4, record_clip, strip
from acvp.evaluation.windows import HeldOutPart
from acvp.figures import BORDER, GAP, GIVEN, LINE, PREDICTED, VIDEO_HEIGHT, even_scale
from tests.evaluation.predictors import Oracle, as_model, small_network

CONTEXT, STEPS = 10, 6
TOLERANCE = 24
"""Pixel values by which H.264 may change a color."""


@pytest.fixture(scope="module")
def clip(toy_part: HeldOutPart) -> Clip:
    store = toy_part.store
    models = [as_model("oracle", Oracle(store)), as_model("net", small_network(store))]
    start = WindowStart(2, 15)
    positions = find_positions(store, [start], CONTEXT + STEPS)
    return record_clip(models, store, start, context=CONTEXT, steps=STEPS, positions=positions)


def decoded(data: bytes) -> list[NDArray[np.uint8]]:
    with av.open(io.BytesIO(data)) as container:
        frames = container.decode(video=0)  # type: ignore[union-attr]
        return [frame.to_ndarray(format="rgb24").astype(np.uint8) for frame in frames]


def close(pixel: NDArray[np.uint8], color: tuple[int, int, int]) -> bool:
    return bool((np.abs(pixel.astype(int) - color) <= TOLERANCE).all())


def test_a_clip_knows_its_steps(clip: Clip, toy_part: HeldOutPart) -> None:
    episode = toy_part.store[2]
    assert clip.steps == STEPS
    assert np.array_equal(clip.frame(1), episode.frames(25, 26)[0])
    assert np.array_equal(clip.predictions["oracle"], episode.frames(25, 31))
    assert clip.action(1) == toy_part.store.info.action_meanings[episode.actions[24]]
    left, top, right, bottom = clip.box(1) or (0, 0, 0, 0)
    player = np.argwhere((clip.frame(1) == 240).all(-1))  # white
    assert (player >= [top, left]).all()
    assert (player <= [bottom, right]).all()


def test_mp4_has_every_frame_and_a_border_that_changes(clip: Clip) -> None:
    frames = decoded(mp4(clip))
    assert len(frames) == CONTEXT + STEPS
    across = 24 * even_scale(24, VIDEO_HEIGHT) + 2 * BORDER + GAP
    row, column = 2 * LINE + 40, GAP + across + BORDER // 2  # inside the left border of the first prediction
    borders = [frame[row, column] for frame in frames]
    assert all(close(border, GIVEN) for border in borders[:CONTEXT])
    assert all(close(border, PREDICTED) for border in borders[CONTEXT:])


def test_mp4_keeps_single_pixels(clip: Clip) -> None:
    """Every pixel of the game, sprites included, comes back in its color."""
    scale = even_scale(24, VIDEO_HEIGHT)
    top, left = 2 * LINE + BORDER, GAP + BORDER
    speckled = clip.truth.copy()
    speckled[:, 5, 7], speckled[:, 9, 9] = (255, 0, 0), (0, 0, 255)
    changed = Clip(title="", truth=speckled, predictions={}, actions=clip.actions, context=CONTEXT, boxes=clip.boxes)
    for number in (0, CONTEXT):
        frame = decoded(mp4(changed))[number]
        panel = frame[top : top + 24 * scale, left : left + 24 * scale]
        centers = panel[scale // 2 :: scale, scale // 2 :: scale]
        assert np.abs(centers.astype(int) - speckled[number]).max() <= TOLERANCE


def test_gif_has_every_frame(clip: Clip) -> None:
    pictures = [frame.convert("RGB") for frame in ImageSequence.Iterator(Image.open(io.BytesIO(gif(clip))))]
    assert len(pictures) == CONTEXT + STEPS
    across = 24 * 7 + 2 * BORDER + GAP
    start = (GAP + across + BORDER // 2, 2 * LINE + 40)
    given, predicted = (np.array(pictures[k].getpixel(start)) for k in (0, -1))
    assert close(given, GIVEN)
    assert close(predicted, PREDICTED)


@pytest.mark.slow
def test_the_same_clip_gives_the_same_files(clip: Clip) -> None:
    assert mp4(clip) == mp4(clip)
    assert strip(clip, (1, 2)) == strip(clip, (1, 2))


def test_strips_have_a_row_for_each_step(clip: Clip) -> None:
    few, more = (Image.open(io.BytesIO(strip(clip, steps))) for steps in ((1, 2), (1, 2, 5, 6)))
    assert more.width == few.width
    assert more.height > 1.9 * few.height - 30


def test_crops_enlarge_the_right_pixels(clip: Clip) -> None:
    crop = parse_crop("3x4+8+8")
    picture = np.asarray(Image.open(io.BytesIO(crop_strip(clip, (1, 3), crop))))
    scale = 14  # 112 / 8
    truth = picture[2 * LINE + 2 * (8 * scale + 6) :, 2 * 76 :][: 8 * scale, : 8 * scale]
    assert np.array_equal(truth[scale // 2 :: scale, scale // 2 :: scale], clip.frame(1)[3:11, 4:12])


@pytest.mark.parametrize("text", ["", "3x4", "3x4+0+5", "a", "3,4,5,6"])
def test_bad_crops_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="ROWxCOL"):
        parse_crop(text)


def test_a_crop_outside_the_frame_is_refused() -> None:
    with pytest.raises(UserError, match="leaves the frame of 24×24"):
        check_crop(parse_crop("20x0+8+8"), 24, 24)


def test_strip_steps() -> None:
    assert strip_steps("1-3,9", 10) == (1, 2, 3, 9)
    assert strip_steps(None, 180) == (*range(1, 8), *range(174, 181))
    assert strip_steps(None, 3) == (1, 2, 3)
    for text in ("0-3", "5-11", "x", "3-1"):
        with pytest.raises(UserError, match="--strip"):
            strip_steps(text, 10)


def test_a_missing_encoder_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av, "codecs_available", set())
    with pytest.raises(UserError, match=r"without the H.264 encoder.*--video-formats gif"):
        check_format("mp4")
    check_format("gif")
