"""What `acvp play` and `acvp export` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from acvp.errors import UserError
from acvp.options import AT_ONCE, require, require_seed

SLOWEST, FASTEST = 1.0, 60.0
"""Agent steps per second that a player may set."""
HOTTEST = 10.0
"""The highest temperature that is taken, far beyond what is of use."""


@dataclass(frozen=True, kw_only=True)
class PlayConfig:
    """Play a predictor in the browser, beside the real game and under the same keys."""

    predictors: Annotated[tuple[str, ...], arg(metavar="PREDICTOR …")] = ("freeway",)
    """Folders of runs or predictors, or names of predictors that come with acvp; the page begins with the first one
    and can switch to any packaged predictor too."""
    data: Path | None = None
    """Store to scrub through; where the game is not installed, the dream starts from its frames."""
    policy: str = "sticky-random"
    """Who plays when you do not (key m): random, sticky-random, agent:NAME, or module:function of your own."""
    temperature: float = 0.0
    """Draw colors by their probabilities, for games with chance (pixel-exact predictors): 1 as likely as predicted, 0
    always the likeliest."""
    fps: float = 15.0
    """Agent steps per second; 15 is real time for Atari. The page can change it."""
    port: int = 8710
    """Where the page is served on this machine; where it is taken, the next free one."""
    browser: bool = True
    """Open the page in your browser."""
    sessions: int = 4
    """Pages that may play at once."""
    rewind_mb: int = 128
    """Memory of a page for rewinding: the last 15 agent steps, then every fifth, as many as fit (MB)."""
    seed: int = 0
    """Of the first game; every reset counts one up."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""

    def __post_init__(self) -> None:
        if not 0 <= self.temperature <= HOTTEST:
            raise UserError(f"--temperature {self.temperature:g}: 0 (always the likeliest) to {HOTTEST:g} are possible")
        if not SLOWEST <= self.fps <= FASTEST:
            raise UserError(f"--fps {self.fps:g}: {SLOWEST:g} to {FASTEST:g} agent steps per second are possible")
        require(1, 65535, port=self.port)
        require(1, AT_ONCE, sessions=self.sessions)
        require(1, rewind_mb=self.rewind_mb)
        require_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class PredictorExportConfig:
    """Turn a predictor into ONNX files, or into a folder of web pages that plays it without a server."""

    predictor: Annotated[str, arg(metavar="PREDICTOR")] = "freeway"
    """Folder of a run or predictor, or the name of a predictor that comes with acvp."""
    onnx: Path | None = None
    """New folder for observe.onnx, step.onnx and predictor.json, checked against torch."""
    web: Path | None = None
    """New folder for a page that plays the dream from any static host; needs npm, once."""
    data: Path | None = None
    """web: store whose frames the dream starts from; None: the game is played a little."""
    starts: int = 4
    """web: places to start from."""
    seed: int = 0
    """web: which places."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""

    def __post_init__(self) -> None:
        if self.onnx is None and self.web is None:
            raise UserError("nothing to write: name a folder with --onnx or --web")
        require(1, starts=self.starts)
        require_seed(self.seed)
