"""`acvp export`: exports a predictor to ONNX or to a web page."""

from __future__ import annotations

from acvp.cli.main import Verb
from acvp.console import out
from acvp.exits import EXIT_OK
from acvp.play.config import PredictorExportConfig


def run(config: PredictorExportConfig) -> int:
    """Write the folders that are asked for."""
    from acvp.play.static_page import export

    for text in export(config):
        out.print(text)
    return EXIT_OK


VERBS = {
    "export": Verb(
        options=PredictorExportConfig, run=run, example="acvp export --predictor freeway --onnx exported/freeway"
    )
}
