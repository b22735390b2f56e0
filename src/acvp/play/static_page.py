"""`acvp export`: a predictor as ONNX files, or some as a static page that plays them without a server.

The page has a folder for each predictor: its graphs, frames to start from, a loop for the landing page and, where there
is one, the packaged agent of its game. It runs them with onnxruntime-web, which is fetched once with npm, checked by
its hash and kept in the user's cache.

Shapes: S starts, T context frames, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.agents.agent import load_agent
from acvp.data.policies import AGENT
from acvp.data.store import EpisodeStore
from acvp.durable import make_folder, new_folder, write_atomic
from acvp.errors import UserError
from acvp.loaded import LoadedModel, better_packaged
from acvp.play.app import LOOP_NAME, make_loop, page_files
from acvp.play.config import PredictorExportConfig
from acvp.play.context import PlayContext, make_context
from acvp.play.model_pool import ModelPool, about, make_model_pool
from acvp.play.onnx import CHECKED_STEPS, OBSERVE_NAME, STEP_NAME, Graphs, agent_graph, to_graphs
from acvp.play.players import Players, fast_forward

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""Of the archive that npm downloads."""
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
RUNTIME_FOLDER = "ort"
RUNTIME_NAMES = (
    *("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    *("ort.jspi.min.mjs", "ort-wasm-simd-threaded.jspi.mjs", "ort-wasm-simd-threaded.jspi.wasm"),
)
"""The second three are for browsers with WebGPU; a page loads one binary."""
NOTICE = f"onnxruntime-web {VERSION}, Copyright (c) Microsoft Corporation, MIT license\n"


def runtime_files() -> dict[str, bytes]:
    """Return the runtime's files by name."""
    with tarfile.open(fileobj=io.BytesIO(_archive())) as archive:
        members = {name: archive.extractfile(f"package/dist/{name}") for name in RUNTIME_NAMES}
        return {name: file.read() for name, file in members.items() if file} | {"NOTICE": NOTICE.encode()}


def _archive() -> bytes:
    """Return the package, from the cache or from npm."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acvp" / ARCHIVE
    if cached.is_file() and _is_known(data := cached.read_bytes()):
        return data
    data = _fetch()
    if not _is_known(data):
        raise UserError(f"npm downloaded another {ARCHIVE} than the expected one: its checksum differs")
    make_folder(cached.parent)
    write_atomic(cached, data)
    return data


def _is_known(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256


def _fetch() -> bytes:
    npm = shutil.which("npm")
    if npm is None:
        raise UserError("a static page needs onnxruntime-web from npm once: install Node.js with npm, then try again")
    with tempfile.TemporaryDirectory() as folder:
        command = [npm, "pack", f"onnxruntime-web@{VERSION}", "--pack-destination", folder]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        file = Path(folder) / ARCHIVE
        if done.returncode or not file.is_file():
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UserError(f"npm could not fetch onnxruntime-web {VERSION}: {reason}")
        return file.read_bytes()


DESCRIPTION_NAME, STARTS_NAME, PAGE_NAME = "predictor.json", "starts.bin", "index.html"
GAMES_NAME, AGENT_NAME = "games.json", "agent.onnx"

Frames = NDArray[np.uint8]
Files = dict[str, bytes]


def export(config: PredictorExportConfig) -> Iterator[str]:
    """Write the folders of a configuration, then yield a line about each."""
    with ExitStack() as stack:
        onnx, web = (out and stack.enter_context(new_folder(out)) for out in (config.onnx, config.web))
        lines = _export(config, onnx, web)
    yield from lines


def _export(config: PredictorExportConfig, onnx: Path | None, web: Path | None) -> list[str]:
    """Write into temporary folders, which then become those of the configuration, and return a line about each."""
    lines = []
    models = make_model_pool(config.predictors)
    names = models.names[: len(config.predictors)]
    runtime = {} if web is None else runtime_files()
    games = []
    for name in names:
        model = models.get(name)
        graphs = to_graphs(model.predictor)
        files = {OBSERVE_NAME: graphs.observe, STEP_NAME: graphs.step}
        if onnx is not None:
            _write(onnx, files | {DESCRIPTION_NAME: _json(describe(model, graphs))})
            lines.append(f"{config.onnx}: {_size(files)} of ONNX, the same as torch over {CHECKED_STEPS} steps")
        if web is not None:
            files |= _game(models, model, graphs, config)
            _write(web / name, files)
            games.append(listed(models, name) | {"files": _sizes(files)})
    if web is not None:
        _write(web, static_page(len(games) > 1) | {GAMES_NAME: _json({"runtime": _sizes(runtime), "games": games})})
        _write(web / RUNTIME_FOLDER, runtime)
        lines.append(f"{config.web}: put it on any static host, or try it with: python -m http.server -d {config.web}")
    return lines


def listed(models: ModelPool, name: str) -> dict[str, Any]:
    """Return what games.json says of a predictor: its game, and which packaged one is better but cannot be exported."""
    better = better_packaged(name) if name in models.folders else None
    return {"name": name, "game": models.game_of(name), "better": better}


def _game(models: ModelPool, model: LoadedModel, graphs: Graphs, config: PredictorExportConfig) -> Files:
    """Return the files of a predictor's game on the page, except its graphs."""
    store = None if config.data is None else EpisodeStore(config.data)
    frames, agent = start_frames(model, store, config), _agent(model)
    known = {"starts": len(frames), "policy": agent and AGENT + agent}
    files = {
        STARTS_NAME: gzip.compress(frames.tobytes(), mtime=0),
        DESCRIPTION_NAME: _json(describe(model, graphs) | known),
        LOOP_NAME: make_loop(models, model.name, config.seed, store),
    }
    if agent is not None:
        files[AGENT_NAME] = agent_graph(load_agent(agent), model.predictor.config.frame)
    return files


def _agent(model: LoadedModel) -> str | None:
    """Return the packaged agent of a model's game, None if there is none."""
    name = Players().name(about(model).env_id)
    return name.removeprefix(AGENT) if name.startswith(AGENT) else None


def describe(model: LoadedModel, graphs: Graphs) -> dict[str, Any]:
    """Return the contents of predictor.json: what a user of the graphs must know."""
    predictor = model.predictor
    return {
        "name": model.name,
        "game": about(model).env_id,
        "view": model.view.name,
        "actions": list(about(model).action_meanings),
        "context": predictor.context,
        "frame": list(predictor.config.frame),
        "state": list(graphs.state),
        "outcome": graphs.outcome,
    }


def static_page(choose: bool) -> Files:
    """Return the files of the page, set to run the predictor itself; ``choose``: it starts with all games."""
    page = page_files(choose)
    page[PAGE_NAME] = page[PAGE_NAME].replace(b'data-source="server"', b'data-source="onnx"')
    return page


def start_frames(model: LoadedModel, store: EpisodeStore | None, config: PredictorExportConfig) -> Frames:
    """Return frames (S, T, h, w, C) to start from, of a dataset or of games that are under way."""
    context = make_context(model, store)
    length, seeds = model.predictor.context, range(config.seed, config.seed + config.starts)
    windows = [_recorded(context, length, seed) if context.store else _played(context, length, seed) for seed in seeds]
    return np.stack([model.view.apply(window, None) for window in windows])


def _recorded(context: PlayContext, length: int, seed: int) -> Frames:
    return np.stack(context.recorded_start(length, seed).history(length)[0])


def _played(context: PlayContext, length: int, seed: int) -> Frames:
    """Return frames (T, H, W, 3) of a game that is under way."""
    assert context.game is not None, "neither a game nor a dataset"
    frames = fast_forward(context.game, seed, Players().policy(context.env_id)).frames
    if len(frames) < length:
        raise UserError(f"{context.env_id} ends before {length} frames: pass --data with longer episodes")
    return np.stack(frames[-length:])


def _write(folder: Path, files: Files) -> None:
    make_folder(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"


def _sizes(files: Files) -> dict[str, int]:
    """Return the bytes of each file, from which the page knows how much it has loaded."""
    return {name: len(data) for name, data in files.items()}


def _size(files: Files) -> str:
    return f"{sum(map(len, files.values())) / 1e6:.1f} MB"
