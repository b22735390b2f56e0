"""Pixel-exact prediction of objects: things that move are predicted in coordinates that move with them.

The grid of the pixel-exact predictor has fixed cells: an object that moves pixel by pixel is another pattern in each of
its 64 positions within a cell. Here objects are found first (objects.py), and each is predicted by a network that sees
a window centered on it (object_network.py) and learns from object_loss.py. The grid predicts everything else: scores,
what appears at the edges, what flickers. Where windows of objects overlap, a pixel belongs to the object whose new
center is nearest.

Training sees many more objects than frames of the grid: the grid learns from some of a batch's windows, the objects
from all of them. Controlled objects are learned in every frame of a window: they decide whether keys work.

Shapes: B batch, K predicted steps, R rows, n objects of all rows, T frames, H height, W width, A actions, N colors,
D side of a drawn window.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from acvp.errors import UserError
from acvp.models.config import DatasetSplit, FrameShape, Progress
from acvp.models.layers import Outcome, RewardTerminationHeads, linear
from acvp.models.pixels import action_vectors, check_frames, check_window
from acvp.models.predictor import Metrics, Predictions, State, TrainingBatch, as_window
from acvp.pixel.config import PAST_ACTIONS, SEEN_FRAMES, ObjectConfig
from acvp.pixel.object_loss import ObjectLoss, StepLoss, learned_targets
from acvp.pixel.object_network import ObjectNetwork, Recall, drawn_colors
from acvp.pixel.object_windows import (
    Kinds,
    Look,
    Memory,
    Objects,
    are_lively,
    as_objects,
    copy_sources,
    look_at,
    owned,
    past_actions,
    remember,
    shown_by_objects,
    within,
)
from acvp.pixel.objects import BACKGROUND, Background, find_background, find_moves, follow
from acvp.pixel.palette import allowed, color_numbers, packed
from acvp.pixel.predictor import PixelPredictor, PixelState

LONG_CONTEXT = 64
"""Frames of the context in all presets but smoke: no absence of Q*bert is longer."""
MOST_MOVES = 160
"""Moves that are distinguished."""
DRAWING_WEIGHT = 0.1
"""Weight of a drawn pixel's loss beside that of a move."""
GRID_ONE_IN = 4
"""The grid learns from one in so many of a batch's windows, at least from one."""
KNOWN_PAST = 0.9
"""Share of the training windows in which the last actions are known."""
EVENTS = 16
"""Features of objects whose maximum feeds the reward and termination heads."""


@dataclass(frozen=True, kw_only=True)
class ObjectState(PixelState):
    """What the grid remembers, and what objects are seen by (see Memory)."""

    recent: Tensor
    under: Tensor
    age: Tensor
    before: Tensor
    past: Tensor

    @property
    def memory(self) -> Memory:
        """What objects are seen by."""
        return Memory(self.recent, self.under, self.age, self.before, self.past)


class ObjectPredictor(PixelPredictor, kind="objects"):
    """The pixel-exact network for whatever is no object, and the object network for the rest."""

    config_class: ClassVar[type[Any]] = ObjectConfig

    background: Tensor
    """Which colors are background at each pixel, a bit for each, (H, W, ⌈N / 8⌉)."""
    usual: Tensor
    """The most frequent color of each pixel, (H, W)."""
    shifts: Tensor
    """The moves, and none for an object that vanishes, (M + 1, 2)."""

    def __init__(self, config: ObjectConfig, generator: torch.Generator) -> None:
        super().__init__(config, generator)
        self.object_config = config
        height, width, colors = *config.frame[:2], len(config.palette)
        self.object_network = ObjectNetwork(config, generator)
        self.object_events = linear(config.features, EVENTS, generator) if config.predict_rewards else None
        self.object_heads = (
            RewardTerminationHeads(EVENTS, generator, lives=config.predict_lives) if config.predict_rewards else None
        )
        self.recall = Recall(config, generator) if config.recalls else None
        self.register_buffer("background", torch.zeros(height, width, -(-colors // 8), dtype=torch.uint8))
        self.register_buffer("usual", torch.zeros(height, width, dtype=torch.uint8))
        shifts = torch.tensor((*config.moves, (0, 0)), device="cpu")  # what meta tensors cannot hold
        self.register_buffer("shifts", shifts, persistent=False)
        self._kinds: Kinds | None = None

    # --- Before training ----------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, data: DatasetSplit) -> dict[str, Any]:
        """Return the statistics of the grid, the moving colors and the moves of objects."""
        fields = super().prepare(data)
        if data.resampled_view is not None or data.train.palette is None:
            raise UserError("--model objects needs frames of up to 256 colors as they are recorded; use --model pixel")
        numbers = color_numbers(data.train, fields["palette"])
        background = find_background(data.train, numbers, len(fields["palette"]))
        moves, controlled = find_moves(data.train, numbers, background, MOST_MOVES)
        return fields | {
            "moving_colors": background.moving,
            "moves": moves,
            "controlled_colors": controlled,
        }

    def calibrate(self, data: DatasetSplit, report: Callable[[str], None], progress: Progress) -> None:
        """Find the palette mask, and which colors are background where."""
        super().calibrate(data, report, progress)
        config, palette = self.object_config, self.object_config.palette
        background = find_background(data.train, color_numbers(data.train, palette), len(palette), progress)
        self.set_background(background)
        controlled = ", ".join(f"rgb{palette[color]}" for color in config.controlled_colors) or "none"
        report(
            f"objects: {len(background.moving)} of {len(palette)} colors move, in {len(config.moves)} ways; "
            f"controlled by the actions: {controlled}"
        )

    def set_background(self, background: Background) -> None:
        """Distinguish objects from this background."""
        self.background.copy_(packed(background.colors, self.object_config))
        self.usual.copy_(torch.from_numpy(background.usual))
        self._kinds = None

    @property
    def kinds(self) -> Kinds:
        """The kinds of pixels."""
        if self._kinds is None or self._kinds.table.device != self.background.device:
            config = self.object_config
            bits = np.unpackbits(self.background.numpy(force=True), axis=2, count=len(config.palette))
            colors = bits.transpose(2, 0, 1).astype(np.bool_)
            background = Background(colors, self.usual.numpy(force=True), config.moving_colors)
            self._kinds = Kinds(background, self.background.device)
        return self._kinds

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self._kinds = None

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of the grid with a longer memory: waits of games last up to 64 agent steps."""
        sizes = super().sizes(preset, frame)
        return sizes | ({"context": 12, "grid_context": 8} if preset == "smoke" else {"context": LONG_CONTEXT})

    def _copy_logits(self, rows: Tensor) -> Tensor:
        """Return the logits of ways to copy (n, S), the last one of what pixels showed before."""
        logits = super()._copy_logits(rows)
        return logits if self.recall is None else torch.cat((logits, self.recall.copy(rows)), 1)

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return the phase of the grid with more windows: objects learn from all of them."""
        defaults = super().training_defaults(preset, frame_shape)
        phases = tuple(phase | {"batch_size": GRID_ONE_IN * phase["batch_size"]} for phase in defaults["phases"])
        return {**defaults, "phases": phases}

    # --- Prediction ---------------------------------------------------------------------------------------------------

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> ObjectState:
        """Return the state after the real frames (B, T, C, H, W) and the actions (B, T - 1) between them."""
        grid, rows = super().observe(frames), len(frames)
        past = frames.new_zeros(rows, PAST_ACTIONS, self.actions)
        if actions is not None and actions.shape[1]:
            known = action_vectors(actions, self.actions, (rows, actions.shape[1]))[:, -PAST_ACTIONS:]
            past[:, -known.shape[1] :] = known
        return self._state(grid, self._memory(self._all_classes(frames), past[:, None]))

    def _all_classes(self, frames: Tensor) -> Tensor:
        """Return the color classes (B, T, H, W) of all frames (B, T, C, H, W), uint8."""
        return self._window_classes(frames, frames.shape[1] - 2).to(torch.uint8)

    def _memory(self, classes: Tensor, past: Tensor) -> Memory:
        """Return what objects are seen by after each of the last K of frames (B, T, H, W), as one batch (B·K, ...).

        ``past`` (B, K, 3, A) are the actions before each of them.
        """
        count, times, oldest = past.shape[1], classes.shape[1], self.object_config.oldest
        first = max(0, times - count - self.object_config.grid_context)  # the background needs no longer memory
        kinds = self.kinds.of(classes[:, first:])
        under, age, before = self.usual.expand_as(classes[:, 0]), torch.full_like(classes[:, 0], oldest), classes[:, 0]
        kept = []
        for time in range(times):
            now = classes[:, time]
            age, before = remember(age, before, classes[:, max(time - 1, 0)], now, oldest)
            if time >= first:
                under = torch.where(kinds[:, time - first] == BACKGROUND, now, under)
            if time >= times - count:
                kept.append((under, age, before))
        unders, ages, befores = (torch.stack(planes, 1).flatten(0, 1) for planes in zip(*kept, strict=True))
        stops = range(times - count + 1, times + 1)
        recent = torch.stack([classes[:, stop - SEEN_FRAMES : stop].flip(1) for stop in stops], 1).flatten(0, 1)
        return Memory(recent.short(), unders.short(), ages, befores.short(), past.flatten(0, 1))

    def _state(self, grid: PixelState, memory: Memory) -> ObjectState:
        """Return the state of the grid with that of objects; what pixels showed before is one of its planes."""
        planes = grid.classes[:, :2]
        if self.object_config.recalls:
            planes = torch.cat((planes, memory.before[:, None].to(planes.dtype)), 1)
        return ObjectState(
            embedded=grid.embedded, frame=grid.frame, classes=planes, outcome=grid.outcome, **memory._asdict()
        )

    def _mixed(self, state: PixelState) -> Tensor:
        """Return the features (B, F, h, w) before the action, with those of the longer memory."""
        mixed = super()._mixed(state)
        if self.recall is None:
            return mixed
        own = ObjectState.require(state)
        recalled: Tensor = self.recall(self._frame(own.before.long()), own.age)
        return mixed + recalled

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, ObjectState]:
        """Return the next frame (B, C, H, W), its colors those of the palette, and the state after it."""
        state = ObjectState.require(state)
        vectors = action_vectors(action, self.actions, (len(state.recent),))
        features, outcome = self._features(self._mixed(state), vectors)
        classes = self._choose(features, state.classes)
        look = self._look(state.memory)
        classes, outcome = self._draw_all(state.memory, vectors, look, classes, outcome)
        frame = self._frame(classes)
        return frame, self._after(state, vectors, frame.clone(), classes, outcome)

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        state = ObjectState.require(state)
        rows, count = len(state.recent), self.actions
        every = torch.eye(count, dtype=state.frame.dtype, device=state.frame.device).repeat(rows, 1)
        features, _ = self._features(self._mixed(state).repeat_interleave(count, 0), every)
        repeated = _repeated(state, count)
        classes = self._choose(features, repeated.classes, count)
        look = self._look(state.memory).repeated(count)
        classes, _ = self._draw_all(repeated.memory, every, look, classes, None, count)
        return self._frame(classes).view(rows, count, *state.frame.shape[1:])

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the real frames before it."""
        vectors = action_vectors(actions, self.actions, tuple(actions.shape[:2]))
        classes = self._all_classes(frames[:, :-1])
        grid = self._every_state(frames, classes[:, -predict - 1 :].long())
        state = self._state(grid, self._memory(classes, past_actions(vectors, predict)))
        frame, after = self.predict(state, vectors[:, -predict:].flatten(0, 1))
        return as_window(frame, after.outcome, len(frames))

    @torch.no_grad()
    def uncertainty(self, state: State, action: Tensor, frame: Tensor) -> Tensor:
        """Return the probability that each pixel of a predicted frame (B, C, H, W) is another color, (B, H, W).

        Where objects probably are, theirs counts, summed over their likeliest moves; elsewhere that of the grid.
        """
        state, shown = ObjectState.require(state), self._classes(frame)
        of_grid = 1 - super().uncertainty(state, action, frame)
        look, vectors = self._look(state.memory), action_vectors(action, self.actions, (len(shown),))
        covered, right = shown_by_objects(
            state.memory, look, self.object_network, vectors, self.shifts, shown, self.object_config
        )
        return 1 - (right / covered.clamp(min=1) + (1 - covered).clamp(min=0) * of_grid)

    def traceable(self) -> Self:
        """Refuse: finding connected regions is no operation of a traced graph."""
        raise UserError("predictors of kind objects cannot be exported to ONNX yet; train one with --model pixel")

    def _look(self, memory: Memory, objects: Objects | None = None) -> Look:
        """Return the objects of the newest frames, or the given ones, and what the network makes of them."""
        objects = self.find(memory.recent) if objects is None else objects
        return look_at(memory, objects, self.kinds, self.object_network, self.object_config)

    def find(self, recent: Tensor) -> Objects:
        """Return the objects of the last frames of color classes (R, 4, H, W), newest first."""
        oldest_first = recent.flip(1).to(torch.uint8)
        pixels, kinds = oldest_first.numpy(force=True), self.kinds.of(oldest_first).numpy(force=True)
        newest = [follow(*window)[1] for window in zip(pixels, kinds, strict=True)]
        return as_objects(newest, recent.device)

    def _draw_all(
        self,
        memory: Memory,
        vectors: Tensor,
        look: Look,
        classes: Tensor,
        outcome: Outcome | None,
        alike: int = 1,
    ) -> tuple[Tensor, Outcome | None]:
        """Return the classes (R, H, W) with all objects drawn, and the outcome with that of the objects.

        Where moves are sampled, ``alike`` rows in a row share their noise.
        """
        objects = look.objects
        if not len(objects.row):
            return classes, outcome
        moving, drawing = self.object_network.act(look.features, vectors[objects.row])
        logits = self.object_network.head(moving)
        if self.temperature:
            noise = torch.empty_like(logits[::alike]).exponential_(generator=self.generator).log_()
            logits = logits / self.temperature - noise.repeat_interleave(alike, 0)
        move = logits.argmax(1)
        center = within(objects.center + self.shifts[move], self.object_config.frame)
        copies = copy_sources(memory, look, center, self.object_config)
        drawn = drawn_colors(self.object_network.draw(drawing, move, copies), copies)
        at, mine = owned(objects.row, center, classes.shape)
        drawn = torch.where(allowed(self.palette_mask, at, drawn), drawn, copies[:, 1])
        painted = classes.flatten().clone()
        painted[at[mine]] = drawn[mine].to(painted.dtype)
        lively = are_lively(memory, objects)
        return painted.view_as(classes), self._with_objects(outcome, moving, objects.row, lively)

    def _with_objects(self, outcome: Outcome | None, acted: Tensor, row: Tensor, lively: Tensor) -> Outcome | None:
        """Return the outcome with the logits of lively objects of its rows, wherever they are."""
        if outcome is None or self.object_events is None or self.object_heads is None:
            return outcome
        events = functional.relu(self.object_events(acted)) * lively[:, None]
        most = events.new_zeros(len(outcome.reward), EVENTS)
        at = row[:, None].expand_as(events)
        return outcome.plus(self.object_heads(most.scatter_reduce(0, at, events, "amax")))

    def _after(
        self, state: ObjectState, vectors: Tensor, frame: Tensor, classes: Tensor, outcome: Outcome | None
    ) -> ObjectState:
        """Return the state after actions (B, A) and a predicted frame of classes (B, H, W)."""
        now = classes.short()
        age, before = remember(state.age, state.before, state.recent[:, 0], now, self.object_config.oldest)
        under = torch.where(self.kinds.of(classes) == BACKGROUND, now, state.under)
        recent = torch.cat((now[:, None], state.recent[:, :-1]), 1)
        past = torch.cat((state.past[:, 1:], vectors[:, None]), 1)
        return self._state(self._next(state, frame, classes, outcome), Memory(recent, under, age, before, past))

    # --- Training -----------------------------------------------------------------------------------------------------

    def training_frames(self, frames: Tensor, palette: Tensor | None) -> Tensor:
        """Return stored frames as color classes, uint8, where they are stored as indices of a palette."""
        if palette is None:
            return super().training_frames(frames, palette)
        numbers = self.colors.nearest(palette).to(torch.uint8)
        return numbers.index_select(0, frames.flatten().int()).view_as(frames)

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Return the loss of the grid outside objects' windows plus that of objects: their moves, and drawing them."""
        classes, vectors, predict = self._checked(batch)
        rng = np.random.default_rng(int(classes[:, -predict:].sum()))  # the same for the same windows
        vectors = vectors * torch.from_numpy(rng.random((len(classes), 1, 1)) < KNOWN_PAST).to(vectors)
        actions = action_vectors(batch.actions, self.actions, tuple(batch.actions.shape[:2]))
        newest = actions[:, -predict:]
        objects = ObjectLoss(self.object_network, self.object_config, self.kinds, self.shifts, rng)
        taught = max(1, len(classes) // GRID_ONE_IN)  # windows of which the grid learns
        if batch.teacher_forcing:
            count = learned_targets(classes.shape[1], predict)
            memory = self._memory(classes[:, :-1], past_actions(vectors, count))
            step = objects.step(memory, actions[:, -count:], classes[:, -count:], predict)
            shown = classes[:taught, -predict - self.object_config.embedded_frames - 1 :].long()
            grid = self._every_state(self._frame(shown), shown[:, -predict - 2 : -1])
            state = self._state(grid, memory.last(count, predict).first(taught * predict))
            parts = [self._grid_loss(state, newest[:taught].flatten(0, 1), step, taught * predict)]
        else:
            parts, state = [], self.observe(self._frame(classes[:, :-predict].long()), vectors[:, :-predict])
            for number in range(predict):
                target = classes[:, number - predict]
                step = objects.step(state.memory, newest[:, number, None], target[:, None], 1)
                parts.append(self._grid_loss(state, newest[:, number], step, len(target)))
                if number + 1 < predict:
                    with torch.no_grad():
                        _, state = self.predict(state, newest[:, number])
            taught = len(classes)
        of_grid, of_moves, of_drawing, outcomes = zip(*parts, strict=True)
        loss, metrics = self._scored(list(of_grid), list(outcomes), batch.rows(0, taught))
        moves, drawing = torch.stack(of_moves).mean(), torch.stack(of_drawing).mean()
        metrics |= {"move_loss": moves.detach(), "drawing_loss": drawing.detach()}
        return loss + moves + DRAWING_WEIGHT * drawing, metrics

    def _checked(self, batch: TrainingBatch) -> tuple[Tensor, Tensor, int]:
        """Return the color classes (B, T + 1, H, W), uint8, and the action vectors (B, T, A) of a batch."""
        frames = batch.frames
        if frames.is_floating_point():
            check_frames(frames, self.config.frame, self.context + batch.predict)
            check_window(frames, batch.actions, batch.predict)
            frames = self._all_classes(frames)
        return frames, action_vectors(batch.actions, self.actions, tuple(batch.actions.shape[:2])), batch.predict

    def _grid_loss(
        self, state: PixelState, vectors: Tensor, step: StepLoss, rows: int
    ) -> tuple[Tensor, Tensor, Tensor, Outcome | None]:
        """Return the losses of the grid, of moves and of drawing, and the outcome, of the first rows of a step."""
        features, outcome = self._features(self._mixed(state), vectors)
        mine = step.row < rows
        outcome = self._with_objects(outcome, step.acted[mine], step.row[mine], step.lively[mine])
        return self._loss(features, state, step.left[:rows]), step.moves, step.drawing, outcome


def _repeated(state: ObjectState, count: int) -> ObjectState:
    """Return a state with each row ``count`` times, without its outcome."""
    repeated = {name: tensor.repeat_interleave(count, 0) for name, tensor in state.tensors().items()}
    return replace(state, outcome=None, **repeated)
