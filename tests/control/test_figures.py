"""Legends of control and exploration figures: words that a reader knows, and no name twice."""

from __future__ import annotations

from typing import Any

from acvp.control.figures import control_figure, first_reward_figure, learning_figure


def score(mean: float, **more: Any) -> dict[str, Any]:
    return {"mean": mean, "standard_error": 0.5, **more}


def legend(figure: Any) -> list[str]:
    return sorted(text.get_text() for text in figure.axes[0].get_legend().get_texts())


def test_learning_curves_name_random_exploration_and_random_actions_apart() -> None:
    points = [score(1.0, step=0, scores=[1.0]), score(2.0, step=10, scores=[2.0])]
    strategy = {"runs": [{"points": points}], "curve": points}
    references = {"constant": score(3.0, action="UP"), "random": score(0.0)}
    body = {"game": "toy", "strategies": {"random": strategy, "informed-model": strategy}, "references": references}
    shown = ["holding UP", "informed by the predictor, 1 seed", "random actions", "random exploration, 1 seed"]
    assert legend(learning_figure(body)) == shown


def test_the_control_figure_names_its_references() -> None:
    body = {
        "horizons": [1, 10], "runs": {"mine": [score(2.0, horizon=1), score(1.0, horizon=10)]}, "agent": "toy",
        "game": "toy", "episodes": 3, "epsilon": 0.05, "emulator": score(4.0), "constant": score(3.0, action="UP"),
        "random": score(0.0),
    }  # fmt: skip
    assert legend(control_figure(body)) == ["holding UP", "mine", "random actions", "real frames"]


def test_the_first_reward_figure_names_strategies() -> None:
    result = {"first_reward": [5, 7], "median": 6, "never": 0}
    sources = {"random": result, "constant": result | {"action": "UP"}, "informed-emulator": result}
    body = {"sources": sources, "max_steps": 100, "game": "toy", "seeds": 2}
    figure = first_reward_figure(body | {"look_ahead": 1, "kernel": {"delta": 0, "sigma": 1, "memory": 2}})
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert names == ["random exploration", "holding UP", "informed by the emulator"]
