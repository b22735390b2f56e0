"""Planning with predictors whose answer is known: the best plan, its order, its use by collect, evaluate and play."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from acvp.agents import evaluate, plan
from acvp.agents.agent import AgentAbout
from acvp.agents.plan import PlanConfig, Planner, change_parts, load_planner, parse_plan
from acvp.agents.play import play_policy
from acvp.agents.policies import load_any_policy
from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.models import Outcome
from acvp.play.players import Players
from tests.control.trail import MEANINGS, TRAIL, HashAgent, Place, TrailOracle, draw, move, read

STAY, ON, BACK = range(3)


class SureOracle(TrailOracle):
    """Knows the rules for certain."""

    def _outcome(self, rewards: list[float], ends: list[bool]) -> Outcome | None:
        made = super()._outcome(rewards, ends)
        return made and Outcome(reward=made.reward * 100, termination=made.termination * 100)


def best(place: Place, *, value: Any = None, last: Any = None, **options: Any) -> list[int]:
    planner = Planner(SureOracle(), PlanConfig(**({"keep": 1} | options)), value=value)
    return [int(action) for action in planner.plan(draw(place)[None], np.random.default_rng(0), last)]


@pytest.mark.parametrize("options", [{}, {"search": "tree", "splits": 2, "hold": 3}])
def test_the_nearest_reward_is_the_best_plan(options: dict[str, Any]) -> None:
    """From cell 6 the good end is three steps on, and the bad one six steps back."""
    actions = best((6, 0, 100), horizon=9, **options)
    assert len(actions) == 9
    assert actions[:3] == [ON, ON, ON]


def test_a_reward_beyond_the_horizon_is_not_seen_and_a_bad_one_is_avoided() -> None:
    assert BACK not in best((1, 0, 100), horizon=4)[:1]
    seen = best((4, 0, 100), horizon=5, search="tree", splits=1, hold=5)
    assert seen == [ON] * 5


def test_rewards_after_the_end_of_the_episode_do_not_count() -> None:
    """The episode ends at the third step: the reward at the fourth is worth nothing, and neither is losing."""
    planner = Planner(SureOracle(), PlanConfig(horizon=6, keep=1))
    real = planner.predictor.normalizer.to_float(torch.from_numpy(draw((5, 0, 3))[None, None].repeat(4, 1)))
    start = plan.Imagined(planner.predictor.observe(real), torch.zeros(1), torch.ones(1), 0, real)
    plans = np.array([[ON] * 6, [BACK] * 6, [STAY] * 6])
    assert planner._worth(start, plans).tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    later = start._replace(
        state=planner.predictor.observe(
            planner.predictor.normalizer.to_float(torch.from_numpy(draw((5, 0, 90))[None, None].repeat(4, 1)))
        )
    )
    assert planner._worth(later, plans).tolist() == pytest.approx([0.99**3, -(0.99**4), 0.0], abs=1e-5)


def test_a_reward_sooner_is_worth_more() -> None:
    late = np.array([STAY, STAY, ON, ON, ON, ON])
    assert best((7, 0, 100), horizon=6, last=late)[:2] == [ON, ON]


def test_the_last_plan_is_kept_where_nothing_is_better() -> None:
    """Only a plan of four certain steps reaches the reward from here; no single held action does."""
    last = np.array([BACK, ON, ON, ON, ON, ON])
    worth = best((5, 0, 100), horizon=6, samples=1, last=last)
    assert worth == [ON] * 6  # holding is sooner
    turned = best((1, 0, 100), horizon=3, samples=4, last=np.array([ON, BACK, ON]))
    assert turned == [ON, BACK, ON]


def test_the_rest_of_a_plan_ends_by_holding_its_last_action(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[Any] = []

    def worth(planner: Planner, start: plan.Imagined, plans: Any) -> Any:
        compared.extend(plans.tolist())
        return np.zeros(len(plans))

    monkeypatch.setattr(Planner, "_worth", worth)
    best((5, 0, 100), horizon=4, samples=1, last=np.array([BACK, ON]))
    assert compared == [[BACK, ON, ON, ON], [STAY] * 4, [ON] * 4, [BACK] * 4]


def test_an_agent_s_values_beyond_the_horizon_are_discounted_and_need_survival() -> None:
    class Ten(HashAgent):
        def values(self, frames: Any) -> Any:
            return np.full((len(frames), 3), 10.0)

    value: Any = Ten()
    planner = Planner(SureOracle(), PlanConfig(horizon=3, keep=1, discount=0.5), value=value)
    frames = planner.predictor.normalizer.to_float(torch.from_numpy(draw((5, 0, 9))[None, None].repeat(4, 1)))
    state = planner.predictor.observe(frames)
    node = plan.Imagined(state, torch.tensor([1.0]), torch.tensor([0.5]), 3, frames)
    assert planner._total(node).tolist() == [1 + 0.5**3 * 0.5 * 10]


def test_beyond_the_horizon_an_agent_s_values_count() -> None:
    """No reward is within two steps; the agent likes bright rows at the end of the trail."""

    class Far:
        actions, about, digest = 3, AgentAbout(env_id=TRAIL, action_meanings=MEANINGS), "far"

        def values(self, frames: Any) -> Any:
            assert frames.shape[1:] == (4, 84, 84)
            row = frames[:, -1, :70].mean(2).argmax(1)  # of 84, where the cell is
            return np.repeat(row[:, None], 3, 1).astype(np.float32)

    assert best((5, 0, 100), horizon=2) != [ON, ON] or best((4, 0, 100), horizon=2) != [ON, ON]
    assert best((5, 0, 100), horizon=2, value=Far()) == [ON, ON]
    assert best((4, 0, 100), horizon=2, value=Far(), search="tree", splits=2, hold=1) == [ON, ON]


def test_a_tree_compares_every_sequence_and_shares_their_beginnings(monkeypatch: pytest.MonkeyPatch) -> None:
    oracle, asked = SureOracle(), []
    predict = oracle.predict

    def counting(state: Any, action: Any) -> Any:
        asked.append(len(action))
        return predict(state, action)

    monkeypatch.setattr(oracle, "predict", counting)
    config = PlanConfig(search="tree", horizon=7, splits=2, hold=2, keep=1)
    Planner(oracle, config).plan(draw((5, 0, 100))[None], np.random.default_rng(0))
    assert asked == [3, 3, 9, 9, 9, 9, 9]


def test_a_changed_plan_is_taken_if_it_is_better_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans are worth the more, the more of their actions are those of a target."""
    targets = {"held": [ON] * 6, "mixed": [ON] * 3 + [BACK] * 3}
    for name, target in targets.items():
        monkeypatch.setattr(Planner, "_worth", lambda _, start, plans, target=target: (plans == target).mean(1))
        found = best((5, 0, 100), horizon=6, samples=40)
        right = int((np.array(found) == target).sum())
        assert right == 6 if name == "held" else right > 3, (name, found)


def test_changed_plans_differ_in_one_part() -> None:
    base = np.full(20, 7)
    changed = change_parts(base, 3, 200, np.random.default_rng(1))
    assert changed.shape == (200, 20)
    for row in changed:
        part = np.flatnonzero(row != 7)
        assert len(part)
        assert (np.diff(part) == 1).all()
        assert len(set(row[part].tolist())) == 1
    assert {int(action) for action in changed[changed != 7]} == {0, 1, 2}
    assert (base == 7).all()


class Counted(Planner):
    """Counts its plans."""

    def __init__(self, **options: Any) -> None:
        super().__init__(SureOracle(), PlanConfig(horizon=8, samples=4, **options))
        self.frames: list[Any] = []

    def plan(self, frames: Any, rng: Any, last: Any = None, actions: Any = ()) -> Any:
        self.frames.append((frames.copy(), None if last is None else last.copy()))
        return super().plan(frames, rng, last, actions)


def test_a_plan_is_played_for_some_steps_and_again_after_a_random_action() -> None:
    planner = Counted(keep=3)
    player = planner.policy(MEANINGS, np.random.default_rng(0))
    places = [(5 + min(step, 4), step, 100) for step in range(8)]
    actions = [player(draw(place)) for place in places[:4]]
    assert actions[:4] == [ON] * 4
    assert len(planner.frames) == 2
    assert [len(last) for _, last in planner.frames if last is not None] == [5]
    player.observe(draw(places[4]), STAY)
    player(draw(places[5]))
    assert len(planner.frames) == 3
    seen = planner.frames[-1][0]
    assert [int(frame.max()) for frame in seen] == [max(int(draw(place).max()) for place in [p]) for p in places[2:6]]
    assert len(planner.frames[-1][1]) == 8 - 1 - 1  # one action of the plan was played, one was replaced


class Remembering(SureOracle):
    """Keeps what it is given of the past."""

    def __init__(self) -> None:
        super().__init__(context=4)
        self.past: list[Any] = []

    def observe(self, frames: Any, actions: Any = None) -> Any:
        assert frames.shape[1] == actions.shape[1] + 1 == 4
        newest = self.normalizer.to_uint8(frames).numpy()[0]
        taken = [int(row.argmax()) if row.any() else None for row in actions[0]]
        self.past.append(([read(frame)[1] for frame in newest], taken))
        return super().observe(frames, actions)


def test_the_predictor_is_given_the_actions_between_the_frames() -> None:
    """Also those that were not the plan's; before the first frame, which is repeated, none is known."""
    oracle = Remembering()
    player = Planner(oracle, PlanConfig(horizon=4, samples=3, keep=1)).policy(MEANINGS, np.random.default_rng(0))
    for time, forced in enumerate((None, BACK, STAY, None, BACK, BACK, None)):
        frame = draw((6, time, 100))
        if forced is None:
            assert player(frame) == ON
        else:
            player.observe(frame, forced)
    assert oracle.past == [
        ([0, 0, 0, 0], [None, None, None]),
        ([0, 1, 2, 3], [ON, BACK, STAY]),
        ([3, 4, 5, 6], [ON, BACK, BACK]),
    ]


def test_missing_frames_before_an_episode_are_its_first_one() -> None:
    oracle = Remembering()
    given = np.stack([draw((6, time, 100)) for time in range(2)])
    Planner(oracle, PlanConfig(horizon=4, samples=3, keep=1)).plan(given, np.random.default_rng(0), actions=(BACK,))
    assert oracle.past == [([0, 0, 0, 1], [None, None, BACK])]


@pytest.mark.parametrize("play", ["collect", "evaluate"])
def test_random_actions_are_shown_to_a_player_with_their_frame(play: str, tmp_path: Path) -> None:
    """The frame after one that was shown is what the shown action leads to."""
    seen: list[tuple[Place, int]] = []
    random = 0

    class Watching:
        def __call__(self, frame: Any) -> int:
            seen.append((read(frame), ON))
            return ON

        def observe(self, frame: Any, action: int) -> None:
            nonlocal random
            random += 1
            seen.append((read(frame), action))

    policy = lambda meanings, rng: Watching()  # noqa: E731
    if play == "collect":
        config = CollectConfig(env_id=TRAIL, policy=("random",), epsilon=(0.5,), episodes=1, out=tmp_path / "data")
        collect(config, load=lambda name: policy)
    else:
        play_policy(policy, [make_game(TRAIL)], episodes=1, epsilon=0.5, seed=1)
    assert random > 3
    for (place, action), (after, _) in pairwise(seen):
        assert move(place, action)[0] == after


def test_planning_wins_every_episode_of_the_trail() -> None:
    games = [make_game(TRAIL) for _ in range(2)]
    planner = Planner(SureOracle(), PlanConfig(horizon=8, samples=8, keep=2))
    scores = play_policy(planner.policy, games, episodes=5, epsilon=0.0, seed=3)
    assert min(scores.scores) >= 1.0
    assert [episode.number for episode in scores.episodes] == list(range(5))
    alone = play_policy(planner.policy, games[:1], episodes=1, epsilon=0.0, seed=3, first=4)
    assert alone.episodes[0] == scores.episodes[4]


def test_a_policy_plays_the_episodes_of_an_agent_with_its_random_actions() -> None:
    """Any policy at ε = 1 acts as any agent at ε = 1; a constant one scores what the constant reference does."""
    games = [make_game(TRAIL)]
    options: dict[str, Any] = {"episodes": 3, "epsilon": 0.3, "seed": 8}
    references = evaluate.play_references(games, **options)
    for action, row in enumerate(references["constant"]["actions"]):
        policy = lambda meanings, rng, action=action: lambda frame: action  # noqa: E731
        assert play_policy(policy, games, **options).scores == row["scores"]


def saved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "load", lambda name: SureOracle())


def test_collect_and_evaluate_and_play_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(monkeypatch)
    name = "plan:oracle,horizon=8,samples=8,keep=2"
    config = CollectConfig(env_id=TRAIL, policy=(name,), epsilon=(0.1,), episodes=3, out=tmp_path / "data")
    store = collect(config, load=load_any_policy)
    assert [float(episode.rewards.max()) for episode in store] == [1.0] * 3
    again = collect(CollectConfig(**(vars(config) | {"out": tmp_path / "again"})), load=load_any_policy)
    assert store.digest == again.digest
    out = tmp_path / "out"
    arguments = ["agent", "evaluate", "--policy", name, "--env-id", TRAIL, "--episodes", "2", "--out", str(out)]
    assert main(arguments) == 0
    body = json.loads((out / "agent-evaluation.json").read_text())
    assert body["agent"] == name
    assert min(body["scores"]) >= 1.0
    assert body["references"]["constant"]["action"] == "ON"
    player = Players(name).policy(TRAIL)(MEANINGS, np.random.default_rng(0))
    assert player(draw((5, 0, 100))) == ON


def test_results_are_kept_by_weights_and_options(monkeypatch: pytest.MonkeyPatch) -> None:
    one = Planner(SureOracle(), PlanConfig()).identity
    assert one == Planner(SureOracle(), PlanConfig()).identity
    other = SureOracle()
    other.normalizer.set_mean(torch.full((12, 12, 3), 91.0))
    assert one != Planner(other, PlanConfig()).identity
    assert one != Planner(SureOracle(), PlanConfig(samples=7)).identity
    agents: list[Any] = [HashAgent(), HashAgent()]
    for number, agent in enumerate(agents):
        monkeypatch.setattr(agent, "digest", f"agent {number}", raising=False)
    assert len({Planner(SureOracle(), PlanConfig(), value=agent).identity for agent in (None, *agents)}) == 3


def test_options_of_a_plan() -> None:
    assert parse_plan("plan:freeway") == ("freeway", PlanConfig())
    assert parse_plan("plan:runs/a,search=tree,splits=3,hold=2,discount=0.9")[1] == PlanConfig(
        search="tree", splits=3, hold=2, discount=0.9
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("plan:", "name a predictor"),
        ("plan:freeway,samples", "'samples' is no option of planning"),
        ("plan:freeway,sample=3", "'sample=3' is no option of planning; write one of search, horizon"),
        ("plan:freeway,samples=many", "samples is a number, not 'many'"),
        ("plan:freeway,horizon=0", "--horizon 0: at least 1"),
        ("plan:freeway,horizon=4", "--keep 8: at most 4"),
        ("plan:freeway,discount=2", "--discount 2"),
        ("plan:freeway,search=deep", "search=deep: choose samples or tree"),
        ("plan:freeway,search=tree,splits=9", "need a horizon of 72"),
        ("plan:nothing", "no such folder"),
    ],
)
def test_names_that_do_not_plan(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_planner(name)


def test_predictors_and_games_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="planning needs rewards"):
        Planner(TrailOracle(heads=False)).plan(draw((5, 0, 9))[None], np.random.default_rng(0))
    with pytest.raises(UserError, match="knows the actions STAY ON BACK, this game has A B C"):
        Planner(SureOracle()).policy(("A", "B", "C"), np.random.default_rng(0))
    agent: Any = HashAgent(AgentAbout(env_id=TRAIL, action_meanings=("A", "B")))
    with pytest.raises(UserError, match="an agent of 2 actions, the predictor knows 3"):
        Planner(SureOracle(), value=agent)
    with pytest.raises(UserError, match="at most 100,000 plans"):
        Planner(SureOracle(), PlanConfig(search="tree", splits=11, hold=1)).plan(
            draw((5, 0, 9))[None], np.random.default_rng(0)
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "who is to play"),
        (["--agent", "freeway", "--policy", "random"], "who is to play"),
        (["--policy", "random"], "name the game to play with --env-id"),
    ],
)
def test_who_is_evaluated(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "evaluate", *words]) == 2
    assert message in capsys.readouterr().err
