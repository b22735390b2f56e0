"""`acvp report`: writes an HTML report of runs."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import out
from acvp.exits import EXIT_OK
from acvp.report.sources import ReportConfig


def run(config: ReportConfig) -> int:
    """Write the page."""
    from acvp.report.page import write_report

    file = write_report(config)
    out.print(f"{file} ({file.stat().st_size / 1e6:.1f} MB): open it in a browser, it needs no network")
    return EXIT_OK


VERBS = {"report": Verb(options=ReportConfig, run=run, example="acvp report --runs runs/freeway --results results")}
