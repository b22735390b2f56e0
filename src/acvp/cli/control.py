"""`acvp control`: lets an agent act on predicted frames."""

from __future__ import annotations

from acvp.cli.main import Verb, predictor_stages
from acvp.console import print_results, print_shard
from acvp.control.config import ControlConfig
from acvp.exits import EXIT_OK


def run(config: ControlConfig) -> int:
    """Measure the score at every prediction horizon, and print a table."""
    from acvp.control.run import control_out, control_runs, control_table

    with predictor_stages() as stage:
        body = control_runs(config, stage)
    if print_shard(body):
        return EXIT_OK
    print_results([control_table(body)], body, control_out(config))
    return EXIT_OK


VERBS = {
    "control": Verb(options=ControlConfig, run=run, example="acvp control --predictors runs/freeway --agent freeway")
}
