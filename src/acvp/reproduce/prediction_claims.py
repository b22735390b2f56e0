"""Judges of the claims about networks, training and predicted frames (§3, §4.1, appendix D).

A judge takes the evidence and a game, and returns a finding, or None where nothing was run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import torch

from acvp.console import banded, number
from acvp.models import build_predictor, find_class
from acvp.reproduce.evidence import Evidence, Finding, Result, finding

RGB, GRAY = (210, 160, 3), (84, 84, 1)
PUBLISHED = {"feedforward": 57_214_787, "recurrent": 90_740_547}
"""Parameters of the RGB networks with 3 actions, by appendix A."""
NETS, BASELINES, COPY = ("feedforward", "recurrent"), ("no-action", "mlp"), "copy-last-frame"
FIRST_RANGE = 0
"""Index of steps 1 to 10 in the measures of single claims."""
HALF = 0.5
NEAR_MEAN = 0.8
"""Share of the mean frame's error from which on a prediction counts as the mean image."""
SMALL_GAP = 0.2
"""Difference to naFf, as a share of naFf's error, up to which it is small."""
OF_AN_AGENT = re.compile(r"agent:[^;]*ε = 0\.3(?!\d)")
"""In the description of a dataset: it is that of an agent with 30 % random actions."""


@cache
def parameters(kind: str, frame: tuple[int, int, int], actions: int = 3) -> int:
    """Return the number of parameters of a network of the paper, without allocating them."""
    network = find_class(kind)
    sizes = {name: value for name, value in network.sizes("paper", frame).items() if name not in ("frame", "actions")}
    with torch.device("meta"):
        predictor = build_predictor(network.config_class(frame=frame, actions=actions, **sizes))
    return sum(weight.numel() for weight in predictor.parameters())


def sizes(evidence: Evidence, game: str) -> Finding:
    """Claim 1: the networks have as many parameters as appendix A says."""
    ours = {kind: parameters(kind, RGB) for kind in PUBLISHED}
    return Finding(
        holds=ours == PUBLISHED,
        number=", ".join(f"{kind} {count:,} parameters" for kind, count in ours.items()),
        compute="none: counted",
        command="pytest tests/models/test_network_sizes.py",
    )


def deconvolution(evidence: Evidence, game: str) -> Finding | None:
    """Claim 2: strided deconvolution is cheaper than upsampling and convolution."""
    for result in evidence.named("deconvolution.json"):
        ratio = result.body["times_faster"]
        return finding(result, ratio["low"] > 1, f"{number(ratio['median'])} times as fast", result.body["compute"])
    return None


def curriculum(evidence: Evidence, game: str) -> Finding | None:
    """Claim 3: training that starts with several steps is worse than the curriculum."""
    starts = ("direct-3", "direct-5")
    result = evidence.evaluation(game, "feedforward", *starts)
    present = [name for name in starts if result is not None and result.curve(name, "error") is not None]
    if result is None or not present:
        return None
    last = result.body["horizon"]
    orders = [result.order("error", "feedforward", name, last) for name in present]
    values = [f"{name} {result.at(name, 'error', last)}" for name in ("feedforward", *present)]
    return finding(
        result,
        all(order == -1 for order in orders),
        f"error at step {last}: {', '.join(values)}",
        result.compute("feedforward") + ", each",
        "error.png",
    )


def dataset(evidence: Evidence, game: str) -> Finding | None:
    """Claim 4: the data is that of a DQN at ε = 0.3."""
    result = evidence.evaluation(game, *NETS, *BASELINES)
    described = (result.body.get("models", {}) if result else {}).values()
    data = next((model["data"] for model in described if "data" in model), None)
    if result is None or data is None:
        return None
    return finding(result, OF_AN_AGENT.search(data) is not None, data.partition(", store digest")[0], "none: recorded")


def equal_sizes(evidence: Evidence, game: str) -> Finding:
    """Claim 5: the MLP has about as many parameters as the recurrent network."""
    ratios = {name: parameters("mlp", frame) / parameters("recurrent", frame) for name, frame in FRAMES.items()}
    return Finding(
        holds=all(0.9 <= ratio <= 1.1 for ratio in ratios.values()),
        number=", ".join(f"{name} {number(ratio)} times as many" for name, ratio in ratios.items()),
        compute="none: counted",
        command="pytest tests/models/test_network_sizes.py",
    )


FRAMES = {"RGB": RGB, "gray": GRAY}


def long_run(evidence: Evidence, game: str, step: int = 250) -> Finding | None:
    """Claim 6: the controlled object is right for 250 steps and more, also when it wraps."""
    result = evidence.evaluation(game, *NETS, horizon=step, metric="object_kept")
    if result is None:
        return None
    values = [f"{kind} {result.at(kind, 'object_kept', step)}" for kind in NETS]
    keeps = [kind for kind in NETS if (curve := result.curve(kind, "object_kept")) and _share(curve, step) >= HALF]
    wraps = {kind: share for kind in NETS if (share := _of_all_steps(result, "wrap_kept", kind))}
    wrapped = [kind for kind in keeps if kind in wraps and wraps[kind][0] > HALF]
    known = not keeps or wraps.keys() >= set(keeps)
    text = ", ".join(f"{kind} {number(share)} (of {count})" for kind, (share, count) in wraps.items())
    return finding(
        result,
        bool(wrapped) if known or wrapped else None,
        f"object kept at step {step}: {', '.join(values)}; wraps predicted: {text or 'none seen'}",
        result.compute(*NETS),
        "0.png",
        "object_kept.png",
    )


def _share(curve: Mapping[str, Any], step: int) -> float:
    return float(curve["mean"][step - 1] or 0.0)


def _of_all_steps(result: Result, measure: str, kind: str) -> tuple[float, int] | None:
    """Return the mean of a measure of single claims over all ranges of steps, and of how many it is; None: of none."""
    values = _model_measures(result, measure, kind)
    counts = values["count"] if values else []
    if values is None or not sum(counts):
        return None
    return sum((mean or 0.0) * count for mean, count in zip(values["mean"], counts, strict=True)) / sum(counts), sum(
        counts
    )


def _measured(result: Result, measure: str, kinds: tuple[str, ...], index: int = FIRST_RANGE) -> str:
    """Return a measure of single claims in a range of steps, as text; empty where there is none."""
    measured = {kind: values for kind in kinds if (values := _measure(result, measure, kind, index))}
    return ", ".join(
        f"{kind} {banded(values, index)} (of {values['count'][index]})" for kind, values in measured.items()
    )


def _measure(result: Result, measure: str, kind: str, index: int = FIRST_RANGE) -> Mapping[str, Any] | None:
    values = _model_measures(result, measure, kind)
    return values if values and len(values["count"]) > index and values["count"][index] else None


def _model_measures(result: Result, measure: str, kind: str) -> Mapping[str, Any] | None:
    measures = result.body.get("claims", {}).get(measure, {}).get("models", {})
    values: Mapping[str, Any] | None = measures.get(result.model(kind) or kind)
    return values


def no_action(evidence: Evidence, game: str) -> Finding | None:
    """Claim 7: without the action the others still move, the controlled object does not follow."""
    result, futures = evidence.evaluation(game, "no-action"), _futures(evidence, game, "no-action")
    if result is None or futures is None:
        return None
    step = min(30, result.body["horizon"])
    accuracy, chance = _accuracy(futures, "no-action"), futures.body["chance"]
    moves = result.order("error", "no-action", "copy-last-frame", step) == -1
    return finding(
        result,
        moves and accuracy["low"][0] <= chance["high"][0],
        f"counterfactual accuracy {banded(accuracy, 0)}, chance {banded(chance, 0)}; error at step {step} "
        f"{result.at('no-action', 'error', step)}, copy-last-frame {result.at('copy-last-frame', 'error', step)}",
        result.compute("no-action"),
        "object_kept.png",
    )


def _futures(evidence: Evidence, game: str, *kinds: str) -> Result | None:
    """Return the counterfactual futures of a game in which some kind of model is."""
    results = evidence.of("counterfactual.json", game)
    return next((result for result in results if any(result.model(kind) for kind in kinds)), None)


def _accuracy(result: Result, kind: str) -> Mapping[str, Any]:
    accuracy: Mapping[str, Any] = result.body["runs"][result.model(kind)]["accuracy"]
    return accuracy


def mlp_fails(evidence: Evidence, game: str) -> Finding | None:
    """Claim 8: the MLP ends at the mean image, or diverges."""
    result = evidence.evaluation(game, "mlp")
    mean = result.curve("mean-frame", "error") if result else None
    curve = result.curve("mlp", "error") if result else None
    if result is None or curve is None or mean is None:
        return None
    last = result.body["horizon"]
    return finding(
        result,
        curve["mean"][last - 1] >= NEAR_MEAN * mean["mean"][last - 1],
        f"error at step {last}: MLP {result.at('mlp', 'error', last)}, mean frame {number(mean['mean'][last - 1])}, "
        f"copy-last-frame {result.at('copy-last-frame', 'error', last)}",
        result.compute("mlp"),
        "error.png",
    )


def figure_3(evidence: Evidence, game: str) -> Finding | None:
    """Claim 9: both networks have a smaller error than both baselines."""
    result = evidence.evaluation(game, *NETS, *BASELINES)
    if result is None:
        return None
    last = result.body["horizon"]
    pairs = [(net, baseline) for net in NETS for baseline in BASELINES]
    orders = {pair: result.order("error", *pair, last) for pair in pairs}
    known = [order for order in orders.values() if order is not None]
    if not known:
        return None
    values = [f"{kind} {result.at(kind, 'error', last)}" for kind in (*NETS, *BASELINES)]
    missing = None if len(known) < len(pairs) else True
    return finding(
        result,
        missing if all(order == -1 for order in known) else False,
        f"error at step {last}: {', '.join(values)}",
        result.compute(*NETS),
        "error.png",
    )


def gap(evidence: Evidence, game: str) -> Finding | None:
    """Claim 10: the difference between the feedforward network and naFf; small, except in Seaquest."""
    result = evidence.evaluation(game, "feedforward", "no-action")
    ours, other = (result.curve(kind, "error") if result else None for kind in ("feedforward", "no-action"))
    if result is None or ours is None or other is None:
        return None
    last = result.body["horizon"]
    share = 1 - ours["mean"][last - 1] / other["mean"][last - 1]
    return finding(
        result,
        (share > SMALL_GAP) == (game == "seaquest"),
        f"{share:.0%} below naFf at step {last}",
        result.compute("feedforward"),
        "error.png",
    )


def collisions(evidence: Evidence, game: str) -> Finding | None:
    """Claim 11: collisions are predicted."""
    return _above_half(evidence, game, "collision_kept", "collision predicted")


def new_objects(evidence: Evidence, game: str) -> Finding | None:
    """Claim 13: new objects appear."""
    return _above_half(evidence, game, "large_found", "larger things that appear, found")


def _above_half(evidence: Evidence, game: str, measure: str, words: str) -> Finding | None:
    result = evidence.evaluation(game, *NETS)
    if result is None or not _measured(result, measure, NETS):
        return None
    lows = [values["low"][FIRST_RANGE] for kind in NETS if (values := _measure(result, measure, kind))]
    least = max(HALF, _first(_measure(result, measure, COPY)))
    text = f"{words}, steps 1–10: {_measured(result, measure, (*NETS, COPY))}"
    return finding(result, max(low or 0.0 for low in lows) > least, text, result.compute(*NETS), "0.png")


def small_things(evidence: Evidence, game: str) -> Finding | None:
    """Claim 12: small things are missed more often than larger ones."""
    result = evidence.evaluation(game, *NETS)
    if result is None:
        return None
    small, large = (_measured(result, f"{size}_found", NETS) for size in ("small", "large"))
    pairs = [(_measure(result, "small_found", kind), _measure(result, "large_found", kind)) for kind in NETS]
    known = [(smaller, larger) for smaller, larger in pairs if smaller and larger]
    if not known:
        return None
    holds = all(smaller["high"][FIRST_RANGE] < larger["low"][FIRST_RANGE] for smaller, larger in known)
    compute = result.compute(*NETS)
    return finding(result, holds, f"found in steps 1–10: small {small}; larger {large}", compute, "0.png")


def translation(evidence: Evidence, game: str) -> Finding | None:
    """Claim 14: the feedforward network places the object more precisely than the recurrent one."""
    result = evidence.evaluation(game, *NETS)
    ours, other = (_measure(result, "translation", kind) if result else None for kind in NETS)
    if result is None or ours is None or other is None:
        return None
    compute = result.compute(*NETS)
    text = f"pixels off in steps 1–10: {_measured(result, 'translation', NETS)}"
    return finding(result, ours["high"][FIRST_RANGE] < other["low"][FIRST_RANGE], text, compute, "0-crop.png", "0.png")


def march(evidence: Evidence, game: str) -> Finding | None:
    """Claim 15: the recurrent network knows when the invaders move, the feedforward one does not."""
    result = evidence.evaluation(game, *NETS)
    seen = {kind: _measure(result, "march_seen", kind) for kind in NETS} if result else {}
    false = {kind: _measure(result, "march_false", kind) for kind in NETS} if result else {}
    if result is None or not all((*seen.values(), *false.values())):
        return None
    gains = [_first(seen[kind]) - _first(false[kind]) for kind in NETS]
    text = (
        f"steps 1–10, march predicted: {_measured(result, 'march_seen', NETS)}; at a wrong step: "
        f"{_measured(result, 'march_false', NETS)}"
    )
    compute = result.compute(*NETS)
    return finding(result, gains[1] > HALF and gains[1] > gains[0], text, compute, "0.png")


def _first(values: Mapping[str, Any] | None) -> float:
    return float(values["mean"][FIRST_RANGE] or 0.0) if values else 0.0


def different_actions(evidence: Evidence, game: str) -> Finding | None:
    """Claim 26: different actions give the right different futures."""
    result = _futures(evidence, game, *NETS)
    kinds = [kind for kind in NETS if result is not None and result.model(kind)]
    if result is None or not kinds:
        return None
    chance = result.body["chance"]
    values = {kind: _accuracy(result, kind) for kind in kinds}
    text = ", ".join(f"{kind} {banded(accuracy, 0)}" for kind, accuracy in values.items())
    return finding(
        result,
        all(accuracy["low"][0] > chance["high"][0] for accuracy in values.values()),
        f"counterfactual accuracy: {text}; chance {banded(chance, 0)}",
        result.compute(*kinds),
        "counterfactual-0.png",
        "counterfactual.png",
    )


def kept_steps(evidence: Evidence, game: str) -> Finding | None:
    """Claim 27: predictions are good for hundreds of steps; measured by the steps until the object is lost."""
    result = evidence.evaluation(game, *NETS, horizon=500, metric="object_kept")
    kept = {kind: _kept(result, kind) for kind in NETS} if result else {}
    known = {kind: values for kind, values in kept.items() if values}
    if result is None or not known:
        return None
    text = ", ".join(f"{kind} {banded(values, 0)}" for kind, values in known.items())
    return finding(
        result,
        any(values["low"][0] >= 100 for values in known.values()),
        f"steps until the object is lost, of {result.body['horizon']}: {text}",
        result.compute(*known),
        "0.png",
    )


def _kept(result: Result, kind: str) -> Mapping[str, Any] | None:
    steps = result.body.get("steps", {}).get(result.model(kind) or kind, {})
    values: Mapping[str, Any] | None = steps.get("kept_steps")
    return values


def new_stage(evidence: Evidence, game: str, step: int = 500) -> Finding | None:
    """Claim 28: in Freeway the recurrent network keeps the object for 500 steps, the feedforward one does not."""
    result = evidence.evaluation(game, *NETS, horizon=step, metric="object_kept")
    order = result.order("object_kept", "recurrent", "feedforward", step) if result else None
    if result is None or order is None:
        return None
    values = ", ".join(f"{kind} {result.at(kind, 'object_kept', step)}" for kind in NETS)
    compute = result.compute(*NETS)
    return finding(result, order == 1, f"object kept at step {step}: {values}", compute, "object_kept.png")


def steps_62_to_68(evidence: Evidence, game: str, step: int = 65) -> Finding | None:
    """Claim 29: in Q*bert the recurrent network is right at steps 62 to 68, where the feedforward one diverges."""
    result = evidence.evaluation(game, *NETS, horizon=step)
    order = result.order("error", "recurrent", "feedforward", step) if result else None
    if result is None or order is None:
        return None
    values = ", ".join(f"{kind} {result.at(kind, 'error', step)}" for kind in NETS)
    compute = result.compute(*NETS)
    return finding(result, order == -1, f"error at step {step}: {values}", compute, "error.png")
