"""`acvp agent`: trains, evaluates, compares and imports agents, and learns in rounds."""

from __future__ import annotations

from pathlib import Path

from acvp.agents.config import (
    AgentCompareConfig,
    AgentEvaluateConfig,
    AgentImportConfig,
    AgentTrainConfig,
    require_stable_baselines3,
)
from acvp.cli.main import Verb, describe_knobs, run_config, turn, value_of
from acvp.console import counting, err, out, stages
from acvp.control.config import LearnConfig
from acvp.durable import new_folder
from acvp.errors import UserError
from acvp.exits import EXIT_OK

FIXED = {"name": "--preset", "exploration": "--exploration"}
"""Fields of the DQN config that no knob can set → where they come from."""
OF_A_FILE = ("env_id", "seed", "max_steps", "emulator", "predictor", "delta", "look_ahead")
"""Options that a run's config.json holds."""


def options_of_file(arguments: list[str]) -> list[str]:
    """Return the options of the run that --config names."""
    path = value_of("--config", arguments)
    if path is None:
        return []
    stored = run_config(Path(path))
    if not isinstance(stored.get("dqn"), dict):
        raise UserError(f"--config {path}: not the run of an agent; name a folder that acvp agent train has written")
    imagined, data = stored.get("imagined") or (None, None)
    values = {name: stored.get(name) for name in OF_A_FILE} | {"imagined": imagined, "data": data}
    values |= {"preset": stored["dqn"].get("name"), "exploration": stored["dqn"].get("exploration")}
    given = {name: value for name, value in values.items() if value is not None}
    return [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def run_train(config: AgentTrainConfig) -> int:
    """Train a DQN until its budget of steps or minutes is used up."""
    require_stable_baselines3()
    import acvp
    from acvp.agents.presets import config_from_dict, make_dqn_config
    from acvp.agents.run import train_agent
    from acvp.control.learning import imagined_games, informed_strategy
    from acvp.models import fingerprint

    base = None if config.config is None else config_from_dict(run_config(config.config).get("dqn", {}))
    dqn = turn(make_dqn_config(config, base), config.knobs, FIXED, VERBS["agent train"].known)
    if config.help_all:
        out.print(f"fields of the DQN config (preset {config.preset}), as options:")
        for line in describe_knobs(dqn, tuple(FIXED)):
            out.print(line)
        return EXIT_OK
    asked = config.predictor or config.imagined
    predictor = None if asked is None else acvp.load(asked)
    weights = None if predictor is None else fingerprint(predictor)
    make_exploration, make_games = informed_strategy(config, predictor), imagined_games(config, predictor)
    return train_agent(config, err, make_exploration, make_games, weights, dqn).exit_code


def run_learn(config: LearnConfig) -> int:
    """Learn in rounds until the budget of real agent steps is used up."""
    require_stable_baselines3()
    from acvp.control.loop import learn

    return learn(config, err)


def run_evaluate(config: AgentEvaluateConfig) -> int:
    """Let an agent play episodes, and print its score."""
    from acvp.agents.evaluate import evaluate_agent, score_lines

    with counting("playing", "episodes") as show:
        body = evaluate_agent(config, show)
    for line in score_lines(body):
        out.print(line)
    if config.out is not None:
        out.print(f"written to {config.out}")
    return EXIT_OK


def run_compare(config: AgentCompareConfig) -> int:
    """Draw the learning curves of several runs."""
    from acvp.control.compare import compare_agents, comparison_lines

    with stages() as stage:
        body = compare_agents(config, stage)
    for line in comparison_lines(body):
        out.print(line)
    out.print(f"written to {config.out}")
    return EXIT_OK


def run_import(config: AgentImportConfig) -> int:
    """Convert a DQN that Stable-Baselines3 saved."""
    require_stable_baselines3()
    from acvp.agents.dqn import import_agent

    with new_folder(config.out) as folder:
        import_agent(config.source, config.env_id, trust_pickle=config.trust_pickle).save(folder)
    out.print(f"written to {config.out}; look at it: acvp agent evaluate --agent {config.out}")
    return EXIT_OK


VERBS = {
    "agent train": Verb(
        options=AgentTrainConfig,
        run=run_train,
        example="acvp agent train --env-id freeway --lr 1e-4 --network.hidden 512 --run runs/agent",
        first=options_of_file,
    ),
    "agent learn": Verb(
        options=LearnConfig,
        run=run_learn,
        example="acvp agent learn --env-id freeway --budget 100000 --run runs/learn-freeway",
    ),
    "agent evaluate": Verb(
        options=AgentEvaluateConfig, run=run_evaluate, example="acvp agent evaluate --agent freeway"
    ),
    "agent compare": Verb(
        options=AgentCompareConfig,
        run=run_compare,
        example="acvp agent compare --runs runs/random runs/informed --out results",
    ),
    "agent import": Verb(
        options=AgentImportConfig,
        run=run_import,
        example="acvp agent import dqn.zip --env-id freeway --trust-pickle --out agents/freeway",
    ),
}
