"""The metrics against what they must give: truth is perfect, closed forms, and other people's implementations."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torchmetrics.functional.image import peak_signal_noise_ratio, structural_similarity_index_measure

from acvp.evaluation.metrics import FrameMetrics, Ssim
from acvp.models.pixels import WrongPixels, as_pixels

PALETTE = np.array([[0, 0, 0], [200, 40, 40], [210, 40, 40], [255, 255, 255]], np.uint8)


def frames(seed: int, count: int = 3, size: tuple[int, int] = (20, 16)) -> NDArray[np.uint8]:
    """Random frames of four colors."""
    return PALETTE[np.random.default_rng(seed).integers(4, size=(count, *size))]


@pytest.fixture
def metrics() -> FrameMetrics:
    return FrameMetrics((20, 16, 3), gray=False, palette=PALETTE)


def test_truth_against_truth_is_perfect(metrics: FrameMetrics) -> None:
    values = metrics.measure(metrics.step(frames(1), frames(2)), as_pixels(frames(1)))
    wanted = {"error": 0, "mse": 0, "psnr": 60, "ssim": 1, "wrong_pixels": 0, "moving_mse": 0}
    assert values.keys() == wanted.keys()
    for name, value in wanted.items():
        np.testing.assert_allclose(values[name], value, atol=1e-6, err_msg=name)


def test_errors_are_what_numpy_says(metrics: FrameMetrics) -> None:
    truth, predicted, before = frames(1), frames(2), frames(3)
    apart = np.square(predicted.astype(float) - truth)
    moved = (truth != before).any(-1)
    values = metrics.measure(metrics.step(truth, before), as_pixels(predicted))
    np.testing.assert_allclose(values["error"], apart.sum((1, 2, 3)) / 255**2)
    np.testing.assert_allclose(values["mse"], apart.mean((1, 2, 3)))
    np.testing.assert_allclose(
        values["moving_mse"], [a[m].mean() for a, m in zip(apart, moved, strict=True)], rtol=1e-6
    )
    np.testing.assert_allclose(values["wrong_pixels"], (predicted != truth).any(-1).sum((1, 2)))


def test_gray_errors_are_in_128ths() -> None:
    metrics = FrameMetrics((4, 4, 1), gray=True, palette=None)
    truth = np.zeros((1, 4, 4, 1), np.uint8)
    values = metrics.measure(metrics.step(truth, truth), torch.full((1, 1, 4, 4), 64.0))
    assert values["error"] == pytest.approx([16 * 0.25])
    assert np.isnan(values["moving_mse"]).all()  # nothing moved


@pytest.mark.parametrize("size", [(20, 16), (84, 84), (11, 30)])
def test_psnr_and_ssim_agree_with_torchmetrics(size: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(1)
    truth = torch.rand(2, 3, *size, generator=generator) * 255
    predicted = (truth + 40 * torch.randn(truth.shape, generator=generator)).clamp(0, 255)
    ssim = Ssim(*size)
    ours = ssim.compare(ssim.blur(predicted), ssim.blur(truth))
    theirs = structural_similarity_index_measure(predicted, truth, data_range=255.0, reduction="none")
    np.testing.assert_allclose(ours, theirs, atol=2e-5)
    for p, t in zip(predicted, truth, strict=True):
        wanted = float(peak_signal_noise_ratio(p, t, data_range=255.0))
        mse = float((p - t).square().mean())
        assert 10 * np.log10(255**2 / mse) == pytest.approx(wanted, rel=1e-5)


def test_ssim_of_frames_smaller_than_its_window() -> None:
    ssim, picture = Ssim(6, 8), torch.rand(2, 3, 6, 8) * 255
    np.testing.assert_allclose(ssim.compare(ssim.blur(picture), ssim.blur(picture)), 1)


def test_wrong_pixels_by_nearest_color() -> None:
    wrong, truth = WrongPixels(PALETTE), as_pixels(PALETTE[None, None])  # one row of four pixels
    assert wrong.count(truth, truth).tolist() == [0]
    near = truth.clone()
    near[0, 0] = torch.tensor([90.0, 204.0, 206.0, 255.0])  # a dark red is still nearest to black
    assert wrong.count(near, truth).tolist() == [0]
    near[0, 0, 0, 1] = 206.0  # nearest to the other red
    assert wrong.count(near, truth).tolist() == [1]


def test_wrong_pixels_without_a_palette() -> None:
    wrong, truth = WrongPixels(None), torch.full((1, 1, 1, 3), 100.0)
    assert wrong.count(torch.tensor([[[[108.4, 108.6, 91.4]]]]), truth).tolist() == [2]


def test_wrong_pixels_equal_brute_force() -> None:
    rng = np.random.default_rng(0)
    truth = frames(5)
    predicted = np.clip(truth + rng.normal(0, 60, truth.shape), 0, 255).astype(np.float32)
    nearest = PALETTE[np.square(predicted[..., None, :] - PALETTE.astype(float)).sum(-1).argmin(-1)]
    wanted = (nearest != truth).any(-1).sum((1, 2))
    found = WrongPixels(PALETTE).count(torch.from_numpy(predicted.transpose(0, 3, 1, 2)), as_pixels(truth))
    assert found.tolist() == wanted.tolist()
