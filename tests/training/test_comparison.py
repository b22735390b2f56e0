"""What a run reports about itself at its end, and the command that trains it further."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from acvp.cli.main import main
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.harness import share_of_cores
from acvp.models import MeanFrame, MeanFrameConfig, build_predictor
from acvp.runs import RunFolder
from acvp.training import run as session
from acvp.training import validation as comparison
from acvp.training.config import TrainConfig, prolonged, total_minutes, within_minutes
from acvp.training.data import TrainingData
from acvp.training.validation import FEWEST, Comparison, Conclusions, HeldOut, compare_with_copying, paired
from tests.training.small import FRAME, Trace, run, small_config


def errors(difference: float, spread: float, windows: int = 64) -> np.ndarray:
    """Errors of windows whose predictor is off by more or less than copying."""
    copy_last = np.linspace(1, 5, windows)
    noise = np.where(np.arange(windows) % 2, spread, -spread)
    return np.stack([copy_last + difference + noise, copy_last], 1)


@pytest.mark.parametrize(
    ("difference", "spread", "conclusion"),
    [
        (-0.5, 1.0, "better"),
        (0.5, 1.0, "worse"),
        (-0.05, 1.0, "not distinguishable"),
        (0.0, 0.0, "not distinguishable"),
    ],
)
def test_the_conclusion_follows_from_the_band(difference: float, spread: float, conclusion: str) -> None:
    found = paired(1, errors(difference, spread), seed=1)
    assert found.conclusion.startswith(conclusion)
    assert found.error == pytest.approx(3 + difference)
    assert found.copy_last == pytest.approx(3)
    standard_error = spread / 8
    assert found.difference[0] == pytest.approx(difference - 1.96 * standard_error, abs=0.15 * spread)
    assert found.difference[1] == pytest.approx(difference + 1.96 * standard_error, abs=0.15 * spread)


def test_windows_are_compared_in_pairs() -> None:
    """A difference far smaller than that between windows is still seen."""
    assert paired(1, errors(-0.01, 0.001), seed=1).conclusion == "better than copying the last frame"


def test_too_few_windows_conclude_nothing() -> None:
    assert "too few" in paired(1, errors(-0.5, 0.0, windows=FEWEST - 1), seed=1).conclusion
    assert "better" in paired(1, errors(-0.5, 0.0, windows=FEWEST), seed=1).conclusion


def test_a_run_has_learned_if_it_is_better_anywhere() -> None:
    def conclusions(*bands: tuple[float, float], windows: int = FEWEST) -> Conclusions:
        each = [Comparison(steps=1, error=1.0, copy_last=2.0, difference=band, windows=windows) for band in bands]
        return Conclusions(unit="squared error", episodes=2, comparisons=tuple(each))

    assert conclusions((1.0, 2.0), (-2.0, -1.0)).learned
    assert not conclusions((1.0, 2.0), (-1.0, 1.0)).learned
    assert conclusions((1.0, 2.0), windows=FEWEST - 1).learned  # nothing can be concluded


def test_the_comparison_is_the_held_out_error_of_more_windows(store: EpisodeStore) -> None:
    training = small_config()
    data = TrainingData(store, training)
    predictor = build_predictor(training.predictor, torch.Generator().manual_seed(1)).eval()
    predictor.normalizer.set_mean(data.mean())
    found = compare_with_copying(predictor, data)
    windows, horizons = data.test_windows()
    assert [each.steps for each in found.comparisons] == [1, 5] == list(horizons)
    chosen = np.unique(np.linspace(0, len(windows) - 1, comparison.WINDOWS).astype(np.int64))
    report = HeldOut(windows.batch(chosen), horizons).measure(predictor)
    for each in found.comparisons:
        assert each.windows == len(chosen) > training.windows
        assert each.error == pytest.approx(report.error[each.steps], rel=1e-4)
        assert each.copy_last == pytest.approx(report.copy_last[each.steps], rel=1e-4)
    assert found.unit == "squared error"


def test_copying_is_not_distinguishable_from_copying(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the predictor's own error decides."""
    data = TrainingData(store, small_config())
    mean = MeanFrame(MeanFrameConfig(actions=5, frame=FRAME))
    mean.normalizer.set_mean(data.mean())
    measure = HeldOut.errors_by_window
    monkeypatch.setattr(HeldOut, "errors_by_window", lambda *a: {h: e[:, [1, 1]] for h, e in measure(*a).items()})
    assert {each.conclusion for each in compare_with_copying(mean, data).comparisons} == {
        "not distinguishable from copying the last frame"
    }


@pytest.mark.parametrize("model", ["feedforward", "mlp"])
def test_a_run_that_learned_nothing_says_so(store: EpisodeStore, tmp_path: Path, model: str) -> None:
    text = io.StringIO()
    training = small_config(model)
    training = replace(training, phases=(replace(training.phases[0], lr=1e-12, steps=1),))
    assert run(store, training, tmp_path / "run", text).exit_code == 0
    said = text.getvalue()
    assert "1-step: worse than copying the last frame (squared error" in said
    assert "5-step: " in said
    assert f"{comparison.WINDOWS} held-out windows" in said
    assert "no better than copying the last frame so far; to train further: acvp train " in said
    card = json.loads((tmp_path / "run" / "predictor" / "config.json").read_text())
    assert "1-step worse than copying the last frame" in json.dumps(card)


def test_comparing_changes_nothing_else(
    store: EpisodeStore, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(store, small_config(), tmp_path / "with")
    none = Conclusions(unit="", episodes=1, comparisons=())
    monkeypatch.setattr(session, "compare_with_copying", lambda *arguments: none)
    run(store, small_config(), tmp_path / "without")
    files = [tmp_path / name / "predictor" / "model.safetensors" for name in ("with", "without")]
    assert files[0].read_bytes() == files[1].read_bytes()
    lines = [RunFolder(tmp_path / name).metrics() for name in ("with", "without")]
    for line in (*lines[0], *lines[1]):
        line.pop("samples_per_second", None)
    assert lines[0] == lines[1]


def test_a_stop_while_comparing_is_made_up_for(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from acvp.exits import StoppedError

    def stopped(*arguments: object) -> Conclusions:
        raise StoppedError(15)

    text = io.StringIO()
    with monkeypatch.context() as patch:
        patch.setattr(session, "compare_with_copying", stopped)
        assert run(store, small_config(), tmp_path / "run", text).exit_code == 128 + 15
    assert not (tmp_path / "run" / "predictor").exists()
    assert run(store, small_config(), tmp_path / "run", text).exit_code == 0
    assert "1-step: " in text.getvalue()


@pytest.mark.parametrize(
    ("busy", "seconds", "line"),
    [
        (4.0, 10.0, "used 20 % of the time of 2 cores in 0:00:10 of wall-clock time; minutes count by the wall clock"),
        (18.0, 10.0, "used 90 % of the time of 2 cores in 0:00:10 of wall-clock time"),
        (30.0, 10.0, "used 100 % of"),
        (0.1, 0.5, None),
    ],
)
def test_the_share_of_the_cores(monkeypatch: pytest.MonkeyPatch, busy: float, seconds: float, line: str | None) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    found = share_of_cores(torch.device("cpu"), "wall", busy, seconds)
    assert found is None if line is None else found is not None and line in found
    assert found is None or ("wall clock:" in found) == (busy < 8)
    assert "wall clock:" not in str(share_of_cores(torch.device("cpu"), "core", busy, seconds))
    assert share_of_cores(torch.device("meta"), "wall", busy, seconds) is None


SMOKE = ["train", "--preset", "smoke", "--model", "feedforward", "--device", "cpu", "--save-minutes", "99"]


def test_the_printed_command_trains_further(
    store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a run"
    arguments = [*SMOKE, "--data", str(store.path), "--run", str(folder), "--predict-rewards", "--seed", "3"]
    assert main([*arguments, "--minutes", "0.002"]) == 0
    first = RunFolder(folder).metrics()
    printed = [line for line in capsys.readouterr().err.splitlines() if "to train further: " in line]
    command = shlex.split(printed[0].split("to train further: ")[1])
    assert command[:2] == ["acvp", "train"]
    assert command[command.index("--minutes") + 1] == "0.004"
    assert main(command[1:]) == 0
    second = RunFolder(folder).metrics()
    assert second[: len(first)] == first, "what was done stays"
    assert {line["phase"] for line in second} >= {0, 1, 2, 3}
    assert second[-1]["step"] > first[-1]["step"]
    finished = (folder / "predictor" / "config.json").stat().st_mtime_ns
    assert f"{second[-1]['step']:,} updates" in (folder / "predictor" / "README.md").read_text()
    assert main(command[1:]) == 0, "the same command again finds it finished"
    assert (folder / "predictor" / "config.json").stat().st_mtime_ns == finished
    assert RunFolder(folder).metrics() == second
    capsys.readouterr()
    assert main(arguments) == 2
    assert "use --minutes 0.004 or more" in capsys.readouterr().err


def test_a_killed_extension_still_writes_its_predictor(
    store: EpisodeStore, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = small_config()
    longer = replace(training, phases=within_minutes(training.phases, 9.0))
    run(store, training, tmp_path / "run")
    trace.stop_after = 12
    assert run(store, longer, tmp_path / "run", minutes=9.0).exit_code == 128 + 15
    assert not (tmp_path / "run" / "predictor" / "config.json").exists()
    trace.stop_after = 0
    assert run(store, longer, tmp_path / "run", minutes=9.0).exit_code == 0
    assert [update[0] for update in trace.updates] == list(range(1, 19))
    assert "18 updates" in (tmp_path / "run" / "predictor" / "README.md").read_text()


def test_more_minutes_are_added_as_further_phases() -> None:
    phases = small_config().phases
    five, eight = within_minutes(phases, 5.0), within_minutes(phases, 8.0)
    longer = prolonged(five, eight)
    assert longer is not None
    assert longer[:2] == five
    assert total_minutes(longer) == pytest.approx(8.0)
    assert longer[2].minutes == pytest.approx(3.0 * 5 / 9)
    assert prolonged(longer, eight) == longer
    assert prolonged(phases, eight) == phases + eight, "a run that ended by steps has had no minutes"
    assert prolonged(eight, five) is None
    assert prolonged(five, within_minutes((replace(phases[0], lr=1.0), phases[1]), 8.0)) is None
    assert prolonged(five, eight[:1]) is None


def test_other_changes_than_more_minutes_are_still_refused(store: EpisodeStore, tmp_path: Path) -> None:
    training = small_config()
    run(store, training, tmp_path / "run")
    other = replace(training, phases=within_minutes((replace(training.phases[0], lr=0.5), training.phases[1]), 9.0))
    with pytest.raises(UserError, match="another config"):
        run(store, other, tmp_path / "run", minutes=9.0)
    seeded = replace(training, seed=2, phases=within_minutes(training.phases, 9.0))
    with pytest.raises(UserError, match="seed: 1 → 2"):
        run(store, seeded, tmp_path / "run", minutes=9.0)


def test_the_command_has_all_options_that_are_not_the_default() -> None:
    config = TrainConfig(data=(Path("my data"),), model="mlp", resume="never", compile="on", keep=3, minutes=2.0)
    words = "acvp train --run runs/x --minutes 4 --data 'my data' --model mlp --compile on --keep 3"
    assert config.command(Path("runs/x"), 4.0) == words
