"""`check_predictor`: the contract of every predictor as a test, for predictors of one's own.

Shapes: B rows, T time, K predicted steps, C channels, H height, W width, A actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from acvp.models import (
    Predictor,
    State,
    TrainingBatch,
    build_predictor,
    config_from_dict,
    config_to_dict,
    imagine,
    rollout,
    unroll,
)
from acvp.models.artifact import predictor_files, predictor_from_files
from acvp.models.rollout import join_rows, select_rows

ROWS, STEPS = 2, 3
"""Windows that a predictor is checked on, and predicted steps of each."""
ATOL, RTOL = 1e-4, 1e-3
"""How far floats may differ that are computed in another order."""


class ContractError(AssertionError):
    """A predictor does not keep a promise that the rest of acvp relies on."""


def check_predictor(predictor: Predictor, *, seed: int = 0) -> None:
    """Raise ContractError where a predictor breaks its contract; sampling must be off.

    Checked are shapes, determinism, states that are never changed, agreement of ``predict_all``, ``forward`` and
    rollouts with ``predict``, independence of rows, the loss, extreme frames, files, and initial weights that follow
    from a generator.
    """
    was_training = predictor.training
    predictor.eval()
    try:
        with torch.no_grad():
            window = _Window(predictor, seed)
            _check_steps(predictor, window)
            _check_rows(predictor, window)
            _check_actions(predictor, window)
            _check_windows(predictor, window)
            _check_rollouts(predictor, window)
            _check_files(predictor, window)
            _check_weights(predictor)
    finally:
        predictor.train(was_training)
    _check_loss(predictor, window)


class _Window:
    """Random frames as the predictor may see them, normalized, and actions."""

    def __init__(self, predictor: Predictor, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        blocks = [predictor.example_frames(ROWS, generator) for _ in range(1 + -(-STEPS // predictor.context))]
        self.pixels = torch.cat(blocks, 1)[:, : predictor.context + STEPS]  # (B, T + 1, H, W, C)
        self.frames = predictor.normalizer.to_float(self.pixels.to(predictor.normalizer.mean.device))
        shape = (ROWS, predictor.context + STEPS - 1)
        self.actions = _random_actions(predictor, shape, generator).to(self.frames.device)
        self.given, self.future = self.frames[:, : predictor.context], self.actions[:, -STEPS:]


def _random_actions(predictor: Predictor, shape: tuple[int, int], generator: torch.Generator) -> Tensor:
    """Return random indices (B, T), or vectors (B, T, A) where actions are continuous."""
    if not predictor.config.action_range:
        return torch.randint(predictor.actions, shape, generator=generator)
    low, high = torch.tensor(predictor.config.action_range).unbind(1)
    return low + (high - low) * torch.rand(*shape, predictor.actions, generator=generator)


def _check_steps(predictor: Predictor, window: _Window) -> None:
    """Shapes, determinism, and states that are new at every step."""
    height, width, channels = predictor.config.frame
    start = predictor.observe(window.given)
    _require(isinstance(start, State), f"observe returned a {type(start).__name__}, not a State")
    kept = [tensor.clone() for tensor in _tensors(start)]
    first, after = predictor.predict(start, window.future[:, 0])
    shape = (ROWS, channels, height, width)
    _require(tuple(first.shape) == shape, f"predict returned a frame {tuple(first.shape)}, expected {shape}")
    _require(first.is_floating_point() and bool(first.isfinite().all()), "predicted frames must be finite floats")
    again, _ = predictor.predict(start, window.future[:, 0])
    _require(torch.equal(first, again), "predict gives another frame for the same state and action")
    before = [tensor.clone() for tensor in _tensors(after)]
    first.fill_(7.0)
    predictor.predict(after, window.future[:, 1])
    if not predictor.config.action_range:
        predictor.predict_all(after)
    for state, tensors in ((start, kept), (after, before)):
        same = all(torch.equal(now, then) for now, then in zip(_tensors(state), tensors, strict=True))
        _require(same, "a state changed: predict must return a new state and share no memory with its frame")
    if after.outcome is not None:
        shapes = (tuple(after.outcome.reward.shape), tuple(after.outcome.termination.shape))
        _require(shapes == ((ROWS, 3), (ROWS,)), f"the outcome has shapes {shapes}, expected ({ROWS}, 3) and ({ROWS},)")
        _require(start.outcome is None, "the state after real frames has no outcome")


def _check_actions(predictor: Predictor, window: _Window) -> None:
    """predict_all equals predict for every action, and one-hot vectors equal indices."""
    if predictor.config.action_range:
        return
    state = predictor.observe(window.given)
    for _ in range(2):
        together = predictor.predict_all(state)
        for action in range(predictor.actions):
            indices = torch.full((ROWS,), action, device=together.device)
            alone, following = predictor.predict(state, indices)
            _close(together[:, action], alone, f"predict_all differs from predict under action {action}")
        state = following
    vectors = torch.nn.functional.one_hot(window.future[:, 0], predictor.actions).float()
    start = predictor.observe(window.given)
    by_index, by_vector = (predictor.predict(start, action)[0] for action in (window.future[:, 0], vectors))
    _close(by_index, by_vector, "one-hot action vectors and action indices give different frames")


def _check_windows(predictor: Predictor, window: _Window) -> None:
    """Forward equals predict step by step, with predictions fed back and with teacher forcing."""
    before = window.actions[:, : predictor.context - 1]
    by_hand = unroll(predictor, predictor.observe(window.given, before), window.future)
    fed_back = predictor(window.frames, window.actions, predict=STEPS)
    _close(fed_back.frames, by_hand.frames, "forward differs from predictions fed back one by one")
    forced = predictor(window.frames, window.actions, predict=STEPS, teacher_forcing=True)
    for step in range(STEPS):
        seen = predictor.context + step
        state = predictor.observe(window.frames[:, :seen], window.actions[:, : seen - 1])
        alone, _ = predictor.predict(state, window.actions[:, seen - 1])
        _close(forced.frames[:, step], alone, f"teacher forcing differs from predict at step {step + 1}")


def _check_rows(predictor: Predictor, window: _Window) -> None:
    """Rows do not influence each other, and states can be divided and joined."""
    state = predictor.observe(window.given)
    both, after = predictor.predict(state, window.future[:, 0])
    for row in range(ROWS):
        alone, _ = predictor.predict(predictor.observe(window.given[row : row + 1]), window.future[row : row + 1, 0])
        _close(both[row], alone[0], "a row of a batch depends on the other rows")
    settled = predictor.settled(after)
    swapped = join_rows([select_rows(settled, np.array([row])) for row in (1, 0)])
    frame, _ = predictor.predict(settled, window.future[:, 1])
    back, _ = predictor.predict(swapped, window.future[:, 1].flip(0))
    _close(back.flip(0), frame, "a state whose rows were swapped gives other frames")
    unread, _ = predictor.predict(after, window.future[:, 1])
    _close(unread, frame, "settled gives a state that predicts other frames")


def _check_rollouts(predictor: Predictor, window: _Window) -> None:
    """A rollout is the prediction step by step, in uint8, also from black and white frames."""
    actions = window.future.cpu().numpy()
    frames = window.pixels[:, : predictor.context].numpy()
    seen = rollout(predictor, frames, actions)
    steps = [frame for frame, _ in imagine(predictor, predictor.observe(window.given), window.future)]
    for step, frame in enumerate(steps):
        same = np.array_equal(seen[:, step], predictor.normalizer.to_uint8(frame).numpy(force=True))
        _require(same, f"a rollout differs from predict at step {step + 1}")
    for extreme in (0, 255):
        flat = np.full_like(frames[:1], extreme)
        if predictor.names_colors:
            flat = np.broadcast_to(frames[:1, :1, :1, :1], flat.shape)
        future = rollout(predictor, flat, actions[:1])
        _require(future.dtype == np.uint8 and future.shape == (1, STEPS, *predictor.config.frame), "wrong rollout")


def _check_files(predictor: Predictor, window: _Window) -> None:
    """Config and weights are complete: what is loaded from files predicts the same."""
    config = config_from_dict(config_to_dict(predictor.config))
    _require(config == predictor.config, f"the config changes on its way through JSON: {config}")
    loaded = predictor_from_files(predictor_files(predictor))
    _require(type(loaded) is type(predictor), f"the files make a {type(loaded).__name__}")
    assert isinstance(loaded, Predictor)
    given, action = window.given.cpu(), window.future[:, 0].cpu()
    ours, _ = predictor.predict(predictor.observe(window.given), window.future[:, 0])
    theirs, _ = loaded.predict(loaded.observe(given), action)
    _close(
        theirs, ours.cpu(), "the predictor loaded from its files predicts other frames: something is not in state_dict"
    )


def _check_weights(predictor: Predictor) -> None:
    """A generator draws all initial weights: the same one gives the same, whatever the global generator is."""
    drawn = []
    for chance in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(chance)
            built = build_predictor(predictor.config, torch.Generator().manual_seed(0))
            drawn.append({name: weight.clone() for name, weight in built.named_parameters()})
    different = [name for name, weight in drawn[0].items() if not torch.equal(weight, drawn[1][name])]
    _require(
        not different,
        f"the same generator gives other initial weights ({', '.join(different[:3])}): draw all of them from it",
    )


def _check_loss(predictor: Predictor, window: _Window) -> None:
    """The loss is one finite number; its gradients are finite."""
    nothing = torch.zeros(window.actions.shape[:2], device=window.actions.device)
    for teacher_forcing in (False, True):
        batch = TrainingBatch(window.frames, window.actions, nothing, nothing.bool(), STEPS, teacher_forcing)
        loss, metrics = predictor.loss(batch)
        _require(loss.ndim == 0 and bool(loss.isfinite()), f"the loss must be one finite number, not {loss}")
        _require(all(value.ndim == 0 for value in metrics.values()), "every metric of the loss must be one number")
        if loss.requires_grad:
            weights = [weight for weight in predictor.parameters() if weight.requires_grad]
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
            finite = all(bool(gradient.isfinite().all()) for gradient in gradients if gradient is not None)
            _require(finite, "the loss has gradients that are not finite")


def _tensors(state: State) -> Iterator[Tensor]:
    for field in fields(state):
        value = getattr(state, field.name)
        yield from (part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Tensor))


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ContractError(message)


def _close(one_way: Tensor, other_way: Tensor, message: str) -> None:
    if one_way.shape != other_way.shape:
        raise ContractError(f"{message}: shapes {tuple(one_way.shape)} and {tuple(other_way.shape)}")
    if not torch.allclose(one_way, other_way, atol=ATOL, rtol=RTOL):
        raise ContractError(f"{message}, by up to {float((one_way - other_way).abs().max()):g}")
