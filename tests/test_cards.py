"""The cards of the packaged predictors state what the committed results state."""

from __future__ import annotations

import json

import pytest

from acvp.durable import unseal
from benchmarks.cards import median_lost, on_card
from benchmarks.pixel import GAMES, PACKAGED, error_of_packaged
from benchmarks.provenance import RESULTS

OBJECTS = sorted(folder.name for folder in PACKAGED.glob("*-objects"))


def stated(name: str) -> str:
    """Return the error of a packaged predictor, which its card repeats."""
    error = str(unseal((PACKAGED / name / "config.json").read_bytes())["about"]["error"])
    assert f"- **Error**: {error}\n" in (PACKAGED / name / "README.md").read_text()
    return error


@pytest.mark.parametrize("game", GAMES)
def test_the_error_of_a_game_is_that_of_its_results(game: str) -> None:
    assert stated(game) == error_of_packaged(game), "python -m benchmarks.pixel --cards-only writes it again"


@pytest.mark.parametrize("name", OBJECTS)
def test_the_error_of_a_predictor_of_objects_is_that_of_its_results(name: str) -> None:
    files = {driver: RESULTS / "dreams" / f"{name}-{driver}.json" for driver in ("agent", "sticky-random")}
    known = {driver: json.loads(file.read_text()) for driver, file in files.items() if file.exists()}
    assert known
    assert stated(name) == "; ".join(on_card(driver, body, name) for driver, body in known.items())


def test_an_object_that_half_of_the_windows_keep_is_not_called_lost() -> None:
    assert median_lost({"object_kept": {"mean": [1.0, 0.5, None, 0.49, 0.2]}}) == 4
    curve = {"wrong_pixels": {"mean": [1.0, 2.0]}, "object_kept": {"mean": [1.0, 0.5]}}
    curves = dict.fromkeys(("own", "copy-last-frame", "mean-frame"), curve)
    keys = {"steps": [1, 2], "works": {"own": {"mean": [1.0, None]}}}
    text = on_card("somebody", {"windows": 3, "keys": keys, "curves": curves}, "own")
    assert text == (
        "3 windows while somebody plays; keys work after 1, 2 predicted steps in 1.00, –; wrong pixels at these steps "
        "1, 2 (copy-last-frame 1, 2; mean-frame 1, 2); controlled object kept to step 2 in at least half of them"
    )
