"""Complete training configs: the paper's, the authors', one for half an hour on two cores, one for seconds.

A network for other frame sizes than the paper's two is derived: strided convolutions that halve the frame, with pads
chosen so that deconvolutions mirror them exactly, until its shorter side has at most 12 pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from typing import Any

from acvp.compat import current_training
from acvp.data.priorities import CELL
from acvp.data.split import split
from acvp.data.store import EpisodeStore
from acvp.data.views import get_view
from acvp.errors import UserError
from acvp.models import FeedforwardConfig, config_class
from acvp.models import config_from_dict as predictor_config_from_dict
from acvp.pixel import PixelConfig
from acvp.pixel.palette import Palette
from acvp.pixel.statistics import colors_of, motions_of, recolors_of
from acvp.training.config import OptimizerConfig, Phase, TrainConfig, TrainingConfig, within_minutes

PAPER_DECAY = 0.9
"""Factor on the learning rate (appendix A)."""
FrameShape = tuple[int, int, int]
ATARI: FrameShape = (210, 160, 3)
GRAY_84: FrameShape = (84, 84, 1)
SMALLEST = 12
"""Pixels: a side this short is not halved again."""
MOST_LAYERS = 4


def make_config(config: TrainConfig, store: EpisodeStore) -> TrainingConfig:
    """Return the config that a command line asks for, on a dataset."""
    info = store.info
    of_paper = config.preset == "cpu" and config.model != "pixel" and tuple(info.frame_shape) == ATARI
    gray = of_paper if config.view == "auto" else config.view == "gray84"
    view = "gray84" if gray else "rgb"
    options: dict[str, Any] = {"actions": len(info.action_meanings), "outcome_heads": config.outcome_heads}
    frame = get_view(view).shape(info.frame_shape)
    if config.model == "pixel":
        _refuse_papers(config.preset)
        train, _ = split(store, test_fraction=config.test_fraction, seed=config.seed)
        options |= {"outcome_heads": True, **_colors(train, gray=gray, seed=config.seed)}
        found = motions_of(train, min(_cell(frame), CELL), seed=config.seed, view=get_view(view) if gray else None)
        options |= {"motions": found.newest, "older_motions": found.older}
        options["recolors"] = () if gray else _recolors(train, options["palette"])
    training = PRESETS[config.preset](config.model, frame, **options)
    phases = training.phases if config.minutes is None else within_minutes(training.phases, config.minutes)
    return replace(training, view=view, phases=phases, seed=config.seed, test_fraction=config.test_fraction)


def _refuse_papers(preset: str) -> None:
    """Refuse the paper's presets for the pixel-exact predictor, before a store is searched for colors and motions."""
    if preset in ("paper", "authors"):
        raise UserError("the pixel-exact predictor is not the paper's: train it with --preset cpu or smoke")


def _colors(train: EpisodeStore, *, gray: bool, seed: int) -> dict[str, Any]:
    """Return palette and quantized of a pixel-exact network: colors of the training part, never of the test part."""
    if gray:
        return {"palette": tuple((level,) for level in range(256))}
    colors, quantized = colors_of(train, seed=seed)
    return {"palette": tuple(tuple(color) for color in colors.tolist()), "quantized": quantized}


def _recolors(train: EpisodeStore, palette: Palette) -> tuple[int, ...]:
    """Return what each color of a palette turns into; () where none ever does."""
    follows = recolors_of(train)
    return tuple(palette.index(follows.get(color, color)) for color in palette) if follows else ()


def paper(model: str, frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return the paper's training: Graves' RMSProp, three phases, 3.5 M updates (§4, appendix A); gray: one phase."""
    if model == "pixel":
        _refuse_papers("paper")
    return TrainingConfig(
        name="paper",
        predictor=network(model, frame, **options),
        view="rgb",
        optimizer=OptimizerConfig(name="graves-rmsprop"),
        phases=_published_phases(model, frame),
        evaluate_every=5_000,
    )


def authors(model: str, frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return the training of the authors' code: Adam at a fixed rate, twice that for biases."""
    phases = tuple(replace(phase, decay=1.0) for phase in _published_phases(model, frame))
    optimizer = OptimizerConfig(name="adam", bias_rate=2.0)
    return replace(paper(model, frame, **options), name="authors", optimizer=optimizer, phases=phases)


def cpu(model: str, frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return half an hour on two cores: Adam, 1-step prediction, then 3 steps ahead, each by wall-clock."""
    if model == "pixel":
        return _pixel_cpu(frame, **options)
    if model in ("feedforward", "recurrent"):
        options = {"start": "shared"} | options
    first, second, _ = _paper_phases(model)
    phases = (
        replace(first, lr=1e-3, steps=None, minutes=20.0, warmup=100, decay=1.0, anneal=True),
        replace(second, lr=3e-4, steps=None, minutes=10.0, warmup=50, decay=1.0, anneal=True),
    )
    return replace(
        paper(model, frame, **options), name="cpu", optimizer=OptimizerConfig(name="adam"), phases=phases,
        evaluate_every=250,
    )  # fmt: skip


def _pixel_cpu(frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return half an hour for the pixel-exact predictor: one step ahead, always from real frames."""
    predictor = PixelConfig(frame=frame, cell=_cell(frame), round_edges=True, by_place=True, events=16, **options)
    phase = Phase(
        predict=4, context=predictor.context, batch_size=2, feed_back=False, lr=2e-3, minutes=30.0, warmup=50,
        rare_share=0.5, event_share=0.15, outcome_weight=10.0, anneal=True,
    )  # fmt: skip
    return TrainingConfig(
        name="cpu",
        predictor=predictor,
        view="rgb",
        optimizer=OptimizerConfig(name="muon", weight_decay=0.1),
        phases=(phase,),
        evaluate_every=1000,
        windows=8,
    )


def _pixel_smoke(frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return seconds of training of a small pixel-exact network."""
    sizes: dict[str, Any] = {"context": 8, "embedding": 16, "channels": (32, 32), "blocks": (1, 1)}
    full = _pixel_cpu(frame, **(sizes | options))
    phase = replace(full.phases[0], minutes=None, steps=120, lr=5e-3, warmup=10)
    return replace(full, name="smoke", phases=(phase,), evaluate_every=50, horizons=(1, 10))


def _cell(frame: FrameShape) -> int:
    """Return the side of a cell: 8 pixels, or fewer for small frames."""
    if min(frame[:2]) >= 128:
        return 8
    return 4 if frame[0] % 5 or frame[1] % 5 else 5


def smoke(model: str, frame: FrameShape, **options: Any) -> TrainingConfig:
    """Return seconds of training of a small network: to see that everything works."""
    if model == "pixel":
        return _pixel_smoke(frame, **options)
    sizes: dict[str, Any] = {"width": 16, "hidden": 128, "factors": 128} if model != "mlp" else {"hidden": (64,) * 4}
    first, second, _ = _paper_phases(model)
    phases = (
        replace(first, lr=1e-3, batch_size=min(first.batch_size, 16), steps=100, decay=1.0, warmup=10),
        replace(second, lr=3e-4, batch_size=4, steps=20, decay=1.0),
    )
    return TrainingConfig(
        name="smoke",
        predictor=network(model, frame, **(sizes | options)),
        view="rgb",
        optimizer=OptimizerConfig(name="adam"),
        phases=phases,
        evaluate_every=50,
        windows=8,
        horizons=(1, 10),
    )


PRESETS: dict[str, Callable[..., TrainingConfig]] = {"paper": paper, "authors": authors, "cpu": cpu, "smoke": smoke}


def network(model: str, frame: FrameShape, *, width: int | None = None, **options: Any) -> Any:
    """Return the configuration of a model for frames of a shape; `width` sets the channels of a derived network."""
    if model == "mlp":
        scale = {"pixel_scale": 128.0 if frame[2] == 1 else 255.0}
        return config_class(model)(**({"frame": frame} | scale | options))
    kind: type[FeedforwardConfig] = config_class(model)
    if model == "no-action":
        options.pop("factors", None)
    if width is None and frame == ATARI:
        return kind.rgb_210x160(**options)
    if width is None and frame == GRAY_84:
        return kind.gray_84x84(**options)
    return kind(**(derived_sizes(frame, width or 64) | options))


def derived_sizes(frame: FrameShape, width: int) -> dict[str, Any]:
    """Return the sizes of a network for frames of any shape, its first convolution `width` channels wide."""
    kernels, pads, strides = derived_stack(frame[:2])
    channels = (width, *(2 * width for _ in kernels[1:]))
    return {
        "frame": frame, "channels": channels, "kernels": kernels, "pads": pads, "strides": strides,
        "decoder_channels": channels[-2::-1], "hidden": 1024, "pixel_scale": 128.0 if frame[2] == 1 else 255.0,
    }  # fmt: skip


Pair = tuple[int, int]


def derived_stack(size: Pair) -> tuple[tuple[int, ...], tuple[Pair, ...], tuple[int, ...]]:
    """Return kernels, pads and strides of convolutions for frames of (height, width), each with an exact mirror."""
    kernels: list[int] = []
    pads: list[Pair] = []
    strides: list[int] = []
    while not kernels or (min(size) > SMALLEST and len(kernels) < MOST_LAYERS):
        kernel, pad, stride, size = _layer(size)
        kernels.append(kernel)
        pads.append(pad)
        strides.append(stride)
    return tuple(kernels), tuple(pads), tuple(strides)


def _layer(size: Pair) -> tuple[int, Pair, int, Pair]:
    """Return kernel, pad, stride and result of the layer that comes closest to halving: first with a kernel of 4.

    Both sides must leave no rest. Stride 2 can do that where both are even or both odd, stride 3 always.
    """
    if min(size) < 4:
        return 1, (0, 0), 1, size
    best: tuple[tuple[float, ...], tuple[int, Pair, int, Pair]] | None = None
    for stride, kernel in product((2, 3), (4, 5, 3, 6)):
        for high, wide in product(range(kernel // 2 + 1), repeat=2):
            pad = (high, wide)
            spans = [side + 2 * p - kernel for side, p in zip(size, pad, strict=True)]
            if min(spans) < 0 or any(span % stride for span in spans):
                continue
            after = (spans[0] // stride + 1, spans[1] // stride + 1)
            odd = sum(side % 2 for side in after)  # an even size goes on with even kernels
            off = sum(abs(a - side / stride) for a, side in zip(after, size, strict=True))
            cost = (float(stride), float(odd), off, float(kernel != 4))
            if best is None or cost < best[0]:
                best = cost, (kernel, pad, stride, after)
    assert best is not None, f"no layer for {size}"
    return best[1]


def _published_phases(model: str, frame: FrameShape) -> tuple[Phase, ...]:
    """Return the paper's phases; for its gray 84×84 frames 1-step prediction alone (appendix B)."""
    phases = _paper_phases(model)
    return phases[:1] if frame == GRAY_84 else phases


def _paper_phases(model: str) -> tuple[Phase, ...]:
    return paper_curriculum(recurrent=model == "recurrent", context=1 if model == "mlp" else None)


def paper_curriculum(*, recurrent: bool, context: int | None = None, decay: float = PAPER_DECAY) -> tuple[Phase, ...]:
    """Return the paper's three phases of 1.5 M, 1 M and 1 M updates (§4, appendix A).

    The recurrent network's first phase unrolls through 20 real frames and predicts the last 10 from them.
    """
    frames = context or (11 if recurrent else 4)
    small = 4 if recurrent else 8
    first = Phase(
        predict=10 if recurrent else 1, context=frames, feed_back=not recurrent, batch_size=4 if recurrent else 32,
        lr=1e-4, steps=1_500_000, decay=decay,
    )  # fmt: skip
    second = Phase(predict=3, context=frames, batch_size=small, lr=1e-5, steps=1_000_000, decay=decay)
    return first, second, replace(second, predict=5)


def config_from_dict(values: dict[str, Any]) -> TrainingConfig:
    """Return the config that a run's config.json holds; fields that an earlier version did not have get defaults."""
    values = current_training(values)
    try:
        return TrainingConfig(
            **values
            | {
                "predictor": predictor_config_from_dict(values["predictor"]),
                "optimizer": OptimizerConfig(**values["optimizer"]),
                "phases": tuple(Phase(**phase) for phase in values["phases"]),
                "horizons": tuple(values.get("horizons", (1, 10, 30))),
            }
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"config.json holds no training config of acvp ({error}); choose another --run") from error
