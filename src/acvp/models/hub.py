"""Sharing predictors: save_pretrained, from_pretrained and push_to_hub, in the files of acvp.models.files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelHubMixin, snapshot_download

from acvp.models.checks import ConfigError

WANTED = ("config.json", "model.safetensors")


class Shareable(ModelHubMixin):
    """Gives predictors Hugging Face's methods; folders on this machine need no network."""

    def _save_pretrained(self, save_directory: Path) -> None:
        from acvp.models.files import predictor_files  # it knows all predictors, each of which is shareable

        for name, data in predictor_files(self).items():  # type: ignore[arg-type]
            (save_directory / name).write_bytes(data)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Return the predictor in a folder, or in a repository of the hub, in eval mode.

        Of the class it is called on, or ConfigError; `Predictor.from_pretrained` takes every kind.
        """
        folder = Path(pretrained_model_name_or_path)
        if not folder.is_dir() and (folder.is_absolute() or len(folder.parts) != 2 or folder.parts[0] in (".", "..")):
            raise ConfigError(f"{folder}: no such folder, and no name of a repository (owner/name) either")
        if folder.is_dir():
            return cls._from_folder(folder, folder)
        folder = Path(snapshot_download(str(pretrained_model_name_or_path), allow_patterns=[*WANTED], **options))
        return cls._from_folder(folder, folder.parent.parent)  # files of snapshots/REVISION are links into blobs/

    @classmethod
    def _from_folder(cls, folder: Path, within: Path) -> Self:
        from acvp.models.files import predictor_from_files  # see above

        files = {name: folder / name for name in WANTED}
        for name, file in files.items():
            if not file.is_file() or not file.resolve().is_relative_to(within.resolve()):
                raise ConfigError(f"{folder} is no predictor's: {name} cannot be read, or lies outside {within}")
        try:
            predictor = predictor_from_files({name: file.read_bytes() for name, file in files.items()})
        except OSError as error:
            raise ConfigError(f"{folder} is no predictor's: {error.filename} cannot be read") from error
        if not isinstance(predictor, cls):
            raise ConfigError(f"{folder} holds a {type(predictor).__name__}, not a {cls.__name__}")
        return predictor
