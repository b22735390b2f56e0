"""What `acvp report` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from acvp.errors import UserError


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Put all that is known about one or several runs on one HTML page that needs no network."""

    runs: tuple[Path, ...]
    """Folders of runs."""
    results: Path | None = None
    """Folder with evaluation.json and counterfactual.json; None: the run's own, `evaluation` for several runs. An
    analysis.json is looked for here and in each run's own folder."""
    out: Path | None = None
    """The page; None: report.html in the folder of results."""
    title: str | None = None
    """Heading of the page; None: the game and the runs."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError("--runs is empty: name at least one run")

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.results or (self.runs[0] if len(self.runs) == 1 else Path("evaluation"))
