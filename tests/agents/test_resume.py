"""Stopped runs of `acvp agent train` resume as if they had never stopped."""

from __future__ import annotations

import io
import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acvp.agents import run as session
from acvp.agents.dqn import AcvpDqn
from acvp.agents.play import PlayedEpisode, Scores
from acvp.agents.trainer import REPLAY_NAME, STATE_NAME, TENSORS_NAME
from acvp.checkpoint import Checkpoint, newest_good, to_bytes, to_tensors
from tests.agents.short_runs import SHORT, outcome, run, stop_at


@pytest.mark.slow
@pytest.mark.parametrize("stops", [[2], [150], [40, 42, 120]], ids=str)
def test_a_resumed_run_is_the_run_that_never_stopped(
    tmp_path: Path,
    done: tuple[Path, Path],
    short: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    stops: list[int],
) -> None:
    text = io.StringIO()
    for stop in stops:
        with monkeypatch.context() as patch:
            stop_at(stop, patch)
            assert run(tmp_path, text).exit_code == 128 + signal.SIGTERM
        assert f"stopped by SIGTERM at agent step {stop} and saved; run the same command again" in text.getvalue()
    assert run(tmp_path, text).exit_code == 0
    assert f"resuming from agent step {stops[-1]}" in text.getvalue()
    assert outcome(tmp_path) == outcome(done[0])


@pytest.mark.slow
def test_a_stop_when_all_is_done_but_the_last_point_changes_nothing(
    tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last point is made; the references are left to the same command, which learns nothing more."""
    with monkeypatch.context() as patch:
        stop_at(160, patch)
        assert run(tmp_path).exit_code == 128 + signal.SIGTERM
    monkeypatch.setattr("acvp.agents.trainer.play_episodes", None)
    assert run(tmp_path).exit_code == 0
    assert outcome(tmp_path) == outcome(done[0])


def zero(data: bytes, part: str, first: int = 0) -> bytes:
    """Tensors with one part of them, from its `first` number on, as at the start."""
    tensors = to_tensors(data, "tensors")
    for name, each in tensors.items():
        if name.startswith(part):
            each.view(-1)[first:] = 0
    return to_bytes(tensors)


CORRUPTED: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "target network": (TENSORS_NAME, lambda data: zero(data, "policy.q_net_target")),
    "optimizer state": (TENSORS_NAME, lambda data: zero(data, "optimizer")),
    "exploration": (TENSORS_NAME, lambda data: zero(data, "exploration")),
    "stacks": (TENSORS_NAME, lambda data: zero(data, "stacks")),
    "rewards": (REPLAY_NAME, lambda data: zero(data, "rewards")),
    "status": (REPLAY_NAME, lambda data: zero(data, "status")),
    "draws": (REPLAY_NAME, lambda data: zero(data, "counts", 1)),
    "updates": (STATE_NAME, lambda data: data.replace(b'"_n_calls": ', b'"_n_calls": 1')),
    "epsilon": (STATE_NAME, lambda data: data.replace(b'"exploration_rate": 0', b'"exploration_rate": 1')),
    "plays": (STATE_NAME, lambda data: data.replace(b'"number": ', b'"number": 1')),
    "evaluations": (STATE_NAME, lambda data: data.replace(b'"evaluations": 2', b'"evaluations": 1')),
}


@pytest.mark.slow
@pytest.mark.parametrize("item", CORRUPTED)
def test_every_saved_item_matters(
    tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None], monkeypatch: pytest.MonkeyPatch, item: str
) -> None:
    whole, stopped = done
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    name, corrupt = CORRUPTED[item]

    def corrupted(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
        checkpoint = newest_good(folder, warn)
        assert checkpoint is not None
        changed = corrupt(checkpoint.files[name])
        assert changed != checkpoint.files[name]
        checkpoint.files[name] = changed
        return checkpoint

    monkeypatch.setattr(session, "newest_good", corrupted)
    run(tmp_path)
    assert outcome(tmp_path) != outcome(whole)


@pytest.mark.slow
def test_without_its_replay_a_run_fills_it_before_it_learns_on(
    tmp_path: Path, short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        stop_at(60, patch)
        run(tmp_path, save_replay=False)
    checkpoint = newest_good(tmp_path / "checkpoints", print)
    assert checkpoint is not None
    assert REPLAY_NAME not in checkpoint.files
    before = json.loads(checkpoint.files[STATE_NAME])["counters"]["_n_updates"]
    learned: list[int] = []
    monkeypatch.setattr(AcvpDqn, "train", lambda dqn, *args, **options: learned.append(dqn.num_timesteps))
    assert run(tmp_path, save_replay=False).exit_code == 0
    assert before > 0
    assert learned[0] == 60 + SHORT.learning_starts + 2


@pytest.mark.slow
def test_a_run_that_died_before_it_saved_starts_again(
    tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class DeathError(Exception):
        pass

    def die(dqn: AcvpDqn, *args: Any, **options: Any) -> None:
        raise DeathError

    with monkeypatch.context() as patch:
        patch.setattr(AcvpDqn, "train", die)
        with pytest.raises(DeathError):
            run(tmp_path)
    assert (tmp_path / "metrics.jsonl").read_text().count("evaluation") == 1
    assert run(tmp_path).exit_code == 0
    assert outcome(tmp_path) == outcome(done[0])


def test_after_a_kill_the_kept_agent_is_the_one_of_the_checkpoint(
    tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The better agent of a time that is forgotten, its files half written, does not outlive it."""
    _, stopped = done
    shutil.copytree(stopped, tmp_path, dirs_exist_ok=True)
    (tmp_path / "agent" / "model.safetensors").write_bytes(b"half of a lat")
    hopeless = Scores((PlayedEpisode(number=0, seed=0, score=-1e9),))
    monkeypatch.setattr("acvp.agents.trainer.play_episodes", lambda *args, **options: hopeless)
    assert run(tmp_path).exit_code == 0  # no later point is better
    before = newest_good(stopped / "checkpoints", print)
    assert before is not None
    assert (tmp_path / "agent" / "model.safetensors").read_bytes() == before.files["agent-model.safetensors"]


def test_a_finished_run_is_left_alone(tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None]) -> None:
    shutil.copytree(done[0], tmp_path, dirs_exist_ok=True)
    before, text = outcome(tmp_path), io.StringIO()
    assert run(tmp_path, text).exit_code == 0
    assert outcome(tmp_path) == before
    assert "finished at agent step 160" in text.getvalue()
