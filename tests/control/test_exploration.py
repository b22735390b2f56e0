"""Informed exploration: what it chooses, what it leaves untouched, and that it gets around."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.agents.agent import agent_view
from acvp.control.explore import Limits, RandomStrategy, Strategy, explore
from acvp.control.informed import EmulatorLookahead, InformedExploration, ModelLookahead
from acvp.control.kernel import KernelConfig, TrajectoryMemory, covered
from acvp.data.frames import GRAY_84
from acvp.data.store import EpisodeStore
from acvp.envs import Game, make_game
from acvp.errors import UserError
from tests.control.trail import TRAIL, TrailOracle, draw, read
from tests.evaluation.predictors import small_network

ROW = np.array([0])
BEGINS, CONTINUES = np.array([True]), np.array([False])


class Fixed:
    """A source with one answer."""

    def __init__(self, futures: NDArray[np.uint8]) -> None:
        self.answer = futures

    def observe(self, frames: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def futures(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        return np.repeat(self.answer[None], len(rows), 0)

    def state(self) -> dict[str, NDArray[Any]]:
        return {}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Do nothing."""


def gray(*values: int) -> NDArray[np.uint8]:
    """One even frame (84, 84) for each value."""
    return np.stack([np.full((84, 84), value, np.uint8) for value in values])


def test_the_least_visited_future_is_chosen() -> None:
    futures = gray(10, 20, 30)[:, None]
    informed = InformedExploration(Fixed(futures), KernelConfig(delta=0), seed=0)
    for value in (10, 30, 30):
        informed.observe(gray(value)[..., None], CONTINUES)
    assert informed.explore(ROW).tolist() == [1]
    informed.observe(gray(20)[..., None], CONTINUES)
    assert set(informed.explore(np.zeros(40, np.int64)).tolist()) == {0, 1}  # one visit each


@pytest.mark.parametrize(
    ("seen", "least"), [((10, 10, 60), 1), ((10, 60, 60), 0), ((50, 50, 20), 1), ((50, 20, 20), 0)]
)
def test_a_future_of_several_steps_counts_with_all_of_them(seen: tuple[int, ...], least: int) -> None:
    """Two visits on the way count more than one at the end, and the other way round."""
    futures = np.stack([gray(10, 50), gray(20, 60)])  # each action leads through two frames
    informed = InformedExploration(Fixed(futures), KernelConfig(delta=0), seed=0)
    for value in seen:
        informed.observe(gray(value)[..., None], CONTINUES)
    assert informed.explore(ROW).tolist() == [least]


def test_seeds_differ_where_futures_are_alike() -> None:
    """Ties are all that the seed decides."""
    chosen = []
    for seed in (0, 1, 0):
        informed = InformedExploration(Fixed(gray(10, 10)[:, None]), KernelConfig(), seed=seed)
        informed.observe(gray(10)[..., None], BEGINS)
        chosen.append(informed.explore(np.zeros(20, np.int64)).tolist())
    assert chosen[0] == chosen[2] != chosen[1]


def test_every_episode_has_a_separate_memory() -> None:
    informed = InformedExploration(Fixed(gray(10, 20)[:, None]), KernelConfig(delta=0), seed=0)
    informed.observe(gray(10, 20)[..., None], np.array([True, True]))
    assert informed.explore(np.array([1, 0])).tolist() == [0, 1]


def test_the_memory_continues_when_an_episode_ends() -> None:
    informed = InformedExploration(Fixed(gray(10, 20)[:, None]), KernelConfig(delta=0), seed=0)
    informed.observe(gray(10)[..., None], BEGINS)
    informed.observe(gray(30)[..., None], BEGINS)
    assert set(informed.explore(np.zeros(40, np.int64)).tolist()) == {1}


def test_a_coin_for_every_episode() -> None:
    plays = 60
    informed = InformedExploration(Fixed(gray(10, 20)[:, None]), KernelConfig(delta=0), seed=0)
    greedy, observations = np.zeros(plays, np.int64), np.repeat(gray(10, 10, 10, 10)[None], plays, 0)
    for epsilon, least, most in ((0.0, 0, 0), (0.5, 18, 42), (1.0, plays, plays)):
        chosen = informed.choose(observations, greedy, epsilon)
        assert least <= chosen.sum() <= most  # exploring goes away from 10, by action 1
    assert not greedy.any()


@pytest.mark.slow
@pytest.mark.parametrize("game", ["toy", "freeway"])
@pytest.mark.parametrize(("sticky", "look_ahead"), [(0.0, 1), (0.25, 3)])
def test_the_emulator_source_leaves_the_game_untouched(game: str, sticky: float, look_ahead: int) -> None:
    actions = np.random.default_rng(2).integers(3, size=12 if game == "freeway" else 190).tolist()
    with make_game(game, sticky=sticky) as watched, make_game(game, sticky=sticky) as alone:
        source = EmulatorLookahead([watched], look_ahead=look_ahead)
        assert np.array_equal(watched.reset(7), alone.reset(7))
        for action in actions:
            source.futures(ROW)
            (seen, *rest), (wanted, *others) = watched.step(action), alone.step(action)
            assert np.array_equal(seen, wanted)
            assert rest == others
            assert (watched.lives, watched.controlled_position()) == (alone.lives, alone.controlled_position())
            assert watched.save() == alone.save()
            if rest[1] or rest[2]:
                break


def test_the_emulator_source_knows_the_future() -> None:
    with make_game("toy") as game, make_game("toy") as other:
        game.reset(3)
        futures = EmulatorLookahead([game], look_ahead=2).futures(ROW)
        assert futures.shape == (1, 5, 2, 84, 84)
        for action in range(5):
            other.reset(3)
            for step in range(2):
                assert np.array_equal(futures[0, action, step], GRAY_84.apply(other.step(action).frame, None)[..., 0])


@pytest.mark.parametrize("how", ["terminated", "truncated"])
def test_a_future_that_ends_keeps_its_last_frame(how: str) -> None:
    with make_game("toy", max_steps=5) as game:
        game.reset(3)
        for _ in range(3):
            game.step(0)
        if how == "terminated":
            game.limit = None
            step = game.step
            game.step = lambda action: step(action)._replace(terminated=game._elapsed == 5)  # type: ignore[method-assign]
        futures = EmulatorLookahead([game], look_ahead=4).futures(ROW)
    for action in range(5):
        assert not np.array_equal(futures[0, action, 0], futures[0, action, 1])
        assert np.array_equal(futures[0, action, 1], futures[0, action, 2])
        assert np.array_equal(futures[0, action, 1], futures[0, action, 3])


@pytest.mark.parametrize("look_ahead", [1, 3])
def test_a_perfect_model_knows_the_same_futures(look_ahead: int) -> None:
    places = [(5, 4, 30), (0, 9, 35)]
    source = ModelLookahead(TrailOracle(), look_ahead=look_ahead)
    source.observe(np.stack([draw(place) for place in places]), np.array([True, True]))
    futures = source.futures(np.array([1, 0]))
    assert futures.shape == (2, 3, look_ahead, 84, 84)
    on = [draw((min(place[0] + look_ahead, 9), place[1] + look_ahead, place[2])) for place in reversed(places)]
    assert np.array_equal(futures[:, 1, -1], agent_view(np.stack(on)))


def test_the_model_sees_only_the_episode_that_continues() -> None:
    source = ModelLookahead(TrailOracle(context=3))
    for cell in (4, 5):
        source.observe(np.stack([draw((cell, 1, 30))] * 2), np.array([False, False]))
    source.observe(np.stack([draw((6, 1, 30)), draw((0, 0, 25))]), np.array([False, True]))
    assert source._history is not None
    shown = [[int(frame[:10, 0, 0].argmax()) for frame in play] for play in source._history.frames]
    assert shown == [[4, 5, 6], [0, 0, 0]]


def test_observations_mark_where_an_episode_begins() -> None:
    begun: list[list[bool]] = []

    class Watching(Fixed):
        def observe(self, frames: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
            begun.append(begins.tolist())
            assert frames.shape == (2, 84, 84, 1)

    informed = InformedExploration(Watching(gray(1, 2)[:, None]), KernelConfig(), seed=0)
    stacks = [[(1, 1, 1, 1), (5, 6, 7, 8)], [(1, 1, 1, 2), (6, 7, 8, 9)], [(1, 1, 2, 3), (0, 0, 0, 4)]]
    for pair in stacks:
        informed.choose(np.stack([gray(*stack) for stack in pair]), np.array([0, 0]), epsilon=0.5)
    almost = np.stack([gray(1, 2, 3, 4), gray(0, 0, 4, 5)])
    almost[1, 1, 50, 20] += 1  # one pixel of one frame is enough
    informed.choose(almost, np.array([0, 0]), epsilon=0.5)
    assert begun == [[True, True], [False, False], [False, True], [False, True]]


def test_a_resumed_run_chooses_the_same(toy: EpisodeStore) -> None:
    """With a memory that is not full yet, and with one that is."""
    predictor, rng = small_network(toy, view=GRAY_84), np.random.default_rng(0)
    frames = rng.integers(256, size=(2, 14, 84, 84)).astype(np.uint8)
    observations = [frames[:, t : t + 4] for t in range(11)]
    for stop in (2, 7):
        kernel = KernelConfig(memory=4)
        first, second = (InformedExploration.from_predictor(predictor, kernel, seed=1) for _ in range(2))
        for each in observations[:stop]:
            first.choose(each, np.zeros(2, np.int64), 0.5)
        second.restore(first.state())
        for each in observations[stop:]:
            wanted = first.choose(each, np.zeros(2, np.int64), 0.5).tolist()
            assert second.choose(each, np.zeros(2, np.int64), 0.5).tolist() == wanted


def test_what_was_only_seen_is_not_lost_on_resume(toy: EpisodeStore) -> None:
    predictor, rng = small_network(toy, view=GRAY_84), np.random.default_rng(0)
    frames = rng.integers(256, size=(9, 1, 84, 84, 1)).astype(np.uint8)
    first, second = (InformedExploration.from_predictor(predictor, KernelConfig(memory=4), seed=1) for _ in range(2))
    for time, frame in enumerate(frames[:5]):
        first.observe(frame, np.array([time == 0]))
    second.restore(first.state())
    seen = [each.lookahead._history.frames for each in (first, second)]  # type: ignore[attr-defined]
    assert np.array_equal(seen[0], seen[1])
    for frame in frames[5:]:
        for each in (first, second):
            each.observe(frame, CONTINUES)
        assert second.explore(ROW) == first.explore(ROW)


@pytest.mark.parametrize("source", ["model", "emulator"])
def test_a_dqn_of_stable_baselines_explores_by_it(toy: EpisodeStore, source: str) -> None:
    dqn, vector = pytest.importorskip("acvp.agents.dqn"), pytest.importorskip("acvp.agents.vec_env")
    settings = pytest.importorskip("acvp.agents.presets")
    env, kernel = vector.GameVecEnv([make_game("toy") for _ in range(2)], seed=1), KernelConfig()
    informed = (
        InformedExploration.from_emulator(env.games, kernel, seed=1)
        if source == "emulator"
        else InformedExploration.from_predictor(small_network(toy, view=GRAY_84), kernel, seed=1)
    )
    small = replace(settings.smoke(), games=2, steps_per_update=4, learning_starts=8, replay=100, batch_size=4)
    agent = dqn.AcvpDqn(small, env, seed=1, exploration=informed, device="cpu")
    agent.learn(20)
    assert [len(memory) for memory in informed._memories] == [10, 10]
    env.close()


def far_and_wide(game: Game, strategy: Strategy, seed: int) -> int:
    """Distinct places of the player within 150 decisions."""
    limits = Limits(max_steps=150, map_steps=150, noops=0)
    return int(covered(explore(game, strategy, limits, seed=seed).positions, cell=2)[-1])


@pytest.mark.slow
def test_informed_exploration_gets_around_more_than_random() -> None:
    kernel = KernelConfig(delta=50)
    ways: dict[str, Callable[[Game, int], Strategy]] = {
        "informed": lambda game, seed: InformedExploration.from_emulator([game], kernel, seed=seed),
        "random": lambda game, seed: RandomStrategy(5, seed=seed),
    }
    cells = {}
    with make_game("toy") as game:
        for name, make in ways.items():
            cells[name] = [far_and_wide(game, make(game, s), s) for s in range(4)]
    assert np.mean(cells["informed"]) > 1.25 * np.mean(cells["random"])


STAY, ON, BACK = range(3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("way", "found"), [([ON] * 4, 4), ([BACK] * 5 + [ON] * 9, 14), ([STAY] * 6, None)])
def test_steps_to_the_first_reward_by_hand(way: list[int], found: int | None, seed: int) -> None:
    """Nine is four cells away; coming to 0 costs one, which is no reward; waiting at the start does not count."""

    class Scripted(RandomStrategy):
        def explore(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.array([script.pop(0)])

    script = list(way)
    limits = Limits(max_steps=len(way), map_steps=0, noops=3)
    with make_game(TRAIL) as game:
        run = explore(game, Scripted(3, seed=0), limits, seed=seed)
    assert (run.first_reward, run.steps) == (found, len(way))


def test_exploration_is_the_same_twice_and_continues_after_an_end() -> None:
    limits = Limits(max_steps=30, map_steps=90, noops=5)
    found = []
    for _ in range(2):
        with make_game(TRAIL) as game:
            way = InformedExploration.from_predictor(TrailOracle(), KernelConfig(delta=0, sigma=1.0), seed=1)
            found.append(explore(game, way, limits, seed=4))
    assert found[0] == found[1]
    assert found[0].steps == 90  # plays have less than 40
    assert found[0].first_reward is not None


def test_a_strategy_is_shown_every_frame_and_where_an_episode_begins() -> None:
    shown = []

    class Watching(RandomStrategy):
        def observe(self, frames: NDArray[np.uint8], begins: NDArray[np.bool_]) -> None:
            _, time, _ = read(frames[0])
            shown.append((time, bool(begins[0])))

    with make_game(TRAIL, max_steps=3) as game:
        explore(game, Watching(3, seed=0), Limits(max_steps=0, map_steps=7, noops=0), seed=1)
    assert shown == [(time, time == 0) for time in (0, 1, 2, 3, 0, 1, 2, 3, 0, 1)]


def test_an_env_that_cannot_save_its_state() -> None:
    with make_game(TRAIL) as game, pytest.raises(UserError, match=r"Trail-v0 cannot save: .*informed-model"):
        InformedExploration.from_emulator([game], KernelConfig(), seed=0)


def test_a_color_predictor_cannot_read_an_agent_s_observations() -> None:
    informed = InformedExploration.from_predictor(TrailOracle(), KernelConfig(), seed=0)
    with pytest.raises(UserError, match="--view gray84"):
        informed.choose(np.zeros((1, 4, 84, 84), np.uint8), np.zeros(1, np.int64), 1.0)


def test_look_ahead_of_nothing() -> None:
    with pytest.raises(UserError, match="--look-ahead 0"):
        ModelLookahead(TrailOracle(), look_ahead=0)


def test_the_memory_is_in_the_agent_s_view() -> None:
    memory = TrajectoryMemory(KernelConfig(delta=0))
    frame = draw((3, 1, 30))
    memory.add(agent_view(frame[None])[0])
    assert memory.visit_frequency(agent_view(frame[None])).tolist() == [1.0]
