"""A trained predictor from wherever it is kept: the package, a run folder, a checkpoint, a predictor folder."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from acvp.artifacts import REQUIRED, WEIGHTS_NAME, ArtifactError, read_folder
from acvp.checkpoint import newest_good
from acvp.console import err
from acvp.errors import UserError
from acvp.models import Predictor, predictor_from_files
from acvp.runs import RunFolder


def packaged() -> dict[str, Path]:
    """Return the folders of the predictors that come with acvp, by name."""
    home = Path(str(files("acvp"))) / "pretrained"
    return {path.parent.name: path.parent for path in sorted(home.glob("*/config.json"))}


def load(path: str | Path) -> Predictor:
    """Return a predictor that comes with acvp, by its name, or that of a folder, on the CPU and in eval mode.

    A folder may be a run, a checkpoint or a predictor; a run that has not finished gives the predictor of its newest
    whole checkpoint. What it was trained on is in `about`.

    >>> predictor = acvp.load("freeway")
    >>> frames, actions = episode_frames[-predictor.context :], [0, 1, 1]
    >>> future = acvp.rollout(predictor, frames, actions)  # uint8, one frame per action
    """
    path = Path(path)
    if not path.is_dir():
        if str(path) in packaged():
            return _from_folder(packaged()[str(path)])
        names = ", ".join(packaged()) or "none"
        raise UserError(
            f"{path}: no such folder; acvp.load takes a run, a checkpoint or a predictor folder, or the name of what "
            f"comes with acvp ({names})"
        )
    run = RunFolder(path)
    if all((run.predictor / name).exists() for name in REQUIRED):
        return _from_folder(run.predictor, path)
    if not (path / WEIGHTS_NAME).exists() and run.checkpoints.is_dir():
        checkpoint = newest_good(run.checkpoints, lambda text: err.print(f"acvp: {text}"))
        if checkpoint is None:
            raise UserError(f"{path}: this run has no checkpoint yet; train it with acvp train")
        return _from_files(checkpoint.path, checkpoint.files)
    return _from_folder(path)


def _from_folder(path: Path, within: Path | None = None) -> Predictor:
    """Return the predictor in a folder; no symbolic link may lead out of it, or out of `within` if that is given."""
    try:
        files = read_folder(path, within)
    except ArtifactError as error:
        raise ArtifactError(f"{error}; a run, a checkpoint or a predictor folder has one") from error
    return _from_files(path, files)


def _from_files(path: Path, found: dict[str, bytes]) -> Predictor:
    try:
        predictor = predictor_from_files(found)
    except ArtifactError as error:
        raise ArtifactError(f"{path}: {error}") from error
    assert isinstance(predictor, Predictor)
    return predictor
