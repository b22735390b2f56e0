"""`acvp counterfactual` from paths to files: counterfactual.json, plots/counterfactual.png and .svg, examples."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch

from acvp.data.windows import Window
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError
from acvp.evaluation.branch_plots import accuracy_figure, example_picture
from acvp.evaluation.command import PLOTS_NAME, Load, Stage, default_out, open_runs, write_json
from acvp.evaluation.config import CounterfactualConfig
from acvp.evaluation.counterfactual import Comparison, distances, empty_comparison, measure_moments
from acvp.evaluation.definitions import frame_scale
from acvp.evaluation.film import in_colour
from acvp.evaluation.futures import Moment, Plans, every_action, moments, open_game, sampled_plans
from acvp.evaluation.horizon import Progress, identity
from acvp.evaluation.places import HeldOutPart, Place, choose_places
from acvp.evaluation.plots import image
from acvp.evaluation.results import few_episodes, numbers
from acvp.evaluation.subjects import Subject, baselines, check_alike
from acvp.evaluation.tally import Bootstrap, Tally
from acvp.result_cache import ResultCache, unfinished_results

COUNTERFACTUAL_NAME, PARTS_NAME = "counterfactual.json", "counterfactual.jsonl"


def counterfactual_runs(config: CounterfactualConfig, load: Load, stage: Stage) -> dict[str, Any]:
    """Compare the futures of a configuration's runs, write all files, and return what counterfactual.json holds."""
    started = time.monotonic()
    subjects, part = open_runs(config.runs, config.data, config.trained_on, config.device, load)
    out = config.out or default_out(config.runs)
    with unfinished_results(out / PARTS_NAME) as results:
        comparison, body = branch(subjects, part, config, stage("branching"), results)
        make_folder(out / PLOTS_NAME)
        figure = accuracy_figure(body)
        for kind in ("png", "svg"):
            write_atomic(out / PLOTS_NAME / f"counterfactual.{kind}", image(figure, kind))
        for number, picture in enumerate(_examples(Branches(subjects, part, config), comparison.examples)):
            write_atomic(out / PLOTS_NAME / f"counterfactual-{number}.png", picture)
        started -= results.earlier_seconds
        write_json(out / COUNTERFACTUAL_NAME, body, seed=config.seed, started=started)
    return body


class Branches:
    """The moments of a configuration, with subjects and baselines to predict their futures."""

    def __init__(self, subjects: Sequence[Subject], part: HeldOutPart, config: CounterfactualConfig) -> None:
        self.subjects, self.store, self.config = [*subjects, *baselines(subjects[0])], part.store, config
        self.view, self.context = subjects[0].view, max(subject.predictor.context for subject in self.subjects)
        window = Window(self.context, config.steps)
        self.places = choose_places(part.store, window, config.states, seed=config.seed, option="steps")

    @property
    def most_plans(self) -> int:
        """Plans of a moment at most."""
        return self.store.action_count if self.config.sequences is None else self.config.sequences

    def moments(self, places: Sequence[Place]) -> Iterator[Moment | None]:
        """Yield some of the moments."""
        numbers = [self.places.index(place) for place in places]
        return moments(self.store, places, self.view, self.context, lambda i: self.plans(numbers[i]))

    def plans(self, number: int) -> Plans:
        """Return the plans of a moment."""
        actions, config = self.store.action_count, self.config
        if config.sequences is None:
            return every_action(actions, config.steps)
        return sampled_plans(actions, config.steps, config.sequences, config.seed, number)


def branch(
    subjects: Sequence[Subject],
    part: HeldOutPart,
    config: CounterfactualConfig,
    progress: Progress,
    results: ResultCache | None = None,
) -> tuple[Comparison, dict[str, Any]]:
    """Return how well subjects and baselines tell futures apart, measured and as JSON can hold it.

    The moments of an episode are measured together, and kept in `results`.
    """
    check_alike(subjects, part.store)
    open_game(part.store).close()  # refuse early what cannot be replayed
    branches, done = Branches(subjects, part, config), 0
    everyone, places = branches.subjects, branches.places
    shared = identity(everyone, part.store) | {"steps": config.steps, "sequences": config.sequences}
    comparison = empty_comparison([subject.name for subject in everyone], len(part.store), branches.most_plans)
    for _, group in groupby(places, lambda place: place.episode):
        here = list(group)

        def measure(here: list[Place] = here, done: int = done) -> dict[str, Any]:
            show = partial(_show, progress, done, len(places))
            scale = frame_scale(branches.view.gray)
            return {"moments": measure_moments(everyone, branches.moments(here), scale=scale, progress=show)}

        which = {"windows": here, "plans": [branches.plans(done + i).tolist() for i in range(len(here))]}
        found = measure() if results is None else results.part(shared | which, measure)
        comparison.take_in(found["moments"])
        done += len(here)
        progress(done, len(places))
    if not comparison.futures:
        raise UserError(
            f"{part.store.path}: none of {len(places)} states tells actions apart ({comparison.same} have one future "
            f"only, {comparison.ended} end the game); more --states or --steps may"
        )
    names = tuple(subject.name for subject in everyone if subject.baseline)
    return comparison, _body(comparison, part, config, names)


def _show(progress: Progress, before: int, total: int, done: int) -> None:
    progress(before + done, total)


@torch.inference_mode()
def _examples(branches: Branches, places: Sequence[Place]) -> Iterator[bytes]:
    """Yield pictures of some moments: the true and the predicted last frame of every plan."""
    for place in places:
        moment = next(branches.moments([place]))
        assert moment is not None
        labels = [_label(plan, branches.store.info.action_meanings) for plan in moment.plans.tolist()]
        predicted = {subject.name: in_colour(distances(subject, moment)[1]) for subject in branches.subjects}
        yield example_picture({"truth": in_colour(moment.futures[:, -1])} | predicted, labels)


def _body(
    comparison: Comparison, part: HeldOutPart, config: CounterfactualConfig, baseline_names: tuple[str, ...]
) -> dict[str, Any]:
    used = np.flatnonzero(comparison.chance.counts.any(1))
    bootstrap = Bootstrap(len(used), seed=config.seed)

    def plain(tally: Tally) -> dict[str, list[float | None]]:
        return {part: numbers(values) for part, values in bootstrap.curve(tally.of(used))._asdict().items()}

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
        "plans": f"each action for {count(config.steps, 'decision')}" if config.sequences is None else how,
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
