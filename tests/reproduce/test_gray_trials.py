"""Trials of training configs: what each changes, and that all get the same core-seconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor

import acvp
from acvp.models import FeedforwardConfig, find_class
from acvp.models.predictor import Predictions, TrainingBatch
from acvp.training.config import OptimizerConfig, TrainingConfig
from acvp.training.presets import PRESETS
from benchmarks import gray_trials
from benchmarks.gray_trials import TRIALS, AveragingTrainer, TrialsConfig, budgeted, shared_action_only, weighted_loss
from tests.networks import network
from tests.training.small import FRAME, run, sizes, small_config, toy_store

GRAY = (84, 84, 1)


def changed(name: str) -> TrainingConfig:
    """Return the config of a trial, without a dataset."""
    fields = find_class("feedforward").sizes(TRIALS[name].preset, GRAY) | {"actions": 3}
    return TRIALS[name].change(PRESETS[TRIALS[name].preset](FeedforwardConfig(**fields)))


def cost(config: TrialsConfig, training: TrainingConfig, batch: int, predict: int) -> float:
    """Return a cost of an update by which small batches are dear."""
    return 0.1 + batch * predict / 32


@pytest.mark.parametrize("name", TRIALS)
def test_every_trial_gets_the_same_core_seconds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gray_trials, "relative_cost", cost)
    config = TrialsConfig(names=(name,), updates=10_000)
    training = budgeted(changed(name), TRIALS[name], config)
    spent = [cost(config, training, p.batch_size, p.predict) * (p.steps or 0) for p in training.phases]
    assert sum(spent) == pytest.approx(10_000, rel=1e-3)
    assert all(phase.minutes is None for phase in training.phases)
    if len(spent) > 1:
        assert spent[0] == pytest.approx(10_000 * TRIALS[name].first_share, rel=1e-3)


def test_optimizers_and_starts_are_those_of_their_presets() -> None:
    starts = {name: (changed(name).optimizer, changed(name).phases[0].lr) for name in TRIALS}
    assert starts["Graves RMSProp (paper)"] == (OptimizerConfig(name="graves-rmsprop"), 1e-4)
    assert starts["Adam 1e-4 (authors)"] == (OptimizerConfig(name="adam", bias_rate=2.0), 1e-4)
    assert starts["cpu"] == (OptimizerConfig(name="adam"), 1e-3)
    begins = {name: changed(name).predictor for name in ("cpu", "start paper", "Adam 1e-4 (authors)")}
    assert [predictor.start for predictor in begins.values() if isinstance(predictor, FeedforwardConfig)] == [
        "shared", "paper", "paper"
    ]  # fmt: skip
    assert [phase.predict for phase in changed("direct 3 steps").phases] == [3, 3]
    assert [phase.predict for phase in changed("direct 5 steps").phases] == [5, 5]


def test_only_the_action_starts_shared() -> None:
    small = network("feedforward", FRAME, actions=5, **sizes("feedforward", hidden=64), start="shared")
    assert isinstance(small, FeedforwardConfig)
    predictor = shared_action_only(small, torch.Generator().manual_seed(1))
    encoded = predictor.get_parameter("transform.encoded.weight").detach()
    assert float(encoded.abs().max()) <= 1
    assert float(encoded.std()) == pytest.approx(3**-0.5, abs=0.02)  # of U(−1, 1)
    assert (predictor.get_parameter("transform.action.bias") == 1).all()


def test_changed_pixels_weigh_ten_times() -> None:
    def black(frames: Tensor, actions: Tensor, **options: Any) -> Predictions:
        return Predictions(torch.zeros(1, 1, 1, 1, 3))

    frames = torch.tensor([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0]]).view(1, 2, 1, 1, 3)  # the first pixel changes
    nothing = torch.zeros(1, 1)
    loss, _ = weighted_loss(cast(Any, black), TrainingBatch(frames, nothing.long(), nothing, nothing))
    assert float(loss) == (10 * 25 + 1 + 4) / 2


def test_the_finished_predictor_has_averaged_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Tensor]] = []

    class Watched(AveragingTrainer):
        def keep(self) -> None:
            seen.append([weight.detach().clone() for weight in self.predictor.parameters()])

        def fit(self) -> None:
            self.keep()
            super().fit()

        def update(self, *arguments: Any) -> Any:
            report = super().update(*arguments)
            self.keep()
            return report

    monkeypatch.setattr("acvp.training.run.Trainer", Watched)
    assert run(toy_store(tmp_path / "store"), small_config(), tmp_path / "run").exit_code == 0
    average = seen[0]
    for step, weights in enumerate(seen[1:], 1):
        kept = (1 + step) / (10 + step)  # smaller than AVERAGED in so few updates
        average = [kept * mean + (1 - kept) * weight for mean, weight in zip(average, weights, strict=True)]
    predictor = acvp.load(tmp_path / "run")
    for written, mean in zip(predictor.parameters(), average, strict=True):
        torch.testing.assert_close(written.detach(), mean)
