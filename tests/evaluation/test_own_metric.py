"""A registered metric is measured, summed up, tabulated and drawn like the built-in ones."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from acvp.errors import UserError
from acvp.evaluation import metrics
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.figures import curve_figure, horizon_tables
from acvp.evaluation.metrics import METRICS, fingerprints, register, registered
from acvp.evaluation.run import evaluate
from acvp.evaluation.windows import HeldOutPart
from acvp.result_cache import ResultCache
from tests.evaluation.predictors import Answers, as_model

pytestmark = pytest.mark.usefixtures("built_in_metrics")
WORDS: dict[str, Any] = {"title": "Largest error", "unit": "pixel values", "formula": "max of |x̂ − x| in {braces}"}


def largest(predicted: Tensor, truth: Tensor) -> Tensor:
    return (predicted - truth).abs().flatten(1).amax(1)


def config(part: HeldOutPart) -> EvaluateConfig:
    return EvaluateConfig(
        predictors=(part.store.path,), data=(part.store.path,), horizon=3, windows=6, shuffled_windows=0
    )


def test_it_is_in_curves_tables_and_plots(answers: HeldOutPart) -> None:
    register("largest", better="lower", **WORDS)(largest)
    late = evaluate([as_model("late", Answers(ahead=1))], answers, config(answers))
    right = evaluate([as_model("right", Answers())], answers, config(answers))
    assert (late.curves["late"]["largest"].mean > 0).all()
    assert (right.curves["right"]["largest"].mean == 0).all()
    body = late.to_dict() | {"outcomes": {}}
    assert body["metrics"]["largest"] == WORDS | {"better": "lower"}
    last = next(table for table in horizon_tables(body) if table.title == "Everything at step 3")
    assert "Largest error" in [row[0] for row in last.rows]
    del METRICS["largest"]  # as in a report, which does not import the module that registers it
    figure = curve_figure(body, "largest")
    assert figure.axes[0].get_title(loc="left") == "Largest error"
    assert "max of |x̂ − x| in {braces}." in figure.texts[0].get_text()


def test_it_sees_pixel_values_and_cannot_change_them(answers: HeldOutPart) -> None:
    before = evaluate([as_model("right", Answers())], answers, config(answers))
    ranges = []

    def destroys(predicted: Tensor, truth: Tensor) -> Tensor:
        ranges.append((float(predicted.min()), float(truth.max())))
        predicted.zero_()
        truth.zero_()
        return torch.full((len(truth),), torch.nan)

    register("destroys", **WORDS)(destroys)
    found = evaluate([as_model("right", Answers())], answers, config(answers))
    assert np.isnan(found.curves["right"]["destroys"].mean).all()
    for name in ("right", "copy-last-frame", "mean-frame"):
        assert np.array_equal(found.curves[name]["mse"].mean, before.curves[name]["mse"].mean)
    assert max(high for _, high in ranges) > 100


def test_values_of_another_shape_are_refused(answers: HeldOutPart) -> None:
    register("scalar", **WORDS)(lambda predicted, truth: (predicted - truth).mean())
    with pytest.raises(UserError, match=r"metric scalar returns shape \(\); expected one number for each of 6"):
        evaluate([as_model("right", Answers())], answers, config(answers))


@pytest.mark.parametrize("name", ["error", "gain", "shuffled", "a/b", ""])
def test_names_that_are_taken_or_no_names_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="choose another"):
        register(name, **WORDS)(largest)
    assert registered() == {}


def test_the_same_function_may_be_registered_again_but_no_other() -> None:
    register("largest", **WORDS)(largest)
    register("largest", **WORDS)(largest)
    with pytest.raises(UserError, match="already"):
        register("largest", **WORDS)(lambda predicted, truth: truth)


def test_cached_results_of_another_code_do_not_count(answers: HeldOutPart, tmp_path: Any) -> None:
    model = as_model("late", Answers(ahead=1))
    register("largest", **WORDS)(largest)
    evaluate([model], answers, config(answers), results=ResultCache(tmp_path / "parts.jsonl"))
    del METRICS["largest"]
    register("largest", **WORDS)(lambda predicted, truth: torch.full((len(truth),), 7.0))
    found = evaluate([model], answers, config(answers), results=ResultCache(tmp_path / "parts.jsonl"))
    assert (found.curves["late"]["largest"].mean == 7).all()
    assert fingerprints({"largest": largest}) == fingerprints({"largest": largest})


def test_entry_points_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Registering(EntryPoint):
        def load(self) -> Any:
            register("largest", **WORDS)(largest)

    entry = Registering("mine", "my_module", "acvp.metrics")
    monkeypatch.setattr(metrics, "entry_points", lambda group: [entry] if group == "acvp.metrics" else [])
    assert registered() == {"largest": largest}
