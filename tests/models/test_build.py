"""Configurations survive JSON, predictors survive their state dict, and the speed options change no names."""

import json
import subprocess
import sys

import pytest
import torch

from acvp.models import (
    ConfigError,
    RecurrentConfig,
    bfloat16,
    build_predictor,
    compile_networks,
    config_from_dict,
    config_to_dict,
    kinds,
)
from acvp.models.devices import cpu_has_bfloat16
from tests.models.small_predictors import EVERY, LEARNED, random_window, seeded, small_predictor


@pytest.mark.parametrize("name", EVERY)
@torch.no_grad()
def test_config_and_state_dict_are_the_whole_predictor(name: str) -> None:
    predictor = small_predictor(name)
    again = build_predictor(config_from_dict(json.loads(json.dumps(config_to_dict(EVERY[name])))), seeded(99))
    assert again.config == predictor.config
    again.load_state_dict(predictor.state_dict())
    frames, actions = random_window(predictor, predict=2)
    assert torch.equal(again(frames, actions, predict=2).frames, predictor(frames, actions, predict=2).frames)
    assert torch.equal(again.normalizer.mean, predictor.normalizer.mean)


def test_kinds_are_the_names_of_the_command_line() -> None:
    assert {"feedforward", "recurrent", "no-action", "mlp"} < set(kinds())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "transformer", "actions": 3}, "kind is 'transformer'"),
        ({"kind": "mlp", "actions": 3, "depth": 2}, "unknown \\['depth'\\]"),
        ({"kind": "mlp"}, "'actions' required"),
        ({"kind": "mlp", "actions": 3, "predict_lives": 0}, "predict_lives is 0; it must be true or false"),
    ],
)
def test_a_dictionary_of_no_config_is_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config_from_dict(values)


def test_something_that_is_no_config_is_refused() -> None:
    with pytest.raises(ConfigError, match="dict is no predictor's configuration"):
        build_predictor({"kind": "mlp"})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="gate_clip is -1"):
        RecurrentConfig(actions=3, gate_clip=-1)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNED)
def test_bfloat16_stays_close_and_trains_or_is_refused(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    with bfloat16(frames.device, enabled=False):
        exact = predictor(frames, actions, predict=2).frames
    if not cpu_has_bfloat16():
        with pytest.raises(ValueError, match="bfloat16 does not run on this cpu"):
            bfloat16(frames.device)
        return
    with bfloat16(frames.device):
        rough = predictor(frames, actions, predict=2).frames
    rough.float().square().sum().backward()
    assert 0 < (rough - exact).abs().max() < 0.1 * exact.abs().max()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of torch itself
@pytest.mark.parametrize("name", ["feedforward", "recurrent", "mlp"])
def test_compiling_changes_neither_results_nor_names(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    plain, names = predictor(frames, actions, predict=2).frames, list(predictor.state_dict())
    compile_networks(predictor, backend="eager")
    compiled = predictor(frames, actions, predict=2).frames
    torch.testing.assert_close(compiled, plain)
    compiled.sum().backward()
    assert list(predictor.state_dict()) == names


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_kept_memory_is_not_faulted_in_again() -> None:
    script = (
        "import resource, torch\n"
        "from acvp.models import keep_freed_memory\n"
        "assert keep_freed_memory()\n"
        "for _ in range(8): torch.zeros(1 << 24)\n"  # the heap settles
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "torch.zeros(1 << 24)\n"  # 64 MB: 16,384 pages
        "assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before < 1000\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
