"""A predictor as an artifact: what is known about it, its files and card, and Hugging Face's methods to share it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

from huggingface_hub import ModelHubMixin, snapshot_download
from torch import nn

from acvp.artifacts import (
    CONFIG_NAME,
    REQUIRED,
    ArtifactError,
    Kind,
    from_files,
    make_card,
    read_folder,
    to_files,
    write_folder,
)
from acvp.durable import seal, unseal
from acvp.models.config import ConfigError, build, config_from_dict, config_to_dict
from acvp.models.layers import Calibration

KIND = Kind("a predictor", format=1, network="predictor")


@dataclass(frozen=True, kw_only=True)
class About:
    """What a predictor was trained on and with, for those who use it."""

    env_id: str
    """The game."""
    view: str
    """How it looks at frames: rgb or gray84."""
    action_meanings: tuple[str, ...]
    """A name per action."""
    data: str = "not recorded"
    """What it was trained on, in a sentence."""
    compute: str = "not recorded"
    """How long and on what, in a sentence."""
    error: str = "not measured"
    """What it reaches on held-out windows, in a sentence."""
    license: str = "MIT"
    """Under which the weights may be used."""

    def __post_init__(self) -> None:
        texts = (self.env_id, self.view, self.data, self.compute, self.error, self.license, *self.action_meanings)
        if not all(isinstance(text, str) for text in texts):
            raise ConfigError(f"everything about a predictor is text; found {texts}")


def predictor_files(predictor: Shareable, *, half: bool = False) -> dict[str, bytes]:
    """Return the files of a predictor by name; `half` stores its weights in 16 bits, to be shared."""
    config = config_to_dict(predictor.config)
    if predictor.calibration != Calibration():
        config["calibration"] = asdict(predictor.calibration)
    return to_files(KIND, predictor, config, predictor.about, card(predictor), half=half)


def calibrated_files(files: Mapping[str, bytes], calibration: Calibration) -> dict[str, bytes]:
    """Return the files of a predictor with another calibration; the weights stay as they are, bit for bit."""
    config = unseal(files[CONFIG_NAME])
    config[KIND.network] |= {"calibration": asdict(calibration)}
    return {**files, CONFIG_NAME: seal(config)}


def predictor_from_files(files: Mapping[str, bytes]) -> Shareable:
    """Return the predictor of its files, in eval mode, or ArtifactError."""
    predictor, about = from_files(KIND, files, _build)
    predictor.about = about
    return predictor


def _build(config: dict[str, Any]) -> tuple[Shareable, About | None]:
    network = dict(config[KIND.network])
    calibration = network.pop("calibration", None)
    predictor: Shareable = build(config_from_dict(network))
    if calibration is not None:
        predictor.calibration = Calibration.from_dict(calibration)
    about = config["about"]
    if about is None:
        return predictor, None
    return predictor, About(**(about | {"action_meanings": tuple(about["action_meanings"])}))


def card(predictor: Shareable) -> str:
    """Return the model card: what it is, data, compute, error, license, and how to use it."""
    kind, (height, width, channels) = config_to_dict(predictor.config)["kind"], predictor.config.frame
    about = predictor.about or About(env_id="unknown", view="unknown", action_meanings=())
    count = sum(weight.numel() for weight in predictor.parameters())
    seen = f"{height}×{width}×{channels}, view `{about.view}`"
    return make_card(
        f"{kind} predictor of {about.env_id}",
        tags="world-model, video-prediction, atari",
        text=f"Predicts the next frame ({seen}) from {predictor.config.context} frames and an action; {count:,} "
        'parameters.\nMethod: Oh et al., "Action-Conditional Video Prediction using Deep Networks in Atari Games", '
        "NIPS 2015.",
        facts={
            "Actions": ", ".join(about.action_meanings) or "unknown",
            "Data": about.data,
            "Compute": about.compute,
            "Error": about.error,
        },
        example="import acvp\n\n"
        'predictor = acvp.load("path/to/this/folder")\n'
        "future = acvp.rollout(predictor, frames, actions)  # uint8 (T, H, W, C) and (K,) in, uint8 (K, H, W, C) out",
        license=about.license,
    )


class Shareable(nn.Module, ModelHubMixin):
    """A network with a configuration and a card, and Hugging Face's methods; local folders need no network."""

    config: Any
    about: About | None
    calibration: Calibration

    def _save_pretrained(self, save_directory: Path) -> None:
        write_folder(save_directory, predictor_files(self))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: str | Path, **options: Any) -> Self:
        """Return the predictor in a folder, or in a repository of the hub, in eval mode.

        Of the class it is called on, or ArtifactError; `Predictor.from_pretrained` takes every kind.
        """
        folder = Path(pretrained_model_name_or_path)
        if not folder.is_dir() and (folder.is_absolute() or len(folder.parts) != 2 or folder.parts[0] in (".", "..")):
            raise ArtifactError(f"{folder}: no such folder, and not the name of a repository (owner/name)")
        if folder.is_dir():
            return cls._from_folder(folder, folder)
        folder = Path(snapshot_download(str(pretrained_model_name_or_path), allow_patterns=[*REQUIRED], **options))
        return cls._from_folder(folder, folder.parent.parent)  # files of snapshots/REVISION are links into blobs/

    @classmethod
    def _from_folder(cls, folder: Path, within: Path) -> Self:
        predictor = predictor_from_files(read_folder(folder, within))
        if not isinstance(predictor, cls):
            raise ArtifactError(f"{folder} holds a {type(predictor).__name__}, not a {cls.__name__}")
        return predictor


def fingerprint(predictor: Shareable) -> str:
    """Return a short hash of a predictor's weights, configuration and calibration, by which results name it.

    Fields at their default do not count, so that a new field changes no hash.
    """
    config = predictor.config
    assert is_dataclass(config)
    chosen = {field.name: getattr(config, field.name) for field in fields(config)}
    chosen = {field.name: chosen[field.name] for field in fields(config) if chosen[field.name] != field.default}
    digest = hashlib.sha256(repr((type(config).__name__, chosen)).encode())
    if predictor.calibration != Calibration():
        digest.update(repr(predictor.calibration).encode())
    for name, tensor in predictor.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.numpy(force=True).tobytes())
    return digest.hexdigest()[:16]
