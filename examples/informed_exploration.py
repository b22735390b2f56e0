"""Informed exploration (§4.2 of the paper) for any DQN of Stable-Baselines3.

An exploring action is the one whose predicted frame was visited least.
"""

from stable_baselines3 import DQN

import acvp
from acvp.agents.dqn import explore_with
from acvp.agents.vec_env import GameVecEnv


def main(env_id: str = "freeway", predictor: str = "freeway", steps: int = 20_000, max_steps: int = 500) -> DQN:
    env = GameVecEnv([acvp.make_game(env_id, max_steps=max_steps)], seed=0)  # 4 gray 84×84 frames, clipped rewards
    dqn = DQN("CnnPolicy", env, buffer_size=min(10_000, steps), learning_starts=min(1_000, steps // 2), seed=0)
    strategy = acvp.InformedExploration.from_predictor(acvp.load(predictor), seed=0, screens=lambda: env.screens)
    explore_with(dqn, strategy)  # the strategy chooses wherever the DQN would draw a random action
    return dqn.learn(steps)


if __name__ == "__main__":
    main().save("informed-dqn")
