"""What `acvp play` and `acvp export` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from acvp.console import Module, optional
from acvp.errors import AT_ONCE, UserError, require, require_seed
from acvp.play.history import HOTTEST, WHEN_LOST, AutoResync

SLOWEST, FASTEST = 1.0, 60.0
"""Agent steps per second that a player may set."""


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """Play a predictor in the browser, side by side with the real game."""

    predictors: Annotated[tuple[str, ...], optional("PREDICTOR …", "choose on the page")] = ()
    """Run folders, predictor folders or packaged names (freeway).
    The page starts with the first one and can switch to the others and to all packaged ones."""
    data: Annotated[Path | None, optional("DATASET", "none")] = None
    """Dataset to browse on the page. If the game is not installed, the dream starts from its frames."""
    policy: Annotated[str, arg(metavar="POLICY")] = "agent"
    """Policy that plays when you do not (key m), as in acvp collect.
    agent: the packaged agent of the game; sticky-random if there is none."""
    temperature: float = 0.0
    """Sampling temperature: 0 = argmax, 1 = sample. For pixel models."""
    fps: float = 15.0
    """Agent steps per second. 15 is real time for Atari; the page can change it."""
    port: int = 8710
    """Port of the local web server. If it is taken, the next free one is used."""
    browser: bool = True
    """Open the page in the browser."""
    sessions: int = 4
    """Maximum number of pages that can play at the same time."""
    rewind_mb: int = 128
    """Size of the rewind buffer of each page, in MB. It keeps the last 15 agent steps, then every fifth."""
    fast_forward: bool = True
    """Start in the middle of a game: wait until keys work, then let the policy play one to six seconds."""
    auto_resync: Annotated[str, arg(metavar="MODE")] = WHEN_LOST
    """When the dream is resynced with the real frames without a key press: off, lost, or after a number of steps.
    lost: when the controlled object is not found for a second, and after 300 steps at the latest.
    The page can change it."""
    record: Annotated[Path | None, optional("PATH", "record nothing")] = None
    """Folder for recordings of the games that you play: a dataset for each game."""
    seed: int = 0
    """Random seed of the first game. Each reset adds 1."""
    import_module: Module = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= HOTTEST:
            raise UserError(f"--temperature {self.temperature:g}: 0 (always the likeliest) to {HOTTEST:g} are possible")
        if not SLOWEST <= self.fps <= FASTEST:
            raise UserError(f"--fps {self.fps:g}: {SLOWEST:g} to {FASTEST:g} agent steps per second are possible")
        require(1, 65535, port=self.port)
        require(1, AT_ONCE, sessions=self.sessions)
        require(1, rewind_mb=self.rewind_mb)
        AutoResync.parse(self.auto_resync)
        require_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class PredictorExportConfig:
    """Export a predictor to ONNX files, or one or more to a static web page that needs no server."""

    predictors: Annotated[tuple[str, ...], arg(metavar="PREDICTOR …", aliases=("--predictor",))] = ("freeway",)
    """Run folders, predictor folders or packaged names (freeway).
    With --web, several become a gallery with a landing page; --onnx takes one."""
    onnx: Annotated[Path | None, optional("PATH", "no ONNX export")] = None
    """New folder for observe.onnx, step.onnx and predictor.json. Outputs are compared with PyTorch's."""
    web: Annotated[Path | None, optional("PATH", "no web export")] = None
    """New folder for a static web page that runs the predictor in the browser. Building it needs npm."""
    data: Annotated[Path | None, optional("DATASET", "play the game briefly")] = None
    """With --web: dataset with the frames that the dream starts from."""
    starts: int = 4
    """With --web: number of start states of each predictor."""
    seed: int = 0
    """With --web: random seed of the start states."""
    import_module: Module = None

    def __post_init__(self) -> None:
        if self.onnx is None and self.web is None:
            raise UserError("nothing to write: name a folder with --onnx or --web")
        if not self.predictors:
            raise UserError("nothing to export: name a predictor with --predictors")
        if self.onnx is not None and len(self.predictors) > 1:
            raise UserError(f"--onnx takes one predictor, {len(self.predictors)} are named: export them one by one")
        require(1, starts=self.starts)
        require_seed(self.seed)
