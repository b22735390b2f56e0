"""A predictor as files: weights, configuration and model card, as bytes; no file is read or written in here.

model.safetensors    weights and mean image
config.json          network, what it was trained on, SHA-256 of the weights and of itself
README.md            model card

What a predictor tells about itself.

Sharing predictors: save_pretrained, from_pretrained and push_to_hub, in the files of acvp.models.artifact.

A short hash that tells predictors apart: results that are kept say by it which weights they are of.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Self

import safetensors
import safetensors.torch
import torch
from huggingface_hub import ModelHubMixin, snapshot_download
from torch import Tensor, nn

from acvp.compat import current_fields, current_tensors
from acvp.models.checks import ConfigError
from acvp.models.registry import build, config_from_dict, config_to_dict


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


WEIGHTS_NAME, CONFIG_NAME, CARD_NAME = "model.safetensors", "config.json", "README.md"
FORMAT = 1
FIELDS = {"format", "predictor", "about", "weights_sha256"}
WRONG_FILES = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What building a network from values that none of acvp's has can raise."""
MAX_CONFIG = 2**20
"""Bytes; a configuration has a few thousand."""


def predictor_files(predictor: Shareable, *, half: bool = False) -> dict[str, bytes]:
    """Return the files of a predictor by name; with ``half`` its weights in 16 bits, to be shared."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in predictor.state_dict().items()}
    if half:
        tensors = {name: each.half() if each.dtype == torch.float32 else each for name, each in tensors.items()}
    weights: bytes = safetensors.torch.save(tensors)
    about = None if predictor.about is None else asdict(predictor.about)
    config = {
        "format": FORMAT,
        "predictor": config_to_dict(predictor.config),
        "about": about,
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    return {WEIGHTS_NAME: weights, CONFIG_NAME: config_file(config), CARD_NAME: card(predictor).encode()}


def config_file(config: dict[str, Any]) -> bytes:
    """Return the text of config.json, with its own checksum inside so that damage to it shows."""
    return json.dumps(config | {"sha256": _checksum(config)}, indent=1, ensure_ascii=False).encode() + b"\n"


def predictor_from_files(files: Mapping[str, bytes]) -> Shareable:
    """Return the predictor of its files, in eval mode, or ConfigError; nothing is allocated that the files lack."""
    config = _parse(files.get(CONFIG_NAME, b""))
    weights = files.get(WEIGHTS_NAME, b"")
    if hashlib.sha256(weights).hexdigest() != config["weights_sha256"]:
        raise ConfigError(f"the checksum of {WEIGHTS_NAME} is not the one in {CONFIG_NAME}: a file is damaged")
    try:
        with torch.device("meta"):
            predictor: Shareable = build(config_from_dict(config["predictor"]))
        predictor.load_state_dict(_fitting(current_tensors(safetensors.torch.load(weights)), predictor), assign=True)
        predictor.about = _about(config["about"])
    except (*WRONG_FILES, safetensors.SafetensorError) as error:
        first = str(error).strip().replace("\n", " ")[:300]
        raise ConfigError(f"{CONFIG_NAME} and {WEIGHTS_NAME} do not make a predictor: {first}") from error
    return predictor.eval()


def card(predictor: Shareable) -> str:
    """Return the model card: what it is, data, compute, error, license, and how to use it."""
    kind, (height, width, channels) = config_to_dict(predictor.config)["kind"], predictor.config.frame
    about = predictor.about or About(env_id="unknown", view="unknown", action_meanings=())
    count = sum(weight.numel() for weight in predictor.parameters())
    return f"""---
license: {about.license.lower()}
library_name: acvp
tags: [world-model, video-prediction, atari]
---
# {kind} predictor of {about.env_id}

Predicts the next frame ({height}×{width}×{channels}, view `{about.view}`) from {predictor.config.context} frames and
an action; {count:,} parameters. Method: Oh et al., "Action-Conditional Video Prediction using Deep Networks in Atari
Games", NIPS 2015.

- **Actions**: {", ".join(about.action_meanings) or "unknown"}
- **Data**: {about.data}
- **Compute**: {about.compute}
- **Error**: {about.error}
- **License**: {about.license}

```python
import acvp
predictor = acvp.load("path/to/this/folder")
future = acvp.rollout(predictor, frames, actions)  # uint8 (T, H, W, C) and (K,) in, uint8 (K, H, W, C) out
```
"""


def _parse(data: bytes) -> dict[str, Any]:
    try:
        if len(data) > MAX_CONFIG:
            raise ValueError(f"{len(data):,} bytes are too many")
        config = json.loads(data.decode())
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            raise ValueError(f"it is not of format {FORMAT}")
        checksum = config.pop("sha256", None)
        if checksum is not None and checksum != _checksum(config):
            raise ValueError("its checksum does not match its text: it is damaged or was edited by hand")
        config = dict(current_fields(config))
        if config.keys() != FIELDS or not isinstance(config["predictor"], dict):
            raise ValueError(f"it must have {sorted(FIELDS)} and nothing else")
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{CONFIG_NAME} is not a predictor's: {error}") from error
    return config


def _checksum(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _fitting(tensors: dict[str, Tensor], predictor: Shareable) -> dict[str, Tensor]:
    """Return the tensors, 16 bits widened; refuse a type that the network lacks (load_state_dict: shapes and names)."""
    for name, wanted in predictor.state_dict().items():
        if name in tensors and tensors[name].dtype == torch.float16:
            tensors[name] = tensors[name].float()
        if name in tensors and tensors[name].dtype != wanted.dtype:
            raise ConfigError(f"{name} is {tensors[name].dtype}, expected {wanted.dtype}")
    return tensors


def _about(values: Any) -> About | None:
    if values is None:
        return None
    return About(**(values | {"action_meanings": tuple(values["action_meanings"])}))


WANTED = ("config.json", "model.safetensors")


class Shareable(nn.Module, ModelHubMixin):
    """A network with a configuration and a card, and Hugging Face's methods; local folders need no network."""

    config: Any
    about: About | None

    def _save_pretrained(self, save_directory: Path) -> None:

        for name, data in predictor_files(self).items():
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


def fingerprint(predictor: Shareable) -> str:
    """Return a hash of a predictor's weights and configuration, of which defaults do not count: there may be more of
    them one day.
    """
    config = predictor.config
    assert is_dataclass(config)
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    chosen = {each.name: chosen[each.name] for each in fields(config) if chosen[each.name] != each.default}
    digest = hashlib.sha256(repr((type(config).__name__, chosen)).encode())
    for name, tensor in predictor.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.numpy(force=True).tobytes())
    return digest.hexdigest()[:16]
