"""Makes a Game by its name: `freeway`, `ALE/Freeway-v5`, `acvp/Toy-v0`, `my_module:My-v0`."""

import difflib
import importlib
import sys

import gymnasium

from acvp.envs.atari import FRAME_SKIP, AtariGame, atari_games, atari_id
from acvp.envs.game import Game, Json
from acvp.envs.gym import GymGame
from acvp.envs.toy import TOY_ID
from acvp.errors import UserError, describe, one_line, user_code


def make_game(
    env_id: str,
    *,
    sticky: float = 0.0,
    frame_skip: int | None = None,
    max_steps: int | None = None,
    import_module: str | None = None,
) -> Game:
    """Make a game by its Gymnasium id or an Atari game's bare name.

    `frame_skip` None is 4 for Atari and 1 for other envs. `max_steps` (agent steps per episode) replaces the env's own
    limit. A third-party id needs the module that registers it: import that first. Nothing is imported here, since the
    id may come from a file; `import_module`, or a module before the id as in `my_module:My-v0`, is only recorded.
    """
    module, _, bare = env_id.rpartition(":")
    for name in (module, import_module):
        _refuse_unimported(bare, name)
    import_module = module or import_module
    canonical = atari_id(bare)
    settings = _settings(sticky, frame_skip, max_steps, import_module, atari=canonical is not None)
    if canonical is not None:
        return AtariGame(canonical, settings=settings, limit=max_steps)
    return _gym_game(TOY_ID if bare == "toy" else bare, settings, max_steps)


def _settings(
    sticky: float, frame_skip: int | None, max_steps: int | None, import_module: str | None, *, atari: bool
) -> dict[str, Json]:
    skip = frame_skip if frame_skip is not None else (FRAME_SKIP if atari else 1)
    if not 0 <= sticky < 1:
        raise UserError(f"sticky is {sticky}: the probability of repeating an action is at least 0 and below 1")
    if skip < 1:
        raise UserError(f"frame_skip is {skip}: an action is held for at least 1 emulator step")
    if max_steps is not None and max_steps < 1:
        raise UserError(f"max_steps is {max_steps}: an episode has at least 1 step")
    return {"sticky": float(sticky), "frame_skip": skip, "max_steps": max_steps, "import_module": import_module}


def _gym_game(env_id: str, settings: dict[str, Json], max_steps: int | None) -> GymGame:
    spec = gymnasium.registry.get(env_id)
    if spec is None:
        raise UserError(f"unknown environment {env_id!r}: {_suggestion(env_id)}")
    with user_code(f"{env_id}: __init__"):
        try:
            env = gymnasium.make(env_id, disable_env_checker=True, max_episode_steps=-1)  # Game counts the steps itself
        except (gymnasium.error.Error, ImportError) as error:
            raise UserError(f"{env_id} cannot be made: {one_line(str(error))}") from error
    return GymGame(env, env_id=env_id, settings=settings, limit=max_steps or spec.max_episode_steps)


def _suggestion(env_id: str) -> str:
    names = [*gymnasium.registry, *atari_games().values(), "toy"]
    by_lower = {name.lower(): name for name in names}
    close = [by_lower[name] for name in difflib.get_close_matches(env_id.lower(), by_lower, n=3)]
    cure = "a third-party id needs the module that registers it (--import MODULE)"
    return f"did you mean {', '.join(close)}? Else {cure}" if close else cure


def _refuse_unimported(env_id: str, module: str | None) -> None:
    if module and module not in sys.modules:
        raise UserError(
            f"the game {env_id} comes from the module {module!r}, and importing it runs its code; if you trust it, "
            f"add --import {module} (in Python: import it first)"
        )


def load_module(module: str) -> None:
    """Import a module that the user has named, which may register games; never one that a file names."""
    try:
        importlib.import_module(module)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # whatever the user's module raises
        raise UserError(
            f"cannot import module {module!r} ({describe(error)}): fix it, install it, or put its folder on PYTHONPATH"
        ) from error
