"""Judges of the claims about agents, exploration, learning, and what was learned about actions (§4.2, §4.3, §5).

A judge takes the evidence and a game, and returns a finding, or None where nothing was run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from acvp.agents.evaluate import DQN_SCORES
from acvp.compat import current_text
from acvp.console import banded, counted, number
from acvp.envs.atari import atari_games
from acvp.reproduce.evidence import Evidence, Finding, Result, apart, finding, score

NETS, BASELINES = ("feedforward", "recurrent"), ("no-action", "mlp")
FEW, MANY = 10, 100
"""Steps between resyncs at which scores are compared."""
Point = Mapping[str, Any]


def _control(evidence: Evidence, game: str, *kinds: str) -> Result | None:
    """Return the predicted play of a game with the most of some kinds of models."""
    counted = [(sum(result.model(kind) is not None for kind in kinds), result) for result in _plays(evidence, game)]
    most = max((count for count, _ in counted), default=0)
    return next((result for count, result in counted if count == most and most), None)


def _plays(evidence: Evidence, game: str) -> Iterator[Result]:
    return evidence.of("control.json", game)


def _points(result: Result, kind: str) -> dict[int, Point]:
    """Return the scores of a kind of model by horizon; empty where it was not played."""
    name = result.model(kind)
    return {point["horizon"]: point for point in result.body["runs"][name]} if name else {}


def _references(result: Result) -> str:
    body, constant = result.body, result.body.get("constant")
    held = f", constant {constant['action']} {score(constant)}" if constant else ""
    return f"real frames {score(body['emulator'])}, random {score(body['random'])}{held}"


def few_steps(evidence: Evidence, game: str) -> Finding | None:
    """Claim 16: with a few predicted steps the agent scores as with real frames."""
    result = _control(evidence, game, *NETS)
    curves = {kind: curve for kind in NETS if result and (curve := _points(result, kind))}
    if result is None or not curves:
        return None
    first = {kind: curve[min(curve)] for kind, curve in curves.items()}
    text = ", ".join(f"{kind} {score(point)} (n = {point['horizon']})" for kind, point in first.items())
    return finding(
        result,
        all(apart(point, result.body["emulator"]) >= 0 for point in first.values()),
        f"{text}; {_references(result)}",
        result.compute(*first),
        "control.png",
    )


def above_baselines(evidence: Evidence, game: str) -> Finding | None:
    """Claim 17: the networks score above the baselines."""
    result = _control(evidence, game, *NETS, *BASELINES)
    scores = {kind: _points(result, kind).get(FEW) for kind in (*NETS, *BASELINES)} if result else {}
    known = {kind: point for kind, point in scores.items() if point}
    nets, baselines = ([known[kind] for kind in kinds if kind in known] for kinds in (NETS, BASELINES))
    if result is None or not nets or not baselines:
        return None
    above = all(apart(net, baseline) == 1 for net in nets for baseline in baselines)
    whole = None if len(known) < len(scores) else True
    text = ", ".join(f"{kind} {score(point)}" for kind, point in known.items())
    compute = result.compute(*known)
    text = f"n = {FEW}: {text}; {_references(result)}"
    return finding(result, whole if above else False, text, compute, "control.png")


def above_random(evidence: Evidence, game: str) -> Finding | None:
    """Claim 18: with 100 predicted steps the agent scores above random play, and above a constant action."""
    result = _control(evidence, game, *NETS)
    known = {kind: point for kind in NETS if result and (point := _points(result, kind).get(MANY))}
    if result is None or not known:
        return None
    rivals = [result.body[name] for name in ("random", "constant") if name in result.body]
    text = ", ".join(f"{kind} {score(point)}" for kind, point in known.items())
    return finding(
        result,
        any(all(apart(point, rival) == 1 for rival in rivals) for point in known.values()),
        f"n = {MANY}: {text}; {_references(result)}",
        result.compute(*known),
        "control.png",
    )


def _learned(evidence: Evidence, game: str, *strategies: str) -> tuple[Result, list[Point]] | None:
    """Return the learning curves of a game that have some strategies, and the last point of each."""
    for result in evidence.of("learning.json", game):
        points = [point for strategy in strategies if (point := _last(result, strategy)) is not None]
        if len(points) == len(strategies):
            return result, points
    return None


def _last(result: Result, strategy: str) -> Point | None:
    curves = result.body.get("strategies", {})
    name = next((name for name in curves if name.partition(",")[0] == strategy), None)
    point: Point | None = curves[name]["curve"][-1] if name else None
    return point


def _seeds(result: Result) -> str:
    curves = result.body["strategies"].values()
    seeds = min(len(strategy["runs"]) for strategy in curves)
    steps = max(strategy["curve"][-1]["step"] for strategy in curves)
    return f"{steps:,} agent steps, {seeds} seed{'s' * (seeds > 1)} each"


def _references_of(result: Result) -> list[Point]:
    """Return the score of the best constant action, which learning has to beat; empty where it was not measured."""
    constant = result.body.get("references", {}).get("constant")
    return [constant] if constant else []


def _held(result: Result) -> str:
    return "".join(f"; constant {held['action']} {score(held)}" for held in _references_of(result))


def informed_learning(evidence: Evidence, game: str) -> Finding | None:
    """Claim 19: informed exploration improves what a DQN learns."""
    learned = _learned(evidence, game, "informed-model", "random")
    if learned is None:
        return None
    result, (informed, random) = learned
    text = f"informed {score(informed)}, random {score(random)}{_held(result)}"
    rivals = [random, *_references_of(result)]
    enough = None if _single(informed, random) else all(apart(informed, rival) == 1 for rival in rivals)
    return finding(result, enough, text, _seeds(result), "learning.png")


def _single(*points: Point) -> bool:
    """Return whether some mean is of a single seed, and has no standard error."""
    return any(point.get("standard_error") is None for point in points)


def emulator_informed(evidence: Evidence, game: str) -> Finding | None:
    """Claim 20: the model informs exploration as well as the emulator."""
    learned = _learned(evidence, game, "informed-model", "informed-emulator")
    if learned is None:
        return None
    result, (model, emulator) = learned
    text = f"by the model {score(model)}, by the emulator {score(emulator)}{_held(result)}"
    enough = None if _single(model, emulator) else apart(model, emulator) >= 0
    return finding(result, enough, text, _seeds(result), "learning.png")


def first_reward(evidence: Evidence, game: str) -> Finding | None:
    """Claim 21: informed exploration finds the first reward sooner than random exploration."""
    two = ("informed-model", "random")
    result = _explored(evidence, game, *two, "constant") or _explored(evidence, game, *two)
    if result is None:
        return None
    informed, random = (_rewards(result, name) for name in two)
    text = ", ".join(
        f"{name} {_median(result, name)}" for name in result.body["sources"] if name != "informed-emulator"
    )
    holds = max(informed) < min(random)
    longer = [other for other in evidence.of("explore.json", game) if _rewarded(other, "random")]
    text += "".join(f"; random to its end {_median(other, 'random')}" for other in longer[:1])
    return finding(result, holds, f"median agent steps: {text}", _explored_by(result), "first-reward.png")


def _rewarded(result: Result, strategy: str) -> bool:
    """Return whether every run of a strategy has found a reward."""
    source = result.body["sources"].get(strategy)
    return source is not None and not source["never"]


def _explored(evidence: Evidence, game: str, *strategies: str) -> Result | None:
    results = evidence.of("explore.json", game)
    return next((result for result in results if set(strategies) <= result.body["sources"].keys()), None)


def _rewards(result: Result, strategy: str) -> list[float]:
    """Return the agent steps to the first reward; the limit where there was none."""
    limit = float(result.body["max_steps"])
    return [limit if steps is None else float(steps) for steps in result.body["sources"][strategy]["first_reward"]]


def _median(result: Result, strategy: str) -> str:
    source = result.body["sources"][strategy]
    never = f" ({source['never']} of {len(source['first_reward'])} had none)" if source["never"] else ""
    return f"{number(source['median'])}{never}"


def _explored_by(result: Result) -> str:
    words = result.body.get("provenance", {}).get("command", [])
    named = [after for word, after in pairwise(words) if word in ("--predictor", "--run")]
    return f"{counted(result.body['seeds'], 'seed')}, at most {result.body['max_steps']:,} agent steps; predictor " + (
        named[0] if named else "none"
    )


def heat_maps(evidence: Evidence, game: str) -> Finding | None:
    """Claim 22: informed exploration reaches more of the screen than random exploration."""
    result = _explored(evidence, game, "informed-model", "random")
    cells = [result.body["sources"][name].get("cells") for name in ("informed-model", "random")] if result else []
    if result is None or not all(cells):
        return None
    informed, random = cells
    text = (
        f"cells visited in {result.body['map_steps']:,} steps: informed {_listed(informed)}, random {_listed(random)}"
    )
    return finding(result, min(informed) > max(random), text, _explored_by(result), "heat-maps.png")


def _listed(values: list[int]) -> str:
    return f"{min(values)}–{max(values)}" if min(values) < max(values) else str(values[0])


def gray_network(evidence: Evidence, game: str) -> Finding | None:
    """Claim 23: the gray 1-step network is good enough to inform exploration."""
    for result in evidence.of("explore.json", game):
        by = _explored_by(result)
        if {"informed-model", "random"} <= result.body["sources"].keys() and by.endswith(("feedforward", "gray")):
            informed, random = (_rewards(result, name) for name in ("informed-model", "random"))
            text = f"median agent steps to the first reward: informed {_median(result, 'informed-model')}, random "
            holds = sorted(informed)[len(informed) // 2] < sorted(random)[len(random) // 2]
            return finding(result, holds, text + _median(result, "random"), by, "first-reward.png")
    return None


def agent_scores(evidence: Evidence, game: str) -> Finding | None:
    """Claim 30: the scores of the DQN."""
    agent = _agent(evidence, game)
    env_id = next((env_id for env_id, name in atari_games().items() if name == game), "")
    if agent is None or env_id not in DQN_SCORES:
        return None
    result, point, training, references = agent
    mean, error = DQN_SCORES[env_id]
    paper = {"mean": mean, "standard_error": error}
    text = f"{score(point)} (paper {score(paper)}){_beside(references)}"
    return finding(result, apart(point, paper) >= 0, text, training, command=_agents_command(result, game))


def _beside(references: Mapping[str, Any]) -> str:
    """Return the scores of random play and of the best constant action, where they were measured."""
    random, constant = references.get("random"), references.get("constant")
    texts = [f"random {score(random)}"] if random else []
    texts += [f"constant {constant['action']} {score(constant)}"] if constant else []
    return f"; {', '.join(texts)}" if texts else ""


def _agent(evidence: Evidence, game: str) -> tuple[Result, Point, str, Mapping[str, Any]] | None:
    """Return the score of the agent of a game that learned in the real game, what its training took, and references."""
    for result in evidence.named("agents.json", "agent-evaluation.json"):
        if result.file.name == "agents.json" and game in result.body.get("agents", {}):
            about = result.body["agents"][game]
            return result, about["agent"], f"{result.body['minutes']:g} minutes of one core", about
        if result.file.name == "agent-evaluation.json" and result.game == game and not _imagined(result):
            return result, result.body, _training(result), result.body.get("references") or {}
    return None


def _agents_command(result: Result, game: str) -> str | None:
    """Return the command that makes one agent of agents.json, which has been written by several; None: another file."""
    if result.file.name != "agents.json":
        return None
    seed = result.body["provenance"]["seed"]
    return f"python -m benchmarks.agents --games {game} --minutes {result.body['minutes']:g} --seed {seed}"


def _training(result: Result) -> str:
    """Return what the training of an agent took."""
    return current_text(str(result.body.get("training", "not recorded")).partition(" on ")[0])


def _imagined(result: Result) -> bool:
    return "inside the predictor" in str(result.body.get("training", ""))


def imagined(evidence: Evidence, game: str) -> Finding | None:
    """Claim 31: an agent that learned inside the predictor alone plays the real game better than a constant action."""
    for result in evidence.of("agent-evaluation.json", game):
        constant = (result.body.get("references") or {}).get("constant")
        if _imagined(result) and constant:
            text = f"{score(result.body)}; constant {constant['action']} {score(constant)}"
            better = apart(result.body, constant) == 1
            return finding(result, better, text, _training(result), "learning-curve.png")
    return None


def similar_actions(evidence: Evidence, game: str) -> Finding | None:
    """Claim 24: factors of actions in one direction are alike, of opposite ones opposed."""
    result = _analysis(evidence, game, "feedforward")
    tables = result.body.get("similarity", {}).get("tables", {}) if result else {}
    pairs = tables.get("W^a", {}).get("as_learned", {}).get("pairs", {})
    same, opposite = pairs.get("same direction"), pairs.get("opposite")
    if result is None or not same or not opposite:
        return None
    holds = same["mean"] > 0 > opposite["mean"] and max(same["p"], opposite["p"]) < 0.05
    text = f"cosine, same direction {same['mean']:+.2f} (p = {same['p']:g}), opposite {opposite['mean']:+.2f} "
    text += f"(p = {opposite['p']:g})"
    return finding(result, holds, text, result.compute("feedforward"), "similarity.png")


def _analysis(evidence: Evidence, game: str, kind: str) -> Result | None:
    results = evidence.of("analysis.json", game)
    return next((result for result in results if str(result.body.get("run", "")).endswith(kind)), None)


def controlled(evidence: Evidence, game: str) -> Finding | None:
    """Claim 25: the factors that vary with the action draw the controlled object, the others the rest."""
    result = _analysis(evidence, game, "feedforward")
    explained = result.body.get("controlled", {}).get("explained") if result else None
    if result is None or not explained:
        return None
    action, rest = explained["Action"], explained["Non-Action"]
    holds = action["low"][0] > rest["high"][0] and rest["low"][1] > action["high"][1]
    text = (
        f"explained change of the object: high-variance factors {banded(action, 0)}, the others {banded(rest, 0)}; "
        f"elsewhere: {banded(action, 1)}, {banded(rest, 1)}"
    )
    return finding(result, holds, text, result.compute("feedforward"), "controlled-examples.png")
