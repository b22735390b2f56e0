"""Kinds of predictors: registered by import or by an entry point, and nothing that a file names is imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
from torch import Tensor

import acvp
from acvp.errors import UserError
from acvp.models import ConfigError, HistoryPredictor, Predictor, PredictorConfig, build_predictor, config, find_class
from acvp.pixel import PixelPredictor

PLUGIN = """
from dataclasses import dataclass
from acvp.models import CopyLastFrame, CopyLastFrameConfig

class PluginConfig(CopyLastFrameConfig):
    pass

class Plugin(CopyLastFrame, kind="plugin"):
    config_class = PluginConfig
"""


@dataclass(frozen=True, kw_only=True)
class OwnConfig(PredictorConfig):
    shift: float = 1.0


class Own(HistoryPredictor, kind="own-test"):
    config_class: ClassVar[type[Any]] = OwnConfig

    def __init__(self, config: OwnConfig, generator: Any) -> None:
        super().__init__(config)
        self.shift = config.shift

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, None]:
        return stacked[:, -self.config.frame[2] :] + self.shift * action.sum(1)[:, None, None, None], None


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path, for modules of a plugin that is installed as the kind `plugin`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(config, "_CLASSES", dict(config._CLASSES))
    points = [EntryPoint("plugin", "acvp_test_plugin:Plugin", config.ENTRY_POINTS)]
    monkeypatch.setattr(config, "entry_points", lambda group: points if group == "acvp.predictors" else [])
    yield tmp_path
    sys.modules.pop("acvp_test_plugin", None)


def test_a_kind_cannot_take_the_config_class_of_another() -> None:
    with pytest.raises(ConfigError, match="OwnConfig belongs to kind 'own-test'; give Thief its own"):

        class Thief(Own, kind="thief-test"):
            pass

    assert OwnConfig.kind == "own-test"
    assert "thief-test" not in config.kinds()


def test_a_class_is_found_by_kind_and_by_the_name_in_its_module() -> None:
    assert find_class("own-test") is Own
    assert find_class(f"{__name__}:Own") is Own
    assert find_class("pixel") is PixelPredictor


def test_only_imported_modules_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acvp_never_imported.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="acvp_never_imported is not imported; pass --import acvp_never_imported"):
        find_class("acvp_never_imported:Own")
    with pytest.raises(ConfigError, match="no predictor of this name"):
        find_class(f"{__name__}:OwnConfig")


def test_an_entry_point_is_loaded_when_its_kind_is_first_asked_for(plugin: Path) -> None:
    (plugin / "acvp_test_plugin.py").write_text(PLUGIN)
    assert "plugin" in config.kinds()
    assert "acvp_test_plugin" not in sys.modules
    assert find_class("plugin").__name__ == "Plugin"


def test_a_broken_plugin_gives_a_clear_error(plugin: Path) -> None:
    (plugin / "acvp_test_plugin.py").write_text("import nothing_of_this_name")
    with pytest.raises(ConfigError, match=r"kind 'plugin' is installed.*cannot be imported.*nothing_of_this_name"):
        find_class("plugin")
    (plugin / "acvp_test_plugin.py").write_text("Plugin = 1")
    sys.modules.pop("acvp_test_plugin", None)
    with pytest.raises(ConfigError, match="defines no predictor with kind='plugin'"):
        find_class("plugin")


def test_a_folder_of_an_unknown_kind_says_what_to_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor: Predictor = build_predictor(OwnConfig(actions=2, frame=(6, 6, 3)))
    predictor.save_pretrained(tmp_path / "own")
    assert isinstance(acvp.load(tmp_path / "own"), Own)
    known = {kind: cls for kind, cls in config._CLASSES.items() if kind != "own-test"}
    monkeypatch.setattr(config, "_CLASSES", known)
    with pytest.raises(UserError, match=r"kind is 'own-test'.*import its module first \(--import my_module"):
        acvp.load(tmp_path / "own")
