"""The claims: a conclusion follows from the numbers in result files by its rule, and nothing is said without them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acvp.cli.main import main
from acvp.errors import UserError
from acvp.reproduce.claims import CLAIMS, Claim
from acvp.reproduce.conclusions import Row, counts, judge_claim, judge_claims, left_out, page
from acvp.reproduce.config import ReproduceConfig
from acvp.reproduce.evidence import Evidence, Result, apart
from acvp.reproduce.plan import make_plan
from acvp.reproduce.prediction_claims import parameters

NETS = ("feedforward", "recurrent", "no-action", "mlp")


def write(folder: Path, name: str, body: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"provenance": {"command": ["__main__.py", "some", "verb"]}}
    (folder / name).write_text(json.dumps(origin | body))
    return folder


def band(mean: float, low: float | None = None, high: float | None = None) -> dict[str, list[float]]:
    """Return a curve that is the same at two steps."""
    return {
        "mean": [mean] * 2,
        "low": [mean if low is None else low] * 2,
        "high": [mean if high is None else high] * 2,
    }


def evaluation(errors: dict[str, float], game: str = "ALE/Freeway-v5", **more: Any) -> dict[str, Any]:
    """Return what evaluation.json holds of some models: their errors, known within ± 0.5."""
    curves = {name: {"error": band(error, error - 0.5, error + 0.5)} for name, error in errors.items()}
    return {"game": game, "horizon": 2, "curves": curves} | more


def paired(first: str, second: str, low: float, high: float) -> dict[str, Any]:
    """Return the difference of two models at both steps."""
    pair = {"first": first, "second": second, "mean": [0.0] * 2, "low": [low] * 2, "high": [high] * 2}
    return {"steps": [1, 2], "metrics": {"error": [pair]}}


def row(folder: Path, number: int) -> Row:
    return judge_claim(CLAIMS[number - 1], Evidence([folder]))


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


def test_results_of_the_first_folder_count(tmp_path: Path) -> None:
    for name, error in (("one", 1.0), ("two", 7.0)):
        write(tmp_path / name, "evaluation.json", evaluation({"mlp": error, "mean-frame": 8.0}))
    for names, holds in (("one", "two"), False), (("two", "one"), True):
        found = judge_claim(CLAIMS[7], Evidence([tmp_path / name for name in names]))
        assert found.findings["freeway"].holds is holds


def test_a_folder_inside_another_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "one", "evaluation.json", evaluation({"mlp": 1.0}))
    assert len(Evidence([tmp_path / "one", tmp_path]).results) == 1


def test_compute_is_that_of_the_models_in_the_same_result(tmp_path: Path) -> None:
    for name, minutes in (("one", 10), ("two", 30), (".", 90)):
        (tmp_path / name / "mlp").mkdir(parents=True)
        line = json.dumps({"step": 1200, "seconds": 60 * minutes})
        (tmp_path / name / "mlp" / "metrics.jsonl").write_text(f"{line}\n")
    for name in ("one", "two"):
        write(tmp_path / name, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}))
    write(tmp_path / "two" / "control", "control.json", control({"feedforward": 50.0}, GAMES[0]))
    computes = [result.compute("mlp", "recurrent") for result in Evidence([tmp_path]).of("evaluation.json", "freeway")]
    assert computes == ["mlp 1,200 updates in 0:10:00", "mlp 1,200 updates in 0:30:00"]
    assert row(tmp_path, 16).findings["freeway"].compute == "feedforward (not recorded)"
    (tmp_path / "two" / "mlp").rename(tmp_path / "two" / "feedforward")  # the run is beside the result's folder
    assert row(tmp_path, 16).findings["freeway"].compute == "feedforward 1,200 updates in 0:30:00"
    described = evaluation({"mlp": 1.0}, models={"mlp": {"compute": "7 updates in 0:00:01 on some machine"}})
    assert Result(tmp_path / "evaluation.json", described).compute("mlp") == "mlp 7 updates in 0:00:01"


def test_commands_have_the_names_of_options_of_today() -> None:
    words = ["__main__.py", "control", "--depths", "1", "--max-decisions", "9", "depths"]
    result = Result(Path("x"), {"provenance": {"command": words}})
    assert result.command == "acvp control --horizons 1 --max-steps 9 depths"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("acvp explore --run freeway --out x", "acvp explore --predictor freeway --out x"),
        ("acvp analyze --run runs/a --data b", "acvp analyze --predictor runs/a --data b"),
        ("acvp control --runs a b", "acvp control --predictors a b"),
        ("acvp agent compare --runs a b", "acvp agent compare --runs a b"),
        ("acvp agent train --store a --run b", "acvp agent train --data a --run b"),
        ("acvp agent evaluate --agent runs/agents/dreamer", "acvp agent evaluate --agent runs/agents/imagined"),
        ("pixel.py --games freeway", "python -m benchmarks.pixel --games freeway"),
    ],
)
def test_commands_have_no_alias_of_an_option_and_no_retired_word(words: str, command: str) -> None:
    assert Result(Path("x"), {"provenance": {"command": words.split()}}).command == command


def test_the_command_of_a_packaged_agent_can_be_run(tmp_path: Path) -> None:
    origin = {"command": "python -m benchmarks.agents, with options", "seed": 3}
    body = {"provenance": origin, "minutes": 45.0, "agents": {"freeway": {"agent": scored(30.0)}}}
    write(tmp_path, "agents.json", body)
    command = row(tmp_path, 30).findings["freeway"].command
    assert command == "python -m benchmarks.agents --games freeway --minutes 45 --seed 3"


def control(scores: dict[str, float], game: str, emulator: float = 100.0) -> dict[str, Any]:
    """Return what control.json holds: scores with a standard error of 1, at 10 and at 100 steps."""
    points = {name: [{"horizon": n, **scored(mean)} for n in (10, 100)] for name, mean in scores.items()}
    constant = {"action": "UP", **scored(20.0)}
    return {"game": game, "runs": points, "emulator": scored(emulator), "random": scored(10.0), "constant": constant}


def scored(mean: float) -> dict[str, float]:
    return {"mean": mean, "standard_error": 1.0}


GAMES = ("ALE/Freeway-v5", "ALE/Qbert-v5", "ALE/Seaquest-v5", "ALE/SpaceInvaders-v5", "ALE/MsPacman-v5")


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


def learning(informed: float, random: float, error: float | None = 1.0) -> dict[str, Any]:
    def curve(mean: float) -> dict[str, Any]:
        return {"runs": [{}], "curve": [{"step": 100, "mean": mean, "standard_error": error}]}

    strategies = {"informed-model": curve(informed), "random": curve(random)}
    return {"game": GAMES[0], "strategies": strategies, "references": {"constant": {"action": "UP", **scored(20.0)}}}


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


def measure(**models: tuple[float, float, float]) -> dict[str, Any]:
    """Return a measure of single claims in steps 1 to 10: mean, low and high by model."""
    parts = ("mean", "low", "high")
    plain = {name: {part: [value] for part, value in zip(parts, three, strict=True)} for name, three in models.items()}
    return {"models": {name: values | {"count": [9]} for name, values in plain.items()}}


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


def flat(mean: float, steps: int = 500, spread: float = 0.01) -> dict[str, list[float]]:
    """Return a curve of many equal steps."""
    return {"mean": [mean] * steps, "low": [mean - spread] * steps, "high": [mean + spread] * steps}


def kept(feedforward: float, recurrent: float, wraps: float = 0.9) -> dict[str, Any]:
    """Return an evaluation over 500 steps: share of windows that keep the object, and steps until it is lost.

    The recurrent network predicts the last 8 of 9 wraps with probability ``wraps``.
    """
    shares = {"feedforward": feedforward, "recurrent": recurrent}
    wrapped = {"mean": [0.0, wraps], "low": [None] * 2, "high": [None] * 2, "count": [1, 8]}
    return {
        "game": GAMES[0],
        "claims": {"wrap_kept": {"models": {"recurrent": wrapped}}},
        "horizon": 500,
        "curves": {name: {"error": flat(1.0), "object_kept": flat(share)} for name, share in shares.items()},
        "steps": {name: {"kept_steps": flat(500 * share, 1)} for name, share in shares.items()},
    }


def futures(**accuracies: float) -> dict[str, Any]:
    runs = {name.replace("_", "-"): {"accuracy": flat(value, 1)} for name, value in accuracies.items()}
    return {"game": GAMES[0], "runs": runs, "chance": flat(0.33, 1)}


def analysis(same: float, opposite: float, p: float = 0.001, action: float = 0.9) -> dict[str, Any]:
    pairs = {"same direction": {"mean": same, "p": p}, "opposite": {"mean": opposite, "p": p}}
    explained = {"Action": two(action, 0.1), "Non-Action": two(0.2, 0.9)}
    return {
        "game": GAMES[2],
        "run": "feedforward",
        "similarity": {"tables": {"W^a": {"as_learned": {"pairs": pairs}}}},
        "controlled": {"explained": explained},
    }


def two(first: float, second: float) -> dict[str, list[float]]:
    return {part: [first, second] for part in ("mean", "low", "high")}


def agent(mean: float, training: str = "DQN in 0:45:00 on a core") -> dict[str, Any]:
    references = {"constant": {"action": "UP", **scored(20.0)}}
    return {"env_id": GAMES[0], "training": training, "references": references, **scored(mean)}


def compared(model: float, emulator: float) -> dict[str, Any]:
    body = learning(model, 0.0)
    body["strategies"]["informed-emulator"] = body["strategies"].pop("random")
    body["strategies"]["informed-emulator"]["curve"][0]["mean"] = emulator
    return body


def explored(informed: list[int], cells: list[int], predictor: str = "freeway/gray") -> dict[str, Any]:
    sources = {
        name: {"first_reward": rewards, "median": 1.0, "never": 0, "cells": visited}
        for name, rewards, visited in (("informed-model", informed, cells), ("random", [100, 100], [5, 6]))
    }
    command = ["acvp", "explore", "--predictor", predictor]
    shape = {"game": GAMES[0], "max_steps": 1000, "map_steps": 10, "seeds": 2}
    return shape | {"sources": sources, "provenance": {"command": command}}


def measured(measure_name: str, game: str, **models: tuple[float, float, float]) -> dict[str, Any]:
    return evaluation(dict.fromkeys(NETS, 1.0), game, claims={measure_name: measure(**models)})


def beside_copy(measure_name: str, game: str, copied: float) -> dict[str, Any]:
    """Return a measure of the recurrent network, at least 0.6, and of copying the last frame."""
    models = {"recurrent": (0.8, 0.6, 0.9), "copy-last-frame": (copied,) * 3}
    return measured(measure_name, game, **models)


def sizes(small: float, large: float) -> dict[str, Any]:
    found = {"small_found": measure(feedforward=(small,) * 3), "large_found": measure(feedforward=(large,) * 3)}
    return evaluation(dict.fromkeys(NETS, 1.0), GAMES[3], claims=found)


def at_65(recurrent: float) -> dict[str, Any]:
    errors = {"feedforward": 4.0, "recurrent": recurrent}
    return {"game": GAMES[1], "horizon": 100, "curves": {name: {"error": flat(e, 100)} for name, e in errors.items()}}


def recorded(policy: str) -> dict[str, Any]:
    return evaluation(
        {"feedforward": 1.0}, models={"feedforward": {"data": f"9 frames, policy {policy}, store digest"}}
    )


def timed(low: float) -> dict[str, Any]:
    return {"times_faster": {"low": low, "median": 5.0}, "compute": "9 repetitions"}


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


def test_two_standard_errors_of_the_difference_set_scores_apart() -> None:
    one = {"mean": 10.0, "standard_error": 3.0}
    assert apart(one, {"mean": 0.1, "standard_error": 4.0}) == 0
    assert apart(one, {"mean": -0.1, "standard_error": 4.0}) == 1
    assert apart(one, {"mean": 20.1, "standard_error": 4.0}) == -1


def test_the_command_writes_json_and_a_page_with_every_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in", "evaluation.json", evaluation(dict.fromkeys(NETS, 1.0)))
    assert main(["claims", "--results", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert "not run: 2" in capsys.readouterr().out
    body = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [claim["number"] for claim in body["claims"]] == list(range(1, 32))
    assert sum(body["conclusions"].values()) == 31
    text = (tmp_path / "out" / "claims.md").read_text()
    assert all(f"### Claim {number}\n" in text for number in range(1, 32))
    assert "- *freeway*: `acvp some verb`, [result](../in/evaluation.json)" in text
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(lines) == 31
    assert {line.count(" | ") for line in lines} == {5}


def test_a_page_escapes_what_would_end_a_cell(tmp_path: Path) -> None:
    models = {"mlp": {"compute": "5 | 6 updates on a machine"}}
    write(tmp_path, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}, models=models))
    assert "| mlp 5 \\| 6 updates | **refuted at this compute**" in page([row(tmp_path, 8)], tmp_path)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        Evidence([tmp_path / "none"])


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text("{")
    with pytest.raises(UserError, match=r"control\.json: damaged"):
        judge_claims(Evidence([tmp_path]))


FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("evaluation", {"game": GAMES[0], "horizon": 500, "curves": []}),
    ("evaluation", {"game": GAMES[0], "horizon": "far", "curves": {"mlp": 5}}),
    ("evaluation", {"game": GAMES[0], "horizon": 500, "curves": {"mlp": {"error": {}}, "mean-frame": {"error": {}}}}),
    ("control", {"game": GAMES[0], "runs": {"feedforward": [{"mean": 1.0}]}}),
    ("learning", {"game": GAMES[0], "strategies": 5}),
    ("explore", {"game": GAMES[0]}),
    ("analysis", {"game": GAMES[0], "run": "feedforward", "controlled": 1}),
    ("agents", {"agents": 5}),
    ("deconvolution", {}),
    ("counterfactual", {"game": GAMES[0], "runs": {"feedforward": {"accuracy": flat(0.5, 1)}}}),
]
"""Valid JSON that acvp never wrote."""


@pytest.mark.parametrize(("name", "body"), FOREIGN)
def test_a_result_of_another_shape_is_left_out_and_named(
    name: str, body: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, foreign = tmp_path / "b", tmp_path / "a"
    write(good, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}))
    write(foreign, f"{name}.json", body)
    rows = judge_claims(Evidence([tmp_path]))
    assert rows[7].findings["freeway"].file == good / "evaluation.json"
    assert main(["claims", "--results", str(tmp_path), "--out", str(tmp_path)]) == 0
    printed = "".join(capsys.readouterr().out.split())
    named = left_out(rows)
    assert set(named) == {foreign / f"{name}.json"}
    for file in named:
        assert f"leftout:{file}:notasthisversion" in printed


def test_two_results_that_do_not_fit_together_are_both_named(tmp_path: Path) -> None:
    write(tmp_path, "evaluation.json", evaluation({"no-action": 1.0, "copy-last-frame": 5.0}))
    write(tmp_path, "counterfactual.json", {"game": GAMES[0], "runs": {"no-action": {}}})
    found = row(tmp_path, 7)
    assert found.conclusion == "not run"
    assert {file.name for file in found.left_out} == {"evaluation.json", "counterfactual.json"}
    assert "- left out: counterfactual.json: not as this version of acvp writes it (KeyError" in page([found], tmp_path)


def test_names_and_texts_of_results_are_no_markup_in_the_page(tmp_path: Path) -> None:
    bad, good = tmp_path / "a\x1b[31m<b>\n# A title" / "folder", tmp_path / "z) [x](y"
    write(bad, "deconvolution.json", {"a": 1})
    body = evaluation({"mlp": 1.0, "mean-frame": 8.0})
    write(good, "evaluation.json", body | {"provenance": {"command": "acvp `evaluate`\n# Another\x1b[1m"}})
    written = page(judge_claims(Evidence([tmp_path])), tmp_path)
    assert [line for line in written.splitlines() if line.startswith("#")][1:] == [
        f"### Claim {claim.number}" for claim in CLAIMS
    ]
    assert "\x1b" not in written
    assert r"- left out: a\x1b[31m&lt;b> # A title/folder/deconvolution.json: not as this version" in written
    assert r"`acvp 'evaluate'\n# Another\x1b[1m`, [result](z%29%20%5Bx%5D%28y/evaluation.json)" in written


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


@pytest.mark.parametrize(
    ("env_id", "name"),
    [("ALE/Freeway-v5", "freeway"), ("acvp/Toy-v0", "toy"), ("other/Game-v1", "other-Game-v1"), ("", "")],
)
def test_results_are_found_by_the_name_of_their_game(env_id: str, name: str, tmp_path: Path) -> None:
    write(tmp_path, "evaluation.json", evaluation({"mlp": 1.0}, env_id))
    assert [result.game for result in Evidence([tmp_path]).results] == [name]
