"""The preset gpu: what it turns on and where, and that its training runs; on a CPU, for the tests have no GPU."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from acvp.data.store import EpisodeStore
from acvp.models import Predictor, compile_networks, kind_of
from acvp.models.devices import cpu_has_bfloat16
from acvp.runs import RunFolder
from acvp.training.config import TrainConfig, TrainingConfig
from acvp.training.presets import make_config
from acvp.training.trainer import in_bfloat16, to_compile
from tests.training.small import run

AUTO: dict[str, Any] = {}
FORCED, PLAIN = {"precision": "bf16", "compile": "on"}, {"precision": "32", "compile": "off"}


@pytest.mark.parametrize(
    ("options", "device", "supported", "expected"),
    [
        ({"preset": "gpu", **AUTO}, "cuda", True, (True, True)),
        ({"preset": "gpu", **AUTO}, "cuda", False, (False, True)),
        ({"preset": "gpu", **AUTO}, "cpu", True, (False, False)),
        ({"preset": "gpu", **PLAIN}, "cuda", True, (False, False)),
        ({"preset": "paper", **AUTO}, "cuda", True, (False, False)),
        ({"preset": "paper", **FORCED}, "cuda", True, (True, True)),
    ],
)
def test_precision_and_compilation_follow_from_preset_device_and_options(
    options: dict[str, Any],
    device: str,
    supported: bool,
    expected: tuple[bool, bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    config = TrainConfig(data=(Path("x"),), **options)
    assert (in_bfloat16(config, torch.device(device)), to_compile(config, torch.device(device))) == expected


def gpu_config(store: EpisodeStore, model: str) -> TrainingConfig:
    """The preset gpu with the network of the preset smoke, its first phase two updates of a few windows long."""
    options = {"data": (store.path,), "model": model, "predict_rewards": True}
    training, small = (make_config(TrainConfig(preset=preset, **options), store) for preset in ("gpu", "smoke"))  # type: ignore[arg-type]
    first = replace(training.phases[0], batch_size=4, steps=2, minutes=None)
    return replace(training, predictor=small.predictor, phases=(first,), windows=2, horizons=(1,))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of torch itself
@pytest.mark.parametrize("model", ["feedforward", "recurrent", "no-action", "mlp", "pixel", "objects"])
def test_every_network_trains_compiled_in_bfloat16(
    model: str, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not cpu_has_bfloat16():
        pytest.skip("bfloat16 does not run on this CPU")
    compiled: list[str] = []

    def compile_quickly(predictor: Predictor) -> None:
        compiled.append(kind_of(predictor.config))
        compile_networks(predictor, backend="aot_eager")

    monkeypatch.setattr("acvp.training.run.compile_networks", compile_quickly)
    training, text = gpu_config(store, model), io.StringIO()
    losses = {}
    for name, options in (("plain", PLAIN), ("fast", FORCED)):
        assert run(store, training, tmp_path / name, text, preset="gpu", save_minutes=99, **options).exit_code == 0
        (line,) = [line for line in RunFolder(tmp_path / name).metrics() if line["kind"] == "train"]
        losses[name] = line["loss"]
    assert compiled == [model]
    assert "on cpu, in bfloat16, compiled" in text.getvalue()
    assert losses["fast"] == pytest.approx(losses["plain"], rel=0.05)
    assert losses["fast"] != losses["plain"], "it is not in bfloat16"
    weights = load_file(tmp_path / "fast" / "predictor" / "model.safetensors")
    assert torch.bfloat16 not in {weight.dtype for weight in weights.values()}
