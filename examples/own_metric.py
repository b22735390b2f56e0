"""Your own metric: register a function, evaluate a run with it, read its curve.

The metric is in evaluation.json, in the tables, in plots/ with its formula as caption, and in the report. On the
command line, name the module that registers it:

    PYTHONPATH=examples acvp evaluate --predictors runs/toy --data stores/toy --import own_metric

A package does without --import if it names its module in the entry point group `acvp.metrics`.
"""

from pathlib import Path

from torch import Tensor

import acvp
from acvp.evaluation.metrics import register


@register(
    "brightness",
    title="Brightness error",
    unit="pixel values",
    formula="|mean of x̂ − mean of x| over the pixels and channels of a frame; mean over windows",
    better="lower",
    floor=0.0,
)
def brightness(predicted: Tensor, truth: Tensor) -> Tensor:
    """Return one number for each frame; both tensors are (B, C, H, W) in pixel values 0..255."""
    return (predicted.mean((1, 2, 3)) - truth.mean((1, 2, 3))).abs()


def main(folder: Path = Path("own-metric"), frames: int = 20_000, preset: str = "cpu") -> dict[str, list[float]]:
    acvp.collect("toy", folder / "data", frames=frames, max_steps=100)
    acvp.train(folder / "data", folder / "run", model="mlp", preset=preset)
    results = acvp.evaluate(folder / "run", folder / "data", horizon=10, windows=20, videos=0)
    return {name: curves["brightness"]["mean"] for name, curves in results["curves"].items()}  # by steps ahead


if __name__ == "__main__":
    for name, curve in main().items():
        print(name, curve)
