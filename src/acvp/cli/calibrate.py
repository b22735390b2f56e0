"""`acvp calibrate`: chooses thresholds of rewards, terminations and lost lives, and stores them with a predictor."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from acvp.cli.main import Verb, predictor_stages
from acvp.console import Device, Module, optional, out
from acvp.errors import UserError, require, require_device, require_seed, require_share
from acvp.exits import EXIT_OK

if TYPE_CHECKING:
    from acvp.data.store import EpisodeStore
    from acvp.loaded import LoadedModel


@dataclass(frozen=True, kw_only=True)
class CalibrateConfig:
    """Choose thresholds of rewards, terminations and lost lives on held-out episodes, and store them with a predictor.

    acvp train does this at its end; use it for a predictor that has no thresholds yet. The weights do not change.
    """

    predictor: Annotated[Path, arg(metavar="PREDICTOR")]
    """Run folder or predictor folder."""
    data: Annotated[tuple[Path, ...], arg(metavar="DATASET …")]
    """Training dataset of the predictor, or several. Only the episodes that were held out in training are used."""
    out: Annotated[Path | None, optional("PATH", "the predictor's own folder")] = None
    """Predictor folder to write."""
    steps: int = 1_000
    """Maximum number of held-out agent steps to choose the thresholds on."""
    seed: int = 1
    """Seed of the training. It says which episodes were held out, if the run folder is missing."""
    test_fraction: float = 0.1
    """Fraction of the frames that was held out, if the run folder is missing."""
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require(1, steps=self.steps)
        require_seed(self.seed)
        require_share(test_fraction=self.test_fraction)
        require_device(self.device)


def run(config: CalibrateConfig) -> int:
    """Calibrate a predictor."""
    from acvp.artifacts import read_folder, write_folder
    from acvp.data.merge import join
    from acvp.loaded import as_model, check_alike, load
    from acvp.models.artifact import calibrated_files
    from acvp.models.calibration import calibrate
    from acvp.runs import RunFolder

    own = RunFolder(config.predictor).predictor
    folder = own if own.is_dir() else config.predictor
    files = read_folder(folder)
    model = as_model(config.predictor, load(str(folder)), config.device)
    if not getattr(model.predictor.config, "predict_rewards", False):
        raise UserError(f"{config.predictor} predicts frames only: there are no rewards to calibrate")
    store = join(config.data)
    check_alike([model], store)
    held_out = _held_out(config, model, store)
    with predictor_stages() as stage:
        calibration = calibrate(
            model.predictor, model.view, held_out, count=config.steps, seed=config.seed,
            progress=stage("predicting rewards and terminations"),
        )  # fmt: skip
    write_folder(config.out or folder, calibrated_files(files, calibration))
    out.print(
        f"{config.out or folder}: outcomes are decided, by {len(held_out)} held-out episodes, for {calibration.text()}"
    )
    return EXIT_OK


def _held_out(config: CalibrateConfig, model: LoadedModel, store: EpisodeStore) -> EpisodeStore:
    """Return the episodes that the predictor was not trained on, of the dataset that it was trained on."""
    from acvp.data.merge import split
    from acvp.evaluation.windows import held_out_part, training_of

    trained = training_of(config.predictor)
    if trained is not None and set(store.digests) <= trained.held_out.keys():
        return held_out_part(store, [trained], None).store
    about = model.predictor.about
    if trained is not None or about is None or not all(digest[:16] in about.data for digest in store.digests):
        raise UserError(
            f"{config.predictor} was not trained on {store.path}: pass its training dataset as --data, whose held-out "
            "episodes decide"
        )
    train, held_out = split(store, test_fraction=config.test_fraction, seed=config.seed)
    if not about.data.startswith(f"{train.frames:,} frames of "):
        raise UserError(
            f"{config.predictor} was trained on {about.data}, and this split leaves {train.frames:,} frames: pass the "
            "--seed and --test-fraction of its training"
        )
    return held_out


VERBS = {
    "calibrate": Verb(
        options=CalibrateConfig,
        run=run,
        example="acvp calibrate --predictor runs/freeway --data stores/freeway",
    )
}
