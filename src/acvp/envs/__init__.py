"""Where frames come from: any Gymnasium env with image frames and discrete actions, Atari, and ToyGame."""

import gymnasium

from acvp.envs.game import Game, Step
from acvp.envs.make import load_module, make_game
from acvp.envs.saved import SavedState
from acvp.envs.toy import TOY_ID, TOY_STEPS, ToyGame

__all__ = ["Game", "SavedState", "Step", "ToyGame", "load_module", "make_game"]

if TOY_ID not in gymnasium.registry:
    gymnasium.register(TOY_ID, entry_point="acvp.envs.toy:ToyGame", max_episode_steps=TOY_STEPS)
