"""A predictor as two ONNX graphs: observe (real frames → state) and step (state, action → frame, state).

The graphs need nothing else: frames are uint8 pixels on both sides, and every output `next_x` is the input `state_x` of
the step after it. An agent is a graph, too: its last frames → the action that it finds best.

Shapes: T context frames, S frames of an agent's stack, C channels, H height, W width, A actions; the batch is always 1.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.agents.agent import SIDE, STACK, Agent
from acvp.data.frames import LUMINANCE
from acvp.errors import UserError
from acvp.exits import lack_of_memory
from acvp.models import Predictor, State

TOLERANCE = 1e-4
"""Largest difference allowed between a float of an ONNX graph and torch's."""
CHECKED_STEPS = 10
"""Steps that torch and ONNX take side by side, each from its previous state."""
SMALL = 256
"""Weights of a tensor below which its size does not matter."""
OBSERVE_NAME, STEP_NAME = "observe.onnx", "step.onnx"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, kw_only=True)
class Graphs:
    """A predictor's graphs and the names of the tensors between them."""

    observe: bytes
    step: bytes
    state: tuple[str, ...]
    """Names of the tensors of a state."""
    outcome: bool
    """Whether a step also returns `reward` scores (1, 3), the highest of which is decided for, and the `termination`
    logit (1,)."""


class _Observe(nn.Module):
    """uint8 frames (1, T, H, W, C) to the tensors of a state."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, frames: Tensor) -> tuple[Tensor, ...]:
        real = self.predictor.normalizer.to_float(frames)
        return tuple(self.predictor.observe(real).tensors().values())


class _Step(nn.Module):
    """An action vector (1, A) and the tensors of a state to a uint8 frame (1, H, W, C), the outcome, the next state."""

    def __init__(self, predictor: Predictor, like: State) -> None:
        super().__init__()
        self.predictor, self._names = predictor, tuple(like.tensors())
        self._make: Callable[..., State] = type(like)

    def forward(self, action: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        state = self._make(**dict(zip(self._names, tensors, strict=True)))
        frame, following = self.predictor.predict(state, action)
        following = self.predictor.settled(following)
        outcome = _decisive(self.predictor, following)
        after = following.tensors()
        return (self.predictor.normalizer.to_uint8(frame), *outcome, *(after[name] for name in self._names))


def _decisive(predictor: Predictor, state: State) -> tuple[Tensor, ...]:
    """Return scores of the reward classes, the highest of which is decided for, and the calibrated termination logit.

    Nothing without heads.
    """
    if state.outcome is None:
        return ()
    calibrated = predictor.calibration.apply(state.outcome)
    return predictor.calibration.reward_scores(calibrated), calibrated.termination


class _Agent(nn.Module):
    """uint8 frames (1, S, H, W, C), oldest first, to the index of the best action (1,)."""

    rows: Tensor
    """(84, H)"""
    columns: Tensor
    """(84, W)"""
    luminance: Tensor
    """(3,)"""

    def __init__(self, agent: Agent, height: int, width: int) -> None:
        super().__init__()
        self.network = agent.network
        self.register_buffer("rows", torch.from_numpy(area_weights(height, SIDE)))
        self.register_buffer("columns", torch.from_numpy(area_weights(width, SIDE)))
        self.register_buffer("luminance", torch.tensor(LUMINANCE, dtype=torch.float32))

    def view(self, frames: Tensor) -> Tensor:
        """Return frames (1, S, H, W, C) as the agent sees them, gray (1, S, 84, 84)."""
        pixels = frames.to(torch.float32)
        gray = pixels[..., 0] if pixels.shape[-1] == 1 else torch.floor(pixels @ self.luminance + 0.5)
        return torch.round(self.rows @ gray @ self.columns.T)

    def forward(self, frames: Tensor) -> Tensor:
        values: Tensor = self.network(self.view(frames))
        return values.argmax(1)


def area_weights(before: int, after: int) -> NDArray[np.float32]:
    """Return the share of each of the pixels ``before`` in each of those ``after`` a resizing by area."""
    edges = np.arange(after + 1) * (before / after)
    pixel = np.arange(before)
    covered = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    return np.asarray(covered.clip(0) * (after / before), np.float32)


@torch.no_grad()
def agent_graph(agent: Agent, frame: tuple[int, int, int]) -> bytes:
    """Return an agent as a graph that sees uint8 frames (1, S, H, W, C) and returns its action."""
    _require_onnx()
    example = torch.zeros(1, STACK, *frame, dtype=torch.uint8)
    return _export(_Agent(agent, *frame[:2]), (example,), ["frames"], ["action"])


@torch.no_grad()
def to_graphs(predictor: Predictor) -> Graphs:
    """Return the graphs of a predictor, compared with torch; UserError if they differ."""
    _require_onnx()
    frames = example_frames(predictor)
    action = torch.zeros(1, predictor.actions)
    traceable = predictor.traceable()
    state = traceable.observe(traceable.normalizer.to_float(frames))
    names, tensors = tuple(state.tensors()), tuple(state.tensors().values())
    _, after = traceable.predict(state, action)
    outcome = ("reward", "termination") if after.outcome is not None else ()
    before, following = [f"state_{name}" for name in names], [f"next_{name}" for name in names]
    graphs = Graphs(
        observe=_export(_Observe(traceable), (frames,), ["frames"], following),
        step=_export(_Step(traceable, state), (action, *tensors), ["action", *before], ["frame", *outcome, *following]),
        state=names,
        outcome=bool(outcome),
    )
    compare(predictor, graphs)
    return graphs


def example_frames(predictor: Predictor) -> Tensor:
    """Return noise frames (1, T, H, W, C), in the predictor's palette if it has one."""
    return predictor.example_frames(1, torch.Generator().manual_seed(0))


class OnnxPredictor:
    """Runs a predictor's graphs step by step."""

    def __init__(self, graphs: Graphs) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # errors only
        self._graphs = graphs
        self._observe = onnxruntime.InferenceSession(graphs.observe, options, providers=["CPUExecutionProvider"])
        self._step = onnxruntime.InferenceSession(graphs.step, options, providers=["CPUExecutionProvider"])

    def observe(self, frames: NDArray[np.uint8]) -> Arrays:
        """Return the state after frames (1, T, H, W, C)."""
        return self._next_state(_run(self._observe, {"frames": frames}))

    def step(self, state: Arrays, action: NDArray[np.float32]) -> tuple[Arrays, Arrays]:
        """Return the outputs of a step, frame and outcome, and the state after it."""
        outputs = _run(self._step, {f"state_{name}": tensor for name, tensor in state.items()} | {"action": action})
        return outputs, self._next_state(outputs)

    def _next_state(self, outputs: Arrays) -> Arrays:
        return {name: outputs[f"next_{name}"] for name in self._graphs.state}


def _run(session: Any, inputs: Arrays) -> Arrays:
    """Run a graph without the inputs that it does not depend on."""
    used = {value.name: inputs[value.name] for value in session.get_inputs()}
    outputs = [value.name for value in session.get_outputs()]
    return dict(zip(outputs, session.run(outputs, used), strict=True))


def _export(module: nn.Module, example: Sequence[Tensor], inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    with _quiet():
        program = torch.onnx.export(
            module.eval(), tuple(example), input_names=inputs, output_names=outputs, dynamo=True, verbose=False
        )
    assert program is not None
    model = program.model_proto
    forget_origin(model.graph)
    store_in_half(model)
    data: bytes = model.SerializeToString()
    return data


def forget_origin(graph: Any) -> None:
    """Remove what the exporter noted of each operation: stack traces with the folders of this machine."""
    for part in (graph, *graph.node, *graph.initializer, *graph.input, *graph.output, *graph.value_info):
        del part.metadata_props[:]
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])):
                forget_origin(inner)


def store_in_half(model: Any) -> None:
    """Store the weights that 16 bits hold exactly in 16 bits; the graph converts them when it is loaded."""
    from onnx import TensorProto, helper, numpy_helper

    conversions = []
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < SMALL:
            continue
        with np.errstate(over="ignore"):
            half = values.astype(np.float16)
        if not np.array_equal(half.astype(np.float32), values):
            continue
        name = tensor.name
        tensor.CopyFrom(numpy_helper.from_array(half, f"{name}_half"))
        conversions.append(helper.make_node("Cast", [f"{name}_half"], [name], to=TensorProto.FLOAT))
    nodes = [*conversions, *model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


@torch.no_grad()
def compare(predictor: Predictor, graphs: Graphs) -> None:
    """Run torch and ONNX side by side; UserError if they differ."""
    onnx, frames = OnnxPredictor(graphs), example_frames(predictor)
    state, onnx_state = predictor.observe(predictor.normalizer.to_float(frames)), onnx.observe(frames.numpy())
    generator = torch.Generator().manual_seed(1)
    for step in range(CHECKED_STEPS + 1):
        settled = predictor.settled(state)
        for name, ours in settled.tensors().items():
            _refuse_difference(step, name, ours.numpy(), onnx_state[name])
        action = _random_action(predictor, generator)
        frame, state = predictor.predict(settled, action)
        outputs, onnx_state = onnx.step(onnx_state, action.numpy())
        difference = outputs["frame"].astype(np.int16) - predictor.normalizer.to_uint8(frame).numpy()
        if np.abs(difference).max() > (0 if predictor.names_colors else 1):
            raise UserError(f"step {step} in ONNX differs from torch by {np.abs(difference).max()} pixel values")
        if state.outcome is not None:
            for name, ours in zip(("reward", "termination"), _decisive(predictor, state), strict=True):
                _refuse_difference(step, name, ours.numpy(), outputs[name])


def _random_action(predictor: Predictor, generator: torch.Generator) -> Tensor:
    """Return an action vector (1, A)."""
    if predictor.config.action_range:
        low, high = torch.tensor(predictor.config.action_range).unbind(1)
        return low + (high - low) * torch.rand(1, predictor.actions, generator=generator)
    drawn = torch.randint(predictor.actions, (1,), generator=generator)
    return torch.nn.functional.one_hot(drawn, predictor.actions).float()


def _refuse_difference(step: int, name: str, ours: NDArray[Any], theirs: NDArray[Any]) -> None:
    difference = float(np.abs(ours.astype(np.float64) - theirs).max())
    if not difference <= TOLERANCE:
        raise UserError(f"step {step} in ONNX: {name} differs from torch by {difference:g}, more than {TOLERANCE:g}")


def _require_onnx() -> None:
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        if lack_of_memory(error) is not None:
            raise
        raise UserError(f"exporting to ONNX needs the extra `export`: pip install 'acvp[export]' ({error})") from error


class _ExporterLog(logging.Handler):
    """Prints nothing, and raises a lack of memory that the exporter logs and ignores."""

    def emit(self, record: logging.LogRecord) -> None:
        """Look for a lack of memory in what is logged."""
        lack = lack_of_memory(record.exc_info[1]) if record.exc_info else None
        if lack is not None:
            raise lack


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings and log messages of the exporter; an export that fails raises."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [(logger.level, logger.propagate, logger.handlers) for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
        logger.propagate, logger.handlers = False, [_ExporterLog()]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
            logger.setLevel(level)
            logger.propagate, logger.handlers = propagate, handlers
