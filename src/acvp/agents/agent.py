"""A trained agent: which action is best, given the last four gray frames. Needs torch alone.

    agent = load_agent("freeway")
    actions = agent.act(frames, epsilon=0.05, rng=rng)

Shapes: B plays, A actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.agents.about import AgentAbout, AgentError
from acvp.agents.files import LAST_WRITTEN, WANTED, agent_files, agent_from_files
from acvp.agents.network import SIDE, ValueNetwork
from acvp.durable import make_folder, write_atomic
from acvp.reading import read_file

PRETRAINED = Path(__file__).parent / "pretrained"
"""Agents that come with the package, a folder each."""
OF_A_RUN = "agent"
"""Folder of the agent in a run's folder."""


class Agent:
    """A value network and what should be known about it."""

    def __init__(self, network: ValueNetwork, about: AgentAbout) -> None:
        if network.actions != len(about.action_meanings):
            raise AgentError(f"{network.actions} values for {len(about.action_meanings)} actions")
        self.network, self.about = network.eval(), about
        self.stack = about.stack

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.network.actions

    @torch.inference_mode()
    def values(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the discounted rewards (B, A) expected of each action; frames (B, 4, 84, 84) gray, oldest first."""
        if frames.ndim != 4 or frames.shape[1:] != (self.stack, SIDE, SIDE) or frames.dtype != np.uint8:
            wanted = f"uint8 of shape (B, {self.stack}, {SIDE}, {SIDE})"
            raise AgentError(f"an agent sees {wanted}, oldest frame first; got {frames.dtype} of shape {frames.shape}")
        device = self.network.head.weight.device
        values: NDArray[np.float32] = self.network(torch.tensor(frames, device=device)).numpy(force=True)
        return values

    def act(
        self, frames: NDArray[np.uint8], *, epsilon: float = 0.0, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return an action (B,) for each play: the best, or with probability ε a random one (a coin for each)."""
        best: NDArray[np.int64] = self.values(frames).argmax(1)
        if epsilon == 0.0:
            return best
        if rng is None:
            raise AgentError(f"epsilon {epsilon:g} needs a generator: give rng=np.random.default_rng(seed)")
        explores = rng.random(len(best)) < epsilon
        return np.where(explores, rng.integers(self.actions, size=len(best)), best)

    def check_actions(self, action_meanings: tuple[str, ...], game: str) -> None:
        """Refuse a game with other actions than the agent learned."""
        if tuple(action_meanings) != self.about.action_meanings:
            raise AgentError(
                f"the agent of {self.about.env_id} has the actions {' '.join(self.about.action_meanings)}, {game} has "
                f"{' '.join(action_meanings)}: choose an agent of this game, or train one with acvp agent train"
            )

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Write the agent: weights, configuration, card; `half` rounds the weights on disk to 16 bits."""
        write_files(folder, agent_files(self.network, self.about, half=half))

    def __repr__(self) -> str:
        return f"<agent of {self.about.env_id}, actions {' '.join(self.about.action_meanings)}>"


def load_agent(name_or_path: str | Path) -> Agent:
    """Return an agent of the package by its name, or the one in a folder (an agent's or a run's)."""
    folder, within = _folder(name_or_path)
    files = {}
    for name in WANTED:
        try:
            files[name] = read_file(folder / name, within)
        except OSError as error:
            raise AgentError(f"{folder} holds no whole agent: {name} cannot be read ({error.strerror})") from error
    try:
        return Agent(*agent_from_files(files))
    except AgentError as error:
        raise AgentError(f"{folder}: {error}") from error


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of an agent."""
    make_folder(folder)
    for name in sorted(files, key=lambda name: name == LAST_WRITTEN):
        write_atomic(folder / name, files[name])


def packaged_agents() -> list[str]:
    """Return the names of the agents that come with the package."""
    return sorted(path.name for path in PRETRAINED.glob("*") if path.is_dir())


def _folder(name_or_path: str | Path) -> tuple[Path, Path]:
    """Return where an agent is, and the folder that none of its files may lie outside of."""
    path, known = Path(name_or_path), packaged_agents()
    if str(name_or_path) in known:
        return PRETRAINED / str(name_or_path), PRETRAINED
    if not path.is_dir():
        names = f"the package has {', '.join(known)}" if known else "the package has none"
        raise AgentError(f"unknown agent {str(name_or_path)!r}: {names}; or give the folder of an agent or of a run")
    return (path / OF_A_RUN if (path / OF_A_RUN).is_dir() else path), path
