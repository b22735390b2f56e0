"""Games: Atari, any Gymnasium env with image frames and discrete actions, and ToyGame."""

from acvp.envs.game import Game, SavedState, Step
from acvp.envs.gym import load_module, make_game, register_envs
from acvp.envs.toy import ToyGame

__all__ = ["Game", "SavedState", "Step", "ToyGame", "load_module", "make_game", "register_envs"]

register_envs()
