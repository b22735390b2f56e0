"""`acvp counterfactual`: compares the predicted and the true future of every action."""

from __future__ import annotations

from acvp.cli.main import Verb, predictor_stages
from acvp.console import print_results
from acvp.evaluation.config import CounterfactualConfig
from acvp.exits import EXIT_OK


def run(config: CounterfactualConfig) -> int:
    """Branch the emulator and the predictors from the same states, and print a table."""
    from acvp.evaluation.counterfactual import counterfactual_runs
    from acvp.evaluation.figures import counterfactual_table
    from acvp.runs import default_out

    with predictor_stages() as stage:
        body = counterfactual_runs(config, stage)
    print_results([counterfactual_table(body)], body, config.out or default_out(config.predictors))
    return EXIT_OK


VERBS = {
    "counterfactual": Verb(
        options=CounterfactualConfig,
        run=run,
        example="acvp counterfactual --predictors runs/freeway --data stores/freeway --states 200",
    )
}
