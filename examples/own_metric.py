"""A metric of your own: how far the brightness of a prediction is from that of the true frame.

    python examples/own_metric.py

records a toy game, trains a small network for a moment, and evaluates it with the metric below. With your own runs:

    PYTHONPATH=examples acvp evaluate --runs RUN --data DATASET --import own_metric

The metric is in evaluation.json, in the tables, in plots/ and in the report. A package can register its metrics without
--import: name its module in the entry point group `acvp.metrics`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from torch import Tensor

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
    """Return one number for each of the frames (B, C, H, W), which are in pixel values 0..255."""
    return (predicted.mean((1, 2, 3)) - truth.mean((1, 2, 3))).abs()


def acvp(*words: str, folder: Path) -> None:
    """Run the command line in a folder, with this file as a module that can be imported."""
    subprocess.run([sys.executable, "-m", "acvp", *words], cwd=folder, env=ENVIRONMENT, check=True)


if __name__ == "__main__":
    import os

    ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        acvp("collect", "--env-id", "acvp/Toy-v0", "--frames", "300", "--max-steps", "60", "--out", "toy", folder=work)
        acvp("train", "--data", "toy", "--model", "mlp", "--preset", "smoke", "--run", "run", folder=work)
        options = ["--horizon", "5", "--windows", "8", "--videos", "0", "--import", "own_metric"]
        acvp("evaluate", "--runs", "run", "--data", "toy", *options, folder=work)
        print(sorted(path.name for path in (work / "run" / "plots").glob("brightness.*")))
