"""One player's session: the real game and its imagined copy under the same actions, without any web code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from acvp.data.store import EpisodeStore
from acvp.envs import Game
from acvp.errors import UserError
from acvp.figures import in_color
from acvp.loaded import LoadedModel
from acvp.play.config import FASTEST, SLOWEST
from acvp.play.context import PlayContext, RecordedWorld, make_context
from acvp.play.history import HOTTEST, MAX_TEXT, AutoResync, History, Moves, parse_moves
from acvp.play.model_pool import ModelPool, about
from acvp.play.players import Opening, Players, fast_forward, replay_opening
from acvp.play.recording import FORMATS, Clip, PlayRecorder
from acvp.play.worlds import ActionGrid, LiveWorld, SessionState, ViewedFrame, Worlds
from acvp.seeding import generator

MAX_LOOKAHEAD = 15
"""Steps for which each action is held at most when all are compared: a second of Atari."""

Driver = Literal["human", "agent", "recording", "replay"]


class Session:
    """The real game and its imagined copy; one method for each thing a player can do."""

    def __init__(
        self,
        models: ModelPool,
        *,
        store: EpisodeStore | None = None,
        players: Players | None = None,
        fps: float = 15.0,
        seed: int = 0,
        rewind_bytes: int = 128_000_000,
        first: str | None = None,
        auto_resync: AutoResync = AutoResync(),  # noqa: B008 - it is frozen
        fast_forward: bool = False,
        recorder: PlayRecorder | None = None,
    ) -> None:
        """Start with the model called ``first``; None: the first one of the pool."""
        self.models, self.store, self.fps, self.paused = models, store, fps, False
        self.driver: Driver = "human"
        self.clip: Clip | None = None
        self.state: SessionState
        self._tapped: int | None
        self._players, self._seed, self._resets = players or Players(), seed, 0
        self._rewind_buffer: History[tuple[SessionState, Any]] = History(
            rewind_bytes, lambda kept: (kept[0].agent_steps, kept[0].imagined.frame)
        )
        self.auto_resync, self.recorder, self.notice = auto_resync, recorder, ""
        self._fast_forward, self._link = fast_forward, ""
        self._moves: Moves | None = None
        self._script: Moves
        self._keys_pressed = False
        model = models.get(first or models.first)
        self.temperature = models.temperature
        self._use(model, make_context(model, store))
        self.reset()

    @property
    def model_name(self) -> str:
        """Name of the current model."""
        return self.worlds.imagined.model.name

    @property
    def context_frames(self) -> int:
        """Real frames that the predictor needs before it can imagine the next one."""
        return self.worlds.imagined.predictor.context

    @property
    def predicts_rewards(self) -> bool:
        """Whether the predictor has reward and termination heads."""
        return bool(getattr(self.worlds.imagined.predictor.config, "predict_rewards", False))

    # What a player can do.

    def hold(self, action: int) -> None:
        """Hold an action from now on; one that is released before the next step still counts for that step."""
        if not 0 <= action < len(self.context.action_meanings):
            raise UserError(f"action {action}: there are 0 to {len(self.context.action_meanings) - 1}")
        self._held = action
        self._tapped = action or self._tapped

    def step(self) -> None:
        """Take one agent step in both worlds; after the end of a game only an agent starts the next one."""
        if self.state.over:
            if self.driver == "agent":
                self.reset()
            return
        action = self._next_action()
        if action is None:
            self.state = replace(self.state, over=True)
            return
        now, nbytes = self._now()
        if self.worlds.real is None or now[1] is not None:  # it can be restored
            self._rewind_buffer.push(now, nbytes)
        if self._moves is not None:
            self._moves.step(self.state.agent_steps, action)
        self._keys_pressed |= self.driver == "human" and action != 0
        self.state = self.worlds.step(self.state, action)
        if self._resync_due():
            self.resync()
        if self.driver == "replay" and self.state.agent_steps >= len(self._script.actions) - self._script.skip:
            self.driver, self.paused = "human", True
        self._add_to_clip()
        if self.state.over:
            self._record_game()

    def reset(self) -> None:
        """Start again: the next game, or another recorded frame where there is no game."""
        self._record_game()
        self._rewind_buffer.clear()
        seed = self._seed + self._resets
        self._resets += 1
        game = self.context.game
        if game is None:
            self.worlds.real = self._moves = None
            start = self.context.recorded_start(self.context_frames, seed)
            self.state = self.worlds.start(*start.history(self.worlds.history_length))
        elif self._fast_forward:
            self._begin_game(game, seed, fast_forward(game, seed, self._players.policy(self.context.env_id)))
        else:
            self._begin_game(game, seed, Opening([game.reset(seed)]))
        if self.driver in ("recording", "replay"):
            self.driver = "human"
        elif self.driver == "agent":
            self._start_agent()

    def resync(self) -> None:
        """Resync the imagined world with the real frames; without a real world, return to its start."""
        if self._moves is not None:
            self._moves.resyncs.add(self.state.agent_steps)
        self.state = self.worlds.resync(self.state)

    def rewind(self) -> None:
        """Return both worlds to the last state kept, and pause there."""
        self.paused = True
        kept = self._rewind_buffer.back(*self._now())
        if kept is None:
            raise UserError(self._why_no_rewind())
        self._restore(kept)

    def go(self, step: int) -> None:
        """Go back or forward to the last state kept that is not after an agent step, and pause there."""
        self.paused = True
        kept = self._rewind_buffer.go(*self._now(), step)
        if kept is not None:
            self._restore(kept)
        elif len(self._rewind_buffer) == 0 and step < self.state.agent_steps:
            raise UserError(self._why_no_rewind())

    @property
    def history(self) -> tuple[int, int]:
        """The first and the last agent step that `go` can reach."""
        return self._rewind_buffer.range(self.state.agent_steps)

    @property
    def left_future(self) -> dict[int, ViewedFrame]:
        """The imagined frames of the future that was left by taking another action, by agent step."""
        return self._rewind_buffer.left

    def show_uncertainty(self, on: bool) -> None:
        """Compute how uncertain the predictor is of every pixel from now on, or not."""
        if on and not self.worlds.imagined.predictor.gives_uncertainty:
            raise UserError(
                f"{self.model_name} gives no probability for every pixel: choose one of kind pixel or objects"
            )
        self.worlds.imagined.shows_uncertainty = on

    def every_action(self, steps: int = 1) -> ActionGrid:
        """Return the frames that each action, held for some steps, leads to in both worlds."""
        if not 1 <= steps <= MAX_LOOKAHEAD:
            raise UserError(f"{steps} steps: choose 1 to {MAX_LOOKAHEAD} to look ahead")
        if self.state.imagined.predictor_state is None:
            raise UserError(f"the predictor needs {self.context_frames} real frames first")
        return self.worlds.every_action(self.state, steps)

    def switch(self, name: str) -> None:
        """Switch to another model, resynced with the real frames; another game starts from its beginning."""
        if self.clip is not None:
            raise UserError("a clip is being recorded: end it first (key c)")
        before, model = self.context, self.models.get(name, like=self.worlds.imagined.model)
        if about(model).env_id != before.env_id:
            self._record_game()
        self._use(model, make_context(model, self.store, before), self.worlds)
        self._rewind_buffer.clear()  # it holds states of another predictor
        if self.context.env_id != before.env_id:
            if before.game is not None:
                before.game.close()
            self.reset()
        elif self.worlds.real is None and len(self.state.frames) < self.context_frames:
            self.reset()
        else:
            self.resync()

    def compare(self, name: str) -> None:
        """Let another predictor of this game dream beside the first one, under the same keys; an empty name: none."""
        model = self.models.get(name, like=self.worlds.imagined.model) if name else None
        if model is not None and about(model).env_id != self.context.env_id:
            raise UserError(f"{name} predicts {about(model).env_id}, not {self.context.env_id}: choose another one")
        self._rewind_buffer.clear()  # its states have another predictor beside the first, or none
        self.worlds.set_other(model)
        self.worlds.sample(self.temperature, self._seed)
        self.resync()

    def set_temperature(self, temperature: float) -> None:
        """Sample at this temperature from now on: 0 = argmax."""
        if not 0 <= temperature <= HOTTEST:
            raise UserError(f"temperature {temperature:g}: choose 0 to {HOTTEST:g}")
        self.temperature = temperature
        self.worlds.sample(self.temperature, self._seed)

    def set_auto_resync(self, mode: str) -> None:
        """Resync automatically from now on: off, lost, or after a number of steps."""
        self.auto_resync = AutoResync.parse(mode)

    def share(self) -> str:
        """Return the text of a link with which `replay` repeats this game."""
        if self._moves is None:
            raise UserError("only a game played from its start can be shared: start one (key Enter)")
        if self.worlds.imagined.model.baseline:
            raise UserError(f"{self.model_name} belongs to no game: choose a predictor to share a game")
        moves = replace(self._moves, temperature=self.temperature)
        return moves.to_text(self.model_name, self.state.agent_steps)

    def replay(self, text: str, last: bool) -> None:
        """Repeat a shared game; its text may come in parts, of which only the last one starts it."""
        self._link += text
        if len(self._link) > 2 * MAX_TEXT:
            self._link = ""
            raise UserError("this link is too long")
        if last:
            text, self._link = self._link, ""
            self._start_replay(parse_moves(text, len(self.context.action_meanings)))

    def scrub(self, episode: int, frame: int) -> None:
        """Go to a frame of a recorded episode, resync there, and let the recording play."""
        if self.context.store is None:
            raise UserError(f"no recorded episodes of {self.context.env_id}: start acvp play with --data")
        world = RecordedWorld(self.context.store, episode, frame)
        self._record_game()
        self._moves = None
        self._rewind_buffer.clear()
        self.worlds.real, self.driver = world, "recording"
        self.state = self.worlds.start(*world.history(self.worlds.history_length))

    def change_driver(self) -> str | None:
        """Switch between human and agent, or take over from a recording; return a note for the player, if any."""
        before, self.driver = self.driver, "human"
        if before == "human":
            self._start_agent()
        return self._take_over() if before == "recording" else None

    def pause(self, on: bool) -> None:
        """Pause or resume."""
        self.paused = on

    def set_fps(self, fps: float) -> None:
        """Set the number of agent steps per second."""
        if not SLOWEST <= fps <= FASTEST:
            raise UserError(f"{fps:g} steps per second: choose {SLOWEST:g} to {FASTEST:g}")
        self.fps = fps

    def record(self) -> None:
        """Start a clip."""
        self.clip = Clip(self.state.imagined.frame.shape)
        self._add_to_clip()

    def end_clip(self, kind: str) -> bytes:
        """End the clip and return it as an mp4 or gif file."""
        if kind not in FORMATS:
            raise UserError(f"a clip cannot be {kind[:20]!r}: mp4 or gif")
        if self.clip is None:
            raise UserError("no clip is being recorded: start one first (key c)")
        clip, self.clip = self.clip, None
        return clip.encode(kind)

    def close(self) -> None:
        """Close the game."""
        self._record_game()
        if self.context.game is not None:
            self.context.game.close()

    # How it works.

    def _use(self, model: LoadedModel, context: PlayContext, before: Worlds | None = None) -> None:
        """Play a model from now on; the real world and the predictor beside it stay if they are of its game."""
        self.context, self._held, self._tapped = context, 0, None
        self.policy_name = self._players.name(context.env_id)
        self.worlds = Worlds(model, context.frame_shape[:2], None if context.store is None else context.store.palette)
        if before is not None and about(before.imagined.model).env_id == context.env_id:
            self.worlds.real = before.real
            self.worlds.set_other(None if before.other is None else before.other.model)
        self.worlds.sample(self.temperature, self._seed)

    def _start_agent(self) -> None:
        """Let a new agent play; an agent of another game raises UserError and the human keeps playing."""
        self.driver = "human"
        policy = self._players.policy(self.context.env_id)
        self._player = policy(self.context.action_meanings, generator("play-agent", self._seed, self._resets))
        self.driver = "agent"

    def _begin_game(self, game: Game, seed: int, opening: Opening) -> None:
        """Start where an opening has led a game."""
        self.worlds.real = LiveWorld(game)
        self._moves = Moves(seed, len(opening.actions), list(opening.actions))
        self._keys_pressed = False
        self.worlds.sample(self.temperature, self._seed)
        frames = opening.frames[-self.worlds.history_length :]
        state = self.worlds.start(frames, opening.actions[len(opening.actions) + 1 - len(frames) :])
        self.state = replace(state, score=opening.score)

    def _start_replay(self, script: Moves) -> None:
        game = self.context.game
        if game is None:
            raise UserError(f"{self.context.env_id} is not installed here, so a shared game cannot be replayed")
        self._record_game()
        self._rewind_buffer.clear()
        self.temperature = script.temperature
        self._begin_game(game, script.seed, replay_opening(game, script.seed, script.actions[: script.skip]))
        self._script = script
        self.driver = "replay" if len(script.actions) > script.skip else "human"
        self.paused = False

    def _resync_due(self) -> bool:
        """Return whether the dream is to be resynced after this step; a replay repeats the resyncs of its game."""
        state = self.state
        if self.worlds.real is None or state.imagined.predictor_state is None:
            return False
        if self.driver == "replay":
            return state.agent_steps in self._script.resyncs
        return self.auto_resync.due(state.imagined.steps, state.lost_steps)

    def _record_game(self) -> None:
        """Add the game to its dataset if somebody has played it; the notice says what was done."""
        if self.recorder is None or self._moves is None or not self._keys_pressed:
            return
        self._keys_pressed = False
        moves = replace(self._moves, actions=self._moves.actions[: self._moves.skip + self.state.agent_steps])
        try:
            self.notice = self.recorder.add(self.context.env_id, moves)
        except UserError as error:
            self.notice = f"this game was not recorded: {error}"

    def _next_action(self) -> int | None:
        """Return the driver's next action; None at the end of a recording."""
        if self.driver == "replay":
            return self._script.actions[self._script.skip + self.state.agent_steps]
        if self.driver == "recording":
            return None if self.worlds.real is None else self.worlds.real.recorded_action
        if self.driver == "agent":
            state = self.state
            return int(self._player(state.frames[-1] if self.worlds.real else in_color(state.imagined.frame)))
        action = self._held if self._tapped is None else self._tapped
        self._tapped = None
        return action

    def _now(self) -> tuple[tuple[SessionState, Any], int]:
        """Return what `_restore` needs to return to now, and its bytes."""
        saved = None if self.worlds.real is None else self.worlds.real.save()
        nbytes = self.state.imagined.nbytes + self.state.frames[-1].nbytes
        nbytes += 0 if self.worlds.real is None else self.worlds.real.saved_bytes(saved)
        return (self.state, saved), nbytes

    def _restore(self, kept: tuple[SessionState, Any]) -> None:
        self.state, saved = kept
        if self.worlds.real is not None:
            self.worlds.real.restore(saved)

    def _take_over(self) -> str | None:
        """Replace a recording by the game at that frame; without the game only the imagined world continues."""
        assert isinstance(self.worlds.real, RecordedWorld)
        self._rewind_buffer.clear()
        self._moves = None  # the dataset may have other settings than a shared game
        try:
            live = self.worlds.real.take_over()
        except UserError as error:
            self.worlds.real = None
            self.state = replace(self.state, real=None, metrics=None, over=False)
            return f"only the dream continues: {error}"
        if self.context.game is not None:
            self.context.game.close()
        self.worlds.real, self.context = live, replace(self.context, game=live.game)
        return None

    def _why_no_rewind(self) -> str:
        if isinstance(self.worlds.real, LiveWorld) and not self.worlds.real.game.can_save:
            return f"{self.context.env_id} cannot save its state, so it cannot be rewound (docs/environments.md)"
        return "nothing earlier is kept"

    def _add_to_clip(self) -> None:
        if self.clip is not None:
            state = self.state
            name = "" if state.action is None else f"   action {self.context.action_meanings[state.action]}"
            caption = f"{self.context.env_id}   {self.model_name}   step {state.imagined.steps}{name}"
            self.clip.add(state.real, state.imagined.frame, caption)
