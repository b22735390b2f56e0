"""One player's session: a real game and its dream under the same actions; everything but the web.

Every decision makes a new `Moment` of the one before it, so that going back is putting an old one in its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from acvp.data.policies import Policy, random_policy
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.figures import in_color
from acvp.loaded import LoadedModel
from acvp.play.clip import FORMATS, Clip
from acvp.play.config import FASTEST, SLOWEST
from acvp.play.context import Cast, Stage, open_stage
from acvp.play.imagined import Dream, Dreamer, Seen
from acvp.play.rewind import Grid, Meters, Moment, Reading, Timeline
from acvp.play.worlds import Frame, LiveWorld, RecordedWorld, World
from acvp.seeding import generator

KEPT = 32
"""Real frames kept at least, so that a predictor of longer memory can take over at once."""
MOST_STEPS = 15
"""Decisions that each action is held for at most when all are compared: a second."""

Driver = Literal["human", "agent", "recording"]


class Session:
    """A real game and its dream; one method for each thing a player can do."""

    def __init__(
        self,
        cast: Cast,
        *,
        store: EpisodeStore | None = None,
        policy: Policy = random_policy,
        fps: float = 15.0,
        seed: int = 0,
        rewind_bytes: int = 128_000_000,
    ) -> None:
        self.cast, self.store, self.fps, self.paused = cast, store, fps, False
        self.driver: Driver = "human"
        self.clip: Clip | None = None
        self.world: World | None = None
        self.moment: Moment
        self._tapped: int | None
        self._policy, self._seed, self._resets = policy, seed, 0
        self._timeline: Timeline[tuple[Moment, Any]] = Timeline(rewind_bytes)
        subject = cast.get(cast.first)
        self._enter(subject, open_stage(subject, store))
        self.reset()

    @property
    def name(self) -> str:
        """The predictor's."""
        return self.dreamer.subject.name

    @property
    def context(self) -> int:
        """Real frames that the predictor needs before it can dream."""
        return self.dreamer.predictor.context

    @property
    def knows_rewards(self) -> bool:
        """Whether the predictor foretells rewards and ends."""
        return bool(getattr(self.dreamer.predictor.config, "predict_rewards", False))

    # What a player does.

    def hold(self, action: int) -> None:
        """Hold an action from now on; one that is let go again before the next decision still counts for it."""
        if not 0 <= action < len(self.stage.action_meanings):
            raise UserError(f"action {action}: there are 0 to {len(self.stage.action_meanings) - 1}")
        self._held = action
        self._tapped = action or self._tapped

    def step(self) -> None:
        """Let one decision pass in both worlds; a finished game goes on only where an agent begins the next one."""
        if self.moment.over:
            if self.driver == "agent":
                self.reset()
            return
        action = self._next_action()
        if action is None:
            self.moment = replace(self.moment, over=True)
            return
        self._remember()
        self.moment = self._after(self.moment, action)
        self._film()

    def reset(self) -> None:
        """Begin anew: the next game, or another recorded start where there is no game."""
        self._timeline.clear()
        seed = self._seed + self._resets
        self._resets += 1
        if self.stage.game is None:
            self.world = None
            self.moment = self._beginning(*self.stage.start(self.context, seed).before(max(self.context, KEPT)))
        else:
            self.world = LiveWorld(self.stage.game)
            self.moment = self._beginning([self.world.reset(seed)], [])
        if self.driver == "recording":
            self.driver = "human"
        elif self.driver == "agent":
            self._hire_agent()

    def reground(self) -> None:
        """Let the dream begin again after the real frames; a dream alone goes back to where it began."""
        self.moment = self._grounded(self.moment)

    def rewind(self) -> None:
        """Go back to the last moment kept, in both worlds, and pause there."""
        self.paused = True
        kept = self._timeline.pop()
        if kept is None:
            raise UserError(self._why_no_rewind())
        self.moment, saved = kept
        if self.world is not None:
            self.world.restore(saved)

    def every_action(self, steps: int = 1) -> Grid:
        """Return what each action, held for some decisions, leads to in the dream and in the real game."""
        if not 1 <= steps <= MOST_STEPS:
            raise UserError(f"{steps} decisions: 1 to {MOST_STEPS} can be looked ahead")
        if self.moment.dream.state is None:
            raise UserError(f"the predictor still watches: it needs {self.context} real frames first")
        return Grid(
            steps=steps, dreams=self.dreamer.every_action(self.moment.dream, steps), truths=self._true_futures(steps)
        )

    def switch(self, name: str) -> None:
        """Let another predictor dream on, grounded on the real frames; another game begins anew."""
        if self.clip is not None:
            raise UserError("a clip is being recorded: end it first (key c)")
        before, subject = self.stage, self.cast.get(name)
        self._enter(subject, open_stage(subject, self.store, before))
        self._timeline.clear()  # its dreams are another predictor's
        if self.stage.env_id != before.env_id:
            if before.game is not None:
                before.game.close()
            self.reset()
        elif self.world is None and len(self.moment.frames) < self.context:
            self.reset()
        else:
            self.moment = self._grounded(self.moment)

    def scrub(self, episode: int, frame: int) -> None:
        """Go to a frame of a recorded episode and let the dream begin there; the recording plays on."""
        if self.stage.store is None:
            raise UserError(f"no recorded episodes of {self.stage.env_id}: start acvp play with --data")
        world = RecordedWorld(self.stage.store, episode, frame)
        self._timeline.clear()
        self.world, self.driver = world, "recording"
        self.moment = self._beginning(*world.before(max(self.context, KEPT)))

    def change_driver(self) -> str | None:
        """Hand over between human and agent, or take over from a recording; return what the player should know."""
        if self.driver == "recording":
            self.driver = "human"
            return self._take_over()
        if self.driver == "agent":
            self.driver = "human"
        else:
            self._hire_agent()
        return None

    def pause(self, on: bool) -> None:
        """Stop, or go on."""
        self.paused = on

    def set_fps(self, fps: float) -> None:
        """Set how many decisions pass in a second."""
        if not SLOWEST <= fps <= FASTEST:
            raise UserError(f"{fps:g} decisions a second: {SLOWEST:g} to {FASTEST:g} are possible")
        self.fps = fps

    def record(self) -> None:
        """Begin a clip."""
        self.clip = Clip(self.moment.dream.frame.shape)
        self._film()

    def end_clip(self, kind: str) -> bytes:
        """End the clip and return it as a file of a kind, mp4 or gif."""
        if kind not in FORMATS:
            raise UserError(f"a clip cannot be {kind[:20]!r}: mp4 or gif")
        if self.clip is None:
            raise UserError("no clip is being recorded: begin one first (key c)")
        clip, self.clip = self.clip, None
        return clip.encode(kind)

    def close(self) -> None:
        """Free the game."""
        if self.stage.game is not None:
            self.stage.game.close()

    # How it works.

    def _enter(self, subject: LoadedModel, stage: Stage) -> None:
        self.stage, self.dreamer = stage, Dreamer(subject)
        self._meters = Meters(subject, stage.frame_shape[:2])
        self._held, self._tapped = 0, None

    def _hire_agent(self) -> None:
        """Let a new agent play; an agent of another game refuses."""
        self.driver = "human"
        self._player = self._policy(self.stage.action_meanings, generator("play-agent", self._seed, self._resets))
        self.driver = "agent"

    def _beginning(self, frames: list[Frame], actions: list[int]) -> Moment:
        """Return the first moment after real frames."""
        watching = Dream(frame=self.dreamer.look(frames[-1]))
        return self._grounded(Moment(frames=tuple(frames), actions=tuple(actions), real=None, dream=watching))

    def _grounded(self, moment: Moment) -> Moment:
        """Return the moment with a dream that begins there."""
        real = None if self.world is None else self.dreamer.look(moment.frames[-1])
        dream = self.dreamer.ground(moment.frames, moment.actions)
        return replace(moment, real=real, dream=dream, reading=self._compare(dream.frame, real), earned=0, dreamed=0)

    def _next_action(self) -> int | None:
        """Return what is done next; None at the end of a recording."""
        if self.driver == "recording":
            return None if self.world is None else self.world.recorded_action
        if self.driver == "agent":
            moment = self.moment
            return int(self._player(moment.frames[-1] if self.world else in_color(moment.dream.frame)))
        action = self._held if self._tapped is None else self._tapped
        self._tapped = None
        return action

    def _remember(self) -> None:
        saved = None if self.world is None else self.world.save()
        if self.world is None or saved is not None:
            size = self.moment.dream.size + self.moment.frames[-1].nbytes
            size += 0 if self.world is None else self.world.size_of(saved)
            self._timeline.push((self.moment, saved), size)

    def _after(self, before: Moment, action: int) -> Moment:
        """Return the moment that an action leads to."""
        if self.world is None:
            return self._dreamed_on(before, action)
        step = self.world.step(action)
        frames = (*before.frames, step.frame)[-max(self.context, KEPT) :]
        actions = (*before.actions, action)[-len(frames) + 1 :]
        real = self.dreamer.look(step.frame)
        watching = before.dream.state is None
        dream = self.dreamer.ground(frames, actions) if watching else self.dreamer.step(before.dream, action)
        return Moment(
            frames=frames,
            actions=actions,
            real=real,
            dream=dream,
            reading=self._compare(dream.frame, real),
            number=before.number + 1,
            action=action,
            score=before.score + step.reward,
            earned=0 if watching else before.earned + int(np.sign(step.reward)),
            dreamed=0 if watching else before.dreamed + (dream.reward or 0),
            over=step.terminated or step.truncated,
        )

    def _dreamed_on(self, before: Moment, action: int) -> Moment:
        """Return the moment that an action leads to where there is no real game."""
        dream, number = self.dreamer.step(before.dream, action), before.number + 1
        return replace(before, dream=dream, number=number, action=action, dreamed=before.dreamed + (dream.reward or 0))

    def _compare(self, dream: Seen, real: Seen | None) -> Reading | None:
        if real is None or self.world is None:
            return None
        return self._meters.read(dream, real, self.world.position())

    def _true_futures(self, steps: int) -> NDArray[np.uint8] | None:
        """Return the real frames that each action leads to, (A, h, w, C); None where the game cannot branch."""
        if not isinstance(self.world, LiveWorld) or self.moment.over:
            return None
        game = self.world.game
        if not game.can_save:
            return None
        plans = ([action] * steps for action in range(len(self.stage.action_meanings)))
        return np.stack([self.dreamer.look(future[-1].frame) for future in game.branch(plans)])

    def _take_over(self) -> str | None:
        """Turn a recording into the game at that moment; without the game the dream goes on alone."""
        assert isinstance(self.world, RecordedWorld)
        self._timeline.clear()
        try:
            live = self.world.take_over()
        except UserError as error:
            self.world = None
            self.moment = replace(self.moment, real=None, reading=None, over=False)
            return f"the dream goes on alone: {error}"
        if self.stage.game is not None:
            self.stage.game.close()
        self.world, self.stage = live, replace(self.stage, game=live.game)
        return None

    def _why_no_rewind(self) -> str:
        if isinstance(self.world, LiveWorld) and not self.world.game.can_save:
            return f"{self.stage.env_id} cannot save its state, so there is no way back (docs/environments.md)"
        return "nothing earlier is kept"

    def _film(self) -> None:
        if self.clip is not None:
            moment = self.moment
            name = "" if moment.action is None else f"   action {self.stage.action_meanings[moment.action]}"
            caption = f"{self.stage.env_id}   {self.name}   step {moment.dream.steps}{name}"
            self.clip.add(moment.real, moment.dream.frame, caption)
