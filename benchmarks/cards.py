"""What the cards of packaged predictors say about error."""

from __future__ import annotations

from typing import Any

REFERENCES = ("copy-last-frame", "mean-frame")
SHOWN = (1, 10, 30, 100)


def describe_error(body: dict[str, Any], name: str, agent: dict[str, Any] | None = None, packaged: str = "") -> str:
    """Return wrong pixels and squared error by steps ahead, beside the two references, as a card states them.

    ``agent`` is what benchmarks.dreams measured of the packaged predictor while an agent plays.
    """
    parts = []
    for metric, title in (("wrong_pixels", "wrong pixels of {:,}"), ("error", "squared error (the paper's scale)")):
        curves = {model: body["curves"][model][metric]["mean"] for model in (name, *REFERENCES)}
        own = ", ".join(f"{significant(curves[name][k - 1])} at {k}" for k in SHOWN)
        beside = "; ".join(
            f"{model} {', '.join(significant(curves[model][k - 1]) for k in SHOWN)}" for model in REFERENCES
        )
        parts.append(f"{title.format(body['frame'][0] * body['frame'][1])} by steps ahead: {own} ({beside})")
    missing = "an agent or a person" if agent is None else "a person"
    return (
        f"{'; '.join(parts)}; {exact_steps(body, name)} exact steps in the median; {body['windows']} windows of "
        + "sticky-random play"
        + ("" if agent is None else f"; {on_card('the packaged agent', agent, packaged)}")
        + f" (windows of {missing} were not measured)"
    )


def significant(value: float) -> str:
    """Return a number with two digits below 10, and without decimals above."""
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"


def exact_steps(body: dict[str, Any], name: str) -> int:
    """The median number of steps before the first wrong pixel."""
    share = body["curves"][name]["exact"]["mean"]
    return sum(value > 0.5 for value in share)


def on_card(driver: str, body: dict[str, Any], name: str) -> str:
    """Return the judge's numbers of one driver, as a card states them."""
    steps, curves = body["keys"]["steps"], body["curves"]
    at = ", ".join(map(str, steps))
    shares = ", ".join("–" if share is None else f"{share:.2f}" for share in body["keys"]["works"][name]["mean"])
    wrong = {
        model: ", ".join(significant(curves[model]["wrong_pixels"]["mean"][step - 1]) for step in steps)
        for model in (name, *REFERENCES)
    }
    beside = "; ".join(f"{model} {wrong[model]}" for model in REFERENCES)
    lost = median_lost(curves[name])
    seen = f"lost by step {lost} in half of them" if lost else f"kept to step {steps[-1]} in at least half of them"
    return (
        f"{body['windows']} windows while {driver} plays; keys work after {at} predicted steps in {shares}; wrong "
        f"pixels at these steps {wrong[name]} ({beside})"
    ) + (f"; controlled object {seen}" if "object_kept" in curves[name] else "")


def median_lost(curve: dict[str, Any]) -> int | None:
    """Return the step by which half of the windows have lost the controlled object; None: not within the horizon."""
    kept = curve.get("object_kept", {"mean": []})["mean"]
    return next((step for step, share in enumerate(kept, 1) if share is not None and share < 0.5), None)
