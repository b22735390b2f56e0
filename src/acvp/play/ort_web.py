"""onnxruntime-web's files for the static page: fetched once with npm, kept in the user's cache, checked by hash."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError

VERSION = "1.30.0"
SHA256 = "d2228df7e4616bc3348bf504ee888f3bec43789a273f0a63f3e68d203ce3bf71"
"""Of the package as npm gives it."""
ARCHIVE = f"onnxruntime-web-{VERSION}.tgz"
RUNTIME_FOLDER = "ort"
WANTED = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")
NOTICE = f"onnxruntime-web {VERSION}, Copyright (c) Microsoft Corporation, MIT licence\n"


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
