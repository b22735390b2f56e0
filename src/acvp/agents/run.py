"""One run from a game to an agent: begin or resume → fit → agent and learning curve, or a clean stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from rich.console import Console
from stable_baselines3.common.logger import Logger

from acvp.actions import require_numbered
from acvp.agents.agent import OF_A_RUN, SIDE, Agent, AgentAbout, load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn, Exploration, RandomExploration, StickyRandomExploration
from acvp.agents.evaluate import (
    EVALUATION_STEPS,
    References,
    constant_label,
    describe_references,
    evaluation_seed,
    play_references,
    read_references,
    write_references,
)
from acvp.agents.presets import DqnConfig, make_dqn_config
from acvp.agents.trainer import AgentLog, AgentTrainer, TrainerState, kept_agent, restore
from acvp.agents.vec_env import AgentVecEnv, AleVecEnv, GameVecEnv
from acvp.artifacts import write_folder
from acvp.checkpoint import newest_good
from acvp.console import counted, err
from acvp.durable import write_atomic
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.exits import StoppedError, stop_signals
from acvp.figures import image
from acvp.harness import Display, Result, drop_later, exit_code, require_same, start
from acvp.models import keep_freed_memory, pick_device
from acvp.runs import RunFolder, default_path, write_results

AT_ONCE = 8
"""Episodes of the learning curve at the same time."""

MakeExploration = Callable[[AgentVecEnv], Exploration]
"""Makes a strategy for the games to learn in."""
MakeGames = Callable[[int], AgentVecEnv]
"""Makes that many games to learn in."""


def train_agent(
    config: AgentTrainConfig,
    console: Console | None = None,
    make_exploration: MakeExploration | None = None,
    make_games: MakeGames | None = None,
    weights: str | None = None,
    dqn_config: DqnConfig | None = None,
    *,
    initial: Agent | None = None,
    references: bool = True,
) -> Result:
    """Train until the budget is used up; stops by signal and by divergence come back as exit codes.

    `make_exploration` makes the strategies that are not made here: informed-model and informed-emulator; `make_games`
    makes imagined games to learn in. `weights` identify the predictor of either: a run resumes with the same ones only.
    `initial` is the agent to start from; without `references`, no constant actions and no learning curve are made.
    """
    keep_freed_memory()
    if config.device != "auto":
        pick_device(config.device)  # Stable-Baselines3 would use the CPU if the device is missing
    settings = dqn_config or make_dqn_config(config)
    console = console or err
    with stop_signals() as stop, _games(config, settings, make_games) as (env, judges), Display(console) as display:
        run = RunFolder(config.run or default_path(env.env_id, "dqn", config.seed))
        exploration = (make_exploration or _built_in(settings, config.seed))(env)
        with run.writing():
            _begin(config, run, settings, env, weights)
            dqn = AcvpDqn(settings, env, seed=config.seed, exploration=exploration, device=config.device)
            if initial is not None:
                dqn.start_from(initial.network)
            state = _restored(run, dqn, env, display)
            log = AgentLog(run, dqn.num_timesteps if state.evaluations else -1)
            dqn.set_logger(Logger(None, [log]))
            trainer = AgentTrainer(
                dqn, env, options=config, games=judges, run=run, display=display, log=log, stop=stop, state=state
            )
            try:
                code = exit_code(lambda: _fit(trainer, references), display, lambda: f"agent step {trainer.steps:,}")
            finally:
                log.close()
            return Result(code, run)


def _fit(trainer: AgentTrainer, references: bool) -> None:
    if trainer.progress < 1.0:
        _announce(trainer)
    trainer.fit()
    _finish(trainer, _references(trainer) if references else None)
    trainer.display.print(f"finished at agent step {trainer.steps:,}: {trainer.run.path / OF_A_RUN}")


def _references(trainer: AgentTrainer) -> References:
    """Return what the best constant action and random play score in the episodes of the curve's last point.

    They are played once, after training, and kept in the run's folder. If that is stopped, the same command resumes it.
    """
    settings, run, stop = trainer.settings, trainer.run, trainer.stop
    seed = evaluation_seed(trainer.options.seed, settings.evaluations)
    options: dict[str, Any] = {
        "episodes": settings.evaluate_episodes,
        "epsilon": settings.evaluate_epsilon,
        "seed": seed,
    }
    if (known := read_references(run.path, options)) is not None:
        return known

    def check_stop(done: int, total: int) -> None:
        if stop.number:
            raise StoppedError(stop.number)

    check_stop(0, 0)
    references = play_references(trainer.games, **options, progress=check_stop)
    write_references(run.path, options, references)
    trainer.display.print(f"in the episodes of the last score: {describe_references(references)}")
    return references


def _finish(trainer: AgentTrainer, references: References | None) -> None:
    """Write the length of the whole run into the agent's card, and draw the learning curve beside the references."""
    folder, settings = trainer.run.path / OF_A_RUN, trainer.settings
    agent = load_agent(folder)
    which = "the last" if trainer.options.imagined else "the best"
    training = f"{trainer.about().training}; {which} of {settings.evaluations + 1} points of the learning curve"
    agent.about = replace(agent.about, training=training)
    agent.save(folder)
    if references is not None:
        write_curve(trainer.run, folder, agent.about, references)


def _announce(trainer: AgentTrainer) -> None:
    """Print what will be trained and what it needs, before the first agent step."""
    settings, dqn, display = trainer.settings, trainer.dqn, trainer.display
    count = sum(weight.numel() for weight in dqn.q_net.parameters())
    limits = [f"{settings.steps:,} agent steps"] if settings.steps else []
    limits += [f"{settings.minutes:.3g} minutes"] if settings.minutes else []
    display.print(f"run: {trainer.run.path}")
    display.print(f"DQN of {trainer.env.env_id}, preset {settings.name}, {count:,} weights, on {dqn.device}")
    display.print(
        f"{counted(settings.games, 'game')} at once, {counted(settings.steps_per_update, 'agent step')} per update, "
        f"exploration {settings.exploration}, until {' or '.join(limits)}"
    )
    display.print(f"memory: {settings.replay * SIDE**2 / 1e9:.2f} GB of replay once it is full, and about 1 GB besides")


@contextmanager
def _games(
    config: AgentTrainConfig, settings: DqnConfig, make_games: MakeGames | None
) -> Iterator[tuple[AgentVecEnv, list[Game]]]:
    """Open the games to learn in, and those of the learning curve."""
    if (config.imagined is None) != (make_games is None):
        raise UserError("train_agent needs make_games for --imagined, and takes it for nothing else")
    with ExitStack() as stack:

        def make(max_steps: int | None) -> Game:
            return stack.enter_context(
                make_game(config.env_id, max_steps=max_steps, import_module=config.import_module)
            )

        first = make(None if make_games else config.max_steps)  # --max-steps is of the games to learn in
        require_numbered(first.action_range, "acvp agent train")
        limit = min(EVALUATION_STEPS, first.limit or EVALUATION_STEPS)
        judges = [make(limit) for _ in range(min(settings.evaluate_episodes, AT_ONCE))]
        env: AgentVecEnv
        if make_games is not None:
            env = make_games(settings.games)
            if (env.env_id, env.action_meanings) != (first.env_id, tuple(first.action_meanings)):
                theirs, ours = (f"{game.env_id} with {', '.join(game.action_meanings)}" for game in (env, first))
                raise UserError(f"--imagined {config.imagined} is a game of {theirs}, not of {ours}")
        elif config.emulator == "ale":
            env = stack.enter_context(closing(AleVecEnv(first, settings.games, config.seed)))
        else:
            env = GameVecEnv([first, *(make(config.max_steps) for _ in range(settings.games - 1))], config.seed)
        yield env, judges


def _built_in(settings: DqnConfig, seed: int) -> MakeExploration:
    """Return a function that makes the strategy of the settings."""
    if settings.exploration == "random":
        return lambda env: RandomExploration(len(env.action_meanings), seed)
    if settings.exploration == "sticky-random":
        return lambda env: StickyRandomExploration(len(env.action_meanings), seed, env.num_envs)
    raise UserError(f"train_agent needs make_exploration for the strategy {settings.exploration}")


def _begin(
    config: AgentTrainConfig, run: RunFolder, settings: DqnConfig, env: AgentVecEnv, weights: str | None
) -> None:
    """Start a run, or refuse to resume one with another config."""
    body: dict[str, Any] = {
        "env_id": env.env_id,
        "dqn": settings.to_dict(),
        "seed": config.seed,
        "max_steps": config.max_steps,
        "emulator": config.emulator,
        "predictor": None if config.predictor is None else str(config.predictor),
        "imagined": None if config.imagined is None else [str(config.imagined), str(config.data)],
        "weights": weights,
        "delta": config.delta,
        "look_ahead": config.look_ahead,
    }
    defaults = {"weights": weights}  # not in early runs
    start(run, body, resume=config.resume, check=lambda before: require_same(run, defaults | before, body))


def _restored(run: RunFolder, dqn: AcvpDqn, env: AgentVecEnv, display: Display) -> TrainerState:
    """Return the state of the run, with the DQN and its games restored from its newest checkpoint if it has one."""
    checkpoint = newest_good(run.checkpoints, display.print)
    if checkpoint is None:
        drop_later(run)
        return TrainerState()
    state = restore(checkpoint, dqn, env)
    if kept := kept_agent(checkpoint):
        write_folder(run.path / OF_A_RUN, kept)
    drop_later(run, checkpoint.step, state.lines)
    display.print(f"resuming from agent step {checkpoint.step:,}")
    return state


NUMBERS_NAME, PICTURE_NAME = "learning-curve.json", "learning-curve.png"
FIELDS = ("step", "updates", "seconds", "epsilon", "mean", "standard_error", "scores")


def write_curve(run: RunFolder, folder: Path, about: AgentAbout, references: References) -> None:
    """Write the learning curve of a finished run beside its agent, with the scores that it has to beat."""
    points = [{name: line[name] for name in FIELDS} for line in run.metrics() if line["kind"] == "evaluation"]
    body = {
        "what": "mean score of an agent while it learned; step counts agent steps of all games, seconds are wall-clock",
        "env_id": about.env_id,
        "training": about.training,
        "points": points,
        "references": references,
    }
    write_results(folder / NUMBERS_NAME, body, seed=run.read_config().get("seed"))
    write_atomic(folder / PICTURE_NAME, picture(points, about.env_id, references))


def picture(points: list[dict[str, Any]], env_id: str, references: References) -> bytes:
    """Return the curve as PNG: mean and standard error over agent steps, every episode, and the references."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    steps = [point["step"] / 1000 for point in points]
    means = [point["mean"] for point in points]
    errors = [point["standard_error"] or 0.0 for point in points]
    for step, point in zip(steps, points, strict=True):
        axes.plot([step] * len(point["scores"]), point["scores"], ".", color="0.75", markersize=4)
    axes.errorbar(steps, means, errors, color="C0", marker="o", markersize=4, capsize=2)
    lines = ((constant_label(references["constant"]), "constant", "-."), ("random", "random", ":"))
    for label, name, line in lines:
        axes.axhline(references[name]["mean"], color="0.4", linestyle=line, linewidth=1.2, label=label)
    axes.legend(fontsize=8, frameon=False)
    axes.set(title=f"DQN of {env_id}", xlabel="thousand agent steps", ylabel="score")
    axes.grid(alpha=0.3)
    return image(figure, "png")
