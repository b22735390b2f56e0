"""The Gymnasium ids of acvp: importing `acvp.envs` registers them, and loads no torch.

Gymnasium 1 has no plugin loader, so the module stands before the id: `gymnasium.make("acvp.envs:acvp/Toy-v0")`.
"""

import gymnasium

from acvp.envs.toy import TOY_ID, TOY_STEPS

IMAGINED_ID = "acvp/Imagined-v0"


def register_envs() -> None:
    """Register the envs of acvp unless they are registered already."""
    if TOY_ID not in gymnasium.registry:
        gymnasium.register(TOY_ID, entry_point="acvp.envs.toy:ToyGame", max_episode_steps=TOY_STEPS)
    if IMAGINED_ID not in gymnasium.registry:
        gymnasium.register(
            IMAGINED_ID,
            entry_point="acvp.control.imagined_env:ImaginedEnv",
            vector_entry_point="acvp.control.imagined_env:ImaginedVectorEnv",
        )
