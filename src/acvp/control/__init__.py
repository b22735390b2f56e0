"""The paper's section 4.2: predictions put to work, in play, in exploration and as an environment to learn in."""

from acvp.envs.gym import IMAGINED_ID

__all__ = ["IMAGINED_ID"]
