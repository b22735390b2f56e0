"""The trainer: what it learns, what it writes, and that sharing the work changes nothing."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from itertools import count
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest
import safetensors.torch
import torch
from torch import Tensor

from acvp.checkpoint import newest_good
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.models import FeedforwardConfig, MeanFrame, MeanFrameConfig
from acvp.models.pixels import squared_error_loss
from acvp.models.predictor import TrainingBatch, joint_loss
from acvp.runs import RunFolder, differences
from acvp.training.config import OptimizerConfig, Phase, TrainingConfig
from acvp.training.data import TrainingData
from acvp.training.presets import config_from_dict
from acvp.training.state import TrainerState
from acvp.training.validation import HeldOut
from tests.faults import PATIENCE, ROOT
from tests.networks import network
from tests.training.small import FRAME, Trace, run, sizes, small_config, toy_store


def weights(folder: Path) -> dict[str, Tensor]:
    loaded: dict[str, Tensor] = safetensors.torch.load_file(folder / "predictor" / "model.safetensors")
    return loaded


def metrics(folder: Path, kind: str) -> list[dict[str, object]]:
    return [line for line in RunFolder(folder).metrics() if line["kind"] == kind]


@pytest.mark.parametrize(
    ("clock", "took"), [("core", "5 updates in 0:00:05 of core time on "), ("wall", "2 updates in ")]
)
def test_minutes_count_processor_time_by_the_core_clock(
    clock: Literal["wall", "core"], took: str, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks = {"process_time": count().__next__, "monotonic": count(step=3).__next__}  # an update takes 1 s and 3 s
    monkeypatch.setattr("acvp.training.trainer.time", SimpleNamespace(**clocks))
    phase = replace(small_config().phases[0], steps=None, minutes=5 / 60)
    assert run(store, small_config(phases=(phase,), clock=clock), tmp_path, save_minutes=99).exit_code == 0
    assert json.loads((tmp_path / "predictor" / "config.json").read_text())["about"]["compute"].startswith(took)


LEARN = {"feedforward": (500, 32, 1), "recurrent": (420, 8, 10), "no-action": (350, 32, 1), "mlp": (800, 32, 1)}
"""Updates, windows in a batch, predictions in a window."""


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    """The 1-step errors of every learned predictor after seconds of training."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("learn")
    store = toy_store(folder / "store", frames=12_000)
    return {model: learn(store, model, folder / model) for model in LEARN}


def learn(store: EpisodeStore, model: str, folder: Path) -> dict[str, float]:
    steps, batch, predict = LEARN[model]
    predictor = network(model, FRAME, actions=5, **sizes(model, width=16, hidden=256 if model == "mlp" else 128))
    phase = Phase(
        predict=predict, context=predictor.context, batch_size=batch, teacher_forcing=predict != 1,
        lr=1e-3 if model == "mlp" else 2e-3, steps=steps, warmup=20, anneal=True,
    )  # fmt: skip
    training = replace(
        small_config(), predictor=predictor, optimizer=OptimizerConfig(name="adam"), phases=(phase,),
        evaluate_every=steps, windows=64, horizons=(1,),
    )  # fmt: skip
    assert run(store, training, folder, save_minutes=99).exit_code == 0
    last = RunFolder(folder).metrics()[-1]
    return {"error": last["error"]["1"], "copy-last-frame": last["copy_last"]["1"]}


@pytest.mark.slow
@pytest.mark.parametrize("model", LEARN)
def test_learned_predictors_beat_copying(learned: dict[str, dict[str, float]], model: str) -> None:
    bound = 0.8 if model == "no-action" else 0.55  # it cannot know where the controlled object goes
    assert learned[model]["error"] < bound * learned[model]["copy-last-frame"]


@pytest.mark.slow
@pytest.mark.parametrize("model", ["feedforward", "recurrent", "mlp"])
def test_actions_matter(learned: dict[str, dict[str, float]], model: str) -> None:
    assert learned[model]["error"] < 0.75 * learned["no-action"]["error"]


def test_a_run_folder_is_complete(store: EpisodeStore, tmp_path: Path) -> None:
    text = io.StringIO()
    folder = tmp_path / "run"
    assert run(store, small_config(), folder, text).exit_code == 0
    names = {path.name for path in folder.iterdir()}
    wanted = {
        "config.json",
        "checkpoints",
        "metrics.jsonl",
        "starts.jsonl",
        "tensorboard",
        "plots",
        "videos",
        "predictor",
    }
    assert names - {".lock"} == wanted
    held = metrics(folder, "held-out")
    assert [line["step"] for line in held] == [3, 5, 8, 9]
    assert held[0].keys() == {"kind", "step", "phase", "seconds", "error", "copy_last", "mean_frame", "mse", "score"}
    assert [line["step"] for line in metrics(folder, "train")] == [3, 5, 8, 9]
    start = json.loads((folder / "starts.jsonl").read_text())
    assert {"time", "command", "commit", "versions", "machine"} <= start.keys()
    assert list((folder / "tensorboard").iterdir())
    for words in ("s a step", "memory: about", "disk: ", "time: about", "held-out error", "copy-last"):
        assert words in text.getvalue()


def test_checkpoints_kept_are_the_newest_and_the_best(store: EpisodeStore, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run(store, small_config(), folder, keep=2)
    lines = metrics(folder, "held-out")
    best = min(lines, key=lambda line: line["score"])["step"]  # type: ignore[arg-type, return-value]
    steps = {int(path.name.removeprefix("step-")) for path in (folder / "checkpoints").iterdir()}
    assert steps == {8, 9, best}


def test_errors_are_what_they_say(store: EpisodeStore, tmp_path: Path) -> None:
    """The mean frame's prediction by hand: both units, and copy-last-frame on the same windows."""
    training = small_config()
    data = TrainingData(store, training)
    mean = MeanFrame(MeanFrameConfig(actions=5, frame=FRAME))
    mean.normalizer.set_mean(data.mean())
    batch, horizons = data.held_out()
    assert batch.frames.shape[:2] == (4, 11 + max(horizons))
    report = HeldOut(batch, horizons).measure(mean)
    assert batch.palette is not None
    pixels = torch.from_numpy(batch.palette[batch.frames]).float()
    truth = (pixels - data.mean()) / mean.config.pixel_scale
    for horizon in horizons:
        frame = truth[:, 10 + horizon]
        assert report.error[horizon] == pytest.approx(float(frame.square().sum() / 4), rel=1e-5)
        copied = (truth[:, 10] - frame).square().sum() / 4
        assert report.copy_last[horizon] == pytest.approx(float(copied), rel=1e-5)
        assert report.mean_frame[horizon] == pytest.approx(report.error[horizon], rel=1e-6), "it is this predictor's"
        mse = (pixels[:, 10 + horizon] - data.mean()).square().mean()
        assert report.mse[horizon] == pytest.approx(float(mse), rel=1e-5)
    by_step = truth[:, 11 : 11 + max(horizons)].square().sum((0, 2, 3, 4)) / 4
    assert report.score == pytest.approx(float(by_step.mean()), rel=1e-5)
    assert report.score != pytest.approx(report.error[max(horizons)], rel=1e-5)
    assert report.strip.shape == (2 * 16, 5 * 16, 3)


def test_patience_counts_evaluations_since_the_best_of_the_phase() -> None:
    state = TrainerState()
    assert [(state.add_score(score), state.stale) for score in (3.0, 5.0, 4.0, 3.0, 2.0)] == [
        (True, 0), (False, 1), (False, 2), (False, 3), (True, 0),
    ]  # fmt: skip
    state.next_phase()
    assert [(state.add_score(score), state.stale) for score in (9.0, 8.0, 8.5)] == [
        (False, 0), (False, 0), (False, 1),
    ]  # fmt: skip


def test_reward_and_termination_heads_are_learned(store: EpisodeStore, tmp_path: Path) -> None:
    plain = small_config().predictor
    assert isinstance(plain, FeedforwardConfig)
    predictor = replace(plain, predict_rewards=True)
    assert run(store, small_config(predictor=predictor), tmp_path / "run").exit_code == 0
    changed = weights(tmp_path / "run")
    assert float(changed["heads.reward.bias"].abs().max()) > 0
    assert float(changed["heads.termination.bias"].abs().max()) > 0


def test_the_weight_of_the_outcome_reaches_the_heads(store: EpisodeStore, tmp_path: Path, trace: Trace) -> None:
    plain = small_config().predictor
    assert isinstance(plain, FeedforwardConfig)
    training = small_config(predictor=replace(plain, predict_rewards=True))
    heavy = replace(training, phases=tuple(replace(phase, reward_weight=50.0) for phase in training.phases))
    losses = []
    for name, each in (("plain", training), ("heavy", heavy)):
        trace.updates.clear()
        assert run(store, each, tmp_path / name).exit_code == 0
        losses.append(trace.updates[0][1])
    assert losses[1] > losses[0] + 40 * log(2)


def test_the_objective_with_heads_by_hand() -> None:
    frames = torch.zeros(1, 3, 1, 2, 2)
    heads = torch.zeros(1, 1, 3), torch.zeros(1, 1)
    frame_loss = squared_error_loss(torch.ones(1, 1, 1, 2, 2), frames[:, -1:])
    batch = TrainingBatch(frames, torch.zeros(1, 2), torch.tensor([[0.0, -5.0]]), torch.tensor([[False, True]]))
    outcome = log(3.0) + log(2.0)
    assert float(joint_loss(frame_loss, *heads, batch)[0]) == pytest.approx(0.5 * 4 + outcome)
    assert float(joint_loss(frame_loss, *heads, batch._replace(reward_weight=10.0))[0]) == pytest.approx(
        0.5 * 4 + 10 * outcome
    )


@pytest.mark.parametrize("model", ["feedforward", "recurrent"])
def test_accumulation_gives_the_same_update(store: EpisodeStore, tmp_path: Path, model: str) -> None:
    training = sharing_config(model)
    run(store, training, tmp_path / "one")
    run(store, training, tmp_path / "parts", accumulate=4)
    assert_close(tmp_path / "one", tmp_path / "parts")


def sharing_config(model: str) -> TrainingConfig:
    """Three updates of four windows, with an optimizer that does not blow up rounding."""
    training = small_config(model, optimizer=OptimizerConfig(name="graves-rmsprop"))
    phase = Phase(predict=2, context=training.predictor.context, batch_size=4, lr=1e-2, steps=3)
    return replace(training, phases=(phase,))


def assert_close(one: Path, other: Path) -> None:
    first, second = weights(one), weights(other)
    for name in first:
        torch.testing.assert_close(first[name], second[name], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["feedforward", "recurrent"])
def test_two_processes_give_the_same_update(store: EpisodeStore, tmp_path: Path, model: str) -> None:
    """The recurrent network too: its gate clip must see the joined batch's scale in every process."""
    training = sharing_config(model)
    run(store, training, tmp_path / "one")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if model == "recurrent" else []
    devices = "1" if torchrun else "2"
    program = ["-m", "tests.training.sharing", model, str(store.path), str(tmp_path / "two"), devices]
    command = [sys.executable, *torchrun, *program]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert "two processes" in done.stdout
    assert_close(tmp_path / "one", tmp_path / "two")


@pytest.mark.slow
@pytest.mark.load
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_saves_and_ends(store: EpisodeStore, tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "run"
    options = ["--preset", "smoke", "--minutes", "60", "--device", "cpu", "--save-minutes", "60"]
    command = [sys.executable, "-m", "acvp", "train", "--data", str(store.path), "--run", str(folder), *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not metrics(folder, "train"):
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert f"stopped by {number.name} at step " in errors
    assert "Traceback" not in errors
    found = newest_good(folder / "checkpoints", pytest.fail)
    assert found is not None
    assert f"at step {found.step:,} and saved" in errors


def test_a_damaged_newest_checkpoint_is_passed_over(store: EpisodeStore, tmp_path: Path, trace: Trace) -> None:
    folder, text = tmp_path / "run", io.StringIO()
    run(store, small_config(), tmp_path / "whole")
    whole, trace.updates = trace.updates, []
    trace.stop_after = 6
    run(store, small_config(), folder)
    damaged = folder / "checkpoints" / "step-000000006" / "optimizer.safetensors"
    data = damaged.read_bytes()
    damaged.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    trace.stop_after = 0
    assert run(store, small_config(), folder, text).exit_code == 0
    assert "its checksum is not the manifest's" in text.getvalue()
    assert "resuming from step 5" in text.getvalue()
    assert trace.updates[6:] == whole[5:]


def test_a_finished_run_is_left_alone(store: EpisodeStore, tmp_path: Path, trace: Trace) -> None:
    run(store, small_config(), tmp_path / "run")
    before = len(trace.updates)
    assert run(store, small_config(), tmp_path / "run").exit_code == 0
    assert len(trace.updates) == before


def test_a_run_of_an_earlier_version_resumes_if_new_fields_have_their_defaults() -> None:
    now = small_config().to_dict()
    earlier: dict[str, Any] = json.loads(json.dumps(now))
    del earlier["windows"], earlier["predictor"]["pixel_scale"], earlier["optimizer"]["weight_decay"]
    del earlier["phases"][0]["priority_share"]
    assert differences(config_from_dict(earlier).to_dict(), now | {"windows": 32}) == []
    assert differences(config_from_dict(earlier).to_dict(), now | {"windows": 33}) == ["windows: 32 → 33"]


def test_a_run_that_is_not_a_predictors_is_refused(store: EpisodeStore, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunFolder(tmp_path / "run").write_config({"dqn": {}, "store": "none"})
    with pytest.raises(UserError, match="choose another"):
        run(store, small_config(), tmp_path / "run")


def test_differences_are_named() -> None:
    before = small_config().to_dict()
    now = small_config(seed=3, evaluate_every=4).to_dict()
    now["phases"][1]["lr"] = 0.5
    assert differences(before, now) == ["phases.1.lr: 0.001 → 0.5", "seed: 1 → 3", "evaluate_every: 3 → 4"]
    assert differences(json.loads(json.dumps(before)), small_config().to_dict()) == []
