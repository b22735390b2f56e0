"""Loaded models: a trained predictor from wherever it is kept, with a name, a view and a device, and whether it fits.

A predictor is kept in the package, a run, a checkpoint, a predictor folder, or the hub. `require_fit` is the one place
that compares a predictor with a game or a dataset. Evaluation, analysis, control and play all look ahead with loaded
models. Two baselines stand beside every comparison: copying the last frame, and the mean frame of the training set.

Shapes: B windows, T time, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from numpy.typing import NDArray
from torch import Tensor

from acvp import __version__
from acvp.actions import ActionRange
from acvp.artifacts import REQUIRED, WEIGHTS_NAME, ArtifactError, read_folder
from acvp.checkpoint import newest_good
from acvp.console import err
from acvp.data.frames import View, get_view
from acvp.data.store import EpisodeStore
from acvp.errors import REPOSITORY, UserError, one_line
from acvp.models import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    Predictor,
    fingerprint,
    imagine,
    pick_device,
    predictor_from_files,
)
from acvp.runs import RunFolder

COPY_LAST, MEAN_FRAME = "copy-last-frame", "mean-frame"


def packaged() -> dict[str, Path]:
    """Return the folders of the predictors that come with acvp, by name."""
    home = Path(str(files("acvp"))) / "pretrained"
    return {path.parent.name: path.parent for path in sorted(home.glob("*/config.json"))}


OBJECTS = "-objects"
"""How the names of packaged predictors of objects end."""


def best_packaged() -> tuple[str, ...]:
    """Return the best predictor of each game that comes with acvp: that of objects, where there is one."""
    return tuple(name for name in packaged() if better_packaged(name) is None)


def better_packaged(name: str) -> str | None:
    """Return the predictor of objects that comes with acvp beside the one of this name, None if there is none."""
    return name + OBJECTS if name + OBJECTS in packaged() else None


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


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A predictor that is ready to look ahead."""

    name: str
    """Its name in curves and tables."""
    predictor: Predictor
    view: View
    """What it sees of a frame."""
    baseline: bool = False
    """Whether it learns nothing."""

    @property
    def device(self) -> torch.device:
        return self.predictor.normalizer.mean.device

    def look_ahead(self, frames: NDArray[Any], actions: NDArray[Any]) -> Iterator[Tensor]:
        """Yield the predictions (B, C, H, W) of steps 1, 2, … in pixel values, clamped to 0..255, on the CPU.

        ``frames`` are uint8 (B, T, H, W, C); ``actions`` (B, T - 1 + K) begin with those between them. Inside, the
        predictions are fed back as they are, not clamped. A pixel that is not a number counts as 0.
        """
        normalizer, given = self.predictor.normalizer, frames.shape[1]
        real = normalizer.to_float(torch.from_numpy(frames).to(self.device))
        moves = torch.from_numpy(actions).to(self.device)
        state = self.predictor.observe(real, moves[:, : given - 1])
        for frame, _ in imagine(self.predictor, state, moves[:, given - 1 :]):
            yield normalizer.to_pixels(frame).cpu()


def as_model(path: Path, predictor: Predictor, device: str) -> LoadedModel:
    """Return a predictor under the name of the folder that it was loaded from, on a device."""
    view = view_of(predictor, str(path))
    return LoadedModel(name=model_name(path), predictor=predictor.to(pick_device(device)), view=view)


def model_name(path: Path) -> str:
    """Return the name of the model in a folder: the folder's, or its run's."""
    resolved = path.resolve()
    return resolved.parent.name if resolved.name == "predictor" else resolved.name


def baselines(like: LoadedModel) -> list[LoadedModel]:
    """Return copy-last-frame and mean frame for the frames of a model, with its training set's mean image."""
    config = like.predictor.config
    sizes: dict[str, Any] = {"actions": config.actions, "frame": config.frame, "pixel_scale": config.pixel_scale}
    sizes["action_range"] = config.action_range
    copy_last, mean = CopyLastFrame(CopyLastFrameConfig(**sizes)), MeanFrame(MeanFrameConfig(**sizes))
    for predictor in (copy_last, mean):
        predictor.normalizer.set_mean(like.predictor.normalizer.mean.cpu())
    return [
        LoadedModel(name=COPY_LAST, predictor=copy_last.eval(), view=like.view, baseline=True),
        LoadedModel(name=MEAN_FRAME, predictor=mean.eval(), view=like.view, baseline=True),
    ]


def identity(models: Sequence[LoadedModel], store: EpisodeStore) -> dict[str, Any]:
    """Return everything about models and a dataset that decides a measurement: the key of cached results."""
    weights = [[model.name, fingerprint(model.predictor), model.device.type] for model in models]
    return {"version": __version__, "models": weights, "view": models[0].view.name, "data": store.digest}


def check_alike(models: Sequence[LoadedModel], store: EpisodeStore) -> None:
    """Refuse models that cannot be compared with each other, or not on this dataset."""
    first = models[0]
    for other in models[1:]:
        _refuse_other_size(first, other)
    for model in models:
        require_fit(
            model.name, model.predictor, store.info, view=model.view, source=str(store.path),
            cure="choose another --data",
        )  # fmt: skip
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise UserError(f"--predictors: two are called {max(names, key=names.count)}; give each another folder name")


def _refuse_other_size(first: LoadedModel, other: LoadedModel) -> None:
    size, other_size = (frame_size(model.predictor.config.frame) for model in (first, other))
    if first.view.name != other.view.name or size != other_size:
        raise UserError(
            f"{first.name} predicts frames {size} ({first.view.name}), {other.name} {other_size} ({other.view.name}): "
            "runs of different sizes cannot be compared; evaluate them one by one"
        )


class GameLike(Protocol):
    """What a game and a dataset's ``info`` have in common."""

    @property
    def env_id(self) -> str: ...
    @property
    def frame_shape(self) -> tuple[int, int, int]: ...
    @property
    def action_meanings(self) -> tuple[str, ...]: ...
    @property
    def action_range(self) -> ActionRange: ...


def view_of(predictor: Predictor, name: str = "this predictor") -> View:
    """Return the view in which a predictor sees frames; UserError where it does not say."""
    if predictor.about is None:
        raise UserError(f"{name} does not say which game and view it was trained on; train it with acvp train")
    return get_view(predictor.about.view)


def require_fit(
    name: str,
    predictor: Predictor,
    game: GameLike,
    *,
    view: View | None = None,
    source: str = "the game",
    cure: str = "name a predictor of this game",
) -> None:
    """Refuse a predictor of another game, or of another version of it, than ``source`` has."""
    view, about = view or view_of(predictor, name), predictor.about
    if about is not None and about.env_id != game.env_id:
        raise UserError(f"{name} predicts {about.env_id}, not {game.env_id} ({source}): {cure}")
    if predictor.actions != len(game.action_meanings):
        raise UserError(
            f"{name} knows {predictor.actions} actions, {source} has {len(game.action_meanings)} "
            f"({', '.join(game.action_meanings)}): {cure}"
        )
    ours, theirs = predictor.config.action_range, game.action_range
    if ours != theirs:
        raise UserError(f"{name} knows actions {_in_words(ours)}, {source} has them {_in_words(theirs)}: {cure}")
    shape = view.shape(game.frame_shape)
    if tuple(predictor.config.frame) != shape:
        raise UserError(
            f"{name} predicts frames {frame_size(predictor.config.frame)}, {source} has {frame_size(shape)} in view "
            f"{view.name}: {cure}"
        )


def _in_words(limits: ActionRange) -> str:
    return ", ".join(f"from {low:g} to {high:g}" for low, high in limits) or "as numbers"


def frame_size(shape: tuple[int, ...]) -> str:
    """Return a frame's shape as text: 210×160×3."""
    return "×".join(map(str, shape))
