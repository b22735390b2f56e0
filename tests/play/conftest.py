"""A recording of ToyGame, a browser and axe-core, which the play tests share."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.play.session import Session
from tests.play.browsing import a_browser
from tests.play.sessions import make_session

ARCHIVE = "axe-core-4.10.3.tgz"
SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Some episodes of ToyGame."""
    folder = tmp_path_factory.mktemp("toy")
    collect(CollectConfig(env_id="toy", out=folder / "store", frames=600, seed=2))
    return EpisodeStore(folder / "store")


@pytest.fixture(scope="session")
def toy_session_maker(toy: EpisodeStore) -> Callable[[], Session]:
    """What makes a session with a recording."""
    return lambda: make_session(store=toy)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all tests of a file."""
    with a_browser() as found:
        yield found


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from the user's cache or from npm."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acvp" / ARCHIVE
    if not (cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == SHA256):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm found: the page is not tested with axe-core (install Node.js with npm)")
        cached.parent.mkdir(parents=True, exist_ok=True)
        name = ARCHIVE.removesuffix(".tgz").replace("core-", "core@")
        command = [npm, "pack", name, "--pack-destination", str(cached.parent)]
        if subprocess.run(command, cwd=cached.parent, capture_output=True, check=False).returncode:
            pytest.skip(f"npm could not fetch {name}: the page is not tested with axe-core")
    data = cached.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()
