"""The paper's findings (§4.3), in a network that has learned the toy game in seconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from acvp.analysis.config import AnalyzeConfig
from acvp.analysis.run import analyze_run
from acvp.data.collect import CollectConfig, collect
from acvp.training.config import OptimizerConfig, Phase
from tests.analysis.games import FIRING_TOY, SIZE
from tests.networks import network
from tests.training.small import run, small_config

pytestmark = pytest.mark.slow

UPDATES = 1500


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The analysis of a small feedforward network with the paper's start, trained one step ahead."""
    folder = tmp_path_factory.mktemp("trained")
    store = collect(CollectConfig(env_id=FIRING_TOY, out=folder / "store", frames=12_000, seed=1))
    sizes = {"width": 16, "hidden": 192, "factors": 192}
    predictor = network("feedforward", (SIZE, SIZE, 3), actions=store.action_count, **sizes)
    phase = Phase(predict=1, context=4, batch_size=16, lr=2e-3, steps=UPDATES, warmup=20, anneal=True)
    training = replace(
        small_config(), predictor=predictor, optimizer=OptimizerConfig(name="adam"), phases=(phase,),
        evaluate_every=UPDATES, horizons=(1,),
    )  # fmt: skip
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    assert run(store, training, folder / "run", save_minutes=99).exit_code == 0
    config = AnalyzeConfig(predictor=folder / "run", data=store.path, states=100, examples=1, steps=1, device="cpu")
    found = analyze_run(config, lambda name: lambda done, total: None)
    torch.set_num_threads(threads)
    return found


def test_actions_of_one_direction_are_alike_and_opposite_ones_opposed(body: dict[str, Any]) -> None:
    table = body["similarity"]["tables"]["W^a"]
    for kind, opposed in (("as_learned", 0.0), ("centered", -0.2)):
        pairs = table[kind]["pairs"]
        assert pairs["same direction"]["mean"] > 0.8
        assert pairs["opposite"]["mean"] < opposed
        assert pairs["same direction"]["p"] < 0.01
        assert pairs["opposite"]["p"] < 0.01
    names = body["actions"]
    assert table["centered"]["cosines"][names.index("LEFT")][names.index("RIGHT")] < -0.2


def test_the_factors_that_vary_move_the_player_and_the_others_the_ball(body: dict[str, Any]) -> None:
    assert 0.3 < body["controlled"]["share_of_factors"] < 0.5
    assert 0.3 < body["controlled"]["share_of_factors_untrained"] < 0.6
    near, elsewhere = (
        {name: curve["mean"][region] for name, curve in body["controlled"]["explained"].items()} for region in (0, 1)
    )
    assert near["prediction"] > near["Action"] > near["Non-Action"] + 0.1
    assert near["Action"] > near["as many at random"] + 0.05
    assert elsewhere["Non-Action"] > elsewhere["Action"] + 0.05
    assert elsewhere["Non-Action"] > elsewhere["all but those"]


def test_hiding_the_action_from_the_factors_that_vary_loses_the_player_alone(body: dict[str, Any]) -> None:
    explained = {name: curve["mean"] for name, curve in body["controlled"]["explained"].items()}
    assert explained["prediction"][0] - explained["Action's at mean"][0] > 0.2
    assert abs(explained["prediction"][1] - explained["Action's at mean"][1]) < 0.05


def test_the_predicted_map_is_where_the_action_matters(body: dict[str, Any]) -> None:
    found = body["contingency"]["correlation"]
    assert found["by_state"] > 0.8
    assert found["by_state"] > found["by_state_of_mean_map"] + 0.3
