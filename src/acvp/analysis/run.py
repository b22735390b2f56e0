"""`acvp analyze`: from a run and a dataset to analysis.json and plots/."""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from acvp.actions import require_numbered
from acvp.analysis.branches import contingency_maps, different_actions
from acvp.analysis.config import AnalyzeConfig
from acvp.analysis.factors import action_similarity, controlled
from acvp.analysis.figures import controlled_figure, similarity_figure
from acvp.analysis.samples import Part, Study, open_study
from acvp.console import Progress, Stage
from acvp.errors import UserError
from acvp.evaluation.run import few_episodes, open_runs
from acvp.figures import images, write_files
from acvp.loaded import check_alike, identity
from acvp.result_cache import ResultCache, unfinished_results
from acvp.runs import PLOTS_NAME, write_results

ANALYSIS_NAME, PARTS_NAME = "analysis.json", "analysis.jsonl"
DECISIVE = ("states", "variance_share", "examples", "at", "steps", "seed")
"""Options that decide the result of a part."""

Make = Callable[[Study, Progress], Part]
PARTS: dict[str, Make] = {
    "similarity": action_similarity,
    "controlled": controlled,
    "contingency": contingency_maps,
    "different_actions": different_actions,
}
FIGURES = {"similarity": similarity_figure, "controlled": controlled_figure}
"""Figures that are drawn from analysis.json."""


def analyze_run(config: AnalyzeConfig, stage: Stage) -> dict[str, Any]:
    """Analyze the run of a configuration, write all files, and return what analysis.json holds."""
    started = time.monotonic()
    models, part = open_runs((config.predictor,), (config.data,), config.trained_on, config.device)
    check_alike(models, part.store)
    require_numbered(part.store.info.action_range, "acvp analyze")
    study = open_study(models[0], part.store, config, stage("replaying episodes"))
    info = part.store.info
    body: dict[str, Any] = {
        "run": study.model.name,
        "game": info.env_id,
        "view": study.model.view.name,
        "actions": list(info.action_meanings),
        "data": str(part.store.path),
        "store_digest": part.store.digest,
        "test_part": part.how,
        "episodes": len({start.episode for start in study.samples.starts}),
        "left_out": study.left_out,
    }
    body |= few_episodes(body["episodes"])
    out = config.out or config.predictor
    with unfinished_results(out / PARTS_NAME) as results:
        parts, files = _make_parts(study, stage, results)
        body |= parts
        for name in FIGURES.keys() & parts.keys():
            files |= images(FIGURES[name](body), name)
        body |= {"files": sorted(files), "cpu_seconds": round(time.process_time(), 1)}
        write_files(out / PLOTS_NAME, files)
        earlier = results.earlier_seconds
        write_results(out / ANALYSIS_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def _make_parts(study: Study, stage: Stage, results: ResultCache) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the results and files of all parts; those that cannot be made are left out with the reason."""
    parts: dict[str, Any] = {}
    files: dict[str, bytes] = {}
    options = {name: getattr(study.config, name) for name in DECISIVE}
    shared = identity([study.model], study.store) | options | {"emulated": not isinstance(study.emulated, str)}
    for name, make in PARTS.items():
        title = name.replace("_", " ")

        def measure(make: Make = make, title: str = title) -> dict[str, Any]:
            made, pictures = make(study, stage(title))
            return {"body": made, "files": {file: b64encode(data).decode() for file, data in pictures.items()}}

        try:
            part = results.part(shared | {"part": name}, measure)
            parts[name] = part["body"]
            files |= {file: b64decode(text) for file, text in part["files"].items()}
        except UserError as error:
            study.left_out[title] = str(error)
    if not parts:
        raise UserError(f"{study.model.name}: nothing could be analyzed: {'; '.join(study.left_out.values())}")
    return parts, files
