"""`acvp evaluate`: compares predictions with recorded frames, step by step."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from acvp.cli.main import Verb, predictor_stages
from acvp.console import optional, out, print_results, print_shard, print_skipped
from acvp.errors import UserError, require, require_probability
from acvp.evaluation.config import EvaluateConfig
from acvp.exits import EXIT_OK

EPISODES_NAME = "episodes"
DRIVER_SEED = 1_000_000
"""Added to --seed for the episodes of a driver, so that they are not those of a training dataset."""


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(EvaluateConfig):
    """Evaluate predictors step by step against recorded frames: error curves, videos and film strips."""

    data: Annotated[tuple[Path, ...], optional("DATASET …", "with --driver, episodes/ beside the results")] = ()
    """Dataset to evaluate on, or several as one. Of those that were trained on, only held-out episodes are used."""
    driver: Annotated[str | None, optional("POLICY", "none")] = None
    """Policy that plays the episodes to evaluate on: agent:NAME, sticky-random, held, or another one of acvp collect.
    They are recorded into --data first, with the default --frame-skip. A predictor's errors depend on who plays."""
    driver_epsilon: float = 0.05
    """With --driver: probability of a random action instead of the policy's."""
    driver_frames: int = 20_000
    """With --driver: number of frames to record."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_probability(driver_epsilon=self.driver_epsilon)
        require(1, driver_frames=self.driver_frames)


def run(options: EvaluateOptions) -> int:
    """Evaluate predictors, and print a table for each metric."""
    from acvp.evaluation.figures import horizon_tables
    from acvp.evaluation.run import evaluate_runs
    from acvp.runs import default_out

    if not options.data and options.driver is None:
        raise UserError("name a dataset to evaluate on with --data, or a policy that plays one with --driver")
    if len(options.data) > 1 and options.driver is not None:
        raise UserError(f"--driver records one dataset; --data names {len(options.data)}")
    results = options.out or default_out(options.predictors)
    data = options.data or (results / EPISODES_NAME,)
    if options.driver is not None:
        _record(options, data[0])
    given = {field.name: getattr(options, field.name) for field in fields(EvaluateConfig)}
    config = EvaluateConfig(**given | {"data": data})
    with predictor_stages() as stage:
        body = evaluate_runs(config, stage)
    if print_shard(body):
        return EXIT_OK
    print_skipped(body)
    print_results(horizon_tables(body), body, results)
    return EXIT_OK


def _record(options: EvaluateOptions, data: Path) -> None:
    """Record episodes of the driver in the game of the predictors."""
    import acvp

    about = acvp.load(options.predictors[0]).about
    if about is None:
        raise UserError(f"{options.predictors[0]} does not say of which game it is; record --data with acvp collect")
    assert options.driver is not None
    store = acvp.collect(
        about.env_id,
        data,
        frames=options.driver_frames,
        policy=options.driver,
        epsilon=options.driver_epsilon,
        seed=DRIVER_SEED + options.seed,
    )
    out.print(repr(store))


VERBS = {
    "evaluate": Verb(
        options=EvaluateOptions,
        run=run,
        example="acvp evaluate --predictors runs/freeway --data stores/freeway --horizon 100 --out results",
    )
}
