"""`acvp export`: a predictor as ONNX files, or as a folder of web pages that plays it without a server.

onnxruntime-web's files for the static page: fetched once with npm, kept in the user's cache, checked by hash.
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
from acvp.play.context import DEFAULT, Cast, Stage, about, gather, open_stage
from acvp.play.onnx import OBSERVE_NAME, STEP_NAME, Graphs, to_graphs
from acvp.play.server import page_files
from acvp.seeding import generator

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""Of the package as npm gives it."""
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
RUNTIME_FOLDER = "ort"
WANTED = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
NOTICE = f"onnxruntime-web {VERSION}, Copyright (c) Microsoft Corporation, MIT license\n"


def runtime_files() -> dict[str, bytes]:
    """Return the runtime's files by name."""
    with tarfile.open(fileobj=io.BytesIO(_archive())) as archive:
        members = {name: archive.extractfile(f"package/dist/{name}") for name in WANTED}
        return {name: file.read() for name, file in members.items() if file} | {"NOTICE": NOTICE.encode()}


def _archive() -> bytes:
    """Return the package, from the cache or from npm."""
    kept = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acvp" / ARCHIVE
    if kept.is_file() and _fits(data := kept.read_bytes()):
        return data
    data = _fetch()
    if not _fits(data):
        raise UserError(f"npm gave another {ARCHIVE} than the one acvp knows: its checksum differs")
    make_folder(kept.parent)
    write_atomic(kept, data)
    return data


def _fits(data: bytes) -> bool:
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
FAR = 400
"""Decisions that a game is played at most before a start is taken from it."""

Frames = NDArray[np.uint8]


def export(config: PredictorExportConfig) -> Iterator[str]:
    """Write what a configuration asks for, and tell what was written."""
    with ExitStack() as stack:
        onnx, web = (out and stack.enter_context(new_folder(out)) for out in (config.onnx, config.web))
        told = _export(config, onnx, web)
    yield from told


def _export(config: PredictorExportConfig, onnx: Path | None, web: Path | None) -> list[str]:
    """Write into the folders that become those of the configuration, and return what was written."""
    told = []
    cast = _cast(config)
    subject = cast.get(cast.first)
    graphs = to_graphs(subject.predictor)
    files = {OBSERVE_NAME: graphs.observe, STEP_NAME: graphs.step}
    if onnx is not None:
        _write(onnx, files | {DESCRIPTION_NAME: _json(describe(subject, graphs))})
        told.append(f"{config.onnx}: {_size(files)} of ONNX, the same as torch over 10 steps")
    if web is not None:
        _write(web, files | _page(subject, graphs, config))
        _write(web / RUNTIME_FOLDER, runtime_files())
        told.append(
            f"{config.web}: put it on any static host, or look at it with: python -m http.server -d {config.web}"
        )
    return told


def _page(subject: LoadedModel, graphs: Graphs, config: PredictorExportConfig) -> dict[str, bytes]:
    """Return the page and what it needs beside graphs and runtime."""
    frames = start_frames(subject, config)
    described = describe(subject, graphs) | {"starts": len(frames)}
    starts = {STARTS_NAME: gzip.compress(frames.tobytes(), mtime=0), DESCRIPTION_NAME: _json(described)}
    return starts | static_page()


def describe(subject: LoadedModel, graphs: Graphs) -> dict[str, Any]:
    """Return what a user of the graphs must know."""
    predictor = subject.predictor
    return {
        "name": subject.name,
        "game": about(subject).env_id,
        "view": subject.view.name,
        "actions": list(about(subject).action_meanings),
        "context": predictor.context,
        "frame": list(predictor.config.frame),
        "state": list(graphs.state),
        "outcome": graphs.outcome,
    }


def static_page() -> dict[str, bytes]:
    """Return the files of the page, told to dream by itself."""
    page = page_files()
    page[PAGE_NAME] = page[PAGE_NAME].replace(b'data-source="server"', b'data-source="onnx"')
    return page


def start_frames(subject: LoadedModel, config: PredictorExportConfig) -> Frames:
    """Return (S, T, h, w, C): frames to start from, out of a store or of games played a little."""
    store = None if config.data is None else EpisodeStore(config.data)
    stage = open_stage(subject, store)
    context, seeds = subject.predictor.context, range(config.seed, config.seed + config.starts)
    windows = [_stored(stage, context, seed) if stage.store else _played(stage, context, seed) for seed in seeds]
    return np.stack([subject.view.apply(window, None) for window in windows])


def _stored(stage: Stage, context: int, seed: int) -> Frames:
    return np.stack(stage.start(context, seed).before(context)[0])


def _played(stage: Stage, context: int, seed: int) -> Frames:
    """Return frames (T, H, W, 3) of a game some way after its beginning."""
    assert stage.game is not None, "neither a game nor a store"
    draw = generator("web-start", seed)
    player, last = sticky_random_policy(stage.action_meanings, draw), context + int(draw.integers(FAR))
    frames = [stage.game.reset(seed)]
    while len(frames) < last:
        step = stage.game.step(player(frames[-1]))
        if step.terminated or step.truncated:
            break
        frames.append(step.frame)
    if len(frames) < context:
        raise UserError(f"{stage.env_id} ends before {context} frames are seen: pass --data with longer episodes")
    return np.stack(frames[-context:])


def _cast(config: PredictorExportConfig) -> Cast:
    return gather((config.run,), ()) if config.run is not None else gather((), (config.pretrained or DEFAULT,))


def _write(folder: Path, files: dict[str, bytes]) -> None:
    make_folder(folder)
    for name, data in files.items():
        write_atomic(folder / name, data)


def _json(values: dict[str, Any]) -> bytes:
    return json.dumps(values, indent=1, ensure_ascii=False).encode() + b"\n"


def _size(files: dict[str, bytes]) -> str:
    return f"{sum(map(len, files.values())) / 1e6:.1f} MB"
