"""The paper's networks: feedforward (§3.1), recurrent, transformed by actions (§3.2), and the no-action baseline (§4).

The recurrent layer of equation 2 is an LSTM without peepholes whose gate gradients are clipped.

Shapes: B batch, T time, K predicted steps, N rows, m frames of history, C channels, H height, W width, A actions,
n hidden units, F factors, I inputs of the recurrent layer; gates in the order i, f, o, g.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from acvp.models.config import ConfigError, FrameShape, require_positive
from acvp.models.encoder_decoder import (
    GPU_BATCH,
    FrameDecoder,
    FrameEncoder,
    NetworkConfig,
    network_sizes,
    paper_view,
)
from acvp.models.layers import ActionFactors, ClippedLstm, Outcome, RewardTerminationHeads, fill_uniform, linear
from acvp.models.pixels import check_frames
from acvp.models.predictor import HistoryPredictor, Predictions, Predictor, State, as_window

ENCODED_BOUND = 1.0
"""W^enc is drawn from U(-1, 1) (appendix A)."""
ACTION_BOUND = 0.1
"""W^a is drawn from U(-0.1, 0.1) (appendix A)."""


@dataclass(frozen=True, kw_only=True)
class ActionConfig(NetworkConfig):
    """A network with an action-conditional transformation."""

    transform: Literal["factored", "tensor"] = "factored"
    """Equation 4 (three matrices) or equation 3 (the full 3-way tensor)."""
    factors: int = 2048
    """Factors F of the factored transformation."""
    factor_bias: bool = True
    """Whether W^enc and W^a have biases, as in the authors' code; equation 4 has none."""
    start: Literal["paper", "shared"] = "paper"
    """Weights before training: as in appendix A, a random map for each action; or one map for all, W^a a = 1 ± 0.1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(factors=self.factors)
        if self.transform not in ("factored", "tensor"):
            raise ConfigError(f"transform is {self.transform!r}; it must be 'factored' or 'tensor'")
        if self.start not in ("paper", "shared"):
            raise ConfigError(f"start is {self.start!r}; it must be 'paper' or 'shared'")
        if self.start == "shared" and (self.transform == "tensor" or not self.factor_bias):
            raise ConfigError(
                "start 'shared' puts the 1 into W^a's bias: it needs the factored transform with factor_bias"
            )


class FactoredTransform(nn.Module):
    """Equation 4: h^dec = W^dec (W^enc h^enc ⊙ W^a a) + b, a 3-way tensor factorized into three matrices."""

    def __init__(
        self,
        hidden: int,
        actions: int,
        factors: int,
        generator: torch.Generator,
        *,
        factor_bias: bool,
        shared: bool = False,
    ) -> None:
        super().__init__()
        bound = None if shared else ENCODED_BOUND
        self.encoded = linear(hidden, factors, generator, bias=factor_bias, bound=bound)  # W^enc
        self.action = linear(actions, factors, generator, bias=factor_bias, bound=ACTION_BOUND)  # W^a
        self.decoded = linear(factors, hidden, generator)  # W^dec and b
        if shared:
            nn.init.ones_(self.action.bias)

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n) and action vectors (B, A)."""
        h_dec: Tensor = self.decoded(self.encoded(h_enc) * self.action(action.to(h_enc.dtype)))  # equation 4
        return h_dec

    def factors(self) -> list[ActionFactors]:
        """Return the rows of W^a."""
        return [ActionFactors(name="W^a", weight=self.action.weight, bias=self.action.bias, gates=True)]

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return h^dec (B, A, n) under each of the A one-hot actions."""
        every = torch.eye(self.action.in_features, dtype=h_enc.dtype, device=h_enc.device)  # (A, A)
        h_dec: Tensor = self.decoded(self.encoded(h_enc)[:, None] * self.action(every))  # (B, 1, F) ⊙ (A, F)
        return h_dec


class TensorTransform(nn.Module):
    """Equation 3: h^dec_i = sum over j, l of W_ijl h^enc_j a_l, plus b_i: one matrix for each action."""

    def __init__(self, hidden: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(actions, hidden, hidden))  # W_ijl kept as (l, i, j)
        self.bias = nn.Parameter(torch.zeros(hidden))
        for matrix in self.weight.detach():
            fill_uniform(matrix, generator)

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n) and action vectors (B, A)."""
        return torch.einsum("bli,bl->bi", self._products(h_enc), action.to(h_enc.dtype)) + self.bias  # equation 3

    def factors(self) -> list[ActionFactors]:
        """Return the entries of each action's matrix."""
        return [ActionFactors(name="W", weight=self.weight.flatten(1).T, gates=None)]

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return h^dec (B, A, n) under each of the A one-hot actions."""
        return self._products(h_enc) + self.bias

    def _products(self, h_enc: Tensor) -> Tensor:
        return (h_enc @ self.weight.flatten(0, 1).T).view(-1, *self.weight.shape[:2])  # (B, A, n)


class NoActionTransform(nn.Module):
    """The naFf baseline's transformation: one fully-connected layer that does not see the action."""

    def __init__(self, hidden: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.fc = linear(hidden, hidden, generator)
        self.actions = actions

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n), whatever the action."""
        h_dec: Tensor = self.fc(h_enc)
        return h_dec

    def factors(self) -> list[ActionFactors]:
        """Return none."""
        return []

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return the same h^dec A times, (B, A, n)."""
        h_dec: Tensor = self.fc(h_enc)
        return h_dec[:, None].expand(-1, self.actions, -1)


Transform = FactoredTransform | TensorTransform | NoActionTransform


def transform_sizes(preset: str) -> dict[str, Any]:
    """Return the fields of ActionConfig that a training preset sets."""
    sizes: dict[str, dict[str, Any]] = {"smoke": {"factors": 128}, "cpu": {"start": "shared"}}
    return sizes.get(preset, {})


def action_transform(config: ActionConfig, generator: torch.Generator) -> Transform:
    """Return the action transformation that the config names."""
    if config.transform == "tensor":
        return TensorTransform(config.hidden, config.actions, generator)
    return FactoredTransform(
        config.hidden, config.actions, config.factors, generator,
        factor_bias=config.factor_bias, shared=config.start == "shared",
    )  # fmt: skip


def _heads(config: NetworkConfig, generator: torch.Generator) -> RewardTerminationHeads | None:
    """Return the heads on the feature, if the config asks for them."""
    if not config.predict_rewards:
        return None
    return RewardTerminationHeads(config.hidden, generator, lives=config.predict_lives)


@dataclass(frozen=True, kw_only=True)
class FeedforwardConfig(ActionConfig):
    """The feedforward network; the context is its m frames of input."""


@dataclass(frozen=True, kw_only=True)
class NoActionConfig(NetworkConfig):
    """The no-action feedforward network; the context is its m frames of input."""


class StackedFramesPredictor(HistoryPredictor):
    """Encodes the last m frames at once, transforms the feature, decodes the next frame."""

    continuous_actions: ClassVar[bool] = True

    def __init__(self, config: NetworkConfig, transform: Transform, generator: torch.Generator) -> None:
        super().__init__(config)
        self.encoder = FrameEncoder(config, config.context, generator)
        self.transform = transform
        self.decoder = FrameDecoder(config, generator)
        self.heads = _heads(config, generator)

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of encoder and decoder."""
        return network_sizes(preset, frame)

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return the view of the paper's networks."""
        return {"view": paper_view(preset, frame_shape)}

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, m·C, H, W) under action vectors (N, A)."""
        h_enc = self.encoder(stacked)  # (N, n), equation 1
        h_dec = self.transform(h_enc, self.action_scale(action))  # (N, n), equation 4
        return self.decoder(h_dec), self.heads(h_dec) if self.heads else None  # equation 5

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the next frame under every action, (N, A, C, H, W), after stacked frames (N, m·C, H, W)."""
        h_dec = self.transform.every_action(self.encoder(stacked))  # (N, A, n): encoded once
        return self.decoder.every_action(h_dec)

    def action_factors(self) -> list[ActionFactors]:
        """Return the factors of the transformation."""
        return self.transform.factors()


class FeedforwardPredictor(StackedFramesPredictor, kind="feedforward"):
    """The feedforward network of figure 1a.

    ::

        x_t-3:t ── conv ×4 ── fc ── h^enc ── W^enc ──(×)── W^dec ── h^dec ── fc ── deconv ×4 ── x_t+1
        12×210×160           2048           a_t ── W^a ┘            2048   128×11×8           3×210×160
    """

    config_class: ClassVar[type[Any]] = FeedforwardConfig

    def __init__(self, config: FeedforwardConfig, generator: torch.Generator) -> None:
        super().__init__(config, action_transform(config, generator), generator)

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of encoder, transformation and decoder."""
        return super().sizes(preset, frame) | transform_sizes(preset)


class NoActionPredictor(StackedFramesPredictor, kind="no-action"):
    """The naFf baseline: the feedforward network with one fully-connected layer as transformation, blind to actions.

    ::

        x_t-3:t ── conv ×4 ── fc ── h^enc ── fc ── h^dec ── fc ── deconv ×4 ── x_t+1
        12×210×160           2048           2048          128×11×8           3×210×160
    """

    config_class: ClassVar[type[Any]] = NoActionConfig

    def __init__(self, config: NoActionConfig, generator: torch.Generator) -> None:
        super().__init__(config, NoActionTransform(config.hidden, config.actions, generator), generator)


@dataclass(frozen=True, kw_only=True)
class RecurrentConfig(ActionConfig):
    """The recurrent network; the context is the number of frames that warm up the LSTM."""

    context: int = 11
    """Real frames needed before the first prediction."""
    gate_clip: float = 0.1
    """Bound of each gate pre-activation's gradient, elementwise at every time step; 0 for no clipping."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate_clip < 0:
            raise ConfigError(f"gate_clip is {self.gate_clip}; it must be above 0, or 0 for no clipping")


@dataclass(frozen=True, kw_only=True)
class RecurrentState(State):
    """The LSTM's state, and the predicted frame it has yet to read."""

    h_enc: Tensor
    """Encoded feature, (B, n)."""
    memory: Tensor
    """Memory cell c, (B, n)."""
    unread: Tensor | None = None
    """The last prediction, encoded only if another step follows, (B, C, H, W)."""


class RecurrentPredictor(Predictor, kind="recurrent"):
    """The recurrent network of figure 1b.

    ::

        x_t ── conv ×4 ── fc ── LSTM ── h^enc ── W^enc ──(×)── W^dec ── h^dec ── fc ── deconv ×4 ── x_t+1
        3×210×160        2048  ↻ c_t    2048    a_t ── W^a ┘            2048   128×11×8           3×210×160
    """

    config_class: ClassVar[type[Any]] = RecurrentConfig
    continuous_actions: ClassVar[bool] = True

    def __init__(self, config: RecurrentConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.encoder = FrameEncoder(config, 1, generator)
        self.lstm = ClippedLstm(config.hidden, config.hidden, config.gate_clip, generator)
        self.transform = action_transform(config, generator)
        self.decoder = FrameDecoder(config, generator)
        self.heads = _heads(config, generator)

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of encoder, transformation and decoder."""
        return network_sizes(preset, frame) | transform_sizes(preset)

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return the paper's phases: first unroll through 20 real frames, predicting the last 10 (appendix A)."""
        size = {"batch_size": 4 * GPU_BATCH if preset == "gpu" else 4}
        phases = (size | {"predict": 10, "teacher_forcing": True}, size, size)
        return {"view": paper_view(preset, frame_shape), "phases": phases}

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> RecurrentState:
        """Return the LSTM's state after all of the real frames (B, T, C, H, W), from a zero state."""
        check_frames(frames, self.config.frame, self.context)
        every_h, memory = self._encode(frames, *self.lstm.start(len(frames)))
        return RecurrentState(h_enc=every_h[:, -1], memory=memory)

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, RecurrentState]:
        """Return the next frame (B, C, H, W), and the state that has it as unread input."""
        state = self._read(state)
        vectors = self.action_scale.vectors(action, self.actions, (len(state.h_enc),))
        h_dec = self.transform(state.h_enc, self.action_scale(vectors))  # (B, n), equation 4
        frame = self.decoder(h_dec)  # (B, C, H, W), equation 5
        outcome = self.heads(h_dec) if self.heads else None
        return frame, RecurrentState(h_enc=state.h_enc, memory=state.memory, unread=frame.clone(), outcome=outcome)

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        self.action_scale.require_numbered()
        h_dec = self.transform.every_action(self._read(state).h_enc)  # (B, A, n): encoded once
        return self.decoder.every_action(h_dec)

    def action_factors(self) -> list[ActionFactors]:
        """Return the factors of the transformation."""
        return self.transform.factors()

    def settled(self, state: State) -> RecurrentState:
        """Return the state whose last prediction the LSTM has read."""
        return replace(self._read(state), outcome=state.outcome)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the real frames before it, decoded as one batch."""
        every_h, _ = self._encode(frames[:, :-1], *self.lstm.start(len(frames)))
        h_enc = every_h[:, -predict:].flatten(0, 1)  # (B·K, n)
        h_dec = self.transform(h_enc, self.action_scale(actions[:, -predict:].flatten(0, 1)))
        return as_window(self.decoder(h_dec), self.heads(h_dec) if self.heads else None, len(frames))

    def _encode(self, frames: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return every h (B, T, n) and the last c over frames (B, T, C, H, W): one batch of convolutions."""
        features = self.encoder(frames.flatten(0, 1)).view(*frames.shape[:2], -1)  # (B, T, n)
        every_h, memory = self.lstm(features, h, c)  # equation 2
        return every_h, memory

    def _read(self, state: State) -> RecurrentState:
        """Return the state with no unread prediction."""
        state = RecurrentState.require(state)
        if state.unread is None:
            return state
        every_h, memory = self._encode(state.unread[:, None], state.h_enc, state.memory)
        return RecurrentState(h_enc=every_h[:, 0], memory=memory)
