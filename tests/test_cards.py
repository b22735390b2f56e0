"""The cards of the packaged predictors and README state what the committed results state."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from acvp.durable import unseal
from benchmarks.cards import median_lost, on_card
from benchmarks.pixel import GAMES, PACKAGED, error_of_packaged
from benchmarks.provenance import RESULTS

ROOT = Path(__file__).parent.parent
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


def result(name: str) -> Any:
    """Return what a committed result file holds."""
    return json.loads((RESULTS / name).read_text())


def scored(body: dict[str, Any]) -> str:
    """Return a score as README writes it."""
    return f"{body['mean']:.1f} ± {body['standard_error']:.1f}"


def lost(name: str) -> int | None:
    """Return the step by which half of the windows have lost the controlled object while the agent plays."""
    return median_lost(result(f"dreams/{name}-agent.json")["curves"][name])


def worse_from(name: str, model: str) -> int:
    """Return the first step at which the squared error is above that of the mean frame."""
    curves = result(name)["curves"]
    pairs = zip(curves[model]["error"]["mean"], curves["mean-frame"]["error"]["mean"], strict=True)
    return next((step for step, (error, mean) in enumerate(pairs, 1) if error > mean), 10**9)


def first_rewards() -> dict[str, Any]:
    """Return the steps to the first reward from the game's first frame, by source."""
    sources = [result(f"explore/freeway-{name}/explore.json")["sources"] for name in ("first-frame", "random")]
    return {name: source["first_reward"] for each in sources for name, source in each.items()}


def test_the_readme_states_what_the_results_state() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    random_play = result("pixel/freeway-120-core-minutes/evaluation.json")["curves"]
    (own,) = random_play.keys() - {"copy-last-frame", "mean-frame"}
    wrong, mean = (random_play[name]["wrong_pixels"]["mean"] for name in (own, "mean-frame"))
    assert (
        f"on average {wrong[0]:.1f} of Freeway's 33,600 pixels wrong one step ahead, and {wrong[99]:.0f} after" in text
    )
    assert "the mean frame gets 560 wrong" in text
    assert {round(mean[step], -1) for step in (0, 9, 29)} == {560}
    steps = re.search(r"(\d+) exact steps in the median", stated("freeway"))
    assert steps is not None
    assert f"In half of the windows the first {steps[1]} predicted frames have no wrong pixel" in text
    held = result("dreams/freeway-held.json")
    alive = [point["object_distance"] == 0 for point in held["points"]]
    assert alive[:3] == [True, True, False]
    assert f"loses it at the third, after {held['points'][2]['step']} steps" in text
    shown = {"seaquest": "Seaquest", "freeway": "Freeway", "space_invaders": "Space Invaders"}
    shown |= {"ms_pacman-objects": "Ms Pacman", "qbert-objects": r"Q\*bert"}
    for name, title in shown.items():
        keys = result(f"dreams/{name}-agent.json")["keys"]
        share = keys["works"][name]["mean"][keys["steps"].index(30)]
        assert re.search(rf"{share:.2f} \({re.escape(title)}\)", text), title
    objects = ("ms_pacman-objects", "qbert-objects")
    assert "they lose the controlled object within {} and {} steps".format(*map(lost, objects)) in text
    assert min(worse_from(f"dreams/{name}-agent.json", name) for name in objects) > 100
    later = [
        worse_from(f"pixel/{game}-45-core-minutes/evaluation.json", f"{game}-pixel-45")
        for game in ("seaquest", "space_invaders")
    ]
    assert (
        "on random play, Seaquest and Space Invaders are worse than it from steps {} and {} on".format(*later) in text
    )


def test_the_readme_states_the_scores_and_first_rewards_of_the_results() -> None:
    text = " ".join((ROOT / "README.md").read_text().split())
    control = result("control/freeway/control.json")
    predicted = next(point for point in control["runs"]["freeway"] if point["depth"] == 1)
    assert f"({scored(predicted)} and {scored(control['emulator'])}, within noise)" in text
    steps = first_rewards()
    assert f"reaches the first point after {steps['informed-emulator'][0]} steps, by holding UP" in text
    assert steps["informed-emulator"] == steps["constant"]
    assert f"random exploration takes {min(steps['random']):,} to {max(steps['random']):,} (5 seeds" in text
    learned = result("learning/freeway/learning.json")
    held = scored(learned["references"]["constant"])
    assert f"{scored(learned['strategies']['informed-model']['curve'][-1])} (holding UP: {held})" in text
    inside = result("imagined/freeway/agent-evaluation.json")
    assert inside["scores"] == inside["references"]["constant"]["scores"]
    assert f"DQN trained inside the predictor {scored(inside)} (holding UP: the same 30 scores)" in text
