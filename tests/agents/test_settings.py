from pathlib import Path

import pytest

from acvp.agents.config import AgentTrainConfig
from acvp.agents.presets import PRESETS, DqnConfig, make_dqn_config
from acvp.errors import UserError


def test_the_papers_settings_are_its_own() -> None:
    """Mnih et al., 2013, section 5."""
    paper = PRESETS["paper"]()
    assert (paper.network.channels, paper.network.kernels, paper.network.strides) == ((16, 32), (8, 4), (4, 2))
    assert paper.network.hidden == 256
    assert (paper.optimizer, paper.batch_size, paper.replay) == ("rmsprop", 32, 1_000_000)
    assert (paper.epsilon_first, paper.epsilon_last) == (1.0, 0.1)
    assert paper.steps is not None
    assert paper.epsilon_share * paper.steps == 1_000_000
    assert (paper.games, paper.steps_per_update, paper.return_steps, paper.target_every) == (1, 1, 1, 1)
    assert paper.evaluate_episodes == 100  # Oh et al., table 1


def test_the_cpu_preset_goes_by_the_clock() -> None:
    cpu = PRESETS["cpu"]()
    assert (cpu.minutes, cpu.steps) == (45, None)
    assert cpu.progress(10**9, 22.5 * 60) == 0.5


@pytest.mark.parametrize(
    ("games", "per_update", "rounds", "updates"), [(1, 4, 4, 1), (8, 4, 1, 2), (4, 4, 1, 1), (2, 8, 4, 1)]
)
def test_updates_keep_their_share_of_agent_steps(games: int, per_update: int, rounds: int, updates: int) -> None:
    settings = DqnConfig(games=games, steps_per_update=per_update)
    assert (settings.rounds_between_updates, settings.updates_of_a_round) == (rounds, updates)
    assert games * rounds / updates == per_update


def test_whatever_ends_first_is_the_progress() -> None:
    settings = DqnConfig(steps=100, minutes=1)
    assert settings.progress(50, 6) == 0.5
    assert settings.progress(50, 45) == 0.75
    assert settings.progress(500, 0) == 1


def test_the_command_line_changes_a_preset() -> None:
    def asked(**options: object) -> DqnConfig:
        return make_dqn_config(AgentTrainConfig(env_id="toy", run=Path(), **options))  # type: ignore[arg-type]

    assert asked() == PRESETS["cpu"]()
    assert (asked(steps=7).minutes, asked(steps=7).steps) == (None, 7)
    assert (asked(minutes=7).minutes, asked(preset="paper", minutes=7).steps) == (7, None)
    assert asked(exploration="random").exploration == "random"
    assert (asked(games=4).games, asked(replay=9_000).replay) == (4, 9_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": None}, "a run ends after some steps or minutes"),
        ({"games": 3, "steps_per_update": 2}, "one must divide the other"),
        ({"replay": 0}, "replay 0: at least 1"),
        ({"evaluate_episodes": 0}, "evaluate_episodes 0"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, int | None], message: str) -> None:
    with pytest.raises(UserError, match=message):
        DqnConfig(**changes)  # type: ignore[arg-type]
