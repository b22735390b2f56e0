"""`acvp analyze`: shows what a predictor has learned about actions."""

from __future__ import annotations

from acvp.analysis.config import AnalyzeConfig
from acvp.cli.main import Verb, predictor_stages
from acvp.console import print_results, print_skipped
from acvp.exits import EXIT_OK


def run(config: AnalyzeConfig) -> int:
    """Analyze a predictor, and print a table for each analysis."""
    from acvp.analysis.figures import analysis_tables
    from acvp.analysis.run import analyze_run

    with predictor_stages() as stage:
        body = analyze_run(config, stage)
    print_skipped(body)
    print_results(analysis_tables(body), body, config.out or config.predictor)
    return EXIT_OK


VERBS = {
    "analyze": Verb(
        options=AnalyzeConfig,
        run=run,
        example="acvp analyze --predictor runs/freeway --data stores/freeway --out results",
    )
}
