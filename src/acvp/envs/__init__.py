"""Games: Atari, any Gymnasium env with image frames and numbered or continuous actions, ToyGame and DriftGame."""

from acvp.envs.game import Game, SavedState, Step
from acvp.envs.gym import load_module, make_game, register_envs
from acvp.envs.toy import DriftGame, ToyGame

__all__ = ["DriftGame", "Game", "SavedState", "Step", "ToyGame", "load_module", "make_game", "register_envs"]

register_envs()
