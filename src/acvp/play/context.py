"""What a predictor is played with: its game, the recorded episodes of a dataset, or both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from acvp.actions import require_numbered
from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.envs import Game, Step, make_game
from acvp.errors import UserError
from acvp.loaded import GameLike, LoadedModel, require_fit
from acvp.play.model_pool import about
from acvp.play.worlds import Frame, LiveWorld, World
from acvp.seeding import generator


class RecordedWorld(World):
    """An episode of a dataset, which can only follow its recorded actions."""

    def __init__(self, store: EpisodeStore, episode_index: int, frame: int) -> None:
        if not 0 <= episode_index < len(store):
            raise UserError(f"episode {episode_index}: the dataset has episodes 0 to {len(store) - 1}")
        self.store, self.episode_index, self.episode = store, episode_index, store[episode_index]
        if not 0 <= frame < len(self.episode):
            raise UserError(f"frame {frame}: episode {episode_index} has frames 0 to {len(self.episode) - 1}")
        self.frame_index = frame

    @property
    def recorded_action(self) -> int | None:  # type: ignore[override]
        """The action that was taken here; None at the end."""
        actions = self.episode.actions
        return int(actions[self.frame_index]) if self.frame_index < len(actions) else None

    def history(self, count: int) -> tuple[list[Frame], list[int]]:
        """Return up to `count` frames that end here, oldest first, and the actions between them."""
        first = max(0, self.frame_index + 1 - count)
        frames = self.episode.frames(first, self.frame_index + 1)
        return list(frames), self.episode.actions[first : self.frame_index].tolist()

    def step(self, action: int) -> Step:
        """Advance by the recorded action; no other one is possible."""
        assert action == self.recorded_action, f"{action} is not the recorded action"
        reward = float(self.episode.rewards[self.frame_index])
        self.frame_index += 1
        frame = self.episode.frames(self.frame_index, self.frame_index + 1)[0]
        at_end = self.recorded_action is None
        return Step(frame, reward, at_end and self.episode.header.terminated, at_end)

    def save(self) -> Any:
        """Return the index of the frame."""
        return self.frame_index

    def restore(self, saved: Any) -> None:
        """Return to a frame."""
        self.frame_index = saved

    def take_over(self) -> LiveWorld:
        """Return the game at this frame, after replaying the episode up to it; UserError if the game differs."""
        game = replay_game(self.store)
        try:
            for _ in replay(self.episode, game, self.frame_index + 1):
                pass
        except UserError:
            game.close()
            raise
        return LiveWorld(game)


@dataclass(frozen=True, kw_only=True)
class PlayContext:
    """The game, the dataset, or both, that a predictor can be played with."""

    env_id: str
    action_meanings: tuple[str, ...]
    frame_shape: tuple[int, int, int]
    """Height, width, 3 of the game's own frames."""
    game: Game | None
    store: EpisodeStore | None
    missing: str | None = None
    """Why there is no game."""

    def recorded_start(self, context_frames: int, seed: int) -> RecordedWorld:
        """Return a recorded frame with enough frames before it, a different one for each seed."""
        assert self.store is not None, "no dataset to start from"
        long = [index for index, entry in enumerate(self.store.entries) if entry.frames >= context_frames]
        if not long:
            raise UserError(
                f"{self.store.path}: no episode has the {context_frames} frames that the predictor needs first; "
                "pass a dataset of longer ones"
            )
        rng = generator("play-start", seed)
        episode = long[int(rng.integers(len(long)))]
        frames = self.store.entries[episode].frames
        return RecordedWorld(self.store, episode, int(rng.integers(context_frames - 1, frames)))


def make_context(model: LoadedModel, store: EpisodeStore | None, current: PlayContext | None = None) -> PlayContext:
    """Return the game and the dataset that a model can be played with; UserError if there is neither.

    The game of the current context is reused if it is the model's.
    """
    env_id = about(model).env_id
    if store is not None and store.info.env_id != env_id:
        store = None  # of another model's game
    if current is not None and current.env_id == env_id:
        game, missing = current.game, current.missing
    else:
        game, missing = _make_game(env_id)
    known: GameLike
    if game is not None:
        known = game
    elif store is not None and store.frames:
        known = store.info
    else:
        raise UserError(f"{model.name}: {missing}; or pass --data with a dataset of it to start from its frames")
    cure = "it was trained on another version of the game"
    require_fit(model.name, model.predictor, known, view=model.view, source=env_id, cure=cure)
    require_numbered(known.action_range, "playing by keys")
    return PlayContext(
        env_id=env_id,
        action_meanings=known.action_meanings,
        frame_shape=known.frame_shape,
        game=game,
        store=store,
        missing=missing,
    )


def _make_game(env_id: str) -> tuple[Game | None, str | None]:
    """Return the game, or None and the reason."""
    try:
        return make_game(env_id), None
    except UserError as error:
        return None, str(error)
