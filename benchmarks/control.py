"""make bench-control: informed agent steps per second with the gray network; writes results/control.json.

Compared are ours (every action's future from one encoding, each candidate against the whole memory at once) and the
plain form (one prediction for each action, the kernel pair by pair), turn about in one process: what disturbs one
disturbs the other. An agent step is: take in the newest frame, predict, choose. The network's weights are random, which
changes nothing in its speed.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import track

from acvp.agents.agent import agent_view
from acvp.control.informed import InformedExploration
from acvp.control.kernel import KernelConfig, paper_kernel
from acvp.data.policies import sticky_random_policy
from acvp.envs import make_game
from acvp.models import About, FeedforwardConfig, Predictor, build_predictor, keep_freed_memory
from benchmarks.provenance import write_results

SEED = 1
GAMES = ("freeway", "qbert", "seaquest")
"""3, 6 and 18 actions; memories of 20, 200 and 20 frames."""
WARM_UP, TURNS, TURN = 220, 10, 8
"""Frames that fill the memory, turns of each, agent steps of a turn."""
WANTED = 30.0
"""Agent steps per second on Freeway."""

Pixels = NDArray[np.uint8]


class Chooser(Protocol):
    """Ours or the plain form."""

    def see(self, frame: Pixels) -> None:
        """Take in the newest frame (84, 84)."""

    def choose(self) -> int:
        """Return the least visited action."""


class Ours:
    """Informed exploration as it is used."""

    def __init__(self, predictor: Predictor, kernel: KernelConfig) -> None:
        self.informed = InformedExploration.from_predictor(predictor, kernel, seed=SEED)

    def see(self, frame: Pixels) -> None:
        """Take in the newest frame."""
        self.informed.observe(frame[None, :, :, None], np.array([False]))

    def choose(self) -> int:
        """Return the least visited action."""
        return int(self.informed.explore(np.array([0]))[0])


class Plain:
    """The same as one would first write it."""

    def __init__(self, predictor: Predictor, kernel: KernelConfig) -> None:
        self.predictor, self.kernel = predictor, kernel
        self.frames: list[Pixels] = []

    def see(self, frame: Pixels) -> None:
        """Take in the newest frame."""
        self.frames = [*self.frames, frame][-max(self.kernel.memory, self.predictor.context) :]

    def choose(self) -> int:
        """Return the least visited action: a prediction for each action, a kernel for each pair of frames."""
        return int(np.argmin([self._visits(self._predict(action)) for action in range(self.predictor.actions)]))

    @torch.inference_mode()
    def _predict(self, action: int) -> Pixels:
        given = torch.from_numpy(np.stack(self.frames[-self.predictor.context :])[None, ..., None])
        state = self.predictor.observe(self.predictor.normalizer.to_float(given))
        frame, _ = self.predictor.predict(state, torch.tensor([action]))
        return self.predictor.normalizer.to_uint8(frame).numpy()[0, ..., 0]

    def _visits(self, candidate: Pixels) -> float:
        x, total = candidate.astype(np.float64), 0.0
        for y in self.frames[-self.kernel.memory :]:
            apart = np.minimum(np.maximum((x - y) ** 2 - self.kernel.delta, 0), 1)
            total += float(np.exp(-apart.sum() / self.kernel.sigma))
        return total


def main() -> None:
    """Measure, print and write the numbers."""
    started = time.monotonic()
    keep_freed_memory()
    body: dict[str, Any] = {
        "what": f"informed agent steps per second, gray 84×84 network, {torch.get_num_threads()} threads; {TURNS} "
        f"turns of {TURN} agent steps for each; best turn, and the median over turns of the ratio of two neighbors",
        "games": {game: measure(game) for game in GAMES},
    }
    print(body)
    print(write_results("control", body, command="make bench-control", seed=SEED, started=started))
    if body["games"]["freeway"]["agent steps per second"]["ours"] < WANTED:
        raise SystemExit(f"fewer than {WANTED:g} informed agent steps per second")


def measure(name: str) -> dict[str, Any]:
    """The numbers of one game."""
    frames, predictor, kernel = record(name)
    both: dict[str, Chooser] = {"ours": Ours(predictor, kernel), "plain": Plain(predictor, kernel)}
    for frame in frames[:WARM_UP]:
        for chooser in both.values():
            chooser.see(frame)
    seconds: dict[str, list[float]] = {who: [] for who in both}
    chosen: dict[str, list[int]] = {who: [] for who in both}
    for turn in track(range(TURNS), name):
        for who, chooser in both.items():
            before = time.perf_counter()
            for frame in frames[WARM_UP + turn * TURN :][:TURN]:
                chooser.see(frame)
                chosen[who].append(chooser.choose())
            seconds[who].append((time.perf_counter() - before) / TURN)
    return {
        "actions": predictor.actions,
        "memory": kernel.memory,
        "agent steps per second": {who: round(1 / min(times), 1) for who, times in seconds.items()},
        "ours / plain": round(float(np.median(np.divide(seconds["plain"], seconds["ours"]))), 2),
        "same choice": float(np.mean(np.equal(chosen["ours"], chosen["plain"]))),
    }


def record(name: str) -> tuple[Pixels, Predictor, KernelConfig]:
    """Frames (T, 84, 84) of a play, a gray network with random weights, and the paper's kernel."""
    with make_game(name) as game:
        player = sticky_random_policy(game.action_meanings, np.random.default_rng(SEED))
        frames = [game.reset(SEED)]
        for _ in range(WARM_UP + TURNS * TURN):
            step = game.step(player(frames[-1]))
            frames.append(step.frame if not (step.terminated or step.truncated) else game.reset(SEED))
        about = About(env_id=game.env_id, view="gray84", action_meanings=game.action_meanings)
    seen = agent_view(np.stack(frames))
    config = FeedforwardConfig.gray_84x84(actions=len(about.action_meanings))
    predictor = build_predictor(config, torch.Generator().manual_seed(SEED)).eval()
    predictor.normalizer.set_mean(seen.mean(0, dtype=np.float64).astype(np.float32)[..., None])
    predictor.about = about
    return seen, predictor, paper_kernel(about.env_id)


if __name__ == "__main__":
    main()
