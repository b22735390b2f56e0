"""`acvp evaluate`: compares predictions with recorded frames, step by step."""

from __future__ import annotations

from acvp.cli.main import Verb, predictor_stages
from acvp.console import print_results, print_skipped
from acvp.evaluation.config import EvaluateConfig
from acvp.exits import EXIT_OK


def run(config: EvaluateConfig) -> int:
    """Evaluate predictors, and print a table for each metric."""
    from acvp.evaluation.figures import horizon_tables
    from acvp.evaluation.run import evaluate_runs
    from acvp.runs import default_out

    with predictor_stages() as stage:
        body = evaluate_runs(config, stage)
    print_skipped(body)
    print_results(horizon_tables(body), body, config.out or default_out(config.predictors))
    return EXIT_OK


VERBS = {
    "evaluate": Verb(
        options=EvaluateConfig,
        run=run,
        example="acvp evaluate --predictors runs/freeway --data data/freeway --horizon 100 --out results",
    )
}
