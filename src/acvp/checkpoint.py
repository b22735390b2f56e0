"""Checkpoints: folders of files with a manifest of their hashes written last, newest and best kept.

    checkpoints/step-000001200/
      model.safetensors config.json       the predictor, loadable on its own
      optimizer.safetensors state.json    what else a bit-identical resume needs
      manifest.json                       size and SHA-256 of each file, sealed; without it the folder does not count

After a kill at any time the older checkpoints are whole, and the new one is whole or does not count. Loading a
checkpoint runs no code from it.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor
from torch.optim import Optimizer

from acvp.compat import current_files, current_tensors
from acvp.durable import check_space, make_folder, read_file, seal, sync_folder, unseal, write_atomic
from acvp.errors import UserError

MANIFEST_NAME = "manifest.json"
MAX_MANIFEST = 2**20
"""Bytes; a manifest has a few hundred."""
_NAME = re.compile(r"step-(\d{9,})")


class CheckpointError(UserError):
    """A damaged or missing checkpoint; the message names the file and the reason."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint read and checked."""

    path: Path
    step: int
    score: float
    """Held-out error at that step; infinite if none had been measured."""
    files: dict[str, bytes]


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Return named tensors as the bytes of a safetensors file."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    data: bytes = safetensors.torch.save(plain)
    return data


def to_tensors(data: bytes, name: str | Path) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a safetensors file, called `name` in the error if they are damaged."""
    try:
        tensors: dict[str, Tensor] = current_tensors(safetensors.torch.load(data))
    except (safetensors.SafetensorError, ValueError, KeyError, RuntimeError, TypeError) as error:
        raise CheckpointError(f"{name}: not readable as safetensors ({error})") from error
    return tensors


def optimizer_tensors(optimizer: Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state as tensors named {parameter}.{name}; rates and groups are not part of it."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{name}": tensor for number, values in state.items() for name, tensor in values.items()}


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Load what `optimizer_tensors` returned into a new optimizer of the same network."""
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, _, name = key.partition(".")
        state.setdefault(int(number), {})[name] = tensor
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def save_checkpoint(folder: Path, step: int, files: Mapping[str, bytes], *, score: float = inf) -> Path:
    """Write a checkpoint, read it back to check it, and return its folder; a whole one of that step is kept."""
    path = folder / f"step-{step:09d}"
    with contextlib.suppress(CheckpointError):
        _read(path)
        sync_folder(path)  # a killed process may have renamed the manifest and not synced its name
        sync_folder(folder)
        return path
    check_space(path, sum(map(len, files.values())))
    make_folder(path)
    _uncount(path)
    for name, data in files.items():
        write_atomic(path / name, data)
    hashes = {name: {"size": len(data), "sha256": _hash(data)} for name, data in files.items()}
    note = {"step": step, "score": None if score == inf else score}
    write_atomic(path / MANIFEST_NAME, seal(note | {"files": hashes}))
    _read(path)
    return path


def read_checkpoint(path: Path, run: Path | None = None) -> Checkpoint:
    """Read a checkpoint and check every byte; symbolic links must stay inside it, or inside its run."""
    checkpoint = _read(path, run)
    return replace(checkpoint, files=current_files(checkpoint.files))


def _read(path: Path, run: Path | None = None) -> Checkpoint:
    """Read and check a checkpoint, with its files by the names that it was written with."""
    manifest = _manifest(path, run)
    files = {name: _checked(path, name, entry, run) for name, entry in manifest["files"].items()}
    score = inf if manifest["score"] is None else float(manifest["score"])
    return Checkpoint(path, int(manifest["step"]), score, files)


def newest_good(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """Return the newest whole checkpoint, with a warning for each newer damaged one; None if there are none."""
    folders = list(_folders(folder))
    for path in folders:
        try:
            return read_checkpoint(path, folder.parent)
        except CheckpointError as error:
            warn(f"{error}; using the checkpoint before it")
    if folders:
        raise CheckpointError(f"{folder}: none of {len(folders)} checkpoints is whole; start a new run")
    return None


def prune(folder: Path, keep: int) -> None:
    """Remove all but the `keep` newest checkpoints and the best one, and unfinished ones."""
    counted = list(_folders(folder))
    scores = {path: _score(path) for path in counted}
    best = min(counted, key=lambda path: scores[path], default=None)
    for path in counted[keep:]:
        if path != best or scores[path] == inf:
            _remove(path)
    for path in folder.glob("step-*"):
        if not (path / MANIFEST_NAME).exists():
            _remove(path)


def forget_after(folder: Path, step: int) -> None:
    """Remove the damaged checkpoints of later steps when a run resumes from this one."""
    for path in list(_folders(folder)):
        if path.name > f"step-{step:09d}":
            _remove(path)


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the folders that count as checkpoints, newest first."""
    named = [(int(match[1]), path) for path in folder.glob("step-*") if (match := _NAME.fullmatch(path.name))]
    for _, path in sorted(named, reverse=True):
        if (path / MANIFEST_NAME).exists():
            yield path


def _manifest(path: Path, run: Path | None = None) -> dict[str, Any]:
    file = path / MANIFEST_NAME
    try:
        if file.stat().st_size > MAX_MANIFEST:
            raise CheckpointError(f"{file}: {file.stat().st_size:,} bytes are too many for a manifest")
        manifest = unseal(read_file(file, run or path))
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror}); is {path} a checkpoint?") from error
    except ValueError as error:
        raise CheckpointError(f"{file}: {error}") from error
    fits = manifest.keys() == {"step", "score", "files"} and isinstance(manifest["files"], dict)
    if not fits or not isinstance(manifest["step"], int) or not isinstance(manifest["score"], int | float | None):
        raise CheckpointError(f"{file}: not a manifest of acvp")
    return manifest


def _checked(folder: Path, name: str, entry: Any, run: Path | None) -> bytes:
    file = folder / name
    if Path(name).name != name or not isinstance(entry, dict):
        raise CheckpointError(f"{file}: the manifest does not name a plain file")
    try:
        size = file.stat().st_size
        if size != entry.get("size"):
            raise CheckpointError(f"{file}: {size:,} bytes, the manifest says {entry.get('size')}")
        data = read_file(file, run or folder)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be read ({error.strerror})") from error
    if _hash(data) != entry.get("sha256"):
        raise CheckpointError(f"{file}: its checksum is not the manifest's: the file is damaged")
    return data


def _score(path: Path) -> float:
    with contextlib.suppress(CheckpointError):
        score = _manifest(path)["score"]
        return inf if score is None else float(score)
    return inf


def _uncount(path: Path) -> None:
    """Remove the manifest, so that a folder no longer counts."""
    (path / MANIFEST_NAME).unlink(missing_ok=True)
    sync_folder(path)


def _remove(path: Path) -> None:
    _uncount(path)
    for file in path.iterdir():
        file.unlink()
    path.rmdir()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
