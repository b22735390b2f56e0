"""python -m benchmarks.pictures (make pictures): draws the pictures of README and docs/ again, into docs/pictures/.

The games are shown by a rule, not by choice: the packaged agent (ε = 0.05) plays each game once with the same seed, and
after the same number of agent steps the packaged predictor continues from its own predictions, under its
actions. An episode that ends too early is followed by the next one. Charts are drawn from committed results.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import NDArray

import acvp
from acvp.compat import RESULT_FIELDS, current_fields
from acvp.console import counted
from acvp.control.figures import control_figure, first_reward_figure, learning_figure
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.durable import make_folder, write_atomic
from acvp.evaluation.figures import BASELINE_LABELS, curve_figure
from acvp.evaluation.media import Clip, record_clip
from acvp.figures import (
    FAINT,
    GIVEN,
    INK,
    LIGHT,
    LINE,
    PREDICTED,
    RUN_COLORS,
    Color,
    Figure,
    Picture,
    canvas,
    encode_gif,
    font,
    image,
    paste,
    png,
    style,
)
from acvp.loaded import as_model, packaged
from acvp.play.app import LOOP_NAME, make_loop, packaged_loop, weights_digest
from acvp.play.model_pool import make_model_pool
from benchmarks import tables
from benchmarks.provenance import RESULTS, write_results

PICTURES = Path(__file__).parent.parent / "docs" / "pictures"
GAMES = {
    "freeway": "Freeway", "seaquest": "Seaquest", "space_invaders": "Space Invaders", "qbert": "Q*bert",
    "ms_pacman": "Ms Pacman",
}  # fmt: skip
EPSILON, SEED = 0.05, 7_001
"""Of the agent that plays; training used other seeds."""
START, STEPS = 150, 90
"""Agent steps of real play before the dream (ten seconds), and steps of the dream (six)."""
SHOWN = 15
"""Real frames shown before the dream begins."""
HOLD = 15
"""Pictures for which the last one stays."""
STRIP = (1, 5, 10, 20, 40, 60, 80)
"""Steps of a film strip."""
STRIP_TEXT, STRIP_LINE = 19, 24
"""Size of its text and height of a line, in pixels: pages show it at half its width."""
BASELINES = {"copy-last-frame": "--", "mean-frame": ":"}
"""Lines of the two trivial predictors in a chart."""
RUN_NAMES = {
    "freeway": "pixel-exact predictor", "seaquest": "pixel-exact predictor",
    "freeway-feedforward": "feedforward network, gray", "seaquest-feedforward": "feedforward network, gray",
}  # fmt: skip
"""What readers know runs of committed results as."""
CHARTS: dict[str, tuple[str, Callable[[Any], Figure]]] = {
    "control/freeway/control.png": ("control/freeway/control.json", control_figure),
    "control/seaquest/control.png": ("control/seaquest/control.json", control_figure),
    "explore/freeway/first-reward.png": ("explore/freeway/explore.json", first_reward_figure),
    "explore/ms_pacman/first-reward.png": ("explore/ms_pacman/explore.json", first_reward_figure),
    "learning/freeway/learning.png": ("learning/freeway/learning.json", learning_figure),
}
"""Charts that docs/ show beside their results: the file below results/, what it is drawn from, and how."""
BORDER, GAP = 2, 4
"""Pixels around and between frames."""


def main() -> None:
    """Draw all pictures."""
    started = time.monotonic()
    clips = {game: clip_of(game) for game in GAMES}
    files = {"games.gif": animation(clips), **{f"{game}.png": film_strip(clips[game]) for game in GAMES}}
    files["wrong-pixels.png"] = image(error_panels(measured()), "png")
    # Before any picture is written: the commit of the results is that of the code, not of a changed tree.
    write_results("pictures", numbers(clips), command="make pictures", seed=SEED, started=started)
    make_folder(PICTURES)
    for name, data in files.items():
        write_atomic(PICTURES / name, data)
        print(f"docs/pictures/{name}: {len(data) / 1e3:,.0f} kB")
    make_loops()
    redraw()
    tables.main()


def clip_of(game: str) -> Clip:
    """Return real and predicted frames of a game, chosen by the rule."""
    name = tables.best_packaged(game)
    model = as_model(Path(name), acvp.load(name), "cpu")
    context = model.predictor.context
    with tempfile.TemporaryDirectory() as folder:
        store = acvp.collect(
            game, Path(folder) / "data", policy=f"agent:{game}", epsilon=EPSILON, seed=SEED, frames=4 * (START + STEPS),
            max_steps=START + STEPS,
        )  # fmt: skip
        start = WindowStart(episode=first_long(store), frame=START + 1 - context)
        return record_clip([model], store, start, context=context, steps=STEPS)


def first_long(store: EpisodeStore) -> int:
    """Return the number of the first episode that is not over before the end of the dream."""
    return next(i for i, episode in enumerate(store) if len(episode.actions) >= START + STEPS)


def animation(clips: dict[str, Clip]) -> bytes:
    """Return the GIF of all games: real above, dream below."""
    return encode_gif(pictures(clips))


def pictures(clips: dict[str, Clip]) -> Iterator[Picture]:
    """Yield the pictures of the animation."""
    steps = range(1 - SHOWN, STEPS + 1)
    for step in [*steps, *[STEPS] * HOLD]:
        yield compose(clips, step)


def compose(clips: dict[str, Clip], step: int) -> Picture:
    """Return the picture of one step; up to step 0 the predictor sees real frames."""
    height, width = next(iter(clips.values())).truth.shape[1:3]
    across, down = width + 2 * BORDER + GAP, height + 2 * BORDER
    drawing, draw = canvas(len(clips) * across + GAP, 3 * LINE + 2 * down)
    dreaming = step > 0
    state = f"dream: {counted(step, 'step')} without a real frame"
    if not dreaming:
        state = f"the dream begins in {counted(1 - step, 'step')}"
    draw.text((GAP, LINE + down + 2), state, PREDICTED if dreaming else GIVEN, font())
    for column, (game, clip) in enumerate(clips.items()):
        left = GAP + column * across
        real = clip.frame(step)
        dream = shown(clip, step)
        draw.text((left, 2), f"{GAMES[game]}, real", INK, font())
        for top, frame, color in ((LINE, real, FAINT), (2 * LINE + down, dream, PREDICTED if dreaming else GIVEN)):
            draw.rectangle((left, top, left + width + 2 * BORDER - 1, top + down - 1), color)
            paste(drawing, frame, 1, (left + BORDER, top + BORDER))
        if dreaming:
            draw.text((left, 2 * LINE + 2 * down + 2), counted(wrong(real, dream), "wrong pixel"), INK, font())
    return np.asarray(drawing)


def shown(clip: Clip, step: int) -> Picture:
    """Return what the predictor's side shows at a step."""
    (predicted,) = clip.predictions.values()
    picture: Picture = clip.frame(step) if step <= 0 else predicted[step - 1]
    return picture


def wrong(real: Picture, dream: Picture) -> int:
    """Return how many pixels have another color."""
    return int((real != dream).any(-1).sum())


def film_strip(clip: Clip, steps: Sequence[int] = STRIP) -> bytes:
    """Return a wide PNG: a column for each step, real above, dream below."""
    height, width = clip.truth.shape[1:3]
    across, down = width + 2 * BORDER + GAP, height + 2 * BORDER
    drawing, draw = canvas(len(steps) * across + GAP, 3 * STRIP_LINE + 2 * down + 2 * GAP)
    top = 2 * STRIP_LINE
    for column, step in enumerate(steps):
        left = GAP + column * across
        draw.text((left, 2), f"step {step}", INK, font(STRIP_TEXT))
        draw.text((left, STRIP_LINE), clip.action(step), FAINT, font(STRIP_TEXT))
        rows: list[tuple[int, NDArray[np.uint8], Color]] = [
            (top, clip.frame(step), FAINT), (top + down + GAP, shown(clip, step), PREDICTED),
        ]  # fmt: skip
        for edge, frame, color in rows:
            draw.rectangle((left, edge, left + width + 2 * BORDER - 1, edge + down - 1), color)
            paste(drawing, frame, 1, (left + BORDER, edge + BORDER))
        count = wrong(clip.frame(step), shown(clip, step))
        draw.text((left, top + 2 * down + GAP + 2), counted(count, "wrong pixel"), INK, font(STRIP_TEXT))
    return png(drawing)


def make_loops() -> None:
    """Make the loops of the packaged predictors for the start page of `acvp play`, where their weights have changed."""
    models = make_model_pool(())
    for name, folder in packaged().items():
        if packaged_loop(folder) is None:
            loop = make_loop(models, name, 0, comment=weights_digest(folder))
            write_atomic(folder / LOOP_NAME, loop)
            print(f"{name}/{LOOP_NAME}: {len(loop) / 1e3:,.0f} kB")


def redraw() -> None:
    """Draw the charts of committed results again, where they are."""
    for file in sorted((*RESULTS.glob("pixel/*/evaluation.json"), *RESULTS.glob("freeway-cpu/evaluation.json"))):
        body = current_fields(json.loads(file.read_text()), RESULT_FIELDS)
        for metric in body["metrics"]:
            for picture in file.parent.glob(f"**/{metric}.png"):
                write_atomic(picture, image(curve_figure(body, metric), "png"))
                print(picture.relative_to(RESULTS.parent).as_posix())
    for name, (result, draw) in CHARTS.items():
        body = current_fields(json.loads((RESULTS / result).read_text()), RESULT_FIELDS)
        if "horizons" in body:
            body["runs"] = {RUN_NAMES.get(run, run): curve for run, curve in body["runs"].items()}
        write_atomic(RESULTS / name, image(draw(body), "png"))
        print(f"results/{name}")


def measured() -> dict[str, dict[str, Any]]:
    """Return the committed curves of wrong pixels while the agents play, by game and predictor."""
    return {
        game: {name: body["curves"][name]["wrong_pixels"] for name in (own, *BASELINES)}
        for game, (_, body, own) in tables.judged().items()
    }


def error_panels(curves: dict[str, dict[str, Any]], colors: dict[str, str] = LIGHT) -> Figure:
    """Return a wide figure: for each game the wrong pixels of its predictor and of both baselines, by step."""
    figure = Figure(figsize=(10.4, 3.2), facecolor=colors["paper"])
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (game, by_name) in zip(np.atleast_1d(panels), curves.items(), strict=True):
        for name, curve in by_name.items():
            color, line = (colors["faint"], BASELINES[name]) if name in BASELINES else (RUN_COLORS[0], "-")
            steps = np.arange(1, len(curve["mean"]) + 1)
            label = BASELINE_LABELS.get(name, "pixel-exact predictor")
            axes.plot(steps, curve["mean"], line, color=color, label=label, linewidth=1.6)
            axes.fill_between(steps, curve["low"], curve["high"], color=color, alpha=0.18, linewidth=0)
        axes.set_title(GAMES[game], color=colors["ink"], fontsize=10, loc="left")
        axes.set_yscale("log")
        axes.set_ylim(1, 33_600)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        style(axes, colors)
    first = np.atleast_1d(panels)[0]
    first.set_ylabel("wrong pixels of 33,600", color=colors["ink"])
    first.set_xlabel("steps ahead (agent steps)", color=colors["ink"])
    names: dict[str, Any] = {"fontsize": 9, "frameon": False, "labelcolor": colors["ink"], "ncols": 3}
    figure.legend(*first.get_legend_handles_labels(), loc="lower right", **names)
    figure.tight_layout()
    return figure


def numbers(clips: dict[str, Clip]) -> dict[str, Any]:
    """Return what the pictures show as numbers."""
    counts = {game: [wrong(clip.frame(s), shown(clip, s)) for s in range(1, STEPS + 1)] for game, clip in clips.items()}
    rule = (
        f"the packaged agent plays with ε = {EPSILON} and seed {SEED}; after {START} agent steps of its first "
        f"episode that is long enough, the packaged predictor continues for {STEPS} steps"
    )
    return {"rule": rule, "wrong pixels of 33,600 by step": counts}


if __name__ == "__main__":
    main()
