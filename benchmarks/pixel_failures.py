"""python -m benchmarks.pixel_failures [--games …]: where and how the predictors that come with acvp go wrong.

Looks ahead from windows of the test stores that benchmarks.pixel records. Each game gets a picture in
results/pixel/failures/: how often each pixel is wrong, and two of the windows step by step: the one in the middle by
its wrong pixels ten steps ahead, and the last. results/pixel_failures.json says what wrong pixels show.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure, SubFigure
from numpy.typing import NDArray

import acvp
from acvp.console import counting
from acvp.data.frames import get_view
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, choose_starts
from acvp.loaded import LoadedModel
from benchmarks.pixel import GAMES
from benchmarks.provenance import RESULTS, write_results

STEPS = (1, 10, 30, 100)
"""Of the maps and the numbers."""
SHOWN = (1, 2, 4, 7, 10, 20, 30, 60, 100)
"""Of the two windows."""
SORTED_BY = 10
"""The step by whose wrong pixels the two windows are chosen."""
WRONG = (255, 0, 255)
"""What wrong pixels are drawn in."""
DIMMED = 3
"""What brightness is divided by under wrong pixels."""
SEED = 0

Pictures = NDArray[np.uint8]  # (..., H, W, 3)


@dataclass(frozen=True, kw_only=True)
class FailuresConfig:
    """Show where predictors go wrong."""

    games: tuple[str, ...] = GAMES
    """Which ones."""
    windows: int = 48
    """Places to look ahead from, spread over the test episodes."""
    batch_size: int = 16
    """Windows predicted at once."""
    home: Path = Path("stores-and-runs")
    """Folder that benchmarks.pixel recorded to."""


@dataclass(frozen=True, kw_only=True)
class Futures:
    """What was predicted and what came, at the steps that are shown."""

    truth: Pictures  # (windows, steps, H, W, 3)
    predicted: Pictures

    @property
    def wrong(self) -> NDArray[np.bool_]:
        """Which pixels differ, (windows, steps, H, W)."""
        differ: NDArray[np.bool_] = (self.truth != self.predicted).any(-1)
        return differ


def main(config: FailuresConfig) -> None:
    """Draw and measure every game."""
    started = time.monotonic()
    games = {}
    for game in config.games:
        futures = look(game, config)
        games[game] = measured(futures)
        file = RESULTS / "pixel" / "failures" / f"{game}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        drawn(game, futures).savefig(file, dpi=80)
        print(file, games[game])
    body = {"windows_asked_for": config.windows, "games": games}
    command = f"python -m benchmarks.pixel_failures --games {' '.join(config.games)} --windows {config.windows}"
    print(write_results("pixel_failures", body, command=command, seed=SEED, started=started))


@torch.inference_mode()
def look(game: str, config: FailuresConfig) -> Futures:
    """Look ahead from every window."""
    model = LoadedModel(name=game, predictor=acvp.load(game), view=get_view("rgb"))
    store = EpisodeStore(config.home / "stores" / f"{game}-test")
    context, last = model.predictor.context, max(SHOWN)
    starts = choose_starts(store, Window(context, last), config.windows, seed=SEED, option="horizon")
    truth, predicted = [], []
    with counting(f"looking ahead in {game}", "windows") as show:
        for first in range(0, len(starts), config.batch_size):
            window = WindowReader(store, starts[first : first + config.batch_size], model.view)
            frames, actions = window.frames(0, context + last), window.actions(0, context + last - 1)
            rollout = enumerate(model.look_ahead(frames[:, :context], actions), 1)
            kept = [image.round().to(torch.uint8).permute(0, 2, 3, 1).numpy() for k, image in rollout if k in SHOWN]
            predicted.append(np.stack(kept, 1))
            truth.append(frames[:, [context + step - 1 for step in SHOWN]])
            show(min(first + config.batch_size, len(starts)), len(starts))
    return Futures(truth=np.concatenate(truth), predicted=np.concatenate(predicted))


def measured(futures: Futures) -> dict[str, Any]:
    """What wrong pixels show, by steps: things that are gone, that never were, or that look otherwise."""
    usual = commonest(futures.truth)
    result = {}
    for step in STEPS:
        at = SHOWN.index(step)
        wrong = futures.wrong[:, at]
        real, shown = ((frames[:, at] != usual).any(-1) for frames in (futures.truth, futures.predicted))
        kinds = {"gone": real & ~shown, "never were": ~real & shown, "look otherwise": real & shown}
        counts = wrong.sum((1, 2))
        result[str(step)] = {
            "windows": len(wrong),
            "wrong_pixels": round(float(counts.mean()), 1),
            "quartiles": [round(float(quartile), 1) for quartile in np.percentile(counts, (25, 50, 75))],
            **{kind: round(float((wrong & of).sum() / max(wrong.sum(), 1)), 2) for kind, of in kinds.items()},
        }
    return result


def commonest(frames: Pictures) -> Pictures:
    """The color that each pixel has most often in frames (windows, steps, H, W, 3): what is not a thing."""
    codes = (frames.reshape(-1, *frames.shape[2:]).astype(np.uint32) * np.array([65536, 256, 1], np.uint32)).sum(-1)
    counts = {code: (codes == code).sum(0) for code in np.unique(codes)}
    names = np.array(list(counts))
    best = names[np.stack(list(counts.values())).argmax(0)]  # (H, W)
    return np.stack((best >> 16, best >> 8 & 255, best & 255), -1).astype(np.uint8)


def drawn(game: str, futures: Futures) -> Figure:
    """The picture of a game: maps above, two windows below."""
    order = np.argsort(futures.wrong[:, SHOWN.index(SORTED_BY)].sum((1, 2)), kind="stable")
    chosen = {"The window in the middle": order[len(order) // 2], "The worst window": order[-1]}
    figure = Figure(figsize=(2 * len(SHOWN), 27), layout="constrained")
    figure.suptitle(f"{game}: how often each pixel is wrong, {len(order)} windows of the test store", fontsize=15)
    parts = figure.subfigures(1 + len(chosen), 1, squeeze=False, height_ratios=(6, 10, 10))[:, 0]
    draw_maps(parts[0], futures)
    for part, (name, window) in zip(parts[1:], chosen.items(), strict=True):
        part.suptitle(f"{name} by its wrong pixels at step {SORTED_BY}: truth, prediction, wrong pixels", fontsize=15)
        draw_window(part, futures.truth[window], futures.predicted[window])
    return figure


def draw_maps(figure: SubFigure, futures: Futures) -> None:
    """How often each pixel is wrong, over what it shows most often."""
    usual = commonest(futures.truth).mean(-1) / DIMMED
    maps = figure.subplots(1, len(STEPS))
    for step, axes in zip(STEPS, maps, strict=True):
        often = futures.wrong[:, SHOWN.index(step)].mean(0)
        axes.imshow(usual, cmap="gray", vmin=0, vmax=255, aspect="auto")
        shown = axes.imshow(np.ma.masked_equal(often, 0), cmap="plasma", norm=PowerNorm(0.5, 0, 1), aspect="auto")
        axes.set_title(f"step {step}: {often.sum():,.1f} pixels wrong")
        axes.set_axis_off()
    figure.colorbar(shown, ax=maps, label="share of the windows", fraction=0.02)


def draw_window(figure: SubFigure, truth: Pictures, predicted: Pictures) -> None:
    """Truth, prediction and wrong pixels of a window (steps, H, W, 3)."""
    wrong = (truth != predicted).any(-1)
    marked = np.where(wrong[..., None], np.array(WRONG, np.uint8), predicted // DIMMED)
    for row, pictures in zip(figure.subplots(3, len(SHOWN)), (truth, predicted, marked), strict=True):
        for axes, picture in zip(row, pictures, strict=True):
            axes.imshow(picture, aspect="auto")
            axes.set_axis_off()
    for at, step in enumerate(SHOWN):
        figure.axes[at].set_title(f"step {step}: {wrong[at].sum():,} wrong")


if __name__ == "__main__":
    main(tyro.cli(FailuresConfig, description=__doc__))
