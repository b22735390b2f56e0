"""Pixel-exact prediction of objects: things that move are predicted in coordinates that move with them.

The grid of the pixel-exact predictor has fixed cells: an object that moves pixel by pixel is another pattern in each of
its 64 positions within a cell. Here objects are found first (objects.py), and each is predicted by a network that sees
a window centered on it (object_network.py). The grid predicts everything else: scores, what appears at the edges, what
flickers. Where windows of objects overlap, a pixel belongs to the object whose new center is nearest.

Shapes: B batch, K predicted steps, R rows, n objects of all rows, T frames, H height, W width, A actions, N colors,
D side of a drawn window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from acvp.errors import UserError
from acvp.models.checks import action_vectors, check_frames, check_window
from acvp.models.config import DatasetSplit, Progress
from acvp.models.encoder_decoder import linear
from acvp.models.heads import Outcome, RewardTerminationHeads
from acvp.models.predictor import Metrics, Predictions, State, TrainingBatch, as_window
from acvp.pixel.config import SEEN_FRAMES, ObjectConfig
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.object_network import (
    DRAWN,
    OLD,
    SEEN,
    ObjectNetwork,
    Objects,
    Seen,
    cut,
    drawn_colors,
    drawn_loss,
    inside,
    owned,
    summarize,
)
from acvp.pixel.objects import (
    MOVING,
    Background,
    FrameObjects,
    displacements,
    find_background,
    find_boxes,
    find_moves,
)
from acvp.pixel.palette import color_numbers, packed
from acvp.pixel.predictor import PixelPredictor, PixelState

MOST_MOVES = 160
"""Moves that are distinguished."""
LIVELY = 6
"""An object is lively if a pixel of it changed in fewer than so many steps."""
QUIET_ONE_IN = 8
"""The loss takes one in so many objects that neither change nor are lively, with that weight."""
DRAWING_WEIGHT = 0.1
"""Weight of a drawn pixel's loss beside that of a move."""
EVENTS = 16
"""Features of objects whose maximum feeds the reward and termination heads."""


@dataclass(frozen=True, kw_only=True)
class ObjectState(PixelState):
    """What the grid remembers, and what objects are seen by."""

    recent: Tensor
    """Color classes of the last frames, newest first, (B, 4, H, W) int16."""
    under: Tensor
    """What each pixel last showed of the background, (B, H, W) int16."""
    age: Tensor
    """Steps since each pixel last changed, at most OLD, (B, H, W) uint8."""


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
        self.object_network = ObjectNetwork(colors, len(config.moves), config.actions, config.features, generator)
        self.object_events = linear(config.features, EVENTS, generator) if config.predict_rewards else None
        self.object_heads = RewardTerminationHeads(EVENTS, generator) if config.predict_rewards else None
        self.register_buffer("background", torch.zeros(height, width, -(-colors // 8), dtype=torch.uint8))
        self.register_buffer("usual", torch.zeros(height, width, dtype=torch.uint8))
        shifts = torch.tensor((*config.moves, (0, 0)), device="cpu")  # what meta tensors cannot hold
        self.register_buffer("shifts", shifts, persistent=False)
        self._table: Tensor | None = None

    # --- Before training ----------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, data: DatasetSplit) -> dict[str, Any]:
        """Return the statistics of the grid, the moving colors and the moves of objects."""
        fields = super().prepare(data)
        if data.resampled_view is not None or data.train.palette is None:
            raise UserError("--model objects needs frames of up to 256 colors as they are recorded; use --model pixel")
        numbers = color_numbers(data.train, fields["palette"])
        background = find_background(data.train, numbers, len(fields["palette"]))
        moves = find_moves(data.train, numbers, background, MOST_MOVES)
        return fields | {"moving_colors": background.moving, "moves": moves}

    def calibrate(self, data: DatasetSplit, report: Callable[[str], None], progress: Progress) -> None:
        """Find the palette mask, and which colors are background where."""
        super().calibrate(data, report, progress)
        palette = self.object_config.palette
        background = find_background(data.train, color_numbers(data.train, palette), len(palette), progress)
        self.set_background(background)
        report(
            f"objects: {len(background.moving)} of {len(palette)} colors move, in {len(self.object_config.moves)} ways"
        )

    def set_background(self, background: Background) -> None:
        """Distinguish objects from this background."""
        self.background.copy_(packed(background.colors, self.object_config))
        self.usual.copy_(torch.from_numpy(background.usual))
        self._table = None

    def _kinds(self, classes: Tensor) -> Tensor:
        """Return the kinds of the pixels of color classes (..., H, W), uint8."""
        if self._table is None or self._table.device != self.background.device:
            config = self.object_config
            bits = np.unpackbits(self.background.numpy(force=True), axis=2, count=len(config.palette))
            colors = bits.transpose(2, 0, 1).astype(np.bool_)
            background = Background(colors, self.usual.numpy(force=True), config.moving_colors)
            self._table = torch.from_numpy(background.kinds_table()).flatten().to(self.background.device)
        pixels = classes.shape[-2] * classes.shape[-1]
        at = classes.flatten(-2).long() * pixels + torch.arange(pixels, device=classes.device)
        return self._table[at].view_as(classes)

    def _load_from_state_dict(self, *arguments: Any) -> None:
        super()._load_from_state_dict(*arguments)
        self._table = None

    # --- Prediction ---------------------------------------------------------------------------------------------------

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> ObjectState:
        """Return the state after the real frames (B, T, C, H, W)."""
        grid, classes = super().observe(frames), self._all_classes(frames)
        under, age = self._remembered(classes)[-1]
        return _state(grid, recent=classes[:, -SEEN_FRAMES:].flip(1).short(), under=under, age=age)

    def _all_classes(self, frames: Tensor) -> Tensor:
        """Return the color classes (B, T, H, W) of all frames (B, T, C, H, W)."""
        return self._window_classes(frames, frames.shape[1] - 2)

    def _remembered(self, classes: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the background (B, H, W) and the ages (B, H, W) after each of frames of classes (B, T, H, W)."""
        kinds, classes = self._kinds(classes), classes.short()
        under = self.usual.short().expand_as(classes[:, 0])
        age = torch.full_like(under, OLD, dtype=torch.uint8)
        memory = []
        for time in range(classes.shape[1]):
            before = classes[:, max(time - 1, 0)]
            under, age = _remember(under, age, before, classes[:, time], kinds[:, time])
            memory.append((under, age))
        return memory

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, ObjectState]:
        """Return the next frame (B, C, H, W), its colors those of the palette, and the state after it."""
        state = _own(state)
        vectors = action_vectors(action, self.actions, (len(state.recent),))
        features, outcome = self._features(self._mixed(state), vectors)
        classes = self._choose(features, state.classes)
        objects, seen = self._look(state)
        classes, outcome = self._draw_all(state, vectors, objects, seen, classes, outcome)
        frame = self._frame(classes)
        return frame, self._after(state, frame.clone(), classes, outcome)

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        state = _own(state)
        rows, count = len(state.recent), self.actions
        every = torch.eye(count, dtype=state.frame.dtype, device=state.frame.device).repeat(rows, 1)
        features, _ = self._features(self._mixed(state).repeat_interleave(count, 0), every)
        repeated = _repeated(state, count)
        classes = self._choose(features, repeated.classes, count)
        objects, seen = self._look(state)
        all_objects = Objects(
            (objects.row[:, None] * count + torch.arange(count, device=objects.row.device)).flatten(),
            objects.box.repeat_interleave(count, 0),
        )
        classes, _ = self._draw_all(
            repeated, every, all_objects, seen.repeat_interleave(count, 0), classes, None, count
        )
        return self._frame(classes).view(rows, count, *state.frame.shape[1:])

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the real frames before it."""
        state = self._real_states(frames[:, :-1], predict)
        frame, after = self.predict(state, actions[:, -predict:].flatten(0, 1))
        return as_window(frame, after.outcome, len(frames))

    def traceable(self) -> Self:
        """Refuse: finding connected regions is no operation of a traced graph."""
        raise UserError("predictors of kind objects cannot be exported to ONNX yet; train one with --model pixel")

    def _look(self, state: ObjectState) -> tuple[Objects, Tensor]:
        """Return the objects of the newest frames and their features before the action."""
        objects = self.find(state.recent[:, 0])
        return objects, self.object_network.look(self._seen(state, objects))

    def find(self, classes: Tensor) -> Objects:
        """Return the objects of frames of color classes (R, H, W)."""
        kinds = self._kinds(classes)
        boxes = [find_boxes(frame) for frame in kinds.numpy(force=True)]
        row = np.repeat(np.arange(len(boxes)), [len(box) for box in boxes])
        device = classes.device
        return Objects(torch.from_numpy(row).to(device), torch.from_numpy(np.concatenate(boxes)).to(device))

    def _seen(self, state: ObjectState, objects: Objects) -> Seen:
        """Return what is seen of objects."""
        none, center = len(self.object_config.palette), objects.center
        planes = torch.cat((state.recent, state.under[:, None]), 1)
        colors = cut(planes, objects.row, center, SEEN, none).long()
        kinds = cut(self._kinds(state.recent[:, 0])[:, None], objects.row, center, SEEN, 0)[:, 0]
        age = cut(state.age[:, None], objects.row, center, SEEN, OLD)[:, 0].float()
        own = inside(objects) & (kinds == objects.box[:, 4, None, None])
        since = torch.where(own, age, OLD).amin((1, 2))
        recency = torch.stack((torch.exp(-age / 3), torch.exp(-age / 12), own.float()), 1)
        size = objects.box[:, 2:4] - objects.box[:, :2] + 1
        summary = summarize(center, size, objects.box[:, 4] == MOVING, since, self.object_config.frame[:2])
        return Seen(colors, recency, summary)

    def _draw_all(
        self,
        state: ObjectState,
        vectors: Tensor,
        objects: Objects,
        seen: Tensor,
        classes: Tensor,
        outcome: Outcome | None,
        alike: int = 1,
    ) -> tuple[Tensor, Outcome | None]:
        """Return the classes (R, H, W) with all objects drawn, and the outcome with that of the objects.

        Where moves are sampled, ``alike`` rows in a row share their noise.
        """
        if not len(objects.row):
            return classes, outcome
        acted = self.object_network.act(seen, vectors[objects.row])
        logits = self.object_network.head(acted)
        if self.temperature:
            noise = torch.empty_like(logits[::alike]).exponential_(generator=self.generator).log_()
            logits = logits / self.temperature - noise.repeat_interleave(alike, 0)
        move = logits.argmax(1)
        center = self._moved(objects, move)
        copies = self._copies(state, objects, center)
        drawn = drawn_colors(self.object_network.draw(acted, move, copies), copies)
        at, mine = owned(objects.row, center, classes.shape)
        painted = classes.flatten().clone()
        painted[at[mine]] = drawn[mine].to(painted.dtype)
        return painted.view_as(classes), self._with_objects(outcome, acted, state, objects)

    def _moved(self, objects: Objects, move: Tensor) -> Tensor:
        """Return the centers of objects after moves, inside the frame."""
        edge = torch.tensor(self.object_config.frame[:2], device=move.device) - 1
        return torch.minimum((objects.center + self.shifts[move]).clamp(min=0), edge)

    def _copies(self, state: ObjectState, objects: Objects, center: Tensor) -> Tensor:
        """Return the colors that the pixels of drawn windows can copy, (n, 3, D, D)."""
        none, newest = len(self.object_config.palette), state.recent[:, :1]
        here = cut(torch.cat((newest, state.under[:, None]), 1), objects.row, center, DRAWN, none)
        return torch.cat((here, cut(newest, objects.row, objects.center, DRAWN, none)), 1).long()

    def _with_objects(
        self, outcome: Outcome | None, acted: Tensor, state: ObjectState, objects: Objects
    ) -> Outcome | None:
        """Return the outcome with the logits of lively objects, wherever they are."""
        if outcome is None or self.object_events is None or self.object_heads is None:
            return outcome
        events = functional.relu(self.object_events(acted)) * self._lively(state, objects)[:, None]
        most = events.new_zeros(len(state.recent), EVENTS)
        at = objects.row[:, None].expand_as(events)
        return outcome.plus(self.object_heads(most.scatter_reduce(0, at, events, "amax")))

    def _lively(self, state: ObjectState, objects: Objects) -> Tensor:
        """Return which objects changed lately, (n,)."""
        age = cut(state.age[:, None], objects.row, objects.center, SEEN, OLD)[:, 0]
        return torch.where(inside(objects), age, OLD).amin((1, 2)) < LIVELY

    def _after(self, state: ObjectState, frame: Tensor, classes: Tensor, outcome: Outcome | None) -> ObjectState:
        """Return the state after a predicted frame of classes (B, H, W)."""
        now = classes.short()
        under, age = _remember(state.under, state.age, state.recent[:, 0], now, self._kinds(classes))
        recent = torch.cat((now[:, None], state.recent[:, :-1]), 1)
        grid = self._next(state, frame, classes, outcome)
        return _state(grid, recent=recent, under=under, age=age)

    # --- Training -----------------------------------------------------------------------------------------------------

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Return the loss of the grid outside objects' windows plus that of objects: their moves, and drawing them."""
        frames, predict = batch.frames, batch.predict
        check_frames(frames, self.config.frame, self.context + predict)
        check_window(frames, batch.actions, predict)
        newest = action_vectors(batch.actions, self.actions, (len(frames), frames.shape[1] - 1))[:, -predict:]
        targets = self._window_classes(frames, predict)[:, 2:]  # (B, K, H, W)
        rng = np.random.default_rng(int(targets.sum()))  # the same for the same windows: a run can be repeated
        if batch.teacher_forcing:
            state = self._real_states(frames[:, :-1], predict)
            parts = [self._step_loss(state, newest.flatten(0, 1), targets.flatten(0, 1), rng)]
        else:
            parts, state = [], self.observe(frames[:, :-predict])
            for step in range(predict):
                parts.append(self._step_loss(state, newest[:, step], targets[:, step], rng))
                if step + 1 < predict:
                    with torch.no_grad():
                        _, state = self.predict(state, newest[:, step])
        grid, moves, drawing, outcomes = zip(*parts, strict=True)
        loss, metrics = self._scored(list(grid), list(outcomes), batch)
        of_moves, of_drawing = torch.stack(moves).mean(), torch.stack(drawing).mean()
        metrics |= {"move_loss": of_moves.detach(), "drawing_loss": of_drawing.detach()}
        return loss + of_moves + DRAWING_WEIGHT * of_drawing, metrics

    def _real_states(self, frames: Tensor, predict: int) -> ObjectState:
        """Return the states after each of the last K real frames of (B, T, C, H, W), as one batch (B·K, ...)."""
        times, classes = frames.shape[1], self._all_classes(frames)
        padded = torch.cat((frames, frames[:, -1:]), 1)
        grid = self._every_state(padded, classes[:, -predict - 1 :])
        memory = self._remembered(classes)[-predict:]
        under, age = (torch.stack(planes, 1).flatten(0, 1) for planes in zip(*memory, strict=True))
        lengths = range(times - predict + 1, times + 1)
        recent = torch.stack([classes[:, end - SEEN_FRAMES : end].flip(1) for end in lengths], 1).flatten(0, 1).short()
        return _state(grid, recent=recent, under=under, age=age)

    def _step_loss(
        self, state: ObjectState, vectors: Tensor, target: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Outcome | None]:
        """Return the losses of the grid, of moves and of drawing before ``target`` (R, H, W), and the outcome."""
        features, outcome = self._features(self._mixed(state), vectors)
        objects = self.find(state.recent[:, 0])
        if not len(objects.row):
            nothing = features.new_zeros(())
            return self._loss(features, state, target), nothing, nothing, outcome
        move = self._true_moves(state, objects, target)
        center = self._moved(objects, move)
        at, mine = owned(objects.row, center, target.shape)
        lively = self._lively(state, objects)
        busy = lively | self._changes(state, objects, target)
        counted = busy | torch.from_numpy(rng.random(len(busy)) * QUIET_ONE_IN < 1).to(busy)
        weight = torch.where(busy, 1.0, float(QUIET_ONE_IN))[counted] / len(target)
        some = Objects(objects.row[counted], objects.box[counted])
        acted = self.object_network.act(self.object_network.look(self._seen(state, some)), vectors[some.row])
        of_move = functional.cross_entropy(self.object_network.head(acted), move[counted], reduction="none")
        copies = self._copies(state, some, center[counted])
        true = cut(target[:, None], some.row, center[counted], DRAWN, 0)[:, 0]
        drawn = drawn_loss(self.object_network.draw(acted, move[counted], copies), copies, true)
        of_drawing = (drawn * mine[counted]).sum((1, 2))
        left = target.flatten().clone()
        left[at[mine]] = NO_PIXEL
        return (
            self._loss(features, state, left.view_as(target)),
            (of_move * weight).sum(),
            (of_drawing * weight).sum(),
            self._with_objects(outcome, acted, state, some),
        )

    def _true_moves(self, state: ObjectState, objects: Objects, target: Tensor) -> Tensor:
        """Return the numbers (n,) of the moves to the next frame, the last one where an object vanishes."""
        numbers = {move: number for number, move in enumerate(self.object_config.moves)}
        vanished, moves = len(numbers), list[int]()
        rows, boxes = objects.row.numpy(force=True), objects.box.numpy(force=True)
        now, after = (frames.numpy(force=True).astype(np.uint8) for frames in (state.recent[:, 0], target))
        kinds, kinds_after = (self._kinds(frames).numpy(force=True) for frames in (state.recent[:, 0], target))
        for row in range(len(now)):
            now_objects = FrameObjects(now[row], kinds[row], boxes[rows == row])
            following = FrameObjects(after[row], kinds_after[row], find_boxes(kinds_after[row]))
            taken = displacements(now_objects, following)
            moves += [vanished if move is None else numbers.get(move, vanished) for move in taken]
        return torch.tensor(moves, device=target.device)

    def _changes(self, state: ObjectState, objects: Objects, target: Tensor) -> Tensor:
        """Return in which objects' windows, close around them, a pixel changes, (n,)."""
        changed = (state.recent[:, 0] != target).to(torch.uint8)
        return (
            (cut(changed[:, None], objects.row, objects.center, SEEN, 0)[:, 0].bool() & inside(objects, 2))
            .any(2)
            .any(1)
        )


def _remember(under: Tensor, age: Tensor, before: Tensor, now: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the background and the ages after one more frame."""
    older = (age + 1).clamp(max=OLD)
    return torch.where(kinds == 0, now, under), torch.where(now == before, older, 0).to(torch.uint8)


def _state(grid: PixelState, *, recent: Tensor, under: Tensor, age: Tensor) -> ObjectState:
    """Return the state of the grid with that of objects."""
    return ObjectState(
        embedded=grid.embedded, frame=grid.frame, classes=grid.classes, outcome=grid.outcome,
        recent=recent, under=under, age=age,
    )  # fmt: skip


def _repeated(state: ObjectState, count: int) -> ObjectState:
    """Return a state with each row ``count`` times, without its outcome."""
    tensors = {name: value for name, value in vars(state).items() if isinstance(value, Tensor)}
    return replace(state, outcome=None, **{name: value.repeat_interleave(count, 0) for name, value in tensors.items()})


def _own(state: State) -> ObjectState:
    if not isinstance(state, ObjectState):
        raise TypeError(f"the state is a {type(state).__name__}; pass one that this predictor's observe returned")
    return state
