"""Equation 7 against numbers worked out by hand, and against the formula written down as two loops."""

from __future__ import annotations

from math import exp

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from acvp.control.kernel import KernelConfig, TrajectoryMemory, least_visited, paper_kernel, similarity
from acvp.errors import UserError


def frame(*pixels: int) -> NDArray[np.uint8]:
    return np.array([pixels], np.uint8)


def formula(x: NDArray[np.uint8], y: NDArray[np.uint8], config: KernelConfig) -> float:
    """The kernel exactly as printed, on pixel values 0..255."""
    total = 0.0
    for a, b in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True):
        total += min(max((a - b) ** 2 - config.delta, 0), 1)
    return exp(-total / config.sigma)


@pytest.mark.parametrize(
    ("x", "y", "delta", "different"),
    [
        ((10, 20), (10, 20), 0, 0),
        ((10, 20), (11, 20), 0, 1),
        ((10, 20), (17, 20), 50, 0),  # 49 does not exceed 50
        ((10, 20), (18, 20), 50, 1),  # 64 does
        ((20, 10), (20, 18), 50, 1),
        ((0, 255), (255, 0), 50, 2),  # no wrapping around
        ((0, 255), (255, 0), 65025, 0),  # 255²
        ((0, 255), (1, 0), 65024, 1),
    ],
)
def test_the_kernel_by_hand(x: tuple[int, int], y: tuple[int, int], delta: int, different: int) -> None:
    config = KernelConfig(delta=delta, sigma=4.0)
    assert similarity(frame(*x), frame(*y), config)[0, 0] == pytest.approx(exp(-different / 4), rel=1e-14)


def test_visit_frequency_by_hand() -> None:
    memory = TrajectoryMemory(KernelConfig(memory=2, delta=0, sigma=2.0))
    candidates = np.stack([frame(1, 2, 3), frame(9, 9, 9)])
    assert memory.visit_frequency(candidates).tolist() == [0.0, 0.0]
    memory.add(frame(1, 2, 3))
    assert memory.visit_frequency(candidates) == pytest.approx([1.0, exp(-1.5)])
    memory.add(frame(1, 9, 9))
    assert memory.visit_frequency(candidates) == pytest.approx([1 + exp(-1), exp(-1.5) + exp(-0.5)])
    memory.add(frame(9, 9, 9))  # the oldest is forgotten
    assert len(memory) == 2
    assert memory.visit_frequency(candidates) == pytest.approx([exp(-1) + exp(-1.5), exp(-0.5) + 1])


@given(
    seed=st.integers(0, 2**31),
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 7), st.integers(1, 30)),
    delta=st.integers(0, 66_000),
    sigma=st.floats(0.5, 1e4),
    spread=st.integers(1, 255),
)
def test_fast_and_plain_agree(seed: int, sizes: tuple[int, int, int], delta: int, sigma: float, spread: int) -> None:
    actions, remembered, pixels = sizes
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 256 - spread)
    frames = rng.integers(first, first + spread + 1, size=(actions + remembered, pixels)).astype(np.uint8)
    config = KernelConfig(memory=remembered, delta=delta, sigma=sigma)
    memory = TrajectoryMemory(config)
    for each in frames[actions:]:
        memory.add(each)
    plain = [sum(formula(x, y, config) for y in frames[actions:]) for x in frames[:actions]]
    assert memory.visit_frequency(frames[:actions]) == pytest.approx(plain, rel=1e-12)


@given(st.permutations(range(20)), st.integers(0, 2**31))
def test_the_order_of_memories_changes_nothing(order: list[int], seed: int) -> None:
    """Not the last bit: candidates of equal visits must tie, also after a stop, when the ring begins anew."""
    rng = np.random.default_rng(seed)
    frames = rng.integers(0, 3, size=(20, 300)).astype(np.uint8)
    candidates = rng.integers(0, 3, size=(4, 300)).astype(np.uint8)
    memories = [TrajectoryMemory(KernelConfig(memory=20, delta=0)) for _ in range(2)]
    for each, other in zip(range(20), order, strict=True):
        memories[0].add(frames[each])
        memories[1].add(frames[other])
    first, second = (memory.visit_frequency(candidates).tolist() for memory in memories)
    assert first == second


def test_large_frames_do_not_overflow_the_count() -> None:
    config = KernelConfig(delta=0, sigma=1e5)
    dark, light = np.zeros((1, 70_000), np.uint8), np.full((1, 70_000), 255, np.uint8)
    assert similarity(dark, light, config)[0, 0] == pytest.approx(exp(-0.7))


def test_ties_are_broken_at_random() -> None:
    rng = np.random.default_rng(1)
    drawn = [least_visited(np.array([2.0, 1.0, 3.0, 1.0]), rng) for _ in range(200)]
    assert set(drawn) == {1, 3}
    assert 60 < drawn.count(1) < 140


def test_the_paper_s_settings() -> None:
    assert paper_kernel("ALE/Freeway-v5") == KernelConfig(memory=20, delta=0, sigma=100.0)
    assert paper_kernel("ALE/Qbert-v5") == KernelConfig(memory=200, delta=50, sigma=100.0)
    for game in ("Seaquest", "SpaceInvaders", "MsPacman"):
        assert paper_kernel(f"ALE/{game}-v5") == KernelConfig(memory=20, delta=50, sigma=100.0)


@pytest.mark.parametrize("wrong", [{"memory": 0}, {"delta": -1}, {"delta": 0.5}, {"sigma": 0.0}])
def test_impossible_kernels(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError, match=f"--{next(iter(wrong))}"):
        KernelConfig(**wrong)  # type: ignore[arg-type]
