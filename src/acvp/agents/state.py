"""The state of a run between two rounds, to and from the files of a checkpoint.

state.json            counters and scores
state.safetensors     networks, optimizer state, exploration, games and last observations
replay.safetensors    the replay, if it is to be saved
agent-…               the best agent so far: after a kill, that of the run's folder may be newer than the checkpoint

Randomness follows from the seed and counters, so no generator's state is saved.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from acvp.agents.dqn import AcvpDqn
from acvp.agents.exploration import Resumable
from acvp.agents.replay import replay_arrays, restore_replay
from acvp.agents.vec_env import AgentVecEnv, EpisodeState, GameVecEnv
from acvp.checkpoint import Checkpoint, CheckpointError, optimizer_tensors, restore_optimizer, to_bytes, to_tensors
from acvp.compat import current_run
from acvp.durable import read_file

T = TypeVar("T")

STATE_NAME, TENSORS_NAME, REPLAY_NAME = "state.json", "state.safetensors", "replay.safetensors"
AGENT_PREFIX = "agent-"
COUNTERS = ("num_timesteps", "_n_calls", "_n_updates", "_episode_num", "exploration_rate")
"""Stable-Baselines3's own, by its names."""


@dataclass(kw_only=True)
class TrainerState:
    """Counters and scores of a run, besides those of the DQN itself."""

    seconds: float = 0.0
    """Wall-clock seconds of playing, learning and saving so far; evaluations do not count."""
    evaluations: int = 0
    """Points of the learning curve so far."""
    best: float | None = None
    """The highest of their mean scores less standard error."""
    lines: int | None = None
    """Lines of metrics.jsonl at the time of the checkpoint; None in early checkpoints."""
    finished: list[dict[str, float]] = field(default_factory=list)
    """Scores (r) and lengths in agent steps (l) of the last episodes."""


def to_files(dqn: AcvpDqn, env: AgentVecEnv, state: TrainerState, agent: Path, *, replay: bool) -> dict[str, bytes]:
    """Return the files of a checkpoint; `agent` is the folder of the best agent so far."""
    episodes = dqn.ep_info_buffer or ()
    state.finished = [{"r": float(episode["r"]), "l": int(episode["l"])} for episode in episodes]
    body = {
        "trainer": asdict(state),
        "counters": {name: getattr(dqn, name) for name in COUNTERS},
        "episodes": [asdict(episode) for episode in env.episodes],
    }
    tensors = _prefixed("policy", dqn.policy.state_dict())
    tensors |= _prefixed("optimizer", optimizer_tensors(dqn.policy.optimizer))
    arrays: dict[str, np.ndarray] = {}
    if isinstance(dqn.exploration, Resumable):
        arrays |= _prefixed("exploration", dqn.exploration.state())
    if isinstance(env, GameVecEnv) and env.can_save:
        arrays |= {f"games.{number}": np.frombuffer(saved, np.uint8) for number, saved in enumerate(env.save())}
        arrays["stacks.frames"] = env.stack.frames
    files = {STATE_NAME: json.dumps(body, indent=1).encode(), TENSORS_NAME: to_bytes(tensors | _tensors(arrays))}
    files |= {f"{AGENT_PREFIX}{path.name}": _read(path, agent.parent) for path in agent.glob("[!.]*")}
    return files | ({REPLAY_NAME: to_bytes(_tensors(replay_arrays(dqn.replay_buffer)))} if replay else {})


def _read(file: Path, run: Path) -> bytes:
    try:
        return read_file(file, run)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be saved in the checkpoint ({error.strerror}); move it away") from error


def kept_agent(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Return the files of the best agent at the time of the checkpoint."""
    files = checkpoint.files.items()
    return {name.removeprefix(AGENT_PREFIX): data for name, data in files if name.startswith(AGENT_PREFIX)}


def restore(checkpoint: Checkpoint, dqn: AcvpDqn, env: AgentVecEnv) -> TrainerState:
    """Restore a new DQN and its games from a checkpoint; parts that it does not hold start again."""
    try:
        body = current_run(json.loads(checkpoint.files[STATE_NAME]))
        tensors = to_tensors(checkpoint.files[TENSORS_NAME], checkpoint.path / TENSORS_NAME)
        for name in COUNTERS:
            setattr(dqn, name, body["counters"][name])
        dqn.policy.load_state_dict(_part(tensors, "policy"))
        restore_optimizer(dqn.policy.optimizer, _part(tensors, "optimizer"))
        _restore_exploration(dqn, tensors)
        _restore_replay(dqn, checkpoint)
        _restore_games(dqn, env, tensors, [EpisodeState(**episode) for episode in body["episodes"]])
        state = TrainerState(**body["trainer"])
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.path}: not a checkpoint of this run ({str(error)[:200]})") from error
    dqn.ep_info_buffer = deque(state.finished, maxlen=dqn._stats_window_size)
    dqn.ep_success_buffer = deque(maxlen=dqn._stats_window_size)
    return state


def _restore_exploration(dqn: AcvpDqn, tensors: dict[str, Tensor]) -> None:
    if isinstance(dqn.exploration, Resumable):
        dqn.exploration.restore({name: tensor.numpy() for name, tensor in _part(tensors, "exploration").items()})


def _restore_replay(dqn: AcvpDqn, checkpoint: Checkpoint) -> None:
    """Fill the replay; without a saved one, play as much as at the start before learning continues."""
    if REPLAY_NAME in checkpoint.files:
        saved = to_tensors(checkpoint.files[REPLAY_NAME], checkpoint.path / REPLAY_NAME)
        restore_replay(dqn.replay_buffer, {name: tensor.numpy() for name, tensor in saved.items()})
    else:
        dqn.learning_starts = dqn.num_timesteps + dqn.settings.learning_starts


def _restore_games(dqn: AcvpDqn, env: AgentVecEnv, tensors: dict[str, Tensor], episodes: list[EpisodeState]) -> None:
    """Restore the games; those that cannot be saved start their next episodes."""
    if isinstance(env, GameVecEnv) and (games := _part(tensors, "games")):
        saved = [games[str(number)].numpy().tobytes() for number in range(len(games))]
        env.restore(saved, episodes, tensors["stacks.frames"].numpy())
        dqn._last_obs = env.stack.frames.copy()
    else:
        env.episodes = episodes
        dqn.replay_buffer.cut()


def _prefixed(prefix: str, items: dict[str, T]) -> dict[str, T]:
    return {f"{prefix}.{name}": item for name, item in items.items()}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.tensor(array) for name, array in arrays.items()}
