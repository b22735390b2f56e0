"""`acvp counterfactual`: is a predicted future closest to the true future of the same action, or to another action's?

From the same saved state of the emulator every plan is played and predicted. Plans whose true futures are equal in
every pixel are one future; a state with one future only is left out. Within a state every future counts the same, so a
model that ignores the action scores exactly one over the number of futures: chance. Results are counterfactual.json and
plots/counterfactual.png and .svg, with pictures of example states.

Shapes: P plans, G different futures, L steps, T given frames, C channels, H height, W width.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.bootstrap import Accumulator, Bootstrap
from acvp.console import Progress, Stage
from acvp.data.windows import Window, WindowStart, choose_starts
from acvp.durable import write_atomic
from acvp.errors import UserError
from acvp.evaluation.config import CounterfactualConfig
from acvp.evaluation.figures import accuracy_figure, example_picture
from acvp.evaluation.metrics import frame_scale
from acvp.evaluation.run import few_episodes, open_runs
from acvp.evaluation.windows import (
    BranchedState,
    HeldOutPart,
    Plans,
    branched_states,
    every_action,
    open_game,
    sampled_plans,
)
from acvp.figures import in_color, write_figure
from acvp.loaded import LoadedModel, baselines, check_alike, identity
from acvp.models.pixels import as_pixels, to_frames
from acvp.result_cache import ResultCache, unfinished_results
from acvp.runs import PLOTS_NAME, default_out, numbers, write_results

Floats = NDArray[np.float64]
EXAMPLES = 3
"""States kept for pictures."""


@dataclass(frozen=True)
class Match:
    """How well the predictions of one state match their true futures."""

    hits: Floats  # (P,): 1 where a plan's own future is the nearest, 1/k where it is one of k nearest, else 0
    margins: Floats  # (P,): (other − own) / (other + own) of squared errors, −1 to 1, above 0 where it is a hit
    own: Floats  # (P,): squared error to the own future, pixel values, summed over its frames
    groups: NDArray[np.int64]  # (P,): which plans have the same future

    def mean(self, values: Floats) -> float:
        """Return the mean over futures of values (P,)."""
        return float(np.mean([values[self.groups == g].mean() for g in range(self.groups.max() + 1)]))


@dataclass
class Scores:
    """What was measured of one model, by episode."""

    accuracy: Accumulator
    margin: Accumulator
    error: Accumulator
    by_plan: Accumulator
    """Hits by plan; meaningful only if all states have the same plans."""


@dataclass
class Comparison:
    """What was measured of all models."""

    scores: dict[str, Scores]
    chance: Accumulator
    chance_by_plan: Accumulator
    futures: list[int] = field(default_factory=list)
    """Number of different futures at each informative state."""
    same: int = 0
    """States at which all plans lead to the same frames."""
    ended: int = 0
    """States left out because a plan ends the game."""
    examples: list[WindowStart] = field(default_factory=list)
    """Some informative states."""

    def add(self, measured: Sequence[dict[str, Any]]) -> None:
        """Add what `measure_states` returned."""
        for state in measured:
            if state["futures"] == 0:
                self.ended += 1
            elif state["futures"] == 1:
                self.same += 1
            else:
                self._add(WindowStart(*state["start"]), state["futures"], state["scores"])

    def _add(self, start: WindowStart, futures: int, measured: dict[str, dict[str, Any]]) -> None:
        episode = np.array([start.episode])
        self.futures.append(futures)
        self.chance.add(0, episode, np.array([1 / futures]))
        for name, values in measured.items():
            scores = self.scores[name]
            scores.accuracy.add(0, episode, np.array([values["accuracy"]]))
            scores.margin.add(0, episode, np.array([values["margin"]]))
            scores.error.add(0, episode, np.array([values["error"]]))
            for plan, hit in enumerate(values["hits"]):
                scores.by_plan.add(plan, episode, np.array([hit]))
        for plan in range(len(values["hits"])):
            self.chance_by_plan.add(plan, episode, np.array([1 / futures]))
        if len(self.examples) < EXAMPLES:
            self.examples.append(start)


@torch.inference_mode()
def measure_states(
    models: Sequence[LoadedModel],
    branched_states: Iterable[BranchedState | None],
    *,
    scale: float,
    progress: Callable[[int], None] = lambda done: None,
) -> list[dict[str, Any]]:
    """Compare predicted with true futures, state by state, as JSON can hold it; errors are in units of scale².

    `futures` is the number of different futures, 0 where a plan ends the game.
    """
    measured: list[dict[str, Any]] = []
    for branched in branched_states:
        if branched is None:
            measured.append({"futures": 0})
        else:
            measured.append(_measure(models, branched, scale))
        progress(len(measured))
    return measured


def _measure(models: Sequence[LoadedModel], branched: BranchedState, scale: float) -> dict[str, Any]:
    groups, scores = same_futures(branched.futures), {}
    if not groups.any():
        return {"futures": 1}
    for model in models:
        match = match_futures(distances(model, branched)[0], groups)
        scores[model.name] = {
            "accuracy": match.mean(match.hits),
            "margin": match.mean(match.margins),
            "error": match.mean(match.own) / scale**2,
            "hits": match.hits.tolist(),
        }
    return {"futures": int(groups.max()) + 1, "start": list(branched.start), "scores": scores}


def same_futures(futures: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return for each of P futures the number, from 0, of the first one that equals it in every pixel."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(future.tobytes(), len(known)) for future in futures])


def distances(model: LoadedModel, branched: BranchedState) -> tuple[Floats, NDArray[np.uint8]]:
    """Return the squared error (P, P) of each plan's prediction to each true future, and the last predictions."""
    apart = np.zeros((len(branched.plans), len(branched.plans)))
    for step, predicted in enumerate(_predictions(model, branched)):
        truth = as_pixels(branched.futures[:, step])  # (P, C, H, W)
        for plan, frame in enumerate(predicted):
            apart[plan] += (truth - frame).square().flatten(1).sum(1, dtype=torch.float64).numpy()
    return apart, to_frames(predicted)


def _predictions(model: LoadedModel, branched: BranchedState) -> Iterator[Tensor]:
    """Yield what each plan leads to, (P, C, H, W) in clamped pixel values, step by step."""
    plans, predictor = branched.plans, model.predictor
    if plans.shape[1] == 1 and np.array_equal(plans[:, 0], np.arange(predictor.actions)):
        given = torch.from_numpy(branched.given[None]).to(model.device)
        between = torch.from_numpy(branched.between[None]).to(model.device)
        state = predictor.observe(predictor.normalizer.to_float(given), between)
        yield predictor.normalizer.to_pixels(predictor.predict_all(state)[0]).cpu()
        return
    given_rows = np.repeat(branched.given[None], len(plans), 0)
    between_rows = np.repeat(branched.between[None], len(plans), 0)
    yield from model.look_ahead(given_rows, np.concatenate((between_rows, plans), 1))


def match_futures(apart: Floats, groups: NDArray[np.int64]) -> Match:
    """Return how often and by how much each plan's own future is the nearest, from squared errors (P, P)."""
    different = apart[:, np.unique(groups, return_index=True)[1]]  # (P, G)
    rows = np.arange(len(groups))
    own = different[rows, groups]
    others = different.copy()
    others[rows, groups] = np.inf
    other = others.min(1)
    nearest = different == different.min(1, keepdims=True)
    hits = nearest[rows, groups] / nearest.sum(1)
    return Match(hits, (other - own) / (other + own), own, groups)


def empty_comparison(names: Sequence[str], episodes: int, plans: int) -> Comparison:
    """Return an empty comparison for a dataset of so many episodes."""
    scores = {
        name: Scores(
            Accumulator(episodes, 1), Accumulator(episodes, 1), Accumulator(episodes, 1), Accumulator(episodes, plans)
        )
        for name in names
    }
    return Comparison(scores, Accumulator(episodes, 1), Accumulator(episodes, plans))


COUNTERFACTUAL_NAME, PARTS_NAME = "counterfactual.json", "counterfactual.jsonl"


def counterfactual_runs(config: CounterfactualConfig, stage: Stage) -> dict[str, Any]:
    """Compare the futures of a configuration's runs, write all files, and return what counterfactual.json holds."""
    started = time.monotonic()
    models, part = open_runs(config.predictors, (config.data,), config.trained_on, config.device)
    out = config.out or default_out(config.predictors)
    with unfinished_results(out / PARTS_NAME) as results:
        comparison, body = compare_futures(models, part, config, stage("branching"), results)
        write_figure(accuracy_figure(body), out / PLOTS_NAME, "counterfactual")
        for number, picture in enumerate(_examples(CounterfactualStates(models, part, config), comparison.examples)):
            write_atomic(out / PLOTS_NAME / f"counterfactual-{number}.png", picture)
        earlier = results.earlier_seconds
        write_results(out / COUNTERFACTUAL_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


class CounterfactualStates:
    """The states of a configuration, with models and baselines to predict their futures."""

    def __init__(self, models: Sequence[LoadedModel], part: HeldOutPart, config: CounterfactualConfig) -> None:
        self.models, self.store, self.config = [*models, *baselines(models[0])], part.store, config
        self.view, self.context = models[0].view, max(model.predictor.context for model in self.models)
        window = Window(self.context, config.steps)
        self.starts = choose_starts(part.store, window, config.states, seed=config.seed, option="steps")

    @property
    def most_plans(self) -> int:
        """Largest number of plans of a state."""
        return self.store.action_count if self.config.sequences is None else self.config.sequences

    def branched_states(self, starts: Sequence[WindowStart]) -> Iterator[BranchedState | None]:
        """Yield some of the states with their true futures."""
        numbers = [self.starts.index(start) for start in starts]
        return branched_states(self.store, starts, self.view, self.context, lambda i: self.plans(numbers[i]))

    def plans(self, number: int) -> Plans:
        """Return the plans of a state."""
        actions, config = self.store.action_count, self.config
        if config.sequences is None:
            return every_action(actions, config.steps)
        return sampled_plans(actions, config.steps, config.sequences, config.seed, number)


def compare_futures(
    models: Sequence[LoadedModel],
    part: HeldOutPart,
    config: CounterfactualConfig,
    progress: Progress,
    results: ResultCache | None = None,
) -> tuple[Comparison, dict[str, Any]]:
    """Return how well models and baselines distinguish futures, measured and as JSON can hold it.

    The states of an episode are measured together, and cached in `results`.
    """
    check_alike(models, part.store)
    open_game(part.store).close()  # refuse early what cannot be replayed
    states, done = CounterfactualStates(models, part, config), 0
    everyone, starts = states.models, states.starts
    shared = identity(everyone, part.store) | {"steps": config.steps, "sequences": config.sequences}
    comparison = empty_comparison([model.name for model in everyone], len(part.store), states.most_plans)
    for _, group in groupby(starts, lambda start: start.episode):
        here = list(group)

        def measure(here: list[WindowStart] = here, done: int = done) -> dict[str, Any]:
            show = partial(_show, progress, done, len(starts))
            scale = frame_scale(states.view.gray)
            return {"states": measure_states(everyone, states.branched_states(here), scale=scale, progress=show)}

        which = {"windows": here, "plans": [states.plans(done + i).tolist() for i in range(len(here))]}
        part_result = measure() if results is None else results.part(shared | which, measure)
        comparison.add(part_result["states"])
        done += len(here)
        progress(done, len(starts))
    if not comparison.futures:
        raise UserError(
            f"{part.store.path}: in none of {len(starts)} states do futures differ ({comparison.same} have one future "
            f"only, {comparison.ended} end the game); more --states or --steps may"
        )
    names = tuple(model.name for model in everyone if model.baseline)
    return comparison, _body(comparison, part, config, names)


def _show(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


@torch.inference_mode()
def _examples(states: CounterfactualStates, starts: Sequence[WindowStart]) -> Iterator[bytes]:
    """Yield pictures of some states: the true and the predicted last frame of every plan."""
    for start in starts:
        branched = next(states.branched_states([start]))
        assert branched is not None
        labels = [_label(plan, states.store.info.action_meanings) for plan in branched.plans.tolist()]
        predicted = {model.name: in_color(distances(model, branched)[1]) for model in states.models}
        yield example_picture({"truth": in_color(branched.futures[:, -1])} | predicted, labels)


def _body(
    comparison: Comparison, part: HeldOutPart, config: CounterfactualConfig, baseline_names: tuple[str, ...]
) -> dict[str, Any]:
    used = np.flatnonzero(comparison.chance.counts.any(1))
    bootstrap = Bootstrap(len(used), seed=config.seed)

    def plain(accumulator: Accumulator) -> dict[str, list[float | None]]:
        return {part: numbers(values) for part, values in bootstrap.curve(accumulator.of(used))._asdict().items()}

    runs = {}
    for name, scores in comparison.scores.items():
        runs[name] = {"accuracy": plain(scores.accuracy), "margin": plain(scores.margin), "error": plain(scores.error)}
        if config.sequences is None:
            runs[name]["accuracy_by_action"] = plain(scores.by_plan)
    info, how = part.store.info, f"{config.sequences} random sequences of {count(config.steps, 'action')}"
    body = {
        "game": info.env_id,
        "actions": list(info.action_meanings),
        "data": str(part.store.path),
        "store_digest": part.store.digest,
        "test_part": part.how,
        "plans": f"each action for {count(config.steps, 'agent step')}" if config.sequences is None else how,
        "steps": config.steps,
        "states": len(comparison.futures),
        "states_asked_for": config.states,
        "states_with_one_future": comparison.same,
        "states_where_a_plan_ends_the_game": comparison.ended,
        "different_futures": {"mean": float(np.mean(comparison.futures)), "most": max(comparison.futures)},
        "episodes": len(used),
        "accuracy": "share of futures whose prediction is nearest (squared error over all frames, predictions clamped "
        "to 0..255) to the own true future; equal futures count once; mean over states",
        "margin": "(other − own) / (other + own), squared errors to the nearest other and to the own true future",
        "error": "squared error to the own future in the paper's scale, summed over its frames",
        "chance": plain(comparison.chance),
        "baselines": list(baseline_names),
        "runs": runs,
        "seed": config.seed,
    }
    if config.sequences is None:
        body["chance_by_action"] = plain(comparison.chance_by_plan)
    return body | few_episodes(len(used))


def count(number: int, what: str) -> str:
    """Return a number of things, such as 1 action or 2 actions."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _label(plan: list[int], meanings: Sequence[str]) -> str:
    held = len(set(plan)) == 1
    return meanings[plan[0]] if held else " ".join(meanings[action] for action in plan)
