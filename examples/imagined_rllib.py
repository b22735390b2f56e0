"""Learn inside a predictor with Ray RLlib: PPO in the imagined env, then a score in the real game.

ray[rllib] pins an older Gymnasium than acvp's: pip install ray dm_tree lz4 ormsgpack pandas scipy tensorboardX
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from gymnasium.wrappers import TransformObservation
from ray.rllib.algorithms.ppo import PPOConfig
from ray.tune.registry import register_env

import acvp
from acvp.agents.play import Scores, play_episodes


def as_image(frames: np.ndarray) -> np.ndarray:
    """Return four stacked gray frames (…, 4, 84, 84) as RLlib's networks see images: channels last, from 0 to 1."""
    return np.moveaxis(frames, -3, -1).astype(np.float32) / 255


def imagined(config: dict[str, Any]) -> gymnasium.Env:
    env = gymnasium.make("acvp.envs:acvp/Imagined-v0", **config)
    return TransformObservation(env, as_image, Box(0, 1, (84, 84, 4), np.float32))


class RllibPlayer:
    """Plays the real game with the policy that PPO has learned in the imagined one."""

    def __init__(self, module: Any, actions: int) -> None:
        self.module, self.actions = module, actions

    @torch.no_grad()
    def act(self, frames: np.ndarray) -> np.ndarray:
        logits = self.module.forward_inference({"obs": torch.from_numpy(as_image(frames))})["action_dist_inputs"]
        return logits.argmax(-1).numpy()


def main(
    predictor: str = "freeway", env_id: str = "freeway", folder: Path = Path("imagined-rllib"), frames: int = 10_000,
    iterations: int = 20, batch: int = 1_000, max_steps: int = 500,
) -> Scores:  # fmt: skip
    data = acvp.collect(env_id, folder / "data", frames=frames).path.absolute()  # imagined episodes start from it
    register_env("imagined", imagined)
    options = {"predictor": predictor, "data": data, "observation": "agent", "horizon": 50}
    config = PPOConfig().environment("imagined", env_config=options).env_runners(num_env_runners=0)
    ppo = config.training(train_batch_size_per_learner=batch, minibatch_size=min(64, batch)).build_algo()
    for _ in range(iterations):
        ppo.train()
    game = acvp.make_game(env_id, max_steps=max_steps)
    player = RllibPlayer(ppo.get_module(), len(game.action_meanings))
    return play_episodes(player, [game], episodes=2, epsilon=0.05, seed=0)


if __name__ == "__main__":
    print(main())
