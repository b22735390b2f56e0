"""Records what people play into datasets, one for each game, which `acvp data verify --replay` accepts.

A game is played again from its seed and actions when it ends, so that a dataset has no trace of what was rewound. It
is added whole or not at all; games in which nobody pressed a key are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from threading import Lock

from acvp.data.episode import Episode
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import StoreInfo
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.play.shared import Moves

POLICY = "human"
"""Name of the policy in the datasets."""


class PlayRecorder:
    """Adds finished games to the datasets in a folder; all sessions of a server share it."""

    def __init__(self, folder: Path) -> None:
        if folder.is_file():
            raise UserError(f"--record {folder} is a file: name a folder")
        self.folder = folder
        self._lock = Lock()

    def add(self, env_id: str, moves: Moves) -> str:
        """Record a game and return a line about it; UserError if that fails."""
        path = self.folder / dataset_name(env_id)
        try:
            with self._lock, make_game(env_id) as game, open_writer(path, describe(game)) as writer:
                number = max((entry.number for entry in writer.entries), default=-1) + 1
                episode = record(game, moves, number)
                writer.add(episode)
        except OSError as error:
            raise UserError(f"the game was not recorded: {path}: {error.strerror or error}") from error
        return f"recorded as episode {number} of {path} ({episode.header.frames} frames)"


def dataset_name(env_id: str) -> str:
    """Return the name of a game's folder."""
    return re.sub(r"[^\w.-]+", "_", env_id)


def describe(game: Game) -> StoreInfo:
    """Return what a dataset of a game played by people says about itself."""
    return StoreInfo(
        env_id=game.env_id,
        settings=game.settings,
        frame_shape=game.frame_shape,
        action_meanings=game.action_meanings,
        policy=POLICY,
        versions=game.versions,
    )


def record(game: Game, moves: Moves, number: int) -> Episode:
    """Play moves again and return them as an episode; one that its player left is truncated."""
    recorder = EpisodeRecorder()
    recorder.start(game.reset(moves.seed), game.color_keys(), game.lives)
    terminated = False
    for action in moves.actions:
        frame, reward, terminated, truncated = game.step(action)
        recorder.step(action, reward, frame, game.color_keys(), game.lives)
        if terminated or truncated:
            break
    return recorder.finish(number=number, seed=moves.seed, terminated=terminated, truncated=not terminated)
