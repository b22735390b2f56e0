"""Stores and runs of version 0.1.0 still load, and its stopped run continues to the end it would have had.

The files were made by 0.1.0 (commit b68685d) with the games and configs of tests/training/small.py.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import safetensors.numpy

import acvp
from acvp.cli.main import main
from acvp.compat import current_tensors
from tests.golden import alike, digest, machine, pack
from tests.networks import network
from tests.training.small import FRAME, run, sizes, small_config

FILES = Path(__file__).parents[1] / "fixtures" / "v010"
EXPECTED = json.loads((FILES / "expected.json").read_text())


def test_a_store_of_0_1_0_opens_and_replays() -> None:
    store = acvp.EpisodeStore(FILES / "store")
    assert [len(episode) for episode in store] == EXPECTED["episodes"]
    assert digest(*(episode.frames() for episode in store)) == EXPECTED["pixels"]
    assert digest(*(episode.actions for episode in store)) == EXPECTED["actions"]
    assert main(["data", "verify", str(FILES / "store"), "--replay"]) == 0


def test_a_finished_run_of_0_1_0_predicts_the_same_frames() -> None:
    predictor, episode = acvp.load(FILES / "run"), acvp.EpisodeStore(FILES / "store")[0]
    future = acvp.rollout(predictor, episode.frames(0, 20), episode.actions[19:24])
    assert all(map(alike, EXPECTED["future"], map(pack, future)))
    assert not alike(EXPECTED["future"][0], EXPECTED["future"][-1])


def test_a_stopped_run_of_0_1_0_continues_to_its_end(tmp_path: Path) -> None:
    shutil.copytree(FILES / "stopped-run", tmp_path / "run")
    predictor = network("feedforward", FRAME, actions=5, **sizes("feedforward", width=2, hidden=4))
    store = acvp.EpisodeStore(FILES / "store")
    assert run(store, small_config(predictor=predictor), tmp_path / "run").exit_code == 0

    before = (FILES / "stopped-run" / "metrics.jsonl").read_text()
    after = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert after.startswith(before), "it began again"
    assert json.loads(after.splitlines()[-1])["step"] == 9

    weights = safetensors.numpy.load_file(tmp_path / "run" / "predictor" / "model.safetensors")
    whole = current_tensors(safetensors.numpy.load_file(FILES / "whole-run.safetensors"))
    assert weights.keys() == whole.keys()
    off = max(float(np.abs(weights[name] - whole[name]).max(initial=0)) for name in whole)
    assert off == 0 if machine() == EXPECTED["machine"] else off < 1e-3
