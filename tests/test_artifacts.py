"""Artifacts: what files hold comes back, config.json is written last, and wrong files are refused."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from acvp import artifacts
from acvp.artifacts import CARD_NAME, CONFIG_NAME, WEIGHTS_NAME, ArtifactError, Kind
from acvp.durable import seal, unseal

KIND = Kind("a line", format="line-1", network="line")


@dataclass(frozen=True)
class About:
    name: str


class Line(nn.Module):
    """Two numbers and a count."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.layer = nn.Linear(inputs, 1)
        self.register_buffer("count", torch.zeros(1, dtype=torch.int64))


def build(config: dict[str, Any]) -> tuple[Line, About]:
    return Line(config["line"]["inputs"]), About(**config["about"])


@pytest.fixture
def files() -> dict[str, bytes]:
    return artifacts.to_files(KIND, Line(3), {"inputs": 3}, About("x"), "card")


@pytest.mark.parametrize(("half", "tolerance"), [(False, 0.0), (True, 1e-3)])
def test_what_is_stored_comes_back(half: bool, tolerance: float) -> None:
    line = Line(3)
    line.get_buffer("count")[0] = 2**40
    files = artifacts.to_files(KIND, line, {"inputs": 3}, About("x"), "card", half=half)
    again, about = artifacts.from_files(KIND, files, build)
    assert about == About("x")
    assert not again.training
    assert again.layer.weight.dtype == torch.float32
    torch.testing.assert_close(again.layer.weight, line.layer.weight, atol=tolerance, rtol=0)
    assert int(again.get_buffer("count")) == 2**40
    assert (len(files[WEIGHTS_NAME]) < len(artifacts.to_files(KIND, line, {}, None, "")[WEIGHTS_NAME])) == half


def test_networks_are_built_without_memory(files: dict[str, bytes]) -> None:
    """A file that names a network of terabytes is refused for what it holds, not after an attempt to allocate it."""
    devices = []

    def watched(config: dict[str, Any]) -> tuple[Line, About]:
        line, about = build(config)
        devices.append(line.layer.weight.device.type)
        return line, about

    artifacts.from_files(KIND, files, watched)
    assert devices == ["meta"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "line-2"}, "config.json is not the configuration of a line: it is not of format line-1"),
        ({"more": 1}, "its fields must be"),
        ({"line": {"inputs": 4}}, "config.json and model.safetensors do not make a line"),
        ({"line": {}}, "config.json and model.safetensors do not make a line"),
        ({"about": {}}, "config.json and model.safetensors do not make a line"),
        ({"weights_sha256": "0"}, "the checksum of model.safetensors is not the one in config.json"),
    ],
)
def test_other_values_are_refused(files: dict[str, bytes], change: dict[str, Any], message: str) -> None:
    files[CONFIG_NAME] = seal(unseal(files[CONFIG_NAME]) | change)
    with pytest.raises(ArtifactError, match=message):
        artifacts.from_files(KIND, files, build)


def test_other_types_of_numbers_are_refused(files: dict[str, bytes]) -> None:
    doubled = artifacts.to_files(KIND, Line(3).double(), {"inputs": 3}, About("x"), "card")
    with pytest.raises(ArtifactError, match=r"layer.weight is torch.float64, expected torch.float32"):
        artifacts.from_files(KIND, doubled, build)


def test_an_edited_config_is_refused(files: dict[str, bytes]) -> None:
    body = json.loads(files[CONFIG_NAME])
    files[CONFIG_NAME] = json.dumps(body | {"about": {"name": "y"}}).encode()
    with pytest.raises(ArtifactError, match="does not match its text"):
        artifacts.from_files(KIND, files, build)


def test_config_is_written_last(files: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    monkeypatch.setattr(artifacts, "write_atomic", lambda path, data: written.append(path.name))
    artifacts.write_folder(tmp_path / "line", dict(sorted(files.items(), key=lambda item: item[0] != CONFIG_NAME)))
    assert sorted(written) == sorted([CARD_NAME, CONFIG_NAME, WEIGHTS_NAME])
    assert written[-1] == CONFIG_NAME


def test_folders_are_read_back(files: dict[str, bytes], tmp_path: Path) -> None:
    artifacts.write_folder(tmp_path / "line", files)
    assert artifacts.read_folder(tmp_path / "line") == {name: files[name] for name in (CONFIG_NAME, WEIGHTS_NAME)}
    (tmp_path / "line" / CONFIG_NAME).write_bytes(b" " * (artifacts.MAX_CONFIG + 1))
    with pytest.raises(ArtifactError, match=r"config\.json: 1,048,577 bytes are too many"):
        artifacts.read_folder(tmp_path / "line")


def test_links_may_not_lead_out_of_a_folder(files: dict[str, bytes], tmp_path: Path) -> None:
    folder = tmp_path / "line"
    artifacts.write_folder(folder, files)
    (folder / WEIGHTS_NAME).rename(tmp_path / "weights")
    (folder / WEIGHTS_NAME).symlink_to(tmp_path / "weights")
    with pytest.raises(ArtifactError, match=r"model\.safetensors: cannot be read .*outside"):
        artifacts.read_folder(folder)
    assert artifacts.read_folder(folder, within=tmp_path)[WEIGHTS_NAME] == files[WEIGHTS_NAME]


def test_a_card_lists_facts_and_license() -> None:
    card = artifacts.make_card("T", tags="a, b", text="Text.", facts={"Data": "much"}, example="import x")
    assert card.startswith("---\nlicense: mit\nlibrary_name: acvp\ntags: [a, b]\n---\n# T\n\nText.\n\n- **Data**: much")
    assert card.endswith("- **License**: MIT\n\n```python\nimport x\n```\n")
