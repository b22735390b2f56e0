"""An artifact: a trained network as files to share, the same for predictors and agents.

model.safetensors    weights, of 32 or 16 bits
config.json          network, what it was trained on, SHA-256 of the weights, sealed with its own checksum
README.md            card

Loading checks every byte, runs no code, and allocates nothing that the files do not hold.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from acvp.checkpoint import to_bytes, to_tensors
from acvp.compat import current_fields
from acvp.console import in_markdown
from acvp.durable import make_folder, read_file, seal, unseal, write_atomic
from acvp.errors import UserError

WEIGHTS_NAME, CONFIG_NAME, CARD_NAME = "model.safetensors", "config.json", "README.md"
REQUIRED = (CONFIG_NAME, WEIGHTS_NAME)
"""Files that loading needs."""
MAX_CONFIG = 2**20
"""Bytes; a configuration has a few thousand."""
WRONG_VALUES = (UserError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What building a network from the values of a foreign file can raise."""

Network = TypeVar("Network", bound=nn.Module)
About = TypeVar("About")


class ArtifactError(UserError):
    """An artifact that is missing, damaged, or of another kind."""


@dataclass(frozen=True)
class Kind:
    """A kind of artifact, and how its config.json is recognized."""

    name: str
    """With its article, for messages: `a predictor`."""
    format: int | str
    """Value of `format` in config.json."""
    network: str
    """Field of config.json that holds the network's configuration."""


def to_files(
    kind: Kind, network: nn.Module, config: dict[str, Any], about: Any, card: str, *, half: bool = False
) -> dict[str, bytes]:
    """Return the files of an artifact by name; `about` is a dataclass or None, `half` stores the weights in 16 bits."""
    tensors = network.state_dict()
    if half:
        tensors = {name: t.half() if t.dtype == torch.float32 else t for name, t in tensors.items()}
    weights = to_bytes(tensors)
    body = {
        "format": kind.format,
        kind.network: config,
        "about": None if about is None else asdict(about),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    return {WEIGHTS_NAME: weights, CONFIG_NAME: seal(body), CARD_NAME: card.encode()}


def from_files(
    kind: Kind, files: Mapping[str, bytes], build: Callable[[dict[str, Any]], tuple[Network, About]]
) -> tuple[Network, About]:
    """Return the network in eval mode and what is known about it; ArtifactError if the files are wrong.

    `build` makes both from the parsed config.json, on the meta device.
    """
    config, weights = _config(kind, files.get(CONFIG_NAME, b"")), files.get(WEIGHTS_NAME, b"")
    if hashlib.sha256(weights).hexdigest() != config["weights_sha256"]:
        raise ArtifactError(f"the checksum of {WEIGHTS_NAME} is not the one in {CONFIG_NAME}: a file is damaged")
    try:
        with torch.device("meta"):
            network, about = build(config)
        network.load_state_dict(_matching(to_tensors(weights, WEIGHTS_NAME), network), assign=True)
    except WRONG_VALUES as error:
        reason = str(error).strip().replace("\n", " ")[:300]
        raise ArtifactError(f"{CONFIG_NAME} and {WEIGHTS_NAME} do not make {kind.name}: {reason}") from error
    return network.eval(), about


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files of an artifact; once config.json is there, all are."""
    make_folder(folder)
    for name in sorted(files, key=lambda name: name == CONFIG_NAME):
        write_atomic(folder / name, files[name])


def read_folder(folder: Path, within: Path | None = None) -> dict[str, bytes]:
    """Return the required files of a folder; no symbolic link may lead out of it, or out of `within` if that is given.

    ArtifactError names the file that cannot be read.
    """
    files = {}
    for name in REQUIRED:
        file = folder / name
        try:
            if name == CONFIG_NAME and (size := file.stat().st_size) > MAX_CONFIG:
                raise ArtifactError(f"{file}: {size:,} bytes are too many for a configuration")
            files[name] = read_file(file, within or folder)
        except OSError as error:
            raise ArtifactError(f"{file}: cannot be read ({error.strerror})") from error
    return files


def make_card(title: str, *, tags: str, text: str, facts: Mapping[str, str], example: str, license: str = "MIT") -> str:
    """Return the text of a card as the Hugging Face hub shows it; `facts` become a list."""
    listed = "\n".join(f"- **{name}**: {in_markdown(fact)}" for name, fact in facts.items())
    return f"""---
license: {license.lower()}
library_name: acvp
tags: [{tags}]
---
# {in_markdown(title)}

{text}

{listed}
- **License**: {license}

```python
{example}
```
"""


def _config(kind: Kind, data: bytes) -> dict[str, Any]:
    try:
        if len(data) > MAX_CONFIG:
            raise ValueError(f"{len(data):,} bytes are too many")
        config: dict[str, Any] = current_fields(unseal(data))
        if config.get("format") != kind.format:
            raise ValueError(f"it is not of format {kind.format}")
        fields = {"format", kind.network, "about", "weights_sha256"}
        if config.keys() != fields:
            raise ValueError(f"its fields must be {sorted(fields)}")
    except ValueError as error:
        raise ArtifactError(f"{CONFIG_NAME} is not the configuration of {kind.name}: {error}") from error
    return config


def _matching(tensors: dict[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors with 16-bit floats widened; refuse other types than the network's."""
    for name, expected in network.state_dict().items():
        if name in tensors and tensors[name].dtype == torch.float16:
            tensors[name] = tensors[name].float()
        if name in tensors and tensors[name].dtype != expected.dtype:
            raise ArtifactError(f"{name} is {tensors[name].dtype}, expected {expected.dtype}")
    return tensors
