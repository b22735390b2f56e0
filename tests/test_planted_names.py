"""Promise 16: nothing that a file names is imported, or opened outside the folder that the user named."""

from __future__ import annotations

import base64
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.durable import DiskError, append_line, seal, unseal
from tests.faults import Trials, counted
from tests.planted_kinds import FILES, KINDS, STORE_VERBS, import_from, make_workshop, shorten
from tests.planting import EVIL, SECRET, WATCH, Key, Kind, Leaf, command, copied, leaves, run_verbs, values
from tests.training import small

SECONDS = 120
"""How long a verb may take over a file that never ends, before the test gives up on it."""
QUICK = 43
WAYS = 5
"""In which a string can name what it should not: see `values`."""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound folder of each kind."""
    home = tmp_path_factory.mktemp("workshop")
    make_workshop(home)
    return home


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What must not be touched: a file of somebody else, and a module that leaves a trace when it is imported."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.png").write_bytes(SECRET)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / f"{EVIL}.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w').close()\ndef play(*_): return None")
    monkeypatch.syspath_prepend(modules)
    monkeypatch.chdir(modules)
    shorten(monkeypatch)
    return folder


def check(tmp_path: Path, opened: list[str], printed: str) -> None:
    """Fail if anything was opened or imported that must not be, or a secret came out."""
    assert opened == []
    assert not (tmp_path / "canary").exists()
    assert EVIL not in sys.modules
    shown = [printed.encode(errors="surrogateescape")]
    shown += [file.read_bytes() for file in (tmp_path / "work").rglob("*") if file.is_file() and not file.is_symlink()]
    for text in (SECRET, base64.b64encode(SECRET)[:-4]):
        assert not any(text in each for each in shown)


def all_cases(workshop: Path) -> list[tuple[Kind, Leaf, int]]:
    """Every string of every kind of file, with everything that is planted in its place; in that of a key one thing."""
    found = [(kind, leaf) for kind in KINDS for leaf in leaves(kind.tree(workshop))]
    fixed = [
        (kind, leaf) for kind, leaf in found if not (kind.write and isinstance(leaf[-1], Key))
    ]  # no free keys there
    ways = {i: [i % WAYS] if isinstance(leaf[-1], Key) else range(WAYS) for i, (_, leaf) in enumerate(fixed)}
    return [(kind, leaf, way) for i, (kind, leaf) in enumerate(fixed) for way in ways[i]]


@pytest.mark.slow
@counted("16 no planted name is imported or opened", quick=QUICK, full=1)
def test_no_planted_name_is_imported_or_opened(trials: Trials, workshop: Path, outside: Path, tmp_path: Path) -> None:
    cases = all_cases(workshop)

    def once(i: int, rng: np.random.Generator) -> None:
        kind, leaf, way = cases[i] if trials.full else draw(cases, KINDS[i % len(KINDS)], rng)
        work = copied(workshop, kind, tmp_path / "work")
        name, value = list(values(kind, work, outside).items())[way]
        kind.plant(work, workshop, leaf, value)
        (kind.path(work).parent / "planted-link.png").symlink_to(outside / "secret.png")
        try:
            with WATCH.over(outside) as opened:
                verbs = kind.verbs if trials.full else (kind.verbs[rng.integers(len(kind.verbs))],)
                printed = run_verbs(verbs, work)
            check(tmp_path, opened, printed)
        except Exception as error:
            raise AssertionError(f"{kind.name} {leaf}, {name}: {type(error).__name__}: {error}") from error

    assert {kind.name for kind, _, _ in cases} == {kind.name for kind in KINDS}
    replace(trials, count=len(cases) if trials.full else trials.count).run(once)


def draw(cases: list[tuple[Kind, Leaf, int]], kind: Kind, rng: np.random.Generator) -> tuple[Kind, Leaf, int]:
    """One of the cases of a kind."""
    own = [case for case in cases if case[0] is kind]
    return own[rng.integers(len(own))]


@counted("16 no symbolic link leads elsewhere", quick=12, full=len(FILES))
def test_a_symbolic_link_out_of_the_folder_is_not_followed(
    trials: Trials, workshop: Path, outside: Path, tmp_path: Path
) -> None:
    """What it leads to is the very file, so that nothing but its place is wrong."""

    def once(i: int, rng: np.random.Generator) -> None:
        folder, name, verbs = FILES[i if trials.full else 3 * i]
        kind = Kind(name, folder, name, verbs)
        file = kind.path(copied(workshop, kind, tmp_path / "work"))
        shutil.move(file, outside / file.name)
        file.symlink_to(outside / file.name)
        with WATCH.over(outside) as opened:
            printed = run_verbs(verbs, tmp_path / "work")
        check(tmp_path, opened, printed)
        refused = ("cannot be read", "lies outside", "none of 1 checkpoints is whole")
        assert not file.is_symlink() or any(words in printed for words in refused), printed

    trials.run(once)


class StillWaitingError(BaseException):
    """No Exception, for nobody is to handle it: a TimeoutError is an OSError, and those become our own errors."""


def give_up(number: int, frame: FrameType | None) -> None:
    """End a wait that would last for ever."""
    raise StillWaitingError


@counted("19 no named pipe or device blocks", quick=12, full=2 * len(FILES))
def test_a_named_pipe_or_a_device_is_refused_at_once(
    trials: Trials, workshop: Path, outside: Path, tmp_path: Path
) -> None:
    def once(i: int, rng: np.random.Generator) -> None:
        folder, name, verbs = FILES[i // 2 if trials.full else 3 * i]
        kind = Kind(name, folder, name, verbs)
        file = kind.path(copied(workshop, kind, tmp_path / "work"))
        file.unlink()
        if i % 2:
            file.symlink_to("/dev/zero")
        else:
            os.mkfifo(file)
        signal.alarm(SECONDS)
        try:
            run_verbs(verbs, tmp_path / "work")
        finally:
            signal.alarm(0)

    before = signal.signal(signal.SIGALRM, give_up)
    try:
        trials.run(once)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_both_modules_that_a_store_can_name_are_looked_at(workshop: Path, outside: Path, tmp_path: Path) -> None:
    """A module that is imported already before the id, another one in the settings."""
    work = copied(workshop, KINDS[0], tmp_path / "work")
    body = unseal((work / "store" / "store.json").read_bytes())
    settings = body["settings"] | {"import_module": EVIL}
    file = work / "store" / "store.json"
    file.write_bytes(seal(body | {"env_id": f"os:{body['env_id']}", "settings": settings}))
    printed = run_verbs((STORE_VERBS[1],), work)
    assert f"add --import {EVIL}" in printed
    check(tmp_path, [], printed)
    assert main(["data", "verify", str(work / "store"), "--replay", "--import", EVIL]) == 0
    assert (tmp_path / "canary").exists()  # the module does work
    del sys.modules[EVIL]


def test_hdf5_that_takes_data_from_other_files_is_refused(workshop: Path, tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    source = tmp_path / "source"
    frames = np.zeros((6, 6, 8, 3), np.uint8)
    frames.tofile(tmp_path / "secret")

    def link(episode: Any) -> None:
        episode["observations"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/x")

    def external(episode: Any) -> None:
        episode.create_dataset(
            "observations", frames.shape, np.uint8, external=[(str(tmp_path / "secret"), 0, frames.nbytes)]
        )

    def virtual(episode: Any) -> None:
        layout = h5py.VirtualLayout(frames.shape, np.uint8)
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.hdf5"), "x", frames.shape)
        episode.create_virtual_dataset("observations", layout)

    with h5py.File(tmp_path / "other.hdf5", "w") as file:
        file["x"] = frames
    for number, plant in enumerate((link, external, virtual)):
        shutil.copytree(workshop / "minari" / "source", source, dirs_exist_ok=True)
        with h5py.File(source / "acvp" / "set-v0" / "data" / "main_data.hdf5", "a") as file:
            del file["episode_0"]["observations"]
            plant(file["episode_0"])
        printed = run_verbs(import_from("minari", "source")[:1], tmp_path)
        assert "'observations' lies in another file" in printed, number


def test_nothing_is_written_through_a_symbolic_link(workshop: Path, outside: Path, tmp_path: Path) -> None:
    """Names that acvp writes in a folder may be there already, put by whoever made it."""
    work = copied(workshop, KINDS[0], tmp_path / "work")
    names = ["store/contact-sheet.png", "store/.writer.json", "store/.lock", "run/report.html", "store/index.jsonl"]
    for name in names:
        target = outside / Path(name).name
        target.write_bytes(SECRET)
        (work / name).unlink(missing_ok=True)
        (work / name).symlink_to(target)
    collecting = command("collect", "--env-id", small.SMALL_TOY, "--out", "{}/store", "--frames", "500")
    reporting = command("report", "--runs", "{}/run")
    run_verbs((command("data", "info", "{}/store"), collecting, reporting), work)
    (work / "store" / ".lock").unlink()
    run_verbs((collecting,), work)
    assert {(outside / Path(name).name).read_bytes() for name in names} == {SECRET}


def test_no_line_goes_into_a_pipe_or_through_a_symbolic_link(outside: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(outside / "secret.png")
    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(SECONDS)
    try:
        for name in ("pipe", "link"):
            with pytest.raises(DiskError, match=name):
                append_line(tmp_path / name, "a line")
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert (outside / "secret.png").read_bytes() == SECRET
