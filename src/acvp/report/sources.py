"""The sources of a report: its options, and the files of runs and of their results, read and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from acvp.compat import RESULT_FIELDS, current_fields
from acvp.console import optional
from acvp.durable import finished_lines, read_file
from acvp.errors import UserError
from acvp.runs import STARTS_NAME, RunFolder


@dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Write a self-contained HTML report of one or several runs."""

    runs: Annotated[tuple[Path, ...], arg(metavar="RUN …")]
    """Run folders."""
    results: Annotated[Path | None, optional("PATH", "the run folder, or evaluation/ for several runs")] = None
    """Folder with evaluation.json and counterfactual.json. analysis.json is read from here or the run folders."""
    claims: Annotated[Path | None, optional("FILE", "none")] = None
    """claims.json of acvp reproduce or acvp claims: its table of claims and conclusions is shown too."""
    out: Annotated[Path | None, optional("FILE", "report.html in the results folder")] = None
    """HTML file to write."""
    title: Annotated[str | None, optional("TEXT", "the game and the runs")] = None
    """Title of the page."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError("--runs is empty: name at least one run")

    @property
    def folder(self) -> Path:
        """Where the results are."""
        return self.results or (self.runs[0] if len(self.runs) == 1 else Path("evaluation"))


EVALUATION_NAME, COUNTERFACTUAL_NAME, ANALYSIS_NAME = "evaluation.json", "counterfactual.json", "analysis.json"
OTHER_SHAPE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading raises where JSON has another shape than acvp writes."""
MAX_JSON = 2**28
"""Bytes; results have a few hundred thousand."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """What acvp analyze has made of a run."""

    folder: Path
    body: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class RunSource:
    """What a run folder holds."""

    name: str
    config: dict[str, Any]
    about: dict[str, Any]
    """Empty while the run has not finished."""
    metrics: list[dict[str, Any]]
    starts: list[dict[str, Any]]
    analysis: Analysis | None


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Everything a page shows."""

    folder: Path
    """Where plots, strips and videos are."""
    runs: list[RunSource]
    evaluation: dict[str, Any] | None
    counterfactual: dict[str, Any] | None
    claims: dict[str, Any] | None = None
    """Claims of the paper with their conclusions."""
    claims_file: Path | None = None


def read_sources(config: ReportConfig) -> Sources:
    """Read all there is; raise if a folder that was named has no results."""
    folder = config.folder
    results = {name: read_json(folder / name, folder) for name in (EVALUATION_NAME, COUNTERFACTUAL_NAME)}
    runs = [_run(path, folder) for path in config.runs]
    analyzed = any(run.analysis is not None and run.analysis.folder == folder for run in runs)
    if config.results is not None and not any(results.values()) and not analyzed:
        raise UserError(
            f"{folder} has neither {EVALUATION_NAME} nor {COUNTERFACTUAL_NAME}, nor an {ANALYSIS_NAME} of these runs: "
            f"make them with acvp evaluate, counterfactual and analyze --out {folder}"
        )
    return Sources(
        folder=folder,
        runs=runs,
        evaluation=results[EVALUATION_NAME],
        counterfactual=results[COUNTERFACTUAL_NAME],
        claims=_claims(config.claims),
        claims_file=config.claims,
    )


def _claims(file: Path | None) -> dict[str, Any] | None:
    if file is None:
        return None
    body = read_json(file, file.parent)
    if body is None or "claims" not in body:
        raise UserError(f"--claims {file}: not written by acvp claims; make one with acvp reproduce or acvp claims")
    return body


def read_media(folder: Path, name: str | Path) -> bytes | None:
    """Return a picture or a video of a folder of results, None where it is no longer there.

    The name comes from a JSON file that may be somebody else's: what lies outside the folder is refused.
    """
    try:
        return read_file(folder / name, folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(
            f"{folder}: the results name {str(name)!r:.200}: it cannot be read ({error.strerror})"
        ) from error


def _run(path: Path, results: Path) -> RunSource:
    run, name = RunFolder(path), path.resolve().name
    predictor = read_json(run.predictor / "config.json", path) or {}
    return RunSource(
        name=name,
        config=run.read_config(),
        about=predictor.get("about") or {},
        metrics=run.metrics(),
        starts=_lines(path / STARTS_NAME),
        analysis=_analysis(name, (results, path)),
    )


def _analysis(run: str, folders: tuple[Path, ...]) -> Analysis | None:
    """Return the analysis of a run from the first folder that has one; None where none has."""
    for folder in folders:
        body = read_json(folder / ANALYSIS_NAME, folder)
        if body is not None and body.get("run") == run:
            return Analysis(folder=folder, body=body)
    return None


def read_json(file: Path, within: Path) -> dict[str, Any] | None:
    """Return the object in a file, None where there is no such file."""
    try:
        if file.stat().st_size > MAX_JSON:
            raise UserError(f"{file}: {file.stat().st_size:,} bytes are too many")
        body = current_fields(json.loads(read_file(file, within)), RESULT_FIELDS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({error}); make it again with the command that wrote it") from error
    if not isinstance(body, dict):
        raise UserError(f"{file}: not written by acvp")
    return body


def _lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of lines; a last line that was never finished does not count."""
    try:
        return [json.loads(line) for line in finished_lines(file)]
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({error})") from error
