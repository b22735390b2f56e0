from pathlib import Path

import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv

from acvp.data.frames import GRAY_84, RGB, colorize, get_view, luminance, resize_area
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.training.data import mean_frame
from tests.data.answers import answer_store


def test_indices_and_colors_give_the_same_view() -> None:
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (9, 3)).astype(np.uint8)
    indices = rng.integers(0, 9, (2, 3, 210, 160)).astype(np.uint8)
    rgb = colorize(indices, palette)
    for view, channels, size in ((RGB, 3, (210, 160)), (GRAY_84, 1, (84, 84))):
        seen = view.apply(indices, palette)
        assert seen.shape == (2, 3, *size, channels) == (2, 3, *view.shape((210, 160, 3)))
        assert np.array_equal(seen, view.apply(rgb, None))


def test_area_resize_is_the_mean_of_what_a_pixel_covers() -> None:
    image = np.arange(20, dtype=np.uint8).reshape(4, 5) * 10
    small = resize_area(image, (2, 2))  # a pixel covers 2 × 2.5 old ones
    left = (image[:2, 0] + 1.0 * image[:2, 1] + 0.5 * image[:2, 2]).sum() / 5
    assert small[0, 0] == np.rint(left)


@pytest.mark.parametrize("name", ["freeway", "seaquest", "qbert"])
def test_the_gray_view_is_what_atari_agents_see(name: str) -> None:
    """Against ALE's own vector env: all but a few ties in rounding agree, and those differ by one gray level."""
    agents = AtariVectorEnv(name, num_envs=1, frameskip=4, stack_num=1, noop_max=0, use_fire_reset=False, maxpool=False)
    agents.reset(seed=0)
    rng = np.random.default_rng(0)
    differing = compared = 0
    with make_game(name) as game:
        game.reset(0)
        for _ in range(100):
            action = int(rng.integers(len(game.action_meanings)))
            theirs = agents.step(np.array([action]))[0][0, 0]
            ours = GRAY_84.apply(game.step(action).frame, None)[..., 0]
            assert np.abs(ours.astype(int) - theirs).max() <= 1
            differing, compared = differing + int((ours != theirs).sum()), compared + ours.size
    agents.close()
    assert differing / compared < 1e-4


def test_luminance_is_rounded_to_the_nearest() -> None:
    colors = np.array([[255, 255, 255], [0, 0, 0], [255, 0, 0], [0, 255, 0]], np.uint8)
    assert luminance(colors).tolist() == [255, 0, 76, 150]


def test_the_mean_is_over_all_frames(tmp_path: Path) -> None:
    store = answer_store(tmp_path, [20, 33, 1])
    frames = np.concatenate([episode.frames() for episode in store])
    assert mean_frame(store) == pytest.approx(frames.mean(axis=0), abs=1e-4)
    gray = mean_frame(store, GRAY_84)
    assert gray.shape == (84, 84, 1)


def test_an_unknown_view_is_named() -> None:
    with pytest.raises(UserError, match="unknown view 'sepia': choose one of rgb, gray84"):
        get_view("sepia")
