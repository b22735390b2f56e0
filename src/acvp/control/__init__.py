"""The paper's section 4.2: predictions put to work, in play, in exploration and as an environment to learn in."""

import gymnasium

IMAGINED_ID = "acvp/Imagined-v0"

if IMAGINED_ID not in gymnasium.registry:
    gymnasium.register(
        IMAGINED_ID,
        entry_point="acvp.control.imagined:ImaginedEnv",
        vector_entry_point="acvp.control.imagined:ImaginedVectorEnv",
    )
