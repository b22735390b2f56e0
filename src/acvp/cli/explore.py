"""`acvp explore`: compares random and informed exploration."""

from __future__ import annotations

from acvp.cli.main import Verb, predictor_stages
from acvp.console import print_results, print_shard
from acvp.control.config import ExploreConfig
from acvp.exits import EXIT_OK


def run(config: ExploreConfig) -> int:
    """Explore with each strategy, and print a table."""
    from acvp.control.explore import explore_game, explore_table

    with predictor_stages() as stage:
        body = explore_game(config, stage)
    if print_shard(body):
        return EXIT_OK
    print_results([explore_table(body)], body, config.out)
    return EXIT_OK


VERBS = {
    "explore": Verb(
        options=ExploreConfig,
        run=run,
        example="acvp explore --env-id freeway --predictor runs/freeway --seeds 20 --out results",
    )
}
