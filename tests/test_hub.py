"""Predictors and datasets on the hub: what is uploaded comes back bit for bit; refusals are one line.

The hub is a folder here: the library's functions are replaced, there is no network.
"""

from __future__ import annotations

import inspect
import shutil
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from huggingface_hub import HfApi, snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, LocalTokenNotFoundError

import acvp
from acvp import hub
from acvp.cli.main import main
from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore, StoreInfo
from acvp.models import fingerprint
from tests.data.answers import answer_episode, answer_store
from tests.faults import contents


class FolderHub:
    """A hub that keeps repositories in a folder, with the functions of huggingface_hub that acvp calls."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.made: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def path(self, name: str, repo_type: str = "model") -> Path:
        return self.root / repo_type / name

    def create_repo(self, name: str, *, private: bool, exist_ok: bool, repo_type: str = "model") -> str:
        if self.error is not None:
            raise self.error
        assert exist_ok
        self.made.append({"name": name, "private": private, "type": repo_type})
        self.path(name, repo_type).mkdir(parents=True, exist_ok=True)
        return f"hub/{name}"

    def upload_folder(
        self, *, repo_id: str, folder_path: str | Path, commit_message: str, repo_type: str = "model",
        allow_patterns: tuple[str, ...] = ("*",), delete_patterns: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        there = self.path(repo_id, repo_type)
        for file in [file for pattern in delete_patterns for file in there.glob(pattern)]:
            file.unlink()
        copy_matching(Path(folder_path), self.path(repo_id, repo_type), allow_patterns)

    def upload_file(
        self, *, repo_id: str, repo_type: str, path_or_fileobj: bytes, path_in_repo: str, commit_message: str
    ) -> None:
        (self.path(repo_id, repo_type) / path_in_repo).write_bytes(path_or_fileobj)

    def download(self, name: str, *, repo_type: str, local_dir: Path, allow_patterns: list[str]) -> None:
        if not self.path(name, repo_type).exists():
            raise self.error or LocalEntryNotFoundError("offline")
        (local_dir / ".cache").mkdir(parents=True, exist_ok=True)
        copy_matching(self.path(name, repo_type), local_dir, allow_patterns)


def copy_matching(source: Path, target: Path, patterns: Sequence[str]) -> None:
    for file in source.rglob("*"):
        name = file.relative_to(source).as_posix()
        if file.is_file() and any(fnmatch(name, pattern) for pattern in patterns):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, target / name)


@pytest.fixture
def folder_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderHub:
    made = FolderHub(tmp_path / "hub")
    monkeypatch.setattr(hub, "HfApi", lambda: made)
    monkeypatch.setattr(hub, "snapshot_download", made.download)
    return made


def test_a_dataset_comes_back_byte_for_byte_without_what_lies_beside_it(
    folder_hub: FolderHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = answer_store(tmp_path / "s", [5, 40])
    before = contents(store.path)
    (store.path / "contact-sheet.png").write_bytes(b"mine")
    assert main(["data", "push", str(store.path), "--to", "me/answers", "--private"]) == 0
    assert folder_hub.made == [{"name": "me/answers", "private": True, "type": "dataset"}]
    there = folder_hub.path("me/answers", "dataset")
    assert not (there / "contact-sheet.png").exists()
    card = (there / "README.md").read_text()
    assert f"- **Digest**: {store.digest}" in card
    assert "45 of" in card
    assert main(["data", "pull", "me/answers", "--out", str(tmp_path / "back")]) == 0
    assert contents(tmp_path / "back") == before
    assert EpisodeStore(tmp_path / "back").digest == store.digest
    assert "uploaded to hub/me/answers" in capsys.readouterr().out


def test_names_in_a_card_are_no_markup(tmp_path: Path) -> None:
    meanings = ("[x](y", "\x1b[31m\n# Title", "`", *map(str, range(13)))
    info = StoreInfo(env_id="x\n---\n<b>", frame_shape=(6, 8, 3), action_meanings=meanings, policy="p\n# Title")
    with open_writer(tmp_path / "s", info) as writer:
        writer.add(answer_episode(0, 20))
    card = hub.dataset_card("me/x", EpisodeStore(tmp_path / "s"))
    assert [line for line in card.splitlines() if line.startswith(("#", "---"))] == [
        "---", "---", r"# Episodes of x\n---\n&lt;b>", "# acvp data pull me/x --out data",
    ]  # fmt: skip
    assert r"- **Actions**: [x]\(y, \x1b[31m\n# Title, \`, 0, 1" in card
    assert "\x1b" not in card


def test_a_damaged_download_is_noticed(
    folder_hub: FolderHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = answer_store(tmp_path / "s", [5])
    hub.push_dataset("me/answers", store, private=False)
    part = folder_hub.path("me/answers", "dataset") / "episodes" / "000000.safetensors"
    part.write_bytes(part.read_bytes()[:-1] + b"\x07")
    assert main(["data", "pull", "me/answers", "--out", str(tmp_path / "back")]) == 2
    assert "is damaged: " in capsys.readouterr().err
    hub.push_dataset("me/answers", store, private=False)
    assert main(["data", "pull", "me/answers", "--out", str(tmp_path / "back")]) == 0  # run again, it resumes


def test_a_second_upload_replaces_the_first(folder_hub: FolderHub, tmp_path: Path) -> None:
    hub.push_dataset("me/answers", answer_store(tmp_path / "long", [5, 40, 7]), private=False)
    store = answer_store(tmp_path / "short", [9])
    hub.push_dataset("me/answers", store, private=False)
    parts = (folder_hub.path("me/answers", "dataset") / "episodes").iterdir()
    assert {part.name for part in parts} == {part.name for part in (store.path / "episodes").iterdir()}
    assert hub.pull_dataset("me/answers", tmp_path / "back").digest == store.digest


@pytest.mark.parametrize("name", ["episodes/000007.safetensors", "index.jsonl"])
def test_no_file_from_elsewhere_is_uploaded(
    name: str, folder_hub: FolderHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dataset of somebody else may contain symbolic links, which the hub's library follows."""
    store = answer_store(tmp_path / "s", [5])
    (tmp_path / "key").write_bytes((store.path / name).read_bytes() if (store.path / name).exists() else b"secret")
    (store.path / name).unlink(missing_ok=True)
    (store.path / name).symlink_to(tmp_path / "key")
    assert main(["data", "push", str(store.path), "--to", "me/answers"]) == 2
    assert "it lies outside" in capsys.readouterr().err
    assert folder_hub.made == []


def test_a_download_touches_nothing_that_lies_in_the_folder(folder_hub: FolderHub, tmp_path: Path) -> None:
    hub.push_dataset("me/answers", answer_store(tmp_path / "s", [5]), private=False)
    home = tmp_path / "home"
    (home / ".cache" / "huggingface").mkdir(parents=True)
    (home / ".cache" / "mine").write_bytes(b"mine")
    before = contents(home)
    with pytest.raises(acvp.UserError, match="not empty"):
        hub.pull_dataset("me/answers", home)
    assert contents(home) == before


def test_a_predictor_comes_back_with_its_card(folder_hub: FolderHub) -> None:
    assert main(["push", "freeway", "--to", "me/freeway"]) == 0
    there = folder_hub.path("me/freeway")
    assert fingerprint(acvp.load(there)) == fingerprint(acvp.load("freeway"))
    assert "predictor of ALE/Freeway-v5" in (there / "README.md").read_text()
    assert main(["push", "freeway", "--to", "me/hidden", "--private"]) == 0
    assert folder_hub.made == [
        {"name": "me/freeway", "private": False, "type": "model"},
        {"name": "me/hidden", "private": True, "type": "model"},
    ]


def refusals(tmp_path: Path) -> list[tuple[list[str], Exception | None, str]]:
    data = str(answer_store(tmp_path / "s", [5]).path)
    offline = hub.CONNECTION_ERROR("no route")
    assert isinstance(offline, Exception)
    assert not isinstance(offline, OSError)  # as the HTTP library raises it
    forbidden = HfHubHTTPError("403: no\nright to write", response=Mock())
    return [
        (["data", "push", data, "--to", "answers"], None, "--to answers: write owner/name"),
        (["data", "push", data, "--to", "me/x"], LocalTokenNotFoundError("token"), "not logged in to the hub; run hf"),
        (["data", "push", data, "--to", "me/x"], forbidden, "me/x: the hub answered: 403: no right to write"),
        (["data", "push", data, "--to", "me/x"], offline, "me/x: the hub cannot be reached (no route)"),
        (["push", "freeway", "--to", "me/x"], offline, "me/x: the hub cannot be reached (no route)"),
        (["data", "pull", "me/none", "--out", str(tmp_path / "o")], None, "me/none: the hub cannot be reached"),
        (["data", "pull", "answers", "--out", str(tmp_path / "o")], None, "acvp: answers: write owner/name"),
        (["data", "pull", "me/none", "--out", data], None, "exists already and is not empty"),
        (["push", "nowhere", "--to", "me/x"], None, "nowhere: no such folder"),
    ]


def test_refusals_are_one_line(folder_hub: FolderHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, error, message in refusals(tmp_path):
        folder_hub.error = error
        assert main(arguments) == 2, arguments
        errors = capsys.readouterr().err
        assert message in errors
        assert errors.count("\n") == 1


def test_the_replaced_functions_are_those_of_the_library() -> None:
    pairs: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
        (FolderHub.create_repo, HfApi.create_repo),
        (FolderHub.upload_folder, HfApi.upload_folder),
        (FolderHub.upload_file, HfApi.upload_file),
        (FolderHub.download, snapshot_download),
    ]
    for ours, theirs in pairs:
        named = {name for name, parameter in inspect.signature(ours).parameters.items() if parameter.kind == 3}
        assert named <= set(inspect.signature(theirs).parameters)
