"""`make pictures`: windows are chosen by the rule, real and predicted frames are where the picture says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import acvp.loaded
from acvp.evaluation.media import Clip
from acvp.figures import GIVEN, LINE, PREDICTED
from benchmarks import pictures, tables

ROOT = Path(__file__).parent.parent
REAL, DREAM = 100, 200
"""Gray levels of all true frames and of all predictions, less their step."""


def clip(context: int = 20) -> Clip:
    """Frames whose gray level says whose they are and of which step."""
    levels = np.arange(1 - context, pictures.STEPS + 1)
    gray = np.broadcast_to((REAL + levels % 90)[:, None, None, None], (len(levels), 30, 20, 3)).astype(np.uint8)
    steps = np.arange(1, pictures.STEPS + 1) % 50
    dream = np.broadcast_to((DREAM + steps)[:, None, None, None], (len(steps), 30, 20, 3)).astype(np.uint8)
    actions = tuple("UP" for _ in range(len(levels) - 1))
    boxes = (None,) * len(levels)
    return Clip(title="", truth=gray, predictions={"freeway": dream}, actions=actions, context=context, boxes=boxes)


def middles(picture: np.ndarray) -> tuple[int, int]:
    """The gray levels in the middle of the upper and of the lower frame of the first game."""
    down = 30 + 2 * pictures.BORDER
    upper, lower = LINE + down // 2, 2 * LINE + down + down // 2
    return int(picture[upper, 15, 0]), int(picture[lower, 15, 0])


@pytest.mark.parametrize(
    ("step", "real", "dream"), [(0, REAL, REAL), (1, REAL + 1, DREAM + 1), (33, REAL + 33, DREAM + 33)]
)
def test_the_dream_begins_with_step_1(step: int, real: int, dream: int) -> None:
    picture = pictures.compose({"freeway": clip()}, step)
    assert middles(picture) == (real, dream)
    border = picture[2 * LINE + 30 + 2 * pictures.BORDER, pictures.GAP]
    assert tuple(border) == (GIVEN if step == 0 else PREDICTED)


def test_the_animation_has_every_step_once_and_the_last_one_for_a_while() -> None:
    shown = [middles(picture) for picture in pictures.pictures({"freeway": clip()})]
    steps = range(1 - pictures.SHOWN, pictures.STEPS + 1)
    assert [real for real, _ in shown[: len(steps)]] == [REAL + step % 90 for step in steps]
    assert shown[len(steps) :] == [shown[-1]] * pictures.HOLD


def test_wrong_pixels_count_a_pixel_once_whatever_its_channels() -> None:
    real = np.zeros((4, 4, 3), np.uint8)
    dream = real.copy()
    dream[0, 0], dream[1, 1, 2] = 9, 1
    assert pictures.wrong(real, dream) == 2


def test_the_first_episode_that_is_long_enough_is_shown() -> None:
    class Episode:
        def __init__(self, length: int) -> None:
            self.actions = np.zeros(length)

    most = pictures.START + pictures.STEPS
    assert pictures.first_long([Episode(most - 1), Episode(most), Episode(most)]) == 1  # type: ignore[arg-type]


def test_the_animation_of_the_readme_is_small_and_plays_in_real_time() -> None:
    file = ROOT / "docs" / "pictures" / "games.gif"
    assert file.stat().st_size < 5e6
    with Image.open(file) as movie:
        duration = 0
        for number in range(getattr(movie, "n_frames", 1)):
            movie.seek(number)
            duration += movie.info["duration"]
    assert duration == 70 * (pictures.SHOWN + pictures.STEPS + pictures.HOLD)


@pytest.mark.parametrize("name", tables.PAGES)
def test_pages_of_tables_are_those_of_the_results(name: str) -> None:
    assert (tables.DOCS / name).read_text() == tables.PAGES[name](), "run python -m benchmarks.tables"


def test_charts_are_drawn_from_results_that_exist() -> None:
    assert all((tables.RESULTS / result).exists() for result, _ in pictures.CHARTS.values())


@pytest.mark.parametrize(("names", "own"), [(("freeway",), "freeway"), (("freeway", "freeway-objects"), "mine")])
def test_results_are_those_of_the_best_packaged_predictor(
    names: tuple[str, ...], own: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acvp.loaded, "packaged", lambda: dict.fromkeys(names))
    for file, models in (("freeway-agent", ("freeway",)), ("mine-agent", ("mine", "freeway"))):
        curves: dict[str, Any] = {name: {} for name in (*models, *tables.BASELINES)}
        (tmp_path / f"{file}.json").write_text(json.dumps({"curves": curves}))
    results = tables.judged(tmp_path)
    assert {game: result.name for game, result in results.items()} == {"freeway": own}
    assert results["freeway"].file.stem == f"{own}-agent"


@pytest.mark.parametrize("game", pictures.GAMES)
def test_film_strips_are_wide(game: str) -> None:
    with Image.open(ROOT / "docs" / "pictures" / f"{game}.png") as strip:
        assert strip.width > 2 * strip.height


@pytest.mark.parametrize(("before", "warns"), [(0.4, False), (2.0, False), (2.1, True)])
def test_the_newcomers_log_warns_of_a_machine_that_was_busy_before(before: float, warns: bool) -> None:
    assert ("busy with other work" in tables.busy(2, [before, 5.0, 4.0])) == warns
