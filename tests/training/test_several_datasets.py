"""Training on several datasets as one: resumable to the bit, drawn by shares, and no held-out episode leaks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.data.merge import join
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.evaluation.windows import held_out_part, training_of
from acvp.training.config import TrainConfig
from acvp.training.data import TrainingData
from tests.training.small import Trace, run, small_config, toy_store

STOPPED = 128 + 15


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("two")
    return toy_store(folder / "a", frames=600, seed=1).path, toy_store(folder / "b", frames=500, seed=2).path


@pytest.mark.slow
def test_a_run_on_two_datasets_resumes_to_the_bit(folders: tuple[Path, Path], tmp_path: Path, trace: Trace) -> None:
    training = small_config(shares=(0.8, 0.2))
    assert run(join(folders), training, tmp_path / "whole", save_minutes=99).exit_code == 0
    whole, trace.updates = trace.updates, []
    trace.stop_after = 6
    assert run(join(folders), training, tmp_path / "parts", save_minutes=99).exit_code == STOPPED
    trace.stop_after = 0
    assert run(join(folders), training, tmp_path / "parts", save_minutes=99).exit_code == 0
    assert trace.updates == whole
    files = [tmp_path / name / "predictor" / "model.safetensors" for name in ("whole", "parts")]
    assert files[0].read_bytes() == files[1].read_bytes()
    for store, shares in ((join(folders[::-1]), (0.8, 0.2)), (join(folders), (0.2, 0.8)), (join(folders[:1]), ())):
        with pytest.raises(UserError, match=r"was trained on another dataset|shares"):
            run(store, replace(training, shares=shares), tmp_path / "whole")


def test_shares_hold_for_every_kind_of_window(folders: tuple[Path, Path]) -> None:
    training = small_config(shares=(0.8, 0.2))
    phase = replace(training.phases[0], event_share=0.3, priority_share=0.3)
    data = TrainingData(join(folders), training)
    windows = data.windows(phase)
    priorities = data.priorities(windows, phase)
    numbers = windows.draw(5000, seed=1, step=0, priorities=priorities)
    sources = [data.train.sources[windows.locate(number).episode] for number in numbers.tolist()]
    assert np.mean(sources) == pytest.approx(0.2, abs=0.02)
    assert [priority.share for priority in priorities] == [0.3, 0.3, 1.0]
    for _, cumulative in priorities:
        of_first = sum(data.train.sources[windows.locate(k).episode] == 0 for k in range(len(windows)))
        assert cumulative[of_first - 1] / cumulative[-1] == pytest.approx(0.8)


def test_one_of_the_training_datasets_gives_its_held_out_episodes(folders: tuple[Path, Path], tmp_path: Path) -> None:
    run(join(folders), small_config(test_fraction=0.5), tmp_path / "run")
    trained, both = training_of(tmp_path / "run"), join(folders)
    whole = held_out_part(both, [trained], None).store
    assert 0 < len(whole) < len(both)
    parts = [held_out_part(EpisodeStore(folder), [trained], None).store for folder in folders]
    assert [e.content for part in parts for e in part.entries] == [e.content for e in whole.entries]
    other = toy_store(tmp_path / "c", frames=100, seed=3)
    mixed = held_out_part(join([folders[0], other.path]), [trained], None).store
    assert [e.content for e in mixed.entries] == [e.content for part in (parts[0], other) for e in part.entries]
    assert main(["data", "merge", *map(str, folders), "--out", str(tmp_path / "merged")]) == 0  # has another digest
    merged = held_out_part(EpisodeStore(tmp_path / "merged"), [trained], None)
    assert [e.content for e in merged.store.entries] == [e.content for e in whole.entries]
    assert merged.how.startswith(f"{len(whole)} of {len(both)} episodes, without those that begin like one")


@pytest.mark.slow
def test_the_commands_take_several_datasets(folders: tuple[Path, Path], tmp_path: Path) -> None:
    data = ["--data", *map(str, folders)]
    options = ["--preset", "smoke", "--device", "cpu", "--minutes", "0.001", "--run", str(tmp_path / "run")]
    assert main(["train", *data, "--shares", "0.7", "0.3", *options]) == 0
    sizes = ["--horizon", "2", "--windows", "4", "--shuffled-windows", "0", "--videos", "0"]
    assert main(["evaluate", "--predictors", str(tmp_path / "run"), *data, *sizes, "--device", "cpu"]) == 0


def test_shares_must_be_one_for_each_dataset() -> None:
    with pytest.raises(UserError, match="--shares has 2 values for 1 datasets"):
        TrainConfig(data=(Path("a"),), shares=(0.5, 0.5))
    with pytest.raises(UserError, match="--shares 0: more than 0"):
        TrainConfig(data=(Path("a"), Path("b")), shares=(0.0, 1.0))
    command = TrainConfig(data=(Path("a"), Path("b")), shares=(0.5, 0.5)).command(Path("r"), 1.0)
    assert command == "acvp train --run r --minutes 1 --data a b --shares 0.5 0.5"
