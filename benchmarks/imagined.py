"""python -m benchmarks.imagined: what imagination is worth, at small and at full scale.

    python -m benchmarks.imagined planning            plans with a packaged predictor, beside constant and random play
    python -m benchmarks.imagined speed               imagined agent steps per second, beside the predictor's own speed
    python -m benchmarks.imagined loop --seed 1       acvp agent learn with 100,000 real agent steps, beside a DQN

Results go to results/imagined/. Scores are those of `acvp agent evaluate`; interrupted parts resume.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import tyro

import acvp
from acvp.agents.config import AgentEvaluateConfig, AgentTrainConfig
from acvp.agents.evaluate import evaluate_agent, score_lines
from acvp.agents.run import train_agent
from acvp.console import err
from acvp.control.config import LearnConfig
from acvp.control.learning import ImaginedVecEnv
from acvp.control.loop import FIGURE_NAME, REPORT_NAME, learn
from acvp.data.collect import CollectConfig, collect
from acvp.runs import PLOTS_NAME, write_results
from benchmarks.provenance import RESULTS

HOME = RESULTS / "imagined"


@dataclass(frozen=True, kw_only=True)
class Planning:
    """Score planning policies beside the best constant action and random play, in the same episodes."""

    game: str = "freeway"
    """Game to play."""
    policies: tuple[str, ...] = (
        "plan:freeway,horizon=12,samples=8,keep=4,value=freeway",
        "plan:freeway,horizon=80,samples=8,keep=20",
    )
    """Policies to score."""
    names: tuple[str, ...] = ("planning-value", "planning")
    """A name for each, of its folder in results/imagined/."""
    episodes: int = 3
    """Episodes of each policy."""
    max_steps: int | None = 400
    """Agent steps after which an episode is truncated. None: the game's limit."""
    epsilon: float = 0.05
    """Probability of a random action at each agent step."""
    seed: int = 1
    """Random seed of the episodes."""

    def run(self) -> None:
        """Play and write."""
        torch.set_num_threads(1)
        for name, policy in zip(self.names, self.policies, strict=True):
            config = AgentEvaluateConfig(
                policy=policy, env_id=self.game, episodes=self.episodes, epsilon=self.epsilon, seed=self.seed,
                max_steps=self.max_steps, out=HOME / f"{self.game}-{name}",
            )  # fmt: skip
            started = time.process_time()
            body = evaluate_agent(config, lambda done, total: None)
            lines = [*score_lines(body), f"{(time.process_time() - started) / 60:.1f} core-minutes in this process"]
            print("\n".join(lines), flush=True)


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Measure imagined agent steps per second of processor time, beside the predictor alone, taking turns."""

    game: str = "freeway"
    """Packaged predictor."""
    games: int = 8
    """Imagined games at once."""
    steps: int = 10
    """Agent steps of every game in a turn."""
    turns: int = 3
    """Turns of each."""
    horizon: int = 20
    """Agent steps of an imagined episode."""
    data: Path = Path("runs/imagined-speed")
    """Folder for the few frames that episodes start from."""
    seed: int = 1
    """Random seed."""

    def run(self) -> None:
        """Measure and write."""
        torch.set_num_threads(1)
        started = time.monotonic()
        store = collect(CollectConfig(env_id=self.game, out=self.data, frames=300, max_steps=150, seed=self.seed))
        predictor = acvp.load(self.game)
        env = ImaginedVecEnv(predictor, store, games=self.games, seed=self.seed, horizon=self.horizon)
        env.reset()
        frames = np.stack([store[0].frames()[: predictor.context]] * self.games)
        actions = torch.ones(self.games, dtype=torch.long)
        seconds: dict[str, list[float]] = {"env": [], "predictor": []}
        for _ in range(self.turns):
            before = time.process_time()
            for _ in range(self.steps):
                env.step(actions.numpy())
            seconds["env"].append(time.process_time() - before)
            with torch.inference_mode():
                state = predictor.observe(predictor.normalizer.to_float(torch.from_numpy(frames)))
                before = time.process_time()
                for _ in range(self.steps):
                    _, state = predictor.predict(state, actions)
            seconds["predictor"].append(time.process_time() - before)
        count = self.games * self.steps
        rates = {name: count / float(np.median(values)) for name, values in seconds.items()}
        body = {
            "what": "imagined agent steps per second of processor time on one thread, median of turns that alternate; "
            "env: ImaginedVecEnv.step with observations, rewards and new starts; predictor: predict alone",
            "game": self.game, "games": self.games, "horizon": self.horizon, "seconds": seconds, "per_second": rates,
            "share": rates["env"] / rates["predictor"],
        }  # fmt: skip
        path = write_results(HOME / f"{self.game}-speed.json", body, seed=self.seed, started=started)
        print(f"{rates['env']:.0f} of {rates['predictor']:.0f} per second: {body['share']:.0%}; {path}")


@dataclass(frozen=True, kw_only=True)
class Loop:
    """Learn in rounds from a budget of real agent steps, train a DQN in the real game with as many, and score both.

    About five core-hours a game with the defaults, by their minutes and an estimate of the agent's share.
    """

    game: str = "freeway"
    """Game to learn."""
    budget: int = 100_000
    """Real agent steps."""
    rounds: int = 10
    """Rounds of the loop."""
    minutes: float = 15.0
    """Wall-clock minutes of the predictor in each round, on one core."""
    agent_steps: int = 40_000
    """Imagined agent steps of each round."""
    episodes: int = 30
    """Episodes of each score."""
    epsilons: tuple[float, ...] = (0.0, 0.05)
    """Probabilities of a random action at which agents are scored."""
    seed: int = 1
    """Random seed."""
    runs: Path = Path("runs/imagined")
    """Folder of the runs."""

    def run(self) -> None:
        """Learn, or resume, and write the scores."""
        torch.set_num_threads(1)
        learned, real = (self.runs / f"{self.game}-{name}-{self.seed}" for name in ("loop", "dqn"))
        stop_on(
            learn(
                LearnConfig(
                    env_id=self.game, run=learned, budget=self.budget, rounds=self.rounds, minutes=self.minutes,
                    agent_steps=self.agent_steps, seed=self.seed,
                ),
                err,
            )
        )  # fmt: skip
        stop_on(
            train_agent(AgentTrainConfig(env_id=self.game, run=real, steps=self.budget, seed=self.seed), err).exit_code
        )
        home = HOME / f"{self.game}-loop-{self.seed}"
        home.mkdir(parents=True, exist_ok=True)
        for name in (REPORT_NAME, f"{PLOTS_NAME}/{FIGURE_NAME}"):
            shutil.copy(learned / name, home)
        for agent, epsilon in product((learned, real), self.epsilons):
            config = AgentEvaluateConfig(
                agent=str(agent), env_id=self.game, episodes=self.episodes, epsilon=epsilon, seed=10_000 + self.seed,
                out=home / f"{agent.name}-epsilon-{epsilon:g}",
            )  # fmt: skip
            print("\n".join(score_lines(evaluate_agent(config, lambda done, total: None))), flush=True)


def stop_on(code: int) -> None:
    """End with the exit code of a part that was stopped."""
    if code:
        raise SystemExit(code)


@dataclass(frozen=True, kw_only=True)
class Options:
    """What to measure."""

    part: Annotated[
        Annotated[Planning, tyro.conf.subcommand("planning")]
        | Annotated[Speed, tyro.conf.subcommand("speed")]
        | Annotated[Loop, tyro.conf.subcommand("loop")],
        tyro.conf.arg(name=""),
    ] = field(default_factory=Planning)


if __name__ == "__main__":
    tyro.cli(Options, description=__doc__).part.run()
