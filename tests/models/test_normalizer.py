"""The one converter is exact both ways and clamps only on the way out."""

import pytest
import torch

from acvp.models import FrameError, InputTypeError, Normalizer
from tests.models.small_predictors import seeded

SHAPE = (4, 5, 3)


def normalizer(scale: float) -> Normalizer:
    """Return a normalizer with a random mean image."""
    made = Normalizer(SHAPE, scale)
    made.set_mean(torch.rand(SHAPE, generator=seeded(0)) * 255)
    return made


@pytest.mark.parametrize("scale", [255.0, 128.0])
def test_every_pixel_value_comes_back(scale: float) -> None:
    converter = normalizer(scale)
    frames = torch.arange(256).to(torch.uint8)[:, None, None, None].expand(256, *SHAPE).unsqueeze(0)
    floats = converter.to_float(frames)
    assert floats.shape == (1, 256, 3, 4, 5)
    torch.testing.assert_close(floats[0, 7, 2, 3, 4], (7 - converter.mean[3, 4, 2]) / scale)
    assert torch.equal(converter.to_uint8(floats), frames)


def test_floats_are_channels_last_in_memory() -> None:
    floats = normalizer(255.0).to_float(torch.zeros(2, *SHAPE, dtype=torch.uint8))
    assert floats.is_contiguous(memory_format=torch.channels_last)


def test_palette_gives_what_its_colors_give() -> None:
    converter = normalizer(255.0)
    palette = torch.randint(0, 256, (9, 3), generator=seeded(1)).to(torch.uint8)
    indices = torch.randint(0, 9, (2, 6, 4, 5), generator=seeded(2)).to(torch.uint8)
    torch.testing.assert_close(
        converter.palette_to_float(indices, palette), converter.to_float(palette[indices.long()])
    )


def test_output_is_rounded_and_clamped() -> None:
    converter = Normalizer((1, 1, 1), 255.0)
    values = torch.tensor([-3.0, 9.4, 9.6, 300.0]).view(4, 1, 1, 1) / 255
    assert converter.to_uint8(values).flatten().tolist() == [0, 9, 10, 255]


def test_bad_input_is_refused_with_shapes() -> None:
    converter, palette = normalizer(255.0), torch.zeros(3, 3, dtype=torch.uint8)
    with pytest.raises(InputTypeError, match="float32"):
        converter.to_float(torch.zeros(1, *SHAPE))
    with pytest.raises(FrameError, match=r"\(1, 3, 4, 5\)"):
        converter.to_float(torch.zeros(1, 3, 4, 5, dtype=torch.uint8))
    with pytest.raises(FrameError, match=r"\(5, 4, 3\)"):
        converter.set_mean(torch.zeros(5, 4, 3))
    with pytest.raises(InputTypeError, match="int64"):
        converter.palette_to_float(torch.zeros(4, 5, dtype=torch.int64), palette)
    with pytest.raises(FrameError, match=r"\(5, 4\)"):
        converter.palette_to_float(torch.zeros(5, 4, dtype=torch.uint8), palette)
    with pytest.raises(FrameError, match="index 3 in a palette of 3"):
        converter.palette_to_float(torch.full((4, 5), 3, dtype=torch.uint8), palette)
