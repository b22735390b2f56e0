"""The claims: a conclusion follows from the numbers in result files by its rule, and nothing is said without them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acvp.reproduce.claims import CLAIMS, Claim
from acvp.reproduce.conclusions import counts, judge_claims, page
from acvp.reproduce.config import ReproduceConfig
from acvp.reproduce.evidence import Evidence, Result
from acvp.reproduce.plan import make_plan
from acvp.reproduce.prediction_claims import parameters
from tests.reproduce.result_files import (
    GAMES,
    NETS,
    agent,
    analysis,
    at_65,
    band,
    beside_copy,
    compared,
    control,
    evaluation,
    explored,
    futures,
    kept,
    learning,
    measure,
    measured,
    paired,
    recorded,
    row,
    scored,
    sizes,
    timed,
    write,
)


def test_there_are_31_claims_in_order() -> None:
    assert [claim.number for claim in CLAIMS] == list(range(1, 32))
    assert len({claim.text for claim in CLAIMS}) == 31


def test_without_results_only_what_can_be_counted_is_judged(tmp_path: Path) -> None:
    rows = judge_claims(Evidence([tmp_path]))
    assert {row.claim.number for row in rows if row.conclusion != "not run"} == {1, 5}
    kinds = {"confirmed": 1, "by construction": 1, "refuted at this compute": 0, "incomplete": 0, "not run": 29}
    assert counts(rows) == kinds
    assert "Conclusions on 31 claims: 1 confirmed, 1 by construction, 29 not run." in page(rows, tmp_path)


def test_parameters_are_counted_as_in_appendix_a() -> None:
    assert parameters("feedforward", (210, 160, 3), actions=18) == 57_245_507
    assert parameters("recurrent", (210, 160, 3), actions=18) == 90_771_267


def test_figure_3_is_confirmed_only_if_both_networks_beat_both_baselines(tmp_path: Path) -> None:
    better = {"feedforward": 1.0, "recurrent": 2.0, "no-action": 4.0, "mlp": 9.0}
    write(tmp_path / "a", "evaluation.json", evaluation(better))
    assert row(tmp_path, 9).conclusion == "confirmed"
    write(tmp_path / "a", "evaluation.json", evaluation(better | {"recurrent": 3.5}))  # bands overlap
    assert row(tmp_path, 9).conclusion == "refuted at this compute"
    write(tmp_path / "a", "evaluation.json", evaluation(better | {"recurrent": 5.0}))
    assert row(tmp_path, 9).conclusion == "refuted at this compute"


def test_figure_3_without_the_recurrent_network_is_not_complete(tmp_path: Path) -> None:
    write(tmp_path / "a", "evaluation.json", evaluation({"feedforward": 1.0, "no-action": 4.0, "mlp": 9.0}))
    found = row(tmp_path, 9)
    assert found.conclusion == "incomplete"
    assert found.findings["freeway"].holds is None
    assert "- incomplete: `acvp reproduce --only figure3 --out reproduction`" in page([found], tmp_path)
    assert "recurrent –" in found.findings["freeway"].number
    write(tmp_path / "a", "evaluation.json", evaluation({"feedforward": 5.0, "no-action": 4.0, "mlp": 9.0}))
    assert row(tmp_path, 9).conclusion == "refuted at this compute"


def test_a_claim_about_five_games_is_refuted_by_one_and_says_how_many_were_run(tmp_path: Path) -> None:
    better = {"feedforward": 1.0, "recurrent": 2.0, "no-action": 4.0, "mlp": 9.0}
    write(tmp_path / "a", "evaluation.json", evaluation(better))
    assert row(tmp_path, 9).coverage == "holds in 1 of 1 games run; the claim is about 5"
    write(tmp_path / "b", "evaluation.json", evaluation(better | {"mlp": 0.1}, "ALE/Qbert-v5"))
    found = row(tmp_path, 9)
    assert found.conclusion == "refuted at this compute"
    assert found.coverage == "holds in 1 of 2 games run; the claim is about 5"
    assert {game: each.holds for game, each in found.findings.items()} == {"freeway": True, "qbert": False}


def test_a_game_that_the_paper_does_not_have_confirms_nothing(tmp_path: Path) -> None:
    better = {"feedforward": 1.0, "recurrent": 2.0, "no-action": 4.0, "mlp": 9.0}
    write(tmp_path / "a", "evaluation.json", evaluation(better, "acvp/Toy-v0"))
    found = row(tmp_path, 9)
    assert found.findings["toy"].holds is True
    assert (found.conclusion, found.coverage) == ("not run", "")
    write(tmp_path / "b", "evaluation.json", evaluation(better | {"mlp": 0.1}, "ALE/Qbert-v5"))
    assert row(tmp_path, 9).coverage == "holds in 0 of 1 games run; the claim is about 5"


@pytest.mark.parametrize(("low", "high", "order"), [(-3.0, -1.0, -1), (-1.0, 1.0, 0), (1.0, 3.0, 1)])
def test_paired_differences_count_before_separate_bands(low: float, high: float, order: int) -> None:
    wide = {"a": {"error": band(1.0, -9.0, 9.0)}, "b": {"error": band(1.0, -9.0, 9.0)}}
    result = Result(Path("x"), {"curves": wide, "paired": paired("a", "b", low, high)})
    assert result.order("error", "a", "b", 2) == order
    assert result.order("error", "b", "a", 2) == -order
    assert Result(Path("x"), {"curves": wide}).order("error", "a", "b", 2) == 0
    assert result.order("error", "a", "c", 2) is None


def test_play_in_three_games_above_random_and_constant_confirms_claim_18(tmp_path: Path) -> None:
    for number, game in enumerate(GAMES[:3]):
        write(tmp_path / game.split("/")[1], "control.json", control({"feedforward": 50.0}, game))
        assert row(tmp_path, 18).conclusion == ("confirmed" if number == 2 else "incomplete")
    write(tmp_path / "Qbert-v5", "control.json", control({"feedforward": 19.0}, GAMES[1]))  # above random alone
    assert row(tmp_path, 18).conclusion == "incomplete"
    for game in GAMES[3:]:
        write(tmp_path / game.split("/")[1], "control.json", control({"feedforward": 5.0}, game))
    assert row(tmp_path, 18).conclusion == "refuted at this compute"


def test_control_compares_networks_with_baselines_and_real_frames(tmp_path: Path) -> None:
    played = {"feedforward": 99.0, "recurrent": 98.0, "no-action": 30.0, "mlp": 20.0}
    write(tmp_path, "control.json", control(played, GAMES[0]))
    assert [row(tmp_path, number).conclusion for number in (16, 17)] == ["confirmed"] * 2
    write(tmp_path, "control.json", control(played | {"recurrent": 32.0}, GAMES[0]))
    assert [row(tmp_path, number).conclusion for number in (16, 17)] == ["refuted at this compute"] * 2


@pytest.mark.parametrize(
    ("informed", "random", "error", "conclusion"),
    [
        (30.0, 5.0, 1.0, "confirmed"),
        (21.0, 5.0, 1.0, "refuted at this compute"),  # no more than holding UP
        (30.0, 29.0, 1.0, "refuted at this compute"),
        (30.0, 5.0, None, "incomplete"),  # a single seed
    ],
)
def test_informed_learning_must_beat_random_exploration_and_a_constant_action(
    informed: float, random: float, error: float | None, conclusion: str, tmp_path: Path
) -> None:
    write(tmp_path, "learning.json", learning(informed, random, error))
    assert row(tmp_path, 19).conclusion == conclusion


def test_first_reward_without_one_counts_as_the_limit(tmp_path: Path) -> None:
    def source(*rewards: int | None) -> dict[str, Any]:
        return {"first_reward": list(rewards), "median": 50.0, "never": rewards.count(None), "cells": [5]}

    sources = {"informed-model": source(80, 90), "random": source(None, 500)}
    body = {"game": GAMES[0], "sources": sources, "max_steps": 1000, "map_steps": 10, "seeds": 2}
    write(tmp_path, "explore.json", body)
    assert row(tmp_path, 21).conclusion == "confirmed"
    write(tmp_path, "explore.json", body | {"sources": sources | {"informed-model": source(80, None)}})
    assert row(tmp_path, 21).conclusion == "refuted at this compute"


def test_first_reward_stands_beside_a_constant_action_and_random_play_to_its_end(tmp_path: Path) -> None:
    plain = explored([80, 90], [5])
    constant = plain["sources"] | {"constant": {"first_reward": [43], "median": 43.0, "never": 0}}
    constant["random"] = {"first_reward": [None, None], "median": 1000.0, "never": 2}
    ended = {"random": {"first_reward": [7000], "median": 7000.0, "never": 0}}
    write(tmp_path / "a", "explore.json", explored([500, 900], [5]) | {"sources": plain["sources"] | ended})
    write(tmp_path / "b", "explore.json", plain | {"sources": constant})
    text = row(tmp_path, 21).findings["freeway"].number
    assert text.startswith("median agent steps: informed-model 1, random 1,000 (2 of 2 had none), constant 43")
    assert text.endswith("; random to its end 7,000")


def test_scores_of_agents_stand_beside_random_play_and_a_constant_action(tmp_path: Path) -> None:
    about = {"agent": scored(30.0), "random": scored(1.0), "constant": {"action": "UP", **scored(20.0)}}
    write(tmp_path, "agents.json", {"provenance": {"seed": 3}, "minutes": 45.0, "agents": {"freeway": about}})
    assert row(tmp_path, 30).findings["freeway"].number.endswith("; random 1 ± 1, constant UP 20 ± 1")
    (tmp_path / "agents.json").unlink()
    write(tmp_path, "agent-evaluation.json", agent(30.0))
    assert row(tmp_path, 30).findings["freeway"].number.endswith("; constant UP 20 ± 1")


def test_the_march_must_be_known_to_the_recurrent_network_alone(tmp_path: Path) -> None:
    def write_march(feedforward: float, recurrent: float, false: float) -> None:
        seen = measure(feedforward=(feedforward,) * 3, recurrent=(recurrent,) * 3)
        wrong = measure(feedforward=(0.0,) * 3, recurrent=(false,) * 3)
        claims = {"march_seen": seen, "march_false": wrong}
        write(tmp_path, "evaluation.json", evaluation(dict.fromkeys(NETS, 1.0), "ALE/SpaceInvaders-v5", claims=claims))

    write_march(0.2, 0.9, 0.1)
    assert row(tmp_path, 15).conclusion == "confirmed"
    for values in (0.2, 0.9, 0.5), (0.95, 0.9, 0.1), (0.2, 0.4, 0.0):
        write_march(*values)
        assert row(tmp_path, 15).conclusion == "refuted at this compute", values


CASES: list[tuple[int, str, dict[str, Any], dict[str, Any]]] = [
    (2, "deconvolution", timed(1.1), timed(0.9)),
    (3, "evaluation", evaluation({"feedforward": 1, "direct-3": 4}), evaluation({"feedforward": 1, "direct-3": 1.5})),
    (4, "evaluation", recorded("agent:freeway, ε = 0.3"), recorded("sticky-random, ε = 0.3")),
    (4, "evaluation", recorded("agent:freeway, ε = 0.3"), recorded("agent:freeway, ε = 0.35")),
    (4, "evaluation", recorded("agent:freeway, ε = 0.3"), recorded("agent:freeway, ε = 0.1; held, ε = 0.3")),
    (6, "evaluation", kept(0.1, 0.6), kept(0.4, 0.4)),
    (6, "evaluation", kept(0.1, 0.6, wraps=0.6), kept(0.1, 0.6, wraps=0.55)),
    (11, "evaluation", measured("collision_kept", GAMES[0], recurrent=(0.8, 0.6, 0.9)),
     measured("collision_kept", GAMES[0], recurrent=(0.8, 0.4, 0.9))),
    (11, "evaluation", beside_copy("collision_kept", GAMES[0], 0.55), beside_copy("collision_kept", GAMES[0], 0.65)),
    (12, "evaluation", sizes(0.2, 0.6), sizes(0.6, 0.6)),
    (13, "evaluation", measured("large_found", GAMES[2], feedforward=(0.8, 0.6, 0.9)),
     measured("large_found", GAMES[2], feedforward=(0.8, 0.4, 0.9))),
    (14, "evaluation", measured("translation", GAMES[4], feedforward=(1, 1, 1), recurrent=(2, 2, 2)),
     measured("translation", GAMES[4], feedforward=(1, 1, 2), recurrent=(2, 2, 2))),
    (20, "learning", compared(30.0, 31.0), compared(30.0, 40.0)),
    (22, "explore", explored([9, 9], [7, 8]), explored([9, 9], [6, 8])),
    (23, "explore", explored([9, 9], [7, 8]), explored([900, 900], [7, 8])),
    (24, "analysis", analysis(0.5, -0.3), analysis(0.5, 0.1)),
    (25, "analysis", analysis(0.5, -0.3), analysis(0.5, -0.3, action=0.15)),
    (26, "counterfactual", futures(feedforward=0.6, recurrent=0.5), futures(feedforward=0.6, recurrent=0.34)),
    (27, "evaluation", kept(0.1, 0.3), kept(0.1, 0.19)),
    (28, "evaluation", kept(0.1, 0.3), kept(0.3, 0.3)),
    (29, "evaluation", at_65(3.0), at_65(5.0)),
    (29, "evaluation", at_65(3.0), at_65(4.0)),
    (30, "agent-evaluation", agent(30.0), agent(20.0)),
    (31, "agent-evaluation", agent(30.0, "inside the predictor"), agent(21.0, "inside the predictor")),
]  # fmt: skip
"""Number of a claim, name of a file, what it holds if the claim is confirmed, and if it is refuted."""


@pytest.mark.parametrize(("number", "name", "confirms", "refutes"), CASES, ids=[str(case[0]) for case in CASES])
def test_a_claim_is_confirmed_or_refuted_by_its_numbers(
    number: int, name: str, confirms: dict[str, Any], refutes: dict[str, Any], tmp_path: Path
) -> None:
    write(tmp_path, f"{name}.json", confirms)
    assert row(tmp_path, number).conclusion == "confirmed"
    write(tmp_path, f"{name}.json", refutes)
    assert row(tmp_path, number).conclusion == "refuted at this compute"


@pytest.mark.parametrize(("accuracy", "error", "holds"), [(0.33, 1.0, True), (0.5, 1.0, False), (0.33, 4.9, False)])
def test_without_actions_others_move_and_the_controlled_object_does_not(
    accuracy: float, error: float, holds: bool, tmp_path: Path
) -> None:
    write(tmp_path, "evaluation.json", evaluation({"no-action": error, "copy-last-frame": 5.0}))
    write(tmp_path, "counterfactual.json", futures(no_action=accuracy))
    assert row(tmp_path, 7).findings["freeway"].holds is holds


def test_the_gap_to_naff_needs_seaquest(tmp_path: Path) -> None:
    small, large = {"feedforward": 9.0, "no-action": 10.0}, {"feedforward": 5.0, "no-action": 10.0}
    write(tmp_path / "f", "evaluation.json", evaluation(small))
    assert row(tmp_path, 10).conclusion == "incomplete"
    write(tmp_path / "s", "evaluation.json", evaluation(large, GAMES[2]))
    assert row(tmp_path, 10).conclusion == "confirmed"
    write(tmp_path / "f", "evaluation.json", evaluation(large))
    assert row(tmp_path, 10).conclusion == "refuted at this compute"


def test_the_pixel_exact_predictor_does_not_stand_for_the_gray_network(tmp_path: Path) -> None:
    write(tmp_path, "explore.json", explored([9, 9], [7, 8], predictor="freeway"))
    assert row(tmp_path, 23).conclusion == "not run"


def test_wraps_that_were_not_seen_leave_figure_2_open(tmp_path: Path) -> None:
    write(tmp_path, "evaluation.json", kept(0.6, 0.1))
    found = row(tmp_path, 6)
    assert found.conclusion == "incomplete"  # the feedforward network keeps the object, but no wrap was seen
    assert "wraps predicted: recurrent 0.8 (of 9)" in found.findings["freeway"].number


class Asked(Evidence):
    """Evidence without results that remembers which files were asked for."""

    def __init__(self) -> None:
        super().__init__(())
        self.results = []
        self.names: set[str] = set()

    def named(self, *names: str) -> Iterator[Result]:
        self.names |= set(names)
        return super().named(*names)


@pytest.mark.parametrize("claim", CLAIMS, ids=[str(claim.number) for claim in CLAIMS])
def test_the_advised_command_makes_what_the_judge_reads(claim: Claim, tmp_path: Path) -> None:
    asked = Asked()
    claim.judge(asked, claim.about[0])
    if claim.part:
        assert not claim.command
        steps = make_plan(ReproduceConfig(out=tmp_path, games=claim.about, scale="paper", only=(claim.part,))).steps
        assert asked.names & {Path(step.result).name for step in steps}
    elif "pytest" in claim.command:
        assert not asked.names  # counted, not read
    else:
        made = {"python -m benchmarks.deconvolution": "deconvolution.json"}
        assert asked.names == {made.get(claim.command, "agent-evaluation.json")}
        assert claim.command in made or "acvp agent evaluate" in claim.command
