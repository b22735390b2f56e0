"""Speed that must not change anything else."""

from __future__ import annotations

import pytest
import torch

from acvp.models import without_denormals


def tiny() -> float:
    return float(torch.full((8,), 1e-30).mul(1e-10).sum())


def test_denormals_are_zero_inside_and_numbers_again_outside() -> None:
    if not torch.set_flush_denormal(False):
        pytest.skip("this CPU cannot take denormals for zero")
    before = tiny()
    assert before > 0
    with without_denormals():
        assert tiny() == 0
    assert tiny() == before
    with pytest.raises(ValueError, match="stop"), without_denormals():
        raise ValueError("stop")
    assert tiny() == before
