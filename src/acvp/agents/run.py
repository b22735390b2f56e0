"""One run from a game to an agent: setup → fit → agent, or a clean stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Console
from stable_baselines3.common.logger import Logger

from acvp.agents.agent import OF_A_RUN, load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn, DivergedError
from acvp.agents.exploration import Exploration, RandomExploration, StickyRandomExploration
from acvp.agents.log import AgentLog, Display, write_curve
from acvp.agents.network import SIDE
from acvp.agents.presets import DqnConfig, make_dqn_config
from acvp.agents.references import (
    EVALUATION_STEPS,
    References,
    describe_references,
    evaluation_seed,
    play_references,
    read_references,
    write_references,
)
from acvp.agents.state import Position, kept_agent, restore
from acvp.agents.trainer import AgentTrainer
from acvp.agents.vec_env import AgentVecEnv, AleVecEnv, GameVecEnv
from acvp.artifacts import write_folder
from acvp.checkpoint import forget_after, newest_good
from acvp.console import err
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.exits import StoppedError, stop_signals
from acvp.models import keep_freed_memory
from acvp.runs import RunFolder, default_path, differences

EXIT_DONE, EXIT_DIVERGED = 0, 1
AT_ONCE = 8
"""Plays of the learning curve at the same time."""

MakeExploration = Callable[[AgentVecEnv], Exploration]
"""Makes a strategy for the games that are going to be played."""
MakeGames = Callable[[int], AgentVecEnv]
"""Makes so many games to learn in."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    exit_code: int
    run: RunFolder


def train_agent(
    config: AgentTrainConfig,
    console: Console | None = None,
    make_exploration: MakeExploration | None = None,
    make_games: MakeGames | None = None,
    weights: str | None = None,
) -> Result:
    """Train until the budget is used up; stops by signal and by divergence come back as exit codes.

    `make_exploration` makes the strategies that are not made here: informed-model and informed-emulator; `make_games`
    makes imagined games to learn in. `weights` identify the predictor that either asks: a run goes on with no others.
    """
    keep_freed_memory()
    settings = make_dqn_config(config)
    console = console or err
    with stop_signals() as stop, _games(config, settings, make_games) as (env, judges), Display(console) as display:
        run = RunFolder(config.run or default_path(env.env_id, "dqn", config.seed))
        exploration = (make_exploration or _built_in(settings, config.seed))(env)
        with run.writing():
            _begin(config, run, settings, env, weights)
            dqn = AcvpDqn(settings, env, seed=config.seed, exploration=exploration, device=config.device)
            position = _restored(run, dqn, env, display)
            log = AgentLog(run, dqn.num_timesteps if position.evaluations else -1)
            dqn.set_logger(Logger(None, [log]))
            trainer = AgentTrainer(
                dqn, env, options=config, games=judges, run=run, display=display, log=log, stop=stop, position=position
            )
            try:
                return Result(_fit(trainer), run)
            finally:
                log.close()


def _fit(trainer: AgentTrainer) -> int:
    """Train and return the exit code."""
    display, run = trainer.display, trainer.run
    try:
        if trainer.progress < 1.0:
            _announce(trainer)
        trainer.fit()
        _finish(trainer, _references(trainer))
    except DivergedError as error:
        display.say(f"acvp: {error}; the last checkpoint is untouched")
        return EXIT_DIVERGED
    except StoppedError as stopped:
        display.say(f"acvp: stopped by {stopped} at decision {trainer.decisions:,} and saved; the same command goes on")
        return stopped.exit_code
    display.say(f"finished at decision {trainer.decisions:,}: {run.path / OF_A_RUN}")
    return EXIT_DONE


def _references(trainer: AgentTrainer) -> References:
    """Return what the best constant action and random play score in the episodes of the curve's last point.

    They are played once, when learning is over, and kept in the run's folder. A stop before they are done is one of
    the run, which the same command finishes.
    """
    settings, run, stop = trainer.settings, trainer.run, trainer.stop
    seed = evaluation_seed(trainer.options.seed, settings.evaluations)
    options: dict[str, Any] = {"episodes": settings.evaluate_plays, "epsilon": settings.evaluate_epsilon, "seed": seed}
    if (known := read_references(run.path, options)) is not None:
        return known

    def look_after(done: int, total: int) -> None:
        if stop.number:
            raise StoppedError(stop.number)

    look_after(0, 0)
    references = play_references(trainer.games, **options, progress=look_after)
    write_references(run.path, options, references)
    trainer.display.say(f"in the episodes of the last score: {describe_references(references)}")
    return references


def _finish(trainer: AgentTrainer, references: References) -> None:
    """Tell in the finished agent's card how long the whole run was, and draw the learning curve."""
    folder, settings = trainer.run.path / OF_A_RUN, trainer.settings
    agent = load_agent(folder)
    which = "the last" if trainer.options.imagined else "the best"
    training = f"{trainer.about().training}; {which} of {settings.evaluations + 1} points of the learning curve"
    agent.about = replace(agent.about, training=training)
    agent.save(folder)
    write_curve(trainer.run, folder, agent.about, references)


def _announce(trainer: AgentTrainer) -> None:
    """Print what is going to happen and what it needs, before the first decision."""
    settings, dqn, display = trainer.settings, trainer.dqn, trainer.display
    count = sum(weight.numel() for weight in dqn.q_net.parameters())
    ends = [f"{settings.decisions:,} decisions"] if settings.decisions else []
    ends += [f"{settings.minutes:.3g} minutes"] if settings.minutes else []
    display.say(f"run: {trainer.run.path}")
    display.say(f"DQN of {trainer.env.env_id}, preset {settings.name}, {count:,} weights, on {dqn.device}")
    display.say(
        f"{settings.games} games at once, an update every {settings.decisions_per_update} decisions, exploration "
        f"{settings.exploration}, until {' or '.join(ends)}"
    )
    display.say(f"memory: {settings.replay * SIDE**2 / 1e9:.2f} GB of replay once it is full, and about 1 GB besides")


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
        limit = min(EVALUATION_STEPS, first.limit or EVALUATION_STEPS)
        judges = [make(limit) for _ in range(min(settings.evaluate_plays, AT_ONCE))]
        env: AgentVecEnv
        if make_games is not None:
            env = make_games(settings.games)
            if (env.env_id, env.action_meanings) != (first.env_id, tuple(first.action_meanings)):
                theirs, ours = (f"{each.env_id} with {', '.join(each.action_meanings)}" for each in (env, first))
                raise UserError(f"--imagined {config.imagined} is a game of {theirs}, not of {ours}")
        elif config.emulator == "ale":
            env = stack.enter_context(closing(AleVecEnv(first, settings.games, config.seed)))
        else:
            env = GameVecEnv([first, *(make(config.max_steps) for _ in range(settings.games - 1))], config.seed)
        yield env, judges


def _built_in(settings: DqnConfig, seed: int) -> MakeExploration:
    """Return what makes the strategy that the settings name."""
    if settings.exploration == "random":
        return lambda env: RandomExploration(len(env.action_meanings), seed)
    if settings.exploration == "sticky-random":
        return lambda env: StickyRandomExploration(len(env.action_meanings), seed, env.num_envs)
    raise UserError(f"train_agent needs make_exploration for the strategy {settings.exploration}")


def _begin(
    config: AgentTrainConfig, run: RunFolder, settings: DqnConfig, env: AgentVecEnv, weights: str | None
) -> None:
    """Start the run's folder, or refuse one that was started otherwise."""
    wanted: dict[str, Any] = {
        "env_id": env.env_id,
        "dqn": settings.to_dict(),
        "seed": config.seed,
        "max_steps": config.max_steps,
        "emulator": config.emulator,
        "predictor": None if config.predictor is None else str(config.predictor),
        "imagined": None if config.imagined is None else [str(config.imagined), str(config.store)],
        "weights": weights,
        "delta": config.delta,
        "look_ahead": config.look_ahead,
    }
    if not run.begun:
        run.write_config(wanted)
    elif config.resume == "never":
        raise UserError(f"{run.path} has begun already; choose another --run, or go on with --resume auto")
    elif changed := differences({"weights": weights} | run.read_config(), wanted):  # not noted in early runs
        raise UserError(f"{run.path} was started with another config: {'; '.join(changed)}; choose another --run")
    run.note_start()


def _restored(run: RunFolder, dqn: AcvpDqn, env: AgentVecEnv, display: Display) -> Position:
    """Return where the run is, with the DQN and its games put there."""
    checkpoint = newest_good(run.checkpoints, display.say)
    if checkpoint is None:
        run.forget_metrics_after(-1)
        return Position()
    position = restore(checkpoint, dqn, env)
    run.forget_metrics_after(checkpoint.step, position.lines)
    if kept := kept_agent(checkpoint):
        write_folder(run.path / OF_A_RUN, kept)
    forget_after(run.checkpoints, checkpoint.step)
    display.say(f"going on from decision {checkpoint.step:,}")
    return position
