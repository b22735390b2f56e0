import json
from pathlib import Path

import numpy as np
import pytest
import torch

from acvp.agents import agent as module
from acvp.agents.agent import (
    NATURE,
    PRETRAINED,
    Agent,
    AgentAbout,
    AgentError,
    NetworkConfig,
    ValueNetwork,
    load_agent,
    packaged_agents,
)
from acvp.artifacts import CARD_NAME, CONFIG_NAME, WEIGHTS_NAME, ArtifactError
from acvp.durable import seal, unseal
from acvp.envs import make_game
from acvp.errors import UserError
from tests.agents.small import TINY, TOY_ACTIONS, tiny_agent

RNG = np.random.default_rng(0)
FRAMES = RNG.integers(0, 256, (6, 4, 84, 84)).astype(np.uint8)


def test_the_network_of_2013_has_its_sizes() -> None:
    network = ValueNetwork(NetworkConfig(), 4)
    shapes = [tuple(weight.shape) for weight in network.parameters() if weight.ndim > 1]
    assert shapes == [(16, 4, 8, 8), (32, 16, 4, 4), (256, 32 * 9 * 9), (4, 256)]
    assert NATURE.side == 7
    assert network(torch.zeros(3, 4, 84, 84, dtype=torch.uint8)).shape == (3, 4)


def test_the_greedy_action_is_the_most_valuable() -> None:
    agent = tiny_agent()
    values = agent.values(FRAMES)
    assert values.shape == (6, 5)
    assert values.dtype == np.float32
    assert np.array_equal(agent.act(FRAMES), values.argmax(1))
    brighter = agent.values(FRAMES // 2)
    assert not np.array_equal(values, brighter)


def test_epsilon_is_the_share_of_random_actions_drawn_for_each_episode() -> None:
    agent, rng = tiny_agent(), np.random.default_rng(1)
    frames = np.repeat(FRAMES[:1], 500, 0)
    best = int(agent.act(FRAMES[:1])[0])
    acted = agent.act(frames, epsilon=0.5, rng=rng)
    assert (acted != best).mean() == pytest.approx(0.5 * 4 / 5, abs=0.06)
    assert set(acted) == set(range(5))


def test_exploring_needs_a_generator() -> None:
    with pytest.raises(AgentError, match=r"epsilon 0\.3 needs a generator"):
        tiny_agent().act(FRAMES, epsilon=0.3)


@pytest.mark.parametrize("frames", [FRAMES[0], FRAMES[:, :3], FRAMES.astype(np.float32), FRAMES[..., :80]])
def test_frames_of_another_kind_are_refused(frames: np.ndarray) -> None:
    with pytest.raises(AgentError, match=r"an agent sees uint8 of shape \(B, 4, 84, 84\), oldest frame first; got"):
        tiny_agent().values(frames)


def test_a_saved_agent_comes_back(tmp_path: Path) -> None:
    agent = tiny_agent()
    agent.save(tmp_path / "a")
    again = load_agent(tmp_path / "a")
    assert again.about == agent.about
    assert again.stack == 4
    assert again.actions == 5
    assert np.array_equal(again.values(FRAMES), agent.values(FRAMES))
    assert {p.name for p in (tmp_path / "a").iterdir()} == {WEIGHTS_NAME, CONFIG_NAME, CARD_NAME}
    card = (tmp_path / "a" / CARD_NAME).read_text()
    assert "NOOP, UP, DOWN" in card
    assert "none, by chance" in card


def test_half_the_bits_are_half_the_size_and_nearly_the_same_values(tmp_path: Path) -> None:
    torch.manual_seed(0)
    agent = Agent(ValueNetwork(NetworkConfig(), 18), AgentAbout(env_id="x", action_meanings=("a",) * 18))
    for name, half in (("full", False), ("half", True)):
        agent.save(tmp_path / name, half=half)
    sizes = [(tmp_path / name / WEIGHTS_NAME).stat().st_size for name in ("full", "half")]
    assert sizes[0] / sizes[1] == pytest.approx(2, abs=0.01)
    assert sizes[1] < 3e6
    assert load_agent(tmp_path / "half").values(FRAMES) == pytest.approx(agent.values(FRAMES), abs=1e-3)


def test_agents_are_found_by_name_and_in_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PRETRAINED", tmp_path / "pretrained")
    with pytest.raises(AgentError, match="unknown agent 'freeway': the package has none"):
        load_agent("freeway")
    tiny_agent("ALE/Freeway-v5", ("NOOP", "UP", "DOWN")).save(tmp_path / "pretrained" / "freeway")
    assert load_agent("freeway").about.env_id == "ALE/Freeway-v5"
    tiny_agent().save(tmp_path / "run" / "agent")
    assert load_agent(tmp_path / "run").about.env_id == "acvp/Toy-v0"
    with pytest.raises(AgentError, match=r"unknown agent 'pong': the package has freeway; or give the folder"):
        load_agent("pong")


def test_agents_of_the_package_are_small_and_whole() -> None:
    assert packaged_agents() == ["freeway", "ms_pacman", "qbert", "seaquest", "space_invaders"]
    for name in packaged_agents():
        files = {path.name: path.stat().st_size for path in (PRETRAINED / name).iterdir()}
        assert {WEIGHTS_NAME, CONFIG_NAME, CARD_NAME, "learning-curve.json", "learning-curve.png"} == files.keys()
        assert sum(files.values()) <= 3_000_000
        agent = load_agent(name)
        with make_game(name) as game:
            agent.check_actions(game.action_meanings, name)


@pytest.mark.parametrize("missing", [WEIGHTS_NAME, CONFIG_NAME])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    tiny_agent().save(tmp_path)
    (tmp_path / missing).unlink()
    with pytest.raises(ArtifactError, match=f"{missing}: cannot be read"):
        load_agent(tmp_path)


@pytest.mark.parametrize("name", [WEIGHTS_NAME, CONFIG_NAME])
def test_a_flipped_bit_anywhere_is_seen(tmp_path: Path, name: str) -> None:
    tiny_agent().save(tmp_path)
    file, rng = tmp_path / name, np.random.default_rng(3)
    whole = file.read_bytes()
    for place in rng.integers(0, len(whole), 40):
        data = bytearray(whole)
        data[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(data)
        with pytest.raises(ArtifactError, match=str(tmp_path)):
            load_agent(tmp_path)


@pytest.mark.parametrize(
    "change",
    [
        {"network": {"channels": [2], "kernels": [8], "strides": [4], "hidden": 8}},
        {"network": {"channels": [2, 4], "kernels": [8, 4], "strides": [4, 2], "hidden": 10**12}},
        {"network": {"channels": [2, 4], "kernels": [8, 99], "strides": [4, 2], "hidden": 8}},
        {"network": {}},
        {"network": 3},
        {"about": {"env_id": "x", "action_meanings": ["a"]}},
        {"about": {"env_id": "x", "action_meanings": list(TOY_ACTIONS), "stack": 3}},
        {"about": {"env_id": 1, "action_meanings": list(TOY_ACTIONS)}},
        {"about": None},
        {"format": "acvp-agent-9"},
        {"more": 1},
    ],
)
def test_a_sealed_configuration_that_makes_no_agent_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    tiny_agent().save(tmp_path)
    file = tmp_path / CONFIG_NAME
    file.write_bytes(seal(unseal(file.read_bytes()) | change))
    with pytest.raises(ArtifactError, match=r"do not make an agent|is not the configuration of an agent"):
        load_agent(tmp_path)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    agent = tiny_agent()
    torch.nn.init.constant_(agent.network.head.bias, float("nan"))
    agent.save(tmp_path)
    with pytest.raises(ArtifactError, match=r"head\.bias holds numbers that are not finite"):
        load_agent(tmp_path)


def test_an_agent_for_another_action_set_is_refused() -> None:
    agent = tiny_agent("ALE/Freeway-v5", ("NOOP", "UP", "DOWN"))
    agent.check_actions(("NOOP", "UP", "DOWN"), "freeway")
    with pytest.raises(AgentError, match=r"of ALE/Freeway-v5 has the actions NOOP UP DOWN, toy has NOOP .*: choose an"):
        agent.check_actions(TOY_ACTIONS, "toy")


def test_impossible_networks_are_refused() -> None:
    for sizes in ({"channels": (1,)}, {"hidden": 0}, {"kernels": (80, 9)}):
        with pytest.raises(UserError):
            NetworkConfig(**sizes)


def test_sizes_survive_json() -> None:
    assert NetworkConfig.from_dict(json.loads(json.dumps(TINY.to_dict()))) == TINY
