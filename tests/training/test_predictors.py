"""acvp.load and the files of a predictor; promises 8 and 9: no file runs code, damage gives one clear error."""

from __future__ import annotations

import copy
import json
import pickle
import resource
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import acvp
from acvp.artifacts import ArtifactError
from acvp.checkpoint import newest_good
from acvp.data.store import EpisodeStore
from acvp.durable import seal
from acvp.errors import UserError
from acvp.models import FeedforwardPredictor, Predictor, RecurrentPredictor
from acvp.runs import peak_memory_bytes
from acvp.training.state import from_checkpoint
from tests.faults import Trials, counted
from tests.training.small import SMALL_TOY, in_a_child, run, small_config

MEMORY = 2 * 2**30
"""Bytes that loading a damaged file may take beyond what the process has."""
SECONDS = 20


@pytest.fixture(scope="module")
def finished(store: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(store, small_config(), folder)
    return folder


def newest(folder: Path) -> Path:
    found = newest_good(folder / "checkpoints", pytest.fail)
    assert found is not None
    return found.path


def test_three_lines_predict(finished: Path, store: EpisodeStore) -> None:
    episode_frames = store[0].frames(0, 10)

    predictor = acvp.load(finished)
    frames, actions = episode_frames[-predictor.context :], np.array([0, 1, 1])
    future = acvp.rollout(predictor, frames, actions)

    assert future.shape == (3, 16, 16, 3)
    assert future.dtype == np.uint8
    assert not predictor.training


def test_runs_checkpoints_and_predictor_folders_load(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(newest(finished), tmp_path / "checkpoint")
    places = [finished, finished / "predictor", tmp_path / "checkpoint"]
    loaded = [acvp.load(place) for place in places]
    loaded.append(acvp.load(str(finished)))
    for predictor in loaded[1:]:
        for a, b in zip(loaded[0].state_dict().values(), predictor.state_dict().values(), strict=True):
            assert torch.equal(a, b)


def test_an_unfinished_run_gives_its_newest_checkpoint(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "predictor")
    assert isinstance(acvp.load(tmp_path / "run"), FeedforwardPredictor)


def test_a_predictor_knows_what_it_is_of(finished: Path) -> None:
    about = acvp.load(finished).about
    assert about is not None
    assert (about.env_id, about.view) == (SMALL_TOY, "rgb")
    assert about.action_meanings == ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")
    card = (finished / "predictor" / "README.md").read_text()
    for words in ("**Data**", "frames of acvp-tests", "**Compute**", "9 updates in", "**Error**", "**License**: MIT"):
        assert words in card


def test_save_pretrained_and_back(finished: Path, tmp_path: Path) -> None:
    predictor = acvp.load(finished)
    predictor.save_pretrained(tmp_path / "shared")
    assert {path.name for path in (tmp_path / "shared").iterdir()} == {"config.json", "model.safetensors", "README.md"}
    for kind in (Predictor, FeedforwardPredictor):
        again = kind.from_pretrained(tmp_path / "shared")
        assert again.about == predictor.about
        assert torch.equal(next(again.parameters()), next(predictor.parameters()))
    with pytest.raises(ArtifactError, match="holds a FeedforwardPredictor, not a RecurrentPredictor"):
        RecurrentPredictor.from_pretrained(tmp_path / "shared")
    with pytest.raises(ArtifactError, match="cannot be read"):
        Predictor.from_pretrained(tmp_path)
    assert isinstance(acvp.load(tmp_path / "shared"), FeedforwardPredictor)


def test_from_pretrained_follows_no_link_out_of_a_folder(finished: Path, tmp_path: Path) -> None:
    shared, blobs = tmp_path / "models--a--b" / "snapshots" / "1", tmp_path / "models--a--b" / "blobs"
    acvp.load(finished).save_pretrained(shared)
    blobs.mkdir()
    (shared / "model.safetensors").rename(blobs / "weights")
    (shared / "model.safetensors").symlink_to(blobs / "weights")
    with pytest.raises(ArtifactError, match=r"model\.safetensors: cannot be read .*lies outside"):
        Predictor.from_pretrained(shared)
    with pytest.MonkeyPatch.context() as patch:  # but a snapshot of the hub is made of links into its repository
        patch.setattr("acvp.models.artifact.snapshot_download", lambda name, **options: str(shared))
        assert isinstance(Predictor.from_pretrained("a/b"), FeedforwardPredictor)


def test_places_without_a_predictor(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        acvp.load(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"config\.json: cannot be read"):
        acvp.load(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="no checkpoint yet"):
        acvp.load(tmp_path)


def refuses(load: Callable[[], object]) -> bool:
    """Whether loading raises our own error, within limits of memory and time, in a process of its own."""

    def work() -> None:
        used = peak_memory_bytes() or 0
        size = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
        resource.setrlimit(resource.RLIMIT_AS, (max(used, size) + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS,) * 2)
        try:
            load()
        except UserError:
            return
        raise SystemExit("loaded")

    return in_a_child(work) == 0


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Bytes with a bit flipped, a part cut out, doubled, or random."""
    at, length = int(rng.integers(len(data))), int(rng.integers(1, 64))
    flipped = bytes([data[at] ^ (1 << int(rng.integers(8)))])
    return [
        data[:at] + flipped + data[at + 1 :],
        data[:at],
        data[:at] + data[at + length :],
        data[:at] + data[at : at + length] + data[at:],
        data[:at] + rng.bytes(length) + data[at + length :],
    ][int(rng.integers(5))]


@counted("9 mutated checkpoints give one clear error", quick=10, full=500)
def test_mutated_checkpoints(trials: Trials, finished: Path, tmp_path: Path) -> None:
    whole = newest(finished)
    names = sorted(path.name for path in whole.iterdir())

    def mutate(i: int, rng: np.random.Generator) -> None:
        folder = tmp_path / str(i) / "checkpoints" / whole.name
        shutil.copytree(whole, folder)
        file = folder / names[i % len(names)]
        data = file.read_bytes()
        while (changed := mutated(data, rng)) == data:
            pass
        file.write_bytes(changed)

        def load() -> None:
            found = newest_good(folder.parent, lambda text: None)
            assert found is not None
            from_checkpoint(found)

        assert refuses(load), file
        shutil.rmtree(tmp_path / str(i))

    trials.run(mutate)


def strange(config: dict[str, Any], i: int, rng: np.random.Generator) -> dict[str, Any]:
    """A configuration with one value that no predictor has, under a right checksum."""
    config = copy.deepcopy(config)
    del config["sha256"]
    network = config["predictor"]
    wrong = [None, -1, 0, 10**9, 10**30, 1e308, "x", [], [1] * 1000, {"a": 1}, True, [[10**9, 1]], [10**9] * 4]
    names = [name for name in sorted(network) if name != "pixel_scale"]
    name = names[i % len(names)]
    values = [value for value in wrong if not (value is True and type(network[name]) is bool)]
    network[name] = values[int(rng.integers(len(values)))]
    return config


@counted("9 mutated configs give one clear error", quick=12, full=200)
def test_mutated_configs(trials: Trials, finished: Path, tmp_path: Path) -> None:
    text = (finished / "predictor" / "config.json").read_bytes()

    def mutate(i: int, rng: np.random.Generator) -> None:
        folder = tmp_path / str(i)
        shutil.copytree(finished / "predictor", folder)
        data = mutated(text, rng) if i % 2 else seal(strange(json.loads(text), i // 2, rng))
        (folder / "config.json").write_bytes(data)
        assert data == text or refuses(lambda: acvp.load(folder)), data[:500]
        shutil.rmtree(folder)

    trials.run(mutate)


class Canary:
    """Makes a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path(self.path),)


@counted("8 malicious files run no code", quick=6, full=30)
def test_malicious_files(trials: Trials, finished: Path, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    evil = pickle.dumps(Canary(str(canary)))
    header = json.dumps(
        {"__metadata__": {"x": "y" * 100}, "w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 4]}}
    )
    huge = len(header).to_bytes(8, "little") + header.encode() + b"\0" * 4
    payloads = [evil, b"PK\x03\x04" + evil, len(evil).to_bytes(8, "little") + evil, huge, b"\xff" * 64]
    whole = newest(finished)
    names = ["model.safetensors", "optimizer.safetensors", "config.json", "state.json", "manifest.json", "extra.pkl"]

    def attack(i: int, rng: np.random.Generator) -> None:
        folder = tmp_path / str(i) / "checkpoints" / whole.name
        shutil.copytree(whole, folder)
        name = names[i % len(names)]
        (folder / name).write_bytes(payloads[i // len(names) % len(payloads)])
        harmless = name == "extra.pkl"  # no one opens it
        assert refuses(lambda: acvp.load(folder.parent.parent)) != harmless
        assert not canary.exists()
        shutil.rmtree(tmp_path / str(i))

    trials.run(attack)
