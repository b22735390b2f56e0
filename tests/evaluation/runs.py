"""Run folders as acvp train leaves them, without training."""

from __future__ import annotations

from pathlib import Path

from acvp.data.frames import RGB, View
from acvp.data.merge import split_positions
from acvp.data.store import EpisodeStore
from acvp.durable import make_folder, write_atomic
from acvp.models import Predictor, predictor_files
from acvp.runs import RunFolder
from tests.evaluation.predictors import small_network


def make_run(
    path: Path, store: EpisodeStore, *, seed: int = 1, view: View = RGB, predictor: Predictor | None = None
) -> Path:
    """A finished run on a store, whose predictor has random weights."""
    predictor = predictor or small_network(store, seed, view)
    run = RunFolder(path)
    with run.writing():
        training = {"name": "smoke", "seed": seed, "test_fraction": 0.4, "view": view.name}
        held_out = split_positions(store, test_fraction=0.4, seed=seed)[1]
        run.write_config({"training": training, "store": store.digest, "data": store.info.env_id, "held_out": held_out})
        run.note_start()
        run.add_metrics({"kind": "train", "step": 25, "loss": 3.0})
        for step, error in ((50, 2.0), (100, 1.5)):
            values = {"error": {"1": error, "10": 2 * error}, "copy_last": {"1": 3.0, "10": 6.0}}
            run.add_metrics({"kind": "held-out", "step": step, "phase": 0, **values})
        make_folder(run.predictor)
        for name, data in predictor_files(predictor).items():
            write_atomic(run.predictor / name, data)
    return path
