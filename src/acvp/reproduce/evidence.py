"""Evidence: the result files in some folders, found by their names and by the games and models that they are about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import hypot
from pathlib import Path
from typing import Any

from acvp.compat import current_command
from acvp.console import banded, number
from acvp.durable import finished_lines
from acvp.errors import UserError
from acvp.report.sources import read_json
from acvp.reproduce.config import bare_name
from acvp.runs import METRICS_NAME, clock

NAMES = (
    "evaluation.json", "counterfactual.json", "control.json", "explore.json", "learning.json", "analysis.json",
    "agent-evaluation.json", "agents.json", "deconvolution.json",
)  # fmt: skip
"""Files that count as results."""
ERRORS = 2.0
"""Standard errors of a difference by which two scores must be apart to differ."""

Bands = Mapping[str, Any]
"""`mean`, `low` and `high`, lists by step."""


@dataclass(frozen=True)
class Result:
    """One result file."""

    file: Path
    body: dict[str, Any]

    @property
    def game(self) -> str:
        """The bare name of its game."""
        return bare_name(str(self.body.get("game") or self.body.get("env_id") or ""))

    @property
    def command(self) -> str:
        """The command that made it, with the names that its options have today."""
        return current_command(self.body.get("provenance", {}).get("command", ""))

    def model(self, kind: str) -> str | None:
        """Return the name of the model of a kind: its own name, or one that ends with it."""
        names = self.body.get("curves") or self.body.get("runs") or [str(self.body.get("run"))]
        endings = [name for name in names if name.endswith(f"-{kind}")]
        return kind if kind in names else next(iter(endings), None)

    def picture(self, *names: str) -> Path | None:
        """Return the first of some pictures that lies beside the file."""
        folder = self.file.parent
        files = (folder / place / name for name in names for place in ("plots", ".", "strips"))
        return next((file for file in files if file.exists()), None)

    def compute(self, *kinds: str) -> str:
        """Return what the training of models in this result took, where that is known."""
        return "; ".join(f"{kind} {self._compute(kind, name)}" for kind in kinds if (name := self.model(kind)))

    def _compute(self, kind: str, name: str) -> str:
        described = self.body.get("models", {}).get(name, {}).get("compute")
        if described:
            return str(described).partition(" on ")[0]
        folders = (self.file.parent, self.file.parent.parent)  # the run beside the result, or beside its folder
        names = dict.fromkeys((Path(name).name, kind))
        files = (folder / run / METRICS_NAME for folder in folders for run in names)
        return next((took for file in files if (took := _trained(file))), "(not recorded)")

    def curve(self, kind: str, metric: str) -> Bands | None:
        """Return the curve of a model in evaluation.json; None: it has none."""
        curve: Bands | None = self.body.get("curves", {}).get(self.model(kind) or kind, {}).get(metric)
        return curve

    def at(self, kind: str, metric: str, step: int) -> str:
        """Return a value of a curve with its band, as text."""
        curve = self.curve(kind, metric)
        return "–" if curve is None or step > len(curve["mean"]) else banded(curve, step - 1)

    def order(self, metric: str, first: str, second: str, step: int) -> int | None:
        """Return −1 if the first model is lower than the second at a step, 1 if it is higher, 0 if neither is shown.

        By the band of their difference on the same windows; early files, which have none, by their separate bands.
        """
        curve, other = self.curve(first, metric), self.curve(second, metric)
        if curve is None or other is None or step > len(curve["mean"]):
            return None
        difference = self._difference(metric, self.model(first) or first, self.model(second) or second, step)
        if difference is None:
            low, high = _gap(curve, other, step - 1)
        else:
            low, high = difference
        return -1 if high < 0 else int(low > 0)

    def _difference(self, metric: str, first: str, second: str, step: int) -> tuple[float, float] | None:
        paired = self.body.get("paired", {})
        if step not in paired.get("steps", ()):
            return None
        at = paired["steps"].index(step)
        for pair in paired["metrics"].get(metric, ()):
            low, high = pair["low"][at], pair["high"][at]
            if low is None or high is None:
                continue
            if (pair["first"], pair["second"]) == (first, second):
                return low, high
            if (pair["first"], pair["second"]) == (second, first):
                return -high, -low
        return None


def _gap(curve: Bands, other: Bands, index: int) -> tuple[float, float]:
    """Return the least and the largest difference of two values within their bands."""
    low, high = (curve[part][index] for part in ("low", "high"))
    other_low, other_high = (other[part][index] for part in ("low", "high"))
    if None in (low, high, other_low, other_high):
        return -1.0, 1.0
    return low - other_high, high - other_low


def _trained(file: Path) -> str | None:
    """Return updates and duration by the metrics of a run that lie beside a result."""
    try:
        lines = [json.loads(line) for line in finished_lines(file)]
    except (OSError, ValueError):
        return None
    timed = [line for line in lines if "seconds" in line and "step" in line]
    return f"{timed[-1]['step']:,} updates in {clock(timed[-1]['seconds'])}" if timed else None


class Evidence:
    """All results in some folders; those of a folder that is named first come first."""

    def __init__(self, roots: Sequence[Path]) -> None:
        for root in roots:
            if not root.is_dir():
                raise UserError(f"--results {root}: no such folder")
        self.roots = tuple(roots)

    @cached_property
    def results(self) -> list[Result]:
        """Every result, each once."""
        files = [file for root in self.roots for file in sorted(root.rglob("*.json")) if file.name in NAMES]
        once = {file.resolve(): file for file in reversed(files)}
        ordered = sorted(once.values(), key=files.index)
        bodies = [(file, read_json(file, file.parent)) for file in ordered]
        return [Result(file, body) for file, body in bodies if body is not None]

    @cached_property
    def games(self) -> list[str]:
        """All games that results are about."""
        return sorted({result.game for result in self.results if result.game})

    def only(self, results: Sequence[Result]) -> Evidence:
        """Return the evidence that some of the results are."""
        evidence = Evidence(self.roots)
        evidence.results = list(results)
        return evidence

    def named(self, *names: str) -> Iterator[Result]:
        """Yield the results in files of some names."""
        return (result for result in self.results if result.file.name in names)

    def of(self, name: str, game: str) -> Iterator[Result]:
        """Yield the results of a game in files of a name."""
        return (result for result in self.named(name) if result.game == game)

    def evaluation(self, game: str, *kinds: str, horizon: int = 1, metric: str = "error") -> Result | None:
        """Return the evaluation of a game, at least so far ahead, with the most of some kinds of models."""
        fitting = [result for result in self.of("evaluation.json", game) if result.body.get("horizon", 0) >= horizon]
        counted = [(sum(result.curve(kind, metric) is not None for kind in kinds), result) for result in fitting]
        most = max((count for count, _ in counted), default=0)
        return next((result for count, result in counted if count == most and most), None)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the results say of a claim in one game."""

    holds: bool | None
    """Whether the claim holds; None: what was run is not enough to say."""
    number: str
    """Ours, with its band."""
    compute: str
    command: str
    file: Path | None = None
    picture: Path | None = None


def finding(
    result: Result, holds: bool | None, number: str, compute: str, *pictures: str, command: str | None = None
) -> Finding:
    """Return a finding with the command and the picture of its result."""
    picture = result.picture(*pictures) if pictures else None
    return Finding(
        holds=holds,
        number=number,
        compute=str(compute),
        command=command or result.command,
        file=result.file,
        picture=picture,
    )


def score(point: Mapping[str, Any]) -> str:
    """Return a mean with its standard error."""
    error = point.get("standard_error")
    shown = "" if error is None else f" ± {error:,.0f}" if error >= 10 else f" ± {error:.2g}"
    return number(point["mean"]) + shown


def apart(point: Mapping[str, Any], other: Mapping[str, Any]) -> int:
    """Return 1 if a mean is above another by two standard errors of their difference, −1 if it is below, else 0."""
    spread = ERRORS * hypot(point.get("standard_error") or 0.0, other.get("standard_error") or 0.0)
    difference = point["mean"] - other["mean"]
    return 0 if abs(difference) <= spread else (1 if difference > 0 else -1)
