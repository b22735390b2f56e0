"""`acvp agent learn`: the budget, what a round leaves, a stop in every part of a round, and what is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from rich.console import Console

from acvp.agents.agent import load_agent
from acvp.agents.evaluate import evaluation_seed
from acvp.agents.trainer import AgentTrainer
from acvp.control import loop, rounds
from acvp.data.collect import EpisodePlayer
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.envs.toy import ToyGame
from acvp.errors import UserError
from acvp.loaded import LoadedModel, load
from acvp.models import fingerprint
from acvp.models.baselines import CopyLastFrame, CopyLastFrameConfig
from acvp.models.layers import Calibration
from acvp.runs import RunFolder
from acvp.training.trainer import Trainer
from tests.agents.short_runs import SHORT
from tests.agents.small import SMALL_TOY
from tests.control.short_loops import BUDGET, ROUNDS, config, learn, shorten


@pytest.fixture(autouse=True, scope="module")
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        yield


class Emulator:
    """Counts the steps of every toy game: those that are recorded, and others."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.recorded = self.others = 0
        self.recording = False
        step, play = ToyGame.step, EpisodePlayer.__call__

        def counting(game: Any, action: Any) -> Any:
            self.recorded += self.recording
            self.others += not self.recording
            return step(game, action)

        def recording(player: Any, number: int) -> Any:
            self.recording = True
            try:
                return play(player, number)
            finally:
                self.recording = False

        patch.setattr(ToyGame, "step", counting)
        patch.setattr(EpisodePlayer, "__call__", recording)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Emulator]:
    """A run that nothing has stopped, and the steps of its emulators."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with pytest.MonkeyPatch.context() as patch:
        emulator = Emulator(patch)
        assert learn(folder, references=True) == 0
    return folder, emulator


def rounds_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_the_budget_is_a_hard_limit_counted_in_the_emulator(whole: tuple[Path, Emulator]) -> None:
    folder, emulator = whole
    stores = [EpisodeStore(folder / "data" / f"{number:02d}") for number in range(ROUNDS)]
    stored = [sum(entry.frames - 1 for entry in store.entries) for store in stores]
    assert emulator.recorded == sum(stored) <= BUDGET
    assert sum(stored) > 0.7 * BUDGET
    assert stored[0] <= BUDGET // ROUNDS
    assert [line["step"] for line in rounds_of(folder)] == np.cumsum(stored).tolist()
    assert [line["real_steps"] for line in rounds_of(folder)] == stored
    assert emulator.others > 0  # evaluation, of which nothing is recorded


def test_a_round_is_logged_with_scores_errors_and_time(whole: tuple[Path, Emulator]) -> None:
    folder, _ = whole
    first, second = rounds_of(folder)
    assert first["errors_on_newest"] is None  # there was no predictor yet
    assert set(second["errors_on_newest"]["squared_error"]) == {str(step) for step in range(1, 11)}
    assert second["errors_on_newest"]["reward"]["area_under_curve"]
    for number, line in enumerate((first, second)):
        store = EpisodeStore(folder / "data" / f"{number:02d}")
        assert line["recorded"]["scores"] == [float(episode.rewards.sum()) for episode in store]
        assert len(line["evaluation"]["scores"]) == 1
        assert set(line["seconds"]) == {"collect", "predictor", "agent"}
        assert all(part["wall"] >= 0 and part["processor"] >= 0 for part in line["seconds"].values())
    report = json.loads((folder / "learning.json").read_text())
    assert report["references"]["constant"]["action"] in ToyGame().get_action_meanings()
    assert report["core_minutes"] >= 0
    assert (folder / "plots" / "learning.png").read_bytes().startswith(b"\x89PNG")


def test_every_round_starts_from_the_weights_before(whole: tuple[Path, Emulator]) -> None:
    """Four small updates change little: far less than other initial weights would."""
    folder, _ = whole
    one, two = (load(folder / "rounds" / number / "predictor-run").state_dict() for number in ("00", "01"))
    names = [name for name in one if name.endswith("weight")]
    apart = sum(float((one[name] - two[name]).abs().mean()) for name in names)
    assert 0 < apart < 0.1 * sum(float(one[name].abs().mean()) for name in names)
    agents = [load_agent(folder / "rounds" / number / "agent-run") for number in ("00", "01")]
    assert load_agent(folder).digest == agents[1].digest != agents[0].digest


def test_who_records(whole: tuple[Path, Emulator]) -> None:
    folder, _ = whole
    policies = [EpisodeStore(folder / "data" / number).info.policy for number in ("00", "01")]
    assert policies[0] == "sticky-random"
    assert "agent:" in policies[1]
    assert "informed:" in policies[1]


@pytest.mark.parametrize(("explore_rounds", "informed"), [(1, False), (2, True)])
def test_informed_exploration_ends_after_its_rounds(
    whole: tuple[Path, Emulator], explore_rounds: int, informed: bool
) -> None:
    with make_game(SMALL_TOY) as game:
        options = config(whole[0], explore_rounds=explore_rounds)
        place = loop.Loop(options, RunFolder(whole[0]), game, Console(file=io.StringIO())).rounds[1]
        assert any(name.startswith(rounds.INFORMED) for name in place._policies()) == informed


def test_references_play_the_episodes_of_the_last_score(
    whole: tuple[Path, Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(loop, "play_references", lambda games, **options: asked.append(options["seed"]))
    with make_game(SMALL_TOY) as game:
        loop.Loop(config(whole[0]), RunFolder(whole[0]), game, Console(file=io.StringIO()))._references()
    log = RunFolder(whole[0] / "rounds" / "01" / "agent-run").metrics()
    evaluations = [line for line in log if line["kind"] == "evaluation"]
    seed = rounds.agent_seed(config(whole[0]), ROUNDS - 1)
    assert asked == [evaluation_seed(seed, len(evaluations) - 1)]


def test_what_is_held_out_in_a_round_was_never_trained_on(whole: tuple[Path, Emulator]) -> None:
    runs = [RunFolder(whole[0] / "rounds" / f"{number:02d}" / "predictor-run") for number in range(ROUNDS)]
    first, second = (set(run.read_config()["held_out"]) for run in runs)
    episodes = len(EpisodeStore(whole[0] / "data" / "00"))
    assert first
    assert {position for position in second if position < episodes} == first


class Asked(Exception):
    """A part was asked for."""


def second_round(folder: Path, game: Any) -> rounds.Round:
    return loop.Loop(config(folder), RunFolder(folder), game, Console(file=io.StringIO())).rounds[1]


def test_a_later_round_asks_for_the_agent_before_and_for_what_is_left(
    whole: tuple[Path, Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It learns from the weights before with less exploration, and records what earlier rounds have left, too."""

    def ask(*arguments: Any, **options: Any) -> None:
        raise Asked(arguments, options)

    monkeypatch.setattr(rounds, "train_agent", ask)
    monkeypatch.setattr(rounds, "collect", ask)
    with make_game(SMALL_TOY) as game:
        later = second_round(whole[0], game)
        with pytest.raises(Asked) as agent:
            later.train_agent()
        with pytest.raises(Asked) as data:
            later.collect()
    arguments, options = agent.value.args
    assert options["initial"] is not None
    assert options["initial"].digest == load_agent(later.earlier[0].agent).digest
    assert arguments[-1].epsilon_first == min(SHORT.epsilon_first, rounds.LATER_EPSILON) < SHORT.epsilon_first
    (asked,), _ = data.value.args
    left = BUDGET - rounds.real_steps(EpisodeStore(later.earlier[0].data))
    assert left > BUDGET // ROUNDS
    assert asked.max_steps == left // rounds.EPISODES


def test_heads_are_calibrated_on_held_out_episodes_first(
    whole: tuple[Path, Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(predictor: Any, view: Any, store: EpisodeStore, **options: Any) -> Calibration:
        sizes.append(len(store))
        return Calibration(reward_scale=2.0)

    monkeypatch.setattr(rounds, "calibrate", counted)
    monkeypatch.setattr(rounds.Round, "calibration", tmp_path / "calibration.json")
    with make_game(SMALL_TOY) as game:
        later = second_round(whole[0], game)
        later.calibrate()
    assert sizes == [len(RunFolder(later.predictor).read_config()["held_out"])]
    assert json.loads((tmp_path / "calibration.json").read_text())["reward_scale"] == 2.0


def test_errors_of_copying_are_those_of_a_predictor_that_copies(
    whole: tuple[Path, Emulator], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = EpisodeStore(whole[0] / "data" / "00")
    copying = CopyLastFrame(CopyLastFrameConfig(actions=5, frame=store.info.frame_shape))
    copying.context = 3
    monkeypatch.setattr(copying, "next_frame", lambda given, action: (given[:, -3:].clone(), None))  # of three frames
    monkeypatch.setattr(rounds, "measure_outcomes", lambda *_, **__: {})
    found = rounds.errors_on(LoadedModel(name="copy", predictor=copying.eval(), view=RGB), store, seed=1)
    assert found["squared_error"] == pytest.approx(found["copy_last_frame"], rel=1e-4)
    assert min(found["copy_last_frame"].values()) > 0


def test_a_round_is_logged_with_its_last_evaluation_and_its_own_time(
    whole: tuple[Path, Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    for part in ("errors", "train_predictor", "calibrate", "train_agent"):  # all are finished
        monkeypatch.setattr(rounds.Round, part, lambda *_: None)
    monkeypatch.setattr(rounds.Round, "collect", lambda place: EpisodeStore(place.data))
    log = folder / "rounds" / "01" / "agent-run" / "metrics.jsonl"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    evaluations = [line for line in lines if line["kind"] == "evaluation"]
    for mean, line in enumerate(evaluations):
        line["mean"] = float(mean)
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    times = [{"round": number, "part": "agent", "wall": 1e9 - number, "processor": 0.0} for number in (0, 1, 1)]
    (folder / "times.jsonl").write_text("".join(json.dumps(line) + "\n" for line in times))
    with make_game(SMALL_TOY) as game:
        place = second_round(folder, game)
        last = loop.Loop(config(folder), RunFolder(folder), game, Console(file=io.StringIO()))._round(place)
    assert len(evaluations) == 2
    assert last["evaluation"]["mean"] == 1.0
    assert 2e9 - 2 <= last["seconds"]["agent"]["wall"] < 3e9 - 2  # of the two starts of this round, and of now


def actions_of(data: Path) -> list[list[int]]:
    return [episode.actions.tolist() for episode in EpisodeStore(data)]


def last_round_again(whole: Path, folder: Path) -> None:
    """A copy of a run whose last round is not begun."""
    shutil.copytree(whole, folder)
    shutil.rmtree(folder / "data" / "01")
    shutil.rmtree(folder / "rounds" / "01")
    (folder / "metrics.jsonl").write_text(json.dumps(rounds_of(whole)[0]) + "\n")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rounds/01/calibration.json", '"x"'),
        ("rounds/01/calibration.json", '{"lost_life_threshold": -1}'),
        ("rounds/01/errors.json", "3"),
        ("times.jsonl", "3\n"),
        ("times.jsonl", '{"round": 1, "part": "agent", "wall": "x"}\n'),
        ("metrics.jsonl", '{"kind": "round"}\n'),
        ("metrics.jsonl", '{"kind": "round", "round": 0, "step": 1, "seconds": {}, "recorded": {"mean": NaN, '
         '"standard_error": 1}, "evaluation": {"mean": 1, "standard_error": null}}\n'),
    ],
)  # fmt: skip
def test_a_damaged_file_of_a_run_is_named(whole: tuple[Path, Emulator], tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole[0], folder)
    (folder / "metrics.jsonl").write_text(json.dumps(rounds_of(whole[0])[0]) + "\n")
    shutil.rmtree(folder / "rounds" / "01" / "agent-run")
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=rf"{Path(name).name}: damaged \("):
        learn(folder, references=True)


STOPS = {
    "collect": (EpisodePlayer, "__call__"),
    "predictor": (Trainer, "gradients"),
    "calibration": (rounds, "calibrate"),
    "agent": (AgentTrainer, "_before_round"),
}


@pytest.mark.parametrize("part", STOPS)
def test_a_stop_in_every_part_of_a_round(
    whole: tuple[Path, Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """A call of the part is interrupted; moved and run again, it finishes and repeats nothing that was finished."""
    folder = tmp_path / "run"
    last_round_again(whole[0], folder)
    owner, name = STOPS[part]
    real, calls = getattr(owner, name), 0

    def stopping(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (1 if part == "calibration" else 3):
            if part in ("collect", "calibration"):
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGTERM)
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, stopping)
        if part in ("collect", "calibration"):
            with pytest.raises(KeyboardInterrupt):
                learn(folder, references=True)
        else:
            assert learn(folder, references=True) == 128 + signal.SIGTERM
    assert len(rounds_of(folder)) == 1
    folder = folder.rename(tmp_path / "moved")
    emulator = Emulator(monkeypatch)
    assert learn(folder, references=True) == 0
    for kept in ("data/00", "data/01"):
        assert actions_of(folder / kept) == actions_of(whole[0] / kept)
    predictor = "rounds/01/predictor-run"
    assert fingerprint(load(folder / predictor)) == fingerprint(load(whole[0] / predictor))
    assert (emulator.recorded > 0) == (part == "collect")
    lines = (folder / "times.jsonl").read_text().splitlines()
    assert len([line for line in lines if json.loads(line)["round"] == 1]) > 3
    if part != "agent":  # an imagined game begins again where it was stopped
        assert load_agent(folder).digest == load_agent(whole[0]).digest


def test_a_finished_run_does_nothing_again(
    whole: tuple[Path, Emulator], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    emulator = Emulator(monkeypatch)
    before = rounds_of(whole[0])
    with pytest.raises(UserError, match="references: True → False"):
        learn(whole[0])
    assert learn(whole[0], references=True) == 0
    assert rounds_of(whole[0]) == before
    assert emulator.recorded == 0


def test_a_budget_smaller_than_the_context(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"--budget 30: an episode of one of 2 rounds has 3 agent steps.*needs 4 frames"
    ):
        learn(tmp_path / "run", budget=30)
    assert not (tmp_path / "run" / "data").exists()


class Dull(ToyGame):
    """A toy game without rewards."""

    def step(self, action: Any) -> Any:
        frame, _, terminated, truncated, info = super().step(action)
        return frame, 0.0, terminated, truncated, info


DULL = "acvp-tests/DullToy-v0"
if DULL not in gymnasium.registry:
    gymnasium.register(DULL, entry_point="tests.control.test_loop:Dull", kwargs={"size": 16}, max_episode_steps=100)


def test_a_game_without_rewards_in_the_data(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no reward in the .* real agent steps.*--policy that reaches rewards"):
        learn(tmp_path / "run", env_id=DULL)


def test_actions_that_have_changed_between_rounds(
    whole: tuple[Path, Emulator], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_round_again(whole[0], tmp_path / "run")
    monkeypatch.setattr(ToyGame, "get_action_meanings", lambda game: ["NOOP", "DOWN", "UP", "LEFT", "RIGHT"])
    with pytest.raises(
        UserError, match=r"has the actions NOOP DOWN UP .*, and had NOOP UP DOWN .* in the rounds before"
    ):
        learn(tmp_path / "run", references=True)


def test_another_config_is_refused(whole: tuple[Path, Emulator]) -> None:
    with pytest.raises(UserError, match="budget: 400 → 500"):
        learn(whole[0], budget=500, references=True)


def test_informed_exploration_records_an_episode(whole: tuple[Path, Emulator]) -> None:
    """It sees every frame, also where a random action is taken, and chooses among all actions."""
    policy = rounds.load_round_policy(whole[0], "informed:rounds/01/predictor-run")
    with make_game(SMALL_TOY) as game:
        player: Any = policy(game.action_meanings, np.random.default_rng(0))
        frame, chosen = game.reset(1), set()
        for step in range(12):
            if step % 4 == 3:
                action = 0
                player.observe(frame, action)
            else:
                action = player(frame)
            chosen.add(action)
            frame = game.step(action).frame
    assert player._strategy._steps == 12
    assert len(chosen) > 1
