"""Files of version 0.1.0: every name that has changed since is read by its new name."""

from __future__ import annotations

import json
from pathlib import Path

from acvp.compat import RESULT_FIELDS, current_fields, current_files, current_run, current_tensors, current_training


def test_fields_are_renamed_at_every_level_and_others_stay() -> None:
    old = {"run": {"optimiser": {"kind": "adam"}, "phases": [{"licence": "MIT", "lr": 1}]}, "colours": 3}
    new = {"run": {"optimizer": {"kind": "adam"}, "phases": [{"license": "MIT", "lr": 1}]}, "colours": 3}
    assert current_fields(old) == new
    assert current_fields(new) == new


def test_results_have_more_fields_that_are_renamed() -> None:
    old = {"films": [], "outcomes": {"run": {"end": {"recall": {"goes on": 1.0, "ends": 0.5}}}}}
    new = {"clips": [], "outcomes": {"run": {"termination": {"recall": {"continues": 1.0, "terminates": 0.5}}}}}
    assert current_fields(old, RESULT_FIELDS) == new
    assert current_fields(old) == old


def test_tensors_are_renamed_by_whole_parts_of_their_names() -> None:
    old = {"normaliser.mean": 1, "heads.3.end.bias": 2, "possible": 3, "legend.weight": 4}
    new = {"normalizer.mean": 1, "heads.3.termination.bias": 2, "palette_mask": 3, "legend.weight": 4}
    assert current_tensors(old) == new


def test_layers_of_today_s_predictors_keep_their_names() -> None:
    tensors = {"normalizer.mean": 1, "ends.weight": 2, "torso.0.end.bias": 3}
    assert current_tensors(tensors) == tensors


def test_feeding_back_is_no_teacher_forcing() -> None:
    assert current_fields({"phases": [{"feed_back": False}, {"feed_back": True}]}) == {
        "phases": [{"teacher_forcing": True}, {"teacher_forcing": False}]
    }


def test_files_of_a_checkpoint_are_renamed() -> None:
    old = {"optimiser.safetensors": b"1", "state.json": b"2"}
    assert current_files(old) == {"optimizer.safetensors": b"1", "state.json": b"2"}


def test_a_run_is_renamed_at_its_top_only() -> None:
    old = {"recipe": {"optimiser": {"kind": "adam"}}, "game": {"settings": 1}}
    assert current_run(old) == {"training": {"optimizer": {"kind": "adam"}}, "game": {"settings": 1}}
    assert current_training(current_run(old)["training"]) == {"optimizer": {"name": "adam"}}


def test_sampling_by_priority_and_the_replay_buffer_have_new_names() -> None:
    run = Path(__file__).parent / "fixtures" / "v010" / "run" / "config.json"
    (phase,) = current_run(json.loads(run.read_text()))["training"]["phases"]
    assert phase["priority_share"] == 0.5
    assert "rare_share" not in phase
    assert current_tensors({"ends": 1, "rewards": 2}) == {"status": 1, "rewards": 2}
