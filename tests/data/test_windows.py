import copy
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import RGB, colorize
from acvp.data.windows import Window, WindowBatch, WindowReader, Windows, choose_starts, stream
from acvp.errors import UserError
from tests.data.answers import answer_action, answer_store, color_store, read_answer


def answers(batch: WindowBatch) -> list[list[tuple[int, int]]]:
    assert batch.palette is not None
    return [[read_answer(frame) for frame in window] for window in colorize(batch.frames, batch.palette)]


@settings(max_examples=40)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    terminated=st.booleans(),
    context=st.integers(1, 6),
    horizon=st.integers(0, 8),
)
def test_windows_are_all_legal_places_once(lengths: list[int], terminated: bool, context: int, horizon: int) -> None:
    size = context + horizon
    with tempfile.TemporaryDirectory() as folder:
        store = answer_store(Path(folder) / "s", lengths, terminated=terminated)
        first = [0 if n >= size else 1 - context for n in lengths]
        places = [(e, s) for e, n in enumerate(lengths) for s in range(first[e], n - size + 1)]
        if not places:
            with pytest.raises(UserError, match=f"no episode has the {horizon + 1} frames"):
                Windows(store, Window(context, horizon))
            return
        windows = Windows(store, Window(context, horizon))
        assert windows.left_out == sum(n <= horizon for n in lengths)
        assert [windows.locate(k) for k in range(len(windows))] == places
        batch = windows.batch(np.arange(len(windows)))
        told = answers(batch)
        for row, (e, s) in enumerate(places):
            steps = range(s, s + size - 1)
            assert told[row] == [(e, max(0, t)) for t in range(s, s + size)]
            assert batch.actions[row].tolist() == [answer_action(e, t) if t >= 0 else 0 for t in steps]
            assert batch.rewards[row].tolist() == [max(0, t) for t in steps]
            last = terminated and s + size == lengths[e]
            assert batch.terminated[row].tolist() == [False] * (size - 2) + [last] * (size > 1)


def test_a_window_has_the_actions_rewards_and_termination_of_its_steps(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [7, 5]), Window(2, 2))
    batch = windows.batch(np.arange(len(windows)))
    steps = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    assert [row[0] for row in answers(batch)] == steps
    assert batch.actions.tolist() == [[answer_action(e, s + t) for t in range(3)] for e, s in steps]
    assert batch.rewards.tolist() == [[s, s + 1, s + 2] for _, s in steps]
    assert batch.terminated.tolist() == [[False, False, place in ((0, 3), (1, 1))] for place in steps]


def test_every_place_is_drawn_equally_often(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [5, 12, 2, 20]), Window(2, 2))
    drawn = np.concatenate([windows.draw(64, seed=0, step=step) for step in range(1000)])
    counts = np.bincount(drawn, minlength=len(windows))
    expected = len(drawn) / len(windows)
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert len(windows) == 28
    assert chi_squared < 55.5  # 27 degrees of freedom, p = 0.001


def test_a_batch_is_a_function_of_seed_and_step(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [40, 40]), Window(2, 2))
    later = stream(windows, 4, seed=3, first_step=5, threads=2)
    walked = stream(windows, 4, seed=3)
    for _ in range(5):
        next(walked)
    for _ in range(3):
        a, b = next(walked), next(later)
        assert np.array_equal(a.frames, b.frames)
        assert np.array_equal(a.actions, b.actions)
    draws = [windows.draw(8, seed=seed, step=step).tolist() for seed in (0, 1) for step in (0, 1)]
    assert len({tuple(d) for d in draws}) == 4


def test_ranks_share_one_batch(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [40]), Window(2, 2))
    joined = windows.draw(12, seed=0, step=7)
    parts = [windows.draw(4, seed=0, step=7, rank=rank, world_size=3) for rank in range(3)]
    assert np.array_equal(np.concatenate(parts), joined)


def test_a_rank_that_is_not_there_is_refused(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [40]), Window(2, 2))
    with pytest.raises(ValueError, match="rank 1 of 1"):
        windows.draw(4, seed=0, step=0, rank=1)


def test_windows_can_be_sent_to_another_process(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [40]), Window(2, 2))
    here = windows.batch(np.arange(3))
    there = copy.deepcopy(windows).batch(np.arange(3))
    assert np.array_equal(here.frames, there.frames)


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def test_episodes_of_other_palettes_speak_the_stores_palette(tmp_path: Path) -> None:
    store = color_store(tmp_path, [[RED, GREEN], [BLUE, RED], [GREEN, BLUE]])
    windows = Windows(store, Window(1, 1))
    batch = windows.batch(np.arange(3))
    assert batch.palette is not None
    assert batch.palette.tolist() == [list(RED), list(GREEN), list(BLUE)]
    assert batch.frames[:, :, 0, 0].tolist() == [[0, 1], [2, 0], [1, 2]]
    rgb = Windows(store, Window(1, 1), RGB).batch(np.arange(3))
    assert rgb.palette is None
    assert np.array_equal(rgb.frames, colorize(batch.frames, batch.palette))


def test_a_store_of_too_many_colors_gives_rgb(tmp_path: Path) -> None:
    palettes = [[(e, t, 7) for t in range(200)] for e in range(2)]
    store = color_store(tmp_path, palettes)
    assert store.palette is None
    batch = Windows(store, Window(1, 1)).batch(np.array([0, 199 + 5]))
    assert batch.frames.shape == (2, 2, 6, 8, 3)
    assert batch.frames[:, :, 0, 0].tolist() == [[[0, 0, 7], [0, 1, 7]], [[1, 5, 7], [1, 6, 7]]]


@pytest.mark.parametrize(("context", "horizon"), [(0, 1), (1, -1)])
def test_impossible_windows_are_refused(context: int, horizon: int) -> None:
    with pytest.raises(UserError, match="is not possible"):
        Window(context, horizon)


@pytest.mark.parametrize(("context", "horizon"), [(1, 1), (3, 4), (8, 2)])
def test_event_weights_are_equal_for_each_kind_of_event_to_predict(tmp_path: Path, context: int, horizon: int) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "s", frames=1500, seed=3))
    windows = Windows(store, Window(context, horizon))
    batch = windows.batch(np.arange(len(windows)))
    rewards = batch.rewards[:, -horizon:]
    kinds = [(rewards > 0).any(1), (rewards < 0).any(1), batch.terminated[:, -horizon:].any(1)]
    present = [kind for kind in kinds if kind.any()]
    assert len(present) > 1
    np.testing.assert_allclose(windows.event_weights(), sum(kind / kind.sum() for kind in present))


def test_a_priority_draws_its_share_by_weight_and_the_rest_stays(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "s", frames=1500, seed=3))
    windows = Windows(store, Window(3, 2))
    weights = np.zeros(len(windows))
    weights[[7, 20]] = 1.0, 3.0
    priorities = windows.priority(0.3, weights)
    plain = np.concatenate([windows.draw(50, seed=1, step=step) for step in range(200)])
    mixed = np.concatenate([windows.draw(50, seed=1, step=step, priorities=priorities) for step in range(200)])
    changed = mixed[plain != mixed]
    assert set(changed.tolist()) == {7, 20}
    assert len(changed) / len(mixed) == pytest.approx(0.3, abs=0.02)
    assert (changed == 20).mean() == pytest.approx(0.75, abs=0.03)
    halves = [windows.draw(25, seed=1, step=9, rank=rank, world_size=2, priorities=priorities) for rank in (0, 1)]
    assert np.concatenate(halves).tolist() == windows.draw(50, seed=1, step=9, priorities=priorities).tolist()


def test_every_priority_has_its_own_share(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path / "s", [400]), Window(1, 1))
    ones = np.eye(len(windows))
    priorities = (*windows.priority(0.5, ones[3]), *windows.priority(0.2, ones[5]))
    drawn = np.concatenate([windows.draw(50, seed=1, step=step, priorities=priorities) for step in range(200)])
    assert [(drawn == number).mean() for number in (3, 5)] == pytest.approx([0.5, 0.2], abs=0.02)


def test_without_weight_or_share_nothing_is_emphasized(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path / "s", [12]), Window(1, 1))
    assert windows.priority(0.5, np.zeros(len(windows))) == ()
    assert windows.priority(0.0, np.ones(len(windows))) == ()
    with pytest.raises(ValueError, match="weights for"):
        windows.priority(0.5, np.ones(3))


def test_a_reader_pads_short_episodes_as_batches_do(tmp_path: Path) -> None:
    store = answer_store(tmp_path, [3, 9])
    windows = Windows(store, Window(4, 1), RGB)
    starts = [windows.locate(number) for number in range(len(windows))]
    assert starts[:3] == [(0, -3), (0, -2), (1, 0)]
    reader, batch = WindowReader(store, starts, RGB), windows.batch(np.arange(len(windows)))
    assert np.array_equal(reader.frames(0, 5), batch.frames)
    assert np.array_equal(reader.actions(0, 4), batch.actions)
    assert np.array_equal(reader.frames(2, 4), batch.frames[:, 2:4])
    assert np.array_equal(np.stack(list(reader.steps(1, 3)), 1), batch.frames[:, 1:4])
    assert [read_answer(frame)[1] for frame in batch.frames[0]] == [0, 0, 0, 0, 1]
    assert batch.actions[0].tolist() == [0, 0, 0, answer_action(0, 0)]


def test_windows_of_long_episodes_are_what_they_were(tmp_path: Path) -> None:
    """Numbers of 0.1.0: padding changes nothing where no episode is shorter than a window."""
    windows = Windows(answer_store(tmp_path, [40, 25, 60]), Window(4, 3))
    drawn = windows.draw(6, seed=1, step=2)
    assert drawn.tolist() == [77, 0, 95, 27, 22, 44]
    starts = choose_starts(windows.store, windows.window, 5, seed=1, option="horizon")
    assert starts == [(0, 14), (0, 27), (1, 15), (2, 21), (2, 51)]
