"""`acvp export`: a predictor as ONNX files, or as a static page that plays it without a server.

The static page runs the predictor with onnxruntime-web, which is fetched once with npm, checked by its hash and kept
in the user's cache.

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

from acvp.data.policies import sticky_random_policy
from acvp.data.store import EpisodeStore
from acvp.durable import make_folder, new_folder, write_atomic
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.play.config import PredictorExportConfig
from acvp.play.model_pool import ModelPool, about, make_model_pool
from acvp.play.onnx import OBSERVE_NAME, STEP_NAME, Graphs, to_graphs
from acvp.play.server import page_files
from acvp.play.worlds import PlayContext, make_context
from acvp.seeding import generator

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""Of the archive that npm downloads."""
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
RUNTIME_FOLDER = "ort"
RUNTIME_NAMES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
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
MAX_PLAYED = 400
"""Agent steps that a game is played at most before a start is taken from it."""

Frames = NDArray[np.uint8]


def export(config: PredictorExportConfig) -> Iterator[str]:
    """Write the folders of a configuration, then yield a line about each."""
    with ExitStack() as stack:
        onnx, web = (out and stack.enter_context(new_folder(out)) for out in (config.onnx, config.web))
        lines = _export(config, onnx, web)
    yield from lines


def _export(config: PredictorExportConfig, onnx: Path | None, web: Path | None) -> list[str]:
    """Write into temporary folders, which then become those of the configuration, and return a line about each."""
    lines = []
    models = _model_pool(config)
    model = models.get(models.first)
    graphs = to_graphs(model.predictor)
    files = {OBSERVE_NAME: graphs.observe, STEP_NAME: graphs.step}
    if onnx is not None:
        _write(onnx, files | {DESCRIPTION_NAME: _json(describe(model, graphs))})
        lines.append(f"{config.onnx}: {_size(files)} of ONNX, the same as torch over 10 steps")
    if web is not None:
        _write(web, files | _page(model, graphs, config))
        _write(web / RUNTIME_FOLDER, runtime_files())
        lines.append(f"{config.web}: put it on any static host, or try it with: python -m http.server -d {config.web}")
    return lines


def _page(model: LoadedModel, graphs: Graphs, config: PredictorExportConfig) -> dict[str, bytes]:
    """Return the files of the page, except the graphs and the runtime."""
    frames = start_frames(model, config)
    described = describe(model, graphs) | {"starts": len(frames)}
    starts = {STARTS_NAME: gzip.compress(frames.tobytes(), mtime=0), DESCRIPTION_NAME: _json(described)}
    return starts | static_page()


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


def static_page() -> dict[str, bytes]:
    """Return the files of the page, set to run the predictor itself."""
    page = page_files()
    page[PAGE_NAME] = page[PAGE_NAME].replace(b'data-source="server"', b'data-source="onnx"')
    return page


def start_frames(model: LoadedModel, config: PredictorExportConfig) -> Frames:
    """Return frames (S, T, h, w, C) to start from, of a dataset or of games played for some steps."""
    store = None if config.data is None else EpisodeStore(config.data)
    context = make_context(model, store)
    length, seeds = model.predictor.context, range(config.seed, config.seed + config.starts)
    windows = [_recorded(context, length, seed) if context.store else _played(context, length, seed) for seed in seeds]
    return np.stack([model.view.apply(window, None) for window in windows])


def _recorded(context: PlayContext, length: int, seed: int) -> Frames:
    return np.stack(context.recorded_start(length, seed).history(length)[0])


def _played(context: PlayContext, length: int, seed: int) -> Frames:
    """Return frames (T, H, W, 3) of a game some steps after its start."""
    assert context.game is not None, "neither a game nor a dataset"
    rng = generator("web-start", seed)
    player, last = sticky_random_policy(context.action_meanings, rng), length + int(rng.integers(MAX_PLAYED))
    frames = [context.game.reset(seed)]
    while len(frames) < last:
        step = context.game.step(player(frames[-1]))
        if step.terminated or step.truncated:
            break
        frames.append(step.frame)
    if len(frames) < length:
        raise UserError(f"{context.env_id} ends before {length} frames: pass --data with longer episodes")
    return np.stack(frames[-length:])


def _model_pool(config: PredictorExportConfig) -> ModelPool:
    return make_model_pool((config.predictor,))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    make_folder(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"


def _size(files: dict[str, bytes]) -> str:
    return f"{sum(map(len, files.values())) / 1e6:.1f} MB"
