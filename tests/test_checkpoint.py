"""Checkpoints: what is counted, kept, refused."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path

import pytest
import torch

from acvp.checkpoint import (
    CheckpointError,
    forget_after,
    newest_good,
    prune,
    read_checkpoint,
    save_checkpoint,
    to_bytes,
    to_tensors,
)
from acvp.durable import seal

FILES = {"a.bin": b"hello", "b.json": b"{}"}


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.iterdir())


def test_there_and_back(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 12, FILES, score=0.5)
    assert path.name == "step-000000012"
    found = read_checkpoint(path)
    assert (found.step, found.score, found.files) == (12, 0.5, FILES)


def test_tensors_come_back_bit_for_bit() -> None:
    tensors = {"a": torch.randn(3, 2).T, "b": torch.tensor(7.0), "c": torch.tensor([2**62])}
    back = to_tensors(to_bytes(tensors), "x")
    assert all(torch.equal(back[name], tensors[name]) for name in tensors)


def test_newest_and_best_are_kept(tmp_path: Path) -> None:
    for step, score in ((1, 3.0), (2, 1.0), (3, inf), (4, 2.0), (5, inf)):
        save_checkpoint(tmp_path, step, FILES, score=score)
    prune(tmp_path, keep=2)
    assert steps(tmp_path) == [2, 4, 5]
    prune(tmp_path, keep=1)
    assert steps(tmp_path) == [2, 5]


def test_without_scores_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, FILES)
    prune(tmp_path, keep=1)
    assert steps(tmp_path) == [3]


def test_an_unfinished_checkpoint_does_not_count_and_is_cleared(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, FILES)
    (tmp_path / "step-000000002").mkdir()
    (tmp_path / "step-000000002" / "a.bin").write_bytes(b"hel")
    found = newest_good(tmp_path, pytest.fail)
    assert found is not None
    assert found.step == 1
    prune(tmp_path, keep=1)
    assert steps(tmp_path) == [1]


def test_a_whole_checkpoint_of_the_same_step_stays(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, FILES)
    before = (path / "a.bin").stat().st_ino
    save_checkpoint(tmp_path, 1, {"a.bin": b"other"})
    assert (path / "a.bin").stat().st_ino == before
    (path / "a.bin").write_bytes(b"broken")
    save_checkpoint(tmp_path, 1, FILES)
    assert read_checkpoint(path).files == FILES


def test_damage_falls_back_with_a_warning(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, FILES)
    (tmp_path / "step-000000003" / "a.bin").write_bytes(b"jello")
    (tmp_path / "step-000000002" / "b.json").unlink()
    warnings: list[str] = []
    found = newest_good(tmp_path, warnings.append)
    assert found is not None
    assert found.step == 1
    assert "a.bin: its checksum is not the manifest's" in warnings[0]
    assert "b.json: cannot be read" in warnings[1]
    forget_after(tmp_path, 1)
    assert steps(tmp_path) == [1]


def test_nothing_there_and_nothing_whole(tmp_path: Path) -> None:
    assert newest_good(tmp_path, pytest.fail) is None
    path = save_checkpoint(tmp_path, 1, FILES)
    (path / "a.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="none of 1 checkpoints is whole; start a new run"):
        newest_good(tmp_path, lambda text: None)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (b"{", "not readable as JSON"),
        (b"[" * 100_000, "not readable as JSON"),
        (b" " * (2**20 + 1), "too many for a manifest"),
        (b"{}", "no checksum"),
        (seal({}), "not a manifest"),
        (seal({"step": 1, "score": None, "files": []}), "not a manifest"),
        (seal({"step": "1", "score": None, "files": {}}), "not a manifest"),
        (
            seal({"step": 1, "score": None, "files": {"../../secret": {"size": 1, "sha256": ""}}}),
            "a plain file",
        ),
        (
            seal({"step": 1, "score": None, "files": {"/etc/passwd": {"size": 1, "sha256": ""}}}),
            "a plain file",
        ),
        (seal({"step": 1, "score": None, "files": {"a.bin": 3}}), "a plain file"),
        (json.dumps({"step": 1, "score": None, "files": {}, "sha256": "0"}).encode(), "its checksum"),
    ],
)
def test_wrong_manifests(tmp_path: Path, manifest: bytes, message: str) -> None:
    path = save_checkpoint(tmp_path, 1, FILES)
    (path / "manifest.json").write_bytes(manifest)
    with pytest.raises(CheckpointError, match=message):
        read_checkpoint(path)


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 16, b"\x80\x04cos\nsystem\n(S'true'\ntR."])
def test_what_is_no_safetensors(data: bytes) -> None:
    with pytest.raises(CheckpointError, match="thing: not readable as safetensors"):
        to_tensors(data, "thing")
