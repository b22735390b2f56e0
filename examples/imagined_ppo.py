"""Learn inside a predictor: PPO of Stable-Baselines3 in the imagined env, then a score in the real game."""

from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3 import PPO

import acvp
from acvp.agents.play import Scores, play_episodes
from acvp.envs import Game


class PpoPlayer:
    """Plays the real game with the policy that PPO has learned in the imagined one."""

    def __init__(self, ppo: PPO, actions: int) -> None:
        self.ppo, self.actions = ppo, actions

    def act(self, frames: np.ndarray) -> np.ndarray:
        return np.asarray(self.ppo.predict(frames, deterministic=True)[0])


def main(
    predictor: str = "freeway",
    env_id: str = "freeway",
    folder: Path = Path("imagined-ppo"),
    frames: int = 10_000,
    steps: int = 20_000,
    max_steps: int = 500,
) -> Scores:
    acvp.collect(env_id, folder / "data", frames=frames)  # imagined episodes start from real frames
    env = gymnasium.make(
        "acvp.envs:acvp/Imagined-v0", predictor=predictor, data=folder / "data", observation="agent", horizon=50
    )
    ppo = PPO("CnnPolicy", env, n_steps=min(256, steps), batch_size=min(64, steps), seed=0)
    ppo.learn(steps)
    game: Game = acvp.make_game(env_id, max_steps=max_steps)
    return play_episodes(PpoPlayer(ppo, len(game.action_meanings)), [game], episodes=2, epsilon=0.05, seed=0)


if __name__ == "__main__":
    print(main())
