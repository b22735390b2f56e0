"""A trained predictor from wherever it is kept: the package, a run, a checkpoint, a predictor folder, or the hub."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

from acvp.artifacts import REQUIRED, WEIGHTS_NAME, ArtifactError, read_folder
from acvp.checkpoint import newest_good
from acvp.console import err
from acvp.errors import UserError, one_line
from acvp.models import Predictor, predictor_from_files
from acvp.runs import RunFolder

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
"""A repository of the Hugging Face hub: owner/name."""


def packaged() -> dict[str, Path]:
    """Return the folders of the predictors that come with acvp, by name."""
    home = Path(str(files("acvp"))) / "pretrained"
    return {path.parent.name: path.parent for path in sorted(home.glob("*/config.json"))}


def load(path: str | Path) -> Predictor:
    """Return a predictor, on the CPU and in eval mode: one that comes with acvp, by name, or that of a folder.

    A folder may be a run, a checkpoint or a predictor; a run that has not finished gives the predictor of its newest
    whole checkpoint. "owner/name", where no such folder exists, is a repository of the Hugging Face hub, which is
    downloaded, or taken from the local cache where the hub cannot be reached. ``about`` says what a predictor was
    trained on. A predictor of your own kind loads once its module is imported.

    >>> predictor = acvp.load("freeway")
    >>> frames, actions = episode_frames[-predictor.context :], [0, 1, 1]
    >>> future = acvp.rollout(predictor, frames, actions)  # uint8, one frame per action
    """
    folder = Path(path)
    if not folder.is_dir():
        if str(path) in packaged():
            return _from_folder(packaged()[str(path)])
        if isinstance(path, str) and REPOSITORY.fullmatch(path) and not folder.parent.is_dir():
            return _from_hub(path)
        raise UserError(_unknown(str(path)))
    run = RunFolder(folder)
    if all((run.predictor / name).exists() for name in REQUIRED):
        return _from_folder(run.predictor, folder)
    if not (folder / WEIGHTS_NAME).exists() and run.checkpoints.is_dir():
        checkpoint = newest_good(run.checkpoints, lambda text: err.print(f"acvp: {text}"))
        if checkpoint is None:
            raise UserError(f"{folder}: this run has no checkpoint yet; train it with acvp train")
        return _from_files(str(checkpoint.path), checkpoint.files)
    return _from_folder(folder)


def _unknown(name: str) -> str:
    names = ", ".join(packaged()) or "none"
    return (
        f"{name}: no such folder; acvp.load takes a run, a checkpoint or a predictor folder, the name of a predictor "
        f"that comes with acvp ({names}), or owner/name of a Hugging Face hub repository"
    )


def _from_hub(name: str) -> Predictor:
    """Return the predictor in a repository of the hub, or in its local cache without network."""
    try:
        folder = Path(snapshot_download(name, allow_patterns=[*REQUIRED]))
    except LocalEntryNotFoundError as error:
        raise UserError(f"{_unknown(name)}; the hub cannot be reached and its cache has no {name}") from error
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise UserError(f"{_unknown(name)}; the hub answered: {one_line(str(error))[:200]}") from error
    return _from_folder(folder, folder.parent.parent, name)  # its files link to others of the repository's cache


def _from_folder(path: Path, within: Path | None = None, name: str | None = None) -> Predictor:
    """Return the predictor in a folder; no symbolic link may lead out of it, or out of `within` if that is given."""
    try:
        contents = read_folder(path, within)
    except ArtifactError as error:
        raise ArtifactError(f"{error}; a run, a checkpoint or a predictor folder has one") from error
    return _from_files(name or str(path), contents)


def _from_files(name: str, contents: dict[str, bytes]) -> Predictor:
    try:
        predictor = predictor_from_files(contents)
    except ArtifactError as error:
        raise ArtifactError(f"{name}: {error}") from error
    assert isinstance(predictor, Predictor)
    return predictor
