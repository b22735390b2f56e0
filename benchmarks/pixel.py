"""python -m benchmarks.pixel [--games …] [--minutes 30]: the predictors that come with acvp, from nothing.

For each game: records 100,000 frames and a separate test dataset, trains the pixel-exact predictor, evaluates it, and
puts results into results/pixel/ and weights into the package. If interrupted, run it again to resume.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import tyro
from rich.console import Console

import acvp
from acvp.console import counting, stages
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import join
from acvp.durable import seal, unseal
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.run import evaluate_runs
from acvp.models import Predictor, predictor_files
from acvp.pixel import PixelConfig
from acvp.training.config import TrainConfig
from acvp.training.presets import make_config
from acvp.training.run import train
from benchmarks.cards import REFERENCES, describe_error
from benchmarks.provenance import RESULTS

GAMES = ("freeway", "seaquest", "space_invaders", "qbert", "ms_pacman")
PACKAGED = Path(acvp.__file__).parent / "pretrained"
HORIZON = 100
SHUFFLED = 20
"""Windows that are also predicted under other actions."""
BESIDE_PAPER = 32
"""Windows to compare with the paper's network from, which takes ten times as long for a frame."""
PACKAGED_RESULTS = {
    "freeway": "freeway-120-core-minutes",
    **{game: f"{game}-45-core-minutes" for game in GAMES if game != "freeway"},
}
"""Folder in results/pixel of each packaged predictor."""
KEPT = ("wrong_pixels", "exact", "object_kept", "object_found")
"""Figures that go into results/."""


@dataclass(frozen=True, kw_only=True)
class PretrainConfig:
    """Record, train, evaluate and package the pixel-exact predictors."""

    games: tuple[str, ...] = GAMES
    """Which ones."""
    minutes: float = 30.0
    """Wall-clock minutes of training each."""
    channels: tuple[int, ...] | None = None
    """Features of a cell at each scale of the network; None: the preset's."""
    frames: int = 100_000
    """Recorded frames to train on; a tenth is held out."""
    test_frames: int = 25_000
    """Frames of the test store, recorded with another seed."""
    windows: int = 100
    """Places to look ahead from."""
    home: Path = Path("stores-and-runs")
    """Folder for stores and runs, which are large and not kept."""
    name: str = "pixel"
    """Of the run, to keep several of a game."""
    package: bool = True
    """Whether to put the weights into the package."""
    cards_only: bool = False
    """Only write the cards of the packaged predictors again, from results/pixel and results/dreams."""
    beside_paper: bool = False
    """Whether to train the paper's feedforward network in color on the same frames for as long, and compare."""


def main(config: PretrainConfig) -> None:
    """Make every predictor asked for."""
    for game in config.games:
        if config.cards_only:
            rewrite_card(game)
        else:
            make(game, config)


def make(game: str, config: PretrainConfig) -> None:
    """From nothing to a packaged predictor of one game."""
    stores = config.home / "stores"
    record(CollectConfig(env_id=game, out=stores / game, frames=config.frames, seed=1, epsilon=(0.3,)))
    test = CollectConfig(env_id=game, out=stores / f"{game}-test", frames=config.test_frames, seed=2, epsilon=(0.3,))
    record(test)
    run = config.home / "runs" / f"{game}-{config.name}"
    learn(
        TrainConfig(data=(stores / game,), model="pixel", preset="cpu", run=run, minutes=config.minutes),
        config.channels,
    )
    body = evaluate(run, stores / game, test.out, config.windows)
    minutes = config.minutes * torch.get_num_threads()
    keep(body, run, RESULTS / "pixel" / f"{game}-{minutes:g}-core-minutes")
    if config.package:
        package(run, body, PACKAGED / game)
    if config.beside_paper:
        beside_paper(game, run, config)


def record(options: CollectConfig) -> None:
    """Record, or resume."""
    with counting(f"recording {options.out.name}", "frames") as show:
        collect(options, lambda frames, size: show(min(frames, options.frames), options.frames))


def learn(options: TrainConfig, channels: tuple[int, ...] | None = None) -> None:
    """Train, or resume."""
    store = join(options.data)
    training = make_config(options, store)
    if channels:
        assert isinstance(training.predictor, PixelConfig)
        predictor: PixelConfig = training.predictor
        training = replace(training, predictor=replace(predictor, channels=channels))
    code = train(options, store, training, Console(stderr=True, highlight=False)).exit_code
    if code:
        raise SystemExit(code)


def beside_paper(game: str, run: Path, config: PretrainConfig) -> None:
    """Train the paper's network as long, and look ahead with both from the same places."""
    stores, paper = config.home / "stores", config.home / "runs" / f"{game}-paper"
    learn(
        TrainConfig(
            data=(stores / game,), model="feedforward", view="rgb", preset="cpu", run=paper, minutes=config.minutes
        )
    )
    out = config.home / "runs" / f"{game}-beside-paper"
    if not (out / "evaluation.json").exists():
        both = EvaluateConfig(
            predictors=(run, paper), data=(stores / f"{game}-test",), trained_on=stores / game, out=out,
            horizon=HORIZON, windows=BESIDE_PAPER, shuffled_windows=0, batch_size=16,
            video_steps=HORIZON, video_formats=("mp4",),
        )  # fmt: skip
        with stages() as stage:
            evaluate_runs(both, stage)
    keep(json.loads((out / "evaluation.json").read_text()), out, RESULTS / "pixel" / f"{game}-beside-paper")


def evaluate(run: Path, trained_on: Path, test: Path, windows: int) -> dict[str, Any]:
    """Return what evaluation.json of a run holds, looking ahead on the test store unless that was done."""
    done = run / "evaluation.json"
    if not done.exists():
        config = EvaluateConfig(
            predictors=(run,), data=(test,), trained_on=trained_on, horizon=HORIZON, windows=windows,
            shuffled_windows=SHUFFLED, batch_size=16, video_steps=HORIZON, video_formats=("mp4",),
        )  # fmt: skip
        with stages() as stage:
            evaluate_runs(config, stage)
    body: dict[str, Any] = json.loads(done.read_text())
    return body


def keep(body: dict[str, Any], run: Path, folder: Path) -> None:
    """Copy what is small and worth looking at into the results; paths as seen from the folder of stores and runs."""
    folder.mkdir(parents=True, exist_ok=True)
    home = str(run.parent.parent)
    text = (run / "evaluation.json").read_text().replace(f'"{home}"', '"."').replace(f"{home}/", "")
    (folder / "evaluation.json").write_text(text)
    for metric in KEPT:
        if metric in body["metrics"]:
            shutil.copy(run / "plots" / f"{metric}.png", folder)
    for strip in (run / "strips").glob("*.png"):
        shutil.copy(strip, folder)


def package(run: Path, body: dict[str, Any], folder: Path) -> None:
    """Write weights of 16 bits and a card with what was measured."""
    folder.mkdir(parents=True, exist_ok=True)
    write_predictor(acvp.load(run), describe_error(body, run.name), folder)


def rewrite_card(game: str) -> None:
    """Write the card of a packaged predictor again, from its results, also those of an agent; the weights stay."""
    config, card = PACKAGED / game / "config.json", PACKAGED / game / "README.md"
    known = unseal(config.read_bytes())
    before, known["about"]["error"] = known["about"]["error"], error_of_packaged(game)
    card.write_text(card.read_text().replace(before, known["about"]["error"]))
    config.write_bytes(seal(known))


def error_of_packaged(game: str) -> str:
    """Return what the results in this repository say about a packaged predictor's error."""
    body = json.loads((RESULTS / "pixel" / PACKAGED_RESULTS[game] / "evaluation.json").read_text())
    (name,) = (name for name in body["curves"] if name not in REFERENCES)
    played = RESULTS / "dreams" / f"{game}-agent.json"
    agent = json.loads(played.read_text()) if played.exists() else None
    return describe_error(body, name, agent, game)


def write_predictor(predictor: Predictor, error: str, folder: Path) -> None:
    """Write a predictor's files with weights of 16 bits and a card that states its error."""
    assert predictor.about is not None
    predictor.about = replace(predictor.about, error=error)
    for name, data in predictor_files(predictor, half=True).items():
        (folder / name).write_bytes(data)


if __name__ == "__main__":
    main(tyro.cli(PretrainConfig, description=__doc__))
