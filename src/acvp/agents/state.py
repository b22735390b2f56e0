"""The state of a run between two rounds, to and from the files of a checkpoint.

state.json            counters, scores, settings
state.safetensors     networks, optimizer, exploration, games and what the agent saw last
replay.safetensors    the replay, where it is to be kept
agent-…               the best agent so far: after a kill, the one of the run's folder may be of a time that never was

What is random follows from the seed and counters, so no generator's state is kept.
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
from acvp.durable import read_file

T = TypeVar("T")

STATE_NAME, TENSORS_NAME, REPLAY_NAME = "state.json", "state.safetensors", "replay.safetensors"
AGENT_PREFIX = "agent-"
COUNTERS = ("num_timesteps", "_n_calls", "_n_updates", "_episode_num", "exploration_rate")
"""Stable-Baselines3's own, by its names."""


@dataclass(kw_only=True)
class Position:
    """Where a run is, beyond what the DQN counts itself."""

    seconds: float = 0.0
    """Wall-clock seconds of playing, learning and saving so far."""
    evaluations: int = 0
    """Points of the learning curve that are done."""
    best: float | None = None
    """Highest mean score less its standard error of them."""
    lines: int | None = None
    """Lines of metrics.jsonl that were written before the checkpoint; None: not noted in early ones."""
    finished: list[dict[str, float]] = field(default_factory=list)
    """Scores (r) and decisions (l) of the last plays."""


def to_files(dqn: AcvpDqn, env: AgentVecEnv, position: Position, agent: Path, *, replay: bool) -> dict[str, bytes]:
    """Return the files of a checkpoint; `agent` is the folder of the best agent so far."""
    position.finished = [{"r": float(one["r"]), "l": int(one["l"])} for one in dqn.ep_info_buffer or ()]
    state = {
        "position": asdict(position),
        "counters": {name: getattr(dqn, name) for name in COUNTERS},
        "plays": [asdict(play) for play in env.episodes],
    }
    tensors = _prefixed("policy", dqn.policy.state_dict())
    tensors |= _prefixed("moments", optimizer_tensors(dqn.policy.optimizer))
    arrays: dict[str, np.ndarray] = {}
    if isinstance(dqn.exploration, Resumable):
        arrays |= _prefixed("exploration", dqn.exploration.state())
    if isinstance(env, GameVecEnv) and env.can_save:
        arrays |= {f"games.{number}": np.frombuffer(moment, np.uint8) for number, moment in enumerate(env.save())}
        arrays["stacks.frames"] = env.stack.frames
    files = {STATE_NAME: json.dumps(state, indent=1).encode(), TENSORS_NAME: to_bytes(tensors | _tensors(arrays))}
    files |= {f"{AGENT_PREFIX}{path.name}": _read(path, agent.parent) for path in agent.glob("[!.]*")}
    return files | ({REPLAY_NAME: to_bytes(_tensors(replay_arrays(dqn.replay_buffer)))} if replay else {})


def _read(file: Path, run: Path) -> bytes:
    try:
        return read_file(file, run)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be kept in the checkpoint ({error.strerror}); move it away") from error


def kept_agent(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Return the files of the best agent at the time of the checkpoint."""
    files = checkpoint.files.items()
    return {name.removeprefix(AGENT_PREFIX): data for name, data in files if name.startswith(AGENT_PREFIX)}


def restore(checkpoint: Checkpoint, dqn: AcvpDqn, env: AgentVecEnv) -> Position:
    """Put a new DQN and its games where the checkpoint has them; what it lacks begins anew."""
    try:
        state = json.loads(checkpoint.files[STATE_NAME])
        tensors = to_tensors(checkpoint.files[TENSORS_NAME], checkpoint.path / TENSORS_NAME)
        for name in COUNTERS:
            setattr(dqn, name, state["counters"][name])
        dqn.policy.load_state_dict(_part(tensors, "policy"))
        restore_optimizer(dqn.policy.optimizer, _part(tensors, "moments"))
        _restore_exploration(dqn, tensors)
        _restore_replay(dqn, checkpoint)
        _restore_games(dqn, env, tensors, [EpisodeState(**play) for play in state["plays"]])
        position = Position(**state["position"])
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.path}: not a checkpoint of this run ({str(error)[:200]})") from error
    dqn.ep_info_buffer = deque(position.finished, maxlen=dqn._stats_window_size)
    dqn.ep_success_buffer = deque(maxlen=dqn._stats_window_size)
    return position


def _restore_exploration(dqn: AcvpDqn, tensors: dict[str, Tensor]) -> None:
    if isinstance(dqn.exploration, Resumable):
        dqn.exploration.restore({name: each.numpy() for name, each in _part(tensors, "exploration").items()})


def _restore_replay(dqn: AcvpDqn, checkpoint: Checkpoint) -> None:
    """Fill the replay; without a saved one, play as much as at the start before learning goes on."""
    if REPLAY_NAME in checkpoint.files:
        saved = to_tensors(checkpoint.files[REPLAY_NAME], checkpoint.path / REPLAY_NAME)
        restore_replay(dqn.replay_buffer, {name: each.numpy() for name, each in saved.items()})
    else:
        dqn.learning_starts = dqn.num_timesteps + dqn.settings.learning_starts


def _restore_games(dqn: AcvpDqn, env: AgentVecEnv, tensors: dict[str, Tensor], plays: list[EpisodeState]) -> None:
    """Put the games where they were; those that cannot be saved begin their next plays."""
    if isinstance(env, GameVecEnv) and (moments := _part(tensors, "games")):
        saved = [moments[str(number)].numpy().tobytes() for number in range(len(moments))]
        env.restore(saved, plays, tensors["stacks.frames"].numpy())
        dqn._last_obs = env.stack.frames.copy()
    else:
        env.episodes = plays
        dqn.replay_buffer.cut()


def _prefixed(prefix: str, items: dict[str, T]) -> dict[str, T]:
    return {f"{prefix}.{name}": item for name, item in items.items()}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(f"{prefix}."): each for name, each in tensors.items() if name.startswith(f"{prefix}.")}


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.tensor(array) for name, array in arrays.items()}
