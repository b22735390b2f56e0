"""Windows are spread, not repeated, and never from an episode that was trained on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from acvp.data.split import split_positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, choose_starts
from acvp.errors import UserError
from acvp.evaluation.windows import Trained, evenly, held_out_part
from tests.data.answers import answer_store


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    return answer_store(tmp_path / "s", [10, 50, 12, 50, 3, 50])


def test_places_are_spread_over_episodes_without_repeats(store: EpisodeStore) -> None:
    starts = choose_starts(store, Window(4, 5), 30, seed=1, option="horizon")
    assert len(set(starts)) == len(starts) == 30
    counts = Counter(start.episode for start in starts)
    assert counts[0] == 2  # all it has
    assert counts[2] == 4
    assert counts[4] == 0  # too short, even padded: 3 frames for 5 to predict
    assert {counts[1], counts[3], counts[5]} == {8}
    assert all(start.frame + 9 <= store.entries[start.episode].frames for start in starts)


def test_places_follow_from_the_seed(store: EpisodeStore) -> None:
    window = Window(4, 5)
    first, again, other = (choose_starts(store, window, 9, seed=seed, option="horizon") for seed in (1, 1, 2))
    assert first == again != other


def test_all_places_where_there_are_fewer(store: EpisodeStore) -> None:
    starts = choose_starts(store, Window(40, 10), 99, seed=1, option="horizon")
    assert starts == [(1, 0), (2, -39), (2, -38), (3, 0), (5, 0)]  # 12 frames: padded, so that the last two are reached


def test_a_horizon_longer_than_any_episode(store: EpisodeStore) -> None:
    with pytest.raises(UserError, match=r"--horizon 50: the longest of 6 test episodes .* has 50 frames.* at most 49"):
        choose_starts(store, Window(4, 50), 5, seed=1, option="horizon")


def test_the_training_store_gives_what_every_run_held_out(store: EpisodeStore) -> None:
    held_out = split_positions(store, test_fraction=0.4, seed=1)[1]
    trained = [Trained(held_out={store.digest: tuple(held_out)}) for _ in range(2)]
    part = held_out_part(store, trained, None)
    assert [entry.number for entry in part.store.entries] == held_out
    assert "held out in training by every run" in part.how


def test_an_episode_that_one_run_was_trained_on_is_left_out(store: EpisodeStore) -> None:
    trained = [Trained(held_out={store.digest: held_out}) for held_out in ((0, 1, 3), (1, 3, 4), (1, 2, 3))]
    assert [entry.number for entry in held_out_part(store, trained, None).store.entries] == [1, 3]


def test_runs_without_a_common_test_episode_are_refused(store: EpisodeStore) -> None:
    splits = {seed: set(split_positions(store, test_fraction=0.3, seed=seed)[1]) for seed in range(20)}
    other = next(seed for seed in splits if not splits[seed] & splits[0])
    trained = [Trained(held_out={store.digest: tuple(splits[seed])}) for seed in (0, other)]
    with pytest.raises(UserError, match="no held-out episode in common"):
        held_out_part(store, trained, None)


def test_another_store_is_used_whole_and_checked_for_leaks(store: EpisodeStore) -> None:
    trained = [Trained(held_out={"another": (0,)})]
    assert len(held_out_part(store, trained, None).store) == len(store)
    assert "--trained-on" in held_out_part(store, trained, None).how
    with pytest.raises(UserError, match="are also in"):
        held_out_part(store, trained, store)


def test_evenly() -> None:
    assert evenly(10, 4) == [0, 2, 5, 7]
    assert evenly(3, 9) == [0, 1, 2]
