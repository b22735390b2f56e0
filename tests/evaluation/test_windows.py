"""Windows are spread, not repeated, and never from an episode that was trained on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from acvp.data.merge import Copy, copy_episodes, join, openings, split_positions
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
    part = held_out_part(store, trained, None)
    assert len(part.store) == len(store)
    told = "all 6 episodes of a dataset with another digest than the training data; contents not compared (--trained-on"
    assert part.how.startswith(told)
    alone = held_out_part(store, [*trained, None], None).how  # a predictor alone does not say what it was trained on
    assert alone.startswith("all 6 episodes; contents not compared")
    with pytest.raises(UserError, match="are also in"):
        held_out_part(store, trained, store)


def copied(store: EpisodeStore, path: Path, positions: list[int]) -> EpisodeStore:
    """Copies of some episodes in another dataset, which has another digest."""
    copies = [Copy(store, i, store.entries[i].number) for i in positions]
    return copy_episodes(copies, store.info, path, lambda done, total: None)


@pytest.mark.parametrize("name_it", [False, True])
def test_copies_of_trained_episodes_in_a_second_dataset_are_refused(
    store: EpisodeStore, tmp_path: Path, name_it: bool
) -> None:
    trained, named = [Trained(held_out={store.digest: (2, 5)})], store if name_it else None
    copy = copied(store, tmp_path / "copy", [0, 1, 2])
    for paths in ([store.path, copy.path], [copy.path, store.path]):
        with pytest.raises(UserError, match=r"2 of 3 test .* in \S+copy are .*: 0 = 0, 1 = 1.* leave \S+copy out of"):
            held_out_part(join(paths), trained, named)
    fine = held_out_part(join([store.path, copied(store, tmp_path / "fine", [5]).path]), trained, named)
    assert [entry.number for entry in fine.store.entries] == [2, 5, 5]
    assert fine.how.endswith("3 of 7 episodes; none of them is a copy of an episode that was trained on")


def test_trained_on_counts_beside_a_dataset_of_the_run(store: EpisodeStore, tmp_path: Path) -> None:
    trained = [Trained(held_out={store.digest: (2, 5), "elsewhere": (0,)})]
    other = copied(answer_store(tmp_path / "more", [40] * 8), tmp_path / "other", [6, 7])
    both = join([store.path, other.path])
    assert "not compared with all training data (--trained-on" in held_out_part(both, trained, None).how
    with pytest.raises(UserError, match=r"1 of 2 test episodes in \S+other are also in \S+copy"):
        held_out_part(both, trained, copied(other, tmp_path / "copy", [1]))


def test_trained_on_counts_for_a_dataset_that_one_of_two_runs_does_not_name(
    store: EpisodeStore, tmp_path: Path
) -> None:
    trained = [Trained(held_out={store.digest: (2, 5)}), Trained(held_out={"a copy": (0,)})]
    assert "not compared with all training data" in held_out_part(store, trained, None).how
    with pytest.raises(UserError, match=r"1 of 2 test episodes .*train = test: 5 = 5"):
        held_out_part(store, trained, copied(store, tmp_path / "copy", [5]))


def test_episodes_that_begin_like_trained_ones_are_left_out(store: EpisodeStore, tmp_path: Path) -> None:
    trained = Trained(held_out={"training": ()}, openings=frozenset(openings(store)[i] for i in (1, 3)))
    other = copied(store, tmp_path / "copy", [0, 1, 2, 3])
    part = held_out_part(other, [trained], None)
    assert [entry.number for entry in part.store.entries] == [0, 2]
    assert part.how.startswith("2 of 4 episodes, without those that begin like one that was trained on, of a dataset")
    assert part.how.endswith("; none of them begins like an episode that was trained on")
    assert "not compared" in held_out_part(other, [trained, Trained(held_out={"of 0.2": ()})], None).how
    with pytest.raises(UserError, match=r"copies: every episode of it begins like one that was trained on"):
        held_out_part(copied(store, tmp_path / "copies", [1, 3]), [trained], None)


def test_one_run_held_out_what_another_was_trained_on_under_another_digest(store: EpisodeStore, tmp_path: Path) -> None:
    first = Trained(held_out={store.digest: (2, 5)}, openings=frozenset(openings(store)[i] for i in (0, 1, 3, 4)))
    second = Trained(held_out={"a copy": (0,)}, openings=frozenset(openings(store)[i] for i in (4, 5)))
    part = held_out_part(store, [first, second], None)
    assert [entry.number for entry in part.store.entries] == [2]
    assert part.how.endswith("1 of 6 episodes; none of them is a copy of an episode that was trained on")


def test_evenly() -> None:
    assert evenly(10, 4) == [0, 2, 5, 7]
    assert evenly(3, 9) == [0, 1, 2]
