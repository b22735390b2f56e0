"""Devices by name, fit, rollouts with rewards, and predictors of the Hugging Face hub without a network."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError

import acvp
from acvp import loaded
from acvp.errors import UserError
from acvp.models import ConfigError, pick_device, rollout, rollout_with_rewards
from tests.models.small_predictors import ACTIONS, FRAME, small_predictor

REVISION = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The local cache of the hub, with one repository as huggingface_hub lays it out; there is no network."""
    home = tmp_path / "hub" / "models--somebody--freeway"
    small_predictor("feedforward").save_pretrained(tmp_path / "predictor")
    for folder in (home / "blobs", home / "refs", home / "snapshots" / REVISION):
        folder.mkdir(parents=True)
    (home / "refs" / "main").write_text(REVISION)
    for file in (tmp_path / "predictor").iterdir():
        shutil.copy(file, home / "blobs" / f"hash-of-{file.name}")
        (home / "snapshots" / REVISION / file.name).symlink_to(Path("../../blobs") / f"hash-of-{file.name}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(
        loaded, "snapshot_download", lambda name, **o: snapshot_download(name, cache_dir=tmp_path / "hub", **o)
    )
    monkeypatch.chdir(tmp_path)
    return home


def test_a_repository_loads_from_its_cache(cached: Path) -> None:
    predictor = acvp.load("somebody/freeway")
    for one, other in zip(predictor.parameters(), small_predictor("feedforward").parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_link_out_of_the_cache_is_refused(cached: Path, tmp_path: Path) -> None:
    file = cached / "snapshots" / REVISION / "model.safetensors"
    file.unlink()
    file.symlink_to(tmp_path / "predictor" / "model.safetensors")
    with pytest.raises(UserError, match="cannot be read"):
        acvp.load("somebody/freeway")


def test_a_repository_that_is_not_there(cached: Path) -> None:
    with pytest.raises(UserError, match=r"somebody/else: no such folder.*owner/name.*cache has no somebody/else"):
        acvp.load("somebody/else")


def test_a_missing_run_is_never_looked_up_in_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(name: str, **options: object) -> str:
        raise LocalEntryNotFoundError(f"asked the hub for {name}")

    monkeypatch.setattr(loaded, "snapshot_download", asked)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        acvp.load("runs/mine")
    assert "hub cannot be reached" not in str(error.value)


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    for name in ("gpu", "cuda:", "cuda:x", "cpu:1", ""):
        with pytest.raises(UserError, match="no device has this name; use auto, cpu"):
            pick_device(name)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match="--device cuda:1: not on this machine, which has cpu"):
        pick_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    assert pick_device("auto") == torch.device("cuda")
    with pytest.raises(UserError, match=r"2 GPU\(s\), cuda:0 to cuda:1"):
        pick_device("cuda:2")


def test_rollouts_with_rewards_and_terminations() -> None:
    predictor = small_predictor("feedforward-heads")
    frames = np.random.default_rng(0).integers(0, 256, (2, predictor.context, *FRAME), dtype=np.uint8)
    actions = np.array([[0, 1, 2], [2, 1, 0]]) % ACTIONS
    both = rollout_with_rewards(predictor, frames, actions)
    assert np.array_equal(both.frames, rollout(predictor, frames, actions))
    state = predictor.observe(predictor.normalizer.to_float(torch.from_numpy(frames)))
    for step in range(3):
        _, state = predictor.predict(state, torch.from_numpy(actions[:, step]))
        assert state.outcome is not None
        assert both.rewards[:, step].tolist() == (state.outcome.reward.argmax(1) - 1).tolist()
        expected = state.outcome.termination.sigmoid().detach().numpy()
        np.testing.assert_allclose(both.terminations[:, step], expected, rtol=1e-5)
    alone = rollout_with_rewards(predictor, frames[0], actions[0])
    assert alone.rewards.tolist() == both.rewards[0].tolist()
    with pytest.raises(ConfigError, match="predicts frames only"):
        rollout_with_rewards(small_predictor("feedforward"), frames, actions)
